/* What the files of tfm serve share.
 *
 * Three kinds of threads: that of libmicrohttpd reads requests and sends answers, and never works; workers alone use
 * the devices, each by contexts of its own; the watch closes what is too slow and drops what nobody waits for any more.
 * A request that needs the device becomes a job: its connection is suspended, a worker does its pieces, and the
 * connection goes on with the answer. The lock of the server guards jobs, clients and the queue. */
#ifndef TFM_SERVE_H
#define TFM_SERVE_H

#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include "../cli.h"

typedef struct server server;
typedef struct serve_job serve_job;
typedef struct serve_request serve_request;
typedef struct serve_worker serve_worker;

/* ---- Options (cmd_serve.c) ------------------------------------------------------------------------------------- */

typedef struct serve_limits {
    int chars, lines;          /* of one request */
    int queue, client;         /* lines that wait, of all and of one client */
    int seconds;               /* that a request may wait, and may take to arrive */
    int connections;           /* at a time */
    int alternatives, max_new; /* what a request may ask for */
    int memory;                /* MiB of models; 0: no limit */
} serve_limits;

typedef struct serve_options {
    const char *host, *device, *keys_file, *origin, *certificate, *certificate_key;
    int port, penalty, precision, workers;
    tfm_precision how; /* what `precision` says */
    bool quiet;
    cli_texts models, keys, keep; /* keep: patterns */
    bool no_keep;
    tfm_placeholders *placeholders; /* NULL: none are kept */
    serve_limits limits;
    tfm_search_options search;
    tfm_text_options text;
} serve_options;

/* ---- Models (models.c) ----------------------------------------------------------------------------------------- */

typedef enum serve_task { SERVE_TRANSLATE, SERVE_EMBED, SERVE_GENERATE } serve_task;

enum { SERVE_CODE = 32, SERVE_WORKERS = 4 };

/* The chat template of a directory (chat_template.c). */
typedef struct serve_chat {
    char *text; /* chat_template.jinja, or chat_template.json, or that of tokenizer_config.json; NULL: none */
    bool known; /* it is ChatML, as the following says */
    bool bos;   /* bos_token begins a prompt */
    bool tools; /* it has branches for tools, which are not run, and no other role than system, user, assistant */
    bool trims; /* messages lose the blanks around them */
    bool line;  /* a line end follows the marker that ends a message */
    bool after_assistant;        /* the assistant's turn begins after a message of the assistant, too */
    char *system;                /* the system message of a chat without one; NULL: none */
    char *eos_token, *bos_token; /* of tokenizer_config.json, or NULL */
} serve_chat;

/* A model as one worker has it loaded: that worker's alone, but for what is atomic. */
typedef struct serve_seat {
    tfm_fleet *fleet; /* of the devices, on which batches are worked on together; NULL: it is not loaded */
    tfm_model *model; /* the embedder's, of an encoder */
    tfm_embedder *embedder;
    atomic_bool loaded;
    atomic_ullong memory; /* what it took on the devices at most, while it was loaded */
} serve_seat;

typedef struct serve_model {
    char name[64];
    const char *dir;
    serve_task task;
    char source[SERVE_CODE], target[SERVE_CODE]; /* of a translator */
    bool says_source, says_target;               /* the model is told the language */
    serve_chat chat;
    tfm_tokenizer *tokenizer;  /* of a language model: requests are encoded before they wait */
    int positions, vocabulary; /* of a language model */
    int eos_id;                /* the first end of texts by its directory, or -1 */
    int32_t ends[2];           /* [end_count]: other tokens that end a turn of a chat */
    const char *end_texts[2];  /* [end_text_count]: stop strings that do, where they are no special tokens */
    int end_count, end_text_count;
    int width;      /* of its embeddings; 0: it computes none */
    uint64_t bytes; /* an estimate of what it takes on the device */
    serve_seat seats[SERVE_WORKERS];
    uint64_t used; /* a count of batches, where there is one worker: when it last worked */
    /* Under the server's lock: */
    int workers; /* how many may have it: 1 until it is loaded */
    double pace; /* tokens a second of its last full batch; 0: there was none */
} serve_model;

typedef struct serve_models {
    serve_model *items;
    size_t count;
    uint64_t clock;
} serve_models;

