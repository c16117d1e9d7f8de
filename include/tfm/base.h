/* Status codes, error sentences and the log, and the rules that every call of tfm follows.
 *
 * Every call that can fail returns a tfm_status. If it is not TFM_OK, tfm_error_message() gives one sentence that says
 * what went wrong, where, and what to do:
 *
 *     if (tfm_model_open(&model, ctx, dir, NULL) != TFM_OK)
 *         fprintf(stderr, "%s\n", tfm_error_message());
 *
 * The library never ends the program. All that it prints goes through the log callback; until a program sets one, log
 * lines go to stderr.
 *
 * The comment of a call names each pointer that may be NULL. Any other NULL is refused with TFM_ERROR_ARGUMENT, and a
 * call that returns no status then returns NULL, 0 or false, or -1 where 0 is an id. Every function whose name ends in
 * _free takes the address of what it frees, and does nothing for NULL. It leaves a pointer NULL, and the tensors of a
 * plain struct, such as a layer's, empty, so a second call does no harm.
 *
 * Options are structs in which 0 means the default, and a NULL pointer in place of a struct means all defaults. Fill
 * the struct with zeros first, as {0} and designated initialisers do. Its `reserved` words must stay 0: a later version
 * of tfm puts new fields there, and an older library that finds one set refuses the call instead of ignoring the field.
 *
 * Arguments come in one order. A call that makes an object begins with the address of the pointer to fill; every other
 * call begins with the object or context that it works on, and where a call names a provider (ops.h), with that beside
 * it. Then come outputs, inputs and options, and last a callback with its `user` pointer, which the library passes on
 * untouched. A call named `_new` makes something from its arguments alone; a call named `_open` makes it from something
 * that exists, such as a device, a folder or files. */
#ifndef TFM_BASE_H
#define TFM_BASE_H

#include <stddef.h>
#include <stdint.h>
#include "version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* TFM_API marks what the library exports. On Windows, a program that links the static library defines TFM_STATIC first.
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

/* What a call came to. */
typedef enum tfm_status {
    TFM_OK = 0,         /* The call did what it was asked. */
    TFM_ERROR_ARGUMENT, /* The caller passed something that cannot be right: a NULL, a wrong shape, a freed tensor. */
    TFM_ERROR_MEMORY,   /* Host or device memory ran out, or one allocation exceeds what the device allows. */
    TFM_ERROR_IO,       /* A file or folder cannot be read or written. */
    TFM_ERROR_FORMAT,   /* The content of a file is damaged or contradicts itself. */
    TFM_ERROR_UNSUPPORTED, /* The input is well-formed, but tfm cannot run it. */
    TFM_ERROR_DEVICE,      /* There is no such device, or its OpenCL driver failed. */
    TFM_ERROR_BUILD,       /* An OpenCL kernel does not compile. The message contains the driver's build log. */
    TFM_ERROR_INPUT,       /* A line of text cannot be used, for example because it is not UTF-8 or is too long. */
    TFM_ERROR_CANCELLED,   /* A callback asked to stop. */
    TFM_ERROR_NUMERIC,     /* Numbers that are not finite came out: training has diverged. */
    TFM_ERROR_AGAIN,       /* The driver refused a kernel's work-groups, and the context uses smaller ones from now on:
                              clear the context's error and make the same calls again. Opening and saving models,
                              opening embedders, translating, scoring, generating, embedding and classifying lines,
                              guessing words, attending, training, tuning and the self-test do so by themselves. */
} tfm_status;

/* The name of a status code, such as "TFM_ERROR_IO"; "unknown status" for a number that is none. Never NULL. */
TFM_API const char *tfm_status_name(tfm_status status);

/* The sentence of the last call that failed on this thread, or "" if none has failed yet. A call that succeeds leaves
 * it as it was, also where it has tried something in vain first, and so do those that free something. The library owns
 * the string, which stays valid until the next call that fails on this thread. A build log may make it several lines
 * long; it is cut at 8191 bytes. */
TFM_API const char *tfm_error_message(void);

/* How important a log line is, the most important first. */
typedef enum tfm_log_level { TFM_LOG_ERROR, TFM_LOG_WARNING, TFM_LOG_INFO, TFM_LOG_DEBUG } tfm_log_level;

/* Receives one log line, without a newline at its end. `line` is valid only during the call. Any thread that uses the
 * library may make the call, and so may threads of the library's own; but never two at the same time. */
typedef void (*tfm_log_fn)(void *user, tfm_log_level level, const char *line);

/* Sends log lines to `fn`, up to and including `level`. The reports that the environment variable TFM_PROFILE asks for
 * go to `fn` as well, at the info level whatever `level` is. With `fn` NULL, log lines go to stderr again, which is the
 * default: up to the level that the environment variable TFM_LOG names (error, warning, info or debug), or up to
 * warnings if it is not set or names no level; in the latter case a line on stderr says so once. The setting is one for
 * the whole process, so make it before other threads use the library. */
TFM_API void tfm_log_set(tfm_log_fn fn, void *user, tfm_log_level level);

/* The version of the library that is running, such as "0.2.0". TFM_VERSION_STRING is the version that the program was
 * compiled against. The library owns the string. */
TFM_API const char *tfm_version(void);

#ifdef __cplusplus
}
#endif
#endif
