/* Device profiles: capabilities select the kernels, not the device name or type alone. llvmpipe is a CPU too, and runs
 * the CPU kernels five hundred times slower than the others. */
#include <string.h>
#include "dev/device/context_internal.h"

/* CPUs that vectorize within a work-item: items are large. A chunk is 16 KiB of floats, half of the L1 cache; a panel
 * group, 512 KiB, fits the L2 cache; the state of a block of queries stays in L1/L2, and copies of keys on a thread's
 * stack. Packing B pays off if it is read more than once or twice. Finished sequences are computed until the host
 * checks, so a CPU checks every step; from 32 rows on a step takes longer than reading the row count of the next.
 * Larger encoder-only batches were slower, by a sixth in one measurement. The KV cache stays F32: it mostly fits in
 * caches, and rounding costs two more launches per layer. */
#define CPU_PROFILE                                                                                                    \
    .class = TFM__CLASS_CPU, .group = 1, .chunk = 4096,                                                                \
    .gemm_order = {{.provider = "cpu-skinny"},                                                                         \
                   {.provider = "cpu-bf16"},                                                                           \
                   {.provider = "cpu-bf16x3", .min_rows = 256, .min_macs = 1 << 26},                                   \
                   {.provider = "cpu-packed"},                                                                         \
                   {.provider = "reference"}},                                                                         \
    .gemm_nr_vectors = 2, .gemm_tn_strip_tiles = 4, .gemm_pack_rows = 128, .gemm_panel_group_bytes = 512 << 10,        \
    .gemm_panel_group_min_items = 64, .gemm_tn_items = 32, .gemm_tn_min_k = 256, .gemm_tn_unpacked_strips = 8,         \
    .gemm_tn_shared_strips = 8, .attention_blocks = {{256, 64, 256}, {1024, 16, 16}, {INT64_MAX, 8, 8}},               \
    .attention_max_head_dim = 4096, .attention_backward_max_head_dim = 512, .encode_batch_tokens = 2048,               \
    .search_sync_interval = 1, .search_ragged_rows = 32

/* A tile of 12 x 2 vectors needs 32 registers, which also hold 8 x 2; 16 registers hold 6 x 2 and 4 x 2. */
#define TILE_32_REGISTERS .gemm_mr = 12, .gemm_mr_tail = 8
#define TILE_16_REGISTERS .gemm_mr = 6, .gemm_mr_tail = 4

/* GPU-style devices. A work-group uses a part of local memory, so that several are resident per core. A few decode
 * steps stay queued, and the KV cache is read from memory: a 16-bit one halves that, and the GEMMs write it directly.
 * Large attention tiles would be mostly empty for short sequences. */
#define GPU_PROFILE                                                                                                    \
    .class = TFM__CLASS_GPU, .width = 1, .gemm_skinny_rows = 32, .attention_shared_queries = 8,                        \
    .attention_shared_min_queries = 4, .attention_shared_max_head_dim = 256, .attention_shared_local_divisor = 4,      \
    .attention_tile_rows = 4, .attention_tile_min_rows = 128, .encode_batch_tokens = 4096, .search_sync_interval = 4,  \
    .kv_half = true

/* The first profile whose requirements are met is used. */
static const struct {
    bool cpu;      /* only CPUs */
    bool gpu;      /* only GPUs that are not emulated */
    bool fpga;     /* only accelerators */
    cl_uint width; /* least native float vector width */
    tfm__tuning tuning;
} TUNINGS[] = {
    {.cpu = true, .width = 16, .tuning = {.name = "cpu-512", CPU_PROFILE, TILE_32_REGISTERS, .width = 16}},
    {.cpu = true, .width = 8, .tuning = {.name = "cpu-256", CPU_PROFILE, TILE_16_REGISTERS, .width = 8}},
    {.cpu = true, .width = 4, .tuning = {.name = "cpu-128", CPU_PROFILE, TILE_16_REGISTERS, .width = 4}},
    /* Accelerators are pipelines: their compilers unroll and fill loops in groups of one item. They use the CPU
     * kernels, whose vectors are the unrolled part. */
    {.fpga = true, .tuning = {.name = "fpga", CPU_PROFILE, TILE_16_REGISTERS, .width = 4}},
    {.gpu = true,
     .tuning = {.name = "gpu",
                GPU_PROFILE,
                .group = 128,
                .chunk = 1,
                .int8_gpu = true,
                /* A group of 128 items reads too little at a time to saturate a core's memory bandwidth. Two tiles of
                 * keys, or 64 entries per item, take longer than combining the parts. */
                .split_workgroups = 4,
                .split_min_keys = 256,
                .split_min_logits = 8192,
                /* `tfm tune` puts CLBlast first where it is faster, e.g. on devices that it has parameters for. On an
                 * H100, for which it has none, it took 1.2 to 2.9 times as long as `gpu-tiled`, and its first GEMM
                 * compiles for seconds. It pads tiles to 32 rows and more, so few rows cost as much as many. */
                .gemm_order = {{.provider = "gpu-skinny"},
                               {.provider = "gpu-mma", .min_rows = 9}, /* its tiles have 16 rows or more */
                               {.provider = "gpu-tiled"},
                               {.provider = "clblast", .min_rows = 9},
                               {.provider = "reference"}}}},
    {.tuning = {.name = "scalar", GPU_PROFILE, .group = 32, .chunk = 8, .gemm_order = {{.provider = "reference"}}}},
};

