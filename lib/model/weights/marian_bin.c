/* Marian's binary format, version 1: headers of four numbers, names, shapes, then the data of each tensor, all
 * little-endian.
 *
 * Matrices quantized for intgemm store int8 or int16 values q, followed by one multiplier m per matrix: w = q / m.
 * Such a matrix of shape (inputs, outputs) is stored transposed, as (outputs, inputs), except embedding tables. They
 * are dequantized here, in the order of their shape. https://github.com/browsermt/marian-dev: src/common/binary.cpp,
 * src/tensors/cpu/expression_graph_packable.h. */
#include <math.h>
#include <string.h>
#include "model/weights/weight_reader.h"

enum { VERSION = 1, HEADER = 32, MAX_DIMS = 16, ALIGNMENT = 256 };

/* Type codes of tensors. */
enum { INTGEMM8 = 0x4101, INTGEMM16 = 0x4102 };

/* Data owned by the tensors of a file. */
typedef struct bin {
    float *values;  /* of the quantized tensors */
    char *metadata; /* Marian's configuration, or NULL */
} bin;

/* Parser state. Each part starts at the end of the previous one. */
typedef struct reader {
    tfm__weights_file *file;
    bin *own;
    const unsigned char *headers; /* [count] of HEADER bytes */
    uint64_t count;
    size_t at;        /* current offset */
    float *next_free; /* in own->values */
} reader;

static uint64_t number(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    while (bytes-- > 0)
        value = value << 8 | at[bytes];
    return value;
}

static tfm_status damaged(const char *path, const char *what) {
    return tfm__fail(TFM_ERROR_FORMAT, "%s is a damaged model of Marian: %s; copy or download it again", path, what);
}

/* The next `bytes`, or NULL with a message if the file is shorter. */
static const unsigned char *take(reader *r, uint64_t bytes, const char *what) {
    const tfm__file *map = &r->file->map;
    if (bytes > map->size - r->at) {
        tfm__fail(TFM_ERROR_FORMAT, "%s ends within %s, so it was truncated: copy or download it again", r->file->path,
                  what);
        return NULL;
    }
    const unsigned char *out = map->data + r->at;
    r->at += (size_t)bytes;
    return out;
}

/* ---- Types -------------------------------------------------------------------------------------------- */

static const struct {
    uint64_t type;
    const char *name;
} TYPES[] = {
    {0x404, "F32"}, {0x402, "F16"}, {0x408, "F64"}, {0x101, "I8"},  {0x102, "I16"}, {0x104, "I32"},
    {0x108, "I64"}, {0x201, "U8"},  {0x202, "U16"}, {0x204, "U32"}, {0x208, "U64"},
};

static const char *dtype_of(uint64_t type) {
    for (size_t i = 0; i < TFM__COUNT(TYPES); i++)
        if (TYPES[i].type == type)
            return TYPES[i].name;
    return NULL;
}

/* Element size of a quantized type in the file, or 0 if it is not quantized. */
static size_t quantized(uint64_t type) {
    return type == INTGEMM8 ? 1 : type == INTGEMM16 ? 2 : 0;
}

static tfm_status check_type(const reader *r, const tfm__stored_tensor *x, uint64_t type) {
    if (dtype_of(type) || quantized(type))
        return TFM_OK;
    const bool packed = (type & 0xf800) != 0 && type <= 0xffff;
    return tfm__fail(packed ? TFM_ERROR_UNSUPPORTED : TFM_ERROR_FORMAT,
                     packed ? "%s: tensor %s is packed for one processor type (type 0x%llx): convert the model with "
                              "marian-conv to intgemm8 or float32"
                            : "%s: tensor %s has an unknown type (0x%llx): copy or download the file again",
                     r->file->path, x->name, (unsigned long long)type);
}

/* ---- Quantized tensors -------------------------------------------------------------------------------- */

static float value_at(const unsigned char *data, size_t index, size_t size) {
    return size == 1 ? (float)(int8_t)data[index] : (float)(int16_t)number(data + 2 * index, 2);
}

