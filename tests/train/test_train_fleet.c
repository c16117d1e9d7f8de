/* Data-parallel training on several devices: equal to one device with all batches. Contexts on the test's device stand
 * for devices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "dev/dev.h"
#include "model/tasks/batch.h"
#include "support/scratch.h"
#include "support/small_model.h"
#include "tfm/tfm.h"
#include "train/local_process_group.h"

enum { MOST = 3, UPDATES = 4, BATCHES = 4, TOKENS = 8 * 9 };

/* A fleet with a new model and its trainer; `devices` of 0 is a context without a fleet. */
typedef struct made {
    tfm_context *contexts[MOST];
    size_t devices;
    tfm_fleet *fleet;
    tfm_model *model;
    tfm_trainer *trainer;
} made;

static made make(size_t devices, const tfm_trainer_options *options) {
    made m = {.devices = devices};
    tfm_model_shape shape = SMALL;
    shape.activation = TFM_GELU; /* at ReLU's kink, rounding decides the side */
    for (size_t i = 0; i < devices || i == 0; i++)
        harness_ok(tfm_context_open(&m.contexts[i], NULL));
    if (devices > 0)
        harness_ok(tfm_fleet_new(&m.fleet, m.contexts, devices));
    harness_ok(devices > 0 ? tfm_fleet_new_model(&m.model, m.fleet, &shape)
                           : tfm_model_new(&m.model, m.contexts[0], &shape));
    harness_ok(tfm_trainer_new(&m.trainer, m.model, options));
    return m;
}

static void drop(made *m) {
    tfm_trainer_free(&m->trainer);
    tfm_model_free(&m->model);
    tfm_fleet_free(&m->fleet);
    for (size_t i = 0; i < MOST; i++)
        tfm_context_free(&m->contexts[i]);
}

/* All dropouts are on, and gradients are clipped. */
static tfm_trainer_options dropping(void) {
    tfm_trainer_options o = plain_options();
    o.dropout = 0.2f;
    o.attention_dropout = 0.1f;
    o.activation_dropout = 0.1f;
    o.epsilon = 1e-3; /* or Adam makes a full step of a gradient that is only rounding error */
    o.max_grad_norm = 0.5;
    o.weight_decay = 0.01;
    return o;
}

/* Updates `from` to below `to`, of so many batches each. */
static tfm_status update(made *m, int from, int to, size_t batches, tfm_update_report *report) {
    tfm_status status = TFM_OK;
    for (int u = from; u < to && status == TFM_OK; u++) {
        int32_t ids[BATCHES][TOKENS], lengths[BATCHES][8];
        tfm_batch all[BATCHES];
        harness_random random = {(uint64_t)u + 5};
        for (size_t i = 0; i < batches; i++)
            all[i] = copy_batch(&random, ids[i], lengths[i]);
        status = tfm_trainer_update(m->trainer, report, all, batches);
    }
    return status;
}

static float *values_of(made *m, size_t who) {
    tfm_trainer *t = tfm__trainer_replica(m->trainer, who);
    float *values = calloc((size_t)t->count, sizeof(*values));
    assert_non_null(values);
    harness_ok(tfm_tensor_read(t->ctx, values, t->value));
    return values;
}

/* Checks that all devices have bit-identical parameters; returns them. */
static float *common_values(made *m) {
    float *first = values_of(m, 0);
    for (size_t i = 1; i < tfm__trainer_replica_count(m->trainer); i++) {
        float *other = values_of(m, i);
        assert_memory_equal(first, other, (size_t)m->trainer->count * sizeof(*first));
        free(other);
    }
    return first;
}

static void check_close(const float *a, const float *b, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    if (!(most < 1e-5) && !harness_poses())
        fail_msg("the parameters differ by %g", most);
}

/* Runs all updates, and returns the parameters. */
static float *run(size_t devices, size_t batches, const tfm_trainer_options *options, tfm_update_report *report) {
    made m = make(devices, options);
    harness_ok(update(&m, 0, UPDATES, batches, report));
    float *values = common_values(&m);
    drop(&m);
    return values;
}

/* ---- Tests ----------------------------------------------------------------------------------------------------- */

/* Fewer batches than devices, as many, and more. */
static void test_devices_accumulate_as_one_device(void **state) {
    (void)state;
    const tfm_trainer_options o = dropping();
    for (size_t devices = 2; devices <= MOST; devices++)
        for (size_t batches = 1; batches <= BATCHES; batches += harness_brief() ? BATCHES - 1 : 1) {
            tfm_update_report alone, together, again;
            if (harness_brief() && (devices == 2) != (batches == 1))
                continue; /* the least work to two, the most to three */
            float *one = run(0, batches, &o, &alone), *many = run(devices, batches, &o, &together),
                  *more = run(devices, batches, &o, &again);
            made m = make(0, &o);
            check_close(many, one, m.trainer->count);
            assert_memory_equal(more, many, (size_t)m.trainer->count * sizeof(*many));
            assert_memory_equal(&again, &together, sizeof(again));
            assert_int_equal(together.update, UPDATES);
            assert_int_equal(together.target_tokens, alone.target_tokens);
            assert_int_equal(together.source_tokens, alone.source_tokens);
            assert_true(fabs(together.loss / alone.loss - 1) < 1e-5);
            assert_true(fabs(together.grad_norm / alone.grad_norm - 1) < 1e-4);
            drop(&m);
            free(one);
            free(many);
            free(more);
        }
}

