/* Decoding by tokens and by chunks through the KV cache, against the whole sequence. */
#include <math.h>
#include "ops/attention/kv_quantize.h"
#include "support/decoder_models.h"
#include "support/brief.h"

enum { ROWS = 2, TOKENS = 23 };

/* Row b's token t in a cache that was written in chunks of `chunk` tokens. */
static int32_t place(int b, int t, int chunk) {
    const int first = t / chunk * chunk, tokens = TOKENS - first < chunk ? TOKENS - first : chunk;
    return (int32_t)(first * ROWS + b * tokens + t - first);
}

static tfm_status step(tfm_model *model, tfm_kv_cache *cache, tfm_tensor *logits, const int32_t *ids, int first,
                       int chunk, int64_t length) {
    const int tokens = TOKENS - first < chunk ? TOKENS - first : chunk, end = first + tokens;
    int32_t table[ROWS * TOKENS], piece[ROWS * TOKENS];
    for (int b = 0; b < ROWS; b++) {
        for (int t = 0; t < end; t++)
            table[b * end + t] = place(b, t, chunk);
        for (int t = 0; t < tokens; t++)
            piece[b * tokens + t] = ids[b * TOKENS + first + t];
    }
    const tfm__decode_step s = {.cache = cache,
                                .block_table = HARNESS_TENSOR(TFM_I32, table, ROWS, end),
                                .slot = (int64_t)first * ROWS,
                                .position = first,
                                .length = length};
    const tfm_status status =
        tfm__model_step(model, logits, HARNESS_TENSOR(TFM_I32, piece, ROWS, tokens), &s, model->logits_bias);
    cache->slots = (int64_t)end * ROWS;
    return status;
}

