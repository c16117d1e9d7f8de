/* tfm report: a report on a device for issues: device info, self-test, tuning table, timings. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "bench/report.h"

/* Clang's version has its name in it, and that of gcc is a number. */
#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* ---- The parts ---- */

static json_t *about_tfm(void) {
#ifdef TFM_OPENBLAS
    const char *blas = "OpenBLAS";
#else
    const char *blas = "no OpenBLAS";
#endif
#ifdef __OPTIMIZE__
    const char *optimized = "optimized";
#else
    const char *optimized = "not optimized";
#endif
    char build[256];
    json_t *about = json_object();
    snprintf(build, sizeof(build), "%s, %s, by " COMPILER, optimized, blas);
    report_set_text(about, "tfm", tfm_version());
    report_set_text(about, "build", build);
    return about;
}

static void set_processor(json_t *host) {
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[512];
    while (file && fgets(line, sizeof(line), file)) {
        char *value = strchr(line, ':');
        if (!value || (strncmp(line, "model name", 10) != 0 && strncmp(line, "Model", 5) != 0))
            continue;
        line[strcspn(line, "\n")] = 0;
        report_set_text(host, "processor", value + 1 + strspn(value + 1, " "));
        break;
    }
    if (file)
        fclose(file);
}

/* The load average over one minute; before the first timing it is the load of other programs. */
static void set_load(json_t *host, const char *name) {
    double load;
    char text[64];
    if (getloadavg(&load, 1) != 1)
        return;
    snprintf(text, sizeof(text), "%.2f", load);
    report_set_text(host, name, text);
}

/* Without the host name. */
static json_t *about_host(void) {
    json_t *host = json_object();
    struct utsname name;
    char text[256];
    if (uname(&name) == 0) {
        snprintf(text, sizeof(text), "%.60s %.100s %.60s", name.sysname, name.release, name.machine);
        report_set_text(host, "system", text);
    }
    set_processor(host);
    snprintf(text, sizeof(text), "%d", bench_cores());
    report_set_text(host, "cores", text);
    set_load(host, "load before");
    return host;
}

/* An item of device info, or of the tuning table, which is a separate object. */
static bool on_property(void *user, const char *name, const char *text) {
    static const char ROW[] = "tuned: ";
    json_t *report = user;
    if (strncmp(name, ROW, strlen(ROW)) == 0)
        report_set_text(json_object_get(report, "table"), name + strlen(ROW), text);
    else if (strcmp(name, "hash of the tuning table") == 0)
        json_object_set_new(report, "table_hash", json_string(text));
    else
        report_set_text(json_object_get(report, "device"), name, text);
    return true;
}

typedef struct checks {
    json_t *all;
    size_t failed;
} checks;

static bool on_check(void *user, const tfm_selftest_record *record) {
    static const char *const STATES[] = {
        [TFM_SELFTEST_PASS] = "pass", [TFM_SELFTEST_FAIL] = "FAIL", [TFM_SELFTEST_UNAVAILABLE] = "not available"};
    checks *c = user;
    json_t *row = json_pack("{s:s, s:s, s:s}", "op", record->op, "form", record->form, "state", STATES[record->state]);
    if (record->state == TFM_SELFTEST_PASS)
        json_object_set_new(row, "error", json_real(record->error));
    else
        report_set_text(row, "message", record->message);
    json_array_append_new(c->all, row);
    c->failed += record->state == TFM_SELFTEST_FAIL;
    cli_progress("report: self-test, %zu checks", json_array_size(c->all));
    return true;
}

/* ---- The command ---- */

/* Checks the folder and both file names before the first timing. */
static int check_place(const char *name) {
    static const char *const SUFFIXES[] = {".json", ".md"};
    char *path = malloc(strlen(name) + sizeof(".json")), *folder = strdup(name);
    char *end = folder ? strrchr(folder, '/') : NULL;
    int code = path && folder ? CLI_OK : cli_fail("out of memory");
    if (end)
        end[end == folder] = 0;
    for (size_t i = 0; i < CLI_COUNT(SUFFIXES) && code == CLI_OK; i++) {
        struct stat there;
        strcat(strcpy(path, name), SUFFIXES[i]);
        if (access(end ? folder : ".", W_OK) != 0)
            code = cli_fail("cannot write %s: %s", path, strerror(errno));
        else if (stat(path, &there) == 0 && S_ISDIR(there.st_mode))
            code = cli_fail("cannot write %s: there is a folder of that name", path);
        else if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
            code = cli_fail("cannot write %s: it is no regular file", path);
    }
    free(folder);
    free(path);
    return code;
}

