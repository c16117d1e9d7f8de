/* Attention maps of models, against queries and keys multiplied on the host in double precision; and maps of text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/demo.h"
#include "support/harness.h"
#include "model/core/model.h"
#include "tfm/ops.h"

enum { B = 3, S = 7, T = 5 };
static const int32_t LENGTHS[B] = {7, 3, 1};
static const double TOLERANCE = 2e-5;

static tfm_model *open_model(const char *relative) {
    tfm_model *model = NULL;
    char *dir = harness_source(relative);
    harness_ok(tfm_model_open(&model, harness_context(), dir, NULL));
    free(dir);
    return model;
}

/* ---- The oracle ---------------------------------------------------------------------------------------- */

/* y (rows, N) = x W^T + b in double precision. */
static double *project(const tfm_dense *layer, tfm_tensor x) {
    const int64_t outputs = layer->weight.value.dims[0], inputs = layer->weight.value.dims[1];
    const int64_t rows = (int64_t)tfm_tensor_count(x) / inputs;
    float *weight = harness_floats(layer->weight.value), *host = harness_floats(x);
    float *bias = layer->bias.value.buffer ? harness_floats(layer->bias.value) : calloc((size_t)outputs, sizeof(*bias));
    double *y = calloc((size_t)(rows * outputs), sizeof(*y));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t n = 0; n < outputs; n++) {
            double sum = bias[n];
            for (int64_t k = 0; k < inputs; k++)
                sum += (double)host[r * inputs + k] * weight[n * inputs + k];
            y[r * outputs + n] = sum;
        }
    free(weight);
    free(host);
    free(bias);
    return y;
}

/* softmax(q k^T / sqrt(d)) over the visible keys of each query: (B, H, rows, columns). */
static double *oracle(const tfm_multi_head *layer, tfm_tensor x, tfm_tensor memory, bool causal) {
    const int64_t rows = x.dims[1], columns = memory.dims[1], width = x.dims[2], heads = layer->heads;
    const int64_t head = width / heads;
    double *q = project(&layer->query, x), *k = project(&layer->key, memory);
    double *all = calloc((size_t)(B * heads * rows * columns), sizeof(*all));
    for (int64_t at = 0; at < B * heads * rows; at++) {
        const int64_t b = at / rows / heads, h = at / rows % heads, i = at % rows, seen = causal ? i + 1 : LENGTHS[b];
        double sum = 0, *row = all + at * columns;
        for (int64_t j = 0; j < seen; j++) {
            double dot = 0;
            for (int64_t d = h * head; d < (h + 1) * head; d++)
                dot += q[(b * rows + i) * width + d] * k[(b * columns + j) * width + d];
            sum += row[j] = exp(dot / sqrt((double)head));
        }
        for (int64_t j = 0; j < seen; j++)
            row[j] /= sum;
    }
    free(q);
    free(k);
    return all;
}

/* The input of attention: x, or norm(x) in a pre-norm block. */
static tfm_tensor entrance(const tfm_norm *norm, tfm_tensor x, bool pre_norm) {
    tfm_tensor y = {0};
    if (pre_norm)
        harness_ok(tfm_norm_forward(harness_context(), &y, NULL, norm, x, (tfm_tensor){0}));
    return pre_norm ? y : x;
}

/* ---- Tensors ------------------------------------------------------------------------------------------- */

/* The observed map, on the host. */
typedef struct shown {
    struct {
        tfm_attention_kind kind;
        int layer;
        int64_t dims[4];
        float *weights;
    } maps[64];
    size_t count, stop_after;
} shown;

static bool keep(void *user, tfm_attention_kind kind, int layer, const tfm_tensor *weights) {
    shown *s = user;
    assert_int_equal(weights->rank, 4);
    s->maps[s->count].kind = kind;
    s->maps[s->count].layer = layer;
    memcpy(s->maps[s->count].dims, weights->dims, sizeof(s->maps[0].dims));
    s->maps[s->count++].weights = harness_floats(*weights);
    return s->count != s->stop_after;
}

