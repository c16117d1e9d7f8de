/* The reader of GGUF files. */
#include "base/gguf.h"
#include "support/gguf_scratch.h"

/* A file with a value of each kind and two tensors. */
static void build(gguf_builder *b) {
    gguf_add_raw(b, "a.u8", 0, &(uint8_t){200}, 1);
    gguf_add_raw(b, "a.i8", 1, &(int8_t){-5}, 1);
    gguf_add_raw(b, "a.u16", 2, &(uint16_t){60000}, 2);
    gguf_add_raw(b, "a.i16", 3, &(int16_t){-300}, 2);
    gguf_add_u32(b, "a.u32", 4000000000u);
    gguf_add_raw(b, "a.i32", 5, &(int32_t){-70000}, 4);
    gguf_add_f32(b, "a.f32", 0.25);
    gguf_add_bool(b, "a.bool", true);
    gguf_add_string(b, "a.string", "text");
    gguf_add_raw(b, "a.u64", 10, &(uint64_t){UINT64_MAX}, 8);
    gguf_add_raw(b, "a.i64", 11, &(int64_t){INT64_MIN}, 8);
    gguf_add_raw(b, "a.f64", 12, &(double){1e300}, 8);
    gguf_add_array(b, "a.numbers", 5, 3, (int32_t[]){1, -2, 3}, 12);
    gguf_add_strings(b, "a.strings", (const char *[]){"", "one", "\xC3\xA9"}, 3);
    gguf_add_array(b, "a.nested", 9, 1, (uint32_t[]){4, 1, 0, 7}, 16);
    gguf_add_tensor(b, "second", 0, 2, (int64_t[]){2, 3}, (float[]){1, 2, 3, 4, 5, 6}, 24);
    gguf_add_tensor(b, "first", 8, 2, (int64_t[]){2, 32}, (char[68]){"blocks"}, 68);
}

static tfm__gguf *opened(const char *name) {
    tfm__gguf *g = NULL;
    harness_ok(tfm__gguf_open(&g, scratch_path(name)));
    return g;
}

static void check_values(const tfm__gguf *g) {
    int64_t i;
    uint64_t u;
    double d;
    bool flag;
    tfm__gguf_text text;
    assert_true(tfm__gguf_u64(&u, tfm__gguf_find(g, "a.u8"), 0) && u == 200);
    assert_true(tfm__gguf_i64(&i, tfm__gguf_find(g, "a.i8"), 0) && i == -5);
    assert_true(tfm__gguf_u64(&u, tfm__gguf_find(g, "a.u16"), 0) && u == 60000);
    assert_true(tfm__gguf_i64(&i, tfm__gguf_find(g, "a.i16"), 0) && i == -300);
    assert_true(tfm__gguf_i64(&i, tfm__gguf_find(g, "a.u32"), 0) && i == 4000000000);
    assert_true(tfm__gguf_i64(&i, tfm__gguf_find(g, "a.i32"), 0) && i == -70000);
    assert_true(tfm__gguf_f64(&d, tfm__gguf_find(g, "a.f32"), 0) && d == 0.25);
    assert_true(tfm__gguf_bool(&flag, tfm__gguf_find(g, "a.bool"), 0) && flag);
    assert_true(tfm__gguf_string(&text, tfm__gguf_find(g, "a.string"), 0) && text.bytes == 4);
    assert_true(tfm__gguf_is(tfm__gguf_find(g, "a.string"), 0, "text"));
    assert_true(tfm__gguf_u64(&u, tfm__gguf_find(g, "a.u64"), 0) && u == UINT64_MAX);
    assert_true(tfm__gguf_i64(&i, tfm__gguf_find(g, "a.i64"), 0) && i == INT64_MIN);
    assert_true(tfm__gguf_f64(&d, tfm__gguf_find(g, "a.f64"), 0) && d == 1e300);
    assert_true(tfm__gguf_f64(&d, tfm__gguf_find(g, "a.numbers"), 1) && d == -2);
    assert_true(tfm__gguf_is(tfm__gguf_find(g, "a.strings"), 0, ""));
    assert_true(tfm__gguf_is(tfm__gguf_find(g, "a.strings"), 1, "one"));
    assert_true(tfm__gguf_is(tfm__gguf_find(g, "a.strings"), 2, "\xC3\xA9"));
    assert_int_equal(tfm__gguf_find(g, "a.nested")->count, 1);
    assert_int_equal(tfm__gguf_values(g), 15);
    assert_null(tfm__gguf_value_at(g, 15));
    assert_int_equal(tfm__gguf_value_at(g, 0)->key.bytes, 6);
}

