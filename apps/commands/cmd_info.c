/* tfm info: describes a model directory. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <getopt.h>
#include <tfm/rerank.h>
#include "cli/cli.h"

static const char *const ACTIVATIONS[] = {
    [TFM_NO_ACTIVATION] = "none",  [TFM_RELU] = "relu",       [TFM_GELU] = "gelu",
    [TFM_GELU_TANH] = "gelu_tanh", [TFM_SILU] = "silu",       [TFM_QUICK_GELU] = "quick_gelu",
    [TFM_RELU2] = "relu2",         [TFM_RELU6] = "relu6",     [TFM_LEAKY_RELU] = "leaky_relu",
    [TFM_SIGMOID] = "sigmoid",     [TFM_TANH] = "tanh",       [TFM_MISH] = "mish",
    [TFM_LAPLACE] = "laplace",     [TFM_GELU_10] = "gelu_10", [TFM_HARDSWISH] = "hardswish",
};

/* Whether matrices are stored as integers, "I8" or "GPTQ int4": such a model is not trained. */
static bool is_quantized(const tfm_model_info *m) {
    bool found = false;
    for (int i = 0; i < m->weight_type_count; i++)
        found |= strcmp(m->weight_types[i].name, "I8") == 0 || strstr(m->weight_types[i].name, " int");
    return found;
}

enum { MAX_COMMANDS = 6 };

/* The commands that take the model; returns how many. `text`: there is a tokenizer. */
static size_t supported_commands(const char *names[MAX_COMMANDS], const tfm_model_info *m, bool text, bool embeds) {
    const bool encodes = m->encoder_layers > 0, decodes = m->decoder_layers > 0;
    const bool generates = decodes && !encodes && m->has_lm_head && !embeds;
    const struct {
        const char *name;
        bool runs;
    } all[] = {
        {"generate", generates && text},
        {"generate --token-ids", generates && !text},
        {"translate", encodes && decodes && m->has_lm_head && text},
        {"score", (generates || (encodes && decodes && m->has_lm_head)) && text},
        {"eval", encodes && decodes && m->has_lm_head && text},
        {"attention", encodes && decodes && m->has_lm_head && text},
        {"embed", !(encodes && decodes) && text && m->classes != 1},
        {"rerank", text && (embeds || m->classes == 1)},
        {"embed --classify", m->classes > 0 && text && !embeds},
        {"embed --fill-mask", encodes && !decodes && m->has_lm_head && text && !embeds},
        {"train --init-from", decodes && m->has_lm_head && m->can_save && text && !embeds &&
                                  (strcmp(m->weight_format, "GGUF") == 0 || !is_quantized(m))},
    };
    size_t count = 0;
    for (size_t i = 0; i < CLI_COUNT(all) && count < MAX_COMMANDS; i++)
        if (all[i].runs)
            names[count++] = all[i].name;
    return count;
}

/* By the choice of --kv-precision. */
static const char *const KV_PRECISIONS[] = {"fp32", "fp32", "fp16", "bf16", "int8"};

/* The KV cache of a sequence of this many tokens. */
static uint64_t kv_bytes(const tfm_model_info *m, int ctx_size) {
    return m->kv_token_bytes * (uint64_t)ctx_size;
}

/* `without`: why the tokenizer cannot be opened, or NULL. `embedder`: may be NULL. Returns whether a command takes the
 * model. */
