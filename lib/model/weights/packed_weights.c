/* Finds the tensors of packed matrices in a file, checks that they fit each other, and replaces them by one tensor for
 * each matrix. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/half.h"
#include "model/weights/packed_tensors.h"
#include "model/weights/weight_reader.h"
#include "ops/quant/quant_format.h"

/* Suffixes of a matrix's tensors. */
typedef struct names {
    const char *codes, *scales, *zeros, *g_idx;
} names;

static const names NAMES[] = {
    [TFM__PACKING_GPTQ] = {".qweight", ".scales", ".qzeros", ".g_idx"},
    [TFM__PACKING_AWQ] = {".qweight", ".scales", ".qzeros", ".g_idx"},
    [TFM__PACKING_ROWS] = {".weight_packed", ".weight_scale", ".weight_zero_point", ".weight_g_idx"},
};

/* Tensors of compressed-tensors that are not read: activations and the KV cache have this library's own form. */
static const char *const UNREAD[] = {".weight_shape",      ".input_scale", ".input_zero_point", ".output_scale",
                                     ".output_zero_point", ".input_g_idx", ".k_scale",          ".v_scale"};

/* What the weights own. */
typedef struct owned {
    tfm__packed *matrices;
    size_t count;
    float **scales; /* of int8 tensors */
    size_t scales_count;
} owned;

typedef struct job {
    const tfm__weights *file;
    const tfm__packing *how;
    tfm__stored_tensor *out; /* [count] */
    size_t count;
    owned *own;
} job;

static void release(void *data) {
    owned *own = data;
    for (size_t i = 0; own->matrices && i < own->count; i++) {
        free(own->matrices[i].name);
        free(own->matrices[i].order);
    }
    for (size_t i = 0; own->scales && i < own->scales_count; i++)
        free(own->scales[i]);
    free(own->matrices);
    free(own->scales);
    free(own);
}

/* The length of `name` before the suffix; 0 if it has another one. */
static size_t stem(const char *name, const char *suffix) {
    const size_t length = strlen(name), end = strlen(suffix);
    return length > end && strcmp(name + length - end, suffix) == 0 ? length - end : 0;
}

/* The tensor `stem`.suffix, or NULL. */
static const tfm__stored_tensor *sibling(const job *j, const char *name, size_t length, const char *suffix) {
    char full[TFM__MAX_TENSOR_NAME + 32];
    snprintf(full, sizeof(full), "%.*s%s", (int)length, name, suffix);
    return tfm__weights_find(j->file, full);
}

/* ---- Checks ---- */

static tfm_status check_shape(const tfm__packed *p, const tfm__stored_tensor *t, int64_t first, int64_t second) {
    const int64_t is[2] = {t->rank > 0 ? t->dims[0] : 1, t->rank > 1 ? t->dims[1] : 1};
    if (t->rank <= 2 && is[0] == first && is[1] == second)
        return TFM_OK;
    return tfm__fail(TFM_ERROR_FORMAT,
                     "%s: tensor %s is (%" PRId64 ", %" PRId64 ") of rank %d, but the %d-bit matrix %s of %" PRId64
                     " outputs and %" PRId64 " inputs in %" PRId64 " groups needs (%" PRId64 ", %" PRId64
                     "): the file or `quantization_config` is damaged; download both again",
                     t->file, t->name, is[0], is[1], t->rank, p->how.bits, p->name, p->rows, p->columns, p->groups,
                     first, second);
}

static tfm_status check_dtype(const tfm__stored_tensor *t, bool fits, const char *wanted) {
    return t->usable && fits
               ? TFM_OK
               : tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s is %.20s, but %s is needed: download it again", t->file,
                           t->name, t->dtype_name, wanted);
}

static bool is_float(const tfm__stored_tensor *t) {
    return t->dtype == TFM_F16 || t->dtype == TFM_BF16 || t->dtype == TFM_F32;
}

/* Integers of weight_shape; false if it is not two of them. */
static bool read_shape(int64_t out[2], const tfm__stored_tensor *t) {
    const bool wide = strcmp(t->dtype_name, "I64") == 0, narrow = strcmp(t->dtype_name, "I32") == 0;
    if (t->count != 2 || !(wide || narrow) || t->bytes != (wide ? 16U : 8U))
        return false;
    for (int i = 0; i < 2; i++) {
        int32_t small;
        memcpy(&small, t->data + 4 * i, sizeof(small));
        if (wide)
            memcpy(&out[i], t->data + 8 * i, sizeof(out[i]));
        else
            out[i] = small;
    }
    return out[0] > 0 && out[1] > 0 && out[0] <= INT32_MAX && out[1] <= INT32_MAX;
}

