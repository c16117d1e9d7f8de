#include <stdatomic.h>
#include <string.h>
#include "base/file.h"
#include "base/hub/hub.h"
#include "text/gguf_tokenizer.h"
#include "text/marian_folder.h"
#include "text/tokenizer.h"
#include "text/token_map.h"
#include "text/tokenizer_kind.h"

struct tfm_tokenizer {
    atomic_int owners; /* the opener, its model, data readers */
    tfm__tokenizer_parts parts;
    int32_t limits[2]; /* by side: ids from this one on are rejected; 0 for no limit */
};

/* ---- Opening ------------------------------------------------------------------------------------------ */

/* Whether it is a Marian model directory, which may also have a tokenizer.json for other programs. */
static tfm_status find_marian_folder(bool *there, const char *config, const char *dir) {
    tfm__marian_folder own = {0};
    *there = false;
    if (tfm__file_exists(config))
        return TFM_OK;
    const tfm_status status = tfm__marian_folder_find(&own, dir);
    *there = own.model != NULL;
    tfm__marian_folder_free(&own);
    return status;
}

/* Marian's directories may have a vocab.json like others, but only they have these SentencePiece files. */
static tfm_status open_folder(tfm__tokenizer_parts *out, const char *dir) {
    char *source = tfm__path_join(dir, "source.spm"), *target = source ? tfm__path_join(dir, "target.spm") : NULL;
    char *config = target ? tfm__path_join(dir, "config.json") : NULL;
    bool own = false;
    tfm_status status = config ? find_marian_folder(&own, config, dir) : TFM_ERROR_MEMORY;
    if (status == TFM_OK) {
        const bool marian =
            own || tfm__file_exists(source) || tfm__file_exists(target) || !tfm__hf_tokenizer_exists(dir);
        status = marian ? tfm__marian_tokenizer_open(out, dir) : tfm__hf_tokenizer_open(out, dir);
    }
    free(source);
    free(target);
    free(config);
    return status;
}

/* A GGUF file, or a folder whose model is one, has the tokenizer in it. */
static tfm_status open_kind(tfm__tokenizer_parts *out, const char *dir) {
    char *file = NULL;
    tfm_status status = tfm__gguf_locate(&file, dir);
    if (status == TFM_OK)
        status = file ? tfm__gguf_tokenizer_open(out, file) : open_folder(out, dir);
    free(file);
    return status;
}

tfm_status tfm_tokenizer_open(tfm_tokenizer **out, const char *dir) {
    TFM__CLEAR_OUT(out);
    if (!out || !dir)
        return tfm__fail(TFM_ERROR_ARGUMENT, "tfm_tokenizer_open: %s is NULL", out ? "dir" : "out");
    char *path = NULL;
    tfm_tokenizer *tokenizer = tfm__alloc(1, sizeof(*tokenizer));
    if (!tokenizer)
        return TFM_ERROR_MEMORY;
    atomic_init(&tokenizer->owners, 1);
    tfm_status status = tfm__hub_resolve(&path, dir);
    if (status == TFM_OK)
        status = open_kind(&tokenizer->parts, path);
    free(path);
    if (status != TFM_OK)
        tfm_tokenizer_free(&tokenizer);
    *out = tokenizer;
    return status;
}

static void *open_on_thread(void *user) {
    tfm__tokenizer_opening *o = user;
    o->status = tfm_tokenizer_open(&o->tokenizer, o->dir);
    tfm__error_save(o->message);
    return NULL;
}

void tfm__tokenizer_open_begin(tfm__tokenizer_opening *opening, const char *dir) {
    opening->dir = dir;
    opening->tokenizer = NULL;
    opening->started = pthread_create(&opening->thread, NULL, open_on_thread, opening) == 0;
}

tfm_status tfm__tokenizer_open_end(tfm_tokenizer **out, tfm__tokenizer_opening *opening) {
    if (opening->started)
        pthread_join(opening->thread, NULL);
    else /* there are no more threads */
        open_on_thread(opening);
    if (opening->status != TFM_OK)
        tfm__error_restore(opening->message);
    *out = opening->tokenizer;
    return opening->status;
}

void tfm_tokenizer_free(tfm_tokenizer **pointer) {
    tfm_tokenizer *tokenizer = pointer ? *pointer : NULL;
    if (!tokenizer)
        return;
    *pointer = NULL;
    if (atomic_fetch_sub(&tokenizer->owners, 1) > 1)
        return;
    tfm__tokenizer_parts *parts = &tokenizer->parts;
    if (parts->self)
        parts->kind->close(parts->self);
    free(parts->languages[TFM_SOURCE]);
    free(parts->languages[TFM_TARGET]);
    free(tokenizer);
}