static bool print_json(const tfm_model_info *m, const char *without, json_t *embedder, int ctx_size, int kv_precision) {
    const char *names[MAX_COMMANDS];
    const size_t count = supported_commands(names, m, !without, embedder);
    json_t *all = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:b, s:b, s:s, s:s, s:i, s:I, s:I, s:I, "
        "s:i, s:i, s:i, s:i}",
        "family", m->family, "width", m->width, "encoder_layers", m->encoder_layers, "decoder_layers",
        m->decoder_layers, "encoder_heads", m->encoder_heads, "decoder_heads", m->decoder_heads, "encoder_ffn_dim",
        m->encoder_ffn_dim, "decoder_ffn_dim", m->decoder_ffn_dim, "source_vocab_size", m->source_vocab_size,
        "target_vocab_size", m->target_vocab_size, "max_positions", m->max_positions, "activation",
        ACTIVATIONS[m->activation], "pre_norm", m->pre_norm, "tied_embeddings", m->tied_embeddings, "dtype",
        m->stored_dtype, "weights", m->weight_format, "weight_files", m->weight_files, "parameters",
        (json_int_t)m->parameters, "parameter_bytes", (json_int_t)m->parameter_bytes, "estimated_bytes",
        (json_int_t)m->estimated_bytes, "pad_id", m->pad_id, "eos_id", m->eos_id, "start_id", m->start_id, "beam_size",
        m->beam_size);
    json_t *more =
        json_pack("{s:b, s:s, s:i, s:i, s:i, s:i, s:s, s:s, s:i, s:i, s:b, s:b, s:b, s:b, s:b, s:b, s:s*, s:s*}",
                  "runs", count > 0, "kind", m->kind, "encoder_kv_heads", m->encoder_kv_heads, "decoder_kv_heads",
                  m->decoder_kv_heads, "encoder_head_width", m->encoder_head_width, "decoder_head_width",
                  m->decoder_head_width, "positions", m->position_encoding, "rope_type", m->rope_type, "window",
                  m->sliding_window, "window_layers", m->sliding_window_layers, "rms_norm", m->rms_norm,
                  "sandwich_norm", m->sandwich_norm, "gated", m->gated, "has_output", m->has_lm_head, "recurrent",
                  m->has_ssru, "shortlist", m->has_shortlist, "no_tokenizer", without, "part_of", m->multimodal_class);
    if (all && more)
        json_object_update(all, more);
    json_t *commands = json_array(), *types = json_array();
    for (int i = 0; i < m->weight_type_count; i++)
        json_array_append_new(types,
                              json_pack("{s:s, s:i, s:I}", "type", m->weight_types[i].name, "tensors",
                                        m->weight_types[i].tensors, "bytes", (json_int_t)m->weight_types[i].bytes));
    json_object_set_new(all, "weight_types", types);
    json_object_set_new(all, "ctx_size", json_integer(ctx_size));
    json_object_set_new(all, "kv_precision", json_string(KV_PRECISIONS[kv_precision]));
    json_object_set_new(all, "kv_cache_bytes", json_integer((json_int_t)kv_bytes(m, ctx_size)));
    for (size_t i = 0; i < count; i++)
        json_array_append_new(commands, json_string(names[i]));
    json_object_set_new(all, "commands", commands);
    if (embedder)
        json_object_set_new(all, "embedder", embedder);
    json_decref(more);
    cli_print_json(all);
    return count > 0;
}

/* The settings of a sentence-transformers directory, without its encoder. */
static json_t *embedder_json(const tfm_embedder_info *e) {
    return json_pack("{s:i, s:i, s:s, s:b, s:b, s:i, s:I}", "width", e->width, "max_tokens", e->max_tokens, "pooling",
                     e->pooling, "normalized", e->normalized, "lower_case", e->lower_case, "dense", e->dense_layers,
                     "prompts", (json_int_t)e->prompt_count);
}

static void print_embedder(const tfm_embedder_info *e) {
    printf("embeddings        %d wide, pooling %s%s", e->width, e->pooling, e->normalized ? ", normalized" : "");
    if (e->dense_layers)
        printf(", with %d dense layer%s", e->dense_layers, e->dense_layers > 1 ? "s" : "");
    printf("\ntexts             up to %d tokens%s", e->max_tokens, e->lower_case ? ", lowercased" : "");
    if (e->prompt_count)
        printf("; %zu prompt%s to choose from", e->prompt_count, e->prompt_count > 1 ? "s" : "");
    printf("\n");
}

static void print_stack(const char *name, int layers, int heads, int kv_heads, int head_width, int feed_forward) {
    if (layers == 0)
        return;
    printf("%-18s%d layers, %d heads of %d", name, layers, heads, head_width);
    if (kv_heads != heads)
        printf(", %d KV heads", kv_heads);
    printf(", feed-forward %d\n", feed_forward);
}

static void print_vocabulary(const tfm_model_info *m) {
    const bool both = m->encoder_layers > 0 && m->decoder_layers > 0;
    const char *output = !m->has_lm_head      ? "no output projection"
                         : m->tied_embeddings ? "output tied"
                                              : "untied output projection";
    if (both)
        printf("vocabulary        %d source, %d target; %s%s\n", m->source_vocab_size, m->target_vocab_size, output,
               m->has_lm_head && m->tied_embeddings ? " to the target embedding" : "");
    else
        printf("vocabulary        %d; %s%s\n", m->source_vocab_size + m->target_vocab_size, output,
               m->has_lm_head && m->tied_embeddings ? " to the embedding" : "");
}

