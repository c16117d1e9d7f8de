/* Configurations of decoder-only models: every key spelling, defaults, rejected values; and save round trips. */
#include <dirent.h>
#include <math.h>
#include "base/json.h"
#include "support/decoder_models.h"

/* Defaults of transformers' configuration classes. */
static void test_decoder_defaults_are_those_of_transformers(void **state) {
    (void)state;
    static const struct {
        const char *type;
        int width, feed_forward, layers, heads, kv_heads, head_width, positions, vocabulary, window;
        double theta;
        bool tied;
    } CASES[] = {
        {"gpt2", 768, 3072, 12, 12, 12, 64, 1024, 50257, 0, 0, true},
        {"llama", 4096, 11008, 32, 32, 32, 128, 2048, 32000, 0, 1e4, false},
        {"mistral", 4096, 14336, 32, 32, 8, 128, 131072, 32000, 4096, 1e4, false},
        {"ministral", 4096, 14336, 32, 32, 8, 128, 131072, 32000, 4096, 1e4, false},
        {"qwen2", 4096, 22016, 32, 32, 32, 128, 32768, 151936, 0, 1e4, false},
        {"qwen3", 4096, 22016, 32, 32, 32, 128, 32768, 151936, 0, 1e4, false},
        {"smollm3", 2048, 11008, 36, 16, 4, 128, 32768, 128256, 0, 2e6, true},
        {"phi3", 3072, 8192, 32, 32, 32, 96, 4096, 32064, 0, 1e4, false},
        {"gemma", 3072, 24576, 28, 16, 16, 256, 8192, 256000, 0, 1e4, true},
        {"gemma2", 2304, 9216, 26, 8, 4, 256, 8192, 256000, 4096, 1e4, true},
        {"gemma3_text", 2304, 9216, 26, 8, 4, 256, 131072, 262208, 4096, 1e6, true},
        {"starcoder2", 3072, 12288, 30, 24, 2, 128, 4096, 49152, 0, 1e4, true},
        {"granite", 4096, 11008, 32, 32, 32, 128, 2048, 32000, 0, 1e4, false},
        {"olmo2", 4096, 11008, 32, 32, 32, 128, 2048, 50304, 0, 1e4, false},
    };
    said *c = malloc(sizeof(*c));
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        char config[64];
        snprintf(config, sizeof(config), "{\"model_type\": \"%s\"}", CASES[i].type);
        harness_ok(load(c, config));
        const tfm__stack_arch *s = &c->arch.decoder;
        assert_string_equal(c->family->name, CASES[i].type);
        assert_true(c->arch.encoder.layers == 0 && s->causal && !s->cross && s->final_norm);
        assert_int_equal(s->width, CASES[i].width);
        assert_int_equal(s->feed_forward, CASES[i].feed_forward);
        assert_int_equal(s->layers, CASES[i].layers);
        assert_int_equal(s->heads, CASES[i].heads);
        assert_int_equal(s->kv_heads, CASES[i].kv_heads);
        assert_int_equal(s->head_width, CASES[i].head_width);
        assert_int_equal(s->max_positions, CASES[i].positions);
        assert_int_equal(s->vocabulary, CASES[i].vocabulary);
        assert_int_equal(s->window, CASES[i].window);
        assert_true(s->rotary.config.theta == CASES[i].theta);
        assert_int_equal(s->rotary.width, CASES[i].theta == 0 ? 0 : CASES[i].head_width);
        assert_int_equal(c->arch.tied_embeddings, CASES[i].tied);
        assert_true(c->rules.decoder_only && c->rules.eos_id_count == 0);
        assert_true(c->rules.eos_id == -1 && c->rules.start_id == -1 && c->rules.pad_id == -1);
    }
    free(c);
}

