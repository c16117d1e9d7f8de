/* Dropout inside other ops. */
#ifndef TFM_LIB_DROPOUT_H
#define TFM_LIB_DROPOUT_H

#include "ops/ops.h"

/* Refuses a rate outside [0, 1). `dropout` may be NULL. */
tfm_status tfm__dropout_check(tfm_context *ctx, const char *op, const tfm_dropout_options *dropout);

/* Whether the rate is above 0. */
bool tfm__dropout_enabled(const tfm_dropout_options *dropout);

/* The drop probability as a fraction of 2^32, and the scale of kept elements. NULL and a rate of 0 drop nothing. */
int64_t tfm__dropout_threshold(const tfm_dropout_options *dropout);
float tfm__dropout_scale(const tfm_dropout_options *dropout);

/* The kernel's TFM_DROPOUT_PARAMETERS, of a const tfm_dropout_options *. */
#define TFM__DROPOUT_ARGS(d)                                                                                           \
    TFM__I_AS("seed", (d) ? (d)->seed : 0), TFM__I_AS("stream", (d) ? (d)->stream : 0),                                \
        TFM__I_AS("threshold", tfm__dropout_threshold(d)), TFM__F_AS("dropout_scale", tfm__dropout_scale(d))

#endif
