/* Readers of several ranks, as threads: each tokenizes its portion of the lines, and all return the batches of a single
 * reader, for any text and position; a failure on one is a failure on all. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"
#include "support/scratch.h"
#include "tfm/data.h"
#include "train/corpus.h"

enum { MOST_WORLD = 4, MOST_CALLS = 900, LINES = 600 };

static tfm_tokenizer *tokenizer;

/* ---- Communication between threads ---- */

typedef struct group {
    pthread_barrier_t barrier;
    const void *out[MOST_WORLD];
    int world, mute; /* number of calls until communication fails; 0: never */
} group;

/* The task of one reader, and its result. */
typedef struct reader {
    group *group; /* NULL: a single reader */
    int rank, calls_made;
    const char *files[3]; /* a source and a target, or a source alone; up to three files */
    bool texts;
    const char *targets[3]; /* the sources, in `files` */
    tfm_data_options options;
    tfm_data_position from;
    int calls; /* of tfm_data_next; all are made, whatever fails */
    struct call {
        tfm_status status;
        uint64_t batch, rest; /* hashes of the batch, and of the following position and counts */
    } made[MOST_CALLS];
    tfm_data_position places[MOST_CALLS];
    const char *spoiled; /* a file to delete before the second call */
    uint64_t encoded;
    char sentence[512]; /* of the first failure */
} reader;

static bool gather(void *user, void *all, const void *own, size_t bytes) {
    reader *s = user;
    if (s->group->mute && ++s->calls_made > s->group->mute)
        return false;
    s->group->out[s->rank] = own;
    pthread_barrier_wait(&s->group->barrier);
    for (int i = 0; i < s->group->world; i++)
        memcpy((char *)all + (size_t)i * bytes, s->group->out[i], bytes);
    pthread_barrier_wait(&s->group->barrier);
    return true;
}

static bool exchange(void *user, void *in, const void *out, size_t bytes) {
    reader *s = user;
    if (s->group->mute && ++s->calls_made > s->group->mute)
        return false;
    s->group->out[s->rank] = out;
    pthread_barrier_wait(&s->group->barrier);
    for (int i = 0; i < s->group->world; i++)
        memcpy((char *)in + (size_t)i * bytes, (const char *)s->group->out[i] + (size_t)s->rank * bytes, bytes);
    pthread_barrier_wait(&s->group->barrier);
    return true;
}

/* ---- Runs ---- */

static uint64_t add(uint64_t hash, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * 1099511628211u;
    return hash;
}

static const uint64_t begin = 1469598103934665603u;

static uint64_t hash_of(const tfm_batch *b) {
    const int64_t sizes[] = {b->count, b->source_width, b->target_width};
    uint64_t hash = add(begin, sizes, sizeof(sizes));
    if (b->sources) {
        hash = add(hash, b->sources, (size_t)(b->count * b->source_width) * sizeof(int32_t));
        hash = add(hash, b->source_lengths, (size_t)b->count * sizeof(int32_t));
    }
    hash = add(hash, b->targets, (size_t)(b->count * b->target_width) * sizeof(int32_t));
    return add(hash, b->target_lengths, (size_t)b->count * sizeof(int32_t));
}

static uint64_t hash_rest(tfm_data_position at, tfm_data_counts c) {
    const uint64_t counts[] = {c.pairs, c.empty, c.too_long, c.invalid, c.unpaired, c.complete};
    return add(add(begin, &at, sizeof(at)), counts, sizeof(counts));
}

static tfm_status open_files(tfm_data **data, const reader *s) {
    size_t count = 0;
    while (count < 3 && s->files[count])
        count++;
    if (s->texts)
        return tfm_data_open_texts(data, tokenizer, s->files, count, &s->options);
    if (s->targets[0])
        return tfm_data_open_pairs(data, tokenizer, s->files, s->targets, count, &s->options);
    return tfm_data_open(data, tokenizer, s->files[0], s->files[1], &s->options);
}

