/* tfm completion: shell completion scripts, generated from the commands' option tables. */
#include <getopt.h>
#include <string.h>
#include "cli/cli.h"

/* The kind of an option's value, by its name in the help. */
static bool is_folder(const cli_option *o) {
    return strcmp(o->argument, "DIR") == 0 || strcmp(o->argument, "MODEL") == 0;
}

static bool is_file(const cli_option *o) {
    return strcmp(o->argument, "FILE") == 0;
}

/* Whether the required operand is a choice, "a|b|c". */
static bool has_operand_choices(const cli_syntax *syntax) {
    return syntax->operand && strchr(syntax->operand, '|');
}

static void put_choices(const char *words) {
    for (; *words; words++)
        putchar(*words == '|' ? ' ' : *words);
}

/* ---- bash ---------------------------------------------------------------------------------------------- */

static void bash_values(const cli_syntax *syntax, const cli_option *o) {
    printf("    \"%s --%s\"", syntax->name, o->name);
    if (o->letter)
        printf("|\"%s -%c\"", syntax->name, o->letter);
    if (o->kind == CLI_CHOICE) {
        fputs(") words='", stdout);
        put_choices(o->argument);
        fputs("' kind=words ;;\n", stdout);
    } else {
        printf(") kind=%s ;;\n", is_folder(o) ? "folders" : is_file(o) ? "files" : "none");
    }
}

static void bash_command(const cli_syntax *syntax) {
    for (size_t i = 0; i < syntax->option_count; i++)
        if (syntax->options[i].kind != CLI_FLAG)
            bash_values(syntax, &syntax->options[i]);
    printf("    \"%s \"*)\n        options='", syntax->name);
    for (size_t i = 0; i < syntax->option_count; i++) {
        if (syntax->options[i].letter)
            printf("-%c ", syntax->options[i].letter);
        printf("--%s ", syntax->options[i].name);
    }
    fputs("-h --help'\n", stdout);
    if (has_operand_choices(syntax)) {
        fputs("        [ \"$COMP_CWORD\" = 2 ] && kind=words && words='", stdout);
        put_choices(syntax->operand);
        fputs("'\n", stdout);
    }
    fputs("        ;;\n", stdout);
}

static void bash_all(const cli_command *commands) {
    fputs("# Completion of tfm for bash, made by `tfm completion bash`.\n"
          "_tfm() {\n"
          "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}\n"
          "    local options= words= kind=files\n"
          "    COMPREPLY=()\n"
          "    [ \"$COMP_CWORD\" = 1 ] && command= before=\n"
          "    [ \"$COMP_CWORD\" = 2 ] && [ \"$command\" = help ] && command= before=\n"
          "    case \"$command $before\" in\n"
          "    ' ') kind=words words='",
          stdout);
    for (const cli_command *c = commands; c->name; c++)
        printf("%s ", c->name);
    fputs("help' options='-h --help -V --version' ;;\n", stdout);
    cli_describe(commands, bash_command);
    fputs("    esac\n"
          "    if [[ $current == -* && $kind != none ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
          "        return\n"
          "    fi\n"
          "    case $kind in\n"
          "    words) COMPREPLY=($(compgen -W \"$words\" -- \"$current\")) ;;\n"
          "    folders) mapfile -t COMPREPLY < <(compgen -d -- \"$current\") ;;\n"
          "    files) mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;\n"
          "    esac\n"
          "}\n"
          "complete -o filenames -F _tfm tfm\n",
          stdout);
}

/* ---- zsh ----------------------------------------------------------------------------------------------- */

/* Text within single quotes; _arguments and _describe split at colons and brackets. */
static void zsh_text(const char *text) {
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            printf("%s%c", strchr(":[]\\", *text) ? "\\" : "", *text);
}

static void zsh_option(const cli_option *o) {
    fputs("            ", stdout);
    if (o->letter)
        printf("'(-%c --%s)'{-%c,--%s}'[", o->letter, o->name, o->letter, o->name);
    else
        printf("'--%s[", o->name);
    zsh_text(o->help);
    putchar(']');
    if (o->kind == CLI_CHOICE) {
        fputs(":value:(", stdout);
        put_choices(o->argument);
        putchar(')');
    } else if (o->kind != CLI_FLAG) {
        putchar(':');
        zsh_text(o->argument);
        fputs(is_folder(o) ? ":_files -/" : is_file(o) ? ":_files" : ":", stdout);
    }
    fputs("' \\\n", stdout);
}

static void zsh_command(const cli_syntax *syntax) {
    printf("    %s)\n        _arguments -s \\\n", syntax->name);
    for (size_t i = 0; i < syntax->option_count; i++)
        zsh_option(&syntax->options[i]);
    fputs("            '(-h --help)'{-h,--help}'[this text]'", stdout);
    if (has_operand_choices(syntax)) {
        fputs(" \\\n            '1:what:(", stdout);
        put_choices(syntax->operand);
        fputs(")'", stdout);
    }
    fputs(" \\\n            '*:file:_files'\n        ;;\n", stdout);
}

static void zsh_all(const cli_command *commands) {
    fputs("#compdef tfm\n# Completion of tfm for zsh, made by `tfm completion zsh`.\n"
          "local -a commands\ncommands=(\n",
          stdout);
    for (const cli_command *c = commands; c->name; c++) {
        printf("    '%s:", c->name);
        zsh_text(c->about);
        fputs("'\n", stdout);
    }
    fputs("    'help:tell of a command'\n)\n"
          "if ((CURRENT == 2)) || { ((CURRENT == 3)) && [[ $words[2] == help ]] }; then\n"
          "    _describe command commands\n"
          "    return\n"
          "fi\n"
          "words=(\"${words[@]:1}\")\n((CURRENT--))\n"
          "case $words[1] in\n",
          stdout);
    cli_describe(commands, zsh_command);
    fputs("esac\n", stdout);
}

int cmd_completion(const cli_command *commands, int argc, char **argv) {
    const cli_syntax syntax = {
        .name = "completion",
        .usage = "completion bash|zsh",
        .about = "Prints a script for bash or zsh that completes the commands and options of tfm.\n"
                 "A tfm installed below /usr/local or /usr does not need it: both shells find the\n"
                 "script there, bash with the package bash-completion.\n",
        .examples = "  eval \"$(tfm completion bash)\"\n  tfm completion zsh >~/.zfunc/_tfm\n",
        .operand = "bash|zsh",
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_CONTINUE)
        return code;
    if (strcmp(argv[optind], "bash") == 0)
        bash_all(commands);
    else if (strcmp(argv[optind], "zsh") == 0)
        zsh_all(commands);
    else
        return cli_usage_error(&syntax, "there is no completion for '%s': give bash or zsh", argv[optind]);
    return CLI_OK;
}
