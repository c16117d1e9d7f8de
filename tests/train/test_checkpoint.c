/* Resuming a run: bit-identical, from the same batch; and files that are no checkpoint. */
#include "dev/tuning/tuning_db.h"
#include "model/weights/safetensors.h"
#include "support/scratch.h"
#include "support/small_model.h"
#include "tfm/data.h"

static void open_both(tfm_model **model, tfm_trainer **trainer, const tfm_model_shape *shape,
                      const tfm_trainer_options *o) {
    harness_ok(tfm_model_new(model, harness_context(), shape));
    harness_ok(tfm_trainer_new(trainer, *model, o));
}

static void free_both(tfm_model **model, tfm_trainer **trainer) {
    tfm_trainer_free(trainer);
    tfm_model_free(model);
}

static tfm_trainer_options dropping(void) {
    tfm_trainer_options o = {0};
    tfm_trainer_paper(&o);
    o.dropout = 0.2f;
    o.learning_rate = 5e-3;
    o.warmup_steps = 4;
    return o;
}

/* Ten updates in one run, and resumed by another trainer from a checkpoint after the fourth: bit-identical. The caller
 * chooses the file name, even one with PyTorch's suffix. */
static void test_resumed_training_is_bit_identical(void **state) {
    (void)state;
    const tfm_trainer_options o = dropping();
    const char *path = scratch_path("resume.bin");
    double first = 0, last = 0;
    float *want = train_ten(&SMALL, &o, &first, &last), *got = NULL;
    harness_random random = {5};
    int32_t ids[8 * 9], lengths[8];
    int64_t count = 0;
    for (int part = 0; part < 2; part++) {
        tfm_model *model;
        tfm_trainer *trainer;
        tfm_model_shape shape = SMALL;
        shape.seed += (uint64_t)part; /* the initial values are overwritten */
        open_both(&model, &trainer, &shape, &o);
        if (part == 1)
            harness_ok(tfm_trainer_load(trainer, NULL, path));
        assert_int_equal(tfm_trainer_updates(trainer), part * 4);
        while (tfm_trainer_updates(trainer) < (part ? 10 : 4)) {
            const tfm_batch batch = copy_batch(&random, ids, lengths);
            harness_ok(tfm_trainer_update(trainer, NULL, &batch, 1));
        }
        if (part == 0)
            harness_ok(tfm_trainer_save(trainer, NULL, path));
        else
            got = harness_floats(trainer->value);
        count = trainer->count;
        free_both(&model, &trainer);
    }
    assert_memory_equal(got, want, (size_t)count * sizeof(float));
    free(got);
    free(want);
}

static int retuned;

static void count_retuned(void *user, tfm_log_level level, const char *line) {
    (void)user;
    retuned += level == TFM_LOG_WARNING && strstr(line, "another table of `tfm tune`") && !strchr(line, '\n');
}

/* A changed table of `tfm tune` gives one warning, and the run continues. */
static void test_other_tuning_table_gives_one_warning(void **state) {
    (void)state;
    static const struct {
        const char *saved, *loaded; /* of an unused row */
        int warnings;
    } CASES[] = {{NULL, NULL, 0}, {"1", "1", 0}, {NULL, "1", 1}, {"1", "2", 1}, {"1", NULL, 1}};
    const tfm_trainer_options o = dropping();
    const char *path = scratch_path("tuned");
    tfm_model *model;
    tfm_trainer *trainer;
    open_both(&model, &trainer, &SMALL, &o);
    tfm_log_set(count_retuned, NULL, TFM_LOG_WARNING);
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        retuned = 0;
        harness_ok(tfm__tuning_db_set(harness_context(), "nobody", CASES[i].saved));
        harness_ok(tfm_trainer_save(trainer, NULL, path));
        harness_ok(tfm__tuning_db_set(harness_context(), "nobody", CASES[i].loaded));
        harness_ok(tfm_trainer_load(trainer, NULL, path));
        assert_int_equal(retuned, CASES[i].warnings);
    }
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    free_both(&model, &trainer);
}

/* ---- With data ---- */

