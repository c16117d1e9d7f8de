/* Message catalogs of GNU gettext (PO) as documents: empty msgstr strings get translations of their msgid; every other
 * byte stays (gettext manual, "The Format of PO Files"). */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "documents/document.h"

/* A line of a message. */
typedef struct po_text {
    char *text;           /* without blanks at its ends and without its accelerator */
    char *put;            /* its translation, or NULL */
    size_t before, after; /* bytes of blanks around it in the message */
    char accelerator;     /* '_' or '&' before its key, or 0 */
    char key;
} po_text;

/* A string to write: a message, whose lines with letters are texts. */
typedef struct po_slot {
    size_t begin, end; /* of the empty string in the file */
    size_t line;       /* in the file, from 1 */
    char *message;     /* unescaped */
    size_t first, count;
} po_slot;

typedef struct catalog {
    const char *name, *text;
    size_t bytes;
    po_slot *slots;
    po_text *texts;
    size_t slot_count, slot_room, text_count, text_room;
    bool out_of_memory;
} catalog;

/* ---- Strings --------------------------------------------------------------------------------------------------- */

/* Reads a line's string after `at`, which ends with its quote, and appends it unescaped. Returns false without one. */
static bool read_string(char **out, size_t *used, const char *at, const char *end) {
    at += strspn(at, " \t");
    if (at >= end || *at++ != '"')
        return false;
    for (; at < end && *at != '"'; at++) {
        static const char NAMES[] = "abfnrtv", VALUES[] = "\a\b\f\n\r\t\v";
        char c = *at;
        if (c == '\\' && at + 1 < end) {
            const char *known = memchr(NAMES, *++at, sizeof(NAMES) - 1);
            unsigned value = 0;
            int digits = 0;
            while (*at >= '0' && *at <= '7' && digits < 3 && at + digits < end && at[digits] >= '0' &&
                   at[digits] <= '7')
                value = 8 * value + (unsigned)(at[digits++] - '0');
            c = digits > 0 ? (char)value : known ? VALUES[known - NAMES] : *at;
            at += digits > 0 ? digits - 1 : 0;
        }
        if (c)
            (*out)[(*used)++] = c;
    }
    if (at >= end)
        return false;
    (*out)[*used] = 0;
    at++;
    return at + strspn(at, " \t\r") == end;
}

/* ---- Messages -------------------------------------------------------------------------------------------------- */

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

/* Takes out the mark of a key such as "_Open" or "Save &as", if there is one, without blanks around it. */
static void take_accelerator(po_text *t) {
    static const char MARKS[] = "_&";
    for (size_t i = 0; MARKS[i] && !t->accelerator; i++) {
        char *at = strchr(t->text, MARKS[i]);
        const bool begins = at && (at == t->text || !isalnum((unsigned char)at[-1]));
        if (!at || strchr(at + 1, MARKS[i]) || !isalnum((unsigned char)at[1]) || !begins || strpbrk(t->text, "%{<\\/"))
            continue;
        t->accelerator = *at;
        t->key = at[1];
        memmove(at, at + 1, strlen(at));
    }
}

static bool has_letters(const char *text) {
    for (; *text; text++)
        if (isalpha((unsigned char)*text) || (unsigned char)*text >= 0x80)
            return true;
    return false;
}

/* Adds the lines of a message that have letters. */
static void add_lines(catalog *c, po_slot *slot) {
    slot->first = c->text_count;
    for (const char *line = slot->message; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        size_t bytes = strcspn(line, "\n"), before = 0, after = 0;
        while (before < bytes && is_space(line[before]))
            before++;
        while (after < bytes - before && is_space(line[bytes - 1 - after]))
            after++;
        po_text t = {.text = strndup(line + before, bytes - before - after), .before = before, .after = after};
        if (t.text && !has_letters(t.text)) {
            free(t.text);
            continue;
        }
        if (!t.text || !cli_grow(&c->texts, &c->text_room, c->text_count + 1, sizeof(*c->texts))) {
            free(t.text);
            c->out_of_memory = true;
            return;
        }
        take_accelerator(&t);
        c->texts[c->text_count++] = t;
    }
    slot->count = c->text_count - slot->first;
}

static void add_slot(catalog *c, const po_slot *empty, const char *message) {
    if (!cli_grow(&c->slots, &c->slot_room, c->slot_count + 1, sizeof(*c->slots))) {
        c->out_of_memory = true;
        return;
    }
    po_slot *slot = &c->slots[c->slot_count];
    *slot = *empty;
    slot->message = strdup(message);
    c->out_of_memory = !slot->message;
    if (slot->message) {
        c->slot_count++;
        add_lines(c, slot);
    }
}

/* ---- Entries --------------------------------------------------------------------------------------------------- */

typedef enum field { FIELD_NONE, FIELD_CONTEXT, FIELD_ID, FIELD_PLURAL, FIELD_TEXT } field;

enum { MOST_FORMS = 16 };

/* The entry that is read. */
typedef struct entry {
    field field;
    char *id, *plural, *other; /* buffers as large as the file */
    size_t id_bytes, plural_bytes, other_bytes;
    bool has_plural;
    po_slot forms[MOST_FORMS]; /* empty strings; `count` is 1 for those in use */
    int form, form_count;
} entry;

