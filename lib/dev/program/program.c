/* Programs: kernel text specialized by defines, built once per context; binaries are cached on disk. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "dev/cache/cache.h"
#include "dev/device/device_select.h"
#include "dev/device/context_internal.h"
#include "dev/offline/kernel_pack.h"
#include "dev/pocl/env.h"
#include "dev/program/program.h"

static uint64_t hash_text(const char *text, uint64_t seed) {
    return tfm__hash64(text, strlen(text), seed);
}

static char *program_name(const char *file, const char *source, const char *options) {
    return tfm__format("%s-%016" PRIx64, file, hash_text(options, hash_text(source, 0)));
}

/* What a binary depends on, including driver and platform: PoCL aborts on another device's binary. */
static char *disk_key(tfm_context *ctx, const char *source, const char *file, const char *options) {
    char *device = tfm__device_fingerprint_text(ctx->device), *key = NULL;
    if (device)
        key = tfm__format("program %s %s\ntext %016" PRIx64 "\n%s", file, options, hash_text(source, 0), device);
    free(device);
    return key;
}

/* TFM_ERROR_BUILD for any code: drivers report "out of resources", Adreno's "out of host memory", for a kernel that is
 * too large, and a smaller batch would build the same one. */
static tfm_status build_failed(tfm_context *ctx, cl_program program, const char *source, const char *file,
                               cl_int error) {
    size_t size = 0;
    clGetProgramBuildInfo(program, ctx->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *log = size ? tfm__alloc(size + 1, 1) : NULL;
    if (log)
        clGetProgramBuildInfo(program, ctx->device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
    char *placed = log ? tfm__build_log_map_lines(log, source) : NULL;
    char what[256];
    snprintf(what, sizeof(what), "%s.cl does not build on %s: %s (%d)", file, ctx->info.name, tfm__cl_error_name(error),
             (int)error);
    const tfm_status status =
        tfm__workgroup_limit_reduce_after_build(ctx, what, error)
            ? TFM_ERROR_AGAIN
            : tfm__context_fail(ctx, TFM_ERROR_BUILD, "%s%s%s", what, log && *log ? "; build log:\n" : "",
                                placed ? placed
                                : log  ? log
                                       : "");
    free(placed);
    free(log);
    return status;
}

cl_program tfm__program_from_binary(tfm_context *ctx, const unsigned char *binary, size_t bytes, const char *options) {
    cl_int loaded = CL_SUCCESS, error = CL_SUCCESS;
    cl_program program = clCreateProgramWithBinary(ctx->cl, 1, &ctx->device, &bytes, &binary, &loaded, &error);
    if (error == CL_SUCCESS && loaded == CL_SUCCESS &&
        clBuildProgram(program, 1, &ctx->device, options, NULL, NULL) == CL_SUCCESS)
        return program;
    if (error == CL_SUCCESS)
        clReleaseProgram(program);
    return NULL;
}

/* Builds from texts. `error` is the build's. */
static cl_program build_texts(tfm_context *ctx, cl_uint count, const char **texts, const char *options, cl_int *error) {
    cl_program program = clCreateProgramWithSource(ctx->cl, count, texts, NULL, error);
    if (*error == CL_SUCCESS) {
        *error = clBuildProgram(program, 1, &ctx->device, options, NULL, NULL);
        return program;
    }
    tfm__cl_fail(ctx, *error, "clCreateProgramWithSource");
    return NULL;
}

/* PoCL 3.1 parses clang's opencl-c.h for each program: 15,000 declarations, 0.25 s, often longer than all the rest. Our
 * declarations of the functions that kernels use replace it, and its include guard leaves it out. If a function is
 * missing, that does not build, and the header is used, as with other drivers. */
bool tfm__program_has_builtins(const tfm_context *ctx) {
    return ctx->info.type == TFM_DEVICE_CPU && strcmp(ctx->info.platform, TFM__POCL) == 0 &&
           strncmp(ctx->info.driver, "3.1", 3) == 0;
}

static cl_program build(tfm_context *ctx, const char *source, const char *file, const char *options, cl_int *error) {
    cl_program program = NULL;
    *error = CL_BUILD_PROGRAM_FAILURE;
    if (tfm__program_has_builtins(ctx)) {
        const char *texts[] = {tfm__program_builtins(), source};
        char *without = tfm__format("%s -D_OPENCL_H_", options);
        program = without ? build_texts(ctx, 2, texts, without, error) : NULL;
        free(without);
        if (*error != CL_BUILD_PROGRAM_FAILURE)
            return program;
        tfm__log(TFM_LOG_DEBUG, "%s.cl does not build with opencl_builtins.cl: with the driver's header", file);
    }
    if (program)
        clReleaseProgram(program);
    return build_texts(ctx, 1, &source, options, error);
}

static cl_program from_source(tfm_context *ctx, const char *source, const char *file, const char *options) {
    if (ctx->on_build)
        ctx->on_build(ctx->on_build_user, ctx->builds + 1, ctx->build_seconds);
    tfm__log(TFM_LOG_INFO, "building kernels for this device: %d, %s.cl", ctx->builds + 1, file);
    const double begun = tfm__seconds();
    cl_int error;
    cl_program program = build(ctx, source, file, options, &error);
    ctx->build_seconds += tfm__seconds() - begun;
    ctx->builds++;
    if (!program || error == CL_SUCCESS)
        return program;
    build_failed(ctx, program, source, file, error);
    clReleaseProgram(program);
    return NULL;
}

/* A device without a compiler uses binaries of an offline compiler. */
static cl_program from_pack(tfm_context *ctx, const tfm__program *entry) {
    const unsigned char *binary;
    size_t bytes;
    char *defines, *rest;
    if (!ctx->pack) {
        tfm__context_fail(
            ctx, TFM_ERROR_BUILD,
            "%s has no compiler: set TFM_KERNELS to a pack of its kernels, such as %s, which `tfm kernels` "
            "makes",
            ctx->info.name, entry->name);
        return NULL;
    }
    const tfm_status found = tfm__kernel_pack_find(ctx->pack, &binary, &bytes, entry->name);
    if (found != TFM_OK) {
        tfm__context_fail(ctx, found, "%s", tfm_error_message());
        return NULL;
    }
    cl_program program = NULL;
    if (tfm__options_split(&defines, &rest, entry->options)) {
        program = tfm__program_from_binary(ctx, binary, bytes, rest);
        free(defines);
        free(rest);
    }
    if (!program)
        tfm__context_fail(ctx, TFM_ERROR_BUILD,
                          "%s rejects the binary of %s from the pack of TFM_KERNELS: compile and pack it again",
                          ctx->info.name, entry->name);
    return program;
}

/* Loads from the disk cache, or builds. */
static cl_program from_cache(tfm_context *ctx, tfm__program *entry, const char *source, const char *file) {
    size_t bytes = 0;
    cl_program program = NULL;
    entry->disk_key = disk_key(ctx, source, file, entry->options); /* NULL: built in each run */
    void *binary = entry->disk_key ? tfm__cache_get(entry->disk_key, &bytes) : NULL;
    entry->used_before = binary && bytes == 0;
    if (bytes > 0 && (program = tfm__program_from_binary(ctx, binary, bytes, entry->options))) {
        free(entry->disk_key); /* no need to export it */
        entry->disk_key = NULL;
    } else {
        if (bytes > 0)
            tfm__cache_drop(entry->disk_key);
        program = from_source(ctx, source, file, entry->options);
        entry->built_here = true;
    }
    free(binary);
    return program;
}

bool tfm__program_hash(tfm_context *ctx, uint64_t *out, const char *file) {
    char *source = tfm__program_source(ctx, file);
    if (source)
        *out = hash_text(source, 0);
    free(source);
    return source != NULL;
}

static cl_program load_or_build(tfm_context *ctx, tfm__program *entry, const char *file, const char *given) {
    char *source = tfm__program_source(ctx, file);
    entry->options = source ? tfm__capability_options(&ctx->capabilities, source, given) : NULL;
    if (entry->options)
        entry->name = program_name(file, source, entry->options);
    cl_program program = NULL;
    if (entry->name) {
        tfm__log(TFM_LOG_DEBUG, "program %s: prelude.cl + %s.cl with '%s'", entry->name, file, entry->options);
        program = ctx->pack || !ctx->info.compiler ? from_pack(ctx, entry) : from_cache(ctx, entry, source, file);
    } else if (source) {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "out of host memory for the options of %s.cl", file);
    }
    free(source);
    return program;
}

void tfm__program_free(tfm__program *program) {
    if (program->cl)
        clReleaseProgram(program->cl);
    free(program->disk_key);
    free(program->options);
    free(program->name);
    free(program->key);
    free(program);
}

static tfm__program *program_get(tfm_context *ctx, const char *file, const char *defines) {
    const tfm__tuning *tuning = &ctx->tuning;
    char *options =
        tfm__format("-cl-kernel-arg-info -D%s -DTFM_WIDTH=%d -DTFM_GROUP=%d -DTFM_CHUNK=%d%s%s%s",
                    tuning->class == TFM__CLASS_CPU ? "TFM_CLASS_CPU" : "TFM_CLASS_GPU", tuning->width, tuning->group,
                    tuning->chunk, tuning->fma ? " -DTFM_FMA" : "", *defines ? " " : "", defines);
    char *key = options ? tfm__format("%s %s", file, options) : NULL;
    tfm__program *entry = ctx->programs;
    while (key && entry && strcmp(entry->key, key) != 0)
        entry = entry->next;
    if (key && !entry && (entry = tfm__alloc(1, sizeof(*entry)))) {
        entry->cl = load_or_build(ctx, entry, file, options);
        if (entry->cl) {
            entry->key = key;
            key = NULL;
            entry->next = ctx->programs;
            ctx->programs = entry;
        } else {
            tfm__program_free(entry);
            entry = NULL;
        }
    }
    free(options);
    free(key);
    if (!entry && ctx->status == TFM_OK)
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "out of host memory for the program %s.cl", file);
    return entry;
}

