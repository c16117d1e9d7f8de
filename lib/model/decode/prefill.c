/* Prefill: prompts into the KV cache, in chunks of several tokens, and of several prompts if they are short. */
#include "model/decode/prefill.h"
#include "nn/kv_cache.h"
#include "ops/ops.h"

/* Tokens of one prompt per chunk, and of all prompts. */
enum { CHUNK_TOKENS = 512, BATCH_TOKENS = 2048 };

/* A chunk of `rows` prompts from column `first` on. Rows that end within it are padded. */
typedef struct chunk {
    const size_t *rows; /* [count]: prompt indices */
    int64_t count, first, tokens, slot;
} chunk;

/* Tokens of prompt i that are prefilled. */
static int64_t prefill_tokens(const tfm__prompts *p, size_t i) {
    return (int64_t)p->counts[i] - 1;
}

/* Calls `run`, unless NULL, for all chunks in order until it fails, and returns the slots they use. If prompts have
 * different lengths, slot 0 holds no token: it is the padding before shorter ones. */
static int64_t for_each_chunk(const tfm__prompts *p, size_t *rows, tfm_status (*run)(void *user, const chunk *chunk),
                              void *user) {
    int64_t slot = p->ragged ? 1 : p->cached;
    size_t next;
    for (size_t begin = 0; begin < p->count; begin = next) {
        int64_t width = 0;
        for (next = begin; next < p->count; next++) { /* as many as fit */
            const int64_t own = prefill_tokens(p, next), wider = own > width ? own : width;
            const int64_t tokens = wider < CHUNK_TOKENS ? wider : CHUNK_TOKENS;
            if (next > begin && tokens * (int64_t)(next - begin + 1) > BATCH_TOKENS)
                break;
            width = wider;
        }
        for (int64_t first = p->cached; first < width; first += CHUNK_TOKENS) {
            chunk part = {.rows = rows, .first = first, .slot = slot};
            part.tokens = width - first < CHUNK_TOKENS ? width - first : CHUNK_TOKENS;
            for (size_t i = begin; i < next; i++)
                if (prefill_tokens(p, i) > first)
                    rows[part.count++] = i;
            slot += part.count * part.tokens;
            if (run && run(user, &part) != TFM_OK)
                return slot;
        }
    }
    return slot;
}

