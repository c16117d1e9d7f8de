/* Structured output: grammars of requests, from JSON schemas, lists of choices, GBNF, and tools. Grammars of earlier
 * requests are kept, with the masks of the vocabulary that they have computed. */
#include <stdlib.h>
#include <string.h>
#include "serve/openai.h"
#include "serve/server.h"

enum { KEPT = 16, MAX_DEPTH = 256 };

struct serve_grammar {
    char *text; /* "gbnf ..." or "schema ..." */
    tfm_grammar *grammar;
    size_t users;
    uint64_t used;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static serve_grammar *kept[KEPT];
static uint64_t uses;

static void grammar_free(serve_grammar *g) {
    tfm_grammar_free(&g->grammar);
    free(g->text);
    free(g);
}

/* The grammar of an earlier request. */
static serve_grammar *find(const char *text) {
    serve_grammar *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < KEPT && !found; i++)
        found = kept[i] && strcmp(kept[i]->text, text) == 0 ? kept[i] : NULL;
    if (found) {
        found->users++;
        found->used = ++uses;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* Keeps a grammar instead of the one that was not used for the longest time, if there is one without a user. */
static void keep(serve_grammar *g) {
    int at = -1;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < KEPT; i++)
        if (!kept[i] || (kept[i]->users == 0 && (at < 0 || (kept[at] && kept[i]->used < kept[at]->used))))
            at = i;
    if (at >= 0) {
        if (kept[at])
            grammar_free(kept[at]);
        g->used = ++uses;
        kept[at] = g;
    }
    pthread_mutex_unlock(&lock);
}

void serve_grammar_release(serve_grammar *g) {
    bool is_kept = false;
    if (!g)
        return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < KEPT; i++)
        is_kept = is_kept || kept[i] == g;
    const bool last = --g->users == 0 && !is_kept;
    pthread_mutex_unlock(&lock);
    if (last)
        grammar_free(g);
}

/* Compiles "schema ..." or "gbnf ...". Takes ownership of the text. False with the error reply for the field. */
static bool compile(const serve_request *r, serve_job *job, const char *field, char *text, serve_reply *reply) {
    job->grammar_field = field;
    serve_grammar *g = text ? find(text) : NULL;
    if (g || !text) {
        free(text);
        job->grammar = g;
        if (!g)
            *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the grammar");
        return g != NULL;
    }
    g = calloc(1, sizeof(*g));
    const char *rest = strchr(text, ' ') + 1;
    const tfm_status status = !g             ? TFM_ERROR_MEMORY
                              : *text == 's' ? tfm_grammar_from_json_schema(&g->grammar, rest)
                                             : tfm_grammar_from_gbnf(&g->grammar, rest);
    if (status == TFM_OK) {
        g->text = text;
        g->users = 1;
        keep(g);
        job->grammar = g;
        return true;
    }
    free(g);
    free(text);
    *reply = status == TFM_ERROR_MEMORY
                 ? serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the grammar")
                 : serve_reply_field(r, field, NULL, "Invalid request: %s: %s", field, tfm_error_message());
    return false;
}

/* ---- Fields -------------------------------------------------------------------------------------------------- */

/* "schema " and the JSON text of a schema, which may be given as text. */
static char *schema_text(const json_t *schema) {
    char *json =
        json_is_string(schema) ? NULL : json_dumps(schema, JSON_COMPACT | JSON_REAL_PRECISION(17) | JSON_ENCODE_ANY);
    const char *given = json ? json : json_string_value(schema);
    char *text = NULL;
    if (given && asprintf(&text, "schema %s", given) < 0)
        text = NULL;
    free(json);
    return text;
}

static char *gbnf_text(const json_t *grammar) {
    char *text = NULL;
    return asprintf(&text, "gbnf %s", json_string_value(grammar)) < 0 ? NULL : text;
}

