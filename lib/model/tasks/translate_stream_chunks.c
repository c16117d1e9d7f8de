/* Stream translation in chunks of lines, each a separate call: on several devices, or if the continuous search is out
 * of memory. */
#include "model/tasks/translate_stream.h"
#include <ctype.h>
#include <string.h>
#include "model/multi_device/fleet.h"

/* Assumed bytes per token. */
enum { BYTES_PER_TOKEN = 3 };

tfm_status tfm__stream_name_line(tfm_status status, const size_t *numbers, size_t count) {
    char saved_message[TFM__MESSAGE_MAX], *rest;
    tfm__error_save(saved_message);
    char *at = status == TFM_OK ? NULL : strstr(saved_message, "line ");
    if (!at || !isdigit((unsigned char)at[5]))
        return status;
    const unsigned long long line = strtoull(at + 5, &rest, 10);
    *at = 0;
    return line < 1 || line > count ? status
                                    : tfm__fail(status, "%sline %zu%s", saved_message, numbers[line - 1] + 1, rest);
}

tfm_status tfm__chunk_add(tfm__chunk *c, const char *text, size_t bytes, size_t number) {
    if (tfm__grow(&c->texts, &c->rooms[0], c->count + 1, sizeof(*c->texts)) != TFM_OK ||
        tfm__grow(&c->bytes, &c->rooms[1], c->count + 1, sizeof(*c->bytes)) != TFM_OK ||
        tfm__grow(&c->numbers, &c->rooms[2], c->count + 1, sizeof(*c->numbers)) != TFM_OK)
        return TFM_ERROR_MEMORY;
    c->texts[c->count] = text;
    c->bytes[c->count] = bytes;
    c->numbers[c->count++] = number;
    return TFM_OK;
}

static bool emit_chunk(void *user, const tfm_translation *translation) {
    const tfm__chunk *c = user;
    tfm_translation numbered = *translation;
    numbered.line = c->numbers[translation->line];
    return c->of->emit(c->of->emit_user, &numbered);
}

static bool reject_chunk(void *user, size_t line, const char *message) {
    const tfm__chunk *c = user;
    return c->of->text->reject(c->of->text->reject_user, c->numbers[line], message);
}

static tfm_status chunk_run(tfm__chunk *c) {
    tfm_text_options text = *c->of->text;
    tfm_search_stats stats = {0};
    text.stats = text.stats ? &stats : NULL;
    text.line_bytes = c->bytes;
    text.reject = text.reject ? reject_chunk : NULL;
    text.reject_user = c;
    text.progress = NULL;
    const tfm_status status = tfm_translate_lines(c->of->model, c->texts, c->count, &text, c->of->asked, emit_chunk, c);
    stats.seconds = 0; /* the stream's time covers all */
    if (text.stats)
        tfm__stats_add(c->of->text->stats, &stats);
    const tfm_status named = tfm__stream_name_line(status, c->numbers, c->count);
    c->count = 0;
    return named;
}

tfm_status tfm__stream_chunks(tfm__chunk *c, tfm_status status) {
    tfm__stream_call *f = c->of;
    const size_t replicas = f->model->replicas ? tfm__replicas_count(f->model->replicas) : 1,
                 devices = replicas > 0 ? replicas : 1;
    for (bool more = true; more && status == TFM_OK;) {
        size_t tokens = 0;
        while (status == TFM_OK && more && tokens < devices * f->limit.tokens && c->count < devices * f->limit.lines) {
            const char *text = NULL;
            size_t bytes = 0;
            more = f->more(f->more_user, &text, &bytes);
            if (more)
                status = text ? tfm__chunk_add(c, text, bytes, f->numbers++)
                              : tfm__fail(TFM_ERROR_ARGUMENT, "translate_stream: line %zu is NULL", f->numbers + 1);
            tokens += 1 + bytes / BYTES_PER_TOKEN;
        }
        if (status == TFM_OK && c->count > 0) {
            status = chunk_run(c);
            more = true; /* more lines may have arrived meanwhile */
        }
    }
    free(c->texts);
    free(c->bytes);
    free(c->numbers);
    return status;
}
