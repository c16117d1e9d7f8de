/* A pass over a corpus far larger than memory. Each line is its number, to check that the reader gives each line once,
 * shuffled, from the middle as from the beginning, in constant memory.
 *     corpus_pass LINES [BUFFER]      BUFFER as in tfm_data_options
 * The files take 24 bytes a line in TMPDIR. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tfm/data.h"
#include "tfm/text.h"

enum { DIGITS = 10, MOST_PIECES = 4096, AGAIN = 50 /* batches from the middle on, which are read twice */ };

/* AddressSanitizer delays frees, up to 256 MB, so that process memory grows until then. Memory is measured here;
 * without a sanitizer nothing calls this. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "quarantine_size_mb=1:thread_local_quarantine_size_kb=64";
}

static char folder[4096];

static void clear_away(void) {
    static const char *const names[] = {"a",          "b",          "some.a",     "some.b",
                                        "source.spm", "target.spm", "vocab.json", "tokenizer_config.json"};
    char path[sizeof(folder) + 64];
    for (size_t i = 0; folder[0] && i < sizeof(names) / sizeof(*names); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("corpus_pass: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static void good(tfm_status status) {
    if (status != TFM_OK)
        fail("%s", tfm_error_message());
}

static const char *path_of(char *out, const char *name) {
    snprintf(out, sizeof(folder) + 64, "%s/%s", folder, name);
    return out;
}

/* Both sides of a line are its number; `step` apart. */
static void write_lines(const char *name, int64_t count, int64_t step) {
    char path[sizeof(folder) + 64];
    FILE *file = fopen(path_of(path, name), "w");
    for (int64_t i = 0; file && i < count; i++)
        fprintf(file, "%0*" PRId64 "\n", DIGITS, i * step);
    if (!file || fclose(file) != 0)
        fail("cannot write %s", path);
}

/* Peak memory of the process, in MB. */
static double most_memory(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    double kilobytes = 0;
    while (file && fgets(line, sizeof(line), file))
        sscanf(line, "VmHWM: %lf", &kilobytes);
    if (file)
        fclose(file);
    return kilobytes / 1000;
}

/* ---- Line numbers from ids ------------------------------------------------------------------------------------- */

/* The digits of each piece. */
static char digits[MOST_PIECES][DIGITS + 1];

static void learn_pieces(const tfm_tokenizer *tokenizer) {
    const int size = tfm_tokenizer_get_info(tokenizer)->source_size;
    if (size > MOST_PIECES)
        fail("%d pieces", size);
    for (int32_t id = 0; id < size; id++) {
        const char *piece = tfm_tokenizer_piece(tokenizer, TFM_SOURCE, id);
        size_t length = 0;
        for (const char *at = piece ? piece : ""; *at && length < DIGITS; at++)
            if (*at >= '0' && *at <= '9')
                digits[id][length++] = *at;
    }
}

static int64_t number_of(const int32_t *ids, int32_t count) {
    int64_t number = 0;
    int length = 0;
    for (int32_t i = 0; i < count; i++)
        for (const char *at = digits[ids[i]]; *at; at++, length++)
            number = 10 * number + (*at - '0');
    return length == DIGITS ? number : -1;
}

/* ---- The pass -------------------------------------------------------------------------------------------------- */

typedef struct pass {
    int64_t lines, given;
    unsigned char *seen; /* a bit for each line */
    double apart;        /* sum of the distances between neighbors in a batch */
    uint64_t hash;       /* of the last batches, in order */
} pass;

static uint64_t add(uint64_t hash, int64_t number) {
    return (hash ^ (uint64_t)number) * 1099511628211u;
}

