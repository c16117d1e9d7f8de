#include "runs.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "support/scratch.h"

/* Timeout of a run in seconds. A sanitized run that compiles all kernels takes 70 s on one core, most of them for the
 * stored binaries; here it shares two cores with another run and other tests. */
#define LIMIT 400.0
/* A run that is still busy then is checked again after so many seconds, up to five times the timeout. */
#define AGAIN 60.0
#define SLOW 3.0         /* seconds of CPU time, which other load does not change */
#define MOST_FAILURES 20 /* that are printed in full */
#define MOST_UNJUDGED 3

/* One of the two run slots. Its files are <number>.out, .err, .report. */
struct place {
    pid_t pid;
    double since, worked, due; /* start; CPU seconds at the last check; time of the next check */
    int may_end;
    char title[128], part[128];
};

static struct place places[2];
static runs_report plain, last;
static const char *most_tokens = "100"; /* of a translation; the default line has fewer */
static char right_text[16384], last_text[16384], last_sentence[4096], cache[sizeof(scratch_root) + 16];
static double plain_seconds, last_seconds, all_seconds; /* CPU seconds; of the runs since the last report */
static unsigned ended_right, ended_sentence, met, failures, unjudged; /* `met`: runs in which a call failed */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static const char *file_of(int number, const char *suffix) {
    char name[32];
    snprintf(name, sizeof(name), "%d.%s", number, suffix);
    return scratch_path(name);
}

/* The contents of a file, truncated to the buffer; "" if it does not exist. */
static void slurp(char *out, size_t size, const char *path) {
    FILE *file = fopen(path, "rb");
    size_t got = file ? fread(out, 1, size - 1, file) : 0;
    out[got] = 0;
    if (file)
        fclose(file);
}

static bool bad(const struct place *place, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool bad(const struct place *place, const char *format, ...) {
    if (failures++ < MOST_FAILURES) {
        va_list args;
        va_start(args, format);
        fprintf(stderr, "%s: ", place->title);
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
        va_end(args);
    }
    return false;
}

/* ---- One run ----------------------------------------------------------------------------------------------------- */

static void redirect(int to, const char *path, int flags) {
    int from = open(path, flags | O_CLOEXEC, 0600);
    if (from < 0 || dup2(from, to) < 0)
        _exit(126);
}

static void start(int number, const char *const *settings, bool again) {
    struct place *place = &places[number];
    char report[sizeof(scratch_root) + 32];
    snprintf(report, sizeof(report), "%s", file_of(number, "report"));
    remove(report);
    fflush(stdout);
    fflush(stderr);
    place->since = now();
    place->worked = 0;
    place->due = place->since + LIMIT;
    place->pid = fork();
    assert_true(place->pid >= 0);
    if (place->pid > 0)
        return;
    setenv("OPENCL_LAYERS", FAULT_LAYER, 1);
    setenv("TFM_FAULT_REPORT", report, 1);
    setenv("TFM_CACHE_DIR", cache, 1);
    for (; *settings; settings++)
        putenv(strdup(*settings));
    redirect(0, scratch_path("in"), O_RDONLY);
    redirect(1, file_of(number, "out"), O_WRONLY | O_CREAT | O_TRUNC);
    redirect(2, file_of(number, "err"), O_WRONLY | O_CREAT | O_TRUNC);
    if (again)
        execl("/proc/self/exe", "test", "again", most_tokens, (char *)NULL);
    execl(TFM_PROGRAM, "tfm", "translate", "-m", TFM_ROOT "/apps/demo", "--beam-size", "4", "--max-length", most_tokens,
          (char *)NULL);
    _exit(127);
}

/* ---- Judging ----------------------------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* Counts error sentences on standard error: not log lines, CLBlast's messages, Mesa's compiler warnings or progress of
 * kernel builds. Keeps the last one. */
static int sentences(char *text) {
    int count = 0;
    last_sentence[0] = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (begins(line, "tfm: warning: ") || begins(line, "tfm: error: ") || begins(line, "CLBlast") ||
            begins(line, "MESA: warning: ") || begins(line, "tfm: building kernels") ||
            begins(line, "tfm: still building kernels"))
            continue;
        snprintf(last_sentence, sizeof(last_sentence), "%s", line);
        count++;
    }
    return count;
}

/* The layer's report is complete and lists no leaks. */
static bool judge_report(const struct place *place, char *text) {
    bool clean = true;
    unsigned long number;
    char name[64];
    last = (runs_report){0};
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        met += begins(line, "failed ") && strcmp(line, "failed none") != 0;
        if (sscanf(line, "%63s %lu", name, &number) != 2)
            continue; /* "failed none" */
        if (strcmp(name, "calls") == 0)
            last.calls = number;
        else if (begins(name, "cl_") && number > 0)
            clean = bad(place, "%lu references to %s are left", number, name);
        else if (strcmp(name, "strays") == 0 && number > 0)
            clean = bad(place, "%lu releases of dead objects", number);
        else if (name[2] != '_' && begins(name, "cl") && last.function_count < 128) {
            memcpy(last.functions[last.function_count].name, name, sizeof(name));
            last.functions[last.function_count++].calls = number;
        }
    }
    return last.calls > 0 ? clean : bad(place, "there is no report: the process did not exit normally");
}

