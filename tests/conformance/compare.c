#include <math.h>
#include "runner.h"

double compare(const double *got, const double *want, size_t count, bool exact, size_t *where) {
    double square = 0, worst = 0;
    size_t finite = 0;
    for (size_t i = 0; i < count; i++)
        if (isfinite(want[i])) {
            square += want[i] * want[i];
            finite++;
        }
    const double middle = finite ? sqrt(square / (double)finite) : 0;
    *where = 0;
    for (size_t i = 0; i < count; i++) {
        double error;
        if (isnan(want[i]) || isinf(want[i]) || exact)
            error = got[i] == want[i] || (isnan(got[i]) && isnan(want[i])) ? 0 : INFINITY;
        else
            error = fabs(got[i] - want[i]) / fmax(fmax(fabs(want[i]), middle), 1e-30);
        if (!(error <= worst)) { /* NaN too */
            worst = isnan(error) ? INFINITY : error;
            *where = i;
        }
    }
    return worst;
}

/* FLOAT: another summation order. Narrow types: two values rounded in opposite directions, each by one unit in the last
 * place, 2^-10 and 2^-7. */
double compare_allowed(int type) {
    switch (type) {
    case ONNX_FLOAT:
        return 1e-5;
    case ONNX_FLOAT16:
        return 1e-3;
    case ONNX_BFLOAT16:
        return 8e-3;
    default:
        return 0;
    }
}