/* GBNF of a list of texts; NULL for anything else. */
static char *choices_text(const json_t *list) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    bool good = out && json_array_size(list) > 0;
    if (out)
        fputs("gbnf root ::=", out);
    for (size_t i = 0; i < json_array_size(list) && good; i++) {
        const json_t *choice = json_array_get(list, i);
        good = json_is_string(choice);
        fprintf(out, "%s\"", i ? " | " : " ");
        for (const char *at = json_string_value(choice); good && *at; at++)
            if (*at == '"' || *at == '\\')
                fprintf(out, "\\%c", *at);
            else if (*at == '\n' || *at == '\r')
                fputs(*at == '\n' ? "\\n" : "\\r", out);
            else
                fputc(*at, out);
        fputc('"', out);
    }
    if (out)
        fclose(out);
    if (good)
        return text;
    free(text);
    return NULL;
}

/* Makes references to the root of a schema references to `prefix`. */
static void move_references(json_t *value, const char *prefix, int depth) {
    json_t *each;
    const char *name, *reference = json_string_value(json_object_get(value, "$ref"));
    size_t i;
    if (reference && *reference == '#')
        json_object_set_new(value, "$ref", json_sprintf("%s%s", prefix, reference + 1));
    if (depth == MAX_DEPTH)
        return;
    json_object_foreach(value, name, each) move_references(each, prefix, depth + 1);
    json_array_foreach(value, i, each) move_references(each, prefix, depth + 1);
}

/* The schema of a tool's arguments, which is alternative number `index`: no others than those listed, unless it says
 * otherwise. NULL without memory. */
static json_t *arguments_schema(const json_t *function, size_t index) {
    static const char *const OPEN[] = {"additionalProperties", "allOf", "anyOf", "oneOf", "$ref"};
    json_t *parameters = json_deep_copy(json_object_get(function, "parameters"));
    char prefix[64];
    if (!json_is_object(parameters)) {
        json_decref(parameters);
        return json_pack("{s:s}", "type", "object");
    }
    snprintf(prefix, sizeof(prefix), "#/anyOf/%zu/properties/arguments", index);
    bool open = !json_object_get(parameters, "properties");
    for (size_t i = 0; i < CLI_COUNT(OPEN); i++)
        open = open || json_object_get(parameters, OPEN[i]);
    if (!open)
        json_object_set_new(parameters, "additionalProperties", json_false());
    json_object_del(parameters, "$id");
    move_references(parameters, prefix, 0);
    return parameters;
}

/* The schema of a call of one of the tools, or of the one with this name. NULL if there is none. */
static json_t *calls_schema(const json_t *tools, const char *name) {
    json_t *any = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++) {
        json_t *function = json_object_get(json_array_get(tools, i), "function");
        const char *own = json_string_value(json_object_get(function, "name"));
        if (own && (!name || strcmp(own, name) == 0))
            json_array_append_new(any, json_pack("{s:s, s:{s:{s:s}, s:o}, s:[s, s], s:b}", "type", "object",
                                                 "properties", "name", "const", own, "arguments",
                                                 arguments_schema(function, json_array_size(any)), "required", "name",
                                                 "arguments", "additionalProperties", 0));
    }
    if (json_array_size(any) > 0)
        return json_pack("{s:o}", "anyOf", any);
    json_decref(any);
    return NULL;
}

/* tool_choice: "required" or a function must be called. */
static bool read_tool_choice(serve_request *r, serve_job *job, serve_reply *reply) {
    const json_t *choice = json_object_get(r->fields, "tool_choice");
    const char *word = json_string_value(choice);
    const char *name = json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
    if (!choice || json_is_null(choice) || (word && (strcmp(word, "auto") == 0 || strcmp(word, "none") == 0)))
        return true;
    const bool known = word ? strcmp(word, "required") == 0 : name != NULL;
    json_t *schema = known && !job->grammar ? calls_schema(job->format.tools, name) : NULL;
    if (known && job->grammar) {
        *reply =
            serve_reply_field(r, "tool_choice", NULL, "Invalid request: tool_choice is a second grammar: give one");
        return false;
    }
    if (!schema) {
        *reply = serve_reply_field(r, "tool_choice", NULL, "Invalid request: tool_choice %s",
                                   known ? "needs tools, and names one of them"
                                         : "is not none, auto, required, or {\"type\": \"function\", \"function\": "
                                           "{\"name\": string}}");
        return false;
    }
    char *text = schema_text(schema);
    json_decref(schema);
    return compile(r, job, "tool_choice", text, reply);
}

