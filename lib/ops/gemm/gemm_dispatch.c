/* Chooses the GEMM provider: by TFM_GEMM, by the table of `tfm tune`, or in the order of the device's tuning. The call
 * loop tries the next provider if one declines.
 *
 * Table rows: "gemm nt 6 9 9" is a times b transposed, with 64 to 127 rows and 512 to 1023 columns and inner dimension;
 * its value is a provider, optionally with a setting. "gemm f16 nt 6 9 9" is for a b stored as F16, as weights are, and
 * "gemm as bf16 nt 6 9 9" for fp32 operands that the GEMM may round to BF16, as training may. */
#include <stdio.h>
#include <string.h>
#include "ops/gemm/gemm.h"

const tfm__gemm_provider *const tfm__gemm_providers[TFM__GEMM_PROVIDERS] = {
    &tfm__gemm_cpu_skinny, &tfm__gemm_cpu_bf16,  &tfm__gemm_cpu_bf16x3, &tfm__gemm_cpu_packed, &tfm__gemm_gpu_skinny,
    &tfm__gemm_gpu_tiled,  &tfm__gemm_reference, &tfm__gemm_gpu_mma,    &tfm__gemm_clblast,    &tfm__gemm_int8};

const tfm__gemm_provider *tfm__gemm_find_provider(const char *name) {
    for (size_t i = 0; i < TFM__GEMM_PROVIDERS; i++)
        if (strcmp(tfm__gemm_providers[i]->name, name) == 0)
            return tfm__gemm_providers[i];
    return NULL;
}

/* A parsed row of the device's table. */
typedef struct tuning_entry {
    uint32_t class; /* of tasks: input dtype, transposes, and log2 (rounded down) of m, n and k */
    const tfm__gemm_provider *provider;
    tfm__gemm_setting setting;
} tuning_entry;

/* Values of TFM_GEMM. */
typedef enum mode { AUTO, CLBLAST, BUILTIN } mode;

/* A context's state. */
typedef struct state {
    mode mode;
    struct {
        const tfm__gemm_provider *provider;
        int64_t min_rows, min_macs;
    } order[TFM__GEMM_PREFERENCES]; /* resolved from the tuning's names */
    size_t order_count;
    tuning_entry *rows; /* [row_count] */
    size_t row_count;
} state;

/* Its address is the key of the context's state. */
static char SLOT;

/* ---- Table rows ---- */

static uint32_t floor_log2(int64_t x) {
    uint32_t o = 0;
    while (x >>= 1)
        o++;
    return o;
}

enum { SIZE_BITS = 6, SIZE_MASK = (1 << SIZE_BITS) - 1 };

/* Input dtypes of GEMMs as named in rows. Each has an index. */
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

/* TFM__COUNT(KINDS): none. */
static size_t kind_of(tfm_dtype stored, tfm_dtype inputs) {
    size_t kind = 0;
    while (kind < TFM__COUNT(KINDS) && (KINDS[kind].stored != stored || KINDS[kind].inputs != inputs))
        kind++;
    return kind;
}

/* 0 for tasks without rows: batches with several b, and empty sums. GEMMs without rounding share one row for all kinds
 * of b. */
static uint32_t class_of(const tfm__gemm_task *task, tfm_dtype inputs) {
    const size_t kind = inputs == TFM_F32 ? 0 : kind_of(task->b.dtype, inputs);
    return task->batch != 1 || task->m < 1 || task->n < 1 || task->k < 1 || kind == TFM__COUNT(KINDS)
               ? 0
               : class_from(kind, floor_log2(task->m), floor_log2(task->n), floor_log2(task->k), task->transpose_a,
                            task->transpose_b);
}

bool tfm__gemm_tuning_key(char name[TFM__TUNING_TEXT_MAX], const tfm__gemm_task *task, tfm_dtype inputs) {
    if (!class_of(task, inputs))
        return false;
    snprintf(name, TFM__TUNING_TEXT_MAX, "gemm %s%c%c %u %u %u",
             inputs == TFM_F32 ? "" : KINDS[kind_of(task->b.dtype, inputs)].name, task->transpose_a ? 't' : 'n',
             task->transpose_b ? 't' : 'n', floor_log2(task->m), floor_log2(task->n), floor_log2(task->k));
    return true;
}

