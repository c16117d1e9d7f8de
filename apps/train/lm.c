/* Runs on plain text, which train decoder-only models. */
#include <math.h>
#include <string.h>
#include "train/train.h"

/* The first given option that is for pairs only, or NULL. */
static const char *find_paired(const train_recipe *o) {
    const train_recipe plain = train_recipe_unset();
    const size_t files = 6;
    const struct {
        const char *name;
        bool given;
    } all[] = {
        {"src", o->sources.count > 0},
        {"tgt", o->targets.count > 0},
        {"tsv", o->tsvs.count > 0},
        {"valid-src", o->valid_source},
        {"valid-tgt", o->valid_target},
        {"valid-tsv", o->valid_tsv},
        {"max-length", o->max_length != plain.max_length},
        {"source-lang", o->source_language},
        {"target-lang", o->target_language},
        {"separate-vocab", o->separate},
        {"subword-alpha", o->subword_alpha != plain.subword_alpha},
        {"encoder-layers", o->encoder_layers != plain.encoder_layers},
        {"pre-norm", o->pre_norm},
        {"valid-beam-size", o->valid_beam_size != plain.valid_beam_size},
        {"valid-tokenize", o->valid_tokenize != plain.valid_tokenize},
        {"valid-lowercase", o->valid_lowercase},
    };
    /* The recipe of a resumed run has values for the rest. */
    for (size_t i = 0; i < (o->resume ? files : CLI_COUNT(all)); i++)
        if (all[i].given)
            return all[i].name;
    return NULL;
}

static bool is_named_jsonl(const char *path) {
    const char *end = strrchr(path, '.');
    return end && (strcmp(end, ".jsonl") == 0 || strcmp(end, ".ndjson") == 0);
}

/* Whether a separator has only line ends, or a literal `\n` from the shell. */
static bool is_line_ends(const char *separator) {
    while (*separator == '\n' || strncmp(separator, "\\n", 2) == 0)
        separator += *separator == '\n' ? 1 : 2;
    return !*separator;
}

/* How texts are separated: by the options, or else by the file names. */
static int settle_documents(train_recipe *o, const cli_syntax *syntax) {
    size_t named = 0;
    for (size_t i = 0; i < o->texts.count; i++)
        named += is_named_jsonl(o->texts.items[i]);
    if (o->separator && o->jsonl)
        return cli_usage_error(syntax, "--separator and --jsonl do not go together: give one");
    if (o->separator && is_line_ends(o->separator))
        o->separator = "";
    if (o->separator && strpbrk(o->separator, "\r\n"))
        return cli_usage_error(syntax, "--separator contains a line end: give it without, it is matched within lines");
    const bool all = named > 0 && named == o->texts.count, checked = o->valid_text && is_named_jsonl(o->valid_text);
    if (!o->separator && !o->jsonl && !all && (named > 0 || checked))
        return cli_usage_error(syntax,
                               "files of JSON lines (*.jsonl) and others do not go together: give --jsonl if all "
                               "contain JSON lines");
    o->jsonl = o->jsonl || (!o->separator && all);
    return CLI_CONTINUE;
}

static int check_chat(const train_recipe *o, const cli_syntax *syntax) {
    if (!train_is_chat(o))
        return cli_usage_error(syntax, "--valid-chat is for runs on --chat");
    if (o->texts.count > 0 || o->valid_text || train_has_documents(o))
        return cli_usage_error(syntax, "--%s is for plain text, and --chat for conversations: give one kind",
                               o->texts.count > 0 ? "text"
                               : o->valid_text    ? "valid-text"
                               : o->separator     ? "separator"
                                                  : "jsonl");
    if (!o->init_from)
        return cli_usage_error(syntax, "--chat needs a model with a chat template: give --init-from MODEL");
    return CLI_CONTINUE;
}

