/* From stored tensors to a model's parameters: each finds its place, none is left over in silence. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "model/byte_weights.h"
#include "model/model.h"

typedef struct loader {
    const tfm__family *family;
    tfm__arch *arch;
    const tfm__weights *file;
    tfm_model *model;                       /* NULL: places are looked for, and nothing is put there */
    const tfm__stored *tables[TFM__TABLES]; /* source, target, output */
    const tfm__stored **used;               /* [count of the file] */
    size_t used_count;
    struct offer {
        tfm_tensor x;
        tfm__shared_key key;
    } * offers; /* what others may share, once the device has all of it */
    size_t offer_count, offer_room;
    uint64_t parameters, bytes; /* and what they take on the device */
    tfm_precision precision;
    tfm__place_fn see; /* is shown what is found, or NULL */
    void *user;
    tfm_status status;
} loader;

/* ---- One tensor ---- */

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), size = strlen(end);
    return length >= size && strcmp(text + length - size, end) == 0;
}

/* The name of a tensor that the file has under a spelling of old, or NULL. */
static const char *old_spelling(const loader *l, const char *name) {
    static const char *const NONE[] = {NULL};
    char text[256];
    for (const char *const *pair = l->family->respelled ? l->family->respelled : NONE; *pair; pair += 2) {
        if (!ends_with(name, pair[0]))
            continue;
        snprintf(text, sizeof(text), "%.*s%s", (int)(strlen(name) - strlen(pair[0])), name, pair[1]);
        const tfm__stored *stored = tfm__weights_find(l->file, text);
        if (stored)
            return stored->name;
    }
    return NULL;
}

/* The name as the file has it: in that of a model saved without its head, the prefix in front is missing; and words in
 * it were others once. */
static const char *stored_name(const loader *l, const char *name) {
    static const char *const NONE[] = {NULL};
    if (tfm__weights_find(l->file, name))
        return name;
    if (old_spelling(l, name))
        return old_spelling(l, name);
    for (const char *const *prefix = l->family->prefixes ? l->family->prefixes : NONE; *prefix; prefix++) {
        const size_t length = strlen(*prefix);
        if (strncmp(name, *prefix, length) == 0 && tfm__weights_find(l->file, name + length))
            return name + length;
        if (strncmp(name, *prefix, length) == 0 && old_spelling(l, name + length))
            return old_spelling(l, name + length);
    }
    return name;
}

static const tfm__stored *find(const loader *l, const char *name) {
    return tfm__weights_find(l->file, stored_name(l, name));
}

static bool is_used(const loader *l, const tfm__stored *stored) {
    for (size_t i = 0; i < l->used_count; i++)
        if (l->used[i] == stored)
            return true;
    return false;
}

static void use(loader *l, const tfm__stored *stored) {
    if (!is_used(l, stored))
        l->used[l->used_count++] = stored;
}

/* What tells this parameter from all others: its tensor's file and name, and which part of that it is, how it is
 * turned, and what is added. `form` is 0 where it is F32 on the device, 1 for bytes, 2 for their scales, 3 for F16 and
 * 4 for BF16. */
static tfm__shared_key key_of(const tfm__stored *stored, const tfm__parameter *p, int form) {
    const int64_t part[] = {p->first, p->transposed, (int64_t)(1024 * p->added), p->zeros + ((int64_t)form << 48),
                            p->run};
    const size_t bytes = strlen(stored->name);
    const uint64_t file = tfm__hash64(part, sizeof(part), stored->identity);
    return (tfm__shared_key){tfm__hash64(stored->name, bytes, file), tfm__hash64(stored->name, bytes, ~file)};
}

/* The numbers at `data` in the dtype of `out`: they are sent as they are and cast there. */
static tfm_status upload(tfm_context *ctx, tfm_tensor out, tfm_dtype dtype, const void *data) {
    if (dtype == out.dtype)
        return tfm_tensor_write(ctx, out, data);
    const int depth = tfm__scope_depth(ctx);
    do {
        tfm_tensor raw = {0};
        tfm_scope_open(ctx);
        tfm_tensor_new(ctx, &raw, dtype, out.rank, out.dims);
        tfm_tensor_write(ctx, raw, data);
        tfm_cast(ctx, &out, raw, out.dtype);
        tfm_scope_close(ctx, 0, NULL);
    } while (tfm__context_again(ctx, depth, tfm_context_status(ctx)));
    return tfm_context_status(ctx);
}

