/* Selects one of the GGUF files of a repository or folder. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/hub/hub.h"

static const char END[] = ".gguf", USUAL[] = "Q4_K_M";

static const char *base_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_gguf(const char *path) {
    const size_t length = strlen(path);
    return length >= sizeof(END) && strcasecmp(path + length - (sizeof(END) - 1), END) == 0;
}

bool tfm__gguf_is_model(const char *path) {
    const char *base = base_of(path);
    return is_gguf(path) && strncasecmp(base, "mmproj", 6) != 0 && !tfm__contains(base, "imatrix");
}

/* The number of a split part, counted from 1, and the length of the path before it: NAME-00001-of-00003.gguf. 0 for a
 * path of another form. */
static unsigned split_number(const char *path, size_t *stem) {
    enum { TAIL = sizeof("-00001-of-00003.gguf") - 1 };
    const size_t length = strlen(path);
    unsigned number, total;
    int used = 0;
    *stem = length;
    if (length <= TAIL || sscanf(path + length - TAIL, "-%5u-of-%5u.%n", &number, &total, &used) != 2 ||
        used != TAIL - 4 || number == 0)
        return 0;
    *stem = length - TAIL;
    return number;
}

bool tfm__gguf_same_split(const char *a, const char *b) {
    size_t stem, other;
    if (strcmp(a, b) == 0)
        return true;
    if (!split_number(a, &stem) || !split_number(b, &other) || stem != other || strncmp(a, b, stem) != 0)
        return false;
    return strcmp(a + stem + 6, b + stem + 6) == 0; /* the same total */
}

/* Whether `type` occurs in the file name between characters that quantization types do not have. */
static bool has_type(const char *path, const char *type) {
    const size_t length = strlen(type);
    for (const char *at = path; *at; at++) {
        if (strncasecmp(at, type, length) != 0)
            continue;
        const unsigned char before = at > path ? (unsigned char)at[-1] : '-', after = (unsigned char)at[length];
        if (!isalnum(before) && before != '_' && !isalnum(after) && after != '_')
            return true;
    }
    return false;
}

static bool fits(const char *path, const char *wanted) {
    size_t stem;
    const bool first = split_number(path, &stem) <= 1;
    if (is_gguf(wanted))
        return is_gguf(path) && first &&
               (tfm__gguf_same_split(path, wanted) || tfm__gguf_same_split(base_of(path), wanted));
    return tfm__gguf_is_model(path) && first && (!*wanted || has_type(path, wanted));
}

static size_t count_fits(size_t *selected, const char *const *paths, size_t count, const char *wanted) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        if (fits(paths[i], wanted) && found++ == 0)
            *selected = i;
    return found;
}

/* The paths that fit, for a message; truncated. */
static const char *list_text(char *text, size_t room, const char *const *paths, size_t count, const char *wanted) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (!fits(paths[i], wanted))
            continue;
        if (used + strlen(paths[i]) + 8 > room) {
            snprintf(text + used, room - used, ", ...");
            break;
        }
        used += (size_t)snprintf(text + used, room - used, "%s%s", used ? ", " : "", paths[i]);
    }
    return text;
}

tfm_status tfm__gguf_select(size_t *selected, const char *const *paths, size_t count, const char *wanted,
                            const char *repo, const char *hint) {
    char text[2048];
    const size_t found = count_fits(selected, paths, count, wanted);
    if (found == 1)
        return TFM_OK;
    if (!*wanted && found > 1 && count_fits(selected, paths, count, USUAL) == 1)
        return TFM_OK;
    if (found > 1)
        return tfm__fail(TFM_ERROR_IO, "%s has several GGUF files%s%s: give one as %s:FILE, of %s", repo,
                         *wanted ? " of type " : "", wanted, repo, list_text(text, sizeof(text), paths, count, wanted));
    if (count_fits(selected, paths, count, "") == 0)
        return tfm__fail(TFM_ERROR_IO, "%s has no GGUF file, and %s was requested: %s", repo, *wanted ? wanted : "one",
                         *hint ? hint : "give the name without a file");
    return tfm__fail(TFM_ERROR_IO, "%s has no GGUF file of the name or type %s: %s%sgive one of %s", repo, wanted, hint,
                     *hint ? ", or " : "", list_text(text, sizeof(text), paths, count, ""));
}