/* The kind after "gemm " in a name; the sizes follow it. */
static const char *read_kind(size_t *kind, const char *text) {
    *kind = 0; /* the kind without a name */
    for (size_t i = 1; i < TFM__COUNT(KINDS); i++)
        if (strncmp(text, KINDS[i].name, strlen(KINDS[i].name)) == 0)
            *kind = i;
    return text + strlen(KINDS[*kind].name);
}

/* False for a row that is not about GEMM, or is invalid in this version. */
static bool read_row(tfm_context *ctx, tuning_entry *out, const tfm__tuning_entry *row) {
    static const char ABOUT[] = "gemm ";
    unsigned m, n, k;
    char a, b, provider[TFM__TUNING_TEXT_MAX];
    int end = 0, name_end = 0;
    size_t kind;
    if (strncmp(row->name, ABOUT, strlen(ABOUT)) != 0)
        return false;
    const char *name = read_kind(&kind, row->name + strlen(ABOUT));
    if (sscanf(name, "%c%c %2u %2u %2u%n", &a, &b, &m, &n, &k, &end) != 5 || name[end] || m > SIZE_MASK ||
        n > SIZE_MASK || k > SIZE_MASK || !strchr("nt", a) || !strchr("nt", b) ||
        sscanf(row->setting, "%47s %n", provider, &name_end) != 1)
        return false;
    *out = (tuning_entry){class_from(kind, m, n, k, a == 't', b == 't'), tfm__gemm_find_provider(provider), {0}};
    const char *setting = row->setting + name_end;
    return out->provider &&
           (!*setting || (out->provider->parse_setting && out->provider->parse_setting(ctx, &out->setting, setting)));
}

static int by_class(const void *x, const void *y) {
    const uint32_t a = ((const tuning_entry *)x)->class, b = ((const tuning_entry *)y)->class;
    return (a > b) - (a < b);
}

/* Reads the context's rows again, replacing the old ones. */
static tfm_status read_rows(tfm_context *ctx, state *s) {
    size_t count;
    const tfm__tuning_entry *rows = tfm__tuning_db_entries(ctx, &count);
    free(s->rows);
    s->row_count = 0;
    s->rows = count > 0 ? tfm__alloc(count, sizeof(*s->rows)) : NULL;
    if (count > 0 && !s->rows)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "%s", tfm_error_message());
    for (size_t i = 0; i < count; i++)
        s->row_count += read_row(ctx, &s->rows[s->row_count], &rows[i]);
    if (s->row_count > 0)
        qsort(s->rows, s->row_count, sizeof(*s->rows), by_class);
    return TFM_OK;
}

/* ---- State of a context ---- */

static tfm_status find_order(tfm_context *ctx, state *s) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    for (size_t i = 0; i < TFM__GEMM_PREFERENCES && tuning->gemm_order[i].provider; i++) {
        s->order[i].provider = tfm__gemm_find_provider(tuning->gemm_order[i].provider);
        s->order[i].min_rows = tuning->gemm_order[i].min_rows;
        s->order[i].min_macs = tuning->gemm_order[i].min_macs;
        if (!s->order[i].provider)
            return tfm__context_fail(ctx, TFM_ERROR_UNSUPPORTED,
                                     "gemm: the variant '%s' asks for a provider '%s', and there is none of that name",
                                     tuning->name, tuning->gemm_order[i].provider);
        s->order_count = i + 1;
    }
    return TFM_OK;
}

static void state_free(void *data) {
    state *s = data;
    free(s->rows);
    free(s);
}

/* Created at first use. NULL after a failure, such as an unknown provider name in the tuning. */
static state *state_of(tfm_context *ctx) {
    state *s = tfm__context_storage_get(ctx, &SLOT);
    if (s || tfm_context_status(ctx) != TFM_OK)
        return s;
    static const char *const names[] = {"auto", "clblast", "builtin"};
    const char *asked = getenv("TFM_GEMM");
    size_t at = 0;
    while (asked && *asked && at < TFM__COUNT(names) && strcmp(asked, names[at]) != 0)
        at++;
    if (at == TFM__COUNT(names)) {
        tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "TFM_GEMM is '%s': it takes auto, clblast or builtin", asked);
        return NULL;
    }
    s = tfm__alloc(1, sizeof(*s));
    if (!s) {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "gemm: out of host memory");
        return NULL;
    }
    s->mode = (mode)at;
    if (find_order(ctx, s) != TFM_OK || read_rows(ctx, s) != TFM_OK) {
        state_free(s);
        return NULL;
    }
    return tfm__context_storage_set(ctx, &SLOT, s, state_free) == TFM_OK ? s : NULL;
}

