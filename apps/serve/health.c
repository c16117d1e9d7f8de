/* Probes: whether the server is up, and whether it is ready for requests. */
#include "serve/request.h"
#include "serve/server.h"

static serve_reply status(const char *trouble, const char *fine) {
    return serve_reply_json(trouble ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK,
                            json_pack("{s:s}", "status", trouble ? trouble : fine));
}

bool serve_health(serve_request *r, serve_reply *reply) {
    *reply = status(r->server->draining ? "going down" : NULL, "ok");
    return false;
}

/* Whether each model that is opened at start was opened, there or by a request. */
static bool models_were_opened(const server *s) {
    bool all = true;
    for (size_t i = 0; i < s->models.count && s->options->preload; i++)
        all = all && atomic_load(&s->models.items[i]->opened);
    return all;
}

bool serve_ready(serve_request *r, serve_reply *reply) {
    server *s = r->server;
    *reply = status(s->draining              ? "going down"
                    : !models_were_opened(s) ? "a model is not open"
                    : serve_queue_is_full(s) ? "the queue is full"
                                             : NULL,
                    "ready");
    return false;
}
