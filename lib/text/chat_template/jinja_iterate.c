#include "text/chat_template/jinja_dict.h"
#include "text/chat_template/jinja_object.h"

static tfm__jinja_value next_nothing(tfm__jinja *j, tfm__jinja_iterator *it) {
    (void)j, (void)it;
    return tfm__jinja_of(TFM__JINJA_MISSING);
}

static tfm__jinja_value next_item(tfm__jinja *j, tfm__jinja_iterator *it) {
    (void)j;
    const tfm__jinja_list *list = it->source.list;
    return it->at < list->count ? list->items[it->at++] : tfm__jinja_of(TFM__JINJA_MISSING);
}

static tfm__jinja_value next_char(tfm__jinja *j, tfm__jinja_iterator *it) {
    const tfm__jinja_string *string = it->source.string;
    const size_t at = it->at;
    if (at >= string->bytes)
        return tfm__jinja_of(TFM__JINJA_MISSING);
    it->at += tfm__char_bytes(string->data + at);
    return tfm__jinja_share(j, string->data + at, it->at - at); /* of markup too, as in Python */
}

static tfm__jinja_value next_key(tfm__jinja *j, tfm__jinja_iterator *it) {
    (void)j;
    const tfm__jinja_dict *dict = it->source.dict;
    return it->at < dict->count ? dict->entries[it->at++].key : tfm__jinja_of(TFM__JINJA_MISSING);
}

static tfm__jinja_value view_item(tfm__jinja *j, tfm__jinja_value view, size_t i) {
    const tfm__jinja_entry *entry = &view.list->items[0].dict->entries[i];
    const int64_t kind = view.list->items[1].integer;
    return kind == 0 ? tfm__jinja_pair(j, entry->key, entry->value) : kind == 1 ? entry->key : entry->value;
}

static tfm__jinja_value next_view(tfm__jinja *j, tfm__jinja_iterator *it) {
    return it->at < it->source.list->items[0].dict->count ? view_item(j, it->source, it->at++)
                                                          : tfm__jinja_of(TFM__JINJA_MISSING);
}

static tfm__jinja_value next_number(tfm__jinja *j, tfm__jinja_iterator *it) {
    (void)j;
    const tfm__jinja_value *range = it->source.list->items;
    if ((int64_t)it->at >= tfm__jinja_length(it->source))
        return tfm__jinja_of(TFM__JINJA_MISSING);
    return tfm__jinja_int(range[0].integer + (int64_t)it->at++ * range[2].integer);
}

static tfm__jinja_iterator *
new_iterator(tfm__jinja *j, tfm__jinja_value (*next)(tfm__jinja *j, tfm__jinja_iterator *it), tfm__jinja_value source) {
    tfm__jinja_iterator *it = tfm__jinja_alloc(j, 1, sizeof(*it));
    if (it)
        *it = (tfm__jinja_iterator){.next = next, .source = source};
    return it;
}

bool tfm__jinja_is_iterable(tfm__jinja_value value) {
    return tfm__jinja_length(value) >= 0 || tfm__jinja_is(value, TFM__JINJA_ITERATOR) ||
           tfm__jinja_is(value, TFM__JINJA_LOOP);
}

tfm__jinja_iterator *tfm__jinja_iterate(tfm__jinja *j, tfm__jinja_value value) {
    switch (value.type) {
    case TFM__JINJA_UNDEFINED:
        return new_iterator(j, next_nothing, value);
    case TFM__JINJA_LIST:
    case TFM__JINJA_TUPLE:
        return new_iterator(j, next_item, value);
    case TFM__JINJA_STRING:
        return new_iterator(j, next_char, value);
    case TFM__JINJA_DICT:
        return new_iterator(j, next_key, value);
    case TFM__JINJA_VIEW:
        return new_iterator(j, next_view, value);
    case TFM__JINJA_RANGE:
        return new_iterator(j, next_number, value);
    case TFM__JINJA_ITERATOR:
        return value.iterator;
    default:
        tfm__jinja_error(j, "'%s' object is not iterable", tfm__jinja_kind(value));
        return NULL;
    }
}

