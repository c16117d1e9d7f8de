/* Fill-mask: predictions for masked tokens. */
#include <math.h>
#include <string.h>
#include "model/tasks/encode_lines.h"
#include "tfm/ops.h"

/* Maximum number of predictions, the limit of tfm_topk. */
enum { MAX_PREDICTIONS = 64 };

typedef struct job {
    tfm__line_encoder line_encoder;
    int top;
    int32_t mask;
    size_t *first;    /* [count + 1]: index of a line's first mask */
    int32_t *ids;     /* [masks][top] */
    float *log_probs; /* [masks][top] */
    tfm_mask_prediction_fn emit;
    void *user;
} job;

static size_t count_masks(const tfm__line *line, int32_t mask) {
    size_t found = 0;
    for (size_t i = 0; i < line->count; i++)
        found += line->ids[i] == mask;
    return found;
}

/* Finds the masks; lines without one are rejected. */
static tfm_status find_masks(job *j, tfm__line *lines, size_t count) {
    const tfm_embed_options *o = j->line_encoder.options;
    const tfm_text_options reject = {.reject = o->reject, .reject_user = o->reject_user};
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    j->first = tfm__alloc(count + 1, sizeof(*j->first));
    if (!j->first)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const size_t found = count_masks(&lines[i], j->mask);
        tfm_status status = TFM_OK;
        j->first[i + 1] = j->first[i] + found;
        if (found == 0 && !lines[i].rejected) {
            tfm__fail(TFM_ERROR_INPUT, "there is no %s in the model's input",
                      tfm_tokenizer_piece(j->line_encoder.model->tokenizer, TFM_SOURCE, j->mask));
            status = tfm__line_reject(&lines[i], "", &reject, TFM_ERROR_INPUT, saved_message);
        }
        if (status != TFM_OK)
            return status;
    }
    j->ids = tfm__alloc((j->first[count] + 1) * (size_t)j->top, sizeof(*j->ids));
    j->log_probs = tfm__alloc((j->first[count] + 1) * (size_t)j->top, sizeof(*j->log_probs));
    return j->ids && j->log_probs ? TFM_OK : TFM_ERROR_MEMORY;
}

/* Top tokens at `count` rows of encoded (R, E), on the host. */
static tfm_status predict_rows(job *j, tfm_model *model, int32_t *ids, float *values, float *sums, tfm_tensor encoded,
                               const int32_t *rows, size_t count) {
    tfm_context *ctx = model->ctx;
    const int64_t size = (int64_t)count;
    tfm_tensor index = {0}, picked = {0}, logits = {0}, best = {0}, which = {0}, sum = {0};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &index, TFM_I32, 1, &size);
    tfm_tensor_write(ctx, index, rows);
    tfm_gather(ctx, &picked, encoded, index);
    tfm_model_mlm_logits(model, &logits, picked);
    tfm_topk(ctx, &best, &which, &sum, logits, j->top);
    tfm_tensor_read(ctx, values, best);
    tfm_tensor_read(ctx, ids, which);
    tfm_tensor_read(ctx, sums, sum);
    return tfm_scope_close(ctx, 0, NULL);
}

/* Masks per batch of predictions, since each has logits of the whole vocabulary. */
enum { MASKS_PER_BATCH = 256 };

static tfm_status predict_masks(job *j, tfm_model *model, tfm_tensor encoded, const int32_t *rows, const size_t *places,
                                size_t count) {
    const size_t top = (size_t)j->top;
    int32_t *ids = tfm__alloc(count * top, sizeof(*ids));
    float *values = tfm__alloc(count * (top + 1), sizeof(*values));
    tfm_status status = ids && values ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = predict_rows(j, model, ids, values, values + count * top, encoded, rows, count);
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        for (size_t k = 0; k < top; k++) {
            j->ids[places[i] * top + k] = ids[i * top + k];
            j->log_probs[places[i] * top + k] = values[i * top + k] - values[count * top + i];
        }
    free(ids);
    free(values);
    return status;
}

static tfm_status run_batch(void *user, tfm_model *model, tfm__line *const *batch, size_t n) {
    job *j = user;
    tfm_context *ctx = model->ctx;
    tfm__encoded_batch in = {{0}, {0}, {0}};
    tfm_tensor encoded = {0}, flat = {0};
    int32_t rows[MASKS_PER_BATCH];
    size_t places[MASKS_PER_BATCH], waiting = 0;
    tfm_scope_open(ctx);
    tfm__line_encoder_upload(&j->line_encoder, ctx, &in, batch, n);
    tfm__model_encode_typed(model, &encoded, in.ids, in.types, in.lengths);
    tfm_status status = tfm_context_status(ctx);
    const int64_t width = status == TFM_OK ? encoded.dims[1] : 0;
    if (status == TFM_OK)
        status = tfm_tensor_reshape(ctx, &flat, encoded, 2, (int64_t[]){encoded.dims[0] * width, encoded.dims[2]});
    for (size_t i = 0; i < n && status == TFM_OK; i++) {
        size_t place = j->first[batch[i]->index];
        for (size_t k = 0; k < batch[i]->count && status == TFM_OK; k++) {
            if (batch[i]->ids[k] != j->mask)
                continue;
            rows[waiting] = (int32_t)((int64_t)i * width + (int64_t)k);
            places[waiting++] = place++;
            if (waiting == MASKS_PER_BATCH) {
                status = predict_masks(j, model, flat, rows, places, waiting);
                waiting = 0;
            }
        }
    }
    if (status == TFM_OK && waiting > 0)
        status = predict_masks(j, model, flat, rows, places, waiting);
    const tfm_status closed = tfm_scope_close(ctx, 0, NULL);
    return status == TFM_OK ? closed : status;
}

