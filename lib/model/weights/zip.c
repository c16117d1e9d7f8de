#include "model/weights/zip.h"
#include <string.h>

/* Fixed sizes of records, and their signatures. */
enum { END = 22, END64 = 56, LOCATOR64 = 20, CENTRAL = 46, LOCAL = 30, MAX_COMMENT = 65535 };
#define END_MARK 0x06054b50u
#define END64_MARK 0x06064b50u
#define LOCATOR64_MARK 0x07064b50u
#define CENTRAL_MARK 0x02014b50u
#define LOCAL_MARK 0x04034b50u

/* A little-endian number of `count` bytes. */
static uint64_t number(const unsigned char *at, int count) {
    uint64_t value = 0;
    while (count-- > 0)
        value = value << 8 | at[count];
    return value;
}

/* Parser state of the central directory. */
typedef struct reader {
    const unsigned char *data;
    size_t size;
    const char *path;
    uint64_t count, list_at, list_bytes; /* of the central directory */
    size_t limit;                        /* upper bound of its end */
} reader;

static tfm_status damaged(const reader *r, const char *what) {
    return tfm__fail(TFM_ERROR_FORMAT, "%s is a damaged zip archive: %s; copy or download it again", r->path, what);
}

bool tfm__zip_is_archive(const unsigned char *data, size_t size) {
    return size >= 4 && (number(data, 4) == LOCAL_MARK || number(data, 4) == END_MARK);
}

/* ---- Central directory -------------------------------------------------------------------------------- */

/* Zip64 archives have a second end record, found through a locator. */
static tfm_status read_end64(reader *r, size_t end) {
    if (end < LOCATOR64 + END64 || number(r->data + end - LOCATOR64, 4) != LOCATOR64_MARK)
        return TFM_OK;
    const uint64_t at = number(r->data + end - LOCATOR64 + 8, 8);
    if (at > end - LOCATOR64 - END64 || number(r->data + at, 4) != END64_MARK)
        return damaged(r, "its zip64 record is not where it should be");
    const unsigned char *record = r->data + at;
    if (number(record + 16, 4) != 0 || number(record + 20, 4) != 0 || number(record + 24, 8) != number(record + 32, 8))
        return damaged(r, "it is one of several parts");
    r->count = number(record + 32, 8);
    r->list_bytes = number(record + 40, 8);
    r->list_at = number(record + 48, 8);
    r->limit = (size_t)at;
    return TFM_OK;
}

static tfm_status read_end(reader *r) {
    const size_t farthest = r->size < END + MAX_COMMENT ? r->size : END + MAX_COMMENT;
    for (size_t tail = END; tail <= farthest; tail++) {
        const unsigned char *end = r->data + r->size - tail;
        if (number(end, 4) != END_MARK || number(end + 20, 2) != tail - END)
            continue;
        if (number(end + 4, 2) != 0 || number(end + 6, 2) != 0 || number(end + 8, 2) != number(end + 10, 2))
            return damaged(r, "it is one of several parts");
        r->count = number(end + 10, 2);
        r->list_bytes = number(end + 12, 4);
        r->list_at = number(end + 16, 4);
        r->limit = r->size - tail;
        tfm_status status = read_end64(r, r->limit);
        if (status == TFM_OK && (r->list_at > r->limit || r->list_bytes > r->limit - r->list_at))
            status = damaged(r, "its central directory is outside of the file");
        if (status == TFM_OK && r->count > r->list_bytes / CENTRAL)
            status = damaged(r, "its central directory is too short for its entries");
        return status;
    }
    return damaged(r, "its end is missing, so it was truncated");
}

/* ---- Entries ------------------------------------------------------------------------------------------ */

/* Values that do not fit into 32 bits are in extra field 1, only those, in this order. */
static bool read_wide(uint64_t *numbers[3], const unsigned char *extra, size_t bytes) {
    bool wanted = false;
    for (int i = 0; i < 3; i++)
        wanted |= *numbers[i] == UINT32_MAX;
    while (wanted && bytes >= 4) {
        const uint64_t kind = number(extra, 2), length = number(extra + 2, 2);
        if (length > bytes - 4)
            return false;
        if (kind == 1) {
            size_t at = 0;
            for (int i = 0; i < 3; i++) {
                if (*numbers[i] != UINT32_MAX)
                    continue;
                if (at + 8 > length)
                    return false;
                *numbers[i] = number(extra + 4 + at, 8);
                at += 8;
            }
            return true;
        }
        extra += 4 + length;
        bytes -= 4 + (size_t)length;
    }
    return !wanted;
}