static bool judge(int number, int state) {
    const struct place *place = &places[number];
    char *const out = last_text, err[4096], report[16384];
    slurp(out, sizeof(last_text), file_of(number, "out"));
    slurp(err, sizeof(err), file_of(number, "err"));
    slurp(report, sizeof(report), file_of(number, "report"));
    char whole[sizeof(err)];
    memcpy(whole, err, sizeof(err));
    if (WIFSIGNALED(state))
        return bad(place, "ended by signal %d: %s", WTERMSIG(state), whole);
    /* LeakSanitizer crashes in one of some hundred runs, while a driver's threads end: no verdict. */
    if (strstr(err, "LeakSanitizer has encountered a fatal error") && ++unjudged <= MOST_UNJUDGED)
        return true;
    int code = WEXITSTATUS(state), said = sentences(err);
    if (!judge_report(place, report))
        return false;
    if (code == 0 && (place->may_end & RUNS_RIGHT)) {
        ended_right++;
        if (right_text[0] && strcmp(out, right_text) != 0)
            return bad(place, "exit 0 and \"%s\" instead of \"%s\"", out, right_text);
        return said == 0 ? true : bad(place, "exit 0 and a sentence: %s", whole);
    }
    if (code != 1 || !(place->may_end & RUNS_SENTENCE))
        return bad(place, "exit %d: %s", code, whole);
    ended_sentence++;
    if (said != 1 || !begins(last_sentence, "tfm: ") || strlen(last_sentence) < 20)
        return bad(place, "exit 1 and %d sentences: %s", said, whole);
    if (out[0] && strcmp(out, right_text) != 0)
        return bad(place, "exit 1 and half an answer, \"%s\"", out);
    return strstr(last_sentence, place->part) ? true
                                              : bad(place, "not with \"%s\", but: %s", place->part, last_sentence);
}

/* ---- Two at a time ----------------------------------------------------------------------------------------------- */

/* Whether a run due for a check has used no CPU time since the last one, or runs for far too long. */
static bool hangs(struct place *place) {
    clockid_t clock;
    struct timespec used = {0};
    if (now() < place->due)
        return false;
    if (clock_getcpuclockid(place->pid, &clock) == 0)
        clock_gettime(clock, &used);
    const double worked = (double)used.tv_sec + 1e-9 * (double)used.tv_nsec, before = place->worked;
    place->worked = worked;
    place->due = now() + AGAIN;
    return worked < before + 0.5 || now() - place->since > 5 * LIMIT;
}

/* Polls both slots; returns a free one, or -1. */
static int attend(void) {
    int room = -1;
    for (int i = 0; i < 2; i++) {
        struct place *place = &places[i];
        int state;
        if (place->pid) {
            struct rusage used;
            pid_t got = wait4(place->pid, &state, WNOHANG, &used);
            if (got == 0 && hangs(place)) {
                kill(place->pid, SIGKILL);
                wait4(place->pid, &state, 0, &used);
                bad(place, "did not end in %.0f seconds, of which a core worked %ld for it", now() - place->since,
                    (long)(used.ru_utime.tv_sec + used.ru_stime.tv_sec));
                place->pid = 0;
            } else if (got == place->pid) {
                last_seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                               1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
                all_seconds += last_seconds;
                judge(i, state);
                place->pid = 0;
            }
        }
        if (!place->pid)
            room = i;
    }
    return room;
}

static void nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = 4000000}, NULL);
}

static void add(const char *title, const char *const *settings, int may_end, const char *part, bool again) {
    int number;
    while ((number = attend()) < 0)
        nap();
    struct place *place = &places[number];
    *place = (struct place){.may_end = may_end};
    snprintf(place->title, sizeof(place->title), "%s", title);
    snprintf(place->part, sizeof(place->part), "%s", part);
    start(number, settings, again);
}

void runs_add(const char *title, const char *const *settings, int may_end) {
    add(title, settings, may_end, "", false);
}

void runs_add_refused(const char *title, const char *const *settings, const char *part) {
    add(title, settings, RUNS_SENTENCE, part, false);
}

void runs_add_again(const char *title, const char *const *settings, int may_end) {
    add(title, settings, may_end, "", true);
}

static void wait_all(void) {
    while (attend() < 0 || places[0].pid || places[1].pid)
        nap();
}

