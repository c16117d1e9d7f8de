/* Tokenizers of GGUF metadata as tokenizer.json and tokenizer_config.json. */
#include "base/hub/hub.h"
#include "base/json.h"
#include "text/gguf_tokenizer.h"
#include "text/gguf_vocab.h"

typedef struct conversion {
    const tfm__gguf_vocab *v;
    const tfm__hf_tokenizer *t; /* built from `v` */
} conversion;

/* ---- Vocabulary --------------------------------------------------------------------------------------- */

/* The text of a token; no token of a JSON file has a NUL. */
static json_t *text_json(const conversion *c, int32_t id) {
    size_t bytes = 0;
    char name[32];
    const char *text = tfm__token_map_piece(c->t->model.token_map, id, &bytes);
    if (!text || memchr(text, '\0', bytes)) {
        bytes = (size_t)snprintf(name, sizeof(name), "[NUL_%d]", (int)id);
        text = name;
    }
    return json_stringn(text, bytes);
}

/* null for an id that does not exist. */
static json_t *optional_json(const conversion *c, int32_t id) {
    return id >= 0 ? text_json(c, id) : json_null();
}

static json_t *vocab_json(const conversion *c) {
    json_t *vocab = json_object();
    bool good = vocab != NULL;
    for (int32_t id = 0; good && id < c->v->count; id++) {
        json_t *text = text_json(c, id);
        good = text && json_object_set_new(vocab, json_string_value(text), json_integer(id)) == 0;
        json_decref(text);
    }
    if (good)
        return vocab;
    json_decref(vocab);
    return NULL;
}

static json_t *added_json(const conversion *c) {
    json_t *list = json_array();
    bool good = list != NULL;
    for (size_t i = 0; good && i < c->t->added.count; i++) {
        const tfm__hf_added_token *a = &c->t->added.items[i];
        good = json_array_append_new(list, json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (int)a->id, "content",
                                                     a->text, "single_word", (int)a->single_word, "lstrip",
                                                     (int)a->lstrip, "rstrip", (int)a->rstrip, "normalized",
                                                     (int)a->normalized, "special", (int)a->special)) == 0;
    }
    if (good)
        return list;
    json_decref(list);
    return NULL;
}

/* ---- Merges ------------------------------------------------------------------------------------------- */

/* "left right"; a blank after the first character separates them. */
static json_t *listed_merges(const conversion *c) {
    json_t *merges = json_array();
    bool good = merges != NULL;
    for (size_t i = 0; good && i < c->v->merges->count; i++) {
        tfm__gguf_text line = {0};
        tfm__gguf_string(&line, c->v->merges, i);
        const char *blank = memchr(line.data + 1, ' ', line.bytes - 1); /* checked when `t` was built */
        const size_t left = (size_t)(blank - line.data);
        good = json_array_append_new(merges,
                                     json_pack("[s%, s%]", line.data, left, blank + 1, line.bytes - left - 1)) == 0;
    }
    if (good)
        return merges;
    json_decref(merges);
    return NULL;
}

typedef struct scored {
    float score;
    int32_t id;
} scored;

