/* Text generation: greedy and beam search against reference implementations without KV cache; prompts of mixed lengths
 * in one batch; sampling against exact probabilities; stopping, forbidden tokens, and penalties. */
#include <stdio.h>
#include "support/toy_decoder.h"

enum { MOST = 8, ROOM = 800 };

/* Prompts of some lengths, one after the other. */
typedef struct prompts {
    int32_t ids[ROOM * 2];
    size_t counts[MOST], count;
} prompts;

static prompts make_prompts(const size_t *counts, size_t count) {
    prompts p = {.count = count};
    harness_random random = {23};
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        p.counts[i] = counts[i];
        for (size_t k = 0; k < counts[i]; k++)
            p.ids[used + k] = (int32_t)harness_range(&random, 12, TOY_VOCABULARY - 1);
        used += counts[i];
    }
    return p;
}

static const int32_t *prompt_at(const prompts *p, size_t i) {
    const int32_t *at = p->ids;
    for (size_t k = 0; k < i; k++)
        at += p->counts[k];
    return at;
}

/* ---- Greedy reference ------------------------------------------------------------------------------------------ */

/* Rules that choose the next token from the logits. */
typedef struct manner {
    float penalty; /* 0: none */
    int min_new;
    const int *banned; /* pairs: the second never follows the first; -1 first ends the list */
} manner;

static double lse(const float *x) {
    double most = -INFINITY, sum = 0;
    for (int v = 0; v < TOY_VOCABULARY; v++)
        most = fmax(most, (double)x[v]);
    for (int v = 0; v < TOY_VOCABULARY; v++)
        sum += exp((double)x[v] - most);
    return most + log(sum);
}

/* Applies the rules to x, as transformers' logits processors do. */
static void apply(double *x, const tfm_model *model, const int32_t *ids, size_t count, size_t fresh, const manner *m) {
    bool seen[TOY_VOCABULARY] = {false};
    for (size_t i = 0; i < count && m->penalty != 0; i++)
        seen[ids[i]] = true;
    for (int v = 0; v < TOY_VOCABULARY; v++) {
        x[v] = !seen[v] ? x[v] : x[v] < 0 ? x[v] * (double)m->penalty : x[v] / (double)m->penalty;
        if ((int)fresh < m->min_new && tfm__generation_is_eos(&model->rules, v))
            x[v] = -INFINITY;
    }
    for (const int *b = m->banned; b && b[0] >= 0; b += 2)
        if (ids[count - 1] == b[0])
            x[b[1]] = -INFINITY;
}

/* Greedy texts of `most` tokens at most. Returns how many; fewer if two tokens are nearly equal. *same: whether they
 * match. */
static int greedy(tfm_model *model, int32_t *out, double *log_probs, const int32_t *prompt, size_t count, int most,
                  const manner *m, bool *same) {
    static int32_t ids[ROOM];
    float logits[TOY_VOCABULARY];
    memcpy(ids, prompt, count * sizeof(*ids));
    *same = false;
    for (int n = 0; n < most; n++) {
        double x[TOY_VOCABULARY], second = -INFINITY;
        int best = 0;
        toy_logits(model, logits, ids, count);
        for (int v = 0; v < TOY_VOCABULARY; v++)
            x[v] = (double)logits[v];
        apply(x, model, ids, count, (size_t)n, m);
        for (int v = 1; v < TOY_VOCABULARY; v++)
            best = x[v] > x[best] ? v : best;
        for (int v = 0; v < TOY_VOCABULARY; v++)
            second = v != best && x[v] > second ? x[v] : second;
        if (x[best] - second < 1e-3) {
            *same = true;
            return n;
        }
        out[n] = best;
        log_probs[n] = (double)logits[best] - lse(logits);
        ids[count++] = best;
        if (tfm__generation_is_eos(&model->rules, best))
            return n + 1;
    }
    return most;
}

/* Returns how many tokens were compared. */
static int check_greedy(tfm_model *model, const prompts *p, const tfm_generate_options *o, const manner *m) {
    int32_t want[ROOM];
    double log_probs[ROOM];
    tfm_hypotheses found;
    int compared = 0;
    harness_ok(tfm_generate_ids(model, &found, p->ids, p->counts, p->count, o));
    assert_int_equal(found.sentences, p->count);
    for (size_t i = 0; i < p->count; i++) {
        bool same;
        const tfm_hypothesis *h = &found.items[i];
        const int n = greedy(model, want, log_probs, prompt_at(p, i), p->counts[i], o->max_new_tokens, m, &same);
        double sum = 0;
        if (!same)
            assert_int_equal(h->tokens, n);
        for (int k = 0; k < n; k++, compared++) {
            if (h->ids[k] != want[k])
                fail_msg("prompt %zu of %zu tokens: token %d is %d, not %d", i, p->counts[i], k, h->ids[k], want[k]);
            if (fabs((double)h->log_probs[k] - log_probs[k]) > 2e-4)
                fail_msg("prompt %zu: token %d has log p %g, not %g", i, k, (double)h->log_probs[k], log_probs[k]);
        }
        for (int k = 0; k < h->tokens; k++)
            sum += (double)h->log_probs[k];
        assert_true(fabs(sum - h->log_prob) < 1e-3);
        const bool ended = tfm__generation_is_eos(&model->rules, h->ids[h->tokens - 1]);
        assert_int_equal(h->count, h->tokens - ended);
        assert_true(ended || h->tokens == o->max_new_tokens);
    }
    tfm_hypotheses_free(&found);
    return compared;
}