static void finish_entry(catalog *c, entry *e) {
    for (int i = 0; i < e->form_count && e->id_bytes > 0 && !c->out_of_memory; i++)
        if (e->forms[i].count)
            add_slot(c, &e->forms[i], e->has_plural && (i > 0 || e->form_count == 1) ? e->plural : e->id);
    e->field = FIELD_NONE;
    e->id_bytes = e->plural_bytes = e->other_bytes = 0;
    e->has_plural = false;
    e->form_count = 0;
}

/* The field of a line, and its bytes; msgstr[N] has a form. */
static field field_of(const char *line, size_t *bytes, int *form) {
    static const struct {
        const char *name;
        field field;
    } NAMES[] = {
        {"msgctxt", FIELD_CONTEXT}, {"msgid_plural", FIELD_PLURAL}, {"msgid", FIELD_ID}, {"msgstr", FIELD_TEXT}};
    *form = 0;
    for (size_t i = 0; i < CLI_COUNT(NAMES); i++) {
        *bytes = strlen(NAMES[i].name);
        if (strncmp(line, NAMES[i].name, *bytes) != 0)
            continue;
        if (line[*bytes] == '[' && NAMES[i].field == FIELD_TEXT) {
            char *end;
            const long number = strtol(line + *bytes + 1, &end, 10);
            if (*end != ']' || number < 0 || number >= MOST_FORMS)
                return FIELD_NONE;
            *form = (int)number;
            *bytes = (size_t)(end + 1 - line);
        }
        return line[*bytes] == ' ' || line[*bytes] == '\t' || line[*bytes] == '"' ? NAMES[i].field : FIELD_NONE;
    }
    *bytes = 0;
    return FIELD_NONE;
}

/* Begins a field; false: it cannot stand here. */
static bool begin_field(catalog *c, entry *e, field now, int form) {
    if (now == FIELD_CONTEXT || (now == FIELD_ID && e->field != FIELD_CONTEXT))
        finish_entry(c, e);
    const bool good = now == FIELD_PLURAL ? e->field == FIELD_ID : now != FIELD_TEXT || e->field >= FIELD_ID;
    e->field = now;
    e->has_plural = e->has_plural || now == FIELD_PLURAL;
    if (now == FIELD_TEXT) {
        e->form = form;
        while (e->form_count <= form)
            e->forms[e->form_count++] = (po_slot){.count = 0};
    }
    return good;
}

/* A line with a field or a further string of it. */
static bool read_line(catalog *c, entry *e, const char *line, const char *end, size_t number) {
    size_t bytes;
    int form;
    const field now = field_of(line, &bytes, &form);
    if (now != FIELD_NONE ? !begin_field(c, e, now, form) : e->field == FIELD_NONE || *line != '"')
        return false;
    char **out = e->field == FIELD_ID ? &e->id : e->field == FIELD_PLURAL ? &e->plural : &e->other;
    size_t *used = e->field == FIELD_ID ? &e->id_bytes : e->field == FIELD_PLURAL ? &e->plural_bytes : &e->other_bytes;
    if (e->field == FIELD_TEXT || e->field == FIELD_CONTEXT)
        *used = 0;
    if (!read_string(out, used, line + bytes, end))
        return false;
    if (e->field == FIELD_TEXT) {
        po_slot *slot = &e->forms[e->form];
        const char *quote = memchr(line, '"', (size_t)(end - line)), *last = memrchr(line, '"', (size_t)(end - line));
        if (now != FIELD_NONE)
            *slot = (po_slot){.begin = (size_t)(quote - c->text), .line = number, .count = *used == 0};
        slot->end = (size_t)(last + 1 - c->text);
        slot->count = slot->count && *used == 0;
    }
    return true;
}

/* ---- In -------------------------------------------------------------------------------------------------------- */

static void free_catalog(void *content) {
    catalog *c = content;
    for (size_t i = 0; i < c->text_count; i++) {
        free(c->texts[i].text);
        free(c->texts[i].put);
    }
    for (size_t i = 0; i < c->slot_count; i++)
        free(c->slots[i].message);
    free(c->texts);
    free(c->slots);
    free(c);
}

/* The number of the first line that is no PO, or 0. */
static size_t read_lines(catalog *c, entry *e) {
    const char *line = c->text, *all = c->text + c->bytes;
    for (size_t number = 1; line < all && !c->out_of_memory; number++) {
        const char *stop = memchr(line, '\n', (size_t)(all - line)), *end = stop ? stop : all, *first = line;
        while (first < end && is_space(*first))
            first++;
        if (first < end && *first != '#' && !read_line(c, e, first, end, number))
            return number;
        line = end + 1;
    }
    finish_entry(c, e);
    return 0;
}

