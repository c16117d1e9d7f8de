#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"

static tfm_status io_fail(const char *what, const char *path) {
    return tfm__fail(TFM_ERROR_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

/* An open descriptor with the file's size, or -1 with the error message set. */
static int open_for_reading(const char *path, int flags, struct stat *info) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0) {
        io_fail("open", path);
        return -1;
    }
    if (fstat(fd, info) != 0) {
        io_fail("open", path);
    } else if (S_ISDIR(info->st_mode)) {
        tfm__fail(TFM_ERROR_IO, "cannot read %s: it is a folder, not a file", path);
    } else {
        return fd;
    }
    close(fd);
    return -1;
}

/* Git leaves a pointer file when LFS has not fetched the content. */
static tfm_status check_lfs_pointer(const tfm__file *file, const char *path) {
    static const char POINTER[] = "version https://git-lfs";
    if (file->size < sizeof(POINTER) || file->size > 1024 || memcmp(file->data, POINTER, sizeof(POINTER) - 1) != 0)
        return TFM_OK;
    return tfm__fail(TFM_ERROR_FORMAT,
                     "%s is a pointer of Git LFS, not the file itself: fetch that with `git lfs pull`", path);
}

static uint64_t identity(const struct stat *info) {
    const uint64_t all[] = {(uint64_t)info->st_dev, (uint64_t)info->st_ino, (uint64_t)info->st_size,
                            (uint64_t)info->st_mtim.tv_sec, (uint64_t)info->st_mtim.tv_nsec};
    return tfm__hash64(all, sizeof(all), 0);
}

tfm_status tfm__file_map(tfm__file *out, const char *path) {
    *out = (tfm__file){0};
    struct stat info;
    /* Without O_NONBLOCK, opening a pipe without a writer blocks. */
    int fd = open_for_reading(path, O_NONBLOCK, &info);
    if (fd < 0)
        return TFM_ERROR_IO;
    tfm_status status = TFM_OK;
    if (!S_ISREG(info.st_mode)) {
        status = tfm__fail(TFM_ERROR_IO, "cannot map %s: it is not a regular file", path);
    } else if ((uintmax_t)info.st_size > SIZE_MAX) {
        status = tfm__fail(TFM_ERROR_MEMORY, "cannot map %s: it exceeds the address space", path);
    } else if (info.st_size > 0) {
        void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            status = io_fail("map", path);
        else
            *out = (tfm__file){data, (size_t)info.st_size, identity(&info)};
    }
    close(fd);
    if (status == TFM_OK && (status = check_lfs_pointer(out, path)) != TFM_OK)
        tfm__file_unmap(out);
    return status;
}

void tfm__file_unmap(tfm__file *file) {
    if (file->data)
        munmap((void *)(uintptr_t)file->data, file->size);
    *file = (tfm__file){0};
}

void *tfm__file_map_part(const char *path, uint64_t wanted, uint64_t first, size_t bytes) {
    struct stat info;
    void *data = MAP_FAILED;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &info) == 0 && identity(&info) == wanted && first <= (uint64_t)info.st_size &&
        bytes <= (uint64_t)info.st_size - first)
        data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, (off_t)first);
    close(fd);
    return data == MAP_FAILED ? NULL : data;
}

void tfm__file_evict(const tfm__file *file, const unsigned char *data, size_t bytes) {
    const long page = sysconf(_SC_PAGESIZE);
    if (page <= 0 || data < file->data || bytes > file->size || (size_t)(data - file->data) > file->size - bytes)
        return;
    const size_t first = (size_t)(data - file->data) / (size_t)page * (size_t)page;
    const size_t end = (size_t)(data - file->data) + bytes;
    if (end > first)
        madvise((void *)(uintptr_t)(file->data + first), end - first, MADV_DONTNEED);
}

