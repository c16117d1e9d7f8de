/* Attention, step by step, on numbers to follow by hand.
 *
 *     cc self_attention.c $(pkg-config --cflags --libs tfm) -o self_attention && ./self_attention */
#include <stdio.h>
#include <tfm/tfm.h>

/* A tensor of the given numbers. The context stores failures, so one check at the end is enough. */
static tfm_tensor upload(tfm_context *ctx, const float *numbers, int64_t rows, int64_t columns) {
    tfm_tensor x = {0};
    tfm_tensor_new(ctx, &x, TFM_F32, 2, (int64_t[]){rows, columns});
    tfm_tensor_write(ctx, x, numbers);
    return x;
}

static void show(tfm_context *ctx, const char *title, tfm_tensor x) {
    float numbers[16];
    if (tfm_tensor_read(ctx, numbers, x) != TFM_OK)
        return;
    const size_t columns = (size_t)x.dims[x.rank - 1], count = tfm_tensor_count(x);
    printf("%s\n", title);
    for (size_t i = 0; i < count; i++)
        printf("%10.5f%s", (double)numbers[i], i % columns == columns - 1 ? "\n" : "");
}

/* Self-attention of three inputs: each has a query, a key and a value. */
static void self_attention(tfm_context *ctx) {
    const float inputs[] = {1, 0, 1, 0, 0, 2, 0, 2, 1, 1, 1, 1};
    const float w_key[] = {0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0};
    const float w_query[] = {1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1};
    const float w_value[] = {0, 2, 0, 0, 3, 0, 1, 0, 3, 1, 1, 0};
    const tfm_gemm_options with_columns = {.transpose_b = true};
    tfm_tensor keys = {0}, queries = {0}, values = {0}, scores = {0}, weights = {0}, outputs = {0};
    tfm_tensor x = upload(ctx, inputs, 3, 4);
    show(ctx, "inputs", x);
    tfm_gemm(ctx, &keys, x, upload(ctx, w_key, 4, 3), NULL);
    show(ctx, "keys = inputs w_key", keys);
    tfm_gemm(ctx, &queries, x, upload(ctx, w_query, 4, 3), NULL);
    show(ctx, "queries = inputs w_query", queries);
    tfm_gemm(ctx, &values, x, upload(ctx, w_value, 4, 3), NULL);
    show(ctx, "values = inputs w_value", values);
    tfm_gemm(ctx, &scores, queries, keys, &with_columns);
    show(ctx, "scores = queries keys^T", scores);
    tfm_softmax(ctx, &weights, scores);
    show(ctx, "weights = softmax of each row of scores", weights);
    tfm_gemm(ctx, &outputs, weights, values, NULL);
    show(ctx, "outputs = weights values", outputs);

    /* All of it after the projections in one call, here with the scale 1/sqrt(3): scores that grow with the
     * width would leave the softmax no choice. Then with three heads, which each look at one column. (B, T,
     * E) with B = 1. */
    const int64_t dims[] = {1, 3, 3};
    tfm_tensor q, k, v, scaled = {0}, heads = {0};
    tfm_tensor_reshape(ctx, &q, queries, 3, dims);
    tfm_tensor_reshape(ctx, &k, keys, 3, dims);
    tfm_tensor_reshape(ctx, &v, values, 3, dims);
    tfm_attention(ctx, &scaled, q, k, v, &(tfm_attention_options){.heads = 1});
    show(ctx, "outputs with scores / sqrt(3)", scaled);
    tfm_attention(ctx, &heads, q, k, v, &(tfm_attention_options){.heads = 3});
    show(ctx, "outputs with three heads", heads);
}

/* Cross-attention of a decoder state over encoder states, with dot products as scores. */
static void sequence_to_sequence(tfm_context *ctx) {
    const float states[] = {0, 1, 1, 5, 0, 1, 1, 1, 0, 0, 5, 1}, state[] = {10, 5, 10};
    const int64_t encoded[] = {1, 4, 3}, decoded[] = {1, 1, 3};
    tfm_tensor k = {0}, q = {0}, scores = {0}, weights = {0}, context = {0};
    tfm_tensor_new(ctx, &k, TFM_F32, 3, encoded);
    tfm_tensor_write(ctx, k, states);
    tfm_tensor_new(ctx, &q, TFM_F32, 3, decoded);
    tfm_tensor_write(ctx, q, state);
    show(ctx, "encoder states", k);
    show(ctx, "decoder state", q);
    tfm_score_general(ctx, &scores, q, NULL, k);
    show(ctx, "scores", scores);
    tfm_align(ctx, &weights, scores, NULL);
    show(ctx, "weights", weights);
    tfm_gemm(ctx, &context, weights, k, NULL);
    show(ctx, "context = weights states", context);
    tfm_tensor scaled = {0};
    tfm_attention(ctx, &scaled, q, k, k, &(tfm_attention_options){.heads = 1});
    show(ctx, "context with scores / sqrt(3)", scaled);
    tfm_tensor heads = {0};
    tfm_attention(ctx, &heads, q, k, k, &(tfm_attention_options){.heads = 3});
    show(ctx, "context with three heads", heads);
}

int main(void) {
    tfm_context *ctx = NULL;
    if (tfm_context_open(&ctx, NULL) != TFM_OK) {
        fprintf(stderr, "%s\n", tfm_error_message());
        return 1;
    }
    tfm_scope_open(ctx); /* the tensors die with it */
    printf("SELF-ATTENTION\n");
    self_attention(ctx);
    printf("\nSEQUENCE TO SEQUENCE\n");
    sequence_to_sequence(ctx);
    tfm_scope_close(ctx, 0, NULL);
    const bool done = tfm_context_status(ctx) == TFM_OK;
    if (!done)
        fprintf(stderr, "%s\n", tfm_context_error(ctx));
    tfm_context_free(&ctx);
    return done ? 0 : 1;
}
