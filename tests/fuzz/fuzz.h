/* Fuzzing of file and text readers: arbitrary bytes must not crash, hang, leak or read out of bounds.
 *
 * A target is a function like libFuzzer's LLVMFuzzerTestOneInput. libFuzzer runs it if clang has it, else driver.c;
 * run.sh supports both. */
#ifndef TFM_TESTS_FUZZ_H
#define TFM_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_target {
    const char *name;
    bool (*run)(const uint8_t *data, size_t size); /* Whether the reader accepted the bytes. */
    void (*seed)(const char *path);                /* Writes a valid input if the tests have no such file; or NULL. */
} fuzz_target;

/* Ends with a target without a name. */
extern const fuzz_target fuzz_weights[], fuzz_model[], fuzz_folders[], fuzz_text[], fuzz_grammar[], fuzz_train[],
    fuzz_apps[];

/* The target named by TFM_FUZZ, set by LLVMFuzzerInitialize. */
const fuzz_target *fuzz_chosen(void);

/* Number of inputs that the target accepted. */
uint64_t fuzz_taken(void);

/* Called by libFuzzer and driver.c; the first once, before any input. Without TFM_FUZZ it prints the names of all
 * targets and exits; with TFM_FUZZ_SEED it writes the target's own seed to that path, if there is one, and exits. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes a file in a folder of this process; the path is valid until the fourth next call. */
const char *fuzz_file(const char *name, const void *data, size_t size);
const char *fuzz_folder(void);
/* Removes the files in the folder. */
void fuzz_folder_empty(void);

/* Splits off one of several files in an input: a NUL-terminated copy of the bytes before the next NUL, for free().
 * Advances *data and *size. */
char *fuzz_part(const uint8_t **data, size_t *size, size_t *bytes);

/* An exact copy, so that the sanitizers detect reads past the end; for free(). */
uint8_t *fuzz_copy(const uint8_t *data, size_t size);

/* Reads every byte. */
void fuzz_touch(const void *data, size_t size);

/* A path in the source tree; for free(). */
char *fuzz_source(const char *relative);

#endif
