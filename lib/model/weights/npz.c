/* NumPy's .npz, used by Marian for models: a zip archive with one .npy per tensor, and Marian's configuration as bytes.
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#include <string.h>
#include "model/weights/weight_reader.h"
#include "model/weights/zip.h"

static const char SUFFIX[] = ".npy";

/* Data owned by the tensors of a file. */
typedef struct npz {
    char *names;    /* concatenated, NUL-terminated */
    char *metadata; /* Marian's configuration, or NULL */
} npz;

/* ---- The header of a .npy ----------------------------------------------------------------------------- */

/* A dict literal: "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }". */
typedef struct cursor {
    const char *at, *end;
} cursor;

typedef struct words {
    const char *text;
    size_t bytes;
} words;

static void skip_blanks(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n'))
        c->at++;
}

static bool take(cursor *c, char sign) {
    skip_blanks(c);
    if (c->at == c->end || *c->at != sign)
        return false;
    c->at++;
    return true;
}

static bool take_word(cursor *c, const char *word) {
    const size_t bytes = strlen(word);
    skip_blanks(c);
    if ((size_t)(c->end - c->at) < bytes || memcmp(c->at, word, bytes) != 0)
        return false;
    c->at += bytes;
    return true;
}

static bool take_text(cursor *c, words *out) {
    const char quote = take(c, '\'') ? '\'' : take(c, '"') ? '"' : 0;
    const char *end = quote && c->at < c->end ? memchr(c->at, quote, (size_t)(c->end - c->at)) : NULL;
    if (!end)
        return false;
    *out = (words){c->at, (size_t)(end - c->at)};
    c->at = end + 1;
    return true;
}

/* Python 2 appends an L to some integers. */
static bool take_size(cursor *c, int64_t *out) {
    skip_blanks(c);
    const char *first = c->at;
    bool fits = true;
    *out = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        fits = fits && !__builtin_mul_overflow(*out, 10, out) && !__builtin_add_overflow(*out, *c->at - '0', out);
    return fits && c->at != first && (take(c, 'L') || true);
}

static bool take_shape(cursor *c, tfm__stored_tensor *out) {
    bool zero = false, overflow = false;
    if (!take(c, '('))
        return false;
    out->rank = 0;
    out->count = 1;
    for (bool more = true; !take(c, ')');) {
        int64_t size;
        if (!more || out->rank == 64 || !take_size(c, &size))
            return false;
        if (out->rank < TFM_MAX_RANK)
            out->dims[out->rank] = size;
        out->rank++;
        zero |= size == 0;
        overflow |= __builtin_mul_overflow(out->count, (size_t)size, &out->count);
        more = take(c, ',');
    }
    out->count = zero ? 0 : out->count;
    return zero || !overflow;
}

static bool is(words key, const char *name) {
    return key.bytes == strlen(name) && memcmp(key.text, name, key.bytes) == 0;
}

/* Parses the header; false if it is not valid. */
static bool take_header(cursor *c, tfm__stored_tensor *out, words *descr, bool *fortran) {
    enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
    int seen = 0;
    words key;
    if (!take(c, '{'))
        return false;
    for (bool more = true; !take(c, '}');) {
        if (!more || !take_text(c, &key) || !take(c, ':'))
            return false;
        const int which = is(key, "descr") ? DESCR : is(key, "fortran_order") ? ORDER : is(key, "shape") ? SHAPE : 0;
        const bool good = which == DESCR ? take_text(c, descr)
                          : which == SHAPE
                              ? take_shape(c, out)
                              : which == ORDER && ((*fortran = take_word(c, "True")) || take_word(c, "False"));
        if (!good || (seen & which))
            return false;
        seen |= which;
        more = take(c, ',');
    }
    skip_blanks(c);
    return seen == (DESCR | ORDER | SHAPE) && c->at == c->end;
}

/* ---- A tensor ----------------------------------------------------------------------------------------- */

/* The dtype in safetensors' spelling, from NumPy's, such as "<f4". */
static tfm_status set_dtype(tfm__stored_tensor *out, words descr) {
    static const char *const NAMES[][2] = {{"f4", "F32"}, {"f2", "F16"},  {"f8", "F64"}, {"i1", "I8"},
                                           {"u1", "U8"},  {"b1", "BOOL"}, {"i2", "I16"}, {"u2", "U16"},
                                           {"i4", "I32"}, {"u4", "U32"},  {"i8", "I64"}, {"u8", "U64"}};
    for (size_t i = 0; descr.bytes == 3 && i < TFM__COUNT(NAMES); i++) {
        if (memcmp(descr.text + 1, NAMES[i][0], 2) != 0)
            continue;
        if (descr.text[0] == '<' || descr.text[2] == '1')
            return tfm__stored_set_dtype(out, NAMES[i][1]);
        if (descr.text[0] == '>')
            return tfm__fail(TFM_ERROR_UNSUPPORTED,
                             "%s: tensor %s is big-endian: load the file with NumPy, and save it little-endian",
                             out->file, out->name);
    }
    return tfm__fail(TFM_ERROR_UNSUPPORTED,
                     "%s: tensor %s has NumPy's dtype '%.*s': only plain numbers and booleans are supported", out->file,
                     out->name, descr.bytes < 32 ? (int)descr.bytes : 32, descr.text);
}

