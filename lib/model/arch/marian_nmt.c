/* Marian's own format, including Bergamot's student models: Marian's tensor names, and the configuration in
 * special:model.yml inside the same file. Defaults are those of Marian's options.
 *
 * The decoder's first input is a zero embedding. Here it is an additional last row of the tables, also used for
 * padding. */
#include "model/arch/marian_nmt.h"
#include <math.h>
#include <string.h>
#include "base/yaml.h"
#include "model/arch/config_keys.h"
#include "model/weights/weight_file.h"

enum { POSITIONS = 1024, END = 0, UNKNOWN = 1 }; /* ids: fixed in Marian's vocabularies */

static const tfm__family FAMILIES[2]; /* [1]: with SSRU cells */

typedef struct config {
    int width, heads, feed_forward, encoder_layers, decoder_layers;
    tfm_activation activation;
    bool embedding_norm, final_norm, recurrent;
    bool one_source_table, tied_embeddings; /* Wemb for both sides; the target table is the output projection */
} config;

/* ---- Keys --------------------------------------------------------------------------------------------- */

/* A string value, or `fallback`. */
static tfm_status read_word(const char **out, const tfm__config_files *from, const char *key, const char *fallback) {
    const tfm__config_value found = tfm__network_key(from, key);
    *out = found.value ? json_string_value(found.value) : fallback;
    return *out ? TFM_OK
                : tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %s; a string is needed", found.path, key,
                            TFM__VALUE_TEXT(found.value));
}

static tfm_status unsupported(const tfm__config_files *from, const char *key, const char *allowed) {
    return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `%s` is %s; supported: %s", from->config_path, key,
                     TFM__VALUE_TEXT(tfm__network_key(from, key).value), allowed);
}

static tfm_status check_word(const tfm__config_files *from, const char *key, const char *fallback,
                             const char *allowed) {
    const char *word;
    const tfm_status status = read_word(&word, from, key, fallback);
    return status != TFM_OK || strcmp(word, allowed) == 0 ? status : unsupported(from, key, allowed);
}

/* Keys that change the network; only their defaults are supported. */
static tfm_status check_others(const tfm__config_files *from, bool recurrent) {
    static const char *const FALSE[] = {"transformer-no-projection",
                                        "transformer-pool",
                                        "transformer-train-position-embeddings",
                                        "transformer-train-positions",
                                        "transformer-disable-position-embeddings",
                                        "transformer-no-bias",
                                        "transformer-no-affine",
                                        "transformer-rnn-projection",
                                        "ulr",
                                        "right-left"};
    for (size_t i = 0; i < TFM__COUNT(FALSE); i++) {
        bool value = false;
        if (tfm__read_bool(&value, tfm__network_key(from, FALSE[i]), FALSE[i]) != TFM_OK)
            return TFM_ERROR_FORMAT;
        if (value)
            return unsupported(from, FALSE[i], "models with false");
    }
    bool normed = false;
    if (tfm__read_bool(&normed, tfm__network_key(from, "layer-normalization"), "layer-normalization") != TFM_OK)
        return TFM_ERROR_FORMAT;
    if (normed && recurrent)
        return unsupported(from, "layer-normalization", "SSRU cells with false");
    if (json_array_size(tfm__network_key(from, "transformer-tied-layers").value) > 0)
        return unsupported(from, "transformer-tied-layers", "models without shared layers");
    int factors = 0;
    if (tfm__read_int(&factors, tfm__network_key(from, "lemma-dim-emb"), "lemma-dim-emb", -2, TFM__MAX_WIDTH) != TFM_OK)
        return TFM_ERROR_FORMAT;
    return factors != 0 ? unsupported(from, "lemma-dim-emb", "models with 0, without factors of words") : TFM_OK;
}

/* A chain of operations without d (dropout). */
static tfm_status read_operations(char out[8], const tfm__config_files *from, const char *key, const char *fallback) {
    const char *word;
    size_t used = 0;
    const tfm_status status = read_word(&word, from, key, fallback);
    for (; status == TFM_OK && *word && used < 7; word++)
        if (*word != 'd')
            out[used++] = *word;
    out[used] = '\0';
    return status;
}

