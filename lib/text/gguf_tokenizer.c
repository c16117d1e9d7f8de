/* Builds a tokenizer from GGUF metadata: the vocabulary and the model directly, since they are large, and the other
 * sections as a tokenizer.json. */
#include <math.h>
#include <strings.h>
#include "base/file.h"
#include "text/base64.h"
#include "text/gguf_tokenizer.h"
#include "text/gguf_vocab.h"
#include "text/utf8.h"

#define BLANK "\xe2\x96\x81"

typedef struct builder {
    const tfm__gguf_vocab *v;
    tfm__hf_tokenizer *t;
    tfm__bytes text; /* of one token, with a NUL */
    float *scores;   /* by id; NaN: texts cannot have the token */
    int32_t *later;  /* ids that the first pass leaves to others */
    size_t later_count, later_room;
} builder;

/* ---- Vocabulary --------------------------------------------------------------------------------------- */

/* Which tokens a pass adds: first the pieces of texts, then pieces without a place in texts, at last the tokens found
 * in a text before all else. */
enum { PIECES, OTHERS, ADDED, PASSES };

static int pass_of(const tfm__gguf_vocab *v, int type) {
    if (type == TFM__GGUF_TOKEN_CONTROL || type == TFM__GGUF_TOKEN_UNKNOWN || type == TFM__GGUF_TOKEN_USER_DEFINED)
        return ADDED;
    const bool scored = v->model == TFM__GGUF_VOCAB_LLAMA || v->model == TFM__GGUF_VOCAB_T5;
    if (type == TFM__GGUF_TOKEN_BYTE && (scored || (v->pre && v->pre->raw)))
        return OTHERS;
    return type == TFM__GGUF_TOKEN_UNUSED && v->model == TFM__GGUF_VOCAB_T5 ? OTHERS : PIECES;
}

/* A WordPiece token as in vocab.txt: `U+2581 word` begins a word, others continue one. Names in brackets stay. */
static void add_wordpiece(tfm__bytes *out, tfm__gguf_text text) {
    const size_t blank = sizeof(BLANK) - 1;
    const bool begins = text.bytes > blank && memcmp(text.data, BLANK, blank) == 0;
    const bool name = text.bytes > 1 && text.data[0] == '[' && text.data[text.bytes - 1] == ']';
    if (!begins && !name)
        tfm__bytes_add(out, "##", 2);
    tfm__bytes_add(out, text.data + (begins ? blank : 0), text.bytes - (begins ? blank : 0));
}

/* Flags that the format has no place for, by llama.cpp's rules. */
static void set_strips(tfm__hf_added_token *token, const tfm__gguf_vocab *v) {
    static const char *const KEPT[] = {"<unk>", "<s>", "<|endoftext|>"};
    static const char *const MASKS[][3] = {
        {"tokenizer.ggml.pre", "jina-v2-de", "<mask>"},     {"tokenizer.ggml.pre", "jina-v2-es", "<mask>"},
        {"tokenizer.ggml.pre", "jina-v2-code", "<mask>"},   {"general.architecture", "nomic-bert-moe", "<mask>"},
        {"general.architecture", "jina-bert-v3", "<mask>"}, {"tokenizer.ggml.pre", "modern-bert", "[MASK]"}};
    tfm__gguf_text name = {0};
    for (size_t i = 0; i < TFM__COUNT(MASKS); i++)
        token->lstrip |=
            strcmp(token->text, MASKS[i][2]) == 0 && tfm__gguf_is(tfm__gguf_find(v->file, MASKS[i][0]), 0, MASKS[i][1]);
    tfm__gguf_string(&name, tfm__gguf_find(v->file, "general.name"), 0);
    for (size_t i = 0; i + 4 <= name.bytes; i++)
        token->rstrip |= strncasecmp(name.data + i, "phi3", 4) == 0 ||
                         (i + 5 <= name.bytes && strncasecmp(name.data + i, "phi-3", 5) == 0);
    for (size_t i = 0; i < TFM__COUNT(KEPT); i++)
        token->rstrip &= strcmp(token->text, KEPT[i]) != 0;
}

static tfm_status duplicate(const builder *b, int32_t id) {
    return tfm__fail(TFM_ERROR_FORMAT, "%s: token %d of `tokenizer.ggml.tokens`, \"%.100s\", is there twice",
                     b->v->path, (int)id, b->text.data);
}

