/* Strings, lists and text being written. */
#include <stdio.h>
#include "text/chat_template/jinja.h"
#include "text/chat_template/jinja_dict.h"

tfm__jinja_value tfm__jinja_undefined(tfm__jinja *j, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    char *why = tfm__jinja_alloc(j, strlen(text) + 1, 1);
    if (why)
        memcpy(why, text, strlen(text));
    return (tfm__jinja_value){.type = TFM__JINJA_UNDEFINED, .why = why ? why : "it is undefined"};
}

static size_t count_chars(const char *data, size_t bytes) {
    size_t chars = 0;
    for (size_t i = 0; i < bytes; i++)
        chars += ((unsigned char)data[i] & 0xc0) != 0x80;
    return chars;
}

tfm__jinja_value tfm__jinja_share(tfm__jinja *j, const char *data, size_t bytes) {
    tfm__jinja_string *string = tfm__jinja_alloc(j, 1, sizeof(*string));
    if (!string)
        return tfm__jinja_none();
    tfm__jinja_step(j, bytes / 128);
    *string = (tfm__jinja_string){.data = data, .bytes = bytes, .chars = count_chars(data, bytes)};
    return (tfm__jinja_value){.type = TFM__JINJA_STRING, .string = string};
}

tfm__jinja_value tfm__jinja_copy(tfm__jinja *j, const char *data, size_t bytes) {
    char *copy = tfm__jinja_alloc(j, bytes + 1, 1);
    if (!copy)
        return tfm__jinja_none();
    if (bytes)
        memcpy(copy, data, bytes);
    return tfm__jinja_share(j, copy, bytes);
}

tfm__jinja_value tfm__jinja_text(tfm__jinja *j, const char *text) {
    return tfm__jinja_share(j, text, strlen(text));
}

tfm__jinja_value tfm__jinja_like(tfm__jinja_value value, tfm__jinja_value like) {
    value.markup = like.markup;
    return value;
}

tfm__jinja_value tfm__jinja_list_new(tfm__jinja *j, tfm__jinja_type type, size_t capacity) {
    tfm__jinja_list *list = tfm__jinja_alloc(j, 1, sizeof(*list));
    if (!list)
        return tfm__jinja_none();
    list->items = capacity ? tfm__jinja_alloc(j, capacity, sizeof(*list->items)) : NULL;
    list->capacity = list->items ? capacity : 0;
    return (tfm__jinja_value){.type = (unsigned char)type, .list = list};
}

void tfm__jinja_list_add(tfm__jinja *j, tfm__jinja_value value, tfm__jinja_value item) {
    tfm__jinja_list *list = value.list;
    if (!tfm__jinja_step(j, 0))
        return;
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 8;
        tfm__jinja_value *items = tfm__jinja_alloc(j, capacity, sizeof(*items));
        if (!items)
            return;
        if (list->count)
            memcpy(items, list->items, list->count * sizeof(*items));
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
}

tfm__jinja_value tfm__jinja_pair(tfm__jinja *j, tfm__jinja_value first, tfm__jinja_value second) {
    tfm__jinja_value pair = tfm__jinja_list_new(j, TFM__JINJA_TUPLE, 2);
    if (j->status == TFM_OK) {
        tfm__jinja_list_add(j, pair, first);
        tfm__jinja_list_add(j, pair, second);
    }
    return pair;
}

