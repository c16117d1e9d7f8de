#include "model/decode/logit_edits.h"
#include <math.h>
#include <string.h>
#include "ops/ops.h"

tfm_status tfm__logit_edits_check(const tfm__generation_rules *rules, const tfm__generate_params *params) {
    const tfm__sampling_params *s = &params->sampling;
    const struct {
        const char *name;
        bool set;
    } others[] = {
        {"sequence_bias", rules->sequence_bias_count > 0},
        {"encoder_repetition_penalty", s->encoder_repetition_penalty != 0},
        {"encoder_no_repeat_ngram_size", s->encoder_no_repeat_ngram > 0},
        {"exponential_decay_length_penalty", s->length_decay != 0},
        {"renormalize_logits", rules->renormalize_logits},
        {"forced_eos_token_id", rules->forced_eos_id >= 0},
        {"forced_bos_token_id", rules->forced_bos_id >= 0},
    };
    for (size_t i = 0; i < TFM__COUNT(others); i++)
        if (others[i].set)
            return tfm__fail(TFM_ERROR_UNSUPPORTED,
                             "continuous batching does not support the model's %s: use tfm_generate", others[i].name);
    return TFM_OK;
}

bool tfm__logit_edits_need_tokens(const tfm__generation_rules *rules, const tfm__generate_params *params) {
    return params->sampling.repetition_penalty != 0 || rules->no_repeat_ngram > 0 || rules->bad_word_count > 0;
}

static void add(tfm__logit_edits *e, int64_t index, float penalty, float added) {
    if (e->count == e->room) {
        const size_t room = e->room ? 2 * e->room : 256;
        int32_t *indices = realloc(e->indices, room * sizeof(*indices));
        e->indices = indices ? indices : e->indices;
        float *values = indices ? realloc(e->edits, room * 2 * sizeof(*values)) : NULL;
        e->edits = values ? values : e->edits;
        e->failed |= !values;
        if (!values)
            return;
        e->room = room;
    }
    e->indices[e->count] = (int32_t)index;
    e->edits[2 * e->count] = penalty;
    e->edits[2 * e->count++ + 1] = added;
}

/* A row that edits are listed for. */
typedef struct row_edits {
    tfm__logit_edits *list;
    int64_t first;            /* index of its first logit */
    size_t penalties, banned; /* its first penalty in the list, sorted by token, and the edit after the last one */
} row_edits;

static int by_value(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* A token with a penalty keeps its one edit. */
static void ban(const row_edits *row, int32_t token) {
    const int32_t index = (int32_t)(row->first + token), *from = row->list->indices;
    const int32_t *edit = row->banned > row->penalties ? bsearch(&index, from + row->penalties,
                                                                 row->banned - row->penalties, sizeof(index), by_value)
                                                       : NULL;
    if (edit)
        row->list->edits[2 * (edit - from) + 1] = -INFINITY;
    else
        add(row->list, index, 1, -INFINITY);
}

/* Tokens that may not be next. */
static void ban_tokens(const row_edits *row, const tfm__generation_rules *rules, const tfm__generate_params *params,
                       const int32_t *ids, int64_t count, int64_t prompt) {
    const int64_t least = params->min_length > 0 ? params->min_length - prompt : params->sampling.min_new_tokens;
    for (int i = 0; i < rules->begin_suppress_count && count == prompt; i++)
        ban(row, rules->begin_suppress_ids[i]);
    for (int i = 0; i < rules->suppress_id_count; i++)
        ban(row, rules->suppress_ids[i]);
    if (count - prompt < least) {
        if (rules->eos_id >= 0)
            ban(row, rules->eos_id);
        for (int i = 0; i < rules->eos_id_count; i++)
            ban(row, rules->eos_ids[i]);
    }
    for (int i = 0; i < rules->bad_word_count; i++) {
        const int *word = rules->bad_word_ids + rules->bad_words[i];
        const int64_t before = rules->bad_words[i + 1] - rules->bad_words[i] - 1;
        if (before <= count && memcmp(ids + count - before, word, (size_t)before * sizeof(*word)) == 0)
            ban(row, word[before]);
    }
    const int64_t n = rules->no_repeat_ngram;
    for (int64_t i = 0; n > 0 && i + n <= count; i++)
        if (memcmp(ids + i, ids + count - n + 1, (size_t)(n - 1) * sizeof(*ids)) == 0)
            ban(row, ids[i + n - 1]);
}

/* The penalty on each token of the sequence, once. */
static void penalize(tfm__logit_edits *e, int64_t first, float penalty, const int32_t *ids, int64_t count) {
    int32_t *sorted = tfm__alloc((size_t)count + 1, sizeof(*sorted));
    if (!sorted) {
        e->failed = true;
        return;
    }
    memcpy(sorted, ids, (size_t)count * sizeof(*ids));
    qsort(sorted, (size_t)count, sizeof(*sorted), by_value);
    for (int64_t i = 0; i < count; i++)
        if (i == 0 || sorted[i] != sorted[i - 1])
            add(e, first + sorted[i], penalty, 0);
    free(sorted);
}

void tfm__logit_edits_add(tfm__logit_edits *edits, int64_t row, int64_t vocabulary, const tfm__generation_rules *rules,
                          const tfm__generate_params *params, const int32_t *ids, int64_t count, int64_t prompt) {
    row_edits own = {.list = edits, .first = row * vocabulary, .penalties = edits->count};
    if (params->sampling.repetition_penalty != 0)
        penalize(edits, own.first, params->sampling.repetition_penalty, ids, count);
    own.banned = edits->count;
    ban_tokens(&own, rules, params, ids, count, prompt);
}

tfm_status tfm__logit_edits_apply(tfm_context *ctx, tfm__logit_edits *e, tfm_tensor logits) {
    tfm_tensor indices = {0}, edits = {0};
    const int64_t count = (int64_t)e->count, values = 2 * count;
    e->count = 0;
    if (e->failed)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "out of host memory for logits processors");
    if (count == 0)
        return tfm_context_status(ctx);
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &indices, TFM_I32, 1, &count);
    tfm_tensor_new(ctx, &edits, TFM_F32, 1, &values);
    tfm_tensor_write(ctx, indices, e->indices);
    tfm_tensor_write(ctx, edits, e->edits);
    const size_t group = (size_t)tfm__context_tuning(ctx)->group;
    tfm__launch(ctx, tfm__kernel_get(ctx, "edit_logits", "edit_logits", ""),
                TFM__GRID_1D(((size_t)count + group - 1) / group * group, group),
                TFM__ARGS(TFM__T(logits), TFM__T(indices), TFM__T(edits), TFM__I(count)));
    return tfm_scope_close(ctx, 0, NULL);
}

void tfm__logit_edits_free(tfm__logit_edits *e) {
    free(e->indices);
    free(e->edits);
    *e = (tfm__logit_edits){0};
}
