/* Training as in section 5 of "Attention Is All You Need": each update takes batches of token ids (gradient
 * accumulation). Encoder-decoders learn to translate, decoder-only models learn language modeling.
 *
 *     tfm_update_report report;
 *     tfm_model_new(&model, ctx, &shape);
 *     tfm_trainer_options options = {0};
 *     tfm_trainer_paper(&options);
 *     tfm_trainer_new(&trainer, model, &options);
 *     while (more && tfm_trainer_update(trainer, &report, batches, count) == TFM_OK)
 *         ;
 *     tfm_trainer_free(&trainer);
 *     tfm_model_save(model, "out", TFM_F16);
 *
 * apps/examples/train.c is a whole program. The same seed, options, batches and device give the same bits. A trainer
 * works on its model's context, so one thread at a time may use both. */
#ifndef TFM_TRAIN_H
#define TFM_TRAIN_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The learning rate ----------------------------------------------------------------------------------------- */

/* The learning rate schedule after the linear warm-up from 0 to `learning_rate` at update `warmup_steps`. */
typedef enum tfm_lr_scheduler_type {
    TFM_LR_SCHEDULER_INVERSE_SQRT, /* Decays with 1 / sqrt(update): section 5.3 of the paper. */
    TFM_LR_SCHEDULER_LINEAR,       /* Decays linearly to 0 at update `max_steps`. */
    TFM_LR_SCHEDULER_COSINE, /* Decays along half a cosine to 0 at `max_steps` ("SGDR", Loshchilov and Hutter 2017,
                                without restarts). */
    TFM_LR_SCHEDULER_CONSTANT,
} tfm_lr_scheduler_type;

/* ---- Trainer --------------------------------------------------------------------------------------------------- */

typedef struct tfm_trainer tfm_trainer;
typedef struct tfm_data tfm_data; /* See data.h. */

/* A group of ranks for data-parallel training: trainers with one device each, as threads of a process with a context
 * each, or as processes on one machine or many. The library has no transport: the caller provides these two
 * collectives. All ranks call them in the same order; they block until this rank's result is complete, and return false
 * if communication fails. */
typedef struct tfm_process_group {
    int rank, world_size; /* This rank, from 0, and the number of ranks. */
    /* MPI_Alltoall: `out` and `in` are `world_size` blocks of `bytes` bytes. Block i of `out` goes to rank i, and block
     * i of `in` comes from rank i. */
    bool (*all_to_all)(void *user, void *in, const void *out, size_t bytes);
    /* MPI_Allgather: block i of `all`, of `bytes` bytes, becomes the `own` of rank i. */
    bool (*all_gather)(void *user, void *all, const void *own, size_t bytes);
    void *user; /* Passed to both. */
} tfm_process_group;

/* Training options. All zeros is the setup of the paper's base model, but without dropout and label smoothing. */
typedef struct tfm_trainer_options {
    /* Dropout rates, from 0, the default, to below 1: of the result of each sub-layer and of embeddings; of attention
     * weights; of the inner activations of feed-forward layers. */
    float dropout, attention_dropout, activation_dropout;
    float label_smoothing; /* Label smoothing: the share of each target spread over the vocabulary, 0 to below 1. */
    tfm_lr_scheduler_type lr_scheduler_type;
    double learning_rate; /* The peak learning rate. 0 means 1 / sqrt(512 * warmup_steps), as in section 5.3. */
    int64_t warmup_steps; /* The number of updates until the peak. 0 means 4000; 1 means no warm-up. */
    int64_t max_steps;    /* The update at which a linear or cosine schedule ends. 0 means 100,000. */
    double beta1, beta2;  /* Adam's decay rates of its two moments. 0 means 0.9 and 0.98. */
    double epsilon;       /* Adam's epsilon. 0 means 1e-9. */
    double weight_decay;  /* AdamW's weight decay, for matrices and embeddings but not biases and norms; 0 is none. */
    double max_grad_norm; /* Gradient clipping: the maximum global gradient norm. 0 means none. */
    uint64_t seed;        /* Seeds dropout. */
    /* Frozen parameters: comma-separated fnmatch(3) patterns, such as "model.encoder.*,model.shared.weight", for their
     * names in model.safetensors as tfm_model_save writes it, or in the file that the model was opened from. They have
     * neither gradients nor moments, and checkpoints, snapshots and averages omit them. A pattern without a match is
     * refused, and so are patterns that leave nothing to train. Read during tfm_trainer_new. NULL freezes none. */
    const char *freeze;
    /* Makes the trainer a rank from the start, as tfm_trainer_set_process_group does. Copied during tfm_trainer_new.
     * NULL for a single trainer. */
    const tfm_process_group *process_group;
    /* Sharded optimizer state (ZeRO-1): each rank keeps the moments of its part of the parameters and updates that
     * part. Moments take 1 / world_size of the memory; the bits are the same as without. tfm_trainer_save is then a
     * collective call, and `world_size` and rank are fixed. */
    bool shard_optimizer;
    /* The communication dtype of gradients: F32, the default, or F16 or BF16 for half the traffic. Sums are in F32 and
     * rounded once more. F16 uses a scale for each chunk, so that none overflows. */
    tfm_dtype comm_dtype;
    /* Mixed precision: the input dtype of the GEMMs of linear layers in updates, forward and backward. F32 is the
     * default. BF16 rounds the inputs to bf16, on a device with bf16 GEMMs, except that GEMMs with few rows may use
     * fp32 inputs. Accumulation is fp32, and parameters, gradients, moments, norms, attention and losses stay F32, as
     * does all of tfm_trainer_evaluate. */
    tfm_dtype precision;
    /* Activation checkpointing: only the input of each block is kept, and the backward pass recomputes the block
     * ("Training Deep Nets with Sublinear Memory Cost", Chen et al. 2016). An update takes up to a third longer; the
     * inner activations of only one block at a time are in memory. Results are bit-identical, unless training without
     * it has to split a batch for lack of memory. */
    bool gradient_checkpointing;
    uint64_t reserved[4]; /* Must be 0. */
} tfm_trainer_options;

