/* What the files of `tfm train` share: the recipe, the validation set, the log.
 *
 * A run lives in its output directory:
 *
 *     recipe.json             every option of the command line, as it came out
 *     source.spm, ...         the tokenizer, trained or copied; of a language model tokenizer.json
 *     config.json, model.safetensors, generation_config.json
 *                             the best model so far, what `tfm translate` or `tfm generate` reads
 *     checkpoint.safetensors  where the run is
 *     snapshots/UPDATE.safetensors   parameters of the last validations, for the average
 *     train.jsonl             an object a report
 *     curves.svg              the same as a picture */
#ifndef TFM_TRAIN_APP_H
#define TFM_TRAIN_APP_H

#include "train/train_recipe.h"

/* ---- Validation (validation.c) ------------------------------------------------------------------------- */

/* Pairs of lines, or texts, that are kept in memory. */
typedef struct train_validation {
    bool texts;                /* they have no sources */
    char **sources, **targets; /* sources: NULL where there are none, and so is source_bytes */
    size_t *source_bytes, *target_bytes;
    size_t count, room;
    tfm_metrics_options metrics;
    tfm_search_options search;
    const char *source_language, *target_language; /* the recipe's, of a model that has several */
} train_validation;

/* Of texts BLEU and chrF are 0. */
typedef struct train_score {
    double nll, ppl, bleu, chrf;
} train_score;

/* The lines that the recipe names, or those that it holds out of the training files; none is fine. */
int train_validation_open(train_validation *valid, const train_recipe *recipe);
void train_validation_close(train_validation *valid);
/* Says how many of them are longer than the model's positions. */
int train_validation_warn(const train_validation *valid, const tfm_tokenizer *tokenizer, int positions);
/* A hash (FNV-1a) of the lines and of what makes a score of them. */
uint64_t train_validation_hash(const train_validation *valid);
/* Counts the lines of a file. */
int train_count_lines(const char *path, int64_t *count);
/* Counts those that pairs or texts are held out of: of the source side, or of texts, in all files. */
int train_count_all(const train_recipe *recipe, int64_t *count);
/* Measures how good the model is on them. Returns what cli_evaluate_pairs returns. */
tfm_status train_validation_run(const train_validation *valid, tfm_model *model, train_score *score);

/* ---- The log (train_log.c) ----------------------------------------------------------------------------- */

/* Whether a file of this name is one that a run has in its directory, and whether it is of a tokenizer or a chat
 * template. */
bool train_is_file(const char *name);
bool train_is_tokenizer_file(const char *name);
extern const char train_templates[]; /* the folder of further templates */

/* train.jsonl, and lines for whoever watches. */
typedef struct train_log {
    FILE *file;
    char *path;
    bool terminal; /* somebody watches: show one changing line instead of a line for each report */
} train_log;

/* Opens the log of `dir` for this run alone, and clears away what killed runs left unfinished there.
 * CLI_FAILED after its sentence, also while another process trains there. */
int train_log_open(train_log *log, const char *dir);
/* The last update that it has a report of, 0 for none; *ended: whether the run came to its end once; *resumed: whether
 * it went on from a checkpoint. */
int64_t train_log_last(const train_log *log, bool *ended, bool *resumed);
/* Cuts it to its first `bytes`: what was reported after the checkpoint is reported again. */
int train_log_cut(train_log *log, long bytes);
void train_log_close(train_log *log);
/* Writes one object, and takes over the reference to it. */
int train_log_put(train_log *log, json_t *object);
/* Makes the log safe on the disk, and returns its length then. */
int train_log_sync(train_log *log, long *bytes);
/* Writes a line that stays to standard error. */
void train_print(const char *format, ...) TFM_PRINTF(1, 2);

/* ---- The run (train_batches.c, train_checkpoint.c, train_loop.c, train_signals.c, cmd_train.c) --------- */

/* What a checkpoint says of a run beside the trainer's own state: its note, as JSON. */
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

/* The batches of one update, with memory of their own. */
typedef struct train_batches {
    tfm_batch *items;
    int32_t **numbers;
    size_t count;     /* of the items */
    size_t allocated; /* of the numbers: items may be parts of batches */
} train_batches;

typedef struct train_sums {
    double targets, loss, nll; /* the last two over the targets */
} train_sums;

