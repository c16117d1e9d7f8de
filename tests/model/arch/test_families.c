/* Models of every family against transformers (tests/golden/make_families.py).
 *
 *     test_families FAMILY|FOLDER...
 *
 * runs the cases of the families in tests/golden/families, or the case in a folder, or all cases in a folder. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "support/harness.h"
#include "model/weights/weight_file.h"
#include "model/core/model.h"
#include "tfm/tfm.h"

#define CASES "tests/golden/families"

enum { MOST_ROWS = 8, MOST_WIDTH = 256, MOST_PROMPTS = 64, MOST_CASES = 256 };

static const double TOLERANCE = 1e-4; /* of the largest number of a row */

/* One folder. */
typedef struct golden {
    const char *dir;
    json_t *json;
    tfm__weights *tensors;
    tfm_model *model;
    bool encoder, decoder; /* the stacks it has */
} golden;

static char *within(const char *dir, const char *name) {
    char *path = malloc(strlen(dir) + strlen(name) + 2);
    assert_non_null(path);
    sprintf(path, "%s/%s", dir, name);
    return path;
}

static const char *text_of(const golden *g, const char *key) {
    const char *text = json_string_value(json_object_get(g->json, key));
    assert_non_null(text);
    return text;
}

/* The tensor `i.what`, or NULL. */
static const tfm__stored_tensor *stored(const golden *g, int i, const char *what) {
    char name[64];
    snprintf(name, sizeof(name), "%d.%s", i, what);
    return tfm__weights_find(g->tensors, name);
}

/* ---- Tensors ------------------------------------------------------------------------------------------ */

/* Some rows of ids as a padded batch. Padding is a random id. */
typedef struct rows {
    tfm_tensor ids, lengths;
    int64_t count, width;
} rows;

static rows rows_of(const golden *g, int first, int count, const char *what) {
    int32_t ids[MOST_ROWS * MOST_WIDTH], lengths[MOST_ROWS];
    rows r = {.count = count};
    assert_true(count <= MOST_ROWS);
    for (int i = 0; i < count; i++) {
        const tfm__stored_tensor *row = stored(g, first + i, what);
        assert_non_null(row);
        lengths[i] = (int32_t)row->count;
        r.width = lengths[i] > r.width ? lengths[i] : r.width;
    }
    assert_true(r.width <= MOST_WIDTH);
    for (int i = 0; i < count; i++) {
        const tfm__stored_tensor *row = stored(g, first + i, what);
        int32_t *out = ids + i * r.width;
        memcpy(out, row->data, row->bytes);
        for (int64_t k = lengths[i]; k < r.width; k++)
            out[k] = (int32_t)(k % 7);
    }
    r.ids = HARNESS_TENSOR(TFM_I32, ids, count, r.width);
    r.lengths = HARNESS_TENSOR(TFM_I32, lengths, count);
    return r;
}

/* max |got - want| / max |want| over the first numbers of each row of a batch (rows, width, ...). */
static double distance(const golden *g, tfm_tensor got, int first, int count, const char *what) {
    float *host = harness_floats(got);
    const size_t row = tfm_tensor_count(got) / (size_t)count;
    double worst = 0;
    for (int i = 0; i < count; i++) {
        const tfm__stored_tensor *want = stored(g, first + i, what);
        assert_non_null(want);
        assert_true(want->count <= row);
        double error = 0, largest = 0;
        for (size_t k = 0; k < want->count; k++) {
            float number;
            memcpy(&number, want->data + k * sizeof(number), sizeof(number));
            const double off = fabs((double)host[(size_t)i * row + k] - number);
            error = off <= error ? error : off; /* NaN propagates */
            largest = fmax(largest, fabs((double)number));
        }
        worst = error / largest <= worst ? worst : error / largest;
    }
    free(host);
    return worst;
}