/* Sets the options of the paper's base model that are not the defaults: dropout 0.1 and label smoothing 0.1. Other
 * options do not change. */
TFM_API void tfm_trainer_paper(tfm_trainer_options *options);

/* The learning rate of an update, counted from 1. `options` may be NULL for the defaults. 0 for options with a reserved
 * word set. */
TFM_API double tfm_trainer_learning_rate(const tfm_trainer_options *options, int64_t update);

/* A batch: B sentence pairs as token ids, padded to one width per side. Padding is not read. The arrays belong to the
 * caller and are read only during the call.
 *
 * For decoder-only models: B texts as targets, of at least 2 tokens each, with source_width 0. The inputs are all
 * tokens except the last, the labels all except the first, so T is at most one more than the model's positions, and a
 * text of n tokens counts as n - 1 target tokens.
 *
 * A token ~id in `targets`, which is -1 - id, is the token `id` without a loss, such as a token of a prompt: the model
 * reads it, and it does not count as a target token. */
typedef struct tfm_batch {
    int64_t count;                                  /* B, at least 1. */
    int64_t source_width, target_width;             /* S and T, from 1 to the model's positions. */
    const int32_t *sources, *targets;               /* (B, S) and (B, T); each sentence ends with EOS. */
    const int32_t *source_lengths, *target_lengths; /* (B) each: tokens with EOS, at least 1. */
} tfm_batch;

/* The result of an update. */
typedef struct tfm_update_report {
    int64_t update; /* The number of the update, from 1. */
    double learning_rate;
    double loss;            /* The smoothed cross-entropy in nats, averaged over its target tokens. */
    double nll;             /* -log p of the targets, averaged likewise: exp(nll) is the perplexity. */
    double grad_norm;       /* The norm of all gradients before clipping. */
    uint64_t source_tokens; /* Source tokens, or of a language model tokens without a loss; without padding. */
    uint64_t target_tokens; /* Target tokens, without padding. */
} tfm_update_report;

/* Makes a trainer for a model. It moves the model's parameters into one tensor and allocates gradients and Adam's two
 * moments: four times the size of the parameters in F32. The bias of the output projection, if any, is not trained. The
 * trainer keeps the model alive, and the model can still translate. A model has one trainer at a time. `options` may be
 * NULL for all defaults.
 *
 * On a fleet (fleet.h), training is data parallel on all devices, with one thread each: batch i of an update goes to
 * device i modulo their number, or rows are split by the balance ratio (below). The devices are in-process ranks: an
 * update equals that of one device with all of the batches except for rounding, and the same devices in the same order
 * give the same bits. On devices of different kinds `shard_optimizer` is set, so that one device computes each part of
 * the parameters for all. A device that fails in an update is named, and the update fails on all. Updates, loading,
 * averages, setting the balance and, with `shard_optimizer`, saving use all devices. All other calls, and until the
 * trainer is freed all calls of the model, use the first one. Such a trainer cannot be a rank of another group.
 *
 * TFM_ERROR_ARGUMENT for options out of range, and for a model that has a trainer, is encoder-only or has no output
 * projection; TFM_ERROR_UNSUPPORTED for a model with int8, fp16 or bf16 weights, and for a `precision` without GEMMs on
 * a device. On failure *out is NULL and the model is unchanged. */