/* Dequantizes the tensor to r->next_free, and advances that. */
static tfm_status dequantize(reader *r, tfm__stored_tensor *x, size_t size) {
    const unsigned char *data = x->data;
    uint32_t bits = (uint32_t)number(data + x->count * size, 4);
    float multiplier, *out = r->next_free;
    memcpy(&multiplier, &bits, sizeof(multiplier));
    if (!isfinite(multiplier) || !isnormal(1 / multiplier) || multiplier < 0)
        return tfm__fail(
            TFM_ERROR_FORMAT,
            "%s: the multiplier of the quantized tensor %s is not positive: copy or download the file again", x->file,
            x->name);
    const float unit = 1 / multiplier;
    const bool turned = x->rank >= 2 && !strstr(x->name, "Wemb");
    const size_t outputs = turned ? (size_t)x->dims[x->rank - 1] : 1, inputs = outputs ? x->count / outputs : 0;
    for (size_t i = 0; i < inputs; i++)
        for (size_t k = 0; k < outputs; k++)
            out[i * outputs + k] = unit * value_at(data, k * inputs + i, size);
    x->data = (const unsigned char *)out;
    x->bytes = x->count * sizeof(*out);
    x->encoding = size == 1 ? "int8" : "int16";
    x->unit = size == 1 ? unit : 0;
    r->next_free += x->count;
    return tfm__stored_set_dtype(x, "F32");
}

/* ---- Parts of the file -------------------------------------------------------------------------------- */

static tfm_status read_names(reader *r) {
    for (uint64_t i = 0; i < r->count; i++) {
        const uint64_t bytes = number(r->headers + i * HEADER, 8);
        const char *name = (const char *)take(r, bytes, "the names of its tensors");
        if (!name)
            return TFM_ERROR_FORMAT;
        if (bytes == 0 || memchr(name, '\0', (size_t)bytes) != name + bytes - 1)
            return damaged(r->file->path, "a tensor's name does not end where its header says");
        tfm_status status = tfm__stored_check_name(name, (size_t)bytes - 1, r->file->path);
        if (status != TFM_OK)
            return status;
        r->file->tensors[i] = (tfm__stored_tensor){.name = name, .file = r->file->path, .dtype = TFM_U8};
    }
    return TFM_OK;
}

static tfm_status read_shapes(reader *r) {
    for (uint64_t i = 0; i < r->count; i++) {
        tfm__stored_tensor *x = &r->file->tensors[i];
        const uint64_t rank = number(r->headers + i * HEADER + 16, 8);
        if (rank > MAX_DIMS)
            return damaged(r->file->path, "a tensor has more than 16 dimensions");
        const unsigned char *dims = take(r, 4 * rank, "the shapes of its tensors");
        if (!dims)
            return TFM_ERROR_FORMAT;
        x->rank = (int)rank;
        x->count = 1;
        for (int k = 0; k < x->rank; k++) {
            const uint64_t dim = number(dims + 4 * k, 4);
            if (dim > INT32_MAX || __builtin_mul_overflow(x->count, (size_t)dim, &x->count))
                return damaged(r->file->path, "a tensor has an impossible shape");
            if (k < TFM_MAX_RANK)
                x->dims[k] = (int64_t)dim;
        }
    }
    return TFM_OK;
}

/* Finds each tensor's data. Padding is less than one unit of alignment. */
static tfm_status read_places(reader *r, size_t *quantized_count) {
    *quantized_count = 0;
    for (uint64_t i = 0; i < r->count; i++) {
        tfm__stored_tensor *x = &r->file->tensors[i];
        const uint64_t type = number(r->headers + i * HEADER + 8, 8), bytes = number(r->headers + i * HEADER + 24, 8);
        tfm_status status = check_type(r, x, type);
        if (status != TFM_OK)
            return status;
        const size_t coded = quantized(type), size = coded ? coded : tfm__stored_element(dtype_of(type));
        size_t needed;
        x->data = take(r, bytes, "the data of its tensors");
        if (!x->data)
            return TFM_ERROR_FORMAT;
        if (__builtin_mul_overflow(x->count, size, &needed) ||
            __builtin_add_overflow(needed, coded ? sizeof(float) : 0, &needed) || needed > bytes ||
            bytes - needed >= ALIGNMENT)
            return tfm__fail(
                TFM_ERROR_FORMAT,
                "%s: tensor %s has %llu bytes, which do not fit its shape: copy or download the file again", x->file,
                x->name, (unsigned long long)bytes);
        x->bytes = x->count * size;
        *quantized_count += coded ? x->count : 0;
    }
    return r->at == r->file->map.size ? TFM_OK : damaged(r->file->path, "there are bytes after its last tensor");
}

