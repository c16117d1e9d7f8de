/* String and number literals of templates: the rules of jinja2's lexer and of Python's unicode-escape. */
#include <stdio.h>
#include "text/chat_template/jinja_lexer.h"

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* \xNN, \uNNNN and \UNNNNNNNN. */
static size_t write_hex(tfm__jinja_writer *out, const char *at, const char *end, int digits) {
    uint32_t c = 0;
    for (int i = 0; i < digits; i++) {
        const int digit = at + i < end ? hex_digit(at[i]) : -1;
        if (digit < 0) {
            tfm__jinja_fail(out->j, TFM_ERROR_FORMAT, "an escape sequence of a string needs %d hexadecimal digits",
                            digits);
            return 0;
        }
        c = c << 4 | (uint32_t)digit;
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        tfm__jinja_fail(out->j, TFM_ERROR_UNSUPPORTED, "the escape sequence of U+%04X in a string is no character", c);
    else if (c == 0)
        tfm__jinja_fail(out->j, TFM_ERROR_UNSUPPORTED, "NUL in a string is not supported");
    else
        tfm__jinja_write_char(out, (int32_t)c);
    return (size_t)digits;
}

static size_t write_octal(tfm__jinja_writer *out, const char *at, const char *end) {
    size_t digits = 0;
    int c = 0;
    while (digits < 3 && at + digits < end && at[digits] >= '0' && at[digits] <= '7')
        c = 8 * c + at[digits++] - '0';
    if (c == 0)
        tfm__jinja_fail(out->j, TFM_ERROR_UNSUPPORTED, "NUL in a string is not supported");
    tfm__jinja_write_char(out, c);
    return digits;
}

/* The escape sequence after a backslash; returns its bytes. */
static size_t write_escape(tfm__jinja_writer *out, const char *at, const char *end) {
    static const char codes[] = "n\nt\tr\r\\\\''\"\"a\ab\bf\fv\v";
    for (const char *code = codes; *code; code += 2)
        if (*code == *at) {
            tfm__jinja_write(out, code + 1, 1);
            return 1;
        }
    switch (*at) {
    case '\n':
        return 1;
    case 'x':
        return 1 + write_hex(out, at + 1, end, 2);
    case 'u':
        return 1 + write_hex(out, at + 1, end, 4);
    case 'U':
        return 1 + write_hex(out, at + 1, end, 8);
    case 'N':
        tfm__jinja_fail(out->j, TFM_ERROR_UNSUPPORTED, "\\N in a string is not supported");
        return 1;
    default:
        break;
    }
    if (*at >= '0' && *at <= '7')
        return write_octal(out, at, end);
    tfm__jinja_write(out, "\\", 1);
    if ((unsigned char)*at < 0x80) {
        tfm__jinja_write(out, at, 1);
        return 1;
    }
    size_t bytes = 0; /* jinja2 writes other characters as escape sequences first: their backslash is the escaped one */
    const uint32_t c = (uint32_t)tfm__char_next(at, &bytes);
    char code[12];
    snprintf(code, sizeof(code), c < 0x100 ? "x%02x" : c < 0x10000 ? "u%04x" : "U%08x", c);
    tfm__jinja_write_text(out, code);
    return bytes;
}

tfm__jinja_value tfm__jinja_literal_string(tfm__jinja *j, const char *text, size_t bytes) {
    const char *const end = text + bytes;
    tfm__jinja_writer out = {.j = j};
    if (!memchr(text, '\\', bytes))
        return tfm__jinja_share(j, text, bytes);
    while (text < end && j->status == TFM_OK) {
        const char *stop = memchr(text, '\\', (size_t)(end - text));
        stop = stop ? stop : end;
        tfm__jinja_write(&out, text, (size_t)(stop - text));
        text = stop;
        if (text + 1 < end)
            text += 1 + write_escape(&out, text + 1, end);
    }
    return tfm__jinja_written(&out);
}

/* The bytes of digits of a base with single underscores between them; `first` may be an underscore. */
static size_t digits_of(const char *text, size_t bytes, int base, bool underscore) {
    size_t at = 0;
    while (at < bytes) {
        const size_t skip = (at > 0 || underscore) && text[at] == '_' ? 1 : 0;
        if (at + skip >= bytes || hex_digit(text[at + skip]) < 0 || hex_digit(text[at + skip]) >= base)
            break;
        at += skip + 1;
    }
    return at;
}

/* The bytes of a float literal: digits with a fraction, an exponent or both. */
static size_t float_bytes(const char *text, size_t bytes) {
    const size_t whole = digits_of(text, bytes, 10, false);
    size_t at = whole;
    if (!whole)
        return 0;
    if (at < bytes && text[at] == '.') {
        const size_t fraction = digits_of(text + at + 1, bytes - at - 1, 10, false);
        at += fraction ? 1 + fraction : 0;
    }
    if (at < bytes && (text[at] == 'e' || text[at] == 'E')) {
        const size_t sign = at + 1 < bytes && (text[at + 1] == '+' || text[at + 1] == '-') ? 1 : 0;
        const size_t exponent = digits_of(text + at + 1 + sign, bytes - at - 1 - sign, 10, false);
        at += exponent ? 1 + sign + exponent : 0;
    }
    return at > whole ? at : 0;
}

static size_t integer_bytes(const char *text, size_t bytes, int *base) {
    static const char letters[] = "bBoOxX";
    static const int bases[] = {2, 8, 16};
    const char *letter = bytes > 1 && *text == '0' && text[1] ? strchr(letters, text[1]) : NULL;
    *base = 10;
    if (letter) {
        const size_t digits = digits_of(text + 2, bytes - 2, bases[(letter - letters) / 2], true);
        if (digits) {
            *base = bases[(letter - letters) / 2];
            return 2 + digits;
        }
    }
    if (*text == '0')
        return digits_of(text, bytes, 1, false);
    return digits_of(text, bytes, 10, false);
}

size_t tfm__jinja_literal_number(tfm__jinja *j, tfm__jinja_value *value, const char *text, size_t bytes,
                                 bool after_dot) {
    char copy[400];
    size_t count = 0;
    int base = 10;
    size_t used = after_dot ? 0 : float_bytes(text, bytes);
    const bool real = used > 0;
    if (!real)
        used = integer_bytes(text, bytes, &base);
    for (size_t i = base == 10 ? 0 : 2; i < used && count + 1 < sizeof(copy); i++)
        if (text[i] != '_')
            copy[count++] = text[i];
    copy[count] = 0;
    if (used >= sizeof(copy)) {
        tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "a number has %zu digits", used);
    } else if (real) {
        *value = tfm__jinja_float(strtod(copy, NULL));
    } else if (used) {
        int64_t number = 0;
        for (size_t i = 0; i < count; i++)
            if (__builtin_mul_overflow(number, base, &number) ||
                __builtin_add_overflow(number, hex_digit(copy[i]), &number)) {
                tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "the integer %s exceeds 64 bits", copy);
                break;
            }
        *value = tfm__jinja_int(number);
    }
    return used;
}
