/* Runs the self-test of every op, forward and backward, for races.sh, which uses oclgrind: with the device profile
 * `gpu`, and with each kind of emulated MMA; also generation, whose kernels do not belong to ops. races NAME... ops,
 * kinds of MMA, "rows-8" of attention, and "search" races                  lists these names
 *
 * Gradients and generated texts are computed but not checked: other tests do that. Prints a line for each check. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "dev/device/context_internal.h"
#include "model/weights/shortlist.h"
#include "model/core/model.h"
#include "support/model_shapes.h"
#include "op_list.h"
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"
#include "support/shortlist_file.h"

#define DECLARE(op) extern const tfm__check_entry tfm__selftest_##op[];
#define NAME(op) tfm__selftest_##op,
TFM__OPS(DECLARE)
#define QUOTED(op) #op,
static const tfm__check_entry *const OPS[] = {TFM__OPS(NAME)};
static const char *const NAMES[] = {TFM__OPS(QUOTED)};
static const struct {
    const char *name;
    tfm__mma mma;
    tfm_dtype inputs;
} MMA_KINDS[] = {{"mma-f16", TFM__MMA_M16N8K16, TFM_F16},     {"mma-bf16", TFM__MMA_M16N8K16, TFM_BF16},
                 {"mma_8-f16", TFM__MMA_M16N8K8, TFM_F16},    {"wmma-f16", TFM__MMA_WMMA, TFM_F16},
                 {"wmma-bf16", TFM__MMA_WMMA, TFM_BF16},      {"mfma-f16", TFM__MMA_MFMA, TFM_F16},
                 {"mfma-bf16", TFM__MMA_MFMA, TFM_BF16},      {"dpas-f16", TFM__MMA_DPAS_8, TFM_F16},
                 {"dpas-bf16", TFM__MMA_DPAS_8, TFM_BF16},    {"dpas_16-f16", TFM__MMA_DPAS_16, TFM_F16},
                 {"dpas_16-bf16", TFM__MMA_DPAS_16, TFM_BF16}};

static int failed, backwards, ran, skipped;

static bool is_mma(const tfm__check_entry *entry) {
    return strncmp(entry->form, "gpu-mma", 7) == 0;
}

/* The linker wraps these two functions of the checks (meson.build): every input is watched, and a compared result is
 * propagated backward. */
tfm_tensor __real_tfm__check_random(tfm__check *c, void *host, tfm_dtype dtype, int rank, const int64_t *dims,
                                    int below);
tfm_tensor __wrap_tfm__check_random(tfm__check *c, void *host, tfm_dtype dtype, int rank, const int64_t *dims,
                                    int below);
void __real_tfm__check_compare(tfm__check *c, tfm_tensor got, const double *want);
void __wrap_tfm__check_compare(tfm__check *c, tfm_tensor got, const double *want);

/* Random numbers independent of the check's own. */
static tfm_tensor numbers(tfm_context *ctx, int rank, const int64_t *dims) {
    tfm__check own = {.ctx = ctx, .random = 2027};
    float *host;
    const tfm_tensor x = __real_tfm__check_random(&own, &host, TFM_F32, rank, dims, 0);
    free(host);
    return x;
}

tfm_tensor __wrap_tfm__check_random(tfm__check *c, void *host, tfm_dtype dtype, int rank, const int64_t *dims,
                                    int below) {
    const tfm_tensor x = __real_tfm__check_random(c, host, dtype, rank, dims, below);
    if (dtype == TFM_F32 && tfm__tape_recording(c->ctx))
        tfm_tape_watch(c->ctx, x, numbers(c->ctx, rank, dims));
    return x;
}

void __wrap_tfm__check_compare(tfm__check *c, tfm_tensor got, const double *want) {
    __real_tfm__check_compare(c, got, want);
    if (!tfm__tape_recording(c->ctx))
        return;
    const bool loss = tfm_tensor_count(got) == 1; /* its gradient is 1 */
    const tfm_tensor dy = loss ? (tfm_tensor){0} : numbers(c->ctx, got.rank, got.dims);
    backwards += tfm_backward(c->ctx, got, dy) == TFM_OK;
    tfm_tape_start(c->ctx); /* for its further results */
}

/* Ops without a backward pass are refused while the tape records; that is no failure. */
static void run(tfm_context *ctx, const tfm__check_entry *entry, bool taped, const char *by) {
    tfm__check c = {.ctx = ctx, .form = entry->form, .number = entry->number, .random = 2017};
    const int depth = tfm__scope_depth(ctx), before = backwards;
    tfm_scope_open(ctx);
    if (taped)
        tfm_tape_start(ctx);
    entry->run(&c);
    const tfm_status status = tfm_context_status(ctx);
    const bool right =
        (status == TFM_OK || (taped && status == TFM_ERROR_ARGUMENT)) && (c.skip_reason || c.error <= 2e-5);
    if (status != TFM_OK)
        tfm__context_recover(ctx, depth);
    else
        tfm_scope_close(ctx, 0, NULL);
    tfm_tape_stop(ctx);
    for (size_t i = 0; i < c.allocation_count; i++)
        free(c.allocations[i]);
    const bool counts = !taped || backwards > before;
    if (c.skip_reason && !taped)
        printf("%s %s %s: skipped: %s\n", entry->op, entry->form, by, c.skip_reason);
    else if (counts)
        printf("%s %s %s: %s%s\n", entry->op, entry->form, by, taped ? "backward" : "forward", right ? "" : ", wrong");
    fflush(stdout);
    ran += counts && !c.skip_reason;
    skipped += c.skip_reason != NULL;
    failed += counts && !right;
}

