/* Converts the files from before tokenizer.json: how each class of transformers builds its tokenizer. */
#include <stdlib.h>
#include "base/file.h"
#include "text/hf_convert.h"
#include "text/char_class.h"
#include "text/line_file.h"
#include "text/utf8.h"

/* Files that indicate something to convert. */
static const char *const PIECES[] = {"spiece.model", "sentencepiece.bpe.model", "tokenizer.model"};

bool tfm__hf_convertible(const char *dir) {
    for (size_t i = 0; i < TFM__COUNT(PIECES); i++)
        if (tfm__file_exists_in(dir, PIECES[i]))
            return true;
    return tfm__file_exists_in(dir, "vocab.txt") ||
           (tfm__file_exists_in(dir, "vocab.json") && tfm__file_exists_in(dir, "merges.txt"));
}

/* ---- Classes ------------------------------------------------------------------------------------------ */

/* One text between BOS and EOS; two texts with EOS between them, once or twice. */
static void set_template(tfm__conversion *c, bool twice) {
    const char *cls = tfm__convert_special_token(c, TFM__CLS), *sep = tfm__convert_special_token(c, TFM__SEP);
    const char *const single[] = {cls, tfm__convert_seq_a, sep, NULL};
    const char *const once[] = {cls, tfm__convert_seq_a, sep, tfm__convert_seq_b, sep, NULL};
    const char *const two[] = {cls, tfm__convert_seq_a, sep, sep, tfm__convert_seq_b, sep, NULL};
    tfm__convert_set_template(c, single, twice ? two : once);
}

/* ---- vocab.json and merges.txt ------------------------------------------------------------------------ */

