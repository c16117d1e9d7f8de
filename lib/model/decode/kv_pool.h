/* The KV cache that all sequences of a scheduler share, with automatic prefix caching. */
#ifndef TFM_LIB_KV_POOL_H
#define TFM_LIB_KV_POOL_H

#include "model/core/model.h"

/* Tokens of one sequence and their slots. Sequences with a common prefix share its slots. */
typedef struct tfm__kv_run {
    struct tfm__kv_run *next;
    int32_t *ids;   /* [room]: known tokens; then drafts of the next ones */
    int32_t *slots; /* [room]: slots of the cached ones */
    int64_t count;  /* known tokens */
    int64_t cached; /* first tokens with a slot; at most count + 1, if the newest token is still being computed */
    int64_t room;
    int64_t length; /* of the sequence when its keys were computed: RoPE frequencies may depend on it */
    bool idle;      /* not decoded any more: a prefix for later sequences, until its slots are needed */
    uint64_t used;  /* when it was last used, of `clock` */
} tfm__kv_run;

/* Slots are appended at cache.slots; compaction frees slots without references. */
typedef struct tfm__kv_pool {
    tfm_model *model;
    tfm_kv_cache cache;
    int32_t *references; /* [room]: runs that use a slot */
    int64_t room;
    int64_t used; /* slots that runs use */
    int64_t most; /* maximum slots */
    tfm__kv_run *runs;
    uint64_t clock;
    bool shares; /* keys do not depend on the length of the sequence */
} tfm__kv_pool;

/* A pool of at most `most` slots. Free it also after a failure. */
tfm_status tfm__kv_pool_begin(tfm__kv_pool *pool, tfm_model *model, int64_t most);
void tfm__kv_pool_free(tfm__kv_pool *pool);

/* A run of the tokens `ids`, without slots; NULL without memory. The pool owns it. */
tfm__kv_run *tfm__kv_pool_add(tfm__kv_pool *pool, const int32_t *ids, size_t count);
/* Makes room for `count` tokens in all. False without memory. */
bool tfm__kv_run_reserve(tfm__kv_run *run, int64_t count);
/* Adds a token. False without memory. */
bool tfm__kv_run_push(tfm__kv_run *run, int32_t id);
/* Takes the slots of the longest prefix that another run has, for all tokens but the last at most. */
void tfm__kv_pool_share(tfm__kv_pool *pool, tfm__kv_run *run);
/* Makes room for `count` slots at cache.slots: grows, compacts, or drops idle runs. *enough is false if sequences use
 * all slots. */
tfm_status tfm__kv_pool_reserve(tfm__kv_pool *pool, int64_t count, bool *enough);
/* The run's next tokens have these slots. False without memory. */
bool tfm__kv_pool_append(tfm__kv_pool *pool, tfm__kv_run *run, int64_t slot, int64_t count);
/* Releases the slots after the first `cached` ones, as of rejected drafts. */
void tfm__kv_pool_trim(tfm__kv_pool *pool, tfm__kv_run *run, int64_t cached);
/* Releases the slots of a run, whose tokens stay. */
void tfm__kv_pool_drop(tfm__kv_pool *pool, tfm__kv_run *run);
/* The run becomes idle. */
void tfm__kv_pool_retire(tfm__kv_pool *pool, tfm__kv_run *run);

#endif
