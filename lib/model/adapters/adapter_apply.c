/* Adds adapters to the weights of a model. The parameters are visited twice, in the same order: with the names of the
 * stored file, and with those of Hugging Face, which adapters have; so adapters of GGUF files, of fused projections and
 * of interleaved heads find their rows. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/half.h"
#include "base/hub/hub.h"
#include "model/adapters/adapter.h"
#include "model/arch/multimodal.h"
#include "model/core/load.h"
#include "model/core/quantized_params.h"

/* A parameter in the stored file, and as Hugging Face stores it. */
typedef struct part {
    tfm__parameter from, hf;
    const tfm__stored_tensor *stored;
    char *name; /* of Hugging Face */
    bool table; /* of words, used in several places */
} part;

typedef struct job {
    const tfm__family *family;
    tfm__arch arch; /* with the ties of the file */
    tfm__weights *file;
    part *parts;
    size_t count, room;
    size_t next; /* part of the second visit */
    tfm__adapter adapter;
    double scale; /* of the caller */
    struct changed {
        const tfm__stored_tensor *stored;
        float *data;
        uint64_t identity;
    } * changed;
    size_t changed_count, changed_room;
} job;

/* ---- Parameters --------------------------------------------------------------------------------------- */

static tfm_status record_stored(void *user, const tfm__parameter *p, const tfm__stored_tensor *stored) {
    job *j = user;
    if (p->role == TFM__POSITIONS && p->kind == TFM__MATRIX) /* stored sinusoids are no parameters */
        return TFM_OK;
    const tfm_status status = tfm__grow(&j->parts, &j->room, j->count + 1, sizeof(*j->parts));
    if (status == TFM_OK)
        j->parts[j->count++] = (part){.from = *p, .stored = stored};
    return status;
}

/* Whether the output projection is an embedding table. */
static bool is_tied(const job *j) {
    return j->arch.tied_embeddings && !j->arch.headless;
}

/* Rows that are separate tensors stay without a name: adapters do not have them. */
static tfm_status record_name(void *user, const tfm__parameter *p) {
    job *j = user;
    const int rows = j->next < j->count ? j->parts[j->next].from.rows : 0;
    if (j->next + (size_t)(rows ? rows : 1) > j->count)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "adapters of the family %s are not supported", j->family->name);
    part *one = &j->parts[j->next];
    j->next += (size_t)(rows ? rows : 1);
    if (rows)
        return TFM_OK;
    one->hf = *p;
    one->table = p->role <= TFM__TARGET_EMBEDDING && (j->arch.shared_tables || is_tied(j));
    one->name = tfm__strdup(p->name);
    return one->name ? TFM_OK : TFM_ERROR_MEMORY;
}

/* The name without a prefix that saved models may lack, or with one of a multimodal model. */
static bool has_name(const tfm__family *family, const char *own, const char *name) {
    static const char *const NONE[] = {NULL};
    const char *const *prefixes = family->prefixes ? family->prefixes : NONE;
    if (strcmp(own, name) == 0)
        return true;
    for (const char *const *prefix = prefixes; *prefix; prefix++)
        if (strncmp(own, *prefix, strlen(*prefix)) == 0 && strcmp(own + strlen(*prefix), name) == 0)
            return true;
    for (const char *const *outer = tfm__multimodal_text_prefixes; *prefixes && *outer; outer++)
        if (strncmp(name, *outer, strlen(*outer)) == 0 && strncmp(own, *prefixes, strlen(*prefixes)) == 0 &&
            strcmp(own + strlen(*prefixes), name + strlen(*outer)) == 0)
            return true;
    return false;
}

/* A shared table has the names of all its roles. */
static bool is_of(const job *j, const part *p, const char *name) {
    if (!p->name)
        return false;
    const int last = is_tied(j) ? TFM__OUTPUT_PROJECTION : TFM__TARGET_EMBEDDING;
    for (int role = TFM__SHARED_EMBEDDING; p->table && role <= last; role++) {
        const char *own = tfm__role_naming(j->family, true, (tfm__role)role)->weight;
        if (own && has_name(j->family, own, name))
            return true;
    }
    return has_name(j->family, p->name, name);
}

/* ---- One tensor --------------------------------------------------------------------------------------- */

