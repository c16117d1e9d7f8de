/* Vectors of tokens: late interaction, and embedders without pooling. */
#include <string.h>
#include "model/tasks/embedder.h"
#include "model/tasks/encode_lines.h"

typedef struct result {
    float *vectors; /* [count][W] */
    int32_t *ids;   /* [count] */
    size_t count;
} result;

typedef struct job {
    tfm_embedder *embedder;
    tfm__line_encoder line_encoder;
    tfm_text_role role;
    int32_t prefix, mask; /* -1: none */
    bool fills;           /* lines have mask tokens up to the width of batches, unless these are in the line already */
    int32_t *skipped;     /* [skipped_count]: tokens without a vector */
    size_t skipped_count;
    result *results; /* of each line */
} job;

/* ---- Tokens of a role ---- */

static tfm_status find_token(int32_t *out, const tfm_tokenizer *tokenizer, const char *text, const char *what) {
    *out = text ? tfm_tokenizer_piece_id(tokenizer, TFM_SOURCE, text) : -1;
    return *out >= 0 || !text
               ? TFM_OK
               : tfm__fail(TFM_ERROR_FORMAT, "embed_tokens: the tokenizer has no token \"%s\", the %s of the directory",
                           text, what);
}

/* Words that are no token are UNK, as transformers converts them. */
static tfm_status find_skipped(job *j, const json_t *words, const tfm_tokenizer *tokenizer) {
    j->skipped = tfm__alloc(json_array_size(words) + 1, sizeof(*j->skipped));
    for (size_t i = 0; j->skipped && i < json_array_size(words); i++) {
        const int32_t id = tfm_tokenizer_piece_id(tokenizer, TFM_SOURCE, json_string_value(json_array_get(words, i)));
        j->skipped[j->skipped_count++] = id >= 0 ? id : tfm_tokenizer_get_info(tokenizer)->source_unk;
    }
    return j->skipped ? TFM_OK : TFM_ERROR_MEMORY;
}

/* Sets the tokens and lengths of the role. Expansion tokens are masks, or EOS if there is none. */
static tfm_status prepare(job *j) {
    const tfm__late_interaction *late = &j->embedder->late;
    const tfm_tokenizer *tokenizer = j->embedder->model->tokenizer;
    const size_t length = (size_t)late->length[j->role];
    const bool query = j->role == TFM_ROLE_QUERY;
    j->prefix = j->mask = -1;
    if (length == 0 || j->line_encoder.options->token_ids || !tokenizer) /* the line encoder refuses the last */
        return TFM_OK;
    tfm_status status =
        find_token(&j->prefix, tokenizer, late->prefix[j->role], query ? "query_prefix" : "document_prefix");
    if (status == TFM_OK && !query)
        status = find_skipped(j, late->skipped, tokenizer);
    j->line_encoder.max_tokens = length - (j->prefix >= 0);
    if (status != TFM_OK || !query || !late->expands)
        return status;
    const tfm_tokenizer_info *info = tfm_tokenizer_get_info(tokenizer);
    j->mask = info->mask >= 0 ? info->mask : info->source_eos;
    if (j->mask < 0)
        return tfm__fail(TFM_ERROR_FORMAT, "embed_tokens: the tokenizer has no mask token to fill up queries with");
    j->fills = !late->attends;
    j->line_encoder.width = j->fills ? length : 0;
    j->line_encoder.fill = j->mask;
    return TFM_OK;
}

/* Inserts the prefix after the first token, and the mask tokens that are attended to. */
static tfm_status mark(const job *j, tfm__line *line) {
    const size_t length = (size_t)j->embedder->late.length[j->role], inserted = j->prefix >= 0;
    const size_t real = line->count + inserted, all = j->mask >= 0 && !j->fills && length > real ? length : real;
    int32_t *ids = line->ids && line->count > 0 ? tfm__alloc(all, sizeof(*ids)) : NULL;
    if (!ids)
        return line->ids && line->count > 0 ? TFM_ERROR_MEMORY : TFM_OK;
    ids[0] = line->ids[0];
    if (inserted)
        ids[1] = j->prefix;
    memcpy(ids + 1 + inserted, line->ids + 1, (line->count - 1) * sizeof(*ids));
    for (size_t i = real; i < all; i++)
        ids[i] = j->mask;
    tfm_ids_free(&line->ids);
    line->ids = ids;
    line->count = all;
    line->cost = j->fills && length > all ? length : all;
    return TFM_OK;
}

/* ---- Batches ---- */

static bool is_skipped(const job *j, int32_t id) {
    for (size_t i = 0; i < j->skipped_count; i++)
        if (j->skipped[i] == id)
            return true;
    return false;
}

/* Keeps the vectors of a line, rows of `from`. */
static tfm_status keep(const job *j, const tfm__line *line, const float *from) {
    const size_t width = (size_t)j->embedder->info.width, length = (size_t)j->embedder->late.length[j->role];
    const size_t count = j->fills && length > line->count ? length : line->count;
    result *r = &j->results[line->index];
    free(r->vectors); /* of a batch that is repeated */
    free(r->ids);
    *r = (result){.vectors = tfm__alloc(count * width, sizeof(*r->vectors)), .ids = tfm__alloc(count, sizeof(*r->ids))};
    if (!r->vectors || !r->ids)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const int32_t id = i < line->count ? line->ids[i] : j->mask;
        if (is_skipped(j, id))
            continue;
        r->ids[r->count] = id;
        memcpy(r->vectors + r->count++ * width, from + i * width, width * sizeof(*from));
    }
    return TFM_OK;
}

