#include <math.h>
#include <string.h>
#include "text/gguf_vocab.h"
#include "text/utf8.h"

#define KEY(name) "tokenizer.ggml." name

bool tfm__gguf_vocab_exists(const tfm__gguf *file) {
    const tfm__gguf_value *model = tfm__gguf_find(file, KEY("model"));
    return model && !tfm__gguf_is(model, 0, "none") && !tfm__gguf_is(model, 0, "no_vocab");
}

static tfm_status wrong(const tfm__gguf_vocab *v, const char *key, const char *needed) {
    return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is not %s", v->path, key, needed);
}

/* ---- Kinds -------------------------------------------------------------------------------------------- */

static tfm_status read_pre(tfm__gguf_vocab *v, bool raw) {
    const tfm__gguf_value *value = tfm__gguf_find(v->file, KEY("pre"));
    tfm__gguf_text name = raw ? (tfm__gguf_text){"gemma4", 6} : (tfm__gguf_text){"default", 7};
    if (value && !raw && !tfm__gguf_string(&name, value, 0))
        return wrong(v, KEY("pre"), "a string");
    v->pre = tfm__gguf_pre_find(name.data, name.bytes);
    if (!v->pre)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: its pre-tokenizer (`tokenizer.ggml.pre`) \"%.*s\" is not supported by tfm", v->path,
                         (int)(name.bytes < 100 ? name.bytes : 100), name.data);
    v->add_bos = v->pre->add_bos || v->pre->raw;
    v->add_sep = v->pre->add_sep;
    return TFM_OK;
}

/* The kind, with llama.cpp's defaults. */
static tfm_status read_model(tfm__gguf_vocab *v) {
    const tfm__gguf_value *value = tfm__gguf_find(v->file, KEY("model"));
    static const int32_t llama[] = {1, 2, 0, -1, -1, -1, -1}, bert[] = {-1, -1, 100, 102, 0, 101, 103},
                         t5[] = {-1, 1, 2, -1, 0, -1, -1};
    tfm__gguf_text name;
    memset(v->ids, 0xff, sizeof(v->ids));
    if (!value)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s has no tokenizer (`tokenizer.ggml.model`): give a folder with a tokenizer.json next to it",
                         v->path);
    if (!tfm__gguf_string(&name, value, 0))
        return wrong(v, KEY("model"), "a string");
    v->lowercase = true;
    if (tfm__gguf_is(value, 0, "llama")) {
        v->model = TFM__GGUF_VOCAB_LLAMA;
        v->add_bos = v->add_space_prefix = true;
        memcpy(v->ids, llama, sizeof(llama));
    } else if (tfm__gguf_is(value, 0, "bert")) {
        v->model = TFM__GGUF_VOCAB_BERT;
        v->add_bos = v->add_sep = true;
        memcpy(v->ids, bert, sizeof(bert));
    } else if (tfm__gguf_is(value, 0, "t5")) {
        v->model = TFM__GGUF_VOCAB_T5;
        v->add_eos = true;
        memcpy(v->ids, t5, sizeof(t5));
    } else if (tfm__gguf_is(value, 0, "gpt2") || tfm__gguf_is(value, 0, "gemma4")) {
        v->model = TFM__GGUF_VOCAB_GPT2;
        return read_pre(v, tfm__gguf_is(value, 0, "gemma4"));
    } else {
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: its tokenizer (`tokenizer.ggml.model`) \"%.*s\" is not supported by tfm", v->path,
                         (int)(name.bytes < 100 ? name.bytes : 100), name.data);
    }
    return TFM_OK;
}

/* ---- Arrays ------------------------------------------------------------------------------------------- */

