/* The disk cache: what was expensive to make, under a text that says everything it depends on.
 *
 *     size_t bytes;
 *     void *binary = tfm__cache_get(key, &bytes);         // NULL: make it, then
 *     tfm__cache_put(key, binary, bytes);
 *
 * The folder is $TFM_CACHE_DIR, else $XDG_CACHE_HOME/tfm, else ~/.cache/tfm; TFM_CACHE_DIR=off is no cache.
 * It must belong to the user and be writable by nobody else, since what is read from it goes into a driver
 * that trusts it. An entry is an envelope of magic, version, full key, length and checksum, all of it
 * verified before a byte is given out: OpenCL drivers abort on damaged binaries. A cache that cannot be used
 * is never an error: one warning per process, and on without. All of it may be called from any thread and
 * from several processes at once. */
#ifndef TFM_LIB_DEV_CACHE_H
#define TFM_LIB_DEV_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The key of an entry that cannot be made anew unasked begins so: it is not among those that go when the folder is
 * full, and one that is damaged is worth a warning. */
#define TFM__CACHE_PERSISTENT "lasting "

/* Whether there is a folder to store in, which is made if need be: asked before a costly payload is. */
bool tfm__cache_usable(void);

/* The full path of a folder in the cache folder, for what a driver keeps itself; both are made if need be. Freed with
 * free(); NULL, without a word in the log, where that cannot be. */
char *tfm__cache_subfolder(const char *name);

/* The bytes stored under `key`, freed with free(), or NULL if there are none. A damaged entry is deleted; a folder in
 * its place is left alone. */
void *tfm__cache_get(const char *key, size_t *bytes);

/* Stores a copy, replacing what was there; the oldest entries go when the folder is full. */
void tfm__cache_put(const char *key, const void *payload, size_t bytes);

/* Forgets one entry, e.g. when a driver refuses a binary that arrived unharmed. False if something stays in its place,
 * such as a folder. */
bool tfm__cache_drop(const char *key);

/* Whether a folder is in the place of the entry, which then cannot be stored. */
bool tfm__cache_blocked(const char *key);

/* Forgets all entries whose keys begin and end so, but for those that last. False if some may be left. */
bool tfm__cache_drop_all(const char *beginning, const char *end);

/* Waits at most so many seconds for the folder's lock, which one holder at a time has, in this process or another,
 * until tfm__cache_unlock or its end. Where there is no folder, or one that cannot have locks, everybody gets it: *lock
 * is -1 then. False where another has it still. */
bool tfm__cache_lock(int *lock, double seconds);
/* The same of another lock, which is for changes to the table of `tfm tune`: a trial may last, and these do not. */
bool tfm__cache_lock_table(int *lock, double seconds);
void tfm__cache_unlock(int lock);

#endif
