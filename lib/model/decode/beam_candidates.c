/* Candidates of the rows: the likeliest tokens, or a sampled one, after logits processors. */
#include <math.h>
#include <string.h>
#include "model/decode/beam.h"
#include "ops/reduce/sample.h"
#include "ops/reduce/topk.h"
#include "ops/ops.h"

/* ---- Suppressed tokens --------------------------------------------------------------------------------- */

/* Words in put_words' format. */
typedef struct word_list {
    int32_t *starts, *ids;
    int words, used;
} word_list;

static void add_word(word_list *to, const int *ids, int count) {
    to->starts[to->words++] = to->used;
    for (int i = 0; i < count; i++)
        to->ids[to->used++] = ids[i];
}

/* A single id is a word only if it keeps its probability mass; otherwise the search bias has removed it. EOS ids are
 * words of one id, for the first steps only. */
static void list_words(word_list *to, tfm__beam *beam, const int *eos_ids) {
    const tfm__generation_rules *rules = beam->rules;
    for (int i = 0; i < rules->begin_suppress_count; i++)
        add_word(to, &rules->begin_suppress_ids[i], 1);
    beam->first_words = to->words;
    for (int i = 0; beam->restore_mass && i < rules->suppress_id_count; i++) {
        const int place = beam->shortlist ? tfm__shortlist_projection_index(beam->shortlist, rules->suppress_ids[i])
                                          : rules->suppress_ids[i];
        if (!tfm__generation_is_pad(rules, rules->suppress_ids[i]) && place >= 0) /* it is in no distribution */
            add_word(to, &place, 1);
    }
    for (int i = 0; i < rules->bad_word_count; i++)
        add_word(to, rules->bad_word_ids + rules->bad_words[i], rules->bad_words[i + 1] - rules->bad_words[i]);
    beam->words = to->words - beam->first_words;
    for (int i = 0; beam->sampling.min_new_tokens > 0 && i < beam->eos_count; i++)
        add_word(to, &eos_ids[i], 1);
    to->starts[to->words] = to->used;
}

/* The EOS ids; returns their number. */
static int list_ends(int *out, const tfm__generation_rules *rules) {
    int count = 0;
    if (rules->eos_id >= 0)
        out[count++] = rules->eos_id;
    for (int i = 0; i < rules->eos_id_count; i++) {
        bool there = false;
        for (int k = 0; k < count; k++)
            there = there || out[k] == rules->eos_ids[i];
        if (!there)
            out[count++] = rules->eos_ids[i];
    }
    return count;
}

tfm_status tfm__beam_upload_bad_words(tfm__beam *beam) {
    const tfm__generation_rules *rules = beam->rules;
    int eos_ids[TFM__MAX_EOS_IDS + 1];
    beam->eos_count = list_ends(eos_ids, rules);
    const size_t singles = (size_t)(rules->begin_suppress_count + rules->suppress_id_count + beam->eos_count);
    word_list list = {.starts = tfm__alloc(singles + (size_t)rules->bad_word_count + 1, sizeof(int32_t)),
                      .ids =
                          tfm__alloc(singles + (size_t)rules->bad_words[rules->bad_word_count] + 1, sizeof(int32_t))};
    if (list.starts && list.ids) {
        list_words(&list, beam, eos_ids);
        if (list.words > 0) {
            beam->word_starts = tfm__beam_ints_of(beam->ctx, list.starts, list.words + 1);
            beam->word_ids = tfm__beam_ints_of(beam->ctx, list.ids, list.used);
        }
        list.ids[0] = 0; /* a tensor has at least one element */
        for (int i = 0; i < beam->eos_count; i++)
            list.ids[i] = eos_ids[i];
        beam->eos_ids = tfm__beam_ints_of(beam->ctx, list.ids, beam->eos_count ? beam->eos_count : 1);
    } else {
        tfm__context_fail(beam->ctx, TFM_ERROR_MEMORY, "search: out of host memory for `bad_words_ids`");
    }
    free(list.starts);
    free(list.ids);
    if (rules->sequence_bias_count > 0) {
        beam->sequence_bias_starts =
            tfm__beam_ints_of(beam->ctx, rules->sequence_bias_starts, rules->sequence_bias_count + 1);
        beam->sequence_bias_ids = tfm__beam_ints_of(beam->ctx, rules->sequence_bias_ids,
                                                    rules->sequence_bias_starts[rules->sequence_bias_count]);
        beam->bias = tfm__beam_floats(beam->ctx, rules->sequence_bias_count);
        tfm_tensor_write(beam->ctx, beam->bias, rules->bias);
    }
    return tfm_context_status(beam->ctx);
}