static void drop(shown *s) {
    for (size_t i = 0; i < s->count; i++)
        free(s->maps[i].weights);
    s->count = 0;
}

/* The next map is of this kind, layer and attention. */
static void check_next(const shown *s, size_t *at, tfm_attention_kind kind, int layer, const tfm_multi_head *attention,
                       tfm_tensor x, tfm_tensor memory) {
    assert_true(*at < s->count);
    assert_int_equal(s->maps[*at].kind, kind);
    assert_int_equal(s->maps[*at].layer, layer);
    const int64_t want_dims[] = {B, attention->heads, x.dims[1], memory.dims[1]};
    assert_memory_equal(s->maps[*at].dims, want_dims, sizeof(want_dims));
    const float *weights = s->maps[*at].weights;
    const int64_t rows = x.dims[1], columns = memory.dims[1], heads = attention->heads;
    for (int64_t r = 0; r < B * heads * rows; r++) {
        const int64_t seen = kind == TFM_DECODER_SELF ? r % rows + 1 : LENGTHS[r / rows / heads];
        double sum = 0;
        for (int64_t j = 0; j < columns; j++) {
            if (j >= seen)
                assert_true(weights[r * columns + j] == 0);
            sum += weights[r * columns + j];
        }
        assert_true(fabs(sum - 1) < 1e-5);
    }
    double *want = oracle(attention, x, memory, kind == TFM_DECODER_SELF);
    char what[64];
    snprintf(what, sizeof(what), "map %zu, kind %d of layer %d", *at, (int)kind, layer);
    harness_close(weights, want, (size_t)(B * heads * rows * columns), TOLERANCE, what);
    free(want);
    ++*at;
}

/* Runs the blocks one by one, and checks the map of each. */
static void check_encoder(tfm_model *model, const shown *s, size_t *at, tfm_tensor ids, tfm_tensor lengths) {
    tfm_context *ctx = harness_context();
    tfm_tensor x = {0};
    harness_ok(tfm_embedding(ctx, &x, model->encoder.table->value, ids, model->arch.encoder.embedding_scale,
                             model->encoder.positions, 0));
    if (model->encoder.embedding_norm.gamma.value.buffer)
        harness_ok(tfm_norm_forward(ctx, &x, NULL, &model->encoder.embedding_norm, x, (tfm_tensor){0}));
    for (int i = 0; i < model->arch.encoder.layers; i++) {
        tfm_block *block = &model->encoder.blocks[i];
        tfm_tensor y = {0}, in = entrance(&block->attention_norm, x, block->norm_placement == TFM_NORM_PRE);
        check_next(s, at, TFM_ENCODER_SELF, i, &block->attention, in, in);
        harness_ok(tfm_block_forward(ctx, &y, block, x, &(tfm_block_inputs){.lengths = lengths}));
        x = y;
    }
}

static void check_decoder(tfm_model *model, const shown *s, size_t *at, tfm_tensor ids, tfm_tensor encoded,
                          tfm_tensor lengths) {
    tfm_context *ctx = harness_context();
    tfm_tensor x = {0};
    harness_ok(tfm__model_embed_target(model, &x, ids, 0));
    for (int i = 0; i < model->arch.decoder.layers; i++) {
        tfm_block *block = &model->decoder.blocks[i];
        tfm_block_inputs memory = {.cross_lengths = lengths};
        tfm_kv own = {{0}, {0}};
        tfm_tensor mixed = {0}, middle = {0}, y = {0},
                   in = entrance(&block->attention_norm, x, block->norm_placement == TFM_NORM_PRE);
        check_next(s, at, TFM_DECODER_SELF, i, &block->attention, in, in);
        harness_ok(tfm_multi_head_project(ctx, &own, &block->attention, in));
        harness_ok(
            tfm_multi_head_forward(ctx, &mixed, &block->attention, in, own, &(tfm_attention_options){.causal = true}));
        if (block->norm_placement == TFM_NORM_PRE)
            harness_ok(tfm_add(ctx, &middle, x, mixed));
        else
            harness_ok(tfm_norm_forward(ctx, &middle, NULL, &block->attention_norm, mixed, x));
        check_next(s, at, TFM_DECODER_CROSS, i, &block->cross_attention,
                   entrance(&block->cross_attention_norm, middle, block->norm_placement == TFM_NORM_PRE), encoded);
        harness_ok(tfm_multi_head_project(ctx, &memory.cross_kv, &block->cross_attention, encoded));
        harness_ok(tfm_block_forward(ctx, &y, block, x, &memory));
        x = y;
    }
}

