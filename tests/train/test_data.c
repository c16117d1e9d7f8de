/* Parallel text as batches: their pairs, order and resumption. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "support/harness.h"
#include "tfm/data.h"

static tfm_tokenizer *tokenizer;

static char *write_file(const char *text, size_t bytes) {
    char *path = strdup("/tmp/tfm-test-data-XXXXXX");
    assert_non_null(path);
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes && close(fd) == 0);
    return path;
}

/* So many numbered, distinct lines of one to eleven words. */
static char *write_lines(int count, int shift) {
    char *text = calloc((size_t)count, 200);
    size_t at = 0;
    assert_non_null(text);
    for (int i = 0; i < count; i++) {
        at += (size_t)sprintf(text + at, "%d", i);
        for (int k = 0; k < (i * 7 + shift) % 11; k++)
            at += (size_t)sprintf(text + at, " Haus");
        text[at++] = '\n';
    }
    char *path = write_file(text, at);
    free(text);
    return path;
}

/* A hash of a batch; checks its pairs and wider side. */
static uint64_t hash_of(const tfm_batch *b, int64_t tokens, uint64_t *pairs) {
    uint64_t hash = 1469598103934665603u;
    const int64_t wide = b->source_width > b->target_width ? b->source_width : b->target_width;
    assert_true(b->count == 1 || b->count * wide <= tokens);
    *pairs += (uint64_t)b->count;
    for (int64_t i = 0; i < b->count; i++) {
        assert_in_range(b->source_lengths[i], 1, b->source_width);
        assert_in_range(b->target_lengths[i], 1, b->target_width);
        for (int64_t k = 0; k < b->source_width; k++)
            hash = (hash ^ (uint64_t)(uint32_t)b->sources[i * b->source_width + k]) * 1099511628211u;
        for (int64_t k = 0; k < b->target_width; k++)
            hash = (hash ^ (uint64_t)(uint32_t)b->targets[i * b->target_width + k]) * 1099511628211u;
    }
    return hash;
}

/* Hashes of all batches of `epochs` passes; returns how many. */
static int run(uint64_t *hashes, int most, const char *source, const char *target, tfm_data_options o, int epochs,
               uint64_t *pairs) {
    tfm_data *data;
    int n = 0;
    *pairs = 0;
    harness_ok(tfm_data_open(&data, tokenizer, source, target, &o));
    while (tfm_data_tell(data).epoch < epochs) {
        tfm_batch batch;
        harness_ok(tfm_data_next(data, &batch));
        assert_true(n < most);
        hashes[n++] = hash_of(&batch, o.batch_tokens, pairs);
    }
    tfm_data_free(&data);
    return n;
}

enum { LINES = 500, MOST = 4000 };

/* Every pair once per pass; the order depends on pass and seed and is deterministic; with one buffer, and with many
 * that do not divide the files. */
static void test_every_pair_comes_once_a_pass_in_seeded_order(void **state) {
    (void)state;
    char *source = write_lines(LINES, 0), *target = write_lines(LINES, 3);
    static uint64_t a[MOST], b[MOST];
    for (int small = 0; small < 2; small++) {
        tfm_data_options o = {.batch_tokens = 128, .seed = 7, .buffer_size = small ? 77 : 0};
        uint64_t pairs, again;
        const int n = run(a, MOST, source, target, o, 2, &pairs);
        assert_int_equal(pairs, 2 * LINES);
        assert_int_equal(run(b, MOST, source, target, o, 2, &again), n);
        assert_memory_equal(a, b, (size_t)n * sizeof(*a));
        const int first = run(b, MOST, source, target, o, 1, &again);
        assert_int_equal(again, LINES);
        assert_memory_not_equal(a, a + first, (size_t)(n - first) * sizeof(*a));
        o.seed = 8;
        run(b, MOST, source, target, o, 1, &again);
        assert_memory_not_equal(a, b, (size_t)first * sizeof(*a));
    }
    unlink(source);
    unlink(target);
    free(source);
    free(target);
}