/* Runs the checks of the op of this name. */
static void run_op(tfm_context *ctx, const char *name) {
    for (size_t i = 0; i < TFM__COUNT(OPS); i++)
        for (const tfm__check_entry *entry = OPS[i]; entry->op; entry++)
            if (strcmp(NAMES[i], name) == 0 && !is_mma(entry) && strncmp(entry->form, "clblast", 7) != 0)
                for (int taped = 0; taped < (strcmp(entry->form, "backward") == 0 ? 1 : 2); taped++) /* has a tape */
                    run(ctx, entry, taped, "");
}

/* Runs the check of this kind of MMA, with inputs of its dtype; all tiles would take too long. */
static void run_mma(tfm_context *ctx, const char *name) {
    ctx->tuning.mma_emulated = true;
    for (size_t e = 0; e < TFM__COUNT(MMA_KINDS); e++)
        for (const tfm__check_entry *entry = tfm__selftest_gemm; strcmp(MMA_KINDS[e].name, name) == 0 && entry->op;
             entry++)
            if (is_mma(entry) && !strstr(entry->form, "tiles") && !strstr(entry->form, "multistage") &&
                entry->number == (int)MMA_KINDS[e].inputs) {
                ctx->tuning.mma = MMA_KINDS[e].mma;
                run(ctx, entry, false, name);
            }
    ctx->tuning.mma = TFM__MMA_NONE;
}

/* Attention with as many rows per work-item as on NVIDIA, however short the sequences are; with and without queries in
 * local memory. */
static void run_many_rows(tfm_context *ctx) {
    const tfm__tuning before = ctx->tuning;
    ctx->tuning.attention_tile_rows = 8;
    ctx->tuning.attention_tile_min_rows = 0;
    for (int resident = 0; resident < 2; resident++) {
        ctx->tuning.attention_resident_queries = resident;
        run_op(ctx, "attention");
    }
    ctx->tuning = before;
}

/* ---- Searches ---- */

static void print_search(tfm_context *ctx, const char *what, tfm_status status, size_t texts) {
    printf("search %s: %s\n", what, status != TFM_OK ? tfm_error_message() : texts ? "generated" : "no output");
    fflush(stdout);
    failed += status != TFM_OK || !texts;
    ran++;
    tfm_context_clear_error(ctx);
}

/* Generation rules that the candidate kernels implement. */
static void set_rules(tfm__generation_rules *rules) {
    rules->bad_word_count = 1;
    rules->bad_words[1] = 2;
    rules->bad_word_ids[0] = 3;
    rules->bad_word_ids[1] = 4;
    rules->no_repeat_ngram = 2;
    rules->sequence_bias_count = 1;
    rules->sequence_bias_starts[1] = 1;
    rules->sequence_bias_ids[0] = 5;
    rules->bias[0] = 1;
    rules->sampling.repetition_penalty = 1.5;
    rules->hf_search = true;
}

/* Three sentences in beams of three, which end at different steps. */
static void translate(tfm_context *ctx, const char *what, tfm_dtype kept, bool ruled) {
    const int32_t ids[] = {5, 6, 0, 7, 0, 8, 9, 10, 11, 0}, prefixes[] = {7};
    const size_t counts[] = {3, 2, 5}, prefix_counts[] = {0, 1, 0};
    tfm_search_options options = {.beam_size = 3, .n_best = 2, .max_length = 6};
    tfm_model *model = NULL;
    tfm_hypotheses out = {0};
    tfm_status status = tfm_model_new(&model, ctx, &TINY_TRANSLATOR);
    if (status == TFM_OK) {
        model->kv_dtype = kept;
        if (ruled) {
            set_rules(&model->rules);
            options.length_norm = TFM_LENGTH_NORM_HF;
        }
        status = tfm_search(model, &out, ids, counts, 3, prefixes, prefix_counts, &options);
    }
    print_search(ctx, what, status, out.sentences);
    tfm_hypotheses_free(&out);
    tfm_model_free(&model);
}

