/* Logits processors of the scheduler: the host lists changes of single logits, and masks of rows, since it knows the
 * tokens of each sequence; the device applies them in a launch each. */
#ifndef TFM_LIB_LOGIT_EDITS_H
#define TFM_LIB_LOGIT_EDITS_H

#include "model/decode/decode_loop.h"

/* An edit, as the kernel reads it. */
typedef struct tfm__logit_edit {
    int32_t index; /* row * V + token */
    float penalty, added;
} tfm__logit_edit;

typedef struct tfm__logit_edits {
    tfm__logit_edit *list; /* [count]: one edit of each logit */
    size_t count, room;
    int32_t *mask_rows; /* [mask_count] */
    uint32_t *masks;    /* [mask_count][ceil(V / 32)] */
    size_t mask_count, mask_rows_room, masks_room;
    bool failed; /* out of host memory */
} tfm__logit_edits;

/* Whether the rules of the directory and these parameters are supported; else TFM_ERROR_UNSUPPORTED with a message. */
tfm_status tfm__logit_edits_check(const tfm__generation_rules *rules, const tfm__generate_params *params);
/* Whether the edits of a step depend on the token before it. */
bool tfm__logit_edits_need_tokens(const tfm__generation_rules *rules, const tfm__generate_params *params);
/* Lists the edits of a row for the token after ids [count], of which the first `prompt` are the prompt. With a token
 * still unknown, which is only for rules that do not need it, ids[count - 1] is not read. */
void tfm__logit_edits_add(tfm__logit_edits *edits, int64_t row, int64_t vocabulary, const tfm__generation_rules *rules,
                          const tfm__generate_params *params, const int32_t *ids, int64_t count, int64_t prompt);
/* The mask of a row, to be filled: a logit whose bit is 0 becomes -inf. NULL out of memory. Valid until the next one.
 */
uint32_t *tfm__logit_edits_mask(tfm__logit_edits *edits, int64_t row, int64_t vocabulary);
/* Applies them to logits (R, V), and empties the lists. */
tfm_status tfm__logit_edits_apply(tfm_context *ctx, tfm__logit_edits *edits, tfm_tensor logits);
void tfm__logit_edits_free(tfm__logit_edits *edits);

#endif