/* From any batch on another reader gives the same batches; also with sampled segmentations. */
static void test_seek_gives_the_same_batches(void **state) {
    (void)state;
    char *source = write_lines(LINES, 0), *target = write_lines(LINES, 3);
    static uint64_t all[MOST];
    static tfm_data_position places[MOST];
    for (int kind = 0; kind < 4; kind += harness_brief() ? 3 : 1) {
        const tfm_data_options o = {
            .batch_tokens = 128, .seed = 7, .buffer_size = kind & 1 ? 77 : 0, .subword_alpha = kind & 2 ? 0.2f : 0};
        tfm_data *data, *other;
        int n = 0;
        uint64_t pairs = 0;
        harness_ok(tfm_data_open(&data, tokenizer, source, target, &o));
        for (tfm_batch batch; (places[n] = tfm_data_tell(data)).epoch < 3;) {
            harness_ok(tfm_data_next(data, &batch));
            all[n++] = hash_of(&batch, o.batch_tokens, &pairs);
        }
        harness_ok(tfm_data_open(&other, tokenizer, source, target, &o));
        for (int from = n - 1; from >= 0; from -= n / 13) {
            harness_ok(tfm_data_seek(other, places[from]));
            for (int i = from; i < n && i < from + 5; i++) {
                tfm_batch batch;
                const tfm_data_position at = tfm_data_tell(other);
                assert_memory_equal(&at, &places[i], sizeof(at));
                harness_ok(tfm_data_next(other, &batch));
                assert_int_equal(hash_of(&batch, o.batch_tokens, &pairs), all[i]);
            }
        }
        /* Without such a batch the reader does not move. */
        tfm_data_position beyond = places[0];
        tfm_batch batch;
        beyond.batch = 100000;
        harness_ok(tfm_data_seek(other, places[n / 2]));
        assert_int_equal(tfm_data_seek(other, beyond), TFM_ERROR_INPUT);
        for (int i = n / 2; i < n; i++) {
            const tfm_data_position at = tfm_data_tell(other);
            assert_memory_equal(&at, &places[i], sizeof(at));
            harness_ok(tfm_data_next(other, &batch));
            assert_int_equal(hash_of(&batch, o.batch_tokens, &pairs), all[i]);
        }
        /* Counters of a damaged checkpoint that would overflow. */
        tfm_data_position never[] = {{.epoch = INT64_MAX},
                                     {.batch = INT64_MAX},
                                     {.line = INT64_MAX},
                                     {.source_offset = INT64_MAX},
                                     {.target_offset = INT64_MAX},
                                     {.epoch = -1},
                                     {.line = -1},
                                     {.source_offset = -1},
                                     {.line = INT64_MAX, .source_offset = INT64_MAX, .target_offset = INT64_MAX}};
        for (size_t i = 0; i < sizeof(never) / sizeof(*never); i++) {
            never[i].subword_alpha_e9 = places[0].subword_alpha_e9;
            harness_refused(tfm_data_seek(other, never[i]), TFM_ERROR_INPUT, "the text has changed");
        }
        tfm_data_free(&data);
        tfm_data_free(&other);
    }
    unlink(source);
    unlink(target);
    free(source);
    free(target);
}

/* ---- Language model text ---- */

enum { BLOCK = 16 };

/* A hash of a checked batch of blocks; *learned: its target tokens. */
static uint64_t hash_blocks(const tfm_batch *b, int64_t tokens, uint64_t *learned) {
    uint64_t hash = 1469598103934665603u;
    assert_null(b->sources);
    assert_null(b->source_lengths);
    assert_int_equal(b->source_width, 0);
    assert_in_range(b->target_width, 2, BLOCK + 1);
    assert_true(b->count == 1 || b->count * (b->target_width - 1) <= tokens);
    for (int64_t i = 0; i < b->count; i++) {
        assert_in_range(b->target_lengths[i], 2, b->target_width);
        *learned += (uint64_t)b->target_lengths[i] - 1;
        for (int64_t k = 0; k < b->target_lengths[i]; k++)
            hash = (hash ^ (uint64_t)(uint32_t)b->targets[i * b->target_width + k]) * 1099511628211u;
    }
    return hash;
}

