/* Sequence classification and masked-token prediction of lines. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include "commands/embed.h"

/* ---- Classes --------------------------------------------------------------------------------------------------- */

/* The class with the next smaller score after `after`; -1: the best. Of equal ones the first. */
static int next_best(const float *scores, int count, int after) {
    int best = -1;
    for (int i = 0; i < count; i++) {
        const bool below = after < 0 || scores[i] < scores[after] || (scores[i] == scores[after] && i > after);
        if (below && (best < 0 || scores[i] > scores[best]))
            best = i;
    }
    return best;
}

static bool put_classes(embed_job *j, size_t line, const float *scores, int count) {
    const bool json = j->format == EMBED_JSON, bad = j->bad[line] || isnan(scores[0]);
    json_t *list = json ? json_array() : NULL;
    for (int k = 0, at = -1; k < j->top && k < count && !bad; k++) {
        at = next_best(scores, count, at);
        const char *name = tfm_model_class_name(j->model, (size_t)at);
        if (json) {
            json_array_append_new(list, json_pack("{s:s, s:f}", "label", name, "score", (double)scores[at]));
            continue;
        }
        fputs(k == 0 ? "" : "\t", j->out.file);
        cli_write_line(j->out.file, name);
        fprintf(j->out.file, "\t%.6f", (double)scores[at]);
    }
    if (json)
        return cli_write_json(&j->out,
                              json_pack("{s:I, s:o}", "index", (json_int_t)(j->in.first + line), "classes", list), 9);
    fputc('\n', j->out.file);
    return cli_output_ok(&j->out);
}

int embed_classify(embed_job *j) {
    const int count = (int)tfm_model_class_count(j->model);
    if (!cli_grow(&j->numbers, &j->room, j->in.count * (size_t)count + 1, sizeof(*j->numbers)))
        return cli_fail("out of memory for the classes of %zu lines", j->in.count);
    if (tfm_classify(j->model, j->numbers, j->in.text, j->in.count, &j->options) != TFM_OK)
        return cli_fail_library();
    cli_progress(NULL); /* both may go to one terminal */
    for (size_t i = 0; i < j->in.count; i++)
        if (!put_classes(j, i, j->numbers + i * (size_t)count, count))
            return cli_output_flush(&j->out);
    return CLI_OK;
}

/* ---- Masked tokens --------------------------------------------------------------------------------------------- */

/* Lines up to this one have been written; a line without a prediction is an empty one. */
typedef struct words {
    embed_job *job;
    size_t next;
    json_t *list; /* of the current mask */
} words;

static bool put_empty(words *w, size_t line) {
    embed_job *j = w->job;
    cli_progress(NULL); /* both may go to one terminal */
    for (; w->next < line; w->next++) {
        if (j->format != EMBED_JSON)
            fputc('\n', j->out.file);
        else if (!cli_write_json(&j->out,
                                 json_pack("{s:I, s:[]}", "index", (json_int_t)(j->in.first + w->next), "words"), 9))
            return false;
    }
    return cli_output_ok(&j->out);
}

static bool put_word(words *w, const tfm_mask_prediction *g) {
    embed_job *j = w->job;
    const bool last = g->rank + 1 == j->top;
    if (j->format == EMBED_JSON) {
        if (g->rank == 0)
            w->list = json_array();
        json_array_append_new(w->list,
                              json_pack("{s:s, s:i, s:f}", "text", g->text, "id", (int)g->id, "score", g->probability));
        return !last || cli_write_json(&j->out,
                                       json_pack("{s:I, s:I, s:o}", "index", (json_int_t)(j->in.first + g->line),
                                                 "mask", (json_int_t)g->mask, "words", w->list),
                                       9);
    }
    fputs(g->rank == 0 ? "" : "\t", j->out.file);
    cli_write_line(j->out.file, g->text);
    fprintf(j->out.file, last ? "\t%.6f\n" : "\t%.6f", g->probability);
    return cli_output_ok(&j->out);
}

static bool on_prediction(void *user, const tfm_mask_prediction *guess) {
    words *w = user;
    if (!put_empty(w, guess->line))
        return false;
    w->next = guess->line + 1;
    return put_word(w, guess);
}

int embed_fill_mask(embed_job *j) {
    words w = {.job = j};
    const tfm_status status = tfm_fill_mask(j->model, j->in.text, j->in.count, j->top, &j->options, on_prediction, &w);
    if (status == TFM_ERROR_CANCELLED)
        return cli_output_flush(&j->out);
    if (status != TFM_OK)
        return cli_fail_library();
    return put_empty(&w, j->in.count) ? CLI_OK : cli_output_flush(&j->out);
}
