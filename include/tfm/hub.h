/* Models of the Hugging Face hub: their names, the local cache, and downloads.
 *
 *     char *path = NULL;
 *     if (tfm_hub_pull(&path, "HuggingFaceTB/SmolLM2-135M-Instruct", NULL) == TFM_OK)
 *         tfm_model_open(&model, ctx, path, NULL);
 *     tfm_text_free(&path);
 *
 * A name is ORG/NAME, ORG/NAME@REVISION, ORG/NAME:FILE.gguf or ORG/NAME:TYPE with the quantization type of a GGUF file,
 * such as Q4_K_M. Every call that opens a model directory accepts a name: a local path with this name is preferred, and
 * then the cache is searched. Only tfm_hub_pull uses the network.
 *
 * The cache has the layout of the Python package huggingface_hub; each finds the downloads of the other. Environment:
 *
 *     HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME | the cache folder: the first, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub,
 *                                           | or ~/.cache/huggingface/hub
 *     HF_ENDPOINT                           | the hub, https://huggingface.co by default
 *     HF_TOKEN, HF_TOKEN_PATH               | an access token, or a file with one (HF_HOME/token by default). It is
 *                                           | sent to the hub only, not to servers to which the hub redirects.
 *     HF_HUB_OFFLINE                        | 1: no downloads
 *     HF_HUB_DOWNLOAD_TIMEOUT               | seconds without data after which a transfer is repeated, 10 by default
 *     http_proxy, https_proxy, no_proxy     | as libcurl defines them
 *
 * Thread safety: any number of threads at once, and any number of processes: files are locked while they are
 * downloaded. No call may run while another thread changes the environment. */
#ifndef TFM_HUB_H
#define TFM_HUB_H

#include <stdbool.h>
#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The local path of a model: `name` if such a path exists or it has not the form of a name; else the model's folder in
 * the cache, or the selected GGUF file in it (the first part of a split one). Of several GGUF files Q4_K_M is selected
 * by default. TFM_ERROR_IO with the command for the download if the cache has no such model. Free *path with
 * tfm_text_free. */
TFM_API tfm_status tfm_hub_find(char **path, const char *name);

/* The state of a download. The strings belong to the call. */
typedef struct tfm_hub_progress {
    uint64_t bytes;       /* Bytes in the cache, those of earlier downloads included. */
    uint64_t total_bytes; /* Bytes of all files of the model, as far as known. */
    size_t files, total_files;
    const char *finished; /* The file that has just been completed, or NULL. */
} tfm_hub_progress;

/* Called about ten times a second, and once for each completed file. Returning false stops the download with
 * TFM_ERROR_CANCELLED; the next tfm_hub_pull of the model resumes it. */
typedef bool (*tfm_hub_progress_fn)(void *user, const tfm_hub_progress *progress);

typedef struct tfm_hub_options {
    const char *revision;         /* A branch, tag or commit, instead of that of the name. NULL: "main". */
    tfm_hub_progress_fn progress; /* May be NULL. */
    void *progress_user;
    int max_workers;      /* Files that are downloaded at the same time; 0 means 8. */
    uint64_t reserved[8]; /* Must be 0. */
} tfm_hub_options;

/* Downloads a model into the cache, or completes or updates it: its configuration, tokenizer, and weights in one format
 * (safetensors before pytorch_model.bin before GGUF), or the named GGUF file. Files in the cache are not downloaded
 * again. LFS files are checked by SHA-256. *path is the result of tfm_hub_find; it may be NULL. Of a failed download
 * the finished files and parts stay in the cache, but no folder of the model that lacks files. `options` may be NULL.
 *
 * TFM_ERROR_ARGUMENT for text that is not a name, TFM_ERROR_IO for failures of network, server and disk, and with
 * HF_HUB_OFFLINE, TFM_ERROR_FORMAT for invalid answers and wrong checksums, TFM_ERROR_UNSUPPORTED for a repository
 * without weights in a supported format and in a library without libcurl, TFM_ERROR_CANCELLED. */
TFM_API tfm_status tfm_hub_pull(char **path, const char *name, const tfm_hub_options *options);

/* A snapshot in the cache: the files of one commit of a repository. */
typedef struct tfm_hub_model {
    const char *name;   /* "ORG/NAME" */
    const char *refs;   /* Branches and tags of the commit, separated by ", "; "" if it was downloaded by its hash. */
    const char *commit; /* The commit hash. */
    const char *path;   /* The folder. */
    size_t files;
    uint64_t bytes; /* The size of its files. Snapshots of one repository may share files. */
} tfm_hub_model;

/* The models in the cache, sorted by name and commit. *models is one block with all strings: free it with
 * tfm_hub_models_free. A missing cache has none. */
TFM_API tfm_status tfm_hub_list(tfm_hub_model **models, size_t *count);
TFM_API void tfm_hub_models_free(tfm_hub_model **models);

/* Deletes a model from the cache: ORG/NAME with all its revisions, ORG/NAME@REVISION one snapshot with the files that
 * no other snapshot of the repository uses, ORG/NAME:FILE or :TYPE a GGUF file of the snapshot. *bytes is the disk
 * space that becomes free. With `dry_run` nothing is deleted. TFM_ERROR_IO if the cache has no such model. Models that
 * are open stay usable. */
TFM_API tfm_status tfm_hub_remove(uint64_t *bytes, const char *name, bool dry_run);

#ifdef __cplusplus
}
#endif
#endif
