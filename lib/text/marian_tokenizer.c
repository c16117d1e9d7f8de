/* The tokenizer of Marian / OPUS-MT directories: SentencePiece segments, vocab.json maps to ids. */
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "text/added_tokens.h"
#include "text/detokenize.h"
#include "text/marian_folder.h"
#include "text/replace_text.h"
#include "text/spm.h"
#include "text/tokenizer.h"
#include "text/tokenizer_kind.h"
#include "text/vocab.h"

/* SentencePiece counts bytes in an int, and normalization may triple them. */
#define MAX_CODE 256

/* One language's parts. The target may borrow the source's. */
typedef struct language {
    tfm__spm *spm;
    tfm__vocab *vocab;
    int32_t eos, unk, pad; /* pad: -1 for none */
    const tfm__added_tokens *added;
    bool own; /* SentencePiece's ids are the model's, and it gets the line unchanged */
} language;

typedef struct marian {
    language sides[2]; /* by tfm_side */
    tfm__added_tokens added, none;
} marian;

static void free_side(language *s, const language *lender) {
    if (s->spm != lender->spm)
        tfm__spm_free(&s->spm);
    if (s->vocab != lender->vocab)
        tfm__vocab_free(&s->vocab);
}

/* ---- Opening ------------------------------------------------------------------------------------------ */

static tfm_status open_one_spm(tfm__spm **out, tfm__file *file, const char *path) {
    tfm_status status = tfm__file_map(file, path);
    return status == TFM_OK ? tfm__spm_open(out, file->data, file->size, path) : status;
}

/* Shared vocabularies usually have the same file twice; it is loaded once then. */
static tfm_status open_spms(marian *tokenizer, const char *source_path, const char *target_path) {
    tfm__file source = {0}, target = {0};
    language *sides = tokenizer->sides;
    tfm_status status = open_one_spm(&sides[TFM_SOURCE].spm, &source, source_path);
    if (status == TFM_OK)
        status = tfm__file_map(&target, target_path);
    if (status == TFM_OK) {
        if (source.size == target.size && memcmp(source.data, target.data, source.size) == 0)
            sides[TFM_TARGET].spm = sides[TFM_SOURCE].spm;
        else
            status = tfm__spm_open(&sides[TFM_TARGET].spm, target.data, target.size, target_path);
    }
    tfm__file_unmap(&source);
    tfm__file_unmap(&target);
    return status;
}

/* The id of a special token, or -1: its name is in tokenizer_config.json as a string or as {"content": ...}, if
 * anywhere. */
static tfm_status find_special(int32_t *out, const tfm__vocab *vocab, const json_t *config, const char *key,
                               const char *fallback, const char *config_path, const char *vocab_path) {
    const json_t *value = json_object_get(config, key);
    if (json_is_object(value))
        value = json_object_get(value, "content");
    if (value && !json_is_null(value) && !json_is_string(value))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %s; a string is allowed", config_path, key,
                         tfm__json_text((char[TFM__JSON_TEXT]){0}, value));
    const char *piece = json_is_string(value) ? json_string_value(value) : fallback;
    *out = tfm__vocab_id(vocab, piece);
    if (*out < 0 && strcmp(key, "pad_token") != 0) /* config.json has the id of the padding */
        return tfm__fail(TFM_ERROR_FORMAT, "%s has no \"%.100s\", which is the `%s`", vocab_path, piece, key);
    return TFM_OK;
}

static tfm_status find_specials(language *s, const json_t *config, const char *config_path, const char *vocab_path) {
    tfm_status status = find_special(&s->eos, s->vocab, config, "eos_token", "</s>", config_path, vocab_path);
    if (status == TFM_OK)
        status = find_special(&s->unk, s->vocab, config, "unk_token", "<unk>", config_path, vocab_path);
    if (status == TFM_OK)
        status = find_special(&s->pad, s->vocab, config, "pad_token", "<pad>", config_path, vocab_path);
    return status;
}