static void look_at(pass *p, const tfm_batch *b) {
    int64_t last = -1;
    for (int64_t i = 0; i < b->count; i++) {
        const int64_t n = number_of(b->sources + i * b->source_width, b->source_lengths[i]);
        if (n < 0 || n >= p->lines || n != number_of(b->targets + i * b->target_width, b->target_lengths[i]))
            fail("a pair that is none of the files': %" PRId64, n);
        if (p->seen && (p->seen[n / 8] >> n % 8 & 1))
            fail("line %" PRId64 " is given twice", n + 1);
        if (p->seen)
            p->seen[n / 8] |= (unsigned char)(1 << n % 8);
        p->apart += last >= 0 ? (double)(n > last ? n - last : last - n) : 0;
        p->hash = add(p->hash, n);
        p->given++;
        last = n;
    }
}

int main(int argc, char **argv) {
    char a[sizeof(folder) + 64], b[sizeof(folder) + 64];
    const int64_t lines = argc > 1 ? strtoll(argv[1], NULL, 10) : 0,
                  buffer = argc > 2 ? strtoll(argv[2], NULL, 10) : 200000;
    if (lines < 1 || buffer < 1 || lines <= 4 * buffer) {
        fputs("usage: corpus_pass LINES [BUFFER]; more than four times as many lines as are shuffled together\n",
              stderr);
        return 2;
    }
    snprintf(folder, sizeof(folder), "%s/corpus-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(folder))
        fail("cannot make %s", folder);
    atexit(clear_away);
    write_lines("a", lines, 1);
    write_lines("b", lines, 1);
    const int64_t some = 20000;
    write_lines("some.a", some, lines / some);
    write_lines("some.b", some, lines / some);
    tfm_tokenizer *tokenizer = NULL;
    const tfm_vocabulary_options vocabulary = {.vocab_size = 200};
    good(tfm_tokenizer_train(folder, path_of(a, "some.a"), path_of(b, "some.b"), &vocabulary));
    good(tfm_tokenizer_open(&tokenizer, folder));
    learn_pieces(tokenizer);

    tfm_data *data = NULL;
    const tfm_data_options options = {.batch_tokens = 4096, .buffer_size = buffer, .seed = 7};
    good(tfm_data_open(&data, tokenizer, path_of(a, "a"), path_of(b, "b"), &options));
    pass p = {.lines = lines, .seen = calloc((size_t)lines / 8 + 1, 1)};
    tfm_data_position middle = {0};
    uint64_t hash = 0;
    double begun = 0;
    int after = 0; /* batches since the middle */
    for (int64_t batches = 0; p.seen && tfm_data_tell(data).epoch == 0; batches++) {
        tfm_batch batch;
        if (p.given > lines / 2 && middle.line == 0) {
            middle = tfm_data_tell(data);
            p.hash = 0;
        }
        good(tfm_data_next(data, &batch));
        look_at(&p, &batch);
        if (middle.line > 0 && ++after == AGAIN)
            hash = p.hash;
        if (begun == 0 && p.given > 3 * buffer)
            begun = most_memory();
    }
    const double ended = most_memory();
    if (p.given != lines || !p.seen)
        fail("a pass gave %" PRId64 " lines of %" PRId64, p.given, lines);
    printf("%" PRId64 " lines, each given once; neighbors in a batch are %.0f lines apart on average\n", lines,
           p.apart / (double)lines);
    printf("peak memory: %.1f MB after 3 buffers of %" PRId64
           ", %.1f MB after the pass, of which %.1f MB are this test's own\n",
           begun, buffer, ended, (double)lines / 8e6);
    /* Pages of the bit set become resident during the pass. Other growth must stay below 70 bytes a line. */
    if (ended > begun + (lines < 150000 ? 5 : 8) + (double)lines / 8e6)
        fail("memory grows with the corpus");
    if (p.apart / (double)lines < (double)buffer / 8)
        fail("the lines are not shuffled");
    pass again = {.lines = lines};
    good(tfm_data_seek(data, middle));
    for (int i = 0; i < AGAIN; i++) {
        tfm_batch batch;
        good(tfm_data_next(data, &batch));
        look_at(&again, &batch);
    }
    if (again.hash != hash)
        fail("from the middle on the batches are others");
    puts("from the middle on the same batches again");
    free(p.seen);
    tfm_data_free(&data);
    tfm_tokenizer_free(&tokenizer);
    return 0;
}
