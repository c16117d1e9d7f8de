/* Model information: description, parts, parameter names. */
#include <string.h>
#include "model/arch/config_keys.h"
#include "model/arch/multimodal.h"
#include "model/core/model.h"
#include "ops/attention/kv_quantize.h"

/* Estimated device memory of a default batch (translation, encoding or generation): persistent memory plus the largest
 * temporary. */
static uint64_t estimate(const tfm_model_info *info, const tfm__arch *arch, tfm_dtype dtype) {
    const bool both = info->encoder_layers > 0 && info->decoder_layers > 0;
    const uint64_t tokens = 4096, rows = tokens / 16 * (uint64_t)info->beam_size, width = (uint64_t)info->width;
    const uint64_t kept = both ? rows * 32 : tokens, layers = (uint64_t)info->decoder_layers;
    const uint64_t inner = (uint64_t)(info->encoder_layers ? info->encoder_ffn_dim : info->decoder_ffn_dim);
    const uint64_t first = tokens * (6 * width + inner), cross = both ? 2 * tokens * width * layers : 0;
    const uint64_t cache = kept * info->kv_token_bytes, logits = rows * (uint64_t)info->target_vocab_size;
    const uint64_t copies =
        info->parameter_bytes < 2 * info->parameters ? 1 : 2;                /* int8 weights are used without a copy */
    const uint64_t size = tfm_dtype_size(dtype == TFM_I8 ? TFM_F32 : dtype); /* I8 is for self-attention only */
    const uint64_t cells = arch->decoder.recurrent ? 8 * kept * width * layers : 0;
    return copies * info->parameter_bytes + 4 * (first + logits) + size * cross + cache + cells;
}

static int window_layers(const tfm__stack_arch *arch) {
    int count = 0;
    for (int i = 0; i < arch->layers; i++)
        count += (arch->layer[i] & TFM__LOCAL_LAYER) != 0;
    return count;
}

/* Position encoding of the output stack. */
static void describe_positions(tfm_model_info *info, const tfm__stack_arch *s) {
    static const char *const scalings[] = {
        [TFM__ROPE_DEFAULT] = "default", [TFM__ROPE_LINEAR] = "linear",     [TFM__ROPE_DYNAMIC] = "dynamic",
        [TFM__ROPE_YARN] = "yarn",       [TFM__ROPE_LONGROPE] = "longrope", [TFM__ROPE_LLAMA3] = "llama3",
    };
    info->position_encoding = s->positions == TFM__SINUSOIDS           ? "sinusoids"
                              : s->positions == TFM__LEARNED_POSITIONS ? "learned"
                              : s->rotary.width                        ? "rotary"
                              : s->relative.buckets                    ? "relative"
                              : s->alibi                               ? "alibi"
                                                                       : "none";
    info->rope_type = s->rotary.width ? scalings[s->rotary.config.type] : "none";
    info->sliding_window_layers = window_layers(s);
    info->sliding_window = info->sliding_window_layers ? s->window : 0;
}

/* Dropout of training, special ids and beam size of config.json and generation_config.json. */
static void describe_defaults(tfm_model_info *info, const tfm__family *family, const tfm__arch *arch,
                              const tfm__generation_rules *rules) {
    info->dropout = tfm__dropout_of(arch, family, TFM__DROPOUT);
    info->attention_dropout = tfm__dropout_of(arch, family, TFM__ATTENTION_DROPOUT);
    info->activation_dropout = tfm__dropout_of(arch, family, TFM__ACTIVATION_DROPOUT);
    info->pad_id = rules->pad_id;
    info->eos_id = rules->eos_id;
    info->start_id = rules->start_id;
    info->beam_size = rules->num_beams ? rules->num_beams : rules->decoder_only ? 1 : 4;
}

void tfm__model_describe_arch(tfm_model_info *info, const tfm__family *family, const tfm__arch *arch,
                              const tfm__generation_rules *rules, uint64_t parameters, uint64_t bytes,
                              tfm_dtype kv_dtype) {
    const tfm__stack_arch *encoder = &arch->encoder, *decoder = &arch->decoder, *writer = tfm__arch_output_stack(arch);
    *info = (tfm_model_info){
        .family = family->name,
        .can_save = family->write != NULL,
        .kind = !decoder->layers  ? "encoder"
                : encoder->layers ? "encoder-decoder"
                                  : "decoder",
        .width = writer->width,
        .encoder_layers = encoder->layers,
        .decoder_layers = decoder->layers,
        .encoder_heads = encoder->heads,
        .decoder_heads = decoder->heads,
        .encoder_kv_heads = encoder->kv_heads,
        .decoder_kv_heads = decoder->kv_heads,
        .encoder_head_width = encoder->head_width,
        .decoder_head_width = decoder->head_width,
        .encoder_ffn_dim = encoder->feed_forward,
        .decoder_ffn_dim = decoder->feed_forward,
        .source_vocab_size = encoder->vocabulary,
        .target_vocab_size = decoder->vocabulary,
        .max_positions = writer->max_positions,
        .activation = writer->activation,
        .pre_norm = writer->norm_placement == TFM_NORM_PRE || writer->norm_placement == TFM_NORM_SANDWICH,
        .sandwich_norm = writer->norm_placement == TFM_NORM_SANDWICH,
        .rms_norm = writer->norm == TFM_NORM_RMS,
        .gated = writer->gated,
        .tied_embeddings = arch->tied_embeddings,
        .has_lm_head = !arch->headless,
        .classes = arch->head.kind == TFM__CLASSIFICATION_HEAD ? arch->head.classes : 0,
        .has_ssru = decoder->recurrent,
        .multimodal_class = arch->multimodal ? arch->multimodal->class_name : NULL,
        .stored_dtype = tfm_dtype_name(TFM_F32),
        .weight_format = "none",
        .parameters = parameters,
        .parameter_bytes = bytes,
    };
    describe_positions(info, writer);
    describe_defaults(info, family, arch, rules);
    info->kv_token_bytes = decoder->recurrent
                               ? 0
                               : 2 * (uint64_t)decoder->layers * (uint64_t)decoder->kv_heads *
                                     (uint64_t)tfm__kv_span(kv_dtype, decoder->head_width) * tfm_dtype_size(kv_dtype);
    info->estimated_bytes = estimate(info, arch, kv_dtype);
}

