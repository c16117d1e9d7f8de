/* Lists of files of the hub, and the files of a model in them. */
#include "base/hub/hub.h"
#include "base/json.h"
#include "support/scratch.h"

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static json_t *parsed(const char *text) {
    json_t *out;
    harness_ok(tfm__json_read(&out, text, strlen(text), "the answer"));
    return out;
}

static tfm_status add_tree(tfm__hub_list *list, const char *text) {
    json_t *tree = parsed(text);
    const tfm_status status = tfm__hub_list_add_tree(list, tree, "acme/tiny");
    json_decref(tree);
    return status;
}

static void test_tree_is_read(void **state) {
    (void)state;
    tfm__hub_list list = {0};
    harness_ok(add_tree(&list, "[{\"type\": \"file\", \"path\": \"a.json\", \"oid\": \"abc\", \"size\": 7},"
                               "{\"type\": \"directory\", \"path\": \"b\"},"
                               "{\"type\": \"file\", \"path\": \"b/w.bin\", \"oid\": \"x\", \"size\": 130,"
                               " \"lfs\": {\"oid\": \"" SHA "\", \"size\": 5000000000}}]"));
    assert_int_equal(list.count, 2);
    assert_string_equal(list.files[0].etag, "abc");
    assert_true(list.files[0].sized && list.files[0].size == 7 && !list.files[0].lfs);
    assert_string_equal(list.files[1].etag, SHA);
    assert_true(list.files[1].lfs && list.files[1].size == 5000000000);
    tfm__hub_list_free(&list);
}

static void test_paths_outside_of_the_repository_are_skipped(void **state) {
    (void)state;
    tfm__hub_list list = {0};
    harness_ok(add_tree(&list, "[{\"path\": \"../a\"}, {\"path\": \"/a\"}, {\"path\": \"a/../../b\"}, {\"path\": \"\"},"
                               "{\"path\": \".gitattributes\"}, {\"path\": \"a\\\\b\"}, {\"path\": \"a/\"},"
                               "{\"path\": \"a\\nb\"}, {\"path\": \"a//b\"}]"));
    assert_int_equal(list.count, 0);
    harness_ok(add_tree(&list, "[{\"path\": \"config.json\", \"oid\": \"../x\", \"size\": 1}]"));
    assert_null(list.files[0].etag); /* requested from the server */
    tfm__hub_list_free(&list);
}

static void test_invalid_answers_are_refused(void **state) {
    (void)state;
    static const char *const TREES[] = {"{}",
                                        "[1]",
                                        "[{\"oid\": \"a\"}]",
                                        "[{\"path\": 1}]",
                                        "[{\"path\": \"a\", \"size\": -1}]",
                                        "[{\"path\": \"a\", \"size\": 1.5}]",
                                        "[{\"path\": \"a\", \"size\": 1, \"lfs\": {}}]",
                                        "[{\"path\": \"a\", \"size\": 1, \"lfs\": {\"oid\": \"ABC\"}}]"};
    for (size_t i = 0; i < TFM__COUNT(TREES); i++) {
        tfm__hub_list list = {0};
        if (add_tree(&list, TREES[i]) != TFM_ERROR_FORMAT)
            fail_msg("%s is taken", TREES[i]);
        tfm__hub_list_free(&list);
    }
    static const char *const INFOS[] = {
        "{}", "[]", "{\"sha\": \"\"}", "{\"sha\": \"../x\"}", "{\"sha\": 1}", "{\"sha\": \"a/b\"}"};
    for (size_t i = 0; i < TFM__COUNT(INFOS); i++) {
        tfm__hub_list list = {0};
        json_t *info = parsed(INFOS[i]);
        assert_null(tfm__hub_info_commit(info, "acme/tiny"));
        scratch_refused(tfm__hub_list_add_siblings(&list, info, "acme/tiny"), TFM_ERROR_FORMAT, "no list of its files");
        json_decref(info);
    }
}

static void test_siblings_are_read(void **state) {
    (void)state;
    tfm__hub_list list = {0};
    json_t *info =
        parsed("{\"sha\": \"abc\", \"siblings\": [{\"rfilename\": \"config.json\"}, {\"rfilename\": \"../x\"},"
               "{\"rfilename\": \"w.bin\", \"size\": 9, \"lfs\": {\"sha256\": \"" SHA "\", \"size\": 9}}, 7]}");
    assert_string_equal(tfm__hub_info_commit(info, "acme/tiny"), "abc");
    harness_ok(tfm__hub_list_add_siblings(&list, info, "acme/tiny"));
    assert_int_equal(list.count, 2);
    assert_true(!list.files[0].etag && !list.files[0].sized);
    assert_string_equal(list.files[1].etag, SHA);
    json_decref(info);
    tfm__hub_list_free(&list);
}

/* ---- The plan ------------------------------------------------------------------------------------------- */

/* Contents of downloaded files: name and JSON. */
typedef struct contents {
    const char *name, *json;
} contents;

static tfm_status read_content(void *user, json_t **out, const tfm__hub_file *file) {
    for (const contents *c = user; c && c->name; c++)
        if (strcmp(c->name, file->path) == 0)
            *out = parsed(c->json);
    return TFM_OK;
}

