/* config.json and generation_config.json: every key, its default, and what is refused. */
#include <math.h>
#include "model/arch/config_keys.h"
#include "support/demo.h"

/* A whole file, as Hugging Face writes it. */
static const char BASE[] = "{\n"
                           " \"architectures\": [\n  \"MarianMTModel\"\n ],\n"
                           " \"model_type\": \"marian\",\n"
                           " \"activation_function\": \"relu\",\n"
                           " \"d_model\": 128,\n"
                           " \"encoder_layers\": 4,\n"
                           " \"decoder_layers\": 4,\n"
                           " \"encoder_attention_heads\": 4,\n"
                           " \"decoder_attention_heads\": 4,\n"
                           " \"encoder_ffn_dim\": 512,\n"
                           " \"decoder_ffn_dim\": 512,\n"
                           " \"max_position_embeddings\": 512,\n"
                           " \"vocab_size\": 6001,\n"
                           " \"decoder_vocab_size\": 6001,\n"
                           " \"scale_embedding\": true,\n"
                           " \"static_position_embeddings\": true,\n"
                           " \"normalize_before\": false,\n"
                           " \"normalize_embedding\": false,\n"
                           " \"add_final_layer_norm\": false,\n"
                           " \"share_encoder_decoder_embeddings\": true,\n"
                           " \"tie_word_embeddings\": true,\n"
                           " \"is_encoder_decoder\": true,\n"
                           " \"pad_token_id\": 6000,\n"
                           " \"eos_token_id\": 0,\n"
                           " \"decoder_start_token_id\": 6000,\n"
                           " \"forced_eos_token_id\": 0,\n"
                           " \"num_beams\": 4,\n"
                           " \"max_length\": 512,\n"
                           " \"torch_dtype\": \"float32\"\n"
                           "}";

/* Writes config.json like BASE with the keys of `changes`; a null removes a key. */
static void change(const char *changes) {
    json_t *config = json_loads(BASE, 0, NULL), *with = json_loads(changes, 0, NULL), *value;
    assert_non_null(config);
    assert_non_null(with);
    const char *key;
    json_object_foreach(with, key, value) {
        if (json_is_null(value))
            json_object_del(config, key);
        else
            json_object_set(config, key, value);
    }
    assert_int_equal(json_dump_file(config, scratch_path("config.json"), 0), 0);
    json_decref(with);
    json_decref(config);
}

typedef struct said {
    tfm__arch arch;
    tfm__generation_rules rules;
} said;

static tfm_status load_dir(said *c, const char *dir) {
    const tfm__family *family;
    return tfm__family_read(&family, &c->arch, &c->rules, dir);
}

static tfm_status load(said *c, const char *changes) {
    change(changes);
    return load_dir(c, scratch_root);
}

static void test_config_of_demo_is_read(void **state) {
    (void)state;
    said c;
    char *dir = harness_source("apps/demo");
    json_t *config = demo_json("config.json"), *generation = demo_json("generation_config.json");
    harness_ok(load_dir(&c, dir));
    free(dir);
    const struct {
        const char *key;
        int64_t got;
    } NUMBERS[] = {
        {"d_model", c.arch.encoder.width},
        {"encoder_layers", c.arch.encoder.layers},
        {"decoder_layers", c.arch.decoder.layers},
        {"encoder_attention_heads", c.arch.encoder.heads},
        {"decoder_attention_heads", c.arch.decoder.heads},
        {"encoder_ffn_dim", c.arch.encoder.feed_forward},
        {"decoder_ffn_dim", c.arch.decoder.feed_forward},
        {"vocab_size", c.arch.encoder.vocabulary},
        {"decoder_vocab_size", c.arch.decoder.vocabulary},
        {"max_position_embeddings", c.arch.decoder.max_positions},
        {"pad_token_id", c.rules.pad_id},
        {"eos_token_id", c.rules.eos_id},
        {"decoder_start_token_id", c.rules.start_id},
    };
    for (size_t i = 0; i < TFM__COUNT(NUMBERS); i++)
        assert_int_equal(NUMBERS[i].got, json_integer_value(json_object_get(config, NUMBERS[i].key)));
    const struct {
        const char *key;
        bool got;
    } FLAGS[] = {
        {"normalize_before", c.arch.decoder.norm_placement == TFM_NORM_PRE},
        {"normalize_embedding", c.arch.encoder.embedding_norm},
        {"add_final_layer_norm", c.arch.decoder.final_norm},
        {"scale_embedding", c.arch.encoder.embedding_scale != 1},
        {"static_position_embeddings", c.arch.encoder.positions == TFM__SINUSOIDS},
        {"share_encoder_decoder_embeddings", c.arch.shared_tables},
        {"tie_word_embeddings", c.arch.tied_embeddings},
    };
    for (size_t i = 0; i < TFM__COUNT(FLAGS); i++)
        assert_int_equal(FLAGS[i].got, json_is_true(json_object_get(config, FLAGS[i].key)));
    assert_string_equal(json_string_value(json_object_get(config, "activation_function")), "relu");
    assert_int_equal(c.arch.encoder.activation, TFM_RELU);
    assert_true(c.arch.encoder.width > 0 && c.arch.encoder.position_offset == 0 && c.rules.forced_bos_id == -1 &&
                !c.rules.has_length_penalty);
    assert_int_equal(c.rules.num_beams, json_integer_value(json_object_get(generation, "num_beams")));
    assert_true(c.rules.suppress_id_count == 1 && c.rules.suppress_ids[0] == c.rules.pad_id);
    json_decref(generation);
    json_decref(config);
}