/* Reads what each directory says, without a device. CLI_OK, or another code after its sentence; freed in any case. */
int serve_models_read(serve_models *models, const serve_options *options, const cli_syntax *syntax);
void serve_models_free(serve_models *models);
/* The translator of a pair; the model of a name; NULL where there is none. */
serve_model *serve_model_pair(const serve_models *models, const char *source, const char *target);
serve_model *serve_model_named(const serve_models *models, const char *name);
/* How many workers have it loaded, and what it takes on the device. */
int serve_model_loaded(serve_model *model);
unsigned long long serve_model_memory(serve_model *model);
/* Has a model loaded for this worker, and others dropped for it if memory is limited: there is one worker then. */
tfm_status serve_model_need(const serve_worker *w, serve_model *model);
void serve_model_drop(serve_seat *seat);
/* Of the devices of a seat: the names of those that work, whether one of them has failed and would again, the time that
 * they took to build kernels, and their memory. */
void serve_seat_name(char *out, size_t bytes, const serve_seat *seat);
bool serve_seat_failed(const serve_seat *seat);
double serve_seat_built(const serve_seat *seat);
unsigned long long serve_seat_memory(const serve_seat *seat);

/* ---- Jobs (jobs.c) --------------------------------------------------------------------------------------------- */

/* The most texts that a prompt may have written, and the most weights of alignments that a job may have. */
enum { SERVE_TEXTS = 16, SERVE_WEIGHTS = 1 << 20 };

/* What the model made of a piece. */
typedef struct serve_result {
    char **texts;   /* [n_best], NULL where there are no more */
    json_t *detail; /* tokens and alignment, where they were asked for */
    size_t source_tokens, target_tokens;
    const char *finish[SERVE_TEXTS]; /* why each generated text ended: static */
} serve_result;

/* Pieces of jobs whose keys are equal go into one batch. */
typedef struct serve_key {
    serve_model *model;
    serve_task task; /* a language model has two */
    int n_best, layer, head;
    bool split, detail, keep; /* keep: texts have placeholders */
    int max_new;
    uint64_t alone; /* not 0: a number of this job's alone */
} serve_key;

typedef struct serve_client {
    char name[72];  /* an address, or a key by its number */
    uint64_t turn;  /* work that it was given so far, from the server's clock on; who has least is next */
    uint64_t clock; /* the turn of its job that was served last: where its next job begins */
    size_t waiting;
    struct serve_client *next;
} serve_client;

typedef enum serve_state { SERVE_WAITING, SERVE_DONE } serve_state;
/* Why a job is not worked on any more: nobody waits for it, it took too long, or the server ends. */
typedef enum serve_stop { SERVE_GOES_ON, SERVE_GONE, SERVE_EXPIRED, SERVE_ENDING } serve_stop;

struct serve_job {
    serve_key key;
    cli_piece *pieces; /* [count] */
    serve_result *results;
    size_t count, texts;  /* pieces, and texts of the request that they belong to */
    serve_model **models; /* [texts], where they have several: key.model is then that of the next piece */
    float *vectors;       /* [count][width], of embeddings */
    int width;
    char *prompt_name;             /* of embeddings: which prompt of the directory; NULL: its default */
    tfm_generate_options generate; /* of generation; stops are the job's own */
    char **stops;
    int32_t **ids; /* [count]: the tokens of prompts, [id_counts[i]] each; NULL: pieces are encoded by the worker */
    size_t *id_counts;
    int32_t *stop_ids; /* [stop_id_count]: tokens that end a text besides the model's own */
    size_t stop_id_count;
    bool tells_usage; /* in the last event of a stream */
    char id[40];      /* of a generation, as its answer names it */
    bool chat;
    int64_t created;
    int answer_code; /* the status of a failure; 0: none */
    char *failure;   /* its sentence */
    int retry_after;
    size_t weights; /* of alignments, so far */
    /* Under the server's lock: */
    serve_client *client;
    serve_state state;
    size_t taken, done, in_work; /* pieces */
    const serve_worker *with;    /* who works on it, while in_work is not 0: one at a time */
    uint64_t number, turn;
    double arrived, began, ended;
    atomic_int stop;                   /* a serve_stop; the first reason stays */
    struct MHD_Connection *connection; /* NULL: it has left, and the worker frees the job */
    bool suspended;
    int fd;
    serve_job *next;
    struct serve_stream *stream; /* of server-sent events, else NULL; it has set these: */
    /* The index-th text has grown. A worker calls it, without the lock. */
    void (*on_piece)(serve_job *job, int index, const char *text);
    void (*on_done)(serve_job *job); /* the job is done: under the lock, before its connection goes on */
    void (*on_free)(serve_job *job);
    json_t *source; /* owns the texts of the pieces */
    void *markup;   /* documents of HTML, or NULL (markup.h) */
};

