#include <stdio.h>
#include "base/file.h"
#include "text/hf_scan.h"
#include "text/hf_tokenizer.h"
#include "text/replace_text.h"
#include "text/tokenizer_kind.h"

/* ---- Text to ids -------------------------------------------------------------------------------------- */

/* One thread's memory for one call, initially {0}. */
typedef struct encode_state {
    tfm__spans raw, spans, spare;
    tfm__bytes part, other;
    tfm__regex_memory memory;
    tfm__scratch scratch;
} encode_state;

static void encode_state_free(encode_state *w) {
    tfm__spans_free(&w->raw);
    tfm__spans_free(&w->spans);
    tfm__spans_free(&w->spare);
    tfm__bytes_free(&w->part);
    tfm__bytes_free(&w->other);
    tfm__regex_memory_free(&w->memory);
    free(w->scratch.memory);
}

/* Fills `spans` with the normalized text, split at added tokens. */
static tfm_status normalize(const tfm__hf_tokenizer *t, encode_state *w, const char *text, size_t bytes) {
    tfm_status status = TFM_OK;
    w->raw.count = w->spans.count = w->spans.text.count = 0;
    tfm__hf_added_tokens_split(&t->added, false, &w->raw, text, bytes, 0, true);
    for (size_t i = 0; i < w->raw.count && status == TFM_OK; i++) {
        const tfm__text_span *span = &w->raw.items[i];
        const size_t base = w->spans.text.count;
        bool start = span->start;
        w->part.count = 0;
        tfm__bytes_add(&w->part, text + span->begin, span->end - span->begin);
        if (span->id < 0 && !w->part.failed)
            status = tfm__normalizer_run(t->normalizer, &w->part, &w->other, &start, &w->memory);
        tfm__bytes_add(&w->spans.text, w->part.data, w->part.count);
        if (span->id < 0)
            tfm__hf_added_tokens_split(&t->added, true, &w->spans, w->part.data ? w->part.data : "", w->part.count,
                                       base, start);
        else
            tfm__spans_add(&w->spans, base, w->spans.text.count, span->id, start);
        if (w->part.failed || w->spans.text.failed)
            status = TFM_ERROR_MEMORY;
    }
    return status == TFM_OK && w->raw.text.failed ? TFM_ERROR_MEMORY : status;
}

static tfm_status add_text(const tfm__hf_tokenizer *t, encode_state *w, tfm__id_buffer *out, const char *text,
                           size_t bytes) {
    tfm_status status = normalize(t, w, text, bytes);
    if (status == TFM_OK)
        status = tfm__pretokenizer_run(t->pretokenizer, &w->spans, &w->spare, &w->memory);
    for (size_t i = 0; i < w->spans.count && status == TFM_OK; i++) {
        const tfm__text_span *span = &w->spans.items[i];
        status = span->id >= 0 ? tfm__id_buffer_add(out, span->id)
                               : t->model.encode_word(&t->model, out, w->spans.text.data + span->begin,
                                                      span->end - span->begin, &w->scratch);
    }
    return status;
}

static tfm_status fill(const tfm__hf_tokenizer *t, encode_state *w, tfm__id_buffer *out, const tfm__id_buffer *around,
                       bool plain, const tfm_encode_options *options, const char *text, size_t bytes) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < around->count && status == TFM_OK; i++) {
        const int32_t id = around->ids[i];
        if (id == TFM__TEMPLATE_A)
            status = add_text(t, w, out, text, bytes);
        else if (id == TFM__TEMPLATE_B)
            status = add_text(t, w, out, options->text_pair ? options->text_pair : "",
                              options->text_pair ? options->text_pair_bytes : 0);
        else if (!plain)
            status = tfm__id_buffer_add(out, id);
    }
    return status;
}

/* Whether a list of words, each with a blank after it, contains this one. */
static bool is_listed(const char *list, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = list; at && *at; at += strcspn(at, " ") + 1)
        if (strncmp(at, word, length) == 0 && at[length] == ' ')
            return true;
    return false;
}

static int32_t language_id(const void *self, const char *code) {
    const tfm__hf_tokenizer *t = self;
    char name[256]; /* no code is longer */
    const int length = snprintf(name, sizeof(name), "%s%s%s", t->language_prefix ? t->language_prefix : "", code,
                                t->language_suffix ? t->language_suffix : "");
    const bool fits = length > 0 && length < (int)sizeof(name);
    const int32_t id = fits ? tfm__token_map_find(t->model.token_map, name, (size_t)length) : -1;
    return tfm__hf_added_token_by_id(&t->added, id) || (id >= 0 && is_listed(t->codes, code)) ? id : -1;
}

