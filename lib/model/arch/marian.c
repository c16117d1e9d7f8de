/* Marian (OPUS-MT) in the layout of Hugging Face's MarianMTModel: config.json and tensor names. Keys and defaults are
 * those of MarianConfig. */
#include <string.h>
#include "model/arch/seq2seq.h"

/* ---- Reading ------------------------------------------------------------------------------------------ */

/* Values of config.json. */
typedef struct config {
    tfm__seq2seq common;
    int decoder_vocab_size, extra_positions;
    bool normalize_before, normalize_embedding, add_final_layer_norm, static_positions, share;
} config;

static tfm_status read_sizes(config *out, const tfm__config_files *from) {
    static const char target[] = "decoder_vocab_size";
    tfm_status status = tfm__seq2seq_read(&out->common, from);
    if (status == TFM_OK)
        status =
            tfm__read_int(&out->decoder_vocab_size, tfm__network_key(from, target), target, 1, TFM__MAX_VOCABULARY);
    /* a shared table has one size: Hugging Face ignores decoder_vocab_size then */
    if (out->share || !out->decoder_vocab_size)
        out->decoder_vocab_size = out->common.vocab_size;
    return status;
}

/* `static_position_embeddings` selects sinusoids or a learned table. Other position keys would change the output and
 * are refused. */
static tfm_status check_positions(const config *c, const tfm__config_files *from) {
    static const char *const TYPES[] = {"position_embedding_type", "position_embeddings_type"};
    static const char *const OTHERS[] = {"rope_scaling", "rope_parameters", "alibi"};
    for (size_t i = 0; i < TFM__COUNT(TYPES); i++) {
        const tfm__config_value found = tfm__network_key(from, TYPES[i]);
        const char *name = json_string_value(found.value);
        if (found.value && !(name && (strcmp(name, "absolute") == 0 ||
                                      strcmp(name, c->static_positions ? "sinusoidal" : "learned") == 0)))
            return tfm__fail(TFM_ERROR_UNSUPPORTED,
                             "%s: `%s` is %s, which is not supported: use a model with \"absolute\" positions",
                             found.path, TYPES[i], TFM__VALUE_TEXT(found.value));
    }
    for (size_t i = 0; i < TFM__COUNT(OTHERS); i++) {
        const tfm__config_value found = tfm__network_key(from, OTHERS[i]);
        if (found.value && !json_is_false(found.value))
            return tfm__fail(TFM_ERROR_UNSUPPORTED,
                             "%s: `%s` selects positions that are not supported: use a model with absolute positions",
                             found.path, OTHERS[i]);
    }
    return TFM_OK;
}

static tfm_status read_layout(config *out, const tfm__config_files *from) {
    const struct {
        const char *key;
        bool *value;
        bool fallback;
    } flags[] = {
        {"normalize_before", &out->normalize_before, false},
        {"normalize_embedding", &out->normalize_embedding, false},
        {"add_final_layer_norm", &out->add_final_layer_norm, false},
        {"static_position_embeddings", &out->static_positions, true},
        {"share_encoder_decoder_embeddings", &out->share, true},
    };
    for (size_t i = 0; i < TFM__COUNT(flags); i++) {
        *flags[i].value = flags[i].fallback;
        tfm_status status = tfm__read_bool(flags[i].value, tfm__network_key(from, flags[i].key), flags[i].key);
        if (status != TFM_OK)
            return status;
    }
    const tfm_status positions = check_positions(out, from);
    if (positions != TFM_OK)
        return positions;
    /* Converted models have pad_token_id + 1 here, which has no meaning for computed positions. */
    out->extra_positions = out->static_positions ? 0 : 2;
    return out->static_positions ? TFM_OK
                                 : tfm__read_int(&out->extra_positions, tfm__network_key(from, "extra_pos_embeddings"),
                                                 "extra_pos_embeddings", 0, 1024);
}