tfm__jinja_value tfm__jinja_iterator_next(tfm__jinja *j, tfm__jinja_iterator *it) {
    const tfm__jinja_value item = it && tfm__jinja_step(j, 0) ? it->next(j, it) : tfm__jinja_of(TFM__JINJA_MISSING);
    return j->status == TFM_OK ? item : tfm__jinja_of(TFM__JINJA_MISSING);
}

tfm__jinja_value tfm__jinja_generator(tfm__jinja *j, tfm__jinja_value (*next)(tfm__jinja *j, tfm__jinja_iterator *it),
                                      tfm__jinja_iterator *inner, void *state) {
    tfm__jinja_iterator *it = new_iterator(j, next, tfm__jinja_none());
    if (!it)
        return tfm__jinja_none();
    it->inner = inner;
    it->state = state;
    return (tfm__jinja_value){.type = TFM__JINJA_ITERATOR, .iterator = it};
}

tfm__jinja_value tfm__jinja_to_list(tfm__jinja *j, tfm__jinja_value value) {
    tfm__jinja_iterator *it = tfm__jinja_iterate(j, value);
    const tfm__jinja_value list =
        tfm__jinja_list_new(j, TFM__JINJA_LIST, tfm__jinja_length(value) > 0 ? (size_t)tfm__jinja_length(value) : 0);
    tfm__jinja_value item;
    while (j->status == TFM_OK && !tfm__jinja_is(item = tfm__jinja_iterator_next(j, it), TFM__JINJA_MISSING))
        tfm__jinja_list_add(j, list, item);
    return list;
}

tfm__jinja_value tfm__jinja_reversed(tfm__jinja *j, tfm__jinja_value value) {
    if (j->status != TFM_OK)
        return value;
    if (tfm__jinja_is(value, TFM__JINJA_ITERATOR) || tfm__jinja_length(value) < 0)
        return tfm__jinja_of(TFM__JINJA_MISSING);
    const tfm__jinja_value list = tfm__jinja_to_list(j, value);
    if (j->status != TFM_OK)
        return tfm__jinja_none();
    for (size_t i = 0, n = list.list->count; i < n / 2; i++) {
        const tfm__jinja_value item = list.list->items[i];
        list.list->items[i] = list.list->items[n - 1 - i];
        list.list->items[n - 1 - i] = item;
    }
    const tfm__jinja_value out = tfm__jinja_generator(j, next_item, NULL, NULL);
    if (j->status == TFM_OK)
        out.iterator->source = list;
    return out;
}

static bool string_contains(tfm__jinja *j, const tfm__jinja_string *string, tfm__jinja_value part) {
    if (!tfm__jinja_is(part, TFM__JINJA_STRING)) {
        tfm__jinja_error(j, "'in <string>' requires string as left operand, not %s", tfm__jinja_kind(part));
        return false;
    }
    tfm__jinja_step(j, string->bytes / 64);
    return !part.string->bytes ||
           (string->bytes && memmem(string->data, string->bytes, part.string->data, part.string->bytes));
}

bool tfm__jinja_contains(tfm__jinja *j, tfm__jinja_value value, tfm__jinja_value item) {
    if (j->status != TFM_OK)
        return false;
    if (tfm__jinja_is(value, TFM__JINJA_STRING))
        return string_contains(j, value.string, item);
    if (tfm__jinja_is(value, TFM__JINJA_DICT) ||
        (tfm__jinja_is(value, TFM__JINJA_VIEW) && value.list->items[1].integer == 1))
        return tfm__jinja_dict_find(j, tfm__jinja_is(value, TFM__JINJA_DICT) ? value.dict : value.list->items[0].dict,
                                    item) != NULL;
    if (!tfm__jinja_is_iterable(value)) {
        tfm__jinja_error(j, "argument of type '%s' is not iterable", tfm__jinja_kind(value));
        return false;
    }
    tfm__jinja_iterator *it = tfm__jinja_iterate(j, value);
    tfm__jinja_value other;
    while (!tfm__jinja_is(other = tfm__jinja_iterator_next(j, it), TFM__JINJA_MISSING))
        if (tfm__jinja_equal(j, other, item))
            return true;
    return false;
}
