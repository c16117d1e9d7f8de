/* The values of a pickle: their memory, number and names. */
#include <string.h>
#include "model/weights/pickle.h"

tfm_status tfm__pickle_count(tfm__pickle *p) {
    if (p->made >= TFM__PICKLE_MAX_VALUES)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: its pickle holds more than %d values; no model has so many",
                         p->path, TFM__PICKLE_MAX_VALUES);
    p->made++;
    return TFM_OK;
}

tfm__pickle_value *tfm__pickle_new(tfm__pickle *p, tfm__pickle_kind kind) {
    if (tfm__pickle_count(p) != TFM_OK)
        return NULL;
    tfm__pickle_value *value = tfm__alloc(1, sizeof(*value));
    if (!value)
        return NULL;
    *value = (tfm__pickle_value){.kind = kind, .before = p->last};
    p->last = value;
    return value;
}

void tfm__pickle_close(tfm__pickle *p) {
    while (p->last) {
        tfm__pickle_value *value = p->last;
        p->last = value->before;
        free(value->items);
        free(value);
    }
    free(p->stack);
    free(p->memo);
    *p = (tfm__pickle){0};
}

bool tfm__pickle_is(const tfm__pickle_value *value, const char *text) {
    return value->kind == TFM__PICKLE_TEXT && value->bytes == strlen(text) &&
           memcmp(value->text, text, value->bytes) == 0;
}

const char *tfm__pickle_kind_name(const tfm__pickle_value *value) {
    static const char *const names[] = {
        [TFM__PICKLE_MARK] = "nothing",   [TFM__PICKLE_NONE] = "None",        [TFM__PICKLE_BOOL] = "a boolean",
        [TFM__PICKLE_INT] = "an integer", [TFM__PICKLE_LARGE] = "an integer", [TFM__PICKLE_FLOAT] = "a number",
        [TFM__PICKLE_TEXT] = "a text",    [TFM__PICKLE_GLOBAL] = "a name",    [TFM__PICKLE_TUPLE] = "a tuple",
        [TFM__PICKLE_LIST] = "a list",    [TFM__PICKLE_DICT] = "a dict",      [TFM__PICKLE_OBJECT] = "an object",
    };
    return names[value->kind];
}
