/* What training takes, counted before anything is made: which tensors an update holds at its widest moment. A
 * test compares it with what the pool came to. */
#include "ops/gemm.h"
#include "train/trainer.h"

/* The sum so far, in blocks as the pool cuts them. */
typedef struct sum {
    uint64_t bytes;
    uint64_t width, rows; /* E; tokens of a side */
} sum;

static void add(sum *s, uint64_t times, uint64_t floats) {
    s->bytes += times * tfm__pool_block(4 * floats);
}

/* Tensors (rows, width) each. */
static void add_rows(sum *s, uint64_t times, uint64_t width) {
    add(s, times, s->rows * width);
}

/* What the tape holds of the layers: of attention the queries, keys, values and result, of a norm its input
 * and result, of a feed-forward layer `inner` tensors between its matrices: one, and another where activation
 * or dropout cannot go back from their results alone. */
static void add_layers(sum *s, const tfm__config *c, uint64_t inner) {
    const uint64_t encoder = (uint64_t)c->encoder_layers, decoder = (uint64_t)c->decoder_layers;
    add_rows(s, encoder * (4 + 2 * 2), s->width);
    add_rows(s, encoder * inner, (uint64_t)c->encoder_ffn);
    add_rows(s, encoder, (uint64_t)c->encoder_heads);
    add_rows(s, decoder * (2 * 4 + 3 * 2), s->width);
    add_rows(s, decoder * inner, (uint64_t)c->decoder_ffn);
    add_rows(s, decoder * 2, (uint64_t)c->decoder_heads);
    add_rows(s, 2 * (2 * encoder + 3 * decoder), 1); /* means and deviations */
}

/* What CLBlast takes for itself, where the products are its, in the widest of those of a layer on `rows`
 * rows: y = x w^T, dx = dy w and dw += dy^T x. */
static uint64_t clblast_bytes(const tfm_model *m, uint64_t rows, uint64_t inputs, uint64_t outputs) {
    const int64_t r = (int64_t)rows, in = (int64_t)inputs, out = (int64_t)outputs;
    const tfm__gemm_task tasks[] = {
        {.batch = 1, .m = r, .n = out, .k = in, .transpose_b = true},
        {.batch = 1, .m = r, .n = in, .k = out},
        {.batch = 1, .m = out, .n = in, .k = r, .transpose_a = true, .accumulate = true},
    };
    uint64_t most = 0;
    for (size_t i = 0; i < TFM_COUNT(tasks); i++) {
        const bool own = tfm__gemm_choose(m->ctx, &tasks[i]) != &tfm__gemm_clblast;
        const uint64_t bytes = own ? 0 : tfm__gemm_clblast_memory(m->ctx, &tasks[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Embeddings, final norms, the loss, and the gradients on the way back. */
static void add_rest(sum *s, const tfm_model *m, uint64_t inner, bool wide) {
    const uint64_t vocabulary = (uint64_t)m->config.decoder_vocab_size;
    const uint64_t encoder = (uint64_t)m->config.encoder_ffn, decoder = (uint64_t)m->config.decoder_ffn;
    const int norms =
        (m->source_norm.gamma.value.buffer != NULL) + (m->target_norm.gamma.value.buffer != NULL) +
        (m->encoder_norm.gamma.value.buffer != NULL) + (m->decoder_norm.gamma.value.buffer != NULL);
    const uint64_t chunk = (uint64_t)tfm__cross_entropy_chunk((int64_t)s->rows, (int64_t)vocabulary);
    add_rows(s, 2 + (uint64_t)norms, s->width);
    add(s, 1, chunk * vocabulary); /* logits, then their gradient */
    add(s, wide ? 1 : 0, vocabulary * s->width);
    add_rows(s, 5, s->width);
    const uint64_t ffn = encoder > decoder ? encoder : decoder;
    add_rows(s, wide ? inner + 1 : inner, ffn);
    const uint64_t products[] = {clblast_bytes(m, chunk, s->width, vocabulary),
                                 clblast_bytes(m, s->rows, s->width, ffn > s->width ? ffn : s->width)};
    s->bytes += products[0] > products[1] ? products[0] : products[1];
}

uint64_t tfm_trainer_memory(const tfm_model *model, const tfm_trainer_options *options, int64_t tokens) {
    const tfm__config *c = &model->config;
    const tfm__row *row = tfm__context_row(model->ctx);
    const bool wide = row->class == TFM__WIDE && row->gemm_rows > 0; /* keeps packed copies of weights */
    const bool dropped = options && options->activation_dropout > 0;
    const uint64_t inner = c->activation == TFM_RELU && !dropped ? 1 : 2;
    const uint64_t parameters = model->info.parameters;
    const int64_t most = (int64_t)1 << 32; /* nobody has that much, and products stay in range */
    sum s = {.width = (uint64_t)c->d_model,
             .rows = (uint64_t)(tokens > most ? most
                                : tokens > 1  ? tokens
                                              : 1)};
    sum opening = s;
    add(&opening, 5, parameters); /* while they move in */
    add(&s, wide ? 5 : 4, parameters);
    add(&s, 2, (uint64_t)c->max_positions * s.width);
    const uint64_t lasting = s.bytes;
    add_layers(&s, c, inner);
    add_rest(&s, model, inner, wide);
    s.bytes += (s.bytes - lasting) / 8; /* batches of other shapes want blocks of other sizes */
    return s.bytes > opening.bytes ? s.bytes : opening.bytes;
}
