#include "record.h"
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROGRAMS = 4096, LAUNCHES = 8192, NAME = 64 };

/* Programs of this process by handle. Drivers reuse handles; the newest entry is the right one. */
static struct {
    const void *program;
    char name[NAME];
} programs[PROGRAMS];
static size_t program_count;

/* Hashes of written entries, so that each kernel launch is recorded once. */
static uint64_t launches[LAUNCHES];
static size_t launch_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* FNV-1a. */
static uint64_t hash(uint64_t seed, const char *text) {
    for (; *text; text++)
        seed = (seed ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return seed;
}

/* The kernel file: the first file of a #line directive, except the prelude and its includes. Sources without #line,
 * such as CLBlast's, do not belong to the library: false. */
static bool name_of(char *out, size_t size, const char *source) {
    static const char MARK[] = "#line 1 \"";
    for (const char *at = source; (at = strstr(at, MARK));) {
        at += strlen(MARK);
        const int length = (int)strcspn(at, ".\"\n");
        if (strncmp(at, "prelude.", 8) != 0 && strncmp(at, "activations.", 12) != 0)
            return snprintf(out, size, "%.*s", length, at) < (int)size;
    }
    return false;
}

static void add(const char *name, const char *ending, int flags, const char *text) {
    const char *folder = getenv("TFM_POSE_PROGRAMS");
    char path[4096];
    if (!folder || snprintf(path, sizeof(path), "%s/%s.%s", folder, name, ending) >= (int)sizeof(path))
        return;
    const int file = open(path, O_WRONLY | O_CREAT | flags, 0666);
    if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text)) {
        fprintf(stderr, "the pose layer cannot write %s: does the folder of TFM_POSE_PROGRAMS exist?\n", path);
        abort();
    }
    close(file);
}

void record_program(const void *program, const char *source, const char *options) {
    char name[NAME - 17], whole[NAME];
    if (!name_of(name, sizeof(name), source))
        return;
    snprintf(whole, sizeof(whole), "%s-%016" PRIx64, name, hash(hash(UINT64_C(0xcbf29ce484222325), options), source));
    char *text = malloc(strlen(source) + strlen(options) + 8);
    if (!text)
        abort();
    sprintf(text, "// %s\n%s", options, source);
    pthread_mutex_lock(&lock);
    size_t i = 0;
    while (i < program_count && programs[i].program != program)
        i++;
    if (i == PROGRAMS)
        abort(); /* enlarge the table */
    program_count += i == program_count;
    programs[i].program = program;
    memcpy(programs[i].name, whole, sizeof(whole));
    add(whole, "cl", 0, text); /* another process may have written the same text */
    pthread_mutex_unlock(&lock);
    free(text);
}

void record_launch(const void *program, const char *kernel, const size_t group[3]) {
    char line[256];
    pthread_mutex_lock(&lock);
    size_t i = 0, j = 0;
    while (i < program_count && programs[i].program != program)
        i++;
    snprintf(line, sizeof(line), "%s %zu %zu %zu\n", kernel, group[0], group[1], group[2]);
    const uint64_t key = i < program_count ? hash(hash(0, programs[i].name), line) : 0;
    while (j < launch_count && launches[j] != key)
        j++;
    if (i < program_count && j == launch_count && j < LAUNCHES) {
        launches[launch_count++] = key;
        add(programs[i].name, "launches", O_APPEND, line);
    }
    pthread_mutex_unlock(&lock);
}
