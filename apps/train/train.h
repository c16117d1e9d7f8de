/* Shared declarations of `tfm train`: the recipe, the validation set, the log.
 *
 * The output directory of a run:
 *
 *     recipe.json             every option of the command line, with its final value
 *     source.spm, ...         the tokenizer, trained or copied; of a decoder-only model tokenizer.json
 *     config.json, model.safetensors, generation_config.json
 *                             the best model so far, for `tfm translate` or `tfm generate`
 *     checkpoint.safetensors  the state of the run
 *     snapshots/UPDATE.safetensors   parameters of the last validations, for the average
 *     train.jsonl             one object per report
 *     curves.svg              the same as a picture */
#ifndef TFM_TRAIN_APP_H
#define TFM_TRAIN_APP_H

#include "train/train_recipe.h"

/* ---- Validation (validation.c) ------------------------------------------------------------------------- */

/* Pairs of lines, or texts, in memory. */
typedef struct train_validation {
    bool texts;                /* they have no sources */
    char **sources, **targets; /* sources, source_bytes: NULL for texts */
    size_t *source_bytes, *target_bytes;
    size_t count, room;
    tfm_metrics_options metrics;
    tfm_search_options search;
    const char *source_language, *target_language; /* the recipe's, of a multilingual model */
    const tfm_chat *chat;                          /* not NULL: texts are conversations; owned by the run */
} train_validation;

/* BLEU and chrF are 0 for texts. */
typedef struct train_score {
    double nll, ppl, bleu, chrf;
} train_score;

/* Reads the validation files of the recipe, or holds lines out of the training files; may be empty. */
int train_validation_open(train_validation *valid, const train_recipe *recipe);
void train_validation_close(train_validation *valid);
/* Reports how many are longer than the model's positions; removes bad conversations. */
int train_validation_warn(train_validation *valid, const tfm_tokenizer *tokenizer, int positions);
/* A hash (FNV-1a) of the lines and of the options of scoring. */
uint64_t train_validation_hash(const train_validation *valid);
/* Counts the lines of a file. */
int train_count_lines(const char *path, int64_t *count);
/* Counts the lines of the source side, or of texts, in all training files, for holding out. */
int train_count_all(const train_recipe *recipe, int64_t *count);
/* Evaluates the model on them (validation_score.c). Returns the status of cli_evaluate_pairs. */
tfm_status train_validation_run(const train_validation *valid, tfm_model *model, train_score *score);

/* ---- The log (train_log.c) ----------------------------------------------------------------------------- */

/* Whether a run writes a file of this name, and whether it belongs to a tokenizer or a chat template. */
bool train_is_file(const char *name);
bool train_is_tokenizer_file(const char *name);
extern const char train_templates[]; /* the folder of further templates */

/* train.jsonl, and progress lines. */
typedef struct train_log {
    FILE *file;
    char *path;
    bool terminal; /* show one changing line instead of a line for each report */
} train_log;

/* Opens and locks the log of `dir`, and removes unfinished files of killed runs. CLI_FAILED after a message, also while
 * another process trains there. */
int train_log_open(train_log *log, const char *dir);
/* The last reported update, 0 for none; *ended: whether the run has ended once; *resumed: whether it was resumed from a
 * checkpoint. */
int64_t train_log_last(const train_log *log, bool *ended, bool *resumed);
/* Truncates it to `bytes`: reports after the checkpoint are written again. */
int train_log_cut(train_log *log, long bytes);
void train_log_close(train_log *log);
/* Writes one object, and takes over the reference to it. */
int train_log_put(train_log *log, json_t *object);
/* Syncs the log to disk, and returns its length. */
int train_log_sync(train_log *log, long *bytes);
/* Writes a permanent line to standard error. */
void train_print(const char *format, ...) TFM_PRINTF(1, 2);

/* ---- The run (train_batches.c, train_checkpoint.c, train_loop.c, train_signals.c, cmd_train.c) --------- */

/* The state of a run in addition to the trainer's state: the checkpoint's note, as JSON. */
typedef struct train_progress {
    double best_bleu, best_ppl, best_nll;
    int64_t best_update; /* 0: none yet */
    int since_best;      /* validations */
    int64_t milestone;   /* the last update with a validation and a snapshot; 0: none yet */
    double seconds;      /* of the run, over all starts */
    long log_bytes;
    json_t *snapshots; /* updates, oldest first */
    int64_t targets;   /* since the last report; and sums over them */
    double loss, nll;
} train_progress;