/* Defaults of Hugging Face's MarianConfig. */
static void test_config_defaults_are_those_of_marian(void **state) {
    (void)state;
    said c;
    scratch_text("config.json", "{\"model_type\": \"marian\", \"d_model\": null}");
    harness_ok(load_dir(&c, scratch_root));
    assert_true(c.arch.encoder.width == 1024 && c.arch.encoder.layers == 12 && c.arch.decoder.layers == 12);
    assert_true(c.arch.encoder.heads == 16 && c.arch.decoder.heads == 16 && c.arch.encoder.feed_forward == 4096 &&
                c.arch.decoder.feed_forward == 4096);
    assert_true(c.arch.encoder.vocabulary == 58101 && c.arch.decoder.vocabulary == 58101 &&
                c.arch.decoder.max_positions == 1024);
    assert_int_equal(c.arch.encoder.activation, TFM_GELU);
    assert_false(c.arch.decoder.norm_placement == TFM_NORM_PRE || c.arch.encoder.embedding_norm ||
                 c.arch.decoder.final_norm || c.arch.encoder.embedding_scale != 1);
    assert_true(c.arch.encoder.positions == TFM__SINUSOIDS && c.arch.shared_tables && c.arch.tied_embeddings);
    assert_true(c.rules.pad_id == 58100 && c.rules.start_id == 58100 && c.rules.eos_id == 0);
    assert_true(c.rules.forced_bos_id == -1);
    assert_true(c.rules.num_beams == 0 && !c.rules.has_length_penalty && c.rules.suppress_id_count == 0);
    scratch_text("config.json", "{\"architectures\": [\"MarianMTModel\"]}");
    harness_ok(load_dir(&c, scratch_root));
}

static void test_config_keys_set_architecture(void **state) {
    (void)state;
    said c;
    harness_ok(
        load(&c, "{\"normalize_before\": true, \"add_final_layer_norm\": true, \"normalize_embedding\": true,"
                 "\"encoder_attention_heads\": 8, \"decoder_ffn_dim\": 96, \"encoder_layers\": 1, \"unknown\": []}"));
    assert_true(c.arch.decoder.norm_placement == TFM_NORM_PRE && c.arch.decoder.final_norm &&
                c.arch.encoder.embedding_norm);
    assert_true(c.arch.encoder.heads == 8 && c.arch.decoder.heads == 4 && c.arch.decoder.feed_forward == 96 &&
                c.arch.encoder.feed_forward == 512);
    assert_true(c.arch.encoder.layers == 1 && c.arch.decoder.layers == 4);

    /* A huge integer in an unused key does not affect the used keys. */
    scratch_text("config.json", "{\"model_type\": \"marian\", \"unknown\": [1000000000000000019884624838656],"
                                " \"encoder_layers\": 2, \"bad_words_ids\": [[5]]}");
    harness_ok(load_dir(&c, scratch_root));
    assert_true(c.arch.encoder.layers == 2 && c.rules.suppress_id_count == 1 && c.rules.suppress_ids[0] == 5);

    /* A separate decoder vocabulary requires a separate embedding table. */
    harness_ok(load(&c, "{\"decoder_vocab_size\": 7000}"));
    assert_int_equal(c.arch.decoder.vocabulary, 6001);
    harness_ok(load(&c, "{\"decoder_vocab_size\": 7000, \"share_encoder_decoder_embeddings\": false}"));
    assert_int_equal(c.arch.decoder.vocabulary, 7000);
    harness_ok(load(&c, "{\"decoder_vocab_size\": null, \"share_encoder_decoder_embeddings\": false}"));
    assert_int_equal(c.arch.decoder.vocabulary, 6001);

    harness_ok(load(&c, "{\"position_embedding_type\": \"absolute\", \"alibi\": false}"));
    harness_ok(load(&c, "{\"position_embedding_type\": \"sinusoidal\"}"));
    harness_ok(load(&c, "{\"extra_pos_embeddings\": 3}"));
    assert_int_equal(c.arch.encoder.position_offset, 0);
    harness_ok(load(&c, "{\"extra_pos_embeddings\": 58101}")); /* as converted models have it */
    assert_int_equal(c.arch.encoder.position_offset, 0);
    harness_ok(load(&c, "{\"static_position_embeddings\": false}"));
    assert_int_equal(c.arch.encoder.position_offset, 2);
    harness_ok(load(&c, "{\"static_position_embeddings\": false, \"extra_pos_embeddings\": 3}"));
    assert_int_equal(c.arch.encoder.position_offset, 3);

    static const struct {
        const char *changes;
        tfm_activation activation;
    } ACTIVATIONS[] = {
        {"{\"activation_function\": \"relu\"}", TFM_RELU},          {"{\"activation_function\": \"swish\"}", TFM_SILU},
        {"{\"activation_function\": \"silu\"}", TFM_SILU},          {"{\"activation_function\": \"gelu\"}", TFM_GELU},
        {"{\"activation_function\": \"gelu_new\"}", TFM_GELU_TANH}, {"{\"activation_function\": null}", TFM_GELU},
    };
    for (size_t i = 0; i < TFM__COUNT(ACTIVATIONS); i++) {
        harness_ok(load(&c, ACTIVATIONS[i].changes));
        assert_int_equal(c.arch.encoder.activation, ACTIVATIONS[i].activation);
    }
}

