/* Logits processors of the source and of lengths (cl/decode/logits_processors.cl), in transformers' order and with its
 * counts. */
#include <math.h>
#include "model/decode/beam.h"
#include "ops/ops.h"

tfm__sampling_params tfm__sampling_params_of(const tfm__generation_rules *rules) {
    const tfm__sampling_defaults *stored = &rules->sampling;
    const double favor = stored->encoder_repetition_penalty;
    return (tfm__sampling_params){.repetition_penalty =
                                      stored->repetition_penalty == 1 ? 0 : (float)stored->repetition_penalty,
                                  .min_new_tokens = stored->min_new_tokens,
                                  .encoder_repetition_penalty = favor == 0 || favor == 1 ? 0 : (float)(1 / favor),
                                  .encoder_no_repeat_ngram = stored->encoder_no_repeat_ngram,
                                  .length_decay = stored->length_decay,
                                  .length_decay_from = stored->length_decay_from};
}

bool tfm__sampling_uses_source(const tfm__sampling_params *sampling) {
    return sampling->encoder_repetition_penalty != 0 || sampling->encoder_no_repeat_ngram > 0;
}

void tfm__beam_upload_source(tfm__beam *beam, const tfm__beam_setup *setup) {
    tfm_context *ctx = beam->ctx;
    beam->translates = !setup->past;
    if (beam->sampling.length_decay != 0) /* its first step may be one that no sample run of a kernel pack reaches */
        tfm__kernel_get(ctx, "logits_processors", "apply_length_decay", "");
    if (beam->sampling.min_tokens)
        beam->min_tokens = tfm__beam_ints_of(ctx, beam->sampling.min_tokens, beam->total);
    if (!tfm__sampling_uses_source(&beam->sampling))
        return;
    tfm_tensor_new(ctx, &beam->source_ids, TFM_I32, 2, (int64_t[]){beam->total, setup->source_width});
    tfm_tensor_write(ctx, beam->source_ids, setup->source_ids);
    beam->source_counts = tfm__beam_ints_of(ctx, setup->source_counts, beam->total);
}

bool tfm__beam_has_length_decay(const tfm__beam *beam) {
    return beam->sampling.length_decay != 0 && beam->step > beam->sampling.length_decay_from && beam->eos_count > 0;
}

void tfm__beam_apply_encoder_repetition_penalty(const tfm__beam *beam, tfm_tensor *out, tfm_tensor logits,
                                                tfm_tensor lse) {
    tfm_context *ctx = beam->ctx;
    const int64_t rows = beam->rows;
    tfm_tensor_new(ctx, out, TFM_F32, 2, logits.dims);
    tfm__tensor_copy(ctx, *out, logits);
    tfm__launch(ctx, tfm__kernel_get(ctx, "logits_processors", "apply_encoder_repetition_penalty", ""),
                tfm__row_grid(ctx, rows),
                TFM__ARGS(TFM__T_AS("out", *out), TFM__T(logits), TFM__T(lse),
                          TFM__T_AS("source_ids", beam->source_ids), TFM__T_AS("source_counts", beam->source_counts),
                          TFM__T_AS("sources", beam->sources), TFM__I(rows), TFM__I_AS("vocabulary", beam->vocabulary),
                          TFM__I_AS("width", beam->source_ids.dims[1]), TFM__I_AS("use_log_probs", beam->width > 1),
                          TFM__F_AS("penalty", beam->sampling.encoder_repetition_penalty)));
}

void tfm__beam_apply_length_decay(const tfm__beam *beam, tfm_tensor *out, tfm_tensor logits, tfm_tensor lse) {
    tfm_context *ctx = beam->ctx;
    const int64_t rows = beam->rows;
    const double share = pow(beam->sampling.length_decay, (double)(beam->step - beam->sampling.length_decay_from)) - 1;
    tfm_tensor_new(ctx, out, TFM_F32, 2, logits.dims);
    tfm__tensor_copy(ctx, *out, logits);
    tfm__launch(ctx, tfm__kernel_get(ctx, "logits_processors", "apply_length_decay", ""), tfm__beam_items(ctx, rows),
                TFM__ARGS(TFM__T_AS("out", *out), TFM__T(lse), TFM__T_AS("eos_ids", beam->eos_ids), TFM__I(rows),
                          TFM__I_AS("vocabulary", beam->vocabulary), TFM__I_AS("eos_count", beam->eos_count),
                          TFM__I_AS("use_log_probs", beam->width > 1), TFM__F_AS("share", (float)fmin(share, 1e30))));
}

static bool has_min_tokens(const tfm__beam *beam) {
    return beam->min_tokens.buffer && beam->step < beam->sampling.min_new_tokens && beam->eos_count > 0;
}

bool tfm__beam_suppresses(const tfm__beam *beam) {
    return beam->sampling.encoder_no_repeat_ngram > 0 || has_min_tokens(beam);
}

void tfm__beam_unforced_rows(const tfm__beam *beam, tfm_tensor *unforced) {
    tfm_context *ctx = beam->ctx;
    const int64_t rows = beam->rows;
    tfm_tensor_new(ctx, unforced, TFM_I32, 1, &rows);
    tfm__launch(ctx, tfm__kernel_get(ctx, "logits_processors", "mark_unforced_rows", ""), tfm__beam_items(ctx, rows),
                TFM__ARGS(TFM__T_AS("unforced", *unforced), TFM__T_AS("lengths", beam->lengths),
                          TFM__T_AS("limits", beam->limits), TFM__T_AS("prefix_counts", beam->prefix_counts),
                          TFM__T_AS("sources", beam->sources), TFM__I(rows),
                          TFM__I_AS("columns", beam->block_table.dims[1]),
                          TFM__I_AS("has_forced_eos", beam->rules->forced_eos_id >= 0)));
}

void tfm__beam_suppress(const tfm__beam *beam, tfm_tensor logits, tfm_tensor removed, tfm_tensor unforced) {
    tfm_context *ctx = beam->ctx;
    const int64_t rows = beam->rows;
    if (beam->sampling.encoder_no_repeat_ngram > 0)
        tfm__launch(
            ctx, tfm__kernel_get(ctx, "logits_processors", "suppress_source_ngrams", ""), tfm__beam_items(ctx, rows),
            TFM__ARGS(TFM__T(logits), TFM__T(removed), TFM__T(unforced), TFM__T_AS("block_table", beam->block_table),
                      TFM__T_AS("lengths", beam->lengths), TFM__T_AS("slot_token", beam->slot_token),
                      TFM__T_AS("source_ids", beam->source_ids), TFM__T_AS("source_counts", beam->source_counts),
                      TFM__T_AS("sources", beam->sources), TFM__I(rows), TFM__I_AS("vocabulary", beam->vocabulary),
                      TFM__I_AS("columns", beam->block_table.dims[1]), TFM__I_AS("width", beam->source_ids.dims[1]),
                      TFM__I_AS("length", beam->sampling.encoder_no_repeat_ngram)));
    if (has_min_tokens(beam))
        tfm__launch(ctx, tfm__kernel_get(ctx, "logits_processors", "suppress_early_eos", ""),
                    tfm__beam_items(ctx, rows),
                    TFM__ARGS(TFM__T(logits), TFM__T(removed), TFM__T_AS("min_tokens", beam->min_tokens),
                              TFM__T_AS("sources", beam->sources), TFM__T_AS("eos_ids", beam->eos_ids), TFM__I(rows),
                              TFM__I_AS("vocabulary", beam->vocabulary), TFM__I_AS("eos_count", beam->eos_count),
                              TFM__I_AS("step", beam->step)));
}
