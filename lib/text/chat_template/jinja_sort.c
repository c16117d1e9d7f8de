/* Filters that compare items: sort, dictsort, groupby, min and max. */
#include "text/chat_template/jinja_dict.h"
#include "text/chat_template/jinja_filters.h"
#include "text/chat_template/jinja_object.h"

typedef struct keyed {
    tfm__jinja_value key, item;
} keyed;

static bool less(tfm__jinja *j, const keyed *a, const keyed *b) {
    return tfm__jinja_compare(j, a->key, b->key, "<") == -1;
}

/* A stable merge sort. */
static void merge_sort(tfm__jinja *j, keyed *items, keyed *space, size_t count) {
    const size_t half = count / 2;
    if (count < 2 || !tfm__jinja_step(j, 0))
        return;
    merge_sort(j, items, space, half);
    merge_sort(j, items + half, space, count - half);
    memcpy(space, items, half * sizeof(*items));
    for (size_t a = 0, b = half, out = 0; a < half && j->status == TFM_OK; out++) {
        if (b < count && less(j, &items[b], &space[a]))
            items[out] = items[b++];
        else
            items[out] = space[a++];
    }
}

static void reverse(keyed *items, size_t count) {
    for (size_t i = 0; i < count / 2; i++) {
        const keyed item = items[i];
        items[i] = items[count - 1 - i];
        items[count - 1 - i] = item;
    }
}

/* The key of an item: of several getters a list. */
static tfm__jinja_value key_of(tfm__jinja *j, const tfm__jinja_getter *getters, size_t count, tfm__jinja_value item) {
    if (count == 1)
        return tfm__jinja_get(j, getters, item);
    const tfm__jinja_value key = tfm__jinja_list_new(j, TFM__JINJA_LIST, count);
    for (size_t i = 0; i < count && j->status == TFM_OK; i++)
        tfm__jinja_list_add(j, key, tfm__jinja_get(j, &getters[i], item));
    return key;
}

/* The items of a list sorted by keys, as a new array; NULL after a failure. */
static keyed *sorted(tfm__jinja *j, tfm__jinja_value list, const tfm__jinja_getter *getters, size_t getter_count,
                     bool backwards) {
    const size_t count = j->status == TFM_OK ? list.list->count : 0;
    keyed *items = tfm__jinja_alloc(j, count + 1, sizeof(*items)),
          *space = tfm__jinja_alloc(j, count + 1, sizeof(*space));
    for (size_t i = 0; i < count && j->status == TFM_OK; i++)
        items[i] = (keyed){key_of(j, getters, getter_count, list.list->items[i]), list.list->items[i]};
    if (j->status != TFM_OK)
        return NULL;
    if (backwards) /* equal items keep their order */
        reverse(items, count);
    merge_sort(j, items, space, count);
    if (backwards)
        reverse(items, count);
    return j->status == TFM_OK ? items : NULL;
}

static tfm__jinja_value items_of(tfm__jinja *j, const keyed *items, size_t count) {
    const tfm__jinja_value list = tfm__jinja_list_new(j, TFM__JINJA_LIST, count);
    for (size_t i = 0; items && i < count && j->status == TFM_OK; i++)
        tfm__jinja_list_add(j, list, items[i].item);
    return list;
}

enum { SORT_KEYS = 16 };

/* One getter for each name between commas. */
static size_t read_getters(tfm__jinja *j, tfm__jinja_getter getters[SORT_KEYS], tfm__jinja_value attribute, bool fold) {
    size_t count = 0;
    if (!tfm__jinja_is(attribute, TFM__JINJA_STRING)) {
        getters[count++] = tfm__jinja_getter_new(j, attribute);
    } else {
        const char *at = attribute.string->data, *const end = at + attribute.string->bytes;
        for (const char *comma = at; comma && count < SORT_KEYS && j->status == TFM_OK; at = comma ? comma + 1 : at) {
            comma = memchr(at, ',', (size_t)(end - at));
            getters[count++] = tfm__jinja_getter_new(j, tfm__jinja_share(j, at, (size_t)((comma ? comma : end) - at)));
        }
    }
    for (size_t i = 0; i < count; i++)
        getters[i].fold = fold;
    return count;
}

static tfm__jinja_value filter_sort(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value out[3];
    tfm__jinja_getter getters[SORT_KEYS];
    if (!tfm__jinja_bind(j, "sort", args, "reverse case_sensitive attribute", 0, out))
        return value;
    const size_t count = read_getters(j, getters, out[2], !tfm__jinja_truth(out[1]));
    const tfm__jinja_value list = tfm__jinja_to_list(j, value);
    const keyed *items = sorted(j, list, getters, count, tfm__jinja_truth(out[0]));
    return items ? items_of(j, items, list.list->count) : value;
}

