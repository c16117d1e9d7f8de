/* strip, split, splitlines, partition, replace, join and padding of strings. */
#include "text/chat_template/jinja_case.h"
#include "text/chat_template/jinja_methods.h"
#include "text/chat_template/jinja_object.h"
#include "text/chat_template/jinja_repr.h"

static bool in_set(int32_t c, tfm__jinja_value chars) {
    if (!tfm__jinja_is(chars, TFM__JINJA_STRING))
        return tfm__jinja_is_space(c);
    for (size_t at = 0; at < chars.string->bytes;)
        if (tfm__char_next(chars.string->data, &at) == c)
            return true;
    return false;
}

static size_t char_start(const char *text, size_t end) {
    do
        end--;
    while (((unsigned char)text[end] & 0xc0) == 0x80);
    return end;
}

tfm__jinja_value tfm__jinja_strip(tfm__jinja *j, tfm__jinja_value value, tfm__jinja_value chars, tfm__jinja_side side) {
    if (j->status != TFM_OK)
        return value;
    const char *text = value.string->data;
    size_t from = 0, to = value.string->bytes, next = 0;
    if (!tfm__jinja_is(chars, TFM__JINJA_NONE) && !tfm__jinja_is(chars, TFM__JINJA_MISSING) &&
        !tfm__jinja_is(chars, TFM__JINJA_STRING))
        return tfm__jinja_error(j, "strip arg must be None or str");
    while (side & TFM__JINJA_LEFT && from < to && tfm__jinja_step(j, 0) && in_set(tfm__char_next(text, &next), chars))
        from = next;
    while (side & TFM__JINJA_RIGHT && from < to && tfm__jinja_step(j, 0) && in_set(tfm__char_before(text, to), chars))
        to = char_start(text, to);
    return tfm__jinja_like(tfm__jinja_share(j, text + from, to - from), value);
}

static void add_part(tfm__jinja *j, tfm__jinja_value list, tfm__jinja_value string, size_t from, size_t to) {
    tfm__jinja_list_add(j, list, tfm__jinja_like(tfm__jinja_share(j, string.string->data + from, to - from), string));
}

static void split_space(tfm__jinja *j, tfm__jinja_value list, tfm__jinja_value value, int64_t limit) {
    const tfm__jinja_string *string = value.string;
    for (size_t at = 0, next = 0; at < string->bytes && tfm__jinja_step(j, 0); at = next) {
        next = at;
        if (tfm__jinja_is_space(tfm__char_next(string->data, &next)))
            continue;
        if (limit == 0) { /* the rest, with the blanks at its end */
            add_part(j, list, value, at, string->bytes);
            return;
        }
        size_t end = next;
        while (end < string->bytes) {
            size_t after = end;
            if (tfm__jinja_is_space(tfm__char_next(string->data, &after)))
                break;
            end = after;
        }
        add_part(j, list, value, at, end);
        next = end;
        limit--;
    }
}

static void rsplit_space(tfm__jinja *j, tfm__jinja_value list, tfm__jinja_value value, int64_t limit) {
    const tfm__jinja_string *string = value.string;
    for (size_t end = string->bytes; end > 0 && tfm__jinja_step(j, 0);) {
        if (tfm__jinja_is_space(tfm__char_before(string->data, end))) {
            end = char_start(string->data, end);
            continue;
        }
        size_t from = end;
        while (from > 0 && (limit == 0 || !tfm__jinja_is_space(tfm__char_before(string->data, from))))
            from = char_start(string->data, from);
        if (limit-- == 0) {
            add_part(j, list, value, 0, end);
            return;
        }
        add_part(j, list, value, from, end);
        end = from;
    }
}

static void reverse(tfm__jinja_list *list) {
    for (size_t i = 0; i < list->count / 2; i++) {
        const tfm__jinja_value item = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = item;
    }
}

tfm__jinja_value tfm__jinja_split(tfm__jinja *j, tfm__jinja_value value, tfm__jinja_value separator, int64_t limit,
                                  bool right) {
    if (j->status != TFM_OK)
        return value;
    const tfm__jinja_string *string = value.string;
    const tfm__jinja_value list = tfm__jinja_list_new(j, TFM__JINJA_LIST, 0);
    if (j->status != TFM_OK)
        return list;
    if (tfm__jinja_is(separator, TFM__JINJA_NONE) || tfm__jinja_is(separator, TFM__JINJA_MISSING)) {
        if (right)
            rsplit_space(j, list, value, limit);
        else
            split_space(j, list, value, limit);
        if (right)
            reverse(list.list);
        return list;
    }
    const tfm__jinja_string *part = tfm__jinja_string_argument(j, separator, NULL);
    if (!part->bytes)
        return tfm__jinja_error(j, "empty separator");
    size_t from = 0, to = string->bytes;
    for (; limit != 0 && j->status == TFM_OK; limit--) {
        const int64_t found = tfm__jinja_find(j, string, from, to, part, right);
        if (found < 0)
            break;
        const size_t at = (size_t)found, after = at + part->bytes;
        add_part(j, list, value, right ? after : from, right ? to : at);
        from = right ? from : after;
        to = right ? at : to;
    }
    add_part(j, list, value, from, to);
    if (right)
        reverse(list.list);
    return list;
}

