/* Histograms of times for Prometheus (serve_histogram.c). */
#ifndef TFM_SERVE_HISTOGRAM_H
#define TFM_SERVE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdio.h>

enum { SERVE_BUCKETS = 14 };

/* Any threads may observe and write at the same time. */
typedef struct serve_histogram {
    atomic_ullong buckets[SERVE_BUCKETS + 1]; /* the last is above all bounds */
    atomic_ullong micros;                     /* sum */
} serve_histogram;

void serve_histogram_observe(serve_histogram *h, double seconds);
/* Writes the samples of a metric. `labels` are escaped, as in `model="a"`, or "". */
void serve_histogram_write(FILE *out, const char *name, const char *labels, const serve_histogram *h);

#endif
