/* Shared test code: a context, random numbers, guarded uploads, comparisons with an oracle. */
#ifndef TFM_TESTS_HARNESS_H
#define TFM_TESTS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tfm/tensor.h"

/* Whether a layer imitates the device without computing (tests/gpu). Then checks of results are ignored, so that a test
 * continues with the next shape; harness_ok still counts. */
bool harness_poses(void);
void harness_fail(const char *file, int line);
void harness_equal(uintmax_t a, uintmax_t b, const char *file, int line);
#undef fail
#define fail() harness_fail(__FILE__, __LINE__)
#undef assert_true
#define assert_true(c) _assert_true((c) || harness_poses(), #c, __FILE__, __LINE__)
#undef assert_int_equal
#define assert_int_equal(a, b)                                                                                         \
    harness_equal(cast_to_largest_integral_type(a), cast_to_largest_integral_type(b), __FILE__, __LINE__)
#undef assert_memory_equal
#define assert_memory_equal(a, b, size)                                                                                \
    _assert_memory_equal((const char *)(a), (const char *)(b), harness_poses() ? 0 : (size), __FILE__, __LINE__)

/* The context of this test program, on TFM_DEVICE, with the tuning variant TFM_TEST_VARIANT if set; opened at first
 * use. Fails the test without OpenCL. */
tfm_context *harness_context(void);

/* Group fixtures for cmocka_run_group_tests: open and free the context. */
int harness_setup(void **state);
int harness_teardown(void **state);

/* Whether the device is an emulator such as llvmpipe, with launches two hundred times slower: tests use fewer shapes.
 */
bool harness_slow(void);

/* TFM_BRIEF=1: a few shapes of each kind, as in tests/run.sh. tests/nightly.sh runs all. */
bool harness_brief(void);
/* Whether to skip a case that mostly costs compile time: a brief run on an emulator keeps one of `every` cases of a
 * program, on a GPU (or a device tested as one) one of five. *number counts cases. */
bool harness_left_out(int *number, int every);

/* A reproducible random stream. */
typedef struct harness_random {
    uint64_t state;
} harness_random;
uint64_t harness_next(harness_random *random);
int64_t harness_range(harness_random *random, int64_t low, int64_t high); /* inclusive */
float harness_normal(harness_random *random);
void harness_fill(harness_random *random, float *out, size_t count, float scale);
/* Rounds to so many significant bits, ties to even: 8 for bf16, 11 for fp16, within their range. */
double harness_rounded(double x, int bits);

/* A tensor inside a larger buffer of NaN (F32) or -77 (I32), at an odd offset: reads outside it spoil results,
 * harness_guards finds writes outside it. With a NULL `host` the tensor itself is filled so too. */
tfm_tensor harness_tensor(tfm_dtype dtype, int rank, const int64_t *dims, const void *host);
#define HARNESS_TENSOR(dtype, host, ...)                                                                               \
    harness_tensor(dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}, host)
/* Fails the test if memory around the tensor was written. */
void harness_guards(tfm_tensor x);
/* Aligns the next tensors to so many elements, like the library's own: kernels may then use vector loads. With 0 they
 * have odd offsets (the default), or multiples of four if TFM_TEST_ALIGNED is set. */
void harness_align(int elements);

/* Fresh host copies; free with free(). */
float *harness_floats(tfm_tensor x);
int32_t *harness_ints(tfm_tensor x);

/* Fails unless every element is within `tolerance` times the larger of 1 and the oracle's root mean square; infinities
 * must match exactly, and NaN never matches. Prints the worst element. */
void harness_close(const float *got, const double *want, size_t count, double tolerance, const char *what);

/* Fails unless the call fails with this status and a sentence that contains `part`; clears the context's error. */
void harness_refused(tfm_status got, tfm_status want, const char *part);

/* Fails with the library's error message unless the status is TFM_OK. */
void harness_ok(tfm_status status);

/* A path in the shared folder next to the checkout, for free(). If it is absent, prints so and returns NULL: skip(). */
char *harness_shared(const char *relative);
/* A path in the source tree, for free(). */
char *harness_source(const char *relative);

#endif
