/* The parts of programs: their text (program_source.c), binary and options (program_binary.c), and those of a context
 * (program.c). */
#ifndef TFM_LIB_DEV_PROGRAM_H
#define TFM_LIB_DEV_PROGRAM_H

#include "dev/device/context_internal.h"

typedef struct tfm__program_info {
    const char *name;    /* "softmax-0123456789abcdef": the file, and a hash of text and options */
    const char *file;    /* "softmax" */
    const char *options; /* all of them */
    char *source;        /* whole, with everything that it includes; it may be changed */
    cl_program cl;
} tfm__program_info;

/* Shows every program that the context has asked for; false if `see` returned that, or without memory. */
bool tfm__programs_visit(tfm_context *ctx, bool (*see)(void *user, const tfm__program_info *parts), void *user);

/* The text of cl/<file>.cl with the prelude before it, freed with free(); NULL after a failure. #line makes build logs
 * name the file and line that a person would edit. */
char *tfm__program_source(tfm_context *ctx, const char *file);
/* A build log with those names and lines, freed with free(), for compilers that do not follow #line; NULL where memory
 * is short. */
char *tfm__build_log_map_lines(const char *log, const char *source);

/* Build options in two: each -D as a line `#define`, and the rest. Freed with free(); false without memory. */
bool tfm__options_split(char **defines, char **rest, const char *options);

/* The binary of a program of one device; freed with free(). NULL with the sentence set. */
unsigned char *tfm__program_binary(size_t *bytes, cl_program program);

#endif
