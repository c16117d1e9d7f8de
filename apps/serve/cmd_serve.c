/* tfm serve: translation, embeddings, reranking and text generation over HTTP. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <tfm/hub.h>
#include <tfm/text.h>
#include "serve/server.h"

/* Intervals of the watch thread and of malloc_trim, and the time limit for sending answers at shutdown. */
enum { WATCH_MS = 100, TRIM_SECONDS = 10, LEAVE_SECONDS = 5 };

/* ---- The threads ----------------------------------------------------------------------------------------------- */

static atomic_bool watching;

/* Free pages between used blocks stay resident: PoCL's buffers for batches of all shapes leave 40 MB of them within ten
 * minutes. */
static void trim(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

static void *watch(void *user) {
    server *s = user;
    double next = cli_seconds() + TRIM_SECONDS;
    while (atomic_load(&watching)) {
        nanosleep(&(struct timespec){.tv_nsec = WATCH_MS * 1000000L}, NULL);
        serve_connections_expire(s);
        serve_queue_expire(s);
        serve_files_expire(s, s->options->limits.file_seconds);
        serve_models_free_replaced(s);
        if (cli_seconds() < next)
            continue;
        trim();
        next = cli_seconds() + TRIM_SECONDS;
    }
    return NULL;
}

/* Waits for a signal to end, with a timeout; false after the timeout. */
static bool wait_signal(const sigset_t *signals, double seconds) {
    const struct timespec most = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    const int got = sigtimedwait(signals, NULL, &most);
    return got > 0 && got != SIGHUP;
}

/* Waits for a signal to end. SIGHUP opens the models again, unless it says that the terminal was closed. */
static void serve_until_signal(server *s, const sigset_t *signals) {
    siginfo_t info;
    for (;;) {
        const int got = sigwaitinfo(signals, &info);
        if (got == SIGHUP && info.si_code != SI_KERNEL)
            serve_reload(s);
        else if (got > 0)
            return;
    }
}

/* Stops new requests and answers pending ones, unless a second signal comes. */
static void drain(server *s, const sigset_t *signals) {
    const double start = cli_seconds();
    pthread_mutex_lock(&s->lock);
    s->draining = true;
    pthread_mutex_unlock(&s->lock);
    serve_http_quiesce(s);
    while (serve_queue_waiting(s) > 0 && cli_seconds() - start < s->options->limits.seconds)
        if (wait_signal(signals, 0.02))
            break;
}

/* Waits until all answers are sent, including errors about the shutdown. */
static void leave(server *s, const sigset_t *signals) {
    const double start = cli_seconds();
    while (atomic_load(&s->requests) > 0 && cli_seconds() - start < LEAVE_SECONDS)
        if (wait_signal(signals, 0.02))
            break;
}

/* Ends the workers; waiting jobs fail, and their connections resume. */
static void end_workers(server *s) {
    pthread_mutex_lock(&s->lock);
    s->ending = true;
    for (serve_job *job = s->first; job; job = job->next)
        serve_job_stop(job, SERVE_SHUTTING_DOWN);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->worker_count; i++)
        pthread_join(s->workers[i].thread, NULL);
    serve_queue_expire(s);
}

/* Number of workers: by the options, or the maximum of a model; one with a memory limit or several devices. Fewer if
 * threads cannot be created. */
static bool start_workers(server *s) {
    const bool one = s->devices > 1 || (!s->options->workers && s->options->limits.memory);
    const int asked = one ? 1 : s->options->workers ? s->options->workers : 2;
    for (int i = 0; i < asked; i++) {
        serve_worker *w = &s->workers[i];
        *w = (serve_worker){.server = s, .number = i};
        if (pthread_create(&w->thread, NULL, serve_worker_run, w) != 0)
            break;
        s->worker_count++;
    }
    return s->worker_count > 0;
}

