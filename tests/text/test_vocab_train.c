/* Trained vocabularies: files of the folder, and text round trips. */
#include <jansson.h>
#include "support/scratch.h"
#include "text/spm.h"
#include "tfm/text.h"

/* ---- Corpora ---- */

typedef struct words {
    const char *const *all;
    int count;
} words;

static const char *const GERMAN_WORDS[] = {
    "größer", "Straße",     "über",    "Mädchen", "läuft", "schöne", "Häuser", "die",   "der",   "das",
    "Öl",     "Apfelbäume", "zwölf",   "Füße",    "müde",  "Bücher", "kauft",  "sieht", "heißt", "\xf0\x9f\x98\x80",
    "kleine", "Kinder",     "spielen", "draußen", "im",    "Garten", "und",    "lachen"};
static const char *const ENGLISH_WORDS[] = {
    "the",   "bigger",   "street", "girl",    "runs",  "beautiful", "houses", "a",    "an",     "oil",
    "trees", "twelve",   "feet",   "tired",   "books", "buys",      "sees",   "is",   "called", "\xf0\x9f\x8e\x89",
    "small", "children", "play",   "outside", "in",    "garden",    "and",    "laugh"};

static const words GERMAN = {GERMAN_WORDS, TFM__COUNT(GERMAN_WORDS)},
                   ENGLISH = {ENGLISH_WORDS, TFM__COUNT(ENGLISH_WORDS)};

static void sentence(FILE *file, harness_random *random, words from) {
    const int64_t count = harness_range(random, 2, 9);
    for (int64_t i = 0; i < count; i++)
        fprintf(file, "%s%s", i ? " " : "", from.all[harness_range(random, 0, from.count - 1)]);
    fprintf(file, ".");
}

/* So many lines of one language, or with a second one as TSV. */
static void corpus(const char *name, uint64_t seed, int lines, words first, words second) {
    FILE *file = fopen(scratch_path(name), "wb");
    harness_random random = {seed};
    assert_non_null(file);
    for (int i = 0; i < lines; i++) {
        sentence(file, &random, first);
        if (second.count) {
            fprintf(file, "\t");
            sentence(file, &random, second);
        }
        fprintf(file, "\n");
    }
    assert_int_equal(fclose(file), 0);
}

static void corpora(void) {
    corpus("train.de", 1, 1500, GERMAN, (words){0});
    corpus("train.en", 2, 1500, ENGLISH, (words){0});
    corpus("train.tsv", 3, 1500, GERMAN, ENGLISH);
}

/* ---- Written folders -------------- */

static const char *const FILES[] = {"source.spm", "target.spm", "vocab.json", "tokenizer_config.json"};

/* The path of an empty folder in the scratch folder. */
static const char *folder(const char *name) {
    const char *path = scratch_path(name);
    harness_ok(tfm__dir_make(path, 0700));
    return path;
}

static tfm_status train(const char *dir, const char *source, const char *target, tfm_vocabulary_options options) {
    char from[4096], to[4096];
    snprintf(from, sizeof(from), "%s", scratch_path(source));
    snprintf(to, sizeof(to), "%s", target ? scratch_path(target) : "");
    return tfm_tokenizer_train(folder(dir), from, target ? to : NULL, &options);
}

static char *content(const char *dir, const char *name, size_t *size) {
    char *path = tfm__path_join(scratch_path(dir), name), *bytes;
    assert_non_null(path);
    harness_ok(tfm__file_read(&bytes, size, path));
    free(path);
    return bytes;
}

static bool same(const char *dir, const char *other, const char *name) {
    size_t size, other_size;
    char *a = content(dir, name, &size), *b = content(other, name, &other_size);
    const bool equal = size == other_size && memcmp(a, b, size) == 0;
    free(a);
    free(b);
    return equal;
}

static bool has(const char *dir, const char *name) {
    char path[200];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return tfm__file_exists(scratch_path(path));
}

static tfm_tokenizer *open_folder(const char *dir) {
    tfm_tokenizer *tokenizer;
    harness_ok(tfm_tokenizer_open(&tokenizer, scratch_path(dir)));
    return tokenizer;
}

