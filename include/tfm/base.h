/* Status codes, error messages and logging, and the conventions of all calls of tfm.
 *
 * Every call that can fail returns a tfm_status. If it is not TFM_OK, tfm_error_message() gives one sentence: what
 * failed, why, and what to do:
 *
 *     if (tfm_model_open(&model, ctx, dir, NULL) != TFM_OK)
 *         fprintf(stderr, "%s\n", tfm_error_message());
 *
 * The library never ends the program. It prints only through the log callback; until a program sets one, log lines go
 * to stderr.
 *
 * NULL: the comment of a call names each pointer that may be NULL. Any other NULL is TFM_ERROR_ARGUMENT; a call without
 * a status then returns NULL, 0, false, or -1 for an id. Functions named `_free` take the address of the pointer or
 * struct, do nothing for NULL, and set the pointer to NULL or the tensors of a plain struct (a layer) to empty, so that
 * a second call is harmless.
 *
 * Options are structs in which 0 means the default; a NULL struct means all defaults. Initialize them with {0} or
 * designated initializers. `reserved` words must be 0: later versions put new fields there, and an older library
 * refuses a call with one set instead of ignoring the field.
 *
 * Argument order: a call that makes an object begins with the address of the pointer to fill. Other calls begin with
 * the object or context, then the provider name if there is one (ops.h). Outputs, inputs and options follow, and last a
 * callback with its `user` pointer, which is passed through. `_new` makes an object from its arguments alone; `_open`
 * makes it from a device, a folder or files. */
#ifndef TFM_BASE_H
#define TFM_BASE_H

#include <stddef.h>
#include <stdint.h>
#include "version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* TFM_API marks exported functions. On Windows, programs that link the static library define TFM_STATIC first.
 * TFM_BUILDING is defined only while the library itself is compiled. */
#if defined(_WIN32) && !defined(TFM_STATIC)
#ifdef TFM_BUILDING
#define TFM_API __declspec(dllexport)
#else
#define TFM_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define TFM_API __attribute__((visibility("default")))
#else
#define TFM_API
#endif

/* Lets the compiler check the arguments of functions that format like printf. */
#if defined(__GNUC__)
#define TFM_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define TFM_PRINTF(text, first)
#endif

/* The result of a call. */
typedef enum tfm_status {
    TFM_OK = 0,            /* Success. */
    TFM_ERROR_ARGUMENT,    /* An argument is invalid: a NULL, a wrong shape, a freed tensor. */
    TFM_ERROR_MEMORY,      /* Host or device memory ran out, or one allocation exceeds what the device allows. */
    TFM_ERROR_IO,          /* A file or folder cannot be read or written. */
    TFM_ERROR_FORMAT,      /* The content of a file is damaged or contradicts itself. */
    TFM_ERROR_UNSUPPORTED, /* The input is well-formed, but tfm cannot run it. */
    TFM_ERROR_DEVICE,      /* No such device, or its OpenCL driver failed. */
    TFM_ERROR_BUILD,       /* An OpenCL kernel does not compile. The message contains the driver's build log. */
    TFM_ERROR_INPUT,       /* A line of text cannot be used, for example because it is not UTF-8 or is too long. */
    TFM_ERROR_CANCELLED,   /* A callback stopped the call. */
    TFM_ERROR_NUMERIC,     /* A loss or gradient is not finite: training has diverged. */
    TFM_ERROR_AGAIN, /* The driver refused a kernel's work-group size, and the context uses smaller groups from now on:
                        clear the context's error and repeat the calls. Opening and saving models, opening embedders,
                        translation, scoring, generation, embedding, classification, fill-mask, attention maps,
                        training, tuning and the self-test retry internally. */
} tfm_status;

/* The name of a status code, such as "TFM_ERROR_IO"; "unknown status" for any other number. Never NULL. */
TFM_API const char *tfm_status_name(tfm_status status);

/* The message of the last call that failed on this thread, or "" if none has. Successful calls and `_free` calls do not
 * change it. The library owns the string; it is valid until the next failing call on this thread. A build log may make
 * it several lines long; it is cut at 8191 bytes. */
TFM_API const char *tfm_error_message(void);

/* Log levels, the most severe first. */
typedef enum tfm_log_level { TFM_LOG_ERROR, TFM_LOG_WARNING, TFM_LOG_INFO, TFM_LOG_DEBUG } tfm_log_level;

/* Receives one log line, without a newline. `line` is valid only during the call. Any thread that uses the library may
 * call it, including the library's threads, but never two at the same time. */
typedef void (*tfm_log_fn)(void *user, tfm_log_level level, const char *line);

/* Sends log lines up to and including `level` to `fn`. Profiling reports (environment variable TFM_PROFILE) also go to
 * `fn`, at the info level, whatever `level` is. With `fn` NULL, the default, log lines go to stderr up to the level in
 * the environment variable TFM_LOG (error, warning, info or debug), or up to warnings if it is not set or invalid; an
 * invalid value is reported once on stderr. The setting is process-wide: call this before other threads use the
 * library. */
TFM_API void tfm_log_set(tfm_log_fn fn, void *user, tfm_log_level level);

/* The version of the running library, such as "0.2.0"; TFM_VERSION_STRING is the version at compile time. The library
 * owns the string. */
TFM_API const char *tfm_version(void);

#ifdef __cplusplus
}
#endif
#endif
