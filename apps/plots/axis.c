/* Scales of axes, and their tick labels. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "plots/curves.h"

double axis_place(const axis *a, double value) {
    double at;
    if (a->logarithmic)
        at = (log(value) - log(a->low)) / (log(a->high) - log(a->low));
    else
        at = (value - a->low) / (a->high - a->low);
    return a->from + at * (a->to - a->from);
}

/* The step of 1, 2 or 5 times a power of ten that gives at most `wanted` steps. */
static double round_step(double range, int wanted) {
    const double least = range / wanted, power = pow(10, floor(log10(least)));
    static const double steps[] = {1, 2, 5, 10};
    for (size_t i = 0; i < CLI_COUNT(steps); i++)
        if (steps[i] * power >= least * (1 - 1e-9))
            return steps[i] * power;
    return 10 * power;
}

static int linear_ticks(const axis *a, int wanted, double *ticks) {
    const double step = round_step(a->high - a->low, wanted), slack = 1e-9 * (a->high - a->low);
    const double first = ceil((a->low - slack) / step);
    int count = 0;
    while (count < AXIS_TICKS && (first + count) * step <= a->high + slack) {
        ticks[count] = (first + count) * step;
        count++;
    }
    return count;
}

/* Ticks with these digits in every `stride`-th decade. */
static int log_ticks(const axis *a, const double *digits, int stride, double *ticks) {
    const int first = (int)floor(log10(a->low)), last = (int)floor(log10(a->high));
    int count = 0;
    for (int power = first; power <= last; power++)
        for (int i = 0; power % stride == 0 && digits[i] > 0; i++) {
            const double tick = digits[i] * pow(10, power);
            if (tick >= a->low * (1 - 1e-9) && tick <= a->high * (1 + 1e-9) && count < AXIS_TICKS)
                ticks[count++] = tick;
        }
    return count;
}

int axis_ticks(const axis *a, int wanted, double ticks[AXIS_TICKS]) {
    static const double digits[][10] = {
        {1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 7}, {1, 1.5, 2, 3, 5, 7}, {1, 2, 5}, {1, 3}, {1}};
    int count = 0;
    if (!a->logarithmic) {
        for (int most = wanted; count < 2 && most < wanted + 4; most++)
            count = linear_ticks(a, most, ticks);
        return count;
    }
    for (size_t i = 0; i < CLI_COUNT(digits); i++)
        if ((count = log_ticks(a, digits[i], 1, ticks)) <= wanted)
            return count < 2 && i > 0 ? log_ticks(a, digits[i - 1], 1, ticks) : count;
    for (int stride = 2; count > wanted && stride < 600; stride++)
        count = log_ticks(a, (double[]){1, 0}, stride, ticks);
    return count;
}

/* "12000" becomes "12,000". */
static void group_thousands(char *out, size_t bytes, const char *digits) {
    const size_t sign = *digits == '-', length = strlen(digits);
    size_t at = 0;
    for (size_t i = 0; i < length && at + 2 < bytes; i++) {
        if (i > sign && (length - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
}

static void with_power(char *out, size_t bytes, double value, int digits) {
    static const char *const raised[] = {"\xe2\x81\xb0", "\xc2\xb9",     "\xc2\xb2",     "\xc2\xb3",
                                         "\xe2\x81\xb4", "\xe2\x81\xb5", "\xe2\x81\xb6", "\xe2\x81\xb7",
                                         "\xe2\x81\xb8", "\xe2\x81\xb9"};
    char text[40];
    snprintf(text, sizeof(text), "%.*e", digits - 1, value);
    char *exponent = strchr(text, 'e');
    const int power = atoi(exponent + 1), size = power < 0 ? -power : power;
    *exponent = 0;
    if (strchr(text, '.'))
        for (char *c = exponent - 1; *c == '0' || *c == '.'; c--) {
            const bool point = *c == '.';
            *c = 0;
            if (point)
                break;
        }
    const bool one = strcmp(text, "1") == 0;
    snprintf(out, bytes, "%s%s10%s%s%s%s", one ? "" : text, one ? "" : "\xc2\xb7", power < 0 ? "\xe2\x81\xbb" : "",
             size >= 100 ? raised[size / 100 % 10] : "", size >= 10 ? raised[size / 10 % 10] : "", raised[size % 10]);
}

void axis_number(char *out, size_t bytes, double value, int digits) {
    char text[40];
    const double size = fabs(value);
    if (value != 0 && (size < 9.99e-4 || size >= 1e9)) {
        with_power(out, bytes, value, digits);
    } else if (size >= 1000) {
        snprintf(text, sizeof(text), "%.0f", value);
        group_thousands(out, bytes, text);
    } else {
        snprintf(out, bytes, "%.*g", size >= 100 && digits < 3 ? 3 : digits, value);
    }
}

void axis_duration(char *out, size_t bytes, double seconds) {
    const double minutes = round(seconds / 60), hours = floor(minutes / 60), days = floor(hours / 24);
    if (seconds < 99.5)
        snprintf(out, bytes, "%.0f s", seconds);
    else if (minutes < 60)
        snprintf(out, bytes, "%.0f min", minutes);
    else if (hours < 48)
        snprintf(out, bytes, "%.0f h %.0f min", hours, minutes - 60 * hours);
    else
        snprintf(out, bytes, "%.0f d %.0f h", days, hours - 24 * days);
}
