/* Fleets (fleet.c), and the replicas of a model on their devices (replicas.c). */
#ifndef TFM_LIB_FLEET_H
#define TFM_LIB_FLEET_H

#include <pthread.h>
#include <signal.h>
#include "model/core/model.h"
#include "model/multi_device/chunk_scheduler.h"
#include "tfm/fleet.h"

struct tfm_fleet {
    atomic_int refcount; /* Who opened it, and the models on it. */
    size_t count;
    tfm_fleet_member *members;
    pthread_mutex_t building; /* Held while on_build is called. */
    tfm_build_fn on_build;
    void *on_build_user;
    bool spare;                    /* The second of the members is opened when it is needed. */
    struct tfm__backoff *backoffs; /* [count] */
};

/* How long a device rests that had no room. */
struct tfm__backoff {
    unsigned calls; /* After so many more calls it is tried again; 0: it does not rest. */
    unsigned last;  /* How long it has rested the last time, if it has done nothing since. */
};

/* How the models, or the embedders, of a directory are opened on the devices of a fleet. */
typedef struct tfm__open_options {
    char *dir;
    const tfm_model_shape *shape; /* of a new model, in the place of a directory */
    tfm_model_options model_options;
    tfm_embedder_options embedder_options;
    tfm_embedder **embedders; /* [fleet->count]; NULL for models alone */
} tfm__open_options;

/* The models of one directory on the devices of a fleet. One of them is the caller's and owns this. */
struct tfm__replicas {
    tfm_fleet *fleet;
    tfm__open_options how;
    tfm_model **models;                             /* [fleet->count]; NULL where a device was left out before. */
    tfm__throughput *throughputs[TFM__BATCH_KINDS]; /* [fleet->count] each */
    size_t lead;                                    /* Which of the models is the caller's, */
    bool joined;                                    /* once it owns this. */
    bool closed;                                    /* No other is to be opened. */
    /* Opens a second worker if the fleet may choose how many it has, the model is small and the device a CPU. */
    void (*open_spare)(const tfm_model *model);
};

/* How many of the models lie on devices that have not failed. */
size_t tfm__replicas_count(const struct tfm__replicas *replicas);
bool tfm__replicas_has(const struct tfm__replicas *replicas, size_t member);

/* Blocks signals for the threads of devices that are started now: they are the matter of the caller's own threads, but
 * for those of a thread's own faults. *before is what pthread_sigmask is to set again. */
void tfm__signals_block(sigset_t *before);

/* Whether a failure may be the device's own, so that another one may do better. */
bool tfm__fleet_may_drop(tfm_status status);
/* Leaves a device out from now on, for the reason that `sentence` gives; and says so in the log. After a call that it
 * had no room for it is left out for some calls alone, more each time. */
void tfm__fleet_drop(tfm_fleet *fleet, size_t member, const char *sentence);
void tfm__fleet_drop_from_call(tfm_fleet *fleet, size_t member, tfm_status status);
void tfm__fleet_log_dropped(const tfm_fleet *fleet, size_t member);
/* Begins a call: devices that have rested are there again. */
void tfm__fleet_count_down_backoffs(tfm_fleet *fleet);
/* The device has done some work. */
void tfm__fleet_reset_backoff(tfm_fleet *fleet, size_t member);

#endif
