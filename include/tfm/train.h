/* Training as in section 5 of "Attention Is All You Need": one update after another, each on batches of token ids. An
 * encoder-decoder learns to translate, and a language model, which has a decoder alone, to go on with texts.
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

/* How the learning rate goes on after the warm-up. During the warm-up it always rises in a straight line, from 0 to
 * `learning_rate` at update `warmup_steps`. */
typedef enum tfm_lr_scheduler_type {
    TFM_LR_SCHEDULER_INVERSE_SQRT, /* It falls with 1 / sqrt(update), as in section 5.3 of the paper. */
    TFM_LR_SCHEDULER_LINEAR,       /* It falls in a straight line and is 0 at update `max_steps`. */
    TFM_LR_SCHEDULER_COSINE,   /* It falls along half a cosine wave to 0 at `max_steps` ("SGDR", Loshchilov and Hutter
                              2017,   without restarts). */
    TFM_LR_SCHEDULER_CONSTANT, /* It stays at `learning_rate`. */
} tfm_lr_scheduler_type;

/* ---- Trainer --------------------------------------------------------------------------------------------------- */

typedef struct tfm_trainer tfm_trainer;
typedef struct tfm_data tfm_data; /* See data.h. */

/* Trainers that make each update together, on a device each: the ranks of one run. They are threads of a process with a
 * context each, or processes on one machine or many. The library does not know by which means they talk: here it is
 * told. Both calls are made by all ranks, in the same order, and come back when all have what they need. They return
 * false where the ranks cannot talk any more. */
typedef struct tfm_process_group {
    int rank, world_size; /* The number of this rank, from 0, and how many there are. */
    /* `out` and `in` are `world_size` blocks of `bytes` bytes: block i of `out` goes to rank i, and block i of `in`
     * comes from rank i. It is what MPI_Alltoall does. */
    bool (*all_to_all)(void *user, void *in, const void *out, size_t bytes);
    /* Block i of `all`, of `bytes` bytes, becomes the `own` of rank i. It is what MPI_Allgather does. */
    bool (*all_gather)(void *user, void *all, const void *own, size_t bytes);
    void *user; /* Passed to both. */
} tfm_process_group;

/* How a model is trained. All zeros is how the paper trained its base model, but without dropout and label smoothing.
 */
typedef struct tfm_trainer_options {
    /* Dropout: the share of elements that become 0, from 0, the default, to below 1. The first is for the result of
     * each sub-layer and for the embeddings, the second for the weights of attention, the third for the inner
     * activations of the feed-forward layers. */
    float dropout, attention_dropout, activation_dropout;
    float label_smoothing; /* Label smoothing: the share of each target spread over the vocabulary, 0 to below 1. */
    tfm_lr_scheduler_type lr_scheduler_type; /* How the learning rate changes. */
    double learning_rate; /* The learning rate at its peak. 0 means 1 / sqrt(512 * warmup_steps), as in section 5.3. */
    int64_t warmup_steps; /* The number of updates until the peak. 0 means 4000; 1 means no warm-up. */
    int64_t max_steps;    /* The update at which a linear or cosine schedule ends. 0 means 100,000. */
    double beta1, beta2;  /* Adam's decay rates of its two moments. 0 means 0.9 and 0.98. */
    double epsilon;       /* Adam's epsilon. 0 means 1e-9. */
    double weight_decay;  /* AdamW's weight decay, for matrices and embeddings but not biases and norms; 0 is none. */
    double max_grad_norm; /* Gradients are scaled down so that their common norm is at most this. 0 never does so. */
    uint64_t seed;        /* Seeds dropout. */
    /* The parameters that keep their values: patterns of fnmatch(3) with commas between, such as
     * "model.encoder.*,model.shared.weight", for their names in model.safetensors as tfm_model_save writes it, or in
     * the file that the model was opened from. They take neither gradients nor moments, and checkpoints, snapshots and
     * averages leave them out. A pattern that fits no name is refused, and so are patterns that leave nothing to train.
     * It is read during tfm_trainer_new. NULL freezes none. */
    const char *freeze;
    /* Makes the trainer one of several ranks from the start, as tfm_trainer_set_process_group does. The struct is
     * copied during tfm_trainer_new. NULL: it works alone. */
    const tfm_process_group *process_group;
    /* Of several ranks each keeps the moments of its own part of the parameters, and makes the step there: they take
     * 1 / world_size of the memory, and all have the same bits as without. tfm_trainer_save is a call of all ranks
     * then, and `world_size` and rank stay what they are. */
    bool shard_optimizer;
    /* What ranks send gradients as: F32, the default, or F16 or BF16, which is half as much. They are added up in F32,
     * and the sum is rounded once more. F16 goes with a scale for each piece, so that none overflows. */
    tfm_dtype comm_dtype;
    /* How the products of linear layers read their numbers in updates, forward and backward. F32, the default: as they
     * are. BF16: rounded to it, on a device that multiplies such numbers; products of few rows may read them as they
     * are even so. Sums are fp32, and parameters, gradients, moments, norms, attention and losses stay F32. So does
     * all of tfm_trainer_evaluate. */
    tfm_dtype precision;
    /* Of a block only what it reads is kept for the backward pass, which runs the block once more ("Training Deep Nets
     * with Sublinear Memory Cost", Chen et al. 2016). An update takes up to a third longer; of what blocks make inside,
     * only that of one block at a time is held. All bits are those of training without it, where the device has room
     * for that: a batch that would be cut into pieces without this may be whole with it. */
    bool gradient_checkpointing;
    uint64_t reserved[4]; /* Must be 0: room for later fields. */
} tfm_trainer_options;

