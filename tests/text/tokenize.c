/* Encodes texts for tests/golden/compare_tokenizers.py.
 *     tokenize DIRECTORY [source|target [LANGUAGE]] <TEXTS >RESULTS
 * Texts and results end with a NUL. A result is the ids, a line end, the ids without special tokens, a line end, and
 * the text decoded from the former. With TOKENIZE_TIMES in the environment it prints only the texts encoded per second.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tfm/text.h"

static int failed(void) {
    fprintf(stderr, "%s\n", tfm_error_message());
    return 1;
}

static char *read_all(size_t *size) {
    size_t room = 1 << 20;
    char *text = malloc(room);
    *size = 0;
    for (size_t got; text && (got = fread(text + *size, 1, room - *size, stdin)) > 0;) {
        *size += got;
        if (*size == room)
            text = realloc(text, room *= 2);
    }
    return text;
}

static bool one(const tfm_tokenizer *tokenizer, const char *text, tfm_side side, const char *language) {
    int32_t *ids = NULL;
    size_t count;
    char *back = NULL;
    bool good = true;
    for (int plain = 0; plain < 2 && good; plain++) {
        const tfm_encode_options options = {.no_special_tokens = plain, .language = plain ? NULL : language};
        good = tfm_tokenizer_encode_with(tokenizer, &ids, &count, side, text, strlen(text), &options) == TFM_OK &&
               (plain || tfm_tokenizer_decode(tokenizer, &back, ids, count) == TFM_OK);
        for (size_t i = 0; good && i < count; i++)
            printf("%s%d", i ? " " : "", (int)ids[i]);
        putchar('\n');
        tfm_ids_free(&ids);
    }
    if (good)
        printf("%s%c", back, 0);
    tfm_text_free(&back);
    return good;
}

static void measure(const tfm_tokenizer *tokenizer, const char *texts, size_t size, tfm_side side) {
    struct timespec begin, end;
    size_t lines = 0, tokens = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (size_t at = 0; at < size; at += strlen(texts + at) + 1, lines++) {
        int32_t *ids;
        size_t count;
        if (tfm_tokenizer_encode(tokenizer, &ids, &count, side, texts + at, strlen(texts + at)) == TFM_OK)
            tokens += count;
        tfm_ids_free(&ids);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
    printf("%.0f %zu %zu\n", (double)lines / seconds, lines, tokens);
}

int main(int argc, char **argv) {
    tfm_tokenizer *tokenizer = NULL;
    size_t size;
    if (argc < 2 || tfm_tokenizer_open(&tokenizer, argv[1]) != TFM_OK)
        return failed();
    const tfm_side side = argc > 2 && strcmp(argv[2], "target") == 0 ? TFM_TARGET : TFM_SOURCE;
    char *texts = read_all(&size);
    bool good = texts != NULL;
    if (good && getenv("TOKENIZE_TIMES"))
        measure(tokenizer, texts, size, side);
    else
        for (size_t at = 0; good && at < size; at += strlen(texts + at) + 1)
            good = one(tokenizer, texts + at, side, argc > 3 ? argv[3] : NULL);
    free(texts);
    tfm_tokenizer_free(&tokenizer);
    return good ? 0 : failed();
}
