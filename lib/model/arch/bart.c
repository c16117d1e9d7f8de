/* BART families, in the layouts of Hugging Face's BartForConditionalGeneration, MBartForConditionalGeneration and
 * PegasusForConditionalGeneration. mBART is pre-norm BART with a final norm in both stacks; Pegasus is mBART with
 * sinusoids and no norm over the embedding. Defaults are those of their configurations. */
#include "model/arch/seq2seq.h"

/* Rows of a learned table before position 0; fairseq reserves them for padding. */
enum { BEFORE = 2 };

typedef enum kind { BART, MBART, PEGASUS } kind;

static void describe(tfm__stack_arch *s, kind k) {
    s->norm_placement = k == BART ? TFM_NORM_POST : TFM_NORM_PRE;
    s->final_norm = k != BART;
    s->embedding_norm = k != PEGASUS;
    s->positions = k == PEGASUS ? TFM__SINUSOIDS : TFM__LEARNED_POSITIONS;
    s->sinusoids = TFM_SINUSOID_SPLIT;
    s->position_offset = k == PEGASUS ? 0 : BEFORE;
}

static tfm_status read_kind(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from, kind k) {
    static const tfm__id_defaults defaults[] = {
        [BART] = {.pad = 1, .eos = 2, .start = 2},
        [MBART] = {.pad = 1, .eos = 2, .start = 0}, /* `bos_token_id`, unless another key is given */
        [PEGASUS] = {.pad = 0, .eos = 1, .start = 0},
    };
    tfm__id_defaults ids = defaults[k];
    tfm__seq2seq c = {TFM__SEQ2SEQ_DEFAULTS, .vocab_size = 50265};
    tfm_status status = tfm__seq2seq_read(&c, from);
    if (status == TFM_OK && k == MBART)
        status =
            tfm__read_int(&ids.start, tfm__token_id_key(from, "bos_token_id"), "bos_token_id", 0, c.vocab_size - 1);
    if (status != TFM_OK)
        return status;
    arch->encoder = tfm__seq2seq_stack(&c, false);
    arch->decoder = tfm__seq2seq_stack(&c, true);
    describe(&arch->encoder, k);
    describe(&arch->decoder, k);
    arch->shared_tables = true;
    arch->tied_embeddings = c.tie;
    rules->hf_search = true;
    return tfm__read_generation_rules(rules, from, &ids, c.vocab_size, c.vocab_size);
}

static tfm_status read_bart(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    return read_kind(arch, rules, from, BART);
}

static tfm_status read_mbart(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    return read_kind(arch, rules, from, MBART);
}

static tfm_status read_pegasus(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    return read_kind(arch, rules, from, PEGASUS);
}

#define COMMON                                                                                                         \
    .write = tfm__seq2seq_write, .prefixes = tfm__seq2seq_prefixes, .ignored = tfm__seq2seq_ignored,                   \
    .keeps_shared = true, .common = tfm__seq2seq_common, .encoder = tfm__seq2seq_encoder,                              \
    .decoder = tfm__seq2seq_decoder

const tfm__family tfm__family_bart = {
    .name = "bart",
    .types = (const char *const[]){"bart", NULL},
    .classes = (const char *const[]){"BartForConditionalGeneration", "BartModel", NULL},
    .read = read_bart,
    COMMON,
};

const tfm__family tfm__family_mbart = {
    .name = "mbart",
    .types = (const char *const[]){"mbart", NULL},
    .classes = (const char *const[]){"MBartForConditionalGeneration", "MBartModel", NULL},
    .read = read_mbart,
    COMMON,
};

const tfm__family tfm__family_pegasus = {
    .name = "pegasus",
    .types = (const char *const[]){"pegasus", NULL},
    .classes = (const char *const[]){"PegasusForConditionalGeneration", "PegasusModel", NULL},
    .read = read_pegasus,
    COMMON,
};
