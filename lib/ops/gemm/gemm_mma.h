/* Declarations shared by the matrix-core files: gemm_mma.c, the provider; gemm_mma_plan.c, tiles and launches;
 * gemm_mma_validation.c, kernel validation before first use; gemm_mma_tune.c, candidates for tuning. */
#ifndef TFM_LIB_GEMM_MMA_H
#define TFM_LIB_GEMM_MMA_H

#include "ops/gemm/gemm_mma_multistage.h"
#include "ops/gemm/kernel_validation.h"
#include "ops/selftest/selftest.h"

enum { TILE_K = TFM__MULTISTAGE_K, TILES = 4, MULTISTAGE_TILES = 3, MIN_STAGES = 2, MAX_STAGES = 4 };
enum { DEPTHS = MAX_STAGES - MIN_STAGES + 1, CLASSES = (TILES + MULTISTAGE_TILES * DEPTHS) << 5 };

typedef struct tfm__mma_tile {
    tfm__gemm_macro_tile macro_tile; /* with macro_tile.converts: multistage */
    int wave_m, wave_n;
} tfm__mma_tile;

typedef struct tfm__mma_kind {
    int lanes, words; /* of a subgroup; of a lane's fragments of a and b: see cl/common/mma.cl */
    bool bf16;
    const tfm__mma_tile *tiles;
    int count;
    const char *option; /* compiler option for the instruction; or NULL */
} tfm__mma_kind;

/* A planned launch. */
typedef struct tfm__mma_plan {
    const tfm__mma_tile *tile; /* NULL: none fits the device */
    int unit;                  /* floats per load: 4 or 1; 0 for multistage, which loads 16-bit words */
    int stages;                /* pipeline stages; 0 if not multistage */
    bool index64;              /* elements beyond 2^31 */
    tfm__gemm_splitk splitk;
} tfm__mma_plan;

typedef struct tfm__mma_state {
    /* Verdicts of instructions and emulations: by tile, stages, 16-bit b, unit, input dtype, transposes. */
    unsigned char verdicts[2 * TFM__MMA_COUNT][CLASSES];
    bool waited; /* for another program's validation, in vain */
} tfm__mma_state;

/* ---- gemm_mma_plan.c ---- */

/* The context's state. NULL after a failure. */
tfm__mma_state *tfm__mma_state_of(tfm_context *ctx);
/* The device's MMA description; without tiles if it has no matrix cores. */
const tfm__mma_kind *tfm__mma_kind_of(tfm_context *ctx);
/* Work-items of a group. */
size_t tfm__mma_items(tfm_context *ctx, const tfm__mma_tile *tile);
/* Pipeline stages: the requested number, or as many as fit; more than 4 do not help. 0 if the tile is not multistage.
 */
int tfm__mma_stages(tfm_context *ctx, const tfm__mma_tile *tile, int asked);
/* The slot of the verdict on this tile's kernel, or the plan's; NULL after a failure. */
unsigned char *tfm__mma_verdict_of(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_tile *tile, int stages);
unsigned char *tfm__mma_verdict_on(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_plan *p);
/* Why no tile accepts such GEMMs here, or NULL. */
const char *tfm__mma_declines(tfm_context *ctx, const tfm__gemm_task *task);
/* Whether the device has the resources for it. */
bool tfm__mma_fits(tfm_context *ctx, const tfm__mma_tile *tile);
/* Whether the tile fits the device and the task. A multistage tile that failed validation is skipped in favor of other
 * tiles. */
bool tfm__mma_usable(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_tile *tile, int stages);
/* Whether a setting can be used; tiles that failed validation are left to the heuristic. */
bool tfm__mma_setting_usable(tfm_context *ctx, const tfm__gemm_task *task, const tfm__gemm_setting *s);
tfm__mma_plan tfm__mma_plan_of(tfm_context *ctx, const tfm__gemm_task *task);
/* With a tile that fits both, so many stages if multistage (0: as many as fit), and K split so many ways. */
tfm__mma_plan tfm__mma_plan_with(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_tile *tile, int stages,
                                 int64_t split_k);
tfm__kernel *tfm__mma_kernel(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_plan *p);
tfm_status tfm__mma_launch(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_plan *p, tfm__kernel *kernel);
/* The message of a bad verdict; NULL for others. */
const char *tfm__mma_describe(tfm__verdict v);

/* ---- gemm_mma_validation.c ---- */

/* The current verdict on the plan's kernel. Emulations, used only by tests, are validated in each context. */
tfm__verdict tfm__mma_validate(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_plan *p);

/* ---- gemm_mma_selftest.c ------- */

/* A 32-bit number rounded to the input dtype; not for subnormals of 16 bits. */
double tfm__mma_rounded(double x, tfm_dtype dtype);
/* Checks of each tile without stages, and of each multistage tile, for the input dtype of the check's number. */
void tfm__mma_check_tiles(tfm__check *c);
void tfm__mma_check_multistage(tfm__check *c);

/* ---- gemm_mma_tune.c: implements tfm__gemm_provider's settings ------- */

bool tfm__mma_candidate(tfm_context *ctx, const tfm__gemm_task *task, size_t index, char setting[TFM__TUNING_TEXT_MAX]);
bool tfm__mma_parse_setting(tfm_context *ctx, tfm__gemm_setting *out, const char *text);
bool tfm__mma_uses_setting(tfm_context *ctx, const tfm__gemm_task *task);

#endif
