/* Default values of a training run's options: from the preset, then from other options. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "train/train.h"

/* base and big: "Attention Is All You Need", table 3, with batches for millions of pairs. The small presets have
 * smaller batches for small corpora. */
static const struct {
    int width, heads, feed_forward, encoder_layers, decoder_layers, warmup, batch_tokens;
    double dropout;
} PRESETS[] = {
    {128, 4, 256, 4, 4, 2000, 1024, 0.3},
    {256, 8, 1024, 3, 3, 2000, 1024, 0.2},
    {512, 8, 2048, 6, 6, 4000, 4096, 0.1},
    {1024, 16, 4096, 6, 6, 4000, 4096, 0.3},
};

enum { MAX_STEPS = 100000 };

static void set_default(int *value, int otherwise) {
    if (*value < 0)
        *value = otherwise;
}

/* Letters, digits, '-' and '_'; a language is optional. */
static bool is_code(const char *code) {
    return !code || (*code && !code[strspn(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")]);
}

static int check_optimizer(const train_recipe *r, const cli_syntax *syntax) {
    if (!(r->learning_rate > 0))
        return cli_usage_error(syntax, "--learning-rate is %g: give a number above 0", r->learning_rate);
    if (!(r->epsilon >= 1e-37)) /* the smallest float */
        return cli_usage_error(syntax, "--epsilon is %g: give at least 1e-37", r->epsilon);
    if (r->weight_decay < 0)
        return cli_usage_error(syntax, "--weight-decay is %g: give at least 0", r->weight_decay);
    if (r->max_grad_norm < 0)
        return cli_usage_error(syntax, "--max-grad-norm is %g: give at least 0", r->max_grad_norm);
    return CLI_CONTINUE;
}

static int check(const train_recipe *r, const cli_syntax *syntax) {
    const struct {
        const char *name;
        double value;
    } shares[] = {{"label-smoothing", r->label_smoothing},
                  {"dropout", r->dropout},
                  {"attention-dropout", r->attention_dropout},
                  {"activation-dropout", r->activation_dropout},
                  {"subword-alpha", r->subword_alpha}},
      betas[] = {{"beta1", r->beta1}, {"beta2", r->beta2}};
    for (size_t i = 0; i < CLI_COUNT(shares); i++)
        if (!(shares[i].value >= 0 && (float)shares[i].value < 1)) /* the library's options are floats */
            return cli_usage_error(syntax, "--%s is %g: give a number from 0 to below 1", shares[i].name,
                                   shares[i].value);
    for (size_t i = 0; i < CLI_COUNT(betas); i++) /* 0 is the library's default */
        if (!(betas[i].value > 0 && betas[i].value < 1))
            return cli_usage_error(syntax, "--%s is %g: give a number above 0 and below 1", betas[i].name,
                                   betas[i].value);
    if (!is_code(r->source_language) || !is_code(r->target_language))
        return cli_usage_error(syntax, "--%s is '%s': give the code of a language, such as de or pt-BR",
                               is_code(r->source_language) ? "target-lang" : "source-lang",
                               is_code(r->source_language) ? r->target_language : r->source_language);
    if (r->width % r->heads != 0)
        return cli_usage_error(syntax, "--width %d is no multiple of --heads %d: give a multiple", r->width, r->heads);
    if (train_is_lm(r) && r->width / r->heads % 2 != 0 && r->family == FAMILY_LLAMA)
        return cli_usage_error(syntax, "--width %d gives --heads %d an odd head width: RoPE needs an even one",
                               r->width, r->heads);
    if (r->heads % r->kv_heads != 0 || (r->kv_heads != r->heads && (!train_is_lm(r) || r->family == FAMILY_GPT)))
        return cli_usage_error(syntax, "--kv-heads %d must divide --heads %d, and is for --family llama", r->kv_heads,
                               r->heads);
    if (!train_is_lm(r) && r->width % 2 != 0)
        return cli_usage_error(syntax, "--width %d is odd: give an even one, positions are pairs of sine and cosine",
                               r->width);
    const int code = check_optimizer(r, syntax);
    if (code != CLI_CONTINUE)
        return code;
    if (r->keep_average && r->average < 2)
        return cli_usage_error(syntax, "--keep-average needs an average of 2 at least: --average is %d", r->average);
    if (!(r->character_coverage >= 0.98 && r->character_coverage <= 1))
        return cli_usage_error(syntax, "--character-coverage is %g: give a number from 0.98 to 1",
                               r->character_coverage);
    if (r->valid_beam_size > TFM_MAX_BEAM_SIZE) /* earlier than at the first validation */
        return cli_usage_error(syntax, "--valid-beam-size is %d: give a number from 1 to %d", r->valid_beam_size,
                               TFM_MAX_BEAM_SIZE);
    if (!r->init_from && train_is_lm(r) && r->seq_len > r->max_positions)
        return cli_usage_error(syntax, "--seq-len %d is more than --max-positions %d: give at most that", r->seq_len,
                               r->max_positions);
    if (!r->init_from && !train_is_lm(r) && r->max_length > r->max_positions)
        return cli_usage_error(syntax, "--max-length %d is more than --max-positions %d: give at most that",
                               r->max_length, r->max_positions);
    return CLI_CONTINUE;
}

/* Rounds numbers to their digits in the file, so that a resumed run has the same bits. */
static void round_reals(train_recipe *r) {
    cli_option options[TRAIN_OPTIONS];
    const size_t count = train_recipe_options(r, options);
    char text[64];
    for (size_t i = TRAIN_UNSAVED; i < count; i++)
        if (options[i].kind == CLI_DOUBLE) {
            double *value = options[i].value;
            snprintf(text, sizeof(text), "%.*g", TRAIN_DIGITS, *value);
            *value = strtod(text, NULL);
        }
}

static void set_real(double *value, double otherwise) {
    if (isnan(*value))
        *value = otherwise;
}

/* Defaults of fine-tuning: a small learning rate, and the model's dropout. An unreadable directory is refused later. */
static void settle_init_from(train_recipe *r) {
    tfm_model_info info = {0};
    const bool open = isnan(r->dropout) || isnan(r->attention_dropout) || isnan(r->activation_dropout);
    if (open && tfm_model_read_info(&info, r->init_from, &(tfm_model_options){.no_tokenizer = true}) != TFM_OK)
        info = (tfm_model_info){.dropout = 0};
    set_real(&r->dropout, info.dropout);
    set_real(&r->attention_dropout, info.attention_dropout);
    set_real(&r->activation_dropout, info.activation_dropout);
    set_real(&r->learning_rate, 5e-5);
    set_real(&r->max_grad_norm, 1);
}

/* Defaults of transformers' TrainingArguments. The number of updates is computed from --epochs once the data is open
 * (train_steps_of_epochs). */
static void settle_chat(train_recipe *r) {
    if (r->max_steps < 0)
        set_default(&r->epochs, 3);
    r->steps_of_epochs = r->max_steps < 0 && r->epochs > 0;
    set_default(&r->batch_tokens, 2048);
    set_default(&r->lr_scheduler_type, TFM_LR_SCHEDULER_LINEAR);
    set_default(&r->warmup_steps, 0);
    set_real(&r->beta2, 0.999);
    set_real(&r->epsilon, 1e-8);
}

int train_recipe_settle(train_recipe *r, const cli_syntax *syntax) {
    const int warmup = PRESETS[r->preset].warmup;
    if (r->init_from)
        settle_init_from(r);
    if (train_is_lm(r))
        train_lm_settle(r);
    if (train_is_chat(r))
        settle_chat(r);
    set_default(&r->max_steps, MAX_STEPS);
    set_default(&r->epochs, 0);
    set_default(&r->lr_scheduler_type, TFM_LR_SCHEDULER_INVERSE_SQRT);
    set_real(&r->beta2, 0.98);
    set_real(&r->epsilon, 1e-9);
    set_default(&r->seq_len, 256);
    set_default(&r->max_positions, 512);
    set_default(&r->activation, 0);
    set_real(&r->label_smoothing, 0.1);
    set_default(&r->width, PRESETS[r->preset].width);
    set_default(&r->heads, PRESETS[r->preset].heads);
    set_default(&r->kv_heads, r->heads);
    set_default(&r->ffn_dim, PRESETS[r->preset].feed_forward);
    set_default(&r->encoder_layers, PRESETS[r->preset].encoder_layers);
    set_default(&r->decoder_layers, PRESETS[r->preset].decoder_layers);
    set_default(&r->batch_tokens, PRESETS[r->preset].batch_tokens);
    set_default(&r->gradient_accumulation_steps, 1);
    set_default(&r->warmup_steps, warmup < r->max_steps / 4 ? warmup : r->max_steps / 4);
    set_real(&r->dropout, PRESETS[r->preset].dropout);
    set_real(&r->attention_dropout, 0);
    set_real(&r->activation_dropout, 0);
    set_real(&r->max_grad_norm, 0);
    set_real(&r->learning_rate, 1 / sqrt((double)r->width * warmup)); /* section 5.3 */
    round_reals(r);
    return check(r, syntax);
}

tfm_status train_steps_of_epochs(train_recipe *r, tfm_data *data) {
    tfm_batch batch;
    tfm_status status = r->steps_of_epochs ? tfm_data_next(data, &batch) : TFM_OK;
    const tfm_data_counts counts = tfm_data_count(data);
    if (status != TFM_OK || !r->steps_of_epochs)
        return status;
    const double steps = ceil((double)counts.batches * r->epochs / r->gradient_accumulation_steps);
    if (counts.complete && steps < MAX_STEPS)
        r->max_steps = steps > 1 ? (int)steps : 1;
    return tfm_data_seek(data, (tfm_data_position){0});
}
