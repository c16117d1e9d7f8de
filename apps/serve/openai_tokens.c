/* /tokenize and /detokenize, in the forms of vLLM and of llama.cpp's server. */
#include <stdlib.h>
#include <string.h>
#include "serve/openai.h"
#include "serve/server.h"

/* The model of a request; the first one that generates text if it has no name. NULL with the error reply. */
static serve_model *model_of(serve_request *r, serve_reply *reply) {
    for (size_t i = 0; !serve_request_text(r, "model") && i < r->server->models.count; i++)
        if (r->server->models.items[i]->task == SERVE_GENERATE)
            return r->server->models.items[i];
    return serve_openai_model(r, SERVE_GENERATE, "generate text", reply);
}

/* A field that is not null, or NULL. */
static json_t *given(const serve_request *r, const char *name) {
    json_t *value = json_object_get(r->fields, name);
    return json_is_null(value) ? NULL : value;
}

/* The text: the prompt, or the messages of a chat rendered as a prompt. NULL with the error reply. */
static json_t *text_of(serve_request *r, const serve_model *model, serve_reply *reply) {
    json_t *text = given(r, "content") ? given(r, "content") : given(r, "prompt");
    if (!serve_fields_check(r, SERVE_TOKENIZE_FIELDS, reply))
        return NULL;
    if (given(r, "messages")) {
        json_t *list = serve_chat_prompt(r, model, reply);
        text = json_incref(json_array_get(list, 0));
        json_decref(list);
        return text;
    }
    const size_t limit = (size_t)r->chars;
    if (json_is_string(text) && serve_characters(json_string_value(text), json_string_length(text)) <= limit)
        return json_incref(text);
    *reply =
        json_is_string(text)
            ? serve_reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE, "the text has more than %zu characters", limit)
            : serve_reply_field(r, "prompt", NULL, "Invalid request: give a text as prompt or content, or messages");
    return NULL;
}

/* A boolean of vLLM or llama.cpp. */
static bool is_set(const serve_request *r, const char *one, const char *other, bool fallback) {
    const json_t *value = given(r, one) ? given(r, one) : given(r, other);
    return value ? json_is_true(value) : fallback;
}

/* The text of a token; bytes that are no UTF-8 as numbers, as llama.cpp does. */
static json_t *token_text(const serve_model *model, int32_t id) {
    char *bytes = NULL;
    size_t count = 0;
    if (tfm_tokenizer_token_bytes(model->tokenizer, &bytes, &count, id) != TFM_OK)
        return NULL;
    json_t *text = json_stringn(bytes, count);
    for (size_t i = 0; i < count && (text = text ? text : json_array()) && json_is_array(text); i++)
        json_array_append_new(text, json_integer((unsigned char)bytes[i]));
    tfm_text_free(&bytes);
    return text;
}

/* The list of ids; with `pieces` of ids and texts. */
static json_t *ids_json(const serve_model *model, const int32_t *ids, size_t count, bool pieces) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, pieces
                                        ? json_pack("{s:i, s:o}", "id", (int)ids[i], "piece", token_text(model, ids[i]))
                                        : json_integer(ids[i]));
    return list;
}

bool serve_tokenize(serve_request *r, serve_reply *reply) {
    const serve_model *model = model_of(r, reply);
    json_t *text = model ? text_of(r, model, reply) : NULL;
    const bool chat = given(r, "messages") != NULL;
    int32_t *ids = NULL;
    size_t count = 0;
    if (!text)
        return false;
    const tfm_encode_options options = {.no_special_tokens = !is_set(r, "add_special_tokens", "add_special", !chat)};
    const tfm_status status = tfm_tokenizer_encode_with(model->tokenizer, &ids, &count, TFM_TARGET,
                                                        json_string_value(text), json_string_length(text), &options);
    if (status == TFM_OK) {
        json_t *value =
            json_pack("{s:I, s:i, s:o}", "count", (json_int_t)count, "max_model_len", model->positions, "tokens",
                      ids_json(model, ids, count, is_set(r, "with_pieces", "with_pieces", false)));
        json_t *strings = is_set(r, "return_token_strs", "return_token_strs", false) ? json_array() : NULL;
        for (size_t i = 0; strings && i < count; i++)
            json_array_append_new(strings, json_string(tfm_tokenizer_piece(model->tokenizer, TFM_TARGET, ids[i])));
        if (strings)
            json_object_set_new(value, "token_strs", strings);
        *reply = serve_reply_json(MHD_HTTP_OK, value);
    } else {
        *reply = serve_reply_field(r, "prompt", NULL, "Invalid request: %s", tfm_error_message());
    }
    tfm_ids_free(&ids);
    json_decref(text);
    return false;
}

bool serve_detokenize(serve_request *r, serve_reply *reply) {
    if (!serve_fields_check(r, SERVE_DETOKENIZE_FIELDS, reply))
        return false;
    const serve_model *model = model_of(r, reply);
    const json_t *list = json_object_get(r->fields, "tokens");
    const size_t count = json_array_size(list);
    int32_t *ids = model ? calloc(count ? count : 1, sizeof(*ids)) : NULL;
    bool good = ids && json_is_array(list);
    char *text = NULL;
    for (size_t i = 0; good && i < count; i++) {
        const json_t *id = json_array_get(list, i);
        good = serve_is_token_id(id, model);
        ids[i] = (int32_t)json_number_value(id);
    }
    if (good && tfm_tokenizer_decode(model->tokenizer, &text, ids, count) == TFM_OK)
        *reply = serve_reply_json(MHD_HTTP_OK, json_pack("{s:s, s:s}", "prompt", text, "content", text));
    else if (good)
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "%s", tfm_error_message());
    else if (model)
        *reply = serve_reply_field(r, "tokens", NULL, "Invalid request: tokens is not a list of ids from 0 to %d",
                                   model->vocabulary - 1);
    tfm_text_free(&text);
    free(ids);
    return false;
}