/* Checks the devices at start; models are loaded at their first request. */
static int try_devices(server *s) {
    tfm_fleet *fleet = NULL;
    const int code = cli_open_fleet(&fleet, s->options->device, 1) == TFM_OK ? CLI_OK : cli_fail_library();
    s->devices = tfm_fleet_count(fleet);
    tfm_fleet_free(&fleet);
    return code;
}

/* One line: the models, and where. Scripts expect the address at its end. */
static void print_start(const server *s) {
    const serve_options *o = s->options;
    const bool six = strchr(o->host, ':') != NULL;
    flockfile(stderr);
    fputs("tfm: serving ", stderr);
    for (size_t i = 0; i < s->models.count; i++)
        fprintf(stderr, "%s%s", i > 0 ? ", " : "", s->models.items[i]->name);
    fprintf(stderr, ", listening on %s://%s%s%s:%d/\n", o->certificate ? "https" : "http", six ? "[" : "", o->host,
            six ? "]" : "", o->port);
    funlockfile(stderr);
}

static int run_threads(server *s, const sigset_t *signals) {
    pthread_t watcher;
    int code = try_devices(s);
    if (code != CLI_OK)
        return code;
    atomic_store(&watching, true);
    if (!start_workers(s))
        return cli_fail("the system cannot create another thread");
    const bool watched = pthread_create(&watcher, NULL, watch, s) == 0;
    code = watched ? serve_http_start(s) : cli_fail("the system cannot create another thread");
    if (code == CLI_OK) {
        print_start(s);
        serve_until_signal(s, signals);
        drain(s, signals);
    }
    end_workers(s);
    if (code == CLI_OK)
        leave(s, signals);
    atomic_store(&watching, false);
    if (watched)
        pthread_join(watcher, NULL);
    if (s->daemon)
        serve_http_stop(s);
    return code;
}

