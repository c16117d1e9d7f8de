/* In-process ranks: the trainers of one model on several devices, which exchange data in host memory. Each has a thread
 * in the calls that they make together. */
#ifndef TFM_LIB_LOCAL_PROCESS_GROUP_H
#define TFM_LIB_LOCAL_PROCESS_GROUP_H

#include <pthread.h>
#include "train/trainer.h"

typedef struct tfm__team_rank {
    struct tfm__team *team;
    int rank;
    pthread_t thread;
    tfm_status status; /* of its last call, with its error message */
    char message[TFM__MESSAGE_MAX];
} tfm__team_rank;

struct tfm__team {
    size_t count;
    tfm_trainer **trainers;         /* [count]; the first is the caller's and owns this */
    struct tfm__replicas *replicas; /* of the model, which is alone meanwhile */
    tfm__team_rank *ranks;          /* [count] */
    const void **sent;              /* [count]: what each rank sends at the moment */
    pthread_barrier_t barrier;
    pthread_mutex_t begin; /* held while threads are started: none is to wait for one that never comes */
    bool cut;              /* not all could be started: no rank can communicate */
    tfm_status (*call)(void *user, tfm_trainer *t, size_t who);
    void *user;
};

/* Makes a team without trainers; frees one, but not its trainers. */
tfm_status tfm__team_new(struct tfm__team **out, size_t count);
void tfm__team_free(struct tfm__team *team);
/* Sets how rank `who` communicates. */
void tfm__team_connect(tfm_ranks *ranks, struct tfm__team *team, size_t who);

/* The trainers, and how many they are; itself alone for a trainer of one device. */
tfm_trainer *tfm__team_member(tfm_trainer *t, size_t i);
size_t tfm__team_count(const tfm_trainer *t);

/* Has each trainer make the call: the first on this thread, the others on threads of their own. The error of one that
 * failed by itself names its device. */
tfm_status tfm__team_run(struct tfm__team *team, tfm_status (*call)(void *user, tfm_trainer *t, size_t who),
                         void *user);

#endif
