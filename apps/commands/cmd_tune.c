/* tfm tune: finds the fastest kernels for this device. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"

typedef struct tune_options {
    const char *device, *model;
    int preset, seconds, precision; /* of PRECISIONS */
    bool preset_given, training, reset, json;
} tune_options;

typedef struct model_sizes {
    int width, heads, feed_forward, vocabulary; /* E, H, F, V */
    int queries, keys;                          /* columns of q, and of k and v each */
    bool writes;                                /* there is a decoder, thus an output projection */
} model_sizes;

typedef struct shape {
    int64_t m, n, k;
    tfm_dtype precision; /* TFM_F32, or of `stored`, else the dtype that operands may be rounded to */
    bool transpose_a, transpose_b, stored;
} shape;

enum { MOST_SHAPES = 128 };
typedef struct shapes {
    shape list[MOST_SHAPES];
    int count;
    tfm_dtype precision; /* besides TFM_F32 */
} shapes;

typedef struct tally {
    int tried, faster, wrong;
    double gain;  /* sum of the logarithms of before / after */
    bool nothing; /* the kernels of this device are not tuned */
} tally;

/* ---- The GEMMs of a model ---- */

static bool same(const shape *x, const shape *y) {
    return x->m == y->m && x->n == y->n && x->k == y->k && x->precision == y->precision &&
           x->transpose_a == y->transpose_a && x->transpose_b == y->transpose_b && x->stored == y->stored;
}

static void add_one(shapes *s, const shape *one) {
    for (int i = 0; i < s->count; i++)
        if (same(&s->list[i], one)) /* several widths may be equal */
            return;
    if (s->count < MOST_SHAPES)
        s->list[s->count++] = *one;
}

/* The fp32 GEMM, whose table row also applies to a 16-bit GEMM without a row, and if requested the 16-bit GEMM: with a
 * 16-bit weight, or in training with fp32 operands rounded to bf16. */
static void add(shapes *s, int64_t m, int64_t n, int64_t k, const char *letters, bool trains) {
    shape one = {.m = m, .n = n, .k = k, .transpose_a = letters[0] == 't', .transpose_b = letters[1] == 't'};
    add_one(s, &one);
    one.precision = s->precision;
    one.stored = !trains;
    if (s->precision == TFM_BF16 || (s->precision == TFM_F16 && !trains))
        add_one(s, &one);
}

/* A layer's GEMM; in training also the gradients of its input and of its weight. */
static void add_layer(shapes *s, int64_t rows, int64_t outputs, int64_t inputs, bool training) {
    add(s, rows, outputs, inputs, "nt", training);
    if (training) {
        add(s, rows, inputs, outputs, "nn", true);
        add(s, outputs, inputs, rows, "tn", true);
    }
}

/* The most noticeable GEMMs come first, since time may run out: decoding steps by number of active rows, the encoder,
 * and training on a batch, which computes logits for some rows at a time. Encoder-only models read batches and short
 * texts. Q, K and V are separate GEMMs. */
static void find_shapes(shapes *s, const model_sizes *model, bool training) {
    enum { BATCH = 2048, LOGITS = 256 };
    static const int64_t DECODING[] = {4, 32, 1, 64}, ENCODING[] = {512, 32, 8};
    const int64_t e = model->width, f = model->feed_forward, v = model->vocabulary, q = model->queries;
    const int64_t layers[][2] = {{q, e}, {e, q}, {model->keys, e}, {f, e}, {e, f}};
    for (size_t i = 0; model->writes && i < CLI_COUNT(DECODING); i++) {
        for (size_t k = 0; k < CLI_COUNT(layers); k++)
            add_layer(s, DECODING[i], layers[k][0], layers[k][1], false);
        add_layer(s, DECODING[i], v, e, false);
    }
    for (size_t i = 0; i < (model->writes ? 1 : CLI_COUNT(ENCODING)); i++)
        for (size_t k = 0; k < CLI_COUNT(layers); k++)
            add_layer(s, ENCODING[i], layers[k][0], layers[k][1], false);
    for (size_t k = 0; training && k < CLI_COUNT(layers); k++)
        add_layer(s, BATCH, layers[k][0], layers[k][1], true);
    if (training && model->writes)
        add_layer(s, LOGITS, v, e, true);
}

static int read_model(model_sizes *model, const tune_options *o) {
    const bench_model *preset = &bench_models[o->preset];
    tfm_model_info info;
    *model = (model_sizes){.width = preset->width,
                           .heads = preset->heads,
                           .feed_forward = preset->feed_forward,
                           .vocabulary = preset->vocabulary,
                           .queries = preset->width,
                           .keys = preset->width,
                           .writes = true};
    if (!o->model)
        return CLI_OK;
    if (tfm_model_read_info(&info, o->model, &(tfm_model_options){.no_tokenizer = true}) != TFM_OK)
        return cli_fail_library();
    const bool writes = info.decoder_layers > 0;
    const int head_width = writes ? info.decoder_head_width : info.encoder_head_width;
    model->width = info.width;
    model->heads = writes ? info.decoder_heads : info.encoder_heads;
    model->feed_forward = writes ? info.decoder_ffn_dim : info.encoder_ffn_dim;
    model->vocabulary = writes ? info.target_vocab_size : 0;
    model->queries = head_width * model->heads;
    model->keys = head_width * (writes ? info.decoder_kv_heads : info.encoder_kv_heads);
    model->writes = writes;
    return CLI_OK;
}

