/* OpenAI's API: completions of prompts and chats. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include "serve/openai.h"
#include "serve/server.h"

/* ---- Options --------------------------------------------------------------------------------------------------- */

/* A number from low to high; `fallback` if absent. */
static bool read_real(serve_request *r, const char *name, double low, double high, double fallback, double *out,
                      serve_reply *reply) {
    const json_t *value = json_object_get(r->fields, name);
    *out = fallback;
    if (!value || json_is_null(value))
        return true;
    *out = json_number_value(value);
    if (json_is_number(value) && *out >= low && *out <= high)
        return true;
    *reply = serve_reply_field(r, name, NULL, "Invalid request: %s is not a number from %g to %g", name, low, high);
    return false;
}

static bool read_stops(serve_request *r, serve_job *job, serve_reply *reply) {
    const json_t *value = json_object_get(r->fields, "stop");
    const serve_model *model = job->key.model;
    const size_t count = json_is_array(value) ? json_array_size(value) : json_is_string(value) ? 1 : 0;
    bool good = !value || json_is_null(value) || json_is_string(value) || json_is_array(value);
    job->stops = calloc(count + CLI_COUNT(model->chat.end_texts), sizeof(*job->stops));
    for (size_t i = 0; job->stops && i < count && good; i++) {
        const char *text = json_string_value(json_is_array(value) ? json_array_get(value, i) : value);
        good = text && *text && count <= 16 && (job->stops[i] = strdup(text));
        job->generate.stop_string_count += good;
    }
    for (int i = 0; good && job->stops && job->chat && i < model->chat.end_text_count; i++)
        if ((job->stops[job->generate.stop_string_count] = strdup(model->chat.end_texts[i])))
            job->generate.stop_string_count++;
    job->generate.stop_strings = (const char *const *)job->stops;
    if (!good || !job->stops)
        *reply = serve_reply_field(r, "stop", NULL,
                                   "Invalid request: stop is not a non-empty string or a list of at most 16");
    return good && job->stops;
}

/* Whether a value is an id of the vocabulary; 4.0 is 4. */
static bool is_id(const json_t *value, const serve_model *model) {
    const double id = json_number_value(value);
    return json_is_number(value) && id >= 0 && id < model->vocabulary && id == (int32_t)id;
}

/* Stop tokens besides the model's own: of the request, and of chat turns. */
static bool read_stop_ids(serve_request *r, serve_job *job, serve_reply *reply) {
    const json_t *value = json_object_get(r->fields, "stop_token_ids");
    const serve_model *model = job->key.model;
    const size_t count = json_array_size(value);
    job->stop_ids = calloc(count + CLI_COUNT(model->chat.ends), sizeof(*job->stop_ids));
    for (size_t i = 0; job->stop_ids && i < count; i++) {
        const json_t *id = json_array_get(value, i);
        if (!is_id(id, model)) {
            *reply = serve_reply_field(r, "stop_token_ids", NULL,
                                       "Invalid request: stop_token_ids is not a list of ids from 0 to %d",
                                       model->vocabulary - 1);
            return false;
        }
        job->stop_ids[job->stop_id_count++] = (int32_t)json_number_value(id);
    }
    for (int i = 0; job->stop_ids && job->chat && i < model->chat.end_count; i++)
        job->stop_ids[job->stop_id_count++] = model->chat.ends[i];
    if (!job->stop_ids)
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
    return job->stop_ids != NULL;
}

/* A 64-bit seed, signed or unsigned; a random one if absent or -1. */
static bool read_seed(serve_request *r, uint64_t *seed, serve_reply *reply) {
    const json_t *value = json_object_get(r->fields, "seed");
    const double real = json_real_value(value);
    if (json_is_integer(value))
        *seed = (uint64_t)json_integer_value(value);
    else if (json_is_real(value) && real >= -0x1p63 && real <= 0x1p64)
        *seed = real >= 0x1p64 ? UINT64_MAX : real < 0 ? (uint64_t)(int64_t)real : (uint64_t)real;
    else if (value && !json_is_null(value)) {
        *reply = serve_reply_field(r, "seed", NULL, "Invalid request: seed is not an integer of 64 bits");
        return false;
    }
    const bool none = !value || json_is_null(value) || json_number_value(value) == -1;
    if (none && getrandom(seed, sizeof(*seed), 0) != sizeof(*seed))
        *seed = (uint64_t)time(NULL);
    return true;
}

