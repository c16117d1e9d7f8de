/* Local paths of hub names, and listing and deletion, in a cache made by hand. */
#include <sys/stat.h>
#include "base/hub/hub.h"
#include "support/scratch.h"
#include "tfm/hub.h"

#define ONE "1111111111111111111111111111111111111111"
#define TWO "2222222222222222222222222222222222222222"

/* A file of a snapshot, as a link to a blob with this content, or without a blob as a file. */
static void put(const char *repo, const char *commit, const char *path, const char *blob, const char *content) {
    char name[8192], target[8192];
    snprintf(name, sizeof(name), "%s/%s/snapshots/%s/%s", scratch_root, repo, commit, path);
    char *slash = strrchr(name, '/');
    *slash = '\0';
    harness_ok(tfm__dir_make(name, 0777));
    *slash = '/';
    if (!blob) {
        harness_ok(tfm__file_write(name, content, strlen(content)));
        return;
    }
    snprintf(target, sizeof(target), "%s/%s/blobs", scratch_root, repo);
    harness_ok(tfm__dir_make(target, 0777));
    snprintf(target, sizeof(target), "%s/%s/blobs/%s", scratch_root, repo, blob);
    harness_ok(tfm__file_write(target, content, strlen(content)));
    snprintf(target, sizeof(target), "%s../../blobs/%s", strchr(path, '/') ? "../" : "", blob);
    assert_int_equal(symlink(target, name), 0);
}

static void put_ref(const char *repo, const char *ref, const char *commit) {
    char name[8192];
    snprintf(name, sizeof(name), "%s/%s/refs/%s", scratch_root, repo, ref);
    char *slash = strrchr(name, '/');
    *slash = '\0';
    harness_ok(tfm__dir_make(name, 0777));
    *slash = '/';
    harness_ok(tfm__file_write(name, commit, strlen(commit)));
}

/* Two commits of acme/tiny with a common file, and repositories of GGUF files. */
static int setup(void **state) {
    if (scratch_setup(state) != 0)
        return -1;
    setenv("HF_HUB_CACHE", scratch_root, 1);
    put("models--acme--tiny", ONE, "config.json", "c1", "{}");
    put("models--acme--tiny", ONE, "model.safetensors", "w", "weights");
    put("models--acme--tiny", TWO, "config.json", "c2", "{ }");
    put("models--acme--tiny", TWO, "model.safetensors", "w", "weights");
    put("models--acme--tiny", TWO, "sub/copy.json", "c2", "{ }");
    put_ref("models--acme--tiny", "main", ONE);
    put_ref("models--acme--tiny", "refs/pr/1", TWO);
    put_ref("models--acme--tiny", "v2", TWO);
    put_ref("models--acme--tiny", "gone", "3333");
    put_ref("models--acme--tiny", "evil", "../../..");
    put("models--acme--gguf", ONE, "a-Q4_K_M.gguf", "g4", "four");
    put("models--acme--gguf", ONE, "a-Q8_0.gguf", "g8", "eight");
    put("models--acme--gguf", ONE, "mmproj-F16.gguf", "gm", "vision");
    put("models--acme--gguf", ONE, "config.json", "gc", "{}");
    put_ref("models--acme--gguf", "main", ONE);
    put("models--gpt2", ONE, "config.json", NULL, "{}");
    put_ref("models--gpt2", "main", ONE "\n");
    put("datasets--acme--data", ONE, "x", NULL, "x");
    put("models--..--evil", ONE, "x", NULL, "x");
    return 0;
}

static void expect_path(const char *name, const char *want) {
    char *got = NULL;
    harness_ok(tfm_hub_find(&got, name));
    if (want[0] == '=')
        assert_string_equal(got, want + 1);
    else
        assert_string_equal(got, scratch_path(want));
    free(got);
}

static void test_names_are_found_in_the_cache(void **state) {
    (void)state;
    expect_path("acme/tiny", "models--acme--tiny/snapshots/" ONE);
    expect_path("acme/tiny@v2", "models--acme--tiny/snapshots/" TWO);
    expect_path("acme/tiny@refs/pr/1", "models--acme--tiny/snapshots/" TWO);
    expect_path("acme/tiny@" TWO, "models--acme--tiny/snapshots/" TWO);
    expect_path("gpt2", "models--gpt2/snapshots/" ONE);
    expect_path("acme/gguf", "models--acme--gguf/snapshots/" ONE "/a-Q4_K_M.gguf");
    expect_path("acme/gguf:q8_0", "models--acme--gguf/snapshots/" ONE "/a-Q8_0.gguf");
    expect_path("acme/gguf@main:a-Q8_0.gguf", "models--acme--gguf/snapshots/" ONE "/a-Q8_0.gguf");
    expect_path("acme/gguf:mmproj-F16.gguf", "models--acme--gguf/snapshots/" ONE "/mmproj-F16.gguf");
}

