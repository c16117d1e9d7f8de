/* JSON: json.dumps of Python, and values of jansson. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include "text/chat_template/jinja_dict.h"
#include "text/chat_template/jinja_repr.h"

static void write_value(tfm__jinja_writer *out, tfm__jinja_value value, const tfm__jinja_json_options *options,
                        int level);

static void write_string(tfm__jinja_writer *out, const tfm__jinja_string *string, bool ascii) {
    static const char plain[] = "\"\"\\\\\nn\rr\tt\ff\bb";
    size_t from = 0;
    tfm__jinja_write(out, "\"", 1);
    for (size_t at = 0, next = 0; at < string->bytes && out->j->status == TFM_OK; at = next) {
        const int32_t c = tfm__char_next(string->data, &next);
        char code[16] = "";
        for (const char *pair = plain; *pair && !*code; pair += 2)
            if (*pair == c)
                snprintf(code, sizeof(code), "\\%c", pair[1]);
        if (!*code && (c < 0x20 || (ascii && c >= 0x7f && c < 0x10000)))
            snprintf(code, sizeof(code), "\\u%04x", (unsigned)c);
        else if (ascii && c >= 0x10000)
            snprintf(code, sizeof(code), "\\u%04x\\u%04x", 0xd800 + (((unsigned)c - 0x10000) >> 10),
                     0xdc00 + (((unsigned)c - 0x10000) & 0x3ff));
        if (*code) {
            tfm__jinja_write(out, string->data + from, at - from);
            tfm__jinja_write_text(out, code);
            from = next;
        }
    }
    tfm__jinja_write(out, string->data + from, string->bytes - from);
    tfm__jinja_write(out, "\"", 1);
}

static void write_scalar(tfm__jinja_writer *out, tfm__jinja_value value) {
    char text[TFM__JINJA_FLOAT_TEXT];
    if (tfm__jinja_is(value, TFM__JINJA_NONE))
        tfm__jinja_write_text(out, "null");
    else if (tfm__jinja_is(value, TFM__JINJA_BOOL))
        tfm__jinja_write_text(out, value.flag ? "true" : "false");
    else if (tfm__jinja_is(value, TFM__JINJA_FLOAT) && !isfinite(value.real))
        tfm__jinja_write_text(out, isnan(value.real) ? "NaN" : value.real < 0 ? "-Infinity" : "Infinity");
    else if (tfm__jinja_is(value, TFM__JINJA_FLOAT))
        tfm__jinja_write_text(out, tfm__jinja_float_text(text, value.real));
    else {
        snprintf(text, sizeof(text), "%" PRId64, value.integer);
        tfm__jinja_write_text(out, text);
    }
}

static bool is_scalar(tfm__jinja_value value) {
    return tfm__jinja_is(value, TFM__JINJA_NONE) || tfm__jinja_is_number(value);
}

static void write_line(tfm__jinja_writer *out, const tfm__jinja_json_options *options, int level) {
    if (tfm__jinja_is(options->indent, TFM__JINJA_NONE))
        return;
    tfm__jinja_write_text(out, "\n");
    for (int i = 0; i < level && out->j->status == TFM_OK; i++) {
        if (tfm__jinja_is(options->indent, TFM__JINJA_STRING))
            tfm__jinja_write_string(out, options->indent.string);
        else
            for (int64_t k = 0; k < tfm__jinja_integral(options->indent) && out->j->status == TFM_OK; k++)
                tfm__jinja_write(out, " ", 1);
    }
}

static void write_list(tfm__jinja_writer *out, const tfm__jinja_list *list, const tfm__jinja_json_options *options,
                       int level) {
    tfm__jinja_write_text(out, "[");
    for (size_t i = 0; i < list->count && out->j->status == TFM_OK; i++) {
        if (i)
            tfm__jinja_write_string(out, options->item);
        write_line(out, options, level + 1);
        write_value(out, list->items[i], options, level + 1);
    }
    if (list->count)
        write_line(out, options, level);
    tfm__jinja_write_text(out, "]");
}

/* The entries of a dict in the order of their keys. */
static const tfm__jinja_dict *sorted(tfm__jinja *j, const tfm__jinja_dict *dict) {
    tfm__jinja_dict *out = tfm__jinja_alloc(j, 1, sizeof(*out));
    tfm__jinja_entry *entries = tfm__jinja_alloc(j, dict->count + 1, sizeof(*entries));
    if (!out || !entries)
        return dict;
    for (size_t i = 0; i < dict->count && j->status == TFM_OK; i++) {
        size_t low = 0, high = i; /* after the equal keys, if a comparison fails too */
        while (low < high) {
            const size_t middle = (low + high) / 2;
            if (tfm__jinja_compare(j, dict->entries[i].key, entries[middle].key, "<") == -1)
                high = middle;
            else
                low = middle + 1;
        }
        memmove(entries + low + 1, entries + low, (i - low) * sizeof(*entries));
        tfm__jinja_step(j, (i - low) / 16);
        entries[low] = dict->entries[i];
    }
    *out = (tfm__jinja_dict){.count = dict->count, .entries = entries};
    return out;
}

