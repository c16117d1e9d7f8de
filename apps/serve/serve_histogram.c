/* Histograms of times for Prometheus. */
#include "serve/serve_histogram.h"

/* Upper bounds of the buckets, in seconds. */
static const double BOUNDS[SERVE_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                             0.25,  0.5,    1,     2.5,  5,     10,   30};

void serve_histogram_observe(serve_histogram *h, double seconds) {
    size_t bucket = 0;
    while (bucket < SERVE_BUCKETS && seconds > BOUNDS[bucket])
        bucket++;
    atomic_fetch_add(&h->buckets[bucket], 1);
    atomic_fetch_add(&h->micros, (unsigned long long)(1e6 * (seconds > 0 ? seconds : 0)));
}

void serve_histogram_write(FILE *out, const char *name, const char *labels, const serve_histogram *h) {
    const char *comma = *labels ? "," : "", *open = *labels ? "{" : "", *close = *labels ? "}" : "";
    unsigned long long sum = 0;
    for (size_t i = 0; i < SERVE_BUCKETS; i++) {
        sum += atomic_load(&h->buckets[i]);
        fprintf(out, "%s_bucket{%s%sle=\"%g\"} %llu\n", name, labels, comma, BOUNDS[i], sum);
    }
    sum += atomic_load(&h->buckets[SERVE_BUCKETS]);
    fprintf(out, "%s_bucket{%s%sle=\"+Inf\"} %llu\n%s_sum%s%s%s %.6f\n%s_count%s%s%s %llu\n", name, labels, comma, sum,
            name, open, labels, close, 1e-6 * (double)atomic_load(&h->micros), name, open, labels, close, sum);
}