/* Columns `first` on of a matrix that is stored (inputs, outputs), as rows. */
static unsigned char *turned(const tfm__stored *stored, const tfm__parameter *p) {
    const size_t size = tfm_dtype_size(stored->dtype), rows = (size_t)p->dims[0], columns = (size_t)p->dims[1];
    unsigned char *out = tfm__alloc(rows * columns, size);
    for (size_t i = 0; out && i < rows; i++)
        for (size_t k = 0; k < columns; k++)
            memcpy(out + (i * columns + k) * size, stored->data + (k * (size_t)p->total + (size_t)p->first + i) * size,
                   size);
    return out;
}

/* The rows of a parameter that lie in pieces, one for each head. */
static unsigned char *gathered(const tfm__stored *stored, const tfm__parameter *p) {
    const size_t row = tfm_dtype_size(stored->dtype) * (p->rank == 2 ? (size_t)p->dims[1] : 1);
    const size_t run = (size_t)p->run, pieces = (size_t)p->dims[0] / run;
    unsigned char *out = tfm__alloc((size_t)p->dims[0], row);
    for (size_t i = 0; out && i < pieces; i++)
        memcpy(out + i * run * row, stored->data + (i * (size_t)p->step + (size_t)p->first) * row, run * row);
    return out;
}

/* Adds what the file leaves out, such as the 1 of gammas that are stored as what they differ from it. */
static tfm_status add_constant(tfm_context *ctx, tfm_tensor x, float constant) {
    tfm_tensor addend = {0};
    if (constant == 0)
        return tfm_context_status(ctx);
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &addend, TFM_F32, 1, &(int64_t){1});
    tfm__tensor_fill(ctx, addend, &constant);
    tfm_add(ctx, &x, x, addend);
    return tfm_scope_close(ctx, 0, NULL);
}

static void offer(loader *l, tfm_tensor x, tfm__shared_key key) {
    /* Without host memory for the entry it is not shared. */
    if (tfm__grow(&l->offers, &l->offer_room, l->offer_count + 1, sizeof(*l->offers)) == TFM_OK)
        l->offers[l->offer_count++] = (struct offer){x, key};
}

/* What the parameter is on the device. */
static tfm_dtype dtype_of(const loader *l, const tfm__parameter *p, const tfm__stored *stored) {
    static const tfm_dtype small[] = {
        [TFM_PRECISION_INT8] = TFM_I8, [TFM_PRECISION_FP16] = TFM_F16, [TFM_PRECISION_BF16] = TFM_BF16};
    if (!tfm__may_be_bytes(p) || l->precision == TFM_PRECISION_FP32)
        return TFM_F32;
    if (l->precision == TFM_PRECISION_STORED)
        return stored->dtype == TFM_I8 ? TFM_I8 : TFM_F32;
    return small[l->precision];
}

static tfm_status put_bytes(loader *l, const tfm__parameter *p, const tfm__stored *stored) {
    tfm_context *ctx = l->model->ctx;
    const tfm__shared_key key = key_of(stored, p, 1), scales_key = key_of(stored, p, 2);
    l->model->small = "bytes";
    if (tfm__tensor_share(ctx, &p->param->value, key, TFM_I8, 2, p->dims) &&
        tfm__tensor_share(ctx, &p->param->scales, scales_key, TFM_F32, 1, p->dims))
        return TFM_OK;
    tfm_param_free(ctx, p->param);
    if (tfm__tensor_new_lasting(ctx, &p->param->value, TFM_I8, 2, p->dims) != TFM_OK ||
        tfm__tensor_new_lasting(ctx, &p->param->scales, TFM_F32, 1, p->dims) != TFM_OK)
        return tfm_context_status(ctx);
    const tfm_status status = tfm__bytes_load(ctx, p, stored);
    if (status == TFM_OK) {
        offer(l, p->param->value, key);
        offer(l, p->param->scales, scales_key);
    }
    return status;
}

