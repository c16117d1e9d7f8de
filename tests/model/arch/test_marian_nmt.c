/* Models in Marian's format: logits, searches with and without a shortlist, text, and errors. Models and goldens are by
 * tests/golden/make_marian_nmt.py. */
#include <math.h>
#include "support/marian_files.h"
#include "model/weights/weight_file.h"
#include "tfm/model.h"
#include "tfm/ops.h"

#define FOLDER "tests/golden/marian-nmt/"

enum { V = 64 };

static tfm__weights *golden;

static int setup(void **state) {
    char *path = harness_source(FOLDER "golden.npz");
    const tfm_status status = tfm__weights_open(&golden, path);
    free(path);
    return status == TFM_OK && harness_setup(state) == 0 ? scratch_setup(state) : -1;
}

static int teardown(void **state) {
    tfm__weights_free(&golden);
    return scratch_teardown(state) | harness_teardown(state);
}

static const tfm__stored_tensor *wanted(const char *model, const char *what) {
    char name[64];
    snprintf(name, sizeof(name), "%s.%s", model, what);
    const tfm__stored_tensor *x = tfm__weights_find(golden, name);
    assert_non_null(x);
    return x;
}

/* Up to 16 ids. */
static size_t ids_of(int32_t ids[16], const char *model, const char *what) {
    const tfm__stored_tensor *x = wanted(model, what);
    assert_in_range(x->count, 1, 16);
    memcpy(ids, x->data, x->bytes);
    return x->count;
}

/* Clears the folder, and copies a model into it. */
static void place(const char *model, bool shortlist) {
    char from[128];
    char **names;
    size_t count;
    harness_ok(tfm__dir_list(&names, &count, scratch_root));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(remove(scratch_path(names[i])), 0);
    tfm__names_free(names, count);
    snprintf(from, sizeof(from), FOLDER "%s.npz", model);
    scratch_copy(from, "model.npz");
    scratch_copy(FOLDER "vocab.spm", "vocab.spm");
    if (shortlist)
        scratch_copy(FOLDER "lex.bin", "lex.50.50.bin");
}

static tfm_model *opened(void) {
    tfm_model *model;
    harness_ok(tfm_model_open(&model, harness_context(), scratch_root, NULL));
    return model;
}

static void close_to(tfm_tensor got, const tfm__stored_tensor *want, const char *what) {
    double *wide = malloc(want->count * sizeof(*wide));
    float *values = harness_floats(got), number;
    assert_non_null(wide);
    for (size_t i = 0; i < want->count; i++) {
        memcpy(&number, want->data + 4 * i, 4);
        wide[i] = (double)number;
    }
    harness_close(values, wide, want->count, 2e-5, what);
    free(values);
    free(wide);
}

/* The decoder reads ids; -1 is the start of the model. */
static tfm_tensor target_tensor(const tfm_model *model, const int32_t *ids, size_t count) {
    int32_t read[16];
    for (size_t i = 0; i < count; i++)
        read[i] = ids[i] < 0 ? tfm_model_get_info(model)->start_id : ids[i];
    return HARNESS_TENSOR(TFM_I32, read, 1, (int64_t)count);
}

