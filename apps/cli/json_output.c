/* JSON output of commands: lines, statistics, tokens and scores of generated texts. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include "cli/cli.h"

bool cli_write_json(cli_output *out, json_t *value, int digits) {
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(digits)) : NULL;
    json_decref(value);
    if (text)
        fprintf(out->file, "%s\n", text);
    else
        out->error = ENOMEM;
    free(text);
    return cli_output_ok(out);
}

void cli_print_json(json_t *value) {
    json_dumpf(value, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(value);
}

void cli_print_stats(json_t *object) {
    cli_output out = {.file = stderr};
    fputs("stats ", stderr);
    cli_write_json(&out, object, 12);
}

json_t *cli_rounded_json(double value, int decimals) {
    const double scale = pow(10, decimals);
    return cli_number_json(round(value * scale) / scale);
}

json_t *cli_number_json(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *cli_tokens_json(const tfm_token_list *axis) {
    json_t *all = json_array();
    for (size_t i = 0; i < axis->count; i++) {
        json_t *token = json_string(axis->tokens[i]); /* NULL for a part of a character */
        json_array_append_new(all, token ? token : json_string("\xEF\xBF\xBD"));
    }
    return all;
}

/* {"id", "piece", "log_prob"} of each token; without a tokenizer there are no pieces. */
static json_t *scored_tokens_json(const tfm_token_list *axis, const float *log_probs, bool pieces) {
    json_t *all = json_array();
    for (size_t i = 0; i < axis->count; i++) {
        json_t *piece = pieces ? json_string(axis->tokens[i]) : NULL;
        json_array_append_new(all, json_pack("{s:i, s:o*, s:o}", "id", (int)axis->ids[i], "piece", piece, "log_prob",
                                             cli_number_json((double)log_probs[i])));
    }
    return all;
}

json_t *cli_hypothesis_json(size_t index, int rank, const char *text, double score, double log_prob,
                            const tfm_token_list *tokens, const float *log_probs) {
    return json_pack("{s:I, s:i, s:s*, s:o, s:o, s:o}", "index", (json_int_t)index, "rank", rank, "text", text, "score",
                     cli_number_json(score), "log_prob", cli_number_json(log_prob), "tokens",
                     scored_tokens_json(tokens, log_probs, text != NULL));
}

json_t *cli_alignment_weights_json(const tfm_translation *t) {
    json_t *rows = json_array();
    for (size_t r = 0; t->alignment && r < t->target.count; r++) {
        json_t *row = json_array();
        for (size_t c = 0; c < t->source.count; c++)
            json_array_append_new(row, cli_number_json((double)t->alignment[r * t->source.count + c]));
        json_array_append_new(rows, row);
    }
    return rows;
}

json_t *cli_alignment_json(const tfm_translation *t) {
    return json_pack("{s:o, s:o, s:o}", "source", cli_tokens_json(&t->source), "target", cli_tokens_json(&t->target),
                     "weights", cli_alignment_weights_json(t));
}
