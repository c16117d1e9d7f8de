/* The models of a server: their metadata, loading and unloading. */
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "serve/server.h"

/* ---- Metadata -------------------------------------------------------------------------------------------------- */

static bool is_code(const char *text, size_t length) {
    if (length < 2 || length >= SERVE_CODE)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!(text[i] >= 'a' && text[i] <= 'z') && !(text[i] >= 'A' && text[i] <= 'Z') && text[i] != '_')
            return false;
    return true;
}

/* "de-en" to its two codes. */
static bool read_pair(serve_model *m, const char *text) {
    const char *dash = strchr(text, '-');
    if (!dash || !is_code(text, (size_t)(dash - text)) || !is_code(dash + 1, strlen(dash + 1)))
        return false;
    snprintf(m->source, sizeof(m->source), "%.*s", (int)(dash - text), text);
    snprintf(m->target, sizeof(m->target), "%s", dash + 1);
    return true;
}

/* The languages of a translation model: from its name or its directory. */
static int read_languages(serve_model *m, bool named) {
    tfm_tokenizer *tokenizer = NULL;
    if (tfm_tokenizer_open(&tokenizer, m->dir) != TFM_OK)
        return cli_fail_library();
    const char *source = tfm_tokenizer_language(tokenizer, TFM_SOURCE);
    const char *target = tfm_tokenizer_language(tokenizer, TFM_TARGET);
    int code = CLI_OK;
    if (named && !read_pair(m, m->name))
        code = cli_fail("--model %s=%s: this model translates, so its name is two languages, as in de-en=%s", m->name,
                        m->dir, m->dir);
    else if (!named && (!source || !target))
        code = cli_fail("--model %s: its tokenizer_config.json has no languages: give them, as in --model de-en=%s",
                        m->dir, m->dir);
    else if (!named) {
        snprintf(m->source, sizeof(m->source), "%s", source);
        snprintf(m->target, sizeof(m->target), "%s", target);
    }
    snprintf(m->name, sizeof(m->name), "%.*s-%.*s", (int)sizeof(m->source) - 2, m->source, (int)sizeof(m->target) - 2,
             m->target);
    m->says_source = tfm_tokenizer_language_id(tokenizer, m->source) >= 0;
    m->says_target = tfm_tokenizer_language_id(tokenizer, m->target) >= 0;
    tfm_tokenizer_free(&tokenizer);
    return code;
}

/* The last part of a path. */
static void name_of(char *out, size_t bytes, const char *dir) {
    char *copy = strdup(dir);
    snprintf(out, bytes, "%.*s", (int)bytes - 1, copy ? basename(copy) : dir);
    free(copy);
}

/* Reads the directory, and the embedding width of encoders and decoder-only models; a sentence-transformers directory
 * is for embeddings only. */
static tfm_status read_info(tfm_model_info *info, serve_model *m) {
    char path[4096];
    tfm_embedder_info embedder = {0};
    tfm_rerank_kind kind;
    tfm_status status = tfm_rerank_read_kind(&kind, m->dir);
    if (status != TFM_OK)
        return status;
    snprintf(path, sizeof(path), "%s/modules.json", m->dir);
    const bool has_modules = access(path, F_OK) == 0, modules = has_modules && kind == TFM_RERANK_EMBEDDER;
    status = modules ? tfm_embedder_read_info(&embedder, info, m->dir, NULL) : tfm_model_read_info(info, m->dir, NULL);
    if (status != TFM_OK)
        return status;
    m->task = modules || strcmp(info->kind, "encoder") == 0 ? SERVE_EMBED
              : strcmp(info->kind, "decoder") == 0          ? SERVE_GENERATE
                                                            : SERVE_TRANSLATE;
    m->rerank = kind;
    if (!has_modules && m->task != SERVE_TRANSLATE) /* a reranker with modules.json computes no embeddings */
        status = tfm_embedder_read_info(&embedder, info, m->dir, &(tfm_embedder_options){.no_tokenizer = true});
    m->width = status == TFM_OK ? embedder.width : 0;
    m->positions = embedder.max_tokens;
    m->vocabulary = info->encoder_layers ? info->source_vocab_size : info->target_vocab_size;
    return m->task == SERVE_GENERATE ? TFM_OK : status;
}

/* A decoder-only model's tokenizer, chat template and sizes. */
static int read_generator(serve_model *m, const tfm_model_info *info) {
    m->positions = info->max_positions;
    if (tfm_tokenizer_open(&m->tokenizer, m->dir) != TFM_OK)
        return cli_fail_library();
    const int code = cli_chat_model_open(&m->chat, m->dir);
    return code == CLI_OK ? cli_chat_model_find_ends(&m->chat, m->tokenizer, info->eos_id) : code;
}

