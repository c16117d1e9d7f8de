/* Traversal of a model's parameters, and their stored tensors. Loading and saving use it. */
#include "model/core/param_roles.h"
#include <stdio.h>
#include <string.h>
#include "model/core/model.h"

/* ---- Traversal ---- */

typedef struct walker {
    const tfm__family *family;
    const tfm__arch *arch;
    const tfm__stack_arch *stack;
    bool decoder; /* which stack */
    int layer;
    tfm__parameter_fn each;
    void *user;
    tfm_status status;
} walker;

const tfm__naming *tfm__role_naming(const tfm__family *family, bool decoder, tfm__role role) {
    static const tfm__naming NONE;
    const tfm__naming *names = role < TFM__POSITIONS ? family->common : decoder ? family->decoder : family->encoder;
    return names ? &names[role] : &NONE;
}

/* Rows of a block's matrix (its outputs), or the length of a norm. */
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
    case TFM__SELF_QUERY_NORM:
        return (int64_t)s->head_width * (s->joint_head_norms ? s->heads : 1);
    case TFM__SELF_KEY_NORM:
        return (int64_t)s->head_width * (s->joint_head_norms ? s->kv_heads : 1);
    case TFM__EMBEDDING_NORM:
    case TFM__MLM_DENSE:
    case TFM__MLM_NORM:
    case TFM__OUTPUT_DENSE:
        return tfm__stack_embedding_width(s);
    case TFM__UP:
    case TFM__UP_UNGATED:
    case TFM__GATE:
        return s->feed_forward;
    default:
        return s->width;
    }
}

static bool is_cross(tfm__role role) {
    return role >= TFM__CROSS_QUERY && role <= TFM__CROSS_NORM;
}

/* For fused QKV in groups, `first` counts within one group. */
static void slice_by_group(const walker *w, tfm__parameter *p) {
    const int64_t groups = w->family->qkv_groups == TFM__QKV_BY_HEAD ? w->stack->kv_heads : w->family->qkv_groups;
    if (groups == 0 || p->role < TFM__SELF_QUERY || p->role > TFM__SELF_VALUE)
        return;
    const int64_t queries = outputs_of(w->stack, TFM__SELF_QUERY) / groups,
                  keys = outputs_of(w->stack, TFM__SELF_KEY) / groups;
    const tfm__role second = w->family->values_before_keys ? TFM__SELF_VALUE : TFM__SELF_KEY;
    p->run = p->dims[0] / groups;
    p->first = p->role == TFM__SELF_QUERY ? 0 : p->role == second ? queries : queries + keys;
    p->step = p->total / groups;
}

/* The rows of the stored tensor: roles with the same name share it. Norms with the same name are the same norm. */
static void find_slice(const walker *w, tfm__parameter *p, bool bias) {
    const tfm__naming *naming = tfm__role_naming(w->family, w->decoder, p->role);
    const char *own = bias ? naming->bias : naming->weight;
    p->first = 0;
    p->total = p->dims[0];
    if (p->role < TFM__SELF_QUERY || p->kind == TFM__GAMMA || p->kind == TFM__BETA)
        return;
    for (tfm__role role = TFM__SELF_QUERY; role < TFM__ROLES; role++) {
        naming = tfm__role_naming(w->family, w->decoder, role);
        const char *other = bias ? naming->bias : naming->weight;
        if (role == p->role || !other || strcmp(other, own) != 0 || (is_cross(role) && !w->stack->cross) ||
            (role == TFM__GATE && !w->stack->gated))
            continue;
        p->total += outputs_of(w->stack, role);
        if (role < p->role)
            p->first += outputs_of(w->stack, role);
    }
    if (w->family->up_before_gate && (p->role == TFM__GATE || p->role == TFM__UP))
        p->first = p->total - p->dims[0] - p->first;
    slice_by_group(w, p);
}

/* The family's name with the layer's number for `#`. For grouped layers, as in transformers, the first `#` is the
 * group's number, the second the layer's number within it. */
