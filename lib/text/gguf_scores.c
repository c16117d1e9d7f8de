#include "text/gguf_scores.h"

/* A token without a merge comes last. */
#define NO_MERGE (-1e6F)

static void unigram_scores(float *scores, int32_t count, const json_t *vocab) {
    for (size_t id = 0; id < json_array_size(vocab) && id < (size_t)count; id++)
        scores[id] = (float)json_number_value(json_array_get(json_array_get(vocab, id), 1));
}

static bool split_merge(const char *sides[2], size_t bytes[2], const json_t *merge) {
    const char *line = json_string_value(merge);
    sides[0] = line ? line : json_string_value(json_array_get(merge, 0));
    const char *blank = line ? strchr(line, ' ') : NULL;
    sides[1] = blank ? blank + 1 : json_string_value(json_array_get(merge, 1));
    if (!sides[0] || !sides[1])
        return false;
    bytes[0] = blank ? (size_t)(blank - line) : strlen(sides[0]);
    bytes[1] = strlen(sides[1]);
    return true;
}

/* How many pairs of pieces form this token. */
static int64_t pairs_of(const tfm__token_map *map, const char *text, size_t bytes) {
    int64_t pairs = 0;
    for (size_t cut = bytes ? tfm__char_bytes(text) : 0; cut < bytes; cut += tfm__char_bytes(text + cut))
        pairs += tfm__token_map_find_base(map, text, cut) >= 0 &&
                 tfm__token_map_find_base(map, text + cut, bytes - cut) >= 0;
    return pairs;
}

static bool is_added(const tfm__hf_tokenizer *t, int32_t id) {
    return tfm__hf_added_token_by_id(&t->added, id) != NULL;
}

static tfm_status merge_scores(float *scores, int64_t *left, int32_t count, const tfm__hf_tokenizer *t,
                               const json_t *merges, const char *path) {
    tfm__bytes joined = {0};
    const char *sides[2];
    size_t bytes[2], rank;
    json_t *merge;
    json_array_foreach(merges, rank, merge) {
        if (!split_merge(sides, bytes, merge))
            continue;
        joined.count = 0;
        tfm__bytes_add(&joined, sides[0], bytes[0]);
        tfm__bytes_add(&joined, sides[1], bytes[1]);
        const int32_t id = joined.failed ? -1 : tfm__token_map_find_base(t->model.token_map, joined.data, joined.count);
        if (id < 0 || id >= count)
            continue;
        scores[id] = scores[id] == NO_MERGE ? -(float)rank : scores[id];
        left[id]--;
    }
    const bool failed = joined.failed;
    tfm__bytes_free(&joined);
    for (int32_t id = 0; id < count && !failed; id++)
        if (left[id] > 0 && !is_added(t, id))
            return tfm__fail(
                TFM_ERROR_UNSUPPORTED,
                "%s: the token \"%.100s\" has pairs of pieces that are no merges, and GGUF's scores have no "
                "form for that",
                path, tfm__token_map_piece(t->model.token_map, id, NULL));
    return failed ? TFM_ERROR_MEMORY : TFM_OK;
}

static tfm_status bpe_scores(float *scores, int32_t count, const tfm__hf_tokenizer *t, const json_t *merges,
                             const char *path) {
    int64_t *left = tfm__alloc((size_t)count, sizeof(*left));
    if (!left)
        return TFM_ERROR_MEMORY;
    for (int32_t id = 0; id < count; id++) {
        size_t bytes = 0;
        const char *text = tfm__token_map_piece(t->model.token_map, id, &bytes);
        const bool piece = text && tfm__token_map_find_base(t->model.token_map, text, bytes) == id;
        scores[id] = NO_MERGE;
        left[id] = piece && tfm__parse_byte_piece(text, bytes) < 0 ? pairs_of(t->model.token_map, text, bytes) : 0;
    }
    const tfm_status status = merge_scores(scores, left, count, t, merges, path);
    free(left);
    return status;
}

tfm_status tfm__gguf_scores(float *scores, int32_t count, const tfm__hf_tokenizer *t, const json_t *root,
                            const char *path) {
    const json_t *model = json_object_get(root, "model");
    if (t->model.is_bpe)
        return bpe_scores(scores, count, t, json_object_get(model, "merges"), path);
    unigram_scores(scores, count, json_object_get(model, "vocab"));
    return TFM_OK;
}