/* The template of a text with a given language. */
static tfm_status language_template(tfm__template *out, const tfm__hf_tokenizer *t, tfm_side side,
                                    const char *language) {
    if (!language)
        language = t->languages[side];
    if (!language)
        return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_encode: the model needs the language of the %s: name it",
                         side == TFM_SOURCE ? "source" : "target");
    const int32_t id = language_id(t, language);
    if (id < 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_encode: the tokenizer has no language \"%.100s\"", language);
    return t->language_position == TFM__LANGUAGE_FIRST ? tfm__template_from_ids(out, id, t->eos, -1)
                                                       : tfm__template_from_ids(out, -1, t->eos, id);
}

static tfm_status encode(const void *self, tfm__id_buffer *out, tfm_side side, const tfm_encode_options *options,
                         const char *text, size_t bytes, float alpha) {
    const tfm__hf_tokenizer *t = self;
    tfm__template language_ids = {0};
    tfm_status status = TFM_OK;
    if (alpha > 0)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "tokenizer_encode: only Marian's tokenizers sample segmentations; "
                                                "disable subword sampling");
    if (t->language_position != TFM__LANGUAGE_NONE && !options->no_special_tokens)
        status = language_template(&language_ids, t, side, options->language);
    else if (options->language && t->language_position == TFM__LANGUAGE_NONE)
        return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_encode: the tokenizer has no languages; omit \"%.100s\"",
                         options->language);
    const tfm__template *around =
        t->language_position != TFM__LANGUAGE_NONE && !options->no_special_tokens ? &language_ids : &t->template;
    encode_state w = {0};
    if (status == TFM_OK)
        status = fill(t, &w, out, options->text_pair ? &around->pair : &around->single, options->no_special_tokens,
                      options, text, bytes);
    encode_state_free(&w);
    tfm__template_free(&language_ids);
    return status;
}

/* ---- Ids to text -------------------------------------------------------------------------------------- */

/* Strips NULs, which would end the text. */
static void add_nul_free(tfm__bytes *out, const tfm__bytes *text) {
    for (size_t at = 0; at < text->count;) {
        const char *from = text->data + at, *nul = memchr(from, '\0', text->count - at);
        const size_t length = nul ? (size_t)(nul - from) : text->count - at;
        tfm__bytes_add(out, from, length);
        if (nul)
            tfm__bytes_add(out, "\xef\xbf\xbd", 3);
        at += length + (nul != NULL);
    }
}

/* An added token decodes to its characters, not to bytes, unless the model builds it from bytes too. `tokenizers` maps
 * its characters to bytes, so that `č` becomes U+FFFD; here texts round-trip. */
static void add_own(tfm__bytes *out, const char *text) {
    for (; *text; text++)
        tfm__bytes_add_char(out, tfm__byte_to_char((unsigned char)*text));
}

/* Whether pieces have GPT-2's characters for bytes, but not texts before the model. */
static bool is_by_bytes(const tfm__hf_tokenizer *t) {
    return tfm__detokenizer_is_byte_level(t->decoder) && !tfm__normalizer_is_byte_level(t->normalizer);
}

static tfm_status decode(const void *self, char **text, const int32_t *ids, size_t count) {
    const tfm__hf_tokenizer *t = self;
    const bool by_bytes = is_by_bytes(t);
    tfm__string_list pieces = {0};
    tfm__bytes plain = {0}, clean = {0}, out = {0};
    for (size_t i = 0; i < count; i++) {
        const tfm__hf_added_token *added = tfm__hf_added_token_by_id(&t->added, ids[i]);
        size_t bytes;
        const char *piece = tfm__token_map_piece(t->model.token_map, ids[i], &bytes);
        if (!piece || (added && added->skipped))
            continue;
        if (added && added->normal) {
            piece = added->normal;
            bytes = strlen(piece);
        }
        if (added && added->literal && by_bytes)
            add_own(&pieces.bytes, piece);
        else
            tfm__bytes_add(&pieces.bytes, piece, bytes);
        tfm__string_list_end(&pieces);
    }
    tfm_status status = pieces.bytes.failed ? TFM_ERROR_MEMORY : tfm__detokenizer_run(t->decoder, &plain, &pieces);
    if (status == TFM_OK && t->clean_up)
        status = tfm__clean_up_spaces(&clean, plain.data ? plain.data : "", plain.count);
    add_nul_free(&out, t->clean_up ? &clean : &plain);
    if (plain.failed || clean.failed)
        status = TFM_ERROR_MEMORY;
    char *done = tfm__bytes_take(&out);
    if (status == TFM_OK && !done)
        status = TFM_ERROR_MEMORY;
    tfm__string_list_free(&pieces);
    tfm__bytes_free(&plain);
    tfm__bytes_free(&clean);
    if (status == TFM_OK)
        *text = done;
    else
        free(done);
    return status;
}

