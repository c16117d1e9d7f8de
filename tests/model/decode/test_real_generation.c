/* Real decoder weights, converted to Hugging Face directories: a Llama of 260,000 parameters that tells stories,
 * against llama2.c; and a GPT-2 that sorts six letters. */
#include "support/scratch.h"
#include "support/tensors_file.h"
#include "tfm/model.h"

/* ---- Directories ----------------------------------------------------------------------------------------------- */

static tfm_model *open_scratch(void) {
    tfm_model *model = NULL;
    harness_ok(tfm_model_open(&model, harness_context(), scratch_root, &(tfm_model_options){.no_tokenizer = true}));
    return model;
}

/* ---- Stories --------------------------------------------------------------------------------------------------- */

enum { TOKENS = 200, BOS = 1, LAYERS = 5 };

/* Permutes rows of heads from interleaved pairs to rotate-half order. */
static float *rotate_half_order(const float *from, int rows, int columns, int head_width) {
    float *out = malloc((size_t)rows * (size_t)columns * sizeof(*out));
    assert_non_null(out);
    for (int r = 0; r < rows; r++) {
        const int head = r / head_width, i = r % head_width, half = head_width / 2;
        const int source = head * head_width + (i < half ? 2 * i : 2 * (i - half) + 1);
        memcpy(out + r * columns, from + source * columns, (size_t)columns * sizeof(*out));
    }
    return out;
}

/* The llama2.c format: seven numbers, then tensors, each of all layers. */
static void make_story_teller(const char *bytes, size_t size) {
    static const char *const names[] = {"input_layernorm",  "self_attn.q_proj", "self_attn.k_proj",
                                        "self_attn.v_proj", "self_attn.o_proj", "post_attention_layernorm",
                                        "mlp.gate_proj",    "mlp.down_proj",    "mlp.up_proj"};
    int32_t sizes[7];
    memcpy(sizes, bytes, sizeof(sizes));
    const int width = sizes[0], inner = sizes[1], kv = width / sizes[3] * sizes[4];
    const int rows[] = {0, width, kv, kv, width, 0, inner, width, inner};
    const int columns[] = {width, width, width, width, width, width, width, inner, width};
    assert_true(sizes[2] == LAYERS && sizes[5] > 0);
    float *numbers = malloc(size - sizeof(sizes));
    assert_non_null(numbers);
    memcpy(numbers, bytes + sizeof(sizes), size - sizeof(sizes));
    tensors_file w = {.header = json_object()};
    const float *at = numbers;
    tensors_add(&w, "model.embed_tokens.weight", at, sizes[5], width, false);
    at += sizes[5] * width;
    for (int k = 0; k < 9; k++)
        for (int layer = 0; layer < LAYERS; layer++) {
            char name[96];
            float *permuted = k == 1 || k == 2 ? rotate_half_order(at, rows[k], columns[k], width / sizes[3]) : NULL;
            snprintf(name, sizeof(name), "model.layers.%d.%s.weight", layer, names[k]);
            tensors_add(&w, name, permuted ? permuted : at, rows[k], columns[k], false);
            at += (rows[k] ? rows[k] : 1) * columns[k];
            free(permuted);
        }
    tensors_add(&w, "model.norm.weight", at, 0, width, false);
    char config[1024];
    snprintf(
        config, sizeof(config),
        "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": %d, "
        "\"intermediate_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": %d, "
        "\"num_key_value_heads\": %d, \"vocab_size\": %d, \"max_position_embeddings\": %d, \"rms_norm_eps\": 1e-5, "
        "\"rope_theta\": 10000.0, \"hidden_act\": \"silu\", \"tie_word_embeddings\": true, \"bos_token_id\": 1, "
        "\"eos_token_id\": 2}",
        width, inner, sizes[2], sizes[3], sizes[4], sizes[5], sizes[6]);
    tensors_finish(&w, scratch_root, config);
    free(numbers);
}

/* Decodes ids with llama2.c's tokenizer file: the maximum length, then score, length and bytes of each piece. Pieces
 * such as <0x0A> are bytes; the blank after the start token is dropped. */
static void say(char *out, const char *pieces, const int32_t *ids, size_t count) {
    *out = 0;
    for (size_t i = 0; i < count; i++) {
        const char *at = pieces + 4;
        int32_t length;
        unsigned byte;
        for (int32_t id = 0;; id++) {
            memcpy(&length, at + 4, 4);
            if (id == ids[i])
                break;
            at += 8 + length;
        }
        char piece[64];
        snprintf(piece, sizeof(piece), "%.*s", (int)length, at + 8);
        const char *text = i == 0 && piece[0] == ' ' ? piece + 1 : piece;
        if (sscanf(piece, "<0x%02X>", &byte) == 1)
            sprintf(out + strlen(out), "%c", (int)byte);
        else
            strcat(out, text);
    }
}

static char *read_shared(const char *relative, size_t *size) {
    char *path = harness_shared(relative), *bytes = NULL;
    if (path)
        harness_ok(tfm__file_read(&bytes, size, path));
    free(path);
    return bytes;
}

