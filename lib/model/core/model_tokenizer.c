/* The tokenizer of a model: whether it fits, and opening it. */
#include "base/hub/hub.h"
#include "model/core/model_tokenizer.h"

/* Rows of an embedding without a token: some checkpoints pad the vocabulary, Marian's by little, others by more (Qwen's
 * by 290 rows), but never by most of it. */
enum { MAX_PADDING_ROWS = 256 };

static int64_t count_ids_without_token(const tfm_tokenizer *tokenizer, tfm_side side, int rows) {
    int64_t count = 0;
    for (int32_t id = 0; id < rows; id++)
        count += tfm_tokenizer_piece(tokenizer, side, id) == NULL;
    return count;
}

/* Ids without a token produce no text, so generated text would have gaps. Encoder-only models do not generate. */
static void warn_ids_without_token(const tfm_tokenizer *tokenizer, const tfm__arch *arch, const char *dir) {
    if (!arch->decoder.layers)
        return;
    const tfm__stack_arch *writer = tfm__arch_output_stack(arch);
    const tfm_side side = TFM_TARGET;
    int32_t first = -1;
    int64_t within = 0;
    const int32_t named = tfm_tokenizer_get_info(tokenizer)->target_size;
    for (int32_t id = writer->vocabulary - 1; id >= 0; id--)
        if (!tfm_tokenizer_piece(tokenizer, side, id)) {
            first = id;
            within += id < named;
        }
    const int64_t all = count_ids_without_token(tokenizer, side, writer->vocabulary);
    if (within > 0 || (all > 0 && tfm__tokenizer_is_marian(tokenizer)))
        tfm__log(
            TFM_LOG_WARNING,
            "%s: %lld of the model's %d ids have no token in the vocabulary, the first is %d: they produce no text",
            dir, (long long)all, writer->vocabulary, (int)first);
    else if (all > 0)
        tfm__log(TFM_LOG_INFO, "%s: the last %lld of the model's %d ids have no token in the vocabulary", dir,
                 (long long)all, writer->vocabulary);
}

/* Some tokenizers have a few tokens more than the model has rows, such as Gemma 3's image tokens or an added padding
 * token: texts without these are unaffected. */
enum { MAX_TOKENS_WITHOUT_ROW = 64 };

static tfm_status check_vocabulary(tfm_tokenizer *tokenizer, const tfm__arch *arch, const char *dir) {
    const tfm_tokenizer_info text = *tfm_tokenizer_get_info(tokenizer);
    /* a model with one stack has one vocabulary */
    const int source = (arch->encoder.layers ? &arch->encoder : &arch->decoder)->vocabulary;
    const int target = tfm__arch_output_stack(arch)->vocabulary;
    const int more = tfm__tokenizer_is_marian(tokenizer) ? 0 : MAX_TOKENS_WITHOUT_ROW;
    if (text.source_size - more > source || text.target_size - more > target) {
        const bool first = text.source_size - more > source;
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: the vocabulary%s has %d ids with added tokens, and the embeddings have %d rows: they "
                         "belong to different models",
                         dir,
                         !arch->encoder.layers || !arch->decoder.layers ? ""
                         : first                                        ? " of the source"
                                                                        : " of the target",
                         first ? text.source_size : text.target_size, first ? source : target);
    }
    tfm__tokenizer_set_vocab_limit(tokenizer, source, target);
    int64_t nameless =
        count_ids_without_token(tokenizer, TFM_SOURCE, source) + count_ids_without_token(tokenizer, TFM_TARGET, target);
    const int64_t rows = (int64_t)source + target, half = tfm__tokenizer_is_marian(tokenizer) ? 0 : rows / 2;
    if (nameless > (half > 2 * MAX_PADDING_ROWS ? half : 2 * MAX_PADDING_ROWS))
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: %lld rows of the embeddings have no piece in the vocabulary: it is not the model's", dir,
                         (long long)nameless);
    if (arch->decoder.layers) /* encoder-only models generate no text */
        warn_ids_without_token(tokenizer, arch, dir);
    return TFM_OK;
}

/* The directory's tokenizer, opened with `status`, if it fits the model; else it is freed. */
static tfm_status check_tokenizer(tfm_tokenizer **out, tfm_status status, const tfm__family *family,
                                  const tfm__arch *arch, const tfm__generation_rules *rules, const char *dir) {
    if (status == TFM_OK)
        status = check_vocabulary(*out, arch, dir);
    if (status == TFM_OK && family->check_tokenizer)
        status = family->check_tokenizer(*out, rules, dir);
    if (status != TFM_OK)
        tfm_tokenizer_free(out);
    return status;
}

tfm_status tfm__model_tokenizer_open(tfm_tokenizer **out, const tfm__family *family, const tfm__arch *arch,
                                     const tfm__generation_rules *rules, const char *dir) {
    return check_tokenizer(out, tfm_tokenizer_open(out, dir), family, arch, rules, dir);
}

tfm_status tfm_model_open_tokenizer(tfm_model *model, const char *dir) {
    if (TFM__NEEDS("model_open_tokenizer", model, dir) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (model->tokenizer)
        return tfm__fail(TFM_ERROR_ARGUMENT, "%s: the model has a tokenizer already", dir);
    model->changed = true;
    char *path = NULL;
    tfm_status status = tfm__hub_resolve(&path, dir);
    if (status == TFM_OK)
        status = tfm__model_tokenizer_open(&model->tokenizer, model->family, &model->arch, &model->rules, path);
    free(path);
    return status;
}

tfm_status tfm__model_tokenizer_end(tfm_model *model, tfm__tokenizer_opening *opening, tfm_status loaded,
                                    const char *dir, int depth) {
    char message[TFM__MESSAGE_MAX];
    tfm__error_save(message);
    tfm_status status = tfm__tokenizer_open_end(&model->tokenizer, opening);
    status = check_tokenizer(&model->tokenizer, status, model->family, &model->arch, &model->rules, dir);
    if (status != TFM_OK)
        tfm__error_save(message);
    if (status != TFM_OK && loaded != TFM_OK)
        tfm__context_recover(model->ctx, depth);
    tfm__error_restore(message);
    return status == TFM_OK ? loaded : status;
}
