/* Tensors whose memory is a file: where the device's memory is the host's, as of CPUs and of most GPUs that share their
 * chip, numbers that a file has as kernels read them need no copy. Each has a private map of its own, so that what
 * opened the file first may be gone, and one that is written to, by whatever mistake, leaves the file and all other
 * tensors as they are. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/file.h"
#include "dev/device/context_internal.h"

/* Drivers of GPUs copy a span that does not end at a whole line of their caches; the rest of the last page is there. */
enum { CACHE_LINE = 64 };

/* Kernels of devices that run items side by side read so many bytes at once where a tensor begins at a multiple of
 * them, and a file need not have its numbers there: those of tfm_model_save are. */
enum { VECTOR_BYTES = 16 };

/* What is smaller is copied: a map has a price too. */
#ifndef TFM__MMAP_MIN_BYTES
#define TFM__MMAP_MIN_BYTES (64 << 10)
#endif

typedef struct mapping {
    void *pages;
    size_t bytes;
} mapping;

static void unmap(mapping *s) {
    munmap(s->pages, s->bytes);
    free(s);
}

/* Called once the driver has done with the memory, which may be after the context's last release of it. */
static void CL_CALLBACK unmap_callback(cl_mem memory, void *user) {
    (void)memory;
    unmap(user);
}

static size_t page_size(void) {
    const long page = sysconf(_SC_PAGESIZE);
    return page > 0 ? (size_t)page : 4096;
}

/* The pages around so many bytes of the file, or NULL; *before is how many of them lie in front. */
static mapping *map(size_t *before, const char *path, uint64_t identity, uint64_t first, size_t bytes) {
    *before = (size_t)(first % page_size());
    mapping *s = tfm__alloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->bytes = *before + bytes;
    s->pages = tfm__file_map_part(path, identity, first - *before, s->bytes);
    if (!s->pages) {
        free(s);
        return NULL;
    }
    return s;
}

bool tfm__tensor_mmap(tfm_context *ctx, tfm_tensor *out, const char *path, uint64_t identity, uint64_t first,
                      tfm_dtype dtype, int rank, const int64_t *dims) {
    const size_t size = tfm_dtype_size(dtype);
    const tfm_tensor shape = {.rank = rank, .dims = {dims[0], rank > 1 ? dims[1] : 1}};
    size_t before, bytes = tfm_tensor_count(shape) * size;
    *out = (tfm_tensor){0};
    const size_t unit = ctx->tuning.class == TFM__CLASS_CPU ? size : VECTOR_BYTES;
    if (ctx->status != TFM_OK || rank > 2 || bytes < TFM__MMAP_MIN_BYTES || bytes > SIZE_MAX - 2 * page_size() ||
        !(ctx->capabilities.has & TFM__HAS_UNIFIED_MEMORY) || first % page_size() % unit != 0 ||
        page_size() > ctx->limits.max_alloc || bytes > ctx->limits.max_alloc - page_size())
        return false;
    mapping *s = map(&before, path, identity, first, bytes);
    if (!s)
        return false;
    const size_t lines = (s->bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    cl_int error;
    cl_mem memory = clCreateBuffer(ctx->cl, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, lines, s->pages, &error);
    if (error != CL_SUCCESS) {
        unmap(s);
        return false;
    }
    /* Without the call nobody says when the driver has done with the pages. The memory is new, so no command has it. */
    if (clSetMemObjectDestructorCallback(memory, unmap_callback, s) != CL_SUCCESS) {
        if (clReleaseMemObject(memory) == CL_SUCCESS)
            unmap(s);
        return false;
    }
    if (tfm_tensor_wrap(ctx, out, memory, before / size, dtype, rank, dims) == TFM_OK) {
        tfm__tensor_persist(ctx, *out);
        out->buffer->mapping = s->pages;
    }
    clReleaseMemObject(memory);
    return ctx->status == TFM_OK;
}

bool tfm__tensor_is_mmapped(tfm_tensor x) {
    return x.buffer && x.buffer->mapping;
}

/* Pages that are read again come from the file. Part of the first one and of the last may be a neighbour's, which costs
 * a read at most. */
void tfm__tensor_evict_pages(tfm_context *ctx, tfm_tensor x) {
    if (!tfm__tensor_is_mmapped(x) || tfm_context_finish(ctx) != TFM_OK)
        return;
    const size_t size = tfm_dtype_size(x.dtype), page = page_size();
    const size_t first = x.offset * size / page * page, end = (x.offset + tfm_tensor_count(x)) * size;
    madvise((unsigned char *)x.buffer->mapping + first, end - first, MADV_DONTNEED);
}
