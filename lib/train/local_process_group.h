/* In-process ranks: the trainers of one model on several devices, which exchange data in host memory. Each has a thread
 * in collective calls. */
#ifndef TFM_LIB_LOCAL_PROCESS_GROUP_H
#define TFM_LIB_LOCAL_PROCESS_GROUP_H

#include <pthread.h>
#include "train/trainer.h"

typedef struct tfm__local_rank {
    struct tfm__local_group *local_group;
    int rank;
    pthread_t thread;
    tfm_status status; /* of its last call, with its error message */
    char message[TFM__MESSAGE_MAX];
} tfm__local_rank;

struct tfm__local_group {
    size_t count;
    tfm_trainer **trainers;         /* [count]; the first is the caller's and owns this */
    struct tfm__replicas *replicas; /* of the model, which uses one device meanwhile */
    tfm__local_rank *ranks;         /* [count] */
    const void **send_buffers;      /* [count]: the current send buffer of each rank */
    pthread_barrier_t barrier;
    pthread_mutex_t start_lock; /* held while threads are started, so that none waits for one that fails to start */
    bool broken;                /* not all could be started: no rank can communicate */
    tfm_status (*call)(void *user, tfm_trainer *t, size_t rank);
    void *user;
};

/* Creates a group without trainers; frees one, but not its trainers. */
tfm_status tfm__local_group_new(struct tfm__local_group **out, size_t count);
void tfm__local_group_free(struct tfm__local_group *group);
/* Sets the collectives of rank `rank`. */
void tfm__local_group_connect(tfm_process_group *ranks, struct tfm__local_group *group, size_t rank);

/* The trainers and their number; a trainer on one device is its only replica. */
tfm_trainer *tfm__trainer_replica(tfm_trainer *t, size_t i);
size_t tfm__trainer_replica_count(const tfm_trainer *t);

/* Calls each trainer: the first on this thread, the others on separate threads. If one fails independently, the message
 * names its device. */
tfm_status tfm__local_group_run(struct tfm__local_group *group,
                                tfm_status (*call)(void *user, tfm_trainer *t, size_t rank), void *user);

#endif
