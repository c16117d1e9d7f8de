/* Parallel text in several files: the batches of one concatenated pair of files, from any position, and messages per
 * file. */
#include <fcntl.h>
#include <sys/stat.h>
#include "support/scratch.h"
#include "tfm/data.h"

enum { FILES = 7, MOST = 400 };

static tfm_tokenizer *tokenizer;

/* ---- Files ---- */

/* Input of a reader. */
typedef struct given {
    const char *sources[FILES], *targets[FILES];
    size_t count;
    bool tsv;
} given;

static tfm_data *open_given(const given *g, const tfm_data_options *o) {
    tfm_data *data;
    harness_ok(tfm_data_open_pairs(&data, tokenizer, g->sources, g->tsv ? NULL : g->targets, g->count, o));
    return data;
}

static void free_given(given *g) {
    for (size_t i = 0; i < g->count; i++) {
        free((char *)(uintptr_t)g->sources[i]);
        free((char *)(uintptr_t)g->targets[i]);
    }
}

/* A file being written. */
typedef struct writer {
    char *text;
    size_t bytes;
    FILE *file;
} writer;

static void begin(writer *w) {
    w->file = open_memstream(&w->text, &w->bytes);
    assert_non_null(w->file);
}

/* Its path; `ended`: with a final line end. */
static char *finish(writer *w, const char *name, bool ended) {
    assert_int_equal(fclose(w->file), 0);
    scratch_write(name, w->text, w->bytes - (!ended && w->bytes > 0));
    free(w->text);
    char *path = strdup(scratch_path(name));
    assert_non_null(path);
    return path;
}

/* Line `i` of a side, of pair `i` overall. Some pairs are bad. */
static void put(writer *w, int side, int i) {
    const bool empty = i == 5 || i == 18 || i == 22 || i == 28 || i == 40, invalid = i == 9 || i == 27 || i == 47;
    if (empty && side == 0)
        return;
    fprintf(w->file, "%s%d", invalid && side == 1 ? "\xff" : "", i);
    for (int k = 0; k < (i * 7 + 3 * side) % 11; k++)
        fprintf(w->file, " Haus");
}

/* File lengths, final line ends, and line end styles. */
static const struct {
    int lines[2];
    bool ended[2];
    const char *begin, *end;
} ROUGH[FILES] = {
    {{0, 0}, {true, true}, "", "\n"},     {{14, 14}, {false, false}, "", "\n"},
    {{9, 12}, {true, false}, "", "\n"},   {{6, 5}, {false, true}, "\xef\xbb\xbf", "\r\n"},
    {{0, 4}, {true, true}, "", "\n"},     {{5, 0}, {true, false}, "", "\n"},
    {{21, 21}, {false, false}, "", "\n"},
};
enum { PAIRS = 14 + 9 + 5 + 21, UNPAIRED = 3 + 1 + 4 + 5 };

enum { EVEN, UNEVEN, TSV };

/* The same pairs in several files and in one. Even files have equal lines on both sides, and final line ends. */
static void write_files(given *parts, given *whole, int kind) {
    writer w[2], all[2];
    char name[64];
    int pair = 0;
    *parts = (given){.tsv = kind == TSV};
    *whole = (given){.count = 1, .tsv = kind == TSV};
    begin(&all[0]);
    begin(&all[1]);
    for (int file = 0; file < FILES; file++) {
        const int *lines = ROUGH[file].lines, both = lines[0] < lines[1] ? lines[0] : lines[1];
        const char *end = kind == EVEN ? "\n" : ROUGH[file].end;
        begin(&w[0]);
        begin(&w[1]);
        if (kind != EVEN)
            fputs(ROUGH[file].begin, w[0].file);
        for (int i = 0; i < both; i++, pair++)
            for (int side = 0; side < 2; side++) {
                const bool column = kind == TSV && side == 0;
                const int to = kind == TSV ? 0 : side;
                put(&w[to], side, pair);
                put(&all[to], side, pair);
                fputs(column ? "\t" : end, w[to].file);
                fputs(column ? "\t" : "\n", all[to].file);
            }
        for (int side = 0; side < 2; side++) {
            for (int i = both; i < lines[side] && kind == UNEVEN; i++)
                fprintf(w[side].file, "Rest %d%s", i, end);
            snprintf(name, sizeof(name), "%d.%d", file, side);
            *(side ? &parts->targets[file] : &parts->sources[file]) =
                finish(&w[side], name, kind == EVEN || ROUGH[file].ended[side]);
        }
        parts->count++;
    }
    assert_int_equal(pair, PAIRS);
    whole->sources[0] = finish(&all[0], "whole.0", true);
    whole->targets[0] = finish(&all[1], "whole.1", true);
}

