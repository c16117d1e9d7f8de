/* Writes into the cache folder of one repository. */
#ifndef TFM_LIB_HUB_STORE_H
#define TFM_LIB_HUB_STORE_H

#include "base/hub/hub.h"

typedef struct tfm__hub_store {
    char *repo_dir; /* CACHE/models--ORG--NAME */
    char *locks;    /* CACHE/.locks/models--ORG--NAME */
    char *commit;
} tfm__hub_store;

/* Creates the folders. */
tfm_status tfm__hub_store_open(tfm__hub_store *store, const char *repo, const char *commit);
void tfm__hub_store_close(tfm__hub_store *store);

/* repo_dir/blobs/ETAG followed by `end`, for free(). */
char *tfm__hub_blob(const tfm__hub_store *store, const char *etag, const char *end);

/* Whether the snapshot has this file. */
bool tfm__hub_store_has(const tfm__hub_store *store, const char *path);

/* The descriptor of the locked lock file of an etag in *fd. TFM_ERROR_AGAIN, without a message, if another process has
 * it. File systems without locks give -1. */
tfm_status tfm__hub_lock(int *fd, const tfm__hub_store *store, const char *etag);

/* Makes snapshots/COMMIT/PATH a link to the blob. */
tfm_status tfm__hub_store_link(const tfm__hub_store *store, const char *path, const char *etag);
/* Writes refs/REVISION, unless the revision is the commit. */
tfm_status tfm__hub_store_ref(const tfm__hub_store *store, const char *revision);
/* Records that the commit has no such file, so that huggingface_hub does not request it. Failures are ignored. */
void tfm__hub_store_absent(const tfm__hub_store *store, const char *path);

/* TFM_ERROR_IO if the file system has less free space than `bytes`. */
tfm_status tfm__hub_store_check_space(const tfm__hub_store *store, uint64_t bytes, const char *name);

#endif