static void *read_catalog(const char *file, const char *text, size_t bytes, char message[DOCUMENT_MESSAGE]) {
    catalog *c = calloc(1, sizeof(*c));
    entry e = {.id = malloc(bytes + 1), .plural = malloc(bytes + 1), .other = malloc(bytes + 1)};
    size_t wrong = 0;
    bool good = c && e.id && e.plural && e.other;
    if (good) {
        *c = (catalog){.name = file, .text = text, .bytes = bytes};
        wrong = read_lines(c, &e);
        good = !c->out_of_memory;
    }
    if (wrong > 0)
        snprintf(message, DOCUMENT_MESSAGE,
                 "%s, line %zu is neither a comment nor a string of a PO file: correct it; msgfmt -c explains it", file,
                 wrong);
    free(e.id);
    free(e.plural);
    free(e.other);
    if (good && wrong == 0)
        return c;
    if (c)
        free_catalog(c);
    return NULL;
}

static size_t count_texts(const void *content) {
    return ((const catalog *)content)->text_count;
}

static const char *text_of(const void *content, size_t i) {
    return ((const catalog *)content)->texts[i].text;
}

static bool is_marked(const void *content, size_t i) {
    (void)content, (void)i;
    return false;
}

static const po_slot *slot_of(const catalog *c, size_t text) {
    size_t i = 0;
    while (i + 1 < c->slot_count && c->slots[i + 1].first <= text)
        i++;
    return &c->slots[i];
}

static void where_is(char *out, size_t room, const void *content, size_t i) {
    snprintf(out, room, "line %zu", slot_of(content, i)->line);
}

/* ---- Out ------------------------------------------------------------------------------------------------------- */

/* Before the same letter, else before the first one. */
static const char *place_of_key(const char *text, char key) {
    const char *first = NULL;
    for (const char *at = text; *at; at++) {
        if (tolower((unsigned char)*at) == tolower((unsigned char)key))
            return at;
        first = first || !isalnum((unsigned char)*at) ? first : at;
    }
    return first ? first : text;
}

static bool put(void *content, size_t i, const char *translation, const json_t *alignment) {
    po_text *t = &((catalog *)content)->texts[i];
    const size_t bytes = strlen(translation);
    (void)alignment;
    free(t->put);
    t->put = malloc(bytes + 2);
    if (!t->put)
        return false;
    const size_t at = t->accelerator ? (size_t)(place_of_key(translation, t->key) - translation) : bytes;
    memcpy(t->put, translation, at);
    if (t->accelerator)
        t->put[at] = t->accelerator;
    strcpy(t->put + at + (t->accelerator != 0), translation + at);
    return true;
}

static void write_escaped(FILE *out, const char *text, size_t bytes) {
    static const char NAMES[] = "abfnrtv\"\\", VALUES[] = "\a\b\f\n\r\t\v\"\\";
    for (size_t i = 0; i < bytes; i++) {
        const char *known = memchr(VALUES, text[i], sizeof(VALUES) - 1);
        if (known)
            fprintf(out, "\\%c", NAMES[known - VALUES]);
        else
            fputc(text[i], out);
    }
}

/* A string of several lines has each on a line of the file, after an empty string. */
static void write_slot(FILE *out, const catalog *c, const po_slot *slot) {
    const char *line_end = slot->end < c->bytes && c->text[slot->end] == '\r' ? "\r\n" : "\n";
    const char *newline = strchr(slot->message, '\n');
    const bool several = newline && newline[1];
    size_t next = slot->first;
    fputs(several ? "\"\"" : "", out);
    for (const char *line = slot->message; *line; line += strcspn(line, "\n") + (line[strcspn(line, "\n")] != 0)) {
        const size_t bytes = strcspn(line, "\n");
        const po_text *t = next < slot->first + slot->count ? &c->texts[next] : NULL;
        char *own = strndup(line, bytes);
        const bool translated = own && t && has_letters(own);
        fprintf(out, "%s\"", several ? line_end : "");
        if (translated && t->put) {
            write_escaped(out, line, t->before);
            write_escaped(out, t->put, strlen(t->put));
            write_escaped(out, line + bytes - t->after, t->after);
        } else {
            write_escaped(out, line, bytes);
        }
        next += translated;
        free(own);
        fputs(line[bytes] ? "\\n\"" : "\"", out);
    }
}

/* A message stays without a translation where a line of it has none. */
static bool is_whole(const catalog *c, const po_slot *slot) {
    for (size_t i = 0; i < slot->count; i++)
        if (!c->texts[slot->first + i].put)
            return false;
    return slot->count > 0;
}

static char *write_catalog(const void *content) {
    const catalog *c = content;
    char *text = NULL;
    size_t bytes = 0, at = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    for (size_t i = 0; i < c->slot_count; i++) {
        const po_slot *slot = &c->slots[i];
        if (!is_whole(c, slot))
            continue;
        fwrite(c->text + at, 1, slot->begin - at, out);
        write_slot(out, c, slot);
        at = slot->end;
    }
    fwrite(c->text + at, 1, c->bytes - at, out);
    const bool good = !ferror(out);
    if (fclose(out) == 0 && good)
        return text;
    free(text);
    return NULL;
}

const document_kind document_po = {"PO",     read_catalog, count_texts,   text_of,     is_marked,
                                   where_is, put,          write_catalog, free_catalog};
