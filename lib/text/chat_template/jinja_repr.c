#include "text/chat_template/jinja_repr.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include "text/chat_template/jinja_case.h"
#include "text/chat_template/jinja_dict.h"

const char *tfm__jinja_float_text(char text[TFM__JINJA_FLOAT_TEXT], double value) {
    char digits[40] = "";
    if (isnan(value) || isinf(value))
        return strcpy(text, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
    for (int precision = 0; precision < 17; precision++) { /* the shortest that reads as the same number */
        snprintf(digits, sizeof(digits), "%.*e", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    char *mark = strchr(digits, 'e');
    const int exponent = atoi(mark + 1);
    *mark = 0;
    if (exponent < -4 || exponent >= 16) {
        snprintf(text, TFM__JINJA_FLOAT_TEXT, "%se%c%02d", digits, exponent < 0 ? '-' : '+', abs(exponent));
        return text;
    }
    const char *sign = *digits == '-' ? "-" : "";
    char plain[24] = "";
    size_t count = 0;
    for (const char *at = digits; *at; at++)
        if (*at >= '0' && *at <= '9')
            plain[count++] = *at;
    if (exponent < 0)
        snprintf(text, TFM__JINJA_FLOAT_TEXT, "%s0.%.*s%s", sign, -exponent - 1, "0000", plain);
    else if ((int)count <= exponent + 1)
        snprintf(text, TFM__JINJA_FLOAT_TEXT, "%s%s%.*s.0", sign, plain, exponent + 1 - (int)count, "0000000000000000");
    else
        snprintf(text, TFM__JINJA_FLOAT_TEXT, "%s%.*s.%s", sign, exponent + 1, plain, plain + exponent + 1);
    return text;
}

static void write_string_repr(tfm__jinja_writer *out, const tfm__jinja_string *string) {
    const char quote =
        memchr(string->data, '\'', string->bytes) && !memchr(string->data, '"', string->bytes) ? '"' : '\'';
    tfm__jinja_write(out, &quote, 1);
    for (size_t at = 0, next = 0; at < string->bytes && out->j->status == TFM_OK; at = next) {
        const int32_t c = tfm__char_next(string->data, &next);
        char code[12] = "";
        if (c == quote || c == '\\')
            snprintf(code, sizeof(code), "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            snprintf(code, sizeof(code), "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (!tfm__jinja_is_printable(c))
            snprintf(code, sizeof(code), c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c);
        if (*code)
            tfm__jinja_write_text(out, code);
        else
            tfm__jinja_write(out, string->data + at, next - at);
    }
    tfm__jinja_write(out, &quote, 1);
}

static void write_items(tfm__jinja_writer *out, const tfm__jinja_list *list, const char *open, const char *close) {
    tfm__jinja_write_text(out, open);
    for (size_t i = 0; i < list->count && out->j->status == TFM_OK; i++) {
        if (i)
            tfm__jinja_write_text(out, ", ");
        tfm__jinja_write_repr(out, list->items[i]);
    }
    tfm__jinja_write_text(out, *open == '(' && list->count == 1 ? "," : "");
    tfm__jinja_write_text(out, close);
}

static void write_dict(tfm__jinja_writer *out, const tfm__jinja_dict *dict) {
    tfm__jinja_write_text(out, "{");
    for (size_t i = 0; i < dict->count && out->j->status == TFM_OK; i++) {
        if (i)
            tfm__jinja_write_text(out, ", ");
        tfm__jinja_write_repr(out, dict->entries[i].key);
        tfm__jinja_write_text(out, ": ");
        tfm__jinja_write_repr(out, dict->entries[i].value);
    }
    tfm__jinja_write_text(out, "}");
}

/* A view of a dict: dict_items([('a', 1)]). */
static void write_view(tfm__jinja_writer *out, tfm__jinja_value view) {
    static const char *const names[] = {"dict_items([", "dict_keys([", "dict_values(["};
    const tfm__jinja_dict *dict = view.list->items[0].dict;
    const int64_t kind = view.list->items[1].integer;
    tfm__jinja_write_text(out, names[kind]);
    for (size_t i = 0; i < dict->count && out->j->status == TFM_OK; i++) {
        tfm__jinja_write_text(out, i ? ", " : "");
        tfm__jinja_write_text(out, kind == 0 ? "(" : "");
        if (kind != 2)
            tfm__jinja_write_repr(out, dict->entries[i].key);
        tfm__jinja_write_text(out, kind == 0 ? ", " : "");
        if (kind != 1)
            tfm__jinja_write_repr(out, dict->entries[i].value);
        tfm__jinja_write_text(out, kind == 0 ? ")" : "");
    }
    tfm__jinja_write_text(out, "])");
}

static void write_number(tfm__jinja_writer *out, tfm__jinja_value value) {
    char text[TFM__JINJA_FLOAT_TEXT];
    if (tfm__jinja_is(value, TFM__JINJA_FLOAT))
        tfm__jinja_float_text(text, value.real);
    else
        snprintf(text, sizeof(text), "%" PRId64, value.integer);
    tfm__jinja_write_text(out, text);
}

static void write_range(tfm__jinja_writer *out, const tfm__jinja_list *range) {
    tfm__jinja_write_text(out, "range(");
    write_number(out, range->items[0]);
    tfm__jinja_write_text(out, ", ");
    write_number(out, range->items[1]);
    if (range->items[2].integer != 1) {
        tfm__jinja_write_text(out, ", ");
        write_number(out, range->items[2]);
    }
    tfm__jinja_write_text(out, ")");
}

static void write_compound(tfm__jinja_writer *out, tfm__jinja_value value) {
    if (!tfm__jinja_enter(out->j))
        return;
    switch (value.type) {
    case TFM__JINJA_LIST:
        write_items(out, value.list, "[", "]");
        break;
    case TFM__JINJA_TUPLE:
        write_items(out, value.list, "(", ")");
        break;
    case TFM__JINJA_DICT:
        write_dict(out, value.dict);
        break;
    case TFM__JINJA_NAMESPACE:
        tfm__jinja_write_text(out, "<Namespace ");
        write_dict(out, value.dict);
        tfm__jinja_write_text(out, ">");
        break;
    case TFM__JINJA_RANGE:
        write_range(out, value.list);
        break;
    case TFM__JINJA_VIEW:
        write_view(out, value);
        break;
    default: /* jinja2 writes an address */
        tfm__jinja_fail(out->j, TFM_ERROR_UNSUPPORTED, "a %s cannot be output", tfm__jinja_kind(value));
    }
    tfm__jinja_leave(out->j);
}

void tfm__jinja_write_repr(tfm__jinja_writer *out, tfm__jinja_value value) {
    switch (value.type) {
    case TFM__JINJA_UNDEFINED:
        tfm__jinja_write_text(out, "Undefined");
        break;
    case TFM__JINJA_NONE:
        tfm__jinja_write_text(out, "None");
        break;
    case TFM__JINJA_BOOL:
        tfm__jinja_write_text(out, value.flag ? "True" : "False");
        break;
    case TFM__JINJA_INT:
    case TFM__JINJA_FLOAT:
        write_number(out, value);
        break;
    case TFM__JINJA_STRING:
        tfm__jinja_write_text(out, value.markup ? "Markup(" : "");
        write_string_repr(out, value.string);
        tfm__jinja_write_text(out, value.markup ? ")" : "");
        break;
    default:
        write_compound(out, value);
    }
}

void tfm__jinja_write_str(tfm__jinja_writer *out, tfm__jinja_value value) {
    if (tfm__jinja_is(value, TFM__JINJA_STRING))
        tfm__jinja_write_string(out, value.string);
    else if (!tfm__jinja_is(value, TFM__JINJA_UNDEFINED))
        tfm__jinja_write_repr(out, value);
}

tfm__jinja_value tfm__jinja_str(tfm__jinja *j, tfm__jinja_value value) {
    tfm__jinja_writer out = {.j = j};
    if (tfm__jinja_is(value, TFM__JINJA_STRING)) {
        value.markup = false;
        return value;
    }
    tfm__jinja_write_str(&out, value);
    return tfm__jinja_written(&out);
}

tfm__jinja_value tfm__jinja_soft_str(tfm__jinja *j, tfm__jinja_value value) {
    return tfm__jinja_is(value, TFM__JINJA_STRING) ? value : tfm__jinja_str(j, value);
}

tfm__jinja_value tfm__jinja_repr(tfm__jinja *j, tfm__jinja_value value) {
    tfm__jinja_writer out = {.j = j};
    tfm__jinja_write_repr(&out, value);
    return tfm__jinja_written(&out);
}

tfm__jinja_value tfm__jinja_escape(tfm__jinja *j, tfm__jinja_value value) {
    static const char codes[][8] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    static const char chars[] = "&<>'\"";
    if (tfm__jinja_is(value, TFM__JINJA_STRING) && value.markup)
        return value;
    const tfm__jinja_value text = tfm__jinja_str(j, value);
    tfm__jinja_writer out = {.j = j};
    for (size_t i = 0; j->status == TFM_OK && i < text.string->bytes; i++) {
        const char c = text.string->data[i];
        const char *found = memchr(chars, c, sizeof(chars) - 1);
        if (found)
            tfm__jinja_write_text(&out, codes[found - chars]);
        else
            tfm__jinja_write(&out, &c, 1);
    }
    tfm__jinja_value escaped = tfm__jinja_written(&out);
    escaped.markup = true;
    return escaped;
}
