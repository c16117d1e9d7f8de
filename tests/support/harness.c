#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"

enum { GUARD = 67 };
static size_t guard = GUARD; /* odd, so that vectors are not aligned by chance */

void harness_align(int elements) {
    const size_t unit = elements > 0 ? (size_t)elements : getenv("TFM_TEST_ALIGNED") ? 4 : 1;
    guard = (GUARD + unit - 1) / unit * unit;
}

static tfm_context *shared;

/* TFM_TEST_ATTENTION_ROWS: rows of a work-item in attention tiles, however small the tensors are;
 * TFM_TEST_ATTENTION_RESIDENT: queries stay in local memory. */
static tfm_status open_shared(void) {
    const char *rows = getenv("TFM_TEST_ATTENTION_ROWS"), *resident = getenv("TFM_TEST_ATTENTION_RESIDENT");
    const tfm_status status = tfm_context_open(&shared, &(tfm_context_options){.variant = getenv("TFM_TEST_VARIANT")});
    if (status == TFM_OK && rows) {
        shared->tuning.attention_tile_rows = atoi(rows);
        shared->tuning.attention_tile_min_rows = 0;
        shared->tuning.attention_resident_queries = resident != NULL;
    }
    return status;
}

tfm_context *harness_context(void) {
    if (!shared)
        harness_ok(open_shared());
    return shared;
}

int harness_setup(void **state) {
    harness_align(0);
    (void)state;
    if (open_shared() != TFM_OK) {
        fprintf(stderr, "%s\n", tfm_error_message());
        return -1;
    }
    return 0;
}

int harness_teardown(void **state) {
    (void)state;
    tfm_context_free(&shared);
    return 0;
}

bool harness_slow(void) {
    return tfm_context_device(harness_context())->emulator;
}

bool harness_brief(void) {
    const char *brief = getenv("TFM_BRIEF");
    return brief && strcmp(brief, "1") == 0;
}

bool harness_left_out(int *number, int every) {
    const bool gpu = tfm_context_device(harness_context())->type == TFM_DEVICE_GPU;
    return harness_brief() && (gpu || harness_slow()) && (*number)++ % (harness_slow() ? every : 7) != 0;
}

bool harness_poses(void) {
    const char *pose = getenv("TFM_POSE");
    return pose && !strstr(pose, "run=1");
}

void harness_fail(const char *file, int line) {
    if (!harness_poses())
        _fail(file, line);
}

void harness_equal(uintmax_t a, uintmax_t b, const char *file, int line) {
    if (!harness_poses())
        _assert_int_equal(a, b, file, line);
}

uint64_t harness_next(harness_random *random) {
    uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15)); /* splitmix64 */
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int64_t harness_range(harness_random *random, int64_t low, int64_t high) {
    return low + (int64_t)(harness_next(random) % (uint64_t)(high - low + 1));
}

float harness_normal(harness_random *random) {
    double u = ((double)(harness_next(random) >> 11) + 1) / 9007199254740993.0;
    double v = (double)(harness_next(random) >> 11) / 9007199254740992.0;
    return (float)(sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v));
}

double harness_rounded(double x, int bits) {
    int exponent;
    const double fraction = frexp(x, &exponent);
    return ldexp(rint(ldexp(fraction, bits)), exponent - bits);
}

void harness_fill(harness_random *random, float *out, size_t count, float scale) {
    for (size_t i = 0; i < count; i++)
        out[i] = scale * harness_normal(random);
}

static void poison(void *out, tfm_dtype dtype, size_t count) {
    size_t size = tfm_dtype_size(dtype);
    const float nan_float = NAN;
    const int32_t odd = -77;
    const uint16_t half_nan = 0x7fff;
    const void *element = dtype == TFM_F32 ? (const void *)&nan_float
                          : size == 4      ? (const void *)&odd
                                           : (const void *)&half_nan;
    for (size_t i = 0; i < count; i++)
        memcpy((char *)out + i * size, element, size);
}

