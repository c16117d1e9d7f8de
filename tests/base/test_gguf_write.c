/* GGUF files as written, read back; and the bytes of a small one against the format's description. */
#include "base/gguf_write.h"
#include "support/gguf_scratch.h"
#include "support/harness.h"

static char *path_of(const char *name) {
    return tfm__path_join(scratch_root, name);
}

static void add_values(tfm__gguf_writer *w) {
    tfm__gguf_add_string(w, "general.architecture", "llama");
    tfm__gguf_add_u32(w, "llama.block_count", 3);
    tfm__gguf_add_f32(w, "llama.epsilon", 0.5F);
    tfm__gguf_add_bool(w, "flag", true);
    tfm__gguf_add_numbers(w, "types", TFM__GGUF_INT32, (int32_t[]){1, -2, 3}, 3, 12);
    tfm__gguf_add_strings(w, "tokens", 2);
    tfm__gguf_add_element(w, "a\0b", 3);
    tfm__gguf_add_element(w, "", 0);
}

static void check_values(const tfm__gguf *g) {
    uint64_t number = 0;
    int64_t integer = 0;
    double real = 0;
    bool flag = false;
    tfm__gguf_text text = {0};
    assert_true(tfm__gguf_is(tfm__gguf_find(g, "general.architecture"), 0, "llama"));
    assert_true(tfm__gguf_u64(&number, tfm__gguf_find(g, "llama.block_count"), 0) && number == 3);
    assert_true(tfm__gguf_f64(&real, tfm__gguf_find(g, "llama.epsilon"), 0) && real == 0.5);
    assert_true(tfm__gguf_bool(&flag, tfm__gguf_find(g, "flag"), 0) && flag);
    assert_int_equal(tfm__gguf_find(g, "types")->count, 3);
    assert_true(tfm__gguf_i64(&integer, tfm__gguf_find(g, "types"), 1) && integer == -2);
    assert_true(tfm__gguf_string(&text, tfm__gguf_find(g, "tokens"), 0) && text.bytes == 3);
    assert_memory_equal(text.data, "a\0b", 3);
    assert_true(tfm__gguf_is(tfm__gguf_find(g, "tokens"), 1, ""));
    assert_int_equal(tfm__gguf_values(g), 6);
}

static void test_written_file_reads_back(void **state) {
    (void)state;
    const float values[5] = {1, 2, 3, 4, 5};
    tfm__gguf_writer w = {0};
    tfm__gguf *g;
    char *path = path_of("written.gguf");
    add_values(&w);
    tfm__gguf_add_tensor(&w, "first", 0, 1, (int64_t[]){5}, 20);
    tfm__gguf_add_tensor(&w, "second", 0, 2, (int64_t[]){2, 1}, 8);
    harness_ok(tfm__gguf_writer_begin(&w, path));
    harness_ok(tfm__gguf_writer_data(&w, values, 12));
    harness_ok(tfm__gguf_writer_data(&w, values + 3, 8));
    harness_ok(tfm__gguf_writer_pad(&w));
    harness_ok(tfm__gguf_writer_data(&w, values + 1, 8));
    harness_ok(tfm__gguf_writer_pad(&w));
    harness_ok(tfm__gguf_writer_close(&w, TFM_OK));
    harness_ok(tfm__gguf_open(&g, path));
    check_values(g);
    assert_int_equal(tfm__gguf_tensors(g), 2);
    assert_memory_equal(tfm__gguf_tensor_find(g, "first")->data, values, 20);
    const tfm__gguf_tensor *t = tfm__gguf_tensor_find(g, "second");
    assert_true(t->rank == 2 && t->dims[0] == 2 && t->dims[1] == 1);
    assert_memory_equal(t->data, values + 1, 8);
    tfm__gguf_close(&g);
    free(path);
}

/* Against the builder of the tests, which is written from the format's description. */
static void test_written_bytes_are_those_of_the_format(void **state) {
    (void)state;
    const float values[3] = {1, 2, 3};
    tfm__gguf_writer w = {0};
    gguf_builder b = {0};
    char *path = path_of("bytes.gguf"), *data;
    size_t size;
    gguf_add_u32(&b, "number", 7);
    gguf_add_string(&b, "text", "x");
    gguf_add_strings(&b, "list", (const char *const[]){"p", "q"}, 2);
    gguf_add_tensor(&b, "t", 0, 2, (int64_t[]){1, 3}, values, 12);
    tfm__gguf_add_u32(&w, "number", 7);
    tfm__gguf_add_string(&w, "text", "x");
    tfm__gguf_add_strings(&w, "list", 2);
    tfm__gguf_add_element(&w, "p", 1);
    tfm__gguf_add_element(&w, "q", 1);
    tfm__gguf_add_tensor(&w, "t", 0, 2, (int64_t[]){1, 3}, 12);
    harness_ok(tfm__gguf_writer_begin(&w, path));
    harness_ok(tfm__gguf_writer_data(&w, values, 12));
    harness_ok(tfm__gguf_writer_pad(&w));
    harness_ok(tfm__gguf_writer_close(&w, TFM_OK));
    gguf_bytes wanted = gguf_finish(&b);
    harness_ok(tfm__file_read(&data, &size, path));
    assert_true(size >= wanted.size && size - wanted.size < TFM__GGUF_ALIGNMENT && size % TFM__GGUF_ALIGNMENT == 0);
    assert_memory_equal(data, wanted.data, wanted.size);
    free(wanted.data);
    free(data);
    free(path);
}

static void test_values_of_another_file_are_copied(void **state) {
    (void)state;
    char *path = path_of("copied.gguf"), *from = path_of("from.gguf");
    tfm__gguf_writer w = {0};
    tfm__gguf *g;
    add_values(&w);
    harness_ok(tfm__gguf_writer_begin(&w, from));
    harness_ok(tfm__gguf_writer_close(&w, TFM_OK));
    harness_ok(tfm__gguf_open(&g, from));
    for (size_t i = 0; i < tfm__gguf_values(g); i++)
        tfm__gguf_add_value(&w, tfm__gguf_value_at(g, i));
    tfm__gguf_close(&g);
    harness_ok(tfm__gguf_writer_begin(&w, path));
    harness_ok(tfm__gguf_writer_close(&w, TFM_OK));
    harness_ok(tfm__gguf_open(&g, path));
    check_values(g);
    tfm__gguf_close(&g);
    free(from);
    free(path);
}

static void test_failed_or_incomplete_file_is_removed(void **state) {
    (void)state;
    char *path = path_of("incomplete.gguf");
    tfm__gguf_writer w = {0};
    tfm__gguf_add_tensor(&w, "t", 0, 1, (int64_t[]){2}, 8);
    harness_ok(tfm__gguf_writer_begin(&w, path));
    harness_ok(tfm__gguf_writer_data(&w, "1234", 4));
    harness_refused(tfm__gguf_writer_close(&w, TFM_OK), TFM_ERROR_ARGUMENT, "4 bytes of tensors were written");
    assert_false(tfm__file_exists(path));
    assert_int_equal(tfm__gguf_writer_close(&w, TFM_ERROR_IO), TFM_ERROR_IO); /* nothing begun */
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_file_reads_back),
        cmocka_unit_test(test_written_bytes_are_those_of_the_format),
        cmocka_unit_test(test_values_of_another_file_are_copied),
        cmocka_unit_test(test_failed_or_incomplete_file_is_removed),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
