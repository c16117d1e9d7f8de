/* Conversion of SentencePiece models, as in the classes of transformers. */
#include "base/file.h"
#include "text/base64.h"
#include "text/hf_convert.h"
#include "text/protobuf.h"

/* The content of a model file. */
typedef struct model {
    json_t *pieces; /* [["piece", score], ...] */
    const unsigned char *charsmap;
    size_t charsmap_bytes;
} model;

enum { CONTROL = 3, USER_DEFINED = 4 };

#define BLANK "\xe2\x96\x81"

/* Whether tokenizer_config.json lists special tokens: transformers then ignores the model's. */
static bool lists_specials(const tfm__conversion *c) {
    return json_array_size(json_object_get(c->config, "extra_special_tokens")) > 0 ||
           json_array_size(json_object_get(c->config, "additional_special_tokens")) > 0;
}

/* A piece is text = 1, score = 2 and type = 3. */
static tfm_status read_piece(tfm__conversion *c, model *m, tfm__proto_message message) {
    tfm__proto_field f;
    json_t *text = NULL;
    uint64_t type = 0;
    float score = 0;
    bool good = true;
    while (good && message.at < message.end && (good = tfm__proto_next_field(&message, &f))) {
        if (f.number == 1 && f.wire_type == 2) {
            json_decref(text);
            const size_t bytes = (size_t)(f.bytes.end - f.bytes.at);
            text = memchr(f.bytes.at, '\0', bytes) ? NULL : json_stringn((const char *)f.bytes.at, bytes);
            good = text != NULL;
        } else if (f.number == 2 && f.wire_type == 5) {
            memcpy(&score, f.bytes.at, sizeof(score));
        } else if (f.number == 3 && f.wire_type == 0) {
            type = f.value;
        }
    }
    if (!good || !text || !(score > -1e30F && score < 1e30F)) {
        json_decref(text);
        return tfm__fail(TFM_ERROR_FORMAT, "%s is not a SentencePiece model, or is damaged: piece %zu is unreadable",
                         c->path, json_array_size(m->pieces));
    }
    if ((type == CONTROL || type == USER_DEFINED) && json_string_length(text) && !lists_specials(c))
        tfm__convert_add_token(c, json_string_value(text), type == CONTROL, false);
    tfm__convert_append(c, m->pieces, json_pack("[o, f]", text, (double)score));
    return TFM_OK;
}

/* pieces = 1, and in normalizer_spec = 3 the normalization table = 2. */
static tfm_status read_model(tfm__conversion *c, model *m, const tfm__file *file) {
    const unsigned char *data = file->size ? file->data : (const unsigned char *)""; /* an empty file has no memory */
    tfm__proto_message message = {data, data + file->size};
    tfm__proto_field f, inner;
    tfm_status status = TFM_OK;
    while (status == TFM_OK && message.at < message.end) {
        if (!tfm__proto_next_field(&message, &f))
            return tfm__fail(TFM_ERROR_FORMAT, "%s is not a SentencePiece model, or is damaged", c->path);
        if (f.number == 1 && f.wire_type == 2)
            status = read_piece(c, m, f.bytes);
        while (f.number == 3 && f.wire_type == 2 && f.bytes.at < f.bytes.end && tfm__proto_next_field(&f.bytes, &inner))
            if (inner.number == 2 && inner.wire_type == 2) {
                m->charsmap = inner.bytes.at;
                m->charsmap_bytes = (size_t)(inner.bytes.end - inner.bytes.at);
            }
    }
    if (status == TFM_OK && json_array_size(m->pieces) < 4)
        return tfm__fail(TFM_ERROR_FORMAT, "%s has %zu pieces; a tokenizer has more", c->path,
                         json_array_size(m->pieces));
    return status;
}

/* ---- Sections ----------------------------------------------------------------------------------------- */

static json_t *replace_by_blank(const char *expression) {
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "Regex", expression, "content", " ");
}

