/* What the files of `tfm train` share: the recipe, the validation set, the log.
 *
 * A run lives in its output directory:
 *
 *     recipe.json             every option of the command line, as it came out
 *     source.spm, ...         the tokenizer, trained or copied
 *     config.json, model.safetensors, generation_config.json
 *                             the best model so far, what `tfm translate` reads
 *     checkpoint.safetensors  where the run is
 *     snapshots/UPDATE.safetensors   parameters of the last validations, for the average
 *     train.jsonl             an object a report
 *     curves.svg              the same as a picture */
#ifndef TFM_TRAIN_APP_H
#define TFM_TRAIN_APP_H

#include <jansson.h>
#include "cli.h"

/* ---- The recipe (train_recipe.c, train_recipe_file.c) -------------------------------------------------- */

enum { TRAIN_OPTIONS = 64 };

/* Every choice of a run. Numbers that were not given are negative, or NaN, until train_recipe_settle. */
typedef struct train_recipe {
    const char *source, *target, *tsv;
    const char *valid_source, *valid_target, *valid_tsv;
    int hold_out;
    int64_t hold_every; /* of so many pairs one is for validation; not in the file, but counted from it */
    bool strict;
    int max_length, buffer;

    const char *vocabulary;
    int vocabulary_size, vocabulary_lines;
    bool separate, unigram;
    double coverage, subword_alpha;
    int normalization;

    int preset;
    int width, heads, feed_forward, encoder_layers, decoder_layers, positions;
    int activation, init;
    bool pre_norm;

    int updates, epochs, batch_tokens, accumulate;
    int schedule, warmup;
    double rate, beta1, beta2, epsilon, decay, clip;
    double smoothing, dropout, attention_dropout, activation_dropout;
    int seed;

    int report_every, valid_every, patience, average;
    int valid_beam, valid_tokenize, best_by;
    bool valid_lowercase, keep_average;
    int store;

    const char *out, *resume, *device; /* not in the file */
    json_t *stored;                    /* what texts above may lie in */
} train_recipe;

enum { BEST_BLEU, BEST_PPL };

/* Nothing given. */
train_recipe train_recipe_unset(void);
void train_recipe_free(train_recipe *recipe);

/* How many options of the table, its first ones, are not in the file. */
enum { TRAIN_UNSTORED = 3 };
/* Of the numbers in the file. */
enum { TRAIN_DIGITS = 12 };

/* The options of the command line for this recipe; returns their number, at most TRAIN_OPTIONS. */
size_t train_recipe_options(train_recipe *recipe, cli_option *options);

/* Fills in what was not given: from the preset, then from what was. CLI_GO, or CLI_USAGE after its sentence
 * for numbers that cannot be, or not together. */
int train_recipe_settle(train_recipe *recipe, const cli_syntax *syntax);

/* Writes the recipe's file into `dir`. */
int train_recipe_write(const train_recipe *recipe, const char *dir);
/* Reads that of the directory `recipe->resume`, and lets the command line change what may change; *changed:
 * whether it has. CLI_GO, or what the command is to return. */
int train_recipe_resume(train_recipe *recipe, bool *changed, const cli_syntax *syntax, int argc, char **argv);

/* "dir/name", for free(); NULL when memory is out. */
char *train_path(const char *dir, const char *name);

/* ---- Validation (train_valid.c) ------------------------------------------------------------------------ */

/* Pairs of lines in memory. */
typedef struct train_valid {
    char **sources, **targets;
    size_t *source_bytes, *target_bytes;
    size_t count, room;
    tfm_metrics_options metrics;
    tfm_search_options search;
} train_valid;

typedef struct train_score {
    double nll, ppl, bleu, chrf;
} train_score;

/* The lines that the recipe names, or those that it holds out of the training files; none is fine. */
int train_valid_open(train_valid *valid, const train_recipe *recipe);
void train_valid_close(train_valid *valid);
/* Says how many of them are longer than the model's positions. */
int train_valid_warn(const train_valid *valid, const tfm_tokenizer *tokenizer, int positions);
/* A hash (FNV-1a) of the lines and of what makes a score of them. */
uint64_t train_valid_hash(const train_valid *valid);
/* The lines of a file. */
int train_count_lines(const char *path, int64_t *count);
/* How good the model is on them. What cli_measure_pairs returns. */
tfm_status train_valid_run(const train_valid *valid, tfm_model *model, train_score *score);