/* An array for all tokens; the last element shows its kind. */
static tfm_status read_array(const tfm__gguf_value **out, const tfm__gguf_vocab *v, const char *key,
                             bool (*good)(const tfm__gguf_value *, size_t), const char *needed) {
    const tfm__gguf_value *value = *out = tfm__gguf_find(v->file, key);
    if (value && (!value->is_array || (value->count && !good(value, value->count - 1))))
        return wrong(v, key, needed);
    if (value && value->count < (size_t)v->count)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` has %zu elements, and the vocabulary has %d tokens", v->path, key,
                         value->count, (int)v->count);
    return TFM_OK;
}

static bool is_string(const tfm__gguf_value *value, size_t i) {
    return tfm__gguf_string(&(tfm__gguf_text){0}, value, i);
}

static bool is_integer(const tfm__gguf_value *value, size_t i) {
    return tfm__gguf_i64(&(int64_t){0}, value, i);
}

static bool is_number(const tfm__gguf_value *value, size_t i) {
    return tfm__gguf_f64(&(double){0}, value, i);
}

static bool is_byte(const tfm__gguf_value *value, size_t i) {
    (void)i;
    return value->kind == TFM__GGUF_UINT8 || value->kind == TFM__GGUF_INT8;
}

static tfm_status check_scores(const tfm__gguf_vocab *v) {
    double score;
    for (int32_t i = 0; v->scores && i < v->count; i++)
        if (!tfm__gguf_f64(&score, v->scores, (size_t)i) || !isfinite(score))
            return tfm__fail(TFM_ERROR_FORMAT, "%s: the score of token %d is not a finite number", v->path, (int)i);
    return TFM_OK;
}

static tfm_status read_arrays(tfm__gguf_vocab *v) {
    tfm_status status = read_array(&v->tokens, v, KEY("tokens"), is_string, "a list of strings");
    if (status == TFM_OK && (!v->tokens || v->tokens->count == 0 || v->tokens->count >= TFM__MAX_IDS))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `tokenizer.ggml.tokens` has %zu tokens; 1 to %d are allowed", v->path,
                         v->tokens ? v->tokens->count : 0, TFM__MAX_IDS - 1);
    if (status == TFM_OK) {
        v->count = (int32_t)v->tokens->count;
        status = read_array(&v->types, v, KEY("token_type"), is_integer, "a list of integers");
    }
    if (status == TFM_OK)
        status = read_array(&v->scores, v, KEY("scores"), is_number, "a list of numbers");
    if (status == TFM_OK)
        status = check_scores(v);
    v->merges = tfm__gguf_find(v->file, KEY("merges"));
    if (status == TFM_OK && v->model == TFM__GGUF_VOCAB_GPT2 && !v->merges)
        status = tfm__fail(TFM_ERROR_FORMAT, "%s: `tokenizer.ggml.merges` is missing", v->path);
    if (status == TFM_OK && v->merges && (!v->merges->is_array || (v->merges->count && !is_string(v->merges, 0))))
        status = wrong(v, KEY("merges"), "a list of strings");
    v->charsmap = tfm__gguf_find(v->file, KEY("precompiled_charsmap"));
    if (status == TFM_OK && v->charsmap && (!v->charsmap->is_array || !is_byte(v->charsmap, 0)))
        status = wrong(v, KEY("precompiled_charsmap"), "a list of bytes");
    return status;
}

/* ---- Special tokens and flags ------------------------------------------------------------------------- */

static tfm_status read_ids(tfm__gguf_vocab *v) {
    static const char *const KEYS[TFM__GGUF_SPECIALS][2] = {
        [TFM__BOS] = {KEY("bos_token_id")},      [TFM__EOS] = {KEY("eos_token_id")},
        [TFM__UNK] = {KEY("unknown_token_id")},  [TFM__SEP] = {KEY("seperator_token_id"), KEY("separator_token_id")},
        [TFM__PAD] = {KEY("padding_token_id")},  [TFM__CLS] = {KEY("cls_token_id")},
        [TFM__MASK] = {KEY("mask_token_id")},    [TFM__GGUF_EOT] = {KEY("eot_token_id")},
        [TFM__GGUF_EOM] = {KEY("eom_token_id")},
    };
    for (int i = 0; i < TFM__GGUF_SPECIALS; i++)
        for (int name = 0; name < 2 && KEYS[i][name]; name++) {
            const tfm__gguf_value *value = tfm__gguf_find(v->file, KEYS[i][name]);
            int64_t id;
            if (value && !tfm__gguf_i64(&id, value, 0))
                return wrong(v, KEYS[i][name], "an integer");
            if (value && id >= 0 && id < v->count)
                v->ids[i] = (int32_t)id;
            else if (value)
                tfm__log(TFM_LOG_INFO, "%s: `%s` is %lld, and the vocabulary has %d tokens: it is ignored", v->path,
                         KEYS[i][name], (long long)id, (int)v->count);
        }
    if (v->model == TFM__GGUF_VOCAB_BERT && v->ids[TFM__BOS] >= 0 && !tfm__gguf_find(v->file, KEYS[TFM__CLS][0]))
        v->ids[TFM__CLS] = v->ids[TFM__BOS];
    for (int i = 0; i < TFM__GGUF_SPECIALS; i++)
        if (v->ids[i] >= v->count) /* a default */
            v->ids[i] = -1;
    return TFM_OK;
}

static tfm_status read_flag(bool *flag, const tfm__gguf_vocab *v, const char *key) {
    const tfm__gguf_value *value = tfm__gguf_find(v->file, key);
    return !value || tfm__gguf_bool(flag, value, 0) ? TFM_OK : wrong(v, key, "a boolean");
}

static tfm_status read_flags(tfm__gguf_vocab *v) {
    const struct {
        bool *flag;
        const char *key;
    } flags[] = {{&v->add_bos, KEY("add_bos_token")},
                 {&v->add_eos, KEY("add_eos_token")},
                 {&v->add_sep, KEY("add_sep_token")},
                 {&v->add_space_prefix, KEY("add_space_prefix")},
                 {&v->remove_extra_whitespaces, KEY("remove_extra_whitespaces")},
                 {&v->lowercase, KEY("normalizer.lowercase")}};
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < TFM__COUNT(flags) && status == TFM_OK; i++)
        status = read_flag(flags[i].flag, v, flags[i].key);
    v->strip_accents = v->lowercase;
    if (status == TFM_OK)
        status = read_flag(&v->strip_accents, v, KEY("normalizer.strip_accents"));
    return status;
}

tfm_status tfm__gguf_vocab_read(tfm__gguf_vocab *out, const tfm__gguf *file) {
    *out = (tfm__gguf_vocab){.file = file, .path = tfm__gguf_path(file, 0)};
    tfm_status status = read_model(out);
    if (status == TFM_OK)
        status = read_arrays(out);
    if (status == TFM_OK)
        status = read_ids(out);
    return status == TFM_OK ? read_flags(out) : status;
}

/* ---- Tokens ------------------------------------------------------------------------------------------- */

tfm_status tfm__gguf_vocab_token(tfm__gguf_text *out, const tfm__gguf_vocab *v, int32_t id, char spare[32]) {
    if (!tfm__gguf_string(out, v->tokens, (size_t)id) || tfm__utf8_valid(out->data, out->bytes) != out->bytes)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: token %d of `tokenizer.ggml.tokens` is not text in UTF-8", v->path,
                         (int)id);
    if (out->bytes == 0)
        *out = (tfm__gguf_text){spare, (size_t)snprintf(spare, 32, "[EMPTY_%d]", (int)id)};
    return TFM_OK;
}

static bool ends(tfm__gguf_text text) {
    static const char *const NAMES[] = {
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|flush|>",
        "<|calls|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "</s>",
        "<|eom_id|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "[EOS]",
        "<|end_of_text|>",
        "<end_of_utterance>",
        "<eos>",
        "<turn|>",
        ("<\xef\xbd\x9c"
         "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"),
        "[e~[",
    };
    for (size_t i = 0; i < TFM__COUNT(NAMES); i++)
        if (strlen(NAMES[i]) == text.bytes && memcmp(NAMES[i], text.data, text.bytes) == 0)
            return true;
    return false;
}

static bool is_named_end(const tfm__gguf_vocab *v, int32_t id) {
    return id == v->ids[TFM__EOS] || id == v->ids[TFM__GGUF_EOT] || id == v->ids[TFM__GGUF_EOM];
}

int tfm__gguf_vocab_type(const tfm__gguf_vocab *v, int32_t id, tfm__gguf_text text) {
    int64_t type = TFM__GGUF_TOKEN_NORMAL;
    if (v->types)
        tfm__gguf_i64(&type, v->types, (size_t)id);
    const bool user_defined = type == TFM__GGUF_TOKEN_USER_DEFINED;
    if ((user_defined || is_named_end(v, id) || id == v->ids[TFM__BOS]) && ends(text))
        return TFM__GGUF_TOKEN_CONTROL;
    return type >= TFM__GGUF_TOKEN_NORMAL && type <= TFM__GGUF_TOKEN_BYTE ? (int)type : TFM__GGUF_TOKEN_NORMAL;
}

float tfm__gguf_vocab_score(const tfm__gguf_vocab *v, int32_t id) {
    double score = 0;
    if (v->scores)
        tfm__gguf_f64(&score, v->scores, (size_t)id);
    return (float)score;
}
