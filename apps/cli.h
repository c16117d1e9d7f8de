/* What the commands share. Results go to standard output, everything else to standard error, and a command
 * returns CLI_OK, CLI_FAILED after one sentence, or CLI_USAGE when it was asked wrongly.
 *
 * A command is a table of options, a parse, and its work:
 *
 *     const cli_option options[] = {{'m', "model", CLI_TEXT, &dir, "DIR", "the directory", NULL}};
 *     const cli_syntax syntax = {"info", "info DIR", ..., options, CLI_COUNT(options), 1};
 *     int code = cli_parse(&syntax, argc, argv);
 *     if (code != CLI_GO)
 *         return code; */
#ifndef TFM_CLI_H
#define TFM_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <tfm/tfm.h>

enum { CLI_GO = -1, CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

#define CLI_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Commands ------------------------------------------------------------------------------------------ */

int cmd_devices(int argc, char **argv);
int cmd_selftest(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_translate(int argc, char **argv);
int cmd_score(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_attend(int argc, char **argv);
int cmd_bench(int argc, char **argv);

/* ---- Options (cli.c) ----------------------------------------------------------------------------------- */

typedef enum cli_kind {
    CLI_FLAG,   /* bool */
    CLI_TEXT,   /* const char * */
    CLI_INT,    /* int, at least 1 */
    CLI_WHOLE,  /* int, at least 0 */
    CLI_REAL,   /* double, finite */
    CLI_CHOICE, /* int: which of the words of `argument`, "paper|hf" */
} cli_kind;

typedef struct cli_option {
    char letter; /* 0: the long form alone */
    const char *name;
    cli_kind kind;
    void *value;
    const char *argument; /* what the help calls the value; NULL for a flag */
    const char *help;
    bool *given; /* set when the option is there; may be NULL */
} cli_option;

#define CLI_DEVICE(value)                                                                                    \
    {                                                                                                        \
        'd', "device", CLI_TEXT, (value), "DEVICE",                                                          \
            "gpu, cpu, accel, an index of `tfm devices`, platform:device, or part of a name", NULL           \
    }

/* How to search, of a tfm_search_options `search`, its penalty as an int `penalty` until it is parsed, and an int
 * `precision` for cli_check_precision. */
#define CLI_SEARCH(search, penalty, precision)                                                               \
    {'k',  "beam", CLI_INT, &(search).beam, "K", "beam width; 1 is greedy (default: the model's, else 4)",    \
     NULL},                                                                                                  \
        {'a', "alpha", CLI_REAL, &(search).alpha, "A", "exponent of the length penalty (default 0.6)",       \
         &(search).has_alpha},                                                                               \
        {0, "length-penalty", CLI_CHOICE, &(penalty), "paper|hf",                                            \
         "divide by ((5 + n) / 6)^A, or by n^A as Hugging Face does, where the model's own A is the default", \
         NULL},                                                                                              \
        {0, "max-length", CLI_INT, &(search).max_length, "N",                                                \
         "most tokens of a translation (default: those of its source + 50)", NULL},                          \
        {0, "batch-tokens", CLI_INT, &(search).batch_tokens, "N",                                            \
         "source tokens in a batch, with padding (default 4096)", NULL},                                     \
        {0, "truncate", CLI_FLAG, &(search).truncate, NULL,                                                  \
         "cut lines that are longer than the model's positions", NULL},                                      \
    {                                                                                                        \
        0, "precision", CLI_CHOICE, &(precision), "fp32|fp16|bf16",                                          \
            "of products and sums (default, and all there is: fp32)", NULL                                   \
    }

typedef struct cli_syntax {
    const char *name;     /* "translate" */
    const char *usage;    /* "translate -m MODEL [option...] < lines" */
    const char *about;    /* paragraphs, each line ends in a newline */
    const char *examples; /* likewise */
    const cli_option *options;
    size_t option_count;
    int operands; /* how many must follow the options */
    bool more;    /* and any number may */
} cli_syntax;

/* Fills the options' values. CLI_GO, with the operands from argv[optind] on; or what the command is to
 * return, after
 * --help or a mistake. */
int cli_parse(const cli_syntax *syntax, int argc, char **argv);

/* "tfm: <sentence>" to standard error; returns CLI_FAILED. */
int cli_fail(const char *format, ...) TFM_PRINTF(1, 2);
/* The same with the library's last sentence. */
int cli_fail_library(void);
/* The same with a pointer to the command's --help; returns CLI_USAGE. */
int cli_misuse(const cli_syntax *syntax, const char *format, ...) TFM_PRINTF(2, 3);

/* One changing line on standard error while work is long, as much of it as the terminal is wide; nothing where
 * that is no terminal. NULL clears it. */
void cli_progress(const char *format, ...) TFM_PRINTF(1, 2);

/* CLI_GO, or CLI_FAILED after its sentence where the precision that was asked for is not there. */
int cli_check_precision(int precision);

/* A clock that only goes forward. */
double cli_seconds(void);

/* ---- Lines in (lines.c) -------------------------------------------------------------------------------- */

/* A reader of lines, and the lines it has read last. "\r\n" ends a line as "\n" does, the last one needs no
 * end, a byte order mark at the very start is dropped. */
typedef struct cli_lines {
    const char **text; /* [count], each with a NUL behind it; valid until the next read */
    size_t *bytes;     /* [count]; a line may hold NUL */
    size_t count;
    size_t first;     /* lines before these */
    const char *name; /* for sentences */
    int fd;
    char *buffer;
    size_t used, taken, capacity, room;
    bool ended;
} cli_lines;

/* NULL and "-" are standard input. CLI_OK, or CLI_FAILED after its sentence; either way it may be closed. */
int cli_lines_open(cli_lines *lines, const char *path);
/* The next lines: until `bytes` of them are there or reading would block, but at least one. count is 0 at the
 * end. */
int cli_lines_next(cli_lines *lines, size_t bytes);
void cli_lines_close(cli_lines *lines);

/* All lines of a file at once. */
int cli_lines_all(cli_lines *lines, const char *path);

/* ---- How well a model does (measure.c) ----------------------------------------------------------------- */

/* Pairs at hand, and sums over all pairs so far. */
typedef struct cli_measure {
    tfm_metrics *metrics;              /* the caller's */
    const char *const *references;     /* of the pairs at hand */
    const size_t *reference_bytes;
    size_t first;                      /* pairs before these, for sentences */
    const char *source_name, *reference_name;
    double log_prob; /* of the references */
    uint64_t tokens;
} cli_measure;

/* Translates the sources and scores the references, `count` of each. What the library came to; where that is
 * TFM_ERROR_CANCELLED the sentence has been said. */
tfm_status cli_measure_pairs(cli_measure *m, tfm_model *model, const char *const *sources, size_t count,
                      const tfm_search_options *search);
/* NaN where no pair could be scored. */
double cli_measure_perplexity(const cli_measure *m);
/* Its logarithm, which is finite where that may not be. */
double cli_measure_nll(const cli_measure *m);

/* ---- Results out (output.c) ---------------------------------------------------------------------------- */

/* Standard output, or a file that appears under its name when it is complete. */
typedef struct cli_output {
    FILE *file;
    const char *name; /* for sentences */
    char *path;       /* NULL: written in place */
    char *temporary;
    int error; /* errno of the first write that failed */
} cli_output;

/* NULL and "-" are standard output. */
int cli_output_open(cli_output *out, const char *path);
/* Writes a text as one line whatever a model says, without an end: a vocabulary may hold line ends. */
void cli_put_line(FILE *file, const char *text);
/* Whether all writes went well: asked right after one, it remembers why not. */
bool cli_output_good(cli_output *out);
/* Hands on what is written so far; CLI_FAILED after its sentence where that does not work. */
int cli_output_flush(cli_output *out);
/* Closes; the file gets its name if `keep`, else there is none. */
int cli_output_close(cli_output *out, bool keep);

#endif
