/* Code shared by all targets. */
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fuzz.h"

static const fuzz_target *chosen;
static uint64_t taken;

const fuzz_target *fuzz_chosen(void) {
    return chosen;
}

uint64_t fuzz_taken(void) {
    return taken;
}

static char folder[256];

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static void remove_folder(void) {
    if (*folder)
        nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_folder(void) {
    if (!*folder) {
        snprintf(folder, sizeof(folder), "%s/tfm-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        if (!mkdtemp(folder))
            abort();
        atexit(remove_folder);
    }
    return folder;
}

void fuzz_folder_empty(void) {
    const char *path = fuzz_folder();
    DIR *open = opendir(path);
    if (!open)
        abort();
    for (struct dirent *entry; (entry = readdir(open));)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(open), entry->d_name, 0);
    closedir(open);
}

const char *fuzz_file(const char *name, const void *data, size_t size) {
    static char paths[4][512];
    static int next;
    next = (next + 1) % 4;
    snprintf(paths[next], sizeof(paths[next]), "%s/%s", fuzz_folder(), name);
    FILE *file = fopen(paths[next], "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        abort();
    return paths[next];
}

char *fuzz_part(const uint8_t **data, size_t *size, size_t *bytes) {
    const uint8_t *end = *size ? memchr(*data, 0, *size) : NULL;
    const size_t length = end ? (size_t)(end - *data) : *size;
    char *part = malloc(length + 1);
    if (!part)
        abort();
    if (length)
        memcpy(part, *data, length);
    part[length] = 0;
    *data += length + (end != NULL);
    *size -= length + (end != NULL);
    if (bytes)
        *bytes = length;
    return part;
}

uint8_t *fuzz_copy(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    return copy;
}

void fuzz_touch(const void *data, size_t size) {
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++)
        sum += ((const unsigned char *)data)[i];
    __asm__ volatile("" : : "r"(sum)); /* keeps the compiler from removing the reads */
}

char *fuzz_source(const char *relative) {
    char *path = malloc(strlen(TFM_ROOT) + strlen(relative) + 2);
    if (!path)
        abort();
    sprintf(path, "%s/%s", TFM_ROOT, relative);
    return path;
}

/* ---- Entry points of libFuzzer, which has main; driver.c calls them too ---- */

/* libFuzzer reports exit as a crash of the target, and _exit does not flush the output. */
static void end(int code) {
    _exit(fflush(stdout) == 0 ? code : 2);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    static const fuzz_target *const ALL[] = {fuzz_weights, fuzz_model, fuzz_folders, fuzz_text,
                                             fuzz_grammar, fuzz_train, fuzz_apps};
    const char *name = getenv("TFM_FUZZ"), *seed = getenv("TFM_FUZZ_SEED");
    (void)argc, (void)argv;
    for (size_t i = 0; i < sizeof(ALL) / sizeof(*ALL); i++)
        for (const fuzz_target *t = ALL[i]; t->name; t++)
            if (!name)
                puts(t->name);
            else if (strcmp(t->name, name) == 0)
                chosen = t;
    if (!name)
        end(0);
    if (!chosen) {
        fprintf(stderr, "TFM_FUZZ is '%s', and without it the names of all targets are printed\n", name);
        end(2);
    }
    if (seed) {
        if (chosen->seed)
            chosen->seed(seed);
        remove_folder();
        end(0);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    taken += chosen->run(data, size);
    return 0;
}
