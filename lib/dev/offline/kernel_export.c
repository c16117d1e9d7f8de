/* Exports programs for devices without a compiler: records the programs of a run and writes self-contained kernel
 * texts. */
#include "dev/offline/kernel_export.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "dev/offline/kernel_pack.h"
#include "dev/program/program.h"
#include "tfm/kernels.h"

enum { FORMAT = 1 };
#define MANIFEST "manifest.json"
#define AGAIN "pass an empty folder"

/* What the process has collected. Contexts may close on different threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char *dir, *device;  /* dir is NULL: not collecting */
    json_t *texts;       /* name: text of the .cl file */
    json_t *programs;    /* name: manifest entry */
    json_t *fingerprint; /* of the target device; NULL before the first context */
    char variant[32];    /* kernel variant of the target */
    tfm_status status;   /* the first failure */
    char message[TFM__MESSAGE_MAX];
} all;

/* Requires the lock. */
static void record_failure(tfm_status status) {
    if (all.status == TFM_OK && status != TFM_OK) {
        all.status = status;
        snprintf(all.message, sizeof(all.message), "%s", tfm_error_message());
    }
}

static void clear_export(void) {
    free(all.dir);
    free(all.device);
    json_decref(all.texts);
    json_decref(all.programs);
    json_decref(all.fingerprint);
    memset(&all, 0, sizeof(all));
}