static void test_generation_config_precedes_config(void **state) {
    (void)state;
    said c;
    scratch_text("generation_config.json",
                 "{\"num_beams\": 6, \"length_penalty\": 0.5, \"max_length\": null, \"eos_token_id\": [7, 8],"
                 "\"bad_words_ids\": [[5], [1, 2], [7], [6]], \"d_model\": 7}");
    harness_ok(load(&c, "{\"length_penalty\": 2, \"max_length\": 100}"));
    assert_true(c.rules.num_beams == 6 && c.rules.has_length_penalty && c.rules.eos_id == 7 &&
                c.arch.encoder.width == 128);
    assert_true(c.rules.length_penalty > 0.4999 && c.rules.length_penalty < 0.5001);
    assert_true(c.rules.suppress_id_count == 2 && c.rules.suppress_ids[0] == 5 && c.rules.suppress_ids[1] == 6);
    assert_true(c.rules.bad_word_count == 1 && c.rules.bad_words[1] == 2 && c.rules.bad_word_ids[0] == 1 &&
                c.rules.bad_word_ids[1] == 2);

    /* forced_eos_token_id comes from generation_config.json alone, if it exists. */
    harness_ok(load(&c, "{\"forced_eos_token_id\": 3}"));
    assert_int_equal(c.rules.forced_eos_id, -1);
    scratch_text("generation_config.json", "{\"forced_eos_token_id\": 4}");
    harness_ok(load(&c, "{\"forced_eos_token_id\": 3}"));
    assert_int_equal(c.rules.forced_eos_id, 4);
    assert_int_equal(remove(scratch_path("generation_config.json")), 0);
    harness_ok(load(&c, "{\"forced_eos_token_id\": 3}"));
    assert_int_equal(c.rules.forced_eos_id, 3);
    /* If neither file has it, or one has null, there is none. */
    scratch_text("config.json", "{\"model_type\": \"marian\", \"eos_token_id\": 5}");
    harness_ok(load_dir(&c, scratch_path(".")));
    assert_int_equal(c.rules.forced_eos_id, -1);
    scratch_text("config.json", "{\"model_type\": \"marian\", \"forced_eos_token_id\": null}");
    harness_ok(load_dir(&c, scratch_path(".")));
    assert_int_equal(c.rules.forced_eos_id, -1);
    /* An overridden id must still be valid, since other readers may use config.json alone. */
    scratch_text("generation_config.json", "{\"decoder_start_token_id\": 6000}");
    harness_ok(load(&c, "{\"decoder_start_token_id\": 7}"));
    assert_int_equal(c.rules.start_id, 6000);
    scratch_refused(load(&c, "{\"decoder_start_token_id\": 6001}"), TFM_ERROR_FORMAT,
                    "/config.json: `decoder_start_token_id` is 6001; an integer from 0 to 6000");
    scratch_text("generation_config.json", "{\"decoder_start_token_id\": 6001}");
    scratch_refused(load(&c, "{\"decoder_start_token_id\": 7}"), TFM_ERROR_FORMAT,
                    "/generation_config.json: `decoder_start_token_id` is 6001; an integer from 0 to 6000");
    scratch_text("generation_config.json", "{\"num_beams\": \"six\"}");
    scratch_refused(load(&c, "{}"), TFM_ERROR_FORMAT, "generation_config.json: `num_beams` is \"six\"");
    scratch_text("generation_config.json", "");
    scratch_refused(load(&c, "{}"), TFM_ERROR_FORMAT, "generation_config.json is empty");
    /* Search options come from generation_config.json alone, if it exists, as in transformers. */
    static const char search[] = "{\"length_penalty\": 2, \"num_beams\": 3, \"bad_words_ids\": [[5]], "
                                 "\"suppress_tokens\": [6], \"no_repeat_ngram_size\": 2, "
                                 "\"forced_bos_token_id\": 9, \"min_length\": 4}";
    scratch_text("generation_config.json", "{}");
    harness_ok(load(&c, search));
    assert_true(!c.rules.has_length_penalty && c.rules.num_beams == 0 && c.rules.suppress_id_count == 0 &&
                c.rules.no_repeat_ngram == 0 && c.rules.forced_bos_id == -1 && c.rules.sampling.min_new_tokens == 0);
    assert_int_equal(remove(scratch_path("generation_config.json")), 0);
    harness_ok(load(&c, search));
    assert_true(c.rules.has_length_penalty && c.rules.length_penalty > 1.9 && c.rules.num_beams == 3 &&
                c.rules.suppress_id_count == 2 && c.rules.no_repeat_ngram == 2 && c.rules.forced_bos_id == 9 &&
                c.rules.sampling.min_new_tokens == 3);
    /* M2M-100 positions start after the network's padding id, not the search's. */
    scratch_text("generation_config.json", "{\"pad_token_id\": 7}");
    scratch_text("config.json", "{\"model_type\": \"m2m_100\", \"pad_token_id\": 3}");
    harness_ok(load_dir(&c, scratch_root));
    assert_true(c.rules.pad_id == 7 && c.arch.encoder.position_offset == 4 && c.arch.decoder.position_offset == 4);
    assert_int_equal(remove(scratch_path("generation_config.json")), 0);
}