static void name_layer(char *out, size_t size, const char *name, const walker *w) {
    const tfm__stack_arch *s = w->stack;
    const char *mark = strchr(name, '#'), *second = mark ? strchr(mark + 1, '#') : NULL;
    if (!mark) {
        snprintf(out, size, "%s", name);
    } else if (!s->groups || !second) {
        snprintf(out, size, "%.*s%d%s", (int)(mark - name), name, w->layer + w->family->first_layer, mark + 1);
    } else {
        const int repeat = w->layer / s->group_layers, repeats = s->layers / s->group_layers;
        snprintf(out, size, "%.*s%d%.*s%d%s", (int)(mark - name), name, (int)(repeat / ((double)repeats / s->groups)),
                 (int)(second - mark - 1), mark + 1, w->layer % s->group_layers, second + 1);
    }
}

void tfm__row_name(char *out, size_t size, const char *name, int row) {
    const char *mark = strchr(name, '#');
    snprintf(out, size, "%.*s%d%s", (int)(mark - name), name, row, mark + 1);
}

static void visit(walker *w, tfm__role role, tfm__parameter_kind kind, tfm_param *param, int64_t rows,
                  int64_t columns) {
    const bool bias = kind == TFM__BIAS || kind == TFM__BETA;
    const tfm__naming *naming = tfm__role_naming(w->family, w->decoder, role);
    const char *name = bias ? naming->bias : naming->weight;
    char full[256];
    tfm__parameter p = {.param = param,
                        .role = role,
                        .kind = kind,
                        .rank = columns ? 2 : 1,
                        .dims = {rows, columns},
                        .name = full,
                        .transposed = columns && naming->transposed,
                        .offset = kind == TFM__GAMMA && !w->family->whole_gammas ? w->stack->gamma_offset : 0};
    if (w->status != TFM_OK)
        return;
    if (!name) {
        w->status = tfm__fail(TFM_ERROR_UNSUPPORTED, "the model's family has no name for a parameter that it has");
        return;
    }
    if (w->family->qk_interleaved && (role == TFM__SELF_QUERY || role == TFM__SELF_KEY))
        p.interleaved = w->stack->head_width;
    find_slice(w, &p, bias);
    if (role <= TFM__OUTPUT_PROJECTION && w->stack->stored_vocabulary) {
        p.zero_rows = rows - w->stack->stored_vocabulary;
        p.total -= p.zero_rows;
    }
    name_layer(full, sizeof(full), name, w);
    if (kind == TFM__GAMMA && strchr(full, '#'))
        p.rows = (int)rows;
    w->status = w->each(w->user, &p);
}

/* A field of an object that may be NULL. */
#define FIELD(object, field) ((object) ? &(object)->field : NULL)

static void walk_dense(walker *w, tfm__role role, tfm_dense *layer, int64_t inputs, bool biased) {
    const int64_t outputs = outputs_of(w->stack, role);
    visit(w, role, TFM__MATRIX, FIELD(layer, weight), outputs, inputs);
    if (biased)
        visit(w, role, TFM__BIAS, FIELD(layer, bias), outputs, 0);
}

static void walk_norm(walker *w, tfm__role role, tfm_norm *layer) {
    const int64_t size = outputs_of(w->stack, role);
    if (w->stack->plain_norms)
        return;
    visit(w, role, TFM__GAMMA, FIELD(layer, gamma), size, 0);
    if (w->stack->norm == TFM_NORM_LAYER && w->stack->norm_biases)
        visit(w, role, TFM__BETA, FIELD(layer, beta), size, 0);
}

/* QK norms. */
static void walk_head_norms(walker *w, tfm__role role, tfm_norm *layer, int heads) {
    if (!w->stack->own_head_norms) {
        walk_norm(w, role, layer);
        return;
    }
    visit(w, role, TFM__GAMMA, FIELD(layer, gamma), heads, w->stack->head_width);
}

