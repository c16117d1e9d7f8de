/* Statements, loops and macros. */
#include "text/chat_template/jinja_evaluate.h"
#include "text/chat_template/jinja_filters.h"
#include "text/chat_template/jinja_methods.h"
#include "text/chat_template/jinja_repr.h"

typedef enum signal { NEXT, BREAK, CONTINUE } signal;

static signal execute_body(tfm__jinja *j, tfm__jinja_writer *out, const tfm__jinja_node *node, tfm__jinja_frame *frame);

static tfm__jinja_frame *new_frame(tfm__jinja *j, tfm__jinja_frame *parent) {
    tfm__jinja_frame *frame = tfm__jinja_alloc(j, 1, sizeof(*frame));
    if (frame)
        frame->parent = parent;
    return frame;
}

/* ---- Loops ----------------------------------------------------------------------------------------------------- */

typedef struct loop_filter {
    const tfm__jinja_node *node;
    tfm__jinja_frame *frame;
} loop_filter;

/* The items that the condition of `for ... if` accepts. */
static tfm__jinja_value next_accepted(tfm__jinja *j, tfm__jinja_iterator *it) {
    const loop_filter *filter = it->state;
    tfm__jinja_value item;
    while (!tfm__jinja_is(item = tfm__jinja_iterator_next(j, it->inner), TFM__JINJA_MISSING)) {
        tfm__jinja_frame frame = {.parent = filter->frame};
        tfm__jinja_assign(j, filter->node->a, &frame, item);
        if (tfm__jinja_truth(tfm__jinja_evaluate(j, filter->node->c, &frame)))
            break;
    }
    return item;
}

static tfm__jinja_object *new_loop(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame,
                                   tfm__jinja_value iterable, int64_t depth) {
    tfm__jinja_object *loop = tfm__jinja_alloc(j, 1, sizeof(*loop));
    loop_filter *filter = tfm__jinja_alloc(j, 1, sizeof(*filter));
    tfm__jinja_iterator *items = tfm__jinja_iterate(j, iterable);
    if (!loop || !filter || !items)
        return NULL;
    *filter = (loop_filter){node, frame};
    if (node->c)
        iterable = tfm__jinja_generator(j, next_accepted, items, filter);
    const tfm__jinja_value missing = tfm__jinja_of(TFM__JINJA_MISSING);
    *loop = (tfm__jinja_object){.node = node,
                                .frame = frame,
                                .iterable = iterable,
                                .current = missing,
                                .before = missing,
                                .after = missing,
                                .changed = missing,
                                .index = -1,
                                .length = -1,
                                .depth = depth};
    loop->iterator = j->status == TFM_OK && node->c ? iterable.iterator : items;
    return j->status == TFM_OK ? loop : NULL;
}

static signal run_loop(tfm__jinja *j, tfm__jinja_writer *out, const tfm__jinja_node *node, tfm__jinja_frame *parent,
                       tfm__jinja_value iterable, int64_t depth) {
    static const tfm__jinja_string name = {"loop", 4, 4};
    tfm__jinja_object *loop = j->status == TFM_OK ? new_loop(j, node, parent, iterable, depth) : NULL;
    tfm__jinja_value item;
    signal way = NEXT;
    bool complete = false;
    tfm__jinja_frame *frame = NULL;
    while (loop && way != BREAK && !tfm__jinja_is(item = tfm__jinja_loop_next(j, loop), TFM__JINJA_MISSING)) {
        if (!frame || node->keeps_scope)
            frame = new_frame(j, parent);
        else if (frame->variables)
            tfm__jinja_dict_clear(frame->variables);
        if (!frame)
            break;
        tfm__jinja_set_variable(j, frame, &name, (tfm__jinja_value){.type = TFM__JINJA_LOOP, .object = loop});
        j->line = node->line;
        tfm__jinja_assign(j, node->a, frame, item);
        way = execute_body(j, out, node->body, frame);
        complete |= way == NEXT;
    }
    /* jinja2 runs `else` unless an iteration comes to its end. */
    if (node->other && j->status == TFM_OK && !complete) {
        tfm__jinja_frame *other = new_frame(j, parent);
        return other ? execute_body(j, out, node->other, other) : NEXT;
    }
    return NEXT;
}

