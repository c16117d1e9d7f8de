#include "text/chat_template/jinja_case.h"
#include "text/chat_template/jinja_filters.h"
#include "text/chat_template/jinja_object.h"

static bool is_number(const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return bytes > 0 && bytes < 18;
}

tfm__jinja_getter tfm__jinja_getter_new(tfm__jinja *j, tfm__jinja_value attribute) {
    tfm__jinja_getter getter = {.fallback = tfm__jinja_of(TFM__JINJA_MISSING)};
    if (tfm__jinja_is(attribute, TFM__JINJA_NONE) || tfm__jinja_is(attribute, TFM__JINJA_MISSING))
        return getter;
    const bool text = tfm__jinja_is(attribute, TFM__JINJA_STRING);
    getter.parts = tfm__jinja_alloc(j, text ? attribute.string->bytes + 1 : 1, sizeof(*getter.parts));
    if (!getter.parts)
        return getter;
    if (!text) {
        getter.parts[getter.count++] = attribute;
        return getter;
    }
    const char *at = attribute.string->data, *const end = at + attribute.string->bytes;
    while (j->status == TFM_OK) {
        const char *dot = memchr(at, '.', (size_t)(end - at)), *stop = dot ? dot : end;
        tfm__jinja_value part = tfm__jinja_share(j, at, (size_t)(stop - at));
        if (is_number(at, (size_t)(stop - at))) {
            int64_t number = 0;
            for (; at < stop; at++)
                number = 10 * number + *at - '0';
            part = tfm__jinja_int(number);
        }
        getter.parts[getter.count++] = part;
        if (!dot)
            break;
        at = dot + 1;
    }
    return getter;
}

tfm__jinja_value tfm__jinja_get(tfm__jinja *j, const tfm__jinja_getter *getter, tfm__jinja_value item) {
    for (size_t i = 0; i < getter->count && j->status == TFM_OK; i++) {
        item = tfm__jinja_getitem(j, item, getter->parts[i]);
        if (tfm__jinja_is(item, TFM__JINJA_UNDEFINED) && !tfm__jinja_is(getter->fallback, TFM__JINJA_MISSING))
            item = getter->fallback;
    }
    return getter->fold && tfm__jinja_is(item, TFM__JINJA_STRING) && j->status == TFM_OK
               ? tfm__jinja_to_case(j, item, TFM__JINJA_LOWER)
               : item;
}
