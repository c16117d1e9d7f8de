/* Roles of stored tensors: the tables under all ties and names, and unused tensors. */
#include "base/json.h"
#include "model/core/model.h"
#include "support/scratch.h"

enum { WIDTH = 4, VOCABULARY = 6 };

/* A model of one layer per side: its configuration, and all its tensors except tables. */
static tfm__weights *whole;
static json_t *config;

/* ---- Directories ---- */

/* The possible tables of a file: a letter, the name, and the value of all elements. */
static const struct {
    char letter;
    const char *name;
    float value;
} STORED[] = {
    {'S', "model.shared.weight", 1},
    {'E', "model.encoder.embed_tokens.weight", 2},
    {'D', "model.decoder.embed_tokens.weight", 3},
    {'O', "lm_head.weight", 4},
};

typedef struct builder {
    char header[1 << 14];
    unsigned char data[1 << 14];
    size_t header_size, data_size;
} builder;

static void add(builder *b, const char *name, int rank, const int64_t *dims, const void *data, size_t bytes) {
    char shape[64];
    snprintf(shape, sizeof(shape), rank == 2 ? "%d,%d" : "%d", (int)dims[0], rank == 2 ? (int)dims[1] : 0);
    assert_true(b->data_size + bytes <= sizeof(b->data));
    memcpy(b->data + b->data_size, data, bytes);
    b->header_size += (size_t)snprintf(b->header + b->header_size, sizeof(b->header) - b->header_size,
                                       "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                                       b->header_size ? "," : "{", name, shape, b->data_size, b->data_size + bytes);
    b->data_size += bytes;
    assert_true(b->header_size + 2 < sizeof(b->header));
}

static void add_table(builder *b, const char *name, float value, int rows) {
    float table[VOCABULARY * WIDTH];
    for (int i = 0; i < rows * WIDTH; i++)
        table[i] = value;
    add(b, name, 2, (int64_t[]){rows, WIDTH}, table, sizeof(*table) * (size_t)(rows * WIDTH));
}

static void finish(builder *b) {
    strcpy(b->header + b->header_size, "}");
    uint64_t size = b->header_size + 1;
    unsigned char *file = malloc(8 + size + b->data_size);
    assert_non_null(file);
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)(size >> 8 * i);
    memcpy(file + 8, b->header, size);
    memcpy(file + 8 + size, b->data, b->data_size);
    scratch_write("model.safetensors", file, 8 + size + b->data_size);
    free(file);
}

static void begin(builder *b, bool share, bool tie) {
    b->header_size = b->data_size = 0;
    for (size_t i = 0; i < tfm__weights_count(whole); i++) {
        const tfm__stored_tensor *s = tfm__weights_at(whole, i);
        if (s->rank < 2 || s->dims[0] != VOCABULARY)
            add(b, s->name, s->rank, s->dims, s->data, s->bytes);
    }
    json_object_set_new(config, "share_encoder_decoder_embeddings", json_boolean(share));
    json_object_set_new(config, "tie_word_embeddings", json_boolean(tie));
    harness_ok(tfm__json_write(scratch_root, "config.json", json_incref(config), "test"));
}

/* A directory with the tables of the given letters; `value` is used for all, or 0 for a distinct one each. */
static void make(bool share, bool tie, const char *letters, float value) {
    static builder b;
    begin(&b, share, tie);
    for (size_t i = 0; i < TFM__COUNT(STORED); i++)
        if (strchr(letters, STORED[i].letter))
            add_table(&b, STORED[i].name, value != 0 ? value : STORED[i].value, VOCABULARY);
    finish(&b);
}

static tfm_status open_in(tfm_model **out, const char *dir) {
    return tfm_model_open(out, harness_context(), dir, &(tfm_model_options){.no_tokenizer = true});
}

/* Log messages since the last reset. */
static char warned[4096];

static void note(void *user, tfm_log_level level, const char *line) {
    (void)user;
    if (level == TFM_LOG_WARNING)
        snprintf(warned + strlen(warned), sizeof(warned) - strlen(warned), "%s\n", line);
}

static void listen(bool on) {
    warned[0] = 0;
    tfm_log_set(on ? note : NULL, NULL, TFM_LOG_WARNING);
}

/* ---- Tables ---- */

static char letter_of(const tfm_param *table) {
    char letter = '?';
    assert_int_equal(tfm_tensor_count(table->value), VOCABULARY * WIDTH);
    float *values = harness_floats(table->value);
    for (size_t i = 0; i < TFM__COUNT(STORED); i++)
        if (values[0] == STORED[i].value && values[VOCABULARY * WIDTH - 1] == STORED[i].value)
            letter = STORED[i].letter;
    free(values);
    return letter;
}

/* The letters of source, target and output. */
static void check_roles(const tfm_model *model, const char *wanted, const char *what) {
    const char got[] = {letter_of(model->encoder.table), letter_of(model->decoder.table), letter_of(model->output), 0};
    if (strcmp(got, wanted) != 0)
        fail_msg("%s: %s instead of %s", what, got, wanted);
}

/* The stored tables and the roles they get, or the name reported as missing. A table under a role's own name is always
 * used, whatever the ties say. */
static const struct {
    bool share, tie;
    const char *stored, *wanted;
} ROLES[] = {
    {true, true, "S", "SSS"},
    {true, true, "E", "EEE"},
    {true, true, "D", "DDD"},
    {true, true, "O", "OOO"},
    {true, true, "SE", "ESS"},
    {true, true, "ED", "EDD"},
    {true, true, "EO", "EOO"},
    {true, true, "SO", "SSO"},
    {true, true, "EDO", "EDO"},
    {true, true, "SEDO", "EDO"},
    {true, false, "S", "lm_head.weight is missing"},
    {true, false, "O", "model.encoder.embed_tokens.weight is missing, and so are its aliases"},
    {true, false, "ED", "lm_head.weight is missing"},
    {true, false, "SO", "SSO"},
    {true, false, "EO", "EEO"},
    {true, false, "DO", "DDO"},
    {true, false, "EDO", "EDO"},
    {true, false, "SEDO", "EDO"},
    {false, true, "S", "SSS"},
    {false, true, "E", "model.decoder.embed_tokens.weight is missing, and so are its aliases"},
    {false, true, "D", "model.encoder.embed_tokens.weight is missing, and so are its aliases"},
    {false, true, "ED", "EDD"},
    {false, true, "EO", "EOO"},
    {false, true, "SD", "SDD"},
    {false, true, "EDO", "EDO"},
    {false, false, "ED", "lm_head.weight is missing"},
    {false, false, "DO", "model.encoder.embed_tokens.weight is missing, and so are its aliases"},
    {false, false, "EO", "model.decoder.embed_tokens.weight is missing, and so are its aliases"},
    {false, false, "SO", "SSO"},
    {false, false, "EDO", "EDO"},
    {false, false, "SEDO", "EDO"},
};

static void test_stored_tensors_get_roles_by_ties_and_names(void **state) {
    (void)state;
    for (size_t i = 0; i < TFM__COUNT(ROLES); i++) {
        tfm_model *model, *again;
        tfm_model_info info;
        char what[64];
        snprintf(what, sizeof(what), "share %d, tie %d, %s", ROLES[i].share, ROLES[i].tie, ROLES[i].stored);
        make(ROLES[i].share, ROLES[i].tie, ROLES[i].stored, 0);
        if (strlen(ROLES[i].wanted) != 3) {
            scratch_refused(open_in(&model, scratch_root), TFM_ERROR_FORMAT, ROLES[i].wanted);
            scratch_refused(tfm_model_read_info(&info, scratch_root, &(tfm_model_options){.no_tokenizer = true}),
                            TFM_ERROR_FORMAT, ROLES[i].wanted);
            continue;
        }
        listen(true);
        harness_ok(open_in(&model, scratch_root));
        harness_ok(tfm_model_read_info(&info, scratch_root, &(tfm_model_options){.no_tokenizer = true}));
        listen(false);
        check_roles(model, ROLES[i].wanted, what);
        assert_int_equal(info.tied_embeddings, ROLES[i].wanted[1] == ROLES[i].wanted[2]);
        assert_int_equal(info.parameters, tfm_model_get_info(model)->parameters);
        /* The saved model has the same roles. */
        harness_ok(tfm_model_save(model, scratch_path("again"), TFM_F32));
        harness_ok(open_in(&again, scratch_path("again")));
        check_roles(again, ROLES[i].wanted, what);
        assert_int_equal(tfm_model_get_info(again)->parameters, info.parameters);
        tfm_model_free(&again);
        tfm_model_free(&model);
    }
}

/* Copies of one table are merged if the configuration ties them: counted and held once. */
static void test_copies_of_a_tied_table_are_loaded_once(void **state) {
    (void)state;
    tfm_model *model;
    uint64_t counts[4];
    for (int i = 0; i < 4; i++) {
        const bool share = i & 1, tie = i & 2;
        make(share, tie, "SEDO", 3);
        listen(true);
        harness_ok(open_in(&model, scratch_root));
        assert_string_equal(warned, "");
        listen(false);
        check_roles(model, "DDD", "copies");
        assert_int_equal(model->decoder.table == model->encoder.table, share);
        assert_int_equal(model->output == model->decoder.table, tie);
        counts[i] = tfm_model_get_info(model)->parameters;
        tfm_model_free(&model);
    }
    const uint64_t table = VOCABULARY * WIDTH;
    assert_true(counts[0] == counts[3] + 2 * table && counts[1] == counts[3] + table && counts[2] == counts[1]);
}

/* Tied tables that differ are used as stored, with a log message; unused tables are named. */
static void test_differing_tied_tables_and_unread_tensors_are_warned(void **state) {
    (void)state;
    static const struct {
        bool share, tie;
        const char *stored, *said;
    } CASES[] = {
        {true, true, "ED", "embed_tokens.weight are tied by config.json, but differ"},
        {true, true, "SO", "are tied by config.json, but differ"},
        {false, true, "EDO", "lm_head.weight and model.decoder.embed_tokens.weight are tied by config.json"},
        {true, false, "SEDO", "unused tensor model.shared.weight"},
        {false, false, "SEDO", "unused tensor model.shared.weight"},
    };
    tfm_model *model;
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        make(CASES[i].share, CASES[i].tie, CASES[i].stored, 0);
        listen(true);
        harness_ok(open_in(&model, scratch_root));
        if (!strstr(warned, CASES[i].said))
            fail_msg("case %zu: \"%s\"", i, warned);
        listen(false);
        tfm_model_free(&model);
    }
    make(false, false, "EDO", 0);
    listen(true);
    harness_ok(open_in(&model, scratch_root));
    assert_string_equal(warned, "");
    listen(false);
    tfm_model_free(&model);
}

