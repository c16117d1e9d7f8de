/* Selects tests with fewer cases. */
#ifndef TFM_TESTS_BRIEF_H
#define TFM_TESTS_BRIEF_H

#include "dev/dev.h"
#include "support/harness.h"

/* Whether the run is brief and the device runs GPU kernels, which take long to compile: a work-group per row or tile.
 */
static inline bool less(void) {
    return harness_brief() && tfm__context_tuning(harness_context())->class == TFM__CLASS_GPU;
}

#endif