/* Two spellings of one key. */
static void test_alternative_config_spellings_are_equal(void **state) {
    (void)state;
    static const char *const PAIRS[][2] = {
        {"{\"model_type\": \"llama\", " DECODER_SIZES
         ", \"rope_theta\": 70.0, \"rope_scaling\": {\"type\": \"linear\", "
         "\"factor\": 2.0}, \"torch_dtype\": \"float16\"}",
         "{\"model_type\": \"llama\", " DECODER_SIZES ", \"rope_parameters\": {\"rope_type\": \"linear\", "
         "\"rope_theta\": 70, \"factor\": 2}, \"dtype\": \"float16\", \"head_dim\": 6}"},
        {"{\"model_type\": \"gemma3_text\", " DECODER_SIZES ", \"rope_theta\": 9e5, \"rope_local_base_freq\": 7e3, "
         "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8.0}, \"sliding_window_pattern\": 2}",
         "{\"model_type\": \"gemma3_text\", " DECODER_SIZES
         ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": "
         "\"linear\", \"factor\": 8, \"rope_theta\": 900000}, \"sliding_attention\": {\"rope_type\": \"default\", "
         "\"rope_theta\": 7000}}, \"layer_types\": [\"sliding_attention\", \"full_attention\", "
         "\"sliding_attention\"]}"},
        /* Of two objects the older one's keys override the other's; the type key is then `rope_type`. */
        {"{\"model_type\": \"gemma3_text\", " DECODER_SIZES
         ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 4.0}, \"rope_parameters\": {\"full_attention\": "
         "{\"rope_type\": \"default\", \"rope_theta\": 900}, \"sliding_attention\": {\"rope_theta\": 60}}}",
         "{\"model_type\": \"gemma3_text\", " DECODER_SIZES
         ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 4, \"rope_theta\": 900}, "
         "\"sliding_attention\": {\"rope_theta\": 60}}}"},
        {"{\"model_type\": \"gemma3_text\", " DECODER_SIZES
         ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4.0}, \"rope_theta\": 900}",
         "{\"model_type\": \"gemma3_text\", " DECODER_SIZES ", \"rope_theta\": 900}"},
        {"{\"model_type\": \"mistral\", " DECODER_SIZES
         ", \"sliding_window\": 7, \"layer_types\": [\"full_attention\", "
         "\"sliding_attention\", \"full_attention\"]}",
         "{\"model_type\": \"ministral\", " DECODER_SIZES ", \"sliding_window\": 7, \"layer_types\": "
         "[\"full_attention\", \"sliding_attention\", \"full_attention\"]}"},
        {"{\"model_type\": \"mistral\", " DECODER_SIZES ", \"sliding_window\": 7}",
         "{\"model_type\": \"mistral\", " DECODER_SIZES ", \"sliding_window\": 7, \"layer_types\": "
         "[\"sliding_attention\", \"sliding_attention\", \"sliding_attention\"]}"},
        {"{\"model_type\": \"qwen2\", " DECODER_SIZES ", \"use_sliding_window\": true, \"sliding_window\": 7, "
         "\"max_window_layers\": 2}",
         "{\"model_type\": \"qwen2\", " DECODER_SIZES ", \"use_sliding_window\": true, \"sliding_window\": 7, "
         "\"layer_types\": [\"full_attention\", \"full_attention\", \"sliding_attention\"]}"},
        {"{\"model_type\": \"gpt2\", \"n_embd\": 24, \"n_layer\": 3, \"n_head\": 4, \"n_positions\": 30}",
         "{\"model_type\": \"gpt2\", \"n_embd\": 12, \"hidden_size\": 24, \"num_hidden_layers\": 3, "
         "\"num_attention_heads\": 4, \"max_position_embeddings\": 30}"},
        {"{\"model_type\": \"smollm3\", " DECODER_SIZES ", \"no_rope_layers\": [1, 0, 1]}",
         "{\"model_type\": \"smollm3\", " DECODER_SIZES ", \"no_rope_layers\": [1, 0, 1, 0, 1], "
         "\"layer_types\": [\"attention\", \"full_attention\", \"attention\"]}"},
        /* Full RoPE there; of several RoPE settings each has its own training length. */
        {"{\"model_type\": \"qwen2\", " DECODER_SIZES "}",
         "{\"model_type\": \"qwen2\", " DECODER_SIZES ", \"partial_rotary_factor\": 0.5}"},
        {"{\"model_type\": \"gemma3_text\", " DECODER_SIZES
         ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"llama3\", "
         "\"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4}}}",
         "{\"model_type\": \"gemma3_text\", " DECODER_SIZES
         ", \"original_max_position_embeddings\": 5, \"rope_parameters\": "
         "{\"full_attention\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
         "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 64}}}"},
        {"{\"model_type\": \"phi3\", " DECODER_SIZES ", \"head_dim\": 8, \"partial_rotary_factor\": 0.5, "
         "\"original_max_position_embeddings\": 8, \"rope_scaling\": {\"type\": \"yarn\", \"short_factor\": [1, 2], "
         "\"long_factor\": [3, 4]}}",
         "{\"model_type\": \"phi3\", " DECODER_SIZES ", \"head_dim\": 8, \"original_max_position_embeddings\": 8, "
         "\"rope_parameters\": {\"rope_type\": \"longrope\", \"partial_rotary_factor\": 0.5, \"rope_theta\": 10000.0, "
         "\"short_factor\": [1.0, 2.0], \"long_factor\": [3.0, 4.0]}}"},
    };
    said *a = malloc(sizeof(*a)), *b = malloc(sizeof(*b));
    for (size_t i = 0; i < TFM__COUNT(PAIRS); i++) {
        memset(a, 0, sizeof(*a));
        memset(b, 0, sizeof(*b));
        harness_ok(load(a, PAIRS[i][0]));
        harness_ok(load(b, PAIRS[i][1]));
        const tfm__stack_arch *x = &a->arch.decoder, *y = &b->arch.decoder;
        assert_memory_equal(x->rotary.inv_freq, y->rotary.inv_freq, sizeof(x->rotary.inv_freq));
        assert_memory_equal(x->rotary.inv_freq_long, y->rotary.inv_freq_long, sizeof(x->rotary.inv_freq_long));
        assert_memory_equal(x->local_rotary.inv_freq, y->local_rotary.inv_freq, sizeof(x->local_rotary.inv_freq));
        assert_memory_equal(x->layer, y->layer, sizeof(x->layer));
        assert_true(x->rotary.scale == y->rotary.scale && x->rotary.switch_length == y->rotary.switch_length &&
                    x->window == y->window && x->rotary.width == y->rotary.width && x->head_width == y->head_width);
        assert_true(x->width == y->width && x->layers == y->layers && x->heads == y->heads &&
                    x->max_positions == y->max_positions && x->feed_forward == y->feed_forward);
    }
    assert_int_equal(b->rules.eos_id_count, 2);
    assert_true(b->rules.eos_ids[0] == 2 && b->rules.eos_ids[1] == 5 && b->rules.eos_id == 2);
    /* Some files give the ratio over all tokens. */
    harness_ok(load(b, "{\"model_type\": \"llama\", \"top_k\": -1}"));
    assert_int_equal(b->rules.sampling.top_k, 0);
    /* Dynamic RoPE scaling supports any length. */
    harness_ok(load(b, "{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0}}"));
    assert_true(b->arch.decoder.rotary.switch_length == 2048 && b->arch.decoder.max_positions == 1 << 20);
    /* transformers reads this key of Gemma 3, but caps nothing. */
    harness_ok(load(b, "{\"model_type\": \"gemma3_text\", \"attn_logit_softcapping\": 50.0, "
                       "\"final_logit_softcapping\": 30.0}"));
    assert_true(b->arch.decoder.score_cap == 0 && b->arch.logit_cap == 30);
    free(a);
    free(b);
}

