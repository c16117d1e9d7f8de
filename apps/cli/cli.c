/* Options by table, and functions shared by all commands. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cli/adapters.h"
#include "cli/cli.h"

enum { MAX_OPTIONS = 96, LONG_OPTION = 256, HELP = 512, MAX_WORKERS = 16, MAX_LENGTH_PENALTY = 10 };

tfm_precision cli_precision(int chosen) {
    static const tfm_precision known[] = {TFM_PRECISION_AUTO, TFM_PRECISION_FP32, TFM_PRECISION_FP16,
                                          TFM_PRECISION_BF16, TFM_PRECISION_INT8};
    return known[chosen];
}

void cli_set_precision(tfm_model_options *options, cli_precisions chosen) {
    options->precision = cli_precision(chosen.weights);
    options->activation_precision = cli_precision(chosen.activations);
    options->kv_precision = cli_precision(chosen.kv);
}

int cli_check_search(const cli_syntax *syntax, int beam, double length_penalty) {
    if (beam > TFM_MAX_BEAM_SIZE)
        return cli_usage_error(syntax, "--beam-size is %d: give 1 to %d", beam, TFM_MAX_BEAM_SIZE);
    if (fabs(length_penalty) > MAX_LENGTH_PENALTY)
        return cli_usage_error(syntax, "--length-penalty is %g: give %d to %d", length_penalty, -MAX_LENGTH_PENALTY,
                               MAX_LENGTH_PENALTY);
    return CLI_CONTINUE;
}

int cli_check_workers(const cli_syntax *syntax, int workers) {
    return workers <= MAX_WORKERS ? CLI_CONTINUE
                                  : cli_usage_error(syntax, "--workers is %d: give 1 to %d", workers, MAX_WORKERS);
}

double cli_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bool cli_grow(void *array, size_t *room, size_t count, size_t size) {
    void *old, *larger;
    size_t more = *room ? *room : 64;
    if (count <= *room)
        return true;
    while (more < count)
        more *= 2;
    memcpy(&old, array, sizeof(old));
    if (more > SIZE_MAX / size || !(larger = realloc(old, more * size)))
        return false;
    memcpy(array, &larger, sizeof(larger));
    *room = more;
    return true;
}

/* Prints the help of one option, wrapped in the second column. */
static void print_option(const cli_option *option) {
    enum { INDENT = 28, WIDTH = 76 };
    char left[128];
    int used = option->letter ? snprintf(left, sizeof(left), "  -%c, --%s", option->letter, option->name)
                              : snprintf(left, sizeof(left), "      --%s", option->name);
    if (option->argument)
        used += snprintf(left + used, sizeof(left) - (size_t)used, " %s", option->argument);
    if (used < INDENT)
        printf("%-*s", INDENT, left);
    else
        printf("%s\n%*s", left, INDENT, "");
    int column = INDENT;
    for (const char *word = option->help; *word;) {
        int length = (int)strcspn(word, " ");
        if (column > INDENT && column + 1 + length > WIDTH) {
            printf("\n%*s", INDENT, "");
            column = INDENT;
        }
        column += printf(column > INDENT ? " %.*s" : "%.*s", length, word);
        word += length;
        word += strspn(word, " ");
    }
    putchar('\n');
}

static int print_help(const cli_syntax *syntax) {
    static const cli_option help = {'h', "help", CLI_FLAG, NULL, NULL, "this text", NULL};
    printf("usage: tfm %s\n\n%s\noptions:\n", syntax->usage, syntax->about);
    for (size_t i = 0; i < syntax->option_count; i++)
        print_option(&syntax->options[i]);
    print_option(&help);
    printf("\nexamples:\n%s", syntax->examples);
    return CLI_OK;
}

static int parse_choice(const cli_syntax *syntax, const cli_option *option, const char *text) {
    const char *word = option->argument;
    for (int index = 0;; index++) {
        size_t length = strcspn(word, "|");
        if (strlen(text) == length && strncmp(word, text, length) == 0) {
            *(int *)option->value = index;
            return CLI_CONTINUE;
        }
        if (!word[length])
            return cli_usage_error(syntax, "--%s is '%s': give one of %s", option->name, text, option->argument);
        word += length + 1;
    }
}

static int add_adapter(const cli_syntax *syntax, cli_adapters *to, const char *dir) {
    if (to->count == CLI_MAX_ADAPTERS)
        return cli_usage_error(syntax, "--adapter is given more than %d times: merge some of them with tfm merge",
                               CLI_MAX_ADAPTERS);
    to->items[to->count++].dir = dir;
    return CLI_CONTINUE;
}

static int scale_adapter(const cli_syntax *syntax, cli_adapters *to, double scale) {
    if (to->count == 0)
        return cli_usage_error(syntax, "--adapter-scale has no --adapter before it: give --adapter first");
    if (scale == 0)
        return cli_usage_error(syntax, "--adapter-scale is 0: leave the adapter out");
    to->items[to->count - 1].scale = scale;
    return CLI_CONTINUE;
}

