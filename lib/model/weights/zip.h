/* Zip archives with uncompressed entries, as torch.save and numpy.savez write them, read in place from a mapped file.
 * Not a library, because libraries return copies, and weights are used in place.
 *
 * APPNOTE.TXT 6.3.10 of PKWARE, sections 4.3 and 4.5.3, including zip64 (more than 4 GB). */
#ifndef TFM_LIB_ZIP_H
#define TFM_LIB_ZIP_H

#include <stdbool.h>
#include "base/base.h"

typedef struct tfm__zip_entry {
    const char *name; /* [name_bytes], in the archive, not NUL-terminated */
    size_t name_bytes;
    const unsigned char *data; /* [bytes], in the archive, unaligned; NULL if `stored` is false */
    size_t bytes;
    bool stored; /* uncompressed; tfm__zip_find refuses compressed entries */
} tfm__zip_entry;

/* Initialize as {0}. */
typedef struct tfm__zip {
    const char *path; /* borrowed, for messages */
    tfm__zip_entry *entries;
    size_t count; /* sorted by name in byte order, without duplicates */
} tfm__zip;

/* Whether these are the first bytes of an archive. */
bool tfm__zip_is_archive(const unsigned char *data, size_t size);

/* Reads the central directory. TFM_ERROR_FORMAT if the archive is truncated or offsets and sizes are wrong. Checksums
 * are not verified. */
tfm_status tfm__zip_open(tfm__zip *out, const unsigned char *data, size_t size, const char *path);
void tfm__zip_close(tfm__zip *zip);

/* The entry `folder`/`name`: TFM_OK with NULL if there is none, TFM_ERROR_UNSUPPORTED if it is compressed. */
tfm_status tfm__zip_find(const tfm__zip *zip, const tfm__zip_entry **out, const char *folder, size_t folder_bytes,
                         const char *name, size_t name_bytes);

#endif