static void check_tensors(const tfm__gguf *g) {
    const tfm__gguf_tensor *t = tfm__gguf_tensor_find(g, "second");
    assert_int_equal(tfm__gguf_tensors(g), 2);
    assert_string_equal(tfm__gguf_tensor_at(g, 0)->name, "first");
    assert_null(tfm__gguf_tensor_at(g, 2));
    assert_null(tfm__gguf_tensor_find(g, "third"));
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->dims[0], 2);
    assert_int_equal(t->dims[1], 3);
    assert_int_equal(t->bytes, 24);
    assert_memory_equal(t->data, ((float[]){1, 2, 3, 4, 5, 6}), 24);
    t = tfm__gguf_tensor_find(g, "first");
    assert_int_equal(t->type, 8);
    assert_int_equal(t->count, 64);
    assert_int_equal(t->bytes, 68);
    assert_memory_equal(t->data, "blocks", 6);
}

static void test_gguf_values_and_tensors_of_both_versions(void **state) {
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        gguf_builder b = {.version = version};
        build(&b);
        gguf_write(&b, "x.gguf");
        tfm__gguf *g = opened("x.gguf");
        check_values(g);
        check_tensors(g);
        assert_int_equal(tfm__gguf_parts(g), 1);
        tfm__gguf_close(&g);
        assert_null(g);
    }
}

static void test_gguf_accessors_refuse_other_kinds(void **state) {
    (void)state;
    gguf_builder b = {0};
    int64_t i = 1;
    uint64_t u = 1;
    double d = 1;
    bool flag = false;
    tfm__gguf_text text = {0};
    build(&b);
    gguf_add_raw(&b, "a.two", 7, &(uint8_t){2}, 1);
    gguf_write(&b, "x.gguf");
    tfm__gguf *g = opened("x.gguf");
    assert_false(tfm__gguf_u64(&u, tfm__gguf_find(g, "a.i8"), 0));
    assert_false(tfm__gguf_i64(&i, tfm__gguf_find(g, "a.u64"), 0));
    assert_false(tfm__gguf_i64(&i, tfm__gguf_find(g, "a.f32"), 0));
    assert_false(tfm__gguf_i64(&i, tfm__gguf_find(g, "a.numbers"), 3));
    assert_false(tfm__gguf_f64(&d, tfm__gguf_find(g, "a.string"), 0));
    assert_false(tfm__gguf_f64(&d, tfm__gguf_find(g, "a.nested"), 0));
    assert_false(tfm__gguf_bool(&flag, tfm__gguf_find(g, "a.u8"), 0));
    assert_false(tfm__gguf_bool(&flag, tfm__gguf_find(g, "a.two"), 0));
    assert_false(tfm__gguf_string(&text, tfm__gguf_find(g, "a.u8"), 0));
    assert_false(tfm__gguf_string(&text, tfm__gguf_find(g, "a.strings"), 3));
    assert_false(tfm__gguf_i64(&i, NULL, 0));
    assert_false(tfm__gguf_is(NULL, 0, ""));
    assert_true(i == 1 && u == 1 && d == 1 && !flag && !text.data);
    tfm__gguf_close(&g);
}