/* Where the file has the numbers as they are used, and the device's memory is the host's, they are read from there. */
static bool put_on_file(loader *l, const tfm__parameter *p, const tfm__stored *stored, tfm_dtype dtype) {
    const size_t columns = p->rank == 2 ? (size_t)p->dims[1] : 1;
    uint64_t first;
    if (stored->dtype != dtype || p->transposed || p->run || p->zeros > 0 || p->added != 0 || p->rank > 2 ||
        !tfm__weights_place(&first, l->file, stored))
        return false;
    return tfm__tensor_on_file(l->model->ctx, &p->param->value, stored->file, stored->identity,
                               first + (uint64_t)p->first * columns * tfm_dtype_size(dtype), dtype, p->rank, p->dims);
}

/* Where a model on the same device has the parameter already, it is shared: nobody writes parameters but a trainer,
 * which makes copies of its own. */
static tfm_status put(loader *l, const tfm__parameter *p, const tfm__stored *stored) {
    tfm_context *ctx = l->model->ctx;
    const size_t columns = p->rank == 2 ? (size_t)p->dims[1] : 1;
    const tfm_dtype dtype = dtype_of(l, p, stored);
    if (dtype == TFM_I8)
        return put_bytes(l, p, stored);
    const bool half = dtype != TFM_F32;
    const tfm__shared_key key = key_of(stored, p, !half ? 0 : dtype == TFM_F16 ? 3 : 4);
    if (half)
        l->model->small = dtype == TFM_F16 ? "fp16" : "bf16";
    if (tfm__tensor_share(ctx, &p->param->value, key, dtype, p->rank, p->dims))
        return TFM_OK;
    if (put_on_file(l, p, stored, dtype) || tfm_context_status(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    const tfm_status fits = dtype == TFM_F16 && stored->dtype != TFM_F16 ? tfm__check_halves(p, stored) : TFM_OK;
    if (fits != TFM_OK)
        return fits;
    if (tfm__tensor_new_lasting(ctx, &p->param->value, dtype, p->rank, p->dims) != TFM_OK)
        return tfm_context_status(ctx);
    if (stored->dtype == TFM_I8) {
        float *all = tfm__parameter_floats(p, stored);
        const tfm_status status = all ? upload(ctx, p->param->value, TFM_F32, all) : TFM_ERROR_MEMORY;
        free(all);
        if (status == TFM_OK)
            offer(l, p->param->value, key);
        return status;
    }
    unsigned char *copy = p->transposed ? turned(stored, p) : p->run ? gathered(stored, p) : NULL;
    if ((p->transposed || p->run) && !copy)
        return TFM_ERROR_MEMORY;
    tfm_tensor from_file = p->param->value;
    if (p->zeros > 0) {
        const float zero = 0;
        tfm__tensor_fill(ctx, p->param->value, &zero);
        tfm_tensor_rows(ctx, &from_file, p->param->value, 0, p->dims[0] - p->zeros);
    }
    upload(ctx, from_file, stored->dtype,
           copy ? copy : stored->data + (size_t)p->first * columns * tfm_dtype_size(stored->dtype));
    free(copy);
    add_constant(ctx, p->param->value, p->added);
    offer(l, p->param->value, key);
    return tfm_context_status(ctx);
}

static tfm_status offer_all(const loader *l) {
    if (l->offer_count == 0)
        return TFM_OK;
    const tfm_status status = tfm_context_finish(l->model->ctx);
    for (size_t i = 0; i < l->offer_count && status == TFM_OK; i++)
        tfm__tensor_offer(l->model->ctx, l->offers[i].x, l->offers[i].key);
    return status;
}

static const tfm__stored *table_of(const loader *l, tfm__role role) {
    return role == TFM__TARGET_TABLE ? l->tables[1] : role == TFM__OUTPUT_TABLE ? l->tables[2] : l->tables[0];
}

/* Bytes are taken where a parameter may be that, with a scale for each of its outputs. */
static tfm_status check_bytes(const tfm__parameter *p, const tfm__stored *stored) {
    if (stored->dtype != TFM_I8)
        return TFM_OK;
    if (!tfm__may_be_bytes(p))
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: tensor %s is of bytes, which only matrices of layers and tables of "
                         "words may be",
                         stored->file, stored->name);
    if (stored->scale_count != (size_t)p->total)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s has %zu scales, and %lld outputs", stored->file, stored->name,
                         stored->scale_count, (long long)p->total);
    return TFM_OK;
}

