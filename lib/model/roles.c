/* The walk over a model's parameters, and which stored tensor is which of them. Loading and saving are this walk. */
#include "model/roles.h"
#include <stdio.h>
#include <string.h>
#include "model/model.h"

/* ---- The walk ---- */

typedef struct walker {
    const tfm__arch *arch;
    const tfm__stack_arch *stack;
    const tfm__naming *names; /* of that stack */
    int layer;
    tfm__parameter_fn each;
    void *user;
    tfm_status status;
} walker;

/* Rows of a block's matrix: what it puts out. */
static int64_t outputs_of(const tfm__stack_arch *s, tfm__role role) {
    switch (role) {
    case TFM__SELF_QUERY:
    case TFM__CROSS_QUERY:
        return (int64_t)s->heads * s->head_width;
    case TFM__SELF_KEY:
    case TFM__SELF_VALUE:
    case TFM__CROSS_KEY:
    case TFM__CROSS_VALUE:
        return (int64_t)s->kv_heads * s->head_width;
    case TFM__UP:
    case TFM__GATE:
        return s->feed_forward;
    default:
        return s->width;
    }
}

static bool is_cross(tfm__role role) {
    return role >= TFM__CROSS_QUERY && role <= TFM__CROSS_NORM;
}

/* Which rows of the stored tensor they are: all roles of one name share it. */
static void find_part(const walker *w, tfm__parameter *p, bool bias) {
    const tfm__naming *names = w->names;
    const char *own = bias ? names[p->role].bias : names[p->role].weight;
    p->first = 0;
    p->total = p->dims[0];
    if (p->role < TFM__SELF_QUERY || p->role > TFM__FEED_FORWARD_NORM)
        return;
    for (tfm__role role = TFM__SELF_QUERY; role <= TFM__FEED_FORWARD_NORM; role++) {
        const char *other = bias ? names[role].bias : names[role].weight;
        if (role == p->role || !other || strcmp(other, own) != 0 || (is_cross(role) && !w->stack->cross) ||
            (role == TFM__GATE && !w->stack->gated))
            continue;
        p->total += outputs_of(w->stack, role);
        if (role < p->role)
            p->first += outputs_of(w->stack, role);
    }
}

/* The family's name with the layer's number in the place of `#`. */
static void name_layer(char *out, size_t size, const char *name, int layer) {
    const char *mark = strchr(name, '#');
    if (mark)
        snprintf(out, size, "%.*s%d%s", (int)(mark - name), name, layer, mark + 1);
    else
        snprintf(out, size, "%s", name);
}

static void visit(walker *w, tfm__role role, tfm__parameter_kind kind, tfm_param *param, int64_t rows,
                  int64_t columns) {
    const bool bias = kind == TFM__BIAS || kind == TFM__BETA;
    const char *name = bias ? w->names[role].bias : w->names[role].weight;
    char full[256];
    tfm__parameter p = {.param = param,
                        .role = role,
                        .kind = kind,
                        .rank = columns ? 2 : 1,
                        .dims = {rows, columns},
                        .name = full,
                        .transposed = columns && w->names[role].transposed};
    if (w->status != TFM_OK)
        return;
    if (!name) {
        w->status = tfm__fail(TFM_ERROR_UNSUPPORTED, "the model's family has no name for a parameter that it has");
        return;
    }
    find_part(w, &p, bias);
    name_layer(full, sizeof(full), name, w->layer);
    w->status = w->each(w->user, &p);
}

/* A field of what may be NULL. */
#define FIELD(object, field) ((object) ? &(object)->field : NULL)

static void walk_dense(walker *w, tfm__role role, tfm_dense *layer, int64_t inputs) {
    const int64_t outputs = outputs_of(w->stack, role);
    visit(w, role, TFM__MATRIX, FIELD(layer, weight), outputs, inputs);
    if (w->stack->biases)
        visit(w, role, TFM__BIAS, FIELD(layer, bias), outputs, 0);
}

