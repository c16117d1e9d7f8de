/* The tokenizer and the model of a run: new, or initialized from a directory. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "train/train.h"

bool train_exists(const char *dir, const char *name) {
    char *path = train_path(dir, name);
    /* Opening it later reports the error. */
    const bool there = path && (access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR));
    free(path);
    return there;
}

/* ---- Conflicting options ---- */

/* Options of a new vocabulary, refused with an existing one. */
static bool shapes_vocabulary(const train_recipe *o) {
    const train_recipe plain = train_recipe_unset();
    return o->vocabulary_size || o->separate || o->unigram || o->character_coverage != plain.character_coverage ||
           o->normalization != plain.normalization || o->vocabulary_lines != plain.vocabulary_lines;
}

/* Options of a new model, refused with an existing one. */
static bool shapes_model(const train_recipe *o) {
    const train_recipe plain = train_recipe_unset();
    return o->preset != plain.preset || o->width >= 0 || o->heads >= 0 || o->kv_heads >= 0 || o->ffn_dim >= 0 ||
           o->encoder_layers >= 0 || o->decoder_layers >= 0 || o->max_positions >= 0 || o->activation >= 0 || o->init ||
           o->pre_norm || o->family != plain.family;
}

/* Whether the path is a GGUF file, or a directory with one. */
static bool is_gguf(const char *path) {
    tfm_model_info info;
    return tfm_model_read_info(&info, path, &(tfm_model_options){.no_tokenizer = true}) == TFM_OK &&
           strcmp(info.weight_format, "GGUF") == 0;
}

int train_model_check(train_recipe *o, const cli_syntax *syntax) {
    if (o->vocabulary && (o->source_language || o->target_language || shapes_vocabulary(o)))
        return cli_usage_error(
            syntax, "--vocab is an existing vocabulary: leave out --source-lang, --target-lang, --vocab-size, "
                    "--vocab-lines, --separate-vocab, --unigram, --character-coverage and --normalization");
    if (!o->init_from)
        return CLI_CONTINUE;
    if (o->vocabulary || shapes_vocabulary(o))
        return cli_usage_error(syntax,
                               "--init-from is a model with its vocabulary: leave out the options of a vocabulary");
    if (shapes_model(o))
        return cli_usage_error(
            syntax,
            "--init-from is an existing model: leave out --family, --preset, --width, --heads, --kv-heads, --ffn-dim, "
            "--encoder-layers, --decoder-layers, --max-positions, --activation, --init and --pre-norm");
    tfm_model_info info;
    const int code = cli_find_model(&o->init_from);
    if (code != CLI_CONTINUE)
        return code;
    if (train_exists(o->init_from, "config.json"))
        return CLI_CONTINUE;
    /* The library may recognize another format. */
    const tfm_status status = tfm_model_read_info(&info, o->init_from, &(tfm_model_options){.no_tokenizer = true});
    if (status == TFM_OK && strcmp(info.weight_format, "GGUF") == 0)
        return CLI_CONTINUE;
    if (status != TFM_OK && status != TFM_ERROR_IO)
        return cli_fail_library();
    return cli_fail("%s has no config.json: give --init-from the directory of a model", o->init_from);
}

/* ---- The tokenizer ---- */

static int copy_file(const char *from, const char *to) {
    char buffer[1 << 16];
    cli_output out;
    FILE *in = fopen(from, "re");
    if (!in)
        return cli_fail("cannot read %s: %s", from, strerror(errno));
    int code = cli_output_open(&out, to);
    for (size_t got; code == CLI_OK && (got = fread(buffer, 1, sizeof(buffer), in)) > 0;)
        fwrite(buffer, 1, got, out.file);
    if (code == CLI_OK && ferror(in))
        code = cli_fail("cannot read %s: %s", from, strerror(errno));
    fclose(in);
    const int closed = cli_output_close(&out, code == CLI_OK);
    return code == CLI_OK ? closed : code;
}

static int copy_named(const char *from, const char *to, const char *name) {
    char *a = train_path(from, name), *b = train_path(to, name);
    struct stat info;
    int code = a && b ? CLI_OK : cli_fail("%s: out of memory", to);
    if (code == CLI_OK && stat(a, &info) == 0 && S_ISREG(info.st_mode))
        code = copy_file(a, b);
    free(a);
    free(b);
    return code;
}

static int copy_templates(const char *from, const char *to);

/* All files of a tokenizer and of chat templates. vocab.json is copied last, as a mark of completion. */
static int copy_tokenizer(const char *from, const char *to) {
    static const char LAST[] = "vocab.json";
    DIR *folder = opendir(from);
    int code = folder ? CLI_OK : cli_fail("cannot read %s: %s", from, strerror(errno));
    bool last = false;
    for (struct dirent *entry; code == CLI_OK && (entry = readdir(folder));) {
        const char *name = entry->d_name;
        last = last || strcmp(name, LAST) == 0;
        if (train_is_tokenizer_file(name) && strcmp(name, LAST) != 0)
            code = copy_named(from, to, name);
    }
    if (folder)
        closedir(folder);
    if (code == CLI_OK)
        code = copy_templates(from, to);
    return code == CLI_OK && last ? copy_named(from, to, LAST) : code;
}

