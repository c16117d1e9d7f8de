/* The chat templates and special tokens of a directory. */
#ifndef TFM_LIB_CHAT_FILES_H
#define TFM_LIB_CHAT_FILES_H

#include <jansson.h>
#include "base/base.h"

/* Templates as a JSON object of texts by name, and special tokens by name. Both are new objects, also on failure. */
tfm_status tfm__chat_files_read(json_t **templates, json_t **tokens, const char *dir);

#endif
