#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include "text/chat_template/jinja_format.h"
#include "text/chat_template/jinja_repr.h"

int64_t tfm__jinja_read_digits(tfm__jinja *j, const char **at, const char *end) {
    int64_t number = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        number = 10 * number + **at - '0';
        if (number > 1000000) {
            tfm__jinja_error(j, "a width or precision exceeds 1000000");
            return 0;
        }
    }
    return number;
}

void tfm__jinja_write_padded(tfm__jinja_writer *out, tfm__jinja_value text, const tfm__jinja_spec *spec, char align,
                             size_t prefix) {
    if (out->j->status != TFM_OK)
        return;
    const int64_t missing = spec->width - (int64_t)text.string->chars;
    const int64_t left = missing <= 0 ? 0 : align == '>' || align == '=' ? missing : align == '^' ? missing / 2 : 0;
    if (align == '=')
        tfm__jinja_write(out, text.string->data, prefix);
    else
        prefix = 0;
    for (int64_t i = 0; i < left && out->j->status == TFM_OK; i++)
        tfm__jinja_write_char(out, spec->fill);
    tfm__jinja_write(out, text.string->data + prefix, text.string->bytes - prefix);
    for (int64_t i = left; i < missing && out->j->status == TFM_OK; i++)
        tfm__jinja_write_char(out, spec->fill);
}

/* Digits in groups of three: 1,234,567.5. `digits` are those before the point. */
static void write_grouped(tfm__jinja_writer *out, const char *text, size_t digits, char separator) {
    for (size_t i = 0; i < digits; i++) {
        if (i && (digits - i) % 3 == 0)
            tfm__jinja_write(out, &separator, 1);
        tfm__jinja_write(out, text + i, 1);
    }
    tfm__jinja_write_text(out, text + digits);
}

/* A sign and a number's text, padded. */
static void write_signed(tfm__jinja_writer *out, const char *digits, const char *prefix, bool negative,
                         const tfm__jinja_spec *spec) {
    tfm__jinja_writer text = {.j = out->j};
    tfm__jinja_write_text(&text, negative ? "-" : spec->sign == '+' ? "+" : spec->sign == ' ' ? " " : "");
    tfm__jinja_write_text(&text, prefix);
    const size_t signs = text.bytes;
    if (spec->grouping)
        write_grouped(&text, digits, strspn(digits, "0123456789"), spec->grouping);
    else
        tfm__jinja_write_text(&text, digits);
    tfm__jinja_spec padded = *spec;
    if (spec->zero && !spec->align)
        padded.fill = '0';
    if (padded.fill == '0' && spec->grouping && spec->width)
        tfm__jinja_fail(out->j, TFM_ERROR_UNSUPPORTED, "a format with zeros and separators is not supported");
    tfm__jinja_write_padded(out, tfm__jinja_written(&text), &padded,
                            spec->align  ? spec->align
                            : spec->zero ? '='
                                         : '>',
                            signs);
}

