/* What the files about matrix cores share: gemm_mma.c, the provider; gemm_mma_plan.c, its tiles and launches;
 * gemm_mma_validation.c, which validates each kernel before its first use; gemm_mma_tune.c, which knows what else
 * could be run. */
#ifndef TFM_LIB_GEMM_MMA_H
#define TFM_LIB_GEMM_MMA_H

#include "ops/gemm/gemm_mma_multistage.h"
#include "ops/gemm/kernel_validation.h"
#include "ops/selftest/selftest.h"

enum { TILE_K = TFM__MULTISTAGE_K, TILES = 4, MULTISTAGE_TILES = 3, MIN_STAGES = 2, MAX_STAGES = 4 };
enum { DEPTHS = MAX_STAGES - MIN_STAGES + 1, CLASSES = (TILES + MULTISTAGE_TILES * DEPTHS) << 5 };

typedef struct tfm__mma_tile {
    tfm__gemm_macro_tile macro_tile; /* which `converts` in a ring */
    int wave_m, wave_n;
} tfm__mma_tile;

typedef struct tfm__mma_kind {
    int lanes, words; /* of a wave; of a lane's fragments of a and b: as cl/common/mma.cl has them */
    bool bf16;
    const tfm__mma_tile *tiles;
    int count;
    const char *option; /* of the compiler, for the instruction; or NULL */
} tfm__mma_kind;

/* A product as it is run. */
typedef struct tfm__mma_plan {
    const tfm__mma_tile *tile; /* NULL: none fits the device */
    int unit;                  /* floats that are read at once: 4 or 1; 0 where it is a ring's, which reads none */
    int stages;                /* tiles of both operands in a ring; 0 where it is none */
    bool index64;              /* elements after 2^31 */
    tfm__gemm_splitk splitk;
} tfm__mma_plan;

typedef struct tfm__mma_state {
    /* Of engines, and of their emulations: by tile, stages, whether b is stored in 16 bits, unit, inputs, transposes.
     */
    unsigned char verdicts[2 * TFM__MMA_COUNT][CLASSES];
    bool waited; /* for another program, in vain */
} tfm__mma_state;

/* ---- gemm_mma_plan.c ---- */

/* What this context has seen. NULL after a failure. */
tfm__mma_state *tfm__mma_state_of(tfm_context *ctx);
/* The device's engine, which has no tiles where there is none. */
const tfm__mma_kind *tfm__mma_kind_of(tfm_context *ctx);
/* Work-items of a group. */
size_t tfm__mma_items(tfm_context *ctx, const tfm__mma_tile *tile);
/* Tiles of both operands in a ring: as many as are asked for, or as it has room for; more than 4 are of no use. 0 for
 * what is no ring. */
int tfm__mma_stages(tfm_context *ctx, const tfm__mma_tile *tile, int asked);
/* The place of what is known about this tile's kernel, or the plan's; NULL after a failure. */
unsigned char *tfm__mma_verdict_of(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_tile *tile, int stages);
unsigned char *tfm__mma_verdict_on(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_plan *p);
/* Why no tile takes such products here, or NULL. */
const char *tfm__mma_declines(tfm_context *ctx, const tfm__gemm_task *task);
/* Whether the device has room for it. */
bool tfm__mma_fits(tfm_context *ctx, const tfm__mma_tile *tile);
/* Whether the tile fits the device and the task. A ring that does not do what it should is passed over, and the other
 * tiles go on. */
bool tfm__mma_usable(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_tile *tile, int stages);
/* Whether a setting can be followed: any tile that does not do what it should is left to the rule then. */
bool tfm__mma_setting_usable(tfm_context *ctx, const tfm__gemm_task *task, const tfm__gemm_setting *s);
tfm__mma_plan tfm__mma_plan_of(tfm_context *ctx, const tfm__gemm_task *task);
/* With a tile that fits both, so many stages if it is a ring, 0 being as many as there is room for, and the inner
 * dimension in so many parts. */
tfm__mma_plan tfm__mma_plan_with(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_tile *tile, int stages,
                                 int64_t split_k);
tfm__kernel *tfm__mma_kernel(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_plan *p);
tfm_status tfm__mma_launch(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_plan *p, tfm__kernel *kernel);
/* The sentence about a verdict that is not good; NULL for the others. */
const char *tfm__mma_describe(tfm__verdict v);

/* ---- gemm_mma_validation.c ---- */

/* What is known of the plan's kernel, by now. Emulations, which only tests run, are tried in each context. */
tfm__verdict tfm__mma_validate(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_plan *p);

/* ---- gemm_mma_selftest.c ------- */

/* What the engine reads of a number of 32 bits that is no subnormal in 16. */
double tfm__mma_rounded(double x, tfm_dtype dtype);
/* Checks of each tile that is no ring, and of each that is: of inputs of the dtype that is the check's number. */
void tfm__mma_check_tiles(tfm__check *c);
void tfm__mma_check_multistage(tfm__check *c);

/* ---- gemm_mma_tune.c: as tfm__gemm_provider has them ------- */

bool tfm__mma_candidate(tfm_context *ctx, const tfm__gemm_task *task, size_t index, char setting[TFM__TUNING_TEXT_MAX]);
bool tfm__mma_parse_setting(tfm_context *ctx, tfm__gemm_setting *out, const char *text);
bool tfm__mma_uses_setting(tfm_context *ctx, const tfm__gemm_task *task);

#endif
