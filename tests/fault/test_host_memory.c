/* Host allocation failures: each allocation site of the library fails at its first and at its last execution in a call,
 * alone or with all later allocations. The call must fail with TFM_ERROR_MEMORY and a sentence or succeed, leave its
 * output NULL, leak no block, and work afterwards. Allocations of jansson do not fail: it would abort. */
#include "support/demo.h"
#include "fault/each_failure.h"
#include "support/small_model.h"
#include "tfm/tfm.h"

/* ---- Text ---------------------------------------------------------------------------------------------------------
 */

static const char LINE[] = "Zwei M\xc3\xa4nner, 12.5 km weit: \xe2\x80\x9eHe's here!\xe2\x80\x9c "
                           "\xe4\xb8\xad\xe6\x96\x87 <unk> 1e\xcc\x81 end.";

static tfm_status tokenize(const void *dir, failure_result *sum) {
    tfm_tokenizer *tokenizer;
    int32_t *ids = NULL;
    size_t count = 0;
    char *text = NULL;
    tfm_status status = tfm_tokenizer_open(&tokenizer, dir);
    assert_true((status == TFM_OK) == (tokenizer != NULL));
    for (int side = TFM_SOURCE; side <= TFM_TARGET && status == TFM_OK; side++) {
        status = tfm_tokenizer_encode(tokenizer, &ids, &count, (tfm_side)side, LINE, strlen(LINE));
        if (status == TFM_OK) {
            add(sum, ids, count * sizeof(*ids));
            status = tfm_tokenizer_decode(tokenizer, &text, ids, count);
        }
        if (status == TFM_OK)
            add_text(sum, text);
        tfm_text_free(&text);
        tfm_ids_free(&ids);
    }
    tfm_tokenizer_free(&tokenizer);
    return status;
}

static void test_tokenizers_survive_failed_allocations(void **state) {
    (void)state;
    static const char *const NAMES[] = {
        "apps/demo",
        "tests/golden/tokenizers/bert",
        "tests/golden/tokenizers/gemma",
        "tests/golden/tokenizers/gpt2",
        "tests/golden/tokenizers/llama2",
        "tests/golden/tokenizers/llama3",
        "tests/golden/tokenizers/older_bert",
        "tests/golden/tokenizers/older_gemma",
        "tests/golden/tokenizers/older_gpt2",
        "tests/golden/tokenizers/older_m2m100",
        "tests/golden/tokenizers/older_mbart50",
        "tests/golden/tokenizers/older_nllb",
        "tests/golden/tokenizers/older_pegasus",
        "tests/golden/tokenizers/older_roberta",
        "tests/golden/tokenizers/older_t5",
        "tests/golden/tokenizers/unigram_bytes",
        "tests/golden/tokenizers/wordpiece",
        "tests/golden/tokenizers/words",
    };
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(*NAMES); i++) {
        char *dir = harness_source(NAMES[i]);
        each_failure(NAMES[i], tokenize, dir, false);
        free(dir);
    }
}

static tfm_status find_sentences(const void *language, failure_result *sum) {
    static const char text[] =
        "Dr. Meyer kam am 3. Mai. Er blieb! Warum? \xe2\x80\x9eNun ja.\xe2\x80\x9c Das ist z. B. gut.";
    tfm_sentence *sentences;
    size_t count;
    const tfm_status status = tfm_text_sentences(&sentences, &count, text, strlen(text), language);
    if (status == TFM_OK)
        add(sum, sentences, count * sizeof(*sentences));
    else
        assert_null(sentences);
    tfm_sentences_free(&sentences);
    return status;
}

static tfm_status measure(const void *what, failure_result *sum) {
    tfm_metrics *metrics;
    tfm_status status = tfm_metrics_new(&metrics, NULL);
    (void)what;
    for (int i = 0; i < 3 && status == TFM_OK; i++)
        status = tfm_metrics_add(metrics, LINE, strlen(LINE), LINE + i, strlen(LINE + i));
    if (status == TFM_OK) {
        const double scores[] = {tfm_metrics_bleu(metrics).score, tfm_metrics_chrf(metrics)};
        add(sum, scores, sizeof(scores));
    }
    tfm_metrics_free(&metrics);
    return status;
}

static void test_sentence_split_and_metrics_survive_failed_allocations(void **state) {
    (void)state;
    each_failure("sentences", find_sentences, "de", false);
    each_failure("metrics", measure, NULL, false);
}

static tfm_status learn(const void *texts, failure_result *sum) {
    static const char *const NAMES[] = {"vocab.json", "source.spm", "tokenizer.json"};
    char path[4200], *content;
    size_t size;
    const tfm_vocabulary_options options = {.vocab_size = 80, .seed = 1};
    snprintf(path, sizeof(path), "%s", scratch_path("source"));
    tfm_status status = texts ? tfm_tokenizer_train_texts(scratch_root, (const char *const[]){path}, 1, &options)
                              : tfm_tokenizer_train(scratch_root, path, scratch_path("target"), &options);
    for (size_t i = texts ? 2 : 0; i < (texts ? 3u : 2u) && status == TFM_OK; i++) {
        status = tfm__file_read(&content, &size, scratch_path(NAMES[i]));
        if (status == TFM_OK)
            add(sum, content, size);
        free(content);
    }
    return status;
}

