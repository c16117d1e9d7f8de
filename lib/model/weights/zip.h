/* Zip archives whose entries are stored as they are, as torch.save and numpy.savez write them: read where they lie in a
 * mapped file, nothing copied. Own code and not a library, because libraries hand out copies of what is stored, and
 * weights are to be used in place.
 *
 * APPNOTE.TXT 6.3.10 of PKWARE, sections 4.3 and 4.5.3; archives and entries of more than 4 GB (zip64) too. */
#ifndef TFM_LIB_ZIP_H
#define TFM_LIB_ZIP_H

#include <stdbool.h>
#include "base/base.h"

typedef struct tfm__zip_entry {
    const char *name; /* [name_bytes], in the archive, without a NUL after it */
    size_t name_bytes;
    const unsigned char *data; /* [bytes], in the archive, unaligned; NULL where `stored` is false */
    size_t bytes;
    bool stored; /* or compressed, which tfm__zip_find refuses */
} tfm__zip_entry;

/* Starts as {0}. */
typedef struct tfm__zip {
    const char *path; /* borrowed, for sentences */
    tfm__zip_entry *entries;
    size_t count; /* by name in byte order, each once */
} tfm__zip;

/* Whether these are the first bytes of an archive. */
bool tfm__zip_is_archive(const unsigned char *data, size_t size);

/* Reads the list of entries. TFM_ERROR_FORMAT where the archive was cut, or lies about places and sizes. What is said
 * of checksums is not looked at. */
tfm_status tfm__zip_open(tfm__zip *out, const unsigned char *data, size_t size, const char *path);
void tfm__zip_close(tfm__zip *zip);

/* The entry `folder`/`name`: TFM_OK with NULL where there is none, and TFM_ERROR_UNSUPPORTED where it is compressed. */
tfm_status tfm__zip_find(const tfm__zip *zip, const tfm__zip_entry **out, const char *folder, size_t folder_bytes,
                         const char *name, size_t name_bytes);

#endif
