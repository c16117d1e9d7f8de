/* Argument checks of every op: context status, input validity, shapes. Launch grids. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "ops/ops.h"

const char *tfm__shape_text(char *text, tfm_tensor x) {
    size_t used = (size_t)snprintf(text, TFM__SHAPE_TEXT, "(");
    for (int i = 0; i < x.rank && i < TFM_MAX_RANK && used < TFM__SHAPE_TEXT; i++)
        used += (size_t)snprintf(text + used, TFM__SHAPE_TEXT - used, "%s%" PRId64, i ? ", " : "", x.dims[i]);
    if (used < TFM__SHAPE_TEXT)
        snprintf(text + used, TFM__SHAPE_TEXT - used, ") %s", tfm_dtype_name(x.dtype));
    return text;
}

tfm_status tfm__op_error(tfm_context *ctx, const char *op, const char *format, ...) {
    char sentence[768];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "%s: %s", op, sentence);
}

static bool dtype_fits(char letter, tfm_dtype dtype) {
    switch (letter) {
    case 'f':
    case 'F':
        return dtype == TFM_F32;
    case 'i':
    case 'I':
        return dtype == TFM_I32;
    case 'h':
    case 'H':
        return dtype == TFM_F32 || dtype == TFM_F16 || dtype == TFM_BF16;
    case 'm':
    case 'M':
        return dtype != TFM_I32 && dtype != TFM_I8;
    case 'k':
        return dtype != TFM_I32 && dtype != TFM_U8;
    case 'b':
        return dtype == TFM_I8;
    case '4':
        return tfm_dtype_size(dtype) == 4;
    default: /* '*' */
        return true;
    }
}

