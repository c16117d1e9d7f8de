#include "text/chat_template/jinja_evaluate.h"
#include "text/chat_template/jinja_filters.h"
#include "text/chat_template/jinja_repr.h"

/* ---- Variables ------------------------------------------------------------------------------------------------- */

static tfm__jinja_value lookup(tfm__jinja *j, tfm__jinja_frame *frame, const tfm__jinja_string *name) {
    const tfm__jinja_value key = {.type = TFM__JINJA_STRING, .string = name};
    for (; frame; frame = frame->parent) {
        const tfm__jinja_value *found = frame->variables ? tfm__jinja_dict_find(j, frame->variables, key) : NULL;
        if (found)
            return *found;
    }
    const tfm__jinja_value global = tfm__jinja_global(j, name);
    return tfm__jinja_is(global, TFM__JINJA_MISSING)
               ? tfm__jinja_undefined(j, "'%.*s' is undefined", (int)name->bytes, name->data)
               : global;
}

void tfm__jinja_set_variable(tfm__jinja *j, tfm__jinja_frame *frame, const tfm__jinja_string *name,
                             tfm__jinja_value value) {
    if (!frame->variables)
        frame->variables = tfm__jinja_dict_new(j).dict;
    if (j->status == TFM_OK)
        tfm__jinja_dict_set(j, frame->variables, (tfm__jinja_value){.type = TFM__JINJA_STRING, .string = name}, value);
}

/* Fails unless all attributes of a target belong to namespaces. */
static void check_namespaces(tfm__jinja *j, const tfm__jinja_node *target, tfm__jinja_frame *frame) {
    if (target->kind == TFM__JINJA_N_TUPLE) {
        for (const tfm__jinja_node *item = target->list; item; item = item->next)
            check_namespaces(j, item, frame);
    } else if (target->kind == TFM__JINJA_N_NSREF) {
        if (!tfm__jinja_is(lookup(j, frame, target->name), TFM__JINJA_NAMESPACE))
            tfm__jinja_error(j, "cannot assign attribute on non-namespace object");
        if (target->value.string->bytes && *target->value.string->data == '_')
            tfm__jinja_error(j, "an attribute of a namespace begins with an underscore");
    }
}

static void assign(tfm__jinja *j, const tfm__jinja_node *target, tfm__jinja_frame *frame, tfm__jinja_value value) {
    if (j->status != TFM_OK)
        return;
    if (target->kind == TFM__JINJA_N_NAME) {
        tfm__jinja_set_variable(j, frame, target->name, value);
    } else if (target->kind == TFM__JINJA_N_NSREF) {
        const tfm__jinja_value namespace = lookup(j, frame, target->name);
        if (j->status == TFM_OK && tfm__jinja_is(namespace, TFM__JINJA_NAMESPACE))
            tfm__jinja_dict_set(j, namespace.dict, target->value, value);
    } else {
        size_t count = 0, i = 0;
        const tfm__jinja_value items = tfm__jinja_to_list(j, value);
        for (const tfm__jinja_node *item = target->list; item; item = item->next)
            count++;
        if (j->status == TFM_OK && items.list->count != count)
            tfm__jinja_error(j, "%zu values where %zu are assigned", items.list->count, count);
        for (const tfm__jinja_node *item = target->list; item && j->status == TFM_OK; item = item->next)
            assign(j, item, frame, items.list->items[i++]);
    }
}

void tfm__jinja_assign(tfm__jinja *j, const tfm__jinja_node *target, tfm__jinja_frame *frame, tfm__jinja_value value) {
    check_namespaces(j, target, frame);
    assign(j, target, frame, value);
}

/* ---- Calls ----------------------------------------------------------------------------------------------------- */

/* Arguments being collected. */
typedef struct collected {
    tfm__jinja_value items;         /* a list */
    tfm__jinja_value names, values; /* lists of the same length */
} collected;

