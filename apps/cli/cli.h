/* Code shared by the commands. Results go to standard output, everything else to standard error. A command
 * returns CLI_OK, CLI_FAILED after one message, or CLI_USAGE after a wrong command line.
 *
 * A command has a table of options, parses them, and does its work:
 *
 *     const cli_option options[] = {{'m', "model", CLI_STRING, &dir, "DIR", "the directory", NULL}};
 *     const cli_syntax syntax = {"info", "info DIR", ..., options, CLI_COUNT(options), 1};
 *     int code = cli_parse(&syntax, argc, argv);
 *     if (code != CLI_CONTINUE)
 *         return code; */
#ifndef TFM_CLI_H
#define TFM_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <tfm/data.h>
#include <tfm/fleet.h>
#include <tfm/kernels.h>
#include <tfm/metrics.h>
#include <tfm/selftest.h>

enum { CLI_CONTINUE = -1, CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

#define CLI_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Commands ------------------------------------------------------------------------------------------ */

int cmd_devices(int argc, char **argv);
int cmd_selftest(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_translate(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_chat(int argc, char **argv);
int cmd_score(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_embed(int argc, char **argv);
int cmd_rerank(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_attention(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_tune(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_pull(int argc, char **argv);
int cmd_models(int argc, char **argv);
int cmd_rm(int argc, char **argv);

/* An entry of the table of commands, which ends at an entry without a name (tfm.c). */
typedef struct cli_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about;
    int (*run_of)(const struct cli_command *commands, int argc, char **argv); /* instead of run: receives the table */
} cli_command;

int cmd_kernels(const cli_command *commands, int argc, char **argv);
int cmd_completion(const cli_command *commands, int argc, char **argv);
/* The command of this name, or of the hidden alias "attend"; NULL if there is none. */
const cli_command *cli_command_named(const cli_command *commands, const char *name);
/* Runs a command of the table. */
int cli_run(const cli_command *commands, const cli_command *command, int argc, char **argv);

/* ---- Options (cli.c) ----------------------------------------------------------------------------------- */

typedef enum cli_kind {
    CLI_FLAG,        /* bool */
    CLI_STRING,      /* const char * */
    CLI_POSITIVE,    /* int, at least 1 */
    CLI_NONNEGATIVE, /* int, at least 0 */
    CLI_DOUBLE,      /* double, finite */
    CLI_CHOICE,      /* int: index of a word of `argument`, "paper|hf" */
    CLI_LIST,        /* cli_strings: all values */
    CLI_ADAPTER,     /* cli_adapters (cli/adapters.h) */
    CLI_ADAPTER_SCALE,
} cli_kind;

/* Values of a repeatable option. The caller of cli_parse frees `items`, also after an error. */
typedef struct cli_strings {
    const char **items;
    size_t count, room;
} cli_strings;

typedef struct cli_option {
    char letter; /* 0: long form only */
    const char *name;
    cli_kind kind;
    void *value;
    const char *argument; /* the value's name in the help; NULL for a flag */
    const char *help;
    bool *given; /* set if the option is given; may be NULL */
} cli_option;

typedef struct cli_syntax {
    const char *name;     /* "translate" */
    const char *usage;    /* "translate -m MODEL [option...] < lines" */
    const char *about;    /* paragraphs, each line ends in a newline */
    const char *examples; /* likewise */
    const cli_option *options;
    size_t option_count;
    const char *operand; /* name of the required operand, or its choices, "bash|zsh"; NULL: none */
    bool more;           /* whether further operands may follow */
} cli_syntax;

/* Fills the options' values. Returns CLI_CONTINUE, and the operands begin at argv[optind]; or the command's return
 * code, after --help or an error. */
int cli_parse(const cli_syntax *syntax, int argc, char **argv);

/* Passes the syntax of every command to `see`; the commands return from cli_parse meanwhile. */
void cli_describe(const cli_command *commands, void (*see)(const cli_syntax *syntax));

/* ---- Other names of options (renamed_options.c) -------------------------------------------------------- */

/* A hidden alias of an option: a letter (0: none) or a name (NULL: none). */
typedef struct cli_alias {
    char letter;
    const char *name, *option;
} cli_alias;
enum { CLI_ALIASES = 3 };
extern const cli_alias cli_aliases[CLI_ALIASES];

/* Refuses "--name" or "--name=value" if the name is an option's former name, or its name in another program: a usage
 * error that gives the current name. CLI_CONTINUE for any other name. */
int cli_check_renamed(const cli_syntax *syntax, const char *given);
/* Reports an unknown option "-x". */
int cli_unknown_letter(const cli_syntax *syntax, int letter);
/* An option's name in an earlier version; NULL: the same. */
const char *cli_former_name(const char *name);
/* A hint to append to the message about an invalid number; "": none. */
const char *cli_number_hint(const char *option, const char *text);

/* The closest name to a mistyped word, of all names passed to cli_suggest (suggest.c). */
typedef struct cli_suggestion {
    const char *word;
    const char *name; /* NULL: none is close */
    size_t distance;
} cli_suggestion;
void cli_suggest(cli_suggestion *near, const char *name);

/* ---- Messages (messages.c) ----------------------------------------------------------------------------- */

/* Writes "tfm: <sentence>" to standard error, and returns CLI_FAILED. */
int cli_fail(const char *format, ...) TFM_PRINTF(1, 2);
/* The same with the library's last error message. */
int cli_fail_library(void);
/* The same with a reference to the command's --help; returns CLI_USAGE. */
int cli_usage_error(const cli_syntax *syntax, const char *format, ...) TFM_PRINTF(2, 3);
/* From now on these three store the message instead of printing it; with `silent`, nothing else goes to standard error
 * either. */
void cli_defer_errors(bool silent);
bool cli_silent(void);
/* The first stored message, or "". */
const char *cli_deferred_error(void);
/* Prints the stored message after a prefix: "rank 1: ", or "". */
void cli_print_deferred_error(const char *whose);

/* Prints words from this column of `file` on, and ends the line. A terminal wraps them with this indent; elsewhere it
 * is one line. */
void cli_print_wrapped(FILE *file, int column, int indent, const char *text);
/* Prints the device, and the kernels' variant unless NULL, to standard error. */
void cli_print_device(const tfm_context *ctx, const char *variant);
/* The same with a fixed number of columns. */
void cli_print_wrapped_to(FILE *file, int columns, int column, int indent, const char *text);

/* Shows one changing line on standard error during long work, truncated to the terminal's width. Shows nothing if
 * standard error is not a terminal. NULL clears the line. */
void cli_progress(const char *format, ...) TFM_PRINTF(1, 2);

/* A field of the progress line. Fields of rank 0 are always shown; of the others, the highest rank is dropped first. */
typedef struct cli_field {
    const char *text; /* "": unknown yet */
    int rank;
} cli_field;

/* Shows a progress line of fields separated by two blanks, or by one if that makes them fit. Fields are dropped until
 * the rest fits in the terminal. */
void cli_progress_fields(const cli_field *fields, size_t count);

/* Callback of a context before each program build: shows a progress line; if standard error is not a terminal, one
 * message after some seconds of building. */
void cli_on_build(void *user, int count, double seconds);

/* Opens the devices of --device or TFM_DEVICE, each with this number of workers. */
tfm_status cli_open_fleet(tfm_fleet **out, const char *devices, int workers);
/* Refuses the model of `dir` if it is not an encoder-decoder (`translates`) or not decoder-only (else); `otherwise` is
 * what takes the other kind. The library would refuse it too, but not before the first line of input. */
int cli_check_model(const tfm_model_info *info, const char *dir, bool translates, const char *otherwise);
/* Seconds spent on building kernels: the maximum over devices, since they build in parallel. */
double cli_build_seconds(const tfm_fleet *fleet);

/* Returns CLI_CONTINUE; or CLI_USAGE after a message, if the library would refuse this beam or length penalty. Called
 * before input is read. */
int cli_check_search(const cli_syntax *syntax, int beam, double length_penalty);
/* Text to keep untranslated. */
typedef struct cli_keep_options {
    cli_strings patterns;
    const char *file; /* of more patterns, or NULL */
    bool none;
} cli_keep_options;

/* Compiles the patterns (keep.c); NULL with `none`. Returns CLI_OK, or the return code after a message. */
int cli_keep(tfm_placeholders **out, const cli_keep_options *keep, const cli_syntax *syntax);
/* cli_check_search for --workers. */
int cli_check_workers(const cli_syntax *syntax, int workers);

/* Values of CLI_SAMPLING; 0: the model's own. */
typedef struct cli_sampling {
    bool sample, has_temperature, has_top_p, has_penalty;
    double temperature, top_p, min_p, repetition_penalty;
    int top_k, seed;
} cli_sampling;

/* Whether an option asks for sampling. */
bool cli_samples(const cli_sampling *s);
/* Returns CLI_CONTINUE; or CLI_USAGE after a message, if the library would refuse a value or misread it. */
int cli_check_sampling(const cli_syntax *syntax, const cli_sampling *s);
void cli_set_sampling(tfm_generate_options *options, const cli_sampling *s);

/* The precision of a choice of CLI_PRECISION or CLI_KV_PRECISION. */
tfm_precision cli_precision(int chosen);
/* Choices of such options, 0 without the option; and the options with which they open a model. */
typedef struct cli_precisions {
    int weights, activations, kv;
} cli_precisions;
void cli_set_precision(tfm_model_options *options, cli_precisions chosen);

/* Returns the seconds of a monotonic clock. */
double cli_seconds(void);

/* Grows an array of capacity *room to `count` elements of `size` bytes, by doubling. `array` is the address of the
 * pointer. Returns false when out of memory, without changes. */
bool cli_grow(void *array, size_t *room, size_t count, size_t size);

/* Parses JSON: a byte order mark is skipped, integers beyond 64 bits become reals, and each `\u0000` of a string
 * becomes U+FFFD. The caller releases the value with json_decref. The last duplicate key wins. NULL, with the reason in
 * `why`, for invalid JSON, trailing text, invalid UTF-8 or too deep nesting (json_text.c). */
enum { CLI_REASON = 256 };
struct json_t;
struct json_t *cli_json_parse(const char *text, size_t bytes, char why[CLI_REASON]);
/* The same for a file. */
struct json_t *cli_json_load(const char *path, char why[CLI_REASON]);

/* ---- Models of the Hugging Face hub (hub.c) ------------------------------------------------------------- */

/* Replaces the name of a model by its local path, which stays valid. Returns CLI_CONTINUE, or CLI_FAILED after a
 * message with the command that downloads it. */
int cli_find_model(const char **model);
/* Downloads a model, with a progress bar on a terminal and else lines on standard error; SIGINT stops it. The path
 * stays valid. `revision` may be NULL, `workers` 0. Returns CLI_CONTINUE, or CLI_FAILED after a message. */
int cli_pull(const char **path, const char *name, const char *revision, int workers);
/* "270.1 MB"; returns `text`. */
const char *cli_bytes_text(char *text, size_t room, uint64_t bytes);

/* ---- Segments of texts (segment.c) --------------------------------------------------------------------- */

/* A separately translated part of a text. */
typedef struct cli_segment {
    const char *text;
    size_t bytes;
    size_t of;       /* index of the caller's text */
    const char *gap; /* text before it, copied unchanged */
    size_t gap_bytes;
} cli_segment;

typedef struct cli_segments {
    cli_segment *items; /* the caller frees them */
    size_t count, room;
} cli_segments;

/* Adds the lines of text `of`, or with `sentences` their sentences. False without memory. */
bool cli_segments_split(cli_segments *p, const char *text, size_t of, bool sentences, const char *language);
/* Sets the translation of segment `i`. */
typedef const char *(*cli_result_fn)(const void *user, size_t i);
/* Text `of`, joined from the translations of its segments. The caller frees it; NULL without memory. */
char *cli_segments_join(const cli_segment *segments, size_t count, size_t of, cli_result_fn result, const void *user);

/* ---- Reading lines (lines.c) --------------------------------------------------------------------------- */

/* A line reader, and the lines of the last read. Lines end in "\n" or "\r\n", optional at the end of the file; a byte
 * order mark at the start is dropped. */
typedef struct cli_lines {
    const char **text; /* [count], NUL-terminated, valid until the next read */
    size_t *bytes;     /* [count]; a line may hold NUL */
    size_t count;
    size_t first;              /* index of the first line */
    const char *name, *option; /* for messages */
    int fd;
    char *buffer;
    size_t used;  /* bytes in the buffer */
    size_t taken; /* bytes of the lines, with their ends */
    size_t capacity, room;
    bool ended;
} cli_lines;

/* Opens a file; NULL and "-" are standard input. `option` names the file in messages, as in "--src"; NULL: the path
 * alone does. Returns CLI_OK, or CLI_FAILED after a message. Close in both cases. */
int cli_lines_open(cli_lines *lines, const char *option, const char *path);
/* Reads the next lines: at least one, then more up to `bytes` bytes or until reading would block. count is 0 at the
 * end.
 */
int cli_lines_next(cli_lines *lines, size_t bytes);
void cli_lines_close(cli_lines *lines);

/* Reads a file into the buffer without splitting lines. */
int cli_lines_read_file(cli_lines *lines, const char *option, const char *path);
/* Reads all lines of a file at once. */
int cli_lines_read_all(cli_lines *lines, const char *option, const char *path);

/* ---- Whether a text is written with spaces (word_spacing.c) -------------------------------------------- */

/* Sums over lines; all zero at first. */
typedef struct cli_word_spacing {
    uint64_t characters, unspaced; /* the latter are of scripts that have no spaces */
} cli_word_spacing;

void cli_word_spacing_add(cli_word_spacing *s, const char *text, size_t bytes);
/* Whether most characters are of scripts without spaces, such as Chinese, Japanese or Thai. */
bool cli_word_spacing_none(const cli_word_spacing *s);

/* ---- Evaluation of a model (evaluate.c) ---------------------------------------------------------------- */

/* The current pairs, and the sums over all pairs so far. */
typedef struct cli_evaluation {
    tfm_metrics *metrics;          /* the caller's */
    const char *const *references; /* of the current pairs */
    const size_t *reference_bytes;
    size_t first; /* pairs before these, for messages */
    const char *source_name, *reference_name;
    double log_prob; /* of the references */
    uint64_t tokens;
} cli_evaluation;

/* Translates the sources and scores the references, `count` of each. Returns the library's status. After
 * TFM_ERROR_CANCELLED the reason has already been printed. */
tfm_status cli_evaluate_pairs(cli_evaluation *m, tfm_model *model, const char *const *sources, size_t count,
                              const tfm_text_options *text, const tfm_search_options *search);
/* Scores `count` texts by a decoder-only model. */
tfm_status cli_evaluate_texts(cli_evaluation *m, tfm_model *model, const char *const *texts, size_t count,
                              const tfm_text_options *options);
/* Returns the perplexity of the references, or of the texts; NaN if none could be scored. */
double cli_evaluation_perplexity(const cli_evaluation *m);
/* Returns the log perplexity, finite even if the perplexity overflows. */
double cli_evaluation_nll(const cli_evaluation *m);

/* ---- Writing results (output.c) ------------------------------------------------------------------------ */

/* Standard output, or a file that appears under its name once it is complete. */
typedef struct cli_output {
    FILE *file;
    const char *name; /* for messages */
    char *path;       /* NULL: written in place */
    char *temporary, *partial;
    int error; /* of the first write that failed */
} cli_output;

/* From here on a fatal signal leaves no unfinished file, and no tuning trial that counts as a driver crash. Opening a
 * file output does this too. Called by the writing thread. */
void cli_catch_signals(void);

/* Opens the output; NULL and "-" are standard output. */
int cli_output_open(cli_output *out, const char *path);
/* Writes a text as one line without an end: line ends from the vocabulary become blanks. */
void cli_write_line(FILE *file, const char *text);
/* Returns whether all writes succeeded. Called right after a failed write, it stores the reason. */
bool cli_output_ok(cli_output *out);
/* Flushes the output. Returns CLI_FAILED after a message if that fails. */
int cli_output_flush(cli_output *out);
/* Flushes the results of the first `lines` lines. If the program ends before the output is complete, even by a signal,
 * these results stay in NAME.partial, with a message. Closing a complete output removes an earlier NAME.partial. */
int cli_output_checkpoint(cli_output *out, size_t lines);
/* Returns whether a write to standard output failed because its reader closed the pipe, which is not reported. */
bool cli_stdout_closed(void);
/* Closes the output. With `keep` the file gets its name; without, only the flushed lines stay. */
int cli_output_close(cli_output *out, bool keep);

/* ---- Writing JSON (json_output.c) ---------------------------------------------------------------------- */

/* Writes the value as one line, reals with this number of digits, and releases it. Returns cli_output_ok; a NULL value
 * (out of memory) is a failed write. */
bool cli_write_json(cli_output *out, struct json_t *value, int digits);
/* Prints the value, indented, as the command's only result, and releases it. */
void cli_print_json(struct json_t *value);
/* Writes the line of --stats to standard error: "stats {...}". Releases the object. */
void cli_print_stats(struct json_t *object);
/* A number, or null for NaN and infinity. */
struct json_t *cli_number_json(double value);
/* The same, rounded to this number of decimals. */
struct json_t *cli_rounded_json(double value, int decimals);
struct json_t *cli_tokens_json(const tfm_token_list *axis);
/* {"index", "rank", "text", "score", "log_prob", "tokens": [{"id", "piece", "log_prob"}]}; without text and pieces if
 * `text` is NULL (no tokenizer). */
struct json_t *cli_hypothesis_json(size_t index, int rank, const char *text, double score, double log_prob,
                                   const tfm_token_list *tokens, const float *log_probs);
/* A row for each target token: its attention weights over source tokens. Empty without alignment. */
struct json_t *cli_alignment_weights_json(const tfm_translation *t);
/* {"source": tokens, "target": tokens, "weights": rows} */
struct json_t *cli_alignment_json(const tfm_translation *t);

#include "cli/cli_options.h"

#endif
