/* Memory of a template or a rendering, the first failure, and limits of work and nesting. */
#include <stdio.h>
#include "text/chat_template/jinja.h"

typedef struct tfm__jinja_chunk {
    struct tfm__jinja_chunk *next;
    max_align_t data[];
} tfm__jinja_chunk;

enum { CHUNK = 64 * 1024 };

static void *take_chunk(tfm__jinja *j, size_t bytes) {
    if (bytes > j->memory_limit - j->memory) {
        tfm__jinja_fail(j, TFM_ERROR_INPUT, "rendering takes more than %zu MiB of memory", j->memory_limit >> 20);
        return NULL;
    }
    tfm__jinja_chunk *chunk = malloc(sizeof(*chunk) + bytes);
    if (!chunk) {
        tfm__jinja_fail(j, TFM_ERROR_MEMORY, "out of host memory");
        return NULL;
    }
    chunk->next = j->chunks;
    j->chunks = chunk;
    j->memory += bytes;
    return chunk->data;
}

void *tfm__jinja_alloc(tfm__jinja *j, size_t count, size_t size) {
    const size_t unit = sizeof(max_align_t);
    if (j->status != TFM_OK)
        return NULL;
    if (size && count > j->memory_limit / size) {
        tfm__jinja_fail(j, TFM_ERROR_INPUT, "rendering takes more than %zu MiB of memory", j->memory_limit >> 20);
        return NULL;
    }
    const size_t bytes = (count * size + unit - 1) / unit * unit;
    char *out = j->free_at;
    if (bytes > CHUNK / 4) {
        out = take_chunk(j, bytes);
    } else {
        if (bytes > j->free_bytes) {
            out = take_chunk(j, CHUNK);
            j->free_at = out;
            j->free_bytes = out ? CHUNK : 0;
        }
        j->free_at += out ? bytes : 0;
        j->free_bytes -= out ? bytes : 0;
    }
    if (out)
        memset(out, 0, bytes);
    return out;
}

void tfm__jinja_free(tfm__jinja *j) {
    while (j->chunks) {
        tfm__jinja_chunk *next = j->chunks->next;
        free(j->chunks);
        j->chunks = next;
    }
    j->free_at = NULL;
    j->free_bytes = j->memory = 0;
}

static void vfail(tfm__jinja *j, tfm_status status, const char *format, va_list args) {
    char why[1024];
    if (j->status != TFM_OK)
        return;
    vsnprintf(why, sizeof(why), format, args);
    j->status = tfm__fail(status, "%s: line %d of the chat template: %s", j->what, j->line, why);
}

void tfm__jinja_fail(tfm__jinja *j, tfm_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfail(j, status, format, args);
    va_end(args);
}

tfm__jinja_value tfm__jinja_error(tfm__jinja *j, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfail(j, TFM_ERROR_INPUT, format, args);
    va_end(args);
    return tfm__jinja_none();
}

bool tfm__jinja_step(tfm__jinja *j, size_t work) {
    if (j->status != TFM_OK)
        return false;
    j->steps += 1 + work;
    if (j->steps > j->step_limit)
        tfm__jinja_fail(j, TFM_ERROR_INPUT, "the template takes more than %llu steps: it may never end",
                        (unsigned long long)j->step_limit);
    return j->status == TFM_OK;
}

bool tfm__jinja_enter(tfm__jinja *j) {
    if (!tfm__jinja_step(j, 0))
        return false;
    if (j->depth >= TFM__JINJA_DEPTH) {
        tfm__jinja_fail(j, TFM_ERROR_INPUT, "nesting is deeper than %d: a macro may call itself without end",
                        TFM__JINJA_DEPTH);
        return false;
    }
    j->depth++;
    return true;
}

void tfm__jinja_leave(tfm__jinja *j) {
    j->depth--;
}
