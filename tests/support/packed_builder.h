/* Builds model directories whose matrices are packed as GPTQ, AWQ and compressed-tensors do, from their definitions,
 * and the same with the dequantized weights. */
#ifndef TFM_TESTS_PACKED_BUILDER_H
#define TFM_TESTS_PACKED_BUILDER_H

#include <inttypes.h>
#include <math.h>
#include "base/half.h"
#include "ops/quant/quant.h"
#include "support/scratch.h"
#include "tfm/tfm.h"

/* ---- A safetensors file ---- */

typedef struct packed_file {
    char header[1 << 14];
    size_t header_size, size;
    unsigned char *data;
} packed_file;

static inline void packed_add(packed_file *f, const char *name, const char *dtype, int rank, const int64_t *dims,
                              const void *data, size_t size) {
    char shape[64] = "";
    for (int i = 0; i < rank; i++)
        snprintf(shape + strlen(shape), sizeof(shape) - strlen(shape), "%s%" PRId64, i ? "," : "", dims[i]);
    f->header_size += (size_t)snprintf(f->header + f->header_size, sizeof(f->header) - f->header_size,
                                       "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                                       f->header_size ? "," : "{", name, dtype, shape, f->size, f->size + size);
    assert_true(f->header_size + 1 < sizeof(f->header));
    f->data = realloc(f->data, f->size + size + 1);
    assert_non_null(f->data);
    memcpy(f->data + f->size, data, size);
    f->size += size;
}

static inline void packed_write(packed_file *f, const char *name) {
    const uint64_t length = f->header_size + 1;
    unsigned char *all = malloc(8 + length + f->size);
    assert_non_null(all);
    memcpy(all, &length, 8);
    memcpy(all + 8, f->header, f->header_size);
    all[8 + f->header_size] = '}';
    memcpy(all + 8 + length, f->data, f->size);
    scratch_write(name, all, 8 + length + f->size);
    free(all);
    free(f->data);
    *f = (packed_file){0};
}

/* ---- A packed matrix ---- */

typedef enum packed_method { PACKED_GPTQ, PACKED_AWQ, PACKED_ROWS } packed_method;

typedef struct packed_form {
    const char *name, *config; /* quantization_config */
    packed_method method;
    int bits, group; /* group 0: whole rows */
    int shift;       /* of stored zero points */
    bool symmetric;  /* compressed-tensors: no zero points */
    int order;       /* 1: columns of groups in random order, 2: groups of random sizes */
    const char *scales;
    bool int8_zeros, natural_g_idx;
} packed_form;

enum { PACKED_MAX = 128 }; /* rows and columns */

typedef struct packed_matrix {
    int64_t n, k, groups;
    int code[PACKED_MAX][PACKED_MAX], zero[PACKED_MAX][PACKED_MAX];
    float scale[PACKED_MAX][PACKED_MAX];
    int32_t group[PACKED_MAX]; /* of each column */
} packed_matrix;

static inline uint16_t packed_half(const char *dtype, float x) {
    return strcmp(dtype, "BF16") == 0 ? tfm__bfloat_from_float(x) : tfm__half_from_float(x);
}

static inline void packed_random(packed_matrix *m, const packed_form *f, harness_random *random, int64_t n, int64_t k) {
    const int top = (1 << f->bits) - 1, half = 1 << (f->bits - 1);
    const int64_t size = f->group ? f->group : k;
    m->n = n;
    m->k = k;
    m->groups = (k + size - 1) / size;
    for (int64_t j = 0; j < k; j++)
        m->group[j] = (int32_t)(f->order == 2 ? harness_range(random, 0, m->groups - 1) : j / size);
    for (int64_t j = k - 1; f->order == 1 && j > 0; j--) {
        const int64_t other = harness_range(random, 0, j);
        const int32_t kept = m->group[j];
        m->group[j] = m->group[other];
        m->group[other] = kept;
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < k; j++)
            m->code[i][j] = (int)harness_range(random, 0, top);
        for (int64_t g = 0; g < m->groups; g++) {
            const float scale = (float)harness_range(random, 500, 1500) / 5000 / (float)half;
            const uint16_t stored = packed_half(f->scales, scale);
            m->zero[i][g] = f->symmetric ? half : (int)harness_range(random, 0, top);
            m->scale[i][g] = strcmp(f->scales, "F32") == 0    ? scale
                             : strcmp(f->scales, "BF16") == 0 ? tfm__bfloat_to_float(stored)
                                                              : tfm__half_to_float(stored);
        }
    }
}

static inline float packed_value(const packed_matrix *m, int64_t i, int64_t j) {
    const int32_t g = m->group[j];
    return m->scale[i][g] * (float)(m->code[i][j] - m->zero[i][g]);
}

/* Puts `value` into bits of a word. */
static inline void packed_put(uint32_t *words, int64_t word, int place, int bits, int value) {
    words[word] |= (uint32_t)(value & ((1 << bits) - 1)) << place * bits;
}

static const int PACKED_AWQ_ORDER[8] = {0, 2, 4, 6, 1, 3, 5, 7}; /* output of each place of a word */

static inline void packed_add_codes(packed_file *file, const packed_form *f, const packed_matrix *m, const char *stem) {
    static uint32_t words[PACKED_MAX * PACKED_MAX];
    char name[128];
    const int per = 32 / f->bits;
    const int64_t across = (m->k + per - 1) / per;
    int64_t dims[2] = {across, m->n};
    memset(words, 0, sizeof(words));
    for (int64_t i = 0; i < m->n; i++)
        for (int64_t j = 0; j < m->k; j++)
            if (f->method == PACKED_GPTQ)
                packed_put(words, j / per * m->n + i, (int)(j % per), f->bits, m->code[i][j]);
            else if (f->method == PACKED_ROWS)
                packed_put(words, i * across + j / per, (int)(j % per), f->bits, m->code[i][j]);
    for (int64_t i = 0; f->method == PACKED_AWQ && i < m->n / 8; i++)
        for (int64_t j = 0; j < m->k; j++)
            for (int place = 0; place < 8; place++)
                packed_put(words, j * (m->n / 8) + i, place, 4, m->code[8 * i + PACKED_AWQ_ORDER[place]][j]);
    if (f->method != PACKED_GPTQ) {
        dims[0] = f->method == PACKED_AWQ ? m->k : m->n;
        dims[1] = f->method == PACKED_AWQ ? m->n / 8 : across;
    }
    snprintf(name, sizeof(name), "%s.%s", stem, f->method == PACKED_ROWS ? "weight_packed" : "qweight");
    packed_add(file, name, "I32", 2, dims, words, (size_t)(dims[0] * dims[1]) * 4);
}

static inline void packed_add_zeros(packed_file *file, const packed_form *f, const packed_matrix *m, const char *stem) {
    static uint32_t words[PACKED_MAX * PACKED_MAX];
    static int8_t bytes[PACKED_MAX * PACKED_MAX];
    char name[128];
    const int per = 32 / f->bits;
    const int64_t across = (m->n + per - 1) / per;
    int64_t dims[2] = {m->groups, across};
    memset(words, 0, sizeof(words));
    for (int64_t i = 0; i < m->n; i++)
        for (int64_t g = 0; g < m->groups; g++) {
            const int zero = m->zero[i][g] - f->shift;
            bytes[i * m->groups + g] = (int8_t)(zero - (1 << (f->bits - 1)));
            int place = (int)(i % per);
            for (int p = 0; f->method == PACKED_AWQ && p < 8; p++)
                place = PACKED_AWQ_ORDER[p] == i % 8 ? p : place;
            packed_put(words, f->method == PACKED_ROWS ? i / per * m->groups + g : g * across + i / per, place, f->bits,
                       zero);
        }
    if (f->method == PACKED_ROWS) {
        dims[0] = f->int8_zeros ? m->n : across;
        dims[1] = m->groups;
    }
    snprintf(name, sizeof(name), "%s.%s", stem, f->method == PACKED_ROWS ? "weight_zero_point" : "qzeros");
    packed_add(file, name, f->int8_zeros ? "I8" : "I32", 2, dims, f->int8_zeros ? (void *)bytes : words,
               (size_t)(dims[0] * dims[1]) * (f->int8_zeros ? 1 : 4));
}

static inline void packed_add_scales(packed_file *file, const packed_form *f, const packed_matrix *m,
                                     const char *stem) {
    static float floats[PACKED_MAX * PACKED_MAX];
    static uint16_t halves[PACKED_MAX * PACKED_MAX];
    char name[128];
    const bool rows = f->method == PACKED_ROWS, wide = strcmp(f->scales, "F32") == 0;
    for (int64_t i = 0; i < m->n; i++)
        for (int64_t g = 0; g < m->groups; g++) {
            const int64_t at = rows ? i * m->groups + g : g * m->n + i;
            floats[at] = m->scale[i][g];
            halves[at] = packed_half(f->scales, m->scale[i][g]);
        }
    snprintf(name, sizeof(name), "%s.%s", stem, rows ? "weight_scale" : "scales");
    packed_add(file, name, f->scales, 2, (int64_t[]){rows ? m->n : m->groups, rows ? m->groups : m->n},
               wide ? (void *)floats : halves, (size_t)(m->n * m->groups) * (wide ? 4 : 2));
}

/* All tensors of a matrix. */
static inline void packed_add_matrix(packed_file *file, const packed_form *f, const packed_matrix *m,
                                     const char *stem) {
    char name[128];
    int32_t none[PACKED_MAX];
    packed_add_codes(file, f, m, stem);
    packed_add_scales(file, f, m, stem);
    if (!f->symmetric || f->method != PACKED_ROWS)
        packed_add_zeros(file, f, m, stem);
    for (int i = 0; i < PACKED_MAX; i++)
        none[i] = -1;
    snprintf(name, sizeof(name), "%s.%s", stem, f->method == PACKED_ROWS ? "weight_g_idx" : "g_idx");
    if (f->order || f->natural_g_idx)
        packed_add(file, name, "I32", 1, &m->k, f->order || f->method != PACKED_ROWS ? m->group : none,
                   (size_t)m->k * 4);
    snprintf(name, sizeof(name), "%s.weight_shape", stem);
    if (f->method == PACKED_ROWS)
        packed_add(file, name, "I64", 1, (int64_t[]){2}, (int64_t[]){m->n, m->k}, 16);
}

/* ---- A model of one layer ---- */

enum { WIDTH = 64, INNER = 96, VOCABULARY = 32, LENGTH = 7 };

static const char *const MATRICES[7] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                        "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};

static inline void write_config(const char *name, const char *quantization) {
    char text[2048];
    snprintf(text, sizeof(text),
             "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": %d, "
             "\"intermediate_size\": %d, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"vocab_size\": %d, "
             "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": true, "
             "\"hidden_act\": \"silu\", \"bos_token_id\": 1, \"eos_token_id\": 2%s%s}",
             WIDTH, INNER, VOCABULARY, quantization ? ", \"quantization_config\": " : "",
             quantization ? quantization : "");
    scratch_text(name, text);
}

static inline void add_floats(packed_file *f, const char *name, const float *values, int rank, int64_t rows,
                              int64_t columns) {
    packed_add(f, name, "F32", rank, (int64_t[]){rows, columns}, values, (size_t)(rows * columns) * 4);
}

/* Tensors that are not packed. */
static inline void add_rest(packed_file *f) {
    static const char *const NORMS[] = {"model.norm.weight", "model.layers.0.input_layernorm.weight",
                                        "model.layers.0.post_attention_layernorm.weight"};
    float ones[WIDTH], table[VOCABULARY * WIDTH];
    harness_random random = {5};
    for (int i = 0; i < WIDTH; i++)
        ones[i] = 1 + (float)(i % 3);
    harness_fill(&random, table, VOCABULARY * WIDTH, 0.3f);
    for (size_t i = 0; i < TFM__COUNT(NORMS); i++)
        add_floats(f, NORMS[i], ones, 1, WIDTH, 1);
    add_floats(f, "model.embed_tokens.weight", table, 2, VOCABULARY, WIDTH);
}

static inline void make_dirs(void) {
    harness_ok(tfm__dir_make(scratch_path("packed"), 0777));
    harness_ok(tfm__dir_make(scratch_path("plain"), 0777));
}

static inline float *logits_of(const char *name, tfm_precision precision, tfm_precision activations) {
    tfm_context *ctx = harness_context();
    tfm_model *model = NULL;
    tfm_tensor logits = {0};
    const int32_t ids[LENGTH] = {3, 1, 4, 1, 5, 9, 2}, length = LENGTH;
    harness_ok(tfm_model_open(
        &model, ctx, scratch_path(name),
        &(tfm_model_options){.no_tokenizer = true, .precision = precision, .activation_precision = activations}));
    tfm_scope_open(ctx);
    harness_ok(tfm_model_decode(model, &logits, HARNESS_TENSOR(TFM_I32, ids, 1, LENGTH), (tfm_tensor){0},
                                HARNESS_TENSOR(TFM_I32, &length, 1)));
    float *out = harness_floats(logits);
    tfm_scope_close(ctx, 0, NULL);
    tfm_model_free(&model);
    return out;
}

/* The root mean square of the difference of logits, relative to that of the second ones. */
static inline double distance_of(const float *a, const float *b) {
    double difference = 0, all = 0;
    for (int i = 0; i < LENGTH * VOCABULARY; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        all += (double)b[i] * b[i];
    }
    return sqrt(difference / all);
}

#endif
