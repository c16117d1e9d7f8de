/* tfm bench: throughput of a device's ops. */
#include <getopt.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/bench.h"
#include <tfm/ops.h>

static const struct {
    const char *name;
    int (*run)(const cli_syntax *syntax, const bench_options *options, int count, char **operands);
} BENCHES[] = {
    {"gemm", bench_gemm},           {"attention", bench_attention}, {"norm", bench_norm},
    {"translate", bench_translate}, {"generate", bench_generate},
};

/* An option of one bench, or of two: "gemm and generate". */
typedef struct bench_only_option {
    const char *name, *benches;
    bool given;
} bench_only_option;

/* Rejects options of another bench, which would be ignored silently. */
static int check_bench_options(const cli_syntax *syntax, const char *bench, const bench_only_option *options,
                               size_t count) {
    for (size_t i = 0; i < count; i++)
        if (options[i].given && !strstr(options[i].benches, bench)) /* no name is a part of another */
            return cli_usage_error(syntax, "--%s is for %s, and this is %s", options[i].name, options[i].benches,
                                   bench);
    return CLI_CONTINUE;
}

static int unknown_name(const cli_syntax *syntax, const char *option, const char *word, const char *(*name)(size_t),
                        const char *extra) {
    char all[512] = "";
    size_t at = 0;
    for (size_t i = 0; name(i) && at < sizeof(all); i++)
        at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%s", i ? ", " : "", name(i));
    return cli_usage_error(syntax, "there is no %s '%s': give some of %s, %s", option, word, all, extra);
}

/* Rejects unknown names in lists of variants and providers. */
static int check_list(const cli_syntax *syntax, const char *option, const char *list, const char *(*name)(size_t),
                      const char *extra) {
    if (list && !*list)
        return cli_usage_error(syntax, "--%s names none", option);
    while (list && *list) {
        char word[32];
        const size_t length = strcspn(list, ",");
        snprintf(word, sizeof(word), "%.*s", (int)length, list);
        bool known = extra && strcmp(word, extra) == 0;
        for (size_t i = 0; name(i) && !known; i++)
            known = strcmp(word, name(i)) == 0;
        if (!known)
            return unknown_name(syntax, option, word, name, extra ? extra : BENCH_ALL);
        list += length + (list[length] == ',');
    }
    return CLI_CONTINUE;
}

static int check_lists(const cli_syntax *syntax, const bench_options *o) {
    const char *all = o->variants && strcmp(o->variants, BENCH_ALL) == 0 ? BENCH_ALL : NULL;
    const int code = check_list(syntax, "variant", o->variants, tfm_variant_name, all);
    return code == CLI_CONTINUE ? check_list(syntax, "provider", o->providers, tfm_gemm_provider, "openblas") : code;
}

/* Pins PoCL's threads to cores. Otherwise two may share a core for longer than a turn, after another contestant used
 * the other cores, and the measured rate is that of one core. PoCL numbers cores from the first, even after taskset: if
 * the process may not use all cores, only the number of threads is set. */
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

/* Runs the bench named by the first operand; the others are its shapes or models. */
static int run(const cli_syntax *syntax, const bench_options *o, const bench_only_option *own, size_t own_count,
               int count, char **operands) {
    for (size_t i = 0; i < CLI_COUNT(BENCHES); i++)
        if (strcmp(operands[0], BENCHES[i].name) == 0) {
            const int code = check_bench_options(syntax, operands[0], own, own_count);
            return code == CLI_CONTINUE ? BENCHES[i].run(syntax, o, count - 1, operands + 1) : code;
        }
    return cli_usage_error(syntax,
                           "there is no bench '%s': give one of gemm, attention, norm, translate, "
                           "generate",
                           operands[0]);
}