static tfm_status read_pairs(const void *texts, failure_result *sum) {
    tfm_tokenizer *tokenizer;
    tfm_data *data = NULL;
    tfm_batch batch;
    char path[4200];
    snprintf(path, sizeof(path), "%s", scratch_path("source"));
    const tfm_data_options options = {.batch_tokens = 64, .buffer_size = 8, .seq_len = texts ? 16 : 0, .seed = 1};
    tfm_status status = tfm_tokenizer_open(&tokenizer, TFM_ROOT "/apps/demo");
    if (status == TFM_OK)
        status = texts ? tfm_data_open_texts(&data, tokenizer, (const char *const[]){path}, 1, &options)
                       : tfm_data_open(&data, tokenizer, path, scratch_path("target"), &options);
    for (int i = 0; i < 12 && status == TFM_OK; i++) {
        status = tfm_data_next(data, &batch);
        if (status == TFM_OK)
            add(sum, batch.targets, (size_t)(batch.count * batch.target_width) * sizeof(*batch.targets));
    }
    if (status == TFM_OK)
        status = tfm_data_seek(data, (tfm_data_position){0});
    tfm_data_free(&data);
    tfm_tokenizer_free(&tokenizer);
    return status;
}

static void test_vocabulary_training_and_readers_survive_failed_allocs(void **state) {
    (void)state;
    scratch_copy("apps/demo/test.de", "source");
    scratch_copy("apps/demo/beam4.en", "target");
    each_failure("a vocabulary of pairs", learn, NULL, false);
    each_failure("a vocabulary of texts", learn, "", false);
    each_failure("pairs that are read", read_pairs, NULL, false);
    each_failure("texts that are read", read_pairs, "", false);
}

/* ---- Models -------------------------------------------------------------------------------------------------------
 */

static tfm_status read_info(const void *dir, failure_result *sum) {
    tfm_model_info info;
    const tfm_status status = tfm_model_read_info(&info, dir, &(tfm_model_options){.no_tokenizer = true});
    if (status == TFM_OK)
        add(sum, &info.parameters, sizeof(info.parameters));
    return status;
}

/* Files of each format, and a model of each architecture. */
static void test_model_info_survives_failed_allocations(void **state) {
    (void)state;
    static const char *const NAMES[] = {
        "apps/demo",
        "tests/golden/families/bert-masked-shards",
        "tests/golden/families/gpt2-scales-bin",
        "tests/golden/families/m2m_100-pad-9-bin",
        "tests/golden/families/gemma3-2025-bf16",
        "tests/golden/families/llama-llama3-new-f16",
    };
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(*NAMES); i++) {
        char *dir = harness_source(NAMES[i]);
        each_failure(NAMES[i], read_info, dir, false);
        free(dir);
    }
}

static tfm_status quantize(const void *dir, failure_result *sum) {
    char *content = NULL;
    size_t size = 0;
    nftw(scratch_path("small"), scratch_remove, 16, FTW_DEPTH | FTW_PHYS);
    tfm_status status = tfm_model_quantize(scratch_path("small"), dir, TFM_I8);
    if (status == TFM_OK)
        status = tfm__file_read(&content, &size, scratch_path("small/model.safetensors"));
    if (status == TFM_OK)
        add(sum, content, size);
    free(content);
    return status;
}

static void test_quantize_survives_failed_allocations(void **state) {
    (void)state;
    each_failure("a directory that is quantized", quantize, TFM_ROOT "/tests/golden/prenorm-embedding-norm", false);
}

static bool add_translation(void *user, const tfm_translation *t) {
    add_text(user, t->text);
    return true;
}

static tfm_status translate(const void *what, failure_result *sum) {
    static const char *const LINES[] = {"Danke.", "Zwei Hunde. Ein Kind lacht."};
    const bool *split = what;
    tfm_model *model;
    tfm_status status = tfm_model_open(&model, harness_context(), TFM_ROOT "/apps/demo", NULL);
    assert_true((status == TFM_OK) == (model != NULL));
    if (status == TFM_OK)
        status = tfm_translate_lines(model, LINES, 2, &(tfm_text_options){.split = *split, .alignments = *split},
                                     &(tfm_search_options){.beam_size = *split ? 4 : 1, .max_length = 12},
                                     add_translation, sum);
    tfm_model_free(&model);
    return status;
}

static tfm_status translate_terms(const void *what, failure_result *sum) {
    static const char *const LINES[] = {"Das Auto."};
    static const tfm_glossary_term TERM = {"Auto", "truck"};
    tfm_model *model;
    tfm_status status = tfm_model_open(&model, harness_context(), TFM_ROOT "/apps/demo", NULL);
    (void)what;
    if (status == TFM_OK)
        status = tfm_translate_lines(model, LINES, 1, &(tfm_text_options){.glossary = &TERM, .glossary_count = 1},
                                     &(tfm_search_options){.beam_size = 1, .max_length = 8}, add_translation, sum);
    tfm_model_free(&model);
    return status;
}

