#include "text/charsmap.h"
#include "text/base64.h"
#include "text/char_class.h"
#include "text/utf8.h"

/* The format: the byte size of the double array, the array as darts-clone packs it (little-endian), and the
 * replacements, each with a NUL. */
struct tfm__charsmap {
    uint32_t *units;
    size_t count;
    char *texts; /* with a terminating NUL */
    size_t text_bytes;
    bool longest;
};

static uint32_t little32(const unsigned char *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

tfm_status tfm__charsmap_new(tfm__charsmap **out, const void *data, size_t size, const char *path) {
    const unsigned char *bytes = data;
    const size_t units = size >= 4 ? little32(bytes) : 0;
    *out = NULL;
    if (size && (size < 4 || units % 4 != 0 || units > size - 4))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: the normalization table is damaged: an offset is out of range", path);
    tfm__charsmap *map = *out = tfm__alloc(1, sizeof(*map));
    if (!map)
        return TFM_ERROR_MEMORY;
    map->count = units / 4;
    map->text_bytes = size ? size - 4 - units : 0;
    map->units = tfm__alloc(map->count, sizeof(*map->units));
    map->texts = tfm__alloc(map->text_bytes + 1, 1);
    if (!map->units || !map->texts) {
        tfm__charsmap_free(out);
        return TFM_ERROR_MEMORY;
    }
    for (size_t i = 0; i < map->count; i++)
        map->units[i] = little32(bytes + 4 + 4 * i);
    if (map->text_bytes)
        memcpy(map->texts, bytes + 4 + units, map->text_bytes);
    if (tfm__utf8_valid(map->texts, map->text_bytes) != map->text_bytes) {
        tfm__charsmap_free(out);
        return tfm__fail(TFM_ERROR_FORMAT, "%s: the normalization table is damaged: a replacement is not UTF-8", path);
    }
    return TFM_OK;
}

tfm_status tfm__charsmap_new_base64(tfm__charsmap **out, const char *text, bool longest, const char *path) {
    unsigned char *bytes;
    size_t size;
    *out = NULL;
    tfm_status status = tfm__base64_decode(&bytes, &size, text, path, "precompiled_charsmap");
    if (status == TFM_OK)
        status = tfm__charsmap_new(out, bytes, size, path);
    if (status == TFM_OK)
        (*out)->longest = longest;
    free(bytes);
    return status;
}

void tfm__charsmap_free(tfm__charsmap **map) {
    if (*map) {
        free((*map)->units);
        free((*map)->texts);
        free(*map);
        *map = NULL;
    }
}

static uint32_t offset(uint32_t unit) {
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* The replacement of the shortest or the longest rule that is a prefix of the text, or NULL; *length: the bytes of the
 * rule. */
static const char *replacement(const tfm__charsmap *map, const char *text, size_t bytes, size_t *length) {
    const char *found = NULL;
    size_t node = 0;
    if (map->count == 0)
        return NULL;
    node ^= offset(map->units[0]);
    for (size_t i = 0; i < bytes && (map->longest || !found); i++) {
        const unsigned char byte = (unsigned char)text[i];
        node ^= byte;
        if (byte == 0 || node >= map->count)
            break;
        const uint32_t unit = map->units[node];
        if ((unit & ((1u << 31) | 0xff)) != byte)
            break;
        node ^= offset(unit);
        if (!(unit >> 8 & 1))
            continue;
        const size_t at = node < map->count ? map->units[node] & 0x7fffffffu : SIZE_MAX;
        if (at >= map->text_bytes)
            break;
        found = map->texts + at;
        *length = i + 1;
    }
    return found;
}

/* Whether the bytes begin a character. */
static bool begins(const char *text) {
    return ((unsigned char)*text & 0xc0) != 0x80;
}

/* As SentencePiece: applies the longest rule at each position, else copies the character. A rule that ends within a
 * character is of a damaged table. */
static void run_longest(const tfm__charsmap *map, tfm__bytes *out, const char *text, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        size_t next = at, length = 0;
        tfm__char_next(text, &next);
        const char *by = replacement(map, text + at, bytes - at, &length);
        if (by && begins(by) && (at + length == bytes || begins(text + at + length))) {
            tfm__bytes_add(out, by, strlen(by));
            next = at + length;
        } else {
            tfm__bytes_add(out, text + at, next - at);
        }
        at = next;
    }
}

static bool replace(const tfm__charsmap *map, tfm__bytes *out, const char *text, size_t bytes) {
    size_t length;
    const char *by = replacement(map, text, bytes, &length);
    if (by && !begins(by)) /* into a character: only damaged tables do */
        by = NULL;
    if (by)
        tfm__bytes_add(out, by, strlen(by));
    return by != NULL;
}

void tfm__charsmap_run(const tfm__charsmap *map, tfm__bytes *out, const char *text, size_t bytes) {
    if (map->longest) {
        run_longest(map, out, text, bytes);
        return;
    }
    for (size_t at = 0; at < bytes;) {
        size_t end = at;
        int32_t last = tfm__char_next(text, &end);
        /* Only grapheme clusters below six bytes are looked up whole. */
        for (size_t next = end; next < bytes; end = next) {
            const int32_t c = tfm__char_next(text, &next);
            if (!tfm__char_extends_grapheme(last, c))
                break;
            last = c;
        }
        if (end - at < 6 && replace(map, out, text + at, end - at)) {
            at = end;
            continue;
        }
        for (size_t next = at; at < end; at = next) {
            tfm__char_next(text, &next);
            if (!replace(map, out, text + at, next - at))
                tfm__bytes_add(out, text + at, next - at);
        }
    }
}
