/* Filters of text. */
#include "text/chat_template/jinja_case.h"
#include "text/chat_template/jinja_dict.h"
#include "text/chat_template/jinja_filters.h"
#include "text/chat_template/jinja_format.h"
#include "text/chat_template/jinja_methods.h"
#include "text/chat_template/jinja_object.h"
#include "text/chat_template/jinja_repr.h"

/* str() of the value, unless the filter has arguments. */
static tfm__jinja_value plain(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args, const char *name) {
    return tfm__jinja_bind(j, name, args, "", 0, NULL) ? tfm__jinja_soft_str(j, value) : tfm__jinja_none();
}

static tfm__jinja_value filter_upper(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    value = plain(j, value, args, "upper");
    return j->status == TFM_OK ? tfm__jinja_to_case(j, value, TFM__JINJA_UPPER) : value;
}

static tfm__jinja_value filter_lower(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    value = plain(j, value, args, "lower");
    return j->status == TFM_OK ? tfm__jinja_to_case(j, value, TFM__JINJA_LOWER) : value;
}

static tfm__jinja_value filter_capitalize(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    value = plain(j, value, args, "capitalize");
    return j->status == TFM_OK ? tfm__jinja_to_case(j, value, TFM__JINJA_CAPITALIZE) : value;
}

/* Upper case after blanks, hyphens and opening brackets, lower case elsewhere. */
static tfm__jinja_value filter_title(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_writer out = {.j = j};
    value = plain(j, value, args, "title");
    if (j->status != TFM_OK)
        return value;
    const tfm__jinja_string *string = value.string;
    for (size_t at = 0, end; at < string->bytes && j->status == TFM_OK; at = end) {
        bool separator = false;
        for (end = at; end < string->bytes;) {
            size_t next = end;
            const int32_t c = tfm__char_next(string->data, &next);
            const bool is = tfm__jinja_is_space(c) || (c < 0x80 && c > 0 && strchr("-({[<", c));
            if (end > at && is != separator)
                break;
            separator = is;
            end = next;
        }
        const size_t first = tfm__char_bytes(string->data + at);
        const tfm__jinja_value head = tfm__jinja_share(j, string->data + at, first),
                               tail = tfm__jinja_share(j, string->data + at + first, end - at - first);
        if (j->status != TFM_OK)
            break;
        tfm__jinja_write_str(&out, tfm__jinja_to_case(j, head, TFM__JINJA_UPPER));
        tfm__jinja_write_str(&out, tfm__jinja_to_case(j, tail, TFM__JINJA_LOWER));
    }
    return tfm__jinja_written(&out);
}

static tfm__jinja_value filter_string(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    return plain(j, value, args, "string");
}

static tfm__jinja_value filter_trim(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value chars;
    value = tfm__jinja_soft_str(j, value);
    return tfm__jinja_bind(j, "trim", args, "chars", 0, &chars) ? tfm__jinja_strip(j, value, chars, TFM__JINJA_BOTH)
                                                                : value;
}

static tfm__jinja_value filter_center(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value width;
    value = tfm__jinja_soft_str(j, value);
    return tfm__jinja_bind(j, "center", args, "width", 0, &width)
               ? tfm__jinja_pad(j, value, tfm__jinja_int_argument(j, width, 80), ' ', TFM__JINJA_BOTH)
               : value;
}

static tfm__jinja_value filter_replace(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value out[3];
    if (!tfm__jinja_bind(j, "replace", args, "old new count", 2, out))
        return value;
    const tfm__jinja_value text = tfm__jinja_str(j, value), old = tfm__jinja_str(j, out[0]),
                           by = tfm__jinja_str(j, out[1]);
    const int64_t count = tfm__jinja_is(out[2], TFM__JINJA_NONE) ? -1 : tfm__jinja_int_argument(j, out[2], -1);
    return j->status == TFM_OK ? tfm__jinja_replace(j, text, old.string, by.string, count) : value;
}