void tfm__gemm_reload_tuning(tfm_context *ctx) {
    state *s = state_of(ctx);
    if (s)
        read_rows(ctx, s);
}

/* The row of the task, or NULL. */
static const tuning_entry *find_row(const state *s, const tfm__gemm_task *task, tfm_dtype inputs) {
    const tuning_entry wanted = {.class = s->row_count > 0 ? class_of(task, inputs) : 0};
    return wanted.class ? bsearch(&wanted, s->rows, s->row_count, sizeof(wanted), by_class) : NULL;
}

tfm__gemm_setting tfm__gemm_setting_of(tfm_context *ctx, const tfm__gemm_provider *provider,
                                       const tfm__gemm_task *task) {
    const state *s = state_of(ctx);
    const tfm_dtype inputs = tfm__gemm_input_dtype(ctx, task);
    const tuning_entry *row = s ? find_row(s, task, inputs) : NULL;
    if (s && (!row || row->provider != provider) && inputs != TFM_F32) /* as in tfm__gemm_select */
        row = find_row(s, task, TFM_F32);
    return row && row->provider == provider ? row->setting : (tfm__gemm_setting){0};
}

/* The task with the setting of its row in force, if any. */
static const tfm__gemm_task *with_setting(tfm__gemm_task *own, tfm_context *ctx, const state *s,
                                          const tfm__gemm_provider *provider, const tfm__gemm_task *task) {
    if (!s || s->row_count == 0)
        return task;
    *own = *task;
    own->setting = tfm__gemm_setting_of(ctx, provider, task);
    return own;
}

/* ---- The choice ---- */

/* Why the provider declines the task, or NULL. */
static const char *decline_reason(tfm_context *ctx, const state *s, const tfm__gemm_provider *provider,
                                  const tfm__gemm_task *task) {
    tfm__gemm_task own;
    if ((task->b.dtype == TFM_I8) != provider->int8)
        return provider->int8 ? "it is for int8 weights" : "it does not multiply by int8 weights";
    return provider->declines(ctx, with_setting(&own, ctx, s, provider, task));
}

const char *tfm__gemm_declines(tfm_context *ctx, const tfm__gemm_provider *provider, const tfm__gemm_task *task) {
    return decline_reason(ctx, state_of(ctx), provider, task);
}

/* The first provider of the tuning's order that accepts the task, or NULL. */
static const tfm__gemm_provider *first_in_order(tfm_context *ctx, const state *s, const tfm__gemm_task *task) {
    const double pairs = (double)task->m * (double)task->n * (double)task->k;
    for (size_t i = 0; i < s->order_count; i++) {
        const tfm__gemm_provider *provider = s->order[i].provider;
        if (task->m >= s->order[i].min_rows && pairs >= (double)s->order[i].min_macs &&
            (s->mode != BUILTIN || !provider->external) && !decline_reason(ctx, s, provider, task))
            return provider;
    }
    return NULL;
}

static bool rounds(const tfm__gemm_provider *provider) {
    return provider == &tfm__gemm_gpu_mma || provider == &tfm__gemm_cpu_bf16;
}

static bool row_applies(tfm_context *ctx, const state *s, const tuning_entry *row, const tfm__gemm_task *task) {
    return row && (s->mode != BUILTIN || !row->provider->external) && !decline_reason(ctx, s, row->provider, task);
}