static int warnings;

static void count_warnings(void *user, tfm_log_level level, const char *line) {
    (void)user, (void)level;
    warnings += strstr(line, "it is ignored") || strstr(line, "is [0,3]; the first one is used");
}

static void count_words(void *user, tfm_log_level level, const char *line) {
    (void)user, (void)level;
    warnings += strstr(line, "too many words: 3 of them are not suppressed, the first is [7,8]") != NULL;
}

/* Bad words beyond the limit are counted in one message. */
static void test_surplus_bad_words_give_one_warning(void **state) {
    (void)state;
    said c;
    json_t *root = json_object(), *words = json_array();
    for (int i = 0; i < TFM__MAX_BAD_WORDS + 3; i++)
        json_array_append_new(words, json_pack("[i, i]", 7, i < TFM__MAX_BAD_WORDS ? 6 : 8));
    json_object_set_new(root, "bad_words_ids", words);
    char *text = json_dumps(root, 0);
    warnings = 0;
    tfm_log_set(count_words, NULL, TFM_LOG_WARNING);
    harness_ok(load(&c, text));
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    assert_int_equal(warnings, 1);
    assert_int_equal(c.rules.bad_word_count, TFM__MAX_BAD_WORDS);
    free(text);
    json_decref(root);
}

/* Unsupported search options are reported if they have an effect. */
/* Early Gemma models say "gelu" and mean the tanh approximation; other names of the exact one are taken literally. */
static void test_gelu_of_gemma_is_the_tanh_approximation(void **state) {
    (void)state;
    static const struct {
        const char *name;
        tfm_activation activation;
    } all[] = {{"gelu", TFM_GELU_TANH}, {"gelu_python", TFM_GELU}, {"gelu_pytorch_tanh", TFM_GELU_TANH}};
    said c;
    for (size_t i = 0; i < TFM__COUNT(all); i++) {
        char text[128];
        snprintf(text, sizeof(text), "{\"model_type\": \"gemma\", \"hidden_act\": \"%s\"}", all[i].name);
        scratch_text("config.json", text);
        harness_ok(load_dir(&c, scratch_root));
        assert_int_equal(c.arch.decoder.activation, all[i].activation);
    }
}

