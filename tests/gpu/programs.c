/* Requests programs at the sizes of common models, which tests avoid because they would be slow: attention with head
 * sizes of published models, GEMM with few and many rows, forward and backward, int8 GEMM, a decode step with a 16-bit
 * KV cache, and generation. Under the pose layer nothing is computed; find.sh runs it along with the tests.
 *
 *     gpu_programs           prints calls that the device refuses; exit code 1 if there are any */
#include <stdio.h>
#include <tfm/tfm.h>
#include "dev/device/context_internal.h"
#include "model/core/model.h"

static int failures;

static tfm_tensor zeros(tfm_context *ctx, tfm_dtype dtype, int rank, const int64_t *dims) {
    tfm_tensor x = {0};
    tfm_tensor_new(ctx, &x, dtype, rank, dims);
    return x;
}

#define ZEROS(ctx, dtype, ...)                                                                                         \
    zeros(ctx, dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

/* Ends a case's scope. Prints an error and continues with the next case. */
static void done(tfm_context *ctx, const char *what, int64_t size) {
    if (tfm_context_status(ctx) != TFM_OK) {
        fprintf(stderr, "%s %lld: %s\n", what, (long long)size, tfm_context_error(ctx));
        tfm_context_clear_error(ctx);
        failures++;
    } else {
        tfm_scope_close(ctx, 0, NULL);
    }
}

/* Starts the tape and watches x. */
static void watch(tfm_context *ctx, size_t count, const tfm_tensor *x) {
    tfm_tape_start(ctx);
    for (size_t i = 0; i < count; i++) {
        tfm_tensor gradient = {0};
        tfm_tensor_new(ctx, &gradient, TFM_F32, x[i].rank, x[i].dims);
        tfm_tape_watch(ctx, x[i], gradient);
    }
}

static void attend_as(tfm_context *ctx, int64_t width, int64_t queries, tfm_dtype asking, tfm_dtype dtype,
                      bool backward, tfm_attention_options options) {
    enum { SEQUENCES = 8, HEADS = 8, KEYS = 256 };
    tfm_scope_open(ctx);
    tfm_tensor q = ZEROS(ctx, asking, SEQUENCES, queries, HEADS * width),
               k = ZEROS(ctx, dtype, SEQUENCES, KEYS, HEADS * width),
               v = ZEROS(ctx, dtype, SEQUENCES, KEYS, HEADS * width), y = {0};
    options.heads = HEADS;
    if (backward)
        watch(ctx, 3, (tfm_tensor[]){q, k, v});
    tfm_attention(ctx, &y, q, k, v, &options);
    if (backward)
        tfm_backward(ctx, y, ZEROS(ctx, TFM_F32, SEQUENCES, queries, HEADS * width));
    tfm_tape_stop(ctx);
    done(ctx, "attention in heads of", width);
}

static void attend(tfm_context *ctx, int64_t width, int64_t queries, tfm_dtype dtype, bool backward,
                   tfm_attention_options options) {
    attend_as(ctx, width, queries, dtype, dtype, backward, options);
}

/* Elements of a head of keys or values. */
static int64_t span(tfm_dtype kept, int64_t width) {
    return kept == TFM_I8 ? TFM_KV_INT8_SPAN(width) : width;
}

/* A decode step of one sequence; several work-groups share the past; `sharing` query heads per KV head. */
static void attend_past(tfm_context *ctx, int64_t width, int sharing, float soft_cap, tfm_dtype kept) {
    enum { KEYS = 4096 };
    tfm_scope_open(ctx);
    tfm_tensor q = ZEROS(ctx, TFM_F32, 1, 1, sharing * width), k = ZEROS(ctx, kept, 1, KEYS, span(kept, width)),
               v = ZEROS(ctx, kept, 1, KEYS, span(kept, width)), y = {0};
    tfm_attention(ctx, &y, q, k, v, &(tfm_attention_options){.heads = sharing, .kv_heads = 1, .soft_cap = soft_cap});
    done(ctx, "attention of a step in heads of", width);
}

/* Prefill of `queries` tokens, or a chunk, at the end of a sequence with `keys` in the KV cache and a block table. For
 * few queries and a long past, several work-groups share a tile's keys. */
static void attend_prompt(tfm_context *ctx, int64_t width, int64_t queries, int64_t keys, float soft_cap,
                          tfm_dtype kept) {
    enum { HEADS = 8, KEY_HEADS = 2 };
    tfm_scope_open(ctx);
    tfm_tensor q = ZEROS(ctx, TFM_F32, 1, queries, HEADS * width),
               k = ZEROS(ctx, kept, keys, KEY_HEADS * span(kept, width)),
               v = ZEROS(ctx, kept, keys, KEY_HEADS * span(kept, width)), y = {0};
    tfm_attention(ctx, &y, q, k, v,
                  &(tfm_attention_options){.heads = HEADS,
                                           .kv_heads = KEY_HEADS,
                                           .causal = true,
                                           .past = keys - queries,
                                           .soft_cap = soft_cap,
                                           .kv_indices = ZEROS(ctx, TFM_I32, 1, keys)});
    done(ctx, "attention of a prompt in heads of", width);
}

/* Top-k of large vocabularies. */
static void vocabularies(tfm_context *ctx) {
    static const int64_t ENTRIES[] = {8000, 262144};
    for (size_t i = 0; i < sizeof(ENTRIES) / sizeof(*ENTRIES); i++) {
        tfm_tensor values = {0}, indices = {0}, lse = {0};
        tfm_scope_open(ctx);
        tfm_topk(ctx, &values, &indices, &lse, ZEROS(ctx, TFM_F32, 4, ENTRIES[i]), 8);
        done(ctx, "the best of", ENTRIES[i]);
    }
}

static void attention(tfm_context *ctx) {
    static const int64_t WIDTHS[] = {16, 32, 48, 64, 80, 96, 128, 192, 256}, QUERIES[] = {1, 4, 64};
    const tfm_dropout_options drops = {.rate = 0.1f, .seed = 1};
    for (size_t i = 0; i < sizeof(WIDTHS) / sizeof(*WIDTHS); i++) {
        for (size_t j = 0; j < sizeof(QUERIES) / sizeof(*QUERIES); j++)
            attend(ctx, WIDTHS[i], QUERIES[j], TFM_F32, false, (tfm_attention_options){.causal = QUERIES[j] > 1});
        attend(ctx, WIDTHS[i], 64, TFM_F32, true, (tfm_attention_options){.causal = true});
        attend_past(ctx, WIDTHS[i], 1, 0, TFM_F32);
        attend_past(ctx, WIDTHS[i], 8, 0, TFM_F32);
    }
    attend_past(ctx, 256, 2, 50, TFM_F32);
    for (tfm_dtype kept = TFM_F16; kept <= TFM_BF16; kept++)
        for (size_t i = 3; i < 7; i += 3) {
            attend_past(ctx, WIDTHS[i], 1, 0, kept);
            attend_past(ctx, WIDTHS[i], 8, 0, kept);
            for (size_t j = 0; j < sizeof(QUERIES) / sizeof(*QUERIES); j++)
                attend_as(ctx, WIDTHS[i], QUERIES[j], TFM_F32, kept, false, (tfm_attention_options){0});
        }
    for (size_t i = 3; i < 9; i += 5) {
        attend_past(ctx, WIDTHS[i], 1, 0, TFM_I8);
        attend_past(ctx, WIDTHS[i], 8, i == 8 ? 50 : 0, TFM_I8);
    }
    static const tfm_dtype KEPT[] = {TFM_F32, TFM_F16, TFM_BF16, TFM_I8};
    for (size_t d = 0; d < sizeof(KEPT) / sizeof(*KEPT); d++)
        for (size_t i = 3; i < sizeof(WIDTHS) / sizeof(*WIDTHS); i += i < 6 ? 1 : 2)
            for (int capped = 0; capped < 2; capped++) {
                attend_prompt(ctx, WIDTHS[i], 256, 256, capped ? 50 : 0, KEPT[d]);
                attend_prompt(ctx, WIDTHS[i], 16, 4096, capped ? 50 : 0, KEPT[d]);
            }
    for (size_t j = 0; j < sizeof(QUERIES) / sizeof(*QUERIES); j++) {
        attend(ctx, 64, QUERIES[j], TFM_F16, false, (tfm_attention_options){0});
        attend(ctx, 64, QUERIES[j], TFM_BF16, false, (tfm_attention_options){0});
        attend(ctx, 64, QUERIES[j], TFM_F32, false, (tfm_attention_options){.soft_cap = 30});
    }
    attend(ctx, 64, 64, TFM_F32, true, (tfm_attention_options){.dropout = &drops});
    for (int64_t width = 128; width <= 256; width *= 2)
        attend(ctx, width, 64, TFM_F32, true, (tfm_attention_options){.soft_cap = 30, .dropout = &drops});
    attend(ctx, 256, 64, TFM_F32, true, (tfm_attention_options){.soft_cap = 50, .causal = true});
}

static void multiply(tfm_context *ctx, int64_t m, tfm_gemm_options options, bool backward) {
    enum { N = 512, K = 512 };
    tfm_scope_open(ctx);
    tfm_tensor a = options.transpose_a ? ZEROS(ctx, TFM_F32, K, m) : ZEROS(ctx, TFM_F32, m, K),
               b = options.transpose_b ? ZEROS(ctx, TFM_F32, N, K) : ZEROS(ctx, TFM_F32, K, N), c = {0};
    if (backward)
        watch(ctx, 2, (tfm_tensor[]){a, b});
    tfm_gemm(ctx, &c, a, b, &options);
    if (backward)
        tfm_backward(ctx, c, ZEROS(ctx, TFM_F32, m, N));
    tfm_tape_stop(ctx);
    done(ctx, "a GEMM with rows", m);
}

static void products(tfm_context *ctx) {
    static const int64_t ROWS[] = {1, 4, 8, 16, 32, 64, 256, 4096};
    for (size_t i = 0; i < sizeof(ROWS) / sizeof(*ROWS); i++) {
        for (int activation = TFM_NO_ACTIVATION; activation <= TFM_SILU; activation++)
            multiply(ctx, ROWS[i], (tfm_gemm_options){.transpose_b = true, .activation = (tfm_activation)activation},
                     false);
        multiply(ctx, ROWS[i], (tfm_gemm_options){.transpose_a = true}, false);
        multiply(ctx, ROWS[i], (tfm_gemm_options){.transpose_b = true}, true);
    }
}

/* Linear layers with int8 weights: few rows, quantized in the same launch and in a separate one, and tiles. */
static void bytes(tfm_context *ctx) {
    static const int64_t ROWS[] = {1, 2, 4, 8, 32, 64, 256, 4096}, WIDTHS[] = {512, 1024, 4096};
    for (size_t i = 0; i < sizeof(ROWS) / sizeof(*ROWS); i++)
        for (size_t j = 0; j < sizeof(WIDTHS) / sizeof(*WIDTHS); j++)
            for (int activation = TFM_NO_ACTIVATION; activation <= (j ? TFM_NO_ACTIVATION : TFM_SILU); activation++) {
                tfm_tensor y = {0};
                tfm_scope_open(ctx);
                tfm_param weight = {.value = ZEROS(ctx, TFM_I8, 512, WIDTHS[j]), .scales = ZEROS(ctx, TFM_F32, 512)};
                tfm_linear(ctx, &y, ZEROS(ctx, TFM_F32, ROWS[i], WIDTHS[j]), &weight, (tfm_tensor){0},
                           (tfm_activation)activation);
                done(ctx, "an int8 GEMM with rows", ROWS[i]);
            }
}

static tfm_dense dense(tfm_context *ctx, tfm_dtype dtype, int64_t n, int64_t k) {
    return (tfm_dense){.weight.value = ZEROS(ctx, dtype, n, k)};
}

/* A decoder layer for one new token of `rows` sequences: weights and KV cache in 16 bits. */
static void step(tfm_context *ctx, tfm_dtype kept, int64_t rows, bool turns) {
    enum { WIDTH = 512, HEADS = 8, INNER = 1024, PAST = 40 };
    const tfm_norm norm = {.epsilon = 1e-5f, .kind = turns ? TFM_NORM_RMS : TFM_NORM_LAYER};
    tfm_scope_open(ctx);
    tfm_block block = {.attention = {.query = dense(ctx, kept, WIDTH, WIDTH),
                                     .key = dense(ctx, kept, WIDTH, WIDTH),
                                     .value = dense(ctx, kept, WIDTH, WIDTH),
                                     .out = dense(ctx, kept, WIDTH, WIDTH),
                                     .heads = HEADS},
                       .attention_norm = norm,
                       .feed_forward = {.up = dense(ctx, kept, INNER, WIDTH), .down = dense(ctx, kept, WIDTH, INNER)},
                       .feed_forward_norm = norm,
                       .norm_placement = turns ? TFM_NORM_PRE : TFM_NORM_POST};
    tfm_block_inputs memory = {.cache_kv = {ZEROS(ctx, kept, rows * PAST, WIDTH), ZEROS(ctx, kept, rows * PAST, WIDTH)},
                               .kv_indices = ZEROS(ctx, TFM_I32, rows, PAST)};
    tfm_tensor y = {0};
    tfm_tensor_rows(ctx, &memory.new_kv.keys, memory.cache_kv.keys, 0, rows);
    tfm_tensor_rows(ctx, &memory.new_kv.values, memory.cache_kv.values, 0, rows);
    if (turns)
        tfm_rotary_tables(ctx, &memory.cosines, &memory.sines, PAST, WIDTH / HEADS, 0);
    tfm_block_forward(ctx, &y, &block, ZEROS(ctx, TFM_F32, rows, 1, WIDTH), &memory);
    done(ctx, "a step of rows", rows);
}

static void steps(tfm_context *ctx) {
    for (tfm_dtype kept = TFM_F16; kept <= TFM_BF16; kept++)
        for (int64_t rows = 1; rows <= 256; rows *= 4)
            for (int turns = 0; turns < 2; turns++)
                step(ctx, kept, rows, turns);
}

/* Searches with a model of this family, NULL for a translator. They generate a few tokens, because the count of
 * unfinished sentences is zero here. */
static void search(tfm_context *ctx, const char *family, tfm_dtype kept) {
    enum { VOCABULARY = 16384, SENTENCES = 2, LENGTH = 5, TOKENS = 24 };
    const tfm_model_shape shape = {.family = family,
                                   .width = 512,
                                   .heads = 8,
                                   .kv_heads = family ? 2 : 0,
                                   .ffn_dim = 1024,
                                   .encoder_layers = family ? 0 : 1,
                                   .decoder_layers = 1,
                                   .source_vocab_size = VOCABULARY,
                                   .max_positions = 64,
                                   .pad_id = family ? -1 : VOCABULARY - 1,
                                   .start_id = family ? 1 : VOCABULARY - 1,
                                   .eos_id = 2,
                                   .activation = family ? TFM_SILU : TFM_RELU,
                                   .seed = 1};
    const int32_t ids[SENTENCES * LENGTH] = {0};
    const size_t counts[SENTENCES] = {LENGTH, LENGTH - 2};
    tfm_model *model = NULL;
    tfm_scope_open(ctx);
    if (tfm_model_new(&model, ctx, &shape) == TFM_OK)
        model->kv_dtype = kept;
    for (int turn = 0; model && turn < 2; turn++) {
        const int beam = turn ? 4 : 1;
        tfm_hypotheses found;
        if (family)
            tfm_generate_ids(model, &found, ids, counts, SENTENCES,
                             &(tfm_generate_options){.beam_size = beam, .max_new_tokens = TOKENS});
        else
            tfm_search(model, &found, ids, counts, SENTENCES, NULL, NULL,
                       &(tfm_search_options){.beam_size = beam, .max_length = TOKENS});
        tfm_hypotheses_free(&found);
    }
    tfm_model_free(&model);
    done(ctx, "searches of a vocabulary of", VOCABULARY);
}

int main(void) {
    tfm_context *ctx = NULL;
    if (tfm_context_open(&ctx, NULL) != TFM_OK) {
        fprintf(stderr, "%s\n", tfm_error_message());
        return 1;
    }
    attention(ctx);
    products(ctx);
    bytes(ctx);
    vocabularies(ctx);
    steps(ctx);
    search(ctx, NULL, TFM_F32);
    search(ctx, "llama", TFM_F16);
    search(ctx, "llama", TFM_I8);
    tfm_context_free(&ctx);
    return failures > 0;
}
