/* Which tests take fewer cases than others. */
#ifndef TFM_TESTS_BRIEF_H
#define TFM_TESTS_BRIEF_H

#include "dev/dev.h"
#include "support/harness.h"

/* Whether it is brief, and kernels of GPUs run here, which take long: a work-group for each row, or tile. */
static inline bool less(void) {
    return harness_brief() && tfm__context_tuning(harness_context())->class == TFM__CLASS_GPU;
}

#endif
