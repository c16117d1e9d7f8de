/* Whether there is text enough for a new model. */
#include <inttypes.h>
#include <sys/stat.h>
#include "train/train.h"

/* Between what is known to be too little and what is not: of the preset small, 2,000 pairs of Multi30k have a token for
 * 140 parameters (41,546 and 5.8 million) and give BLEU 0.06; all 29,000 have one for 17 (443,019 and 7.6 million).
 * Below a million parameters models are for tasks that are learned from little text. */
enum { PARAMETERS_PER_TOKEN = 20, LEAST_PARAMETERS = 1000000 };

/* The bytes that are learned to be written: of targets, or texts; of TSV files half of all. */
static double corpus_bytes(const train_recipe *o) {
    const cli_strings *files = o->tsvs.count > 0 ? &o->tsvs : train_is_lm(o) ? &o->texts : &o->targets;
    struct stat info;
    double bytes = 0;
    for (size_t i = 0; i < files->count; i++)
        bytes += stat(files->items[i], &info) == 0 ? (double)info.st_size : 0;
    return o->tsvs.count > 0 ? bytes / 2 : bytes;
}

/* Bytes that a token has, by the lines of validation. */
static double bytes_per_token(const train_run *r) {
    enum { USUAL = 4, MOST = 200 };
    double bytes = 0, tokens = 0;
    for (size_t i = 0; i < r->valid.count && i < MOST; i++) {
        int32_t *ids = NULL;
        size_t count = 0;
        if (tfm_tokenizer_encode(r->tokenizer, &ids, &count, TFM_TARGET, r->valid.targets[i],
                                 r->valid.target_bytes[i]) == TFM_OK) {
            tokens += (double)count;
            bytes += (double)r->valid.target_bytes[i] + 1;
        }
        tfm_ids_free(&ids);
    }
    return tokens > 0 ? bytes / tokens : USUAL;
}

int train_warn_corpus_size(train_run *r) {
    const train_recipe *o = &r->recipe;
    const double parameters = (double)tfm_model_get_info(r->model)->parameters;
    const double tokens = corpus_bytes(o) / bytes_per_token(r);
    if (o->init_from || parameters < LEAST_PARAMETERS || tokens * PARAMETERS_PER_TOKEN >= parameters)
        return CLI_OK;
    if (r->lines < 0 && train_count_all(o, &r->lines) != CLI_OK)
        return CLI_FAILED;
    train_print("warning: %" PRId64 " %s, about %.0f tokens, are too few to train a model of %.1f million parameters "
                "from scratch, which takes at least %.0f: give more text or a smaller model (--preset tiny, --width, "
                "--decoder-layers), or fine-tune one that is trained already (--init-from DIR)",
                r->lines, train_unit(o, (uint64_t)r->lines), tokens, 1e-6 * parameters,
                parameters / PARAMETERS_PER_TOKEN);
    return CLI_OK;
}

void train_lm_warn(const train_recipe *o, uint64_t texts) {
    if (o->separator && *o->separator && texts <= o->texts.count)
        train_print("warning: \"%s\" is nowhere in the text, so each file is one text: see --separator", o->separator);
}