static void check_numbers(tfm_model *model, const char *name) {
    tfm_context *ctx = harness_context();
    int32_t source[16], target[16];
    const size_t s = ids_of(source, name, "source"), t = ids_of(target, name, "target");
    tfm_tensor encoded = {0}, logits = {0}, all = {0}, words = {0}, none = {0};
    harness_ok(tfm_scope_open(ctx));
    harness_ok(tfm_model_encode(model, &encoded, HARNESS_TENSOR(TFM_I32, source, 1, (int64_t)s), none));
    close_to(encoded, wanted(name, "encoded"), "what is encoded");
    harness_ok(tfm_model_decode(model, &all, target_tensor(model, target, t), encoded, none));
    assert_int_equal(all.dims[2], V + 1); /* with the row of zeros */
    harness_ok(tfm_slice(ctx, &words, all, (tfm_range[]){TFM_WHOLE, TFM_WHOLE, {0, V, 1}}));
    harness_ok(tfm_tensor_reshape(ctx, &logits, words, 2, (int64_t[]){(int64_t)t, V}));
    close_to(logits, wanted(name, "logits"), "logits");
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

/* The same sentence twice, and a part of it with another shortlist: batching changes nothing. */
static void check_search(tfm_model *model, const char *name, const char *what) {
    int32_t source[16], want[16], batch[48];
    const size_t s = ids_of(source, name, "source"), count = ids_of(want, name, what);
    const tfm_search_options greedy = {.beam_size = 1, .max_length = 12};
    tfm_hypotheses found;
    memcpy(batch, source, s * 4);
    memcpy(batch + s, source + s - 2, 8);
    memcpy(batch + s + 2, source, s * 4);
    /* Nor does a forced prefix, which may use the whole vocabulary. */
    const int32_t beginning = 2;
    for (int given = 0; given < 2; given++) {
        harness_ok(tfm_search(model, &found, batch, (size_t[]){s, 2, s}, 3, given ? &beginning : NULL,
                              given ? (size_t[]){0, 1, 0} : NULL, &greedy));
        for (int i = 0; i < 3; i += 2) {
            assert_int_equal(found.items[i].tokens, count);
            assert_memory_equal(found.items[i].ids, want, count * 4);
        }
        assert_true(!given || found.items[1].ids[0] == beginning);
        tfm_hypotheses_free(&found);
    }
}

static const char *const MODELS[] = {"ssru", "attention", "normed", "shared"};

static void test_marian_nmt_logits_and_search_match_reference(void **state) {
    (void)state;
    for (size_t i = 0; i < TFM__COUNT(MODELS); i++) {
        place(MODELS[i], false);
        tfm_model *model = opened();
        assert_string_equal(tfm_model_get_info(model)->family, "marian-nmt");
        assert_int_equal(tfm_model_get_info(model)->has_ssru, i % 2 == 0);
        assert_false(tfm_model_get_info(model)->has_shortlist);
        check_numbers(model, MODELS[i]);
        check_search(model, MODELS[i], "greedy");
        tfm_model_free(&model);
        place(MODELS[i], true);
        model = opened();
        assert_true(tfm_model_get_info(model)->has_shortlist);
        check_search(model, MODELS[i], "short");
        tfm_model_free(&model);
    }
}

/* The scores of a search equal those of a full pass: each step continues from its parent's cells. */
static double rescored(tfm_model *model, tfm_tensor encoded, const tfm_hypothesis *h) {
    int32_t read[16] = {-1};
    tfm_tensor logits = {0}, none = {0};
    memcpy(read + 1, h->ids, (size_t)(h->tokens - 1) * 4);
    harness_ok(tfm_model_decode(model, &logits, target_tensor(model, read, (size_t)h->tokens), encoded, none));
    float *values = harness_floats(logits);
    double sum = 0;
    for (int t = 0; t < h->tokens; t++) {
        double all = 0;
        for (int i = 0; i < V; i++)
            all += i == 1 ? 0 : exp((double)values[t * (V + 1) + i]); /* <unk> is never written */
        sum += (double)values[t * (V + 1) + h->ids[t]] - log(all);
    }
    free(values);
    return sum;
}

static void test_marian_nmt_beam_scores_match_teacher_forcing(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    for (size_t i = 0; i < TFM__COUNT(MODELS); i++) {
        place(MODELS[i], false);
        tfm_model *model = opened();
        const tfm_search_options options = {.beam_size = 4, .n_best = 4, .max_length = 12};
        int32_t source[16];
        size_t s = ids_of(source, MODELS[i], "source");
        tfm_hypotheses found;
        tfm_tensor encoded = {0}, none = {0};
        harness_ok(tfm_search(model, &found, source, &s, 1, NULL, NULL, &options));
        harness_ok(tfm_scope_open(ctx));
        harness_ok(tfm_model_encode(model, &encoded, HARNESS_TENSOR(TFM_I32, source, 1, (int64_t)s), none));
        for (int k = 0; k < 4; k++) {
            const double want = rescored(model, encoded, &found.items[k]);
            if (!(fabs(found.items[k].log_prob - want) < 1e-3))
                fail_msg("%s: hypothesis %d has log p %g, the whole sequence %g", MODELS[i], k, found.items[k].log_prob,
                         want);
        }
        harness_ok(tfm_scope_close(ctx, 0, NULL));
        tfm_hypotheses_free(&found);
        tfm_model_free(&model);
    }
}

static void test_marian_nmt_tokenizer_and_translation_work(void **state) {
    (void)state;
    place("ssru", true);
    tfm_model *model = opened();
    const tfm_tokenizer *tokenizer = tfm_model_tokenizer(model);
    const tfm_tokenizer_info *info = tfm_tokenizer_get_info(tokenizer);
    assert_true(info->source_size == V && info->target_size == V && !info->separate);
    assert_true(info->source_eos == 0 && info->source_unk == 1 && info->source_pad == -1);
    int32_t *ids;
    size_t count;
    char *text;
    harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, "kanta toxigo", 12));
    assert_int_equal(ids[count - 1], 0);
    harness_ok(tfm_tokenizer_decode(tokenizer, &text, ids, count));
    assert_string_equal(text, "kanta toxigo");
    tfm_text_free(&text);
    tfm_ids_free(&ids);
    /* A language code unknown to SentencePiece is no token: Marian encodes the whole line. */
    harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, ">>ka<<", 6));
    assert_true(count > 2);
    tfm_ids_free(&ids);
    tfm_model_free(&model);
}

