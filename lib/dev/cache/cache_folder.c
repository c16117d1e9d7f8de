/* The disk cache's folder: location, trust check, locks, and cleanup in signal handlers. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/file.h"
#include "dev/cache/cache.h"
#include "dev/cache/cache_folder.h"

#define TRIAL_LOCK "trial.lock"
#define TABLE_LOCK "table.lock"

/* ---- Folder ------------------------------------------------------------------------------------------------------ */

bool tfm__cache_is_persistent(const char *key) {
    return strncmp(key, TFM__CACHE_PERSISTENT, strlen(TFM__CACHE_PERSISTENT)) == 0;
}

void tfm__cache_name(char name[TFM__CACHE_NAME], const char *key) {
    snprintf(name, TFM__CACHE_NAME, "%016" PRIx64 "%s", tfm__hash64(key, strlen(key), 0),
             tfm__cache_is_persistent(key) ? TFM__CACHE_TABLE : TFM__CACHE_ENTRY);
}

void tfm__cache_warn(const char *format, ...) {
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    char text[1024];
    if (atomic_flag_test_and_set(&warned))
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tfm__log(TFM_LOG_WARNING, "no disk cache, kernels are compiled each time: %s", text);
}

/* NULL if the cache is disabled. */
static char *folder_path(bool warn) {
    const char *own = getenv("TFM_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own && own[0])
        return strcmp(own, "off") == 0 ? NULL : tfm__strdup(own);
    if (cache && cache[0] == '/') /* the XDG rule: a relative path is to be ignored */
        return tfm__format("%s/tfm", cache);
    if (home && home[0])
        return tfm__format("%s/.cache/tfm", home);
    if (warn)
        tfm__cache_warn("neither TFM_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set");
    return NULL;
}

int tfm__cache_folder(bool make, bool warn) {
    char *path = folder_path(warn);
    struct stat about;
    if (!path)
        return -1;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 && errno == ENOENT && make && tfm__dir_make(path, 0700) == TFM_OK)
        folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        if (warn && (make || errno != ENOENT))
            tfm__cache_warn("%s cannot be opened (%s): set TFM_CACHE_DIR to a folder that you own, or to off", path,
                            strerror(errno));
    } else if (fstat(folder, &about) != 0 || about.st_uid != geteuid() || (about.st_mode & (S_IWGRP | S_IWOTH))) {
        if (warn)
            tfm__cache_warn(
                "%s is not yours alone to write: give TFM_CACHE_DIR a folder that you own, and chmod go-w it", path);
        close(folder);
        folder = -1;
    }
    free(path);
    return folder;
}

bool tfm__cache_usable(void) {
    int folder = tfm__cache_folder(true, true);
    if (folder >= 0)
        close(folder);
    return folder >= 0;
}

char *tfm__cache_subfolder(const char *name) {
    const int folder = tfm__cache_folder(true, false);
    struct stat about;
    if (folder < 0)
        return NULL;
    const bool there = (mkdirat(folder, name, 0700) == 0 || errno == EEXIST) &&
                       fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(about.st_mode) &&
                       faccessat(folder, name, W_OK | X_OK, AT_EACCESS) == 0;
    close(folder);
    char *path = there ? folder_path(false) : NULL, *whole = path ? realpath(path, NULL) : NULL;
    char *inside = whole ? tfm__format("%s/%s", whole, name) : NULL;
    free(whole);
    free(path);
    return inside;
}

/* ---- Locks and handlers ------------------------------------------------------------------------------------------ */

static bool take_lock(int *lock, const char *name, double seconds) {
    const double end = tfm__seconds() + seconds;
    const int folder = tfm__cache_folder(true, false);
    *lock = folder < 0 ? -1 : openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (folder >= 0)
        close(folder);
    for (;;) {
        if (*lock < 0 || flock(*lock, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (errno == EINTR)
            continue;
        const bool taken = errno == EWOULDBLOCK;
        if (!taken || tfm__seconds() >= end) {
            close(*lock);
            *lock = -1;
            return !taken;
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

bool tfm__cache_lock(int *lock, double seconds) {
    return take_lock(lock, TRIAL_LOCK, seconds);
}

bool tfm__cache_lock_table(int *lock, double seconds) {
    return take_lock(lock, TABLE_LOCK, seconds);
}

void tfm__cache_unlock(int lock) {
    if (lock < 0)
        return;
    flock(lock, LOCK_UN); /* a forked child shares the descriptor and closes it later */
    close(lock);
}
