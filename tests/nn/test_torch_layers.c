/* Blocks of nn.h against PyTorch's TransformerEncoderLayer and TransformerDecoderLayer; see
 * tests/golden/make_layers.py. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"
#include "model/weights/weight_file.h"
#include "tfm/nn.h"

static tfm__weights *file;

static const tfm__stored_tensor *find(const char *set, const char *rest) {
    char name[128];
    snprintf(name, sizeof(name), "%s.%s", set, rest);
    const tfm__stored_tensor *found = tfm__weights_find(file, name);
    if (!found)
        fail_msg("layers.safetensors has no %s", name);
    return found;
}

static tfm_tensor upload(const tfm__stored_tensor *stored, int64_t first, int64_t rows) {
    int64_t dims[TFM_MAX_RANK];
    memcpy(dims, stored->dims, sizeof(dims));
    const size_t row = stored->bytes / (size_t)dims[0];
    dims[0] = rows ? rows : dims[0];
    return harness_tensor(stored->dtype, stored->rank, dims, stored->data + (size_t)first * row);
}

static tfm_tensor tensor(const char *set, const char *rest) {
    return upload(find(set, rest), 0, 0);
}

/* ---- Layers under PyTorch's names ------------------------------------------------------------------- */

static tfm_param part(const char *set, const char *layer, const char *name, int64_t first, int64_t rows) {
    char rest[96];
    snprintf(rest, sizeof(rest), "%s.%s", layer, name);
    return (tfm_param){.value = upload(find(set, rest), first, rows)};
}

static tfm_dense dense(const char *set, const char *layer, const char *name, int64_t first, int64_t rows) {
    char weight[64], bias[64];
    const char *joint = strstr(name, "in_proj") ? "_" : ".";
    snprintf(weight, sizeof(weight), "%s%sweight", name, joint);
    snprintf(bias, sizeof(bias), "%s%sbias", name, joint);
    return (tfm_dense){part(set, layer, weight, first, rows), part(set, layer, bias, first, rows)};
}

static tfm_norm norm(const char *set, const char *layer, const char *name) {
    const tfm_dense both = dense(set, layer, name, 0, 0);
    return (tfm_norm){.gamma = both.weight, .beta = both.bias, .epsilon = 1e-5f};
}

/* Query, key and value projections are one fused matrix. */
static tfm_multi_head multi_head(const char *set, const char *layer, const char *name, int heads) {
    char in[64], out[64];
    snprintf(in, sizeof(in), "%s.in_proj", name);
    snprintf(out, sizeof(out), "%s.out_proj", name);
    const int64_t width = find(set, "source")->dims[2];
    return (tfm_multi_head){.query = dense(set, layer, in, 0, width),
                            .key = dense(set, layer, in, width, width),
                            .value = dense(set, layer, in, 2 * width, width),
                            .out = dense(set, layer, out, 0, 0),
                            .heads = heads};
}

static tfm_feed_forward feed_forward(const char *set, const char *layer, tfm_activation activation) {
    return (tfm_feed_forward){
        .up = dense(set, layer, "linear1", 0, 0), .down = dense(set, layer, "linear2", 0, 0), .activation = activation};
}

/* ---- Comparisons ------------------------------------------------------------------------------------- */

typedef struct variant {
    const char *set;
    int heads;
    bool pre_norm;
    tfm_activation activation;
} variant;

/* Except for rows of padding, y equals `what` of the variant. */
static void compare(tfm_tensor y, const variant *c, const char *layer, const char *mask, const char *lengths) {
    char rest[96], what[160];
    snprintf(rest, sizeof(rest), "%s.%s.%s.%s", layer, c->pre_norm ? "pre" : "post",
             c->activation == TFM_RELU ? "relu" : "gelu", mask);
    snprintf(what, sizeof(what), "%s.%s", c->set, rest);
    const tfm__stored_tensor *stored = find(c->set, rest), *counts = find(c->set, lengths);
    const int64_t positions = stored->dims[1], width = stored->dims[2];
    float *got = harness_floats(y), *want = malloc(stored->bytes);
    double *row = malloc((size_t)width * sizeof(double));
    assert_true(want && row);
    memcpy(want, stored->data, stored->bytes);
    for (int64_t b = 0; b < stored->dims[0]; b++) {
        int32_t count;
        memcpy(&count, counts->data + (size_t)b * sizeof(count), sizeof(count));
        for (int64_t t = 0; t < (strcmp(mask, "masked") == 0 ? count : positions); t++) {
            for (int64_t i = 0; i < width; i++)
                row[i] = want[(b * positions + t) * width + i];
            harness_close(got + (b * positions + t) * width, row, (size_t)width, 2e-5, what);
        }
    }
    free(row);
    free(want);
    free(got);
    harness_guards(y);
}

