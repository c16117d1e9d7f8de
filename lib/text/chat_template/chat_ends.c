/* The tokens that end a turn of a chat. */
#include <string.h>
#include "base/base.h"
#include "tfm/chat.h"
#include "tfm/text.h"

/* Ends of messages in common templates. */
static const char *const ENDS[] = {"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>"};

static void add(int32_t *ids, size_t *count, const tfm_tokenizer *tokenizer, const char *token) {
    const int32_t id = token ? tfm_tokenizer_piece_id(tokenizer, TFM_TARGET, token) : -1;
    for (size_t i = 0; i < *count; i++)
        if (ids[i] == id)
            return;
    if (id >= 0)
        ids[(*count)++] = id;
}

tfm_status tfm_chat_end_tokens(const tfm_chat *chat, int32_t **ids, size_t *count, const tfm_tokenizer *tokenizer) {
    TFM__CLEAR_OUT(ids);
    if (TFM__NEEDS("chat_end_tokens", chat, ids, count, tokenizer) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    const char *source = tfm_chat_source(chat, NULL);
    *count = 0;
    *ids = tfm__alloc(TFM__COUNT(ENDS) + 1, sizeof(**ids));
    if (!*ids)
        return TFM_ERROR_MEMORY;
    add(*ids, count, tokenizer, tfm_chat_token(chat, "eos_token"));
    for (size_t i = 0; i < TFM__COUNT(ENDS) && source; i++) {
        /* With channels, <|end|> ends one of them and not the turn. */
        const bool channel = strcmp(ENDS[i], "<|end|>") == 0 && strstr(source, "<|channel|>");
        if (strstr(source, ENDS[i]) && !channel)
            add(*ids, count, tokenizer, ENDS[i]);
    }
    return TFM_OK;
}