static tfm_status open_vocabs(marian *tokenizer, const json_t *config, const char *config_path, const char *source_path,
                              const char *target_path, const char *added_path) {
    const json_t *value = json_object_get(config, "separate_vocabs");
    if (value && !json_is_null(value) && !json_is_boolean(value))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `separate_vocabs` is %s; true or false is allowed", config_path,
                         tfm__json_text((char[TFM__JSON_TEXT]){0}, value));
    bool separate = json_is_boolean(value) ? json_is_true(value) : tfm__file_exists(target_path);
    language *source = &tokenizer->sides[TFM_SOURCE], *target = &tokenizer->sides[TFM_TARGET];
    tfm_status status = tfm__vocab_open(&source->vocab, source_path);
    source->added = &tokenizer->added;
    if (status == TFM_OK)
        status = tfm__added_tokens_open(&tokenizer->added, source->vocab, config, config_path, added_path);
    if (status == TFM_OK)
        status = find_specials(source, config, config_path, source_path);
    if (status == TFM_OK && !separate) {
        *target = (language){target->spm, source->vocab, source->eos, source->unk, source->pad, source->added, false};
        return TFM_OK;
    }
    target->added = &tokenizer->none;
    if (status == TFM_OK)
        status = tfm__vocab_open(&target->vocab, target_path);
    if (status == TFM_OK)
        status = find_specials(target, config, config_path, target_path);
    return status;
}

/* ---- Marian vocabularies ------------------------------------------------------------------------------ */

static const char *own_piece(const void *spm, size_t id) {
    return tfm__spm_piece(spm, id);
}

static tfm_status list_pieces(language *s, const char *path, const tfm__added_tokens *none) {
    s->own = true;
    s->added = none;
    tfm_status status = tfm__vocab_from_list(&s->vocab, own_piece, s->spm, tfm__spm_size(s->spm), path);
    return status == TFM_OK ? find_specials(s, NULL, path, path) : status;
}

/* The vocabularies are SentencePiece models, whose ids are the model's. */
static tfm_status open_marian_folder(marian *tokenizer, const tfm__marian_folder *files, const char *dir) {
    language *source = &tokenizer->sides[TFM_SOURCE], *target = &tokenizer->sides[TFM_TARGET];
    const char *const paths[] = {files->source, files->target};
    for (int i = 0; i < 2; i++) {
        const char *end = paths[i] ? strrchr(paths[i], '.') : NULL;
        if (!paths[i])
            return tfm__fail(TFM_ERROR_IO, "%s has no vocabulary: name it vocab.spm, or in `vocabs` of a YAML file",
                             dir);
        if (!end || strcmp(end, ".spm") != 0)
            return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s is not an .spm file: word vocabularies are not supported",
                             paths[i]);
    }
    tfm_status status = open_spms(tokenizer, files->source, files->target);
    if (status == TFM_OK)
        status = list_pieces(source, files->source, &tokenizer->none);
    if (status == TFM_OK && target->spm == source->spm)
        *target = *source;
    else if (status == TFM_OK)
        status = list_pieces(target, files->target, &tokenizer->none);
    return status;
}

enum { CONFIG, SOURCE_SPM, TARGET_SPM, VOCAB, TARGET_VOCAB, ADDED, FILES };

static tfm_status open_files(marian *tokenizer, char *names[2], char *const paths[FILES]) {
    json_t *config = NULL;
    tfm_status status = tfm__file_exists(paths[CONFIG]) ? tfm__json_load(&config, paths[CONFIG]) : TFM_OK;
    if (status == TFM_OK)
        status = open_vocabs(tokenizer, config, paths[CONFIG], paths[VOCAB], paths[TARGET_VOCAB], paths[ADDED]);
    if (status == TFM_OK)
        status = tfm__tokenizer_languages(names, config);
    json_decref(config);
    if (status == TFM_OK)
        status = open_spms(tokenizer, paths[SOURCE_SPM], paths[TARGET_SPM]);
    return status;
}

static void fill_info(tfm_tokenizer_info *info, const marian *tokenizer) {
    const language *source = &tokenizer->sides[TFM_SOURCE], *target = &tokenizer->sides[TFM_TARGET];
    *info = (tfm_tokenizer_info){
        .source_size = tfm__vocab_size(source->vocab),
        .target_size = tfm__vocab_size(target->vocab),
        .separate = source->vocab != target->vocab,
        .source_eos = source->eos,
        .source_unk = source->unk,
        .source_pad = source->pad,
        .target_eos = target->eos,
        .target_unk = target->unk,
        .target_pad = target->pad,
        .bos = -1,
        .cls = -1,
        .sep = -1,
        .mask = -1,
    };
}

