/* The API of LibreTranslate, with two fields more: `alignments`, which a page draws, and its layer and head. */
#include <stdlib.h>
#include <string.h>
#include "../markup.h"
#include "serve.h"

typedef struct ask {
    const char *source, *target, *format;
    int alternatives, alignments, layer, head;
    bool list, html;
    const char **texts; /* [count]: of the request, or the runs of its document */
    size_t count;
    serve_guess guess;
    serve_model *model;
} ask;

/* ---- What is asked --------------------------------------------------------------------------------------------- */

static bool missing(const serve_request *r, const char *name, serve_reply *reply) {
    *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: missing %s parameter", name);
    return false;
}

/* The texts of `q`: one, or a list. */
static bool read_texts(serve_request *r, ask *a, serve_reply *reply) {
    const json_t *q = json_object_get(r->fields, "q");
    a->list = json_is_array(q);
    a->count = a->list ? json_array_size(q) : 1;
    if (!q || a->count == 0 || (json_is_string(q) && json_string_length(q) == 0))
        return missing(r, "q", reply);
    a->texts = calloc(a->count, sizeof(*a->texts));
    for (size_t i = 0; a->texts && i < a->count; i++) {
        const json_t *text = a->list ? json_array_get(q, i) : q;
        a->texts[i] = json_string_value(text);
        if (a->texts[i] && strlen(a->texts[i]) == json_string_length(text)) /* a form may hold NUL */
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
        const serve_model *m = &r->server->models.items[i];
        if (m->task == SERVE_TRANSLATE && strcmp(as_source ? m->source : m->target, code) == 0)
            return true;
    }
    return false;
}

/* The likeliest language of the texts that can be translated to the target. */
static bool guess_source(serve_request *r, ask *a, serve_reply *reply) {
    serve_guess guesses[SERVE_GUESSES];
    size_t longest = 0;
    if (!serve_detect_there()) {
        *reply =
            serve_reply_error(r, MHD_HTTP_NOT_IMPLEMENTED,
                              "this tfm was built without libcld2 and detects no languages: give source, or install "
                              "libcld2-dev and build it again");
        return false;
    }
    for (size_t i = 1; i < a->count; i++)
        longest = strlen(a->texts[i]) > strlen(a->texts[longest]) ? i : longest;
    const int found = serve_detect_text(guesses, a->texts[longest], strlen(a->texts[longest]));
    for (int i = 0; i < found && !a->model; i++)
        if ((a->model = serve_model_pair(&r->server->models, guesses[i].code, a->target)))
            a->guess = guesses[i];
    for (size_t i = 0; i < r->server->models.count && !a->model; i++) { /* nobody knows: the first that can */
        serve_model *m = &r->server->models.items[i];
        if (m->task == SERVE_TRANSLATE && strcmp(m->target, a->target) == 0) {
            a->model = m;
            snprintf(a->guess.code, sizeof(a->guess.code), "%s", m->source);
        }
    }
    return true;
}

static bool find_model(serve_request *r, ask *a, serve_reply *reply) {
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
    if (automatic && !guess_source(r, a, reply))
        return false;
    if (!automatic)
        a->model = serve_model_pair(&r->server->models, a->source, a->target);
    if (a->model)
        return true;
    serve_language_name(from, sizeof(from), a->source);
    serve_language_name(to, sizeof(to), a->target);
    *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "%s (%s) is not available as a target language from %s (%s)",
                               to, a->target, from, a->source);
    return false;
}

static bool read_format(serve_request *r, ask *a, serve_reply *reply) {
    const char *format = serve_request_text(r, "format");
    a->html = format && strcmp(format, "html") == 0;
    if (format && *format && !a->html && strcmp(format, "text") != 0)
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "%.40s format is not supported", format);
    else if (a->html && a->list)
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: with format=html, q is one text");
    else if (a->html && a->alternatives > 0)
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: format=html has no alternatives");
    else
        return true;
    return false;
}

static bool read_ask(serve_request *r, ask *a, serve_reply *reply) {
    const json_t *alignments = json_object_get(r->fields, "alignments");
    if (!read_texts(r, a, reply))
        return false;
    a->source = serve_request_text(r, "source");
    a->target = serve_request_text(r, "target");
    if (!a->source || !*a->source)
        return missing(r, "source", reply);
    if (!a->target || !*a->target)
        return missing(r, "target", reply);
    a->alignments = json_is_true(alignments);
    return serve_request_whole(r, "alternatives", 0, r->server->options->limits.alternatives, 0, &a->alternatives,
                               reply) &&
           serve_request_whole(r, "layer", 0, 1000, 0, &a->layer, reply) &&
           serve_request_whole(r, "head", 0, 1000, 0, &a->head, reply) && find_model(r, a, reply) &&
           read_format(r, a, reply);
}

/* ---- The answer ------------------------------------------------------------------------------------------------ */

