/* tfm quantize --check: compares a quantized model with its original in fp32. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "commands/quantize_check.h"

/* Elements of the logits of one line in memory, for each of the two models; lines are truncated to fit. */
enum { LOGITS = 16 << 20, TOKENS = 512 };

typedef struct check {
    const char *names[2]; /* original, quantized */
    tfm_model_options how[2];
    tfm_fleet *fleet;
    tfm_model *models[2];
    cli_lines lines;
    /* sums of a decoder-only model over positions */
    float *logits[2];
    double nll[2], kl;
    uint64_t tokens, equal;
} check;

/* ---- Decoder-only models: next-token distributions --------------------------------------------------------------- */

/* log sum exp of a row; `best` is the index of its maximum. */
static double log_sum(const float *row, int64_t count, int64_t *best) {
    double sum = 0;
    *best = 0;
    for (int64_t i = 1; i < count; i++)
        *best = row[i] > row[*best] ? i : *best;
    for (int64_t i = 0; i < count; i++)
        sum += exp((double)row[i] - (double)row[*best]);
    return (double)row[*best] + log(sum);
}

/* Adds a position: D(p || q) = sum p (log p - log q), p of the original. Logits of -inf, of masked tokens, add 0. */
static void add_position(check *c, const float *p, const float *q, int64_t count, int32_t next) {
    int64_t p_best, q_best;
    const double p_sum = log_sum(p, count, &p_best), q_sum = log_sum(q, count, &q_best);
    for (int64_t i = 0; i < count; i++) {
        const double log_p = (double)p[i] - p_sum, log_q = (double)q[i] - q_sum;
        c->kl += log_p > -DBL_MAX && log_q > -DBL_MAX ? exp(log_p) * (log_p - log_q) : 0;
    }
    c->nll[0] -= (double)p[next] - p_sum;
    c->nll[1] -= (double)q[next] - q_sum;
    c->equal += p_best == q_best;
    c->tokens++;
}

/* Next-token logits of `count` ids. */
static tfm_status read_logits(tfm_model *model, float *out, const int32_t *ids, int64_t count) {
    tfm_context *ctx = tfm_model_context(model);
    tfm_tensor input = {0}, logits = {0};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &input, TFM_I32, 2, (int64_t[]){1, count});
    tfm_tensor_write(ctx, input, ids);
    tfm_model_decode(model, &logits, input, (tfm_tensor){0}, (tfm_tensor){0});
    tfm_tensor_read(ctx, out, logits);
    return tfm_scope_close(ctx, 0, NULL);
}

static tfm_status add_line(check *c, const char *text, size_t bytes) {
    const tfm_model_info *info = tfm_model_get_info(c->models[0]);
    const int64_t width = info->target_vocab_size, most = LOGITS / width < TOKENS ? LOGITS / width : TOKENS;
    int32_t *ids = NULL;
    size_t count;
    tfm_status status = tfm_tokenizer_encode(tfm_model_tokenizer(c->models[0]), &ids, &count, TFM_TARGET, text, bytes);
    int64_t n = (int64_t)count < most ? (int64_t)count : most;
    n = n < info->max_positions ? n : info->max_positions;
    for (int i = 0; i < 2 && n > 1 && status == TFM_OK; i++)
        status = read_logits(c->models[i], c->logits[i], ids, n);
    for (int64_t t = 0; t + 1 < n && status == TFM_OK; t++)
        add_position(c, c->logits[0] + t * width, c->logits[1] + t * width, width, ids[t + 1]);
    tfm_ids_free(&ids);
    return status;
}

static int check_decoder(check *c) {
    for (int i = 0; i < 2; i++)
        if (!(c->logits[i] = malloc((LOGITS + (size_t)tfm_model_get_info(c->models[0])->target_vocab_size) *
                                    sizeof(*c->logits[i]))))
            return cli_fail("out of memory");
    for (size_t i = 0; i < c->lines.count; i++) {
        if (add_line(c, c->lines.text[i], c->lines.bytes[i]) != TFM_OK)
            return cli_fail("%s, line %zu: %s", c->lines.name, i + 1, tfm_error_message());
        cli_progress("%zu of %zu lines", i + 1, c->lines.count);
    }
    cli_progress(NULL);
    if (c->tokens == 0)
        return cli_fail("%s has no tokens to compare", c->lines.name);
    const double n = (double)c->tokens, before = exp(c->nll[0] / n), after = exp(c->nll[1] / n);
    printf("compared with fp32   on %llu tokens of %s\n", (unsigned long long)c->tokens, c->lines.name);
    printf("perplexity           %.3f, fp32 %.3f (%+.2f %%)\n", after, before, 100 * (after / before - 1));
    printf("mean KL divergence   %.5f\n", c->kl / n);
    printf("equal top-1 token    %.1f %%\n", 100 * (double)c->equal / n);
    return CLI_OK;
}

/* ---- Encoder-decoders: translations ------------------------------------------------------------------------------ */

typedef struct translations {
    char **text; /* [count], owned: of the original */
    tfm_metrics *metrics;
    size_t equal;
    bool failed;
} translations;