/* ---- The log (train_log.c) ----------------------------------------------------------------------------- */

/* What a run has in its directory beside snapshots; NULL behind the last. */
extern const char *const train_files[];

/* train.jsonl, and lines for whoever watches. */
typedef struct train_log {
    FILE *file;
    char *path;
    bool terminal; /* somebody watches: one changing line, not a line a report */
} train_log;

/* Opens the log of `dir` for this run alone, and clears away what killed runs left unfinished there.
 * CLI_FAILED after its sentence, also while another process trains there. */
int train_log_open(train_log *log, const char *dir);
/* The last update that it has a report of, 0 for none; *ended: whether the run came to its end once; *resumed: whether
 * it went on from a checkpoint. */
int64_t train_log_last(const train_log *log, bool *ended, bool *resumed);
/* Cuts it to its first `bytes`: what was reported behind the checkpoint is reported again. */
int train_log_cut(train_log *log, long bytes);
void train_log_close(train_log *log);
/* Writes one object, and takes it. */
int train_log_put(train_log *log, json_t *object);
/* Safe on the disk; its length then. */
int train_log_sync(train_log *log, long *bytes);
/* A line that stays, on standard error. */
void train_say(const char *format, ...) TFM_PRINTF(1, 2);

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
    tfm_pairs *items;
    int32_t **numbers;
    size_t count;
} train_batches;

typedef struct train_run {
    train_recipe recipe;
    const char *dir;
    char *checkpoint; /* its path */
    int64_t saved;    /* the update it is of; -1: none */
    tfm_context *ctx;
    tfm_tokenizer *tokenizer;
    tfm_model *model;
    tfm_trainer *trainer;
    tfm_data *data;
    train_valid valid;
    train_log log;
    train_progress at;
    train_batches last; /* of the update before */
    char measure[20];   /* a hash of what validation measures; "" where there is none */
    bool remeasure;     /* the best so far was measured otherwise */
    bool changed;       /* the recipe is not what its file says */
    bool cut;           /* a signal came to a validation, which is left undone */
    json_t *corpus;      /* which text, as checkpoints note it: taken once, before it is read */
    double begun;        /* the clock minus at.seconds */
    int64_t first;       /* updates before this start */
    double second_began; /* the second update since */
    double since;        /* the clock at the last report, or later by what was no update; tokens since, of both sides */
    uint64_t tokens;
    int64_t epoch; /* of the last batch, from 1 on */
    uint64_t told; /* bad pairs */
    bool counted;  /* the pairs of a pass are said */
} train_run;

/* The next ones in r->last; CLI_FAILED after its sentence where there is no memory. *status: the library's. */
int train_batches_next(train_run *run, tfm_status *status);
void train_batches_free(train_batches *batches);

/* Saves where the run is. */
int train_checkpoint_write(train_run *run);
/* The same at the end, when the parameters are the average's: those that go on are the checkpoint's. */
int train_checkpoint_renew(train_run *run);
/* So many bytes more in a hash (FNV-1a), which begins as TRAIN_HASH. */
uint64_t train_hash(uint64_t hash, const void *bytes, size_t count);
#define TRAIN_HASH 14695981039346656037u
/* Goes where the run was; without a checkpoint it stays at its beginning. */
int train_checkpoint_read(train_run *run);
/* Keeps the parameters for the average, and no more of them than it takes. */
int train_snapshot_write(train_run *run);
/* Puts the mean of what is kept in the parameters' place. The checkpoint has them still. */
int train_snapshot_average(train_run *run);
/* How many snapshots, of whichever run, a directory has. */
size_t train_snapshot_count(const char *dir);
/* Notes which text the recipe's files hold, for checkpoints. */
void train_corpus_note(train_run *run);

/* Until train_catch a signal ends the program at once, and says how to go on. From there on the first one is to end the
 * run in good order, and the second ends the program, but for SIGHUP. */
void train_catch_early(const train_run *run);
void train_catch(void);
bool train_asked_to_stop(void);
/* How to go on with the run: what its recipe does not hold is said. Returns `text`. */
const char *train_go_on(char *text, size_t size, const train_run *run);
/* All updates, to the end or a signal, and what belongs behind them. */
int train_loop(train_run *run);

#endif
