/* What the tests share: a context, random numbers, uploads with guards, comparisons with an oracle. */
#ifndef TFM_TESTS_HARNESS_H
#define TFM_TESTS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tfm/tensor.h"

/* Whether a layer only poses as the device and computes nothing (tests/gpu). Then what a test says of results is not
 * heard, so that it goes on to the next shape; what harness_ok says is. */
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

/* The context of this test program, on TFM_DEVICE, with the tuning that TFM_TEST_VARIANT names if it is set; opened at
 * first use. A machine without OpenCL fails the test. */
tfm_context *harness_context(void);

/* Group fixtures for cmocka_run_group_tests: open and free that context. */
int harness_setup(void **state);
int harness_teardown(void **state);

/* Whether the device is an emulator such as llvmpipe, two hundred times slower a launch: tests take fewer shapes. */
bool harness_slow(void);

/* TFM_BRIEF=1: a few shapes of each kind are enough, as tests/run.sh has it. The others are tests/nightly.sh's. */
bool harness_brief(void);
/* Whether a case is left out, since most of its time is a compiler's: in a brief run an emulator takes the first of
 * every `every` cases of a program, and what is a GPU, or is tested as one, the first of every five. *number counts
 * them. */
bool harness_left_out(int *number, int every);

/* A repeatable stream. */
typedef struct harness_random {
    uint64_t state;
} harness_random;
uint64_t harness_next(harness_random *random);
int64_t harness_range(harness_random *random, int64_t low, int64_t high); /* both included */
float harness_normal(harness_random *random);
void harness_fill(harness_random *random, float *out, size_t count, float scale);
/* The nearest number with so many significant bits, ties to even: 8 for bf16, 11 for fp16, within their range. */
double harness_rounded(double x, int bits);

/* A tensor that lies in the middle of a larger buffer full of NaN (F32) or -77 (I32), at an odd offset: reads outside
 * it spoil results, writes outside it are found by harness_guards. `host` may be NULL: then it is poisoned itself. */
tfm_tensor harness_tensor(tfm_dtype dtype, int rank, const int64_t *dims, const void *host);
#define HARNESS_TENSOR(dtype, host, ...)                                                                               \
    harness_tensor(dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}, host)
/* Fails the test if anything around the tensor has been written. */
void harness_guards(tfm_tensor x);
/* The next tensors begin at a multiple of so many elements, as the library's own do: kernels may read four at once
 * then, or a vector. With 0 they begin at an odd one, as they do unless a test says otherwise; or at a multiple of
 * four, where TFM_TEST_ALIGNED is set. */
void harness_align(int elements);

/* Fresh host copies; free with free(). */
float *harness_floats(tfm_tensor x);
int32_t *harness_ints(tfm_tensor x);

/* Fails unless every element is within `tolerance` times the larger of 1 and the oracle's root mean square; -inf and
 * +inf must match exactly, and NaN never matches. Says where and how far. */
void harness_close(const float *got, const double *want, size_t count, double tolerance, const char *what);

/* Fails unless the call is refused with this status and a sentence that contains `part`; clears the context's error. */
void harness_refused(tfm_status got, tfm_status want, const char *part);

/* Fails with the library's sentence unless the status is TFM_OK. */
void harness_ok(tfm_status status);

/* A path in the shared folder beside the checkout, or NULL (after saying so) where it is absent: then skip(). Freed by
 * the caller. */
char *harness_shared(const char *relative);
/* A path in the source tree. Freed by the caller. */
char *harness_source(const char *relative);

#endif
