#include "model/tasks/prompts.h"
#include <string.h>

tfm_status tfm__prompts_check(const tfm_model *model, const tfm_prompt *prompts, size_t count,
                              const tfm_generate_options *o) {
    if (!model->tokenizer && (o->on_text || o->stop_string_count > 0))
        return tfm__fail(
            TFM_ERROR_ARGUMENT,
            "generate: the model was opened without its tokenizer, which stop strings and on_piece require");
    for (size_t i = 0; i < o->stop_string_count; i++)
        if (!o->stop_strings[i] || !o->stop_strings[i][0])
            return tfm__fail(TFM_ERROR_ARGUMENT, "generate: stop string %zu is %s", i + 1,
                             o->stop_strings[i] ? "empty" : "NULL");
    for (size_t i = 0; i < count; i++) {
        if (!prompts[i].text && !prompts[i].ids && prompts[i].count > 0)
            return tfm__fail(TFM_ERROR_ARGUMENT, "generate: prompt %zu has neither text nor ids", i + 1);
        if (prompts[i].text && !model->tokenizer)
            return tfm__fail(TFM_ERROR_ARGUMENT, "the model was opened without its tokenizer: it takes ids, not text");
    }
    return TFM_OK;
}

tfm_status tfm__prompt_read(const tfm_model *model, int32_t **ids, size_t *count, const tfm_prompt *prompt) {
    tfm_status status = TFM_OK;
    *ids = NULL;
    *count = 0;
    if (prompt->text)
        status = tfm_tokenizer_encode(model->tokenizer, ids, count, TFM_SOURCE, prompt->text, prompt->bytes);
    const int start = model->rules.start_id;
    const size_t given = *count ? *count : prompt->text ? 0 : prompt->count;
    if (status != TFM_OK || (prompt->text && *count > 0))
        return status;
    tfm_ids_free(ids);
    *ids = tfm__alloc(given ? given : 1, sizeof(**ids));
    if (!*ids)
        return TFM_ERROR_MEMORY;
    *count = given || start < 0 ? given : 1;
    (*ids)[0] = start < 0 ? 0 : (int32_t)start;
    if (given > 0)
        memcpy(*ids, prompt->ids, given * sizeof(**ids));
    return TFM_OK;
}
