/* Translated files, in memory until they expire. A client that knows the random name of one may download the file. */
#include <stdlib.h>
#include <string.h>
#include "serve/server.h"

/* Maximum bytes of all: the oldest are deleted for new ones. */
enum { MOST_BYTES = 64 << 20 };

struct serve_file {
    char name[SERVE_FILE_NAME];
    double since;
    struct serve_file *next; /* newer */
    size_t bytes;
    char text[];
};

static void delete_oldest(server *s) {
    serve_file *oldest = s->files;
    s->files = oldest->next;
    s->file_bytes -= oldest->bytes;
    free(oldest);
}

bool serve_files_add(server *s, char name[SERVE_FILE_NAME], const char *end, const char *start, const char *text) {
    const size_t before = strlen(start), bytes = before + strlen(text);
    serve_file *file = malloc(sizeof(*file) + bytes), **last = &s->files;
    char random[SERVE_RANDOM];
    if (!file || !serve_random_hex(random)) {
        free(file);
        return false;
    }
    *file = (serve_file){.since = cli_seconds(), .bytes = bytes};
    snprintf(file->name, sizeof(file->name), "%s%s", random, end);
    memcpy(name, file->name, sizeof(file->name));
    memcpy(file->text, start, before);
    memcpy(file->text + before, text, bytes - before);
    pthread_mutex_lock(&s->lock);
    while (s->files && s->file_bytes + bytes > MOST_BYTES)
        delete_oldest(s);
    while (*last)
        last = &(*last)->next;
    *last = file;
    s->file_bytes += bytes;
    pthread_mutex_unlock(&s->lock);
    return true;
}

serve_files_result serve_files_copy(server *s, const char *name, char **text, size_t *bytes) {
    serve_files_result result = SERVE_FILE_ABSENT;
    pthread_mutex_lock(&s->lock);
    const serve_file *file = s->files;
    while (file && strcmp(file->name, name) != 0)
        file = file->next;
    if (file) {
        *bytes = file->bytes;
        *text = malloc(file->bytes + 1);
        if (*text)
            memcpy(*text, file->text, file->bytes);
        result = *text ? SERVE_FILE_FOUND : SERVE_FILE_NO_MEMORY;
    }
    pthread_mutex_unlock(&s->lock);
    return result;
}

void serve_files_expire(server *s, double seconds) {
    const double now = cli_seconds();
    pthread_mutex_lock(&s->lock);
    while (s->files && now - s->files->since >= seconds)
        delete_oldest(s);
    pthread_mutex_unlock(&s->lock);
}
