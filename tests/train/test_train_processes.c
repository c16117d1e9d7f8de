/* Data-parallel trainers as threads with a context each: equal to one trainer with all batches, for any sharding of
 * their state, and any save and load. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "support/scratch.h"
#include "support/small_model.h"
#include "train/sharded_optimizer.h"
#include "tfm/tfm.h"

enum { RANKS = 2, MOST_RANKS = 4, UPDATES = 4, MOST_BATCHES = 4, TOKENS = 8 * 9 };
/* Bucket size in numbers, so that the small model has several buckets. */
enum { BUCKET = 8 * TFM__PARAM_ALIGN };

/* ---- Communication between threads ---- */

typedef struct group {
    pthread_barrier_t barrier;
    const char *out[MOST_RANKS];
    int world;
    bool cut; /* communication fails */
} group;

typedef struct communicator {
    group *group;
    int rank;
} communicator;

static bool exchange(void *user, void *in, const void *out, size_t bytes) {
    const communicator *s = user;
    s->group->out[s->rank] = out;
    pthread_barrier_wait(&s->group->barrier);
    for (int i = 0; i < s->group->world; i++)
        memcpy((char *)in + (size_t)i * bytes, s->group->out[i] + (size_t)s->rank * bytes, bytes);
    pthread_barrier_wait(&s->group->barrier);
    return true;
}

static bool gather(void *user, void *all, const void *own, size_t bytes) {
    const communicator *s = user;
    if (s->group->cut)
        return false;
    s->group->out[s->rank] = own;
    pthread_barrier_wait(&s->group->barrier);
    for (int i = 0; i < s->group->world; i++)
        memcpy((char *)all + (size_t)i * bytes, s->group->out[i], bytes);
    pthread_barrier_wait(&s->group->barrier);
    return true;
}

/* ---- Runs ---- */

/* The task of one trainer, alone or in a group. */
typedef struct job {
    tfm_trainer_options options;
    int batches;                /* in an update, of all ranks */
    int64_t micro_batch_tokens; /* maximum, or 0 */
    int failing;                /* the update in which this rank has no batches; 0 for none */
    uint64_t seed;              /* of the model */
    communicator communicator;  /* the communicator, or none */
    bool world_of_one;
    int64_t bucket;         /* or 0 for the default */
    const char *from, *to;  /* checkpoints, or NULL */
    int64_t moments, early; /* number of checkpoints; buckets of the last update sent before its end */
    int64_t decayed;
    tfm_comm_stats comm;
    float *values; /* the result */
    int64_t count;
    tfm_status statuses[UPDATES];
    char sentence[512]; /* of the last failure */
    tfm_update_report report;
} job;

/* The micro-batches of one update. */
static void draw(tfm_batch *batches, int32_t (*ids)[TOKENS], int32_t (*lengths)[8], int count, harness_random *random) {
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
    tfm_batch all[MOST_BATCHES], own[MOST_BATCHES];
    size_t count = 0;
    draw(all, ids, lengths, j->batches, random);
    for (int i = 0; i < j->batches; i++)
        if (!j->communicator.group || i % j->communicator.group->world == j->communicator.rank)
            own[count++] = all[i];
    note(j, number, tfm_trainer_update(t, &j->report, j->failing == number + 1 ? NULL : own, count));
}

static void open_trainer(job *j, tfm_trainer **trainer, tfm_model *model) {
    const tfm_process_group ranks = {j->world_of_one ? 0 : j->communicator.rank,
                                     j->communicator.group ? j->communicator.group->world : 1, exchange, gather,
                                     &j->communicator};
    j->options.process_group = j->options.shard_optimizer ? &ranks : NULL;
    if (tfm_trainer_new(trainer, model, &j->options) != TFM_OK ||
        (j->bucket && tfm__trainer_set_bucket_size(*trainer, j->bucket) != TFM_OK)) {
        fprintf(stderr, "%s\n", tfm_error_message()); /* the others wait forever: nothing can be tested */
        exit(1);
    }
    (*trainer)->micro_batch_tokens = j->micro_batch_tokens;
    if (j->communicator.group || j->world_of_one)
        note(j, 0, tfm_trainer_set_process_group(*trainer, &ranks));
    if (j->from)
        note(j, 0, tfm_trainer_load(*trainer, NULL, j->from));
}