/* A piece of a job in a batch. */
typedef struct serve_unit {
    serve_job *job;
    size_t piece;
    uint64_t cost; /* in tokens, about */
} serve_unit;

enum { SERVE_BATCH = 1024 };

/* One that works on batches. */
struct serve_worker {
    server *server;
    int number; /* from 0: its seat */
    pthread_t thread;
    size_t left; /* under the lock: pieces of its batch that are not done; 0: it is free, or soon will be */
    size_t completed, answered_last; /* under the lock: requests, by this batch so far and by the last one */
    serve_key key;                   /* of the batch at hand */
    uint64_t batch_tokens;           /* of it, those included that joined it */
    uint64_t live_tokens;            /* of what it is still at */
    double since;                    /* when the batch was begun */
    double full_since;               /* when more waited than may be worked on at a time; 0: never */
    uint64_t full_done;              /* the tokens that were done by then */
    double accounted;                /* up to when its time is counted */
    serve_unit *units;               /* [count]: of it; their jobs are NULL once they are done */
    size_t count, room;
};

/* Whether somebody still waits for a batch, and not for too long. */
bool serve_wanted(const serve_unit *units, size_t count);
/* A job of `count` pieces; NULL without memory. */
serve_job *serve_job_new(size_t count);
void serve_job_free(serve_job *job);
/* Keeps the first failure of a job, and its sentence. */
void serve_job_fail(serve_job *job, int code, const char *format, ...) TFM_PRINTF(3, 4);
/* Says that a job is not to be worked on any more; false where that was said before. */
bool serve_job_stop(serve_job *job, serve_stop why);
serve_stop serve_job_stopped(const serve_job *job);
/* Fails a job that was stopped before it was done, for the reason that it has. One that nobody waits for does not. */
void serve_job_cut(const server *s, serve_job *job);
/* Puts a job into the queue and suspends its connection. Returns false where a limit forbids that; the job has
 * failed then. Called from the handler of the connection. */
bool serve_queue_add(server *s, serve_job *job, struct MHD_Connection *connection, const char *client);
/* Under the lock: some pieces of a job wait no more; a job is over, by a worker or NULL, so its connection goes on, or
 * it is freed where that has left. */
void serve_queue_stop_waiting(server *s, serve_job *job, size_t pieces);
void serve_queue_complete(server *s, serve_job *job, serve_worker *by);
/* Waits for work and takes a batch of it: pieces of one key, in fair turns between clients, and between the requests
 * of one client. False: the server ends. */
bool serve_queue_take(serve_worker *w);
/* Takes one more piece of the batch's key, where its turn has come, the batch has room and others need not wait for the
 * worker; it is the last of the worker's units then. */
bool serve_queue_more(serve_worker *w);
/* Less of a batch of texts that are read is no use to a device: the work would be in handing it out. */
enum { LEAST_TOKENS = 256 };
/* The most tokens that one of several devices is given at a time of the worker's batch, so that all get some of one
 * that is large: `least` at least, and at most as many as the options say, `tokens`, unless they are 0 and so say
 * nothing. `tokens` where there is one device. */
int serve_queue_part(const serve_worker *w, int tokens, int least);
/* Says how long the model worked on the worker's batch. */
void serve_queue_worked(const serve_worker *w, serve_model *model, double seconds);
/* Says how many workers may have a model from now on. */
void serve_queue_open(server *s, serve_model *model, int workers);
/* Says that a batch is over. What is complete goes on to its answer; where the batch was `cut`, what was stopped fails.
 */
void serve_queue_finish(serve_worker *w, bool cut);
/* Gives back a batch that has not been begun: the worker has no seat at the model from now on, and those before it do
 * the work. */
void serve_queue_give_back(serve_worker *w, serve_model *model);
/* Says that a piece is done: a job that is complete by it does not wait for its batch. It may be freed then. */
void serve_queue_piece_done(serve_worker *w, serve_unit *unit);
/* Fails what has waited too long, and drops what nobody waits for any more. */
void serve_queue_watch(server *s);
/* The request of a job is over; the job is freed now, or by the worker when it is done with it. */
void serve_queue_leave(server *s, serve_job *job);
size_t serve_queue_waiting(server *s);

