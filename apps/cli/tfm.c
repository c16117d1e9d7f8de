/* tfm: run and train Transformers on any OpenCL device. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"

static const cli_command COMMANDS[] = {
    {"devices", cmd_devices, "list the OpenCL devices and the default one", NULL},
    {"selftest", cmd_selftest, "check every op on a device against the host", NULL},
    {"info", cmd_info, "describe a model directory", NULL},
    {"train", cmd_train, "train a translation model or a decoder-only model", NULL},
    {"translate", cmd_translate, "translate lines of text", NULL},
    {"generate", cmd_generate, "generate text", NULL},
    {"chat", cmd_chat, "converse with a language model", NULL},
    {"score", cmd_score, "compute log probabilities of translations or texts", NULL},
    {"eval", cmd_eval, "evaluate translations: BLEU, chrF2, perplexity", NULL},
    {"embed", cmd_embed, "compute embeddings; neighbors, classes, masked tokens", NULL},
    {"rerank", cmd_rerank, "order documents by their relevance to a query", NULL},
    {"serve", cmd_serve, "serve models over HTTP, with a web page", NULL},
    {"attention", cmd_attention, "show a model's attention weights", NULL},
    {"bench", cmd_bench, "time GEMM, attention, norms, translation", NULL},
    {"quantize", cmd_quantize, "quantize a model's weights to int8, fp16 or bf16", NULL},
    {"merge", cmd_merge, "merge LoRA adapters into a model", NULL},
    {"tune", cmd_tune, "find the fastest kernels for a device", NULL},
    {"kernels", NULL, "export and pack programs for devices without a compiler", cmd_kernels},
    {"pull", cmd_pull, "download a model from the Hugging Face hub", NULL},
    {"models", cmd_models, "list the downloaded models", NULL},
    {"rm", cmd_rm, "delete downloaded models", NULL},
    {"report", cmd_report, "write a report on a device, to attach to an issue", NULL},
    {"completion", NULL, "print a script for shell completion", cmd_completion},
    {0},
};

static void print_help(FILE *to) {
    fputs("usage: tfm COMMAND [option...]\n\nRuns and trains Transformers on any OpenCL device.\n\ncommands:\n", to);
    for (const cli_command *c = COMMANDS; c->name; c++)
        fprintf(to, "  %-12s%s\n", c->name, c->about);
    fputs("\noptions:\n  -h, --help     this text; tfm help COMMAND describes one command\n"
          "  -V, --version  the version\n\n"
          "examples:\n  tfm devices\n  echo \"Guten Morgen.\" | tfm translate -m apps/demo\n\n"
          "environment: TFM_DEVICE, TFM_GEMM, TFM_MEGAKERNEL, TFM_LOG, TFM_CL_DIR,\n"
          "TFM_KERNELS, TFM_CACHE_DIR, TFM_PROFILE, POCL_CACHE_DIR, RUSTICL_ENABLE,\n"
          "HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE; see tfm(1)\n",
          to);
}

static int unknown_option(const char *name) {
    cli_suggestion near = {.word = name};
    cli_suggest(&near, "--help");
    cli_suggest(&near, "--version");
    fprintf(stderr, "tfm: there is no option %s%s%s%s; see tfm --help\n", name, near.name ? " (did you mean " : "",
            near.name ? near.name : "", near.name ? "?)" : "");
    return CLI_USAGE;
}

static int unknown_command(const char *name) {
    cli_suggestion near = {.word = name};
    if (name[0] == '-')
        return unknown_option(name);
    for (const cli_command *c = COMMANDS; c->name; c++)
        cli_suggest(&near, c->name);
    cli_suggest(&near, "help");
    if (near.name)
        fprintf(stderr, "tfm: there is no command '%s': did you mean %s? See tfm --help\n", name, near.name);
    else
        fprintf(stderr, "tfm: there is no command '%s'; see tfm --help\n", name);
    return CLI_USAGE;
}

/* `tfm help`, `tfm help COMMAND`. */
static int help(int argc, char **argv) {
    const char *name = argc > 2 ? argv[2] : "help";
    const cli_command *c = cli_command_named(COMMANDS, name);
    if (!c && strcmp(name, "help") != 0 && strcmp(name, "--help") != 0 && strcmp(name, "-h") != 0)
        return unknown_command(name);
    if (c)
        return cli_run(COMMANDS, c, 2, (char *[]){argv[2], (char[]){"--help"}, NULL});
    print_help(stdout);
    return CLI_OK;
}

static int dispatch(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return help(argc, argv);
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        printf("tfm %s\n", tfm_version());
        return CLI_OK;
    }
    const cli_command *c = cli_command_named(COMMANDS, name);
    return c ? cli_run(COMMANDS, c, argc - 1, argv + 1) : unknown_command(name);
}

/* If the caller closed a standard stream, the next opened file would get its descriptor. Open a file in its place that
 * fails like a closed one. */
static void open_closed_streams(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
            _exit(CLI_FAILED);
}

int main(int argc, char **argv) {
    open_closed_streams();
    /* Short output is written at the end, where errno is read; longer output is flushed and checked earlier. */
    static char buffer[1 << 16];
    setvbuf(stdout, buffer, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, sizeof(buffer));
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write: files are closed, caches kept */
    int code = dispatch(argc, argv);
    cli_progress(NULL);
    cli_output out;
    cli_output_open(&out, NULL);
    int closing = cli_output_close(&out, true);
    if (cli_stdout_closed()) { /* end by SIGPIPE like other programs */
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    return code == CLI_OK ? closing : code;
}
