/* find, index, count, startswith and endswith of strings. */
#include "text/chat_template/jinja_methods.h"
#include "text/chat_template/jinja_object.h"

int64_t tfm__jinja_find(tfm__jinja *j, const tfm__jinja_string *string, size_t from, size_t to,
                        const tfm__jinja_string *part, bool last) {
    if (from > to || to - from < part->bytes)
        return -1;
    if (!part->bytes)
        return (int64_t)(last ? to : from);
    tfm__jinja_step(j, (to - from) / 128);
    if (!last) {
        const char *found = memmem(string->data + from, to - from, part->data, part->bytes);
        return found ? found - string->data : -1;
    }
    for (size_t at = to - part->bytes + 1; at-- > from;)
        if (memcmp(string->data + at, part->data, part->bytes) == 0)
            return (int64_t)at;
    return -1;
}

/* The part of a string between two characters, as in slices: byte offsets. */
typedef struct part {
    size_t from, to;
    bool none; /* the start is after the end: not even an empty string is found */
} part;

static part part_of(tfm__jinja *j, const tfm__jinja_string *string, tfm__jinja_value start, tfm__jinja_value end) {
    const int64_t length = (int64_t)string->chars;
    int64_t from = tfm__jinja_is(start, TFM__JINJA_NONE) ? 0 : tfm__jinja_int_argument(j, start, 0),
            to = tfm__jinja_is(end, TFM__JINJA_NONE) ? length : tfm__jinja_int_argument(j, end, length);
    from = from < 0 ? (from + length < 0 ? 0 : from + length) : from;
    to = to < 0 ? (to + length < 0 ? 0 : to + length) : to > length ? length : to;
    if (from > to)
        return (part){.none = true};
    return (part){tfm__jinja_offset(string, (size_t)from), tfm__jinja_offset(string, (size_t)to), false};
}

static int64_t count_chars(const tfm__jinja_string *string, size_t to) {
    int64_t chars = 0;
    for (size_t i = 0; i < to; i++)
        chars += ((unsigned char)string->data[i] & 0xc0) != 0x80;
    return chars;
}

static int64_t count(tfm__jinja *j, const tfm__jinja_string *string, part range, const tfm__jinja_string *what) {
    int64_t times = 0, found;
    if (!what->bytes)
        return count_chars(string, range.to) - count_chars(string, range.from) + 1;
    while ((found = tfm__jinja_find(j, string, range.from, range.to, what, false)) >= 0 && j->status == TFM_OK) {
        range.from = (size_t)found + what->bytes;
        times++;
    }
    return times;
}

static bool has_affix(tfm__jinja *j, const tfm__jinja_string *string, part range, tfm__jinja_value affix, bool end) {
    if (!tfm__jinja_is(affix, TFM__JINJA_STRING)) {
        tfm__jinja_error(j, "%s first arg must be str or a tuple of str", end ? "endswith" : "startswith");
        return false;
    }
    const size_t bytes = affix.string->bytes;
    return !range.none && range.to - range.from >= bytes &&
           memcmp(string->data + (end ? range.to - bytes : range.from), affix.string->data, bytes) == 0;
}

tfm__jinja_value tfm__jinja_search(tfm__jinja *j, tfm__jinja_value self, const char *name,
                                   const tfm__jinja_args *args) {
    if (j->status != TFM_OK)
        return self;
    tfm__jinja_value out[3];
    const tfm__jinja_string *string = self.string;
    if (!tfm__jinja_bind(j, name, args, "/sub /start /end", 1, out))
        return tfm__jinja_none();
    const part range = part_of(j, string, out[1], out[2]);
    if (strcmp(name, "startswith") == 0 || strcmp(name, "endswith") == 0) {
        const bool end = *name == 'e', tuple = tfm__jinja_is(out[0], TFM__JINJA_TUPLE);
        bool found = false;
        for (size_t i = 0; !found && i < (tuple ? out[0].list->count : 1) && j->status == TFM_OK; i++)
            found = has_affix(j, string, range, tuple ? out[0].list->items[i] : out[0], end);
        return tfm__jinja_bool(found);
    }
    const tfm__jinja_string *what = tfm__jinja_string_argument(j, out[0], NULL);
    if (strcmp(name, "count") == 0)
        return tfm__jinja_int(range.none ? 0 : count(j, string, range, what));
    const int64_t at = range.none ? -1 : tfm__jinja_find(j, string, range.from, range.to, what, *name == 'r');
    if (at < 0 && strstr(name, "index"))
        return tfm__jinja_error(j, "substring not found");
    return tfm__jinja_int(at < 0 ? -1 : count_chars(string, (size_t)at));
}
