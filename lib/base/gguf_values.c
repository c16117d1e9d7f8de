/* Metadata of GGUF files: reading, and accessors. The table of tensor types. */
#include <string.h>
#include "base/gguf_read.h"

/* By the number of the format. Numbers without a name are types that were removed from the format. */
static const tfm__gguf_type_info TYPES[] = {
    [0] = {"F32", 1, 4},         [1] = {"F16", 1, 2},         [2] = {"Q4_0", 32, 18},      [3] = {"Q4_1", 32, 20},
    [6] = {"Q5_0", 32, 22},      [7] = {"Q5_1", 32, 24},      [8] = {"Q8_0", 32, 34},      [9] = {"Q8_1", 32, 36},
    [10] = {"Q2_K", 256, 84},    [11] = {"Q3_K", 256, 110},   [12] = {"Q4_K", 256, 144},   [13] = {"Q5_K", 256, 176},
    [14] = {"Q6_K", 256, 210},   [15] = {"Q8_K", 256, 292},   [16] = {"IQ2_XXS", 256, 66}, [17] = {"IQ2_XS", 256, 74},
    [18] = {"IQ3_XXS", 256, 98}, [19] = {"IQ1_S", 256, 50},   [20] = {"IQ4_NL", 32, 18},   [21] = {"IQ3_S", 256, 110},
    [22] = {"IQ2_S", 256, 82},   [23] = {"IQ4_XS", 256, 136}, [24] = {"I8", 1, 1},         [25] = {"I16", 1, 2},
    [26] = {"I32", 1, 4},        [27] = {"I64", 1, 8},        [28] = {"F64", 1, 8},        [29] = {"IQ1_M", 256, 56},
    [30] = {"BF16", 1, 2},       [34] = {"TQ1_0", 256, 54},   [35] = {"TQ2_0", 256, 66},   [39] = {"MXFP4", 32, 17},
    [40] = {"NVFP4", 64, 36},    [41] = {"Q1_0", 128, 18},
};

const tfm__gguf_type_info *tfm__gguf_type_get(uint32_t type) {
    return type < TFM__COUNT(TYPES) && TYPES[type].name ? &TYPES[type] : NULL;
}

enum { MAX_DEPTH = 4, MAX_KEY = 65535 };

/* ---- Reading ---- */

tfm_status tfm__gguf_damaged(const char *path, const char *what) {
    return tfm__fail(TFM_ERROR_FORMAT, "%s is damaged: %s; copy or download it again", path, what);
}

tfm_status tfm__gguf_truncated(const tfm__gguf_cursor *c) {
    return tfm__gguf_damaged(c->path, "it ends within its metadata");
}

bool tfm__gguf_take(tfm__gguf_cursor *c, void *out, size_t bytes) {
    if ((size_t)(c->end - c->at) < bytes)
        return false;
    memcpy(out, c->at, bytes);
    c->at += bytes;
    return true;
}

static bool take_text(tfm__gguf_cursor *c, tfm__gguf_text *out) {
    uint64_t bytes;
    if (!tfm__gguf_take(c, &bytes, sizeof(bytes)) || bytes > (uint64_t)(c->end - c->at))
        return false;
    *out = (tfm__gguf_text){(const char *)c->at, (size_t)bytes};
    c->at += bytes;
    return true;
}

tfm_status tfm__gguf_take_name(tfm__gguf_cursor *c, tfm__gguf_text *out, size_t limit, const char *what) {
    if (!take_text(c, out))
        return tfm__gguf_truncated(c);
    if (out->bytes == 0 || out->bytes > limit)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s is damaged: %s has %zu bytes, and 1 to %zu are allowed; download it again", c->path, what,
                         out->bytes, limit);
    for (size_t i = 0; i < out->bytes; i++)
        if ((unsigned char)out->data[i] < 0x20 || out->data[i] == 0x7f)
            return tfm__fail(TFM_ERROR_FORMAT, "%s is damaged: %s has a control character; download it again", c->path,
                             what);
    return TFM_OK;
}

/* Size of a kind of elements; 0 for strings and arrays. */
static size_t kind_size(tfm__gguf_kind kind) {
    static const unsigned char SIZES[TFM__GGUF_KINDS] = {
        [TFM__GGUF_UINT8] = 1,  [TFM__GGUF_INT8] = 1,  [TFM__GGUF_UINT16] = 2,  [TFM__GGUF_INT16] = 2,
        [TFM__GGUF_UINT32] = 4, [TFM__GGUF_INT32] = 4, [TFM__GGUF_FLOAT32] = 4, [TFM__GGUF_BOOL] = 1,
        [TFM__GGUF_UINT64] = 8, [TFM__GGUF_INT64] = 8, [TFM__GGUF_FLOAT64] = 8,
    };
    return SIZES[kind];
}

