/* Models trained from scratch to copy strings, and to reverse them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"
#include "tfm/train.h"

enum {
    SYMBOLS = 26,
    LONGEST = 12,
    WIDTH = LONGEST + 1,
    BATCH = 96,
    EOS = 0,
    PAD = SYMBOLS + 1,
    TESTED = 300,
    UPDATES = 800
};

/* Pairs of one batch: strings of 1 to LONGEST symbols, and their targets. */
typedef struct strings {
    int32_t sources[BATCH * WIDTH], targets[BATCH * WIDTH], lengths[BATCH];
} strings;

static void make_string(harness_random *random, int32_t *source, int32_t *target, int32_t *length, bool reverse) {
    const int64_t n = harness_range(random, 1, LONGEST);
    memset(source, 0, WIDTH * sizeof(*source));
    memset(target, 0, WIDTH * sizeof(*target)); /* EOS is 0 */
    for (int64_t i = 0; i < n; i++)
        source[i] = (int32_t)harness_range(random, 1, SYMBOLS);
    for (int64_t i = 0; i < n; i++)
        target[i] = source[reverse ? n - 1 - i : i];
    *length = (int32_t)n + 1;
}

static tfm_batch make_batch(harness_random *random, strings *s, bool reverse) {
    for (int i = 0; i < BATCH; i++)
        make_string(random, s->sources + i * WIDTH, s->targets + i * WIDTH, &s->lengths[i], reverse);
    return (tfm_batch){BATCH, WIDTH, WIDTH, s->sources, s->targets, s->lengths, s->lengths};
}

/* How many of TESTED strings are right, by greedy search. They use another seed: of 26^12 strings none was seen, except
 * strings of one or two symbols. */
static int count_right(tfm_model *model, bool reverse) {
    harness_random random = {0x7e57};
    int32_t(*targets)[WIDTH] = calloc(TESTED, sizeof(*targets)), *ids = calloc(TESTED * WIDTH, sizeof(*ids));
    size_t counts[TESTED], at = 0;
    int right = 0;
    assert_true(targets && ids);
    for (int i = 0; i < TESTED; i++) {
        int32_t source[WIDTH], length;
        make_string(&random, source, targets[i], &length, reverse);
        counts[i] = (size_t)length;
        memcpy(ids + at, source, counts[i] * sizeof(*ids));
        at += counts[i];
    }
    tfm_hypotheses found;
    harness_ok(tfm_search(model, &found, ids, counts, TESTED, NULL, NULL, &(tfm_search_options){.beam_size = 1}));
    for (int i = 0; i < TESTED; i++)
        right += found.items[i].count == counts[i] - 1 &&
                 memcmp(found.items[i].ids, targets[i], (counts[i] - 1) * sizeof(int32_t)) == 0;
    tfm_hypotheses_free(&found);
    free(targets);
    free(ids);
    return right;
}

static void learn(bool reverse) {
    tfm_context *ctx = harness_context();
    tfm_model *model;
    tfm_trainer *trainer;
    tfm_update_report report = {0};
    tfm_trainer_options o = {0};
    tfm_trainer_paper(&o);
    harness_random random = {reverse ? 2 : 1};
    strings *s = malloc(sizeof(*s));
    assert_non_null(s);
    o.dropout = 0;
    o.label_smoothing = 0;
    o.learning_rate = 3e-3;
    o.warmup_steps = 100;
    o.lr_scheduler_type = TFM_LR_SCHEDULER_LINEAR;
    o.max_steps = UPDATES;
    o.max_grad_norm = 1;
    harness_ok(tfm_model_new(&model, ctx,
                             &(tfm_model_shape){.width = 64,
                                                .heads = 4,
                                                .ffn_dim = 128,
                                                .encoder_layers = 2,
                                                .decoder_layers = 2,
                                                .source_vocab_size = SYMBOLS + 2,
                                                .max_positions = 64,
                                                .pad_id = PAD,
                                                .eos_id = EOS,
                                                .start_id = PAD,
                                                .activation = TFM_RELU,
                                                .seed = 1}));
    harness_ok(tfm_trainer_new(&trainer, model, &o));
    int right = 0;
    for (int update = 1; update <= UPDATES && right < TESTED; update++) {
        const tfm_batch batch = make_batch(&random, s, reverse);
        const bool told = update % 100 == 0;
        harness_ok(tfm_trainer_update(trainer, told ? &report : NULL, &batch, 1));
        if (told) {
            right = report.nll < 0.05 ? count_right(model, reverse) : 0;
            fprintf(stderr, "%s, update %d: nll %.4f, %d of %d right\n", reverse ? "reverse" : "copy", update,
                    report.nll, right, TESTED);
        }
    }
    assert_true(right > TESTED * 0.99);
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
    free(s);
}

static void test_model_learns_to_copy(void **state) {
    (void)state;
    if (harness_brief())
        skip(); /* reversal is harder */
    learn(false);
}

static void test_model_learns_to_reverse(void **state) {
    (void)state;
    learn(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_learns_to_copy),
        cmocka_unit_test(test_model_learns_to_reverse),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
