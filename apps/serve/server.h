/* Shared declarations of the server.
 *
 * Three kinds of threads: libmicrohttpd's reads requests and sends replies; workers use the devices, each with separate
 * contexts; the watch closes slow connections and drops abandoned jobs. A request that needs the device becomes a job:
 * its connection is suspended, a worker runs its segments, and the connection resumes with the reply. The server's lock
 * guards jobs, clients and the queue. */
#ifndef TFM_SERVE_SERVER_H
#define TFM_SERVE_SERVER_H

#include <pthread.h>
#include "serve/keys.h"
#include "serve/queue.h"

/* ---- Options (cmd_serve.c) --------------------------------------------------------------------------------------- */

/* Maximum prompt_lookup_num_tokens. */
enum { SERVE_DRAFTS = 15 };

typedef struct serve_limits {
    int chars, lines;                 /* of one request */
    int queue, client;                /* maximum waiting lines, of all and of one client */
    int seconds;                      /* timeout of waiting, and of arriving */
    int file_seconds;                 /* time that translated files are stored */
    int connections;                  /* maximum */
    int alternatives, max_new_tokens; /* maximum per request */
    int memory;                       /* MiB of models; 0: no limit */
    int idle_seconds;                 /* time until an unused model is unloaded; 0: never */
} serve_limits;

typedef struct serve_options {
    const char *host, *device, *keys_file, *origin, *certificate, *certificate_key;
    int port, penalty, ctx_size, workers;
    int drafts; /* prompt_lookup_num_tokens of requests that do not give it */
    cli_precisions precision;
    bool quiet, pull, preload;      /* pull: download missing models; preload: open them at start */
    cli_strings models, given_keys; /* --api-key */
    serve_keys keys;
    cli_keep_options keep;
    tfm_placeholders *placeholders; /* NULL: placeholders are translated */
    serve_limits limits;
    tfm_search_options search;
    tfm_text_options text;
} serve_options;

/* ---- Metrics and the log (status.c, serve_log.c) ----------------------------------------------------------------- */

struct serve_request;

typedef struct serve_counters {
    atomic_ullong classes[6]; /* answers by the first digit of their status */
    atomic_ullong lines, admitted, batches, dropped, refused, expired, loads, drops;
    atomic_ullong work_micros;
    serve_histogram seconds, waits;
} serve_counters;

/* One line of JSON on standard error. */
void serve_log_request(const struct serve_request *r);

/* ---- The server (http.c) ----------------------------------------------------------------------------------------- */

struct server {
    serve_options *options;
    serve_models models;
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock;
    pthread_mutex_t http; /* held by callbacks of libmicrohttpd, which read models and keys; taken before `lock` */
    pthread_cond_t work;  /* there is work, or shutdown */
    serve_job *first, **last;
    serve_client *clients;
    size_t waiting; /* segments */
    uint64_t numbers;
    uint64_t clock; /* the virtual time of the last served client */
    serve_worker workers[SERVE_WORKERS];
    int worker_count;
    size_t devices; /* number of contexts; with several, one worker distributes its batches */
    atomic_bool draining;
    bool ending;
    atomic_int requests; /* unanswered */
    pthread_mutex_t connections_lock;
    struct serve_connection *connections;
    struct serve_file *files; /* oldest first; under the lock, as their bytes */
    size_t file_bytes;
    serve_counters counters;
    double started;
    int64_t started_at; /* seconds since 1970 */
    char device[256];   /* or devices */
    bool (*stopped)(void);
};

/* Opens the port, and sets it in the options. CLI_OK, or CLI_FAILED after a message. */
int serve_http_start(server *s);
/* Stops accepting connections. */
void serve_http_quiesce(server *s);
void serve_http_stop(server *s);

/* ---- Translated files (translated_files.c) ----------------------------------------------------------------------- */

/* Size of a random number in hexadecimal, and of a file's name. */
enum { SERVE_RANDOM = 33, SERVE_FILE_NAME = 48 };

typedef struct serve_file serve_file;
typedef enum serve_files_result { SERVE_FILE_FOUND, SERVE_FILE_ABSENT, SERVE_FILE_NO_MEMORY } serve_files_result;

/* Stores `text` after `start`, and names it at random, with this `end`. False without memory. */
bool serve_files_add(server *s, char name[SERVE_FILE_NAME], const char *end, const char *start, const char *text);
/* Copies a file, for free(). */
serve_files_result serve_files_copy(server *s, const char *name, char **text, size_t *bytes);
/* Deletes files that were stored this long ago. */
void serve_files_expire(server *s, double seconds);
/* A random number; false if the system gives none (page.c). */
bool serve_random_hex(char out[SERVE_RANDOM]);

/* ---- Connections (connections.c) --------------------------------------------------------------------------------- */

typedef struct serve_connection serve_connection;
serve_connection *serve_connection_of(struct MHD_Connection *connection);
/* Sets whether a complete request is in progress; otherwise its timeout starts. */
void serve_connection_busy(server *s, serve_connection *connection, bool busy);
/* Callback of libmicrohttpd: a connection was opened or closed. */
void serve_connection_notify(void *server, struct MHD_Connection *connection, void **context,
                             enum MHD_ConnectionNotificationCode what);
/* Closes connections that take too long to send a request or to receive the reply. */
void serve_connections_expire(server *s);
/* Whether the client has disconnected. */
bool serve_peer_closed(int fd);

#endif