static void *read_text(void *user) {
    reader *s = user;
    const tfm_process_group ranks = {s->rank, s->group ? s->group->world : 1, exchange, gather, s};
    tfm_data *data = NULL;
    s->options.process_group = &ranks;
    if (open_files(&data, s) != TFM_OK) {
        fprintf(stderr, "%s\n", tfm_error_message()); /* the others would wait forever */
        exit(1);
    }
    tfm_status sought = s->from.epoch || s->from.line || s->from.batch ? tfm_data_seek(data, s->from) : TFM_OK;
    for (int i = 0; i < s->calls; i++) {
        tfm_batch batch = {0};
        s->places[i] = tfm_data_tell(data);
        if (i == 1 && s->spoiled)
            unlink(s->spoiled);
        const tfm_status status = s->made[i].status = sought == TFM_OK ? tfm_data_next(data, &batch) : sought;
        if (status != TFM_OK && !s->sentence[0])
            snprintf(s->sentence, sizeof(s->sentence), "%s", tfm_error_message());
        s->made[i].batch = status == TFM_OK ? hash_of(&batch) : 0;
        s->made[i].rest = status == TFM_OK ? hash_rest(tfm_data_tell(data), tfm_data_count(data)) : 0;
    }
    s->encoded = tfm__data_tokenized_lines(data);
    tfm_data_free(&data);
    return NULL;
}

/* Runs `world` identical ranks. */
static void read_together(reader *readers, int world, const reader *like, int mute) {
    group shared = {.world = world, .mute = mute};
    pthread_t threads[MOST_WORLD];
    pthread_barrier_init(&shared.barrier, NULL, (unsigned)world);
    for (int i = 0; i < world; i++) {
        const char *const own = readers[i].files[0]; /* a separate file, or NULL */
        const char *const spoiled = readers[i].spoiled;
        const tfm_data_position from = readers[i].from;
        const int64_t buffer = readers[i].options.buffer_size; /* another one, or 0 */
        readers[i] = *like;
        readers[i].options.buffer_size = buffer ? buffer : like->options.buffer_size;
        readers[i].group = &shared;
        readers[i].rank = i;
        readers[i].files[0] = own ? own : like->files[0];
        readers[i].spoiled = spoiled;
        readers[i].from = from.epoch || from.line ? from : like->from;
    }
    for (int i = 0; i < world; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_text, &readers[i]), 0);
    for (int i = 0; i < world; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&shared.barrier);
}

/* Two, three and four ranks equal one, call by call, and tokenize the same lines in total, except read-ahead lines of
 * each buffer: at most `ahead` more. */
static void check_same(const reader *job, uint64_t ahead) {
    static int turn; /* brief runs alternate the worlds over the jobs */
    reader *alone = malloc(sizeof(*alone)), *readers = malloc(MOST_WORLD * sizeof(*readers));
    assert_true(alone && readers);
    *alone = *job;
    read_text(alone);
    turn++;
    for (int world = 2; world <= MOST_WORLD; world++) {
        if (harness_brief() && world != 2 + turn % (MOST_WORLD - 1))
            continue;
        memset(readers, 0, MOST_WORLD * sizeof(*readers));
        read_together(readers, world, job, 0);
        uint64_t sum = 0, most = 0;
        for (int i = 0; i < world; i++) {
            for (int k = 0; k < job->calls; k++) {
                assert_int_equal(readers[i].made[k].status, alone->made[k].status);
                assert_true(readers[i].made[k].batch == alone->made[k].batch);
                assert_true(readers[i].made[k].rest == alone->made[k].rest);
            }
            assert_string_equal(readers[i].sentence, alone->sentence);
            sum += readers[i].encoded;
            most = readers[i].encoded > most ? readers[i].encoded : most;
        }
        if (alone->sentence[0])
            continue;
        if (job->options.subword_alpha > 0) { /* alternates whole buffers */
            assert_int_equal(sum, alone->encoded);
            continue;
        }
        assert_in_range(sum, 1, alone->encoded + ahead);
        assert_in_range(most, 1, (alone->encoded + ahead) / (uint64_t)world + 1 + ahead);
    }
    free(alone);
    free(readers);
}

/* ---- Texts ---- */

/* A line of so many words, or a damaged one. */
static int put_line(char *to, int number, int words, int damage) {
    static const char *const damaged[] = {"", "   ", "\xff\xfe", "ein \xc3"};
    if (damage > 0 && damage <= 4)
        return sprintf(to, "%s\n", damaged[damage - 1]);
    int at = sprintf(to, "%d", number);
    for (int k = 0; k < (damage == 5 ? 40 : words); k++)
        at += sprintf(to + at, " Haus");
    if (damage == 6)
        to[1] = 0;
    to[at++] = '\n';
    return at;
}