static tfm_status load_parameter(void *user, const tfm__parameter *p) {
    loader *l = user;
    const tfm__stored *stored;
    const bool is_words = p->kind == TFM__TABLE && p->role <= TFM__OUTPUT_TABLE;
    const char *name = is_words ? table_of(l, p->role)->name : stored_name(l, p->name);
    const int64_t rows = p->total, columns = p->dims[1];
    const int64_t dims[] = {p->transposed ? columns : rows, p->transposed ? rows : columns};
    const bool row = p->rank == 1 && l->family->row_vectors;
    tfm_status status = tfm__weights_get(l->file, &stored, name, row ? 2 : p->rank, row ? (int64_t[]){1, rows} : dims);
    if (status == TFM_OK)
        status = check_bytes(p, stored);
    if (status == TFM_OK && l->model)
        status = put(l, p, stored);
    if (status == TFM_OK && l->model)
        tfm__weights_leave(l->file, stored); /* it has been copied, or has a map of its own */
    if (status == TFM_OK && l->see)
        status = l->see(l->user, p, stored);
    const bool again = status == TFM_OK && is_used(l, stored) && p->total == p->dims[0]; /* two share all of it */
    if (status == TFM_OK) {
        const uint64_t count = (uint64_t)((p->dims[0] - p->zeros) * (p->rank == 2 ? p->dims[1] : 1));
        l->parameters += again ? 0 : count;
        const tfm_dtype dtype = dtype_of(l, p, stored);
        l->bytes += tfm_dtype_size(dtype) * count; /* each has its own */
        l->bytes += dtype == TFM_I8 ? 4 * (uint64_t)p->dims[0] : 0;
        use(l, stored);
    }
    return status;
}

/* ---- Tables ---- */

/* Who may stand in for whom where a role's own name is missing, by the ties that the configuration tells of, in the
 * order in which transformers looks. Checkpoints of different ages hold any subset of the names of a tied table. The
 * second order is that of families whose files alone say whether the output has a table of its own. */
static const struct {
    tfm__role role;
    bool shared, tied; /* needs these flags */
} STAND_INS[2][TFM__TABLES][6] = {
    {{{TFM__SOURCE_TABLE, 0, 0}, {TFM__SHARED_TABLE, 0, 0}, {TFM__OUTPUT_TABLE, 1, 1}, {TFM__TARGET_TABLE, 1, 0}},
     {{TFM__TARGET_TABLE, 0, 0}, {TFM__SHARED_TABLE, 0, 0}, {TFM__OUTPUT_TABLE, 0, 1}, {TFM__SOURCE_TABLE, 1, 0}},
     {{TFM__OUTPUT_TABLE, 0, 0},
      {TFM__SHARED_TABLE, 1, 1},
      {TFM__TARGET_TABLE, 0, 1},
      {TFM__SHARED_TABLE, 0, 1},
      {TFM__SOURCE_TABLE, 1, 1}}},
    {{{TFM__SOURCE_TABLE, 0, 0}, {TFM__SHARED_TABLE, 0, 0}, {TFM__TARGET_TABLE, 0, 0}, {TFM__OUTPUT_TABLE, 0, 0}},
     {{TFM__TARGET_TABLE, 0, 0}, {TFM__SHARED_TABLE, 0, 0}, {TFM__SOURCE_TABLE, 0, 0}, {TFM__OUTPUT_TABLE, 0, 0}},
     {{TFM__OUTPUT_TABLE, 0, 0}, {TFM__SHARED_TABLE, 0, 0}, {TFM__SOURCE_TABLE, 0, 0}, {TFM__TARGET_TABLE, 0, 0}}},
};

static const char *table_name(const loader *l, tfm__role role) {
    return tfm__role_naming(l->family, true, role)->weight;
}

static const tfm__stored *find_table(const loader *l, int role) {
    /* Where there is one stack, it is its own other. */
    const bool shared = l->arch->shared_tables || l->arch->encoder.layers == 0 || l->arch->decoder.layers == 0;
    const int order = l->family->output_by_file;
    for (size_t i = 0; STAND_INS[order][role][i].role != TFM__NO_ROLE; i++) {
        const tfm__role name = STAND_INS[order][role][i].role;
        const bool allowed =
            (shared || !STAND_INS[order][role][i].shared) && (l->arch->tied_output || !STAND_INS[order][role][i].tied);
        if (!table_name(l, name) || !allowed)
            continue;
        const tfm__stored *stored = find(l, table_name(l, name));
        if (stored)
            return stored;
    }
    tfm__fail(TFM_ERROR_FORMAT, "%s: %s is missing%s", tfm__weights_at(l->file, 0)->file,
              table_name(l, STAND_INS[order][role][0].role),
              role == 2 && !l->arch->tied_output ? "" : ", and so are its aliases");
    return NULL;
}