static tfm__kernel *kernel_make(tfm_context *ctx, const char *file, const char *name, const char *defines,
                                const char *key, uint64_t hash) {
    tfm__program *program = program_get(ctx, file, defines);
    if (!program)
        return NULL;
    tfm__kernel *kernel = tfm__alloc(1, sizeof(*kernel));
    char *copy = kernel ? tfm__strdup(key) : NULL;
    if (!copy) {
        free(kernel);
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "out of host memory for the kernel %s", name);
        return NULL;
    }
    cl_int error;
    kernel->program = program;
    kernel->built_here = program->built_here;
    kernel->identity = hash_text(name, hash_text(program->name, program->built_here));
    kernel->cl = clCreateKernel(program->cl, name, &error);
    if (error == CL_SUCCESS) {
        kernel->key = copy;
        kernel->hash = hash;
        kernel->name = copy + strlen(file) + 1;
        copy[strlen(file)] = 0;
        copy[strlen(file) + 1 + strlen(name)] = 0;
        error = clGetKernelInfo(kernel->cl, CL_KERNEL_NUM_ARGS, sizeof(kernel->parameters), &kernel->parameters, NULL);
        if (error == CL_SUCCESS)
            kernel->scalars = tfm__alloc(kernel->parameters, sizeof(*kernel->scalars));
        if (kernel->scalars)
            return kernel;
        if (error == CL_SUCCESS)
            error = CL_OUT_OF_HOST_MEMORY;
        clReleaseKernel(kernel->cl);
    }
    char what[256];
    snprintf(what, sizeof(what), "%s.cl: kernel %s cannot be created on %s: %s (%d)", file, name, ctx->info.name,
             tfm__cl_error_name(error), (int)error);
    if (!tfm__workgroup_limit_reduce_after_build(ctx, what, error))
        tfm__context_fail(ctx, TFM_ERROR_BUILD, "%s", what);
    free(copy);
    free(kernel);
    return NULL;
}

