#include "text/chat_template/jinja_format.h"
#include "text/chat_template/jinja_dict.h"
#include "text/chat_template/jinja_object.h"
#include "text/chat_template/jinja_repr.h"

/* ---- The operator % -------------------------------------------------------------------------------------------- */

typedef struct percent {
    tfm__jinja_writer out;
    const char *at, *end;
    tfm__jinja_value values;
    size_t used;
} percent;

static tfm__jinja_value next_value(percent *p) {
    const bool tuple = tfm__jinja_is(p->values, TFM__JINJA_TUPLE);
    if (p->used >= (tuple ? p->values.list->count : 1))
        return tfm__jinja_error(p->out.j, "not enough arguments for format string");
    return tuple ? p->values.list->items[p->used++] : (p->used++, p->values);
}

/* A key in parentheses: the value comes from a dict. */
static tfm__jinja_value keyed_value(percent *p) {
    tfm__jinja *j = p->out.j;
    const char *stop = memchr(p->at, ')', (size_t)(p->end - p->at));
    if (!stop || !tfm__jinja_is(p->values, TFM__JINJA_DICT))
        return tfm__jinja_error(j, stop ? "format requires a mapping" : "incomplete format key");
    const tfm__jinja_value key = tfm__jinja_share(j, p->at + 1, (size_t)(stop - p->at - 1));
    const tfm__jinja_value *found = j->status == TFM_OK ? tfm__jinja_dict_find(j, p->values.dict, key) : NULL;
    p->at = stop + 1;
    p->used = 1;
    return found ? *found : tfm__jinja_error(j, "the format names a key that is not in the dict");
}

static int64_t star_or_digits(percent *p) {
    if (p->at < p->end && *p->at == '*') {
        p->at++;
        return tfm__jinja_int_argument(p->out.j, next_value(p), 0);
    }
    return tfm__jinja_read_digits(p->out.j, &p->at, p->end);
}

static void write_converted(percent *p, tfm__jinja_value value, tfm__jinja_spec *spec) {
    tfm__jinja *j = p->out.j;
    if (strchr("sra", spec->type)) {
        if (spec->type == 'a')
            tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "the conversion %%a is not supported");
        value = spec->type == 's' ? tfm__jinja_str(j, value) : tfm__jinja_repr(j, value);
        spec->type = 0;
        spec->zero = false;
        spec->align = spec->align ? spec->align : '>';
    } else if (strchr("diu", spec->type)) {
        if (tfm__jinja_is(value, TFM__JINJA_FLOAT) && value.real > -0x1p62 && value.real < 0x1p62)
            value = tfm__jinja_int((int64_t)value.real);
        if (!tfm__jinja_is_integral(value))
            tfm__jinja_error(j, "%%%c format: a real number is required, not %s", spec->type, tfm__jinja_kind(value));
        spec->type = 'd';
    }
    if (j->status == TFM_OK && spec->precision >= 0 && strchr("dxXo", spec->type) && spec->type)
        tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "a precision of an integer in a format is not supported");
    if (j->status == TFM_OK)
        tfm__jinja_write_spec(&p->out, value, spec);
}

/* One conversion, after its percent sign. */
static void convert(percent *p) {
    tfm__jinja *j = p->out.j;
    tfm__jinja_spec spec = {.fill = ' ', .precision = -1};
    const bool keyed = p->at < p->end && *p->at == '(';
    tfm__jinja_value value = keyed ? keyed_value(p) : tfm__jinja_none();
    for (; p->at < p->end && strchr("-+ #0", *p->at); p->at++) {
        spec.align = *p->at == '-' ? '<' : spec.align;
        spec.sign = *p->at == '+' || (*p->at == ' ' && !spec.sign) ? *p->at : spec.sign;
        spec.alternate |= *p->at == '#';
        spec.zero |= *p->at == '0';
    }
    spec.width = star_or_digits(p);
    if (spec.width < 0) {
        spec.align = '<';
        spec.width = -spec.width;
    }
    if (p->at < p->end && *p->at == '.') {
        p->at++;
        spec.precision = star_or_digits(p);
    }
    if (p->at < p->end && strchr("hlL", *p->at))
        p->at++;
    if (p->at >= p->end) {
        tfm__jinja_error(j, "incomplete format");
        return;
    }
    spec.type = *p->at++;
    if (spec.type == '%') {
        tfm__jinja_write(&p->out, "%", 1);
        return;
    }
    if (!strchr("sradiuoxXeEfFgG", spec.type)) {
        tfm__jinja_error(j, "unsupported format character");
        return;
    }
    if (!keyed)
        value = next_value(p);
    if (j->status == TFM_OK)
        write_converted(p, value, &spec);
}

