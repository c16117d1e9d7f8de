/* Global functions: range, namespace, dict, cycler, joiner, raise_exception and strftime_now. */
#include <stdio.h>
#include "text/chat_template/jinja_evaluate.h"
#include "text/chat_template/jinja_repr.h"

enum { RANGE = 100000 }; /* of jinja2's sandbox */

static tfm__jinja_value call_range(tfm__jinja *j, const tfm__jinja_args *args) {
    tfm__jinja_value out[3];
    if (!tfm__jinja_bind(j, "range", args, "/start /stop /step", 1, out))
        return tfm__jinja_none();
    const bool one = tfm__jinja_is(out[1], TFM__JINJA_MISSING);
    const int64_t from = one ? 0 : tfm__jinja_int_argument(j, out[0], 0),
                  to = tfm__jinja_int_argument(j, out[one ? 0 : 1], 0), step = tfm__jinja_int_argument(j, out[2], 1);
    const int64_t most = (int64_t)1 << 40;
    if (j->status == TFM_OK && step == 0)
        return tfm__jinja_error(j, "range() arg 3 must not be zero");
    if (from < -most || from > most || to < -most || to > most || step < -most || step > most)
        return tfm__jinja_error(j, "range() arguments are too large");
    tfm__jinja_value range = tfm__jinja_list_new(j, TFM__JINJA_LIST, 3);
    const int64_t parts[] = {from, to, step};
    for (size_t i = 0; i < 3 && j->status == TFM_OK; i++)
        tfm__jinja_list_add(j, range, tfm__jinja_int(parts[i]));
    range.type = j->status == TFM_OK ? TFM__JINJA_RANGE : TFM__JINJA_NONE;
    if (j->status == TFM_OK && tfm__jinja_length(range) > RANGE)
        return tfm__jinja_error(j, "Range too big. The sandbox blocks ranges larger than %d", RANGE);
    return range;
}

/* The entries of a dict, or pairs. */
static void add_entries(tfm__jinja *j, tfm__jinja_dict *dict, tfm__jinja_value from) {
    tfm__jinja_value item;
    if (tfm__jinja_is(from, TFM__JINJA_DICT)) {
        tfm__jinja_dict_update(j, dict, from.dict);
        return;
    }
    if (tfm__jinja_is(from, TFM__JINJA_UNDEFINED))
        tfm__jinja_error(j, "%s", from.why);
    tfm__jinja_iterator *it = tfm__jinja_iterate(j, from);
    while (!tfm__jinja_is(item = tfm__jinja_iterator_next(j, it), TFM__JINJA_MISSING)) {
        const tfm__jinja_value pair = tfm__jinja_to_list(j, item);
        if (j->status == TFM_OK && pair.list->count == 2)
            tfm__jinja_dict_set(j, dict, pair.list->items[0], pair.list->items[1]);
        else
            tfm__jinja_error(j, "a dict is made of pairs");
    }
}

static tfm__jinja_value call_dict(tfm__jinja *j, const tfm__jinja_args *args) {
    const tfm__jinja_value dict = tfm__jinja_dict_new(j);
    if (args->count > 1)
        return tfm__jinja_error(j, "dict expected at most 1 argument, got %zu", args->count);
    if (args->count && j->status == TFM_OK)
        add_entries(j, dict.dict, args->items[0]);
    for (size_t i = 0; i < args->named && j->status == TFM_OK; i++)
        tfm__jinja_dict_set(j, dict.dict, (tfm__jinja_value){.type = TFM__JINJA_STRING, .string = args->names[i]},
                            args->values[i]);
    return dict;
}

static tfm__jinja_value call_namespace(tfm__jinja *j, const tfm__jinja_args *args) {
    tfm__jinja_value namespace = call_dict(j, args);
    for (size_t i = 0; j->status == TFM_OK && i < namespace.dict->count; i++) {
        const tfm__jinja_value key = namespace.dict->entries[i].key;
        if (tfm__jinja_is(key, TFM__JINJA_STRING) && key.string->bytes && *key.string->data == '_')
            return tfm__jinja_error(j, "an attribute of a namespace begins with an underscore");
    }
    namespace.type = j->status == TFM_OK ? TFM__JINJA_NAMESPACE : TFM__JINJA_NONE;
    return namespace;
}

static tfm__jinja_value call_cycler(tfm__jinja *j, const tfm__jinja_args *args) {
    const tfm__jinja_value items = tfm__jinja_list_new(j, TFM__JINJA_TUPLE, args->count);
    if (!args->count || args->named)
        return tfm__jinja_error(j, "at least one item has to be provided");
    for (size_t i = 0; i < args->count && j->status == TFM_OK; i++)
        tfm__jinja_list_add(j, items, args->items[i]);
    tfm__jinja_value cycler = tfm__jinja_method(j, items, "cycler");
    cycler.type = j->status == TFM_OK ? TFM__JINJA_CYCLER : TFM__JINJA_NONE;
    return cycler;
}

