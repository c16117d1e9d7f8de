/* Device list and device selection. Each environment is tested in a child process: this program runs itself as
 *     test_devices list              a row per device, tab-separated
 *     test_devices open [DEVICE]     "ok <index> <name>" or "failed <status> <message>"
 *     test_devices without_sys       the same on PoCL without /sys, or "refused"
 * An OpenCL loader reads its environment once, and a process should not open platforms twice. */
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "support/harness.h"
#include "base/base.h"
#include "dev/device/device_select.h"
#include "dev/device/device_filter.h"
#include "tfm/device.h"

enum { MAX_ROWS = 32, OUTPUT = 65536 };

/* ---- Children ---------------------------------------------------------------------------------------------------- */

static int child_list(void) {
    tfm_device_info *rows;
    size_t count;
    tfm_status status = tfm_devices_list(&rows, &count);
    if (status != TFM_OK)
        return printf("failed %s %s\n", tfm_status_name(status), tfm_error_message()), 1;
    if (*tfm_error_message()) /* of TFM_DEVICE, which does not fail the list */
        return printf("failed: no call failed, but the error message is: %s\n", tfm_error_message()), 1;
    for (size_t i = 0; i < count; i++)
        printf("%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", rows[i].index, rows[i].platform_index, rows[i].device_index,
               (int)rows[i].type, rows[i].emulator, rows[i].chosen, rows[i].name[0] ? rows[i].name : "-",
               rows[i].platform[0] ? rows[i].platform : "-", rows[i].error[0] ? rows[i].error : "-");
    tfm_devices_free(&rows);
    return rows ? 3 : 0;
}

static int child_open(const char *device) {
    tfm_context *ctx = NULL;
    tfm_context_options options = {.device = device};
    tfm_status status = tfm_context_open(&ctx, device ? &options : NULL);
    if (status != TFM_OK)
        return printf("failed %s %s\n", tfm_status_name(status), tfm_error_message()), ctx ? 3 : 1;
    printf("ok %d %s\n", tfm_context_device(ctx)->index, tfm_context_device(ctx)->name);
    tfm_context_free(&ctx);
    return ctx ? 3 : 0;
}

/* If a user may not hide /sys for one process, this is reported and the test skipped. */
static int child_without_sys(void) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/sys", "tmpfs", 0, NULL) != 0)
        return printf("refused\n"), 0;
    return child_open("pocl");
}

/* Environment of the child: this process's, without device variables. OCL_ICD_VENDORS stays, since a machine may need
 * it to exclude a broken driver. */
static void clean_environment(void) {
    unsetenv("TFM_DEVICE");
    unsetenv("POCL_DEVICES");
    unsetenv("RUSTICL_ENABLE");
    unsetenv("TFM_LOG");
}

#define NOBODY 65534

/* Runs this program with `mode`, `argument` (or NULL) and assignments "A=b" up to NULL; "A" alone unsets, and "NOBODY"
 * switches from root to an ordinary user. Returns stdout. */
static int run(char output[OUTPUT], const char *mode, const char *argument, const char *const *environment) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        clean_environment();
        for (; environment && *environment; environment++) {
            if (strcmp(*environment, "NOBODY") == 0) {
                if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
                    _exit(126);
            } else if (strchr(*environment, '=')) {
                putenv((char *)(uintptr_t)*environment);
            } else {
                unsetenv(*environment);
            }
        }
        execl("/proc/self/exe", "test_devices", mode, argument, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got; used < OUTPUT - 1 && (got = read(ends[0], output + used, OUTPUT - 1 - used)) > 0;)
        used += (size_t)got;
    output[used] = 0;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status)); /* no crash for any argument */
    return WEXITSTATUS(status);
}

#define ENVIRONMENT(...)                                                                                               \
    (const char *const[]) {                                                                                            \
        __VA_ARGS__, NULL                                                                                              \
    }

/* ---- Rows as the parent parses them ------------------------------------------------------------------------------ */

