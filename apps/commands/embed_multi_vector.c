/* Vectors of tokens: a list of vectors for each line. */
#include "commands/embed.h"

/* Lines up to this one have been written. */
typedef struct output {
    embed_job *job;
    size_t next;
} output;

/* A bad line is null, or a single empty line of text. */
static bool put_bad(output *w, size_t line) {
    for (; w->next < line; w->next++)
        fputs(w->job->format == EMBED_JSON ? "null\n" : "\n", w->job->out.file);
    return cli_output_ok(&w->job->out);
}

/* JSON: a list of lists. Text: a line for each token, then an empty one. */
static bool on_vectors(void *user, const tfm_token_vectors *v) {
    output *w = user;
    FILE *file = w->job->out.file;
    const bool json = w->job->format == EMBED_JSON;
    cli_progress(NULL); /* both may go to one terminal */
    if (!put_bad(w, v->line))
        return false;
    fputs(json ? "[" : "", file);
    for (size_t i = 0; i < v->count; i++) {
        fputs(!json ? "" : i == 0 ? "[" : ",[", file);
        for (int k = 0; k < v->width; k++)
            fprintf(file, "%s%.9g",
                    k == 0 ? ""
                    : json ? ","
                           : " ",
                    (double)v->vectors[i * (size_t)v->width + (size_t)k]);
        fputs(json ? "]" : "\n", file);
    }
    fputs(json ? "]\n" : "\n", file);
    w->next = v->line + 1;
    return cli_output_ok(&w->job->out);
}

int embed_multi_vector(embed_job *j) {
    output w = {.job = j};
    const tfm_text_role role = j->query ? TFM_ROLE_QUERY : TFM_ROLE_DOCUMENT;
    const tfm_status status = tfm_embed_tokens(j->embedder, j->in.text, j->in.count, role, &j->options, on_vectors, &w);
    if (status == TFM_ERROR_CANCELLED)
        return cli_output_flush(&j->out);
    if (status != TFM_OK)
        return cli_fail_library();
    return put_bad(&w, j->in.count) ? CLI_OK : cli_output_flush(&j->out);
}