/* ---- Tuning ---- */

static void print_time(double seconds) {
    if (seconds >= 1e-3)
        printf(" %7.2f ms", seconds * 1e3);
    else
        printf(" %7.1f us", seconds * 1e6);
}

/* Rows of 16-bit GEMMs name the dtype, and may have pipeline stages of matrix cores. */
static int name_width(const tune_options *o) {
    return o->precision ? 23 : 17;
}
static int choice_width(const tune_options *o) {
    return o->precision ? 34 : 23;
}

static int print_row(const char *name, const tfm_tune_record *r, const tune_options *o) {
    cli_output out;
    cli_output_open(&out, NULL);
    cli_progress(NULL);
    if (o->json) {
        json_t *line = json_pack("{s:s, s:s, s:f, s:s, s:f, s:i, s:i}", "tune", name, "before", r->baseline, "before_s",
                                 r->baseline_seconds, "after", r->best, "after_s", r->best_seconds, "tried",
                                 r->candidates, "wrong", r->rejected);
        if (r->runner_up[0])
            json_object_update_new(line,
                                   json_pack("{s:s, s:f}", "other", r->runner_up, "other_s", r->runner_up_seconds));
        cli_write_json(&out, line, 7);
    } else {
        printf("%-*s %-13s", name_width(o), name, r->baseline);
        print_time(r->baseline_seconds);
        printf("  %-*s", choice_width(o), r->best);
        print_time(r->best_seconds);
        printf(" %5.2f\n", r->baseline_seconds / r->best_seconds);
    }
    return cli_output_flush(&out); /* the next shape may take its time */
}

static void tally_add(tally *t, const tfm_tune_record *r) {
    t->tried++;
    t->wrong += r->rejected;
    t->faster += strcmp(r->baseline, r->best) != 0;
    if (r->baseline_seconds > 0 && r->best_seconds > 0)
        t->gain += log(r->baseline_seconds / r->best_seconds);
}

static void print_header(const tune_options *o) {
    if (!o->json)
        printf("%-*s %-13s %10s  %-*s %10s %5s\n", name_width(o), "", "before", "", choice_width(o), "after", "",
               "gain");
}

/* Tunes one `shape`, or work-group sizes for NULL. Shapes too large for the device are skipped with a message. */
static int tune_shape(tfm_context *ctx, tally *t, const shape *s, const model_sizes *model, const tune_options *o) {
    tfm_tune_record record;
    char name[64] = "rows";
    if (s)
        snprintf(name, sizeof(name), "%" PRId64 "x%" PRId64 "x%" PRId64 "%c%c%s%s", s->m, s->n, s->k,
                 s->transpose_a ? 't' : 'n', s->transpose_b ? 't' : 'n',
                 s->precision == TFM_F32 ? ""
                 : s->stored             ? " "
                                         : " as ",
                 s->precision == TFM_F32   ? ""
                 : s->precision == TFM_F16 ? "f16"
                                           : "bf16");
    /* Encoder-only models have no logits. */
    const tfm_status status =
        !s ? tfm_tune_workgroups(ctx, &record, model->width, model->writes ? model->vocabulary : model->width)
        : s->precision == TFM_F32 ? tfm_tune_gemm(ctx, &record, s->m, s->n, s->k, s->transpose_a, s->transpose_b)
                                  : tfm_tune_gemm_half(ctx, &record, s->m, s->n, s->k, s->transpose_a, s->transpose_b,
                                                       s->precision, s->stored);
    t->nothing = status == TFM_ERROR_UNSUPPORTED;
    if (t->nothing)
        return CLI_OK;
    if (status == TFM_ERROR_MEMORY) {
        cli_progress(NULL);
        fprintf(stderr, "%s is skipped: %s\n", name, tfm_error_message());
        tfm_context_clear_error(ctx);
        return CLI_OK;
    }
    if (status != TFM_OK)
        return cli_fail_library();
    if (t->tried == 0)
        print_header(o);
    tally_add(t, &record);
    /* Stored at once, so that an interrupted run keeps its results. */
    return tfm_tune_save(ctx) == TFM_OK ? print_row(name, &record, o) : cli_fail_library();
}

