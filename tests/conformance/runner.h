/* Runs one case of a conformance folder: its model on each data set. */
#ifndef TFM_TESTS_RUNNER_H
#define TFM_TESTS_RUNNER_H

#include "graph.h"

typedef struct case_result {
    verdict verdict;
    double error, allowed; /* the largest error of all outputs, and the tolerance for its type */
    char sentence[640];    /* reason of a failure or an unsupported case */
} case_result;

/* `folder` contains model.onnx and test_data_set_<n>/{input,output}_<k>.pb. */
case_result case_run(tfm_context *ctx, const char *folder);

/* Relative error of `got`: the largest difference of two elements, divided by the larger of the expected element and
 * the root mean square of all expected ones. Infinities, NaN and integers must match exactly, else the error is
 * infinite. *where is the worst element. */
double compare(const double *got, const double *want, size_t count, bool exact, size_t *where);

/* The tolerance of compare() for an output of ONNX's `type`. */
double compare_allowed(int type);

#endif
