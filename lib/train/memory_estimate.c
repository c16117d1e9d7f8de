/* Estimates training memory before allocation: the tensors of an update at its peak. A test compares it with the pool's
 * peak. */
#include "ops/gemm/gemm.h"
#include "train/trainer.h"
#include "ops/ops.h"

/* The estimate so far, in pool block sizes. */
typedef struct estimate {
    uint64_t bytes;
    uint64_t width, rows; /* E; tokens of a side */
} estimate;

static void add(estimate *s, uint64_t times, uint64_t floats) {
    s->bytes += times * tfm__pool_block_bytes(4 * floats);
}

/* `times` tensors of (rows, width). */
static void add_rows(estimate *s, uint64_t times, uint64_t width) {
    add(s, times, s->rows * width);
}

/* Total width of the query heads. */
static uint64_t heads_width(const tfm__stack_arch *a) {
    return (uint64_t)a->heads * (uint64_t)a->head_width;
}

/* Relative position bias: gathered and added, per table, with gradients. Its size depends on the batch width, which is
 * unknown here: at most a sixteenth of the tokens. */
static void add_relative(estimate *s, const tfm__stack_arch *a, uint64_t tables) {
    const uint64_t usual = s->rows / 16, most = 256, width = usual < 1 ? 1 : usual < most ? usual : most;
    if (a->relative.buckets)
        add(s, 4 * tables, (uint64_t)a->heads * width * width);
}

/* Attention: queries, keys, values and result, and the first two before a per-head norm. */
static void add_attention(estimate *s, const tfm__stack_arch *a, uint64_t times) {
    const uint64_t tensors = a->head_norms ? 3 : 2;
    add_rows(s, times * tensors, heads_width(a));
    add_rows(s, times * tensors, (uint64_t)a->kv_heads * (uint64_t)a->head_width);
    add_rows(s, times, (uint64_t)a->heads); /* the log-sum-exp values */
}

/* Layers on the tape: attention as above; for a norm its input and result; for a feed-forward layer `inner` tensors
 * between its matrices: one, two if the backward of activation or dropout needs more than the results, or three with a
 * gate. */
static void add_layers(estimate *s, const tfm__stack_arch *a, uint64_t inner, uint64_t layers) {
    const uint64_t attentions = layers * (a->cross ? 2 : 1);
    const uint64_t norms = attentions + layers * (a->norm_placement == TFM_NORM_SANDWICH ? 3 : 1);
    add_attention(s, a, attentions);
    add_rows(s, norms * 2, s->width);
    add_rows(s, layers * inner, (uint64_t)a->feed_forward);
    add_rows(s, norms * 2, 1); /* means and deviations */
}

/* Activation checkpointing: the inputs of each block, and the activations of the larger kind of block. */
static void add_recomputed(estimate *s, const tfm__arch *arch, uint64_t inner) {
    const tfm__stack_arch *stacks[] = {&arch->encoder, &arch->decoder};
    uint64_t largest = 0;
    for (int i = 0; i < 2; i++) {
        estimate one = {.width = s->width, .rows = s->rows};
        add_layers(&one, stacks[i], inner, stacks[i]->layers ? 1 : 0);
        add_relative(stacks[i]->relative.per_layer ? &one : s, stacks[i], 1);
        largest = one.bytes > largest ? one.bytes : largest;
        add_rows(s, 2 * (uint64_t)stacks[i]->layers, s->width);
    }
    s->bytes += largest;
}

/* GEMM workspace: of the loss, and of the widest layer's input and output. */
static uint64_t gemm_memory(const tfm_model *m, tfm_dtype precision, int64_t rows, int64_t chunk, int64_t widest) {
    const int64_t width = m->arch.decoder.width, vocabulary = m->arch.decoder.vocabulary;
    const tfm_dtype before = tfm__context_set_gemm_input_dtype(m->ctx, precision);
    const uint64_t into = tfm__gemm_layer_memory(m->ctx, rows, width, widest);
    const uint64_t out_of = tfm__gemm_layer_memory(m->ctx, rows, widest, width);
    const uint64_t loss = tfm__gemm_layer_memory(m->ctx, chunk, width, vocabulary);
    tfm__context_set_gemm_input_dtype(m->ctx, before);
    return loss + (into > out_of ? into : out_of);
}

