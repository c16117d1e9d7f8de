/* Tensors on mapped files. If device and host share memory (CPUs and most integrated GPUs), weights in the kernels'
 * layout need no copy. Each tensor has a private map: the opener's map may be gone, and an erroneous write changes
 * neither the file nor other tensors. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/file.h"
#include "dev/device/context_internal.h"
#include "dev/memory/memory_pool.h"

/* GPU drivers copy a span that does not end at a full cache line; the rest of the last page is mapped. */
enum { CACHE_LINE = 64 };

/* GPU-style kernels load vectors of this size if a tensor begins at a multiple of it. Files need not align their
 * weights; tfm_model_save does. */
enum { VECTOR_BYTES = 16 };

/* Smaller tensors are copied: a map has a fixed cost. */
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

/* Called when the driver is done with the memory, maybe after the context released it. */
static void CL_CALLBACK unmap_callback(cl_mem memory, void *user) {
    (void)memory;
    unmap(user);
}

static size_t page_size(void) {
    const long page = sysconf(_SC_PAGESIZE);
    return page > 0 ? (size_t)page : 4096;
}

/* The pages around a range of the file, or NULL; *before is the number of leading bytes outside the range. */
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
    /* Without the callback nothing reports when the pages may be unmapped. The memory is new, so no command uses it. */
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

/* Pages are reread from the file on access. The first and last page may contain a neighbor's data, which costs at most
 * a read. */
void tfm__tensor_evict_pages(tfm_context *ctx, tfm_tensor x) {
    if (!tfm__tensor_is_mmapped(x) || tfm_context_finish(ctx) != TFM_OK)
        return;
    const size_t size = tfm_dtype_size(x.dtype), page = page_size();
    const size_t first = x.offset * size / page * page, end = (x.offset + tfm_tensor_count(x)) * size;
    madvise((unsigned char *)x.buffer->mapping + first, end - first, MADV_DONTNEED);
}

void tfm__memory_prepare(void *at, size_t bytes, bool now) {
    const uintptr_t page = page_size(), begin = (uintptr_t)at, first = (begin + page - 1) / page * page,
                    end = (begin + bytes) / page * page;
    (void)now;
    if (end <= first)
        return;
#ifdef MADV_HUGEPAGE
    if (!now)
        madvise((void *)first, end - first, MADV_HUGEPAGE);
#endif
#ifdef MADV_POPULATE_WRITE
    if (now)
        madvise((void *)first, end - first, MADV_POPULATE_WRITE);
#endif
}