/* Whether the last part of a path can be the stem of two files. */
static bool is_name(const char *name) {
    const char *last = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    return *last && strcmp(last, ".") != 0 && strcmp(last, "..") != 0;
}

static int write_file(const char *name, const char *suffix, const json_t *report) {
    cli_output out;
    char *path = malloc(strlen(name) + strlen(suffix) + 1);
    if (!path)
        return cli_fail("out of memory");
    strcat(strcpy(path, name), suffix);
    int code = cli_output_open(&out, path);
    if (code == CLI_OK && strcmp(suffix, ".md") == 0)
        report_markdown(out.file, report);
    else if (code == CLI_OK)
        json_dumpf(report, out.file, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    const int closed = cli_output_close(&out, code == CLI_OK);
    free(path);
    return code == CLI_OK ? closed : code;
}

static int make_report(tfm_context *ctx, const char *name) {
    json_t *report = json_object();
    checks c = {.all = json_array()};
    json_object_set_new(report, "format", json_integer(1));
    json_object_set_new(report, "tfm", about_tfm());
    json_object_set_new(report, "host", about_host());
    json_object_set_new(report, "device", json_object());
    json_object_set_new(report, "table", json_object());
    json_object_set_new(report, "self_test", c.all);
    json_object_set_new(report, "table_hash", json_string("0"));
    /* If the device is lost, the report so far is still written. */
    if (tfm_context_describe(ctx, on_property, report) != TFM_OK || tfm_selftest(ctx, NULL, on_check, &c) != TFM_OK)
        report_failed(report);
    else
        report_bench(ctx, report);
    set_load(json_object_get(report, "host"), "load after");
    cli_progress(NULL);
    int code = write_file(name, ".json", report);
    if (code == CLI_OK)
        code = write_file(name, ".md", report);
    if (code == CLI_OK)
        fprintf(stderr, "%s.md and %s.json are written; attach both to an issue\n", name, name);
    if (code == CLI_OK && c.failed > 0)
        fprintf(stderr, "%zu checks of the self-test failed: please open an issue with the report\n", c.failed);
    const char *failed = json_string_value(json_object_get(report, "failed"));
    if (failed)
        code = cli_fail("the report is incomplete: %s", failed);
    json_decref(report);
    return code;
}

int cmd_report(int argc, char **argv) {
    const char *device = NULL, *name = "tfm-report";
    const cli_option options[] = {
        CLI_DEVICE(&device),
        {'o', "output", CLI_STRING, &name, "NAME", "write NAME.md and NAME.json (default tfm-report)", NULL},
    };
    const cli_syntax syntax = {
        .name = "report",
        .usage = "report [--device DEVICE] [-o NAME]",
        .about = "Writes a report on a device as Markdown and JSON: versions, device info, the\n"
                 "self-test, the table of tfm tune, and timings with their spread and the load of\n"
                 "the machine. Timed are GEMM in fp32, 16 bits and int8, attention, norms and\n"
                 "decoding steps; those in fp32 also as fractions of the measured peak or\n"
                 "bandwidth. The report has no names of users, machines or folders. It takes\n"
                 "about two minutes. After a failure the report so far is written. Attach both\n"
                 "files to an issue.\n",
        .examples = "  tfm report\n  tfm report --device nvidia -o my-gpu\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_CONTINUE)
        return code;
    tfm_context *ctx = NULL;
    if (!is_name(name))
        return cli_usage_error(&syntax, "-o is '%s': give a file name without .md or .json", name);
    if (check_place(name) != CLI_OK)
        return CLI_FAILED;
    cli_catch_signals();
    if (tfm_context_open(&ctx, &(tfm_context_options){.device = device, .on_build = cli_on_build}) != TFM_OK)
        return cli_fail_library();
    cli_print_device(ctx, NULL);
    code = make_report(ctx, name);
    tfm_context_free(&ctx);
    return code;
}
