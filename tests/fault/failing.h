/* Host memory that gives out: makes a chosen allocation of the library fail, and finds what a failed call leaks. The
 * program is linked with `failing_wraps` of meson.build, so that malloc, calloc, realloc and free of all that is linked
 * statically come here first; those of drivers and of other shared libraries do not. */
#ifndef TFM_TESTS_MEMORY_FAILING_H
#define TFM_TESTS_MEMORY_FAILING_H

#include <stdbool.h>
#include <stddef.h>

/* Counts allocations from here on, and remembers the first and the last one of each place, which is a stack of
 * callers. */
void failing_record(void);
/* The numbers of those allocations, in no order; good until the next failing_record. */
size_t failing_places(const size_t **numbers);

/* From here on allocation `number`, counted from 1, fails; with `stays` so do all after it. 0 is none. */
void failing_begin(size_t number, bool stays);
/* Ends it. Returns how many blocks of what was allocated since the beginning have not been freed. */
size_t failing_end(void);
/* Whether one has failed since failing_begin. */
bool failing_met(void);
/* Prints the callers of the first one that failed, for addr2line, on standard error. */
void failing_print(void);

#endif
