/* Device capabilities: the only place that queries the driver for them. */
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__)
#include <cpuid.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef SYS_arch_prctl
#define HAS_AMX
#endif
#endif
#include "dev/device/context_internal.h"
#include "dev/pocl/env.h"

/* Longer answers are a driver bug. */
#define MAX_ANSWER (1 << 20)

/* Copies a driver's string for printing: truncated, trimmed, ASCII without control characters. */
static void copy_clean(char *out, size_t size, const char *text) {
    size_t n = 0;
    for (; *text && n + 1 < size; text++) {
        unsigned char c = (unsigned char)*text;
        if (c <= ' ' && (n == 0 || out[n - 1] == ' '))
            continue;
        out[n++] = c <= ' ' ? ' ' : c < 127 ? (char)c : '?';
    }
    while (n > 0 && out[n - 1] == ' ')
        n--;
    out[n] = 0;
}

/* Queries a string of a device or else a platform, in OpenCL's two steps. */
cl_int tfm__cl_query_string(char *out, size_t size, cl_platform_id platform, cl_device_id device, cl_uint what) {
    out[0] = 0;
    size_t bytes = 0;
    cl_int error =
        device ? clGetDeviceInfo(device, what, 0, NULL, &bytes) : clGetPlatformInfo(platform, what, 0, NULL, &bytes);
    if (error != CL_SUCCESS || bytes == 0)
        return error;
    char *answer = bytes <= MAX_ANSWER ? calloc(bytes + 1, 1) : NULL;
    if (!answer)
        return CL_OUT_OF_HOST_MEMORY;
    error = device ? clGetDeviceInfo(device, what, bytes, answer, NULL)
                   : clGetPlatformInfo(platform, what, bytes, answer, NULL);
    if (error == CL_SUCCESS)
        copy_clean(out, size, answer);
    free(answer);
    return error;
}

void tfm__cl_device_string(char *out, size_t size, cl_device_id device, cl_device_info what) {
    tfm__cl_query_string(out, size, NULL, device, what);
}

/* OpenCL 3.0 constants, so that no 3.0 headers are needed. */
enum { ALL_C_VERSIONS = 0x1066, MAX_LIST = 1 << 20 };
typedef struct named_version {
    cl_uint version;
    char name[64];
} named_version;

/* The capability of an extension, and the least OpenCL C (times ten) that kernels need to use it. */
static const struct {
    const char *extension;
    uint32_t bit;
    int needs;
} EXTENSIONS[] = {
    {"cl_khr_fp16", TFM__HAS_FP16, 12},
    {"cl_khr_fp64", TFM__HAS_FP64, 12},
    {"cles_khr_int64", TFM__HAS_INT64, 12},
    {"cl_khr_subgroups", TFM__HAS_SUBGROUPS, 20},
    {"cl_khr_integer_dot_product", TFM__HAS_INT_DOT, 30},
    {"cl_nv_device_attribute_query", TFM__HAS_NV_QUERIES, 12},
    {"cl_amd_device_attribute_query", TFM__HAS_AMD_QUERIES, 12},
    {"cl_intel_subgroup_matrix_multiply_accumulate", TFM__HAS_INTEL_DPAS, 12},
    {"cl_intel_required_subgroup_size", TFM__HAS_INTEL_SUBGROUP_SIZE, 12},
};

/* The define that a kernel text may use, set if the device has the capability. */
static const struct {
    const char *word;
    uint32_t bit;
} FEATURE_DEFINES[] = {
    {"TFM_HAS_FP16", TFM__HAS_FP16},
    {"TFM_HAS_FP64", TFM__HAS_FP64},
    {"TFM_HAS_SUBGROUPS", TFM__HAS_SUBGROUPS},
    {"TFM_HAS_INT_DOT", TFM__HAS_INT_DOT},
    {"TFM_HAS_IMAGES", TFM__HAS_IMAGES},
    {"TFM_HAS_LOCAL_MEMORY", TFM__HAS_LOCAL_MEMORY},
    {"TFM_HAS_AVX512VNNI", TFM__HAS_AVX512VNNI},
    {"TFM_HAS_AVXVNNI", TFM__HAS_AVXVNNI},
};

static bool query_info(cl_device_id device, cl_device_info what, void *value, size_t size) {
    return clGetDeviceInfo(device, what, size, value, NULL) == CL_SUCCESS;
}