static void *run(void *user) {
    job *j = user;
    tfm_context *ctx = NULL;
    tfm_model *model = NULL;
    tfm_trainer *trainer = NULL;
    tfm_model_shape shape = SMALL;
    harness_random random = {5};
    shape.seed = j->seed;
    /* At ReLU's kink rounding decides the side, and changes all gradients before it. */
    shape.activation = TFM_GELU;
    if (tfm_context_open(&ctx, NULL) != TFM_OK || tfm_model_new(&model, ctx, &shape) != TFM_OK) {
        fprintf(stderr, "%s\n", tfm_error_message());
        exit(1);
    }
    open_trainer(j, &trainer, model);
    for (int i = 0; i < UPDATES && j->statuses[0] == TFM_OK; i++)
        update(j, trainer, i, &random);
    if (j->to && (j->communicator.rank == 0 || trainer->sharded))
        note(j, UPDATES - 1, tfm_trainer_save(trainer, NULL, j->to));
    j->values = calloc((size_t)trainer->count, sizeof(*j->values));
    j->count = trainer->count;
    j->moments = trainer->moment_count;
    j->early = trainer->early_reads;
    j->decayed = trainer->decayed;
    j->comm = tfm_trainer_comm_stats(trainer);
    if (j->values && tfm_tensor_read(ctx, j->values, trainer->value) != TFM_OK)
        j->values[0] = NAN;
    if ((int64_t)tfm_tensor_count(trainer->m) != j->moments || (int64_t)tfm_tensor_count(trainer->v) != j->moments)
        j->moments = -1;
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
    tfm_context_free(&ctx);
    return NULL;
}

/* Runs the jobs as ranks, one thread each. */
static void run_world(job *jobs, int world, bool cut) {
    group shared = {.cut = cut, .world = world};
    pthread_t threads[MOST_RANKS];
    assert_int_equal(pthread_barrier_init(&shared.barrier, NULL, (unsigned)world), 0);
    for (int i = 0; i < world; i++) {
        jobs[i].communicator = (communicator){&shared, i};
        assert_int_equal(pthread_create(&threads[i], NULL, run, &jobs[i]), 0);
    }
    for (int i = 0; i < world; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&shared.barrier);
}

static void run_ranks(job *jobs, bool cut) {
    run_world(jobs, RANKS, cut);
}

static void free_values(job *jobs, int count) {
    for (int i = 0; i < count; i++)
        free(jobs[i].values);
}

/* All dropouts are on, and gradients are clipped. */
static job dropping(int batches) {
    job j = {.options = plain_options(), .batches = batches, .seed = 3};
    j.options.dropout = 0.2f;
    j.options.attention_dropout = 0.1f;
    j.options.activation_dropout = 0.1f;
    j.options.epsilon = 1e-3; /* or Adam makes a full step of a gradient that is only rounding error */
    j.options.max_grad_norm = 0.5;
    j.options.weight_decay = 0.01;
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
        fail_msg("the parameters differ by %g", most);
    assert_int_equal(a->report.target_tokens, b->report.target_tokens);
    assert_int_equal(a->report.source_tokens, b->report.source_tokens);
    assert_true(fabs(a->report.loss / b->report.loss - 1) < 1e-5);
    assert_true(fabs(a->report.nll / b->report.nll - 1) < 1e-5);
    assert_true(fabs(a->report.grad_norm / b->report.grad_norm - 1) < 1e-4);
}

static void check_same(const job *a, const job *b) {
    assert_memory_equal(a->values, b->values, (size_t)a->count * sizeof(float));
    assert_memory_equal(&a->report, &b->report, sizeof(a->report));
}

