/* Greedy search by int8-screened argmax with exact fp32 verification (ops/gemm/argmax_int8.h). */
#include "model/decode/beam.h"

/* Minimum size of the output projection; steps between checks of the benefit; maximum share of entries verified in fp32
 * (1/n). */
enum { MIN_WEIGHTS = 1 << 19, CHECK_INTERVAL = 32, MAX_VERIFIED_SHARE = 32 };

/* Whether each step only needs the token with the largest logit. */
static bool is_argmax(const tfm__beam *beam) {
    return beam->skip_scores && !beam->shortlist && !beam->bias.buffer && beam->sampling.repetition_penalty == 0 &&
           beam->sampling.encoder_repetition_penalty == 0 && beam->sampling.length_decay == 0;
}

tfm_status tfm__greedy_int8_begin(tfm__beam *beam, tfm_model *model, tfm_tensor bias) {
    tfm_context *ctx = model->ctx;
    const tfm_param *weight = model->output;
    const int depth = tfm__scope_depth(ctx);
    if (!is_argmax(beam) || model->no_greedy_int8 || model->arch.logit_cap != 0 || model->has_trainer ||
        tfm_tensor_count(weight->value) < MIN_WEIGHTS || !tfm__argmax_int8_supported(ctx, weight->value))
        return tfm_context_status(ctx);
    if (tfm__int8_screen_update(ctx, &model->output_int8, weight) == TFM_ERROR_MEMORY) {
        tfm__context_recover(ctx, depth);
        tfm__int8_screen_free(ctx, &model->output_int8);
        model->no_greedy_int8 = true;
        tfm__log(TFM_LOG_INFO,
                 "out of memory for an int8 copy of the output projection: greedy search continues without it");
    } else if (tfm_context_status(ctx) == TFM_OK) {
        beam->greedy_int8 = (tfm__argmax_int8_task){
            .screen = &model->output_int8, .weight = weight, .bias = bias, .verified = tfm__beam_ints(ctx, 1)};
    }
    return tfm_context_status(ctx);
}

static bool is_check_step(const tfm__beam *beam) {
    return beam->greedy_int8.screen && beam->step % CHECK_INTERVAL == 1;
}

void tfm__greedy_int8_before_step(tfm__beam *beam) {
    const int32_t none = 0;
    if (is_check_step(beam))
        tfm__tensor_fill(beam->ctx, beam->greedy_int8.verified, &none);
}

/* Number of entries of the last step verified in fp32. */
static int64_t count_verified(tfm__beam *beam) {
    int32_t count = 0;
    return tfm_tensor_read(beam->ctx, &count, beam->greedy_int8.verified) == TFM_OK ? count : 0;
}

tfm_status tfm__greedy_int8_after_step(tfm__beam *beam, tfm_model *model, int64_t rows) {
    tfm_context *ctx = beam->ctx;
    tfm_tensor_free(ctx, &beam->greedy_int8.x);
    if (!beam->greedy_int8.screen || beam->step % CHECK_INTERVAL != 2) /* of the previous step */
        return tfm_context_status(ctx);
    const int64_t count = count_verified(beam);
    tfm__log(TFM_LOG_DEBUG, "argmax_int8: %lld of %lld entries of %lld rows were verified in fp32", (long long)count,
             (long long)beam->vocabulary, (long long)rows);
    if (count > rows * beam->vocabulary / MAX_VERIFIED_SHARE) {
        model->no_greedy_int8 = true;
        tfm_tensor_free(ctx, &beam->greedy_int8.verified);
        beam->greedy_int8 = (tfm__argmax_int8_task){0};
        tfm__int8_screen_free(ctx, &model->output_int8);
        tfm__log(TFM_LOG_DEBUG, "argmax_int8: that is too many, so logits are computed from now on");
    }
    return tfm_context_status(ctx);
}
