/* Environment of PoCL: a cache folder, and a hardware description where hwloc finds none. PoCL 3.1 uses POCL_CACHE_DIR,
 * else $XDG_CACHE_HOME/pocl/kcache, else $HOME/.cache/pocl/kcache, else a folder in /tmp shared by all users. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/base.h"
#include "base/file.h"
#include "dev/cache/cache.h"
#include "dev/pocl/env.h"

/* 0 if the folder is writable or can be created, by its nearest existing parent; else an errno. Creates nothing, since
 * PoCL may not be installed. */
static int folder_error(const char *path) {
    char *copy = tfm__strdup(path), *part = copy;
    struct stat about;
    int error = copy ? 0 : ENOMEM;
    while (!error && stat(part, &about) != 0) {
        if (errno == ENOENT && strcmp(part, "/") != 0 && strcmp(part, ".") != 0)
            part = dirname(part);
        else
            error = errno;
    }
    if (!error && !S_ISDIR(about.st_mode))
        error = ENOTDIR;
    if (!error && faccessat(AT_FDCWD, part, W_OK | X_OK, AT_EACCESS) != 0)
        error = errno;
    free(copy);
    return error;
}

/* PoCL's default cache folder; NULL if that is not the user's own. */
static char *default_cache_dir(void) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0])
        return tfm__format("%s/pocl/kcache", cache);
    return home && home[0] ? tfm__format("%s/.cache/pocl/kcache", home) : NULL;
}

/* A private folder in the temporary folder, created if needed; NULL on failure. Its name is stable, so that later runs
 * find their kernels. */
static char *temporary_folder(void) {
    const char *temporary = getenv("TMPDIR");
    struct stat about;
    char *path = tfm__format("%s/tfm-pocl-%ld", temporary && temporary[0] == '/' ? temporary : "/tmp", (long)geteuid());
    if (path && (mkdir(path, 0700) == 0 || errno == EEXIST) && lstat(path, &about) == 0 && S_ISDIR(about.st_mode) &&
        about.st_uid == geteuid() && !(about.st_mode & (S_IWGRP | S_IWOTH)) && folder_error(path) == 0)
        return path;
    free(path);
    return NULL;
}

/* PoCL gets the memory size from hwloc, and hwloc from /sys. If that is not mounted, as in a bare chroot, PoCL aborts.
 * hwloc accepts a synthetic description instead, here from /proc and the kernel. */
static void set_hwloc_synthetic(void) {
    static const char *const described[] = {"HWLOC_SYNTHETIC", "HWLOC_XMLFILE", "HWLOC_FSROOT", "HWLOC_COMPONENTS"};
    const long long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const long units = sysconf(_SC_NPROCESSORS_ONLN);
    char words[96];
    for (size_t i = 0; i < TFM__COUNT(described); i++)
        if (getenv(described[i]))
            return;
    if (access("/sys/devices/system/cpu", R_OK | X_OK) == 0 || pages <= 0 || page <= 0 || units <= 0)
        return;
    snprintf(words, sizeof(words), "numa:1(memory=%lld) pu:%ld", pages * page, units);
    if (setenv("HWLOC_SYNTHETIC", words, 1) == 0)
        tfm__log(TFM_LOG_INFO, "/sys is not mounted, so HWLOC_SYNTHETIC=%s is set for PoCL", words);
}

static void prepare_folder(void) {
    const char *set = getenv("POCL_CACHE_DIR");
    if (set && set[0])
        return;
    char saved_message[TFM__MESSAGE_MAX]; /* failures here must not replace the caller's error message */
    tfm__error_save(saved_message);
    char *own = default_cache_dir(), *folder = NULL;
    if (!own || folder_error(own) != 0) {
        folder = tfm__cache_subfolder("pocl");
        if (!folder)
            folder = temporary_folder();
    }
    if (folder && setenv("POCL_CACHE_DIR", folder, 1) == 0)
        tfm__log(TFM_LOG_INFO, "PoCL's cache folder is %s, since %s%s", folder, own ? own : "HOME is not set",
                 own ? " cannot be written" : "");
    free(folder);
    free(own);
    tfm__error_restore(saved_message);
}

static void prepare(void) {
    set_hwloc_synthetic();
    prepare_folder();
}

void tfm__pocl_prepare(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);
}

bool tfm__pocl_cache_error(char *out, size_t size) {
    const char *set = getenv("POCL_CACHE_DIR");
    char *path = set && set[0] ? tfm__strdup(set) : default_cache_dir();
    const bool nowhere = !path;
    const int error = path ? folder_error(path) : 0;
    if (nowhere)
        snprintf(out, size, "it has no writable folder: set POCL_CACHE_DIR to a folder that you own");
    else if (error)
        snprintf(out, size, "it cannot write in %.120s (%s): set POCL_CACHE_DIR to a folder that you own", path,
                 strerror(error));
    free(path);
    return nowhere || error;
}
