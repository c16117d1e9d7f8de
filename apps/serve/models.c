/* The models of a server: their metadata. */
#include <libgen.h>
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
    m->token_vectors = status == TFM_OK && embedder.token_vectors;
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
    const tfm_model_options how = serve_model_options(m, o);
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
        if (models->items[i]->task == task)
            return true;
    return false;
}

int serve_model_read(serve_model **out, serve_models *models, size_t index, const serve_options *options) {
    const uint64_t limit = (uint64_t)options->limits.memory << 20;
    serve_model *m = *out = calloc(1, sizeof(*m));
    if (!m)
        return cli_fail("out of memory for %zu models", options->models.count);
    m->index = index;
    m->counters = &models->counters[index];
    const int code = read_one(m, options->models.items[index], options);
    if (code != CLI_OK)
        return code;
    for (size_t i = 0; i < models->count; i++)
        if (i != index && strcmp(models->items[i]->name, m->name) == 0)
            return cli_fail("two models have the name %s, %s and %s: rename one, as in --model NAME=%s", m->name,
                            models->items[i]->dir, m->dir, m->dir);
    if (limit > 0 && m->bytes > limit)
        return cli_fail("%s takes about %llu MiB, more than --memory-limit %d", m->dir,
                        (unsigned long long)(m->bytes >> 20), options->limits.memory);
    return CLI_OK;
}

int serve_models_read(serve_models *models, const serve_options *options, const cli_syntax *syntax) {
    const size_t count = options->models.count;
    if (count == 0)
        return cli_usage_error(syntax, "no model is given: give --model [NAME=]MODEL once per model");
    models->items = calloc(count, sizeof(*models->items));
    models->counters = calloc(count, sizeof(*models->counters));
    if (!models->items || !models->counters)
        return cli_fail("out of memory for %zu models", count);
    while (models->count < count) {
        const size_t i = models->count;
        const int code = serve_model_read(&models->items[i], models, i, options);
        models->count += models->items[i] != NULL;
        if (code != CLI_OK)
            return code;
    }
    if (options->ctx_size && !serves(models, SERVE_GENERATE))
        return cli_fail("--ctx-size is for decoder-only models, and none is served: leave it out");
    if (options->precision.kv && !serves(models, SERVE_GENERATE) && !serves(models, SERVE_TRANSLATE))
        return cli_fail("--kv-precision is for models with a KV cache, and none is served: leave it out");
    return CLI_OK;
}

void serve_model_free(serve_model *m) {
    if (!m)
        return;
    for (int k = 0; k < SERVE_WORKERS; k++)
        serve_model_unload(&m->instances[k]);
    cli_chat_model_free(&m->chat);
    tfm_tokenizer_free(&m->tokenizer);
    free(m);
}

void serve_models_free(serve_models *models) {
    for (size_t i = 0; i < models->count; i++)
        serve_model_free(models->items[i]);
    for (serve_model *m = models->replaced, *next; m; m = next) {
        next = m->next;
        serve_model_free(m);
    }
    free(models->items);
    free(models->counters);
    *models = (serve_models){0};
}

serve_model *serve_model_pair(const serve_models *models, const char *source, const char *target) {
    for (size_t i = 0; i < models->count; i++) {
        serve_model *m = models->items[i];
        if (m->task == SERVE_TRANSLATE && strcmp(m->source, source) == 0 && strcmp(m->target, target) == 0)
            return m;
    }
    return NULL;
}

serve_model *serve_model_named(const serve_models *models, const char *name) {
    for (size_t i = 0; i < models->count; i++)
        if (strcmp(models->items[i]->name, name) == 0)
            return models->items[i];
    return NULL;
}