/* Gives a model with the vocabularies of shortlist_file.h its shortlist. */
static tfm_status give_words(tfm_model *model) {
    unsigned char file[SHORTLIST_BYTES];
    char path[] = "/tmp/tfm-races-XXXXXX";
    const int at = mkstemp(path);
    shortlist_make(file);
    const bool written = at >= 0 && write(at, file, sizeof(file)) == (ssize_t)sizeof(file);
    const tfm_status status =
        written ? tfm__shortlist_open(&model->shortlist, path, SHORTLIST_SOURCE, SHORTLIST_TARGET, false)
                : TFM_ERROR_IO;
    if (at >= 0) {
        close(at);
        remove(path);
    }
    return status;
}

/* Sentences in beams of two, each with its own shortlist. */
static void translate_with_shortlist(tfm_context *ctx, const char *what) {
    tfm_model_shape shape = TINY_TRANSLATOR;
    shape.source_vocab_size = SHORTLIST_SOURCE;
    shape.target_vocab_size = SHORTLIST_TARGET;
    shape.pad_id = shape.start_id = 4;
    const int32_t ids[] = {2, 0, 3, 2, 0};
    const size_t counts[] = {2, 3};
    tfm_model *model = NULL;
    tfm_hypotheses out = {0};
    tfm_status status = tfm_model_new(&model, ctx, &shape);
    if (status == TFM_OK)
        status = give_words(model);
    if (status == TFM_OK)
        status =
            tfm_search(model, &out, ids, counts, 2, NULL, NULL, &(tfm_search_options){.beam_size = 2, .max_length = 5});
    print_search(ctx, what, status, out.sentences);
    tfm_hypotheses_free(&out);
    tfm_model_free(&model);
}

/* Stops the second text at its second token. */
static bool stop_second(void *user, size_t prompt, int best, int32_t id) {
    int *seen = user;
    (void)best;
    (void)id;
    return prompt != 1 || ++*seen < 2;
}

/* Generates from prompts of several lengths: sampling with a token callback, or beam search. */
static void generate_texts(tfm_context *ctx, const char *what, tfm_dtype kept, bool sampling) {
    const tfm_model_shape shape = language_model(TINY_TRANSLATOR, "llama");
    const int32_t ids[] = {5, 6, 7, 8, 9, 10, 11};
    const size_t counts[] = {2, 4, 1};
    int seen = 0;
    const tfm_generate_options options = {.sample = sampling,
                                          .beam_size = sampling ? 1 : 2,
                                          .top_k = sampling ? 5 : 0,
                                          .repetition_penalty = 1.5f,
                                          .max_new_tokens = 5,
                                          .on_token = sampling ? stop_second : NULL,
                                          .on_token_user = &seen};
    tfm_model *model = NULL;
    tfm_hypotheses out = {0};
    tfm_status status = tfm_model_new(&model, ctx, &shape);
    if (status == TFM_OK) {
        model->kv_dtype = kept;
        status = tfm_generate_ids(model, &out, ids, counts, 3, &options);
    }
    print_search(ctx, what, status, out.sentences);
    tfm_hypotheses_free(&out);
    tfm_model_free(&model);
}

static void run_searches(tfm_context *ctx) {
    const tfm__tuning before = ctx->tuning;
    translate(ctx, "translation", TFM_F32, false);
    translate(ctx, "translation with generation rules", TFM_F16, true);
    translate_with_shortlist(ctx, "translation with a shortlist");
    generate_texts(ctx, "sampling", TFM_BF16, true);
    generate_texts(ctx, "generation with beams", TFM_F16, false);
    generate_texts(ctx, "generation with an int8 KV cache", TFM_I8, true);
    ctx->tuning.split_workgroups = 1 << 20; /* several work-groups share keys and vocabulary */
    ctx->tuning.split_min_keys = 1;
    ctx->tuning.split_min_logits = 8;
    translate(ctx, "translation, split", TFM_BF16, false);
    ctx->tuning = before;
}

int main(int count, char **arguments) {
    if (count == 1) {
        for (size_t i = 0; i < TFM__COUNT(NAMES); i++)
            puts(NAMES[i]);
        for (size_t e = 0; e < TFM__COUNT(MMA_KINDS); e++)
            puts(MMA_KINDS[e].name);
        puts("rows-8");
        puts("search");
        return 0;
    }
    tfm_context *ctx = NULL;
    if (tfm_context_open(&ctx, &(tfm_context_options){.variant = "gpu"}) != TFM_OK) {
        fprintf(stderr, "%s\n", tfm_error_message());
        return 1;
    }
    /* oclgrind's device has one, with which no work-groups would share a column, a row or K. */
    ctx->info.compute_units = 100;
    for (int i = 1; i < count; i++) {
        run_op(ctx, arguments[i]);
        run_mma(ctx, arguments[i]);
        if (strcmp(arguments[i], "rows-8") == 0)
            run_many_rows(ctx);
        if (strcmp(arguments[i], "search") == 0)
            run_searches(ctx);
    }
    tfm_context_free(&ctx);
    return failed == 0 && ran == 0 && skipped > 0 ? 77 : failed > 0 || ran == 0; /* 77: skipped */
}
