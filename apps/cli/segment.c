/* Texts to pieces that are translated by themselves, and back. */
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"

static bool add(cli_pieces *p, cli_piece piece) {
    if (!cli_grow(&p->items, &p->room, p->count + 1, sizeof(*p->items)))
        return false;
    p->items[p->count++] = piece;
    return true;
}

/* The sentences of one line. What is between them stays. */
static bool cut_sentences(cli_pieces *p, cli_piece line, const char *language) {
    tfm_sentence *found = NULL;
    size_t count = 0, end = 0;
    if (tfm_text_sentences(&found, &count, line.text, line.bytes, language) != TFM_OK)
        return false;
    bool good = count > 0 || add(p, line);
    for (size_t i = 0; i < count && good; i++) {
        cli_piece piece = {line.text + found[i].start, found[i].bytes, line.of, line.text + end, found[i].start - end};
        if (i == 0) /* what is before the first one: the end of the line before, and blanks */
            piece.gap = line.gap_bytes ? line.gap : line.text, piece.gap_bytes = line.gap_bytes + found[i].start;
        end = found[i].start + found[i].bytes;
        good = add(p, piece);
    }
    tfm_sentences_free(&found);
    return good;
}

bool cli_pieces_cut(cli_pieces *p, const char *text, size_t of, bool sentences, const char *language) {
    const char *gap = text;
    for (const char *at = text;;) {
        const char *end = strchr(at, '\n');
        size_t bytes = end ? (size_t)(end - at) : strlen(at);
        const cli_piece line = {at, bytes, of, gap, (size_t)(at - gap)};
        if (sentences ? !cut_sentences(p, line, language) : !add(p, line))
            return false;
        if (!end)
            return true;
        gap = end;
        at = end + 1;
    }
}

char *cli_pieces_join(const cli_piece *pieces, size_t count, size_t of, cli_result_fn result, const void *user) {
    size_t bytes = 1;
    for (size_t i = 0; i < count; i++)
        if (pieces[i].of == of)
            bytes += pieces[i].gap_bytes + strlen(result(user, i)) + 1;
    char *text = malloc(bytes), *at = text;
    for (size_t i = 0; i < count && text; i++) {
        if (pieces[i].of != of)
            continue;
        const char *now = result(user, i);
        if (pieces[i].gap_bytes > 0)
            memcpy(at, pieces[i].gap, pieces[i].gap_bytes);
        else if (at > text && (unsigned char)at[-1] < 0x80 && *now) /* after a sentence of a script without blanks */
            *at++ = ' ';
        at += pieces[i].gap_bytes;
        memcpy(at, now, strlen(now));
        at += strlen(now);
    }
    if (text)
        *at = 0;
    return text;
}