/* ---- Runs ---- */

static uint64_t add(uint64_t hash, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * 1099511628211u;
    return hash;
}

static uint64_t next_hash(tfm_data *data) {
    tfm_batch b;
    harness_ok(tfm_data_next(data, &b));
    const int64_t sizes[] = {b.count, b.source_width, b.target_width};
    uint64_t hash = add(1469598103934665603u, sizes, sizeof(sizes));
    hash = add(hash, b.sources, (size_t)(b.count * b.source_width) * sizeof(int32_t));
    return add(hash, b.targets, (size_t)(b.count * b.target_width) * sizeof(int32_t));
}

/* The batches of two passes, the position before each, and the counts up to it. */
typedef struct batches {
    uint64_t hashes[MOST];
    tfm_data_position places[MOST];
    tfm_data_counts counts[MOST];
    int count;
} batches;

static void read_all(batches *b, const given *g, const tfm_data_options *o) {
    tfm_data *data = open_given(g, o);
    for (b->count = 0; (b->places[b->count] = tfm_data_tell(data)).epoch < 2; b->count++) {
        assert_true(b->count < MOST - 1);
        b->counts[b->count] = tfm_data_count(data);
        b->hashes[b->count] = next_hash(data);
    }
    b->counts[b->count] = tfm_data_count(data);
    tfm_data_free(&data);
}

/* From each position another reader gives the same batches. */
static void check_seeks(const batches *b, const given *g, const tfm_data_options *o) {
    tfm_data *data = open_given(g, o);
    for (int from = b->count - 1; from >= 0; from -= harness_brief() && o->buffer_size != 1 ? 3 : 1) {
        harness_ok(tfm_data_seek(data, b->places[from]));
        for (int i = from; i < b->count && i < from + 3; i++) {
            const tfm_data_position at = tfm_data_tell(data);
            assert_memory_equal(&at, &b->places[i], sizeof(at));
            assert_true(next_hash(data) == b->hashes[i]);
        }
    }
    tfm_data_free(&data);
}

/* Several files equal one, for any lengths, line ends and options. */
static void test_several_files_give_the_batches_of_one(void **state) {
    (void)state;
    static const int64_t buffers[] = {0, 1, 3, 7, 14};
    static batches one, several;
    for (int kind = EVEN; kind <= TSV; kind++) {
        given parts, whole;
        write_files(&parts, &whole, kind);
        for (size_t size = 0; size < 5; size++)
            for (int how = 0; how < 4; how++) {
                if (harness_brief() && (kind + (int)size + how) % 2)
                    continue;
                const tfm_data_options o = {.batch_tokens = 64,
                                            .seed = 7,
                                            .buffer_size = buffers[size],
                                            .in_order = how == 1,
                                            .holdout_every = how == 2 ? 5 : 0,
                                            .subword_alpha = how == 3 ? 0.2f : 0};
                read_all(&one, &whole, &o);
                read_all(&several, &parts, &o);
                assert_int_equal(several.count, one.count);
                assert_memory_equal(several.hashes, one.hashes, (size_t)one.count * sizeof(*one.hashes));
                for (int i = 0; i <= one.count; i++) {
                    tfm_data_counts counts = several.counts[i];
                    tfm_data_position place = several.places[i];
                    assert_int_equal(counts.complete, one.counts[i].complete);
                    if (counts.complete)
                        assert_int_equal(counts.unpaired, kind == UNEVEN ? UNPAIRED : 0);
                    counts.unpaired = 0;
                    assert_memory_equal(&counts, &one.counts[i], sizeof(counts));
                    if (kind != EVEN) {
                        place.source_offset = one.places[i].source_offset;
                        place.target_offset = one.places[i].target_offset;
                    }
                    assert_memory_equal(&place, &one.places[i], sizeof(place));
                }
                check_seeks(&several, &parts, &o);
                if (kind == EVEN) /* positions of either reader work in the other */
                    check_seeks(&several, &whole, &o);
            }
        free_given(&parts);
        free_given(&whole);
    }
}