/* Encoder output and logits, also of heads, for some of the folder's rows, as one batch. */
static double check_batch(const golden *g, int first, int count) {
    tfm_context *ctx = harness_context();
    tfm_tensor encoded = {0}, logits = {0};
    rows source = {0};
    double worst = 0;
    tfm_scope_open(ctx);
    if (g->encoder) {
        source = rows_of(g, first, count, "source_ids");
        harness_ok(tfm_model_encode(g->model, &encoded, source.ids, source.lengths));
        worst = distance(g, encoded, first, count, "encoder_output");
    }
    if (!g->decoder && stored(g, first, "logits")) {
        const tfm_status status = tfm_model_class_count(g->model) > 0
                                      ? tfm_model_class_logits(g->model, &logits, encoded, source.lengths)
                                      : tfm_model_mlm_logits(g->model, &logits, encoded);
        harness_ok(status);
        const double off = distance(g, logits, first, count, "logits");
        worst = off <= worst ? worst : off;
    }
    if (g->decoder) {
        rows target = rows_of(g, first, count, "decoder_input_ids");
        harness_ok(
            tfm_model_decode(g->model, &logits, target.ids, encoded, g->encoder ? source.lengths : target.lengths));
        const double off = distance(g, logits, first, count, "logits");
        worst = off <= worst ? worst : off;
    }
    tfm_scope_close(ctx, 0, NULL);
    return worst;
}

static void check_tensors(const golden *g) {
    const int count = (int)json_integer_value(json_object_get(g->json, "tensors"));
    assert_true(count >= 3);
    double alone = 0;
    for (int i = 0; i < count; i++) {
        const double off = check_batch(g, i, 1);
        alone = off <= alone ? alone : off;
    }
    const double together = json_is_true(json_object_get(g->json, "alone")) ? 0 : check_batch(g, 0, count);
    print_message("# %d sequences within %.2g, as one batch %.2g\n", count, alone, together);
    assert_true(alone <= TOLERANCE && together <= TOLERANCE);
}

/* ---- Search ------------------------------------------------------------------------------------------- */

/* All prompts, one after another. */
typedef struct prompts {
    const json_t *list;
    int32_t ids[MOST_PROMPTS * MOST_WIDTH];
    size_t counts[MOST_PROMPTS], count;
} prompts;

static void read_prompts(prompts *p, const golden *g) {
    size_t used = 0, k;
    json_t *id;
    *p = (prompts){.list = json_object_get(g->json, "prompts")};
    p->count = harness_slow() ? 4 : json_array_size(p->list);
    assert_true(p->count > 0 && p->count <= MOST_PROMPTS);
    for (size_t i = 0; i < p->count; i++) {
        const json_t *ids = json_object_get(json_array_get(p->list, i), "ids");
        p->counts[i] = json_array_size(ids);
        assert_true(p->counts[i] > 0 && p->counts[i] <= MOST_WIDTH);
        json_array_foreach((json_t *)(uintptr_t)ids, k, id) p->ids[used++] = (int32_t)json_integer_value(id);
    }
}

static bool equal_ids(const tfm_hypothesis *got, const json_t *want) {
    if ((size_t)got->tokens != json_array_size(want))
        return false;
    for (int i = 0; i < got->tokens; i++)
        if (got->ids[i] != json_integer_value(json_array_get(want, (size_t)i)))
            return false;
    return true;
}

static tfm_hypotheses write_after(const golden *g, const prompts *p, int beam) {
    tfm_hypotheses found;
    const int most = (int)json_integer_value(json_object_get(g->json, "new_tokens"));
    const bool ruled = json_is_true(json_object_get(g->json, "rules")); /* the folder has the penalty */
    const tfm_search_options search = {.beam_size = beam,
                                       .length_norm = TFM_LENGTH_NORM_HF,
                                       .has_length_penalty = !ruled,
                                       .length_penalty = 1,
                                       .max_length = most};
    const tfm_generate_options generate = {
        .beam_size = beam, .has_length_penalty = !ruled, .length_penalty = 1, .max_new_tokens = most};
    if (g->encoder)
        harness_ok(tfm_search(g->model, &found, p->ids, p->counts, p->count, NULL, NULL, &search));
    else
        harness_ok(tfm_generate_ids(g->model, &found, p->ids, p->counts, p->count, &generate));
    return found;
}

/* Marian's beam search stops by Marian's rule, not by transformers' (generation_rules.h). */
static void check_search(const golden *g, const prompts *p, int beam) {
    if (beam > 1 && g->encoder && !g->model->rules.hf_search)
        return;
    tfm_hypotheses found = write_after(g, p, beam);
    size_t same = 0, padded = 0;
    for (size_t i = 0; i < p->count; i++) {
        const json_t *prompt = json_array_get(p->list, i);
        if (json_is_true(json_object_get(prompt, "pad"))) { /* transformers may generate padding, tfm does not */
            padded++;
            continue;
        }
        const bool equal = equal_ids(&found.items[i], json_object_get(prompt, beam > 1 ? "beam4" : "greedy"));
        if (!equal)
            print_message("# beam %d, prompt %zu differs\n", beam, i);
        same += equal;
    }
    tfm_hypotheses_free(&found);
    print_message("# beam %d: %zu of %zu equal to transformers, %zu without padding\n", beam, same, p->count, padded);
    assert_int_equal(same + padded, p->count);
    assert_true(2 * padded < p->count);
}

