/* A small workload of a model: batches of several shapes and search methods, to build all programs that it needs. Texts
 * are random ids, since programs depend on sizes only. */
#include "commands/kernels_workload.h"
#include <stdlib.h>
#include <string.h>

enum { LONG_PROMPT = 600, STEPS = 12, LONG_STEPS = 80 };

/* Sentences of a batch, the shortest and the longest. */
static const struct {
    int count, least, most, steps;
} BATCHES[] = {
    {1, 1, 1, STEPS},  {1, 6, 6, STEPS},   {1, 48, 48, LONG_STEPS}, {2, 5, 9, STEPS},
    {3, 4, 17, STEPS}, {16, 3, 40, STEPS}, {28, 3, 12, STEPS},      {64, 2, 60, STEPS},
};

/* The ids of a batch, one text after another. */
typedef struct batch {
    int32_t *ids;
    size_t *counts;
    size_t texts, ids_count;
} batch;

static void batch_free(batch *b) {
    free(b->ids);
    free(b->counts);
    *b = (batch){0};
}

/* Knuth's generator of 64 bits: the same ids in every run. */
static uint32_t random_bits(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* A random id except EOS and padding. Decoder-only models read target ids. */
static int32_t random_token(uint64_t *state, const tfm_model_info *info) {
    const int words = info->encoder_layers > 0 ? info->source_vocab_size : info->target_vocab_size;
    int32_t id;
    do
        id = words > 0 ? (int32_t)(random_bits(state) % (uint32_t)words) : 0;
    while ((id == info->pad_id || id == info->eos_id) && words > 2);
    return id;
}

/* `longest`: maximum length of the model. Source texts end with the EOS of the encoder. */
static int batch_make(batch *b, const tfm_model_info *info, int texts, int least, int most, int longest) {
    uint64_t state = (uint64_t)texts * 1000 + (uint64_t)most;
    *b = (batch){.texts = (size_t)texts};
    most = most < longest ? most : longest;
    least = least < most ? least : most;
    b->ids = calloc((size_t)texts * (size_t)most, sizeof(*b->ids));
    b->counts = calloc((size_t)texts, sizeof(*b->counts));
    if (!b->ids || !b->counts) {
        batch_free(b);
        return cli_fail("out of memory for a batch of %d texts", texts);
    }
    for (int i = 0; i < texts; i++) {
        b->counts[i] = (size_t)(least + (texts > 1 ? i * (most - least) / (texts - 1) : 0));
        for (size_t k = 0; k < b->counts[i]; k++)
            b->ids[b->ids_count++] = random_token(&state, info);
        if (info->encoder_layers > 0 && info->eos_id >= 0)
            b->ids[b->ids_count - 1] = info->eos_id;
    }
    return CLI_OK;
}

/* ---- Translation and generation -------------------------------------------------------------------------------- */

static int search(tfm_model *model, const batch *b, int beam, int steps, bool skip_scores) {
    const tfm_model_info *info = tfm_model_get_info(model);
    const int most = steps < info->max_positions ? steps : info->max_positions;
    const tfm_search_options options = {.beam_size = beam, .max_length = most, .skip_scores = skip_scores};
    tfm_hypotheses found;
    if (tfm_search(model, &found, b->ids, b->counts, b->texts, NULL, NULL, &options) != TFM_OK)
        return cli_fail_library();
    tfm_hypotheses_free(&found);
    return CLI_OK;
}

static int generate(tfm_model *model, const batch *b, const tfm_generate_options *options) {
    tfm_hypotheses found;
    if (tfm_generate_ids(model, &found, b->ids, b->counts, b->texts, options) != TFM_OK)
        return cli_fail_library();
    tfm_hypotheses_free(&found);
    return CLI_OK;
}

/* Greedy, with scores and without, beam search, and sampling. */
static int generate_all_ways(tfm_model *model, const batch *b, int steps) {
    const tfm_generate_options ways[] = {
        {.max_new_tokens = steps},
        {.max_new_tokens = steps, .skip_scores = true},
        {.max_new_tokens = steps, .beam_size = 4},
        {.max_new_tokens = steps,
         .sample = true,
         .temperature = 0.8f,
         .top_k = 20,
         .top_p = 0.9f,
         .repetition_penalty = 1.1f},
        {.max_new_tokens = steps, .sample = true, .temperature = 1.0f},
    };
    int code = CLI_OK;
    for (size_t i = 0; i < CLI_COUNT(ways) && code == CLI_OK; i++)
        code = generate(model, b, &ways[i]);
    return code;
}

int workload_generate(tfm_model *model) {
    const tfm_model_info *info = tfm_model_get_info(model);
    const bool translates = info->encoder_layers > 0;
    const int beam = info->beam_size > 1 ? info->beam_size : 4,
              longest = info->max_positions - (translates ? 0 : STEPS);
    batch b;
    int code = CLI_OK;
    for (size_t i = 0; i < CLI_COUNT(BATCHES) && code == CLI_OK; i++) {
        cli_progress("running batch %zu of %zu", i + 1, CLI_COUNT(BATCHES));
        code = batch_make(&b, info, BATCHES[i].count, BATCHES[i].least, BATCHES[i].most, longest < 1 ? 1 : longest);
        if (code == CLI_OK && translates) {
            code = search(model, &b, 1, BATCHES[i].steps, false);
            code = code == CLI_OK ? search(model, &b, 1, BATCHES[i].steps, true) : code;
            code = code == CLI_OK ? search(model, &b, beam, BATCHES[i].steps, false) : code;
        } else if (code == CLI_OK) {
            code = generate_all_ways(model, &b, BATCHES[i].steps);
        }
        batch_free(&b);
    }
    if (code == CLI_OK && !translates) { /* chunked prefill */
        code = batch_make(&b, info, 1, LONG_PROMPT, LONG_PROMPT, longest < 1 ? 1 : longest);
        if (code == CLI_OK)
            code = generate(model, &b, &(tfm_generate_options){.max_new_tokens = STEPS});
        batch_free(&b);
    }
    return code;
}

/* ---- User's lines ---------------------------------------------------------------------------------------------- */

static bool ignore_translation(void *user, const tfm_translation *t) {
    (void)user;
    (void)t;
    return true;
}

static bool ignore_generation(void *user, const tfm_generation *g) {
    (void)user;
    (void)g;
    return true;
}

static int generate_lines(tfm_model *model, const cli_lines *lines) {
    tfm_prompt *prompts = calloc(lines->count + 1, sizeof(*prompts));
    if (!prompts)
        return cli_fail("out of memory for %zu prompts", lines->count);
    for (size_t i = 0; i < lines->count; i++)
        prompts[i] = (tfm_prompt){.text = lines->text[i], .bytes = lines->bytes[i]};
    const tfm_generate_options ways[] = {{.beam_size = 0}, {.skip_scores = true}, {.beam_size = 4}};
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < CLI_COUNT(ways) && status == TFM_OK; i++)
        status = tfm_generate(model, prompts, lines->count, &ways[i], ignore_generation, NULL);
    free(prompts);
    return status == TFM_OK ? CLI_OK : cli_fail_library();
}