TFM_API tfm_status tfm_trainer_new(tfm_trainer **out, tfm_model *model, const tfm_trainer_options *options);
/* Frees the trainer and sets the pointer to NULL. The model keeps its parameters. Does nothing for NULL. Counts as a
 * use of the context: no other thread may use it meanwhile. */
TFM_API void tfm_trainer_free(tfm_trainer **trainer);

/* Estimates the device memory in bytes for training with batches of up to `tokens` source tokens and as many target
 * tokens, with padding (decoder-only models: target tokens alone). Includes parameters, gradients, moments, saved
 * activations and working memory, but not the driver's memory; rather too high than too low. Compare it with
 * tfm_device_info.memory_bytes, before or after tfm_trainer_new. `options` may be NULL. 0 for options with a reserved
 * word set. Selects a GEMM provider, so an invalid environment variable TFM_GEMM makes the context fail here. */
TFM_API uint64_t tfm_trainer_estimate_memory(const tfm_model *model, const tfm_trainer_options *options,
                                             int64_t tokens);

/* Makes one update from `count` batches: forward and backward passes of each, then one step of Adam. With a `report`,
 * which may be NULL, the call waits for the device and fills it.
 *
 * If the loss or the gradient is not finite, the parameters do not change, and the call returns TFM_ERROR_NUMERIC if it
 * has a report; without one it cannot detect this. Such an update still counts in tfm_trainer_updates, in the schedule
 * and in Adam's step. If device memory runs out, the update restarts with the failing batch split into smaller parts,
 * and such batches are split from then on. The update is the same except for rounding and dropout masks; the log has
 * one line about it. TFM_ERROR_MEMORY means that a single pair does not fit; the parameters are unchanged, and a later
 * update may fit. After other errors the message says if the parameters may be corrupted. TFM_ERROR_ARGUMENT without
 * batches or for an invalid one. */
TFM_API tfm_status tfm_trainer_update(tfm_trainer *trainer, tfm_update_report *report, const tfm_batch *batches,
                                      size_t count);

/* Sets *nll to the sum of -log p over the targets of one batch, in nats, and *tokens to their number. No dropout;
 * parameters do not change. A batch that does not fit into memory is split. */
TFM_API tfm_status tfm_trainer_evaluate(tfm_trainer *trainer, double *nll, uint64_t *tokens, const tfm_batch *batch);

/* Writes a checkpoint: the complete state apart from the options. It has the trained parameters, the moments, the
 * number of updates, the caller's note and, unless `data` is NULL, the position of the next batch (tfm_data_tell). The
 * file is written atomically and synced to disk: if the process or the machine stops before, an older file stays
 * intact. A checksum detects damage. After loading it on a device of the same kind, training resumes bit-identically;
 * on another device it resumes with a log line that bits will differ.
 *
 * With `shard_optimizer` this is collective: all ranks call it at the same update, with the same path in a shared
 * folder. Each writes its moments to PATH-UPDATE-RANK-of-WORLD (UPDATE has eight digits or more), then rank 0 writes
 * the file itself with its arguments, and last the shards of earlier checkpoints are removed. A failure of one rank
 * fails on all and leaves the older checkpoint intact. Any checkpoint can be loaded with or without `shard_optimizer`,
 * and with another number of ranks. */
TFM_API tfm_status tfm_trainer_save(tfm_trainer *trainer, const tfm_data *data, const char *path);
/* Loads a checkpoint, and seeks `data`, unless it is NULL, to its position. TFM_ERROR_IO if the file cannot be read;
 * TFM_ERROR_FORMAT if it is damaged, of another model, with other frozen parameters, not a checkpoint, or has no
 * position although `data` is given; TFM_ERROR_INPUT if the data has no such position. After these the trainer is
 * unchanged. */
TFM_API tfm_status tfm_trainer_load(tfm_trainer *trainer, tfm_data *data, const char *path);

/* Sets the caller's note, a text stored in checkpoints, such as the state of a run as JSON. UTF-8 of less than
 * 50,000,000 bytes, copied. NULL removes it. TFM_ERROR_ARGUMENT if it is not UTF-8, longer, or has too many control
 * characters to fit into a checkpoint as JSON; the note is then unchanged. */
TFM_API tfm_status tfm_trainer_set_note(tfm_trainer *trainer, const char *note);
/* The caller's note, or NULL if there is none. Owned by the trainer; valid until the note is set again or a checkpoint
 * is loaded. */
TFM_API const char *tfm_trainer_note(const tfm_trainer *trainer);

/* Writes only the trained parameters, as F32, to a file, as safely as a checkpoint and with a checksum. */
TFM_API tfm_status tfm_trainer_snapshot(tfm_trainer *trainer, const char *path);
/* Sets the parameters to their mean over `count` snapshots or checkpoints, summed in double precision. The mean is
 * usually better than the last one ("Attention Is All You Need", section 6.1, averages the last 5 or 20). Moments and
 * the number of updates do not change: to resume training, save a checkpoint before and load it after. TFM_ERROR_IO if
 * a file cannot be read, TFM_ERROR_FORMAT if one is damaged, of another model, or neither kind of file; the trainer is
 * then unchanged. */
