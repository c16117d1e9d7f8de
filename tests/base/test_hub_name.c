/* Names of the hub, environment variables, and headers of answers. */
#include "base/hub/hub.h"
#include "base/hub/hub_headers.h"
#include "support/scratch.h"

static void test_hub_names_are_parsed(void **state) {
    (void)state;
    static const struct {
        const char *text, *repo, *revision, *file;
    } CASES[] = {
        {"acme/tiny", "acme/tiny", "main", ""},
        {"gpt2", "gpt2", "main", ""},
        {"a/b_c.d-e", "a/b_c.d-e", "main", ""},
        {"acme/tiny:Q4_K_M", "acme/tiny", "main", "Q4_K_M"},
        {"acme/tiny:x/y z.gguf", "acme/tiny", "main", "x/y z.gguf"},
        {"acme/tiny@v2", "acme/tiny", "v2", ""},
        {"acme/tiny@refs/pr/3:q8_0", "acme/tiny", "refs/pr/3", "q8_0"},
        {"acme/tiny:a@b.gguf", "acme/tiny", "main", "a@b.gguf"},
    };
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        tfm__hub_name name;
        if (!tfm__hub_name_parse(&name, CASES[i].text))
            fail_msg("%s is refused", CASES[i].text);
        assert_string_equal(name.repo, CASES[i].repo);
        assert_string_equal(name.revision, CASES[i].revision);
        assert_string_equal(name.file, CASES[i].file);
    }
}

static void test_other_texts_are_no_hub_names(void **state) {
    (void)state;
    static const char *const TEXTS[] = {
        "",       "/a",     "a/",     "./a",     "../a",   "a/b/c",    "a b",    "a/-b",     "a/b-",      ".a/b",
        "a/.b",   "a--b/c", "a..b/c", "a/b.git", "a/b@",   "a/b:",     "a/b@:c", "a/b@../c", "a/b@/c",    "a/b:../c",
        "a/b:/c", "a/b:c/", "a\n/b",  "a/b@c\n", "a\\b/c", "a/b:c\\d", "a/b:.c", "~/a",      "\xc3\xa9/b"};
    tfm__hub_name name;
    for (size_t i = 0; i < TFM__COUNT(TEXTS); i++)
        if (tfm__hub_name_parse(&name, TEXTS[i]))
            fail_msg("%s is taken", TEXTS[i]);
    char text[4096];
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    assert_false(tfm__hub_name_parse(&name, text));
    text[97] = '\0';
    assert_false(tfm__hub_name_parse(&name, text));
    text[96] = '\0';
    assert_true(tfm__hub_name_parse(&name, text));
}

static void clear(void) {
    static const char *const NAMES[] = {"HF_HUB_CACHE",
                                        "HUGGINGFACE_HUB_CACHE",
                                        "HF_HOME",
                                        "XDG_CACHE_HOME",
                                        "HF_ENDPOINT",
                                        "HF_TOKEN",
                                        "HF_TOKEN_PATH",
                                        "HUGGING_FACE_HUB_TOKEN",
                                        "HF_HUB_OFFLINE",
                                        "TRANSFORMERS_OFFLINE",
                                        "HF_HUB_DISABLE_IMPLICIT_TOKEN"};
    for (size_t i = 0; i < TFM__COUNT(NAMES); i++)
        unsetenv(NAMES[i]);
    setenv("HOME", scratch_root, 1);
}

static void expect_cache(const char *want) {
    char *got = NULL;
    harness_ok(tfm__hub_cache_dir(&got));
    assert_string_equal(got, want);
    free(got);
}

static void test_cache_folder_follows_the_environment(void **state) {
    (void)state;
    clear();
    expect_cache(scratch_path(".cache/huggingface/hub"));
    setenv("XDG_CACHE_HOME", "/x", 1);
    expect_cache("/x/huggingface/hub");
    setenv("HF_HOME", "~/h", 1);
    expect_cache(scratch_path("h/hub"));
    setenv("HUGGINGFACE_HUB_CACHE", "/old", 1);
    expect_cache("/old");
    setenv("HF_HUB_CACHE", "/new", 1);
    expect_cache("/new");
    clear();
    unsetenv("HOME");
    char *got = NULL;
    scratch_refused(tfm__hub_cache_dir(&got), TFM_ERROR_IO, "set HF_HUB_CACHE");
    assert_null(got);
}

static void expect_token(const char *want) {
    char *got = NULL;
    harness_ok(tfm__hub_token(&got));
    if (want)
        assert_string_equal(got, want);
    else
        assert_null(got);
    free(got);
}

