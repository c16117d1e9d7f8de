#include "text/char_class.h"
#include "text/pretokenize.h"

enum { MOST_STEPS = 64 };

struct tfm__pretokenizer {
    tfm__cutting steps[MOST_STEPS];
    size_t count;
};

/* What byte-level vocabularies since GPT-2 cut by. */
static const char GPT2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static tfm_status add(tfm__pretokenizer *p, tfm__cutting step, tfm__place place) {
    if (p->count == MOST_STEPS) {
        tfm__regex_free(&step.regex);
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` has more than %d steps", place.path, place.section, MOST_STEPS);
    }
    p->steps[p->count++] = step;
    return TFM_OK;
}

static tfm_status read_behaviour(tfm__behaviour *out, const json_t *value, tfm__place place) {
    static const char *const NAMES[] = {
        [TFM__ISOLATED] = "Isolated",        [TFM__REMOVED] = "Removed",
        [TFM__CONTIGUOUS] = "Contiguous",    [TFM__WITH_PREVIOUS] = "MergedWithPrevious",
        [TFM__WITH_NEXT] = "MergedWithNext",
    };
    const char *name;
    tfm_status status = tfm__hf_string(&name, value, "behavior", "Isolated", place);
    for (int i = 0; status == TFM_OK && i < (int)TFM__COUNT(NAMES); i++)
        if (strcmp(name, NAMES[i]) == 0) {
            *out = (tfm__behaviour)i;
            return TFM_OK;
        }
    return status == TFM_OK
               ? tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `behavior` \"%.100s\" in `%s` is not supported by tfm",
                           place.path, name, place.section)
               : status;
}

static tfm_status read_byte_level(tfm__pretokenizer *p, const json_t *value, tfm__place place) {
    bool prefix, cut;
    tfm_status status = tfm__hf_bool(&prefix, value, "add_prefix_space", true, place);
    if (status == TFM_OK)
        status = tfm__hf_bool(&cut, value, "use_regex", true, place);
    if (status == TFM_OK && prefix)
        status = add(p, (tfm__cutting){.run = tfm__cutting_prefix}, place);
    if (status == TFM_OK && cut) {
        tfm__cutting step = {.run = tfm__cutting_split, .behaviour = TFM__ISOLATED};
        status = tfm__regex_new(&step.regex, GPT2, sizeof(GPT2) - 1, place.path);
        if (status == TFM_OK)
            status = add(p, step, place);
    }
    return status == TFM_OK ? add(p, (tfm__cutting){.run = tfm__cutting_bytes}, place) : status;
}

/* A string that is one character. */
static tfm_status read_character(int32_t *out, const json_t *value, const char *key, const char *otherwise,
                                 tfm__place place) {
    const char *text;
    tfm_status status = tfm__hf_string(&text, value, key, otherwise, place);
    size_t at = 0;
    if (status == TFM_OK && *text)
        *out = tfm__char_next(text, &at);
    if (status == TFM_OK && (at == 0 || text[at]))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` in `%s` is \"%.100s\"; one character is needed", place.path, key,
                         place.section, text);
    return status;
}

tfm_status tfm__metaspace_read(int32_t *replacement, tfm__prepend *prepend, bool *split, const json_t *value,
                               tfm__place place) {
    static const char *const SCHEMES[] = {[TFM__ALWAYS] = "always", [TFM__FIRST] = "first", [TFM__NEVER] = "never"};
    const char *scheme;
    bool older;
    int found = -1;
    tfm_status status = read_character(replacement, value, "replacement", "\xe2\x96\x81", place);
    if (status == TFM_OK) /* which said it before there was a scheme */
        status = tfm__hf_bool(&older, value, "add_prefix_space", true, place);
    if (status == TFM_OK)
        status = tfm__hf_bool(split, value, "split", true, place);
    if (status == TFM_OK)
        status = tfm__hf_string(&scheme, value, "prepend_scheme", older ? "always" : "never", place);
    for (int i = 0; status == TFM_OK && i < (int)TFM__COUNT(SCHEMES); i++)
        if (strcmp(scheme, SCHEMES[i]) == 0)
            found = i;
    if (status == TFM_OK && found < 0)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `prepend_scheme` \"%.100s\" in `%s` is not supported by tfm",
                         place.path, scheme, place.section);
    *prepend = (tfm__prepend)found;
    return status;
}

static tfm_status read_metaspace(tfm__pretokenizer *p, const json_t *value, tfm__place place) {
    tfm__cutting step = {.run = tfm__cutting_metaspace};
    bool cut;
    tfm_status status = tfm__metaspace_read(&step.replacement, &step.prepend, &cut, value, place);
    if (status == TFM_OK)
        status = add(p, step, place);
    if (status == TFM_OK && cut)
        status = add(
            p, (tfm__cutting){.run = tfm__cutting_split, .character = step.replacement, .behaviour = TFM__WITH_NEXT},
            place);
    return status;
}

static tfm_status read_split(tfm__pretokenizer *p, const json_t *value, tfm__place place) {
    tfm__cutting step = {.run = tfm__cutting_split};
    const char *pattern;
    bool regex;
    tfm_status status = tfm__hf_pattern(&pattern, &regex, value, "pattern", place);
    if (status == TFM_OK)
        status = read_behaviour(&step.behaviour, value, place);
    if (status == TFM_OK)
        status = tfm__hf_bool(&step.invert, value, "invert", false, place);
    if (status != TFM_OK)
        return status;
    if (*pattern == '\0') /* cuts nowhere */
        return TFM_OK;
    status = (regex ? tfm__regex_new : tfm__regex_new_literal)(&step.regex, pattern, strlen(pattern), place.path);
    return status == TFM_OK ? add(p, step, place) : status;
}