/* Bits, rows and columns. `zeros` and `shape` may be NULL. */
static tfm_status find_sizes(tfm__packed *p, const tfm__stored_tensor *codes, const tfm__stored_tensor *scales,
                             const tfm__stored_tensor *zeros, const tfm__stored_tensor *shape) {
    const bool by_row = p->how.layout == TFM__PACKING_ROWS, awq = p->how.layout == TFM__PACKING_AWQ;
    int64_t dims[2];
    if (codes->rank != 2 || scales->rank > 2 || scales->rank < 1 || codes->count == 0 || scales->count == 0 ||
        codes->count > INT32_MAX || codes->dims[0] > INT32_MAX / 8 || codes->dims[1] > INT32_MAX / 8)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s or %s is no matrix: download the file again", codes->file,
                         codes->name, scales->name);
    const int64_t scale_columns = scales->rank == 2 ? scales->dims[1] : 1;
    p->rows = by_row ? codes->dims[0] : awq ? 8 * codes->dims[1] : codes->dims[1];
    p->groups = by_row ? scale_columns : scales->dims[0];
    if (p->how.mixed && !by_row && zeros && zeros->rank == 2)
        p->how.bits = zeros->dims[1] * 32 > 4 * p->rows + 31 ? 8 : 4;
    if (shape && !read_shape(dims, shape))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s is not the shape of a matrix: download the file again",
                         shape->file, shape->name);
    if (p->how.mixed && shape)
        p->how.bits = codes->dims[1] > (dims[1] + 7) / 8 ? 8 : 4;
    const int64_t per = 32 / p->how.bits;
    p->columns = by_row ? (shape ? dims[1] : per * codes->dims[1]) : awq ? codes->dims[0] : per * codes->dims[0];
    return check_shape(p, codes,
                       by_row ? (shape ? dims[0] : p->rows)
                       : awq  ? p->columns
                              : p->columns / per,
                       by_row ? (p->columns + per - 1) / per
                       : awq  ? p->rows / 8
                              : p->rows);
}

/* The number of groups must be that of the group size. */
static tfm_status check_groups(tfm__packed *p, const tfm__stored_tensor *scales) {
    if (p->how.mixed)
        p->how.group = p->groups > 1 ? (int)((p->columns + p->groups - 1) / p->groups) : 0;
    const int64_t wanted = p->how.group ? (p->columns + p->how.group - 1) / p->how.group : 1;
    if (p->groups == wanted)
        return TFM_OK;
    return tfm__fail(
        TFM_ERROR_FORMAT,
        "%s: tensor %s has scales of %" PRId64 " groups, but %" PRId64 " inputs in groups of %d are %" PRId64
        ": `quantization_config` belongs to another model; use its own",
        scales->file, scales->name, p->groups, p->columns, p->how.group ? p->how.group : (int)p->columns, wanted);
}

static tfm_status set_zeros(tfm__packed *p, const tfm__stored_tensor *zeros) {
    const int64_t per = 32 / p->how.bits, words = (p->rows + per - 1) / per;
    p->zeros = zeros->data;
    if (p->how.layout != TFM__PACKING_ROWS) {
        const tfm_status status = check_dtype(zeros, zeros->dtype == TFM_I32, "I32");
        return status == TFM_OK ? check_shape(p, zeros, p->groups, words) : status;
    }
    p->int8_zeros = zeros->usable && zeros->dtype == TFM_I8; /* of older versions */
    const tfm_status status = check_dtype(zeros, zeros->dtype == TFM_I32 || p->int8_zeros, "I32 or I8");
    return status == TFM_OK ? check_shape(p, zeros, p->int8_zeros ? p->rows : words, p->groups) : status;
}