/* Options of sampling. `top_k`, `min_p` and `repetition_penalty` default to the model's directory. */
static bool read_sampling(serve_request *r, tfm_generate_options *g, serve_reply *reply) {
    double temperature, top_p, min_p, penalty;
    int top_k;
    if (!read_real(r, "temperature", 0, 2, 1, &temperature, reply) || !read_real(r, "top_p", 0, 1, 1, &top_p, reply) ||
        !read_real(r, "min_p", 0, 1, -1, &min_p, reply) ||
        !read_real(r, "repetition_penalty", 0.01, 100, 0, &penalty, reply) ||
        !serve_request_integer(r, "top_k", -1, INT32_MAX, -2, &top_k, reply) || !read_seed(r, &g->seed, reply))
        return false;
    g->repetition_penalty = (float)penalty;
    g->sample = temperature >= 1e-5; /* below, only the most likely token is left */
    if (!g->sample)
        return true;
    g->temperature = (float)temperature;
    g->top_p = top_p < 1e-6 ? 1e-6F : (float)top_p;              /* 0: the most likely token */
    g->top_k = top_k == -2 ? 0 : top_k <= 0 ? INT32_MAX : top_k; /* -1 and 0: all, as in vLLM and llama.cpp */
    g->min_p = min_p < 0 ? 0 : min_p < (double)FLT_MIN ? FLT_MIN : (float)min_p;
    return true;
}

/* Maximum and minimum tokens. -1 is no limit, as in llama.cpp. */
static bool read_lengths(serve_request *r, tfm_generate_options *g, serve_reply *reply) {
    const int most = r->server->options->limits.max_new_tokens, usual = most < 256 ? most : 256;
    static const char *const NAMES[] = {"max_tokens", "max_completion_tokens"};
    for (size_t i = 0; i < CLI_COUNT(NAMES); i++) {
        const json_t *asked = json_object_get(r->fields, NAMES[i]);
        if (json_is_number(asked) && json_number_value(asked) == -1)
            json_object_del(r->fields, NAMES[i]);
    }
    int max_new_tokens = usual;
    if (!serve_request_integer(r, "max_tokens", 1, most, max_new_tokens, &max_new_tokens, reply) ||
        !serve_request_integer(r, "max_completion_tokens", 1, most, max_new_tokens, &max_new_tokens, reply) ||
        !serve_request_integer(r, "min_tokens", 0, max_new_tokens, 0, &g->min_new_tokens, reply))
        return false;
    g->max_new_tokens = max_new_tokens;
    return true;
}

/* Biases: {"id": bias} as OpenAI's, or [[id, bias], ...] as llama.cpp's, where false suppresses the token. */
static bool read_biases(serve_request *r, serve_job *job, serve_reply *reply) {
    json_t *value = json_object_get(r->fields, "logit_bias"), *one;
    const size_t count = json_is_object(value) ? json_object_size(value) : json_array_size(value);
    const char *name;
    size_t i = 0;
    if (count == 0)
        return true;
    job->biases = calloc(count, sizeof(*job->biases));
    json_t *pairs = json_is_object(value) ? json_array() : json_incref(value);
    if (json_is_object(value))
        json_object_foreach(value, name, one) {
            char *end;
            const long id = strtol(name, &end, 10);
            json_array_append_new(pairs, json_pack("[I, O]", *name && !*end ? (json_int_t)id : -1, one));
        }
    bool good = job->biases && json_array_size(pairs) == count;
    for (; good && i < count; i++) {
        const json_t *pair = json_array_get(pairs, i), *id = json_array_get(pair, 0), *bias = json_array_get(pair, 1);
        const double number = json_number_value(bias);
        good = json_array_size(pair) == 2 && is_id(id, job->key.model) &&
               (json_is_false(bias) || (json_is_number(bias) && number >= -100 && number <= 100));
        job->biases[i] =
            (tfm_logit_bias){(int32_t)json_number_value(id), json_is_false(bias) ? -INFINITY : (float)number};
    }
    json_decref(pairs);
    job->generate.logit_bias = job->biases;
    job->generate.logit_bias_count = count;
    if (!good)
        *reply =
            serve_reply_field(r, "logit_bias", NULL,
                              "Invalid request: logit_bias does not give numbers from -100 to 100 for ids from 0 to "
                              "%d",
                              job->key.model->vocabulary - 1);
    return good;
}