static int tune_shapes(tfm_context *ctx, tally *t, const model_sizes *model, const tune_options *o, double end) {
    static const tfm_dtype PRECISIONS[] = {TFM_F32, TFM_F16, TFM_BF16};
    shapes s = {.precision = PRECISIONS[o->precision]};
    find_shapes(&s, model, o->training);
    int code = CLI_OK, i = 0;
    for (; i < s.count && code == CLI_OK && cli_seconds() < end; i++) {
        cli_progress("tune: GEMM %d of %d, at most %.0f s more", i + 1, s.count, end - cli_seconds());
        code = tune_shape(ctx, t, &s.list[i], model, o);
        if (t->nothing)
            return code;
    }
    if (code == CLI_OK && i < s.count)
        fprintf(stderr, "the time was up after %d of %d GEMMs: give more by --seconds %d\n", i, s.count,
                (int)(1.2 * o->seconds * s.count / (i ? i : 1)));
    cli_progress("tune: work-groups of rows");
    return code == CLI_OK && i == s.count ? tune_shape(ctx, t, NULL, model, o) : code;
}

static int tune(tfm_context *ctx, const tune_options *o) {
    model_sizes model;
    tally t = {0};
    const double end = cli_seconds() + o->seconds;
    int code = read_model(&model, o);
    if (code != CLI_OK)
        return code;
    if (tfm_tune_save(ctx) != TFM_OK) /* the cache folder must be writable before tuning */
        return cli_fail_library();
    code = tune_shapes(ctx, &t, &model, o, end);
    if (code != CLI_OK)
        return code;
    if (t.tried == 0 && t.nothing) {
        fputs("there is nothing to tune: the kernels of this device follow from its vector width\n", stderr);
        return CLI_OK;
    }
    fflush(stdout); /* the table comes before the summary */
    fprintf(stderr, "%d of %d are faster by the table, all of them by %.2f on average; %s for this device and driver\n",
            t.faster, t.tried, exp(t.gain / (t.tried ? t.tried : 1)),
            t.faster ? "it is stored" : "nothing new is stored");
    if (t.wrong > 0)
        fprintf(stderr, "%d candidate%s wrong or failed on this device, and %s not used: TFM_LOG=info names %s\n",
                t.wrong, t.wrong == 1 ? " was" : "s were", t.wrong == 1 ? "is" : "are", t.wrong == 1 ? "it" : "them");
    return CLI_OK;
}

static int reset(tfm_context *ctx) {
    tfm_tune_clear(ctx);
    if (tfm_tune_save(ctx) != TFM_OK)
        return cli_fail_library();
    fprintf(stderr, "the tuning table and the kernel validation results of %s are removed\n",
            tfm_context_device(ctx)->name);
    return CLI_OK;
}

int cmd_tune(int argc, char **argv) {
    tune_options o = {.preset = 2, .seconds = 120};
    const cli_option options[] = {
        CLI_DEVICE(&o.device),
        {'m', "model", CLI_STRING, &o.model, "MODEL", "tune for the sizes of this model instead of a preset's", NULL},
        {0, "preset", CLI_CHOICE, &o.preset, "tiny|small|base|big", "tune for these sizes (default base)",
         &o.preset_given},
        {0, "precision", CLI_CHOICE, &o.precision, "fp32|fp16|bf16",
         "also tune GEMMs with weights of this dtype, including matrix cores; with --training also bf16 training "
         "(default fp32)",
         NULL},
        {0, "training", CLI_FLAG, &o.training, NULL, "also tune the GEMMs of training", NULL},
        {0, "seconds", CLI_POSITIVE, &o.seconds, "N", "start no new shape after this time (default 120)", NULL},
        {0, "reset", CLI_FLAG, &o.reset, NULL,
         "remove this device's table and its stored kernel validation results, without tuning", NULL},
        {0, "json", CLI_FLAG, &o.json, NULL, "write a JSON object for each line of the table instead", NULL},
    };
    const cli_syntax syntax = {
        .name = "tune",
        .usage = "tune [-m MODEL | --preset NAME] [--precision fp16|bf16] [option...]",
        .about = "Tunes this device: tile sizes and split-K of GEMM, CLBlast or tfm's own\n"
                 "kernels, matrix cores for 16-bit GEMM (--precision), and work-group sizes.\n"
                 "A candidate that is faster in two measurements and validated against the\n"
                 "reference kernel is stored at once in a table in the cache folder, for this\n"
                 "device and driver. Every command uses the table. Results are reproducible as\n"
                 "long as the table does not change. Shapes tuned before stay in it.\n"
                 "A GEMM MxNxK is followed by two letters for transposed a and b, then by f16 or\n"
                 "bf16 if b has that dtype, or by \"as bf16\" if fp32 operands are rounded to it.\n"
                 "CPU-style devices have nothing to tune.\n",
        .examples = "  tfm tune\n  tfm tune --device nvidia -m apps/demo\n  tfm tune --preset small --training\n"
                    "  tfm tune --precision bf16\n  tfm tune --reset\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_CONTINUE)
        return code;
    if (o.model && o.preset_given)
        return cli_usage_error(&syntax, "-m and --preset do not go together: give one");
    tfm_context *ctx = NULL;
    cli_catch_signals();
    if (tfm_context_open(&ctx, &(tfm_context_options){.device = o.device, .on_build = cli_on_build}) != TFM_OK)
        return cli_fail_library();
    cli_print_device(ctx, tfm_context_variant(ctx));
    code = o.reset ? reset(ctx) : tune(ctx, &o);
    tfm_context_free(&ctx);
    return code;
}
