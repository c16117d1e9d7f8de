/* Filters of lists and dicts. */
#include "text/chat_template/jinja_case.h"
#include "text/chat_template/jinja_dict.h"
#include "text/chat_template/jinja_filters.h"
#include "text/chat_template/jinja_object.h"

static tfm__jinja_value filter_default(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value out[2];
    if (!tfm__jinja_bind(j, "default", args, "default_value boolean", 0, out))
        return value;
    if (!tfm__jinja_is(value, TFM__JINJA_UNDEFINED) && !(tfm__jinja_truth(out[1]) && !tfm__jinja_truth(value)))
        return value;
    return tfm__jinja_is(out[0], TFM__JINJA_MISSING) ? tfm__jinja_text(j, "") : out[0];
}

static tfm__jinja_value filter_length(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    if (!tfm__jinja_bind(j, "length", args, "", 0, NULL))
        return value;
    if (tfm__jinja_length(value) < 0)
        return tfm__jinja_error(j, "object of type '%s' has no len()", tfm__jinja_kind(value));
    return tfm__jinja_int(tfm__jinja_length(value));
}

static tfm__jinja_value filter_list(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    return tfm__jinja_bind(j, "list", args, "", 0, NULL) ? tfm__jinja_to_list(j, value) : value;
}

static tfm__jinja_value filter_first(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    if (!tfm__jinja_bind(j, "first", args, "", 0, NULL))
        return value;
    const tfm__jinja_value item = tfm__jinja_iterator_next(j, tfm__jinja_iterate(j, value));
    return tfm__jinja_is(item, TFM__JINJA_MISSING) ? tfm__jinja_undefined(j, "No first item, sequence was empty.")
                                                   : item;
}

/* A generator of the items of a list. */
static tfm__jinja_value generator_of(tfm__jinja *j, tfm__jinja_value list) {
    tfm__jinja_iterator *it = j->status == TFM_OK ? tfm__jinja_iterate(j, list) : NULL;
    return it ? (tfm__jinja_value){.type = TFM__JINJA_ITERATOR, .iterator = it} : list;
}

static tfm__jinja_value reversed_items(tfm__jinja *j, tfm__jinja_value value) {
    if (tfm__jinja_is(value, TFM__JINJA_UNDEFINED))
        return generator_of(j, tfm__jinja_list_new(j, TFM__JINJA_LIST, 0));
    return tfm__jinja_reversed(j, value);
}

static tfm__jinja_value filter_last(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    if (!tfm__jinja_bind(j, "last", args, "", 0, NULL))
        return value;
    const int64_t length = tfm__jinja_length(value);
    if (tfm__jinja_is_sequence(value) && length > 0)
        return value.list->items[length - 1];
    const tfm__jinja_value items = reversed_items(j, value);
    if (tfm__jinja_is(items, TFM__JINJA_MISSING))
        return tfm__jinja_error(j, "'%s' object is not reversible", tfm__jinja_kind(value));
    const tfm__jinja_value item = tfm__jinja_iterator_next(j, tfm__jinja_iterate(j, items));
    return tfm__jinja_is(item, TFM__JINJA_MISSING) ? tfm__jinja_undefined(j, "No last item, sequence was empty.")
                                                   : item;
}

static tfm__jinja_value filter_reverse(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    if (!tfm__jinja_bind(j, "reverse", args, "", 0, NULL))
        return value;
    if (tfm__jinja_is(value, TFM__JINJA_STRING))
        return tfm__jinja_slice(j, value, tfm__jinja_none(), tfm__jinja_none(), tfm__jinja_int(-1));
    tfm__jinja_value items = reversed_items(j, value);
    if (!tfm__jinja_is(items, TFM__JINJA_MISSING))
        return items;
    items = tfm__jinja_reversed(j, tfm__jinja_to_list(j, value)); /* a generator: a reversed list */
    return j->status == TFM_OK ? items.iterator->source : value;
}

static tfm__jinja_value filter_items(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    if (!tfm__jinja_bind(j, "items", args, "", 0, NULL))
        return value;
    if (!tfm__jinja_is(value, TFM__JINJA_UNDEFINED) && !tfm__jinja_is(value, TFM__JINJA_DICT))
        return tfm__jinja_error(j, "Can only get item pairs from a mapping.");
    const tfm__jinja_value list = tfm__jinja_list_new(j, TFM__JINJA_LIST, 0);
    for (size_t i = 0; tfm__jinja_is(value, TFM__JINJA_DICT) && i < value.dict->count && j->status == TFM_OK; i++)
        tfm__jinja_list_add(j, list, tfm__jinja_pair(j, value.dict->entries[i].key, value.dict->entries[i].value));
    return generator_of(j, list);
}

static tfm__jinja_value filter_batch(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value out[2], item, row = tfm__jinja_none();
    if (!tfm__jinja_bind(j, "batch", args, "linecount fill_with", 1, out))
        return value;
    const int64_t width = tfm__jinja_int_argument(j, out[0], 1);
    const tfm__jinja_value rows = tfm__jinja_list_new(j, TFM__JINJA_LIST, 0);
    tfm__jinja_iterator *it = tfm__jinja_iterate(j, value);
    while (!tfm__jinja_is(item = tfm__jinja_iterator_next(j, it), TFM__JINJA_MISSING)) {
        if (tfm__jinja_is(row, TFM__JINJA_NONE) || (int64_t)row.list->count == width) {
            row = tfm__jinja_list_new(j, TFM__JINJA_LIST, 0);
            if (j->status == TFM_OK)
                tfm__jinja_list_add(j, rows, row);
        }
        if (j->status == TFM_OK)
            tfm__jinja_list_add(j, row, item);
    }
    const bool fill = !tfm__jinja_is(out[1], TFM__JINJA_MISSING) && !tfm__jinja_is(out[1], TFM__JINJA_NONE);
    while (fill && j->status == TFM_OK && tfm__jinja_is(row, TFM__JINJA_LIST) && (int64_t)row.list->count < width)
        tfm__jinja_list_add(j, row, out[1]);
    return generator_of(j, rows);
}