/* Ids are SentencePiece's, and <pad> comes last. */
static void ids_agree(const char *dir, const char *model, const char *vocab, const tfm_tokenizer *tokenizer,
                      tfm_side side) {
    size_t size;
    char *bytes = content(dir, model, &size);
    tfm__spm *spm;
    harness_ok(tfm__spm_open(&spm, bytes, size, model));
    const size_t count = tfm__spm_size(spm), pad = tfm_tokenizer_get_info(tokenizer)->separate ? 2 : count;
    for (size_t i = 0; i < count; i++)
        assert_string_equal(tfm_tokenizer_piece(tokenizer, side, (int32_t)(i + (i >= pad))), tfm__spm_piece(spm, i));
    assert_string_equal(tfm__spm_piece(spm, 0), "</s>");
    assert_string_equal(tfm__spm_piece(spm, 1), "<unk>");
    assert_string_equal(tfm_tokenizer_piece(tokenizer, side, (int32_t)pad), "<pad>");
    assert_null(tfm_tokenizer_piece(tokenizer, side, (int32_t)count + 1));
    tfm__spm_free(&spm);
    free(bytes);
    json_t *ids = json_loads(bytes = content(dir, vocab, NULL), 0, NULL);
    assert_int_equal(json_object_size(ids), count + 1);
    json_decref(ids);
    free(bytes);
}

/* A line decoded from its ids, which contain no <unk>. */
static void comes_back(const tfm_tokenizer *tokenizer, tfm_side side, const char *line, const char *want) {
    int32_t *ids;
    size_t count;
    harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, side, line, strlen(line)));
    for (size_t i = 0; i + 1 < count; i++)
        assert_true(ids[i] > 1);
    if (side == TFM_TARGET || !tfm_tokenizer_get_info(tokenizer)->separate) {
        char *text;
        harness_ok(tfm_tokenizer_decode(tokenizer, &text, ids, count));
        assert_string_equal(text, want);
        tfm_text_free(&text);
    }
    tfm_ids_free(&ids);
}

static void file_comes_back(const tfm_tokenizer *tokenizer, tfm_side side, const char *name) {
    char *text;
    int lines = 0;
    harness_ok(tfm__file_read(&text, NULL, scratch_path(name)));
    for (char *line = strtok(text, "\n"); line && lines < 300; line = strtok(NULL, "\n"), lines++)
        comes_back(tokenizer, side, line, line);
    assert_int_equal(lines, 300);
    free(text);
}

/* ---- Tests ---- */

static void test_joint_vocabulary_covers_both_languages(void **state) {
    (void)state;
    corpora();
    harness_ok(train("joint", "train.de", "train.en",
                     (tfm_vocabulary_options){.vocab_size = 180, .source_language = "de", .target_language = "en"}));
    tfm_tokenizer *tokenizer = open_folder("joint");
    const tfm_tokenizer_info info = *tfm_tokenizer_get_info(tokenizer);
    assert_true(!info.separate && info.source_size == 181 && info.target_size == 181);
    assert_true(info.source_eos == 0 && info.source_unk == 1 && info.source_pad == 180);
    assert_true(same("joint", "joint", "source.spm") && !has("joint", "target_vocab.json"));
    size_t size, other_size;
    char *source = content("joint", "source.spm", &size), *target = content("joint", "target.spm", &other_size);
    assert_int_equal(size, other_size);
    assert_memory_equal(source, target, size);
    ids_agree("joint", "source.spm", "vocab.json", tokenizer, TFM_SOURCE);
    file_comes_back(tokenizer, TFM_SOURCE, "train.de");
    file_comes_back(tokenizer, TFM_TARGET, "train.en");
    /* Full-width letters, runs of blanks, a letter and its combining dots. */
    comes_back(tokenizer, TFM_SOURCE, "\xef\xbd\x84\xef\xbd\x89\xef\xbd\x85  scho\xcc\x88ne\xc2\xa0Straße ",
               "die schöne Straße");
    free(source);
    free(target);
    char *config = content("joint", "tokenizer_config.json", NULL);
    assert_non_null(strstr(config, "\"source_lang\": \"de\""));
    assert_non_null(strstr(config, "\"target_lang\": \"en\""));
    assert_non_null(strstr(config, "\"separate_vocabs\": false"));
    free(config);
    tfm_tokenizer_free(&tokenizer);
}