/* Batches of two passes, and the position of each; returns how many. */
static int run_texts(uint64_t *hashes, tfm_data_position *places, const char *const *files, size_t count,
                     tfm_data_options o, uint64_t *learned) {
    tfm_data *data;
    int n = 0;
    harness_ok(tfm_data_open_texts(&data, tokenizer, files, count, &o));
    for (tfm_batch batch; (places[n] = tfm_data_tell(data)).epoch < 2; n++) {
        assert_true(n < MOST - 1);
        harness_ok(tfm_data_next(data, &batch));
        hashes[n] = hash_blocks(&batch, o.batch_tokens, &learned[places[n].epoch]);
    }
    assert_true(tfm_data_count(data).complete);
    assert_int_equal(tfm_data_count(data).pairs, LINES);
    tfm_data_free(&data);
    return n;
}

/* Tokens of the lines, including EOS. */
static uint64_t count_tokens(const char *path) {
    char line[512];
    uint64_t sum = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        int32_t *ids;
        size_t n;
        harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &n, TFM_TARGET, line, strcspn(line, "\n")));
        tfm_ids_free(&ids);
        sum += n;
    }
    fclose(file);
    return sum;
}

/* Each token except a buffer's first is a target once per pass, in another order each time, and from any batch on. */
static void test_every_token_is_a_target_once_a_pass(void **state) {
    (void)state;
    static uint64_t all[MOST], again[MOST];
    static tfm_data_position places[MOST], others[MOST];
    char *path = write_lines(LINES, 0);
    const char *const files[] = {path};
    const uint64_t total = count_tokens(path);
    for (int small = 0; small < 2; small++) {
        tfm_data_options o = {.batch_tokens = 5 * BLOCK, .seq_len = BLOCK, .seed = 7, .buffer_size = small ? 77 : 0};
        const uint64_t want = total - (small ? (LINES - 1) / 77 + 1 : 1);
        uint64_t learned[2] = {0}, more[2] = {0};
        const int n = run_texts(all, places, files, 1, o, learned);
        assert_int_equal(learned[0], want);
        assert_int_equal(learned[1], want);
        assert_int_equal(run_texts(again, others, files, 1, o, more), n);
        assert_memory_equal(all, again, (size_t)n * sizeof(*all));
        assert_memory_not_equal(all, all + n / 2, (size_t)(n / 2) * sizeof(*all));
        tfm_data *data;
        harness_ok(tfm_data_open_texts(&data, tokenizer, files, 1, &o));
        for (int from = n - 1; from >= 0; from -= n / 13) {
            harness_ok(tfm_data_seek(data, places[from]));
            for (int i = from; i < n && i < from + 5; i++) {
                tfm_batch batch;
                const tfm_data_position at = tfm_data_tell(data);
                assert_memory_equal(&at, &places[i], sizeof(at));
                harness_ok(tfm_data_next(data, &batch));
                assert_true(hash_blocks(&batch, o.batch_tokens, more) == all[i]);
            }
        }
        tfm_data_position never = places[0];
        never.target_offset = 1; /* there is one file */
        harness_refused(tfm_data_seek(data, never), TFM_ERROR_INPUT, "the text has changed");
        tfm_data_free(&data);
        o.seed = 8;
        run_texts(again, others, files, 1, o, more);
        assert_memory_not_equal(all, again, (size_t)(n / 2) * sizeof(*all));
    }
    unlink(path);
    free(path);
}