/* An answer of any length, with a terminating 0, or NULL. */
static char *query_string_alloc(size_t *bytes, cl_device_id device, cl_device_info what) {
    *bytes = 0;
    if (clGetDeviceInfo(device, what, 0, NULL, bytes) != CL_SUCCESS || *bytes == 0 || *bytes > MAX_LIST)
        return NULL;
    char *answer = calloc(*bytes + 1, 1);
    if (answer && clGetDeviceInfo(device, what, *bytes, answer, NULL) == CL_SUCCESS)
        return answer;
    free(answer);
    return NULL;
}

/* The newest OpenCL C, times ten; 0 if the driver does not report it. OpenCL 3.0 devices may report 1.2 in the old
 * query and list later versions in the new one. */
static int newest_opencl_c(cl_device_id device) {
    char text[128];
    int major = 0, minor = 0;
    size_t bytes;
    tfm__cl_device_string(text, sizeof(text), device, CL_DEVICE_OPENCL_C_VERSION);
    int newest = sscanf(text, "OpenCL C %d.%d", &major, &minor) == 2 ? 10 * major + minor : 0;
    char *list = newest >= 12 ? query_string_alloc(&bytes, device, ALL_C_VERSIONS) : NULL;
    for (size_t i = 0; list && (i + 1) * sizeof(named_version) <= bytes; i++) {
        named_version one;
        memcpy(&one, list + i * sizeof(one), sizeof(one));
        const int version = 10 * (int)(one.version >> 22) + (int)(one.version >> 12 & 0x3ff);
        newest = version > newest ? version : newest;
    }
    free(list);
    return newest;
}

/* Whether the blank-separated list contains the word. */
static bool lists(const char *list, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0))
            return true;
    return false;
}

static uint32_t query_extensions(cl_device_id device, int c) {
    size_t bytes;
    uint32_t has = 0;
    char *list = query_string_alloc(&bytes, device, CL_DEVICE_EXTENSIONS);
    for (size_t i = 0; list && i < TFM__COUNT(EXTENSIONS); i++)
        if (lists(list, EXTENSIONS[i].extension) && (c >= EXTENSIONS[i].needs || EXTENSIONS[i].needs == 12))
            has |= EXTENSIONS[i].bit;
    free(list);
    return has;
}

/* AMX instructions of the processor. */
static uint32_t query_amx(void) {
#ifdef HAS_AMX
    enum { FEATURES = 7, BF16 = 1 << 22, TILES = 1 << 24, INT8 = 1 << 25 }; /* leaf 7, edx */
    unsigned a, b, c, d;
    if (__get_cpuid_count(FEATURES, 0, &a, &b, &c, &d) && d & TILES)
        return (d & BF16 ? TFM__HAS_AMX_BF16 : 0) | (d & INT8 ? TFM__HAS_AMX_INT8 : 0);
#endif
    return 0;
}

bool tfm__amx_allowed(void) {
    bool allowed = false;
#ifdef HAS_AMX
    enum { REQUEST = 0x1023, TILE_DATA = 18, UNKNOWN = 0, ALLOWED, REFUSED }; /* ARCH_REQ_XCOMP_PERM, XTILEDATA */
    static atomic_int known;
    int answer = atomic_load(&known);
    if (answer == UNKNOWN) { /* a race is harmless: both threads get the same answer */
        answer = syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0 ? ALLOWED : REFUSED;
        atomic_store(&known, answer);
        if (answer == REFUSED)
            tfm__log(TFM_LOG_INFO, "AMX is not used: the system does not permit it for this process");
    }
    allowed = answer == ALLOWED;
#endif
    return allowed;
}

/* Instructions of the host's processor, if it is the device: PoCL's compiler may target a baseline processor of the
 * distribution with fewer. */
static uint32_t query_cpu_features(cl_device_id device) {
    uint32_t has = 0;
#if defined(__x86_64__) && defined(__GNUC__)
    static const char *const drivers[] = {"pthread", "basic", "cpu"}; /* prefixes of the names of PoCL's CPU devices */
    cl_platform_id platform = NULL;
    char name[128] = "", of[64] = "";
    bool own = false;
    tfm__cl_device_string(name, sizeof(name), device, CL_DEVICE_NAME);
    for (size_t i = 0; i < TFM__COUNT(drivers); i++)
        own = own || strncmp(name, drivers[i], strlen(drivers[i])) == 0;
    if (!own || !query_info(device, CL_DEVICE_PLATFORM, &platform, sizeof(platform)) ||
        clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(of), of, NULL) != CL_SUCCESS || strcmp(of, TFM__POCL) != 0)
        return 0;
    has |= __builtin_cpu_supports("avx512vnni") ? TFM__HAS_AVX512VNNI : 0;
    has |= __builtin_cpu_supports("avx512bf16") ? TFM__HAS_AVX512BF16 : 0;
