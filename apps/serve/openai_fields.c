/* The fields of requests to /v1/: supported ones, ones without effect, and unsupported ones of OpenAI's API, vLLM or
 * llama.cpp. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "serve/openai.h"

/* A field, and its JSON types besides null: (s)tring, (b)oolean, (i)nteger, (n)umber, (a)rray, (l)ist of objects,
 * (o)bject, or * if checked elsewhere. Only the `neutral` values, a JSON array, are accepted. NULL: all are, since they
 * are read elsewhere or have no effect. */
typedef struct field {
    const char *name;
    unsigned where;
    const char *types, *neutral;
} field;

enum {
    C = SERVE_CHAT_FIELDS,
    T = SERVE_TEXT_FIELDS,
    E = SERVE_EMBED_FIELDS,
    R = SERVE_RERANK_FIELDS,
    S = SERVE_SCORE_FIELDS,
    V = SERVE_SPARSE_FIELDS,
    I = SERVE_TOKENIZE_FIELDS,
    D = SERVE_DETOKENIZE_FIELDS,
    O = SERVE_RESPONSES_FIELDS,
    H = C | T,
    G = H | O,
    P = R | S,
    A = G | E | P | V | I | D
};

static const field FIELDS[] = {
    /* supported */
    {"model", A, "s", NULL},
    {"api_key", A, "s", NULL},
    {"messages", C | I, "a", NULL},
    {"parallel_tool_calls", C | O, "b", NULL},
    {"reasoning_format", C | O, "s", NULL}, /* llama.cpp's */
    {"tools", C | O, "l", NULL},            /* these five are for the chat template */
    {"documents", C | O, "l", NULL},
    {"chat_template_kwargs", C | O, "o", NULL},
    {"add_generation_prompt", C, "b", NULL},
    {"continue_final_message", C, "b", NULL},
    {"prompt", T, "*", NULL},
    {"prompt", I, "s", NULL},
    {"content", I, "s", NULL},
    {"add_special_tokens", I, "b", NULL},
    {"add_special", I, "b", NULL},
    {"with_pieces", I, "b", NULL},
    {"return_token_strs", I, "b", NULL},
    {"tokens", D, "a", NULL},
    {"input", E, "*", NULL},
    {"input", O, "sa", NULL},
    {"instructions", O, "s", NULL},
    {"max_output_tokens", O, "i", NULL},
    {"text", O, "o", NULL},
    {"encoding_format", E, "s", NULL},
    {"dimensions", E, "i", NULL},
    {"prompt_name", E, "s", NULL}, /* sentence-transformers' */
    {"input_type", E, "s", NULL},  /* Cohere's and Jina's: of vectors for each token */
    {"query", R, "s", NULL},
    {"documents", R, "a", NULL},
    {"top_n", R, "i", NULL},
    {"return_documents", R, "b", NULL},
    {"texts", R, "a", NULL}, /* text-embeddings-inference's, as are the next two */
    {"return_text", R, "b", NULL},
    {"inputs", V, "*", NULL},
    {"raw_scores", P, "b", NULL},
    {"text_1", S, "*", NULL},
    {"text_2", S, "*", NULL},
    {"max_tokens", H, "i", NULL},
    {"max_completion_tokens", C, "i", NULL},
    {"min_tokens", G, "i", NULL},
    {"n", H, "i", NULL},
    {"seed", G, "i", NULL},
    {"temperature", G, "n", NULL},
    {"top_p", G, "n", NULL},
    {"top_k", G, "i", NULL},
    {"min_p", G, "n", NULL},
    {"repetition_penalty", G, "n", NULL},
    {"stop", G, "sa", NULL},
    {"stop_token_ids", G, "a", NULL},
    {"ignore_eos", G, "b", NULL},
    {"prompt_lookup_num_tokens", G, "i", NULL}, /* transformers' */
    {"frequency_penalty", G, "n", NULL},
    {"presence_penalty", G, "n", NULL},
    {"logit_bias", G, "oa", NULL},
    {"logprobs", H, "bi", NULL},
    {"top_logprobs", C, "i", NULL},
    {"best_of", T, "i", NULL},
    {"echo", T, "b", NULL},
    {"suffix", T, "s", NULL},
    {"response_format", H, "o", NULL},
    {"tool_choice", C | O, "so", NULL},
    {"tool_choice", T, "so", "[\"none\", \"auto\"]"},
    {"guided_json", G, "*", NULL}, /* these four are vLLM's */
    {"guided_choice", G, "a", NULL},
    {"guided_grammar", G, "s", NULL},
    {"structured_outputs", G, "o", NULL},
    {"grammar", G, "s", NULL}, /* these two are llama.cpp's */
    {"json_schema", G, "o", NULL},
    {"stream", G, "b", NULL},
    {"stream_options", H, "o", NULL},
    /* without effect */
    {"user", A, "s", NULL},
    {"metadata", G, "o", NULL},
    {"store", C | O, "b", NULL},
    {"service_tier", G, "s", NULL},
    {"safety_identifier", G, "s", NULL},
    {"prompt_cache_key", G, "s", NULL},
    {"prompt_cache_retention", G, "s", NULL},
    {"prompt_cache_options", G, "o", NULL},
    {"prediction", C, "o", NULL},
    {"priority", A, "i", NULL},
    {"request_id", A, "s", NULL},
    {"cache_salt", A, "s", NULL},
    {"include_reasoning", C, "b", NULL},
    {"cache_prompt", G, "b", NULL},
    {"id_slot", G, "i", NULL},
    {"timings_per_token", G, "b", NULL},
    {"return_progress", G, "b", NULL},
    {"mirostat_tau", G, "n", NULL}, /* only used with another, unsupported field */
    {"mirostat_eta", G, "n", NULL},
    {"dynatemp_exponent", G, "n", NULL},
    {"dry_base", G, "n", NULL},
    {"dry_allowed_length", G, "i", NULL},
    {"dry_penalty_last_n", G, "i", NULL},
    {"dry_sequence_breakers", G, "a", NULL},
    {"xtc_threshold", G, "n", NULL},
    {"repeat_last_n", G, "i", NULL},
    {"n_keep", G, "i", NULL}, /* tokens to keep when the context is full; here texts end there */
    {"n_discard", G, "i", NULL},
    {"penalize_nl", G, "b", NULL},
    /* OpenAI's, unsupported */
    {"echo", C, "b", "[false]"},
    {"functions", C, "a", "[[]]"},
    {"function_call", C, "so", "[\"none\", \"auto\"]"},
    {"modalities", C, "a", "[[], [\"text\"]]"},
    {"audio", C, "o", "[{}]"},
    {"reasoning_effort", C, "s", "[\"none\"]"},
    {"verbosity", C, "s", "[\"medium\"]"},
    {"web_search_options", C, "o", "[]"},
    {"moderation", G, "o", "[]"},
    {"previous_response_id", O, "s", "[]"},
    {"conversation", O, "so", "[]"},
    {"prompt", O, "o", "[]"},
    {"background", O, "b", "[false]"},
    {"include", O, "a", "[[]]"},
    {"max_tool_calls", O, "i", "[]"},
    {"reasoning", O, "o", "[{}, {\"effort\": \"none\"}]"},
    {"stream_options", O, "o", "[{}, {\"include_obfuscation\": false}]"},
    {"top_logprobs", O, "i", "[0]"},
    {"logprobs", O, "b", "[false]"},
    {"n", O, "i", "[1]"},
    {"truncation", O, "s", "[\"disabled\"]"},
    {"context_management", O, "a", "[[]]"},
    /* vLLM's */
    {"use_beam_search", G, "b", "[false]"},
    {"length_penalty", G, "n", "[1]"},
    {"include_stop_str_in_output", G, "b", "[false]"},
    {"skip_special_tokens", G, "b", "[true]"},
    {"spaces_between_special_tokens", G, "b", "[true]"},
    {"add_special_tokens", T | E, "b", "[true]"},
    {"add_special_tokens", C, "b", "[false]"},
    {"truncate_prompt_tokens", A, "i", "[]"},
    {"prompt_logprobs", G, "i", "[]"},
    {"allowed_token_ids", G, "a", "[]"},
    {"bad_words", G, "a", "[[]]"},
    {"logits_processors", G, "a", "[[]]"},
    {"chat_template", C, "s", "[]"},
    {"mm_processor_kwargs", C, "o", "[{}]"},
    {"guided_regex", G, "s", "[]"},
    {"structural_tag", G, "s", "[]"},
    {"return_token_ids", G, "b", "[false]"},
    {"return_tokens_as_token_ids", G, "b", "[false]"},
    {"normalize", E, "b", "[]"},
    {"activation", P, "b", "[true]"},
    {"use_activation", P, "b", "[true]"},
    /* Jina's, Cohere's and text-embeddings-inference's */
    {"truncation", R, "b", "[true]"},
    {"truncate", R | V, "b", "[true]"},
    {"truncation_direction", R | V, "s", "[\"Right\", \"right\"]"},
    {"rank_fields", R, "a", "[[\"text\"]]"},
    {"max_chunks_per_doc", R, "i", "[]"},
    {"max_tokens_per_doc", R, "i", "[]"},
    {"return_embeddings", R, "b", "[false]"},
    {"embed_dtype", E, "s", "[\"float32\", \"auto\"]"},
    {"endianness", E, "s", "[\"native\", \"little\"]"},
    /* llama.cpp's */
    {"embd_normalize", E, "i", "[]"},
    {"n_predict", G, "i", "[-1]"},
    {"n_indent", G, "i", "[0]"},
    {"n_probs", G, "i", "[0]"},
    {"min_keep", G, "i", "[0]"},
    {"samplers", G, "as", "[]"},
    {"typical_p", G, "n", "[1]"},
    {"tfs_z", G, "n", "[1]"},
    {"top_n_sigma", G, "n", "[-1, 0]"},
    {"mirostat", G, "i", "[0]"},
    {"dynatemp_range", G, "n", "[0]"},
    {"dry_multiplier", G, "n", "[0]"},
    {"xtc_probability", G, "n", "[0]"},
    {"repeat_penalty", G, "n", "[1]"},
    {"image_data", G, "a", "[[]]"},
    {"multimodal_data", G, "a", "[[]]"},
    {"grammar_lazy", G, "b", "[false]"},
    {"lora", G, "a", "[[]]"},
    {"return_tokens", G, "b", "[false]"},
    {"post_sampling_probs", G, "b", "[false]"},
    {"t_max_predict_ms", G, "n", "[0, -1]"},
    {"num_beams", G, "i", "[1]"}, /* transformers' */
};

