/* Trains the vocabulary of a corpus, and writes its files. */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "text/spm.h"
#include "text/tokenizer.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/vocab_corpus.h"
#include "text/vocab_train.h"

#define MAX_SIZE ((1 << 24) - 1)
/* Default vocabulary size: one piece per BYTES_PER_PIECE of text, so that a small corpus has some dozens of occurrences
 * per piece, within limits. */
enum { DEFAULT_SIZE = 8000, MIN_SIZE = 500, BYTES_PER_PIECE = 250 };

/* ---- Input of SentencePiece ---- */

/* A uniform sample in file order: selection sampling, Algorithm S of "The Art of Computer Programming" 3.4.2, without
 * buffering. */
typedef struct sampler {
    tfm__vocab_corpus_iter w;
    uint64_t left; /* remaining texts */
    uint64_t want; /* texts still to select */
    tfm__random random;
    bool has_alnum; /* one had a letter */
} sampler;

static tfm_status sampler_next(void *user, const char **text, size_t *bytes) {
    sampler *d = user;
    tfm__string_view s;
    bool more = d->want > 0 && d->left > 0;
    *text = NULL;
    while (more) {
        tfm_status status = tfm__vocab_corpus_next(&d->w, &s, &more);
        if (status != TFM_OK)
            return status;
        if (more && tfm__random_below(&d->random, d->left--) < d->want) {
            d->want--;
            d->has_alnum = d->has_alnum || tfm__unicode_has_alnum(s.text, s.bytes);
            *text = s.text;
            *bytes = s.bytes;
            return TFM_OK;
        }
        more = more && d->left > 0;
    }
    /* SentencePiece would abort if the normalized text is empty. */
    return d->has_alnum
               ? TFM_OK
               : tfm__fail(TFM_ERROR_INPUT, "%s: no line has a letter or a digit, so there is nothing to train on",
                           d->w.from->name);
}

/* Languages are few; more are ordinary text of that form. */
enum { MAX_CODES = 1000 };

/* Adds a code that is one word to the codes with ids. */
static tfm_status keep_code(json_t *codes, bool *full, tfm__string_view code) {
    char name[256] = "";
    bool word = code.bytes > 0 && code.bytes < sizeof(name) && tfm__utf8_valid(code.text, code.bytes) == code.bytes;
    for (size_t i = 0; i < code.bytes && word; i++)
        word = (unsigned char)code.text[i] > ' ';
    memcpy(name, code.text, word ? code.bytes : 0);
    if (!word || json_object_get(codes, name))
        return TFM_OK;
    if (json_object_size(codes) == MAX_CODES) {
        if (!*full)
            tfm__log(TFM_LOG_WARNING, "lines begin with more than %d words like %s: later ones are unknown tokens",
                     MAX_CODES, name);
        *full = true;
        return TFM_OK;
    }
    return json_object_set_new(codes, name, json_null()) == 0
               ? TFM_OK
               : tfm__fail(TFM_ERROR_MEMORY, "tokenizer_train: out of host memory");
}

static tfm_status count_texts(const tfm__vocab_corpus *c, json_t *codes, uint64_t *count, uint64_t *bytes) {
    tfm__vocab_corpus_iter w;
    tfm__string_view s;
    bool more = true, full = false;
    *count = *bytes = 0;
    tfm_status status = tfm__vocab_corpus_begin(&w, c);
    while (status == TFM_OK && more) {
        status = tfm__vocab_corpus_next(&w, &s, &more);
        *count += status == TFM_OK && more;
        *bytes += status == TFM_OK && more ? s.bytes : 0;
        if (status == TFM_OK && more)
            status = keep_code(codes, &full, w.code);
    }
    tfm__vocab_corpus_end(&w);
    if (status == TFM_OK && *count == 0)
        return tfm__fail(TFM_ERROR_INPUT,
                         "%s: there is no usable line: each is empty, longer than %d bytes, or not UTF-8 text%s",
                         c->name, TFM__SPM_MAX_SENTENCE,
                         c->tsv                    ? " with a tab"
                         : c->documents.json_lines ? " of a JSON object's \"text\""
                                                   : "");
    return status;
}

