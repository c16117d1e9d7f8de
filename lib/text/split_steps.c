#include "text/split_steps.h"
#include "text/char_class.h"
#include "text/normalize.h"

#define STEP(name) tfm_status name(const tfm__split_step *s, tfm__spans *out, tfm__spans *in, tfm__regex_memory *memory)
#define UNUSED (void)s, (void)memory

/* Steps that only split do not change the text. */
static void keep_text(tfm__spans *out, tfm__spans *in) {
    const tfm__bytes text = out->text;
    out->text = in->text;
    in->text = text;
}

static void keep_span(tfm__spans *out, const tfm__text_span *span, size_t begin, size_t end) {
    tfm__spans_add(out, begin, end, -1, span->start && begin == span->begin);
}

static tfm_status finish(const tfm__spans *out) {
    return out->text.failed ? TFM_ERROR_MEMORY : TFM_OK;
}

/* ---- Splitting at separators -------------------------------------------------------------------------- */

/* Joins parts by the behavior, from left to right. */
typedef struct span_merger {
    const tfm__split_step *step;
    const tfm__text_span *span;
    tfm__spans *out;
    size_t begin, end; /* the part that may still grow */
    bool open;         /* there is one */
    bool match;        /* the last part was a delimiter */
} span_merger;

static void flush(span_merger *j) {
    if (j->open)
        keep_span(j->out, j->span, j->begin, j->end);
    j->open = false;
}