tfm__kernel *tfm__kernel_get(tfm_context *ctx, const char *file, const char *name, const char *defines, ...) {
    if (ctx->status != TFM_OK)
        return NULL;
    char key[512];
    int head = snprintf(key, sizeof(key), "%s %s ", file, name);
    va_list args;
    va_start(args, defines);
    int tail = head < (int)sizeof(key) ? vsnprintf(key + head, sizeof(key) - (size_t)head, defines, args) : -1;
    va_end(args);
    if (tail < 0 || head + tail >= (int)sizeof(key)) {
        tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "kernel %s: its defines are too long", name);
        return NULL;
    }
    /* The hash of the whole key finds the slot and identifies the kernel; 64 bits for a few hundred keys. */
    uint64_t hash = hash_text(key, (uint64_t)ctx->tuning.group);
    size_t slot = hash % TFM__KERNEL_SLOTS;
    for (size_t probes = 0; probes < TFM__KERNEL_SLOTS; probes++, slot = (slot + 1) % TFM__KERNEL_SLOTS) {
        tfm__kernel *kernel = ctx->kernels[slot];
        if (kernel && kernel->hash == hash)
            return kernel;
        if (!kernel)
            return ctx->kernels[slot] = kernel_make(ctx, file, name, key + head, key, hash);
    }
    tfm__context_fail(ctx, TFM_ERROR_UNSUPPORTED, "more than %d kernels in one context", TFM__KERNEL_SLOTS);
    return NULL;
}

