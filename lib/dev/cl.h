/* OpenCL inside lib/dev: the struct behind tfm_context, and helpers that no other layer sees. */
#ifndef TFM_LIB_DEV_CL_H
#define TFM_LIB_DEV_CL_H

#include "dev/dev.h"
#include "tfm/opencl.h"

#define TFM__MAX_SCOPES 64
#define TFM__PINNED (-1)
#define TFM__SIZE_CLASSES 160
#define TFM__KERNEL_SLOTS 512 /* power of two; far above what a model asks for */

/* A block of device memory. The struct outlives its use, so that a stale tensor can be told by its generation. */
struct tfm_buffer {
    tfm_context *ctx;
    cl_mem memory;
    size_t bytes;
    uint64_t generation; /* moves each time the block is given back */
    bool foreign;        /* the caller's cl_mem: released, never reused */
    int depth;           /* of its scope; TFM__PINNED once only pins hold it */
    int pins;            /* who else needs it, whatever becomes of its scope */
    uint64_t mark;       /* the tape's number for what lies here; 0 in a fresh block */
    tfm_buffer *next;    /* in its scope's list, or in the free list of its size class */
    tfm_buffer **link;   /* what points here while in a scope */
    tfm_buffer *all;     /* every struct of the context */
};

typedef struct tfm__program tfm__program;
typedef struct tfm__profile tfm__profile;

struct tfm__kernel {
    cl_kernel cl;
    char *key; /* "file name defines" */
    const char *name;
    uint64_t hash;
    cl_uint parameters;
    bool checked;
    struct {
        uint64_t bits;
        bool set;
    } *scalars; /* [parameters]: those that are no buffers, as they were set last */
};

struct tfm_context {
    tfm_device_info info;
    cl_platform_id platform;
    cl_device_id device;
    cl_context cl;
    cl_command_queue queue;
    tfm__row row;
    tfm__limits limits;

    tfm_status status;
    char message[TFM__MESSAGE];

    tfm_buffer *buffers;
    tfm_buffer *free[TFM__SIZE_CLASSES];
    tfm_buffer *spare; /* structs without memory */
    tfm_buffer *scopes[TFM__MAX_SCOPES]; /* 0 is the root */
    tfm_buffer *pinned;                  /* blocks whose scope has closed, and that pins hold */
    int depth;
    uint64_t held, held_most; /* bytes of all blocks but foreign ones: now, and at most so far */

    tfm__program *programs;
    tfm__kernel *kernels[TFM__KERNEL_SLOTS];
    tfm__profile *profile;

    struct {
        void *data;
        void (*release)(void *data);
    } slots[TFM__SLOTS];
};

/* "CL_OUT_OF_RESOURCES" for -5. Never NULL. */
const char *tfm__cl_error_name(cl_int code);
/* Whether less work at a time may help. */
bool tfm__cl_is_memory(cl_int code);

/* Fails the context with "<what>: CL_... (-5)" and TFM_ERROR_MEMORY or TFM_ERROR_DEVICE by the code. */
tfm_status tfm__cl_fail(tfm_context *ctx, cl_int code, const char *what);

/* A string property of a device, always terminated; "" where the driver fails. */
void tfm__cl_device_string(char *out, size_t size, cl_device_id device, cl_device_info what);

/* Programs (program.c) and memory (pool.c) of a context, given back before the OpenCL context goes. */
void tfm__programs_export(tfm_context *ctx);
void tfm__programs_free(tfm_context *ctx);
void tfm__pool_free(tfm_context *ctx);

/* CL_DEVICE_MAX_WORK_ITEM_SIZES; what a driver does not say is no limit. */
void tfm__max_items(size_t out[3], cl_device_id device);
/* The row of tuning data for a device (rows.c), or the one named `variant` if that is not NULL. */
tfm_status tfm__row_choose(tfm__row *out, cl_device_id device, const tfm_device_info *info, const char *variant);

#endif