static void test_llama_directory_generates_the_reference_story(void **state) {
    (void)state;
    size_t size, unused;
    char *bytes = read_shared("models/stories260K/stories260K.bin", &size);
    if (!bytes)
        skip();
    char *pieces = read_shared("models/stories260K/tok512.bin", &unused);
    char *want = read_shared("models/stories260K/expected_greedy_200.txt", &unused);
    make_story_teller(bytes, size);
    tfm_model *model = open_scratch();
    const int32_t start = BOS;
    const size_t one = 1;
    const int tokens = harness_slow() ? TOKENS / 4 : TOKENS;
    tfm_hypotheses found;
    char text[TOKENS * 16];
    harness_ok(tfm_generate_ids(model, &found, &start, &one, 1, &(tfm_generate_options){.max_new_tokens = tokens}));
    assert_int_equal(found.items[0].tokens, tokens);
    say(text, pieces, found.items[0].ids, found.items[0].count);
    want[strcspn(want, "\r")] = 0;
    while (*want && want[strlen(want) - 1] == '\n')
        want[strlen(want) - 1] = 0;
    if (tokens < TOKENS)
        want[strlen(text)] = 0;
    assert_string_equal(text, want);
    /* Prompted with its own first half, it generates the other half. */
    int32_t half[TOKENS / 2 + 1] = {BOS};
    const size_t count = (size_t)tokens / 2 + 1;
    memcpy(half + 1, found.items[0].ids, (count - 1) * sizeof(*half));
    tfm_hypotheses rest;
    harness_ok(tfm_generate_ids(model, &rest, half, &count, 1, &(tfm_generate_options){.max_new_tokens = tokens / 2}));
    assert_memory_equal(rest.items[0].ids, found.items[0].ids + tokens / 2, (size_t)tokens / 2 * sizeof(int32_t));
    tfm_hypotheses_free(&rest);
    tfm_hypotheses_free(&found);
    tfm_model_free(&model);
    free(bytes);
    free(pieces);
    free(want);
}

/* ---- Sorting --------------------------------------------------------------------------------------------------- */

enum { LETTERS = 6, WORDS = 729 };

static float *from_base64(const char *text, size_t count) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char *out = malloc(count * 4 + 3);
    size_t used = 0;
    assert_non_null(out);
    for (unsigned value = 0, bits = 0; *text && *text != '=' && used < count * 4; text++) {
        value = value << 6 | (unsigned)(strchr(digits, *text) - digits);
        bits += 6;
        if (bits >= 8)
            out[used++] = (unsigned char)(value >> (bits -= 8));
    }
    assert_int_equal(used, count * 4);
    return (float *)(void *)out;
}

static void make_sorter(const json_t *stored) {
    tensors_file w = {.header = json_object()};
    const char *name;
    json_t *tensor;
    json_object_foreach((json_t *)(uintptr_t)stored, name, tensor) {
        const json_t *shape = json_object_get(tensor, "shape");
        if (!shape || strstr(name, ".attn.bias"))
            continue;
        const bool matrix = json_array_size(shape) == 2;
        const int64_t first = json_integer_value(json_array_get(shape, 0));
        const int64_t second = matrix ? json_integer_value(json_array_get(shape, 1)) : 1;
        float *numbers = from_base64(json_string_value(json_object_get(tensor, "data")), (size_t)(first * second));
        const bool transposed = matrix && (strstr(name, ".c_attn") || strstr(name, ".c_proj") || strstr(name, ".c_fc"));
        tensors_add(&w, name, numbers,
                    !matrix      ? 0
                    : transposed ? second
                                 : first,
                    !matrix || transposed ? first : second, transposed);
        free(numbers);
    }
    tensors_finish(
        &w, scratch_root,
        "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": 48, \"n_layer\": 3, "
        "\"n_head\": 3, \"n_positions\": 11, \"vocab_size\": 3, \"activation_function\": \"gelu_new\", "
        "\"tie_word_embeddings\": false}");
}

static void test_gpt2_directory_sorts_letters(void **state) {
    (void)state;
    size_t size;
    char *bytes = read_shared("models/gpt-nano-sort/gpt-nano-sort-model.json", &size);
    if (!bytes)
        skip();
    json_t *stored = json_loadb(bytes, size, 0, NULL);
    assert_non_null(stored);
    make_sorter(stored);
    tfm_model *model = open_scratch();
    static int32_t ids[WORDS * LETTERS];
    static size_t counts[WORDS];
    tfm_hypotheses found;
    int sorted = 0;
    for (int i = 0; i < WORDS; i++) {
        counts[i] = LETTERS;
        for (int k = 0, rest = i; k < LETTERS; k++, rest /= 3)
            ids[i * LETTERS + k] = rest % 3;
    }
    harness_ok(tfm_generate_ids(model, &found, ids, counts, WORDS, &(tfm_generate_options){.max_new_tokens = LETTERS}));
    for (int i = 0; i < WORDS; i++) {
        int number[3] = {0};
        int32_t want[LETTERS];
        for (int k = 0; k < LETTERS; k++)
            number[ids[i * LETTERS + k]]++;
        for (int k = 0; k < LETTERS; k++)
            want[k] = k >= number[0] + number[1] ? 2 : k >= number[0];
        assert_int_equal(found.items[i].tokens, LETTERS);
        sorted += memcmp(found.items[i].ids, want, sizeof(want)) == 0;
    }
    printf("%d of %d words of six letters are sorted\n", sorted, WORDS);
    assert_int_equal(sorted, WORDS);
    tfm_hypotheses_free(&found);
    tfm_model_free(&model);
    json_decref(stored);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_llama_directory_generates_the_reference_story, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(test_gpt2_directory_sorts_letters, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
