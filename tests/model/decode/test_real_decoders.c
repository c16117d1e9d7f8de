/* Trained weights: a GPT-2 that sorts letters, against PyTorch, and a LLaMA that tells stories, against llama2.c. They
 * are in the folder `shared` next to the checkout. */
#include <math.h>
#include "base/json.h"
#include "support/decoder_models.h"

/* Opens a model with parameters from `fill`, by name. */
static tfm_model *make(const char *config, tfm__parameter_fn fill, void *user) {
    const tfm__family *family;
    tfm__arch *arch = malloc(sizeof(*arch));
    tfm__generation_rules *rules = malloc(sizeof(*rules));
    tfm_model *model;
    assert_true(arch && rules);
    scratch_text("config.json", config);
    harness_ok(tfm__family_read(&family, arch, rules, scratch_root));
    harness_ok(tfm__model_new(&model, harness_context(), family, arch, rules));
    float *bias = calloc((size_t)arch->decoder.vocabulary, sizeof(*bias));
    harness_ok(tfm__model_set_biases(model, bias));
    harness_ok(tfm__params_visit(family, arch, model, fill, user));
    free(bias);
    free(arch);
    free(rules);
    return model;
}

static tfm_status put(const tfm__parameter *p, const float *values) {
    tfm_context *ctx = harness_context();
    tfm__tensor_new_persistent(ctx, &p->param->value, TFM_F32, p->rank, p->dims);
    return tfm_tensor_write(ctx, p->param->value, values);
}

/* ---- Sorting -------------------------------------------------------------------------------------------------- */

static int digit(char c) {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = strchr(DIGITS, c);
    return found && c ? (int)(found - DIGITS) : 0;
}

/* Decodes a base64 tensor; free with free(). */
static float *numbers(const json_t *file, const char *name, size_t count) {
    const char *text = json_string_value(json_object_get(json_object_get(file, name), "data"));
    unsigned char *bytes = calloc(count + 1, 4);
    assert_non_null(text);
    assert_true(strlen(text) == (4 * count + 2) / 3 * 4);
    for (size_t i = 0; i < 4 * count; i += 3) {
        const char *four = text + i / 3 * 4;
        const int bits = digit(four[0]) << 18 | digit(four[1]) << 12 | digit(four[2]) << 6 | digit(four[3]);
        for (size_t k = 0; k < 3 && i + k < 4 * count; k++)
            bytes[i + k] = (unsigned char)(bits >> (16 - 8 * k));
    }
    return (float *)(void *)bytes;
}

/* Its matrices are (outputs, inputs), as parameters on the device, unlike GPT-2's. */
static tfm_status from_json(void *user, const tfm__parameter *p) {
    const size_t columns = p->rank == 2 ? (size_t)p->dims[1] : 1;
    float *whole = numbers(user, p->name, (size_t)p->total * columns);
    const tfm_status status = put(p, whole + (size_t)p->first * columns);
    free(whole);
    return status;
}

static tfm_model *open_sorter(json_t *file) {
    tfm_context *ctx = harness_context();
    tfm_model *model =
        make("{\"model_type\": \"gpt2\", \"n_embd\": 48, \"n_layer\": 3, \"n_head\": 3, \"vocab_size\": 3, "
             "\"n_positions\": 11, \"tie_word_embeddings\": false}",
             from_json, file);
    float *table = numbers(file, "transformer.wpe.weight", 11 * 48);
    tfm__tensor_new_persistent(ctx, &model->decoder.positions, TFM_F32, 2, (int64_t[]){11, 48});
    harness_ok(tfm_tensor_write(ctx, model->decoder.positions, table));
    free(table);
    return model;
}

static float *logits_of(tfm_model *model, const int32_t *ids, int rows, int tokens) {
    tfm_tensor logits = {0};
    harness_ok(tfm_scope_open(harness_context()));
    harness_ok(
        tfm_model_decode(model, &logits, HARNESS_TENSOR(TFM_I32, ids, rows, tokens), (tfm_tensor){0}, (tfm_tensor){0}));
    float *host = harness_floats(logits);
    harness_ok(tfm_scope_close(harness_context(), 0, NULL));
    return host;
}

