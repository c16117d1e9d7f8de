/* SIGHUP: models and keys are read again. Requests in progress end with the models that they began with. */
#include <stdlib.h>
#include <string.h>
#include "serve/server.h"

/* ---- Models ----------------------------------------------------------------------------------------------------- */

void serve_models_free_replaced(server *s) {
    serve_model *unused = NULL;
    pthread_mutex_lock(&s->lock);
    for (serve_model **at = &s->models.replaced; *at;) {
        serve_model *m = *at;
        if (atomic_load(&m->users) > 0) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        m->next = unused;
        unused = m;
    }
    pthread_mutex_unlock(&s->lock);
    for (serve_model *next; unused; unused = next) {
        next = unused->next;
        serve_model_free(unused);
    }
}

/* The model of --model `index`, opened if the old one is; NULL after a message. */
static serve_model *open_again(server *s, size_t index) {
    serve_model *old = s->models.items[index], *fresh;
    bool good = serve_model_read(&fresh, &s->models, index, s->options) == CLI_OK;
    if (good && (strcmp(fresh->name, old->name) != 0 || fresh->task != old->task)) {
        cli_fail("%s is now a model of another task or named %s: restart the server", fresh->dir, fresh->name);
        good = false;
    }
    const bool opens = good && (s->options->preload || serve_model_loaded(old) > 0);
    if (opens && serve_model_open(s, fresh, &fresh->instances[0]) != TFM_OK) {
        cli_fail_library();
        good = false;
    }
    if (good)
        return fresh;
    serve_model_free(fresh);
    return NULL;
}

/* Serves the model instead of that of its index. Only workers with the old one open take its jobs. */
static void replace(server *s, serve_model *fresh) {
    pthread_mutex_lock(&s->http);
    pthread_mutex_lock(&s->lock);
    serve_model *old = s->models.items[fresh->index];
    const int loaded = serve_model_loaded(old);
    s->models.items[fresh->index] = fresh;
    old->workers = loaded > 0 ? loaded : 1;
    old->next = s->models.replaced;
    s->models.replaced = old;
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_unlock(&s->http);
}

/* ---- Keys ------------------------------------------------------------------------------------------------------- */

/* Reads the keys again. A key that stays keeps its count of requests. */
static bool read_keys(server *s) {
    serve_options *o = s->options;
    serve_keys keys = {0}, old = o->keys;
    const bool good = serve_keys_read(&keys, &o->given_keys, o->keys_file) == CLI_OK;
    if (good) {
        pthread_mutex_lock(&s->http);
        old = o->keys;
        for (size_t i = 0; i < keys.count; i++)
            for (size_t k = 0; k < old.count; k++)
                if (strcmp(keys.items[i].text, old.items[k].text) == 0) {
                    keys.items[i].left = old.items[k].left;
                    keys.items[i].since = old.items[k].since;
                }
        o->keys = keys;
        pthread_mutex_unlock(&s->http);
    }
    serve_keys_free(good ? &old : &keys);
    return good;
}

/* ---- All -------------------------------------------------------------------------------------------------------- */

void serve_reload(server *s) {
    char *text = NULL;
    size_t bytes = 0, opened = 0;
    FILE *out = open_memstream(&text, &bytes);
    const bool keys = !s->options->keys_file || read_keys(s);
    for (size_t i = 0; i < s->models.count; i++) {
        serve_model *fresh = open_again(s, i);
        if (fresh)
            replace(s, fresh);
        if (fresh && out)
            fprintf(out, "%s%s", opened > 0 ? ", " : "", fresh->name);
        opened += fresh != NULL;
    }
    if (out)
        fclose(out);
    if (text)
        fprintf(stderr, "tfm: opened again: %s%s\n", opened > 0 ? text : "no model",
                opened == s->models.count && keys ? "" : "; the rest stays as it was");
    free(text);
}
