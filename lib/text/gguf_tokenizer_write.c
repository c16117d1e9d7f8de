/* Tokenizers of model directories as GGUF metadata. */
#include "base/file.h"
#include "text/base64.h"
#include "text/gguf_scores.h"
#include "text/gguf_tokenizer.h"
#include "text/gguf_vocab.h"

#define KEY(name) "tokenizer.ggml." name
#define BLANK "\xe2\x96\x81"

typedef struct writing {
    tfm__gguf_writer *w;
    const char *dir;
    char *path;            /* of the tokenizer's file */
    json_t *config, *root; /* tokenizer_config.json or NULL; tokenizer.json */
    tfm__tokenizer_parts parts;
    const tfm__hf_tokenizer *t; /* of `parts` */
    tfm__gguf_vocab_model model;
    const tfm__gguf_pre *pre;
    int32_t count; /* of tokens to write */
} writing;

static tfm_status refuse(const writing *x, const char *what) {
    return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: a tokenizer with %s cannot be written to a GGUF file", x->path, what);
}

/* ---- Which kind --------------------------------------------------------------------------------------- */

/* Steps that a kind allows. */
typedef struct allowed {
    const char *types; /* a blank between them */
    bool signs;        /* a step writes blanks as U+2581 */
} allowed;

/* Blanks become U+2581, or runs of them one. */
static bool is_blank_step(const json_t *value, bool *signs) {
    const json_t *pattern = json_object_get(value, "pattern");
    const char *text = json_string_value(json_object_get(pattern, "String"));
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *content = json_string_value(json_object_get(value, "content"));
    if (!content || !(text ? strcmp(text, " ") == 0 : regex && strcmp(regex, " {2,}") == 0))
        return false;
    *signs |= strcmp(content, BLANK) == 0;
    return strcmp(content, BLANK) == 0 || (regex && strcmp(content, " ") == 0);
}

static tfm_status check_step(void *user, const json_t *value, const char *type, tfm__json_location location) {
    allowed *a = user;
    const size_t bytes = strlen(type);
    bool good = false;
    for (const char *at = a->types; *at && !good; at += strcspn(at, " "), at += *at == ' ')
        good = strcspn(at, " ") == bytes && memcmp(at, type, bytes) == 0;
    if (strcmp(type, "Replace") == 0)
        good &= is_blank_step(value, &a->signs);
    a->signs |= strcmp(type, "Metaspace") == 0;
    return good ? TFM_OK
                : tfm__fail(TFM_ERROR_UNSUPPORTED,
                            "%s: a tokenizer with this `%s` of type \"%.100s\" cannot be written to a GGUF file",
                            location.path, location.section, type);
}

static tfm_status check_steps(const writing *x, const char *normalizers, const char *pretokenizers, bool signs) {
    allowed a = {normalizers, false};
    tfm_status status = tfm__hf_each(json_object_get(x->root, "normalizer"), "normalizers", check_step, &a,
                                     (tfm__json_location){x->path, "normalizer"});
    a.types = pretokenizers;
    if (status == TFM_OK && *pretokenizers)
        status = tfm__hf_each(json_object_get(x->root, "pre_tokenizer"), "pretokenizers", check_step, &a,
                              (tfm__json_location){x->path, "pre_tokenizer"});
    return status == TFM_OK && signs && !a.signs ? refuse(x, "pieces without U+2581 for blanks") : status;
}

static bool is_type(const writing *x, const char *type) {
    const char *found = json_string_value(json_object_get(json_object_get(x->root, "model"), "type"));
    return found && strcmp(found, type) == 0;
}

static tfm_status find_pre(writing *x) {
    const tfm_status status = tfm__gguf_pre_match(&x->pre, x->root, x->path);
    return status == TFM_OK && !x->pre ? refuse(x, "this `pre_tokenizer`") : status;
}

