/* SentencePiece models: truncated, damaged and inconsistent ones are rejected before use. */
#include "support/scratch.h"
#include "text/spm.h"

/* Lines that use every part of a normalization table. */
static void encode_much(const tfm__spm *spm) {
    static const char *const LINES[] = {
        "",
        " ",
        "Tom is waiting.",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "\xef\xbc\xb4\xef\xbd\x8f\xef\xbd\x8d \xef\xb7\xba \xe2\x91\xa0 \xc2\xbd a\xcc\x88\xcc\xa3 "
        "\xe1\x84\x80\xe1\x85\xa1",
        "\xe3\x88\xb1\xe3\x8e\x8f\xe2\x85\xb7 \xf0\x9f\x98\x80 \xe2\x80\x8b\xc2\xa0\xe3\x80\x80 \xef\xac\x83 "
        "\xe1\xba\x9b\xcc\xa3"};
    tfm__pieces pieces = {0};
    for (size_t i = 0; i < TFM__COUNT(LINES); i++) {
        if (tfm__spm_encode(spm, &pieces, LINES[i], strlen(LINES[i])) != TFM_OK)
            continue;
        const char *all[512];
        size_t count = pieces.count < 512 ? pieces.count : 512;
        for (size_t k = 0; k < count; k++)
            all[k] = pieces.bytes + pieces.starts[k];
        char *text;
        if (tfm__spm_decode(spm, &text, all, count) == TFM_OK)
            free(text);
    }
    /* The whole Basic Multilingual Plane. */
    char line[64 * 3 + 1];
    for (unsigned c = 0x80; c < 0x10000; c += 64) {
        size_t used = 0;
        if (c >= 0xd800 && c < 0xe000)
            continue;
        for (unsigned k = c; k < c + 64; k++) {
            if (k >= 0x800)
                line[used++] = (char)(0xe0 | k >> 12);
            line[used++] = (char)(k >= 0x800 ? 0x80 | (k >> 6 & 0x3f) : 0xc0 | k >> 6);
            line[used++] = (char)(0x80 | (k & 0x3f));
        }
        tfm__spm_encode(spm, &pieces, line, used);
    }
    tfm__pieces_free(&pieces);
}

static bool opens(const unsigned char *bytes, size_t size) {
    /* In memory of exact size, so that a sanitizer detects a read past the end. */
    unsigned char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    tfm__spm *spm;
    tfm_status status = tfm__spm_open(&spm, copy, size, "damaged.spm");
    free(copy);
    if (status == TFM_OK)
        encode_much(spm);
    else
        scratch_refused(status, TFM_ERROR_FORMAT, "damaged.spm");
    tfm__spm_free(&spm);
    return status == TFM_OK;
}

static void test_truncated_sentencepiece_model_is_rejected(void **state) {
    (void)state;
    size_t size;
    unsigned char *bytes = (unsigned char *)scratch_source("apps/demo/source.spm", &size);
    assert_true(opens(bytes, size));
    for (size_t cut = 0; cut < size; cut += 997)
        assert_false(opens(bytes, cut));
    /* A cut between two pieces leaves well-formed fields. */
    size_t at = 0;
    for (int piece = 0; piece < 100; piece++, at += 2 + bytes[at + 1])
        assert_false(opens(bytes, at));
    assert_int_equal(bytes[at], 0x0a);
    free(bytes);
}

static void test_damaged_sentencepiece_model_is_rejected_or_safe(void **state) {
    (void)state;
    size_t length;
    unsigned char *good = (unsigned char *)scratch_source("apps/demo/source.spm", &length), *bytes = malloc(length);
    assert_non_null(bytes);
    const char *rounds = getenv("TFM_FUZZ");
    int count = rounds ? atoi(rounds) : harness_brief() ? 50 : 150;
    unsigned opened = 0;
    harness_random random = {11};
    for (int i = 0; i < count; i++) {
        size_t size = length;
        memcpy(bytes, good, length);
        for (int64_t k = harness_range(&random, 1, 8); k > 0; k--)
            bytes[harness_range(&random, 0, (int64_t)size - 1)] ^= (unsigned char)(1 << harness_range(&random, 0, 7));
        opened += opens(bytes, size);
    }
    assert_in_range(opened, 1, (unsigned)count - 1);
    free(bytes);
    free(good);
}

