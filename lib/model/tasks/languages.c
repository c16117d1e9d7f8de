#include "model/tasks/languages.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "model/multi_device/fleet.h"

enum { CODE_BYTES = 32, MAX_LISTED = 24 };

/* ---- Languages of a tokenizer ---- */

/* What surrounds the code in a language token. The first two kinds are in the source text; the others are the first
 * target token. */
static const struct {
    const char *before, *behind;
    bool in_source;
} FORMS[] = {{">>", "<<", true}, {"<2", ">", true}, {"__", "__", false}, {"", "", false}};

/* Two or three lower-case letters, as in "de", "deu_Latn", "zh-Hans" or "pt_BR". */
static bool is_code(const char *text) {
    size_t letters = 0;
    while (islower((unsigned char)text[letters]))
        letters++;
    const char *rest = text + letters;
    return letters >= 2 && letters <= 3 &&
           (!*rest || ((*rest == '_' || *rest == '-') && isalnum((unsigned char)rest[1])));
}

/* The language code of an id, or false. */
static bool code_of(char *code, const tfm_model *model, int32_t id) {
    const char *piece = tfm_tokenizer_piece(model->tokenizer, TFM_SOURCE, id);
    const size_t length = piece ? strlen(piece) : 0;
    for (size_t i = 0; i < TFM__COUNT(FORMS); i++) {
        const size_t before = strlen(FORMS[i].before), behind = strlen(FORMS[i].behind);
        if (length <= before + behind || length - before - behind >= CODE_BYTES ||
            strncmp(piece, FORMS[i].before, before) != 0 || strcmp(piece + length - behind, FORMS[i].behind) != 0)
            continue;
        snprintf(code, CODE_BYTES, "%.*s", (int)(length - before - behind), piece + before);
        return is_code(code) && (FORMS[i].in_source || tfm_tokenizer_language_id(model->tokenizer, code) == id);
    }
    return false;
}

/* The id of a language, or -1: other added tokens, such as <s>, are no languages. */
static int32_t id_of(const tfm_model *model, const char *language) {
    char code[CODE_BYTES];
    const int32_t id = tfm_tokenizer_language_id(model->tokenizer, language);
    return id >= 0 && code_of(code, model, id) && strcmp(code, language) == 0 ? id : -1;
}

/* Number of differing letters; a common prefix counts as close. */
static size_t edit_distance(const char *a, const char *b) {
    size_t row[CODE_BYTES + 1];
    const size_t n = strlen(b) < CODE_BYTES ? strlen(b) : CODE_BYTES;
    for (size_t k = 0; k <= n; k++)
        row[k] = k;
    for (size_t i = 0; a[i] && i < CODE_BYTES; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t k = 0; k < n; k++) {
            const size_t swapped = corner + (a[i] != b[k]), longer = (row[k] < row[k + 1] ? row[k] : row[k + 1]) + 1;
            corner = row[k + 1];
            row[k + 1] = swapped < longer ? swapped : longer;
        }
    }
    return strncmp(a, b, strlen(a)) == 0 || strncmp(a, b, n) == 0 ? 1 : row[n];
}

static tfm_status refuse(const tfm_model *model, const char *side, const char *language) {
    char known[512] = "", near[CODE_BYTES] = "", code[CODE_BYTES], meant[CODE_BYTES + 32] = "";
    size_t count = 0, used = 0, best = 3;
    const int32_t size = tfm_tokenizer_get_info(model->tokenizer)->source_size;
    for (int32_t id = 0; id < size; id++) {
        if (!code_of(code, model, id))
            continue;
        if (count++ < MAX_LISTED && used + CODE_BYTES + 2 < sizeof(known))
            used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", used ? ", " : "", code);
        const size_t far = edit_distance(language, code);
        if (far < best) {
            best = far;
            snprintf(near, sizeof(near), "%s", code);
        }
    }
    if (count == 0)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "the %s language is \"%.40s\", and the model's tokenizer has no languages: "
                         "leave it out",
                         side, language);
    if (*near)
        snprintf(meant, sizeof(meant), "; did you mean %s?", near);
    return tfm__fail(TFM_ERROR_ARGUMENT, "the model does not have the %s language \"%.40s\"%s It has %s%s", side,
                     language, *meant ? meant : ".", known, count > MAX_LISTED ? ", and more" : "");
}

/* ---- Options ---- */