/* The source of special ids, as in transformers 5.23: generation_config.json as it is; without it config.json, for a
 * wrapper with the text configuration's keys added. Class defaults are ignored. */
static void test_special_ids_come_from_the_right_file(void **state) {
    (void)state;
    static const struct {
        const char *config, *generation; /* NULL: the file is missing */
        int ends[3], pad, start;         /* number of end ids, and the ids */
    } CASES[] = {
        {"\"llama\", \"eos_token_id\": 9", NULL, {1, 9}, -1, -1},
        {"\"llama\"", NULL, {0}, -1, -1},
        {"\"gemma\"", NULL, {0}, -1, -1},
        {"\"gpt2\"", NULL, {0}, -1, -1},
        {"\"opt\"", NULL, {0}, -1, -1},
        {"\"phi3\", \"eos_token_id\": null, \"bos_token_id\": 4", NULL, {0}, -1, 4},
        {"\"llama\", \"eos_token_id\": 9, \"pad_token_id\": 3, \"bos_token_id\": 4", "{}", {0}, -1, -1},
        {"\"llama\", \"eos_token_id\": 9", "{\"eos_token_id\": null}", {0}, -1, -1},
        {"\"llama\", \"eos_token_id\": 9", "{\"bos_token_id\": 1}", {0}, -1, 1},
        {"\"llama\", \"eos_token_id\": 9", "{\"eos_token_id\": 8}", {1, 8}, -1, -1},
        {"\"llama\", \"eos_token_id\": null", "{\"eos_token_id\": [4, 3]}", {2, 4, 3}, -1, -1},
        {"\"gemma3\", \"text_config\": {\"eos_token_id\": 9}", NULL, {1, 9}, -1, -1},
        {"\"gemma3\", \"eos_token_id\": [8, 9], \"text_config\": {}", NULL, {2, 8, 9}, -1, -1},
        {"\"gemma3\", \"eos_token_id\": 8, \"text_config\": {\"eos_token_id\": 9}", NULL, {1, 8}, -1, -1},
        {"\"gemma3\", \"text_config\": {}", NULL, {0}, -1, -1},
        {"\"gemma3\", \"eos_token_id\": null, \"text_config\": {\"eos_token_id\": 9}", NULL, {1, 9}, -1, -1},
        {"\"gemma3\", \"eos_token_id\": 8, \"text_config\": {\"eos_token_id\": 9}", "{}", {0}, -1, -1},
        {"\"gemma3\", \"eos_token_id\": 8, \"text_config\": {\"eos_token_id\": 9}",
         "{\"eos_token_id\": 7}",
         {1, 7},
         -1,
         -1},
        {"\"gemma3\", \"text_config\": {\"pad_token_id\": 3, \"bos_token_id\": 4}", NULL, {0}, 3, 4},
    };
    said *c = malloc(sizeof(*c));
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        char config[200];
        snprintf(config, sizeof(config), "{\"model_type\": %s}", CASES[i].config);
        remove(scratch_path("generation_config.json"));
        if (CASES[i].generation)
            scratch_text("generation_config.json", CASES[i].generation);
        harness_ok(load(c, config));
        if (c->rules.eos_id_count != CASES[i].ends[0] ||
            c->rules.eos_id != (CASES[i].ends[0] ? CASES[i].ends[1] : -1) ||
            (CASES[i].ends[0] > 1 && c->rules.eos_ids[1] != CASES[i].ends[2]) || c->rules.pad_id != CASES[i].pad ||
            c->rules.start_id != CASES[i].start)
            fail_msg("%s with %s: %d ends, %d first, padding %d, start %d", config,
                     CASES[i].generation ? CASES[i].generation : "no file", c->rules.eos_id_count, c->rules.eos_id,
                     c->rules.pad_id, c->rules.start_id);
    }
    /* The same for search rules: from the whole configuration, else the text's. */
    remove(scratch_path("generation_config.json"));
    harness_ok(load(c, "{\"model_type\": \"llava\", \"num_beams\": 3, \"text_config\": {\"num_beams\": 2, "
                       "\"no_repeat_ngram_size\": 4}}"));
    assert_true(c->rules.num_beams == 3 && c->rules.no_repeat_ngram == 4);
    free(c);
}

