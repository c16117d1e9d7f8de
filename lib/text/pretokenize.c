#include "text/char_class.h"
#include "text/pretokenize.h"

enum { MAX_STEPS = 64 };

struct tfm__pretokenizer {
    tfm__split_step steps[MAX_STEPS];
    size_t count;
};

/* GPT-2's pattern, the default of byte-level vocabularies. */
static const char GPT2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static tfm_status add(tfm__pretokenizer *p, tfm__split_step step, tfm__json_location location) {
    if (p->count == MAX_STEPS) {
        tfm__regex_free(&step.regex);
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` has more than %d steps", location.path, location.section,
                         MAX_STEPS);
    }
    p->steps[p->count++] = step;
    return TFM_OK;
}

static tfm_status read_behavior(tfm__split_behavior *out, const json_t *value, tfm__json_location location) {
    static const char *const NAMES[] = {
        [TFM__SPLIT_ISOLATED] = "Isolated",
        [TFM__SPLIT_REMOVED] = "Removed",
        [TFM__SPLIT_CONTIGUOUS] = "Contiguous",
        [TFM__SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [TFM__SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
    };
    const char *name;
    tfm_status status = tfm__hf_string(&name, value, "behavior", "Isolated", location);
    for (int i = 0; status == TFM_OK && i < (int)TFM__COUNT(NAMES); i++)
        if (strcmp(name, NAMES[i]) == 0) {
            *out = (tfm__split_behavior)i;
            return TFM_OK;
        }
    return status == TFM_OK
               ? tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `behavior` \"%.100s\" in `%s` is not supported by tfm",
                           location.path, name, location.section)
               : status;
}

static tfm_status read_byte_level(tfm__pretokenizer *p, const json_t *value, tfm__json_location location) {
    bool prefix, cut;
    tfm_status status = tfm__hf_bool(&prefix, value, "add_prefix_space", true, location);
    if (status == TFM_OK)
        status = tfm__hf_bool(&cut, value, "use_regex", true, location);
    if (status == TFM_OK && prefix)
        status = add(p, (tfm__split_step){.run = tfm__split_prefix_space}, location);
    if (status == TFM_OK && cut) {
        tfm__split_step step = {.run = tfm__split_at_delimiter, .behavior = TFM__SPLIT_ISOLATED};
        status = tfm__regex_new(&step.regex, GPT2, sizeof(GPT2) - 1, location.path);
        if (status == TFM_OK)
            status = add(p, step, location);
    }
    return status == TFM_OK ? add(p, (tfm__split_step){.run = tfm__split_byte_level}, location) : status;
}

/* A string that is one character. */
static tfm_status read_character(int32_t *out, const json_t *value, const char *key, const char *fallback,
                                 tfm__json_location location) {
    const char *text;
    tfm_status status = tfm__hf_string(&text, value, key, fallback, location);
    size_t at = 0;
    if (status == TFM_OK && *text)
        *out = tfm__char_next(text, &at);
    if (status == TFM_OK && (at == 0 || text[at]))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` in `%s` is \"%.100s\"; one character is needed", location.path,
                         key, location.section, text);
    return status;
}

tfm_status tfm__metaspace_read(int32_t *replacement, tfm__prepend_scheme *prepend, bool *split, const json_t *value,
                               tfm__json_location location) {
    static const char *const SCHEMES[] = {
        [TFM__PREPEND_ALWAYS] = "always", [TFM__PREPEND_FIRST] = "first", [TFM__PREPEND_NEVER] = "never"};
    const char *scheme;
    bool older;
    int found = -1;
    tfm_status status = read_character(replacement, value, "replacement", "\xe2\x96\x81", location);
    if (status == TFM_OK) /* the key used before `prepend_scheme` */
        status = tfm__hf_bool(&older, value, "add_prefix_space", true, location);
    if (status == TFM_OK)
        status = tfm__hf_bool(split, value, "split", true, location);
    if (status == TFM_OK)
        status = tfm__hf_string(&scheme, value, "prepend_scheme", older ? "always" : "never", location);
    for (int i = 0; status == TFM_OK && i < (int)TFM__COUNT(SCHEMES); i++)
        if (strcmp(scheme, SCHEMES[i]) == 0)
            found = i;
    if (status == TFM_OK && found < 0)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `prepend_scheme` \"%.100s\" in `%s` is not supported by tfm",
                         location.path, scheme, location.section);
    *prepend = (tfm__prepend_scheme)found;
    return status;
}

static tfm_status read_metaspace(tfm__pretokenizer *p, const json_t *value, tfm__json_location location) {
    tfm__split_step step = {.run = tfm__split_metaspace};
    bool cut;
    tfm_status status = tfm__metaspace_read(&step.replacement, &step.prepend, &cut, value, location);
    if (status == TFM_OK)
        status = add(p, step, location);
    if (status == TFM_OK && cut)
        status = add(p,
                     (tfm__split_step){.run = tfm__split_at_delimiter,
                                       .character = step.replacement,
                                       .behavior = TFM__SPLIT_MERGED_WITH_NEXT},
                     location);
    return status;
}