static void check_encoder(const variant *c) {
    tfm_context *ctx = harness_context();
    const char *l = "encoder";
    tfm_block block = {.attention = multi_head(c->set, l, "self_attn", c->heads),
                       .attention_norm = norm(c->set, l, "norm1"),
                       .feed_forward = feed_forward(c->set, l, c->activation),
                       .feed_forward_norm = norm(c->set, l, "norm2"),
                       .norm_placement = c->pre_norm ? TFM_NORM_PRE : TFM_NORM_POST};
    tfm_tensor x = tensor(c->set, "source"), lengths = tensor(c->set, "source_lengths"), none = {0};
    for (int masked = 0; masked < 2; masked++) {
        tfm_tensor y = harness_tensor(TFM_F32, 3, x.dims, NULL);
        harness_ok(tfm_block_forward(ctx, &y, &block, x, &(tfm_block_inputs){.lengths = masked ? lengths : none}));
        compare(y, c, l, masked ? "masked" : "plain", "source_lengths");
    }
    tfm_block_free(ctx, &block);
}

static void check_decoder(const variant *c) {
    tfm_context *ctx = harness_context();
    const char *l = "decoder";
    tfm_block block = {.attention = multi_head(c->set, l, "self_attn", c->heads),
                       .attention_norm = norm(c->set, l, "norm1"),
                       .cross_attention = multi_head(c->set, l, "multihead_attn", c->heads),
                       .cross_attention_norm = norm(c->set, l, "norm2"),
                       .feed_forward = feed_forward(c->set, l, c->activation),
                       .feed_forward_norm = norm(c->set, l, "norm3"),
                       .causal = true,
                       .norm_placement = c->pre_norm ? TFM_NORM_PRE : TFM_NORM_POST};
    tfm_tensor x = tensor(c->set, "target"), y = harness_tensor(TFM_F32, 3, x.dims, NULL);
    tfm_block_inputs memory = {.cross_lengths = tensor(c->set, "source_lengths")};
    harness_ok(tfm_multi_head_project(ctx, &memory.cross_kv, &block.cross_attention, tensor(c->set, "memory")));
    harness_ok(tfm_block_forward(ctx, &y, &block, x, &memory));
    compare(y, c, l, "masked", "target_lengths");
    block.causal = false; /* non-causal targets, and no padding in the source */
    memory.cross_lengths = (tfm_tensor){0};
    y = harness_tensor(TFM_F32, 3, x.dims, NULL);
    harness_ok(tfm_block_forward(ctx, &y, &block, x, &memory));
    compare(y, c, l, "plain", "target_lengths");
    tfm_block_free(ctx, &block);
}

static void check_all(void (*check)(const variant *)) {
    for (int k = 0; k < 12; k++) {
        const variant c = {(const char *[]){"one", "two", "random"}[k % 3], k % 3 == 2 ? 3 : 2, k / 3 % 2,
                           k / 6 ? TFM_GELU : TFM_RELU};
        harness_ok(tfm_scope_open(harness_context()));
        check(&c);
        harness_ok(tfm_scope_close(harness_context(), 0, NULL));
    }
}

static void test_encoder_layer_matches_pytorch(void **state) {
    (void)state;
    check_all(check_encoder);
}

static void test_decoder_layer_matches_pytorch(void **state) {
    (void)state;
    check_all(check_decoder);
}

static int open_file(void **state) {
    char *path = harness_source("tests/golden/layers.safetensors");
    const tfm_status status = tfm__weights_open(&file, path);
    free(path);
    return status == TFM_OK ? harness_setup(state) : -1;
}

static int close_file(void **state) {
    tfm__weights_free(&file);
    return harness_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoder_layer_matches_pytorch),
        cmocka_unit_test(test_decoder_layer_matches_pytorch),
    };
    return cmocka_run_group_tests(tests, open_file, close_file);
}
