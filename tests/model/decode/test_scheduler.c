/* Continuous batching: every sequence gets the tokens that it gets alone, whatever else runs. */
#include "model/decode/kv_pool.h"
#include "model/decode/scheduler_step.h"
#include "support/toy_decoder.h"

enum { MOST = 48, NEW = 24 };

/* A request, its result alone, and its result in the scheduler. */
typedef struct request {
    int32_t ids[TOY_POSITIONS];
    size_t count;
    tfm_generate_options options;
    tfm_hypotheses alone;
    tfm__sequence *sequence;
    int32_t tokens[NEW];
    float log_probs[NEW];
    int made, stop_after; /* stop_after: on_token ends it; 0: never */
    int drafts;           /* maximum drafts of a step */
    bool submitted, ended, cancelled;
    tfm_finish_reason reason;
    int64_t cached;
} request;

typedef struct bench {
    tfm_model *model;
    tfm__scheduler *scheduler;
    harness_random random;
    request requests[MOST];
    int count;
} bench;

static bool on_token(void *user, int32_t id, const tfm_token_log_probs *log_probs) {
    request *r = user;
    assert_false(r->ended || r->cancelled);
    assert_true(r->made < NEW);
    r->tokens[r->made] = id;
    r->log_probs[r->made++] = log_probs->log_prob;
    return r->made != r->stop_after;
}

static void on_end(void *user, tfm_finish_reason reason, int64_t cached) {
    request *r = user;
    assert_false(r->ended || r->cancelled);
    r->ended = true;
    r->reason = reason;
    r->cached = cached;
}

static bench bench_begin(toy_kind kind, int ends, tfm__scheduler_options options) {
    bench b = {.model = toy_decoder(kind, ends), .random = {31}};
    harness_ok(tfm__scheduler_new(&b.scheduler, b.model, &options));
    return b;
}

static void bench_end(bench *b) {
    for (int i = 0; i < b->count; i++)
        tfm_hypotheses_free(&b->requests[i].alone);
    tfm__scheduler_free(b->scheduler);
    tfm_model_free(&b->model);
}

/* A new request with a random prompt, of which the first `shared` tokens are the same for all. */
static request *add(bench *b, size_t shared, size_t own, tfm_generate_options options) {
    request *r = &b->requests[b->count++];
    harness_random common = {99};
    assert_true(b->count <= MOST);
    *r = (request){.count = shared + own, .options = options};
    r->options.first_prompt = (uint64_t)b->count;
    for (size_t i = 0; i < r->count; i++)
        r->ids[i] = (int32_t)harness_range(i < shared ? &common : &b->random, 12, TOY_VOCABULARY - 1);
    harness_ok(tfm_generate_ids(b->model, &r->alone, r->ids, &r->count, 1, &r->options));
    return r;
}

static void submit(bench *b, request *r) {
    tfm__sequence_request asked = {.ids = r->ids,
                                   .count = r->count,
                                   .stream = (uint32_t)r->options.first_prompt,
                                   .on_token = on_token,
                                   .on_end = on_end,
                                   .user = r};
    harness_ok(tfm__generate_params_of(b->model, &asked.params, &r->options));
    asked.params.prompt_lookup = r->drafts;
    harness_ok(tfm__scheduler_add(b->scheduler, &r->sequence, &asked));
    r->submitted = true;
}

/* Runs until nothing is left; with `arrive`, a request is submitted in each step with that percentage. */
static void run(bench *b, int arrive) {
    int next = 0;
    while (next < b->count && b->requests[next].submitted)
        next++;
    for (bool more = true; more || next < b->count;) {
        while (next < b->count && (int)harness_range(&b->random, 0, 99) < arrive)
            submit(b, &b->requests[next++]);
        harness_ok(tfm__scheduler_step(b->scheduler, &more));
    }
}

/* Each slot in use has as many references as runs have it. */
static void check_references(const tfm__kv_pool *pool) {
    int64_t used = 0, references = 0, held = 0;
    for (int64_t i = 0; i < pool->room; i++) {
        used += pool->references[i] > 0;
        references += pool->references[i];
    }
    for (const tfm__kv_run *r = pool->runs; r; r = r->next)
        held += r->cached;
    assert_int_equal(used, pool->used);
    assert_int_equal(references, held);
}

