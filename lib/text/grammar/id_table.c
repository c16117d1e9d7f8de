#include <string.h>
#include "text/grammar/id_table.h"

void tfm__id_table_free(tfm__id_table *table) {
    free(table->hashes);
    free(table->ids);
    *table = (tfm__id_table){0};
}

void tfm__id_table_clear(tfm__id_table *table) {
    if (table->capacity)
        memset(table->ids, 0xff, table->capacity * sizeof(*table->ids));
    table->count = 0;
}

static void place(tfm__id_table *table, uint64_t hash, uint32_t id) {
    size_t slot = (size_t)hash & (table->capacity - 1);
    while (table->ids[slot] != TFM__NO_ID)
        slot = (slot + 1) & (table->capacity - 1);
    table->hashes[slot] = hash;
    table->ids[slot] = id;
}

tfm_status tfm__id_table_add(tfm__id_table *table, uint64_t hash, uint32_t id) {
    if (2 * (table->count + 1) > table->capacity) {
        const size_t capacity = table->capacity ? 2 * table->capacity : 64;
        tfm__id_table larger = {tfm__alloc(capacity, sizeof(*larger.hashes)), tfm__alloc(capacity, sizeof(*larger.ids)),
                                capacity, table->count};
        if (!larger.hashes || !larger.ids) {
            tfm__id_table_free(&larger);
            return TFM_ERROR_MEMORY;
        }
        memset(larger.ids, 0xff, capacity * sizeof(*larger.ids));
        for (size_t i = 0; i < table->capacity; i++)
            if (table->ids[i] != TFM__NO_ID)
                place(&larger, table->hashes[i], table->ids[i]);
        tfm__id_table_free(table);
        *table = larger;
    }
    place(table, hash, id);
    table->count++;
    return TFM_OK;
}
