/* What the layer keeps of the programs that were asked for: a file NAME-HASH.cl each, whose first line has the options,
 * and a file NAME-HASH.launches, a line "KERNEL X Y Z" for each size of group. Several processes may write at once: a
 * program's name is made of its text, so that they write the same. */
#ifndef TFM_TESTS_RECORD_H
#define TFM_TESTS_RECORD_H

#include <stddef.h>

/* `program` was built from this text with these options. */
void record_program(const void *program, const char *source, const char *options);

/* A kernel of `program` was launched; group[d] is 0 where the driver was to choose. */
void record_launch(const void *program, const char *kernel, const size_t group[3]);

#endif