static void print_ids(const tfm_model_info *m) {
    const struct {
        const char *name;
        int id;
    } ids[] = {{"pad", m->pad_id}, {"end", m->eos_id}, {"start", m->start_id}};
    const size_t count = m->decoder_layers > 0 ? CLI_COUNT(ids) : 1; /* encoders have no BOS or EOS of output */
    printf("special ids      ");
    for (size_t i = 0; i < count; i++)
        if (ids[i].id >= 0)
            printf(" %s %d%s", ids[i].name, ids[i].id, i + 1 < count ? "," : "");
        else
            printf(" no %s%s", ids[i].name, i + 1 < count ? "," : "");
    printf("\n");
}

/* Types by size: "Q4_1 210 tensors 80.1 MiB". */
static void print_types(const tfm_model_info *m) {
    for (int i = 0; i < m->weight_type_count; i++)
        printf("%s%s %d tensor%s %.1f MiB", i ? ", " : "types             ", m->weight_types[i].name,
               m->weight_types[i].tensors, m->weight_types[i].tensors == 1 ? "" : "s",
               (double)m->weight_types[i].bytes / (1 << 20));
    if (m->weight_type_count)
        printf("\n");
}

static bool print_table(const tfm_model_info *m, const char *without, const tfm_embedder_info *embedder, int ctx_size,
                        int kv_precision) {
    const double mib = 1 << 20;
    const bool both = m->encoder_layers > 0 && m->decoder_layers > 0;
    printf("architecture      %s %s, %s%s, %s%s\n", m->family, m->kind,
           m->sandwich_norm ? "norms around"
           : m->pre_norm    ? "pre-norm"
                            : "post-norm",
           m->rms_norm ? " (RMS)" : "", ACTIVATIONS[m->activation], m->gated ? " with a gate" : "");
    if (m->multimodal_class)
        printf("part of           %s: text only, without images\n", m->multimodal_class);
    printf("width             %d\n", m->width);
    print_stack("encoder", m->encoder_layers, m->encoder_heads, m->encoder_kv_heads, m->encoder_head_width,
                m->encoder_ffn_dim);
    print_stack("decoder", m->decoder_layers, m->decoder_heads, m->decoder_kv_heads, m->decoder_head_width,
                m->decoder_ffn_dim);
    if (m->has_ssru)
        printf("recurrence        SSRU cells in the decoder instead of self-attention\n");
    printf("positions         %d, %s", m->max_positions, m->position_encoding);
    printf(strcmp(m->rope_type, "none") != 0 && strcmp(m->rope_type, "default") != 0 ? " (%s)\n" : "\n", m->rope_type);
    if (m->sliding_window_layers)
        printf("window            %d tokens, in %d layers\n", m->sliding_window, m->sliding_window_layers);
    print_vocabulary(m);
    if (m->has_shortlist)
        printf("shortlist         yes: decoding is limited to likely translations of the source tokens\n");
    print_ids(m);
    if (embedder)
        print_embedder(embedder);
    if (m->decoder_layers && !embedder)
        printf("default beam      %d\n", m->beam_size);
    printf("weights           %s, %s", m->weight_format, m->stored_dtype);
    printf(m->weight_files == 1 ? "\n" : ", in %d files\n", m->weight_files);
    print_types(m);
    printf("parameters        %" PRIu64 " (%.1f MiB on the device)\n", m->parameters, (double)m->parameter_bytes / mib);
    if (m->kv_token_bytes && !embedder)
        printf("KV cache          %.1f MiB on the device for a sequence of %d tokens, in %s\n",
               (double)kv_bytes(m, ctx_size) / mib, ctx_size, KV_PRECISIONS[kv_precision]);
    printf("estimated memory  %.1f MiB on the device while %s\n", (double)m->estimated_bytes / mib,
           both                             ? "translating"
           : m->decoder_layers && !embedder ? "generating"
                                            : "encoding");
    const char *names[MAX_COMMANDS];
    const size_t count = supported_commands(names, m, !without, embedder);
    for (size_t i = 0; i < count; i++)
        printf("%s%s%s", i ? ", " : "commands          ", names[i], i + 1 < count ? "" : "\n");
    if (without)
        printf("tokenizer         unavailable, so the model takes no text: %s\n", without);
    return count > 0;
}

