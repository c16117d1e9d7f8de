#include "text/chat_template/jinja_dict.h"
#include <math.h>

/* ---- Equality, order and hashes -------------------------------------------------------------------------------- */

bool tfm__jinja_same(tfm__jinja_value a, tfm__jinja_value b) {
    if (a.type != b.type)
        return false;
    switch (a.type) {
    case TFM__JINJA_UNDEFINED:
    case TFM__JINJA_NONE:
        return true;
    case TFM__JINJA_BOOL:
        return a.flag == b.flag;
    case TFM__JINJA_INT:
        return a.integer == b.integer;
    case TFM__JINJA_FLOAT:
        return a.real == b.real;
    case TFM__JINJA_STRING:
        return a.string->bytes == b.string->bytes && memcmp(a.string->data, b.string->data, a.string->bytes) == 0;
    default:
        return a.object == b.object;
    }
}

static bool numbers_equal(tfm__jinja_value a, tfm__jinja_value b) {
    if (tfm__jinja_is_integral(a) && tfm__jinja_is_integral(b))
        return tfm__jinja_integral(a) == tfm__jinja_integral(b);
    return (long double)(tfm__jinja_is(a, TFM__JINJA_FLOAT) ? a.real : tfm__jinja_integral(a)) ==
           (long double)(tfm__jinja_is(b, TFM__JINJA_FLOAT) ? b.real : tfm__jinja_integral(b));
}

static bool dicts_equal(tfm__jinja *j, const tfm__jinja_dict *a, const tfm__jinja_dict *b) {
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const tfm__jinja_value *other = tfm__jinja_dict_find(j, b, a->entries[i].key);
        if (!other || !tfm__jinja_equal(j, a->entries[i].value, *other))
            return false;
    }
    return true;
}

bool tfm__jinja_equal(tfm__jinja *j, tfm__jinja_value a, tfm__jinja_value b) {
    if (j->status != TFM_OK)
        return false;
    if (tfm__jinja_is_number(a) && tfm__jinja_is_number(b))
        return numbers_equal(a, b);
    if (a.type != b.type)
        return false;
    if (tfm__jinja_is(a, TFM__JINJA_STRING))
        tfm__jinja_step(j, (a.string->bytes == b.string->bytes ? a.string->bytes : 0) / 128);
    if (!tfm__jinja_is_sequence(a) && !tfm__jinja_is(a, TFM__JINJA_DICT) && !tfm__jinja_is(a, TFM__JINJA_RANGE))
        return tfm__jinja_same(a, b);
    if (!tfm__jinja_enter(j))
        return false;
    bool equal = true;
    if (tfm__jinja_is(a, TFM__JINJA_DICT)) {
        equal = dicts_equal(j, a.dict, b.dict);
    } else {
        equal = a.list->count == b.list->count;
        for (size_t i = 0; equal && i < a.list->count; i++)
            equal = tfm__jinja_equal(j, a.list->items[i], b.list->items[i]);
    }
    tfm__jinja_leave(j);
    return equal;
}

static int compare_numbers(tfm__jinja_value a, tfm__jinja_value b) {
    if (tfm__jinja_is_integral(a) && tfm__jinja_is_integral(b)) {
        const int64_t x = tfm__jinja_integral(a), y = tfm__jinja_integral(b);
        return (x > y) - (x < y);
    }
    const long double x = tfm__jinja_is(a, TFM__JINJA_FLOAT) ? (long double)a.real
                                                             : (long double)tfm__jinja_integral(a),
                      y = tfm__jinja_is(b, TFM__JINJA_FLOAT) ? (long double)b.real
                                                             : (long double)tfm__jinja_integral(b);
    return isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);
}