static void add_named(tfm__jinja *j, collected *c, tfm__jinja_value name, tfm__jinja_value value) {
    if (!tfm__jinja_is(name, TFM__JINJA_STRING)) {
        tfm__jinja_error(j, "keywords must be strings");
        return;
    }
    for (size_t i = 0; i < c->names.list->count && j->status == TFM_OK; i++)
        if (tfm__jinja_equal(j, c->names.list->items[i], name))
            tfm__jinja_error(j, "multiple values for the argument '%.*s'", (int)name.string->bytes, name.string->data);
    if (j->status == TFM_OK)
        tfm__jinja_list_add(j, c->names, name);
    if (j->status == TFM_OK)
        tfm__jinja_list_add(j, c->values, value);
}

static void collect(tfm__jinja *j, collected *c, const tfm__jinja_node *node, tfm__jinja_frame *frame) {
    tfm__jinja_value item;
    const bool plain =
        node->kind != TFM__JINJA_N_KEYWORD && node->kind != TFM__JINJA_N_STAR && node->kind != TFM__JINJA_N_STAR_STAR;
    const tfm__jinja_value value = tfm__jinja_evaluate(j, plain ? node : node->a, frame);
    if (j->status != TFM_OK)
        return;
    if (plain) {
        tfm__jinja_list_add(j, c->items, value);
    } else if (node->kind == TFM__JINJA_N_KEYWORD) {
        add_named(j, c, (tfm__jinja_value){.type = TFM__JINJA_STRING, .string = node->name}, value);
    } else if (node->kind == TFM__JINJA_N_STAR) {
        tfm__jinja_iterator *it = tfm__jinja_iterate(j, value);
        while (!tfm__jinja_is(item = tfm__jinja_iterator_next(j, it), TFM__JINJA_MISSING))
            tfm__jinja_list_add(j, c->items, item);
    } else if (!tfm__jinja_is(value, TFM__JINJA_DICT)) {
        tfm__jinja_error(j, "argument after ** must be a mapping, not %s", tfm__jinja_kind(value));
    } else {
        for (size_t i = 0; i < value.dict->count && j->status == TFM_OK; i++)
            add_named(j, c, value.dict->entries[i].key, value.dict->entries[i].value);
    }
}

/* Evaluates arguments; false after a failure. */
static bool evaluate_args(tfm__jinja *j, tfm__jinja_args *out, const tfm__jinja_node *list, tfm__jinja_frame *frame,
                          tfm__jinja_value caller) {
    *out = (tfm__jinja_args){0};
    if (!list && tfm__jinja_is(caller, TFM__JINJA_MISSING))
        return j->status == TFM_OK;
    collected c = {tfm__jinja_list_new(j, TFM__JINJA_LIST, 0), tfm__jinja_list_new(j, TFM__JINJA_LIST, 0),
                   tfm__jinja_list_new(j, TFM__JINJA_LIST, 0)};
    for (; list && j->status == TFM_OK; list = list->next)
        collect(j, &c, list, frame);
    if (!tfm__jinja_is(caller, TFM__JINJA_MISSING) && j->status == TFM_OK)
        add_named(j, &c, tfm__jinja_text(j, "caller"), caller);
    const size_t named = j->status == TFM_OK ? c.names.list->count : 0;
    const tfm__jinja_string **names = tfm__jinja_alloc(j, named + 1, sizeof(const tfm__jinja_string *));
    if (!names)
        return false;
    for (size_t i = 0; i < named; i++)
        names[i] = c.names.list->items[i].string;
    *out = (tfm__jinja_args){.count = c.items.list->count,
                             .named = named,
                             .items = c.items.list->items,
                             .names = names,
                             .values = c.values.list->items};
    return j->status == TFM_OK;
}

tfm__jinja_value tfm__jinja_evaluate_call(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame,
                                          tfm__jinja_value caller) {
    tfm__jinja_args args;
    const tfm__jinja_value function = tfm__jinja_evaluate(j, node->a, frame);
    if (!evaluate_args(j, &args, node->list, frame, caller))
        return tfm__jinja_none();
    j->line = node->line;
    return j->hooks.call(j, function, &args);
}

