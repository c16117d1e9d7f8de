/* Rotary position embedding (RoPE) and its tables: cl/embedding/rotary.cl. */
#include <inttypes.h>
#include <math.h>
#include "ops/embedding/rotary.h"
#include "ops/selftest/selftest.h"
#include "ops/reduce/sum.h"
#include "ops/autograd/tape.h"

typedef struct shape {
    int64_t B, T, H, D;
} shape;

static tfm_status read_shape(tfm_context *ctx, shape *s, tfm_tensor x, int heads) {
    if (x.rank == 3 && heads >= 1 && x.dims[2] % heads == 0)
        *s = (shape){x.dims[0], x.dims[1], heads, x.dims[2] / heads};
    else if (x.rank == 4 && (heads == 0 || heads == x.dims[1]))
        *s = (shape){x.dims[0], x.dims[2], x.dims[1], x.dims[3]};
    else
        return tfm__op_error(ctx, "rotary", "x is %s and heads is %d: x must be (B, T, H D) or (B, H, T, D)",
                             TFM__SHAPE(x), heads);
    return TFM_OK;
}

static tfm_status check_tables(tfm_context *ctx, shape s, tfm_tensor cosines, tfm_tensor sines,
                               const tfm_rotary_options *options) {
    const char *op = "rotary";
    const tfm_tensor positions = options->positions;
    if (!tfm__same_dims(cosines, sines))
        return tfm__op_error(ctx, op, "cosines is %s, but sines is %s: the dims must be equal", TFM__SHAPE(cosines),
                             TFM__SHAPE(sines));
    const bool per_token = cosines.rank == 3 && cosines.dims[0] == s.B && cosines.dims[1] == s.T;
    if (cosines.rank != 2 && !per_token)
        return tfm__op_error(ctx, op, "cosines is %s: it must be (P, R/2) or (%" PRId64 ", %" PRId64 ", R/2)",
                             TFM__SHAPE(cosines), s.B, s.T);
    if (2 * tfm__last_dim(cosines) > s.D)
        return tfm__op_error(ctx, op, "cosines is %s: its pairs do not fit a head of %" PRId64 " columns",
                             TFM__SHAPE(cosines), s.D);
    if (positions.buffer && (per_token || positions.rank != 2 || positions.dims[0] != s.B || positions.dims[1] != s.T))
        return tfm__op_error(ctx, op,
                             "positions is %s and cosines %s: positions must be (%" PRId64 ", %" PRId64
                             "), with cosines (P, R/2)",
                             TFM__SHAPE(positions), TFM__SHAPE(cosines), s.B, s.T);
    if (!per_token && !positions.buffer && (options->first < 0 || options->first > cosines.dims[0] - s.T))
        return tfm__op_error(ctx, op, "positions %" PRId64 " to %" PRId64 " are not in cosines %s", options->first,
                             options->first + s.T - 1, TFM__SHAPE(cosines));
    return TFM_OK;
}

/* Launch parameters except tensors. */
typedef struct rope_params {
    shape s;
    int64_t first;
    bool heads_first, interleaved;
} rope_params;

/* Heads of a second input (B, T, H D), rotated in the same launch. */
typedef struct second_input {
    tfm_tensor y, x;
    int64_t count; /* H; 0: no second input */
} second_input;

/* y = x rotated by the angles of the tables, or by the negative angles. */
static tfm_status launch(tfm_context *ctx, const rope_params *t, bool inverse, tfm_tensor y, tfm_tensor x,
                         const second_input *m, tfm_tensor cosines, tfm_tensor sines, tfm_tensor positions) {
    /* On CPU-style devices a work-item takes about a row's worth of elements, since one head is little work. */
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const shape s = t->s;
    const int64_t vectors = s.B * s.T * s.H, by_size = (int64_t)tuning->chunk * tuning->group / s.D;
    const int64_t vectors2 = s.B * s.T * m->count, heads_per_group = by_size < 1 ? 1 : by_size;
    const int64_t groups = tfm__ceil_div(vectors + vectors2, heads_per_group);
    const char *kept = m->count ? tfm__saturating_store_define(m->y.dtype) : "";
    return tfm__launch(ctx, tfm__kernel_get(ctx, "rotary", "rotary", "%s", kept), tfm__row_grid(ctx, groups),
                       TFM__ARGS(TFM__T(y), TFM__T(x), TFM__T_AS("y2", m->y), TFM__T_AS("x2", m->x), TFM__T(cosines),
                                 TFM__T(sines), TFM__T(positions), TFM__I(vectors), TFM__I(vectors2),
                                 TFM__I(heads_per_group), TFM__I_AS("T", s.T), TFM__I_AS("H", s.H),
                                 TFM__I_AS("H2", m->count), TFM__I_AS("D", s.D), TFM__I_AS("P", cosines.dims[0]),
                                 TFM__I_AS("half_width", tfm__last_dim(cosines)), TFM__I_AS("first", t->first),
                                 TFM__I_AS("heads_first", t->heads_first), TFM__I_AS("per_token", cosines.rank == 3),
                                 TFM__I_AS("interleaved", t->interleaved), TFM__F_AS("sign", inverse ? -1.0f : 1.0f)));
}

