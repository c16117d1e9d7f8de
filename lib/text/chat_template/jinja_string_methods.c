#include "text/chat_template/jinja_case.h"
#include "text/chat_template/jinja_format.h"
#include "text/chat_template/jinja_methods.h"
#include "text/chat_template/jinja_object.h"

static tfm__jinja_value pad(tfm__jinja *j, tfm__jinja_value self, const char *name, const tfm__jinja_args *args) {
    tfm__jinja_value out[2];
    size_t at = 0;
    if (!tfm__jinja_bind(j, name, args, "/width /fillchar", 1, out))
        return tfm__jinja_none();
    const tfm__jinja_string *fill = tfm__jinja_string_argument(j, out[1], " ");
    if (fill->chars != 1)
        return tfm__jinja_error(j, "The fill character must be exactly one character long");
    return tfm__jinja_pad(j, self, tfm__jinja_int_argument(j, out[0], 0), tfm__char_next(fill->data, &at),
                          *name == 'c'   ? TFM__JINJA_BOTH
                          : *name == 'l' ? TFM__JINJA_RIGHT
                                         : TFM__JINJA_LEFT);
}

static tfm__jinja_value strip(tfm__jinja *j, tfm__jinja_value self, const char *name, const tfm__jinja_args *args) {
    tfm__jinja_value chars;
    if (!tfm__jinja_bind(j, name, args, "/chars", 0, &chars))
        return tfm__jinja_none();
    return tfm__jinja_strip(j, self, chars,
                            *name == 'l'   ? TFM__JINJA_LEFT
                            : *name == 'r' ? TFM__JINJA_RIGHT
                                           : TFM__JINJA_BOTH);
}

static tfm__jinja_value split(tfm__jinja *j, tfm__jinja_value self, const char *name, const tfm__jinja_args *args) {
    tfm__jinja_value out[2];
    if (!tfm__jinja_bind(j, name, args, "sep maxsplit", 0, out))
        return tfm__jinja_none();
    return tfm__jinja_split(j, self, out[0], tfm__jinja_int_argument(j, out[1], -1), *name == 'r');
}

static tfm__jinja_value splitlines(tfm__jinja *j, tfm__jinja_value self, const char *name,
                                   const tfm__jinja_args *args) {
    tfm__jinja_value keep;
    return tfm__jinja_bind(j, name, args, "keepends", 0, &keep) ? tfm__jinja_splitlines(j, self, tfm__jinja_truth(keep))
                                                                : tfm__jinja_none();
}

static tfm__jinja_value partition(tfm__jinja *j, tfm__jinja_value self, const char *name, const tfm__jinja_args *args) {
    tfm__jinja_value separator;
    if (!tfm__jinja_bind(j, name, args, "/sep", 1, &separator))
        return tfm__jinja_none();
    return tfm__jinja_partition(j, self, tfm__jinja_string_argument(j, separator, NULL), *name == 'r');
}

static tfm__jinja_value replace(tfm__jinja *j, tfm__jinja_value self, const char *name, const tfm__jinja_args *args) {
    tfm__jinja_value out[3];
    if (!tfm__jinja_bind(j, name, args, "/old /new count", 2, out))
        return tfm__jinja_none();
    const tfm__jinja_string *old = tfm__jinja_string_argument(j, out[0], NULL),
                            *by = tfm__jinja_string_argument(j, out[1], NULL);
    if (self.markup)
        tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "replace() of a string of `safe` is not supported");
    return tfm__jinja_replace(j, self, old, by, tfm__jinja_int_argument(j, out[2], -1));
}

static tfm__jinja_value join(tfm__jinja *j, tfm__jinja_value self, const char *name, const tfm__jinja_args *args) {
    tfm__jinja_value items;
    if (!tfm__jinja_bind(j, name, args, "/iterable", 1, &items))
        return tfm__jinja_none();
    if (self.markup)
        tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "join() of a string of `safe` is not supported");
    return tfm__jinja_join(j, self.string, items, true);
}

static tfm__jinja_value remove_affix(tfm__jinja *j, tfm__jinja_value self, const char *name,
                                     const tfm__jinja_args *args) {
    tfm__jinja_value affix;
    if (!tfm__jinja_bind(j, name, args, "/affix", 1, &affix))
        return tfm__jinja_none();
    const tfm__jinja_string *part = tfm__jinja_string_argument(j, affix, NULL), *string = self.string;
    const bool prefix = strcmp(name, "removeprefix") == 0;
    const size_t rest = string->bytes >= part->bytes ? string->bytes - part->bytes : 0;
    if (string->bytes < part->bytes || memcmp(string->data + (prefix ? 0 : rest), part->data, part->bytes) != 0)
        return self;
    return tfm__jinja_like(tfm__jinja_share(j, string->data + (prefix ? part->bytes : 0), rest), self);
}

