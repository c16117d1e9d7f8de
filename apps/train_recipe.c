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

enum { BEAM_MOST = 32 }; /* tfm_translate's */

train_recipe train_recipe_unset(void) {
    return (train_recipe){
        .hold_out = 500,
        .max_length = 256,
        .buffer = 200000,
        .vocabulary_lines = 1000000,
        .coverage = 1,
        .preset = 1,
        .width = -1,
        .heads = -1,
        .feed_forward = -1,
        .encoder_layers = -1,
        .decoder_layers = -1,
        .positions = 512,
        .updates = 100000,
        .batch_tokens = -1,
        .accumulate = 1,
        .warmup = -1,
        .rate = NAN,
        .beta1 = 0.9,
        .beta2 = 0.98,
        .epsilon = 1e-9,
        .smoothing = 0.1,
        .dropout = NAN,
        .seed = 1,
        .report_every = 50,
        .valid_every = 500,
        .patience = 10,
        .average = 5,
        .valid_beam = 1,
    };
}

void train_recipe_free(train_recipe *recipe) {
    json_decref(recipe->stored);
    recipe->stored = NULL;
}

#define TEXT(letter, name, field, argument, help)                                                            \
    { letter, name, CLI_TEXT, &r->field, argument, help, NULL }
#define COUNT(name, field, help)                                                                             \
    { 0, name, CLI_INT, &r->field, "N", help, NULL }
#define WHOLE(name, field, help)                                                                             \
    { 0, name, CLI_WHOLE, &r->field, "N", help, NULL }
#define REAL(name, field, help)                                                                              \
    { 0, name, CLI_REAL, &r->field, "X", help, NULL }
#define CHOICE(name, field, words, help)                                                                     \
    { 0, name, CLI_CHOICE, &r->field, words, help, NULL }
#define FLAG(name, field, help)                                                                              \
    { 0, name, CLI_FLAG, &r->field, NULL, help, NULL }

