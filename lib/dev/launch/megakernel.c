/* The megakernel of a context on PoCL: collects launches, and links the kernels that it has seen into one program.
 *
 * A kernel is linked as a function: in its text `TFM_KERNEL void name(` becomes a static function with the item's
 * position as further parameters, which get_global_id() and its like read. Buffers are passed by address, which is that
 * of their mapping on a CPU; a kernel confirms this once. Their memory is only released after the megakernel ended.
 *
 * Linking takes seconds. A set of kernels is complete when steps add no more: then it is loaded from the disk cache. If
 * it is not there, it is linked after a thousand steps, or when the second context that would have used it is closed.
 * Until then launches are as usual, and always for steps of more rows than MAX_ROWS. */
#include "dev/launch/megakernel.h"
#include <stdio.h>
#include <string.h>
#include "dev/cache/cache.h"
#include "dev/launch/megakernel_text.h"
#include "dev/pocl/launch_order.h"
#include "dev/program/program.h"

enum { MAX_BODIES = 64, SLOTS = 16, SLOT_WORDS = 8192, LINE_WORDS = 8 };
/* Words of a record before its arguments, as in megakernel.cl. */
enum { AT_BODY = 8, AT_LENGTH = 9, AT_SIZES = 10, AT_ARGUMENTS = 13 };
/* Launches collected at most: few first, for the device to begin at once, and more while it runs. */
enum { FIRST_RECORDS = 8, MAX_RECORDS = 96 };
/* Steps without a new kernel before a set counts as complete, and before it is linked during decoding; sets linked at
 * most. Loading takes as long as ten steps gain. */
enum { COMPLETE_AFTER = 16, COMPLETE_AFTER_IF_FORCED = 2, LONG_AFTER = 1000, MAX_SETS = 6 };
/* At OPUS-MT's size up to 3 rows decode 1.4 times as fast, 8 rows no faster, and the int8 GEMM of many rows is a fifth
 * slower as a function. */
enum { MAX_ROWS = 8 };

struct tfm__megakernel {
    bool unusable, collecting, forced;
    tfm__kernel *bodies[MAX_BODIES]; /* in the program, then those still missing */
    size_t linked, seen;
    int sets;
    uint64_t text_hash;     /* of the program linked last */
    size_t first;           /* kernels of the first complete set, which the next process will have, too */
    uint64_t steps, newest; /* steps so far, and at the last new kernel */
    tfm__kernel kernel;
    cl_mem memory;
    uint64_t *words; /* its mapping: SLOTS * SLOT_WORDS */
    cl_event ended[SLOTS];
    size_t slot, used, count, limit; /* the slot that is filled: words, records and the most records */
    bool running;
};

/* ---- Launch ---- */

static tfm_status launch_failed(tfm_context *ctx, cl_int error) {
    return tfm__cl_fail(ctx, error, "the megakernel of a decode step");
}

/* Launches `count` records from word `first` on. */
static cl_int launch(tfm_context *ctx, tfm__megakernel *m, size_t first, size_t count, cl_event *ended) {
    const size_t units = (size_t)(ctx->info.compute_units > 0 ? ctx->info.compute_units : 1),
                 parts = ctx->partitions > 0 ? ctx->partitions : 1;
    const tfm__grid grid = TFM__GRID_1D(units > parts ? units / parts : 1, 1);
    const cl_long values[] = {(cl_long)first, (cl_long)count};
    cl_int error = clSetKernelArg(m->kernel.cl, 0, sizeof(m->memory), &m->memory);
    for (cl_uint i = 0; i < 2 && error == CL_SUCCESS; i++)
        error = clSetKernelArg(m->kernel.cl, i + 1, sizeof(values[i]), &values[i]);
    const tfm__pocl_order order = tfm__pocl_begin(ctx, &m->kernel, &grid);
    if (error == CL_SUCCESS)
        error = clEnqueueNDRangeKernel(ctx->queue, m->kernel.cl, 3, NULL, grid.global, grid.local, 0, NULL, ended);
    const bool run = error == CL_SUCCESS;
    if (run && order == TFM__POCL_EXCLUSIVE)
        error = clFinish(ctx->queue);
    tfm__pocl_end(order, run);
    m->running = true;
    return error;
}

/* Launches what is collected. */
static void flush(tfm_context *ctx) {
    tfm__megakernel *m = ctx->megakernel;
    if (!m || m->count == 0)
        return;
    const size_t slot = m->slot, count = m->count;
    m->slot = (slot + 1) % SLOTS;
    m->used = m->count = 0;
    m->limit = m->limit * 2 > MAX_RECORDS ? MAX_RECORDS : m->limit * 2;
    const cl_int error = launch(ctx, m, slot * SLOT_WORDS, count, &m->ended[slot]);
    if (error != CL_SUCCESS)
        launch_failed(ctx, error);
}