/* Records the slots of a chunk's tokens. */
static tfm_status assign_slots(void *user, const chunk *part) {
    tfm__prompts *p = user;
    for (int64_t r = 0; r < part->count; r++) {
        const size_t i = part->rows[r];
        for (int64_t t = 0; t < part->tokens; t++) {
            const int64_t column = part->first + t, slot = part->slot + r * part->tokens + t;
            const bool real = column < prefill_tokens(p, i);
            p->tokens[slot] = real ? p->ids[i][column] : -1;
            if (real)
                p->slot_of[(int64_t)i * (p->longest - 1) + column] = (int32_t)slot;
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
    out->slots = for_each_chunk(out, rows, NULL, NULL);
    out->tokens = tfm__alloc((size_t)out->slots + 1, sizeof(*out->tokens));
    out->slot_of = tfm__alloc(count * (size_t)(out->longest - 1) + 1, sizeof(*out->slot_of));
    if (out->tokens && out->slot_of) {
        out->tokens[0] = -1;
        for_each_chunk(out, rows, assign_slots, out);
    }
    free(rows);
    return out->tokens && out->slot_of ? TFM_OK : TFM_ERROR_MEMORY;
}

void tfm__prompts_free(tfm__prompts *prompts) {
    free(prompts->tokens);
    free(prompts->slot_of);
    *prompts = (tfm__prompts){0};
}

/* Inputs of the chunks. */
typedef struct prefill_state {
    tfm_model *model;
    tfm_kv_cache *cache;
    const tfm__prompts *prompts;
    tfm_tensor position_bias;
    tfm__prefill_check check;
    int64_t chunks; /* done */
    tfm_status status;
} prefill_state;

/* ids (rows, tokens) of a chunk, and its block_table (rows, first + tokens). */
static void fill(const tfm__prompts *p, const chunk *part, int32_t *ids, int32_t *block_table) {
    const int64_t width = part->first + part->tokens;
    for (int64_t r = 0; r < part->count; r++) {
        const size_t i = part->rows[r];
        for (int64_t k = 0; k < part->first; k++)
            block_table[r * width + k] = p->slot_of[(int64_t)i * (p->longest - 1) + k];
        for (int64_t t = 0; t < part->tokens; t++) {
            block_table[r * width + part->first + t] = (int32_t)(part->slot + r * part->tokens + t);
            ids[r * part->tokens + t] = part->first + t < prefill_tokens(p, i) ? p->ids[i][part->first + t] : 0;
        }
    }
}

/* Checks between two chunks; waits for the first one, so that the device does not run ahead. */
static tfm_status check_cancelled(prefill_state *r) {
    if (!r->check.should_continue || r->chunks++ == 0 || tfm_context_finish(r->model->ctx) != TFM_OK ||
        r->check.should_continue(r->check.user))
        return TFM_OK;
    return r->status = tfm__fail(TFM_ERROR_CANCELLED, "generate: stopped in the prefill");
}

static tfm_status run_chunk(void *user, const chunk *part) {
    prefill_state *r = user;
    tfm_context *ctx = r->model->ctx;
    if (check_cancelled(r) != TFM_OK)
        return r->status;
    const int64_t dims[] = {part->count, part->tokens}, past[] = {part->count, part->first + part->tokens};
    int32_t *host_ids = tfm__alloc((size_t)(dims[0] * dims[1]), sizeof(*host_ids));
    int32_t *host_block_table = tfm__alloc((size_t)(past[0] * past[1]), sizeof(*host_block_table));
    tfm_tensor ids = {0}, block_table = {0};
    tfm_scope_open(ctx);
    if (host_ids && host_block_table) {
        fill(r->prompts, part, host_ids, host_block_table);
        tfm_tensor_new(ctx, &ids, TFM_I32, 2, dims);
        tfm_tensor_new(ctx, &block_table, TFM_I32, 2, past);
        tfm_tensor_write(ctx, ids, host_ids);
        tfm_tensor_write(ctx, block_table, host_block_table);
        tfm__model_step(r->model, NULL, ids,
                        &(tfm__decode_step){.cache = r->cache,
                                            .position_bias = r->position_bias,
                                            .block_table = block_table,
                                            .slot = part->slot,
                                            .position = part->first,
                                            .length = r->prompts->longest},
                        (tfm_tensor){0});
        r->cache->slots = part->slot + dims[0] * dims[1];
    } else {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "generate: out of host memory for a prompt");
    }
    free(host_ids);
    free(host_block_table);
    return tfm_scope_close(ctx, 0, NULL);
}

/* The padding slot: always masked, but must not be NaN. */
static void zero_padding_slot(tfm_context *ctx, const tfm_kv_cache *cache) {
    const float zero = 0;
    for (int i = 0; i < cache->layers; i++) {
        tfm_tensor row = {0};
        tfm_tensor_rows(ctx, &row, cache->kv[i].keys, 0, 1);
        tfm__tensor_fill(ctx, row, &zero);
        tfm_tensor_rows(ctx, &row, cache->kv[i].values, 0, 1);
        tfm__tensor_fill(ctx, row, &zero);
    }
}

tfm_status tfm__prompts_prefill(tfm_model *model, tfm_kv_cache *cache, const tfm__prompts *prompts,
                                tfm_tensor position_bias, tfm__prefill_check check) {
    prefill_state r = {
        .model = model, .cache = cache, .prompts = prompts, .position_bias = position_bias, .check = check};
    size_t *rows = tfm__alloc(prompts->count, sizeof(*rows));
    if (!rows)
        return tfm__context_fail(model->ctx, TFM_ERROR_MEMORY, "generate: out of host memory for %zu prompts",
                                 prompts->count);
    if (prompts->ragged) {
        zero_padding_slot(model->ctx, cache);
        cache->slots = 1;
    }
    for_each_chunk(prompts, rows, run_chunk, &r);
    free(rows);
    return r.status != TFM_OK ? r.status : tfm_context_status(model->ctx);
}

/* Row i of the cache becomes row index[i] of the other one. */
static void replace_rows(tfm_context *ctx, tfm_kv_cache *cache, const tfm_kv_cache *by, const int32_t *index) {
    const int64_t rows = cache->slots;
    tfm_tensor places = {0};
    tfm_tensor_new(ctx, &places, TFM_I32, 1, &rows);
    tfm_tensor_write(ctx, places, index);
    for (int i = 0; i < 2 * cache->layers; i++) {
        tfm_kv *to = &cache->kv[i / 2];
        const tfm_kv *from = &by->kv[i / 2];
        tfm_tensor wide = {0}, gathered = {0}, head = {0};
        tfm_scope_open(ctx);
        const tfm_tensor past = tfm__kv_words(i % 2 ? from->values : from->keys);
        if (tfm__is_half(past)) /* the gather kernel copies 32-bit rows */
            tfm_cast(ctx, &wide, past, TFM_F32);
        tfm_gather(ctx, &gathered, tfm__is_half(past) ? wide : past, places);
        tfm_tensor_rows(ctx, &head, tfm__kv_words(i % 2 ? to->values : to->keys), 0, rows);
        if (tfm__is_half(head))
            tfm__cast_saturating(ctx, head, gathered);
        else
            tfm__tensor_copy(ctx, head, gathered);
        tfm_scope_close(ctx, 0, NULL);
    }
}

/* The rows' texts on the host. */
typedef struct texts {
    int64_t rows, width;
    int32_t *block_table; /* [rows][width]: cache slots */
    int32_t *tokens;      /* [slots] */
    int32_t *ids;         /* [rows][width] */
    const int32_t **at;
    size_t *counts;
    int32_t *index; /* [cache rows] */
} texts;

static tfm_status texts_read(texts *t, tfm_context *ctx, const tfm__beam *beam, int64_t cache_slots) {
    const size_t count = (size_t)(t->rows * t->width);
    t->block_table = tfm__alloc(count, sizeof(*t->block_table));
    t->tokens = tfm__alloc((size_t)beam->slots, sizeof(*t->tokens));
    t->ids = tfm__alloc(count, sizeof(*t->ids));
    t->at = tfm__alloc((size_t)t->rows, sizeof(*t->at));
    t->counts = tfm__alloc((size_t)t->rows, sizeof(*t->counts));
    t->index = tfm__alloc((size_t)cache_slots, sizeof(*t->index));
    if (!t->block_table || !t->tokens || !t->ids || !t->at || !t->counts || !t->index)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "generate: out of host memory for %lld texts",
                                 (long long)t->rows);
    tfm_tensor_read(ctx, t->block_table, beam->block_table);
    if (tfm_tensor_read(ctx, t->tokens, beam->slot_token) != TFM_OK)
        return tfm_context_status(ctx);
    for (size_t i = 0; i < count; i++)
        t->ids[i] = t->tokens[t->block_table[i]];
    for (int64_t r = 0; r < t->rows; r++) {
        t->at[r] = t->ids + r * t->width;
        t->counts[r] = (size_t)t->width;
    }
    return TFM_OK;
}

