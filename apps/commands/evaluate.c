/* Evaluates a model on pairs of lines. */
#include <math.h>
#include <stdlib.h>
#include "cli/cli.h"

static bool on_translation(void *user, const tfm_translation *translation) {
    cli_evaluation *m = user;
    const size_t line = translation->line;
    char *hypothesis = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&hypothesis, &bytes);
    if (memory) {
        cli_write_line(memory, translation->text);
        fclose(memory);
    }
    bool added = hypothesis && tfm_metrics_add(m->metrics, hypothesis, bytes, m->references[line],
                                               m->reference_bytes[line]) == TFM_OK;
    if (!hypothesis)
        cli_fail("out of memory");
    else if (!added)
        cli_fail("line %zu of %s and %s: %s", m->first + line + 1, m->source_name, m->reference_name,
                 tfm_error_message());
    free(hypothesis);
    return added;
}

static bool on_score(void *user, size_t line, double log_prob, size_t tokens) {
    cli_evaluation *m = user;
    (void)line;
    if (tokens > 0) {
        m->log_prob += log_prob;
        m->tokens += tokens;
    }
    return true;
}

tfm_status cli_evaluate_pairs(cli_evaluation *m, tfm_model *model, const char *const *sources, size_t count,
                              const tfm_text_options *text, const tfm_search_options *search) {
    tfm_status status = tfm_translate_lines(model, sources, count, text, search, on_translation, m);
    if (status == TFM_OK)
        status = tfm_score(model, sources, m->references, count, text, on_score, m);
    return status;
}

tfm_status cli_evaluate_texts(cli_evaluation *m, tfm_model *model, const char *const *texts, size_t count,
                              const tfm_text_options *options) {
    return tfm_score_texts(model, texts, count, options, on_score, m);
}

double cli_evaluation_nll(const cli_evaluation *m) {
    return m->tokens > 0 ? -m->log_prob / (double)m->tokens : NAN;
}

double cli_evaluation_perplexity(const cli_evaluation *m) {
    return exp(cli_evaluation_nll(m));
}