/* compressed-tensors fills the indices of matrices without an order with -1. */
static tfm_status set_g_idx(tfm__packed *p, const tfm__stored_tensor *t) {
    tfm_status status = check_dtype(t, t->dtype == TFM_I32, "I32");
    if (status == TFM_OK)
        status = check_shape(p, t, p->columns, 1);
    bool natural = true;
    for (int64_t k = 0; status == TFM_OK && k < p->columns; k++) {
        int32_t group;
        memcpy(&group, t->data + 4 * k, sizeof(group));
        if (group == -1 && p->how.layout == TFM__PACKING_ROWS)
            return TFM_OK;
        natural &= group == (p->how.group ? k / p->how.group : 0);
        if (group < 0 || group >= p->groups)
            status = tfm__fail(TFM_ERROR_FORMAT,
                               "%s: tensor %s has the group %d of column %" PRId64 ", outside of the %" PRId64
                               " groups of the scales: download the file again",
                               t->file, t->name, (int)group, k, p->groups);
    }
    p->g_idx = natural ? NULL : t->data;
    return status;
}

/* ---- One matrix ---- */

static const char *encoding_of(const tfm__packing *how) {
    static const char *const ENCODINGS[][2] = {
        [TFM__PACKING_GPTQ] = {"GPTQ int4", "GPTQ int8"},
        [TFM__PACKING_AWQ] = {"AWQ int4", "AWQ int8"},
        [TFM__PACKING_ROWS] = {"compressed-tensors int4", "compressed-tensors int8"},
    };
    return ENCODINGS[how->layout][how->bits == 8];
}

static tfm_status fill_matrix(job *j, tfm__packed *p, const tfm__stored_tensor *codes, size_t length) {
    const names *n = &NAMES[j->how->layout];
    const tfm__stored_tensor *scales = sibling(j, codes->name, length, n->scales),
                             *zeros = sibling(j, codes->name, length, n->zeros),
                             *g_idx = sibling(j, codes->name, length, n->g_idx),
                             *shape = sibling(j, codes->name, length, ".weight_shape");
    if (!scales || (!zeros && j->how->layout == TFM__PACKING_GPTQ))
        return tfm__fail(TFM_ERROR_FORMAT, "%s has the tensor %s, but no %.*s%s: download the file again", codes->file,
                         codes->name, (int)length, codes->name, scales ? n->zeros : n->scales);
    tfm_status status = check_dtype(codes, codes->dtype == TFM_I32, "I32");
    if (status == TFM_OK)
        status = check_dtype(scales, is_float(scales), "F16, BF16 or F32");
    if (status == TFM_OK)
        status = find_sizes(p, codes, scales, zeros, j->how->layout == TFM__PACKING_ROWS ? shape : NULL);
    if (status == TFM_OK)
        status = check_groups(p, scales);
    const bool by_row = p->how.layout == TFM__PACKING_ROWS;
    if (status == TFM_OK)
        status = check_shape(p, scales, by_row ? p->rows : p->groups, by_row ? p->groups : p->rows);
    if (status == TFM_OK && zeros)
        status = set_zeros(p, zeros);
    if (status == TFM_OK && g_idx)
        status = set_g_idx(p, g_idx);
    p->codes = codes->data;
    p->code_bytes = codes->bytes;
    p->scales = scales->data;
    p->scale_dtype = scales->dtype;
    return status;
}

static tfm_status add_matrix(job *j, const tfm__stored_tensor *codes, size_t length) {
    tfm__packed *p = &j->own->matrices[j->own->count++];
    tfm__stored_tensor *out = &j->out[j->count++];
    *p = (tfm__packed){.how = *j->how, .name = tfm__format("%.*s.weight", (int)length, codes->name)};
    tfm_status status = p->name ? fill_matrix(j, p, codes, length) : TFM_ERROR_MEMORY;
    if (status != TFM_OK)
        return status;
    *out = *codes;
    out->name = p->name;
    out->dtype_name = tfm_dtype_name(TFM_F32);
    out->dtype = TFM_F32;
    out->dims[0] = p->rows;
    out->dims[1] = p->columns;
    out->count = (size_t)(p->rows * p->columns);
    out->bytes += (size_t)(p->rows * p->groups) * tfm_dtype_size(p->scale_dtype);
    out->encoding = encoding_of(&p->how);
    out->packed = p;
    return tfm__packed_choose_blocks(p, &out->blocks);
}

/* ---- int8 tensors of compressed-tensors ---- */

/* Zero points of symmetric tensors are 0. */
static bool are_zeros(const tfm__stored_tensor *t) {
    size_t i = 0;
    while (t && i < t->bytes && t->data[i] == 0)
        i++;
    return !t || i == t->bytes;
}