/* Lines that begin with a target language code: a code is one token, and no piece contains part of one. */
static void test_language_codes_are_single_tokens(void **state) {
    (void)state;
    corpora();
    char *text, *all = NULL;
    size_t size;
    FILE *coded = open_memstream(&all, &size);
    int line = 0;
    harness_ok(tfm__file_read(&text, NULL, scratch_path("train.de")));
    for (char *at = strtok(text, "\n"); at; at = strtok(NULL, "\n"), line++)
        fprintf(coded, "%s%s\n", line % 3 == 0 ? ">>fra<< " : line % 3 == 1 ? ">>deu<<" : "", at);
    fprintf(coded, ">> no code <<\n");
    fclose(coded);
    scratch_write("coded.de", all, size);
    free(all);
    free(text);
    for (int separate = 0; separate < 2; separate++) {
        const int32_t pieces = 120, first = pieces + separate, pad = separate ? 2 : pieces + 2;
        harness_ok(train("coded", "coded.de", "train.en",
                         (tfm_vocabulary_options){.vocab_size = pieces, .separate_vocabs = separate}));
        tfm_tokenizer *tokenizer = open_folder("coded");
        const tfm_tokenizer_info info = *tfm_tokenizer_get_info(tokenizer);
        assert_int_equal(info.source_size, pieces + 3);
        assert_int_equal(info.source_pad, pad);
        assert_int_equal(info.target_size, separate ? pieces + 1 : pieces + 3);
        for (int32_t id = 0; id < info.source_size; id++) {
            const char *piece = tfm_tokenizer_piece(tokenizer, TFM_SOURCE, id);
            assert_true(id == first || id == first + 1 || !strstr(piece, ">>") || !strstr(piece, "fra"));
        }
        const char *const lines[] = {">>fra<< Hund", ">>deu<<Hund", ">>ita<< Hund"};
        const int32_t want[] = {first, first + 1, info.source_unk};
        for (int i = 0; i < 3; i++) {
            int32_t *ids;
            size_t count;
            harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, lines[i], strlen(lines[i])));
            assert_int_equal(ids[0], want[i]);
            tfm_ids_free(&ids);
        }
        tfm_tokenizer_free(&tokenizer);
    }
}

static void test_separate_vocabularies_are_trained(void **state) {
    (void)state;
    corpora();
    harness_ok(
        train("apart", "train.de", "train.en", (tfm_vocabulary_options){.vocab_size = 120, .separate_vocabs = true}));
    tfm_tokenizer *tokenizer = open_folder("apart");
    const tfm_tokenizer_info info = *tfm_tokenizer_get_info(tokenizer);
    assert_true(info.separate && info.source_size == 121 && info.target_size == 121);
    assert_true(info.source_pad == 2 && info.target_pad == 2);
    ids_agree("apart", "source.spm", "vocab.json", tokenizer, TFM_SOURCE);
    ids_agree("apart", "target.spm", "target_vocab.json", tokenizer, TFM_TARGET);
    file_comes_back(tokenizer, TFM_SOURCE, "train.de");
    file_comes_back(tokenizer, TFM_TARGET, "train.en");
    int32_t *ids;
    size_t count;
    harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_TARGET, "ß", 2)); /* is German alone */
    assert_int_equal(ids[count - 2], 1);
    tfm_ids_free(&ids);
    char *config = content("apart", "tokenizer_config.json", NULL);
    assert_null(strstr(config, "_lang"));
    free(config);
    tfm_tokenizer_free(&tokenizer);

    /* As many pieces as each text allows: different sizes, same padding. */
    harness_ok(train("own-sizes", "train.de", "train.en", (tfm_vocabulary_options){.separate_vocabs = true}));
    tokenizer = open_folder("own-sizes");
    const tfm_tokenizer_info sizes = *tfm_tokenizer_get_info(tokenizer);
    assert_true(sizes.source_size != sizes.target_size && sizes.source_pad == sizes.target_pad);
    ids_agree("own-sizes", "source.spm", "vocab.json", tokenizer, TFM_SOURCE);
    ids_agree("own-sizes", "target.spm", "target_vocab.json", tokenizer, TFM_TARGET);
    tfm_tokenizer_free(&tokenizer);
}

/* The columns of one file equal the lines of two. */
static void test_tsv_columns_train_the_vocabulary_of_two_files(void **state) {
    (void)state;
    corpora();
    char *text, *line;
    harness_ok(tfm__file_read(&text, NULL, scratch_path("train.tsv")));
    FILE *sides[2] = {fopen(scratch_path("columns.de"), "w"), fopen(scratch_path("columns.en"), "w")};
    assert_true(sides[0] && sides[1]);
    for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        fprintf(sides[0], "%.*s\n", (int)strcspn(line, "\t"), line);
        fprintf(sides[1], "%s\n", line + strcspn(line, "\t") + 1);
    }
    fclose(sides[0]);
    fclose(sides[1]);
    free(text);
    for (int separate = 0; separate < 2; separate++) {
        const tfm_vocabulary_options options = {.vocab_size = 120 + 60 * !separate, .separate_vocabs = separate};
        harness_ok(train("tsv", "train.tsv", NULL, options));
        harness_ok(train("columns", "columns.de", "columns.en", options));
        for (size_t i = 0; i < TFM__COUNT(FILES); i++)
            assert_true(same("tsv", "columns", FILES[i]));
    }
    assert_true(same("tsv", "columns", "target_vocab.json"));
}

