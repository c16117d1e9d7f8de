/* Host arrays of one translation batch: padded ids, prefixes, limits. */
#include "model/decode/search.h"

void tfm__search_batch_free(tfm__search_batch *b) {
    void *all[] = {b->ids, b->lengths, b->limits, b->prefixes, b->prefix_counts, b->penalty};
    for (size_t i = 0; i < TFM__COUNT(all); i++)
        free(all[i]);
}

/* Copies ragged rows into a padded array. */
static int32_t *padded(const int32_t *ids, const size_t *counts, size_t rows, int64_t width, int32_t pad) {
    int32_t *out = tfm__alloc(rows * (size_t)width, sizeof(*out));
    for (size_t i = 0; out && i < rows; i++) {
        tfm__ids_pad(out + (int64_t)i * width, width, ids, counts[i], 0, 0, pad);
        ids += counts[i];
    }
    return out;
}

static size_t largest(const size_t *counts, size_t n) {
    size_t most = 0;
    for (size_t i = 0; counts && i < n; i++)
        most = counts[i] > most ? counts[i] : most;
    return most;
}

static size_t sum(const size_t *counts, size_t n) {
    size_t total = 0;
    for (size_t i = 0; counts && i < n; i++)
        total += counts[i];
    return total;
}

/* Prefixes: forced_bos_token_id if set, then the caller's. */
static tfm_status make_prefixes(tfm__search_batch *b, const tfm__generation_rules *rules, const int32_t *prefixes,
                                const size_t *counts) {
    const int64_t first = rules->forced_bos_id >= 0 ? 1 : 0;
    const int64_t width = first + (prefixes ? (int64_t)largest(counts, (size_t)b->count) : 0);
    b->prefix_width = width > 0 ? width : 1;
    b->prefixes = tfm__alloc((size_t)(b->count * b->prefix_width), sizeof(*b->prefixes));
    b->prefix_counts = tfm__alloc((size_t)b->count, sizeof(*b->prefix_counts));
    if (!b->prefixes || !b->prefix_counts)
        return TFM_ERROR_MEMORY;
    for (int64_t i = 0; i < b->count; i++) {
        int32_t *row = b->prefixes + i * b->prefix_width;
        const size_t count = prefixes ? counts[i] : 0;
        if (first)
            row[0] = rules->forced_bos_id;
        for (size_t k = 0; k < count; k++)
            row[first + (int64_t)k] = *prefixes++;
        b->prefix_counts[i] = (int32_t)(first + (int64_t)count);
    }
    return TFM_OK;
}

tfm_status tfm__search_batch_make(tfm__search_batch *b, const tfm_model *model, const tfm__search_params *rules,
                                  const tfm__generation_rules *forced, const int32_t *ids, const size_t *counts,
                                  size_t sentences, const int32_t *prefixes, const size_t *prefix_counts) {
    const tfm__stack_arch *encoder = &model->arch.encoder;
    *b = (tfm__search_batch){.count = (int64_t)sentences, .width = (int64_t)largest(counts, sentences)};
    for (size_t i = 0; i < sentences; i++)
        if (counts[i] < 1 || counts[i] > (size_t)encoder->max_positions)
            return tfm__fail(TFM_ERROR_INPUT,
                             "sentence %zu has %zu tokens, the model takes 1 to %d: split or truncate it", i + 1,
                             counts[i], encoder->max_positions);
    tfm_status status = tfm__search_check_ids("source", ids, sum(counts, sentences), encoder->vocabulary);
    if (status == TFM_OK && prefixes)
        status =
            tfm__search_check_ids("prefix", prefixes, sum(prefix_counts, sentences), model->arch.decoder.vocabulary);
    if (status != TFM_OK)
        return status;
    b->ids = padded(ids, counts, sentences, b->width, model->rules.pad_id);
    b->lengths = tfm__alloc(sentences, sizeof(*b->lengths));
    b->limits = tfm__alloc(sentences, sizeof(*b->limits));
    if (!b->ids || !b->lengths || !b->limits || make_prefixes(b, forced, prefixes, prefix_counts) != TFM_OK)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < sentences; i++) {
        const int64_t limit = tfm__search_limit(rules, model, counts[i]);
        b->lengths[i] = (int32_t)counts[i];
        b->limits[i] = (int32_t)limit;
        b->longest = limit > b->longest ? limit : b->longest;
    }
    b->penalty = tfm__search_penalty(rules, b->longest);
    return b->penalty ? TFM_OK : TFM_ERROR_MEMORY;
}