tfm__jinja_value tfm__jinja_percent(tfm__jinja *j, tfm__jinja_value format, tfm__jinja_value values) {
    if (j->status != TFM_OK)
        return format;
    percent p = {.out = {.j = j},
                 .at = format.string->data,
                 .end = format.string->data + format.string->bytes,
                 .values = values};
    if (format.markup) {
        tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "%% with a string of `safe` is not supported");
        return format;
    }
    while (p.at < p.end && j->status == TFM_OK) {
        const char *mark = memchr(p.at, '%', (size_t)(p.end - p.at));
        const char *stop = mark ? mark : p.end;
        tfm__jinja_write(&p.out, p.at, (size_t)(stop - p.at));
        p.at = stop + (mark != NULL);
        if (mark)
            convert(&p);
    }
    /* Python does not count values of types with subscripts. */
    const bool subscripts = tfm__jinja_is(values, TFM__JINJA_DICT) || tfm__jinja_is(values, TFM__JINJA_LIST) ||
                            tfm__jinja_is(values, TFM__JINJA_UNDEFINED) || tfm__jinja_is(values, TFM__JINJA_RANGE);
    const bool many = tfm__jinja_is(values, TFM__JINJA_TUPLE) ? p.used < values.list->count : !p.used && !subscripts;
    if (many)
        tfm__jinja_error(j, "not all arguments converted during string formatting");
    return tfm__jinja_written(&p.out);
}

/* ---- str.format ------------------------------------------------------------------------------------------------ */

typedef struct fields {
    tfm__jinja_writer *out;
    const tfm__jinja_args *args;
    int64_t next; /* number of the next field without a name; -1: fields are numbered */
    int depth;
} fields;

static void write_fields(fields *f, tfm__jinja_writer *out, const char *at, const char *end);

static bool all_digits(const char *at, const char *end) {
    for (; at < end; at++)
        if (*at < '0' || *at > '9')
            return false;
    return true;
}

/* The argument that a field begins with. */
static tfm__jinja_value first_value(fields *f, const char *at, const char *end) {
    tfm__jinja *j = f->out->j;
    if (all_digits(at, end)) {
        int64_t index = f->next;
        if (at == end && f->next >= 0) {
            f->next++;
        } else if (at < end && f->next <= 0) {
            f->next = -1;
            index = tfm__jinja_read_digits(j, &at, end);
        } else {
            return tfm__jinja_error(j, "cannot mix numbered fields and fields without a number in a format");
        }
        if (index < 0 || (size_t)index >= f->args->count)
            return tfm__jinja_error(j, "a format has more fields than values");
        return f->args->items[index];
    }
    for (size_t i = 0; i < f->args->named; i++)
        if (f->args->names[i]->bytes == (size_t)(end - at) &&
            memcmp(f->args->names[i]->data, at, (size_t)(end - at)) == 0)
            return f->args->values[i];
    return tfm__jinja_error(j, "a format names the unknown value '%.*s'", (int)(end - at), at);
}