static tfm__stack_arch stack_of(const config *c, bool decoder) {
    tfm__stack_arch stack = tfm__seq2seq_stack(&c->common, decoder);
    stack.norm_placement = c->normalize_before ? TFM_NORM_PRE : TFM_NORM_POST;
    stack.embedding_norm = c->normalize_embedding;
    stack.final_norm = c->add_final_layer_norm;
    stack.positions = c->static_positions ? TFM__SINUSOIDS : TFM__LEARNED_POSITIONS;
    stack.sinusoids = TFM_SINUSOID_SPLIT;
    stack.position_offset = c->extra_positions;
    if (decoder)
        stack.vocabulary = c->decoder_vocab_size;
    return stack;
}

static tfm_status read(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    static const tfm__id_defaults ids = {.pad = 58100, .eos = 0, .start = 58100};
    config c = {.common = {TFM__SEQ2SEQ_DEFAULTS, .vocab_size = 58101}};
    tfm_status status = read_layout(&c, from);
    if (status == TFM_OK)
        status = read_sizes(&c, from);
    if (status != TFM_OK)
        return status;
    const int source = c.common.vocab_size, target = c.decoder_vocab_size;
    arch->encoder = stack_of(&c, false);
    arch->decoder = stack_of(&c, true);
    arch->shared_tables = c.share;
    arch->tied_embeddings = c.common.tie;
    return tfm__read_generation_rules(rules, from, &ids, target, source < target ? source : target);
}

/* ---- Writing ------------------------------------------------------------------------------------------ */

static json_t *write(const tfm__family *family, const tfm__arch *arch, const tfm__generation_rules *rules) {
    const tfm__stack_arch *e = &arch->encoder;
    json_t *root = tfm__seq2seq_write(family, arch, rules);
    json_t *own = json_pack("{s:i, s:b, s:b, s:b, s:b, s:b, s:i}", "decoder_vocab_size", arch->decoder.vocabulary,
                            "static_position_embeddings", (int)(e->positions == TFM__SINUSOIDS), "normalize_before",
                            (int)(e->norm_placement == TFM_NORM_PRE), "normalize_embedding", (int)e->embedding_norm,
                            "add_final_layer_norm", (int)e->final_norm, "share_encoder_decoder_embeddings",
                            (int)arch->shared_tables, "extra_pos_embeddings", e->position_offset);
    if (!own || json_object_update(root, own) != 0) {
        json_decref(root);
        root = NULL;
    }
    json_decref(own);
    return root;
}

/* ---- Tokenizer ---------------------------------------------------------------------------------------- */

/* vocab.json belongs to the model, so its special ids must be the configuration's. */
static tfm_status check_tokenizer(const tfm_tokenizer *tokenizer, const tfm__generation_rules *rules, const char *dir) {
    const tfm_tokenizer_info text = *tfm_tokenizer_get_info(tokenizer);
    /* the configuration's padding id is used; a separate source vocabulary may have another one */
    if (text.source_pad >= 0 && text.source_pad != rules->pad_id)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: <pad> is id %d in vocab.json, pad_token_id in the configuration is %d: they belong to "
                         "different models",
                         dir, text.source_pad, rules->pad_id);
    if (text.source_eos != rules->eos_id || text.target_eos != rules->eos_id)
        return tfm__fail(
            TFM_ERROR_FORMAT,
            "%s: </s> is id %d in %s, eos_token_id in the configuration is %d: they belong to different models", dir,
            text.source_eos != rules->eos_id ? text.source_eos : text.target_eos,
            text.source_eos != rules->eos_id ? "vocab.json" : "target_vocab.json", rules->eos_id);
    return TFM_OK;
}

const tfm__family tfm__family_marian = {
    .name = "marian",
    .types = (const char *const[]){"marian", NULL},
    .classes = (const char *const[]){"MarianMTModel", "Marian", NULL},
    .prefixes = tfm__seq2seq_prefixes,
    .read = read,
    .write = write,
    .check_tokenizer = check_tokenizer,
    .common = tfm__seq2seq_common,
    .encoder = tfm__seq2seq_encoder,
    .decoder = tfm__seq2seq_decoder,
};
