/* Translates documents: reads, translates a few batches of sentences at a time, writes. */
#include <stdlib.h>
#include <string.h>
#include "documents/document.h"

/* Batches per call, to batch sentences of similar length; estimated bytes per token; maximum alignment weights per
 * call, beyond which marks are placed by position; and the largest document. */
enum {
    BATCHES_AHEAD = 4,
    DEFAULT_BATCH_TOKENS = 4096,
    BYTES_PER_TOKEN = 3,
    MOST_WEIGHTS = 1 << 22,
    MOST_MEBIBYTES = 256
};

/* ---- In and out ------------------------------------------------------------------------------------------------ */

static int check_lines(const char *file, const char *text, size_t bytes) {
    size_t line = 1;
    for (const char *at = text, *end = text + bytes, *stop; at < end; at = stop + 1, line++) {
        stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        if (tfm_text_check(at, (size_t)(stop - at)) != TFM_OK)
            return cli_fail("%s, line %zu: %s; a document is UTF-8, into which iconv turns others", file, line,
                            tfm_error_message());
    }
    return CLI_OK;
}

int document_read(document *d, const document_kind *kind, const char *path) {
    char message[DOCUMENT_MESSAGE] = "";
    *d = (document){.kind = kind, .file = {.fd = -1}};
    int code = cli_lines_read_file(&d->file, "-i", path);
    if (code != CLI_OK)
        return code;
    if (d->file.used > (size_t)MOST_MEBIBYTES << 20)
        return cli_fail("%s is larger than %d MiB, the most that a document may have: cut it into parts", d->file.name,
                        MOST_MEBIBYTES);
    d->marked_order = d->file.used >= 3 && memcmp(d->file.buffer, "\xEF\xBB\xBF", 3) == 0;
    char *text = d->file.buffer + (d->marked_order ? 3 : 0);
    const size_t bytes = d->file.used - (d->marked_order ? 3 : 0);
    text[bytes] = 0;
    code = check_lines(d->file.name, text, bytes);
    if (code != CLI_OK || bytes == 0)
        return code;
    d->content = kind->read(d->file.name, text, bytes, message);
    if (!d->content)
        return *message ? cli_fail("%s", message) : cli_fail("out of memory for %s", d->file.name);
    cli_progress(NULL);
    if (*message)
        cli_fail("%s", message); /* only a warning */
    return CLI_OK;
}

int document_write(const document *d, cli_output *out) {
    char *text = d->content ? d->kind->write(d->content) : strdup("");
    if (!text)
        return cli_fail("out of memory for %s as it is to be written", d->file.name);
    if (d->marked_order)
        fputs("\xEF\xBB\xBF", out->file);
    fputs(text, out->file);
    free(text);
    return cli_output_ok(out) ? CLI_OK : cli_output_flush(out);
}

void document_free(document *d) {
    if (d->content)
        d->kind->free(d->content);
    cli_lines_close(&d->file);
    d->content = NULL;
}

/* ---- Translation ----------------------------------------------------------------------------------------------- */

/* Some texts of a document, as sentences. */
typedef struct chunk {
    const document *d;
    cli_segments segments;
    char **results;   /* [segments.count] */
    json_t **details; /* [segments.count]: alignments, of texts that have marks */
    bool *rejected;   /* [segments.count] */
    size_t weights, bad, texts;
    bool out_of_memory;
} chunk;

static bool on_reject(void *user, size_t line, const char *message) {
    chunk *c = user;
    char where[64];
    c->d->kind->where(where, sizeof(where), c->d->content, c->segments.items[line].of);
    c->rejected[line] = true;
    c->bad++;
    cli_fail("%s, %s: %s", c->d->file.name, where, message);
    return true;
}

static bool on_translation(void *user, const tfm_translation *t) {
    chunk *c = user;
    const size_t of = c->segments.items[t->line].of, weights = t->source.count * t->target.count;
    if (t->rank > 0)
        return true;
    c->results[t->line] = strdup(t->text);
    c->out_of_memory = c->out_of_memory || !c->results[t->line];
    if (t->alignment && weights <= MOST_WEIGHTS - c->weights && c->d->kind->marked(c->d->content, of)) {
        c->weights += weights;
        c->details[t->line] = cli_alignment_json(t);
        c->out_of_memory = c->out_of_memory || !c->details[t->line];
    }
    return !c->out_of_memory;
}

