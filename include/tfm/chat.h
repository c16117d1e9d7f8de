/* Chat templates: messages as the prompt that a model was trained on, rendered as transformers' `apply_chat_template`
 * does. Includes base.h.
 *
 *     tfm_chat *chat;
 *     char *prompt;
 *     int32_t *ids;
 *     size_t count;
 *     tfm_chat_open(&chat, "model");
 *     tfm_chat_render(chat, &prompt, "[{\"role\": \"user\", \"content\": \"Hello\"}]",
 *                     &(tfm_chat_options){.add_generation_prompt = true});
 *     tfm_tokenizer_encode_with(tokenizer, &ids, &count, TFM_SOURCE, prompt, strlen(prompt),
 *                               &(tfm_encode_options){.no_special_tokens = true});
 *
 * A template is a program in Jinja, and untrusted: it reads its variables only, and its time, memory, nesting and
 * output are limited. */
#ifndef TFM_CHAT_H
#define TFM_CHAT_H

#include <stdbool.h>
#include "base.h"
#include "text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The chat templates and special tokens of a model. Immutable, so any number of threads may use it. */
typedef struct tfm_chat tfm_chat;

/* Reads the templates of a directory: chat_template.jinja and additional_chat_templates/NAME.jinja, else
 * chat_template.json, else `chat_template` of tokenizer_config.json, which is one template, or several with names.
 * Special tokens, which templates use, are those of tokenizer_config.json and special_tokens_map.json. A directory
 * without a template opens. On failure *out is NULL: TFM_ERROR_FORMAT for a damaged file. */
TFM_API tfm_status tfm_chat_open(tfm_chat **out, const char *dir);
/* The same from the text of a template, and a JSON object of further variables such as
 * {"bos_token": "<s>", "eos_token": "</s>"}, which may be NULL. */
TFM_API tfm_status tfm_chat_new(tfm_chat **out, const char *text, size_t bytes, const char *variables);
/* Releases it and sets the pointer to NULL. */
TFM_API void tfm_chat_free(tfm_chat **chat);

/* The text of the template of a name, NULL for the default one; NULL if there is none. Belongs to `chat`. */
TFM_API const char *tfm_chat_source(const tfm_chat *chat, const char *name);
/* A special token such as "eos_token", or NULL. Belongs to `chat`. */
TFM_API const char *tfm_chat_token(const tfm_chat *chat, const char *name);

/* The tokens that end a turn: eos_token, and the ends of messages that the template writes, such as <|im_end|>,
 * <|eot_id|> and <end_of_turn>. The caller frees *ids with tfm_ids_free; on failure it is NULL. */
TFM_API tfm_status tfm_chat_end_tokens(const tfm_chat *chat, int32_t **ids, size_t *count,
                                       const tfm_tokenizer *tokenizer);

/* Options of rendering. All zeros: no tools, and the prompt ends after the last message. */
typedef struct tfm_chat_options {
    bool add_generation_prompt; /* Adds what begins an answer of the assistant. */
    /* The last message is incomplete: the prompt ends after its text, without the template's end of a message. Not with
     * `add_generation_prompt`. */
    bool continue_final_message;
    const char *tools;     /* A JSON list of functions, as OpenAI's. NULL: none. */
    const char *documents; /* A JSON list of objects. NULL: none. */
    const char *variables; /* A JSON object of further variables, such as {"enable_thinking": false}. NULL: none. */
    /* The template, such as "tool_use". NULL: with tools "tool_use" if there is one, else the default. */
    const char *template_name;
    int64_t now;          /* The time of `strftime_now` in seconds since 1970. 0: the current time. */
    uint64_t reserved[8]; /* Must be 0. */
} tfm_chat_options;

/* Renders messages, a JSON list of objects such as {"role": "user", "content": "Hello"}; as in transformers, fields
 * that are null are left out, and `reasoning_content` and `thinking` are names of the same. The text contains the
 * model's special tokens, BOS included if the template writes it: encode it with `no_special_tokens`. The caller frees
 * *text with tfm_text_free; on failure it is NULL. `options` may be NULL.
 *
 * TFM_ERROR_UNSUPPORTED if there is no template, or it has a construct that is not supported; TFM_ERROR_FORMAT if it is
 * not valid; TFM_ERROR_INPUT if JSON is not valid, or rendering fails, for example because the template refuses the
 * order of roles. The message has the line of the template. */
TFM_API tfm_status tfm_chat_render(const tfm_chat *chat, char **text, const char *messages,
                                   const tfm_chat_options *options);

/* Encodes a conversation for training (tfm_data_options.chat, tfm_batch): the ids of the rendered text. An id that is
 * not learned is ~id; learned are the messages of the assistant, each up to the token that ends its turn
 * (tfm_chat_end_tokens). The conversation is a JSON object in one of five forms:
 *
 *     {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}], "tools": [...]}
 *     {"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value": "..."}]}     (ShareGPT)
 *     {"instruction": "...", "input": "...", "output": "...", "system": "..."}                    (Alpaca)
 *     {"prompt": [messages], "completion": [messages]}
 *     {"prompt": "...", "completion": "..."}      without a template: the completion is learned, and an EOS token
 *
 * `tools`, `input` and `system` may be missing. A message is learned if the template renders the messages before it,
 * with the prompt for an answer, as in the whole conversation. `strftime_now` gives the beginning of 2026, so that the
 * ids do not depend on the day. The caller frees *ids with tfm_ids_free; on failure it is NULL. TFM_ERROR_INPUT for
 * another form, and if nothing is learned; other errors are those of tfm_chat_render and tfm_tokenizer_encode. */
TFM_API tfm_status tfm_chat_encode_example(const tfm_chat *chat, int32_t **ids, size_t *count,
                                           const tfm_tokenizer *tokenizer, const char *conversation, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