/* The words of the list active in this step. */
static int64_t active_words(const tfm__beam *beam, int64_t *first) {
    const int64_t free_step = beam->rules->forced_bos_id >= 0;
    *first = beam->step == free_step ? 0 : beam->first_words;
    return beam->first_words - *first + beam->words +
           (beam->step < beam->sampling.min_new_tokens && !beam->sampling.min_tokens ? beam->eos_count : 0);
}

/* Whether tokens may be suppressed in this step. */
static bool suppresses(const tfm__beam *beam) {
    int64_t first;
    const int64_t repeat = beam->rules->no_repeat_ngram, columns = beam->block_table.dims[1];
    return active_words(beam, &first) > 0 || (repeat > 0 && columns >= repeat) || tfm__beam_suppresses(beam);
}

/* Sets suppressed logits to -inf after each row's past; *removed (R) is their probability mass. Returns whether any may
 * be suppressed in this step. */
static bool suppress(const tfm__beam *beam, tfm_tensor *removed, tfm_tensor logits) {
    tfm_context *ctx = beam->ctx;
    const int64_t rows = beam->rows, columns = beam->block_table.dims[1];
    const int64_t repeat = beam->rules->no_repeat_ngram;
    int64_t first;
    const int64_t words = active_words(beam, &first);
    tfm_tensor unforced = {0};
    const bool repeats = repeat > 0 && columns >= repeat, suppresses_more = tfm__beam_suppresses(beam);
    if (words == 0 && !repeats && !suppresses_more)
        return false;
    *removed = tfm__beam_floats(ctx, rows);
    if (beam->translates && (repeats || beam->sampling.encoder_no_repeat_ngram > 0))
        tfm__beam_unforced_rows(beam, &unforced);
    if (words > 0) {
        tfm_tensor starts = {0};
        tfm_tensor_rows(ctx, &starts, beam->word_starts, first, words + 1);
        tfm__launch(
            ctx, tfm__kernel_get(ctx, "logits_processors", "suppress_bad_words", ""), tfm__beam_items(ctx, rows),
            TFM__ARGS(TFM__T(logits), TFM__T_AS("removed", *removed), TFM__T_AS("block_table", beam->block_table),
                      TFM__T_AS("lengths", beam->lengths), TFM__T_AS("slot_token", beam->slot_token),
                      TFM__T_AS("words", starts), TFM__T_AS("ids", beam->word_ids), TFM__I(rows),
                      TFM__I_AS("vocabulary", beam->vocabulary), TFM__I(columns), TFM__I_AS("count", words)));
    } else {
        const float none = -INFINITY;
        tfm__tensor_fill(ctx, *removed, &none);
    }
    if (repeats)
        tfm__launch(ctx, tfm__kernel_get(ctx, "logits_processors", "suppress_repeated_ngrams", ""),
                    tfm__beam_items(ctx, rows),
                    TFM__ARGS(TFM__T(logits), TFM__T_AS("removed", *removed), TFM__T(unforced),
                              TFM__T_AS("block_table", beam->block_table), TFM__T_AS("lengths", beam->lengths),
                              TFM__T_AS("slot_token", beam->slot_token), TFM__I(rows),
                              TFM__I_AS("vocabulary", beam->vocabulary), TFM__I(columns), TFM__I_AS("length", repeat)));
    if (suppresses_more)
        tfm__beam_suppress(beam, logits, *removed, unforced);
    return true;
}

/* Whether all tokens may be suppressed in this step. With a vocabulary of usual size they cannot, and no kernel is
 * launched. */
static bool may_exhaust(const tfm__beam *beam) {
    int64_t first;
    int64_t most = active_words(beam, &first) + beam->eos_count;
    if (beam->rules->no_repeat_ngram > 0)
        most += beam->block_table.dims[1];
    if (beam->sampling.encoder_no_repeat_ngram > 0)
        most += beam->source_ids.dims[1];
    return 2 * most >= beam->vocabulary; /* the model's bias may suppress more */
}