static tfm__jinja_value filter_indent(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value out[3];
    tfm__jinja_writer text = {.j = j};
    if (!tfm__jinja_bind(j, "indent", args, "width first blank", 0, out))
        return value;
    if (tfm__jinja_is(value, TFM__JINJA_UNDEFINED) || !tfm__jinja_is(value, TFM__JINJA_STRING))
        return tfm__jinja_error(j, "indent needs a string, not '%s'", tfm__jinja_kind(value));
    const bool first = tfm__jinja_truth(out[1]), blank = tfm__jinja_truth(out[2]);
    tfm__jinja_value indent = out[0];
    if (!tfm__jinja_is(indent, TFM__JINJA_STRING))
        indent = tfm__jinja_pad(j, tfm__jinja_text(j, ""), tfm__jinja_int_argument(j, indent, 4), ' ', TFM__JINJA_LEFT);
    const tfm__jinja_value lines = tfm__jinja_splitlines(j, value, false);
    if (j->status != TFM_OK)
        return value;
    /* A line end at the end of the text counts as one empty line, since jinja2 adds a line end. */
    const tfm__jinja_string *string = value.string;
    const size_t count = lines.list->count;
    bool ends = count == 0;
    if (count) {
        const tfm__jinja_string *last = lines.list->items[count - 1].string;
        ends = last->data + last->bytes < string->data + string->bytes && string->data[string->bytes - 1] != '\r';
    }
    for (size_t i = 0; i < count + ends && j->status == TFM_OK; i++) {
        const tfm__jinja_string *line = i < count ? lines.list->items[i].string : &(tfm__jinja_string){"", 0, 0};
        if (i)
            tfm__jinja_write(&text, "\n", 1);
        if (i ? blank || line->bytes : first)
            tfm__jinja_write_string(&text, indent.string);
        tfm__jinja_write_string(&text, line);
    }
    return tfm__jinja_like(tfm__jinja_written(&text), value);
}

static tfm__jinja_value filter_truncate(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value out[4];
    if (!tfm__jinja_bind(j, "truncate", args, "length killwords end leeway", 0, out))
        return value;
    const int64_t length = tfm__jinja_int_argument(j, out[0], 255), leeway = tfm__jinja_int_argument(j, out[3], 5);
    const tfm__jinja_string *end = tfm__jinja_string_argument(j, out[2], "...");
    if (j->status != TFM_OK || tfm__jinja_is(value, TFM__JINJA_UNDEFINED))
        return value;
    if (length < (int64_t)end->chars || leeway < 0 || tfm__jinja_length(value) < 0)
        return tfm__jinja_error(j, "truncate: the value has no length, or the length is too small");
    if (length > INT32_MAX || leeway > INT32_MAX || tfm__jinja_length(value) <= length + leeway)
        return value;
    if (!tfm__jinja_is(value, TFM__JINJA_STRING))
        return tfm__jinja_error(j, "truncate: a '%s' is too long", tfm__jinja_kind(value));
    tfm__jinja_value head =
        tfm__jinja_slice(j, value, tfm__jinja_int(0), tfm__jinja_int(length - (int64_t)end->chars), tfm__jinja_none());
    if (j->status == TFM_OK && !tfm__jinja_truth(out[1])) {
        const tfm__jinja_value parts = tfm__jinja_split(j, head, tfm__jinja_text(j, " "), 1, true);
        head = j->status == TFM_OK ? parts.list->items[0] : head;
    }
    tfm__jinja_writer text = {.j = j};
    tfm__jinja_write_str(&text, head);
    tfm__jinja_write_string(&text, end);
    return tfm__jinja_written(&text);
}

static tfm__jinja_value filter_wordcount(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    int64_t count = 0;
    bool inside = false;
    value = plain(j, value, args, "wordcount");
    for (size_t at = 0; j->status == TFM_OK && at < value.string->bytes;) {
        const bool word = tfm__jinja_is_word(tfm__char_next(value.string->data, &at));
        count += word && !inside;
        inside = word;
    }
    return tfm__jinja_int(count);
}

static tfm__jinja_value filter_join(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value out[2];
    if (!tfm__jinja_bind(j, "join", args, "d attribute", 0, out))
        return value;
    const tfm__jinja_value separator =
        tfm__jinja_is(out[0], TFM__JINJA_MISSING) ? tfm__jinja_text(j, "") : tfm__jinja_str(j, out[0]);
    if (!tfm__jinja_is(out[1], TFM__JINJA_MISSING) && !tfm__jinja_is(out[1], TFM__JINJA_NONE)) {
        const tfm__jinja_getter getter = tfm__jinja_getter_new(j, out[1]);
        tfm__jinja_iterator *it = tfm__jinja_iterate(j, value);
        const tfm__jinja_value list = tfm__jinja_list_new(j, TFM__JINJA_LIST, 0);
        tfm__jinja_value item;
        while (!tfm__jinja_is(item = tfm__jinja_iterator_next(j, it), TFM__JINJA_MISSING))
            tfm__jinja_list_add(j, list, tfm__jinja_get(j, &getter, item));
        value = list;
    }
    return j->status == TFM_OK ? tfm__jinja_join(j, separator.string, value, false) : value;
}

static tfm__jinja_value filter_format(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value values =
        args->named ? tfm__jinja_dict_new(j) : tfm__jinja_list_new(j, TFM__JINJA_TUPLE, args->count);
    if (args->count && args->named)
        return tfm__jinja_error(j, "can't handle positional and keyword arguments at the same time");
    value = tfm__jinja_soft_str(j, value);
    for (size_t i = 0; i < args->named && j->status == TFM_OK; i++)
        tfm__jinja_dict_set(j, values.dict, (tfm__jinja_value){.type = TFM__JINJA_STRING, .string = args->names[i]},
                            args->values[i]);
    for (size_t i = 0; i < args->count && j->status == TFM_OK; i++)
        tfm__jinja_list_add(j, values, args->items[i]);
    return j->status == TFM_OK ? tfm__jinja_percent(j, value, values) : value;
}