/* response_format: of type text, json_object or json_schema. */
static bool read_response_format(serve_request *r, serve_job *job, serve_reply *reply) {
    const json_t *format = json_object_get(r->fields, "response_format"), *of = json_object_get(format, "json_schema");
    const char *field = r->response ? "text.format" : "response_format";
    const char *type = json_string_value(json_object_get(format, "type"));
    const json_t *schema = json_object_get(of && !json_is_null(of) ? of : format, "schema");
    schema = json_is_null(schema) ? NULL : schema;
    if (!format || json_is_null(format) || (type && strcmp(type, "text") == 0))
        return true;
    if (type && strcmp(type, "json_object") == 0)
        return compile(r, job, field, schema ? schema_text(schema) : strdup("schema "), reply);
    if (type && strcmp(type, "json_schema") == 0 && json_is_object(schema))
        return compile(r, job, field, schema_text(schema), reply);
    *reply = serve_reply_field(
        r, field, NULL, "Invalid request: %s is not of type text, json_object, or json_schema with a schema", field);
    return false;
}

/* Fields of vLLM and llama.cpp. */
static bool read_guides(serve_request *r, serve_job *job, serve_reply *reply) {
    const json_t *all = json_object_get(r->fields, "structured_outputs");
    const struct {
        const char *name;
        const json_t *value;
        char kind; /* (s)chema, (g)rammar, (c)hoices */
    } guides[] = {
        {"guided_json", json_object_get(r->fields, "guided_json"), 's'},
        {"json_schema", json_object_get(r->fields, "json_schema"), 's'},
        {"structured_outputs", json_object_get(all, "json"), 's'},
        {"guided_grammar", json_object_get(r->fields, "guided_grammar"), 'g'},
        {"grammar", json_object_get(r->fields, "grammar"), 'g'},
        {"structured_outputs", json_object_get(all, "grammar"), 'g'},
        {"guided_choice", json_object_get(r->fields, "guided_choice"), 'c'},
        {"structured_outputs", json_object_get(all, "choice"), 'c'},
    };
    for (size_t i = 0; i < CLI_COUNT(guides); i++) {
        const json_t *value = guides[i].value;
        const char *text = json_string_value(value), kind = guides[i].kind;
        if (!value || json_is_null(value) || (text && !*text))
            continue;
        const bool good = kind == 's'   ? text || json_is_object(value) || json_is_boolean(value)
                          : kind == 'g' ? text != NULL
                                        : json_is_array(value);
        char *source = !good         ? NULL
                       : kind == 's' ? schema_text(value)
                       : kind == 'g' ? gbnf_text(value)
                                     : choices_text(value);
        if (!source || job->grammar) {
            free(source);
            *reply = serve_reply_field(r, guides[i].name, NULL, "Invalid request: %s is %s", guides[i].name,
                                       job->grammar  ? "a second grammar: give one"
                                       : kind == 's' ? "not a JSON schema"
                                       : kind == 'g' ? "not a grammar"
                                                     : "not a list of texts");
            return false;
        }
        if (!compile(r, job, guides[i].name, source, reply))
            return false;
    }
    return true;
}

bool serve_openai_grammar(serve_request *r, serve_job *job, serve_reply *reply) {
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(r->fields, "structured_outputs"), name, value) {
        if (json_is_null(value) || strcmp(name, "json") == 0 || strcmp(name, "choice") == 0 ||
            strcmp(name, "grammar") == 0)
            continue;
        *reply = serve_reply_field(r, "structured_outputs", "unsupported_parameter",
                                   "Invalid request: structured_outputs has a field other than json, choice and "
                                   "grammar");
        return false;
    }
    if (!read_response_format(r, job, reply) || !read_guides(r, job, reply) ||
        (job->chat && !read_tool_choice(r, job, reply)))
        return false;
    job->generate.grammar = job->grammar ? job->grammar->grammar : NULL;
    job->format.reasoning = job->format.reasoning && !job->grammar; /* it would have to fit the grammar */
    return true;
}
