/* Shortlists: target candidates per source word, and rejected files. */
#include "model/weights/shortlist.h"
#include "support/scratch.h"
#include "support/shortlist_file.h"

static void found(const tfm__shortlist *list, const int32_t *ids, size_t count, const int32_t *want, size_t wanted) {
    int32_t *got;
    size_t size;
    harness_ok(tfm__shortlist_find(list, &got, &size, ids, count));
    assert_int_equal(size, wanted);
    assert_memory_equal(got, want, wanted * sizeof(*want));
    free(got);
}

#define FOUND(ids, ...)                                                                                                \
    found(list, ids, sizeof(ids) / sizeof(*(ids)), (int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / 4)

static void test_shortlist_contains_frequent_and_source_words(void **state) {
    (void)state;
    unsigned char file[SHORTLIST_BYTES];
    tfm__shortlist *list;
    shortlist_make(file);
    scratch_write("lex.bin", file, SHORTLIST_BYTES);
    harness_ok(tfm__shortlist_open(&list, scratch_path("lex.bin"), SHORTLIST_SOURCE, SHORTLIST_TARGET, false));
    FOUND(((int32_t[]){0, 2}), 0, 1, 2, 3, 10, 20, 21, 39);
    FOUND(((int32_t[]){0, 0}), 0, 1, 2, 3, 4, 5, 10, 39);
    FOUND(((int32_t[]){1, 7, -1}), 0, 1, 2, 3, 4, 5, 6, 7);
    FOUND(((int32_t[]){4, 3, 2, 0}), 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 20, 21, 39);
    tfm__shortlist_free(&list);
    assert_null(list);
    harness_ok(tfm__shortlist_open(&list, scratch_path("lex.bin"), SHORTLIST_SOURCE, SHORTLIST_TARGET, true));
    FOUND(((int32_t[]){4, 0}), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
          39); /* ten, and six more to reach 16 */
    tfm__shortlist_free(&list);
}

static void refused(const unsigned char *file, size_t size, const char *part) {
    tfm__shortlist *list;
    scratch_write("lex.bin", file, size);
    scratch_refused(tfm__shortlist_open(&list, scratch_path("lex.bin"), SHORTLIST_SOURCE, SHORTLIST_TARGET, false),
                    TFM_ERROR_FORMAT, part);
    assert_null(list);
}

static void test_damaged_shortlist_is_rejected(void **state) {
    (void)state;
    static const struct {
        size_t at;
        unsigned char value;
        bool sealed;
        const char *part;
    } CASES[] = {
        {0, 1, true, "magic number is wrong"},
        {17, 1, false, "checksum"},
        {32, 7, true, "its size differs from its header"},
        {39, 1, true, "its size differs from its header"},
        {40, 8, true, "its size differs from its header"},
        {56, 3, true, "do not ascend"},
        {88, 200, true, "do not ascend, or are out of range"},
        {96, 40, true, "names word 40 of the target vocabulary, which has 40"},
    };
    unsigned char file[SHORTLIST_BYTES];
    for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
        shortlist_make(file);
        file[CASES[i].at] = CASES[i].value;
        if (CASES[i].sealed)
            shortlist_seal(file, SHORTLIST_BYTES);
        refused(file, SHORTLIST_BYTES, CASES[i].part);
    }
    shortlist_make(file);
    for (size_t size = 0; size < SHORTLIST_BYTES; size++)
        refused(file, size, "is not a Marian shortlist, or is damaged");
    tfm__shortlist *list;
    scratch_write("lex.bin", file, SHORTLIST_BYTES);
    scratch_refused(tfm__shortlist_open(&list, scratch_path("lex.bin"), SHORTLIST_SOURCE + 1, SHORTLIST_TARGET, false),
                    TFM_ERROR_FORMAT, "for a source vocabulary of 5, and the model's has 6");
    scratch_refused(tfm__shortlist_open(&list, scratch_path("none.bin"), SHORTLIST_SOURCE, SHORTLIST_TARGET, false),
                    TFM_ERROR_IO, "none.bin");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shortlist_contains_frequent_and_source_words),
        cmocka_unit_test(test_damaged_shortlist_is_rejected),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
