/* The list of devices. A platform or device that fails is a row with its error; the others are still listed. */
#include <stdio.h>
#include <string.h>
#include "dev/device/device_select.h"
#include "dev/pocl/env.h"

/* The baseline: OpenCL 1.2. */
#define NEEDED_MAJOR 1
#define NEEDED_MINOR 2

/* Names of software that emulates a GPU or an FPGA: correct and very slow. */
static const char *const EMULATORS[] = {"llvmpipe", "softpipe", "lavapipe", "swrast",      "swiftshader",
                                        "emulat",   "simulat",  "oclgrind", "basic render"};

static bool is_emulator(const tfm_device_info *info) {
    for (size_t i = 0; i < TFM__COUNT(EMULATORS); i++)
        if (tfm__contains(info->name, EMULATORS[i]) || tfm__contains(info->platform, EMULATORS[i]) ||
            tfm__contains(info->opencl, EMULATORS[i]))
            return true;
    return false;
}

static tfm_device_type type_of(cl_device_type bits) {
    if (bits & CL_DEVICE_TYPE_GPU)
        return TFM_DEVICE_GPU;
    if (bits & CL_DEVICE_TYPE_ACCELERATOR)
        return TFM_DEVICE_ACCELERATOR;
    return bits & CL_DEVICE_TYPE_CPU ? TFM_DEVICE_CPU : TFM_DEVICE_OTHER;
}

/* Properties that a usable device must report. */
struct device_numbers {
    cl_device_type type;
    cl_bool available, compiler, little;
    cl_uint units;
    cl_ulong memory, max_alloc;
};

/* Queries all of them; *asked is the name of the first that fails. */
static cl_int query_numbers(struct device_numbers *out, const char **asked, cl_device_id device) {
    const struct {
        cl_device_info what;
        const char *name;
        void *value;
        size_t size;
    } QUERIES[] = {
        {CL_DEVICE_TYPE, "CL_DEVICE_TYPE", &out->type, sizeof(out->type)},
        {CL_DEVICE_AVAILABLE, "CL_DEVICE_AVAILABLE", &out->available, sizeof(out->available)},
        {CL_DEVICE_COMPILER_AVAILABLE, "CL_DEVICE_COMPILER_AVAILABLE", &out->compiler, sizeof(out->compiler)},
        {CL_DEVICE_ENDIAN_LITTLE, "CL_DEVICE_ENDIAN_LITTLE", &out->little, sizeof(out->little)},
        {CL_DEVICE_MAX_COMPUTE_UNITS, "CL_DEVICE_MAX_COMPUTE_UNITS", &out->units, sizeof(out->units)},
        {CL_DEVICE_GLOBAL_MEM_SIZE, "CL_DEVICE_GLOBAL_MEM_SIZE", &out->memory, sizeof(out->memory)},
        {CL_DEVICE_MAX_MEM_ALLOC_SIZE, "CL_DEVICE_MAX_MEM_ALLOC_SIZE", &out->max_alloc, sizeof(out->max_alloc)},
    };
    cl_int error = CL_SUCCESS;
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < TFM__COUNT(QUERIES) && error == CL_SUCCESS; i++) {
        *asked = QUERIES[i].name;
        error = clGetDeviceInfo(device, QUERIES[i].what, QUERIES[i].size, QUERIES[i].value, NULL);
    }
    return error;
}

/* Name, OpenCL version and profile; *asked is the first that fails. */
static cl_int query_texts(tfm_device_info *info, char *profile, size_t size, const char **asked, cl_device_id device) {
    *asked = "CL_DEVICE_NAME";
    cl_int error = tfm__cl_query_string(info->name, sizeof(info->name), NULL, device, CL_DEVICE_NAME);
    if (error == CL_SUCCESS) {
        *asked = "CL_DEVICE_VERSION";
        error = tfm__cl_query_string(info->opencl, sizeof(info->opencl), NULL, device, CL_DEVICE_VERSION);
    }
    if (error == CL_SUCCESS) {
        *asked = "CL_DEVICE_PROFILE";
        error = tfm__cl_query_string(profile, size, NULL, device, CL_DEVICE_PROFILE);
    }
    return error;
}

