/* The texts of a request as a job's pieces, and back. */
#include <stdlib.h>
#include <string.h>
#include "serve.h"

static bool check_text(serve_request *r, const char *text, size_t *characters, serve_reply *refusal) {
    const int limit = r->server->options->limits.chars;
    if (tfm_text_check(text, strlen(text)) != TFM_OK) {
        *refusal = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: %s", tfm_error_message());
        return false;
    }
    *characters += serve_characters(text, strlen(text));
    if (*characters <= (size_t)limit)
        return true;
    *refusal =
        serve_reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE,
                          "Invalid request: request (%zu) exceeds text limit (%d) of characters", *characters, limit);
    return false;
}

serve_job *serve_pieces_cut(serve_request *r, const char *const *texts, size_t count, bool sentences,
                            const char *language, serve_reply *refusal) {
    cli_pieces c = {0};
    size_t characters = 0;
    bool good = true;
    for (size_t i = 0; i < count; i++)
        if (!check_text(r, texts[i], &characters, refusal)) {
            free(c.items);
            return NULL;
        } else {
            good = good && cli_pieces_cut(&c, texts[i], i, sentences, language);
        }
    const size_t most = (size_t)r->server->options->limits.lines;
    serve_job *job = good && c.count <= most ? serve_job_new(c.count) : NULL;
    if (job) {
        memcpy(job->pieces, c.items, c.count * sizeof(*c.items));
        job->texts = count;
        job->source = json_incref(json_object_get(r->fields, "q"));
        r->lines = c.count;
    } else if (good && c.count > most) {
        *refusal = serve_reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE,
                                     "Invalid request: request (%zu) exceeds text limit (%zu) of lines", c.count, most);
    } else {
        *refusal = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
    }
    free(c.items);
    return job;
}

typedef struct ranked {
    const serve_job *job;
    int best;
} ranked;

/* The best-th text of a piece, or the best one where there are fewer; what is blank has none. */
static const char *result_of(const void *user, size_t piece) {
    const ranked *r = user;
    char *const *texts = r->job->results[piece].texts;
    return !texts ? "" : texts[r->best] ? texts[r->best] : texts[0] ? texts[0] : "";
}

char *serve_pieces_join(const serve_job *job, size_t of, int best) {
    return cli_pieces_join(job->pieces, job->count, of, result_of, &(ranked){job, best});
}