static void test_unsupported_generation_keys_give_warnings(void **state) {
    (void)state;
    said c;
    tfm_log_set(count_warnings, NULL, TFM_LOG_WARNING);
    scratch_text("generation_config.json",
                 "{\"penalty_alpha\": 0.5, \"guidance_scale\": 1.0, \"do_sample\": false, \"force_words_ids\": "
                 "[], \"num_beam_groups\": null}");
    harness_ok(load(&c, "{\"penalty_alpha\": 1.2, \"do_sample\": true, \"dola_layers\": \"high\"}"));
    assert_int_equal(warnings, 1); /* config.json is ignored next to a generation_config.json */
    /* Rules that apply to translation, but not to text generation. */
    warnings = 0;
    scratch_text("generation_config.json",
                 "{\"forced_bos_token_id\": 3, \"forced_eos_token_id\": 4, \"stop_strings\": [\"a\"]}");
    harness_ok(load(&c, "{}"));
    assert_int_equal(warnings, 1);
    scratch_text("config.json", "{\"model_type\": \"gpt2\"}");
    harness_ok(load_dir(&c, scratch_path(".")));
    assert_int_equal(warnings, 3);
    warnings = 2;
    remove(scratch_path("generation_config.json"));
    harness_ok(load(&c, "{\"penalty_alpha\": 1.2, \"do_sample\": true, \"dola_layers\": \"high\"}"));
    assert_int_equal(warnings, 5);
    scratch_refused(load(&c, "{\"guidance_scale\": 5}"), TFM_ERROR_UNSUPPORTED, "`guidance_scale` is 5");
    scratch_refused(load(&c, "{\"watermarking_config\": {\"bias\": 2}}"), TFM_ERROR_UNSUPPORTED,
                    "`watermarking_config` is");
    harness_ok(load(&c, "{\"typical_p\": 1.0, \"epsilon_cutoff\": 0.0, \"num_return_sequences\": 1, "
                        "\"token_healing\": false}"));
    assert_int_equal(warnings, 5);
    harness_ok(load(&c, "{\"typical_p\": 0.5, \"epsilon_cutoff\": 0.1, \"eta_cutoff\": 0.1, \"top_h\": 0.4, "
                        "\"num_return_sequences\": 2}"));
    assert_int_equal(warnings, 10);
    warnings = 5;
    harness_ok(load(&c, "{\"early_stopping\": true, \"eos_token_id\": [0]}"));
    assert_int_equal(warnings, 5);
    assert_int_equal(c.rules.sampling.early_stopping, TFM__EARLY_TRUE);
    harness_ok(load(&c, "{\"early_stopping\": false, \"forced_bos_token_id\": [0, 3]}"));
    assert_int_equal(warnings, 6);
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
}

/* Search options of transformers other than beams and length penalty. */
static void test_generation_config_keys_set_search(void **state) {
    (void)state;
    said c;
    scratch_text("generation_config.json",
                 "{\"num_beams\": 4, \"min_length\": 12, \"max_length\": 40, \"no_repeat_ngram_size\": 3, "
                 "\"repetition_penalty\": 1.25, \"renormalize_logits\": true, "
                 "\"sequence_bias\": [[[4], 1.5], [[6, 7], -2]], \"early_stopping\": \"never\", "
                 "\"suppress_tokens\": [5, -1, 9], \"begin_suppress_tokens\": [7, 6001], "
                 "\"bad_words_ids\": [[8], [3]], \"eos_token_id\": [0, 3], \"encoder_repetition_penalty\": 1.5, "
                 "\"encoder_no_repeat_ngram_size\": 4, \"exponential_decay_length_penalty\": [6, 1.25], "
                 "\"forced_eos_token_id\": [3, 3]}");
    harness_ok(load(&c, "{}"));
    assert_true(c.rules.sampling.encoder_repetition_penalty == 1.5 && c.rules.sampling.encoder_no_repeat_ngram == 4);
    assert_true(c.rules.sampling.length_decay_from == 6 && c.rules.sampling.length_decay == 1.25 &&
                c.rules.forced_eos_id == 3);
    assert_true(c.rules.sampling.min_new_tokens == 11 && c.rules.sampling.max_length == 40 &&
                c.rules.no_repeat_ngram == 3);
    assert_true(fabs(c.rules.sampling.repetition_penalty - 1.25) < 1e-9 && c.rules.renormalize_logits);
    assert_true(c.rules.suppress_id_count == 3 && c.rules.suppress_ids[0] == 8 && c.rules.suppress_ids[1] == 5 &&
                c.rules.suppress_ids[2] == 9);
    assert_true(c.rules.begin_suppress_count == 1 && c.rules.begin_suppress_ids[0] == 7);
    assert_true(c.rules.eos_id == 0 && c.rules.eos_id_count == 2 && tfm__generation_is_eos(&c.rules, 3));
    assert_true(c.rules.sequence_bias_count == 2 && c.rules.sequence_bias_starts[2] == 3 &&
                c.rules.sequence_bias_ids[2] == 7);
    assert_true(c.rules.bias[0] == 1.5f && c.rules.bias[1] == -2.0f);
    /* The saved file has the same values. */
    json_t *saved = tfm__write_generation_rules(&c.rules, 512);
    assert_int_equal(json_dump_file(saved, scratch_path("generation_config.json"), 0), 0);
    json_decref(saved);
    said again;
    harness_ok(load(&again, "{}"));
    assert_memory_equal(&again.rules, &c.rules, sizeof(c.rules));
    scratch_text("generation_config.json", "{\"min_length\": 12, \"min_new_tokens\": 3}");
    harness_ok(load(&c, "{}"));
    assert_int_equal(c.rules.sampling.min_new_tokens, 3);
    scratch_text("generation_config.json", "{\"exponential_decay_length_penalty\": [1.5, 2]}");
    scratch_refused(load(&c, "{}"), TFM_ERROR_FORMAT, "`exponential_decay_length_penalty` is [1.5,2]; a list of");
    scratch_text("generation_config.json", "{\"forced_eos_token_id\": [9, 3]}");
    scratch_refused(load(&c, "{}"), TFM_ERROR_UNSUPPORTED, "`forced_eos_token_id` is [9,3]; beam search");
    /* A text that goes on has its prompt counted. */
    scratch_text("config.json", "{\"model_type\": \"gpt2\"}");
    scratch_text("generation_config.json", "{\"min_length\": 12, \"forced_eos_token_id\": 4}");
    harness_ok(load_dir(&c, scratch_root));
    assert_true(c.rules.sampling.min_length == 12 && c.rules.sampling.min_new_tokens == 0 &&
                c.rules.forced_eos_id == 4);
    assert_int_equal(remove(scratch_path("generation_config.json")), 0);
}

