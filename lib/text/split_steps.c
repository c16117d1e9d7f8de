#include "text/split_steps.h"
#include "text/char_class.h"
#include "text/normalize.h"

#define STEP(name) tfm_status name(const tfm__cutting *s, tfm__spans *out, tfm__spans *in, tfm__regex_memory *memory)
#define UNUSED (void)s, (void)memory

/* Steps that only cut leave the text as it is. */
static void keep_text(tfm__spans *out, tfm__spans *in) {
    const tfm__bytes text = out->text;
    out->text = in->text;
    in->text = text;
}

static void keep(tfm__spans *out, const tfm__text_span *cut, size_t begin, size_t end) {
    tfm__spans_add(out, begin, end, -1, cut->start && begin == cut->begin);
}

static tfm_status done(const tfm__spans *out) {
    return out->text.failed ? TFM_ERROR_MEMORY : TFM_OK;
}

/* ---- Splitting at what separates ---------------------------------------------------------------------- */

/* Puts parts together as the behaviour says, while they come from left to right. */
typedef struct joining {
    const tfm__cutting *step;
    const tfm__text_span *cut;
    tfm__spans *out;
    size_t begin, end; /* the part that may still grow */
    bool open;         /* there is one */
    bool match;        /* the last part was a separator */
} joining;

static void flush(joining *j) {
    if (j->open)
        keep(j->out, j->cut, j->begin, j->end);
    j->open = false;
}

static void part(joining *j, size_t begin, size_t end, bool match) {
    bool join = false;
    match = match != j->step->invert;
    switch (j->step->behaviour) {
    case TFM__REMOVED:
        if (!match)
            keep(j->out, j->cut, begin, end);
        return;
    case TFM__ISOLATED:
        keep(j->out, j->cut, begin, end);
        return;
    case TFM__CONTIGUOUS: /* what comes first counts as if text were before it */
        join = match == j->match;
        break;
    case TFM__WITH_PREVIOUS:
        join = match && !j->match;
        break;
    case TFM__WITH_NEXT: /* a separator takes the text after it, not another separator */
        join = j->match && !match;
        break;
    }
    if (!join || !j->open) {
        flush(j);
        j->begin = begin;
        j->open = true;
    }
    j->end = end;
    j->match = match;
}

static tfm_status split_by_regex(const tfm__cutting *s, joining *j, const char *text, tfm__regex_memory *memory) {
    const size_t from = j->cut->begin, bytes = j->cut->end - from;
    tfm__regex_walk walk = {0};
    size_t last = 0;
    bool found = false;
    tfm_status status;
    while ((status = tfm__regex_next(s->regex, memory, &found, &walk, text + from, bytes)) == TFM_OK && found) {
        if (last != walk.begin)
            part(j, from + last, from + walk.begin, false);
        part(j, from + walk.begin, from + walk.end, true);
        last = walk.end;
    }
    if (last != bytes)
        part(j, from + last, from + bytes, false);
    return status;
}

static void split_by_character(const tfm__cutting *s, joining *j, const char *text) {
    size_t last = j->cut->begin;
    for (size_t at = last, next = at; at < j->cut->end; at = next) {
        const int32_t c = tfm__char_next(text, &next);
        if (s->separates ? !s->separates(c) : c != s->character)
            continue;
        if (last < at)
            part(j, last, at, false);
        part(j, at, next, true);
        last = next;
    }
    if (last < j->cut->end)
        part(j, last, j->cut->end, false);
}

STEP(tfm__cutting_split) {
    keep_text(out, in);
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < in->count && status == TFM_OK; i++) {
        joining j = {.step = s, .cut = &in->items[i], .out = out};
        if (j.cut->id >= 0)
            tfm__spans_add(out, j.cut->begin, j.cut->end, j.cut->id, j.cut->start);
        else if (s->regex)
            status = split_by_regex(s, &j, out->text.data, memory);
        else
            split_by_character(s, &j, out->text.data);
        flush(&j);
    }
    return status == TFM_OK ? done(out) : status;
}

/* ---- Cutting by kinds of characters ------------------------------------------------------------------- */

#define EACH_TEXT(cut, out, in)                                                                                        \
    for (const tfm__text_span *cut = (in)->items; cut < (in)->items + (in)->count; cut++)                              \
        if (cut->id >= 0)                                                                                              \
            tfm__spans_add(out, cut->begin, cut->end, cut->id, cut->start);                                            \
        else