/* Whether two stored tensors are one: the same, or copies. */
static bool equal(const tfm__stored *a, const tfm__stored *b) {
    bool same = a->usable && b->usable && a->dtype == b->dtype && a->rank == b->rank && a->bytes == b->bytes;
    for (int i = 0; same && i < a->rank; i++)
        same = a->dims[i] == b->dims[i];
    return a == b || (same && memcmp(a->data, b->data, a->bytes) == 0);
}

/* Whether two roles have one table. Where the configuration says so and the file has two that differ, the file counts,
 * as it does in transformers. */
static bool one_table(const loader *l, int a, int b, bool tied) {
    const tfm__stored *x = l->tables[a], *y = l->tables[b];
    if (x == y || (tied && equal(x, y)))
        return true;
    if (tied && !(a == 2 && l->family->output_by_file))
        tfm__log(TFM_LOG_WARNING,
                 "%s: %s and %s are one table by config.json, and differ: each is used where its name says", x->file,
                 x->name, y->name);
    return false;
}

/* A model has those tables that its parts need. Of one that only encodes, the output projection belongs to the
 * encoder. */
static void find_tables(loader *l) {
    const bool encodes = l->arch->encoder.layers > 0, decodes = l->arch->decoder.layers > 0;
    const bool wanted[TFM__TABLES] = {encodes, decodes, !l->arch->headless};
    for (int role = 0; role < TFM__TABLES && l->status == TFM_OK; role++)
        if (wanted[role] && !(l->tables[role] = find_table(l, role)))
            l->status = TFM_ERROR_FORMAT;
    if (l->status != TFM_OK)
        return;
    if (encodes && decodes)
        l->arch->shared_tables = one_table(l, 0, 1, l->arch->shared_tables && l->arch->tied_output) ||
                                 (l->arch->shared_tables && equal(l->tables[0], l->tables[1]));
    if (!l->arch->headless)
        l->arch->tied_output = one_table(l, 2, decodes ? 1 : 0, l->arch->tied_output);
    /* One table for both sides has one size. */
    if (l->arch->shared_tables && l->arch->encoder.vocabulary != l->arch->decoder.vocabulary)
        l->status = tfm__fail(
            TFM_ERROR_FORMAT, "%s: %s has %lld rows and serves as a table of %d: the configuration says otherwise",
            l->tables[1]->file, l->tables[1]->name, (long long)l->tables[1]->dims[0], l->arch->decoder.vocabulary);
    if (l->model) {
        l->model->arch = *l->arch;
        tfm__model_set_tables(l->model);
    }
}

/* ---- Positions and biases ---- */

static tfm_status compute_positions(loader *l, tfm_tensor *out, const tfm__stack_arch *arch) {
    if (!l->model)
        return TFM_OK;
    tfm_tensor table = {0};
    tfm__tensor_new_lasting(l->model->ctx, &table, TFM_F32, 2,
                            (int64_t[]){arch->max_positions + arch->position_offset, arch->width});
    *out = table; /* after a failure too: the model frees what there is of it */
    tfm_sinusoid(l->model->ctx, &table, 0, 0, arch->sinusoids);
    tfm_tensor used = {0};
    if (tfm_tensor_rows(l->model->ctx, &used, table, arch->position_offset, arch->max_positions) == TFM_OK)
        *out = used;
    return tfm_context_status(l->model->ctx);
}

/* BART's learned tables begin with rows for padding; files of newer versions have none, whatever the flag says. */
static int rows_before(const tfm__stored *stored, const tfm__stack_arch *arch) {
    return stored && stored->rank == 2 && stored->dims[0] == arch->max_positions ? 0 : arch->position_offset;
}

/* Sinusoids are seldom stored; where a file has a table, that table counts. Learned ones are parameters, of which the
 * file says here how many rows there are. */