static void test_gpt2_activations_match_pytorch(void **state) {
    (void)state;
    json_t *weights, *partials;
    char *path = harness_shared("models/gpt-nano-sort/gpt-nano-sort-model.json");
    char *other = harness_shared("models/gpt-nano-sort/gpt-nano-sort-t0-partials.json");
    if (!path || !other) {
        free(path);
        free(other);
        skip();
    }
    harness_ok(tfm__json_load(&weights, path));
    harness_ok(tfm__json_load(&partials, other));
    tfm_model *model = open_sorter(weights);
    float *idx = numbers(partials, "idx", 33), *want = numbers(partials, "lm_head", 99);
    int32_t ids[33];
    for (int i = 0; i < 33; i++)
        ids[i] = (int32_t)idx[i];
    float *got = logits_of(model, ids, 3, 11);
    for (int i = 0; i < 99; i++)
        assert_true(fabs((double)got[i] - (double)want[i]) < 2e-5);

    /* All words of six of the three letters, 81 at a time: the output is the letters in order. */
    enum { BATCH = 81, WORDS = 729, SIX = 6 };
    for (int first = 0; first < WORDS; first += harness_slow() ? 4 * BATCH : BATCH) {
        int32_t texts[BATCH][2 * SIX], known[BATCH * 2 * SIX];
        for (int b = 0; b < BATCH; b++)
            for (int k = 0, word = first + b; k < SIX; k++, word /= 3)
                texts[b][k] = word % 3;
        for (int n = SIX; n < 2 * SIX; n++) {
            for (int b = 0; b < BATCH; b++)
                memcpy(known + b * n, texts[b], (size_t)n * sizeof(int32_t));
            float *logits = logits_of(model, known, BATCH, n);
            for (int b = 0; b < BATCH; b++) {
                const float *row = logits + 3 * (b * n + n - 1);
                texts[b][n] = row[0] >= row[1] && row[0] >= row[2] ? 0 : row[1] >= row[2] ? 1 : 2;
            }
            free(logits);
        }
        for (int b = 0; b < BATCH; b++) {
            int counts[3] = {0};
            for (int k = 0; k < SIX; k++) {
                counts[texts[b][k]]++;
                counts[texts[b][SIX + k]]--;
                assert_true(k == 0 || texts[b][SIX + k] >= texts[b][SIX + k - 1]);
            }
            assert_true(counts[0] == 0 && counts[1] == 0 && counts[2] == 0);
        }
    }
    free(got);
    free(idx);
    free(want);
    tfm_model_free(&model);
    json_decref(weights);
    json_decref(partials);
    free(path);
    free(other);
}

/* ---- Stories -------------------------------------------------------------------------------------------------- */

enum { E = 64, F = 172, LAYERS = 5, HEADS = 8, KV_HEADS = 4, V = 512, LENGTH = 512, D = E / HEADS, KV = KV_HEADS * D };

/* Offset of a parameter in a file of llama2.c: all layers of one kind are contiguous. */
static const float *place(const float *file, const tfm__parameter *p) {
    static const struct {
        tfm__role role;
        size_t each;
    } ORDER[] = {
        {TFM__SELF_NORM, E},       {TFM__SELF_QUERY, E * E}, {TFM__SELF_KEY, KV * E},
        {TFM__SELF_VALUE, KV * E}, {TFM__SELF_OUT, E * E},   {TFM__FEED_FORWARD_NORM, E},
        {TFM__GATE, F * E},        {TFM__DOWN, E * F},       {TFM__UP, F * E},
    };
    int layer = 0;
    size_t at = (size_t)V * E;
    if (p->kind == TFM__EMBEDDING)
        return file;
    sscanf(p->name, "model.layers.%d", &layer);
    for (size_t i = 0; i < TFM__COUNT(ORDER); i++) {
        if (p->role == ORDER[i].role)
            return file + at + (size_t)layer * ORDER[i].each;
        at += LAYERS * ORDER[i].each;
    }
    return file + at; /* the final norm */
}

