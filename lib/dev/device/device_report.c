/* A clinfo-like report of device properties. Kernel selection does not use it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "tfm/device.h"

enum { MAX_TEXT = 1 << 16 };

typedef enum info_kind { TEXT, UINT, ULONG, SIZE, SIZES, FP_CONFIG, LOCAL_KIND, YES_NO } info_kind;

static const struct {
    const char *name;
    cl_device_info what;
    info_kind kind;
} DEVICE[] = {
    {"device", CL_DEVICE_NAME, TEXT},
    {"vendor", CL_DEVICE_VENDOR, TEXT},
    {"vendor number", CL_DEVICE_VENDOR_ID, UINT},
    {"driver", CL_DRIVER_VERSION, TEXT},
    {"OpenCL", CL_DEVICE_VERSION, TEXT},
    {"OpenCL C", CL_DEVICE_OPENCL_C_VERSION, TEXT},
    {"profile", CL_DEVICE_PROFILE, TEXT},
    {"compute units", CL_DEVICE_MAX_COMPUTE_UNITS, UINT},
    {"clock in MHz", CL_DEVICE_MAX_CLOCK_FREQUENCY, UINT},
    {"native vector of floats", CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, UINT},
    {"preferred vector of floats", CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT, UINT},
    {"single precision", CL_DEVICE_SINGLE_FP_CONFIG, FP_CONFIG},
    {"memory in bytes", CL_DEVICE_GLOBAL_MEM_SIZE, ULONG},
    {"largest allocation in bytes", CL_DEVICE_MAX_MEM_ALLOC_SIZE, ULONG},
    {"cache in bytes", CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, ULONG},
    {"cache line in bytes", CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE, UINT},
    {"memory shared with the host", CL_DEVICE_HOST_UNIFIED_MEMORY, YES_NO},
    {"local memory in bytes", CL_DEVICE_LOCAL_MEM_SIZE, ULONG},
    {"local memory", CL_DEVICE_LOCAL_MEM_TYPE, LOCAL_KIND},
    {"largest work-group", CL_DEVICE_MAX_WORK_GROUP_SIZE, SIZE},
    {"largest work-group by dimension", CL_DEVICE_MAX_WORK_ITEM_SIZES, SIZES},
    {"parameters in bytes", CL_DEVICE_MAX_PARAMETER_SIZE, SIZE},
    {"base alignment in bits", CL_DEVICE_MEM_BASE_ADDR_ALIGN, UINT},
    {"extensions", CL_DEVICE_EXTENSIONS, TEXT},
};

static void format_fp_config(char *text, size_t size, cl_device_fp_config config) {
    static const struct {
        cl_device_fp_config bit;
        const char *word;
    } WORDS[] = {{CL_FP_DENORM, "denormals"},
                 {CL_FP_INF_NAN, "inf-nan"},
                 {CL_FP_ROUND_TO_NEAREST, "round-to-nearest"},
                 {CL_FP_FMA, "fma"},
                 {CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT, "correct-divide-sqrt"},
                 {CL_FP_SOFT_FLOAT, "soft-float"}};
    text[0] = 0;
    for (size_t i = 0; i < TFM__COUNT(WORDS); i++)
        if (config & WORDS[i].bit)
            snprintf(text + strlen(text), size - strlen(text), "%s%s", text[0] ? " " : "", WORDS[i].word);
}

/* The answer as text: "" if the query fails. */
static void query_text(char *text, cl_device_id device, cl_device_info what, info_kind kind) {
    union {
        cl_uint uint;
        cl_ulong ulong;
        size_t sizes[16];
        cl_device_fp_config config;
        cl_device_local_mem_type local;
        cl_bool yes;
    } answer = {.sizes = {0}};
    text[0] = 0;
    if (kind == TEXT) {
        if (clGetDeviceInfo(device, what, MAX_TEXT - 1, text, NULL) != CL_SUCCESS)
            text[0] = 0;
        text[MAX_TEXT - 1] = 0;
        return;
    }
    if (clGetDeviceInfo(device, what, sizeof(answer), &answer, NULL) != CL_SUCCESS)
        return;
    switch (kind) {
    case UINT:
        snprintf(text, MAX_TEXT, "%u", answer.uint);
        break;
    case ULONG:
        snprintf(text, MAX_TEXT, "%" PRIu64, (uint64_t)answer.ulong);
        break;
    case SIZE:
        snprintf(text, MAX_TEXT, "%zu", answer.sizes[0]);
        break;
    case SIZES:
        snprintf(text, MAX_TEXT, "%zu x %zu x %zu", answer.sizes[0], answer.sizes[1], answer.sizes[2]);
        break;
    case FP_CONFIG:
        format_fp_config(text, MAX_TEXT, answer.config);
        break;
    case LOCAL_KIND:
        snprintf(text, MAX_TEXT, "%s", answer.local == CL_LOCAL ? "dedicated" : "global");
        break;
    default:
        snprintf(text, MAX_TEXT, "%s", answer.yes ? "yes" : "no");
    }
}

