/* The kernel pack's file format: see kernel_pack.h. */
#include "dev/offline/kernel_pack.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/json.h"

#define MAGIC "tfm pack"
enum { HEADER = 24, FORMAT = 1 };

struct tfm__kernel_pack {
    char *path;
    tfm__file file;
    json_t *list;
    const unsigned char *binaries;
    uint64_t binary_bytes; /* of all binaries */
};

static uint64_t load_u64(const unsigned char *at) {
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

static void store_u64(unsigned char *at, uint64_t value) {
    for (int i = 0; i < 8; i++, value >>= 8)
        at[i] = (unsigned char)value;
}

static void format_hash(char out[17], const void *data, size_t bytes) {
    snprintf(out, 17, "%016" PRIx64, tfm__hash64(data, bytes, 0));
}

/* ---- Devices --------------------------------------------------------------------------------------------------- */

json_t *tfm__device_fingerprint_json(const tfm__device_fingerprint *device) {
    json_t *out = json_object();
    for (int i = 0; i < TFM__FINGERPRINT_FIELDS && out; i++)
        if (json_object_set_new(out, tfm__fingerprint_field_names[i], json_string(device->text[i])) != 0) {
            json_decref(out);
            out = NULL;
        }
    if (!out)
        tfm__fail(TFM_ERROR_MEMORY, "out of host memory for the device fingerprint");
    return out;
}

tfm_status tfm__device_fingerprint_check(const json_t *fingerprint, const char *version,
                                         const tfm__device_fingerprint *device, const char *what, const char *again) {
    static const char *const SPOKEN[TFM__FINGERPRINT_FIELDS] = {"platform", "platform's version", "name", "vendor",
                                                                "driver",   "OpenCL version"};
    if (version && strcmp(version, tfm_version()) != 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s is of tfm %.40s, and this is tfm %s: %s", what, version, tfm_version(),
                         again);
    for (int i = 0; i < TFM__FINGERPRINT_FIELDS; i++) {
        const char *text = json_string_value(json_object_get(fingerprint, tfm__fingerprint_field_names[i]));
        if (!text)
            return tfm__fail(TFM_ERROR_FORMAT, "%s lacks the %s of its device: %s", what, SPOKEN[i], again);
        if (strcmp(text, device->text[i]) != 0)
            return tfm__fail(TFM_ERROR_FORMAT,
                             "%s is for a device whose %s is \"%.200s\", but this device's is \"%s\": %s", what,
                             SPOKEN[i], text, device->text[i], again);
    }
    return TFM_OK;
}

/* ---- Reading --------------------------------------------------------------------------------------------------- */

static tfm_status damaged(const tfm__kernel_pack *pack, const char *why) {
    return tfm__fail(TFM_ERROR_FORMAT,
                     "%s is not a complete kernel pack: %s; create it again with `tfm kernels --pack`", pack->path,
                     why);
}

static tfm_status check_program(const tfm__kernel_pack *pack, const json_t *program) {
    const json_t *at = json_object_get(program, "at"), *bytes = json_object_get(program, "bytes");
    if (!json_string_value(json_object_get(program, "name")) || !json_string_value(json_object_get(program, "hash")) ||
        !json_is_integer(at) || !json_is_integer(bytes))
        return damaged(pack, "a program in its list lacks name, place, size or hash");
    const json_int_t begin = json_integer_value(at), length = json_integer_value(bytes);
    if (begin < 0 || length < 1 || (uint64_t)begin > pack->binary_bytes ||
        (uint64_t)length > pack->binary_bytes - (uint64_t)begin)
        return damaged(pack, "it is truncated in its binaries");
    return TFM_OK;
}

static tfm_status read_list(tfm__kernel_pack *pack) {
    const tfm__file *file = &pack->file;
    if (file->size < HEADER || memcmp(file->data, MAGIC, 8) != 0)
        return damaged(pack, "it has another magic");
    const uint64_t bytes = load_u64(file->data + 8);
    if (bytes > file->size - HEADER)
        return damaged(pack, "it is truncated in its list");
    if (load_u64(file->data + 16) != tfm__hash64(file->data + HEADER, (size_t)bytes, 0))
        return damaged(pack, "its list is damaged");
    if (tfm__json_parse(&pack->list, (const char *)file->data + HEADER, (size_t)bytes, pack->path) != TFM_OK)
        return TFM_ERROR_FORMAT;
    pack->binaries = file->data + HEADER + bytes;
    pack->binary_bytes = file->size - HEADER - bytes;
    const json_t *format = json_object_get(pack->list, "format"), *programs = json_object_get(pack->list, "programs");
    if (!json_is_integer(format) || json_integer_value(format) != FORMAT)
        return damaged(pack, "this version of tfm does not support its format");
    if (!json_string_value(json_object_get(pack->list, "tfm")) || !json_is_array(programs))
        return damaged(pack, "its list lacks the version of tfm or the programs");
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < json_array_size(programs) && status == TFM_OK; i++)
        status = check_program(pack, json_array_get(programs, i));
    return status;
}