/* Several files equal one; unshuffled batches are the text in order, with EOS after each line. */
static void test_texts_in_order_have_end_tokens(void **state) {
    (void)state;
    const char text[] = "Haus\n\nHaus Haus\n\xff\n  \nHaus\n";
    char *files[] = {write_file(text, 6), write_file(text + 6, 10), write_file("", 0),
                     write_file(text + 16, sizeof(text) - 17)};
    char *whole = write_file(text, sizeof(text) - 1);
    tfm_data_options o = {.batch_tokens = 100, .seq_len = 50, .in_order = true, .has_eos_id = true, .eos_id = 999999};
    tfm_data *data;
    tfm_batch batch;
    int32_t first[64];
    for (int parts = 0; parts < 2; parts++) {
        harness_ok(tfm_data_open_texts(
            &data, tokenizer, parts ? (const char *const *)files : (const char *const[]){whole}, parts ? 4 : 1, &o));
        harness_ok(tfm_data_next(data, &batch));
        const tfm_data_counts c = tfm_data_count(data);
        assert_true(c.complete && c.pairs == 3 && c.empty == 2 && c.invalid == 1);
        assert_int_equal(batch.count, 1);
        const int32_t n = batch.target_lengths[0], *ids = batch.targets;
        assert_in_range(n, 10, 50);
        assert_int_equal(ids[n - 1], 999999);
        if (parts)
            assert_memory_equal(first, ids, (size_t)n * sizeof(*ids));
        memcpy(first, ids, (size_t)n * sizeof(*ids));
        int ends = 0;
        for (int32_t i = 0; i < n; i++)
            ends += ids[i] == 999999;
        assert_int_equal(ends, 3);
        tfm_data_free(&data);
    }
    o.strict = true;
    harness_ok(tfm_data_open_texts(&data, tokenizer, (const char *const[]){whole}, 1, &o));
    harness_refused(tfm_data_next(data, &batch), TFM_ERROR_INPUT, "line 4: ");
    tfm_data_free(&data);
    harness_ok(tfm_data_open_texts(&data, tokenizer, (const char *const *)files, 4, &o));
    char place[512];
    snprintf(place, sizeof(place), "%s, line 1: ", files[3]); /* as an editor counts */
    harness_refused(tfm_data_next(data, &batch), TFM_ERROR_INPUT, place);
    tfm_data_free(&data);
    o.strict = false;
    harness_ok(tfm_data_open_texts(&data, tokenizer, (const char *const *)&files[2], 1, &o));
    harness_refused(tfm_data_next(data, &batch), TFM_ERROR_INPUT, "no line of text to train on");
    tfm_data_free(&data);
    o.seq_len = -1;
    harness_refused(tfm_data_open_texts(&data, tokenizer, (const char *const *)files, 1, &o), TFM_ERROR_ARGUMENT,
                    "seq_len -1");
    harness_refused(tfm_data_open_texts(&data, tokenizer, (const char *const *)files, 0, NULL), TFM_ERROR_ARGUMENT,
                    "at least one file");
    for (int i = 0; i < 4; i++) {
        unlink(files[i]);
        free(files[i]);
    }
    unlink(whole);
    free(whole);
}

/* Tokens of a pass whose targets are all `line`, and the number of distinct segmentations: at most MOST. */
static int cuts(tfm_data *data, const char *line, int64_t *tokens) {
    static int32_t seen[MOST][64];
    int count = 0;
    *tokens = 0;
    for (const int64_t pass = tfm_data_tell(data).epoch; tfm_data_tell(data).epoch == pass;) {
        tfm_batch batch;
        harness_ok(tfm_data_next(data, &batch));
        for (int64_t i = 0; i < batch.count; i++) {
            const int32_t n = batch.target_lengths[i], *ids = batch.targets + i * batch.target_width;
            char *decoded;
            int known = 0;
            assert_in_range(n, 1, 63);
            harness_ok(tfm_tokenizer_decode(tokenizer, &decoded, ids, (size_t)n));
            assert_string_equal(decoded, line);
            tfm_text_free(&decoded);
            while (known < count &&
                   (seen[known][0] != n || memcmp(seen[known] + 1, ids, (size_t)n * sizeof(*ids)) != 0))
                known++;
            if (known == count) {
                seen[count][0] = n;
                memcpy(seen[count++] + 1, ids, (size_t)n * sizeof(*ids));
            }
            *tokens += n;
        }
    }
    return count;
}

/* Sampled segmentations decode to the same text, differ by line and pass, and do not depend on other readers of the
 * process. */