/* The data follows a local header, whose name and extra field may have other lengths. */
static tfm_status find_data(const reader *r, tfm__zip_entry *entry, uint64_t at, uint64_t bytes) {
    if (at > r->list_at || r->list_at - at < LOCAL || number(r->data + at, 4) != LOCAL_MARK)
        return damaged(r, "an entry is not at the offset in the central directory");
    const unsigned char *local = r->data + at;
    const uint64_t name = number(local + 26, 2), front = LOCAL + name + number(local + 28, 2), room = r->list_at - at;
    if (front > room || name != entry->name_bytes || memcmp(local + LOCAL, entry->name, entry->name_bytes) != 0)
        return damaged(r, "an entry has another name than in the central directory");
    if (bytes > room - front)
        return damaged(r, "an entry is longer than the archive");
    entry->data = local + front;
    entry->bytes = (size_t)bytes;
    return TFM_OK;
}

/* The central directory entry at `at`, with `bytes` left; *used: its size. */
static tfm_status read_entry(const reader *r, tfm__zip_entry *out, size_t *used, const unsigned char *at,
                             size_t bytes) {
    if (bytes < CENTRAL || number(at, 4) != CENTRAL_MARK)
        return damaged(r, "its central directory is damaged");
    const uint64_t flags = number(at + 8, 2), method = number(at + 10, 2);
    const size_t name = number(at + 28, 2), extra = number(at + 30, 2), comment = number(at + 32, 2);
    uint64_t packed = number(at + 20, 4), plain = number(at + 24, 4), place = number(at + 42, 4);
    if (name + extra + comment > bytes - CENTRAL)
        return damaged(r, "its central directory is damaged");
    *used = CENTRAL + name + extra + comment;
    *out = (tfm__zip_entry){.name = (const char *)at + CENTRAL, .name_bytes = name};
    if (!read_wide((uint64_t *[]){&plain, &packed, &place}, at + CENTRAL + name, extra))
        return damaged(r, "the size of an entry is missing");
    out->stored = method == 0 && !(flags & 1);
    if (!out->stored)
        return TFM_OK;
    if (packed != plain)
        return damaged(r, "an uncompressed entry has two sizes");
    return find_data(r, out, place, plain);
}

static int compare(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
    const int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static int by_name(const void *a, const void *b) {
    const tfm__zip_entry *x = a, *y = b;
    return compare(x->name, x->name_bytes, y->name, y->name_bytes);
}

tfm_status tfm__zip_open(tfm__zip *out, const unsigned char *data, size_t size, const char *path) {
    *out = (tfm__zip){.path = path};
    reader r = {.data = data, .size = size, .path = path};
    tfm_status status = read_end(&r);
    if (status != TFM_OK)
        return status;
    out->entries = tfm__alloc((size_t)r.count + 1, sizeof(*out->entries));
    if (!out->entries)
        return TFM_ERROR_MEMORY;
    size_t at = 0, used = 0;
    for (; out->count < r.count && status == TFM_OK; out->count++, at += used)
        status = read_entry(&r, &out->entries[out->count], &used, data + r.list_at + at, (size_t)r.list_bytes - at);
    if (status == TFM_OK && at != r.list_bytes)
        status = damaged(&r, "its central directory has more entries than it says");
    if (status == TFM_OK)
        qsort(out->entries, out->count, sizeof(*out->entries), by_name);
    for (size_t i = 1; i < out->count && status == TFM_OK; i++)
        if (by_name(&out->entries[i - 1], &out->entries[i]) == 0)
            status = damaged(&r, "two entries have the same name");
    if (status != TFM_OK)
        tfm__zip_close(out);
    return status;
}

void tfm__zip_close(tfm__zip *zip) {
    free(zip->entries);
    *zip = (tfm__zip){0};
}

tfm_status tfm__zip_find(const tfm__zip *zip, const tfm__zip_entry **out, const char *folder, size_t folder_bytes,
                         const char *name, size_t name_bytes) {
    const size_t bytes = folder_bytes + 1 + name_bytes;
    *out = NULL;
    if (bytes > UINT16_MAX) /* names are not longer */
        return TFM_OK;
    char *whole = tfm__alloc(bytes, 1);
    if (!whole)
        return TFM_ERROR_MEMORY;
    memcpy(whole, folder, folder_bytes);
    whole[folder_bytes] = '/';
    memcpy(whole + folder_bytes + 1, name, name_bytes);
    const tfm__zip_entry key = {.name = whole, .name_bytes = bytes};
    const tfm__zip_entry *found = zip->count ? bsearch(&key, zip->entries, zip->count, sizeof(key), by_name) : NULL;
    free(whole);
    if (found && !found->stored)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: its entry %.*s is compressed or encrypted, which PyTorch never does: unpack the archive, "
                         "and repack it with `zip -0 -r`",
                         zip->path, found->name_bytes < 200 ? (int)found->name_bytes : 200, found->name);
    *out = found;
    return TFM_OK;
}
