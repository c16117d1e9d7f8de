/* M2M-100 and NLLB-200, in the layout of Hugging Face's M2M100ForConditionalGeneration: pre-norm, a final norm in both
 * stacks, and fairseq's computed sinusoids. Defaults are M2M100Config's. */
#include "model/arch/seq2seq.h"

static void describe(tfm__stack_arch *s, int pad) {
    s->norm_placement = TFM_NORM_PRE;
    s->final_norm = true;
    s->positions = TFM__SINUSOIDS;
    s->sinusoids = TFM_SINUSOID_FAIRSEQ;
    s->position_offset = pad + 1; /* position 0 is the row after the padding's */
    s->skips = TFM__SKIPS_TO_NOTHING;
    s->skipped_id = pad;
}

static tfm_status read(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    static const tfm__id_defaults ids = {.pad = 1, .eos = 2, .start = 2};
    tfm__seq2seq c = {TFM__SEQ2SEQ_DEFAULTS, .vocab_size = 128112, .scale_embedding = true};
    c.activation = TFM_RELU;
    rules->hf_search = true;
    tfm_status status = tfm__seq2seq_read(&c, from);
    int pad = ids.pad; /* the network's value, independent of the padding id of the search */
    if (status == TFM_OK)
        status = tfm__read_int(&pad, tfm__network_key(from, "pad_token_id"), "pad_token_id", 0, c.vocab_size - 1);
    if (status == TFM_OK)
        status = tfm__read_generation_rules(rules, from, &ids, c.vocab_size, c.vocab_size);
    if (status != TFM_OK)
        return status;
    arch->encoder = tfm__seq2seq_stack(&c, false);
    arch->decoder = tfm__seq2seq_stack(&c, true);
    describe(&arch->encoder, pad);
    describe(&arch->decoder, pad);
    arch->shared_tables = true;
    arch->tied_embeddings = c.tie;
    return TFM_OK;
}

static json_t *write(const tfm__family *family, const tfm__arch *arch, const tfm__generation_rules *rules) {
    json_t *out = tfm__seq2seq_write(family, arch, rules);
    if (out && json_object_set_new(out, "pad_token_id", json_integer(arch->encoder.position_offset - 1)) != 0) {
        json_decref(out);
        out = NULL;
    }
    return out;
}

/* No logit bias and no stored positions, unlike BART. */
static const tfm__naming COMMON[TFM__ROLES] = {
    [TFM__SHARED_EMBEDDING] = TFM__WEIGHT_ONLY("model.shared"),
    [TFM__SOURCE_EMBEDDING] = TFM__WEIGHT_ONLY("model.encoder.embed_tokens"),
    [TFM__TARGET_EMBEDDING] = TFM__WEIGHT_ONLY("model.decoder.embed_tokens"),
    [TFM__OUTPUT_PROJECTION] = TFM__WEIGHT_ONLY("lm_head"),
};

const tfm__family tfm__family_m2m100 = {
    .name = "m2m_100",
    .types = (const char *const[]){"m2m_100", NULL},
    .classes = (const char *const[]){"M2M100ForConditionalGeneration", "M2M100Model", NULL},
    .prefixes = tfm__seq2seq_prefixes,
    .ignored = tfm__seq2seq_ignored,
    .keeps_shared = true,
    .read = read,
    .write = write,
    .common = COMMON,
    .encoder = tfm__seq2seq_encoder,
    .decoder = tfm__seq2seq_decoder,
};
