/* Replaces tfm serve in a build without libmicrohttpd. */
#include <string.h>
#include "cli/cli.h"

int cmd_serve(int argc, char **argv) {
    const cli_syntax syntax = {
        .name = "serve",
        .usage = "serve",
        .about = "Serves models over HTTP. This tfm was built without libmicrohttpd and does not.\n",
        .examples = "  apt install libmicrohttpd-dev\n",
        .more = true,
    };
    const bool asks = argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
    const int code = asks ? cli_parse(&syntax, argc, argv) : CLI_CONTINUE; /* ignores options */
    return code == CLI_CONTINUE ? cli_fail("this tfm was built without libmicrohttpd: install "
                                           "libmicrohttpd-dev and build it again")
                                : code;
}