static void write_corpus(void) {
    char text[8192];
    size_t at = 0;
    for (int i = 0; i < 90; i++) {
        at += (size_t)sprintf(text + at, "%d", i);
        for (int k = 0; k < i % 7; k++)
            at += (size_t)sprintf(text + at, " Haus");
        at += (size_t)sprintf(text + at, "\t%d House.\n", i);
    }
    scratch_write("corpus", text, at);
}

/* Twelve updates in one run, over two passes of several buffers; and stopped after each of several, with trainer and
 * data reopened. */
static void test_resumed_data_position_is_bit_identical(void **state) {
    (void)state;
    const tfm_trainer_options o = dropping();
    const tfm_data_options d = {.batch_tokens = 150, .buffer_size = 40, .seed = 4};
    const char *path = scratch_path("position");
    char *dir = harness_source("apps/demo"), corpus[4400];
    tfm_tokenizer *tokenizer;
    tfm_model_shape shape = SMALL;
    float *want = NULL;
    write_corpus();
    snprintf(corpus, sizeof(corpus), "%s", scratch_path("corpus"));
    harness_ok(tfm_tokenizer_open(&tokenizer, dir));
    const tfm_tokenizer_info info = *tfm_tokenizer_get_info(tokenizer);
    shape.source_vocab_size = info.source_size;
    shape.pad_id = shape.start_id = info.source_size - 1;
    for (int stop = 0; stop < 12; stop += 3) {
        tfm_model *model;
        tfm_trainer *trainer;
        tfm_data *data;
        open_both(&model, &trainer, &shape, &o);
        harness_ok(tfm_data_open(&data, tokenizer, corpus, NULL, &d));
        for (int i = 0; i < 12; i++) {
            tfm_batch batch;
            if (stop > 0 && i == stop) {
                harness_ok(tfm_trainer_save(trainer, data, path));
                free_both(&model, &trainer);
                tfm_data_free(&data);
                open_both(&model, &trainer, &shape, &o);
                harness_ok(tfm_data_open(&data, tokenizer, corpus, NULL, &d));
                harness_ok(tfm_trainer_load(trainer, data, path));
            }
            harness_ok(tfm_data_next(data, &batch));
            harness_ok(tfm_trainer_update(trainer, NULL, &batch, 1));
        }
        assert_true(tfm_data_tell(data).epoch > 0);
        float *got = harness_floats(trainer->value);
        if (stop > 0)
            assert_memory_equal(got, want, (size_t)trainer->count * sizeof(float));
        else
            want = got;
        if (stop > 0)
            free(got);
        free_both(&model, &trainer);
        tfm_data_free(&data);
    }
    free(want);
    free(dir);
    tfm_tokenizer_free(&tokenizer);
}

/* A checkpoint with a changed header word and a matching checksum. */
static void write_sealed(const char *name, char *bytes, size_t size) {
    tfm__checksum_encode((unsigned char *)bytes + size - TFM__CHECKSUM_BYTES,
                         tfm__hash64(bytes, size - TFM__CHECKSUM_BYTES, 0));
    scratch_write(name, bytes, size);
}

