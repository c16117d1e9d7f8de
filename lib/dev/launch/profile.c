/* Time per kernel from OpenCL events: a table, or a trace in Chrome's trace-event format. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "dev/launch/profile.h"

/* Launches with unread events, before the oldest half is read. */
#define PENDING 1024
/* The same for host spans; with few launches, more are dropped. */
#define SPANS 4096

struct launch {
    cl_event event;
    size_t kernel; /* in `kernels` */
    tfm__grid grid;
    bool has_grid;
    double enqueued; /* host clock, in seconds */
};

/* A span of host work, by the host's clock. */
typedef struct span {
    const char *name;
    double begun, ended;
} span;

typedef struct total {
    char *name;
    uint64_t calls;
    uint64_t ns;
} total;

struct tfm__profile {
    struct launch pending[PENDING];
    size_t count;
    total *kernels;
    size_t kernel_count;
    uint64_t lost;     /* launches without times from the driver */
    cl_int lost_error; /* its first error */
    FILE *trace;       /* NULL: a table at the end */
    char *path;
    bool first; /* no event is written yet; the first has time 0 in the trace */
    uint64_t origin;
    span spans[SPANS]; /* not written yet */
    size_t span_count;
    bool clocks_compared;
    double ahead; /* seconds by which the host's clock is ahead of the device's */
};

/* The target of TFM_PROFILE: NULL nothing, "1" the table, else a path. */
static const char *trace_target(void) {
    const char *text = getenv("TFM_PROFILE");
    return text && text[0] && strcmp(text, "0") != 0 ? text : NULL;
}

bool tfm__profile_wanted(bool asked) {
    return asked || trace_target();
}

/* x.json for the first context of the process, x-2.json for the second. */
static char *numbered_path(const char *path) {
    static atomic_uint opened;
    unsigned number = atomic_fetch_add(&opened, 1u) + 1;
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    if (number == 1)
        return tfm__strdup(path);
    if (!dot || (slash && dot < slash))
        return tfm__format("%s-%u", path, number);
    return tfm__format("%.*s-%u%s", (int)(dot - path), path, number, dot);
}

tfm_status tfm__profile_open(tfm__profile **out) {
    const char *wanted = trace_target();
    *out = NULL;
    tfm__profile *profile = tfm__alloc(1, sizeof(*profile));
    if (!profile)
        return TFM_ERROR_MEMORY;
    profile->first = true;
    if (wanted && strcmp(wanted, "1") != 0) {
        profile->path = numbered_path(wanted);
        profile->trace = profile->path ? fopen(profile->path, "we") : NULL;
        if (!profile->trace) {
            tfm_status status = profile->path ? tfm__fail(TFM_ERROR_IO,
                                                          "TFM_PROFILE: %s cannot be written (%s): give another path, "
                                                          "or 1 for a table",
                                                          profile->path, strerror(errno))
                                              : TFM_ERROR_MEMORY;
            free(profile->path);
            free(profile);
            return status;
        }
        fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", profile->trace);
        fprintf(profile->trace,
                "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%ld,\"tid\":1,\"args\":{\"name\":\"OpenCL "
                "queue\"}},\n"
                "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%ld,\"tid\":2,\"args\":{\"name\":\"host\"}}",
                (long)getpid(), (long)getpid());
    }
    *out = profile;
    return TFM_OK;
}

/* The total of `name`, created if new; kernel_count without memory. Few kernels: a linear search is enough. */
static size_t find_kernel(tfm__profile *profile, const char *name) {
    size_t i = 0;
    while (i < profile->kernel_count && strcmp(profile->kernels[i].name, name) != 0)
        i++;
    if (i < profile->kernel_count)
        return i;
    total *bigger = tfm__realloc(profile->kernels, i + 1, sizeof(*bigger));
    char *copy = bigger ? tfm__strdup(name) : NULL;
    if (bigger)
        profile->kernels = bigger;
    if (copy) {
        profile->kernels[i] = (total){.name = copy};
        profile->kernel_count++;
    }
    return i;
}