/* Position of the norms. Marian's pre-norm is unusual and refused: self-attention normalizes its queries only. */
static tfm_status read_norms(config *out, const tfm__config_files *from) {
    static const char *const KEYS[] = {"transformer-preprocess", "transformer-postprocess",
                                       "transformer-postprocess-emb", "transformer-postprocess-top"};
    static const char *const FALLBACKS[] = {"", "dan", "d", ""};
    char chain[4][8];
    for (int i = 0; i < 4; i++)
        if (read_operations(chain[i], from, KEYS[i], FALLBACKS[i]) != TFM_OK)
            return TFM_ERROR_FORMAT;
    if (*chain[0])
        return unsupported(from, KEYS[0], "\"\" and \"d\"");
    if (strcmp(chain[1], "an") != 0)
        return unsupported(from, KEYS[1], "\"dan\"");
    out->embedding_norm = strcmp(chain[2], "n") == 0;
    if (!out->embedding_norm && *chain[2])
        return unsupported(from, KEYS[2], "\"d\" and \"nd\"");
    out->final_norm = strcmp(chain[3], "n") == 0;
    return !out->final_norm && *chain[3] ? unsupported(from, KEYS[3], "\"\" and \"n\"") : TFM_OK;
}

static tfm_status read_layers(config *out, const tfm__config_files *from) {
    const char *autoregression, *activation;
    tfm_status status = check_word(from, "type", "transformer", "transformer");
    if (status == TFM_OK)
        status = read_word(&autoregression, from, "transformer-decoder-autoreg", "self-attention");
    if (status != TFM_OK)
        return status;
    out->recurrent = strcmp(autoregression, "rnn") == 0;
    if (!out->recurrent && strcmp(autoregression, "self-attention") != 0)
        return unsupported(from, "transformer-decoder-autoreg", "\"self-attention\", and \"rnn\" with SSRU cells");
    if (out->recurrent)
        status = check_word(from, "dec-cell", "gru", "ssru");
    if (status == TFM_OK)
        status = read_word(&activation, from, "transformer-ffn-activation", "swish");
    if (status != TFM_OK)
        return status;
    if (strcmp(activation, "relu") != 0 && strcmp(activation, "swish") != 0)
        return unsupported(from, "transformer-ffn-activation", "\"relu\" and \"swish\"");
    out->activation = strcmp(activation, "relu") == 0 ? TFM_RELU : TFM_SILU;
    return check_others(from, out->recurrent);
}

static tfm_status read_sizes(config *out, const tfm__config_files *from) {
    int depth = 2, decoder_depth = 0, decoder_inner = 0;
    *out = (config){.width = 512, .heads = 8, .feed_forward = 2048, .encoder_layers = 6, .decoder_layers = 6};
    const struct {
        const char *key;
        int *value, low, high;
    } sizes[] = {
        {"dim-emb", &out->width, 1, TFM__MAX_WIDTH},
        {"transformer-heads", &out->heads, 1, 1024},
        {"transformer-dim-ffn", &out->feed_forward, 1, TFM__MAX_WIDTH},
        {"transformer-ffn-depth", &depth, 1, 1024},
        {"transformer-decoder-dim-ffn", &decoder_inner, 0, TFM__MAX_WIDTH},
        {"transformer-decoder-ffn-depth", &decoder_depth, 0, 1024},
        {"enc-depth", &out->encoder_layers, 1, TFM__MAX_LAYERS},
        {"dec-depth", &out->decoder_layers, 1, TFM__MAX_LAYERS},
    };
    for (size_t i = 0; i < TFM__COUNT(sizes); i++)
        if (tfm__read_int(sizes[i].value, tfm__network_key(from, sizes[i].key), sizes[i].key, sizes[i].low,
                          sizes[i].high) != TFM_OK)
            return TFM_ERROR_FORMAT;
    if (out->width % out->heads != 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `dim-emb` is %d, and its %d `transformer-heads` must divide it",
                         from->config_path, out->width, out->heads);
    if (depth != 2)
        return unsupported(from, "transformer-ffn-depth", "2");
    if (decoder_depth != 0 && decoder_depth != 2)
        return unsupported(from, "transformer-decoder-ffn-depth", "0 and 2");
    if (decoder_inner != 0 && decoder_inner != out->feed_forward)
        return unsupported(from, "transformer-decoder-dim-ffn", "0, which stands for `transformer-dim-ffn`");
    return TFM_OK;
}

