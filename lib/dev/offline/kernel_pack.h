/* Packs: binaries of programs for a device without a compiler, in one file.
 *
 *     bytes 0-7    "tfm pack"
 *     bytes 8-15   the length of the list
 *     bytes 16-23  tfm__hash64 of the list, so that damage is seen
 *     the list     a JSON object: {"format": 1, "tfm": version, "device": {word: text}, "programs": [{"name", "at",
 *                  "bytes", "hash"}]}
 *     the rest     the binaries; "at" counts from its beginning
 *
 * Numbers are little-endian. A driver sees no byte whose hash is not right: some abort on damaged binaries. */
#ifndef TFM_LIB_DEV_KERNEL_PACK_H
#define TFM_LIB_DEV_KERNEL_PACK_H

#include <jansson.h>
#include "dev/device/device_select.h"

/* ---- Reading ---- */

typedef struct tfm__kernel_pack tfm__kernel_pack;

/* Maps the file and checks its list. TFM_ERROR_IO, or TFM_ERROR_FORMAT for what is no whole pack. */
tfm_status tfm__kernel_pack_open(tfm__kernel_pack **out, const char *path);
void tfm__kernel_pack_close(tfm__kernel_pack **pack);
/* TFM_ERROR_FORMAT, with what differs, where the pack is of another version of tfm, or not for this device. */
tfm_status tfm__kernel_pack_check(const tfm__kernel_pack *pack, const tfm__device_fingerprint *device);
/* The binary of a program; it belongs to the pack. TFM_ERROR_UNSUPPORTED where there is none of that name, which trials
 * of kernels do not take for a compiler's failure; TFM_ERROR_FORMAT where it is damaged. */
tfm_status tfm__kernel_pack_find(const tfm__kernel_pack *pack, const unsigned char **data, size_t *bytes,
                                 const char *name);

/* ---- Writing ---- */

typedef struct tfm__kernel_pack_item {
    const char *name;
    unsigned char *data;
    size_t bytes;
} tfm__kernel_pack_item;

/* `device` is a JSON object as manifests have it. */
tfm_status tfm__kernel_pack_write(uint64_t *size, const char *path, const json_t *device,
                                  const tfm__kernel_pack_item *items, size_t count);

/* ---- What packs and manifests say of a device ---- */

/* NULL without memory. */
json_t *tfm__device_fingerprint_json(const tfm__device_fingerprint *device);
/* TFM_ERROR_FORMAT with the sentence "<what> is for a device whose driver is ...", if the JSON object says another
 * device, or if `version`, which may be NULL, is not this version of tfm. `again` ends the sentence. */
tfm_status tfm__device_fingerprint_check(const json_t *said, const char *version, const tfm__device_fingerprint *device,
                                         const char *what, const char *again);

#endif
