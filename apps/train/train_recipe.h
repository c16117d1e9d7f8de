/* The options of a training run (train_recipe*.c), and hashes of its text (train_corpus.c). */
#ifndef TFM_TRAIN_RECIPE_H
#define TFM_TRAIN_RECIPE_H

#include <jansson.h>
#include "cli/cli.h"

/* ---- The recipe (train_recipe*.c) -------------------------------------------------- */

enum { TRAIN_OPTIONS = 77 };

/* All options of a run. Numbers without a value are negative, or NaN, until train_recipe_settle. */
typedef struct train_recipe {
    cli_strings sources, targets, tsvs; /* the files of pairs: as many targets as sources, or files of both */
    const char *valid_source, *valid_target, *valid_tsv;
    cli_strings texts; /* plain text of a decoder-only model; none: the run is on pairs */
    const char *valid_text;
    cli_strings chats; /* conversations, instead of texts */
    const char *valid_chat;
    const char *separator; /* of texts; or each line is a JSON object */
    bool jsonl;
    int hold_out;
    int64_t hold_every; /* one of so many pairs, or texts, is for validation; this is not in the file, but computed from
                           it */
    bool strict;
    int max_length, seq_len, buffer_size;

    const char *source_language, *target_language;
    const char *vocabulary;
    const char *init_from, *freeze;
    int vocabulary_size, vocabulary_lines;
    bool separate, unigram;
    double character_coverage, subword_alpha;
    int normalization;

    int preset, family;
    int width, heads, kv_heads, ffn_dim, encoder_layers, decoder_layers, max_positions;
    int activation, init;
    bool pre_norm;

    bool steps_of_epochs; /* --max-steps was not given and follows from --epochs; not an option */
    int max_steps, epochs, batch_tokens, gradient_accumulation_steps;
    int lr_scheduler_type, warmup_steps;
    double learning_rate, beta1, beta2, epsilon, weight_decay, max_grad_norm;
    double label_smoothing, dropout, attention_dropout, activation_dropout;
    int seed;

    int logging_steps, eval_steps, patience, average;
    int valid_beam_size, valid_tokenize, best_metric;
    bool valid_lowercase, keep_average;
    int save_dtype;

    const char *out, *resume, *device;            /* not in the file */
    bool shard_optimizer, gradient_checkpointing; /* nor are these, by which no bit changes, */
    int workers;                                  /* nor this */
    int comm_dtype, precision;
    const char *balance; /* NULL: equal shares */
    json_t *stored;      /* owner of strings above */
} train_recipe;

enum { BEST_BLEU, BEST_PPL };
enum { FAMILY_GPT, FAMILY_LLAMA };

/* Whether the run is on conversations. */
static inline bool train_is_chat(const train_recipe *recipe) {
    return recipe->chats.count > 0;
}
/* Whether the run trains a decoder-only model, on texts or conversations; and their files. */
static inline bool train_is_lm(const train_recipe *recipe) {
    return recipe->texts.count > 0 || train_is_chat(recipe);
}
static inline const cli_strings *train_text_files(const train_recipe *recipe) {
    return train_is_chat(recipe) ? &recipe->chats : &recipe->texts;
}
/* The validation file of such a run, or NULL. */
static inline const char *train_valid_texts(const train_recipe *recipe) {
    return train_is_chat(recipe) ? recipe->valid_chat : recipe->valid_text;
}
/* The source files, or files of both sides; *targets: the target files, or NULL. */
static inline const cli_strings *train_pair_files(const train_recipe *recipe, const char *const **targets) {
    *targets = recipe->tsvs.count > 0 ? NULL : recipe->targets.items;
    return recipe->tsvs.count > 0 ? &recipe->tsvs : &recipe->sources;
}
/* How texts are separated. */
static inline tfm_document_options train_document_options(const train_recipe *recipe) {
    return (tfm_document_options){.separator = recipe->separator, .json_lines = recipe->jsonl};
}
/* Whether texts may have several lines. */
static inline bool train_has_documents(const train_recipe *recipe) {
    return recipe->separator || recipe->jsonl;
}
/* The unit of training data for messages with a count, such as "pair" and "pairs". */
static inline const char *train_unit(const train_recipe *recipe, uint64_t count) {
    static const char *const UNITS[][2] = {{"pairs", "pair"}, {"texts", "text"}, {"conversations", "conversation"}};
    return UNITS[train_is_lm(recipe) + train_is_chat(recipe)][count == 1];
}

/* A recipe without any values. */
train_recipe train_recipe_unset(void);
void train_recipe_free(train_recipe *recipe);

/* Number of leading options in the table that are not written to the file. */
enum { TRAIN_UNSAVED = 6 };
/* Significant digits of numbers in the file. */
enum { TRAIN_DIGITS = 12 };

/* The options of the command line for this recipe; returns their number, at most TRAIN_OPTIONS. */
size_t train_recipe_options(train_recipe *recipe, cli_option *options);

/* Sets missing values, from the preset, then from other options. CLI_CONTINUE, or CLI_USAGE after a message for invalid
 * or conflicting numbers. */
int train_recipe_settle(train_recipe *recipe, const cli_syntax *syntax);

/* Sets --max-steps to the updates of --epochs, if it was not given and a buffer has all data. Reads the data up to its
 * first batch and seeks to the beginning. */
tfm_status train_steps_of_epochs(train_recipe *recipe, tfm_data *data);

/* Writes the recipe's file into `dir`. */
int train_recipe_write(const train_recipe *recipe, const char *dir);
/* Reads the recipe of the directory `recipe->resume`, and applies the changes of the command line; *changed: whether
 * there are any. CLI_CONTINUE, or the command's return code. */
int train_recipe_resume(train_recipe *recipe, bool *changed, const cli_syntax *syntax, int argc, char **argv);

/* "dir/name", for free(); NULL when memory is out. */
char *train_path(const char *dir, const char *name);

/* A hash of each option of the table, to compare ranks: all except --device and --gradient-checkpointing must be the
 * same. Of files, whose names may differ, only the number. */
void train_recipe_hash(const train_recipe *recipe, uint64_t hashes[TRAIN_OPTIONS]);
/* The option of this index in the table. */
const char *train_recipe_name(size_t option);

/* ---- Hashes of the text (train_corpus.c) --------------------------------------------------------------- */

/* Continues an FNV-1a hash, initially TRAIN_HASH, with these bytes. */
uint64_t train_hash(uint64_t hash, const void *bytes, size_t count);
#define TRAIN_HASH 14695981039346656037u

/* Size and hash of each training file of the recipe, for checkpoints: a run is resumed only on the same text. */
json_t *train_corpus_read(const train_recipe *recipe);
/* Whether a checkpoint's text is the current one. Older checkpoints have only sizes. */
bool train_corpus_same(const json_t *noted, const json_t *here);

#endif
