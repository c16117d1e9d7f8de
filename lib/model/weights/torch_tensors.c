#include "model/weights/torch_tensors.h"
#include <string.h>

/* ---- Accepted names ----------------------------------------------------------------------------------- */

enum { ORDERED_DICT, REBUILD_TENSOR, REBUILD_TENSOR_2, REBUILD_PARAMETER, STORAGES };
enum { STORAGE = 1, VIEW = 2 }; /* tags of values */

static const struct {
    const char *module, *name;
    const char *dtype; /* of a storage, from STORAGES on */
} GLOBALS[] = {
    [ORDERED_DICT] = {"collections", "OrderedDict", NULL},
    [REBUILD_TENSOR] = {"torch._utils", "_rebuild_tensor", NULL},
    [REBUILD_TENSOR_2] = {"torch._utils", "_rebuild_tensor_v2", NULL},
    [REBUILD_PARAMETER] = {"torch._utils", "_rebuild_parameter", NULL},
    [STORAGES] = {"torch", "FloatStorage", "F32"},
    {"torch", "HalfStorage", "F16"},
    {"torch", "BFloat16Storage", "BF16"},
    {"torch", "DoubleStorage", "F64"},
    {"torch", "LongStorage", "I64"},
    {"torch", "IntStorage", "I32"},
    {"torch", "ShortStorage", "I16"},
    {"torch", "CharStorage", "I8"},
    {"torch", "ByteStorage", "U8"},
    {"torch", "BoolStorage", "BOOL"},
    {"torch", "ComplexFloatStorage", "C64"},
    {"torch", "ComplexDoubleStorage", "C128"},
};

static bool is(const char *text, const char *other, size_t bytes) {
    return strlen(text) == bytes && memcmp(text, other, bytes) == 0;
}

/* The text for a message, truncated to 64 bytes. */
static const char *shown(char out[64], const char *text, size_t bytes) {
    const size_t length = bytes < 63 ? bytes : 63;
    for (size_t i = 0; i < length; i++)
        out[i] = (char)(text[i] > 0x20 && text[i] < 0x7f ? text[i] : '?');
    out[length] = 0;
    return out;
}

static tfm_status find_class(void *user, int64_t *out, const char *module, size_t module_bytes, const char *name,
                             size_t name_bytes) {
    const tfm__torch *t = user;
    for (size_t i = 0; i < TFM__COUNT(GLOBALS); i++) {
        if (is(GLOBALS[i].module, module, module_bytes) && is(GLOBALS[i].name, name, name_bytes)) {
            *out = (int64_t)i;
            return TFM_OK;
        }
    }
    return tfm__fail(TFM_ERROR_UNSUPPORTED,
                     "%s refers to `%s.%s` of Python: only plain tensors are loaded, and no code is run; save the "
                     "model's state_dict(), or as safetensors",
                     t->path, shown((char[64]){0}, module, module_bytes), shown((char[64]){0}, name, name_bytes));
}

/* ---- Storages ----------------------------------------------------------------------------------------- */

static tfm_status damaged(const tfm__torch *t, const char *what) {
    return tfm__fail(TFM_ERROR_FORMAT, "%s is damaged: %s; copy or download it again", t->path, what);
}

static tfm_status add_own(tfm__pickle *pickle, const tfm__pickle_value **out, int tag, size_t index) {
    tfm__pickle_value *value = tfm__pickle_new(pickle, TFM__PICKLE_OBJECT);
    if (!value)
        return TFM_ERROR_MEMORY;
    value->tag = tag;
    value->number = (int64_t)index;
    *out = value;
    return TFM_OK;
}

/* A storage's persistent id: ("storage", type, key, device, number of elements), in old files followed by None, or in
 * very old ones by a view of another storage. */
static tfm_status persistent_load(void *user, tfm__pickle *pickle, const tfm__pickle_value **out,
                                  const tfm__pickle_value *id) {
    tfm__torch *t = user;
    const tfm__pickle_value *const *part = id->items;
    const bool good = id->kind == TFM__PICKLE_TUPLE && (id->count == 5 || id->count == 6) &&
                      tfm__pickle_is(part[0], "storage") && part[1]->kind == TFM__PICKLE_GLOBAL &&
                      part[1]->number >= STORAGES && part[2]->kind == TFM__PICKLE_TEXT &&
                      part[3]->kind == TFM__PICKLE_TEXT && part[4]->kind == TFM__PICKLE_INT && part[4]->number >= 0;
    if (!good)
        return damaged(t, "it has a persistent id that is not a storage");
    if (id->count == 6 && part[5]->kind != TFM__PICKLE_NONE)
        return tfm__fail(
            TFM_ERROR_UNSUPPORTED,
            "%s has storages within storages, as early versions of PyTorch wrote them: load it and save it again",
            t->path);
    tfm__torch_storage s = {.key = part[2]->text, .key_bytes = part[2]->bytes, .dtype = GLOBALS[part[1]->number].dtype};
    if (tfm__stored_check_name(s.key, s.key_bytes, t->path) != TFM_OK)
        return TFM_ERROR_FORMAT;
    if (__builtin_mul_overflow((uint64_t)part[4]->number, tfm__stored_element(s.dtype), &s.bytes))
        return damaged(t, "a storage is larger than all memory");
    if (tfm__grow(&t->storages, &t->storage_room, t->storage_count + 1, sizeof(s)) != TFM_OK)
        return TFM_ERROR_MEMORY;
    t->storages[t->storage_count] = s;
    return add_own(pickle, out, STORAGE, t->storage_count++);
}

