/* Shortlists: who may be written for which words, and what is refused. */
#include "model/file/shortlist.h"
#include "scratch.h"

enum { SOURCE = 5, TARGET = 40 };

/* Candidates of the five words of a source: 1 has none. */
static const int OFFSETS[SOURCE + 1] = {0, 2, 2, 5, 6, 9};
static const int WORDS[9] = {10, 39, 3, 20, 21, 39, 11, 12, 13};

static void put(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

static void seal(unsigned char *file, size_t size) {
    uint64_t sum = 0;
    for (size_t i = 16; i + 8 <= size; i += 8) {
        uint64_t word = 0;
        for (size_t k = 8; k-- > 0;)
            word = word << 8 | file[i + k];
        sum ^= word + 0x9e3779b9u + (sum << 6) + (sum >> 2);
    }
    put(file + 8, sum, 8);
}

enum { SIZE = 48 + 8 * (SOURCE + 1) + 4 * 9 };

static void make(unsigned char file[SIZE]) {
    put(file, 0xF11A48D5013417F5u, 8);
    put(file + 16, 4, 8);  /* the four most frequent words are always there */
    put(file + 24, 50, 8); /* at most so many a word, which only its maker needed */
    put(file + 32, SOURCE + 1, 8);
    put(file + 40, 9, 8);
    for (int i = 0; i <= SOURCE; i++)
        put(file + 48 + 8 * i, (uint64_t)OFFSETS[i], 8);
    for (int i = 0; i < 9; i++)
        put(file + 48 + 8 * (SOURCE + 1) + 4 * i, (uint64_t)WORDS[i], 4);
    seal(file, SIZE);
}

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

static void test_find(void **state) {
    (void)state;
    unsigned char file[SIZE];
    tfm__shortlist *list;
    make(file);
    scratch_write("lex.bin", file, SIZE);
    harness_ok(tfm__shortlist_open(&list, scratch_path("lex.bin"), SOURCE, TARGET, false));
    FOUND(((int32_t[]){0, 2}), 0, 1, 2, 3, 10, 20, 21, 39);
    FOUND(((int32_t[]){0, 0}), 0, 1, 2, 3, 4, 5, 10, 39);
    FOUND(((int32_t[]){1, 7, -1}), 0, 1, 2, 3, 4, 5, 6, 7);
    FOUND(((int32_t[]){4, 3, 2, 0}), 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 20, 21, 39);
    tfm__shortlist_free(&list);
    assert_null(list);
    harness_ok(tfm__shortlist_open(&list, scratch_path("lex.bin"), SOURCE, TARGET, true));
    FOUND(((int32_t[]){4, 0}), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 39); /* ten, and six to be 16 */
    tfm__shortlist_free(&list);
}

static void refused(const unsigned char *file, size_t size, const char *part) {
    tfm__shortlist *list;
    scratch_write("lex.bin", file, size);
    scratch_refused(tfm__shortlist_open(&list, scratch_path("lex.bin"), SOURCE, TARGET, false), TFM_ERROR_FORMAT, part);
    assert_null(list);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        size_t at;
        unsigned char value;
        bool sealed;
        const char *part;
    } CASES[] = {
        {0, 1, true, "does not begin as one"},
        {17, 1, false, "checksum"},
        {32, 7, true, "its size is not what it says"},
        {39, 1, true, "its size is not what it says"},
        {40, 8, true, "its size is not what it says"},
        {56, 3, true, "do not ascend"},
        {88, 200, true, "do not ascend, or lead outside"},
        {96, 40, true, "names word 40 of the target vocabulary, which has 40"},
    };
    unsigned char file[SIZE];
    for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
        make(file);
        file[CASES[i].at] = CASES[i].value;
        if (CASES[i].sealed)
            seal(file, SIZE);
        refused(file, SIZE, CASES[i].part);
    }
    make(file);
    for (size_t size = 0; size < SIZE; size++)
        refused(file, size, "is no shortlist of Marian, or is damaged");
    tfm__shortlist *list;
    scratch_write("lex.bin", file, SIZE);
    scratch_refused(tfm__shortlist_open(&list, scratch_path("lex.bin"), SOURCE + 1, TARGET, false), TFM_ERROR_FORMAT,
                    "for a source vocabulary of 5, and the model's has 6");
    scratch_refused(tfm__shortlist_open(&list, scratch_path("none.bin"), SOURCE, TARGET, false), TFM_ERROR_IO,
                    "none.bin");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