static tfm_status read_digits(tfm__pretokenizer *p, const json_t *value, tfm__place place) {
    bool each;
    tfm_status status = tfm__hf_bool(&each, value, "individual_digits", false, place);
    return status == TFM_OK ? add(p,
                                  (tfm__cutting){.run = tfm__cutting_split,
                                                 .separates = tfm__letter_number,
                                                 .behaviour = each ? TFM__ISOLATED : TFM__CONTIGUOUS},
                                  place)
                            : status;
}

static tfm_status read_punctuation(tfm__pretokenizer *p, const json_t *value, tfm__place place) {
    tfm__cutting step = {.run = tfm__cutting_split, .separates = tfm__letter_punctuation};
    tfm_status status = read_behaviour(&step.behaviour, value, place);
    return status == TFM_OK ? add(p, step, place) : status;
}

static tfm_status read_bert(tfm__pretokenizer *p, const json_t *value, tfm__place place) {
    (void)value;
    tfm_status status = add(
        p, (tfm__cutting){.run = tfm__cutting_split, .separates = tfm__letter_space, .behaviour = TFM__REMOVED}, place);
    if (status == TFM_OK)
        status = add(p, (tfm__cutting){.run = tfm__cutting_split, .separates = tfm__letter_punctuation}, place);
    return status;
}

static tfm_status read_whitespace(tfm__pretokenizer *p, const json_t *value, tfm__place place) {
    (void)value;
    return add(p, (tfm__cutting){.run = tfm__cutting_words}, place);
}

static tfm_status read_whitespace_split(tfm__pretokenizer *p, const json_t *value, tfm__place place) {
    (void)value;
    return add(p, (tfm__cutting){.run = tfm__cutting_split, .separates = tfm__letter_space, .behaviour = TFM__REMOVED},
               place);
}

static tfm_status read_delimiter(tfm__pretokenizer *p, const json_t *value, tfm__place place) {
    tfm__cutting step = {.run = tfm__cutting_split, .behaviour = TFM__REMOVED};
    tfm_status status = read_character(&step.character, value, "delimiter", "", place);
    return status == TFM_OK ? add(p, step, place) : status;
}

static tfm_status read_scripts(tfm__pretokenizer *p, const json_t *value, tfm__place place) {
    (void)value;
    return add(p, (tfm__cutting){.run = tfm__cutting_scripts}, place);
}

static tfm_status read_lengths(tfm__pretokenizer *p, const json_t *value, tfm__place place) {
    int64_t length;
    tfm_status status = tfm__hf_int(&length, value, "length", 5, place);
    if (status == TFM_OK && length < 1)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `length` in `%s` is %lld; at least 1 is needed", place.path,
                         place.section, (long long)length);
    return status == TFM_OK ? add(p, (tfm__cutting){.run = tfm__cutting_lengths, .characters = (size_t)length}, place)
                            : status;
}

static tfm_status read_step(void *user, const json_t *value, const char *type, tfm__place place) {
    static const struct {
        const char *type;
        tfm_status (*read)(tfm__pretokenizer *, const json_t *, tfm__place);
    } TYPES[] = {
        {"ByteLevel", read_byte_level},
        {"Metaspace", read_metaspace},
        {"Split", read_split},
        {"Digits", read_digits},
        {"Punctuation", read_punctuation},
        {"BertPreTokenizer", read_bert},
        {"Whitespace", read_whitespace},
        {"WhitespaceSplit", read_whitespace_split},
        {"CharDelimiterSplit", read_delimiter},
        {"UnicodeScripts", read_scripts},
        {"FixedLength", read_lengths},
    };
    for (size_t i = 0; i < TFM__COUNT(TYPES); i++)
        if (strcmp(type, TYPES[i].type) == 0)
            return TYPES[i].read(user, value, place);
    return tfm__hf_unknown(type, place);
}

tfm_status tfm__pretokenizer_read(tfm__pretokenizer **out, const json_t *value, const char *path) {
    *out = tfm__alloc(1, sizeof(**out));
    if (!*out)
        return TFM_ERROR_MEMORY;
    const tfm_status status =
        tfm__hf_each(value, "pretokenizers", read_step, *out, (tfm__place){path, "pre_tokenizer"});
    if (status != TFM_OK)
        tfm__pretokenizer_free(out);
    return status;
}

void tfm__pretokenizer_free(tfm__pretokenizer **pretokenizer) {
    tfm__pretokenizer *p = *pretokenizer;
    for (size_t i = 0; p && i < p->count; i++)
        tfm__regex_free(&p->steps[i].regex);
    free(p);
    *pretokenizer = NULL;
}

tfm_status tfm__pretokenizer_run(const tfm__pretokenizer *p, tfm__spans *cuts, tfm__spans *spare,
                                 tfm__regex_memory *memory) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < p->count && status == TFM_OK && cuts->count; i++) {
        spare->count = spare->text.count = 0;
        status = p->steps[i].run(&p->steps[i], spare, cuts, memory);
        const tfm__spans done = *spare;
        *spare = *cuts;
        *cuts = done;
    }
    return status;
}
