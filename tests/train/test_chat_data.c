/* Conversations as training data: which tokens are learned, the reader's rows, and losses of some tokens of a batch. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "support/harness.h"
#include "tfm/chat.h"
#include "tfm/data.h"
#include "tfm/train.h"

static const char TEMPLATE[] =
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}";
/* Like Qwen 3: thoughts are in the last answer only. */
static const char THINKING[] =
    "{% for m in messages %}<|{{ m.role }}|>\n"
    "{% if m.role == 'assistant' and loop.last %}<think>\n\n</think>\n\n{% endif %}{{ m.content }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}";
/* Like Llama 2: no token ends a prompt, and the answer begins with a blank. */
static const char BRACKETS[] = "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token }}[INST] {{ m.content }} "
                               "[/INST]{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}";

static tfm_tokenizer *open_tokenizer(const char *name) {
    char path[128];
    tfm_tokenizer *tokenizer = NULL;
    snprintf(path, sizeof(path), "tests/golden/tokenizers/%s", name);
    char *dir = harness_source(path);
    harness_ok(tfm_tokenizer_open(&tokenizer, dir));
    free(dir);
    return tokenizer;
}

static tfm_chat *open_chat(const char *text) {
    tfm_chat *chat = NULL;
    harness_ok(tfm_chat_new(&chat, text, strlen(text), "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}"));
    return chat;
}

/* Appends the pieces of the learned tokens to `learned`, and of the others to `others`; runs are separated by '|'. */
static void split(char *learned, char *others, const tfm_tokenizer *tokenizer, const int32_t *ids, size_t count) {
    char *const to[] = {others, learned};
    *learned = *others = 0;
    for (size_t i = 0; i < count; i++) {
        const bool is_learned = ids[i] >= 0;
        const int32_t id = is_learned ? ids[i] : ~ids[i];
        char *bytes = NULL;
        size_t n = 0;
        harness_ok(tfm_tokenizer_token_bytes(tokenizer, &bytes, &n, id));
        if (i > 0 && is_learned != (ids[i - 1] >= 0) && *to[is_learned])
            strcat(to[is_learned], "|");
        strcat(to[is_learned], bytes);
        tfm_text_free(&bytes);
    }
}

static void check_example(const char *name, const char *template, const char *conversation, const char *learned,
                          const char *others) {
    tfm_tokenizer *tokenizer = open_tokenizer(name);
    tfm_chat *chat = open_chat(template);
    int32_t *ids;
    size_t count;
    char got[2][4096];
    harness_ok(tfm_chat_encode_example(chat, &ids, &count, tokenizer, conversation, strlen(conversation)));
    split(got[0], got[1], tokenizer, ids, count);
    assert_string_equal(got[0], learned);
    assert_string_equal(got[1], others);
    tfm_ids_free(&ids);
    tfm_chat_free(&chat);
    tfm_tokenizer_free(&tokenizer);
}