static int set_value(const cli_syntax *syntax, const cli_option *option, const char *text) {
    char *end = NULL;
    errno = 0;
    if (option->given)
        *option->given = true;
    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)option->value = true;
        return CLI_CONTINUE;
    case CLI_STRING:
        *(const char **)option->value = text;
        return CLI_CONTINUE;
    case CLI_LIST: {
        cli_strings *list = option->value;
        if (!cli_grow(&list->items, &list->room, list->count + 1, sizeof(*list->items)))
            return cli_fail("out of memory for --%s", option->name);
        list->items[list->count++] = text;
        return CLI_CONTINUE;
    }
    case CLI_CHOICE:
        return parse_choice(syntax, option, text);
    case CLI_POSITIVE:
    case CLI_NONNEGATIVE: {
        const int least = option->kind == CLI_POSITIVE;
        long number = strtol(text, &end, 10);
        if (end == text || *end || errno || number < least || number > INT_MAX)
            return cli_usage_error(syntax, "--%s is '%s': give a whole number, at least %d", option->name, text, least);
        *(int *)option->value = (int)number;
        return CLI_CONTINUE;
    }
    case CLI_ADAPTER:
        return add_adapter(syntax, option->value, text);
    case CLI_ADAPTER_SCALE:
    case CLI_DOUBLE: {
        double number = strtod(text, &end);
        if (end == text || *end || !isfinite(number))
            return cli_usage_error(syntax, "--%s is '%s': give a number%s", option->name, text,
                                   cli_number_hint(option->name, text));
        if (option->kind == CLI_ADAPTER_SCALE)
            return scale_adapter(syntax, option->value, number);
        *(double *)option->value = number;
        return CLI_CONTINUE;
    }
    }
    return CLI_CONTINUE;
}

/* The index of an alias's option; -1 if the command does not have it. */
static int aliased_option(const cli_syntax *syntax, const cli_alias *alias) {
    for (size_t i = 0; i < syntax->option_count; i++)
        if (strcmp(syntax->options[i].name, alias->option) == 0)
            return (int)i;
    return -1;
}

/* Converts the table for getopt_long. Options without a letter get a number that no letter has. */
static void make_tables(const cli_syntax *syntax, char *letters, struct option *table) {
    *letters++ = ':'; /* getopt_long returns ':' for a missing value */
    for (size_t i = 0; i < syntax->option_count; i++) {
        const cli_option *option = &syntax->options[i];
        bool valued = option->kind != CLI_FLAG;
        *table++ = (struct option){option->name, valued ? required_argument : no_argument, NULL, LONG_OPTION + (int)i};
        if (option->letter) {
            *letters++ = option->letter;
            if (valued)
                *letters++ = ':';
        }
    }
    for (const cli_alias *a = cli_aliases; a < cli_aliases + CLI_ALIASES; a++) {
        const int i = aliased_option(syntax, a);
        if (i >= 0 && a->name)
            *table++ = (struct option){a->name, required_argument, NULL, LONG_OPTION + i};
        if (i >= 0 && a->letter) {
            *letters++ = a->letter;
            *letters++ = ':';
        }
    }
    *table++ = (struct option){"help", no_argument, NULL, HELP};
    *table = (struct option){0};
    *letters++ = 'h';
    *letters = 0;
}

static const cli_option *find_option(const cli_syntax *syntax, int code) {
    if (code >= LONG_OPTION)
        return &syntax->options[code - LONG_OPTION];
    for (size_t i = 0; i < syntax->option_count; i++)
        if (syntax->options[i].letter == code)
            return &syntax->options[i];
    const cli_alias *a = cli_aliases;
    while (a->letter != code)
        a++;
    return &syntax->options[aliased_option(syntax, a)];
}

/* The option that getopt_long has read last, as written. */
static const char *last_given(char **argv) {
    return optarg && optarg == argv[optind - 1] ? argv[optind - 2] : argv[optind - 1];
}

/* Refuses a renamed long option, even if the old name abbreviates the new one: --max-new, --warmup. */
static int check_renamed(const cli_syntax *syntax, int code, char **argv) {
    const bool is_long = code == '?' || code == ':' ? !optopt || optopt >= LONG_OPTION : code >= LONG_OPTION;
    return is_long ? cli_check_renamed(syntax, last_given(argv)) : CLI_CONTINUE;
}

/* Number of options whose names have this prefix. */
static int begins_options(const cli_syntax *syntax, const char *start) {
    const size_t length = strcspn(start, "=");
    int count = strncmp("help", start, length) == 0;
    for (size_t i = 0; i < syntax->option_count; i++)
        count += strncmp(syntax->options[i].name, start, length) == 0;
    return count;
}

static void (*describe)(const cli_syntax *syntax);

const cli_command *cli_command_named(const cli_command *commands, const char *name) {
    const char *const known = strcmp(name, "attend") == 0 ? "attention" : name;
    const cli_command *c = commands;
    while (c->name && strcmp(known, c->name) != 0)
        c++;
    return c->name ? c : NULL;
}

