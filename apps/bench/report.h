/* What the parts of `tfm report` share. */
#ifndef TFM_REPORT_H
#define TFM_REPORT_H

#include <jansson.h>
#include "bench/bench.h"

/* Whose names and folders are not to be told: any of them may be NULL. */
enum { REPORT_FOLDERS = 8, REPORT_NAMES = 4 };
typedef struct report_owner {
    const char *folders[REPORT_FOLDERS], *users[REPORT_NAMES], *hosts[REPORT_NAMES];
} report_owner;

/* A text without what is the user's own: of each path its last name stays, and names of users and machines are
 * replaced. For free(); NULL without memory (report_text.c). */
char *report_redact(const char *text);
/* The same, with this owner's names and folders in place of those of whoever runs it; NULL: paths alone. */
char *report_redact_owner(const report_owner *owner, const char *text);

/* Puts that public text into an object; report_failed the library's sentence as "failed", unless there is one. */
void report_set_text(json_t *object, const char *name, const char *text);
void report_failed(json_t *report);

/* How long things take here, for report["bench"], in parts of the measured peak and bandwidth, which are put into
 * report["peak"] (report_bench.c). What fails is a row that says so; the peak, which others are told by, and a device
 * that is lost are report["failed"], too. */
void report_bench(tfm_context *ctx, json_t *report);

/* The report as Markdown that reads well at 80 columns (report_markdown.c). */
void report_markdown(FILE *file, const json_t *report);

#endif