tfm__jinja_value tfm__jinja_evaluate_filter(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame,
                                            tfm__jinja_value text) {
    tfm__jinja_args args;
    if (!node || j->status != TFM_OK)
        return text;
    if (!tfm__jinja_enter(j))
        return text;
    const tfm__jinja_value value = node->a && node->a->kind != TFM__JINJA_N_FILTER
                                       ? tfm__jinja_evaluate(j, node->a, frame)
                                       : tfm__jinja_evaluate_filter(j, node->a, frame, text);
    const bool good = evaluate_args(j, &args, node->list, frame, tfm__jinja_of(TFM__JINJA_MISSING));
    j->line = node->line;
    tfm__jinja_leave(j);
    return good ? tfm__jinja_call_filter(j, node->name, value, &args) : value;
}

static tfm__jinja_value evaluate_test(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame) {
    tfm__jinja_args args;
    const tfm__jinja_value value = tfm__jinja_evaluate(j, node->a, frame);
    if (!evaluate_args(j, &args, node->list, frame, tfm__jinja_of(TFM__JINJA_MISSING)))
        return tfm__jinja_none();
    j->line = node->line;
    return tfm__jinja_bool(tfm__jinja_call_test(j, node->name, value, &args));
}

/* ---- Operators ------------------------------------------------------------------------------------------------- */

static bool compares(tfm__jinja *j, const tfm__jinja_string *op, tfm__jinja_value a, tfm__jinja_value b) {
    const char first = *op->data;
    const bool or_equal = op->bytes == 2;
    if (first == 'i')
        return tfm__jinja_contains(j, b, a);
    if (first == 'n')
        return !tfm__jinja_contains(j, b, a);
    if (first == '=')
        return tfm__jinja_equal(j, a, b);
    if (first == '!')
        return !tfm__jinja_equal(j, a, b);
    const int order = tfm__jinja_compare(j, a, b, first == '<' ? (or_equal ? "<=" : "<") : or_equal ? ">=" : ">");
    return j->status == TFM_OK && ((or_equal && order == 0) || order == (first == '<' ? -1 : 1));
}

static tfm__jinja_value evaluate_compare(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame) {
    tfm__jinja_value left = tfm__jinja_evaluate(j, node->a, frame);
    for (const tfm__jinja_node *operand = node->list; operand && j->status == TFM_OK; operand = operand->next) {
        const tfm__jinja_value right = tfm__jinja_evaluate(j, operand->a, frame);
        j->line = node->line;
        if (j->status != TFM_OK || !compares(j, operand->name, left, right))
            return tfm__jinja_bool(false);
        left = right;
    }
    return tfm__jinja_bool(true);
}

static tfm__jinja_value evaluate_concat(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame) {
    tfm__jinja_writer out = {.j = j};
    tfm__jinja_write_str(&out, tfm__jinja_evaluate(j, node->a, frame));
    if (j->status == TFM_OK)
        tfm__jinja_write_str(&out, tfm__jinja_evaluate(j, node->b, frame));
    return tfm__jinja_written(&out);
}

static tfm__jinja_value evaluate_list(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame) {
    const tfm__jinja_value list =
        tfm__jinja_list_new(j, node->kind == TFM__JINJA_N_TUPLE ? TFM__JINJA_TUPLE : TFM__JINJA_LIST, 0);
    for (const tfm__jinja_node *item = node->list; item && j->status == TFM_OK; item = item->next) {
        const tfm__jinja_value value = tfm__jinja_evaluate(j, item, frame);
        if (j->status == TFM_OK)
            tfm__jinja_list_add(j, list, value);
    }
    return list;
}

static tfm__jinja_value evaluate_dict(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame) {
    const tfm__jinja_value dict = tfm__jinja_dict_new(j);
    for (const tfm__jinja_node *item = node->list; item && j->status == TFM_OK; item = item->next) {
        const tfm__jinja_value key = tfm__jinja_evaluate(j, item->a, frame),
                               value = tfm__jinja_evaluate(j, item->b, frame);
        if (j->status == TFM_OK)
            tfm__jinja_dict_set(j, dict.dict, key, value);
    }
    return dict;
}

