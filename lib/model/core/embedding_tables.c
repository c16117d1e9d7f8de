/* Embedding tables and the output projection: their stored tensors, weight tying, and the logit biases. */
#include <math.h>
#include <string.h>
#include "model/core/load.h"

/* Roles that substitute for a missing one, by the ties in the configuration, in transformers' order. Checkpoints of
 * different versions store any subset of the names of a tied table. The second order is for families whose files alone
 * say whether the output has a separate table. */
static const struct {
    tfm__role role;
    bool shared, tied; /* required flags */
} FALLBACKS[2][TFM__TABLES][6] = {
    {{{TFM__SOURCE_EMBEDDING, 0, 0},
      {TFM__SHARED_EMBEDDING, 0, 0},
      {TFM__OUTPUT_PROJECTION, 1, 1},
      {TFM__TARGET_EMBEDDING, 1, 0}},
     {{TFM__TARGET_EMBEDDING, 0, 0},
      {TFM__SHARED_EMBEDDING, 0, 0},
      {TFM__OUTPUT_PROJECTION, 0, 1},
      {TFM__SOURCE_EMBEDDING, 1, 0}},
     {{TFM__OUTPUT_PROJECTION, 0, 0},
      {TFM__SHARED_EMBEDDING, 1, 1},
      {TFM__TARGET_EMBEDDING, 0, 1},
      {TFM__SHARED_EMBEDDING, 0, 1},
      {TFM__SOURCE_EMBEDDING, 1, 1}}},
    {{{TFM__SOURCE_EMBEDDING, 0, 0},
      {TFM__SHARED_EMBEDDING, 0, 0},
      {TFM__TARGET_EMBEDDING, 0, 0},
      {TFM__OUTPUT_PROJECTION, 0, 0}},
     {{TFM__TARGET_EMBEDDING, 0, 0},
      {TFM__SHARED_EMBEDDING, 0, 0},
      {TFM__SOURCE_EMBEDDING, 0, 0},
      {TFM__OUTPUT_PROJECTION, 0, 0}},
     {{TFM__OUTPUT_PROJECTION, 0, 0},
      {TFM__SHARED_EMBEDDING, 0, 0},
      {TFM__SOURCE_EMBEDDING, 0, 0},
      {TFM__TARGET_EMBEDDING, 0, 0}}},
};

static const char *table_name(const tfm__loader *l, tfm__role role) {
    return tfm__role_naming(l->family, true, role)->weight;
}

static const tfm__stored_tensor *find_table(const tfm__loader *l, int role) {
    /* a single stack shares with no other one */
    const bool shared = l->arch->shared_tables || l->arch->encoder.layers == 0 || l->arch->decoder.layers == 0;
    const int order = l->family->output_by_file;
    for (size_t i = 0; FALLBACKS[order][role][i].role != TFM__NO_ROLE; i++) {
        const tfm__role name = FALLBACKS[order][role][i].role;
        const bool allowed = (shared || !FALLBACKS[order][role][i].shared) &&
                             (l->arch->tied_embeddings || !FALLBACKS[order][role][i].tied);
        if (!table_name(l, name) || !allowed)
            continue;
        const tfm__stored_tensor *stored = tfm__load_find(l, table_name(l, name));
        if (stored)
            return stored;
    }
    tfm__fail(TFM_ERROR_FORMAT, "%s: %s is missing%s", tfm__weights_at(l->file, 0)->file,
              table_name(l, FALLBACKS[order][role][0].role),
              role == 2 && !l->arch->tied_embeddings ? "" : ", and so are its aliases");
    return NULL;
}

/* Whether two stored tensors are the same or copies. */
static bool equal(const tfm__stored_tensor *a, const tfm__stored_tensor *b) {
    bool same = a->usable && b->usable && a->dtype == b->dtype && a->blocks == b->blocks && a->rank == b->rank &&
                a->bytes == b->bytes;
    for (int i = 0; same && i < a->rank; i++)
        same = a->dims[i] == b->dims[i];
    return a == b || (same && memcmp(a->data, b->data, a->bytes) == 0);
}

