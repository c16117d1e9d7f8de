/* The vocabulary of a language model: pieces trained by SentencePiece, as a tokenizer.json. */
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "text/documents.h"
#include "text/spm.h"
#include "text/utf8.h"
#include "text/vocab_train.h"

/* The sign of a blank in pieces, U+2581. */
#define BLANK "\xe2\x96\x81"

enum { UNKNOWN, BEGIN, END, SPECIALS };
static const char *const NAMES[SPECIALS] = {"<unk>", "<s>", "</s>"};

/* ---- The model ---------------------------------------------------------------------------------------- */

static json_t *vocab_json(const tfm__spm *spm) {
    json_t *ids = json_object();
    for (size_t i = 0; ids && i < tfm__spm_size(spm); i++)
        if (json_object_set_new(ids, tfm__spm_piece(spm, i), json_integer((json_int_t)i)) != 0) {
            json_decref(ids);
            ids = NULL;
        }
    return ids;
}

/* Two pieces that merge. */
typedef struct merge {
    json_int_t left, right;
} merge;

static int by_ids(const void *a, const void *b) {
    const merge *x = a, *y = b;
    const json_int_t before = x->left != y->left ? x->left - y->left : x->right - y->right;
    return before < 0 ? -1 : before > 0;
}

/* Adds the merges of a piece: SentencePiece merges any two neighbors that form a piece. */
static bool add_merges(json_t *list, const json_t *ids, const tfm__spm *spm, const char *piece) {
    enum { MAX_MERGES = 256 }; /* a piece has at most 16 characters */
    merge found[MAX_MERGES];
    size_t count = 0;
    const size_t length = strlen(piece);
    for (size_t cut = 1; cut < length && count < MAX_MERGES; cut++) {
        char left[MAX_MERGES * 4];
        if (((unsigned char)piece[cut] & 0xc0) == 0x80 || cut >= sizeof(left)) /* within a character */
            continue;
        memcpy(left, piece, cut);
        left[cut] = 0;
        const json_t *a = json_object_get(ids, left), *b = json_object_get(ids, piece + cut);
        if (a && b)
            found[count++] = (merge){json_integer_value(a), json_integer_value(b)};
    }
    qsort(found, count, sizeof(*found), by_ids);
    bool good = true;
    for (size_t i = 0; i < count; i++)
        good &= json_array_append_new(list, json_pack("[s, s]", tfm__spm_piece(spm, (size_t)found[i].left),
                                                      tfm__spm_piece(spm, (size_t)found[i].right))) == 0;
    return good;
}

/* Pieces are in merge order. */
static json_t *bpe_json(const tfm__spm *spm) {
    json_t *ids = vocab_json(spm), *merges = json_array();
    bool good = ids && merges;
    for (size_t i = SPECIALS; good && i < tfm__spm_size(spm); i++)
        good = add_merges(merges, ids, spm, tfm__spm_piece(spm, i));
    if (!good) {
        json_decref(ids);
        json_decref(merges);
        return NULL;
    }
    return json_pack("{s:s, s:n, s:s, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                     NAMES[UNKNOWN], "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 1, "byte_fallback",
                     0, "ignore_merges", 0, "vocab", ids, "merges", merges);
}

static json_t *unigram_json(const tfm__spm *spm) {
    json_t *pieces = json_array();
    bool good = pieces != NULL;
    for (size_t i = 0; good && i < tfm__spm_size(spm); i++)
        good = json_array_append_new(pieces, json_pack("[s, f]", tfm__spm_piece(spm, i),
                                                       i < SPECIALS ? 0.0 : (double)tfm__spm_score(spm, i))) == 0;
    if (!good) {
        json_decref(pieces);
        return NULL;
    }
    return json_pack("{s:s, s:i, s:o, s:b}", "type", "Unigram", "unk_id", UNKNOWN, "vocab", pieces, "byte_fallback", 0);
}

/* ---- What is around it -------------------------------------------------------------------------------- */

/* Base64 (RFC 4648), for free(). */
static char *base64(const unsigned char *bytes, size_t count) {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = tfm__alloc((count + 2) / 3 * 4 + 1, 1), *to = text;
    for (size_t i = 0; text && i < count; i += 3) {
        const size_t left = count - i;
        const unsigned three = (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) |
                               (left > 2 ? (unsigned)bytes[i + 2] : 0);
        *to++ = DIGITS[three >> 18];
        *to++ = DIGITS[three >> 12 & 63];
        *to++ = left > 1 ? DIGITS[three >> 6 & 63] : '=';
        *to++ = left > 2 ? DIGITS[three & 63] : '=';
    }
    if (text)
        *to = 0;
    return text;
}