/* One in `often` lines is damaged, or none; and `so many` from `from` on. */
static const char *put_lines(const char *name, int count, int seed, int often, int from, int many) {
    harness_random random = {(uint64_t)seed};
    char *text = calloc((size_t)count + 1, 256);
    size_t at = 0;
    assert_non_null(text);
    for (int i = 0; i < count; i++) {
        const int damage = 1 + (int)(harness_next(&random) % 6), words = (i * 7 + seed) % 11;
        const bool bad = (often && harness_next(&random) % (uint64_t)often == 0) || (i >= from && i < from + many);
        at += (size_t)put_line(text + at, i, words, bad ? damage : 0);
    }
    scratch_write(name, text, at);
    free(text);
    return scratch_path(name);
}

static reader pair_of(const char *source, const char *target, int64_t buffer) {
    return (reader){.files = {source, target},
                    .options = {.batch_tokens = 128, .max_length = 24, .seed = 7, .buffer_size = buffer},
                    .calls = 100};
}

/* Good lines, in one buffer and in many; the last one is full, or not. */
static void test_ranks_give_the_batches_of_one_reader(void **state) {
    (void)state;
    static const int64_t buffers[] = {0, 77, 100, LINES, 1, 3};
    char source[4096], target[4096];
    snprintf(source, sizeof(source), "%s", put_lines("source", LINES, 1, 0, 0, 0));
    snprintf(target, sizeof(target), "%s", put_lines("target", LINES, 4, 0, 0, 0));
    for (size_t i = 0; i < sizeof(buffers) / sizeof(*buffers); i++) {
        reader job = pair_of(source, target, buffers[i]);
        job.calls = buffers[i] > 0 && buffers[i] < 4 ? MOST_CALLS : 100;
        const uint64_t ahead = buffers[i] == 0 || buffers[i] == LINES ? 0 : 70 * (uint64_t)job.calls;
        check_same(&job, ahead);
    }
    reader job = pair_of(source, target, 100); /* every seventh is held out; sampled segmentations; unsorted */
    job.options.holdout_every = 7;
    check_same(&job, 70 * 100);
    job.options.in_order = true;
    check_same(&job, 70 * 100);
    job.options.subword_alpha = 0.2f;
    check_same(&job, 0);
}

/* More than ranks exchange in one message. */
static void test_lines_beyond_one_message_are_exchanged(void **state) {
    (void)state;
    enum { MANY = 16000 };
    char source[4096], target[4096];
    snprintf(source, sizeof(source), "%s", put_lines("source", MANY, 1, 50, 0, 0));
    snprintf(target, sizeof(target), "%s", put_lines("target", MANY, 4, 50, 0, 0));
    reader job = pair_of(source, target, 0);
    job.calls = 50;
    check_same(&job, 0);
    job.options.subword_alpha = 0.2f;
    check_same(&job, 0);
}

/* Only tokenizing is distributed: a rank that did all of it would fail here. */
static void test_ranks_share_the_tokenization(void **state) {
    (void)state;
    char source[4096], target[4096];
    snprintf(source, sizeof(source), "%s", put_lines("source", LINES, 1, 0, 0, 0));
    snprintf(target, sizeof(target), "%s", put_lines("target", LINES, 4, 9, 0, 0));
    reader job = pair_of(source, target, 0);
    reader *readers = calloc(MOST_WORLD, sizeof(*readers));
    assert_non_null(readers);
    read_together(readers, MOST_WORLD, &job, 0);
    for (int i = 0; i < MOST_WORLD; i++)
        assert_int_equal(readers[i].encoded, LINES / MOST_WORLD); /* tokenized once for many passes */
    job.options.subword_alpha = 0.2f;
    job.options.buffer_size = 60;
    memset(readers, 0, MOST_WORLD * sizeof(*readers));
    read_together(readers, MOST_WORLD, &job, 0);
    uint64_t most = 0, sum = 0;
    for (int i = 0; i < MOST_WORLD; i++) {
        most = readers[i].encoded > most ? readers[i].encoded : most;
        sum += readers[i].encoded;
    }
    assert_in_range(most, sum / MOST_WORLD, sum / 2);
    free(readers);
}