static tfm_status find_model(writing *x) {
    const json_t *model = json_object_get(x->root, "model");
    if (x->t->language_position != TFM__LANGUAGE_NONE)
        return refuse(x, "languages");
    if ((!is_type(x, "WordPiece") && json_string_length(json_object_get(model, "continuing_subword_prefix"))) ||
        json_string_length(json_object_get(model, "end_of_word_suffix")))
        return refuse(x, "this `model`");
    if (x->t->model.is_bpe && tfm__detokenizer_is_byte_level(x->t->decoder)) {
        x->model = TFM__GGUF_VOCAB_GPT2;
        const tfm_status status = check_steps(x, "NFC", "", false);
        return status == TFM_OK ? find_pre(x) : status;
    }
    if (x->t->model.is_bpe) {
        x->model = TFM__GGUF_VOCAB_LLAMA;
        return check_steps(x, "Prepend Replace", "Metaspace Split", true);
    }
    if (is_type(x, "Unigram")) {
        x->model = TFM__GGUF_VOCAB_T5;
        return check_steps(x, "Precompiled Replace Prepend", "Metaspace WhitespaceSplit", true);
    }
    x->model = TFM__GGUF_VOCAB_BERT;
    return is_type(x, "WordPiece") ? check_steps(x, "BertNormalizer", "BertPreTokenizer", false)
                                   : refuse(x, "this `model`");
}

/* ---- Tokens ------------------------------------------------------------------------------------------- */

static bool has_scores(const writing *x) {
    return x->model == TFM__GGUF_VOCAB_LLAMA || x->model == TFM__GGUF_VOCAB_T5;
}

/* The text of a token, or NULL for a hole. */
static const char *piece_of(const writing *x, int32_t id, size_t *bytes) {
    const tfm__token_map *map = x->t->model.token_map;
    const char *text = tfm__token_map_piece(map, id, bytes);
    return text && tfm__token_map_find(map, text, *bytes) == id ? text : NULL;
}

static int32_t type_of(const writing *x, int32_t id) {
    size_t bytes = 0;
    const char *text = piece_of(x, id, &bytes);
    const tfm__hf_added_token *added = tfm__hf_added_token_by_id(&x->t->added, id);
    if (!text)
        return TFM__GGUF_TOKEN_UNUSED;
    if (added && has_scores(x) && id == x->parts.info.source_unk)
        return TFM__GGUF_TOKEN_UNKNOWN;
    if (added)
        return added->special ? TFM__GGUF_TOKEN_CONTROL : TFM__GGUF_TOKEN_USER_DEFINED;
    return has_scores(x) && tfm__parse_byte_piece(text, bytes) >= 0 ? TFM__GGUF_TOKEN_BYTE : TFM__GGUF_TOKEN_NORMAL;
}

/* Added tokens as they are in a text; WordPiece with a sign at the beginning of words. */
static void write_token(tfm__bytes *spare, const writing *x, int32_t id) {
    size_t bytes = 0;
    const char *text = piece_of(x, id, &bytes);
    const int32_t type = type_of(x, id);
    const bool plain = type == TFM__GGUF_TOKEN_NORMAL && x->model == TFM__GGUF_VOCAB_BERT && text &&
                       !(bytes > 1 && text[0] == '[' && text[bytes - 1] == ']');
    char name[32];
    spare->count = 0;
    if (!text)
        tfm__bytes_add(spare, name, (size_t)snprintf(name, sizeof(name), "[PAD%d]", (int)id));
    else if (plain && bytes > 2 && text[0] == '#' && text[1] == '#')
        tfm__bytes_add(spare, text + 2, bytes - 2);
    else {
        tfm__bytes_add(spare, BLANK, plain ? sizeof(BLANK) - 1 : 0);
        tfm__bytes_add(spare, text, bytes);
    }
    if (text && type == TFM__GGUF_TOKEN_USER_DEFINED && has_scores(x)) { /* blanks, as in a text */
        size_t used = 0;
        for (size_t at = 0; at < spare->count;) {
            const bool blank = at + 3 <= spare->count && memcmp(spare->data + at, BLANK, 3) == 0;
            spare->data[used++] = blank ? ' ' : spare->data[at];
            at += blank ? 3 : 1;
        }
        spare->count = used;
    }
    tfm__gguf_add_element(x->w, spare->data, spare->count);
}