/* A hand-made model: pieces </s>, <unk>, the blank sign, "a", "b", and one normalization rule, "a" to "b". */
typedef struct model {
    const char *kind; /* bytes of an extra piece's type; its text has length `long_` */
    size_t kind_bytes, long_;
    uint32_t units[256 * 40];
    uint32_t unit_count;
    const char *replacements;
    size_t replacement_bytes;
} model;

static size_t put(unsigned char *out, unsigned tag, const void *bytes, size_t size) {
    size_t used = 0;
    out[used++] = (unsigned char)tag;
    out[used++] = (unsigned char)(0x80 | (size & 0x7f));
    out[used++] = (unsigned char)(0x80 | (size >> 7 & 0x7f));
    out[used++] = (unsigned char)(size >> 14);
    memcpy(out + used, bytes, size);
    return used + size;
}

static size_t put_piece(unsigned char *out, const char *text, float score, unsigned char type) {
    unsigned char piece[64];
    size_t used = put(piece, 0x0a, text, strlen(text));
    piece[used++] = 0x15;
    memcpy(piece + used, &score, 4);
    piece[used + 4] = 0x18;
    piece[used + 5] = type;
    return put(out, 0x0a, piece, used + 6);
}

static tfm_status open_model(const model *m, tfm__spm **spm) {
    static unsigned char file[65536], spec[49152], table[49152];
    uint32_t bytes = m->unit_count * 4;
    memcpy(table, &bytes, 4);
    memcpy(table + 4, m->units, bytes);
    memcpy(table + 4 + bytes, m->replacements, m->replacement_bytes);
    size_t spec_size = put(spec, 0x12, table, 4 + bytes + m->replacement_bytes), used = 0;
    used += put_piece(file + used, "</s>", 0, 3);
    used += put_piece(file + used, "<unk>", 0, 2);
    used += put_piece(file + used, "\xe2\x96\x81", -1, 1);
    used += put_piece(file + used, "a", -2, 1);
    used += put_piece(file + used, "b", -3, 1);
    if (m->kind) {
        unsigned char piece[1024], text[512];
        memset(text, 'a', m->long_);
        size_t end = put(piece, 0x0a, text, m->long_);
        memcpy(piece + end, m->kind, m->kind_bytes);
        used += put(file + used, 0x0a, piece, end + m->kind_bytes);
    }
    used += put(file + used, 0x12, "", 0);
    used += put(file + used, 0x1a, spec, spec_size);
    return tfm__spm_open(spm, file, used, "made.spm");
}

/* A trie unit with that label, children in the block at `block`, and optionally a value. */
static uint32_t unit(uint32_t at, uint32_t block, unsigned label, unsigned value) {
    return (at ^ block) << 10 | value << 8 | label;
}

static model make_model(void) {
    model m = {.unit_count = 768, .replacements = "x\0b\0", .replacement_bytes = 4};
    for (size_t i = 0; i < TFM__COUNT(m.units); i++)
        m.units[i] = 0x80000000u; /* no parent */
    m.units[0] = unit(0, 256, 0, 0);
    m.units[256 ^ 'a'] = unit(256 ^ 'a', 512, 'a', 1);
    m.units[512] = 0x80000000u | 2;
    return m;
}