static void test_local_paths_are_returned_unchanged(void **state) {
    (void)state;
    char folder[sizeof(scratch_root) + 256], text[sizeof(folder) + 64], want[sizeof(text) + 64];
    snprintf(want, sizeof(want), "=%s", scratch_root);
    expect_path(scratch_root, want);
    expect_path("./nowhere", "=./nowhere");
    expect_path("/nowhere/at/all", "=/nowhere/at/all");
    snprintf(folder, sizeof(folder), "%s/models--acme--gguf/snapshots/%s", scratch_root, ONE);
    snprintf(text, sizeof(text), "%s:Q8_0", folder);
    snprintf(want, sizeof(want), "=%s/a-Q8_0.gguf", folder);
    expect_path(text, want);
}

static void test_missing_models_offer_the_download(void **state) {
    (void)state;
    static const char *const NAMES[][2] = {
        {"acme/none", "no model of this name in the cache"},
        {"acme/tiny@v3", "has acme/tiny, but not its revision v3"},
        {"acme/tiny@gone", "has acme/tiny, but not its revision gone"},
        {"acme/tiny@evil", "has acme/tiny, but not its revision evil"},
        {"acme/gguf:Q5_0", "has no GGUF file of the name or type Q5_0"},
        {"acme/tiny:Q5_0", "has no GGUF file"},
    };
    char *path = NULL;
    for (size_t i = 0; i < TFM__COUNT(NAMES); i++) {
        scratch_refused(tfm_hub_find(&path, NAMES[i][0]), TFM_ERROR_IO, NAMES[i][1]);
        assert_non_null(strstr(tfm_error_message(), tfm__hub_can_download() ? "tfm pull acme/" : "hf download acme/"));
        assert_null(path);
    }
}

static void test_incomplete_snapshots_offer_the_download(void **state) {
    (void)state;
    char hint[1024];
    assert_true(tfm__hub_completion(hint, sizeof(hint), "/c/models--acme--tiny/snapshots/" ONE));
    assert_non_null(strstr(hint, tfm__hub_can_download() ? "`tfm pull acme/tiny@" ONE "`" : "`hf download acme/tiny"));
    assert_true(tfm__hub_completion(hint, sizeof(hint), "/c/models--gpt2/snapshots/" ONE "/0_Transformer"));
    assert_non_null(strstr(hint, tfm__hub_can_download() ? "`tfm pull gpt2@" ONE "`" : "`hf download gpt2"));
    assert_false(tfm__hub_completion(hint, sizeof(hint), "/c/models--acme--tiny/blobs"));
    assert_false(tfm__hub_completion(hint, sizeof(hint), "/c/models--../snapshots/" ONE));
    assert_false(tfm__hub_completion(hint, sizeof(hint), "acme/tiny"));
}

static void test_gguf_files_are_selected(void **state) {
    (void)state;
    static const char *const PATHS[] = {"m-Q4_K_M.gguf",
                                        "m-IQ4_NL.gguf",
                                        "m-Q4_K_S.gguf",
                                        "x/m-BF16-00002-of-00002.gguf",
                                        "x/m-BF16-00001-of-00002.gguf",
                                        "m.f32.GGUF",
                                        "mmproj-x.gguf",
                                        "m.imatrix.gguf",
                                        "Q4_K_M.txt"};
    static const struct {
        const char *wanted;
        int selected;
    } CASES[] = {{"", 0},
                 {"Q4_K_M", 0},
                 {"q4_k_s", 2},
                 {"BF16", 4},
                 {"F32", 5},
                 {"IQ4_NL", 1},
                 {"NL", -1},
                 {"Q4_K", -1},
                 {"16", -1},
                 {"x/m-BF16-00002-of-00002.gguf", 4},
                 {"m-Q4_K_S.gguf", 2},
                 {"M-Q4_K_S.gguf", -1},
                 {"m-BF16-00001-of-00002.gguf", 4},
                 {"mmproj-x.gguf", 6},
                 {"Q4_K_M.txt", -1}};
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        size_t got = 99;
        const tfm_status status = tfm__gguf_select(&got, PATHS, TFM__COUNT(PATHS), CASES[i].wanted, "acme/m", "");
        if ((status == TFM_OK) != (CASES[i].selected >= 0) || (status == TFM_OK && got != (size_t)CASES[i].selected))
            fail_msg("\"%s\": %d, %zu", CASES[i].wanted, (int)status, got);
    }
    size_t got;
    scratch_refused(tfm__gguf_select(&got, PATHS + 1, 2, "", "acme/m", ""), TFM_ERROR_IO,
                    "acme/m has several GGUF files: give one as acme/m:FILE, of m-IQ4_NL.gguf, m-Q4_K_S.gguf");
    harness_ok(tfm__gguf_select(&got, PATHS + 5, 3, "", "acme/m", ""));
    assert_int_equal(got, 0);
    assert_true(tfm__gguf_same_split(PATHS[3], PATHS[4]));
    assert_false(tfm__gguf_same_split("a-00001-of-00002.gguf", "a-00001-of-00003.gguf"));
    assert_false(tfm__gguf_same_split("a-00001-of-00002.gguf", "b-00002-of-00002.gguf"));
}

