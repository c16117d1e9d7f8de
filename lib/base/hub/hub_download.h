/* Downloads files into the blobs of a repository. */
#ifndef TFM_LIB_HUB_DOWNLOAD_H
#define TFM_LIB_HUB_DOWNLOAD_H

#include "base/hub/hub_http.h"
#include "base/hub/hub_store.h"

typedef struct tfm__hub_transfers tfm__hub_transfers;

/* Called when a file's blob is complete, and from time to time with NULL. `bytes`: the bytes of the files in transfer.
 * False cancels. */
typedef bool tfm__hub_report_fn(void *user, const tfm__hub_file *finished, uint64_t bytes);

/* Downloads the wanted files that are not done, and marks them. A file's etag and size may be unknown before. */
tfm_status tfm__hub_download(tfm__hub_session *session, const tfm__hub_store *store, tfm__hub_list *list,
                             const char *repo, size_t parallel, tfm__hub_report_fn *report, void *user);

#endif