static void write_integer(tfm__jinja_writer *out, int64_t value, const tfm__jinja_spec *spec) {
    char digits[80], *at = digits + sizeof(digits) - 1;
    const char type = spec->type ? spec->type : 'd';
    const unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    const char prefix[3] = {'0', type, 0};
    *at = 0;
    do {
        *--at = (type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[rest % base];
        rest /= base;
    } while (rest);
    if (spec->precision >= 0)
        tfm__jinja_error(out->j, "Precision not allowed in integer format specifier");
    if (spec->grouping && base != 10)
        tfm__jinja_fail(out->j, TFM_ERROR_UNSUPPORTED, "separators in base %u are not supported", base);
    write_signed(out, at, spec->alternate && base != 10 ? prefix : "", value < 0, spec);
}

static void write_real(tfm__jinja_writer *out, double value, const tfm__jinja_spec *spec) {
    char format[16], short_text[TFM__JINJA_FLOAT_TEXT];
    const char *letters = strchr("eEfFgG", spec->type ? spec->type : 'f');
    const double shown = fabs(spec->type == '%' ? value * 100 : value);
    const int precision = spec->precision >= 0 ? (int)spec->precision : 6;
    if (spec->type == 0 && spec->precision >= 0) {
        tfm__jinja_fail(out->j, TFM_ERROR_UNSUPPORTED, "a precision without a type in a format is not supported");
        return;
    }
    if (spec->type == 0) {
        write_signed(out, tfm__jinja_float_text(short_text, shown), "", signbit(value) && !isnan(value), spec);
        return;
    }
    snprintf(format, sizeof(format), spec->alternate ? "%%#.*%c" : "%%.*%c",
             letters && spec->type != '%' ? *letters : 'f');
    const size_t bytes = (size_t)precision + 400;
    char *text = tfm__jinja_alloc(out->j, bytes, 1);
    if (!text)
        return;
        /* The format was made from one of six letters above. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, bytes - 1, format, precision, shown);
#pragma GCC diagnostic pop
    if (spec->type == '%')
        strcat(text, "%");
    write_signed(out, text, "", signbit(value) && !isnan(value), spec);
}

static void write_text_spec(tfm__jinja_writer *out, tfm__jinja_value text, const tfm__jinja_spec *spec) {
    const tfm__jinja_string *string = text.string;
    if (spec->precision >= 0 && (size_t)spec->precision < string->chars)
        text = tfm__jinja_share(out->j, string->data, tfm__jinja_offset(string, (size_t)spec->precision));
    tfm__jinja_spec padded = *spec;
    if (spec->zero && !spec->align)
        padded.fill = '0';
    tfm__jinja_write_padded(out, text, &padded, spec->align ? spec->align : '<', 0);
}

void tfm__jinja_write_spec(tfm__jinja_writer *out, tfm__jinja_value value, const tfm__jinja_spec *spec) {
    const bool real = spec->type && strchr("eEfFgG%", spec->type);
    if (tfm__jinja_is(value, TFM__JINJA_STRING) && (!spec->type || spec->type == 's'))
        write_text_spec(out, value, spec);
    else if (tfm__jinja_is_number(value) && (real || (tfm__jinja_is(value, TFM__JINJA_FLOAT) && !spec->type)))
        write_real(out, tfm__jinja_real(value), spec);
    else if (tfm__jinja_is_integral(value) && (!spec->type || strchr("dboxX", spec->type)))
        write_integer(out, tfm__jinja_integral(value), spec);
    else if (spec->type && strchr("cn", spec->type))
        tfm__jinja_fail(out->j, TFM_ERROR_UNSUPPORTED, "the format type '%c' is not supported", spec->type);
    else
        tfm__jinja_error(out->j, "a format specification is not valid for '%s'", tfm__jinja_kind(value));
}

/* [[fill]align][sign][#][0][width][grouping][.precision][type] */
static tfm__jinja_spec read_spec(tfm__jinja *j, const char *at, const char *end) {
    tfm__jinja_spec spec = {.fill = ' ', .precision = -1};
    size_t first = 0;
    const int32_t fill = at < end ? tfm__char_next(at, &first) : 0;
    if (at + first < end && strchr("<>=^", at[first])) {
        spec.fill = fill;
        at += first;
    }
    if (at < end && strchr("<>=^", *at))
        spec.align = *at++;
    if (at < end && strchr("+- ", *at))
        spec.sign = *at++;
    if (at < end && *at == '#')
        spec.alternate = *at++ == '#';
    if (at < end && *at == '0')
        spec.zero = *at++ == '0';
    spec.width = tfm__jinja_read_digits(j, &at, end);
    if (at < end && strchr(",_", *at))
        spec.grouping = *at++;
    if (at < end && *at == '.') {
        at++;
        if (at == end || *at < '0' || *at > '9')
            tfm__jinja_error(j, "Format specifier missing precision");
        spec.precision = tfm__jinja_read_digits(j, &at, end);
    }
    if (at < end)
        spec.type = *at++;
    if (at < end || (unsigned char)spec.type >= 0x80)
        tfm__jinja_error(j, "Invalid format specifier");
    return spec;
}

void tfm__jinja_write_format(tfm__jinja_writer *out, tfm__jinja_value value, const char *text, const char *end) {
    if (text == end) {
        tfm__jinja_write_str(out, value);
        return;
    }
    const tfm__jinja_spec spec = read_spec(out->j, text, end);
    if (out->j->status != TFM_OK)
        return;
    if (tfm__jinja_is(value, TFM__JINJA_BOOL) && !spec.type)
        tfm__jinja_fail(out->j, TFM_ERROR_UNSUPPORTED, "a format of a boolean without a type is not supported");
    tfm__jinja_write_spec(out, value, &spec);
}
