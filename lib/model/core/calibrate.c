/* Calibration of int4 weights: the model runs once on a batch of text, and each matrix is rounded by GPTQ just before
 * it is used, so that later ones see the errors of earlier ones. */
#include <string.h>
#include "model/core/model.h"
#include "model/core/quantize_dir.h"
#include "model/core/quantized_params.h"
#include "ops/gemm/fused_linear.h"

/* Tokens of a calibration: sequences of LENGTH, or of the model's positions. */
enum { SEQUENCES = 64, LENGTH = 256 };

/* A parameter of the model, and the item of its stored tensor. */
typedef struct matrix {
    tfm__parameter p;
    tfm__quantize_item *item;
    bool done;
} matrix;

typedef struct calibration {
    tfm__quantize_job *job;
    tfm_model *model;
    matrix *matrices;
    size_t count, room;
    /* The factor of the last input, shared by the query, key and value of a layer, and by its gate and up matrix. */
    float *upper;
    tfm_tensor x;
    int shared_by; /* 0: nothing */
} calibration;

/* ---- One matrix ---- */

static int input_group(tfm__role role) {
    return role == TFM__SELF_QUERY || role == TFM__SELF_KEY || role == TFM__SELF_VALUE ? 1
           : role == TFM__GATE || role == TFM__UP                                      ? 2
                                                                                       : 0;
}

/* h (k, k) = x^T x on the host; `floats` has room for it. */
static tfm_status read_hessian(double *h, float *floats, tfm_context *ctx, tfm_tensor x) {
    const int64_t k = x.dims[x.rank - 1], dims[] = {(int64_t)tfm_tensor_count(x) / k, k};
    tfm_tensor flat = {0}, product = {0};
    tfm_scope_open(ctx);
    tfm_tensor_reshape(ctx, &flat, x, 2, dims);
    tfm_gemm(ctx, &product, flat, flat, &(tfm_gemm_options){.transpose_a = true});
    if (tfm_context_status(ctx) == TFM_OK)
        tfm_tensor_read(ctx, floats, product);
    const tfm_status status = tfm_scope_close(ctx, 0, NULL);
    for (int64_t i = 0; status == TFM_OK && i < k * k; i++)
        h[i] = (double)floats[i];
    return status;
}

static tfm_status find_factor(calibration *c, const matrix *m, tfm_tensor x) {
    const int group = input_group(m->p.role);
    if (group && group == c->shared_by && x.buffer == c->x.buffer)
        return TFM_OK;
    const int64_t k = m->p.dims[1];
    free(c->upper);
    c->shared_by = 0;
    c->upper = tfm__alloc((size_t)(k * k), sizeof(*c->upper));
    double *h = tfm__alloc((size_t)(k * k), sizeof(*h));
    tfm_status status = c->upper && h ? read_hessian(h, c->upper, c->model->ctx, x) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__gptq_factor(c->upper, h, k);
    free(h);
    c->shared_by = status == TFM_OK ? group : 0;
    c->x = x;
    return status;
}

/* Rounds the rows of a parameter, which become the dequantized ones. */
static tfm_status round_rows(calibration *c, matrix *m, float *weights) {
    const int64_t n = m->p.dims[0], k = m->p.dims[1];
    for (int64_t i = 0; i < n; i += TFM__GPTQ_ROWS) {
        int64_t rows[TFM__GPTQ_ROWS];
        const int64_t count = n - i < TFM__GPTQ_ROWS ? n - i : TFM__GPTQ_ROWS;
        for (int64_t r = 0; r < count; r++)
            rows[r] = tfm__parameter_stored_row(&m->p, i + r);
        if (!tfm__gptq_round(&m->item->int4, rows, count, weights + i * k, c->upper))
            return tfm__fail(TFM_ERROR_FORMAT,
                             "%s: tensor %s has a number that is not finite or too large, so it cannot be quantized "
                             "to int4",
                             m->item->stored->file, m->item->stored->name);
    }
    return TFM_OK;
}

