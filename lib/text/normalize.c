#include "text/charsmap.h"
#include "text/char_class.h"
#include "text/normalize.h"
#include "text/utf8.h"

enum { MAX_STEPS = 64 };

/* Limit of a text's growth, against hostile files. */
#define MAX_TEXT(bytes) (((size_t)1 << 20) + 64 * (bytes))

static tfm_status too_long(size_t bytes) {
    return tfm__fail(TFM_ERROR_INPUT, "the tokenizer's normalizer produces %zu bytes for the line", bytes);
}

/* One step. */
typedef struct step {
    tfm_status (*run)(const struct step *step, tfm__bytes *out, const tfm__bytes *in, bool *start,
                      tfm__regex_memory *memory);
    int form;                            /* tfm__unicode_form */
    bool left, right;                    /* of Strip */
    bool clean, chinese, accents, lower; /* of BertNormalizer */
    char *text;                          /* of Prepend, and Replace's replacement */
    size_t bytes;                        /* of it */
    tfm__regex *pattern;                 /* of Replace */
    tfm__charsmap *charsmap;             /* of Precompiled */
} step;

struct tfm__normalizer {
    step steps[MAX_STEPS];
    size_t count;
};

/* ---- What is done ------------------------------------------------------------------------------------- */

#define STEP(name)                                                                                                     \
    static tfm_status name(const step *s, tfm__bytes *out, const tfm__bytes *in, bool *start, tfm__regex_memory *memory)
#define UNUSED (void)s, (void)start, (void)memory
#define EACH_CHAR(c, in) for (size_t at = 0, c = 0; at < (in)->count && (c = (size_t)next_of(in, &at), true);)

static int32_t next_of(const tfm__bytes *in, size_t *at) {
    return tfm__char_next(in->data, at);
}

STEP(normal_form) {
    UNUSED;
    return tfm__unicode_normalize(out, in->data, in->count, (tfm__unicode_form)s->form);
}

STEP(lowercase) {
    UNUSED;
    int32_t small[2];
    EACH_CHAR(c, in) {
        const int count = tfm__char_to_lower(small, (int32_t)c);
        for (int i = 0; i < count; i++)
            tfm__bytes_add_char(out, small[i]);
    }
    return TFM_OK;
}

STEP(strip) {
    UNUSED;
    size_t begin = 0, end = in->count;
    for (size_t next = 0; s->left && next < end && tfm__char_is_space(next_of(in, &next));)
        begin = next;
    while (s->right && end > begin && tfm__char_is_space(tfm__char_before(in->data, end)))
        do
            end--;
        while (((unsigned char)in->data[end] & 0xc0) == 0x80);
    *start = *start && begin == 0;
    tfm__bytes_add(out, in->data + begin, end - begin);
    return TFM_OK;
}

/* Removes characters of a class. */
static void filter(tfm__bytes *out, const tfm__bytes *in, bool *start, bool (*leave_out)(int32_t)) {
    for (size_t at = 0, next = 0; at < in->count; at = next)
        if (!leave_out(next_of(in, &next)))
            tfm__bytes_add(out, in->data + at, next - at);
        else if (at == 0)
            *start = false;
}

STEP(strip_accents) {
    UNUSED;
    filter(out, in, start, tfm__char_is_mark);
    return TFM_OK;
}

STEP(prepend) {
    UNUSED;
    if (in->count)
        tfm__bytes_add(out, s->text, s->bytes);
    tfm__bytes_add(out, in->data, in->count);
    return TFM_OK;
}

STEP(replace) {
    tfm__regex_iter iter = {0};
    size_t last = 0;
    bool found = false;
    tfm_status status;
    const char *text = in->count ? in->data : "";
    while ((status = tfm__regex_next(s->pattern, memory, &found, &iter, text, in->count)) == TFM_OK && found) {
        tfm__bytes_add(out, text + last, iter.begin - last);
        tfm__bytes_add(out, s->text, s->bytes);
        if (iter.begin == 0 && iter.end > 0 && s->bytes == 0)
            *start = false;
        last = iter.end;
        if (out->failed || out->count > MAX_TEXT(in->count))
            return out->failed ? TFM_ERROR_MEMORY : too_long(out->count);
    }
    tfm__bytes_add(out, text + last, in->count - last);
    return status;
}

