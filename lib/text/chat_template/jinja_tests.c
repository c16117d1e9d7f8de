/* Tests: `value is name`. */
#include "text/chat_template/jinja_case.h"
#include "text/chat_template/jinja_dict.h"
#include "text/chat_template/jinja_filters.h"
#include "text/chat_template/jinja_object.h"
#include "text/chat_template/jinja_repr.h"

/* Tests without arguments. */
typedef enum plain_test {
    NO_TEST,
    DEFINED,
    UNDEFINED,
    NONE,
    BOOLEAN,
    FALSE_TEST,
    TRUE_TEST,
    INTEGER,
    FLOAT,
    LOWER,
    UPPER,
    STRING,
    MAPPING,
    NUMBER,
    SEQUENCE,
    ITERABLE,
    CALLABLE,
    ESCAPED,
    ODD,
    EVEN,
    IS_FILTER,
    IS_TEST
} plain_test;

static plain_test plain_named(const tfm__jinja_string *name) {
    static const char *const names[] = {[DEFINED] = "defined",   [UNDEFINED] = "undefined", [NONE] = "none",
                                        [BOOLEAN] = "boolean",   [FALSE_TEST] = "false",    [TRUE_TEST] = "true",
                                        [INTEGER] = "integer",   [FLOAT] = "float",         [LOWER] = "lower",
                                        [UPPER] = "upper",       [STRING] = "string",       [MAPPING] = "mapping",
                                        [NUMBER] = "number",     [SEQUENCE] = "sequence",   [ITERABLE] = "iterable",
                                        [CALLABLE] = "callable", [ESCAPED] = "escaped",     [ODD] = "odd",
                                        [EVEN] = "even",         [IS_FILTER] = "filter",    [IS_TEST] = "test"};
    for (size_t i = 1; i < TFM__COUNT(names); i++)
        if (tfm__jinja_string_is(name, names[i]))
            return (plain_test)i;
    return NO_TEST;
}

/* Tests with one argument. */
static const char *const BINARY[] = {"==", "eq", "equalto", "!=",       "ne", ">",  "gt", "greaterthan", ">=",
                                     "ge", "<",  "lt",      "lessthan", "<=", "le", "in", "sameas",      "divisibleby"};

static bool is_binary(const tfm__jinja_string *name) {
    for (size_t i = 0; i < TFM__COUNT(BINARY); i++)
        if (tfm__jinja_string_is(name, BINARY[i]))
            return true;
    return false;
}

bool tfm__jinja_has_test(const tfm__jinja_string *name) {
    return plain_named(name) != NO_TEST || is_binary(name);
}

/* value % by == rest. */
static bool has_rest(tfm__jinja *j, tfm__jinja_value value, tfm__jinja_value by, int64_t rest) {
    static const tfm__jinja_string percent = {"%", 1, 1};
    const tfm__jinja_value left = tfm__jinja_binary(j, &percent, value, by);
    return j->status == TFM_OK && tfm__jinja_equal(j, left, tfm__jinja_int(rest));
}

static bool has_case(tfm__jinja *j, tfm__jinja_value value, const char *test) {
    bool known;
    const tfm__jinja_value text = tfm__jinja_str(j, value);
    return j->status == TFM_OK && tfm__jinja_string_test(text.string, test, &known);
}

static bool is_callable(tfm__jinja_value value) {
    return tfm__jinja_is(value, TFM__JINJA_MACRO) || tfm__jinja_is(value, TFM__JINJA_FUNCTION) ||
           tfm__jinja_is(value, TFM__JINJA_METHOD) || tfm__jinja_is(value, TFM__JINJA_JOINER) ||
           tfm__jinja_is(value, TFM__JINJA_LOOP) || tfm__jinja_is(value, TFM__JINJA_UNDEFINED);
}

