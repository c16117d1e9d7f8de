/* Opens GGUF files: one pass over the metadata and the tensor list, with every length checked. */
#include "base/gguf_read.h"
#include <fnmatch.h>
#include <string.h>

enum { MAX_NAME = 1024, DEFAULT_ALIGNMENT = 32 };

typedef struct part {
    char *path;
    tfm__file map;
} part;

struct tfm__gguf {
    part *parts;
    size_t part_count;
    tfm__gguf_metadata metadata; /* of the first part */
    tfm__gguf_tensor *tensors;
    size_t tensor_count, tensor_room;
};

/* ---- Tensors ---- */

static tfm_status bad_tensor(const tfm__gguf_cursor *c, const tfm__gguf_tensor *t, const char *what) {
    return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s %s: the file is damaged, copy or download it again", c->path,
                     t->name, what);
}

/* The type, and the size that it gives the tensor. */
static tfm_status measure(const tfm__gguf_cursor *c, tfm__gguf_tensor *t) {
    const tfm__gguf_type_info *type = tfm__gguf_type_get(t->type);
    if (!type)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: tensor %s has the type %u, which is not known: use a file quantized to a type such as "
                         "Q4_K or Q8_0",
                         c->path, t->name, t->type);
    t->count = 1;
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] < 1 || __builtin_mul_overflow(t->count, (size_t)t->dims[i], &t->count) || t->count > INT64_MAX)
            return bad_tensor(c, t, "has an impossible shape");
    if ((size_t)t->dims[t->rank - 1] % type->elements != 0)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: tensor %s has rows of %lld elements, which blocks of %zu (%s) do not fill: the file is "
                         "damaged, copy or download it again",
                         c->path, t->name, (long long)t->dims[t->rank - 1], type->elements, type->name);
    if (__builtin_mul_overflow(t->count / type->elements, type->bytes, &t->bytes))
        return bad_tensor(c, t, "is larger than all memory");
    return TFM_OK;
}

/* One entry of the list, without its data. */
static tfm_status take_tensor(tfm__gguf_cursor *c, tfm__gguf_tensor *t, uint64_t *offset) {
    tfm__gguf_text name;
    uint32_t rank;
    uint64_t dim;
    const tfm_status status = tfm__gguf_take_name(c, &name, MAX_NAME, "a tensor's name");
    if (status != TFM_OK)
        return status;
    if (!(t->name = tfm__format("%.*s", (int)name.bytes, name.data)))
        return TFM_ERROR_MEMORY;
    if (!tfm__gguf_take(c, &rank, sizeof(rank)))
        return tfm__gguf_truncated(c);
    if (rank < 1 || rank > TFM__GGUF_MAX_RANK)
        return bad_tensor(c, t, "has no dimensions, or more than 4");
    t->rank = (int)rank;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (!tfm__gguf_take(c, &dim, sizeof(dim)))
            return tfm__gguf_truncated(c);
        t->dims[i] = dim > INT64_MAX ? -1 : (int64_t)dim;
    }
    if (!tfm__gguf_take(c, &t->type, sizeof(t->type)) || !tfm__gguf_take(c, offset, sizeof(*offset)))
        return tfm__gguf_truncated(c);
    return measure(c, t);
}

/* Turns the offsets of a part's tensors into pointers; `begin` is the offset of the data in the file. */
static tfm_status place_tensors(const tfm__gguf_cursor *c, const tfm__file *map, tfm__gguf_tensor *tensors,
                                const uint64_t *offsets, size_t count, uint64_t alignment) {
    const uint64_t used = (uint64_t)(c->at - map->data);
    const uint64_t begin = used + (alignment - used % alignment) % alignment;
    for (size_t i = 0; i < count; i++) {
        tfm__gguf_tensor *t = &tensors[i];
        if (offsets[i] % alignment != 0)
            return bad_tensor(c, t, "is not aligned");
        if (begin > map->size || offsets[i] > map->size - begin || t->bytes > map->size - begin - offsets[i])
            return tfm__fail(TFM_ERROR_FORMAT,
                             "%s: tensor %s ends after the file's %zu bytes: the file was truncated; copy or download "
                             "it again",
                             c->path, t->name, map->size);
        t->data = map->data + begin + offsets[i];
    }
    return TFM_OK;
}

static tfm_status take_alignment(const tfm__gguf_cursor *c, uint64_t *out, const tfm__gguf_metadata *all) {
    const tfm__gguf_value *value = tfm__gguf_metadata_find(all, "general.alignment");
    *out = DEFAULT_ALIGNMENT;
    if (value && (!tfm__gguf_u64(out, value, 0) || *out == 0 || *out > 1u << 30 || (*out & (*out - 1)) != 0))
        return tfm__gguf_damaged(c->path, "general.alignment is not a power of 2");
    return TFM_OK;
}