static void test_sampled_segmentations_keep_the_text(void **state) {
    (void)state;
    enum { SAME = 200 };
    static const char LINE[] = "What a beautiful house this is!";
    char text[SAME * sizeof(LINE)];
    for (size_t i = 0; i < SAME; i++) {
        memcpy(text + i * sizeof(LINE), LINE, sizeof(LINE) - 1);
        text[(i + 1) * sizeof(LINE) - 1] = '\n';
    }
    char *path = write_file(text, sizeof(text));
    const tfm_data_options o = {.batch_tokens = 1000, .seed = 7, .subword_alpha = 0.1f}, more = {.subword_alpha = 0.5f},
                           other = {.batch_tokens = 1000, .seed = 8, .subword_alpha = 0.1f};
    tfm_data *data, *twin, *noise;
    int64_t best, least, most, unlike, again[2];
    harness_ok(tfm_data_open(&data, tokenizer, path, path, &(tfm_data_options){0}));
    assert_int_equal(cuts(data, LINE, &best), 1);
    tfm_data_free(&data);
    harness_ok(tfm_data_open(&data, tokenizer, path, path, &more));
    assert_in_range(cuts(data, LINE, &most), SAME / 2, SAME);
    tfm_data_free(&data);
    harness_ok(tfm_data_open(&data, tokenizer, path, path, &other));
    cuts(data, LINE, &unlike);
    tfm_data_free(&data);
    harness_ok(tfm_data_open(&data, tokenizer, path, path, &o));
    const int first = cuts(data, LINE, &least);
    assert_in_range(first, 5, SAME);
    assert_in_range(least, best + 1, most - 1);
    assert_int_not_equal(least, unlike);
    cuts(data, LINE, &again[0]);
    assert_int_not_equal(again[0], least);
    tfm_data_free(&data);

    harness_ok(tfm_data_open(&noise, tokenizer, path, path, &other));
    harness_ok(tfm_data_open(&data, tokenizer, path, path, &o));
    harness_ok(tfm_data_open(&twin, tokenizer, path, path, &o));
    assert_int_equal(cuts(data, LINE, &again[1]), first);
    assert_int_equal(again[1], least);
    cuts(noise, LINE, &again[1]);
    assert_int_equal(again[1], unlike);
    assert_int_equal(cuts(twin, LINE, &again[1]), first);
    assert_int_equal(again[1], least);
    cuts(twin, LINE, &again[1]);
    assert_int_equal(again[1], again[0]);
    tfm_data_free(&noise);
    tfm_data_free(&data);
    tfm_data_free(&twin);
    unlink(path);
    free(path);
}

/* A line that just fits may not fit in sampled pieces: a pass has the same pairs anyway. */
static void test_sampled_segmentations_keep_all_pairs(void **state) {
    (void)state;
    char *source = write_lines(LINES, 0), *target = write_lines(LINES, 3);
    static uint64_t hashes[MOST];
    tfm_data_options o = {.batch_tokens = 400, .max_length = 7, .seed = 7, .buffer_size = 100};
    uint64_t pairs = 0;
    do { /* fails if no line is too long: at the longest line's best segmentation */
        o.max_length++;
        run(hashes, MOST, source, target, o, 1, &pairs);
    } while (pairs < LINES);
    o.subword_alpha = 0.3f;
    run(hashes, MOST, source, target, o, 3, &pairs);
    assert_int_equal(pairs, 3 * LINES);
    unlink(source);
    unlink(target);
    free(source);
    free(target);
}

/* Another segmentation gives other batches: the buffer restarts. */
static void test_seek_with_other_segmentation_restarts_the_buffer(void **state) {
    (void)state;
    char *source = write_lines(LINES, 0), *target = write_lines(LINES, 3);
    const tfm_data_options fine = {.batch_tokens = 128, .subword_alpha = 0.9f}, coarse = {.batch_tokens = 128};
    tfm_data_position last = {0};
    tfm_data *data;
    tfm_batch batch;
    harness_ok(tfm_data_open(&data, tokenizer, source, target, &fine));
    for (tfm_data_position at; (at = tfm_data_tell(data)).epoch == 0; last = at)
        harness_ok(tfm_data_next(data, &batch));
    tfm_data_free(&data);
    harness_ok(tfm_data_open(&data, tokenizer, source, target, &coarse));
    harness_ok(tfm_data_seek(data, last));
    const tfm_data_position at = tfm_data_tell(data);
    assert_true(last.batch > 0 && at.epoch == 0 && at.batch == 0 && at.subword_alpha_e9 == 0);
    harness_ok(tfm_data_next(data, &batch));
    tfm_data_free(&data);
    unlink(source);
    unlink(target);
    free(source);
    free(target);
}

