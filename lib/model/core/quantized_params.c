#include "model/core/quantized_params.h"
#include <math.h>
#include <string.h>
#include "base/half.h"
#include "model/weights/packed_tensors.h"
#include "ops/gemm/quantize.h"
#include "ops/quant/quant.h"

bool tfm__param_is_quantizable(const tfm__parameter *p) {
    const bool words = p->kind == TFM__EMBEDDING && p->role <= TFM__OUTPUT_PROJECTION;
    return p->rank == 2 && (words || (p->kind == TFM__MATRIX && p->role != TFM__POSITIONS)) &&
           p->dims[1] <= TFM__INT8_MAX_K && p->offset == 0;
}

/* Branch-free loops per dtype, since gradients of other ranks arrive in 16 bits. */
static void halves_to_floats(float *out, const unsigned char *at, size_t count, bool bfloat) {
    uint16_t half;
    for (size_t i = 0; bfloat && i < count; i++) {
        memcpy(&half, at + 2 * i, sizeof(half));
        out[i] = tfm__bfloat_to_float(half);
    }
    for (size_t i = 0; !bfloat && i < count; i++) {
        memcpy(&half, at + 2 * i, sizeof(half));
        out[i] = tfm__half_to_float(half);
    }
}

/* Values of packed integers. */
static void packed_to_floats(float *out, const tfm__packed *p, size_t first, size_t count, size_t step) {
    const size_t columns = (size_t)p->columns;
    size_t open = SIZE_MAX; /* number of the row that `row` has */
    if (step == 1 && first % columns == 0 && count % columns == 0) {
        for (size_t i = 0; i < count / columns; i++)
            tfm__packed_floats(out + i * columns, p, (int64_t)(first / columns + i));
        return;
    }
    float *row = tfm__alloc(columns, sizeof(*row));
    for (size_t done = 0; row && done < count; done++) {
        const size_t at = first + done * step;
        if (at / columns != open)
            tfm__packed_floats(row, p, (int64_t)(at / columns));
        open = at / columns;
        out[done] = row[at % columns];
    }
    free(row);
}

/* Values of a tensor stored as blocks. Rows begin with a block; other ranges are unpacked block by block. */
static void blocks_to_floats(float *out, const tfm__stored_tensor *stored, size_t first, size_t count, size_t step) {
    const tfm__quant_format *format = stored->blocks;
    const size_t size = (size_t)format->block;
    const unsigned char *data = stored->data;
    float block[TFM__QUANT_MAX_BLOCK];
    size_t done = 0, open = SIZE_MAX; /* number of the block that `block` has */
    if (step == 1 && first % size == 0) {
        done = count - count % size;
        tfm__quant_unpack(format, out, data + first / size * (size_t)format->bytes, done / size);
    }
    for (; done < count; done++) {
        const size_t at = first + done * step;
        if (at / size != open)
            tfm__quant_unpack(format, block, data + at / size * (size_t)format->bytes, 1);
        open = at / size;
        out[done] = block[at % size];
    }
}

void tfm__stored_to_floats(float *out, const tfm__stored_tensor *stored, size_t first, size_t count, size_t step) {
    if (stored->packed) {
        packed_to_floats(out, stored->packed, first, count, step);
        return;
    }
    if (stored->blocks) {
        blocks_to_floats(out, stored, first, count, step);
        return;
    }
    const size_t size = tfm_dtype_size(stored->dtype);
    const unsigned char *at = stored->data + first * size;
    if (stored->dtype == TFM_F32 && step == 1) {
        memcpy(out, at, count * size);
        return;
    }
    if (size == 2 && step == 1) {
        halves_to_floats(out, at, count, stored->dtype == TFM_BF16);
        return;
    }
    for (size_t i = 0; i < count; i++, at += step * size) {
        uint16_t half = 0;
        if (stored->dtype == TFM_F32)
            memcpy(&out[i], at, sizeof(*out));
        else if (stored->dtype == TFM_I8)
            out[i] = (float)(int8_t)*at;
        else
            memcpy(&half, at, sizeof(half));
        if (stored->dtype == TFM_BF16)
            out[i] = tfm__bfloat_to_float(half);
        else if (stored->dtype == TFM_F16)
            out[i] = tfm__half_to_float(half);
    }
}