/* A padded batch through each model: every map matches its layer. */
static void test_attention_maps_match_host_softmax(void **state) {
    (void)state;
    static const char *const models[] = {"tests/golden/prenorm-silu-f16", "tests/golden/postnorm-relu-bias",
                                         "tests/golden/prenorm-embedding-norm", "tests/golden/untied-gelu-bf16",
                                         "apps/demo"};
    tfm_context *ctx = harness_context();
    for (size_t m = 0; m < (harness_slow() ? 2 : sizeof(models) / sizeof(models[0])); m++) {
        tfm_model *model = open_model(models[m]);
        int32_t ids[B * S], targets[B * T];
        shown s = {0};
        size_t at = 0;
        for (int i = 0; i < B * S; i++)
            ids[i] = i % S < LENGTHS[i / S] ? (i * 7 + 3) % 50 : model->rules.pad_id;
        for (int i = 0; i < B * T; i++)
            targets[i] = i % T ? (i * 5 + 1) % 50 : model->rules.start_id;
        tfm_scope_open(ctx);
        tfm_tensor source = HARNESS_TENSOR(TFM_I32, ids, B, S), target = HARNESS_TENSOR(TFM_I32, targets, B, T);
        tfm_tensor lengths = HARNESS_TENSOR(TFM_I32, LENGTHS, B), encoded = {0};
        harness_ok(tfm_model_attention_maps(model, source, lengths, target, keep, &s));
        harness_ok(tfm_model_encode(model, &encoded, source, lengths));
        check_encoder(model, &s, &at, source, lengths);
        check_decoder(model, &s, &at, target, encoded, lengths);
        assert_int_equal(at, s.count);
        assert_int_equal(at, model->arch.encoder.layers + 2 * model->arch.decoder.layers);
        drop(&s);
        for (s.stop_after = 1; s.stop_after <= at; s.stop_after += at - 1) { /* after the first, after the last */
            assert_int_equal(tfm_model_attention_maps(model, source, lengths, target, keep, &s), TFM_ERROR_CANCELLED);
            assert_non_null(strstr(tfm_error_message(), "stopped"));
            assert_int_equal(s.count, s.stop_after);
            drop(&s);
        }
        tfm_scope_close(ctx, 0, NULL);
        tfm_model_free(&model);
    }
}

/* Requests one layer of cross-attention. */
static bool wants_one(void *user, tfm_attention_kind kind, int layer) {
    (void)user;
    return kind == TFM_DECODER_CROSS && layer == 0;
}

