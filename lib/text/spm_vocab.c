/* A model segmented by SentencePiece, with the ids of a vocab.json. */
#include "base/file.h"
#include "text/hf_convert.h"
#include "text/spm.h"

static void close_spm(void *self) {
    tfm__spm *spm = self;
    tfm__spm_free(&spm);
}

static tfm_status encode_word(const tfm__subword_model *model, tfm__id_buffer *out, const char *word, size_t bytes,
                              tfm__scratch *scratch) {
    tfm__pieces pieces = {0};
    (void)scratch;
    tfm_status status = tfm__spm_encode(model->self, &pieces, word, bytes);
    if (status == TFM_OK)
        status = tfm__id_buffer_reserve(out, pieces.count);
    for (size_t i = 0; i < pieces.count && status == TFM_OK; i++) {
        const char *piece = pieces.bytes + pieces.starts[i];
        const int32_t id = tfm__token_map_find_base(model->token_map, piece, strlen(piece));
        out->ids[out->count++] = id < 0 ? model->unk : id;
    }
    tfm__pieces_free(&pieces);
    return status;
}

static tfm_status open_spm(tfm__subword_model *out, const char *path) {
    tfm__file file = {0};
    tfm__spm *spm = NULL;
    tfm_status status = tfm__file_map(&file, path);
    if (status == TFM_OK)
        status = tfm__spm_open(&spm, file.data, file.size, path);
    tfm__file_unmap(&file);
    out->self = spm;
    out->close = close_spm;
    out->encode_word = encode_word;
    return status;
}

tfm_status tfm__spm_vocab_open(tfm__subword_model *out, const char *vocabulary, const char *spm, const char *unk) {
    const tfm__json_location location = {vocabulary, "vocab"};
    json_t *root = NULL;
    *out = (tfm__subword_model){.unk = -1};
    tfm_status status = tfm__json_load(&root, vocabulary);
    if (status == TFM_OK)
        status = tfm__token_map_new(&out->token_map);
    if (status == TFM_OK)
        status = tfm__token_map_read(out->token_map, root, location);
    json_decref(root);
    if (status == TFM_OK)
        tfm__token_map_seal(out->token_map);
    if (status == TFM_OK && (out->unk = tfm__token_map_find(out->token_map, unk, strlen(unk))) < 0)
        status = tfm__fail(TFM_ERROR_FORMAT, "%s has no \"%.100s\", which is the `unk_token`", vocabulary, unk);
    if (status == TFM_OK)
        status = open_spm(out, spm);
    if (status != TFM_OK)
        tfm__subword_model_free(out);
    return status;
}
