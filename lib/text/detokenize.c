#include "text/detokenize.h"
#include "text/normalize.h"
#include "text/pretokenize.h"
#include "text/regex.h"
#include "text/replace_text.h"
#include "text/utf8.h"

enum { MAX_STEPS = 64 };

typedef struct step {
    tfm_status (*run)(const struct step *step, tfm__string_list *out, const tfm__string_list *in);
    char *text, *replacement;        /* a prefix, a suffix; Replace's search text and its replacement */
    size_t bytes, replacement_bytes; /* of them */
    tfm__regex *regex;               /* Replace's, if it is a regular expression */
    int32_t character;               /* Strip's, Metaspace's */
    size_t start, stop;              /* Strip's */
    bool keep;                       /* Metaspace: keeps the first blank */
    bool cleanup;                    /* WordPiece's */
} step;

struct tfm__detokenizer {
    step steps[MAX_STEPS];
    size_t count;
    bool none, has_bytes;
};

#define STEP(name) static tfm_status name(const step *s, tfm__string_list *out, const tfm__string_list *in)
#define EACH_TEXT(i, text, length, in)                                                                                 \
    for (size_t i = 0, length = 0; i < (in)->count; i++)                                                               \
        for (const char *text = part(in, i, &length); text; text = NULL)

static const char *part(const tfm__string_list *in, size_t i, size_t *bytes) {
    const size_t begin = i ? in->ends[i - 1] : 0;
    *bytes = in->ends[i] - begin;
    return in->bytes.data ? in->bytes.data + begin : "";
}