/* The normalization table, or without one, blanks for `fallback`; `runs` collapses runs of blanks. */
static void set_normalizer(tfm__conversion *c, const model *m, const char *fallback, bool runs) {
    char *rules = m->charsmap_bytes ? tfm__base64_encode(m->charsmap, m->charsmap_bytes) : NULL;
    json_t *steps = json_array();
    if (rules)
        tfm__convert_append(
            c, steps,
            json_pack("{s:s, s:s, s:b}", "type", "Precompiled", "precompiled_charsmap", rules, "longest_match", 1));
    else if (fallback && !m->charsmap_bytes)
        tfm__convert_append(c, steps, replace_by_blank(fallback));
    c->failed |= m->charsmap_bytes && !rules;
    if (runs)
        tfm__convert_append(c, steps, replace_by_blank(" {2,}"));
    tfm__convert_set_section(c, "normalizer", json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", steps));
    free(rules);
}

/* A Metaspace step; `words` splits at blanks first. */
static void set_metaspace(tfm__conversion *c, bool words) {
    const bool prefix = tfm__convert_flag(c, "add_prefix_space", true);
    json_t *step = json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement", BLANK, "prepend_scheme",
                             prefix || !words ? "always" : "never", "split", 1);
    tfm__convert_set_section(c, "decoder", json_deep_copy(step));
    if (words)
        step = json_pack("{s:s, s:[{s:s}, o]}", "type", "Sequence", "pretokenizers", "type", "WhitespaceSplit", step);
    tfm__convert_set_section(c, "pre_tokenizer", step);
}

static void add_piece(tfm__conversion *c, json_t *vocab, const char *text, double score) {
    if (text)
        tfm__convert_append(c, vocab, json_pack("[s, f]", text, score));
}

static void add_pieces(tfm__conversion *c, json_t *vocab, const model *m, size_t from) {
    for (size_t i = from; i < json_array_size(m->pieces); i++)
        tfm__convert_append(c, vocab, json_incref(json_array_get(m->pieces, i)));
}

/* fairseq's first four tokens, then the model's from its fourth on. */
static json_t *fairseq_vocab(tfm__conversion *c, const model *m) {
    static const int FIRST[] = {TFM__BOS, TFM__PAD, TFM__EOS, TFM__UNK};
    json_t *vocab = json_array();
    for (size_t i = 0; i < TFM__COUNT(FIRST); i++)
        add_piece(c, vocab, tfm__convert_special_token(c, FIRST[i]), 0);
    add_pieces(c, vocab, m, 3);
    return vocab;
}

static void set_unigram(tfm__conversion *c, json_t *vocab, int unk) {
    tfm__convert_set_section(c, "model",
                             json_pack("{s:s, s:o, s:i}", "type", "Unigram", "vocab", vocab, "unk_id", unk));
}

/* <s> $A </s>, with two </s> between a pair of texts. */
static void set_template(tfm__conversion *c) {
    const char *bos = tfm__convert_special_token(c, TFM__BOS), *eos = tfm__convert_special_token(c, TFM__EOS);
    const char *const single[] = {bos, tfm__convert_seq_a, eos, NULL};
    const char *const pair[] = {bos, tfm__convert_seq_a, eos, eos, tfm__convert_seq_b, eos, NULL};
    tfm__convert_set_template(c, single, pair);
}

/* ---- Unigrams ----------------------------------------------------------------------------------------- */

/* A token count in tokenizer_config.json. */
static tfm_status read_count(int *out, const tfm__conversion *c, const char *key, int fallback) {
    int64_t count;
    const tfm_status status =
        tfm__hf_int(&count, c->config, key, fallback, (tfm__json_location){c->dir, "tokenizer_config.json"});
    if (status == TFM_OK && (count < 0 || count > 10000))
        return tfm__fail(TFM_ERROR_FORMAT, "%s/tokenizer_config.json: `%s` is %lld; 0 to 10000 are allowed", c->dir,
                         key, (long long)count);
    *out = (int)count;
    return status;
}