const char *tfm_variant_name(size_t index) {
    return index < TFM__COUNT(TUNINGS) ? TUNINGS[index].tuning.name : NULL;
}

/* The index of the tuning, or TFM__COUNT(TUNINGS). */
static size_t tuning_index(const char *name) {
    size_t i = 0;
    while (i < TFM__COUNT(TUNINGS) && strcmp(TUNINGS[i].tuning.name, name) != 0)
        i++;
    return i;
}

tfm_status tfm__tuning_choose(tfm__tuning *out, const tfm__capabilities *capabilities, const tfm_device_info *info,
                              const char *variant) {
    const tfm__limits *limits = &capabilities->limits;
    const size_t most = limits->max_group < limits->max_items[0] ? limits->max_group : limits->max_items[0];
    size_t i = variant ? tuning_index(variant) : 0;
    while (!variant && i + 1 < TFM__COUNT(TUNINGS) &&
           ((TUNINGS[i].cpu && info->type != TFM_DEVICE_CPU) ||
            (TUNINGS[i].gpu && (info->type != TFM_DEVICE_GPU || info->emulator)) ||
            (TUNINGS[i].fpga && info->type != TFM_DEVICE_ACCELERATOR) || capabilities->width < TUNINGS[i].width))
        i++;
    if (i == TFM__COUNT(TUNINGS))
        return tfm__fail(TFM_ERROR_ARGUMENT, "there is no variant '%s': tfm_variant_name lists them", variant);
    tfm__tuning tuning = TUNINGS[i].tuning;
    tuning.fma = (capabilities->has & TFM__HAS_FMA) != 0;
    tuning.mma = capabilities->mma;
    tuning.dp4a = capabilities->dp4a;
    /* Up to 255 registers per item; with four rows, reads of local memory take longer than the FMAs. */
    if (tuning.class == TFM__CLASS_GPU && capabilities->mma == TFM__MMA_M16N8K16) {
        tuning.attention_tile_rows = 8;
        tuning.attention_resident_queries = true;
    }
    /* Intel's compiler spills if a GEMM item has 64 accumulators or prefetches 40 floats: the rest uses as many of the
     * 128 registers. GPUs with matrix cores can give 256 registers to half as many items. */
    if (tuning.class == TFM__CLASS_GPU && capabilities->has & TFM__HAS_INTEL_SUBGROUP_SIZE) {
        const bool has_dpas = capabilities->mma == TFM__MMA_DPAS_8 || capabilities->mma == TFM__MMA_DPAS_16;
        tuning.gemm_register_floats = 36;
        tuning.large_grf_option = has_dpas ? " -cl-intel-256-GRF-per-thread" : NULL;
    }
    tuning.avx512_bf16 = (capabilities->has & TFM__HAS_AVX512BF16) != 0;
    /* AVX512-BF16 instructions prepare the tiles' inputs. */
    tuning.amx_bf16 = tuning.avx512_bf16 && capabilities->has & TFM__HAS_AMX_BF16;
    tuning.amx_int8 = capabilities->has & TFM__HAS_AVX512VNNI && capabilities->has & TFM__HAS_AMX_INT8;
    while ((size_t)tuning.group > most && tuning.group > 1)
        tuning.group /= 2;
    *out = tuning;
    return TFM_OK;
}
