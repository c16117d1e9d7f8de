#include "text/chat_template/jinja_filters.h"

/* Filters of jinja2 that are not supported here. */
static const char *const UNSUPPORTED[] = {"filesizeformat", "pprint",   "random", "striptags",
                                          "urlize",         "wordwrap", "xmlattr"};

static tfm__jinja_filter find(const tfm__jinja_string *name) {
    static tfm__jinja_filter (*const groups[])(const tfm__jinja_string *name) = {
        tfm__jinja_text_filter, tfm__jinja_list_filter, tfm__jinja_select_filter, tfm__jinja_number_filter,
        tfm__jinja_sort_filter};
    tfm__jinja_filter filter = NULL;
    for (size_t i = 0; i < TFM__COUNT(groups) && !filter; i++)
        filter = groups[i](name);
    return filter;
}

static bool is_unsupported(const tfm__jinja_string *name) {
    for (size_t i = 0; i < TFM__COUNT(UNSUPPORTED); i++)
        if (tfm__jinja_string_is(name, UNSUPPORTED[i]))
            return true;
    return false;
}

bool tfm__jinja_has_filter(const tfm__jinja_string *name) {
    return find(name) || is_unsupported(name);
}

tfm__jinja_value tfm__jinja_call_filter(tfm__jinja *j, const tfm__jinja_string *name, tfm__jinja_value value,
                                        const tfm__jinja_args *args) {
    const tfm__jinja_filter filter = find(name);
    if (!tfm__jinja_step(j, 0))
        return value;
    if (filter)
        return filter(j, value, args);
    tfm__jinja_fail(j, is_unsupported(name) ? TFM_ERROR_UNSUPPORTED : TFM_ERROR_FORMAT,
                    is_unsupported(name) ? "the filter `%.*s` is not supported" : "there is no filter named `%.*s`",
                    (int)name->bytes, name->data);
    return value;
}