static void test_gguf_alignment_of_the_file(void **state) {
    (void)state;
    gguf_builder b = {.alignment = 128};
    build(&b);
    gguf_write(&b, "x.gguf");
    tfm__gguf *g = opened("x.gguf");
    check_tensors(g);
    const size_t offset = (size_t)(tfm__gguf_tensor_find(g, "first")->data - tfm__gguf_tensor_find(g, "second")->data);
    assert_int_equal(offset, 128);
    tfm__gguf_close(&g);
    b = (gguf_builder){0};
    gguf_add_u32(&b, "general.alignment", 24);
    gguf_write(&b, "x.gguf");
    scratch_refused(tfm__gguf_open(&g, scratch_path("x.gguf")), TFM_ERROR_FORMAT, "general.alignment");
    assert_null(g);
}

/* ---- Split models ---- */

static void write_part(uint16_t number, uint16_t count, const char *name, const char *tensor) {
    gguf_builder b = {0};
    gguf_add_raw(&b, "split.no", 2, &number, 2);
    gguf_add_raw(&b, "split.count", 2, &count, 2);
    if (number == 0)
        gguf_add_string(&b, "general.architecture", "llama");
    gguf_add_tensor(&b, tensor, 0, 1, (int64_t[]){1}, &(float){number}, 4);
    gguf_write(&b, name);
}

static void test_gguf_split_model_opens_from_any_part(void **state) {
    (void)state;
    tfm__gguf *g = NULL;
    write_part(0, 2, "m-00001-of-00002.gguf", "b");
    write_part(1, 2, "m-00002-of-00002.gguf", "a");
    for (int i = 1; i <= 2; i++) {
        g = opened(i == 1 ? "m-00001-of-00002.gguf" : "m-00002-of-00002.gguf");
        float value;
        assert_int_equal(tfm__gguf_parts(g), 2);
        assert_int_equal(tfm__gguf_tensors(g), 2);
        assert_true(tfm__gguf_is(tfm__gguf_find(g, "general.architecture"), 0, "llama"));
        const tfm__gguf_tensor *t = tfm__gguf_tensor_find(g, "a");
        memcpy(&value, t->data, sizeof(value));
        assert_true(value == 1);
        assert_non_null(strstr(tfm__gguf_path(g, t->part), "00002-of"));
        assert_true(t->data > tfm__gguf_map(g, t->part)->data);
        tfm__gguf_close(&g);
    }
    write_part(1, 2, "m-00002-of-00002.gguf", "b");
    scratch_refused(tfm__gguf_open(&g, scratch_path("m-00001-of-00002.gguf")), TFM_ERROR_FORMAT, "b occurs twice");
    write_part(0, 2, "m-00002-of-00002.gguf", "a");
    scratch_refused(tfm__gguf_open(&g, scratch_path("m-00001-of-00002.gguf")), TFM_ERROR_FORMAT,
                    "00002-of-00002.gguf does not say that it is part 2");
    write_part(0, 2, "renamed.gguf", "a");
    scratch_refused(tfm__gguf_open(&g, scratch_path("renamed.gguf")), TFM_ERROR_FORMAT, "part 1 of 2");
    assert_int_equal(remove(scratch_path("m-00002-of-00002.gguf")), 0);
    scratch_refused(tfm__gguf_open(&g, scratch_path("m-00001-of-00002.gguf")), TFM_ERROR_IO, "m-00002-of-00002.gguf");
    assert_int_equal(remove(scratch_path("m-00001-of-00002.gguf")), 0);
    assert_int_equal(remove(scratch_path("renamed.gguf")), 0);
}

/* ---- Refused files ---- */

static void refused(gguf_builder *b, tfm_status want, const char *part) {
    tfm__gguf *g = NULL;
    gguf_write(b, "x.gguf");
    scratch_refused(tfm__gguf_open(&g, scratch_path("x.gguf")), want, part);
    assert_null(g);
}

