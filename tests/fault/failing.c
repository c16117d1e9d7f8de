#include "fault/failing.h"
#include <execinfo.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1 << 18, PLACES = 1 << 12, DEPTH = 12, OWN_FRAMES = 2 };

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *memory);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool recording, running, stays, met;
static size_t count, failing; /* allocations so far; index of the one that fails */

/* Live blocks: hash table with open addressing, keyed by address. */
static void *blocks[SLOTS], *const GONE = &blocks;
static size_t used; /* slots, including those of freed blocks */

/* Allocation sites, keyed by a hash of the call stack. */
static struct {
    uint64_t stack;
    size_t first, last;
} places[PLACES];
static size_t numbers[2 * PLACES];

/* The call stack of the first failed allocation. */
static void *failed_frames[DEPTH];
static int failed_depth;

static size_t slot_of(const void *block) {
    size_t at = (size_t)(((uintptr_t)block >> 4) * 0x9e3779b97f4a7c15u) % SLOTS;
    while (blocks[at] && blocks[at] != block)
        at = (at + 1) % SLOTS;
    return at;
}

static void remember(void *block) {
    if (!block || !running || used > SLOTS / 2)
        return;
    blocks[slot_of(block)] = block;
    used++;
}

/* Whether the block is in the table of live blocks. */
static bool forget(void *block) {
    const size_t at = slot_of(block);
    const bool known = blocks[at] == block;
    if (known)
        blocks[at] = GONE;
    return known;
}

static void note_place(void) {
    void *frames[DEPTH];
    const int depth = backtrace(frames, DEPTH);
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = OWN_FRAMES; i < depth; i++)
        hash = (hash ^ (uintptr_t)frames[i]) * 0x100000001b3u;
    size_t at = hash % PLACES;
    for (size_t tries = 0; places[at].first && places[at].stack != hash; at = (at + 1) % PLACES)
        if (++tries == PLACES)
            return;
    places[at].stack = hash;
    places[at].last = count;
    if (!places[at].first)
        places[at].first = count;
}

/* Whether this allocation must fail. The lock is held. */
static bool due(void) {
    if (!recording && !running)
        return false;
    count++;
    if (recording)
        note_place();
    const bool fails = running && failing && (stays ? count >= failing : count == failing);
    if (fails && !met)
        failed_depth = backtrace(failed_frames, DEPTH);
    met = met || fails;
    return fails;
}

void *__wrap_malloc(size_t size) {
    pthread_mutex_lock(&lock);
    void *block = due() ? NULL : __real_malloc(size);
    remember(block);
    pthread_mutex_unlock(&lock);
    return block;
}

void *__wrap_calloc(size_t number, size_t size) {
    pthread_mutex_lock(&lock);
    void *block = due() ? NULL : __real_calloc(number, size);
    remember(block);
    pthread_mutex_unlock(&lock);
    return block;
}

/* realloc does not turn an untracked block into a tracked one. */
void *__wrap_realloc(void *old, size_t size) {
    pthread_mutex_lock(&lock);
    const bool fails = due(), ours = !fails && (!old || forget(old));
    void *block = fails ? NULL : __real_realloc(old, size);
    if (ours)
        remember(block ? block : old);
    pthread_mutex_unlock(&lock);
    return block;
}

void __wrap_free(void *memory) {
    pthread_mutex_lock(&lock);
    if (memory && running)
        forget(memory);
    __real_free(memory);
    pthread_mutex_unlock(&lock);
}

void failing_record(void) {
    void *frame;
    backtrace(&frame, 1); /* the first call loads a library, which allocates */
    memset(places, 0, sizeof(places));
    count = 0;
    recording = true;
}

size_t failing_places(const size_t **out) {
    size_t found = 0;
    recording = false;
    for (size_t i = 0; i < PLACES; i++) {
        if (places[i].first)
            numbers[found++] = places[i].first;
        if (places[i].last != places[i].first)
            numbers[found++] = places[i].last;
    }
    *out = numbers;
    return found;
}

void failing_begin(size_t number, bool all_after) {
    memset(blocks, 0, sizeof(blocks));
    used = count = 0;
    failing = number;
    stays = all_after;
    met = false;
    running = true;
}

size_t failing_end(void) {
    size_t left = 0;
    running = false;
    for (size_t i = 0; i < SLOTS; i++)
        left += blocks[i] && blocks[i] != GONE;
    return left;
}

bool failing_met(void) {
    return met;
}

void failing_print(void) {
    if (met)
        backtrace_symbols_fd(failed_frames, failed_depth, 2);
}