static bool keep_text(void *user, size_t line, int rank, const char *text, double score) {
    translations *t = user;
    (void)rank, (void)score;
    t->text[line] = strdup(text);
    return !(t->failed = !t->text[line]);
}

static bool compare_text(void *user, size_t line, int rank, const char *text, double score) {
    translations *t = user;
    (void)rank, (void)score;
    t->equal += strcmp(text, t->text[line]) == 0;
    return !(t->failed =
                 tfm_metrics_add(t->metrics, text, strlen(text), t->text[line], strlen(t->text[line])) != TFM_OK);
}

static int check_translations(check *c) {
    const tfm_emit_fn emit[] = {keep_text, compare_text};
    translations t = {.text = calloc(c->lines.count, sizeof(*t.text))};
    tfm_status status = t.text ? tfm_metrics_new(&t.metrics, NULL) : TFM_ERROR_MEMORY;
    for (int i = 0; i < 2 && status == TFM_OK; i++)
        status = tfm_translate(c->models[i], c->lines.text, c->lines.count, NULL, emit[i], &t);
    if (status == TFM_OK) {
        printf("compared with fp32   on %zu lines of %s\n", c->lines.count, c->lines.name);
        printf("BLEU                 %.2f of its translations against those of fp32\n",
               tfm_metrics_bleu(t.metrics).score);
        printf("equal translations   %.1f %%\n", 100 * (double)t.equal / (double)c->lines.count);
    }
    for (size_t i = 0; t.text && i < c->lines.count; i++)
        free(t.text[i]);
    free(t.text);
    tfm_metrics_free(&t.metrics);
    return status == TFM_OK ? CLI_OK : t.failed ? cli_fail("out of memory") : cli_fail_library();
}

static int check_generated(check *c) {
    for (int i = 0; i < 2; i++)
        if (tfm_fleet_open_model(&c->models[i], c->fleet, c->names[i], &c->how[i]) != TFM_OK)
            return cli_fail_library();
    return strcmp(tfm_model_get_info(c->models[0])->kind, "decoder") == 0 ? check_decoder(c) : check_translations(c);
}

/* ---- Encoders: embeddings ---------------------------------------------------------------------------------------- */

static double cosine(const float *a, const float *b, size_t width) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < width; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

static int check_embeddings(check *c) {
    tfm_embedder *embedder = NULL;
    float *vectors[2] = {NULL, NULL};
    size_t width = 0;
    double sum = 0, least = 1;
    tfm_status status = TFM_OK;
    for (int i = 0; i < 2 && status == TFM_OK; i++) {
        status =
            tfm_fleet_open_embedder(&embedder, c->fleet, c->names[i],
                                    &(tfm_embedder_options){.precision = c->how[i].precision,
                                                            .activation_precision = c->how[i].activation_precision});
        if (status == TFM_OK)
            width = (size_t)tfm_embedder_get_info(embedder)->width;
        if (status == TFM_OK && !(vectors[i] = calloc(c->lines.count * width, sizeof(*vectors[i]))))
            status = TFM_ERROR_MEMORY;
        if (status == TFM_OK)
            status = tfm_embed(embedder, vectors[i], c->lines.text, c->lines.count,
                               &(tfm_embed_options){.line_bytes = c->lines.bytes});
        tfm_embedder_free(&embedder);
    }
    for (size_t i = 0; i < c->lines.count && status == TFM_OK; i++) {
        const double similarity = cosine(vectors[0] + i * width, vectors[1] + i * width, width);
        sum += similarity;
        least = similarity < least ? similarity : least;
    }
    free(vectors[0]);
    free(vectors[1]);
    if (status != TFM_OK)
        return cli_fail_library();
    printf("compared with fp32   on %zu lines of %s\n", c->lines.count, c->lines.name);
    printf("cosine similarity    %.5f on average, at least %.5f\n", sum / (double)c->lines.count, least);
    return CLI_OK;
}

int quantize_check(const char *original, const char *quantized, const tfm_model_options *how, const char *text_file,
                   const char *device) {
    check c = {.names = {original, quantized}, .how = {{.precision = TFM_PRECISION_FP32}, *how}};
    tfm_model_info info;
    int code = cli_lines_read_all(&c.lines, "--check", text_file);
    if (code == CLI_OK && c.lines.count == 0)
        code = cli_fail("%s has no lines to compare", c.lines.name);
    for (size_t i = 0; i < c.lines.count && code == CLI_OK; i++)
        if (tfm_text_check(c.lines.text[i], c.lines.bytes[i]) != TFM_OK)
            code = cli_fail("%s, line %zu: %s", c.lines.name, i + 1, tfm_error_message());
    if (code == CLI_OK && cli_open_fleet(&c.fleet, device, 1) != TFM_OK)
        code = cli_fail_library();
    if (code == CLI_OK) {
        const bool opens = tfm_model_read_info(&info, original, &(tfm_model_options){.no_tokenizer = true}) == TFM_OK;
        code = opens && strcmp(info.kind, "encoder") != 0 ? check_generated(&c) : check_embeddings(&c);
    }
    for (int i = 0; i < 2; i++) {
        free(c.logits[i]);
        tfm_model_free(&c.models[i]);
    }
    tfm_fleet_free(&c.fleet);
    cli_lines_close(&c.lines);
    return code;
}