/* A SentencePiece file's bytes, and the language codes in text order. */
typedef struct trained_spm {
    char *bytes;
    size_t size;
    json_t *codes;
} trained_spm;

static int32_t default_size(uint64_t bytes) {
    const uint64_t size = bytes / BYTES_PER_PIECE;
    return size < MIN_SIZE ? MIN_SIZE : size > DEFAULT_SIZE ? DEFAULT_SIZE : (int32_t)size;
}

static tfm_status train_spm(trained_spm *out, const tfm__vocab_corpus *c, const tfm__spm_train_options *options,
                            sampler d) {
    tfm_status status = tfm__vocab_corpus_begin(&d.w, c);
    if (status == TFM_OK)
        status = tfm__spm_train(&out->bytes, &out->size, options, sampler_next, &d, c->name);
    tfm__vocab_corpus_end(&d.w);
    return status;
}

static tfm_status train_vocab(trained_spm *out, const tfm__vocab_corpus *c, const tfm_vocabulary_options *o,
                              uint64_t stream) {
    int32_t characters = 0;
    sampler d = {.random = tfm__random_new(o->seed, stream)};
    uint64_t bytes = 0;
    out->codes = json_object();
    tfm_status status = out->codes ? count_texts(c, out->codes, &d.left, &bytes)
                                   : tfm__fail(TFM_ERROR_MEMORY, "tokenizer_train: out of host memory");
    if (status != TFM_OK)
        return status;
    tfm__spm_train_options options = {
        .size = o->vocab_size ? (int32_t)o->vocab_size : default_size(bytes),
        .soft_limit = o->vocab_size == 0,
        .unigram = o->unigram,
        .has_bos = !c->codes,
        .large = bytes >> 30 != 0, /* a character may become several */
        .coverage = o->character_coverage,
        .normalization = o->normalization,
        .characters = &characters,
    };
    d.want = (uint64_t)o->max_sentences < d.left ? (uint64_t)o->max_sentences : d.left;
    status = train_spm(out, c, &options, d);
    if (status != TFM_ERROR_INPUT || o->vocab_size != 0 || characters == 0)
        return status;
    /* The size was a default: a text with thousands of characters, such as Chinese, gets them and as many pieces more.
     */
    options.size += characters;
    return train_spm(out, c, &options, d);
}

/* ---- Files ---- */

static tfm_status write_model(const char *dir, const char *name, const trained_spm *model) {
    char *path = tfm__path_join(dir, name);
    tfm_status status = path ? tfm__file_write(path, model->bytes, model->size) : TFM_ERROR_MEMORY;
    free(path);
    return status;
}

/* Writes the ids of the pieces and then of the codes. Padding comes last, as in Marian's models. Two vocabularies may
 * differ in size, so there it has one id in both, the one after </s> and <unk>. */
static tfm_status write_vocab(const char *dir, const char *name, const trained_spm *model, bool separate) {
    tfm__spm *spm;
    tfm_status status = tfm__spm_open(&spm, model->bytes, model->size, name);
    if (status != TFM_OK)
        return status;
    json_t *ids = json_object(), *none;
    const char *code;
    const size_t count = tfm__spm_size(spm), pad = separate ? 2 : count + json_object_size(model->codes);
    int wrong = 0;
    size_t i = 0;
    for (; i < count; i++)
        wrong |= json_object_set_new(ids, tfm__spm_piece(spm, i), json_integer((json_int_t)(i + (i >= pad))));
    json_object_foreach(model->codes, code, none) {
        wrong |= json_object_set_new(ids, code, json_integer((json_int_t)(i + (i >= pad))));
        i++;
    }
    wrong |= json_object_set_new(ids, "<pad>", json_integer((json_int_t)pad));
    if (wrong) {
        json_decref(ids);
        ids = NULL;
    }
    tfm__spm_free(&spm);
    return tfm__json_write(dir, name, ids, "tokenizer_train");
}