/* Reads until the end; the size from fstat is only the initial buffer size. */
static tfm_status read_all(char **out, size_t *size, int fd, size_t guess, const char *path) {
    size_t capacity = guess + 1, used = 0;
    char *text = tfm__alloc(capacity, 1);
    while (text) {
        if (used == capacity - 1) {
            char *larger = tfm__realloc(text, capacity < 4096 ? 4096 : capacity, 2);
            if (!larger)
                break;
            text = larger;
            capacity = (capacity < 4096 ? 4096 : capacity) * 2;
        }
        ssize_t got = read(fd, text + used, capacity - 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(text);
            return io_fail("read", path);
        }
        used += (size_t)got;
        if (got == 0) {
            text[used] = '\0';
            *out = text;
            *size = used;
            return TFM_OK;
        }
    }
    free(text);
    return TFM_ERROR_MEMORY;
}

tfm_status tfm__file_read(char **out, size_t *size, const char *path) {
    size_t unused;
    *out = NULL;
    *(size ? size : &unused) = 0;
    struct stat info;
    int fd = open_for_reading(path, 0, &info);
    if (fd < 0)
        return TFM_ERROR_IO;
    /* One byte more, so that the read that detects the end does not grow the buffer. */
    size_t guess = S_ISREG(info.st_mode) && info.st_size > 0 ? (size_t)info.st_size + 1 : 4096;
    tfm_status status = read_all(out, size ? size : &unused, fd, guess, path);
    close(fd);
    return status;
}