struct row {
    int index, platform, device, type, emulator, chosen;
    char name[128], platform_name[128], error[256];
};

static size_t list(struct row rows[MAX_ROWS], const char *const *environment) {
    static char output[OUTPUT];
    size_t count = 0;
    assert_int_equal(run(output, "list", NULL, environment), 0);
    for (char *line = strtok(output, "\n"); line && count < MAX_ROWS; line = strtok(NULL, "\n"), count++) {
        struct row *row = &rows[count];
        assert_int_equal(sscanf(line, "%d\t%d\t%d\t%d\t%d\t%d\t%127[^\t]\t%127[^\t]\t%255[^\t]", &row->index,
                                &row->platform, &row->device, &row->type, &row->emulator, &row->chosen, row->name,
                                row->platform_name, row->error),
                         9);
    }
    return count;
}

static bool usable(const struct row *row) {
    return row->device >= 0 && strcmp(row->error, "-") == 0;
}

/* The index that `open` returns, or -1 after checking that it failed with TFM_ERROR_DEVICE and a message with `part`.
 * */
static int open_index(const char *device, const char *part, const char *const *environment) {
    static char output[OUTPUT];
    int index = -1, status = run(output, "open", device, environment);
    if (status == 0) {
        assert_int_equal(sscanf(output, "ok %d", &index), 1);
        return index;
    }
    assert_int_equal(status, 1);
    assert_memory_equal(output, "failed TFM_ERROR_DEVICE ", 24);
    if (part && !strstr(output, part))
        fail_msg("the message lacks \"%s\": %s", part, output);
    return -1;
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

static void test_default_device_is_the_chosen_one(void **state) {
    (void)state;
    struct row rows[MAX_ROWS];
    size_t count = list(rows, NULL), devices = 0, chosen = 0;
    int taken = open_index(NULL, NULL, NULL);
    assert_true(taken >= 0);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].device < 0) {
            assert_int_equal(rows[i].index, -1);
            assert_string_not_equal(rows[i].error, "-");
        } else {
            assert_int_equal(rows[i].index, (int)devices++);
        }
        chosen += rows[i].chosen != 0;
        assert_int_equal(rows[i].chosen, rows[i].index == taken && rows[i].device >= 0);
    }
    assert_int_equal(chosen, 1);
    assert_int_equal(open_index(NULL, NULL, ENVIRONMENT("TFM_DEVICE=")), taken);
    assert_int_equal(open_index("", NULL, NULL), taken);
}

static void test_every_selector_form_selects_its_device(void **state) {
    (void)state;
    struct row rows[MAX_ROWS];
    size_t count = list(rows, NULL);
    for (size_t i = 0; i < count; i++) {
        char text[160], setting[200];
        if (!usable(&rows[i]))
            continue;
        snprintf(text, sizeof(text), "%d", rows[i].index);
        assert_int_equal(open_index(text, NULL, NULL), rows[i].index);
        snprintf(setting, sizeof(setting), "TFM_DEVICE=%d:%d", rows[i].platform, rows[i].device);
        assert_int_equal(open_index(NULL, NULL, ENVIRONMENT(setting)), rows[i].index);
        /* Part of the name in capitals; two devices may share it, so either matches. */
        snprintf(text, sizeof(text), "%.8s", rows[i].name);
        for (char *c = text; *c; c++)
            *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 32 : *c);
        snprintf(setting, sizeof(setting), "TFM_DEVICE=%s", text);
        assert_true(open_index(NULL, NULL, ENVIRONMENT(setting)) >= 0);
        assert_true(open_index(rows[i].platform_name, NULL, NULL) >= 0);
    }
}