/* ---- Tests ---- */

/* One batch, so that the second rank has none; as many as ranks; and one more. */
static void test_ranks_accumulate_as_one_trainer(void **state) {
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

static void test_one_rank_is_bit_identical(void **state) {
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

/* A rank without memory for a whole batch. Parts have other dropout masks than the batch, so dropout is off. */
static void test_rank_with_split_batch_matches_whole(void **state) {
    (void)state;
    job alone = dropping(2);
    alone.options.dropout = alone.options.attention_dropout = alone.options.activation_dropout = 0;
    job ranks[RANKS] = {alone, alone};
    ranks[1].micro_batch_tokens = 60;
    run(&alone);
    run_ranks(ranks, false);
    check_close(&ranks[0], &alone);
    check_same(&ranks[1], &ranks[0]);
    free_values(&alone, 1);
    free_values(ranks, RANKS);
}

/* An update that fails on one rank fails on both and changes nothing; other updates succeed. */
static void test_failed_update_of_one_rank_changes_nothing(void **state) {
    (void)state;
    job ranks[RANKS] = {dropping(2), dropping(2)}, twice[RANKS] = {dropping(2), dropping(2)};
    ranks[1].failing = twice[0].failing = twice[1].failing = 2;
    run_ranks(ranks, false);
    run_ranks(twice, false);
    assert_int_equal(ranks[0].statuses[1], TFM_ERROR_CANCELLED);
    assert_int_equal(ranks[1].statuses[1], TFM_ERROR_ARGUMENT);
    assert_string_equal(ranks[0].sentence, "update 2: rank 1 has failed, with TFM_ERROR_ARGUMENT");
    assert_string_equal(ranks[1].sentence, "update 2: this rank has no batches");
    for (int i = 0; i < UPDATES; i++)
        assert_true((ranks[0].statuses[i] == TFM_OK) == (i != 1));
    assert_int_equal(ranks[0].report.update, UPDATES - 1);
    check_same(&ranks[1], &ranks[0]);
    check_same(&twice[0], &ranks[0]);
    free_values(ranks, RANKS);
    free_values(twice, RANKS);
}

/* Ranks with different initial states, and ranks without communication. */
static void test_ranks_with_different_setup_are_rejected(void **state) {
    (void)state;
    job ranks[RANKS] = {dropping(2), dropping(2)}, rates[RANKS] = {dropping(2), dropping(2)},
        deaf[RANKS] = {dropping(2), dropping(2)};
    ranks[1].seed = 4;
    rates[1].options.learning_rate = 2e-3;
    run_ranks(ranks, false);
    run_ranks(rates, false);
    run_ranks(deaf, true);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(ranks[i].statuses[0], TFM_ERROR_NUMERIC);
        assert_int_equal(rates[i].statuses[0], TFM_ERROR_NUMERIC);
        assert_int_equal(deaf[i].statuses[0], TFM_ERROR_IO);
        assert_non_null(strstr(ranks[i].sentence, "of rank 1 are not those of rank 0"));
        assert_non_null(strstr(deaf[i].sentence, "can no longer communicate"));
    }
    free_values(ranks, RANKS);
    free_values(rates, RANKS);
    free_values(deaf, RANKS);
}

/* ---- Buckets ---- */

/* Every number is in one bucket, and there in one rank's block; every bucket is sent once. */
static void test_gradient_buckets_cover_every_number_once(void **state) {
    (void)state;
    const tfm__bucket_layout examples[] = {
        {64, 64, 64, 2}, {640, 64, 128, 3}, {640, 0, 6400, 8}, {6400, 6336, 64 * 7, 4}};
    for (size_t e = 0; e < sizeof(examples) / sizeof(*examples); e++) {
        const tfm__bucket_layout *c = &examples[e];
        int64_t at = 0, owned = 0;
        uint64_t sent = 0;
        for (int64_t k = 0; k < tfm__bucket_count(c); k++) {
            const tfm__flat_range bucket = tfm__bucket_range(c, k);
            assert_int_equal(bucket.at, at);
            assert_true(bucket.count > 0 && bucket.count <= c->bucket_size);
            assert_true(bucket.at >= c->decayed || bucket.at + bucket.count <= c->decayed);
            for (int i = 0; i < c->world; i++) {
                const tfm__flat_range block = tfm__bucket_shard(c, k, i);
                assert_int_equal(block.at, at);
                assert_true(block.count >= 0 && block.count <= tfm__bucket_shard_max(c, k));
                at += block.count;
            }
            assert_int_equal(at, bucket.at + bucket.count);
            sent |= (uint64_t)1 << tfm__bucket_send_order(c, k);
        }
        for (int i = 0; i < c->world; i++)
            owned += tfm__shard_size(c, i);
        assert_int_equal(at, c->count);
        assert_int_equal(owned, c->count);
        assert_int_equal(sent, ((uint64_t)1 << tfm__bucket_count(c)) - 1);
    }
}

static void fill_jobs(job *jobs, int world, job like) {
    for (int i = 0; i < world; i++)
        jobs[i] = like;
}

static void check_ranks(const job *jobs, int world) {
    for (int i = 0; i < world; i++) /* the rank's own failure rather than the others' report */
        for (int u = 0; u < UPDATES; u++)
            if (jobs[i].statuses[u] != TFM_OK && jobs[i].statuses[u] != TFM_ERROR_CANCELLED)
                fail_msg("rank %d, update %d: %s", i, u + 1, jobs[i].sentence);
    for (int i = 0; i < world; i++) {
        check_all_good(&jobs[i]);
        check_same(&jobs[i], &jobs[0]);
    }
}

/* All buckets are sent before the host has enqueued the rest of the backward pass, and the sum equals that of a single
 * bucket. */
static void test_allreduce_overlaps_the_backward_pass(void **state) {
    (void)state;
    job one[RANKS], many[RANKS], like = dropping(2);
    fill_jobs(one, RANKS, like);
    like.bucket = BUCKET;
    fill_jobs(many, RANKS, like);
    run_ranks(one, false);
    run_ranks(many, false);
    check_ranks(many, RANKS);
    check_close(&many[0], &one[0]);
    assert_true(many[0].early > 8 && many[0].early == many[1].early);
    free_values(one, RANKS);
    free_values(many, RANKS);
}

/* ---- Sharded optimizer state ---- */

static void test_sharded_optimizer_state_is_bit_identical(void **state) {
    (void)state;
    for (int world = 2; world <= MOST_RANKS; world += harness_brief() ? 2 : 1) {
        job whole[MOST_RANKS], shards[MOST_RANKS], like = dropping(3);
        int64_t sum = 0;
        like.bucket = BUCKET;
        fill_jobs(whole, world, like);
        like.options.shard_optimizer = true;
        fill_jobs(shards, world, like);
        run_world(whole, world, false);
        run_world(shards, world, false);
        check_ranks(whole, world);
        check_ranks(shards, world);
        check_same(&shards[0], &whole[0]);
        for (int i = 0; i < world; i++) {
            assert_int_equal(whole[i].moments, whole[i].count);
            sum += shards[i].moments;
        }
        assert_int_equal(sum, whole[0].count);
        assert_true(shards[0].moments < whole[0].count * 3 / (2 * world)); /* blocks differ in size */
        free_values(whole, world);
        free_values(shards, world);
    }
}

/* Recomputed blocks: buckets are sent during recomputation, none too early. */
static void test_allreduce_overlaps_recomputation(void **state) {
    (void)state;
    job kept[RANKS], again[RANKS], like = dropping(2);
    like.bucket = BUCKET;
    fill_jobs(kept, RANKS, like);
    like.options.gradient_checkpointing = true;
    fill_jobs(again, RANKS, like);
    run_world(kept, RANKS, false);
    run_world(again, RANKS, false);
    check_ranks(again, RANKS);
    check_same(&again[0], &kept[0]);
    assert_true(again[0].early > 0);
    free_values(kept, RANKS);
    free_values(again, RANKS);
}

/* Four ranks, two, then four: whole, sharded, and alternating. */
static void test_resuming_with_other_ranks_is_bit_identical(void **state) {
    (void)state;
    static const bool plans[][3] = {
        {false, false, false}, {true, true, true}, {true, false, true}, {false, true, false}};
    static const int worlds[] = {4, 2, 4};
    static const char *const states[] = {"state0", "state1", "state2"};
    job wanted = {0};
    for (size_t p = 0; p < sizeof(plans) / sizeof(*plans); p += harness_brief() ? 2 : 1)
        for (int phase = 0; phase < 3; phase++) {
            job jobs[MOST_RANKS], like = dropping(4);
            like.bucket = phase == 1 ? 2 * BUCKET : BUCKET;
            like.options.shard_optimizer = plans[p][phase];
            like.from = phase > 0 ? scratch_path(states[phase - 1]) : NULL;
            like.to = scratch_path(states[phase]);
            fill_jobs(jobs, worlds[phase], like);
            run_world(jobs, worlds[phase], false);
            check_ranks(jobs, worlds[phase]);
            if (phase == 2 && p > 0)
                check_same(&jobs[0], &wanted);
            if (phase == 2 && p == 0)
                wanted = jobs[0];
            else
                free_values(jobs, 1);
            free_values(jobs + 1, worlds[phase] - 1);
        }
    free_values(&wanted, 1);
}

static size_t count_files(const char *beginning) {
    char **names;
    size_t count, found = 0;
    harness_ok(tfm__dir_list(&names, &count, scratch_root));
    for (size_t i = 0; i < count; i++)
        found += strncmp(names[i], beginning, strlen(beginning)) == 0;
    tfm__names_free(names, count);
    return found;
}

/* Shards of an older checkpoint are deleted once the next one is complete; a damaged or missing one is named. */
static void test_old_checkpoint_shards_are_removed(void **state) {
    (void)state;
    job jobs[RANKS], like = dropping(2);
    tfm_model *model;
    tfm_trainer *trainer;
    like.options.shard_optimizer = true;
    like.to = scratch_path("parts");
    fill_jobs(jobs, RANKS, like);
    run_ranks(jobs, false);
    check_ranks(jobs, RANKS);
    free_values(jobs, RANKS);
    assert_int_equal(count_files("parts"), 3);
    assert_true(tfm__file_exists(scratch_path("parts-00000004-1-of-2")));
    scratch_text("parts-00000001-0-of-20", "of a run before");
    scratch_text("parts-1-of-2", "of somebody else");
    jobs[0].from = jobs[1].from = like.to;
    run_ranks(jobs, false);
    check_ranks(jobs, RANKS);
    free_values(jobs, RANKS);
    assert_int_equal(count_files("parts"), 4);
    assert_true(tfm__file_exists(scratch_path("parts-00000008-1-of-2")));
    harness_ok(tfm_model_new(&model, harness_context(), &SMALL));
    harness_ok(tfm_trainer_new(&trainer, model, NULL));
    harness_ok(tfm_trainer_load(trainer, NULL, scratch_path("parts")));
    size_t size;
    char *bytes;
    harness_ok(tfm__file_read(&bytes, &size, scratch_path("parts-00000008-1-of-2")));
    bytes[size / 2] ^= 1;
    scratch_write("parts-00000008-1-of-2", bytes, size);
    scratch_refused(tfm_trainer_load(trainer, NULL, scratch_path("parts")), TFM_ERROR_FORMAT, "parts-00000008-1-of-2");
    assert_int_equal(unlink(scratch_path("parts-00000008-1-of-2")), 0);
    scratch_refused(tfm_trainer_load(trainer, NULL, scratch_path("parts")), TFM_ERROR_IO, "parts-00000008-1-of-2");
    harness_ok(tfm_trainer_save(trainer, NULL, scratch_path("parts")));
    assert_int_equal(count_files("parts"), 2);
    free(bytes);
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
}

/* One rank cannot write: all fail, and the older checkpoint stays complete. */
static void test_unwritable_shard_keeps_the_old_checkpoint(void **state) {
    (void)state;
    job jobs[RANKS], like = dropping(2);
    like.options.shard_optimizer = true;
    like.to = scratch_path("kept");
    fill_jobs(jobs, RANKS, like);
    run_ranks(jobs, false);
    free_values(jobs, RANKS);
    assert_int_equal(mkdir(scratch_path("kept-00000008-1-of-2.unfinished"), 0700), 0);
    jobs[0].from = jobs[1].from = like.to;
    run_ranks(jobs, false);
    free_values(jobs, RANKS);
    assert_int_equal(jobs[0].statuses[UPDATES - 1], TFM_ERROR_CANCELLED);
    assert_int_equal(jobs[1].statuses[UPDATES - 1], TFM_ERROR_IO);
    jobs[0].to = jobs[1].to = NULL;
    run_ranks(jobs, false);
    check_ranks(jobs, RANKS);
    assert_int_equal(jobs[0].report.update, 2 * UPDATES);
    free_values(jobs, RANKS);
}

/* A quarter of the optimizer memory, also in the estimate. */
static void test_sharded_optimizer_state_saves_memory(void **state) {
    (void)state;
    tfm_model *model;
    tfm_model_shape shape = SMALL;
    const tfm_process_group ranks = {0, 4, exchange, gather, NULL};
    tfm_trainer_options options = plain_options();
    shape.width = 256;
    shape.ffn_dim = 1024;
    harness_ok(tfm_model_new(&model, harness_context(), &shape));
    const uint64_t whole = tfm_trainer_estimate_memory(model, &options, 8);
    options.process_group = &ranks;
    assert_int_equal(tfm_trainer_estimate_memory(model, &options, 8), whole);
    options.shard_optimizer = true;
    const double saved = (double)(whole - tfm_trainer_estimate_memory(model, &options, 8));
    const double moments = 2 * 4.0 * (double)tfm_model_get_info(model)->parameters;
    if (!(saved > 0.6 * moments && saved < 0.9 * moments))
        fail_msg("%.0f bytes of moments, and only %.0f less when sharded", moments, saved);
    tfm_model_free(&model);
}

/* ---- Communication dtype ---- */

/* Traffic of a rank: of each bucket a block to each other rank, and its sum. */
static uint64_t bytes_of_updates(const job *j, size_t number, size_t header) {
    const tfm__bucket_layout layout = {j->count, j->decayed, j->bucket, RANKS};
    uint64_t bytes = 0;
    for (int64_t k = 0; k < tfm__bucket_count(&layout); k++)
        bytes += 2 * ((uint64_t)tfm__bucket_shard_max(&layout, k) * number + header);
    return UPDATES * bytes;
}

/* 16-bit gradients: equal on all ranks, sharded or not, close to fp32, and half the bytes. */
static void test_half_precision_allreduce_is_near_fp32(void **state) {
    (void)state;
    static const struct {
        tfm_dtype dtype;
        double apart;
    } kinds[] = {{TFM_F32, 0}, {TFM_F16, 2e-5}, {TFM_BF16, 2e-4}};
    job full[RANKS] = {0};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        job jobs[RANKS], shards[RANKS], like = dropping(2);
        const bool narrow = kinds[i].dtype != TFM_F32;
        double most = 0;
        like.bucket = BUCKET;
        like.options.comm_dtype = kinds[i].dtype;
        fill_jobs(jobs, RANKS, like);
        like.options.shard_optimizer = true;
        fill_jobs(shards, RANKS, like);
        run_ranks(jobs, false);
        run_ranks(shards, false);
        check_ranks(jobs, RANKS);
        check_ranks(shards, RANKS);
        check_same(&shards[0], &jobs[0]);
        assert_int_equal(jobs[0].comm.bytes, bytes_of_updates(&jobs[0], narrow ? 2 : 4, narrow ? 8 : 0));
        assert_true(jobs[0].comm.seconds >= jobs[0].comm.overlapped_seconds);
        if (i == 0)
            memcpy(full, jobs, sizeof(full));
        for (int64_t k = 0; k < jobs[0].count; k++)
            most = fmax(most, fabs((double)jobs[0].values[k] - (double)full[0].values[k]));
        if (!harness_poses() && (most > kinds[i].apart || (i > 0 && most == 0)))
            fail_msg("%s: the parameters differ by %g", tfm_dtype_name(kinds[i].dtype), most);
        assert_true(fabs(jobs[0].report.loss / full[0].report.loss - 1) < 1e-3);
        free_values(shards, RANKS);
        if (i > 0)
            free_values(jobs, RANKS);
    }
    free_values(full, RANKS);
}

