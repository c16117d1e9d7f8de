/* PoCL, the driver for CPUs, compiles in a folder of its own and lists no device where it cannot make that folder. So
 * it is given one before it is first asked:
 *
 *     tfm__pocl_prepare();                        // then clGetPlatformIDs
 *     ...
 *     char why[256];
 *     if (no_device_of_pocl && tfm__pocl_cache_error(why, sizeof(why))) ...
 */
#ifndef TFM_LIB_DEV_ENV_H
#define TFM_LIB_DEV_ENV_H

#include <stdbool.h>
#include <stddef.h>

/* What its platform is called. */
#define TFM__POCL "Portable Computing Language"

/* Sees to PoCL's folder, once in a process. Nothing is done where POCL_CACHE_DIR is set, or where the folder that PoCL
 * takes by itself can be written. Elsewhere POCL_CACHE_DIR is set to a folder `pocl` in the library's cache folder, or
 * if that cannot be had, to one of the user's own in TMPDIR or /tmp. Where /sys is not mounted, it also sets
 * HWLOC_SYNTHETIC, without which PoCL would abort. May be called from any thread; include/tfm/device.h says what the
 * change of the environment means for a program with threads. */
void tfm__pocl_prepare(void);

/* Whether PoCL still has no folder that it can write; then `out` has the sentence that says so and what to do. */
bool tfm__pocl_cache_error(char *out, size_t size);

#endif
