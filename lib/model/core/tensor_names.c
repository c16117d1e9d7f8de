/* Tensor names: spellings differ between versions of checkpoints. */
#include <stdio.h>
#include <string.h>
#include "model/arch/multimodal.h"
#include "model/core/load.h"

bool tfm__ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), size = strlen(end);
    return length >= size && strcmp(text + length - size, end) == 0;
}

bool tfm__load_ignores(const tfm__family *family, const char *name) {
    static const char *const NONE[] = {NULL};
    for (const char *const *part = family->ignored ? family->ignored : NONE; *part; part++)
        if (tfm__ends_with(*part, ".") ? strncmp(name, *part, strlen(*part)) == 0 : tfm__ends_with(name, *part))
            return true;
    return false;
}

/* The tensor's name in the file under an old spelling, or NULL. */
static const char *legacy_name(const tfm__loader *l, const char *name) {
    static const char *const NONE[] = {NULL};
    char text[256];
    for (const char *const *pair = l->family->legacy_names ? l->family->legacy_names : NONE; *pair; pair += 2) {
        if (!tfm__ends_with(name, pair[0]))
            continue;
        snprintf(text, sizeof(text), "%.*s%s", (int)(strlen(name) - strlen(pair[0])), name, pair[1]);
        const tfm__stored_tensor *stored = tfm__weights_find(l->file, text);
        if (stored)
            return stored->name;
    }
    return NULL;
}

/* The file's name of a text tensor of a multimodal model; `name` if there is none. */
static const char *name_in_multimodal(const tfm__loader *l, const char *name) {
    const char *own = l->family->prefixes[0];
    const bool inner = strncmp(name, own, strlen(own)) == 0;
    char text[256];
    for (const char *const *place = inner ? tfm__multimodal_text_prefixes : tfm__multimodal_other_prefixes; *place;
         place++) {
        snprintf(text, sizeof(text), "%s%s", *place, inner ? name + strlen(own) : name);
        const tfm__stored_tensor *stored = tfm__weights_find(l->file, text);
        if (stored)
            return stored->name;
    }
    return name;
}

const char *tfm__load_family_name(const tfm__loader *l, char *text, size_t size, const char *name) {
    for (const char *const *place = tfm__multimodal_text_prefixes; l->arch->multimodal && *place; place++)
        if (strncmp(name, *place, strlen(*place)) == 0) {
            snprintf(text, size, "%s%s", l->family->prefixes[0], name + strlen(*place));
            return text;
        }
    return name;
}

/* The name in the file: without the prefix in a model saved without its head, or in an old spelling. */
const char *tfm__load_name(const tfm__loader *l, const char *name) {
    static const char *const NONE[] = {NULL};
    if (l->arch->multimodal)
        return name_in_multimodal(l, name);
    if (tfm__weights_find(l->file, name))
        return name;
    if (legacy_name(l, name))
        return legacy_name(l, name);
    for (const char *const *prefix = l->family->prefixes ? l->family->prefixes : NONE; *prefix; prefix++) {
        const size_t length = strlen(*prefix);
        if (strncmp(name, *prefix, length) == 0 && tfm__weights_find(l->file, name + length))
            return name + length;
        if (strncmp(name, *prefix, length) == 0 && legacy_name(l, name + length))
            return legacy_name(l, name + length);
    }
    return name;
}

const tfm__stored_tensor *tfm__load_find(const tfm__loader *l, const char *name) {
    return tfm__weights_find(l->file, tfm__load_name(l, name));
}