/* Sets the two options of the paper's base model that zeros do not mean: dropout 0.1 and label smoothing 0.1. The
 * others stay as they are. */
TFM_API void tfm_trainer_paper(tfm_trainer_options *options);

/* The learning rate of an update; updates are counted from 1. `options` may be NULL for the defaults. 0 for options
 * with a reserved word that is set. */
TFM_API double tfm_trainer_learning_rate(const tfm_trainer_options *options, int64_t update);

/* A batch: B pairs of sentences as token ids, each side in rows of one width. What fills a row after a sentence's
 * length is not read. The arrays belong to the caller and are read only during the call.
 *
 * For a language model, which has no encoder, it is B texts: they are the targets, of at least 2 tokens each, and
 * source_width is 0. The model reads a text but for its last token and learns it but for its first, so T is at most one
 * more than its positions, and a text of n tokens counts as n - 1 target tokens. */
typedef struct tfm_batch {
    int64_t count;                                  /* B, at least 1. */
    int64_t source_width, target_width;             /* S and T, from 1 to the model's positions. */
    const int32_t *sources, *targets;               /* (B, S) and (B, T); each sentence ends with end-of-sentence. */
    const int32_t *source_lengths, *target_lengths; /* (B) each: tokens with end-of-sentence, at least 1. */
} tfm_batch;

/* What an update came to. */
typedef struct tfm_update_report {
    int64_t update;         /* The number of the update, from 1. */
    double learning_rate;   /* Its learning rate. */
    double loss;            /* The smoothed cross-entropy in nats, averaged over its target tokens. */
    double nll;             /* -log p of the targets, averaged likewise: exp(nll) is the perplexity. */
    double grad_norm;       /* The norm of all gradients before clipping. */
    uint64_t source_tokens; /* How many source tokens it had, without padding. */
    uint64_t target_tokens; /* How many target tokens it had, without padding. */
} tfm_update_report;

/* Makes a trainer of a model. It moves the model's parameters into one tensor, with their gradients and Adam's two
 * moments beside them: four times their size in F32. The bias of the output projection, where the model has one, is no
 * parameter here and stays as it is. The trainer keeps the model alive, and the model can still translate. A model has
 * one trainer at a time; it may have another after that one is freed. `options` may be NULL for all defaults.
 *
 * A trainer of a model on a fleet (fleet.h) is on all of its devices: the batches of an update are dealt to them in
 * turn, number i to device i modulo their number, or in shares, and each runs its own in a thread of its own. They are
 * ranks to each other (below), which talk in memory: an update is that of one device with all of the batches but for
 * rounding, and the same devices in the same order give the same bits. Where they are not of one kind,
 * `shard_optimizer` is set, so that each part of the parameters has its step on one device, for all. One that fails in
 * an update is told by name, and the update fails on all. All calls but updates, loading, averages, setting shares and,
 * with `shard_optimizer`, saving are the first device's, and until the trainer is freed so are all calls of the model.
 * Such a trainer cannot be a rank of others.
 *
 * TFM_ERROR_ARGUMENT for options out of range, and for a model that has a trainer, only encodes or has no output
 * projection; TFM_ERROR_UNSUPPORTED for one whose matrices are bytes or of 16 bits, and for a `precision` of which a
 * device has no products. On failure *out is NULL and the model is as it was. */
TFM_API tfm_status tfm_trainer_new(tfm_trainer **out, tfm_model *model, const tfm_trainer_options *options);
/* Frees the trainer and sets the pointer to NULL. The model keeps its parameters. Does nothing for NULL. The call
 * counts as a use of the context: no other thread may use that meanwhile. */
TFM_API void tfm_trainer_free(tfm_trainer **trainer);

