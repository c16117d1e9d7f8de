/* Writes model.safetensors for tests that create a model directory from other numbers. */
#ifndef TFM_TESTS_TENSORS_FILE_H
#define TFM_TESTS_TENSORS_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A growing safetensors file of F32 tensors. */
typedef struct tensors_file {
    json_t *header; /* json_object() */
    float *data;
    size_t count;
} tensors_file;

/* Adds (rows, columns), or (columns) if rows is 0; `transposed`: the input is stored transposed. */
static inline void tensors_add(tensors_file *f, const char *name, const float *numbers, int64_t rows, int64_t columns,
                               bool transposed) {
    const size_t count = (size_t)((rows ? rows : 1) * columns);
    float *larger = realloc(f->data, (f->count + count) * sizeof(float));
    if (!larger)
        abort();
    f->data = larger;
    for (size_t i = 0; i < count; i++) {
        const size_t r = i / (size_t)columns, c = i % (size_t)columns;
        f->data[f->count + i] = numbers[transposed ? c * (size_t)rows + r : i];
    }
    json_t *shape =
        rows ? json_pack("[I, I]", (json_int_t)rows, (json_int_t)columns) : json_pack("[I]", (json_int_t)columns);
    json_object_set_new(f->header, name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets",
                                  (json_int_t)(f->count * 4), (json_int_t)((f->count + count) * 4)));
    f->count += count;
}

static inline void tensors_put(const char *dir, const char *name, const void *data, size_t size) {
    char path[8192];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        abort();
}

/* Writes the file, and config.json next to it. */
static inline void tensors_finish(tensors_file *f, const char *dir, const char *config) {
    char *header = json_dumps(f->header, JSON_COMPACT);
    const uint64_t bytes = strlen(header);
    unsigned char *all = malloc(8 + bytes + f->count * 4);
    if (!all)
        abort();
    for (int i = 0; i < 8; i++)
        all[i] = (unsigned char)(bytes >> 8 * i);
    memcpy(all + 8, header, bytes);
    memcpy(all + 8 + bytes, f->data, f->count * 4);
    tensors_put(dir, "model.safetensors", all, 8 + bytes + f->count * 4);
    tensors_put(dir, "config.json", config, strlen(config));
    free(all);
    free(header);
    free(f->data);
    json_decref(f->header);
}

#endif
