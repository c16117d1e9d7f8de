/* Requests the MMA kernels of the GPU that the device imitates (pose.c): each tile, each combination of transposes,
 * fp16 and bf16 inputs, and fp16 or bf16 weights; cases from 5 on exist only for NVIDIA's MMA. Also requests attention
 * long enough for the large tiles of such GPUs, and int8 GEMM with dot-product instructions. Run by engines.sh.
 *
 *     gpu_engines            exit code 1 if the library finds no int8 dot-product instructions
 */
#include <stdio.h>
#include "dev/device/context_internal.h"
#include "ops/gemm/gemm.h"

static const struct product {
    int tile;
    tfm_dtype inputs;
    tfm_gemm_options options;
    int64_t size; /* a multiple of 4, or odd: vector width 4 or 1 */
    bool stored;  /* a linear layer with weights of dtype `inputs` */
} PRODUCTS[] = {
    {1, TFM_F16, {.transpose_b = true}, 256, false},
    {2, TFM_F16, {0}, 256, false},
    {3, TFM_F16, {.transpose_a = true}, 251, false},
    {4, TFM_F16, {.transpose_a = true, .transpose_b = true}, 251, false},
    {1, TFM_BF16, {.transpose_b = true}, 256, false},
    {1, TFM_F16, {0}, 256, true},
    {2, TFM_BF16, {0}, 256, true},
    {2, TFM_F16, {0}, 251, true},
    {5, TFM_F16, {.transpose_b = true}, 256, false},
    {5, TFM_BF16, {0}, 251, false},
    {6, TFM_F16, {.transpose_a = true}, 251, false},
    {7, TFM_BF16, {.transpose_a = true, .transpose_b = true}, 256, false},
    {6, TFM_F16, {0}, 256, true},
    {7, TFM_BF16, {0}, 256, true},
};

static tfm_tensor zeros(tfm_context *ctx, tfm_dtype dtype, int64_t size) {
    tfm_tensor x = {0};
    tfm_tensor_new(ctx, &x, dtype, 2, (int64_t[]){size, size});
    return x;
}

/* Nothing is computed, so validation fails and another provider takes over; the program was requested by then. */
static int ask(tfm_context *ctx, const struct product *p) {
    const char *why = NULL;
    tfm_tensor c = {0};
    tfm_scope_open(ctx);
    tfm__context_set_gemm_input_dtype(ctx, p->stored ? TFM_F32 : p->inputs);
    ctx->tuning.gemm_tile = p->tile;
    tfm_tensor a = zeros(ctx, TFM_F32, p->size), b = zeros(ctx, p->stored ? p->inputs : TFM_F32, p->size);
    tfm_param weight = {.value = b};
    if (p->stored)
        tfm_linear_with(ctx, "gpu-mma", &why, &c, a, &weight, (tfm_tensor){0}, TFM_NO_ACTIVATION);
    else
        tfm__gemm_with(ctx, &tfm__gemm_gpu_mma, &why, &c, a, b, &p->options);
    tfm_tensor_free(ctx, &weight.packed); /* packed by the other provider */
    const bool absent = (p->inputs == TFM_BF16 && ctx->tuning.mma == TFM__MMA_M16N8K8) ||
                        (p->tile > 4 && ctx->tuning.mma != TFM__MMA_M16N8K16);
    const bool none = why && !absent;
    if (none || tfm_context_status(ctx) != TFM_OK) {
        fprintf(stderr, "tile %d: %s\n", p->tile, why ? why : tfm_context_error(ctx));
        tfm_context_clear_error(ctx);
        return 1;
    }
    tfm_scope_close(ctx, 0, NULL);
    return 0;
}

/* Few rows, in one launch and in two, and each tile (from 1), with aligned and unaligned tensors. */
static const struct bytes {
    int64_t m, n, k;
    int tile;
} BYTES[] = {{1, 512, 512, 0},    {2, 512, 512, 0},    {4, 512, 512, 0},   {8, 512, 512, 0},
             {8, 512, 509, 0},    {1, 512, 4096, 0},   {8, 512, 4096, 0},  {1024, 512, 512, 1},
             {1024, 512, 512, 2}, {1024, 512, 512, 3}, {1024, 509, 509, 1}};