static void close_marian(void *self) {
    static const language NOBODY = {0};
    marian *tokenizer = self;
    free_side(&tokenizer->sides[TFM_TARGET], &tokenizer->sides[TFM_SOURCE]);
    free_side(&tokenizer->sides[TFM_SOURCE], &NOBODY);
    tfm__added_tokens_free(&tokenizer->added);
    free(tokenizer);
}

/* ---- Text to ids -------------------------------------------------------------------------------------- */

size_t tfm__language_code_bytes(const char *line, size_t bytes) {
    if (bytes < 5 || memcmp(line, ">>", 2) != 0)
        return 0;
    const char *end = memmem(line + 3, (bytes < MAX_CODE ? bytes : MAX_CODE) - 3, "<<", 2);
    return end ? (size_t)(end + 2 - line) : 0;
}

/* The id and length of the language code at the start of the line; 0 bytes if there is none. Marian's tokenizer removes
 * it before SentencePiece. */
static tfm_status take_code(int32_t *id, size_t *bytes, const language *s, const char *line, size_t length) {
    *bytes = s->own ? 0 : tfm__language_code_bytes(line, length);
    if (*bytes == 0)
        return TFM_OK;
    char *code = tfm__format("%.*s", (int)*bytes, line);
    if (!code)
        return TFM_ERROR_MEMORY;
    *id = tfm__vocab_id(s->vocab, code);
    free(code);
    return TFM_OK;
}

/* Encodes text without added tokens. Leaves space for one more id. */
static tfm_status encode_text(const language *s, tfm__id_buffer *out, tfm__pieces *pieces, const char *text,
                              size_t bytes, float alpha) {
    int32_t code = -1;
    size_t cut;
    tfm_status status = take_code(&code, &cut, s, text, bytes);
    if (status == TFM_OK)
        status = tfm__spm_sample(s->spm, pieces, text + cut, bytes - cut, alpha);
    if (status == TFM_OK)
        status = tfm__id_buffer_reserve(out, pieces->count + 2);
    if (status != TFM_OK)
        return status;
    if (cut)
        out->ids[out->count++] = code < 0 ? s->unk : code;
    for (size_t i = 0; i < pieces->count; i++) {
        int32_t id = tfm__vocab_id(s->vocab, pieces->bytes + pieces->starts[i]);
        out->ids[out->count++] = id < 0 ? s->unk : id;
    }
    return TFM_OK;
}

/* Encodes the parts between added tokens separately. */
static tfm_status encode_line(const language *s, tfm__id_buffer *out, tfm__pieces *pieces, const char *line,
                              size_t bytes, float alpha) {
    tfm__added_token_scan scan;
    tfm_status status = tfm__added_token_scan_begin(&scan, s->added, line, bytes);
    for (size_t begin = 0; status == TFM_OK;) {
        size_t end = begin;
        const tfm__added_token *token = tfm__added_token_scan_next(&scan, &end);
        status = encode_text(s, out, pieces, line + begin, end - begin, alpha);
        if (status != TFM_OK || !token)
            break;
        out->ids[out->count++] = token->id;
        begin = end + token->bytes;
    }
    tfm__added_token_scan_end(&scan);
    return status;
}

static tfm_status encode(const void *self, tfm__id_buffer *out, tfm_side side, const tfm_encode_options *options,
                         const char *line, size_t bytes, float alpha) {
    const language *s = &((const marian *)self)->sides[side];
    if (options->language || options->text_pair)
        return tfm__fail(
            TFM_ERROR_UNSUPPORTED,
            "tokenizer_encode: a Marian tokenizer takes no %s; its language codes, such as >>fra<<, are in "
            "the text",
            options->language ? "`language`" : "`pair`");
    tfm__pieces pieces = {0};
    tfm_status status = encode_line(s, out, &pieces, line, bytes, alpha);
    tfm__pieces_free(&pieces);
    if (status == TFM_OK && !options->no_special_tokens)
        out->ids[out->count++] = s->eos;
    return status;
}

/* ---- Ids to text -------------------------------------------------------------------------------------- */

/* Trims blanks, and replaces the blank's sign in pieces unknown to SentencePiece. */
static void tidy(char *text) {
    static const char SIGN[] = "\xe2\x96\x81";
    char *to = text;
    for (const char *from = text; *from;) {
        bool sign = strncmp(from, SIGN, 3) == 0;
        char byte = sign ? ' ' : *from;
        from += sign ? 3 : 1;
        if (byte != ' ' || to != text)
            *to++ = byte;
    }
    while (to != text && to[-1] == ' ')
        to--;
    *to = '\0';
}