/* Size keys common to all transformers configurations take precedence over others. */
static void test_common_size_names_precede_own_names(void **state) {
    (void)state;
    said c;
    harness_ok(load(&c, "{\"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 8}"));
    assert_true(c.arch.encoder.width == 64 && c.arch.decoder.width == 64 && c.arch.encoder.layers == 2);
    assert_true(c.arch.decoder.layers == 4 && c.arch.encoder.heads == 8 && c.arch.decoder.heads == 4);
    scratch_text("config.json",
                 "{\"model_type\": \"t5\", \"num_layers\": 3, \"num_hidden_layers\": 2, \"hidden_size\": 32, "
                 "\"head_dim\": 7, \"num_attention_heads\": 5}");
    harness_ok(load_dir(&c, scratch_root));
    assert_true(c.arch.encoder.layers == 2 && c.arch.decoder.layers == 3 && c.arch.encoder.width == 32);
    assert_true(c.arch.encoder.head_width == 7 && c.arch.decoder.heads == 5);
}

/* T5's feed-forward layers: explicit keys override what the combined key implies. */
static void test_t5_feed_forward_proj_sets_activation_and_gate(void **state) {
    (void)state;
    static const struct {
        const char *keys;
        tfm_activation activation;
        bool gated;
        const char *written;
    } CASES[] = {
        {"\"feed_forward_proj\": \"gated-gelu\"", TFM_GELU_TANH, true, "gated-gelu"},
        {"\"feed_forward_proj\": \"gelu\"", TFM_GELU, false, "gelu"},
        {"\"feed_forward_proj\": \"gated-gelu\", \"dense_act_fn\": \"gelu\"", TFM_GELU, true, "gated-gelu_python"},
        {"\"feed_forward_proj\": \"gated-gelu_python\"", TFM_GELU, true, "gated-gelu_python"},
        {"\"feed_forward_proj\": \"gated-silu\", \"is_gated_act\": false", TFM_SILU, false, "silu"},
        {"\"is_gated_act\": true", TFM_RELU, true, "gated-relu"},
    };
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        said c;
        char text[256];
        snprintf(text, sizeof(text), "{\"model_type\": \"t5\", %s}", CASES[i].keys);
        scratch_text("config.json", text);
        harness_ok(load_dir(&c, scratch_root));
        assert_int_equal(c.arch.decoder.activation, CASES[i].activation);
        assert_int_equal(c.arch.encoder.gated, CASES[i].gated);
        json_t *saved = tfm__family_t5.write(&tfm__family_t5, &c.arch, &c.rules);
        assert_string_equal(json_string_value(json_object_get(saved, "feed_forward_proj")), CASES[i].written);
        json_decref(saved);
    }
}