static tfm_status read_numbers(reader *r, size_t quantized_count) {
    tfm__weights_file *file = r->file;
    r->next_free = r->own->values = tfm__alloc(quantized_count + 1, sizeof(float));
    if (!r->own->values)
        return TFM_ERROR_MEMORY;
    for (uint64_t i = 0; i < r->count; i++) {
        tfm__stored_tensor x = file->tensors[i];
        const uint64_t type = number(r->headers + i * HEADER + 8, 8);
        tfm_status status =
            quantized(type) ? dequantize(r, &x, quantized(type)) : tfm__stored_set_dtype(&x, dtype_of(type));
        if (status == TFM_OK && strcmp(x.name, TFM__MARIAN_CONFIG) == 0) {
            status = r->own->metadata ? damaged(file->path, "it has two configurations")
                                      : tfm__stored_text(&r->own->metadata, &x);
        } else if (status == TFM_OK) {
            file->tensors[file->count++] = x;
        }
        if (status != TFM_OK)
            return status;
    }
    return TFM_OK;
}

/* ---- The file ----------------------------------------------------------------------------------------- */

static bool recognizes(const tfm__file *map) {
    return map->size >= 16 && number(map->data, 8) == VERSION;
}

static tfm_status read_parts(reader *r) {
    const char *path = r->file->path;
    const unsigned char *start = take(r, 16, "its first numbers"), *gap;
    if (!start)
        return TFM_ERROR_FORMAT;
    if (number(start, 8) != VERSION)
        return tfm__fail(
            TFM_ERROR_UNSUPPORTED,
            "%s is not in version 1 of Marian's binary format: convert it with marian-conv, or download it again",
            path);
    r->count = number(start + 8, 8);
    if (r->count > (r->file->map.size - r->at) / HEADER)
        return damaged(path, "it has fewer headers than it says, so it was truncated");
    r->headers = take(r, r->count * HEADER, "its headers");
    r->file->tensors = tfm__alloc((size_t)r->count + 1, sizeof(*r->file->tensors));
    if (!r->file->tensors)
        return TFM_ERROR_MEMORY;
    size_t quantized_count;
    tfm_status status = read_names(r);
    if (status == TFM_OK)
        status = read_shapes(r);
    gap = status == TFM_OK ? take(r, 8, "the padding before its data") : NULL;
    if (status == TFM_OK && (!gap || !take(r, number(gap, 8), "the padding before its data")))
        status = TFM_ERROR_FORMAT;
    if (status == TFM_OK)
        status = read_places(r, &quantized_count);
    return status == TFM_OK ? read_numbers(r, quantized_count) : status;
}

static tfm_status read_file(tfm__weights_file *file) {
    reader r = {.file = file, .own = tfm__alloc(1, sizeof(bin))};
    file->own = r.own;
    tfm_status status = r.own ? tfm__weights_check_text(file) : TFM_ERROR_MEMORY;
    return status == TFM_OK ? read_parts(&r) : status;
}

static void release(tfm__weights_file *file) {
    bin *own = file->own;
    if (!own)
        return;
    free(own->values);
    free(own->metadata);
    free(own);
}

static const char *metadata(const tfm__weights_file *file, const char *name) {
    return strcmp(name, TFM__MARIAN_CONFIG) == 0 ? ((const bin *)file->own)->metadata : NULL;
}

const tfm__weights_reader tfm__marian_bin_reader = {
    .kind = "Marian .bin",
    .suffix = ".bin",
    .recognizes = recognizes,
    .read = read_file,
    .release = release,
    .metadata = metadata,
};
