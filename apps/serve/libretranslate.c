/* LibreTranslate's API, extended by `alignments`, for the web page, with layer and head. */
#include <stdlib.h>
#include <string.h>
#include "serve/libretranslate.h"

/* ---- Parameters ------------------------------------------------------------------------------------------------ */

bool serve_ask_missing(const serve_request *r, const char *name, serve_reply *reply) {
    *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: missing %s parameter", name);
    return false;
}

/* The texts of `q`: one, or a list. */
static bool read_texts(serve_request *r, serve_ask *a, serve_reply *reply) {
    const json_t *q = json_object_get(r->fields, "q");
    a->list = json_is_array(q);
    a->count = a->list ? json_array_size(q) : 1;
    if (!q || a->count == 0 || (json_is_string(q) && json_string_length(q) == 0))
        return serve_ask_missing(r, "q", reply);
    a->texts = calloc(a->count, sizeof(*a->texts));
    for (size_t i = 0; a->texts && i < a->count; i++) {
        const json_t *text = a->list ? json_array_get(q, i) : q;
        a->texts[i] = json_string_value(text);
        if (a->texts[i] && strlen(a->texts[i]) == json_string_length(text)) /* a form may contain NUL */
            continue;
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: q parameter is no text or list of texts");
        return false;
    }
    if (!a->texts)
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
    return a->texts != NULL;
}

static bool serves(const serve_request *r, const char *code, bool as_source) {
    for (size_t i = 0; i < r->server->models.count; i++) {
        const serve_model *m = r->server->models.items[i];
        if (m->task == SERVE_TRANSLATE && strcmp(as_source ? m->source : m->target, code) == 0)
            return true;
    }
    return false;
}

/* Whether the pair, or with `auto` the target, is served; models of texts are chosen later by their languages. */
static bool check_languages(const serve_request *r, const serve_ask *a, serve_reply *reply) {
    const bool automatic = strcmp(a->source, "auto") == 0;
    char from[64], to[64];
    if (!serves(r, a->target, false)) {
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "%.40s is not supported", a->target);
        return false;
    }
    if (!automatic && !serves(r, a->source, true)) {
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "%.40s is not supported", a->source);
        return false;
    }
    if (automatic || serve_model_pair(&r->server->models, a->source, a->target))
        return true;
    serve_language_name(from, sizeof(from), a->source);
    serve_language_name(to, sizeof(to), a->target);
    *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "%s (%s) is not available as a target language from %s (%s)",
                               to, a->target, from, a->source);
    return false;
}

bool serve_ask_languages(serve_request *r, serve_ask *a, serve_reply *reply) {
    a->source = serve_request_text(r, "source");
    a->target = serve_request_text(r, "target");
    if (!a->source || !*a->source)
        return serve_ask_missing(r, "source", reply);
    if (!a->target || !*a->target)
        return serve_ask_missing(r, "target", reply);
    return check_languages(r, a, reply);
}

static bool read_format(serve_request *r, serve_ask *a, serve_reply *reply) {
    const char *format = serve_request_text(r, "format");
    a->kind = format && strcmp(format, "html") == 0 ? &document_html : NULL;
    if (format && *format && !a->kind && strcmp(format, "text") != 0)
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "%.40s format is not supported", format);
    else if (a->kind && a->list)
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: with format=html, q is one text");
    else if (a->kind && a->alternatives > 0)
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: format=html has no alternatives");
    else
        return true;
    return false;
}

static bool read_ask(serve_request *r, serve_ask *a, serve_reply *reply) {
    const json_t *alignments = json_object_get(r->fields, "alignments");
    if (!read_texts(r, a, reply))
        return false;
    a->alignments = json_is_true(alignments);
    return serve_ask_languages(r, a, reply) &&
           serve_request_integer(r, "alternatives", 0, r->server->options->limits.alternatives, 0, &a->alternatives,
                                 reply) &&
           serve_request_integer(r, "layer", 0, 1000, 0, &a->layer, reply) &&
           serve_request_integer(r, "head", 0, 1000, 0, &a->head, reply) && read_format(r, a, reply);
}

/* ---- The answer ------------------------------------------------------------------------------------------------ */