const tfm__gemm_provider *tfm__gemm_select(tfm_context *ctx, const tfm__gemm_task *task) {
    const state *s = state_of(ctx);
    if (!s)
        return NULL;
    if (task->b.dtype == TFM_I8)
        return &tfm__gemm_int8;
    if (s->mode == CLBLAST && !decline_reason(ctx, s, &tfm__gemm_clblast, task))
        return &tfm__gemm_clblast;
    const tfm_dtype inputs = tfm__gemm_input_dtype(ctx, task);
    const tuning_entry *row = find_row(s, task, inputs);
    if (row_applies(ctx, s, row, task))
        return row->provider;
    const tfm__gemm_provider *first = first_in_order(ctx, s, task);
    if (inputs != TFM_F32 && !rounds(first)) {
        /* Then the validation of GEMMs without rounding covers this one. */
        row = find_row(s, task, TFM_F32);
        if (row_applies(ctx, s, row, task))
            return row->provider;
    }
    return first ? first : &tfm__gemm_reference;
}

const char *tfm__gemm_half_declines(tfm_context *ctx, tfm_dtype inputs) {
    const int64_t many = 4096; /* rows and columns; providers that take only a few of them do not matter */
    const tfm__gemm_task task = {.batch = 1, .m = many, .n = many, .k = many, .shared_b = true, .alpha = 1};
    const state *s = state_of(ctx);
    const tfm_dtype before = tfm__context_set_gemm_input_dtype(ctx, inputs);
    const char *why = NULL;
    /* By the device's heuristic: a `tfm tune` table may prefer other providers, but uses matrix cores elsewhere. */
    const bool asked = s && s->mode == CLBLAST && !decline_reason(ctx, s, &tfm__gemm_clblast, &task);
    if (s && (asked || !rounds(first_in_order(ctx, s, &task)))) {
        const tfm__gemm_provider *own =
            tfm__context_tuning(ctx)->class == TFM__CLASS_CPU ? &tfm__gemm_cpu_bf16 : &tfm__gemm_gpu_mma;
        why = asked ? "the environment variable TFM_GEMM asks for CLBlast" : tfm__gemm_declines(ctx, own, &task);
        why = why ? why : "this kind of device uses none for GEMM";
    }
    tfm__context_set_gemm_input_dtype(ctx, before);
    return why;
}

/* ---- The call ---- */

/* A failure that leaves the context good is CLBlast's; it is reported if TFM_GEMM selects CLBlast. */
static void fail_requested(tfm_context *ctx, const state *s, tfm_status status) {
    if (s->mode == CLBLAST && status != TFM__GEMM_DECLINED)
        tfm__context_fail(ctx, status, "%s: set TFM_GEMM=builtin%s", tfm_error_message(),
                          status == TFM_ERROR_MEMORY ? " or use a smaller batch" : "");
}

tfm_status tfm__gemm_dispatch(tfm_context *ctx, const tfm__gemm_provider *provider, const tfm__gemm_task *task) {
    state *s = tfm_context_status(ctx) == TFM_OK ? state_of(ctx) : NULL; /* a may be empty after a failure */
    tfm__gemm_task own;
    if (s && !provider)
        provider = tfm__gemm_select(ctx, task);
    while (s && provider) {
        char saved_message[TFM__MESSAGE_MAX];
        if (provider->external)
            tfm__error_save(saved_message);
        const tfm_status status = provider->multiply(ctx, with_setting(&own, ctx, s, provider, task));
        if (status == TFM_OK || tfm_context_status(ctx) != TFM_OK)
            return status;
        fail_requested(ctx, s, status);
        if (provider->external && tfm_context_status(ctx) == TFM_OK)
            tfm__error_restore(saved_message);  /* the failure is handled */
        provider = tfm__gemm_select(ctx, task); /* the failed provider declines from now on */
    }
    return tfm_context_status(ctx);
}

bool tfm__gemm_uses_setting(tfm_context *ctx, const tfm__gemm_provider *provider, const tfm__gemm_task *task) {
    tfm__gemm_task own;
    return !provider->uses_setting ||
           provider->uses_setting(ctx, with_setting(&own, ctx, state_of(ctx), provider, task));
}

uint64_t tfm__gemm_memory(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__gemm_provider *provider = tfm__gemm_select(ctx, task);
    tfm__gemm_task own;
    if (!provider)
        return 0;
    return provider->memory ? provider->memory(ctx, with_setting(&own, ctx, state_of(ctx), provider, task)) : 0;
}