int workload_lines(tfm_model *model, const char *path) {
    cli_lines lines;
    int code = cli_lines_read_all(&lines, "-i", path);
    if (code == CLI_OK && !tfm_model_tokenizer(model))
        code = cli_fail("the model has no tokenizer, so it cannot read the lines of %s: leave -i out", path);
    if (code == CLI_OK && tfm_model_get_info(model)->encoder_layers == 0) {
        code = generate_lines(model, &lines);
    } else if (code == CLI_OK) {
        const tfm_text_options text = {.line_bytes = lines.bytes, .truncate = true};
        const tfm_search_options ways[] = {
            {.beam_size = 1}, {.beam_size = 1, .skip_scores = true}, {.beam_size = 0 /* the model's own */}};
        for (size_t i = 0; i < CLI_COUNT(ways) && code == CLI_OK; i++)
            if (tfm_translate_lines(model, lines.text, lines.count, &text, &ways[i], ignore_translation, NULL) !=
                TFM_OK)
                code = cli_fail_library();
    }
    cli_lines_close(&lines);
    return code;
}

/* ---- Training -------------------------------------------------------------------------------------------------- */

/* Pads the concatenated texts of a batch to rows of one width. */
static int32_t *rows_of(const batch *b, int64_t *width, int32_t *lengths) {
    *width = 0;
    for (size_t i = 0; i < b->texts; i++) {
        lengths[i] = (int32_t)b->counts[i];
        *width = (int64_t)b->counts[i] > *width ? (int64_t)b->counts[i] : *width;
    }
    int32_t *rows = calloc(b->texts * (size_t)*width, sizeof(*rows));
    for (size_t i = 0, at = 0; rows && i < b->texts; at += b->counts[i], i++)
        memcpy(rows + i * (size_t)*width, b->ids + at, b->counts[i] * sizeof(*rows));
    return rows;
}

