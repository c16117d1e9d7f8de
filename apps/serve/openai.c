/* What OpenAI's clients ask for: models, vectors, texts, chats. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include "serve.h"

/* ---- Models ---------------------------------------------------------------------------------------------------- */

bool serve_v1_models(serve_request *r, serve_reply *reply) {
    json_t *list = json_array();
    for (size_t i = 0; i < r->server->models.count; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:s}", "id", r->server->models.items[i].name, "object",
                                              "model", "created", 0, "owned_by", "tfm"));
    *reply = serve_reply_json(MHD_HTTP_OK, json_pack("{s:s, s:o}", "object", "list", "data", list));
    return false;
}

/* The model that a request names, if it is for such a task. */
static serve_model *find_model(serve_request *r, serve_task task, const char *doing, serve_reply *reply) {
    const char *name = serve_request_text(r, "model");
    serve_model *m = name ? serve_model_named(&r->server->models, name) : NULL;
    if (!name)
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: missing model parameter");
    else if (!m)
        *reply = serve_reply_error(r, MHD_HTTP_NOT_FOUND, "There is no model '%.60s'; see /v1/models", name);
    else if (m->task != task)
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "The model '%s' does not %s", m->name, doing);
    return m && m->task == task ? m : NULL;
}

/* The texts of a field, which is one or a list. */
static json_t *read_texts(serve_request *r, const char *name, serve_reply *reply) {
    json_t *value = json_object_get(r->fields, name);
    json_t *list = json_is_string(value) ? json_pack("[O]", value) : json_incref(value);
    bool good = json_is_array(list) && json_array_size(list) > 0;
    size_t characters = 0;
    for (size_t i = 0; good && i < json_array_size(list); i++) {
        const json_t *text = json_array_get(list, i);
        good = json_is_string(text);
        if (good)
            characters += serve_characters(json_string_value(text), json_string_length(text));
    }
    if (good && characters <= (size_t)r->server->options->limits.chars &&
        json_array_size(list) <= (size_t)r->server->options->limits.lines)
        return list;
    *reply =
        good ? serve_reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE,
                                 "%s has %zu texts and %zu characters: at most %d and %d are taken", name,
                                 json_array_size(list), characters, r->server->options->limits.lines,
                                 r->server->options->limits.chars)
             : serve_reply_error(r, MHD_HTTP_BAD_REQUEST,
                                 "Invalid request: %s is no text and no list of texts; token ids are not taken", name);
    json_decref(list);
    return NULL;
}

/* A job with a piece for each text of the list, which it takes over. */
static serve_job *job_of(serve_request *r, json_t *list, serve_model *model, serve_reply *reply) {
    serve_job *job = serve_job_new(json_array_size(list));
    if (!job) {
        json_decref(list);
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
        return NULL;
    }
    job->source = list;
    job->texts = r->lines = job->count;
    job->key.model = model;
    for (size_t i = 0; i < job->count; i++) {
        const json_t *text = json_array_get(list, i);
        job->pieces[i] = (cli_piece){.text = json_string_value(text), .bytes = json_string_length(text), .of = i};
    }
    return job;
}

static bool queue(serve_request *r, serve_job *job, serve_reply (*answer)(serve_request *r), serve_reply *reply) {
    r->job = job;
    r->answer = answer;
    if (serve_queue_add(r->server, job, r->connection, r->client))
        return true;
    *reply = serve_reply_error(r, job->answer_code, "%s", job->failure ? job->failure : "out of memory");
    reply->retry_after = job->retry_after;
    return false;
}

static json_t *usage(uint64_t read, uint64_t written) {
    return json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)read, "completion_tokens", (json_int_t)written,
                     "total_tokens", (json_int_t)(read + written));
}

/* ---- Vectors --------------------------------------------------------------------------------------------------- */

/* Numbers as base64 of little-endian floats, which OpenAI's own client asks for. */
static json_t *base64_json(const float *numbers, size_t count) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t bytes = 4 * count;
    unsigned char *raw = malloc(bytes + 3);
    char *text = malloc(4 * ((bytes + 2) / 3) + 1), *at = text;
    for (size_t i = 0; raw && i < count; i++) {
        uint32_t word;
        memcpy(&word, &numbers[i], 4);
        for (size_t k = 0; k < 4; k++)
            raw[4 * i + k] = (unsigned char)(word >> (8 * k));
    }
    for (size_t i = 0; raw && text && i < bytes; i += 3) {
        const size_t left = bytes - i;
        const uint32_t three =
            (uint32_t)raw[i] << 16 | (uint32_t)(left > 1 ? raw[i + 1] : 0) << 8 | (uint32_t)(left > 2 ? raw[i + 2] : 0);
        *at++ = digits[three >> 18];
        *at++ = digits[three >> 12 & 63];
        *at++ = left > 1 ? digits[three >> 6 & 63] : '=';
        *at++ = left > 2 ? digits[three & 63] : '=';
    }
    json_t *value = raw && text ? json_stringn(text, (size_t)(at - text)) : NULL;
    free(raw);
    free(text);
    return value;
}

