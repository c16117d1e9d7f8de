#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/base.h"

static const char *const LEVELS[] = {"error", "warning", "info", "debug"};

static struct {
    tfm_log_fn fn;
    void *user;
    tfm_log_level level;
} log_sink;

static tfm_log_level environment_level(void) {
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    const char *wanted = getenv("TFM_LOG");
    if (!wanted || !wanted[0])
        return TFM_LOG_WARNING;
    for (size_t i = 0; i < TFM__COUNT(LEVELS); i++)
        if (strcmp(wanted, LEVELS[i]) == 0)
            return (tfm_log_level)i;
    if (!atomic_flag_test_and_set(&warned))
        fprintf(stderr, "tfm: warning: TFM_LOG is \"%.40s\", which is not a level: use error, warning, info or debug\n",
                wanted);
    return TFM_LOG_WARNING;
}

void tfm_log_set(tfm_log_fn fn, void *user, tfm_log_level level) {
    log_sink.fn = fn;
    log_sink.user = user;
    log_sink.level = level;
}

/* One line at a time: several devices may log at once. Recursive, because a callback may log. */
static pthread_mutex_t lock;
static pthread_once_t lock_made = PTHREAD_ONCE_INIT;

static void make_lock(void) {
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
}

static void log_line(tfm_log_level level, const char *prefix, const char *format, va_list args) {
    char line[2048];
    vsnprintf(line, sizeof(line), format, args);
    pthread_once(&lock_made, make_lock);
    pthread_mutex_lock(&lock);
    if (log_sink.fn)
        log_sink.fn(log_sink.user, level, line);
    else if (prefix)
        fprintf(stderr, "tfm: %s: %s\n", prefix, line);
    else
        fprintf(stderr, "%s\n", line);
    pthread_mutex_unlock(&lock);
}

void tfm__log(tfm_log_level level, const char *format, ...) {
    if (level > (log_sink.fn ? log_sink.level : environment_level()))
        return;
    va_list args;
    va_start(args, format);
    log_line(level, LEVELS[level], format, args);
    va_end(args);
}

void tfm__report(const char *format, ...) {
    va_list args;
    va_start(args, format);
    log_line(TFM_LOG_INFO, NULL, format, args);
    va_end(args);
}

double tfm__seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
