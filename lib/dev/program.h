/* Programs of a context, for those who write them down (program.c). */
#ifndef TFM_LIB_DEV_PROGRAM_H
#define TFM_LIB_DEV_PROGRAM_H

#include "dev/cl.h"

typedef struct tfm__program_parts {
    const char *name;    /* "softmax-0123456789abcdef": the file, and a hash of text and options */
    const char *file;    /* "softmax" */
    const char *options; /* all of them */
    char *source;        /* whole, with everything that it includes; it may be changed */
    cl_program cl;
} tfm__program_parts;

/* Shows every program that the context has asked for; false if `see` returned that, or without memory. */
bool tfm__programs_show(tfm_context *ctx, bool (*see)(void *user, const tfm__program_parts *parts), void *user);

#endif
