/* The texts of the files that a vocabulary is trained on. */
#include "text/vocab_corpus.h"
#include <string.h>
#include "text/spm.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

/* SentencePiece's mark of unknown pieces, U+2585: it ignores lines with it. */
#define RESERVED "\xe2\x96\x85"

tfm_status tfm__vocab_corpus_begin(tfm__vocab_corpus_iter *w, const tfm__vocab_corpus *from) {
    *w = (tfm__vocab_corpus_iter){.from = from, .span = 2};
    return tfm__line_reader_open(&w->lines, from->files[0], 0);
}

static bool is_usable(tfm__string_view s) {
    size_t blank = 0;
    while (blank < s.bytes && (s.text[blank] == ' ' || s.text[blank] == '\t'))
        blank++;
    return blank < s.bytes && s.bytes <= TFM__SPM_MAX_SENTENCE && !memchr(s.text, '\0', s.bytes) &&
           tfm__utf8_valid(s.text, s.bytes) == s.bytes && !memmem(s.text, s.bytes, RESERVED, strlen(RESERVED));
}

/* The next line or document of the files; an invalid one counts as empty. */
static tfm_status next_document(tfm__vocab_corpus_iter *w, bool *more) {
    tfm_status status = tfm__document_next(&w->lines, &w->from->documents, more);
    while (status == TFM_OK && !*more && w->file + 1 < w->from->count) {
        tfm__line_reader_close(&w->lines);
        status = tfm__line_reader_open(&w->lines, w->from->files[++w->file], 0);
        if (status == TFM_OK)
            status = tfm__document_next(&w->lines, &w->from->documents, more);
    }
    if (status == TFM_ERROR_INPUT) {
        w->lines.bytes = 0;
        status = TFM_OK;
    }
    return status;
}

/* The next line, unchecked, as spans. */
static tfm_status next_line(tfm__vocab_corpus_iter *w, bool *more) {
    *more = true;
    if (w->rest.bytes > 0) {
        const char *end = memchr(w->rest.text, '\n', w->rest.bytes);
        const size_t bytes = end ? (size_t)(end - w->rest.text) : w->rest.bytes, taken = bytes + (end != NULL);
        w->span = 0;
        w->spans[0] = (tfm__string_view){w->rest.text, bytes};
        w->spans[1] = (tfm__string_view){"", 0};
        w->rest = (tfm__string_view){w->rest.text + taken, w->rest.bytes - taken};
        return TFM_OK;
    }
    const tfm_status status = next_document(w, more);
    if (status != TFM_OK || !*more)
        return status;
    if (w->from->documents.separator || w->from->documents.json_lines) {
        w->rest = (tfm__string_view){w->lines.text, w->lines.bytes};
        return TFM_OK;
    }
    w->span = 0;
    w->spans[0] = (tfm__string_view){w->lines.text, w->lines.bytes};
    w->spans[1] = (tfm__string_view){"", 0};
    if (w->from->tsv && !tfm__tsv_split(w->spans, w->lines.text, w->lines.bytes))
        w->span = 2;
    for (int i = 0; i < 2 && w->from->tsv; i++)
        if (!w->from->columns[i])
            w->spans[i].bytes = 0;
    return TFM_OK;
}

tfm_status tfm__vocab_corpus_next(tfm__vocab_corpus_iter *w, tfm__string_view *out, bool *more) {
    for (*more = true; *more;) {
        while (w->span < 2) {
            const tfm__string_view all = w->spans[w->span++];
            w->code = (tfm__string_view){all.text, w->from->codes ? tfm__language_code_bytes(all.text, all.bytes) : 0};
            *out = (tfm__string_view){all.text + w->code.bytes, all.bytes - w->code.bytes};
            if (is_usable(all) && is_usable(*out))
                return TFM_OK;
        }
        tfm_status status = next_line(w, more);
        if (status != TFM_OK)
            return status;
    }
    return TFM_OK;
}

void tfm__vocab_corpus_end(tfm__vocab_corpus_iter *w) {
    tfm__line_reader_close(&w->lines);
}