static void test_invalid_config_is_rejected(void **state) {
    (void)state;
    static const struct {
        const char *changes, *part;
        tfm_status status;
    } CASES[] = {
        {"{\"model_type\": \"longt5\"}", "`model_type` is \"longt5\"; supported families are", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": 3}", "`model_type` is 3", TFM_ERROR_FORMAT},
        {"{\"model_type\": null, \"architectures\": [\"LongT5Model\"]}", "LongT5Model", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": null, \"architectures\": [\"PhimoeForCausalLM\"]}", "PhimoeForCausalLM",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": null, \"architectures\": [\"Qwen3VLForConditionalGeneration\"]}", "Qwen3VL",
         TFM_ERROR_UNSUPPORTED},
        {"{\"architectures\": [\"MarianForCausalLM\"]}", "`architectures` has \"MarianForCausalLM\"",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"bart\", \"architectures\": [\"BartForSequenceClassification\"]}",
         "`architectures` has \"BartForSequenceClassification\"", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"t5\", \"architectures\": [\"T5ForTokenClassification\"]}",
         "`architectures` has \"T5ForTokenClassification\"", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": null, \"architectures\": null}", "`model_type` is nothing", TFM_ERROR_FORMAT},
        {"{\"activation_function\": \"xielu\"}", "`activation_function` is \"xielu\"; \"relu\",",
         TFM_ERROR_UNSUPPORTED},
        {"{\"activation_function\": true}", "`activation_function` is true", TFM_ERROR_FORMAT},
        {"{\"d_model\": 0}", "config.json: `d_model` is 0; an integer from 1 to 1048576 is allowed", TFM_ERROR_FORMAT},
        {"{\"d_model\": -128}", "`d_model` is -128", TFM_ERROR_FORMAT},
        {"{\"d_model\": 128.0}", "`d_model` is 128.0", TFM_ERROR_FORMAT},
        {"{\"d_model\": \"128\"}", "`d_model` is \"128\"", TFM_ERROR_FORMAT},
        {"{\"d_model\": [128]}", "`d_model` is [128]", TFM_ERROR_FORMAT},
        {"{\"d_model\": true}", "`d_model` is true", TFM_ERROR_FORMAT},
        {"{\"d_model\": 4294967424}", "`d_model` is 4294967424", TFM_ERROR_FORMAT},
        {"{\"d_model\": 130}", "`encoder_attention_heads` is 4; it must divide `d_model`, which is 130",
         TFM_ERROR_FORMAT},
        {"{\"decoder_attention_heads\": 3}", "`decoder_attention_heads` is 3; it must divide", TFM_ERROR_FORMAT},
        {"{\"encoder_attention_heads\": 0}", "`encoder_attention_heads` is 0", TFM_ERROR_FORMAT},
        {"{\"encoder_layers\": 0}", "`encoder_layers`", TFM_ERROR_FORMAT},
        {"{\"decoder_layers\": 100000}", "`decoder_layers` is 100000", TFM_ERROR_FORMAT},
        {"{\"encoder_ffn_dim\": 99999999}", "`encoder_ffn_dim`", TFM_ERROR_FORMAT},
        {"{\"decoder_ffn_dim\": 0}", "`decoder_ffn_dim`", TFM_ERROR_FORMAT},
        {"{\"vocab_size\": 2000000000}", "`vocab_size`", TFM_ERROR_FORMAT},
        {"{\"decoder_vocab_size\": 0}", "`decoder_vocab_size`", TFM_ERROR_FORMAT},
        {"{\"max_position_embeddings\": 0}", "`max_position_embeddings`", TFM_ERROR_FORMAT},
        {"{\"scale_embedding\": 1}", "`scale_embedding` is 1; true or false is allowed", TFM_ERROR_FORMAT},
        {"{\"normalize_before\": \"no\"}", "`normalize_before` is \"no\"", TFM_ERROR_FORMAT},
        {"{\"pad_token_id\": 6001}", "`pad_token_id` is 6001; an integer from 0 to 6000", TFM_ERROR_FORMAT},
        {"{\"pad_token_id\": null}", "no `pad_token_id`, and the default, 58100, is outside", TFM_ERROR_FORMAT},
        {"{\"eos_token_id\": -1}", "`eos_token_id` is -1", TFM_ERROR_FORMAT},
        {"{\"eos_token_id\": [\"a\"]}", "`eos_token_id` is \"a\"", TFM_ERROR_FORMAT},
        {"{\"vocab_size\": 5000}", "`pad_token_id` is 6000; an integer from 0 to 4999", TFM_ERROR_FORMAT},
        {"{\"forced_bos_token_id\": 9999}", "`forced_bos_token_id`", TFM_ERROR_FORMAT},
        {"{\"bad_words_ids\": 3}", "`bad_words_ids` is 3", TFM_ERROR_FORMAT},
        {"{\"bad_words_ids\": [3]}", "`bad_words_ids` holds 3", TFM_ERROR_FORMAT},
        {"{\"bad_words_ids\": [[]]}", "`bad_words_ids` holds []", TFM_ERROR_FORMAT},
        {"{\"bad_words_ids\": [[6001]]}", "`bad_words_ids` is 6001", TFM_ERROR_FORMAT},
        {"{\"sequence_bias\": {\"5\": 1.0}}", "`sequence_bias` is {\"5\":1.0}", TFM_ERROR_FORMAT},
        {"{\"sequence_bias\": [[[5], 1.0], [5, 1.0]]}", "`sequence_bias` holds [5,1.0]", TFM_ERROR_FORMAT},
        {"{\"sequence_bias\": [[[6001], 1.0]]}", "`sequence_bias` is 6001", TFM_ERROR_FORMAT},
        {"{\"suppress_tokens\": 5}", "`suppress_tokens` is 5; a list of ids", TFM_ERROR_FORMAT},
        {"{\"no_repeat_ngram_size\": -1}", "`no_repeat_ngram_size` is -1", TFM_ERROR_FORMAT},
        {"{\"num_beams\": 0}", "`num_beams` is 0", TFM_ERROR_FORMAT},
        {"{\"length_penalty\": \"1\"}", "`length_penalty` is \"1\"", TFM_ERROR_FORMAT},
        {"{\"static_position_embeddings\": false, \"extra_pos_embeddings\": 58101}", "`extra_pos_embeddings` is 58101",
         TFM_ERROR_FORMAT},
        {"{\"quantization_config\": {\"bits\": 4, \"quant_method\": \"eetq\"}}",
         "`quantization_config` says that the weights are quantized (\"eetq\")", TFM_ERROR_UNSUPPORTED},
        {"{\"quantization_config\": 8}", "quantized (8)", TFM_ERROR_UNSUPPORTED},
        {"{\"position_embedding_type\": \"relative_key\"}", "`position_embedding_type` is \"relative_key\", which",
         TFM_ERROR_UNSUPPORTED},
        {"{\"position_embedding_type\": \"learned\"}", "`position_embedding_type` is \"learned\"",
         TFM_ERROR_UNSUPPORTED},
        {"{\"position_embeddings_type\": 3}", "`position_embeddings_type` is 3", TFM_ERROR_UNSUPPORTED},
        {"{\"rope_scaling\": {\"factor\": 2.0}}", "`rope_scaling` selects positions", TFM_ERROR_UNSUPPORTED},
        {"{\"alibi\": true}", "`alibi` selects positions", TFM_ERROR_UNSUPPORTED},
        {"{\"length_penalty\": 1e300}", "`length_penalty` is", TFM_ERROR_FORMAT},
    };
    said c;
    for (size_t i = 0; i < TFM__COUNT(CASES); i++)
        scratch_refused(load(&c, CASES[i].changes), CASES[i].status, CASES[i].part);
    scratch_text("config.json", "{\"model_type\": \"marian\",\n \"d_model\": }");
    scratch_refused(load_dir(&c, scratch_root), TFM_ERROR_FORMAT, "config.json is not JSON: line 2");
    scratch_text("config.json", "version https://git-lfs.github.com/spec/v1\noid sha256:01\nsize 9\n");
    scratch_refused(load_dir(&c, scratch_root), TFM_ERROR_FORMAT, "config.json is a pointer of Git LFS");
    scratch_text("config.json", " <!DOCTYPE html>");
    scratch_refused(load_dir(&c, scratch_root), TFM_ERROR_FORMAT, "config.json is a web page");
    scratch_text("config.json", "[]");
    scratch_refused(load_dir(&c, scratch_root), TFM_ERROR_FORMAT, "holds a list");
    scratch_text("config.json", "{\"d_model\": 8, \"d_model\": 8}");
    scratch_refused(load_dir(&c, scratch_root), TFM_ERROR_FORMAT, "duplicate");
    scratch_refused(load_dir(&c, scratch_path("absent")), TFM_ERROR_IO,
                    "absent/config.json: there is no such directory");
    assert_int_equal(unlink(scratch_path("config.json")), 0);
    scratch_refused(load_dir(&c, scratch_root), TFM_ERROR_IO, "config.json: there is no such file; give the folder");
}

