/* Allocation failure injection: makes a chosen host allocation of the library fail and reports leaked blocks. Programs
 * link with `failing_wraps` of meson.build, which wraps malloc, calloc, realloc and free of all statically linked code.
 * Allocations of drivers and other shared libraries are not wrapped. */
#ifndef TFM_TESTS_MEMORY_FAILING_H
#define TFM_TESTS_MEMORY_FAILING_H

#include <stdbool.h>
#include <stddef.h>

/* Starts counting allocations; records the first and the last one of each site (call stack). */
void failing_record(void);
/* Indices of those allocations, unordered; valid until the next failing_record. */
size_t failing_places(const size_t **numbers);

/* From now on allocation `number` (from 1; 0: none) fails; with `stays` all later ones fail too. */
void failing_begin(size_t number, bool stays);
/* Stops failing; returns the number of blocks that were allocated since the start and not freed. */
size_t failing_end(void);
/* Whether an allocation failed since failing_begin. */
bool failing_met(void);
/* Prints the call stack of the first failed allocation on standard error, for addr2line. */
void failing_print(void);

#endif
