/* Prompts into the log of keys and values: pieces of several tokens, and of several prompts where they are short. */
#include "model/decode/prefill.h"
#include "ops/ops.h"

/* Tokens of a prompt that are run together, and of all prompts that are. */
enum { PIECE = 512, AT_ONCE = 2048 };

/* A piece of some prompts: `rows` of them, from column `first` on. A row that ends within it is filled up. */
typedef struct piece {
    const size_t *rows; /* [count]: which prompts */
    int64_t count, first, tokens, node;
} piece;

/* Tokens of prompt i that are read before the search. */
static int64_t read_tokens(const tfm__prompts *p, size_t i) {
    return (int64_t)p->counts[i] - 1;
}

/* Calls `run`, if there is one, for the pieces of all prompts in order, and returns the places that they take. The
 * first place is no token's where there are shorter prompts: what is before them lies there. */
static int64_t walk(const tfm__prompts *p, size_t *rows, tfm_status (*run)(void *user, const piece *piece),
                    void *user) {
    int64_t node = p->ragged;
    size_t next;
    for (size_t begin = 0; begin < p->count; begin = next) {
        int64_t width = 0;
        for (next = begin; next < p->count; next++) { /* as many as fit */
            const int64_t own = read_tokens(p, next), wider = own > width ? own : width;
            const int64_t tokens = wider < PIECE ? wider : PIECE;
            if (next > begin && tokens * (int64_t)(next - begin + 1) > AT_ONCE)
                break;
            width = wider;
        }
        for (int64_t first = 0; first < width; first += PIECE) {
            piece part = {.rows = rows, .first = first, .node = node};
            part.tokens = width - first < PIECE ? width - first : PIECE;
            for (size_t i = begin; i < next; i++)
                if (read_tokens(p, i) > first)
                    rows[part.count++] = i;
            node += part.count * part.tokens;
            if (run && run(user, &part) != TFM_OK)
                return node;
        }
    }
    return node;
}

/* Notes where the tokens of a piece lie. */
static tfm_status place(void *user, const piece *part) {
    tfm__prompts *p = user;
    for (int64_t r = 0; r < part->count; r++) {
        const size_t i = part->rows[r];
        for (int64_t t = 0; t < part->tokens; t++) {
            const int64_t column = part->first + t, node = part->node + r * part->tokens + t;
            const bool real = column < read_tokens(p, i);
            p->tokens[node] = real ? p->ids[i][column] : -1;
            if (real)
                p->places[(int64_t)i * (p->longest - 1) + column] = (int32_t)node;
        }
    }
    return TFM_OK;
}

tfm_status tfm__prompts_make(tfm__prompts *out, const int32_t *const *ids, const size_t *counts, size_t count) {
    *out = (tfm__prompts){.count = count, .ids = ids, .counts = counts};
    for (size_t i = 0; i < count; i++) {
        out->longest = (int64_t)counts[i] > out->longest ? (int64_t)counts[i] : out->longest;
        out->ragged |= counts[i] != counts[0];
    }
    size_t *rows = tfm__alloc(count, sizeof(*rows));
    if (!rows)
        return TFM_ERROR_MEMORY;
    out->nodes = walk(out, rows, NULL, NULL);
    out->tokens = tfm__alloc((size_t)out->nodes + 1, sizeof(*out->tokens));
    out->places = tfm__alloc(count * (size_t)(out->longest - 1) + 1, sizeof(*out->places));
    if (out->tokens && out->places) {
        out->tokens[0] = -1;
        walk(out, rows, place, out);
    }
    free(rows);
    return out->tokens && out->places ? TFM_OK : TFM_ERROR_MEMORY;
}

void tfm__prompts_free(tfm__prompts *prompts) {
    free(prompts->tokens);
    free(prompts->places);
    *prompts = (tfm__prompts){0};
}

/* What the pieces are run with. */
typedef struct reader {
    tfm_model *model;
    tfm_kv_cache *cache;
    const tfm__prompts *prompts;
    tfm_tensor relative;
} reader;