static json_t *alternatives_of(const serve_job *job, size_t of) {
    json_t *list = json_array();
    char *best = serve_pieces_join(job, of, 0);
    for (int i = 1; i < job->key.n_best; i++) {
        char *text = serve_pieces_join(job, of, i);
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

/* The weights of each piece that has some. */
static json_t *details_json(const serve_job *job) {
    json_t *list = json_array();
    for (size_t i = 0; i < job->count; i++)
        if (job->results[i].detail)
            json_array_append(list, job->results[i].detail);
    return list;
}

static json_t *guess_json(const serve_guess *guess) {
    return json_pack("{s:f, s:s}", "confidence", guess->confidence, "language", guess->code);
}

/* The weights of the pieces of a run; NULL where some have none, since there were too many. */
static json_t *run_details(const serve_job *job, size_t run) {
    json_t *list = json_array();
    for (size_t i = 0; i < job->count; i++) {
        const serve_result *result = &job->results[i];
        if (job->pieces[i].of != run)
            continue;
        if (result->detail)
            json_array_append(list, result->detail);
        else if (result->target_tokens > 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* The document, with the translations of its runs. */
static json_t *document_json(const serve_job *job) {
    bool good = true;
    for (size_t i = 0; i < job->texts && good; i++) {
        json_t *details = run_details(job, i);
        char *text = serve_pieces_join(job, i, 0);
        good = text && markup_put(job->markup, i, text, details);
        free(text);
        json_decref(details);
    }
    return good ? text_json(markup_write(job->markup)) : NULL;
}

static serve_reply answer(serve_request *r) {
    const serve_job *job = r->job;
    const bool list = json_is_array(json_object_get(r->fields, "q")), several = job->key.n_best > 1;
    json_t *object = json_object(), *texts = json_array(), *others = json_array();
    for (size_t i = 0; i < job->texts && !job->markup; i++) {
        json_array_append_new(texts, text_json(serve_pieces_join(job, i, 0)));
        if (several)
            json_array_append_new(others, alternatives_of(job, i));
    }
    json_t *first = job->markup ? document_json(job) : json_incref(json_array_get(texts, 0));
    const bool good = json_array_size(texts) == job->texts || job->markup;
    int failed = json_object_set_new(object, "translatedText", list ? json_incref(texts) : json_incref(first));
    if (several)
        json_object_set(object, "alternatives", list ? others : json_array_get(others, 0));
    json_t *guess = r->guess;
    if (guess && list) {
        json_t *guesses = json_array();
        for (size_t i = 0; i < job->texts; i++)
            json_array_append(guesses, guess);
        json_object_set_new(object, "detectedLanguage", guesses);
    } else if (guess) {
        json_object_set(object, "detectedLanguage", guess);
    }
    if (json_is_true(json_object_get(r->fields, "alignments")) && !job->markup)
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

/* The runs of a document in the place of its text. */
static markup *read_document(ask *a) {
    markup *document = markup_read(a->texts[0], strlen(a->texts[0]));
    const size_t count = document ? markup_runs(document) : 0;
    const char **texts = calloc(count ? count : 1, sizeof(*texts));
    if (!document || !texts) {
        free(texts);
        markup_free(document);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        texts[i] = markup_text(document, i);
    free(a->texts);
    a->texts = texts;
    a->count = count;
    return document;
}

static bool begin(serve_request *r, ask *a, serve_reply *reply) {
    markup *document = NULL;
    const bool sentences = a->alternatives > 0 || a->alignments || a->html;
    if (a->html && !(document = read_document(a))) {
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
        return false;
    }
    serve_job *job = serve_pieces_cut(r, a->texts, a->count, sentences, a->model->source, reply);
    if (!job) {
        markup_free(document);
        return false;
    }
    job->markup = document;
    job->key = (serve_key){.model = a->model,
                           .n_best = 1 + a->alternatives,
                           .layer = a->layer,
                           .head = a->head,
                           .split = !sentences,
                           .detail = a->alignments || a->html};
    r->job = job;
    r->answer = answer;
    if (a->guess.code[0])
        r->guess = guess_json(&a->guess);
    if (job->count == 0) { /* a document without text */
        *reply = answer(r);
        return false;
    }
    if (serve_queue_add(r->server, job, r->connection, r->client))
        return true;
    *reply = serve_reply_error(r, job->answer_code, "%s", job->failure ? job->failure : "out of memory");
    reply->retry_after = job->retry_after;
    return false;
}

bool serve_translate(serve_request *r, serve_reply *reply) {
    ask a = {0};
    const bool queued = read_ask(r, &a, reply) && begin(r, &a, reply);
    free(a.texts);
    return queued;
}

bool serve_detect(serve_request *r, serve_reply *reply) {
    serve_guess guesses[SERVE_GUESSES];
    size_t characters = 0;
    ask a = {0};
    if (!serve_detect_there()) {
        *reply =
            serve_reply_error(r, MHD_HTTP_NOT_IMPLEMENTED,
                              "this tfm was built without libcld2 and detects no languages: install libcld2-dev and "
                              "build it again");
        return false;
    }
    if (read_texts(r, &a, reply)) {
        for (size_t i = 0; i < a.count; i++)
            characters += serve_characters(a.texts[i], strlen(a.texts[i]));
        json_t *list = json_array();
        const int found = serve_detect_text(guesses, a.texts[0], strlen(a.texts[0]));
        for (int i = 0; i < found; i++)
            json_array_append_new(list, guess_json(&guesses[i]));
        if (characters > (size_t)r->server->options->limits.chars) {
            json_decref(list);
            *reply = serve_reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE,
                                       "Invalid request: request (%zu) exceeds text limit (%d) of characters",
                                       characters, r->server->options->limits.chars);
        } else {
            *reply = serve_reply_json(MHD_HTTP_OK, list);
        }
    }
    free(a.texts);
    return false;
}