static tfm_status fail_shape(const job *j, const tfm__stored_tensor *t, const part *p) {
    const tfm__adapter_config *config = &j->adapter.config;
    char shape[64];
    if (p->hf.rank == 2)
        snprintf(shape, sizeof(shape), "%lld outputs and %lld inputs", (long long)p->hf.total,
                 (long long)p->hf.dims[1]);
    else
        snprintf(shape, sizeof(shape), "%lld values", (long long)p->hf.total);
    return tfm__fail(TFM_ERROR_FORMAT,
                     "%s: tensor %s does not fit %s, which has %s: use the adapter's base model%s%.200s", t->file,
                     t->name, p->name, shape, config->base ? ", " : "", config->base ? config->base : "");
}

/* The values of a stored tensor, in its layout. */
static tfm_status read_floats(float *out, const tfm__parameter *p, const tfm__stored_tensor *stored) {
    const size_t columns = p->rank == 2 ? (size_t)p->dims[1] : 1, rows = (size_t)p->total;
    const tfm__parameter whole = {
        .rank = p->rank, .dims = {p->total, p->dims[1]}, .total = p->total, .transposed = p->transposed};
    if (stored->dtype != TFM_I8) {
        tfm__stored_to_floats(out, stored, 0, stored->count, 1);
        return TFM_OK;
    }
    float *row = tfm__alloc(columns, sizeof(*row));
    for (size_t i = 0; row && i < rows; i++) {
        tfm__parameter_row(row, &whole, stored, (int64_t)i);
        for (size_t k = 0; k < columns; k++)
            out[p->transposed ? k * rows + i : i * columns + k] = row[k];
    }
    free(row);
    return row ? TFM_OK : TFM_ERROR_MEMORY;
}

/* The part's tensor as F32 that can be written. */
static tfm_status open_tensor(float **out, job *j, const part *p) {
    const tfm__stored_tensor *stored = p->stored;
    for (size_t i = 0; i < j->changed_count; i++)
        if (j->changed[i].stored == stored) {
            *out = j->changed[i].data;
            return TFM_OK;
        }
    if (stored->packed && p->hf.transposed)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: %s is packed, and the family %s has it transposed, so an adapter cannot change it: use "
                         "the original model",
                         stored->file, stored->name, j->family->name);
    tfm_status status = tfm__grow(&j->changed, &j->changed_room, j->changed_count + 1, sizeof(*j->changed));
    float *data = *out = status == TFM_OK ? tfm__alloc(stored->count, sizeof(*data)) : NULL;
    if (!data)
        return TFM_ERROR_MEMORY;
    j->changed[j->changed_count++] = (struct changed){stored, data, stored->identity};
    status = read_floats(data, &p->from, stored);
    tfm__weights_evict(j->file, stored);
    return status;
}

/* Sets a row of the stored tensor, or adds to it. */
static void write_row(float *out, const part *p, int64_t row, const float *values, bool add) {
    const size_t columns = p->hf.rank == 2 ? (size_t)p->hf.dims[1] : 1;
    const size_t step = p->from.transposed ? (size_t)p->from.total : 1;
    out += p->from.transposed ? (size_t)row : (size_t)row * columns;
    for (size_t k = 0; k < columns; k++)
        out[k * step] = add ? out[k * step] + values[k] : values[k];
}

/* The factors as floats: `b` (outputs, R), `a` (R, inputs). */
static tfm_status read_factors(float **a, float **b, const tfm__adapter_change *c) {
    const tfm__stored_tensor *in = c->embedding ? c->b : c->a, *out = c->embedding ? c->a : c->b;
    const size_t rank = (size_t)c->rank, inputs = in->count / rank, outputs = out->count / rank;
    *a = tfm__alloc(in->count, sizeof(**a));
    *b = tfm__alloc(out->count, sizeof(**b));
    for (size_t i = 0; *a && *b && i < rank; i++)
        tfm__stored_to_floats(*a + i * inputs, in, c->embedding ? i : i * inputs, inputs, c->embedding ? rank : 1);
    for (size_t i = 0; *a && *b && i < outputs; i++)
        tfm__stored_to_floats(*b + i * rank, out, c->embedding ? i : i * rank, rank, c->embedding ? outputs : 1);
    return *a && *b ? TFM_OK : TFM_ERROR_MEMORY;
}