static void test_device_type_selects_a_device_of_that_type(void **state) {
    (void)state;
    static const struct {
        const char *word;
        tfm_device_type type;
    } KINDS[] = {{"cpu", TFM_DEVICE_CPU}, {"gpu", TFM_DEVICE_GPU}, {"Accel", TFM_DEVICE_ACCELERATOR}};
    struct row rows[MAX_ROWS];
    size_t count = list(rows, NULL);
    for (size_t k = 0; k < TFM__COUNT(KINDS); k++) {
        size_t there = 0;
        char setting[32];
        for (size_t i = 0; i < count; i++)
            there += usable(&rows[i]) && rows[i].type == (int)KINDS[k].type;
        snprintf(setting, sizeof(setting), "TFM_DEVICE=%s", KINDS[k].word);
        int taken = open_index(NULL, "there are no ", ENVIRONMENT(setting));
        assert_int_equal(taken >= 0, there > 0);
        for (size_t i = 0; i < count && taken >= 0; i++)
            if (rows[i].index == taken && rows[i].device >= 0)
                assert_int_equal(rows[i].type, (int)KINDS[k].type);
    }
}

static void test_unknown_selectors_are_rejected(void **state) {
    (void)state;
    static const char *const WORDS[] = {
        "no-such-vendor", "99",  "99999999999999999999", "-1", "0:99", "99:0", "0:", "0:x", "x:y", "-1:0",
        "0:0:0",          "%s%n"};
    for (size_t i = 0; i < TFM__COUNT(WORDS); i++) {
        char setting[64];
        snprintf(setting, sizeof(setting), "TFM_DEVICE=%s", WORDS[i]);
        assert_int_equal(open_index(NULL, WORDS[i], ENVIRONMENT(setting)), -1);
        for (size_t part = 0; part < 2; part++) /* part of the message; in tests/run.sh one of them per run */
            if (!harness_brief() || part == i % 2)
                assert_int_equal(open_index(WORDS[i], part ? "devices: " : "(0:0)", NULL), -1);
    }
    /* The list shows all devices, with none chosen. */
    struct row rows[MAX_ROWS];
    size_t count = list(rows, ENVIRONMENT("TFM_DEVICE=no-such-vendor"));
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(rows[i].chosen, 0);
}

static void test_overlong_selector_is_rejected(void **state) {
    (void)state;
    static char name[20000];
    memset(name, 'x', sizeof(name) - 1);
    assert_int_equal(open_index(name, "matches no device", NULL), -1);
}

static void test_option_precedes_tfm_device(void **state) {
    (void)state;
    assert_int_equal(open_index("0", NULL, ENVIRONMENT("TFM_DEVICE=no-such-vendor")), 0);
    assert_int_equal(open_index("", "TFM_DEVICE \"no-such", ENVIRONMENT("TFM_DEVICE=no-such-vendor")), -1);
    assert_int_equal(open_index("no-such-vendor", "the device \"no-such", ENVIRONMENT("TFM_DEVICE=0")), -1);
}

static void test_missing_platform_names_the_package(void **state) {
    (void)state;
    char folder[256], setting[300];
    const char *temporary = getenv("TMPDIR");
    static char output[OUTPUT];
    snprintf(folder, sizeof(folder), "%s/tfm-vendors-XXXXXX", temporary ? temporary : P_tmpdir);
    assert_non_null(mkdtemp(folder));
    snprintf(setting, sizeof(setting), "OCL_ICD_VENDORS=%s", folder);
    assert_int_equal(open_index(NULL, "pocl-opencl-icd", ENVIRONMENT(setting)), -1);
    assert_int_equal(open_index(NULL, folder, ENVIRONMENT(setting)), -1);
    assert_int_equal(open_index("cpu", "no OpenCL platform", ENVIRONMENT(setting)), -1);
    assert_int_equal(run(output, "list", NULL, ENVIRONMENT(setting)), 1);
    assert_non_null(strstr(output, "TFM_ERROR_DEVICE no OpenCL platform"));
    rmdir(folder);
}

