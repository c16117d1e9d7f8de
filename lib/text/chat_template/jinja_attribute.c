/* Attributes and subscripts, with the rules of jinja2's immutable sandbox. */
#include <limits.h>
#include "text/chat_template/jinja_dict.h"
#include "text/chat_template/jinja_object.h"

/* Names of Python's attributes by type. '!': modifies its object, which the sandbox refuses. '?': not supported here.
 */
static const char *const STRINGS[] = {
    "capitalize", "casefold",   "center",       "count",        "endswith",   "expandtabs",
    "find",       "format",     "index",        "isalnum",      "isalpha",    "isascii",
    "isdecimal",  "isdigit",    "isidentifier", "islower",      "isnumeric",  "isprintable",
    "isspace",    "istitle",    "isupper",      "join",         "ljust",      "lower",
    "lstrip",     "partition",  "removeprefix", "removesuffix", "replace",    "rfind",
    "rindex",     "rjust",      "rpartition",   "rsplit",       "rstrip",     "split",
    "splitlines", "startswith", "strip",        "swapcase",     "title",      "upper",
    "zfill",      "?encode",    "?format_map",  "?maketrans",   "?translate", NULL};
static const char *const LISTS[] = {"count",    "index",   "copy",  "!append", "!clear",  "!pop",
                                    "!reverse", "!insert", "!sort", "!extend", "!remove", NULL};
static const char *const TUPLES[] = {"count", "index", NULL};
static const char *const DICTS[] = {"get",  "items",    "keys",        "values",  "copy",      "!clear",
                                    "!pop", "!popitem", "!setdefault", "!update", "?fromkeys", NULL};
static const char *const INTEGERS[] = {"?real",      "?imag",      "?numerator", "?denominator",      "?bit_length",
                                       "?bit_count", "?conjugate", "?to_bytes",  "?as_integer_ratio", "?from_bytes",
                                       "is_integer", NULL};
static const char *const FLOATS[] = {"?real",    "?imag", "?conjugate", "is_integer", "?as_integer_ratio",
                                     "?fromhex", "?hex",  NULL};
static const char *const RANGES[] = {"?start", "?stop", "?step", "?count", "?index", NULL};
static const char *const VIEWS[] = {"?mapping", "?isdisjoint", NULL};
static const char *const MACROS[] = {"?name", "?arguments", "?catch_kwargs", "?catch_varargs", "?caller", NULL};
static const char *const CYCLERS[] = {"next", "reset", "current", "?items", "?pos", NULL};
static const char *const JOINERS[] = {"?sep", "?used", NULL};
static const char *const NO_NAMES[] = {NULL};

static const char *const *names_of(tfm__jinja_value value) {
    switch (value.type) {
    case TFM__JINJA_STRING:
        return STRINGS;
    case TFM__JINJA_LIST:
        return LISTS;
    case TFM__JINJA_TUPLE:
        return TUPLES;
    case TFM__JINJA_DICT:
        return DICTS;
    case TFM__JINJA_BOOL:
    case TFM__JINJA_INT:
        return INTEGERS;
    case TFM__JINJA_FLOAT:
        return FLOATS;
    case TFM__JINJA_RANGE:
        return RANGES;
    case TFM__JINJA_VIEW:
        return VIEWS;
    case TFM__JINJA_MACRO:
        return MACROS;
    case TFM__JINJA_CYCLER:
        return CYCLERS;
    case TFM__JINJA_JOINER:
        return JOINERS;
    default:
        return NO_NAMES;
    }
}

static tfm__jinja_value unsafe(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_string *name) {
    return tfm__jinja_undefined(j, "access to attribute '%.*s' of '%s' object is unsafe", (int)name->bytes, name->data,
                                tfm__jinja_kind(value));
}

