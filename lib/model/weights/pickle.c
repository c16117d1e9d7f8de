#include "model/weights/pickle.h"
#include <string.h>
#include "text/utf8.h"

static const tfm__pickle_value MARK = {.kind = TFM__PICKLE_MARK}, NONE = {.kind = TFM__PICKLE_NONE},
                               NO = {.kind = TFM__PICKLE_BOOL}, YES = {.kind = TFM__PICKLE_BOOL, .number = 1};

/* ---- Values ------------------------------------------------------------------------------------------- */

static tfm_status damaged(const tfm__pickle *p, const char *what) {
    return tfm__fail(TFM_ERROR_FORMAT, "%s is damaged: its pickle %s; copy or download it again", p->path, what);
}

/* Grows an array of values by one. It starts smaller than tfm__grow, since a pickle may have a million lists of one
 * element. */
static bool grow(const tfm__pickle_value ***array, size_t *room, size_t used) {
    if (used < *room)
        return true;
    const size_t more = *room ? 2 * *room : 8;
    const tfm__pickle_value **larger = tfm__realloc(*array, more, sizeof(**array));
    if (!larger)
        return false;
    *array = larger;
    *room = more;
    return true;
}

static tfm_status failed(const tfm__pickle *p) {
    return p->made >= TFM__PICKLE_MAX_VALUES ? TFM_ERROR_UNSUPPORTED : TFM_ERROR_MEMORY;
}

static tfm_status push(tfm__pickle *p, const tfm__pickle_value *value) {
    if (!value)
        return failed(p);
    if (p->depth >= TFM__PICKLE_MAX_VALUES)
        return damaged(p, "is nested too deeply");
    if (!grow(&p->stack, &p->stack_room, p->depth))
        return TFM_ERROR_MEMORY;
    p->stack[p->depth++] = value;
    return TFM_OK;
}

/* Pops the topmost value; NULL if there is none above the last mark. */
static const tfm__pickle_value *pop(tfm__pickle *p) {
    return p->depth > 0 && p->stack[p->depth - 1] != &MARK ? p->stack[--p->depth] : NULL;
}

static tfm_status add_item(tfm__pickle *p, const tfm__pickle_value *to, const tfm__pickle_value *item) {
    tfm__pickle_value *value = (tfm__pickle_value *)(uintptr_t)to; /* lists and dicts are owned by the pickle */
    if (tfm__pickle_count(p) != TFM_OK)
        return TFM_ERROR_UNSUPPORTED;
    if (!grow(&value->items, &value->room, value->count))
        return TFM_ERROR_MEMORY;
    value->items[value->count++] = item;
    return TFM_OK;
}

/* Pops the values from `from` on and adds them. */
static tfm_status add_items(tfm__pickle *p, const tfm__pickle_value *to, size_t from) {
    tfm_status status = TFM_OK;
    for (size_t i = from; i < p->depth && status == TFM_OK; i++)
        status = add_item(p, to, p->stack[i]);
    p->depth = from;
    return status;
}

/* ---- Bytes -------------------------------------------------------------------------------------------- */

/* The next bytes, or NULL if fewer are left. */
static const unsigned char *take(tfm__pickle *p, uint64_t bytes) {
    if (bytes > (uint64_t)(p->end - p->at))
        return NULL;
    p->at += bytes;
    return p->at - bytes;
}

/* The next little-endian number of this size, or -1. */
static int64_t take_number(tfm__pickle *p, int bytes) {
    const unsigned char *at = take(p, (uint64_t)bytes);
    uint64_t value = 0;
    for (int i = bytes; at && i-- > 0;)
        value = value << 8 | at[i];
    return at && value <= INT64_MAX ? (int64_t)value : -1;
}

/* The rest of the line without its end, or NULL. */
static const char *take_line(tfm__pickle *p, size_t *bytes) {
    const unsigned char *from = p->at, *end = memchr(from, '\n', (size_t)(p->end - from));
    if (!end)
        return NULL;
    p->at = end + 1;
    *bytes = (size_t)(end - from);
    return (const char *)from;
}