/* Finds the header and the data of a .npy. */
static tfm_status read_npy(tfm__stored_tensor *out, const unsigned char *data, size_t size) {
    static const unsigned char MAGIC[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    words descr = {0};
    bool fortran = false;
    if (size < 12 || memcmp(data, MAGIC, sizeof(MAGIC)) != 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s is not a NumPy array: copy or download the file again",
                         out->file, out->name);
    const int version = data[6];
    const size_t begin = version == 1 ? 10 : 12;
    size_t length = (size_t)data[8] | (size_t)data[9] << 8;
    if (version > 1)
        length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    if (version < 1 || version > 3)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: tensor %s is in version %d of NumPy's format: 1 to 3 are supported", out->file, out->name,
                         version);
    cursor c = {(const char *)data + begin, (const char *)data + begin + length};
    if (length > size - begin || !take_header(&c, out, &descr, &fortran))
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: tensor %s has a header that is not as NumPy writes it for plain numbers: copy or "
                         "download the file again",
                         out->file, out->name);
    if (fortran && out->rank > 1)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: tensor %s is stored column by column (fortran_order): load it with NumPy, and save it as "
                         "numpy.ascontiguousarray gives it",
                         out->file, out->name);
    out->data = data + begin + length;
    out->bytes = size - begin - length;
    return set_dtype(out, descr);
}

/* ---- The archive -------------------------------------------------------------------------------------- */

static tfm_status read_entry(tfm__weights_file *file, npz *own, const tfm__zip_entry *entry, char *name) {
    const size_t bytes = entry->name_bytes - (sizeof(SUFFIX) - 1);
    tfm_status status = tfm__stored_check_name(entry->name, bytes, file->path);
    if (status != TFM_OK)
        return status;
    memcpy(name, entry->name, bytes);
    if (!entry->stored)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: tensor %s is compressed or encrypted: load the file with NumPy, and save it with "
                         "numpy.savez, which does not compress",
                         file->path, name);
    tfm__stored_tensor *out = &file->tensors[file->count];
    *out = (tfm__stored_tensor){.name = name, .file = file->path, .dtype = TFM_U8};
    status = read_npy(out, entry->data, entry->bytes);
    if (status != TFM_OK)
        return status;
    if (strcmp(name, TFM__MARIAN_CONFIG) != 0)
        file->count++;
    else
        status = tfm__stored_text(&own->metadata, out);
    return status;
}

static bool is_npy(const tfm__zip_entry *e) {
    const size_t bytes = sizeof(SUFFIX) - 1;
    return e->name_bytes > bytes && memcmp(e->name + e->name_bytes - bytes, SUFFIX, bytes) == 0;
}

static tfm_status read_entries(tfm__weights_file *file, npz *own, const tfm__zip *zip) {
    size_t bytes = 0, used = 0;
    for (size_t i = 0; i < zip->count; i++)
        bytes += is_npy(&zip->entries[i]) ? zip->entries[i].name_bytes : 0; /* the suffix leaves room for the NUL */
    own->names = tfm__alloc(bytes + 1, 1);
    file->tensors = tfm__alloc(zip->count + 1, sizeof(*file->tensors));
    tfm_status status = own->names && file->tensors ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < zip->count && status == TFM_OK; i++) {
        if (!is_npy(&zip->entries[i]))
            continue;
        status = read_entry(file, own, &zip->entries[i], own->names + used);
        used += zip->entries[i].name_bytes;
    }
    return status;
}

static tfm_status read_file(tfm__weights_file *file) {
    tfm__zip zip = {0};
    npz *own = tfm__alloc(1, sizeof(*own));
    file->own = own;
    tfm_status status = own ? tfm__weights_check_text(file) : TFM_ERROR_MEMORY;
    if (status == TFM_OK && !tfm__zip_is_archive(file->map.data, file->map.size))
        status = tfm__fail(TFM_ERROR_FORMAT, "%s is not a NumPy .npz, which is a zip archive: download it again",
                           file->path);
    if (status == TFM_OK)
        status = tfm__zip_open(&zip, file->map.data, file->map.size, file->path);
    if (status == TFM_OK)
        status = read_entries(file, own, &zip);
    tfm__zip_close(&zip);
    return status;
}

static void release(tfm__weights_file *file) {
    npz *own = file->own;
    if (!own)
        return;
    free(own->names);
    free(own->metadata);
    free(own);
}

static const char *metadata(const tfm__weights_file *file, const char *name) {
    return strcmp(name, TFM__MARIAN_CONFIG) == 0 ? ((const npz *)file->own)->metadata : NULL;
}

const tfm__weights_reader tfm__npz_reader = {
    .kind = "NumPy .npz",
    .suffix = ".npz",
    .read = read_file,
    .release = release,
    .metadata = metadata,
};