static bool is_list_of_objects(const json_t *value) {
    size_t objects = 0;
    while (json_is_object(json_array_get(value, objects)))
        objects++;
    return json_is_array(value) && objects == json_array_size(value);
}

static bool is_type(const json_t *value, const char *types) {
    const double x = json_number_value(value);
    const char type = json_is_string(value)    ? 's'
                      : json_is_boolean(value) ? 'b'
                      : json_is_array(value)   ? 'a'
                      : json_is_object(value)  ? 'o'
                                               : 'n';
    return strchr(types, type) || *types == '*' || (type == 'n' && strchr(types, 'i') && x == (double)(int64_t)x) ||
           (type == 'n' && strchr(types, 'i') && json_is_real(value) && (x >= 0x1p63 || x < -0x1p63)) || /* a seed */
           (strchr(types, 'l') && is_list_of_objects(value));
}

static bool is_neutral(const json_t *value, const char *neutral) {
    json_t *list = json_loads(neutral, 0, NULL);
    bool found = false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *other = json_array_get(list, i);
        found =
            found || json_equal(value, other) ||
            (json_is_number(value) && json_is_number(other) && json_number_value(value) == json_number_value(other));
    }
    json_decref(list);
    return found;
}

static const char *type_name(char type) {
    return type == 's'   ? "a string"
           : type == 'b' ? "true or false"
           : type == 'i' ? "an integer"
           : type == 'n' ? "a number"
           : type == 'a' ? "a list"
           : type == 'l' ? "a list of objects"
                         : "an object";
}