static void compare(bench *b) {
    check_references(&b->scheduler->pool);
    for (int i = 0; i < b->count; i++) {
        const request *r = &b->requests[i];
        const tfm_hypothesis *want = r->alone.items;
        if (r->cancelled)
            continue;
        assert_true(r->ended);
        const bool stopped = r->stop_after && r->stop_after <= want->tokens;
        assert_int_equal(r->made, stopped ? r->stop_after : want->tokens);
        assert_memory_equal(r->tokens, want->ids, (size_t)r->made * sizeof(*r->tokens));
        for (int k = 0; k < r->made; k++)
            if (!r->options.skip_scores)
                assert_true(fabs((double)r->log_probs[k] - (double)want->log_probs[k]) <
                            (b->model->kv_dtype == TFM_F32 ? 2e-4 : 5e-2));
        const bool eos = want->count < (size_t)want->tokens;
        assert_int_equal(r->reason, stopped ? TFM_FINISH_STOP : eos ? TFM_FINISH_EOS : TFM_FINISH_LENGTH);
    }
}

static tfm_generate_options random_options(harness_random *random) {
    const tfm_generate_options ways[] = {
        {.skip_scores = true},
        {.repetition_penalty = 1.5f},
        {.sample = true, .temperature = 1.5f, .seed = 4},
        {.sample = true, .top_k = 5, .repetition_penalty = 1.2f, .seed = 9, .min_new_tokens = 6},
        {.sample = true, .top_p = 0.8f, .min_p = 0.05f, .seed = 5},
        {.min_new_tokens = 4},
    };
    tfm_generate_options o = ways[harness_range(random, 0, 5)];
    o.max_new_tokens = (int)harness_range(random, 1, NEW);
    return o;
}

/* Sequences of all lengths and parameters, admitted at random times. */
static void mix(toy_kind kind, tfm__scheduler_options options, tfm_dtype kv, int requests, int arrive) {
    bench b = {.model = toy_decoder(kind, 2), .random = {31 + (uint64_t)kind}};
    float bias[TOY_VOCABULARY] = {0};
    bias[TOY_EOS] = bias[TOY_OTHER_EOS] = 1;
    harness_ok(tfm_tensor_write(b.model->ctx, b.model->logits_bias, bias));
    b.model->kv_dtype = kv;
    harness_ok(tfm__scheduler_new(&b.scheduler, b.model, &options));
    for (int i = 0; i < requests; i++) {
        const size_t shared = i % 3 == 0 ? harness_range(&b.random, 0, 40) : 0;
        request *r = add(&b, shared, harness_range(&b.random, 1, i % 7 == 0 ? 70 : 12), random_options(&b.random));
        r->stop_after = i % 5 == 4 ? 2 : 0;
        r->drafts = i % 4 * 5;
    }
    run(&b, arrive);
    compare(&b);
    const tfm__scheduler_counts counts = tfm__scheduler_get_counts(b.scheduler);
    assert_int_equal(counts.running, 0);
    assert_int_equal(counts.waiting, 0);
    if (options.slots < 200)
        assert_true(counts.preempted > 0);
    else if (options.sequences > 1 && arrive > 50)
        assert_true(counts.tokens > 2 * counts.steps);
    bench_end(&b);
}

static void test_sequences_get_the_tokens_that_they_get_alone(void **state) {
    (void)state;
    for (int kind = 0; kind < TOY_KINDS; kind++)
        for (int lookahead = -1; lookahead <= 1; lookahead += 2)
            mix((toy_kind)kind, (tfm__scheduler_options){.sequences = 8, .slots = 4000, .lookahead = lookahead},
                TFM_F32, 24, 60);
}

static void test_a_full_cache_compacts_evicts_and_preempts(void **state) {
    (void)state;
    for (int lookahead = -1; lookahead <= 1; lookahead += 2) {
        const tfm__scheduler_options options = {.sequences = 8, .slots = 140, .lookahead = lookahead};
        mix(TOY_ROTARY, options, TFM_F32, MOST, 90);
        mix(TOY_LEARNED, options, TFM_F32, MOST, 90);
    }
}

static void test_one_sequence_at_a_time_and_small_chunks(void **state) {
    (void)state;
    mix(TOY_LOCAL, (tfm__scheduler_options){.sequences = 1, .slots = 500}, TFM_F32, 10, 50);
    mix(TOY_ROTARY, (tfm__scheduler_options){.sequences = 5, .slots = 500, .prefill_tokens = 3}, TFM_F32, 20, 80);
}

