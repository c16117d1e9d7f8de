/* Warns of too little text for a new model. */
#include <inttypes.h>
#include <sys/stat.h>
#include "train/train.h"

/* Threshold of parameters per token. With the preset small, 2,000 pairs of Multi30k have 140 parameters per token (5.8
 * million and 41,546) and give BLEU 0.06; all 29,000 have 17 (7.6 million and 443,019). A decoder-only model of 0.6
 * million parameters, on 13.7 kB of English (107 per token), has its best perplexity, 126, after 250 updates and then
 * overfits; on 110 kB (13 per token) it has 48 after 400 and still improves. Smaller models are for toy tasks. */
enum { PARAMETERS_PER_TOKEN = 20, LEAST_PARAMETERS = 100000 };

/* Bytes of targets, or texts; half of TSV files. */
static double corpus_bytes(const train_recipe *o) {
    const cli_strings *files = o->tsvs.count > 0 ? &o->tsvs : train_is_lm(o) ? train_text_files(o) : &o->targets;
    struct stat info;
    double bytes = 0;
    for (size_t i = 0; i < files->count; i++)
        bytes += stat(files->items[i], &info) == 0 ? (double)info.st_size : 0;
    return o->tsvs.count > 0 ? bytes / 2 : bytes;
}

/* Bytes per token, by the lines of validation. */
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
                "from scratch, which needs at least %.0f: give more text or a smaller model (--preset tiny, --width, "
                "--decoder-layers), or fine-tune a trained model (--init-from DIR)",
                r->lines, train_unit(o, (uint64_t)r->lines), tokens, 1e-6 * parameters,
                parameters / PARAMETERS_PER_TOKEN);
    return CLI_OK;
}

void train_lm_warn(const train_recipe *o, uint64_t texts) {
    if (o->separator && *o->separator && texts <= o->texts.count)
        train_print("warning: \"%s\" does not occur in the text, so each file is one text: see --separator",
                    o->separator);
}