/* The micro-batches of one update, copied. */
typedef struct train_batches {
    tfm_batch *items;
    int32_t **numbers;
    size_t count;     /* of the items */
    size_t allocated; /* capacity; items may be parts of micro-batches */
} train_batches;

typedef struct train_sums {
    double targets, loss, nll; /* the last two over the targets */
} train_sums;

/* The last updates of this start, for the line that shows progress. */
enum { TRAIN_WINDOW = 20 };
typedef struct train_window {
    train_sums updates[TRAIN_WINDOW];
    size_t count; /* total number added */
} train_window;

typedef struct train_run {
    train_recipe recipe;
    const char *dir;
    size_t kept;      /* of a new run: length of the snapshots folder's path that existed before */
    char *checkpoint; /* its path */
    int64_t saved;    /* the update of the last checkpoint; -1: there is none */
    tfm_fleet *fleet; /* the devices; NULL for a rank, which has one */
    int devices;      /* number of replicas: devices times workers */
    tfm_context *ctx; /* the first one's */
    tfm_tokenizer *tokenizer;
    tfm_model *model;
    tfm_trainer *trainer;
    tfm_chat *chat; /* of a run on conversations */
    tfm_data *data;
    train_validation valid;
    train_log log;
    train_progress at;
    train_batches last;  /* of the previous update */
    char measure[20];    /* a hash of the validation set and its options; "" without validation */
    bool revalidate;     /* the best so far was scored with other settings */
    bool changed;        /* the recipe differs from its file */
    int64_t lines;       /* of the training files, or of their source side; -1: not counted yet */
    bool cut;            /* a signal interrupted a validation */
    json_t *corpus;      /* sizes and hashes of the text, computed once before reading */
    double begun;        /* the clock minus at.seconds */
    int64_t first;       /* updates before this start */
    double second_began; /* start of the second update */
    double since;        /* clock at the last report, plus time spent outside updates; tokens since, of both sides */
    uint64_t tokens;
    train_window shown;
    const tfm_process_group *ranks; /* the process group; NULL for a single process */
    tfm_comm_stats comm_stats;      /* communication until the last report */
    int local;                      /* rank within its machine */
    char device[16];                /* its device of several, or "" */
    int64_t epoch;                  /* of the last batch, from 1 on */
    uint64_t told;                  /* reported bad pairs */
    bool counted;                   /* the number of pairs of a pass was reported */
} train_run;

/* ---- Size of the text (train_size.c) ------------------------------------------------------------------- */

/* Warns of too little text for the new model. */
int train_warn_corpus_size(train_run *run);

/* ---- The directory of a new run (run_dir.c) ------------------------------------------------------------ */

/* Creates and locks r->dir, with its recipe. After a failure nothing new is left. */
int train_run_dir_claim(train_run *run);
/* Restores the directory, so that the corrected command works; closes the log. */
void train_run_dir_release(train_run *run);

/* ---- Several ranks (train_processes.c) ----------------------------------------------------------------- */

/* Joins the other ranks of a launcher, if any. From then on train_ranks_close prints errors. */
int train_ranks_open(train_run *run);
/* Waits for the other ranks. The first failed rank prints its error with its number; all return the same code. */
int train_ranks_close(train_run *run, int code);
/* Exchanges return codes and options, or later recipes, with the other ranks. Returns `code` if all succeeded and
 * agree. */
int train_ranks_compare(const train_run *run, int code);
/* Whether this is rank 0, which owns the directory and prints all messages; the world size. */
bool train_first(const train_run *run);
int train_world(const train_run *run);
/* Number of replicas: ranks, or the devices of one process times workers. */
int train_replicas(const train_run *run);
/* What a replica is called: "rank", "device", or with workers "replica". */
const char *train_replica_name(const train_run *run);
/* Counts the given devices, and refuses a selector without a device. CLI_CONTINUE, or the command's return code. */
int train_devices_count(train_run *run, const cli_syntax *syntax);
/* Refuses fewer micro-batches than replicas. CLI_CONTINUE, or the command's return code. */
int train_ranks_check(const train_run *run, const cli_syntax *syntax);
/* Waits for the other ranks before the run begins: CLI_OK if all succeeded and have the same text. */
int train_ranks_agree(const train_run *run, int code);
/* Whether all ranks do another update: not if one failed (*code is set on all), one received a stop signal, or rank 0
 * is `over`. */
