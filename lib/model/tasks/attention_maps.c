/* Attention maps: the weights of every layer, one after the other. */
#include <stdio.h>
#include <string.h>
#include "model/tasks/batch.h"

tfm_status tfm_model_attention_maps(tfm_model *model, tfm_tensor source_ids, tfm_tensor lengths, tfm_tensor target_ids,
                                    tfm_attention_fn emit, void *user) {
    if (TFM__NEEDS("model_attention_maps", model, emit ? "" : NULL) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (tfm__model_needs(model, "model_attention_maps", TFM__NEEDS_ENCODER | TFM__NEEDS_DECODER) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm__observer observer = {.on_weights = emit, .user = user};
    tfm_tensor encoded = {0}, hidden = {0};
    tfm_scope_open(model->ctx);
    tfm__model_encode_observed(model, &encoded, source_ids, lengths, &observer);
    if (!observer.stopped)
        tfm__model_decode_hidden(model, &hidden, target_ids, encoded, lengths, &observer);
    tfm_status status = tfm_scope_close(model->ctx, 0, NULL);
    return observer.stopped && status == TFM_OK ? tfm__fail(TFM_ERROR_CANCELLED, "attention was stopped") : status;
}

/* ---- Text ---------------------------------------------------------------------------------------------- */

/* One side of the maps, and the memory it borrows. */
typedef struct axis {
    tfm_token_list view;
    int32_t *ids;
    const char **tokens;
} axis;

typedef struct job {
    tfm_model *model;
    axis source, target;
    float *weights;            /* sized for the largest map */
    int passed, emitted;       /* maps of this attempt, and of all attempts */
    tfm_search_options search; /* the caller's, with the languages */
    tfm_attention_map_fn emit;
    void *user;
    tfm__language_choice languages;
} job;

/* Takes ownership of the ids. */
static tfm_status name_tokens(const tfm_model *model, axis *out, tfm_side side, int32_t *ids, size_t count) {
    out->ids = ids;
    out->tokens = tfm__token_names(model, side, ids, count);
    if (!out->tokens)
        return TFM_ERROR_MEMORY;
    out->view = (tfm_token_list){count, out->ids, out->tokens};
    return TFM_OK;
}

static void free_axis(axis *side) {
    free(side->ids);
    free(side->tokens);
}

/* The error message names the text. */
static tfm_status encode_text(const job *j, tfm__line *line, tfm_side side, const char *text, bool truncate) {
    tfm_status status = tfm__line_encode(j->model, line, text, strlen(text), side, &j->languages, truncate);
    if (status != TFM_ERROR_INPUT)
        return status;
    tfm_ids_free(&line->ids);
    char *reason = tfm__strdup(tfm_error_message());
    if (!reason)
        return TFM_ERROR_MEMORY;
    status = tfm__fail(status, "the %s text: %s", side == TFM_SOURCE ? "source" : "target", reason);
    free(reason);
    return status;
}

/* Some tokenizers add more tokens than EOS, such as the language; a text with only these has no words. */
static tfm_status encode_source(job *j, const char *text, bool truncate) {
    tfm__line line = {0}, empty = {0};
    tfm_status status = encode_text(j, &line, TFM_SOURCE, text, truncate);
    if (status == TFM_OK)
        status = encode_text(j, &empty, TFM_SOURCE, "", truncate);
    tfm_ids_free(&empty.ids);
    if (status != TFM_OK || line.count <= empty.count)
        tfm_ids_free(&line.ids);
    if (status == TFM_OK && line.count <= empty.count)
        return tfm__fail(TFM_ERROR_INPUT, "the source text has no words: there is nothing to attend to");
    return status == TFM_OK ? name_tokens(j->model, &j->source, TFM_SOURCE, line.ids, line.count) : status;
}

/* Decoder input that generates the `count` >= 1 tokens in `written`, so without the last one. */
static tfm_status shift_target(job *j, const int32_t *written, size_t count) {
    int32_t *ids = tfm__alloc(count, sizeof(*ids));
    if (!ids)
        return TFM_ERROR_MEMORY;
    const int32_t start = j->search.has_decoder_start_id ? j->search.decoder_start_id : j->model->rules.start_id;
    tfm__ids_pad(ids, (int64_t)count, written, count, 1, start, j->model->rules.pad_id);
    return name_tokens(j->model, &j->target, TFM_TARGET, ids, count);
}

static tfm_status encode_target(job *j, const char *text, bool truncate) {
    tfm__line line = {0};
    tfm_status status = encode_text(j, &line, TFM_TARGET, text, truncate);
    if (status == TFM_OK)
        status = shift_target(j, line.ids, line.count);
    tfm_ids_free(&line.ids);
    return status;
}

static tfm_status translate_source(job *j) {
    tfm_hypotheses found;
    tfm_status status = tfm_search(j->model, &found, j->source.ids, &j->source.view.count, 1, NULL, NULL, &j->search);
    if (status != TFM_OK)
        return status;
    const tfm_hypothesis *best = &found.items[0];
    status = shift_target(j, best->ids, best->tokens > 0 ? (size_t)best->tokens : 1);
    tfm_hypotheses_free(&found);
    return status;
}

static bool show_map(void *user, tfm_attention_kind kind, int layer, const tfm_tensor *weights) {
    job *j = user;
    if (j->passed++ < j->emitted)
        return true;
    if (tfm_tensor_read(j->model->ctx, j->weights, *weights) != TFM_OK)
        return false;
    j->emitted++;
    return j->emit(j->user, &(tfm_attention_map){
                                .kind = kind,
                                .layer = layer,
                                .heads = (int)weights->dims[1],
                                .rows = kind == TFM_ENCODER_SELF ? j->source.view : j->target.view,
                                .columns = kind == TFM_DECODER_SELF ? j->target.view : j->source.view,
                                .weights = j->weights,
                            });
}

static tfm_tensor upload(tfm_context *ctx, const axis *side) {
    tfm_tensor ids = {0};
    tfm_tensor_new(ctx, &ids, TFM_I32, 2, (int64_t[]){1, (int64_t)side->view.count});
    tfm_tensor_write(ctx, ids, side->ids);
    return ids;
}

static tfm_status show_all(job *j) {
    tfm_context *ctx = j->model->ctx;
    const tfm__arch *arch = &j->model->arch;
    const size_t heads =
        (size_t)(arch->encoder.heads > arch->decoder.heads ? arch->encoder.heads : arch->decoder.heads);
    const size_t s = j->source.view.count, t = j->target.view.count, longest = s > t ? s : t;
    j->weights = tfm__alloc(heads * longest * longest, sizeof(*j->weights));
    if (!j->weights)
        return TFM_ERROR_MEMORY;
    const int depth = tfm__scope_depth(ctx);
    tfm_status status;
    do {
        j->passed = 0;
        tfm_scope_open(ctx);
        tfm_tensor source = upload(ctx, &j->source), target = upload(ctx, &j->target);
        status = tfm_model_attention_maps(j->model, source, (tfm_tensor){0}, target, show_map, j);
        tfm_scope_close(ctx, 0, NULL);
    } while (tfm__context_retry(ctx, depth, tfm_context_status(ctx)));
    return status;
}

static tfm_status check_start(const tfm_model *model, int32_t start) {
    const int vocabulary = model->arch.decoder.vocabulary;
    return start >= 0 && start < vocabulary
               ? TFM_OK
               : tfm__fail(TFM_ERROR_ARGUMENT, "attention_maps: the start id is %d, the vocabulary has %d", (int)start,
                           vocabulary);
}

tfm_status tfm_attention_maps(tfm_model *model, const char *source, const char *target, const tfm_text_options *text,
                              const tfm_search_options *search, tfm_attention_map_fn emit, void *user) {
    if (TFM__NEEDS("attention_maps", model, source, emit ? "" : NULL) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    job j = {.model = model, .emit = emit, .user = user};
    const bool truncate = text && text->truncate;
    if (TFM__RESERVED_SET(text) || TFM__RESERVED_SET(search))
        return tfm__fail(TFM_ERROR_ARGUMENT, "attention_maps: %s", TFM__RESERVED_SET_MESSAGE);
    if (tfm__context_ready(model->ctx, "attention_maps") != TFM_OK)
        return tfm_context_status(model->ctx);
    if (tfm__model_needs(model, "attention_maps", TFM__NEEDS_ENCODER | TFM__NEEDS_DECODER | TFM__NEEDS_OUTPUT) !=
        TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (!model->tokenizer)
        return tfm__fail(TFM_ERROR_ARGUMENT, "the model was opened without its tokenizer: it takes ids, not text");
    tfm_status status = tfm__language_choice_read(&j.languages, model, text);
    tfm__language_choice_apply(&j.search, &j.languages, search);
    if (status == TFM_OK && j.search.has_decoder_start_id)
        status = check_start(model, j.search.decoder_start_id);
    if (status == TFM_OK)
        status = encode_source(&j, source, truncate);
    if (status == TFM_OK)
        status = target ? encode_target(&j, target, truncate) : translate_source(&j);
    if (status == TFM_OK)
        status = show_all(&j);
    tfm__language_choice_free(&j.languages);
    free_axis(&j.source);
    free_axis(&j.target);
    free(j.weights);
    return status;
}
