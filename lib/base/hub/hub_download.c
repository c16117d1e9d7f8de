/* Each file goes to blobs/ETAG.incomplete, which a later download resumes, and is renamed when its checksum is right.
 */
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <nettle/version.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "base/hub/hub_download.h"

typedef struct transfer {
    tfm__hub_request request;
    tfm__hub_file *file;
    const tfm__hub_store *store;
    struct job *job;
    char *url, *blob, *partial;
    int fd, lock;
    struct sha256_ctx sha;
    uint64_t have;
    int mismatches;
} transfer;

typedef struct job {
    transfer *transfers;
    size_t count;
    tfm__hub_report_fn *report;
    void *user;
    bool stopped;
} job;

static bool report(job *j, const tfm__hub_file *finished) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < j->count; i++)
        bytes += j->transfers[i].file->done ? 0 : j->transfers[i].have;
    j->stopped |= !j->report(j->user, finished, bytes);
    return !j->stopped;
}

static bool keep_going(void *user) {
    return report(user, NULL);
}

/* ---- The unfinished file -------------------------------------------------------------------------------- */

static tfm_status write_failed(const transfer *t) {
    if (errno == ENOSPC || errno == EDQUOT)
        return tfm__fail(TFM_ERROR_IO,
                         "cannot write %s: %s; free space, or set HF_HUB_CACHE to a folder on another disk, "
                         "and start the download again: it resumes",
                         t->partial, strerror(errno));
    return tfm__fail(TFM_ERROR_IO, "cannot write %s: %s; check the cache folder", t->partial, strerror(errno));
}

static tfm_status empty(transfer *t) {
    t->have = 0;
    sha256_init(&t->sha);
    return ftruncate(t->fd, 0) == 0 && lseek(t->fd, 0, SEEK_SET) == 0 ? TFM_OK : write_failed(t);
}

