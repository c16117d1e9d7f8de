/* Tuning data: what a device is good at decides which kernels it gets, never its name alone. llvmpipe is a CPU too, and
 * runs the wide kernels five hundred times slower than the others. */
#include <string.h>
#include "dev/cl.h"

/* The first row whose demands are met is taken. */
static const struct {
    bool cpu;        /* only CPUs */
    bool gpu;        /* only GPUs that are no emulator */
    cl_uint width;   /* least native float vector width */
    tfm__row row;
} ROWS[] = {
    {true, false, 16, {"wide-16", TFM__WIDE, 16, 1, 4096, false, 12, 2, false}},
    {true, false, 8, {"wide-8", TFM__WIDE, 8, 1, 4096, false, 6, 2, false}},
    {true, false, 4, {"wide-4", TFM__WIDE, 4, 1, 4096, false, 6, 2, false}},
    {false, true, 0, {"gpu", TFM__SIMT, 1, 128, 1, false, 0, 0, true}},
    {false, false, 0, {"scalar", TFM__SIMT, 1, 32, 8, false, 0, 0, false}},
};

const char *tfm_variant_name(size_t index) {
    return index < TFM_COUNT(ROWS) ? ROWS[index].row.name : NULL;
}

/* The row of that name, or TFM_COUNT(ROWS). */
static size_t row_named(const char *name) {
    size_t i = 0;
    while (i < TFM_COUNT(ROWS) && strcmp(ROWS[i].row.name, name) != 0)
        i++;
    return i;
}

void tfm__max_items(size_t out[3], cl_device_id device) {
    size_t items[16] = {0}; /* a device may have more dimensions than three */
    const cl_int error = clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof(items), items, NULL);
    for (int d = 0; d < 3; d++)
        out[d] = error == CL_SUCCESS && items[d] > 0 ? items[d] : SIZE_MAX;
}

tfm_status tfm__row_choose(tfm__row *out, cl_device_id device, const tfm_device_info *info, const char *variant) {
    cl_uint width = 0;
    size_t max_group = 1, max_items[3];
    cl_device_fp_config config = 0;
    clGetDeviceInfo(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, sizeof(width), &width, NULL);
    clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(max_group), &max_group, NULL);
    clGetDeviceInfo(device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof(config), &config, NULL);
    size_t i = variant ? row_named(variant) : 0;
    while (!variant && i + 1 < TFM_COUNT(ROWS) &&
           ((ROWS[i].cpu && info->type != TFM_DEVICE_CPU) ||
            (ROWS[i].gpu && (info->type != TFM_DEVICE_GPU || info->emulator)) || width < ROWS[i].width))
        i++;
    if (i == TFM_COUNT(ROWS))
        return tfm__fail(TFM_ERROR_ARGUMENT, "there is no variant '%s': tfm_variant_name lists them", variant);
    tfm__row row = ROWS[i].row;
    row.fma = (config & CL_FP_FMA) != 0;
    tfm__max_items(max_items, device);
    while ((size_t)row.group > (max_group < max_items[0] ? max_group : max_items[0]) && row.group > 1)
        row.group /= 2;
    *out = row;
    return TFM_OK;
}