static tfm_status emit_all(const job *j, size_t count) {
    const tfm_tokenizer *tokenizer = j->line_encoder.model->tokenizer;
    tfm_status status = TFM_OK;
    for (size_t line = 0; line < count; line++)
        for (size_t m = j->first[line]; m < j->first[line + 1]; m++)
            for (int k = 0; k < j->top && status == TFM_OK; k++) {
                const size_t at = m * (size_t)j->top + (size_t)k;
                const char *piece = tfm_tokenizer_piece(tokenizer, TFM_SOURCE, j->ids[at]);
                char *text = NULL;
                status = tfm_tokenizer_decode(tokenizer, &text, &j->ids[at], 1);
                /* special tokens have no text: use their name */
                const bool nameless = status == TFM_OK && !*text && piece && strcmp(piece, "\xe2\x96\x81") != 0;
                const tfm_mask_prediction word = {.line = line,
                                                  .mask = m - j->first[line],
                                                  .rank = k,
                                                  .id = j->ids[at],
                                                  .piece = piece ? piece : "",
                                                  .text = nameless ? piece : text,
                                                  .probability = exp((double)j->log_probs[at])};
                if (status == TFM_OK && !j->emit(j->user, &word))
                    status = tfm__fail(TFM_ERROR_CANCELLED, "fill-mask was stopped at line %zu", line + 1);
                tfm_text_free(&text);
            }
    return status;
}

static tfm_status check(tfm_model *model, int top) {
    if (tfm__context_ready(model->ctx, "fill_mask") != TFM_OK)
        return tfm_context_status(model->ctx);
    if (tfm__model_needs(model, "fill_mask", TFM__NEEDS_ENCODER | TFM__NEEDS_MLM_HEAD) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    const int words = model->arch.encoder.vocabulary, most = words < MAX_PREDICTIONS ? words : MAX_PREDICTIONS;
    if (top < 1 || top > most)
        return tfm__fail(TFM_ERROR_ARGUMENT, "fill_mask: top is %d: give 1 to %d", top, most);
    if (model->tokenizer && tfm_tokenizer_get_info(model->tokenizer)->mask < 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, "fill_mask: the model's tokenizer has no mask token");
    return TFM_OK;
}

tfm_status tfm_fill_mask(tfm_model *model, const char *const *lines, size_t count, int top_k,
                         const tfm_embed_options *options, tfm_mask_prediction_fn emit, void *user) {
    static const tfm_embed_options defaults;
    if (TFM__NEEDS("fill_mask", model, lines, emit ? "" : NULL) != TFM_OK ||
        tfm__needs_texts("fill_mask", "lines", lines, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    options = options ? options : &defaults;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "fill_mask: %s", TFM__RESERVED_SET_MESSAGE);
    if (tfm__batch_check("fill_mask", options->batch_tokens) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (options->token_ids)
        return tfm__fail(TFM_ERROR_ARGUMENT, "fill_mask: token_ids are not supported: give lines");
    tfm_status status = check(model, top_k);
    if (status != TFM_OK)
        return status;
    job j = {.top = top_k,
             .emit = emit,
             .user = user,
             .line_encoder = {.model = model,
                              .options = options,
                              .max_tokens = (size_t)model->arch.encoder.max_positions,
                              .prompt = options->prompt}};
    tfm__line *encoded = NULL;
    const double start = tfm__seconds();
    status = tfm__line_encoder_open(&j.line_encoder, "fill_mask");
    if (status == TFM_OK)
        j.mask = tfm_tokenizer_get_info(model->tokenizer)->mask;
    if (status == TFM_OK)
        status = tfm__line_encoder_encode(&j.line_encoder, &encoded, lines, count);
    if (status == TFM_OK)
        status = find_masks(&j, encoded, count);
    if (status == TFM_OK)
        status = tfm__line_encoder_run(&j.line_encoder, encoded, count, run_batch, &j);
    if (status == TFM_OK)
        tfm__line_encoder_count(&j.line_encoder, start);
    if (status == TFM_OK)
        status = emit_all(&j, count);
    tfm__lines_free(&encoded, encoded ? count : 0);
    free(j.first);
    free(j.ids);
    free(j.log_probs);
    return status;
}