static tfm_status read_ties(config *out, const tfm__config_files *from) {
    bool all = false, source = false, output = false;
    const struct {
        const char *key;
        bool *value;
    } ties[] = {{"tied-embeddings-all", &all}, {"tied-embeddings-src", &source}, {"tied-embeddings", &output}};
    for (size_t i = 0; i < TFM__COUNT(ties); i++)
        if (tfm__read_bool(ties[i].value, tfm__network_key(from, ties[i].key), ties[i].key) != TFM_OK)
            return TFM_ERROR_FORMAT;
    out->one_source_table = all || source;
    out->tied_embeddings = all || output;
    return TFM_OK;
}

static tfm_status read_config(config *out, const tfm__config_files *from) {
    tfm_status status = read_sizes(out, from);
    if (status == TFM_OK)
        status = read_layers(out, from);
    if (status == TFM_OK)
        status = read_norms(out, from);
    return status == TFM_OK ? read_ties(out, from) : status;
}

/* ---- Arch and rules ----------------------------------------------------------------------------------- */

static tfm__stack_arch stack_of(const config *c, int layers, int stored, int vocabulary) {
    return (tfm__stack_arch){
        .layers = layers,
        .width = c->width,
        .heads = c->heads,
        .kv_heads = c->heads,
        .head_width = c->width / c->heads,
        .feed_forward = c->feed_forward,
        .activation = c->activation,
        .input_biases = true,
        .output_biases = true,
        .feed_forward_biases = true,
        .norm = TFM_NORM_LAYER,
        .norm_biases = true,
        .norm_placement = TFM_NORM_POST,
        .epsilon = 1e-6f,
        .embedding_norm = c->embedding_norm,
        .final_norm = c->final_norm,
        .vocabulary = vocabulary,
        .stored_vocabulary = stored,
        .embedding_scale = sqrtf((float)c->width),
        .positions = TFM__SINUSOIDS,
        .sinusoids = TFM_SINUSOID_FAIRSEQ, /* as in Marian */
        .max_positions = POSITIONS,
    };
}

/* Rows of a table: configurations may omit vocabulary sizes. */
static tfm_status count_rows(int *out, const tfm__weights *weights, const char *name) {
    const tfm__stored_tensor *table;
    const tfm_status status = tfm__weights_get(weights, &table, name, 2, (int64_t[]){-1, -1});
    if (status == TFM_OK && (table->dims[0] < 2 || table->dims[0] >= TFM__MAX_VOCABULARY))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: %s has %lld rows; from 2 to %d are allowed", table->file, name,
                         (long long)table->dims[0], TFM__MAX_VOCABULARY - 1);
    *out = status == TFM_OK ? (int)table->dims[0] : 0;
    return status;
}

static tfm_status make_arch(tfm__arch *arch, const config *c, const tfm__weights *weights) {
    int source = 0, target = 0;
    tfm_status status = count_rows(&source, weights, c->one_source_table ? "Wemb" : "encoder_Wemb");
    if (status == TFM_OK)
        status = count_rows(&target, weights, c->one_source_table ? "Wemb" : "decoder_Wemb");
    if (status != TFM_OK)
        return status;
    const int vocabulary = (source > target ? source : target) + 1;
    arch->encoder = stack_of(c, c->encoder_layers, source, vocabulary);
    arch->decoder = stack_of(c, c->decoder_layers, target, vocabulary);
    arch->decoder.causal = arch->decoder.cross = true;
    arch->decoder.recurrent = c->recurrent;
    arch->shared_tables = c->one_source_table;
    arch->tied_embeddings = c->tied_embeddings;
    return TFM_OK;
}