/* Target language token in the source text (Marian, MADLAD); false: the tokenizer has none. */
static bool set_source_tag(tfm__language_choice *out, const tfm_model *model, const char *language,
                           tfm_status *status) {
    char piece[CODE_BYTES + 8];
    for (size_t i = 0; i < TFM__COUNT(FORMS) && FORMS[i].in_source; i++) {
        snprintf(piece, sizeof(piece), "%s%.*s%s", FORMS[i].before, CODE_BYTES, language, FORMS[i].behind);
        if (tfm_tokenizer_piece_id(model->tokenizer, TFM_SOURCE, piece) < 0)
            continue;
        snprintf(piece + strlen(piece), sizeof(piece) - strlen(piece), " ");
        *status = (out->before = tfm__strdup(piece)) ? TFM_OK : TFM_ERROR_MEMORY;
        return true;
    }
    return false;
}

/* mBART's first models: the decoder start token is the language token. */
static void set_target_token(tfm__language_choice *out, const tfm_model *model, const char *language) {
    char code[CODE_BYTES];
    const int32_t id = id_of(model, language);
    if (model->rules.forced_bos_id < 0 && code_of(code, model, model->rules.start_id)) {
        out->start = id;
        out->plain = true;
    } else {
        out->target = language;
        out->first = id;
    }
}

static tfm_status read_target(tfm__language_choice *out, const tfm_model *model, const char *language) {
    tfm_status status = TFM_OK;
    if (set_source_tag(out, model, language, &status))
        return status;
    if (id_of(model, language) < 0)
        return refuse(model, "target", language);
    set_target_token(out, model, language);
    return TFM_OK;
}

static tfm_status add_prefix(tfm__language_choice *out, const char *prefix) {
    const size_t first = out->before ? strlen(out->before) : 0, bytes = first + strlen(prefix) + 1;
    char *both = tfm__alloc(bytes, 1);
    if (!both)
        return TFM_ERROR_MEMORY;
    snprintf(both, bytes, "%s%s", out->before ? out->before : "", prefix);
    free(out->before);
    out->before = both;
    return TFM_OK;
}

tfm_status tfm__language_choice_read(tfm__language_choice *out, const tfm_model *model,
                                     const tfm_text_options *options) {
    *out = (tfm__language_choice){.first = -1, .start = -1};
    tfm_status status = TFM_OK;
    if (!options || !(options->source_language || options->target_language || options->source_prefix))
        return TFM_OK;
    if (!model->tokenizer)
        return tfm__fail(TFM_ERROR_ARGUMENT, "the model was opened without its tokenizer: it takes ids, not text");
    if (options->source_language && id_of(model, options->source_language) < 0)
        return refuse(model, "source", options->source_language);
    out->source = options->source_language;
    if (options->target_language)
        status = read_target(out, model, options->target_language);
    if (status == TFM_OK && options->source_prefix)
        status = add_prefix(out, options->source_prefix);
    return status;
}

void tfm__language_choice_free(tfm__language_choice *languages) {
    free(languages->before);
    languages->before = NULL;
}

void tfm__language_choice_apply(tfm_search_options *out, const tfm__language_choice *languages,
                                const tfm_search_options *given) {
    *out = given ? *given : (tfm_search_options){0};
    if (languages->first >= 0) {
        out->has_forced_bos_id = true;
        out->forced_bos_id = languages->first;
    }
    if (languages->start >= 0) {
        out->has_decoder_start_id = true;
        out->decoder_start_id = languages->start;
    }
}

static void set_target(tfm_model *model, const tfm__language_choice *languages) {
    if (languages->start >= 0)
        model->rules.start_id = languages->start;
    else
        model->rules.forced_bos_id = languages->first;
}

tfm_status tfm_model_set_target_language(tfm_model *model, const char *language) {
    tfm__language_choice languages;
    if (TFM__NEEDS("model_set_target_language", model, language) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm_status status = tfm__language_choice_read(&languages, model, &(tfm_text_options){.target_language = language});
    if (status == TFM_OK && languages.before)
        status = tfm__fail(TFM_ERROR_UNSUPPORTED,
                           "the model selects its target language by \"%.40s\" before each source text: write that "
                           "there, and set no language",
                           languages.before);
    if (status == TFM_OK)
        set_target(model, &languages);
    for (size_t i = 0; status == TFM_OK && model->replicas && i < model->replicas->fleet->count; i++)
        if (model->replicas->models[i])
            set_target(model->replicas->models[i], &languages);
    tfm__language_choice_free(&languages);
    return status;
}