/* An observer of one layer receives only its weights, equal to those of all; after it stops, no further layer runs. */
static void test_observer_of_one_layer_stops_after_it(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_model *model = open_model("apps/demo");
    int32_t ids[S] = {5, 9, 12, 7, 3, 8, 4}, targets[T] = {model->rules.start_id, 6, 11, 13, 5};
    shown all = {0}, one = {0};
    tfm_scope_open(ctx);
    tfm_tensor source = HARNESS_TENSOR(TFM_I32, ids, 1, S), target = HARNESS_TENSOR(TFM_I32, targets, 1, T);
    tfm_tensor encoded = {0}, hidden = {0}, none = {0};
    harness_ok(tfm_model_attention_maps(model, source, none, target, keep, &all));
    harness_ok(tfm_model_encode(model, &encoded, source, none));
    tfm__observer observer = {.on_weights = keep, .wants = wants_one, .user = &one};
    harness_ok(tfm__model_decode_hidden(model, &hidden, target, encoded, none, &observer));
    assert_int_equal(one.count, 1);
    assert_non_null(hidden.buffer);
    const size_t at = (size_t)model->arch.encoder.layers + 1; /* after the decoder's first self-attention */
    assert_memory_equal(one.maps[0].weights, all.maps[at].weights,
                        sizeof(float) * (size_t)model->arch.decoder.heads * T * S);
    drop(&one);
    one.stop_after = 1;
    hidden = none;
    harness_ok(tfm__model_decode_hidden(model, &hidden, target, encoded, none, &observer));
    assert_true(one.count == 1 && observer.stopped && !hidden.buffer);
    drop(&one);
    drop(&all);
    tfm_scope_close(ctx, 0, NULL);
    tfm_model_free(&model);
}

/* ---- Text ---------------------------------------------------------------------------------------------- */

/* Output of tfm_attention_maps: the axes as words, and sums. */
typedef struct told {
    char rows[3][4096], columns[3][4096]; /* by kind */
    int32_t ids[512];                     /* the decoder's input */
    size_t id_count, maps, stop_after;
    double worst; /* deviation of row sums from 1 */
} told;

static void join(char *out, const tfm_token_list *axis) {
    *out = 0;
    for (size_t i = 0; i < axis->count; i++)
        snprintf(out + strlen(out), 4096 - strlen(out), "%s ", axis->tokens[i]);
}

static bool tell(void *user, const tfm_attention_map *map) {
    told *t = user;
    join(t->rows[map->kind], &map->rows);
    join(t->columns[map->kind], &map->columns);
    if (map->kind == TFM_DECODER_CROSS) {
        t->id_count = map->rows.count;
        memcpy(t->ids, map->rows.ids, map->rows.count * sizeof(*t->ids));
    }
    for (size_t r = 0; r < (size_t)map->heads * map->rows.count; r++) {
        double sum = 0;
        for (size_t j = 0; j < map->columns.count; j++)
            sum += (double)map->weights[r * map->columns.count + j];
        t->worst = fmax(t->worst, fabs(sum - 1));
    }
    return ++t->maps != t->stop_after;
}

/* Fails unless the tokens of an axis, joined, are `before`, the line with blanks as in pieces, `after`. */
static void reads(const char *axis, const char *before, const char *line, const char *after) {
    char got[4096] = "", want[4096];
    size_t at = 0, end = (size_t)snprintf(want, sizeof(want), "%s▁", before);
    for (const char *c = axis; *c; c++)
        if (*c != ' ')
            got[at++] = *c;
    for (const char *c = line; *c; c++)
        end += (size_t)snprintf(want + end, sizeof(want) - end, "%.*s", *c == ' ' ? 3 : 1, *c == ' ' ? "▁" : c);
    snprintf(want + end, sizeof(want) - end, "%s", after);
    assert_string_equal(got, want);
}

/* Without a target it is the translation. */
static void test_attention_maps_without_target_use_the_translation(void **state) {
    (void)state;
    tfm_model *model = open_model("apps/demo");
    char *german = demo_line("test.de", 6), *english = demo_line("beam4.en", 6);
    told t = {.id_count = 0};
    harness_ok(tfm_attention_maps(model, german, NULL, NULL, NULL, tell, &t));
    assert_int_equal(t.maps, model->arch.encoder.layers + 2 * model->arch.decoder.layers);
    reads(t.rows[TFM_ENCODER_SELF], "", german, "</s>");
    reads(t.columns[TFM_ENCODER_SELF], "", german, "</s>");
    reads(t.rows[TFM_DECODER_SELF], "<pad>", english, "");
    reads(t.columns[TFM_DECODER_SELF], "<pad>", english, "");
    reads(t.rows[TFM_DECODER_CROSS], "<pad>", english, "");
    reads(t.columns[TFM_DECODER_CROSS], "", german, "</s>");
    assert_int_equal(t.ids[0], model->rules.start_id);
    free(english);
    free(german);
    tfm_model_free(&model);
}

