/* Trains a small translation model on two files, a line of one for each of the other, and translates a sentence with
 * it.
 *
 *     cc train.c $(pkg-config --cflags --libs tfm) -o train
 *     ./number_words numbers
 *     ./train model numbers/train.de numbers/train.en 600 "vierhundertelf"
 *
 * `tfm train` is the same with validation, checkpoints, a log and every choice an option. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tfm/tfm.h>

enum { REPORT_EVERY = 50 };

static bool print(void *user, size_t line, int best, const char *text, double score) {
    (void)user, (void)line, (void)best, (void)score;
    return puts(text) >= 0;
}

/* The paper's encoder-decoder, small, with new parameters. The ids that it needs are the tokenizer's. */
static tfm_status create(tfm_model **model, tfm_context *ctx, const tfm_tokenizer *tokenizer) {
    const tfm_tokenizer_info text = *tfm_tokenizer_get_info(tokenizer);
    const tfm_model_shape shape = {.width = 128,
                                   .heads = 4,
                                   .ffn_dim = 256,
                                   .encoder_layers = 2,
                                   .decoder_layers = 2,
                                   .source_vocab_size = text.source_size, /* the target's too: one for both */
                                   .max_positions = 256,
                                   .pad_id = text.target_pad,
                                   .eos_id = text.target_eos,
                                   .start_id = text.target_pad, /* what Marian models begin with */
                                   .activation = TFM_RELU,
                                   .seed = 1};
    return tfm_model_new(model, ctx, &shape);
}

static tfm_status learn(tfm_trainer *trainer, tfm_data *data, int64_t updates) {
    for (int64_t i = 1; i <= updates; i++) {
        const bool say = i % REPORT_EVERY == 0;
        tfm_batch batch;
        tfm_update_report report; /* to ask for it waits for the device: now and then is enough */
        tfm_status status = tfm_data_next(data, &batch);
        if (status == TFM_OK)
            status = tfm_trainer_update(trainer, say ? &report : NULL, &batch, 1);
        if (status != TFM_OK)
            return status;
        if (say)
            fprintf(stderr, "update %lld: loss %.3f\n", (long long)report.update, report.loss);
    }
    return TFM_OK;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: train DIR SOURCE TARGET UPDATES TEXT\n");
        return 2;
    }
    const char *dir = argv[1], *source = argv[2], *target = argv[3];
    const int64_t updates = atoll(argv[4]);
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
        perror(dir);
        return 1;
    }
    tfm_context *ctx = NULL;
    tfm_tokenizer *tokenizer = NULL;
    tfm_model *model = NULL;
    tfm_trainer *trainer = NULL;
    tfm_data *data = NULL;
    /* For a language, tfm_trainer_paper(&options) sets dropout and label smoothing; numbers need neither. */
    const tfm_trainer_options options = {
        .lr_scheduler_type = TFM_LR_SCHEDULER_COSINE,
        .learning_rate = 2e-3,
        .warmup_steps = updates / 6 > 0 ? updates / 6 : 1,
        .max_steps = updates,
    };
    /* The most pieces that these words give. A language does well with 0: from 500 to 8000, by the size of the text. */
    const tfm_vocabulary_options pieces = {.vocab_size = 240};
    const tfm_data_options order = {.batch_tokens = 1024, .seed = 1};
    bool done = tfm_context_open(&ctx, NULL) == TFM_OK && tfm_tokenizer_train(dir, source, target, &pieces) == TFM_OK &&
                tfm_tokenizer_open(&tokenizer, dir) == TFM_OK && create(&model, ctx, tokenizer) == TFM_OK &&
                tfm_model_open_tokenizer(model, dir) == TFM_OK &&
                tfm_trainer_new(&trainer, model, &options) == TFM_OK &&
                tfm_data_open(&data, tokenizer, source, target, &order) == TFM_OK &&
                learn(trainer, data, updates) == TFM_OK && tfm_model_save(model, dir, TFM_F16) == TFM_OK &&
                tfm_translate(model, (const char *[]){argv[5]}, 1, NULL, print, NULL) == TFM_OK;
    if (!done)
        fprintf(stderr, "%s\n", tfm_error_message());
    tfm_data_free(&data);
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
    tfm_tokenizer_free(&tokenizer);
    tfm_context_free(&ctx);
    return done ? 0 : 1;
}