/* ---- Workers (worker.c, work_*.c) --------------------------------------------------------------------------- */

void *serve_work(void *worker);
/* Each works on one batch, and fails the jobs whose pieces cannot be worked on. Pieces may join a translation. */
tfm_status serve_work_translate(serve_worker *w, serve_model *model);
tfm_status serve_work_embed(serve_worker *w, serve_model *model, const serve_unit *units, size_t count);
tfm_status serve_work_generate(serve_worker *w, serve_model *model, const serve_unit *units, size_t count);

/* ---- Answers (reply.c) ----------------------------------------------------------------------------------------- */

typedef struct serve_reply {
    int code;
    char *body; /* freed when it is sent */
    size_t bytes;
    const char *type;   /* static */
    const char *policy; /* of content; NULL: none may be used */
    int retry_after;
    bool close;
} serve_reply;

/* An answer of JSON, which takes `value` over; 500 where that is NULL. */
serve_reply serve_reply_json(int code, json_t *value);
/* 400, of a field of the request: OpenAI's `param`, and its `code` unless that is NULL. */
serve_reply serve_reply_field(const serve_request *r, const char *param, const char *error_code, const char *format,
                              ...) TFM_PRINTF(4, 5);
/* An error as the path's clients expect it: LibreTranslate's, or under /v1/ OpenAI's. */
serve_reply serve_reply_error(const serve_request *r, int code, const char *format, ...) TFM_PRINTF(3, 4);
/* Queues the answer and writes the log's line later, when it has been sent. */
enum MHD_Result serve_reply_send(serve_request *r, serve_reply reply);
/* Adds the headers that every answer has. */
void serve_reply_headers(const server *s, struct MHD_Response *response, const char *policy);

/* ---- Requests (request.c, framing.c, http.c) ------------------------------------------------------------------- */

struct serve_request {
    server *server;
    struct serve_connection *of;
    struct MHD_Connection *connection;
    const char *method, *url; /* libmicrohttpd's */
    const struct serve_route *route;
    char client[72];
    char *body;
    size_t bytes, room;
    bool too_large, starved, answered, counted;
    json_t *fields;   /* of the body, JSON or a form */
    json_t *guess;    /* the language that was detected, or a list of them; NULL: it was given */
    json_t *warnings; /* sentences for the answer; NULL: none */
    bool form;
    serve_job *job;
    serve_reply (*answer)(serve_request *r); /* makes the answer when the job is done */
    int code;                                /* of the answer */
    size_t sent, lines;
    double start;
};

/* Whether the headers leave a doubt where the body ends: the answer then, after which the connection is closed. */
bool serve_unframed(serve_request *r, const char *version, serve_reply *reply);
/* Appends to the body. What is beyond the limit is read and forgotten. */
void serve_request_body(serve_request *r, const char *data, size_t bytes);
/* Makes `fields` of the body. True, or false with the answer. */
bool serve_request_parse(serve_request *r, serve_reply *refusal);
/* Drops the body, and of the fields what no answer asks for: the job has what it needs, and may wait for long. */
void serve_request_slim(serve_request *r);
/* A field as text, or NULL. */
const char *serve_request_text(const serve_request *r, const char *name);
/* A whole number from low to high, `fallback` where there is none. False, with the answer, for anything else. */
bool serve_request_whole(const serve_request *r, const char *name, int low, int high, int fallback, int *out,
                         serve_reply *refusal);
/* Whether the request has one of the keys; also names the client. True, or false with the answer. */
bool serve_request_allowed(serve_request *r, serve_reply *refusal);
/* The characters of UTF-8. */
size_t serve_characters(const char *text, size_t bytes);

typedef struct serve_route {
    const char *method, *path;
    bool guarded;                                        /* wants a key, where there are any */
    bool (*begin)(serve_request *r, serve_reply *reply); /* false: `reply` is the answer; true: the job makes it */
} serve_route;