/* ---- Drafts -------------------------------------------------------------------------------------------- */

/* A request whose prompt ends with what the model generates after its beginning, which repeats itself sooner or later.
 */
static request *add_repetition(bench *b, int drafts, tfm_generate_options options) {
    const request *start = add(b, 0, 4, (tfm_generate_options){.max_new_tokens = 40, .skip_scores = true});
    const int32_t *ids = start->alone.items->ids;
    request *r = add(b, 4, 40, options);
    memcpy(r->ids, start->ids, start->count * sizeof(*ids));
    memcpy(r->ids + start->count, ids, 40 * sizeof(*ids));
    tfm_hypotheses_free(&r->alone);
    harness_ok(tfm_generate_ids(b->model, &r->alone, r->ids, &r->count, 1, &r->options));
    r->drafts = drafts;
    tfm_hypotheses_free(&b->requests[b->count - 2].alone); /* `r` takes its place */
    b->requests[b->count - 2] = *r;
    return &b->requests[--b->count - 1];
}

/* Texts that repeat themselves, up to an n-gram, next to others and in all kinds of caches. */
static void repeat(toy_kind kind, int no_repeat_ngram, tfm_dtype kv, tfm__scheduler_options options) {
    bench b = {.model = toy_decoder(kind, 0), .random = {51 + (uint64_t)kind}};
    const tfm_generate_options ways[] = {
        {.skip_scores = true},
        {.sample = true, .temperature = 0.1f, .seed = 4},
        {.sample = true, .temperature = 0.5f, .top_k = 5, .seed = 5},
        {.sample = true, .top_p = 0.8f, .seed = 6},
        {.repetition_penalty = 1.01f},
        {.min_new_tokens = 20},
    };
    b.model->kv_dtype = kv;
    b.model->rules.no_repeat_ngram = no_repeat_ngram;
    harness_ok(tfm__scheduler_new(&b.scheduler, b.model, &options));
    for (int i = 0; i < 18; i++) {
        tfm_generate_options o = ways[i % 6];
        o.max_new_tokens = i < 12 ? NEW : (int)harness_range(&b.random, 1, NEW);
        add_repetition(&b, i % 4 == 3 ? 0 : 1 + i % 15, o)->stop_after = i % 9 == 8 ? 7 : 0;
    }
    run(&b, 30);
    compare(&b);
    const tfm__scheduler_counts counts = tfm__scheduler_get_counts(b.scheduler);
    assert_true(counts.accepted > 10 && counts.accepted < counts.drafted);
    assert_true(options.slots > 140 || counts.preempted > 0);
    bench_end(&b);
}

static void test_drafts_do_not_change_texts(void **state) {
    (void)state;
    for (int kind = 0; kind < TOY_KINDS; kind++)
        for (int lookahead = -1; lookahead <= 1; lookahead += 2)
            repeat((toy_kind)kind, 0, TFM_F32,
                   (tfm__scheduler_options){.sequences = 3, .slots = 4000, .lookahead = lookahead});
    for (int i = 0; i < 3; i++)
        repeat(TOY_ROTARY, 0, (tfm_dtype[]){TFM_I8, TFM_F16, TFM_BF16}[i],
               (tfm__scheduler_options){.sequences = 2, .slots = 150});
    repeat(TOY_LEARNED, 0, TFM_F32, (tfm__scheduler_options){.sequences = 4, .slots = 120});
    repeat(TOY_LEARNED, 5, TFM_F32, (tfm__scheduler_options){.sequences = 4, .slots = 4000});
    repeat(TOY_LOCAL, 5, TFM_F32, (tfm__scheduler_options){.sequences = 1, .slots = 4000});
}

static void run_one(bench *b, request *r) {
    submit(b, r);
    for (bool more = true; more;) {
        harness_ok(tfm__scheduler_step(b->scheduler, &more));
        check_references(&b->scheduler->pool);
    }
}

/* A request for what follows the text of an ended one and a further token. */
static request *add_next(bench *b, const request *ended) {
    request *r = add(b, 0, ended->count + (size_t)ended->made + 1, (tfm_generate_options){.max_new_tokens = 3});
    memcpy(r->ids, ended->ids, ended->count * sizeof(*r->ids));
    memcpy(r->ids + ended->count, ended->tokens, (size_t)ended->made * sizeof(*r->ids));
    tfm_hypotheses_free(&r->alone);
    harness_ok(tfm_generate_ids(b->model, &r->alone, r->ids, &r->count, 1, &r->options));
    return r;
}

