/* The inside of a trainer. */
#ifndef TFM_LIB_TRAINER_H
#define TFM_LIB_TRAINER_H

#include "model/core/model.h"
#include "tfm/tape.h"
#include "tfm/train.h"
#include "train/gradient_buckets.h"

/* Whether the options say that a parameter of the model keeps its values. */
bool tfm__trainer_freezes(const tfm_model *model, const tfm_trainer_options *options, const tfm__parameter *p);

typedef struct tfm__grad_range tfm__grad_range; /* ops/autograd/tape.h */

/* A bucket of the gradient on its way to the host. */
typedef struct tfm__bucket_read {
    tfm__async_read *read, *scale_read; /* NULL: not begun, or none */
    float scale;                        /* what its numbers are to be multiplied by */
} tfm__bucket_read;

/* The ratio in which ranks share the rows of an update (batch_split.c). */
typedef struct tfm__dealing {
    double *shares; /* (world) whole numbers; NULL for a trainer that works alone. */
    bool differ;    /* They are not all equal, and so in use: else whole batches are dealt round-robin. */
} tfm__dealing;

struct tfm_trainer {
    tfm_context *ctx;
    tfm_model *model;
    tfm_trainer_options options;
    tfm_training training;
    tfm_tensor value, gradient;       /* (count) each, in one layout; the model's parameters are views of `value`. */
    tfm_tensor m, v;                  /* (moments) each: in that layout too, or where sharded, the rank's blocks. */
    int64_t count;                    /* How many numbers each of these has. */
    int64_t moments;                  /* How many the moments have. */
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
    tfm__cuts cuts;                   /* How the flat tensors are cut among them. */
    bool sharded;                     /* Each rank has the moments of its own blocks. */
    tfm_dtype wire_dtype;             /* What gradients are sent as. */
    float *shared;                    /* (count) what the ranks share, on the host: gradients, or values; */
    tfm__pinned_memory *shared_room;  /* its memory. */
    float *sum;                       /* Room for two blocks. */
    unsigned char *sent, *received;   /* Room for a block for each rank, and one from each. */
    tfm__bucket_read *buckets;        /* The buckets on their way to the host, */
    tfm__grad_range *parts;           /* where they lie, */
    const tfm__async_read *last_read; /* the read that ends last, */
    int64_t early;                    /* and how many were begun while the backward pass was not yet enqueued. */
    tfm_wire_counts counts;
    tfm__dealing dealing;
    struct tfm__team *team; /* The trainers on the other devices of a fleet, which the first one owns; else NULL. */
    bool follows;           /* It is one of those others. */
    bool compared;          /* The ranks have compared what they have at this number of updates. */
    bool draws_known;
    uint64_t draws; /* How many streams of random numbers a piece takes. */
};

/* The options (trainer_options.c): with defaults in place of zeros; checked for tfm_trainer_new. */
tfm_trainer_options tfm__trainer_defaults(const tfm_trainer_options *given);
tfm_status tfm__trainer_check(const tfm_trainer_options *options);

/* Makes a trainer of a model on one device, by options that are checked; and frees it. */
tfm_status tfm__trainer_make(tfm_trainer **out, tfm_model *model, const tfm_trainer_options *options);
void tfm__trainer_destroy(tfm_trainer *t);

/* Makes an update on a trainer that works alone. */
tfm_status tfm__update_alone(tfm_trainer *t, tfm_update_report *report, const tfm_pairs *batches, size_t count);

/* Cuts what ranks share into buckets of so many numbers at most, and makes new moments, all zeros. The ranks are to be
 * set after it. */
tfm_status tfm__trainer_cut(tfm_trainer *t, int64_t bucket);

#endif
