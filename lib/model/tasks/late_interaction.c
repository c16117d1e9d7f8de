/* Late interaction (ColBERT): settings of a PyLate directory, and MaxSim. */
#include <string.h>
#include "base/json.h"
#include "model/tasks/embedder.h"

/* PyLate's defaults. */
static const char *const PREFIXES[] = {"[D] ", "[Q] "};
enum { DOCUMENT_LENGTH = 180, QUERY_LENGTH = 32 };

/* Python's string.punctuation, the default of skiplist_words. */
static const char PUNCTUATION[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

static tfm_status read_prefix(char **out, const json_t *config, const char *key, const char *usual) {
    const json_t *value = json_object_get(config, key);
    const char *text = json_is_string(value) ? json_string_value(value) : usual;
    *out = *text ? tfm__strdup(text) : NULL;
    return *out || !*text ? TFM_OK : TFM_ERROR_MEMORY;
}

/* Maximum tokens, at most the encoder's positions. */
static tfm_status read_length(int *out, const json_t *config, const char *dir, const char *key, int usual, int most) {
    const json_t *value = json_object_get(config, key);
    const double number = json_is_null(value) || !value ? usual : json_number_value(value);
    *out = number < most ? (int)number : most;
    return number >= 4 ? TFM_OK
                       : tfm__fail(TFM_ERROR_FORMAT,
                                   "%s/config_sentence_transformers.json: `%s` is %s; it must be a number of at least "
                                   "4 tokens",
                                   dir, key, tfm__json_text((char[TFM__JSON_TEXT]){0}, value));
}

static json_t *punctuation(void) {
    json_t *list = json_array();
    for (size_t i = 0; PUNCTUATION[i]; i++)
        json_array_append_new(list, json_stringn(PUNCTUATION + i, 1));
    return list;
}

tfm_status tfm__late_interaction_read(tfm_embedder *e, const char *dir) {
    tfm__late_interaction *late = &e->late;
    json_t *config = NULL;
    tfm_status status = tfm__embed_load_optional(&config, dir, "config_sentence_transformers.json");
    if (status == TFM_OK)
        status = read_prefix(&late->prefix[TFM_ROLE_DOCUMENT], config, "document_prefix", PREFIXES[TFM_ROLE_DOCUMENT]);
    if (status == TFM_OK)
        status = read_prefix(&late->prefix[TFM_ROLE_QUERY], config, "query_prefix", PREFIXES[TFM_ROLE_QUERY]);
    if (status == TFM_OK)
        status = read_length(&late->length[TFM_ROLE_DOCUMENT], config, dir, "document_length", DOCUMENT_LENGTH,
                             e->encoder_positions);
    if (status == TFM_OK)
        status =
            read_length(&late->length[TFM_ROLE_QUERY], config, dir, "query_length", QUERY_LENGTH, e->encoder_positions);
    late->expands = !json_is_false(json_object_get(config, "do_query_expansion"));
    late->attends = late->expands && json_is_true(json_object_get(config, "attend_to_expansion_tokens"));
    json_t *words = json_object_get(config, "skiplist_words");
    late->skipped = json_is_array(words) ? json_incref(words) : punctuation();
    e->info.max_tokens = late->length[TFM_ROLE_DOCUMENT];
    json_decref(config);
    return status == TFM_OK && !late->skipped ? TFM_ERROR_MEMORY : status;
}

void tfm__late_interaction_free(tfm_embedder *e) {
    free(e->late.prefix[TFM_ROLE_DOCUMENT]);
    free(e->late.prefix[TFM_ROLE_QUERY]);
    json_decref(e->late.skipped);
}

static double dot(const float *a, const float *b, size_t width) {
    double sum = 0;
    for (size_t i = 0; i < width; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

tfm_status tfm_maxsim(double *score, const float *query, size_t query_count, const float *document,
                      size_t document_count, int width) {
    if (TFM__NEEDS("maxsim", score) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    *score = 0;
    if ((!query && query_count > 0) || (!document && document_count > 0) || width < 1)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "maxsim: query is %p with %zu vectors, document %p with %zu, and width %d: vectors must not "
                         "be NULL, and width at least 1",
                         (const void *)query, query_count, (const void *)document, document_count, width);
    const size_t w = (size_t)width;
    for (size_t i = 0; i < query_count && document_count > 0; i++) {
        double most = dot(query + i * w, document, w);
        for (size_t k = 1; k < document_count; k++) {
            const double one = dot(query + i * w, document + k * w, w);
            most = one > most ? one : most;
        }
        *score += most;
    }
    return TFM_OK;
}