static tfm__jinja_value filter_safe(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    value = tfm__jinja_bind(j, "safe", args, "", 0, NULL) ? tfm__jinja_str(j, value) : value;
    value.markup = true;
    return value;
}

static tfm__jinja_value filter_escape(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    return tfm__jinja_bind(j, "escape", args, "", 0, NULL) ? tfm__jinja_escape(j, value) : value;
}

static tfm__jinja_value filter_forceescape(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    value = tfm__jinja_bind(j, "forceescape", args, "", 0, NULL) ? tfm__jinja_str(j, value) : value;
    return j->status == TFM_OK ? tfm__jinja_escape(j, value) : value;
}

static tfm__jinja_value filter_urlencode(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    static const char hex[] = "0123456789ABCDEF";
    tfm__jinja_writer out = {.j = j};
    if (!tfm__jinja_bind(j, "urlencode", args, "", 0, NULL))
        return value;
    if (!tfm__jinja_is(value, TFM__JINJA_STRING) && tfm__jinja_is_iterable(value)) {
        tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "urlencode of a '%s' is not supported", tfm__jinja_kind(value));
        return value;
    }
    value = tfm__jinja_str(j, value);
    for (size_t i = 0; j->status == TFM_OK && i < value.string->bytes; i++) {
        const unsigned char c = (unsigned char)value.string->data[i];
        const bool kept =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c && strchr("_.-~/", c));
        const char code[3] = {'%', hex[c >> 4], hex[c & 15]};
        tfm__jinja_write(&out, kept ? (const char *)&c : code, kept ? 1 : 3);
    }
    return tfm__jinja_written(&out);
}

static tfm__jinja_value filter_tojson(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value out[4];
    static const tfm__jinja_string item = {", ", 2, 2}, line = {",", 1, 1}, key = {": ", 2, 2};
    if (!tfm__jinja_bind(j, "tojson", args, "ensure_ascii indent separators sort_keys", 0, out))
        return value;
    tfm__jinja_json_options options = {
        .ensure_ascii = tfm__jinja_truth(out[0]), .indent = out[1], .sort_keys = tfm__jinja_truth(out[3]), .key = &key};
    if (tfm__jinja_is(out[1], TFM__JINJA_MISSING))
        options.indent = tfm__jinja_none();
    options.item = tfm__jinja_is(options.indent, TFM__JINJA_NONE) ? &item : &line;
    if (tfm__jinja_is(out[1], TFM__JINJA_UNDEFINED) ||
        (!tfm__jinja_is(options.indent, TFM__JINJA_NONE) && !tfm__jinja_is(options.indent, TFM__JINJA_STRING) &&
         !tfm__jinja_is_integral(options.indent)))
        return tfm__jinja_error(j, "tojson: indent is neither a number nor a string");
    if (!tfm__jinja_is(out[2], TFM__JINJA_MISSING) && !tfm__jinja_is(out[2], TFM__JINJA_NONE)) {
        if (!tfm__jinja_is_sequence(out[2]) || out[2].list->count != 2)
            return tfm__jinja_error(j, "tojson: separators are not two strings");
        options.item = tfm__jinja_string_argument(j, out[2].list->items[0], NULL);
        options.key = tfm__jinja_string_argument(j, out[2].list->items[1], NULL);
    }
    return j->status == TFM_OK ? tfm__jinja_to_json(j, value, &options) : value;
}

tfm__jinja_filter tfm__jinja_text_filter(const tfm__jinja_string *name) {
    static const struct {
        const char *name;
        tfm__jinja_filter filter;
    } filters[] = {
        {"upper", filter_upper},
        {"lower", filter_lower},
        {"capitalize", filter_capitalize},
        {"title", filter_title},
        {"string", filter_string},
        {"trim", filter_trim},
        {"center", filter_center},
        {"replace", filter_replace},
        {"indent", filter_indent},
        {"truncate", filter_truncate},
        {"wordcount", filter_wordcount},
        {"join", filter_join},
        {"format", filter_format},
        {"safe", filter_safe},
        {"escape", filter_escape},
        {"e", filter_escape},
        {"forceescape", filter_forceescape},
        {"urlencode", filter_urlencode},
        {"tojson", filter_tojson},
    };
    for (size_t i = 0; i < TFM__COUNT(filters); i++)
        if (tfm__jinja_string_is(name, filters[i].name))
            return filters[i].filter;
    return NULL;
}