/* ---- Program ---- */

static void remove_body(tfm__megakernel *m, size_t at) {
    m->bodies[at]->body_number = -1;
    m->seen--;
    memmove(&m->bodies[at], &m->bodies[at + 1], (m->seen - at) * sizeof(m->bodies[0]));
}

/* Links the first `count` kernels, or NULL. *bad: a kernel that cannot be a function, or a larger number. */
static cl_program link_bodies(tfm_context *ctx, tfm__megakernel *m, size_t *bad, size_t count, tfm__link_mode mode) {
    tfm__program_part parts[MAX_BODIES + 1] = {{0}};
    bool whole = true;
    for (size_t i = 0; i < count && whole; i++) {
        tfm__program_info info;
        whole = tfm__program_of_kernel(ctx, &info, m->bodies[i]);
        parts[i] =
            (tfm__program_part){whole ? tfm__megakernel_body_text(info.source, m->bodies[i], i) : NULL, info.options};
        whole = whole && parts[i].text;
        free(info.source);
    }
    parts[count] = (tfm__program_part){whole ? tfm__megakernel_driver_text(ctx, count) : NULL, ""};
    for (size_t i = 0; i <= count && parts[count].text; i++)
        m->text_hash = tfm__hash64(parts[i].text, strlen(parts[i].text), i ? m->text_hash : 0);
    cl_program program = NULL;
    *bad = count + 1;
    if (parts[count].text)
        program = tfm__program_link(ctx, bad, "megakernel", count + 1, parts, mode);
    for (size_t i = 0; i <= count; i++)
        free(parts[i].text);
    return program;
}

/* Whether a buffer's address in kernels is that of its mapping. */
static bool addresses_agree(tfm_context *ctx, tfm__megakernel *m, cl_program program) {
    cl_int error;
    const size_t one = 1;
    cl_kernel kernel = clCreateKernel(program, "megakernel_address", &error);
    if (error != CL_SUCCESS)
        return false;
    m->words[0] = 0;
    const tfm__grid grid = TFM__GRID_1D(1, 1);
    const tfm__kernel known = {.identity = m->kernel.identity + 1};
    error = clSetKernelArg(kernel, 0, sizeof(m->memory), &m->memory);
    const tfm__pocl_order order = tfm__pocl_begin(ctx, &known, &grid);
    if (error == CL_SUCCESS)
        error = clEnqueueNDRangeKernel(ctx->queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL);
    const bool run = error == CL_SUCCESS;
    if (run)
        error = clFinish(ctx->queue);
    tfm__pocl_end(order, run);
    clReleaseKernel(kernel);
    const bool agree = error == CL_SUCCESS && m->words[0] == (uint64_t)(uintptr_t)m->words;
    m->words[0] = 0;
    return agree;
}

static void set_unusable(tfm__megakernel *m, const char *why) {
    tfm__log(TFM_LOG_INFO, "decode steps are launched kernel by kernel: %s", why);
    m->unusable = true;
}

/* Takes a linked program into use. PoCL compiles its kernel at the first launch, which runs nothing. */
static void use_program(tfm_context *ctx, tfm__megakernel *m, cl_program program, size_t count) {
    cl_int error;
    const double begun = tfm__seconds();
    cl_kernel kernel = clCreateKernel(program, "megakernel", &error);
    m->kernel.identity = m->text_hash;
    m->sets++;
    if (error != CL_SUCCESS || !addresses_agree(ctx, m, program)) {
        if (error == CL_SUCCESS)
            clReleaseKernel(kernel);
        set_unusable(m, error == CL_SUCCESS ? "buffers have other addresses in kernels" : tfm__cl_error_name(error));
        return;
    }
    if (m->kernel.cl)
        clReleaseKernel(m->kernel.cl);
    m->kernel.cl = kernel;
    error = launch(ctx, m, 0, 0, NULL);
    if (error == CL_SUCCESS)
        error = clFinish(ctx->queue);
    ctx->build_seconds += tfm__seconds() - begun;
    if (error != CL_SUCCESS)
        set_unusable(m, tfm__cl_error_name(error));
    m->linked = m->unusable ? 0 : count;
    for (size_t i = 0; i < m->linked; i++)
        m->bodies[i]->body_number = (int)i + 1;
}

