/* State shared by contexts on one device: the cl_context, so that one can read the other's memory, and read-only
 * tensors such as the parameters of a model opened several times. */
#include <pthread.h>
#include <string.h>
#include "dev/device/context_internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct shared_context {
    cl_device_id device;
    cl_context cl;
    int users;
    bool broken; /* users keep it; new contexts get another */
    struct shared_context *next;
} shared_context;

static shared_context *shared_contexts;

cl_context tfm__cl_context_acquire(cl_platform_id platform, cl_device_id device, cl_int *error) {
    pthread_mutex_lock(&lock);
    shared_context *c = shared_contexts;
    while (c && (c->device != device || c->broken))
        c = c->next;
    *error = CL_SUCCESS;
    if (!c && (c = tfm__alloc(1, sizeof(*c)))) {
        const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
        *c = (shared_context){.device = device, .next = shared_contexts};
        c->cl = clCreateContext(properties, 1, &device, NULL, NULL, error);
        if (*error == CL_SUCCESS) {
            shared_contexts = c;
        } else {
            free(c);
            c = NULL;
        }
    } else if (!c) {
        *error = CL_OUT_OF_HOST_MEMORY;
    }
    cl_context cl = c ? c->cl : NULL;
    if (c)
        c->users++;
    pthread_mutex_unlock(&lock);
    return cl;
}

void tfm__cl_context_invalidate(cl_context cl) {
    pthread_mutex_lock(&lock);
    for (shared_context *c = shared_contexts; c; c = c->next)
        c->broken |= c->cl == cl;
    pthread_mutex_unlock(&lock);
}

bool tfm__cl_context_release(cl_context cl) {
    pthread_mutex_lock(&lock);
    shared_context **link = &shared_contexts;
    while (*link && (*link)->cl != cl)
        link = &(*link)->next;
    shared_context *c = *link;
    if (c && --c->users == 0) {
        *link = c->next;
        clReleaseContext(c->cl);
        free(c);
    }
    pthread_mutex_unlock(&lock);
    return c != NULL;
}

/* ---- Read-only tensors ---- */

struct tfm__shared_buffer {
    tfm__shared_buffer_key key;
    cl_context cl;
    cl_mem memory;
    size_t bytes;
    uint64_t address; /* 0 before the first use */
    int users;
    tfm__shared_buffer *next;
};

static tfm__shared_buffer *all;

tfm__shared_buffer *tfm__shared_buffer_find(cl_context cl, tfm__shared_buffer_key key, cl_mem *memory, size_t *bytes) {
    pthread_mutex_lock(&lock);
    tfm__shared_buffer *s = all;
    while (s && (s->cl != cl || memcmp(&s->key, &key, sizeof(key)) != 0))
        s = s->next;
    if (s && clRetainMemObject(s->memory) != CL_SUCCESS)
        s = NULL; /* the caller creates its own */
    if (s) {
        s->users++;
        *memory = s->memory;
        *bytes = s->bytes;
    }
    pthread_mutex_unlock(&lock);
    return s;
}

tfm__shared_buffer *tfm__shared_buffer_add(cl_context cl, tfm__shared_buffer_key key, cl_mem memory, size_t bytes) {
    tfm__shared_buffer *s = tfm__alloc(1, sizeof(*s));
    if (!s)
        return NULL;
    pthread_mutex_lock(&lock);
    *s = (tfm__shared_buffer){.key = key, .cl = cl, .memory = memory, .bytes = bytes, .users = 1, .next = all};
    all = s;
    pthread_mutex_unlock(&lock);
    return s;
}

uint64_t tfm__shared_buffer_bytes(cl_context cl) {
    uint64_t bytes = 0;
    pthread_mutex_lock(&lock);
    for (const tfm__shared_buffer *s = all; s; s = s->next)
        bytes += s->cl == cl ? s->bytes : 0;
    pthread_mutex_unlock(&lock);
    return bytes;
}

uint64_t tfm__mapped_address(cl_command_queue queue, cl_mem memory) {
    cl_int error;
    void *at = clEnqueueMapBuffer(queue, memory, CL_FALSE, CL_MAP_READ, 0, 1, 0, NULL, NULL, &error);
    if (error == CL_SUCCESS)
        error = clEnqueueUnmapMemObject(queue, memory, at, 0, NULL, NULL);
    return error == CL_SUCCESS ? (uint64_t)(uintptr_t)at : 0;
}

uint64_t tfm__shared_buffer_address(tfm__shared_buffer *shared, cl_command_queue queue) {
    pthread_mutex_lock(&lock);
    if (!shared->address)
        shared->address = tfm__mapped_address(queue, shared->memory);
    const uint64_t address = shared->address;
    pthread_mutex_unlock(&lock);
    return address;
}

void tfm__shared_buffer_drop(tfm__shared_buffer *shared) {
    pthread_mutex_lock(&lock);
    if (--shared->users == 0) {
        tfm__shared_buffer **link = &all;
        while (*link != shared)
            link = &(*link)->next;
        *link = shared->next;
        free(shared);
    }
    pthread_mutex_unlock(&lock);
}
