/* Candidate settings of matrix cores for `tfm tune`: tiles, stages and split-K. */
#include <stdio.h>
#include <string.h>
#include "ops/gemm/gemm_mma.h"

/* "64x64x32/4" is a tile and the K splits, "multistage 64x64x32-3/4" the same with three stages. Fewer stages than fit
 * leave room for more tiles on a core. */
bool tfm__mma_candidate(tfm_context *ctx, const tfm__gemm_task *task, size_t index,
                        char setting[TFM__TUNING_TEXT_MAX]) {
    static const int64_t SPLITS[] = {0, 1, 2, 4, 8, 16}; /* the first is the heuristic's */
    const size_t each = TFM__COUNT(SPLITS) * DEPTHS;
    const tfm__mma_kind *kind = tfm__mma_kind_of(ctx);
    if (tfm__mma_declines(ctx, task) || index >= (size_t)kind->count * each)
        return false;
    const tfm__mma_tile *tile = &kind->tiles[index / each];
    const int64_t asked = SPLITS[index % TFM__COUNT(SPLITS)],
                  split_k = tfm__gemm_splitk_of(ctx, task, tile->macro_tile, asked).split_k,
                  by_rule = tfm__gemm_splitk_of(ctx, task, tile->macro_tile, 0).split_k;
    const int depth = (int)(index % each / TFM__COUNT(SPLITS)); /* 0: by the heuristic */
    const int stages = depth > 0 ? MIN_STAGES + depth - 1 : 0;
    setting[0] = 0;
    /* Candidates equal to an earlier one are skipped, and stage depths are combined with few splits only. */
    if (!tfm__mma_usable(ctx, task, tile, stages) || (asked > 0 && (split_k != asked || asked == by_rule)) ||
        (stages > 0 && (asked > 1 || stages >= tfm__mma_stages(ctx, tile, 0))))
        return true;
    int used = snprintf(setting, TFM__TUNING_TEXT_MAX, "%s%dx%dx%d", tile->macro_tile.converts ? "multistage " : "",
                        tile->macro_tile.m, tile->macro_tile.n, TILE_K);
    if (stages > 0)
        used += snprintf(setting + used, TFM__TUNING_TEXT_MAX - (size_t)used, "-%d", stages);
    if (asked > 0)
        snprintf(setting + used, TFM__TUNING_TEXT_MAX - (size_t)used, "/%d", (int)asked);
    return true;
}

/* The number after `mark`, if `mark` comes next; else false. */
static bool read_number(const char **text, char mark, int *number) {
    int end = 0;
    if (**text != mark)
        return true;
    if (sscanf(*text + 1, "%4d%n", number, &end) != 1 || *number < 1)
        return false;
    *text += 1 + end;
    return true;
}

bool tfm__mma_parse_setting(tfm_context *ctx, tfm__gemm_setting *out, const char *text) {
    static const char RING[] = "multistage ";
    const tfm__mma_kind *kind = tfm__mma_kind_of(ctx);
    const bool ring = strncmp(text, RING, strlen(RING)) == 0;
    int m = 0, n = 0, k = 0, end = 0, stages = 0, split_k = 0;
    text += ring ? strlen(RING) : 0;
    if (sscanf(text, "%4dx%4dx%4d%n", &m, &n, &k, &end) != 3 || k != TILE_K)
        return false;
    text += end;
    if (!read_number(&text, '-', &stages) || !read_number(&text, '/', &split_k) || *text ||
        (stages > 0 && (!ring || stages < MIN_STAGES || stages > MAX_STAGES)))
        return false;
    for (int i = 0; i < kind->count; i++)
        if (kind->tiles[i].macro_tile.m == m && kind->tiles[i].macro_tile.n == n &&
            kind->tiles[i].macro_tile.converts == ring) {
            *out = (tfm__gemm_setting){i + 1, split_k, stages};
            return true;
        }
    return false;
}

bool tfm__mma_uses_setting(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__gemm_setting s = task->setting;
    const tfm__mma_plan p = tfm__mma_plan_of(ctx, task);
    const unsigned char *known = p.tile ? tfm__mma_verdict_on(ctx, task, &p) : NULL;
    return known && *known == TFM__VALID &&
           (s.tile == 0 ||
            (p.tile == &tfm__mma_kind_of(ctx)->tiles[s.tile - 1] && (s.stages == 0 || p.stages == s.stages) &&
             p.splitk.split_k == tfm__gemm_splitk_of(ctx, task, p.tile->macro_tile, s.split_k).split_k));
}