/* Links all kernels seen, except for any that cannot be a function. */
static cl_program link_all(tfm_context *ctx, tfm__megakernel *m) {
    cl_program program = NULL;
    for (size_t bad = 0; !program && ctx->status == TFM_OK && m->seen > m->linked;) {
        program = link_bodies(ctx, m, &bad, m->seen, TFM__LINK_BUILD);
        if (program || bad >= m->seen)
            break;
        tfm__log(TFM_LOG_DEBUG, "kernel %s cannot be part of a megakernel", m->bodies[bad]->name);
        remove_body(m, bad);
    }
    if (!program && m->seen > m->linked)
        set_unusable(m, "the megakernel cannot be linked");
    return program;
}

static void link_if_complete(tfm_context *ctx, tfm__megakernel *m) {
    const uint64_t since = m->steps - m->newest, complete = m->forced ? COMPLETE_AFTER_IF_FORCED : COMPLETE_AFTER;
    const bool build = m->forced ? since == complete : since == LONG_AFTER;
    if (m->seen == m->linked || m->sets >= MAX_SETS || (since != complete && !build))
        return;
    size_t bad;
    tfm__megakernel_settle(ctx); /* the check of addresses writes to a slot */
    cl_program program = build ? link_all(ctx, m) : link_bodies(ctx, m, &bad, m->seen, TFM__LINK_LOAD);
    if (m->first == 0)
        m->first = m->seen;
    if (program)
        use_program(ctx, m, program, m->seen);
}

/* ---- Launches ---- */

/* Makes the next slot writable. */
static bool open_slot(tfm_context *ctx, tfm__megakernel *m) {
    cl_event *ended = &m->ended[m->slot];
    cl_int error = CL_SUCCESS;
    if (*ended) {
        error = clWaitForEvents(1, ended);
        clReleaseEvent(*ended);
        *ended = NULL;
    }
    return error == CL_SUCCESS || launch_failed(ctx, error) == TFM_OK;
}

/* A buffer's address, or 0. The caller's buffers have none here: the caller may have mapped them, or release them while
 * the megakernel runs. */
static uint64_t address_of(tfm_context *ctx, tfm_buffer *buffer) {
    if (buffer && !buffer->address && buffer->shared)
        buffer->address = tfm__shared_buffer_address(buffer->shared, ctx->queue);
    else if (buffer && !buffer->address && !buffer->external)
        buffer->address = tfm__mapped_address(ctx->queue, buffer->memory);
    return buffer ? buffer->address : 0;
}

static bool all_have_addresses(tfm_context *ctx, size_t count, const tfm__arg *args) {
    bool all = true;
    for (size_t i = 0; i < count; i++)
        if (args[i].kind == TFM__ARG_TENSOR && args[i].tensor.buffer)
            all = address_of(ctx, args[i].tensor.buffer) && all;
    return all;
}

static size_t argument_words(size_t count, const tfm__arg *args) {
    size_t words = 0;
    for (size_t i = 0; i < count; i++)
        words += args[i].kind == TFM__ARG_TENSOR   ? 2
                 : args[i].kind == TFM__ARG_STRUCT ? args[i].bytes / sizeof(uint64_t)
                                                   : 1;
    return words;
}

static void write_arguments(uint64_t *to, size_t count, const tfm__arg *args) {
    for (size_t i = 0; i < count; i++) {
        if (args[i].kind == TFM__ARG_TENSOR) {
            *to++ = args[i].tensor.buffer ? args[i].tensor.buffer->address : 0;
            *to++ = args[i].tensor.offset;
        } else if (args[i].kind == TFM__ARG_INT) {
            *to++ = (uint64_t)args[i].integer;
        } else if (args[i].kind == TFM__ARG_FLOAT) {
            *to = 0;
            memcpy(to++, &args[i].real, sizeof(args[i].real));
        } else {
            memcpy(to, args[i].data, args[i].bytes);
            to += args[i].bytes / sizeof(uint64_t);
        }
    }
}

/* Notes a kernel that is not linked yet. */
static void want(tfm__megakernel *m, tfm__kernel *kernel, size_t count, const tfm__arg *args) {
    for (size_t i = m->linked; i < m->seen; i++)
        if (m->bodies[i] == kernel)
            return;
    kernel->body = m->seen < MAX_BODIES ? tfm__megakernel_body_call(kernel, count, args) : NULL;
    if (!kernel->body) {
        kernel->body_number = -1;
        return;
    }
    m->bodies[m->seen++] = kernel;
    m->newest = m->steps;
}

