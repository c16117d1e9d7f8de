/* Shared declarations of `tfm report`. */
#ifndef TFM_REPORT_H
#define TFM_REPORT_H

#include <jansson.h>
#include "bench/bench.h"

/* Private names and folders to remove; each may be NULL. */
enum { REPORT_FOLDERS = 8, REPORT_NAMES = 4 };
typedef struct report_owner {
    const char *folders[REPORT_FOLDERS], *users[REPORT_NAMES], *hosts[REPORT_NAMES];
} report_owner;

/* An anonymized text: paths are cut to their last name, and names of users and machines are replaced. For free(); NULL
 * without memory (report_text.c). */
char *report_redact(const char *text);
/* The same with this owner's names and folders instead of the current user's; NULL: only paths. */
char *report_redact_owner(const report_owner *owner, const char *text);

/* Puts the anonymized text into an object; report_failed puts the library's error as "failed", unless there is one. */
void report_set_text(json_t *object, const char *name, const char *text);
void report_failed(json_t *report);

/* Timings for report["bench"], as fractions of the measured peak and bandwidth in report["peak"] (report_bench.c). A
 * failure is a row with the reason; a failed peak measurement or a lost device also sets report["failed"]. */
void report_bench(tfm_context *ctx, json_t *report);

/* The report as Markdown that reads well at 80 columns (report_markdown.c). */
void report_markdown(FILE *file, const json_t *report);

#endif
