/* tfm selftest: checks every op on this device. */
#include <getopt.h>
#include "cli/cli.h"

typedef struct tally {
    size_t passed, failed, unavailable;
    cli_output out;
    int writing;
} tally;

static bool on_record(void *user, const tfm_selftest_record *record) {
    tally *t = user;
    cli_progress(NULL);
    int column = printf("%-15s %-25s ", record->op, record->form);
    switch (record->state) {
    case TFM_SELFTEST_PASS:
        printf("pass           error %.1e\n", record->error);
        t->passed++;
        break;
    case TFM_SELFTEST_FAIL:
        column += printf("fail           ");
        cli_print_wrapped(stdout, column, column, record->message);
        t->failed++;
        break;
    case TFM_SELFTEST_UNAVAILABLE:
        column += printf("not available  ");
        cli_print_wrapped(stdout, column, column, record->message);
        t->unavailable++;
        break;
    }
    t->writing = cli_output_flush(&t->out); /* the next check may take its time */
    return t->writing == CLI_OK;
}

/* The last line. Unavailable ops are no failures. */
static void print_verdict(const tally *t) {
    const size_t checks = t->passed + t->failed;
    if (t->failed > 0)
        printf("verdict: FAILED: %zu of %zu checks failed", t->failed, checks);
    else
        printf("verdict: passed: all %zu checks passed", checks);
    if (t->unavailable > 0)
        printf("; %zu %s not available on this device", t->unavailable, t->unavailable == 1 ? "is" : "are");
    putchar('\n');
}

int cmd_selftest(int argc, char **argv) {
    const char *device = NULL;
    const cli_option options[] = {CLI_DEVICE(&device)};
    const cli_syntax syntax = {
        .name = "selftest",
        .usage = "selftest [--device DEVICE] [OP]",
        .about = "Runs every op, or only OP, and each provider of matrix multiplication, on small\n"
                 "odd shapes, and compares the results with double precision on the host. Each\n"
                 "line says pass, fail, or not available with the reason; the last line is the\n"
                 "verdict. The exit code is 1 if a check fails.\n",
        .examples = "  tfm selftest\n  tfm selftest softmax\n  tfm selftest --device llvmpipe\n",
        .options = options,
        .option_count = CLI_COUNT(options),
        .more = true,
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_CONTINUE)
        return code;
    const char *op = optind < argc ? argv[optind] : NULL;
    if (argc - optind > 1)
        return cli_usage_error(&syntax, "unexpected argument '%s'", argv[optind + 1]);
    tally t = {0};
    cli_output_open(&t.out, NULL);
    tfm_context *ctx = NULL;
    cli_catch_signals();
    if (tfm_context_open(&ctx, &(tfm_context_options){.device = device, .on_build = cli_on_build}) != TFM_OK)
        return cli_fail_library();
    cli_print_device(ctx, NULL);
    tfm_status status = tfm_selftest(ctx, op, on_record, &t);
    if (status == TFM_OK)
        print_verdict(&t);
    if (t.writing != CLI_OK)
        code = t.writing;
    else if (status != TFM_OK)
        code = cli_fail_library();
    else if (t.failed > 0)
        code = cli_fail("%zu of %zu checks failed: do not use the failed ops on this device", t.failed,
                        t.passed + t.failed);
    else
        code = CLI_OK;
    tfm_context_free(&ctx);
    return code;
}