/* ---- Tensors ------------------------------------------------------------------------------------------ */

static bool is_sizes(const tfm__pickle_value *v) {
    bool good = v->kind == TFM__PICKLE_TUPLE && v->count <= 64;
    for (size_t i = 0; good && i < v->count; i++)
        good = v->items[i]->kind == TFM__PICKLE_INT && v->items[i]->number >= 0;
    return good;
}

static bool is_empty_dict(const tfm__pickle_value *v) {
    return v->kind == TFM__PICKLE_NONE || (v->kind == TFM__PICKLE_DICT && v->count == 0);
}

/* (storage, offset, size, stride); version 2 adds requires_grad, hooks and metadata. */
static tfm_status make_view(tfm__torch *t, tfm__pickle *pickle, const tfm__pickle_value **out, bool second,
                            const tfm__pickle_value *a) {
    const size_t least = second ? 6 : 4, most = second ? 7 : 4;
    const bool good = a->count >= least && a->count <= most && a->items[0]->kind == TFM__PICKLE_OBJECT &&
                      a->items[0]->tag == STORAGE && a->items[1]->kind == TFM__PICKLE_INT && a->items[1]->number >= 0 &&
                      is_sizes(a->items[2]) && is_sizes(a->items[3]) && a->items[2]->count == a->items[3]->count;
    if (!good)
        return damaged(t, "a tensor has no storage or no sizes");
    if (second && (!is_empty_dict(a->items[5]) || (a->count == 7 && !is_empty_dict(a->items[6]))))
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s has a tensor with hooks, or one that is conjugated or negated as it is read: save plain "
                         "tensors",
                         t->path);
    if (tfm__grow(&t->views, &t->view_room, t->view_count + 1, sizeof(*t->views)) != TFM_OK)
        return TFM_ERROR_MEMORY;
    t->views[t->view_count] = (tfm__torch_view){.storage = (size_t)a->items[0]->number,
                                                .offset = a->items[1]->number,
                                                .size = a->items[2],
                                                .stride = a->items[3]};
    return add_own(pickle, out, VIEW, t->view_count++);
}

static tfm_status call(void *user, tfm__pickle *pickle, const tfm__pickle_value **out, int64_t global,
                       const tfm__pickle_value *arguments) {
    tfm__torch *t = user;
    switch (global) {
    case ORDERED_DICT:
        if (arguments->count != 0)
            return damaged(t, "a new dict is not empty");
        *out = tfm__pickle_new(pickle, TFM__PICKLE_DICT);
        return TFM_OK; /* the pickle detects the NULL */
    case REBUILD_TENSOR:
    case REBUILD_TENSOR_2:
        return make_view(t, pickle, out, global == REBUILD_TENSOR_2, arguments);
    case REBUILD_PARAMETER: /* (tensor, requires_grad, hooks) */
        if (arguments->count != 3 || arguments->items[0]->kind != TFM__PICKLE_OBJECT ||
            arguments->items[0]->tag != VIEW)
            return damaged(t, "a parameter has no tensor");
        *out = arguments->items[0];
        return TFM_OK;
    default:
        return damaged(t, "it calls a value that is not a function");
    }
}

const tfm__pickle_callbacks tfm__torch_callbacks = {
    .find_class = find_class, .reduce = call, .persistent_load = persistent_load};

void tfm__torch_free(tfm__torch *t) {
    free(t->storages);
    free(t->views);
    *t = (tfm__torch){0};
}

/* ---- By name ------------------------------------------------------------------------------------------ */

/* Memory borrowed by the tensors of a file. */
typedef struct owned {
    size_t name_count, copy_count, copied; /* in bytes */
    char **names;
    unsigned char **copies;
} owned;

void tfm__torch_release(tfm__weights_file *file) {
    owned *own = file->own;
    for (size_t i = 0; own && i < own->name_count; i++)
        free(own->names[i]);
    for (size_t i = 0; own && i < own->copy_count; i++)
        free(own->copies[i]);
    if (own) {
        free(own->names);
        free(own->copies);
    }
    free(own);
    file->own = NULL;
}

