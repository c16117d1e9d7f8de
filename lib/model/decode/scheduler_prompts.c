/* Which prompt tokens a step of the scheduler computes. */
#include <string.h>
#include "model/decode/scheduler_step.h"
#include "ops/ops.h"

/* Prompt tokens of a step on CPUs while a text is decoded: for up to FEW_ROWS rows, whose next tokens they delay by
 * about twice the time of a step; and more of them for each further row, since with many sequences about as many
 * prompts are waiting as texts end. */
enum { LEAST_PREFILL = 32, FEW_ROWS = 8, PREFILL_PER_ROW = 8 };

bool tfm__sequence_needs_prefill(const tfm__sequence *q) {
    return q->flights == 0 && q->run->cached < q->run->count - 1;
}

bool tfm__sequence_can_decode(const tfm__sequence *q) {
    return q->run->cached == q->run->count + q->flights - 1 && q->made + q->flights < q->limit;
}

int64_t tfm__scheduler_prefill_budget(const tfm__scheduler *s) {
    int64_t rows = 0;
    for (size_t i = 0; i < s->live_count; i++)
        rows += tfm__sequence_can_decode(s->live[i]);
    if (s->options.prefill_tokens)
        return s->options.prefill_tokens;
    if (rows == 0 || tfm__context_tuning(s->model->ctx)->class == TFM__CLASS_GPU)
        return TFM__MOST_PREFILL;
    return LEAST_PREFILL + (rows > FEW_ROWS ? PREFILL_PER_ROW * (rows - FEW_ROWS) : 0);
}

/* Whether the prompt begins as that of the oldest one being prefilled does, which is to compute more of it. */
static bool waits_for(const tfm__sequence *q, const tfm__sequence *oldest) {
    const tfm__kv_run *run = q->run, *other = oldest->run;
    const int64_t most = run->count - 1 < other->count - 1 ? run->count - 1 : other->count - 1;
    int64_t same = 0;
    while (same < most && run->ids[same] == other->ids[same])
        same++;
    return same > other->cached;
}

tfm__sequence *tfm__scheduler_next_prompt(const tfm__scheduler *s, bool oldest) {
    tfm__sequence *first = NULL, *best = NULL;
    for (size_t i = 0; i < s->live_count; i++) {
        tfm__sequence *q = s->live[i];
        if (!tfm__sequence_needs_prefill(q))
            continue;
        first = first ? first : q;
        if (oldest || (q != first && s->pool.shares && waits_for(q, first)))
            continue;
        if (!best || q->run->count - q->run->cached < best->run->count - best->run->cached)
            best = q;
    }
    return oldest ? first : best;
}