static tfm_status convert_t5(tfm__conversion *c, const model *m) {
    const char *eos = tfm__convert_special_token(c, TFM__EOS);
    const char *const single[] = {tfm__convert_seq_a, eos, NULL};
    const char *const pair[] = {tfm__convert_seq_a, eos, tfm__convert_seq_b, eos, NULL};
    int extra = 0;
    tfm_status status = read_count(&extra, c, "extra_ids", 100);
    if (status != TFM_OK)
        return status;
    json_t *vocab = json_copy(m->pieces);
    for (int i = extra - 1; i >= 0; i--) {
        char name[32];
        snprintf(name, sizeof(name), "<extra_id_%d>", i);
        add_piece(c, vocab, name, 0);
        tfm__convert_add_token(c, name, true, false);
    }
    set_unigram(c, vocab, 2);
    set_normalizer(c, m, NULL, false);
    set_metaspace(c, true);
    tfm__convert_set_template(c, single, pair);
    return TFM_OK;
}

/* Padding, EOS, the two masks, tokens for each of `offset` positions, and the model's from <unk> on. */
static tfm_status convert_pegasus(tfm__conversion *c, const model *m) {
    const json_t *sentence = json_object_get(c->config, "mask_token_sent");
    const char *mask = json_is_string(sentence) ? json_string_value(sentence) : "<mask_1>";
    const char *eos = tfm__convert_special_token(c, TFM__EOS);
    const char *const single[] = {tfm__convert_seq_a, eos, NULL};
    const char *const pair[] = {tfm__convert_seq_a, tfm__convert_seq_b, eos, NULL};
    int offset = 0;
    tfm_status status = read_count(&offset, c, "offset", 103);
    if (status != TFM_OK)
        return status;
    json_t *vocab = json_array();
    add_piece(c, vocab, tfm__convert_special_token(c, TFM__PAD), 0);
    add_piece(c, vocab, eos, 0);
    if (!json_is_null(sentence) || !sentence) {
        add_piece(c, vocab, mask, 0);
        add_piece(c, vocab, tfm__convert_special_token(c, TFM__MASK), 0);
        tfm__convert_add_token(c, mask, true, false);
    }
    for (int i = 2; i < offset; i++) {
        char name[32];
        snprintf(name, sizeof(name), "<unk_%d>", i);
        add_piece(c, vocab, name, -100);
        tfm__convert_add_token(c, name, true, false);
    }
    const int unk = (int)json_array_size(vocab);
    add_pieces(c, vocab, m, 2);
    set_unigram(c, vocab, unk);
    set_normalizer(c, m, "\\n", true);
    set_metaspace(c, false);
    tfm__convert_set_template(c, single, pair);
    return TFM_OK;
}

static tfm_status convert_xlm_roberta(tfm__conversion *c, const model *m) {
    json_t *vocab = fairseq_vocab(c, m);
    add_piece(c, vocab, tfm__convert_special_token(c, TFM__MASK), 0);
    set_unigram(c, vocab, 3);
    set_normalizer(c, m, NULL, false);
    set_metaspace(c, true);
    set_template(c);
    return TFM_OK;
}

/* Three of fairseq's names are unused: the model's own come later. */
static tfm_status convert_camembert(tfm__conversion *c, const model *m) {
    json_t *vocab = json_array();
    add_piece(c, vocab, "<s>NOTUSED", 0);
    add_piece(c, vocab, tfm__convert_special_token(c, TFM__PAD), 0);
    add_piece(c, vocab, "</s>NOTUSED", 0);
    add_piece(c, vocab, tfm__convert_special_token(c, TFM__UNK), 0);
    add_piece(c, vocab, "<unk>NOTUSED", -100);
    add_pieces(c, vocab, m, 1);
    add_piece(c, vocab, tfm__convert_special_token(c, TFM__MASK), 0);
    set_unigram(c, vocab, 3);
    set_normalizer(c, m, NULL, false);
    set_metaspace(c, true);
    set_template(c);
    return TFM_OK;
}

