/* The disk cache's folder. */
#ifndef TFM_LIB_DEV_CACHE_FOLDER_H
#define TFM_LIB_DEV_CACHE_FOLDER_H

#include <stdbool.h>
#include "base/base.h"

/* File name suffixes: of an evictable entry, and of a persistent one. */
#define TFM__CACHE_ENTRY ".tfm"
#define TFM__CACHE_TABLE ".table"
/* Bytes of an entry's file name, with the closing 0. */
enum { TFM__CACHE_NAME = 64 };

/* A descriptor of the folder, which the caller closes; -1 without one. `make` creates the folder; without `make` a
 * missing one causes no warning. */
int tfm__cache_folder(bool make, bool warn);
/* Warns, once per process, why there is no disk cache. */
void tfm__cache_warn(const char *format, ...) TFM_PRINTF(1, 2);
/* Whether the entry of this key is persistent. */
bool tfm__cache_is_persistent(const char *key);
/* The file name of the key's entry. */
void tfm__cache_name(char name[TFM__CACHE_NAME], const char *key);

#endif
