/* Chooses the model for each text of a request: by `source`, or by the detected language. */
#include <stdlib.h>
#include <string.h>
#include "serve/detect.h"
#include "serve/server.h"

/* Confidence thresholds: with `source: auto`, and for a warning about another `source`. */
static const double SURE = 40, CONTRADICTS = 60;
/* Minimum length for a warning: short texts may be names or loan words. */
enum { LEAST_BYTES = 16, WARNINGS = 16 };

static serve_model *translator(const serve_models *models, size_t i, const char *target) {
    serve_model *m = models->items[i];
    return m->task == SERVE_TRANSLATE && strcmp(m->target, target) == 0 ? m : NULL;
}

/* "de, fr": the source languages of a target. */
static void name_sources(char *out, size_t bytes, const serve_models *models, const char *target) {
    size_t used = 0;
    *out = 0;
    for (size_t i = 0; i < models->count && used < bytes; i++) {
        const serve_model *m = translator(models, i, target);
        if (m)
            used += (size_t)snprintf(out + used, bytes - used, "%s%s", used ? ", " : "", m->source);
    }
}

static bool not_served(const serve_model_choice *a, size_t text, const char *code, serve_reply *reply) {
    char name[64], sources[256], which[32] = "the text";
    serve_language_name(name, sizeof(name), code);
    name_sources(sources, sizeof(sources), &a->request->server->models, a->target);
    if (a->count > 1)
        snprintf(which, sizeof(which), "text %zu", text + 1);
    *reply =
        serve_reply_error(a->request, MHD_HTTP_BAD_REQUEST,
                          "Cannot translate %s: it is in %s (%s), and %s is translated to from %s only: give source "
                          "if that is what it is in",
                          which, name, code, a->target, sources);
    return false;
}

/* The model for a text by its language. A text with an uncertain, unserved language is assigned to a served language of
 * the same script. */
static bool detect(serve_model_choice *a, size_t text, serve_reply *reply) {
    const serve_models *models = &a->request->server->models;
    const char *const what = a->texts[text];
    const size_t bytes = strlen(what);
    serve_detection found[SERVE_DETECTIONS];
    const int count = serve_detect_text(found, models, what, bytes);
    for (int i = 0; i < count && (i == 0 || found[0].confidence < SURE); i++)
        if ((a->models[text] = serve_model_pair(models, found[i].code, a->target))) {
            a->guesses[text] = found[i];
            return true;
        }
    const bool same = a->same && found[0].confidence >= SURE && serve_language_same(found[0].code, a->target);
    for (size_t i = 0; i < models->count && (found[0].confidence < SURE || same); i++) {
        serve_model *m = translator(models, i, a->target);
        if (same && m) {
            a->models[text] = m;
            a->guesses[text] = found[0];
            return true;
        }
        if (!m || !serve_detect_writes(m->source, what, bytes))
            continue;
        a->models[text] = m;
        a->guesses[text].confidence = 0;
        snprintf(a->guesses[text].code, SERVE_CODE, "%s", m->source);
        return true;
    }
    return not_served(a, text, found[0].code, reply);
}

/* Whether a text is certainly in another language than `source`. */
static bool is_other(serve_detection *other, const serve_model_choice *a, const char *text) {
    serve_detection found[SERVE_DETECTIONS];
    serve_cld2 quick[SERVE_DETECTIONS];
    const size_t bytes = strlen(text);
    const bool written = serve_detect_writes(a->source, text, bytes);
    if (written && (bytes < LEAST_BYTES || !strchr(text, ' ') ||
                    (serve_cld2_detect(quick, text, bytes < 1024 ? bytes : 1024, NULL) > 0 &&
                     serve_language_same(quick[0].code, a->source))))
        return false;
    serve_detect_text(found, &a->request->server->models, text, bytes);
    *other = found[0];
    return !serve_language_same(found[0].code, a->source) && (!written || found[0].confidence >= CONTRADICTS);
}

static void warn(serve_model_choice *a, size_t text, const char *code) {
    char sentence[256], name[64], which[32] = "the text";
    serve_language_name(name, sizeof(name), code);
    if (a->count > 1)
        snprintf(which, sizeof(which), "text %zu", text + 1);
    snprintf(sentence, sizeof(sentence), "%s is in %s (%s), as it seems, and was translated as if it were %s", which,
             name, code, a->source);
    json_array_append_new(a->warnings, json_string(sentence));
}

bool serve_choose_models(serve_model_choice *a, serve_reply *reply) {
    const bool automatic = strcmp(a->source, "auto") == 0;
    serve_model *said = automatic ? NULL : serve_model_pair(&a->request->server->models, a->source, a->target);
    a->models = calloc(a->count, sizeof(*a->models));
    a->guesses = automatic ? calloc(a->count, sizeof(*a->guesses)) : NULL;
    a->warnings = json_array();
    if (!a->models || (automatic && !a->guesses) || !a->warnings) {
        *reply = serve_reply_error(a->request, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
        return false;
    }
    for (size_t i = 0; i < a->count; i++) {
        serve_detection other;
        if (automatic && !detect(a, i, reply))
            return false;
        if (automatic)
            continue;
        a->models[i] = said;
        if (json_array_size(a->warnings) < WARNINGS && is_other(&other, a, a->texts[i]))
            warn(a, i, other.code);
    }
    return true;
}

void serve_model_choice_free(serve_model_choice *a) {
    free(a->models);
    free(a->guesses);
    json_decref(a->warnings);
}