static const manner PLAIN = {0};

static void test_greedy_generation_matches_uncached_passes(void **state) {
    (void)state;
    const size_t counts[] = {5, 1, 9, 9, 2, 14}, equal[] = {6, 6, 6};
    for (int kind = 0; kind < TOY_KINDS; kind++) {
        tfm_model *model = toy_decoder((toy_kind)kind, 1);
        const prompts mixed = make_prompts(counts, 6), alike = make_prompts(equal, 3);
        const tfm_generate_options o = {.max_new_tokens = 14};
        const int n = check_greedy(model, &mixed, &o, &PLAIN) + check_greedy(model, &alike, &o, &PLAIN);
        assert_true(n > 60);
        tfm_model_free(&model);
    }
}

/* A prompt of several prefill chunks, among shorter ones; and one that fills all positions. */
static void test_chunked_prefill_of_long_prompts_matches_uncached(void **state) {
    (void)state;
    const size_t counts[] = {3, 530, 513, 20}, full = TOY_POSITIONS;
    if (harness_slow())
        skip();
    for (int kind = 0; kind < TOY_KINDS; kind++) {
        tfm_model *model = toy_decoder((toy_kind)kind, 0);
        const prompts p = make_prompts(counts, 4), q = make_prompts(&full, 1);
        tfm_hypotheses found;
        check_greedy(model, &p, &(tfm_generate_options){.max_new_tokens = 4}, &PLAIN);
        harness_ok(tfm_generate_ids(model, &found, q.ids, q.counts, 1, &(tfm_generate_options){.max_new_tokens = 4}));
        assert_int_equal(found.items[0].tokens, 1); /* no positions are left */
        tfm_hypotheses_free(&found);
        tfm_model_free(&model);
    }
}

/* ---- Forbidden tokens, penalties and ends ---------------------------------------------------------------------- */

static void test_min_length_bans_and_penalties_match_definition(void **state) {
    (void)state;
    const size_t counts[] = {4, 7, 1, 12};
    const prompts p = make_prompts(counts, 4);
    const int none[] = {-1, -1};
    tfm_model *model = toy_decoder(TOY_ROTARY, 2);
    check_greedy(model, &p, &(tfm_generate_options){.max_new_tokens = 16}, &PLAIN);
    check_greedy(model, &p, &(tfm_generate_options){.max_new_tokens = 16, .min_new_tokens = 9},
                 &(manner){.min_new = 9});
    check_greedy(model, &p, &(tfm_generate_options){.max_new_tokens = 16, .repetition_penalty = 1.6f},
                 &(manner){.penalty = 1.6f, .banned = none});
    check_greedy(model, &p,
                 &(tfm_generate_options){.max_new_tokens = 16, .repetition_penalty = 0.8f, .min_new_tokens = 16},
                 &(manner){.penalty = 0.8f, .min_new = 16});
    /* The first greedy token must not follow the prompt's last one: the prompt counts as past. */
    tfm_hypotheses found;
    harness_ok(tfm_generate_ids(model, &found, p.ids, p.counts, 4, &(tfm_generate_options){.max_new_tokens = 3}));
    int banned[2 * 4 + 2];
    tfm__generation_rules *rules = &model->rules;
    for (int i = 0; i < 4; i++) {
        rules->bad_word_ids[2 * i] = banned[2 * i] = prompt_at(&p, (size_t)i)[p.counts[i] - 1];
        rules->bad_word_ids[2 * i + 1] = banned[2 * i + 1] = found.items[i].ids[0];
        rules->bad_words[i + 1] = 2 * i + 2;
    }
    rules->bad_word_count = 4;
    banned[8] = banned[9] = -1;
    tfm_hypotheses_free(&found);
    assert_true(check_greedy(model, &p, &(tfm_generate_options){.max_new_tokens = 8}, &(manner){.banned = banned}) > 8);
    tfm_model_free(&model);
}

/* ---- Beam search reference ------------------------------------------------------------------------------------- */

/* transformers' _beam_search for one prompt, transcribed. */
enum { K = 4, LONGEST = 16 };
typedef struct hypothesis {
    int32_t ids[LONGEST];
    int count;
    double sum, score;
} hypothesis;

static int better(const void *a, const void *b) {
    const hypothesis *x = a, *y = b;
    return x->score > y->score ? -1 : x->score < y->score;
}

/* Keeps the best `most` of the list plus one more. */
static int keep_best(hypothesis *all, int count, int most, hypothesis more) {
    all[count] = more;
    qsort(all, (size_t)count + 1, sizeof(*all), better);
    return count < most ? count + 1 : most;
}