/* Positions outside the files, or with the two sides out of step. */
static void test_invalid_corpus_position_is_rejected(void **state) {
    (void)state;
    given parts, whole;
    struct stat info[2];
    write_files(&parts, &whole, EVEN);
    tfm_data *data = open_given(&parts, NULL);
    assert_int_equal(stat(whole.sources[0], &info[0]) | stat(whole.targets[0], &info[1]), 0);
    const int64_t bytes[] = {info[0].st_size, info[1].st_size};
    const tfm_data_position never[] = {
        {.source_offset = bytes[0] + 1, .target_offset = bytes[1]},
        {.source_offset = bytes[0], .target_offset = bytes[1] + 1},
        {.source_offset = bytes[0], .target_offset = 0},
        {.source_offset = 0, .target_offset = bytes[1]},
        {.line = bytes[0] + 1, .source_offset = bytes[0], .target_offset = bytes[1]},
        {.source_offset = INT64_MAX, .target_offset = INT64_MAX},
        {.source_offset = -1, .target_offset = bytes[1]},
    };
    for (size_t i = 0; i < sizeof(never) / sizeof(*never); i++)
        harness_refused(tfm_data_seek(data, never[i]), TFM_ERROR_INPUT, "the text has changed");
    harness_ok(
        tfm_data_seek(data, (tfm_data_position){.line = PAIRS, .source_offset = bytes[0], .target_offset = bytes[1]}));
    assert_int_equal(tfm_data_tell(data).epoch, 1);
    tfm_data_free(&data);
    free_given(&parts);
    free_given(&whole);
}

/* ---- Messages -------- */

/* Pairs of files with these lines; a target of NULL makes TSV files. */
static given make(const char *const texts[][2], size_t count) {
    given g = {.count = count, .tsv = !texts[0][1]};
    char name[64];
    for (size_t i = 0; i < count; i++)
        for (int side = 0; side < 2; side++) {
            snprintf(name, sizeof(name), "made%zu.%s", i, side ? "tgt" : "src");
            scratch_text(name, texts[i][side] ? texts[i][side] : "");
            char *path = strdup(scratch_path(name));
            assert_non_null(path);
            *(side ? &g.targets[i] : &g.sources[i]) = path;
        }
    return g;
}

