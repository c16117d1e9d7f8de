/* The files of a corpus: stamps, positions, and sequential reading.
 *
 * A position in pairs is a byte offset per side, counted from the beginning of its first file. Both sides advance to
 * their next files together, so a position is in the last files that neither side is before. The end of a file is the
 * beginning of the next, but while the other side has lines left, the position is before that. */
#include <sys/stat.h>
#include <unistd.h>
#include "text/documents.h"
#include "train/corpus.h"

/* ---- Changes ---- */

static tfm__file_stamp stamp_of(FILE *file) {
    struct stat info;
    return fstat(fileno(file), &info) == 0
               ? (tfm__file_stamp){info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec, 0}
               : (tfm__file_stamp){-1, 0, 0, 0};
}

static uint64_t hash_file(FILE *file, int64_t bytes) {
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

tfm_status tfm__corpus_stamp_files(tfm__corpus *c) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < c->path_count && status == TFM_OK; i++) {
        tfm__line_reader r;
        status = tfm__line_reader_open(&r, c->paths[i], 0);
        if (status == TFM_OK)
            c->stamps[i] = stamp_of(r.file);
        if (status == TFM_OK)
            c->stamps[i].hash = hash_file(r.file, c->stamps[i].bytes);
        tfm__line_reader_close(&r);
    }
    return status;
}

/* What was read during or after a change belongs to neither version of the text. */
static tfm_status check_unchanged(const tfm__corpus *c, size_t i, FILE *file) {
    const tfm__file_stamp was = c->stamps[i], is = stamp_of(file);
    const bool later = is.seconds != was.seconds || is.nanoseconds != was.nanoseconds;
    if (is.bytes != was.bytes || (later && hash_file(file, is.bytes) != was.hash))
        return tfm__fail(TFM_ERROR_IO, "%s has changed during training: keep the files unchanged during a run",
                         c->paths[i]);
    return TFM_OK;
}

tfm_status tfm__corpus_check_unchanged(const tfm__corpus *c, const tfm__corpus_reader *reader, tfm_status status) {
    for (size_t side = 0; side < c->sides && (status == TFM_OK || status == TFM_ERROR_INPUT); side++) {
        FILE *const file = reader->files[side].file;
        if (file && check_unchanged(c, side * c->count + reader->file_index, file) != TFM_OK)
            status = TFM_ERROR_IO;
    }
    return status;
}

/* ---- Positions ---- */

const char *tfm__corpus_other_files(const tfm__corpus *c) {
    return c->count > 1 ? " and the other files" : "";
}

/* The size of a file, 0 if unknown. */
static int64_t file_size(const tfm__corpus *c, size_t side, size_t file) {
    const int64_t bytes = c->stamps[side * c->count + file].bytes;
    return bytes > 0 ? bytes : 0;
}

/* Finds the files of a position in pairs. */
static void find_files(const tfm__corpus *c, tfm__corpus_reader *reader, const int64_t at[2]) {
    int64_t begin[2] = {0, 0};
    for (size_t file = 0; file < c->count; file++) {
        if (at[0] < begin[0] || (c->sides > 1 && at[1] < begin[1]))
            return;
        reader->file_index = file;
        for (size_t side = 0; side < c->sides; side++) {
            reader->base_bytes[side] = begin[side];
            begin[side] += file_size(c, side, file);
        }
    }
}

/* A line has at least one byte, its end. */
bool tfm__corpus_has_position(const tfm__corpus *c, tfm_data_position to) {
    const int64_t at[] = {to.source_offset, to.target_offset};
    bool good = to.line >= 0 && to.source_offset >= 0 && to.target_offset >= 0;
    tfm__corpus_reader in = {0};
    if (c->monolingual) {
        good = good && (size_t)to.target_offset < c->count;
        return good && (c->stamps[to.target_offset].bytes < 0 || to.source_offset <= c->stamps[to.target_offset].bytes);
    }
    find_files(c, &in, at);
    for (size_t side = 0; side < c->sides; side++)
        good = good && at[side] >= to.line &&
               (c->stamps[side * c->count + in.file_index].bytes < 0 ||
                at[side] - in.base_bytes[side] <= file_size(c, side, in.file_index));
    return good && (c->sides > 1 || to.target_offset == 0);
}

/* ---- Reading ---- */

static tfm_status open_at(const tfm__corpus *c, tfm__corpus_reader *reader, int64_t source_at, int64_t target_at) {
    tfm_status status = tfm__line_reader_open(&reader->files[0], c->paths[reader->file_index], source_at);
    return status == TFM_OK && c->sides > 1
               ? tfm__line_reader_open(&reader->files[1], c->paths[c->count + reader->file_index], target_at)
               : status;
}

tfm_status tfm__corpus_reader_open(const tfm__corpus *c, tfm__corpus_reader *reader, tfm_data_position at) {
    if (c->monolingual)
        reader->file_index = (size_t)at.target_offset;
    else
        find_files(c, reader, (const int64_t[]){at.source_offset, at.target_offset});
    return open_at(c, reader, at.source_offset - reader->base_bytes[0], at.target_offset - reader->base_bytes[1]);
}

tfm_status tfm__corpus_reader_next_file(const tfm__corpus *c, tfm__corpus_reader *reader, bool *more) {
    *more = reader->file_index + 1 < c->count;
    tfm_status status = *more ? tfm__corpus_check_unchanged(c, reader, TFM_OK) : TFM_OK;
    if (status != TFM_OK || !*more)
        return status;
    tfm__corpus_reader_close(reader);
    for (size_t side = 0; side < c->sides && !c->monolingual; side++)
        reader->base_bytes[side] += file_size(c, side, reader->file_index);
    reader->file_index++;
    return open_at(c, reader, 0, 0);
}

void tfm__corpus_reader_close(tfm__corpus_reader *reader) {
    tfm__line_reader_close(&reader->files[0]);
    tfm__line_reader_close(&reader->files[1]);
}

/* A side's offset over all its files. */
static int64_t side_offset(const tfm__corpus_reader *reader, size_t side) {
    return reader->files[side].file ? reader->base_bytes[side] + ftello(reader->files[side].file) : 0;
}

tfm_data_position tfm__corpus_reader_tell(const tfm__corpus *c, const tfm__corpus_reader *reader, int64_t line) {
    return (tfm_data_position){.line = line,
                               .source_offset = side_offset(reader, 0),
                               .target_offset = c->monolingual ? (int64_t)reader->file_index : side_offset(reader, 1)};
}

/* A position counts lines over all files, so the lines of a later file are counted here. */
int64_t tfm__corpus_reader_line(const tfm__corpus *c, tfm__corpus_reader *reader, int side, int64_t line) {
    tfm__line_reader *lines = &reader->files[side];
    const off_t end = ftello(lines->file);
    bool more = true;
    if (reader->file_index == 0)
        return line;
    rewind(lines->file);
    for (line = 0; more && ftello(lines->file) < end; line += more) {
        const tfm_status status = tfm__document_next(lines, &c->options.documents, &more);
        more = more && (status == TFM_OK || status == TFM_ERROR_INPUT);
    }
    return line;
}
