/* Messages as transformers passes them to a chat template. */
#ifndef TFM_LIB_CHAT_MESSAGES_H
#define TFM_LIB_CHAT_MESSAGES_H

#include <jansson.h>
#include "base/base.h"
#include "text/bytes.h"

/* Checks a list of messages, and changes it: fields that are null are removed, and reasoning gets both of its names. */
tfm_status tfm__chat_messages_normalize(json_t *messages);

/* Marks the end of the last message's text, and returns a copy of the text; `source` is the template. */
tfm_status tfm__chat_messages_mark(char **text, json_t *messages, const char *source);
/* Removes the mark and all after it from the rendered text. */
tfm_status tfm__chat_messages_cut(tfm__bytes *rendered, const char *text);

#endif