/* The model gets a new tensor: the old one may be shared, or a mapped file. */
static tfm_status replace_weight(tfm_context *ctx, tfm_param *param, const float *weights) {
    tfm_param made = {.version = param->version + 1};
    if (tfm__tensor_new_persistent(ctx, &made.value, TFM_F32, 2, param->value.dims) != TFM_OK ||
        tfm_tensor_write(ctx, made.value, weights) != TFM_OK) {
        tfm_param_free(ctx, &made);
        return tfm_context_status(ctx);
    }
    tfm_param_free(ctx, param);
    *param = made;
    return TFM_OK;
}

static tfm_status round_matrix(calibration *c, matrix *m, tfm_tensor x) {
    tfm_context *ctx = c->model->ctx;
    float *weights = tfm__alloc((size_t)(m->p.dims[0] * m->p.dims[1]), sizeof(*weights));
    tfm_status status = weights ? find_factor(c, m, x) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm_tensor_read(ctx, weights, m->p.param->value);
    if (status == TFM_OK)
        status = round_rows(c, m, weights);
    if (status == TFM_OK)
        status = replace_weight(ctx, m->p.param, weights);
    free(weights);
    m->item->calibrated |= status == TFM_OK;
    return status;
}

/* Called before each linear layer. A tensor that layers share is rounded at its first use. */
static tfm_status before_linear(void *user, tfm_tensor x, tfm_param *weight) {
    calibration *c = user;
    for (size_t i = 0; i < c->count; i++)
        if (c->matrices[i].p.param == weight) {
            matrix *m = &c->matrices[i];
            const tfm_status status = m->done ? TFM_OK : round_matrix(c, m, x);
            m->done = true;
            return status == TFM_OK ? TFM_OK : tfm__context_fail(c->model->ctx, status, "%s", tfm_error_message());
        }
    return TFM_OK;
}

/* ---- The text ---- */

/* Ids of the text without special tokens, at least one sequence. */
static tfm_status encode_text(int32_t **ids, size_t *count, const calibration *c, size_t length) {
    const tfm_int4_options *o = c->job->int4;
    const tfm_encode_options plain = {.no_special_tokens = true};
    const tfm_status status =
        tfm_tokenizer_encode_with(c->model->tokenizer, ids, count, TFM_SOURCE, o->text, o->text_bytes, &plain);
    if (status != TFM_OK || *count >= length)
        return status;
    tfm_ids_free(ids);
    return tfm__fail(TFM_ERROR_INPUT,
                     "the calibration text has %zu tokens, but one of at least %zu is needed: use a "
                     "longer text, best %d times as long",
                     *count, length, SEQUENCES);
}

/* The special tokens around a text: as many before it as the first of one or two. */
static tfm_status special_tokens(int32_t **ids, size_t *before, size_t *after, const calibration *c) {
    size_t count = 0;
    const tfm_status status = tfm_tokenizer_encode(c->model->tokenizer, ids, &count, TFM_SOURCE, "", 0);
    *before = status == TFM_OK && count > 0 && (count > 1 || (*ids)[0] != c->model->rules.eos_id);
    *after = status == TFM_OK ? count - *before : 0;
    return status;
}

/* rows (sequences, length): parts of the text at equal distances, with special tokens. */
static void fill_sequences(int32_t *rows, size_t sequences, size_t length, const int32_t *text, size_t count,
                           const int32_t *special, size_t before, size_t after) {
    const size_t own = length - before - after, last = count - own;
    for (size_t i = 0; i < sequences; i++, rows += length) {
        const size_t from = sequences > 1 ? i * (last / (sequences - 1)) : 0;
        memcpy(rows, special, before * sizeof(*rows));
        memcpy(rows + before, text + from, own * sizeof(*rows));
        if (after)
            memcpy(rows + before + own, special + before, after * sizeof(*rows));
    }
}

/* ---- The pass ---- */