TFM_API tfm_status tfm_trainer_average(tfm_trainer *trainer, const char *const *paths, size_t count);

/* ---- Ranks ------------------------------------------------------------------------------------------------------ */

/* Makes the trainer a rank of a data-parallel group; all ranks must have equal models, options and numbers of updates.
 * The struct is copied. NULL, or a world size of 1, makes it a single trainer again. This call does not communicate.
 *
 * From then on all ranks call tfm_trainer_update for the same updates, each with its share of the batches: batch i of
 * an update goes to rank i modulo `world_size`, or rows are split by the balance ratio. A rank may have none: its
 * `count` is 0 then, and `batches` is not NULL.
 *
 * The loss is scaled by the targets of all ranks, the gradients are summed in the order of the ranks, and every rank
 * makes the same step, so that all have the same parameters. The update equals that of one trainer with all of the
 * batches except for rounding, with the same dropout, and the report is for all ranks. The same world size gives the
 * same bits.
 *
 * A failure on one rank before the step fails on all and changes nothing: TFM_ERROR_CANCELLED on the other ranks,
 * TFM_ERROR_IO if communication failed. A rank that has no batches because of a local failure calls this with NULL
 * batches to notify the others. The call always waits for the device, and returns TFM_ERROR_NUMERIC with or without a
 * report. At intervals the ranks compare their state, with options such as learning rate and seeds: TFM_ERROR_NUMERIC
 * on all if it is not bit-identical, as on devices of several kinds, and TFM_ERROR_ARGUMENT on all if their update
 * numbers differ. All other calls are local, except tfm_trainer_save with `shard_optimizer`. */
TFM_API tfm_status tfm_trainer_set_process_group(tfm_trainer *trainer, const tfm_process_group *group);

/* The load-balancing ratio: the share of an update's rows for each rank or device of a fleet, or NULL if all are equal;
 * whole batches are then distributed round-robin. A trainer on a fleet applies it internally. Ranks call this before
 * they split an update into batches, and all get the same ratio. Owned by the trainer; valid until the next
 * tfm_trainer_load, tfm_trainer_set_process_group or tfm_trainer_set_balance. NULL for NULL. */
TFM_API const double *tfm_trainer_balance(const tfm_trainer *trainer);
/* Sets the ratio: `count` shares, one for each rank or device, the same on all ranks. Only their proportions matter, to
 * a 65,536th of the largest. NULL makes them equal. Checkpoints store an unequal ratio, for the same number of ranks:
 * it determines the order of gradient sums and the dropout masks, so runs with the same ratio have the same bits.
 * TFM_ERROR_ARGUMENT for a wrong count, for a share that is negative or not finite, and if none is above 0. Without a
 * group there is one share, without effect. */
TFM_API tfm_status tfm_trainer_set_balance(tfm_trainer *trainer, const double *ratio, size_t count);
/* Splits an update's batches by the ratio and returns the part of one rank, without a device. The concatenated rows of
 * all batches are cut in proportion to the shares, counted in tokens with padding; each row belongs to one rank. Sets
 * *own_count to the number of batches with rows of this rank, which may be 0, and own[0] to own[*own_count - 1] to
 * these rows, as views into the arrays of the batches; `own` has room for `count`. `ratio` has `world_size` elements,
 * as for tfm_trainer_set_balance. TFM_ERROR_ARGUMENT for invalid shares, rank or batches. */
TFM_API tfm_status tfm_batches_split(tfm_batch *own, size_t *own_count, const tfm_batch *batches, size_t count,
                                     const double *ratio, int world_size, int rank);

/* Communication statistics of a rank since its trainer was made. */
typedef struct tfm_comm_stats {
    uint64_t bytes; /* Bytes of gradients and parameters sent to all other ranks; the same number is received. */
    double seconds; /* Time in `all_to_all` and `all_gather` for them, with waiting for slower ranks. */
    double overlapped_seconds; /* The part of `seconds` overlapped with the backward pass: calls begun before the device
                                  had all gradients. */
} tfm_comm_stats;

/* Returns the communication statistics. Gradients are sent in buckets of a few MB, each as soon as its backward pass is
 * done. All 0 for NULL, and without a group. */
TFM_API tfm_comm_stats tfm_trainer_comm_stats(const tfm_trainer *trainer);

/* The number of updates so far, including those before a loaded checkpoint. 0 for NULL. */
TFM_API int64_t tfm_trainer_updates(const tfm_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
