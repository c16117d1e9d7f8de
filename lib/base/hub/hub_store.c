#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "base/file.h"
#include "base/hub/hub_store.h"

static tfm_status io_fail(const char *what, const char *path) {
    return tfm__fail(TFM_ERROR_IO, "cannot %s %s: %s; make the cache writable, or set HF_HUB_CACHE to another folder",
                     what, path, strerror(errno));
}

tfm_status tfm__hub_store_open(tfm__hub_store *store, const char *repo, const char *commit) {
    char *cache = NULL, *blobs = NULL;
    *store = (tfm__hub_store){0};
    tfm_status status = tfm__hub_cache_dir(&cache);
    if (status == TFM_OK && (store->repo_dir = tfm__hub_repo_dir(cache, repo))) {
        store->locks = tfm__format("%s/.locks%s", cache, store->repo_dir + strlen(cache));
        store->commit = tfm__strdup(commit);
        blobs = tfm__path_join(store->repo_dir, "blobs");
    }
    if (status == TFM_OK && (!store->locks || !store->commit || !blobs))
        status = TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__dir_make(blobs, 0777);
    if (status == TFM_OK)
        status = tfm__dir_make(store->locks, 0777);
    free(blobs);
    free(cache);
    if (status != TFM_OK)
        tfm__hub_store_close(store);
    return status;
}

void tfm__hub_store_close(tfm__hub_store *store) {
    free(store->repo_dir);
    free(store->locks);
    free(store->commit);
    *store = (tfm__hub_store){0};
}

char *tfm__hub_blob(const tfm__hub_store *store, const char *etag, const char *end) {
    return tfm__format("%s/blobs/%s%s", store->repo_dir, etag, end);
}

static char *snapshot_path(const tfm__hub_store *store, const char *path) {
    return tfm__format("%s/snapshots/%s/%s", store->repo_dir, store->commit, path);
}

bool tfm__hub_store_has(const tfm__hub_store *store, const char *path) {
    struct stat info;
    char *whole = snapshot_path(store, path);
    const bool there = whole && stat(whole, &info) == 0 && S_ISREG(info.st_mode);
    free(whole);
    return there;
}

tfm_status tfm__hub_lock(int *fd, const tfm__hub_store *store, const char *etag) {
    char *path = tfm__format("%s/%s.lock", store->locks, etag);
    if (!path)
        return TFM_ERROR_MEMORY;
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    tfm_status status = *fd < 0 ? io_fail("create", path) : TFM_OK;
    if (status == TFM_OK && flock(*fd, LOCK_EX | LOCK_NB) != 0) {
        status = errno == EWOULDBLOCK || errno == EINTR ? TFM_ERROR_AGAIN : TFM_OK;
        close(*fd);
        *fd = -1;
    }
    free(path);
    return status;
}

/* Creates the folder of a path. */
static tfm_status make_parent(char *path) {
    char *slash = strrchr(path, '/');
    *slash = '\0';
    const tfm_status status = tfm__dir_make(path, 0777);
    *slash = '/';
    return status;
}

/* A file system without symbolic links gets a hard link, or else the file itself. */
static tfm_status place(const char *target, const char *blob, const char *path) {
    char *temporary = tfm__format("%s.%ld.tmp", path, (long)getpid());
    if (!temporary)
        return TFM_ERROR_MEMORY;
    unlink(temporary);
    const bool made = symlink(target, temporary) == 0 || link(blob, temporary) == 0 || rename(blob, temporary) == 0;
    const tfm_status status = made && rename(temporary, path) == 0 ? TFM_OK : io_fail("create", path);
    if (status != TFM_OK)
        unlink(temporary);
    free(temporary);
    return status;
}

tfm_status tfm__hub_store_link(const tfm__hub_store *store, const char *path, const char *etag) {
    char up[64] = "../../", *whole = snapshot_path(store, path), *blob = tfm__hub_blob(store, etag, ""), *target = NULL;
    for (const char *c = path; *c; c++)
        if (*c == '/' && strlen(up) + 4 < sizeof(up))
            strcat(up, "../");
    tfm_status status = whole && blob ? make_parent(whole) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = (target = tfm__format("%sblobs/%s", up, etag)) ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = place(target, blob, whole);
    free(whole);
    free(blob);
    free(target);
    return status;
}

tfm_status tfm__hub_store_ref(const tfm__hub_store *store, const char *revision) {
    if (strcmp(revision, store->commit) == 0)
        return TFM_OK;
    char *path = tfm__format("%s/refs/%s", store->repo_dir, revision);
    tfm_status status = path ? make_parent(path) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__file_write(path, store->commit, strlen(store->commit));
    free(path);
    return status;
}

void tfm__hub_store_absent(const tfm__hub_store *store, const char *path) {
    char saved[TFM__MESSAGE_MAX], *whole = tfm__format("%s/.no_exist/%s/%s", store->repo_dir, store->commit, path);
    tfm__error_save(saved);
    if (whole && !tfm__file_exists(whole) && make_parent(whole) == TFM_OK) {
        const int fd = open(whole, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd >= 0)
            close(fd);
    }
    tfm__error_restore(saved);
    free(whole);
}

tfm_status tfm__hub_store_check_space(const tfm__hub_store *store, uint64_t bytes, const char *name) {
    const double mb = 1e6;
    struct statvfs info;
    if (statvfs(store->repo_dir, &info) != 0 || info.f_blocks == 0)
        return TFM_OK;
    const double free_bytes = (double)info.f_bavail * (double)info.f_frsize;
    if (free_bytes >= (double)bytes)
        return TFM_OK;
    return tfm__fail(TFM_ERROR_IO,
                     "cannot download %s: it needs %.0f MB more, and %s has %.0f MB free; free space, or set "
                     "HF_HUB_CACHE to a folder on another disk",
                     name, (double)bytes / mb + 1, store->repo_dir, free_bytes / mb);
}
