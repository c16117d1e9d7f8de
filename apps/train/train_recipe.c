/* The options of a training run: one table for the command line, the recipe file, and the help. */
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
        .max_steps = -1,
        .epochs = -1,
        .batch_tokens = -1,
        .gradient_accumulation_steps = -1,
        .warmup_steps = -1,
        .learning_rate = NAN,
        .lr_scheduler_type = -1,
        .beta1 = 0.9,
        .beta2 = NAN,
        .epsilon = NAN,
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
    cli_strings *const lists[] = {&recipe->sources, &recipe->targets, &recipe->tsvs, &recipe->texts, &recipe->chats};
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
        TEXT('o', "out", out, "DIR", "the directory of the run and its model, created if missing"),
        TEXT(0, "resume", resume, "DIR",
             "resume the run of this directory. Other options change its recipe. They cannot change the model, the "
             "vocabulary, the training text (its files may move), --seed, --batch-tokens, --max-length, --buffer-size "
             "and --hold-out"),
        CLI_DEVICES(&r->device),
        COUNT("workers", workers,
              "replicas on each device, which share the micro-batches of each update, 1 to 16 (default 1)"),
        FLAG("shard-optimizer", shard_optimizer,
             "shard the optimizer state over devices or ranks (ZeRO-1), also in checkpoint files: less memory, "
             "bit-identical results; not stored in recipe.json"),
        FLAG("gradient-checkpointing", gradient_checkpointing,
             "less memory, more time: recompute the activations of each block in the backward pass. Results are "
             "bit-identical, unless a batch would be split for lack of memory without it; not stored in recipe.json"),
        FILES('s', "src", sources, "source lines; repeatable, each with a --tgt"),
        FILES('t', "tgt", targets, "their translations, line by line, in the order of --src"),
        FILES(0, "tsv", tsvs, "a file of lines `source TAB target` instead of --src and --tgt; repeatable"),
        TEXT(0, "valid-src", valid_source, "FILE", "source lines of the validation set"),
        TEXT(0, "valid-tgt", valid_target, "FILE", "their translations, line by line"),
        TEXT(0, "valid-tsv", valid_tsv, "FILE",
             "one file of lines `source TAB target` instead of --valid-src and --valid-tgt"),
        FILES(0, "text", texts,
              "instead of pairs: train a decoder-only model on this plain text, each line a separate text (but see "
              "--separator and --jsonl); repeatable"),
        TEXT(0, "valid-text", valid_text, "FILE", "the validation text, scored by perplexity"),
        FILES(0, "chat", chats,
              "instead of pairs: fine-tune the language model of --init-from on these conversations, JSON lines with "
              "`messages`, `conversations` (ShareGPT), `instruction` and `output` (Alpaca), or `prompt` and "
              "`completion`; only the assistant's tokens are learned; repeatable"),
        TEXT(0, "valid-chat", valid_chat, "FILE", "the validation conversations, scored by perplexity"),
        TEXT(0, "separator", separator, "TEXT",
             "with --text: texts of several lines end at this string, such as '<|endoftext|>'; '' is a blank line"),
        FLAG("jsonl", jsonl,
             "with --text: each line is a JSON object with a text in \"text\" (default if all files are named "
             "*.jsonl)"),
        WHOLE("hold-out", hold_out,
              "without validation files: hold out about N pairs, or lines of text, evenly over the training files, at "
              "most one of 20 (default 500; 0: no validation)"),
        FLAG("strict", strict, "stop at the first bad pair and name its line (default: skip and count bad pairs)"),
        COUNT(
            "seq-len", seq_len,
            "with --text: block length in tokens; texts with EOS are shuffled, concatenated and cut into blocks, with "
            "attention across texts (default 256, or the maximum of --init-from if less); with --chat: longer "
            "conversations are skipped (default 1024)"),
        COUNT("max-length", max_length, "skip pairs with more tokens on a side (default 256)"),
        COUNT("buffer-size", buffer_size, "pairs, or lines of text, in the shuffle buffer (default 200000)"),
        TEXT(0, "source-lang", source_language, "CODE",
             "the source language, such as de: stored with a new vocabulary, for tfm translate --split; with "
             "--init-from, a source language of the model"),
        TEXT(0, "target-lang", target_language, "CODE",
             "the target language, such as en: stored with a new vocabulary; with --init-from, a target language of "
             "the model"),
        TEXT(0, "init-from", init_from, "DIR",
             "fine-tune the model of this directory or GGUF file, with its tokenizer; blocks are dequantized to fp32. "
             "Defaults become --learning-rate 0.00005, "
             "--max-grad-norm 1, and the dropouts of config.json. Precedence: command line, recipe.json of --resume, "
             "these defaults, defaults of training from scratch"),
        TEXT(0, "freeze", freeze, "PATTERNS",
             "parameters to freeze: comma-separated patterns such as 'model.encoder.*' of their names in the "
             "model.safetensors of --init-from, or of this run"),
        TEXT(0, "vocab", vocabulary, "DIR", "use the tokenizer of this directory instead of training one"),
        WHOLE("vocab-size", vocabulary_size,
              "the number of pieces in a new vocabulary (default 0: one per 250 bytes of text, from 500 to 8000; fewer "
              "if the text does not yield as many, more if it has more different characters)"),
        COUNT("vocab-lines", vocabulary_lines, "train a new vocabulary on at most N lines (default 1000000)"),
        FLAG("separate-vocab", separate, "train a vocabulary for each side (default: one for both)"),
        FLAG("unigram", unigram, "train a SentencePiece unigram model instead of byte-pair encoding"),
        REAL("subword-alpha", subword_alpha,
             "subword regularization: skip each merge with this probability (BPE-dropout; 0.1 is usual), or sample "
             "unigram segmentations with their probability to this power (default 0: the best segmentation)"),
        REAL("character-coverage", character_coverage,
             "the fraction of the text's characters that the vocabulary covers, from 0.98 to 1 (default 1)"),
        CHOICE("normalization", normalization, "nmt_nfkc|nfkc|nmt_nfkc_cf|nfkc_cf|identity",
               "SentencePiece's normalization rule; _cf converts to lower case (default nmt_nfkc)"),
        CHOICE("family", family, "gpt|llama",
               "with --text: architecture of a new model. gpt (default): as GPT-2, learned positions; llama: RoPE, "
               "RMSNorm "
               "and gated feed-forward layers"),
        CHOICE("preset", preset, "tiny|small|base|big",
               "default sizes (default small), which other options change. "
               "tiny: width 128, 4+4 layers, 4 heads, ffn-dim 256, 2000 warmup-steps, 1024 batch-tokens, dropout 0.3; "
               "small: width 256, 3+3 layers, 8 heads, ffn-dim 1024, 2000 warmup-steps, 1024 batch-tokens, dropout "
               "0.2; "
               "base: width 512, 6+6 layers, 8 heads, ffn-dim 2048, 4000 warmup-steps, 4096 batch-tokens, dropout 0.1; "
               "big: width 1024, 6+6 layers, 16 heads, ffn-dim 4096, 4000 warmup-steps, 4096 batch-tokens, dropout "
               "0.3"),
        COUNT("width", width, "the width of the model (default: the preset's)"),
        COUNT("heads", heads, "the number of attention heads (default: the preset's)"),
        COUNT("kv-heads", kv_heads, "with --family llama: the number of KV heads (default: --heads)"),
        COUNT("ffn-dim", ffn_dim, "the width inside the feed-forward layers (default: the preset's)"),
        COUNT("encoder-layers", encoder_layers, "the number of encoder layers (default: the preset's)"),
        COUNT("decoder-layers", decoder_layers, "the number of decoder layers (default: the preset's)"),
        COUNT("max-positions", max_positions,
              "maximum positions of the model in tokens (default 512; with --text: --seq-len)"),
        CHOICE("activation", activation, "relu|gelu|gelu-tanh|silu",
               "the activation function of the feed-forward layers (default relu; gpt: gelu-tanh; llama: silu)"),
        CHOICE("init", init, "xavier|gaussian|kaiming", "initialization of weight matrices (default xavier)"),
        FLAG("pre-norm", pre_norm, "put the norms before the layers (transformers cannot read such a Marian model)"),
        COUNT("max-steps", max_steps, "stop after N updates (default 100000; with --chat: those of --epochs)"),
        WHOLE("epochs", epochs,
              "stop after N passes over the training text, or after --max-steps if that is earlier (default 0: only "
              "--max-steps; with --chat: 3). The learning rate schedule depends on --max-steps alone"),
        COUNT("batch-tokens", batch_tokens,
              "maximum tokens in a micro-batch, of the longer side with padding; of text, whole blocks (default: the "
              "preset's; with --chat: 2048)"),
        COUNT("gradient-accumulation-steps", gradient_accumulation_steps,
              "micro-batches in an update, shared by devices or ranks (default 1, or the number of replicas)"),
        CHOICE("precision", precision, "fp32|bf16",
               "bf16: GEMMs of linear layers round their inputs to bf16, forward and backward, on devices with bf16 "
               "GEMM; accumulation, parameters, optimizer state and all else stay fp32 (default fp32)"),
        CHOICE("comm-dtype", comm_dtype, "f32|f16|bf16",
               "dtype of gradients in all-reduce (default f32); accumulation is f32"),
        TEXT(0, "balance", balance, "RATIO",
             "load balancing: each device's or rank's share of the tokens, comma-separated, such as 3,1 (default: "
             "equal, whole micro-batches round-robin)"),
        CHOICE("lr-scheduler-type", lr_scheduler_type, "inverse-sqrt|linear|cosine|constant",
               "learning rate schedule after warm-up; linear and cosine reach 0 at --max-steps (default "
               "inverse-sqrt; with --chat: linear)"),
        WHOLE("warmup-steps", warmup_steps,
              "updates of linear warm-up (default: the preset's, at most a quarter of --max-steps; with --chat: 0)"),
        REAL("learning-rate", learning_rate,
             "the peak learning rate (default: the paper's, 1 / sqrt(width x the preset's warm-up); with --init-from: "
             "0.00005)"),
        REAL("beta1", beta1, "beta1 of Adam, above 0 and below 1 (default 0.9)"),
        REAL("beta2", beta2, "beta2 of Adam, above 0 and below 1 (default 0.98; with --chat: 0.999)"),
        REAL("epsilon", epsilon, "epsilon of Adam (default 1e-9; with --chat: 1e-8)"),
        REAL("weight-decay", weight_decay, "the weight decay of AdamW (default 0)"),
        REAL("max-grad-norm", max_grad_norm,
             "clip the gradient norm to this (default 0: no clipping; with --init-from: 1)"),
        REAL("label-smoothing", label_smoothing, "label smoothing (default 0.1, with --text and --chat 0)"),
        REAL("dropout", dropout,
             "the dropout of embeddings and sublayers (default: the preset's; with --text: 0.1; with --init-from: from "
             "config.json)"),
        REAL("attention-dropout", attention_dropout,
             "the dropout of attention weights (default 0; with --init-from: the model's)"),
        REAL("activation-dropout", activation_dropout,
             "the dropout inside the feed-forward layers (default 0; with --init-from: the model's)"),
        WHOLE("seed", seed, "the seed of all random numbers (default 1)"),
        COUNT("logging-steps", logging_steps, "report every N updates (default 50)"),
        COUNT("eval-steps", eval_steps, "validate and save a checkpoint every N updates (default 500)"),
        WHOLE("patience", patience, "stop after N validations in a row without a better model (default 10; 0: never)"),
        WHOLE("average", average, "at the end, average the parameters of the last N validations (default 5)"),
        FLAG("keep-average", keep_average, "save the average even if it is not better, and without validation"),
        COUNT("valid-beam-size", valid_beam_size, "the beam width of validation (default 1)"),
        CHOICE("valid-tokenize", valid_tokenize, "13a|none|char", "BLEU's tokenizer (default 13a)"),
        FLAG("valid-lowercase", valid_lowercase, "convert to lower case before BLEU and chrF2 are measured"),
        CHOICE("best-metric", best_metric, "bleu|ppl",
               "the metric that selects the best model (default bleu, and ppl while BLEU is below 1)"),
        CHOICE("save-dtype", save_dtype, "f32|f16|bf16", "dtype of model.safetensors (default f32)"),
    };
    _Static_assert(CLI_COUNT(table) <= TRAIN_OPTIONS, "the table of options is too long");
    memcpy(options, table, sizeof(table));
    return CLI_COUNT(table);
}
