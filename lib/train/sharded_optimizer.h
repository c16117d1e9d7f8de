/* Moments that lie in files of their own, one of each rank, beside the checkpoint that they belong to. */
#ifndef TFM_LIB_SHARDED_OPTIMIZER_H
#define TFM_LIB_SHARDED_OPTIMIZER_H

#include "model/weights/weight_file.h"
#include "train/trainer.h"

enum { TFM__MOMENTS = 2 };

/* The names of the moments in files. */
extern const char *const tfm__moment_names[TFM__MOMENTS];

/* The shards of a checkpoint, opened. */
typedef struct tfm__shards {
    tfm__bucket_layout layout; /* how they were cut; the world is 0 where there are none */
    tfm__weights **files;
} tfm__shards;

/* What a checkpoint says of its shards, for its header: room for two numbers. */
enum { TFM__SHARDS_TEXT = 64 };
void tfm__shards_format(char *text, const tfm_trainer *t);

/* Writes this rank's moments beside the checkpoint that will be at `path`. */
tfm_status tfm__shard_write(tfm_trainer *t, const char *path);
/* Removes the shards beside `path` that are not of the checkpoint which this trainer has just written there. */
void tfm__shards_remove_old(const tfm_trainer *t, const char *path);

/* Opens and verifies the shards that the checkpoint at `path` tells of by `text`, of that update. */
tfm_status tfm__shards_open(tfm__shards *out, const tfm_trainer *t, const char *text, const char *path, int64_t update);
void tfm__shards_close(tfm__shards *shards);
/* Puts one of the moments where this trainer has it. */
tfm_status tfm__shards_load_moment(tfm_trainer *t, const tfm__shards *shards, int moment);

/* Puts some numbers of a moment, which are those of the flat tensors from span.at on, where this trainer has them;
 * those of other ranks are left aside. */
tfm_status tfm__moment_load_range(tfm_trainer *t, int moment, tfm__flat_range span, const unsigned char *numbers);

#endif
