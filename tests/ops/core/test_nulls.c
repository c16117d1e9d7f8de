/* NULL is rejected everywhere, as tfm/base.h promises: no public function crashes, whichever pointer is NULL, and a
 * function with a status rejects each NULL that its comment does not allow. Options with unknown fields are rejected
 * too. make_nulls.py generates the calls from the headers, so new functions are covered. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include "support/harness.h"
#include "support/scratch.h"
#include "support/small_model.h"
#include "support/toy_decoder.h"
#include "tfm/opencl.h"
#include "tfm/tfm.h"

static tfm_context *context;
static tfm_fleet *fleet;
static tfm_model *model;
static tfm_embedder *embedder;
static tfm_trainer *trainer;
static tfm_data *data;
static tfm_documents *documents;
static tfm_placeholders *placeholders;
static tfm_tokenizer *tokenizer;
static tfm_metrics *metrics;
static tfm_chat *chat;
static tfm_grammar *grammar;
static tfm_engine *engine;
static tfm_tensor x, numbers, row, transposed, square, bytes, indices, cube, heads, angles, *tensors[8];
static char path[4200], folder[4200], file[4200], *text;
static const char *said, *strings[8];
static double room[64];
static int accepted;

/* Some calls are valid with NULL here and create objects that are never freed: leaks are checked by other tests. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "detect_leaks=0";
}

/* The current call, printed if the program crashes. */
static const char *calling = "";

static void tell(int number) {
    const char *parts[] = {"crashed in ", calling, "\n"};
    for (size_t i = 0; i < 3; i++)
        if (write(STDERR_FILENO, parts[i], strlen(parts[i])) < 0)
            break;
    signal(number, SIG_DFL);
    raise(number);
}

/* The context must still work; tensors are created again, since scopes may be closed. */
static void again(void) {
    static const struct {
        tfm_tensor *tensor;
        tfm_dtype dtype;
        int rank;
        int64_t dims[4];
    } MADE[] = {{&x, TFM_F32, 2, {2, 4}},          {&numbers, TFM_I32, 1, {2}},    {&row, TFM_F32, 1, {4}},
                {&transposed, TFM_F32, 2, {4, 2}}, {&square, TFM_F32, 2, {4, 4}},  {&bytes, TFM_U8, 2, {2, 4}},
                {&indices, TFM_I32, 2, {2, 4}},    {&cube, TFM_F32, 3, {1, 2, 4}}, {&heads, TFM_F32, 4, {1, 2, 2, 4}},
                {&angles, TFM_F32, 2, {2, 2}}};
    tfm_tape_stop(context);
    tfm_context_clear_error(context);
    while (tfm_scope_close(context, 0, NULL) == TFM_OK)
        ;
    tfm_context_clear_error(context);
    for (size_t i = 0; i < TFM__COUNT(MADE); i++) {
        tfm_tensor_free(context, MADE[i].tensor);
        *MADE[i].tensor = harness_tensor(MADE[i].dtype, MADE[i].rank, MADE[i].dims, NULL);
    }
    text = NULL;
}

#define ONE(name, call)                                                                                                \
    {                                                                                                                  \
        calling = name;                                                                                                \
        again();                                                                                                       \
        call;                                                                                                          \
    }
/* Whether a message is about a missing argument, not another error of the same call. */
static bool tells_of_null(const char *sentence) {
    return strstr(sentence, "NULL") || strstr(sentence, "needs");
}

#define REFUSED(name, call)                                                                                            \
    {                                                                                                                  \
        calling = name;                                                                                                \
        again();                                                                                                       \
        const tfm_status status = call;                                                                                \
        if (status != TFM_ERROR_ARGUMENT || !tells_of_null(tfm_error_message())) {                                     \
            print_message("%s: wrong error %s: '%s'\n", name, tfm_status_name(status), tfm_error_message());           \
            accepted++;                                                                                                \
        }                                                                                                              \
    }

#define HOLLOW(name, call)                                                                                             \
    {                                                                                                                  \
        calling = name;                                                                                                \
        again();                                                                                                       \
        if (call != TFM_ERROR_ARGUMENT || !strstr(tfm_error_message(), " is NULL"))                                    \
            fail_msg("%s: wrong error: '%s'", name, tfm_error_message());                                              \
    }

/* Callback of rejected calls. */
static void never(void) {
    fail_msg("%s calls the callback", calling);
}

/* `call` has a status, or is an assignment to `refused`. */
#define UNKNOWN(name, call)                                                                                            \
    {                                                                                                                  \
        bool refused = true;                                                                                           \
        calling = name;                                                                                                \
        again();                                                                                                       \
        const int said_no = call;                                                                                      \
        if (!said_no || !refused || !strstr(tfm_error_message(), "a reserved word"))                                   \
            fail_msg("%s: wrong error: '%s'", name, tfm_error_message());                                              \
    }

/* Outputs are NULL after any failure, also after a rejected argument: the caller frees them. */
#define MAKES_NOTHING(type, call)                                                                                      \
    {                                                                                                                  \
        char other;                                                                                                    \
        type *out = (void *)&other;                                                                                    \
        calling = #call;                                                                                               \
        if (call != TFM_ERROR_ARGUMENT || out)                                                                         \
            fail_msg("%s: the output is not NULL", calling);                                                           \
    }