/* Penalties, biases, and log p of tokens. */
static bool read_penalties(serve_request *r, serve_job *job, serve_reply *reply) {
    tfm_generate_options *g = &job->generate;
    const json_t *logprobs = json_object_get(r->fields, "logprobs");
    const bool counts = json_is_number(logprobs) && !job->chat;
    double presence, frequency;
    int top = 0;
    if (!read_real(r, "presence_penalty", -2, 2, 0, &presence, reply) ||
        !read_real(r, "frequency_penalty", -2, 2, 0, &frequency, reply) || !read_biases(r, job, reply) ||
        !serve_request_integer(r, job->chat ? "top_logprobs" : "logprobs", 0, 20, 0,
                               counts || job->chat ? &top : &(int){0}, reply))
        return false;
    g->presence_penalty = (float)presence;
    g->frequency_penalty = (float)frequency;
    g->top_log_probs = top;
    job->logprobs = json_is_true(logprobs) || counts;
    if (job->chat && json_number_value(logprobs) != 0)
        *reply = serve_reply_field(r, "logprobs", NULL, "Invalid request: logprobs is not true or false");
    else if (top > 0 && !job->logprobs)
        *reply = serve_reply_field(r, "top_logprobs", NULL, "Invalid request: top_logprobs needs \"logprobs\": true");
    else
        return true;
    return false;
}

static bool read_stream_options(serve_request *r, serve_job *job, serve_reply *reply) {
    const json_t *options = json_object_get(r->fields, "stream_options");
    const json_t *tells = json_object_get(options, "include_usage");
    const json_t *always = json_object_get(options, "continuous_usage_stats");
    job->tells_usage = json_is_true(tells);
    if (tells && !json_is_null(tells) && !json_is_boolean(tells))
        *reply = serve_reply_field(r, "stream_options.include_usage", NULL,
                                   "Invalid request: stream_options.include_usage is not true or false");
    else if (always && !json_is_null(always) && !json_is_false(always))
        *reply = serve_reply_field(r, "stream_options.continuous_usage_stats", "unsupported_parameter",
                                   "Invalid request: stream_options.continuous_usage_stats is not supported: leave it "
                                   "out");
    else
        return true;
    return false;
}

/* Options of generation. Requests with sampling or stop strings are separate batches, for their own random numbers. */
static bool read_options(serve_request *r, serve_job *job, serve_reply *reply) {
    tfm_generate_options *g = &job->generate;
    int n = 1, best_of = 1;
    if (!serve_fields_check(r, job->chat ? SERVE_CHAT_FIELDS : SERVE_TEXT_FIELDS, reply) ||
        !read_lengths(r, g, reply) || !serve_request_integer(r, "n", 1, SERVE_TEXTS, 1, &n, reply) ||
        !serve_request_integer(r, "best_of", n, SERVE_TEXTS, n, &best_of, reply) || !read_sampling(r, g, reply) ||
        !read_penalties(r, job, reply) || !read_stops(r, job, reply) || !read_stop_ids(r, job, reply) ||
        !read_stream_options(r, job, reply))
        return false;
    if (json_is_true(json_object_get(r->fields, "ignore_eos")))
        g->min_new_tokens = g->max_new_tokens;
    if (g->min_new_tokens > 0 && (g->stop_string_count > 0 || job->stop_id_count > 0)) {
        *reply = serve_reply_field(r, "min_tokens", "unsupported_parameter",
                                   "Invalid request: min_tokens is not supported with stop, stop_token_ids or a chat "
                                   "whose turns end otherwise than the model's texts: leave it out");
        return false;
    }
    job->key.max_new_tokens = g->max_new_tokens;
    g->n_best = job->key.n_best = best_of;
    job->choices = n;
    const bool streams = json_is_true(json_object_get(r->fields, "stream"));
    if ((!g->sample && best_of > 1) || (best_of > n && streams)) {
        const char *name = n > 1 && !g->sample ? "n" : "best_of";
        *reply = serve_reply_field(r, name, NULL, "Invalid request: %s is %d, %s", name, best_of,
                                   g->sample ? "and a stream cannot wait for the best text: leave it out"
                                             : "but with temperature 0 all texts are the same");
        return false;
    }
    static uint64_t numbers; /* of this thread only */
    const bool alone = g->sample || g->stop_string_count > 0 || g->min_new_tokens > 0 || g->repetition_penalty > 0 ||
                       g->presence_penalty != 0 || g->frequency_penalty != 0 || g->logit_bias_count > 0 ||
                       job->logprobs;
    job->key.alone = alone ? ++numbers : 0;
    job->created = (int64_t)time(NULL);
    uint64_t id = 0;
    if (getrandom(&id, sizeof(id), 0) != sizeof(id))
        id = ++numbers;
    snprintf(job->id, sizeof(job->id), "%s-%016" PRIx64, job->chat ? "chatcmpl" : "cmpl", id);
    return true;
}

