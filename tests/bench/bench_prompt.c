/* Times prompts one after another in one process: seconds of prefill and of decoding for each.
 *
 *     bench_prompt MODEL_DIR [auto|fp32|fp16|bf16|int8] < LINES
 *
 * Each line: the number of tokens to generate, then the prompt's token ids. Prints a line of JSON for each; the first
 * ones include one-time work such as packing weights. bench_generate.py calls it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tfm/model.h"

static int fail(void) {
    fprintf(stderr, "bench_prompt: %s\n", tfm_error_message());
    return 1;
}

/* The integers of a line; NULL if it has anything else. */
static int32_t *numbers_of(const char *line, size_t *count) {
    int32_t *numbers = calloc(strlen(line) / 2 + 1, sizeof(*numbers));
    const char *at = line;
    *count = 0;
    while (numbers && *at && *at != '\n') {
        char *end;
        numbers[(*count)++] = (int32_t)strtol(at, &end, 10);
        if (end == at) {
            free(numbers);
            return NULL;
        }
        at = end + strspn(end, " ");
    }
    return numbers;
}

static bool take(tfm_model *model, int most, const int32_t *ids, size_t count) {
    tfm_generate_stats stats = {0};
    tfm_hypotheses got;
    const tfm_generate_options options = {.max_new_tokens = most, .stats = &stats};
    if (tfm_generate_ids(model, &got, ids, &count, 1, &options) != TFM_OK)
        return false;
    printf("{\"prompt\": %zu, \"prefill_s\": %.6f, \"decode_s\": %.6f, \"ids\": [", count, stats.prefill_seconds,
           stats.decode_seconds);
    for (size_t i = 0; i < got.items[0].count; i++)
        printf("%s%d", i ? ", " : "", (int)got.items[0].ids[i]);
    puts("]}");
    fflush(stdout);
    tfm_hypotheses_free(&got);
    return true;
}

int main(int argc, char **argv) {
    tfm_context *ctx = NULL;
    tfm_model *model = NULL;
    char *line = NULL;
    size_t room = 0, count;
    int code = 0;
    tfm_model_options options = {.no_tokenizer = true};
    const char *precision = argc > 2 ? argv[2] : "fp32";
    options.precision = strcmp(precision, "fp32") == 0   ? TFM_PRECISION_FP32
                        : strcmp(precision, "fp16") == 0 ? TFM_PRECISION_FP16
                        : strcmp(precision, "bf16") == 0 ? TFM_PRECISION_BF16
                        : strcmp(precision, "int8") == 0 ? TFM_PRECISION_INT8
                                                         : TFM_PRECISION_AUTO;
    if (argc < 2 || argc > 3 || (options.precision == TFM_PRECISION_AUTO && strcmp(precision, "auto") != 0)) {
        fprintf(
            stderr,
            "usage: bench_prompt MODEL_DIR [auto|fp32|fp16|bf16|int8] < LINES, each the number of tokens to generate "
            "and a prompt's token ids\n");
        return 2;
    }
    if (tfm_context_open(&ctx, NULL) != TFM_OK || tfm_model_open(&model, ctx, argv[1], &options) != TFM_OK)
        return fail();
    while (code == 0 && getline(&line, &room, stdin) > 0) {
        int32_t *numbers = numbers_of(line, &count);
        if (!numbers || count < 2) {
            fprintf(stderr, "bench_prompt: not a line of numbers: %s", line);
            code = 1;
        } else if (!take(model, numbers[0], numbers + 1, count - 1)) {
            code = fail();
        }
        free(numbers);
    }
    free(line);
    tfm_model_free(&model);
    tfm_context_free(&ctx);
    return code;
}