static json_t *alternatives_of(const serve_job *job, size_t of) {
    json_t *list = json_array();
    char *best = serve_segments_join(job, of, 0);
    for (int i = 1; i < job->key.n_best; i++) {
        char *text = serve_segments_join(job, of, i);
        bool known = !text || !best || strcmp(text, best) == 0;
        for (size_t k = 0; !known && k < json_array_size(list); k++)
            known = strcmp(json_string_value(json_array_get(list, k)), text) == 0;
        if (!known)
            json_array_append_new(list, json_string(text));
        free(text);
    }
    free(best);
    return list;
}

static json_t *text_json(char *text) {
    json_t *value = text ? json_string(text) : NULL;
    free(text);
    return value;
}

/* The weights of each segment that has some, text by text. */
static json_t *details_json(const serve_job *job) {
    json_t *list = json_array();
    for (size_t text = 0; text < (job->models ? job->texts : 1); text++)
        for (size_t i = 0; i < job->count; i++)
            if (job->results[i].detail && (!job->models || job->segments[i].of == text))
                json_array_append(list, job->results[i].detail);
    return list;
}

static json_t *detection_json(const serve_detection *guess) {
    return json_pack("{s:f, s:s}", "confidence", guess->confidence, "language", guess->code);
}

void serve_answer_languages(const serve_request *r, json_t *object) {
    if (r->guess)
        json_object_set(object, "detectedLanguage", r->guess);
    if (r->warnings)
        json_object_set(object, "warnings", r->warnings);
}

/* Whether the i-th text was detected to be in the target language: like LibreTranslate, it stays as it is. */
static bool stays(serve_request *r, size_t i) {
    const json_t *guess = json_is_array(r->guess) ? json_array_get(r->guess, i) : r->guess;
    const char *code = json_string_value(json_object_get(guess, "language"));
    return code && serve_language_same(code, serve_request_text(r, "target"));
}

static serve_reply answer(serve_request *r) {
    const serve_job *job = r->job;
    json_t *q = json_object_get(r->fields, "q");
    const bool list = json_is_array(q), several = job->key.n_best > 1;
    json_t *object = json_object(), *texts = json_array(), *others = json_array();
    for (size_t i = 0; i < job->texts && !job->document; i++) {
        const bool kept = stays(r, i);
        json_array_append_new(texts, kept ? json_incref(list ? json_array_get(q, i) : q)
                                          : text_json(serve_segments_join(job, i, 0)));
        if (several)
            json_array_append_new(others, kept ? json_array() : alternatives_of(job, i));
    }
    json_t *first = job->document ? text_json(serve_job_document(job)) : json_incref(json_array_get(texts, 0));
    const bool good = json_array_size(texts) == job->texts || job->document;
    int failed = json_object_set_new(object, "translatedText", list ? json_incref(texts) : json_incref(first));
    if (several)
        json_object_set(object, "alternatives", list ? others : json_array_get(others, 0));
    serve_answer_languages(r, object);
    if (json_is_true(json_object_get(r->fields, "alignments")) && !job->document)
        json_object_set_new(object, "alignments", details_json(job));
    json_decref(texts);
    json_decref(others);
    json_decref(first);
    if (failed || !good) {
        json_decref(object);
        return serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR,
                                 "Cannot translate text: what the model wrote is no UTF-8, or memory is short");
    }
    return serve_reply_json(MHD_HTTP_OK, object);
}

/* ---- The paths ------------------------------------------------------------------------------------------------- */

