/* Texts of `tfm report`: without folders and names, and with Markdown escaped. */
#include "support/scratch.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/report.h"

static const report_owner OWNER = {.folders = {"/srv/own data/ada", "/root"},
                                   .users = {"ada", "Ada Byron", "root"},
                                   .hosts = {"engine.example.org", "engine"}};

static void shows(const char *text, const char *want) {
    char *got = report_redact_owner(&OWNER, text);
    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
}

static void test_report_leaves_directories_out(void **state) {
    (void)state;
    shows("/home/NAME/x", "x");
    shows("cannot read /usr/lib/x.so: no", "cannot read x.so: no");
    shows("-I/home/NAME/x -isystem/opt/a/b -I ../NAME/y -I../NAME/z", "-Ix -isystemb -I y -Iz");
    shows("[/home/NAME/x] </a/b> {/a/c};/a/d|/a/e", "[x] <b> {c};d|e");
    shows("'/a b/c d' and \"/data/My Files/x\", `/a/b`", "'c d' and \"x\", `b`");
    shows("'/home/O'Brien/x' it's", "'x' it's");
    shows("/home/First Last/x", "x");
    shows("/home/First Middle Last/a b/x.cl and/or y", "x.cl and/or y");
    shows("/home/First\\ Last/x", "x");
    shows("X=/home/NAME/dir/ is", "X=dir is");
    shows("file:///home/NAME/x", "file:x");
    shows("~NAME/x ~/a/b", "x b");
    shows("//home/NAME/x", "x");
    shows("/home/NAME, /Users/NAME/", "(folder), (folder)");
    shows("in /srv/own data/ada", "in (folder)");
    shows("in /srv/own data/ada/x y", "in x y");
    shows("in /root: no", "in (folder): no");
    shows("\xe2\x80\x98/home/NAME/x.cl\xe2\x80\x99", "\xe2\x80\x98x.cl\xe2\x80\x99");
}

static void test_report_keeps_other_slashes(void **state) {
    (void)state;
    static const char *const TEXTS[] = {"1/2",
                                        "1/2/3 and/or 12 GFLOP/s",
                                        "OpenCL C 1.2/3.0",
                                        "a / b / c",
                                        "/* text */ // text",
                                        "see https://example.org/a/b:c and http://x/~y/z.",
                                        "/tmp (/2/3)",
                                        "",
                                        "/",
                                        "-",
                                        "x -1/2 ~5/6",
                                        "width 16, group 256, chunk 8, no fma; GEMM by tiled, rows"};
    for (size_t i = 0; i < CLI_COUNT(TEXTS); i++)
        shows(TEXTS[i], TEXTS[i]);
}

static void test_report_replaces_user_and_host_names(void **state) {
    (void)state;
    shows("ada on engine", "(user) on (host)");
    shows("by Ada Byron@engine.example.org", "by (user)@(host)");
    shows("adapter, engines, cl_ada_x, root", "adapter, engines, cl_ada_x, root");
    shows("/var/mail/ada", "(user)");
}

/* The report's Markdown; for free(). */
static char *markdown_of(json_t *report) {
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    report_markdown(file, report);
    assert_int_equal(fclose(file), 0);
    json_decref(report);
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        if (*line != '#')
            assert_true(strcspn(line, "\n") <= 80);
    return text;
}

static void test_report_escapes_markdown(void **state) {
    (void)state;
    char *text =
        markdown_of(json_pack("{s:{s:s}}", "tfm", "tfm", "__kernel x[1] ~~*a*~~ <b> &amp; `c` \\ |\n# d\n- e 1. f"));
    assert_non_null(strstr(text, "- tfm: \\_\\_kernel x\\[1\\] \\~\\~\\*a\\*\\~\\~ \\<b\\> \\&amp; \\`c\\` \\\\ \\|"));
    free(text);
    char words[600] = "";
    for (int i = 0; i < 40; i++)
        strcat(words, i % 3 ? "a__b " : i % 2 ? "# " : "12. - + = ");
    text = markdown_of(json_pack("{s:{s:s}}", "tfm", "tfm", words));
    for (const char *line = text; (line = strstr(line, "\n  ")); line += 3) /* no line begins with a Markdown mark */
        assert_null(memchr("#-+=", line[3], 4));
    assert_null(strstr(text, "\n  12. "));
    free(text);
}