static tfm_status write_scores(const writing *x) {
    float *scores = tfm__alloc((size_t)x->count, sizeof(*scores));
    tfm_status status = scores ? tfm__gguf_scores(scores, x->count, x->t, x->root, x->path) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        tfm__gguf_add_numbers(x->w, KEY("scores"), TFM__GGUF_FLOAT32, scores, (size_t)x->count,
                              (size_t)x->count * sizeof(*scores));
    free(scores);
    return status;
}

static tfm_status write_tokens(const writing *x) {
    tfm__bytes spare = {0};
    int32_t *types = tfm__alloc((size_t)x->count, sizeof(*types));
    if (!types)
        return TFM_ERROR_MEMORY;
    tfm__gguf_add_strings(x->w, KEY("tokens"), (size_t)x->count);
    for (int32_t id = 0; id < x->count; id++) {
        types[id] = type_of(x, id);
        write_token(&spare, x, id);
    }
    tfm__gguf_add_numbers(x->w, KEY("token_type"), TFM__GGUF_INT32, types, (size_t)x->count,
                          (size_t)x->count * sizeof(*types));
    free(types);
    const bool failed = spare.failed;
    tfm__bytes_free(&spare);
    return failed ? TFM_ERROR_MEMORY : has_scores(x) ? write_scores(x) : TFM_OK;
}

static tfm_status write_merges(const writing *x) {
    const json_t *merges = json_object_get(json_object_get(x->root, "model"), "merges");
    tfm__bytes line = {0};
    json_t *merge;
    size_t i;
    tfm__gguf_add_strings(x->w, KEY("merges"), json_array_size(merges));
    json_array_foreach(merges, i, merge) {
        const char *text = json_string_value(merge), *left = json_string_value(json_array_get(merge, 0));
        const char *right = json_string_value(json_array_get(merge, 1));
        line.count = 0;
        tfm__bytes_add(&line, text ? text : left, strlen(text ? text : left));
        if (!text) {
            tfm__bytes_add(&line, " ", 1);
            tfm__bytes_add(&line, right, strlen(right));
        }
        tfm__gguf_add_element(x->w, line.data, line.count);
    }
    const bool failed = line.failed;
    tfm__bytes_free(&line);
    return failed ? TFM_ERROR_MEMORY : TFM_OK;
}

/* ---- Normalization ------------------------------------------------------------------------------------ */

/* Encodes a text without special tokens. */
static tfm_status encode(tfm__id_buffer *out, const writing *x, const char *text) {
    out->count = 0;
    return x->parts.kind->encode(x->parts.self, out, TFM_SOURCE, &(tfm_encode_options){.no_special_tokens = true}, text,
                                 strlen(text), 0);
}

/* What the normalizer and the pre-tokenizer do to blanks, by what they give. */
static tfm_status write_blanks(const writing *x) {
    tfm__id_buffer one = {0}, two = {0};
    size_t bytes = 0;
    tfm_status status = encode(&one, x, "a b");
    if (status == TFM_OK)
        status = encode(&two, x, "a  b");
    const char *first = one.count ? tfm__token_map_piece(x->t->model.token_map, one.ids[0], &bytes) : NULL;
    const bool prefix = first && bytes >= 3 && memcmp(first, BLANK, 3) == 0;
    const bool merged =
        one.count == two.count && one.count && memcmp(one.ids, two.ids, one.count * sizeof(*one.ids)) == 0;
    if (status == TFM_OK) {
        tfm__gguf_add_bool(x->w, KEY("add_space_prefix"), prefix);
        if (x->model == TFM__GGUF_VOCAB_T5)
            tfm__gguf_add_bool(x->w, KEY("remove_extra_whitespaces"), merged);
    }
    free(one.ids);
    free(two.ids);
    return status;
}

