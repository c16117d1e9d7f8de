/* Block-quantized matrices: from the blocks of a file to tiles of the device. The layout is described in quant.h. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "dev/memory/memory_pool.h"
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
    return format && format->group > 0 && n > 0 && k > 0 && n <= MOST && k <= MOST - TFM__QUANT_MAX_BLOCK &&
           (format->block == 32 || k % format->block == 0);
}

int tfm__quant_tile_rows(const tfm_context *ctx) {
    enum { GPU_ROWS = 32, CPU_VECTORS = 2 };
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    return tuning->class == TFM__CLASS_CPU ? CPU_VECTORS * tuning->width : GPU_ROWS;
}

int64_t tfm__quant_words(const tfm_context *ctx, const tfm__quant_format *format, int64_t n, int64_t k) {
    const int rows = tfm__quant_tile_rows(ctx);
    return tfm__ceil_div(n, rows) * tfm__ceil_div(k, format->block) * (layout_of(format, rows).bytes / 4);
}

/* A plane of 32 codes, bits `from` and up of each: `bits` words, 1, 2 or 4, `step` apart. v[i] has codes 4 i to 4 i + 3
 * as bytes: codes 4 i and 4 i + 2 are a pair of 16-bit fields, 4 i + 1 and 4 i + 3 the next pair but one. */
static inline void put_plane(uint32_t *out, int step, const uint32_t *v, int from, int bits) {
    const uint32_t mask = (1U << bits) - 1, pairs = (mask | mask << 2 * bits) * 0x10001U;
    for (int i = 0; i < 4; i++) {
        const uint32_t a = v[i] >> from & mask * 0x01010101U, b = v[i + 4] >> from & mask * 0x01010101U;
        const uint32_t four = ((a | a >> (8 - 2 * bits)) & pairs) | ((b | b >> (8 - 2 * bits)) & pairs) << bits;
        uint32_t *word = out + i * bits / 4 * step;
        *word = 4 * bits * i % 16 ? *word | four << 4 * bits * i % 16 : four;
    }
}

/* The same for whole bytes: 8 words. */
static void put_bytes(uint32_t *out, int step, const uint32_t *v) {
    const uint32_t even = 0x00ff00ffU;
    for (int i = 0; i < 4; i++) {
        out[2 * i * step] = (v[i] & even) | (v[i + 4] & even) << 8;
        out[(2 * i + 1) * step] = (v[i] >> 8 & even) | (v[i + 4] & ~even);
    }
}

/* A simple block of the file: its low four bits are the words of the device already. */
static bool has_words(const tfm__quant_format *f) {
    return !f->super && !f->wide;
}

/* The word of put_plane for 32 bits in order: of the five bits of a place, 4 goes to 0, 0 to 1, and 1 to 4. */
static uint32_t high_word(uint32_t bits) {
    const uint32_t swap = (bits ^ bits >> 14) & 0x0000ccccU, half = bits ^ swap ^ swap << 14,
                   next = (half ^ half >> 1) & 0x22222222U;
    return half ^ next ^ next << 1;
}

static void put_words(const tfm__quant_format *f, const layout *l, int rows, int row, uint8_t *tile,
                      const uint8_t *in) {
    uint32_t *low = (uint32_t *)(void *)(tile + l->low) + row, v[8];
    memcpy(tile + 2 * row, in, 2);
    in += 2;
    if (f->minimum) {
        const uint16_t min = (uint16_t)((in[0] | in[1] << 8) ^ 0x8000);
        memcpy(tile + l->min + 2 * row, &min, 2);
        in += 2;
    }
    if (f->bits == 8) {
        memcpy(v, in, sizeof(v));
        for (int j = 0; j < 8; j++)
            v[j] ^= 0x80808080U;
        put_bytes(low, rows, v);
        return;
    }
    if (f->high_bits) {
        uint32_t bits;
        memcpy(&bits, in, 4);
        ((uint32_t *)(void *)(tile + l->high))[row] = high_word(bits);
        in += 4;
    }
    for (int j = 0; j < 4; j++)
        memcpy(low + j * rows, in + 4 * j, 4);
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
        if (f->low_bits == 8) /* constants, for the compiler */
            put_bytes(low, rows, v);
        else if (f->low_bits == 4)
            put_plane(low, rows, v, 0, 4);
        else
            put_plane(low, rows, v, 0, 2);
        if (f->high_bits == 1)
            put_plane(high, rows, v, f->low_bits, 1);
        else if (f->high_bits)
            put_plane(high, rows, v, 4, 2);
    }
}

static const void *row_of(const tfm__quant_rows *rows, int64_t i, int64_t row_bytes, void *buffer) {
    return rows->row ? rows->row(rows->of, i, buffer) : (const uint8_t *)rows->of + i * row_bytes;
}