/* For any file content, an accepted configuration is usable. */
static void test_damaged_config_is_rejected_or_computable(void **state) {
    (void)state;
    const size_t length = strlen(BASE);
    unsigned char *bytes = malloc(length);
    assert_non_null(bytes);
    harness_random random = {7};
    unsigned accepted = 0;
    for (int i = 0; i < 3000; i++) {
        size_t size = length;
        memcpy(bytes, BASE, length);
        for (int64_t k = harness_range(&random, 1, 2); k > 0 && size > 0; k--)
            scratch_damage(&random, bytes, &size);
        scratch_write("config.json", bytes, size);
        said c;
        if (load_dir(&c, scratch_root) != TFM_OK)
            continue;
        accepted++;
        assert_true(c.arch.encoder.width > 0 && c.arch.encoder.width % c.arch.encoder.heads == 0 &&
                    c.arch.encoder.width % c.arch.decoder.heads == 0);
        assert_true(c.arch.encoder.vocabulary > c.rules.pad_id && c.arch.decoder.vocabulary > c.rules.start_id &&
                    c.rules.start_id >= 0);
        assert_true(c.arch.encoder.feed_forward > 0 && c.arch.decoder.max_positions > 0 && c.arch.encoder.layers > 0 &&
                    c.rules.num_beams >= 0);
    }
    assert_in_range(accepted, 100, 2000);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_of_demo_is_read),
        cmocka_unit_test(test_config_defaults_are_those_of_marian),
        cmocka_unit_test(test_config_keys_set_architecture),
        cmocka_unit_test(test_generation_config_precedes_config),
        cmocka_unit_test(test_gelu_of_gemma_is_the_tanh_approximation),
        cmocka_unit_test(test_unsupported_generation_keys_give_warnings),
        cmocka_unit_test(test_surplus_bad_words_give_one_warning),
        cmocka_unit_test(test_generation_config_keys_set_search),
        cmocka_unit_test(test_common_size_names_precede_own_names),
        cmocka_unit_test(test_t5_feed_forward_proj_sets_activation_and_gate),
        cmocka_unit_test(test_invalid_config_is_rejected),
        cmocka_unit_test(test_damaged_config_is_rejected_or_computable),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