/* One scale per output, as floats; a scale of the whole tensor is repeated. */
static tfm_status add_int8(job *j, const tfm__stored_tensor *stored, const tfm__stored_tensor *scales, size_t length) {
    const size_t rows = stored->rank == 2 ? (size_t)stored->dims[0] : 0;
    tfm_status status = check_dtype(scales, is_float(scales), "F16, BF16 or F32");
    if (status == TFM_OK && (rows == 0 || (scales->count != rows && scales->count != 1)))
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: tensor %s has %zu scales, but %s has %zu outputs: int8 weights need one scale per output",
                         scales->file, scales->name, scales->count, stored->name, rows);
    if (status == TFM_OK && !are_zeros(sibling(j, stored->name, length, ".weight_zero_point")))
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: %s has zero points, which int8 weights cannot have: use a model with symmetric weights",
                         stored->file, stored->name);
    float *floats = status == TFM_OK ? tfm__alloc(rows, sizeof(*floats)) : NULL;
    if (!floats)
        return status == TFM_OK ? TFM_ERROR_MEMORY : status;
    j->own->scales[j->own->scales_count++] = floats;
    for (size_t i = 0; i < rows; i++) {
        const size_t at = scales->count == 1 ? 0 : i;
        uint16_t half = 0;
        memcpy(scales->dtype == TFM_F32 ? (void *)&floats[i] : &half, scales->data + at * tfm_dtype_size(scales->dtype),
               tfm_dtype_size(scales->dtype));
        if (scales->dtype != TFM_F32)
            floats[i] = scales->dtype == TFM_BF16 ? tfm__bfloat_to_float(half) : tfm__half_to_float(half);
    }
    tfm__stored_tensor *out = &j->out[j->count++];
    *out = *stored;
    out->scales = (const unsigned char *)floats;
    out->scale_count = rows;
    return TFM_OK;
}

/* ---- The file ---- */

/* Whether a tensor belongs to a matrix that was added, or is not read. */
static bool is_part(const job *j, const tfm__stored_tensor *t) {
    const names *n = &NAMES[j->how->layout];
    const char *const parts[] = {n->scales, n->zeros, n->g_idx};
    size_t length = 0;
    for (size_t i = 0; i < TFM__COUNT(parts); i++) {
        length = stem(t->name, parts[i]);
        const tfm__stored_tensor *weight = length ? sibling(j, t->name, length, ".weight") : NULL;
        if (length && (sibling(j, t->name, length, n->codes) || (weight && weight->usable && weight->dtype == TFM_I8)))
            return true;
    }
    for (size_t i = 0; j->how->layout == TFM__PACKING_ROWS && i < TFM__COUNT(UNREAD); i++)
        if (stem(t->name, UNREAD[i]))
            return true;
    return false;
}

static tfm_status add_tensor(job *j, const tfm__stored_tensor *t) {
    const size_t length = stem(t->name, NAMES[j->how->layout].codes), weight = stem(t->name, ".weight");
    const bool int8 = j->how->layout == TFM__PACKING_ROWS && weight && t->usable && t->dtype == TFM_I8;
    const tfm__stored_tensor *scales = int8 ? sibling(j, t->name, weight, ".weight_scale") : NULL;
    if (length)
        return add_matrix(j, t, length);
    if (scales)
        return add_int8(j, t, scales, weight);
    if (!is_part(j, t))
        j->out[j->count++] = *t;
    return TFM_OK;
}

tfm_status tfm__weights_unpack(tfm__weights *weights, const tfm__packing *packing) {
    const size_t count = tfm__weights_count(weights);
    if (packing->layout == TFM__PACKING_NONE)
        return TFM_OK;
    job j = {.file = weights, .how = packing, .own = tfm__alloc(1, sizeof(*j.own))};
    j.out = tfm__alloc(count, sizeof(*j.out));
    if (j.own) {
        j.own->matrices = tfm__alloc(count, sizeof(*j.own->matrices));
        j.own->scales = tfm__alloc(count, sizeof(*j.own->scales));
    }
    tfm_status status = j.out && j.own && j.own->matrices && j.own->scales ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        status = add_tensor(&j, tfm__weights_at(weights, i));
    if (status == TFM_OK)
        return tfm__weights_replace(weights, j.out, j.count, j.own, release);
    free(j.out);
    if (j.own)
        release(j.own);
    return status;
}
