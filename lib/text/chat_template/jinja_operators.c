/* Arithmetic of Python: exact 64-bit integers, floats, strings and lists. */
#include <limits.h>
#include <math.h>
#include "text/chat_template/jinja_dict.h"
#include "text/chat_template/jinja_format.h"
#include "text/chat_template/jinja_object.h"
#include "text/chat_template/jinja_repr.h"

static tfm__jinja_value overflow(tfm__jinja *j) {
    tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "an integer exceeds 64 bits");
    return tfm__jinja_none();
}

static tfm__jinja_value wrong(tfm__jinja *j, const char *op, tfm__jinja_value a, tfm__jinja_value b) {
    return tfm__jinja_error(j, "unsupported operand type(s) for %s: '%s' and '%s'", op, tfm__jinja_kind(a),
                            tfm__jinja_kind(b));
}

/* floor(a / b) for b != 0. */
static int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static tfm__jinja_value integer_power(tfm__jinja *j, int64_t base, int64_t exponent) {
    int64_t out = 1;
    if (exponent < 0)
        return base == 0 ? tfm__jinja_error(j, "0 cannot be raised to a negative power")
                         : tfm__jinja_float(pow((double)base, (double)exponent));
    if (base == 0 || base == 1 || base == -1)
        return tfm__jinja_int(exponent == 0 ? 1 : base == -1 && exponent % 2 == 0 ? 1 : base);
    for (; exponent > 0; exponent--)
        if (__builtin_mul_overflow(out, base, &out))
            return overflow(j);
    return tfm__jinja_int(out);
}

static tfm__jinja_value integers(tfm__jinja *j, char op, int64_t a, int64_t b) {
    int64_t out = 0;
    bool exceeds = false;
    switch (op) {
    case '+':
        exceeds = __builtin_add_overflow(a, b, &out);
        break;
    case '-':
        exceeds = __builtin_sub_overflow(a, b, &out);
        break;
    case '*':
        exceeds = __builtin_mul_overflow(a, b, &out);
        break;
    case 'f':
    case '%':
        if (b == 0)
            return tfm__jinja_error(j, "integer division or modulo by zero");
        if (b == -1) /* INT64_MIN / -1 */
            exceeds = op == 'f' && __builtin_sub_overflow((int64_t)0, a, &out);
        else
            out = op == 'f' ? floor_div(a, b) : a - floor_div(a, b) * b;
        break;
    case '/':
        return b == 0 ? tfm__jinja_error(j, "division by zero") : tfm__jinja_float((double)a / (double)b);
    default:
        return integer_power(j, a, b);
    }
    return exceeds ? overflow(j) : tfm__jinja_int(out);
}

/* Python's float % and //, with the sign of the divisor. */
static tfm__jinja_value real_div(double a, double b, bool floored) {
    double rest = fmod(a, b), whole = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) {
        rest += b;
        whole -= 1;
    } else if (rest == 0) {
        rest = copysign(0, b);
    }
    double down = floor(whole);
    down += whole - down > 0.5 ? 1 : 0;
    return tfm__jinja_float(!floored ? rest : whole != 0 ? down : copysign(0, a / b));
}

static tfm__jinja_value reals(tfm__jinja *j, char op, double a, double b) {
    if (b == 0 && (op == '/' || op == 'f' || op == '%'))
        return tfm__jinja_error(j, "float division by zero");
    switch (op) {
    case '+':
        return tfm__jinja_float(a + b);
    case '-':
        return tfm__jinja_float(a - b);
    case '*':
        return tfm__jinja_float(a * b);
    case '/':
        return tfm__jinja_float(a / b);
    case 'f':
    case '%':
        return real_div(a, b, op == 'f');
    default:
        if (a == 0 && b < 0)
            return tfm__jinja_error(j, "0.0 cannot be raised to a negative power");
        if (a < 0 && b != floor(b)) {
            tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "complex numbers are not supported");
            return tfm__jinja_none();
        }
        if (isfinite(a) && isfinite(b) && isinf(pow(a, b)))
            return tfm__jinja_error(j, "numerical result out of range");
        return tfm__jinja_float(pow(a, b));
    }
}

static tfm__jinja_value concatenate(tfm__jinja *j, tfm__jinja_value a, tfm__jinja_value b) {
    tfm__jinja_writer out = {.j = j};
    if (a.markup || b.markup) {
        a = tfm__jinja_escape(j, a);
        b = tfm__jinja_escape(j, b);
    }
    if (j->status != TFM_OK)
        return a;
    tfm__jinja_write_string(&out, a.string);
    tfm__jinja_write_string(&out, b.string);
    return tfm__jinja_like(tfm__jinja_written(&out), a);
}

