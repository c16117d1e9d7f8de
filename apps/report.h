/* What the parts of `tfm report` share. */
#ifndef TFM_REPORT_H
#define TFM_REPORT_H

#include <jansson.h>
#include "bench.h"

/* A text without what is the user's own: of each path its last name stays. For free(); NULL without memory. */
char *report_public(const char *text);

/* How long things take here, for report["bench"], in parts of the measured peak and bandwidth, which are put into
 * report["peak"] (report_bench.c). What fails is a row that says so. */
int report_bench(tfm_context *ctx, json_t *report);

/* The report as Markdown that reads well at 80 columns (report_markdown.c). */
void report_markdown(FILE *file, const json_t *report);

#endif