/* ---- The binary format, and inconsistent files ---- */

/* Writes the model of the folder in the binary format, with the given configuration. */
static void write_binary(const char *name, const char *config) {
    tfm__weights *weights;
    marian_item items[128] = {0};
    size_t count = 0;
    harness_ok(tfm__weights_open(&weights, scratch_path("model.npz")));
    for (size_t i = 0; i < tfm__weights_count(weights); i++) {
        const tfm__stored_tensor *x = tfm__weights_at(weights, i);
        items[count] =
            (marian_item){.name = x->name, .type = MARIAN_F32, .rank = 2, .data = x->data, .bytes = x->bytes};
        items[count].dims[0] = (int)x->dims[0];
        items[count++].dims[1] = (int)x->dims[1];
    }
    items[count] =
        (marian_item){"special:model.yml", MARIAN_I8, 1, {(int)strlen(config) + 1}, config, strlen(config) + 1, 0};
    items[count + 1] = (marian_item){"encoder_l1_self_Wq_QuantMultA", MARIAN_F32, 2, {1, 1}, "\0\0\0", 4, 0};
    marian_write(name, items, count + 2);
    tfm__weights_free(&weights);
}

static char *config_of(void) {
    tfm__weights *weights;
    harness_ok(tfm__weights_open(&weights, scratch_path("model.npz")));
    char *text = strdup(tfm__weights_metadata(weights, TFM__MARIAN_CONFIG));
    tfm__weights_free(&weights);
    return text;
}

static void test_marian_nmt_bin_weights_equal_npz(void **state) {
    (void)state;
    place("ssru", true);
    char *config = config_of();
    write_binary("model.kato.intgemm.bin", config);
    free(config);
    assert_int_equal(remove(scratch_path("model.npz")), 0);
    tfm_model *model = opened();
    assert_string_equal(tfm_model_get_info(model)->weight_format, "Marian .bin");
    check_numbers(model, "ssru");
    check_search(model, "ssru", "short");
    tfm_model_free(&model);
}

static void refused(tfm_status want, const char *part) {
    tfm_model_info info;
    scratch_refused(tfm_model_read_info(&info, scratch_root, NULL), want, part);
}