/* A pass whose last buffer is full ends there, whether bad pairs or nothing follows; bad pairs count in that pass. */
static void test_pass_ends_with_a_full_last_buffer(void **state) {
    (void)state;
    enum { GOOD = 100 };
    char text[GOOD * 9 + 16], *files[2];
    for (int bad = 0; bad < 3; bad += 2)
        for (int buffer = GOOD / 4; buffer <= GOOD; buffer *= 2) {
            size_t at = 0;
            for (int i = 0; i < GOOD; i++)
                at += (size_t)sprintf(text + at, "Haus %d\n", i);
            files[0] = write_file(text, at);
            memset(text + at, '\n', (size_t)bad);
            files[1] = write_file(text, at + (size_t)bad);
            for (int of = 0; of < 2; of++) { /* unpaired and empty lines */
                const char *target = files[1], *source = files[of];
                tfm_data_options o = {.batch_tokens = 40, .buffer_size = buffer, .seed = 7};
                static uint64_t hashes[MOST];
                uint64_t pairs;
                run(hashes, MOST, source, target, o, 1, &pairs);
                assert_int_equal(pairs, GOOD);
                run(hashes, MOST, source, target, o, 3, &pairs);
                assert_int_equal(pairs, 3 * GOOD);
                tfm_data *data;
                tfm_batch batch;
                harness_ok(tfm_data_open(&data, tokenizer, source, target, &o));
                while (tfm_data_tell(data).epoch < 1)
                    harness_ok(tfm_data_next(data, &batch));
                const tfm_data_counts c = tfm_data_count(data);
                assert_int_equal(c.pairs, GOOD);
                assert_int_equal(of ? c.empty : c.unpaired, bad);
                /* The position of older versions, which did not detect the end: the next pass. */
                const tfm_data_position old = {
                    .line = GOOD, .source_offset = (int64_t)at, .target_offset = (int64_t)at};
                harness_ok(tfm_data_seek(data, old));
                assert_int_equal(tfm_data_tell(data).epoch, 1);
                /* `strict` rejects a pair only after the good ones. */
                tfm_data_free(&data);
                o.strict = true;
                harness_ok(tfm_data_open(&data, tokenizer, source, target, &o));
                for (pairs = 0; pairs < GOOD; pairs += (uint64_t)batch.count)
                    harness_ok(tfm_data_next(data, &batch));
                assert_int_equal(tfm_data_next(data, &batch), bad ? TFM_ERROR_INPUT : TFM_OK);
                tfm_data_free(&data);
            }
            for (int i = 0; i < 2; i++) {
                unlink(files[i]);
                free(files[i]);
            }
        }
}

/* Counts of part of a pass do not replace those of a full pass. */
static void test_pair_count_is_of_whole_passes(void **state) {
    (void)state;
    char *source = write_lines(LINES, 0), *target = write_lines(LINES, 3);
    const tfm_data_options o = {.batch_tokens = 128, .seed = 7, .buffer_size = 77};
    tfm_data *data;
    tfm_batch batch;
    tfm_data_position middle = {0};
    harness_ok(tfm_data_open(&data, tokenizer, source, target, &o));
    while ((middle = tfm_data_tell(data)).line < LINES / 2)
        harness_ok(tfm_data_next(data, &batch));
    assert_false(tfm_data_count(data).complete);
    assert_in_range(tfm_data_count(data).pairs, 77, LINES - 77);
    while (tfm_data_tell(data).epoch < 1)
        harness_ok(tfm_data_next(data, &batch));
    assert_true(tfm_data_count(data).complete);
    assert_int_equal(tfm_data_count(data).pairs, LINES);
    tfm_data_free(&data);
    for (int pass = 1; pass <= 2; pass++) { /* a pass that begins in its middle, and the next one */
        if (pass == 1) {
            harness_ok(tfm_data_open(&data, tokenizer, source, target, &o));
            harness_ok(tfm_data_seek(data, middle));
        }
        while (tfm_data_tell(data).epoch < pass)
            harness_ok(tfm_data_next(data, &batch));
        assert_int_equal(tfm_data_count(data).complete, pass == 2);
        assert_true(pass == 1 || tfm_data_count(data).pairs == LINES);
    }
    harness_ok(tfm_data_seek(data, middle)); /* known counts stay known */
    assert_int_equal(tfm_data_count(data).pairs, LINES);
    tfm_data_free(&data);
    unlink(source);
    unlink(target);
    free(source);
    free(target);
}