/* A feature that tfm needs and the embedded profile makes optional, if missing; else NULL. */
static const char *missing_feature(const tfm__capabilities *capabilities, const char *profile) {
    if (strcmp(profile, "FULL_PROFILE") == 0)
        return NULL;
    if (!(capabilities->has & TFM__HAS_INT64))
        return "64-bit integers (cles_khr_int64)";
    if (capabilities->parameter_bytes < 512 || capabilities->limits.local_bytes < 16384)
        return "512 bytes of arguments and 16 KiB of local memory (CL_DEVICE_MAX_PARAMETER_SIZE, "
               "CL_DEVICE_LOCAL_MEM_SIZE)";
    return capabilities->has & TFM__HAS_INF_NAN ? NULL : "infinity and NaN (CL_FP_INF_NAN)";
}

/* Fills a row; the first missing or insufficient property becomes its error. */
static void describe(tfm_device_info *info, cl_device_id device) {
    struct device_numbers answers = {0};
    tfm__capabilities capabilities;
    int major = 0, minor = 0;
    const char *asked, *limit, *lack = NULL;
    char profile[32];
    cl_int error = query_texts(info, profile, sizeof(profile), &asked, device);
    if (error == CL_SUCCESS)
        error = query_numbers(&answers, &asked, device);
    const cl_int limit_error = tfm__capabilities_query(&capabilities, &limit, device);
    if (error == CL_SUCCESS) {
        error = limit_error;
        asked = limit;
    }
    if (!info->name[0]) /* for messages */
        snprintf(info->name, sizeof(info->name), "a device without a name");
    tfm__cl_device_string(info->vendor, sizeof(info->vendor), device, CL_DEVICE_VENDOR);
    tfm__cl_device_string(info->driver, sizeof(info->driver), device, CL_DRIVER_VERSION);
    info->type = type_of(answers.type);
    info->compiler = answers.compiler == CL_TRUE;
    info->integrated = info->type == TFM_DEVICE_GPU && capabilities.has & TFM__HAS_UNIFIED_MEMORY;
    info->compute_units = answers.units;
    info->memory_bytes = answers.memory;
    info->max_alloc_bytes = answers.max_alloc;
    info->fp16 = capabilities.has & TFM__HAS_FP16;
    info->emulator = is_emulator(info);
    if (error != CL_SUCCESS)
        snprintf(info->error, sizeof(info->error), "clGetDeviceInfo(%s) failed with %s (%d): check its driver", asked,
                 tfm__cl_error_name(error), (int)error);
    else if (answers.available != CL_TRUE)
        snprintf(info->error, sizeof(info->error), "the driver says that the device is not available now");
    else if (sscanf(info->opencl, "OpenCL %d.%d", &major, &minor) != 2 || major < NEEDED_MAJOR ||
             (major == NEEDED_MAJOR && minor < NEEDED_MINOR))
        snprintf(info->error, sizeof(info->error), "it reports \"%s\", and tfm needs OpenCL %d.%d or later",
                 info->opencl, NEEDED_MAJOR, NEEDED_MINOR);
    else if ((answers.little == CL_TRUE) != (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__))
        snprintf(info->error, sizeof(info->error), "its byte order is different from the host's: name another device");
    else if (info->compiler && capabilities.opencl_c > 0 && capabilities.opencl_c < 12)
        snprintf(info->error, sizeof(info->error),
                 "its compiler takes OpenCL C %d.%d at most and tfm's kernels are OpenCL C 1.2: update its driver, or "
                 "name another device",
                 capabilities.opencl_c / 10, capabilities.opencl_c % 10);
    else if ((lack = missing_feature(&capabilities, profile)))
        snprintf(info->error, sizeof(info->error),
                 "its profile is \"%s\", without %s, which tfm needs: name another device", profile, lack);
}

