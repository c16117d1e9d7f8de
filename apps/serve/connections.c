/* Connections and their timeouts. */
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include "serve/server.h"

struct serve_connection {
    int fd;
    bool busy;    /* a complete request has arrived, without an answer yet */
    double since; /* start of waiting for a request, or of sending an answer */
    serve_connection *next, **link;
};

serve_connection *serve_connection_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

void serve_connection_busy(server *s, serve_connection *c, bool busy) {
    pthread_mutex_lock(&s->connections_lock);
    if (c) {
        c->busy = busy;
        c->since = cli_seconds();
    }
    pthread_mutex_unlock(&s->connections_lock);
}

void serve_connection_notify(void *user, struct MHD_Connection *connection, void **context,
                             enum MHD_ConnectionNotificationCode what) {
    server *s = user;
    serve_connection *c = *context;
    pthread_mutex_lock(&s->connections_lock);
    if (what == MHD_CONNECTION_NOTIFY_STARTED && (c = calloc(1, sizeof(*c)))) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        c->fd = info ? info->connect_fd : -1;
        c->since = cli_seconds();
        c->next = s->connections;
        c->link = &s->connections;
        if (c->next)
            c->next->link = &c->next;
        s->connections = c;
        *context = c;
    } else if (what == MHD_CONNECTION_NOTIFY_CLOSED && c) {
        *c->link = c->next;
        if (c->next)
            c->next->link = c->link;
        free(c);
        *context = NULL;
    }
    pthread_mutex_unlock(&s->connections_lock);
}

bool serve_peer_closed(int fd) {
    struct pollfd one = {.fd = fd, .events = POLLRDHUP};
    return fd >= 0 && poll(&one, 1, 0) > 0 && (one.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

/* libmicrohttpd's own timeout restarts with every byte; this one does not. */
void serve_connections_expire(server *s) {
    const double now = cli_seconds();
    pthread_mutex_lock(&s->connections_lock);
    for (serve_connection *c = s->connections; c; c = c->next)
        if (!c->busy && c->fd >= 0 && now - c->since > s->options->limits.seconds) {
            shutdown(c->fd, SHUT_RDWR);
            c->fd = -1;
        }
    pthread_mutex_unlock(&s->connections_lock);
}