bool tfm__megakernel_collect(tfm_context *ctx, tfm__kernel *kernel, const tfm__grid *grid, size_t count,
                             const tfm__arg *args) {
    tfm__megakernel *m = ctx->megakernel;
    if (!m || !m->collecting || kernel->body_number < 0 || grid->local[0] * grid->local[1] * grid->local[2] != 1)
        return false;
    const size_t items = grid->global[0] * grid->global[1] * grid->global[2],
                 words = (AT_ARGUMENTS + argument_words(count, args) + LINE_WORDS - 1) / LINE_WORDS * LINE_WORDS;
    if (kernel->body_number == 0) {
        want(m, kernel, count, args);
        return false;
    }
    if (items > INT32_MAX || words > SLOT_WORDS || !all_have_addresses(ctx, count, args))
        return false;
    if (m->count == m->limit || m->used + words > SLOT_WORDS)
        flush(ctx);
    if (m->count == 0 && !open_slot(ctx, m))
        return true; /* the context has failed */
    uint64_t *record = m->words + m->slot * SLOT_WORDS + m->used;
    memset(record, 0, LINE_WORDS * sizeof(*record));
    record[AT_BODY] = (uint64_t)kernel->body_number - 1;
    record[AT_LENGTH] = words;
    for (int i = 0; i < 3; i++)
        record[AT_SIZES + i] = grid->global[i];
    write_arguments(record + AT_ARGUMENTS, count, args);
    m->used += words;
    m->count++;
    return true;
}

cl_command_queue tfm__queue(tfm_context *ctx) {
    flush(ctx);
    if (ctx->megakernel)
        ctx->megakernel->limit = FIRST_RECORDS;
    return ctx->queue;
}

void tfm__megakernel_settle(tfm_context *ctx) {
    tfm__megakernel *m = ctx->megakernel;
    if (!m || (!m->running && m->count == 0))
        return;
    clFinish(tfm__queue(ctx)); /* its failure is reported by the next wait */
    m->running = false;
}

/* ---- Begin and end ---- */

/* TFM_MEGAKERNEL: 0 never, 1 as soon as the set is complete; else as above. */
static bool is_allowed(const tfm_context *ctx, bool *forced) {
    const char *set = getenv("TFM_MEGAKERNEL");
    *forced = set && strcmp(set, "1") == 0;
    return ctx->on_pocl && ctx->info.type == TFM_DEVICE_CPU && ctx->tuning.class == TFM__CLASS_CPU && !ctx->profile &&
           !ctx->exports && !ctx->pack && ctx->info.compiler && !(set && strcmp(set, "0") == 0);
}

static tfm__megakernel *create(tfm_context *ctx) {
    tfm__megakernel *m = tfm__alloc(1, sizeof(*m));
    cl_int error = CL_SUCCESS;
    if (!m)
        return NULL;
    if (!is_allowed(ctx, &m->forced)) {
        m->unusable = true;
        return m;
    }
    const size_t bytes = SLOTS * SLOT_WORDS * sizeof(*m->words);
    m->memory = clCreateBuffer(ctx->cl, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, NULL, &error);
    if (error == CL_SUCCESS)
        m->words = clEnqueueMapBuffer(ctx->queue, m->memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0, NULL,
                                      NULL, &error);
    m->limit = FIRST_RECORDS;
    if (error != CL_SUCCESS)
        set_unusable(m, tfm__cl_error_name(error));
    return m;
}

void tfm__megakernel_begin(tfm_context *ctx, int64_t rows) {
    if (ctx->status != TFM_OK || rows > MAX_ROWS)
        return;
    if (!ctx->megakernel)
        ctx->megakernel = create(ctx); /* NULL out of memory: launches as usual */
    tfm__megakernel *m = ctx->megakernel;
    if (!m || m->unusable)
        return;
    m->steps++;
    link_if_complete(ctx, m);
    m->collecting = !m->unusable;
}

void tfm__megakernel_end(tfm_context *ctx) {
    if (!ctx->megakernel)
        return;
    flush(ctx);
    ctx->megakernel->collecting = false;
}

void tfm__megakernel_store(tfm_context *ctx) {
    tfm__megakernel *m = ctx->megakernel;
    size_t bad;
    if (!m || m->unusable || m->sets > 0 || m->first == 0 || !tfm__cache_usable())
        return;
    if (m->first > m->seen)
        m->first = m->seen;
    cl_program program = link_bodies(ctx, m, &bad, m->first, TFM__LINK_STORE);
    if (program)
        use_program(ctx, m, program, m->first); /* so that its binary is whole */
}

void tfm__megakernel_free(tfm_context *ctx) {
    tfm__megakernel *m = ctx->megakernel;
    if (!m)
        return;
    ctx->megakernel = NULL;
    for (size_t i = 0; i < SLOTS; i++)
        if (m->ended[i])
            clReleaseEvent(m->ended[i]);
    if (m->words) {
        clEnqueueUnmapMemObject(ctx->queue, m->memory, m->words, 0, NULL, NULL);
        clFinish(ctx->queue);
    }
    if (m->memory)
        clReleaseMemObject(m->memory);
    if (m->kernel.cl)
        clReleaseKernel(m->kernel.cl);
    free(m);
}