/* Finishes rows without any allowed token; `values` from tfm__beam_candidates. */
static void finish_exhausted(const tfm__beam *beam, tfm_tensor values, tfm_tensor removed) {
    tfm_context *ctx = beam->ctx;
    if (!may_exhaust(beam))
        return;
    const int64_t each = beam->rows > 0 ? (int64_t)tfm_tensor_count(values) / beam->rows : 0;
    tfm__launch(
        ctx, tfm__beam_kernel(beam, "beam_finish_exhausted", ""), tfm__beam_items(ctx, beam->live),
        TFM__ARGS(TFM__T(values), TFM__T(removed), TFM__T_AS("scores", beam->scores), TFM__T_AS("limits", beam->limits),
                  TFM__T_AS("prefix_counts", beam->prefix_counts), TFM__T_AS("penalty", beam->penalty),
                  TFM__T_AS("finished_total", beam->finished_total), TFM__T_AS("finished_token", beam->finished_token),
                  TFM__T_AS("finished_slot", beam->finished_slot), TFM__T_AS("finished_length", beam->finished_length),
                  TFM__T_AS("finished_count", beam->finished_count), TFM__T_AS("slot_token", beam->slot_token),
                  TFM__T_AS("slot_parent", beam->slot_parent), TFM__T_AS("starts", beam->starts),
                  TFM__T_AS("admitted_step", beam->began), TFM__T_AS("sentences", beam->sentences),
                  TFM__T_AS("done", beam->done), TFM__I_AS("m", beam->live), TFM__I_AS("first_slot", beam->slot),
                  TFM__I_AS("step", beam->step), TFM__I_AS("forced_eos_id", beam->rules->forced_eos_id), TFM__I(each)));
}

/* ---- Candidates ---------------------------------------------------------------------------------------- */

/* *out = logits with the repetition penalty on tokens of each row's past ("CTRL", Keskar et al. 2019). As in
 * transformers, it applies to log p in beam search, else to logits. */
static void apply_repetition_penalty(const tfm__beam *beam, tfm_tensor *out, tfm_tensor logits, tfm_tensor lse) {
    tfm_context *ctx = beam->ctx;
    const int64_t rows = beam->rows;
    tfm_tensor_new(ctx, out, TFM_F32, 2, logits.dims);
    tfm__tensor_copy(ctx, *out, logits);
    tfm__launch(
        ctx, tfm__kernel_get(ctx, "logits_processors", "apply_repetition_penalty", ""), tfm__row_grid(ctx, rows),
        TFM__ARGS(TFM__T_AS("out", *out), TFM__T(logits), TFM__T(lse), TFM__T_AS("block_table", beam->block_table),
                  TFM__T_AS("lengths", beam->lengths), TFM__T_AS("slot_token", beam->slot_token), TFM__I(rows),
                  TFM__I_AS("vocabulary", beam->vocabulary), TFM__I_AS("columns", beam->block_table.dims[1]),
                  TFM__I_AS("use_log_probs", beam->width > 1),
                  TFM__F_AS("penalty", beam->sampling.repetition_penalty)));
}

/* *out = logits plus sequence_bias. */
static void apply_sequence_bias(const tfm__beam *beam, tfm_tensor *out, tfm_tensor logits) {
    tfm_context *ctx = beam->ctx;
    const int64_t rows = beam->rows;
    tfm_tensor_new(ctx, out, TFM_F32, 2, logits.dims);
    tfm__tensor_copy(ctx, *out, logits);
    tfm__launch(ctx, tfm__kernel_get(ctx, "logits_processors", "apply_sequence_bias", ""), tfm__beam_items(ctx, rows),
                TFM__ARGS(TFM__T_AS("out", *out), TFM__T_AS("block_table", beam->block_table),
                          TFM__T_AS("lengths", beam->lengths), TFM__T_AS("slot_token", beam->slot_token),
                          TFM__T_AS("words", beam->sequence_bias_starts), TFM__T_AS("ids", beam->sequence_bias_ids),
                          TFM__T_AS("bias", beam->bias), TFM__I(rows), TFM__I_AS("vocabulary", beam->vocabulary),
                          TFM__I_AS("columns", beam->block_table.dims[1]),
                          TFM__I_AS("count", beam->rules->sequence_bias_count)));
}

