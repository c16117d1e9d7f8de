/* Texts to pieces that are translated by themselves, and back. */
#include <stdlib.h>
#include <string.h>
#include "serve.h"

typedef struct cutter {
    serve_piece *items;
    size_t count, room;
} cutter;

static bool add(cutter *c, serve_piece piece) {
    if (!cli_grow(&c->items, &c->room, c->count + 1, sizeof(*c->items)))
        return false;
    c->items[c->count++] = piece;
    return true;
}

/* The sentences of one line. What is between them stays. */
static bool cut_sentences(cutter *c, serve_piece line, const char *language) {
    tfm_sentence *found = NULL;
    size_t count = 0, end = 0;
    if (tfm_text_sentences(&found, &count, line.text, line.bytes, language) != TFM_OK)
        return false;
    bool good = count > 0 || add(c, line);
    for (size_t i = 0; i < count && good; i++) {
        serve_piece piece = {line.text + found[i].start, found[i].bytes, line.of, line.text + end,
                             found[i].start - end};
        if (i == 0) /* what is before the first one: the end of the line before, and blanks */
            piece.gap = line.gap_bytes ? line.gap : line.text, piece.gap_bytes = line.gap_bytes + found[i].start;
        end = found[i].start + found[i].bytes;
        good = add(c, piece);
    }
    tfm_sentences_free(&found);
    return good;
}

/* The lines of one text. */
static bool cut_lines(cutter *c, const char *text, size_t of, bool sentences, const char *language) {
    const char *gap = text;
    for (const char *at = text;;) {
        const char *end = strchr(at, '\n');
        size_t bytes = end ? (size_t)(end - at) : strlen(at);
        const serve_piece line = {at, bytes, of, gap, (size_t)(at - gap)};
        if (sentences ? !cut_sentences(c, line, language) : !add(c, line))
            return false;
        if (!end)
            return true;
        gap = end;
        at = end + 1;
    }
}

static bool check_text(serve_request *r, const char *text, size_t *characters, serve_reply *refusal) {
    const int limit = r->server->options->limits.chars;
    if (tfm_text_check(text, strlen(text)) != TFM_OK) {
        *refusal = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: %s", tfm_error_message());
        return false;
    }
    *characters += serve_characters(text, strlen(text));
    if (*characters <= (size_t)limit)
        return true;
    *refusal =
        serve_reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE,
                          "Invalid request: request (%zu) exceeds text limit (%d) of characters", *characters, limit);
    return false;
}

serve_job *serve_pieces_cut(serve_request *r, const char *const *texts, size_t count, bool sentences,
                            const char *language, serve_reply *refusal) {
    cutter c = {0};
    size_t characters = 0;
    bool good = true;
    for (size_t i = 0; i < count; i++)
        if (!check_text(r, texts[i], &characters, refusal)) {
            free(c.items);
            return NULL;
        } else {
            good = good && cut_lines(&c, texts[i], i, sentences, language);
        }
    const size_t most = (size_t)r->server->options->limits.lines;
    serve_job *job = good && c.count <= most ? serve_job_new(c.count) : NULL;
    if (job) {
        memcpy(job->pieces, c.items, c.count * sizeof(*c.items));
        job->texts = count;
        job->source = json_incref(json_object_get(r->fields, "q"));
        r->lines = c.count;
    } else if (good && c.count > most) {
        *refusal = serve_reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE,
                                     "Invalid request: request (%zu) exceeds text limit (%zu) of lines", c.count, most);
    } else {
        *refusal = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
    }
    free(c.items);
    return job;
}

/* The best-th text of a piece, or the best one where there are fewer; what is blank has none. */
static const char *result_of(const serve_job *job, size_t piece, int best) {
    char *const *texts = job->results[piece].texts;
    return !texts ? "" : texts[best] ? texts[best] : texts[0] ? texts[0] : "";
}

char *serve_pieces_join(const serve_job *job, size_t of, int best) {
    size_t bytes = 1;
    for (size_t i = 0; i < job->count; i++)
        if (job->pieces[i].of == of)
            bytes += job->pieces[i].gap_bytes + strlen(result_of(job, i, best)) + 1;
    char *text = malloc(bytes), *at = text;
    for (size_t i = 0; i < job->count && text; i++) {
        const serve_piece *piece = &job->pieces[i];
        if (piece->of != of)
            continue;
        const char *result = result_of(job, i, best);
        if (piece->gap_bytes > 0)
            memcpy(at, piece->gap, piece->gap_bytes);
        else if (at > text && (unsigned char)at[-1] < 0x80 && *result) /* after a sentence of a script without blanks */
            *at++ = ' ';
        at += piece->gap_bytes;
        memcpy(at, result, strlen(result));
        at += strlen(result);
    }
    if (text)
        *at = 0;
    return text;
}