static const char QWEN[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/* Whether a line is two pieces separated by a blank. */
static bool is_merge(const char *line, size_t bytes) {
    const char *blank = memchr(line, ' ', bytes);
    return blank && blank > line && blank + 1 < line + bytes &&
           !memchr(blank + 1, ' ', bytes - (size_t)(blank + 1 - line));
}

static tfm_status read_merges(json_t *merges, const char *path) {
    tfm__line_reader lines = {0};
    bool more = true;
    tfm_status status = tfm__line_reader_open(&lines, path, 0);
    while (status == TFM_OK && (status = tfm__line_reader_next(&lines, &more)) == TFM_OK && more) {
        if (lines.bytes == 0 || (lines.bytes >= 8 && memcmp(lines.text, "#version", 8) == 0))
            continue;
        if (!is_merge(lines.text, lines.bytes)) {
            status = tfm__fail(TFM_ERROR_FORMAT, "%s: merge %zu is not two pieces with a blank between them", path,
                               json_array_size(merges) + 1);
            continue;
        }
        json_t *line = memchr(lines.text, '\0', lines.bytes) ? NULL : json_stringn(lines.text, lines.bytes);
        if (!line || json_array_append_new(merges, line) != 0)
            status =
                tfm__fail(TFM_ERROR_FORMAT, "%s: merge %zu is not text in UTF-8", path, json_array_size(merges) + 1);
    }
    tfm__line_reader_close(&lines);
    return status;
}

static void set_bpe(tfm__conversion *c, json_t *vocab, json_t *merges) {
    const bool qwen = tfm__convert_is_class(c, "Qwen2");
    tfm__convert_set_section(c, "model", json_pack("{s:s, s:o, s:o}", "type", "BPE", "vocab", vocab, "merges", merges));
    tfm__convert_set_section(c, "decoder", tfm__convert_json("{'type': 'ByteLevel'}"));
    json_t *bytes = json_pack("{s:s, s:b, s:b}", "type", "ByteLevel", "add_prefix_space",
                              (int)tfm__convert_flag(c, "add_prefix_space", false), "use_regex", (int)!qwen);
    if (qwen) {
        tfm__convert_set_section(c, "normalizer", tfm__convert_json("{'type': 'NFC'}"));
        bytes = json_pack("{s:s, s:[{s:s, s:{s:s}, s:s}, o]}", "type", "Sequence", "pretokenizers", "type", "Split",
                          "pattern", "Regex", QWEN, "behavior", "Isolated", bytes);
    }
    tfm__convert_set_section(c, "pre_tokenizer", bytes);
    if (c->kind->specials[TFM__SEP])
        set_template(c, true);
    else
        tfm__convert_set_bos_eos(c);
}

static tfm_status convert_bpe(tfm__conversion *c) {
    json_t *vocab = NULL, *merges = json_array();
    char *path = tfm__path_join(c->dir, "merges.txt");
    tfm_status status = path && merges ? tfm__json_load(&vocab, c->path) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = read_merges(merges, path);
    free(path);
    if (status == TFM_OK) {
        set_bpe(c, vocab, merges);
        return TFM_OK;
    }
    json_decref(vocab);
    json_decref(merges);
    return status;
}

/* ---- vocab.txt ---------------------------------------------------------------------------------------- */

/* One word per line, without trailing blanks; of duplicates the last index counts. */
static tfm_status read_vocab_txt(json_t *vocab, const char *path) {
    tfm__line_reader lines = {0};
    bool more = true;
    json_int_t id = 0;
    tfm_status status = tfm__line_reader_open(&lines, path, 0);
    while (status == TFM_OK && (status = tfm__line_reader_next(&lines, &more)) == TFM_OK && more) {
        size_t bytes = lines.bytes;
        bool good = id < TFM__MAX_IDS && tfm__utf8_valid(lines.text, bytes) == bytes && !memchr(lines.text, 0, bytes);
        while (good && bytes && tfm__char_is_space(tfm__char_before(lines.text, bytes)))
            do
                bytes--;
            while (((unsigned char)lines.text[bytes] & 0xc0) == 0x80);
        if (good) {
            lines.text[bytes] = '\0';
            good = json_object_set_new(vocab, lines.text, json_integer(id)) == 0;
        }
        if (!good)
            status = tfm__fail(TFM_ERROR_FORMAT, "%s: line %lld is not text in UTF-8, or there are more than %d", path,
                               (long long)id + 1, TFM__MAX_IDS);
        id++;
    }
    tfm__line_reader_close(&lines);
    return status;
}

static tfm_status convert_wordpiece(tfm__conversion *c) {
    json_t *vocab = json_object();
    tfm_status status = vocab ? read_vocab_txt(vocab, c->path) : TFM_ERROR_MEMORY;
    if (status != TFM_OK) {
        json_decref(vocab);
        return status;
    }
    const json_t *accents = json_object_get(c->config, "strip_accents");
    tfm__convert_set_section(c, "model",
                             json_pack("{s:s, s:o, s:s}", "type", "WordPiece", "vocab", vocab, "unk_token",
                                       tfm__convert_special_token(c, TFM__UNK)));
    tfm__convert_set_section(c, "normalizer",
                             json_pack("{s:s, s:b, s:b, s:o}", "type", "BertNormalizer", "lowercase",
                                       (int)tfm__convert_flag(c, "do_lower_case", true), "handle_chinese_chars",
                                       (int)tfm__convert_flag(c, "tokenize_chinese_chars", true), "strip_accents",
                                       json_is_boolean(accents) ? json_boolean(json_is_true(accents)) : json_null()));
    tfm__convert_set_section(c, "pre_tokenizer", tfm__convert_json("{'type': 'BertPreTokenizer'}"));
    tfm__convert_set_section(c, "decoder", tfm__convert_json("{'type': 'WordPiece'}"));
    set_template(c, tfm__convert_is_class(c, "MPNet"));
    return TFM_OK;
}

/* ---- vocab.json and a SentencePiece model ------------------------------------------------------------- */

static tfm_status convert_m2m(tfm__conversion *c) {
    char *vocab = tfm__path_join(c->dir, "vocab.json");
    tfm_status status = vocab ? tfm__spm_vocab_open(c->model, vocab, c->path, tfm__convert_special_token(c, TFM__UNK))
                              : TFM_ERROR_MEMORY;
    free(vocab);
    if (status != TFM_OK)
        return status;
    tfm__convert_set_section(
        c, "decoder",
        tfm__convert_json("{'type': 'Sequence', 'decoders': [{'type': 'Replace', 'pattern': {'String': "
                          "'\xe2\x96\x81'}, 'content': ' '}, {'type': 'Fuse'}, {'type': 'Strip', "
                          "'content': ' ', 'start': 1000000000, 'stop': 1000000000}]}"));
    /* Language tokens follow the vocabulary. */
    const char *codes = json_string_value(json_object_get(c->config, "language_codes"));
    tfm__convert_add_languages(
        c, NULL, codes && strcmp(codes, "wmt21") == 0 ? tfm__language_codes_wmt21 : tfm__language_codes_m2m, "__");
    return TFM_OK;
}

/* ---- A directory -------------------------------------------------------------------------------------- */

/* Finds the file with the pieces, and the class, if no file names it. */
static tfm_status find_class(tfm__conversion *c) {
    static const char *const GUESSES[] = {"T5", "XLMRoberta", "Llama"};
    const char *name = tfm__file_exists_in(c->dir, "vocab.txt") ? "vocab.txt" : "vocab.json";
    const char *guess = name[6] == 'j' ? "GPT2" : "Bert";
    for (size_t i = 0; i < TFM__COUNT(PIECES); i++)
        if (tfm__file_exists_in(c->dir, PIECES[i])) {
            guess = i == 1 && tfm__file_exists_in(c->dir, "vocab.json") ? "M2M100" : GUESSES[i];
            name = PIECES[i];
            break;
        }
    const tfm_status status = tfm__hf_class_find(&c->kind, c->config, c->dir);
    if (status != TFM_OK)
        return status;
    if (!c->kind)
        c->kind = tfm__hf_class_by_name(guess);
    c->path = tfm__path_join(c->dir, name);
    return c->path ? TFM_OK : TFM_ERROR_MEMORY;
}

/* Adds the class's tokens, with their lstrip flags. */
static void add_specials(tfm__conversion *c) {
    static const char *const STRIPPED[] = {"MPNet", "MBart", "MBart50", "Nllb", "Camembert"};
    bool strips = false;
    for (size_t i = 0; i < TFM__COUNT(STRIPPED); i++)
        strips |= tfm__convert_is_class(c, STRIPPED[i]);
    for (int i = 0; i < TFM__SPECIALS; i++) {
        const char *name = tfm__convert_special_token(c, i);
        if (name && tfm__convert_piece_id(c, name) >= 0)
            tfm__convert_add_token(c, name, true, strips && i == TFM__MASK);
    }
}

static tfm_status convert(tfm__conversion *c) {
    static const struct {
        const char *file;
        tfm_status (*convert)(tfm__conversion *);
        const char *classes[5];
    } FILES[] = {{"vocab.txt", convert_wordpiece, {"Bert", "DistilBert", "MPNet"}},
                 {"vocab.json", convert_bpe, {"GPT2", "Roberta", "Bart", "Qwen2"}},
                 {"sentencepiece.bpe.model", convert_m2m, {"M2M100"}}};
    const char *name = strrchr(c->path, '/') + 1;
    for (size_t i = 0; i < TFM__COUNT(FILES); i++)
        for (size_t k = 0; k < TFM__COUNT(FILES[i].classes) && FILES[i].classes[k]; k++)
            if (strcmp(name, FILES[i].file) == 0 && tfm__convert_is_class(c, FILES[i].classes[k]))
                return FILES[i].convert(c);
    const size_t length = strlen(name);
    if (length > 6 && strcmp(name + length - 6, ".model") == 0)
        return tfm__convert_sentencepiece(c);
    return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: tfm cannot convert this file for the class %s", c->path,
                     c->kind->name);
}

