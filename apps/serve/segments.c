/* Splits the texts of a request into segments of a job, and joins the results. */
#include <stdlib.h>
#include <string.h>
#include "serve/request.h"
#include "serve/server.h"

static bool check_text(serve_request *r, const char *text, size_t *characters, serve_reply *refusal) {
    const int limit = r->chars;
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

/* Whether an earlier text has the same model. */
static bool seen_before(serve_model *const *models, size_t text) {
    for (size_t i = 0; i < text; i++)
        if (models[i] == models[text])
            return true;
    return false;
}

/* Adds the segments of all texts, sorted by model. False without memory. */
static bool split_all(cli_segments *c, const char *const *texts, size_t count, bool sentences,
                      serve_model *const *models) {
    bool good = true;
    for (size_t first = 0; good && first < count; first++) {
        if (models && seen_before(models, first))
            continue;
        for (size_t i = first; good && i < (models ? count : first + 1); i++)
            if (!models || models[i] == models[first])
                good = cli_segments_split(c, texts[i], i, sentences, models ? models[first]->source : NULL);
    }
    return good;
}

serve_job *serve_segments_split(serve_request *r, const char *const *texts, size_t count, bool sentences,
                                serve_model *const *models, serve_reply *refusal) {
    cli_segments c = {0};
    size_t characters = 0;
    for (size_t i = 0; i < count; i++)
        if (!check_text(r, texts[i], &characters, refusal))
            return NULL;
    bool good = split_all(&c, texts, count, sentences, models);
    const size_t most = (size_t)r->server->options->limits.lines;
    serve_job *job = good && c.count <= most ? serve_job_new(c.count) : NULL;
    if (job && models && !serve_job_set_models(job, models, count))
        serve_job_free(job), job = NULL;
    if (job) {
        if (c.count > 0)
            memcpy(job->segments, c.items, c.count * sizeof(*c.items));
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

/* The best-th text of a segment, or the best one if there are fewer; a blank segment has none. */
static const char *result_of(const void *user, size_t segment) {
    const ranked *r = user;
    char *const *texts = r->job->results[segment].texts;
    return !texts ? "" : texts[r->best] ? texts[r->best] : texts[0] ? texts[0] : "";
}

char *serve_segments_join(const serve_job *job, size_t of, int best) {
    return cli_segments_join(job->segments, job->count, of, result_of, &(ranked){job, best});
}