static json_t *config_json(const tfm_vocabulary_options *o) {
    json_t *root = json_pack("{s:s, s:s, s:s, s:b, s:s}", "eos_token", "</s>", "unk_token", "<unk>", "pad_token",
                             "<pad>", "separate_vocabs", (int)o->separate_vocabs, "tokenizer_class", "MarianTokenizer");
    int wrong = 0;
    if (root && o->source_language)
        wrong |= json_object_set_new(root, "source_lang", json_string(o->source_language));
    if (root && o->target_language)
        wrong |= json_object_set_new(root, "target_lang", json_string(o->target_language));
    if (wrong) {
        json_decref(root);
        root = NULL;
    }
    return root;
}

static tfm_status write_all(const char *dir, const trained_spm models[2], const tfm_vocabulary_options *o) {
    const trained_spm *target = &models[o->separate_vocabs ? 1 : 0];
    tfm_status status = write_model(dir, "source.spm", &models[0]);
    if (status == TFM_OK)
        status = write_model(dir, "target.spm", target);
    if (status == TFM_OK && o->separate_vocabs)
        status = write_vocab(dir, "target_vocab.json", target, true);
    if (status == TFM_OK)
        status = tfm__json_write(dir, "tokenizer_config.json", config_json(o), "tokenizer_train");
    return status == TFM_OK ? write_vocab(dir, "vocab.json", &models[0], o->separate_vocabs) : status;
}

/* ---- Public functions ---- */

/* The options with defaults, or the error. */
tfm_status tfm__vocab_train_check_options(tfm_vocabulary_options *o, const char *dir) {
    static const char *const RULES[] = {"nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"};
    o->character_coverage = o->character_coverage != 0 ? o->character_coverage : 1;
    o->max_sentences = o->max_sentences ? o->max_sentences : 1000000;
    o->normalization = o->normalization ? o->normalization : RULES[0];
    size_t rule = 0;
    while (rule < TFM__COUNT(RULES) && strcmp(o->normalization, RULES[rule]) != 0)
        rule++;
    if (rule == TFM__COUNT(RULES))
        return tfm__fail(
            TFM_ERROR_ARGUMENT,
            "tokenizer_train: normalization \"%s\" is not one of nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf, identity",
            o->normalization);
    if (o->vocab_size != 0 && (o->vocab_size < 3 || o->vocab_size > MAX_SIZE))
        return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_train: vocab_size %lld; 3 to %d pieces are allowed",
                         (long long)o->vocab_size, MAX_SIZE);
    if (!(o->character_coverage >= 0.98 && o->character_coverage <= 1))
        return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_train: character_coverage %g; 0.98 to 1 is allowed",
                         o->character_coverage);
    if (o->max_sentences < 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_train: max_sentences %lld; it must not be negative",
                         (long long)o->max_sentences);
    for (int i = 0; i < 2; i++) {
        const char *language = i ? o->target_language : o->source_language;
        if (language && tfm_text_check(language, strlen(language)) != TFM_OK)
            return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_train: a language's name is not UTF-8");
    }
    /* Checked before training, not after it. */
    char *inside = tfm__path_join(dir, ".");
    tfm_status status = inside ? TFM_OK : TFM_ERROR_MEMORY;
    if (inside && access(inside, W_OK | X_OK) != 0)
        status = tfm__fail(TFM_ERROR_IO, "cannot write into the folder %s: %s", dir, strerror(errno));
    free(inside);
    return status;
}

/* File names, for error messages. */
static char *name_of(const char *const *files, size_t count) {
    if (count > 2)
        return tfm__format("%s and %zu more", files[0], count - 1);
    return count == 2 ? tfm__format("%s and %s", files[0], files[1]) : tfm__strdup(files[0]);
}

