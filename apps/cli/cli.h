/* What the commands share. Results go to standard output, everything else to standard error, and a command
 * returns CLI_OK, CLI_FAILED after one sentence, or CLI_USAGE when it was asked wrongly.
 *
 * A command is a table of options, a parse, and its work:
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
int cmd_score(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_embed(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_attention(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_tune(int argc, char **argv);
int cmd_report(int argc, char **argv);

/* Of a table of all commands, which an entry without a name ends (tfm.c). */
typedef struct cli_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about;
    int (*run_of)(const struct cli_command *commands, int argc, char **argv); /* instead of run: receives the table */
} cli_command;

int cmd_kernels(const cli_command *commands, int argc, char **argv);
int cmd_completion(const cli_command *commands, int argc, char **argv);
/* The command of this name, or of the alias "attend", which help does not show; NULL if there is none. */
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
    CLI_CHOICE,      /* int: which of the words of `argument`, "paper|hf" */
    CLI_LIST,        /* cli_strings: all that are given */
} cli_kind;

/* Texts of an option that may be given several times. Whoever parsed frees `items`, also after a mistake. */
typedef struct cli_strings {
    const char **items;
    size_t count, room;
} cli_strings;

typedef struct cli_option {
    char letter; /* 0: the long form alone */
    const char *name;
    cli_kind kind;
    void *value;
    const char *argument; /* what the help calls the value; NULL for a flag */
    const char *help;
    bool *given; /* set when the option is there; may be NULL */
} cli_option;

typedef struct cli_syntax {
    const char *name;     /* "translate" */
    const char *usage;    /* "translate -m MODEL [option...] < lines" */
    const char *about;    /* paragraphs, each line ends in a newline */
    const char *examples; /* likewise */
    const cli_option *options;
    size_t option_count;
    int operands; /* how many operands must follow the options */
    bool more;    /* whether any number of further operands may follow */
} cli_syntax;

/* Fills the options' values. Returns CLI_CONTINUE, and the operands begin at argv[optind]; or, after --help or a
 * mistake, what the command is to return. */
int cli_parse(const cli_syntax *syntax, int argc, char **argv);

/* Shows the syntax of every command to `see`: a command that is run in the meantime comes no further than cli_parse. */
void cli_describe(const cli_command *commands, void (*see)(const cli_syntax *syntax));

/* ---- Other names of options (renamed_options.c) -------------------------------------------------------- */

/* A letter (0: none) or a name (NULL: none) that is parsed as the option, and that help does not show. */
typedef struct cli_alias {
    char letter;
    const char *name, *option;
} cli_alias;
enum { CLI_ALIASES = 3 };
extern const cli_alias cli_aliases[CLI_ALIASES];

/* Refuses "--name" or "--name=value" where the name is an option's former name, or that of another program: a usage
 * error that says what it is called here. CLI_CONTINUE for any other name, of an option or not. */
int cli_check_renamed(const cli_syntax *syntax, const char *given);
/* What an earlier version called an option; NULL: the same. */
const char *cli_former_name(const char *name);
/* What to add to the sentence about a text that is no number; "": nothing. */
const char *cli_number_hint(const char *option, const char *text);

/* The name that is most like a word, of all that are given to cli_suggest (suggest.c). */
typedef struct cli_suggestion {
    const char *word;
    const char *name; /* NULL: none is like it */
    size_t distance;
} cli_suggestion;
void cli_suggest(cli_suggestion *near, const char *name);

/* ---- Messages (messages.c) ----------------------------------------------------------------------------- */

/* Writes "tfm: <sentence>" to standard error, and returns CLI_FAILED. */
int cli_fail(const char *format, ...) TFM_PRINTF(1, 2);
/* Does the same with the last sentence of the library. */
int cli_fail_library(void);
/* Does the same, refers to the command's --help, and returns CLI_USAGE. */
int cli_usage_error(const cli_syntax *syntax, const char *format, ...) TFM_PRINTF(2, 3);
/* From now on these three keep the sentence in place of writing it; with `silent`, standard error gets nothing else
 * either. */
void cli_defer_errors(bool silent);
bool cli_silent(void);
/* The first sentence that was kept, or "". */
const char *cli_deferred_error(void);
/* Writes it as it would have been written then, after whose it is: "rank 1: ", or "". */
void cli_print_deferred_error(const char *whose);

/* Writes a line's words from this column of `file` on, and ends the line. A terminal that is too narrow for all of them
 * has the others below, so many blanks in; elsewhere it is one line. */
void cli_print_wrapped(FILE *file, int column, int indent, const char *text);
/* A line on standard error that says what device this is, and what variant of the kernels unless that is NULL. */
void cli_print_device(const tfm_context *ctx, const char *variant);
/* Words as above, in so many columns wherever they go. */
void cli_print_wrapped_to(FILE *file, int columns, int column, int indent, const char *text);

