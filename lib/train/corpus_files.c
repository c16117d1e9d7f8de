/* The files of a corpus: what they were like, places in them, and reading them one after the other.
 *
 * A place in files of pairs is a byte of each side, counted from the beginning of its first file. Both sides go on to
 * their next files together, so a place is in the last files that neither side is before. Where a file ends is where
 * the next one begins, but while the other side has a rest, the place is before that. */
#include <sys/stat.h>
#include <unistd.h>
#include "text/documents.h"
#include "train/corpus.h"

/* ---- Changes ---- */

static tfm__stamp stamp_of(FILE *file) {
    struct stat info;
    return fstat(fileno(file), &info) == 0 ? (tfm__stamp){info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec, 0}
                                           : (tfm__stamp){-1, 0, 0, 0};
}

static uint64_t hash_of(FILE *file, int64_t bytes) {
    enum { BLOCK = 4096, BLOCKS = 1024 };
    const int64_t blocks = tfm__ceil_div(bytes, BLOCK), step = tfm__ceil_div(blocks, BLOCKS);
    unsigned char block[BLOCK];
    tfm__hash hash = {0};
    for (int64_t i = 0; i < blocks; i += step) {
        const ssize_t got = pread(fileno(file), block, BLOCK, (off_t)(i * BLOCK));
        tfm__hash_add(&hash, block, got > 0 ? (size_t)got : 0);
    }
    return tfm__hash_finish(&hash);
}

tfm_status tfm__corpus_stamp(tfm__corpus *c) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < c->name_count && status == TFM_OK; i++) {
        tfm__lines r;
        status = tfm__lines_open(&r, c->names[i], 0);
        if (status == TFM_OK)
            c->stamps[i] = stamp_of(r.file);
        if (status == TFM_OK)
            c->stamps[i].hash = hash_of(r.file, c->stamps[i].bytes);
        tfm__lines_close(&r);
    }
    return status;
}

/* What was read during a change, or after it, belongs to neither text. */
static tfm_status check(const tfm__corpus *c, size_t i, FILE *file) {
    const tfm__stamp was = c->stamps[i], is = stamp_of(file);
    const bool later = is.seconds != was.seconds || is.nanoseconds != was.nanoseconds;
    if (is.bytes != was.bytes || (later && hash_of(file, is.bytes) != was.hash))
        return tfm__fail(TFM_ERROR_IO, "%s has changed while it was trained on: a run needs one text to its end",
                         c->names[i]);
    return TFM_OK;
}

tfm_status tfm__corpus_check_read(const tfm__corpus *c, const tfm__readers *readers, tfm_status status) {
    for (size_t side = 0; side < c->sides && (status == TFM_OK || status == TFM_ERROR_INPUT); side++) {
        FILE *const file = readers->files[side].file;
        if (file && check(c, side * c->count + readers->file, file) != TFM_OK)
            status = TFM_ERROR_IO;
    }
    return status;
}

/* ---- Places ---- */

const char *tfm__corpus_others(const tfm__corpus *c) {
    return c->count > 1 ? " and the other files" : "";
}

/* The size of a file, 0 where nobody knows it. */
static int64_t size_of(const tfm__corpus *c, size_t side, size_t file) {
    const int64_t bytes = c->stamps[side * c->count + file].bytes;
    return bytes > 0 ? bytes : 0;
}

/* Finds the files that a place in pairs is in. */
static void find(const tfm__corpus *c, tfm__readers *readers, const int64_t at[2]) {
    int64_t begin[2] = {0, 0};
    for (size_t file = 0; file < c->count; file++) {
        if (at[0] < begin[0] || (c->sides > 1 && at[1] < begin[1]))
            return;
        readers->file = file;
        for (size_t side = 0; side < c->sides; side++) {
            readers->before[side] = begin[side];
            begin[side] += size_of(c, side, file);
        }
    }
}

/* A line has at least one byte, its end. */
bool tfm__corpus_has(const tfm__corpus *c, tfm_data_position to) {
    const int64_t at[] = {to.source_at, to.target_at};
    bool good = to.line >= 0 && to.source_at >= 0 && to.target_at >= 0;
    tfm__readers in = {0};
    if (c->texts) {
        good = good && (size_t)to.target_at < c->count;
        return good && (c->stamps[to.target_at].bytes < 0 || to.source_at <= c->stamps[to.target_at].bytes);
    }
    find(c, &in, at);
    for (size_t side = 0; side < c->sides; side++)
        good =
            good && at[side] >= to.line &&
            (c->stamps[side * c->count + in.file].bytes < 0 || at[side] - in.before[side] <= size_of(c, side, in.file));
    return good && (c->sides > 1 || to.target_at == 0);
}

/* ---- Reading ---- */

static tfm_status open_at(const tfm__corpus *c, tfm__readers *readers, int64_t source_at, int64_t target_at) {
    tfm_status status = tfm__lines_open(&readers->files[0], c->names[readers->file], source_at);
    return status == TFM_OK && c->sides > 1
               ? tfm__lines_open(&readers->files[1], c->names[c->count + readers->file], target_at)
               : status;
}

tfm_status tfm__readers_open(const tfm__corpus *c, tfm__readers *readers, tfm_data_position at) {
    if (c->texts)
        readers->file = (size_t)at.target_at;
    else
        find(c, readers, (const int64_t[]){at.source_at, at.target_at});
    return open_at(c, readers, at.source_at - readers->before[0], at.target_at - readers->before[1]);
}

tfm_status tfm__readers_go_on(const tfm__corpus *c, tfm__readers *readers, bool *more) {
    *more = readers->file + 1 < c->count;
    tfm_status status = *more ? tfm__corpus_check_read(c, readers, TFM_OK) : TFM_OK;
    if (status != TFM_OK || !*more)
        return status;
    tfm__readers_close(readers);
    for (size_t side = 0; side < c->sides && !c->texts; side++)
        readers->before[side] += size_of(c, side, readers->file);
    readers->file++;
    return open_at(c, readers, 0, 0);
}

void tfm__readers_close(tfm__readers *readers) {
    tfm__lines_close(&readers->files[0]);
    tfm__lines_close(&readers->files[1]);
}

/* How far a side has come in all its files. */
static int64_t tell(const tfm__readers *readers, size_t side) {
    return readers->files[side].file ? readers->before[side] + ftello(readers->files[side].file) : 0;
}

tfm_data_position tfm__readers_tell(const tfm__corpus *c, const tfm__readers *readers, int64_t line) {
    return (tfm_data_position){
        .line = line, .source_at = tell(readers, 0), .target_at = c->texts ? (int64_t)readers->file : tell(readers, 1)};
}

/* A place says only how many lines come before it in all files, so those of a later file are counted. */
int64_t tfm__readers_line(const tfm__corpus *c, tfm__readers *readers, int side, int64_t line) {
    tfm__lines *lines = &readers->files[side];
    const off_t end = ftello(lines->file);
    bool more = true;
    if (readers->file == 0)
        return line;
    rewind(lines->file);
    for (line = 0; more && ftello(lines->file) < end; line += more) {
        const tfm_status status = tfm__document_next(lines, &c->options.documents, &more);
        more = more && (status == TFM_OK || status == TFM_ERROR_INPUT);
    }
    return line;
}