/* A fleet of one device is bit-identical to that device. */
static void test_fleet_of_one_device_is_bit_identical(void **state) {
    (void)state;
    const tfm_trainer_options o = dropping();
    tfm_update_report alone, fleet;
    float *a = run(0, 2, &o, &alone), *b = run(1, 2, &o, &fleet);
    made m = make(1, &o);
    assert_int_equal(tfm__trainer_replica_count(m.trainer), 1);
    assert_memory_equal(a, b, (size_t)m.trainer->count * sizeof(*a));
    assert_memory_equal(&alone, &fleet, sizeof(alone));
    drop(&m);
    free(a);
    free(b);
}

/* Sharded optimizer state: bit-identical, with both checkpoint kinds loadable by either, and by one device. */
static void test_sharded_and_whole_checkpoints_are_exchangeable(void **state) {
    (void)state;
    const char *path = scratch_path("fleet.safetensors");
    tfm_trainer_options whole = dropping(), sharded = dropping();
    sharded.shard_optimizer = true;
    float *want = run(2, 3, &whole, NULL);
    for (int kind = harness_brief() ? 1 : 0; kind < (harness_brief() ? 3 : 4); kind++) {
        made before = make(2, kind & 1 ? &sharded : &whole), after = make(2, kind & 2 ? &sharded : &whole),
             alone = make(0, &whole);
        harness_ok(update(&before, 0, 2, 3, NULL));
        harness_ok(tfm_trainer_save(before.trainer, NULL, path));
        harness_ok(tfm_trainer_load(after.trainer, NULL, path));
        harness_ok(tfm_trainer_load(alone.trainer, NULL, path));
        harness_ok(update(&after, 2, UPDATES, 3, NULL));
        harness_ok(update(&alone, 2, UPDATES, 3, NULL));
        float *got = common_values(&after), *other = common_values(&alone);
        assert_memory_equal(got, want, (size_t)after.trainer->count * sizeof(*got));
        check_close(other, want, after.trainer->count);
        assert_int_equal(tfm_trainer_updates(after.trainer), UPDATES);
        assert_true(tfm_trainer_comm_stats(before.trainer).bytes > 0);
        free(got);
        free(other);
        drop(&before);
        drop(&after);
        drop(&alone);
    }
    free(want);
}

/* An average is applied on all devices, and later updates start from it. */
static void test_snapshot_average_reaches_all_devices(void **state) {
    (void)state;
    const char *a = scratch_path("a.safetensors"), *b = scratch_path("b.safetensors");
    const tfm_trainer_options o = dropping();
    made m = make(2, &o);
    harness_ok(update(&m, 0, 1, 2, NULL));
    harness_ok(tfm_trainer_snapshot(m.trainer, a));
    harness_ok(update(&m, 1, 2, 2, NULL));
    harness_ok(tfm_trainer_snapshot(m.trainer, b));
    harness_ok(tfm_trainer_average(m.trainer, (const char *const[]){a, b}, 2));
    free(common_values(&m));
    for (size_t i = 0; i < 2; i++)
        tfm__trainer_replica(m.trainer, i)->state_compared = false; /* equality is checked at once */
    harness_ok(update(&m, 2, 3, 2, NULL));
    drop(&m);
}

/* Meanwhile the first device owns the model; afterwards all do again. */
static void test_model_runs_on_first_device_between_updates(void **state) {
    (void)state;
    const tfm_trainer_options o = dropping();
    int32_t ids[TOKENS], lengths[8];
    harness_random random = {7};
    const tfm_batch batch = copy_batch(&random, ids, lengths);
    double nll, again;
    uint64_t tokens;
    made m = make(2, &o);
    assert_false(tfm__batches_are_parallel(m.model));
    harness_ok(update(&m, 0, 2, 2, NULL));
    harness_ok(tfm_trainer_evaluate(m.trainer, &nll, &tokens, &batch));
    harness_ok(tfm_trainer_evaluate(tfm__trainer_replica(m.trainer, 1), &again, &tokens, &batch));
    assert_true(nll == again || harness_poses());
    tfm_trainer_free(&m.trainer);
    assert_true(tfm__batches_are_parallel(m.model));
    harness_ok(tfm_trainer_new(&m.trainer, m.model, &o)); /* and may have another one */
    harness_ok(update(&m, 0, 1, 2, NULL));
    drop(&m);
}

/* A failure of one device before the step: the update fails on all, changes nothing, and the message names the device.
 * */