static tfm_status take_tensors(tfm__gguf_cursor *c, tfm__gguf *g, const tfm__gguf_metadata *all, uint64_t count) {
    const size_t first = g->tensor_count;
    uint64_t *offsets = NULL, alignment;
    size_t room = 0;
    tfm_status status = take_alignment(c, &alignment, all);
    for (uint64_t i = 0; i < count && status == TFM_OK; i++) {
        status = tfm__grow(&g->tensors, &g->tensor_room, g->tensor_count + 1, sizeof(*g->tensors));
        if (status == TFM_OK)
            status = tfm__grow(&offsets, &room, (size_t)i + 1, sizeof(*offsets));
        if (status != TFM_OK)
            break;
        tfm__gguf_tensor *t = &g->tensors[g->tensor_count++];
        *t = (tfm__gguf_tensor){.part = g->part_count - 1};
        status = take_tensor(c, t, &offsets[i]);
    }
    if (status == TFM_OK && g->tensor_count > first)
        status = place_tensors(c, &g->parts[g->part_count - 1].map, g->tensors + first, offsets,
                               g->tensor_count - first, alignment);
    free(offsets);
    return status;
}

/* ---- Parts ---- */

static tfm_status check_version(tfm__gguf_cursor *c) {
    uint32_t version;
    char magic[4];
    if (!tfm__gguf_take(c, magic, sizeof(magic)) || memcmp(magic, "GGUF", 4) != 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s is not a GGUF file: it does not begin with `GGUF`; download it again",
                         c->path);
    if (!tfm__gguf_take(c, &version, sizeof(version)))
        return tfm__gguf_truncated(c);
    if (version == 2 || version == 3)
        return TFM_OK;
    if (version > 0 && (version & 0xffff) == 0)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s is a big-endian GGUF file: use the little-endian one", c->path);
    return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s has version %u of GGUF, and versions 2 and 3 are supported: %s",
                     c->path, version, version < 2 ? "convert it with llama.cpp" : "use a newer version of tfm");
}

/* Opens one file and adds its tensors; *out gets its metadata. */
static tfm_status add_part(tfm__gguf *g, tfm__gguf_metadata *out, const char *path) {
    part *parts = tfm__realloc(g->parts, g->part_count + 1, sizeof(*parts));
    uint64_t tensors, count;
    if (!parts)
        return TFM_ERROR_MEMORY;
    g->parts = parts;
    part *added = &parts[g->part_count++];
    *added = (part){.path = tfm__strdup(path)};
    tfm_status status = added->path ? tfm__file_map(&added->map, path) : TFM_ERROR_MEMORY;
    if (status != TFM_OK)
        return status;
    const unsigned char *data = added->map.size ? added->map.data : (const unsigned char *)""; /* no memory if empty */
    tfm__gguf_cursor c = {data, data + added->map.size, added->path};
    status = check_version(&c);
    if (status == TFM_OK &&
        (!tfm__gguf_take(&c, &tensors, sizeof(tensors)) || !tfm__gguf_take(&c, &count, sizeof(count))))
        status = tfm__gguf_truncated(&c);
    if (status == TFM_OK)
        status = tfm__gguf_metadata_read(&c, out, count);
    if (status == TFM_OK)
        status = take_tensors(&c, g, out, tensors);
    return status;
}

/* Number and count of a split model's part; 0 and 1 if the file is a whole model. */
static void split_of(uint64_t *number, uint64_t *count, const tfm__gguf_metadata *all) {
    *number = 0;
    *count = 1;
    tfm__gguf_u64(number, tfm__gguf_metadata_find(all, "split.no"), 0);
    tfm__gguf_u64(count, tfm__gguf_metadata_find(all, "split.count"), 0);
}

/* "NAME-00002-of-00003.gguf" for number 1, from the name of any part. *out is NULL if the name is none of a part. */
static tfm_status part_path(char **out, uint64_t *count, const char *path, uint64_t number) {
    static const char FORM[] = "-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].gguf";
    const size_t length = strlen(path), end = sizeof("-00001-of-00002.gguf") - 1;
    *out = NULL;
    *count = 1;
    if (length < end || fnmatch(FORM, path + length - end, 0) != 0)
        return TFM_OK;
    *count = strtoul(path + length - sizeof("00002.gguf") + 1, NULL, 10);
    *out = tfm__format("%.*s-%05u-of-%05u.gguf", (int)(length - end), path, (unsigned)number + 1, (unsigned)*count);
    return *out ? TFM_OK : TFM_ERROR_MEMORY;
}