/* Occasional damaged lines, more in sequence than are read ahead, and a majority; also at the end of files, and with
 * unpaired lines. */
static void test_damaged_lines_are_skipped_alike_on_all_ranks(void **state) {
    (void)state;
    static const struct {
        int lines, more, often, from, many;
        int64_t buffer;
    } cases[] = {{LINES, 0, 5, 0, 0, 0},     {LINES, 0, 5, 0, 0, 50},      {LINES, 9, 2, 0, 0, 40},
                 {LINES, 0, 0, 50, 400, 50}, {LINES, 0, 0, 0, 500, 50},    {LINES, 0, 0, 100, 500, 100},
                 {LINES, 3, 0, 599, 1, 599}, {LINES, 0, 0, 300, 300, 150}, {1, 0, 0, 0, 0, 0},
                 {2, 1, 0, 0, 0, 1},         {3, 0, 0, 1, 1, 2},           {5, 0, 0, 1, 3, 1},
                 {LINES, 0, 0, 0, LINES, 0}, {LINES, 0, 0, 1, LINES, 0},   {0, 4, 0, 0, 0, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char source[4096], target[4096];
        snprintf(source, sizeof(source), "%s",
                 put_lines("source", cases[i].lines + cases[i].more, 1, cases[i].often, cases[i].from, cases[i].many));
        snprintf(target, sizeof(target), "%s",
                 put_lines("target", cases[i].lines, 4, cases[i].often, cases[i].from, cases[i].many));
        reader job = pair_of(source, target, cases[i].buffer);
        check_same(&job, (uint64_t)job.calls * LINES);
        job.options.subword_alpha = 0.2f;
        check_same(&job, 0);
        job.options.strict = true;
        check_same(&job, 0);
        job.options.subword_alpha = 0;
        job.options.strict = true; /* rejected at the same line with the same message */
        check_same(&job, (uint64_t)job.calls * LINES);
        job.files[1] = NULL; /* TSV without a tab */
        check_same(&job, 0);
        job.options.strict = false;
        check_same(&job, 0);
    }
}

/* Language model text, of one file and of several. */
static void test_ranks_read_plain_texts_as_one_reader(void **state) {
    (void)state;
    char paths[3][4096];
    snprintf(paths[0], sizeof(paths[0]), "%s", put_lines("one", LINES, 1, 6, 0, 0));
    snprintf(paths[1], sizeof(paths[1]), "%s", put_lines("two", 3, 2, 0, 0, 0));
    snprintf(paths[2], sizeof(paths[2]), "%s", put_lines("three", LINES / 2, 3, 0, 100, 200));
    for (int count = 1; count <= 3; count += 2)
        for (int64_t buffer = 0; buffer <= 150; buffer += 50) {
            reader job = {.files = {paths[0], count > 1 ? paths[1] : NULL, count > 1 ? paths[2] : NULL},
                          .texts = true,
                          .options = {.batch_tokens = 80, .seq_len = 16, .seed = 7, .buffer_size = buffer},
                          .calls = 200};
            check_same(&job, (uint64_t)job.calls * LINES);
            job.options.subword_alpha = 0.2f;
            check_same(&job, 0);
            job.options.subword_alpha = 0;
            job.options.strict = true;
            check_same(&job, (uint64_t)job.calls * LINES);
        }
}

/* Three pairs of files with unequal numbers of lines, and damaged lines. */
static reader several_of(int64_t buffer) {
    static char paths[6][4096];
    static const int lines[6] = {200, 212, 100, 0, 298, 290};
    for (int i = 0; i < 6; i++) {
        char name[16];
        snprintf(name, sizeof(name), "several%d", i);
        snprintf(paths[i], sizeof(paths[i]), "%s", put_lines(name, lines[i], i + 1, 12, 0, 0));
    }
    reader job = pair_of(NULL, NULL, buffer);
    for (int i = 0; i < 3; i++) {
        job.files[i] = paths[2 * i];
        job.targets[i] = paths[2 * i + 1];
    }
    return job;
}

/* Several pairs of files: unpaired lines are counted in their buffer. */
static void test_ranks_read_several_files_as_one_reader(void **state) {
    (void)state;
    static const int64_t buffers[] = {0, 1, 77};
    for (size_t i = 0; i < sizeof(buffers) / sizeof(*buffers); i++) {
        reader job = several_of(buffers[i]);
        job.calls = buffers[i] == 1 ? MOST_CALLS : 200;
        check_same(&job, (uint64_t)job.calls * LINES);
        job.options.holdout_every = 7;
        check_same(&job, (uint64_t)job.calls * LINES);
        job.options.strict = true;
        check_same(&job, (uint64_t)job.calls * LINES);
        job.options.subword_alpha = 0.2f;
        check_same(&job, 0);
        job.options.strict = false;
        check_same(&job, 0);
    }
    reader job = several_of(20); /* the rejected line is unpaired, not damaged */
    job.files[0] = put_lines("whole0", 50, 1, 0, 0, 0);
    job.targets[0] = put_lines("whole1", 50, 2, 0, 0, 0);
    job.options.strict = true;
    check_same(&job, (uint64_t)job.calls * LINES);
}

/* From the position of any batch, within a buffer or between two, any number of ranks continues equally. */
static void test_ranks_seek_as_one_reader(void **state) {
    (void)state;
    char source[4096], target[4096];
    snprintf(source, sizeof(source), "%s", put_lines("source", LINES, 1, 8, 0, 0));
    snprintf(target, sizeof(target), "%s", put_lines("target", LINES, 4, 8, 0, 0));
    for (int kind = 0; kind < 8; kind++) {
        const int64_t buffer = kind & 1 ? 70 : 0;
        reader job = kind & 4 ? several_of(buffer) : pair_of(source, target, buffer), *alone = malloc(sizeof(*alone)),
               *readers = malloc(MOST_WORLD * sizeof(*readers));
        assert_true(alone && readers);
        job.options.subword_alpha = kind & 2 ? 0.2f : 0;
        *alone = job;
        read_text(alone);
        for (int from = 1; from < 90; from += harness_brief() ? 41 : 3)
            for (int world = 2; world <= MOST_WORLD; world++) {
                if (harness_brief() && world != 2 + from % (MOST_WORLD - 1))
                    continue;
                job.from = alone->places[from];
                job.calls = 10;
                memset(readers, 0, MOST_WORLD * sizeof(*readers));
                read_together(readers, world, &job, 0);
                for (int i = 0; i < world; i++)
                    for (int k = 0; k < job.calls; k++) {
                        assert_int_equal(readers[i].made[k].status, TFM_OK);
                        assert_true(readers[i].made[k].batch == alone->made[from + k].batch);
                        assert_memory_equal(&readers[i].places[k], &alone->places[from + k], sizeof(*alone->places));
                    }
                for (int i = 1; i < world; i++)
                    assert_memory_equal(readers[i].made, readers[0].made, sizeof(readers->made));
            }
        job.from.batch = 100000; /* no such batch: all ranks report it when they reach it, and keep reporting it */
        memset(readers, 0, MOST_WORLD * sizeof(*readers));
        read_together(readers, 3, &job, 0);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(readers[i].made[0].status, TFM_ERROR_INPUT);
            assert_int_equal(readers[i].made[9].status, TFM_ERROR_INPUT);
            assert_non_null(strstr(readers[i].sentence, "batch 100000 does not exist"));
        }
        free(alone);
        free(readers);
    }
}