int cli_run(const cli_command *commands, const cli_command *command, int argc, char **argv) {
    return command->run ? command->run(argc, argv) : command->run_of(commands, argc, argv);
}

void cli_describe(const cli_command *commands, void (*see)(const cli_syntax *syntax)) {
    describe = see;
    for (const cli_command *c = commands; c->name; c++)
        cli_run(commands, c, 1, (char *[]){(char *)(uintptr_t)c->name, NULL});
    describe = NULL;
}

/* Reports an unknown or ambiguous option. */
static int unknown_option(const cli_syntax *syntax, const char *given) {
    char word[64];
    snprintf(word, sizeof(word), "%.*s", (int)strcspn(given + 2, "="), given + 2);
    if (begins_options(syntax, given + 2) > 1)
        return cli_usage_error(syntax, "%s may be more than one option", given);
    cli_suggestion near = {.word = word};
    cli_suggest(&near, "help");
    for (size_t i = 0; i < syntax->option_count; i++)
        cli_suggest(&near, syntax->options[i].name);
    if (!near.name)
        return cli_usage_error(syntax, "there is no option %s", given);
    return cli_usage_error(syntax, "there is no option %s (did you mean --%s?)", given, near.name);
}

/* Reports an unexpected operand, most often a file of lines. */
static int unexpected_operand(const cli_syntax *syntax, const char *operand) {
    for (size_t i = 0; i < syntax->option_count; i++)
        if (strcmp(syntax->options[i].name, "input") == 0)
            return cli_usage_error(syntax, "unexpected argument '%s': to read lines from a file use -i %s", operand,
                                   operand);
    return cli_usage_error(syntax, "unexpected argument '%s'", operand);
}

int cli_parse(const cli_syntax *syntax, int argc, char **argv) {
    if (describe) {
        describe(syntax);
        return CLI_OK;
    }
    char letters[2 * (MAX_OPTIONS + CLI_ALIASES) + 3];
    struct option table[MAX_OPTIONS + CLI_ALIASES + 2];
    if (syntax->option_count > MAX_OPTIONS)
        return cli_fail("%s has %zu options, more than %d: this is a bug in tfm, please report it", syntax->name,
                        (size_t)syntax->option_count, MAX_OPTIONS);
    make_tables(syntax, letters, table);
    opterr = 0;
    optind = 1;
    for (int code; (code = getopt_long(argc, argv, letters, table, NULL)) != -1;) {
        if (code == 'h' || code == HELP)
            return print_help(syntax);
        int result = check_renamed(syntax, code, argv);
        if (result != CLI_CONTINUE)
            return result;
        if (code == ':')
            return cli_usage_error(syntax, "%s needs a value", argv[optind - 1]);
        if (code == '?' && optopt && optopt < LONG_OPTION)
            return cli_unknown_letter(syntax, optopt);
        if (code == '?' && optopt)
            return cli_usage_error(syntax, "%s: this option takes no value", argv[optind - 1]);
        if (code == '?')
            return unknown_option(syntax, argv[optind - 1]);
        result = set_value(syntax, find_option(syntax, code), optarg);
        if (result != CLI_CONTINUE)
            return result;
    }
    const int required = syntax->operand != NULL;
    if (argc - optind < required)
        return cli_usage_error(
            syntax, strchr(syntax->operand, '|') ? "give one of %s; usage: tfm %s" : "no %s is given; usage: tfm %s",
            syntax->operand, syntax->usage);
    if (argc - optind > required && !syntax->more)
        return unexpected_operand(syntax, argv[optind + required]);
    return CLI_CONTINUE;
}

/* ---- Devices --------------------------------------------------------------------------------------------- */

tfm_status cli_open_fleet(tfm_fleet **out, const char *devices, int workers) {
    return tfm_fleet_open(out, &(tfm_fleet_options){.devices = devices, .workers = workers, .on_build = cli_on_build});
}

int cli_check_model(const tfm_model_info *info, const char *dir, bool translates, const char *otherwise) {
    const bool encodes = info->encoder_layers > 0;
    if (info->decoder_layers == 0)
        return cli_fail("%s is an encoder-only model (%s): use tfm embed", dir, info->family);
    if (encodes != translates)
        return cli_fail("%s is %s model (%s): use %s", dir, encodes ? "an encoder-decoder" : "a decoder-only",
                        info->family, otherwise);
    return info->has_lm_head ? CLI_OK : cli_fail("%s has no output projection (%s): use tfm embed", dir, info->family);
}

double cli_build_seconds(const tfm_fleet *fleet) {
    double most = 0;
    const tfm_fleet_member *member;
    for (size_t i = 0; (member = tfm_fleet_get_member(fleet, i)); i++) {
        const double seconds = tfm_context_build_seconds(member->context);
        most = seconds > most ? seconds : most;
    }
    return most;
}
