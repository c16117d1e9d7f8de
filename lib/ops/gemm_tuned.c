/* The rows of the device's table that are about products: "gemm nt 6 9 9" is a times b transposed, of 64 to 127 rows,
 * and 512 to 1023 columns and inner numbers; its setting is a provider, and perhaps what that is told. "gemm f16 nt 6 9
 * 9" is of a b that is kept in F16, as weights are, and "gemm as bf16 nt 6 9 9" of floats that the product may round to
 * BF16, as training may. */
#include <stdio.h>
#include <string.h>
#include "ops/gemm.h"

static uint32_t octave(int64_t x) {
    uint32_t o = 0;
    while (x >>= 1)
        o++;
    return o;
}

enum { SIZE_BITS = 6, SIZE_MASK = (1 << SIZE_BITS) - 1 };

/* What products read, as names say it. Classes have their places. */
static const struct {
    const char *name;
    tfm_dtype stored, inputs;
} KINDS[] = {{"", TFM_F32, TFM_F32},
             {"f16 ", TFM_F16, TFM_F16},
             {"bf16 ", TFM_BF16, TFM_BF16},
             {"as f16 ", TFM_F32, TFM_F16},
             {"as bf16 ", TFM_F32, TFM_BF16}};

static uint32_t class_from(size_t kind, uint32_t m, uint32_t n, uint32_t k, bool transpose_a, bool transpose_b) {
    return 1U << 31 | (uint32_t)kind << (2 + 3 * SIZE_BITS) | m << (2 + 2 * SIZE_BITS) | n << (2 + SIZE_BITS) | k << 2 |
           (uint32_t)transpose_a << 1 | (uint32_t)transpose_b;
}

/* Of TFM__COUNT(KINDS): none. */
static size_t kind_of(tfm_dtype stored, tfm_dtype inputs) {
    size_t kind = 0;
    while (kind < TFM__COUNT(KINDS) && (KINDS[kind].stored != stored || KINDS[kind].inputs != inputs))
        kind++;
    return kind;
}

/* 0 for what no rows are for: batches of products with a b each, and what has nothing to add up. The row of products
 * that round nothing is for all kinds of b. */
static uint32_t class_of(const tfm__gemm_task *task, tfm_dtype inputs) {
    const size_t kind = inputs == TFM_F32 ? 0 : kind_of(task->b.dtype, inputs);
    return task->batch != 1 || task->m < 1 || task->n < 1 || task->k < 1 || kind == TFM__COUNT(KINDS)
               ? 0
               : class_from(kind, octave(task->m), octave(task->n), octave(task->k), task->transpose_a,
                            task->transpose_b);
}

bool tfm__gemm_row_name(char name[TFM__TUNED_TEXT], const tfm__gemm_task *task, tfm_dtype inputs) {
    if (!class_of(task, inputs))
        return false;
    snprintf(name, TFM__TUNED_TEXT, "gemm %s%c%c %u %u %u",
             inputs == TFM_F32 ? "" : KINDS[kind_of(task->b.dtype, inputs)].name, task->transpose_a ? 't' : 'n',
             task->transpose_b ? 't' : 'n', octave(task->m), octave(task->n), octave(task->k));
    return true;
}

/* The kind that comes after "gemm " in a name, whose sizes are after that. */
static const char *read_kind(size_t *kind, const char *text) {
    *kind = 0; /* the one without a name */
    for (size_t i = 1; i < TFM__COUNT(KINDS); i++)
        if (strncmp(text, KINDS[i].name, strlen(KINDS[i].name)) == 0)
            *kind = i;
    return text + strlen(KINDS[*kind].name);
}

/* False for a row that is not about products, or that means nothing to this version. */
static bool read_row(tfm_context *ctx, tfm__gemm_row *out, const tfm__tuned_row *row) {
    static const char ABOUT[] = "gemm ";
    unsigned m, n, k;
    char a, b, provider[TFM__TUNED_TEXT];
    int end = 0, name_end = 0;
    size_t kind;
    if (strncmp(row->name, ABOUT, strlen(ABOUT)) != 0)
        return false;
    const char *name = read_kind(&kind, row->name + strlen(ABOUT));
    if (sscanf(name, "%c%c %2u %2u %2u%n", &a, &b, &m, &n, &k, &end) != 5 || name[end] || m > SIZE_MASK ||
        n > SIZE_MASK || k > SIZE_MASK || !strchr("nt", a) || !strchr("nt", b) ||
        sscanf(row->setting, "%47s %n", provider, &name_end) != 1)
        return false;
    *out = (tfm__gemm_row){class_from(kind, m, n, k, a == 't', b == 't'), tfm__gemm_named(provider), {0}};
    const char *setting = row->setting + name_end;
    return out->provider &&
           (!*setting || (out->provider->read_setting && out->provider->read_setting(ctx, &out->setting, setting)));
}

static int by_class(const void *x, const void *y) {
    const uint32_t a = ((const tfm__gemm_row *)x)->class, b = ((const tfm__gemm_row *)y)->class;
    return (a > b) - (a < b);
}

tfm_status tfm__gemm_read_rows(tfm_context *ctx, tfm__gemm_state *state) {
    size_t count;
    const tfm__tuned_row *rows = tfm__tuned_rows(ctx, &count);
    free(state->rows);
    state->row_count = 0;
    state->rows = count > 0 ? tfm__alloc(count, sizeof(*state->rows)) : NULL;
    if (count > 0 && !state->rows)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "%s", tfm_error_message());
    for (size_t i = 0; i < count; i++)
        state->row_count += read_row(ctx, &state->rows[state->row_count], &rows[i]);
    if (state->row_count > 0)
        qsort(state->rows, state->row_count, sizeof(*state->rows), by_class);
    return TFM_OK;
}

void tfm__gemm_tuned_again(tfm_context *ctx) {
    tfm__gemm_state *state = tfm__gemm_state_of(ctx);
    if (state)
        tfm__gemm_read_rows(ctx, state);
}

const tfm__gemm_row *tfm__gemm_tuned(const tfm__gemm_state *state, const tfm__gemm_task *task, tfm_dtype inputs) {
    const tfm__gemm_row wanted = {.class = state && state->row_count > 0 ? class_of(task, inputs) : 0};
    return wanted.class ? bsearch(&wanted, state->rows, state->row_count, sizeof(wanted), by_class) : NULL;
}

tfm__gemm_setting tfm__gemm_setting_of(tfm_context *ctx, const tfm__gemm_provider *provider,
                                       const tfm__gemm_task *task) {
    const tfm__gemm_state *state = tfm__gemm_state_of(ctx);
    const tfm_dtype inputs = tfm__gemm_inputs(ctx, task);
    const tfm__gemm_row *row = tfm__gemm_tuned(state, task, inputs);
    if ((!row || row->provider != provider) && inputs != TFM_F32) /* as tfm__gemm_choose goes on */
        row = tfm__gemm_tuned(state, task, TFM_F32);
    return row && row->provider == provider ? row->setting : (tfm__gemm_setting){0};
}
