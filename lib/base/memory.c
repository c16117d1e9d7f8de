#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "base/base.h"

static void *out_of_memory(size_t count, size_t size) {
    tfm__fail(TFM_ERROR_MEMORY, "out of host memory: cannot allocate %zu x %zu bytes", count, size);
    return NULL;
}

void *tfm__alloc(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size ? size : 1);
    return memory ? memory : out_of_memory(count, size);
}

void *tfm__realloc(void *old, size_t count, size_t size) {
    bool overflow = size > 0 && count > SIZE_MAX / size, nothing = count == 0 || size == 0;
    void *memory = overflow ? NULL : realloc(old, nothing ? 1 : count * size);
    return memory ? memory : out_of_memory(count, size);
}

bool tfm__any_set(const uint64_t *words, size_t count) {
    size_t i = 0;
    while (i < count && words[i] == 0)
        i++;
    return i < count;
}

tfm_status tfm__grow(void *array, size_t *capacity, size_t count, size_t size) {
    void *old, *larger;
    if (count <= *capacity)
        return TFM_OK;
    size_t more = *capacity ? *capacity : 64;
    while (more < count)
        more = more > SIZE_MAX / 2 ? count : more * 2;
    memcpy(&old, array, sizeof(old));
    larger = tfm__realloc(old, more, size);
    if (!larger)
        return TFM_ERROR_MEMORY;
    memcpy(array, &larger, sizeof(larger));
    *capacity = more;
    return TFM_OK;
}

char *tfm__strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = tfm__alloc(bytes, 1);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

char *tfm__format(const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : tfm__alloc((size_t)length + 1, 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

int tfm__contains(const char *text, const char *part) {
    size_t length = strlen(part);
    for (; *text; text++) {
        size_t i = 0;
        while (i < length && text[i] && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
            i++;
        if (i == length)
            return 1;
    }
    return length == 0;
}