static double number_of(const tfm__config_files *from, const char *key, double fallback) {
    const json_t *value = json_object_get(from->generation, key);
    return json_is_number(value) ? json_number_value(value) : fallback;
}

/* Search parameters of the model's configuration file. */
static tfm_status make_rules(tfm__generation_rules *rules, const tfm__config_files *from, int vocabulary) {
    const tfm__config_value beam = {json_object_get(from->generation, "beam-size"), from->generation_path};
    bool unknown = false;
    *rules = (tfm__generation_rules){
        .pad_id = vocabulary - 1, .start_id = vocabulary - 1, .eos_id = END, .forced_bos_id = -1, .forced_eos_id = -1};
    tfm_status status = tfm__read_int(&rules->num_beams, beam, "beam-size", 1, 1024);
    if (status == TFM_OK)
        status = tfm__read_bool(
            &unknown, (tfm__config_value){json_object_get(from->generation, "allow-unk"), from->generation_path},
            "allow-unk");
    if (status != TFM_OK)
        return status;
    if (!unknown)
        rules->suppress_ids[rules->suppress_id_count++] = UNKNOWN;
    const double normalize = number_of(from, "normalize", 0);
    if (!isfinite(normalize) || fabs(normalize) > 100)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `normalize` is %g; a number from -100 to 100 is allowed",
                         from->generation_path, normalize);
    rules->has_length_penalty = from->generation != NULL;
    rules->length_penalty = normalize;
    if (number_of(from, "word-penalty", 0) != 0)
        tfm__log(TFM_LOG_WARNING, "%s: `word-penalty` is %g; it is ignored", from->generation_path,
                 number_of(from, "word-penalty", 0));
    return TFM_OK;
}

/* ---- The files ---------------------------------------------------------------------------------------- */

static tfm_status read_files(config *c, tfm__config_files *from, const tfm__family_files *files,
                             const tfm__marian_folder *found) {
    const char *text = tfm__weights_metadata(files->weights, TFM__MARIAN_CONFIG);
    if (!text)
        return tfm__fail(TFM_ERROR_FORMAT, "%s has no " TFM__MARIAN_CONFIG ", so it is not a Marian model",
                         found->model);
    from->config_path = tfm__format("%s: " TFM__MARIAN_CONFIG, found->model);
    if (!from->config_path)
        return TFM_ERROR_MEMORY;
    const tfm_status status = tfm__yaml_parse(&from->config, text, strlen(text), from->config_path);
    return status == TFM_OK ? read_config(c, from) : status;
}

tfm_status tfm__marian_nmt_read(const tfm__family **family, tfm__arch *arch, tfm__generation_rules *rules,
                                tfm__family_files *files, const tfm__marian_folder *found) {
    tfm__config_files from = {.generation = found->options, .generation_path = found->options_path};
    config c;
    tfm_status status = tfm__weights_open(&files->weights, found->model);
    if (status == TFM_OK)
        status = read_files(&c, &from, files, found);
    if (status == TFM_OK)
        status = make_arch(arch, &c, files->weights);
    if (status == TFM_OK)
        status = make_rules(rules, &from, arch->decoder.vocabulary);
    if (status == TFM_OK && found->shortlist && !(files->shortlist = tfm__strdup(found->shortlist)))
        status = TFM_ERROR_MEMORY;
    files->shared_vocabulary = found->source && found->target && strcmp(found->source, found->target) == 0;
    if (status == TFM_OK)
        *family = &FAMILIES[c.recurrent];
    json_decref(from.config);
    free(from.config_path);
    return status;
}