/* Bytes of so many lines. */
static int64_t bytes_before(const char *text, int lines) {
    const char *at = text;
    while (lines > 0)
        lines -= *at++ == '\n';
    return at - text;
}

/* Bad pairs are skipped and counted, or rejected with their line. */
static void test_bad_pairs_are_counted_or_rejected_with_line(void **state) {
    (void)state;
    const char source_text[] =
        "\xef\xbb\xbf"
        "Gut.\r\n\nHaus Haus Haus Haus Haus Haus Haus Haus Haus\n\xff\xfe\nGut.\nGut.\nGut.\nmehr\nmehr";
    const char target_text[] = "Good.\nx\nx\nx\n   \nG\0d.\nGood.\n";
    char *source = write_file(source_text, sizeof(source_text) - 1),
         *target = write_file(target_text, sizeof(target_text) - 1);
    tfm_data_options o = {.batch_tokens = 100, .max_length = 8, .in_order = true};
    tfm_data *data;
    tfm_batch batch;
    harness_ok(tfm_data_open(&data, tokenizer, source, target, &o));
    harness_ok(tfm_data_next(data, &batch));
    assert_int_equal(batch.count, 2);
    assert_int_equal(batch.source_lengths[0], batch.source_lengths[1]); /* no BOM, no CR */
    const tfm_data_counts c = tfm_data_count(data);
    assert_int_equal(c.pairs, 2);
    assert_int_equal(c.empty, 2);
    assert_int_equal(c.too_long, 1);
    assert_int_equal(c.invalid, 2);
    assert_int_equal(c.unpaired, 2);
    tfm_data_free(&data);
    o.strict = true;
    const char *const sentences[] = {
        [2] = "line 2: the source is empty",
        [3] = "line 3: the source has 10 tokens, and max_length is 8",
        [4] = "line 4: the source: byte 1 of the line, 0xff,",
        [5] = "line 5: the target is empty",
        [6] = "line 6: the target: byte 2 of the line is NUL",
    };
    for (int line = 2; line <= 6; line++) { /* from that line on */
        const tfm_data_position at = {.line = line - 1,
                                      .source_offset = bytes_before(source_text, line - 1),
                                      .target_offset = bytes_before(target_text, line - 1)};
        harness_ok(tfm_data_open(&data, tokenizer, source, target, &o));
        assert_int_equal(tfm_data_seek(data, at), TFM_ERROR_INPUT);
        assert_non_null(strstr(tfm_error_message(), sentences[line]));
        tfm_data_free(&data);
    }
    unlink(source);
    unlink(target);
    free(source);
    free(target);
}

static void test_tsv_pairs_are_read(void **state) {
    (void)state;
    const char text[] = "Gut.\tGood.\tCC-BY\nkein Tab\nHaus\tHouse\n";
    char *path = write_file(text, sizeof(text) - 1);
    tfm_data_options o = {.in_order = true};
    tfm_data *data;
    tfm_batch batch;
    harness_ok(tfm_data_open(&data, tokenizer, path, NULL, &o));
    harness_ok(tfm_data_next(data, &batch));
    assert_int_equal(batch.count, 2);
    assert_int_equal(tfm_data_count(data).invalid, 1);
    char *decoded;
    harness_ok(
        tfm_tokenizer_decode(tokenizer, &decoded, batch.targets + batch.target_width, (size_t)batch.target_lengths[1]));
    assert_string_equal(decoded, "House");
    tfm_text_free(&decoded);
    tfm_data_free(&data);
    unlink(path);
    free(path);
}

