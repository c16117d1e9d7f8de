#include "model/weights/tensors_write.h"
#include <string.h>
#include "base/file.h"
#include "model/weights/safetensors.h"
#include "tfm/ops.h"

/* A tensor with the entry's dims in the file, without memory. */
static tfm_tensor shape_of(const tfm__tensor_entry *entry) {
    tfm_tensor shape = {.rank = entry->x.rank};
    memcpy(shape.dims, entry->x.dims, sizeof(shape.dims));
    for (size_t i = 0; i < entry->part_count; i++)
        shape.dims[0] += entry->parts[i].dims[0];
    if (entry->transposed && shape.rank == 2) {
        const int64_t outputs = shape.dims[0];
        shape.dims[0] = shape.dims[1];
        shape.dims[1] = outputs;
    }
    return shape;
}

static size_t bytes_of(const tfm__tensor_entry *entry) {
    return tfm_tensor_count(shape_of(entry)) * tfm_dtype_size(entry->dtype);
}

/* Interleaves runs of rows of the parts, `groups` times. */
static void join_groups(tfm_context *ctx, tfm_tensor *out, const tfm_tensor *parts, const tfm__tensor_entry *entry) {
    tfm_tensor by_group[TFM__ENTRY_PARTS] = {{0}}, joined = {0};
    for (size_t i = 0; i <= entry->part_count; i++) {
        const int64_t columns = parts[i].rank == 2 ? parts[i].dims[1] : 1;
        const int64_t dims[] = {entry->groups, parts[i].dims[0] / entry->groups, columns};
        tfm_tensor_reshape(ctx, &by_group[i], parts[i], 3, dims);
    }
    tfm_concat(ctx, &joined, entry->part_count + 1, by_group, 1);
    const tfm_tensor shape = shape_of(entry);
    tfm_tensor_reshape(ctx, out, joined, shape.rank, shape.dims);
}

/* The entry as one tensor, in the current scope. */
static tfm_status make_whole(tfm_context *ctx, tfm_tensor *out, const tfm__tensor_entry *entry) {
    const bool turned = entry->transposed && entry->x.rank == 2;
    tfm_tensor parts[TFM__ENTRY_PARTS] = {entry->x};
    for (size_t i = 0; i < entry->part_count; i++)
        parts[i + 1] = entry->parts[i];
    for (size_t i = 0; i <= entry->part_count && turned; i++) {
        tfm_tensor part = {0};
        tfm_permute(ctx, &part, parts[i], (int[]){1, 0});
        parts[i] = part;
    }
    tfm_tensor joined = parts[0], constant = {0};
    if (entry->part_count > 0) {
        joined = (tfm_tensor){0};
        if (entry->groups > 1)
            join_groups(ctx, &joined, parts, entry);
        else
            tfm_concat(ctx, &joined, entry->part_count + 1, parts, turned ? 1 : 0);
    }
    if (entry->subtract == 0) {
        *out = joined;
        return tfm_context_status(ctx);
    }
    tfm_tensor_new(ctx, &constant, TFM_F32, 1, &(int64_t){1});
    tfm__tensor_fill(ctx, constant, &entry->subtract);
    return tfm_sub(ctx, out, joined, constant);
}

void tfm__tensor_entry_add_part(tfm__tensor_entry *entry, tfm_tensor part, int64_t first) {
    size_t i = ++entry->part_count;
    for (; i > 0 && entry->part_first[i - 1] > first; i--) {
        entry->part_first[i] = entry->part_first[i - 1];
        entry->parts[i - 1] = i > 1 ? entry->parts[i - 2] : entry->x;
    }
    entry->part_first[i] = first;
    *(i > 0 ? &entry->parts[i - 1] : &entry->x) = part;
}

size_t tfm__tensors_header_size(size_t length) {
    const size_t before = sizeof(uint64_t);
    return (before + length + TFM__DATA_ALIGNMENT - 1) / TFM__DATA_ALIGNMENT * TFM__DATA_ALIGNMENT - before;
}

/* The entries in the order of their data in the file, for free(); NULL if out of memory. */
static const tfm__tensor_entry **ordered(const tfm__tensor_entry *entries, size_t count) {
    const tfm__tensor_entry **order = tfm__alloc(count + 1, sizeof(*order));
    size_t place = 0;
    for (int odd = 0; order && odd < 2; odd++)
        for (size_t i = 0; i < count; i++)
            if ((bytes_of(&entries[i]) % TFM__TENSOR_ALIGNMENT != 0) == odd)
                order[place++] = &entries[i];
    return order;
}

/* Floats on the host at a time. */
enum { PIECE = 4 << 20 };

static json_t *metadata_json(const tfm__metadata_entry *metadata_entries, size_t count, bool with_checksum) {
    json_t *all = with_checksum ? json_pack("{s:s}", TFM__CHECKSUM_KEY, "yes") : json_object();
    for (size_t i = 0; all && i < count; i++)
        if (json_object_set_new(all, metadata_entries[i].name, json_string(metadata_entries[i].text)) != 0) {
            json_decref(all);
            all = NULL;
        }
    return all;
}

