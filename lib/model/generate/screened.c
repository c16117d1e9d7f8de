/* Whether the tokens of a search are found by bytes and proven by floats (ops/screen.h). */
#include "model/generate/beam.h"

/* Numbers of an output projection from which on its products are worth more than the launches of a screen. */
enum { LEAST = 1 << 19 };

/* Whether each step's token is the one of the largest logit, and nobody asks for any other's. */
static bool takes_largest(const tfm__beam *beam) {
    return beam->unscored && !beam->kept && !beam->bias.buffer && beam->choice.repetition_penalty == 0 &&
           beam->choice.source_penalty == 0 && beam->choice.decay == 0;
}

tfm_status tfm__screened_begin(tfm__beam *beam, tfm_model *model, tfm_tensor bias) {
    tfm_context *ctx = model->ctx;
    const tfm_param *weight = model->output;
    const int depth = tfm__scope_depth(ctx);
    if (!takes_largest(beam) || model->arch.logit_cap != 0 || model->has_trainer ||
        tfm_tensor_count(weight->value) < LEAST || !tfm__screen_serves(ctx, weight->value))
        return tfm_context_status(ctx);
    if (tfm__screen_make(ctx, &model->screen, weight) == TFM_ERROR_MEMORY) {
        tfm__context_recover(ctx, depth);
        tfm__screen_free(ctx, &model->screen);
        tfm__log(TFM_LOG_INFO, "there is no memory for a copy of the output projection as bytes: greedy search goes on "
                               "without it");
    } else if (tfm_context_status(ctx) == TFM_OK) {
        beam->screened = (tfm__screened){.screen = &model->screen, .weight = weight, .bias = bias};
    }
    return tfm_context_status(ctx);
}