static int beam_search(tfm_model *model, hypothesis *finished, const int32_t *prompt, size_t count, int most,
                       double alpha, int ends, const manner *m) {
    static int32_t ids[ROOM];
    hypothesis running[K] = {{.count = 0}}, candidates[3 * K + 1];
    int live = 1, done = 0;
    memcpy(ids, prompt, count * sizeof(*ids));
    for (int n = 1; n <= most; n++) {
        int found = 0;
        for (int b = 0; b < live; b++) {
            float logits[TOY_VOCABULARY];
            double x[TOY_VOCABULARY];
            memcpy(ids + count, running[b].ids, (size_t)running[b].count * sizeof(*ids));
            toy_logits(model, logits, ids, count + (size_t)running[b].count);
            const double all = lse(logits);
            for (int v = 0; v < TOY_VOCABULARY; v++)
                x[v] = (double)logits[v] - all;
            apply(x, model, ids, count + (size_t)running[b].count, (size_t)running[b].count, m);
            for (int v = 0; v < TOY_VOCABULARY; v++) {
                hypothesis next = running[b];
                next.ids[next.count++] = v;
                next.sum += x[v];
                next.score = next.sum;
                if (x[v] > -INFINITY)
                    found = keep_best(candidates, found, (1 + ends) * K, next);
            }
        }
        live = 0;
        for (int c = 0; c < found; c++) {
            hypothesis h = candidates[c];
            const bool stops = n == most || tfm__generation_is_eos(&model->rules, h.ids[n - 1]);
            h.score = h.sum / pow(n, alpha);
            if (stops && c < K) {
                hypothesis merged[K + 1];
                memcpy(merged, finished, (size_t)done * sizeof(*merged));
                done = keep_best(merged, done, K, h);
                memcpy(finished, merged, (size_t)done * sizeof(*merged));
            } else if (!stops && live < K) {
                running[live++] = candidates[c];
            }
        }
        if (done == K && (live == 0 || running[0].sum / pow(n, alpha) <= finished[K - 1].score))
            break;
    }
    return done;
}

/* Returns how many hypotheses were compared token by token. */
static int check_beam(tfm_model *model, const prompts *p, double alpha, int ends, const manner *m) {
    const tfm_generate_options o = {.max_new_tokens = LONGEST,
                                    .beam_size = K,
                                    .n_best = K,
                                    .has_length_penalty = true,
                                    .length_penalty = alpha,
                                    .min_new_tokens = m->min_new,
                                    .repetition_penalty = m->penalty};
    tfm_hypotheses found;
    int compared = 0;
    harness_ok(tfm_generate_ids(model, &found, p->ids, p->counts, p->count, &o));
    for (size_t i = 0; i < p->count; i++) {
        hypothesis want[K + 1];
        const int n = beam_search(model, want, prompt_at(p, i), p->counts[i], o.max_new_tokens, alpha, ends, m);
        for (int b = 0; b < n; b++) {
            const tfm_hypothesis *h = &found.items[i * K + (size_t)b];
            if (fabs(h->score - want[b].score) > 1e-3)
                fail_msg("prompt %zu, hypothesis %d: score %g, not %g", i, b, h->score, want[b].score);
            if ((b > 0 && want[b - 1].score - want[b].score < 2e-3) ||
                (b + 1 < n && want[b].score - want[b + 1].score < 2e-3))
                continue; /* they may swap ranks */
            assert_int_equal(h->tokens, want[b].count);
            assert_memory_equal(h->ids, want[b].ids, (size_t)h->tokens * sizeof(*h->ids));
            compared++;
        }
    }
    tfm_hypotheses_free(&found);
    return compared;
}

/* Raises the probability of ends so that most texts have one, in the middle of a beam or at its edge. */
static void end_soon(tfm_model *model, float by) {
    float bias[TOY_VOCABULARY] = {0};
    bias[TOY_EOS] = bias[TOY_OTHER_EOS] = by;
    harness_ok(tfm_tensor_write(model->ctx, model->logits_bias, bias));
}

static void test_beam_generation_matches_uncached_search(void **state) {
    (void)state;
    const size_t counts[] = {5, 1, 9, 3};
    const size_t others[] = {1, 2, 3, 4, 5, 6, 7, 8};
    const prompts p = make_prompts(counts, 4), many = make_prompts(others, 8);
    int compared = 0;
    for (int kind = 0; kind < TOY_KINDS; kind++) {
        tfm_model *model = toy_decoder((toy_kind)kind, 1);
        compared += check_beam(model, &p, 1, 1, &PLAIN) + check_beam(model, &p, 0, 1, &PLAIN);
        tfm_model_free(&model);
        if (harness_slow())
            return;
    }
    tfm_model *model = toy_decoder(TOY_LEARNED, 2);
    compared += check_beam(model, &p, 2, 2, &(manner){.min_new = 4});
    compared += check_beam(model, &p, 1, 2, &(manner){.penalty = 1.4f});
    tfm_model_free(&model);
    for (int kind = 0; kind < TOY_KINDS; kind++) {
        model = toy_decoder((toy_kind)kind, 2);
        /* Brief runs alternate: each kind tests two of the four beam sizes. */
        for (int more = harness_brief() ? kind % 2 : 0; more < 4; more += harness_brief() ? 2 : 1) {
            end_soon(model, 1.5f + (float)more);
            compared += check_beam(model, &many, more, 2, &PLAIN);
        }
        tfm_model_free(&model);
    }
    printf("%d hypotheses equal the reference\n", compared);
    assert_true(compared > (harness_brief() ? 100 : 150));
}

/* ---- Sampling -------------------------------------------------------------------------------------------------- */