static void add_part(span_merger *j, size_t begin, size_t end, bool match) {
    bool join = false;
    match = match != j->step->invert;
    switch (j->step->behavior) {
    case TFM__SPLIT_REMOVED:
        if (!match)
            keep_span(j->out, j->span, begin, end);
        return;
    case TFM__SPLIT_ISOLATED:
        keep_span(j->out, j->span, begin, end);
        return;
    case TFM__SPLIT_CONTIGUOUS: /* the beginning counts as following text */
        join = match == j->match;
        break;
    case TFM__SPLIT_MERGED_WITH_PREVIOUS:
        join = match && !j->match;
        break;
    case TFM__SPLIT_MERGED_WITH_NEXT: /* a delimiter is joined with the following text, not with another delimiter */
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

static tfm_status split_by_regex(const tfm__split_step *s, span_merger *j, const char *text,
                                 tfm__regex_memory *memory) {
    const size_t from = j->span->begin, bytes = j->span->end - from;
    tfm__regex_iter iter = {0};
    size_t last = 0;
    bool found = false;
    tfm_status status;
    while ((status = tfm__regex_next(s->regex, memory, &found, &iter, text + from, bytes)) == TFM_OK && found) {
        if (last != iter.begin)
            add_part(j, from + last, from + iter.begin, false);
        add_part(j, from + iter.begin, from + iter.end, true);
        last = iter.end;
    }
    if (last != bytes)
        add_part(j, from + last, from + bytes, false);
    return status;
}

static void split_by_character(const tfm__split_step *s, span_merger *j, const char *text) {
    size_t last = j->span->begin;
    for (size_t at = last, next = at; at < j->span->end; at = next) {
        const int32_t c = tfm__char_next(text, &next);
        if (s->is_delimiter ? !s->is_delimiter(c) : c != s->character)
            continue;
        if (last < at)
            add_part(j, last, at, false);
        add_part(j, at, next, true);
        last = next;
    }
    if (last < j->span->end)
        add_part(j, last, j->span->end, false);
}

STEP(tfm__split_at_delimiter) {
    keep_text(out, in);
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < in->count && status == TFM_OK; i++) {
        span_merger j = {.step = s, .span = &in->items[i], .out = out};
        if (j.span->id >= 0)
            tfm__spans_add(out, j.span->begin, j.span->end, j.span->id, j.span->start);
        else if (s->regex)
            status = split_by_regex(s, &j, out->text.data, memory);
        else
            split_by_character(s, &j, out->text.data);
        flush(&j);
    }
    return status == TFM_OK ? finish(out) : status;
}

/* ---- Splitting by character class --------------------------------------------------------------------- */

#define EACH_TEXT(span, out, in)                                                                                       \
    for (const tfm__text_span *span = (in)->items; span < (in)->items + (in)->count; span++)                           \
        if (span->id >= 0)                                                                                             \
            tfm__spans_add(out, span->begin, span->end, span->id, span->start);                                        \
        else

static int word_kind(int32_t c) {
    return tfm__char_is_word(c) ? 1 : tfm__char_is_space(c) ? 0 : 2;
}

STEP(tfm__split_words) {
    UNUSED;
    keep_text(out, in);
    EACH_TEXT(span, out, in) {
        size_t begin = span->begin;
        int kind = 0;
        for (size_t at = begin, next = at; at < span->end; at = next) {
            const int now = word_kind(tfm__char_next(out->text.data, &next));
            if (now == kind)
                continue;
            if (kind)
                keep_span(out, span, begin, at);
            begin = at;
            kind = now;
        }
        if (kind)
            keep_span(out, span, begin, span->end);
    }
    return finish(out);
}

STEP(tfm__split_scripts) {
    UNUSED;
    keep_text(out, in);
    EACH_TEXT(span, out, in) {
        size_t begin = span->end; /* text before the first script is dropped */
        int32_t last = -1;
        for (size_t at = span->begin, next = at; at < span->end; at = next) {
            const int32_t script = tfm__char_script(tfm__char_next(out->text.data, &next));
            if (script < 0 || script == last)
                continue;
            if (last >= 0)
                keep_span(out, span, begin, at);
            begin = at;
            last = script;
        }
        keep_span(out, span, begin, span->end);
    }
    return finish(out);
}

STEP(tfm__split_fixed_length) {
    UNUSED;
    keep_text(out, in);
    EACH_TEXT(span, out, in) {
        size_t begin = span->begin, count = 0;
        for (size_t at = begin; at < span->end;) {
            tfm__char_next(out->text.data, &at);
            if (++count == s->characters || at == span->end) {
                keep_span(out, span, begin, at);
                begin = at;
                count = 0;
            }
        }
    }
    return finish(out);
}

/* ---- Rewriting the text ------------------------------------------------------------------------------- */

STEP(tfm__split_metaspace) {
    UNUSED;
    char sign[4];
    const size_t length = tfm__char_write(sign, s->replacement);
    for (size_t i = 0; i < in->count; i++) {
        const tfm__text_span *span = &in->items[i];
        const char *at = in->text.data + span->begin, *end = in->text.data + span->end;
        const size_t begin = out->text.count;
        if (span->id < 0) {
            const bool there = *at == ' ' || ((size_t)(end - at) >= length && memcmp(at, sign, length) == 0);
            if (!there && (s->prepend == TFM__PREPEND_ALWAYS || (s->prepend == TFM__PREPEND_FIRST && span->start)))
                tfm__bytes_add(&out->text, sign, length);
            for (const char *blank; (blank = memchr(at, ' ', (size_t)(end - at))); at = blank + 1) {
                tfm__bytes_add(&out->text, at, (size_t)(blank - at));
                tfm__bytes_add(&out->text, sign, length);
            }
        }
        tfm__bytes_add(&out->text, at, (size_t)(end - at));
        tfm__spans_add(out, begin, out->text.count, span->id, span->start);
    }
    return finish(out);
}

STEP(tfm__split_prefix_space) {
    UNUSED;
    for (size_t i = 0; i < in->count; i++) {
        const tfm__text_span *span = &in->items[i];
        const size_t begin = out->text.count;
        if (span->id < 0 && in->text.data[span->begin] != ' ')
            tfm__bytes_add(&out->text, " ", 1);
        tfm__bytes_add(&out->text, in->text.data + span->begin, span->end - span->begin);
        tfm__spans_add(out, begin, out->text.count, span->id, span->start);
    }
    return finish(out);
}

STEP(tfm__split_byte_level) {
    UNUSED;
    if (!tfm__bytes_reserve(&out->text, 2 * in->text.count + 1)) /* all of the characters have at most two bytes */
        return TFM_ERROR_MEMORY;
    char *to = out->text.data;
    for (size_t i = 0; i < in->count; i++) {
        const tfm__text_span *span = &in->items[i];
        const char *begin = to;
        if (span->id < 0)
            for (size_t at = span->begin; at < span->end; at++)
                to += tfm__char_write(to, tfm__byte_to_char((unsigned char)in->text.data[at]));
        else
            for (size_t at = span->begin; at < span->end; at++)
                *to++ = in->text.data[at];
        tfm__spans_add(out, (size_t)(begin - out->text.data), (size_t)(to - out->text.data), span->id, span->start);
    }
    out->text.count = (size_t)(to - out->text.data);
    return finish(out);
}
