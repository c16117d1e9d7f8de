/* The disk cache's folder, for its entries. */
#ifndef TFM_LIB_DEV_CACHE_FOLDER_H
#define TFM_LIB_DEV_CACHE_FOLDER_H

#include <stdbool.h>
#include "base/base.h"

/* How file names end: of a program, and of an entry that lasts. */
#define TFM__CACHE_ENTRY ".tfm"
#define TFM__CACHE_TABLE ".table"
/* Bytes of an entry's file name, with the closing 0. */
enum { TFM__CACHE_NAME = 64 };

/* A descriptor of the folder, which the caller closes; -1 without one. Only `make` creates it, and only `make` minds
 * that it is missing. */
int tfm__cache_folder(bool make, bool warn);
/* Says, once a process, why there is no disk cache. */
void tfm__cache_warn(const char *format, ...) TFM_PRINTF(1, 2);
/* Whether the entry of this key lasts. */
bool tfm__cache_is_persistent(const char *key);
/* The name of the file of the key's entry. */
void tfm__cache_name(char name[TFM__CACHE_NAME], const char *key);

#endif
