/* Builds a pack from an exported folder: binaries of an offline compiler, or else of the device itself. */
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "dev/offline/kernel_export.h"
#include "dev/offline/kernel_pack.h"
#include "dev/program/program.h"
#include "tfm/kernels.h"

/* The device that builds missing binaries. */
typedef struct builder {
    cl_platform_id platform;
    cl_device_id device;
    cl_context cl;
} builder;

/* Reads the binary next to NAME.cl; *item stays without data if there is none. */
static tfm_status find_binary(tfm__kernel_pack_item *item, const char *dir, const json_t *suffixes) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < json_array_size(suffixes) && status == TFM_OK && !item->data; i++) {
        const char *suffix = json_string_value(json_array_get(suffixes, i));
        char *path = suffix ? tfm__format("%s/%s%s", dir, item->name, suffix) : NULL, *data = NULL;
        if (path && tfm__file_exists(path))
            status = tfm__file_read(&data, &item->bytes, path);
        if (status == TFM_OK && data && item->bytes == 0) {
            status = tfm__fail(TFM_ERROR_INPUT, "%s is empty: compile %s.cl again", path, item->name);
            free(data);
            data = NULL;
        }
        item->data = (unsigned char *)data;
        free(path);
    }
    return status;
}

/* Opens the device if it matches the manifest and has a compiler. */
static tfm_status open_builder(builder *b, const char *wanted, const json_t *manifest, const char *dir,
                               const char *missing, int count) {
    tfm_device_info info;
    tfm__device_fingerprint words;
    char *what = tfm__format("%s lacks the binaries of %d of its programs, the first %s, and", dir, count, missing);
    tfm_status status = what ? tfm__device_choose(&info, &b->platform, &b->device, wanted) : TFM_ERROR_MEMORY;
    if (status == TFM_OK && !info.compiler)
        status = tfm__fail(TFM_ERROR_INPUT, "%s %s has no compiler to build them: use its vendor's offline compiler",
                           what, info.name);
    if (status == TFM_OK)
        status = tfm__device_fingerprint_query(&words, b->device);
    if (status == TFM_OK && tfm__device_fingerprint_check(json_object_get(manifest, "device"), NULL, &words, what,
                                                          "compile them for that one, and put them there") != TFM_OK)
        status = TFM_ERROR_INPUT;
    cl_int error = CL_SUCCESS;
    if (status == TFM_OK)
        b->cl = tfm__cl_context_acquire(b->platform, b->device, &error);
    if (error != CL_SUCCESS)
        status = tfm__fail(TFM_ERROR_DEVICE, "%s cannot be opened: %s (%d)", info.name, tfm__cl_error_name(error),
                           (int)error);
    free(what);
    return status;
}

static tfm_status build(tfm__kernel_pack_item *item, const builder *b, const char *dir, const char *options) {
    char *path = tfm__format("%s/%s.cl", dir, item->name), *text = NULL;
    tfm_status status = path ? tfm__file_read(&text, NULL, path) : TFM_ERROR_MEMORY;
    cl_int error = CL_SUCCESS;
    cl_program program =
        status == TFM_OK ? clCreateProgramWithSource(b->cl, 1, (const char **)&text, NULL, &error) : NULL;
    if (program)
        error = clBuildProgram(program, 1, &b->device, options, NULL, NULL);
    if (status == TFM_OK && error != CL_SUCCESS)
        status = tfm__fail(TFM_ERROR_BUILD, "%s does not build: %s (%d)", path, tfm__cl_error_name(error), (int)error);
    if (status == TFM_OK && !(item->data = tfm__program_binary(&item->bytes, program)))
        status = TFM_ERROR_DEVICE;
    if (program)
        clReleaseProgram(program);
    free(text);
    free(path);
    return status;
}

/* The binaries of all programs. */
static tfm_status collect_binaries(tfm__kernel_pack_item *items, tfm_kernels_report *report, const json_t *manifest,
                                   const char *dir, const char *wanted) {
    const json_t *programs = json_object_get(manifest, "programs");
    const char *missing = NULL;
    builder b = {0};
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < json_array_size(programs) && status == TFM_OK; i++) {
        items[i].name = json_string_value(json_object_get(json_array_get(programs, i), "name"));
        status = find_binary(&items[i], dir, json_object_get(manifest, "binary_suffixes"));
        report->built += !items[i].data;
        missing = missing || items[i].data ? missing : items[i].name;
    }
    if (status == TFM_OK && missing)
        status = open_builder(&b, wanted, manifest, dir, missing, report->built);
    for (size_t i = 0; i < json_array_size(programs) && status == TFM_OK; i++)
        if (!items[i].data)
            status =
                build(&items[i], &b, dir, json_string_value(json_object_get(json_array_get(programs, i), "options")));
    if (b.cl && !tfm__cl_context_release(b.cl))
        clReleaseContext(b.cl);
    return status;
}

tfm_status tfm_kernels_pack(tfm_kernels_report *report, const char *out, const char *dir, const char *device) {
    tfm_kernels_report unused;
    json_t *manifest = NULL;
    if (TFM__NEEDS("kernels_pack", out, dir) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    report = report ? report : &unused;
    memset(report, 0, sizeof(*report));
    tfm_status status = tfm__kernel_manifest_load(&manifest, dir);
    const size_t count = json_array_size(json_object_get(manifest, "programs"));
    if (status == TFM_OK && strcmp(json_string_value(json_object_get(manifest, "tfm")), tfm_version()) != 0)
        status = tfm__fail(TFM_ERROR_FORMAT, "the export in %s is of tfm %.40s, and this is tfm %s: export again", dir,
                           json_string_value(json_object_get(manifest, "tfm")), tfm_version());
    tfm__kernel_pack_item *items = status == TFM_OK ? tfm__alloc(count + 1, sizeof(*items)) : NULL;
    if (status == TFM_OK)
        status = items ? collect_binaries(items, report, manifest, dir, device) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__kernel_pack_write(&report->bytes, out, json_object_get(manifest, "device"), items, count);
    report->programs = (int)count;
    for (size_t i = 0; items && i < count; i++)
        free(items[i].data);
    free(items);
    json_decref(manifest);
    return status;
}
