/* Rows of packed matrices, as floats and as blocks of lib/ops/quant. */
#include "model/weights/packed_tensors.h"
#include <string.h>
#include "base/half.h"
#include "ops/quant/quant_format.h"

static uint32_t word_at(const unsigned char *words, int64_t i) {
    uint32_t word;
    memcpy(&word, words + 4 * i, sizeof(word));
    return word;
}

/* Place of an integer in a word of AWQ. */
static int awq_place(int64_t i) {
    return (int)(i % 8 / 2 + i % 2 * 4);
}

/* The integer at `place` of a word. */
static int field(const tfm__packed *p, uint32_t word, int place) {
    return (int)(word >> place * p->how.bits & ((1U << p->how.bits) - 1));
}

static int code_at(const tfm__packed *p, int64_t row, int64_t column) {
    const int64_t per = 32 / p->how.bits;
    if (p->how.layout == TFM__PACKING_GPTQ)
        return field(p, word_at(p->codes, column / per * p->rows + row), (int)(column % per));
    if (p->how.layout == TFM__PACKING_AWQ)
        return field(p, word_at(p->codes, column * (p->rows / 8) + row / 8), awq_place(row));
    const int64_t words = (p->columns + per - 1) / per;
    return field(p, word_at(p->codes, row * words + column / per), (int)(column % per));
}

/* `count` integers of a row from column `first` on, a multiple of 8. */
static void read_codes(uint8_t *out, const tfm__packed *p, int64_t row, int64_t first, int64_t count) {
    const int bits = p->how.bits, per = 32 / bits, place = awq_place(row);
    const uint32_t mask = (1U << bits) - 1;
    if (p->how.layout == TFM__PACKING_AWQ) {
        for (int64_t i = 0; i < count; i++)
            out[i] = word_at(p->codes, (first + i) * (p->rows / 8) + row / 8) >> place * 4 & 15;
        return;
    }
    const bool gptq = p->how.layout == TFM__PACKING_GPTQ;
    const int64_t step = gptq ? p->rows : 1, words = (p->columns + per - 1) / per;
    int64_t at = gptq ? first / per * p->rows + row : row * words + first / per;
    for (int64_t i = 0; i < count; i += per, at += step) {
        const uint32_t word = word_at(p->codes, at);
        for (int j = 0; j < per && i + j < count; j++)
            out[i + j] = (uint8_t)(word >> j * bits & mask);
    }
}

static int zero_at(const tfm__packed *p, int64_t row, int64_t group) {
    const int half = 1 << (p->how.bits - 1);
    const int64_t per = 32 / p->how.bits, words = (p->rows + per - 1) / per;
    if (!p->zeros)
        return half;
    if (p->int8_zeros)
        return (int8_t)p->zeros[row * p->groups + group] + half;
    if (p->how.layout == TFM__PACKING_AWQ)
        return field(p, word_at(p->zeros, group * words + row / 8), awq_place(row));
    if (p->how.layout == TFM__PACKING_GPTQ) /* the sum wraps, as where they are written */
        return (field(p, word_at(p->zeros, group * words + row / per), (int)(row % per)) + p->how.zero_shift) &
               (2 * half - 1);
    return field(p, word_at(p->zeros, row / per * p->groups + group), (int)(row % per));
}

static float scale_at(const tfm__packed *p, int64_t row, int64_t group) {
    const int64_t i = p->how.layout == TFM__PACKING_ROWS ? row * p->groups + group : group * p->rows + row;
    uint16_t half;
    float scale;
    if (p->scale_dtype == TFM_F32) {
        memcpy(&scale, p->scales + 4 * i, sizeof(scale));
        return scale;
    }
    memcpy(&half, p->scales + 2 * i, sizeof(half));
    return p->scale_dtype == TFM_BF16 ? tfm__bfloat_to_float(half) : tfm__half_to_float(half);
}

