/* Sizes and hashes of the training text, as stored in checkpoints. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "train/train.h"

uint64_t train_hash(uint64_t hash, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * 1099511628211u;
    return hash;
}

/* Hashes a file; of a long file only BLOCKS evenly spaced blocks, for a quick start. */
static uint64_t hash_file(const char *path, off_t bytes) {
    enum { BLOCK = 1 << 16, BLOCKS = 1 << 10 };
    const off_t blocks = (bytes + BLOCK - 1) / BLOCK, step = (blocks + BLOCKS - 1) / BLOCKS;
    uint64_t hash = TRAIN_HASH;
    unsigned char *block = malloc(BLOCK);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = 0;
    for (off_t i = 0; block && i < blocks && got >= 0; i += step) {
        got = pread(file, block, BLOCK, i * BLOCK);
        hash = train_hash(hash, block, got > 0 ? (size_t)got : 0);
    }
    if (file >= 0)
        close(file);
    free(block);
    return hash;
}

static void note(json_t *corpus, const char *file) {
    struct stat info;
    char hash[32];
    if (stat(file, &info) != 0)
        return;
    snprintf(hash, sizeof(hash), "%016" PRIx64, hash_file(file, info.st_size));
    json_array_append_new(corpus, json_pack("[I, s]", (json_int_t)info.st_size, hash));
}

json_t *train_corpus_read(const train_recipe *recipe) {
    const cli_strings *const lists[] = {&recipe->sources, &recipe->targets, &recipe->tsvs, &recipe->texts,
                                        &recipe->chats};
    json_t *corpus = json_array();
    for (size_t i = 0; i < CLI_COUNT(lists); i++)
        for (size_t k = 0; k < lists[i]->count; k++)
            note(corpus, lists[i]->items[k]);
    return corpus;
}

bool train_corpus_same(const json_t *noted, const json_t *here) {
    bool same = json_array_size(noted) == json_array_size(here);
    for (size_t i = 0; same && i < json_array_size(here); i++) {
        const json_t *was = json_array_get(noted, i), *is = json_array_get(here, i);
        same = json_equal(was, json_is_integer(was) ? json_array_get(is, 0) : is);
    }
    return same;
}
