/* Fleets (fleet.c), and the replicas of a model on their devices (replicas.c). */
#ifndef TFM_LIB_FLEET_H
#define TFM_LIB_FLEET_H

#include <pthread.h>
#include <signal.h>
#include "model/core/model.h"
#include "model/multi_device/chunk_scheduler.h"
#include "tfm/fleet.h"

struct tfm_fleet {
    atomic_int refcount; /* owners: the caller that opened it, and its models */
    size_t count;
    tfm_fleet_member *members;
    pthread_mutex_t building; /* held while on_build is called */
    tfm_build_fn on_build;
    void *on_build_user;
    bool spare;                    /* the second member is opened on demand */
    struct tfm__backoff *backoffs; /* [count] */
};

/* Backoff of a device that was out of memory. */
struct tfm__backoff {
    unsigned calls; /* skipped for this many more calls; 0: in use */
    unsigned last;  /* length of the last backoff, if it has done no work since */
};

/* How models or embedders are opened on the devices of a fleet. */
typedef struct tfm__open_options {
    char *dir;
    const tfm_model_shape *shape; /* of a new model, instead of a directory */
    tfm_model_options model_options;
    tfm_embedder_options embedder_options;
    tfm_adapter *adapters;    /* [adapter_count] of the options */
    tfm_embedder **embedders; /* [fleet->count]; NULL for models */
} tfm__open_options;

/* Replicas of a model on the devices of a fleet. One of them is the caller's and owns this. */
struct tfm__replicas {
    tfm_fleet *fleet;
    tfm__open_options how;
    tfm_model **models;                             /* [fleet->count]; NULL: the device was not available */
    tfm__throughput *throughputs[TFM__BATCH_KINDS]; /* [fleet->count] each */
    size_t lead;                                    /* index of the caller's model, */
    bool joined;                                    /* once it owns this */
    bool closed;                                    /* no further replica is opened */
    /* Opens a second worker if the fleet may choose the number, the model is small and the device is a CPU. */
    void (*open_spare)(const tfm_model *model);
};

/* Number of models on available devices. */
size_t tfm__replicas_count(const struct tfm__replicas *replicas);
bool tfm__replicas_has(const struct tfm__replicas *replicas, size_t member);

/* Blocks signals for device threads started next, except synchronous faults: signals are handled by the caller's
 * threads. *before: for pthread_sigmask to restore. */
void tfm__signals_block(sigset_t *before);

/* Whether another device may succeed after this failure. */
bool tfm__fleet_may_drop(tfm_status status);
/* Excludes a device because of the error in `sentence`, and logs it. After out of memory it is excluded for some calls
 * only, more each time. */
void tfm__fleet_drop(tfm_fleet *fleet, size_t member, const char *sentence);
void tfm__fleet_drop_from_call(tfm_fleet *fleet, size_t member, tfm_status status);
void tfm__fleet_log_dropped(const tfm_fleet *fleet, size_t member);
/* Start of a call: devices whose backoff has ended are available again. */
void tfm__fleet_count_down_backoffs(tfm_fleet *fleet);
/* The device has done work: ends its backoff. */
void tfm__fleet_reset_backoff(tfm_fleet *fleet, size_t member);

#endif
