/* Sparse embeddings of lines: tokens and their weights. */
#include <jansson.h>
#include <stdlib.h>
#include "commands/embed.h"

/* Lines up to this one have been written; a bad line is an empty one. */
typedef struct weights {
    embed_job *job;
    size_t next;
} weights;

/* Larger weights first, of equal ones the smaller id. */
static int compare(const void *a, const void *b, void *user) {
    const tfm_sparse_embedding *v = user;
    const size_t i = *(const size_t *)a, k = *(const size_t *)b;
    return v->weights[i] != v->weights[k] ? (v->weights[i] < v->weights[k] ? 1 : -1) : (i > k) - (i < k);
}

static const char *piece_of(const embed_job *j, int32_t id) {
    const char *piece = tfm_tokenizer_piece(tfm_model_tokenizer(j->model), TFM_SOURCE, id);
    return piece ? piece : "";
}

/* `v` is NULL for a bad line; `order` has its `count` largest weights. */
static bool put_line(embed_job *j, size_t line, const tfm_sparse_embedding *v, const size_t *order, size_t count) {
    json_t *list = j->format == EMBED_JSON ? json_array() : NULL;
    for (size_t k = 0; k < count; k++) {
        const int32_t id = v->ids[order[k]];
        const double weight = (double)v->weights[order[k]];
        if (list) {
            json_array_append_new(
                list, json_pack("{s:i, s:s, s:f}", "id", (int)id, "token", piece_of(j, id), "weight", weight));
            continue;
        }
        fputs(k == 0 ? "" : "\t", j->out.file);
        cli_write_line(j->out.file, piece_of(j, id));
        fprintf(j->out.file, "\t%.6f", weight);
    }
    if (list)
        return cli_write_json(&j->out,
                              json_pack("{s:I, s:o}", "index", (json_int_t)(j->in.first + line), "weights", list), 9);
    fputc('\n', j->out.file);
    return cli_output_ok(&j->out);
}

static bool put_empty(weights *w, size_t line) {
    cli_progress(NULL); /* both may go to one terminal */
    while (w->next < line)
        if (!put_line(w->job, w->next++, NULL, NULL, 0))
            return false;
    return true;
}

static bool on_vector(void *user, const tfm_sparse_embedding *v) {
    weights *w = user;
    const size_t top = w->job->top && (size_t)w->job->top < v->count ? (size_t)w->job->top : v->count;
    size_t *order = malloc((v->count + 1) * sizeof(*order));
    bool put = order && put_empty(w, v->line);
    for (size_t i = 0; put && i < v->count; i++)
        order[i] = i;
    if (put)
        qsort_r(order, v->count, sizeof(*order), compare, (void *)(uintptr_t)v);
    put = put && put_line(w->job, v->line, v, order, top);
    w->next = v->line + 1;
    free(order);
    return put;
}

int embed_sparse(embed_job *j) {
    weights w = {.job = j};
    const tfm_status status = tfm_embed_sparse(j->model, j->in.text, j->in.count, &j->options, on_vector, &w);
    if (status == TFM_ERROR_CANCELLED)
        return cli_output_flush(&j->out);
    if (status != TFM_OK)
        return cli_fail_library();
    return put_empty(&w, j->in.count) ? CLI_OK : cli_output_flush(&j->out);
}
