/* Loss curves against PyTorch's: same initial parameters, batches and recipe.
 *
 *     test_loss_curves            the curves in tests/golden/curves
 *     test_loss_curves FOLDER...  other output of golden/make_curves.py */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"
#include "tfm/train.h"

/* The bound on each loss, relative to PyTorch's. */
#define MOST 0.01

static int folder_count;
static char **folders;

/* One side of a batch; `ids` and `lengths` are freed by the caller. */
typedef struct side {
    int32_t *ids, *lengths;
    int64_t count, width;
} side;

static side read_side(const json_t *rows) {
    side s = {.count = (int64_t)json_array_size(rows)};
    for (int64_t i = 0; i < s.count; i++) {
        const int64_t n = (int64_t)json_array_size(json_array_get(rows, (size_t)i));
        s.width = n > s.width ? n : s.width;
    }
    s.ids = calloc((size_t)(s.count * s.width) + 1, sizeof(*s.ids));
    s.lengths = calloc((size_t)s.count + 1, sizeof(*s.lengths));
    assert_true(s.ids && s.lengths);
    for (int64_t i = 0; i < s.count; i++) {
        const json_t *row = json_array_get(rows, (size_t)i);
        s.lengths[i] = (int32_t)json_array_size(row);
        for (int64_t k = 0; k < s.lengths[i]; k++)
            s.ids[i * s.width + k] = (int32_t)json_integer_value(json_array_get(row, (size_t)k));
    }
    return s;
}

/* The loss of the next update on a batch. */
static double update(tfm_trainer *trainer, const json_t *batch) {
    side source = read_side(json_object_get(batch, "sources")), target = read_side(json_object_get(batch, "targets"));
    const bool pairs = source.count > 0;
    const tfm_batch all = {
        target.count,  source.width, target.width, pairs ? source.ids : NULL, target.ids, pairs ? source.lengths : NULL,
        target.lengths};
    tfm_update_report report;
    harness_ok(tfm_trainer_update(trainer, &report, &all, 1));
    free(source.ids);
    free(source.lengths);
    free(target.ids);
    free(target.lengths);
    return report.loss;
}

static tfm_trainer_options options_of(const json_t *recipe) {
    return (tfm_trainer_options){.lr_scheduler_type = TFM_LR_SCHEDULER_COSINE,
                                 .learning_rate = json_real_value(json_object_get(recipe, "rate")),
                                 .warmup_steps = json_integer_value(json_object_get(recipe, "warmup")),
                                 .max_steps = json_integer_value(json_object_get(recipe, "updates")),
                                 .beta1 = json_real_value(json_object_get(recipe, "beta1")),
                                 .beta2 = json_real_value(json_object_get(recipe, "beta2")),
                                 .epsilon = json_real_value(json_object_get(recipe, "epsilon")),
                                 .weight_decay = json_real_value(json_object_get(recipe, "decay")),
                                 .max_grad_norm = json_real_value(json_object_get(recipe, "clip"))};
}

static void compare(const char *folder) {
    char path[4096];
    tfm_model *model;
    tfm_trainer *trainer;
    double worst = 0, first = 0, last = 0;
    size_t worst_at = 0;
    snprintf(path, sizeof(path), "%s/curve.json", folder);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    const json_t *batches = json_object_get(root, "batches");
    const tfm_trainer_options options = options_of(json_object_get(root, "recipe"));
    const size_t count = json_array_size(batches);
    assert_true(count > 1);
    harness_ok(tfm_model_open(&model, harness_context(), folder, &(tfm_model_options){.no_tokenizer = true}));
    harness_ok(tfm_trainer_new(&trainer, model, &options));
    for (size_t i = 0; i < count; i++) {
        const json_t *batch = json_array_get(batches, i);
        const double want = json_real_value(json_object_get(batch, "loss")), got = update(trainer, batch);
        const double off = fabs(got / want - 1);
        first = i == 0 ? got : first;
        last = got;
        if (!(off <= worst)) {
            worst = off;
            worst_at = i + 1;
        }
    }
    print_message("# %s: %zu updates, loss %.4f to %.4f, largest deviation from PyTorch %.5f %% at update %zu\n",
                  folder, count, first, last, 100 * worst, worst_at);
    assert_true(last < first);
    if (!(worst <= MOST))
        fail_msg("%s: the loss of update %zu is %.3f %% off", folder, worst_at, 100 * worst);
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
    json_decref(root);
}

static void test_loss_curves_match_pytorch(void **state) {
    (void)state;
    static const char *const OURS[] = {"tests/golden/curves/t5", "tests/golden/curves/gpt2",
                                       "tests/golden/curves/llama"};
    for (int i = 0; i < folder_count; i++)
        compare(folders[i]);
    for (size_t i = 0; folder_count == 0 && i < (harness_slow() ? 1 : sizeof(OURS) / sizeof(*OURS)); i++) {
        char *folder = harness_source(OURS[i]);
        compare(folder);
        free(folder);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_loss_curves_match_pytorch)};
    folder_count = argc - 1;
    folders = argv + 1;
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
