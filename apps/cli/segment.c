/* Splits texts into separately translated segments, and joins the translations. */
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"

static bool add(cli_segments *p, cli_segment segment) {
    if (!cli_grow(&p->items, &p->room, p->count + 1, sizeof(*p->items)))
        return false;
    p->items[p->count++] = segment;
    return true;
}

/* The sentences of one line. Text between them is copied. */
static bool split_sentences(cli_segments *p, cli_segment line, const char *language) {
    tfm_sentence *found = NULL;
    size_t count = 0, end = 0;
    if (tfm_text_sentences(&found, &count, line.text, line.bytes, language) != TFM_OK)
        return false;
    bool good = count > 0 || add(p, line);
    for (size_t i = 0; i < count && good; i++) {
        cli_segment segment = {line.text + found[i].start, found[i].bytes, line.of, line.text + end,
                               found[i].start - end};
        if (i == 0) /* text before the first one: the end of the previous line, and blanks */
            segment.gap = line.gap_bytes ? line.gap : line.text, segment.gap_bytes = line.gap_bytes + found[i].start;
        end = found[i].start + found[i].bytes;
        good = add(p, segment);
    }
    tfm_sentences_free(&found);
    return good;
}

bool cli_segments_split(cli_segments *p, const char *text, size_t of, bool sentences, const char *language) {
    const char *gap = text;
    for (const char *at = text;;) {
        const char *end = strchr(at, '\n');
        size_t bytes = end ? (size_t)(end - at) : strlen(at);
        const cli_segment line = {at, bytes, of, gap, (size_t)(at - gap)};
        if (sentences ? !split_sentences(p, line, language) : !add(p, line))
            return false;
        if (!end)
            return true;
        gap = end;
        at = end + 1;
    }
}

char *cli_segments_join(const cli_segment *segments, size_t count, size_t of, cli_result_fn result, const void *user) {
    size_t bytes = 1;
    for (size_t i = 0; i < count; i++)
        if (segments[i].of == of)
            bytes += segments[i].gap_bytes + strlen(result(user, i)) + 1;
    char *text = malloc(bytes), *at = text;
    for (size_t i = 0; i < count && text; i++) {
        if (segments[i].of != of)
            continue;
        const char *now = result(user, i);
        if (segments[i].gap_bytes > 0)
            memcpy(at, segments[i].gap, segments[i].gap_bytes);
        else if (at > text && (unsigned char)at[-1] < 0x80 && *now) /* after a sentence in a script without spaces */
            *at++ = ' ';
        at += segments[i].gap_bytes;
        memcpy(at, now, strlen(now));
        at += strlen(now);
    }
    if (text)
        *at = 0;
    return text;
}