tfm_status tfm_kernels_begin(const char *dir, const char *device) {
    if (TFM__NEEDS("kernels_begin", dir) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm_status status = tfm__dir_check_writable(dir);
    if (status != TFM_OK)
        return status;
    pthread_mutex_lock(&lock);
    if (all.dir) {
        status = tfm__fail(TFM_ERROR_ARGUMENT, "kernels_begin: an export to %s is active: call tfm_kernels_end first",
                           all.dir);
    } else {
        all.dir = tfm__strdup(dir);
        all.device = device ? tfm__strdup(device) : NULL;
        all.texts = json_object();
        all.programs = json_object();
        if (!all.dir || (device && !all.device) || !all.texts || !all.programs) {
            clear_export();
            status = tfm__fail(TFM_ERROR_MEMORY, "kernels_begin: out of host memory");
        }
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- Contexts -------------------------------------------------------------------------------------------------- */

/* Takes tuning and limits from the target device. Memory is this context's own. */
static tfm_status use_target_device(tfm_context *ctx, const char *wanted, cl_device_id *device) {
    cl_platform_id platform;
    tfm_device_info info;
    tfm_status status = tfm__device_choose(&info, &platform, device, wanted);
    if (status != TFM_OK)
        return status;
    const uint64_t memory = ctx->info.memory_bytes, most = ctx->info.max_alloc_bytes;
    ctx->info = info;
    ctx->info.memory_bytes = memory;
    ctx->info.max_alloc_bytes = most < info.max_alloc_bytes ? most : info.max_alloc_bytes;
    ctx->info.compiler = true; /* this device, which runs the programs, has one */
    ctx->is_export_proxy = true;
    status = tfm__context_query_capabilities(ctx, *device);
    if (status != TFM_OK)
        return status;
    if (ctx->capabilities.limits.max_alloc > most)
        ctx->capabilities.limits.max_alloc = most;
    ctx->limits = ctx->capabilities.limits;
    return TFM_OK;
}

tfm_status tfm__kernel_export_begin(tfm_context *ctx) {
    cl_device_id device = ctx->device;
    tfm__device_fingerprint words;
    pthread_mutex_lock(&lock);
    tfm_status status = TFM_OK;
    ctx->exports = all.dir != NULL;
    if (ctx->exports && ctx->pack)
        status = tfm__fail(TFM_ERROR_ARGUMENT, "programs cannot be exported while TFM_KERNELS names a pack: unset it");
    else if (ctx->exports && !ctx->info.compiler)
        status =
            tfm__fail(TFM_ERROR_UNSUPPORTED,
                      "%s has no compiler, so the export needs another device to run on: name one", ctx->info.name);
    if (status == TFM_OK && ctx->exports && all.device)
        status = use_target_device(ctx, all.device, &device);
    if (status == TFM_OK && ctx->exports)
        status = tfm__device_fingerprint_query(&words, device);
    if (status == TFM_OK && ctx->exports && !all.fingerprint)
        status = (all.fingerprint = tfm__device_fingerprint_json(&words)) ? TFM_OK : TFM_ERROR_MEMORY;
    else if (status == TFM_OK && ctx->exports)
        status = tfm__device_fingerprint_check(all.fingerprint, NULL, &words, "the exported program",
                                               "export for one device at a time") == TFM_OK
                     ? TFM_OK
                     : TFM_ERROR_INPUT;
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- Self-contained program texts ---------------------------------------------------------------------------------
 */

/* Removes #line directives in place: compilers should report lines of this file. */
static void drop_line_directives(char *text) {
    char *to = text;
    for (const char *at = text; *at;) {
        const size_t length = strcspn(at, "\n"), whole = length + (at[length] == '\n');
        if (strncmp(at, "#line ", 6) != 0) {
            memmove(to, at, whole);
            to += whole;
        }
        at += whole;
    }
    *to = 0;
}

/* [{"name": "softmax", "group": [1, 1, 1]}, ...], as far as the driver reports it; NULL without memory. */
static json_t *kernels_of(tfm_context *ctx, cl_program program) {
    char names[4096] = "", *rest = NULL;
    if (clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, sizeof(names), names, NULL) != CL_SUCCESS)
        names[0] = 0;
    json_t *out = json_array();
    for (char *name = strtok_r(names, ";", &rest); name; name = strtok_r(NULL, ";", &rest)) {
        size_t group[3] = {0};
        cl_int error;
        cl_kernel kernel = clCreateKernel(program, name, &error);
        if (error != CL_SUCCESS)
            continue;
        clGetKernelWorkGroupInfo(kernel, ctx->device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof(group), group, NULL);
        clReleaseKernel(kernel);
        json_array_append_new(out, json_pack("{s:s, s:[I, I, I]}", "name", name, "group", (json_int_t)group[0],
                                             (json_int_t)group[1], (json_int_t)group[2]));
    }
    return out;
}

/* Requires the lock. */
static bool add_program(void *user, const tfm__program_info *p) {
    tfm_context *ctx = user;
    if (json_object_get(all.programs, p->name))
        return true;
    char *defines, *rest;
    if (!tfm__options_split(&defines, &rest, p->options))
        return false;
    char *file = tfm__format("%s.cl", p->name);
    drop_line_directives(p->source);
    char *text = tfm__format("/* A program of tfm %s, %s.cl, for devices without a compiler. Options: %s */\n%s%s",
                             tfm_version(), p->file, rest, defines, p->source);
    json_t *kernels = kernels_of(ctx, p->cl);
    const bool whole = file && text && kernels &&
                       json_object_set_new(all.programs, p->name,
                                           json_pack("{s:s, s:s, s:s, s:O}", "name", p->name, "file", file, "options",
                                                     rest, "kernels", kernels)) == 0 &&
                       json_object_set_new(all.texts, p->name, json_string(text)) == 0;
    json_decref(kernels);
    free(file);
    free(defines);
    free(rest);
    free(text);
    return whole;
}

void tfm__kernel_export_add(tfm_context *ctx) {
    if (!ctx->exports)
        return;
    pthread_mutex_lock(&lock);
    if (all.dir) {
        snprintf(all.variant, sizeof(all.variant), "%s", ctx->tuning.name ? ctx->tuning.name : "");
        if (!tfm__programs_visit(ctx, add_program, ctx))
            record_failure(tfm__fail(TFM_ERROR_MEMORY, "out of host memory for the programs of %s", ctx->info.name));
    }
    pthread_mutex_unlock(&lock);
}

/* ---- The folder ------------------------------------------------------------------------------------------------ */

tfm_status tfm__kernel_manifest_load(json_t **out, const char *dir) {
    char *path = tfm__path_join(dir, MANIFEST);
    tfm_status status = path ? tfm__json_load(out, path) : TFM_ERROR_MEMORY;
    const json_t *programs = status == TFM_OK ? json_object_get(*out, "programs") : NULL;
    bool good = json_is_array(programs) && json_is_array(json_object_get(*out, "binary_suffixes")) &&
                json_string_value(json_object_get(*out, "tfm"));
    for (size_t i = 0; i < json_array_size(programs) && good; i++) {
        const json_t *one = json_array_get(programs, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        good = name && name[0] && !strchr(name, '/') && json_string_value(json_object_get(one, "options"));
    }
    if (status == TFM_OK && !good) {
        json_decref(*out);
        *out = NULL;
        status = tfm__fail(TFM_ERROR_FORMAT, "%s is no manifest of kernels: export them again", path);
    }
    free(path);
    return status;
}

/* Merges the folder's existing manifest into the collected programs. */
static tfm_status merge_manifest(int *before, const char *dir) {
    char *path = tfm__path_join(dir, MANIFEST), *what = tfm__format("the export in %s", dir);
    json_t *old = NULL;
    tfm_status status = path && what ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK && tfm__file_exists(path)) {
        status = tfm__kernel_manifest_load(&old, dir);
        tfm__device_fingerprint words = {0};
        for (int i = 0; i < TFM__FINGERPRINT_FIELDS; i++)
            snprintf(words.text[i], sizeof(words.text[i]), "%s",
                     json_string_value(json_object_get(all.fingerprint, tfm__fingerprint_field_names[i])));
        if (status == TFM_OK)
            status = tfm__device_fingerprint_check(json_object_get(old, "device"),
                                                   json_string_value(json_object_get(old, "tfm")), &words, what, AGAIN);
    }
    const json_t *programs = json_object_get(old, "programs");
    for (size_t i = 0; i < json_array_size(programs) && status == TFM_OK; i++) {
        json_t *one = json_array_get(programs, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        if (json_object_get(all.programs, name))
            ++*before;
        else if (json_object_set(all.programs, name, one) != 0)
            status = tfm__fail(TFM_ERROR_MEMORY, "out of host memory for %s", path);
        else
            ++*before;
    }
    json_decref(old);
    free(path);
    free(what);
    return status;
}

static json_t *manifest(void) {
    json_t *programs = json_array(), *one;
    const char *name;
    json_object_foreach(all.programs, name, one) json_array_append(programs, one);
    return json_pack("{s:i, s:s, s:s, s:O, s:[s, s, s], s:o}", "format", FORMAT, "tfm", tfm_version(), "variant",
                     all.variant, "device", all.fingerprint, "binary_suffixes", ".bin", ".aocx", ".xclbin", "programs",
                     programs);
}

static tfm_status write_all(tfm_kernels_report *report) {
    int before = 0;
    tfm_status status = tfm__dir_make(all.dir, 0777);
    if (status == TFM_OK)
        status = merge_manifest(&before, all.dir);
    const char *name;
    json_t *text;
    json_object_foreach(all.texts, name, text) {
        char *file = tfm__format("%s/%s.cl", all.dir, name);
        if (status == TFM_OK)
            status = file ? tfm__file_write(file, json_string_value(text), json_string_length(text)) : TFM_ERROR_MEMORY;
        free(file);
    }
    report->programs = (int)json_object_size(all.programs);
    report->added = report->programs - before;
    return status == TFM_OK ? tfm__json_write(all.dir, MANIFEST, manifest(), "the manifest of kernels") : status;
}

tfm_status tfm_kernels_end(tfm_kernels_report *report) {
    tfm_kernels_report unused;
    report = report ? report : &unused;
    memset(report, 0, sizeof(*report));
    pthread_mutex_lock(&lock);
    tfm_status status = all.status;
    if (!all.dir)
        status = tfm__fail(TFM_ERROR_ARGUMENT, "kernels_end: call tfm_kernels_begin before");
    else if (status != TFM_OK)
        tfm__fail(status, "%s", all.message);
    else if (json_object_size(all.programs) == 0)
        status = tfm__fail(TFM_ERROR_INPUT,
                           "no program was used, so there is nothing to write to %s: run a model on a device "
                           "during the export",
                           all.dir);
    else
        status = write_all(report);
    clear_export();
    pthread_mutex_unlock(&lock);
    return status;
}
