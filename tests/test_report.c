/* What `tfm report` shows of texts: no folders and no names of users and machines. */
#include "harness.h"
#include <stdlib.h>
#include <string.h>
#include "report.h"

static const report_owner OWNER = {.folders = {"/srv/own data/ada", "/root"},
                                   .users = {"ada", "Ada Byron", "root"},
                                   .hosts = {"engine.example.org", "engine"}};

static void shows(const char *text, const char *want) {
    char *got = report_public_of(&OWNER, text);
    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
}

static void folders_are_left_out(void **state) {
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

static void other_slashes_stay(void **state) {
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
                                        "width 16, group 256, chunk 8, no fma; products by tiled, rows"};
    for (size_t i = 0; i < CLI_COUNT(TEXTS); i++)
        shows(TEXTS[i], TEXTS[i]);
}

static void names_are_replaced(void **state) {
    (void)state;
    shows("ada on engine", "(user) on (host)");
    shows("by Ada Byron@engine.example.org", "by (user)@(host)");
    shows("adapter, engines, cl_ada_x, root", "adapter, engines, cl_ada_x, root");
    shows("/var/mail/ada", "(user)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_are_left_out),
        cmocka_unit_test(other_slashes_stay),
        cmocka_unit_test(names_are_replaced),

    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