static bool refuse(const serve_request *r, const char *name, serve_reply *reply) {
    *reply =
        serve_reply_field(r, name, "unsupported_parameter", "Invalid request: %s is not supported: leave it out", name);
    return false;
}

static bool check_field(const serve_request *r, const field *f, const json_t *value, serve_reply *reply) {
    if (!value || json_is_null(value))
        return true;
    if (!is_type(value, f->types)) {
        *reply =
            serve_reply_field(r, f->name, NULL, "Invalid request: %s is not %s%s%s", f->name, type_name(f->types[0]),
                              f->types[1] ? " or " : "", f->types[1] ? type_name(f->types[1]) : "");
        return false;
    }
    return !f->neutral || is_neutral(value, f->neutral) || refuse(r, f->name, reply);
}

/* ---- Unknown fields -------------------------------------------------------------------------------------------- */

enum { MOST_NAMES = 64, NAME = 48 };

static bool is_name(const char *text) {
    size_t i = 0;
    while (isalnum((unsigned char)text[i]) || text[i] == '_' || text[i] == '-' || text[i] == '.')
        i++;
    return i > 0 && i < NAME && !text[i];
}

/* Logs an unknown field once. Only the thread that reads requests calls it. */
static void log_unknown(const serve_request *r, const char *name) {
    static char names[MOST_NAMES][NAME];
    static size_t count;
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return;
    if (count == MOST_NAMES || !is_name(name))
        return;
    snprintf(names[count++], NAME, "%s", name);
    fprintf(stderr, "tfm: %s: the field %s is not known and is ignored\n", r->route->path, name);
}

bool serve_fields_check(const serve_request *r, unsigned where, serve_reply *reply) {
    const char *name;
    json_t *value;
    for (size_t i = 0; i < CLI_COUNT(FIELDS); i++)
        if ((FIELDS[i].where & where) && !check_field(r, &FIELDS[i], json_object_get(r->fields, FIELDS[i].name), reply))
            return false;
    json_object_foreach(r->fields, name, value) {
        unsigned known = 0;
        for (size_t i = 0; i < CLI_COUNT(FIELDS); i++)
            known |= strcmp(FIELDS[i].name, name) == 0 ? FIELDS[i].where : 0;
        if (where == O && !(known & O) && (known & C) && !json_is_null(value)) /* the field of a chat */
            return refuse(r, name, reply);
        if (!(known & where))
            log_unknown(r, name);
    }
    return true;
}