/* Each of some tokens ends the text, by a callback or as an end token, and the KV cache has what precedes it. */
static void test_texts_end_at_and_after_drafts(void **state) {
    (void)state;
    uint64_t accepted = 0;
    for (int kind = 0; kind < TOY_KINDS; kind++) {
        bench b = bench_begin((toy_kind)kind, 0, (tfm__scheduler_options){.sequences = 1, .slots = 4000});
        for (int at = 0; at < 12; at++) {
            const tfm_generate_options sampling = {
                .max_new_tokens = NEW, .sample = true, .temperature = 0.6f, .seed = (uint64_t)at};
            request *r = add_repetition(&b, 8, sampling);
            const int32_t *ids = r->alone.items->ids;
            int last = 2 * at, first = 0;
            while (ids[first] != ids[last])
                first++;
            r->stop_after = at % 2 ? first + 1 : 0;
            b.model->rules.eos_ids[0] = ids[last];
            b.model->rules.eos_id_count = !r->stop_after;
            run_one(&b, r);
            b.model->rules.eos_id_count = 0;
            assert_int_equal(r->made, first + 1);
            assert_memory_equal(r->tokens, ids, (size_t)r->made * sizeof(*ids));
            assert_int_equal(r->reason, r->stop_after ? TFM_FINISH_STOP : TFM_FINISH_EOS);
            request *next = add_next(&b, r);
            run_one(&b, next);
            assert_memory_equal(next->tokens, next->alone.items->ids, 3 * sizeof(*ids));
            assert_int_equal(next->cached, r->count + (size_t)r->made - 1);
        }
        accepted += tfm__scheduler_get_counts(b.scheduler).accepted;
        bench_end(&b);
    }
    assert_true(accepted > 20);
}

static void test_sequences_are_cancelled_with_drafts(void **state) {
    (void)state;
    for (int step = 1; step < 8; step++) {
        bench b = bench_begin(TOY_LOCAL, 0, (tfm__scheduler_options){.sequences = 2, .slots = 400});
        for (int i = 0; i < 4; i++)
            submit(&b, add_repetition(&b, 8, (tfm_generate_options){.max_new_tokens = NEW}));
        bool more = true;
        for (int k = 0; more; k++) {
            harness_ok(tfm__scheduler_step(b.scheduler, &more));
            if (k == step && !b.requests[0].ended) {
                b.requests[0].cancelled = true;
                tfm__scheduler_cancel(b.scheduler, b.requests[0].sequence);
            }
            check_references(&b.scheduler->pool);
        }
        compare(&b);
        bench_end(&b);
    }
}

static void test_int8_and_half_caches_are_compacted(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        const tfm_dtype kv = (tfm_dtype[]){TFM_I8, TFM_F16, TFM_BF16}[i];
        bench c = {.model = toy_decoder(TOY_ROTARY, 0), .random = {3}};
        c.model->kv_dtype = kv;
        harness_ok(tfm__scheduler_new(&c.scheduler, c.model, &(tfm__scheduler_options){.sequences = 1, .slots = 120}));
        for (int k = 0; k < 8; k++)
            add(&c, 0, 30, (tfm_generate_options){.max_new_tokens = 6, .skip_scores = true});
        run(&c, 100);
        compare(&c);
        bench_end(&c);
    }
}

static void test_common_prefixes_are_computed_once(void **state) {
    (void)state;
    bench b = bench_begin(TOY_ROTARY, 0, (tfm__scheduler_options){.sequences = 4, .slots = 3000});
    for (int i = 0; i < 8; i++)
        add(&b, 100, 5, (tfm_generate_options){.max_new_tokens = 8});
    run(&b, 100);
    compare(&b);
    for (int i = 1; i < 8; i++)
        assert_true(b.requests[i].cached >= 100 && b.requests[i].cached < 105);
    assert_int_equal(b.requests[0].cached, 0);
    assert_true(tfm__scheduler_get_counts(b.scheduler).prefilled <= 104 + 7 * 4);
    request *again = add(&b, 0, 1, (tfm_generate_options){.max_new_tokens = 8}); /* the text of the first goes on */
    memcpy(again->ids, b.requests[0].ids, b.requests[0].count * sizeof(*again->ids));
    memcpy(again->ids + b.requests[0].count, b.requests[0].tokens, 8 * sizeof(*again->ids));
    again->count = b.requests[0].count + 8;
    tfm_hypotheses_free(&again->alone);
    harness_ok(tfm_generate_ids(b.model, &again->alone, again->ids, &again->count, 1, &again->options));
    submit(&b, again);
    for (bool more = true; more;)
        harness_ok(tfm__scheduler_step(b.scheduler, &more));
    compare(&b);
    assert_int_equal(again->cached, again->count - 1);
    bench_end(&b);
}

