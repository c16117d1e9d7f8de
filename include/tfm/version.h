/* The version of tfm at compile time; tfm_version() in base.h gives the version of the running library.
 *
 *     #if TFM_VERSION_NUMBER >= TFM_VERSION_OF(0, 2, 0)
 *     const char *running = tfm_version();
 *     #endif
 *
 * Compatibility:
 *
 *   - Patch, 0.2.1 after 0.2.0: nothing visible is removed or changed, so programs need no recompilation. There may be
 *     new functions. An options struct may use `reserved` words for a new field, whose 0 means the earlier behavior.
 *   - Minor, 0.3.0 after 0.2.0, as long as the major version is 0: names, arguments and structs may change. The shared
 *     library then has another soname, libtfm.so.0.3; both versions can be installed side by side.
 *   - From 1.0.0 on, the soname has the major version alone, libtfm.so.1, and minor versions only add.
 *
 * Structs that the library fills for the caller, such as tfm_device_info, change only together with the soname. */
#ifndef TFM_VERSION_H
#define TFM_VERSION_H

#define TFM_VERSION_MAJOR 0
#define TFM_VERSION_MINOR 2
#define TFM_VERSION_PATCH 0
#define TFM_VERSION_STRING "0.2.0"

/* A version as one number; a later version has a larger number. */
#define TFM_VERSION_OF(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
#define TFM_VERSION_NUMBER TFM_VERSION_OF(TFM_VERSION_MAJOR, TFM_VERSION_MINOR, TFM_VERSION_PATCH)

#endif