bool serve_translate(serve_request *r, serve_reply *reply);
bool serve_languages(serve_request *r, serve_reply *reply);
bool serve_detect(serve_request *r, serve_reply *reply);
bool serve_settings(serve_request *r, serve_reply *reply);
bool serve_health(serve_request *r, serve_reply *reply);
bool serve_metrics(serve_request *r, serve_reply *reply);
bool serve_openapi(serve_request *r, serve_reply *reply);
bool serve_page(serve_request *r, serve_reply *reply);
bool serve_status(serve_request *r, serve_reply *reply);
bool serve_v1_models(serve_request *r, serve_reply *reply);
bool serve_v1_model(serve_request *r, serve_reply *reply);
bool serve_v1_embeddings(serve_request *r, serve_reply *reply);
bool serve_v1_completions(serve_request *r, serve_reply *reply);
bool serve_v1_chat(serve_request *r, serve_reply *reply);
/* Which fields a path takes. */
enum { SERVE_CHAT_FIELDS = 1, SERVE_TEXT_FIELDS = 2, SERVE_EMBED_FIELDS = 4 };
/* Refuses fields of the wrong type, and those that are not supported unless they have a value that changes nothing;
 * names unknown ones in the log, each once (openai_fields.c). True, or false with the answer. */
bool serve_fields_check(const serve_request *r, unsigned where, serve_reply *reply);

/* What requests of OpenAI's API share (openai.c). The model that a request names, if it is for such a task: */
serve_model *serve_openai_model(serve_request *r, serve_task task, const char *doing, serve_reply *reply);
/* A field as a new list of texts, of which it is one or several; NULL with the answer. */
json_t *serve_openai_texts(serve_request *r, const char *name, serve_reply *reply);
/* A job with a piece for each text of the list, which it takes over. */
serve_job *serve_openai_job(serve_request *r, json_t *list, serve_model *model, serve_task task, serve_reply *reply);
bool serve_openai_queue(serve_request *r, serve_job *job, serve_reply (*answer)(serve_request *r), serve_reply *reply);

/* Objects of OpenAI's API (openai_json.c): how many tokens a job took, */
json_t *serve_openai_usage(const serve_job *job);
/* system_fingerprint, what wrote a text (static), */
const char *serve_openai_fingerprint(void);
/* a text of a generation, and an embedding. */
json_t *serve_openai_choice(const serve_job *job, size_t piece, int best);
json_t *serve_openai_vector(const float *numbers, size_t count, bool base64);

/* Reads the chat template of a directory: CLI_OK, or another code after its sentence; freed in any case. */
int serve_chat_read(serve_chat *chat, const char *dir);
void serve_chat_free(serve_chat *chat);
/* Finds what ends a turn: the tokenizer's eos_token and the template's marker (chat.c). */
void serve_chat_ends(serve_model *model);
/* Whether a model has a chat template that is run here (chat.c). */
bool serve_chats(const serve_model *model);
/* The messages of a chat as a list of one prompt (chat.c); NULL with the answer where the model's template is none that
 * is run here. */
json_t *serve_chat_prompt(serve_request *r, const serve_model *model, serve_reply *reply);

/* ---- Pieces of texts (pieces.c) -------------------------------------------------------------------------------- */

/* A job of the lines of `texts`, or with `sentences` of the sentences of each; with `models` the text's own model works
 * on each, and the pieces of one model are together. NULL with the answer where a limit forbids it or a text is
 * damaged. */
serve_job *serve_pieces_cut(serve_request *r, const char *const *texts, size_t count, bool sentences,
                            serve_model *const *models, serve_reply *refusal);
/* Text `of` of the request, put together from the best-th results of its pieces; NULL without memory. */
char *serve_pieces_join(const serve_job *job, size_t of, int best);

/* ---- Events (events.c) ----------------------------------------------------------------------------------------- */

/* Has the events of a job sent as they come, by its callbacks. False without memory. */
bool serve_stream_open(server *s, serve_job *job);
/* Whether there is something to send, so that the answer is 200. Under the server's lock. */
bool serve_stream_begun(const serve_job *job);
/* The answer that sends a job's events. */
enum MHD_Result serve_stream_send(serve_request *r);

/* ---- Languages (detect*.c, languages_asked.c, language_list.c) --------------------------------------------------- */

typedef struct serve_guess {
    char code[SERVE_CODE];
    double confidence; /* 0 to 100 */
} serve_guess;

enum { SERVE_GUESSES = 3 };
/* The likeliest languages of a text, best first; one that is served has the code that its model has. Returns how many:
 * at least 1, of which the confidence is 0 where nothing is known. */