/* Why a platform lists no devices, and what to do. `code` is the result of clGetDeviceIDs. */
static void explain_empty(char *out, size_t size, const char *platform, cl_int code) {
    const char *enabled = getenv("RUSTICL_ENABLE");
    if (code != CL_SUCCESS && code != CL_DEVICE_NOT_FOUND)
        snprintf(out, size, "clGetDeviceIDs failed with %s (%d): check its driver", tfm__cl_error_name(code),
                 (int)code);
    else if (strcmp(platform, TFM__POCL) == 0 && tfm__pocl_cache_error(out, size))
        return;
    else if (strcmp(platform, "rusticl") == 0 && enabled && enabled[0])
        snprintf(out, size,
                 "Mesa finds no device for RUSTICL_ENABLE=%.60s: name another driver, or see to the rights "
                 "to /dev/dri (groups render and video)",
                 enabled);
    else if (strcmp(platform, "rusticl") == 0)
        snprintf(out, size,
                 "it lists only devices whose Mesa driver is named: set RUSTICL_ENABLE=iris for Intel, radeonsi for "
                 "AMD, nouveau for NVIDIA, llvmpipe for the CPU");
    else
        snprintf(out, size, "the platform has no devices (%s)", tfm__cl_error_name(CL_DEVICE_NOT_FOUND));
}

static tfm__device *grow(tfm__device **rows, size_t *count) {
    tfm__device *bigger = tfm__realloc(*rows, *count + 1, sizeof(**rows));
    if (!bigger)
        return NULL;
    *rows = bigger;
    tfm__device *row = &bigger[(*count)++];
    memset(row, 0, sizeof(*row));
    return row;
}

/* Appends a platform's devices, or one row with the reason why there are none. `index` counts devices, not rows. */
static tfm_status add_platform(tfm__device **rows, size_t *count, int *index, int platform_index,
                               cl_platform_id platform) {
    char name[sizeof((*rows)->info.platform)], vendor[sizeof((*rows)->platform_vendor)];
    tfm__cl_query_string(name, sizeof(name), platform, NULL, CL_PLATFORM_NAME);
    tfm__cl_query_string(vendor, sizeof(vendor), platform, NULL, CL_PLATFORM_VENDOR);
    cl_uint found = 0;
    cl_device_id *ids = NULL;
    const cl_device_type all = CL_DEVICE_TYPE_ALL;
    cl_int error = clGetDeviceIDs(platform, all, 0, NULL, &found);
    if (error == CL_SUCCESS && found > 0) {
        ids = tfm__alloc(found, sizeof(*ids));
        if (!ids)
            return TFM_ERROR_MEMORY;
        error = clGetDeviceIDs(platform, all, found, ids, NULL);
    }
    bool listed = error == CL_SUCCESS && found > 0;
    tfm_status status = TFM_OK;
    for (cl_uint i = 0; i < (listed ? found : 1) && status == TFM_OK; i++) {
        tfm__device *row = grow(rows, count);
        if (!row) {
            status = TFM_ERROR_MEMORY;
            break;
        }
        tfm_device_info *info = &row->info;
        row->platform = platform;
        row->device = listed ? ids[i] : NULL;
        memcpy(row->platform_vendor, vendor, sizeof(vendor));
        memcpy(info->platform, name, sizeof(name));
        info->platform_index = platform_index;
        info->index = listed ? (*index)++ : -1;
        info->device_index = listed ? (int)i : -1;
        info->type = TFM_DEVICE_OTHER;
        if (listed)
            describe(info, row->device);
        else
            explain_empty(info->error, sizeof(info->error), name, error);
    }
    free(ids);
    return status;
}

/* All platforms, for free(). Having none is common on a new machine, so the message says what to install. */
static tfm_status find_platforms(cl_platform_id **out, cl_uint *count) {
    const char *vendors = getenv("OCL_ICD_VENDORS");
    *out = NULL;
    *count = 0;
    tfm__pocl_prepare();
    cl_int error = clGetPlatformIDs(0, NULL, count);
    if (error == -1001 || (error == CL_SUCCESS && *count == 0))
        return tfm__fail(TFM_ERROR_DEVICE,
                         "no OpenCL platform is installed: for CPUs install the Debian package pocl-opencl-icd, for a "
                         "GPU its vendor's OpenCL driver%s%s%s",
                         vendors ? " (OCL_ICD_VENDORS is set to \"" : "", vendors ? vendors : "",
                         vendors ? "\" and the loader looks for drivers only there: unset it?)" : "");
    if (error == CL_SUCCESS) {
        *out = tfm__alloc(*count, sizeof(**out));
        if (!*out)
            return TFM_ERROR_MEMORY;
        error = clGetPlatformIDs(*count, *out, NULL);
    }
    if (error == CL_SUCCESS)
        return TFM_OK;
    free(*out);
    *out = NULL;
    return tfm__fail(TFM_ERROR_DEVICE, "clGetPlatformIDs failed with %s (%d): check the OpenCL drivers",
                     tfm__cl_error_name(error), (int)error);
}

