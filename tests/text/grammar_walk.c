/* Constrained decoding for scripts: random texts of grammars, and masks.
 *     grammar_walk VOCABULARY
 * VOCABULARY is a tokenizer directory or GGUF file, or a file of tokens: for each one its length as uint32, and its
 * bytes. Commands are lines of standard input, each with one line of answer:
 *     schema BYTES, gbnf BYTES      a new grammar, which follows; "ok", or "refused: ..."
 *     walk SEED TOKENS              a random text of about so many tokens as hexadecimal digits; "-" if it never ends
 *     accept BYTES                  the text so far, as tokens of one byte each; "ok" or "no"
 *     mask                          the allowed tokens as hexadecimal words, and the seconds */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "text/grammar/token_trie.h"
#include "text/tokenizer.h"

static tfm__token_trie *trie;
static tfm_grammar *grammar;
static tfm__matcher *matcher;
static uint32_t *bits;

static void stop(const char *what) {
    fprintf(stderr, "grammar_walk: %s: %s\n", what, tfm_error_message());
    exit(2);
}

static tfm_status read_tokens(const char *path) {
    char *data;
    size_t size, count = 0;
    tfm_status status = tfm__file_read(&data, &size, path);
    if (status != TFM_OK)
        return status;
    const char **texts = calloc(size + 1, sizeof(*texts));
    uint32_t *lengths = calloc(size + 1, sizeof(*lengths));
    for (size_t at = 0; at + 4 <= size; at += lengths[count++]) {
        memcpy(&lengths[count], data + at, 4);
        texts[count] = data + (at += 4);
    }
    status = tfm__token_trie_new(&trie, count, texts, lengths);
    free(texts);
    free(lengths);
    free(data);
    return status;
}

static tfm_status read_vocabulary(const char *path) {
    tfm_tokenizer *tokenizer;
    if (tfm_tokenizer_open(&tokenizer, path) != TFM_OK)
        return read_tokens(path);
    const double begin = tfm__seconds();
    const tfm_status status =
        tfm__tokenizer_token_trie(&trie, tokenizer, (size_t)tfm_tokenizer_get_info(tokenizer)->target_size);
    fprintf(stderr, "%zu tokens, a trie in %.3f s\n", trie ? trie->vocabulary : 0, tfm__seconds() - begin);
    tfm_tokenizer_free(&tokenizer);
    return status;
}

static void open_grammar(const char *kind, size_t bytes) {
    char *text = calloc(bytes + 1, 1);
    tfm_grammar_free(&grammar);
    if (fread(text, 1, bytes, stdin) != bytes)
        stop("standard input ends");
    const tfm_status status = (*kind == 's' ? tfm_grammar_from_json_schema : tfm_grammar_from_gbnf)(&grammar, text);
    printf("%s%s\n", status == TFM_OK ? "ok" : "refused: ", status == TFM_OK ? "" : tfm_error_message());
    free(text);
}

static void restart(void) {
    tfm__matcher_free(&matcher);
    if (tfm__matcher_new(&matcher, grammar, trie) != TFM_OK)
        stop("a matcher");
}

static double mask(void) {
    const double begin = tfm__seconds();
    if (tfm__matcher_mask(matcher, bits) != TFM_OK)
        stop("a mask");
    return tfm__seconds() - begin;
}

/* A random token of the mask; a short one after `closing` steps, so that texts end. -1 if there is none. */
static int32_t sample(uint64_t *state, bool closing) {
    int32_t chosen = -1;
    size_t seen = 0;
    for (size_t i = 0; i < trie->vocabulary; i++) {
        const size_t length = trie->begin[i + 1] - trie->begin[i];
        const unsigned char first = length ? trie->bytes[trie->begin[i]] : 0;
        if (!(bits[i / 32] >> i % 32 & 1))
            continue;
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        const size_t weight = closing && length == 1 && strchr("\"]}", first) ? 1000000
                              : closing && length > 1                         ? 1
                                                                              : 100;
        seen += weight;
        if ((*state >> 20) % seen < weight)
            chosen = (int32_t)i;
    }
    return chosen;
}

static void walk(uint64_t seed, int tokens) {
    char text[1 << 16] = "";
    size_t count = 0;
    bool done = false;
    seed = seed * 2654435761u + 1;
    restart();
    for (int step = 0; step < 20 * tokens && !done; step++) {
        mask();
        const int32_t token = sample(&seed, step > tokens);
        done = tfm__matcher_may_end(matcher) && (token < 0 || step > tokens || (seed >> 33) % 8 == 0);
        if (done || token < 0)
            break;
        if (tfm__matcher_accept(matcher, token) != TFM_OK)
            stop("a token of the mask");
        for (size_t i = trie->begin[token]; i < trie->begin[token + 1] && count + 3 < sizeof(text); i++)
            count += (size_t)sprintf(text + count, "%02x", trie->bytes[i]);
    }
    printf("%s\n", done ? text : "-");
}

static void accept_bytes(const unsigned char *text) {
    for (; *text && *text != '\n'; text++) {
        int32_t token = -1;
        for (size_t i = 0; i < trie->vocabulary && token < 0; i++)
            if (trie->begin[i + 1] - trie->begin[i] == 1 && trie->bytes[trie->begin[i]] == *text)
                token = (int32_t)i;
        if (token < 0 || tfm__matcher_accept(matcher, token) != TFM_OK) {
            puts("no");
            return;
        }
    }
    puts("ok");
}

int main(int argc, char **argv) {
    char line[4096];
    if (argc != 2 || read_vocabulary(argv[1]) != TFM_OK)
        stop("give a vocabulary");
    bits = calloc(trie->vocabulary / 32 + 1, sizeof(*bits));
    while (fgets(line, sizeof(line), stdin)) {
        unsigned long long seed;
        size_t bytes;
        int tokens;
        if (sscanf(line, "schema %zu", &bytes) == 1 || sscanf(line, "gbnf %zu", &bytes) == 1) {
            open_grammar(line, bytes);
        } else if (!grammar) {
            puts("no grammar");
        } else if (sscanf(line, "walk %llu %d", &seed, &tokens) == 2) {
            walk(seed, tokens);
        } else if (strncmp(line, "accept ", 7) == 0) {
            restart();
            accept_bytes((const unsigned char *)line + 7);
        } else {
            const double seconds = mask();
            for (size_t i = 0; i < (trie->vocabulary + 31) / 32; i++)
                printf("%08x", bits[i]);
            printf(" %d %.9f\n", tfm__matcher_may_end(matcher), seconds);
        }
        fflush(stdout);
    }
    tfm__matcher_free(&matcher);
    tfm_grammar_free(&grammar);
    tfm__token_trie_free(&trie);
    free(bits);
    return 0;
}
