/* Whether the tokens of a search are found by bytes and proven by floats (ops/gemm/argmax_int8.h). */
#include "model/decode/beam.h"

/* Numbers of an output projection from which on its products are worth more than the launches of a screen; the steps
 * after which it is looked at whether a screen helps; and the share of entries that it may multiply in floats. */
enum { LEAST = 1 << 19, LOOK_EVERY = 32, MOST_TRIED = 32 };

/* Whether each step's token is the one of the largest logit, and nobody asks for any other's. */
static bool takes_largest(const tfm__beam *beam) {
    return beam->unscored && !beam->kept && !beam->bias.buffer && beam->choice.repetition_penalty == 0 &&
           beam->choice.source_penalty == 0 && beam->choice.decay == 0;
}

tfm_status tfm__screened_begin(tfm__beam *beam, tfm_model *model, tfm_tensor bias) {
    tfm_context *ctx = model->ctx;
    const tfm_param *weight = model->output;
    const int depth = tfm__scope_depth(ctx);
    if (!takes_largest(beam) || model->unscreened || model->arch.logit_cap != 0 || model->has_trainer ||
        tfm_tensor_count(weight->value) < LEAST || !tfm__argmax_int8_supported(ctx, weight->value))
        return tfm_context_status(ctx);
    if (tfm__int8_screen_update(ctx, &model->screen, weight) == TFM_ERROR_MEMORY) {
        tfm__context_recover(ctx, depth);
        tfm__int8_screen_free(ctx, &model->screen);
        model->unscreened = true;
        tfm__log(TFM_LOG_INFO, "there is no memory for a copy of the output projection as bytes: greedy search goes on "
                               "without it");
    } else if (tfm_context_status(ctx) == TFM_OK) {
        beam->screened = (tfm__argmax_int8_task){
            .screen = &model->screen, .weight = weight, .bias = bias, .verified = tfm__beam_ints(ctx, 1)};
    }
    return tfm_context_status(ctx);
}

static bool looks(const tfm__beam *beam) {
    return beam->screened.screen && beam->step % LOOK_EVERY == 1;
}

void tfm__screened_before(tfm__beam *beam) {
    const int32_t none = 0;
    if (looks(beam))
        tfm__tensor_fill(beam->ctx, beam->screened.verified, &none);
}

/* How many entries of the last step were multiplied in floats. */
static int64_t tried(tfm__beam *beam) {
    int32_t count = 0;
    return tfm_tensor_read(beam->ctx, &count, beam->screened.verified) == TFM_OK ? count : 0;
}

tfm_status tfm__screened_after(tfm__beam *beam, tfm_model *model, int64_t rows) {
    tfm_context *ctx = beam->ctx;
    tfm_tensor_free(ctx, &beam->screened.x);
    if (!beam->screened.screen || beam->step % LOOK_EVERY != 2) /* of the step before this one */
        return tfm_context_status(ctx);
    const int64_t count = tried(beam);
    tfm__log(TFM_LOG_DEBUG, "screen: %lld of %lld entries of %lld rows were multiplied in floats", (long long)count,
             (long long)beam->vocabulary, (long long)rows);
    if (count > rows * beam->vocabulary / MOST_TRIED) {
        model->unscreened = true;
        tfm_tensor_free(ctx, &beam->screened.verified);
        beam->screened = (tfm__argmax_int8_task){0};
        tfm__int8_screen_free(ctx, &model->screen);
        tfm__log(TFM_LOG_DEBUG, "screen: that is too many, so logits are made from here on");
    }
    return tfm_context_status(ctx);
}
