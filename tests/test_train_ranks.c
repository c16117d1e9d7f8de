/* Trainers that share updates, as two threads with a context each: the same as one trainer with all of the batches. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "small_model.h"
#include "tfm/tfm.h"

enum { RANKS = 2, UPDATES = 4, MOST_BATCHES = 3, TOKENS = 8 * 9 };

/* ---- How threads talk ---- */

typedef struct room {
    pthread_barrier_t barrier;
    const char *out[RANKS];
    bool cut; /* nobody hears anybody */
} room;

typedef struct seat {
    room *room;
    int rank;
} seat;

static bool exchange(void *user, void *in, const void *out, size_t bytes) {
    const seat *s = user;
    s->room->out[s->rank] = out;
    pthread_barrier_wait(&s->room->barrier);
    for (int i = 0; i < RANKS; i++)
        memcpy((char *)in + (size_t)i * bytes, s->room->out[i] + (size_t)s->rank * bytes, bytes);
    pthread_barrier_wait(&s->room->barrier);
    return true;
}

static bool gather(void *user, void *all, const void *own, size_t bytes) {
    const seat *s = user;
    if (s->room->cut)
        return false;
    s->room->out[s->rank] = own;
    pthread_barrier_wait(&s->room->barrier);
    for (int i = 0; i < RANKS; i++)
        memcpy((char *)all + (size_t)i * bytes, s->room->out[i], bytes);
    pthread_barrier_wait(&s->room->barrier);
    return true;
}

/* ---- Runs ---- */

/* What is done, by one trainer or by one of several. */
typedef struct job {
    tfm_trainer_options options;
    int batches;    /* in an update, of all ranks */
    int64_t pieces; /* the most tokens in a piece, or 0 */
    int failing;    /* the update in which this rank has no batches to give; 0 for none */
    uint64_t seed;  /* of the model */
    seat seat;      /* with a room, or none */
    bool world_of_one;
    float *values; /* what came of it */
    int64_t count;
    tfm_status statuses[UPDATES];
    char sentence[512]; /* of the last failure */
    tfm_update_report report;
} job;

/* The batches of an update, all of them. */
static void draw(tfm_pairs *batches, int32_t (*ids)[TOKENS], int32_t (*lengths)[8], int count, harness_random *random) {
    for (int i = 0; i < count; i++)
        batches[i] = copy_batch(random, ids[i], lengths[i]);
}

static void note(job *j, int update, tfm_status status) {
    j->statuses[update] = status;
    if (status != TFM_OK)
        snprintf(j->sentence, sizeof(j->sentence), "%s", tfm_error_message());
}

static void update(job *j, tfm_trainer *t, int number, harness_random *random) {
    int32_t ids[MOST_BATCHES][TOKENS], lengths[MOST_BATCHES][8];
    tfm_pairs all[MOST_BATCHES], own[MOST_BATCHES];
    size_t count = 0;
    draw(all, ids, lengths, j->batches, random);
    for (int i = 0; i < j->batches; i++)
        if (!j->seat.room || i % RANKS == j->seat.rank)
            own[count++] = all[i];
    note(j, number, tfm_trainer_update(t, &j->report, j->failing == number + 1 ? NULL : own, count));
}

static void *run(void *user) {
    job *j = user;
    tfm_context *ctx = NULL;
    tfm_model *model = NULL;
    tfm_trainer *trainer = NULL;
    tfm_model_shape shape = SMALL;
    harness_random random = {5};
    const tfm_ranks ranks = {j->world_of_one ? 0 : j->seat.rank, j->world_of_one ? 1 : RANKS, exchange, gather,
                             &j->seat};
    shape.seed = j->seed;
    if (tfm_context_open(&ctx, NULL) != TFM_OK || tfm_model_new(&model, ctx, &shape) != TFM_OK ||
        tfm_trainer_new(&trainer, model, &j->options) != TFM_OK) {
        fprintf(stderr, "%s\n", tfm_error_message()); /* the others wait for ever: there is nothing to test here */
        exit(1);
    }
    trainer->room = j->pieces;
    if (j->seat.room || j->world_of_one)
        note(j, 0, tfm_trainer_set_ranks(trainer, &ranks));
    for (int i = 0; i < UPDATES; i++)
        update(j, trainer, i, &random);
    j->values = calloc((size_t)trainer->count, sizeof(*j->values));
    j->count = trainer->count;
    if (j->values && tfm_tensor_read(ctx, j->values, trainer->value) != TFM_OK)
        j->values[0] = NAN;
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
    tfm_context_free(&ctx);
    return NULL;
}