static void test_unigram_vocabulary_is_trained(void **state) {
    (void)state;
    corpora();
    harness_ok(train("unigram", "train.de", "train.en", (tfm_vocabulary_options){.vocab_size = 90, .unigram = true}));
    tfm_tokenizer *tokenizer = open_folder("unigram");
    assert_int_equal(tfm_tokenizer_get_info(tokenizer)->source_size, 91);
    ids_agree("unigram", "source.spm", "vocab.json", tokenizer, TFM_SOURCE);
    file_comes_back(tokenizer, TFM_SOURCE, "train.de");
    assert_false(same("unigram", "joint", "source.spm"));
    tfm_tokenizer_free(&tokenizer);
    /* A size that the text cannot fill is reduced. */
    harness_ok(train("unigram", "train.de", "train.en", (tfm_vocabulary_options){.unigram = true}));
    tokenizer = open_folder("unigram");
    assert_in_range(tfm_tokenizer_get_info(tokenizer)->source_size, 92, 8000);
    ids_agree("unigram", "source.spm", "vocab.json", tokenizer, TFM_SOURCE);
    tfm_tokenizer_free(&tokenizer);
}

static void test_vocabulary_training_is_deterministic_by_seed(void **state) {
    (void)state;
    corpora();
    tfm_vocabulary_options options = {.vocab_size = 170, .max_sentences = 400, .seed = 5};
    for (int unigram = 0; unigram < 2; unigram++) {
        options.unigram = unigram;
        harness_ok(train("first", "train.de", "train.en", options));
        harness_ok(train("again", "train.de", "train.en", options));
        for (size_t i = 0; i < TFM__COUNT(FILES); i++)
            assert_true(same("first", "again", FILES[i]));
        options.seed++;
        harness_ok(train("again", "train.de", "train.en", options));
        assert_false(same("first", "again", "source.spm"));
    }
}

/* The characters of the joint vocabulary reveal which lines were sampled. */
static void test_sampled_lines_are_uniform(void **state) {
    (void)state;
    FILE *file = fopen(scratch_path("letters"), "w");
    assert_non_null(file);
    for (int i = 0; i < 300; i++) /* a distinct character for each line, from U+4E00 on */
        fprintf(file, "\xe4%c%c\n", 0xb8 + i / 64, 0x80 + i % 64);
    fclose(file);
    int seen[300] = {0};
    const int samples = harness_brief() ? 10 : 40;
    for (uint64_t seed = 0; seed < (uint64_t)samples; seed++) {
        harness_ok(
            train("letters.spm", "letters", "letters",
                  (tfm_vocabulary_options){
                      .vocab_size = 400, .max_sentences = 60, .unigram = true, .seed = seed, .separate_vocabs = true}));
        tfm_tokenizer *tokenizer = open_folder("letters.spm");
        int count = 0;
        for (int i = 0; i < 300; i++) {
            const char line[] = {(char)0xe4, (char)(0xb8 + i / 64), (char)(0x80 + i % 64), 0};
            int32_t *ids;
            size_t length;
            harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &length, TFM_SOURCE, line, 3));
            const int known = ids[length - 2] != 1;
            count += known;
            seen[i] += known;
            tfm_ids_free(&ids);
        }
        assert_int_equal(count, 60);
        tfm_tokenizer_free(&tokenizer);
    }
    /* Each line is sampled 8 times of 40 on average, with a deviation of 2.5; or 2 of 10, with one of 1.3. */
    int half = 0;
    for (int i = 0; i < 300; i++) {
        assert_in_range(seen[i], 0, samples == 40 ? 19 : 8);
        half += i < 150 ? seen[i] : 0;
    }
    assert_in_range(half, 27 * samples, 33 * samples);
}