static tfm__jinja_value join_lists(tfm__jinja *j, tfm__jinja_value a, tfm__jinja_value b) {
    const tfm__jinja_value list = tfm__jinja_list_new(j, a.type, a.list->count + b.list->count);
    for (size_t i = 0; i < a.list->count && j->status == TFM_OK; i++)
        tfm__jinja_list_add(j, list, a.list->items[i]);
    for (size_t i = 0; i < b.list->count && j->status == TFM_OK; i++)
        tfm__jinja_list_add(j, list, b.list->items[i]);
    return list;
}

static tfm__jinja_value repeat(tfm__jinja *j, tfm__jinja_value value, int64_t times) {
    tfm__jinja_writer out = {.j = j};
    if (tfm__jinja_is(value, TFM__JINJA_STRING)) {
        for (int64_t i = 0; i < times && value.string->bytes && tfm__jinja_step(j, 0); i++)
            tfm__jinja_write_string(&out, value.string);
        return tfm__jinja_like(tfm__jinja_written(&out), value);
    }
    const tfm__jinja_value list = tfm__jinja_list_new(j, value.type, 0);
    for (int64_t i = 0; i < times && value.list->count && tfm__jinja_step(j, 0); i++)
        for (size_t k = 0; k < value.list->count && j->status == TFM_OK; k++)
            tfm__jinja_list_add(j, list, value.list->items[k]);
    return list;
}

static bool is_repeatable(tfm__jinja_value value) {
    return tfm__jinja_is(value, TFM__JINJA_STRING) || tfm__jinja_is_sequence(value);
}

tfm__jinja_value tfm__jinja_binary(tfm__jinja *j, const tfm__jinja_string *name, tfm__jinja_value a,
                                   tfm__jinja_value b) {
    const char op = name->bytes == 2 ? (*name->data == '/' ? 'f' : 'p') : *name->data;
    char text[3] = {name->data[0], name->bytes == 2 ? name->data[1] : 0, 0};
    if (j->status != TFM_OK)
        return tfm__jinja_none();
    if (op == '%' && tfm__jinja_is(a, TFM__JINJA_STRING))
        return tfm__jinja_percent(j, a, b);
    if (tfm__jinja_is(a, TFM__JINJA_UNDEFINED) || tfm__jinja_is(b, TFM__JINJA_UNDEFINED))
        return tfm__jinja_error(j, "%s", tfm__jinja_is(a, TFM__JINJA_UNDEFINED) ? a.why : b.why);
    if (tfm__jinja_is_integral(a) && tfm__jinja_is_integral(b))
        return integers(j, op, tfm__jinja_integral(a), tfm__jinja_integral(b));
    if (tfm__jinja_is_number(a) && tfm__jinja_is_number(b))
        return reals(j, op, tfm__jinja_real(a), tfm__jinja_real(b));
    if (op == '+' && tfm__jinja_is(a, TFM__JINJA_STRING) && tfm__jinja_is(b, TFM__JINJA_STRING))
        return concatenate(j, a, b);
    if (op == '+' && tfm__jinja_is_sequence(a) && a.type == b.type)
        return join_lists(j, a, b);
    if (op == '*' && is_repeatable(a) && tfm__jinja_is_integral(b))
        return repeat(j, a, tfm__jinja_integral(b));
    if (op == '*' && is_repeatable(b) && tfm__jinja_is_integral(a))
        return repeat(j, b, tfm__jinja_integral(a));
    if (tfm__jinja_is(a, TFM__JINJA_VIEW) || tfm__jinja_is(b, TFM__JINJA_VIEW) ||
        (tfm__jinja_is(a, TFM__JINJA_DICT) && tfm__jinja_is(b, TFM__JINJA_DICT)))
        tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "the operator %s of dicts is not supported", text);
    return wrong(j, text, a, b);
}

tfm__jinja_value tfm__jinja_negative(tfm__jinja *j, tfm__jinja_value value, bool negative) {
    if (j->status != TFM_OK)
        return value;
    if (tfm__jinja_is(value, TFM__JINJA_UNDEFINED))
        return tfm__jinja_error(j, "%s", value.why);
    if (tfm__jinja_is(value, TFM__JINJA_FLOAT))
        return tfm__jinja_float(negative ? -value.real : value.real);
    if (tfm__jinja_is_integral(value))
        return negative ? integers(j, '-', 0, tfm__jinja_integral(value)) : tfm__jinja_int(tfm__jinja_integral(value));
    return tfm__jinja_error(j, "bad operand type for unary %c: '%s'", negative ? '-' : '+', tfm__jinja_kind(value));
}