/* A missing or invalid data position is rejected without effect. */
static void test_checkpoint_without_position_changes_nothing(void **state) {
    (void)state;
    const tfm_trainer_options o = plain_options();
    char *dir = harness_source("apps/demo"), path[4400];
    tfm_tokenizer *tokenizer;
    tfm_data *data;
    tfm_model *model;
    tfm_trainer *trainer;
    int32_t ids[8 * 9], lengths[8];
    write_corpus();
    snprintf(path, sizeof(path), "%s", scratch_path("none"));
    harness_ok(tfm_tokenizer_open(&tokenizer, dir));
    harness_ok(tfm_data_open(&data, tokenizer, scratch_path("corpus"), NULL, NULL));
    open_both(&model, &trainer, &SMALL, &o);
    harness_ok(tfm_trainer_save(trainer, NULL, path));
    const tfm_batch batch = copy_batch(&(harness_random){2}, ids, lengths);
    harness_ok(tfm_trainer_update(trainer, NULL, &batch, 1));
    scratch_refused(tfm_trainer_load(trainer, data, path), TFM_ERROR_FORMAT, "has no data position");
    assert_int_equal(tfm_trainer_updates(trainer), 1);
    harness_ok(tfm_trainer_save(trainer, data, path));
    size_t size;
    char *bytes;
    harness_ok(tfm__file_read(&bytes, &size, path));
    char *place = memmem(bytes, size, "0 0 0 0 0 0", 11);
    assert_non_null(place);
    place[4] = '-';
    write_sealed("bad", bytes, size);
    scratch_refused(tfm_trainer_load(trainer, data, scratch_path("bad")), TFM_ERROR_FORMAT, "not six numbers");
    place[4] = '0';
    place[9] = place[10] = ' '; /* five, as in older versions, but followed by blanks */
    write_sealed("bad", bytes, size);
    scratch_refused(tfm_trainer_load(trainer, data, scratch_path("bad")), TFM_ERROR_FORMAT, "not six numbers");
    place[9] = '"'; /* valid JSON with blanks */
    place[11] = ' ';
    write_sealed("bad", bytes, size);
    harness_ok(tfm_trainer_load(trainer, data, scratch_path("bad")));
    memcpy(place, "0 0 0 0 0 0\"", 12);
    place[2] = '9'; /* that batch does not exist */
    write_sealed("bad", bytes, size);
    scratch_refused(tfm_trainer_load(trainer, data, scratch_path("bad")), TFM_ERROR_INPUT, "batch 9 does not exist");
    harness_ok(tfm_trainer_load(trainer, data, path));
    free(bytes);
    free(dir);
    free_both(&model, &trainer);
    tfm_data_free(&data);
    tfm_tokenizer_free(&tokenizer);
}

/* ---- Notes ---- */

static void test_checkpoint_note_round_trip(void **state) {
    (void)state;
    const tfm_trainer_options o = plain_options();
    const char *path = scratch_path("note");
    tfm_model *model;
    tfm_trainer *trainer;
    static char large[1 << 20];
    for (size_t i = 0; i + 1 < sizeof(large); i++)
        large[i] = (char)(1 + i % 127);
    const char *const notes[] = {"{\"best\": 31.5, \"name\": \"gr\xc3\xbc\xc3\x9f\"}", "", large, NULL};
    open_both(&model, &trainer, &SMALL, &o);
    assert_null(tfm_trainer_note(trainer));
    for (size_t i = 0; i < sizeof(notes) / sizeof(*notes); i++) {
        harness_ok(tfm_trainer_set_note(trainer, notes[i]));
        harness_ok(tfm_trainer_save(trainer, NULL, path));
        harness_ok(tfm_trainer_set_note(trainer, "another"));
        harness_ok(tfm_trainer_load(trainer, NULL, path));
        if (notes[i])
            assert_string_equal(tfm_trainer_note(trainer), notes[i]);
        else
            assert_null(tfm_trainer_note(trainer));
    }
    harness_ok(tfm_trainer_set_note(trainer, "kept"));
    scratch_refused(tfm_trainer_set_note(trainer, "\xff"), TFM_ERROR_ARGUMENT, "not UTF-8");
    assert_string_equal(tfm_trainer_note(trainer), "kept");
    /* A note that no checkpoint can store is rejected at once. */
    const size_t most = 50000000;
    char *text = malloc(most + 1);
    assert_non_null(text);
    memset(text, 'a', most);
    text[most] = 0;
    scratch_refused(tfm_trainer_set_note(trainer, text), TFM_ERROR_ARGUMENT, "less than 50000000");
    memset(text, 1, 20000000);
    text[20000000] = 0;
    scratch_refused(tfm_trainer_set_note(trainer, text), TFM_ERROR_ARGUMENT, "120000000 as JSON");
    assert_string_equal(tfm_trainer_note(trainer), "kept");
    free(text);
    free_both(&model, &trainer);
}

/* ---- Averages ---- */

enum { SNAPSHOTS = 3 };

/* Continues training, with a snapshot after every few updates, and a checkpoint for the last of them. Returns the
 * parameters in values, and evaluation losses in nlls. */