void tfm__quant_repack(const tfm__quant_format *format, int tile_rows, uint32_t *out, const tfm__quant_rows *rows,
                       int64_t first, int64_t count, int64_t k, void *buffer) {
    const layout l = layout_of(format, tile_rows);
    const int64_t along = tfm__ceil_div(k, format->block);
    tfm__quant_block b;
    for (int64_t i = 0; i < tfm__ceil_div(count, tile_rows) * tile_rows; i++) {
        const uint8_t *in = i < count ? row_of(rows, first + i, along * format->bytes, buffer) : NULL;
        uint8_t *tile = (uint8_t *)out + i / tile_rows * along * l.bytes;
        for (int64_t j = 0; j < along; j++, tile += l.bytes) {
            if (!in)
                put_block(format, &l, tile_rows, (int)(i % tile_rows), tile, &(tfm__quant_block){0});
            else if (has_words(format))
                put_words(format, &l, tile_rows, (int)(i % tile_rows), tile, in + j * format->bytes);
            else {
                tfm__quant_decode(format, &b, in + j * format->bytes);
                put_block(format, &l, tile_rows, (int)(i % tile_rows), tile, &b);
            }
        }
    }
}

/* ---- Several threads ---------------------------------------------------------------------------------- */

enum { THREADS = 8 };

/* Part of a chunk. */
typedef struct share {
    const tfm__quant_format *format;
    int tile_rows;
    uint32_t *out;
    const tfm__quant_rows *rows;
    int64_t first, count, k;
    unsigned char *buffers; /* [THREADS] of rows->buffer bytes */
} share;

static void *repack_share(void *user) {
    const share *s = user;
    const int64_t words = layout_of(s->format, s->tile_rows).bytes / 4 * tfm__ceil_div(s->k, s->format->block);
    tfm__memory_prepare(s->out, 4 * (size_t)(words * tfm__ceil_div(s->count, s->tile_rows)), true);
    tfm__quant_repack(s->format, s->tile_rows, s->out, s->rows, s->first, s->count, s->k, s->buffers);
    return NULL;
}

/* tfm__quant_repack on several threads, if it is worth it; a thread that cannot be started is done without. */
static void repack(const share *whole) {
    enum { LEAST = 128 << 10 };
    pthread_t threads[THREADS];
    share shares[THREADS];
    bool started[THREADS] = {false};
    const int64_t blocks = tfm__ceil_div(whole->count, whole->tile_rows),
                  words = layout_of(whole->format, whole->tile_rows).bytes / 4 *
                          tfm__ceil_div(whole->k, whole->format->block);
    const int64_t cores = sysconf(_SC_NPROCESSORS_ONLN), fit = 4 * words * blocks / LEAST;
    int64_t count = cores < THREADS ? cores : THREADS;
    count = count > fit ? fit : count;
    count = count < 1 ? 1 : count;
    const int64_t step = tfm__ceil_div(blocks, count);
    for (int64_t t = 0; t < count; t++) {
        const int64_t rows = whole->count - t * step * whole->tile_rows, most = step * whole->tile_rows;
        shares[t] = *whole;
        shares[t].out += t * step * words;
        shares[t].first += t * step * whole->tile_rows;
        shares[t].buffers += (size_t)t * whole->rows->buffer;
        shares[t].count = rows < 0 ? 0 : rows < most ? rows : most;
        started[t] = t > 0 && pthread_create(&threads[t], NULL, repack_share, &shares[t]) == 0;
    }
    for (int64_t t = 0; t < count; t++)
        if (!started[t])
            repack_share(&shares[t]);
    for (int64_t t = 0; t < count; t++)
        if (started[t])
            pthread_join(threads[t], NULL);
}

/* Writes the tiles chunk by chunk, so that the host never holds a copy of the whole, and where it can, in the memory of
 * the device. */
static tfm_status write_tiles(tfm_context *ctx, const tfm_param *m, const tfm__quant_format *format,
                              const tfm__quant_rows *rows) {
    enum { CHUNK = 4 << 20 };
    const int tile_rows = tfm__quant_tile_rows(ctx);
    const int64_t n = m->block_dims[0], k = m->block_dims[1], words = tfm__quant_words(ctx, format, tile_rows, k);
    const int64_t fit = CHUNK / (4 * words), step = fit > 1 ? fit : 1; /* row blocks */
    const int64_t most = tfm__ceil_div(n, tile_rows) < step ? tfm__ceil_div(n, tile_rows) : step;
    uint32_t *whole = tfm__tensor_map(ctx, m->value);
    uint32_t *chunk = whole ? NULL : tfm__realloc(NULL, (size_t)(most * words), sizeof(*chunk)); /* all are written */
    unsigned char *buffers = whole || chunk ? tfm__alloc(THREADS, rows->buffer + 1) : NULL;
    tfm_status status = buffers ? TFM_OK : tfm__context_fail(ctx, TFM_ERROR_MEMORY, "%s", tfm_error_message());
    if (whole && buffers)
        tfm__memory_prepare(whole, 4 * (size_t)m->value.dims[0], false);
    for (int64_t i = 0; i < n && status == TFM_OK; i += step * tile_rows) {
        const int64_t count = n - i < step * tile_rows ? n - i : step * tile_rows;
        tfm_tensor part = {0};
        repack(&(share){format, tile_rows, whole ? whole + i / tile_rows * words : chunk, rows, i, count, k, buffers});
        if (!whole)
            status =
                tfm_tensor_rows(ctx, &part, m->value, i / tile_rows * words, tfm__ceil_div(count, tile_rows) * words);
        if (!whole && status == TFM_OK)
            status = tfm_tensor_write(ctx, part, chunk);
        if (rows->written)
            rows->written(rows->of);
    }
    free(chunk);
    free(buffers);
    if (!whole)
        return status;
    const tfm_status unmapped = tfm__tensor_unmap(ctx, m->value, whole);
    return status == TFM_OK ? unmapped : status;
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
