/* map, select, selectattr, reject and rejectattr: generators, evaluated item by item as in jinja2. */
#include "text/chat_template/jinja_filters.h"
#include "text/chat_template/jinja_object.h"

typedef struct selection {
    tfm__jinja_getter getter;
    const tfm__jinja_string *name; /* of the filter or test; NULL: the attribute, or whether the item is true */
    tfm__jinja_args args;
    bool negated;
} selection;

static tfm__jinja_value next_mapped(tfm__jinja *j, tfm__jinja_iterator *it) {
    const selection *s = it->state;
    const tfm__jinja_value item = tfm__jinja_iterator_next(j, it->inner);
    if (tfm__jinja_is(item, TFM__JINJA_MISSING))
        return item;
    return s->name ? j->hooks.filter(j, s->name, item, &s->args) : tfm__jinja_get(j, &s->getter, item);
}

static tfm__jinja_value next_selected(tfm__jinja *j, tfm__jinja_iterator *it) {
    const selection *s = it->state;
    tfm__jinja_value item;
    while (!tfm__jinja_is(item = tfm__jinja_iterator_next(j, it->inner), TFM__JINJA_MISSING)) {
        const tfm__jinja_value value = tfm__jinja_get(j, &s->getter, item);
        const bool is =
            j->status == TFM_OK && s->name ? j->hooks.test(j, s->name, value, &s->args) : tfm__jinja_truth(value);
        if (is != s->negated)
            break;
    }
    return item;
}

static tfm__jinja_value generator(tfm__jinja *j, tfm__jinja_value value, selection *s, bool map) {
    if (!tfm__jinja_is(value, TFM__JINJA_ITERATOR) && !tfm__jinja_truth(value))
        value = tfm__jinja_list_new(j, TFM__JINJA_LIST, 0); /* jinja2 does not iterate over a false value */
    tfm__jinja_iterator *inner = j->status == TFM_OK ? tfm__jinja_iterate(j, value) : NULL;
    return inner ? tfm__jinja_generator(j, map ? next_mapped : next_selected, inner, s) : value;
}

/* The first argument from `at` on is a name, and the others are its arguments. */
static void read_name(tfm__jinja *j, selection *s, const tfm__jinja_args *args, size_t at) {
    s->args = *args;
    if (at >= args->count)
        return;
    s->name = tfm__jinja_string_argument(j, args->items[at], NULL);
    s->args.items += at + 1;
    s->args.count -= at + 1;
}

static tfm__jinja_value filter_map(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    selection *s = tfm__jinja_alloc(j, 1, sizeof(*s));
    const tfm__jinja_value *attribute = tfm__jinja_argument(args, "attribute"),
                           *fallback = tfm__jinja_argument(args, "default");
    if (!s)
        return value;
    if (args->count || !attribute) {
        if (!args->count)
            return tfm__jinja_error(j, "map requires a filter argument");
        read_name(j, s, args, 0);
    } else {
        if (args->named > 1u + (fallback != NULL))
            return tfm__jinja_error(j, "map() got an unexpected keyword argument");
        s->getter = tfm__jinja_getter_new(j, *attribute);
        if (fallback && !tfm__jinja_is(*fallback, TFM__JINJA_NONE))
            s->getter.fallback = *fallback;
    }
    return j->status == TFM_OK ? generator(j, value, s, true) : value;
}

static tfm__jinja_value filter_by(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args, bool attribute,
                                  bool negated) {
    selection *s = tfm__jinja_alloc(j, 1, sizeof(*s));
    if (!s)
        return value;
    if (attribute && !args->count)
        return tfm__jinja_error(j, "Missing parameter for attribute name");
    s->getter = tfm__jinja_getter_new(j, attribute ? args->items[0] : tfm__jinja_none());
    s->negated = negated;
    read_name(j, s, args, attribute);
    return j->status == TFM_OK ? generator(j, value, s, false) : value;
}

static tfm__jinja_value filter_select(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    return filter_by(j, value, args, false, false);
}
static tfm__jinja_value filter_reject(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    return filter_by(j, value, args, false, true);
}
static tfm__jinja_value filter_selectattr(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    return filter_by(j, value, args, true, false);
}
static tfm__jinja_value filter_rejectattr(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    return filter_by(j, value, args, true, true);
}

tfm__jinja_filter tfm__jinja_select_filter(const tfm__jinja_string *name) {
    static const struct {
        const char *name;
        tfm__jinja_filter filter;
    } filters[] = {{"map", filter_map},
                   {"select", filter_select},
                   {"reject", filter_reject},
                   {"selectattr", filter_selectattr},
                   {"rejectattr", filter_rejectattr}};
    for (size_t i = 0; i < TFM__COUNT(filters); i++)
        if (tfm__jinja_string_is(name, filters[i].name))
            return filters[i].filter;
    return NULL;
}