/* Two devices of one platform: the one with more cores is the default, each opens by name. */
static void test_wider_of_two_devices_is_chosen(void **state) {
    (void)state;
    struct row rows[MAX_ROWS];
    const char *const *both = ENVIRONMENT("POCL_DEVICES=pthread basic");
    int basic = -1, wide = -1;
    size_t count = list(rows, both);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(rows[i].name, "basic", 5) == 0)
            basic = rows[i].index;
        else if (strncmp(rows[i].name, "pthread", 7) == 0)
            wide = rows[i].index;
    }
    if (basic < 0 || wide < 0) {
        print_message("skipped: no PoCL that lists two devices\n");
        skip();
    }
    assert_int_equal(open_index(NULL, NULL, ENVIRONMENT(both[0], "TFM_DEVICE=basic")), basic);
    assert_int_equal(open_index(NULL, NULL, ENVIRONMENT(both[0], "TFM_DEVICE=pthread")), wide);
    if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
        assert_int_equal(open_index("portable computing", NULL, both), wide);
    assert_int_equal(open_index("pocl", NULL, both) >= 0, 1);
    /* Several candidates: the ranking probes them, with a cache and without. */
    assert_true(open_index(NULL, NULL, both) >= 0);
    assert_true(open_index(NULL, NULL, ENVIRONMENT(both[0], "TFM_CACHE_DIR=off")) >= 0);
}

static void test_emulator_is_chosen_only_by_name(void **state) {
    (void)state;
    struct row rows[MAX_ROWS];
    const char *const *enabled = ENVIRONMENT("RUSTICL_ENABLE=llvmpipe");
    int emulator = -1, real = 0;
    size_t count = list(rows, enabled);
    for (size_t i = 0; i < count; i++) {
        if (usable(&rows[i]) && strstr(rows[i].name, "llvmpipe")) {
            assert_int_equal(rows[i].emulator, 1);
            emulator = rows[i].index;
        } else if (usable(&rows[i]) && !rows[i].emulator) {
            real++;
        }
    }
    if (emulator < 0) {
        print_message("skipped: no llvmpipe (Debian package mesa-opencl-icd)\n");
        skip();
    }
    assert_int_equal(open_index(NULL, NULL, ENVIRONMENT(enabled[0], "TFM_DEVICE=llvmpipe")), emulator);
    if (real > 0) { /* never without its name */
        assert_int_not_equal(open_index(NULL, NULL, enabled), emulator);
        assert_int_not_equal(open_index("cpu", NULL, enabled), emulator);
    }
}

static void refused(tfm_status status, const char *part) {
    assert_int_equal(status, TFM_ERROR_DEVICE);
    if (!strstr(tfm_error_message(), part))
        fail_msg("the message lacks \"%s\": %s", part, tfm_error_message());
}

