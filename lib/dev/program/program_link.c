/* Programs linked from texts that are compiled separately, so that their functions may have equal names. */
#include <inttypes.h>
#include <string.h>
#include "dev/cache/cache.h"
#include "dev/device/device_select.h"
#include "dev/program/program.h"

static uint64_t hash_text(const char *text, uint64_t seed) {
    return tfm__hash64(text, strlen(text), seed);
}

/* What the binary depends on. */
static char *disk_key(const tfm_context *ctx, const char *name, size_t count, const tfm__program_part *parts) {
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i++)
        hash = hash_text(parts[i].options, hash_text(parts[i].text, hash));
    char *device = tfm__device_fingerprint_text(ctx->device), *key = NULL;
    if (device)
        key = tfm__format("program %s linked\ntext %016" PRIx64 "\n%s", name, hash, device);
    free(device);
    return key;
}

static cl_program without_errors(const tfm_context *ctx, cl_program program, cl_int error, const char *what) {
    char log[2000] = "";
    if (error == CL_SUCCESS)
        return program;
    if (program)
        clGetProgramBuildInfo(program, ctx->device, CL_PROGRAM_BUILD_LOG, sizeof(log) - 1, log, NULL);
    tfm__log(TFM_LOG_DEBUG, "%s: %s (%d) %s", what, tfm__cl_error_name(error), (int)error, log);
    if (program)
        clReleaseProgram(program);
    return NULL;
}

static cl_program compile(tfm_context *ctx, const tfm__program_part *part) {
    const bool builtins = tfm__program_has_builtins(ctx);
    const char *texts[] = {builtins ? tfm__program_builtins() : "", part->text};
    char *options = tfm__format("%s%s", part->options, builtins ? " -D_OPENCL_H_" : "");
    cl_int error = CL_OUT_OF_HOST_MEMORY;
    cl_program program = options ? clCreateProgramWithSource(ctx->cl, 2, texts, NULL, &error) : NULL;
    if (error == CL_SUCCESS)
        error = clCompileProgram(program, 1, &ctx->device, options, 0, NULL, NULL, NULL, NULL);
    free(options);
    return without_errors(ctx, program, error, "compiling a part of a program");
}

static cl_program compile_and_link(tfm_context *ctx, size_t *bad, size_t count, const tfm__program_part *parts) {
    cl_program *compiled = tfm__alloc(count, sizeof(*compiled)), linked = NULL;
    cl_int error = CL_SUCCESS;
    size_t done = 0;
    const double begun = tfm__seconds();
    while (compiled && done < count && (compiled[done] = compile(ctx, &parts[done])))
        done++;
    if (compiled && done < count)
        *bad = done;
    if (compiled && done == count)
        linked = clLinkProgram(ctx->cl, 1, &ctx->device, "", (cl_uint)count, compiled, NULL, NULL, &error);
    for (size_t i = 0; i < done; i++)
        clReleaseProgram(compiled[i]);
    free(compiled);
    ctx->build_seconds += tfm__seconds() - begun;
    return without_errors(ctx, linked, error, "linking a program");
}

/* The payload of a program that cannot be linked here; an empty one marks a program that would have been used. */
#define UNLINKABLE "-"

/* From the disk cache, or built. */
static void load_or_build(tfm_context *ctx, tfm__program *entry, size_t *bad, size_t count,
                          const tfm__program_part *parts, tfm__link_mode mode) {
    size_t bytes = 0;
    void *binary = tfm__cache_get(entry->disk_key, &bytes);
    entry->used_before = binary && bytes == 0;
    if (bytes == strlen(UNLINKABLE)) {
        free(binary);
        return;
    }
    if (bytes > 0)
        entry->cl = tfm__program_from_binary(ctx, binary, bytes, "");
    if (bytes > 0 && !entry->cl)
        tfm__cache_drop(entry->disk_key);
    free(binary);
    if (entry->cl) {
        free(entry->disk_key); /* no need to export it */
        entry->disk_key = NULL;
    } else if (mode == TFM__LINK_BUILD || (mode == TFM__LINK_STORE && entry->used_before)) {
        tfm__log(TFM_LOG_INFO, "linking %zu kernels of decoding for this device", count - 1);
        entry->cl = compile_and_link(ctx, bad, count, parts);
        entry->built_here = true;
        if (!entry->cl)
            tfm__cache_put(entry->disk_key, UNLINKABLE, strlen(UNLINKABLE));
    } else if (mode == TFM__LINK_STORE) {
        tfm__cache_put(entry->disk_key, "", 0);
    }
}

cl_program tfm__program_link(tfm_context *ctx, size_t *bad, const char *name, size_t count,
                             const tfm__program_part *parts, tfm__link_mode mode) {
    tfm__program *entry = tfm__alloc(1, sizeof(*entry));
    *bad = count;
    if (!entry)
        return NULL;
    entry->linked = true;
    entry->key = tfm__strdup(name);
    entry->disk_key = entry->key ? disk_key(ctx, name, count, parts) : NULL;
    if (entry->disk_key)
        load_or_build(ctx, entry, bad, count, parts, mode);
    if (!entry->cl) {
        tfm__program_free(entry);
        return NULL;
    }
    entry->next = ctx->programs;
    ctx->programs = entry;
    return entry->cl;
}
