/* The variable `loop` of a for statement. */
#include "text/chat_template/jinja_dict.h"
#include "text/chat_template/jinja_object.h"

tfm__jinja_value tfm__jinja_loop_next(tfm__jinja *j, tfm__jinja_object *loop) {
    tfm__jinja_value item = loop->after;
    loop->after = tfm__jinja_of(TFM__JINJA_MISSING);
    if (tfm__jinja_is(item, TFM__JINJA_MISSING))
        item = tfm__jinja_iterator_next(j, loop->iterator);
    if (tfm__jinja_is(item, TFM__JINJA_MISSING))
        return item;
    loop->index++;
    loop->before = loop->current;
    loop->current = item;
    return item;
}

static tfm__jinja_value peek(tfm__jinja *j, tfm__jinja_object *loop) {
    if (tfm__jinja_is(loop->after, TFM__JINJA_MISSING))
        loop->after = tfm__jinja_iterator_next(j, loop->iterator);
    return loop->after;
}

static int64_t length(tfm__jinja *j, tfm__jinja_object *loop) {
    if (loop->length < 0)
        loop->length = tfm__jinja_length(loop->iterable);
    if (loop->length < 0) {
        const tfm__jinja_value rest =
            tfm__jinja_to_list(j, (tfm__jinja_value){.type = TFM__JINJA_ITERATOR, .iterator = loop->iterator});
        if (j->status != TFM_OK)
            return 0;
        loop->iterator = tfm__jinja_iterate(j, rest);
        loop->length = (int64_t)rest.list->count + loop->index + 1 + !tfm__jinja_is(loop->after, TFM__JINJA_MISSING);
    }
    return loop->length;
}

tfm__jinja_value tfm__jinja_loop_attribute(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_string *name) {
    tfm__jinja_object *loop = value.object;
    tfm__jinja_value item;
    if (tfm__jinja_string_is(name, "index"))
        return tfm__jinja_int(loop->index + 1);
    if (tfm__jinja_string_is(name, "index0"))
        return tfm__jinja_int(loop->index);
    if (tfm__jinja_string_is(name, "first"))
        return tfm__jinja_bool(loop->index == 0);
    if (tfm__jinja_string_is(name, "last"))
        return tfm__jinja_bool(tfm__jinja_is(peek(j, loop), TFM__JINJA_MISSING));
    if (tfm__jinja_string_is(name, "length"))
        return tfm__jinja_int(length(j, loop));
    if (tfm__jinja_string_is(name, "revindex"))
        return tfm__jinja_int(length(j, loop) - loop->index);
    if (tfm__jinja_string_is(name, "revindex0"))
        return tfm__jinja_int(length(j, loop) - loop->index - 1);
    if (tfm__jinja_string_is(name, "depth"))
        return tfm__jinja_int(loop->depth + 1);
    if (tfm__jinja_string_is(name, "depth0"))
        return tfm__jinja_int(loop->depth);
    if (tfm__jinja_string_is(name, "previtem"))
        return loop->index == 0 ? tfm__jinja_undefined(j, "there is no previous item") : loop->before;
    if (tfm__jinja_string_is(name, "nextitem")) {
        item = peek(j, loop);
        return tfm__jinja_is(item, TFM__JINJA_MISSING) ? tfm__jinja_undefined(j, "there is no next item") : item;
    }
    if (tfm__jinja_string_is(name, "cycle"))
        return tfm__jinja_method(j, value, "cycle");
    if (tfm__jinja_string_is(name, "changed"))
        return tfm__jinja_method(j, value, "changed");
    return tfm__jinja_of(TFM__JINJA_MISSING);
}

tfm__jinja_value tfm__jinja_loop_call(tfm__jinja *j, const tfm__jinja_object *method, const tfm__jinja_args *args) {
    tfm__jinja_object *loop = method->self.object;
    if (args->named)
        return tfm__jinja_error(j, "loop.%s() takes no keyword arguments", method->name);
    if (strcmp(method->name, "cycle") == 0) {
        if (!args->count)
            return tfm__jinja_error(j, "no items for cycling given");
        return args->items[loop->index % (int64_t)args->count];
    }
    const tfm__jinja_value now = tfm__jinja_list_new(j, TFM__JINJA_TUPLE, args->count);
    for (size_t i = 0; i < args->count && j->status == TFM_OK; i++)
        tfm__jinja_list_add(j, now, args->items[i]);
    if (j->status != TFM_OK ||
        (!tfm__jinja_is(loop->changed, TFM__JINJA_MISSING) && tfm__jinja_equal(j, loop->changed, now)))
        return tfm__jinja_bool(false);
    loop->changed = now;
    return tfm__jinja_bool(true);
}