bool train_ranks_continue(train_run *run, int *code, bool over);
/* Whether each rank has a shard of the optimizer state. Rank 0 then makes all ranks save, wherever they wait for it. */
bool train_sharded(const train_run *run);
void train_ranks_request_save(const train_run *run);
/* Reports that a checkpoint could not be written. CLI_FAILED. */
int train_save_failed(const train_run *run);
/* Chooses the device of this rank from several. */
int train_ranks_device(train_run *run);

/* ---- The ratio in which devices or ranks share an update (balance.c) ----------------------------------- */

/* Refuses a ratio without one number per replica. CLI_CONTINUE, or the command's return code. */
int train_balance_check(const train_run *run, const cli_syntax *syntax);
/* Sets the ratio and logs it, after all ranks have restored the checkpoint. */
int train_balance_begin(train_run *run);

/* Whether the folder has such a file. */
bool train_exists(const char *dir, const char *name);
/* Refuses missing text and conflicting options. CLI_CONTINUE, or the command's return code (lm.c). */
int train_lm_check(train_recipe *recipe, const cli_syntax *syntax);
/* Warns of a separator that does not occur. */
void train_lm_warn(const train_recipe *recipe, uint64_t texts);
/* Sets defaults of a run on texts, before train_recipe_settle. */
void train_lm_settle(train_recipe *recipe);
/* The options of a new decoder-only model. */
tfm_model_shape train_lm_shape(const train_run *run);

/* Refuses options of a new model or vocabulary together with an existing one. CLI_CONTINUE, or the command's return
 * code. */
int train_model_check(train_recipe *recipe, const cli_syntax *syntax);
/* Opens or creates the tokenizer and the model of the run (train_model.c). */
int train_model_open(train_run *run);

/* Reads the next micro-batches into r->last; CLI_FAILED after a message without memory. *status: the library's. */
int train_batches_next(train_run *run, tfm_status *status);
void train_batches_free(train_batches *batches);

/* Shows the progress: on a terminal one changing line for each update; elsewhere a permanent line for `lasting` ones.
 * Loss and perplexity are means over the last TRAIN_WINDOW updates (train_progress.c). */
void train_progress_print(train_run *run, const tfm_update_report *u, bool lasting);

/* Saves the checkpoint. */
int train_checkpoint_write(train_run *run);
/* Saves the checkpoint at the end of a run with averaged parameters in the model: a resumed run uses the checkpoint's.
 */
int train_checkpoint_rewrite(train_run *run);
/* Restores the run from its checkpoint, if there is one. */
int train_checkpoint_read(train_run *run);
/* Saves a snapshot of the parameters for the average, and deletes older ones. */
int train_snapshot_write(train_run *run);
/* Replaces the parameters by the mean of the snapshots. The checkpoint keeps the parameters. */
int train_snapshot_average(train_run *run);
/* Counts the snapshots in a directory, of any run. */
size_t train_snapshot_count(const char *dir);

/* Until train_catch_signals a signal ends the program at once, with a message on how to resume. From there on the first
 * signal ends the run with a checkpoint, and the second (except SIGHUP) ends the program. Launchers of `ranks` forward
 * SIGUSR1. */
void train_catch_signals_early(const train_run *run);
void train_catch_signals(bool ranks);
bool train_stop_requested(void);
/* The command that resumes the run, with the options that are not in its recipe. Returns `text`. */
const char *train_resume_command(char *text, size_t size, const train_run *run);
/* Validation, snapshot and checkpoint, in this order: a run killed in between does them again (train_milestone.c). */
int train_milestone(train_run *run);
/* Scores the current parameters, and saves the model if it is the best so far, or with `keep` if its score is finite.
 * `what`: "valid" or "average". */
int train_validate(train_run *run, const char *what, bool keep);
/* Scores the best model so far again after a change of validation. */
int train_revalidate(train_run *run);
/* Fails if the last update left parameters with a non-finite loss. */
int train_parameters_check(const train_run *run);
/* Reports the number of pairs and of skipped ones, once known. */
int train_print_counts(train_run *run);
/* Saves the current parameters as the model of the run. */
int train_model_save_best(train_run *run);
/* Renders the log if tfm has picture support. A failure does not end the run. */
void train_plot_curves(const train_run *run);
/* Reports an error and the last checkpoint. CLI_FAILED. */
int train_update_failed(const train_run *run, const char *sentence);

/* Runs all updates, until the end or a signal, and finishes the run. */
int train_loop(train_run *run);

#endif
