/* The disk cache's entries. Each is a file, named by the key's hash:
 *
 *     0  magic "TFMCACHE"
 *     8  u32 format version          all numbers little-endian
 *    12  u32 bytes of the key
 *    16  u64 bytes of the payload
 *    24  u64 checksum of everything else
 *    32  key, payload
 *
 * All access goes through the folder's descriptor: the folder that was checked is the one that is used. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/file.h"
#include "dev/cache/cache.h"
#include "dev/cache/cache_folder.h"

#define MAGIC "TFMCACHE"
#define VERSION 2
#define HEADER 32
/* Limits of the total and of one entry. A full folder evicts the least recently used until a quarter is free. */
#define MAX_TOTAL ((uint64_t)256 << 20)
#define MAX_ENTRY ((uint64_t)64 << 20)
/* A temporary file this old was left by a process that died. */
#define STALE_SECONDS 3600

static uint64_t load(const unsigned char *bytes, size_t count) {
    uint64_t word = 0;
    for (size_t i = 0; i < count; i++)
        word |= (uint64_t)bytes[i] << (8 * i);
    return word;
}

/* ---- Entries ----------------------------------------------------------------------------------------------------- */

static void store(unsigned char *at, uint64_t value, size_t count) {
    for (size_t i = 0; i < count; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t checksum(const unsigned char header[HEADER], const void *key, size_t key_bytes, const void *payload,
                         size_t bytes) {
    return tfm__hash64(payload, bytes, tfm__hash64(key, key_bytes, tfm__hash64(header, 24, VERSION)));
}

enum entry_state { GOOD, MISSING, OTHER_KEY, DAMAGED, FOLDER };

/* Whether `size` bytes at `entry` are an undamaged entry of this key. Checks bounds before each read. */
static enum entry_state verify(const unsigned char *entry, size_t size, const char *key) {
    if (size < HEADER || memcmp(entry, MAGIC, 8) != 0 || load(entry + 8, 4) != VERSION)
        return DAMAGED;
    uint64_t key_bytes = load(entry + 12, 4), bytes = load(entry + 16, 8);
    if (key_bytes > size - HEADER || bytes != size - HEADER - key_bytes)
        return DAMAGED;
    const unsigned char *payload = entry + HEADER + key_bytes;
    if (load(entry + 24, 8) != checksum(entry, entry + HEADER, key_bytes, payload, bytes))
        return DAMAGED;
    return key_bytes == strlen(key) && memcmp(entry + HEADER, key, key_bytes) == 0 ? GOOD : OTHER_KEY;
}

/* The whole file, for free(); NULL on failure. */
static unsigned char *read_all(int file, size_t size) {
    unsigned char *data = malloc(size);
    for (size_t done = 0; data && done < size;) {
        ssize_t got = read(file, data + done, size - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            free(data);
            return NULL;
        }
        done += (size_t)got;
    }
    return data;
}

static enum entry_state read_entry(void **out, size_t *bytes, int folder, const char *name, const char *key) {
    struct stat about;
    /* Does not follow a link, and does not block on a pipe. */
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return errno == ELOOP ? DAMAGED : MISSING; /* a link; the rest may be gone the next time */
    enum entry_state state = DAMAGED;
    if (fstat(file, &about) != 0) {
        state = MISSING;
    } else if (S_ISREG(about.st_mode) && about.st_size >= HEADER && (uint64_t)about.st_size <= MAX_ENTRY) {
        size_t size = (size_t)about.st_size;
        unsigned char *entry = read_all(file, size);
        state = entry ? verify(entry, size, key) : MISSING;
        if (state == GOOD) {
            *bytes = (size_t)load(entry + 16, 8);
            memmove(entry, entry + size - *bytes, *bytes);
            *out = entry;
            futimens(file, NULL); /* marks it as recently used */
        } else {
            free(entry);
        }
    } else if (S_ISDIR(about.st_mode)) {
        state = FOLDER; /* not an entry; tfm does not remove it */
    }
    close(file);
    return state;
}

void *tfm__cache_get(const char *key, size_t *bytes) {
    char name[TFM__CACHE_NAME];
    void *payload = NULL;
    *bytes = 0;
    int folder = tfm__cache_folder(false, true);
    if (folder < 0)
        return NULL;
    tfm__cache_name(name, key);
    if (read_entry(&payload, bytes, folder, name, key) == DAMAGED) {
        if (tfm__cache_is_persistent(key))
            tfm__log(TFM_LOG_WARNING,
                     "the table of `tfm tune`, %s in the cache folder, is damaged and is not used: run "
                     "`tfm tune` again",
                     name);
        else
            tfm__log(TFM_LOG_INFO, "disk cache: entry %s is damaged: it is rebuilt", name);
        unlinkat(folder, name, 0);
    }
    close(folder);
    return payload;
}

bool tfm__cache_drop(const char *key) {
    char name[TFM__CACHE_NAME];
    int folder = tfm__cache_folder(false, true);
    if (folder < 0)
        return true;
    tfm__cache_name(name, key);
    const bool gone = unlinkat(folder, name, 0) == 0 || errno == ENOENT;
    close(folder);
    return gone;
}

bool tfm__cache_blocked(const char *key) {
    char name[TFM__CACHE_NAME];
    struct stat about;
    const int folder = tfm__cache_folder(false, false);
    if (folder < 0)
        return false;
    tfm__cache_name(name, key);
    const bool blocked = fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(about.st_mode);
    close(folder);
    return blocked;
}

/* ---- Eviction ---------------------------------------------------------------------------------------------------- */

typedef struct cache_entry {
    char name[TFM__CACHE_NAME];
    uint64_t bytes;
    struct timespec used;
} cache_entry;

static int compare_age(const void *a, const void *b) {
    const struct timespec *x = &((const cache_entry *)a)->used, *y = &((const cache_entry *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Whether the file name is an entry's: a folder that the user set may hold other files. Persistent entries are never
 * evicted; their unfinished temporary files are. */
static bool is_entry(const char *name, bool *temporary) {
    if (strspn(name, "0123456789abcdef") != 16 || strlen(name) >= TFM__CACHE_NAME)
        return false;
    const bool lasting = strncmp(name + 16, TFM__CACHE_TABLE, strlen(TFM__CACHE_TABLE)) == 0;
    const char *suffix = lasting ? TFM__CACHE_TABLE : TFM__CACHE_ENTRY;
    if (strncmp(name + 16, suffix, strlen(suffix)) != 0)
        return false;
    *temporary = name[16 + strlen(suffix)] != 0;
    return *temporary || !lasting;
}

/* Lists the entries, and removes temporary files of dead processes. */
static cache_entry *list_entries(size_t *count, uint64_t *total, int folder, DIR *listing) {
    cache_entry *entries = NULL;
    const time_t now = time(NULL);
    *count = 0;
    *total = 0;
    for (struct dirent *next; (next = readdir(listing));) {
        bool temporary;
        struct stat about;
        if (!is_entry(next->d_name, &temporary) || fstatat(folder, next->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (temporary) {
            if (now - about.st_mtime > STALE_SECONDS)
                unlinkat(folder, next->d_name, 0);
            continue;
        }
        cache_entry *bigger = tfm__realloc(entries, *count + 1, sizeof(*entries));
        if (!bigger)
            break;
        entries = bigger;
        cache_entry *entry = &entries[(*count)++];
        memset(entry->name, 0, sizeof(entry->name));
        memcpy(entry->name, next->d_name, strlen(next->d_name));
        entry->bytes = (uint64_t)about.st_size;
        entry->used = about.st_mtim;
        *total += entry->bytes;
    }
    return entries;
}

static DIR *listing_of(int folder) {
    const int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = again < 0 ? NULL : fdopendir(again);
    if (!listing && again >= 0)
        close(again);
    return listing;
}

/* Whether the entry's key has this prefix and suffix; -1 if it cannot be read. Reads only the key. */
static int has_key(int folder, const char *name, const char *beginning, const char *end) {
    enum { MAX_KEY = 1 << 16 };
    const int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const size_t first = strlen(beginning), last = strlen(end);
    unsigned char header[HEADER];
    char *key = NULL;
    int has = 0;
    if (file < 0)
        return errno == ENOENT ? 0 : -1;
    if (pread(file, header, HEADER, 0) == HEADER && memcmp(header, MAGIC, 8) == 0 && load(header + 8, 4) == VERSION) {
        const size_t bytes = (size_t)load(header + 12, 4);
        if (bytes >= first && bytes >= last && bytes <= MAX_KEY) {
            key = malloc(bytes + 1);
            has = key ? pread(file, key, bytes, HEADER) == (ssize_t)bytes && memcmp(key, beginning, first) == 0 &&
                            memcmp(key + bytes - last, end, last) == 0
                      : -1;
        }
    }
    free(key);
    close(file);
    return has;
}

bool tfm__cache_drop_all(const char *beginning, const char *end) {
    const int folder = tfm__cache_folder(false, true);
    DIR *listing = folder < 0 ? NULL : listing_of(folder);
    bool all = folder < 0 || listing;
    for (struct dirent *next; listing && (next = readdir(listing));) {
        bool temporary;
        if (!is_entry(next->d_name, &temporary) || temporary)
            continue;
        const int has = has_key(folder, next->d_name, beginning, end);
        if (has != 0)
            all = has > 0 && unlinkat(folder, next->d_name, 0) == 0 && all;
    }
    if (listing)
        closedir(listing);
    if (folder >= 0)
        close(folder);
    return all;
}

static void evict_entries(int folder) {
    DIR *listing = listing_of(folder);
    if (!listing)
        return;
    size_t count;
    uint64_t total;
    cache_entry *entries = list_entries(&count, &total, folder, listing);
    if (total > MAX_TOTAL) {
        qsort(entries, count, sizeof(*entries), compare_age);
        for (size_t i = 0; i < count && total > MAX_TOTAL / 4 * 3; i++)
            if (unlinkat(folder, entries[i].name, 0) == 0)
                total -= entries[i].bytes;
    }
    free(entries);
    closedir(listing);
}

static bool write_all(int file, const void *data, size_t bytes) {
    for (const char *at = data; bytes > 0;) {
        ssize_t put = write(file, at, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        at += put;
        bytes -= (size_t)put;
    }
    return true;
}

void tfm__cache_put(const char *key, const void *payload, size_t bytes) {
    static atomic_uint number;
    unsigned char header[HEADER] = MAGIC;
    char name[TFM__CACHE_NAME], temporary[2 * TFM__CACHE_NAME];
    size_t key_bytes = strlen(key);
    if (HEADER + (uint64_t)key_bytes + bytes > MAX_ENTRY)
        return;
    int folder = tfm__cache_folder(true, true);
    if (folder < 0)
        return;
    store(header + 8, VERSION, 4);
    store(header + 12, key_bytes, 4);
    store(header + 16, bytes, 8);
    store(header + 24, checksum(header, key, key_bytes, payload, bytes), 8);
    tfm__cache_name(name, key);
    int file = -1;
    /* The number may be taken by a killed process or by a process in another container. */
    for (int tries = 0; file < 0 && tries < 100; tries++) {
        snprintf(temporary, sizeof(temporary), "%s-%ld-%u", name, (long)getpid(), atomic_fetch_add(&number, 1u));
        file = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file < 0 && errno != EEXIST)
            break;
    }
    /* No fsync: an entry that a power cut leaves incomplete fails its checksum and is rebuilt. */
    bool done = file >= 0 && write_all(file, header, HEADER) && write_all(file, key, key_bytes) &&
                write_all(file, payload, bytes);
    int error = errno;
    if (file >= 0 && close(file) != 0 && done) {
        error = errno;
        done = false;
    }
    if (done && renameat(folder, temporary, folder, name) != 0) {
        error = errno;
        done = false;
    }
    if (!done) {
        tfm__cache_warn("an entry cannot be written (%s): free disk space, or set TFM_CACHE_DIR to another folder "
                        "or to off",
                        strerror(error));
        if (file >= 0)
            unlinkat(folder, temporary, 0);
    } else {
        evict_entries(folder);
    }
    close(folder);
}