static tfm_status convert_mbart(tfm__conversion *c, const model *m) {
    const bool fifty = tfm__convert_is_class(c, "MBart50");
    json_t *vocab = fairseq_vocab(c, m);
    tfm__convert_add_languages(c, vocab, fifty ? tfm__language_codes_mbart50 : tfm__language_codes_mbart, "");
    add_piece(c, vocab, tfm__convert_special_token(c, TFM__MASK), 0);
    set_unigram(c, vocab, 3);
    set_normalizer(c, m, NULL, fifty);
    set_metaspace(c, !fifty);
    return TFM_OK;
}

/* ---- Byte pairs --------------------------------------------------------------------------------------- */

/* Longer pieces are not words of any language; all of their splits are looked up. */
enum { MAX_PIECE = 1024 };

/* Every split of a piece into two pieces is a merge, sorted by the piece, then by the length of the left side. */
static json_t *merges_of(tfm__conversion *c, const json_t *vocab, const model *m) {
    json_t *merges = json_array();
    for (size_t i = 0; i < json_array_size(m->pieces); i++) {
        const char *text = json_string_value(json_array_get(json_array_get(m->pieces, i), 0));
        const size_t bytes = strlen(text);
        if (bytes > MAX_PIECE || json_integer_value(json_object_get(vocab, text)) != (json_int_t)i)
            continue;
        char left[MAX_PIECE + 1];
        for (size_t cut = bytes ? tfm__char_bytes(text) : 0; cut < bytes; cut += tfm__char_bytes(text + cut)) {
            memcpy(left, text, cut);
            left[cut] = '\0';
            if (json_object_get(vocab, text + cut) && json_object_get(vocab, left))
                tfm__convert_append(c, merges, json_pack("[s, s]", left, text + cut));
        }
    }
    return merges;
}

/* Pieces by index; of duplicates the last one counts. */
static json_t *ids_of(tfm__conversion *c, const json_t *pieces) {
    json_t *vocab = json_object();
    for (size_t i = 0; i < json_array_size(pieces); i++)
        tfm__convert_set_key(c, vocab, json_string_value(json_array_get(json_array_get(pieces, i), 0)),
                             json_integer((json_int_t)i));
    return vocab;
}

static tfm_status set_bpe(tfm__conversion *c, json_t *vocab, json_t *merges, bool bytes, bool unk) {
    if (json_array_size(merges) == 0) {
        json_decref(vocab);
        json_decref(merges);
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: no piece consists of two others, so it is not a byte-pair model",
                         c->path);
    }
    json_t *pairs = json_pack("{s:s, s:o, s:o, s:b, s:b}", "type", "BPE", "vocab", vocab, "merges", merges, "fuse_unk",
                              1, "byte_fallback", (int)bytes);
    if (unk && tfm__convert_special_token(c, TFM__UNK))
        tfm__convert_set_key(c, pairs, "unk_token", json_string(tfm__convert_special_token(c, TFM__UNK)));
    tfm__convert_set_section(c, "model", pairs);
    return TFM_OK;
}

/* Decodes blanks and byte pieces; `strip` removes a leading blank. */
static void set_bytes_decoder(tfm__conversion *c, bool strip) {
    json_t *steps = tfm__convert_json("[{'type': 'Replace', 'pattern': {'String': '" BLANK "'}, 'content': ' '}, "
                                      "{'type': 'ByteFallback'}, {'type': 'Fuse'}]");
    if (strip)
        tfm__convert_append(c, steps, tfm__convert_json("{'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}"));
    tfm__convert_set_section(c, "decoder", json_pack("{s:s, s:o}", "type", "Sequence", "decoders", steps));
}

static tfm_status convert_llama(tfm__conversion *c, const model *m) {
    const bool prefix = tfm__convert_flag(c, "add_prefix_space", true), legacy = tfm__convert_flag(c, "legacy", false);
    json_t *vocab = ids_of(c, m->pieces);
    tfm__convert_set_section(c, "pre_tokenizer",
                             json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement", BLANK,
                                       "prepend_scheme",
                                       !prefix  ? "never"
                                       : legacy ? "always"
                                                : "first",
                                       "split", 0));
    set_bytes_decoder(c, prefix);
    const tfm_status status = set_bpe(c, vocab, merges_of(c, vocab, m), true, false);
    if (status == TFM_OK)
        tfm__convert_set_bos_eos(c);
    return status;
}

