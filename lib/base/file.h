/* Files: read-only maps, whole reads, atomic writes, folders, paths. */
#ifndef TFM_LIB_FILE_H
#define TFM_LIB_FILE_H

#include <stdbool.h>
#include <sys/types.h>
#include "base/base.h"

/* A whole file, mapped read-only. Another program that cuts the file while it is mapped makes reads fault:
 * model files are replaced by rename, never rewritten in place. */
typedef struct tfm__file {
    const unsigned char *data; /* NULL for an empty file */
    size_t size;
    uint64_t identity; /* a hash of device, inode, size and time of change: another one after the file was replaced */
} tfm__file;

/* Maps `path`. An empty file is fine; a folder, a pipe or a device is refused, and so is, with TFM_ERROR_FORMAT, what
 * Git LFS leaves in the file's place. TFM_ERROR_IO otherwise. */
tfm_status tfm__file_map(tfm__file *out, const char *path);
/* Takes an empty one and empties it. */
void tfm__file_unmap(tfm__file *file);

/* Maps some bytes of the file at `path`, from a whole page on, for munmap(): writes there are private, and reach
 * neither the file nor another map. NULL without a sentence where it is not the file that `identity` tells of, and
 * after a failure. */
void *tfm__file_map_part(const char *path, uint64_t identity, uint64_t first, size_t bytes);
/* Lets go of the pages of the map that lie in these bytes; what is read again comes from the file. */
void tfm__file_evict(const tfm__file *file, const unsigned char *data, size_t bytes);

/* The whole content in fresh memory with a NUL after the last byte, for free(). Takes pipes too. `size` may
 * be NULL. */
tfm_status tfm__file_read(char **out, size_t *size, const char *path);

/* Makes `path` hold exactly these bytes or leaves it as it was: written to a new file beside it,
 * `path`.unfinished, synced, renamed. On failure (a full disk) the new file is removed; a killed run leaves
 * at most that one, which the next writes over. Two who write the same path do so one after the other. */
tfm_status tfm__file_write(const char *path, const void *data, size_t size);

/* The same for what is made piece by piece. */
typedef struct tfm__writer {
    int fd;
    char *name;       /* of the new file */
    const char *path; /* borrowed */
} tfm__writer;

tfm_status tfm__writer_open(tfm__writer *out, const char *path);
tfm_status tfm__writer_add(tfm__writer *writer, const void *data, size_t size);
/* With TFM_OK the file is put in its place, with any other status it is removed, and that status returned. */
tfm_status tfm__writer_close(tfm__writer *writer, tfm_status status);

/* Whether something of that name is there, readable or not. Also true where that cannot be found out, as below a folder
 * without permission: whoever then opens the file gets the reason. */
bool tfm__file_exists(const char *path);
/* The same of a name in a folder. It allocates nothing, so it cannot fail. */
bool tfm__file_exists_in(const char *dir, const char *name);

/* Makes a folder and those above it, with these rights less the process's umask: 0777 for what the caller asked for,
 * 0700 for what is the user's alone. One that is there already is fine, and keeps its rights. */
tfm_status tfm__dir_make(const char *path, mode_t mode);

/* Whether that would work, and files could be written there: TFM_ERROR_IO with the sentence. Makes nothing. */
tfm_status tfm__dir_check_writable(const char *path);

/* The names in a folder, but those that begin with a dot, in byte order. Free with tfm__names_free. */
tfm_status tfm__dir_list(char ***names, size_t *count, const char *dir);
void tfm__names_free(char **names, size_t count);

/* "dir/name" in fresh memory, or NULL with the sentence set. */
char *tfm__path_join(const char *dir, const char *name);

#endif
