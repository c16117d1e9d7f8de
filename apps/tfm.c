/* tfm: run and train Transformers on any OpenCL device. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include "cli.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about;
} COMMANDS[] = {
    {"devices", cmd_devices, "list the OpenCL devices, and which one is taken"},
    {"selftest", cmd_selftest, "check every op on a device against the host"},
    {"info", cmd_info, "say what a model is"},
    {"train", cmd_train, "train a model from two text files"},
    {"translate", cmd_translate, "translate lines of text"},
    {"score", cmd_score, "say how likely given translations are"},
    {"eval", cmd_eval, "say how good translations are: BLEU, chrF2, perplexity"},
    {"attend", cmd_attend, "show what the attention of a model looks at"},
    {"bench", cmd_bench, "time matrix products, attention, norms, translation"},
};

static void print_help(FILE *to) {
    fputs("usage: tfm COMMAND [option...]\n\nRuns and trains Transformers on any OpenCL device.\n\ncommands:\n", to);
    for (size_t i = 0; i < CLI_COUNT(COMMANDS); i++)
        fprintf(to, "  %-10s %s\n", COMMANDS[i].name, COMMANDS[i].about);
    fputs("\noptions:\n  --help     this text; tfm COMMAND --help tells of one command\n"
          "  --version  the version\n\n"
          "examples:\n  tfm devices\n  echo \"Guten Morgen.\" | tfm translate -m apps/demo\n\n"
          "environment: TFM_DEVICE, TFM_GEMM, TFM_LOG, TFM_CL_DIR, TFM_CACHE_DIR, TFM_PROFILE; see tfm(1)\n",
          to);
}

static int dispatch(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_help(stdout);
        return CLI_OK;
    }
    if (strcmp(name, "--version") == 0) {
        printf("tfm %s\n", tfm_version());
        return CLI_OK;
    }
    for (size_t i = 0; i < CLI_COUNT(COMMANDS); i++)
        if (strcmp(name, COMMANDS[i].name) == 0)
            return COMMANDS[i].run(argc - 1, argv + 1);
    fprintf(stderr, "tfm: there is no command '%s'; see tfm --help\n", name);
    return CLI_USAGE;
}

/* Where the caller closed a standard stream, the next file opened would take its number and get what is meant
 * for it. Each gets a file that fails as a closed one does. */
static void fill_streams(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
            _exit(CLI_FAILED);
}

int main(int argc, char **argv) {
    fill_streams();
    signal(SIGPIPE, SIG_IGN); /* a reader that has gone is a failed write, with a sentence */
    int code = dispatch(argc, argv);
    cli_progress(NULL);
    cli_output out;
    cli_output_open(&out, NULL);
    int closing = cli_output_close(&out, true);
    return code == CLI_OK ? closing : code;
}