static void test_cache_is_listed(void **state) {
    (void)state;
    tfm_hub_model *models = NULL;
    size_t count = 0;
    harness_ok(tfm_hub_list(&models, &count));
    assert_int_equal(count, 4);
    assert_string_equal(models[0].name, "acme/gguf");
    assert_int_equal(models[0].files, 4);
    assert_int_equal(models[0].bytes, 17);
    assert_string_equal(models[1].name, "acme/tiny");
    assert_string_equal(models[1].refs, "main");
    assert_string_equal(models[1].commit, ONE);
    assert_string_equal(models[2].refs, "refs/pr/1, v2");
    assert_int_equal(models[2].files, 3);
    assert_int_equal(models[2].bytes, 10); /* two files have one blob */
    assert_string_equal(models[2].path, scratch_path("models--acme--tiny/snapshots/" TWO));
    assert_string_equal(models[3].name, "gpt2");
    tfm_hub_models_free(&models);
    assert_null(models);
    setenv("HF_HUB_CACHE", scratch_path("none"), 1);
    harness_ok(tfm_hub_list(&models, &count));
    assert_int_equal(count, 0);
    tfm_hub_models_free(&models);
    setenv("HF_HUB_CACHE", scratch_root, 1);
}

static bool there(const char *path) {
    struct stat info;
    return lstat(scratch_path(path), &info) == 0;
}

static void test_models_are_deleted(void **state) {
    (void)state;
    uint64_t bytes;
    scratch_refused(tfm_hub_remove(&bytes, "acme/none", false), TFM_ERROR_IO, "no such model");
    scratch_refused(tfm_hub_remove(&bytes, "acme/tiny@gone", false), TFM_ERROR_IO, "no such model");
    scratch_refused(tfm_hub_remove(&bytes, "../tiny", false), TFM_ERROR_ARGUMENT, "is not a name");
    harness_ok(tfm_hub_remove(&bytes, "acme/tiny@v2", true));
    assert_int_equal(bytes, 3);
    assert_true(there("models--acme--tiny/blobs/c2"));
    harness_ok(tfm_hub_remove(&bytes, "acme/tiny@v2", false));
    assert_int_equal(bytes, 3);
    assert_false(there("models--acme--tiny/blobs/c2"));
    assert_false(there("models--acme--tiny/snapshots/" TWO));
    assert_false(there("models--acme--tiny/refs/v2"));
    assert_false(there("models--acme--tiny/refs/refs/pr/1"));
    assert_true(there("models--acme--tiny/refs/main"));
    assert_true(there("models--acme--tiny/blobs/w"));
    harness_ok(tfm_hub_remove(&bytes, "acme/gguf:Q8_0", false));
    assert_int_equal(bytes, 5);
    assert_true(there("models--acme--gguf/blobs/g4") && !there("models--acme--gguf/blobs/g8"));
    expect_path("acme/gguf", "models--acme--gguf/snapshots/" ONE "/a-Q4_K_M.gguf");
    harness_ok(tfm_hub_remove(&bytes, "acme/tiny", false));
    assert_int_equal(bytes, 9 + 2 * 40 - 40 + 4 + 8); /* blobs and the references main, gone and evil */
    assert_false(there("models--acme--tiny"));
    assert_true(there("datasets--acme--data") && there("models--gpt2"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_found_in_the_cache),
        cmocka_unit_test(test_local_paths_are_returned_unchanged),
        cmocka_unit_test(test_missing_models_offer_the_download),
        cmocka_unit_test(test_incomplete_snapshots_offer_the_download),
        cmocka_unit_test(test_gguf_files_are_selected),
        cmocka_unit_test(test_cache_is_listed),
        cmocka_unit_test(test_models_are_deleted), /* the last */
    };
    return cmocka_run_group_tests(tests, setup, scratch_teardown);
}