/* The folder of additional chat templates, if any. */
static int copy_templates(const char *from, const char *to) {
    char *a = train_path(from, train_templates), *b = train_path(to, train_templates);
    struct stat info;
    int code = a && b ? CLI_OK : cli_fail("%s: out of memory", to);
    if (code == CLI_OK && stat(a, &info) == 0 && S_ISDIR(info.st_mode))
        code = mkdir(b, 0777) == 0 || errno == EEXIST ? copy_tokenizer(a, b)
                                                      : cli_fail("cannot make the folder %s: %s", b, strerror(errno));
    free(a);
    free(b);
    return code;
}

/* Checks that a given tokenizer has the special tokens of a model. It is opened in place, so that messages name its own
 * path. */
static int check_given(train_run *r) {
    const train_recipe *o = &r->recipe;
    if (tfm_tokenizer_open(&r->tokenizer, o->vocabulary) != TFM_OK)
        return cli_fail_library();
    const tfm_tokenizer_info text = *tfm_tokenizer_get_info(r->tokenizer);
    tfm_tokenizer_free(&r->tokenizer);
    if (train_is_lm(o) && text.target_eos < 0)
        return cli_fail("the tokenizer of %s has no EOS token: name it as `eos_token` in "
                        "tokenizer_config.json",
                        o->vocabulary);
    if (!train_is_lm(o) && text.target_pad < 0) /* also the decoder start token */
        return cli_fail("%s/%s has no <pad>, which training needs", o->vocabulary,
                        text.separate ? "target_vocab.json" : "vocab.json");
    return CLI_OK;
}

static tfm_status learn_tokenizer(const train_run *r) {
    static const char *const rules[] = {"nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"};
    const train_recipe *o = &r->recipe;
    const tfm_vocabulary_options options = {.vocab_size = o->vocabulary_size,
                                            .separate_vocabs = o->separate,
                                            .unigram = o->unigram,
                                            .character_coverage = o->character_coverage,
                                            .max_sentences = o->vocabulary_lines,
                                            .normalization = rules[o->normalization],
                                            .source_language = o->source_language,
                                            .target_language = o->target_language,
                                            .seed = (uint64_t)o->seed,
                                            .documents = train_document_options(o)};
    const char *const *targets;
    const cli_strings *sources = train_pair_files(o, &targets);
    cli_progress("training a vocabulary");
    return train_is_lm(o) ? tfm_tokenizer_train_texts(r->dir, o->texts.items, o->texts.count, &options)
                          : tfm_tokenizer_train_pairs(r->dir, sources->items, targets, sources->count, &options);
}

/* The tokenizer of this run: in its directory, given, or trained now. */
static int open_tokenizer(train_run *r) {
    const train_recipe *o = &r->recipe;
    if (train_exists(r->dir, train_is_lm(o) ? "tokenizer.json" : "vocab.json"))
        return tfm_tokenizer_open(&r->tokenizer, r->dir) == TFM_OK ? CLI_OK : cli_fail_library();
    if (o->vocabulary && (check_given(r) != CLI_OK || copy_tokenizer(o->vocabulary, r->dir) != CLI_OK))
        return CLI_FAILED;
    if (!o->vocabulary && learn_tokenizer(r) != TFM_OK)
        return cli_fail_library();
    return tfm_tokenizer_open(&r->tokenizer, r->dir) == TFM_OK ? CLI_OK : cli_fail_library();
}

static tfm_model_shape shape(const train_run *r) {
    static const tfm_activation activations[] = {TFM_RELU, TFM_GELU, TFM_GELU_TANH, TFM_SILU};
    const train_recipe *o = &r->recipe;
    const tfm_tokenizer_info text = *tfm_tokenizer_get_info(r->tokenizer);
    return (tfm_model_shape){.width = o->width,
                             .heads = o->heads,
                             .ffn_dim = o->ffn_dim,
                             .encoder_layers = o->encoder_layers,
                             .decoder_layers = o->decoder_layers,
                             .source_vocab_size = text.source_size,
                             .target_vocab_size = text.separate ? text.target_size : 0,
                             .max_positions = o->max_positions,
                             .pad_id = text.target_pad,
                             .eos_id = text.target_eos,
                             .start_id = text.target_pad,
                             .activation = activations[o->activation],
                             .pre_norm = o->pre_norm,
                             .init = (tfm_init)o->init,
                             .seed = (uint64_t)o->seed};
}