/* Embeddings have no KV cache, and translations no context size. */
static tfm_model_options options_of(const serve_model *m, const serve_options *o) {
    tfm_model_options how = {.ctx_size = m->task == SERVE_GENERATE ? o->ctx_size : 0};
    cli_set_precision(&how, o->precision);
    if (m->task == SERVE_EMBED)
        how.kv_precision = TFM_PRECISION_AUTO;
    return how;
}

static int read_one(serve_model *m, const char *text, const serve_options *o) {
    tfm_model_info info;
    const char *equals = strchr(text, '=');
    const bool named = equals && equals > text && (size_t)(equals - text) < sizeof(m->name);
    m->dir = named ? equals + 1 : text;
    if (named)
        snprintf(m->name, sizeof(m->name), "%.*s", (int)(equals - text), text);
    else
        name_of(m->name, sizeof(m->name), m->dir);
    const int code = cli_find_model(&m->dir);
    if (code != CLI_CONTINUE)
        return code;
    if (read_info(&info, m) != TFM_OK)
        return cli_fail_library();
    const tfm_model_options how = options_of(m, o);
    if ((how.kv_precision || how.ctx_size) && tfm_model_read_info(&info, m->dir, &how) != TFM_OK)
        return cli_fail_library();
    m->bytes = info.estimated_bytes;
    m->workers = 1;
    return m->task == SERVE_TRANSLATE  ? read_languages(m, named)
           : m->task == SERVE_GENERATE ? read_generator(m, &info)
                                       : CLI_OK;
}

static bool serves(const serve_models *models, serve_task task) {
    for (size_t i = 0; i < models->count; i++)
        if (models->items[i].task == task)
            return true;
    return false;
}

int serve_models_read(serve_models *models, const serve_options *options, const cli_syntax *syntax) {
    const uint64_t limit = (uint64_t)options->limits.memory << 20;
    if (options->models.count == 0)
        return cli_usage_error(syntax, "no model is given: give --model [NAME=]MODEL once per model");
    models->items = calloc(options->models.count, sizeof(*models->items));
    if (!models->items)
        return cli_fail("out of memory for %zu models", options->models.count);
    while (models->count < options->models.count) {
        serve_model *m = &models->items[models->count];
        const int code = read_one(m, options->models.items[models->count++], options);
        if (code != CLI_OK)
            return code;
        for (size_t i = 0; i + 1 < models->count; i++)
            if (strcmp(models->items[i].name, m->name) == 0)
                return cli_fail("two models have the name %s, %s and %s: rename one, as in --model NAME=%s", m->name,
                                models->items[i].dir, m->dir, m->dir);
        if (limit > 0 && m->bytes > limit)
            return cli_fail("%s takes about %llu MiB, more than --memory-limit %d", m->dir,
                            (unsigned long long)(m->bytes >> 20), options->limits.memory);
    }
    if (options->ctx_size && !serves(models, SERVE_GENERATE))
        return cli_fail("--ctx-size is for decoder-only models, and none is served: leave it out");
    if (options->precision.kv && !serves(models, SERVE_GENERATE) && !serves(models, SERVE_TRANSLATE))
        return cli_fail("--kv-precision is for models with a KV cache, and none is served: leave it out");
    return CLI_OK;
}

void serve_models_free(serve_models *models) {
    for (size_t i = 0; i < models->count; i++) {
        for (int k = 0; k < SERVE_WORKERS; k++)
            serve_model_unload(&models->items[i].instances[k]);
        cli_chat_model_free(&models->items[i].chat);
        tfm_tokenizer_free(&models->items[i].tokenizer);
    }
    free(models->items);
    *models = (serve_models){0};
}

serve_model *serve_model_pair(const serve_models *models, const char *source, const char *target) {
    for (size_t i = 0; i < models->count; i++) {
        serve_model *m = &models->items[i];
        if (m->task == SERVE_TRANSLATE && strcmp(m->source, source) == 0 && strcmp(m->target, target) == 0)
            return m;
    }
    return NULL;
}

serve_model *serve_model_named(const serve_models *models, const char *name) {
    for (size_t i = 0; i < models->count; i++)
        if (strcmp(models->items[i].name, name) == 0)
            return &models->items[i];
    return NULL;
}

/* ---- Loading --------------------------------------------------------------------------------------------------- */

void serve_model_unload(serve_instance *instance) {
    tfm_engine_free(&instance->engine);
    if (instance->embedder)
        instance->model = NULL; /* the embedder's */
    tfm_model_free(&instance->model);
    tfm_embedder_free(&instance->embedder);
    tfm_fleet_free(&instance->fleet);
    atomic_store(&instance->loaded, false);
}

void serve_instance_name(char *out, size_t bytes, const serve_instance *instance) {
    const tfm_fleet_member *member;
    size_t used = 0;
    *out = 0;
    for (size_t i = 0; (member = tfm_fleet_get_member(instance->fleet, i)) && used < bytes; i++)
        if (!member->dropped)
            used += (size_t)snprintf(out + used, bytes - used, "%s%s", used ? ", " : "",
                                     tfm_context_device(member->context)->name);
}

