/* One case of a conformance folder: its model on each of its data sets. */
#ifndef TFM_TESTS_RUNNER_H
#define TFM_TESTS_RUNNER_H

#include "graph.h"

typedef struct case_result {
    verdict verdict;
    double error, allowed; /* the largest of all outputs, and what its type is allowed */
    char sentence[640];    /* why it failed or is unsupported */
} case_result;

/* `folder` holds model.onnx and test_data_set_<n>/{input,output}_<k>.pb. */
case_result case_run(tfm_context *ctx, const char *folder);

/* How far `got` is from `want`: the largest difference of two elements, as a fraction of the larger of the
 * wanted one and the root mean square of all wanted ones. Infinities and NaN must be where they are wanted,
 * and integers equal; where not, the error is infinite. *where is the worst element. */
double compare(const double *got, const double *want, size_t count, bool exact, size_t *where);

/* What compare() may give for an output of ONNX's `type`. */
double compare_allowed(int type);

#endif
