/* Chat templates of models. */
#include "cli/chat_model.h"
#include <stdlib.h>
#include <string.h>

static const char MARKER[] = "<|im_end|>";

bool cli_chat_model_has_template(const cli_chat_model *model) {
    return tfm_chat_source(model->chat, NULL) != NULL;
}

bool cli_chat_model_is_end(const cli_chat_model *model, int32_t id) {
    for (int i = 0; i < model->end_count; i++)
        if (model->ends[i] == id)
            return true;
    return false;
}

void cli_chat_model_free(cli_chat_model *model) {
    tfm_chat_free(&model->chat);
    *model = (cli_chat_model){0};
}

/* ---- What a template reads ------------------------------------------------------------------------------------- */

/* Whether a template renders one message with this content, as its text and not as the JSON around it. */
static bool renders(const tfm_chat *chat, const char *content) {
    char *messages = NULL, *text = NULL;
    bool good = false;
    if (asprintf(&messages, "[{\"role\": \"user\", \"content\": %s}]", content) < 0)
        return false;
    if (tfm_chat_render(chat, &text, messages, NULL) == TFM_OK)
        good = strstr(text, "tfm-first") && !strstr(text, "'text'") && !strstr(text, "\"text\"");
    tfm_text_free(&text);
    free(messages);
    return good;
}

/* If the template reads neither, it may need other roles, and reads strings. */
static void probe(cli_chat_model *model) {
    model->reads_lists = renders(model->chat, "[{\"type\": \"text\", \"text\": \"tfm-first\"}]");
    model->reads_strings = !model->reads_lists || renders(model->chat, "\"tfm-first\"");
}

int cli_chat_model_open(cli_chat_model *model, const char *dir) {
    *model = (cli_chat_model){0};
    if (tfm_chat_open(&model->chat, dir) != TFM_OK)
        return cli_fail_library();
    if (cli_chat_model_has_template(model))
        probe(model);
    return CLI_OK;
}

/* ---- The end of a turn ----------------------------------------------------------------------------------------- */

/* Whether a token is visible in decoded text. */
static bool is_seen(const tfm_tokenizer *tokenizer, int32_t id) {
    char *text = NULL;
    const bool seen = tfm_tokenizer_decode(tokenizer, &text, &id, 1) == TFM_OK && *text;
    tfm_text_free(&text);
    return seen;
}

/* Special tokens are ends by their ids, others as stop strings. */
int cli_chat_model_find_ends(cli_chat_model *model, const tfm_tokenizer *tokenizer, int eos_id) {
    const char *source = tfm_chat_source(model->chat, NULL);
    int32_t *ids = NULL;
    size_t count = 0;
    if (tfm_chat_end_tokens(model->chat, &ids, &count, tokenizer) != TFM_OK)
        return cli_fail_library();
    for (size_t i = 0; i < count && i < CLI_COUNT(model->ends); i++) {
        if (ids[i] == eos_id)
            continue;
        if (is_seen(tokenizer, ids[i]))
            model->end_texts[model->end_text_count++] = tfm_tokenizer_piece(tokenizer, TFM_TARGET, ids[i]);
        else
            model->ends[model->end_count++] = ids[i];
    }
    /* ChatML with a tokenizer that does not have its tokens. */
    if (source && strstr(source, MARKER) && tfm_tokenizer_piece_id(tokenizer, TFM_TARGET, MARKER) < 0)
        model->end_texts[model->end_text_count++] = MARKER;
    tfm_ids_free(&ids);
    return CLI_OK;
}
