/* Weight files and kernel packs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/offline/kernel_pack.h"
#include "fuzz.h"
#include "model/weights/shortlist.h"
#include "model/weights/torch_tensors.h"
#include "model/weights/weight_reader.h"
#include "model/weights/zip.h"

static void touch(const tfm__stored_tensor *tensors, size_t count) {
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
    static const char *const REMARKS[] = {"update", TFM__MARIAN_CONFIG};
    for (size_t i = 0; i < 2 && reader->metadata && file.own; i++)
        if (reader->metadata(&file, REMARKS[i]))
            fuzz_touch(reader->metadata(&file, REMARKS[i]), strlen(reader->metadata(&file, REMARKS[i])));
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

static bool npz(const uint8_t *data, size_t size) {
    return read_by(&tfm__npz_reader, data, size);
}

static bool marian_bin(const uint8_t *data, size_t size) {
    return read_by(&tfm__marian_bin_reader, data, size);
}

/* A pickle without its archive, so without storages. */
static bool pickle(const uint8_t *data, size_t size) {
    uint8_t *copy = fuzz_copy(data, size);
    tfm__torch state = {.path = "pickle"};
    tfm__pickle reader = {
        .path = "pickle", .at = copy, .end = copy + size, .callbacks = &tfm__torch_callbacks, .user = &state};
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

/* An embedding table, a matrix and a bias, the first two quantized, and a configuration. */
static void marian_seed(const char *path) {
    static const struct {
        const char *name;
        uint64_t type, dims[2], bytes;
    } ITEMS[] = {{"Wemb", 0x4101, {4, 2}, 12},
                 {"encoder_l1_self_Wq", 0x4101, {2, 2}, 8},
                 {"encoder_l1_self_bq", 0x404, {1, 2}, 8},
                 {"special:model.yml", 0x101, {1, 8}, 8}};
    static const unsigned char NUMBERS[36] = {1, 2, 3,    4, 5, 6,    7,    8, 0, 0, 0, 0x42, 1,   2,   3,   4,   0,
                                              0, 0, 0x42, 0, 0, 0x80, 0x3f, 0, 0, 0, 0, 't',  ':', ' ', '1', '\n'};
    unsigned char file[512] = {1, 0, 0, 0, 0, 0, 0, 0, 4};
    size_t at = 16;
    for (size_t i = 0; i < 4; i++, at += 32) {
        file[at] = (unsigned char)(strlen(ITEMS[i].name) + 1);
        file[at + 8] = (unsigned char)ITEMS[i].type;
        file[at + 9] = (unsigned char)(ITEMS[i].type >> 8);
        file[at + 16] = 2;
        file[at + 24] = (unsigned char)ITEMS[i].bytes;
    }
    for (size_t i = 0; i < 4; i++, at++)
        for (const char *c = ITEMS[i].name; *c; c++)
            file[at++] = (unsigned char)*c;
    for (size_t i = 0; i < 8; i++, at += 4)
        file[at] = (unsigned char)ITEMS[i / 2].dims[i % 2];
    at += 8; /* no padding before the numbers */
    memcpy(file + at, NUMBERS, sizeof(NUMBERS));
    FILE *out = fopen(path, "wb");
    if (!out || fwrite(file, 1, at + sizeof(NUMBERS), out) != at + sizeof(NUMBERS) || fclose(out) != 0)
        abort();
}

/* A shortlist for vocabularies of 3 and 16 words; the checksum is corrected, else mutations would not pass it. */
static void seal_shortlist(uint8_t *file, size_t size) {
    uint64_t sum = 0, word;
    for (size_t i = 16; i + 8 <= size; i += 8) {
        memcpy(&word, file + i, 8);
        sum ^= word + 0x9e3779b9u + (sum << 6) + (sum >> 2);
    }
    if (size >= 16)
        memcpy(file + 8, &sum, 8);
}

static void shortlist_seed(const char *path) {
    const uint64_t numbers[] = {0xF11A48D5013417F5u, 0, 2, 50, 4, 4, 0, 1, 1, 4};
    const int32_t words[] = {7, 3, 8, 15};
    uint8_t file[sizeof(numbers) + sizeof(words)];
    memcpy(file, numbers, sizeof(numbers));
    memcpy(file + sizeof(numbers), words, sizeof(words));
    seal_shortlist(file, sizeof(file));
    FILE *out = fopen(path, "wb");
    if (!out || fwrite(file, 1, sizeof(file), out) != sizeof(file) || fclose(out) != 0)
        abort();
}

static bool shortlist(const uint8_t *data, size_t size) {
    tfm__shortlist *list;
    uint8_t *copy = fuzz_copy(data, size);
    seal_shortlist(copy, size);
    const char *path = fuzz_file("lex", copy, size);
    free(copy);
    if (tfm__shortlist_open(&list, path, 3, 16, true) != TFM_OK)
        return false;
    const int32_t ids[] = {0, 2, 1, 1, -5, 3};
    int32_t *found = NULL;
    size_t count = 0;
    if (tfm__shortlist_find(list, &found, &count, ids, 6) != TFM_OK)
        abort();
    for (size_t i = 0; i < count; i++)
        if (found[i] < 0 || found[i] >= 16 || (i > 0 && found[i] <= found[i - 1]))
            abort();
    free(found);
    tfm__shortlist_free(&list);
    return true;
}

/* The index of a directory with two shards of one tensor each. */
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

/* A kernel pack: its list with a corrected hash, a NUL, and the binaries. */
static bool pack(const uint8_t *data, size_t size) {
    size_t bytes;
    char *list = fuzz_part(&data, &size, &bytes);
    uint8_t *file = malloc(24 + bytes + size);
    if (!file)
        abort();
    const uint64_t numbers[] = {bytes, tfm__hash64(list, bytes, 0)};
    memcpy(file, "tfm pack", 8);
    for (int i = 0; i < 16; i++)
        file[8 + i] = (uint8_t)(numbers[i / 8] >> 8 * (i % 8));
    memcpy(file + 24, list, bytes);
    if (size)
        memcpy(file + 24 + bytes, data, size);
    const char *path = fuzz_file("kernels.pack", file, 24 + bytes + size);
    free(file);
    free(list);
    tfm__kernel_pack *kernels;
    if (tfm__kernel_pack_open(&kernels, path) != TFM_OK)
        return false;
    const tfm__device_fingerprint device = {{"a"}};
    const unsigned char *binary;
    size_t binary_bytes;
    const bool good = tfm__kernel_pack_find(kernels, &binary, &binary_bytes, "a") == TFM_OK;
    if (good)
        fuzz_touch(binary, binary_bytes);
    tfm__kernel_pack_check(kernels, &device);
    tfm__kernel_pack_close(&kernels);
    return good;
}

static void pack_seed(const char *path) {
    const uint64_t hash = tfm__hash64("four", 4, 0);
    FILE *out = fopen(path, "wb");
    if (!out ||
        fprintf(out,
                "{\"format\": 1, \"tfm\": \"%s\", \"device\": {\"platform\": \"a\"}, \"programs\": [{\"name\": \"a\", "
                "\"at\": 0, \"bytes\": 4, \"hash\": \"%016" PRIx64 "\"}]}",
                tfm_version(), hash) < 0 ||
        fwrite("\0four", 1, 5, out) != 5 || fclose(out) != 0)
        abort();
}

const fuzz_target fuzz_weights[] = {{"safetensors", safetensors, NULL},
                                    {"torch", torch, NULL},
                                    {"npz", npz, NULL},
                                    {"marian_bin", marian_bin, marian_seed},
                                    {"pickle", pickle, NULL},
                                    {"zip", zip, NULL},
                                    {"shards", shards, NULL},
                                    {"shortlist", shortlist, shortlist_seed},
                                    {"pack", pack, pack_seed},
                                    {NULL, NULL, NULL}};