static tfm_status add_token(builder *b, int32_t id, int type) {
    tfm__token_map *map = b->t->model.token_map;
    const int32_t before = tfm__token_map_count(map);
    const size_t bytes = b->text.count - 1;
    if (pass_of(b->v, type) != ADDED || memchr(b->text.data, '\0', bytes)) { /* no text has a NUL */
        const tfm_status status = tfm__token_map_add(map, b->text.data, bytes, id, true);
        return status == TFM_OK && tfm__token_map_count(map) == before ? duplicate(b, id) : status;
    }
    tfm__hf_added_token token = {.text = b->text.data, .id = id, .special = type != TFM__GGUF_TOKEN_USER_DEFINED};
    set_strips(&token, b->v);
    return tfm__token_map_find(map, b->text.data, bytes) >= 0
               ? duplicate(b, id)
               : tfm__hf_added_tokens_add(&b->t->added, map, &token, b->v->path);
}

static tfm_status leave(builder *b, int32_t id) {
    const tfm_status status = tfm__grow(&b->later, &b->later_room, b->later_count + 1, sizeof(*b->later));
    if (status == TFM_OK)
        b->later[b->later_count++] = id;
    return status;
}

static tfm_status add_tokens(builder *b, int pass) {
    char spare[32];
    tfm__gguf_text text;
    tfm_status status = TFM_OK;
    const size_t count = pass == PIECES ? (size_t)b->v->count : b->later_count;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        const int32_t id = pass == PIECES ? (int32_t)i : b->later[i];
        status = tfm__gguf_vocab_token(&text, b->v, id, spare);
        const int type = status == TFM_OK ? tfm__gguf_vocab_type(b->v, id, text) : 0;
        if (status == TFM_OK && pass_of(b->v, type) != pass && pass == PIECES)
            status = leave(b, id);
        if (status != TFM_OK || pass_of(b->v, type) != pass)
            continue;
        b->text.count = 0;
        if (b->v->model == TFM__GGUF_VOCAB_BERT && pass == PIECES)
            add_wordpiece(&b->text, text);
        else
            tfm__bytes_add(&b->text, text.data, text.bytes);
        tfm__bytes_add(&b->text, "", 1);
        status = b->text.failed ? TFM_ERROR_MEMORY : add_token(b, id, type);
        if (b->scores)
            b->scores[id] = pass == PIECES ? tfm__gguf_vocab_score(b->v, id) : NAN;
    }
    return status;
}

static tfm_status add_vocab(builder *b) {
    enum { USUAL_BYTES = 8 }; /* of a token */
    const size_t count = (size_t)b->v->count;
    tfm_status status = tfm__token_map_new(&b->t->model.token_map);
    if (status == TFM_OK)
        status = tfm__token_map_reserve(b->t->model.token_map, count, USUAL_BYTES * count);
    if (b->v->model == TFM__GGUF_VOCAB_LLAMA || b->v->model == TFM__GGUF_VOCAB_T5) {
        b->scores = tfm__alloc((size_t)b->v->count, sizeof(*b->scores));
        status = b->scores ? status : TFM_ERROR_MEMORY;
    }
    for (int pass = 0; pass < PASSES && status == TFM_OK; pass++) {
        status = add_tokens(b, pass);
        if (pass == PIECES)
            tfm__token_map_seal(b->t->model.token_map);
    }
    return status;
}

/* ---- Models ------------------------------------------------------------------------------------------- */

/* "left right"; the first blank after the first character separates them. */
static tfm_status add_merges(builder *b, tfm__json_location location) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < b->v->merges->count && status == TFM_OK; i++) {
        tfm__gguf_text line = {0};
        tfm__gguf_string(&line, b->v->merges, i);
        const char *blank = line.bytes > 1 ? memchr(line.data + 1, ' ', line.bytes - 1) : NULL;
        if (!blank || tfm__utf8_valid(line.data, line.bytes) != line.bytes)
            return tfm__fail(TFM_ERROR_FORMAT,
                             "%s: merge %zu of `tokenizer.ggml.merges` is not two pieces with a blank "
                             "between them",
                             location.path, i);
        const char *sides[2] = {line.data, blank + 1};
        const size_t bytes[2] = {(size_t)(blank - line.data), line.bytes - (size_t)(blank + 1 - line.data)};
        status = tfm__bpe_add_merge(&b->t->model, sides, bytes, location);
    }
    return status;
}

static tfm_status add_bpe(builder *b) {
    const tfm__json_location location = {b->v->path, "tokenizer.ggml.merges"};
    const tfm__gguf_pre *pre = b->v->pre;
    json_t *options = json_pack("{s:b, s:b, s:b}", "ignore_merges", (int)pre->ignore_merges, "byte_fallback",
                                (int)pre->raw, "fuse_unk", (int)pre->raw);
    tfm_status status = options ? tfm__bpe_new(&b->t->model, options, b->v->merges->count, location) : TFM_ERROR_MEMORY;
    json_decref(options);
    if (status == TFM_OK && pre->raw)
        b->t->model.unk = b->v->ids[TFM__UNK];
    return status == TFM_OK ? add_merges(b, location) : status;
}

