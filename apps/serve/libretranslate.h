/* Translation requests of LibreTranslate's API (libretranslate.c), documents in them
 * (request_documents.c), and files (translate_file.c). */
#ifndef TFM_SERVE_LIBRETRANSLATE_H
#define TFM_SERVE_LIBRETRANSLATE_H

#include "documents/document.h"
#include "serve/detect.h"
#include "serve/request.h"
#include "serve/server.h"

typedef struct serve_ask {
    const char *source, *target;
    int alternatives, alignments, layer, head;
    bool list;
    const char **texts; /* [count]: of the request, or of its document */
    size_t count;
    const document_kind *kind; /* the format of a document, else NULL: texts[0] is read as one */
    void *document;
    serve_model_choice languages;
} serve_ask;

/* Each function returns true, or false with the error reply. */
/* Reads source and target, which must be served. */
bool serve_ask_languages(serve_request *r, serve_ask *a, serve_reply *reply);
/* Queues the job; `answer` makes its reply. False also if there is no text to translate: the reply is the answer. */
bool serve_ask_queue(serve_request *r, serve_ask *a, serve_reply (*answer)(serve_request *r), serve_reply *reply);
void serve_ask_free(serve_ask *a);
/* The reply for a missing field; false. */
bool serve_ask_missing(const serve_request *r, const char *name, serve_reply *reply);
/* Adds detected languages and warnings to an answer. */
void serve_answer_languages(const serve_request *r, json_t *object);

/* A format of files: the end of their names, and the content type; text has no kind. */
typedef struct serve_file_format {
    const char *end, *type;
    const document_kind *kind;
} serve_file_format;

/* The format of a file; NULL if it is not supported. */
const serve_file_format *serve_file_format_of(const char *name);
/* Replaces texts[0] by the texts of the document in it. True, or false with the error reply. */
bool serve_ask_document(serve_request *r, serve_ask *a, serve_reply *reply);
/* The translated document of a job, for free(); NULL without memory. */
char *serve_job_document(const serve_job *job);

#endif