static void test_token_is_read_from_variable_or_file(void **state) {
    (void)state;
    char *got = NULL;
    clear();
    expect_token(NULL);
    setenv("HF_HOME", scratch_root, 1);
    scratch_text("token", "\n");
    expect_token(NULL);
    scratch_text("token", " hf_abc\n");
    expect_token("hf_abc");
    setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1", 1);
    expect_token(NULL);
    scratch_text("other", "hf_other");
    unsetenv("HF_HUB_DISABLE_IMPLICIT_TOKEN");
    setenv("HF_TOKEN_PATH", scratch_path("other"), 1);
    expect_token("hf_other");
    setenv("HF_TOKEN", "hf_variable", 1);
    expect_token("hf_variable");
    setenv("HF_TOKEN", "two words", 1);
    scratch_refused(tfm__hub_token(&got), TFM_ERROR_FORMAT, "HF_TOKEN is not an access token");
    setenv("HF_TOKEN", "a\r\nHost: x", 1);
    scratch_refused(tfm__hub_token(&got), TFM_ERROR_FORMAT, "HF_TOKEN is not an access token");
}

static void test_endpoint_and_offline_follow_the_environment(void **state) {
    (void)state;
    clear();
    char *endpoint = tfm__hub_endpoint();
    assert_string_equal(endpoint, "https://huggingface.co");
    free(endpoint);
    setenv("HF_ENDPOINT", "http://mirror:80/hub//", 1);
    endpoint = tfm__hub_endpoint();
    assert_string_equal(endpoint, "http://mirror:80/hub");
    free(endpoint);
    assert_false(tfm__hub_is_offline());
    setenv("HF_HUB_OFFLINE", "0", 1);
    assert_false(tfm__hub_is_offline());
    setenv("HF_HUB_OFFLINE", "True", 1);
    assert_true(tfm__hub_is_offline());
    clear();
    setenv("TRANSFORMERS_OFFLINE", "1", 1);
    assert_true(tfm__hub_is_offline());
    clear();
}

static void add(tfm__hub_headers *h, const char *line) {
    tfm__hub_header(h, line, strlen(line));
}

static void test_headers_of_an_answer_are_read(void **state) {
    (void)state;
    tfm__hub_headers h = {0};
    add(&h, "HTTP/1.1 302 Found\r\n");
    add(&h, "ETag: \"other\"\r\n");
    add(&h, "x-linked-etag:\"abc\"\r\n");
    add(&h, "ETag: \"other\"\r\n");
    add(&h, "X-Linked-Size: 12345678901\r\n");
    add(&h, "Content-Length: 7\r\n");
    add(&h, "X-Repo-Commit:  0123\r\n");
    add(&h, "X-Error-Code: GatedRepo\r\n");
    add(&h, "Content-Range: bytes 100-199/200\r\n");
    add(&h, "Link: <http://h/first>; rel=\"first\", <http://h/a?b=c>; rel=\"next\", <http://h/z>; rel=\"last\"\r\n");
    assert_string_equal(h.etag, "abc");
    assert_true(h.sized && h.size == 12345678901u && h.linked);
    assert_string_equal(h.commit, "0123");
    assert_string_equal(h.error, "GatedRepo");
    assert_true(h.ranged && h.range_start == 100);
    assert_string_equal(h.next, "http://h/a?b=c");
    add(&h, "HTTP/1.1 200 OK\r\n");
    assert_true(!h.etag[0] && !h.sized && !h.ranged && !h.next[0] && !h.linked);
    add(&h, "ETag: W/\"weak\"");
    assert_string_equal(h.etag, "weak");
}

static void test_hostile_headers_are_ignored(void **state) {
    (void)state;
    static const char *const LINES[] = {"ETag: \"../x\"",
                                        "ETag: \"\"",
                                        "ETag: \"a/b\"",
                                        "ETag: \".hidden\"",
                                        "X-Linked-Size: -1",
                                        "X-Linked-Size: 99999999999999999999",
                                        "Content-Range: bytes x-1/2",
                                        "X-Repo-Commit: ../x",
                                        "Link: <a",
                                        "Link: >b<",
                                        "Link: <x>; rel=\"prev\"",
                                        "no colon",
                                        ":",
                                        ""};
    for (size_t i = 0; i < TFM__COUNT(LINES); i++) {
        tfm__hub_headers h = {0};
        add(&h, LINES[i]);
        if (h.etag[0] || h.sized || h.ranged || h.commit[0] || h.next[0])
            fail_msg("%s is taken", LINES[i]);
    }
    tfm__hub_headers h = {0};
    char line[9000];
    memset(line, 'a', sizeof(line));
    memcpy(line, "ETag: \"", 7);
    tfm__hub_header(&h, line, sizeof(line));
    tfm__hub_header(&h, line, 400);
    assert_string_equal(h.etag, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hub_names_are_parsed),
        cmocka_unit_test(test_other_texts_are_no_hub_names),
        cmocka_unit_test(test_cache_folder_follows_the_environment),
        cmocka_unit_test(test_token_is_read_from_variable_or_file),
        cmocka_unit_test(test_endpoint_and_offline_follow_the_environment),
        cmocka_unit_test(test_headers_of_an_answer_are_read),
        cmocka_unit_test(test_hostile_headers_are_ignored),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
