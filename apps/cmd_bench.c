/* tfm bench: how fast is this device? */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench.h"
#include <tfm/ops.h>

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

bool bench_wanted(const char *list, const char *name) {
    const size_t length = strlen(name);
    while (list && *list) {
        const size_t word = strcspn(list, ",");
        if (word == length && strncmp(list, name, word) == 0)
            return true;
        list += word + (list[word] == ',');
    }
    return !list;
}

int bench_numbers_of(int64_t *out, const char *text, int least, int most, const char **rest) {
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

/* What --variant calls all that run here. */
static const char ALL[] = "all";

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
    cli_put_device(first, own);
    if (!options->variants)
        return code;
    /* "all" are its own, and after it in the table those that ask less of a device. */
    const bool all = strcmp(options->variants, ALL) == 0;
    bool after = !all;
    for (size_t i = 0; tfm_variant_name(i) && code == CLI_OK && devices->count < BENCH_VARIANTS; i++) {
        const char *name = tfm_variant_name(i);
        if (after && strcmp(name, own) != 0 && (all || bench_wanted(options->variants, name)))
            code = add_context(devices, options->device, name);
        after = after || strcmp(name, own) == 0;
    }
    if (code == CLI_OK && !all && !bench_wanted(options->variants, own)) {
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

float *bench_numbers(size_t count) {
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
    float *host = bench_numbers(tfm_tensor_count(x));
    if (host)
        tfm_tensor_write(ctx, x, host);
    free(host);
    return x;
}

/* ---- The command ---- */

static const struct {
    const char *name;
    int (*run)(const cli_syntax *syntax, const bench_options *options, int count, char **operands);
} BENCHES[] = {
    {"gemm", bench_gemm},
    {"attention", bench_attention},
    {"norm", bench_norm},
    {"translate", bench_translate},
};

/* An option that is of one bench alone. */
typedef struct own_option {
    const char *name, *bench;
    bool given;
} own_option;

/* What an option of another bench asks for would be left out without a word. */
static int check_own(const cli_syntax *syntax, const char *bench, const own_option *options, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (options[i].given && strcmp(options[i].bench, bench) != 0)
            return cli_misuse(syntax, "--%s is for %s, and this is %s", options[i].name, options[i].bench, bench);
    return CLI_GO;
}

/* Lists of variants and providers hold no name that there is not. */
static int check_list(const cli_syntax *syntax, const char *option, const char *list, const char *(*name)(size_t),
                      const char *extra) {
    if (list && !*list)
        return cli_misuse(syntax, "--%s names none", option);
    while (list && *list) {
        char word[32];
        const size_t length = strcspn(list, ",");
        snprintf(word, sizeof(word), "%.*s", (int)length, list);
        bool known = extra && strcmp(word, extra) == 0;
        for (size_t i = 0; name(i) && !known; i++)
            known = strcmp(word, name(i)) == 0;
        if (!known)
            return cli_misuse(syntax, "there is no %s '%s'", option, word);
        list += length + (list[length] == ',');
    }
    return CLI_GO;
}

int bench_cores(void) {
    cpu_set_t set;
    const int online = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : online;
}

/* PoCL's threads each stay on a core. Else the system may wake two of them on one, where another contestant has just
 * used the others, and leave them there for longer than a turn: a rate was then that of one core. PoCL counts cores
 * from the first, whatever the process may use: where that is not all of them, as after taskset, its threads are only
 * made as many as there are cores to use. */
static void keep_to_cores(void) {
    const int cores = bench_cores();
    char number[16];
    if (cores >= sysconf(_SC_NPROCESSORS_ONLN)) {
        setenv("POCL_AFFINITY", "1", 0);
        return;
    }
    snprintf(number, sizeof(number), "%d", cores);
    setenv("POCL_MAX_PTHREAD_COUNT", number, 0);
    setenv("POCL_CPU_MAX_CU_COUNT", number, 0); /* its name from PoCL 4 on */
}

int cmd_bench(int argc, char **argv) {
    bench_options o = {.rounds = 15};
    int precision = 0;
    bool precision_given = false;
    const cli_option options[] = {
        CLI_DEVICE(&o.device),
        {0, "json", CLI_FLAG, &o.json, NULL, "write a JSON object for each measurement instead of tables", NULL},
        {0, "variant", CLI_TEXT, &o.variants, "NAME,...|all",
         "time the kernels made for these kinds of device (wide-16, wide-8, wide-4, task, gpu, scalar) instead of for "
         "this one; all: for this one and for those that ask less of a device",
         NULL},
        {0, "provider", CLI_TEXT, &o.providers, "NAME,...",
         "gemm: time only these of small, dots, thirds, packed, rows, tiled, plain, engine, clblast and openblas",
         NULL},
        {0, "runs", CLI_INT, &o.rounds, "N", "the number of rounds (default 15); what is slow gets fewer", NULL},
        {0, "precision", CLI_CHOICE, &precision, "fp32|fp16|bf16|int8",
         "gemm: time layers whose weights are of 16 bits or bytes beside fp32 (default fp32 alone)", &precision_given},
        {0, "accumulate", CLI_FLAG, &o.accumulate, NULL, "gemm: add to the result instead of writing it", NULL},
        {0, "causal", CLI_FLAG, &o.causal, NULL, "attention: queries see no later keys in the shapes given", NULL},
        {0, "backward", CLI_FLAG, &o.backward, NULL, "attention: time forward and backward together", NULL},
        {'m', "model", CLI_TEXT, &o.model, "DIR", "translate: the model's directory", NULL},
        {'i', "input", CLI_TEXT, &o.input, "FILE",
         "translate: the lines to translate instead of some that are built in", NULL},
    };
    const cli_syntax syntax = {
        .name = "bench",
        .usage = "bench gemm|attention|norm|translate [option...] [SHAPE...]",
        .about = "Times every provider of an operation on one device, in turns, and prints the\n"
                 "medians of each table as soon as it is ready. With --variant, kernels made for\n"
                 "other kinds of device run beside them.\n"
                 "A SHAPE is tiny, small, base or big, for the sizes of that Transformer, or\n"
                 "  gemm        MxNxK; two letters n or t after it say whether a and b are\n"
                 "              transposed: 512x512x4096tn\n"
                 "  attention   BxHxTxD or BxHxTxSxD: batch, heads, targets, sources, head width\n"
                 "  norm        ROWSxCOLUMNS\n"
                 "'packed' multiplies by a matrix that it packed once, as a layer does; 'packed\n"
                 "fresh' packs it every time. A star marks what tfm takes by itself. If tfm was\n"
                 "built with OpenBLAS, it runs beside them on all cores. norm counts bytes read\n"
                 "and written, and times a copy beside it; attention times a product of\n"
                 "1024x1024x1024 beside it.\n",
        .examples = "  tfm bench gemm\n  tfm bench gemm 256x512x512 8x2048x512 --variant wide-16\n"
                    "  tfm bench gemm 256x512x512 1x2048x512 --precision int8\n"
                    "  tfm bench attention 1x8x1024x64 --causal --backward\n  tfm bench norm 4096x1024 --json\n"
                    "  tfm bench translate -m apps/demo\n",
        .options = options,
        .option_count = CLI_COUNT(options),
        .operands = 1,
        .more = true,
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_GO)
        return code;
    code = check_list(&syntax, "variant", o.variants, tfm_variant_name,
                      o.variants && strcmp(o.variants, ALL) == 0 ? ALL : NULL);
    if (code == CLI_GO)
        code = check_list(&syntax, "provider", o.providers, tfm_gemm_provider, "openblas");
    if (code != CLI_GO)
        return code;
    o.stored = (const tfm_dtype[]){TFM_F32, TFM_F16, TFM_BF16, TFM_I8}[precision];
    keep_to_cores();
    const char *name = argv[optind];
    const own_option own[] = {
        {"provider", "gemm", o.providers}, {"precision", "gemm", precision_given}, {"accumulate", "gemm", o.accumulate},
        {"causal", "attention", o.causal}, {"backward", "attention", o.backward},  {"model", "translate", o.model},
        {"input", "translate", o.input},
    };
    for (size_t i = 0; i < CLI_COUNT(BENCHES); i++)
        if (strcmp(name, BENCHES[i].name) == 0) {
            code = check_own(&syntax, name, own, CLI_COUNT(own));
            return code == CLI_GO ? BENCHES[i].run(&syntax, &o, argc - optind - 1, argv + optind + 1) : code;
        }
    return cli_misuse(&syntax, "there is no bench '%s': give one of gemm, attention, norm, translate", name);
}
