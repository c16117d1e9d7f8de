/* A family with the tensor names of a GGUF file. */
#include <string.h>
#include "model/arch/gguf_arch.h"

/* The family and its tables, one block of memory. */
typedef struct named_family {
    tfm__family family;
    tfm__naming common[TFM__ROLES], encoder[TFM__ROLES], decoder[TFM__ROLES];
} named_family;

/* Tensors that are no parameters: RoPE factors are part of the configuration. */
static const char *const IGNORED[] = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight",
                                      ".cross_attn_rel_b.weight", NULL};

/* Names of the roles that the base family has. The layout is always (outputs, inputs). */
static void name_roles(tfm__naming *out, const tfm__naming *base, const tfm__gguf_arch *arch, bool decoder) {
    for (int i = 0; base && i < TFM__ROLES; i++) {
        const tfm__naming *name = tfm__gguf_naming(arch, decoder, (tfm__role)i);
        const bool other_name = i == TFM__UP_UNGATED; /* GGUF has one name for both */
        if ((base[i].weight || base[i].bias) && !other_name)
            out[i] = (tfm__naming){.weight = name->weight, .bias = name->bias};
    }
}

/* One tensor for several roles. */
static void fuse(tfm__naming *out, tfm__role first, tfm__role last, const char *weight, const char *bias) {
    for (int i = first; i <= (int)last; i++)
        if (out[i].weight)
            out[i] = (tfm__naming){.weight = weight, .bias = bias};
}

/* A bias table of the first layer only has no layer number in its name. */
static void name_relative(tfm__naming *out, const tfm__naming *base, const char *weight) {
    const char *own = base ? base[TFM__RELATIVE_BIAS].weight : NULL;
    if (own && !strchr(own, '#'))
        out[TFM__RELATIVE_BIAS].weight = weight;
}

static bool has(const tfm__gguf *gguf, const char *tensor) {
    return tfm__gguf_tensor_find(gguf, tensor) != NULL;
}

/* Whether two roles share a tensor. */
static bool share(const tfm__naming *a, const tfm__naming *b) {
    return a->weight && b->weight && strcmp(a->weight, b->weight) == 0;
}

tfm__family *tfm__gguf_family_new(const tfm__gguf_arch *arch, const tfm__family *base, const tfm__gguf *gguf) {
    named_family *out = tfm__alloc(1, sizeof(*out));
    if (!out)
        return NULL;
    name_roles(out->common, base->common, arch, base->decoder != NULL);
    name_roles(out->encoder, base->encoder, arch, false);
    name_roles(out->decoder, base->decoder, arch, true);
    name_relative(out->encoder, base->encoder, "enc.blk.0.attn_rel_b.weight");
    name_relative(out->decoder, base->decoder, "dec.blk.0.attn_rel_b.weight");
    tfm__naming *stack = base->decoder ? out->decoder : out->encoder;
    const tfm__naming *own = base->decoder ? base->decoder : base->encoder;
    if (gguf ? has(gguf, "blk.0.attn_qkv.weight") : share(&own[TFM__SELF_QUERY], &own[TFM__SELF_KEY]))
        fuse(stack, TFM__SELF_QUERY, TFM__SELF_VALUE, "blk.#.attn_qkv.weight", "blk.#.attn_qkv.bias");
    if (!base->encoder && (gguf ? !has(gguf, "blk.0.ffn_gate.weight") : share(&own[TFM__GATE], &own[TFM__UP])))
        fuse(stack, TFM__GATE, TFM__UP, "blk.#.ffn_up.weight", "blk.#.ffn_up.bias");
    out->family = (tfm__family){
        .name = base->name,
        .ignored = IGNORED,
        .keeps_shared = base->keeps_shared,
        .output_by_file = base->output_by_file,
        .qk_interleaved = arch->qk_interleaved,
        .whole_gammas = arch->whole_gammas,
        .common = out->common,
        .encoder = base->encoder ? out->encoder : NULL,
        .decoder = base->decoder ? out->decoder : NULL,
    };
    return &out->family;
}