/* Leftovers: unknown tensors are logged, parts of a block rejected; a table with both sizes serves both sides. */
static void test_unread_block_tensor_is_rejected_and_stranger_warned(void **state) {
    (void)state;
    static const struct {
        const char *name, *said;
        tfm_status status;
    } CASES[] = {
        {"adapter.weight", "unused tensor adapter.weight", TFM_OK},
        {"model.encoder.layers.1.fc1.weight", "layers.1.fc1.weight is not part of the model", TFM_ERROR_FORMAT},
        {"model.decoder.layer_norm.weight", "model.decoder.layer_norm.weight is not part of the model",
         TFM_ERROR_FORMAT},
    };
    static builder b;
    tfm_model *model;
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        begin(&b, true, true);
        add_table(&b, STORED[0].name, STORED[0].value, VOCABULARY);
        add_table(&b, CASES[i].name, 9, 2);
        finish(&b);
        listen(true);
        const tfm_status status = open_in(&model, scratch_root);
        if (CASES[i].status == TFM_OK)
            harness_ok(status);
        else
            scratch_refused(status, CASES[i].status, CASES[i].said);
        assert_true(CASES[i].status != TFM_OK || strstr(warned, CASES[i].said));
        listen(false);
        tfm_model_free(&model);
    }
    json_object_set_new(config, "decoder_vocab_size", json_integer(VOCABULARY - 1));
    make(false, true, "S", 0);
    scratch_refused(open_in(&model, scratch_root), TFM_ERROR_FORMAT, "has 6 rows, but the configuration says 5");
    json_object_set_new(config, "decoder_vocab_size", json_integer(VOCABULARY));
}

