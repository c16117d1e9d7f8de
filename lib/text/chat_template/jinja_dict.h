/* Dicts with keys of any hashable type, in insertion order; equality and hashes as in Python. */
#ifndef TFM_LIB_JINJA_DICT_H
#define TFM_LIB_JINJA_DICT_H

#include "text/chat_template/jinja.h"

typedef struct tfm__jinja_entry {
    tfm__jinja_value key, value;
    uint64_t hash;
} tfm__jinja_entry;

struct tfm__jinja_dict {
    size_t count, capacity;
    tfm__jinja_entry *entries;
    uint32_t *slots; /* entry + 1, or 0; a power of two of them, at least 2 x capacity */
};

tfm__jinja_value tfm__jinja_dict_new(tfm__jinja *j);
/* The value of a key, or NULL. The key must be hashable: otherwise it fails with a type error. */
tfm__jinja_value *tfm__jinja_dict_find(tfm__jinja *j, const tfm__jinja_dict *dict, tfm__jinja_value key);
tfm__jinja_value *tfm__jinja_dict_find_text(tfm__jinja *j, const tfm__jinja_dict *dict, const char *key);
void tfm__jinja_dict_set(tfm__jinja *j, tfm__jinja_dict *dict, tfm__jinja_value key, tfm__jinja_value value);
void tfm__jinja_dict_set_text(tfm__jinja *j, tfm__jinja_dict *dict, const char *key, tfm__jinja_value value);
void tfm__jinja_dict_clear(tfm__jinja_dict *dict);
void tfm__jinja_dict_update(tfm__jinja *j, tfm__jinja_dict *dict, const tfm__jinja_dict *from);

bool tfm__jinja_is_hashable(tfm__jinja_value value);
bool tfm__jinja_equal(tfm__jinja *j, tfm__jinja_value a, tfm__jinja_value b);
/* Python's `is`: for none, booleans and objects; strings and numbers compare by value. */
bool tfm__jinja_same(tfm__jinja_value a, tfm__jinja_value b);
/* Less than 0, 0 or more, or 2 for not comparable (NaN); fails for other types. */
int tfm__jinja_compare(tfm__jinja *j, tfm__jinja_value a, tfm__jinja_value b, const char *op);

#endif
