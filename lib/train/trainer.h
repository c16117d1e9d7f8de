/* The inside of a trainer. */
#ifndef TFM_LIB_TRAINER_H
#define TFM_LIB_TRAINER_H

#include "model/model.h"
#include "tfm/tape.h"
#include "tfm/train.h"

struct tfm_trainer {
    tfm_context *ctx;
    tfm_model *model;
    tfm_trainer_options options;
    tfm_training training;
    tfm_tensor value, gradient, m,
        v;                  /* (count) each, of one layout; the model's parameters are views of value */
    int64_t count, decayed; /* the first `decayed` are matrices and tables */
    tfm_param **params;
    size_t param_count;
    int64_t update; /* updates done */
    char *note;     /* the caller's, or NULL */
};

#endif