tfm_status tfm__devices_find(tfm__device **out, size_t *count) {
    cl_platform_id *platforms;
    cl_uint platform_count;
    int index = 0;
    *out = NULL;
    *count = 0;
    tfm_status status = find_platforms(&platforms, &platform_count);
    for (cl_uint i = 0; i < platform_count && status == TFM_OK; i++)
        status = add_platform(out, count, &index, (int)i, platforms[i]);
    free(platforms);
    if (status == TFM_OK)
        tfm__log(TFM_LOG_DEBUG, "%d devices on %u platforms", index, (unsigned)platform_count);
    if (status != TFM_OK) {
        free(*out);
        *out = NULL;
        *count = 0;
    }
    return status;
}

tfm_status tfm__device_describe(tfm_device_info *out, cl_platform_id *platform, cl_device_id device) {
    memset(out, 0, sizeof(*out));
    out->index = out->platform_index = out->device_index = -1;
    *platform = NULL;
    cl_int error = clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof(*platform), platform, NULL);
    if (error != CL_SUCCESS)
        return tfm__fail(TFM_ERROR_DEVICE, "the cl_device_id is invalid: clGetDeviceInfo failed with %s (%d)",
                         tfm__cl_error_name(error), (int)error);
    tfm__cl_query_string(out->platform, sizeof(out->platform), *platform, NULL, CL_PLATFORM_NAME);
    describe(out, device);
    if (out->error[0])
        return tfm__fail(TFM_ERROR_DEVICE, "device \"%s\" cannot be used: %s", out->name, out->error);
    tfm__device *rows;
    size_t count;
    if (tfm__devices_find(&rows, &count) == TFM_OK) {
        for (size_t i = 0; i < count; i++)
            if (rows[i].device == device)
                *out = rows[i].info;
        free(rows);
    }
    return TFM_OK;
}

const char *const tfm__fingerprint_field_names[TFM__FINGERPRINT_FIELDS] = {"platform", "platform_version", "name",
                                                                           "vendor",   "driver",           "opencl"};

tfm_status tfm__device_fingerprint_query(tfm__device_fingerprint *out, cl_device_id device) {
    static const cl_uint ASKED[] = {CL_PLATFORM_NAME, CL_PLATFORM_VERSION, CL_DEVICE_NAME,
                                    CL_DEVICE_VENDOR, CL_DRIVER_VERSION,   CL_DEVICE_VERSION};
    cl_platform_id platform = NULL;
    cl_int error = clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof(platform), &platform, NULL);
    for (size_t i = 0; i < TFM__COUNT(ASKED) && error == CL_SUCCESS; i++)
        error = tfm__cl_query_string(out->text[i], sizeof(out->text[i]), platform, i < 2 ? NULL : device, ASKED[i]);
    if (error == CL_SUCCESS)
        return TFM_OK;
    return tfm__fail(TFM_ERROR_DEVICE, "the OpenCL driver does not identify the device: %s (%d)",
                     tfm__cl_error_name(error), (int)error);
}

char *tfm__device_fingerprint_text(cl_device_id device) {
    tfm__device_fingerprint fingerprint;
    if (tfm__device_fingerprint_query(&fingerprint, device) != TFM_OK)
        return NULL;
    return tfm__format("%s | %s | %s | %s | %s | %s", fingerprint.text[0], fingerprint.text[1], fingerprint.text[2],
                       fingerprint.text[3], fingerprint.text[4], fingerprint.text[5]);
}