static int best_first(const void *a, const void *b) {
    const scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Longer pieces are not words of any language; all of their splits are looked up. */
enum { MAX_PIECE = 1024 };

static bool add_splits(json_t *merges, const tfm__token_map *map, int32_t id) {
    size_t bytes = 0;
    const char *text = tfm__token_map_piece(map, id, &bytes);
    bool good = true;
    if (bytes > MAX_PIECE || tfm__token_map_find_base(map, text, bytes) != id)
        return true;
    for (size_t cut = bytes ? tfm__char_bytes(text) : 0; good && cut < bytes; cut += tfm__char_bytes(text + cut))
        if (tfm__token_map_find_base(map, text, cut) >= 0 &&
            tfm__token_map_find_base(map, text + cut, bytes - cut) >= 0)
            good = json_array_append_new(merges, json_pack("[s%, s%]", text, cut, text + cut, bytes - cut)) == 0;
    return good;
}

/* SentencePiece merges any two neighbors that form a piece, by its score. As merges with ranks, of pieces with equal
 * scores the first one comes first, not the leftmost of the text. */
static json_t *scored_merges(const conversion *c) {
    json_t *merges = json_array();
    scored *order = tfm__alloc((size_t)c->v->count, sizeof(*order));
    bool good = merges && order;
    for (int32_t id = 0; good && id < c->v->count; id++)
        order[id] = (scored){tfm__gguf_vocab_score(c->v, id), id};
    if (good)
        qsort(order, (size_t)c->v->count, sizeof(*order), best_first);
    for (int32_t i = 0; good && i < c->v->count; i++)
        good = add_splits(merges, c->t->model.token_map, order[i].id);
    free(order);
    if (good)
        return merges;
    json_decref(merges);
    return NULL;
}

/* ---- Models ------------------------------------------------------------------------------------------- */

static json_t *bpe_json(const conversion *c) {
    const bool llama = c->v->model == TFM__GGUF_VOCAB_LLAMA, raw = llama || c->v->pre->raw;
    int32_t bytes[256];
    bool fallback = raw;
    tfm__find_byte_pieces(bytes, c->t->model.token_map);
    for (int i = 0; i < 256 && llama; i++)
        fallback &= bytes[i] >= 0;
    return json_pack("{s:s, s:n, s:o, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                     optional_json(c, raw ? c->v->ids[TFM__UNK] : -1), "continuing_subword_prefix",
                     "end_of_word_suffix", "fuse_unk", (int)raw, "byte_fallback", (int)fallback, "ignore_merges",
                     (int)(!llama && c->v->pre->ignore_merges), "vocab", vocab_json(c), "merges",
                     llama ? scored_merges(c) : listed_merges(c));
}

static json_t *wordpiece_json(const conversion *c) {
    return json_pack("{s:s, s:o, s:s, s:i, s:o}", "type", "WordPiece", "unk_token",
                     optional_json(c, c->v->ids[TFM__UNK]), "continuing_subword_prefix", "##",
                     "max_input_chars_per_word", 100, "vocab", vocab_json(c));
}

/* Tokens that texts cannot have get the worst score, and unused ones a blank, which the normalizer replaces. */
static json_t *unigram_piece(const conversion *c, int32_t id, bool usable, float score) {
    size_t bytes = 0;
    const char *text = tfm__token_map_piece(c->t->model.token_map, id, &bytes);
    const bool unused =
        !usable && !tfm__hf_added_token_by_id(&c->t->added, id) && tfm__parse_byte_piece(text, bytes) < 0;
    return unused ? json_pack("[s+%, f]", " ", text, bytes, (double)score)
                  : json_pack("[o, f]", text_json(c, id), (double)score);
}

static json_t *unigram_json(const conversion *c) {
    json_t *vocab = json_array();
    bool good = vocab != NULL;
    float worst = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t id = 0; good && id < c->v->count; id++) {
            size_t bytes = 0;
            const char *piece = tfm__token_map_piece(c->t->model.token_map, id, &bytes);
            const bool usable = tfm__token_map_find_base(c->t->model.token_map, piece, bytes) == id;
            const float score = tfm__gguf_vocab_score(c->v, id);
            worst = pass == 0 && usable && score < worst ? score : worst;
            if (pass == 1)
                good = json_array_append_new(vocab, unigram_piece(c, id, usable, usable ? score : worst)) == 0;
        }
    if (!good) {
        json_decref(vocab);
        return NULL;
    }
    return json_pack("{s:s, s:o, s:b, s:o}", "type", "Unigram", "unk_id",
                     c->v->ids[TFM__UNK] >= 0 ? json_integer(c->v->ids[TFM__UNK]) : json_null(), "byte_fallback", 0,
                     "vocab", vocab);
}

/* ---- Templates ---------------------------------------------------------------------------------------- */

static json_t *template_items(const conversion *c, const tfm__id_buffer *list, json_t *specials) {
    json_t *items = json_array();
    bool good = items && specials;
    int second = 0; /* type id */
    for (size_t i = 0; good && i < list->count; i++) {
        const int32_t id = list->ids[i];
        second |= id == TFM__TEMPLATE_B;
        json_t *name = id >= 0 ? text_json(c, id) : json_string(id == TFM__TEMPLATE_A ? "A" : "B");
        good = name && json_array_append_new(items, json_pack("{s:{s:O, s:i}}", id >= 0 ? "SpecialToken" : "Sequence",
                                                              "id", name, "type_id", second)) == 0;
        if (good && id >= 0)
            good =
                json_object_set_new(specials, json_string_value(name),
                                    json_pack("{s:O, s:[i], s:[O]}", "id", name, "ids", (int)id, "tokens", name)) == 0;
        json_decref(name);
    }
    if (good)
        return items;
    json_decref(items);
    return NULL;
}

