/* Training speed of a preset: source and target tokens per second, without padding; and the peak bytes of the context's
 * pool, next to the estimate of tfm_trainer_estimate_memory.
 *
 *     bench_train TOKENIZER_DIR SOURCE TARGET [PRESET [UPDATES [TOKENS [fp32|bf16 [recompute]]]]]
 *
 * The first tenth of the updates, at least five, is warm-up. The counterpart in PyTorch: peers/train_torch.py of the
 * shared folder, with the same text and SentencePiece model. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tfm/data.h"

static const struct {
    const char *name;
    int width, layers_in, layers_out, heads, feed_forward;
} PRESETS[] = {
    {"tiny", 128, 4, 4, 4, 256},
    {"small", 256, 3, 3, 8, 1024},
    {"base", 512, 6, 6, 8, 2048},
    {"big", 1024, 6, 6, 16, 4096},
};

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int fail(void) {
    fprintf(stderr, "bench_train: %s\n", tfm_error_message());
    return 1;
}

int main(int argc, char **argv) {
    const char *name = argc > 4 ? argv[4] : "tiny";
    const int updates = argc > 5 ? atoi(argv[5]) : 50, cold = updates / 10 > 5 ? updates / 10 : 5;
    size_t p = 0;
    while (p < sizeof(PRESETS) / sizeof(*PRESETS) && strcmp(PRESETS[p].name, name) != 0)
        p++;
    if (argc < 4 || updates <= cold || p == sizeof(PRESETS) / sizeof(*PRESETS)) {
        fprintf(stderr, "usage: bench_train TOKENIZER_DIR SOURCE TARGET [tiny|small|base|big [UPDATES > 5 [TOKENS "
                        "[fp32|bf16 [recompute]]]]]\n");
        return 2;
    }
    tfm_context *ctx = NULL;
    tfm_model *model = NULL;
    tfm_trainer *trainer = NULL;
    tfm_tokenizer *tokenizer = NULL;
    tfm_data *data = NULL;
    if (tfm_context_open(&ctx, NULL) != TFM_OK || tfm_tokenizer_open(&tokenizer, argv[1]) != TFM_OK)
        return fail();
    const tfm_tokenizer_info text = *tfm_tokenizer_get_info(tokenizer);
    const tfm_model_shape shape = {.width = PRESETS[p].width,
                                   .heads = PRESETS[p].heads,
                                   .ffn_dim = PRESETS[p].feed_forward,
                                   .encoder_layers = PRESETS[p].layers_in,
                                   .decoder_layers = PRESETS[p].layers_out,
                                   .source_vocab_size = text.source_size,
                                   .max_positions = 1024,
                                   .pad_id = text.target_pad,
                                   .eos_id = text.target_eos,
                                   .start_id = text.target_pad,
                                   .activation = TFM_RELU,
                                   .seed = 1};
    tfm_trainer_options options = {0};
    tfm_trainer_paper(&options);
    options.dropout = 0.3f;
    options.learning_rate = 5e-3;
    options.warmup_steps = 2000;
    options.precision = argc > 7 && strcmp(argv[7], "bf16") == 0 ? TFM_BF16 : TFM_F32;
    options.gradient_checkpointing = argc > 8 && strcmp(argv[8], "recompute") == 0;
    const tfm_data_options order = {.batch_tokens = argc > 6 ? atoi(argv[6]) : 4096, .max_length = 1024, .seed = 1};
    if (tfm_model_new(&model, ctx, &shape) != TFM_OK || tfm_trainer_new(&trainer, model, &options) != TFM_OK ||
        tfm_data_open(&data, tokenizer, argv[2], argv[3], &order) != TFM_OK)
        return fail();
    double start = 0;
    uint64_t tokens = 0;
    tfm_update_report report = {0};
    for (int i = 0; i < updates; i++) {
        tfm_batch batch;
        if (i == cold) {
            start = seconds();
            tokens = 0;
        }
        if (tfm_data_next(data, &batch) != TFM_OK || tfm_trainer_update(trainer, &report, &batch, 1) != TFM_OK)
            return fail();
        tokens += report.source_tokens + report.target_tokens;
    }
    const double taken = seconds() - start;
    printf("{\"preset\": \"%s\", \"precision\": \"%s\", \"recompute\": %s, \"updates\": %d, \"tokens_per_s\": %.0f, "
           "\"loss\": %.4f, "
           "\"tokens\": %" PRIu64 ", \"pool_bytes\": %" PRIu64 ", \"estimated_bytes\": %" PRIu64 "}\n",
           PRESETS[p].name, tfm_dtype_name(options.precision), options.gradient_checkpointing ? "true" : "false",
           updates - cold, (double)tokens / taken, report.loss, tokens, tfm_context_peak_memory(ctx),
           tfm_trainer_estimate_memory(model, &options, order.batch_tokens));
    tfm_data_free(&data);
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
    tfm_tokenizer_free(&tokenizer);
    tfm_context_free(&ctx);
    return 0;
}