/* Trailing bytes may be an incomplete character, which makes the whole run undecodable. */
static size_t incomplete(const void *self, const int32_t *ids, size_t count) {
    const tfm__hf_tokenizer *t = self;
    size_t incomplete = 0;
    while (tfm__detokenizer_has_byte_fallback(t->decoder) && incomplete < count) {
        size_t bytes = 0;
        const char *piece = tfm__token_map_piece(t->model.token_map, ids[count - 1 - incomplete], &bytes);
        const tfm__hf_added_token *added = tfm__hf_added_token_by_id(&t->added, ids[count - 1 - incomplete]);
        if (piece && !(added && added->skipped) && tfm__parse_byte_piece(piece, bytes) < 0)
            break;
        incomplete++;
    }
    return incomplete;
}

static tfm_status token_bytes(const void *self, tfm__bytes *out, int32_t id) {
    const tfm__hf_tokenizer *t = self;
    const tfm__hf_added_token *added = tfm__hf_added_token_by_id(&t->added, id);
    size_t bytes = 0;
    const char *piece = tfm__token_map_piece(t->model.token_map, id, &bytes);
    if (!piece || (added && (added->skipped || added->special)))
        return TFM_OK;
    if (added && added->normal) {
        piece = added->normal;
        bytes = strlen(piece);
    }
    if (!added || !added->literal || !is_by_bytes(t))
        return tfm__detokenizer_token(t->decoder, out, piece, bytes);
    tfm__bytes_add(out, piece, bytes);
    return TFM_OK;
}

static const char *piece_of(const void *self, tfm_side side, int32_t id) {
    (void)side;
    return tfm__token_map_piece(((const tfm__hf_tokenizer *)self)->model.token_map, id, NULL);
}

static int32_t find(const void *self, tfm_side side, const char *piece) {
    (void)side;
    return tfm__token_map_find(((const tfm__hf_tokenizer *)self)->model.token_map, piece, strlen(piece));
}

/* ---- Opening ------------------------------------------------------------------------------------------ */

static void close_hf(void *self) {
    tfm__hf_tokenizer *t = self;
    tfm__normalizer_free(&t->normalizer);
    tfm__pretokenizer_free(&t->pretokenizer);
    tfm__subword_model_free(&t->model);
    tfm__hf_added_tokens_free(&t->added);
    tfm__template_free(&t->template);
    tfm__detokenizer_free(&t->decoder);
    free(t->languages[TFM_SOURCE]);
    free(t->languages[TFM_TARGET]);
    free(t);
}

static const tfm__tokenizer_kind HF = {
    .name = "tokenizers",
    .close = close_hf,
    .encode = encode,
    .decode = decode,
    .piece = piece_of,
    .find = find,
    .language_id = language_id,
    .incomplete = incomplete,
    .token_bytes = token_bytes,
};

tfm_status tfm__hf_hand_over(tfm__tokenizer_parts *out, tfm__hf_tokenizer *tokenizer, tfm_status status) {
    if (status == TFM_OK) {
        out->kind = &HF;
        out->self = tokenizer;
    } else if (tokenizer) {
        close_hf(tokenizer);
    }
    return status;
}

tfm_status tfm__hf_read(tfm__hf_tokenizer *t, const json_t *root, const char *path) {
    tfm_status status = tfm__normalizer_read(&t->normalizer, json_object_get(root, "normalizer"), path);
    if (status == TFM_OK)
        status = tfm__pretokenizer_read(&t->pretokenizer, json_object_get(root, "pre_tokenizer"), path);
    if (status == TFM_OK)
        status = tfm__detokenizer_read(&t->decoder, json_object_get(root, "decoder"), path);
    if (status == TFM_OK)
        status = tfm__template_read(&t->template, json_object_get(root, "post_processor"), path);
    if (status == TFM_OK && !t->model.token_map)
        status = tfm__subword_model_read(&t->model, json_object_get(root, "model"), path);
    if (status == TFM_OK)
        status = tfm__hf_added_tokens_read(&t->added, t->model.token_map, json_object_get(root, "added_tokens"), path);
    return status;
}

