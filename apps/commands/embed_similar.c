/* The nearest neighbors of lines among the lines of a file, by cosine; a GEMM on the device. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "commands/embed.h"
#include <tfm/ops.h>

/* Scores computed at a time. */
enum { MOST_SCORES = 1 << 24 };

/* Scales rows to unit length, so that dot products are cosines. Zero rows and NaN have no neighbors. */
static void normalize(float *x, size_t rows, size_t width) {
    for (size_t r = 0; r < rows; r++) {
        double sum = 0;
        for (size_t i = 0; i < width; i++)
            sum += (double)x[r * width + i] * (double)x[r * width + i];
        for (size_t i = 0; i < width; i++)
            x[r * width + i] = sum > 0 ? (float)((double)x[r * width + i] / sqrt(sum)) : NAN;
    }
}

/* Bad lines of that file are reported and excluded. */
static bool on_reject(void *user, size_t line, const char *message) {
    embed_job *j = user;
    cli_fail("%s, line %zu: %s", j->others.name, line + 1, message);
    j->bad_count++;
    return true;
}

int embed_similar_read(embed_job *j) {
    const int width = tfm_embedder_get_info(j->embedder)->width;
    const int64_t dims[] = {(int64_t)j->others.count, j->width};
    tfm_embed_options options = j->options;
    if (j->others.count == 0)
        return cli_fail("%s has no lines: give --similar a file with texts to compare with", j->similar_file);
    float *vectors = calloc(j->others.count * (size_t)width, sizeof(*vectors));
    if (!vectors)
        return cli_fail("out of memory for the %zu lines of %s", j->others.count, j->similar_file);
    options.line_bytes = j->others.bytes;
    options.reject = on_reject;
    options.reject_user = j;
    tfm_status status = tfm_embed(j->embedder, vectors, j->others.text, j->others.count, &options);
    if (status == TFM_OK)
        status = tfm_embeddings_truncate(vectors, j->others.count, width, j->width);
    if (status == TFM_OK) {
        normalize(vectors, (size_t)dims[0], (size_t)dims[1]);
        status = tfm_tensor_new(j->ctx, &j->neighbors, TFM_F32, 2, dims);
    }
    if (status == TFM_OK)
        status = tfm_tensor_write(j->ctx, j->neighbors, vectors);
    free(vectors);
    return status == TFM_OK ? CLI_OK : cli_fail_library();
}

/* Reads the `top` best of some rows to the host. */
static tfm_status find(embed_job *j, float *scores, int32_t *lines, const float *rows, size_t count, int top) {
    tfm_tensor queries = {0}, all = {0}, best = {0}, which = {0};
    const int64_t dims[] = {(int64_t)count, j->neighbors.dims[1]};
    tfm_scope_open(j->ctx);
    tfm_tensor_new(j->ctx, &queries, TFM_F32, 2, dims);
    tfm_tensor_write(j->ctx, queries, rows);
    tfm_gemm(j->ctx, &all, queries, j->neighbors, &(tfm_gemm_options){.transpose_b = true});
    tfm_topk(j->ctx, &best, &which, NULL, all, top);
    tfm_tensor_read(j->ctx, scores, best);
    tfm_tensor_read(j->ctx, lines, which);
    return tfm_scope_close(j->ctx, 0, NULL);
}

static bool put_neighbors(embed_job *j, size_t line, const float *scores, const int32_t *lines, int top) {
    json_t *list = j->format == EMBED_JSON ? json_array() : NULL;
    if (!list && line > 0)
        fputc('\n', j->out.file); /* between the neighbors of two lines */
    for (int k = 0; k < top; k++) {
        if (!isfinite(scores[k]))
            continue;
        const char *text = j->others.text[lines[k]];
        if (list) {
            json_array_append_new(list, json_pack("{s:f, s:i, s:s}", "score", (double)scores[k], "line",
                                                  (int)lines[k] + 1, "text", text));
            continue;
        }
        fprintf(j->out.file, "%.6f\t%d\t", (double)scores[k], (int)lines[k] + 1);
        cli_write_line(j->out.file, text);
        fputc('\n', j->out.file);
    }
    return !list || cli_write_json(&j->out, json_pack("{s:I, s:o}", "index", (json_int_t)line, "similar", list), 9);
}

int embed_similar_write(embed_job *j, size_t count) {
    const size_t width = (size_t)j->neighbors.dims[1], most = MOST_SCORES / j->others.count + 1;
    const int top = (size_t)j->top < j->others.count ? j->top : (int)j->others.count;
    float *scores = calloc(most * (size_t)top, sizeof(*scores));
    int32_t *lines = calloc(most * (size_t)top, sizeof(*lines));
    int code = scores && lines ? CLI_OK : cli_fail("out of memory for the neighbors of %zu lines", count);
    normalize(j->numbers, count, width);
    for (size_t first = 0, n; first < count && code == CLI_OK; first += n) {
        n = count - first < most ? count - first : most;
        if (find(j, scores, lines, j->numbers + first * width, n, top) != TFM_OK)
            code = cli_fail_library();
        cli_progress(NULL); /* both may go to one terminal */
        for (size_t i = 0; i < n && code == CLI_OK; i++)
            if (!put_neighbors(j, j->in.first + first + i, scores + i * (size_t)top, lines + i * (size_t)top, top))
                code = cli_output_flush(&j->out);
    }
    free(scores);
    free(lines);
    return code;
}