static tfm_status check_tokenizer(const tfm_tokenizer *tokenizer, const tfm__generation_rules *rules, const char *dir) {
    const tfm_tokenizer_info text = *tfm_tokenizer_get_info(tokenizer);
    if (text.source_eos == rules->eos_id && text.target_eos == rules->eos_id && text.target_unk == UNKNOWN)
        return TFM_OK;
    return tfm__fail(TFM_ERROR_FORMAT,
                     "%s: </s> is id %d of the vocabulary and <unk> is id %d, but Marian's models have them at %d and "
                     "%d: they belong to different models",
                     dir, text.target_eos, text.target_unk, END, UNKNOWN);
}

/* ---- Names -------------------------------------------------------------------------------------------- */

#define MATRIX(stem, letter, number)                                                                                   \
    { stem "_W" letter number, stem "_b" letter number, true }
#define NORM(stem, end)                                                                                                \
    { stem "_ln_scale" end, stem "_ln_bias" end, false }
#define TABLE(name)                                                                                                    \
    { name, NULL, false }
#define ATTENTION(role, stem)                                                                                          \
    [TFM__##role##_QUERY] = MATRIX(stem, "q", ""), [TFM__##role##_KEY] = MATRIX(stem, "k", ""),                        \
    [TFM__##role##_VALUE] = MATRIX(stem, "v", ""), [TFM__##role##_OUT] = MATRIX(stem, "o", ""),                        \
    [TFM__##role##_NORM] = NORM(stem "_Wo", "")
#define OTHERS(stack)                                                                                                  \
    [TFM__UP] = MATRIX(stack "_l#_ffn", "", "1"), [TFM__DOWN] = MATRIX(stack "_l#_ffn", "", "2"),                      \
    [TFM__FEED_FORWARD_NORM] = NORM(stack "_l#_ffn_ffn", ""), [TFM__EMBEDDING_NORM] = NORM(stack "_emb", "_pre"),      \
    [TFM__FINAL_NORM] = NORM(stack "_top", "")

static const tfm__naming ENCODER[TFM__ROLES] = {ATTENTION(SELF, "encoder_l#_self"), OTHERS("encoder")};

static const tfm__naming DECODER[TFM__ROLES] = {ATTENTION(SELF, "decoder_l#_self"),
                                                ATTENTION(CROSS, "decoder_l#_context"), OTHERS("decoder")};

static const tfm__naming RECURRENT[TFM__ROLES] = {
    [TFM__SSRU_INPUT] = {"decoder_l#_rnn_W", NULL, true},
    [TFM__SSRU_FORGET] = {"decoder_l#_rnn_Wf", "decoder_l#_rnn_bf", true},
    [TFM__SELF_NORM] = NORM("decoder_l#_rnn_ffn", ""),
    ATTENTION(CROSS, "decoder_l#_context"),
    OTHERS("decoder"),
};

static const tfm__naming COMMON[TFM__ROLES] = {
    [TFM__SHARED_EMBEDDING] = TABLE("Wemb"),
    [TFM__SOURCE_EMBEDDING] = TABLE("encoder_Wemb"),
    [TFM__TARGET_EMBEDDING] = TABLE("decoder_Wemb"),
    [TFM__OUTPUT_PROJECTION] = TABLE("decoder_ff_logit_out_Wt"),
    [TFM__OUTPUT_BIAS] = {NULL, "decoder_ff_logit_out_b", false},
};

static const char *const NOTHING[] = {NULL};
/* Factors of activations for int8 GEMM. */
static const char *const IGNORED[] = {"_QuantMultA", NULL};

#define FAMILY(names)                                                                                                  \
    {                                                                                                                  \
        .name = "marian-nmt", .types = NOTHING, .classes = NOTHING, .ignored = IGNORED, .first_layer = 1,              \
        .row_vectors = true, .check_tokenizer = check_tokenizer, .common = COMMON, .encoder = ENCODER,                 \
        .decoder = names                                                                                               \
    }

static const tfm__family FAMILIES[2] = {FAMILY(DECODER), FAMILY(RECURRENT)};