/* ids (rows, tokens) of a piece, and table (rows, first + tokens), where what they attend to lies. */
static void fill(const tfm__prompts *p, const piece *part, int32_t *ids, int32_t *table) {
    const int64_t width = part->first + part->tokens;
    for (int64_t r = 0; r < part->count; r++) {
        const size_t i = part->rows[r];
        for (int64_t k = 0; k < part->first; k++)
            table[r * width + k] = p->places[(int64_t)i * (p->longest - 1) + k];
        for (int64_t t = 0; t < part->tokens; t++) {
            table[r * width + part->first + t] = (int32_t)(part->node + r * part->tokens + t);
            ids[r * part->tokens + t] = part->first + t < read_tokens(p, i) ? p->ids[i][part->first + t] : 0;
        }
    }
}

static tfm_status run_piece(void *user, const piece *part) {
    const reader *r = user;
    tfm_context *ctx = r->model->ctx;
    const int64_t dims[] = {part->count, part->tokens}, past[] = {part->count, part->first + part->tokens};
    int32_t *host_ids = tfm__alloc((size_t)(dims[0] * dims[1]), sizeof(*host_ids));
    int32_t *host_table = tfm__alloc((size_t)(past[0] * past[1]), sizeof(*host_table));
    tfm_tensor ids = {0}, table = {0};
    tfm_scope_open(ctx);
    if (host_ids && host_table) {
        fill(r->prompts, part, host_ids, host_table);
        tfm_tensor_new(ctx, &ids, TFM_I32, 2, dims);
        tfm_tensor_new(ctx, &table, TFM_I32, 2, past);
        tfm_tensor_write(ctx, ids, host_ids);
        tfm_tensor_write(ctx, table, host_table);
        tfm__model_step(r->model, NULL, ids,
                        &(tfm__step){.cache = r->cache,
                                     .relative = r->relative,
                                     .table = table,
                                     .node = part->node,
                                     .position = part->first,
                                     .length = r->prompts->longest},
                        (tfm_tensor){0});
        r->cache->rows = part->node + dims[0] * dims[1];
    } else {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "generate: out of host memory for a prompt");
    }
    free(host_ids);
    free(host_table);
    return tfm_scope_close(ctx, 0, NULL);
}

/* The place of no token: it is hidden wherever it stands, but shall be a number. */
static void fill_nothing(tfm_context *ctx, const tfm_kv_cache *cache) {
    const float zero = 0;
    for (int i = 0; i < cache->layers; i++) {
        tfm_tensor row = {0};
        tfm_tensor_rows(ctx, &row, cache->logs[i].keys, 0, 1);
        tfm__tensor_fill(ctx, row, &zero);
        tfm_tensor_rows(ctx, &row, cache->logs[i].values, 0, 1);
        tfm__tensor_fill(ctx, row, &zero);
    }
}

tfm_status tfm__prompts_read(tfm_model *model, tfm_kv_cache *cache, const tfm__prompts *prompts, tfm_tensor relative) {
    reader r = {model, cache, prompts, relative};
    size_t *rows = tfm__alloc(prompts->count, sizeof(*rows));
    if (!rows)
        return tfm__context_fail(model->ctx, TFM_ERROR_MEMORY, "generate: out of host memory for %zu prompts",
                                 prompts->count);
    if (prompts->ragged) {
        fill_nothing(model->ctx, cache);
        cache->rows = 1;
    }
    walk(prompts, rows, run_piece, &r);
    free(rows);
    return tfm_context_status(model->ctx);
}

/* Row i of the log becomes row index[i] of the other one. */
static void replace_rows(tfm_context *ctx, tfm_kv_cache *cache, const tfm_kv_cache *by, const int32_t *index) {
    const int64_t rows = cache->rows;
    tfm_tensor places = {0};
    tfm_tensor_new(ctx, &places, TFM_I32, 1, &rows);
    tfm_tensor_write(ctx, places, index);
    for (int i = 0; i < 2 * cache->layers; i++) {
        tfm_keys_values *to = &cache->logs[i / 2];
        const tfm_keys_values *from = &by->logs[i / 2];
        tfm_tensor wide = {0}, gathered = {0}, head = {0};
        tfm_scope_open(ctx);
        const tfm_tensor past = i % 2 ? from->values : from->keys;
        if (tfm__is_half(past)) /* rows of 32 bits are gathered */
            tfm_cast(ctx, &wide, past, TFM_F32);
        tfm_gather(ctx, &gathered, tfm__is_half(past) ? wide : past, places);
        tfm_tensor_rows(ctx, &head, i % 2 ? to->values : to->keys, 0, rows);
        tfm__cast_saturating(ctx, head, gathered);
        tfm_scope_close(ctx, 0, NULL);
    }
}

