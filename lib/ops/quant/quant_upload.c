/* Block-quantized matrices: from the blocks of a file to tiles of the device. The layout is described in quant.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "ops/quant/quant.h"

/* Places within a tile of `rows` rows, in bytes; every one is a multiple of four. */
typedef struct layout {
    int groups, min, scales, mins, low, high, bytes;
} layout;

/* Q2_K has scales and minima of four bits, in one byte as in the file. */
static bool shares_bytes(const tfm__quant_format *f) {
    return f->type == TFM__QUANT_Q2_K;
}

static layout layout_of(const tfm__quant_format *f, int rows) {
    layout l = {.groups = f->super ? f->block / f->group : 0, .min = (f->wide ? 4 : 2) * rows};
    l.scales = f->minimum ? 2 * l.min : l.min;
    l.mins = l.scales + l.groups * rows;
    l.low = f->minimum && !shares_bytes(f) ? l.mins + l.groups * rows : l.mins;
    l.high = l.low + f->block * f->low_bits / 8 * rows;
    l.bytes = l.high + f->block * f->high_bits / 8 * rows;
    return l;
}

bool tfm__quant_fits(const tfm__quant_format *format, int64_t n, int64_t k) {
    enum { MOST = INT32_MAX };
    return format && format->group > 0 && n > 0 && k > 0 && n <= MOST && k <= MOST && k % format->block == 0;
}

int tfm__quant_tile_rows(const tfm_context *ctx) {
    enum { GPU_ROWS = 32, CPU_VECTORS = 2 };
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    return tuning->class == TFM__CLASS_CPU ? CPU_VECTORS * tuning->width : GPU_ROWS;
}

int64_t tfm__quant_words(const tfm_context *ctx, const tfm__quant_format *format, int64_t n, int64_t k) {
    const int rows = tfm__quant_tile_rows(ctx);
    return tfm__ceil_div(n, rows) * (k / format->block) * (layout_of(format, rows).bytes / 4);
}

/* Two, one, or one half code of each of v's halves, at bit `from`, for a plane of `bits` bits. */
static uint32_t fields(uint32_t v, int from, int bits) {
    return v >> from & (((1U << bits) - 1) * 0x10001U);
}

/* A plane of 32 codes, bits `from` and up of each: `bits` words, `step` apart. v[i] has codes 4 i to 4 i + 3 as bytes,
 * so its halves have the pair (4 i, 4 i + 2) in their low bytes. */
static void put_plane(uint32_t *out, int step, const uint32_t *v, int from, int bits) {
    const int per_word = 16 / bits;
    for (int p = 0; p < 16; p++) {
        const uint32_t pair = fields(v[p / 4 + p % 2 * 4], from + p % 4 / 2 * 8, bits) << p % per_word * bits;
        uint32_t *word = out + p / per_word * step;
        *word = p % per_word == 0 ? pair : *word | pair;
    }
}

/* The same for the low four bits, which most formats have. */
static void put_nibbles(uint32_t *out, int step, const uint32_t *v) {
    for (int j = 0; j < 4; j++)
        out[j * step] = (v[j] & 0x0f0f0f0fU) | (v[j + 4] & 0x0f0f0f0fU) << 4;
}

/* Row `row` of a tile. */
static void put_block(const tfm__quant_format *f, const layout *l, int rows, int row, uint8_t *tile,
                      const tfm__quant_block *b) {
    memcpy(tile + l->min / rows * row, f->wide ? (const void *)&b->wide_scale : &b->scale, f->wide ? 4 : 2);
    if (f->minimum)
        memcpy(tile + l->min + l->min / rows * row, f->wide ? (const void *)&b->wide_min : &b->min, f->wide ? 4 : 2);
    for (int g = 0; g < l->groups; g++) {
        const bool shared = shares_bytes(f);
        tile[l->scales + g * rows + row] = (uint8_t)(shared ? b->scales[g] | b->mins[g] << 4 : b->scales[g]);
        if (f->minimum && !shared)
            tile[l->mins + g * rows + row] = (uint8_t)b->mins[g];
    }
    for (int c = 0; c < f->block / 32; c++) {
        uint32_t v[8];
        uint32_t *low = (uint32_t *)(void *)(tile + l->low) + c * f->low_bits * rows + row,
                 *high = (uint32_t *)(void *)(tile + l->high) + c * f->high_bits * rows + row;
        memcpy(v, b->codes + 32 * c, sizeof(v));
        if (f->low_bits == 4)
            put_nibbles(low, rows, v);
        else
            put_plane(low, rows, v, 0, f->low_bits);
        if (f->high_bits)
            put_plane(high, rows, v, f->low_bits, f->high_bits);
    }
}

static const void *row_of(const tfm__quant_rows *rows, int64_t i, int64_t row_bytes) {
    return rows->row ? rows->row(rows->of, i) : (const uint8_t *)rows->of + i * row_bytes;
}

