/* Whether there is text enough for a new model. */
#include <inttypes.h>
#include <sys/stat.h>
#include "train.h"

/* Fewer tokens than one for 20 parameters are learned by heart: Multi30k has 1 for 16 of the preset small and is
 * learned well, 2,000 pairs have 1 for 140 and give BLEU 0. Below a million parameters models are for tasks that are
 * learned from little text. */
enum { PARAMETERS_PER_TOKEN = 20, LEAST_PARAMETERS = 1000000 };

/* The bytes that are learned to be written: of targets, or texts; of TSV files half of all. */
static double corpus_bytes(const train_recipe *o) {
    const cli_texts *files = o->tsvs.count > 0 ? &o->tsvs : train_of_texts(o) ? &o->texts : &o->targets;
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

int train_size_warn(train_run *r) {
    const train_recipe *o = &r->recipe;
    const double parameters = (double)tfm_model_get_info(r->model)->parameters;
    const double tokens = corpus_bytes(o) / bytes_per_token(r);
    if (o->from || parameters < LEAST_PARAMETERS || tokens * PARAMETERS_PER_TOKEN >= parameters)
        return CLI_OK;
    if (r->lines < 0 && train_count_all(o, &r->lines) != CLI_OK)
        return CLI_FAILED;
    train_say("warning: %" PRId64 " %s, about %.0f tokens, are too few to train a model of %.1f million parameters "
              "from scratch, which takes at least %.0f: give more text or a smaller model (--preset tiny, --width, "
              "--decoder-layers), or fine-tune one that is trained already (--from DIR)",
              r->lines, train_unit(o, (uint64_t)r->lines), tokens, 1e-6 * parameters,
              parameters / PARAMETERS_PER_TOKEN);
    return CLI_OK;
}