static bool plain(tfm__jinja *j, plain_test test, tfm__jinja_value value) {
    switch (test) {
    case DEFINED:
    case UNDEFINED:
        return tfm__jinja_is(value, TFM__JINJA_UNDEFINED) == (test == UNDEFINED);
    case NONE:
        return tfm__jinja_is(value, TFM__JINJA_NONE);
    case BOOLEAN:
        return tfm__jinja_is(value, TFM__JINJA_BOOL);
    case FALSE_TEST:
    case TRUE_TEST:
        return tfm__jinja_is(value, TFM__JINJA_BOOL) && value.flag == (test == TRUE_TEST);
    case INTEGER:
        return tfm__jinja_is(value, TFM__JINJA_INT);
    case FLOAT:
        return tfm__jinja_is(value, TFM__JINJA_FLOAT);
    case LOWER:
        return has_case(j, value, "islower");
    case UPPER:
        return has_case(j, value, "isupper");
    case STRING:
        return tfm__jinja_is(value, TFM__JINJA_STRING);
    case MAPPING:
        return tfm__jinja_is(value, TFM__JINJA_DICT);
    case NUMBER:
        return tfm__jinja_is_number(value);
    case SEQUENCE: /* it has a length and subscripts; undefined has both */
        return tfm__jinja_length(value) >= 0 && !tfm__jinja_is(value, TFM__JINJA_VIEW);
    case ITERABLE:
        return tfm__jinja_is_iterable(value);
    case CALLABLE:
        return is_callable(value);
    case ESCAPED:
        return tfm__jinja_is(value, TFM__JINJA_STRING) && value.markup;
    case ODD:
    case EVEN:
        return has_rest(j, value, tfm__jinja_int(2), test == ODD);
    case IS_FILTER:
        return tfm__jinja_is(value, TFM__JINJA_STRING) && tfm__jinja_has_filter(value.string);
    default:
        return tfm__jinja_is(value, TFM__JINJA_STRING) && tfm__jinja_has_test(value.string);
    }
}

static bool binary(tfm__jinja *j, const tfm__jinja_string *name, tfm__jinja_value value, tfm__jinja_value other) {
    const char first = *name->data, last = name->data[name->bytes - 1];
    if (tfm__jinja_string_is(name, "in"))
        return tfm__jinja_contains(j, other, value);
    if (tfm__jinja_string_is(name, "sameas"))
        return tfm__jinja_same(value, other);
    if (first == 'd')
        return has_rest(j, value, other, 0);
    if (first == '=' || tfm__jinja_string_is(name, "eq") || tfm__jinja_string_is(name, "equalto"))
        return tfm__jinja_equal(j, value, other);
    if (first == '!' || tfm__jinja_string_is(name, "ne"))
        return !tfm__jinja_equal(j, value, other);
    const bool greater = first == '>' || first == 'g';
    const bool or_equal = name->bytes == 2 && (last == '=' || last == 'e');
    const int order = tfm__jinja_compare(j, value, other, greater ? (or_equal ? ">=" : ">") : or_equal ? "<=" : "<");
    return j->status == TFM_OK && ((or_equal && order == 0) || order == (greater ? 1 : -1));
}

bool tfm__jinja_call_test(tfm__jinja *j, const tfm__jinja_string *name, tfm__jinja_value value,
                          const tfm__jinja_args *args) {
    const plain_test test = plain_named(name);
    if (!tfm__jinja_step(j, 0))
        return false;
    if (args->named)
        tfm__jinja_error(j, "a test takes no keyword arguments here");
    else if (test == NO_TEST && !is_binary(name))
        tfm__jinja_fail(j, TFM_ERROR_FORMAT, "there is no test named `%.*s`", (int)name->bytes, name->data);
    else if (args->count != (test == NO_TEST))
        tfm__jinja_error(j, "the test `%.*s` has %zu arguments", (int)name->bytes, name->data, args->count);
    if (j->status != TFM_OK)
        return false;
    return test != NO_TEST ? plain(j, test, value) : binary(j, name, value, args->items[0]);
}