static void test_unsupported_marian_nmt_config_is_rejected(void **state) {
    (void)state;
    static const struct {
        const char *old, *with;
        tfm_status status;
        const char *part;
    } CASES[] = {
        {"type: transformer", "type: s2s", TFM_ERROR_UNSUPPORTED, "`type` is \"s2s\"; supported: transformer"},
        {"dec-cell: ssru", "dec-cell: gru", TFM_ERROR_UNSUPPORTED, "`dec-cell` is \"gru\"; supported: ssru"},
        {"autoreg: rnn", "autoreg: average-attention", TFM_ERROR_UNSUPPORTED, "`transformer-decoder-autoreg` is"},
        {"preprocess: \"\"", "preprocess: n", TFM_ERROR_UNSUPPORTED, "`transformer-preprocess` is \"n\""},
        {"postprocess: dan", "postprocess: da", TFM_ERROR_UNSUPPORTED, "`transformer-postprocess` is \"da\""},
        {"postprocess: dan", "postprocess: dhn", TFM_ERROR_UNSUPPORTED, "`transformer-postprocess` is \"dhn\""},
        {"postprocess-top: \"\"", "postprocess-top: da", TFM_ERROR_UNSUPPORTED, "`transformer-postprocess-top`"},
        {"lemma-dim-emb: 0", "lemma-dim-emb: 4", TFM_ERROR_UNSUPPORTED, "`lemma-dim-emb` is 4"},
        {"ffn-depth: 2", "ffn-depth: 3", TFM_ERROR_UNSUPPORTED, "`transformer-ffn-depth` is 3"},
        {"activation: relu", "activation: gelu", TFM_ERROR_UNSUPPORTED, "`transformer-ffn-activation` is \"gelu\""},
        {"tied-layers: []", "tied-layers: [1, 1]", TFM_ERROR_UNSUPPORTED, "`transformer-tied-layers` is [1,1]"},
        {"ulr: false", "ulr: true", TFM_ERROR_UNSUPPORTED, "`ulr` is true"},
        {"position-embeddings: false", "position-embeddings: true", TFM_ERROR_UNSUPPORTED,
         "`transformer-train-position-embeddings` is true"},
        {"layer-normalization: false", "layer-normalization: true", TFM_ERROR_UNSUPPORTED, "`layer-normalization` is"},
        {"ulr: false", "ulr: 7", TFM_ERROR_FORMAT, "`ulr` is 7; true or false is allowed"},
        {"enc-depth: 2", "enc-depth: x", TFM_ERROR_FORMAT, "`enc-depth` is \"x\"; an integer"},
        {"enc-depth: 2", "enc-depth: 1", TFM_ERROR_FORMAT, "is not part of the model"},
        {"enc-depth: 2", "enc-depth: 3", TFM_ERROR_FORMAT, "has no tensor encoder_l3_self_Wq"},
        {"dim-emb: 16", "dim-emb: 32", TFM_ERROR_FORMAT, "has shape (64, 16)"},
        {"heads: 2", "heads: 3", TFM_ERROR_FORMAT, "its 3 `transformer-heads` must divide it"},
        {"tied-embeddings-all: true", "tied-embeddings-all: false", TFM_ERROR_FORMAT, "has no tensor encoder_Wemb"},
        {"type: transformer", "type: [", TFM_ERROR_FORMAT, "special:model.yml is not YAML"},
    };
    place("ssru", false);
    char *config = config_of();
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        char changed[4096];
        const char *at = strstr(config, CASES[i].old);
        assert_non_null(at);
        snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - config), config, CASES[i].with,
                 at + strlen(CASES[i].old));
        write_binary("model.bin", changed);
        scratch_text("config.yml", "models: [/elsewhere/model.bin]\nvocabs: [vocab.spm, vocab.spm]\n");
        refused(CASES[i].status, CASES[i].part);
    }
    free(config);
}

