/* HTML: documents of runs, read and written. */
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "documents/markup_internal.h"

markup *markup_read(const char *text, size_t bytes) {
    markup *m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->text = text;
    m->bytes = bytes;
    markup_walk(m);
    if (!m->out_of_memory)
        return m;
    markup_free(m);
    return NULL;
}

size_t markup_runs(const markup *m) {
    return m->count;
}

const char *markup_text(const markup *m, size_t run) {
    return m->runs[run].text;
}

bool markup_marked(const markup *m, size_t run) {
    return m->runs[run].element_count > 0 || m->runs[run].atom_count > 0;
}

long markup_line(const markup *m, size_t run) {
    return m->runs[run].line;
}

/* ---- Out ------------------------------------------------------------------------------------------------------- */

/* The first run, or edit, that begins at or after `at`. */
static size_t first_run(const markup *m, size_t at) {
    size_t low = 0, high = m->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (m->runs[middle].begin < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t first_edit(const markup *m, size_t at) {
    size_t low = 0, high = m->edit_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (m->edits[middle].begin < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void write_range(FILE *out, const markup *m, size_t begin, size_t end);

/* No deeper than elements with their own runs lie in each other (markup_walk.c). */
static void write_put(FILE *out, const markup *m, const markup_run *run) {
    size_t at = 0;
    for (size_t i = 0; i < run->insert_count; i++) {
        const run_insert *insert = &run->inserts[i];
        fwrite(run->put + at, 1, insert->at - at, out);
        write_range(out, m, insert->begin, insert->end);
        at = insert->at;
    }
    fwrite(run->put + at, 1, run->put_bytes - at, out);
}

static void write_range(FILE *out, const markup *m, size_t begin, size_t end) {
    size_t run = first_run(m, begin), edit = first_edit(m, begin), at = begin;
    while (at < end) {
        while (run < m->count && (m->runs[run].begin < at || !m->runs[run].put))
            run++; /* it stays, or lies in one that is written */
        while (edit < m->edit_count && m->edits[edit].begin < at)
            edit++;
        const size_t next_run = run < m->count && m->runs[run].begin < end ? m->runs[run].begin : end;
        const size_t next_edit = edit < m->edit_count && m->edits[edit].begin < end ? m->edits[edit].begin : end;
        const size_t next = next_run < next_edit ? next_run : next_edit;
        fwrite(m->text + at, 1, next - at, out);
        at = next;
        if (next == next_run && next < end) {
            write_put(out, m, &m->runs[run]);
            at = m->runs[run].end;
        } else if (next < end) {
            fputs(m->edits[edit].text, out);
            at = m->edits[edit].end;
        }
    }
}

char *markup_write(const markup *m) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    write_range(out, m, 0, m->bytes);
    const bool good = !ferror(out);
    if (fclose(out) == 0 && good)
        return text;
    free(text);
    return NULL;
}

void markup_free(markup *m) {
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++)
        run_free(&m->runs[i]);
    free(m->runs);
    free(m->edits);
    free(m);
}