static tfm__jinja_value zfill(tfm__jinja *j, tfm__jinja_value self, const char *name, const tfm__jinja_args *args) {
    tfm__jinja_value width;
    if (!tfm__jinja_bind(j, name, args, "/width", 1, &width))
        return tfm__jinja_none();
    const bool sign = self.string->bytes && strchr("+-", *self.string->data);
    const tfm__jinja_spec spec = {.fill = '0', .width = tfm__jinja_int_argument(j, width, 0)};
    tfm__jinja_writer out = {.j = j};
    tfm__jinja_write_padded(&out, self, &spec, '=', sign);
    return tfm__jinja_like(tfm__jinja_written(&out), self);
}

static tfm__jinja_value expandtabs(tfm__jinja *j, tfm__jinja_value self, const char *name,
                                   const tfm__jinja_args *args) {
    tfm__jinja_value size;
    tfm__jinja_writer out = {.j = j};
    if (!tfm__jinja_bind(j, name, args, "tabsize", 0, &size))
        return tfm__jinja_none();
    const int64_t tab = tfm__jinja_int_argument(j, size, 8);
    int64_t column = 0;
    for (size_t at = 0; at < self.string->bytes && j->status == TFM_OK;) {
        const char *c = self.string->data + at;
        at += tfm__char_bytes(c);
        if (*c != '\t') {
            tfm__jinja_write(&out, c, tfm__char_bytes(c));
            column = *c == '\n' || *c == '\r' ? 0 : column + 1;
        } else if (tab > 0) {
            for (int64_t i = tab - column % tab; i > 0 && j->status == TFM_OK; i--, column++)
                tfm__jinja_write(&out, " ", 1);
        }
    }
    return tfm__jinja_like(tfm__jinja_written(&out), self);
}

static tfm__jinja_value to_case(tfm__jinja *j, tfm__jinja_value self, const char *name, const tfm__jinja_args *args) {
    static const struct {
        const char *name;
        tfm__jinja_case to;
    } cases[] = {{"upper", TFM__JINJA_UPPER},           {"lower", TFM__JINJA_LOWER},   {"title", TFM__JINJA_TITLE},
                 {"capitalize", TFM__JINJA_CAPITALIZE}, {"swapcase", TFM__JINJA_SWAP}, {"casefold", TFM__JINJA_FOLD}};
    for (size_t i = 0; i < TFM__COUNT(cases); i++)
        if (strcmp(cases[i].name, name) == 0 && tfm__jinja_bind(j, name, args, "", 0, NULL))
            return tfm__jinja_to_case(j, self, cases[i].to);
    return tfm__jinja_none();
}

static tfm__jinja_value format(tfm__jinja *j, tfm__jinja_value self, const char *name, const tfm__jinja_args *args) {
    (void)name;
    return tfm__jinja_str_format(j, self, args);
}

tfm__jinja_value tfm__jinja_string_method(tfm__jinja *j, tfm__jinja_value self, const char *name,
                                          const tfm__jinja_args *args) {
    static const struct {
        const char *name;
        tfm__jinja_value (*call)(tfm__jinja *j, tfm__jinja_value self, const char *name, const tfm__jinja_args *args);
    } methods[] = {
        {"strip", strip},
        {"lstrip", strip},
        {"rstrip", strip},
        {"split", split},
        {"rsplit", split},
        {"splitlines", splitlines},
        {"replace", replace},
        {"startswith", tfm__jinja_search},
        {"endswith", tfm__jinja_search},
        {"find", tfm__jinja_search},
        {"rfind", tfm__jinja_search},
        {"index", tfm__jinja_search},
        {"rindex", tfm__jinja_search},
        {"count", tfm__jinja_search},
        {"join", join},
        {"format", format},
        {"upper", to_case},
        {"lower", to_case},
        {"title", to_case},
        {"capitalize", to_case},
        {"swapcase", to_case},
        {"casefold", to_case},
        {"center", pad},
        {"ljust", pad},
        {"rjust", pad},
        {"zfill", zfill},
        {"partition", partition},
        {"rpartition", partition},
        {"removeprefix", remove_affix},
        {"removesuffix", remove_affix},
        {"expandtabs", expandtabs},
    };
    bool known;
    for (size_t i = 0; i < TFM__COUNT(methods); i++)
        if (strcmp(methods[i].name, name) == 0)
            return methods[i].call(j, self, name, args);
    const bool is = tfm__jinja_string_test(self.string, name, &known);
    return tfm__jinja_bind(j, name, args, "", 0, NULL) ? tfm__jinja_bool(is) : tfm__jinja_none();
}