/* What the rows' texts are, on the host. */
typedef struct texts {
    int64_t rows, width;
    int32_t *table;  /* [rows][width]: places in the log */
    int32_t *tokens; /* [places] */
    int32_t *ids;    /* [rows][width] */
    const int32_t **at;
    size_t *counts;
    int32_t *index; /* [rows of the log] */
} texts;

static tfm_status texts_read(texts *t, tfm_context *ctx, const tfm__beam *beam, int64_t log) {
    const size_t count = (size_t)(t->rows * t->width);
    t->table = tfm__alloc(count, sizeof(*t->table));
    t->tokens = tfm__alloc((size_t)beam->nodes, sizeof(*t->tokens));
    t->ids = tfm__alloc(count, sizeof(*t->ids));
    t->at = tfm__alloc((size_t)t->rows, sizeof(*t->at));
    t->counts = tfm__alloc((size_t)t->rows, sizeof(*t->counts));
    t->index = tfm__alloc((size_t)log, sizeof(*t->index));
    if (!t->table || !t->tokens || !t->ids || !t->at || !t->counts || !t->index)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "generate: out of host memory for %lld texts",
                                 (long long)t->rows);
    tfm_tensor_read(ctx, t->table, beam->table);
    if (tfm_tensor_read(ctx, t->tokens, beam->node_token) != TFM_OK)
        return tfm_context_status(ctx);
    for (size_t i = 0; i < count; i++)
        t->ids[i] = t->tokens[t->table[i]];
    for (int64_t r = 0; r < t->rows; r++) {
        t->at[r] = t->ids + r * t->width;
        t->counts[r] = (size_t)t->width;
    }
    return TFM_OK;
}

tfm_status tfm__prompts_again(tfm_model *model, tfm_kv_cache *cache, const tfm__beam *beam, tfm_tensor relative) {
    tfm_context *ctx = model->ctx;
    texts t = {.rows = beam->table.dims[0], .width = beam->table.dims[1]};
    tfm__prompts prompts = {0};
    tfm_kv_cache again = {0};
    tfm_scope_open(ctx);
    tfm_status status = texts_read(&t, ctx, beam, cache->rows);
    if (status == TFM_OK && tfm__prompts_make(&prompts, t.at, t.counts, (size_t)t.rows) != TFM_OK)
        status = tfm__context_fail(ctx, TFM_ERROR_MEMORY, "%s", tfm_error_message());
    if (status == TFM_OK)
        status = tfm__model_log_new(model, &again, prompts.nodes);
    if (status == TFM_OK)
        status = tfm__prompts_read(model, &again, &prompts, relative);
    for (int64_t i = 0; i < t.rows && status == TFM_OK; i++)
        for (int64_t k = 0; k + 1 < t.width; k++)
            t.index[t.table[i * t.width + k]] = prompts.places[i * (t.width - 1) + k];
    if (status == TFM_OK)
        replace_rows(ctx, cache, &again, t.index);
    tfm_kv_cache_free(ctx, &again);
    tfm__prompts_free(&prompts);
    void *all[] = {t.table, t.tokens, t.ids, (void *)(uintptr_t)t.at, t.counts, t.index};
    for (size_t i = 0; i < TFM__COUNT(all); i++)
        free(all[i]);
    return tfm_scope_close(ctx, 0, NULL);
}

void tfm__prompts_lay(const tfm__prompts *p, int copies, int32_t *table, int32_t *last) {
    const int64_t width = p->longest - 1;
    for (size_t row = 0; row < p->count * (size_t)copies; row++) {
        const size_t i = row / (size_t)copies;
        const int64_t own = read_tokens(p, i), none = width - own;
        for (int64_t k = 0; k < width; k++)
            table[(int64_t)row * width + k] = k < none ? 0 : p->places[(int64_t)i * width + k - none];
        last[row] = p->ids[i][own];
    }
}