/* Runs the jobs as ranks, a thread each. */
static void run_ranks(job *jobs, bool cut) {
    room shared = {.cut = cut};
    pthread_t threads[RANKS];
    assert_int_equal(pthread_barrier_init(&shared.barrier, NULL, RANKS), 0);
    for (int i = 0; i < RANKS; i++) {
        jobs[i].seat = (seat){&shared, i};
        assert_int_equal(pthread_create(&threads[i], NULL, run, &jobs[i]), 0);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&shared.barrier);
}

static void free_values(job *jobs, int count) {
    for (int i = 0; i < count; i++)
        free(jobs[i].values);
}

/* Everything is dropped that can be, and gradients are clipped. */
static job dropping(int batches) {
    job j = {.options = plain_options(), .batches = batches, .seed = 3};
    j.options.dropout = 0.2f;
    j.options.attention_dropout = 0.1f;
    j.options.activation_dropout = 0.1f;
    j.options.epsilon = 1e-3; /* or Adam makes a full step of a gradient that is but rounding */
    j.options.clip = 0.5;
    j.options.decay = 0.01;
    return j;
}

static void check_all_good(const job *j) {
    for (int i = 0; i < UPDATES; i++)
        if (j->statuses[i] != TFM_OK)
            fail_msg("update %d: %s", i + 1, j->sentence);
}

static void check_close(const job *a, const job *b) {
    double most = 0;
    assert_int_equal(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++)
        most = fmax(most, fabs((double)a->values[i] - (double)b->values[i]));
    if (!(most < 1e-5) && !harness_poses())
        fail_msg("the parameters are %g apart", most);
    assert_int_equal(a->report.target_tokens, b->report.target_tokens);
    assert_int_equal(a->report.source_tokens, b->report.source_tokens);
    assert_true(fabs(a->report.loss / b->report.loss - 1) < 1e-5);
    assert_true(fabs(a->report.nll / b->report.nll - 1) < 1e-5);
    assert_true(fabs(a->report.gradient_norm / b->report.gradient_norm - 1) < 1e-4);
}

static void check_same(const job *a, const job *b) {
    assert_memory_equal(a->values, b->values, (size_t)a->count * sizeof(float));
    assert_memory_equal(&a->report, &b->report, sizeof(a->report));
}

/* ---- Tests ---- */

/* One batch, of which the second rank has none; as many as ranks; and one more. */
static void test_accumulation(void **state) {
    (void)state;
    for (int batches = 1; batches <= MOST_BATCHES; batches++) {
        job alone = dropping(batches), ranks[RANKS], again[RANKS];
        for (int i = 0; i < RANKS; i++)
            ranks[i] = again[i] = dropping(batches);
        run(&alone);
        run_ranks(ranks, false);
        check_all_good(&alone);
        check_all_good(&ranks[0]);
        check_all_good(&ranks[1]);
        check_close(&ranks[0], &alone);
        check_same(&ranks[1], &ranks[0]);
        if (batches == MOST_BATCHES) {
            run_ranks(again, false);
            check_same(&again[0], &ranks[0]);
            free_values(again, RANKS);
        }
        free_values(&alone, 1);
        free_values(ranks, RANKS);
    }
}

