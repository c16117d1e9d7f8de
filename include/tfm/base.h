/* Status codes, error sentences and the log.
 *
 * Every fallible call returns a tfm_status. When it is not TFM_OK, tfm_error_message() gives one sentence that
 * says what went wrong, where, and what to do:
 *
 *     if (tfm_model_open(&model, ctx, dir, NULL) != TFM_OK)
 *         fprintf(stderr, "%s\n", tfm_error_message());
 *
 * The library never exits, and prints nothing but through the log callback, which is stderr until one is set. */
#ifndef TFM_BASE_H
#define TFM_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TFM_API __attribute__((visibility("default")))
#define TFM_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define TFM_API
#define TFM_PRINTF(text, first)
#endif

typedef enum tfm_status {
    TFM_OK = 0,
    TFM_ERROR_ARGUMENT,    /* the caller passed something that cannot be: a null, a shape, a stale tensor */
    TFM_ERROR_MEMORY,      /* host or device memory ran out, or one allocation is larger than the device takes */
    TFM_ERROR_IO,          /* a file cannot be read or written */
    TFM_ERROR_FORMAT,      /* a file's content is broken or disagrees with itself */
    TFM_ERROR_UNSUPPORTED, /* well-formed, but nothing here can run it */
    TFM_ERROR_DEVICE,      /* no such device, or the OpenCL driver failed */
    TFM_ERROR_BUILD,       /* a kernel does not compile; the message carries the build log */
    TFM_ERROR_INPUT,       /* one line of text is bad: invalid UTF-8, NUL, too long */
    TFM_ERROR_CANCELLED,   /* a callback asked to stop */
} tfm_status;

/* The name of a status code: "TFM_ERROR_IO". Never NULL. */
TFM_API const char *tfm_status_name(tfm_status status);

/* The sentence of the last failed call on this thread; "" if none failed yet. Borrowed: valid until the next
 * failing call on this thread. */
TFM_API const char *tfm_error_message(void);

typedef enum tfm_log_level { TFM_LOG_ERROR, TFM_LOG_WARNING, TFM_LOG_INFO, TFM_LOG_DEBUG } tfm_log_level;

/* Receives one line without newline. May be called from any thread that uses the library. */
typedef void (*tfm_log_fn)(void *user, tfm_log_level level, const char *line);

/* Sends log lines up to `level` to `fn`, and the reports that were asked for (TFM_PROFILE) at the info level. NULL
 * restores the default: lines up to TFM_LOG (error, warning, info or debug; unset means warning) to stderr.
 * Process-wide; call it before other threads use the library. */
TFM_API void tfm_log_set(tfm_log_fn fn, void *user, tfm_log_level level);

/* The library's version, "0.1.0". */
TFM_API const char *tfm_version(void);

#ifdef __cplusplus
}
#endif
#endif
