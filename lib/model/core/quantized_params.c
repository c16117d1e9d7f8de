#include "model/core/quantized_params.h"
#include <math.h>
#include <stdatomic.h>
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

uint16_t tfm__float_to_half(float value, tfm_dtype dtype) {
    return dtype == TFM_BF16 ? tfm__bfloat_from_float(value) : tfm__half_from_float(value);
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

/* fp16 scales and minima of the groups of a row of `columns`. */
static const unsigned char *group_scales(const tfm__stored_tensor *stored, int64_t row, size_t columns) {
    const size_t groups = (columns + TFM__SCALE_GROUP - 1) / TFM__SCALE_GROUP;
    return stored->scales + 4 * groups * (size_t)row;
}

/* The values of a row's integers. */
static void scale_row(float *row, size_t columns, const tfm__stored_tensor *stored, int64_t i) {
    const unsigned char *halves = stored->scale_group ? group_scales(stored, i, columns) : NULL;
    const float whole = halves ? 0 : scale_of(stored, i);
    uint16_t own[2];
    for (size_t k = 0; !halves && k < columns; k++)
        row[k] *= whole;
    for (size_t k = 0; halves && k < columns; k++) {
        memcpy(own, halves + 4 * (k / TFM__SCALE_GROUP), sizeof(own));
        const float product = tfm__half_to_float(own[0]) * (row[k] + 128); /* exact */
        row[k] = product + tfm__half_to_float(own[1]);
    }
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
    if (stored->dtype == TFM_I8)
        scale_row(out, columns, stored, tfm__parameter_stored_row(p, i));
}

/* Stored integers of row i. */
static void read_int8(int8_t *out, const tfm__parameter *p, const tfm__stored_tensor *stored, int64_t i) {
    const size_t columns = (size_t)p->dims[1], row = (size_t)tfm__parameter_stored_row(p, i);
    const int8_t *from = (const int8_t *)stored->data;
    for (size_t k = 0; p->transposed && k < columns; k++)
        out[k] = from[k * (size_t)p->total + row];
    if (!p->transposed)
        memcpy(out, from + row * columns, columns);
}

static tfm_status fail_row(const tfm__parameter *p, const tfm__stored_tensor *stored, int64_t i) {
    return tfm__fail(TFM_ERROR_FORMAT,
                     "%s: tensor %s has a number in row %lld that is not finite, or too large, so it cannot be "
                     "quantized to int8",
                     stored->file, stored->name, (long long)tfm__parameter_stored_row(p, i));
}

/* Row i as int8: stored int8 unchanged, multiples of a unit exactly (Marian's int8), else quantized. */
static tfm_status quantize_row(int8_t *out, float *scale, float *row, const tfm__parameter *p,
                               const tfm__stored_tensor *stored, int64_t i) {
    const size_t columns = (size_t)p->dims[1];
    if (stored->dtype == TFM_I8 && !stored->scale_group && i < stored_rows(p)) {
        read_int8(out, p, stored, i);
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
    return tfm__quantize_row(out, scale, row, columns) ? TFM_OK : fail_row(p, stored, i);
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
    if (stored->dtype == TFM_I8 && !stored->scale_group && !p->transposed && !p->run && p->zero_rows == 0) {
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

/* ---- Blocks ---- */

/* Whether the blocks of a file, or of packed integers, can be those of the device. */
static bool fits_blocks(const tfm__parameter *p, const tfm__stored_tensor *stored) {
    const bool ordered = stored->packed && stored->packed->order; /* embeddings are not read in another order */
    return stored->blocks && !p->transposed && stored->rank == 2 && (!ordered || p->kind == TFM__MATRIX) &&
           stored->dims[1] == p->dims[1] && tfm__quant_fits(stored->blocks, p->dims[0], p->dims[1]);
}

/* The largest blocks with fp32 scales that fit `columns`. */
static const tfm__quant_format *int8_blocks(int64_t columns) {
    return tfm__quant_format_of(columns % 128 == 0  ? TFM__QUANT_INT8_G128
                                : columns % 64 == 0 ? TFM__QUANT_INT8_G64
                                                    : TFM__QUANT_INT8_G32);
}

const tfm__quant_format *tfm__param_blocks(const tfm__parameter *p, const tfm__stored_tensor *stored, bool int8) {
    if (!tfm__param_is_quantizable(p) || p->rows)
        return NULL;
    if (stored->dtype == TFM_I8)
        return stored->scale_group ? tfm__quant_format_of(TFM__QUANT_INT8_M32) : int8_blocks(p->dims[1]);
    if (fits_blocks(p, stored) && (!int8 || stored->blocks->bits == 8))
        return stored->blocks;
    return int8 ? tfm__quant_format_of(TFM__QUANT_INT8_M32) : NULL;
}

/* Row i as INT8_M32. `floats` has room for whole blocks. */
static bool pack_row(unsigned char *out, float *floats, const tfm__parameter *p, const tfm__stored_tensor *stored,
                     int64_t i) {
    const size_t columns = (size_t)p->dims[1], blocks = (columns + TFM__SCALE_GROUP - 1) / TFM__SCALE_GROUP;
    tfm__parameter_row(floats, p, stored, i);
    memset(floats + columns, 0, (blocks * TFM__SCALE_GROUP - columns) * sizeof(*floats));
    return tfm__quant_pack(tfm__quant_format_of(TFM__QUANT_INT8_M32), out, floats, blocks);
}

tfm_status tfm__param_quantize_groups(int8_t *bytes, uint16_t *scales, const tfm__parameter *p,
                                      const tfm__stored_tensor *stored) {
    enum { GROUP = TFM__SCALE_GROUP };
    const size_t columns = (size_t)p->dims[1], groups = (columns + GROUP - 1) / GROUP;
    float *floats = tfm__alloc(groups, GROUP * sizeof(*floats));
    unsigned char *blocks = tfm__alloc(groups, GROUP + 4);
    tfm_status status = floats && blocks ? TFM_OK : TFM_ERROR_MEMORY;
    for (int64_t i = 0; i < p->dims[0] && status == TFM_OK; i++) {
        status = pack_row(blocks, floats, p, stored, i) ? TFM_OK : fail_row(p, stored, i);
        for (size_t g = 0; g < groups; g++, scales += 2) {
            const size_t left = columns - g * GROUP;
            memcpy(scales, blocks + g * (GROUP + 4), 4);
            memcpy(bytes + (size_t)i * columns + g * GROUP, blocks + g * (GROUP + 4) + 4, left < GROUP ? left : GROUP);
        }
    }
    free(floats);
    free(blocks);
    return status;
}

typedef struct block_rows {
    const tfm__weights *file;
    const tfm__parameter *p;
    const tfm__stored_tensor *stored;
    const tfm__quant_format *format;
    _Atomic int64_t *bad; /* receives a row that cannot be quantized */
} block_rows;

/* Stored int8 as blocks of the same values; missing columns are 0. */
static void int8_row(unsigned char *out, int8_t *codes, const block_rows *r, int64_t i) {
    enum { ZERO = 128 };
    const int block = r->format->block, bytes = r->format->bytes;
    const size_t columns = (size_t)r->p->dims[1];
    const int64_t stored = tfm__parameter_stored_row(r->p, i);
    uint8_t shifted[TFM__QUANT_MAX_BLOCK];
    memset(codes + columns, 0, (size_t)block - 1);
    read_int8(codes, r->p, r->stored, i);
    for (size_t k = 0; k < columns; k += (size_t)block, out += bytes)
        if (r->stored->scale_group) {
            memcpy(out, group_scales(r->stored, stored, columns) + 4 * (k / TFM__SCALE_GROUP), 4);
            memcpy(out + 4, codes + k, (size_t)block);
        } else {
            const float scale = scale_of(r->stored, stored);
            for (int j = 0; j < block; j++)
                shifted[j] = (uint8_t)(codes[k + (size_t)j] + ZERO);
            tfm__quant_encode_wide(r->format, out, shifted, scale, scale * ZERO);
        }
}

static const void *block_row(const void *of, int64_t i, void *buffer) {
    const block_rows *r = of;
    const size_t columns = (size_t)r->p->dims[1], block = (size_t)r->format->block;
    const size_t row = (size_t)tfm__quant_row_bytes(r->format, (int64_t)columns);
    if (i >= stored_rows(r->p))
        return NULL;
    if (r->stored->dtype == TFM_I8) {
        int8_row(buffer, (int8_t *)buffer + row, r, i);
    } else if (r->format == r->stored->blocks && !r->stored->packed) {
        return r->stored->data + (size_t)tfm__parameter_stored_row(r->p, i) * row;
    } else if (r->format == r->stored->blocks) {
        tfm__packed_blocks(buffer, r->stored->packed, r->format, tfm__parameter_stored_row(r->p, i));
    } else {
        float *floats = buffer;
        unsigned char *blocks = (unsigned char *)(floats + (columns + block - 1) / block * block);
        if (!pack_row(blocks, floats, r->p, r->stored, i))
            atomic_store(r->bad, i);
        return blocks;
    }
    return buffer;
}

/* A large tensor is not in memory twice. */
static void evict_rows(const void *of) {
    const block_rows *r = of;
    tfm__weights_evict(r->file, r->stored);
}

tfm_status tfm__param_load_blocks(tfm_context *ctx, const tfm__weights *file, const tfm__parameter *p,
                                  const tfm__stored_tensor *stored, const tfm__quant_format *format) {
    _Atomic int64_t bad = -1;
    const block_rows of = {.file = file, .p = p, .stored = stored, .format = format, .bad = &bad};
    const size_t most = (size_t)tfm__ceil_div(p->dims[1], TFM__QUANT_MAX_BLOCK) * TFM__QUANT_MAX_BLOCK;
    const tfm__quant_rows rows = {.row = block_row,
                                  .buffer = 2 * most * sizeof(float), /* of floats, and of blocks */
                                  .written = evict_rows,
                                  .of = &of,
                                  .columns = format == stored->blocks && stored->packed ? stored->packed->order : NULL};
    const tfm_status status = tfm__quant_upload(ctx, p->param, stored->name, format, &rows, p->dims[0], p->dims[1]);
    if (status != TFM_OK || atomic_load(&bad) < 0)
        return status;
    tfm_param_free(ctx, p->param);
    return fail_row(p, stored, atomic_load(&bad));
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
