/* Kernel packs: program binaries for a device without a compiler, in one file.
 *
 *     bytes 0-7    "tfm pack"
 *     bytes 8-15   the length of the list
 *     bytes 16-23  tfm__hash64 of the list, to detect damage
 *     the list     a JSON object: {"format": 1, "tfm": version, "device": {word: text}, "programs": [{"name", "at",
 *                  "bytes", "hash"}]}
 *     the rest     the binaries; "at" counts from its beginning
 *
 * Numbers are little-endian. Each hash is verified before the driver sees the bytes: some drivers abort on damaged
 * binaries. */
#ifndef TFM_LIB_DEV_KERNEL_PACK_H
#define TFM_LIB_DEV_KERNEL_PACK_H

#include <jansson.h>
#include "dev/device/device_select.h"

/* ---- Reading ---- */

typedef struct tfm__kernel_pack tfm__kernel_pack;

/* Maps the file and validates its list. TFM_ERROR_IO, or TFM_ERROR_FORMAT for an incomplete pack. */
tfm_status tfm__kernel_pack_open(tfm__kernel_pack **out, const char *path);
void tfm__kernel_pack_close(tfm__kernel_pack **pack);
/* TFM_ERROR_FORMAT, with the difference, if the pack is for another version of tfm or another device. */
tfm_status tfm__kernel_pack_check(const tfm__kernel_pack *pack, const tfm__device_fingerprint *device);
/* The binary of a program, owned by the pack. TFM_ERROR_UNSUPPORTED if there is none (kernel validation does not treat
 * that as a failed build); TFM_ERROR_FORMAT if it is damaged. */
tfm_status tfm__kernel_pack_find(const tfm__kernel_pack *pack, const unsigned char **data, size_t *bytes,
                                 const char *name);

/* ---- Writing ---- */

typedef struct tfm__kernel_pack_item {
    const char *name;
    unsigned char *data;
    size_t bytes;
} tfm__kernel_pack_item;

/* `device` is a JSON object as in manifests. */
tfm_status tfm__kernel_pack_write(uint64_t *size, const char *path, const json_t *device,
                                  const tfm__kernel_pack_item *items, size_t count);

/* ---- Device fingerprint ---- */

/* NULL without memory. */
json_t *tfm__device_fingerprint_json(const tfm__device_fingerprint *device);
/* TFM_ERROR_FORMAT with "<what> is for a device whose driver is ...", if the JSON object describes another device, or
 * if `version` (may be NULL) is not this version of tfm. `again` ends the message. */
tfm_status tfm__device_fingerprint_check(const json_t *fingerprint, const char *version,
                                         const tfm__device_fingerprint *device, const char *what, const char *again);

#endif