static bool show_platform(const tfm_context *ctx, char *text, tfm_property_fn show, void *user) {
    static const struct {
        const char *name;
        cl_platform_info what;
    } PLATFORM[] = {{"platform", CL_PLATFORM_NAME},
                    {"platform vendor", CL_PLATFORM_VENDOR},
                    {"platform version", CL_PLATFORM_VERSION}};
    cl_platform_id platform = NULL;
    clGetDeviceInfo(ctx->device, CL_DEVICE_PLATFORM, sizeof(platform), &platform, NULL);
    for (size_t i = 0; i < TFM__COUNT(PLATFORM); i++) {
        text[0] = 0;
        if (clGetPlatformInfo(platform, PLATFORM[i].what, MAX_TEXT - 1, text, NULL) == CL_SUCCESS &&
            !show(user, PLATFORM[i].name, text))
            return false;
    }
    return true;
}

static bool show_all(const tfm_context *ctx, char *text, tfm_property_fn show, void *user) {
    if (!show_platform(ctx, text, show, user))
        return false;
    for (size_t i = 0; i < TFM__COUNT(DEVICE); i++) {
        query_text(text, ctx->device, DEVICE[i].what, DEVICE[i].kind);
        if (text[0] && !show(user, DEVICE[i].name, text))
            return false;
    }
    const tfm__tuning *tuning = &ctx->tuning;
    size_t used = (size_t)snprintf(text, MAX_TEXT, "%s: width %d, group %d, chunk %d, %s; GEMM by", tuning->name,
                                   tuning->width, tuning->group, tuning->chunk, tuning->fma ? "fma" : "no fma");
    for (size_t i = 0; i < TFM__GEMM_PREFERENCES && tuning->gemm_order[i].provider; i++)
        used += (size_t)snprintf(text + used, MAX_TEXT - used, "%s %s", i ? "," : "", tuning->gemm_order[i].provider);
    if (!show(user, "tuning", text))
        return false;
    for (size_t i = 0; i < ctx->tuning_db.count; i++) {
        snprintf(text, MAX_TEXT, "tuned: %s", ctx->tuning_db.entries[i].name);
        if (!show(user, text, ctx->tuning_db.entries[i].setting))
            return false;
    }
    snprintf(text, MAX_TEXT, "%" PRIx64, tfm__tuning_db_hash(ctx));
    return show(user, "hash of the tuning table", text);
}

tfm_status tfm_context_describe(const tfm_context *ctx, tfm_property_fn report, void *user) {
    if (TFM__NEEDS("context_facts", ctx, report ? "" : NULL) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    char *text = tfm__alloc(MAX_TEXT, 1);
    if (!text)
        return TFM_ERROR_MEMORY;
    const bool whole = show_all(ctx, text, report, user);
    free(text);
    return whole ? TFM_OK : tfm__fail(TFM_ERROR_CANCELLED, "context_facts: stopped by its callback");
}