static void load_positions(loader *l, bool decoder) {
    tfm__stack_arch *arch = decoder ? &l->arch->decoder : &l->arch->encoder;
    const char *name = tfm__role_naming(l->family, decoder, TFM__POSITIONS)->weight;
    tfm_param table = {0};
    tfm_tensor *out = !l->model ? NULL : decoder ? &l->model->decoder.positions : &l->model->encoder.positions;
    if (l->status != TFM_OK || arch->layers == 0 || arch->positions == TFM__NO_POSITIONS)
        return;
    const tfm__stored *stored = name ? find(l, name) : NULL;
    if (!stored && arch->positions == TFM__SINUSOIDS) {
        l->status = compute_positions(l, out, arch);
        return;
    }
    const int skipped = rows_before(stored, arch);
    if (arch->positions == TFM__LEARNED_POSITIONS) {
        arch->position_offset = skipped;
        if (l->model)
            l->model->arch = *l->arch;
        return;
    }
    const int64_t rows = arch->max_positions + skipped;
    l->status = load_parameter(l, &(tfm__parameter){.param = &table,
                                                    .role = TFM__POSITIONS,
                                                    .kind = TFM__MATRIX,
                                                    .rank = 2,
                                                    .dims = {rows, arch->width},
                                                    .name = name,
                                                    .total = rows});
    if (l->status == TFM_OK) {
        l->parameters -= stored->count; /* not learned */
        l->bytes -= 4 * stored->count;
    }
    if (l->model)
        *out = table.value; /* after a failure too: the model frees what there is of it */
    if (l->status != TFM_OK || !l->model)
        return;
    l->model->stored_positions = true;
    tfm_tensor used = {0};
    l->status = tfm_tensor_rows(l->model->ctx, &used, table.value, skipped, arch->max_positions);
    if (l->status == TFM_OK)
        *out = used;
}

static void load_output_bias(loader *l) {
    const int64_t rows = tfm__arch_writer(l->arch)->vocabulary, some = tfm__arch_writer(l->arch)->stored_vocabulary;
    const int64_t size = some ? some : rows;
    const tfm__naming *naming = tfm__role_naming(l->family, true, TFM__OUTPUT_BIAS);
    const tfm__stored *stored = naming->weight && !l->arch->headless ? find(l, naming->weight) : NULL;
    if (!stored && naming->bias && !l->arch->headless)
        stored = find(l, naming->bias);
    const bool flat = stored && stored->rank == 1; /* else (1, V) */
    if (l->status == TFM_OK && stored)
        l->status = tfm__weights_get(l->file, &stored, stored->name, flat ? 1 : 2,
                                     flat ? (int64_t[]){size} : (int64_t[]){1, size});
    if (l->status == TFM_OK && stored)
        use(l, stored);
    if (l->status != TFM_OK || !l->model || l->arch->headless)
        return;
    float *bias = tfm__alloc((size_t)rows, sizeof(*bias));
    if (stored && bias)
        tfm__stored_floats(bias, stored, 0, (size_t)size, 1);
    l->status = bias ? tfm__model_set_biases(l->model, bias) : TFM_ERROR_MEMORY;
    free(bias);
}

/* A head that config.json speaks of may have been left out when the encoder was trained for something else. */
static void find_head(loader *l) {
    tfm__head_arch *head = &l->arch->head;
    const tfm__role role = head->kind == TFM__WORDS_HEAD ? TFM__WORDS_DENSE : TFM__CLASSES_OUT;
    const char *name = tfm__role_naming(l->family, false, role)->weight;
    if (head->kind == TFM__NO_HEAD || (name && find(l, name)))
        return;
    tfm__log(TFM_LOG_INFO, "%s: there is no %s, so the model is an encoder without the head that config.json names",
             tfm__weights_at(l->file, 0)->file, name ? name : "head");
    head->kind = TFM__NO_HEAD;
    l->arch->headless = true;
}

/* ---- What is left over ---- */

/* Whether this is another copy of a table that is used. */
static bool is_alias(const loader *l, const tfm__stored *stored) {
    for (int role = 0; role < TFM__TABLES; role++)
        if (l->tables[role] && equal(stored, l->tables[role]))
            return true;
    return false;
}

static bool is_ignored(const loader *l, const char *name) {
    static const char *const NONE[] = {NULL};
    for (const char *const *part = l->family->ignored ? l->family->ignored : NONE; *part; part++)
        if (ends_with(*part, ".") ? strncmp(name, *part, strlen(*part)) == 0 : ends_with(name, *part))
            return true;
    return false;
}

