/* Internals of the trainer. */
#ifndef TFM_LIB_TRAINER_H
#define TFM_LIB_TRAINER_H

#include "model/core/model.h"
#include "tfm/tape.h"
#include "tfm/train.h"
#include "train/gradient_buckets.h"

/* Whether the options freeze a parameter of the model. */
bool tfm__trainer_freezes(const tfm_model *model, const tfm_trainer_options *options, const tfm__parameter *p);

typedef struct tfm__grad_range tfm__grad_range; /* ops/autograd/tape.h */

/* A gradient bucket being read to the host. */
typedef struct tfm__bucket_read {
    tfm__async_read *read, *scale_read; /* NULL: not started, or none */
    float scale;                        /* multiplies its elements */
} tfm__bucket_read;

/* The ratio in which ranks share the rows of an update (batch_split.c). */
typedef struct tfm__balance {
    double *shares; /* (world) integers; NULL without ranks. */
    bool uneven;    /* They differ and are in use: else whole batches are distributed round-robin. */
} tfm__balance;

struct tfm_trainer {
    tfm_context *ctx;
    tfm_model *model;
    tfm_trainer_options options;
    tfm_dropout_state dropout_state;
    tfm_tensor value, gradient; /* (count) each, in one layout; the model's parameters are views of `value`. */
    tfm_tensor m, v;            /* (moments) each: in that layout, or if sharded, the rank's blocks. */
    int64_t count;              /* Elements of value and gradient. */
    int64_t moment_count;       /* Elements of m and v. */
    int64_t decayed;            /* Elements of matrices and embeddings, which come first and have weight decay. */
    tfm_param **params;         /* The trained parameters. */
    size_t param_count;
    size_t frozen;                            /* Number of frozen parameters. */
    bool params_flattened;                    /* The model's parameters are in `value`, which the model then owns. */
    int64_t update;                           /* Updates done. */
    bool dirty;                               /* `gradient` is not zero. */
    int64_t micro_batch_tokens;               /* Most tokens of both sides in a micro-batch; 0: no limit. */
    int64_t max_fitting_tokens;               /* Most tokens known to fit. */
    bool warned;                              /* The warning about micro-batches was logged. */
    char *note;                               /* The caller's note, or NULL. */
    tfm_process_group group;                  /* The world is 0 for a single trainer. */
    tfm__bucket_layout bucket_layout;         /* The buckets and blocks of the ranks. */
    bool sharded;                             /* Each rank has the moments of the blocks that it owns. */
    tfm_dtype comm_dtype;                     /* Communication dtype of gradients. */
    float *host_buffer;                       /* (count) the shared gradients or values, on the host; */
    tfm__pinned_memory *pinned_memory;        /* its memory. */
    float *reduce_buffer;                     /* Space for two blocks. */
    unsigned char *send_buffer, *recv_buffer; /* Space for a block per rank. */
    tfm__bucket_read *bucket_reads;           /* The buckets being read to the host, */
    tfm__grad_range *bucket_parts;            /* their ranges, */
    const tfm__async_read *last_read;         /* the read that completes last, */
    int64_t early_reads;                      /* and how many started before the whole backward pass was enqueued. */
    tfm_comm_stats comm_stats;
    tfm__balance balance;
    struct tfm__local_group
        *local_group;    /* The trainers on the other devices of a fleet, owned by the first; else NULL. */
    bool is_replica;     /* It is one of those others. */
    bool state_compared; /* The ranks have compared their states at this update. */
    bool streams_known;
    uint64_t streams_per_micro_batch; /* Random streams per micro-batch. */
};

/* The options (trainer_options.c): with defaults for zeros; checked for tfm_trainer_new. */
tfm_trainer_options tfm__trainer_defaults(const tfm_trainer_options *given);
tfm_status tfm__trainer_check(const tfm_trainer_options *options);

/* Creates a trainer of a model on one device, with checked options; and frees it. */
tfm_status tfm__trainer_make(tfm_trainer **out, tfm_model *model, const tfm_trainer_options *options);
void tfm__trainer_destroy(tfm_trainer *t);

/* An update of a single trainer. */
tfm_status tfm__trainer_update_single(tfm_trainer *t, tfm_update_report *report, const tfm_batch *batches,
                                      size_t count);

/* Sets the bucket size in elements, and creates new, zero moments. Set the ranks after it. */
tfm_status tfm__trainer_set_bucket_size(tfm_trainer *t, int64_t bucket);

#endif
