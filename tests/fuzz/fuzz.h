/* Readers of files and text, given whatever bytes: none may crash, hang, leak, or read where nothing is.
 *
 * A target is a function like libFuzzer's LLVMFuzzerTestOneInput: it takes any bytes and keeps nothing. libFuzzer
 * drives them where clang has it, and driver.c where not; run.sh does both. */
#ifndef TFM_TESTS_FUZZ_H
#define TFM_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_target {
    const char *name;
    bool (*run)(const uint8_t *data, size_t size); /* Whether the reader took the bytes for what they should be. */
    void (*seed)(const char *path); /* Writes a good input, where no file of the tests is one; or NULL. */
} fuzz_target;

/* By name, the last of them nameless. */
extern const fuzz_target fuzz_weights[], fuzz_model[], fuzz_folders[], fuzz_text[], fuzz_train[], fuzz_apps[];

/* The target that the environment's TFM_FUZZ names. LLVMFuzzerInitialize has chosen it. */
const fuzz_target *fuzz_chosen(void);

/* How many inputs the target has taken. */
uint64_t fuzz_taken(void);

/* What libFuzzer calls, and driver.c too. The first is called once, before any input: without TFM_FUZZ in the
 * environment it prints the names of all targets and ends the program; with TFM_FUZZ_SEED too it writes the target's
 * own seed to that path, if it has one, and ends the program. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Makes or replaces a file in a folder of this process; the path is good until the next call but three. */
const char *fuzz_file(const char *name, const void *data, size_t size);
const char *fuzz_folder(void);
/* Removes the files in it. */
void fuzz_folder_empty(void);

/* Several files in one input: what is before the next NUL, with a NUL after it in memory of its own, for free(). *data
 * and *size are moved on to what follows. */
char *fuzz_part(const uint8_t **data, size_t *size, size_t *bytes);

/* A copy of just these bytes, so that the sanitizers see a step beyond them; for free(). */
uint8_t *fuzz_copy(const uint8_t *data, size_t size);

/* Looks at every byte. */
void fuzz_touch(const void *data, size_t size);

/* A path in the source tree; for free(). */
char *fuzz_source(const char *relative);

#endif