/* Probabilities after these ids: softmax within top k, top p and min p. */
static void chances(tfm_model *model, double *out, const int32_t *ids, size_t count, const tfm_generate_options *o) {
    float logits[TOY_VOCABULARY];
    int order[TOY_VOCABULARY];
    double x[TOY_VOCABULARY], total = 0, passed = 0;
    toy_logits(model, logits, ids, count);
    for (int v = 0; v < TOY_VOCABULARY; v++)
        x[v] = (double)logits[v];
    apply(x, model, ids, count, 0, &(manner){.penalty = o->repetition_penalty});
    for (int v = 0; v < TOY_VOCABULARY; v++) {
        int at = v;
        for (; at > 0 && x[order[at - 1]] < x[v]; at--)
            order[at] = order[at - 1];
        order[at] = v;
    }
    const int k = o->top_k ? o->top_k : TOY_VOCABULARY;
    const double temperature = o->temperature != 0 ? (double)o->temperature : 1, most = x[order[0]];
    for (int v = 0; v < TOY_VOCABULARY; v++)
        out[v] = 0;
    for (int i = 0; i < k; i++)
        total += out[order[i]] = exp((x[order[i]] - most) / temperature);
    for (int i = 0; i < k; i++) {
        const double own = out[order[i]];
        if ((o->top_p > 0 && passed >= (double)o->top_p * total) || own < (double)o->min_p)
            out[order[i]] = 0;
        passed += own;
    }
    total = 0;
    for (int v = 0; v < TOY_VOCABULARY; v++)
        total += out[v];
    for (int v = 0; v < TOY_VOCABULARY; v++)
        out[v] /= total;
}

/* Pearson's chi-square of the sample counts, with rare tokens merged, against its mean plus five deviations. */
static void check_frequencies(const int *counts, int samples, const double *chance) {
    double sum = 0, rare = 0;
    int degrees = 0, rare_count = 0;
    for (int v = 0; v < TOY_VOCABULARY; v++) {
        const double expected = chance[v] * samples;
        if (chance[v] == 0)
            assert_int_equal(counts[v], 0);
        if (expected < 8) {
            rare += expected;
            rare_count += counts[v];
            continue;
        }
        sum += (counts[v] - expected) * (counts[v] - expected) / expected;
        degrees++;
    }
    if (rare >= 8) {
        sum += (rare_count - rare) * (rare_count - rare) / rare;
        degrees++;
    }
    degrees -= degrees > 1;
    if (sum > degrees + 5 * sqrt(2.0 * degrees))
        fail_msg("%d samples: chi-square is %g at %d degrees of freedom", samples, sum, degrees);
}

static void test_sampled_tokens_have_the_exact_distribution(void **state) {
    (void)state;
    enum { SAMPLES = 4000 };
    const size_t count = 6;
    const prompts p = make_prompts(&count, 1);
    const tfm_generate_options ways[] = {{.seed = 1},
                                         {.seed = 2, .temperature = 1.8f},
                                         {.seed = 3, .temperature = 2.5f, .top_k = 9},
                                         {.seed = 4, .temperature = 2, .top_p = 0.7f},
                                         {.seed = 5, .temperature = 2, .min_p = 0.2f},
                                         {.seed = 6, .temperature = 3, .top_k = 30, .top_p = 0.9f, .min_p = 0.1f},
                                         {.seed = 7, .temperature = 2, .repetition_penalty = 1.5f}};
    tfm_model *model = toy_decoder(TOY_ROTARY, 1);
    for (size_t w = 0; w < (harness_slow() ? 1 : sizeof(ways) / sizeof(*ways)); w++) {
        tfm_generate_options o = ways[w];
        double chance[TOY_VOCABULARY];
        int counts[TOY_VOCABULARY] = {0}, after[TOY_VOCABULARY] = {0}, first = 0;
        int32_t ids[8];
        tfm_hypotheses found;
        o.sample = true;
        o.max_new_tokens = 2;
        o.n_best = SAMPLES;
        harness_ok(tfm_generate_ids(model, &found, p.ids, p.counts, 1, &o));
        for (int i = 0; i < SAMPLES; i++)
            counts[found.items[i].ids[0]]++;
        chances(model, chance, p.ids, count, &o);
        check_frequencies(counts, SAMPLES, chance);
        for (int v = 0; v < TOY_VOCABULARY; v++) /* after the most frequent token, unless that is the end */
            first = v != TOY_EOS && counts[v] > counts[first] ? v : first;
        for (int i = 0; i < SAMPLES; i++)
            if (found.items[i].ids[0] == first)
                after[found.items[i].ids[1]]++;
        memcpy(ids, p.ids, count * sizeof(*ids));
        ids[count] = first;
        chances(model, chance, ids, count + 1, &o);
        check_frequencies(after, counts[first], chance);
        float logits[TOY_VOCABULARY]; /* log p is the model's, before sampling filters */
        toy_logits(model, logits, p.ids, count);
        const tfm_hypothesis *h = &found.items[5];
        assert_true(fabs((double)h->log_probs[0] - ((double)logits[h->ids[0]] - lse(logits))) < 2e-4);
        tfm_hypotheses_free(&found);
    }
    tfm_model_free(&model);
}

