/* The choices of a training run: one table is the command line, the file, and the help. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "train.h"

/* "Attention Is All You Need", table 3: base and big. Their batches are for corpora of millions of pairs;
 * small models are for small ones, which teach more in small batches. */
static const struct {
    int width, heads, feed_forward, encoder_layers, decoder_layers, warmup, batch_tokens;
    double dropout;
} PRESETS[] = {
    {128, 4, 256, 4, 4, 2000, 1024, 0.3},
    {256, 8, 1024, 3, 3, 2000, 1024, 0.2},
    {512, 8, 2048, 6, 6, 4000, 4096, 0.1},
    {1024, 16, 4096, 6, 6, 4000, 4096, 0.3},
};

train_recipe train_recipe_unset(void) {
    return (train_recipe){
        .hold_out = 500,
        .max_length = 256,
        .block = -1,
        .buffer = 200000,
        .vocabulary_lines = 1000000,
        .coverage = 1,
        .preset = 1,
        .workers = 1,
        .width = -1,
        .heads = -1,
        .kv_heads = -1,
        .feed_forward = -1,
        .encoder_layers = -1,
        .decoder_layers = -1,
        .positions = -1,
        .activation = -1,
        .updates = 100000,
        .batch_tokens = -1,
        .accumulate = -1,
        .warmup = -1,
        .rate = NAN,
        .beta1 = 0.9,
        .beta2 = 0.98,
        .epsilon = 1e-9,
        .clip = NAN,
        .smoothing = NAN,
        .dropout = NAN,
        .attention_dropout = NAN,
        .activation_dropout = NAN,
        .seed = 1,
        .report_every = 50,
        .valid_every = 500,
        .patience = 10,
        .average = 5,
        .valid_beam = 1,
    };
}

void train_recipe_free(train_recipe *recipe) {
    cli_texts *const lists[] = {&recipe->sources, &recipe->targets, &recipe->tsvs, &recipe->texts};
    json_decref(recipe->stored);
    recipe->stored = NULL;
    for (size_t i = 0; i < CLI_COUNT(lists); i++) {
        free(lists[i]->items);
        *lists[i] = (cli_texts){0};
    }
}

#define TEXT(letter, name, field, argument, help)                                                                      \
    { letter, name, CLI_TEXT, &r->field, argument, help, NULL }
#define FILES(letter, name, field, help)                                                                               \
    { letter, name, CLI_LIST, &r->field, "FILE", help, NULL }
#define COUNT(name, field, help)                                                                                       \
    { 0, name, CLI_INT, &r->field, "N", help, NULL }
#define WHOLE(name, field, help)                                                                                       \
    { 0, name, CLI_WHOLE, &r->field, "N", help, NULL }
#define REAL(name, field, help)                                                                                        \
    { 0, name, CLI_REAL, &r->field, "X", help, NULL }
#define CHOICE(name, field, words, help)                                                                               \
    { 0, name, CLI_CHOICE, &r->field, words, help, NULL }
#define FLAG(name, field, help)                                                                                        \
    { 0, name, CLI_FLAG, &r->field, NULL, help, NULL }