tfm_tokenizer *tfm__tokenizer_retain(const tfm_tokenizer *tokenizer) {
    tfm_tokenizer *owned = (tfm_tokenizer *)tokenizer; /* the reference count is mutable */
    atomic_fetch_add(&owned->owners, 1);
    return owned;
}

/* ---- What it has -------------------------------------------------------------------------------------- */

static bool is_side(tfm_side side) {
    return side == TFM_SOURCE || side == TFM_TARGET;
}

const tfm_tokenizer_info *tfm_tokenizer_get_info(const tfm_tokenizer *tokenizer) {
    return tokenizer ? &tokenizer->parts.info : NULL;
}

const char *tfm_tokenizer_language(const tfm_tokenizer *tokenizer, tfm_side side) {
    return tokenizer && is_side(side) ? tokenizer->parts.languages[side] : NULL;
}

const char *tfm_tokenizer_piece(const tfm_tokenizer *tokenizer, tfm_side side, int32_t id) {
    return tokenizer && is_side(side) ? tokenizer->parts.kind->piece(tokenizer->parts.self, side, id) : NULL;
}

int32_t tfm_tokenizer_piece_id(const tfm_tokenizer *tokenizer, tfm_side side, const char *piece) {
    return tokenizer && piece && is_side(side) ? tokenizer->parts.kind->find(tokenizer->parts.self, side, piece) : -1;
}

int32_t tfm_tokenizer_language_id(const tfm_tokenizer *tokenizer, const char *language) {
    return tokenizer && language ? tokenizer->parts.kind->language_id(tokenizer->parts.self, language) : -1;
}

bool tfm__tokenizer_is_marian(const tfm_tokenizer *tokenizer) {
    return strcmp(tokenizer->parts.kind->name, "marian") == 0;
}

/* ---- Text to ids -------------------------------------------------------------------------------------- */

static tfm_status check_text(const char *text, size_t bytes) {
    if (bytes > TFM__MAX_LINE)
        return tfm__fail(TFM_ERROR_INPUT, "the line has %zu bytes; up to %d are allowed", bytes, TFM__MAX_LINE);
    return tfm_text_check(text, bytes);
}

void tfm__tokenizer_set_vocab_limit(tfm_tokenizer *tokenizer, int32_t source, int32_t target) {
    tokenizer->limits[TFM_SOURCE] = source;
    tokenizer->limits[TFM_TARGET] = target;
}

static tfm_status check_limit(const tfm_tokenizer *tokenizer, const tfm__id_buffer *list, tfm_side side) {
    const int32_t limit = tokenizer->limits[side];
    for (size_t i = 0; limit > 0 && i < list->count; i++)
        if (list->ids[i] >= limit) {
            const char *piece = tfm_tokenizer_piece(tokenizer, side, list->ids[i]);
            return tfm__fail(TFM_ERROR_INPUT,
                             "the text has the token \"%.100s\", whose id is %d, and the model's embeddings have %d "
                             "rows: leave it out",
                             piece ? piece : "", (int)list->ids[i], (int)limit);
        }
    return TFM_OK;
}

static tfm_status encode(const tfm_tokenizer *tokenizer, int32_t **ids, size_t *count, tfm_side side,
                         const tfm_encode_options *options, const char *line, size_t bytes, float alpha) {
    *ids = NULL;
    *count = 0;
    if (!is_side(side))
        return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_encode: side is %d: give TFM_SOURCE or TFM_TARGET", (int)side);
    tfm_status status = check_text(line, bytes);
    if (status == TFM_OK && options->text_pair)
        status = check_text(options->text_pair, options->text_pair_bytes);
    if (status != TFM_OK)
        return status;
    tfm__id_buffer list = {0};
    status = tfm__id_buffer_reserve(&list, bytes / 4 + 16);
    if (status == TFM_OK)
        status =
            tokenizer->parts.kind->encode(tokenizer->parts.self, &list, side, options, bytes ? line : "", bytes, alpha);
    if (status == TFM_OK)
        status = check_limit(tokenizer, &list, side);
    if (status != TFM_OK) {
        free(list.ids);
        return status;
    }
    *ids = list.ids;
    *count = list.count;
    return TFM_OK;
}