static tfm_status push_int(tfm__pickle *p, int64_t number) {
    tfm__pickle_value *value = tfm__pickle_new(p, TFM__PICKLE_INT);
    if (value)
        value->number = number;
    return push(p, value);
}

static tfm_status push_text(tfm__pickle *p, int length_bytes) {
    const int64_t bytes = take_number(p, length_bytes);
    const unsigned char *text = bytes < 0 ? NULL : take(p, (uint64_t)bytes);
    if (!text)
        return damaged(p, "ends within a text");
    if (tfm__utf8_valid((const char *)text, (size_t)bytes) != (size_t)bytes)
        return damaged(p, "has a text that is not UTF-8");
    tfm__pickle_value *value = tfm__pickle_new(p, TFM__PICKLE_TEXT);
    if (value) {
        value->text = (const char *)text;
        value->bytes = (size_t)bytes;
    }
    return push(p, value);
}

/* An integer in two's complement; the first byte is its size. */
static tfm_status push_long(tfm__pickle *p) {
    const int64_t bytes = take_number(p, 1);
    const unsigned char *at = bytes < 0 ? NULL : take(p, (uint64_t)bytes);
    if (!at)
        return damaged(p, "ends within a number");
    uint64_t value = bytes > 0 && at[bytes - 1] & 0x80 ? UINT64_MAX : 0;
    for (int64_t i = bytes; i-- > 0;)
        value = value << 8 | at[i];
    if (bytes <= 8)
        return push_int(p, (int64_t)value);
    tfm__pickle_value *large = tfm__pickle_new(p, TFM__PICKLE_LARGE);
    if (large) {
        large->text = (const char *)at;
        large->bytes = (size_t)bytes;
    }
    return push(p, large);
}

/* ---- Operations --------------------------------------------------------------------------------------- */

/* Pops the mark; *from is the first value after it. */
static bool after_mark(tfm__pickle *p, size_t *from) {
    size_t at = p->depth;
    while (at > 0 && p->stack[at - 1] != &MARK)
        at--;
    if (at == 0)
        return false;
    memmove(p->stack + at - 1, p->stack + at, (p->depth - at) * sizeof(*p->stack));
    p->depth--;
    *from = at - 1;
    return true;
}

static tfm_status make_tuple(tfm__pickle *p, size_t from) {
    tfm__pickle_value *tuple = tfm__pickle_new(p, TFM__PICKLE_TUPLE);
    if (!tuple)
        return failed(p);
    tfm_status status = add_items(p, tuple, from);
    return status == TFM_OK ? push(p, tuple) : status;
}

/* Adds the values after the last mark, or the topmost `top`, to the list or dict below them. */
static tfm_status fill(tfm__pickle *p, tfm__pickle_kind kind, size_t top) {
    size_t from = p->depth - top;
    if (top > 0 ? p->depth <= top : !after_mark(p, &from))
        return damaged(p, "adds a value without a container");
    for (size_t i = from; i < p->depth; i++)
        if (p->stack[i] == &MARK)
            return damaged(p, "adds a value without a container");
    const tfm__pickle_value *to = from > 0 ? p->stack[from - 1] : &MARK;
    if (to->kind != kind || (kind == TFM__PICKLE_DICT && (p->depth - from) % 2))
        return damaged(p, kind == TFM__PICKLE_DICT ? "adds items that are no pairs, or not to a dict"
                                                   : "appends to a value that is not a list");
    return add_items(p, to, from);
}

static tfm_status memo_put(tfm__pickle *p, int64_t place) {
    if (p->depth == 0 || p->stack[p->depth - 1] == &MARK)
        return damaged(p, "stores nothing in its memo");
    if (place < 0 || place > (int64_t)p->memo_count) /* all writers count up from 0 */
        return damaged(p, "has a memo index out of order");
    if (!grow(&p->memo, &p->memo_room, (size_t)place))
        return TFM_ERROR_MEMORY;
    p->memo[place] = p->stack[p->depth - 1];
    p->memo_count += place == (int64_t)p->memo_count;
    return TFM_OK;
}

