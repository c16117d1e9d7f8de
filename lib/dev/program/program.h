/* Programs: their text (program_source.c), binary and options (program_binary.c), and the set of a context
 * (program.c). */
#ifndef TFM_LIB_DEV_PROGRAM_H
#define TFM_LIB_DEV_PROGRAM_H

#include "dev/device/context_internal.h"

struct tfm__program {
    char *key;  /* "file options": unique in its context; of a linked program its name */
    char *name; /* "file-hash": hash of its text and all its options */
    char *options;
    char *disk_key; /* the same for all contexts and runs; NULL if the binary is already on disk */
    cl_program cl;
    bool linked;      /* by program_link.c */
    bool built_here;  /* built from source, in this process */
    bool used_before; /* an earlier context left an empty entry of the disk cache */
    tfm__program *next;
};

typedef struct tfm__program_info {
    const char *name;    /* "softmax-0123456789abcdef": the file, and a hash of text and options */
    const char *file;    /* "softmax" */
    const char *options; /* all of them */
    char *source;        /* with all includes; may be modified */
    cl_program cl;
} tfm__program_info;

/* Calls `see` for every program of the context; false if `see` returned that, or without memory. */
bool tfm__programs_visit(tfm_context *ctx, bool (*see)(void *user, const tfm__program_info *parts), void *user);

/* The same of a kernel's program. The caller frees out->source; false after a failure. */
bool tfm__program_of_kernel(tfm_context *ctx, tfm__program_info *out, const tfm__kernel *kernel);

/* A text of a linked program. */
typedef struct tfm__program_part {
    char *text; /* without built-in functions */
    const char *options;
} tfm__program_part;

/* Where a linked program may come from. Building takes seconds, for PoCL and a decode step some five. */
typedef enum tfm__link_mode {
    TFM__LINK_LOAD,  /* only from the disk cache */
    TFM__LINK_STORE, /* built if an earlier context stored that it would have used it, else that is stored */
    TFM__LINK_BUILD, /* from the disk cache, or built */
} tfm__link_mode;

/* A program linked from texts (OpenCL 1.2), freed with the context, or NULL. *bad is the part that does not build, or
 * `count`. The context does not fail. */
cl_program tfm__program_link(tfm_context *ctx, size_t *bad, const char *name, size_t count,
                             const tfm__program_part *parts, tfm__link_mode mode);

/* A program of a binary of the context's device, or NULL. */
cl_program tfm__program_from_binary(tfm_context *ctx, const unsigned char *binary, size_t bytes, const char *options);
void tfm__program_free(tfm__program *program);
/* Whether texts are built with tfm__program_builtins before them and -D_OPENCL_H_. */
bool tfm__program_has_builtins(const tfm_context *ctx);

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