static tfm__jinja_value filter_dictsort(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value out[3];
    if (!tfm__jinja_bind(j, "dictsort", args, "case_sensitive by reverse", 0, out))
        return value;
    const tfm__jinja_string *by = tfm__jinja_string_argument(j, out[1], "key");
    const bool key = tfm__jinja_string_is(by, "key");
    if (j->status == TFM_OK && !key && !tfm__jinja_string_is(by, "value"))
        return tfm__jinja_error(j, "You can only sort by either \"key\" or \"value\"");
    if (!tfm__jinja_is(value, TFM__JINJA_DICT))
        return tfm__jinja_error(j, "'%s' object has no attribute 'items'", tfm__jinja_kind(value));
    tfm__jinja_getter getter = tfm__jinja_getter_new(j, tfm__jinja_int(key ? 0 : 1));
    getter.fold = !tfm__jinja_truth(out[0]);
    const tfm__jinja_value list = tfm__jinja_list_new(j, TFM__JINJA_LIST, value.dict->count);
    for (size_t i = 0; i < value.dict->count && j->status == TFM_OK; i++)
        tfm__jinja_list_add(j, list, tfm__jinja_pair(j, value.dict->entries[i].key, value.dict->entries[i].value));
    const keyed *items = sorted(j, list, &getter, 1, tfm__jinja_truth(out[2]));
    return items ? items_of(j, items, list.list->count) : value;
}

static tfm__jinja_value filter_groupby(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value out[3];
    if (!tfm__jinja_bind(j, "groupby", args, "attribute default case_sensitive", 1, out))
        return value;
    tfm__jinja_getter getter = tfm__jinja_getter_new(j, out[0]);
    if (!tfm__jinja_is(out[1], TFM__JINJA_NONE))
        getter.fallback = out[1];
    getter.fold = !tfm__jinja_truth(out[2]);
    const tfm__jinja_value list = tfm__jinja_to_list(j, value), groups = tfm__jinja_list_new(j, TFM__JINJA_LIST, 0);
    const keyed *items = sorted(j, list, &getter, 1, false);
    tfm__jinja_value group = tfm__jinja_none();
    getter.fold = false; /* a group has the name of its first item */
    for (size_t i = 0; items && i < list.list->count && j->status == TFM_OK; i++) {
        if (i == 0 || !tfm__jinja_equal(j, items[i].key, items[i - 1].key)) {
            group = tfm__jinja_list_new(j, TFM__JINJA_LIST, 0);
            tfm__jinja_value pair = tfm__jinja_pair(j, tfm__jinja_get(j, &getter, items[i].item), group);
            pair.markup = true;
            if (j->status == TFM_OK)
                tfm__jinja_list_add(j, groups, pair);
        }
        if (j->status == TFM_OK)
            tfm__jinja_list_add(j, group, items[i].item);
    }
    return groups;
}

static tfm__jinja_value extreme(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args, bool max) {
    tfm__jinja_value out[2], item;
    if (!tfm__jinja_bind(j, max ? "max" : "min", args, "case_sensitive attribute", 0, out))
        return value;
    tfm__jinja_getter getter = tfm__jinja_getter_new(j, out[1]);
    getter.fold = !tfm__jinja_truth(out[0]);
    tfm__jinja_iterator *it = tfm__jinja_iterate(j, value);
    keyed best = {.item = tfm__jinja_of(TFM__JINJA_MISSING)};
    while (!tfm__jinja_is(item = tfm__jinja_iterator_next(j, it), TFM__JINJA_MISSING)) {
        const keyed now = {tfm__jinja_get(j, &getter, item), item};
        if (tfm__jinja_is(best.item, TFM__JINJA_MISSING) || (max ? less(j, &best, &now) : less(j, &now, &best)))
            best = now;
    }
    return tfm__jinja_is(best.item, TFM__JINJA_MISSING)
               ? tfm__jinja_undefined(j, "No aggregated item, sequence was empty.")
               : best.item;
}

static tfm__jinja_value filter_min(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    return extreme(j, value, args, false);
}

static tfm__jinja_value filter_max(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    return extreme(j, value, args, true);
}

tfm__jinja_filter tfm__jinja_sort_filter(const tfm__jinja_string *name) {
    static const struct {
        const char *name;
        tfm__jinja_filter filter;
    } filters[] = {{"sort", filter_sort},
                   {"dictsort", filter_dictsort},
                   {"groupby", filter_groupby},
                   {"min", filter_min},
                   {"max", filter_max}};
    for (size_t i = 0; i < TFM__COUNT(filters); i++)
        if (tfm__jinja_string_is(name, filters[i].name))
            return filters[i].filter;
    return NULL;
}