static int write_all(int fd, const char *data, size_t size) {
    while (size > 0) {
        ssize_t done = write(fd, data, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -1;
        data += done;
        size -= (size_t)done;
    }
    return 0;
}

/* Opens the unfinished copy of `path`, empty, and locked against other writers: descriptor in *out, name in *name.
 * Overwrites one that a killed process left. */
static tfm_status open_temporary(int *out, char **name, const char *path) {
    tfm_status status = TFM_OK;
    *name = tfm__format("%s.unfinished", path);
    if (!*name)
        return TFM_ERROR_MEMORY;
    while (status == TFM_OK) {
        struct stat mine, there;
        const int fd = open(*name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0 || fstat(fd, &mine) != 0) {
            status = io_fail("create", *name);
            if (fd >= 0)
                close(fd);
            break;
        }
        /* Without lock support there is usually one writer. */
        while (flock(fd, LOCK_EX) != 0 && errno == EINTR)
            ;
        /* The previous lock holder may have renamed the file. */
        if (stat(*name, &there) == 0 && mine.st_dev == there.st_dev && mine.st_ino == there.st_ino) {
            *out = fd;
            if (ftruncate(fd, 0) == 0)
                return TFM_OK;
            status = io_fail("empty", *name);
        }
        close(fd);
    }
    free(*name);
    *name = NULL;
    return status;
}

/* Makes a rename durable. Some file systems do not sync folders; durability is theirs then. */
static void sync_parent_dir(const char *path) {
    const char *slash = strrchr(path, '/');
    char *dir = slash ? tfm__format("%.*s", (int)(slash - path + 1), path) : tfm__strdup(".");
    int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(dir);
}

/* Devices and pipes are not replaced: with the output path /dev/null, root would delete it. */
static bool is_replaceable(const char *path) {
    struct stat there;
    if (stat(path, &there) != 0 || S_ISREG(there.st_mode) || S_ISDIR(there.st_mode)) /* rename() rejects a folder */
        return true;
    tfm__fail(TFM_ERROR_IO, "cannot replace %s: it is a device, a pipe or a socket; use another name", path);
    return false;
}

tfm_status tfm__writer_open(tfm__writer *out, const char *path) {
    *out = (tfm__writer){.path = path};
    if (!is_replaceable(path))
        return TFM_ERROR_IO;
    return open_temporary(&out->fd, &out->name, path);
}

tfm_status tfm__writer_add(tfm__writer *w, const void *data, size_t size) {
    return write_all(w->fd, data, size) == 0 ? TFM_OK : io_fail("write", w->path);
}

/* fsync reports a full disk, also on network file systems. The lock is held until the end. */
tfm_status tfm__writer_close(tfm__writer *w, tfm_status status) {
    if (!w->name)
        return status;
    if (status == TFM_OK && fsync(w->fd) != 0)
        status = io_fail("write", w->path);
    if (status == TFM_OK && rename(w->name, w->path) != 0)
        status = io_fail("replace", w->path);
    if (status != TFM_OK)
        unlink(w->name);
    else
        sync_parent_dir(w->path);
    close(w->fd);
    free(w->name);
    *w = (tfm__writer){0};
    return status;
}

tfm_status tfm__file_write(const char *path, const void *data, size_t size) {
    tfm__writer w;
    tfm_status status = tfm__writer_open(&w, path);
    if (status == TFM_OK)
        status = tfm__writer_add(&w, data, size);
    return tfm__writer_close(&w, status);
}

bool tfm__file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool tfm__file_exists_in(const char *dir, const char *name) {
    struct stat info;
    const int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const bool there = fd >= 0 && fstatat(fd, name, &info, 0) == 0;
    if (fd >= 0)
        close(fd);
    return there;
}

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void tfm__names_free(char **names, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

tfm_status tfm__dir_list(char ***names, size_t *count, const char *dir) {
    size_t room = 0;
    *names = NULL;
    *count = 0;
    DIR *folder = opendir(dir);
    if (!folder && errno == ENOTDIR)
        return tfm__fail(TFM_ERROR_IO, "%s is a file: pass its folder", dir);
    if (!folder)
        return io_fail("open the folder", dir);
    tfm_status status = TFM_OK;
    for (struct dirent *entry; status == TFM_OK && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        status = tfm__grow(names, &room, *count + 1, sizeof(**names));
        if (status == TFM_OK && !((*names)[*count] = tfm__strdup(entry->d_name)))
            status = TFM_ERROR_MEMORY;
        if (status == TFM_OK)
            ++*count;
    }
    closedir(folder);
    if (status == TFM_OK && *count > 0)
        qsort(*names, *count, sizeof(**names), compare_names);
    if (status != TFM_OK) {
        tfm__names_free(*names, *count);
        *names = NULL;
        *count = 0;
    }
    return status;
}

tfm_status tfm__dir_make(const char *path, mode_t mode) {
    char *part = tfm__strdup(path);
    if (!part)
        return TFM_ERROR_MEMORY;
    tfm_status status = TFM_OK;
    for (char *end = part; status == TFM_OK; end++) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        char kept = *end;
        *end = '\0';
        /* mkdir may report "read-only" or "not permitted" for an existing folder, so check for it too. */
        if (mkdir(part, mode) != 0) {
            int reason = errno;
            if (!is_folder(part)) {
                errno = reason == EEXIST ? ENOTDIR : reason;
                status = io_fail("make the folder", part);
            }
        }
        *end = kept;
        if (!kept || !end[strspn(end, "/")])
            break;
    }
    free(part);
    return status;
}

tfm_status tfm__dir_check_writable(const char *path) {
    char *part = tfm__strdup(path);
    if (!part)
        return TFM_ERROR_MEMORY;
    while (*part && !tfm__file_exists(part)) { /* up to the nearest existing folder */
        size_t length = strlen(part);
        while (length > 0 && part[length - 1] == '/')
            length--;
        while (length > 0 && part[length - 1] != '/')
            length--;
        while (length > 1 && part[length - 1] == '/')
            length--;
        part[length] = '\0';
    }
    const char *there = *part ? part : ".";
    int reason = is_folder(there) ? 0 : ENOTDIR;
    if (!reason && access(there, W_OK | X_OK) != 0)
        reason = errno;
    free(part);
    errno = reason;
    return reason ? io_fail("write into the folder", path) : TFM_OK;
}

char *tfm__path_join(const char *dir, const char *name) {
    size_t length = strlen(dir);
    bool bare = length == 0 || dir[length - 1] == '/';
    return tfm__format("%s%s%s", dir, bare ? "" : "/", name);
}