/* An estimate, in bytes, of the device memory that training needs with batches of up to `tokens` source tokens and as
 * many target tokens, padding counted; a language model has target tokens alone. It comprises parameters, gradients,
 * moments, what the backward pass reads, and working memory, but not what the driver takes for itself; it is rather too
 * high than too low. Compare it with tfm_device_info.memory_bytes, before tfm_trainer_new or after. `options` may be
 * NULL. 0 for options with a reserved word that is set. It asks which provider multiplies matrices, so if the
 * environment variable TFM_GEMM names none, the context fails here. */
TFM_API uint64_t tfm_trainer_estimate_memory(const tfm_model *model, const tfm_trainer_options *options,
                                             int64_t tokens);

/* Makes one update from `count` batches together: forward and backward passes of each, then one step of Adam. With
 * `report`, the call waits for the device and says what the update came to; `report` may be NULL.
 *
 * If the loss or the gradient is not finite, the parameters stay as before the update, and the call returns
 * TFM_ERROR_NUMERIC if it was given a report; without one it cannot tell. Such an update counts all the same: in
 * tfm_trainer_updates, in the schedule and in Adam's step. If the device's memory runs out, the update begins again
 * with the batch that did not fit cut into pieces, smaller each time, and such batches are cut from then on. The update
 * is the same except for rounding and for what dropout draws, and the log says so once. TFM_ERROR_MEMORY means that a
 * single pair does not fit; the parameters are then as before, and the next update may fit. After other errors the
 * message says if the parameters may be spoiled. TFM_ERROR_ARGUMENT for a batch that is not as tfm_batch says, and
 * without any batch. */
TFM_API tfm_status tfm_trainer_update(tfm_trainer *trainer, tfm_update_report *report, const tfm_batch *batches,
                                      size_t count);

/* Sets *nll to the sum of -log p over the targets of one batch, in nats, and *tokens to their number. Nothing is
 * dropped out, and the parameters do not change. A batch that does not fit into memory is cut into pieces. */
TFM_API tfm_status tfm_trainer_evaluate(tfm_trainer *trainer, double *nll, uint64_t *tokens, const tfm_batch *batch);

/* Writes a checkpoint: all that the next update depends on, apart from the options. It has the parameters that are
 * trained, the moments, the number of updates, the caller's note and, unless `data` is NULL, the place of the batch
 * that tfm_data_next would give now. The file appears when it is complete and on disk; if the process or the machine
 * stops before, an older file of this name stays as it was. A checksum shows later damage. A trainer that loads the
 * file on a device of the same kind goes on with the same bits; on another device it goes on too, and the log says that
 * bits will differ.
 *
 * With `shard_optimizer`, all ranks make this call at the same update, with the same path in a folder that all see.
 * Each writes its moments beside it, as PATH-UPDATE-RANK-of-WORLD with an UPDATE of eight digits or more, and then rank
 * 0 the file itself, with what it was given; those of earlier checkpoints are removed last. A failure of one is a
 * failure of all, and the older checkpoint is whole. Such a checkpoint can be loaded without `shard_optimizer`, or with
 * another number of ranks, and any other with it. */
TFM_API tfm_status tfm_trainer_save(tfm_trainer *trainer, const tfm_data *data, const char *path);
/* Loads a checkpoint, and moves `data`, unless it is NULL, to the place that the file names. TFM_ERROR_IO if the file
 * cannot be read; TFM_ERROR_FORMAT if it is damaged, of another model or with other parameters frozen, no checkpoint,
 * or has no place in the data though `data` is given; TFM_ERROR_INPUT if the data has no such place. After these the
 * trainer is as it was. */
TFM_API tfm_status tfm_trainer_load(tfm_trainer *trainer, tfm_data *data, const char *path);

/* Sets the caller's note: a text, such as the state of a run as JSON, that is saved in checkpoints and comes back from
 * them. It is UTF-8 of less than 50,000,000 bytes, and is copied. NULL removes the note. TFM_ERROR_ARGUMENT if it is
 * not UTF-8, longer, or so full of control characters that a checkpoint, which has it as JSON, could not hold it. The
 * note then stays as it was. */
TFM_API tfm_status tfm_trainer_set_note(tfm_trainer *trainer, const char *note);
/* The caller's note, or NULL if there is none. The trainer owns it; it is valid until the note is set again or a
 * checkpoint is loaded. */
TFM_API const char *tfm_trainer_note(const tfm_trainer *trainer);

/* Writes the trained parameters alone, as F32, to a file. It is written as safely as a checkpoint and has a checksum
 * too. */
TFM_API tfm_status tfm_trainer_snapshot(tfm_trainer *trainer, const char *path);
/* Sets the parameters to their mean over `count` snapshots or checkpoints, summed in double precision. Such a mean is
 * mostly better than the last of them ("Attention Is All You Need", section 6.1, averages the last 5 or 20). Moments
 * and the number of updates stay as they are: to go on training, save a checkpoint before and load it after.
 * TFM_ERROR_IO if a file cannot be read, TFM_ERROR_FORMAT if one is damaged, of another model, or neither kind of file;
 * the trainer is then as it was. */