/* PoCL compiles all kernels again to return a binary, for local sizes of any kind, which takes as long as the first
 * run; its own cache has what was launched. So it exports when a program is used for the second time, of which an empty
 * entry tells. */
static void export_program(tfm_context *ctx, tfm__program *program) {
    if (strcmp(ctx->info.platform, TFM__POCL) == 0 && !program->used_before) {
        tfm__cache_put(program->disk_key, "", 0);
        return;
    }
    size_t bytes = 0;
    unsigned char *binary = tfm__program_binary(&bytes, program->cl);
    if (binary)
        tfm__cache_put(program->disk_key, binary, bytes);
    free(binary);
}

void tfm__programs_export(tfm_context *ctx) {
    bool any = false;
    for (tfm__program *program = ctx->programs; program; program = program->next)
        any = any || program->disk_key;
    if (!any || !tfm__cache_usable())
        return;
    for (tfm__program *program = ctx->programs; program; program = program->next)
        if (program->disk_key)
            export_program(ctx, program);
}

bool tfm__programs_visit(tfm_context *ctx, bool (*see)(void *user, const tfm__program_info *parts), void *user) {
    bool good = true;
    for (const tfm__program *program = ctx->programs; program && good; program = program->next) {
        if (program->linked)
            continue;
        char *file = tfm__format("%.*s", (int)strcspn(program->key, " "), program->key);
        char *source = file ? tfm__program_source(ctx, file) : NULL;
        const tfm__program_info parts = {program->name, file, program->options, source, program->cl};
        good = source && see(user, &parts);
        free(source);
        free(file);
    }
    return good;
}

bool tfm__program_of_kernel(tfm_context *ctx, tfm__program_info *out, const tfm__kernel *kernel) {
    const tfm__program *program = kernel->program;
    /* the kernel's key begins with the file's name */
    *out = (tfm__program_info){program->name, kernel->key, program->options, tfm__program_source(ctx, kernel->key),
                               program->cl};
    char *name = out->source ? program_name(kernel->key, out->source, out->options) : NULL;
    if (name && strcmp(name, out->name) == 0) {
        free(name);
        return true;
    }
    free(name); /* the file in TFM_CL_DIR has changed since */
    free(out->source);
    out->source = NULL;
    return false;
}

void tfm__programs_free(tfm_context *ctx) {
    for (int i = 0; i < TFM__KERNEL_SLOTS; i++) {
        if (ctx->kernels[i]) {
            clReleaseKernel(ctx->kernels[i]->cl);
            free(ctx->kernels[i]->key);
            free(ctx->kernels[i]->scalars);
            free(ctx->kernels[i]->body);
            free(ctx->kernels[i]);
            ctx->kernels[i] = NULL;
        }
    }
    while (ctx->programs) {
        tfm__program *program = ctx->programs;
        ctx->programs = program->next;
        tfm__program_free(program);
    }
}