static void test_process_group_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_model *model;
    tfm_trainer *trainer;
    harness_ok(tfm_model_new(&model, harness_context(), &SMALL));
    harness_ok(tfm_trainer_new(&trainer, model, NULL));
    const tfm_process_group bad[] = {{0, 0, exchange, gather, NULL},
                                     {2, 2, exchange, gather, NULL},
                                     {-1, 2, exchange, gather, NULL},
                                     {0, 2, NULL, gather, NULL},
                                     {0, 2, exchange, NULL, NULL}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        harness_refused(tfm_trainer_set_process_group(trainer, &bad[i]), TFM_ERROR_ARGUMENT,
                        "trainer_set_process_group: rank ");
    harness_ok(tfm_trainer_set_process_group(trainer, NULL));
    tfm_trainer_free(&trainer);
    harness_refused(tfm_trainer_new(&trainer, model, &(tfm_trainer_options){.process_group = &bad[0]}),
                    TFM_ERROR_ARGUMENT, "trainer_new: rank ");
    harness_refused(tfm_trainer_new(&trainer, model, &(tfm_trainer_options){.comm_dtype = TFM_I8}), TFM_ERROR_ARGUMENT,
                    "trainer_new: comm_dtype is ");
    tfm_process_group good = {1, 2, exchange, gather, NULL};
    harness_ok(
        tfm_trainer_new(&trainer, model, &(tfm_trainer_options){.process_group = &good, .shard_optimizer = true}));
    harness_ok(tfm_trainer_set_process_group(trainer, &good));
    harness_refused(tfm_trainer_set_process_group(trainer, NULL), TFM_ERROR_ARGUMENT,
                    "trainer_set_process_group: rank 0 of 1 has moments of rank 1 of 2");
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
}

