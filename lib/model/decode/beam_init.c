/* First rows of a search. */
#include <math.h>
#include "model/decode/beam.h"

/* First rows on the host. */
typedef struct first {
    int32_t *tokens, *block_table, *sentences, *sources, *starts;
    float *scores;
} first;

/* First row of every sentence: the start token, or the last token of its prompt; one live beam each. */
static void fill_first(first *f, const tfm__beam *beam, const tfm__beam_past *past) {
    const int64_t each = beam->rows / beam->live;
    for (int64_t i = 0; i < beam->live; i++)
        f->sentences[i] = (int32_t)i;
    for (int64_t i = 0; i <= beam->live; i++)
        f->starts[i] = (int32_t)(i * each);
    for (int64_t i = 0; i < beam->rows; i++) {
        const int64_t sentence = i / each;
        int32_t *line = f->block_table + i * (beam->past_columns + 1);
        for (int64_t k = 0; k < beam->past_columns; k++)
            line[k] = past->block_table[sentence * beam->past_columns + k];
        line[beam->past_columns] = (int32_t)(beam->slot + i);
        f->tokens[i] = past ? past->last[sentence] : (int32_t)beam->rules->start_id;
        f->sources[i] = (int32_t)sentence;
        f->scores[i] = i % each ? -INFINITY : 0;
    }
}

/* First slots: the prompts, then the first rows. */
static void upload_prompts(tfm__beam *beam, const tfm__beam_past *past, int64_t rows) {
    tfm_tensor prompts = {0}, first_inputs = {0};
    if (past->slots > 0) {
        tfm_tensor_rows(beam->ctx, &prompts, beam->slot_token, 0, past->slots);
        tfm_tensor_write(beam->ctx, prompts, past->tokens);
    }
    tfm_tensor_rows(beam->ctx, &first_inputs, beam->slot_token, past->slots, rows);
    tfm__tensor_copy(beam->ctx, first_inputs, beam->tokens);
}

tfm_status tfm__beam_init_rows(tfm__beam *beam, const tfm__beam_past *past) {
    tfm_context *ctx = beam->ctx;
    const int64_t rows = beam->rows, past_width = beam->past_columns + 1;
    first f = {.tokens = tfm__alloc((size_t)rows, sizeof(*f.tokens)),
               .block_table = tfm__alloc((size_t)(rows * past_width), sizeof(*f.block_table)),
               .sentences = tfm__alloc((size_t)beam->live, sizeof(*f.sentences)),
               .sources = tfm__alloc((size_t)rows, sizeof(*f.sources)),
               .starts = tfm__alloc((size_t)beam->live + 1, sizeof(*f.starts)),
               .scores = tfm__alloc((size_t)rows, sizeof(*f.scores))};
    if (f.tokens && f.block_table && f.sentences && f.sources && f.starts && f.scores) {
        fill_first(&f, beam, past);
        beam->scores = tfm__beam_floats(ctx, rows);
        tfm_tensor_write(ctx, beam->scores, f.scores);
        tfm_tensor_new(ctx, &beam->block_table, TFM_I32, 2, (int64_t[]){rows, past_width});
        tfm_tensor_write(ctx, beam->block_table, f.block_table);
        beam->sentences = tfm__beam_ints_of(ctx, f.sentences, beam->live);
        beam->sources = tfm__beam_ints_of(ctx, f.sources, rows);
        beam->tokens = tfm__beam_ints_of(ctx, f.tokens, rows);
        if (beam->ragged)
            beam->starts = tfm__beam_ints_of(ctx, f.starts, beam->live + 1);
        if (past)
            upload_prompts(beam, past, rows);
        for (int64_t i = 0; i < beam->live && beam->present; i++)
            beam->present[i] = f.sentences[i];
    } else {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "search: out of host memory for %lld rows", (long long)rows);
    }
    void *all[] = {f.tokens, f.block_table, f.sentences, f.sources, f.starts, f.scores};
    for (size_t i = 0; i < TFM__COUNT(all); i++)
        free(all[i]);
    return tfm_context_status(ctx);
}