static tfm_status add_product(job *j, const part *p, const tfm__adapter_change *c) {
    const int64_t columns = p->hf.dims[1], rows = p->hf.dims[0] - p->hf.zero_rows;
    float *a = NULL, *b = NULL, *data = NULL, *row = tfm__alloc((size_t)columns, sizeof(*row));
    tfm_status status = row ? read_factors(&a, &b, c) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = open_tensor(&data, j, p);
    for (int64_t i = 0; i < rows && status == TFM_OK; i++) {
        const float *left = b + tfm__parameter_stored_row(&p->hf, i) * c->rank;
        memset(row, 0, (size_t)columns * sizeof(*row));
        for (int r = 0; r < c->rank; r++) {
            const float factor = (float)(c->scale * j->scale * (double)left[r]);
            for (int64_t k = 0; k < columns; k++)
                row[k] += factor * a[r * columns + k];
        }
        write_row(data, p, tfm__parameter_stored_row(&p->from, i), row, true);
    }
    free(a);
    free(b);
    free(row);
    return status;
}

static tfm_status fail_table(const tfm__stored_tensor *t) {
    return tfm__fail(TFM_ERROR_UNSUPPORTED,
                     "%s: tensor %s changes a table that the base model uses in several places, for embeddings or for "
                     "the output projection, which is not supported: merge the adapter with peft",
                     t->file, t->name);
}

/* Replaces the tensor's rows. Adapters may have an unchanged copy of a shared table. */
static tfm_status replace(job *j, const part *p, const tfm__stored_tensor *whole) {
    const size_t columns = p->hf.rank == 2 ? (size_t)p->hf.dims[1] : 1;
    const int64_t rows = p->hf.dims[0] - p->hf.zero_rows;
    float *data = NULL, *row = tfm__alloc(columns, 2 * sizeof(*row));
    tfm_status status = !row ? TFM_ERROR_MEMORY : p->table ? TFM_OK : open_tensor(&data, j, p);
    for (int64_t i = 0; i < rows && status == TFM_OK; i++) {
        tfm__parameter_row(row, &p->hf, whole, i);
        for (size_t k = 0; k < columns; k++)
            row[k] += p->hf.offset - p->from.offset;
        if (!p->table) {
            write_row(data, p, tfm__parameter_stored_row(&p->from, i), row, false);
            continue;
        }
        tfm__parameter_row(row + columns, &p->from, p->stored, i);
        if (memcmp(row, row + columns, columns * sizeof(*row)) != 0)
            status = fail_table(whole);
    }
    free(row);
    return status;
}

/* Whether the shapes are those of the part: a vector, or a matrix as Hugging Face stores it. */
static bool fits(const part *p, const tfm__adapter_change *c) {
    const tfm__stored_tensor *w = c->whole;
    const int64_t rows = p->hf.total, columns = p->hf.dims[1];
    if (!w)
        return p->hf.rank == 2 && c->a->dims[1] == (c->embedding ? rows : columns) &&
               c->b->dims[0] == (c->embedding ? columns : rows);
    if (p->hf.rank == 1)
        return w->rank == 1 && w->dims[0] == rows;
    return w->rank == 2 && w->dims[p->hf.transposed] == rows && w->dims[!p->hf.transposed] == columns;
}

static tfm_status change_part(job *j, const part *p, tfm__adapter_change *c) {
    const tfm__stored_tensor *named = c->whole ? c->whole : c->a;
    c->used = true;
    if (!fits(p, c))
        return fail_shape(j, named, p);
    if (c->whole)
        return replace(j, p, c->whole);
    return p->table ? fail_table(named) : add_product(j, p, c);
}

/* ---- One adapter -------------------------------------------------------------------------------------- */

static tfm_status check_used(const job *j) {
    const tfm__adapter *x = &j->adapter;
    for (size_t i = 0; i < x->count; i++) {
        const tfm__stored_tensor *t = x->changes[i].whole ? x->changes[i].whole : x->changes[i].a;
        if (x->changes[i].used)
            continue;
        if (tfm__load_ignores(j->family, x->changes[i].name) ||
            (j->arch.multimodal && tfm__multimodal_ignores(j->arch.multimodal, x->changes[i].name))) {
            tfm__log(TFM_LOG_WARNING, "%s: tensor %s is ignored: the base model is used without %s", t->file, t->name,
                     x->changes[i].name);
            continue;
        }
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: tensor %s changes %s, which the base model does not have: use the adapter's base "
                         "model%s%.200s",
                         t->file, t->name, x->changes[i].name, x->config.base ? ", " : "",
                         x->config.base ? x->config.base : "");
    }
    return TFM_OK;
}