/* An update on a batch, and its validation. */
static int update(tfm_trainer *trainer, const tfm_model_info *info, const batch *sources, const batch *targets) {
    int32_t *lengths = calloc(2 * targets->texts, sizeof(*lengths)), *rows[2] = {NULL};
    tfm_batch pairs = {.count = (int64_t)targets->texts};
    int code = lengths ? CLI_OK : cli_fail("out of memory for a batch");
    if (code == CLI_OK && info->encoder_layers > 0) {
        pairs.sources = rows[0] = rows_of(sources, &pairs.source_width, lengths);
        pairs.source_lengths = lengths;
        code = rows[0] ? CLI_OK : cli_fail("out of memory for a batch");
    }
    if (code == CLI_OK) {
        pairs.targets = rows[1] = rows_of(targets, &pairs.target_width, lengths + targets->texts);
        pairs.target_lengths = lengths + targets->texts;
        code = rows[1] ? CLI_OK : cli_fail("out of memory for a batch");
    }
    tfm_update_report report;
    double nll;
    uint64_t tokens;
    if (code == CLI_OK && (tfm_trainer_update(trainer, &report, &pairs, 1) != TFM_OK ||
                           tfm_trainer_evaluate(trainer, &nll, &tokens, &pairs) != TFM_OK))
        code = cli_fail_library();
    free(rows[0]);
    free(rows[1]);
    free(lengths);
    return code;
}

static int train_with(tfm_model *model, const tfm_trainer_options *options) {
    const tfm_model_info *info = tfm_model_get_info(model);
    tfm_trainer *trainer = NULL;
    int code = tfm_trainer_new(&trainer, model, options) == TFM_OK ? CLI_OK : cli_fail_library();
    for (size_t i = 1; i < CLI_COUNT(BATCHES) && code == CLI_OK; i++) {
        batch sources = {0}, targets = {0};
        const int least = BATCHES[i].least < 2 ? 2 : BATCHES[i].least, most = BATCHES[i].most;
        cli_progress("training on batch %zu of %zu", i, CLI_COUNT(BATCHES) - 1);
        code = batch_make(&sources, info, BATCHES[i].count, least, most, info->max_positions);
        if (code == CLI_OK)
            code = batch_make(&targets, info, BATCHES[i].count, least, most + 3, info->max_positions);
        if (code == CLI_OK)
            code = update(trainer, info, &sources, &targets);
        batch_free(&sources);
        batch_free(&targets);
    }
    tfm_trainer_free(&trainer);
    return code;
}

int workload_train(tfm_model *model) {
    tfm_trainer_options plain = {.learning_rate = 1e-6}, paper = {.learning_rate = 1e-6},
                        most = {.learning_rate = 1e-6};
    tfm_trainer_paper(&paper);
    tfm_trainer_paper(&most);
    most.attention_dropout = most.activation_dropout = 0.1f;
    most.weight_decay = 0.01;
    most.max_grad_norm = 1;
    int code = train_with(model, &paper);
    if (code == CLI_OK)
        code = train_with(model, &plain);
    return code == CLI_OK ? train_with(model, &most) : code;
}