static tfm_status memo_get(tfm__pickle *p, int64_t place) {
    if (place < 0 || place >= (int64_t)p->memo_count)
        return damaged(p, "reads a memo entry that is not set");
    return push(p, p->memo[place]);
}

static tfm_status find_class(tfm__pickle *p, bool stacked) {
    const char *module, *name;
    size_t module_bytes, name_bytes;
    if (stacked) {
        const tfm__pickle_value *second = pop(p), *first = pop(p);
        if (!first || !second || first->kind != TFM__PICKLE_TEXT || second->kind != TFM__PICKLE_TEXT)
            return damaged(p, "names nothing");
        module = first->text;
        module_bytes = first->bytes;
        name = second->text;
        name_bytes = second->bytes;
    } else if (!(module = take_line(p, &module_bytes)) || !(name = take_line(p, &name_bytes))) {
        return damaged(p, "ends within a name");
    }
    int64_t number;
    tfm_status status = p->callbacks->find_class(p->user, &number, module, module_bytes, name, name_bytes);
    if (status != TFM_OK)
        return status;
    tfm__pickle_value *global = tfm__pickle_new(p, TFM__PICKLE_GLOBAL);
    if (global)
        global->number = number;
    return push(p, global);
}

static tfm_status call(tfm__pickle *p) {
    const tfm__pickle_value *arguments = pop(p), *global = pop(p), *made = NULL;
    if (!global || !arguments || global->kind != TFM__PICKLE_GLOBAL || arguments->kind != TFM__PICKLE_TUPLE)
        return damaged(p, "calls a value that is not a function");
    tfm_status status = p->callbacks->reduce(p->user, p, &made, global->number, arguments);
    return status == TFM_OK ? push(p, made) : status;
}

static tfm_status persistent_load(tfm__pickle *p) {
    const tfm__pickle_value *id = pop(p), *made = NULL;
    if (!id)
        return damaged(p, "fetches nothing");
    tfm_status status = p->callbacks->persistent_load(p->user, p, &made, id);
    return status == TFM_OK ? push(p, made) : status;
}

/* Attributes of an object, such as module versions that PyTorch attaches to a state_dict: ignored. */
static tfm_status discard_state(tfm__pickle *p) {
    const tfm__pickle_value *attributes = pop(p);
    if (!attributes || p->depth == 0 || p->stack[p->depth - 1]->kind != TFM__PICKLE_DICT ||
        attributes->kind != TFM__PICKLE_DICT)
        return damaged(p, "sets attributes of a value without any");
    return TFM_OK;
}

/* A value that does not use the stack. */
static tfm_status push_plain(tfm__pickle *p, int operation) {
    int64_t number;
    switch (operation) {
    case 'N':
        return push(p, &NONE);
    case 0x88: /* NEWTRUE */
        return push(p, &YES);
    case 0x89: /* NEWFALSE */
        return push(p, &NO);
    case 'J': /* BININT, signed */
        number = take_number(p, 4);
        return number < 0 ? damaged(p, "ends within a number") : push_int(p, (int32_t)(uint32_t)number);
    case 'K': /* BININT1 */
    case 'M': /* BININT2 */
        number = take_number(p, operation == 'K' ? 1 : 2);
        return number < 0 ? damaged(p, "ends within a number") : push_int(p, number);
    case 0x8a: /* LONG1 */
        return push_long(p);
    case 'G': /* BINFLOAT */
        return take(p, 8) ? push(p, tfm__pickle_new(p, TFM__PICKLE_FLOAT)) : damaged(p, "ends within a number");
    case 'X': /* BINUNICODE */
        return push_text(p, 4);
    case 0x8c: /* SHORT_BINUNICODE */
    case 'U':  /* SHORT_BINSTRING, Python 2 */
        return push_text(p, 1);
    case 0x8d: /* BINUNICODE8 */
        return push_text(p, 8);
    case '}':
        return push(p, tfm__pickle_new(p, TFM__PICKLE_DICT));
    case ']':
        return push(p, tfm__pickle_new(p, TFM__PICKLE_LIST));
    case ')':
        return make_tuple(p, p->depth);
    default:
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: its pickle has the operation 0x%02x, which plain tensors do not need: save the model's "
                         "state_dict() alone, or as safetensors",
                         p->path, (unsigned)operation);
    }
}