/* An unreadable file, another text, another position, and broken communication: all ranks fail, and none waits. */
static void test_failure_of_one_rank_ends_all(void **state) {
    (void)state;
    enum { WORLD = 3 };
    char source[4096], target[4096], other[4096], link[4096];
    snprintf(source, sizeof(source), "%s", put_lines("source", LINES, 1, 0, 0, 0));
    snprintf(target, sizeof(target), "%s", put_lines("target", LINES, 4, 0, 0, 0));
    snprintf(other, sizeof(other), "%s", put_lines("other", LINES - 70, 1, 0, 0, 0));
    snprintf(link, sizeof(link), "%s", scratch_path("link"));
    reader job = pair_of(source, target, 77);
    reader *readers = calloc(WORLD, sizeof(*readers));
    assert_non_null(readers);

    readers[1].files[0] = other; /* it is shorter, so its pairs end before the others' */
    read_together(readers, WORLD, &job, 0);
    for (int i = 0; i < WORLD; i++) {
        assert_int_equal(readers[i].made[0].status, TFM_OK);
        assert_int_equal(readers[i].made[job.calls - 1].status, TFM_ERROR_ARGUMENT);
        for (int k = 0; k < job.calls; k++)
            assert_int_equal(readers[i].made[k].status, readers[0].made[k].status);
    }

    /* The fifth line, tokenized by the second rank, is bad only in its text. */
    snprintf(other, sizeof(other), "%s", put_lines("other", LINES, 1, 0, 4, 1));
    memset(readers, 0, WORLD * sizeof(*readers));
    readers[1].files[0] = other;
    job.options.strict = true;
    read_together(readers, WORLD, &job, 0);
    job.options.strict = false;
    for (int i = 0; i < WORLD; i++) {
        assert_int_equal(readers[i].made[0].status, i == 1 ? TFM_ERROR_INPUT : TFM_ERROR_ARGUMENT);
        assert_non_null(strstr(readers[i].sentence, "line 5: "));
        assert_int_equal(strstr(readers[i].sentence, "this is rank 1's text, and rank ") != NULL, i != 1);
    }

    memset(readers, 0, WORLD * sizeof(*readers));
    readers[2].from = (tfm_data_position){.epoch = 1};
    read_together(readers, WORLD, &job, 0);
    for (int i = 0; i < WORLD; i++) {
        assert_int_equal(readers[i].made[0].status, TFM_ERROR_ARGUMENT);
        assert_non_null(strstr(readers[i].sentence, "rank 2 is at another position of the text than rank 0"));
    }

    for (int sampled = 0; sampled < 2; sampled++) { /* with other buffers other ranks would tokenize for all */
        job.options.subword_alpha = sampled ? 0.2f : 0;
        memset(readers, 0, WORLD * sizeof(*readers));
        readers[1].options.buffer_size = job.options.buffer_size / 2;
        read_together(readers, WORLD, &job, 0);
        for (int i = 0; i < WORLD; i++)
            assert_int_equal(readers[i].made[0].status, TFM_ERROR_ARGUMENT);
    }

    for (int mute = 1; mute <= 12; mute++) {
        job.options.subword_alpha = mute > 6 ? 0.2f : 0;
        memset(readers, 0, WORLD * sizeof(*readers));
        read_together(readers, WORLD, &job, mute);
        for (int i = 0; i < WORLD; i++) {
            assert_int_equal(readers[i].made[job.calls - 1].status, TFM_ERROR_IO);
            assert_non_null(strstr(readers[i].sentence, "can no longer communicate"));
        }
    }

    job.options.subword_alpha = 0;
    memset(readers, 0, WORLD * sizeof(*readers));
    readers[1].files[0] = readers[1].spoiled = link; /* deleted when a later buffer is read */
    put_lines("link", LINES, 1, 0, 0, 0);
    read_together(readers, WORLD, &job, 0);
    for (int i = 0; i < WORLD; i++) {
        assert_int_equal(readers[i].made[0].status, TFM_OK);
        assert_int_equal(readers[i].made[job.calls - 1].status, i == 1 ? TFM_ERROR_IO : TFM_ERROR_CANCELLED);
        assert_non_null(strstr(readers[i].sentence, i == 1 ? link : "data_next: rank 1 has failed, with "));
        for (int k = 0; k < job.calls; k++)
            assert_int_equal(readers[i].made[k].status == TFM_OK, readers[0].made[k].status == TFM_OK);
    }
    free(readers);
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
        cmocka_unit_test(test_ranks_give_the_batches_of_one_reader),
        cmocka_unit_test(test_lines_beyond_one_message_are_exchanged),
        cmocka_unit_test(test_ranks_share_the_tokenization),
        cmocka_unit_test(test_damaged_lines_are_skipped_alike_on_all_ranks),
        cmocka_unit_test(test_ranks_read_plain_texts_as_one_reader),
        cmocka_unit_test(test_ranks_read_several_files_as_one_reader),
        cmocka_unit_test(test_ranks_seek_as_one_reader),
        cmocka_unit_test(test_failure_of_one_rank_ends_all),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
