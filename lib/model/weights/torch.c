/* Files of PyTorch's torch.save, such as pytorch_model.bin, in both layouts: since 1.6 a zip archive with tensors in
 * data.pkl and storages in data/KEY; before, five pickles, then the storages.
 * https://github.com/pytorch/pytorch/blob/main/torch/serialization.py: _save, _legacy_save. */
#include <string.h>
#include "model/weights/torch_tensors.h"
#include "model/weights/zip.h"

static tfm_status big_endian(const char *path) {
    return tfm__fail(TFM_ERROR_UNSUPPORTED,
                     "%s was written on a big-endian machine: load it there, and save it as safetensors", path);
}

static tfm_status damaged(const char *path, const char *what) {
    return tfm__fail(TFM_ERROR_FORMAT, "%s is damaged: %s; copy or download it again", path, what);
}

/* ---- The archive -------------------------------------------------------------------------------------- */

/* The folder with data.pkl. */
static tfm_status find_folder(const tfm__zip *zip, const tfm__zip_entry **pickle, size_t *bytes) {
    static const char NAME[] = "/data.pkl";
    const size_t length = sizeof(NAME) - 1;
    *pickle = NULL;
    for (size_t i = 0; i < zip->count; i++) {
        const tfm__zip_entry *e = &zip->entries[i];
        if (e->name_bytes <= length || memcmp(e->name + e->name_bytes - length, NAME, length) != 0 ||
            memchr(e->name, '/', e->name_bytes) != e->name + e->name_bytes - length)
            continue;
        if (*pickle)
            return damaged(zip->path, "it has two folders with tensors");
        *pickle = e;
        *bytes = e->name_bytes - length;
    }
    if (!*pickle)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s is a zip archive, but not from torch.save: it has no data.pkl",
                         zip->path);
    return tfm__stored_check_name((*pickle)->name, *bytes, zip->path);
}

/* Checks entries about the whole file. */
static tfm_status check_kind(const tfm__zip *zip, const char *folder, size_t bytes) {
    static const char ORDER[] = "byteorder", CONSTANTS[] = "constants.pkl", LITTLE[] = "little";
    const tfm__zip_entry *order, *constants;
    tfm_status status = tfm__zip_find(zip, &constants, folder, bytes, CONSTANTS, sizeof(CONSTANTS) - 1);
    if (status == TFM_OK)
        status = tfm__zip_find(zip, &order, folder, bytes, ORDER, sizeof(ORDER) - 1);
    if (status != TFM_OK)
        return status;
    if (constants)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s is a TorchScript program, not a tensor file: save the model's state_dict()", zip->path);
    if (order && (order->bytes != sizeof(LITTLE) - 1 || memcmp(order->data, LITTLE, order->bytes) != 0))
        return big_endian(zip->path);
    return TFM_OK;
}

static tfm_status find_storages(tfm__torch *t, const tfm__zip *zip, const char *folder, size_t bytes) {
    char *data = tfm__format("%.*s/data", (int)bytes, folder);
    tfm_status status = data ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < t->storage_count && status == TFM_OK; i++) {
        tfm__torch_storage *s = &t->storages[i];
        const tfm__zip_entry *entry;
        status = tfm__zip_find(zip, &entry, data, strlen(data), s->key, s->key_bytes);
        if (status == TFM_OK && (entry ? entry->bytes : 0) != s->bytes)
            status = tfm__fail(TFM_ERROR_FORMAT,
                               "%s is damaged: data/%.*s has %zu bytes, and %zu are needed; copy or download it again",
                               t->path, s->key_bytes < 100 ? (int)s->key_bytes : 100, s->key, entry ? entry->bytes : 0,
                               s->bytes);
        else if (status == TFM_OK)
            s->data = entry ? entry->data : NULL;
    }
    free(data);
    return status;
}