/* Order of the ranking, on synthetic rows over one real device, so that each passes its probe. */
static void test_devices_are_ranked(void **state) {
    (void)state;
    static const tfm_device_info KINDS[] = {
        {.type = TFM_DEVICE_CPU, .compiler = true, .name = "emulator", .emulator = true, .platform_index = 0},
        {.type = TFM_DEVICE_GPU, .compiler = false, .name = "no compiler", .platform_index = 1},
        {.type = TFM_DEVICE_CPU, .compiler = true, .name = "cpu", .platform_index = 2},
        {.type = TFM_DEVICE_ACCELERATOR, .compiler = true, .name = "accelerator", .platform_index = 3},
        {.type = TFM_DEVICE_GPU, .compiler = true, .name = "integrated", .integrated = true, .platform_index = 4},
        {.type = TFM_DEVICE_GPU, .compiler = true, .name = "second GPU", .platform_index = 6, .compute_units = 99},
        {.type = TFM_DEVICE_GPU, .compiler = true, .name = "narrow GPU", .platform_index = 5, .compute_units = 1},
        {.type = TFM_DEVICE_GPU, .compiler = true, .name = "wide GPU", .platform_index = 5, .compute_units = 2},
    };
    static const char *const ORDER[] = {"wide GPU",    "narrow GPU", "second GPU",  "integrated",
                                        "accelerator", "cpu",        "no compiler", "emulator"};
    tfm__device *real, rows[TFM__COUNT(KINDS)];
    const tfm__device *taken;
    size_t count, usable_row = 0;
    harness_ok(tfm__devices_find(&real, &count));
    while (usable_row < count && (!real[usable_row].device || real[usable_row].info.error[0]))
        usable_row++;
    assert_true(usable_row < count);
    for (size_t i = 0; i < TFM__COUNT(KINDS); i++) {
        rows[i] = real[usable_row];
        rows[i].info = KINDS[i];
        rows[i].info.index = (int)i;
    }
    for (size_t i = 0; i < TFM__COUNT(ORDER); i++) {
        harness_ok(tfm__device_select(&taken, rows, TFM__COUNT(rows), NULL));
        assert_string_equal(taken->info.name, ORDER[i]);
        rows[taken - rows].device = NULL; /* then the next best */
    }
    refused(tfm__device_select(&taken, rows, TFM__COUNT(rows), NULL), "pocl-opencl-icd");
    assert_null(taken);
    setenv("TFM_DEVICE", "", 1);
    refused(tfm__device_select(&taken, rows, TFM__COUNT(rows), NULL), "pocl-opencl-icd");
    unsetenv("TFM_DEVICE");
    refused(tfm__device_select(&taken, rows, TFM__COUNT(rows), "-1"), "is not a device");
    /* An unusable device is never the default, and reports why. */
    rows[2].device = real[usable_row].device;
    snprintf(rows[2].info.error, sizeof(rows[2].info.error), "it is on fire");
    refused(tfm__device_select(&taken, rows, TFM__COUNT(rows), "2"), "it is on fire");
    refused(tfm__device_select(&taken, rows, TFM__COUNT(rows), NULL), "it is on fire");
    /* A name shared with a usable, lower-ranked device selects that one. */
    rows[5].device = rows[2].device;
    snprintf(rows[5].info.vendor, sizeof(rows[5].info.vendor), "Shared");
    snprintf(rows[2].info.vendor, sizeof(rows[2].info.vendor), "Shared");
    harness_ok(tfm__device_select(&taken, rows, TFM__COUNT(rows), "shared"));
    assert_string_equal(taken->info.name, "second GPU");
    free(real);
}

/* ---- An unwritable home folder ----------------------------------------------------------------------------------- */

static char place[256]; /* a world-writable folder, as /tmp is */

/* "NAME=<place>/<file>", with few in use at a time. */
static const char *in_place(const char *name, const char *file) {
    static char texts[8][400];
    static int turn;
    char *text = texts[turn++ % 8];
    snprintf(text, sizeof(texts[0]), "%s=%s/%s", name, place, file);
    return text;
}

static bool folder_there(const char *file) {
    struct stat about;
    return stat(in_place("", file) + 1, &about) == 0 && S_ISDIR(about.st_mode);
}

static void make_place(void) {
    const char *temporary = getenv("TMPDIR");
    struct row rows[MAX_ROWS];
    size_t count = list(rows, NULL), pocl = 0;
    for (size_t i = 0; i < count; i++)
        pocl += usable(&rows[i]) && strcmp(rows[i].platform_name, "Portable Computing Language") == 0;
    if (pocl == 0) {
        print_message("skipped: no PoCL\n");
        skip();
    }
    snprintf(place, sizeof(place), "%s/tfm-home-XXXXXX", temporary ? temporary : P_tmpdir);
    assert_non_null(mkdtemp(place));
    assert_int_equal(chmod(place, 0777), 0);
    FILE *file = fopen(in_place("", "file") + 1, "w");
    assert_non_null(file);
    fclose(file);
}

static void remove_place(void) {
    char command[400];
    snprintf(command, sizeof(command), "rm -rf '%s'", place);
    assert_int_equal(system(command), 0);
}

