/* Files that a training run reads again on resume. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/base.h"
#include "fuzz.h"
#include "model/weights/safetensors.h"
#include "tfm/data.h"
#include "tfm/model.h"
#include "tfm/train.h"
#include "train/trainer.h"

/* Until the program exits. */
static tfm_data *data_of_run;
static tfm_trainer *trainer_of_run;

static void open_run(bool with_trainer) {
    static tfm_tokenizer *tokenizer;
    static tfm_context *ctx;
    static tfm_model *model;
    static const char TEXT[] = "the bird\tthe bird\nthe cat\tthe cat\none two\tone two\n";
    static char *path;
    if (!data_of_run) {
        char *dir = fuzz_source("tests/golden/prenorm-embedding-norm");
        path = strdup(fuzz_file("text.tsv", TEXT, sizeof(TEXT) - 1));
        if (tfm_tokenizer_open(&tokenizer, dir) != TFM_OK ||
            tfm_data_open(&data_of_run, tokenizer, path, NULL, &(tfm_data_options){.buffer_size = 1}) != TFM_OK)
            abort();
        free(dir);
    }
    if (trainer_of_run || !with_trainer)
        return;
    const tfm_model_shape shape = {.width = 4,
                                   .heads = 1,
                                   .ffn_dim = 4,
                                   .encoder_layers = 1,
                                   .decoder_layers = 1,
                                   .source_vocab_size = 20,
                                   .max_positions = 8,
                                   .pad_id = 19,
                                   .start_id = 19,
                                   .activation = TFM_RELU};
    tfm_trainer_options options = {0};
    tfm_trainer_paper(&options);
    if (tfm_context_open(&ctx, NULL) != TFM_OK || tfm_model_new(&model, ctx, &shape) != TFM_OK ||
        tfm_trainer_new(&trainer_of_run, model, &options) != TFM_OK)
        abort();
}

/* A position in the data: six 8-byte integers. */
static bool position(const uint8_t *data, size_t size) {
    tfm_data_position at = {0};
    tfm_batch batch;
    open_run(false);
    memcpy(&at, data, size < sizeof(at) ? size : sizeof(at));
    const bool good = tfm_data_seek(data_of_run, at) == TFM_OK;
    if (good)
        for (int i = 0; i < 4 && tfm_data_next(data_of_run, &batch) == TFM_OK; i++)
            fuzz_touch(batch.sources, (size_t)batch.count * (size_t)batch.source_width * sizeof(*batch.sources));
    return good;
}

/* The header of a checkpoint, completed by zero parameters and a valid checksum, else the reader stops early. */
static bool checkpoint(const uint8_t *data, size_t size) {
    open_run(true);
    const size_t numbers = 3 * (size_t)trainer_of_run->count * sizeof(float); /* the parameters and two moments */
    const size_t bytes = 8 + size + numbers;
    uint8_t *sealed = calloc(bytes + TFM__CHECKSUM_BYTES, 1);
    if (!sealed)
        abort();
    for (int i = 0; i < 8; i++)
        sealed[i] = (uint8_t)((uint64_t)size >> 8 * i);
    if (size)
        memcpy(sealed + 8, data, size);
    tfm__checksum_encode(sealed + bytes, tfm__hash64(sealed, bytes, 0));
    const char *path = fuzz_file("checkpoint.safetensors", sealed, bytes + TFM__CHECKSUM_BYTES);
    const bool good = tfm_trainer_load(trainer_of_run, data_of_run, path) == TFM_OK;
    free(sealed);
    return good;
}

/* The header of a checkpoint written by the library. */
static void checkpoint_seed(const char *path) {
    uint8_t size[8];
    open_run(true);
    if (tfm_trainer_set_note(trainer_of_run, "{\"a\":1}") != TFM_OK ||
        tfm_trainer_save(trainer_of_run, data_of_run, path) != TFM_OK)
        abort();
    FILE *file = fopen(path, "r+b");
    if (!file || fread(size, 1, 8, file) != 8)
        abort();
    char *header = calloc(size[0] + 256u * size[1], 1);
    const size_t bytes = header ? fread(header, 1, size[0] + 256u * size[1], file) : 0;
    rewind(file);
    if (fwrite(header, 1, bytes, file) != bytes || fflush(file) != 0 || ftruncate(fileno(file), (off_t)bytes) != 0)
        abort();
    fclose(file);
    free(header);
}

const fuzz_target fuzz_train[] = {
    {"position", position, NULL}, {"checkpoint", checkpoint, checkpoint_seed}, {NULL, NULL, NULL}};
