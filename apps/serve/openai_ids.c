/* Inputs of OpenAI's API that are texts or token ids. */
#include <stdlib.h>
#include <string.h>
#include "serve/openai.h"
#include "serve/server.h"

bool serve_is_token_id(const json_t *value, const serve_model *model) {
    const double id = json_number_value(value); /* 4.0 is 4 */
    return json_is_number(value) && id >= 0 && id < model->vocabulary && id == (int32_t)id;
}

/* Whether a value is one list of token ids. */
static bool is_ids(const json_t *value) {
    bool are = json_array_size(value) > 0;
    for (size_t i = 0; are && i < json_array_size(value); i++)
        are = json_is_number(json_array_get(value, i));
    return are;
}

json_t *serve_openai_inputs(serve_request *r, const char *name, json_t **lists, serve_reply *reply) {
    json_t *value = json_object_get(r->fields, name);
    const bool several = json_is_array(value) && is_ids(json_array_get(value, 0));
    *lists = is_ids(value) ? json_pack("[O]", value) : several ? json_incref(value) : NULL;
    if (!*lists)
        return serve_openai_texts(r, name, reply);
    json_t *texts = json_array();
    bool good = true;
    for (size_t i = 0; i < json_array_size(*lists); i++) {
        good = good && is_ids(json_array_get(*lists, i));
        json_array_append_new(texts, json_string(""));
    }
    const size_t most = (size_t)r->server->options->limits.lines;
    if (good && json_array_size(*lists) <= most)
        return texts;
    *reply = good ? serve_reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE,
                                      "%s has %zu lists of token ids: at most %zu are "
                                      "taken",
                                      name, json_array_size(*lists), most)
                  : serve_reply_field(r, name, NULL, "Invalid request: %s mixes token ids and something else", name);
    json_decref(texts);
    json_decref(*lists);
    *lists = NULL;
    return NULL;
}

bool serve_openai_check_length(const serve_request *r, const serve_job *job, size_t i, const char *name,
                               serve_reply *reply) {
    const int most = job->key.model->positions;
    if (job->id_counts[i] <= (size_t)most)
        return true;
    *reply = serve_reply_field(r, name, "context_length_exceeded",
                               "This model's maximum context length is %d tokens, and %s %zu has %zu: shorten it", most,
                               job->chat ? "chat" : name, i, job->id_counts[i]);
    return false;
}

bool serve_openai_read_ids(const serve_request *r, serve_job *job, const json_t *lists, const char *name,
                           serve_reply *reply) {
    job->ids = calloc(job->count, sizeof(*job->ids));
    job->id_counts = calloc(job->count, sizeof(*job->id_counts));
    bool good = job->ids && job->id_counts;
    for (size_t i = 0; i < job->count && good; i++) {
        const json_t *list = json_array_get(lists, i);
        job->id_counts[i] = json_array_size(list);
        job->ids[i] = calloc(job->id_counts[i], sizeof(**job->ids));
        good = job->ids[i] != NULL;
        for (size_t k = 0; good && k < job->id_counts[i]; k++) {
            const json_t *id = json_array_get(list, k);
            if (!serve_is_token_id(id, job->key.model)) {
                *reply = serve_reply_field(r, name, NULL, "Invalid request: token ids of %s are from 0 to %d", name,
                                           job->key.model->vocabulary - 1);
                return false;
            }
            job->ids[i][k] = (int32_t)json_number_value(id);
        }
        if (good && !serve_openai_check_length(r, job, i, name, reply))
            return false;
    }
    if (!good)
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
    return good;
}

/* ---- Fill in the middle ---------------------------------------------------------------------------------------- */

/* Characters of DeepSeek's tokens: U+FF5C and U+2581. */
#define BAR "\xEF\xBD\x9C"
#define BLANK "\xE2\x96\x81"

/* Special tokens before the prompt, before the suffix, and before the text between them: of Qwen and CodeGemma, of
 * StarCoder and Granite, and of DeepSeek. */
static const char *const FILL_IN[][3] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
    {"<" BAR "fim" BLANK "begin" BAR ">", "<" BAR "fim" BLANK "hole" BAR ">", "<" BAR "fim" BLANK "end" BAR ">"}};

/* The tokens of the model; NULL if it has none. */
static const char *const *fill_in_tokens(const serve_model *model) {
    for (size_t i = 0; i < CLI_COUNT(FILL_IN); i++) {
        bool has = true;
        for (size_t k = 0; k < CLI_COUNT(FILL_IN[i]); k++)
            has = has && tfm_tokenizer_piece_id(model->tokenizer, TFM_TARGET, FILL_IN[i][k]) >= 0;
        if (has)
            return FILL_IN[i];
    }
    return NULL;
}

bool serve_openai_fill_in(const serve_request *r, serve_job *job, bool ids, serve_reply *reply) {
    const char *suffix = json_string_value(json_object_get(r->fields, "suffix"));
    if (!suffix || !*suffix)
        return true;
    const char *const *tokens = ids || job->echo ? NULL : fill_in_tokens(job->key.model);
    if (!tokens) {
        *reply = serve_reply_field(r, "suffix", "unsupported_parameter",
                                   "Invalid request: suffix is not supported %s: leave it out",
                                   ids         ? "with token ids"
                                   : job->echo ? "with echo"
                                               : "by the model, which has no tokens to fill in the middle");
        return false;
    }
    for (size_t i = 0; i < job->count; i++) {
        cli_segment *segment = &job->segments[i];
        json_t *text = json_sprintf("%s%s%s%s%s", tokens[0], segment->text, tokens[1], suffix, tokens[2]);
        if (json_array_set_new(job->source, i, text) != 0) {
            *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
            return false;
        }
        segment->text = json_string_value(text);
        segment->bytes = json_string_length(text);
    }
    return true;
}
