#include <stdio.h>
#include "base/file.h"
#include "text/hf_tokenizer.h"
#include "text/tokenizer_kind.h"

/* ---- Text to ids -------------------------------------------------------------------------------------- */

/* One thread's memory for one call. It starts as {0}. */
typedef struct work {
    tfm__spans raw, cuts, spare;
    tfm__bytes part, other;
    tfm__regex_memory memory;
    tfm__scratch scratch;
} work;

static void work_free(work *w) {
    tfm__spans_free(&w->raw);
    tfm__spans_free(&w->cuts);
    tfm__spans_free(&w->spare);
    tfm__bytes_free(&w->part);
    tfm__bytes_free(&w->other);
    tfm__regex_memory_free(&w->memory);
    free(w->scratch.memory);
}

/* Fills `cuts` with the normalised text, cut at added tokens. */
static tfm_status normalise(const tfm__hf_tokenizer *t, work *w, const char *text, size_t bytes) {
    tfm_status status = TFM_OK;
    w->raw.count = w->cuts.count = w->cuts.text.count = 0;
    tfm__added_pieces_cut(&t->added, false, &w->raw, text, bytes, 0, true);
    for (size_t i = 0; i < w->raw.count && status == TFM_OK; i++) {
        const tfm__text_span *cut = &w->raw.items[i];
        const size_t base = w->cuts.text.count;
        bool start = cut->start;
        w->part.count = 0;
        tfm__bytes_add(&w->part, text + cut->begin, cut->end - cut->begin);
        if (cut->id < 0 && !w->part.failed)
            status = tfm__normalizer_run(t->normalizer, &w->part, &w->other, &start, &w->memory);
        tfm__bytes_add(&w->cuts.text, w->part.data, w->part.count);
        if (cut->id < 0)
            tfm__added_pieces_cut(&t->added, true, &w->cuts, w->part.data ? w->part.data : "", w->part.count, base,
                                  start);
        else
            tfm__spans_add(&w->cuts, base, w->cuts.text.count, cut->id, start);
        if (w->part.failed || w->cuts.text.failed)
            status = TFM_ERROR_MEMORY;
    }
    return status == TFM_OK && w->raw.text.failed ? TFM_ERROR_MEMORY : status;
}

static tfm_status add_text(const tfm__hf_tokenizer *t, work *w, tfm__ids *out, const char *text, size_t bytes) {
    tfm_status status = normalise(t, w, text, bytes);
    if (status == TFM_OK)
        status = tfm__pretokenizer_run(t->pretokenizer, &w->cuts, &w->spare, &w->memory);
    for (size_t i = 0; i < w->cuts.count && status == TFM_OK; i++) {
        const tfm__text_span *cut = &w->cuts.items[i];
        status = cut->id >= 0
                     ? tfm__ids_add(out, cut->id)
                     : t->model.cut(&t->model, out, w->cuts.text.data + cut->begin, cut->end - cut->begin, &w->scratch);
    }
    return status;
}

static tfm_status fill(const tfm__hf_tokenizer *t, work *w, tfm__ids *out, const tfm__ids *around, bool plain,
                       const tfm_encode_options *options, const char *text, size_t bytes) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < around->count && status == TFM_OK; i++) {
        const int32_t id = around->ids[i];
        if (id == TFM__TEMPLATE_A)
            status = add_text(t, w, out, text, bytes);
        else if (id == TFM__TEMPLATE_B)
            status = add_text(t, w, out, options->pair ? options->pair : "", options->pair ? options->pair_bytes : 0);
        else if (!plain)
            status = tfm__ids_add(out, id);
    }
    return status;
}

/* Whether a list of words, each with a blank after it, has this one. */
static bool is_listed(const char *list, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = list; at && *at; at += strcspn(at, " ") + 1)
        if (strncmp(at, word, length) == 0 && at[length] == ' ')
            return true;
    return false;
}

static int32_t language_id(const void *self, const char *code) {
    const tfm__hf_tokenizer *t = self;
    char name[256]; /* longer codes there are none */
    const int length =
        snprintf(name, sizeof(name), "%s%s%s", t->before ? t->before : "", code, t->behind ? t->behind : "");
    const bool fits = length > 0 && length < (int)sizeof(name);
    const int32_t id = fits ? tfm__lexicon_find(t->model.lexicon, name, (size_t)length) : -1;
    return tfm__added_piece_of(&t->added, id) || (id >= 0 && is_listed(t->codes, code)) ? id : -1;
}

/* The template of a text whose language is said. */
static tfm_status say_language(tfm__template *out, const tfm__hf_tokenizer *t, tfm_side side, const char *language) {
    if (!language)
        language = t->languages[side];
    if (!language)
        return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_encode: the model wants the language of the %s: name it",
                         side == TFM_SOURCE ? "source" : "target");
    const int32_t id = language_id(t, language);
    if (id < 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_encode: the tokenizer has no language \"%.100s\"", language);
    return t->place == TFM__LANGUAGE_FIRST ? tfm__template_around(out, id, t->eos, -1)
                                           : tfm__template_around(out, -1, t->eos, id);
}

