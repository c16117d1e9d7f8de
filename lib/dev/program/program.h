/* Programs: their text (program_source.c), binary and options (program_binary.c), and the set of a context
 * (program.c). */
#ifndef TFM_LIB_DEV_PROGRAM_H
#define TFM_LIB_DEV_PROGRAM_H

#include "dev/device/context_internal.h"

typedef struct tfm__program_info {
    const char *name;    /* "softmax-0123456789abcdef": the file, and a hash of text and options */
    const char *file;    /* "softmax" */
    const char *options; /* all of them */
    char *source;        /* with all includes; may be modified */
    cl_program cl;
} tfm__program_info;

/* Calls `see` for every program of the context; false if `see` returned that, or without memory. */
bool tfm__programs_visit(tfm_context *ctx, bool (*see)(void *user, const tfm__program_info *parts), void *user);

/* cl/<file>.cl with the prelude before it, freed with free(); NULL after a failure. #line directives make build logs
 * name the original file and line. */
char *tfm__program_source(tfm_context *ctx, const char *file);
/* The text that declares built-in functions. */
const char *tfm__program_builtins(void);
/* Maps a build log to these files and lines, for compilers that ignore #line. Freed with free(); NULL without
 * memory. */
char *tfm__build_log_map_lines(const char *log, const char *source);

/* Splits build options: each -D as a `#define` line, and the rest. Freed with free(); false without memory. */
bool tfm__options_split(char **defines, char **rest, const char *options);

/* The binary of a program of one device; freed with free(). NULL with the error message set. */
unsigned char *tfm__program_binary(size_t *bytes, cl_program program);

#endif