/* One seed gives one text per prompt, whatever the batch. */
static void test_seed_gives_one_text_in_any_batch(void **state) {
    (void)state;
    const size_t counts[] = {5, 1, 9, 9, 2};
    const prompts p = make_prompts(counts, 5);
    tfm_model *model = toy_decoder(TOY_LEARNED, 1);
    tfm_generate_options o = {.sample = true, .temperature = 1.5f, .max_new_tokens = 12, .n_best = 2, .seed = 3};
    tfm_hypotheses all, one, other;
    harness_ok(tfm_generate_ids(model, &all, p.ids, p.counts, 5, &o));
    o.seed = 4;
    harness_ok(tfm_generate_ids(model, &other, p.ids, p.counts, 5, &o));
    o.seed = 3;
    int differ = 0;
    for (size_t i = 0; i < 5; i++) {
        o.first_prompt = i;
        harness_ok(tfm_generate_ids(model, &one, prompt_at(&p, i), &p.counts[i], 1, &o));
        for (size_t k = 0; k < 2; k++) {
            const tfm_hypothesis *a = &all.items[2 * i + k], *b = &one.items[k], *c = &other.items[2 * i + k];
            assert_int_equal(a->tokens, b->tokens);
            assert_memory_equal(a->ids, b->ids, (size_t)a->tokens * sizeof(*a->ids));
            differ += a->tokens != c->tokens || memcmp(a->ids, c->ids, (size_t)a->tokens * sizeof(*a->ids)) != 0;
        }
        differ += all.items[2 * i].tokens != all.items[2 * i + 1].tokens ||
                  memcmp(all.items[2 * i].ids, all.items[2 * i + 1].ids, 4) != 0;
        tfm_hypotheses_free(&one);
    }
    assert_true(differ > 9);
    tfm_hypotheses_free(&all);
    tfm_hypotheses_free(&other);
    tfm_model_free(&model);
}

/* ---- Step callbacks -------------------------------------------------------------------------------------------- */

typedef struct told {
    int32_t ids[MOST][ROOM];
    int count[MOST], most[MOST]; /* most: step at which to stop; 0: never */
    int steps, last_step;
} told;

static bool on_token(void *user, size_t prompt, int best, int32_t id) {
    told *t = user;
    assert_int_equal(best, 0);
    t->ids[prompt][t->count[prompt]++] = id;
    return t->count[prompt] != t->most[prompt];
}

static bool on_step(void *user) {
    told *t = user;
    return ++t->steps != t->last_step;
}

static void test_generation_callbacks_see_tokens_and_cancel(void **state) {
    (void)state;
    const size_t counts[] = {5, 1, 9, 9, 2, 3, 3, 3};
    const prompts p = make_prompts(counts, 8);
    static told t;
    tfm_model *model = toy_decoder(TOY_ROTARY, 2);
    tfm_hypotheses plain, found;
    tfm_generate_options o = {.max_new_tokens = 40};
    tfm_generate_stats stats = {0};
    harness_ok(tfm_generate_ids(model, &plain, p.ids, p.counts, 8, &o));
    o.on_token = on_token;
    o.on_token_user = &t;
    o.stats = &stats;
    t = (told){.most = {0, 2, 7, 0, 1, 0, 40, 3}};
    harness_ok(tfm_generate_ids(model, &found, p.ids, p.counts, 8, &o));
    uint64_t written = 0;
    for (int i = 0; i < 8; i++) {
        const tfm_hypothesis *h = &found.items[i], *whole = &plain.items[i];
        const int want = t.most[i] && t.most[i] < whole->tokens ? t.most[i] : whole->tokens;
        double sum = 0;
        assert_int_equal(h->tokens, want);
        assert_int_equal(t.count[i], want);
        assert_memory_equal(h->ids, whole->ids, (size_t)want * sizeof(*h->ids));
        assert_memory_equal(t.ids[i], whole->ids, (size_t)want * sizeof(*h->ids));
        for (int k = 0; k < want; k++) {
            assert_true(fabs((double)h->log_probs[k] - (double)whole->log_probs[k]) < 2e-4);
            sum += (double)h->log_probs[k];
        }
        assert_true(fabs(sum - h->log_prob) < 1e-3 && fabs(h->score - sum / want) < 1e-3);
        written += (uint64_t)want;
    }
    assert_true(stats.prompts == 8 && stats.prompt_tokens == 35 && stats.new_tokens == written);
    assert_true(stats.prefill_seconds > 0 && stats.decode_seconds > 0);
    tfm_hypotheses_free(&found);
    t = (told){.most = {1, 1, 1, 1, 1, 1, 1, 1}}; /* all end at once: there are no later steps */
    o.should_continue = on_step;
    o.should_continue_user = &t;
    harness_ok(tfm_generate_ids(model, &found, p.ids, p.counts, 8, &o));
    assert_true(t.steps <= 2);
    tfm_hypotheses_free(&found);
    t = (told){.last_step = 3};
    harness_refused(tfm_generate_ids(model, &found, p.ids, p.counts, 8, &o), TFM_ERROR_CANCELLED, "stopped after 2");
    assert_true(!found.items && t.count[0] <= 2);
    tfm_hypotheses_free(&plain);
    tfm_model_free(&model);
}

static bool fail_once(void *user) {
    if (++*(int *)user == 6) /* in the second text */
        tfm__context_fail(harness_context(), TFM_ERROR_AGAIN, "a test");
    return true;
}