/* Embeddings, final norms, the loss, and the gradients of the backward pass. */
static void add_rest(estimate *s, const tfm_model *m, tfm_dtype precision, uint64_t inner) {
    const uint64_t vocabulary = (uint64_t)m->arch.decoder.vocabulary;
    const uint64_t encoder = (uint64_t)m->arch.encoder.feed_forward, decoder = (uint64_t)m->arch.decoder.feed_forward;
    const int norms = m->arch.encoder.embedding_norm + m->arch.decoder.embedding_norm + m->arch.encoder.final_norm +
                      m->arch.decoder.final_norm;
    const uint64_t chunk = (uint64_t)tfm__cross_entropy_chunk((int64_t)s->rows, (int64_t)vocabulary);
    add_rows(s, 2 + (uint64_t)norms + (m->arch.output_scale != 0) + 3 * m->arch.decoder.projected, s->width);
    add(s, 1, chunk * vocabulary); /* logits, then their gradient */
    add_rows(s, 5, s->width);
    const uint64_t ffn = encoder > decoder ? encoder : decoder, widest = ffn > s->width ? ffn : s->width;
    add_rows(s, inner, ffn);
    s->bytes += gemm_memory(m, precision, (int64_t)s->rows, (int64_t)chunk, (int64_t)widest);
}

/* Counts trained parameters. */
typedef struct trained_count {
    const tfm_model *model;
    const tfm_trainer_options *options;
    uint64_t count;
} trained_count;

static tfm_status count_param(void *user, const tfm__parameter *p) {
    trained_count *t = user;
    if (!tfm__trainer_freezes(t->model, t->options, p))
        t->count += (uint64_t)(p->dims[0] * (p->rank == 2 ? p->dims[1] : 1));
    return TFM_OK;
}

static uint64_t sinusoids_of(const tfm__stack_arch *a) {
    return a->positions == TFM__SINUSOIDS ? (uint64_t)a->max_positions * (uint64_t)a->width : 0;
}

/* The most moment elements of a rank. */
static uint64_t moments_of(const tfm_trainer_options *options, uint64_t count) {
    if (!options || !options->shard_optimizer || !options->process_group || options->process_group->world_size < 2)
        return count;
    const int64_t whole = (int64_t)count;
    return (uint64_t)tfm__shard_capacity(
        &(tfm__bucket_layout){whole, whole, TFM__BUCKET_SIZE, options->process_group->world_size}, 0);
}

uint64_t tfm_trainer_estimate_memory(const tfm_model *model, const tfm_trainer_options *options, int64_t tokens) {
    if (!model)
        return 0;
    if (TFM__RESERVED_SET(options)) {
        tfm__fail(TFM_ERROR_ARGUMENT, "trainer_memory: %s", TFM__RESERVED_SET_MESSAGE);
        return 0;
    }
    const tfm__arch *a = &model->arch;
    const bool dropped = options && options->activation_dropout > 0;
    const uint64_t inner = a->decoder.gated ? 3 : a->decoder.activation == TFM_RELU && !dropped ? 1 : 2;
    const uint64_t parameters = model->info.parameters;
    trained_count t = {.model = model, .options = options};
    tfm__params_visit(model->family, a, NULL, count_param, &t);
    const int64_t most = (int64_t)1 << 32; /* more than any device has; avoids overflow */
    estimate s = {.width = (uint64_t)a->decoder.width,
                  .rows = (uint64_t)(tokens > most ? most
                                     : tokens > 1  ? tokens
                                                   : 1)};
    const bool packs = tfm__gemm_layer_packs(model->ctx, (int64_t)s.rows, (int64_t)s.width, (int64_t)s.width);
    estimate setup = s;
    const uint64_t moments = moments_of(options, t.count);
    add(&setup, 3, t.count); /* during the move into flat tensors */
    add(&setup, 2, moments);
    add(&setup, 1, parameters - t.count);
    /* Weights, and packed copies as the evaluation needs them; copies of bf16 GEMMs are half as large. */
    add(&s, packs ? 2 : 1, parameters);
    add(&s, 1, t.count); /* gradients */
    add(&s, 2, moments);
    add(&s, 1, sinusoids_of(&a->encoder));
    add(&s, 1, sinusoids_of(&a->decoder));
    const uint64_t lasting = s.bytes;
    if (options && options->gradient_checkpointing) {
        add_recomputed(&s, a, inner);
    } else {
        add_layers(&s, &a->encoder, inner, (uint64_t)a->encoder.layers);
        add_layers(&s, &a->decoder, inner, (uint64_t)a->decoder.layers);
        add_relative(&s, &a->encoder, (uint64_t)tfm__position_bias_tables(&a->encoder));
        add_relative(&s, &a->decoder, (uint64_t)tfm__position_bias_tables(&a->decoder));
    }
    add_rest(&s, model, options ? options->precision : TFM_F32, inner);
    s.bytes += (s.bytes - lasting) / 8; /* batches of other shapes need blocks of other sizes */
    return s.bytes > setup.bytes ? s.bytes : setup.bytes;
}