static void test_world_of_one(void **state) {
    (void)state;
    job alone = dropping(2), one = dropping(2);
    one.world_of_one = true;
    run(&alone);
    run(&one);
    check_all_good(&one);
    check_same(&one, &alone);
    free_values(&alone, 1);
    free_values(&one, 1);
}

/* A rank without room for a whole batch. What pieces drop is not what the batch does, so nothing is dropped. */
static void test_pieces(void **state) {
    (void)state;
    job alone = dropping(2);
    alone.options.dropout = alone.options.attention_dropout = alone.options.activation_dropout = 0;
    job ranks[RANKS] = {alone, alone};
    ranks[1].pieces = 60;
    run(&alone);
    run_ranks(ranks, false);
    check_close(&ranks[0], &alone);
    check_same(&ranks[1], &ranks[0]);
    free_values(&alone, 1);
    free_values(ranks, RANKS);
}

/* An update that fails on one rank fails on both and changes nothing; the other updates are made. */
static void test_one_fails(void **state) {
    (void)state;
    job ranks[RANKS] = {dropping(2), dropping(2)}, twice[RANKS] = {dropping(2), dropping(2)};
    ranks[1].failing = twice[0].failing = twice[1].failing = 2;
    run_ranks(ranks, false);
    run_ranks(twice, false);
    assert_int_equal(ranks[0].statuses[1], TFM_ERROR_CANCELLED);
    assert_int_equal(ranks[1].statuses[1], TFM_ERROR_ARGUMENT);
    assert_string_equal(ranks[0].sentence, "update 2: rank 1 has failed, with TFM_ERROR_ARGUMENT");
    assert_string_equal(ranks[1].sentence, "update 2: this rank has no batches to give");
    for (int i = 0; i < UPDATES; i++)
        assert_true((ranks[0].statuses[i] == TFM_OK) == (i != 1));
    assert_int_equal(ranks[0].report.update, UPDATES - 1);
    check_same(&ranks[1], &ranks[0]);
    check_same(&twice[0], &ranks[0]);
    free_values(ranks, RANKS);
    free_values(twice, RANKS);
}

/* Ranks that did not begin alike, and ranks that hear nothing. */
static void test_unlike(void **state) {
    (void)state;
    job ranks[RANKS] = {dropping(2), dropping(2)}, rates[RANKS] = {dropping(2), dropping(2)},
        deaf[RANKS] = {dropping(2), dropping(2)};
    ranks[1].seed = 4;
    rates[1].options.rate = 2e-3;
    run_ranks(ranks, false);
    run_ranks(rates, false);
    run_ranks(deaf, true);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(ranks[i].statuses[0], TFM_ERROR_NUMERIC);
        assert_int_equal(rates[i].statuses[0], TFM_ERROR_NUMERIC);
        assert_int_equal(deaf[i].statuses[0], TFM_ERROR_IO);
        assert_non_null(strstr(ranks[i].sentence, "of rank 1 are not those of rank 0"));
        assert_non_null(strstr(deaf[i].sentence, "cannot talk with each other"));
    }
    free_values(ranks, RANKS);
    free_values(rates, RANKS);
    free_values(deaf, RANKS);
}

static void test_refused(void **state) {
    (void)state;
    tfm_model *model;
    tfm_trainer *trainer;
    harness_ok(tfm_model_new(&model, harness_context(), &SMALL));
    harness_ok(tfm_trainer_new(&trainer, model, NULL));
    const tfm_ranks bad[] = {{0, 0, exchange, gather, NULL},
                             {2, 2, exchange, gather, NULL},
                             {-1, 2, exchange, gather, NULL},
                             {0, 2, NULL, gather, NULL},
                             {0, 2, exchange, NULL, NULL}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        harness_refused(tfm_trainer_set_ranks(trainer, &bad[i]), TFM_ERROR_ARGUMENT, "trainer_set_ranks: rank ");
    harness_ok(tfm_trainer_set_ranks(trainer, NULL));
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accumulation), cmocka_unit_test(test_world_of_one), cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_one_fails),    cmocka_unit_test(test_unlike),       cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
