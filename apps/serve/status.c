/* Metrics for Prometheus, and the status for the web page. */
#include <stdlib.h>
#include <string.h>
#include "serve/request.h"
#include "serve/server.h"

/* Bytes of a label: a name, of which every byte may be escaped. */
enum { LABEL = 2 * sizeof(((serve_model *)NULL)->name) + 16 };

/* ---- Prometheus ------------------------------------------------------------------------------------------------ */

static void head(FILE *out, const char *name, const char *type, const char *help) {
    fprintf(out, "# HELP tfm_%s %s\n# TYPE tfm_%s %s\n", name, help, name, type);
}

static void number(FILE *out, const char *name, const char *type, const char *help, double value) {
    head(out, name, type, help);
    fprintf(out, "tfm_%s %.15g\n", name, value);
}

static void counter(FILE *out, const char *name, const char *help, const atomic_ullong *value) {
    number(out, name, "counter", help, (double)atomic_load(value));
}

static void histogram(FILE *out, const char *name, const char *help, const serve_histogram *h) {
    char whole[64];
    head(out, name, "histogram", help);
    snprintf(whole, sizeof(whole), "tfm_%s", name);
    serve_histogram_write(out, whole, "", h);
}

/* The label of a model: its name, escaped. */
static void label_of(char out[LABEL], const serve_model *m) {
    out += sprintf(out, "model=\"");
    for (const char *at = m->name; *at; at++) {
        if (*at == '"' || *at == '\\' || *at == '\n')
            *out++ = '\\';
        *out++ = *at;
        if (*at == '\n')
            out[-1] = 'n';
    }
    strcpy(out, "\"");
}

static unsigned long long one_if_loaded(serve_model *m) {
    return serve_model_loaded(m) > 0;
}

static unsigned long long workers_of(serve_model *m) {
    return (unsigned long long)serve_model_loaded(m);
}

static unsigned long long source_tokens_of(serve_model *m) {
    return atomic_load(&m->counters->source_tokens);
}

static unsigned long long target_tokens_of(serve_model *m) {
    return atomic_load(&m->counters->target_tokens);
}

static unsigned long long cached_tokens_of(serve_model *m) {
    return atomic_load(&m->counters->cached_tokens);
}

static unsigned long long steps_of(serve_model *m) {
    return atomic_load(&m->counters->steps);
}

static unsigned long long step_texts_of(serve_model *m) {
    return atomic_load(&m->counters->step_texts);
}

static unsigned long long drafted_tokens_of(serve_model *m) {
    return atomic_load(&m->counters->drafted_tokens);
}

static unsigned long long accepted_tokens_of(serve_model *m) {
    return atomic_load(&m->counters->accepted_tokens);
}

/* One value for each model. */
static void per_model(FILE *out, const server *s, const char *name, const char *type, const char *help,
                      unsigned long long (*value)(serve_model *)) {
    char label[LABEL];
    head(out, name, type, help);
    for (size_t i = 0; i < s->models.count; i++) {
        label_of(label, s->models.items[i]);
        fprintf(out, "tfm_%s{%s} %llu\n", name, label, value(s->models.items[i]));
    }
}

static void queue_of_models(FILE *out, server *s) {
    size_t *counts = calloc(s->models.count + 1, sizeof(*counts));
    char label[LABEL];
    if (!counts)
        return;
    serve_queue_count_lines(s, counts);
    head(out, "queue_lines", "gauge", "Lines, sentences or prompts waiting.");
    for (size_t i = 0; i < s->models.count; i++) {
        label_of(label, s->models.items[i]);
        fprintf(out, "tfm_queue_lines{%s} %zu\n", label, counts[i]);
    }
    free(counts);
}

/* Latencies of the decoder-only models. */
static void latencies(FILE *out, const server *s, const char *name, const char *help, bool first) {
    char label[LABEL], whole[64];
    head(out, name, "histogram", help);
    snprintf(whole, sizeof(whole), "tfm_%s", name);
    for (size_t i = 0; i < s->models.count; i++) {
        const serve_model *m = s->models.items[i];
        if (m->task != SERVE_GENERATE)
            continue;
        label_of(label, m);
        serve_histogram_write(out, whole, label, first ? &m->counters->first_token : &m->counters->inter_token);
    }
}