/* The texts as one, for language detection. */
static char *text_of(const serve_ask *a) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *all = open_memstream(&text, &bytes);
    for (size_t i = 0; all && i < a->count; i++)
        fprintf(all, "%s\n", a->texts[i]);
    if (!all || fclose(all) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* The model of each text. A document is in one language. */
static bool choose(serve_request *r, serve_ask *a, serve_reply *reply) {
    char *whole = a->document ? text_of(a) : NULL;
    const char *one[] = {whole};
    a->languages = (serve_model_choice){.request = r, .source = a->source, .target = a->target};
    a->languages.texts = a->document ? one : a->texts;
    a->languages.count = a->document ? 1 : a->count;
    a->languages.same = !a->document;
    const bool good = (whole || !a->document) && serve_choose_models(&a->languages, reply);
    if (!whole && a->document)
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
    free(whole);
    if (!good || !a->document || a->count < 2)
        return good;
    serve_model **models = calloc(a->count, sizeof(serve_model *));
    for (size_t i = 0; models && i < a->count; i++)
        models[i] = a->languages.models[0];
    if (!models)
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
    free(a->languages.models);
    a->languages.models = models;
    return models != NULL;
}

/* Adds languages to the reply. */
static void keep_languages(serve_request *r, serve_ask *a) {
    const serve_model_choice *languages = &a->languages;
    if (languages->guesses && a->list) {
        r->guess = json_array();
        for (size_t i = 0; i < languages->count; i++)
            json_array_append_new(r->guess, detection_json(&languages->guesses[i]));
    } else if (languages->guesses) {
        r->guess = detection_json(&languages->guesses[0]);
    }
    if (r->warnings) /* of the document */
        json_array_extend(r->warnings, languages->warnings);
    else if (json_array_size(languages->warnings) > 0)
        r->warnings = json_incref(languages->warnings);
}

/* Whether a text has placeholders: no request is admitted to such a batch while it runs. */
static bool has_placeholders(const serve_request *r, const serve_ask *a) {
    const tfm_placeholders *all = r->server->options->placeholders;
    for (size_t i = 0; all && i < a->count; i++)
        if (tfm_placeholders_count(all, a->texts[i], strlen(a->texts[i])) > 0)
            return true;
    return false;
}

bool serve_ask_queue(serve_request *r, serve_ask *a, serve_reply (*make)(serve_request *r), serve_reply *reply) {
    const bool sentences = a->alternatives > 0 || a->alignments || a->kind;
    if ((a->kind && !serve_ask_document(r, a, reply)) || !choose(r, a, reply))
        return false;
    serve_job *job = serve_segments_split(r, a->texts, a->count, sentences, a->languages.models, reply);
    if (!job)
        return false;
    job->kind = a->kind;
    job->document = a->document; /* refers to the text of q, owned by the job */
    a->document = NULL;
    job->key = (serve_batch_key){.model = job->key.model,
                                 .n_best = 1 + a->alternatives,
                                 .layer = a->layer,
                                 .head = a->head,
                                 .split = !sentences,
                                 .keep = has_placeholders(r, a),
                                 .detail = a->alignments || a->kind};
    r->job = job;
    r->answer = make;
    keep_languages(r, a);
    if (job->count == 0) { /* a document without text */
        *reply = make(r);
        return false;
    }
    if (serve_queue_add(r->server, job, r->connection, r->client))
        return true;
    *reply = serve_reply_error(r, job->answer_code, "%s", job->failure ? job->failure : "out of memory");
    reply->retry_after = job->retry_after;
    return false;
}

void serve_ask_free(serve_ask *a) {
    free(a->texts);
    if (a->document)
        a->kind->free(a->document);
    serve_model_choice_free(&a->languages);
}

bool serve_translate(serve_request *r, serve_reply *reply) {
    serve_ask a = {0};
    const bool queued = read_ask(r, &a, reply) && serve_ask_queue(r, &a, answer, reply);
    serve_ask_free(&a);
    return queued;
}

/* The guesses for all texts together: like LibreTranslate, the reply is one list. */
bool serve_detect(serve_request *r, serve_reply *reply) {
    const int limit = r->chars;
    serve_detection guesses[SERVE_DETECTIONS];
    size_t characters = 0;
    char *whole = NULL;
    serve_ask a = {0};
    if (!read_texts(r, &a, reply)) {
        free(a.texts);
        return false;
    }
    for (size_t i = 0; i < a.count; i++)
        characters += serve_characters(a.texts[i], strlen(a.texts[i]));
    if (characters > (size_t)limit) {
        *reply = serve_reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE,
                                   "Invalid request: request (%zu) exceeds text limit (%d) of characters", characters,
                                   limit);
    } else if (!(whole = text_of(&a))) {
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
    } else {
        json_t *list = json_array();
        const int found = serve_detect_text(guesses, &r->server->models, whole, strlen(whole));
        for (int i = 0; i < found; i++)
            json_array_append_new(list, detection_json(&guesses[i]));
        *reply = serve_reply_json(MHD_HTTP_OK, list);
    }
    free(whole);
    free(a.texts);
    return false;
}