static const second_input NO_SECOND;

/* dx = dy rotated back: written to dx, or in place in dy and then added. */
static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const tfm__gradient dx = tfm__tape_grad_input(ctx, record, 0);
    const tfm_tensor dy = tfm__tape_grad_output(ctx, record, 0), *saved = record->saved;
    launch(ctx, record->data, true, dx.add ? dy : dx.to, dy, &NO_SECOND, saved[0], saved[1], saved[2]);
    return dx.add ? tfm__accumulate(ctx, dx, dy) : tfm_context_status(ctx);
}

/* Checks the arguments, and creates y unless it exists as fp16 or bf16. */
static tfm_status begin(tfm_context *ctx, shape *s, tfm_tensor *y, tfm_tensor x, tfm_tensor cosines, tfm_tensor sines,
                        const tfm_rotary_options *options, int heads, bool kept) {
    const char *op = "rotary";
    const tfm_tensor positions = options->positions;
    if (TFM__OP_BEGIN(ctx, op, "fffI", x, cosines, sines, positions) != TFM_OK ||
        TFM__OP_OPTIONS(ctx, op, options) != TFM_OK ||
        TFM__TAPE_NO_BACKWARD(ctx, "rotary of tables", cosines, sines) != TFM_OK ||
        read_shape(ctx, s, x, heads) != TFM_OK || check_tables(ctx, *s, cosines, sines, options) != TFM_OK ||
        tfm__op_output(ctx, op, y, kept ? y->dtype : TFM_F32, x.rank, x.dims) != TFM_OK ||
        (kept ? TFM__OP_NO_OVERLAP(ctx, op, *y, x) : TFM__OP_IN_PLACE(ctx, op, *y, x)) != TFM_OK)
        return tfm_context_status(ctx);
    return TFM__OP_NO_OVERLAP(ctx, op, *y, cosines, sines, positions);
}

tfm_status tfm_rotary(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor cosines, tfm_tensor sines,
                      const tfm_rotary_options *options) {
    const tfm_rotary_options defaults = {0};
    options = options ? options : &defaults;
    shape s = {0};
    if (begin(ctx, &s, y, x, cosines, sines, options, options->heads, false) != TFM_OK)
        return tfm_context_status(ctx);
    const rope_params t = {s, options->first, x.rank == 4, options->interleaved};
    launch(ctx, &t, false, *y, x, &NO_SECOND, cosines, sines, options->positions);
    return tfm__tape_add(ctx, &(tfm__record){.op = "rotary",
                                             .backward = backward,
                                             .out = {*y},
                                             .in = {x},
                                             .saved = {cosines, sines, options->positions},
                                             .data = &t,
                                             .data_bytes = sizeof(t)});
}

tfm_status tfm__rotary_pair(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int heads, tfm_tensor *y2, tfm_tensor x2,
                            tfm_tensor cosines, tfm_tensor sines, const tfm_rotary_options *options) {
    shape s = {0}, more = {0};
    const bool kept = y2 && tfm__is_half(*y2);
    if (TFM__TAPE_REQUIRES_GRAD(ctx, x, x2)) {
        tfm_rotary_options own = *options;
        own.heads = heads;
        tfm_rotary(ctx, y, x, cosines, sines, &own);
        return tfm_rotary(ctx, y2, x2, cosines, sines, options);
    }
    if (begin(ctx, &s, y, x, cosines, sines, options, heads, false) != TFM_OK ||
        begin(ctx, &more, y2, x2, cosines, sines, options, options->heads, kept) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, "rotary", *y, *y2, x2) != TFM_OK || TFM__OP_NO_OVERLAP(ctx, "rotary", *y2, x) != TFM_OK)
        return tfm_context_status(ctx);
    if (x.rank != 3 || x2.rank != 3 || s.B != more.B || s.T != more.T || s.D != more.D)
        return tfm__op_error(ctx, "rotary", "%s and %s are rotated in one launch: both must be (B, T, H D), of one D",
                             TFM__SHAPE(x), TFM__SHAPE(x2));
    const rope_params t = {s, options->first, false, options->interleaved};
    return launch(ctx, &t, false, *y, x, &(second_input){*y2, x2, more.H}, cosines, sines, options->positions);
}