static tfm_status read_split(tfm__pretokenizer *p, const json_t *value, tfm__json_location location) {
    tfm__split_step step = {.run = tfm__split_at_delimiter};
    const char *pattern;
    bool regex;
    tfm_status status = tfm__hf_pattern(&pattern, &regex, value, "pattern", location);
    if (status == TFM_OK)
        status = read_behavior(&step.behavior, value, location);
    if (status == TFM_OK)
        status = tfm__hf_bool(&step.invert, value, "invert", false, location);
    if (status != TFM_OK)
        return status;
    if (*pattern == '\0') /* never splits */
        return TFM_OK;
    status = (regex ? tfm__regex_new : tfm__regex_new_literal)(&step.regex, pattern, strlen(pattern), location.path);
    return status == TFM_OK ? add(p, step, location) : status;
}

static tfm_status read_digits(tfm__pretokenizer *p, const json_t *value, tfm__json_location location) {
    bool each;
    tfm_status status = tfm__hf_bool(&each, value, "individual_digits", false, location);
    return status == TFM_OK ? add(p,
                                  (tfm__split_step){.run = tfm__split_at_delimiter,
                                                    .is_delimiter = tfm__char_is_number,
                                                    .behavior = each ? TFM__SPLIT_ISOLATED : TFM__SPLIT_CONTIGUOUS},
                                  location)
                            : status;
}

static tfm_status read_punctuation(tfm__pretokenizer *p, const json_t *value, tfm__json_location location) {
    tfm__split_step step = {.run = tfm__split_at_delimiter, .is_delimiter = tfm__char_is_punctuation};
    tfm_status status = read_behavior(&step.behavior, value, location);
    return status == TFM_OK ? add(p, step, location) : status;
}

static tfm_status read_bert(tfm__pretokenizer *p, const json_t *value, tfm__json_location location) {
    (void)value;
    tfm_status status =
        add(p,
            (tfm__split_step){
                .run = tfm__split_at_delimiter, .is_delimiter = tfm__char_is_space, .behavior = TFM__SPLIT_REMOVED},
            location);
    if (status == TFM_OK)
        status = add(p, (tfm__split_step){.run = tfm__split_at_delimiter, .is_delimiter = tfm__char_is_punctuation},
                     location);
    return status;
}

static tfm_status read_whitespace(tfm__pretokenizer *p, const json_t *value, tfm__json_location location) {
    (void)value;
    return add(p, (tfm__split_step){.run = tfm__split_words}, location);
}

static tfm_status read_whitespace_split(tfm__pretokenizer *p, const json_t *value, tfm__json_location location) {
    (void)value;
    return add(p,
               (tfm__split_step){
                   .run = tfm__split_at_delimiter, .is_delimiter = tfm__char_is_space, .behavior = TFM__SPLIT_REMOVED},
               location);
}

static tfm_status read_delimiter(tfm__pretokenizer *p, const json_t *value, tfm__json_location location) {
    tfm__split_step step = {.run = tfm__split_at_delimiter, .behavior = TFM__SPLIT_REMOVED};
    tfm_status status = read_character(&step.character, value, "delimiter", "", location);
    return status == TFM_OK ? add(p, step, location) : status;
}

static tfm_status read_scripts(tfm__pretokenizer *p, const json_t *value, tfm__json_location location) {
    (void)value;
    return add(p, (tfm__split_step){.run = tfm__split_scripts}, location);
}

static tfm_status read_lengths(tfm__pretokenizer *p, const json_t *value, tfm__json_location location) {
    int64_t length;
    tfm_status status = tfm__hf_int(&length, value, "length", 5, location);
    if (status == TFM_OK && length < 1)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `length` in `%s` is %lld; at least 1 is needed", location.path,
                         location.section, (long long)length);
    return status == TFM_OK
               ? add(p, (tfm__split_step){.run = tfm__split_fixed_length, .characters = (size_t)length}, location)
               : status;
}

static tfm_status read_step(void *user, const json_t *value, const char *type, tfm__json_location location) {
    static const struct {
        const char *type;
        tfm_status (*read)(tfm__pretokenizer *, const json_t *, tfm__json_location);
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
            return TYPES[i].read(user, value, location);
    return tfm__hf_unknown(type, location);
}

tfm_status tfm__pretokenizer_read(tfm__pretokenizer **out, const json_t *value, const char *path) {
    *out = tfm__alloc(1, sizeof(**out));
    if (!*out)
        return TFM_ERROR_MEMORY;
    const tfm_status status =
        tfm__hf_each(value, "pretokenizers", read_step, *out, (tfm__json_location){path, "pre_tokenizer"});
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

tfm_status tfm__pretokenizer_run(const tfm__pretokenizer *p, tfm__spans *spans, tfm__spans *spare,
                                 tfm__regex_memory *memory) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < p->count && status == TFM_OK && spans->count; i++) {
        spare->count = spare->text.count = 0;
        status = p->steps[i].run(&p->steps[i], spare, spans, memory);
        const tfm__spans done = *spare;
        *spare = *spans;
        *spans = done;
    }
    return status;
}
