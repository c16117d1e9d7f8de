/* Disk cache of expensive results. The key is a text of everything that the result depends on.
 *
 *     size_t bytes;
 *     void *binary = tfm__cache_get(key, &bytes);         // NULL: build it, then
 *     tfm__cache_put(key, binary, bytes);
 *
 * The folder is $TFM_CACHE_DIR, else $XDG_CACHE_HOME/tfm, else ~/.cache/tfm; TFM_CACHE_DIR=off disables the cache. It
 * must belong to the user and be writable by nobody else, because drivers trust the binaries. OpenCL drivers abort on
 * damaged binaries, so magic, version, full key, length and checksum are verified before any byte is returned. An
 * unusable cache is not an error: it causes one warning per process. Thread-safe, and safe with several processes. */
#ifndef TFM_LIB_DEV_CACHE_H
#define TFM_LIB_DEV_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prefix of the keys of persistent entries, which cannot be rebuilt automatically: they are never evicted, and damage
 * causes a warning. */
#define TFM__CACHE_PERSISTENT "lasting "

/* Whether there is a folder to store in; creates it if needed. For a check before expensive work. */
bool tfm__cache_usable(void);

/* The full path of a subfolder, for files that a driver stores; creates both folders. Freed with free(); NULL without a
 * log message on failure. */
char *tfm__cache_subfolder(const char *name);

/* The bytes stored under `key`, freed with free(), or NULL. A damaged entry is deleted; a folder of its name is not. */
void *tfm__cache_get(const char *key, size_t *bytes);

/* Stores a copy, replacing an older one; may evict the oldest entries. */
void tfm__cache_put(const char *key, const void *payload, size_t bytes);

/* Deletes an entry, e.g. when a driver rejects an undamaged binary. False if it could not be removed (a folder). */
bool tfm__cache_drop(const char *key);

/* Whether a folder has the entry's name, so that it cannot be stored. */
bool tfm__cache_blocked(const char *key);

/* Deletes all entries whose keys have this prefix and suffix, except persistent ones. False if some may be left. */
bool tfm__cache_drop_all(const char *beginning, const char *end);

/* Waits at most `seconds` for the folder's lock, exclusive among threads and processes until tfm__cache_unlock or exit.
 * Without a folder or without lock support it succeeds with *lock = -1. False on timeout. */
bool tfm__cache_lock(int *lock, double seconds);
/* The same for a second lock, of changes to the table of `tfm tune`: tuning holds the first one for a long time. */
bool tfm__cache_lock_table(int *lock, double seconds);
void tfm__cache_unlock(int lock);

#endif