bool serve_instance_failed(const serve_instance *instance) {
    const tfm_fleet_member *member;
    for (size_t i = 0; (member = tfm_fleet_get_member(instance->fleet, i)); i++)
        if (!member->dropped && tfm_context_status(member->context) != TFM_OK)
            return true;
    return false;
}

double serve_instance_build_seconds(const serve_instance *instance) {
    return cli_build_seconds(instance->fleet);
}

unsigned long long serve_instance_memory(const serve_instance *instance) {
    const tfm_fleet_member *member;
    unsigned long long all = 0;
    for (size_t i = 0; (member = tfm_fleet_get_member(instance->fleet, i)); i++)
        all += member->context ? tfm_context_peak_memory(member->context) : 0;
    return all;
}

int serve_model_loaded(serve_model *model) {
    int workers = 0;
    for (int i = 0; i < SERVE_WORKERS; i++)
        workers += atomic_load(&model->instances[i].loaded);
    return workers;
}

unsigned long long serve_model_memory(serve_model *model) {
    unsigned long long all = 0;
    for (int i = 0; i < SERVE_WORKERS; i++)
        all += atomic_load(&model->instances[i].loaded) ? atomic_load(&model->instances[i].memory) : 0;
    return all;
}

/* Seconds until the model has been unused for too long. */
static double idle_in(const serve_worker *w, const serve_model *model) {
    const serve_instance *instance = &model->instances[w->number];
    const int limit = w->server->options->limits.idle_seconds;
    return limit && instance->fleet ? instance->used_at + limit - cli_seconds() : (double)INFINITY;
}

double serve_models_idle_in(const serve_worker *w) {
    double least = (double)INFINITY;
    for (size_t i = 0; i < w->server->models.count; i++)
        least = fmin(least, idle_in(w, &w->server->models.items[i]));
    return least;
}

void serve_models_unload_idle(const serve_worker *w) {
    for (size_t i = 0; i < w->server->models.count; i++) {
        serve_model *m = &w->server->models.items[i];
        if (idle_in(w, m) > 0)
            continue;
        serve_model_unload(&m->instances[w->number]);
        if (!serve_model_loaded(m))
            atomic_fetch_add(&w->server->counters.drops, 1);
    }
}

/* Unloads the least recently used models until there is enough memory. */
static void make_room(server *s, const serve_model *model) {
    const uint64_t limit = (uint64_t)s->options->limits.memory << 20;
    while (limit > 0) {
        uint64_t held = model->bytes;
        serve_model *oldest = NULL;
        for (size_t i = 0; i < s->models.count; i++) {
            serve_model *m = &s->models.items[i];
            if (!m->instances[0].fleet || m == model)
                continue;
            held += m->bytes;
            oldest = !oldest || m->used < oldest->used ? m : oldest;
        }
        if (held <= limit || !oldest)
            return;
        serve_model_unload(&oldest->instances[0]);
        atomic_fetch_add(&s->counters.drops, 1);
    }
}

tfm_status serve_model_acquire(const serve_worker *w, serve_model *model) {
    server *s = w->server;
    serve_instance *instance = &model->instances[w->number];
    if (s->options->limits.memory) /* with a memory limit there is one worker */
        model->used = ++s->models.clock;
    if (instance->fleet)
        return TFM_OK;
    make_room(s, model);
    const bool several = s->devices > 1;
    const tfm_model_options how = options_of(model, s->options);
    tfm_status status = cli_open_fleet(&instance->fleet, s->options->device, several ? s->options->workers : 1);
    if (status == TFM_OK && model->width > 0) { /* a decoder-only model also generates text */
        status = tfm_fleet_open_embedder(&instance->embedder, instance->fleet, model->dir,
                                         &(tfm_embedder_options){.precision = how.precision,
                                                                 .activation_precision = how.activation_precision,
                                                                 .kv_precision = how.kv_precision,
                                                                 .ctx_size = how.ctx_size});
        instance->model = status == TFM_OK ? tfm_embedder_model(instance->embedder) : NULL;
    } else if (status == TFM_OK) {
        status = tfm_fleet_open_model(&instance->model, instance->fleet, model->dir, &how);
    }
    cli_progress(NULL);
    if (status != TFM_OK) {
        serve_model_unload(instance);
        return status;
    }
    if (!serve_model_loaded(model))
        atomic_fetch_add(&s->counters.loads, 1);
    instance->used_at = cli_seconds();
    atomic_store(&instance->loaded, true);
    atomic_store(&model->opened, true);
    const int usual = model->task == SERVE_GENERATE ? 1 : tfm_model_workers(instance->model); /* a batch of all texts */
    const int workers = s->options->workers ? s->options->workers : usual;
    serve_queue_set_workers(s, model, several ? 1 : workers);
    return TFM_OK;
}
