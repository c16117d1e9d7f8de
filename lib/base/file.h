/* Files: read-only maps, whole reads, atomic writes, folders, paths. */
#ifndef TFM_LIB_FILE_H
#define TFM_LIB_FILE_H

#include <stdbool.h>
#include <sys/types.h>
#include "base/base.h"

/* A whole file, mapped read-only. Reads fault if another program truncates the file: replace model files by rename,
 * never in place. */
typedef struct tfm__file {
    const unsigned char *data; /* NULL for an empty file */
    size_t size;
    uint64_t identity; /* a hash of device, inode, size and modification time: changes when the file is replaced */
} tfm__file;

/* Maps `path`; it may be empty. Folders, pipes and devices are rejected, and Git LFS pointers with TFM_ERROR_FORMAT.
 * TFM_ERROR_IO otherwise. */
tfm_status tfm__file_map(tfm__file *out, const char *path);
/* Accepts an empty one, and leaves it empty. */
void tfm__file_unmap(tfm__file *file);

/* A private writable map of a part of the file, from a page boundary on, for munmap(). NULL without a message if the
 * file's identity differs, and after a failure. */
void *tfm__file_map_part(const char *path, uint64_t identity, uint64_t first, size_t bytes);
/* Evicts these pages of the map from memory; later reads load them from the file. */
void tfm__file_evict(const tfm__file *file, const unsigned char *data, size_t bytes);

/* The whole content in new memory with a NUL after the last byte, for free(). Accepts pipes. `size` may be NULL. */
tfm_status tfm__file_read(char **out, size_t *size, const char *path);

/* Replaces the content of `path` atomically: writes `path`.unfinished, syncs, renames. A failure (a full disk) removes
 * the new file; a killed process leaves it, and the next write reuses it. Concurrent writers of a path are
 * serialized. */
tfm_status tfm__file_write(const char *path, const void *data, size_t size);

/* The same, written in parts. */
typedef struct tfm__writer {
    int fd;
    char *name;       /* of the new file */
    const char *path; /* borrowed */
} tfm__writer;

tfm_status tfm__writer_open(tfm__writer *out, const char *path);
tfm_status tfm__writer_add(tfm__writer *writer, const void *data, size_t size);
/* With TFM_OK the file is renamed to its path; with another status it is removed and the status returned. */
tfm_status tfm__writer_close(tfm__writer *writer, tfm_status status);

/* Whether the name exists, readable or not. Also true if unknown, e.g. below a folder without permission: opening the
 * file then reports the reason. */
bool tfm__file_exists(const char *path);
/* The same for a name in a folder. Allocates nothing, so it cannot fail. */
bool tfm__file_exists_in(const char *dir, const char *name);

/* Creates a folder and its parents with `mode` less the umask: 0777 for folders that the user named, 0700 for private
 * ones. An existing folder keeps its mode. */
tfm_status tfm__dir_make(const char *path, mode_t mode);

/* Whether tfm__dir_make and writing files would work: else TFM_ERROR_IO. Creates nothing. */
tfm_status tfm__dir_check_writable(const char *path);

/* The names in a folder, without hidden ones, in byte order. Free with tfm__names_free. */
tfm_status tfm__dir_list(char ***names, size_t *count, const char *dir);
void tfm__names_free(char **names, size_t count);

/* "dir/name" in new memory, or NULL with the error message set. */
char *tfm__path_join(const char *dir, const char *name);

#endif
