/* Names of the Hugging Face hub, its cache folder, and the list of files to download. No network here: hub_http.h. */
#ifndef TFM_LIB_HUB_H
#define TFM_LIB_HUB_H

#include <jansson.h>
#include <stdbool.h>
#include "base/base.h"

/* ---- Names ---------------------------------------------------------------------------------------------- */

/* ORG/NAME[@REVISION][:FILE]. Names without ORG are models of the hub's first years, such as gpt2. */
typedef struct tfm__hub_name {
    char repo[200];     /* "ORG/NAME" */
    char revision[256]; /* a branch, tag or commit; "main" by default */
    char file[1024];    /* a GGUF file or a quantization type such as Q4_K_M; "" for none */
} tfm__hub_name;

/* Whether the text is a name, by the rules of huggingface_hub. It sets no error message. */
bool tfm__hub_name_parse(tfm__hub_name *out, const char *text);

/* Whether a path of the server or of an index file stays below its folder: relative, without "..", empty or hidden
 * folders, backslashes and control characters, and of limited length. */
bool tfm__hub_path_is_safe(const char *path);
/* The same for one name of a file: an etag, a commit. */
bool tfm__hub_word_is_safe(const char *word);

/* ---- Environment ---------------------------------------------------------------------------------------- */

/* HF_HUB_CACHE, or HF_HOME/hub, or XDG_CACHE_HOME/huggingface/hub, or ~/.cache/huggingface/hub. For free(). */
tfm_status tfm__hub_cache_dir(char **out);
/* HF_ENDPOINT without a final slash, or https://huggingface.co. For free(). */
char *tfm__hub_endpoint(void);
/* HF_TOKEN, or the content of HF_TOKEN_PATH or HF_HOME/token. *out is NULL without one. TFM_ERROR_FORMAT for a token
 * with characters that a header cannot have. */
tfm_status tfm__hub_token(char **out);
/* Whether HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set to 1, ON, YES or TRUE. */
bool tfm__hub_is_offline(void);
/* Whether this library downloads: it was built with libcurl. */
bool tfm__hub_can_download(void);

/* ---- The cache ------------------------------------------------------------------------------------------ */

/* CACHE/models--ORG--NAME, for free(). */
char *tfm__hub_repo_dir(const char *cache, const char *repo);
/* The commit of a revision in the cache: the content of refs/REVISION, or the revision if it has a snapshot. NULL in
 * *out if the cache has none. */
tfm_status tfm__hub_commit(char **out, const char *repo_dir, const char *revision);

/* The paths of all files below a folder, relative to it, in byte order. Hidden and dangling names are skipped. Free
 * with tfm__names_free. */
tfm_status tfm__hub_walk(char ***paths, size_t *count, const char *dir);

/* The local path of a model: `name` if it exists, or has not the form of a hub name; else its snapshot in the cache, or
 * the GGUF file selected there. Never uses the network. TFM_ERROR_IO for a name that is in neither place: the message
 * says how to download it. For free(). */
tfm_status tfm__hub_resolve(char **path, const char *name);

/* Whether a folder is a snapshot in a cache, or in one; `hint` says how to download its other files. */
bool tfm__hub_completion(char *hint, size_t room, const char *dir);

/* ---- GGUF files ----------------------------------------------------------------------------------------- */

/* Whether two paths are parts of one split model, or equal. */
bool tfm__gguf_same_split(const char *a, const char *b);

/* Selects a GGUF file: `wanted` is a path, a file name or a quantization type; "" selects the only file, or Q4_K_M of
 * several. Of a split model the first part is selected. TFM_ERROR_IO with the list if none or several fit. `repo`
 * begins the message; `hint`, or "", says how to get a file that is missing. */
tfm_status tfm__gguf_select(size_t *selected, const char *const *paths, size_t count, const char *wanted,
                            const char *repo, const char *hint);
/* Whether a path is a GGUF file of a model: no vision projector, no importance matrix. */
bool tfm__gguf_is_model(const char *path);

/* ---- Files to download ---------------------------------------------------------------------------------- */

typedef struct tfm__hub_file {
    char *path;      /* in the repository */
    char *etag;      /* SHA-256 of an LFS file, else the Git object id: the name of its blob; NULL if unknown */
    uint64_t size;   /* if it is known */
    bool sized, lfs; /* size is known; etag is the SHA-256 */
    bool wanted;     /* part of the model */
    bool done;       /* its blob is in the cache */
} tfm__hub_file;

typedef struct tfm__hub_list {
    tfm__hub_file *files;
    size_t count, capacity;
} tfm__hub_list;

void tfm__hub_list_free(tfm__hub_list *list);
/* Adds the files of an answer of /api/models/NAME/tree/COMMIT. `name` is used in messages. TFM_ERROR_FORMAT for
 * anything unexpected, paths that are not safe among it. */
tfm_status tfm__hub_list_add_tree(tfm__hub_list *list, const json_t *tree, const char *name);
/* Adds the `siblings` of an answer of /api/models/NAME, which may lack sizes and etags. */
tfm_status tfm__hub_list_add_siblings(tfm__hub_list *list, const json_t *info, const char *name);
/* The commit of such an answer, borrowed; NULL with the error message set. */
const char *tfm__hub_info_commit(const json_t *info, const char *name);

/* Reads a downloaded JSON file of the repository into *out; leaves it NULL if it is not downloaded yet. */
typedef tfm_status tfm__hub_read_fn(void *user, json_t **out, const tfm__hub_file *file);

/* Marks the files of the model as wanted: configuration, tokenizer, weights in one format, and the files named in
 * downloaded index files and modules.json. Call it again after their download, until nothing is added. */
tfm_status tfm__hub_plan(tfm__hub_list *list, const tfm__hub_name *name, tfm__hub_read_fn *read, void *user);

#endif