/* SentencePiece's table, then its blank rule: none at the ends, and never two in a row. */
static json_t *normalizer_json(const void *bytes, size_t size) {
    size_t table_bytes = 0;
    const void *table = tfm__spm_charsmap(&table_bytes, bytes, size);
    char *text = table ? base64(table, table_bytes) : NULL;
    json_t *list = table && !text ? NULL : json_array();
    bool good = list != NULL;
    if (good && text)
        good = json_array_append_new(list,
                                     json_pack("{s:s, s:s}", "type", "Precompiled", "precompiled_charsmap", text)) == 0;
    good = good &&
           json_array_append_new(
               list, json_pack("{s:s, s:b, s:b}", "type", "Strip", "strip_left", 1, "strip_right", 1)) == 0 &&
           json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "Regex", " {2,}",
                                                 "content", " ")) == 0;
    free(text);
    if (!good) {
        json_decref(list);
        return NULL;
    }
    return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", list);
}

static json_t *metaspace_json(void) {
    return json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement", BLANK, "prepend_scheme", "always",
                     "split", 1);
}

static json_t *added_json(void) {
    json_t *list = json_array();
    for (int i = 0; list && i < SPECIALS; i++)
        if (json_array_append_new(list, json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", i, "content", NAMES[i],
                                                  "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0,
                                                  "special", 1)) != 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

/* `<s>` before each text. */
static json_t *template_json(void) {
    const char *begin = NAMES[BEGIN];
    return json_pack("{s:s, s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}], s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}, {s:{s:s, s:i}}, "
                     "{s:{s:s, s:i}}], s:{s:{s:s, s:[i], s:[s]}}}",
                     "type", "TemplateProcessing", "single", "SpecialToken", "id", begin, "type_id", 0, "Sequence",
                     "id", "A", "type_id", 0, "pair", "SpecialToken", "id", begin, "type_id", 0, "Sequence", "id", "A",
                     "type_id", 0, "SpecialToken", "id", begin, "type_id", 1, "Sequence", "id", "B", "type_id", 1,
                     "special_tokens", begin, "id", begin, "ids", BEGIN, "tokens", begin);
}

static json_t *tokenizer_json(const tfm__spm *spm, const void *bytes, size_t size, bool unigram) {
    json_t *root = json_pack("{s:s, s:n, s:n}", "version", "1.0", "truncation", "padding");
    const struct {
        const char *name;
        json_t *value;
    } parts[] = {{"added_tokens", added_json()},      {"normalizer", normalizer_json(bytes, size)},
                 {"pre_tokenizer", metaspace_json()}, {"post_processor", template_json()},
                 {"decoder", metaspace_json()},       {"model", unigram ? unigram_json(spm) : bpe_json(spm)}};
    bool good = root != NULL;
    for (size_t i = 0; i < TFM__COUNT(parts); i++) /* each takes ownership, also after a failure */
        good = json_object_set_new(root, parts[i].name, parts[i].value) == 0 && good;
    if (good)
        return root;
    json_decref(root);
    return NULL;
}

static json_t *config_json(void) {
    return json_pack("{s:s, s:s, s:s, s:s, s:b}", "tokenizer_class", "PreTrainedTokenizerFast", "bos_token",
                     NAMES[BEGIN], "eos_token", NAMES[END], "unk_token", NAMES[UNKNOWN], "clean_up_tokenization_spaces",
                     0);
}

/* ---- Public functions --------------------------------------------------------------------------------- */

/* tokenizer.json is written last: if it exists, all files do. */
static tfm_status write_files(const char *dir, const void *bytes, size_t size, bool unigram) {
    static const char CALL[] = "tokenizer_train_texts";
    tfm__spm *spm = NULL;
    char *path = tfm__path_join(dir, "tokenizer.model");
    tfm_status status = path ? tfm__spm_open(&spm, bytes, size, "the vocabulary") : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__file_write(path, bytes, size);
    if (status == TFM_OK)
        status = tfm__json_write(dir, "tokenizer_config.json", config_json(), CALL);
    if (status == TFM_OK)
        status = tfm__json_write(dir, "tokenizer.json", tokenizer_json(spm, bytes, size, unigram), CALL);
    tfm__spm_free(&spm);
    free(path);
    return status;
}

tfm_status tfm_tokenizer_train_texts(const char *dir, const char *const *files, size_t count,
                                     const tfm_vocabulary_options *options) {
    if (TFM__NEEDS("tokenizer_train_texts", dir, files) != TFM_OK ||
        tfm__needs_texts("tokenizer_train_texts", "files", files, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_train_texts: %s", TFM__RESERVED_SET_MESSAGE);
    tfm_vocabulary_options o = options ? *options : (tfm_vocabulary_options){0};
    if (count == 0 || o.separate_vocabs || o.source_language || o.target_language)
        return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_train_texts: %s",
                         count == 0 ? "it needs at least one file"
                                    : "separate vocabularies and languages are for pairs of lines");
    if (TFM__RESERVED_SET(&o.documents))
        return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_train_texts: %s", TFM__RESERVED_SET_MESSAGE);
    if (tfm__document_check("tokenizer_train_texts", &o.documents) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    char *bytes = NULL;
    size_t size = 0;
    tfm_status status = tfm__vocab_train_check_options(&o, dir);
    if (status == TFM_OK)
        status = tfm__vocab_train_pieces(&bytes, &size, files, count, &o);
    if (status == TFM_OK)
        status = write_files(dir, bytes, size, o.unigram);
    free(bytes);
    return status;
}
