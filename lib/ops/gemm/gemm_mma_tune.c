/* What else a matrix engine could run than by its rule, for the table of `tfm tune`: tiles, rings, and parts of the
 * inner dimension. */
#include <stdio.h>
#include <string.h>
#include "ops/gemm/gemm_mma.h"

/* "64x64x32/4" is a tile and the parts of the inner dimension, and "ring 64x64x32-3/4" one of a ring of three. Rings of
 * fewer tiles than there is room for leave it to more of them on a core. */
bool tfm__engine_candidate(tfm_context *ctx, const tfm__gemm_task *task, size_t index,
                           char setting[TFM__TUNING_TEXT_MAX]) {
    static const int64_t PARTS[] = {0, 1, 2, 4, 8, 16}; /* the first is by the rule */
    const size_t each = TFM__COUNT(PARTS) * DEPTHS;
    const tfm__engine_kind *engine = tfm__engine_kind_of(ctx);
    if (tfm__engine_declines(ctx, task) || index >= (size_t)engine->count * each)
        return false;
    const tfm__engine_tile *tile = &engine->tiles[index / each];
    const int64_t asked = PARTS[index % TFM__COUNT(PARTS)],
                  parts = tfm__gemm_cut_of(ctx, task, tile->pace, asked).parts,
                  by_rule = tfm__gemm_cut_of(ctx, task, tile->pace, 0).parts;
    const int depth = (int)(index % each / TFM__COUNT(PARTS)); /* 0: by the rule */
    const int stages = depth > 0 ? LEAST_STAGES + depth - 1 : 0;
    setting[0] = 0;
    /* What comes to the same as another candidate is not tried again, and depths of a ring are in few parts only. */
    if (!tfm__engine_usable(ctx, task, tile, stages) || (asked > 0 && (parts != asked || asked == by_rule)) ||
        (stages > 0 && (asked > 1 || stages >= tfm__engine_stages(ctx, tile, 0))))
        return true;
    int used = snprintf(setting, TFM__TUNING_TEXT_MAX, "%s%dx%dx%d", tile->pace.narrows ? "ring " : "", tile->pace.m,
                        tile->pace.n, TILE_K);
    if (stages > 0)
        used += snprintf(setting + used, TFM__TUNING_TEXT_MAX - (size_t)used, "-%d", stages);
    if (asked > 0)
        snprintf(setting + used, TFM__TUNING_TEXT_MAX - (size_t)used, "/%d", (int)asked);
    return true;
}

/* The number after `mark`, if that is what comes next; false for what is none. */
static bool read_number(const char **text, char mark, int *number) {
    int end = 0;
    if (**text != mark)
        return true;
    if (sscanf(*text + 1, "%4d%n", number, &end) != 1 || *number < 1)
        return false;
    *text += 1 + end;
    return true;
}

bool tfm__engine_read_setting(tfm_context *ctx, tfm__gemm_setting *out, const char *text) {
    static const char RING[] = "ring ";
    const tfm__engine_kind *engine = tfm__engine_kind_of(ctx);
    const bool ring = strncmp(text, RING, strlen(RING)) == 0;
    int m = 0, n = 0, k = 0, end = 0, stages = 0, parts = 0;
    text += ring ? strlen(RING) : 0;
    if (sscanf(text, "%4dx%4dx%4d%n", &m, &n, &k, &end) != 3 || k != TILE_K)
        return false;
    text += end;
    if (!read_number(&text, '-', &stages) || !read_number(&text, '/', &parts) || *text ||
        (stages > 0 && (!ring || stages < LEAST_STAGES || stages > MOST_STAGES)))
        return false;
    for (int i = 0; i < engine->count; i++)
        if (engine->tiles[i].pace.m == m && engine->tiles[i].pace.n == n && engine->tiles[i].pace.narrows == ring) {
            *out = (tfm__gemm_setting){i + 1, parts, stages};
            return true;
        }
    return false;
}

bool tfm__engine_obeys(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__gemm_setting s = task->setting;
    const tfm__engine_plan p = tfm__engine_plan_of(ctx, task);
    const unsigned char *known = p.tile ? tfm__engine_verdict_on(ctx, task, &p) : NULL;
    return known && *known == TFM__VALID &&
           (s.tile == 0 ||
            (p.tile == &tfm__engine_kind_of(ctx)->tiles[s.tile - 1] && (s.stages == 0 || p.stages == s.stages) &&
             p.cut.parts == tfm__gemm_cut_of(ctx, task, p.tile->pace, s.parts).parts));
}