/* Whether a name is one of a block of this family: it begins as such names do before the layer's number. */
static bool is_of_block(const loader *l, const char *name) {
    static const char *const NONE[] = {NULL};
    for (int k = 0; k < 2 * TFM__ROLES; k++) {
        const tfm__naming *naming = tfm__role_naming(l->family, k % 2, (tfm__role)(k / 2));
        const char *mark = naming->weight ? strchr(naming->weight, '#') : NULL;
        if (!mark)
            continue;
        if (strncmp(name, naming->weight, (size_t)(mark - naming->weight)) == 0)
            return true;
        for (const char *const *prefix = l->family->prefixes ? l->family->prefixes : NONE; *prefix; prefix++) {
            const char *rest = naming->weight + strlen(*prefix);
            if (strncmp(naming->weight, *prefix, strlen(*prefix)) == 0 && rest < mark &&
                strncmp(name, rest, (size_t)(mark - rest)) == 0)
                return true;
        }
    }
    return false;
}

/* Whether these are the scales of bytes. */
static bool are_scales(const loader *l, const tfm__stored *stored) {
    char name[1024];
    if (!ends_with(stored->name, TFM__SCALES))
        return false;
    snprintf(name, sizeof(name), "%.*s", (int)(strlen(stored->name) - strlen(TFM__SCALES)), stored->name);
    const tfm__stored *bytes = tfm__weights_find(l->file, name);
    return bytes && bytes->scales == stored->data;
}

/* A block or a norm that nothing uses means that config.json tells of another model; text would come out all the
 * same. Anything else is said. */
static tfm_status check_unused(const loader *l) {
    for (size_t i = 0; i < tfm__weights_count(l->file); i++) {
        const tfm__stored *stored = tfm__weights_at(l->file, i);
        if (is_used(l, stored) || is_alias(l, stored) || is_ignored(l, stored->name) || are_scales(l, stored))
            continue;
        if (is_of_block(l, stored->name) || strstr(stored->name, "layer_norm") || strstr(stored->name, "layernorm"))
            return tfm__fail(TFM_ERROR_FORMAT,
                             "%s: %s has no place in the model that config.json describes: check its numbers of layers "
                             "and its norms",
                             stored->file, stored->name);
        tfm__log(TFM_LOG_WARNING, "%s: no part of the model reads %s: it is left out", stored->file, stored->name);
    }
    return TFM_OK;
}

static tfm_status find_all(loader *l) {
    l->used = tfm__alloc(tfm__weights_count(l->file), sizeof(*l->used));
    if (!l->used)
        return TFM_ERROR_MEMORY;
    find_head(l);
    find_tables(l);
    load_positions(l, false);
    load_positions(l, true);
    load_output_bias(l);
    if (l->status == TFM_OK)
        l->status = tfm__roles_walk(l->family, l->arch, l->model, load_parameter, l);
    if (l->status == TFM_OK)
        l->status = check_unused(l);
    return l->status;
}

tfm_status tfm__model_load(uint64_t *parameters, uint64_t *bytes, const tfm__family *family, tfm__arch *arch,
                           const tfm__weights *file, tfm_model *model, tfm_precision precision) {
    loader l = {.family = family, .arch = arch, .file = file, .model = model, .precision = precision};
    tfm_status status = find_all(&l);
    if (status == TFM_OK)
        status = offer_all(&l);
    *parameters = l.parameters;
    *bytes = l.bytes;
    free(l.used);
    free(l.offers);
    return status;
}

tfm_status tfm__model_places(const tfm__family *family, tfm__arch *arch, const tfm__weights *file, tfm__place_fn see,
                             void *user) {
    loader l = {.family = family, .arch = arch, .file = file, .see = see, .user = user};
    tfm_status status = find_all(&l);
    for (size_t i = 0; i < tfm__weights_count(file) && status == TFM_OK; i++) {
        const tfm__stored *stored = tfm__weights_at(file, i);
        const tfm__parameter copy = {.role = TFM__OUTPUT_TABLE,
                                     .kind = TFM__TABLE,
                                     .rank = 2,
                                     .dims = {stored->dims[0], stored->dims[1]},
                                     .name = stored->name,
                                     .total = stored->dims[0]};
        if (!is_used(&l, stored) && is_alias(&l, stored))
            status = see(user, &copy, stored);
    }
    free(l.used);
    return status;
}