static json_t *numbers_json(const float *numbers, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, isfinite(numbers[i]) ? json_real((double)numbers[i]) : json_null());
    return list;
}

static serve_reply answer_vectors(serve_request *r) {
    const serve_job *job = r->job;
    const char *format = serve_request_text(r, "encoding_format");
    const bool packed = format && strcmp(format, "base64") == 0;
    json_t *data = json_array();
    for (size_t i = 0; i < job->count; i++) {
        const float *vector = job->vectors + i * (size_t)job->width;
        json_t *value = packed ? base64_json(vector, (size_t)job->width) : numbers_json(vector, (size_t)job->width);
        json_array_append_new(data,
                              json_pack("{s:s, s:i, s:o}", "object", "embedding", "index", (int)i, "embedding", value));
    }
    uint64_t tokens = 0;
    for (size_t i = 0; i < job->count; i++)
        tokens += job->results[i].source_tokens;
    return serve_reply_json(MHD_HTTP_OK, json_pack("{s:s, s:o, s:s, s:{s:I, s:I}}", "object", "list", "data", data,
                                                   "model", job->key.model->name, "usage", "prompt_tokens",
                                                   (json_int_t)tokens, "total_tokens", (json_int_t)tokens));
}

bool serve_v1_embeddings(serve_request *r, serve_reply *reply) {
    const char *format = serve_request_text(r, "encoding_format");
    serve_model *model = find_model(r, SERVE_EMBED, "make vectors", reply);
    if (model && format && strcmp(format, "float") != 0 && strcmp(format, "base64") != 0) {
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: encoding_format is float or base64");
        model = NULL;
    }
    if (model && json_object_get(r->fields, "dimensions") && !json_is_null(json_object_get(r->fields, "dimensions"))) {
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: vectors are not cut to dimensions here");
        model = NULL;
    }
    json_t *list = model ? read_texts(r, "input", reply) : NULL;
    serve_job *job = list ? job_of(r, list, model, reply) : NULL;
    return job && queue(r, job, answer_vectors, reply);
}

/* ---- Texts ----------------------------------------------------------------------------------------------------- */

/* A number from low to high; `fallback` where there is none. */
static bool read_real(serve_request *r, const char *name, double low, double high, double fallback, double *out,
                      serve_reply *reply) {
    const json_t *value = json_object_get(r->fields, name);
    *out = fallback;
    if (!value || json_is_null(value))
        return true;
    *out = json_number_value(value);
    if (json_is_number(value) && *out >= low && *out <= high)
        return true;
    *reply =
        serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: %s is no number from %g to %g", name, low, high);
    return false;
}

/* What would change the text and is not done, is refused by its name. */
static bool refuse_rest(serve_request *r, serve_reply *reply) {
    static const char *const NAMES[] = {
        "suffix",       "echo",        "logprobs",       "logit_bias",        "best_of",
        "tools",        "tool_choice", "functions",      "frequency_penalty", "presence_penalty",
        "top_logprobs", "audio",       "response_format"};
    for (size_t i = 0; i < CLI_COUNT(NAMES); i++) {
        const json_t *value = json_object_get(r->fields, NAMES[i]);
        if (!value || json_is_null(value) || json_is_false(value) ||
            (json_is_number(value) && json_number_value(value) == 0) ||
            (json_is_array(value) && !json_array_size(value)))
            continue;
        *reply =
            serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: %s is not done here: leave it away", NAMES[i]);
        return false;
    }
    return true;
}

static bool read_stops(serve_request *r, serve_job *job, serve_reply *reply) {
    const json_t *value = json_object_get(r->fields, "stop");
    const size_t count = json_is_array(value) ? json_array_size(value) : json_is_string(value) ? 1 : 0;
    bool good = !value || json_is_null(value) || count > 0 || json_is_array(value);
    job->stops = calloc(count ? count : 1, sizeof(*job->stops));
    for (size_t i = 0; job->stops && i < count && good; i++) {
        const char *text = json_string_value(json_is_array(value) ? json_array_get(value, i) : value);
        good = text && *text && count <= 16 && (job->stops[i] = strdup(text));
        job->generate.stop_count += good;
    }
    job->generate.stops = (const char *const *)job->stops;
    if (!good || !job->stops)
        *reply =
            serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: stop is no text and no list of at most 16");
    return good && job->stops;
}