static void test_inconsistent_normalizer_table_is_rejected(void **state) {
    (void)state;
    tfm__spm *spm;
    tfm__pieces pieces = {0};
    model m = make_model();
    harness_ok(open_model(&m, &spm));
    harness_ok(tfm__spm_encode(spm, &pieces, "ab", 2));
    assert_int_equal(pieces.count, 3);
    assert_string_equal(pieces.bytes + pieces.starts[1], "b");
    assert_string_equal(pieces.bytes + pieces.starts[2], "b");
    tfm__pieces_free(&pieces);
    tfm__spm_free(&spm);

    m = make_model();
    m.units[0] = unit(0, 768, 0, 0);
    scratch_refused(open_model(&m, &spm), TFM_ERROR_FORMAT, "an offset out of range");
    m = make_model();
    m.units[0] = 0xfffffc00u;
    scratch_refused(open_model(&m, &spm), TFM_ERROR_FORMAT, "an offset out of range");
    m = make_model();
    m.units[256 ^ 'a'] = unit(256 ^ 'a', 1024, 'a', 1);
    scratch_refused(open_model(&m, &spm), TFM_ERROR_FORMAT, "an offset out of range");
    m = make_model();
    m.unit_count = 700; /* the last block is not whole */
    scratch_refused(open_model(&m, &spm), TFM_ERROR_FORMAT, "an offset out of range");
    m = make_model();
    m.units[256 ^ 'a'] = unit(256 ^ 'a', 256, 'a', 0);
    scratch_refused(open_model(&m, &spm), TFM_ERROR_FORMAT, "cycle");
    m = make_model();
    m.units[512] = 0x80000000u | 4;
    scratch_refused(open_model(&m, &spm), TFM_ERROR_FORMAT, "a replacement offset out of range");
    m = make_model();
    m.units[512] = 0xffffffffu;
    scratch_refused(open_model(&m, &spm), TFM_ERROR_FORMAT, "a replacement offset out of range");
    m = make_model();
    m.replacement_bytes = 3; /* missing NUL at the end */
    scratch_refused(open_model(&m, &spm), TFM_ERROR_FORMAT, "does not fit its size");
    m = make_model();
    m.replacement_bytes = 0;
    scratch_refused(open_model(&m, &spm), TFM_ERROR_FORMAT, "does not fit its size");

    /* A chain of "aaa...", each with a value: more matches than SentencePiece's buffer. */
    for (uint32_t length = 30; length <= 34; length++) {
        m = make_model();
        m.unit_count = 256 * 40;
        for (uint32_t i = 1; i <= length; i++) {
            m.units[(256 * i) ^ 'a'] = unit((256 * i) ^ 'a', 256 * (i + 1), 'a', 1);
            m.units[256 * (i + 1)] = 0x80000000u | 2;
        }
        if (length > 32) {
            scratch_refused(open_model(&m, &spm), TFM_ERROR_FORMAT, "a common prefix");
            continue;
        }
        harness_ok(open_model(&m, &spm));
        encode_much(spm);
        tfm__spm_free(&spm);
    }
}

/* SentencePiece overruns its buffer for a long piece, for any encoding of its type: protobuf takes 32 bits of it and
 * skips a later unknown one. */
static void test_overlong_user_defined_piece_is_rejected(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        bool user_defined;
    } KINDS[] = {
        {"\x18\x01", 2, false},
        {"\x18\x04", 2, true},
        {"\x18\x84\x80\x80\x80\x10", 6, true},
        {"\x18\x04\x18\x07", 4, true},
    };
    tfm__spm *spm;
    for (size_t i = 0; i < TFM__COUNT(KINDS); i++) {
        model m = make_model();
        m.kind = KINDS[i].bytes;
        m.kind_bytes = KINDS[i].count;
        m.long_ = 60;
        harness_ok(open_model(&m, &spm));
        tfm__spm_free(&spm);
        m.long_ = 65;
        if (KINDS[i].user_defined)
            scratch_refused(open_model(&m, &spm), TFM_ERROR_FORMAT, "a user-defined piece is too long");
        else
            harness_ok(open_model(&m, &spm));
        tfm__spm_free(&spm);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlong_user_defined_piece_is_rejected),
        cmocka_unit_test(test_truncated_sentencepiece_model_is_rejected),
        cmocka_unit_test(test_damaged_sentencepiece_model_is_rejected_or_safe),
        cmocka_unit_test(test_inconsistent_normalizer_table_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