tfm_status tfm_tokenizer_encode(const tfm_tokenizer *tokenizer, int32_t **ids, size_t *count, tfm_side side,
                                const char *line, size_t bytes) {
    TFM__CLEAR_OUT(ids);
    if (TFM__NEEDS("tokenizer_encode", tokenizer, ids, count, line) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    return encode(tokenizer, ids, count, side, &(tfm_encode_options){0}, line, bytes, 0);
}

tfm_status tfm_tokenizer_encode_with(const tfm_tokenizer *tokenizer, int32_t **ids, size_t *count, tfm_side side,
                                     const char *line, size_t bytes, const tfm_encode_options *options) {
    TFM__CLEAR_OUT(ids);
    if (TFM__NEEDS("tokenizer_encode_with", tokenizer, ids, count, line) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_encode_with: " TFM__RESERVED_SET_MESSAGE);
    return encode(tokenizer, ids, count, side, options ? options : &(tfm_encode_options){0}, line, bytes, 0);
}

tfm_status tfm__tokenizer_encode_sampled(const tfm_tokenizer *tokenizer, int32_t **ids, size_t *count, tfm_side side,
                                         const char *line, size_t bytes, float alpha) {
    return encode(tokenizer, ids, count, side, &(tfm_encode_options){0}, line, bytes, alpha);
}

/* ---- Ids to text -------------------------------------------------------------------------------------- */

tfm_status tfm_tokenizer_decode(const tfm_tokenizer *tokenizer, char **text, const int32_t *ids, size_t count) {
    TFM__CLEAR_OUT(text);
    if (TFM__NEEDS("tokenizer_decode", tokenizer, text, ids || count == 0 ? "" : NULL) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    return tokenizer->parts.kind->decode(tokenizer->parts.self, text, ids, count);
}

tfm_status tfm_tokenizer_token_bytes(const tfm_tokenizer *tokenizer, char **bytes, size_t *count, int32_t id) {
    TFM__CLEAR_OUT(bytes);
    if (TFM__NEEDS("tokenizer_token_bytes", tokenizer, bytes, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    *count = 0;
    tfm__bytes all = {0};
    const char *piece = tfm_tokenizer_piece(tokenizer, TFM_TARGET, id);
    if (!piece)
        return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_token_bytes: the vocabulary has no id %d", (int)id);
    tfm_status status = tokenizer->parts.kind->token_bytes(tokenizer->parts.self, &all, id);
    if (status == TFM_OK && all.count == 0)
        tfm__bytes_add(&all, piece, strlen(piece));
    if (status != TFM_OK) {
        tfm__bytes_free(&all);
        return status;
    }
    *count = all.count;
    *bytes = tfm__bytes_take(&all);
    return *bytes ? TFM_OK : TFM_ERROR_MEMORY;
}

size_t tfm__tokenizer_incomplete(const tfm_tokenizer *tokenizer, const int32_t *ids, size_t count) {
    return tokenizer->parts.kind->incomplete(tokenizer->parts.self, ids, count);
}

tfm_status tfm__tokenizer_token_trie(tfm__token_trie **out, const tfm_tokenizer *tokenizer, size_t vocabulary) {
    const char **texts = tfm__alloc(vocabulary + 1, sizeof(*texts));
    size_t *begin = tfm__alloc(vocabulary + 1, sizeof(*begin));
    uint32_t *lengths = tfm__alloc(vocabulary + 1, sizeof(*lengths));
    tfm__bytes all = {0};
    tfm_status status = texts && begin && lengths ? TFM_OK : TFM_ERROR_MEMORY;
    *out = NULL;
    for (size_t i = 0; i < vocabulary && i < TFM__MAX_IDS && status == TFM_OK; i++) {
        begin[i] = all.count;
        status = tokenizer->parts.kind->token_bytes(tokenizer->parts.self, &all, (int32_t)i);
        lengths[i] = (uint32_t)(all.count - begin[i]);
    }
    if (all.failed)
        status = TFM_ERROR_MEMORY;
    for (size_t i = 0; i < vocabulary && status == TFM_OK; i++)
        texts[i] = lengths[i] ? all.data + begin[i] : "";
    if (status == TFM_OK)
        status = tfm__token_trie_new(out, vocabulary, texts, lengths);
    tfm__bytes_free(&all);
    free(texts);
    free(begin);
    free(lengths);
    return status;
}

void tfm_text_free(char **text) {
    if (text) {
        free(*text);
        *text = NULL;
    }
}
