/* What a step of decoding takes with and without recordings, in turns: seconds by the clock, and those that the thread
 * of the caller works.
 *
 *     bench_recorded [WIDTH [LAYERS [ROUNDS [SENTENCES]]]]
 *
 * TFM_VARIANT names another row of the tuning than the device's own. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "dev/cl.h"
#include "model/model.h"

enum { STEPS = 200, MOST = 64 };

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(tfm_status status) {
    if (status == TFM_OK)
        return;
    fprintf(stderr, "%s\n", tfm_error_message());
    exit(1);
}

static tfm_model *make(tfm_context *ctx, const char *family, int width, int layers) {
    tfm_model *model;
    check(tfm_model_new(&model, ctx,
                        &(tfm_model_shape){.family = family,
                                           .width = width,
                                           .heads = 4,
                                           .kv_heads = family ? 2 : 0,
                                           .feed_forward = 2 * width,
                                           .encoder_layers = family ? 0 : 1,
                                           .decoder_layers = layers,
                                           .source_vocabulary = 1000,
                                           .max_positions = 256,
                                           .pad_id = family ? -1 : 999,
                                           .start_id = family ? 1 : 999,
                                           .eos_id = 2,
                                           .activation = family ? TFM_SILU : TFM_RELU,
                                           .seed = 3}));
    model->rules.eos_id = -1;
    model->rules.eos_id_count = 0;
    return model;
}

static void run(tfm_model *model, bool text, int beam, size_t sentences) {
    int32_t ids[MOST * 5];
    size_t counts[MOST];
    tfm_hypotheses found;
    for (size_t i = 0; i < sentences * 5; i++)
        ids[i] = (int32_t)(5 + i * 7 % 900);
    for (size_t i = 0; i < sentences; i++)
        counts[i] = 5;
    if (text)
        check(tfm_generate_ids(model, &found, ids, counts, sentences,
                               &(tfm_generate_options){.beam = beam, .max_new = STEPS}));
    else
        check(tfm_search(model, &found, ids, counts, sentences, NULL, NULL,
                         &(tfm_search_options){.beam = beam, .max_length = STEPS}));
    tfm_hypotheses_free(&found);
}

static void measure(tfm_context *ctx, const char *name, const char *family, int beam, int width, int layers, int rounds,
                    size_t sentences) {
    tfm_model *model = make(ctx, family, width, layers);
    double clock[2], thread[2];
    uint64_t runs = 0;
    for (int round = -1; round < rounds; round++)
        for (int records = 0; records < 2; records++) {
            const uint64_t before = ctx->recorded_runs;
            ctx->tuning.records = records;
            const double c = now(CLOCK_MONOTONIC), t = now(CLOCK_THREAD_CPUTIME_ID);
            run(model, family != NULL, beam, sentences);
            const double by_clock = now(CLOCK_MONOTONIC) - c, by_thread = now(CLOCK_THREAD_CPUTIME_ID) - t;
            clock[records] = round < 1 || by_clock < clock[records] ? by_clock : clock[records];
            thread[records] = round < 1 || by_thread < thread[records] ? by_thread : thread[records];
            runs = ctx->recorded_runs - before;
        }
    printf("%-24s %6.0f us a step by launches, %6.0f recorded; of the caller's thread %6.0f and %6.0f; %d parts\n",
           name, clock[0] / STEPS * 1e6, clock[1] / STEPS * 1e6, thread[0] / STEPS * 1e6, thread[1] / STEPS * 1e6,
           (int)runs);
    tfm_model_free(&model);
}

int main(int count, char **arguments) {
    const int width = count > 1 ? atoi(arguments[1]) : 32, layers = count > 2 ? atoi(arguments[2]) : 6,
              rounds = count > 3 ? atoi(arguments[3]) : 5, sentences = count > 4 ? atoi(arguments[4]) : 1;
    tfm_context *ctx;
    if (sentences < 1 || sentences > MOST)
        return 2;
    check(tfm_context_open(&ctx, &(tfm_context_options){.variant = getenv("TFM_VARIANT")}));
    printf("%s, row %s, width %d, %d layers, %d sentences\n", tfm_context_device(ctx)->name, tfm_context_variant(ctx),
           width, layers, sentences);
    measure(ctx, "translation, greedy", NULL, 1, width, layers, rounds, (size_t)sentences);
    measure(ctx, "translation, beam 4", NULL, 4, width, layers, rounds, (size_t)sentences);
    measure(ctx, "llama, greedy", "llama", 1, width, layers, rounds, (size_t)sentences);
    tfm_context_free(&ctx);
    return 0;
}