static void test_data_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_data *data;
    tfm_batch batch;
    char *empty = write_file("\n\n", 2);
    assert_int_equal(tfm_data_open(&data, tokenizer, "/nowhere", NULL, NULL), TFM_ERROR_IO);
    assert_null(data);
    assert_int_equal(tfm_data_open(&data, tokenizer, empty, empty, &(tfm_data_options){.batch_tokens = -1}),
                     TFM_ERROR_ARGUMENT);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tfm_data_open(&data, tokenizer, empty, empty,
                                       &(tfm_data_options){.subword_alpha = i == 0   ? -0.1f
                                                                            : i == 1 ? 1
                                                                                     : NAN}),
                         TFM_ERROR_ARGUMENT);
    harness_ok(tfm_data_open(&data, tokenizer, empty, empty, NULL));
    assert_int_equal(tfm_data_next(data, &batch), TFM_ERROR_INPUT);
    assert_non_null(strstr(tfm_error_message(), "there is no valid pair of lines: 2 have an empty side"));
    tfm_data_free(&data);
    char *some = write_file("a\nb\nc\n", 6), *none = write_file("", 0);
    harness_ok(tfm_data_open(&data, tokenizer, some, none, NULL));
    assert_int_equal(tfm_data_next(data, &batch), TFM_ERROR_INPUT);
    assert_non_null(strstr(tfm_error_message(), "3 have no counterpart"));
    tfm_data_free(&data);
    unlink(empty);
    unlink(some);
    unlink(none);
    free(empty);
    free(some);
    free(none);
}

/* Positions in a modified file are invalid: the next buffer is rejected. A deleted file is missing; a file with the
 * same text and a new time is accepted. */
static void test_changed_file_is_rejected(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) {
        char *source = write_lines(LINES, 0), *target = write_lines(LINES, 3);
        tfm_data *data;
        tfm_batch batch;
        int64_t batches = 0;
        harness_ok(tfm_data_open(&data, tokenizer, source, target,
                                 &(tfm_data_options){.batch_tokens = 128, .buffer_size = 20}));
        harness_ok(tfm_data_next(data, &batch));
        tfm_status status = TFM_OK;
        if (way < 2) {
            FILE *file = fopen(way ? source : target, "r+b");
            assert_true(file && fputs("Haus", file) >= 0 && fclose(file) == 0);
        } else if (way == 2)
            assert_int_equal(unlink(target), 0);
        if (way != 2) /* file times may be coarse */
            assert_int_equal(
                utimensat(AT_FDCWD, way == 1 ? source : target, (const struct timespec[]){{1, 0}, {1, 0}}, 0), 0);
        for (; status == TFM_OK && batches < (harness_brief() ? LINES : 10 * LINES); batches++)
            status = tfm_data_next(data, &batch);
        assert_int_equal(status, way == 3 ? TFM_OK : TFM_ERROR_IO);
        assert_true(way == 3 || strstr(tfm_error_message(), way ? way == 2 ? target : source : target));
        assert_true(way >= 2 || strstr(tfm_error_message(), "has changed during training"));
        tfm_data_free(&data);
        unlink(source);
        unlink(target);
        free(source);
        free(target);
    }
}

static int setup(void **state) {
    (void)state;
    char *dir = harness_source("apps/demo");
    const int failed = tfm_tokenizer_open(&tokenizer, dir) != TFM_OK;
    free(dir);
    return failed;
}

static int teardown(void **state) {
    (void)state;
    tfm_tokenizer_free(&tokenizer);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair_comes_once_a_pass_in_seeded_order),
        cmocka_unit_test(test_seek_gives_the_same_batches),
        cmocka_unit_test(test_pass_ends_with_a_full_last_buffer),
        cmocka_unit_test(test_pair_count_is_of_whole_passes),
        cmocka_unit_test(test_bad_pairs_are_counted_or_rejected_with_line),
        cmocka_unit_test(test_tsv_pairs_are_read),
        cmocka_unit_test(test_data_rejects_bad_arguments),
        cmocka_unit_test(test_sampled_segmentations_keep_the_text),
        cmocka_unit_test(test_seek_with_other_segmentation_restarts_the_buffer),
        cmocka_unit_test(test_sampled_segmentations_keep_all_pairs),
        cmocka_unit_test(test_changed_file_is_rejected),
        cmocka_unit_test(test_every_token_is_a_target_once_a_pass),
        cmocka_unit_test(test_texts_in_order_have_end_tokens),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