/* The type and class of an unsupported model in config.json, before the reason. */
static int print_unsupported(const char *dir, bool json, bool embeds) {
    char path[4096], unread[CLI_REASON];
    const char *why = tfm_error_message();
    snprintf(path, sizeof(path), "%s/config.json", dir);
    json_t *config = cli_json_load(path, unread);
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const json_t *architectures = json_object_get(config, "architectures");
    const char *class_name = json_string_value(json_array_get(architectures, 0));
    if (!type && !class_name && embeds)
        type = "sentence-transformers";
    if (json && (json_is_object(config) || embeds)) {
        cli_print_json(json_pack("{s:b, s:s, s:s*, s:s*}", "runs", 0, "reason", why, "model_type", type, "architecture",
                                 class_name));
    } else if (type || class_name) {
        printf("architecture      %s%s%s\n", type ? type : "", type && class_name ? ", " : "",
               class_name ? class_name : "");
        printf("runs              no\n");
    }
    json_decref(config);
    return cli_fail_library();
}

/* A sentence-transformers directory names its modules; one of them is the encoder. */
static bool has_modules(const char *dir) {
    char path[4096];
    return snprintf(path, sizeof(path), "%s/modules.json", dir) < (int)sizeof(path) && access(path, F_OK) == 0;
}

/* Cross-encoders have modules.json too. */
static bool is_embedder(const char *dir) {
    tfm_rerank_kind kind;
    return has_modules(dir) && (tfm_rerank_read_kind(&kind, dir) != TFM_OK || kind == TFM_RERANK_EMBEDDER);
}

static tfm_status read_info(tfm_model_info *info, tfm_embedder_info *embedder, const char *dir, int kv_precision,
                            bool no_tokenizer) {
    const tfm_precision kv = cli_precision(kv_precision);
    if (!embedder)
        return tfm_model_read_info(info, dir, &(tfm_model_options){.no_tokenizer = no_tokenizer, .kv_precision = kv});
    return tfm_embedder_read_info(embedder, info, dir,
                                  &(tfm_embedder_options){.no_tokenizer = no_tokenizer, .kv_precision = kv});
}

int cmd_info(int argc, char **argv) {
    bool json = false;
    int ctx_size = 0, kv_precision = 0;
    const cli_option options[] = {
        {0, "json", CLI_FLAG, &json, NULL, "write a JSON object instead of a table", NULL},
        {0, "ctx-size", CLI_POSITIVE, &ctx_size, "N",
         "tokens of a sequence, for the size of its KV cache (default: the model's maximum)", NULL},
        {0, "kv-precision", CLI_CHOICE, &kv_precision, "auto|fp32|fp16|bf16|int8",
         "dtype of the KV cache (default auto: fp32)", NULL},
    };
    const cli_syntax syntax = {
        .name = "info",
        .usage = "info MODEL [option...]",
        .about = "Describes the model in a directory or GGUF file: architecture, sizes, types of\n"
                 "the stored tensors, parameters, device memory of the weights and of the KV\n"
                 "cache, the commands that take it, and the embeddings of a\n"
                 "sentence-transformers directory. For an unsupported model it gives the reason\n"
                 "and the key of config.json. No device is used.\n",
        .examples = "  tfm info apps/demo\n  tfm info --json apps/demo | jq .parameters\n",
        .options = options,
        .option_count = CLI_COUNT(options),
        .operand = "MODEL",
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_CONTINUE)
        return code;
    const char *dir = argv[optind];
    code = cli_find_model(&dir);
    if (code != CLI_CONTINUE)
        return code;
    tfm_model_info info;
    tfm_embedder_info vectors, *embedder = is_embedder(dir) ? &vectors : NULL;
    char *without = NULL;
    tfm_status status = read_info(&info, embedder, dir, kv_precision, false);
    /* A missing or unsupported tokenizer leaves a usable model; a damaged one is an error. */
    if (status == TFM_ERROR_IO || status == TFM_ERROR_UNSUPPORTED) {
        without = strdup(tfm_error_message());
        status = read_info(&info, embedder, dir, kv_precision, true);
    }
    if (status == TFM_OK && ctx_size > info.max_positions) {
        free(without);
        return cli_fail("%s: a context of %d tokens, and the model has %d positions: give at most as many", dir,
                        ctx_size, info.max_positions);
    }
    bool taken = false;
    ctx_size = ctx_size ? ctx_size : info.max_positions;
    if (status == TFM_OK && json)
        taken = print_json(&info, without, embedder ? embedder_json(embedder) : NULL, ctx_size, kv_precision);
    else if (status == TFM_OK)
        taken = print_table(&info, without, embedder, ctx_size, kv_precision);
    code = status == TFM_ERROR_ARGUMENT ? cli_fail_library()
           : status != TFM_OK           ? print_unsupported(dir, json, embedder != NULL)
           : taken || !without          ? CLI_OK
                                        : cli_fail("%s", without);
    free(without);
    return code;
}