/* ---- Cases -------------------------------------------------------------------------------------------- */

/* Whether the library supports the family. */
static bool open_golden(golden *g, const char *dir) {
    char *path = within(dir, "golden.json");
    *g = (golden){.dir = dir};
    harness_ok(tfm__json_load(&g->json, path));
    free(path);
    path = within(dir, "golden.safetensors");
    harness_ok(tfm__weights_open(&g->tensors, path));
    free(path);
    const char *kind = text_of(g, "kind");
    g->encoder = strcmp(kind, "decoder") != 0;
    g->decoder = strcmp(kind, "encoder") != 0;
    const tfm_status status =
        tfm_model_open(&g->model, harness_context(), dir, &(tfm_model_options){.no_tokenizer = true});
    if (status == TFM_ERROR_UNSUPPORTED && strstr(tfm_error_message(), "supported families")) {
        print_message("# %s\n", tfm_error_message());
        return false;
    }
    harness_ok(status);
    return true;
}

static void close_golden(golden *g) {
    tfm_model_free(&g->model);
    tfm__weights_free(&g->tensors);
    json_decref(g->json);
}

static void test_model_matches_transformers(void **state) {
    golden g;
    if (!open_golden(&g, *state)) {
        close_golden(&g);
        skip();
    }
    check_tensors(&g);
    if (g.decoder) {
        prompts *p = malloc(sizeof(*p));
        assert_non_null(p);
        read_prompts(p, &g);
        check_search(&g, p, 1);
        check_search(&g, p, 4);
        free(p);
    }
    close_golden(&g);
}

/* A new context after a failed case: a failure is sticky. */
static int renew(void **state) {
    if (tfm_context_status(harness_context()) == TFM_OK)
        return 0;
    harness_teardown(state);
    return harness_setup(state);
}

/* The cases of a folder with this name prefix. */
static size_t find_cases(struct CMUnitTest *tests, size_t count, const char *dir, const char *start) {
    struct dirent **entries;
    const int found = scandir(dir, &entries, NULL, alphasort);
    if (found < 0) {
        fprintf(stderr, "cannot read %s\n", dir);
        exit(1);
    }
    for (int i = 0; i < found; free(entries[i++])) {
        const char *name = entries[i]->d_name;
        if (name[0] == '.' || strncmp(name, start, strlen(start)) != 0 || count == MOST_CASES)
            continue;
        tests[count++] = (struct CMUnitTest){.name = strdup(name),
                                             .test_func = test_model_matches_transformers,
                                             .setup_func = renew,
                                             .initial_state = within(dir, name)};
    }
    free(entries);
    return count;
}

static bool is_case(const char *dir) {
    char *path = within(dir, "golden.json");
    FILE *file = fopen(path, "rb");
    free(path);
    return file && fclose(file) == 0;
}

int main(int count, char **names) {
    static struct CMUnitTest tests[MOST_CASES];
    char *own = harness_source(CASES);
    size_t found = 0;
    for (int i = 1; i < count; i++) {
        const size_t before = found;
        char start[128];
        snprintf(start, sizeof(start), "%s-", names[i]);
        if (!strchr(names[i], '/'))
            found = find_cases(tests, found, own, start);
        else if (is_case(names[i]))
            tests[found++] = (struct CMUnitTest){.name = strdup(names[i]),
                                                 .test_func = test_model_matches_transformers,
                                                 .setup_func = renew,
                                                 .initial_state = strdup(names[i])};
        else
            found = find_cases(tests, found, names[i], "");
        if (found == before) {
            fprintf(stderr, "there is no case of %s\n", names[i]);
            return 1;
        }
    }
    const int failed = _cmocka_run_group_tests("families", tests, found, harness_setup, harness_teardown);
    for (size_t i = 0; i < found; i++) {
        free((char *)(uintptr_t)tests[i].name);
        free(tests[i].initial_state);
    }
    free(own);
    return failed;
}