#ifndef __clang__
    has |= __builtin_cpu_supports("avxvnni") ? TFM__HAS_AVXVNNI : 0;
#endif
    has |= query_amx();
#else
    (void)device;
#endif
    return has;
}

/* The smallest sub-group size that kernels may require (cl_intel_required_subgroup_size), or 0. */
static size_t min_subgroup_size(cl_device_id device) {
    enum { SUB_GROUP_SIZES = 0x4108 };
    size_t bytes, least = 0, size;
    char *list = query_string_alloc(&bytes, device, SUB_GROUP_SIZES);
    for (size_t i = 0; list && (i + 1) * sizeof(size) <= bytes; i++) {
        memcpy(&size, list + i * sizeof(size), sizeof(size));
        least = least == 0 || size < least ? size : least;
    }
    free(list);
    return least;
}

/* The matrix cores of this kind of device. AMD's gfx9 does not report whether it has them: elsewhere the kernel build
 * fails. */
static tfm__mma query_mma(cl_device_id device, uint32_t has) {
    enum { NV_MAJOR = 0x4000, NV_MINOR = 0x4001, AMD_WAVE = 0x4043, AMD_MAJOR = 0x404a };
    cl_uint major = 0, minor = 0, wave = 0;
    if (has & TFM__HAS_NV_QUERIES && query_info(device, NV_MAJOR, &major, sizeof(major)) &&
        query_info(device, NV_MINOR, &minor, sizeof(minor)))
        return major >= 8 ? TFM__MMA_M16N8K16 : major == 7 && minor >= 5 ? TFM__MMA_M16N8K8 : TFM__MMA_NONE;
    if (has & TFM__HAS_AMD_QUERIES && query_info(device, AMD_MAJOR, &major, sizeof(major)) &&
        query_info(device, AMD_WAVE, &wave, sizeof(wave)))
        return major == 11 && wave == 32 ? TFM__MMA_WMMA : major == 9 && wave == 64 ? TFM__MMA_MFMA : TFM__MMA_NONE;
    if (has & TFM__HAS_INTEL_DPAS) {
        const size_t least = min_subgroup_size(device); /* the sub-group size of DPAS */
        return least == 8 ? TFM__MMA_DPAS_8 : least == 16 ? TFM__MMA_DPAS_16 : TFM__MMA_NONE;
    }
    return TFM__MMA_NONE;
}

/* The int8 dot-product instruction. AMD's gfx9 and gfx10 do not report whether they have it: elsewhere the kernel build
 * fails. */
static tfm__dp4a query_dp4a(cl_device_id device, uint32_t has) {
    enum { NV_MAJOR = 0x4000, NV_MINOR = 0x4001, AMD_MAJOR = 0x404a, PACKED_ACCELERATION = 0x1075 };
    cl_uint major = 0, minor = 0;
    cl_bool fast[6] = {CL_FALSE}; /* the first is signed int8 without saturation */
    if (has & TFM__HAS_NV_QUERIES && query_info(device, NV_MAJOR, &major, sizeof(major)) &&
        query_info(device, NV_MINOR, &minor, sizeof(minor)) && 10 * major + minor >= 61)
        return TFM__DP4A_NVIDIA;
    if (has & TFM__HAS_AMD_QUERIES && query_info(device, AMD_MAJOR, &major, sizeof(major)) && major >= 9)
        return major >= 11 ? TFM__DP4A_AMD_RDNA3 : TFM__DP4A_AMD;
    return has & TFM__HAS_INT_DOT && query_info(device, PACKED_ACCELERATION, fast, sizeof(fast)) && fast[0]
               ? TFM__DP4A_KHRONOS
               : TFM__DP4A_NONE;
}

/* CL_DEVICE_MAX_WORK_ITEM_SIZES; no answer means no limit. */
static void query_work_item_sizes(size_t out[3], cl_device_id device) {
    size_t items[16] = {0}; /* a device may have more than three dimensions */
    const bool answered = query_info(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, items, sizeof(items));
    for (int d = 0; d < 3; d++)
        out[d] = answered && items[d] > 0 ? items[d] : SIZE_MAX;
}