STEP(charsmap) {
    UNUSED;
    tfm__charsmap_run(s->charsmap, out, in->count ? in->data : "", in->count);
    return TFM_OK;
}

/* SentencePiece's NMT rules before normalization. */
STEP(nmt) {
    UNUSED;
    EACH_CHAR(c, in) {
        const bool gone =
            (c >= 0x01 && c <= 0x08) || c == 0x0b || (c >= 0x0e && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f;
        const bool blank = c == 0x09 || c == 0x0a || c == 0x0c || c == 0x0d || c == 0x1680 ||
                           (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff ||
                           c == 0xfffd;
        if (gone && out->count == 0)
            *start = false;
        if (!gone)
            tfm__bytes_add_char(out, blank ? ' ' : (int32_t)c);
    }
    return TFM_OK;
}

STEP(byte_level) {
    UNUSED;
    for (size_t i = 0; i < in->count; i++)
        tfm__bytes_add_char(out, tfm__byte_to_char((unsigned char)in->data[i]));
    return TFM_OK;
}

static void clean(const step *s, tfm__bytes *out, const tfm__bytes *in, bool *start) {
    EACH_CHAR(c, in) {
        const int32_t letter = (int32_t)c;
        if (s->clean && (c == 0xfffd || tfm__char_is_control(letter))) {
            *start = *start && out->count > 0;
            continue;
        }
        const bool apart = s->chinese && tfm__char_is_cjk(letter);
        if (apart)
            tfm__bytes_add(out, " ", 1);
        tfm__bytes_add_char(out, s->clean && tfm__char_is_space(letter) ? ' ' : letter);
        if (apart)
            tfm__bytes_add(out, " ", 1);
    }
}

STEP(bert) {
    tfm__bytes cleaned = {0}, apart = {0}, plain = {0};
    tfm_status status = TFM_OK;
    clean(s, &cleaned, in, start);
    if (s->accents) {
        status = tfm__unicode_normalize(&apart, cleaned.data, cleaned.count, TFM__NFD);
        filter(&plain, &apart, start, tfm__char_is_accent);
    }
    const tfm__bytes *done = s->accents ? &plain : &cleaned;
    if (status == TFM_OK && s->lower)
        status = lowercase(s, out, done, start, memory);
    else
        tfm__bytes_add(out, done->data, done->count);
    if (cleaned.failed || apart.failed || plain.failed)
        status = TFM_ERROR_MEMORY;
    tfm__bytes_free(&cleaned);
    tfm__bytes_free(&apart);
    tfm__bytes_free(&plain);
    return status;
}

/* ---- Reading ------------------------------------------------------------------------------------------ */

static tfm_status copy_text(step *s, const json_t *value, const char *key, tfm__json_location location) {
    const char *text;
    tfm_status status = tfm__hf_string(&text, value, key, "", location);
    if (status != TFM_OK)
        return status;
    s->text = tfm__strdup(text);
    s->bytes = strlen(text);
    return s->text ? TFM_OK : TFM_ERROR_MEMORY;
}

static tfm_status read_replace(step *s, const json_t *value, tfm__json_location location) {
    const char *pattern;
    bool regex;
    tfm_status status = tfm__hf_pattern(&pattern, &regex, value, "pattern", location);
    if (status == TFM_OK)
        status = copy_text(s, value, "content", location);
    if (status == TFM_OK)
        status =
            (regex ? tfm__regex_new : tfm__regex_new_literal)(&s->pattern, pattern, strlen(pattern), location.path);
    s->run = replace;
    return status;
}

static tfm_status read_bert(step *s, const json_t *value, tfm__json_location location) {
    tfm_status status = tfm__hf_bool(&s->clean, value, "clean_text", true, location);
    if (status == TFM_OK)
        status = tfm__hf_bool(&s->chinese, value, "handle_chinese_chars", true, location);
    if (status == TFM_OK)
        status = tfm__hf_bool(&s->lower, value, "lowercase", true, location);
    if (status == TFM_OK)
        status = tfm__hf_bool(&s->accents, value, "strip_accents", s->lower, location);
    s->run = bert;
    return status;
}

static tfm_status read_strip(step *s, const json_t *value, tfm__json_location location) {
    tfm_status status = tfm__hf_bool(&s->left, value, "strip_left", true, location);
    if (status == TFM_OK)
        status = tfm__hf_bool(&s->right, value, "strip_right", true, location);
    s->run = strip;
    return status;
}

/* "longest_match" is set by conversions of SentencePiece models only, never in files. */
static tfm_status read_charsmap(step *s, const json_t *value, tfm__json_location location) {
    const char *text;
    bool longest;
    tfm_status status = tfm__hf_string(&text, value, "precompiled_charsmap", "", location);
    if (status == TFM_OK)
        status = tfm__hf_bool(&longest, value, "longest_match", false, location);
    s->run = charsmap;
    return status == TFM_OK ? tfm__charsmap_new_base64(&s->charsmap, text, longest, location.path) : status;
}

static tfm_status read_step(void *user, const json_t *value, const char *type, tfm__json_location location) {
    static const char *const FORMS[] = {
        [TFM__NFC] = "NFC", [TFM__NFD] = "NFD", [TFM__NFKC] = "NFKC", [TFM__NFKD] = "NFKD"};
    static const struct {
        const char *type;
        tfm_status (*run)(const step *, tfm__bytes *, const tfm__bytes *, bool *, tfm__regex_memory *);
    } PLAIN[] = {{"Lowercase", lowercase}, {"StripAccents", strip_accents}, {"Nmt", nmt}, {"ByteLevel", byte_level}};
    static const struct {
        const char *type;
        tfm_status (*read)(step *, const json_t *, tfm__json_location);
    } OTHERS[] = {{"Strip", read_strip},
                  {"Replace", read_replace},
                  {"Precompiled", read_charsmap},
                  {"BertNormalizer", read_bert}};
    tfm__normalizer *n = user;
    if (n->count == MAX_STEPS)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` has more than %d steps", location.path, location.section,
                         MAX_STEPS);
    step *s = &n->steps[n->count++];
    for (int i = 0; i < (int)TFM__COUNT(FORMS); i++)
        if (strcmp(type, FORMS[i]) == 0) {
            s->run = normal_form;
            s->form = i;
            return TFM_OK;
        }
    for (size_t i = 0; i < TFM__COUNT(PLAIN); i++)
        if (strcmp(type, PLAIN[i].type) == 0) {
            s->run = PLAIN[i].run;
            return TFM_OK;
        }
    for (size_t i = 0; i < TFM__COUNT(OTHERS); i++)
        if (strcmp(type, OTHERS[i].type) == 0)
            return OTHERS[i].read(s, value, location);
    s->run = prepend;
    return strcmp(type, "Prepend") == 0 ? copy_text(s, value, "prepend", location) : tfm__hf_unknown(type, location);
}

tfm_status tfm__normalizer_read(tfm__normalizer **out, const json_t *value, const char *path) {
    *out = tfm__alloc(1, sizeof(**out));
    if (!*out)
        return TFM_ERROR_MEMORY;
    const tfm_status status =
        tfm__hf_each(value, "normalizers", read_step, *out, (tfm__json_location){path, "normalizer"});
    if (status != TFM_OK)
        tfm__normalizer_free(out);
    return status;
}

void tfm__normalizer_free(tfm__normalizer **normalizer) {
    tfm__normalizer *n = *normalizer;
    for (size_t i = 0; n && i < n->count; i++) {
        free(n->steps[i].text);
        tfm__regex_free(&n->steps[i].pattern);
        tfm__charsmap_free(&n->steps[i].charsmap);
    }
    free(n);
    *normalizer = NULL;
}

bool tfm__normalizer_is_byte_level(const tfm__normalizer *n) {
    for (size_t i = 0; i < n->count; i++)
        if (n->steps[i].run == byte_level)
            return true;
    return false;
}

tfm_status tfm__normalizer_run(const tfm__normalizer *n, tfm__bytes *text, tfm__bytes *spare, bool *start,
                               tfm__regex_memory *memory) {
    const size_t most = MAX_TEXT(text->count);
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < n->count && status == TFM_OK && text->count; i++) {
        spare->count = 0;
        status = n->steps[i].run(&n->steps[i], spare, text, start, memory);
        if (status == TFM_OK && spare->failed)
            status = TFM_ERROR_MEMORY;
        if (status == TFM_OK && spare->count > most)
            status = too_long(spare->count);
        const tfm__bytes done = *spare;
        *spare = *text;
        *text = done;
    }
    return status;
}