/* `first` is the query's role; key, value and output follow. */
static void walk_attention(walker *w, tfm__role first, tfm_multi_head *layer, int64_t memory_width) {
    const tfm__stack_arch *s = w->stack;
    walk_dense(w, first, FIELD(layer, query), s->width, s->input_biases);
    walk_dense(w, first + 1, FIELD(layer, key), memory_width, s->input_biases);
    walk_dense(w, first + 2, FIELD(layer, value), memory_width, s->input_biases);
    walk_dense(w, first + 3, FIELD(layer, out), (int64_t)s->heads * s->head_width, s->output_biases);
}

static tfm__role up_of(const walker *w) {
    return !w->stack->gated && tfm__role_naming(w->family, w->decoder, TFM__UP_UNGATED)->weight ? TFM__UP_UNGATED
                                                                                                : TFM__UP;
}

/* The role of a norm with another name if parallel sub-layers have separate norms. */
static tfm__role norm_of(const walker *w, tfm__role role, tfm__role parallel) {
    const bool other = w->stack->parallel && !w->stack->shared_norm;
    return other && tfm__role_naming(w->family, w->decoder, parallel)->weight ? parallel : role;
}

static void walk_block(walker *w, tfm_block *block) {
    const tfm__stack_arch *s = w->stack;
    const bool around = s->norm_placement == TFM_NORM_SANDWICH,
               up_biases = s->feed_forward_biases && !s->no_gate_biases;
    if (s->recurrent) {
        walk_dense(w, TFM__SSRU_INPUT, FIELD(block, ssru.input), s->width, false);
        walk_dense(w, TFM__SSRU_FORGET, FIELD(block, ssru.forget), s->width, true);
    } else {
        walk_attention(w, TFM__SELF_QUERY, FIELD(block, attention), s->width);
    }
    if (!(s->layer[w->layer] & TFM__NO_NORM_LAYER))
        walk_norm(w, norm_of(w, TFM__SELF_NORM, TFM__SELF_NORM_PARALLEL), FIELD(block, attention_norm));
    if (s->head_norms) {
        walk_head_norms(w, TFM__SELF_QUERY_NORM, FIELD(block, attention.query_norm), s->heads);
        walk_head_norms(w, TFM__SELF_KEY_NORM, FIELD(block, attention.key_norm), s->kv_heads);
    }
    if (around)
        walk_norm(w, TFM__SELF_NORM_AFTER, FIELD(block, attention_post_norm));
    if (s->cross) {
        walk_attention(w, TFM__CROSS_QUERY, FIELD(block, cross_attention), w->arch->encoder.width);
        walk_norm(w, TFM__CROSS_NORM, FIELD(block, cross_attention_norm));
    }
    if (s->gated)
        walk_dense(w, TFM__GATE, FIELD(block, feed_forward.gate), s->width, up_biases);
    walk_dense(w, up_of(w), FIELD(block, feed_forward.up), s->width, up_biases);
    walk_dense(w, TFM__DOWN, FIELD(block, feed_forward.down), s->feed_forward, s->feed_forward_biases);
    if (!s->shared_norm)
        walk_norm(w, norm_of(w, TFM__FEED_FORWARD_NORM, TFM__FEED_FORWARD_NORM_PARALLEL),
                  FIELD(block, feed_forward_norm));
    if (around)
        walk_norm(w, TFM__FEED_FORWARD_NORM_AFTER, FIELD(block, feed_forward_post_norm));
}

/* False: the model has no such stack. */
static bool enter(walker *w, bool decoder) {
    w->decoder = decoder;
    w->stack = decoder ? &w->arch->decoder : &w->arch->encoder;
    return w->stack->layers > 0;
}

static void walk_table(walker *w, tfm__role role, tfm_param *table) {
    visit(w, role, TFM__EMBEDDING, table, w->stack->vocabulary, tfm__stack_embedding_width(w->stack));
}