static void test_attention_maps_of_text_have_pieces_as_axes(void **state) {
    (void)state;
    tfm_model *model = open_model("apps/demo");
    told t = {.id_count = 0};
    harness_ok(tfm_attention_maps(model, "Ich liebe dich.", "I love Tom", NULL, NULL, tell, &t));
    assert_string_equal(t.rows[TFM_ENCODER_SELF], "▁Ich ▁liebe ▁dich . </s> ");
    assert_string_equal(t.rows[TFM_DECODER_CROSS], "<pad> ▁I ▁love ▁Tom ");
    assert_true(t.worst < 1e-5);
    t = (told){.id_count = 0};
    harness_ok(
        tfm_attention_maps(model, "Ich liebe dich.", "", NULL, NULL, tell, &t)); /* the query of the first word */
    assert_string_equal(t.rows[TFM_DECODER_SELF], "<pad> ");
    t = (told){.stop_after = 5};
    harness_refused(tfm_attention_maps(model, "Danke.", "Thanks.", NULL, NULL, tell, &t), TFM_ERROR_CANCELLED,
                    "stopped");
    assert_int_equal(t.maps, 5);
    t = (told){.id_count = 0};
    harness_ok(tfm_attention_maps(model, "Danke.", NULL, NULL, &(tfm_search_options){.beam_size = 1, .max_length = 2},
                                  tell, &t));
    assert_int_equal(t.id_count, 2);
    tfm_model_free(&model);
}

static void test_attention_maps_reject_bad_arguments(void **state) {
    (void)state;
    tfm_model *model = open_model("apps/demo"), *mute = NULL;
    told t = {.id_count = 0};
    char *longer = calloc(5, 600), *dir = harness_source("apps/demo");
    for (int i = 0; i < 600; i++)
        strcat(longer, "Haus");
    harness_refused(tfm_attention_maps(model, "", "x", NULL, NULL, tell, &t), TFM_ERROR_INPUT, "no words");
    harness_refused(tfm_attention_maps(model, "  ", NULL, NULL, NULL, tell, &t), TFM_ERROR_INPUT, "no words");
    harness_refused(tfm_attention_maps(model, "a\xff", NULL, NULL, NULL, tell, &t), TFM_ERROR_INPUT, "source text");
    harness_refused(tfm_attention_maps(model, "Danke.", "b\xc3", NULL, NULL, tell, &t), TFM_ERROR_INPUT, "target text");
    harness_refused(tfm_attention_maps(model, longer, "x", NULL, NULL, tell, &t), TFM_ERROR_INPUT, "takes at most");
    harness_refused(tfm_attention_maps(model, "Danke.", longer, NULL, NULL, tell, &t), TFM_ERROR_INPUT,
                    "takes at most");
    assert_int_equal(t.maps, 0);
    if (!harness_slow()) {
        harness_ok(tfm_attention_maps(model, longer, longer, &(tfm_text_options){.truncate = true}, NULL, tell, &t));
        assert_int_equal(t.id_count, model->arch.encoder.max_positions);
        assert_true(t.worst < 1e-5);
    }
    harness_ok(tfm_model_open(&mute, harness_context(), dir, &(tfm_model_options){.no_tokenizer = true}));
    harness_refused(tfm_attention_maps(mute, "Danke.", NULL, NULL, NULL, tell, &t), TFM_ERROR_ARGUMENT, "tokenizer");
    tfm_model_free(&mute);
    tfm_model_free(&model);
    free(longer);
    free(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_maps_match_host_softmax),
        cmocka_unit_test(test_observer_of_one_layer_stops_after_it),
        cmocka_unit_test(test_attention_maps_without_target_use_the_translation),
        cmocka_unit_test(test_attention_maps_of_text_have_pieces_as_axes),
        cmocka_unit_test(test_attention_maps_reject_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