/* The identity of a changed tensor is that of the files and scales: models share buffers of equal tensors. */
static void mark(const job *j) {
    const struct {
        uint64_t file;
        double scale;
    } with = {tfm__weights_at(j->adapter.file, 0)->identity, j->scale};
    for (size_t i = 0; i < j->changed_count; i++)
        j->changed[i].identity = tfm__hash64(&with, sizeof(with), j->changed[i].identity);
}

static tfm_status apply(job *j, const tfm_adapter *adapter) {
    char *path = NULL;
    tfm_status status = tfm__hub_resolve(&path, adapter->dir);
    j->scale = adapter->scale == 0 ? 1 : adapter->scale;
    if (status == TFM_OK)
        status = tfm__adapter_open(&j->adapter, path);
    free(path);
    for (size_t i = 0; i < j->adapter.count && status == TFM_OK; i++)
        for (size_t k = 0; k < j->count && status == TFM_OK; k++)
            if (is_of(j, &j->parts[k], j->adapter.changes[i].name))
                status = change_part(j, &j->parts[k], &j->adapter.changes[i]);
    if (status == TFM_OK)
        status = check_used(j);
    if (status == TFM_OK)
        mark(j);
    tfm__adapter_free(&j->adapter);
    return status;
}

/* ---- The call ----------------------------------------------------------------------------------------- */

/* Rounds to the dtype that the tensor had, in place. */
static tfm_status round_values(const struct changed *c) {
    for (size_t i = 0; i < c->stored->count; i++) {
        const float value = c->data[i];
        const uint16_t half = tfm__float_to_half(value, c->stored->dtype);
        if (c->stored->dtype == TFM_F16 && isfinite(value) && !isfinite(tfm__half_to_float(half)))
            return tfm__fail(TFM_ERROR_FORMAT,
                             "%s: with the adapter, %s has a number as large as %g, above the fp16 maximum of 65504: "
                             "use a smaller scale",
                             c->stored->file, c->stored->name, (double)value);
        memcpy((unsigned char *)c->data + 2 * i, &half, sizeof(half));
    }
    return TFM_OK;
}

/* Puts a changed tensor into the weights, which then own its data. */
static tfm_status put(tfm__weights *file, struct changed *c, bool keep_dtype) {
    const bool half = keep_dtype && tfm_dtype_size(c->stored->dtype) == 2;
    tfm_status status = half ? round_values(c) : TFM_OK;
    if (status != TFM_OK)
        return status;
    tfm__stored_tensor changed = *c->stored; /* `scales` stay, to recognize their tensor */
    changed.dtype = half ? changed.dtype : TFM_F32;
    changed.dtype_name = tfm_dtype_name(changed.dtype);
    changed.blocks = NULL;
    changed.packed = NULL;
    changed.encoding = NULL;
    changed.unit = 0;
    changed.scale_group = 0;
    changed.identity = c->identity;
    changed.bytes = changed.count * tfm_dtype_size(changed.dtype);
    status = tfm__weights_put(file, c->stored, &changed, c->data);
    c->data = NULL;
    return status;
}

tfm_status tfm__adapters_apply(tfm__family_files *files, const tfm__family *family, const tfm__arch *arch,
                               const tfm_adapter *adapters, size_t count, bool keep_dtype) {
    tfm_status status = tfm__adapters_check(adapters, count);
    job *j = count > 0 && status == TFM_OK ? tfm__alloc(1, sizeof(*j)) : NULL;
    if (!j)
        return status == TFM_OK && count > 0 ? TFM_ERROR_MEMORY : status;
    j->family = family;
    j->arch = *arch;
    j->file = files->weights;
    status = tfm__model_map_parameters(files->stored ? files->stored : family, &j->arch, j->file, record_stored, j);
    if (status == TFM_OK)
        status = tfm__params_visit(family, &j->arch, NULL, record_name, j);
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        status = apply(j, &adapters[i]);
    for (size_t i = 0; i < j->changed_count && status == TFM_OK; i++)
        status = put(j->file, &j->changed[i], keep_dtype);
    for (size_t i = 0; i < j->changed_count; i++)
        free(j->changed[i].data);
    for (size_t i = 0; i < j->count; i++)
        free(j->parts[i].name);
    free(j->changed);
    free(j->parts);
    free(j);
    return status;
}