tfm_status tfm__op_begin(tfm_context *ctx, const char *op, const char *dtypes, size_t count, const tfm_tensor *inputs) {
    if (tfm__context_sticky(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    const bool none_taken = dtypes[0] == '0';
    dtypes += none_taken;
    for (size_t i = 0; i < count; i++) {
        tfm_tensor x = inputs[i];
        char letter = dtypes[i];
        if (!x.buffer && letter >= 'A' && letter <= 'Z')
            continue;
        if (!x.buffer)
            return tfm__op_error(ctx, op, "input %zu is an empty tensor", i + 1);
        if (!tfm__tensor_alive(ctx, x))
            return tfm__op_error(ctx, op, "input %zu, %s, is of another context or used after its scope was closed",
                                 i + 1, TFM__SHAPE(x));
        if (!tfm__tensor_fits(x))
            return tfm__op_error(ctx, op, "input %zu, %s, does not lie within its memory", i + 1, TFM__SHAPE(x));
        if (!dtype_fits(letter, x.dtype))
            return tfm__op_error(ctx, op, "input %zu is %s: not a dtype that it takes", i + 1, TFM__SHAPE(x));
        if (!none_taken && tfm_tensor_count(x) == 0)
            return tfm__op_error(ctx, op, "input %zu, %s, has no elements: leave this call out", i + 1, TFM__SHAPE(x));
    }
    return TFM_OK;
}

bool tfm__same_dims(tfm_tensor a, tfm_tensor b) {
    return a.rank == b.rank && memcmp(a.dims, b.dims, (size_t)a.rank * sizeof(a.dims[0])) == 0;
}

bool tfm__overlap(tfm_tensor a, tfm_tensor b) {
    const size_t size_a = tfm_dtype_size(a.dtype), size_b = tfm_dtype_size(b.dtype);
    return a.buffer == b.buffer && tfm_tensor_count(a) > 0 && tfm_tensor_count(b) > 0 &&
           a.offset * size_a < (b.offset + tfm_tensor_count(b)) * size_b &&
           b.offset * size_b < (a.offset + tfm_tensor_count(a)) * size_a;
}

tfm_status tfm__op_no_overlap(tfm_context *ctx, const char *op, bool in_place, tfm_tensor out, size_t count,
                              const tfm_tensor *others) {
    for (size_t i = 0; i < count && out.buffer; i++) {
        const tfm_tensor x = others[i];
        const bool same =
            x.offset == out.offset && x.dtype == out.dtype && tfm_tensor_count(x) == tfm_tensor_count(out);
        if (x.buffer && tfm__overlap(out, x) && !(in_place && same))
            return tfm__op_error(ctx, op,
                                 "the output %s shares memory with an input or another output: give it separate memory",
                                 TFM__SHAPE(out));
    }
    return tfm_context_status(ctx);
}

int64_t tfm__last_dim(tfm_tensor x) {
    return x.rank > 0 ? x.dims[x.rank - 1] : 0;
}

int64_t tfm__row_count(tfm_tensor x) {
    return tfm__dims_before(x, x.rank - 1);
}

tfm_status tfm__op_axis(tfm_context *ctx, const char *op, int *axis, tfm_tensor x) {
    if (*axis < -x.rank || *axis >= x.rank)
        return tfm__op_error(ctx, op, "axis %d of %s: it must be from %d to %d", *axis, TFM__SHAPE(x), -x.rank,
                             x.rank - 1);
    if (*axis < 0)
        *axis += x.rank;
    return TFM_OK;
}

int64_t tfm__dims_before(tfm_tensor x, int axis) {
    int64_t count = 1;
    for (int i = 0; i < axis; i++)
        count *= x.dims[i];
    return count;
}

int64_t tfm__dims_from(tfm_tensor x, int axis) {
    int64_t count = 1;
    for (int i = axis; i < x.rank; i++)
        count *= x.dims[i];
    return count;
}

static tfm__grid grid_2d(int64_t groups, int group) {
    const int64_t widest = 32768;
    int64_t x = groups < widest ? groups : widest, y = (groups + x - 1) / (x ? x : 1);
    return TFM__GRID_2D((size_t)(x * group), (size_t)y, (size_t)group, 1);
}

tfm__grid tfm__row_grid(const tfm_context *ctx, int64_t rows) {
    return grid_2d(rows, tfm__context_tuning(ctx)->group);
}

int64_t tfm__column_blocks(const tfm_context *ctx, int64_t columns) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    return tfm__ceil_div(columns, (int64_t)tuning->width * tuning->group);
}

tfm__grid tfm__element_grid(const tfm_context *ctx, int64_t elements) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    int64_t per_group = (int64_t)tuning->chunk * tuning->group;
    return grid_2d(tfm__ceil_div(elements, per_group), tuning->group);
}

bool tfm__can_vec4(const tfm_context *ctx, size_t count, const tfm_tensor *tensors) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    size_t offsets = 0;
    for (size_t i = 0; i < count; i++)
        offsets |= tensors[i].offset;
    return tuning->class == TFM__CLASS_GPU && tuning->chunk == 1 && offsets % 4 == 0;
}

const char *tfm__vec4_define(bool vec4) {
    return vec4 ? " -DTFM_VEC4" : "";
}

tfm__grid tfm__vec4_grid(const tfm_context *ctx, int64_t elements, bool vec4) {
    return tfm__element_grid(ctx, vec4 ? tfm__ceil_div(elements, 4) : elements);
}

const char *tfm__load_dtype_define(tfm_dtype dtype) {
    return dtype == TFM_F16 ? " -DLOAD_DTYPE=1" : dtype == TFM_BF16 ? " -DLOAD_DTYPE=2" : "";
}

const char *tfm__store_dtype_define(tfm_dtype dtype) {
    return dtype == TFM_F16 ? " -DSTORE_DTYPE=1" : dtype == TFM_BF16 ? " -DSTORE_DTYPE=2" : "";
}

const char *tfm__saturating_store_define(tfm_dtype dtype) {
    return dtype == TFM_F16 ? " -DSTORE_DTYPE=1 -DSATURATE=1" : tfm__store_dtype_define(dtype);
}