/* Home folder invalid or unset: PoCL gets a folder in the cache folder, else in the temporary one. */
static void test_pocl_cache_directory_without_home(void **state) {
    (void)state;
    char folder[64];
    make_place();
    const char *const *none[] = {
        ENVIRONMENT("XDG_CACHE_HOME", "POCL_CACHE_DIR", "TFM_CACHE_DIR", "HOME", in_place("TMPDIR", "")),
        ENVIRONMENT("XDG_CACHE_HOME", "POCL_CACHE_DIR", "TFM_CACHE_DIR=off", in_place("HOME", "file"),
                    in_place("TMPDIR", "")),
        ENVIRONMENT("HOME", "POCL_CACHE_DIR", "TFM_CACHE_DIR", in_place("XDG_CACHE_HOME", "file"),
                    in_place("TMPDIR", "")),
    };
    snprintf(folder, sizeof(folder), "tfm-pocl-%ld", (long)geteuid());
    for (size_t i = 0; i < TFM__COUNT(none); i++) {
        assert_true(open_index("pocl", NULL, none[i]) >= 0);
        assert_true(folder_there(folder));
    }
    assert_true(open_index("pocl", NULL,
                           ENVIRONMENT("XDG_CACHE_HOME", "POCL_CACHE_DIR", in_place("HOME", "file"),
                                       in_place("TFM_CACHE_DIR", "cache"), in_place("TMPDIR", "file"))) >= 0);
    assert_true(folder_there("cache/pocl"));
    remove_place();
}

/* An ordinary user without a home folder, as services run. */
static void test_service_user_without_home_opens_pocl(void **state) {
    (void)state;
    char folder[64];
    make_place();
    snprintf(folder, sizeof(folder), "tfm-pocl-%ld", geteuid() == 0 ? (long)NOBODY : (long)geteuid());
    assert_true(open_index("pocl", NULL,
                           ENVIRONMENT("XDG_CACHE_HOME", "POCL_CACHE_DIR", "TFM_CACHE_DIR", "HOME=/nonexistent",
                                       in_place("TMPDIR", ""), "NOBODY")) >= 0);
    assert_true(folder_there(folder));
    remove_place();
}

/* PoCL would abort without /sys, as in a bare chroot. */
static void test_pocl_opens_without_sys(void **state) {
    (void)state;
    static char output[OUTPUT];
    run(output, "without_sys", NULL, ENVIRONMENT("HWLOC_SYNTHETIC"));
    if (strcmp(output, "refused\n") == 0) {
        print_message("skipped: only root may hide /sys from a process\n");
        skip();
    }
    assert_non_null(strstr(output, "ok "));
}

/* If no folder works, the message names the variable; a folder of another owner is not used. */
static void test_unwritable_pocl_cache_is_explained(void **state) {
    (void)state;
    char folder[64], part[320];
    static char output[OUTPUT];
    make_place();
    const char *const *nowhere = ENVIRONMENT("XDG_CACHE_HOME", "POCL_CACHE_DIR", "TFM_CACHE_DIR",
                                             in_place("HOME", "file"), in_place("TMPDIR", "file"));
    open_index("pocl", "set POCL_CACHE_DIR to a folder that you own", nowhere);
    assert_int_equal(open_index("pocl", "file/.cache/pocl/kcache (Not a directory)", nowhere), -1);
    assert_int_equal(run(output, "list", NULL, nowhere), 0);
    assert_non_null(strstr(output, "set POCL_CACHE_DIR to a folder that you own"));
    snprintf(part, sizeof(part), "cannot write in %s/file/x", place);
    assert_int_equal(open_index("pocl", part, ENVIRONMENT(in_place("POCL_CACHE_DIR", "file/x"))), -1);
    snprintf(folder, sizeof(folder), "tfm-pocl-%ld", (long)geteuid());
    assert_int_equal(mkdir(in_place("", folder) + 1, 0700), 0);
    assert_int_equal(chmod(in_place("", folder) + 1, 0777), 0);
    assert_int_equal(open_index("pocl", "set POCL_CACHE_DIR",
                                ENVIRONMENT("XDG_CACHE_HOME", "POCL_CACHE_DIR", "TFM_CACHE_DIR",
                                            in_place("HOME", "file"), in_place("TMPDIR", ""))),
                     -1);
    remove_place();
}