static tfm_status read_map(tfm__conversion *c) {
    char *path = tfm__path_join(c->dir, "special_tokens_map.json");
    if (!path)
        return TFM_ERROR_MEMORY;
    /* The older file counts if the newer key is missing. */
    const bool counts = !json_object_get(c->config, "added_tokens_decoder") && tfm__file_exists(path);
    const tfm_status status = counts ? tfm__json_load(&c->map, path) : TFM_OK;
    free(path);
    return status;
}

tfm_status tfm__hf_convert(json_t **out, tfm__subword_model *model, char **name, const json_t *config,
                           const char *dir) {
    tfm__conversion c = {.config = config, .dir = dir, .root = json_pack("{s:[]}", "added_tokens"), .model = model};
    tfm_status status = c.root ? find_class(&c) : tfm__fail(TFM_ERROR_MEMORY, "out of host memory for a tokenizer");
    if (status == TFM_OK)
        status = read_map(&c);
    if (status == TFM_OK)
        status = convert(&c);
    if (status == TFM_OK)
        add_specials(&c);
    if (status == TFM_OK && c.failed)
        status = tfm__fail(TFM_ERROR_MEMORY, "out of host memory for a tokenizer");
    json_decref(c.map);
    *name = c.path;
    *out = c.root;
    return status;
}