/* Samples one token per row. */
static void sample_tokens(const tfm__beam *beam, tfm_tensor *tokens, tfm_tensor logits) {
    tfm_context *ctx = beam->ctx;
    tfm_tensor streams = {0}, sampled = {0};
    tfm_sample_options options = beam->sampling.sample_options;
    options.step = (uint64_t)beam->step;
    tfm_gather(ctx, &streams, beam->streams, beam->sources);
    tfm__sample(ctx, &sampled, NULL, logits, streams, &options);
    tfm_tensor_reshape(ctx, tokens, sampled, 2, (int64_t[]){beam->live, 1});
}

/* The same, with the model's logit of the token and the log-sum-exp, in one launch. */
static void sample_fused(const tfm__beam *beam, tfm_tensor *values, tfm_tensor *tokens, tfm_tensor *lse,
                         tfm_tensor logits) {
    tfm_context *ctx = beam->ctx;
    tfm_tensor sampled = {0};
    tfm_sample_options options = beam->sampling.sample_options;
    options.step = (uint64_t)beam->step;
    tfm__sample_with_scores(ctx, &sampled, values, lse, logits, beam->streams, beam->sources, &options);
    tfm_tensor_reshape(ctx, tokens, sampled, 2, (int64_t[]){beam->live, 1});
}

/* Applies logits processors. The reported score stays the model's, except in beam search with a penalty. */
static void process_logits(const tfm__beam *beam, tfm_tensor *values, tfm_tensor *tokens, tfm_tensor *lse,
                           tfm_tensor logits, int k) {
    tfm_context *ctx = beam->ctx;
    const int64_t rows = beam->rows;
    tfm_tensor altered = logits, removed = {0}, best = {0}, first = {0}, left = {0};
    tfm_topk(ctx, &best, &first, lse, logits, 1);
    if (beam->bias.buffer) {
        altered = (tfm_tensor){0};
        apply_sequence_bias(beam, &altered, logits);
    }
    if (beam->sampling.encoder_repetition_penalty != 0) {
        const tfm_tensor before = altered;
        altered = (tfm_tensor){0};
        tfm__beam_apply_encoder_repetition_penalty(beam, &altered, before, *lse);
    }
    if (beam->sampling.repetition_penalty != 0) {
        const tfm_tensor before = altered;
        altered = (tfm_tensor){0};
        apply_repetition_penalty(beam, &altered, before, *lse);
    }
    if (tfm__beam_has_length_decay(beam)) {
        const tfm_tensor before = altered;
        altered = (tfm_tensor){0};
        tfm__beam_apply_length_decay(beam, &altered, before, *lse);
    }
    const bool suppressed = suppress(beam, &removed, altered);
    if (beam->sampling.do_sample)
        sample_tokens(beam, tokens, altered);
    else
        tfm_topk(ctx, values, tokens, &left, altered, k);
    const bool normal = left.buffer && beam->rules->renormalize_logits;
    if (normal)
        *lse = left;
    const bool sampled = !values->buffer;
    if (beam->width > 1) {
        if (suppressed)
            finish_exhausted(beam, *values, removed);
        return;
    }
    if (sampled)
        tfm_tensor_new(ctx, values, TFM_F32, 2, (int64_t[]){rows, 1});
    tfm__launch(ctx, tfm__kernel_get(ctx, "beam", "gather_token_logits", ""), tfm__beam_items(ctx, rows),
                TFM__ARGS(TFM__T_AS("values", *values), TFM__T_AS("tokens", *tokens),
                          TFM__T_AS("logits", normal ? altered : logits), TFM__I(rows),
                          TFM__I_AS("vocabulary", beam->vocabulary), TFM__I(sampled)));
    if (suppressed)
        finish_exhausted(beam, *values, removed);
}

/* Maps shortlist indices to token ids. */
static void map_shortlist_ids(const tfm__beam *beam, tfm_tensor *tokens) {
    tfm_context *ctx = beam->ctx;
    tfm_tensor places = {0}, ids = {0};
    tfm_tensor_reshape(ctx, &places, *tokens, 1, (int64_t[]){(int64_t)tfm_tensor_count(*tokens)});
    tfm_gather(ctx, &ids, beam->shortlist->list, places);
    tfm_tensor_reshape(ctx, tokens, ids, tokens->rank, tokens->dims);
}

/* Top k of each row; split over the vocabulary if the device does so and the step's kernel can merge the parts in local
 * memory. Returns the number of parts. */
