/* Special ids of GGUF metadata. */
#include <string.h>
#include "model/arch/gguf_arch.h"

static const tfm__gguf_value *token_key(const tfm__gguf_source *s, const char *key) {
    char name[80] = "tokenizer.ggml.";
    strncat(name, key, sizeof(name) - strlen(name) - 1);
    return tfm__gguf_find(s->gguf, name);
}

static void add_end(json_t *ends, int64_t id) {
    size_t i;
    json_t *one;
    bool known = json_array_size(ends) >= TFM__MAX_EOS_IDS;
    json_array_foreach(ends, i, one) known |= json_integer_value(one) == id;
    if (!known)
        json_array_append_new(ends, json_integer((json_int_t)id));
}

/* Ids of tokens that end a turn or a text in any chat format: files often name only one of them. */
static void add_named_ends(json_t *ends, const tfm__gguf_source *s) {
    static const char *const NAMES[] = {"<|eot_id|>",      "<|im_end|>",    "<|end|>",         "<end_of_turn>",
                                        "<|end_of_text|>", "<|endoftext|>", "<|end_of_turn|>", "<|eom_id|>"};
    enum { CONTROL = 3, USER_DEFINED = 4 };
    const tfm__gguf_value *tokens = token_key(s, "tokens"), *types = token_key(s, "token_type");
    tfm__gguf_text text;
    int64_t type;
    for (size_t i = 0; types && i < types->count; i++) {
        if (!tfm__gguf_i64(&type, types, i) || (type != CONTROL && type != USER_DEFINED) ||
            !tfm__gguf_string(&text, tokens, i) || text.bytes < 7 || text.data[0] != '<')
            continue;
        for (size_t k = 0; k < TFM__COUNT(NAMES); k++)
            if (tfm__gguf_is(tokens, i, NAMES[k]))
                add_end(ends, (int64_t)i);
    }
}

void tfm__gguf_ids(tfm__gguf_source *s) {
    static const char *const END_KEYS[] = {"eos_token_id", "eot_token_id", "eom_token_id"};
    static const struct {
        const char *key, *config;
    } OTHERS[] = {{"bos_token_id", "bos_token_id"}, {"padding_token_id", "pad_token_id"}};
    json_t *ends = json_array();
    int64_t id;
    for (size_t i = 0; i < TFM__COUNT(END_KEYS); i++)
        if (tfm__gguf_i64(&id, token_key(s, END_KEYS[i]), 0) && id >= 0 && id <= INT32_MAX)
            add_end(ends, id);
    if (json_array_size(ends) > 0)
        add_named_ends(ends, s);
    if (json_array_size(ends) > 0)
        tfm__gguf_set(s, "eos_token_id",
                      json_array_size(ends) == 1 ? json_incref(json_array_get(ends, 0)) : json_incref(ends));
    json_decref(ends);
    for (size_t i = 0; i < TFM__COUNT(OTHERS); i++)
        if (tfm__gguf_i64(&id, token_key(s, OTHERS[i].key), 0) && id >= 0 && id <= INT32_MAX)
            tfm__gguf_set(s, OTHERS[i].config, json_integer((json_int_t)id));
    if (tfm__gguf_read_int(s, "decoder_start_token_id", &id) && id >= 0)
        tfm__gguf_set(s, "decoder_start_token_id", json_integer((json_int_t)id));
}
