/* Shared by the benches: sizes of models, shapes, devices and random numbers. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/bench.h"

int bench_cores(void) {
    cpu_set_t set;
    const int online = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : online;
}

const bench_model bench_models[BENCH_MODELS] = {
    {"tiny", 128, 4, 256, 8000},
    {"small", 256, 8, 1024, 8000},
    {"base", 512, 8, 2048, 32000},
    {"big", 1024, 16, 4096, 32000},
};

const bench_model *bench_model_named(const char *name) {
    for (size_t i = 0; i < BENCH_MODELS; i++)
        if (strcmp(name, bench_models[i].name) == 0)
            return &bench_models[i];
    return NULL;
}

bool bench_is_selected(const char *list, const char *name) {
    const size_t length = strlen(name);
    while (list && *list) {
        const size_t word = strcspn(list, ",");
        if (word == length && strncmp(list, name, word) == 0)
            return true;
        list += word + (list[word] == ',');
    }
    return !list;
}

int bench_parse_shape(int64_t *out, const char *text, int least, int most, const char **rest) {
    int count = 0;
    for (;; text++) {
        char *end;
        errno = 0;
        const long number = *text >= '1' && *text <= '9' ? strtol(text, &end, 10) : 0;
        if (number < 1 || number > INT32_MAX || errno || count == most)
            return 0;
        out[count++] = number;
        text = end;
        if (*text != 'x')
            break;
    }
    if (rest)
        *rest = text;
    return count >= least && (rest || !*text) ? count : 0;
}

/* ---- Devices and numbers ---- */

static int add_context(bench_devices *devices, const char *device, const char *variant) {
    tfm_context *ctx;
    if (tfm_context_open(&ctx, &(tfm_context_options){.device = device, .variant = variant}) != TFM_OK)
        return cli_fail_library();
    devices->contexts[devices->count++] = ctx;
    return tfm_scope_open(ctx) == TFM_OK ? CLI_OK : cli_fail_library();
}

int bench_devices_open(bench_devices *devices, const bench_options *options) {
    *devices = (bench_devices){0};
    int code = add_context(devices, options->device, NULL);
    if (code != CLI_OK)
        return code;
    tfm_context *first = devices->contexts[0];
    const char *own = devices->own = tfm_context_variant(first);
    cli_print_device(first, own);
    if (!options->variants)
        return code;
    /* "all": the device's own, and the less demanding ones after it in the table */
    const bool all = strcmp(options->variants, BENCH_ALL) == 0;
    bool after = !all;
    for (size_t i = 0; tfm_variant_name(i) && code == CLI_OK && devices->count < BENCH_VARIANTS; i++) {
        const char *name = tfm_variant_name(i);
        if (after && strcmp(name, own) != 0 && (all || bench_is_selected(options->variants, name)))
            code = add_context(devices, options->device, name);
        after = after || strcmp(name, own) == 0;
    }
    if (code == CLI_OK && !all && !bench_is_selected(options->variants, own)) {
        tfm_context_free(&devices->contexts[0]);
        devices->count--;
        memmove(devices->contexts, devices->contexts + 1, devices->count * sizeof(first));
    }
    return code;
}

void bench_devices_free(bench_devices *devices) {
    for (size_t i = 0; i < devices->count; i++)
        tfm_context_free(&devices->contexts[i]);
}

float *bench_random_floats(size_t count) {
    float *host = malloc(count * sizeof(*host));
    uint32_t state = 2017;
    for (size_t i = 0; host && i < count; i++) {
        state = state * 1664525u + 1013904223u;
        host[i] = (float)(state >> 8) * 0x1p-23f - 1.0f;
    }
    return host;
}

tfm_tensor bench_fill(tfm_context *ctx, int rank, const int64_t *dims) {
    tfm_tensor x = {0};
    if (tfm_tensor_new(ctx, &x, TFM_F32, rank, dims) != TFM_OK)
        return x;
    float *host = bench_random_floats(tfm_tensor_count(x));
    if (host)
        tfm_tensor_write(ctx, x, host);
    free(host);
    return x;
}