static void test_invalid_decoder_config_is_rejected(void **state) {
    (void)state;
    static const struct {
        const char *config, *part;
        tfm_status status;
    } CASES[] = {
        {"{\"model_type\": \"gemma3n\", \"text_config\": {}}", "`model_type` is \"gemma3n\"", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"gpt2\", \"add_cross_attention\": true}", "`add_cross_attention` is true",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"gpt2\", \"n_head\": 5}", "`n_head` is 5; it must divide `n_embd`, which is 768",
         TFM_ERROR_FORMAT},
        {"{\"model_type\": \"llama\", \"architectures\": [\"LlamaForSequenceClassification\"]}",
         "`architectures` has \"LlamaForSequenceClassification\"", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"llama\", \"num_attention_heads\": 3, \"num_key_value_heads\": 3}",
         "`num_attention_heads` is 3; it must divide", TFM_ERROR_FORMAT},
        {"{\"model_type\": \"stablelm\", \"num_attention_heads\": 3, \"num_key_value_heads\": 3}",
         "`num_attention_heads` is 3; it must divide", TFM_ERROR_FORMAT},
        {"{\"model_type\": \"codegen\", \"n_embd\": 6, \"n_head\": 3, \"rotary_dim\": 2}",
         "`n_embd` is 6; it must be divisible by 4", TFM_ERROR_FORMAT},
        {"{\"model_type\": \"mistral\", \"num_attention_heads\": 12, \"num_key_value_heads\": 4}",
         "341 of 341 columns of a head are rotated", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"qwen2\", \"hidden_size\": 7, \"num_attention_heads\": 8, \"num_key_value_heads\": 8}",
         "it must divide `hidden_size`", TFM_ERROR_FORMAT},
        {"{\"model_type\": \"llama\", \"num_key_value_heads\": 5}", "`num_key_value_heads` is 5; it must divide",
         TFM_ERROR_FORMAT},
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"proportional\"}}",
         "RoPE `rope_type` is \"proportional\"", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"mrope\", \"mrope_section\": [1]}}",
         "RoPE `type` is \"mrope\"", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"llama\", \"rope_scaling\": 3}", "`rope_parameters` (`rope_scaling`) is 3",
         TFM_ERROR_FORMAT},
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8}}",
         "no `low_freq_factor`", TFM_ERROR_FORMAT},
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\"}}", "no `factor`", TFM_ERROR_FORMAT},
        {"{\"model_type\": \"llama\", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 3}}}",
         "`rope_parameters` has an object `full_attention`", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"llama\", \"rope_theta\": \"x\"}", "`rope_theta` is \"x\"", TFM_ERROR_FORMAT},
        {"{\"model_type\": \"llama\", \"partial_rotary_factor\": 0.5, \"rope_scaling\": {\"type\": \"linear\", "
         "\"factor\": 2}}",
         "`partial_rotary_factor` is 0.5, and this family rotates whole heads", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"phi3\", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}", "\"linear\"",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"phi3\", \"rope_scaling\": {\"type\": \"su\", \"short_factor\": [1], \"long_factor\": "
         "[1]}}",
         "`short_factor` is [1]; a list of 48 numbers", TFM_ERROR_FORMAT},
        {"{\"model_type\": \"qwen3\", \"layer_types\": [\"full_attention\"]}", "`layer_types` is", TFM_ERROR_FORMAT},
        {"{\"model_type\": \"qwen3\", \"num_hidden_layers\": 1, \"layer_types\": [\"sliding_attention\"]}",
         "no `sliding_window` with `use_sliding_window`", TFM_ERROR_FORMAT},
        {"{\"model_type\": \"gemma2\", \"num_hidden_layers\": 1, \"layer_types\": [\"chunked_attention\"]}",
         "`layer_types` has \"chunked_attention\"", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"gemma2\", \"sliding_window\": null}", "no `sliding_window`", TFM_ERROR_FORMAT},
        {"{\"model_type\": \"gemma\", \"use_bidirectional_attention\": true}", "`use_bidirectional_attention`",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"gemma2\", \"hidden_activation\": \"prelu\"}", "`hidden_activation` is \"prelu\"",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"llama\", \"quantization_config\": {\"quant_method\": \"eetq\"}}", "`quantization_config`",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"phi\", \"hidden_size\": 12, \"num_attention_heads\": 2, \"intermediate_size\": 8}",
         "3 of 6 columns of a head are rotated; an even number is needed", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"albert\", \"num_hidden_groups\": 13}", "`num_hidden_groups` is 13", TFM_ERROR_FORMAT},
        {"{\"model_type\": \"llama\", \"is_causal\": false}", "`is_causal` is false", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"t5\", \"is_causal\": false}", "`is_causal` is false", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"gpt2\", \"attention_chunk_size\": 4}", "`attention_chunk_size` is 4",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"mistral\", \"attention_chunk_size\": 4}", "`attention_chunk_size` is 4",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"llama\", \"sliding_window\": 2047}", "`sliding_window` is 2047", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"opt\", \"word_embed_proj_dim\": 0}", "`word_embed_proj_dim` is 0", TFM_ERROR_FORMAT},
        {"{\"model_type\": \"gpt_neox\", \"num_key_value_heads\": 8}", "`num_key_value_heads` is 8",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"opt\", \"sliding_window\": 4}", "`sliding_window` is 4", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"bart\", \"sliding_window\": 4}", "`sliding_window` is 4", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"llama\", \"per_layer_config\": {\"3\": {\"rms_norm_eps\": 0.1}}}", "`per_layer_config` is",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"nomic_bert\", \"n_embd\": 768, \"activation_function\": \"geglu\"}",
         "`activation_function` is \"geglu\"", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"nomic_bert\", \"n_embd\": 768, \"qkv_proj_bias\": true}", "`qkv_proj_bias` is true",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"gte\", \"num_attention_heads\": 256}", "3 of 3 columns of a head are rotated",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"new\", \"position_embedding_type\": \"absolute\"}", "only \"rope\" is",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"new\", \"layer_norm_type\": \"rms_norm\"}", "`layer_norm_type` is \"rms_norm\"",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"new\", \"logn_attention_scale\": true}", "`logn_attention_scale` is true",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"new\", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}",
         "`rope_scaling` is \"linear\"", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"new\", \"rope_scaling\": {\"type\": \"ntk\", \"factor\": 0}}", "`factor` is 0",
         TFM_ERROR_FORMAT},
        {"{\"model_type\": \"smollm3\", \"no_rope_layers\": [1]}", "`no_rope_layers` is [1]", TFM_ERROR_FORMAT},
    };
    said *c = malloc(sizeof(*c));
    for (size_t i = 0; i < TFM__COUNT(CASES); i++)
        scratch_refused(load(c, CASES[i].config), CASES[i].status, CASES[i].part);
    /* A key without effect is accepted. */
    harness_ok(load(c, "{\"model_type\": \"llama\", \"sliding_window\": 2048, \"is_causal\": true, "
                       "\"attention_chunk_size\": null, \"per_layer_config\": {}}"));
    harness_ok(load(c, "{\"model_type\": \"bert\", \"sliding_window\": 4, \"is_causal\": false}"));
    harness_ok(load(c, "{\"model_type\": \"mpnet\", \"pad_token_id\": null}"));
    harness_ok(load(c, "{\"model_type\": \"mpnet\", \"pad_token_id\": 5}"));
    assert_true(c->rules.pad_id == 5 && c->arch.encoder.skipped_id == 1 && c->arch.encoder.position_offset == 2);
    harness_ok(load(c, "{\"model_type\": \"modernbert\", \"sliding_window\": 3, \"local_attention\": 20}"));
    assert_int_equal(c->arch.encoder.window, 6);
    harness_ok(load(c, "{\"model_type\": \"new\", \"rope_theta\": 20000, \"rope_scaling\": {\"type\": \"ntk\", "
                       "\"factor\": 8}}"));
    assert_true(fabs(c->arch.encoder.rotary.inv_freq[0] - 0.937083817) < 1e-8);
    assert_true(fabs(c->arch.encoder.rotary.inv_freq[31] - 0.0000085170109) < 1e-12);
    free(c);
}

