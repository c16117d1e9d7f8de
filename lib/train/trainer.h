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
typedef struct tfm__balance {
    double *shares; /* (world) whole numbers; NULL for a trainer that works alone. */
    bool uneven;    /* They are not all equal, and so in use: else whole batches are dealt round-robin. */
} tfm__balance;

struct tfm_trainer {
    tfm_context *ctx;
    tfm_model *model;
    tfm_trainer_options options;
    tfm_dropout_state dropout_state;
    tfm_tensor value, gradient;        /* (count) each, in one layout; the model's parameters are views of `value`. */
    tfm_tensor m, v;                   /* (moments) each: in that layout too, or where sharded, the rank's blocks. */
    int64_t count;                     /* How many numbers each of these has. */
    int64_t moment_count;              /* How many the moments have. */
    int64_t decayed;                   /* The first so many are matrices and tables, which weight decay is for. */
    tfm_param **params;                /* The model's parameters that are trained. */
    size_t param_count;                /* How many of them are trained. */
    size_t frozen;                     /* How many keep their values. */
    bool params_flattened;             /* The model's parameters lie in `value`, which the model then owns. */
    int64_t update;                    /* The number of updates done. */
    bool dirty;                        /* `gradient` is not zero. */
    int64_t micro_batch_tokens;        /* The most tokens of both sides in a piece of a batch; 0 for any number. */
    int64_t max_fitting_tokens;        /* The most tokens that have been seen to fit. */
    bool warned;                       /* The log has been told of pieces. */
    char *note;                        /* The caller's note, or NULL. */
    tfm_process_group group;           /* The world is 0 for a trainer that works alone. */
    tfm__bucket_layout bucket_layout;  /* How the flat tensors are cut among them. */
    bool sharded;                      /* Each rank has the moments of its own blocks. */
    tfm_dtype comm_dtype;              /* What gradients are sent as. */
    float *host_buffer;                /* (count) what the ranks share, on the host: gradients, or values; */
    tfm__pinned_memory *pinned_memory; /* its memory. */
    float *reduce_buffer;              /* Room for two blocks. */
    unsigned char *send_buffer, *recv_buffer; /* Room for a block for each rank, and one from each. */
    tfm__bucket_read *bucket_reads;           /* The buckets on their way to the host, */
    tfm__grad_range *bucket_parts;            /* where they lie, */
    const tfm__async_read *last_read;         /* the read that ends last, */
    int64_t early_reads; /* and how many were begun while the backward pass was not yet enqueued. */
    tfm_comm_stats comm_stats;
    tfm__balance balance;
    struct tfm__local_group
        *local_group;    /* The trainers on the other devices of a fleet, which the first one owns; else NULL. */
    bool is_replica;     /* It is one of those others. */
    bool state_compared; /* The ranks have compared what they have at this number of updates. */
    bool streams_known;
    uint64_t streams_per_micro_batch; /* How many streams of random numbers a piece takes. */
};

/* The options (trainer_options.c): with defaults in place of zeros; checked for tfm_trainer_new. */
tfm_trainer_options tfm__trainer_defaults(const tfm_trainer_options *given);
tfm_status tfm__trainer_check(const tfm_trainer_options *options);

/* Makes a trainer of a model on one device, by options that are checked; and frees it. */
tfm_status tfm__trainer_make(tfm_trainer **out, tfm_model *model, const tfm_trainer_options *options);
void tfm__trainer_destroy(tfm_trainer *t);

/* Makes an update on a trainer that works alone. */
tfm_status tfm__trainer_update_single(tfm_trainer *t, tfm_update_report *report, const tfm_batch *batches,
                                      size_t count);

/* Cuts what ranks share into buckets of so many numbers at most, and makes new moments, all zeros. The ranks are to be
 * set after it. */
tfm_status tfm__trainer_set_bucket_size(tfm_trainer *t, int64_t bucket);

#endif
