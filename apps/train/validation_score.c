/* A model's scores on the validation set. */
#include <math.h>
#include "train/train.h"

static bool should_continue(void *user) {
    (void)user;
    return !train_stop_requested();
}

static bool on_progress(void *user, uint64_t done, uint64_t total) {
    (void)done, (void)total;
    return should_continue(user);
}

static tfm_status run_texts(const train_validation *v, tfm_model *model, train_score *score) {
    cli_evaluation m = {0};
    const tfm_text_options options = {
        .line_bytes = v->target_bytes, .score_eos = !v->chat, .chat = v->chat, .progress = on_progress};
    const tfm_status status = cli_evaluate_texts(&m, model, (const char *const *)v->targets, v->count, &options);
    *score = (train_score){.nll = cli_evaluation_nll(&m), .ppl = cli_evaluation_perplexity(&m)};
    return status;
}

tfm_status train_validation_run(const train_validation *v, tfm_model *model, train_score *score) {
    if (v->texts)
        return run_texts(v, model, score);
    cli_evaluation m = {.references = (const char *const *)v->targets,
                        .reference_bytes = v->target_bytes,
                        .source_name = "the validation's source",
                        .reference_name = "its target"};
    tfm_search_options search = v->search;
    search.should_continue = should_continue;
    const tfm_text_options text = {.line_bytes = v->source_bytes,
                                   .truncate = true,
                                   .progress = on_progress,
                                   .source_language = v->source_language,
                                   .target_language = v->target_language};
    tfm_status status = tfm_metrics_new(&m.metrics, &v->metrics);
    if (status != TFM_OK)
        return status;
    status = cli_evaluate_pairs(&m, model, (const char *const *)v->sources, v->count, &text, &search);
    score->nll = cli_evaluation_nll(&m);
    score->ppl = exp(score->nll);
    score->bleu = tfm_metrics_bleu(m.metrics).score;
    score->chrf = tfm_metrics_chrf(m.metrics);
    tfm_metrics_free(&m.metrics);
    return status;
}