/* Shows one changing line on standard error during long work, cut to the width of the terminal. Shows nothing where
 * standard error is not a terminal. NULL clears the line. */
void cli_progress(const char *format, ...) TFM_PRINTF(1, 2);

/* A field of such a line. Fields of rank 0 are always shown; of the others, the one with the highest rank is left out
 * first. */
typedef struct cli_field {
    const char *text; /* "": nothing to say yet */
    int rank;
} cli_field;

/* Shows a line made of fields, with two blanks between them, or one where that makes them fit. Whole fields are left
 * out until the rest fits in the terminal. */
void cli_progress_fields(const cli_field *fields, size_t count);

/* A context calls this before each program that it builds, to show a line of progress. Where standard error is not a
 * terminal, one sentence says so once building has taken some seconds. */
void cli_on_build(void *user, int count, double seconds);

/* Opens the devices that --device or TFM_DEVICE lists, each with so many workers. */
tfm_status cli_open_fleet(tfm_fleet **out, const char *devices, int workers);
/* The seconds that they have spent on building kernels: the most of one, since they build at the same time. */
double cli_build_seconds(const tfm_fleet *fleet);

/* Returns CLI_CONTINUE; or, where tfm_translate would refuse this beam, says so and returns CLI_USAGE. Called before
 * anything is read. */
int cli_check_beam(const cli_syntax *syntax, int beam);
/* The same of --workers. */
int cli_check_workers(const cli_syntax *syntax, int workers);

/* What the word of CLI_PRECISION that was chosen means. */
tfm_precision cli_precision(int chosen);

/* Returns the seconds of a clock that only goes forward. */
double cli_seconds(void);

/* Makes room for `count` elements of `size` bytes in an array that has room for *room, by doubling. `array` is the
 * address of the pointer. Returns false when out of memory, and then changes nothing. */
bool cli_grow(void *array, size_t *room, size_t count, size_t size);

/* Parses JSON: a byte order mark is skipped, integers beyond 64 bits become reals, and each `\u0000` of a string
 * becomes U+FFFD. The caller gives the value back with json_decref. Of duplicate keys the last one holds. NULL for what
 * is not JSON, has trailing text, is not UTF-8 or is nested too deep; `why` is the reason then (json_text.c). */
enum { CLI_REASON = 256 };
struct json_t;
struct json_t *cli_json_parse(const char *text, size_t bytes, char why[CLI_REASON]);
/* The same for a file. */
struct json_t *cli_json_load(const char *path, char why[CLI_REASON]);

/* ---- Texts in pieces (segment.c) ----------------------------------------------------------------------- */

/* A text that is translated by itself. */
typedef struct cli_segment {
    const char *text;
    size_t bytes;
    size_t of;       /* which of the caller's texts it belongs to */
    const char *gap; /* what stands before it there, and stays */
    size_t gap_bytes;
} cli_segment;

typedef struct cli_segments {
    cli_segment *items; /* the caller frees them */
    size_t count, room;
} cli_segments;

/* Adds the lines of text `of`, or with `sentences` the sentences of each. False without memory. */
bool cli_segments_split(cli_segments *p, const char *text, size_t of, bool sentences, const char *language);
/* What became of piece `i`. */
typedef const char *(*cli_result_fn)(const void *user, size_t i);
/* Text `of`, put together from what its pieces became. The caller frees it; NULL without memory. */
char *cli_segments_join(const cli_segment *pieces, size_t count, size_t of, cli_result_fn result, const void *user);

/* ---- Lines in (lines.c) -------------------------------------------------------------------------------- */

/* A reader of lines, and the lines it has read last. "\r\n" ends a line as "\n" does, the last one needs no
 * end, a byte order mark at the very start is dropped. */
typedef struct cli_lines {
    const char **text; /* [count], each ends in a NUL; valid until the next read */
    size_t *bytes;     /* [count]; a line may hold NUL */
    size_t count;
    size_t first;     /* how many lines came before these */
    const char *name; /* for sentences */
    int fd;
    char *buffer;
    size_t used;  /* bytes in the buffer */
    size_t taken; /* bytes of it that these lines take, with their ends */
    size_t capacity, room;
    bool ended;
} cli_lines;

/* Opens a file; NULL and "-" are standard input. Returns CLI_OK; or CLI_FAILED, after saying why. It may be closed in
 * both cases. */
int cli_lines_open(cli_lines *lines, const char *path);
/* Reads the next lines: at least one, then more until there are `bytes` bytes or reading would block. count is 0 at the
 * end. */
int cli_lines_next(cli_lines *lines, size_t bytes);
void cli_lines_close(cli_lines *lines);

/* Reads a file into the buffer, and finds no lines in it. */
int cli_lines_read_file(cli_lines *lines, const char *path);
/* Reads all lines of a file at once. */
int cli_lines_read_all(cli_lines *lines, const char *path);

/* ---- Whether a text is written with spaces (word_spacing.c) -------------------------------------------- */