static tfm__jinja_value filter_slice(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value out[2];
    if (!tfm__jinja_bind(j, "slice", args, "slices fill_with", 1, out))
        return value;
    const int64_t slices = tfm__jinja_int_argument(j, out[0], 1);
    const tfm__jinja_value items = tfm__jinja_to_list(j, value), rows = tfm__jinja_list_new(j, TFM__JINJA_LIST, 0);
    if (j->status != TFM_OK || slices == 0)
        return tfm__jinja_error(j, "integer division or modulo by zero");
    const int64_t length = (int64_t)items.list->count, each = slices > 0 ? length / slices : 0,
                  extra = slices > 0 ? length % slices : 0;
    const bool fill = !tfm__jinja_is(out[1], TFM__JINJA_MISSING) && !tfm__jinja_is(out[1], TFM__JINJA_NONE);
    for (int64_t i = 0, at = 0; i < slices && tfm__jinja_step(j, 0); i++) {
        const tfm__jinja_value row = tfm__jinja_list_new(j, TFM__JINJA_LIST, 0);
        const int64_t end = at + each + (i < extra);
        for (; at < end && j->status == TFM_OK; at++)
            tfm__jinja_list_add(j, row, items.list->items[at]);
        if (fill && i >= extra && j->status == TFM_OK)
            tfm__jinja_list_add(j, row, out[1]);
        if (j->status == TFM_OK)
            tfm__jinja_list_add(j, rows, row);
    }
    return generator_of(j, rows);
}

static tfm__jinja_value filter_sum(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    static const tfm__jinja_string plus = {"+", 1, 1};
    tfm__jinja_value out[2], item;
    if (!tfm__jinja_bind(j, "sum", args, "attribute start", 0, out))
        return value;
    const tfm__jinja_getter getter = tfm__jinja_getter_new(j, out[0]);
    tfm__jinja_iterator *it = tfm__jinja_iterate(j, value);
    tfm__jinja_value total = tfm__jinja_is(out[1], TFM__JINJA_MISSING) ? tfm__jinja_int(0) : out[1];
    if (tfm__jinja_is(total, TFM__JINJA_STRING))
        return tfm__jinja_error(j, "sum() can't sum strings [use ''.join(seq) instead]");
    while (!tfm__jinja_is(item = tfm__jinja_iterator_next(j, it), TFM__JINJA_MISSING))
        total = tfm__jinja_binary(j, &plus, total, tfm__jinja_get(j, &getter, item));
    return total;
}

static tfm__jinja_value filter_unique(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value out[2], item;
    if (!tfm__jinja_bind(j, "unique", args, "case_sensitive attribute", 0, out))
        return value;
    tfm__jinja_getter getter = tfm__jinja_getter_new(j, out[1]);
    getter.fold = !tfm__jinja_truth(out[0]);
    const tfm__jinja_value list = tfm__jinja_list_new(j, TFM__JINJA_LIST, 0), seen = tfm__jinja_dict_new(j);
    tfm__jinja_iterator *it = tfm__jinja_iterate(j, value);
    while (!tfm__jinja_is(item = tfm__jinja_iterator_next(j, it), TFM__JINJA_MISSING)) {
        const tfm__jinja_value key = tfm__jinja_get(j, &getter, item);
        if (tfm__jinja_dict_find(j, seen.dict, key))
            continue;
        tfm__jinja_dict_set(j, seen.dict, key, tfm__jinja_none());
        tfm__jinja_list_add(j, list, item);
    }
    return generator_of(j, list);
}

/* getattr(), but not the subscript that `.` tries too. */
static tfm__jinja_value filter_attr(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value name;
    if (!tfm__jinja_bind(j, "attr", args, "name", 1, &name))
        return value;
    const tfm__jinja_string *string = tfm__jinja_string_argument(j, name, NULL);
    if (tfm__jinja_is(value, TFM__JINJA_DICT) && tfm__jinja_dict_find(j, value.dict, name)) {
        const tfm__jinja_value none = tfm__jinja_dict_new(j); /* only attributes of dicts */
        return j->status == TFM_OK ? tfm__jinja_getattr(j, none, string) : none;
    }
    return j->status == TFM_OK ? tfm__jinja_getattr(j, value, string) : value;
}

tfm__jinja_filter tfm__jinja_list_filter(const tfm__jinja_string *name) {
    static const struct {
        const char *name;
        tfm__jinja_filter filter;
    } filters[] = {
        {"default", filter_default}, {"d", filter_default},   {"length", filter_length}, {"count", filter_length},
        {"list", filter_list},       {"first", filter_first}, {"last", filter_last},     {"reverse", filter_reverse},
        {"items", filter_items},     {"batch", filter_batch}, {"slice", filter_slice},   {"sum", filter_sum},
        {"unique", filter_unique},   {"attr", filter_attr},
    };
    for (size_t i = 0; i < TFM__COUNT(filters); i++)
        if (tfm__jinja_string_is(name, filters[i].name))
            return filters[i].filter;
    return NULL;
}