static void test_translation_survives_failed_allocations(void **state) {
    (void)state;
    each_failure("a translation with a glossary", translate_terms, NULL, true);
    each_failure("a greedy translation", translate, &(bool){false}, true);
    each_failure("a translation by beams", translate, &(bool){true}, true);
}

static bool add_generation(void *user, const tfm_generation *g) {
    add(user, g->tokens.ids, g->tokens.count * sizeof(*g->tokens.ids));
    return true;
}

static tfm_status generate(const void *dir, failure_result *sum) {
    static const int32_t IDS[] = {11, 12, 13};
    tfm_model *model;
    tfm_status status = tfm_model_open(&model, harness_context(), dir, &(tfm_model_options){.no_tokenizer = true});
    if (status == TFM_OK)
        status = tfm_generate(model, &(tfm_prompt){.ids = IDS, .count = 3}, 1,
                              &(tfm_generate_options){.max_new_tokens = 4, .min_new_tokens = 4}, add_generation, sum);
    tfm_model_free(&model);
    return status;
}

static tfm_status embed(const void *dir, failure_result *sum) {
    static const char *const LINES[] = {"one two", "three"};
    float vectors[2 * 64] = {0};
    tfm_embedder *embedder;
    tfm_status status = tfm_embedder_open(&embedder, harness_context(), dir, NULL);
    if (status == TFM_OK) {
        assert_true(tfm_embedder_get_info(embedder)->width <= 64);
        status = tfm_embed(embedder, vectors, LINES, 2, NULL);
    }
    for (int i = 0; i < 2 * 64 && status == TFM_OK; i++)
        sum->sum += vectors[i] * (i + 1);
    tfm_embedder_free(&embedder);
    return status;
}

static bool add_token_vectors(void *user, const tfm_token_vectors *v) {
    for (size_t i = 0; i < v->count * (size_t)v->width; i++)
        ((failure_result *)user)->sum += v->vectors[i] * (float)(i % 7 + 1);
    return true;
}

static tfm_status embed_tokens(const void *dir, failure_result *sum) {
    static const char *const LINES[] = {"the cat", "a dog."};
    tfm_embedder *embedder;
    float scores[2] = {0};
    tfm_status status = tfm_embedder_open(&embedder, harness_context(), dir, NULL);
    if (status == TFM_OK)
        status = tfm_embed_tokens(embedder, LINES, 2, TFM_ROLE_DOCUMENT, NULL, add_token_vectors, sum);
    if (status == TFM_OK)
        status = tfm_embedder_rerank(embedder, scores, "a cat", LINES, 2, NULL);
    sum->sum += scores[0] + 2 * scores[1];
    tfm_embedder_free(&embedder);
    return status;
}

static void test_generation_and_embedding_survive_failed_allocations(void **state) {
    (void)state;
    each_failure("generation", generate, TFM_ROOT "/tests/golden/families/gpt2-inner-untied-bf16", true);
    each_failure("embedding", embed, TFM_ROOT "/tests/golden/embedder", true);
    each_failure("late interaction", embed_tokens, TFM_ROOT "/tests/golden/colbert", true);
}

static tfm_status train(const void *what, failure_result *sum) {
    int32_t ids[8 * 9], lengths[8];
    harness_random random = {5};
    const tfm_batch batch = copy_batch(&random, ids, lengths);
    const tfm_trainer_options options = plain_options();
    tfm_model *model;
    tfm_trainer *trainer = NULL;
    tfm_update_report report = {0};
    (void)what;
    tfm_status status = tfm_model_new(&model, harness_context(), &SMALL);
    if (status == TFM_OK)
        status = tfm_trainer_new(&trainer, model, &options);
    for (int i = 0; i < 2 && status == TFM_OK; i++)
        status = tfm_trainer_update(trainer, &report, &batch, 1);
    if (status == TFM_OK)
        status = tfm_trainer_set_note(trainer, "{}");
    if (status == TFM_OK)
        status = tfm_trainer_save(trainer, NULL, scratch_path("checkpoint"));
    if (status == TFM_OK)
        status = tfm_trainer_load(trainer, NULL, scratch_path("checkpoint"));
    if (status == TFM_OK)
        sum->sum = report.loss;
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
    return status;
}

static void test_training_survives_failed_allocations(void **state) {
    (void)state;
    each_failure("training", train, NULL, true);
}

int main(int count, char **arguments) {
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenizers_survive_failed_allocations),
        cmocka_unit_test(test_sentence_split_and_metrics_survive_failed_allocations),
        cmocka_unit_test(test_vocabulary_training_and_readers_survive_failed_allocs),
        cmocka_unit_test(test_model_info_survives_failed_allocations),
        cmocka_unit_test(test_quantize_survives_failed_allocations),
        cmocka_unit_test(test_translation_survives_failed_allocations),
        cmocka_unit_test(test_generation_and_embedding_survive_failed_allocations),
        cmocka_unit_test(test_training_survives_failed_allocations),
    };
    return cmocka_run_group_tests(tests, failure_setup, failure_teardown);
}
