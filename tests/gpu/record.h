/* Records requested programs: NAME-HASH.cl, with the build options in its first line, and NAME-HASH.launches, with a
 * line "KERNEL X Y Z" for each work-group size. The hash is that of the text, so concurrent processes write the same
 * files. */
#ifndef TFM_TESTS_RECORD_H
#define TFM_TESTS_RECORD_H

#include <stddef.h>

/* `program` is built from this text with these options. */
void record_program(const void *program, const char *source, const char *options);

/* A kernel of `program` is launched; group[d] is 0 if the driver chooses. */
void record_launch(const void *program, const char *kernel, const size_t group[3]);

#endif