/* Ignored lines change nothing, not even the sample of the others. */
static void test_bad_lines_do_not_change_the_vocabulary(void **state) {
    (void)state;
    corpora();
    const tfm_vocabulary_options options = {.vocab_size = 180, .max_sentences = 500};
    harness_ok(train("clean", "train.de", "train.en", options));
    char *text;
    size_t size;
    harness_ok(tfm__file_read(&text, &size, scratch_path("train.de")));
    FILE *file = fopen(scratch_path("dirty.de"), "wb");
    assert_non_null(file);
    fprintf(file, "\xef\xbb\xbf\n\r\n   \t \r\n\xff\xfe kaputt\ncut \xc3\nover \xc0\x80\n\xe2\x96\x85 sign\n");
    fwrite("nul \0 nul\n", 1, 10, file);
    for (int i = 0; i < TFM__SPM_MAX_SENTENCE + 1; i++)
        fputc('q', file);
    fprintf(file, "\r\n");
    fwrite(text, 1, size, file);
    fprintf(file, "\xed\xa0\x80 no line end");
    fclose(file);
    free(text);
    harness_ok(train("dirty", "dirty.de", "train.en", options));
    for (size_t i = 0; i < TFM__COUNT(FILES); i++)
        assert_true(same("clean", "dirty", FILES[i]));
}

static void test_normalization_rules_are_applied(void **state) {
    (void)state;
    corpora();
    static const char *const RULES[] = {"nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"};
    for (size_t i = 0; i < TFM__COUNT(RULES); i++) {
        harness_ok(train("rule", "train.de", "train.en",
                         (tfm_vocabulary_options){.vocab_size = 200, .normalization = RULES[i]}));
        tfm_tokenizer *tokenizer = open_folder("rule");
        const bool small = i == 2 || i == 3;
        comes_back(tokenizer, TFM_TARGET, "die schöne Öl", small ? "die schöne öl" : "die schöne Öl");
        tfm_tokenizer_free(&tokenizer);
    }
}

/* A character with frequency 1 in 2000 is a piece, unless coverage is below 1. */
static void test_character_coverage_drops_rare_characters(void **state) {
    (void)state;
    corpora();
    FILE *file = fopen(scratch_path("train.de"), "ab");
    assert_non_null(file);
    fprintf(file, "die\xe6\xbc\xa2 der\n");
    fclose(file);
    for (int all = 0; all < 2; all++) {
        harness_ok(train("coverage", "train.de", "train.en",
                         (tfm_vocabulary_options){.vocab_size = 180, .character_coverage = all ? 0 : 0.9995}));
        tfm_tokenizer *tokenizer = open_folder("coverage");
        int32_t *ids;
        size_t count;
        harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, "\xe6\xbc\xa2", 3));
        assert_int_equal(ids[count - 2] != 1, all);
        tfm_ids_free(&ids);
        tfm_tokenizer_free(&tokenizer);
    }
}

/* Every input on which SentencePiece aborts makes the call fail instead. */
static void test_tiny_texts_train_or_fail_without_crash(void **state) {
    (void)state;
    static const char *const TEXTS[] = {"a",
                                        "ab",
                                        "a b c",
                                        "aa",
                                        "aaaaaaaa",
                                        "a\na\na",
                                        "</s>",
                                        "<unk> </s>",
                                        "<pad>",
                                        "\xe3\x80\x80\na",
                                        "\xe2\x80\x8b\na",
                                        "a\tb",
                                        "\xc3\xa4",
                                        "1",
                                        "\xe2\x96\x81"
                                        "a",
                                        "\xef\xb7\xba",
                                        "a\xcc\x88",
                                        "\x01\na",
                                        "....a"};
    for (size_t i = 0; i < TFM__COUNT(TEXTS); i++) {
        scratch_text("tiny", TEXTS[i]);
        for (int32_t size = 3; size < 12; size += harness_brief() ? 4 : 1) {
            for (int way = 0; way < 4; way++) {
                const tfm_vocabulary_options options = {
                    .vocab_size = size, .unigram = way & 1, .normalization = way & 2 ? "identity" : NULL};
                const tfm_status status = train("tiny.spm", "tiny", "tiny", options);
                if (status == TFM_OK) {
                    tfm_tokenizer *tokenizer = open_folder("tiny.spm");
                    assert_in_range(tfm_tokenizer_get_info(tokenizer)->source_size, 3, size + 1);
                    tfm_tokenizer_free(&tokenizer);
                } else {
                    scratch_refused(status, TFM_ERROR_INPUT, "tiny");
                }
            }
        }
    }
}