size_t train_recipe_options(train_recipe *r, cli_option *options) {
    const cli_option table[] = {
        TEXT('o', "out", out, "DIR", "the directory of the run and its model; made if it is not there"),
        TEXT(0, "resume", resume, "DIR",
             "go on with the run of this directory; further options change its recipe, but not the model, the "
             "vocabulary, the training text (though its files may move), --seed, --batch-tokens, --max-length, "
             "--buffer and --hold-out"),
        CLI_DEVICES(&r->device),
        COUNT("workers", workers,
              "how many batches of an update each device works on at the same time, 1 to 16 (default 1)"),
        FLAG("shard", shard,
             "of several devices or ranks each keeps the optimiser's state of its own part of the parameters and saves "
             "it, in "
             "files beside the checkpoint: less memory, and the same bits; it is not in the recipe"),
        FLAG("recompute", recompute,
             "keep of each block only what it reads, and run it once more in the backward pass: less memory for a "
             "batch, more time, and the same bits if it would fit without this, too; it is not in the recipe"),
        FILES('s', "src", sources, "the lines to translate from; may be given several times, each with a --tgt"),
        FILES('t', "tgt", targets,
              "their translations, line by line; the first is of the first --src, the second of the second"),
        FILES(0, "tsv", tsvs,
              "a file of lines `source TAB target` in place of --src and --tgt; may be given several times"),
        TEXT(0, "valid-src", valid_source, "FILE", "the lines to translate from at validations"),
        TEXT(0, "valid-tgt", valid_target, "FILE", "their translations, line by line"),
        TEXT(0, "valid-tsv", valid_tsv, "FILE",
             "one file of lines `source TAB target` in place of --valid-src and --valid-tgt"),
        FILES(0, "text", texts,
              "in place of pairs: train a language model on this plain text, each line of which is a text of its own "
              "(but see --separator and --jsonl); may be given several times"),
        TEXT(0, "valid-text", valid_text, "FILE", "the text whose perplexity is measured at validations"),
        TEXT(0, "separator", separator, "TEXT",
             "with --text: texts have any number of lines, and end where this stands, such as '<|endoftext|>'; '' is a "
             "blank line"),
        FLAG("jsonl", jsonl,
             "with --text: each line is a JSON object, whose \"text\" is a text, which may have line breaks (default: "
             "where all files are named *.jsonl)"),
        WHOLE("hold-out", hold_out,
              "without validation files: keep about so many pairs, or lines of text, evenly over the training files, "
              "for validation, and at most one of 20 (default 500; 0: no validation)"),
        FLAG("strict", strict,
             "stop at the first bad pair and name its line; without this, bad pairs are left out and counted"),
        COUNT("block", block,
              "with --text: how many tokens the model reads at once. Texts, each with its end token, are shuffled, put "
              "one after another and cut into blocks of so many, whose tokens attend to all before them in the block, "
              "also across texts (default 256, or what the model of --from takes)"),
        COUNT("max-length", max_length, "leave out pairs of which a side has more tokens than this (default 256)"),
        COUNT("buffer", buffer,
              "how many pairs, or lines of text, are in memory at a time and shuffled together (default 200000)"),
        TEXT(0, "source-lang", source_language, "CODE",
             "the language of the source, such as de: a new vocabulary names it, and tfm translate --split goes by it; "
             "with --from, one that the model reads"),
        TEXT(0, "target-lang", target_language, "CODE",
             "the language of the target, such as en: a new vocabulary names it; with --from, one that the model "
             "writes"),
        TEXT(0, "from", from, "DIR",
             "fine-tune the model of this directory, with its tokenizer, and make none. Defaults are other ones then: "
             "--rate 0.00005, --clip 1, and the dropouts of the model's config.json. An option that is given comes "
             "first, then with --resume the run's recipe.json, then these, then those of training from scratch"),
        TEXT(0, "freeze", freeze, "PATTERNS",
             "parameters that keep their values: patterns for their names in model.safetensors, as --from has it or as "
             "it is written, with commas between, such as 'model.encoder.*'"),
        TEXT(0, "vocab", vocabulary, "DIR", "use the tokenizer of this directory and learn no new vocabulary"),
        WHOLE("vocab-size", vocabulary_size,
              "the number of pieces in a new vocabulary (default 0: one for every 250 bytes of text, from 500 to 8000, "
              "or as many as the text gives if that is less; more where it has more characters)"),
        COUNT("vocab-lines", vocabulary_lines, "learn a new vocabulary from at most so many lines (default 1000000)"),
        FLAG("separate-vocab", separate, "learn a vocabulary for each side; without this, there is one for both"),
        FLAG("unigram", unigram, "learn SentencePiece's unigram pieces in place of byte-pair encoding"),
        REAL("subword-alpha", subword_alpha,
             "cut the training lines into other pieces in each pass: each merge is left out with this probability "
             "(BPE-dropout; 0.1 is usual), or unigram pieces are drawn with their probability to this power "
             "(default 0: the best pieces in each pass)"),
        REAL("coverage", coverage, "the share of the text's characters that get a piece, from 0.98 to 1 (default 1)"),
        CHOICE("normalization", normalization, "nmt_nfkc|nfkc|nmt_nfkc_cf|nfkc_cf|identity",
               "SentencePiece's rule for normalizing text; those with _cf convert to lower case (default nmt_nfkc)"),
        CHOICE(
            "family", family, "gpt|llama",
            "with --text: what a new language model is. gpt (default): as GPT-2, with learned positions; llama: with "
            "rotated queries and keys, root mean square norms and gates"),
        CHOICE("preset", preset, "tiny|small|base|big",
               "the sizes to begin with: width, layers, heads, feed-forward, warm-up, batch tokens, dropout. "
               "tiny: 128, 4+4, 4, 256, 2000, 1024, 0.3; small (default): 256, 3+3, 8, 1024, 2000, 1024, 0.2; "
               "base: 512, 6+6, 8, 2048, 4000, 4096, 0.1; big: 1024, 6+6, 16, 4096, 4000, 4096, 0.3"),
        COUNT("width", width, "the width of the model (default: the preset's)"),
        COUNT("heads", heads, "the number of attention heads (default: the preset's)"),
        COUNT("kv-heads", kv_heads,
              "with --family llama: how many of them have keys and values of their own (default: all)"),
        COUNT("ffn", feed_forward, "the width inside the feed-forward layers (default: the preset's)"),
        COUNT("encoder-layers", encoder_layers, "the number of encoder layers (default: the preset's)"),
        COUNT("decoder-layers", decoder_layers, "the number of decoder layers (default: the preset's)"),
        COUNT("positions", positions,
              "the most tokens of a line that the model can translate, or of a text that it can read (default 512; "
              "with --text: --block)"),
        CHOICE("activation", activation, "relu|gelu|gelu-tanh|silu",
               "the activation function of the feed-forward layers (default relu; gpt: gelu-tanh; llama: silu)"),
        CHOICE("init", init, "xavier|gaussian|kaiming", "how the first values of matrices are drawn (default xavier)"),
        FLAG("pre-norm", pre_norm,
             "put the norms before the layers, not after them (Hugging Face's transformers cannot read such a Marian "
             "model)"),
        COUNT("updates", updates, "stop after N updates (default 100000)"),
        WHOLE("epochs", epochs,
              "stop after N passes over the data, if that comes before --updates, by which warm-up and schedule go all "
              "the same (default 0: any number)"),
        COUNT(
            "batch-tokens", batch_tokens,
            "the most tokens in a batch, counted on the longer side with padding; of text, whole blocks (default: the "
            "preset's)"),
        COUNT("accumulate", accumulate,
              "the number of batches in an update, which devices or ranks share (default 1, or as many as there are of "
              "them)"),
        CHOICE("precision", precision, "fp32|bf16",
               "bf16: products of linear layers round to bf16 what they read, forward and backward, which is faster "
               "where the device multiplies such numbers and is refused elsewhere; sums, parameters, the optimiser's "
               "state and all else are fp32 (default fp32)"),
        CHOICE("wire", wire, "f32|f16|bf16",
               "the number format in which devices or ranks send gradients to each other (default f32); they are added "
               "up in "
               "f32"),
        TEXT(0, "deal", deal, "RATIO",
             "the ratio in which devices or ranks share the rows of each update: a number for each with commas "
             "between, such as 3,1 (default: equal, whole batches round-robin)"),
        CHOICE("schedule", schedule, "inverse-sqrt|linear|cosine|constant",
               "how the learning rate falls after warm-up; linear and cosine reach 0 at --updates (default "
               "inverse-sqrt)"),
        WHOLE("warmup", warmup,
              "the number of updates over which the learning rate rises (default: the preset's, and at most a quarter "
              "of --updates)"),
        REAL("rate", rate,
             "the highest learning rate (default: the paper's, 1 / sqrt(width x the preset's warm-up); with --from: "
             "0.00005)"),
        REAL("beta1", beta1, "beta1 of Adam, above 0 and below 1 (default 0.9)"),
        REAL("beta2", beta2, "beta2 of Adam, above 0 and below 1 (default 0.98)"),
        REAL("epsilon", epsilon, "epsilon of Adam (default 1e-9)"),
        REAL("weight-decay", decay, "the weight decay of AdamW (default 0)"),
        REAL("clip", clip, "the largest norm that the gradient may have (default 0: any; with --from: 1)"),
        REAL("label-smoothing", smoothing,
             "the share of the target's probability that is spread over the vocabulary (default 0.1, for text 0)"),
        REAL("dropout", dropout,
             "the dropout of embeddings and sublayers (default: the preset's; with --text: 0.1; with --from: what the "
             "model's config.json says, as its architecture names it)"),
        REAL("attention-dropout", attention_dropout,
             "the dropout of attention weights (default 0; with --from: the model's)"),
        REAL("activation-dropout", activation_dropout,
             "the dropout inside the feed-forward layers (default 0; with --from: the model's)"),
        WHOLE("seed", seed, "the seed of all random numbers (default 1)"),
        COUNT("report-every", report_every, "report every N updates (default 50)"),
        COUNT("valid-every", valid_every, "validate and save a checkpoint every N updates (default 500)"),
        WHOLE("patience", patience,
              "stop when N validations in a row have found no better model (default 10; 0: never)"),
        WHOLE("average", average, "at the end, try the mean of the parameters of the last N validations (default 5)"),
        FLAG("keep-average", keep_average,
             "keep that mean whether validation finds it better or not, and without validation too"),
        COUNT("valid-beam", valid_beam, "the beam width of validation (default 1)"),
        CHOICE("valid-tokenize", valid_tokenize, "13a|none|char", "what BLEU counts as words (default 13a)"),
        FLAG("valid-lowercase", valid_lowercase, "convert to lower case before BLEU and chrF2 are measured"),
        CHOICE("best-by", best_by, "bleu|ppl",
               "what the best model is chosen by (default bleu, and ppl while BLEU is below 1)"),
        CHOICE("store", store, "f32|f16|bf16", "the number format of model.safetensors (default f32)"),
    };
    _Static_assert(CLI_COUNT(table) <= TRAIN_OPTIONS, "the table of options is too long");
    memcpy(options, table, sizeof(table));
    return CLI_COUNT(table);
}