static void test_failure_of_one_device_changes_nothing(void **state) {
    (void)state;
    const tfm_trainer_options o = dropping();
    made m = make(2, &o);
    harness_ok(update(&m, 0, 2, 2, NULL));
    float *before = common_values(&m);
    tfm__context_fail(m.contexts[1], TFM_ERROR_DEVICE, "it burns");
    harness_refused(update(&m, 2, 3, 2, NULL), TFM_ERROR_DEVICE, "device 2 of 2 in training, ");
    assert_non_null(strstr(tfm_error_message(), "it burns"));
    assert_int_equal(tfm_trainer_updates(m.trainer), 2);
    tfm_context_clear_error(m.contexts[1]);
    float *after = common_values(&m);
    assert_memory_equal(before, after, (size_t)m.trainer->count * sizeof(*after));
    harness_ok(update(&m, 2, 3, 2, NULL));
    drop(&m);
    free(before);
    free(after);
}

/* Load balancing, which splits batches: equal to the updates of one device, and bit-identical when repeated, also after
 * a resume. Dropout masks differ. */
static void test_load_balancing_matches_one_device(void **state) {
    (void)state;
    static const double SHARES[][MOST] = {{3, 1, 0}, {1, 5, 2}};
    const char *path = scratch_path("shares.safetensors");
    tfm_trainer_options o = dropping();
    o.dropout = o.attention_dropout = o.activation_dropout = 0;
    for (size_t devices = 2; devices <= MOST; devices++)
        for (size_t batches = 1; batches <= BATCHES; batches += BATCHES - 1) {
            const double *shares = SHARES[devices - 2];
            if (harness_brief() && (devices == 2) == (batches == 1))
                continue; /* the most work to two, the least to three */
            tfm_update_report alone, together;
            float *one = run(0, batches, &o, &alone);
            made m = make(devices, &o), again = make(devices, &o);
            harness_ok(tfm_trainer_set_balance(m.trainer, shares, devices));
            harness_ok(update(&m, 0, 2, batches, &together));
            harness_ok(tfm_trainer_save(m.trainer, NULL, path));
            harness_ok(update(&m, 2, UPDATES, batches, &together));
            harness_ok(tfm_trainer_load(again.trainer, NULL, path));
            assert_non_null(tfm_trainer_balance(again.trainer));
            harness_ok(update(&again, 2, UPDATES, batches, NULL));
            float *many = common_values(&m), *more = common_values(&again);
            check_close(many, one, m.trainer->count);
            assert_memory_equal(more, many, (size_t)m.trainer->count * sizeof(*many));
            assert_int_equal(together.target_tokens, alone.target_tokens);
            assert_int_equal(together.source_tokens, alone.source_tokens);
            assert_true(fabs(together.loss / alone.loss - 1) < 1e-5 || harness_poses());
            harness_refused(tfm_trainer_set_balance(m.trainer, shares, devices + 1), TFM_ERROR_ARGUMENT,
                            "one per device");
            harness_refused(tfm_trainer_update(m.trainer, NULL, &(tfm_batch){0}, 1), TFM_ERROR_ARGUMENT, "batch 1");
            drop(&m);
            drop(&again);
            free(one);
            free(many);
            free(more);
        }
}

static bool deaf(void *user, void *in, const void *out, size_t bytes) {
    (void)user, (void)in, (void)out, (void)bytes;
    return false;
}

static void test_fleet_training_rejects_bad_arguments(void **state) {
    (void)state;
    const tfm_process_group ranks = {0, 2, deaf, deaf, NULL};
    tfm_trainer_options o = dropping();
    tfm_trainer *other = NULL;
    made m = make(2, &o);
    harness_refused(tfm_trainer_set_process_group(m.trainer, &ranks), TFM_ERROR_ARGUMENT, "a rank has one device");
    harness_refused(tfm_trainer_update(m.trainer, NULL, NULL, 0), TFM_ERROR_ARGUMENT, "batches is NULL");
    harness_refused(tfm_trainer_update(m.trainer, NULL, &(tfm_batch){0}, 0), TFM_ERROR_ARGUMENT, "needs a batch");
    tfm_trainer_free(&m.trainer);
    o.process_group = &ranks;
    harness_refused(tfm_trainer_new(&other, m.model, &o), TFM_ERROR_ARGUMENT, "a rank has one device");
    o.process_group = NULL;
    o.freeze = "no.such.*";
    harness_refused(tfm_trainer_new(&other, m.model, &o), TFM_ERROR_ARGUMENT, "no parameter matches \"");
    assert_true(tfm__batches_are_parallel(m.model));
    drop(&m);
}

static int setup(void **state) {
    return scratch_setup(state) || scratch_keep_binaries() || harness_setup(state);
}

static int teardown(void **state) {
    return harness_teardown(state) || scratch_drop_binaries() || scratch_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices_accumulate_as_one_device),
        cmocka_unit_test(test_fleet_of_one_device_is_bit_identical),
        cmocka_unit_test(test_sharded_and_whole_checkpoints_are_exchangeable),
        cmocka_unit_test(test_snapshot_average_reaches_all_devices),
        cmocka_unit_test(test_model_runs_on_first_device_between_updates),
        cmocka_unit_test(test_failure_of_one_device_changes_nothing),
        cmocka_unit_test(test_load_balancing_matches_one_device),
        cmocka_unit_test(test_fleet_training_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