/* ---- Prompts --------------------------------------------------------------------------------------------------- */

/* Whether a value is one prompt of token ids. */
static bool is_ids(const json_t *value) {
    bool are = json_array_size(value) > 0;
    for (size_t i = 0; are && i < json_array_size(value); i++)
        are = json_is_number(json_array_get(value, i));
    return are;
}

/* The prompts of a request: texts, or empty texts and `lists` of token ids. NULL with the error reply. */
static json_t *read_prompts(serve_request *r, json_t **lists, serve_reply *reply) {
    json_t *value = json_object_get(r->fields, "prompt");
    const bool several = json_is_array(value) && is_ids(json_array_get(value, 0));
    *lists = is_ids(value) ? json_pack("[O]", value) : several ? json_incref(value) : NULL;
    if (!*lists)
        return serve_openai_texts(r, "prompt", reply);
    json_t *texts = json_array();
    bool good = true;
    for (size_t i = 0; i < json_array_size(*lists); i++) {
        good = good && is_ids(json_array_get(*lists, i));
        json_array_append_new(texts, json_string(""));
    }
    const size_t most = (size_t)r->server->options->limits.lines;
    if (good && json_array_size(*lists) <= most)
        return texts;
    *reply = good ? serve_reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE, "prompt has %zu prompts: at most %zu are taken",
                                      json_array_size(*lists), most)
                  : serve_reply_field(r, "prompt", NULL, "Invalid request: prompt mixes token ids and something else");
    json_decref(texts);
    json_decref(*lists);
    return NULL;
}

/* The ids of segment `i`: given, or of its text; a chat template has already added special tokens. */
static tfm_status encode(serve_job *job, size_t i, const json_t *given) {
    const cli_segment *segment = &job->segments[i];
    const json_t *list = json_array_get(given, i);
    if (!given)
        return tfm_tokenizer_encode_with(job->key.model->tokenizer, &job->ids[i], &job->id_counts[i], TFM_TARGET,
                                         segment->text, segment->bytes,
                                         &(tfm_encode_options){.no_special_tokens = job->chat});
    job->id_counts[i] = json_array_size(list);
    job->ids[i] = calloc(job->id_counts[i], sizeof(**job->ids));
    for (size_t k = 0; job->ids[i] && k < job->id_counts[i]; k++) {
        const json_t *id = json_array_get(list, k);
        job->ids[i][k] = is_id(id, job->key.model) ? (int32_t)json_number_value(id) : -1;
    }
    return job->ids[i] ? TFM_OK : TFM_ERROR_MEMORY;
}

