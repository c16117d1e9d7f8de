/* The tuning database of a context: the table of `tfm tune`. */
#ifndef TFM_LIB_TUNING_DB_H
#define TFM_LIB_TUNING_DB_H

#include "dev/dev.h"

/* A row of the table of `tfm tune`. Both texts use TFM__TUNING_CHARSET. The reader of a name interprets the setting and
 * ignores unknown ones. */
enum { TFM__TUNING_TEXT_MAX = 48 };
#define TFM__TUNING_CHARSET "abcdefghijklmnopqrstuvwxyz0123456789 -/"
typedef struct tfm__tuning_entry {
    char name[TFM__TUNING_TEXT_MAX], setting[TFM__TUNING_TEXT_MAX];
} tfm__tuning_entry;

typedef struct tfm__tuning_db {
    tfm__tuning_entry *entries; /* [count], sorted by name */
    size_t count;
} tfm__tuning_db;

/* The row of tfm__tuning.group; the setting is a number. */
#define TFM__TUNING_WORKGROUP "group"

/* All rows, sorted by name; valid until one is set. */
const tfm__tuning_entry *tfm__tuning_db_entries(const tfm_context *ctx, size_t *count);
/* The setting, or NULL. */
const char *tfm__tuning_db_find(const tfm_context *ctx, const char *name);
/* Sets a row in this context, or removes it if the setting is NULL. A failure does not affect the context. */
tfm_status tfm__tuning_db_set(tfm_context *ctx, const char *name, const char *setting);
void tfm__tuning_db_clear(tfm_context *ctx);
/* Whether it was cleared since the last tfm__tuning_db_save. */
bool tfm__tuning_db_is_cleared(const tfm_context *ctx);
/* Applies the rows that lib/dev defines to the tuning. */
void tfm__tuning_db_apply(tfm_context *ctx);
/* A hash of all rows; 0 if there are none or the context is NULL. */
uint64_t tfm__tuning_db_hash(const tfm_context *ctx);
/* Stores the rows for later contexts: merges this context's changes since it last read or stored them into the stored
 * table, which other processes may have changed. After tfm__tuning_db_clear nothing of the stored table is kept;
 * without rows the table is deleted. A failure does not affect the context. */
tfm_status tfm__tuning_db_save(tfm_context *ctx);
/* Whether tfm__tuning_db_save would work; else TFM_ERROR_IO with its message. */
tfm_status tfm__tuning_db_check_writable(tfm_context *ctx);

#endif