static tfm_status read_archive(tfm__torch *t, tfm__weights_file *file, tfm__pickle *pickle) {
    tfm__zip zip;
    const tfm__zip_entry *entry;
    const tfm__pickle_value *root;
    size_t bytes = 0;
    tfm_status status = tfm__zip_open(&zip, file->map.data, file->map.size, file->path);
    if (status == TFM_OK)
        status = find_folder(&zip, &entry, &bytes);
    if (status == TFM_OK)
        status = check_kind(&zip, entry->name, bytes);
    if (status == TFM_OK) /* fails if compressed */
        status = tfm__zip_find(&zip, &entry, entry->name, bytes, "data.pkl", 8);
    if (status == TFM_OK) {
        pickle->at = entry->data;
        pickle->end = entry->data + entry->bytes;
        status = tfm__pickle_read(pickle, &root);
    }
    if (status == TFM_OK && pickle->at != pickle->end)
        status = damaged(file->path, "there are bytes after its pickle");
    if (status == TFM_OK)
        status = find_storages(t, &zip, entry->name, bytes);
    if (status == TFM_OK)
        status = tfm__torch_collect(t, file, root);
    tfm__zip_close(&zip);
    return status;
}

/* ---- Before 1.6 --------------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b) {
    const tfm__torch_storage *x = *(tfm__torch_storage *const *)a, *y = *(tfm__torch_storage *const *)b;
    const int order = memcmp(x->key, y->key, x->key_bytes < y->key_bytes ? x->key_bytes : y->key_bytes);
    return order ? order : (x->key_bytes > y->key_bytes) - (x->key_bytes < y->key_bytes);
}

/* The first storage with this key, or NULL. */
static tfm__torch_storage **find_key(tfm__torch_storage **sorted, size_t count, const tfm__pickle_value *key) {
    tfm__torch_storage wanted = {.key = key->text, .key_bytes = key->bytes}, *const w = &wanted;
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (by_key(&sorted[middle], &w) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && by_key(&sorted[low], &w) == 0 ? &sorted[low] : NULL;
}

/* A storage: 8 bytes with its number of elements, then the data. All tensors must agree about it. */
static tfm_status take_storage(const char *path, tfm__pickle *pickle, tfm__torch_storage **same,
                               tfm__torch_storage *const *end) {
    const size_t left = (size_t)(pickle->end - pickle->at), bytes = (*same)->bytes;
    const uint64_t elements = bytes / tfm__stored_element((*same)->dtype);
    uint64_t told = 0;
    for (int i = 8; left >= 8 && i-- > 0;)
        told = told << 8 | pickle->at[i];
    if (left < 8 || bytes > left - 8)
        return damaged(path, "it ends before the end of its data, so it was truncated");
    if (told != elements || (*same)->found)
        return damaged(path, "a storage has another length than its tensors say");
    for (tfm__torch_storage **s = same; s < end && by_key(s, same) == 0; s++) {
        if ((*s)->bytes != bytes || strcmp((*s)->dtype, (*same)->dtype) != 0)
            return damaged(path, "tensors disagree about their shared storage");
        (*s)->data = pickle->at + 8;
        (*s)->found = true;
    }
    pickle->at += 8 + bytes;
    return TFM_OK;
}

static tfm_status take_storages(tfm__torch *t, tfm__pickle *pickle, const tfm__pickle_value *keys) {
    tfm__torch_storage **sorted = tfm__alloc(t->storage_count + 1, sizeof(*sorted));
    tfm_status status = sorted ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; sorted && i < t->storage_count; i++)
        sorted[i] = &t->storages[i];
    if (sorted)
        qsort(sorted, t->storage_count, sizeof(*sorted), by_key);
    if (keys->kind != TFM__PICKLE_LIST && status == TFM_OK)
        status = damaged(t->path, "the list of its storages is missing");
    for (size_t i = 0; status == TFM_OK && i < keys->count; i++) {
        const tfm__pickle_value *key = keys->items[i];
        tfm__torch_storage **same = key->kind == TFM__PICKLE_TEXT ? find_key(sorted, t->storage_count, key) : NULL;
        status = same ? take_storage(t->path, pickle, same, sorted + t->storage_count)
                      : damaged(t->path, "it lists a storage without a tensor");
    }
    for (size_t i = 0; i < t->storage_count && status == TFM_OK; i++)
        if (!t->storages[i].found)
            status = damaged(t->path, "the data of a tensor is missing");
    free(sorted);
    if (status == TFM_OK && pickle->at != pickle->end)
        status = damaged(t->path, "there are bytes after its data");
    return status;
}