/* Largest difference of step logits from the whole pass, with a KV cache of that dtype. */
static double distance(tfm_model *model, const float *want, int chunk, tfm_dtype dtype) {
    tfm_context *ctx = harness_context();
    const tfm__stack_arch *arch = &model->arch.decoder;
    tfm_kv_cache cache;
    int32_t ids[ROWS * TOKENS];
    double most = 0;
    decoder_ids(ids, ROWS * TOKENS);
    harness_ok(tfm_kv_cache_new_dtype(ctx, &cache, arch->layers, arch->kv_heads * tfm__kv_span(dtype, arch->head_width),
                                      ROWS * TOKENS, dtype));
    for (int first = 0; first < TOKENS; first += chunk) {
        const int last = (first + chunk < TOKENS ? first + chunk : TOKENS) - 1;
        tfm_tensor logits = {0};
        harness_ok(tfm_scope_open(ctx));
        harness_ok(step(model, &cache, &logits, ids, first, chunk, 0));
        float *got = harness_floats(logits);
        for (int b = 0; b < ROWS; b++)
            for (int v = 0; v < DECODER_VOCABULARY; v++)
                most = fmax(most, fabs((double)got[b * DECODER_VOCABULARY + v] -
                                       (double)want[(b * TOKENS + last) * DECODER_VOCABULARY + v]));
        free(got);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
    tfm_kv_cache_free(ctx, &cache);
    return most;
}

/* Brief runs, as on GPUs, test one of each kind: learned positions, GQA, windows, QK norm, partial RoPE, and capped
 * scores. */
static bool left_out(const char *name) {
    static const char *const KINDS[] = {"gpt2", "llama", "mistral", "qwen3", "phi3", "gemma2"};
    if (!less())
        return false;
    for (size_t i = 0; i < TFM__COUNT(KINDS); i++)
        if (strcmp(name, KINDS[i]) == 0)
            return false;
    return true;
}

static void test_decode_steps_and_chunks_equal_the_whole(void **state) {
    (void)state;
    for (size_t k = 0; k < TFM__COUNT(DECODERS); k++) {
        if (left_out(DECODERS[k].name))
            continue;
        tfm_model *model = decoder_make(DECODERS[k].config);
        float *want = decoder_logits(model, ROWS, TOKENS);
        double largest = 0;
        for (int i = 0; i < ROWS * TOKENS * DECODER_VOCABULARY; i++)
            largest = fmax(largest, fabs((double)want[i]));
        assert_true(largest > 0.5 && largest < 1e3);
        static const int CHUNKS[] = {1, 5, TOKENS};
        for (size_t i = 0; i < TFM__COUNT(CHUNKS); i++) {
            const double most = distance(model, want, CHUNKS[i], TFM_F32);
            if (!(most <= 1e-5 * largest))
                fail_msg("%s in chunks of %d: %g, of logits up to %g", DECODERS[k].name, CHUNKS[i], most, largest);
            static const tfm_dtype DTYPES[] = {TFM_F16, TFM_BF16, TFM_I8};
            static const double STEPS[] = {5e-3, 4e-2, 8e-2};
            for (int d = 0; d < 3; d++) { /* rounding error, no more */
                if ((harness_slow() || harness_brief()) && CHUNKS[i] != 5)
                    continue;
                const double rounded = distance(model, want, CHUNKS[i], DTYPES[d]);
                if (!(rounded <= STEPS[d] * largest) || !(rounded > 4 * most))
                    fail_msg("%s in chunks of %d, KV cache in %s: %g, of logits up to %g", DECODERS[k].name, CHUNKS[i],
                             tfm_dtype_name(DTYPES[d]), rounded, largest);
            }
        }
        free(want);
        tfm_model_free(&model);
    }
}

/* Keys cached below the longrope length limit are invalid above it. */
static void test_longrope_cache_across_its_boundary_is_rejected(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_model *model = decoder_make(
        "{\"model_type\": \"phi3\", " DECODER_SIZES ", \"head_dim\": 8, \"original_max_position_embeddings\": 12, "
        "\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 1, 1, 1], \"long_factor\": [2, 3, 4, 5]}}");
    float *want = decoder_logits(model, ROWS, TOKENS);
    assert_true(tfm__model_rope_matches(model, 3, 12) && tfm__model_rope_matches(model, 13, 20) &&
                !tfm__model_rope_matches(model, 12, 13));
    for (int known = 0; known < 2; known++) {
        tfm_kv_cache cache;
        int32_t ids[ROWS * TOKENS];
        tfm_status status = TFM_OK;
        decoder_ids(ids, ROWS * TOKENS);
        harness_ok(tfm_kv_cache_new(ctx, &cache, 3, 16, ROWS * TOKENS));
        for (int first = 0; first < TOKENS && status == TFM_OK; first += 5) {
            tfm_tensor logits = {0};
            harness_ok(tfm_scope_open(ctx));
            status = step(model, &cache, &logits, ids, first, 5, known ? TOKENS : 0);
            if (status == TFM_OK && first == 20) {
                float *got = harness_floats(logits);
                for (int v = 0; v < DECODER_VOCABULARY; v++)
                    assert_true(fabs((double)(got[v] - want[(TOKENS - 1) * DECODER_VOCABULARY + v])) < 1e-4);
                free(got);
            }
            if (status == TFM_OK)
                harness_ok(tfm_scope_close(ctx, 0, NULL));
        }
        if (known)
            harness_ok(status);
        else
            scratch_refused(status, TFM_ERROR_ARGUMENT, "a sequence of 15 tokens has other RoPE frequencies");
        tfm_context_clear_error(ctx);
        tfm_kv_cache_free(ctx, &cache);
    }
    free(want);
    tfm_model_free(&model);
}

/* Log p of each generated token, given the whole text before it; its length selects the RoPE factors. */
static double log_prob_of(tfm_model *model, const int32_t *text, int prompt, int count) {
    double sum = 0;
    for (int n = prompt; n < prompt + count; n++) {
        tfm_tensor logits = {0};
        harness_ok(tfm_scope_open(harness_context()));
        harness_ok(
            tfm_model_decode(model, &logits, HARNESS_TENSOR(TFM_I32, text, 1, n), (tfm_tensor){0}, (tfm_tensor){0}));
        float *host = harness_floats(logits), *row = host + (size_t)(n - 1) * DECODER_VOCABULARY;
        double total = 0;
        for (int v = 0; v < DECODER_VOCABULARY; v++)
            total += exp((double)row[v]);
        sum += (double)row[text[n]] - log(total);
        free(host);
        harness_ok(tfm_scope_close(harness_context(), 0, NULL));
    }
    return sum;
}

/* A text that grows past the limit continues as if it had been long from the start. */
static void test_generation_crosses_the_longrope_boundary(void **state) {
    (void)state;
    enum { PROMPT = 5, NEW = 14 };
    tfm_model *model = decoder_make(
        "{\"model_type\": \"phi3\", " DECODER_SIZES ", \"head_dim\": 8, \"original_max_position_embeddings\": 12, "
        "\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 1, 1, 1], \"long_factor\": [2, 3, 4, 5]}}");
    int32_t text[PROMPT + NEW];
    const size_t count = PROMPT;
    decoder_ids(text, PROMPT);
    for (int turn = 0; turn < 4; turn++) {
        const int beam = turn % 2 == 1 ? 3 : 1;
        tfm_hypotheses out;
        model->kv_dtype = turn == 2 ? TFM_F16 : turn == 3 ? TFM_I8 : TFM_F32;
        harness_ok(tfm_generate_ids(
            model, &out, text, &count, 1,
            &(tfm_generate_options){.beam_size = beam, .n_best = beam, .max_new_tokens = NEW, .min_new_tokens = NEW}));
        for (int i = 0; i < beam; i++) {
            const tfm_hypothesis *h = &out.items[i];
            assert_true(h->tokens <= NEW && h->tokens > 0);
            memcpy(text + PROMPT, h->ids, (size_t)h->tokens * sizeof(*text));
            const double want = log_prob_of(model, text, PROMPT, h->tokens);
            if (!(fabs(h->log_prob - want) < (turn == 3 ? 2e-1 : turn == 2 ? 5e-2 : 1e-3)))
                fail_msg("beam %d, text %d of %d tokens: %g instead of %g", beam, i, h->tokens, h->log_prob, want);
        }
        assert_true(out.items[0].tokens > 10); /* it crosses the limit */
        tfm_hypotheses_free(&out);
    }
    tfm_model_free(&model);
}

static int setup(void **state) {
    return harness_setup(state) || scratch_setup(state);
}

static int teardown(void **state) {
    return scratch_teardown(state) || harness_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_steps_and_chunks_equal_the_whole),
        cmocka_unit_test(test_longrope_cache_across_its_boundary_is_rejected),
        cmocka_unit_test(test_generation_crosses_the_longrope_boundary),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