void runs_add_alone(const char *title, const char *const *settings) {
    wait_all();
    add(title, settings, RUNS_RIGHT, "", false);
    wait_all();
}

void runs_finish(const char *what) {
    wait_all();
    printf(
        "%s: %u met a fault, %u ended with the right answer, %u with a sentence, %u were bad, in %.1f seconds of the "
        "processor\n",
        what, met, ended_right, ended_sentence, failures, all_seconds);
    unsigned found = failures;
    ended_right = ended_sentence = met = failures = 0;
    all_seconds = 0;
    if (found)
        fail_msg("%s: %u bad runs", what, found);
}

/* ---- Fixtures ---------------------------------------------------------------------------------------------------- */

/* The first line of a file of the demo model, with its newline. */
static void first_line(char *out, size_t size, const char *path) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(out, (int)size, file));
    fclose(file);
}

void runs_lines(int count) {
    wait_all();
    most_tokens = "100";
    char source[1024], all[4096] = "";
    first_line(source, sizeof(source), TFM_ROOT "/apps/demo/test.de");
    first_line(right_text, sizeof(right_text), TFM_ROOT "/apps/demo/beam4.en");
    for (int i = 0; i < count && strlen(all) + strlen(source) < sizeof(all); i++)
        strcat(all, source);
    scratch_text("in", all);
}

void runs_short(void) {
    wait_all(); /* running ones are compared with the other line's answer */
    scratch_text("in", "Danke.\n");
    most_tokens = "3";
    snprintf(right_text, sizeof(right_text), "Thanks.\n");
}

int runs_begin(void **state) {
    static const char *const UNSET[] = {"TFM_CL_DIR", "TFM_GEMM", "TFM_KERNELS", "TFM_LOG", "TFM_PROFILE"};
    if (scratch_setup(state) != 0)
        return -1;
    for (size_t i = 0; i < sizeof(UNSET) / sizeof(UNSET[0]); i++)
        unsetenv(UNSET[i]);
    snprintf(cache, sizeof(cache), "%s", scratch_path("cache"));
    scratch_text("in", "");
    return 0;
}

void runs_take_plain(void) {
    plain_seconds = last_seconds;
    plain = last;
    memcpy(right_text, last_text, sizeof(right_text));
}

/* Whether there is a shared cache of compiled kernels, used in brief runs. */
static const char *shared_binaries(void) {
    const char *shared = getenv("TFM_TEST_BINARIES");
    return harness_brief() && shared && shared[0] ? shared : NULL;
}

void runs_copy_binaries(void) {
    const char *shared = shared_binaries();
    char copy[2 * 4300];
    if (!shared)
        return;
    snprintf(copy, sizeof(copy), "cp -r '%s' '%s'", shared, cache);
    if (system(copy) != 0) /* no cache yet, or an entry has gone: the next run creates it */
        printf("some of %s could not be copied\n", shared);
}

int runs_setup(void **state) {
    const char *const nothing[] = {NULL};
    char own[4300];
    if (runs_begin(state) != 0)
        return -1;
    runs_lines(1);
    /* The first runs have no fault, so their binaries go to the shared cache. All others use a copy. PoCL's binaries
     * are stored by the second run. */
    if (shared_binaries()) {
        snprintf(own, sizeof(own), "TFM_CACHE_DIR=%s", shared_binaries());
        for (int run = 0; run < 2; run++)
            runs_add_alone("a run with the shared cache", (const char *const[]){own, NULL});
    }
    runs_copy_binaries();
    for (int run = 0; run < 2; run++)
        runs_add_alone("a run with a private cache", nothing);
    add("a run with stored binaries", nothing, RUNS_RIGHT, "", false);
    wait_all();
    runs_take_plain();
    printf("a run is %lu calls and %.2f seconds of the processor%s\n", plain.calls, plain_seconds,
           runs_slow() ? ": sampled thinly" : "");
    int found = (int)failures;
    ended_right = ended_sentence = met = failures = 0;
    all_seconds = 0;
    return found ? -1 : 0;
}

int runs_teardown(void **state) {
    return scratch_teardown(state);
}

const runs_report *runs_plain(void) {
    return &plain;
}

bool runs_slow(void) {
#ifdef __SANITIZE_ADDRESS__
    const bool sanitized = true; /* a warm run is quick, but one that compiles takes a minute */
#else
    const bool sanitized = false;
#endif
    return (sanitized || plain_seconds > SLOW) && runs_sample() == 0;
}

unsigned runs_sample(void) {
    const char *sample = getenv("TFM_FAULT_SAMPLE");
    return sample ? (unsigned)strtoul(sample, NULL, 10) : 0;
}

const char *runs_folder(void) {
    return scratch_root;
}

const char *runs_cache(void) {
    return cache;
}

const char *runs_sentence(void) {
    return last_sentence;
}