static tfm_status take_kind(tfm__gguf_cursor *c, tfm__gguf_kind *out) {
    uint32_t kind;
    if (!tfm__gguf_take(c, &kind, sizeof(kind)))
        return tfm__gguf_truncated(c);
    if (kind >= TFM__GGUF_KINDS)
        return tfm__gguf_damaged(c->path, "a metadata value has an unknown type");
    *out = (tfm__gguf_kind)kind;
    return TFM_OK;
}

/* Passes `count` strings; their offsets are recorded if `v` is an array of strings and not nested in another. */
static tfm_status skip_strings(tfm__gguf_cursor *c, uint64_t count, tfm__gguf_value *v) {
    const unsigned char *first = c->at;
    tfm__gguf_text text;
    size_t *offsets = NULL;
    if (count > (uint64_t)(c->end - c->at) / sizeof(uint64_t))
        return tfm__gguf_truncated(c);
    if (v && v->is_array && !(v->strings = offsets = tfm__alloc((size_t)count + 1, sizeof(*offsets))))
        return TFM_ERROR_MEMORY;
    for (uint64_t i = 0; i < count; i++) {
        if (offsets)
            offsets[i] = (size_t)(c->at - first);
        if (!take_text(c, &text))
            return tfm__gguf_truncated(c);
    }
    return TFM_OK;
}

static tfm_status skip_numbers(tfm__gguf_cursor *c, uint64_t count, size_t size) {
    if (count > (uint64_t)(c->end - c->at) / size)
        return tfm__gguf_truncated(c);
    c->at += count * size;
    return TFM_OK;
}

/* Passes arrays within an array. Recursive. */
static tfm_status skip_arrays(tfm__gguf_cursor *c, uint64_t count, int depth) {
    tfm_status status = depth > MAX_DEPTH ? tfm__gguf_damaged(c->path, "its arrays are nested too deeply") : TFM_OK;
    for (uint64_t i = 0; i < count && status == TFM_OK; i++) {
        tfm__gguf_kind kind = TFM__GGUF_UINT8;
        uint64_t inner = 0;
        status = take_kind(c, &kind);
        if (status == TFM_OK && !tfm__gguf_take(c, &inner, sizeof(inner)))
            status = tfm__gguf_truncated(c);
        if (status == TFM_OK)
            status = kind == TFM__GGUF_ARRAY    ? skip_arrays(c, inner, depth + 1)
                     : kind == TFM__GGUF_STRING ? skip_strings(c, inner, NULL)
                                                : skip_numbers(c, inner, kind_size(kind));
    }
    return status;
}

static tfm_status take_value(tfm__gguf_cursor *c, tfm__gguf_value *v) {
    uint64_t count = 1;
    tfm_status status = tfm__gguf_take_name(c, &v->key, MAX_KEY, "a metadata key");
    if (status == TFM_OK)
        status = take_kind(c, &v->kind);
    if (status != TFM_OK)
        return status;
    v->is_array = v->kind == TFM__GGUF_ARRAY;
    if (v->is_array) {
        status = take_kind(c, &v->kind);
        if (status == TFM_OK && !tfm__gguf_take(c, &count, sizeof(count)))
            status = tfm__gguf_truncated(c);
    }
    v->data = c->at;
    if (status == TFM_OK)
        status = v->kind == TFM__GGUF_ARRAY    ? skip_arrays(c, count, 1)
                 : v->kind == TFM__GGUF_STRING ? skip_strings(c, count, v)
                                               : skip_numbers(c, count, kind_size(v->kind));
    v->count = (size_t)count;
    return status;
}

static int compare_texts(tfm__gguf_text a, tfm__gguf_text b) {
    const size_t bytes = a.bytes < b.bytes ? a.bytes : b.bytes;
    const int order = bytes ? memcmp(a.data, b.data, bytes) : 0;
    return order ? order : a.bytes < b.bytes ? -1 : a.bytes > b.bytes;
}

static int by_key(const void *a, const void *b) {
    return compare_texts(((const tfm__gguf_value *)a)->key, ((const tfm__gguf_value *)b)->key);
}

const tfm__gguf_value *tfm__gguf_metadata_find(const tfm__gguf_metadata *all, const char *key) {
    const tfm__gguf_value wanted = {.key = {key, strlen(key)}};
    return all->count ? bsearch(&wanted, all->items, all->count, sizeof(wanted), by_key) : NULL;
}

void tfm__gguf_metadata_free(tfm__gguf_metadata *all) {
    for (size_t i = 0; i < all->count; i++)
        free((void *)(uintptr_t)all->items[i].strings);
    free(all->items);
    *all = (tfm__gguf_metadata){0};
}