/* `strict` returns the good pairs before the rejected one, and names its files and line, from any position. */
static void test_strict_names_file_and_line(void **state) {
    (void)state;
    static const struct {
        const char *texts[3][2];
        int good;
        const char *said;
    } cases[] = {
        {{{"a\nb\nc\n", "a\nb\nc"}, {"d\n\nf", "d\ne\nf"}, {"g\n", "g\n"}},
         4,
         "made1.src and %s/made1.tgt, line 2: the source is empty"},
        {{{"a\nb\nc", "a\nb\nc\n"}, {"", ""}, {"d\ne\n\n", "d\ne\nf\n"}},
         5,
         "made2.src and %s/made2.tgt, line 3: the source is empty"},
        {{{"a\nb\nc", "a\nb\nc\n"}, {"d\ne\nf\n", "d\ne"}, {"g", "g"}},
         5,
         "made1.src has more lines than %s/made1.tgt, which ends after line 2"},
        {{{"a\nb\nc", "a\nb\nc\nd"}, {"e\n", "e\n"}, {"g", "g"}},
         3,
         "made0.tgt has more lines than %s/made0.src, which ends after line 3"},
        {{{"a\n", "a\n"}, {"b\n", "b\n"}, {"", "c\nd\n"}},
         2,
         "made2.tgt has more lines than %s/made2.src, which ends after line 0"},
        {{{"a\ta\nb\tb", NULL}, {"c\tc\nd d\ne\te\n", NULL}, {"f\tf", NULL}},
         3,
         "made1.src, line 2: there is no tab in it"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (int64_t buffer = 0; buffer <= 6; buffer++) {
            given g = make(cases[i].texts, 3);
            char said[sizeof(scratch_root) + 256];
            const tfm_data_options o = {.batch_tokens = 2, .buffer_size = buffer, .strict = true, .in_order = true};
            tfm_data *data = open_given(&g, &o);
            tfm_batch batch;
            tfm_status status = TFM_OK;
            int64_t good = 0;
            tfm_data_position last = {0};
            snprintf(said, sizeof(said), cases[i].said, scratch_root);
            while (status == TFM_OK) {
                last = tfm_data_tell(data);
                status = tfm_data_next(data, &batch);
                good += status == TFM_OK ? batch.count : 0;
                assert_true(good < 10);
            }
            scratch_refused(status, TFM_ERROR_INPUT, said);
            if (buffer > 0) /* without, all are in the buffer that fails */
                assert_int_equal(good, cases[i].good / buffer * buffer);
            scratch_refused(tfm_data_seek(data, last), TFM_ERROR_INPUT, said);
            tfm_data_free(&data);
            free_given(&g);
        }
}

/* A file changed or deleted by the time it is read; also one in a single buffer, in a later pass. */
static void test_changed_or_missing_file_is_reported(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) {
        given parts, whole;
        write_files(&parts, &whole, UNEVEN);
        const bool within = way == 3;
        const tfm_data_options o = {
            .batch_tokens = 64, .buffer_size = within ? 0 : 4, .subword_alpha = within ? 0.2f : 0};
        tfm_data *data = open_given(&parts, &o);
        const char *const changed = way == 1 ? parts.sources[3] : parts.targets[3];
        tfm_batch batch;
        harness_ok(tfm_data_next(data, &batch));
        if (way != 2) {
            FILE *file = fopen(changed, "r+b");
            assert_true(file && fputs("Haus", file) >= 0 && fclose(file) == 0);
            const struct timespec times[] = {{1, 0}, {1, 0}}; /* file times may be coarse */
            assert_int_equal(utimensat(AT_FDCWD, changed, times, 0), 0);
        } else
            assert_int_equal(unlink(changed), 0);
        tfm_status status = TFM_OK;
        while (status == TFM_OK && tfm_data_tell(data).epoch < (within ? 4 : 1))
            status = tfm_data_next(data, &batch);
        scratch_refused(status, TFM_ERROR_IO, changed);
        assert_true(way == 2 || strstr(tfm_error_message(), "has changed during training"));
        if (!within) /* what comes before it was given */
            assert_in_range(tfm_data_tell(data).line, 8, 23);
        tfm_data_free(&data);
        free_given(&parts);
        free_given(&whole);
    }
}

static void test_files_without_a_good_pair_are_rejected(void **state) {
    (void)state;
    static const char *const nothing[][2] = {{"", ""}, {"a\n", ""}, {"\n", "b\n"}};
    given g = make(nothing, 3);
    tfm_data *data = open_given(&g, NULL);
    tfm_batch batch;
    scratch_refused(tfm_data_next(data, &batch), TFM_ERROR_INPUT,
                    "and the other files: there is no valid pair of lines: 1 have an empty side, 0 are too long, 0 are "
                    "not text, 1 have no counterpart");
    tfm_data_free(&data);
    scratch_refused(tfm_data_open_pairs(&data, tokenizer, g.sources, g.targets, 0, NULL), TFM_ERROR_ARGUMENT,
                    "data_open_pairs: it needs at least one file");
    assert_null(data);
    free((char *)(uintptr_t)g.targets[2]);
    g.targets[2] = NULL;
    scratch_refused(tfm_data_open_pairs(&data, tokenizer, g.sources, g.targets, 3, NULL), TFM_ERROR_ARGUMENT,
                    "data_open_pairs: targets[2] is NULL");
    assert_int_equal(unlink(g.targets[1]), 0);
    scratch_refused(tfm_data_open_pairs(&data, tokenizer, g.sources, g.targets, 2, NULL), TFM_ERROR_IO, g.targets[1]);
    assert_null(data);
    free_given(&g);
}

static int setup(void **state) {
    char *dir = harness_source("apps/demo");
    const int failed = scratch_setup(state) != 0 || tfm_tokenizer_open(&tokenizer, dir) != TFM_OK;
    free(dir);
    return failed;
}

static int teardown(void **state) {
    tfm_tokenizer_free(&tokenizer);
    return scratch_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_files_give_the_batches_of_one),
        cmocka_unit_test(test_invalid_corpus_position_is_rejected),
        cmocka_unit_test(test_strict_names_file_and_line),
        cmocka_unit_test(test_changed_or_missing_file_is_reported),
        cmocka_unit_test(test_files_without_a_good_pair_are_rejected),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