static tfm__jinja_value call_joiner(tfm__jinja *j, const tfm__jinja_args *args) {
    tfm__jinja_value separator;
    if (!tfm__jinja_bind(j, "joiner", args, "sep", 0, &separator))
        return tfm__jinja_none();
    tfm__jinja_value joiner = tfm__jinja_method(
        j, tfm__jinja_is(separator, TFM__JINJA_MISSING) ? tfm__jinja_text(j, ", ") : separator, "joiner");
    joiner.type = j->status == TFM_OK ? TFM__JINJA_JOINER : TFM__JINJA_NONE;
    return joiner;
}

static tfm__jinja_value call_raise(tfm__jinja *j, const tfm__jinja_args *args) {
    tfm__jinja_value message;
    if (!tfm__jinja_bind(j, "raise_exception", args, "message", 1, &message))
        return tfm__jinja_none();
    const tfm__jinja_value text = tfm__jinja_str(j, message);
    if (j->status != TFM_OK)
        return text;
    return tfm__jinja_error(j, "it refuses the messages: %.*s",
                            (int)(text.string->bytes > 800 ? 800 : text.string->bytes), text.string->data);
}

/* One directive of strftime, such as %-d; a time without a zone has no %z and %Z. */
static void write_directive(tfm__jinja_writer *out, const char *at, size_t bytes) {
    char format[32], text[512];
    const char letter = at[bytes - 1];
    const tfm__jinja_time *now = out->j->now;
    if (letter == 'z' || letter == 'Z')
        return;
    if (letter == 'f' && bytes == 2) {
        snprintf(text, sizeof(text), "%06d", now->microseconds);
        tfm__jinja_write_text(out, text);
        return;
    }
    if (bytes + 2 > sizeof(format)) {
        tfm__jinja_error(out->j, "a directive of strftime_now is too long");
        return;
    }
    snprintf(format, sizeof(format), "%.*s.", (int)bytes, at); /* the point tells an empty text from a failure */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const size_t count = strftime(text, sizeof(text), format, &now->local);
#pragma GCC diagnostic pop
    if (count)
        tfm__jinja_write(out, text, count - 1);
}

static tfm__jinja_value call_strftime(tfm__jinja *j, const tfm__jinja_args *args) {
    tfm__jinja_value format;
    tfm__jinja_writer out = {.j = j};
    if (!tfm__jinja_bind(j, "strftime_now", args, "format", 1, &format))
        return tfm__jinja_none();
    const tfm__jinja_string *string = tfm__jinja_string_argument(j, format, NULL);
    for (size_t at = 0; at < string->bytes && j->status == TFM_OK;) {
        size_t end = at + 1;
        if (string->data[at] != '%') {
            while (end < string->bytes && string->data[end] != '%')
                end++;
            tfm__jinja_write(&out, string->data + at, end - at);
        } else {
            while (end < string->bytes && strchr("_-0^#123456789EO:", string->data[end]))
                end++;
            end += end < string->bytes;
            if (end - at > 1)
                write_directive(&out, string->data + at, end - at);
            else
                tfm__jinja_write(&out, "%", 1);
        }
        at = end;
    }
    return tfm__jinja_written(&out);
}

static const struct {
    const char *name;
    tfm__jinja_value (*call)(tfm__jinja *j, const tfm__jinja_args *args);
} FUNCTIONS[] = {
    {"range", call_range},           {"namespace", call_namespace}, {"dict", call_dict},
    {"cycler", call_cycler},         {"joiner", call_joiner},       {"raise_exception", call_raise},
    {"strftime_now", call_strftime},
};

tfm__jinja_value tfm__jinja_global(tfm__jinja *j, const tfm__jinja_string *name) {
    for (size_t i = 0; i < TFM__COUNT(FUNCTIONS); i++)
        if (tfm__jinja_string_is(name, FUNCTIONS[i].name))
            return tfm__jinja_function(j, FUNCTIONS[i].name);
    if (tfm__jinja_string_is(name, "lipsum") || tfm__jinja_string_is(name, "self"))
        tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "the variable `%.*s` of jinja2 is not supported", (int)name->bytes,
                        name->data);
    return tfm__jinja_of(TFM__JINJA_MISSING);
}

tfm__jinja_value tfm__jinja_call_function(tfm__jinja *j, const char *name, const tfm__jinja_args *args) {
    for (size_t i = 0; i < TFM__COUNT(FUNCTIONS); i++)
        if (strcmp(name, FUNCTIONS[i].name) == 0)
            return FUNCTIONS[i].call(j, args);
    return tfm__jinja_error(j, "there is no function `%s`", name);
}
