/* The log. */
#include <stdlib.h>
#include <time.h>
#include "serve/request.h"
#include "serve/server.h"

void serve_log_request(const serve_request *r) {
    const serve_job *job = r->job;
    struct timespec now;
    struct tm parts;
    char when[40];
    if (r->server->options->quiet)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &parts);
    const double end = job && job->ended > 0 ? job->ended : cli_seconds();
    const double began = job && job->began > 0 ? job->began : end;
    /* No text of the client except the method, and the path if it exists. */
    json_t *line = json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:f, s:f, s:f}", "time", when, "client", r->client,
                             "method", r->route ? r->method : "?", "path", r->route ? r->route->path : "?", "status",
                             r->code, "lines", (json_int_t)r->lines, "bytes", (json_int_t)r->sent, "wait",
                             job && job->arrived > 0 ? began - job->arrived : 0.0, "work", job ? end - began : 0.0,
                             "seconds", cli_seconds() - r->start);
    cli_write_json(&(cli_output){.file = stderr}, line, 6);
}