/* Failed training writes nothing, not even to stderr. */
static void test_failed_vocabulary_training_writes_nothing(void **state) {
    (void)state;
    corpora();
    fflush(stderr);
    const int kept = dup(2);
    assert_non_null(freopen(scratch_path("said"), "w", stderr));
    scratch_refused(train("no", "train.de", "train.en", (tfm_vocabulary_options){.vocab_size = 8000}), TFM_ERROR_INPUT,
                    "train.en: 8000 pieces are more than the text yields, which is ");
    int most = 0;
    assert_int_equal(sscanf(strstr(tfm_error_message(), "which is "), "which is %d", &most), 1);
    scratch_refused(train("no", "train.de", "train.en", (tfm_vocabulary_options){.vocab_size = most + 1}),
                    TFM_ERROR_INPUT, "use at most");
    for (int unigram = 0; unigram < 2; unigram++)
        scratch_refused(
            train("no", "train.de", "train.en", (tfm_vocabulary_options){.vocab_size = 20, .unigram = unigram}),
            TFM_ERROR_INPUT, "20 pieces are too few, its characters alone need ");
    scratch_refused(train("no", "none", "train.en", (tfm_vocabulary_options){0}), TFM_ERROR_IO, "none");
    scratch_refused(train("no", "train.de", "none", (tfm_vocabulary_options){0}), TFM_ERROR_IO, "none");
    scratch_refused(
        train("no", "train.de", "none", (tfm_vocabulary_options){.vocab_size = 100, .separate_vocabs = true}),
        TFM_ERROR_IO, "none");
    scratch_refused(train("no", "no", "train.en", (tfm_vocabulary_options){0}), TFM_ERROR_IO, "no");
    scratch_refused(train("no", "train.de", NULL, (tfm_vocabulary_options){0}), TFM_ERROR_INPUT, "with a tab");
    scratch_text("blank", "\n \n\xff\n");
    scratch_refused(train("no", "blank", "blank", (tfm_vocabulary_options){0}), TFM_ERROR_INPUT, "no usable line");
    scratch_text("dots", "...\n\xe2\x80\x8b\n\xe3\x80\x80\n");
    for (int unigram = 0; unigram < 2; unigram++)
        scratch_refused(train("no", "dots", "dots", (tfm_vocabulary_options){.unigram = unigram}), TFM_ERROR_INPUT,
                        "no line has a letter");
    for (size_t i = 0; i < TFM__COUNT(FILES); i++)
        assert_false(has("no", FILES[i]));
    harness_ok(train("no", "train.de", "train.en", (tfm_vocabulary_options){.vocab_size = most}));
    harness_ok(train("usual", "train.de", "train.en", (tfm_vocabulary_options){0})); /* all available */
    assert_true(same("usual", "no", "vocab.json"));
    fflush(stderr);
    dup2(kept, 2);
    close(kept);
    char *said;
    size_t size;
    harness_ok(tfm__file_read(&said, &size, scratch_path("said")));
    assert_string_equal(said, "");
    free(said);
}

/* More characters than the default number of pieces, as in Chinese: the size was not requested, so no error. */
static void test_vocabulary_grows_for_many_characters(void **state) {
    (void)state;
    enum { CHARACTERS = 9000, LINE = 30, FIRST = 0x4e00 };
    FILE *file = fopen(scratch_path("many"), "wb");
    assert_non_null(file);
    for (unsigned i = 0; i < CHARACTERS; i++) {
        const unsigned c = FIRST + i;
        fprintf(file, "%c%c%c%s", 0xe0 | c >> 12, 0x80 | (c >> 6 & 0x3f), 0x80 | (c & 0x3f),
                i % LINE == LINE - 1 ? "\n" : "");
    }
    assert_int_equal(fclose(file), 0);
    scratch_refused(train("no", "many", "many", (tfm_vocabulary_options){.vocab_size = 8000}), TFM_ERROR_INPUT,
                    "8000 pieces are too few");
    tfm_tokenizer *tokenizer;
    harness_ok(train("many-pieces", "many", "many", (tfm_vocabulary_options){0}));
    harness_ok(tfm_tokenizer_open(&tokenizer, scratch_path("many-pieces")));
    assert_in_range(tfm_tokenizer_get_info(tokenizer)->source_size, CHARACTERS, CHARACTERS + 8020);
    tfm_tokenizer_free(&tokenizer);
}

