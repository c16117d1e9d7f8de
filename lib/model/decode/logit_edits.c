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
            return tfm__fail(
                TFM_ERROR_UNSUPPORTED,
                "the model's %s cannot be combined with an engine, penalties, logit_bias, on_log_probs or a "
                "grammar: use tfm_generate without them",
                others[i].name);
    return TFM_OK;
}

bool tfm__logit_edits_need_tokens(const tfm__generation_rules *rules, const tfm__generate_params *params) {
    return params->sampling.repetition_penalty != 0 || params->presence_penalty != 0 ||
           params->frequency_penalty != 0 || rules->no_repeat_ngram > 0 || rules->bad_word_count > 0;
}

static void add(tfm__logit_edits *e, int64_t index, float penalty, float added) {
    e->failed = e->failed || tfm__grow(&e->list, &e->room, e->count + 1, sizeof(*e->list)) != TFM_OK;
    if (!e->failed)
        e->list[e->count++] = (tfm__logit_edit){(int32_t)index, penalty, added};
}

static void ban(tfm__logit_edits *e, int64_t first, int32_t token) {
    add(e, first + token, 1, -INFINITY);
}

/* Tokens that may not be next, in the row whose first logit is `first`. */
static void ban_tokens(tfm__logit_edits *e, int64_t first, const tfm__generation_rules *rules,
                       const tfm__generate_params *params, const int32_t *ids, int64_t count, int64_t prompt) {
    const int64_t least = params->min_length > 0 ? params->min_length - prompt : params->sampling.min_new_tokens;
    for (int i = 0; i < rules->begin_suppress_count && count == prompt; i++)
        ban(e, first, rules->begin_suppress_ids[i]);
    for (int i = 0; i < rules->suppress_id_count; i++)
        ban(e, first, rules->suppress_ids[i]);
    if (count - prompt < least) {
        if (rules->eos_id >= 0)
            ban(e, first, rules->eos_id);
        for (int i = 0; i < rules->eos_id_count; i++)
            ban(e, first, rules->eos_ids[i]);
    }
    for (int i = 0; i < rules->bad_word_count; i++) {
        const int *word = rules->bad_word_ids + rules->bad_words[i];
        const int64_t before = rules->bad_words[i + 1] - rules->bad_words[i] - 1;
        if (before <= count && memcmp(ids + count - before, word, (size_t)before * sizeof(*word)) == 0)
            ban(e, first, word[before]);
    }
    const int64_t n = rules->no_repeat_ngram;
    for (int64_t i = 0; n > 0 && i + n <= count; i++)
        if (memcmp(ids + i, ids + count - n + 1, (size_t)(n - 1) * sizeof(*ids)) == 0)
            ban(e, first, ids[i + n - 1]);
}