tfm_status tfm__kernel_pack_open(tfm__kernel_pack **out, const char *path) {
    tfm__kernel_pack *pack = *out = tfm__alloc(1, sizeof(*pack));
    tfm_status status = pack && (pack->path = tfm__strdup(path)) ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__file_map(&pack->file, path);
    if (status == TFM_OK)
        status = read_list(pack);
    if (status != TFM_OK)
        tfm__kernel_pack_close(out);
    return status;
}

void tfm__kernel_pack_close(tfm__kernel_pack **pack) {
    if (!*pack)
        return;
    json_decref((*pack)->list);
    tfm__file_unmap(&(*pack)->file);
    free((*pack)->path);
    free(*pack);
    *pack = NULL;
}

tfm_status tfm__kernel_pack_check(const tfm__kernel_pack *pack, const tfm__device_fingerprint *device) {
    char *what = tfm__format("the kernel pack %s", pack->path);
    if (!what)
        return TFM_ERROR_MEMORY;
    const tfm_status status = tfm__device_fingerprint_check(
        json_object_get(pack->list, "device"), json_string_value(json_object_get(pack->list, "tfm")), device, what,
        "export and pack kernels for this device, with `tfm kernels`");
    free(what);
    return status;
}

tfm_status tfm__kernel_pack_find(const tfm__kernel_pack *pack, const unsigned char **data, size_t *bytes,
                                 const char *name) {
    const json_t *programs = json_object_get(pack->list, "programs");
    for (size_t i = 0; i < json_array_size(programs); i++) {
        const json_t *program = json_array_get(programs, i);
        if (strcmp(json_string_value(json_object_get(program, "name")), name) != 0)
            continue;
        char hash[17];
        *data = pack->binaries + json_integer_value(json_object_get(program, "at"));
        *bytes = (size_t)json_integer_value(json_object_get(program, "bytes"));
        format_hash(hash, *data, *bytes);
        if (strcmp(json_string_value(json_object_get(program, "hash")), hash) != 0)
            return damaged(pack, "one of its binaries is damaged");
        return TFM_OK;
    }
    return tfm__fail(TFM_ERROR_UNSUPPORTED,
                     "the kernel pack %s has no program %s, which this run needs: repeat `tfm kernels --export` "
                     "with this model and these options, then pack",
                     pack->path, name);
}

/* ---- Writing --------------------------------------------------------------------------------------------------- */

static json_t *list_of(const json_t *device, const tfm__kernel_pack_item *items, size_t count) {
    json_t *programs = json_array();
    uint64_t at = 0;
    for (size_t i = 0; i < count; at += items[i].bytes, i++) {
        char hash[17];
        format_hash(hash, items[i].data, items[i].bytes);
        json_array_append_new(programs, json_pack("{s:s, s:I, s:I, s:s}", "name", items[i].name, "at", (json_int_t)at,
                                                  "bytes", (json_int_t)items[i].bytes, "hash", hash));
    }
    const bool whole = json_array_size(programs) == count;
    json_t *list = whole ? json_pack("{s:i, s:s, s:O, s:o}", "format", FORMAT, "tfm", tfm_version(), "device",
                                     (json_t *)(uintptr_t)device, "programs", programs)
                         : NULL;
    if (!whole)
        json_decref(programs);
    return list;
}

tfm_status tfm__kernel_pack_write(uint64_t *size, const char *path, const json_t *device,
                                  const tfm__kernel_pack_item *items, size_t count) {
    json_t *list = list_of(device, items, count);
    char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    if (!text)
        return tfm__fail(TFM_ERROR_MEMORY, "out of host memory for the list of %s", path);
    const size_t bytes = strlen(text);
    unsigned char header[HEADER] = MAGIC;
    store_u64(header + 8, bytes);
    store_u64(header + 16, tfm__hash64(text, bytes, 0));
    *size = HEADER + bytes;
    tfm__writer writer;
    tfm_status status = tfm__writer_open(&writer, path);
    if (status == TFM_OK)
        status = tfm__writer_add(&writer, header, HEADER);
    if (status == TFM_OK)
        status = tfm__writer_add(&writer, text, bytes);
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        *size += items[i].bytes;
        status = tfm__writer_add(&writer, items[i].data, items[i].bytes);
    }
    free(text);
    return tfm__writer_close(&writer, status);
}