static void test_report_tells_failures(void **state) {
    (void)state;
    char *text = markdown_of(json_pack("{s:s, s:{s:s}}", "failed", "the device was lost", "device", "device", "_x_y"));
    assert_non_null(strstr(text, "# tfm on \\_x_y\n"));
    assert_non_null(strstr(text, "FAILED: the device was lost\n"));
    assert_null(strstr(text, "nan"));
    free(text);
}

static void test_report_lists_unavailable_checks_apart(void **state) {
    (void)state;
    const char *pass = "{s:[{s:s, s:s, s:s}, {s:s, s:s, s:s, s:s}], s:[{s:s, s:s, s:s, s:s}]}";
    char *text = markdown_of(json_pack(pass, "self_test", "op", "add", "form", "", "state", "pass", "op", "gemm",
                                       "form", "rows", "state", "not available", "message", "not here", "bench",
                                       "bench", "gemm", "shape", "1x2", "provider", "rows", "declined", "not here"));
    assert_non_null(strstr(text, "All 1 checks passed.\n\n1 is not available on this device, which is no failure:\n\n- "
                                 "gemm rows: not here\n"));
    assert_non_null(strstr(text, "Not available on this device, which is no failure:\n\n- gemm 1x2 by rows: not here"));
    assert_null(strstr(text, "FAILED"));
    free(text);
    text = markdown_of(json_pack("{s:[{s:s, s:s, s:s}, {s:s, s:s, s:s, s:s}]}", "self_test", "op", "add", "form", "",
                                 "state", "pass", "op", "gemm", "form", "rows", "state", "FAIL", "message", "wrong"));
    assert_non_null(strstr(text, "**1 of 2 checks FAILED:**\n\n- gemm rows: wrong\n"));
    free(text);
}

static void test_report_table_is_80_columns_wide(void **state) {
    (void)state;
    static const struct {
        double seconds, rate;
        const char *row;
    } ROWS[] = {
        {999.94e-6, 99.94, "|  999.9 us | 99.9 GFLOP/s |"},
        {999.96e-6, 99.96, "|   1.00 ms |  100 GFLOP/s |"},
        {999.994e-3, 999.6, "| 999.99 ms | 1000 GFLOP/s |"},
        {999.996e-3, 0.04, "|    1.00 s |  0.0 GFLOP/s |"},
    };
    for (size_t i = 0; i < CLI_COUNT(ROWS); i++) {
        char *text = markdown_of(json_pack("{s:[{s:s, s:s, s:s, s:f, s:f, s:f}]}", "bench", "bench", "gemm", "shape",
                                           "1024x1024x1024nt", "provider", "cpu-packed", "median_s", ROWS[i].seconds,
                                           "gflops", ROWS[i].rate, "percent", 100.));
        assert_non_null(strstr(text, ROWS[i].row));
        free(text);
    }
}

/* Output on stderr, redirected to a file, when builds take so many seconds. */
static void test_later_kernel_builds_are_announced(void **state) {
    (void)state;
    static const double SECONDS[] = {1, 6, 7, 11, 14, 30};
    const int old = dup(STDERR_FILENO), file = open(scratch_path("said"), O_RDWR | O_CREAT, 0600);
    assert_true(old >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    for (int i = 0; i < (int)TFM__COUNT(SECONDS); i++)
        cli_on_build(NULL, i + 1, SECONDS[i]);
    fflush(stderr);
    dup2(old, STDERR_FILENO);
    char text[1024];
    const ssize_t bytes = pread(file, text, sizeof(text) - 1, 0);
    assert_true(bytes > 0);
    text[bytes] = 0;
    assert_string_equal(text,
                        "tfm: building kernels for this device, 2 so far; each is built once, and a model needs 10 to "
                        "20\n"
                        "tfm: still building kernels for this device: 5 so far, 14 s\n"
                        "tfm: still building kernels for this device: 6 so far, 30 s\n");
    close(old);
    close(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report_leaves_directories_out),
        cmocka_unit_test(test_report_keeps_other_slashes),
        cmocka_unit_test(test_report_replaces_user_and_host_names),
        cmocka_unit_test(test_report_escapes_markdown),
        cmocka_unit_test(test_report_tells_failures),
        cmocka_unit_test(test_report_lists_unavailable_checks_apart),
        cmocka_unit_test(test_report_table_is_80_columns_wide),
        cmocka_unit_test(test_later_kernel_builds_are_announced),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