/* The limits that every device reports; *asked is the first query that fails. */
static cl_int query_limits(tfm__limits *out, const char **asked, cl_device_id device) {
    cl_ulong local = 0, most = 0;
    size_t group = 1;
    *asked = "CL_DEVICE_LOCAL_MEM_SIZE";
    cl_int error = clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof(local), &local, NULL);
    if (error == CL_SUCCESS) {
        *asked = "CL_DEVICE_MAX_MEM_ALLOC_SIZE";
        error = clGetDeviceInfo(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(most), &most, NULL);
    }
    if (error == CL_SUCCESS) {
        *asked = "CL_DEVICE_MAX_WORK_GROUP_SIZE";
        error = clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(group), &group, NULL);
    }
    *out = (tfm__limits){.max_group = group, .local_bytes = local, .max_alloc = most};
    query_work_item_sizes(out->max_items, device);
    return error;
}

cl_int tfm__capabilities_query(tfm__capabilities *out, const char **asked, cl_device_id device) {
    cl_uint width = 0;
    cl_bool images = CL_FALSE, unified = CL_FALSE;
    cl_device_local_mem_type type = 0;
    cl_device_fp_config config = 0;
    size_t parameters = 0;
    char profile[32];
    query_info(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, &width, sizeof(width));
    query_info(device, CL_DEVICE_LOCAL_MEM_TYPE, &type, sizeof(type));
    query_info(device, CL_DEVICE_IMAGE_SUPPORT, &images, sizeof(images));
    query_info(device, CL_DEVICE_HOST_UNIFIED_MEMORY, &unified, sizeof(unified));
    query_info(device, CL_DEVICE_SINGLE_FP_CONFIG, &config, sizeof(config));
    query_info(device, CL_DEVICE_MAX_PARAMETER_SIZE, &parameters, sizeof(parameters));
    tfm__cl_device_string(profile, sizeof(profile), device, CL_DEVICE_PROFILE);
    *out = (tfm__capabilities){.opencl_c = newest_opencl_c(device), .width = width, .parameter_bytes = parameters};
    const cl_int error = query_limits(&out->limits, asked, device);
    out->has = query_extensions(device, out->opencl_c) | query_cpu_features(device) |
               (strcmp(profile, "FULL_PROFILE") == 0 ? TFM__HAS_INT64 : 0) | (config & CL_FP_FMA ? TFM__HAS_FMA : 0) |
               (config & CL_FP_INF_NAN ? TFM__HAS_INF_NAN : 0) | (images ? TFM__HAS_IMAGES : 0) |
               (unified ? TFM__HAS_UNIFIED_MEMORY : 0) | (type == CL_LOCAL ? TFM__HAS_LOCAL_MEMORY : 0);
    out->mma = query_mma(device, out->has);
    out->dp4a = query_dp4a(device, out->has);
    return error;
}

tfm_status tfm__context_query_capabilities(tfm_context *ctx, cl_device_id device) {
    const char *asked;
    const cl_int error = tfm__capabilities_query(&ctx->capabilities, &asked, device);
    if (error == CL_SUCCESS)
        return TFM_OK;
    return tfm__context_fail(ctx, TFM_ERROR_DEVICE, "clGetDeviceInfo(%s) failed on %s with %s (%d): check its driver",
                             asked, ctx->info.name, tfm__cl_error_name(error), (int)error);
}

char *tfm__capability_options(const tfm__capabilities *caps, const char *source, const char *options) {
    uint32_t asked = 0;
    int needs = 12;
    for (size_t i = 0; i < TFM__COUNT(FEATURE_DEFINES); i++)
        asked |= strstr(source, FEATURE_DEFINES[i].word) ? FEATURE_DEFINES[i].bit & caps->has : 0;
    for (size_t i = 0; i < TFM__COUNT(EXTENSIONS); i++)
        if (asked & EXTENSIONS[i].bit && EXTENSIONS[i].needs > needs)
            needs = caps->opencl_c; /* a 3.0 device need not support 2.0 */
    char *out = tfm__format("-cl-std=CL%d.%d %s", needs / 10, needs % 10, options);
    for (size_t i = 0; out && i < TFM__COUNT(FEATURE_DEFINES); i++) {
        if (!(asked & FEATURE_DEFINES[i].bit))
            continue;
        char *more = tfm__format("%s -D%s", out, FEATURE_DEFINES[i].word);
        free(out);
        out = more;
    }
    return out;
}