tfm_tensor harness_tensor(tfm_dtype dtype, int rank, const int64_t *dims, const void *host) {
    tfm_context *ctx = harness_context();
    tfm_tensor view = {.dtype = dtype, .rank = rank}, whole = {0};
    memcpy(view.dims, dims, (size_t)rank * sizeof(*dims));
    size_t count = tfm_tensor_count(view), size = tfm_dtype_size(dtype), total = count + 2 * guard;
    char *bytes = malloc(total * size);
    assert_non_null(bytes);
    poison(bytes, dtype, total);
    if (host)
        memcpy(bytes + guard * size, host, count * size);
    harness_ok(tfm_tensor_new(ctx, &whole, dtype, 1, (int64_t[]){(int64_t)total}));
    harness_ok(tfm_tensor_write(ctx, whole, bytes));
    free(bytes);
    view.buffer = whole.buffer;
    view.generation = whole.generation;
    view.offset = (int64_t)guard;
    return view;
}

void harness_guards(tfm_tensor x) {
    size_t size = tfm_dtype_size(x.dtype), count = tfm_tensor_count(x);
    char *got = malloc(GUARD * size), *want = malloc(GUARD * size);
    assert_true(got && want);
    poison(want, x.dtype, GUARD);
    tfm_tensor side = x;
    side.rank = 1;
    side.dims[0] = GUARD;
    for (int after = 0; after < 2; after++) {
        side.offset = after ? x.offset + count : x.offset - GUARD;
        harness_ok(tfm_tensor_read(harness_context(), got, side));
        for (size_t i = 0; i < GUARD; i++)
            if (memcmp(got + i * size, want + i * size, size) != 0)
                fail_msg("written outside the tensor: element %zu %s it", after ? i + 1 : GUARD - i,
                         after ? "after" : "before");
    }
    free(got);
    free(want);
}

static void *download(tfm_tensor x) {
    void *host = malloc(tfm_tensor_count(x) * tfm_dtype_size(x.dtype));
    assert_non_null(host);
    harness_ok(tfm_tensor_read(harness_context(), host, x));
    return host;
}

float *harness_floats(tfm_tensor x) {
    assert_int_equal(x.dtype, TFM_F32);
    return download(x);
}

int32_t *harness_ints(tfm_tensor x) {
    assert_int_equal(x.dtype, TFM_I32);
    return download(x);
}

void harness_close(const float *got, const double *want, size_t count, double tolerance, const char *what) {
    double square = 0, worst = -1;
    size_t finite = 0, where = 0;
    for (size_t i = 0; i < count; i++)
        if (isfinite(want[i])) {
            square += want[i] * want[i];
            finite++;
        }
    double scale = finite ? sqrt(square / (double)finite) : 1;
    scale = scale > 1 ? scale : 1;
    for (size_t i = 0; i < count; i++) {
        if (isinf(want[i]) && isinf(got[i]) && (want[i] > 0) == (got[i] > 0))
            continue;
        double error = fabs((double)got[i] - want[i]) / scale;
        if (!(error <= worst)) { /* NaN too */
            worst = error;
            where = i;
            if (isnan(error))
                break;
        }
    }
    if (!(worst <= tolerance))
        fail_msg("%s: element %zu of %zu is %.9g, the oracle says %.9g (error %.3g, allowed %.3g)", what, where, count,
                 (double)got[where], want[where], worst, tolerance);
}

void harness_refused(tfm_status got, tfm_status want, const char *part) {
    if (got != want || !strstr(tfm_error_message(), part))
        fail_msg("got %s \"%s\", wanted %s with \"%s\"", tfm_status_name(got), tfm_error_message(),
                 tfm_status_name(want), part);
    tfm_context_clear_error(harness_context());
}

void harness_ok(tfm_status status) {
    if (status != TFM_OK) {
        print_error("ERROR: %s: %s\n", tfm_status_name(status), tfm_error_message());
        _fail(__FILE__, __LINE__);
    }
}

static char *joined(const char *directory, const char *relative) {
    size_t size = strlen(directory) + strlen(relative) + 2;
    char *path = malloc(size);
    assert_non_null(path);
    snprintf(path, size, "%s/%s", directory, relative);
    return path;
}

char *harness_shared(const char *relative) {
    const char *directory = getenv("TFM_SHARED");
    char *path = joined(directory ? directory : TFM_ROOT "/../shared", relative);
    if (access(path, R_OK) == 0)
        return path;
    printf("skipped: %s does not exist\n", path);
    free(path);
    return NULL;
}

char *harness_source(const char *relative) {
    return joined(TFM_ROOT, relative);
}