void tfm__quant_repack(const tfm__quant_format *format, int tile_rows, uint32_t *out, const tfm__quant_rows *rows,
                       int64_t first, int64_t count, int64_t k) {
    const layout l = layout_of(format, tile_rows);
    const int64_t along = k / format->block;
    tfm__quant_block b;
    memset(out, 0, (size_t)(tfm__ceil_div(count, tile_rows) * along) * (size_t)l.bytes);
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *in = row_of(rows, first + i, along * format->bytes);
        uint8_t *tile = (uint8_t *)out + i / tile_rows * along * l.bytes;
        for (int64_t j = 0; in && j < along; j++, tile += l.bytes, in += format->bytes) {
            tfm__quant_decode(format, &b, in);
            put_block(format, &l, tile_rows, (int)(i % tile_rows), tile, &b);
        }
    }
}

/* Writes the tiles piece by piece, so that the host never holds a copy of the whole. */
static tfm_status write_tiles(tfm_context *ctx, const tfm_param *m, const tfm__quant_format *format,
                              const tfm__quant_rows *rows) {
    enum { PIECE = 4 << 20 };
    const int tile_rows = tfm__quant_tile_rows(ctx);
    const int64_t n = m->block_dims[0], k = m->block_dims[1], words = tfm__quant_words(ctx, format, tile_rows, k);
    const int64_t fit = PIECE / (4 * words), step = fit > 1 ? fit : 1; /* row blocks */
    uint32_t *piece = tfm__alloc((size_t)(step * words), sizeof(*piece));
    if (!piece)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "%s", tfm_error_message());
    tfm_status status = TFM_OK;
    for (int64_t i = 0; i < n && status == TFM_OK; i += step * tile_rows) {
        const int64_t count = n - i < step * tile_rows ? n - i : step * tile_rows;
        tfm_tensor part = {0};
        tfm__quant_repack(format, tile_rows, piece, rows, i, count, k);
        status = tfm_tensor_rows(ctx, &part, m->value, i / tile_rows * words, tfm__ceil_div(count, tile_rows) * words);
        if (status == TFM_OK)
            status = tfm_tensor_write(ctx, part, piece);
    }
    free(piece);
    return status;
}

void tfm__quant_set(tfm_param *param, const tfm__quant_format *format, int64_t n, int64_t k) {
    param->block_type = (int)format->type;
    param->block_dims[0] = n;
    param->block_dims[1] = k;
}

tfm_status tfm__quant_upload(tfm_context *ctx, tfm_param *out, const char *name, const tfm__quant_format *format,
                             const tfm__quant_rows *rows, int64_t n, int64_t k) {
    *out = (tfm_param){0};
    if (!tfm__quant_fits(format, n, k))
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT,
                                 "%s: (%" PRId64 ", %" PRId64 ") cannot be stored in blocks of %s: convert the tensor",
                                 name, n, k, format ? format->name : "this type");
    const int64_t words = tfm__quant_words(ctx, format, n, k) + (rows->columns ? k : 0);
    if (tfm__tensor_new_persistent(ctx, &out->value, TFM_I32, 1, &words) != TFM_OK)
        return tfm_context_status(ctx);
    tfm__quant_set(out, format, n, k);
    if (write_tiles(ctx, out, format, rows) != TFM_OK)
        tfm_param_free(ctx, out);
    else if (rows->columns && tfm_tensor_write(ctx, tfm__quant_columns(ctx, out), rows->columns) != TFM_OK)
        tfm_param_free(ctx, out);
    return tfm_context_status(ctx);
}

tfm_tensor tfm__quant_columns(tfm_context *ctx, const tfm_param *param) {
    const tfm__quant_format *format = tfm__quant_format_of((uint32_t)param->block_type);
    const int64_t k = param->block_dims[1], words = tfm__quant_words(ctx, format, param->block_dims[0], k);
    tfm_tensor columns = {0};
    if (param->value.dims[0] == words + k)
        tfm_tensor_rows(ctx, &columns, param->value, words, k);
    return columns;
}

const tfm__quant_format *tfm__quant_check(tfm_context *ctx, const char *op, const tfm_param *param) {
    const tfm__quant_format *format = tfm__quant_format_of((uint32_t)param->block_type);
    const int64_t n = param->block_dims[0], k = param->block_dims[1];
    if (TFM__OP_BEGIN(ctx, op, "4", param->value) != TFM_OK)
        return NULL;
    const int64_t words = tfm__quant_fits(format, n, k) ? tfm__quant_words(ctx, format, n, k) : -1,
                  is = param->value.dims[0];
    if (words >= 0 && param->value.rank == 1 && (is == words || is == words + k))
        return format;
    tfm__op_error(ctx, op, "the weight %s is not a block-quantized matrix of this device", TFM__SHAPE(param->value));
    return NULL;
}

const char *tfm__quant_defines(char text[TFM__QUANT_DEFINES], const tfm_context *ctx, const tfm__quant_format *f) {
    snprintf(text, TFM__QUANT_DEFINES,
             "-DBLOCK=%d -DGROUP=%d -DLOW=%d -DHIGH=%d -DOFFSET=%d -DSUPER=%d -DMINIMUM=%d -DCODEBOOK=%d -DSHARED=%d "
             "-DWIDE=%d -DTILE_ROWS=%d",
             f->block, f->group, f->low_bits, f->high_bits, f->offset, f->super, f->minimum, f->codebook,
             shares_bytes(f), f->wide, tfm__quant_tile_rows(ctx));
    return text;
}