/* A tuple of the last `count` values. */
static tfm_status tuple_of(tfm__pickle *p, size_t count) {
    size_t from = p->depth;
    while (from > 0 && p->depth - from < count && p->stack[from - 1] != &MARK)
        from--;
    return p->depth - from == count ? make_tuple(p, from) : damaged(p, "has a tuple with too few values");
}

static tfm_status run(tfm__pickle *p, int operation) {
    size_t from = 0;
    switch (operation) {
    case 0x80: { /* PROTO */
        const int64_t protocol = take_number(p, 1);
        return protocol >= 2 && protocol <= 5 ? TFM_OK : damaged(p, "has a protocol other than 2 to 5");
    }
    case 0x95: /* FRAME: ignored */
        return take_number(p, 8) < 0 ? damaged(p, "ends within a number") : TFM_OK;
    case '(':
        return push(p, &MARK);
    case 't':
        return after_mark(p, &from) ? make_tuple(p, from) : damaged(p, "has a tuple without a beginning");
    case 0x85: /* TUPLE1 */
    case 0x86:
    case 0x87:
        return tuple_of(p, (size_t)(operation - 0x84));
    case 'a': /* APPEND */
        return fill(p, TFM__PICKLE_LIST, 1);
    case 'e': /* APPENDS */
        return fill(p, TFM__PICKLE_LIST, 0);
    case 's': /* SETITEM */
        return fill(p, TFM__PICKLE_DICT, 2);
    case 'u': /* SETITEMS */
        return fill(p, TFM__PICKLE_DICT, 0);
    case 'q': /* BINPUT */
        return memo_put(p, take_number(p, 1));
    case 'r': /* LONG_BINPUT */
        return memo_put(p, take_number(p, 4));
    case 0x94: /* MEMOIZE */
        return memo_put(p, (int64_t)p->memo_count);
    case 'h': /* BINGET */
        return memo_get(p, take_number(p, 1));
    case 'j': /* LONG_BINGET */
        return memo_get(p, take_number(p, 4));
    case 'c': /* GLOBAL */
        return find_class(p, false);
    case 0x93: /* STACK_GLOBAL */
        return find_class(p, true);
    case 'R': /* REDUCE */
        return call(p);
    case 'Q': /* BINPERSID */
        return persistent_load(p);
    case 'b': /* BUILD */
        return discard_state(p);
    default:
        return push_plain(p, operation);
    }
}

/* ---- A pickle ----------------------------------------------------------------------------------------- */

tfm_status tfm__pickle_read(tfm__pickle *p, const tfm__pickle_value **out) {
    *out = NULL;
    p->depth = p->memo_count = 0;
    if (p->end - p->at < 2 || *p->at != 0x80)
        return damaged(p, "is missing, or as Python 1 wrote them");
    for (;;) {
        const int64_t operation = take_number(p, 1);
        if (operation < 0)
            return damaged(p, "was cut");
        if (operation == '.')
            break;
        tfm_status status = run(p, (int)operation);
        if (status != TFM_OK)
            return status;
    }
    if (p->depth != 1 || p->stack[0] == &MARK)
        return damaged(p, "does not end with one value");
    *out = p->stack[0];
    return TFM_OK;
}