static void test_vocabulary_training_rejects_bad_arguments(void **state) {
    (void)state;
    corpora();
    static const struct {
        tfm_vocabulary_options options;
        const char *part;
    } CASES[] = {
        {{.vocab_size = 2}, "size 2; 3 to"},
        {{.vocab_size = -1}, "size -1"},
        {{.vocab_size = 1 << 24}, "size 16777216"},
        {{.character_coverage = 0.97}, "coverage 0.97"},
        {{.character_coverage = 1.01}, "coverage 1.01"},
        {{.character_coverage = -0.0 / 0.0}, "coverage"},
        {{.max_sentences = -1}, "sentences -1"},
        {{.normalization = "nfc"}, "\"nfc\" is not one of nmt_nfkc"},
        {{.source_language = "\xff"}, "language"},
    };
    for (size_t i = 0; i < TFM__COUNT(CASES); i++)
        scratch_refused(train("no", "train.de", "train.en", CASES[i].options), TFM_ERROR_ARGUMENT, CASES[i].part);
    scratch_refused(tfm_tokenizer_train(NULL, "a", "b", NULL), TFM_ERROR_ARGUMENT, "dir is NULL");
    scratch_refused(tfm_tokenizer_train(scratch_root, NULL, "b", NULL), TFM_ERROR_ARGUMENT, "source is NULL");
    scratch_refused(tfm_tokenizer_train(scratch_path("nowhere"), scratch_path("train.de"), NULL, NULL), TFM_ERROR_IO,
                    "nowhere: No such file");
    scratch_refused(tfm_tokenizer_train(scratch_path("train.de"), scratch_path("train.de"), NULL, NULL), TFM_ERROR_IO,
                    "train.de: Not a directory");
}

/* ---- Of language models ---- */

/* tokenizer.json splits text as SentencePiece does with the learned pieces, and round trips. */
static void check_line(const tfm_tokenizer *tokenizer, const tfm__spm *spm, const char *line, const char *back) {
    tfm__pieces pieces = {0};
    int32_t *ids;
    size_t count;
    char *text;
    harness_ok(tfm__spm_encode(spm, &pieces, line, strlen(line)));
    harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_TARGET, line, strlen(line)));
    assert_int_equal(count, pieces.count + 1);
    assert_int_equal(ids[0], 1);
    for (size_t i = 0; i < pieces.count; i++) {
        const char *piece = pieces.bytes + pieces.starts[i];
        const int32_t id = tfm_tokenizer_piece_id(tokenizer, TFM_TARGET, piece);
        assert_int_equal(ids[i + 1], id < 0 ? 0 : id);
    }
    harness_ok(tfm_tokenizer_decode(tokenizer, &text, ids, count));
    assert_string_equal(text, back);
    tfm_text_free(&text);
    tfm_ids_free(&ids);
    tfm__pieces_free(&pieces);
}

static void test_vocabulary_of_plain_texts_is_trained(void **state) {
    (void)state;
    char german[4096], english[4096];
    corpora();
    snprintf(german, sizeof(german), "%s", scratch_path("train.de"));
    snprintf(english, sizeof(english), "%s", scratch_path("train.en"));
    const char *const files[] = {german, english};
    for (int kind = 0; kind < 3; kind++) {
        const tfm_vocabulary_options o = {
            .vocab_size = 300, .unigram = kind == 1, .normalization = kind == 2 ? "identity" : NULL};
        tfm_tokenizer *tokenizer;
        tfm__spm *spm;
        size_t size;
        const char *dir = folder("texts");
        harness_ok(tfm_tokenizer_train_texts(dir, files, 2, &o));
        harness_ok(tfm_tokenizer_open(&tokenizer, scratch_path("texts")));
        char *bytes = content("texts", "tokenizer.model", &size);
        harness_ok(tfm__spm_open(&spm, bytes, size, "tokenizer.model"));
        const tfm_tokenizer_info info = *tfm_tokenizer_get_info(tokenizer);
        assert_true(kind == 1 ? info.target_size <= 300 : info.target_size == 300); /* unigrams may be fewer */
        assert_true(info.bos == 1 && info.target_eos == 2 && info.target_unk == 0 && info.target_pad == -1);
        check_line(tokenizer, spm, "die schöne Straße und the small street.",
                   "die schöne Straße und the small street.");
        check_line(tokenizer, spm, "  zwölf   Häuser ", "zwölf Häuser");
        check_line(tokenizer, spm, "größergrößer", "größergrößer");
        if (kind != 2) /* two characters normalized to one */
            check_line(tokenizer, spm, "Ha\xcc\x88user", "Häuser");
        harness_random random = {9};
        for (int i = 0; i < 200; i++) {
            char *line = NULL;
            size_t bytes_of_line = 0;
            FILE *file = open_memstream(&line, &bytes_of_line);
            assert_non_null(file);
            sentence(file, &random, i % 2 ? GERMAN : ENGLISH);
            assert_int_equal(fclose(file), 0);
            check_line(tokenizer, spm, line, line);
            free(line);
        }
        tfm__spm_free(&spm);
        free(bytes);
        tfm_tokenizer_free(&tokenizer);
    }
    scratch_refused(tfm_tokenizer_train_texts(scratch_root, files, 0, NULL), TFM_ERROR_ARGUMENT, "at least one file");
    scratch_refused(
        tfm_tokenizer_train_texts(scratch_root, files, 2, &(tfm_vocabulary_options){.separate_vocabs = true}),
        TFM_ERROR_ARGUMENT, "are for pairs of lines");
}