/* The table of a Precompiled normalizer. */
static tfm_status write_charsmap(void *user, const json_t *value, const char *type, tfm__json_location location) {
    const writing *x = user;
    const char *text = json_string_value(json_object_get(value, "precompiled_charsmap"));
    unsigned char *bytes;
    size_t size;
    if (strcmp(type, "Precompiled") != 0 || !text)
        return TFM_OK;
    const tfm_status status = tfm__base64_decode(&bytes, &size, text, location.path, "precompiled_charsmap");
    if (status == TFM_OK && size)
        tfm__gguf_add_numbers(x->w, KEY("precompiled_charsmap"), TFM__GGUF_UINT8, bytes, size, size);
    free(bytes);
    return status;
}

static tfm_status write_bert(const writing *x) {
    const tfm__json_location location = {x->path, "normalizer"};
    const json_t *normalizer = json_object_get(x->root, "normalizer");
    bool lower, accents, clean, chinese;
    tfm_status status = tfm__hf_bool(&lower, normalizer, "lowercase", true, location);
    if (status == TFM_OK)
        status = tfm__hf_bool(&accents, normalizer, "strip_accents", lower, location);
    if (status == TFM_OK)
        status = tfm__hf_bool(&clean, normalizer, "clean_text", true, location);
    if (status == TFM_OK)
        status = tfm__hf_bool(&chinese, normalizer, "handle_chinese_chars", true, location);
    if (status == TFM_OK && (!clean || !chinese))
        return refuse(x, "this BertNormalizer");
    tfm__gguf_add_bool(x->w, KEY("normalizer.lowercase"), lower);
    tfm__gguf_add_bool(x->w, KEY("normalizer.strip_accents"), accents);
    return status;
}

static tfm_status write_model(const writing *x) {
    static const char *const NAMES[] = {"llama", "gpt2", "bert", "t5"};
    char pre[64] = "default";
    if (x->pre)
        snprintf(pre, sizeof(pre), "%.*s", (int)strcspn(x->pre->names, " "), x->pre->names);
    tfm__gguf_add_string(x->w, KEY("model"), NAMES[x->model]);
    tfm__gguf_add_string(x->w, KEY("pre"), pre);
    tfm_status status = write_tokens(x);
    if (status == TFM_OK && x->model == TFM__GGUF_VOCAB_GPT2)
        status = write_merges(x);
    if (status == TFM_OK && x->model == TFM__GGUF_VOCAB_BERT)
        status = write_bert(x);
    if (status == TFM_OK && has_scores(x))
        status = write_blanks(x);
    if (status == TFM_OK && x->model == TFM__GGUF_VOCAB_T5)
        status = tfm__hf_each(json_object_get(x->root, "normalizer"), "normalizers", write_charsmap,
                              (void *)(uintptr_t)x, (tfm__json_location){x->path, "normalizer"});
    return status;
}

/* ---- Special tokens and templates --------------------------------------------------------------------- */

/* Whether two texts have EOS and SEP between them. */
static bool has_double_end(const writing *x) {
    const tfm__id_buffer *list = &x->t->template.pair;
    size_t at = 0;
    while (at < list->count && list->ids[at] != TFM__TEMPLATE_A)
        at++;
    return at + 3 < list->count && list->ids[at + 3] == TFM__TEMPLATE_B && list->ids[at + 1] >= 0 &&
           list->ids[at + 2] >= 0 && list->ids[at + 2] == x->parts.info.sep;
}

