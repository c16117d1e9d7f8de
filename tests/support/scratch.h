/* A temporary folder for tests that read damaged files. */
#ifndef TFM_TESTS_SCRATCH_H
#define TFM_TESTS_SCRATCH_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "support/harness.h"

static char scratch_root[4096];

static inline int scratch_setup(void **state) {
    (void)state;
    /* In memory if possible: some tests create thousands of files. */
    const char *temporary = getenv("TMPDIR") ? getenv("TMPDIR") : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(scratch_root, sizeof(scratch_root), "%s/tfm-test-XXXXXX", temporary);
    return mkdtemp(scratch_root) ? 0 : -1;
}

static inline int scratch_remove(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static inline int scratch_teardown(void **state) {
    (void)state;
    return nftw(scratch_root, scratch_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* For tests that open many contexts: if the binary cache is off, uses TFM_TEST_BINARIES or a temporary folder, so that
 * the driver compiles each kernel once, not once per context. */
static char scratch_binaries[4096];

static inline int scratch_keep_binaries(void) {
    const char *named = getenv("TFM_CACHE_DIR"), *shared = getenv("TFM_TEST_BINARIES"), *temporary = getenv("TMPDIR");
    if (named && strcmp(named, "off") != 0)
        return 0;
    if (shared && shared[0])
        return setenv("TFM_CACHE_DIR", shared, 1);
    snprintf(scratch_binaries, sizeof(scratch_binaries), "%s/tfm-test-XXXXXX", temporary ? temporary : "/tmp");
    return mkdtemp(scratch_binaries) ? setenv("TFM_CACHE_DIR", scratch_binaries, 1) : -1;
}

static inline int scratch_drop_binaries(void) {
    return scratch_binaries[0] ? nftw(scratch_binaries, scratch_remove, 16, FTW_DEPTH | FTW_PHYS) : 0;
}

/* For tests that need a private cache for tuning and validation results, not for kernels. In brief runs a context
 * closes without a cache, because PoCL would compile all kernels again to return their binaries. */
static inline void scratch_close(tfm_context **ctx) {
    const char *named = harness_brief() ? getenv("TFM_CACHE_DIR") : NULL;
    char *kept = named ? strdup(named) : NULL;
    if (kept)
        setenv("TFM_CACHE_DIR", "off", 1);
    tfm_context_free(ctx);
    if (kept)
        setenv("TFM_CACHE_DIR", kept, 1);
    free(kept);
}

/* A path in the folder; valid until the fourth next call. */
static inline const char *scratch_path(const char *name) {
    static char paths[4][sizeof(scratch_root) + 256];
    static int next;
    next = (next + 1) % 4;
    snprintf(paths[next], sizeof(paths[next]), "%s/%s", scratch_root, name);
    return paths[next];
}

/* Creates or replaces a file without the safety of tfm__file_write, which is slow for thousands of files. */
static inline void scratch_write(const char *name, const void *data, size_t size) {
    FILE *file = fopen(scratch_path(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static inline void scratch_text(const char *name, const char *text) {
    scratch_write(name, text, strlen(text));
}

/* The bytes of a file in the source tree; free with free(). */
static inline char *scratch_source(const char *relative, size_t *size) {
    char *path = harness_source(relative), *bytes;
    harness_ok(tfm__file_read(&bytes, size, path));
    free(path);
    return bytes;
}

static inline void scratch_copy(const char *relative, const char *name) {
    size_t size;
    char *bytes = scratch_source(relative, &size);
    scratch_write(name, bytes, size);
    free(bytes);
}

/* Copies a model of the source tree into the folder. */
static inline void scratch_model(const char *relative) {
    static const char *const files[] = {
        "config.json", "generation_config.json", "tokenizer_config.json", "vocab.json", "source.spm",
        "target.spm",  "model.safetensors"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char from[256];
        snprintf(from, sizeof(from), "%s/%s", relative, files[i]);
        scratch_copy(from, files[i]);
    }
}

/* Replaces the first `old` in a text file of the folder. */
static inline void scratch_edit(const char *name, const char *old, const char *with) {
    char *content = NULL;
    harness_ok(tfm__file_read(&content, NULL, scratch_path(name)));
    char *at = strstr(content, old);
    assert_non_null(at);
    size_t size = strlen(content) + strlen(with) + 1;
    char *edited = malloc(size);
    assert_non_null(edited);
    snprintf(edited, size, "%.*s%s%s", (int)(at - content), content, with, at + strlen(old));
    scratch_text(name, edited);
    free(edited);
    free(content);
}

/* Fails unless the call failed with this status and one sentence that contains `part`. */
static inline void scratch_refused(tfm_status got, tfm_status want, const char *part) {
    const char *sentence = tfm_error_message();
    if (got != want || !strstr(sentence, part) || strchr(sentence, '\n'))
        fail_msg("%s instead of %s, \"%s\" instead of \"...%s...\"", tfm_status_name(got), tfm_status_name(want),
                 got == TFM_OK ? "" : sentence, part);
}

/* Mutates `bytes` in one of a few ways; the size may shrink, never grow. */
static inline void scratch_damage(harness_random *random, unsigned char *bytes, size_t *size) {
    size_t at = (size_t)harness_range(random, 0, (int64_t)*size - 1);
    switch (harness_range(random, 0, 4)) {
    case 0:
        bytes[at] ^= (unsigned char)(1u << harness_range(random, 0, 7));
        break;
    case 1:
        bytes[at] = (unsigned char)harness_next(random);
        break;
    case 2: /* change a digit: wrong numbers */
        for (size_t i = at; i < *size; i++) {
            if (bytes[i] >= '0' && bytes[i] <= '9') {
                bytes[i] = (unsigned char)('0' + harness_range(random, 0, 9));
                break;
            }
        }
        break;
    case 3:
        *size = at;
        break;
    default: { /* copy a range from elsewhere */
        size_t from = (size_t)harness_range(random, 0, (int64_t)*size - 1), longest = *size - (at > from ? at : from);
        size_t length = (size_t)harness_range(random, 1, 16);
        memmove(bytes + at, bytes + from, length < longest ? length : longest);
    }
    }
}

#endif