/* Stored rows of the parameter. */
static int64_t stored_rows(const tfm__parameter *p) {
    return p->dims[0] - p->zero_rows;
}

int64_t tfm__parameter_stored_row(const tfm__parameter *p, int64_t i) {
    const int64_t half = p->interleaved / 2, in_head = half ? i % p->interleaved : 0;
    if (half)
        i += 2 * (in_head % half) + in_head / half - in_head;
    return p->first + (p->run ? i / p->run * p->step + i % p->run : i);
}

static float scale_of(const tfm__stored_tensor *stored, int64_t row) {
    float scale;
    memcpy(&scale, stored->scales + sizeof(scale) * (size_t)row, sizeof(scale));
    return scale;
}

void tfm__parameter_row(float *out, const tfm__parameter *p, const tfm__stored_tensor *stored, int64_t i) {
    const size_t columns = p->rank == 2 ? (size_t)p->dims[1] : 1;
    if (i >= stored_rows(p)) {
        memset(out, 0, columns * sizeof(*out));
        return;
    }
    const size_t row = (size_t)tfm__parameter_stored_row(p, i);
    tfm__stored_to_floats(out, stored, p->transposed ? row : row * columns, columns,
                          p->transposed ? (size_t)p->total : 1);
    for (size_t k = 0; stored->dtype == TFM_I8 && k < columns; k++)
        out[k] *= scale_of(stored, tfm__parameter_stored_row(p, i));
}

/* Row i as int8: stored int8 unchanged, multiples of a unit exactly (Marian's int8), else quantized. */
static tfm_status quantize_row(int8_t *out, float *scale, float *row, const tfm__parameter *p,
                               const tfm__stored_tensor *stored, int64_t i) {
    const size_t columns = (size_t)p->dims[1];
    if (stored->dtype == TFM_I8 && i < stored_rows(p)) {
        const int8_t *from = (const int8_t *)stored->data;
        for (size_t k = 0; p->transposed && k < columns; k++)
            out[k] = from[k * (size_t)p->total + (size_t)tfm__parameter_stored_row(p, i)];
        if (!p->transposed)
            memcpy(out, from + (size_t)tfm__parameter_stored_row(p, i) * columns, columns);
        *scale = scale_of(stored, tfm__parameter_stored_row(p, i));
        return TFM_OK;
    }
    tfm__parameter_row(row, p, stored, i);
    if (stored->unit > 0) {
        for (size_t k = 0; k < columns; k++)
            out[k] = (int8_t)fmaxf(-127, rintf(row[k] / stored->unit));
        *scale = stored->unit;
        return TFM_OK;
    }
    return tfm__quantize_row(out, scale, row, columns)
               ? TFM_OK
               : tfm__fail(
                     TFM_ERROR_FORMAT,
                     "%s: tensor %s has a number in row %lld that is not finite, so it cannot be quantized to int8",
                     stored->file, stored->name, (long long)tfm__parameter_stored_row(p, i));
}

tfm_status tfm__param_quantize(int8_t *bytes, float *scales, const tfm__parameter *p,
                               const tfm__stored_tensor *stored) {
    const size_t rows = (size_t)p->dims[0], columns = (size_t)p->dims[1];
    float *row = tfm__alloc(columns, sizeof(*row));
    tfm_status status = row ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < rows && status == TFM_OK; i++)
        status = quantize_row(bytes + i * columns, &scales[i], row, p, stored, (int64_t)i);
    free(row);
    return status;
}