/* Plans for the files, separated by blanks; the wanted ones in the same form, or "-" after a failure. */
static const char *plan(const char *files, const char *wanted_file, const contents *known) {
    static char out[2048];
    tfm__hub_list list = {0};
    tfm__hub_name name = {.repo = "acme/tiny"};
    char tree[4096] = "[", copy[2048];
    snprintf(name.file, sizeof(name.file), "%s", wanted_file);
    snprintf(copy, sizeof(copy), "%s", files);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        const size_t used = strlen(tree);
        snprintf(tree + used, sizeof(tree) - used, "%s{\"path\": \"%s\"}", used > 1 ? "," : "", word);
    }
    strcat(tree, "]");
    harness_ok(add_tree(&list, tree));
    const tfm_status status = tfm__hub_plan(&list, &name, read_content, (void *)(uintptr_t)known);
    out[0] = '\0';
    for (size_t i = 0; i < list.count && status == TFM_OK; i++)
        if (list.files[i].wanted)
            snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s%s", *out ? " " : "", list.files[i].path);
    tfm__hub_list_free(&list);
    return status == TFM_OK ? out : "-";
}

static void test_one_format_of_weights_is_planned(void **state) {
    (void)state;
    assert_string_equal(
        plan("README.md config.json flax_model.msgpack model.safetensors onnx/model.onnx pytorch_model.bin "
             "tf_model.h5 tokenizer.json training_args.bin",
             "", NULL),
        "config.json model.safetensors tokenizer.json");
    assert_string_equal(plan("config.json pytorch_model.bin rust_model.ot vocab.txt", "", NULL),
                        "config.json pytorch_model.bin vocab.txt");
    assert_string_equal(plan("config.json tf_model.h5", "", NULL), "-");
    assert_non_null(strstr(tfm_error_message(), "it has config.json, tf_model.h5"));
    assert_string_equal(plan("", "", NULL), "-");
    assert_string_equal(plan("adapter_config.json adapter_model.safetensors", "", NULL), "-");
    assert_string_equal(plan("config.yml lex.50.50.bin model.npz vocab.spm x.npz", "", NULL),
                        "config.yml lex.50.50.bin model.npz vocab.spm");
}

static void test_index_adds_its_shards(void **state) {
    (void)state;
    static const char FILES[] = "config.json consolidated.safetensors model-1.safetensors model-2.safetensors "
                                "model.safetensors.index.json";
    static const contents KNOWN[] = {
        {"model.safetensors.index.json",
         "{\"weight_map\": {\"a\": \"model-1.safetensors\", \"b\": \"model-2.safetensors\"}}"},
        {0}};
    static const contents EVIL[] = {{"model.safetensors.index.json", "{\"weight_map\": {\"a\": \"../x\"}}"}, {0}};
    static const contents ODD[] = {{"model.safetensors.index.json", "{\"weight_map\": {\"a\": 7}}"}, {0}};
    assert_string_equal(plan(FILES, "", NULL), "config.json model.safetensors.index.json");
    assert_string_equal(plan(FILES, "", KNOWN),
                        "config.json model-1.safetensors model-2.safetensors model.safetensors.index.json");
    assert_string_equal(plan(FILES, "", EVIL), "-");
    assert_string_equal(plan(FILES, "", ODD), "-");
}

static void test_modules_add_their_folders(void **state) {
    (void)state;
    static const char FILES[] = "0_Transformer/config.json 0_Transformer/model.safetensors 1_Pooling/config.json "
                                "2_Dense/config.json 2_Dense/pytorch_model.bin 3_Not/config.json modules.json";
    static const contents KNOWN[] = {
        {"modules.json", "[{\"path\": \"0_Transformer\"}, {\"path\": \"1_Pooling\"}, {\"path\": \"2_Dense\"},"
                         "{\"path\": \"../..\"}, {\"path\": 7}, 8]"},
        {0}};
    assert_string_equal(plan(FILES, "", NULL), "modules.json");
    assert_string_equal(plan(FILES, "", KNOWN), "0_Transformer/config.json 0_Transformer/model.safetensors "
                                                "1_Pooling/config.json 2_Dense/config.json 2_Dense/pytorch_model.bin "
                                                "modules.json");
}

static void test_gguf_files_are_planned(void **state) {
    (void)state;
    static const char FILES[] = "b-00001-of-00002.gguf b-00002-of-00002.gguf config.json m-Q4_K_M.gguf m-Q8_0.gguf";
    assert_string_equal(plan(FILES, "", NULL), "m-Q4_K_M.gguf");
    assert_string_equal(plan(FILES, "Q8_0", NULL), "m-Q8_0.gguf");
    assert_string_equal(plan(FILES, "b-00001-of-00002.gguf", NULL), "b-00001-of-00002.gguf b-00002-of-00002.gguf");
    assert_string_equal(plan(FILES, "Q5_0", NULL), "-");
    assert_string_equal(plan("config.json m-Q4_0.gguf model.safetensors", "", NULL), "config.json model.safetensors");
    assert_string_equal(plan("config.json m-Q4_0.gguf model.safetensors", "Q4_0", NULL), "m-Q4_0.gguf");
    assert_string_equal(plan("config.json model.safetensors", "Q4_0", NULL), "-");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree_is_read),
        cmocka_unit_test(test_paths_outside_of_the_repository_are_skipped),
        cmocka_unit_test(test_invalid_answers_are_refused),
        cmocka_unit_test(test_siblings_are_read),
        cmocka_unit_test(test_one_format_of_weights_is_planned),
        cmocka_unit_test(test_index_adds_its_shards),
        cmocka_unit_test(test_modules_add_their_folders),
        cmocka_unit_test(test_gguf_files_are_planned),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