size_t train_recipe_options(train_recipe *r, cli_option *options) {
    const cli_option table[] = {
        TEXT('o', "out", out, "DIR", "the directory of the run, and of the model; made if it is not there"),
        TEXT(0, "resume", resume, "DIR",
             "go on with the run of this directory; other options change its recipe, but not the model, the "
             "vocabulary, the training text (though its files may move), --seed, --batch-tokens, "
             "--max-length, --buffer and --hold-out"),
        CLI_DEVICE(&r->device),
        TEXT('s', "src", source, "FILE", "lines to translate from"),
        TEXT('t', "tgt", target, "FILE", "their translations, line by line"),
        TEXT(0, "tsv", tsv, "FILE", "instead of both: lines `source TAB target`"),
        TEXT(0, "valid-src", valid_source, "FILE", "lines for validation"),
        TEXT(0, "valid-tgt", valid_target, "FILE", "their translations"),
        TEXT(0, "valid-tsv", valid_tsv, "FILE", "instead of both"),
        WHOLE("hold-out", hold_out,
              "without validation files: about so many pairs, evenly over the training files, are "
              "kept out for it, of 20 pairs one at most (default 500; 0: no validation)"),
        FLAG("strict", strict,
             "stop at the first bad pair with its line number, not leave it out and count it"),
        COUNT("max-length", max_length, "leave pairs out with a side of more tokens (default 256)"),
        COUNT("buffer", buffer, "pairs that are in memory and shuffled together (default 200000)"),
        TEXT(0, "vocab", vocabulary, "DIR", "the tokenizer of this directory instead of a new one"),
        WHOLE("vocab-size", vocabulary_size,
              "pieces of a new vocabulary (default 0: 8000, or as many as the text gives if that is less; "
              "more where it has "
              "more characters)"),
        COUNT("vocab-lines", vocabulary_lines, "lines that it is made from, at most (default 1000000)"),
        FLAG("separate-vocab", separate, "a vocabulary for each side, not one for both"),
        FLAG("unigram", unigram, "SentencePiece's unigram pieces, not byte pair encoding"),
        REAL("subword-alpha", subword_alpha,
             "in each pass draw the pieces of lines anew: without this share of the merges (BPE-dropout; "
             "0.1 is usual), or of unigrams by this power of probabilities (default 0: never)"),
        REAL("coverage", coverage, "share of the characters that get a piece, from 0.98 on (default 1)"),
        CHOICE("normalization", normalization, "nmt_nfkc|nfkc|nmt_nfkc_cf|nfkc_cf|identity",
               "SentencePiece's rule for text (default nmt_nfkc; _cf makes letters small)"),
        CHOICE("preset", preset, "tiny|small|base|big",
               "width, layers, heads, feed-forward, warm-up, batch tokens, dropout. tiny: 128, 4+4, 4, 256, "
               "2000, "
               "1024, 0.3; small (default): 256, 3+3, 8, 1024, 2000, 1024, 0.2; base: 512, 6+6, 8, 2048, "
               "4000, 4096, "
               "0.1; big: 1024, 6+6, 16, 4096, 4000, 4096, 0.3"),
        COUNT("width", width, "of the model: E"),
        COUNT("heads", heads, "of attention"),
        COUNT("ffn", feed_forward, "width inside the feed-forward layers"),
        COUNT("encoder-layers", encoder_layers, "blocks of the encoder"),
        COUNT("decoder-layers", decoder_layers, "blocks of the decoder"),
        COUNT("positions", positions, "longest line that the model will translate, in tokens (default 512)"),
        CHOICE("activation", activation, "relu|gelu|gelu-tanh|silu",
               "in the feed-forward layers (default relu)"),
        CHOICE("init", init, "xavier|gaussian|kaiming", "how matrices are drawn (default xavier)"),
        FLAG("pre-norm", pre_norm,
             "norms before the layers, not behind them; transformers has no such Marian model"),
        COUNT("updates", updates, "stop after so many (default 100000)"),
        WHOLE("epochs", epochs,
              "or after so many passes over the data (default 0: any number); warm-up and schedule go by "
              "--updates all the same"),
        COUNT("batch-tokens", batch_tokens,
              "of the wider side of a batch, with padding (default: the preset's)"),
        COUNT("accumulate", accumulate, "batches in an update (default 1)"),
        CHOICE("schedule", schedule, "inverse-sqrt|linear|cosine|constant",
               "of the rate after warm-up; linear and cosine end at --updates"),
        WHOLE("warmup", warmup,
              "updates until the rate is at its peak (default: the preset's, a quarter of --updates at "
              "most)"),
        REAL("rate", rate, "the peak (default: the paper's, 1 / sqrt(width x preset's warm-up))"),
        REAL("beta1", beta1, "of Adam (default 0.9)"),
        REAL("beta2", beta2, "of Adam (default 0.98)"),
        REAL("epsilon", epsilon, "of Adam (default 1e-9)"),
        REAL("weight-decay", decay, "AdamW's (default 0)"),
        REAL("clip", clip, "largest norm of the gradient (default 0: any)"),
        REAL("label-smoothing", smoothing, "share of the target spread over the vocabulary (default 0.1)"),
        REAL("dropout", dropout, "of embeddings and sublayers (default: the preset's)"),
        REAL("attention-dropout", attention_dropout, "of attention's weights (default 0)"),
        REAL("activation-dropout", activation_dropout, "inside the feed-forward layers (default 0)"),
        WHOLE("seed", seed, "of parameters, order, dropout, vocabulary (default 1)"),
        COUNT("report-every", report_every, "updates from report to report (default 50)"),
        COUNT("valid-every", valid_every,
              "updates from validation to validation, and checkpoint (default 500)"),
        WHOLE("patience", patience,
              "stop when so many validations in a row were not the best (default 10; 0: never)"),
        WHOLE("average", average,
              "at the end, try the mean of the parameters of so many last validations (default 5)"),
        FLAG("keep-average", keep_average,
             "keep it whether validation finds it better or not, and without validation too"),
        COUNT("valid-beam", valid_beam, "beam width of validation (default 1)"),
        CHOICE("valid-tokenize", valid_tokenize, "13a|none|char", "words that BLEU counts (default 13a)"),
        FLAG("valid-lowercase", valid_lowercase, "make letters small first"),
        CHOICE("best-by", best_by, "bleu|ppl",
               "what makes a model the best (default bleu, and ppl while BLEU is below 1)"),
        CHOICE("store", store, "f32|f16|bf16", "numbers of model.safetensors (default f32)"),
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

static int check(const train_recipe *r, const cli_syntax *syntax) {
    const struct {
        const char *name;
        double value;
    } shares[] = {{"label-smoothing", r->smoothing},
                  {"dropout", r->dropout},
                  {"attention-dropout", r->attention_dropout},
                  {"activation-dropout", r->activation_dropout},
                  {"subword-alpha", r->subword_alpha},
                  {"beta1", r->beta1},
                  {"beta2", r->beta2}};
    for (size_t i = 0; i < CLI_COUNT(shares); i++)
        if (!(shares[i].value >= 0 && (float)shares[i].value < 1)) /* what the library gets are floats */
            return cli_misuse(syntax, "--%s is %g: give a number from 0 to below 1", shares[i].name,
                              shares[i].value);
    if (r->width % r->heads != 0)
        return cli_misuse(syntax, "--width %d cannot be cut into --heads %d: give a multiple", r->width,
                          r->heads);
    if (r->width % 2 != 0)
        return cli_misuse(syntax, "--width %d is odd: positions are sines and cosines in pairs", r->width);
    if (!(r->rate > 0) || !(r->epsilon >= 1e-37) || r->decay < 0 || r->clip < 0) /* a float has no less */
        return cli_misuse(syntax,
                          "--rate %g must be above 0, --epsilon %g at least 1e-37, --weight-decay %g and "
                          "--clip %g not below 0",
                          r->rate, r->epsilon, r->decay, r->clip);
    if (r->keep_average && r->average < 2)
        return cli_misuse(syntax, "--keep-average needs an average of 2 at least: --average is %d",
                          r->average);
    if (!(r->coverage >= 0.98 && r->coverage <= 1))
        return cli_misuse(syntax, "--coverage is %g: give a number from 0.98 to 1", r->coverage);
    if (r->valid_beam > BEAM_MOST) /* and not only at the first validation */
        return cli_misuse(syntax, "--valid-beam is %d: give a number from 1 to %d", r->valid_beam, BEAM_MOST);
    if (r->max_length > r->positions)
        return cli_misuse(syntax,
                          "--max-length %d is more than --positions %d: the model could not read such pairs",
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

int train_recipe_settle(train_recipe *r, const cli_syntax *syntax) {
    const int warmup = PRESETS[r->preset].warmup;
    set_default(&r->width, PRESETS[r->preset].width);
    set_default(&r->heads, PRESETS[r->preset].heads);
    set_default(&r->feed_forward, PRESETS[r->preset].feed_forward);
    set_default(&r->encoder_layers, PRESETS[r->preset].encoder_layers);
    set_default(&r->decoder_layers, PRESETS[r->preset].decoder_layers);
    set_default(&r->batch_tokens, PRESETS[r->preset].batch_tokens);
    set_default(&r->warmup, warmup < r->updates / 4 ? warmup : r->updates / 4);
    if (isnan(r->dropout))
        r->dropout = PRESETS[r->preset].dropout;
    if (isnan(r->rate)) /* section 5.3 */
        r->rate = 1 / sqrt((double)r->width * warmup);
    round_reals(r);
    return check(r, syntax);
}
