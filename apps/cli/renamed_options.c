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

/* Names in transformers, CTranslate2, llama.cpp, vLLM, fairseq and Marian; the option may be followed by a value. Of
 * several rows with one name, the first with an option, and value, of the command applies. */
static const renamed_option FOREIGN[] = {
    {"accum-count", "gradient-accumulation-steps"},
    {"activation-fn", "activation"},
    {"adam-beta1", "beta1"},
    {"adam-beta2", "beta2"},
    {"adam-epsilon", "epsilon"},
    {"address", "host"},
    {"after-batches", "max-steps"},
    {"api-key-file", "api-keys"},
    {"attention-heads", "heads"},
    {"base-model", "init-from"},
    {"batch-size", "batch-tokens"},
    {"best-checkpoint-metric", "best-metric"},
    {"bf16", "precision bf16"},
    {"bind", "host"},
    {"block-size", "seq-len"},
    {"checkpoint", "resume"},
    {"clip-norm", "max-grad-norm"},
    {"compute-type", "precision"},
    {"context-length", "seq-len"},
    {"continue-from", "resume"},
    {"cors-allow-origins", "allow-origin"},
    {"cpu", "device cpu"},
    {"cpu-threads", "workers"},
    {"ctx-size", "seq-len"},
    {"cuda", "device gpu"},
    {"d-model", "width"},
    {"dec-depth", "decoder-layers"},
    {"dev-src", "valid-src"},
    {"dev-tgt", "valid-tgt"},
    {"device-map", "device"},
    {"dim-emb", "width"},
    {"disp-freq", "logging-steps"},
    {"do-sample", "sample"},
    {"draw", "sample"},
    {"dtype", "precision"},
    {"early-stop", "patience"},
    {"early-stopping", "patience"},
    {"early-stopping-patience", "patience"},
    {"embd-normalize", "normalize"},
    {"enc-depth", "encoder-layers"},
    {"eval-every", "eval-steps"},
    {"eval-freq", "eval-steps"},
    {"file", "input"},
    {"fp16", "precision fp16"},
    {"fp16", "precision bf16"},
    {"fp32", "precision fp32"},
    {"gpu", "device gpu"},
    {"grad-accumulation-steps", "gradient-accumulation-steps"},
    {"grad-clip", "max-grad-norm"},
    {"half", "precision fp16"},
    {"half", "precision bf16"},
    {"hidden-act", "activation"},
    {"hidden-dim", "width"},
    {"hidden-size", "width"},
    {"input-file", "input"},
    {"int8", "precision int8"},
    {"inter-threads", "workers"},
    {"intermediate-size", "ffn-dim"},
    {"iterations", "runs"},
    {"iters", "runs"},
    {"label-smoothing-factor", "label-smoothing"},
    {"learn-rate", "learning-rate"},
    {"load-in-8bit", "precision int8"},
    {"log-interval", "logging-steps"},
    {"max-batch-size", "batch-tokens"},
    {"max-completion-tokens", "max-new-tokens"},
    {"max-decoding-length", "max-length"},
    {"max-decoding-length", "max-new-tokens"},
    {"max-epochs", "epochs"},
    {"max-length", "max-new-tokens"},
    {"max-new-tokens", "max-length"},
    {"max-position-embeddings", "max-positions"},
    {"max-seq-length", "seq-len"},
    {"max-tokens", "max-new-tokens"},
    {"max-tokens", "batch-tokens"},
    {"max-update", "max-steps"},
    {"metric-for-best-model", "best-metric"},
    {"min-length", "min-new-tokens"},
    {"min-tokens", "min-new-tokens"},
    {"mini-batch-words", "batch-tokens"},
    {"model-dir", "model"},
    {"model-name-or-path", "init-from"},
    {"model-name-or-path", "model"},
    {"model-path", "model"},
    {"n-ctx", "seq-len"},
    {"n-embd", "width"},
    {"n-head", "heads"},
    {"n-layer", "decoder-layers"},
    {"n-predict", "max-new-tokens"},
    {"nbest", "n-best"},
    {"normalize-embeddings", "normalize"},
    {"num-attention-heads", "heads"},
    {"num-beams", "beam-size"},
    {"num-decoder-layers", "decoder-layers"},
    {"num-encoder-layers", "encoder-layers"},
    {"num-epochs", "epochs"},
    {"num-heads", "heads"},
    {"num-hidden-layers", "decoder-layers"},
    {"num-hypotheses", "n-best"},
    {"num-key-value-heads", "kv-heads"},
    {"num-layers", "decoder-layers"},
    {"num-return-sequences", "n-best"},
    {"num-threads", "workers"},
    {"num-train-epochs", "epochs"},
    {"num-workers", "workers"},
    {"optimizer-delay", "gradient-accumulation-steps"},
    {"origin", "allow-origin"},
    {"out-file", "output"},
    {"output", "out"},
    {"output-dir", "out"},
    {"output-dir", "output"},
    {"output-file", "output"},
    {"outtype", "precision"},
    {"per-device-eval-batch-size", "batch-tokens"},
    {"per-device-train-batch-size", "batch-tokens"},
    {"pooling-mode", "pooling"},
    {"pooling-strategy", "pooling"},
    {"pooling-type", "pooling"},
    {"predict", "max-new-tokens"},
    {"pretrained", "init-from"},
    {"prompt-name", "prompt"},
    {"quantization", "precision"},
    {"random-seed", "seed"},
    {"repeat-penalty", "repetition-penalty"},
    {"repetitions", "runs"},
    {"resume-from-checkpoint", "resume"},
    {"save-dir", "out"},
    {"save-every", "eval-steps"},
    {"save-steps", "eval-steps"},
    {"source", "src"},
    {"source-language", "source-lang"},
    {"src-file", "src"},
    {"src-lang", "source-lang"},
    {"ssl-cert-file", "tls-cert"},
    {"ssl-certfile", "tls-cert"},
    {"ssl-key-file", "tls-key"},
    {"ssl-keyfile", "tls-key"},
    {"stop-sequence", "stop"},
    {"stop-sequences", "stop"},
    {"stop-strings", "stop"},
    {"target", "tgt"},
    {"target-language", "target-lang"},
    {"tgt-file", "tgt"},
    {"tgt-lang", "target-lang"},
    {"threads", "workers"},
    {"tokenizer", "vocab"},
    {"tokenizer-name", "vocab"},
    {"tokenizer-path", "vocab"},
    {"top-n", "top-k"},
    {"torch-dtype", "precision"},
    {"train-file", "text"},
    {"train-src", "src"},
    {"train-steps", "max-steps"},
    {"train-tgt", "tgt"},
    {"type", "precision"},
    {"update-freq", "gradient-accumulation-steps"},
    {"valid-freq", "eval-steps"},
    {"validation-file", "valid-text"},
    {"warmup-updates", "warmup-steps"},
    {"weight-type", "precision"},
};