static tfm_status encode(const void *self, tfm__ids *out, tfm_side side, const tfm_encode_options *options,
                         const char *text, size_t bytes, float alpha) {
    const tfm__hf_tokenizer *t = self;
    tfm__template spoken = {0};
    tfm_status status = TFM_OK;
    if (alpha > 0)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "tokenizer_encode: only Marian's tokenizers draw segmentations; leave "
                                                "the sampling of pieces out");
    if (t->place != TFM__LANGUAGE_NOWHERE && !options->plain)
        status = say_language(&spoken, t, side, options->language);
    else if (options->language && t->place == TFM__LANGUAGE_NOWHERE)
        return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_encode: the tokenizer has no languages; leave \"%.100s\" out",
                         options->language);
    const tfm__template *around = t->place != TFM__LANGUAGE_NOWHERE && !options->plain ? &spoken : &t->around;
    work w = {0};
    if (status == TFM_OK)
        status =
            fill(t, &w, out, options->pair ? &around->pair : &around->single, options->plain, options, text, bytes);
    work_free(&w);
    tfm__template_free(&spoken);
    return status;
}

/* ---- Ids to text -------------------------------------------------------------------------------------- */

/* NUL would end the text. */
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

/* The letters of an added token are its text and no bytes, unless the model makes it of bytes too. `tokenizers` takes
 * those for bytes that its table has, so that its `č` becomes U+FFFD; texts are to come back as they were here. */
static void add_own(tfm__bytes *out, const char *text) {
    for (; *text; text++)
        tfm__bytes_add_char(out, tfm__byte_char((unsigned char)*text));
}

static tfm_status decode(const void *self, char **text, const int32_t *ids, size_t count) {
    const tfm__hf_tokenizer *t = self;
    const bool by_bytes = tfm__decoder_is_byte_level(t->decoder) && !tfm__normalizer_has_bytes(t->normalizer);
    tfm__texts pieces = {0};
    tfm__bytes plain = {0}, clean = {0}, out = {0};
    for (size_t i = 0; i < count; i++) {
        const tfm__added_piece *added = tfm__added_piece_of(&t->added, ids[i]);
        size_t bytes;
        const char *piece = tfm__lexicon_piece(t->model.lexicon, ids[i], &bytes);
        if (!piece || (added && added->silent))
            continue;
        if (added && added->normal) {
            piece = added->normal;
            bytes = strlen(piece);
        }
        if (added && added->own && by_bytes)
            add_own(&pieces.bytes, piece);
        else
            tfm__bytes_add(&pieces.bytes, piece, bytes);
        tfm__texts_end(&pieces);
    }
    tfm_status status = pieces.bytes.failed ? TFM_ERROR_MEMORY : tfm__decoder_run(t->decoder, &plain, &pieces);
    if (status == TFM_OK && t->clean_up)
        status = tfm__clean_up(&clean, plain.data ? plain.data : "", plain.count);
    add_nul_free(&out, t->clean_up ? &clean : &plain);
    if (plain.failed || clean.failed)
        status = TFM_ERROR_MEMORY;
    char *done = tfm__bytes_take(&out);
    if (status == TFM_OK && !done)
        status = TFM_ERROR_MEMORY;
    tfm__texts_free(&pieces);
    tfm__bytes_free(&plain);
    tfm__bytes_free(&clean);
    if (status == TFM_OK)
        *text = done;
    else
        free(done);
    return status;
}

/* Bytes at the end may not be a character yet, and then all of a run of them are none. */
static size_t held(const void *self, const int32_t *ids, size_t count) {
    const tfm__hf_tokenizer *t = self;
    size_t held = 0;
    while (tfm__decoder_has_bytes(t->decoder) && held < count) {
        size_t bytes = 0;
        const char *piece = tfm__lexicon_piece(t->model.lexicon, ids[count - 1 - held], &bytes);
        const tfm__added_piece *added = tfm__added_piece_of(&t->added, ids[count - 1 - held]);
        if (piece && !(added && added->silent) && tfm__byte_piece(piece, bytes) < 0)
            break;
        held++;
    }
    return held;
}

static const char *piece_of(const void *self, tfm_side side, int32_t id) {
    (void)side;
    return tfm__lexicon_piece(((const tfm__hf_tokenizer *)self)->model.lexicon, id, NULL);
}

static int32_t find(const void *self, tfm_side side, const char *piece) {
    (void)side;
    return tfm__lexicon_find(((const tfm__hf_tokenizer *)self)->model.lexicon, piece, strlen(piece));
}

/* ---- Opening ------------------------------------------------------------------------------------------ */