static void test_results(void) {
    size_t count;
    const tfm_encode_options unknown = {.reserved = {1}};
    char unlike;
    tfm_hypotheses found = {.items = (void *)&unlike};
    MAKES_NOTHING(tfm_model, tfm_model_open(&out, context, NULL, NULL))
    MAKES_NOTHING(tfm_model, tfm_model_new(&out, context, NULL))
    MAKES_NOTHING(tfm_model, tfm_fleet_open_model(&out, fleet, NULL, NULL))
    MAKES_NOTHING(tfm_model, tfm_fleet_new_model(&out, fleet, NULL))
    MAKES_NOTHING(tfm_embedder, tfm_embedder_open(&out, context, NULL, NULL))
    MAKES_NOTHING(tfm_embedder, tfm_fleet_open_embedder(&out, fleet, NULL, NULL))
    MAKES_NOTHING(tfm_fleet, tfm_fleet_new(&out, NULL, 1))
    MAKES_NOTHING(tfm_trainer, tfm_trainer_new(&out, NULL, NULL))
    MAKES_NOTHING(tfm_data, tfm_data_open(&out, tokenizer, NULL, NULL, NULL))
    MAKES_NOTHING(tfm_data, tfm_data_open_pairs(&out, tokenizer, NULL, NULL, 1, NULL))
    MAKES_NOTHING(tfm_data, tfm_data_open_texts(&out, tokenizer, NULL, 1, NULL))
    MAKES_NOTHING(tfm_documents, tfm_documents_open(&out, NULL, NULL))
    MAKES_NOTHING(tfm_placeholders, tfm_placeholders_new(&out, NULL, 1))
    MAKES_NOTHING(tfm_tokenizer, tfm_tokenizer_open(&out, NULL))
    MAKES_NOTHING(int32_t, tfm_tokenizer_encode(tokenizer, &out, &count, TFM_SOURCE, NULL, 1))
    MAKES_NOTHING(int32_t, tfm_tokenizer_encode_with(tokenizer, &out, &count, TFM_SOURCE, NULL, 1, NULL))
    MAKES_NOTHING(int32_t, tfm_tokenizer_encode_with(tokenizer, &out, &count, TFM_SOURCE, "x", 1, &unknown))
    MAKES_NOTHING(char, tfm_tokenizer_decode(tokenizer, &out, NULL, 1))
    MAKES_NOTHING(tfm_sentence, tfm_text_sentences(&out, &count, NULL, 1, NULL))
    assert_int_equal(tfm_search(model, &found, NULL, NULL, 1, NULL, NULL, NULL), TFM_ERROR_ARGUMENT);
    assert_null(found.items);
    found.items = (void *)&unlike;
    assert_int_equal(tfm_generate_ids(model, &found, NULL, NULL, 1, NULL), TFM_ERROR_ARGUMENT);
    assert_null(found.items);
}

static void test_null_pointer_arguments_are_rejected(void **state) {
    (void)state;
    char *demo = harness_source("apps/demo");
    snprintf(path, sizeof(path), "%s", scratch_path("new"));
    snprintf(folder, sizeof(folder), "%s", scratch_path("folder"));
    snprintf(file, sizeof(file), "%s", scratch_path("lines"));
    scratch_text("lines", "eins zwei\ndrei vier\n");
    for (int i = 0; i < 8; i++) {
        strings[i] = "x";
        tensors[i] = &x;
    }
    context = harness_context();
    harness_ok(tfm_fleet_new(&fleet, &context, 1));
    harness_ok(tfm_model_new(&model, context, &SMALL));
    const tfm_trainer_options options = plain_options();
    harness_ok(tfm_trainer_new(&trainer, model, &options));
    harness_ok(tfm_tokenizer_open(&tokenizer, demo));
    harness_ok(tfm_data_open(&data, tokenizer, file, file, NULL));
    harness_ok(tfm_documents_open(&documents, file, NULL));
    harness_ok(tfm_placeholders_new(&placeholders, NULL, 0));
    harness_ok(tfm_metrics_new(&metrics, NULL));
    harness_ok(tfm_chat_new(&chat, "", 0, NULL));
    harness_ok(tfm_grammar_from_gbnf(&grammar, "root ::= .*"));
    tfm_model *decoder = toy_decoder(TOY_ROTARY, 0);
    harness_ok(tfm_engine_open(&engine, decoder, NULL));
    tfm_model_free(&decoder);
    char *encoder = harness_source("tests/golden/embedder");
    harness_ok(tfm_embedder_open(&embedder, context, encoder, NULL));
    free(encoder);
    signal(SIGSEGV, tell);
    signal(SIGABRT, tell);
#include "nulls.h"
    test_results();
    assert_int_equal(tfm_context_status(NULL), TFM_ERROR_ARGUMENT);
    signal(SIGSEGV, SIG_DFL);
    signal(SIGABRT, SIG_DFL);
    again();
    assert_int_equal(accepted, 0);
    tfm_fleet_free(&fleet);
    tfm_embedder_free(&embedder);
    tfm_metrics_free(&metrics);
    tfm_chat_free(&chat);
    tfm_grammar_free(&grammar);
    tfm_engine_free(&engine);
    tfm_data_free(&data);
    tfm_documents_free(&documents);
    tfm_placeholders_free(&placeholders);
    tfm_tokenizer_free(&tokenizer);
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
    free(demo);
}

static int setup(void **state) {
    return scratch_setup(state) || harness_setup(state);
}

static int teardown(void **state) {
    return harness_teardown(state) || scratch_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_pointer_arguments_are_rejected),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