/* llama2.c interleaves a head's pairs of columns; here they are half a head apart. */
static tfm_status from_llama2(void *user, const tfm__parameter *p) {
    const float *values = place(user, p);
    if (p->role != TFM__SELF_QUERY && p->role != TFM__SELF_KEY)
        return put(p, values);
    float permuted[E * E];
    for (int row = 0; row < p->dims[0]; row++) {
        const int head = row / D, k = row % D, from = head * D + (k < D / 2 ? 2 * k : 2 * (k - D / 2) + 1);
        memcpy(permuted + row * E, values + from * E, E * sizeof(float));
    }
    return put(p, permuted);
}

/* The pieces: their maximum length, then score, length and bytes of each. */
static void read_pieces(char pieces[V][32], const char *bytes, size_t size) {
    size_t at = 4;
    for (int i = 0; i < V; i++) {
        int32_t length;
        assert_true(at + 8 <= size);
        memcpy(&length, bytes + at + 4, 4);
        assert_true(length > 0 && length < 32 && at + 8 + (size_t)length <= size);
        memcpy(pieces[i], bytes + at + 8, (size_t)length);
        pieces[i][length] = 0;
        at += 8 + (size_t)length;
    }
}

/* The most likely token after each, `count` times, one token at a time. */
static void tell(char *text, tfm_model *model, char pieces[V][32], int count) {
    tfm_context *ctx = harness_context();
    tfm_kv_cache cache;
    int32_t table[LENGTH], token = 1;
    harness_ok(tfm_kv_cache_new(ctx, &cache, LAYERS, KV, LENGTH));
    for (int i = 0; i < count; i++) {
        tfm_tensor logits = {0};
        table[i] = i;
        harness_ok(tfm_scope_open(ctx));
        const tfm__decode_step s = {
            .cache = &cache, .block_table = HARNESS_TENSOR(TFM_I32, table, 1, i + 1), .slot = i, .position = i};
        harness_ok(tfm__model_step(model, &logits, HARNESS_TENSOR(TFM_I32, &token, 1, 1), &s, model->logits_bias));
        cache.slots = i + 1;
        float *host = harness_floats(logits);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
        const int before = token;
        token = 0;
        for (int v = 1; v < V; v++)
            token = host[v] > host[token] ? v : token;
        free(host);
        if (token == 1)
            break;
        unsigned byte;
        const char *piece = pieces[token] + (before == 1 && pieces[token][0] == ' ');
        text += sscanf(piece, "<0x%2x>", &byte) == 1 ? sprintf(text, "%c", (int)byte) : sprintf(text, "%s", piece);
    }
    tfm_kv_cache_free(ctx, &cache);
}

static void test_llama_greedy_text_matches_llama2c(void **state) {
    (void)state;
    static const char *const NAMES[] = {"stories260K.bin", "tok512.bin", "expected_greedy_200.txt"};
    char *bytes[3], pieces[V][32], text[4096] = "";
    size_t sizes[3];
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof(name), "models/stories260K/%s", NAMES[i]);
        char *path = harness_shared(name);
        if (!path)
            skip();
        harness_ok(tfm__file_read(&bytes[i], &sizes[i], path));
        free(path);
    }
    assert_true(sizes[0] > 28);
    float *file = malloc(sizes[0]);
    memcpy(file, bytes[0] + 28, sizes[0] - 28);
    tfm_model *model =
        make("{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 172, \"num_hidden_layers\": 5, "
             "\"num_attention_heads\": 8, \"num_key_value_heads\": 4, \"vocab_size\": 512, "
             "\"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": true}",
             from_llama2, file);
    read_pieces(pieces, bytes[1], sizes[1]);
    tell(text, model, pieces, 200);
    size_t length = sizes[2];
    while (length > 0 && bytes[2][length - 1] == '\n')
        length--;
    if (strncmp(text, bytes[2], length) != 0 || length < 400)
        fail_msg("wrong story: %s", text);
    tfm_model_free(&model);
    free(file);
    for (int i = 0; i < 3; i++)
        free(bytes[i]);
}

static int setup(void **state) {
    return harness_setup(state) || scratch_setup(state);
}

static int teardown(void **state) {
    return scratch_teardown(state) || harness_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2_activations_match_pytorch),
        cmocka_unit_test(test_llama_greedy_text_matches_llama2c),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