/* The line of `tfm info` for a directory. */
static void check_info(const tfm_model_info *opened, const tfm__stack_arch *s) {
    char dir[4200];
    tfm_model_info info;
    const bool turns = s->rotary.width > 0;
    snprintf(dir, sizeof(dir), "%s/saved", scratch_root);
    harness_ok(tfm_model_read_info(&info, dir, &(tfm_model_options){.no_tokenizer = true}));
    for (int i = 0; i < 2; i++) {
        const tfm_model_info *m = i ? &info : opened;
        assert_string_equal(m->kind, "decoder");
        assert_string_equal(m->position_encoding, turns ? "rotary" : "learned");
        assert_true(m->encoder_layers == 0 && m->decoder_layers == 3 && m->has_lm_head && m->rms_norm == turns);
        assert_true(m->decoder_kv_heads == s->kv_heads && m->decoder_head_width == s->head_width);
        assert_true(m->gated == turns && m->sandwich_norm == (s->norm_placement == TFM_NORM_SANDWICH));
        assert_int_equal(m->sliding_window_layers > 0, m->sliding_window > 0);
        assert_int_equal(m->max_positions, s->max_positions);
        assert_true((m->eos_id == 2) == turns && (m->start_id == 1) == turns);
    }
    assert_int_equal(info.parameters, opened->parameters);
}