/* An attribute of a Python object: TFM__JINJA_MISSING if it has none. */
static tfm__jinja_value attribute(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_string *name) {
    const bool dunder =
        name->bytes > 4 && memcmp(name->data, "__", 2) == 0 && memcmp(name->data + name->bytes - 2, "__", 2) == 0;
    if (tfm__jinja_is(value, TFM__JINJA_NAMESPACE)) {
        const tfm__jinja_value key = {.type = TFM__JINJA_STRING, .string = name};
        const tfm__jinja_value *found = tfm__jinja_dict_find(j, value.dict, key);
        return found ? *found : tfm__jinja_of(TFM__JINJA_MISSING);
    }
    if (dunder)
        return unsafe(j, value, name);
    if (tfm__jinja_is(value, TFM__JINJA_LOOP))
        return tfm__jinja_loop_attribute(j, value, name);
    if (tfm__jinja_is(value, TFM__JINJA_TUPLE) && value.markup && value.list->count == 2) { /* of groupby */
        if (tfm__jinja_string_is(name, "grouper") || tfm__jinja_string_is(name, "list"))
            return value.list->items[tfm__jinja_string_is(name, "list")];
    }
    if (tfm__jinja_is(value, TFM__JINJA_CYCLER) && tfm__jinja_string_is(name, "current"))
        return value.object->self.list->items[value.object->index];
    for (const char *const *names = names_of(value); *names; names++) {
        const bool marked = **names == '!' || **names == '?';
        if (!tfm__jinja_string_is(name, *names + marked))
            continue;
        if (**names == '!')
            return unsafe(j, value, name);
        if (**names == '?')
            tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "the attribute `%s` of '%s' is not supported", *names + 1,
                            tfm__jinja_kind(value));
        return tfm__jinja_method(j, value, *names);
    }
    return tfm__jinja_of(TFM__JINJA_MISSING);
}

/* ---- Subscripts ------------------------------------------------------------------------------------------------ */

static bool position(tfm__jinja_value key, int64_t length, int64_t *at) {
    if (!tfm__jinja_is_integral(key))
        return false;
    *at = tfm__jinja_integral(key);
    *at += *at < 0 ? length : 0;
    return *at >= 0 && *at < length;
}

static tfm__jinja_value character(tfm__jinja *j, tfm__jinja_value value, int64_t at) {
    const size_t offset = tfm__jinja_offset(value.string, (size_t)at);
    tfm__jinja_step(j, tfm__jinja_is_ascii(value.string) ? 0 : offset / 64);
    return tfm__jinja_like(
        tfm__jinja_share(j, value.string->data + offset, tfm__char_bytes(value.string->data + offset)), value);
}

/* value[key]: TFM__JINJA_MISSING where Python raises a TypeError or LookupError. */
static tfm__jinja_value subscript(tfm__jinja *j, tfm__jinja_value value, tfm__jinja_value key) {
    int64_t at;
    if (tfm__jinja_is(key, TFM__JINJA_SLICE)) {
        const tfm__jinja_value *parts = key.list->items;
        return tfm__jinja_slice(j, value, parts[0], parts[1], parts[2]);
    }
    if (tfm__jinja_is(value, TFM__JINJA_DICT)) {
        const tfm__jinja_value *found = tfm__jinja_is_hashable(key) ? tfm__jinja_dict_find(j, value.dict, key) : NULL;
        return found ? *found : tfm__jinja_of(TFM__JINJA_MISSING);
    }
    if (!position(key, tfm__jinja_length(value), &at))
        return tfm__jinja_of(TFM__JINJA_MISSING);
    if (tfm__jinja_is(value, TFM__JINJA_STRING))
        return character(j, value, at);
    if (tfm__jinja_is_sequence(value))
        return value.list->items[at];
    if (tfm__jinja_is(value, TFM__JINJA_RANGE))
        return tfm__jinja_int(value.list->items[0].integer + at * value.list->items[2].integer);
    return tfm__jinja_of(TFM__JINJA_MISSING);
}

static tfm__jinja_value undefined(tfm__jinja *j, tfm__jinja_value value, tfm__jinja_value key) {
    if (tfm__jinja_is(key, TFM__JINJA_STRING))
        return tfm__jinja_undefined(j, "'%s object' has no attribute '%.*s'", tfm__jinja_kind(value),
                                    (int)key.string->bytes, key.string->data);
    return tfm__jinja_undefined(j, "%s object has no such element", tfm__jinja_kind(value));
}

tfm__jinja_value tfm__jinja_getattr(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_string *name) {
    if (j->status != TFM_OK)
        return value;
    const tfm__jinja_value key = {.type = TFM__JINJA_STRING, .string = name};
    if (tfm__jinja_is(value, TFM__JINJA_UNDEFINED))
        return tfm__jinja_error(j, "%s", value.why);
    tfm__jinja_value found = attribute(j, value, name);
    if (tfm__jinja_is(found, TFM__JINJA_MISSING) && tfm__jinja_is(value, TFM__JINJA_DICT))
        found = subscript(j, value, key);
    return tfm__jinja_is(found, TFM__JINJA_MISSING) ? undefined(j, value, key) : found;
}

