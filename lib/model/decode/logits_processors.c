/* Rules of a search that look at its source, or at how long a row's text is (cl/decode/logits_processors.cl). They are
 * transformers': their order and what they count. */
#include <math.h>
#include "model/decode/beam.h"
#include "ops/ops.h"

tfm__beam_choice tfm__beam_choice_of(const tfm__rules *rules) {
    const tfm__prompt_rules *stored = &rules->prompt;
    const double favour = stored->source_penalty;
    return (tfm__beam_choice){.repetition_penalty =
                                  stored->repetition_penalty == 1 ? 0 : (float)stored->repetition_penalty,
                              .min_new = stored->min_new,
                              .source_penalty = favour == 0 || favour == 1 ? 0 : (float)(1 / favour),
                              .no_repeat_source = stored->no_repeat_source,
                              .decay = stored->decay,
                              .decay_from = stored->decay_from};
}

bool tfm__beam_source_rules(const tfm__beam_choice *choice) {
    return choice->source_penalty != 0 || choice->no_repeat_source > 0;
}

void tfm__beam_put_source(tfm__beam *beam, const tfm__beam_setup *setup) {
    tfm_context *ctx = beam->ctx;
    beam->translates = !setup->past;
    if (beam->choice.decay != 0) /* its first step may be one that no sample for a pack comes to */
        tfm__kernel_get(ctx, "logits_processors", "rules_decay", "");
    if (beam->choice.waits)
        beam->waits = tfm__beam_ints_of(ctx, beam->choice.waits, beam->total);
    if (!tfm__beam_source_rules(&beam->choice))
        return;
    tfm_tensor_new(ctx, &beam->source_ids, TFM_I32, 2, (int64_t[]){beam->total, setup->source_width});
    tfm_tensor_write(ctx, beam->source_ids, setup->source_ids);
    beam->source_counts = tfm__beam_ints_of(ctx, setup->source_counts, beam->total);
}

bool tfm__beam_decays(const tfm__beam *beam) {
    return beam->choice.decay != 0 && beam->step > beam->choice.decay_from && beam->end_count > 0;
}

void tfm__beam_penalize_source(const tfm__beam *beam, tfm_tensor *out, tfm_tensor logits, tfm_tensor log_sum) {
    tfm_context *ctx = beam->ctx;
    const int64_t rows = beam->rows;
    tfm_tensor_new(ctx, out, TFM_F32, 2, logits.dims);
    tfm__tensor_copy(ctx, *out, logits);
    tfm__launch(ctx, tfm__kernel_get(ctx, "logits_processors", "rules_penalize_source", ""), tfm__row_grid(ctx, rows),
                TFM__ARGS(TFM__T_AS("out", *out), TFM__T(logits), TFM__T(log_sum),
                          TFM__T_AS("source_ids", beam->source_ids), TFM__T_AS("source_counts", beam->source_counts),
                          TFM__T_AS("sources", beam->sources), TFM__I(rows), TFM__I_AS("vocabulary", beam->vocabulary),
                          TFM__I_AS("width", beam->source_ids.dims[1]), TFM__I_AS("likely", beam->width > 1),
                          TFM__F_AS("penalty", beam->choice.source_penalty)));
}

void tfm__beam_decay(const tfm__beam *beam, tfm_tensor *out, tfm_tensor logits, tfm_tensor log_sum) {
    tfm_context *ctx = beam->ctx;
    const int64_t rows = beam->rows;
    const double share = pow(beam->choice.decay, (double)(beam->step - beam->choice.decay_from)) - 1;
    tfm_tensor_new(ctx, out, TFM_F32, 2, logits.dims);
    tfm__tensor_copy(ctx, *out, logits);
    tfm__launch(ctx, tfm__kernel_get(ctx, "logits_processors", "rules_decay", ""), tfm__beam_items(ctx, rows),
                TFM__ARGS(TFM__T_AS("out", *out), TFM__T(log_sum), TFM__T_AS("ends", beam->ends), TFM__I(rows),
                          TFM__I_AS("vocabulary", beam->vocabulary), TFM__I_AS("end_count", beam->end_count),
                          TFM__I_AS("likely", beam->width > 1), TFM__F_AS("share", (float)fmin(share, 1e30))));
}

static bool waits(const tfm__beam *beam) {
    return beam->waits.buffer && beam->step < beam->choice.min_new && beam->end_count > 0;
}

bool tfm__beam_withholds(const tfm__beam *beam) {
    return beam->choice.no_repeat_source > 0 || waits(beam);
}

void tfm__beam_may_choose(const tfm__beam *beam, tfm_tensor *may_choose) {
    tfm_context *ctx = beam->ctx;
    const int64_t rows = beam->rows;
    tfm_tensor_new(ctx, may_choose, TFM_I32, 1, &rows);
    tfm__launch(ctx, tfm__kernel_get(ctx, "logits_processors", "rules_choice", ""), tfm__beam_items(ctx, rows),
                TFM__ARGS(TFM__T_AS("may_choose", *may_choose), TFM__T_AS("lengths", beam->lengths),
                          TFM__T_AS("limits", beam->limits), TFM__T_AS("prefix_counts", beam->prefix_counts),
                          TFM__T_AS("sources", beam->sources), TFM__I(rows), TFM__I_AS("columns", beam->table.dims[1]),
                          TFM__I_AS("has_forced_eos", beam->rules->forced_eos_id >= 0)));
}

void tfm__beam_withhold(const tfm__beam *beam, tfm_tensor logits, tfm_tensor removed, tfm_tensor may_choose) {
    tfm_context *ctx = beam->ctx;
    const int64_t rows = beam->rows;
    if (beam->choice.no_repeat_source > 0)
        tfm__launch(
            ctx, tfm__kernel_get(ctx, "logits_processors", "rules_forbid_source", ""), tfm__beam_items(ctx, rows),
            TFM__ARGS(TFM__T(logits), TFM__T(removed), TFM__T(may_choose), TFM__T_AS("table", beam->table),
                      TFM__T_AS("lengths", beam->lengths), TFM__T_AS("node_token", beam->node_token),
                      TFM__T_AS("source_ids", beam->source_ids), TFM__T_AS("source_counts", beam->source_counts),
                      TFM__T_AS("sources", beam->sources), TFM__I(rows), TFM__I_AS("vocabulary", beam->vocabulary),
                      TFM__I_AS("columns", beam->table.dims[1]), TFM__I_AS("width", beam->source_ids.dims[1]),
                      TFM__I_AS("length", beam->choice.no_repeat_source)));
    if (waits(beam))
        tfm__launch(ctx, tfm__kernel_get(ctx, "logits_processors", "rules_wait", ""), tfm__beam_items(ctx, rows),
                    TFM__ARGS(TFM__T(logits), TFM__T(removed), TFM__T_AS("waits", beam->waits),
                              TFM__T_AS("sources", beam->sources), TFM__T_AS("ends", beam->ends), TFM__I(rows),
                              TFM__I_AS("vocabulary", beam->vocabulary), TFM__I_AS("end_count", beam->end_count),
                              TFM__I_AS("step", beam->step)));
}