static const tfm__pickle_value *dict_value(const tfm__pickle_value *dict, const char *key) {
    for (size_t i = 0; dict->kind == TFM__PICKLE_DICT && i + 1 < dict->count; i += 2)
        if (tfm__pickle_is(dict->items[i], key))
            return dict->items[i + 1];
    return NULL;
}

static tfm_status read_pickles(tfm__torch *t, tfm__weights_file *file, tfm__pickle *pickle) {
    static const unsigned char MAGIC[] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
    const tfm__pickle_value *value[5]; /* magic number, version, system info, tensors, storage keys */
    tfm_status status = TFM_OK;
    pickle->at = file->map.data;
    pickle->end = file->map.data + file->map.size;
    for (int i = 0; i < 5 && status == TFM_OK; i++) {
        status = tfm__pickle_read(pickle, &value[i]);
        if (status != TFM_OK)
            return status;
        if (i == 0 && (value[0]->kind != TFM__PICKLE_LARGE || value[0]->bytes != sizeof(MAGIC) ||
                       memcmp(value[0]->text, MAGIC, sizeof(MAGIC)) != 0))
            return tfm__fail(TFM_ERROR_UNSUPPORTED,
                             "%s is a Python pickle, but not from torch.save: save the model's state_dict() with that, "
                             "or as safetensors",
                             file->path);
        if (i == 1 && (value[1]->kind != TFM__PICKLE_INT || value[1]->number != 1001))
            return damaged(file->path, "its version is not 1001, and torch.save has never written another");
        const tfm__pickle_value *little = i == 2 ? dict_value(value[2], "little_endian") : NULL;
        if (i == 2 && (!little || little->kind != TFM__PICKLE_BOOL))
            return damaged(file->path, "it does not say on what kind of machine it was written");
        if (i == 2 && !little->number)
            return big_endian(file->path);
    }
    status = take_storages(t, pickle, value[4]);
    return status == TFM_OK ? tfm__torch_collect(t, file, value[3]) : status;
}

/* ---- The file ----------------------------------------------------------------------------------------- */

static tfm_status read_file(tfm__weights_file *file) {
    tfm__torch torch = {.path = file->path};
    tfm__pickle pickle = {.path = file->path, .callbacks = &tfm__torch_callbacks, .user = &torch};
    tfm_status status = tfm__weights_check_text(file);
    if (status == TFM_OK && tfm__zip_is_archive(file->map.data, file->map.size))
        status = read_archive(&torch, file, &pickle);
    else if (status == TFM_OK && file->map.size > 0 && file->map.data[0] == 0x80)
        status = read_pickles(&torch, file, &pickle);
    else if (status == TFM_OK)
        status =
            tfm__fail(TFM_ERROR_FORMAT,
                      "%s is not a torch.save file, neither a zip archive nor a pickle: download it again", file->path);
    tfm__pickle_close(&pickle);
    tfm__torch_free(&torch);
    return status;
}

const tfm__weights_reader tfm__torch_reader = {
    .kind = "PyTorch .bin",
    .suffix = ".bin",
    .single = "pytorch_model.bin",
    .index = "pytorch_model.bin.index.json",
    .read = read_file,
    .release = tfm__torch_release,
};