static int64_t topk_maybe_split(const tfm__beam *beam, tfm_tensor *values, tfm_tensor *tokens, tfm_tensor *lse,
                                tfm_tensor logits, int k) {
    enum { MAX_MERGED = 1024 };
    const int64_t parts = tfm__topk_split_count(beam->ctx, logits.dims[0], logits.dims[1]);
    if (parts > 1 && beam->width * k <= MAX_MERGED) {
        tfm__topk_split(beam->ctx, values, tokens, lse, logits, k, parts);
        return parts;
    }
    tfm_topk(beam->ctx, values, tokens, lse, logits, k);
    return 1;
}

/* Argmax of each row by int8 screening. The logit doubles as log-sum-exp, since no log p is needed. *logits is for
 * forced tokens: the int8 estimates, or the bias of all rows. */
static void topk_int8(const tfm__beam *beam, tfm_tensor *values, tfm_tensor *tokens, tfm_tensor *lse,
                      tfm_tensor *logits) {
    tfm_context *ctx = beam->ctx;
    const bool rules = suppresses(beam);
    tfm_tensor removed = {0};
    *logits = rules ? (tfm_tensor){0} : beam->greedy_int8.bias;
    if (!rules)
        tfm__argmax_int8(ctx, values, tokens, &beam->greedy_int8);
    if (rules)
        tfm__argmax_int8_approximate(ctx, logits, &beam->greedy_int8);
    if (rules && tfm_context_status(ctx) == TFM_OK)
        suppress(beam, &removed, *logits);
    if (rules && tfm_context_status(ctx) == TFM_OK)
        tfm__argmax_int8_verify(ctx, values, tokens, *logits, &beam->greedy_int8);
    if (removed.buffer && tfm_context_status(ctx) == TFM_OK)
        finish_exhausted(beam, *values, removed);
    *lse = *values;
}

/* The same from fp32 logits. */
static int64_t topk_fp32(const tfm__beam *beam, tfm_tensor *values, tfm_tensor *tokens, tfm_tensor *lse,
                         tfm_tensor logits, int k) {
    tfm_context *ctx = beam->ctx;
    const int64_t rows = beam->rows;
    const bool altered = beam->sampling.repetition_penalty != 0 || beam->bias.buffer ||
                         beam->sampling.encoder_repetition_penalty != 0 || beam->sampling.length_decay != 0;
    tfm_tensor removed = {0};
    if (beam->sampling.do_sample && !altered && !suppresses(beam) &&
        tfm__context_tuning(ctx)->class == TFM__CLASS_GPU) {
        sample_fused(beam, values, tokens, lse, logits);
        return 1;
    }
    if (beam->sampling.do_sample || altered) {
        process_logits(beam, values, tokens, lse, logits, k);
        return 1;
    }
    if (beam->shortlist)
        tfm__launch(ctx, tfm__kernel_get(ctx, "logits_processors", "mask_shortlist", ""), tfm__row_grid(ctx, rows),
                    TFM__ARGS(TFM__T(logits), TFM__T_AS("allowed", beam->shortlist->allowed),
                              TFM__T_AS("sources", beam->sources), TFM__I(rows), TFM__I_AS("words", beam->vocabulary)));
    const bool suppressed = suppress(beam, &removed, logits), restores = suppressed && beam->restore_mass;
    if (!restores && !beam->shortlist && tfm_context_status(ctx) == TFM_OK) {
        const int64_t parts = topk_maybe_split(beam, values, tokens, lse, logits, k);
        if (suppressed)
            finish_exhausted(beam, *values, removed);
        return parts;
    }
    tfm_topk(ctx, values, tokens, lse, logits, k);
    if (suppressed)
        finish_exhausted(beam, *values, removed);
    if (restores)
        tfm__launch(ctx, tfm__kernel_get(ctx, "logits_processors", "restore_suppressed_mass", ""),
                    tfm__beam_items(ctx, rows), TFM__ARGS(TFM__T_AS("lse", *lse), TFM__T(removed), TFM__I(rows)));
    if (beam->shortlist)
        map_shortlist_ids(beam, tokens);
    return 1;
}

int64_t tfm__beam_candidates(const tfm__beam *beam, tfm_tensor *values, tfm_tensor *tokens, tfm_tensor *lse,
                             tfm_tensor *logits, int k) {
    if (!beam->greedy_int8.screen)
        return topk_fp32(beam, values, tokens, lse, *logits, k);
    topk_int8(beam, values, tokens, lse, logits);
    return 1;
}