/* Texts that cannot share a batch get separate searches; tokens generated again after a restart count once. */
static void test_restarted_generation_counts_tokens_once(void **state) {
    (void)state;
    enum { PROMPTS = 3, NEW = 4 };
    const size_t counts[PROMPTS] = {5, 1, 9};
    const prompts p = make_prompts(counts, PROMPTS);
    tfm_model *model = toy_decoder(TOY_ROTARY, 2);
    tfm_hypotheses found;
    int steps = 0;
    tfm_generate_stats stats = {.prompts = 7};
    const tfm_generate_options o = {
        .max_new_tokens = NEW, .stats = &stats, .should_continue = fail_once, .should_continue_user = &steps};
    model->arch.decoder.rotary.switch_length = TOY_POSITIONS;
    model->rules.eos_id_count = 0;
    model->rules.eos_id = -1;
    harness_ok(tfm_generate_ids(model, &found, p.ids, p.counts, PROMPTS, &o));
    assert_true(steps > PROMPTS * NEW);
    assert_int_equal(stats.prompts, 7 + PROMPTS);
    assert_int_equal(stats.prompt_tokens, 15);
    assert_int_equal(stats.new_tokens, PROMPTS * NEW);
    tfm_hypotheses_free(&found);
    tfm_model_free(&model);
}

/* ---- Exhausted vocabularies ------------------------------------------------------------------------------------ */

/* The whole vocabulary, all but three tokens of it, and two short ones. */
static prompts exhausting_prompts(void) {
    static const size_t counts[] = {TOY_VOCABULARY, TOY_VOCABULARY - 3, 2, 1};
    prompts p = {.count = 4};
    size_t used = 0;
    for (size_t i = 0; i < p.count; i++)
        for (size_t k = 0; k < (p.counts[i] = counts[i]); k++)
            p.ids[used++] = (int32_t)k;
    return p;
}

/* With no_repeat_ngram_size 1 a text ends when prompt and text contain the whole vocabulary: each has the remaining
 * number of distinct tokens. Other texts of the batch continue. */
static void test_exhausted_vocabulary_ends_the_text(void **state) {
    (void)state;
    const prompts p = exhausting_prompts();
    static told t;
    const tfm_generate_options ways[] = {
        {.max_new_tokens = 90},
        {.max_new_tokens = 90, .repetition_penalty = 1.2f},
        {.max_new_tokens = 90, .sample = true, .temperature = 2, .seed = 5},
        {.max_new_tokens = 90, .sample = true, .top_k = 4, .repetition_penalty = 1.2f},
        {.max_new_tokens = 90, .beam_size = 3, .n_best = 2},
        {.max_new_tokens = 90, .beam_size = 4, .repetition_penalty = 1.2f},
        {.max_new_tokens = 90, .skip_scores = true},
        {.max_new_tokens = 90, .on_token = on_token, .on_token_user = &t},
        {.max_new_tokens = 90, .sample = true, .on_token = on_token, .on_token_user = &t},
    };
    tfm_model *model = toy_decoder(TOY_ROTARY, 0);
    model->rules.no_repeat_ngram = 1;
    for (size_t w = 0; w < sizeof(ways) / sizeof(*ways); w++) {
        const size_t each = ways[w].n_best ? (size_t)ways[w].n_best : 1;
        tfm_hypotheses found;
        t = (told){.steps = 0};
        harness_ok(tfm_generate_ids(model, &found, p.ids, p.counts, p.count, &ways[w]));
        for (size_t i = 0; i < p.count * each; i++) {
            const tfm_hypothesis *h = &found.items[i];
            const int left = TOY_VOCABULARY - (int)p.counts[i / each];
            bool seen[TOY_VOCABULARY] = {false};
            if (i % each > 0 && left == 0) { /* a text alone has no tokens left after its prompt */
                assert_true(isinf(h->score));
                continue;
            }
            assert_int_equal(h->tokens, left);
            assert_true(h->count == (size_t)left && isfinite(h->score));
            assert_true(!ways[w].on_token || t.count[i] == left);
            for (int k = 0; k < left; k++) {
                assert_true(h->ids[k] >= (int32_t)p.counts[i / each] && !seen[h->ids[k]]);
                seen[h->ids[k]] = true;
            }
        }
        tfm_hypotheses_free(&found);
    }
    /* Without such a rule a model with no probable token is damaged. */
    float nowhere[TOY_VOCABULARY];
    for (int v = 0; v < TOY_VOCABULARY; v++)
        nowhere[v] = NAN;
    harness_ok(tfm_tensor_write(model->ctx, model->logits_bias, nowhere));
    harness_ok(tfm_tensor_write(model->ctx, model->search_bias, nowhere));
    tfm_hypotheses none;
    for (int rule = 0; rule < 2; rule++) {
        model->rules.no_repeat_ngram = rule;
        harness_refused(tfm_generate_ids(model, &none, p.ids, p.counts, p.count, &ways[0]), TFM_ERROR_FORMAT,
                        "weights are damaged");
    }
    tfm_model_free(&model);
}

/* ---- Argument checks ------------------------------------------------------------------------------------------- */

static bool ignore(void *user, const tfm_generation *g) {
    (void)g;
    ++*(int *)user;
    return true;
}

