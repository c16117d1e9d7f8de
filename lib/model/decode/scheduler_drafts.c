/* Drafts: tokens of a sequence that a step verifies. A step computes the token after each draft, and a token's random
 * number belongs to its place in the text, so that a text is the same with and without drafts. */
#include "model/decode/prompt_lookup.h"
#include "model/decode/scheduler_step.h"

/* More sequences fill a step, and none has drafts: on CPUs steps of 1, 4 and 8 rows take 9, 14 and 25 ms (SmolLM2-135M,
 * Q4_1). After MOST_REJECTED steps in a row that accept no draft, a sequence has none for PAUSE tokens. With
 * these times, and 3 drafts, 18 recorded texts would take 0.5 to 1.02 of the time without drafts. */
enum { MOST_SEQUENCES = 4, MOST_REJECTED = 3, PAUSE = 8 };

static int64_t minimum(int64_t a, int64_t b) {
    return a < b ? a : b;
}

bool tfm__sequence_drafts(const tfm__scheduler *s, const tfm__sequence *q) {
    return q->request.params.prompt_lookup > 0 && !q->matcher && s->pool.shares && s->live_count <= MOST_SEQUENCES &&
           q->made >= q->draft_from;
}

int64_t tfm__scheduler_draft(tfm__scheduler *s) {
    int64_t rows = 0, drafts = 0;
    bool enough = false;
    for (size_t i = 0; i < s->live_count; i++) {
        rows += tfm__sequence_can_decode(s->live[i]);
        s->live[i]->drafts = 0;
    }
    int64_t room = minimum(TFM__DRAFT_ROWS, s->pool.most - s->pool.used) - rows; /* nothing leaves the cache for them */
    for (size_t i = 0; i < s->live_count; i++) {
        tfm__sequence *q = s->live[i];
        tfm__kv_run *run = q->run;
        const int64_t count = minimum(minimum(q->width, room), q->limit - q->made - 1);
        if (count <= 0 || q->flights > 0 || !tfm__sequence_can_decode(q) || !tfm__sequence_drafts(s, q) ||
            !tfm__kv_run_reserve(run, run->count + count) || !tfm__prompt_lookup(run->ids, run->count, count))
            continue;
        q->drafts = count;
        room -= count;
        drafts += count;
    }
    if (drafts == 0 || (tfm__kv_pool_reserve(&s->pool, rows + drafts, &enough) == TFM_OK && enough))
        return drafts;
    for (size_t i = 0; i < s->live_count; i++) /* the device has less memory than it seemed */
        s->live[i]->drafts = 0;
    return 0;
}

void tfm__sequence_judge(tfm__scheduler *s, tfm__sequence *q, int64_t drafted, int64_t accepted) {
    s->counts.drafted += (uint64_t)drafted;
    s->counts.accepted += (uint64_t)accepted;
    s->counts.tokens += (uint64_t)accepted;
    q->rejected = accepted > 0 ? 0 : q->rejected + 1;
    q->width = accepted == drafted ? minimum(2 * q->width, q->request.params.prompt_lookup) : accepted + 1;
    if (q->rejected == MOST_REJECTED) {
        q->rejected = 0;
        q->draft_from = q->made + PAUSE;
    }
}