/* Adds part `number` of `count`; part 0 is open. */
static tfm_status add_other_part(tfm__gguf *g, const char *path, uint64_t number, uint64_t count) {
    tfm__gguf_metadata own = {0};
    char *name = NULL;
    uint64_t its_number, its_count;
    tfm_status status = part_path(&name, &its_count, path, number);
    if (status == TFM_OK)
        status = add_part(g, &own, name);
    split_of(&its_number, &its_count, &own);
    if (status == TFM_OK && (its_number != number || its_count != count))
        status = tfm__fail(TFM_ERROR_FORMAT, "%s does not say that it is part %llu of %llu: download it again", name,
                           (unsigned long long)number + 1, (unsigned long long)count);
    tfm__gguf_metadata_free(&own);
    free(name);
    return status;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const tfm__gguf_tensor *)a)->name, ((const tfm__gguf_tensor *)b)->name);
}

static tfm_status open_parts(tfm__gguf *g, const char *path, uint64_t named) {
    uint64_t number, count;
    tfm_status status = add_part(g, &g->metadata, path);
    split_of(&number, &count, &g->metadata);
    if (status == TFM_OK && (number != 0 || count != named))
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s says that it is part %llu of %llu, and its name that it is part 1 of %llu: give the parts "
                         "the names that they were published with, NAME-00001-of-00002.gguf",
                         path, (unsigned long long)number + 1, (unsigned long long)count, (unsigned long long)named);
    for (number = 1; status == TFM_OK && number < count; number++)
        status = add_other_part(g, path, number, count);
    if (status != TFM_OK || g->tensor_count == 0)
        return status;
    qsort(g->tensors, g->tensor_count, sizeof(*g->tensors), by_name);
    for (size_t i = 1; i < g->tensor_count; i++)
        if (by_name(&g->tensors[i - 1], &g->tensors[i]) == 0)
            return tfm__fail(TFM_ERROR_FORMAT, "%s is damaged: tensor %s occurs twice; copy or download it again",
                             g->parts[g->tensors[i].part].path, g->tensors[i].name);
    return TFM_OK;
}

tfm_status tfm__gguf_open(tfm__gguf **out, const char *path) {
    char *first = NULL;
    uint64_t count;
    tfm__gguf *g = *out = tfm__alloc(1, sizeof(*g));
    tfm_status status = g ? part_path(&first, &count, path, 0) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = open_parts(g, first ? first : path, count);
    free(first);
    if (status != TFM_OK)
        tfm__gguf_close(out);
    return status;
}

void tfm__gguf_close(tfm__gguf **pointer) {
    tfm__gguf *g = pointer ? *pointer : NULL;
    if (!g)
        return;
    for (size_t i = 0; i < g->part_count; i++) {
        tfm__file_unmap(&g->parts[i].map);
        free(g->parts[i].path);
    }
    free(g->parts);
    tfm__gguf_metadata_free(&g->metadata);
    for (size_t i = 0; i < g->tensor_count; i++)
        free(g->tensors[i].name);
    free(g->tensors);
    free(g);
    *pointer = NULL;
}

/* ---- Access ---- */

size_t tfm__gguf_parts(const tfm__gguf *g) {
    return g->part_count;
}

const char *tfm__gguf_path(const tfm__gguf *g, size_t i) {
    return g->parts[i].path;
}

const tfm__file *tfm__gguf_map(const tfm__gguf *g, size_t i) {
    return &g->parts[i].map;
}

const tfm__gguf_value *tfm__gguf_find(const tfm__gguf *g, const char *key) {
    return tfm__gguf_metadata_find(&g->metadata, key);
}

size_t tfm__gguf_values(const tfm__gguf *g) {
    return g->metadata.count;
}

const tfm__gguf_value *tfm__gguf_value_at(const tfm__gguf *g, size_t i) {
    return i < g->metadata.count ? &g->metadata.items[i] : NULL;
}

size_t tfm__gguf_tensors(const tfm__gguf *g) {
    return g->tensor_count;
}

const tfm__gguf_tensor *tfm__gguf_tensor_at(const tfm__gguf *g, size_t i) {
    return i < g->tensor_count ? &g->tensors[i] : NULL;
}

const tfm__gguf_tensor *tfm__gguf_tensor_find(const tfm__gguf *g, const char *name) {
    const tfm__gguf_tensor wanted = {.name = (char *)(uintptr_t)name};
    return g->tensor_count ? bsearch(&wanted, g->tensors, g->tensor_count, sizeof(wanted), by_name) : NULL;
}
