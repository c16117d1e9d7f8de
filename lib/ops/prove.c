/* The trials of prove.h. */
#include "ops/prove.h"
#include "ops/tape.h"

/* Seconds to wait for another program's trial, in which kernels are compiled. */
enum { PATIENCE = 20 };

static void tell(tfm_context *ctx, const tfm__proof *p, tfm__verdict v, tfm_log_level level) {
    tfm__log(level, "%s: %s (%s): going on without %s", tfm_context_device(ctx)->name, p->trouble(v), p->what,
             p->without);
}

static tfm__verdict try_it(tfm_context *ctx, const tfm__proof *p) {
    const int depth = tfm__scope_depth(ctx);
    const bool recorded = tfm__tape_pause(ctx);
    tfm__verdict v = TFM__UNTRIED;
    if (tfm_scope_open(ctx) == TFM_OK)
        v = p->compare(ctx, p->form);
    const tfm_status status = tfm_context_status(ctx);
    if (status == TFM_OK) {
        tfm_scope_close(ctx, 0, NULL);
    } else if (status == TFM_ERROR_BUILD || status == TFM_ERROR_DEVICE) {
        v = status == TFM_ERROR_BUILD ? TFM__NOT_BUILT : TFM__WRONG;
        tfm__context_recover(ctx, depth);
    } else {
        v = TFM__UNTRIED;
    }
    tfm__tape_resume(ctx, recorded);
    if (v > TFM__GOOD)
        tell(ctx, p, v, v == TFM__NOT_BUILT && p->may_lack ? TFM_LOG_INFO : TFM_LOG_WARNING);
    return v;
}

static tfm__verdict kept(tfm_context *ctx, const tfm__proof *p) {
    int stored = TFM__UNTRIED;
    return tfm__proven_get(ctx, &stored, p->program, p->what) && stored > TFM__UNTRIED && stored < TFM__BUSY
               ? (tfm__verdict)stored
               : TFM__UNTRIED;
}

/* Tries it, unless a verdict is kept by now. A driver may end the program, and is then tried once more only: the first
 * time it may have been the user. */
static tfm__verdict try_once(tfm_context *ctx, const tfm__proof *p, tfm__trial *trial) {
    const tfm__verdict last = kept(ctx, p);
    if (last != TFM__UNTRIED && last != TFM__CUT_ONCE)
        return last;
    tfm__trial_mark(ctx, trial, last == TFM__CUT_ONCE ? TFM__CUT_AGAIN : TFM__CUT_ONCE, p->program, p->what);
    const tfm__verdict v = try_it(ctx, p);
    tfm__proven_set(ctx, v, p->program, p->what);
    return v;
}

/* What is kept may be the mark of another program's trial, which is waited for. */
static tfm__verdict prove(tfm_context *ctx, const tfm__proof *p) {
    const tfm__verdict last = p->kept ? kept(ctx, p) : TFM__UNTRIED;
    tfm__trial trial;
    if (!p->kept)
        return try_it(ctx, p);
    if (last != TFM__UNTRIED && last < TFM__CUT_ONCE)
        return last;
    if (tfm__trial_begin(&trial, *p->waited ? 0 : PATIENCE)) {
        const tfm__verdict v = try_once(ctx, p, &trial);
        tfm__trial_end(&trial);
        return v;
    }
    tell(ctx, p, TFM__BUSY, *p->waited ? TFM_LOG_INFO : TFM_LOG_WARNING);
    *p->waited = true;
    return TFM__BUSY;
}

tfm__verdict tfm__prove(tfm_context *ctx, unsigned char *known, const tfm__proof *p) {
    if (*known == TFM__UNTRIED)
        *known = (unsigned char)prove(ctx, p);
    return (tfm__verdict)*known;
}