/* The first lines of a file in the scratch folder, without the last line end, and the rest. */
static void split(const char *name, int lines) {
    char part[200], *text = NULL;
    size_t size;
    harness_ok(tfm__file_read(&text, &size, scratch_path(name)));
    char *at = text;
    while (lines-- > 0)
        at = strchr(at, '\n') + 1;
    snprintf(part, sizeof(part), "%s.1", name);
    scratch_write(part, text, (size_t)(at - text) - 1);
    snprintf(part, sizeof(part), "%s.2", name);
    scratch_write(part, at, size - (size_t)(at - text));
    free(text);
}

/* Several pairs of files train the same vocabulary as one pair with all lines: joint, separate, and from TSV. */
static void test_several_files_train_the_vocabulary_of_one(void **state) {
    (void)state;
    static const char *const names[] = {"train.de.1", "none",        "train.de.2", "train.en.1", "none",
                                        "train.en.2", "train.tsv.1", "none",       "train.tsv.2"};
    char paths[9][4096];
    const char *files[9];
    corpora();
    scratch_text("none", "");
    split("train.de", 400);
    split("train.en", 1100);
    split("train.tsv", 700);
    for (int i = 0; i < 9; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s", scratch_path(names[i]));
        files[i] = paths[i];
    }
    for (int kind = 0; kind < 4; kind++) {
        const bool tsv = kind & 2;
        const tfm_vocabulary_options o = {.vocab_size = 150, .separate_vocabs = kind & 1, .max_sentences = 2000};
        char one[16], several[16];
        snprintf(one, sizeof(one), "one%d", kind);
        snprintf(several, sizeof(several), "several%d", kind);
        harness_ok(train(one, tsv ? "train.tsv" : "train.de", tsv ? NULL : "train.en", o));
        harness_ok(tfm_tokenizer_train_pairs(folder(several), tsv ? files + 6 : files, tsv ? NULL : files + 3, 3, &o));
        for (size_t i = 0; i < TFM__COUNT(FILES); i++)
            assert_true(same(one, several, FILES[i]));
        assert_true(!o.separate_vocabs || same(one, several, "target_vocab.json"));
    }
    scratch_refused(tfm_tokenizer_train_pairs(scratch_root, files, NULL, 0, NULL), TFM_ERROR_ARGUMENT,
                    "at least one file");
    scratch_refused(tfm_tokenizer_train_pairs(scratch_root, files + 1, files + 4, 1, NULL), TFM_ERROR_INPUT,
                    "none: there is no usable line");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joint_vocabulary_covers_both_languages),
        cmocka_unit_test(test_language_codes_are_single_tokens),
        cmocka_unit_test(test_separate_vocabularies_are_trained),
        cmocka_unit_test(test_tsv_columns_train_the_vocabulary_of_two_files),
        cmocka_unit_test(test_unigram_vocabulary_is_trained),
        cmocka_unit_test(test_vocabulary_training_is_deterministic_by_seed),
        cmocka_unit_test(test_sampled_lines_are_uniform),
        cmocka_unit_test(test_bad_lines_do_not_change_the_vocabulary),
        cmocka_unit_test(test_character_coverage_drops_rare_characters),
        cmocka_unit_test(test_normalization_rules_are_applied),
        cmocka_unit_test(test_tiny_texts_train_or_fail_without_crash),
        cmocka_unit_test(test_failed_vocabulary_training_writes_nothing),
        cmocka_unit_test(test_vocabulary_grows_for_many_characters),
        cmocka_unit_test(test_vocabulary_training_rejects_bad_arguments),
        cmocka_unit_test(test_vocabulary_of_plain_texts_is_trained),
        cmocka_unit_test(test_several_files_train_the_vocabulary_of_one),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
