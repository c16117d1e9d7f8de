/* PoCL, the CPU driver, compiles in its cache folder and lists no device if it cannot create it. So the folder is set
 * up before the first query:
 *
 *     tfm__pocl_prepare();                        // then clGetPlatformIDs
 *     ...
 *     char why[256];
 *     if (no_device_of_pocl && tfm__pocl_cache_error(why, sizeof(why))) ... */
#ifndef TFM_LIB_DEV_ENV_H
#define TFM_LIB_DEV_ENV_H

#include <stdbool.h>
#include <stddef.h>

/* The name of PoCL's platform. */
#define TFM__POCL "Portable Computing Language"

/* Sets up PoCL's folder, once per process. No-op if POCL_CACHE_DIR is set or PoCL's default folder is writable.
 * Otherwise POCL_CACHE_DIR becomes `pocl` in the library's cache folder, or a private folder in TMPDIR or /tmp. If /sys
 * is not mounted, it also sets HWLOC_SYNTHETIC, without which PoCL aborts. Thread-safe; include/tfm/device.h describes
 * the effect on multi-threaded programs. */
void tfm__pocl_prepare(void);

/* Whether PoCL still has no writable folder; `out` gets the reason and the advice. */
bool tfm__pocl_cache_error(char *out, size_t size);

#endif
