/* One op on host arrays: softmax(q k^T / sqrt(d)) v, for 2 queries and 3 keys of width 4.
 *
 *     cc attention.c $(pkg-config --cflags --libs tfm) -o attention && ./attention */
#include <stdio.h>
#include <tfm/tfm.h>

/* A tensor (1, positions, 4) with these numbers. The context stores failures, so one check at the end is
 * enough. */
static tfm_tensor upload(tfm_context *ctx, const float *numbers, int64_t positions) {
    tfm_tensor x = {0};
    tfm_tensor_new(ctx, &x, TFM_F32, 3, (int64_t[]){1, positions, 4});
    tfm_tensor_write(ctx, x, numbers);
    return x;
}

int main(void) {
    const float queries[2][4] = {{4, 0, 0, 0}, {0, 4, 0, 0}};
    const float keys[3][4] = {{4, 0, 0, 0}, {0, 4, 0, 0}, {0, 0, 4, 0}};
    const float values[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};
    float result[2][4];
    tfm_context *ctx = NULL;
    if (tfm_context_open(&ctx, NULL) != TFM_OK) {
        fprintf(stderr, "%s\n", tfm_error_message());
        return 1;
    }
    tfm_scope_open(ctx); /* the tensors die with it */
    tfm_tensor q = upload(ctx, queries[0], 2), k = upload(ctx, keys[0], 3), v = upload(ctx, values[0], 3), y = {0};
    tfm_attention(ctx, &y, q, k, v, &(tfm_attention_options){.heads = 1});
    tfm_tensor_read(ctx, result, y);
    tfm_scope_close(ctx, 0, NULL);
    bool done = tfm_context_status(ctx) == TFM_OK;
    if (!done)
        fprintf(stderr, "%s\n", tfm_context_error(ctx));
    for (int i = 0; done && i < 2; i++)
        printf("%.3f %.3f %.3f %.3f\n", result[i][0], result[i][1], result[i][2], result[i][3]);
    tfm_context_free(&ctx);
    return done ? 0 : 1;
}
