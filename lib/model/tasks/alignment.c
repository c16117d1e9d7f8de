/* Alignments: cross-attention weights of each generated token over the source. The search's fused attention does not
 * store weights, so source and translation pass through the model again. */
#include <stdio.h>
#include "model/tasks/batch.h"

enum { NAME_BYTES = 16 }; /* of an id without a piece: "#2147483647" */

const char **tfm__token_names(const tfm_model *model, tfm_side side, const int32_t *ids, size_t count) {
    const char **pieces = tfm__alloc(count, sizeof(*pieces) + NAME_BYTES);
    char *name = (char *)(pieces + count);
    for (size_t i = 0; pieces && i < count; i++, name += NAME_BYTES) {
        pieces[i] = model->tokenizer ? tfm_tokenizer_piece(model->tokenizer, side, ids[i]) : NULL;
        if (!pieces[i]) {
            snprintf(name, NAME_BYTES, "#%d", (int)ids[i]);
            pieces[i] = name;
        }
    }
    return pieces;
}

/* A padded batch of pairs. */
typedef struct job {
    tfm_model *model;
    const tfm__aligned *pairs;
    size_t count;
    int64_t source_width, written_width;
    int32_t start;                /* decoder start token */
    int layer, first_head, heads; /* from 0; heads to average */
    tfm_status status;
} job;

/* Averages the requested heads, pair by pair, without the padding. */
static void average(const job *j, const float *weights, size_t all_heads) {
    const size_t width = (size_t)j->source_width, head = width * (size_t)j->written_width;
    for (size_t p = 0; p < j->count; p++) {
        const tfm__aligned *pair = &j->pairs[p];
        for (size_t row = 0; row < pair->written_count; row++)
            for (size_t column = 0; column < pair->source_count; column++) {
                double sum = 0;
                for (size_t h = (size_t)j->first_head; h < (size_t)(j->first_head + j->heads); h++)
                    sum += (double)weights[(p * all_heads + h) * head + row * width + column];
                pair->weights[row * pair->source_count + column] = (float)(sum / j->heads);
            }
    }
}

static bool wants(void *user, tfm_attention_kind kind, int layer) {
    return kind == TFM_DECODER_CROSS && layer == ((const job *)user)->layer;
}

/* Copies the weights and stops the pass, since later layers are not needed. */
static bool take(void *user, tfm_attention_kind kind, int layer, const tfm_tensor *weights) {
    (void)kind, (void)layer;
    job *j = user;
    float *host = tfm__alloc(tfm_tensor_count(*weights), sizeof(*host));
    j->status = host ? tfm_tensor_read(j->model->ctx, host, *weights) : TFM_ERROR_MEMORY;
    if (j->status == TFM_OK)
        average(j, host, (size_t)weights->dims[1]);
    free(host);
    return false;
}

static tfm_tensor upload(tfm_context *ctx, const int32_t *ids, int rank, const int64_t *dims) {
    tfm_tensor x = {0};
    tfm_tensor_new(ctx, &x, TFM_I32, rank, dims);
    tfm_tensor_write(ctx, x, ids);
    return x;
}

/* Inputs of encoder and decoder; the latter is the start token and all tokens except the last. */
static void pad(const job *j, int32_t *source, int32_t *read, int32_t *lengths) {
    const int32_t padding = j->model->rules.pad_id;
    for (size_t p = 0; p < j->count; p++) {
        const tfm__aligned *pair = &j->pairs[p];
        lengths[p] = (int32_t)pair->source_count;
        tfm__ids_pad(source + (int64_t)p * j->source_width, j->source_width, pair->source, pair->source_count, 0, 0,
                     padding);
        tfm__ids_pad(read + (int64_t)p * j->written_width, j->written_width, pair->written, pair->written_count, 1,
                     j->start, padding);
    }
}

static tfm_status align_batch(job *j) {
    tfm_context *ctx = j->model->ctx;
    const int64_t rows = (int64_t)j->count;
    int32_t *source = tfm__alloc((size_t)(rows * j->source_width), sizeof(*source));
    int32_t *read = tfm__alloc((size_t)(rows * j->written_width), sizeof(*read));
    int32_t *lengths = tfm__alloc((size_t)rows, sizeof(*lengths));
    tfm_status status = source && read && lengths ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK) {
        pad(j, source, read, lengths);
        tfm__observer watch = {.on_weights = take, .wants = wants, .user = j};
        tfm_tensor encoded = {0}, hidden = {0};
        tfm_scope_open(ctx);
        tfm_tensor ids = upload(ctx, source, 2, (int64_t[]){rows, j->source_width});
        tfm_tensor input = upload(ctx, read, 2, (int64_t[]){rows, j->written_width});
        tfm_tensor counts = upload(ctx, lengths, 1, &rows);
        tfm_model_encode(j->model, &encoded, ids, counts);
        tfm__model_decode_hidden(j->model, &hidden, input, encoded, counts, &watch);
        status = tfm_scope_close(ctx, 0, NULL);
        status = status == TFM_OK ? j->status : status;
    }
    free(source);
    free(read);
    free(lengths);
    return status;
}

/* Chooses the next pairs: at most 64 MiB of weights of the layer, and a search batch's tokens per side; at least one
 * pair. */
static void choose(job *j, const tfm__aligned *pairs, size_t count, int64_t heads, size_t tokens) {
    const int64_t most = (64 << 20) / (int64_t)sizeof(float);
    j->pairs = pairs;
    j->count = 0;
    j->source_width = j->written_width = 0;
    for (size_t i = 0; i < count; i++) {
        const int64_t source = (int64_t)pairs[i].source_count, written = (int64_t)pairs[i].written_count;
        const int64_t wide = source > j->source_width ? source : j->source_width;
        const int64_t high = written > j->written_width ? written : j->written_width;
        const int64_t rows = (int64_t)i + 1, longer = wide > high ? wide : high;
        if (i > 0 && (rows * heads * wide * high > most || rows * longer > (int64_t)tokens))
            return;
        j->source_width = wide;
        j->written_width = high;
        j->count = i + 1;
    }
}

tfm_status tfm__align(tfm_model *model, const tfm__aligned *pairs, size_t count, int32_t start,
                      const tfm_text_options *options) {
    const tfm__stack_arch *decoder = &model->arch.decoder;
    const int layer = options->alignment_layer ? options->alignment_layer : decoder->layers;
    const int head = options->alignment_head;
    job j = {.model = model,
             .start = start,
             .layer = layer - 1,
             .first_head = head ? head - 1 : 0,
             .heads = head ? 1 : decoder->heads};
    const size_t tokens = tfm__batch_limits(model, options->batch_tokens, 1).tokens;
    tfm_status status = TFM_OK;
    for (size_t first = 0; first < count && status == TFM_OK; first += j.count) {
        choose(&j, pairs + first, count - first, decoder->heads, tokens);
        status = align_batch(&j);
    }
    return status;
}