static void write_all(FILE *out, server *s) {
    const serve_counters *c = &s->counters;
    head(out, "answers_total", "counter", "Answers, by the first digit of their status.");
    for (int i = 1; i < 6; i++)
        fprintf(out, "tfm_answers_total{class=\"%dxx\"} %llu\n", i, atomic_load(&c->classes[i]));
    counter(out, "lines_total", "Lines or sentences processed by a model.", &c->lines);
    counter(out, "admitted_total", "Lines or sentences admitted to a running batch.", &c->admitted);
    per_model(out, s, "source_tokens_total", "counter", "Source and prompt tokens.", source_tokens_of);
    per_model(out, s, "target_tokens_total", "counter", "Generated tokens.", target_tokens_of);
    per_model(out, s, "cached_tokens_total", "counter", "Prompt tokens found in the KV cache.", cached_tokens_of);
    per_model(out, s, "decode_steps_total", "counter", "Decoding steps of language models.", steps_of);
    per_model(out, s, "decode_step_texts_total", "counter", "Texts in these steps: batch occupancy is texts by steps.",
              step_texts_of);
    per_model(out, s, "spec_decode_num_draft_tokens_total", "counter", "Draft tokens of prompt lookup.",
              drafted_tokens_of);
    per_model(out, s, "spec_decode_num_accepted_tokens_total", "counter", "Accepted draft tokens.", accepted_tokens_of);
    counter(out, "batches_total", "Batches started; lines may be admitted later.", &c->batches);
    counter(out, "dropped_total", "Requests dropped because the client disconnected while waiting.", &c->dropped);
    counter(out, "refused_total", "Requests refused by a limit of the queue.", &c->refused);
    counter(out, "expired_total", "Requests that waited too long.", &c->expired);
    counter(out, "model_loads_total", "Models loaded.", &c->loads);
    counter(out, "model_drops_total", "Models unloaded for others, or unused.", &c->drops);
    number(out, "work_seconds_total", "counter", "Time of batches, sum over workers.",
           1e-6 * (double)atomic_load(&c->work_micros));
    number(out, "queue_requests", "gauge", "Requests waiting or in progress.", (double)serve_queue_waiting(s));
    queue_of_models(out, s);
    number(out, "open_requests", "gauge", "Unanswered requests.", atomic_load(&s->requests));
    number(out, "uptime_seconds", "gauge", "Time since the server started.", cli_seconds() - s->started);
    per_model(out, s, "model_loaded", "gauge", "Whether a model is loaded.", one_if_loaded);
    per_model(out, s, "model_workers", "gauge", "Workers that have a model loaded.", workers_of);
    per_model(out, s, "model_memory_bytes", "gauge", "Peak device memory of a loaded model.", serve_model_memory);
    histogram(out, "request_seconds", "Time from a request's header to the end of its reply.", &c->seconds);
    histogram(out, "wait_seconds", "Time that requests waited for the device.", &c->waits);
    latencies(out, s, "time_to_first_token_seconds", "Time from a request to the first token of each text.", true);
    latencies(out, s, "inter_token_latency_seconds", "Time between the tokens of a text.", false);
}

bool serve_metrics(serve_request *r, serve_reply *reply) {
    serve_reply page = {.code = MHD_HTTP_OK, .type = "text/plain; version=0.0.4; charset=utf-8"};
    FILE *out = open_memstream(&page.body, &page.bytes);
    if (out) {
        write_all(out, r->server);
        fclose(out);
    }
    *reply = page.body ? page : serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the metrics");
    return false;
}

/* ---- Status for the page --------------------------------------------------------------------------------------- */

bool serve_status(serve_request *r, serve_reply *reply) {
    server *s = r->server;
    const double seconds = 1e-6 * (double)atomic_load(&s->counters.work_micros);
    const double lines = (double)atomic_load(&s->counters.lines);
    const char *device = s->options->device ? s->options->device : "";
    json_t *models = json_array();
    for (size_t i = 0; i < s->models.count; i++) {
        serve_model *m = s->models.items[i];
        json_array_append_new(models, json_pack("{s:s, s:s, s:b, s:b}", "name", m->name, "task",
                                                m->task == SERVE_TRANSLATE ? "translate"
                                                : m->task == SERVE_EMBED   ? "embed"
                                                                           : "generate",
                                                "loaded", serve_model_loaded(m) > 0, "chat", (int)serve_has_chat(m)));
    }
    pthread_mutex_lock(&s->lock);
    json_t *name = json_string(*s->device ? s->device : device);
    pthread_mutex_unlock(&s->lock);
    *reply = serve_reply_json(MHD_HTTP_OK,
                              json_pack("{s:s, s:o, s:f, s:o}", "version", tfm_version(), "device", name,
                                        "lines_per_second", seconds > 0 ? lines / seconds : 0.0, "models", models));
    return false;
}