static tfm_status add_wordpieces(builder *b) {
    json_t *options = json_object();
    tfm_status status = options ? tfm__wordpiece_read(&b->t->model, options, (tfm__json_location){b->v->path, "model"})
                                : TFM_ERROR_MEMORY;
    b->t->model.unk = b->v->ids[TFM__UNK];
    json_decref(options);
    return status;
}

static tfm_status add_model(builder *b) {
    float *scores = b->scores;
    switch (b->v->model) {
    case TFM__GGUF_VOCAB_GPT2:
        return add_bpe(b);
    case TFM__GGUF_VOCAB_BERT:
        return add_wordpieces(b);
    case TFM__GGUF_VOCAB_T5:
        return tfm__unigram_new(&b->t->model, scores, b->v->ids[TFM__UNK]);
    case TFM__GGUF_VOCAB_LLAMA:
        b->scores = NULL;
        return tfm__scored_bpe_new(&b->t->model, scores, b->v->ids[TFM__UNK]);
    }
    return TFM_OK;
}

/* ---- Sections ----------------------------------------------------------------------------------------- */

static json_t *replace(const char *kind, const char *from, const char *to) {
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", kind, from, "content", to);
}

/* SentencePiece's: the table, runs of blanks, a blank in front, and a sign for blanks. */
static json_t *sentencepiece_normalizer(const tfm__gguf_vocab *v) {
    json_t *steps = json_array();
    bool good = steps != NULL;
    if (v->model == TFM__GGUF_VOCAB_T5 && v->charsmap && v->charsmap->count) {
        char *rules = tfm__base64_encode(v->charsmap->data, v->charsmap->count);
        good &= json_array_append_new(steps, rules ? json_pack("{s:s, s:s, s:b}", "type", "Precompiled",
                                                               "precompiled_charsmap", rules, "longest_match", 1)
                                                   : NULL) == 0;
        free(rules);
    }
    if (v->model == TFM__GGUF_VOCAB_T5 && v->remove_extra_whitespaces) {
        good &= json_array_append_new(steps, replace("Regex", "\\A +| +\\z", "")) == 0;
        good &= json_array_append_new(steps, replace("Regex", " {2,}", " ")) == 0;
    }
    if (v->add_space_prefix && v->model != TFM__GGUF_VOCAB_GPT2)
        good &= json_array_append_new(steps, json_pack("{s:s, s:s}", "type", "Prepend", "prepend", BLANK)) == 0;
    good &= json_array_append_new(steps, replace("String", " ", BLANK)) == 0;
    if (good)
        return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", steps);
    json_decref(steps);
    return NULL;
}