tfm_status tfm__param_load_int8(tfm_context *ctx, const tfm__parameter *p, const tfm__stored_tensor *stored) {
    const size_t rows = (size_t)p->dims[0], columns = (size_t)p->dims[1];
    if (stored->dtype == TFM_I8 && !p->transposed && !p->run && p->zero_rows == 0) {
        const tfm_status status = tfm_tensor_write(ctx, p->param->value, stored->data + (size_t)p->first * columns);
        return status != TFM_OK ? status
                                : tfm_tensor_write(ctx, p->param->scales, stored->scales + 4 * (size_t)p->first);
    }
    int8_t *bytes = tfm__alloc(rows * columns, 1);
    float *scales = tfm__alloc(rows, sizeof(*scales));
    tfm_status status = bytes && scales ? tfm__param_quantize(bytes, scales, p, stored) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm_tensor_write(ctx, p->param->value, bytes);
    if (status == TFM_OK)
        status = tfm_tensor_write(ctx, p->param->scales, scales);
    free(bytes);
    free(scales);
    return status;
}

bool tfm__param_fits_blocks(const tfm__parameter *p, const tfm__stored_tensor *stored) {
    const bool ordered = stored->packed && stored->packed->order; /* embeddings are not read in another order */
    return stored->blocks && tfm__param_is_quantizable(p) && !p->transposed && stored->rank == 2 &&
           (!ordered || p->kind == TFM__MATRIX) && stored->dims[1] == p->dims[1] &&
           tfm__quant_fits(stored->blocks, p->dims[0], p->dims[1]);
}

typedef struct block_rows {
    const tfm__weights *file;
    const tfm__parameter *p;
    const tfm__stored_tensor *stored;
    unsigned char *row; /* of packed integers */
} block_rows;

static const void *block_row(const void *of, int64_t i) {
    const block_rows *r = of;
    const tfm__quant_format *format = r->stored->blocks;
    if (i >= stored_rows(r->p))
        return NULL;
    if (!r->row)
        return r->stored->data + tfm__parameter_stored_row(r->p, i) * (r->p->dims[1] / format->block * format->bytes);
    tfm__packed_blocks(r->row, r->stored->packed, format, tfm__parameter_stored_row(r->p, i));
    return r->row;
}

/* A large tensor is not in memory twice. */
static void evict_rows(const void *of) {
    const block_rows *r = of;
    tfm__weights_evict(r->file, r->stored);
}

tfm_status tfm__param_load_blocks(tfm_context *ctx, const tfm__weights *file, const tfm__parameter *p,
                                  const tfm__stored_tensor *stored) {
    block_rows of = {.file = file, .p = p, .stored = stored};
    if (stored->packed)
        of.row = tfm__alloc((size_t)(p->dims[1] / stored->blocks->block), (size_t)stored->blocks->bytes);
    if (stored->packed && !of.row)
        return TFM_ERROR_MEMORY;
    const tfm__quant_rows rows = {.row = block_row,
                                  .written = evict_rows,
                                  .of = &of,
                                  .columns = stored->packed ? stored->packed->order : NULL,
                                  .one_thread = stored->packed != NULL};
    const tfm_status status =
        tfm__quant_upload(ctx, p->param, stored->name, stored->blocks, &rows, p->dims[0], p->dims[1]);
    free(of.row);
    return status;
}

tfm_status tfm__param_check_fp16_range(const tfm__parameter *p, const tfm__stored_tensor *stored) {
    const size_t columns = (size_t)p->dims[1];
    const float end = 65520; /* values from here on would round to 65536, above the maximum of 65504 */
    float *row = tfm__alloc(columns, sizeof(*row)), most = 0;
    if (!row)
        return TFM_ERROR_MEMORY;
    for (int64_t i = 0; i < p->dims[0] && most < end; i++) {
        tfm__parameter_row(row, p, stored, i);
        for (size_t k = 0; k < columns; k++)
            most = fabsf(row[k]) > most && isfinite(row[k]) ? fabsf(row[k]) : most;
    }
    free(row);
    return most < end ? TFM_OK
                      : tfm__fail(TFM_ERROR_FORMAT,
                                  "%s: tensor %s has a number as large as %g, above the fp16 maximum of 65504: use the "
                                  "precision bf16",
                                  stored->file, stored->name, (double)most);
}