static int by_value(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* An edit of each token of ids [count]: the penalty, and `once` and `each` for each occurrence subtracted. */
static void penalize(tfm__logit_edits *e, int64_t first, float penalty, float once, float each, const int32_t *ids,
                     int64_t count) {
    int32_t *sorted = tfm__alloc((size_t)count + 1, sizeof(*sorted));
    if (!sorted) {
        e->failed = true;
        return;
    }
    memcpy(sorted, ids, (size_t)count * sizeof(*ids));
    qsort(sorted, (size_t)count, sizeof(*sorted), by_value);
    for (int64_t i = 0, from = 0; i < count; i++) {
        if (i + 1 < count && sorted[i + 1] == sorted[i])
            continue;
        add(e, first + sorted[i], penalty, -once - each * (float)(i + 1 - from));
        from = i + 1;
    }
    free(sorted);
}

/* Joins the edits of each logit, from edit `from` on. */
static void join(tfm__logit_edits *e, size_t from) {
    size_t kept = from;
    if (e->count > from) /* the index is the first member */
        qsort(e->list + from, e->count - from, sizeof(*e->list), by_value);
    for (size_t i = from; i < e->count; i++) {
        tfm__logit_edit *last = kept > from ? &e->list[kept - 1] : NULL;
        if (last && last->index == e->list[i].index) {
            last->penalty *= e->list[i].penalty;
            last->added += e->list[i].added;
        } else {
            e->list[kept++] = e->list[i];
        }
    }
    e->count = kept;
}

void tfm__logit_edits_add(tfm__logit_edits *edits, int64_t row, int64_t vocabulary, const tfm__generation_rules *rules,
                          const tfm__generate_params *params, const int32_t *ids, int64_t count, int64_t prompt) {
    const size_t from = edits->count;
    const int64_t first = row * vocabulary;
    if (params->sampling.repetition_penalty != 0)
        penalize(edits, first, params->sampling.repetition_penalty, 0, 0, ids, count);
    if (params->presence_penalty != 0 || params->frequency_penalty != 0)
        penalize(edits, first, 1, params->presence_penalty, params->frequency_penalty, ids + prompt, count - prompt);
    for (size_t i = 0; i < params->logit_bias_count; i++)
        add(edits, first + params->logit_bias[i].id, 1, params->logit_bias[i].bias);
    ban_tokens(edits, first, rules, params, ids, count, prompt);
    join(edits, from);
}

uint32_t *tfm__logit_edits_mask(tfm__logit_edits *e, int64_t row, int64_t vocabulary) {
    const size_t words = (size_t)tfm__ceil_div(vocabulary, 32), count = e->mask_count + 1;
    e->failed = e->failed || tfm__grow(&e->mask_rows, &e->mask_rows_room, count, sizeof(*e->mask_rows)) != TFM_OK ||
                tfm__grow(&e->masks, &e->masks_room, count * words, sizeof(*e->masks)) != TFM_OK;
    if (e->failed)
        return NULL;
    e->mask_rows[e->mask_count] = (int32_t)row;
    return e->masks + e->mask_count++ * words;
}

/* Uploads a list of words in the current scope. */
static tfm_tensor upload(tfm_context *ctx, const void *words, int64_t count) {
    tfm_tensor x = {0};
    tfm_tensor_new(ctx, &x, TFM_I32, 1, &count);
    tfm_tensor_write(ctx, x, words);
    return x;
}

tfm_status tfm__logit_edits_apply(tfm_context *ctx, tfm__logit_edits *e, tfm_tensor logits) {
    const size_t group = (size_t)tfm__context_tuning(ctx)->group, count = e->count, rows = e->mask_count;
    const int64_t vocabulary = logits.dims[1], words = tfm__ceil_div(vocabulary, 32);
    e->count = e->mask_count = 0;
    if (e->failed)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "out of host memory for logits processors");
    tfm_scope_open(ctx);
    if (count > 0)
        tfm__launch(ctx, tfm__kernel_get(ctx, "edit_logits", "edit_logits", ""),
                    TFM__GRID_1D((count + group - 1) / group * group, group),
                    TFM__ARGS(TFM__T(logits),
                              TFM__T_AS("edits", upload(ctx, e->list, (int64_t)(count * sizeof(*e->list) / 4))),
                              TFM__I_AS("count", (int64_t)count)));
    if (rows > 0)
        tfm__launch(ctx, tfm__kernel_get(ctx, "edit_logits", "mask_logits", ""),
                    TFM__GRID_2D(((size_t)vocabulary + group - 1) / group * group, rows, group, 1),
                    TFM__ARGS(TFM__T(logits), TFM__T_AS("rows", upload(ctx, e->mask_rows, (int64_t)rows)),
                              TFM__T_AS("masks", upload(ctx, e->masks, (int64_t)rows * words)), TFM__I(vocabulary),
                              TFM__I(words)));
    return tfm_scope_close(ctx, 0, NULL);
}

void tfm__logit_edits_free(tfm__logit_edits *e) {
    free(e->list);
    free(e->mask_rows);
    free(e->masks);
    *e = (tfm__logit_edits){0};
}