static void test_rope_frequencies_follow_the_length_of_each_sequence(void **state) {
    (void)state;
    for (int recompute = 0; recompute < 2; recompute++) {
        bench b = {.model = toy_decoder(TOY_ROTARY, 0), .random = {8}};
        tfm__rotary_arch *rotary = &b.model->arch.decoder.rotary;
        rotary->switch_length = 20;
        rotary->recompute_keys = recompute;
        for (int i = 0; i < rotary->width / 2; i++)
            rotary->inv_freq_long[i] = rotary->inv_freq[i] / 3;
        harness_ok(tfm__scheduler_new(&b.scheduler, b.model, &(tfm__scheduler_options){.sequences = 4, .slots = 300}));
        for (size_t prompt = 1; prompt < 30; prompt += 6) /* below the switch, across it, and above */
            add(&b, 0, prompt, (tfm_generate_options){.max_new_tokens = 10});
        run(&b, 100);
        compare(&b);
        bench_end(&b);
    }
}

/* The first step of a sequence is tried again, as after a work-group that the driver refused. */
static void test_step_that_is_tried_again_loses_no_token(void **state) {
    (void)state;
    bench b = bench_begin(TOY_ROTARY, 0, (tfm__scheduler_options){.sequences = 2, .slots = 200});
    tfm__scheduler *s = b.scheduler;
    tfm__flight *flight = &s->flights[1 - s->newest];
    bool enough = false;
    submit(&b, add(&b, 0, 1, (tfm_generate_options){.max_new_tokens = 6, .repetition_penalty = 1.5f}));
    s->live[s->live_count++] = flight->rows[flight->count++] = s->waiting;
    s->waiting = NULL;
    harness_ok(tfm__kv_pool_reserve(&s->pool, 1, &enough));
    assert_true(enough);
    tfm__context_fail(b.model->ctx, TFM_ERROR_AGAIN, "a test");
    harness_ok(tfm__scheduler_decode(s, flight, &s->flights[s->newest]));
    assert_int_equal(flight->count, 1);
    s->newest = 1 - s->newest;
    for (bool more = true; more;)
        harness_ok(tfm__scheduler_step(s, &more));
    compare(&b);
    bench_end(&b);
}

static void test_one_token_prompts_between_long_ones_keep_their_slots(void **state) {
    (void)state;
    bench b = bench_begin(TOY_LEARNED, 0, (tfm__scheduler_options){.sequences = 4, .slots = 3000, .prefill_tokens = 2});
    submit(&b, add(&b, 5, 0, (tfm_generate_options){.max_new_tokens = 3}));
    for (bool more = true; more;)
        harness_ok(tfm__scheduler_step(b.scheduler, &more));
    const int first = b.count;
    add(&b, 0, 150, (tfm_generate_options){.max_new_tokens = 2});
    add(&b, 1, 0, (tfm_generate_options){.max_new_tokens = 20}); /* begins as the first one does */
    for (int i = first; i < b.count; i++)
        submit(&b, &b.requests[i]);
    for (bool more = true; more;) {
        harness_ok(tfm__scheduler_step(b.scheduler, &more));
        check_references(&b.scheduler->pool);
    }
    compare(&b);
    assert_true(b.requests[b.count - 1].cached <= 0);
    bench_end(&b);
}

static void test_short_prompts_pass_a_long_one(void **state) {
    (void)state;
    bench b = bench_begin(TOY_ROTARY, 0, (tfm__scheduler_options){.sequences = 4, .slots = 3000, .prefill_tokens = 8});
    request *longest = add(&b, 0, 500, (tfm_generate_options){.max_new_tokens = 2});
    request *shortest = add(&b, 0, 9, (tfm_generate_options){.max_new_tokens = 5});
    submit(&b, longest);
    submit(&b, shortest);
    for (bool more = true; more && !shortest->ended;)
        harness_ok(tfm__scheduler_step(b.scheduler, &more));
    assert_true(longest->made == 0);
    run(&b, 0);
    compare(&b);
    bench_end(&b);
}

