#include <limits.h>
#include "text/chat_template/jinja_object.h"

tfm__jinja_value tfm__jinja_method(tfm__jinja *j, tfm__jinja_value self, const char *name) {
    tfm__jinja_object *object = tfm__jinja_alloc(j, 1, sizeof(*object));
    if (!object)
        return tfm__jinja_none();
    object->self = self;
    object->name = name;
    return (tfm__jinja_value){.type = TFM__JINJA_METHOD, .object = object};
}

tfm__jinja_value tfm__jinja_function(tfm__jinja *j, const char *name) {
    tfm__jinja_value function = tfm__jinja_method(j, tfm__jinja_none(), name);
    function.type = j->status == TFM_OK ? TFM__JINJA_FUNCTION : TFM__JINJA_NONE;
    return function;
}

enum { PARAMETERS = 8 };

/* Splits "a /b c" into names; the flag is for a slash. */
static size_t split_names(tfm__jinja_string names[PARAMETERS], bool positional[PARAMETERS], const char *text) {
    size_t count = 0;
    while (*text && count < PARAMETERS) {
        positional[count] = *text == '/';
        text += *text == '/';
        const size_t bytes = strcspn(text, " ");
        names[count++] = (tfm__jinja_string){text, bytes, bytes};
        text += bytes + (text[bytes] == ' ');
    }
    return count;
}

static bool same(const tfm__jinja_string *a, const tfm__jinja_string *b) {
    return a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

bool tfm__jinja_bind(tfm__jinja *j, const char *call, const tfm__jinja_args *args, const char *text, size_t required,
                     tfm__jinja_value *out) {
    tfm__jinja_string names[PARAMETERS];
    bool positional[PARAMETERS];
    const size_t count = split_names(names, positional, text);
    if (args->count > count)
        tfm__jinja_error(j, "%s() takes at most %zu arguments (%zu given)", call, count, args->count);
    for (size_t i = 0; i < count; i++)
        out[i] = i < args->count ? args->items[i] : tfm__jinja_of(TFM__JINJA_MISSING);
    for (size_t k = 0; k < args->named && j->status == TFM_OK; k++) {
        size_t i = 0;
        while (i < count && (positional[i] || !same(&names[i], args->names[k])))
            i++;
        if (i == count || !tfm__jinja_is(out[i], TFM__JINJA_MISSING))
            tfm__jinja_error(j, "%s() got an unexpected keyword argument '%.*s'", call, (int)args->names[k]->bytes,
                             args->names[k]->data);
        else
            out[i] = args->values[k];
    }
    for (size_t i = 0; i < required && j->status == TFM_OK; i++)
        if (tfm__jinja_is(out[i], TFM__JINJA_MISSING))
            tfm__jinja_error(j, "%s() misses the argument '%.*s'", call, (int)names[i].bytes, names[i].data);
    return j->status == TFM_OK;
}

const tfm__jinja_value *tfm__jinja_argument(const tfm__jinja_args *args, const char *name) {
    for (size_t i = 0; i < args->named; i++)
        if (tfm__jinja_string_is(args->names[i], name))
            return &args->values[i];
    return NULL;
}

int64_t tfm__jinja_int_argument(tfm__jinja *j, tfm__jinja_value value, int64_t fallback) {
    if (tfm__jinja_is_integral(value))
        return tfm__jinja_integral(value);
    if (tfm__jinja_is(value, TFM__JINJA_UNDEFINED))
        tfm__jinja_error(j, "%s", value.why);
    else if (!tfm__jinja_is(value, TFM__JINJA_MISSING))
        tfm__jinja_error(j, "'%s' object cannot be interpreted as an integer", tfm__jinja_kind(value));
    return fallback;
}

const tfm__jinja_string *tfm__jinja_string_argument(tfm__jinja *j, tfm__jinja_value value, const char *fallback) {
    static const tfm__jinja_string empty = {"", 0, 0};
    if (tfm__jinja_is(value, TFM__JINJA_STRING))
        return value.string;
    if (tfm__jinja_is(value, TFM__JINJA_MISSING) && fallback)
        value = tfm__jinja_text(j, fallback);
    else if (tfm__jinja_is(value, TFM__JINJA_UNDEFINED))
        tfm__jinja_error(j, "%s", value.why);
    else
        tfm__jinja_error(j, "a string is needed, not '%s'", tfm__jinja_kind(value));
    return j->status == TFM_OK ? value.string : &empty;
}