int train_lm_check(train_recipe *o, const cli_syntax *syntax) {
    const bool texts = train_is_lm(o);
    const char *paired = texts ? find_paired(o) : NULL;
    if (paired)
        return cli_usage_error(syntax, "--%s is for pairs of lines, and --%s is %s: give one kind", paired,
                               train_is_chat(o) ? "chat" : "text",
                               train_is_chat(o) ? "for conversations" : "plain text");
    if (train_is_chat(o) || o->valid_chat)
        return check_chat(o, syntax);
    if (texts)
        return o->resume ? CLI_CONTINUE : settle_documents(o, syntax);
    if (o->valid_text || train_has_documents(o))
        return cli_usage_error(syntax, "--%s is for runs on --text",
                               o->valid_text  ? "valid-text"
                               : o->separator ? "separator"
                                              : "jsonl");
    if (!o->resume && (o->seq_len >= 0 || o->kv_heads >= 0 || o->family != FAMILY_GPT))
        return cli_usage_error(syntax, "--family, --kv-heads and --seq-len are for runs on --text");
    const size_t sources = o->sources.count, targets = o->targets.count, both = o->tsvs.count;
    if (both + sources + targets == 0)
        return cli_usage_error(
            syntax,
            "there is no training text: give --src and --tgt, or --tsv, or --text or --chat for a decoder-only model");
    if (both == 0 && targets == 0)
        return cli_usage_error(syntax, "--src %s has no --tgt: give --tgt FILE", o->sources.items[0]);
    if (both == 0 && sources == 0)
        return cli_usage_error(syntax, "--tgt %s has no --src: give --src FILE", o->targets.items[0]);
    if (both > 0 && sources + targets > 0)
        return cli_usage_error(syntax, "give --src and --tgt, or --tsv, not both");
    if (sources != targets)
        return cli_usage_error(syntax,
                               "--src has %zu file%s and --tgt has %zu: give a --tgt for each --src, in their order",
                               sources, sources == 1 ? "" : "s", targets);
    if (!o->valid_source != !o->valid_target || (o->valid_tsv && o->valid_source))
        return cli_usage_error(syntax,
                               "the validation set is incomplete: give --valid-src and --valid-tgt, or --valid-tsv");
    return CLI_CONTINUE;
}

/* 256, or 1024 for conversations, or the maximum of the fine-tuned model, if that is less. An unreadable model is
 * refused later. */
static int default_seq_len(const train_recipe *o) {
    tfm_model_info info;
    const int most = train_is_chat(o) ? 1024 : 256;
    return o->init_from &&
                   tfm_model_read_info(&info, o->init_from, &(tfm_model_options){.no_tokenizer = true}) == TFM_OK &&
                   info.max_positions < most
               ? info.max_positions
               : most;
}

/* GPT-2's and Llama's own activations. */
void train_lm_settle(train_recipe *o) {
    enum { GELU_TANH = 2, SILU = 3 }; /* indices of --activation's choices */
    if (o->seq_len < 0)
        o->seq_len = default_seq_len(o);
    if (o->max_positions < 0)
        o->max_positions = o->seq_len;
    if (o->activation < 0)
        o->activation = o->family == FAMILY_LLAMA ? SILU : GELU_TANH;
    if (isnan(o->label_smoothing))
        o->label_smoothing = 0;
    if (isnan(o->dropout))
        o->dropout = 0.1;
}

tfm_model_shape train_lm_shape(const train_run *r) {
    static const tfm_activation activations[] = {TFM_RELU, TFM_GELU, TFM_GELU_TANH, TFM_SILU};
    const train_recipe *o = &r->recipe;
    const tfm_tokenizer_info text = *tfm_tokenizer_get_info(r->tokenizer);
    return (tfm_model_shape){.family = o->family == FAMILY_LLAMA ? "llama" : "gpt2",
                             .width = o->width,
                             .heads = o->heads,
                             .kv_heads = o->kv_heads,
                             .ffn_dim = o->ffn_dim,
                             .decoder_layers = o->decoder_layers,
                             .source_vocab_size = text.target_size,
                             .max_positions = o->max_positions,
                             .pad_id = text.target_pad,
                             .eos_id = text.target_eos,
                             .start_id = text.bos >= 0 ? text.bos : text.target_eos,
                             .activation = activations[o->activation],
                             .init = (tfm_init)o->init,
                             .seed = (uint64_t)o->seed};
}