/* The last updates of this start, for the line that shows progress. */
enum { TRAIN_WINDOW = 20 };
typedef struct train_window {
    train_sums updates[TRAIN_WINDOW];
    size_t count; /* how many were ever added */
} train_window;

typedef struct train_run {
    train_recipe recipe;
    const char *dir;
    size_t kept;      /* of a new run: how much of the path of its folder of snapshots was there before */
    char *checkpoint; /* its path */
    int64_t saved;    /* the update of the last checkpoint; -1: there is none */
    tfm_fleet *fleet; /* the devices; NULL for a rank, which has one */
    int devices;      /* how many share updates, each counted as often as it has workers */
    tfm_context *ctx; /* the first one's */
    tfm_tokenizer *tokenizer;
    tfm_model *model;
    tfm_trainer *trainer;
    tfm_data *data;
    train_validation valid;
    train_log log;
    train_progress at;
    train_batches last;  /* of the update before */
    char measure[20];    /* a hash of what validation measures; "" where there is none */
    bool revalidate;     /* the best so far was measured otherwise */
    bool changed;        /* the recipe is not what its file says */
    int64_t lines;       /* of the training files, or of their source side; -1: not counted yet */
    bool cut;            /* a signal came to a validation, which is left undone */
    json_t *corpus;      /* which text, as checkpoints note it: taken once, before it is read */
    double begun;        /* the clock minus at.seconds */
    int64_t first;       /* updates before this start */
    double second_began; /* the second update since */
    double since;        /* the clock at the last report, or later by what was no update; tokens since, of both sides */
    uint64_t tokens;
    train_window shown;
    const tfm_process_group *ranks; /* how several of them talk; NULL: the run is one process */
    tfm_comm_stats comm_stats;      /* what was sent until the last report */
    int local;                      /* its number among those of its machine */
    char device[16];                /* which of several devices it takes, or "" */
    int64_t epoch;                  /* of the last batch, from 1 on */
    uint64_t told;                  /* bad pairs that were reported */
    bool counted;                   /* the pairs of a pass are said */
} train_run;

/* ---- How much text (train_size.c) ---------------------------------------------------------------------- */

/* Says where the text is too little for the new model. */
int train_warn_corpus_size(train_run *run);

/* ---- The directory of a new run (run_dir.c) ------------------------------------------------------------ */

/* Makes r->dir this run's alone, with its recipe. After a failure nothing is there that was not before. */
int train_run_dir_claim(train_run *run);
/* Leaves it as it was before that, so that the same command works once its mistake is mended; closes the log. */
void train_run_dir_release(train_run *run);

/* ---- Several ranks (train_processes.c) ----------------------------------------------------------------- */

/* Joins the others where a launcher has started several. From then on what fails is said at train_ranks_close. */
int train_ranks_open(train_run *run);
/* Waits for the others. The first of those that failed says why, and which it is; returns what all return. */
int train_ranks_close(train_run *run, int code);
/* Waits for the others with what a parse, or what came after it, has returned. That is returned if all are well and
 * have the same options, in whose place there is the recipe once the run has it. */
int train_ranks_compare(const train_run *run, int code);
/* Whether it is the one that has the directory and says all that is said; how many there are. */
bool train_first(const train_run *run);
int train_world(const train_run *run);
/* How many share an update: ranks, or the devices of one process. */
int train_replicas(const train_run *run);
/* Counts the devices that are named. CLI_CONTINUE, or what the command is to return. */
int train_devices_count(train_run *run, const cli_syntax *syntax);
/* Refuses an update with fewer batches than there are ranks, or devices. CLI_CONTINUE, or what the command is to
 * return. */
int train_ranks_check(const train_run *run, const cli_syntax *syntax);
/* Waits for the others before the run begins: CLI_OK if all are well, and learn the same text. */
int train_ranks_agree(const train_run *run, int code);
/* Whether all make another update: not if one has failed, which *code says on all, if one was asked to stop, or if it
 * is `over` for the first. */
bool train_ranks_continue(train_run *run, int *code, bool over);
/* Whether each rank has a part of the state, so that all save it. Then the first one calls all to do so, wherever they
 * wait for its word. */