static const char TWO_TURNS[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"the river\"}, {\"role\": \"assistant\", \"content\": \"a "
    "harbour\"}, {\"role\": \"user\", \"content\": \"more\"}, {\"role\": \"assistant\", \"content\": \"one two\"}]}";

static void test_the_assistants_tokens_are_learned_up_to_the_end_of_each_turn(void **state) {
    (void)state;
    check_example("llama3", TEMPLATE, TWO_TURNS, "a harbour</s>|one two</s>",
                  "<s><|user|>\nthe river</s>\n<|assistant|>\n|\n<|user|>\nmore</s>\n<|assistant|>\n|\n");
}

static void test_turns_that_the_template_renders_differently_at_the_end_are_learned(void **state) {
    (void)state;
    check_example("llama3", THINKING, TWO_TURNS, "a harbour</s>|<think>\n\n</think>\n\none two</s>",
                  "<|user|>\nthe river</s>\n<|assistant|>\n|\n<|user|>\nmore</s>\n<|assistant|>\n|\n");
}

static void test_a_prompt_without_an_end_token_is_not_learned(void **state) {
    (void)state;
    check_example("llama2", BRACKETS, TWO_TURNS, " a harbour </s>| one two </s>",
                  "<s> [INST] the river [/INST]|<s> [INST] more [/INST]");
}

static void test_sharegpt_alpaca_and_completions_are_read(void **state) {
    (void)state;
    check_example("llama3", TEMPLATE,
                  "{\"conversations\": [{\"from\": \"system\", \"value\": \"s\"}, {\"from\": \"human\", \"value\": "
                  "\"q\"}, {\"from\": \"gpt\", \"value\": \"r\"}], \"id\": 123456789012345678901234567890}",
                  "r</s>", "<s><|system|>\ns</s>\n<|user|>\nq</s>\n<|assistant|>\n|\n");
    check_example("llama3", TEMPLATE, "{\"instruction\": \"do\", \"input\": \"it\", \"output\": \"done\"}", "done</s>",
                  "<s><|user|>\ndo\n\nit</s>\n<|assistant|>\n|\n");
    check_example("llama3", TEMPLATE,
                  "{\"instruction\": \"do\", \"input\": \"\", \"output\": \"done\", \"system\": \"s\"}", "done</s>",
                  "<s><|system|>\ns</s>\n<|user|>\ndo</s>\n<|assistant|>\n|\n");
    check_example("llama3", TEMPLATE,
                  "{\"prompt\": [{\"role\": \"user\", \"content\": \"q\"}], \"completion\": [{\"role\": \"assistant\", "
                  "\"content\": \"r\"}]}",
                  "r</s>", "<s><|user|>\nq</s>\n<|assistant|>\n|\n");
    check_example("llama3", "{{ raise_exception('unused') }}", "{\"prompt\": \"one river\", \"completion\": \" runs\"}",
                  " runs</s>", "<s>one river");
}

static void test_other_lines_are_refused_with_the_reason(void **state) {
    (void)state;
    static const char *const BAD[][2] = {
        {"{\"messages\": []}", "messages is an empty list"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}", "no message of the assistant"},
        {"{\"messages\": [7]}", "messages"},
        {"{\"messages\"", "the conversation"},
        {"[1]", "the conversation"},
        {"{\"text\": \"x\"}", "a list \"messages\""},
        {"{\"conversations\": [{\"from\": \"parrot\", \"value\": \"x\"}]}", "not parrot"},
        {"{\"conversations\": [{\"from\": \"gpt\"}]}", "conversations[0]"},
        {"{\"instruction\": \"x\"}", "\"output\" is missing"},
        {"{\"instruction\": \"x\", \"output\": \"y\", \"input\": 3}", "\"input\" is an integer"},
    };
    tfm_tokenizer *tokenizer = open_tokenizer("llama3");
    tfm_chat *chat = open_chat(TEMPLATE);
    for (size_t i = 0; i < sizeof(BAD) / sizeof(*BAD); i++) {
        int32_t *ids;
        size_t count;
        harness_refused(tfm_chat_encode_example(chat, &ids, &count, tokenizer, BAD[i][0], strlen(BAD[i][0])),
                        TFM_ERROR_INPUT, BAD[i][1]);
        assert_null(ids);
    }
    tfm_chat_free(&chat);
    tfm_tokenizer_free(&tokenizer);
}

/* ---- The reader ---- */

enum { CHATS = 60 };

/* Conversation i has an answer of i words; a blank, a broken and a long line are among them. */
static void write_chats(char *path, size_t size) {
    snprintf(path, size, "/tmp/tfm-test-chat-XXXXXX");
    FILE *file = fdopen(mkstemp(path), "w");
    assert_non_null(file);
    for (int i = 0; i < CHATS; i++) {
        fprintf(file,
                "{\"prompt\": [{\"role\": \"user\", \"content\": \"%d\"}], \"completion\": [{\"role\": "
                "\"assistant\", \"content\": \"a",
                i);
        for (int k = 0; k < i * 7 % 13 + (i == 20 ? 300 : 0); k++)
            fputs(" river", file);
        fputs("\"}]}\n", file);
        if (i == 10)
            fputs("\n{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n", file);
    }
    fclose(file);
}

static void test_conversations_are_rows_of_batches_by_length(void **state) {
    (void)state;
    char path[64];
    const char *const files[] = {path};
    tfm_tokenizer *tokenizer = open_tokenizer("llama3");
    tfm_chat *chat = open_chat(TEMPLATE);
    tfm_data_options o = {.batch_tokens = 256, .seq_len = 120, .chat = chat, .seed = 3};
    tfm_data *data;
    tfm_batch batch;
    int rows = 0, padding = 0, tokens = 0;
    write_chats(path, sizeof(path));
    harness_ok(tfm_data_open_texts(&data, tokenizer, files, 1, &o));
    while (tfm_data_tell(data).epoch == 0) {
        harness_ok(tfm_data_next(data, &batch));
        assert_null(batch.sources);
        assert_true(batch.count == 1 || batch.count * (batch.target_width - 1) <= 256);
        for (int64_t i = 0; i < batch.count; i++, rows++) {
            const int32_t *row = batch.targets + i * batch.target_width;
            const int32_t n = batch.target_lengths[i];
            assert_true(row[0] < 0 && row[n - 1] < 0 && row[n - 2] >= 0); /* "\n" after "</s>" is not learned */
            padding += (int)(batch.target_width - n);
            tokens += n;
        }
    }
    assert_int_equal(rows, CHATS - 1);
    assert_true(padding * 10 < tokens);
    const tfm_data_counts counts = tfm_data_count(data);
    assert_true(counts.complete);
    assert_int_equal(counts.pairs, CHATS - 1);
    assert_int_equal(counts.too_long, 1);
    assert_int_equal(counts.invalid, 1);
    assert_int_equal(counts.empty, 1);
    tfm_data_free(&data);
    o.strict = true;
    harness_ok(tfm_data_open_texts(&data, tokenizer, files, 1, &o));
    harness_refused(tfm_data_next(data, &batch), TFM_ERROR_INPUT, "line 13: it has no message of the assistant");
    tfm_data_free(&data);
    o.subword_alpha = 0.1f;
    harness_refused(tfm_data_open_texts(&data, tokenizer, files, 1, &o), TFM_ERROR_ARGUMENT, "with chat");
    unlink(path);
    tfm_chat_free(&chat);
    tfm_tokenizer_free(&tokenizer);
}

/* ---- Losses ---- */

enum { ROWS = 3, WIDTH = 11, VOCABULARY = 23 };

/* Marks the tokens of a batch without a loss: those k with k % 3 == rest, or != rest if `others`. */
static void mark(int32_t *out, const int32_t *ids, int count, int rest, bool others) {
    for (int k = 0; k < count; k++)
        out[k] = (k % 3 == rest) != others ? ~ids[k] : ids[k];
}

static void check_losses(tfm_model *model, tfm_batch batch) {
    tfm_trainer *trainer;
    int32_t marked[ROWS * WIDTH];
    const int32_t *all = batch.targets;
    double whole, sum = 0;
    uint64_t tokens, count = 0;
    harness_ok(tfm_trainer_new(&trainer, model, &(tfm_trainer_options){.learning_rate = 1e-3, .warmup_steps = 1}));
    harness_ok(tfm_trainer_evaluate(trainer, &whole, &tokens, &batch));
    batch.targets = marked;
    for (int others = 0; others < 2; others++) {
        double nll;
        uint64_t n;
        mark(marked, all, ROWS * WIDTH, 1, others);
        harness_ok(tfm_trainer_evaluate(trainer, &nll, &n, &batch));
        tfm_update_report report;
        sum += nll;
        count += n;
        if (others) { /* the update's loss is the mean over the same targets */
            harness_ok(tfm_trainer_update(trainer, &report, &batch, 1));
            assert_int_equal(report.target_tokens, n);
            assert_true(fabs(report.nll - nll / (double)n) < 1e-5);
        }
    }
    assert_true(fabs(sum - whole) < 1e-4 * whole);
    assert_int_equal(count, tokens);
    for (int k = 0; k < ROWS * WIDTH; k++)
        marked[k] = ~all[k];
    harness_refused(tfm_trainer_update(trainer, NULL, &batch, 1), TFM_ERROR_ARGUMENT, "no token of the batches");
    tfm_trainer_free(&trainer);
}

/* Losses of the two parts of the targets add up, so each part reads all tokens. */
static void test_losses_of_marked_batches_add_up(void **state) {
    (void)state;
    int32_t ids[ROWS * WIDTH], lengths[ROWS] = {WIDTH, 5, 8};
    harness_random random = {9};
    for (int i = 0; i < ROWS * WIDTH; i++)
        ids[i] = (int32_t)harness_range(&random, 1, VOCABULARY - 3);
    for (int pairs = 0; pairs < 2; pairs++) {
        tfm_model *model;
        const tfm_model_shape shape = {.family = pairs ? NULL : "llama",
                                       .width = 32,
                                       .heads = 4,
                                       .ffn_dim = 64,
                                       .encoder_layers = pairs,
                                       .decoder_layers = 1,
                                       .source_vocab_size = VOCABULARY,
                                       .max_positions = 32,
                                       .pad_id = VOCABULARY - 1,
                                       .start_id = VOCABULARY - 1,
                                       .eos_id = 0,
                                       .activation = pairs ? TFM_RELU : TFM_SILU,
                                       .seed = 3};
        harness_ok(tfm_model_new(&model, harness_context(), &shape));
        check_losses(model, (tfm_batch){ROWS, pairs ? WIDTH : 0, WIDTH, pairs ? ids : NULL, ids, pairs ? lengths : NULL,
                                        lengths});
        tfm_model_free(&model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_assistants_tokens_are_learned_up_to_the_end_of_each_turn),
        cmocka_unit_test(test_turns_that_the_template_renders_differently_at_the_end_are_learned),
        cmocka_unit_test(test_a_prompt_without_an_end_token_is_not_learned),
        cmocka_unit_test(test_sharegpt_alpaca_and_completions_are_read),
        cmocka_unit_test(test_other_lines_are_refused_with_the_reason),
        cmocka_unit_test(test_conversations_are_rows_of_batches_by_length),
        cmocka_unit_test(test_losses_of_marked_batches_add_up),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