const char *tfm__jinja_kind(tfm__jinja_value value) {
    static const char *const KINDS[] = {
        [TFM__JINJA_MISSING] = "missing",
        [TFM__JINJA_UNDEFINED] = "Undefined",
        [TFM__JINJA_NONE] = "NoneType",
        [TFM__JINJA_BOOL] = "bool",
        [TFM__JINJA_INT] = "int",
        [TFM__JINJA_FLOAT] = "float",
        [TFM__JINJA_STRING] = "str",
        [TFM__JINJA_LIST] = "list",
        [TFM__JINJA_TUPLE] = "tuple",
        [TFM__JINJA_DICT] = "dict",
        [TFM__JINJA_RANGE] = "range",
        [TFM__JINJA_VIEW] = "dict view",
        [TFM__JINJA_ITERATOR] = "generator",
        [TFM__JINJA_NAMESPACE] = "Namespace",
        [TFM__JINJA_MACRO] = "Macro",
        [TFM__JINJA_FUNCTION] = "function",
        [TFM__JINJA_METHOD] = "method",
        [TFM__JINJA_LOOP] = "LoopContext",
        [TFM__JINJA_CYCLER] = "Cycler",
        [TFM__JINJA_JOINER] = "Joiner",
        [TFM__JINJA_SLICE] = "slice",
    };
    return KINDS[value.type];
}

bool tfm__jinja_truth(tfm__jinja_value value) {
    switch (value.type) {
    case TFM__JINJA_MISSING:
    case TFM__JINJA_UNDEFINED:
    case TFM__JINJA_NONE:
        return false;
    case TFM__JINJA_BOOL:
        return value.flag;
    case TFM__JINJA_INT:
        return value.integer != 0;
    case TFM__JINJA_FLOAT:
        return value.real != 0;
    default:
        return tfm__jinja_length(value) != 0;
    }
}

int64_t tfm__jinja_length(tfm__jinja_value value) {
    switch (value.type) {
    case TFM__JINJA_UNDEFINED:
        return 0;
    case TFM__JINJA_STRING:
        return (int64_t)value.string->chars;
    case TFM__JINJA_LIST:
    case TFM__JINJA_TUPLE:
        return (int64_t)value.list->count;
    case TFM__JINJA_DICT:
        return (int64_t)value.dict->count;
    case TFM__JINJA_RANGE: {
        const int64_t from = value.list->items[0].integer, to = value.list->items[1].integer,
                      step = value.list->items[2].integer;
        return step > 0 ? (from < to ? (to - from - 1) / step + 1 : 0) : (from > to ? (from - to - 1) / -step + 1 : 0);
    }
    case TFM__JINJA_VIEW:
        return (int64_t)value.list->items[0].dict->count;
    default:
        return -1;
    }
}

size_t tfm__jinja_offset(const tfm__jinja_string *string, size_t character) {
    if (tfm__jinja_is_ascii(string))
        return character;
    size_t at = 0;
    while (character-- && at < string->bytes)
        at += tfm__char_bytes(string->data + at);
    return at;
}

void tfm__jinja_write(tfm__jinja_writer *out, const char *data, size_t bytes) {
    if (!bytes || out->j->status != TFM_OK)
        return;
    if (bytes > out->capacity - out->bytes) {
        const size_t needed = out->bytes + bytes, doubled = 2 * out->capacity,
                     capacity = needed > doubled ? needed + 64 : doubled;
        char *grown = tfm__jinja_alloc(out->j, capacity, 1);
        if (!grown)
            return;
        if (out->bytes)
            memcpy(grown, out->data, out->bytes);
        out->data = grown;
        out->capacity = capacity;
    }
    memcpy(out->data + out->bytes, data, bytes);
    out->bytes += bytes;
    tfm__jinja_step(out->j, bytes / 128);
}

void tfm__jinja_write_text(tfm__jinja_writer *out, const char *text) {
    tfm__jinja_write(out, text, strlen(text));
}

void tfm__jinja_write_char(tfm__jinja_writer *out, int32_t c) {
    char bytes[4];
    tfm__jinja_write(out, bytes, tfm__char_write(bytes, c));
}

void tfm__jinja_write_string(tfm__jinja_writer *out, const tfm__jinja_string *string) {
    tfm__jinja_write(out, string->data, string->bytes);
}

tfm__jinja_value tfm__jinja_written(const tfm__jinja_writer *out) {
    return tfm__jinja_share(out->j, out->data ? out->data : "", out->bytes);
}