static void take_snapshots(tfm_trainer *trainer, char (*paths)[4400], float **values, double *nlls) {
    harness_random random = {5};
    int32_t ids[8 * 9], lengths[8];
    uint64_t tokens;
    for (int i = 0; i < SNAPSHOTS; i++) {
        for (int k = 0; k < 3; k++) {
            const tfm_batch batch = copy_batch(&random, ids, lengths);
            harness_ok(tfm_trainer_update(trainer, NULL, &batch, 1));
        }
        const tfm_batch batch = copy_batch(&(harness_random){9}, ids, lengths);
        harness_ok(tfm_trainer_evaluate(trainer, &nlls[i], &tokens, &batch));
        values[i] = harness_floats(trainer->value);
        snprintf(paths[i], sizeof(paths[i]), "%s-%d", scratch_path("average"), i);
        harness_ok(i + 1 < SNAPSHOTS ? tfm_trainer_snapshot(trainer, paths[i])
                                     : tfm_trainer_save(trainer, NULL, paths[i]));
    }
}

/* Averages of one and of all, bit-equal to a sum in double; packed copies follow. */
static void test_snapshot_average_is_exact(void **state) {
    (void)state;
    tfm_trainer_options o = dropping();
    tfm_model *model;
    tfm_trainer *trainer;
    char paths[SNAPSHOTS][4400];
    const char *const all[SNAPSHOTS] = {paths[0], paths[1], paths[2]};
    float *values[SNAPSHOTS];
    double nlls[SNAPSHOTS], nll;
    int32_t ids[8 * 9], lengths[8];
    uint64_t tokens;
    open_both(&model, &trainer, &SMALL, &o);
    take_snapshots(trainer, paths, values, nlls);
    const tfm_batch batch = copy_batch(&(harness_random){9}, ids, lengths);
    for (int i = 0; i < SNAPSHOTS; i++) {
        harness_ok(tfm_trainer_average(trainer, &all[i], 1));
        harness_ok(tfm_trainer_evaluate(trainer, &nll, &tokens, &batch));
        assert_true(nll == nlls[i]);
    }
    float *moments = harness_floats(trainer->v);
    harness_ok(tfm_trainer_average(trainer, all, SNAPSHOTS));
    float *got = harness_floats(trainer->value), *after = harness_floats(trainer->v);
    for (int64_t i = 0; i < trainer->count; i++)
        assert_true(got[i] ==
                    (float)(((double)values[0][i] + (double)values[1][i] + (double)values[2][i]) / SNAPSHOTS));
    assert_memory_equal(after, moments, (size_t)trainer->count * sizeof(float));
    assert_int_equal(tfm_trainer_updates(trainer), 3 * SNAPSHOTS);
    free(moments);
    free(after);

    /* An invalid file in the list changes nothing. */
    const char *const bad[] = {paths[0], scratch_path("absent"), paths[1]};
    scratch_refused(tfm_trainer_average(trainer, bad, 3), TFM_ERROR_IO, "absent");
    scratch_refused(tfm_trainer_average(trainer, bad, 0), TFM_ERROR_ARGUMENT, "needs at least one file");
    scratch_refused(tfm_trainer_load(trainer, NULL, paths[0]), TFM_ERROR_FORMAT, "is not a checkpoint");
    assert_int_equal(truncate(paths[1], 5000), 0);
    scratch_refused(tfm_trainer_average(trainer, all, 3), TFM_ERROR_FORMAT, "was truncated");
    after = harness_floats(trainer->value);
    assert_memory_equal(after, got, (size_t)trainer->count * sizeof(float));
    free(after);
    free(got);
    for (int i = 0; i < SNAPSHOTS; i++)
        free(values[i]);
    free_both(&model, &trainer);
}

/* A tensor written and summed in several chunks. */
static void test_large_checkpoint_round_trip(void **state) {
    (void)state;
    const tfm_trainer_options o = plain_options();
    const char *path = scratch_path("large");
    const float zero = 0;
    tfm_model_shape shape = SMALL;
    tfm_model *model;
    tfm_trainer *trainer;
    shape.ffn_dim = 35000;
    open_both(&model, &trainer, &shape, &o);
    assert_true(trainer->count > 1 << 22);
    float *want = harness_floats(trainer->value);
    harness_ok(tfm_trainer_snapshot(trainer, path));
    harness_ok(tfm__tensor_fill(trainer->ctx, trainer->value, &zero));
    harness_ok(tfm_trainer_average(trainer, (const char *[]){path, path, path}, 3));
    float *got = harness_floats(trainer->value);
    assert_memory_equal(got, want, (size_t)trainer->count * sizeof(float));
    free(got);
    free(want);
    free_both(&model, &trainer);
}