static void close_hf(void *self) {
    tfm__hf_tokenizer *t = self;
    tfm__normalizer_free(&t->normalizer);
    tfm__pretokenizer_free(&t->pretokenizer);
    tfm__piece_model_free(&t->model);
    tfm__added_pieces_free(&t->added);
    tfm__template_free(&t->around);
    tfm__decoder_free(&t->decoder);
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
    .held = held,
};

tfm_status tfm__hf_read(tfm__hf_tokenizer *t, const json_t *root, const char *path) {
    tfm_status status = tfm__normalizer_read(&t->normalizer, json_object_get(root, "normalizer"), path);
    if (status == TFM_OK)
        status = tfm__pretokenizer_read(&t->pretokenizer, json_object_get(root, "pre_tokenizer"), path);
    if (status == TFM_OK)
        status = tfm__decoder_read(&t->decoder, json_object_get(root, "decoder"), path);
    if (status == TFM_OK)
        status = tfm__template_read(&t->around, json_object_get(root, "post_processor"), path);
    if (status == TFM_OK && !t->model.lexicon)
        status = tfm__piece_model_read(&t->model, json_object_get(root, "model"), path);
    if (status == TFM_OK)
        tfm__lexicon_close(t->model.lexicon);
    if (status == TFM_OK)
        status = tfm__added_pieces_read(&t->added, t->model.lexicon, json_object_get(root, "added_tokens"), path);
    return status;
}

/* An added token that the vocabulary has too is made of bytes only where the model makes it of its letters. */
static tfm_status find_own(tfm__hf_tokenizer *t) {
    tfm__ids ids = {0};
    tfm__scratch scratch = {0};
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < t->added.count && t->model.pairs && status == TFM_OK; i++) {
        tfm__added_piece *piece = &t->added.items[i];
        if (piece->own)
            continue;
        ids.count = 0;
        status = t->model.cut(&t->model, &ids, piece->text, strlen(piece->text), &scratch);
        piece->own = ids.count != 1 || ids.ids[0] != piece->id;
    }
    free(ids.ids);
    free(scratch.memory);
    return status;
}

tfm_status tfm__hf_end(tfm__hf_tokenizer *t) {
    const tfm_status status = tfm__added_pieces_end(&t->added, t->model.lexicon, t->normalizer);
    return status == TFM_OK ? find_own(t) : status;
}

/* What stands around texts are tokens that there are. */
static tfm_status check_around(const tfm__hf_tokenizer *t, const char *path) {
    for (int both = 0; both < 2; both++) {
        const tfm__ids *list = both ? &t->around.pair : &t->around.single;
        for (size_t i = 0; i < list->count; i++)
            if (list->ids[i] >= 0 && !tfm__lexicon_piece(t->model.lexicon, list->ids[i], NULL))
                return tfm__fail(TFM_ERROR_FORMAT, "%s: `post_processor` has the id %d, which no token has", path,
                                 (int)list->ids[i]);
    }
    return TFM_OK;
}

bool tfm__hf_tokenizer_there(const char *dir) {
    return tfm__file_exists_in(dir, "tokenizer.json") || tfm__hf_convertible(dir);
}

/* tokenizer.json, or what the older files come to. */
static tfm_status load(tfm__hf_tokenizer *t, json_t **root, char **path, const json_t *config, const char *dir) {
    *path = tfm__path_join(dir, "tokenizer.json");
    if (!*path)
        return TFM_ERROR_MEMORY;
    if (tfm__file_exists(*path))
        return tfm__json_load(root, *path);
    free(*path);
    *path = NULL;
    t->older = true;
    return tfm__hf_convert(root, &t->model, path, config, dir);
}

tfm_status tfm__hf_tokenizer_open(tfm__tokenizer_parts *out, const char *dir) {
    json_t *config = NULL, *root = NULL;
    char *path = NULL, *config_path = tfm__path_join(dir, "tokenizer_config.json");
    tfm__hf_tokenizer *t = config_path ? tfm__alloc(1, sizeof(*t)) : NULL;
    tfm_status status = t ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK && tfm__file_exists(config_path))
        status = tfm__json_load(&config, config_path);
    if (status == TFM_OK)
        status = load(t, &root, &path, config, dir);
    if (status == TFM_OK)
        status = tfm__hf_override(root, config, dir);
    if (status == TFM_OK)
        status = tfm__hf_read(t, root, path);
    json_decref(root);
    if (status == TFM_OK)
        status = tfm__hf_configure(t, &out->info, config, dir);
    if (status == TFM_OK)
        status = check_around(t, path);
    if (status == TFM_OK)
        status = tfm__hf_end(t);
    if (status == TFM_OK)
        status = tfm__tokenizer_languages(out->languages, config);
    json_decref(config);
    free(config_path);
    free(path);
    if (status == TFM_OK) {
        out->kind = &HF;
        out->self = t;
    } else if (t) {
        close_hf(t);
    }
    return status;
}