/* An added token of the vocabulary decodes to bytes only if the model builds it from its characters. */
static tfm_status find_literal(tfm__hf_tokenizer *t) {
    tfm__id_buffer ids = {0};
    tfm__scratch scratch = {0};
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < t->added.count && t->model.is_bpe && status == TFM_OK; i++) {
        tfm__hf_added_token *piece = &t->added.items[i];
        if (piece->literal)
            continue;
        ids.count = 0;
        status = t->model.encode_word(&t->model, &ids, piece->text, strlen(piece->text), &scratch);
        piece->literal = ids.count != 1 || ids.ids[0] != piece->id;
    }
    free(ids.ids);
    free(scratch.memory);
    return status;
}

tfm_status tfm__hf_finish(tfm__hf_tokenizer *t) {
    const tfm_status status = tfm__hf_added_tokens_finish(&t->added, t->model.token_map, t->normalizer);
    return status == TFM_OK ? find_literal(t) : status;
}

/* Checks that template ids exist. */
static tfm_status check_template(const tfm__hf_tokenizer *t, const char *path) {
    for (int both = 0; both < 2; both++) {
        const tfm__id_buffer *list = both ? &t->template.pair : &t->template.single;
        for (size_t i = 0; i < list->count; i++)
            if (list->ids[i] >= 0 && !tfm__token_map_piece(t->model.token_map, list->ids[i], NULL))
                return tfm__fail(TFM_ERROR_FORMAT, "%s: `post_processor` has the id %d, which no token has", path,
                                 (int)list->ids[i]);
    }
    return TFM_OK;
}

bool tfm__hf_tokenizer_exists(const char *dir) {
    return tfm__file_exists_in(dir, "tokenizer.json") || tfm__hf_convertible(dir);
}

tfm_status tfm__hf_load(json_t **root, tfm__subword_model *model, bool *older, char **path, const json_t *config,
                        const char *dir) {
    *path = tfm__path_join(dir, "tokenizer.json");
    if (!*path)
        return TFM_ERROR_MEMORY;
    *older = !tfm__file_exists(*path);
    if (!*older)
        return tfm__json_load(root, *path);
    free(*path);
    *path = NULL;
    return tfm__hf_convert(root, model, path, config, dir);
}

/* tfm__hf_load, without a JSON tree of the vocabulary if possible. */
static tfm_status load(json_t **root, tfm__hf_tokenizer *t, char **path, const json_t *config, const char *dir) {
    *path = tfm__path_join(dir, "tokenizer.json");
    if (!*path)
        return TFM_ERROR_MEMORY;
    if (tfm__file_exists(*path) && tfm__hf_scan(root, &t->model, *path))
        return TFM_OK;
    free(*path);
    return tfm__hf_load(root, &t->model, &t->legacy_files, path, config, dir);
}

tfm_status tfm__hf_tokenizer_open(tfm__tokenizer_parts *out, const char *dir) {
    json_t *config = NULL, *root = NULL;
    char *path = NULL, *config_path = tfm__path_join(dir, "tokenizer_config.json");
    tfm__hf_tokenizer *t = config_path ? tfm__alloc(1, sizeof(*t)) : NULL;
    tfm_status status = t ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK && tfm__file_exists(config_path))
        status = tfm__json_load(&config, config_path);
    if (status == TFM_OK)
        status = load(&root, t, &path, config, dir);
    if (status == TFM_OK)
        status = tfm__hf_override(root, config, dir);
    if (status == TFM_OK)
        status = tfm__hf_read(t, root, path);
    json_decref(root);
    if (status == TFM_OK)
        status = tfm__hf_configure(t, &out->info, config, dir);
    if (status == TFM_OK)
        status = check_template(t, path);
    if (status == TFM_OK)
        status = tfm__hf_finish(t);
    if (status == TFM_OK)
        status = tfm__tokenizer_languages(out->languages, config);
    json_decref(config);
    free(config_path);
    free(path);
    return tfm__hf_hand_over(out, t, status);
}
