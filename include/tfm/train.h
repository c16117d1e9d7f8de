/* Training an encoder-decoder ("Attention Is All You Need", section 5): one update after the other on batches of ids.
 *
 *     tfm_model_create(&model, ctx, &shape);
 *     tfm_trainer_options options = tfm_trainer_defaults();
 *     tfm_trainer_open(&trainer, model, &options);
 *     while (more && tfm_trainer_update(trainer, &report, batches, count) == TFM_OK)
 *         ;
 *     tfm_trainer_free(&trainer);
 *     tfm_model_save(model, "out", TFM_F16);
 *
 * apps/examples/train.c is a whole program. The same seed, options, batches and device give the same bits. */
#ifndef TFM_TRAIN_H
#define TFM_TRAIN_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The learning rate ----------------------------------------------------------------------------------------- */

typedef enum tfm_schedule {
    TFM_INVERSE_SQRT, /* section 5.3: up to `rate` over `warmup` updates, then with 1 / sqrt of their number */
    TFM_LINEAR,       /* then down to 0 at `updates` in a straight line */
    TFM_COSINE,       /* or in half a wave ("SGDR", Loshchilov and Hutter 2017, without restarts) */
    TFM_CONSTANT,     /* then as it is */
} tfm_schedule;

/* ---- Trainer --------------------------------------------------------------------------------------------------- */

typedef struct tfm_trainer tfm_trainer;
typedef struct tfm_data tfm_data; /* data.h */

typedef struct tfm_trainer_options {
    float dropout, attention_dropout, activation_dropout;
    float smoothing;             /* of labels */
    tfm_schedule schedule;
    double rate;                 /* at its peak */
    int64_t warmup, updates;     /* updates: the end of a linear or cosine schedule */
    double beta1, beta2, epsilon;
    double decay;                /* AdamW's, of matrices and embeddings; biases and norms are left alone */
    double clip;                 /* of the norm of all gradients; 0: none */
    uint64_t seed;               /* of what is dropped */
} tfm_trainer_options;

/* The paper's base model: dropout and smoothing 0.1, warm-up over 4000 updates to 512^-0.5 4000^-0.5, Adam with 0.9, 0.98
 * and 1e-9. */
TFM_API tfm_trainer_options tfm_trainer_defaults(void);

/* The rate of an update, which count from 1. */
TFM_API double tfm_trainer_rate(const tfm_trainer_options *options, int64_t update);

/* Sentence pairs as ids, padded with anything to one width a side. Borrowed. */
typedef struct tfm_pairs {
    int64_t count;                        /* B */
    int64_t source_width, target_width;   /* S, T */
    const int32_t *sources, *targets;     /* (B, S), (B, T), each with EOS at its end */
    const int32_t *source_lengths, *target_lengths; /* (B), EOS counted, at least 1 */
} tfm_pairs;

/* What an update came to. */
typedef struct tfm_update_report {
    int64_t update;         /* its number, from 1 */
    double rate;
    double loss;            /* smoothed cross-entropy, the mean of its target tokens */
    double nll;             /* -log p of the targets, likewise: perplexity is its exponential */
    double gradient_norm;   /* before clipping */
    uint64_t source_tokens, target_tokens;
} tfm_update_report;

/* Lays the model's parameters out in one piece with their gradients and both moments, four times their size. The model
 * must outlive the trainer, and stays one that translates; it has one trainer at a time, and may have another after it.
 * `options` may not be NULL: begin with the defaults. TFM_ERROR_UNSUPPORTED for learned positions. Where this fails the
 * model is as it was. */
TFM_API tfm_status tfm_trainer_open(tfm_trainer **out, tfm_model *model, const tfm_trainer_options *options);
/* Takes NULL, and nulls. The model keeps its parameters. */
TFM_API void tfm_trainer_free(tfm_trainer **trainer);

/* Bytes of device memory that training comes to with batches of up to `tokens` source and as many target tokens, padding
 * counted: parameters, gradients, moments, what the way back needs, room to work. An estimate, rather too high; what the
 * driver takes besides is not in it. For tfm_device_info.memory_bytes to be compared with, before tfm_trainer_open or
 * after. It asks for the products' provider, so a TFM_GEMM that is no word of it fails the context here. */
TFM_API uint64_t tfm_trainer_memory(const tfm_model *model, const tfm_trainer_options *options, int64_t tokens);

/* One update on `count` batches together: forward and backward of each, then one step of Adam. Reports itself, waiting
 * for the device, unless report is NULL. A loss or gradient that is not finite is TFM_ERROR_FORMAT, and the parameters are
 * then those of the update before; they are so without a report too, but nobody is told. Where the device's memory gives
 * out the update begins again, with the batch that did not fit run in pieces, half as large each time, and so are such
 * batches from then on: the same update but for roundings and for what is dropped; the log says so once. TFM_ERROR_MEMORY
 * is that one pair does not fit; the parameters are then as they were, and the next update may fit. */
TFM_API tfm_status tfm_trainer_update(tfm_trainer *trainer, tfm_update_report *report, const tfm_pairs *batches,
                                      size_t count);

/* The sum of -log p of the targets of one batch, and their number; nothing is dropped or changed. In pieces, where the
 * batch does not fit. */
TFM_API tfm_status tfm_trainer_evaluate(tfm_trainer *trainer, double *nll, uint64_t *tokens, const tfm_pairs *batch);

/* All that the next update depends on, but for the options: parameters, moments, the number of updates, the caller's note,
 * and where `data` is, unless that is NULL: the batch that tfm_data_next would give now. One file, which appears when it is
 * complete and on disk, or stays as it was, whenever the process or the machine dies; it has a checksum, by which a byte
 * that changes later is seen. A trainer that loads it goes on to the bit as this one would, on a device of the same kind;
 * on another one it goes on, and the log says that bits will differ. */
TFM_API tfm_status tfm_trainer_save(tfm_trainer *trainer, const tfm_data *data, const char *path);
/* Moves `data`, unless it is NULL, to where the file says. TFM_ERROR_FORMAT for a file of another model, a damaged
 * one, none, or one saved without data where data is given; the trainer is then as it was. */
TFM_API tfm_status tfm_trainer_load(tfm_trainer *trainer, tfm_data *data, const char *path);

/* A text of the caller's, such as the state of a run as JSON, that goes into checkpoints and comes back from them: UTF-8
 * of less than 50 MB. Copied; NULL for none. */
TFM_API tfm_status tfm_trainer_set_note(tfm_trainer *trainer, const char *note);
/* Borrowed until it is set again or a checkpoint is loaded. NULL if there is none. */
TFM_API const char *tfm_trainer_note(const tfm_trainer *trainer);

/* The parameters alone, F32, in one file like a checkpoint's. */
TFM_API tfm_status tfm_trainer_snapshot(tfm_trainer *trainer, const char *path);
/* The parameters become the mean over `count` snapshots or checkpoints, which is better than the last of them ("Attention
 * Is All You Need", section 6.1: the last 5, or 20), summed in double precision. Moments and the number of updates stay as
 * they are: to go on training, save a checkpoint before and load it after. TFM_ERROR_FORMAT for a file of another model, a
 * damaged one, or none; the trainer is then as it was. */
TFM_API tfm_status tfm_trainer_average(tfm_trainer *trainer, const char *const *paths, size_t count);

/* Updates done. */
TFM_API int64_t tfm_trainer_updates(const tfm_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