/* The value of a field such as `0.name[key]`. */
static tfm__jinja_value field_value(fields *f, const char *at, const char *end) {
    tfm__jinja *j = f->out->j;
    const char *stop = at;
    while (stop < end && *stop != '.' && *stop != '[')
        stop++;
    tfm__jinja_value value = first_value(f, at, stop);
    for (at = stop; at < end && j->status == TFM_OK; at = stop) {
        const bool dot = *at++ == '.';
        for (stop = at; stop < end && (dot ? *stop != '.' && *stop != '[' : *stop != ']');)
            stop++;
        const char *name = at;
        tfm__jinja_value key = tfm__jinja_share(j, at, (size_t)(stop - at));
        if (stop == at || (!dot && stop == end) || j->status != TFM_OK)
            return tfm__jinja_error(j, "a field of a format is not valid");
        if (!dot && all_digits(at, stop))
            key = tfm__jinja_int(tfm__jinja_read_digits(j, &name, stop));
        value = dot ? tfm__jinja_getattr(j, value, key.string) : tfm__jinja_getitem(j, value, key);
        stop += !dot;
        if (!dot && stop < end && *stop != '.' && *stop != '[')
            return tfm__jinja_error(j, "a field of a format is not valid");
    }
    return value;
}

/* A replacement field, without its braces: [name][!conversion][:spec]. */
static void write_field(fields *f, tfm__jinja_writer *out, const char *at, const char *end) {
    tfm__jinja *j = out->j;
    const char *name = at;
    bool bracket = false;
    while (at < end && (bracket || (*at != '!' && *at != ':')))
        bracket = *at == '[' || (bracket && *at != ']'), at++;
    tfm__jinja_value value = field_value(f, name, at);
    if (at + 1 < end && *at == '!') {
        if (at[1] != 's' && at[1] != 'r')
            tfm__jinja_error(j, "the conversion !%c of a format is not supported", at[1]);
        else
            value = at[1] == 's' ? tfm__jinja_str(j, value) : tfm__jinja_repr(j, value);
        at += 2;
    }
    if (at < end && *at != ':')
        tfm__jinja_error(j, "expected ':' after conversion specifier");
    tfm__jinja_writer spec = {.j = j};
    if (at < end && j->status == TFM_OK) {
        f->depth++;
        write_fields(f, &spec, at + 1, end);
        f->depth--;
    }
    const char *format = spec.data ? spec.data : "";
    if (j->status == TFM_OK)
        tfm__jinja_write_format(out, value, format, format + spec.bytes);
}

static void write_fields(fields *f, tfm__jinja_writer *out, const char *at, const char *end) {
    tfm__jinja *j = out->j;
    if (f->depth > 1)
        tfm__jinja_error(j, "Max string recursion exceeded");
    while (at < end && tfm__jinja_step(j, 0)) {
        const char *text = at;
        while (at < end && *at != '{' && *at != '}')
            at++;
        tfm__jinja_write(out, text, (size_t)(at - text));
        if (at == end)
            break;
        if (at + 1 < end && at[1] == *at && (f->depth == 0)) {
            tfm__jinja_write(out, at, 1);
            at += 2;
            continue;
        }
        const char *field = at + 1;
        int depth = *at == '{' ? 1 : 0;
        while (depth > 0 && ++at < end)
            depth += *at == '{' ? 1 : *at == '}' ? -1 : 0;
        if (*field == '}' && field[-1] == '}' ? true : at >= end || depth != 0 || field[-1] != '{') {
            tfm__jinja_error(j, "a brace of a format has no partner");
            return;
        }
        write_field(f, out, field, at++);
    }
}

tfm__jinja_value tfm__jinja_str_format(tfm__jinja *j, tfm__jinja_value format, const tfm__jinja_args *args) {
    if (j->status != TFM_OK)
        return format;
    tfm__jinja_writer out = {.j = j};
    fields f = {.out = &out, .args = args};
    if (format.markup) {
        tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "format() of a string of `safe` is not supported");
        return format;
    }
    write_fields(&f, &out, format.string->data, format.string->data + format.string->bytes);
    return tfm__jinja_written(&out);
}