static signal execute_for(tfm__jinja *j, tfm__jinja_writer *out, const tfm__jinja_node *node, tfm__jinja_frame *frame) {
    const tfm__jinja_value iterable = tfm__jinja_evaluate(j, node->b, frame);
    j->line = node->line;
    return run_loop(j, out, node, frame, iterable, 0);
}

/* ---- Macros ---------------------------------------------------------------------------------------------------- */

static tfm__jinja_value new_macro(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame) {
    tfm__jinja_object *macro = tfm__jinja_alloc(j, 1, sizeof(*macro));
    if (!macro)
        return tfm__jinja_none();
    macro->node = node;
    macro->frame = frame;
    return (tfm__jinja_value){.type = TFM__JINJA_MACRO, .object = macro};
}

static bool same(const tfm__jinja_string *a, const tfm__jinja_string *b) {
    return a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

/* Sets the parameters; *used counts the named arguments that they take. */
static size_t bind_parameters(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame,
                              const tfm__jinja_args *args, bool *used) {
    size_t i = 0;
    for (const tfm__jinja_node *parameter = node->list; parameter && j->status == TFM_OK;
         parameter = parameter->next, i++) {
        tfm__jinja_value value = i < args->count ? args->items[i] : tfm__jinja_of(TFM__JINJA_MISSING);
        for (size_t k = 0; i >= args->count && k < args->named; k++)
            if (same(args->names[k], parameter->name)) {
                value = args->values[k];
                used[k] = true;
            }
        if (tfm__jinja_is(value, TFM__JINJA_MISSING) && parameter->a)
            value = tfm__jinja_evaluate(j, parameter->a, frame);
        else if (tfm__jinja_is(value, TFM__JINJA_MISSING))
            value = tfm__jinja_undefined(j, "parameter '%.*s' was not provided", (int)parameter->name->bytes,
                                         parameter->name->data);
        tfm__jinja_set_variable(j, frame, parameter->name, value);
    }
    return i;
}

static bool has_parameter(const tfm__jinja_node *node, const char *name) {
    for (const tfm__jinja_node *parameter = node->list; parameter; parameter = parameter->next)
        if (tfm__jinja_string_is(parameter->name, name))
            return true;
    return false;
}

/* Sets caller, kwargs and varargs where the body uses them; fails for other arguments that are left. */
static void bind_rest(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame, const tfm__jinja_args *args,
                      size_t parameters, const bool *used) {
    static const tfm__jinja_string caller = {"caller", 6, 6}, kwargs = {"kwargs", 6, 6}, varargs = {"varargs", 7, 7};
    const bool takes_caller = node->caller && !has_parameter(node, "caller"),
               takes_named = node->kwargs && !has_parameter(node, "kwargs"),
               takes_more = node->varargs && !has_parameter(node, "varargs");
    const tfm__jinja_value rest = tfm__jinja_dict_new(j), more = tfm__jinja_list_new(j, TFM__JINJA_TUPLE, 0);
    if (takes_caller)
        tfm__jinja_set_variable(j, frame, &caller, tfm__jinja_undefined(j, "No caller defined"));
    for (size_t i = 0; i < args->named && j->status == TFM_OK; i++) {
        if (used[i])
            continue;
        if (takes_caller && same(args->names[i], &caller))
            tfm__jinja_set_variable(j, frame, &caller, args->values[i]);
        else if (takes_named)
            tfm__jinja_dict_set(j, rest.dict, (tfm__jinja_value){.type = TFM__JINJA_STRING, .string = args->names[i]},
                                args->values[i]);
        else
            tfm__jinja_error(j, "a macro takes no keyword argument '%.*s'", (int)args->names[i]->bytes,
                             args->names[i]->data);
    }
    for (size_t i = parameters; i < args->count && j->status == TFM_OK; i++) {
        if (takes_more)
            tfm__jinja_list_add(j, more, args->items[i]);
        else
            tfm__jinja_error(j, "a macro takes not more than %zu argument(s)", parameters);
    }
    if (takes_named)
        tfm__jinja_set_variable(j, frame, &kwargs, rest);
    if (takes_more)
        tfm__jinja_set_variable(j, frame, &varargs, more);
}

static tfm__jinja_value call_macro(tfm__jinja *j, const tfm__jinja_object *macro, const tfm__jinja_args *args) {
    const tfm__jinja_node *node = macro->node;
    tfm__jinja_writer out = {.j = j};
    tfm__jinja_frame *frame = new_frame(j, macro->frame);
    bool *used = tfm__jinja_alloc(j, args->named + 1, sizeof(*used));
    if (!frame || !used || !tfm__jinja_enter(j))
        return tfm__jinja_none();
    const size_t parameters = bind_parameters(j, node, frame, args, used);
    bind_rest(j, node, frame, args, parameters, used);
    execute_body(j, &out, node->body, frame);
    tfm__jinja_leave(j);
    return tfm__jinja_written(&out);
}

/* loop(items) in a recursive loop. */
static tfm__jinja_value call_loop(tfm__jinja *j, const tfm__jinja_object *loop, const tfm__jinja_args *args) {
    tfm__jinja_writer out = {.j = j};
    if (!loop->node->flag)
        return tfm__jinja_error(j, "The loop must have the 'recursive' marker to be called recursively.");
    if (args->count != 1 || args->named)
        return tfm__jinja_error(j, "loop() takes one argument");
    if (!tfm__jinja_enter(j))
        return tfm__jinja_none();
    run_loop(j, &out, loop->node, loop->frame, args->items[0], loop->depth + 1);
    tfm__jinja_leave(j);
    return tfm__jinja_written(&out);
}

static tfm__jinja_value call_joiner(tfm__jinja *j, tfm__jinja_object *joiner, const tfm__jinja_args *args) {
    if (args->count || args->named)
        return tfm__jinja_error(j, "a joiner takes no arguments");
    return joiner->index++ ? joiner->self : tfm__jinja_text(j, "");
}

static tfm__jinja_value call(tfm__jinja *j, tfm__jinja_value function, const tfm__jinja_args *args) {
    if (!tfm__jinja_step(j, 0))
        return tfm__jinja_none();
    switch (function.type) {
    case TFM__JINJA_MACRO:
        return call_macro(j, function.object, args);
    case TFM__JINJA_FUNCTION:
        return tfm__jinja_call_function(j, function.object->name, args);
    case TFM__JINJA_METHOD:
        return tfm__jinja_call_method(j, function.object, args);
    case TFM__JINJA_LOOP:
        return call_loop(j, function.object, args);
    case TFM__JINJA_JOINER:
        return call_joiner(j, function.object, args);
    case TFM__JINJA_UNDEFINED:
        return tfm__jinja_error(j, "%s", function.why);
    default:
        return tfm__jinja_error(j, "'%s' object is not callable", tfm__jinja_kind(function));
    }
}

/* ---- Statements ------------------------------------------------------------------------------------------------ */

static signal execute_if(tfm__jinja *j, tfm__jinja_writer *out, const tfm__jinja_node *node, tfm__jinja_frame *frame) {
    while (!tfm__jinja_truth(tfm__jinja_evaluate(j, node->a, frame))) {
        if (j->status != TFM_OK || !node->flag)
            return execute_body(j, out, node->other, frame);
        node = node->other;
    }
    return execute_body(j, out, node->body, frame);
}

static signal execute_set_block(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame) {
    tfm__jinja_writer out = {.j = j};
    tfm__jinja_frame *inner = new_frame(j, frame);
    if (!inner)
        return NEXT;
    const signal way = execute_body(j, &out, node->body, inner);
    if (way == NEXT && j->status == TFM_OK)
        tfm__jinja_assign(j, node->a, frame, tfm__jinja_evaluate_filter(j, node->b, inner, tfm__jinja_written(&out)));
    return way;
}

static signal execute_filter_block(tfm__jinja *j, tfm__jinja_writer *out, const tfm__jinja_node *node,
                                   tfm__jinja_frame *frame) {
    tfm__jinja_writer text = {.j = j};
    tfm__jinja_frame *inner = new_frame(j, frame);
    if (!inner)
        return NEXT;
    const signal way = execute_body(j, &text, node->body, inner);
    if (way != NEXT || j->status != TFM_OK)
        return way;
    const tfm__jinja_value filtered = tfm__jinja_evaluate_filter(j, node->b, inner, tfm__jinja_written(&text));
    if (j->status == TFM_OK && !tfm__jinja_is(filtered, TFM__JINJA_STRING))
        tfm__jinja_error(j, "the filter of a block gives no text");
    tfm__jinja_write_str(out, filtered);
    return way;
}

static signal execute_with(tfm__jinja *j, tfm__jinja_writer *out, const tfm__jinja_node *node,
                           tfm__jinja_frame *frame) {
    tfm__jinja_frame *inner = new_frame(j, frame);
    for (const tfm__jinja_node *set = node->list; inner && set && j->status == TFM_OK; set = set->next)
        tfm__jinja_assign(j, set->a, inner, tfm__jinja_evaluate(j, set->b, frame));
    return inner ? execute_body(j, out, node->body, inner) : NEXT;
}

static void execute_call_block(tfm__jinja *j, tfm__jinja_writer *out, const tfm__jinja_node *node,
                               tfm__jinja_frame *frame) {
    const tfm__jinja_value macro = new_macro(j, node, frame);
    tfm__jinja_value text = tfm__jinja_none();
    if (j->status == TFM_OK && node->kind == TFM__JINJA_N_GENERATION)
        text = call(j, macro, &(tfm__jinja_args){0});
    else if (j->status == TFM_OK)
        text = tfm__jinja_evaluate_call(j, node->a, frame, macro);
    if (j->status == TFM_OK && !tfm__jinja_is(text, TFM__JINJA_STRING))
        tfm__jinja_error(j, "the call of a call block gives no text");
    if (j->status == TFM_OK)
        tfm__jinja_write_string(out, text.string);
}

static signal execute(tfm__jinja *j, tfm__jinja_writer *out, const tfm__jinja_node *node, tfm__jinja_frame *frame) {
    switch (node->kind) {
    case TFM__JINJA_N_DATA:
        tfm__jinja_write_string(out, node->value.string);
        return NEXT;
    case TFM__JINJA_N_OUTPUT:
        tfm__jinja_write_str(out, tfm__jinja_evaluate(j, node->a, frame));
        return NEXT;
    case TFM__JINJA_N_IF:
        return execute_if(j, out, node, frame);
    case TFM__JINJA_N_FOR:
        return execute_for(j, out, node, frame);
    case TFM__JINJA_N_SET:
        tfm__jinja_assign(j, node->a, frame, tfm__jinja_evaluate(j, node->b, frame));
        return NEXT;
    case TFM__JINJA_N_SET_BLOCK:
        return execute_set_block(j, node, frame);
    case TFM__JINJA_N_MACRO:
        tfm__jinja_set_variable(j, frame, node->name, new_macro(j, node, frame));
        return NEXT;
    case TFM__JINJA_N_CALL_BLOCK:
    case TFM__JINJA_N_GENERATION:
        execute_call_block(j, out, node, frame);
        return NEXT;
    case TFM__JINJA_N_FILTER_BLOCK:
        return execute_filter_block(j, out, node, frame);
    case TFM__JINJA_N_WITH:
        return execute_with(j, out, node, frame);
    case TFM__JINJA_N_BREAK:
        return BREAK;
    default:
        return CONTINUE;
    }
}

static signal execute_body(tfm__jinja *j, tfm__jinja_writer *out, const tfm__jinja_node *node,
                           tfm__jinja_frame *frame) {
    signal way = NEXT;
    if (!tfm__jinja_enter(j))
        return NEXT;
    for (; node && way == NEXT && tfm__jinja_step(j, 0); node = node->next) {
        j->line = node->line;
        way = execute(j, out, node, frame);
        if (j->status == TFM_OK && out->bytes > TFM__JINJA_OUTPUT)
            tfm__jinja_error(j, "the text exceeds %zu MiB", TFM__JINJA_OUTPUT >> 20);
    }
    tfm__jinja_leave(j);
    return j->status == TFM_OK ? way : NEXT;
}

tfm__jinja_value tfm__jinja_render(tfm__jinja *j, const tfm__jinja_node *body, tfm__jinja_dict *variables) {
    tfm__jinja_frame context = {.variables = variables}, root = {.parent = &context};
    tfm__jinja_writer out = {.j = j};
    j->hooks = (tfm__jinja_hooks){.call = call, .filter = tfm__jinja_call_filter, .test = tfm__jinja_call_test};
    execute_body(j, &out, body, &root);
    return tfm__jinja_written(&out);
}