/* Whether two roles share a table. If the configuration ties them but the file has two different tables, the file wins,
 * as in transformers. */
static bool is_tied(const tfm__loader *l, int a, int b, bool tied) {
    const tfm__stored_tensor *x = l->tables[a], *y = l->tables[b];
    if (x == y || (tied && equal(x, y)))
        return true;
    if (tied && x->usable && y->usable && !(a == 2 && l->family->output_by_file))
        tfm__log(TFM_LOG_WARNING, "%s: %s and %s are tied by config.json, but differ: each is used under its name",
                 x->file, x->name, y->name);
    return false;
}

/* Finds the tables of the model's parts. In an encoder-only model the output projection belongs to the encoder. */
void tfm__load_tables(tfm__loader *l) {
    const bool encodes = l->arch->encoder.layers > 0, decodes = l->arch->decoder.layers > 0;
    const bool wanted[TFM__TABLES] = {encodes, decodes, !l->arch->headless};
    for (int role = 0; role < TFM__TABLES && l->status == TFM_OK; role++)
        if (wanted[role] && !(l->tables[role] = find_table(l, role)))
            l->status = TFM_ERROR_FORMAT;
    if (l->status != TFM_OK)
        return;
    if (encodes && decodes)
        l->arch->shared_tables = is_tied(l, 0, 1, l->arch->shared_tables && l->arch->tied_embeddings) ||
                                 (l->arch->shared_tables && equal(l->tables[0], l->tables[1]));
    if (!l->arch->headless)
        l->arch->tied_embeddings = is_tied(l, 2, decodes ? 1 : 0, l->arch->tied_embeddings);
    /* a shared table has one size */
    if (l->arch->shared_tables && l->arch->encoder.vocabulary != l->arch->decoder.vocabulary)
        l->status =
            tfm__fail(TFM_ERROR_FORMAT, "%s: %s has %lld rows, but the configuration says %d", l->tables[1]->file,
                      l->tables[1]->name, (long long)l->tables[1]->dims[0], l->arch->decoder.vocabulary);
    if (l->model) {
        l->model->arch = *l->arch;
        tfm__model_set_tables(l->model);
    }
}

/* Whether this is another copy of a used table. */
bool tfm__load_is_alias(const tfm__loader *l, const tfm__stored_tensor *stored) {
    for (int role = 0; role < TFM__TABLES; role++)
        if (l->tables[role] && equal(stored, l->tables[role]))
            return true;
    return false;
}

/* ---- Tables of a model ---- */

void tfm__model_set_tables(tfm_model *model) {
    const tfm__arch *arch = &model->arch;
    model->encoder.table = &model->tables[0];
    model->decoder.table = arch->shared_tables ? model->encoder.table : &model->tables[1];
    model->output = arch->headless           ? NULL
                    : !arch->tied_embeddings ? &model->tables[2]
                    : arch->decoder.layers   ? model->decoder.table
                                             : model->encoder.table;
}

tfm_status tfm__model_set_biases(tfm_model *model, float *bias) {
    const int64_t size = tfm__arch_output_stack(&model->arch)->vocabulary;
    const int64_t some = tfm__arch_output_stack(&model->arch)->stored_vocabulary, stored = some ? some : size;
    tfm_tensor *const tensors[] = {&model->logits_bias, &model->score_bias, &model->search_bias};
    bool (*const without[])(const tfm__generation_rules *, int32_t) = {NULL, tfm__generation_is_pad,
                                                                       tfm__generation_is_banned};
    tfm_status status = TFM_OK;
    for (size_t k = 0; k < TFM__COUNT(tensors) && status == TFM_OK; k++) {
        tfm__tensor_new_persistent(model->ctx, tensors[k], TFM_F32, 1, &size);
        for (int64_t i = 0; without[k] && i < size; i++)
            bias[i] = i >= stored || without[k](&model->rules, (int32_t)i) ? -INFINITY : bias[i];
        status = tfm_tensor_write(model->ctx, *tensors[k], bias);
    }
    return status;
}