STEP(wordpiece) {
    static const char *const PAIRS[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    tfm_status status = TFM_OK;
    tfm__bytes spaced = {0};
    EACH_TEXT(i, text, length, in) {
        const bool inside = i && length >= s->bytes && memcmp(text, s->text, s->bytes) == 0;
        spaced.count = 0;
        if (i && !inside)
            tfm__bytes_add(&spaced, " ", 1);
        tfm__bytes_add(&spaced, text + (inside ? s->bytes : 0), length - (inside ? s->bytes : 0));
        if (!s->cleanup || !spaced.count)
            tfm__bytes_add(&out->bytes, spaced.data, spaced.count);
        else if (status == TFM_OK)
            status = tfm__replace_pairs(&out->bytes, spaced.data, spaced.count, PAIRS, TFM__COUNT(PAIRS));
        tfm__string_list_end(out);
    }
    if (spaced.failed)
        status = TFM_ERROR_MEMORY;
    tfm__bytes_free(&spaced);
    return status;
}

STEP(metaspace) {
    EACH_TEXT(i, text, length, in) {
        for (size_t at = 0, next = 0; at < length; at = next) {
            if (tfm__char_next(text, &next) != s->character)
                tfm__bytes_add(&out->bytes, text + at, next - at);
            else if (i || s->keep)
                tfm__bytes_add(&out->bytes, " ", 1);
        }
        tfm__string_list_end(out);
    }
    return TFM_OK;
}

STEP(suffix) {
    EACH_TEXT(i, text, length, in) {
        tfm__replace_all(&out->bytes, text, length, s->text, s->bytes, " ", i + 1 < in->count);
        tfm__string_list_end(out);
    }
    return TFM_OK;
}

STEP(fuse) {
    (void)s;
    tfm__bytes_add(&out->bytes, in->bytes.data, in->bytes.count);
    tfm__string_list_end(out);
    return TFM_OK;
}

/* A piece with other characters, such as an added token, is copied. */
static void add_byte_chars(tfm__bytes *out, const char *text, size_t length) {
    const size_t before = out->count;
    for (size_t at = 0; at < length;) {
        const int byte = tfm__char_to_byte(tfm__char_next(text, &at));
        const char one = (char)byte;
        if (byte < 0) {
            out->count = before;
            tfm__bytes_add(out, text, length);
            break;
        }
        tfm__bytes_add(out, &one, 1);
    }
}

STEP(byte_level) {
    (void)s;
    tfm__bytes raw = {0};
    EACH_TEXT(i, text, length, in)
    add_byte_chars(&raw, text, length);
    tfm__utf8_lossy(&out->bytes, raw.data, raw.count);
    tfm__string_list_end(out);
    const tfm_status status = raw.failed ? TFM_ERROR_MEMORY : TFM_OK;
    tfm__bytes_free(&raw);
    return status;
}

static int hex(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

int tfm__parse_byte_piece(const char *text, size_t bytes) {
    if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>' || hex(text[3]) < 0 || hex(text[4]) < 0)
        return -1;
    return hex(text[3]) * 16 + hex(text[4]);
}

/* Adjacent byte pieces form one text, or each becomes U+FFFD. */
static void end_bytes(tfm__string_list *out, tfm__bytes *raw) {
    if (!raw->count)
        return;
    if (tfm__utf8_valid(raw->data, raw->count) == raw->count)
        tfm__bytes_add(&out->bytes, raw->data, raw->count);
    else
        for (size_t i = 0; i < raw->count; i++)
            tfm__bytes_add(&out->bytes, "\xef\xbf\xbd", 3);
    tfm__string_list_end(out);
    raw->count = 0;
}

STEP(byte_fallback) {
    (void)s;
    tfm__bytes raw = {0};
    EACH_TEXT(i, text, length, in) {
        const int byte = tfm__parse_byte_piece(text, length);
        const char one = (char)byte;
        if (byte >= 0) {
            tfm__bytes_add(&raw, &one, 1);
            continue;
        }
        end_bytes(out, &raw);
        tfm__bytes_add(&out->bytes, text, length);
        tfm__string_list_end(out);
    }
    end_bytes(out, &raw);
    const bool failed = raw.failed;
    tfm__bytes_free(&raw);
    return failed ? TFM_ERROR_MEMORY : TFM_OK;
}

STEP(strip) {
    EACH_TEXT(i, text, length, in) {
        size_t begin = 0, end = length, next = 0;
        for (size_t cut = 0; cut < s->start && begin < length && tfm__char_next(text, &next) == s->character; cut++)
            begin = next;
        for (size_t cut = 0; cut < s->stop && end > begin && tfm__char_before(text, end) == s->character; cut++)
            do
                end--;
            while (((unsigned char)text[end] & 0xc0) == 0x80);
        tfm__bytes_add(&out->bytes, text + begin, end - begin);
        tfm__string_list_end(out);
    }
    return TFM_OK;
}

STEP(replace) {
    tfm__regex_memory memory = {0};
    tfm_status status = TFM_OK;
    EACH_TEXT(i, text, length, in) {
        tfm__regex_iter iter = {0};
        bool found = false;
        size_t last = 0;
        if (!s->regex)
            tfm__replace_all(&out->bytes, text, length, s->text, s->bytes, s->replacement, s->replacement_bytes);
        while (s->regex && status == TFM_OK &&
               (status = tfm__regex_next(s->regex, &memory, &found, &iter, text, length)) == TFM_OK && found) {
            tfm__bytes_add(&out->bytes, text + last, iter.begin - last);
            tfm__bytes_add(&out->bytes, s->replacement, s->replacement_bytes);
            last = iter.end;
        }
        if (s->regex)
            tfm__bytes_add(&out->bytes, text + last, length - last);
        tfm__string_list_end(out);
    }
    tfm__regex_memory_free(&memory);
    return status;
}

/* ---- Reading ------------------------------------------------------------------------------------------ */

static tfm_status copy(char **out, size_t *bytes, const char *text) {
    *out = tfm__strdup(text);
    *bytes = strlen(text);
    return *out ? TFM_OK : TFM_ERROR_MEMORY;
}

static tfm_status read_wordpiece(step *s, const json_t *value, tfm__json_location location) {
    const char *prefix;
    tfm_status status = tfm__hf_string(&prefix, value, "prefix", "##", location);
    if (status == TFM_OK)
        status = tfm__hf_bool(&s->cleanup, value, "cleanup", true, location);
    s->run = wordpiece;
    return status == TFM_OK ? copy(&s->text, &s->bytes, prefix) : status;
}

static tfm_status read_metaspace(step *s, const json_t *value, tfm__json_location location) {
    tfm__prepend_scheme prepend;
    bool split;
    tfm_status status = tfm__metaspace_read(&s->character, &prepend, &split, value, location);
    s->keep = prepend == TFM__PREPEND_NEVER;
    s->run = metaspace;
    return status;
}

static tfm_status read_suffix(step *s, const json_t *value, tfm__json_location location) {
    const char *text;
    tfm_status status = tfm__hf_string(&text, value, "suffix", "</w>", location);
    s->run = suffix;
    return status == TFM_OK ? copy(&s->text, &s->bytes, text) : status;
}

static tfm_status read_strip(step *s, const json_t *value, tfm__json_location location) {
    const char *content;
    int64_t start, stop;
    size_t at = 0;
    tfm_status status = tfm__hf_string(&content, value, "content", " ", location);
    if (status == TFM_OK)
        status = tfm__hf_int(&start, value, "start", 0, location);
    if (status == TFM_OK)
        status = tfm__hf_int(&stop, value, "stop", 0, location);
    if (status != TFM_OK)
        return status;
    s->character = *content ? tfm__char_next(content, &at) : -1;
    if (start < 0 || stop < 0 || at == 0 || content[at])
        return tfm__fail(TFM_ERROR_FORMAT, "%s: Strip in `%s` needs one character, and its counts at both ends",
                         location.path, location.section);
    s->start = (size_t)start;
    s->stop = (size_t)stop;
    s->run = strip;
    return TFM_OK;
}

static tfm_status read_replace(step *s, const json_t *value, tfm__json_location location) {
    const char *pattern, *content;
    bool regex;
    tfm_status status = tfm__hf_pattern(&pattern, &regex, value, "pattern", location);
    if (status == TFM_OK)
        status = tfm__hf_string(&content, value, "content", "", location);
    if (status == TFM_OK)
        status = copy(&s->replacement, &s->replacement_bytes, content);
    if (status == TFM_OK)
        status = copy(&s->text, &s->bytes, pattern);
    if (status == TFM_OK && regex)
        status = tfm__regex_new(&s->regex, pattern, strlen(pattern), location.path);
    s->run = replace;
    return status;
}

static tfm_status read_step(void *user, const json_t *value, const char *type, tfm__json_location location) {
    static const struct {
        const char *type;
        tfm_status (*read)(step *, const json_t *, tfm__json_location);
        tfm_status (*run)(const step *, tfm__string_list *, const tfm__string_list *);
    } TYPES[] = {
        {"ByteLevel", NULL, byte_level},     {"ByteFallback", NULL, byte_fallback}, {"Fuse", NULL, fuse},
        {"WordPiece", read_wordpiece, NULL}, {"Metaspace", read_metaspace, NULL},   {"BPEDecoder", read_suffix, NULL},
        {"Strip", read_strip, NULL},         {"Replace", read_replace, NULL},
    };
    tfm__detokenizer *d = user;
    if (d->count == MAX_STEPS)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` has more than %d steps", location.path, location.section,
                         MAX_STEPS);
    for (size_t i = 0; i < TFM__COUNT(TYPES); i++)
        if (strcmp(type, TYPES[i].type) == 0) {
            step *s = &d->steps[d->count++];
            s->run = TYPES[i].run;
            d->has_bytes |= s->run == byte_fallback;
            return TYPES[i].read ? TYPES[i].read(s, value, location) : TFM_OK;
        }
    return tfm__hf_unknown(type, location);
}

tfm_status tfm__detokenizer_read(tfm__detokenizer **out, const json_t *value, const char *path) {
    *out = tfm__alloc(1, sizeof(**out));
    if (!*out)
        return TFM_ERROR_MEMORY;
    (*out)->none = !value || json_is_null(value);
    const tfm_status status = tfm__hf_each(value, "decoders", read_step, *out, (tfm__json_location){path, "decoder"});
    if (status != TFM_OK)
        tfm__detokenizer_free(out);
    return status;
}

void tfm__detokenizer_free(tfm__detokenizer **decoder) {
    tfm__detokenizer *d = *decoder;
    for (size_t i = 0; d && i < d->count; i++) {
        free(d->steps[i].text);
        free(d->steps[i].replacement);
        tfm__regex_free(&d->steps[i].regex);
    }
    free(d);
    *decoder = NULL;
}

bool tfm__detokenizer_has_byte_fallback(const tfm__detokenizer *decoder) {
    return decoder->has_bytes;
}

bool tfm__detokenizer_is_byte_level(const tfm__detokenizer *decoder) {
    return decoder->count > 0 && decoder->steps[0].run == byte_level;
}

/* ---- A text ------------------------------------------------------------------------------------------- */

/* Limit of a text: each step may lengthen a piece, and a hostile file would exhaust memory. */
#define MAX_TEXT(bytes) (((size_t)1 << 20) + 64 * (bytes))

tfm_status tfm__detokenizer_run(const tfm__detokenizer *d, tfm__bytes *out, tfm__string_list *texts) {
    const size_t most = MAX_TEXT(texts->bytes.count);
    tfm__string_list spare = {0};
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < d->count && status == TFM_OK; i++) {
        spare.count = spare.bytes.count = 0;
        status = d->steps[i].run(&d->steps[i], &spare, texts);
        const tfm__string_list done = spare;
        spare = *texts;
        *texts = done;
        if (status == TFM_OK && texts->bytes.count > most)
            status =
                tfm__fail(TFM_ERROR_INPUT, "the tokenizer's decoder produces a text of %zu bytes", texts->bytes.count);
        if (texts->bytes.failed || spare.bytes.failed)
            status = TFM_ERROR_MEMORY;
    }
    EACH_TEXT(i, text, length, texts) {
        if (i && d->none)
            tfm__bytes_add(out, " ", 1);
        tfm__bytes_add(out, text, length);
    }
    tfm__string_list_free(&spare);
    return status == TFM_OK && out->failed ? TFM_ERROR_MEMORY : status;
}

/* A step of one text, with an empty text before and after it. */
static tfm_status run_between(const step *s, tfm__bytes *text) {
    tfm__string_list in = {0}, done = {0};
    tfm__string_list_end(&in);
    tfm__bytes_add(&in.bytes, text->data, text->count);
    tfm__string_list_end(&in);
    tfm__string_list_end(&in);
    const tfm_status status = in.bytes.failed ? TFM_ERROR_MEMORY : s->run(s, &done, &in);
    text->count = 0;
    text->failed |= done.bytes.failed;
    if (status == TFM_OK && !text->failed && done.ends[1] > done.ends[0])
        tfm__bytes_add(text, done.bytes.data + done.ends[0], done.ends[1] - done.ends[0]);
    tfm__string_list_free(&in);
    tfm__string_list_free(&done);
    return status;
}

tfm_status tfm__detokenizer_token(const tfm__detokenizer *d, tfm__bytes *out, const char *piece, size_t bytes) {
    tfm__bytes text = {0};
    tfm_status status = TFM_OK;
    bool fused = false; /* `Strip` is then about the ends of the whole text */
    tfm__bytes_add(&text, " ", d->none);
    tfm__bytes_add(&text, piece, bytes);
    for (size_t i = 0; i < d->count && status == TFM_OK && text.count; i++) {
        const step *s = &d->steps[i];
        const int byte = s->run == byte_fallback ? tfm__parse_byte_piece(text.data, text.count) : -1;
        tfm__bytes raw = {0};
        fused |= s->run == fuse || s->run == byte_level;
        if (s->run == byte_level) {
            add_byte_chars(&raw, text.data, text.count);
            tfm__bytes_free(&text);
            text = raw;
        } else if (byte >= 0) {
            text.data[0] = (char)byte;
            text.count = 1;
        } else if (s->run != fuse && s->run != byte_fallback && !(fused && s->run == strip) &&
                   tfm__utf8_valid(text.data, text.count) == text.count) {
            status = run_between(s, &text);
        }
    }
    tfm__bytes_add(out, text.data, text.count);
    status = text.failed || out->failed ? TFM_ERROR_MEMORY : status;
    tfm__bytes_free(&text);
    return status;
}