/* The selection of files. */
static void test_marian_nmt_config_selects_its_files(void **state) {
    (void)state;
    static const struct {
        const char *yaml;
        tfm_status status;
        const char *part;
    } CASES[] = {
        {"models: [model.npz, model.npz]\n", TFM_ERROR_UNSUPPORTED, "`models` names 2 models of an ensemble"},
        {"models: []\n", TFM_ERROR_FORMAT, "`models` is []"},
        {"models: [7]\n", TFM_ERROR_FORMAT, "`models` has 7; the name of a file is needed"},
        {"models: [none.npz]\nvocabs: [vocab.spm]\n", TFM_ERROR_IO, "none.npz"},
        {"models: [model.npz]\n", TFM_ERROR_IO, "has no vocabulary"},
        {"models: [model.npz]\nvocabs: [vocab.yml, vocab.yml]\n", TFM_ERROR_UNSUPPORTED,
         "vocab.yml is not an .spm file"},
        {"models: [model.npz]\nvocabs: [none.spm, vocab.spm]\n", TFM_ERROR_IO, "none.spm"},
        {"models: [model.npz]\nvocabs: [vocab.spm]\nbeam-size: 0\n", TFM_ERROR_FORMAT, "`beam-size` is 0"},
        {"models: [model.npz]\nvocabs: [vocab.spm]\nnormalize: 1e9\n", TFM_ERROR_FORMAT, "`normalize` is 1e+09"},
        {"models: [model.npz\n", TFM_ERROR_FORMAT, "decoder.yml is not YAML"},
        {"models: [model.npz]\nvocabs: [vocab.spm]\nshortlist: [vocab.spm]\n", TFM_ERROR_FORMAT,
         "is not a Marian shortlist"},
    };
    tfm_model_info info;
    place("ssru", false);
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        scratch_text("decoder.yml", CASES[i].yaml);
        refused(CASES[i].status, CASES[i].part);
    }
    scratch_text("decoder.yml", "models:\n  - /far/away/model.npz\nvocabs:\n  - x/vocab.spm\n  - vocab.spm\n"
                                "shortlist: [none.bin, false]\nbeam-size: 6\nnormalize: 0.6\n");
    harness_ok(tfm_model_read_info(&info, scratch_root, NULL));
    assert_int_equal(info.beam_size, 6);
    assert_false(info.has_shortlist);
    assert_int_equal(remove(scratch_path("decoder.yml")), 0);
    harness_ok(tfm_model_read_info(&info, scratch_root, NULL));
    assert_string_equal(info.weight_format, "NumPy .npz");
    scratch_copy(FOLDER "ssru.npz", "model.best.npz"); /* model.npz is intended */
    harness_ok(tfm_model_read_info(&info, scratch_root, NULL));
    scratch_copy(FOLDER "ssru.npz", "model.other.npz");
    assert_int_equal(remove(scratch_path("model.npz")), 0);
    refused(TFM_ERROR_FORMAT, "has both model.best.npz and model.other.npz");
    scratch_copy(FOLDER "golden.npz", "model.npz");
    refused(TFM_ERROR_FORMAT, "has no special:model.yml");
    scratch_text("config.json", "{}"); /* then it is a Hugging Face model */
    refused(TFM_ERROR_FORMAT, "`model_type` is nothing");
    tfm_tokenizer *tokenizer;
    place("ssru", false);
    scratch_text("vocab.spm", "none");
    scratch_refused(tfm_tokenizer_open(&tokenizer, scratch_root), TFM_ERROR_FORMAT, "vocab.spm");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marian_nmt_logits_and_search_match_reference),
        cmocka_unit_test(test_marian_nmt_beam_scores_match_teacher_forcing),
        cmocka_unit_test(test_marian_nmt_tokenizer_and_translation_work),
        cmocka_unit_test(test_marian_nmt_bin_weights_equal_npz),
        cmocka_unit_test(test_unsupported_marian_nmt_config_is_rejected),
        cmocka_unit_test(test_marian_nmt_config_selects_its_files),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