/* The text of a side, or for a shared vocabulary all: `count` source files, then as many target files, or TSV files. */
static tfm_status select_corpus(tfm__vocab_corpus *out, const char *const *files, size_t count, bool tsv, bool separate,
                                int side) {
    *out = (tfm__vocab_corpus){.files = files + (separate && !tsv && side ? count : 0),
                               .count = separate || tsv ? count : 2 * count,
                               .tsv = tsv,
                               .columns = {!separate || side == 0, !separate || side == 1},
                               .codes = true};
    out->name = name_of(out->files, out->count);
    if (out->name && separate && tsv) {
        char *all = out->name;
        out->name = tfm__format("%s, column %d", all, side + 1);
        free(all);
    }
    return out->name ? TFM_OK : TFM_ERROR_MEMORY;
}

tfm_status tfm__vocab_train_pieces(char **out, size_t *bytes, const char *const *files, size_t count,
                                   const tfm_vocabulary_options *options) {
    trained_spm model = {0};
    tfm__vocab_corpus c = {.files = files, .count = count, .documents = options->documents};
    c.name = name_of(files, count);
    tfm_status status = c.name ? train_vocab(&model, &c, options, 0) : TFM_ERROR_MEMORY;
    json_decref(model.codes);
    free(c.name);
    *out = model.bytes;
    *bytes = model.size;
    return status;
}

/* Trains on `count` source files, then as many target files, or TSV files, with checked options. */
static tfm_status train(const char *dir, const char *const *files, size_t count, bool tsv,
                        const tfm_vocabulary_options *options) {
    tfm_vocabulary_options o = options ? *options : (tfm_vocabulary_options){0};
    trained_spm models[2] = {{0}};
    tfm_status status = tfm__vocab_train_check_options(&o, dir);
    for (int i = 0; i < (o.separate_vocabs ? 2 : 1) && status == TFM_OK; i++) {
        tfm__vocab_corpus c;
        status = select_corpus(&c, files, count, tsv, o.separate_vocabs, i);
        if (status == TFM_OK)
            status = train_vocab(&models[i], &c, &o, (uint64_t)i);
        free(c.name);
    }
    if (status == TFM_OK)
        status = write_all(dir, models, &o);
    for (int i = 0; i < 2; i++) {
        free(models[i].bytes);
        json_decref(models[i].codes);
    }
    return status;
}

tfm_status tfm_tokenizer_train(const char *dir, const char *source, const char *target,
                               const tfm_vocabulary_options *options) {
    if (!dir || !source)
        return tfm__fail(TFM_ERROR_ARGUMENT, "tfm_tokenizer_train: %s is NULL", dir ? "source" : "dir");
    return tfm_tokenizer_train_pairs(dir, &source, target ? &target : NULL, 1, options);
}

tfm_status tfm_tokenizer_train_pairs(const char *dir, const char *const *sources, const char *const *targets,
                                     size_t count, const tfm_vocabulary_options *options) {
    if (TFM__NEEDS("tokenizer_train_pairs", dir, sources) != TFM_OK ||
        tfm__needs_texts("tokenizer_train_pairs", "sources", sources, count) != TFM_OK ||
        (targets && tfm__needs_texts("tokenizer_train_pairs", "targets", targets, count) != TFM_OK))
        return TFM_ERROR_ARGUMENT;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_train: %s", TFM__RESERVED_SET_MESSAGE);
    if (count == 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, "tokenizer_train_pairs: it needs at least one file");
    const char **files = tfm__alloc(2 * count, sizeof(*files));
    if (!files)
        return TFM_ERROR_MEMORY;
    memcpy(files, sources, count * sizeof(*files));
    if (targets)
        memcpy(files + count, targets, count * sizeof(*files));
    const tfm_status status = train(dir, files, count, !targets, options);
    free(files);
    return status;
}
