#include <string.h>
#include "text/grammar/id_table.h"
#include "text/grammar/mask_cache.h"

enum { MAX_BYTES = 64 << 20 }; /* of the masks of a cache */

struct tfm__mask_cache {
    tfm__mask_cache *next; /* of another vocabulary */
    tfm__token_trie *trie;
    pthread_mutex_t lock;
    tfm__mask **masks;
    size_t count, capacity, bytes;
    tfm__id_table table;
    uint32_t *unified; /* by node: the one with the same mask */
};

void tfm__mask_free(tfm__mask *mask) {
    if (!mask)
        return;
    free(mask->nodes);
    free(mask->bits);
    free(mask->tokens);
    free(mask->leaves);
    free(mask);
}

void tfm__mask_caches_free(tfm__mask_cache *cache) {
    while (cache) {
        tfm__mask_cache *next = cache->next;
        for (size_t i = 0; i < cache->count; i++)
            tfm__mask_free(cache->masks[i]);
        free(cache->masks);
        tfm__id_table_free(&cache->table);
        tfm__token_trie_free(&cache->trie);
        free(cache->unified);
        pthread_mutex_destroy(&cache->lock);
        free(cache);
        cache = next;
    }
}

static tfm__mask_cache *new_cache(const tfm_grammar *grammar, const tfm__token_trie *trie) {
    tfm__mask_cache *cache = tfm__alloc(1, sizeof(*cache));
    uint32_t *unified = cache ? tfm__alloc(grammar->node_count, sizeof(*unified)) : NULL;
    if (!unified) {
        free(cache);
        return NULL;
    }
    for (uint32_t i = 0; i < grammar->node_count; i++) {
        const tfm__grammar_alike *alike = &grammar->alike[i];
        unified[i] = alike->bytes >= trie->depth && alike->node && alike->node < i ? unified[alike->node] : i;
    }
    for (uint32_t i = (uint32_t)grammar->node_count; i-- > 0;) { /* products have repetitions in the other order */
        const tfm__grammar_alike *alike = &grammar->alike[i];
        if (alike->bytes >= trie->depth && alike->node > i)
            unified[i] = unified[alike->node];
    }
    pthread_mutex_init(&cache->lock, NULL);
    cache->trie = tfm__token_trie_retain(trie);
    cache->unified = unified;
    return cache;
}

tfm_status tfm__mask_cache_of(tfm__mask_cache **out, const tfm_grammar *grammar, const tfm__token_trie *trie) {
    tfm_grammar *owner = (tfm_grammar *)grammar; /* its caches are mutable */
    pthread_mutex_lock(&owner->lock);
    tfm__mask_cache *cache = owner->caches;
    while (cache && cache->trie != trie)
        cache = cache->next;
    if (!cache && (cache = new_cache(grammar, trie))) {
        cache->next = owner->caches;
        owner->caches = cache;
    }
    pthread_mutex_unlock(&owner->lock);
    *out = cache;
    return cache ? TFM_OK : TFM_ERROR_MEMORY;
}

static int by_number(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

size_t tfm__mask_cache_unify(const tfm__mask_cache *cache, uint32_t *nodes, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        nodes[i] = cache->unified[nodes[i]];
    if (count)
        qsort(nodes, count, sizeof(*nodes), by_number);
    for (size_t i = 0; i < count; i++)
        if (!i || nodes[i] != nodes[i - 1])
            nodes[kept++] = nodes[i];
    return kept;
}

static uint64_t hash_of(const uint32_t *nodes, size_t count) {
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++)
        hash = tfm__id_hash(hash, nodes[i]);
    return hash;
}

static tfm__mask *find(const tfm__mask_cache *cache, const uint32_t *nodes, size_t count) {
    const uint64_t hash = hash_of(nodes, count);
    uint32_t id;
    for (size_t at = 0; (id = tfm__id_table_next(&cache->table, hash, &at)) != TFM__NO_ID;)
        if (cache->masks[id]->node_count == count &&
            memcmp(cache->masks[id]->nodes, nodes, count * sizeof(*nodes)) == 0)
            return cache->masks[id];
    return NULL;
}

const tfm__mask *tfm__mask_cache_find(tfm__mask_cache *cache, const uint32_t *nodes, size_t count) {
    pthread_mutex_lock(&cache->lock);
    const tfm__mask *mask = find(cache, nodes, count);
    pthread_mutex_unlock(&cache->lock);
    return mask;
}

/* Failures have no effect but time: the mask is computed again. */
void tfm__mask_cache_add(tfm__mask_cache *cache, tfm__mask **mask) {
    const tfm__mask *m = *mask;
    const size_t words = m->node_count + m->token_count + m->leave_count;
    const size_t bytes = sizeof(*m) + words * 4 + (m->bits ? cache->trie->vocabulary / 8 : 0) + 64;
    char message[TFM__MESSAGE_MAX];
    tfm__error_save(message);
    pthread_mutex_lock(&cache->lock);
    if (cache->bytes + bytes <= MAX_BYTES && !find(cache, m->nodes, m->node_count) &&
        tfm__grow(&cache->masks, &cache->capacity, cache->count + 1, sizeof(*cache->masks)) == TFM_OK &&
        tfm__id_table_add(&cache->table, hash_of(m->nodes, m->node_count), (uint32_t)cache->count) == TFM_OK) {
        cache->masks[cache->count++] = *mask;
        cache->bytes += bytes;
        *mask = NULL;
    }
    pthread_mutex_unlock(&cache->lock);
    tfm__error_restore(message);
}
