/* tfm devices: what there is to run on. */
#include <inttypes.h>
#include <jansson.h>
#include "cli.h"

static const char *const TYPES[] = {
    [TFM_DEVICE_CPU] = "cpu",
    [TFM_DEVICE_GPU] = "gpu",
    [TFM_DEVICE_ACCELERATOR] = "accel",
    [TFM_DEVICE_OTHER] = "other",
};

static json_t *to_json(const tfm_device_info *d) {
    json_t *row = json_pack("{s:i, s:i, s:i, s:s, s:s, s:s, s:s, s:s, s:s}", "index", d->index,
                            "platform_index", d->platform_index, "device_index", d->device_index, "platform",
                            d->platform, "name", d->name, "vendor", d->vendor, "type", TYPES[d->type],
                            "driver", d->driver, "opencl", d->opencl);
    json_t *more =
        json_pack("{s:i, s:I, s:I, s:b, s:b, s:b}", "compute_units", (int)d->compute_units, "memory_bytes",
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
    json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
    return CLI_OK;
}

static int print_table(const tfm_device_info *devices, size_t count) {
    printf("  %5s  %-8s  %-5s  %5s  %9s  %-32s  %s\n", "index", "platform", "type", "units", "memory",
           "platform name", "device");
    for (size_t i = 0; i < count; i++) {
        const tfm_device_info *d = &devices[i];
        char place[32];
        snprintf(place, sizeof(place), "%d:%d", d->platform_index, d->device_index);
        if (d->device_index < 0) {
            printf("  %5s  %-8d  %-5s  %5s  %9s  %-32s  cannot be listed: %s\n", "-", d->platform_index, "-",
                   "-", "-", d->platform, d->error);
            continue;
        }
        printf("%c %5d  %-8s  %-5s  %5u  %5.1f GiB  %-32s  %s%s%s\n", d->chosen ? '*' : ' ', d->index, place,
               TYPES[d->type], d->compute_units, (double)d->memory_bytes / (1 << 30), d->platform, d->name,
               d->error[0] ? ", cannot be used: " : "", d->error);
    }
    return CLI_OK;
}

int cmd_devices(int argc, char **argv) {
    bool json = false;
    const cli_option options[] = {
        {0, "json", CLI_FLAG, &json, NULL, "an array of objects instead of a table", NULL}};
    const cli_syntax syntax = {
        .name = "devices",
        .usage = "devices [--json]",
        .about = "Lists the devices of all OpenCL platforms. A star marks the one that is taken now:\n"
                 "by TFM_DEVICE if it is set, else by rank: discrete GPU, integrated GPU,\n"
                 "accelerator, CPU. A platform that fails to list is a row with its error.\n",
        .examples = "  tfm devices\n  TFM_DEVICE=nvidia tfm devices\n  tfm devices --json | jq '.[] | "
                    "select(.chosen).name'\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_GO)
        return code;
    tfm_device_info *devices = NULL;
    size_t count = 0;
    if (tfm_devices_list(&devices, &count) != TFM_OK)
        return cli_fail_library();
    code = json ? print_json(devices, count) : print_table(devices, count);
    tfm_devices_free(&devices);
    return code;
}