static int64_t group_of(const tfm__packed *p, int64_t column) {
    return p->g_idx ? word_at(p->g_idx, column) : p->how.group ? column / p->how.group : 0;
}

void tfm__packed_floats(float *out, const tfm__packed *p, int64_t row) {
    enum { PART = 64 };
    uint8_t codes[PART];
    int64_t group = -1;
    float scale = 0;
    int zero = 0;
    for (int64_t k = 0; k < p->columns; k++) {
        const int64_t own = group_of(p, k), left = p->columns - k;
        if (k % PART == 0)
            read_codes(codes, p, row, k, left < PART ? left : PART);
        if (own != group) {
            scale = scale_at(p, row, own);
            zero = zero_at(p, row, own);
            group = own;
        }
        out[k] = scale * (float)(codes[k % PART] - zero);
    }
}

static int64_t column_of(const tfm__packed *p, int64_t j) {
    return p->order ? p->order[j] : j;
}

/* scale x zero point is exact for 16-bit scales, and so are the weights. */
void tfm__packed_blocks(unsigned char *out, const tfm__packed *p, const tfm__quant_format *blocks, int64_t row) {
    uint8_t codes[TFM__QUANT_MAX_BLOCK];
    for (int64_t j = 0; j < p->columns; j += blocks->block, out += blocks->bytes) {
        const int64_t group = group_of(p, column_of(p, j));
        const float scale = scale_at(p, row, group);
        for (int i = 0; p->order && i < blocks->block; i++)
            codes[i] = (uint8_t)code_at(p, row, p->order[j + i]);
        if (!p->order)
            read_codes(codes, p, row, j, blocks->block);
        tfm__quant_encode_wide(blocks, out, codes, scale, scale * (float)zero_at(p, row, group));
    }
}

/* ---- Choice of blocks ---- */

/* Whether each run of `size` columns has one group. */
static bool has_one_group_each(const tfm__packed *p, int64_t size) {
    bool same = p->columns % size == 0;
    for (int64_t j = 0; same && j < p->columns; j++)
        same = group_of(p, column_of(p, j)) == group_of(p, column_of(p, j - j % size));
    return same;
}

static const tfm__quant_format *largest_blocks(const tfm__packed *p) {
    static const tfm__quant_type TYPES[2][3] = {{TFM__QUANT_INT4_G128, TFM__QUANT_INT4_G64, TFM__QUANT_INT4_G32},
                                                {TFM__QUANT_INT8_G128, TFM__QUANT_INT8_G64, TFM__QUANT_INT8_G32}};
    for (int i = 0; i < 3; i++) {
        const tfm__quant_format *blocks = tfm__quant_format_of((uint32_t)TYPES[p->how.bits == 8][i]);
        if (has_one_group_each(p, blocks->block))
            return blocks;
    }
    return NULL;
}

/* Sorts columns by group; equal ones keep their order. */
static tfm_status sort_columns(tfm__packed *p) {
    int64_t *first = tfm__alloc((size_t)p->groups + 1, sizeof(*first));
    p->order = tfm__alloc((size_t)p->columns, sizeof(*p->order));
    if (!first || !p->order) {
        free(first);
        return TFM_ERROR_MEMORY;
    }
    for (int64_t k = 0; k < p->columns; k++)
        first[group_of(p, k) + 1]++;
    for (int64_t g = 0; g < p->groups; g++)
        first[g + 1] += first[g];
    for (int64_t k = 0; k < p->columns; k++)
        p->order[first[group_of(p, k)]++] = (int32_t)k;
    free(first);
    return TFM_OK;
}

tfm_status tfm__packed_choose_blocks(tfm__packed *p, const tfm__quant_format **out) {
    *out = largest_blocks(p);
    if (*out || !p->g_idx || p->columns % 32 != 0)
        return TFM_OK;
    const tfm_status status = sort_columns(p);
    if (status == TFM_OK)
        *out = largest_blocks(p);
    if (!*out) {
        free(p->order);
        p->order = NULL;
    }
    return status;
}
