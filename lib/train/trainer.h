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
    bool moved_in;  /* the model's parameters lie in value, which then is the model's */
    int64_t update; /* updates done */
    bool dirty;     /* gradient is not zero */
    int64_t room;   /* tokens that a piece of a batch may have, both sides; 0: any */
    int64_t proven; /* so many have been seen to fit */
    bool told;      /* the log knows of pieces */
    char *note;     /* the caller's, or NULL */
};

#endif
