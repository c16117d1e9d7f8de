/* Other names of options: aliases, former names, and names in other programs. */
#include <string.h>
#include "cli/cli.h"

const cli_alias cli_aliases[CLI_ALIASES] = {
    {'k', "beam", "beam-size"},
    {'a', NULL, "length-penalty"},
    {0, "lr", "learning-rate"},
};

typedef struct renamed_option {
    const char *other, *name;
} renamed_option;

/* The names of earlier versions of tfm. */
static const renamed_option FORMER[] = {
    {"accumulate", "gradient-accumulation-steps"},
    {"alpha", "length-penalty"},
    {"best-by", "best-metric"},
    {"block", "seq-len"},
    {"buffer", "buffer-size"},
    {"clip", "max-grad-norm"},
    {"coverage", "character-coverage"},
    {"deal", "balance"},
    {"end", "score-eos"},
    {"ffn", "ffn-dim"},
    {"from", "init-from"},
    {"ids", "token-ids"},
    {"max-new", "max-new-tokens"},
    {"min-new", "min-new-tokens"},
    {"positions", "max-positions"},
    {"rate", "learning-rate"},
    {"recompute", "gradient-checkpointing"},
    {"report-every", "logging-steps"},
    {"schedule", "lr-scheduler-type"},
    {"shard", "shard-optimizer"},
    {"store", "save-dtype"},
    {"top", "top-k"},
    {"updates", "max-steps"},
    {"valid-beam", "valid-beam-size"},
    {"valid-every", "eval-steps"},
    {"warmup", "warmup-steps"},
    {"wire", "comm-dtype"},
};

/* Names in transformers, CTranslate2, llama.cpp, vLLM, fairseq and Marian. Of several rows with one name, the first
 * with an option of the command applies. */
static const renamed_option FOREIGN[] = {
    {"accum-count", "gradient-accumulation-steps"},
    {"activation-fn", "activation"},
    {"adam-beta1", "beta1"},
    {"adam-beta2", "beta2"},
    {"adam-epsilon", "epsilon"},
    {"after-batches", "max-steps"},
    {"api-key-file", "api-keys"},
    {"attention-heads", "heads"},
    {"batch-size", "batch-tokens"},
    {"best-checkpoint-metric", "best-metric"},
    {"bf16", "precision"},
    {"block-size", "seq-len"},
    {"clip-norm", "max-grad-norm"},
    {"compute-type", "precision"},
    {"d-model", "width"},
    {"dec-depth", "decoder-layers"},
    {"device-map", "device"},
    {"dim-emb", "width"},
    {"disp-freq", "logging-steps"},
    {"do-sample", "sample"},
    {"dtype", "precision"},
    {"early-stopping", "patience"},
    {"early-stopping-patience", "patience"},
    {"enc-depth", "encoder-layers"},
    {"fp16", "precision"},
    {"grad-accumulation-steps", "gradient-accumulation-steps"},
    {"hidden-act", "activation"},
    {"hidden-size", "width"},
    {"intermediate-size", "ffn-dim"},
    {"label-smoothing-factor", "label-smoothing"},
    {"learn-rate", "learning-rate"},
    {"log-interval", "logging-steps"},
    {"max-batch-size", "batch-tokens"},
    {"max-completion-tokens", "max-new-tokens"},
    {"max-decoding-length", "max-length"},
    {"max-decoding-length", "max-new-tokens"},
    {"max-epochs", "epochs"},
    {"max-length", "max-new-tokens"},
    {"max-position-embeddings", "max-positions"},
    {"max-seq-length", "seq-len"},
    {"max-tokens", "max-new-tokens"},
    {"max-tokens", "batch-tokens"},
    {"max-update", "max-steps"},
    {"metric-for-best-model", "best-metric"},
    {"min-length", "min-new-tokens"},
    {"mini-batch-words", "batch-tokens"},
    {"model-name-or-path", "init-from"},
    {"model-name-or-path", "model"},
    {"n-predict", "max-new-tokens"},
    {"nbest", "n-best"},
    {"num-attention-heads", "heads"},
    {"num-beams", "beam-size"},
    {"num-decoder-layers", "decoder-layers"},
    {"num-encoder-layers", "encoder-layers"},
    {"num-hidden-layers", "decoder-layers"},
    {"num-hypotheses", "n-best"},
    {"num-key-value-heads", "kv-heads"},
    {"num-return-sequences", "n-best"},
    {"num-train-epochs", "epochs"},
    {"optimizer-delay", "gradient-accumulation-steps"},
    {"output-dir", "out"},
    {"output-dir", "output"},
    {"output", "out"},
    {"per-device-eval-batch-size", "batch-tokens"},
    {"per-device-train-batch-size", "batch-tokens"},
    {"pooling-type", "pooling"},
    {"predict", "max-new-tokens"},
    {"repeat-penalty", "repetition-penalty"},
    {"resume-from-checkpoint", "resume"},
    {"save-dir", "out"},
    {"save-steps", "eval-steps"},
    {"src-lang", "source-lang"},
    {"ssl-certfile", "tls-cert"},
    {"ssl-keyfile", "tls-key"},
    {"stop-sequences", "stop"},
    {"stop-strings", "stop"},
    {"tgt-lang", "target-lang"},
    {"tokenizer-name", "vocab"},
    {"torch-dtype", "precision"},
    {"train-file", "text"},
    {"train-steps", "max-steps"},
    {"update-freq", "gradient-accumulation-steps"},
    {"valid-freq", "eval-steps"},
    {"validation-file", "valid-text"},
    {"warmup-updates", "warmup-steps"},
};

static bool has_option(const cli_syntax *syntax, const char *name) {
    for (size_t i = 0; i < syntax->option_count; i++)
        if (strcmp(syntax->options[i].name, name) == 0)
            return true;
    for (size_t i = 0; i < CLI_ALIASES; i++)
        if (cli_aliases[i].name && strcmp(cli_aliases[i].name, name) == 0)
            return has_option(syntax, cli_aliases[i].option);
    return false;
}

static const char *find(const renamed_option *table, size_t count, const cli_syntax *syntax, const char *other) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].other, other) == 0 && has_option(syntax, table[i].name))
            return table[i].name;
    return NULL;
}

int cli_check_renamed(const cli_syntax *syntax, const char *given) {
    char word[64];
    const int length = (int)strcspn(given, "=");
    snprintf(word, sizeof(word), "%.*s", length - 2, given + 2);
    if (has_option(syntax, word) || strcmp(word, "help") == 0)
        return CLI_CONTINUE;
    const char *former = find(FORMER, CLI_COUNT(FORMER), syntax, word);
    if (former)
        return cli_usage_error(syntax, "unknown option %.*s: it is now --%s", length, given, former);
    for (char *at = word; (at = strchr(at, '_'));)
        *at = '-';
    const char *name = has_option(syntax, word) ? word : find(FOREIGN, CLI_COUNT(FOREIGN), syntax, word);
    name = name ? name : find(FORMER, CLI_COUNT(FORMER), syntax, word);
    return name ? cli_usage_error(syntax, "unknown option %.*s: use --%s", length, given, name) : CLI_CONTINUE;
}

const char *cli_former_name(const char *name) {
    for (size_t i = 0; i < CLI_COUNT(FORMER); i++)
        if (strcmp(FORMER[i].name, name) == 0)
            return FORMER[i].other;
    return NULL;
}

const char *cli_number_hint(const char *option, const char *text) {
    const bool norm = strcmp(option, "length-penalty") == 0 && (strcmp(text, "paper") == 0 || strcmp(text, "hf") == 0);
    return norm ? "; the formula is chosen by --length-norm" : "";
}