static json_t *template_json(const conversion *c) {
    json_t *specials = json_object();
    json_t *single = template_items(c, &c->t->template.single, specials);
    json_t *pair = template_items(c, &c->t->template.pair, specials);
    return json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair", pair,
                     "special_tokens", specials);
}

/* ---- Files -------------------------------------------------------------------------------------------- */

static json_t *tokenizer_json(const conversion *c) {
    static const char *const EMPTY[] = {"normalizer", "pre_tokenizer", "truncation", "padding"};
    json_t *root = tfm__gguf_tokenizer_sections(c->v);
    bool good = root && json_object_set_new(root, "version", json_string("1.0")) == 0;
    for (size_t i = 0; good && i < TFM__COUNT(EMPTY); i++)
        if (!json_object_get(root, EMPTY[i]))
            good = json_object_set_new(root, EMPTY[i], json_null()) == 0;
    good = good && json_object_set_new(root, "added_tokens", added_json(c)) == 0 &&
           json_object_set_new(root, "post_processor", template_json(c)) == 0 &&
           json_object_set_new(root, "model",
                               c->v->model == TFM__GGUF_VOCAB_T5     ? unigram_json(c)
                               : c->v->model == TFM__GGUF_VOCAB_BERT ? wordpiece_json(c)
                                                                     : bpe_json(c)) == 0;
    if (good)
        return root;
    json_decref(root);
    return NULL;
}

/* tokenizer.json is written last: if it exists, both files do. */
static tfm_status write_files(const char *dir, const tfm__gguf *file) {
    static const char CALL[] = "tokenizer_convert";
    tfm__gguf_vocab v;
    tfm__tokenizer_parts parts = {0};
    json_t *config = NULL;
    tfm_status status = tfm__gguf_vocab_read(&v, file);
    if (status == TFM_OK)
        status = tfm__gguf_tokenizer_open_file(&parts, file);
    if (status == TFM_OK)
        status = tfm__gguf_tokenizer_config(&config, file);
    if (status == TFM_OK &&
        (json_object_set_new(config, "tokenizer_class", json_string("PreTrainedTokenizerFast")) != 0 ||
         json_object_set_new(config, "clean_up_tokenization_spaces", json_false()) != 0))
        status = tfm__fail(TFM_ERROR_MEMORY, "%s: out of host memory for a tokenizer", CALL);
    if (status == TFM_OK)
        status = tfm__json_write(dir, "tokenizer_config.json", json_incref(config), CALL);
    if (status == TFM_OK)
        status = tfm__json_write(dir, "tokenizer.json", tokenizer_json(&(conversion){&v, parts.self}), CALL);
    json_decref(config);
    if (parts.self)
        parts.kind->close(parts.self);
    return status;
}

tfm_status tfm_tokenizer_convert(const char *dir, const char *model) {
    char *local = NULL, *path = NULL;
    tfm__gguf *file = NULL;
    if (TFM__NEEDS("tokenizer_convert", dir, model) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm_status status = tfm__hub_resolve(&local, model);
    if (status == TFM_OK)
        status = tfm__gguf_locate(&path, local);
    if (status == TFM_OK && !path)
        status = tfm__fail(TFM_ERROR_UNSUPPORTED,
                           "tokenizer_convert: %s is not a GGUF file: copy the tokenizer files of a directory", model);
    if (status == TFM_OK)
        status = tfm__gguf_open(&file, path);
    if (status == TFM_OK && !tfm__gguf_vocab_exists(file))
        status = tfm__fail(TFM_ERROR_UNSUPPORTED,
                           "tokenizer_convert: %s has no tokenizer: use a file with one, or the directory of the model",
                           path);
    if (status == TFM_OK)
        status = write_files(dir, file);
    tfm__gguf_close(&file);
    free(local);
    free(path);
    return status;
}