static tfm_status run_batch(void *user, tfm_model *on, tfm__line *const *batch, size_t n) {
    job *j = user;
    tfm_context *ctx = on->ctx;
    const size_t width = (size_t)j->embedder->info.width;
    tfm__encoded_batch in = {{0}, {0}, {0}};
    tfm_tensor vectors = {0};
    float *host = NULL;
    size_t tokens = 0;
    tfm_scope_open(ctx);
    if (tfm__line_encoder_upload(&j->line_encoder, ctx, &in, batch, n) == TFM_OK) {
        tokens = (size_t)in.ids.dims[1];
        host = tfm__alloc(n * tokens * width, sizeof(*host));
        if (!host)
            tfm__context_fail(ctx, TFM_ERROR_MEMORY, "no host memory for the vectors of %zu lines", n);
        tfm__embed_batch(tfm__embedder_on(j->embedder, on), &vectors, in.ids, in.types, in.lengths, 0);
        if (host)
            tfm_tensor_read(ctx, host, vectors);
    }
    tfm_status status = tfm_scope_close(ctx, 0, NULL);
    for (size_t i = 0; i < n && status == TFM_OK; i++)
        status = keep(j, batch[i], host + i * tokens * width);
    free(host);
    return status;
}

/* ---- The call ---- */

static tfm_status emit_all(const job *j, const tfm__line *lines, size_t count, tfm_token_vectors_fn emit, void *user) {
    for (size_t i = 0; i < count; i++) {
        const result *r = &j->results[i];
        const tfm_token_vectors one = {
            .line = i, .count = r->count, .width = j->embedder->info.width, .ids = r->ids, .vectors = r->vectors};
        if (!lines[i].rejected && !emit(user, &one))
            return tfm__fail(TFM_ERROR_CANCELLED, "embed_tokens was stopped at line %zu", i + 1);
    }
    return TFM_OK;
}

static tfm_status check(tfm_embedder *e, const char *const *lines, size_t count, tfm_text_role role,
                        const tfm_embed_options *options) {
    if (!options->token_ids && (TFM__NEEDS("embed_tokens", lines) != TFM_OK ||
                                tfm__needs_texts("embed_tokens", "lines", lines, count) != TFM_OK))
        return TFM_ERROR_ARGUMENT;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "embed_tokens: %s", TFM__RESERVED_SET_MESSAGE);
    if (role != TFM_ROLE_DOCUMENT && role != TFM_ROLE_QUERY)
        return tfm__fail(TFM_ERROR_ARGUMENT, "embed_tokens: unknown role %d", (int)role);
    if (options->text_pairs)
        return tfm__fail(TFM_ERROR_ARGUMENT, "embed_tokens: text_pairs are not supported: give lines");
    if (tfm__batch_check("embed_tokens", options->batch_tokens) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (!e->by_token)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "embed_tokens: the embedder has the pooling \"%s\": use tfm_embed, or open it with no_pooling",
                         e->info.pooling);
    return tfm__context_ready(e->model->ctx, "embed_tokens");
}

tfm_status tfm_embed_tokens(tfm_embedder *e, const char *const *lines, size_t count, tfm_text_role role,
                            const tfm_embed_options *options, tfm_token_vectors_fn emit, void *user) {
    static const tfm_embed_options defaults;
    options = options ? options : &defaults;
    if (TFM__NEEDS("embed_tokens", e, emit ? "" : NULL) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm_status status = check(e, lines, count, role, options);
    if (status != TFM_OK)
        return status;
    job j = {.embedder = e,
             .role = role,
             .results = tfm__alloc(count, sizeof(*j.results)),
             .line_encoder = tfm__embedder_line_encoder(e, options)};
    tfm__line *encoded = NULL;
    const double start = tfm__seconds();
    status = j.results ? prepare(&j) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__line_encoder_open(&j.line_encoder, "embed_tokens");
    if (status == TFM_OK)
        status = tfm__line_encoder_encode(&j.line_encoder, &encoded, lines, count);
    for (size_t i = 0; i < count && status == TFM_OK && !options->token_ids; i++)
        status = mark(&j, &encoded[i]);
    if (status == TFM_OK)
        status = tfm__line_encoder_run(&j.line_encoder, encoded, count, run_batch, &j);
    if (status == TFM_OK)
        tfm__line_encoder_count(&j.line_encoder, start);
    if (status == TFM_OK)
        status = emit_all(&j, encoded, count, emit, user);
    tfm__lines_free(&encoded, encoded ? count : 0);
    for (size_t i = 0; j.results && i < count; i++) {
        free(j.results[i].vectors);
        free(j.results[i].ids);
    }
    free(j.results);
    free(j.skipped);
    return status;
}