static void write_dict(tfm__jinja_writer *out, const tfm__jinja_dict *dict, const tfm__jinja_json_options *options,
                       int level) {
    dict = options->sort_keys ? sorted(out->j, dict) : dict;
    tfm__jinja_write_text(out, "{");
    for (size_t i = 0; i < dict->count && out->j->status == TFM_OK; i++) {
        const tfm__jinja_value key = dict->entries[i].key;
        if (i)
            tfm__jinja_write_string(out, options->item);
        write_line(out, options, level + 1);
        if (tfm__jinja_is(key, TFM__JINJA_STRING)) {
            write_string(out, key.string, options->ensure_ascii);
        } else if (is_scalar(key)) {
            tfm__jinja_write_text(out, "\"");
            write_scalar(out, key);
            tfm__jinja_write_text(out, "\"");
        } else {
            tfm__jinja_error(out->j, "keys must be str, int, float, bool or None, not %s", tfm__jinja_kind(key));
        }
        tfm__jinja_write_string(out, options->key);
        write_value(out, dict->entries[i].value, options, level + 1);
    }
    if (dict->count)
        write_line(out, options, level);
    tfm__jinja_write_text(out, "}");
}

static void write_value(tfm__jinja_writer *out, tfm__jinja_value value, const tfm__jinja_json_options *options,
                        int level) {
    if (!tfm__jinja_enter(out->j))
        return;
    if (tfm__jinja_is(value, TFM__JINJA_STRING))
        write_string(out, value.string, options->ensure_ascii);
    else if (is_scalar(value))
        write_scalar(out, value);
    else if (tfm__jinja_is_sequence(value))
        write_list(out, value.list, options, level);
    else if (tfm__jinja_is(value, TFM__JINJA_DICT))
        write_dict(out, value.dict, options, level);
    else
        tfm__jinja_error(out->j, "object of type %s is not JSON serializable", tfm__jinja_kind(value));
    tfm__jinja_leave(out->j);
}

tfm__jinja_value tfm__jinja_to_json(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_json_options *options) {
    tfm__jinja_writer out = {.j = j};
    write_value(&out, value, options, 0);
    return tfm__jinja_written(&out);
}

static tfm__jinja_value from_container(tfm__jinja *j, const json_t *value) {
    const tfm__jinja_value out =
        json_is_array(value) ? tfm__jinja_list_new(j, TFM__JINJA_LIST, json_array_size(value)) : tfm__jinja_dict_new(j);
    if (json_is_array(value))
        for (size_t i = 0; i < json_array_size(value) && j->status == TFM_OK; i++)
            tfm__jinja_list_add(j, out, tfm__jinja_from_json(j, json_array_get(value, i)));
    else
        for (void *at = json_object_iter((json_t *)value); at && j->status == TFM_OK;
             at = json_object_iter_next((json_t *)value, at)) {
            const tfm__jinja_value item = tfm__jinja_from_json(j, json_object_iter_value(at));
            if (j->status == TFM_OK)
                tfm__jinja_dict_set_text(j, out.dict, json_object_iter_key(at), item);
        }
    return out;
}

tfm__jinja_value tfm__jinja_from_json(tfm__jinja *j, const json_t *value) {
    tfm__jinja_value out;
    switch (json_typeof(value)) {
    case JSON_STRING:
        return tfm__jinja_share(j, json_string_value(value), json_string_length(value));
    case JSON_INTEGER:
        return tfm__jinja_int(json_integer_value(value));
    case JSON_REAL:
        return tfm__jinja_float(json_real_value(value));
    case JSON_TRUE:
    case JSON_FALSE:
        return tfm__jinja_bool(json_is_true(value));
    case JSON_NULL:
        return tfm__jinja_none();
    default:
        if (!tfm__jinja_enter(j))
            return tfm__jinja_none();
        out = from_container(j, value);
        tfm__jinja_leave(j);
        return out;
    }
}