static tfm_status convert_gemma(tfm__conversion *c, const model *m) {
    json_t *vocab = ids_of(c, m->pieces);
    tfm__convert_set_section(
        c, "normalizer", tfm__convert_json("{'type': 'Replace', 'pattern': {'String': ' '}, 'content': '" BLANK "'}"));
    tfm__convert_set_section(c, "pre_tokenizer",
                             tfm__convert_json("{'type': 'Split', 'pattern': {'String': ' '}, 'behavior': "
                                               "'MergedWithPrevious', 'invert': false}"));
    set_bytes_decoder(c, false);
    const tfm_status status = set_bpe(c, vocab, merges_of(c, vocab, m), true, true);
    if (status == TFM_OK)
        tfm__convert_set_bos_eos(c);
    return status;
}

static tfm_status convert_nllb(tfm__conversion *c, const model *m) {
    static const int FIRST[] = {TFM__BOS, TFM__PAD, TFM__EOS, TFM__UNK};
    json_t *before = ids_of(c, m->pieces), *vocab = json_object();
    for (size_t i = 0; i < TFM__COUNT(FIRST); i++)
        tfm__convert_set_key(c, vocab, tfm__convert_special_token(c, FIRST[i]), json_integer((json_int_t)i));
    for (size_t i = 0; i < json_array_size(m->pieces); i++) {
        const char *piece = json_string_value(json_array_get(json_array_get(m->pieces, i), 0));
        if (!json_object_get(vocab, piece))
            tfm__convert_set_key(c, vocab, piece, json_integer((json_int_t)json_object_size(vocab)));
    }
    json_t *merges = merges_of(c, before, m);
    json_decref(before);
    set_normalizer(c, m, NULL, m->charsmap_bytes > 0);
    set_metaspace(c, false);
    if (!json_object_get(c->config, "added_tokens_decoder") && !json_object_get(c->config, "extra_special_tokens") &&
        !json_object_get(c->config, "additional_special_tokens") &&
        !json_object_get(c->map, "additional_special_tokens"))
        tfm__convert_add_languages(c, NULL, tfm__language_codes_nllb, "");
    if (!json_object_get(c->config, "added_tokens_decoder"))
        tfm__convert_append(c, json_object_get(c->root, "added_tokens"),
                            json_pack("{s:s, s:b, s:b, s:b}", "content", tfm__convert_special_token(c, TFM__MASK),
                                      "special", 1, "normalized", 1, "lstrip", 1));
    return set_bpe(c, vocab, merges, false, true);
}

tfm_status tfm__convert_sentencepiece(tfm__conversion *c) {
    static const struct {
        const char *name;
        tfm_status (*make)(tfm__conversion *, const model *);
    } KINDS[] = {{"T5", convert_t5},
                 {"XLMRoberta", convert_xlm_roberta},
                 {"Camembert", convert_camembert},
                 {"MBart", convert_mbart},
                 {"MBart50", convert_mbart},
                 {"Pegasus", convert_pegasus},
                 {"Llama", convert_llama},
                 {"Gemma", convert_gemma},
                 {"Nllb", convert_nllb}};
    tfm__file file = {0};
    model m = {.pieces = json_array()};
    size_t i = 0;
    for (; i < TFM__COUNT(KINDS) && !tfm__convert_is_class(c, KINDS[i].name); i++)
        ;
    tfm_status status = i < TFM__COUNT(KINDS)
                            ? tfm__file_map(&file, c->path)
                            : tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: tfm cannot convert this file for the class %s",
                                        c->path, c->kind->name);
    if (status == TFM_OK)
        status = read_model(c, &m, &file);
    if (status == TFM_OK)
        status = KINDS[i].make(c, &m);
    json_decref(m.pieces);
    tfm__file_unmap(&file);
    return status;
}