/* Names without the prefix "model.", as of a model saved without its head. */
static void test_tensor_names_without_model_prefix_are_found(void **state) {
    (void)state;
    static builder b;
    tfm_model *model;
    begin(&b, true, true);
    b.header_size = b.data_size = 0;
    for (size_t i = 0; i < tfm__weights_count(whole); i++) {
        const tfm__stored_tensor *s = tfm__weights_at(whole, i);
        if (s->rank < 2 || s->dims[0] != VOCABULARY)
            add(&b, strncmp(s->name, "model.", 6) == 0 ? s->name + 6 : s->name, s->rank, s->dims, s->data, s->bytes);
    }
    add_table(&b, "shared.weight", 1, VOCABULARY);
    finish(&b);
    listen(true);
    harness_ok(open_in(&model, scratch_root));
    assert_string_equal(warned, "");
    listen(false);
    check_roles(model, "SSS", "bare names");
    tfm_model_free(&model);
}

static int setup(void **state) {
    tfm_model *model;
    const tfm_model_shape shape = {.width = WIDTH,
                                   .heads = 1,
                                   .ffn_dim = 3,
                                   .encoder_layers = 1,
                                   .decoder_layers = 1,
                                   .source_vocab_size = VOCABULARY,
                                   .max_positions = 8,
                                   .pad_id = 4,
                                   .start_id = 4};
    if (scratch_setup(state) != 0 || harness_setup(state) != 0)
        return -1;
    harness_ok(tfm_model_new(&model, harness_context(), &shape));
    harness_ok(tfm_model_save(model, scratch_path("made"), TFM_F32));
    tfm_model_free(&model);
    harness_ok(tfm__weights_open_dir(&whole, scratch_path("made")));
    harness_ok(tfm__json_load(&config, scratch_path("made/config.json")));
    return 0;
}

static int teardown(void **state) {
    json_decref(config);
    tfm__weights_free(&whole);
    return harness_teardown(state) | scratch_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stored_tensors_get_roles_by_ties_and_names),
        cmocka_unit_test(test_copies_of_a_tied_table_are_loaded_once),
        cmocka_unit_test(test_differing_tied_tables_and_unread_tensors_are_warned),
        cmocka_unit_test(test_unread_block_tensor_is_rejected_and_stranger_warned),
        cmocka_unit_test(test_tensor_names_without_model_prefix_are_found),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