/* Sizes from the pickle, and whether the view is contiguous; fails if it exceeds its storage. */
static tfm_status read_sizes(tfm__stored_tensor *out, bool *in_a_row, const tfm__torch_view *view, size_t elements) {
    uint64_t count = 1, last = (uint64_t)view->offset;
    bool overflow = false, empty = false;
    *in_a_row = true;
    out->rank = (int)view->size->count;
    for (int i = out->rank - 1; i >= 0; i--) {
        const uint64_t size = (uint64_t)view->size->items[i]->number, stride = (uint64_t)view->stride->items[i]->number;
        uint64_t way;
        if (i < TFM_MAX_RANK)
            out->dims[i] = (int64_t)size;
        empty |= size == 0;
        if (size > 1 && stride != count)
            *in_a_row = false;
        overflow |= __builtin_mul_overflow(count, size, &count);
        overflow |=
            size > 0 && (__builtin_mul_overflow(size - 1, stride, &way) || __builtin_add_overflow(last, way, &last));
    }
    *in_a_row |= empty;
    out->count = empty ? 0 : count;
    if (empty)
        return TFM_OK;
    if (overflow || last >= elements)
        return tfm__fail(
            TFM_ERROR_FORMAT,
            "%s: tensor %s exceeds its storage of %zu elements: the file is damaged; copy or download it again",
            out->file, out->name, elements);
    return TFM_OK;
}

/* Makes a contiguous copy of a view. */
static tfm_status copy_row(tfm__stored_tensor *out, owned *own, const tfm__torch_view *view, size_t element,
                           size_t limit) {
    const unsigned char *from = out->data;
    int64_t at[TFM_MAX_RANK] = {0};
    if (out->rank > TFM_MAX_RANK || out->bytes > limit - own->copied)
        return tfm__fail(
            TFM_ERROR_UNSUPPORTED,
            "%s: tensor %s is a view that repeats or reorders too many elements: save it after .contiguous()",
            out->file, out->name);
    unsigned char *to = own->copies[own->copy_count] = tfm__alloc(out->bytes, 1);
    if (!to)
        return TFM_ERROR_MEMORY;
    own->copy_count++;
    own->copied += out->bytes;
    out->data = to;
    for (size_t n = 0; n < out->count; n++, to += element) {
        uint64_t place = 0;
        for (int i = 0; i < out->rank; i++)
            place += (uint64_t)at[i] * (uint64_t)view->stride->items[i]->number;
        memcpy(to, from + place * element, element);
        for (int i = out->rank - 1; i >= 0 && ++at[i] == out->dims[i]; i--)
            at[i] = 0;
    }
    return TFM_OK;
}

static tfm_status read_tensor(const tfm__torch *t, tfm__stored_tensor *out, owned *own, const tfm__pickle_value *key,
                              const tfm__pickle_value *value, size_t limit) {
    if (key->kind != TFM__PICKLE_TEXT)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: a tensor's name is %s", t->path, tfm__pickle_kind_name(key));
    if (tfm__stored_check_name(key->text, key->bytes, t->path) != TFM_OK)
        return TFM_ERROR_FORMAT;
    char *name = own->names[own->name_count] = tfm__format("%.*s", (int)key->bytes, key->text);
    if (!name)
        return TFM_ERROR_MEMORY;
    own->name_count++;
    if (value->kind != TFM__PICKLE_OBJECT || value->tag != VIEW)
        return tfm__fail(
            TFM_ERROR_UNSUPPORTED,
            "%s: `%.100s` is %s and not a tensor, as in a checkpoint of training: save the model's state_dict() alone",
            t->path, name, tfm__pickle_kind_name(value));
    const tfm__torch_view *view = &t->views[value->number];
    const tfm__torch_storage *storage = &t->storages[view->storage];
    const size_t element = tfm__stored_element(storage->dtype);
    bool in_a_row;
    *out = (tfm__stored_tensor){.name = name, .file = t->path};
    tfm_status status = read_sizes(out, &in_a_row, view, storage->bytes / element);
    if (status != TFM_OK)
        return status;
    if (__builtin_mul_overflow(out->count, element, &out->bytes))
        out->bytes = SIZE_MAX; /* of a view that repeats elements: refused below */
    out->data = out->count ? storage->data + (size_t)view->offset * element : storage->data;
    if (!in_a_row)
        status = copy_row(out, own, view, element, limit);
    return status == TFM_OK ? tfm__stored_set_dtype(out, storage->dtype) : status;
}

tfm_status tfm__torch_collect(const tfm__torch *t, tfm__weights_file *file, const tfm__pickle_value *root) {
    if (root->kind != TFM__PICKLE_DICT)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s holds %s, not a dict of tensors: save the model's state_dict(), or as safetensors",
                         t->path, tfm__pickle_kind_name(root));
    const size_t count = root->count / 2;
    owned *own = file->own = tfm__alloc(1, sizeof(*own));
    file->tensors = tfm__alloc(count + 1, sizeof(*file->tensors));
    if (!own || !file->tensors)
        return TFM_ERROR_MEMORY;
    own->names = tfm__alloc(count + 1, sizeof(*own->names));
    own->copies = tfm__alloc(count + 1, sizeof(*own->copies));
    if (!own->names || !own->copies)
        return TFM_ERROR_MEMORY;
    tfm_status status = TFM_OK;
    for (; file->count < count && status == TFM_OK; file->count += status == TFM_OK)
        status = read_tensor(t, &file->tensors[file->count], own, root->items[2 * file->count],
                             root->items[2 * file->count + 1], file->map.size);
    return status;
}
