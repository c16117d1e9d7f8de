/* How queries and keys turn with their position, as Hugging Face's configurations say it. */
#ifndef TFM_LIB_ROPE_H
#define TFM_LIB_ROPE_H

#include "model/arch/config_keys.h"

/* What a family knows of the rotation of some of its layers. */
typedef struct tfm__rope_spec {
    const char *layers;      /* What `rope_parameters` calls them where it has an object for each kind of layer */
    const char *theta_key;   /* "rope_theta", or what the family calls it */
    const char *partial_key; /* the same of "partial_rotary_factor"; NULL: that */
    const char *size_key;    /* says how many columns of a head are rotated, in the place of that factor; NULL: none */
    int size;                /* its default */
    bool fixed;              /* there are no keys but that one */
    double theta;            /* the defaults */
    double partial;
    bool rounded;       /* an odd number of columns that turn is rounded up */
    bool whole;         /* heads turn whole: `partial_rotary_factor` is not looked at */
    bool scaled;        /* `rope_scaling` is about them */
    bool longrope_only; /* longrope is the one scaling, by whatever name of those that it had */
    int original;       /* `original_max_position_embeddings` where it does not stand beside; 0: what the object says */
} tfm__rope_spec;

/* Fills *out from `rope_parameters`, or from `rope_theta` and `rope_scaling`. head_width of the stack must be known;
 * `positions` are its `max_position_embeddings`, and its max_positions become at least those, and more where a scaling
 * is made for longer texts. Types that no code here knows are refused by name. */
tfm_status tfm__read_rope(tfm__rotary_arch *out, tfm__stack_arch *stack, int positions, const tfm__config_files *from,
                          const tfm__rope_spec *rope);

/* A rotation as `rope_parameters` has it, or NULL without memory. */
json_t *tfm__write_rope(const tfm__rotary_arch *rotary);

#endif