static void test_gguf_damaged_metadata_are_refused(void **state) {
    (void)state;
    tfm__gguf *g = NULL;
    gguf_builder b = {.version = 1};
    refused(&b, TFM_ERROR_UNSUPPORTED, "version 1");
    b.version = 4;
    refused(&b, TFM_ERROR_UNSUPPORTED, "version 4");
    b.version = 3u << 24;
    refused(&b, TFM_ERROR_UNSUPPORTED, "big-endian");
    scratch_text("x.gguf", "GGU");
    scratch_refused(tfm__gguf_open(&g, scratch_path("x.gguf")), TFM_ERROR_FORMAT, "not a GGUF file");
    scratch_refused(tfm__gguf_open(&g, scratch_path("none.gguf")), TFM_ERROR_IO, "none.gguf");
    gguf_add_u32(&b, "twice", 1);
    gguf_add_u32(&b, "twice", 1);
    refused(&b, TFM_ERROR_FORMAT, "occurs twice");
    gguf_add_u32(&b, "", 1);
    refused(&b, TFM_ERROR_FORMAT, "key has 0 bytes");
    gguf_add_u32(&b, "a\nb", 1);
    refused(&b, TFM_ERROR_FORMAT, "control character");
    gguf_add_raw(&b, "a", 13, "", 1);
    refused(&b, TFM_ERROR_FORMAT, "unknown type");
    gguf_add_array(&b, "a", 4, UINT64_MAX / 4 + 2, "four", 4);
    refused(&b, TFM_ERROR_FORMAT, "ends within its metadata");
    gguf_add_array(&b, "a", 8, UINT64_MAX, NULL, 0);
    refused(&b, TFM_ERROR_FORMAT, "ends within its metadata");
    gguf_add_array(&b, "a", 8, 1, &(uint64_t){UINT64_MAX - 3}, 8);
    refused(&b, TFM_ERROR_FORMAT, "ends within its metadata");
    gguf_add_array(&b, "a", 9, 1, NULL, 0);
    for (int i = 0; i < 5; i++)
        gguf_put(&b.values, (uint32_t[]){9, 1, 0}, 12);
    refused(&b, TFM_ERROR_FORMAT, "nested too deeply");
}

static void test_gguf_damaged_tensors_are_refused(void **state) {
    (void)state;
    gguf_builder b = {0};
    gguf_add_tensor(&b, "x", 99, 1, (int64_t[]){1}, "data", 4);
    refused(&b, TFM_ERROR_UNSUPPORTED, "the type 99");
    gguf_add_tensor(&b, "x", 4, 1, (int64_t[]){32}, "data", 4);
    refused(&b, TFM_ERROR_UNSUPPORTED, "the type 4");
    gguf_add_tensor(&b, "x", 0, 5, (int64_t[]){1, 1, 1, 1, 1}, "data", 4);
    refused(&b, TFM_ERROR_FORMAT, "more than 4");
    gguf_add_tensor(&b, "x", 0, 2, (int64_t[]){1, 0}, "data", 4);
    refused(&b, TFM_ERROR_FORMAT, "impossible shape");
    gguf_add_tensor(&b, "x", 0, 2, (int64_t[]){-1, 1}, "data", 4);
    refused(&b, TFM_ERROR_FORMAT, "impossible shape");
    gguf_add_tensor(&b, "x", 0, 2, (int64_t[]){INT64_MAX / 2, 4}, "data", 4);
    refused(&b, TFM_ERROR_FORMAT, "impossible shape");
    gguf_add_tensor(&b, "x", 0, 1, (int64_t[]){INT64_MAX}, "data", 4);
    refused(&b, TFM_ERROR_FORMAT, "larger than all memory");
    gguf_add_tensor(&b, "x", 2, 2, (int64_t[]){32, 31}, "data", 4);
    refused(&b, TFM_ERROR_FORMAT, "blocks of 32 (Q4_0) do not fill");
    gguf_add_tensor(&b, "x", 0, 1, (int64_t[]){2}, "data", 4);
    refused(&b, TFM_ERROR_FORMAT, "truncated");
    gguf_add_tensor(&b, "x", 0, 1, (int64_t[]){1}, "data", 4);
    memset(b.infos.data + b.infos.size - 8, 255, 8);
    b.infos.data[b.infos.size - 8] = 0xE0;
    refused(&b, TFM_ERROR_FORMAT, "truncated");
    gguf_add_tensor(&b, "x", 0, 1, (int64_t[]){1}, "data", 4);
    b.infos.data[b.infos.size - 8] = 4;
    refused(&b, TFM_ERROR_FORMAT, "not aligned");
    gguf_add_tensor(&b, "x", 0, 1, (int64_t[]){1}, "data", 4);
    gguf_add_tensor(&b, "x", 0, 1, (int64_t[]){1}, "data", 4);
    refused(&b, TFM_ERROR_FORMAT, "x occurs twice");
}