tfm__jinja_value tfm__jinja_getitem(tfm__jinja *j, tfm__jinja_value value, tfm__jinja_value key) {
    if (j->status != TFM_OK)
        return value;
    if (tfm__jinja_is(value, TFM__JINJA_UNDEFINED))
        return tfm__jinja_error(j, "%s", value.why);
    tfm__jinja_value found = subscript(j, value, key);
    if (tfm__jinja_is(found, TFM__JINJA_MISSING) && tfm__jinja_is(key, TFM__JINJA_STRING))
        found = attribute(j, value, key.string);
    return tfm__jinja_is(found, TFM__JINJA_MISSING) ? undefined(j, value, key) : found;
}

/* One end of a slice, as in Python's slice.indices. */
static int64_t limit(tfm__jinja *j, tfm__jinja_value part, int64_t length, int64_t step, int64_t fallback) {
    if (tfm__jinja_is(part, TFM__JINJA_NONE))
        return fallback;
    if (!tfm__jinja_is_integral(part)) {
        tfm__jinja_error(j, "slice indices must be integers or None");
        return 0;
    }
    int64_t at = tfm__jinja_integral(part);
    if (at < 0)
        at = at < -length ? (step < 0 ? -1 : 0) : at + length;
    return at >= length ? (step < 0 ? length - 1 : length) : at;
}

static tfm__jinja_value slice_string(tfm__jinja *j, tfm__jinja_value value, int64_t from, int64_t to, int64_t step) {
    const tfm__jinja_string *string = value.string;
    tfm__jinja_writer out = {.j = j};
    if (step == 1) {
        const size_t begin = tfm__jinja_offset(string, (size_t)from),
                     end = tfm__jinja_offset(string, (size_t)(to > from ? to : from));
        tfm__jinja_step(j, tfm__jinja_is_ascii(string) ? 0 : end / 32);
        return tfm__jinja_share(j, string->data + begin, end - begin);
    }
    size_t *offsets = tfm__jinja_is_ascii(string) ? NULL : tfm__jinja_alloc(j, string->chars + 1, sizeof(*offsets));
    for (size_t at = 0, i = 0; offsets && at < string->bytes; at += tfm__char_bytes(string->data + at))
        offsets[i++] = at;
    for (int64_t i = from; j->status == TFM_OK && (step > 0 ? i < to : i > to);) {
        const char *at = string->data + (offsets ? offsets[i] : (size_t)i);
        tfm__jinja_write(&out, at, tfm__char_bytes(at));
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    return tfm__jinja_written(&out);
}

tfm__jinja_value tfm__jinja_slice(tfm__jinja *j, tfm__jinja_value value, tfm__jinja_value from, tfm__jinja_value to,
                                  tfm__jinja_value step) {
    if (j->status != TFM_OK)
        return value;
    const int64_t length = tfm__jinja_length(value);
    const int64_t by = tfm__jinja_is(step, TFM__JINJA_NONE) ? 1 : tfm__jinja_int_argument(j, step, 1);
    if (!tfm__jinja_is(value, TFM__JINJA_STRING) && !tfm__jinja_is_sequence(value) &&
        !tfm__jinja_is(value, TFM__JINJA_RANGE))
        return tfm__jinja_error(j, "'%s' object cannot be sliced", tfm__jinja_kind(value));
    if (by == 0)
        return tfm__jinja_error(j, "slice step cannot be zero");
    const int64_t begin = limit(j, from, length, by, by < 0 ? length - 1 : 0),
                  end = limit(j, to, length, by, by < 0 ? -1 : length);
    if (j->status != TFM_OK)
        return tfm__jinja_none();
    if (tfm__jinja_is(value, TFM__JINJA_STRING))
        return tfm__jinja_like(slice_string(j, value, begin, end, by), value);
    if (tfm__jinja_is(value, TFM__JINJA_RANGE)) {
        tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "a slice of a range is not supported: use its list");
        return tfm__jinja_none();
    }
    const tfm__jinja_value list = tfm__jinja_list_new(j, value.type, 0);
    for (int64_t i = begin; j->status == TFM_OK && (by > 0 ? i < end : i > end);) {
        tfm__jinja_list_add(j, list, value.list->items[i]);
        if (__builtin_add_overflow(i, by, &i))
            break;
    }
    return list;
}
