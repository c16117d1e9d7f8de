#include "text/chat_template/jinja_methods.h"
#include <math.h>
#include "text/chat_template/jinja_dict.h"
#include "text/chat_template/jinja_object.h"

static tfm__jinja_value view_of(tfm__jinja *j, tfm__jinja_value dict, int64_t kind) {
    tfm__jinja_value view = tfm__jinja_pair(j, dict, tfm__jinja_int(kind));
    view.type = j->status == TFM_OK ? TFM__JINJA_VIEW : TFM__JINJA_NONE;
    return view;
}

static tfm__jinja_value copy_dict(tfm__jinja *j, const tfm__jinja_dict *dict) {
    const tfm__jinja_value copy = tfm__jinja_dict_new(j);
    if (j->status == TFM_OK)
        tfm__jinja_dict_update(j, copy.dict, dict);
    return copy;
}

static tfm__jinja_value dict_method(tfm__jinja *j, tfm__jinja_value self, const char *name,
                                    const tfm__jinja_args *args) {
    static const char *const views[] = {"items", "keys", "values"};
    tfm__jinja_value out[2];
    if (strcmp(name, "get") == 0) {
        if (!tfm__jinja_bind(j, name, args, "/key /default", 1, out))
            return tfm__jinja_none();
        const tfm__jinja_value *found = tfm__jinja_dict_find(j, self.dict, out[0]);
        return found ? *found : tfm__jinja_is(out[1], TFM__JINJA_MISSING) ? tfm__jinja_none() : out[1];
    }
    if (!tfm__jinja_bind(j, name, args, "", 0, NULL))
        return tfm__jinja_none();
    for (int64_t i = 0; i < 3; i++)
        if (strcmp(name, views[i]) == 0)
            return view_of(j, self, i);
    return copy_dict(j, self.dict);
}

static tfm__jinja_value list_method(tfm__jinja *j, tfm__jinja_value self, const char *name,
                                    const tfm__jinja_args *args) {
    tfm__jinja_value out[3];
    if (strcmp(name, "copy") == 0)
        return tfm__jinja_bind(j, name, args, "", 0, NULL) ? tfm__jinja_to_list(j, self) : tfm__jinja_none();
    const bool index = strcmp(name, "index") == 0;
    if (!tfm__jinja_bind(j, name, args, index ? "/value /start /stop" : "/value", 1, out))
        return tfm__jinja_none();
    if (index && (!tfm__jinja_is(out[1], TFM__JINJA_MISSING) || !tfm__jinja_is(out[2], TFM__JINJA_MISSING))) {
        tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "index() of a list with a start is not supported");
        return tfm__jinja_none();
    }
    int64_t count = 0;
    for (size_t i = 0; i < self.list->count && tfm__jinja_step(j, 0); i++) {
        const bool equal = tfm__jinja_equal(j, self.list->items[i], out[0]);
        if (index && equal)
            return tfm__jinja_int((int64_t)i);
        count += equal;
    }
    return index ? tfm__jinja_error(j, "the value is not in the list") : tfm__jinja_int(count);
}

static tfm__jinja_value cycler_method(tfm__jinja *j, tfm__jinja_value self, const char *name,
                                      const tfm__jinja_args *args) {
    tfm__jinja_object *cycler = self.object;
    const int64_t at = cycler->index;
    if (!tfm__jinja_bind(j, name, args, "", 0, NULL))
        return tfm__jinja_none();
    cycler->index = strcmp(name, "reset") == 0 ? 0 : (at + 1) % (int64_t)cycler->self.list->count;
    return strcmp(name, "reset") == 0 ? tfm__jinja_none() : cycler->self.list->items[at];
}

tfm__jinja_value tfm__jinja_call_method(tfm__jinja *j, const tfm__jinja_object *method, const tfm__jinja_args *args) {
    const tfm__jinja_value self = method->self;
    switch (self.type) {
    case TFM__JINJA_STRING:
        return tfm__jinja_string_method(j, self, method->name, args);
    case TFM__JINJA_DICT:
        return dict_method(j, self, method->name, args);
    case TFM__JINJA_LIST:
    case TFM__JINJA_TUPLE:
        return list_method(j, self, method->name, args);
    case TFM__JINJA_LOOP:
        return tfm__jinja_loop_call(j, method, args);
    case TFM__JINJA_CYCLER:
        return cycler_method(j, self, method->name, args);
    case TFM__JINJA_BOOL:
    case TFM__JINJA_INT:
    case TFM__JINJA_FLOAT: /* is_integer */
        return tfm__jinja_bind(j, method->name, args, "", 0, NULL)
                   ? tfm__jinja_bool(tfm__jinja_is_integral(self) ||
                                     (isfinite(self.real) && self.real == floor(self.real)))
                   : tfm__jinja_none();
    default:
        return tfm__jinja_error(j, "'%s' object has no method %s", tfm__jinja_kind(self), method->name);
    }
}