int cmd_bench(int argc, char **argv) {
    bench_options o = {.rounds = 15, .prompt_tokens = 512, .new_tokens = 128, .batch_size = 1};
    bool precision = false, kv_precision = false, prompt_tokens = false, new_tokens = false, batch_size = false;
    const cli_option options[] = {
        CLI_DEVICE(&o.device),
        {0, "json", CLI_FLAG, &o.json, NULL, "write a JSON object for each measurement instead of tables", NULL},
        {0, "variant", CLI_STRING, &o.variants, "NAME,...|all",
         "time the kernels made for these kinds of device (cpu-512, cpu-256, cpu-128, fpga, gpu, scalar) instead of "
         "for this one; all: for this one and those after it in this list",
         NULL},
        {0, "provider", CLI_STRING, &o.providers, "NAME,...",
         "gemm: time only these providers: cpu-skinny, cpu-bf16, cpu-bf16x3, cpu-packed, gpu-skinny, gpu-tiled, "
         "reference, "
         "gpu-mma, clblast, int8 and openblas",
         NULL},
        {0, "runs", CLI_POSITIVE, &o.rounds, "N", "the number of rounds (default 15); fewer for slow tasks", NULL},
        {0, "precision", CLI_CHOICE, &o.precision, "auto|fp32|fp16|bf16|int8",
         "gemm: also time layers with weights of this precision (default auto: fp32 only); generate: the dtype of "
         "weights, as in tfm generate",
         &precision},
        {0, "kv-precision", CLI_CHOICE, &o.kv_precision, "auto|fp32|fp16|bf16|int8",
         "generate: the dtype of the KV cache, as in tfm generate", &kv_precision},
        {0, "accumulate", CLI_FLAG, &o.accumulate, NULL, "gemm: add to the result instead of writing it", NULL},
        {0, "causal", CLI_FLAG, &o.causal, NULL, "attention: apply a causal mask to the given shapes", NULL},
        {0, "backward", CLI_FLAG, &o.backward, NULL, "attention: time forward and backward together", NULL},
        {'m', "model", CLI_STRING, &o.model, "MODEL", "translate, generate: the model", NULL},
        {'i', "input", CLI_STRING, &o.input, "FILE", "translate: the lines to translate (default: built-in lines)",
         NULL},
        {0, "prompt-tokens", CLI_POSITIVE, &o.prompt_tokens, "N", "generate: tokens of a prompt (default 512)",
         &prompt_tokens},
        {0, "max-new-tokens", CLI_POSITIVE, &o.new_tokens, "N", "generate: tokens to decode (default 128)",
         &new_tokens},
        {0, "batch-size", CLI_POSITIVE, &o.batch_size, "N", "generate: prompts of a batch (default 1)", &batch_size},
        {0, "depth", CLI_NONNEGATIVE, &o.depth, "N", "generate: tokens in the KV cache before (default 0)", NULL},
    };
    const cli_syntax syntax = {
        .name = "bench",
        .usage = "bench gemm|attention|norm|translate|generate [option...] [SHAPE...]",
        .about = "Times every provider of an op on one device, in turns, and prints the medians\n"
                 "of each table as soon as it is ready. --variant adds kernels made for other\n"
                 "kinds of device.\n"
                 "A SHAPE is tiny, small, base or big, for the sizes of that Transformer, or\n"
                 "  gemm        MxNxK; two letters n or t after it say whether a and b are\n"
                 "              transposed: 512x512x4096tn\n"
                 "  attention   BxHxTxD or BxHxTxSxD: batch, heads, targets, sources, head width\n"
                 "  norm        ROWSxCOLUMNS\n"
                 "'cpu-packed' packs the weight once, as a layer does; 'cpu-packed fresh' packs\n"
                 "it every time. A star marks the provider that tfm chooses. If tfm was built\n"
                 "with OpenBLAS, it runs too, on all cores. norm is shown in bytes read and\n"
                 "written a second, next to a copy; attention next to a GEMM 1024x1024x1024.\n"
                 "generate times a decoder-only model: prefill of a prompt (pp512 of llama-bench)\n"
                 "and decoding from an empty context (tg128), in tokens a second of all prompts.\n",
        .examples = "  tfm bench gemm\n  tfm bench gemm 256x512x512 8x2048x512 --variant cpu-512\n"
                    "  tfm bench gemm 256x512x512 1x2048x512 --precision int8\n"
                    "  tfm bench attention 1x8x1024x64 --causal --backward\n  tfm bench norm 4096x1024 --json\n"
                    "  tfm bench translate -m apps/demo\n  tfm bench generate -m model.gguf --batch-size 8\n",
        .options = options,
        .option_count = CLI_COUNT(options),
        .operand = "gemm|attention|norm|translate|generate",
        .more = true,
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_CONTINUE)
        return code;
    code = check_lists(&syntax, &o);
    if (code != CLI_CONTINUE)
        return code;
    o.stored = (const tfm_dtype[]){TFM_F32, TFM_F32, TFM_F16, TFM_BF16, TFM_I8}[o.precision];
    keep_to_cores();
    const bench_only_option own[] = {
        {"provider", "gemm", o.providers},
        {"precision", "gemm and generate", precision},
        {"kv-precision", "generate", kv_precision},
        {"accumulate", "gemm", o.accumulate},
        {"causal", "attention", o.causal},
        {"backward", "attention", o.backward},
        {"model", "translate and generate", o.model},
        {"input", "translate", o.input},
        {"prompt-tokens", "generate", prompt_tokens},
        {"max-new-tokens", "generate", new_tokens},
        {"batch-size", "generate", batch_size},
        {"depth", "generate", o.depth > 0},
    };
    return run(&syntax, &o, own, CLI_COUNT(own), argc - optind, argv + optind);
}
