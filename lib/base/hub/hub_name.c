/* Names of the hub, and the environment variables of huggingface_hub. */
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include "base/file.h"
#include "base/hub/hub.h"

enum { PART = 96 }; /* the longest ORG or NAME */

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* One part of ORG/NAME: letters, digits, '_', '-' and '.', with a letter, digit or '_' at both ends. */
static bool is_part(const char *text, size_t length) {
    if (length == 0 || length > PART || !is_word(text[0]) || !is_word(text[length - 1]))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!is_word(text[i]) && text[i] != '-' && text[i] != '.')
            return false;
    return true;
}

static bool is_repo(const char *repo) {
    const char *slash = strchr(repo, '/');
    const size_t length = strlen(repo);
    if (strstr(repo, "--") || strstr(repo, "..") || (length >= 4 && strcmp(repo + length - 4, ".git") == 0))
        return false;
    return slash ? is_part(repo, (size_t)(slash - repo)) && is_part(slash + 1, strlen(slash + 1))
                 : is_part(repo, length);
}

static bool copy_part(char *out, size_t room, const char *text, size_t length) {
    if (length >= room)
        return false;
    memcpy(out, text, length);
    out[length] = '\0';
    return true;
}

bool tfm__hub_name_parse(tfm__hub_name *out, const char *text) {
    const size_t repo = strcspn(text, "@:");
    const bool revised = text[repo] == '@';
    const char *revision = text + repo + revised, *file = revision + (revised ? strcspn(revision, ":") : 0);
    const size_t length = (size_t)(file - revision);
    memset(out, 0, sizeof(*out));
    if (!copy_part(out->repo, sizeof(out->repo), text, repo) || !is_repo(out->repo))
        return false;
    if (!copy_part(out->revision, sizeof(out->revision), revised ? revision : "main", revised ? length : 4) ||
        !tfm__hub_path_is_safe(out->revision))
        return false;
    if (!*file)
        return true;
    return copy_part(out->file, sizeof(out->file), file + 1, strlen(file + 1)) && tfm__hub_path_is_safe(out->file);
}

bool tfm__hub_path_is_safe(const char *path) {
    enum { LONGEST = 1000, LONGEST_NAME = 240, DEEPEST = 16 };
    int depth = 0;
    if (strlen(path) > LONGEST)
        return false;
    for (const char *part = path;; part++) {
        const size_t length = strcspn(part, "/");
        if (length == 0 || length > LONGEST_NAME || part[0] == '.' || ++depth > DEEPEST)
            return false;
        for (size_t i = 0; i < length; i++)
            if ((unsigned char)part[i] < ' ' || part[i] == 127 || part[i] == '\\')
                return false;
        part += length;
        if (!*part)
            return true;
    }
}

bool tfm__hub_word_is_safe(const char *word) {
    for (const char *c = word; *c; c++)
        if (!is_word(*c) && *c != '-' && *c != '.')
            return false;
    return tfm__hub_path_is_safe(word);
}

/* ---- Environment ---------------------------------------------------------------------------------------- */

/* The value of a variable that is set and not empty, else NULL. */
static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* A path with "~" at its beginning replaced by the home folder. */
static char *expand(const char *path) {
    const char *home = variable("HOME");
    const bool tilde = path[0] == '~' && (path[1] == '/' || !path[1]);
    return tilde && home ? tfm__format("%s%s", home, path + 1) : tfm__strdup(path);
}

/* HF_HOME or its default, followed by /NAME. */
static tfm_status below_home(char **out, const char *name) {
    const char *hf = variable("HF_HOME"), *xdg = variable("XDG_CACHE_HOME"), *home = variable("HOME");
    *out = NULL;
    if (!hf && !xdg && !home)
        return tfm__fail(TFM_ERROR_IO,
                         "cannot find the cache of the Hugging Face hub: neither HF_HUB_CACHE nor HOME is "
                         "set; set HF_HUB_CACHE to a folder for it");
    char *folder = hf ? expand(hf) : xdg ? tfm__path_join(xdg, "huggingface") : expand("~/.cache/huggingface");
    *out = folder ? tfm__path_join(folder, name) : NULL;
    free(folder);
    return *out ? TFM_OK : TFM_ERROR_MEMORY;
}

tfm_status tfm__hub_cache_dir(char **out) {
    const char *set = variable("HF_HUB_CACHE");
    if (!set)
        set = variable("HUGGINGFACE_HUB_CACHE"); /* its former name */
    if (!set)
        return below_home(out, "hub");
    *out = expand(set);
    return *out ? TFM_OK : TFM_ERROR_MEMORY;
}

char *tfm__hub_endpoint(void) {
    const char *set = variable("HF_ENDPOINT");
    char *endpoint = tfm__strdup(set ? set : "https://huggingface.co");
    for (size_t n = endpoint ? strlen(endpoint) : 0; n > 0 && endpoint[n - 1] == '/'; n--)
        endpoint[n - 1] = '\0';
    return endpoint;
}

static bool is_on(const char *name) {
    static const char *const YES[] = {"1", "ON", "YES", "TRUE"};
    const char *value = variable(name);
    for (size_t i = 0; value && i < TFM__COUNT(YES); i++)
        if (strcasecmp(value, YES[i]) == 0)
            return true;
    return false;
}

bool tfm__hub_is_offline(void) {
    return is_on("HF_HUB_OFFLINE") || is_on("TRANSFORMERS_OFFLINE");
}

/* Removes blanks at both ends; the header that carries it must be one line of visible characters. */
static tfm_status clean_token(char *token, const char *where) {
    const size_t skipped = strspn(token, " \t\r\n");
    size_t length = strlen(token + skipped);
    memmove(token, token + skipped, length + 1);
    while (length > 0 && strchr(" \t\r\n", token[length - 1]))
        token[--length] = '\0';
    for (size_t i = 0; i < length; i++)
        if (token[i] <= ' ' || token[i] == 127)
            return tfm__fail(TFM_ERROR_FORMAT,
                             "%s is not an access token: it has a blank or a character that is not "
                             "ASCII; write the token alone into it",
                             where);
    return TFM_OK;
}

tfm_status tfm__hub_token(char **out) {
    const char *set = variable("HF_TOKEN"), *file = variable("HF_TOKEN_PATH");
    *out = NULL;
    if (!set)
        set = variable("HUGGING_FACE_HUB_TOKEN"); /* its former name */
    if (!set && is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN"))
        return TFM_OK;
    char *path = NULL;
    tfm_status status = TFM_OK;
    if (!set && file)
        status = (path = expand(file)) ? TFM_OK : TFM_ERROR_MEMORY;
    else if (!set)
        status = below_home(&path, "token");
    if (status == TFM_ERROR_IO) /* no home folder, so no token either */
        return TFM_OK;
    if (set)
        status = (*out = tfm__strdup(set)) ? TFM_OK : TFM_ERROR_MEMORY;
    else if (path && tfm__file_exists(path))
        status = tfm__file_read(out, NULL, path);
    if (status == TFM_OK && *out)
        status = clean_token(*out, set ? "HF_TOKEN" : path);
    if (*out && (status != TFM_OK || !**out)) {
        free(*out);
        *out = NULL;
    }
    free(path);
    return status;
}