tfm_status tfm__gguf_metadata_read(tfm__gguf_cursor *c, tfm__gguf_metadata *out, uint64_t count) {
    tfm_status status = TFM_OK;
    for (uint64_t i = 0; i < count && status == TFM_OK; i++) {
        status = tfm__grow(&out->items, &out->room, out->count + 1, sizeof(*out->items));
        if (status == TFM_OK) {
            out->items[out->count] = (tfm__gguf_value){0};
            status = take_value(c, &out->items[out->count++]); /* counted also after a failure, to be freed */
        }
    }
    if (status == TFM_OK && out->count > 0)
        qsort(out->items, out->count, sizeof(*out->items), by_key);
    for (size_t i = 1; i < out->count && status == TFM_OK; i++)
        if (by_key(&out->items[i - 1], &out->items[i]) == 0)
            status = tfm__gguf_damaged(c->path, "a metadata key occurs twice");
    if (status != TFM_OK)
        tfm__gguf_metadata_free(out);
    return status;
}

/* ---- Elements of a value ---- */

/* An integer as sign and magnitude, or false for another kind. */
static bool read_integer(bool *negative, uint64_t *magnitude, const tfm__gguf_value *v, size_t i) {
    int64_t value = 0;
    uint64_t word = 0;
    if (!v || i >= v->count)
        return false;
#define READ(type, to)                                                                                                 \
    do {                                                                                                               \
        type x;                                                                                                        \
        memcpy(&x, v->data + i * sizeof(x), sizeof(x));                                                                \
        (to) = x;                                                                                                      \
    } while (0)
    switch (v->kind) {
    case TFM__GGUF_UINT8:
        READ(uint8_t, word);
        break;
    case TFM__GGUF_UINT16:
        READ(uint16_t, word);
        break;
    case TFM__GGUF_UINT32:
        READ(uint32_t, word);
        break;
    case TFM__GGUF_UINT64:
        READ(uint64_t, word);
        break;
    case TFM__GGUF_INT8:
        READ(int8_t, value);
        break;
    case TFM__GGUF_INT16:
        READ(int16_t, value);
        break;
    case TFM__GGUF_INT32:
        READ(int32_t, value);
        break;
    case TFM__GGUF_INT64:
        READ(int64_t, value);
        break;
    default:
        return false;
    }
#undef READ
    *negative = value < 0;
    *magnitude = value < 0 ? 0 - (uint64_t)value : value > 0 ? (uint64_t)value : word;
    return true;
}

bool tfm__gguf_u64(uint64_t *out, const tfm__gguf_value *v, size_t i) {
    bool negative;
    uint64_t magnitude;
    if (!read_integer(&negative, &magnitude, v, i) || negative)
        return false;
    *out = magnitude;
    return true;
}

bool tfm__gguf_i64(int64_t *out, const tfm__gguf_value *v, size_t i) {
    bool negative;
    uint64_t magnitude;
    if (!read_integer(&negative, &magnitude, v, i) || (!negative && magnitude > INT64_MAX))
        return false;
    *out = (int64_t)(negative ? 0 - magnitude : magnitude);
    return true;
}

bool tfm__gguf_f64(double *out, const tfm__gguf_value *v, size_t i) {
    bool negative;
    uint64_t magnitude;
    if (read_integer(&negative, &magnitude, v, i)) {
        *out = negative ? -(double)magnitude : (double)magnitude;
        return true;
    }
    if (!v || i >= v->count || (v->kind != TFM__GGUF_FLOAT32 && v->kind != TFM__GGUF_FLOAT64))
        return false;
    float single;
    if (v->kind == TFM__GGUF_FLOAT64) {
        memcpy(out, v->data + i * sizeof(*out), sizeof(*out));
    } else {
        memcpy(&single, v->data + i * sizeof(single), sizeof(single));
        *out = (double)single;
    }
    return true;
}

bool tfm__gguf_bool(bool *out, const tfm__gguf_value *v, size_t i) {
    if (!v || i >= v->count || v->kind != TFM__GGUF_BOOL || v->data[i] > 1)
        return false;
    *out = v->data[i] == 1;
    return true;
}

bool tfm__gguf_string(tfm__gguf_text *out, const tfm__gguf_value *v, size_t i) {
    uint64_t bytes;
    if (!v || i >= v->count || v->kind != TFM__GGUF_STRING)
        return false;
    const unsigned char *at = v->data + (v->strings ? v->strings[i] : 0);
    memcpy(&bytes, at, sizeof(bytes));
    *out = (tfm__gguf_text){(const char *)at + sizeof(bytes), (size_t)bytes};
    return true;
}

bool tfm__gguf_is(const tfm__gguf_value *v, size_t i, const char *text) {
    tfm__gguf_text found;
    return tfm__gguf_string(&found, v, i) && found.bytes == strlen(text) && memcmp(found.data, text, found.bytes) == 0;
}
