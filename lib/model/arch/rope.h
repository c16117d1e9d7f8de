/* RoPE parameters in Hugging Face's configurations. */
#ifndef TFM_LIB_ROPE_H
#define TFM_LIB_ROPE_H

#include "model/arch/config_keys.h"

/* A family's RoPE keys and defaults, for all or some of its layers. */
typedef struct tfm__rope_spec {
    const char *layers;      /* name in `rope_parameters`, if that has one object per layer type */
    const char *theta_key;   /* "rope_theta", or the family's name */
    const char *partial_key; /* the same for "partial_rotary_factor"; NULL: that */
    const char *size_key;    /* number of rotated columns, instead of that factor; NULL: none */
    int size;                /* default of size_key */
    bool fixed;              /* no other keys */
    double theta;            /* default */
    double partial;
    bool rounded;       /* an odd number of rotated columns is rounded up */
    bool whole;         /* full rotary width: `partial_rotary_factor` is ignored */
    bool scaled;        /* `rope_scaling` applies */
    bool longrope_only; /* only longrope scaling, under any of its names */
    int original;       /* default of the outer `original_max_position_embeddings`; 0: the object's */
} tfm__rope_spec;

/* Fills *out from `rope_parameters`, or from `rope_theta` and `rope_scaling`. The stack's head_width must be set;
 * `positions` is its `max_position_embeddings`, and its max_positions is raised to that, or further if the scaling
 * supports longer sequences. Unknown types are refused by name. */
tfm_status tfm__read_rope(tfm__rotary_arch *out, tfm__stack_arch *stack, int positions, const tfm__config_files *from,
                          const tfm__rope_spec *rope);

/* `rope_parameters` of a RoPE, or NULL if out of memory. */
json_t *tfm__write_rope(const tfm__rotary_arch *rotary);

#endif