bool tfm__tensors_name(json_t *header, const char *name, const char *dtype, int rank, const int64_t *dims, size_t *at,
                       size_t bytes) {
    json_t *shape = json_array();
    for (int d = 0; shape && d < rank; d++)
        json_array_append_new(shape, json_integer(dims[d]));
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets", (json_int_t)*at,
                              (json_int_t)(*at + bytes));
    *at += bytes;
    return entry && json_object_set_new(header, name, entry) == 0;
}

/* The header's text, for free(); NULL if out of memory. */
static char *header_text(const tfm__tensor_entry *const *entries, size_t count,
                         const tfm__metadata_entry *metadata_entries, size_t metadata_count, bool with_checksum) {
    json_t *header = json_object();
    size_t at = 0;
    if ((metadata_count || with_checksum) &&
        json_object_set_new(header, "__metadata__", metadata_json(metadata_entries, metadata_count, with_checksum)) !=
            0) {
        json_decref(header);
        header = NULL;
    }
    for (size_t i = 0; header && i < count; i++) {
        const tfm_tensor whole = shape_of(entries[i]);
        if (!tfm__tensors_name(header, entries[i]->name, tfm_dtype_name(entries[i]->dtype), whole.rank, whole.dims, &at,
                               bytes_of(entries[i]))) {
            json_decref(header);
            header = NULL;
        }
    }
    if (header && with_checksum &&
        !tfm__tensors_name(header, TFM__CHECKSUM_TENSOR, tfm_dtype_name(TFM_U8), 1, (int64_t[]){TFM__CHECKSUM_BYTES},
                           &at, TFM__CHECKSUM_BYTES)) {
        json_decref(header);
        header = NULL;
    }
    char *text = header ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    return text;
}

/* A file being written, and the hash of its contents. */
typedef struct target {
    tfm__writer file;
    tfm__hash hash;
} target;

static tfm_status add(target *to, const void *data, size_t size) {
    tfm__hash_add(&to->hash, data, size);
    return tfm__writer_add(&to->file, data, size);
}

static tfm_status write_entry(tfm_context *ctx, target *to, unsigned char *room, const tfm__tensor_entry *entry) {
    const int64_t count = (int64_t)tfm_tensor_count(shape_of(entry));
    tfm_tensor whole = {0}, flat = {0};
    tfm_scope_open(ctx);
    make_whole(ctx, &whole, entry);
    tfm_status status = tfm_tensor_reshape(ctx, &flat, whole, 1, &count);
    for (int64_t at = 0; at < count && status == TFM_OK; at += PIECE) {
        const int64_t n = count - at < PIECE ? count - at : PIECE;
        tfm_tensor part = {0}, x = {0};
        tfm_scope_open(ctx);
        tfm_tensor_rows(ctx, &part, flat, at, n);
        if (entry->dtype != part.dtype)
            tfm_cast(ctx, &x, part, entry->dtype);
        else
            x = part;
        tfm_tensor_read(ctx, room, x);
        status = tfm_scope_close(ctx, 0, NULL);
        if (status == TFM_OK)
            status = add(to, room, (size_t)n * tfm_dtype_size(entry->dtype));
    }
    const tfm_status closed = tfm_scope_close(ctx, 0, NULL);
    return status == TFM_OK ? closed : status;
}

/* Writes the length of the header, and the header padded with spaces. */
static tfm_status write_header(target *to, const char *text) {
    unsigned char size[8];
    char spaces[TFM__DATA_ALIGNMENT];
    const size_t length = strlen(text), padded = tfm__tensors_header_size(length);
    memset(spaces, ' ', sizeof(spaces));
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)(padded >> 8 * i);
    tfm_status status = add(to, size, sizeof(size));
    if (status == TFM_OK)
        status = add(to, text, length);
    return status == TFM_OK ? add(to, spaces, padded - length) : status;
}

static tfm_status write_checksum(target *to) {
    unsigned char seal[TFM__CHECKSUM_BYTES];
    tfm__checksum_encode(seal, tfm__hash_finish(&to->hash));
    return add(to, seal, sizeof(seal));
}

tfm_status tfm__tensors_write(tfm_context *ctx, const char *path, const tfm__tensor_entry *entries, size_t count,
                              const tfm__metadata_entry *metadata_entries, size_t metadata_count, bool with_checksum) {
    const tfm__tensor_entry **order = ordered(entries, count);
    char *text = order ? header_text(order, count, metadata_entries, metadata_count, with_checksum) : NULL;
    unsigned char *room = tfm__alloc(PIECE, sizeof(float));
    target to = {0};
    tfm_status status = TFM_OK;
    if (!text || !room)
        status = tfm__fail(TFM_ERROR_MEMORY, "%s: no host memory to write it", path);
    else if (strlen(text) > TFM__SAFETENSORS_HEADER)
        status = tfm__fail(TFM_ERROR_ARGUMENT, "%s: a header of %zu bytes exceeds the limit of %u", path, strlen(text),
                           TFM__SAFETENSORS_HEADER);
    if (status == TFM_OK)
        status = tfm__writer_open(&to.file, path);
    if (status == TFM_OK)
        status = write_header(&to, text);
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        status = write_entry(ctx, &to, room, order[i]);
    if (status == TFM_OK && with_checksum)
        status = write_checksum(&to);
    status = tfm__writer_close(&to.file, status);
    free(order);
    free(text);
    free(room);
    return status;
}
