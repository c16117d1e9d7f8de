/* Which GGUF file the path of a model stands for. */
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/gguf.h"

static bool has_suffix(const char *name, const char *suffix) {
    const size_t length = strlen(name), end = strlen(suffix);
    return length >= end && strcmp(name + length - end, suffix) == 0;
}

/* Whether a file has the suffix or GGUF's first bytes. */
static bool is_gguf(const char *path) {
    char magic[4] = {0};
    if (has_suffix(path, ".gguf"))
        return true;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const bool is =
        fd >= 0 && read(fd, magic, sizeof(magic)) == (ssize_t)sizeof(magic) && memcmp(magic, "GGUF", 4) == 0;
    if (fd >= 0)
        close(fd);
    return is;
}

/* Whether a file of a folder is a whole model, or the first part of one. */
static bool is_model(const char *name) {
    const bool is_part = fnmatch("*-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].gguf", name, 0) == 0;
    return has_suffix(name, ".gguf") && strncmp(name, "mmproj", 6) != 0 &&
           (!is_part || fnmatch("*-00001-of-*.gguf", name, 0) == 0);
}

static bool are_other_weights(const char *name) {
    static const char *const PATTERNS[] = {"model*.safetensors", "pytorch_model*.bin", "*.npz"};
    bool are = false;
    for (size_t i = 0; i < TFM__COUNT(PATTERNS); i++)
        are |= fnmatch(PATTERNS[i], name, 0) == 0;
    return are;
}

static tfm_status locate_in(char **out, const char *dir) {
    char **names = NULL, list[256] = "";
    size_t count = 0, used = 0, found = 0;
    const char *only = NULL;
    bool other = false;
    tfm_status status = tfm__dir_list(&names, &count, dir);
    for (size_t i = 0; i < count; i++) {
        other |= are_other_weights(names[i]);
        if (!is_model(names[i]))
            continue;
        only = names[i];
        if (used < sizeof(list))
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", found ? ", " : "", names[i]);
        found++;
    }
    if (status == TFM_OK && !other && found > 1)
        status = tfm__fail(TFM_ERROR_ARGUMENT, "%s has %zu GGUF files (%s%s): give the path of one of them", dir, found,
                           list, used < sizeof(list) ? "" : "...");
    if (status == TFM_OK && !other && found == 1 && !(*out = tfm__path_join(dir, only)))
        status = TFM_ERROR_MEMORY;
    tfm__names_free(names, count);
    return status;
}

tfm_status tfm__gguf_locate(char **out, const char *path) {
    struct stat info;
    *out = NULL;
    if (stat(path, &info) != 0)
        return TFM_OK;
    if (S_ISDIR(info.st_mode))
        return locate_in(out, path);
    if (!is_gguf(path))
        return TFM_OK;
    return (*out = tfm__strdup(path)) ? TFM_OK : TFM_ERROR_MEMORY;
}
