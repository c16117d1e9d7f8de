/* tfm devices: lists the OpenCL devices. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"

static const char *const TYPES[] = {
    [TFM_DEVICE_CPU] = "cpu",
    [TFM_DEVICE_GPU] = "gpu",
    [TFM_DEVICE_ACCELERATOR] = "accel",
    [TFM_DEVICE_OTHER] = "other",
};

static json_t *to_json(const tfm_device_info *d) {
    json_t *row =
        json_pack("{s:i, s:i, s:i, s:s, s:s, s:s, s:s, s:s, s:s}", "index", d->index, "platform_index",
                  d->platform_index, "device_index", d->device_index, "platform", d->platform, "name", d->name,
                  "vendor", d->vendor, "type", TYPES[d->type], "driver", d->driver, "opencl", d->opencl);
    json_t *more = json_pack("{s:i, s:I, s:I, s:b, s:b, s:b}", "compute_units", (int)d->compute_units, "memory_bytes",
                             (json_int_t)d->memory_bytes, "max_alloc_bytes", (json_int_t)d->max_alloc_bytes, "fp16",
                             d->fp16, "compiler", d->compiler, "chosen", d->chosen);
    json_object_update(row, more);
    json_decref(more);
    if (d->error[0])
        json_object_set_new(row, "error", json_string(d->error));
    return row;
}

static int print_json(const tfm_device_info *devices, size_t count) {
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(all, to_json(&devices[i]));
    cli_print_json(all);
    return CLI_OK;
}

/* Names the platforms without devices. */
static void print_empty(const tfm_device_info *devices, size_t count) {
    const char *before = "\n";
    size_t empty = 0;
    for (size_t i = 0; i < count; i++)
        if (devices[i].device_index < 0) {
            printf("%s%s", before, devices[i].platform);
            before = ", ";
            empty++;
        }
    if (empty > 0)
        printf(empty == 1 ? " shows no device: see tfm devices --verbose\n"
                          : " show no devices: see tfm devices --verbose\n");
}

/* Platforms without devices have rows if requested, or if there is no device at all. */
static int print_table(const tfm_device_info *devices, size_t count, bool verbose) {
    size_t shown = 0;
    for (size_t i = 0; i < count; i++)
        shown += devices[i].device_index >= 0;
    const bool all = verbose || shown == 0;
    printf("  %5s  %-8s  %-5s  %5s  %9s  %s\n", "index", "platform", "type", "units", "memory", "device (platform)");
    for (size_t i = 0; i < count; i++) {
        enum { BELOW = 9 };
        const tfm_device_info *d = &devices[i];
        if (d->device_index < 0 && !all)
            continue;
        char place[32], name[sizeof(d->name) + sizeof(d->platform) + 4], sentence[sizeof(d->error) + 32];
        snprintf(place, sizeof(place), "%d:%d", d->platform_index, d->device_index);
        snprintf(name, sizeof(name), "%s (%s)", d->device_index < 0 ? "none" : d->name, d->platform);
        const int column = d->device_index < 0
                               ? printf("  %5s  %-8d  %-5s  %5s  %9s  ", "-", d->platform_index, "-", "-", "-")
                               : printf("%c %5d  %-8s  %-5s  %5u  %5.1f GiB  ", d->chosen ? '*' : ' ', d->index, place,
                                        TYPES[d->type], d->compute_units, (double)d->memory_bytes / (1 << 30));
        cli_print_wrapped(stdout, column, column, name);
        snprintf(sentence, sizeof(sentence), "%s%s", d->device_index < 0 ? "" : "cannot be used: ", d->error);
        if (d->error[0])
            cli_print_wrapped_to(stdout, 79, printf("%*s", BELOW, ""), BELOW, sentence);
    }
    if (!all)
        print_empty(devices, count);
    return CLI_OK;
}

static bool any_chosen(const tfm_device_info *devices, size_t count) {
    size_t i = 0;
    while (i < count && !devices[i].chosen)
        i++;
    return i < count;
}

int cmd_devices(int argc, char **argv) {
    bool json = false, verbose = false;
    const cli_option options[] = {
        {0, "json", CLI_FLAG, &json, NULL, "write an array of JSON objects instead of a table", NULL},
        {0, "verbose", CLI_FLAG, &verbose, NULL, "show the reason for each platform without devices", NULL}};
    const cli_syntax syntax = {
        .name = "devices",
        .usage = "devices [--json] [--verbose]",
        .about = "Lists the devices of all OpenCL platforms. A star marks the default device:\n"
                 "the one that TFM_DEVICE selects if it is set, else the best by rank:\n"
                 "discrete GPU, integrated GPU, accelerator, CPU, emulator. A platform without\n"
                 "devices has a row with the reason in --json and with --verbose.\n",
        .examples = "  tfm devices\n  TFM_DEVICE=nvidia tfm devices\n  tfm devices --json | jq '.[] | "
                    "select(.chosen).name'\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_CONTINUE)
        return code;
    tfm_device_info *devices = NULL;
    size_t count = 0;
    if (tfm_devices_list(&devices, &count) != TFM_OK)
        return cli_fail_library();
    code = json ? print_json(devices, count) : print_table(devices, count, verbose);
    const char *wanted = getenv("TFM_DEVICE");
    if (wanted && wanted[0] && !any_chosen(devices, count))
        fprintf(stderr, "tfm: TFM_DEVICE is \"%.100s\", which selects no usable device\n", wanted);
    tfm_devices_free(&devices);
    return code;
}