/* Mesa's rusticl lists no device unless a variable enables its drivers. */
static void test_rusticl_without_driver_is_explained(void **state) {
    (void)state;
    struct row rows[MAX_ROWS];
    size_t count = list(rows, NULL), there = 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].platform_name, "rusticl") != 0 || rows[i].device >= 0)
            continue;
        assert_non_null(strstr(rows[i].error, "set RUSTICL_ENABLE="));
        there++;
    }
    if (there == 0) {
        print_message("skipped: no rusticl (Debian package mesa-opencl-icd)\n");
        skip();
    }
    count = list(rows, ENVIRONMENT("RUSTICL_ENABLE=nonesuch"));
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].platform_name, "rusticl") == 0)
            assert_non_null(strstr(rows[i].error, "RUSTICL_ENABLE=nonesuch"));
}

/* A device name may contain commas; a list of only commas is a list with empty entries. */
static void test_device_names_with_commas_are_not_lists(void **state) {
    (void)state;
    static const char *const LISTS[] = {",", ",,", " , ", ", ", "x,"}, *const NAMES[] = {"256 bits, fast", "a, b",
                                                                                         "b, f"};
    static const char name[] = "a, b, fast (256 bits, fast)";
    tfm__device device = {.device = (cl_device_id)(uintptr_t)name};
    snprintf(device.info.name, sizeof(device.info.name), "%s", name);
    for (size_t i = 0; i < sizeof(LISTS) / sizeof(*LISTS); i++)
        assert_true(tfm__selector_is_list(LISTS[i], &device, 1));
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(*NAMES); i++)
        assert_false(tfm__selector_is_list(NAMES[i], &device, 1));
}

static void test_opencl_error_codes_have_names(void **state) {
    (void)state;
    assert_string_equal(tfm__cl_error_name(CL_SUCCESS), "CL_SUCCESS");
    assert_string_equal(tfm__cl_error_name(CL_OUT_OF_RESOURCES), "CL_OUT_OF_RESOURCES");
    assert_string_equal(tfm__cl_error_name(CL_INVALID_KERNEL_ARGS), "CL_INVALID_KERNEL_ARGS");
    assert_string_equal(tfm__cl_error_name(-1001), "CL_PLATFORM_NOT_FOUND_KHR");
    assert_string_equal(tfm__cl_error_name(-9999), "CL_NVIDIA_ILLEGAL_BUFFER_ACCESS");
    assert_string_equal(tfm__cl_error_name(-123456), "unknown OpenCL error");
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "list") == 0)
        return child_list();
    if (argc > 1 && strcmp(argv[1], "open") == 0)
        return child_open(argc > 2 ? argv[2] : NULL);
    if (argc > 1 && strcmp(argv[1], "without_sys") == 0)
        return child_without_sys();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_device_is_the_chosen_one),
        cmocka_unit_test(test_every_selector_form_selects_its_device),
        cmocka_unit_test(test_device_type_selects_a_device_of_that_type),
        cmocka_unit_test(test_unknown_selectors_are_rejected),
        cmocka_unit_test(test_overlong_selector_is_rejected),
        cmocka_unit_test(test_option_precedes_tfm_device),
        cmocka_unit_test(test_missing_platform_names_the_package),
        cmocka_unit_test(test_wider_of_two_devices_is_chosen),
        cmocka_unit_test(test_emulator_is_chosen_only_by_name),
        cmocka_unit_test(test_devices_are_ranked),
        cmocka_unit_test(test_pocl_cache_directory_without_home),
        cmocka_unit_test(test_service_user_without_home_opens_pocl),
        cmocka_unit_test(test_pocl_opens_without_sys),
        cmocka_unit_test(test_unwritable_pocl_cache_is_explained),
        cmocka_unit_test(test_rusticl_without_driver_is_explained),
        cmocka_unit_test(test_device_names_with_commas_are_not_lists),
        cmocka_unit_test(test_opencl_error_codes_have_names),
    };
    clean_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
