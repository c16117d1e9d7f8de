/* Sharded optimizer state (ZeRO-1): each rank's moments in a file next to the checkpoint. */
#ifndef TFM_LIB_SHARDED_OPTIMIZER_H
#define TFM_LIB_SHARDED_OPTIMIZER_H

#include "model/weights/weight_file.h"
#include "train/trainer.h"

enum { TFM__MOMENTS = 2 };

/* The tensor names of the moments in files. */
extern const char *const tfm__moment_names[TFM__MOMENTS];

/* A checkpoint's open shards. */
typedef struct tfm__shards {
    tfm__bucket_layout layout; /* the layout when they were saved; the world is 0 if there are none */
    tfm__weights **files;
} tfm__shards;

/* The checkpoint header's text about its shards: space for two numbers. */
enum { TFM__SHARDS_TEXT = 64 };
void tfm__shards_format(char *text, const tfm_trainer *t);

/* Writes this rank's moments for the checkpoint that will be at `path`. */
tfm_status tfm__shard_write(tfm_trainer *t, const char *path);
/* Removes the shards of older checkpoints at `path`, after this trainer has written a new one. */
void tfm__shards_remove_old(const tfm_trainer *t, const char *path);

/* Opens and verifies the shards of the checkpoint at `path`, of that update; `text` is from its header. */
tfm_status tfm__shards_open(tfm__shards *out, const tfm_trainer *t, const char *text, const char *path, int64_t update);
void tfm__shards_close(tfm__shards *shards);
/* Loads one of the moments into this trainer's layout. */
tfm_status tfm__shards_load_moment(tfm_trainer *t, const tfm__shards *shards, int moment);

/* Loads a range of a moment, given by flat tensor offsets from span.at on; ignores elements of other ranks. */
tfm_status tfm__moment_load_range(tfm_trainer *t, int moment, tfm__flat_range span, const unsigned char *numbers);

#endif