static void write_name(FILE *file, const char *name) {
    for (; *name; name++) {
        unsigned char c = (unsigned char)*name;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < ' ')
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
}

static void write_event(tfm__profile *profile, const struct launch *launch, uint64_t start, uint64_t end) {
    FILE *file = profile->trace;
    const size_t *global = launch->grid.global, *local = launch->grid.local;
    if (profile->first) {
        profile->first = false;
        profile->origin = start;
    }
    /* Microseconds, formatted from integers: independent of locale and rounding. */
    uint64_t ts = start > profile->origin ? start - profile->origin : 0, duration = end - start;
    fputs(",\n{\"name\":\"", file);
    write_name(file, profile->kernels[launch->kernel].name);
    fprintf(file, "\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%ld,\"tid\":1,\"ts\":%llu.%03u,\"dur\":%llu.%03u",
            launch->has_grid ? "kernel" : "transfer", (long)getpid(), (unsigned long long)(ts / 1000),
            (unsigned)(ts % 1000), (unsigned long long)(duration / 1000), (unsigned)(duration % 1000));
    if (launch->has_grid)
        fprintf(file, ",\"args\":{\"global\":\"%zux%zux%zu\",\"local\":\"%zux%zux%zu\"}", global[0], global[1],
                global[2], local[0], local[1], local[2]);
    fputc('}', file);
}

/* Driver and host record a launch almost at once, the host last: the clock offset is the smallest difference of any
 * launch. */
static void compare_clocks(tfm__profile *profile, const struct launch *launch) {
    cl_ulong queued = 0;
    if (clGetEventProfilingInfo(launch->event, CL_PROFILING_COMMAND_QUEUED, sizeof(queued), &queued, NULL) !=
            CL_SUCCESS ||
        queued == 0)
        return;
    const double ahead = launch->enqueued - 1e-9 * (double)queued;
    if (!profile->clocks_compared || ahead < profile->ahead)
        profile->ahead = ahead;
    profile->clocks_compared = true;
}

/* Drops spans from before the first launch, since the trace has no time 0 then. */
static void write_spans(tfm__profile *profile) {
    for (size_t i = 0; i < profile->span_count && profile->clocks_compared && !profile->first; i++) {
        const span *s = &profile->spans[i];
        const double ns = 1e9 * (s->begun - profile->ahead) - (double)profile->origin;
        const uint64_t ts = ns > 0 ? (uint64_t)ns : 0, duration = (uint64_t)(1e9 * (s->ended - s->begun));
        if (ns < 0)
            continue;
        fputs(",\n{\"name\":\"", profile->trace);
        write_name(profile->trace, s->name);
        fprintf(profile->trace,
                "\",\"cat\":\"host\",\"ph\":\"X\",\"pid\":%ld,\"tid\":2,\"ts\":%llu.%03u,\"dur\":%llu.%03u}",
                (long)getpid(), (unsigned long long)(ts / 1000), (unsigned)(ts % 1000),
                (unsigned long long)(duration / 1000), (unsigned)(duration % 1000));
    }
    profile->span_count = 0;
}

void tfm__profile_span(tfm__profile *profile, const char *name, double begun, double ended) {
    if (profile && profile->trace && profile->span_count < SPANS)
        profile->spans[profile->span_count++] = (span){name, begun, ended};
}

static void count_lost(tfm__profile *profile, cl_int error) {
    if (profile->lost++ == 0)
        profile->lost_error = error;
}

static void read_launch(tfm__profile *profile, const struct launch *launch) {
    cl_ulong start = 0, end = 0;
    cl_int error = clGetEventProfilingInfo(launch->event, CL_PROFILING_COMMAND_START, sizeof(start), &start, NULL);
    if (error == CL_SUCCESS)
        error = clGetEventProfilingInfo(launch->event, CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL);
    if (error != CL_SUCCESS) {
        count_lost(profile, error);
        return;
    }
    if (end < start)
        end = start;
    profile->kernels[launch->kernel].calls++;
    profile->kernels[launch->kernel].ns += end - start;
    if (!profile->trace)
        return;
    compare_clocks(profile, launch);
    write_event(profile, launch, start, end);
}

