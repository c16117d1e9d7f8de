#include <string.h>
#include "base/json.h"
#include "text/vocab.h"

#define MAX_IDS (1 << 24)

struct tfm__vocab {
    json_t *ids;         /* the file's object serves as hash table, and owns the pieces */
    const char **pieces; /* by id; NULL if unused */
    int32_t size;
};

static tfm_status check_id(const char *piece, const json_t *value, const char *path) {
    const json_int_t id = json_integer_value(value);
    if (!json_is_integer(value) || id < 0 || id >= MAX_IDS)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: the id of \"%.100s\" is %s; an integer from 0 to %d is allowed", path,
                         piece, tfm__json_text((char[TFM__JSON_TEXT]){0}, value), MAX_IDS - 1);
    return TFM_OK;
}

static tfm_status find_size(tfm__vocab *vocab, const char *path) {
    const char *piece;
    json_t *value;
    json_object_foreach(vocab->ids, piece, value) {
        if (check_id(piece, value, path) != TFM_OK)
            return TFM_ERROR_FORMAT;
        if (json_integer_value(value) >= vocab->size)
            vocab->size = (int32_t)json_integer_value(value) + 1;
    }
    return vocab->size ? TFM_OK : tfm__fail(TFM_ERROR_FORMAT, "%s holds no pieces", path);
}

static tfm_status put(tfm__vocab *vocab, const char *piece, json_int_t id, const char *path) {
    const char **place = &vocab->pieces[id];
    if (*place)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: \"%.100s\" and \"%.100s\" have the same id, %lld", path, *place, piece,
                         (long long)id);
    *place = piece;
    return TFM_OK;
}

static tfm_status fill(tfm__vocab *vocab, const char *path) {
    const char *piece;
    json_t *value;
    json_object_foreach(vocab->ids, piece, value) {
        if (put(vocab, piece, json_integer_value(value), path) != TFM_OK)
            return TFM_ERROR_FORMAT;
    }
    return TFM_OK;
}

tfm_status tfm__vocab_open(tfm__vocab **out, const char *path) {
    *out = NULL;
    tfm__vocab *vocab = tfm__alloc(1, sizeof(*vocab));
    if (!vocab)
        return TFM_ERROR_MEMORY;
    tfm_status status = tfm__json_load(&vocab->ids, path);
    if (status == TFM_OK)
        status = find_size(vocab, path);
    if (status == TFM_OK) {
        vocab->pieces = tfm__alloc((size_t)vocab->size, sizeof(*vocab->pieces));
        status = vocab->pieces ? fill(vocab, path) : TFM_ERROR_MEMORY;
    }
    if (status != TFM_OK)
        tfm__vocab_free(&vocab);
    *out = vocab;
    return status;
}

tfm_status tfm__vocab_from_list(tfm__vocab **out, const char *(*piece)(const void *user, size_t id), const void *user,
                                size_t count, const char *path) {
    tfm__vocab *vocab = *out = tfm__alloc(1, sizeof(*vocab));
    tfm_status status = vocab && (vocab->ids = json_object()) ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK && (count == 0 || count > MAX_IDS))
        status = tfm__fail(TFM_ERROR_FORMAT, "%s has %zu pieces; 1 to %d are allowed", path, count, MAX_IDS);
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        const char *text = piece(user, i);
        if (json_object_get(vocab->ids, text))
            status = tfm__fail(TFM_ERROR_FORMAT, "%s has the piece \"%.100s\" twice", path, text);
        else if (json_object_set_new(vocab->ids, text, json_integer((json_int_t)i)) != 0)
            status = tfm__fail(TFM_ERROR_MEMORY, "out of host memory while reading %s", path);
    }
    if (status == TFM_OK)
        status = find_size(vocab, path);
    if (status == TFM_OK) {
        vocab->pieces = tfm__alloc((size_t)vocab->size, sizeof(*vocab->pieces));
        status = vocab->pieces ? fill(vocab, path) : TFM_ERROR_MEMORY;
    }
    if (status != TFM_OK)
        tfm__vocab_free(out);
    return status;
}

void tfm__vocab_free(tfm__vocab **vocab) {
    if (!vocab || !*vocab)
        return;
    json_decref((*vocab)->ids);
    free((*vocab)->pieces);
    free(*vocab);
    *vocab = NULL;
}

tfm_status tfm__vocab_add(tfm__vocab *vocab, const char *piece, const json_t *value, const char *path) {
    if (check_id(piece, value, path) != TFM_OK)
        return TFM_ERROR_FORMAT;
    const int32_t id = (int32_t)json_integer_value(value), size = id < vocab->size ? vocab->size : id + 1;
    const char **pieces = tfm__realloc(vocab->pieces, (size_t)size, sizeof(*pieces));
    if (!pieces)
        return TFM_ERROR_MEMORY;
    vocab->pieces = pieces;
    for (; vocab->size < size; vocab->size++)
        pieces[vocab->size] = NULL;
    if (json_object_set_new(vocab->ids, piece, json_integer(id)) != 0)
        return tfm__fail(TFM_ERROR_MEMORY, "out of host memory while reading %s", path);
    const char *key = json_object_iter_key(json_object_iter_at(vocab->ids, piece)); /* lives as long as the object */
    return put(vocab, key, id, path);
}

int32_t tfm__vocab_id(const tfm__vocab *vocab, const char *piece) {
    const json_t *id = json_object_get(vocab->ids, piece);
    return id ? (int32_t)json_integer_value(id) : -1;
}

const char *tfm__vocab_piece(const tfm__vocab *vocab, int32_t id) {
    return id >= 0 && id < vocab->size ? vocab->pieces[id] : NULL;
}

int32_t tfm__vocab_size(const tfm__vocab *vocab) {
    return vocab->size;
}