/* All end in one step, in a cache that has no slot left for the next prompt until their tokens are read. */
static void test_sequences_that_end_together_make_room(void **state) {
    (void)state;
    for (int lookahead = -1; lookahead <= 1; lookahead += 2) {
        bench b =
            bench_begin(TOY_ROTARY, 0, (tfm__scheduler_options){.sequences = 8, .slots = 90, .lookahead = lookahead});
        for (int i = 0; i < 8; i++)
            add(&b, 0, 5, (tfm_generate_options){.max_new_tokens = 6});
        add(&b, 0, 70, (tfm_generate_options){.max_new_tokens = 6});
        add(&b, 0, 70, (tfm_generate_options){.max_new_tokens = 6});
        run(&b, 100);
        compare(&b);
        for (int i = 0; i < b.count; i++)
            assert_int_equal(b.requests[i].made, 6);
        bench_end(&b);
    }
}

static void test_cancelled_sequences_leave_at_once(void **state) {
    (void)state;
    for (int lookahead = -1; lookahead <= 1; lookahead += 2) {
        bench b =
            bench_begin(TOY_LEARNED, 0, (tfm__scheduler_options){.sequences = 3, .slots = 900, .lookahead = lookahead});
        for (int i = 0; i < 9; i++)
            submit(&b, add(&b, 0, 4, (tfm_generate_options){.max_new_tokens = 12}));
        bool more = true;
        for (int step = 0; more; step++) {
            harness_ok(tfm__scheduler_step(b.scheduler, &more));
            if (step == 3)
                for (int i = 0; i < 9; i += 4) { /* running, and waiting */
                    b.requests[i].cancelled = true;
                    tfm__scheduler_cancel(b.scheduler, b.requests[i].sequence);
                }
        }
        compare(&b);
        assert_true(b.requests[0].made < 12);
        assert_int_equal(b.requests[8].made, 0);
        bench_end(&b);
    }
}

static void test_requests_that_cannot_run_are_refused(void **state) {
    (void)state;
    bench b = bench_begin(TOY_ROTARY, 0, (tfm__scheduler_options){.sequences = 3, .slots = 20});
    request *r = add(&b, 0, 15, (tfm_generate_options){.max_new_tokens = 6});
    tfm__sequence_request asked = {.ids = r->ids, .count = r->count, .on_token = on_token, .on_end = on_end, .user = r};
    tfm__sequence *sequence = NULL;
    harness_ok(tfm__generate_params_of(b.model, &asked.params, &r->options));
    assert_int_equal(tfm__scheduler_add(b.scheduler, &sequence, &asked), TFM_ERROR_INPUT);
    assert_null(sequence);
    assert_non_null(strstr(tfm_error_message(), "the 20 tokens of the KV cache"));
    asked.params.sampling.length_decay = 1.1;
    asked.params.max_new_tokens = 2;
    assert_int_equal(tfm__scheduler_add(b.scheduler, &sequence, &asked), TFM_ERROR_UNSUPPORTED);
    assert_non_null(strstr(tfm_error_message(), "exponential_decay_length_penalty"));
    bool more = true;
    harness_ok(tfm__scheduler_step(b.scheduler, &more));
    assert_false(more);
    bench_end(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequences_get_the_tokens_that_they_get_alone),
        cmocka_unit_test(test_a_full_cache_compacts_evicts_and_preempts),
        cmocka_unit_test(test_one_sequence_at_a_time_and_small_chunks),
        cmocka_unit_test(test_drafts_do_not_change_texts),
        cmocka_unit_test(test_texts_end_at_and_after_drafts),
        cmocka_unit_test(test_sequences_are_cancelled_with_drafts),
        cmocka_unit_test(test_int8_and_half_caches_are_compacted),
        cmocka_unit_test(test_common_prefixes_are_computed_once),
        cmocka_unit_test(test_rope_frequencies_follow_the_length_of_each_sequence),
        cmocka_unit_test(test_step_that_is_tried_again_loses_no_token),
        cmocka_unit_test(test_one_token_prompts_between_long_ones_keep_their_slots),
        cmocka_unit_test(test_short_prompts_pass_a_long_one),
        cmocka_unit_test(test_sequences_that_end_together_make_room),
        cmocka_unit_test(test_cancelled_sequences_leave_at_once),
        cmocka_unit_test(test_requests_that_cannot_run_are_refused),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
