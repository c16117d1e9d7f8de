/* Models in GGUF files. Metadata become the config.json of the family, so that the family's reader needs no second
 * form; tensors are found by the file's own names, with a copy of the family that has these instead.
 *
 * A new architecture is one line of the table in gguf_archs.c, and differing tensor names there. */
#ifndef TFM_LIB_GGUF_ARCH_H
#define TFM_LIB_GGUF_ARCH_H

#include "base/gguf_write.h"
#include "model/arch/family.h"

typedef struct tfm__gguf_arch {
    const char *name;       /* `general.architecture`; keys of the metadata begin with it */
    const char *model_type; /* of the family */
    bool qk_interleaved;    /* as in tfm__family: for RoPE of adjacent columns */
    bool whole_gammas;
    const char *class_end;                         /* last part of the class name: "ForCausalLM" */
    const char *feed_forward_key, *epsilon_key;    /* of config.json; NULL: as the decoder_kind says */
    const tfm__naming *common, *encoder, *decoder; /* names that differ from the usual ones, [TFM__ROLES], or NULL */
} tfm__gguf_arch;

/* All architectures; NULL past the end. */
const tfm__gguf_arch *tfm__gguf_arch_at(size_t index);

/* The architecture of a file. Another one, and a mixture of experts, is TFM_ERROR_UNSUPPORTED with its name. */
tfm_status tfm__gguf_arch_find(const tfm__gguf_arch **out, const tfm__gguf *gguf);

/* The architecture that files of this model have: TFM_ERROR_UNSUPPORTED if there is none. `dir` is for the message. */
tfm_status tfm__gguf_arch_of(const tfm__gguf_arch **out, const tfm__family *family, const tfm__arch *arch,
                             const char *dir);

/* The usual GGUF name of a role, or the architecture's own. No name if GGUF has none. `decoder`: the stack. */
const tfm__naming *tfm__gguf_naming(const tfm__gguf_arch *arch, bool decoder, tfm__role role);

/* A copy of `base` with the names and layouts of the file, for tfm__model_load; free it with free(). The file decides
 * whether QKV, and gate and up, are fused; with `gguf` NULL the family does. NULL if out of memory. */
tfm__family *tfm__gguf_family_new(const tfm__gguf_arch *arch, const tfm__family *base, const tfm__gguf *gguf);

/* ---- Metadata ---- */

/* A file whose metadata become a config.json. */
typedef struct tfm__gguf_source {
    const tfm__gguf *gguf;
    const tfm__gguf_arch *arch;
    const char *path;
    json_t *out;
    tfm_status status; /* the first failure; later calls do nothing */
} tfm__gguf_source;

/* `llama.` and the key: a number, false if absent. A list has one per layer; all must be equal. */
bool tfm__gguf_read_int(tfm__gguf_source *s, const char *key, int64_t *out);
bool tfm__gguf_read_number(tfm__gguf_source *s, const char *key, double *out);
const tfm__gguf_value *tfm__gguf_read_value(const tfm__gguf_source *s, const char *key);
/* Sets a key of config.json; takes over `value`. */
void tfm__gguf_set(tfm__gguf_source *s, const char *key, json_t *value);
/* Sets s->status, and is false, for `return tfm__gguf_refuse(...)`. */
bool tfm__gguf_refuse(tfm__gguf_source *s, const char *format, ...) TFM_PRINTF(2, 3);
/* The same for a value of another kind than the one that is needed: "integer". */
bool tfm__gguf_wrong_kind(tfm__gguf_source *s, const char *key, const char *needed);

/* RoPE keys (gguf_rope.c). `head_width` is known. */
struct tfm__decoder_kind;
void tfm__gguf_rope(tfm__gguf_source *s, const struct tfm__decoder_kind *kind, int64_t head_width);
/* Special ids, and the tokens that end a text (gguf_ids.c). */
void tfm__gguf_ids(tfm__gguf_source *s);

/* A new config.json for `family`. TFM_ERROR_FORMAT if a key is missing or wrong, TFM_ERROR_UNSUPPORTED if the family
 * cannot express it. */
tfm_status tfm__gguf_config(json_t **out, const tfm__gguf *gguf, const tfm__gguf_arch *arch, const tfm__family *family);

/* ---- Writing (gguf_metadata.c) ---- */

/* Adds general.architecture and the keys of the architecture. */
void tfm__gguf_metadata_write(tfm__gguf_writer *writer, const tfm__gguf_arch *gguf, const tfm__family *family,
                              const tfm__arch *arch, const tfm__generation_rules *rules);

/* RoPE factors are tensors of F32: [width / 2]. Returns how many there are. */
typedef struct tfm__gguf_rope_tensor {
    const char *name;
    float factors[TFM__MAX_ROTARY_PAIRS];
} tfm__gguf_rope_tensor;
size_t tfm__gguf_rope_tensors(tfm__gguf_rope_tensor out[2], const tfm__arch *arch);

/* A property in which two models differ, for messages; NULL: they compute the same. */
const char *tfm__gguf_difference(const tfm__arch *a, const tfm__arch *b);

#endif
