/* A hash table of ids: the owner keeps the items, compares them and hashes them. */
#ifndef TFM_LIB_ID_TABLE_H
#define TFM_LIB_ID_TABLE_H

#include "base/base.h"

#define TFM__NO_ID UINT32_MAX

/* Initially {0}. */
typedef struct tfm__id_table {
    uint64_t *hashes;
    uint32_t *ids; /* TFM__NO_ID: empty */
    size_t capacity, count;
} tfm__id_table;

void tfm__id_table_free(tfm__id_table *table);
/* Removes all ids, and keeps the memory. */
void tfm__id_table_clear(tfm__id_table *table);
tfm_status tfm__id_table_add(tfm__id_table *table, uint64_t hash, uint32_t id);

static inline uint64_t tfm__id_hash(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* The next id with this hash, or TFM__NO_ID; *at is 0 before the first. */
static inline uint32_t tfm__id_table_next(const tfm__id_table *table, uint64_t hash, size_t *at) {
    while (table->capacity) {
        const size_t slot = (size_t)(hash + (*at)++) & (table->capacity - 1);
        if (table->ids[slot] == TFM__NO_ID || table->hashes[slot] == hash)
            return table->ids[slot];
    }
    return TFM__NO_ID;
}

#endif