static json_t *sentencepiece_decoder(const tfm__gguf_vocab *v) {
    json_t *steps =
        json_pack("[o, {s:s}, {s:s}]", replace("String", BLANK, " "), "type", "ByteFallback", "type", "Fuse");
    if (steps && v->add_space_prefix && v->model != TFM__GGUF_VOCAB_GPT2 &&
        json_array_append_new(
            steps, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ", "start", 1, "stop", 0)) != 0) {
        json_decref(steps);
        return NULL;
    }
    return steps ? json_pack("{s:s, s:o}", "type", "Sequence", "decoders", steps) : NULL;
}

json_t *tfm__gguf_tokenizer_sections(const tfm__gguf_vocab *v) {
    if (v->model == TFM__GGUF_VOCAB_BERT)
        return json_pack("{s:{s:s, s:b, s:b, s:b, s:b}, s:{s:s}, s:{s:s, s:s, s:b}}", "normalizer", "type",
                         "BertNormalizer", "clean_text", 1, "handle_chinese_chars", 1, "lowercase", (int)v->lowercase,
                         "strip_accents", (int)v->strip_accents, "pre_tokenizer", "type", "BertPreTokenizer", "decoder",
                         "type", "WordPiece", "prefix", "##", "cleanup", 1);
    if (v->model == TFM__GGUF_VOCAB_GPT2 && !v->pre->raw)
        return json_pack("{s:o, s:{s:s, s:b, s:b, s:b}}", "pre_tokenizer", tfm__gguf_pre_section(v->pre), "decoder",
                         "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 1);
    json_t *root =
        json_pack("{s:o, s:o}", "normalizer", sentencepiece_normalizer(v), "decoder", sentencepiece_decoder(v));
    if (root && v->model == TFM__GGUF_VOCAB_GPT2 &&
        json_object_set_new(root, "pre_tokenizer", tfm__gguf_pre_section(v->pre)) != 0) {
        json_decref(root);
        return NULL;
    }
    return root;
}

/* ---- Templates and ids -------------------------------------------------------------------------------- */

/* BOS A EOS, and for two texts BOS A EOS SEP B EOS, each as the flags say. BERT's CLS and SEP are always there. */
static tfm_status set_template(tfm__hf_tokenizer *t, const tfm__gguf_vocab *v) {
    const bool bert = v->model == TFM__GGUF_VOCAB_BERT;
    const int32_t begin = bert ? v->ids[TFM__CLS] : v->add_bos ? v->ids[TFM__BOS] : -1;
    const int32_t end = bert ? v->ids[TFM__SEP] : v->add_eos ? v->ids[TFM__EOS] : -1;
    const int32_t between = !bert && v->add_sep ? v->ids[TFM__SEP] : -1;
    tfm_status status = TFM_OK;
    for (int both = 0; both < 2; both++) {
        tfm__id_buffer *list = both ? &t->template.pair : &t->template.single;
        const int32_t single[] = {begin, TFM__TEMPLATE_A, end};
        const int32_t pair[] = {begin, TFM__TEMPLATE_A, end, between, TFM__TEMPLATE_B, end};
        const bool text[] = {false, true, false, false, true, false};
        list->count = 0;
        for (int i = 0; i < (both ? 6 : 3) && status == TFM_OK; i++)
            if (text[i] || (both ? pair : single)[i] >= 0)
                status = tfm__id_buffer_add(list, (both ? pair : single)[i]);
    }
    return status;
}

static void fill_info(tfm_tokenizer_info *info, const tfm__gguf_vocab *v) {
    const int32_t *ids = v->ids;
    *info = (tfm_tokenizer_info){
        .source_size = v->count,
        .target_size = v->count,
        .source_eos = ids[TFM__EOS],
        .target_eos = ids[TFM__EOS],
        .source_unk = ids[TFM__UNK],
        .target_unk = ids[TFM__UNK],
        .source_pad = ids[TFM__PAD],
        .target_pad = ids[TFM__PAD],
        .bos = ids[TFM__BOS],
        .cls = ids[TFM__CLS],
        .sep = ids[TFM__SEP],
        .mask = ids[TFM__MASK],
    };
}

/* ---- Opening ------------------------------------------------------------------------------------------ */

static tfm_status build(tfm__hf_tokenizer *t, const tfm__gguf_vocab *v) {
    builder b = {.v = v, .t = t};
    json_t *root = NULL;
    t->model.unk = -1;
    tfm_status status = add_vocab(&b);
    if (status == TFM_OK)
        status = add_model(&b);
    free(b.scores);
    free(b.later);
    tfm__bytes_free(&b.text);
    if (status == TFM_OK && !(root = tfm__gguf_tokenizer_sections(v)))
        status = tfm__fail(TFM_ERROR_MEMORY, "out of host memory for a tokenizer");
    if (status == TFM_OK)
        status = tfm__hf_read(t, root, v->path);
    json_decref(root);
    if (status == TFM_OK)
        status = set_template(t, v);
    return status == TFM_OK ? tfm__hf_finish(t) : status;
}

/* The tokenizer.json, or older files, next to a file without a tokenizer; *there says whether there is one. */
static tfm_status open_next_to(tfm__tokenizer_parts *out, bool *there, const char *path) {
    const char *slash = strrchr(path, '/');
    char *dir = slash ? tfm__format("%.*s", (int)(slash - path + 1), path) : tfm__strdup(".");
    if (!dir)
        return TFM_ERROR_MEMORY;
    *there = tfm__hf_tokenizer_exists(dir);
    const tfm_status status = *there ? tfm__hf_tokenizer_open(out, dir) : TFM_OK;
    free(dir);
    return status;
}

tfm_status tfm__gguf_tokenizer_open_file(tfm__tokenizer_parts *out, const tfm__gguf *file) {
    tfm__gguf_vocab v;
    tfm__hf_tokenizer *t = tfm__alloc(1, sizeof(*t));
    tfm_status status = t ? tfm__gguf_vocab_read(&v, file) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = build(t, &v);
    if (status == TFM_OK)
        fill_info(&out->info, &v);
    return tfm__hf_hand_over(out, t, status);
}

tfm_status tfm__gguf_tokenizer_open(tfm__tokenizer_parts *out, const char *path) {
    tfm__gguf *file = NULL;
    bool there = false;
    tfm_status status = tfm__gguf_open(&file, path);
    if (status == TFM_OK && !tfm__gguf_vocab_exists(file))
        status = open_next_to(out, &there, path);
    if (status == TFM_OK && !there)
        status = tfm__gguf_tokenizer_open_file(out, file);
    tfm__gguf_close(&file);
    return status;
}