static int ask_bytes(tfm_context *ctx, const struct bytes *b) {
    tfm_tensor y = {0}, x = {0};
    tfm_param weight = {0};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &x, TFM_F32, 2, (int64_t[]){b->m, b->k});
    tfm_tensor_new(ctx, &weight.value, TFM_I8, 2, (int64_t[]){b->n, b->k});
    tfm_tensor_new(ctx, &weight.scales, TFM_F32, 1, &b->n);
    ctx->tuning.gemm_tile = b->tile;
    tfm_linear(ctx, &y, x, &weight, (tfm_tensor){0}, TFM_NO_ACTIVATION);
    ctx->tuning.gemm_tile = 0;
    if (ctx->tuning.dp4a == TFM__DP4A_NONE || tfm_context_status(ctx) != TFM_OK) {
        fprintf(stderr, "bytes: %s\n",
                ctx->tuning.dp4a == TFM__DP4A_NONE ? "the device has no dot products" : tfm_context_error(ctx));
        tfm_context_clear_error(ctx);
        return 1;
    }
    tfm_scope_close(ctx, 0, NULL);
    return 0;
}

static int attend(tfm_context *ctx, int64_t width, tfm_dtype dtype, const tfm_dropout_options *drops) {
    const int64_t dims[] = {2, 256, 4 * width};
    tfm_tensor x[3] = {0}, gradients[3] = {0}, y = {0}, dy = {0}; /* x: q, k and v */
    tfm_scope_open(ctx);
    for (int i = 0; i < 3; i++) {
        tfm_tensor_new(ctx, &x[i], dtype, 3, dims);
        tfm_tensor_new(ctx, &gradients[i], TFM_F32, 3, dims);
    }
    tfm_tensor_new(ctx, &dy, TFM_F32, 3, dims);
    if (dtype == TFM_F32) {
        tfm_tape_start(ctx);
        for (int i = 0; i < 3; i++)
            tfm_tape_watch(ctx, x[i], gradients[i]);
    }
    tfm_attention(ctx, &y, x[0], x[1], x[2], &(tfm_attention_options){.heads = 4, .dropout = drops});
    if (dtype == TFM_F32)
        tfm_backward(ctx, y, dy);
    tfm_tape_stop(ctx);
    if (tfm_context_status(ctx) != TFM_OK) {
        fprintf(stderr, "attention: %s\n", tfm_context_error(ctx));
        tfm_context_clear_error(ctx);
        return 1;
    }
    tfm_scope_close(ctx, 0, NULL);
    return 0;
}

/* Prefill with a block table. */
static int attend_prompt(tfm_context *ctx, int64_t width, tfm_dtype kept) {
    enum { TOKENS = 256, HEADS = 4, KEY_HEADS = 2 };
    tfm_tensor q = {0}, k = {0}, v = {0}, rows = {0}, y = {0};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &q, TFM_F32, 3, (int64_t[]){1, TOKENS, HEADS * width});
    tfm_tensor_new(ctx, &k, kept, 2, (int64_t[]){TOKENS, KEY_HEADS * width});
    tfm_tensor_new(ctx, &v, kept, 2, (int64_t[]){TOKENS, KEY_HEADS * width});
    tfm_tensor_new(ctx, &rows, TFM_I32, 2, (int64_t[]){1, TOKENS});
    tfm_attention(ctx, &y, q, k, v,
                  &(tfm_attention_options){.heads = HEADS, .kv_heads = KEY_HEADS, .causal = true, .kv_indices = rows});
    if (tfm_context_status(ctx) != TFM_OK) {
        fprintf(stderr, "attention of a prompt: %s\n", tfm_context_error(ctx));
        tfm_context_clear_error(ctx);
        return 1;
    }
    tfm_scope_close(ctx, 0, NULL);
    return 0;
}

int main(void) {
    tfm_context *ctx = NULL;
    int failures = 0;
    if (tfm_context_open(&ctx, NULL) != TFM_OK) {
        fprintf(stderr, "%s\n", tfm_error_message());
        return 1;
    }
    for (size_t i = 0; i < TFM__COUNT(BYTES); i++)
        failures += ask_bytes(ctx, &BYTES[i]);
    for (size_t i = 0; ctx->tuning.mma != TFM__MMA_NONE && i < TFM__COUNT(PRODUCTS); i++)
        failures += ask(ctx, &PRODUCTS[i]);
    failures += attend(ctx, 64, TFM_F32, NULL) + attend(ctx, 128, TFM_F32, NULL) + attend(ctx, 64, TFM_F16, NULL) +
                attend(ctx, 64, TFM_F32, &(tfm_dropout_options){.rate = 0.1F, .seed = 1});
    for (tfm_dtype kept = TFM_F32; kept <= TFM_BF16; kept++)
        failures += attend_prompt(ctx, 64, kept) + attend_prompt(ctx, 128, kept);
    tfm_context_free(&ctx);
    return failures > 0;
}
