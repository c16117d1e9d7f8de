/* The choices of a training run: one table is the command line, the file, and the help. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "train/train.h"

train_recipe train_recipe_unset(void) {
    return (train_recipe){
        .hold_out = 500,
        .max_length = 256,
        .seq_len = -1,
        .buffer_size = 200000,
        .vocabulary_lines = 1000000,
        .character_coverage = 1,
        .preset = 1,
        .workers = 1,
        .width = -1,
        .heads = -1,
        .kv_heads = -1,
        .ffn_dim = -1,
        .encoder_layers = -1,
        .decoder_layers = -1,
        .max_positions = -1,
        .activation = -1,
        .max_steps = 100000,
        .batch_tokens = -1,
        .gradient_accumulation_steps = -1,
        .warmup_steps = -1,
        .learning_rate = NAN,
        .beta1 = 0.9,
        .beta2 = 0.98,
        .epsilon = 1e-9,
        .max_grad_norm = NAN,
        .label_smoothing = NAN,
        .dropout = NAN,
        .attention_dropout = NAN,
        .activation_dropout = NAN,
        .seed = 1,
        .logging_steps = 50,
        .eval_steps = 500,
        .patience = 10,
        .average = 5,
        .valid_beam_size = 1,
    };
}

void train_recipe_free(train_recipe *recipe) {
    cli_strings *const lists[] = {&recipe->sources, &recipe->targets, &recipe->tsvs, &recipe->texts};
    json_decref(recipe->stored);
    recipe->stored = NULL;
    for (size_t i = 0; i < CLI_COUNT(lists); i++) {
        free(lists[i]->items);
        *lists[i] = (cli_strings){0};
    }
}

#define TEXT(letter, name, field, argument, help)                                                                      \
    { letter, name, CLI_STRING, &r->field, argument, help, NULL }
#define FILES(letter, name, field, help)                                                                               \
    { letter, name, CLI_LIST, &r->field, "FILE", help, NULL }
#define COUNT(name, field, help)                                                                                       \
    { 0, name, CLI_POSITIVE, &r->field, "N", help, NULL }
#define WHOLE(name, field, help)                                                                                       \
    { 0, name, CLI_NONNEGATIVE, &r->field, "N", help, NULL }
#define REAL(name, field, help)                                                                                        \
    { 0, name, CLI_DOUBLE, &r->field, "X", help, NULL }
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
             "--buffer-size and --hold-out"),
        CLI_DEVICES(&r->device),
        COUNT("workers", workers,
              "how many batches of an update each device works on at the same time, 1 to 16 (default 1)"),
        FLAG("shard-optimizer", shard_optimizer,
             "of several devices or ranks each keeps the optimiser's state of its own part of the parameters and saves "
             "it, in "
             "files beside the checkpoint: less memory, and the same bits; it is not in the recipe"),
        FLAG("gradient-checkpointing", gradient_checkpointing,
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
        COUNT("seq-len", seq_len,
              "with --text: how many tokens the model reads at once. Texts, each with its end token, are shuffled, put "
              "one after another and cut into blocks of so many, whose tokens attend to all before them in the block, "
              "also across texts (default 256, or what the model of --init-from takes)"),
        COUNT("max-length", max_length, "leave out pairs of which a side has more tokens than this (default 256)"),
        COUNT("buffer-size", buffer_size,
              "how many pairs, or lines of text, are in memory at a time and shuffled together (default 200000)"),
        TEXT(0, "source-lang", source_language, "CODE",
             "the language of the source, such as de: a new vocabulary names it, and tfm translate --split goes by it; "
             "with --init-from, one that the model reads"),
        TEXT(0, "target-lang", target_language, "CODE",
             "the language of the target, such as en: a new vocabulary names it; with --init-from, one that the model "
             "writes"),
        TEXT(0, "init-from", init_from, "DIR",
             "fine-tune the model of this directory, with its tokenizer, and make none. Defaults are other ones then: "
             "--learning-rate 0.00005, --max-grad-norm 1, and the dropouts of the model's config.json. An option that "
             "is given comes "
             "first, then with --resume the run's recipe.json, then these, then those of training from scratch"),
        TEXT(0, "freeze", freeze, "PATTERNS",
             "parameters that keep their values: patterns for their names in model.safetensors, as --init-from has it "
             "or as "
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
        REAL("character-coverage", character_coverage,
             "the share of the text's characters that get a piece, from 0.98 to 1 (default 1)"),
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
        COUNT("ffn-dim", ffn_dim, "the width inside the feed-forward layers (default: the preset's)"),
        COUNT("encoder-layers", encoder_layers, "the number of encoder layers (default: the preset's)"),
        COUNT("decoder-layers", decoder_layers, "the number of decoder layers (default: the preset's)"),
        COUNT("max-positions", max_positions,
              "the most tokens of a line that the model can translate, or of a text that it can read (default 512; "
              "with --text: --seq-len)"),
        CHOICE("activation", activation, "relu|gelu|gelu-tanh|silu",
               "the activation function of the feed-forward layers (default relu; gpt: gelu-tanh; llama: silu)"),
        CHOICE("init", init, "xavier|gaussian|kaiming", "how the first values of matrices are drawn (default xavier)"),
        FLAG("pre-norm", pre_norm,
             "put the norms before the layers, not after them (Hugging Face's transformers cannot read such a Marian "
             "model)"),
        COUNT("max-steps", max_steps, "stop after N updates (default 100000)"),
        WHOLE(
            "epochs", epochs,
            "stop after N passes over the data, if that comes before --max-steps, by which warm-up and schedule go all "
            "the same (default 0: any number)"),
        COUNT(
            "batch-tokens", batch_tokens,
            "the most tokens in a batch, counted on the longer side with padding; of text, whole blocks (default: the "
            "preset's)"),
        COUNT("gradient-accumulation-steps", gradient_accumulation_steps,
              "the number of batches in an update, which devices or ranks share (default 1, or as many as there are of "
              "them)"),
        CHOICE("precision", precision, "fp32|bf16",
               "bf16: products of linear layers round to bf16 what they read, forward and backward, which is faster "
               "where the device multiplies such numbers and is refused elsewhere; sums, parameters, the optimiser's "
               "state and all else are fp32 (default fp32)"),
        CHOICE("comm-dtype", comm_dtype, "f32|f16|bf16",
               "the number format in which devices or ranks send gradients to each other (default f32); they are added "
               "up in "
               "f32"),
        TEXT(0, "balance", balance, "RATIO",
             "the ratio in which devices or ranks share the rows of each update: a number for each with commas "
             "between, such as 3,1 (default: equal, whole batches round-robin)"),
        CHOICE("lr-scheduler-type", lr_scheduler_type, "inverse-sqrt|linear|cosine|constant",
               "how the learning rate falls after warm-up; linear and cosine reach 0 at --max-steps (default "
               "inverse-sqrt)"),
        WHOLE("warmup-steps", warmup_steps,
              "the number of updates over which the learning rate rises (default: the preset's, and at most a quarter "
              "of --max-steps)"),
        REAL("learning-rate", learning_rate,
             "the highest learning rate (default: the paper's, 1 / sqrt(width x the preset's warm-up); with "
             "--init-from: "
             "0.00005)"),
        REAL("beta1", beta1, "beta1 of Adam, above 0 and below 1 (default 0.9)"),
        REAL("beta2", beta2, "beta2 of Adam, above 0 and below 1 (default 0.98)"),
        REAL("epsilon", epsilon, "epsilon of Adam (default 1e-9)"),
        REAL("weight-decay", weight_decay, "the weight decay of AdamW (default 0)"),
        REAL("max-grad-norm", max_grad_norm,
             "the largest norm that the gradient may have (default 0: any; with --init-from: 1)"),
        REAL("label-smoothing", label_smoothing,
             "the share of the target's probability that is spread over the vocabulary (default 0.1, for text 0)"),
        REAL("dropout", dropout,
             "the dropout of embeddings and sublayers (default: the preset's; with --text: 0.1; with --init-from: what "
             "the "
             "model's config.json says, as its architecture names it)"),
        REAL("attention-dropout", attention_dropout,
             "the dropout of attention weights (default 0; with --init-from: the model's)"),
        REAL("activation-dropout", activation_dropout,
             "the dropout inside the feed-forward layers (default 0; with --init-from: the model's)"),
        WHOLE("seed", seed, "the seed of all random numbers (default 1)"),
        COUNT("logging-steps", logging_steps, "report every N updates (default 50)"),
        COUNT("eval-steps", eval_steps, "validate and save a checkpoint every N updates (default 500)"),
        WHOLE("patience", patience,
              "stop when N validations in a row have found no better model (default 10; 0: never)"),
        WHOLE("average", average, "at the end, try the mean of the parameters of the last N validations (default 5)"),
        FLAG("keep-average", keep_average,
             "keep that mean whether validation finds it better or not, and without validation too"),
        COUNT("valid-beam-size", valid_beam_size, "the beam width of validation (default 1)"),
        CHOICE("valid-tokenize", valid_tokenize, "13a|none|char", "what BLEU counts as words (default 13a)"),
        FLAG("valid-lowercase", valid_lowercase, "convert to lower case before BLEU and chrF2 are measured"),
        CHOICE("best-metric", best_metric, "bleu|ppl",
               "what the best model is chosen by (default bleu, and ppl while BLEU is below 1)"),
        CHOICE("save-dtype", save_dtype, "f32|f16|bf16", "the number format of model.safetensors (default f32)"),
    };
    _Static_assert(CLI_COUNT(table) <= TRAIN_OPTIONS, "the table of options is too long");
    memcpy(options, table, sizeof(table));
    return CLI_COUNT(table);
}
