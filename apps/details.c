/* What is known of a translation besides its text, as JSON. */
#include <jansson.h>
#include <math.h>
#include "cli.h"

json_t *cli_number_json(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *cli_tokens_json(const tfm_attention_axis *axis) {
    json_t *all = json_array();
    for (size_t i = 0; i < axis->count; i++) {
        json_t *token = json_string(axis->tokens[i]); /* NULL where it is a part of a character */
        json_array_append_new(all, token ? token : json_string("\xEF\xBF\xBD"));
    }
    return all;
}

json_t *cli_weights_json(const tfm_translation *t) {
    json_t *rows = json_array();
    for (size_t r = 0; t->alignment && r < t->target.count; r++) {
        json_t *row = json_array();
        for (size_t c = 0; c < t->source.count; c++)
            json_array_append_new(row, cli_number_json((double)t->alignment[r * t->source.count + c]));
        json_array_append_new(rows, row);
    }
    return rows;
}

json_t *cli_details_json(const tfm_translation *t) {
    return json_pack("{s:o, s:o, s:o}", "source", cli_tokens_json(&t->source), "target", cli_tokens_json(&t->target),
                     "weights", cli_weights_json(t));
}