/* ---- The model ---- */

/* Writes the languages to the tokenizer of this run: each side is in one language. */
static int name_languages(const train_run *r) {
    const train_recipe *o = &r->recipe;
    const char *const names[][2] = {{"src_lang", o->source_language}, {"tgt_lang", o->target_language}};
    char *path = train_path(r->dir, "tokenizer_config.json");
    char why[CLI_REASON] = "it is not an object";
    json_t *config = path && access(path, F_OK) == 0 ? cli_json_load(path, why) : json_object();
    int code = json_is_object(config) ? CLI_OK : cli_fail("%s/tokenizer_config.json is not JSON: %s", r->dir, why);
    for (size_t i = 0; i < CLI_COUNT(names); i++)
        if (names[i][1])
            json_object_set_new(config, names[i][0], json_string(names[i][1]));
    char *text = code == CLI_OK ? json_dumps(config, JSON_INDENT(2)) : NULL;
    cli_output out;
    if (code == CLI_OK)
        code = text ? cli_output_open(&out, path) : cli_fail("%s: out of memory", r->dir);
    if (code == CLI_OK) {
        fprintf(out.file, "%s\n", text);
        code = cli_output_close(&out, true);
    }
    free(text);
    free(path);
    json_decref(config);
    return code;
}

/* Checks that the model has these languages, before anything is written. */
static int check_languages(train_run *r) {
    const train_recipe *o = &r->recipe;
    const tfm_tokenizer *tokenizer = tfm_model_tokenizer(r->model);
    if (o->source_language && tfm_tokenizer_language_id(tokenizer, o->source_language) < 0)
        return cli_fail("the model of %s does not have the source language '%s'", o->init_from, o->source_language);
    return !o->target_language || tfm_model_set_target_language(r->model, o->target_language) == TFM_OK
               ? CLI_OK
               : cli_fail_library();
}

/* The tokenizer of --init-from. */
static int copy_given(const train_run *r, bool gguf) {
    if (!gguf)
        return copy_tokenizer(r->recipe.init_from, r->dir);
    return tfm_tokenizer_convert(r->dir, r->recipe.init_from) == TFM_OK ? CLI_OK : cli_fail_library();
}

/* The model of --init-from with its parameters; a resumed run reads the trained ones from its checkpoint. */
static int open_given(train_run *r) {
    const train_recipe *o = &r->recipe;
    const bool gguf = is_gguf(o->init_from);
    const tfm_model_options options = {.precision = gguf ? TFM_PRECISION_FP32 : TFM_PRECISION_AUTO};
    if ((r->fleet ? tfm_fleet_open_model(&r->model, r->fleet, o->init_from, &options)
                  : tfm_model_open(&r->model, r->ctx, o->init_from, &options)) != TFM_OK)
        return cli_fail_library();
    if (check_languages(r) != CLI_OK || (!o->resume && copy_given(r, gguf) != CLI_OK) ||
        (!o->resume && (o->source_language || o->target_language) && name_languages(r) != CLI_OK))
        return CLI_FAILED;
    if (tfm_tokenizer_open(&r->tokenizer, r->dir) != TFM_OK)
        return cli_fail_library();
    const tfm_model_info info = *tfm_model_get_info(r->model);
    const bool texts = train_is_lm(o);
    if (texts != (info.encoder_layers == 0))
        return cli_fail("the model of %s, of the family %s, is of the kind %s: %s", o->init_from, info.family,
                        info.kind,
                        texts                     ? "it is trained on pairs, give --src and --tgt"
                        : info.decoder_layers > 0 ? "it is trained on plain text, give --text or --chat"
                                                  : "tfm trains models with a decoder");
    if (!info.can_save)
        return cli_fail("the model of %s is of the family %s, which tfm cannot write: it cannot be trained",
                        o->init_from, info.family);
    if ((texts ? o->seq_len : o->max_length) > info.max_positions)
        return cli_fail("--%s is %d, and the model of %s takes up to %d tokens: give --%s %d, or less",
                        texts ? "seq-len" : "max-length", texts ? o->seq_len : o->max_length, o->init_from,
                        info.max_positions, texts ? "seq-len" : "max-length", info.max_positions);
    return CLI_OK;
}

int train_model_open(train_run *r) {
    if (r->recipe.init_from)
        return open_given(r);
    if (open_tokenizer(r) != CLI_OK)
        return CLI_FAILED;
    const tfm_model_shape size = train_is_lm(&r->recipe) ? train_lm_shape(r) : shape(r);
    const tfm_status made =
        r->fleet ? tfm_fleet_new_model(&r->model, r->fleet, &size) : tfm_model_new(&r->model, r->ctx, &size);
    return made == TFM_OK && tfm_model_open_tokenizer(r->model, r->dir) == TFM_OK ? CLI_OK : cli_fail_library();
}