/* Sums over lines; all zero at first. */
typedef struct cli_word_spacing {
    uint64_t characters, unspaced; /* the latter are of scripts that have no spaces */
} cli_word_spacing;

void cli_word_spacing_add(cli_word_spacing *s, const char *text, size_t bytes);
/* Whether most characters are of scripts that, like Chinese, Japanese or Thai, are written without spaces. */
bool cli_word_spacing_none(const cli_word_spacing *s);

/* ---- How well a model does (evaluate.c) ---------------------------------------------------------------- */

/* The pairs that are measured now, and the sums over all pairs so far. */
typedef struct cli_evaluation {
    tfm_metrics *metrics;          /* the caller's */
    const char *const *references; /* of the pairs that are measured now */
    const size_t *reference_bytes;
    size_t first; /* pairs before these, for sentences */
    const char *source_name, *reference_name;
    double log_prob; /* of the references */
    uint64_t tokens;
} cli_evaluation;

/* Translates the sources and scores the references, `count` of each. Returns the library's status. After
 * TFM_ERROR_CANCELLED the reason has already been printed. */
tfm_status cli_evaluate_pairs(cli_evaluation *m, tfm_model *model, const char *const *sources, size_t count,
                              const tfm_text_options *text, const tfm_search_options *search);
/* Scores `count` texts by a language model. */
tfm_status cli_evaluate_texts(cli_evaluation *m, tfm_model *model, const char *const *texts, size_t count,
                              const tfm_text_options *options);
/* Returns the perplexity of the references, or of the texts; NaN where none could be scored. */
double cli_evaluation_perplexity(const cli_evaluation *m);
/* Returns the logarithm of the perplexity, which stays finite where the perplexity overflows. */
double cli_evaluation_nll(const cli_evaluation *m);

/* ---- Results out (output.c) ---------------------------------------------------------------------------- */

/* Standard output, or a file that appears under its name when it is complete. */
typedef struct cli_output {
    FILE *file;
    const char *name; /* for sentences */
    char *path;       /* NULL: written in place */
    char *temporary, *partial;
    int error; /* of the first write that failed */
} cli_output;

/* From here on a signal that ends the program leaves no unfinished file behind, and no trial of the library's that
 * would count as one that the driver has ended. An output that is a file does so itself. Called by the thread that
 * writes. */
void cli_catch_signals(void);

/* Opens the output; NULL and "-" are standard output. */
int cli_output_open(cli_output *out, const char *path);
/* Writes a text as one line whatever a model says, without an end: a vocabulary may hold line ends. */
void cli_write_line(FILE *file, const char *text);
/* Returns whether all writes went well. When called right after a write that failed, it also keeps the reason. */
bool cli_output_ok(cli_output *out);
/* Flushes what is written so far. Returns CLI_FAILED, after saying why, where that does not work. */
int cli_output_flush(cli_output *out);
/* Flushes what is written, which is the results of the first `lines` lines. Whatever ends the program after this call,
 * even a signal, these results stay in a file whose name has .partial after it, and a sentence says so; unless the
 * output is closed whole, which removes such a file of an earlier run. */
int cli_output_checkpoint(cli_output *out, size_t lines);
/* Returns whether a write to standard output failed because its reader has gone. That is no error message. */
bool cli_stdout_closed(void);
/* Closes the output. With `keep` the file gets its name; without, only what was finished stays. */
int cli_output_close(cli_output *out, bool keep);

/* ---- JSON out (json_output.c) -------------------------------------------------------------------------- */

/* Writes the value as one line, its real numbers with so many digits, and releases it. Returns what cli_output_ok
 * does; NULL, as when memory runs out, is a failed write. */
bool cli_write_json(cli_output *out, struct json_t *value, int digits);
/* Prints the value, indented, as the only result of a command, and releases it. */
void cli_print_json(struct json_t *value);
/* Writes the line of --stats to standard error: "stats {...}". Releases the object. */
void cli_print_stats(struct json_t *object);
/* A number, or null where it is none that JSON has. */
struct json_t *cli_number_json(double value);
/* The same of a number with so many decimals. */
struct json_t *cli_rounded_json(double value, int decimals);
struct json_t *cli_tokens_json(const tfm_token_list *axis);
/* {"index", "rank", "text", "score", "log_prob", "tokens": [{"id", "piece", "log_prob"}]}; without text and pieces
 * where `text` is NULL, since no tokenizer is open. */
struct json_t *cli_hypothesis_json(size_t index, int rank, const char *text, double score, double log_prob,
                                   const tfm_token_list *tokens, const float *log_probs);
/* A row for each token of the translation: how much it looked at each one of the source. Empty without alignment. */
struct json_t *cli_alignment_weights_json(const tfm_translation *t);
/* {"source": tokens, "target": tokens, "weights": rows} */
struct json_t *cli_alignment_json(const tfm_translation *t);

#include "cli/cli_options.h"

#endif