static int compare_strings(const tfm__jinja_string *a, const tfm__jinja_string *b) {
    const size_t shorter = a->bytes < b->bytes ? a->bytes : b->bytes;
    const int order = shorter ? memcmp(a->data, b->data, shorter) : 0;
    return order ? (order > 0) - (order < 0) : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

int tfm__jinja_compare(tfm__jinja *j, tfm__jinja_value a, tfm__jinja_value b, const char *op) {
    if (j->status != TFM_OK)
        return 2;
    if (tfm__jinja_is(a, TFM__JINJA_UNDEFINED) || tfm__jinja_is(b, TFM__JINJA_UNDEFINED)) {
        tfm__jinja_error(j, "%s", tfm__jinja_is(a, TFM__JINJA_UNDEFINED) ? a.why : b.why);
        return 2;
    }
    if (tfm__jinja_is_number(a) && tfm__jinja_is_number(b))
        return compare_numbers(a, b);
    if (tfm__jinja_is(a, TFM__JINJA_STRING) && tfm__jinja_is(b, TFM__JINJA_STRING)) {
        tfm__jinja_step(j, a.string->bytes / 128);
        return compare_strings(a.string, b.string);
    }
    int order = 2;
    if (a.type == b.type && tfm__jinja_is_sequence(a)) {
        const size_t n = a.list->count, m = b.list->count;
        if (!tfm__jinja_enter(j))
            return 2;
        size_t i = 0;
        while (i < n && i < m && tfm__jinja_equal(j, a.list->items[i], b.list->items[i]))
            i++;
        order = i < n && i < m ? tfm__jinja_compare(j, a.list->items[i], b.list->items[i], op) : (n > m) - (n < m);
        tfm__jinja_leave(j);
        return order;
    }
    tfm__jinja_error(j, "'%s' not supported between instances of '%s' and '%s'", op, tfm__jinja_kind(a),
                     tfm__jinja_kind(b));
    return order;
}

bool tfm__jinja_is_hashable(tfm__jinja_value value) {
    if (tfm__jinja_is(value, TFM__JINJA_TUPLE))
        for (size_t i = 0; i < value.list->count; i++)
            if (!tfm__jinja_is_hashable(value.list->items[i]))
                return false;
    if (tfm__jinja_is(value, TFM__JINJA_VIEW))
        return value.list->items[1].integer == 2; /* values() */
    return value.type != TFM__JINJA_LIST && value.type != TFM__JINJA_DICT && value.type != TFM__JINJA_SLICE;
}

/* Numbers that are equal have the same hash. */
static uint64_t hash_of(tfm__jinja_value value) {
    uint64_t hash = value.type;
    if (tfm__jinja_is_number(value)) {
        const double x = tfm__jinja_real(value);
        return tfm__hash64(&(double){x == 0 ? 0 : x}, sizeof(x), 0);
    }
    if (tfm__jinja_is(value, TFM__JINJA_STRING))
        return tfm__hash64(value.string->data, value.string->bytes, 0);
    if (tfm__jinja_is(value, TFM__JINJA_TUPLE))
        for (size_t i = 0; i < value.list->count; i++)
            hash = hash * 1000003 + hash_of(value.list->items[i]);
    return hash;
}

/* ---- Dicts ----------------------------------------------------------------------------------------------------- */

tfm__jinja_value tfm__jinja_dict_new(tfm__jinja *j) {
    tfm__jinja_dict *dict = tfm__jinja_alloc(j, 1, sizeof(*dict));
    return dict ? (tfm__jinja_value){.type = TFM__JINJA_DICT, .dict = dict} : tfm__jinja_none();
}

/* The slot of a key, or the free one for it. */
static uint32_t *find_slot(tfm__jinja *j, const tfm__jinja_dict *dict, tfm__jinja_value key, uint64_t hash) {
    const size_t mask = 2 * dict->capacity - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        uint32_t *slot = &dict->slots[i];
        tfm__jinja_step(j, 0);
        if (!*slot || j->status != TFM_OK)
            return slot;
        const tfm__jinja_entry *entry = &dict->entries[*slot - 1];
        if (entry->hash == hash && tfm__jinja_equal(j, entry->key, key))
            return slot;
    }
}

static bool check_key(tfm__jinja *j, tfm__jinja_value key) {
    if (!tfm__jinja_is_hashable(key))
        tfm__jinja_error(j, "unhashable type: '%s'", tfm__jinja_kind(key));
    return j->status == TFM_OK;
}

tfm__jinja_value *tfm__jinja_dict_find(tfm__jinja *j, const tfm__jinja_dict *dict, tfm__jinja_value key) {
    if (!check_key(j, key) || !dict->count)
        return NULL;
    const uint32_t *slot = find_slot(j, dict, key, hash_of(key));
    return *slot ? &dict->entries[*slot - 1].value : NULL;
}

tfm__jinja_value *tfm__jinja_dict_find_text(tfm__jinja *j, const tfm__jinja_dict *dict, const char *key) {
    const tfm__jinja_string string = {key, strlen(key), strlen(key)};
    return tfm__jinja_dict_find(j, dict, (tfm__jinja_value){.type = TFM__JINJA_STRING, .string = &string});
}

static bool grow(tfm__jinja *j, tfm__jinja_dict *dict) {
    const size_t capacity = dict->capacity ? 2 * dict->capacity : 4;
    if (capacity > UINT32_MAX / 4) {
        tfm__jinja_error(j, "a dict has more than %zu entries", dict->count);
        return false;
    }
    tfm__jinja_entry *entries = tfm__jinja_alloc(j, capacity, sizeof(*entries));
    uint32_t *slots = tfm__jinja_alloc(j, 2 * capacity, sizeof(*slots));
    if (!entries || !slots)
        return false;
    if (dict->count)
        memcpy(entries, dict->entries, dict->count * sizeof(*entries));
    *dict = (tfm__jinja_dict){.count = dict->count, .capacity = capacity, .entries = entries, .slots = slots};
    for (size_t i = 0; i < dict->count; i++) {
        size_t at = entries[i].hash & (2 * capacity - 1);
        while (slots[at])
            at = (at + 1) & (2 * capacity - 1);
        slots[at] = (uint32_t)i + 1;
    }
    return true;
}

void tfm__jinja_dict_set(tfm__jinja *j, tfm__jinja_dict *dict, tfm__jinja_value key, tfm__jinja_value value) {
    if (!check_key(j, key) || (dict->count == dict->capacity && !grow(j, dict)))
        return;
    const uint64_t hash = hash_of(key);
    uint32_t *slot = find_slot(j, dict, key, hash);
    if (j->status != TFM_OK)
        return;
    if (*slot) {
        dict->entries[*slot - 1].value = value;
    } else {
        dict->entries[dict->count++] = (tfm__jinja_entry){.key = key, .value = value, .hash = hash};
        *slot = (uint32_t)dict->count;
    }
}

void tfm__jinja_dict_clear(tfm__jinja_dict *dict) {
    dict->count = 0;
    if (dict->capacity)
        memset(dict->slots, 0, 2 * dict->capacity * sizeof(*dict->slots));
}

void tfm__jinja_dict_set_text(tfm__jinja *j, tfm__jinja_dict *dict, const char *key, tfm__jinja_value value) {
    const tfm__jinja_value text = tfm__jinja_text(j, key);
    if (j->status == TFM_OK)
        tfm__jinja_dict_set(j, dict, text, value);
}

void tfm__jinja_dict_update(tfm__jinja *j, tfm__jinja_dict *dict, const tfm__jinja_dict *from) {
    for (size_t i = 0; i < from->count && tfm__jinja_step(j, 0); i++)
        tfm__jinja_dict_set(j, dict, from->entries[i].key, from->entries[i].value);
}