tfm_status tfm__prompts_recompute(tfm_model *model, tfm_kv_cache *cache, const tfm__beam *beam,
                                  tfm_tensor position_bias) {
    tfm_context *ctx = model->ctx;
    texts t = {.rows = beam->block_table.dims[0], .width = beam->block_table.dims[1]};
    tfm__prompts prompts = {0};
    tfm_kv_cache again = {0};
    tfm_scope_open(ctx);
    tfm_status status = texts_read(&t, ctx, beam, cache->slots);
    if (status == TFM_OK && tfm__prompts_make(&prompts, t.at, t.counts, (size_t)t.rows) != TFM_OK)
        status = tfm__context_fail(ctx, TFM_ERROR_MEMORY, "%s", tfm_error_message());
    if (status == TFM_OK)
        status = tfm__model_kv_cache_new(model, &again, prompts.slots);
    if (status == TFM_OK)
        status = tfm__prompts_prefill(model, &again, &prompts, position_bias, (tfm__prefill_check){0});
    for (int64_t i = 0; i < t.rows && status == TFM_OK; i++)
        for (int64_t k = 0; k + 1 < t.width; k++)
            t.index[t.block_table[i * t.width + k]] = prompts.slot_of[i * (t.width - 1) + k];
    if (status == TFM_OK)
        replace_rows(ctx, cache, &again, t.index);
    tfm_kv_cache_free(ctx, &again);
    tfm__prompts_free(&prompts);
    void *all[] = {t.block_table, t.tokens, t.ids, (void *)(uintptr_t)t.at, t.counts, t.index};
    for (size_t i = 0; i < TFM__COUNT(all); i++)
        free(all[i]);
    return tfm_scope_close(ctx, 0, NULL);
}

void tfm__prompts_block_table(const tfm__prompts *p, int copies, int32_t *block_table, int32_t *last) {
    const int64_t width = p->longest - 1;
    for (size_t row = 0; row < p->count * (size_t)copies; row++) {
        const size_t i = row / (size_t)copies;
        const int64_t own = prefill_tokens(p, i), none = width - own;
        for (int64_t k = 0; k < width; k++)
            block_table[(int64_t)row * width + k] = k < none ? 0 : p->slot_of[(int64_t)i * width + k - none];
        last[row] = p->ids[i][own];
    }
}