/* On the host in double precision: the float argument of sin() would be off by 1e-4 at position 2000. */
static tfm_status write_table(tfm_context *ctx, tfm_tensor table, double base, bool cosine) {
    const int64_t positions = table.dims[0], half = table.dims[1];
    float *host = tfm__alloc(tfm_tensor_count(table), sizeof(float));
    if (!host)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "rotary_tables: no host memory for %s", TFM__SHAPE(table));
    for (int64_t i = 0; i < half; i++) {
        const double inv_freq = pow(base, -(double)i / (double)half);
        for (int64_t p = 0; p < positions; p++)
            host[p * half + i] = (float)(cosine ? cos((double)p * inv_freq) : sin((double)p * inv_freq));
    }
    const tfm_status status = tfm_tensor_write(ctx, table, host);
    free(host);
    return status;
}

tfm_status tfm_rotary_tables(tfm_context *ctx, tfm_tensor *cosines, tfm_tensor *sines, int64_t positions, int64_t width,
                             float base) {
    if (TFM__NEEDS_ON(ctx, "rotary_tables", cosines, sines) != TFM_OK)
        return tfm_context_status(ctx);
    const char *op = "rotary_tables";
    if (positions < 1 || width < 2 || width % 2 != 0)
        return tfm__op_error(ctx, op,
                             "%" PRId64 " positions of width %" PRId64
                             " are asked: at least one, of an even width of at least 2",
                             positions, width);
    if (!(base >= 0.0f) || isinf(base))
        return tfm__op_error(ctx, op, "base is %g: it must be positive, or 0 for 10000", (double)base);
    const int64_t dims[] = {positions, width / 2};
    if (tfm__op_output(ctx, op, cosines, TFM_F32, 2, dims) != TFM_OK ||
        tfm__op_output(ctx, op, sines, TFM_F32, 2, dims) != TFM_OK)
        return tfm_context_status(ctx);
    const double theta = base == 0.0f ? 10000.0 : (double)base;
    if (write_table(ctx, *cosines, theta, true) != TFM_OK || write_table(ctx, *sines, theta, false) != TFM_OK)
        return tfm_context_status(ctx);
    return TFM_OK;
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

/* Three heads of 70 columns, 66 of them rotated, at positions from 2 on. */
static void check(tfm__check *c) {
    const int64_t batch = 2, length = 5, heads = 3, width = 70, half = 33, first = 2;
    const bool interleaved = c->number != 0;
    float *x;
    tfm_tensor y = {0}, cosines = {0}, sines = {0}, tx = RANDOM_FLOATS(x, batch, length, heads * width);
    double *want = EXPECTED(batch * length * heads * width);
    tfm_rotary_tables(c->ctx, &cosines, &sines, first + length, 2 * half, 0);
    for (int64_t i = 0; tfm__check_ready(c) && i < batch * length * heads * width; i++) {
        const int64_t column = i % width, position = first + i / (heads * width) % length;
        const int64_t pair = interleaved ? column / 2 : column % half;
        const bool second = interleaved ? column % 2 : column >= half;
        const int64_t other = interleaved ? i ^ 1 : second ? i - half : i + half; /* width is even */
        const double angle = (double)position / pow(10000, (double)pair / (double)half);
        if (column >= 2 * half)
            want[i] = (double)x[i];
        else
            want[i] = (double)x[i] * cos(angle) + (second ? 1 : -1) * (double)x[other] * sin(angle);
    }
    tfm_rotary(c->ctx, &y, tx, cosines, sines,
               &(tfm_rotary_options){.heads = (int)heads, .interleaved = interleaved, .first = first});
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_rotary[] = {
    {"rotary", "split, partial", check, 0},
    {"rotary", "interleaved", check, 1},
    {0},
};