/* ---- Invalid checkpoints ------ */

/* A file of another model, a truncated one, none: the trainer stays unchanged. */
static void test_wrong_checkpoint_leaves_trainer_unchanged(void **state) {
    (void)state;
    tfm_model *models[2];
    tfm_trainer *trainers[2];
    const tfm_trainer_options o = plain_options();
    const char *path = scratch_path("wrong");
    for (int i = 0; i < 2; i++) {
        tfm_model_shape shape = SMALL;
        shape.ffn_dim += 64 * i;
        open_both(&models[i], &trainers[i], &shape, &o);
    }
    float *before = harness_floats(trainers[1]->value);
    harness_ok(tfm_trainer_save(trainers[0], NULL, path));
    scratch_refused(tfm_trainer_load(trainers[1], NULL, path), TFM_ERROR_FORMAT, "is not a checkpoint of this model");
    scratch_refused(tfm_trainer_average(trainers[1], &path, 1), TFM_ERROR_FORMAT, "not a snapshot or checkpoint");
    assert_int_equal(truncate(path, 5000), 0);
    scratch_refused(tfm_trainer_load(trainers[0], NULL, path), TFM_ERROR_FORMAT, "was truncated");
    unlink(path);
    scratch_refused(tfm_trainer_load(trainers[0], NULL, path), TFM_ERROR_IO, "wrong");
    float *after = harness_floats(trainers[1]->value);
    assert_memory_equal(before, after, (size_t)trainers[1]->count * sizeof(float));
    free(before);
    free(after);
    for (int i = 0; i < 2; i++)
        free_both(&models[i], &trainers[i]);
}

/* One flipped bit, in the header, the numbers or the checksum: the trainer stays unchanged. */
static void test_damaged_checkpoint_leaves_trainer_unchanged(void **state) {
    (void)state;
    const tfm_trainer_options o = plain_options();
    const char *path = scratch_path("sealed");
    tfm_model *model;
    tfm_trainer *trainer;
    size_t size;
    char *bytes;
    open_both(&model, &trainer, &SMALL, &o);
    harness_ok(tfm_trainer_save(trainer, NULL, path));
    harness_ok(tfm__file_read(&bytes, &size, path));
    float *before = harness_floats(trainer->value);
    const char *update = memmem(bytes, size, "\"update\":\"0\"", 12);
    const char *seal = memmem(bytes, size, "\"checksum\"", 10);
    assert_true(update && seal);
    const size_t places[] = {(size_t)(update - bytes) + 10, (size_t)(seal - bytes) + 1, size / 3,
                             size - TFM__CHECKSUM_BYTES - 4, size - 1};
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        bytes[places[i]] ^= 1;
        scratch_write("sealed", bytes, size);
        bytes[places[i]] ^= 1;
        scratch_refused(tfm_trainer_load(trainer, NULL, path), TFM_ERROR_FORMAT, "is damaged, or was written");
        scratch_refused(tfm_trainer_average(trainer, &path, 1), TFM_ERROR_FORMAT, "is damaged, or was written");
    }
    float *after = harness_floats(trainer->value);
    assert_memory_equal(before, after, (size_t)trainer->count * sizeof(float));
    scratch_write("sealed", bytes, size);
    harness_ok(tfm_trainer_load(trainer, NULL, path));
    free(before);
    free(after);
    free(bytes);
    free_both(&model, &trainer);
}

static int setup(void **state) {
    return scratch_setup(state) || harness_setup(state);
}

static int teardown(void **state) {
    return harness_teardown(state) || scratch_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resumed_training_is_bit_identical),
        cmocka_unit_test(test_resumed_data_position_is_bit_identical),
        cmocka_unit_test(test_other_tuning_table_gives_one_warning),
        cmocka_unit_test(test_checkpoint_without_position_changes_nothing),
        cmocka_unit_test(test_checkpoint_note_round_trip),
        cmocka_unit_test(test_wrong_checkpoint_leaves_trainer_unchanged),
        cmocka_unit_test(test_damaged_checkpoint_leaves_trainer_unchanged),
        cmocka_unit_test(test_snapshot_average_is_exact),
        cmocka_unit_test(test_large_checkpoint_round_trip),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
