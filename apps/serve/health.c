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

bool serve_ready(serve_request *r, serve_reply *reply) {
    server *s = r->server;
    *reply = status(s->draining                     ? "going down"
                    : atomic_load(&s->unopened) > 0 ? "a model is not open"
                    : serve_queue_is_full(s)        ? "the queue is full"
                                                    : NULL,
                    "ready");
    return false;
}