static void walk_tables(walker *w, tfm_model *model) {
    const tfm__arch *arch = w->arch;
    const bool own_output = !arch->headless && !arch->tied_embeddings;
    if (enter(w, false))
        walk_table(w,
                   arch->shared_tables && (!own_output || w->family->keeps_shared) ? TFM__SHARED_EMBEDDING
                                                                                   : TFM__SOURCE_EMBEDDING,
                   model ? model->encoder.table : NULL);
    if (enter(w, true) && !arch->shared_tables)
        walk_table(w, TFM__TARGET_EMBEDDING, model ? model->decoder.table : NULL);
    if (own_output) {
        enter(w, arch->decoder.layers > 0);
        walk_table(w, TFM__OUTPUT_PROJECTION, model ? model->output : NULL);
    }
}

/* A stack's parameters besides tables and blocks. `norms`: 0 all except norms, 1 the embedding norm, 2 the final
 * norm. */
static void walk_stack(walker *w, tfm__stack *stack, int norms) {
    const tfm__stack_arch *s = w->stack;
    const int width = tfm__stack_embedding_width(s);
    if (norms == 0 && s->positions == TFM__LEARNED_POSITIONS)
        visit(w, TFM__POSITIONS, TFM__EMBEDDING, FIELD(stack, learned_positions),
              (int64_t)s->max_positions + s->position_offset, s->projected ? s->width : width);
    if (norms == 0 && s->token_types)
        visit(w, TFM__TOKEN_TYPES, TFM__EMBEDDING, FIELD(stack, token_types), s->token_types, width);
    for (w->layer = 0; norms == 0 && s->relative.buckets && w->layer < tfm__position_bias_tables(s); w->layer++)
        visit(w, TFM__RELATIVE_BIAS, TFM__EMBEDDING, stack ? &stack->relative[w->layer] : NULL, s->relative.buckets,
              s->heads);
    if (norms == 1 && s->embedding_norm)
        walk_norm(w, TFM__EMBEDDING_NORM, FIELD(stack, embedding_norm));
    if (norms == 1 && s->narrow_width)
        walk_dense(w, TFM__EMBEDDING_DENSE, FIELD(stack, embedding_dense), width, !s->projected);
    if (norms == 2 && s->final_norm)
        walk_norm(w, TFM__FINAL_NORM, FIELD(stack, final_norm));
    if (norms == 2 && s->projected)
        walk_dense(w, TFM__OUTPUT_DENSE, FIELD(stack, output_dense), s->width, false);
}

static void walk_head(walker *w, tfm__head *head) {
    const tfm__head_arch *arch = &w->arch->head;
    const bool words = arch->kind == TFM__MLM_HEAD;
    if (arch->kind == TFM__NO_HEAD || !enter(w, false))
        return;
    walk_dense(w, words ? TFM__MLM_DENSE : TFM__CLASSIFIER_DENSE, FIELD(head, dense), w->stack->width,
               arch->dense_bias);
    if (arch->norm)
        walk_norm(w, words ? TFM__MLM_NORM : TFM__CLASSIFIER_NORM, FIELD(head, norm));
    if (words)
        return; /* the rest is the output projection */
    visit(w, TFM__CLASSIFIER_OUT, TFM__MATRIX, FIELD(head, out.weight), arch->classes, w->stack->width);
    visit(w, TFM__CLASSIFIER_OUT, TFM__BIAS, FIELD(head, out.bias), arch->classes, 0);
}

tfm_status tfm__params_visit(const tfm__family *family, const tfm__arch *arch, tfm_model *model, tfm__parameter_fn each,
                             void *user) {
    walker w = {.family = family, .arch = arch, .each = each, .user = user};
    tfm__stack *const stacks[] = {FIELD(model, encoder), FIELD(model, decoder)};
    walk_tables(&w, model);
    for (int norms = 0; norms < 3; norms++)
        for (int decoder = 0; decoder < 2; decoder++)
            if (enter(&w, decoder))
                walk_stack(&w, stacks[decoder], norms);
    for (int decoder = 0; decoder < 2; decoder++)
        for (w.layer = 0; enter(&w, decoder) && w.layer < w.stack->layers && w.status == TFM_OK; w.layer++)
            walk_block(&w, stacks[decoder] ? &stacks[decoder]->blocks[w.layer] : NULL);
    walk_head(&w, FIELD(model, head));
    return w.status;
}