/* Encodes the prompts, to refuse too long ones before queueing. */
static bool encode_all(serve_request *r, serve_job *job, const json_t *given, serve_reply *reply) {
    const serve_model *model = job->key.model;
    const char *name = job->chat ? "messages" : "prompt";
    job->ids = calloc(job->count, sizeof(*job->ids));
    job->id_counts = calloc(job->count, sizeof(*job->id_counts));
    tfm_status status = job->ids && job->id_counts ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < job->count && status == TFM_OK; i++) {
        status = encode(job, i, given);
        for (size_t k = 0; status == TFM_OK && given && k < job->id_counts[i]; k++)
            if (job->ids[i][k] < 0) {
                *reply = serve_reply_field(r, name, NULL, "Invalid request: token ids of prompt are from 0 to %d",
                                           model->vocabulary - 1);
                return false;
            }
        if (status == TFM_OK && job->id_counts[i] > (size_t)model->positions) {
            *reply =
                serve_reply_field(r, name, "context_length_exceeded",
                                  "This model's maximum context length is %d tokens, and %s %zu has %zu: shorten it",
                                  model->positions, job->chat ? "chat" : "prompt", i, job->id_counts[i]);
            return false;
        }
    }
    if (status == TFM_ERROR_INPUT || status == TFM_ERROR_ARGUMENT)
        *reply = serve_reply_field(r, name, NULL, "Invalid request: %s", tfm_error_message());
    else if (status != TFM_OK)
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
    return status == TFM_OK;
}

/* ---- Answers --------------------------------------------------------------------------------------------------- */

/* The next text to return: in order if all are, else the best one left. */
static int next_choice(const serve_job *job, const serve_result *result, int choice, bool *taken) {
    int best = -1;
    if (job->choices == job->key.n_best)
        return choice;
    for (int k = 0; k < job->key.n_best; k++)
        if (!taken[k] && (best < 0 || result->log_prob[k] > result->log_prob[best]))
            best = k;
    taken[best] = true;
    return best;
}

static serve_reply answer_texts(serve_request *r) {
    const serve_job *job = r->job;
    json_t *choices = json_array();
    for (size_t i = 0; i < job->count; i++) {
        bool taken[SERVE_TEXTS] = {false};
        for (int k = 0; k < job->choices; k++)
            json_array_append_new(choices, serve_openai_choice(job, i, next_choice(job, &job->results[i], k, taken),
                                                               (int)i * job->choices + k));
    }
    return serve_reply_json(MHD_HTTP_OK, json_pack("{s:s, s:s, s:I, s:s, s:s, s:o, s:o}", "id", job->id, "object",
                                                   job->chat ? "chat.completion" : "text_completion", "created",
                                                   (json_int_t)job->created, "model", job->key.model->name,
                                                   "system_fingerprint", serve_openai_fingerprint(), "choices", choices,
                                                   "usage", serve_openai_usage(job)));
}

/* The job takes ownership of `prompts`; `ids`: prompts of token ids. */
static bool begin_texts(serve_request *r, serve_model *model, json_t *prompts, const json_t *ids, bool chat,
                        serve_reply *reply) {
    serve_job *job = prompts ? serve_openai_job(r, prompts, model, SERVE_GENERATE, reply) : NULL;
    if (!job)
        return false;
    job->chat = chat;
    const bool streams = json_is_true(json_object_get(r->fields, "stream"));
    bool good = read_options(r, job, reply) && encode_all(r, job, ids, reply);
    if (good && streams && !serve_stream_open(r->server, job)) {
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the stream");
        good = false;
    }
    if (!good) {
        serve_job_free(job);
        return false;
    }
    return serve_openai_queue(r, job, answer_texts, reply);
}

bool serve_v1_completions(serve_request *r, serve_reply *reply) {
    serve_model *model = serve_openai_model(r, SERVE_GENERATE, "generate text", reply);
    json_t *ids = NULL, *prompts = model ? read_prompts(r, &ids, reply) : NULL;
    const bool waits = prompts && begin_texts(r, model, prompts, ids, false, reply);
    if (prompts)
        json_decref(ids);
    return waits;
}

bool serve_v1_chat(serve_request *r, serve_reply *reply) {
    serve_model *model = serve_openai_model(r, SERVE_GENERATE, "generate text", reply);
    json_t *prompt = model ? serve_chat_prompt(r, model, reply) : NULL;
    return prompt && begin_texts(r, model, prompt, NULL, true, reply);
}