static int run(serve_options *o, const cli_syntax *syntax) {
    static server s; /* large, a single instance */
    sigset_t signals;
    s.options = o;
    s.last = &s.first;
    s.started = cli_seconds();
    s.started_at = (int64_t)time(NULL);
    pthread_mutex_init(&s.lock, NULL);
    pthread_mutex_init(&s.http, NULL);
    pthread_mutex_init(&s.connections_lock, NULL);
    pthread_cond_init(&s.work, NULL);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* only this thread handles them, not even the drivers' threads */
    int code = serve_models_read(&s.models, o, syntax);
    if (code == CLI_OK)
        code = cli_keep(&o->placeholders, &o->keep, syntax);
    if (code == CLI_OK)
        code = run_threads(&s, &signals);
    tfm_placeholders_free(&o->placeholders);
    serve_models_free(&s.models);
    serve_files_expire(&s, 0);
    for (serve_client *c = s.clients, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    return code;
}

/* ---- The command ----------------------------------------------------------------------------------------------- */

static int check(serve_options *o, const cli_syntax *syntax) {
    serve_limits *l = &o->limits;
    o->host = o->host ? o->host : "127.0.0.1";
    l->chars = l->chars ? l->chars : 50000;
    l->lines = l->lines ? l->lines : 1000;
    l->queue = l->queue ? l->queue : 10000;
    l->client = l->client ? l->client : l->queue < 4 ? l->queue : l->queue / 2;
    l->seconds = l->seconds ? l->seconds : 60;
    l->file_seconds = l->file_seconds ? l->file_seconds : 1800;
    l->connections = l->connections ? l->connections : 1000;
    l->alternatives = 8;
    l->max_new_tokens = l->max_new_tokens ? l->max_new_tokens : 1024;
    o->search.length_norm = (tfm_length_norm)o->penalty;
    if (o->port > 65535)
        return cli_usage_error(syntax, "--port is %d: give 0 to 65535", o->port);
    if (l->chars > 100000000)
        return cli_usage_error(syntax, "--max-chars is %d: give at most 100000000", l->chars);
    if (!o->certificate != !o->certificate_key)
        return cli_usage_error(syntax, "--tls-cert and --tls-key go together: give both, or neither");
    if (o->certificate && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return cli_usage_error(syntax, "this libmicrohttpd has no TLS: leave --tls-cert out, or use a proxy");
    if (o->drafts > SERVE_DRAFTS)
        return cli_usage_error(syntax, "--prompt-lookup-num-tokens is %d: give 1 to %d", o->drafts, SERVE_DRAFTS);
    if (o->workers > SERVE_WORKERS)
        return cli_usage_error(syntax, "--workers is %d: give 1 to %d", o->workers, SERVE_WORKERS);
    if (o->workers > 1 && l->memory)
        return cli_usage_error(syntax,
                               "--workers %d and --memory-limit do not go together: models are dropped and loaded by "
                               "one worker",
                               o->workers);
    if (o->preload && l->memory)
        return cli_usage_error(syntax,
                               "--preload and --memory-limit do not go together: models would be unloaded again");
    for (size_t i = 0; i < o->models.count; i++) {
        const char *equals = strchr(o->models.items[i], '='), *path = equals ? equals + 1 : o->models.items[i];
        if (!*path || equals == o->models.items[i])
            return cli_usage_error(syntax, "-m is '%s': give %s", o->models.items[i], equals ? "NAME=MODEL" : "MODEL");
    }
    return cli_check_search(syntax, o->search.beam_size, o->search.length_penalty);
}

/* Downloads models of --model that are not on this machine. */
static int pull_models(const serve_options *o) {
    int code = CLI_OK;
    for (size_t i = 0; i < o->models.count && code == CLI_OK; i++) {
        const char *equals = strchr(o->models.items[i], '='), *name = equals ? equals + 1 : o->models.items[i], *path;
        char *found = NULL;
        if (tfm_hub_find(&found, name) != TFM_OK && (code = cli_pull(&path, name, NULL, 0)) == CLI_CONTINUE)
            code = CLI_OK;
        tfm_text_free(&found);
    }
    return code;
}

int cmd_serve(int argc, char **argv) {
    serve_options o = {.port = 5000, .keys.lines.fd = -1};
    serve_limits *l = &o.limits;
    const cli_option options[] = {
        {'m', "model", CLI_LIST, &o.models, "[NAME=]MODEL",
         "a model's directory or name on the Hugging Face hub, repeatable; NAME of a translation model is its "
         "languages, as in de-en=MODEL, needed if its directory does not state them",
         NULL},
        {0, "pull", CLI_FLAG, &o.pull, NULL,
         "download models that are neither local nor in the cache from the Hugging Face hub", NULL},
        {0, "preload", CLI_FLAG, &o.preload, NULL,
         "open the models at start instead of at their first request; /ready answers 503 until then", NULL},
        {0, "host", CLI_STRING, &o.host, "ADDRESS",
         "listen on this address; 0.0.0.0 is every IPv4 address (default 127.0.0.1)", NULL},
        {'p', "port", CLI_NONNEGATIVE, &o.port, "N", "listen on this port; 0 is any free port (default 5000)", NULL},
        {0, "api-key", CLI_LIST, &o.given_keys, "KEY",
         "require this key, repeatable; other users of the machine can see it", NULL},
        {0, "api-keys", CLI_STRING, &o.keys_file, "FILE",
         "require one of the keys in this file: KEY [REQUESTS [CHARACTERS]] a line, its maximum requests per minute, "
         "and "
         "characters of a request",
         NULL},
        {0, "allow-origin", CLI_STRING, &o.origin, "ORIGIN",
         "allow pages of this origin (CORS), as in https://example.org; * is any", NULL},
        {0, "tls-cert", CLI_STRING, &o.certificate, "FILE", "serve HTTPS with this certificate (PEM)", NULL},
        {0, "tls-key", CLI_STRING, &o.certificate_key, "FILE", "the private key of the certificate (PEM)", NULL},
        {0, "max-chars", CLI_POSITIVE, &l->chars, "N", "maximum characters of a request (default 50000)", NULL},
        {0, "max-lines", CLI_POSITIVE, &l->lines, "N", "maximum lines of a request (default 1000)", NULL},
        {0, "max-queue", CLI_POSITIVE, &l->queue, "N", "maximum waiting lines; more get 503 (default 10000)", NULL},
        {0, "max-client", CLI_POSITIVE, &l->client, "N",
         "maximum waiting lines of one address or key; more get 429 (default: half of --max-queue)", NULL},
        {0, "max-connections", CLI_POSITIVE, &l->connections, "N", "maximum connections at a time (default 1000)",
         NULL},
        {0, "max-new-tokens", CLI_POSITIVE, &l->max_new_tokens, "N",
         "maximum tokens that a request may generate (default 1024)", NULL},
        {0, "timeout", CLI_POSITIVE, &l->seconds, "SECONDS",
         "time limit for a request to arrive, and to be answered (default 60)", NULL},
        {0, "file-ttl", CLI_POSITIVE, &l->file_seconds, "SECONDS",
         "time that a translated file can be downloaded (default 1800)", NULL},
        {0, "idle-timeout", CLI_POSITIVE, &l->idle_seconds, "SECONDS",
         "unload a model that has been unused for so long; the next request loads it again (default: never)", NULL},
        {0, "memory-limit", CLI_POSITIVE, &l->memory, "MIB",
         "device memory for models: the least recently used ones are unloaded (default: no limit)", NULL},
        {'q', "quiet", CLI_FLAG, &o.quiet, NULL, "do not log requests", NULL},
        {0, "workers", CLI_POSITIVE, &o.workers, "N",
         "batches in flight on a device, 1 to 4 (default: 1; 2 on one CPU with a small model that is no "
         "language model)",
         NULL},
        CLI_KEEP(&o.keep),
        CLI_SEARCH(o.search, o.text, o.penalty, o.precision),
        CLI_KV_PRECISION(o.precision.kv),
        CLI_CTX_SIZE(o.ctx_size),
        {0, "prompt-lookup-num-tokens", CLI_POSITIVE, &o.drafts, "N",
         "verify up to N tokens (at most 15) in a step where a text repeats itself or its prompt, unless the request "
         "gives its number; on CPUs 3 is the fastest (default: none)",
         NULL},
        CLI_DEVICES(&o.device),
    };
    const cli_syntax syntax = {
        .name = "serve",
        .usage = "serve -m [NAME=]MODEL... [option...]",
        .about = "Serves models over HTTP until SIGTERM or SIGINT, then answers pending requests\n"
                 "and ends. SIGHUP opens the models and the file of keys again. A web page is at\n"
                 "/, the description of the API at /openapi.json: LibreTranslate's /translate,\n"
                 "/translate_file, /languages and /detect, OpenAI's /v1/embeddings,\n"
                 "/v1/completions, /v1/chat/completions and /v1/responses, /v1/rerank and\n"
                 "/v1/score, and /metrics for Prometheus. Models are loaded at their first\n"
                 "request. Lines are split into sentences. Waiting requests are batched, fairly\n"
                 "between clients; on a CPU with continuous batching. The log on standard error\n"
                 "has a line of JSON for each request, without its text.\n",
        .examples = "  tfm serve -m opus-mt-de-en\n"
                    "  curl -d q=\"Guten Morgen.\" -d source=de -d target=en localhost:5000/translate\n"
                    "  tfm serve -m de-en=opus-mt-de-en -m en-de=opus-mt-en-de -m minilm=MiniLM\n"
                    "  tfm serve -m opus-mt-de-en --host 0.0.0.0 --api-keys keys --memory-limit 2000\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code == CLI_CONTINUE)
        code = check(&o, &syntax);
    if (code == CLI_CONTINUE) {
        code = serve_keys_read(&o.keys, &o.given_keys, o.keys_file);
        if (code == CLI_OK && o.pull)
            code = pull_models(&o);
        if (code == CLI_OK)
            code = run(&o, &syntax);
    }
    free(o.models.items);
    serve_keys_free(&o.keys);
    free(o.given_keys.items);
    free(o.keep.patterns.items);
    return code;
}