static tfm_status decode(const void *self, char **text, const int32_t *ids, size_t count) {
    const language *s = &((const marian *)self)->sides[TFM_TARGET];
    const char **pieces = tfm__alloc(count, sizeof(*pieces));
    if (!pieces)
        return TFM_ERROR_MEMORY;
    size_t used = 0;
    for (size_t i = 0; i < count && ids[i] != s->eos; i++) {
        const char *piece = ids[i] == s->pad ? NULL : tfm__vocab_piece(s->vocab, ids[i]);
        if (piece)
            pieces[used++] = piece;
    }
    tfm_status status = tfm__spm_decode(s->spm, text, pieces, used);
    free(pieces);
    if (status == TFM_OK)
        tidy(*text);
    return status;
}

static const char *piece_of(const void *self, tfm_side side, int32_t id) {
    return tfm__vocab_piece(((const marian *)self)->sides[side].vocab, id);
}

static int32_t find(const void *self, tfm_side side, const char *piece) {
    return tfm__vocab_id(((const marian *)self)->sides[side].vocab, piece);
}

static int32_t language_id(const void *self, const char *code) {
    char piece[256]; /* no code is longer */
    const int length = snprintf(piece, sizeof(piece), ">>%s<<", code);
    return length < (int)sizeof(piece) ? tfm__vocab_id(((const marian *)self)->sides[TFM_SOURCE].vocab, piece) : -1;
}

static size_t incomplete(const void *self, const int32_t *ids, size_t count) {
    (void)self, (void)ids, (void)count;
    return 0;
}

static tfm_status token_bytes(const void *self, tfm__bytes *out, int32_t id) {
    static const char SIGN[] = "\xe2\x96\x81";
    const language *s = &((const marian *)self)->sides[TFM_TARGET];
    const char *piece = id == s->eos || id == s->pad || id == s->unk ? NULL : tfm__vocab_piece(s->vocab, id);
    const int byte = piece ? tfm__parse_byte_piece(piece, strlen(piece)) : -1;
    if (byte >= 0)
        tfm__bytes_add(out, &(char){(char)byte}, 1);
    else if (piece)
        tfm__replace_all(out, piece, strlen(piece), SIGN, 3, " ", 1);
    return TFM_OK;
}

static const tfm__tokenizer_kind MARIAN = {
    .name = "marian",
    .close = close_marian,
    .encode = encode,
    .decode = decode,
    .piece = piece_of,
    .find = find,
    .language_id = language_id,
    .incomplete = incomplete,
    .token_bytes = token_bytes,
};

tfm_status tfm__marian_tokenizer_open(tfm__tokenizer_parts *out, const char *dir) {
    static const char *const NAMES[FILES] = {
        [CONFIG] = "tokenizer_config.json",   [SOURCE_SPM] = "source.spm",
        [TARGET_SPM] = "target.spm",          [VOCAB] = "vocab.json",
        [TARGET_VOCAB] = "target_vocab.json", [ADDED] = "added_tokens.json",
    };
    char *paths[FILES] = {0};
    marian *tokenizer = tfm__alloc(1, sizeof(*tokenizer));
    tfm_status status = tokenizer ? TFM_OK : TFM_ERROR_MEMORY;
    for (int i = 0; i < FILES && status == TFM_OK; i++) {
        paths[i] = tfm__path_join(dir, NAMES[i]);
        status = paths[i] ? TFM_OK : TFM_ERROR_MEMORY;
    }
    tfm__marian_folder own = {0};
    if (status == TFM_OK && !tfm__file_exists(paths[VOCAB]))
        status = tfm__marian_folder_find(&own, dir);
    if (status == TFM_OK)
        status = own.model ? open_marian_folder(tokenizer, &own, dir) : open_files(tokenizer, out->languages, paths);
    tfm__marian_folder_free(&own);
    if (status == TFM_OK)
        fill_info(&out->info, tokenizer);
    for (int i = 0; i < FILES; i++)
        free(paths[i]);
    if (status == TFM_OK) {
        out->kind = &MARIAN;
        out->self = tokenizer;
    } else if (tokenizer) {
        close_marian(tokenizer);
    }
    return status;
}