static void write_specials(const writing *x) {
    const tfm_tokenizer_info *info = &x->parts.info;
    const tfm__id_buffer *list = &x->t->template.single;
    const int32_t first = list->count > 1 && list->ids[0] >= 0 ? list->ids[0] : -1;
    const int32_t last = list->count > 1 && list->ids[list->count - 1] >= 0 ? list->ids[list->count - 1] : -1;
    const bool bert = x->model == TFM__GGUF_VOCAB_BERT;
    const struct {
        const char *key;
        int32_t id;
    } ids[] = {{KEY("bos_token_id"), first >= 0 ? first : info->bos},
               {KEY("eos_token_id"), last >= 0 && !bert ? last : info->source_eos},
               {KEY("unknown_token_id"), info->source_unk},
               {KEY("seperator_token_id"), bert && last >= 0 ? last : info->sep}, /* the format's spelling */
               {KEY("padding_token_id"), info->source_pad},
               {KEY("cls_token_id"), bert && first >= 0 ? first : info->cls},
               {KEY("mask_token_id"), info->mask}};
    for (size_t i = 0; i < TFM__COUNT(ids); i++)
        if (ids[i].id >= 0 && ids[i].id < x->count)
            tfm__gguf_add_u32(x->w, ids[i].key, (uint32_t)ids[i].id);
    tfm__gguf_add_bool(x->w, KEY("add_bos_token"), first >= 0);
    tfm__gguf_add_bool(x->w, KEY("add_eos_token"), last >= 0 && !bert);
    tfm__gguf_add_bool(x->w, KEY("add_sep_token"), bert || has_double_end(x));
}

/* ---- All ---------------------------------------------------------------------------------------------- */

static void free_parts(tfm__tokenizer_parts *parts) {
    if (parts->self)
        parts->kind->close(parts->self);
    free(parts->languages[TFM_SOURCE]);
    free(parts->languages[TFM_TARGET]);
}

static tfm_status open(writing *x) {
    char *path = tfm__path_join(x->dir, "tokenizer_config.json");
    tfm__subword_model model = {0};
    bool older;
    tfm_status status = path ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK && tfm__file_exists(path))
        status = tfm__json_load(&x->config, path);
    free(path);
    if (status == TFM_OK)
        status = tfm__hf_tokenizer_open(&x->parts, x->dir);
    x->t = x->parts.self;
    if (status == TFM_OK)
        status = tfm__hf_load(&x->root, &model, &older, &x->path, x->config, x->dir);
    if (status == TFM_OK)
        status = tfm__hf_override(x->root, x->config, x->dir);
    if (status == TFM_OK && model.token_map)
        status = refuse(x, "separate vocabulary and pieces");
    tfm__subword_model_free(&model);
    return status;
}

static tfm_status copy_gguf(tfm__gguf_writer *w, const char *path) {
    tfm__gguf *file;
    const tfm_status status = tfm__gguf_open(&file, path);
    for (size_t i = 0; status == TFM_OK && i < tfm__gguf_values(file); i++) {
        const tfm__gguf_value *value = tfm__gguf_value_at(file, i);
        if (value->key.bytes > 10 && memcmp(value->key.data, "tokenizer.", 10) == 0)
            tfm__gguf_add_value(w, value);
    }
    if (status == TFM_OK)
        tfm__gguf_close(&file);
    return status;
}

tfm_status tfm__gguf_tokenizer_write(tfm__gguf_writer *writer, const char *dir, int32_t rows) {
    writing x = {.w = writer, .dir = dir, .count = rows};
    char *file;
    tfm_status status = tfm__gguf_locate(&file, dir);
    if (status != TFM_OK || file) {
        status = status == TFM_OK ? copy_gguf(writer, file) : status;
        free(file);
        return status;
    }
    if (!tfm__hf_tokenizer_exists(dir))
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: its tokenizer has no form in GGUF files, or there is none", dir);
    status = open(&x);
    if (status == TFM_OK)
        status = find_model(&x);
    if (status == TFM_OK)
        status = write_model(&x);
    if (status == TFM_OK)
        write_specials(&x);
    if (status == TFM_OK)
        status = tfm__gguf_templates_write(writer, x.config, dir);
    json_decref(x.config);
    json_decref(x.root);
    free(x.path);
    free_parts(&x.parts);
    return status;
}