bool train_sharded(const train_run *run);
void train_ranks_request_save(const train_run *run);
/* Says that a checkpoint could not be written. CLI_FAILED. */
int train_save_failed(const train_run *run);
/* Chooses the device of this rank where several are named. */
int train_ranks_device(train_run *run);

/* ---- The ratio in which devices or ranks share an update (balance.c) ----------------------------------- */

/* Refuses what is not one share for each. CLI_CONTINUE, or what the command is to return. */
int train_balance_check(const train_run *run, const cli_syntax *syntax);
/* Sets the ratio and logs it, once the trainers of all ranks are as the checkpoint has it. */
int train_balance_begin(train_run *run);

/* Whether the folder has such a file. */
bool train_exists(const char *dir, const char *name);
/* Refuses text that is missing, and what does not go with it. CLI_CONTINUE, or what the command is to return
 * (lm.c). */
int train_lm_check(train_recipe *recipe, const cli_syntax *syntax);
/* Warns of a separator that cut nothing. */
void train_lm_warn(const train_recipe *recipe, uint64_t texts);
/* Fills in what was not given of a run on texts, before train_recipe_settle does so. */
void train_lm_settle(train_recipe *recipe);
/* What a new language model is. */
tfm_model_shape train_lm_shape(const train_run *run);

/* Refuses options for a new model or vocabulary beside those that are there. CLI_CONTINUE, or what the command is to
 * return. */
int train_model_check(train_recipe *recipe, const cli_syntax *syntax);
/* Opens the tokenizer and the model of the run, or makes them (train_model.c). */
int train_model_open(train_run *run);

/* The next ones in r->last; CLI_FAILED after its sentence where there is no memory. *status: the library's. */
int train_batches_next(train_run *run, tfm_status *status);
void train_batches_free(train_batches *batches);

/* Shows an update: on a terminal each, as one changing line; elsewhere those that are `lasting`, as lines that stay.
 * Loss and perplexity are those of the last TRAIN_WINDOW updates (train_progress.c). */
void train_progress_print(train_run *run, const tfm_update_report *u, bool lasting);

/* Saves where the run is. */
int train_checkpoint_write(train_run *run);
/* Saves at the end of a run, when the model has the averaged parameters: a resumed run uses those of the checkpoint. */
int train_checkpoint_rewrite(train_run *run);
/* Restores the run from its checkpoint. Without one the run stays at its beginning. */
int train_checkpoint_read(train_run *run);
/* Saves a snapshot of the parameters for the average, and deletes snapshots that it no longer needs. */
int train_snapshot_write(train_run *run);
/* Replaces the parameters by the mean of the snapshots. The checkpoint still has the parameters. */
int train_snapshot_average(train_run *run);
/* Counts the snapshots in a directory, whichever run they are of. */
size_t train_snapshot_count(const char *dir);

/* Until train_catch_signals a signal ends the program at once, and says how to go on. From there on the first one is to
 * end the run in good order, and the second ends the program, but for SIGHUP. Launchers of `ranks` pass SIGUSR1 on to
 * them. */
void train_catch_signals_early(const train_run *run);
void train_catch_signals(bool ranks);
bool train_stop_requested(void);
/* How to go on with the run: what its recipe does not hold is said. Returns `text`. */
const char *train_resume_command(char *text, size_t size, const train_run *run);
/* Validation, snapshot and checkpoint, in this order: a run that is killed between them does them again
 * (train_milestone.c). */
int train_milestone(train_run *run);
/* Scores the parameters as they are, and keeps the model if there is none better, or with `keep` whenever its score is
 * a number. `what` is "valid", or "average". */
int train_validate(train_run *run, const char *what, bool keep);
/* Scores the best model so far again: validation has changed. */
int train_revalidate(train_run *run);
/* Fails where the last update left parameters without a finite loss. */
int train_parameters_check(const train_run *run);
/* Says how many pairs there are and why some were left out, once it is known. */
int train_print_counts(train_run *run);
/* Saves the parameters as they are as the model of the run. */
int train_model_save_best(train_run *run);
/* Draws the log where tfm can. A run does not end for a picture that fails. */
void train_plot_curves(const train_run *run);
/* Says what went wrong, and which checkpoint is left. CLI_FAILED. */
int train_update_failed(const train_run *run, const char *sentence);

/* Runs all updates, until the end or a signal, and then what ends a run. */
int train_loop(train_run *run);

#endif
