/* Files of weights. */
#include <stdlib.h>
#include <string.h>
#include "fuzz.h"
#include "model/file/torch_tensors.h"
#include "model/file/weights_reader.h"
#include "model/file/zip.h"

static void touch(const tfm__stored *tensors, size_t count) {
    for (size_t i = 0; i < count; i++) {
        fuzz_touch(tensors[i].name, strlen(tensors[i].name));
        fuzz_touch(tensors[i].data, tensors[i].bytes);
        fuzz_touch(tensors[i].dims, sizeof(tensors[i].dims));
    }
}

static bool read_by(const tfm__weights_reader *reader, const uint8_t *data, size_t size) {
    uint8_t *copy = fuzz_copy(data, size);
    tfm__weights_file file = {.path = (char[]){"file"}, .map = {size ? copy : NULL, size, 0}};
    const bool good = reader->read(&file) == TFM_OK;
    if (good)
        touch(file.tensors, file.count);
    if (reader->remark && file.own && reader->remark(&file, "update"))
        fuzz_touch(reader->remark(&file, "update"), strlen(reader->remark(&file, "update")));
    reader->release(&file);
    free(file.tensors);
    free(copy);
    return good;
}

static bool safetensors(const uint8_t *data, size_t size) {
    return read_by(&tfm__safetensors_reader, data, size);
}

static bool torch(const uint8_t *data, size_t size) {
    return read_by(&tfm__torch_reader, data, size);
}

/* A pickle without its archive, whose storages nobody finds. */
static bool pickle(const uint8_t *data, size_t size) {
    uint8_t *copy = fuzz_copy(data, size);
    tfm__torch state = {.path = "pickle"};
    tfm__pickle reader = {
        .path = "pickle", .at = copy, .end = copy + size, .caller = &tfm__torch_caller, .user = &state};
    const tfm__pickle_value *root;
    bool good = false;
    for (; tfm__pickle_read(&reader, &root) == TFM_OK; good = true)
        fuzz_touch(tfm__pickle_kind_name(root), 1);
    for (size_t i = 0; i < state.storage_count; i++)
        fuzz_touch(state.storages[i].key, state.storages[i].key_bytes);
    tfm__pickle_close(&reader);
    tfm__torch_free(&state);
    free(copy);
    return good;
}

static bool zip(const uint8_t *data, size_t size) {
    uint8_t *copy = fuzz_copy(data, size);
    tfm__zip archive;
    const bool good = tfm__zip_open(&archive, copy, size, "archive") == TFM_OK;
    if (good) {
        for (size_t i = 0; i < archive.count; i++) {
            const tfm__zip_entry *e = &archive.entries[i], *found;
            fuzz_touch(e->name, e->name_bytes);
            fuzz_touch(e->data, e->bytes);
            const char *slash = e->name_bytes ? memchr(e->name, '/', e->name_bytes) : NULL;
            if (slash && e->stored &&
                (tfm__zip_find(&archive, &found, e->name, (size_t)(slash - e->name), slash + 1,
                               e->name_bytes - (size_t)(slash - e->name) - 1) != TFM_OK ||
                 found != e))
                abort();
        }
        tfm__zip_close(&archive);
    }
    free(copy);
    return good;
}

/* The index of a directory with two files in shards, which have one tensor each. */
static bool shards(const uint8_t *data, size_t size) {
    static const char HEADER[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    uint8_t file[8 + sizeof(HEADER)] = {sizeof(HEADER) - 1}; /* the header's size, the header, a byte of the tensor */
    tfm__weights *weights;
    memcpy(file + 8, HEADER, sizeof(HEADER));
    fuzz_file("1.safetensors", file, sizeof(file));
    file[10] = 'b';
    fuzz_file("2.safetensors", file, sizeof(file));
    fuzz_file("model.safetensors.index.json", data, size);
    const bool good = tfm__weights_open_dir(&weights, fuzz_folder()) == TFM_OK;
    if (good)
        for (size_t i = 0; i < tfm__weights_count(weights); i++)
            touch(tfm__weights_at(weights, i), 1);
    tfm__weights_free(&weights);
    return good;
}

const fuzz_target fuzz_weights[] = {{"safetensors", safetensors, NULL}, {"torch", torch, NULL},
                                    {"pickle", pickle, NULL},           {"zip", zip, NULL},
                                    {"shards", shards, NULL},           {NULL, NULL, NULL}};