/* How the text is to be made. What draws or stops early is a batch of its own, so that its numbers are its own. */
static bool read_options(serve_request *r, serve_job *job, serve_reply *reply) {
    const int most = r->server->options->limits.max_new;
    double temperature, top_p;
    int seed = 0, n = 1, max_new = most < 256 ? most : 256;
    if (!serve_request_whole(r, "max_tokens", 1, most, max_new, &max_new, reply) ||
        !serve_request_whole(r, "max_completion_tokens", 1, most, max_new, &max_new, reply) ||
        !serve_request_whole(r, "n", 1, SERVE_TEXTS, 1, &n, reply) ||
        !serve_request_whole(r, "seed", 0, INT32_MAX, -1, &seed, reply) ||
        !read_real(r, "temperature", 0, 2, 1, &temperature, reply) ||
        !read_real(r, "top_p", 1e-6, 1, 1, &top_p, reply) || !refuse_rest(r, reply) || !read_stops(r, job, reply))
        return false;
    tfm_generate_options *g = &job->generate;
    g->max_new = job->key.max_new = max_new;
    g->draw = temperature > 0;
    g->temperature = g->draw ? (float)temperature : 0;
    g->top_p = g->draw ? (float)top_p : 0;
    g->n_best = job->key.n_best = n;
    g->seed = (uint64_t)seed;
    if (seed < 0 && getrandom(&g->seed, sizeof(g->seed), 0) != sizeof(g->seed))
        g->seed = (uint64_t)time(NULL);
    if (!g->draw && n > 1) {
        *reply =
            serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: with temperature 0 all n texts are the same");
        return false;
    }
    static uint64_t numbers; /* of this thread alone */
    job->key.alone = g->draw || g->stop_count > 0 ? ++numbers : 0;
    job->created = (int64_t)time(NULL);
    uint64_t id = 0;
    if (getrandom(&id, sizeof(id), 0) != sizeof(id))
        id = ++numbers;
    snprintf(job->id, sizeof(job->id), "%s-%016" PRIx64, job->chat ? "chatcmpl" : "cmpl", id);
    return true;
}

static json_t *choice_json(const serve_job *job, size_t piece, int best) {
    const serve_result *result = &job->results[piece];
    const char *text = result->texts && result->texts[best] ? result->texts[best] : "";
    const char *finish = result->finish[best] ? result->finish[best] : "stop";
    const int index = (int)piece * job->key.n_best + best;
    if (job->chat)
        return json_pack("{s:i, s:{s:s, s:s}, s:s}", "index", index, "message", "role", "assistant", "content", text,
                         "finish_reason", finish);
    return json_pack("{s:i, s:s, s:n, s:s}", "index", index, "text", text, "logprobs", "finish_reason", finish);
}

static serve_reply answer_texts(serve_request *r) {
    const serve_job *job = r->job;
    uint64_t read = 0, written = 0;
    json_t *choices = json_array();
    for (size_t i = 0; i < job->count; i++) {
        for (int best = 0; best < job->key.n_best; best++)
            json_array_append_new(choices, choice_json(job, i, best));
        read += job->results[i].source_tokens;
        written += job->results[i].target_tokens;
    }
    return serve_reply_json(MHD_HTTP_OK, json_pack("{s:s, s:s, s:I, s:s, s:o, s:o}", "id", job->id, "object",
                                                   job->chat ? "chat.completion" : "text_completion", "created",
                                                   (json_int_t)job->created, "model", job->key.model->name, "choices",
                                                   choices, "usage", usage(read, written)));
}

static bool begin_texts(serve_request *r, serve_model *model, json_t *prompts, bool chat, serve_reply *reply) {
    serve_job *job = prompts ? job_of(r, prompts, model, reply) : NULL;
    if (!job)
        return false;
    job->chat = chat;
    const bool streams = json_is_true(json_object_get(r->fields, "stream"));
    bool good = read_options(r, job, reply);
    if (good && streams && !(job->stream = serve_stream_new(r->server))) {
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the stream");
        good = false;
    }
    if (!good) {
        serve_job_free(job);
        return false;
    }
    return queue(r, job, answer_texts, reply);
}

bool serve_v1_completions(serve_request *r, serve_reply *reply) {
    serve_model *model = find_model(r, SERVE_GENERATE, "go on with texts", reply);
    return model && begin_texts(r, model, read_texts(r, "prompt", reply), false, reply);
}

bool serve_v1_chat(serve_request *r, serve_reply *reply) {
    serve_model *model = find_model(r, SERVE_GENERATE, "go on with texts", reply);
    json_t *prompt = model ? serve_chat_prompt(r, model, reply) : NULL;
    return prompt && begin_texts(r, model, prompt, true, reply);
}
