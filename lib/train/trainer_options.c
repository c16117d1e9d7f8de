/* Trainer options: defaults, checks, and learning rate schedules. */
#include <math.h>
#include "train/process_group.h"
#include "train/trainer.h"

void tfm_trainer_paper(tfm_trainer_options *options) {
    if (!options)
        return;
    options->dropout = 0.1f;
    options->label_smoothing = 0.1f;
}

tfm_trainer_options tfm__trainer_defaults(const tfm_trainer_options *given) {
    tfm_trainer_options o = given ? *given : (tfm_trainer_options){0};
    o.warmup_steps = o.warmup_steps ? o.warmup_steps : 4000;
    o.max_steps = o.max_steps ? o.max_steps : 100000;
    o.learning_rate =
        o.learning_rate != 0 ? o.learning_rate : 1 / sqrt(512.0 * (double)(o.warmup_steps > 1 ? o.warmup_steps : 1));
    o.beta1 = o.beta1 != 0 ? o.beta1 : 0.9;
    o.beta2 = o.beta2 != 0 ? o.beta2 : 0.98;
    o.epsilon = o.epsilon != 0 ? o.epsilon : 1e-9;
    return o;
}

/* Rejects options with a field of a later version. */
static tfm_status check_known(const tfm_trainer_options *options, const char *call) {
    return TFM__RESERVED_SET(options) ? tfm__fail(TFM_ERROR_ARGUMENT, "%s: %s", call, TFM__RESERVED_SET_MESSAGE)
                                      : TFM_OK;
}

double tfm_trainer_learning_rate(const tfm_trainer_options *options, int64_t update) {
    if (check_known(options, "trainer_learning_rate") != TFM_OK)
        return 0;
    const tfm_trainer_options o = tfm__trainer_defaults(options);
    const double t = (double)update, w = (double)(o.warmup_steps > 1 ? o.warmup_steps : 1), end = (double)o.max_steps;
    if (t < w || (t <= w && end <= w)) /* the peak, too, if nothing follows it */
        return o.learning_rate * t / w;
    const double left = end > w ? fmax(0, fmin(1, (end - t) / (end - w))) : 0;
    switch (o.lr_scheduler_type) {
    case TFM_LR_SCHEDULER_LINEAR:
        return o.learning_rate * left;
    case TFM_LR_SCHEDULER_COSINE:
        return o.learning_rate * 0.5 * (1 - cos(left * 3.14159265358979323846));
    case TFM_LR_SCHEDULER_CONSTANT:
        return o.learning_rate;
    default:
        return o.learning_rate * sqrt(w / t);
    }
}

/* Rejects early what tfm_adam would reject at the first update. */
static tfm_status check_adam(const tfm_trainer_options *o) {
    if (o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1 && (float)o->epsilon > 0 &&
        isfinite(o->epsilon) && o->weight_decay >= 0 && isfinite(o->weight_decay) && o->max_grad_norm >= 0)
        return TFM_OK;
    return tfm__fail(TFM_ERROR_ARGUMENT,
                     "trainer_new: beta1 %g, beta2 %g, epsilon %g, weight_decay %g, max_grad_norm %g: betas must lie "
                     "in [0, 1), epsilon "
                     "be positive, the others not be negative",
                     o->beta1, o->beta2, o->epsilon, o->weight_decay, o->max_grad_norm);
}

tfm_status tfm__trainer_check(const tfm_trainer_options *o) {
    const float rates[] = {o->dropout, o->attention_dropout, o->activation_dropout, o->label_smoothing};
    if (check_known(o, "trainer_new") != TFM_OK || tfm__process_group_check(o->process_group, "trainer_new") != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (o->comm_dtype != TFM_F32 && o->comm_dtype != TFM_F16 && o->comm_dtype != TFM_BF16)
        return tfm__fail(TFM_ERROR_ARGUMENT, "trainer_new: comm_dtype is %s: it must be F32, F16 or BF16",
                         tfm_dtype_name(o->comm_dtype));
    if (o->precision != TFM_F32 && o->precision != TFM_BF16)
        return tfm__fail(TFM_ERROR_ARGUMENT, "trainer_new: precision is %s: it must be F32 or BF16",
                         tfm_dtype_name(o->precision));
    bool good = o->warmup_steps >= 0 && o->learning_rate >= 0 && isfinite(o->learning_rate) && o->max_steps >= 0 &&
                (unsigned)o->lr_scheduler_type <= TFM_LR_SCHEDULER_CONSTANT;
    for (size_t i = 0; i < TFM__COUNT(rates); i++)
        good &= rates[i] >= 0 && rates[i] < 1;
    if (good)
        return check_adam(o);
    return tfm__fail(
        TFM_ERROR_ARGUMENT,
        "trainer_new: dropout %g, %g, %g, label_smoothing %g, learning_rate %g, warmup_steps %lld, max_steps %lld, "
        "lr_scheduler_type "
        "%d: shares "
        "must lie in [0, 1), the others not be negative, and lr_scheduler_type one of tfm_lr_scheduler_type",
        (double)o->dropout, (double)o->attention_dropout, (double)o->activation_dropout, (double)o->label_smoothing,
        o->learning_rate, (long long)o->warmup_steps, (long long)o->max_steps, (int)o->lr_scheduler_type);
}