/* A saved and reopened model gives bit-identical logits. */
static void test_saved_decoder_gives_the_same_logits(void **state) {
    (void)state;
    int number = 0;
    for (size_t k = 0; k < TFM__COUNT(DECODERS); k++) {
        if (harness_left_out(&number, 4))
            continue;
        tfm_model *model = decoder_make(DECODERS[k].config), *again;
        char dir[4200];
        float *want = decoder_logits(model, 2, 9), *got;
        snprintf(dir, sizeof(dir), "%s/saved", scratch_root);
        harness_ok(tfm_model_save(model, dir, TFM_F32));
        harness_ok(tfm_model_open(&again, harness_context(), dir, &(tfm_model_options){.no_tokenizer = true}));
        got = decoder_logits(again, 2, 9);
        if (memcmp(got, want, sizeof(*got) * 2 * 9 * DECODER_VOCABULARY) != 0)
            fail_msg("%s: logits differ after saving", DECODERS[k].name);
        assert_true(again->rules.eos_id_count == model->rules.eos_id_count &&
                    again->rules.start_id == model->rules.start_id && again->rules.pad_id == model->rules.pad_id);
        assert_int_equal(again->arch.tied_embeddings, model->arch.tied_embeddings);
        check_info(tfm_model_get_info(again), &model->arch.decoder);
        free(got);
        free(want);
        tfm_model_free(&again);
        tfm_model_free(&model);
    }
}