static tfm_status run_sequences(calibration *c, const int32_t *rows, size_t sequences, size_t length) {
    tfm_context *ctx = c->model->ctx;
    tfm_tensor ids = {0}, lengths = {0}, out = {0};
    int32_t all[SEQUENCES];
    for (size_t i = 0; i < sequences; i++)
        all[i] = (int32_t)length;
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &ids, TFM_I32, 2, (int64_t[]){(int64_t)sequences, (int64_t)length});
    tfm_tensor_new(ctx, &lengths, TFM_I32, 1, (int64_t[]){(int64_t)sequences});
    if (tfm_context_status(ctx) == TFM_OK)
        tfm_tensor_write(ctx, ids, rows);
    if (tfm_context_status(ctx) == TFM_OK)
        tfm_tensor_write(ctx, lengths, all);
    tfm__linear_set_observer(ctx, &(tfm__linear_observer){before_linear, c});
    if (tfm_context_status(ctx) == TFM_OK && c->model->arch.decoder.layers)
        tfm__model_decode_hidden(c->model, &out, ids, (tfm_tensor){0}, (tfm_tensor){0}, NULL);
    else if (tfm_context_status(ctx) == TFM_OK)
        tfm_model_encode(c->model, &out, ids, lengths);
    tfm__linear_set_observer(ctx, NULL);
    return tfm_scope_close(ctx, 0, NULL);
}

static tfm_status run_text(calibration *c) {
    const int positions = tfm__arch_output_stack(&c->model->arch)->max_positions;
    const size_t length = positions < LENGTH ? (size_t)positions : LENGTH;
    int32_t *text = NULL, *special = NULL, *rows = NULL;
    size_t count = 0, before = 0, after = 0;
    tfm_status status = encode_text(&text, &count, c, length);
    if (status == TFM_OK)
        status = special_tokens(&special, &before, &after, c);
    const size_t whole = count / length, sequences = whole < SEQUENCES ? whole : SEQUENCES;
    if (status == TFM_OK && length <= before + after)
        status = tfm__fail(TFM_ERROR_UNSUPPORTED,
                           "calibration needs sequences of more than %zu tokens, but the model has %d positions: "
                           "quantize it without a calibration text",
                           before + after, positions);
    if (status == TFM_OK && !(rows = tfm__alloc(sequences * length, sizeof(*rows))))
        status = TFM_ERROR_MEMORY;
    if (status == TFM_OK) {
        fill_sequences(rows, sequences, length, text, count, special, before, after);
        status = run_sequences(c, rows, sequences, length);
    }
    tfm_ids_free(&text);
    tfm_ids_free(&special);
    free(rows);
    return status;
}

/* Finds the parameters that become int4. */
static tfm_status add_matrix(void *user, const tfm__parameter *p) {
    calibration *c = user;
    const char *name = tfm__model_name_in_file(c->model, p->name);
    for (size_t i = 0; p->rank == 2 && i < tfm__weights_count(c->job->file); i++) {
        tfm__quantize_item *x = &c->job->items[i];
        if (!x->in_block || strcmp(x->stored->name, name) != 0)
            continue;
        const tfm_status status = tfm__grow(&c->matrices, &c->room, c->count + 1, sizeof(*c->matrices));
        if (status == TFM_OK)
            c->matrices[c->count++] = (matrix){.p = *p, .item = x};
        return status;
    }
    return TFM_OK;
}

tfm_status tfm__quantize_calibrate(tfm__quantize_job *j, const char *dir) {
    calibration c = {.job = j};
    tfm_status status =
        tfm_model_open(&c.model, j->int4->ctx, dir, &(tfm_model_options){.precision = TFM_PRECISION_FP32});
    if (status == TFM_OK && c.model->arch.encoder.layers && c.model->arch.decoder.layers)
        status = tfm__fail(TFM_ERROR_UNSUPPORTED,
                           "%s has an encoder and a decoder, which calibration does not support: quantize it without "
                           "a calibration text",
                           dir);
    if (status == TFM_OK)
        status = tfm__params_visit(c.model->family, &c.model->arch, c.model, add_matrix, &c);
    if (status == TFM_OK)
        status = run_text(&c);
    free(c.matrices);
    free(c.upper);
    tfm_model_free(&c.model);
    return status;
}