int serve_detect_text(serve_guess out[SERVE_GUESSES], const serve_models *models, const char *text, size_t bytes);
/* Whether a language is written in the script of the text. */
bool serve_detect_writes(const char *code, const char *text, size_t bytes);
/* Whether two codes are of one language, as "de" and "deu_Latn". */
bool serve_language_same(const char *a, const char *b);
/* How a language is written with letters: all are its own, some are of loanwords and names, or some are neither. */
typedef enum serve_letters { SERVE_LETTERS_OWN, SERVE_LETTERS_LOANS, SERVE_LETTERS_FOREIGN } serve_letters;
/* LOANS where there are no letters, or the language is not known. */
serve_letters serve_letters_of(const char *code, const int32_t *letters, size_t count);
/* The languages that a word of small letters is frequent in: a bit for each, by its index. */
uint64_t serve_frequent_word(const char *word);
/* The i-th language of which frequent words are known; NULL after the last. */
const char *serve_frequent_language(size_t i);

/* What a request asks of its texts' languages, and the models that follow. */
typedef struct serve_asked {
    serve_request *request;
    const char *const *texts;
    size_t count;
    const char *source, *target;
    serve_model **models; /* [count] */
    serve_guess *guesses; /* [count], where source is auto; else NULL */
    json_t *warnings;     /* sentences about texts that seem to be in another language than source says */
} serve_asked;
/* Finds the model for each text. False, with the answer, where a text's language is not served; freed in any case. */
bool serve_choose_models(serve_asked *a, serve_reply *reply);
void serve_asked_free(serve_asked *a);

/* What CLD2 says: a language, how well the text fits it, and how much of the text it is. */
typedef struct serve_cld2 {
    char code[SERVE_CODE];
    double score;
    int percent;
} serve_cld2;
/* Asks CLD2, with a language to prefer or NULL. Returns how many: 0 where it knows none, or is not built in. */
int serve_cld2_detect(serve_cld2 out[SERVE_GUESSES], const char *text, size_t bytes, const char *hint);
/* What a language is called in English. */
void serve_language_name(char *out, size_t bytes, const char *code);

/* ---- Metrics (serve_metrics.c) ---------------------------------------------------------------------------------------- */

enum { SERVE_BUCKETS = 12 };
typedef struct serve_histogram {
    atomic_ullong buckets[SERVE_BUCKETS + 1];
    atomic_ullong count, micros;
} serve_histogram;

typedef struct serve_counts {
    atomic_ullong classes[6]; /* answers by the first digit of their status */
    atomic_ullong lines, joined, source_tokens, target_tokens, batches, dropped, refused, expired, loads, drops;
    atomic_ullong work_micros;
    serve_histogram seconds, waits;
} serve_counts;

extern const double serve_bounds[SERVE_BUCKETS]; /* upper bounds of the buckets, in seconds */
void serve_count_time(serve_histogram *h, double seconds);
/* One line of JSON on standard error. */
void serve_log_request(const serve_request *r);

/* ---- The server ------------------------------------------------------------------------------------------------ */

struct server {
    serve_options *options;
    serve_models models;
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock;
    pthread_cond_t work; /* there is some, or the server ends */
    serve_job *first, **last;
    serve_client *clients;
    size_t waiting; /* pieces */
    uint64_t numbers;
    uint64_t clock; /* the turn of the client that was served last */
    serve_worker workers[SERVE_WORKERS];
    int worker_count;
    size_t devices; /* contexts: of several, which one worker deals its batches to */
    atomic_bool draining;
    bool ending;
    atomic_int requests; /* that are not answered yet */
    pthread_mutex_t connections_lock;
    struct serve_connection *connections;
    serve_counts counts;
    double started;
    int64_t started_at; /* seconds since 1970 */
    char device[256];   /* or devices */
    bool (*stopped)(void);
};

/* Opens the port. The port that was taken is left in the options. CLI_OK, or CLI_FAILED after its sentence. */
int serve_http_start(server *s);
/* Closes the door for new connections. */
void serve_http_quiesce(server *s);
void serve_http_stop(server *s);

/* ---- Connections (connections.c) ------------------------------------------------------------------------------- */

typedef struct serve_connection serve_connection;
serve_connection *serve_connection_of(struct MHD_Connection *connection);
/* Says whether a request has arrived whole and its answer is not made yet; the time for the other case begins. */
void serve_connection_busy(server *s, serve_connection *connection, bool busy);
/* For libmicrohttpd: a connection has come, or has gone. */
void serve_connection_notify(void *server, struct MHD_Connection *connection, void **context,
                             enum MHD_ConnectionNotificationCode what);
/* Closes connections that take too long to say what they want or to take their answer. */
void serve_connections_watch(server *s);
/* Whether the other side has gone. */
bool serve_hung_up(int fd);

#endif