TFM_API tfm_status tfm_trainer_average(tfm_trainer *trainer, const char *const *paths, size_t count);

/* ---- Ranks ------------------------------------------------------------------------------------------------------ */

/* Makes the trainer one of several ranks, which must have equal models, options and numbers of updates. The struct is
 * copied. NULL, or a world of 1, makes it work alone again, as it does at first. Nothing is said to the others here.
 *
 * From then on all ranks call tfm_trainer_update for the same updates, each with its own share of the batches: the
 * batches of an update are dealt in turn, so that number i of them goes to rank i modulo `world_size`, or in shares. A
 * rank may have none: its `count` is 0 then, and `batches` is not NULL.
 *
 * The loss is scaled by the targets of all ranks, the gradients are added up in the order of the ranks, and every rank
 * makes the same step, so that all have the same parameters. The update is that of one trainer with all of the batches
 * but for rounding, with the same dropout, and the report is of all ranks. The same world gives the same bits.
 *
 * An update that fails on one rank before the step fails on all, and changes nothing: where it is another rank that
 * failed, the status is TFM_ERROR_CANCELLED, and where the ranks cannot talk any more, TFM_ERROR_IO. A rank that has no
 * batches because of a failure of its own tells the others by a call with NULL for them. The call always waits for the
 * device, and returns TFM_ERROR_NUMERIC with or without a report. Now and then the ranks compare what they have, which
 * includes options such as rates and seeds: TFM_ERROR_NUMERIC on all if it is not the same to the bit, as on devices of
 * several kinds, and TFM_ERROR_ARGUMENT on all if they are not at the same update. All other calls concern one rank
 * alone, but for tfm_trainer_save with `shard_optimizer`. */
TFM_API tfm_status tfm_trainer_set_process_group(tfm_trainer *trainer, const tfm_process_group *group);

/* Returns the ratio in which ranks, or the devices of a fleet, share the rows of an update: a number for each, or NULL
 * where they are equal: whole batches are dealt round-robin then. A trainer on a fleet applies the ratio itself. Ranks
 * ask before they split the batches of an update, and all get the same. The array belongs to the trainer, and is valid
 * until the next call of tfm_trainer_load, tfm_trainer_set_process_group or tfm_trainer_set_balance. NULL for NULL. */
TFM_API const double *tfm_trainer_balance(const tfm_trainer *trainer);
/* Sets the ratio: `count` shares, one for each rank or device. Only their proportions matter, to a 65,536th of the
 * largest. All ranks must set the same. NULL makes them equal. Checkpoints keep a ratio that is not equal, for as many
 * ranks: the order in which gradients are added up follows from it, so that runs with the same ratio have the same
 * bits, and dropout depends on it too. TFM_ERROR_ARGUMENT if there are more or fewer, or if one is negative or not
 * finite, or none is above 0. A trainer that works alone has one, which changes nothing. */
TFM_API tfm_status tfm_trainer_set_balance(tfm_trainer *trainer, const double *ratio, size_t count);
/* The part of an update's batches that one rank has by its share. The rows of all batches, one after the other, are cut
 * where the sums of shares are, counted in tokens with padding: each row is one rank's. Sets *own_count to the number
 * of batches that the rank has rows of, which may be 0, and own[0] and so on, for which there must be room for `count`,
 * to these rows, as views into the arrays of the batches. `ratio` are `world_size` numbers, as for
 * tfm_trainer_set_balance. It needs no device. TFM_ERROR_ARGUMENT for shares, a rank or batches that cannot be. */
TFM_API tfm_status tfm_batches_split(tfm_batch *own, size_t *own_count, const tfm_batch *batches, size_t count,
                                     const double *ratio, int world_size, int rank);

/* What a rank has sent to the others since its trainer was made. */
typedef struct tfm_comm_stats {
    uint64_t bytes; /* Of gradients and parameters, for all other ranks; as much comes from them. */
    double seconds; /* How long `all_to_all` and `all_gather` took for that, with waiting for slower ranks. */
    double overlapped_seconds; /* Of these, calls that began while the device still had gradients to make. */
} tfm_comm_stats;

/* Gradients are sent a few MB at a time, each as soon as the backward pass is done with it. All 0 for NULL, and for a
 * trainer that works alone. */
TFM_API tfm_comm_stats tfm_trainer_comm_stats(const tfm_trainer *trainer);

/* How many updates the trainer has made, those before a loaded checkpoint included. 0 for NULL. */
TFM_API int64_t tfm_trainer_updates(const tfm_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
