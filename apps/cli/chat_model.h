/* Chat templates of models: how a template reads the content of a message, and the ends of its turns (chat_model.c). */
#ifndef TFM_CLI_CHAT_MODEL_H
#define TFM_CLI_CHAT_MODEL_H

#include <tfm/chat.h>
#include "cli/cli.h"

typedef struct cli_chat_model {
    tfm_chat *chat;                  /* the templates */
    bool reads_lists, reads_strings; /* how the default template reads a content: a list of parts, a string */
    int32_t ends[8];                 /* [end_count]: end tokens of turns, besides the model's EOS */
    const char *end_texts[9];        /* [end_text_count]: stop strings of turns that are no special tokens */
    int end_count, end_text_count;
} cli_chat_model;

/* Reads the templates of a model's directory: CLI_OK, or another code after a message. A model without a template
 * opens. Free in any case. */
int cli_chat_model_open(cli_chat_model *model, const char *dir);
/* Finds the ends of a turn: the tokenizer's eos_token and the template's markers, except the model's EOS, or -1. The
 * tokenizer outlives `model`. */
int cli_chat_model_find_ends(cli_chat_model *model, const tfm_tokenizer *tokenizer, int eos_id);
bool cli_chat_model_has_template(const cli_chat_model *model);
/* Whether a token ends a turn. */
bool cli_chat_model_is_end(const cli_chat_model *model, int32_t id);
void cli_chat_model_free(cli_chat_model *model);

#endif