/* Gammas that a family stores minus 1 are saved so. */
static void test_norm_weights_stored_minus_one_are_saved_so(void **state) {
    (void)state;
    tfm_model *model = decoder_make(DECODERS[TFM__COUNT(DECODERS) - 1].config);
    tfm__weights *file;
    const tfm__stored_tensor *stored;
    float *gamma = harness_floats(model->decoder.final_norm.gamma.value);
    harness_ok(tfm_model_save(model, scratch_root, TFM_F32));
    harness_ok(tfm__weights_open_dir(&file, scratch_root));
    harness_ok(tfm__weights_get(file, &stored, "model.norm.weight", 1, (int64_t[]){DECODER_WIDTH}));
    for (size_t i = 0; i < DECODER_WIDTH; i++) {
        float value;
        memcpy(&value, stored->data + 4 * i, 4);
        assert_true(fabsf(value + 1 - gamma[i]) < 1e-6f);
    }
    tfm__weights_free(&file);
    free(gamma);
    tfm_model_free(&model);
}

/* Hidden states of an OPT model with projections have the embedding's width. */
static void test_projected_opt_hidden_states_have_embedding_width(void **state) {
    (void)state;
    tfm_model *model = decoder_make(DECODERS[2].config);
    tfm_tensor hidden = {0};
    const int32_t two[] = {1, 2};
    const tfm_tensor ids = HARNESS_TENSOR(TFM_I32, two, 1, 2);
    harness_ok(tfm__model_decode_hidden(model, &hidden, ids, (tfm_tensor){0}, (tfm_tensor){0}, NULL));
    assert_true(model->arch.decoder.projected && hidden.rank == 3 && hidden.dims[2] == 14);
    tfm_tensor_free(harness_context(), &hidden);
    tfm_model_free(&model);
}

/* A model saved without its head has no logits. */
static void test_model_without_head_has_no_logits(void **state) {
    (void)state;
    tfm_model *model =
        decoder_make("{\"model_type\": \"llama\", \"architectures\": [\"LlamaModel\"], " DECODER_SIZES "}");
    tfm_tensor logits = {0};
    assert_false(tfm_model_get_info(model)->has_lm_head);
    const int32_t two[] = {1, 2};
    const tfm_tensor ids = HARNESS_TENSOR(TFM_I32, two, 1, 2);
    scratch_refused(tfm_model_decode(model, &logits, ids, (tfm_tensor){0}, (tfm_tensor){0}), TFM_ERROR_ARGUMENT,
                    "model_decode: the model, of the family llama, has no output projection");
    tfm_context_clear_error(harness_context());
    tfm_model_free(&model);
}

static int setup(void **state) {
    return harness_setup(state) || scratch_setup(state);
}

static int teardown(void **state) {
    return scratch_teardown(state) || harness_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoder_defaults_are_those_of_transformers),
        cmocka_unit_test(test_alternative_config_spellings_are_equal),
        cmocka_unit_test(test_special_ids_come_from_the_right_file),
        cmocka_unit_test(test_invalid_decoder_config_is_rejected),
        cmocka_unit_test(test_saved_decoder_gives_the_same_logits),
        cmocka_unit_test(test_norm_weights_stored_minus_one_are_saved_so),
        cmocka_unit_test(test_projected_opt_hidden_states_have_embedding_width),
        cmocka_unit_test(test_model_without_head_has_no_logits),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