/* ---- What was not given -------------------------------------------------------------------------------- */

static void set_default(int *value, int otherwise) {
    if (*value < 0)
        *value = otherwise;
}

/* Letters, digits and what joins them; a language may also not be given. */
static bool is_code(const char *code) {
    return !code || (*code && !code[strspn(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")]);
}

static int check(const train_recipe *r, const cli_syntax *syntax) {
    const struct {
        const char *name;
        double value;
    } shares[] = {{"label-smoothing", r->smoothing},
                  {"dropout", r->dropout},
                  {"attention-dropout", r->attention_dropout},
                  {"activation-dropout", r->activation_dropout},
                  {"subword-alpha", r->subword_alpha}},
      betas[] = {{"beta1", r->beta1}, {"beta2", r->beta2}};
    for (size_t i = 0; i < CLI_COUNT(shares); i++)
        if (!(shares[i].value >= 0 && (float)shares[i].value < 1)) /* what the library gets are floats */
            return cli_misuse(syntax, "--%s is %g: give a number from 0 to below 1", shares[i].name, shares[i].value);
    for (size_t i = 0; i < CLI_COUNT(betas); i++) /* the library takes 0 for its default */
        if (!(betas[i].value > 0 && betas[i].value < 1))
            return cli_misuse(syntax, "--%s is %g: give a number above 0 and below 1", betas[i].name, betas[i].value);
    if (!is_code(r->source_language) || !is_code(r->target_language))
        return cli_misuse(syntax, "--%s is '%s': give the code of a language, such as de or pt-BR",
                          is_code(r->source_language) ? "target-lang" : "source-lang",
                          is_code(r->source_language) ? r->target_language : r->source_language);
    if (r->width % r->heads != 0)
        return cli_misuse(syntax, "--width %d cannot be cut into --heads %d: give a multiple", r->width, r->heads);
    if (train_of_texts(r) && r->width / r->heads % 2 != 0 && r->family == FAMILY_LLAMA)
        return cli_misuse(syntax, "--width %d gives --heads %d an odd width each: they turn in pairs of columns",
                          r->width, r->heads);
    if (r->heads % r->kv_heads != 0 || (r->kv_heads != r->heads && (!train_of_texts(r) || r->family == FAMILY_GPT)))
        return cli_misuse(syntax, "--kv-heads %d must divide --heads %d, and is for --family llama", r->kv_heads,
                          r->heads);
    if (!train_of_texts(r) && r->width % 2 != 0)
        return cli_misuse(syntax, "--width %d is odd: positions are sines and cosines in pairs", r->width);
    if (!(r->rate > 0) || !(r->epsilon >= 1e-37) || r->decay < 0 || r->clip < 0) /* a float has no less */
        return cli_misuse(syntax,
                          "--rate %g must be above 0, --epsilon %g at least 1e-37, --weight-decay %g and "
                          "--clip %g not below 0",
                          r->rate, r->epsilon, r->decay, r->clip);
    if (r->keep_average && r->average < 2)
        return cli_misuse(syntax, "--keep-average needs an average of 2 at least: --average is %d", r->average);
    if (!(r->coverage >= 0.98 && r->coverage <= 1))
        return cli_misuse(syntax, "--coverage is %g: give a number from 0.98 to 1", r->coverage);
    if (r->valid_beam > TFM_MAX_BEAM) /* and not only at the first validation */
        return cli_misuse(syntax, "--valid-beam is %d: give a number from 1 to %d", r->valid_beam, TFM_MAX_BEAM);
    if (!r->from && train_of_texts(r) && r->block > r->positions)
        return cli_misuse(syntax, "--block %d is more than --positions %d: the model could not read such blocks",
                          r->block, r->positions);
    if (!r->from && !train_of_texts(r) && r->max_length > r->positions)
        return cli_misuse(syntax, "--max-length %d is more than --positions %d: the model could not read such pairs",
                          r->max_length, r->positions);
    return CLI_GO;
}

/* Numbers as the file will have them: a run that goes on by its file has the same bits. */
static void round_reals(train_recipe *r) {
    cli_option options[TRAIN_OPTIONS];
    const size_t count = train_recipe_options(r, options);
    char text[64];
    for (size_t i = TRAIN_UNSTORED; i < count; i++)
        if (options[i].kind == CLI_REAL) {
            double *value = options[i].value;
            snprintf(text, sizeof(text), "%.*g", TRAIN_DIGITS, *value);
            *value = strtod(text, NULL);
        }
}

static void set_real(double *value, double otherwise) {
    if (isnan(*value))
        *value = otherwise;
}

/* What suits a model that is trained already: small steps, and the dropout that it was trained with. A directory that
 * cannot be read is refused later. */
static void settle_from(train_recipe *r) {
    tfm_model_info info = {0};
    const bool open = isnan(r->dropout) || isnan(r->attention_dropout) || isnan(r->activation_dropout);
    if (open && tfm_model_read_info(&info, r->from, &(tfm_model_options){.no_tokenizer = true}) != TFM_OK)
        info = (tfm_model_info){.dropout = 0};
    set_real(&r->dropout, info.dropout);
    set_real(&r->attention_dropout, info.attention_dropout);
    set_real(&r->activation_dropout, info.activation_dropout);
    set_real(&r->rate, 5e-5);
    set_real(&r->clip, 1);
}

int train_recipe_settle(train_recipe *r, const cli_syntax *syntax) {
    const int warmup = PRESETS[r->preset].warmup;
    if (r->from)
        settle_from(r);
    if (train_of_texts(r))
        train_texts_settle(r);
    set_default(&r->block, 256);
    set_default(&r->positions, 512);
    set_default(&r->activation, 0);
    set_real(&r->smoothing, 0.1);
    set_default(&r->width, PRESETS[r->preset].width);
    set_default(&r->heads, PRESETS[r->preset].heads);
    set_default(&r->kv_heads, r->heads);
    set_default(&r->feed_forward, PRESETS[r->preset].feed_forward);
    set_default(&r->encoder_layers, PRESETS[r->preset].encoder_layers);
    set_default(&r->decoder_layers, PRESETS[r->preset].decoder_layers);
    set_default(&r->batch_tokens, PRESETS[r->preset].batch_tokens);
    set_default(&r->accumulate, 1);
    set_default(&r->warmup, warmup < r->updates / 4 ? warmup : r->updates / 4);
    set_real(&r->dropout, PRESETS[r->preset].dropout);
    set_real(&r->attention_dropout, 0);
    set_real(&r->activation_dropout, 0);
    set_real(&r->clip, 0);
    set_real(&r->rate, 1 / sqrt((double)r->width * warmup)); /* section 5.3 */
    round_reals(r);
    return check(r, syntax);
}