/* Computes the checksum of the bytes of an earlier download. */
static tfm_status take_partial(transfer *t) {
    enum { BLOCK = 1 << 20 };
    struct stat info;
    if (fstat(t->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return write_failed(t);
    if (t->file->sized && (uint64_t)info.st_size > t->file->size)
        return empty(t);
    unsigned char *block = tfm__alloc(BLOCK, 1);
    tfm_status status = block ? TFM_OK : TFM_ERROR_MEMORY;
    for (ssize_t got = 1; status == TFM_OK && got > 0;) {
        got = read(t->fd, block, BLOCK);
        if (got < 0)
            status = write_failed(t);
        else
            sha256_update(&t->sha, (size_t)got, block);
        t->have += got > 0 ? (uint64_t)got : 0;
        if (status == TFM_OK && t->have % (64 * BLOCK) == 0 && got > 0 && !keep_going(t->job))
            status = tfm__fail(TFM_ERROR_CANCELLED, "the download was stopped: start it again to resume");
    }
    free(block);
    return status;
}

static void hex_digest(char out[2 * SHA256_DIGEST_SIZE + 1], const struct sha256_ctx *sha) {
    struct sha256_ctx copy = *sha;
    uint8_t digest[SHA256_DIGEST_SIZE];
#if NETTLE_VERSION_MAJOR >= 4
    sha256_digest(&copy, digest);
#else
    sha256_digest(&copy, sizeof(digest), digest);
#endif
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* Frees the lock at once: another file of the repository may have the same content. */
static void release(transfer *t) {
    if (t->fd >= 0)
        close(t->fd);
    if (t->lock >= 0)
        close(t->lock);
    t->fd = t->lock = -1;
}

static void set_done(transfer *t, uint64_t bytes) {
    release(t);
    t->file->done = t->request.complete = t->file->sized = true;
    t->file->size = bytes;
    report(t->job, t->file);
}

/* Gives the whole file its final name. TFM_ERROR_AGAIN: it is not whole, or wrong for the first time. */
static tfm_status finish(transfer *t) {
    char digest[2 * SHA256_DIGEST_SIZE + 1];
    if (t->file->sized && t->have != t->file->size)
        return tfm__fail(TFM_ERROR_AGAIN, "the server sent %llu of %llu bytes", (unsigned long long)t->have,
                         (unsigned long long)t->file->size);
    hex_digest(digest, &t->sha);
    if (t->file->lfs && strcmp(digest, t->file->etag) != 0) {
        const tfm_status status = empty(t);
        if (status != TFM_OK)
            return status;
        if (t->mismatches++ == 0)
            return tfm__fail(TFM_ERROR_AGAIN, "its SHA-256 is wrong");
        return tfm__fail(TFM_ERROR_FORMAT,
                         "cannot download %s: its SHA-256 is %s instead of %s; the server or a proxy "
                         "damages it, so try again later or elsewhere",
                         t->file->path, digest, t->file->etag);
    }
    if (fdatasync(t->fd) != 0 || rename(t->partial, t->blob) != 0)
        return write_failed(t);
    set_done(t, t->have);
    return TFM_OK;
}

/* ---- Callbacks of the request --------------------------------------------------------------------------- */

static tfm_status begin(tfm__hub_request *r) {
    transfer *t = r->user;
    tfm_status status = t->lock >= 0 || t->fd >= 0 ? TFM_OK : tfm__hub_lock(&t->lock, t->store, t->file->etag);
    if (status != TFM_OK)
        return status;
    if (t->fd < 0) {
        struct stat info;
        if (stat(t->blob, &info) == 0) { /* another process has finished it */
            set_done(t, (uint64_t)info.st_size);
            return TFM_OK;
        }
        t->fd = open(t->partial, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (t->fd < 0)
            return write_failed(t);
        sha256_init(&t->sha);
        status = take_partial(t);
        if (status == TFM_OK && t->file->sized && t->have == t->file->size && (status = finish(t)) == TFM_ERROR_AGAIN)
            status = TFM_OK; /* the earlier download was damaged */
    }
    r->offset = t->have;
    return status;
}

static tfm_status rewind_file(tfm__hub_request *r) {
    return empty(r->user);
}

static tfm_status on_bytes(tfm__hub_request *r, const char *bytes, size_t count) {
    transfer *t = r->user;
    if (t->file->sized && count > t->file->size - t->have)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "cannot download %s: the server sends more than its %llu bytes; try again later",
                         t->file->path, (unsigned long long)t->file->size);
    sha256_update(&t->sha, count, (const uint8_t *)bytes);
    t->have += count;
    for (size_t done = 0; done < count;) {
        const ssize_t wrote = write(t->fd, bytes + done, count - done);
        if (wrote < 0 && errno != EINTR)
            return write_failed(t);
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return TFM_OK;
}

static tfm_status end(tfm__hub_request *r) {
    return finish(r->user);
}

/* ---- Etags that the list lacks -------------------------------------------------------------------------- */

static tfm_status take_headers(tfm__hub_request *r) {
    transfer *t = r->user;
    if (!r->headers.etag[0])
        return tfm__fail(TFM_ERROR_FORMAT, "cannot download %s: the server gives no usable etag; check HF_ENDPOINT",
                         t->file->path);
    t->file->etag = tfm__strdup(r->headers.etag);
    if (r->headers.sized && !t->file->sized)
        t->file->size = r->headers.size;
    t->file->sized |= r->headers.sized;
    t->file->lfs = tfm__hub_is_sha256(r->headers.etag);
    return t->file->etag ? TFM_OK : TFM_ERROR_MEMORY;
}

/* Requests the headers of files without an etag. */
static tfm_status find_etags(tfm__hub_session *s, job *j, tfm__hub_request **requests, size_t parallel) {
    size_t count = 0;
    for (size_t i = 0; i < j->count; i++) {
        transfer *t = &j->transfers[i];
        if (t->file->etag)
            continue;
        t->request = (tfm__hub_request){.url = t->url, .what = t->file->path, .head = true, .user = t};
        requests[count++] = &t->request;
    }
    tfm_status status = tfm__hub_run(s, requests, count, parallel);
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        status = take_headers(requests[i]);
    return status;
}

/* ---- All files ------------------------------------------------------------------------------------------ */

static tfm_status prepare(transfer *t, const tfm__hub_session *s, const char *repo) {
    char *path = tfm__hub_escape(t->file->path, true), *commit = tfm__hub_escape(t->store->commit, false);
    t->url = path && commit ? tfm__format("%s/%s/resolve/%s/%s", s->endpoint, repo, commit, path) : NULL;
    free(path);
    free(commit);
    return t->url ? TFM_OK : TFM_ERROR_MEMORY;
}

/* Completes the transfer after its etag is known. */
static tfm_status name_blob(transfer *t) {
    t->blob = tfm__hub_blob(t->store, t->file->etag, "");
    t->partial = tfm__hub_blob(t->store, t->file->etag, ".incomplete");
    t->request = (tfm__hub_request){.url = t->url,
                                    .what = t->file->path,
                                    .begin = begin,
                                    .rewind = rewind_file,
                                    .data = on_bytes,
                                    .end = end,
                                    .user = t};
    return t->blob && t->partial ? TFM_OK : TFM_ERROR_MEMORY;
}

static tfm_status run(tfm__hub_session *s, const tfm__hub_store *store, job *j, tfm__hub_request **requests,
                      size_t parallel) {
    tfm_status status = find_etags(s, j, requests, parallel);
    uint64_t bytes = 0;
    struct stat info;
    for (size_t i = 0; i < j->count && status == TFM_OK; i++) {
        transfer *t = &j->transfers[i];
        requests[i] = &t->request;
        status = name_blob(t);
        if (status != TFM_OK || stat(t->blob, &info) == 0)
            continue;
        const uint64_t there = stat(t->partial, &info) == 0 ? (uint64_t)info.st_size : 0;
        bytes += t->file->size > there ? t->file->size - there : 0;
    }
    if (status == TFM_OK)
        status = tfm__hub_store_check_space(store, bytes, s->name);
    if (status == TFM_OK)
        status = tfm__hub_run(s, requests, j->count, parallel);
    return status;
}

static void free_transfer(transfer *t) {
    release(t);
    free(t->url);
    free(t->blob);
    free(t->partial);
}

tfm_status tfm__hub_download(tfm__hub_session *s, const tfm__hub_store *store, tfm__hub_list *list, const char *repo,
                             size_t parallel, tfm__hub_report_fn *report_to, void *user) {
    transfer *transfers = tfm__alloc(list->count + 1, sizeof(*transfers));
    tfm__hub_request **requests = tfm__alloc(list->count + 1, sizeof(tfm__hub_request *));
    tfm_status status = transfers && requests ? TFM_OK : TFM_ERROR_MEMORY;
    job j = {.transfers = transfers, .report = report_to, .user = user};
    for (size_t i = 0; i < list->count && status == TFM_OK; i++) {
        if (!list->files[i].wanted || list->files[i].done)
            continue;
        transfer *t = &transfers[j.count++];
        *t = (transfer){.file = &list->files[i], .store = store, .job = &j, .fd = -1, .lock = -1};
        status = prepare(t, s, repo);
    }
    s->keep_going = keep_going;
    s->user = &j;
    if (status == TFM_OK && j.count > 0)
        status = run(s, store, &j, requests, parallel);
    for (size_t i = 0; i < j.count; i++)
        free_transfer(&transfers[i]);
    free(transfers);
    free(requests);
    return status;
}