static void test_generate_rejects_bad_arguments(void **state) {
    (void)state;
    const size_t counts[] = {3, 2}, none[] = {3, 0}, too_many = TOY_POSITIONS + 1;
    const prompts p = make_prompts(counts, 2), q = make_prompts(&too_many, 1);
    const int32_t odd[] = {1, 2, TOY_VOCABULARY, 4, 5};
    tfm_model *model = toy_decoder(TOY_ROTARY, 1);
    tfm_hypotheses found;
    const tfm_status wrong = TFM_ERROR_ARGUMENT;
    const struct {
        tfm_generate_options options;
        const char *part;
    } cases[] = {
        {{.beam_size = 33}, "beam_size is 33"},
        {{.beam_size = -1}, "beam_size is -1"},
        {{.n_best = 2}, "n-best is 2"},
        {{.sample = true, .beam_size = 2}, "cannot be combined"},
        {{.temperature = 0.5f}, "set `sample`"},
        {{.top_k = 3}, "set `sample`"},
        {{.sample = true, .temperature = -1}, "temperature is -1"},
        {{.sample = true, .top_p = 1.5f}, "top_p is 1.5"},
        {{.sample = true, .min_p = -0.5f}, "min_p is -0.5"},
        {{.repetition_penalty = -2}, "repetition_penalty is -2"},
        {{.max_new_tokens = -3}, "max_new_tokens is -3"},
        {{.has_length_penalty = true, .length_penalty = 11}, "length_penalty"},
        {{.beam_size = 2, .on_token = on_token}, "a beam of 2"},
        {{.reserved = {1}}, "generate:"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        harness_refused(tfm_generate_ids(model, &found, p.ids, p.counts, 2, &cases[i].options), wrong, cases[i].part);
    harness_refused(tfm_generate_ids(model, &found, odd, p.counts, 2, NULL), wrong, "prompt 1 has the id 61");
    harness_refused(tfm_generate_ids(model, &found, p.ids, none, 2, NULL), TFM_ERROR_INPUT, "prompt 2 has no tokens");
    harness_refused(tfm_generate_ids(model, &found, q.ids, q.counts, 1, NULL), TFM_ERROR_INPUT,
                    "prompt 1 has 641 tokens, and the model has 640 positions");
    const tfm_prompt text = {.text = "a", .bytes = 1};
    int emitted = 0;
    harness_refused(tfm_generate(model, &text, 1, NULL, ignore, &emitted), wrong, "it takes ids, not text");
    const tfm_generate_options stop = {.stop_strings = (const char *const[]){"a"}, .stop_string_count = 1};
    harness_refused(tfm_generate(model, &text, 1, &stop, ignore, &emitted), wrong, "without its tokenizer");
    assert_int_equal(emitted, 0);
    harness_ok(tfm_generate_ids(model, &found, p.ids, p.counts, 0, NULL));
    tfm_hypotheses_free(&found);
    tfm_model_free(&model);
}

/* ---- Text ------------------------------------------------------------------------------------------------------ */

typedef struct heard {
    char pieces[MOST][4096], text[MOST][4096];
    int tokens[MOST], said, last; /* last: the piece after which the text is stopped; 0: none */
    tfm_finish_reason end[MOST];
} heard;

static bool on_piece(void *user, size_t prompt, int best, const char *piece) {
    heard *h = user;
    assert_true(best == 0 && *piece);
    strcat(h->pieces[prompt], piece);
    return ++h->said != h->last;
}

static bool on_text(void *user, const tfm_generation *g) {
    heard *h = user;
    snprintf(h->text[g->prompt], sizeof(h->text[0]), "%s", g->text);
    h->tokens[g->prompt] = (int)g->tokens.count;
    h->end[g->prompt] = g->finish_reason;
    return true;
}

static void generate_text(tfm_model *model, heard *h, const prompts *p, const char *const *stops, size_t count,
                          int last) {
    tfm_prompt list[MOST];
    *h = (heard){.last = last};
    for (size_t i = 0; i < p->count; i++)
        list[i] = (tfm_prompt){.ids = prompt_at(p, i), .count = p->counts[i]};
    harness_ok(tfm_generate(model, list, p->count,
                            &(tfm_generate_options){.max_new_tokens = 30,
                                                    .stop_strings = stops,
                                                    .stop_string_count = count,
                                                    .on_text = on_piece,
                                                    .on_text_user = h},
                            on_text, h));
}

/* Pieces concatenate to the text: all tokens after the prompt, up to a stop. */
static void test_generated_text_ends_before_stop_string(void **state) {
    (void)state;
    const size_t counts[] = {5, 1, 9, 3};
    const prompts p = make_prompts(counts, 4);
    static heard plain, cut;
    tfm_model *model = talking_toy();
    tfm_hypotheses found;
    generate_text(model, &plain, &p, NULL, 0, 0);
    harness_ok(tfm_generate_ids(model, &found, p.ids, p.counts, 4, &(tfm_generate_options){.max_new_tokens = 30}));
    for (size_t i = 0; i < 4; i++) {
        int32_t all[64];
        char *before, *whole;
        memcpy(all, prompt_at(&p, i), p.counts[i] * sizeof(*all));
        memcpy(all + p.counts[i], found.items[i].ids, 30 * sizeof(*all));
        harness_ok(tfm_tokenizer_decode(model->tokenizer, &before, all, p.counts[i]));
        harness_ok(tfm_tokenizer_decode(model->tokenizer, &whole, all, p.counts[i] + 30));
        assert_true(strlen(plain.text[i]) > 20 && plain.end[i] == TFM_FINISH_LENGTH && plain.tokens[i] == 30);
        assert_string_equal(plain.text[i], whole + strlen(before));
        assert_string_equal(plain.text[i], plain.pieces[i]);
        tfm_text_free(&before);
        tfm_text_free(&whole);
    }
    tfm_hypotheses_free(&found);
    /* A stop string that begins within one token and ends within another, and one that never occurs. */
    for (size_t at = 3; at < 12; at++) {
        char stop[8] = {0};
        memcpy(stop, plain.text[0] + at, 6);
        const char *const stops[] = {"never said", stop};
        generate_text(model, &cut, &p, stops, 2, 0);
        for (size_t i = 0; i < 4; i++) {
            const char *first = strstr(plain.text[i], stop);
            const size_t bytes = first ? (size_t)(first - plain.text[i]) : strlen(plain.text[i]);
            assert_true(strlen(cut.text[i]) == bytes && strncmp(cut.text[i], plain.text[i], bytes) == 0);
            assert_string_equal(cut.text[i], cut.pieces[i]);
            assert_true((cut.end[i] == TFM_FINISH_STOP) == (first != NULL) && (!first || cut.tokens[i] <= 30));
        }
        assert_true(cut.end[0] == TFM_FINISH_STOP && cut.tokens[0] < 30);
    }
    const prompts one = make_prompts(counts, 1);
    generate_text(model, &cut, &one, NULL, 0, 3); /* stopped by the callback */
    assert_true(cut.end[0] == TFM_FINISH_STOP && cut.said == 3 && cut.tokens[0] < 30);
    assert_string_equal(cut.text[0], cut.pieces[0]);
    tfm_model_free(&model);
}

/* ---- Many prompts ---------------------------------------------------------------------------------------------- */

enum { PROMPTS = 60 };
typedef struct kept {
    tfm_hypotheses *want;
    size_t next, rejected;
} kept;

static bool see(void *user, const tfm_generation *g) {
    kept *k = user;
    assert_int_equal(g->prompt, k->next++);
    if (g->prompt == 17) {
        assert_true(isnan(g->score) && g->tokens.count == 0 && strcmp(g->text, "") == 0);
        return true;
    }
    const tfm_hypothesis *h = &k->want->items[g->prompt];
    assert_int_equal(g->tokens.count, h->tokens);
    assert_memory_equal(g->tokens.ids, h->ids, (size_t)h->tokens * sizeof(*h->ids));
    assert_true(fabs(g->score - h->score) < 1e-3 && g->tokens.tokens[0][0] == '#');
    assert_int_equal(g->finish_reason, h->count < (size_t)h->tokens ? TFM_FINISH_EOS : TFM_FINISH_LENGTH);
    return g->prompt != 50;
}

static bool on_reject(void *user, size_t prompt, const char *message) {
    kept *k = user;
    assert_true(prompt == 17 && strstr(message, "641 tokens"));
    k->rejected++;
    return true;
}

/* tfm_generate: in prompt order, in small batches of similar lengths, with a bad prompt, and with none. */
static void test_many_prompts_keep_order_and_report_bad_ones(void **state) {
    (void)state;
    static int32_t ids[PROMPTS][TOY_POSITIONS + 1], joined[PROMPTS * 40];
    tfm_prompt list[PROMPTS];
    size_t counts[PROMPTS], used = 0;
    harness_random random = {4};
    tfm_hypotheses want;
    tfm_model *model = toy_decoder(TOY_LOCAL, 2);
    for (int i = 0; i < PROMPTS; i++) {
        counts[i] = i == 30 ? 1 : (size_t)harness_range(&random, 1, 12);
        for (size_t k = 0; k < counts[i]; k++)
            joined[used++] = ids[i][k] = i == 30 ? 1 : (int32_t)harness_range(&random, 12, TOY_VOCABULARY - 1);
        list[i] = (tfm_prompt){.ids = ids[i], .count = i == 17 ? TOY_POSITIONS + 1 : i == 30 ? 0 : counts[i]};
    }
    kept k = {.want = &want};
    tfm_generate_options o = {.max_new_tokens = 9, .sample = true, .seed = 8, .reject = on_reject, .reject_user = &k};
    harness_ok(tfm_generate_ids(model, &want, joined, counts, PROMPTS, &o));
    o.batch_tokens = 90;
    harness_refused(tfm_generate(model, list, PROMPTS, &o, see, &k), TFM_ERROR_CANCELLED, "stopped at prompt 51");
    assert_true(k.next == 51 && k.rejected == 1);
    k.next = 0;
    o.reject = NULL;
    harness_refused(tfm_generate(model, list, PROMPTS, &o, see, &k), TFM_ERROR_INPUT, "line 18: the prompt has 641");
    assert_int_equal(k.next, 0);
    tfm_hypotheses_free(&want);
    tfm_model_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_generation_matches_uncached_passes),
        cmocka_unit_test(test_chunked_prefill_of_long_prompts_matches_uncached),
        cmocka_unit_test(test_min_length_bans_and_penalties_match_definition),
        cmocka_unit_test(test_beam_generation_matches_uncached_search),
        cmocka_unit_test(test_sampled_tokens_have_the_exact_distribution),
        cmocka_unit_test(test_seed_gives_one_text_in_any_batch),
        cmocka_unit_test(test_generation_callbacks_see_tokens_and_cancel),
        cmocka_unit_test(test_generate_rejects_bad_arguments),
        cmocka_unit_test(test_many_prompts_keep_order_and_report_bad_ones),
        cmocka_unit_test(test_generated_text_ends_before_stop_string),
        cmocka_unit_test(test_restarted_generation_counts_tokens_once),
        cmocka_unit_test(test_exhausted_vocabulary_ends_the_text),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
