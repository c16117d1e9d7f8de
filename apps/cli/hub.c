/* Names of the Hugging Face hub: local paths, and downloads with a progress bar. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <tfm/hub.h>
#include "cli/cli.h"

/* Paths stay valid until the program ends. */
static char *keep(char *path) {
    static char **paths;
    static size_t count, room;
    if (cli_grow(&paths, &room, count + 1, sizeof(*paths)))
        paths[count++] = path;
    return path;
}

int cli_find_model(const char **model) {
    char *path = NULL;
    if (tfm_hub_find(&path, *model) != TFM_OK)
        return cli_fail_library();
    *model = keep(path);
    return CLI_CONTINUE;
}

const char *cli_bytes_text(char *text, size_t room, uint64_t bytes) {
    const double value = (double)bytes;
    if (value < 1e6)
        snprintf(text, room, "%.1f kB", value / 1e3);
    else if (value < 1e9)
        snprintf(text, room, "%.1f MB", value / 1e6);
    else
        snprintf(text, room, "%.2f GB", value / 1e9);
    return text;
}

/* ---- Download ------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
    (void)number;
    interrupted = 1;
}

typedef struct download {
    const char *name;
    double began, said; /* the first report with bytes; the last line without a terminal */
    uint64_t first;     /* bytes at `began`, from earlier downloads */
} download;

static const char *time_text(char text[24], double seconds) {
    const int s = seconds < 359999 ? (int)ceil(seconds) : 359999;
    if (s >= 3600)
        snprintf(text, 24, "%d:%02d:%02d left", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, 24, "%d:%02d left", s / 60, s % 60);
    return text;
}

static void show_bar(const download *d, const tfm_hub_progress *p, double rate) {
    enum { WIDTH = 20 };
    static const char FULL[] = "[####################]";
    char bar[sizeof(FULL)], percent[16], sizes[64], speed[40], left[24] = "", done[24], total[24], pace[24];
    const double part = p->total_bytes ? (double)p->bytes / (double)p->total_bytes : 0;
    const size_t full = part < 1 ? (size_t)(part * WIDTH) : WIDTH;
    memcpy(bar, FULL, sizeof(bar));
    memset(bar + 1 + full, ' ', WIDTH - full);
    snprintf(percent, sizeof(percent), "%3.0f%%", 100 * part);
    snprintf(sizes, sizeof(sizes), "%s of %s", cli_bytes_text(done, sizeof(done), p->bytes),
             cli_bytes_text(total, sizeof(total), p->total_bytes));
    snprintf(speed, sizeof(speed), "%s/s", cli_bytes_text(pace, sizeof(pace), (uint64_t)rate));
    if (rate > 0 && p->bytes <= p->total_bytes)
        time_text(left, (double)(p->total_bytes - p->bytes) / rate);
    const char *slash = strrchr(d->name, '/');
    const cli_field fields[] = {
        {slash ? slash + 1 : d->name, 3}, {bar, 2}, {percent, 0}, {sizes, 0}, {speed, 1}, {left, 1}};
    cli_progress_fields(fields, CLI_COUNT(fields));
}

static bool on_progress(void *user, const tfm_hub_progress *p) {
    enum { INTERVAL = 10 }; /* seconds between lines without a terminal */
    download *d = user;
    char done[24], total[24];
    const double now = cli_seconds();
    if (!d->began && p->total_bytes) {
        d->began = d->said = now;
        d->first = p->bytes;
    }
    const double rate = now > d->began + 0.2 ? (double)(p->bytes - d->first) / (now - d->began) : 0;
    const bool terminal = isatty(STDERR_FILENO);
    if (terminal && p->total_files)
        show_bar(d, p, rate);
    if (!terminal && (p->finished || (d->began && now > d->said + INTERVAL))) {
        d->said = now;
        fprintf(stderr, "tfm: %zu of %zu files, %s of %s%s%s\n", p->files, p->total_files,
                cli_bytes_text(done, sizeof(done), p->bytes), cli_bytes_text(total, sizeof(total), p->total_bytes),
                p->finished ? ": " : "", p->finished ? p->finished : "");
    }
    return !interrupted;
}

int cli_pull(const char **path, const char *name, const char *revision, int workers) {
    static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction before[CLI_COUNT(SIGNALS)], action = {.sa_handler = on_signal};
    download d = {.name = name};
    char *found = NULL;
    const tfm_hub_options options = {
        .revision = revision, .progress = on_progress, .progress_user = &d, .max_workers = workers};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < CLI_COUNT(SIGNALS); i++)
        if (sigaction(SIGNALS[i], NULL, &before[i]) == 0 && before[i].sa_handler != SIG_IGN)
            sigaction(SIGNALS[i], &action, NULL);
    const tfm_status status = tfm_hub_pull(&found, name, &options);
    for (size_t i = 0; i < CLI_COUNT(SIGNALS); i++)
        sigaction(SIGNALS[i], &before[i], NULL);
    cli_progress(NULL);
    if (status != TFM_OK)
        return cli_fail_library();
    *path = keep(found);
    return CLI_CONTINUE;
}