static int word_kind(int32_t c) {
    return tfm__letter_word(c) ? 1 : tfm__letter_space(c) ? 0 : 2;
}

STEP(tfm__cutting_words) {
    UNUSED;
    keep_text(out, in);
    EACH_TEXT(cut, out, in) {
        size_t begin = cut->begin;
        int kind = 0;
        for (size_t at = begin, next = at; at < cut->end; at = next) {
            const int now = word_kind(tfm__char_next(out->text.data, &next));
            if (now == kind)
                continue;
            if (kind)
                keep(out, cut, begin, at);
            begin = at;
            kind = now;
        }
        if (kind)
            keep(out, cut, begin, cut->end);
    }
    return done(out);
}

STEP(tfm__cutting_scripts) {
    UNUSED;
    keep_text(out, in);
    EACH_TEXT(cut, out, in) {
        size_t begin = cut->end; /* what comes before the first script is in no part */
        int32_t last = -1;
        for (size_t at = cut->begin, next = at; at < cut->end; at = next) {
            const int32_t script = tfm__letter_script(tfm__char_next(out->text.data, &next));
            if (script < 0 || script == last)
                continue;
            if (last >= 0)
                keep(out, cut, begin, at);
            begin = at;
            last = script;
        }
        keep(out, cut, begin, cut->end);
    }
    return done(out);
}

STEP(tfm__cutting_lengths) {
    UNUSED;
    keep_text(out, in);
    EACH_TEXT(cut, out, in) {
        size_t begin = cut->begin, count = 0;
        for (size_t at = begin; at < cut->end;) {
            tfm__char_next(out->text.data, &at);
            if (++count == s->characters || at == cut->end) {
                keep(out, cut, begin, at);
                begin = at;
                count = 0;
            }
        }
    }
    return done(out);
}

/* ---- Writing the text anew ---------------------------------------------------------------------------- */

STEP(tfm__cutting_metaspace) {
    UNUSED;
    char sign[4];
    const size_t length = tfm__char_write(sign, s->replacement);
    for (size_t i = 0; i < in->count; i++) {
        const tfm__text_span *cut = &in->items[i];
        const char *at = in->text.data + cut->begin, *end = in->text.data + cut->end;
        const size_t begin = out->text.count;
        if (cut->id < 0) {
            const bool there = *at == ' ' || ((size_t)(end - at) >= length && memcmp(at, sign, length) == 0);
            if (!there && (s->prepend == TFM__ALWAYS || (s->prepend == TFM__FIRST && cut->start)))
                tfm__bytes_add(&out->text, sign, length);
            for (const char *blank; (blank = memchr(at, ' ', (size_t)(end - at))); at = blank + 1) {
                tfm__bytes_add(&out->text, at, (size_t)(blank - at));
                tfm__bytes_add(&out->text, sign, length);
            }
        }
        tfm__bytes_add(&out->text, at, (size_t)(end - at));
        tfm__spans_add(out, begin, out->text.count, cut->id, cut->start);
    }
    return done(out);
}

STEP(tfm__cutting_prefix) {
    UNUSED;
    for (size_t i = 0; i < in->count; i++) {
        const tfm__text_span *cut = &in->items[i];
        const size_t begin = out->text.count;
        if (cut->id < 0 && in->text.data[cut->begin] != ' ')
            tfm__bytes_add(&out->text, " ", 1);
        tfm__bytes_add(&out->text, in->text.data + cut->begin, cut->end - cut->begin);
        tfm__spans_add(out, begin, out->text.count, cut->id, cut->start);
    }
    return done(out);
}

STEP(tfm__cutting_bytes) {
    UNUSED;
    if (!tfm__bytes_room(&out->text, 2 * in->text.count + 1)) /* all of the characters have two bytes at most */
        return TFM_ERROR_MEMORY;
    char *to = out->text.data;
    for (size_t i = 0; i < in->count; i++) {
        const tfm__text_span *cut = &in->items[i];
        const char *begin = to;
        if (cut->id < 0)
            for (size_t at = cut->begin; at < cut->end; at++)
                to += tfm__char_write(to, tfm__byte_char((unsigned char)in->text.data[at]));
        else
            for (size_t at = cut->begin; at < cut->end; at++)
                *to++ = in->text.data[at];
        tfm__spans_add(out, (size_t)(begin - out->text.data), (size_t)(to - out->text.data), cut->id, cut->start);
    }
    out->text.count = (size_t)(to - out->text.data);
    return done(out);
}
