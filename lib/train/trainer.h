/* The inside of a trainer. */
#ifndef TFM_LIB_TRAINER_H
#define TFM_LIB_TRAINER_H

#include "model/model.h"
#include "tfm/tape.h"
#include "tfm/train.h"

/* Whether the options say that a parameter keeps its values. */
bool tfm__trainer_freezes(const tfm_trainer_options *options, const tfm__parameter *p);

struct tfm_trainer {
    tfm_context *ctx;
    tfm_model *model;
    tfm_trainer_options options;
    tfm_training training;
    tfm_tensor value, gradient, m, v; /* (count) each, in one layout; the model's parameters are views of `value`. */
    int64_t count;                    /* How many numbers each of these has. */
    int64_t decayed;                  /* The first so many are matrices and tables, which weight decay is for. */
    tfm_param **params;               /* The model's parameters that are trained. */
    size_t param_count;               /* How many of them are trained. */
    size_t frozen;                    /* How many keep their values. */
    bool moved_in;                    /* The model's parameters lie in `value`, which the model then owns. */
    int64_t update;                   /* The number of updates done. */
    bool dirty;                       /* `gradient` is not zero. */
    int64_t room;                     /* The most tokens of both sides in a piece of a batch; 0 for any number. */
    int64_t proven;                   /* The most tokens that have been seen to fit. */
    bool told;                        /* The log has been told of pieces. */
    char *note;                       /* The caller's note, or NULL. */
    tfm_ranks ranks;                  /* The world is 0 for a trainer that works alone. */
    float *shared, *wire;             /* (count) the gradient on the host; room for what others send of it. */
    bool compared;                    /* The ranks have compared what they have at this number of updates. */
    bool draws_known;
    uint64_t draws; /* How many streams of random numbers a piece takes. */
};

#endif