static bool on_progress(void *user, uint64_t done, uint64_t total) {
    const chunk *c = user;
    const size_t all = c->d->kind->count(c->d->content);
    const double now = total > 0 ? (double)c->texts * (double)done / (double)total : 0;
    const size_t before = c->segments.count > 0 ? c->segments.items[0].of : 0;
    cli_progress("translating %3.0f %%", all > 0 ? 100 * ((double)before + now) / (double)all : 100);
    return true;
}

static const char *result_of(const void *user, size_t i) {
    char *const *results = user;
    return results[i] ? results[i] : "";
}

/* The text of the segments from `first` to `end`, unless one of them was rejected. */
static void put_text(chunk *c, size_t first, size_t end) {
    const size_t of = c->segments.items[first].of;
    json_t *details = json_array();
    bool whole = true, detailed = true;
    for (size_t i = first; i < end; i++) {
        whole = whole && !c->rejected[i];
        detailed = detailed && (c->details[i] || !*result_of(c->results, i));
        if (c->details[i])
            json_array_append(details, c->details[i]);
    }
    char *text = cli_segments_join(c->segments.items + first, end - first, of, result_of, c->results + first);
    c->out_of_memory = c->out_of_memory || !text || !details;
    if (!c->out_of_memory && whole)
        c->out_of_memory = !c->d->kind->put(c->d->content, of, text, detailed ? details : NULL);
    json_decref(details);
    free(text);
}

static void put_all(chunk *c) {
    for (size_t first = 0, end; first < c->segments.count && !c->out_of_memory; first = end) {
        for (end = first; end < c->segments.count && c->segments.items[end].of == c->segments.items[first].of; end++)
            ;
        put_text(c, first, end);
    }
}

static void free_chunk(chunk *c) {
    for (size_t i = 0; i < c->segments.count; i++) {
        if (c->results)
            free(c->results[i]);
        if (c->details)
            json_decref(c->details[i]);
    }
    free(c->results);
    free(c->details);
    free(c->rejected);
    free(c->segments.items);
}

static int translate_chunk(chunk *c, tfm_model *model, tfm_text_options text, const tfm_search_options *search) {
    const size_t count = c->segments.count;
    const char **lines = calloc(count + 1, sizeof(*lines));
    size_t *bytes = calloc(count + 1, sizeof(*bytes));
    tfm_status status = TFM_OK;
    c->results = calloc(count + 1, sizeof(*c->results));
    c->details = calloc(count + 1, sizeof(*c->details));
    c->rejected = calloc(count + 1, sizeof(*c->rejected));
    c->out_of_memory = !lines || !bytes || !c->results || !c->details || !c->rejected;
    text.alignments = false;
    for (size_t i = 0; i < count && !c->out_of_memory; i++) {
        lines[i] = c->segments.items[i].text;
        bytes[i] = c->segments.items[i].bytes;
        text.alignments = text.alignments || c->d->kind->marked(c->d->content, c->segments.items[i].of);
    }
    text.line_bytes = bytes;
    text.reject = on_reject;
    text.progress = on_progress;
    text.reject_user = text.progress_user = c;
    if (!c->out_of_memory)
        status = tfm_translate_lines(model, lines, count, &text, search, on_translation, c);
    free(lines);
    free(bytes);
    if (!c->out_of_memory && status != TFM_OK)
        return cli_fail_library();
    cli_progress(NULL); /* the document may go to the same terminal */
    put_all(c);
    return c->out_of_memory ? cli_fail("out of memory for the translation of %s", c->d->file.name) : CLI_OK;
}

int document_translate(document *d, tfm_model *model, const tfm_text_options *text, const tfm_search_options *search,
                       size_t *bad) {
    const int tokens = text->batch_tokens ? text->batch_tokens : DEFAULT_BATCH_TOKENS;
    const size_t ahead = (size_t)tokens * BATCHES_AHEAD * BYTES_PER_TOKEN;
    const size_t count = d->content ? d->kind->count(d->content) : 0;
    const char *language =
        text->language ? text->language : tfm_tokenizer_language(tfm_model_tokenizer(model), TFM_SOURCE);
    int code = CLI_OK;
    for (size_t next = 0; next < count && code == CLI_OK;) {
        chunk c = {.d = d};
        for (size_t bytes = 0; next < count && bytes < ahead && !c.out_of_memory; next++, c.texts++) {
            const char *one = d->kind->text(d->content, next);
            bytes += strlen(one);
            c.out_of_memory = !cli_segments_split(&c.segments, one, next, true, language);
        }
        code = c.out_of_memory ? cli_fail("out of memory for the sentences of %s", d->file.name)
                               : translate_chunk(&c, model, *text, search);
        *bad += c.bad;
        free_chunk(&c);
    }
    return code;
}