static void walk_norm(walker *w, tfm__role role, tfm_norm *layer) {
    visit(w, role, TFM__GAMMA, FIELD(layer, gamma), w->stack->width, 0);
    if (w->stack->norm == TFM_NORM_LAYER)
        visit(w, role, TFM__BETA, FIELD(layer, beta), w->stack->width, 0);
}

/* `first` is the role of its queries; keys, values and output follow. */
static void walk_attention(walker *w, tfm__role first, tfm_multi_head *layer, int64_t memory_width) {
    walk_dense(w, first, FIELD(layer, query), w->stack->width);
    walk_dense(w, first + 1, FIELD(layer, key), memory_width);
    walk_dense(w, first + 2, FIELD(layer, value), memory_width);
    walk_dense(w, first + 3, FIELD(layer, out), (int64_t)w->stack->heads * w->stack->head_width);
}

static void walk_block(walker *w, tfm_block *block) {
    const tfm__stack_arch *s = w->stack;
    walk_attention(w, TFM__SELF_QUERY, FIELD(block, attention), s->width);
    walk_norm(w, TFM__SELF_NORM, FIELD(block, attention_norm));
    if (s->cross) {
        walk_attention(w, TFM__CROSS_QUERY, FIELD(block, cross), w->arch->encoder.width);
        walk_norm(w, TFM__CROSS_NORM, FIELD(block, cross_norm));
    }
    walk_dense(w, TFM__UP, FIELD(block, feed_forward.up), s->width);
    if (s->gated)
        walk_dense(w, TFM__GATE, FIELD(block, feed_forward.gate), s->width);
    walk_dense(w, TFM__DOWN, FIELD(block, feed_forward.down), s->feed_forward);
    walk_norm(w, TFM__FEED_FORWARD_NORM, FIELD(block, feed_forward_norm));
}

static void enter(walker *w, const tfm__family *family, bool decoder) {
    w->stack = decoder ? &w->arch->decoder : &w->arch->encoder;
    w->names = decoder ? family->decoder : family->encoder;
}

static void walk_tables(walker *w, tfm_model *model) {
    const tfm__arch *arch = w->arch;
    const bool one = arch->shared_tables && arch->tied_output;
    visit(w, one ? TFM__SHARED_TABLE : TFM__SOURCE_TABLE, TFM__TABLE, model ? model->encoder.table : NULL,
          arch->encoder.vocabulary, arch->encoder.width);
    if (!arch->shared_tables)
        visit(w, TFM__TARGET_TABLE, TFM__TABLE, model ? model->decoder.table : NULL, arch->decoder.vocabulary,
              arch->decoder.width);
    if (!arch->tied_output)
        visit(w, TFM__OUTPUT_TABLE, TFM__TABLE, model ? model->output : NULL, arch->decoder.vocabulary,
              arch->decoder.width);
}

tfm_status tfm__roles_walk(const tfm__family *family, const tfm__arch *arch, tfm_model *model, tfm__parameter_fn each,
                           void *user) {
    walker w = {.arch = arch, .each = each, .user = user};
    enter(&w, family, true);
    walk_tables(&w, model);
    for (int norm = 0; norm < 2; norm++)
        for (int decoder = 0; decoder < 2; decoder++) {
            tfm__stack *stack = !model ? NULL : decoder ? &model->decoder : &model->encoder;
            enter(&w, family, decoder);
            if (norm == 0 ? w.stack->embedding_norm : w.stack->final_norm)
                walk_norm(&w, norm == 0 ? TFM__EMBEDDING_NORM : TFM__FINAL_NORM,
                          norm == 0 ? FIELD(stack, embedding_norm) : FIELD(stack, final_norm));
        }
    for (int decoder = 0; decoder < 2; decoder++) {
        enter(&w, family, decoder);
        for (w.layer = 0; w.layer < w.stack->layers && w.status == TFM_OK; w.layer++)
            walk_block(&w, !model ? NULL : &(decoder ? &model->decoder : &model->encoder)->blocks[w.layer]);
    }
    return w.status;
}