tfm_status tfm__model_check_options(const char *dir, const tfm__family *family, const tfm__arch *arch,
                                    const tfm_model_options *options) {
    const tfm__stack_arch *decoder = &arch->decoder;
    if (!options)
        return TFM_OK;
    if (options->kv_precision != TFM_PRECISION_AUTO && !decoder->layers)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "%s: the model, of the family %s, is an encoder and has no KV cache: leave its precision out",
                         dir, family->name);
    if (options->kv_precision == TFM_PRECISION_INT8 && decoder->recurrent)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "%s: the decoder has SSRU cells and no KV cache that could be int8: leave its precision out",
                         dir);
    if (options->ctx_size < 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, "%s: a context of %d tokens: give 1 or more, or 0 for the model's", dir,
                         options->ctx_size);
    if (options->ctx_size && (arch->encoder.layers || !decoder->layers))
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "%s: the model, of the family %s, is not decoder-only and has no context size: leave it out",
                         dir, family->name);
    if (options->ctx_size > decoder->max_positions)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "%s: a context of %d tokens, and the model has %d positions: give at most as many", dir,
                         options->ctx_size, decoder->max_positions);
    return TFM_OK;
}

tfm_status tfm__model_needs(const tfm_model *model, const char *what, int parts) {
    const tfm__arch *arch = &model->arch;
    const struct {
        int part;
        bool there;
        const char *name;
    } all[] = {
        {TFM__NEEDS_ENCODER, arch->encoder.layers > 0, "encoder: generate with it, or"},
        {TFM__NEEDS_DECODER, arch->decoder.layers > 0, "decoder: embed with it, or"},
        {TFM__NEEDS_OUTPUT, !arch->headless, "output projection:"},
        {TFM__NEEDS_MLM_HEAD, arch->head.kind == TFM__MLM_HEAD, "head for masked tokens:"},
        {TFM__NEEDS_CLASSIFIER, arch->head.kind == TFM__CLASSIFICATION_HEAD, "classification head:"},
    };
    const char *missing = NULL;
    for (size_t i = 0; i < TFM__COUNT(all) && !missing; i++)
        if ((parts & all[i].part) && !all[i].there)
            missing = all[i].name;
    return missing ? tfm__fail(TFM_ERROR_ARGUMENT, "%s: the model, of the family %s, has no %s use a model with one",
                               what, model->family->name, missing)
                   : TFM_OK;
}

const char *tfm__model_name_in_file(const tfm_model *model, const char *name) {
    for (size_t i = 0; i < model->tensor_alias_count; i++)
        if (strcmp(model->tensor_aliases[i].name, name) == 0)
            return model->tensor_aliases[i].in_file;
    return name;
}

/* The stored type, as a static string. */
static const char *type_of(const tfm__stored_tensor *stored) {
    return !stored->usable ? "other" : stored->encoding ? stored->encoding : tfm_dtype_name(stored->dtype);
}

static int more_bytes(const void *a, const void *b) {
    const uint64_t x = ((const tfm_weight_type *)a)->bytes, y = ((const tfm_weight_type *)b)->bytes;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void count_type(tfm_model_info *info, const tfm__stored_tensor *stored) {
    int i = 0;
    while (i < info->weight_type_count && strcmp(info->weight_types[i].name, type_of(stored)) != 0)
        i++;
    if (i == TFM_MAX_WEIGHT_TYPES)
        return;
    tfm_weight_type *type = &info->weight_types[i];
    info->weight_type_count += i == info->weight_type_count;
    type->name = type_of(stored);
    type->tensors++;
    type->bytes += stored->bytes;
}

void tfm__model_describe_file(tfm_model_info *info, const tfm__weights *file) {
    const tfm__stored_tensor *largest = NULL;
    for (size_t i = 0; i < tfm__weights_count(file); i++) {
        const tfm__stored_tensor *stored = tfm__weights_at(file, i);
        if (stored->usable && (!largest || stored->count > largest->count))
            largest = stored;
        count_type(info, stored);
    }
    qsort(info->weight_types, (size_t)info->weight_type_count, sizeof(*info->weight_types), more_bytes);
    info->stored_dtype = largest ? type_of(largest) : "none";
    info->weight_format = tfm__weights_kind(file);
    info->weight_files = (int)tfm__weights_files(file);
}