static tfm__jinja_value evaluate_slice(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame) {
    const tfm__jinja_node *const parts[] = {node->a, node->b, node->c};
    const tfm__jinja_value slice = tfm__jinja_list_new(j, TFM__JINJA_SLICE, 3);
    for (size_t i = 0; i < 3 && j->status == TFM_OK; i++) {
        const tfm__jinja_value part = parts[i] ? tfm__jinja_evaluate(j, parts[i], frame) : tfm__jinja_none();
        if (j->status == TFM_OK)
            tfm__jinja_list_add(j, slice, part);
    }
    return slice;
}

static tfm__jinja_value evaluate_condition(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame) {
    const bool is = tfm__jinja_truth(tfm__jinja_evaluate(j, node->a, frame));
    if (is || node->c)
        return tfm__jinja_evaluate(j, is ? node->b : node->c, frame);
    return tfm__jinja_undefined(j, "the inline if-expression of line %d is false and has no else", node->line);
}

static tfm__jinja_value evaluate_pair(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame) {
    const tfm__jinja_value a = tfm__jinja_evaluate(j, node->a, frame);
    if (node->kind == TFM__JINJA_N_OR || node->kind == TFM__JINJA_N_AND)
        return tfm__jinja_truth(a) == (node->kind == TFM__JINJA_N_OR) ? a : tfm__jinja_evaluate(j, node->b, frame);
    const tfm__jinja_value b = tfm__jinja_evaluate(j, node->b, frame);
    j->line = node->line;
    if (j->status != TFM_OK)
        return a;
    return node->kind == TFM__JINJA_N_GETITEM ? tfm__jinja_getitem(j, a, b) : tfm__jinja_binary(j, node->name, a, b);
}

static tfm__jinja_value evaluate_one(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame) {
    const tfm__jinja_value a = tfm__jinja_evaluate(j, node->a, frame);
    j->line = node->line;
    if (j->status != TFM_OK)
        return a;
    return node->kind == TFM__JINJA_N_NOT       ? tfm__jinja_bool(!tfm__jinja_truth(a))
           : node->kind == TFM__JINJA_N_GETATTR ? tfm__jinja_getattr(j, a, node->name)
                                                : tfm__jinja_negative(j, a, node->kind == TFM__JINJA_N_NEG);
}

static tfm__jinja_value evaluate(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame) {
    switch (node->kind) {
    case TFM__JINJA_N_CONST:
        return node->value;
    case TFM__JINJA_N_NAME:
        return lookup(j, frame, node->name);
    case TFM__JINJA_N_TUPLE:
    case TFM__JINJA_N_LIST:
        return evaluate_list(j, node, frame);
    case TFM__JINJA_N_DICT:
        return evaluate_dict(j, node, frame);
    case TFM__JINJA_N_SLICE:
        return evaluate_slice(j, node, frame);
    case TFM__JINJA_N_COND:
        return evaluate_condition(j, node, frame);
    case TFM__JINJA_N_OR:
    case TFM__JINJA_N_AND:
    case TFM__JINJA_N_BINARY:
    case TFM__JINJA_N_GETITEM:
        return evaluate_pair(j, node, frame);
    case TFM__JINJA_N_NOT:
    case TFM__JINJA_N_NEG:
    case TFM__JINJA_N_POS:
    case TFM__JINJA_N_GETATTR:
        return evaluate_one(j, node, frame);
    case TFM__JINJA_N_COMPARE:
        return evaluate_compare(j, node, frame);
    case TFM__JINJA_N_CONCAT:
        return evaluate_concat(j, node, frame);
    case TFM__JINJA_N_CALL:
        return tfm__jinja_evaluate_call(j, node, frame, tfm__jinja_of(TFM__JINJA_MISSING));
    case TFM__JINJA_N_FILTER:
        return tfm__jinja_evaluate_filter(j, node, frame, tfm__jinja_none());
    case TFM__JINJA_N_TEST:
        return evaluate_test(j, node, frame);
    default:
        return tfm__jinja_error(j, "this is no expression");
    }
}

tfm__jinja_value tfm__jinja_evaluate(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame) {
    if (!tfm__jinja_enter(j))
        return tfm__jinja_none();
    j->line = node->line;
    const tfm__jinja_value value = evaluate(j, node, frame);
    tfm__jinja_leave(j);
    return j->status == TFM_OK ? value : tfm__jinja_none();
}