/* The bytes of a line end at `at`, as in str.splitlines; 0 if there is none. */
static size_t line_end(const tfm__jinja_string *string, size_t at) {
    size_t next = at;
    const int32_t c = tfm__char_next(string->data, &next);
    const bool end = (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
    return !end ? 0 : c == '\r' && next < string->bytes && string->data[next] == '\n' ? 2 : next - at;
}

tfm__jinja_value tfm__jinja_splitlines(tfm__jinja *j, tfm__jinja_value value, bool keep_ends) {
    if (j->status != TFM_OK)
        return value;
    const tfm__jinja_string *string = value.string;
    const tfm__jinja_value list = tfm__jinja_list_new(j, TFM__JINJA_LIST, 0);
    for (size_t at = 0; at < string->bytes && tfm__jinja_step(j, 0);) {
        size_t end = at, bytes = 0;
        while (end < string->bytes && (bytes = line_end(string, end)) == 0)
            end += tfm__char_bytes(string->data + end);
        add_part(j, list, value, at, keep_ends ? end + bytes : end);
        at = end + bytes;
    }
    return list;
}

tfm__jinja_value tfm__jinja_partition(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_string *separator,
                                      bool right) {
    if (j->status != TFM_OK)
        return value;
    const tfm__jinja_string *string = value.string;
    const tfm__jinja_value tuple = tfm__jinja_list_new(j, TFM__JINJA_TUPLE, 3);
    if (j->status != TFM_OK)
        return tuple;
    if (!separator->bytes)
        return tfm__jinja_error(j, "empty separator");
    const int64_t found = tfm__jinja_find(j, string, 0, string->bytes, separator, right);
    const size_t at = found >= 0 ? (size_t)found : right ? 0 : string->bytes;
    const size_t bytes = found >= 0 ? separator->bytes : 0;
    add_part(j, tuple, value, 0, at);
    add_part(j, tuple, value, at, at + bytes);
    add_part(j, tuple, value, at + bytes, string->bytes);
    return tuple;
}

/* Inserts a string before each character and at the end. */
static void interleave(tfm__jinja_writer *out, const tfm__jinja_string *string, const tfm__jinja_string *by,
                       int64_t count) {
    size_t at = 0;
    while (out->j->status == TFM_OK) {
        if (count-- != 0)
            tfm__jinja_write_string(out, by);
        if (at >= string->bytes)
            break;
        const size_t bytes = tfm__char_bytes(string->data + at);
        tfm__jinja_write(out, string->data + at, bytes);
        at += bytes;
        if (count == 0) {
            tfm__jinja_write(out, string->data + at, string->bytes - at);
            break;
        }
    }
}

tfm__jinja_value tfm__jinja_replace(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_string *old,
                                    const tfm__jinja_string *by, int64_t count) {
    if (j->status != TFM_OK)
        return value;
    const tfm__jinja_string *string = value.string;
    tfm__jinja_writer out = {.j = j};
    size_t at = 0;
    if (count == 0)
        return value;
    if (!old->bytes) {
        interleave(&out, string, by, count);
        return tfm__jinja_like(tfm__jinja_written(&out), value);
    }
    for (; count != 0 && j->status == TFM_OK; count--) {
        const int64_t found = tfm__jinja_find(j, string, at, string->bytes, old, false);
        if (found < 0)
            break;
        tfm__jinja_write(&out, string->data + at, (size_t)found - at);
        tfm__jinja_write_string(&out, by);
        at = (size_t)found + old->bytes;
    }
    tfm__jinja_write(&out, string->data + at, string->bytes - at);
    return tfm__jinja_like(tfm__jinja_written(&out), value);
}

tfm__jinja_value tfm__jinja_join(tfm__jinja *j, const tfm__jinja_string *separator, tfm__jinja_value items,
                                 bool strict) {
    if (j->status != TFM_OK)
        return items;
    tfm__jinja_iterator *it = tfm__jinja_iterate(j, items);
    tfm__jinja_writer out = {.j = j};
    tfm__jinja_value item;
    for (size_t i = 0; !tfm__jinja_is(item = tfm__jinja_iterator_next(j, it), TFM__JINJA_MISSING); i++) {
        if (i)
            tfm__jinja_write_string(&out, separator);
        if (strict && !tfm__jinja_is(item, TFM__JINJA_STRING))
            return tfm__jinja_error(j, "sequence item %zu: expected str instance, %s found", i, tfm__jinja_kind(item));
        tfm__jinja_write_str(&out, item);
    }
    return tfm__jinja_written(&out);
}

tfm__jinja_value tfm__jinja_pad(tfm__jinja *j, tfm__jinja_value value, int64_t width, int32_t fill,
                                tfm__jinja_side side) {
    if (j->status != TFM_OK)
        return value;
    tfm__jinja_writer out = {.j = j};
    const int64_t missing = width - (int64_t)value.string->chars;
    if (missing <= 0)
        return value;
    /* str.center puts the odd character on the left if the width is odd. */
    const int64_t left = side == TFM__JINJA_BOTH   ? missing / 2 + (missing & width & 1)
                         : side == TFM__JINJA_LEFT ? missing
                                                   : 0;
    for (int64_t i = 0; i < left && tfm__jinja_step(j, 0); i++)
        tfm__jinja_write_char(&out, fill);
    tfm__jinja_write_string(&out, value.string);
    for (int64_t i = left; i < missing && tfm__jinja_step(j, 0); i++)
        tfm__jinja_write_char(&out, fill);
    return tfm__jinja_like(tfm__jinja_written(&out), value);
}
