#include "model/decode/shortlist_projection.h"
#include <string.h>
#include "model/weights/shortlist.h"
#include "ops/gemm/quantize.h"
#include "ops/ops.h"

/* Shortlists of all sentences, during merging. */
typedef struct lists {
    int32_t **ids; /* [sentences] */
    size_t *counts;
    int32_t *place; /* [vocabulary]: index in the union; -1: not in it */
    unsigned char *allowed;
} lists;

static void free_lists(lists *l, int64_t sentences) {
    for (int64_t i = 0; l->ids && i < sentences; i++)
        free(l->ids[i]);
    free(l->ids);
    free(l->counts);
    free(l->place);
    free(l->allowed);
}

static tfm_status list_all(int32_t **ids, size_t *count, int vocabulary) {
    *ids = tfm__alloc((size_t)vocabulary, sizeof(**ids));
    for (int i = 0; *ids && i < vocabulary; i++)
        (*ids)[i] = i;
    *count = *ids ? (size_t)vocabulary : 0;
    return *ids ? TFM_OK : TFM_ERROR_MEMORY;
}

static tfm_status find_lists(lists *l, const tfm_model *model, const int32_t *ids, const int32_t *lengths,
                             const int32_t *forced, int64_t sentences, int64_t width) {
    l->ids = tfm__alloc((size_t)sentences, sizeof(*l->ids));
    l->counts = tfm__alloc((size_t)sentences, sizeof(*l->counts));
    l->place = tfm__alloc((size_t)model->arch.decoder.vocabulary, sizeof(*l->place));
    tfm_status status = l->ids && l->counts && l->place ? TFM_OK : TFM_ERROR_MEMORY;
    for (int64_t i = 0; i < sentences && status == TFM_OK; i++)
        status = forced[i] > 0 ? list_all(&l->ids[i], &l->counts[i], model->arch.decoder.vocabulary)
                               : tfm__shortlist_find(model->shortlist, &l->ids[i], &l->counts[i], ids + i * width,
                                                     (size_t)lengths[i]);
    return status;
}

/* The union of all shortlists, and which of its tokens each sentence may use. */
static tfm_status join(tfm__shortlist_projection *out, lists *l, int64_t sentences, int vocabulary) {
    for (int64_t i = 0; i < sentences; i++)
        for (size_t k = 0; k < l->counts[i]; k++)
            l->place[l->ids[i][k]] = 1;
    for (int i = 0; i < vocabulary; i++)
        out->count += l->place[i];
    out->ids = tfm__alloc((size_t)out->count + 1, sizeof(*out->ids));
    l->allowed = tfm__alloc((size_t)(sentences * out->count) + 1, 1);
    if (!out->ids || !l->allowed)
        return TFM_ERROR_MEMORY;
    int64_t used = 0;
    for (int i = 0; i < vocabulary; i++)
        if (l->place[i]) {
            l->place[i] = (int32_t)used;
            out->ids[used++] = i;
        }
    for (int64_t i = 0; i < sentences; i++)
        for (size_t k = 0; k < l->counts[i]; k++)
            l->allowed[i * out->count + l->place[l->ids[i][k]]] = 1;
    return TFM_OK;
}

static tfm_status send(tfm__shortlist_projection *out, tfm_model *model, const lists *l, int64_t sentences,
                       tfm_tensor bias) {
    tfm_context *ctx = model->ctx;
    tfm_tensor column = {0}, picked = {0};
    tfm_tensor_new(ctx, &out->list, TFM_I32, 1, &out->count);
    tfm_tensor_write(ctx, out->list, out->ids);
    tfm_tensor_new(ctx, &out->allowed, TFM_U8, 2, (int64_t[]){sentences, out->count});
    tfm_tensor_write(ctx, out->allowed, l->allowed);
    tfm__param_rows(ctx, &out->output, model->output, out->list);
    tfm_tensor_reshape(ctx, &column, bias, 2, (int64_t[]){bias.dims[0], 1});
    tfm_gather(ctx, &picked, column, out->list);
    return tfm_tensor_reshape(ctx, &out->bias, picked, 1, &out->count);
}

tfm_status tfm__shortlist_projection_make(tfm__shortlist_projection *out, tfm_model *model, const int32_t *ids,
                                          const int32_t *lengths, const int32_t *forced, int64_t sentences,
                                          int64_t width, tfm_tensor bias) {
    lists l = {0};
    *out = (tfm__shortlist_projection){0};
    tfm_status status = find_lists(&l, model, ids, lengths, forced, sentences, width);
    if (status == TFM_OK)
        status = join(out, &l, sentences, model->arch.decoder.vocabulary);
    if (status == TFM_OK)
        status = send(out, model, &l, sentences, bias);
    free_lists(&l, sentences);
    return status;
}

void tfm__shortlist_projection_free(tfm_context *ctx, tfm__shortlist_projection *shortlist) {
    tfm_param_free(ctx, &shortlist->output);
    free(shortlist->ids);
    *shortlist = (tfm__shortlist_projection){0};
}

int32_t tfm__shortlist_projection_index(const tfm__shortlist_projection *shortlist, int32_t id) {
    int64_t low = 0, high = shortlist->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (shortlist->ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < shortlist->count && shortlist->ids[low] == id ? (int32_t)low : -1;
}