/* Options of other programs that are an argument here. The option -x has the name "x". */
static const struct {
    const char *command, *other, *use;
} ARGUMENTS[] = {
    {"attention", "source", "TEXT without an option"}, {"generate", "f", "-i FILE"},
    {"generate", "p", "PROMPT without an option"},     {"generate", "prompt", "PROMPT without an option"},
    {"info", "m", "MODEL without an option"},          {"info", "model", "MODEL without an option"},
    {"quantize", "m", "MODEL without an option"},      {"quantize", "model", "MODEL without an option"},
    {"selftest", "op", "OP without an option"},
};

/* Whether the words "a|b|c" of a choice include this value. */
static bool has_choice(const char *words, const char *value) {
    const size_t length = strlen(value);
    while (strncmp(words, value, length) != 0 || (words[length] && words[length] != '|')) {
        words += strcspn(words, "|");
        if (!*words++)
            return false;
    }
    return true;
}

/* `name` may be followed by a blank and a value. */
static bool has_option(const cli_syntax *syntax, const char *name) {
    const size_t length = strcspn(name, " ");
    const char *const value = name[length] ? name + length + 1 : NULL;
    for (size_t i = 0; i < syntax->option_count; i++) {
        const cli_option *const o = &syntax->options[i];
        if (strncmp(o->name, name, length) == 0 && !o->name[length])
            return !value || o->kind != CLI_CHOICE || has_choice(o->argument, value);
    }
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

/* What to use instead of an option of another program that is no option here, or NULL. */
static const char *argument_for(const cli_syntax *syntax, const char *other) {
    for (size_t i = 0; i < CLI_COUNT(ARGUMENTS); i++)
        if (strcmp(ARGUMENTS[i].command, syntax->name) == 0 && strcmp(ARGUMENTS[i].other, other) == 0)
            return ARGUMENTS[i].use;
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
    if (name)
        return cli_usage_error(syntax, "unknown option %.*s: use --%s", length, given, name);
    const char *argument = argument_for(syntax, word);
    return argument ? cli_usage_error(syntax, "unknown option %.*s: give %s", length, given, argument) : CLI_CONTINUE;
}

int cli_unknown_letter(const cli_syntax *syntax, int letter) {
    const char name[16] = {(char)letter}; /* with less room, GCC warns that it cannot equal longer names */
    const char *argument = argument_for(syntax, name);
    return argument ? cli_usage_error(syntax, "unknown option -%c: give %s", letter, argument)
                    : cli_usage_error(syntax, "there is no option -%c", letter);
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