/* Whatever the bytes are, the reader returns, and what it accepts can be read. */
static void test_gguf_random_damage_is_refused_or_readable(void **state) {
    (void)state;
    harness_random random = {7};
    gguf_builder b = {0};
    build(&b);
    gguf_bytes all = gguf_finish(&b);
    unsigned char *copy = malloc(all.size);
    assert_non_null(copy);
    for (int i = 0; i < 3000; i++) {
        size_t size = all.size, sum = 0;
        memcpy(copy, all.data, size);
        scratch_damage(&random, copy, &size);
        scratch_write("x.gguf", copy, size);
        tfm__gguf *g = NULL;
        if (tfm__gguf_open(&g, scratch_path("x.gguf")) != TFM_OK)
            assert_true(strlen(tfm_error_message()) > 0);
        for (size_t k = 0; g && k < tfm__gguf_tensors(g); k++)
            for (size_t n = 0; n < tfm__gguf_tensor_at(g, k)->bytes; n++)
                sum += tfm__gguf_tensor_at(g, k)->data[n];
        for (size_t k = 0; g && k < tfm__gguf_values(g); k++) {
            const tfm__gguf_value *v = tfm__gguf_value_at(g, k);
            tfm__gguf_text text;
            double number;
            for (size_t n = 0; n < v->count && n < 1000; n++) {
                sum += tfm__gguf_f64(&number, v, n);
                sum += tfm__gguf_string(&text, v, n) && text.bytes ? (unsigned char)text.data[text.bytes - 1] : 0;
            }
        }
        assert_true(sum < SIZE_MAX);
        tfm__gguf_close(&g);
    }
    free(copy);
    free(all.data);
}

/* ---- Paths ---- */

static void check_located(const char *path, const char *want) {
    char *found = NULL;
    harness_ok(tfm__gguf_locate(&found, scratch_path(path)));
    if (want)
        assert_string_equal(found, scratch_path(want));
    else
        assert_null(found);
    free(found);
}

static void test_gguf_file_of_a_path(void **state) {
    (void)state;
    char *found = NULL;
    harness_ok(tfm__dir_make(scratch_path("models"), 0777));
    check_located("models", NULL);
    check_located("absent.gguf", NULL);
    scratch_text("models/config.json", "{}");
    check_located("models/config.json", NULL);
    check_located("models", NULL);
    scratch_text("models/noname", "GGUF");
    check_located("models/noname", "models/noname");
    scratch_text("models/mmproj-x.gguf", "GGUF");
    check_located("models", NULL);
    scratch_text("models/m-00001-of-00002.gguf", "GGUF");
    scratch_text("models/m-00002-of-00002.gguf", "GGUF");
    check_located("models", "models/m-00001-of-00002.gguf");
    check_located("models/m-00002-of-00002.gguf", "models/m-00002-of-00002.gguf");
    scratch_text("models/n.gguf", "GGUF");
    scratch_refused(tfm__gguf_locate(&found, scratch_path("models")), TFM_ERROR_ARGUMENT,
                    "2 GGUF files (m-00001-of-00002.gguf, n.gguf)");
    assert_null(found);
    scratch_text("models/model.safetensors", "");
    check_located("models", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf_values_and_tensors_of_both_versions),
        cmocka_unit_test(test_gguf_accessors_refuse_other_kinds),
        cmocka_unit_test(test_gguf_alignment_of_the_file),
        cmocka_unit_test(test_gguf_split_model_opens_from_any_part),
        cmocka_unit_test(test_gguf_damaged_metadata_are_refused),
        cmocka_unit_test(test_gguf_damaged_tensors_are_refused),
        cmocka_unit_test(test_gguf_random_damage_is_refused_or_readable),
        cmocka_unit_test(test_gguf_file_of_a_path),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
