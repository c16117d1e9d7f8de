/* tfm bench generate: prefill and decode rates of a decoder-only model, as llama-bench's pp512 and tg128. */
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"

typedef struct job {
    tfm_model *model;
    int32_t *ids; /* [batch * (depth + prompt)] */
    const size_t *counts;
    size_t batch;
    int depth, new_tokens;
    tfm_prompt_cache *cache; /* with a depth, else NULL */
} job;

static int run(void *self, int times) {
    const job *j = self;
    const tfm_generate_options options = {.max_new_tokens = j->new_tokens,
                                          .min_new_tokens = j->new_tokens,
                                          .skip_scores = true,
                                          .prompt_cache = j->cache};
    for (int i = 0; i < times; i++) {
        tfm_hypotheses out;
        if (j->cache) /* another prompt after the same `depth` tokens, which the cache keeps */
            j->ids[j->depth] ^= 1;
        if (tfm_generate_ids(j->model, &out, j->ids, j->counts, j->batch, &options) != TFM_OK)
            return cli_fail_library();
        int tokens = 0;
        for (size_t k = 0; k < j->batch; k++)
            tokens += out.items[k].tokens;
        tfm_hypotheses_free(&out);
        if (tokens != (int)j->batch * j->new_tokens)
            return cli_fail("the rules of generation_config.json end a text after %d of %d tokens: use a smaller "
                            "--max-new-tokens",
                            tokens / (int)j->batch, j->new_tokens);
    }
    return CLI_OK;
}

/* The dtype of weights on the device. */
static const char *weights_of(const tfm_model_info *info, int precision) {
    static const char *const NAMES[] = {NULL, "fp32", "fp16", "bf16", "int8"};
    const char *stored = info->stored_dtype;
    if (precision)
        return NAMES[precision];
    if (strcmp(stored, "I8") == 0)
        return NAMES[4];
    return strcmp(stored, "F32") == 0 || strcmp(stored, "F16") == 0 || strcmp(stored, "BF16") == 0 ? NAMES[1] : stored;
}

/* Times prompts of this many tokens, and new ones after them, in each requested variant. */
static int compare_variants(const bench_devices *devices, tfm_model *const *models, const bench_options *o,
                            const char *what, int prompt, int new_tokens) {
    const size_t batch = (size_t)o->batch_size, length = (size_t)(o->depth + prompt);
    const tfm_model_info *info = tfm_model_get_info(models[0]);
    bench_group turns = {.precision = weights_of(info, o->precision), .unit = "tokens/s", .factor = 1, .json = "per_s"};
    int32_t *ids = malloc(batch * length * sizeof(*ids));
    size_t *counts = malloc(batch * sizeof(*counts));
    job jobs[BENCH_VARIANTS] = {{0}};
    char shape[64];
    uint32_t state = 2017;
    int code = ids && counts ? CLI_OK : cli_fail("out of memory for %zu prompts", batch);
    for (size_t i = 0; code == CLI_OK && i < batch * length; i++) {
        state = state * 1664525u + 1013904223u;
        ids[i] = (int32_t)((state >> 8) % (uint32_t)info->target_vocab_size);
        counts[i % batch] = length;
    }
    if (o->depth > 0)
        snprintf(shape, sizeof(shape), "%s %d, depth %d", what, prompt > 1 ? prompt : new_tokens, o->depth);
    else
        snprintf(shape, sizeof(shape), "%s %d, batch %zu", what, prompt > 1 ? prompt : new_tokens, batch);
    for (size_t d = 0; d < devices->count && code == CLI_OK; d++) {
        jobs[d] = (job){models[d], ids, counts, batch, o->depth, new_tokens, NULL};
        if (o->depth > 0 && tfm_prompt_cache_new(&jobs[d].cache, models[d]) != TFM_OK) {
            code = cli_fail_library();
            break;
        }
        bench_candidate *c = bench_add(&turns, "generate", shape, "%s", tfm_context_variant(devices->contexts[d]));
        if (!c) {
            code = CLI_FAILED;
            break;
        }
        c->work = (double)batch * (prompt > 1 ? prompt : new_tokens);
        c->run = run;
        c->self = &jobs[d];
    }
    if (code == CLI_OK)
        code = bench_run(&turns, o);
    for (size_t d = 0; d < devices->count; d++)
        tfm_prompt_cache_free(&jobs[d].cache);
    free(counts);
    free(ids);
    return code;
}

/* Before anything is measured. */
static int check_model(const bench_options *o) {
    tfm_model_info info;
    if (tfm_model_read_info(&info, o->model, &(tfm_model_options){.no_tokenizer = true}) != TFM_OK)
        return cli_fail_library();
    if (strcmp(info.kind, "decoder") != 0 || !info.has_lm_head)
        return cli_fail("the model of %s, of the family %s, does not generate text: give a decoder-only model",
                        o->model, info.family);
    const int most = info.max_positions;
    if (o->depth > 0 && o->depth >= most)
        return cli_fail("--depth is %d, and the model of %s takes up to %d tokens: give less", o->depth, o->model,
                        most);
    if (o->prompt_tokens > most - o->depth)
        return cli_fail("--prompt-tokens is %d, and the model of %s takes up to %d tokens: give --prompt-tokens %d, or "
                        "less",
                        o->prompt_tokens, o->model, most, most - o->depth);
    if (o->new_tokens >= most - o->depth)
        return cli_fail("--max-new-tokens is %d, and the model of %s takes up to %d tokens with the prompt: give "
                        "--max-new-tokens %d, or less",
                        o->new_tokens, o->model, most, most - o->depth - 1);
    return CLI_OK;
}

int bench_generate(const cli_syntax *syntax, const bench_options *given, int count, char **operands) {
    bench_options o = *given;
    bench_devices devices;
    tfm_model *models[BENCH_VARIANTS] = {NULL};
    const tfm_model_options options = {
        .no_tokenizer = true, .precision = cli_precision(o.precision), .kv_precision = cli_precision(o.kv_precision)};
    if (count > 0)
        return cli_usage_error(syntax, "'%s' is too much: generate takes no shapes", operands[0]);
    if (!o.model)
        return cli_usage_error(syntax, "bench generate needs a model: give -m MODEL");
    if (o.depth > 0 && o.batch_size > 1)
        return cli_usage_error(syntax, "--depth and --batch-size do not go together: leave one out");
    int code = cli_find_model(&o.model);
    if (code != CLI_CONTINUE || (code = check_model(&o)) != CLI_OK)
        return code;
    code = bench_devices_open(&devices, &o);
    for (size_t d = 0; d < devices.count && code == CLI_OK; d++)
        if (tfm_model_open(&models[d], devices.contexts[d], o.model, &options) != TFM_OK)
            code = cli_fail_library();
    if (code == CLI_OK)
        code = compare_variants(&devices, models, &o, "prefill", o.prompt_tokens, 1);
    if (code == CLI_OK)
        code = compare_variants(&devices, models, &o, "decode", 1, o.new_tokens);
    for (size_t d = 0; d < devices.count; d++)
        tfm_model_free(&models[d]);
    bench_devices_free(&devices);
    return code;
}