/* Reads and releases the oldest `count` launches. The queue is in order: when the last is complete, all are. */
static void drain(tfm__profile *profile, size_t count) {
    if (count == 0)
        return;
    cl_int error = clWaitForEvents(1, &profile->pending[count - 1].event);
    for (size_t i = 0; i < count; i++) {
        if (error == CL_SUCCESS)
            read_launch(profile, &profile->pending[i]);
        else
            count_lost(profile, error);
        clReleaseEvent(profile->pending[i].event);
    }
    profile->count -= count;
    memmove(profile->pending, profile->pending + count, profile->count * sizeof(*profile->pending));
    write_spans(profile);
}

void tfm__profile_add(tfm__profile *profile, const char *name, cl_event event, const tfm__grid *grid) {
    if (!profile || !event)
        return;
    size_t kernel = find_kernel(profile, name);
    if (kernel >= profile->kernel_count) {
        count_lost(profile, CL_OUT_OF_HOST_MEMORY);
        clReleaseEvent(event);
        return;
    }
    if (profile->count == PENDING)
        drain(profile, PENDING / 2);
    struct launch *launch = &profile->pending[profile->count++];
    launch->event = event;
    launch->kernel = kernel;
    launch->has_grid = grid != NULL;
    launch->enqueued = profile->trace ? tfm__seconds() : 0;
    if (grid)
        launch->grid = *grid;
}

static int compare_time(const void *a, const void *b) {
    const total *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns < y->ns ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void print_table(tfm__profile *profile) {
    uint64_t all = 0;
    if (profile->kernel_count > 0)
        qsort(profile->kernels, profile->kernel_count, sizeof(*profile->kernels), compare_time);
    for (size_t i = 0; i < profile->kernel_count; i++)
        all += profile->kernels[i].ns;
    tfm__report("profile: %-28s %10s %12s %7s %11s", "kernel", "calls", "total ms", "share", "mean us");
    for (size_t i = 0; i < profile->kernel_count; i++) {
        const total *kernel = &profile->kernels[i];
        double ns = (double)kernel->ns;
        tfm__report("profile: %-28s %10llu %12.3f %6.1f%% %11.2f", kernel->name, (unsigned long long)kernel->calls,
                    ns / 1e6, all ? 100 * ns / (double)all : 0.0,
                    kernel->calls ? ns / 1e3 / (double)kernel->calls : 0.0);
    }
    tfm__report("profile: %-28s %10s %12.3f", "all", "", (double)all / 1e6);
}

static void finish_trace(tfm__profile *profile) {
    write_spans(profile);
    fputs("\n]}\n", profile->trace);
    bool failed = ferror(profile->trace) != 0;
    if ((fclose(profile->trace) != 0) | failed)
        tfm__log(TFM_LOG_ERROR, "TFM_PROFILE: %s could not be written in full: is the disk full?", profile->path);
}

void tfm__profile_close(tfm__profile **pointer) {
    tfm__profile *profile = pointer ? *pointer : NULL;
    if (!profile)
        return;
    *pointer = NULL;
    drain(profile, profile->count);
    if (profile->trace)
        finish_trace(profile);
    else
        print_table(profile);
    if (profile->lost)
        tfm__log(TFM_LOG_WARNING, "profile: %llu launches have no times: %s (%d)", (unsigned long long)profile->lost,
                 tfm__cl_error_name(profile->lost_error), (int)profile->lost_error);
    for (size_t i = 0; i < profile->kernel_count; i++)
        free(profile->kernels[i].name);
    free(profile->kernels);
    free(profile->path);
    free(profile);
}