static int setup(void **state) {
    return scratch_setup(state) || scratch_keep_binaries() || harness_setup(state);
}

static int teardown(void **state) {
    return harness_teardown(state) || scratch_drop_binaries() || scratch_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_accumulate_as_one_trainer),
        cmocka_unit_test(test_one_rank_is_bit_identical),
        cmocka_unit_test(test_rank_with_split_batch_matches_whole),
        cmocka_unit_test(test_failed_update_of_one_rank_changes_nothing),
        cmocka_unit_test(test_ranks_with_different_setup_are_rejected),
        cmocka_unit_test(test_gradient_buckets_cover_every_number_once),
        cmocka_unit_test(test_allreduce_overlaps_the_backward_pass),
        cmocka_unit_test(test_sharded_optimizer_state_is_bit_identical),
        cmocka_unit_test(test_allreduce_overlaps_recomputation),
        cmocka_unit_test(test_resuming_with_other_ranks_is_bit_identical),
        cmocka_unit_test(test_old_checkpoint_shards_are_removed),
        cmocka_unit_test(test_unwritable_shard_keeps_the_old_checkpoint),
        cmocka_unit_test(test_sharded_optimizer_state_saves_memory),
        cmocka_unit_test(test_half_precision_allreduce_is_near_fp32),
        cmocka_unit_test(test_process_group_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
