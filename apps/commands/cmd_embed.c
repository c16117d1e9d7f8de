/* tfm embed: embeddings, nearest neighbors, classes and masked-token prediction with an encoder. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "commands/embed.h"

/* Batches read ahead, to batch lines of similar length, and the estimated bytes per token. */
enum { BATCHES_AHEAD = 16, DEFAULT_BATCH_TOKENS = 4096, BYTES_PER_TOKEN = 4, DEFAULT_TOP = 5 };

static const char POOLINGS[] = "cls|mean|max|mean_sqrt_len_tokens|weightedmean|lasttoken|none";
static const tfm_pooling POOLING_VALUES[] = {TFM_POOL_CLS,           TFM_POOL_MEAN,     TFM_POOL_MAX,
                                             TFM_POOL_MEAN_SQRT_LEN, TFM_POOL_WEIGHTED, TFM_POOL_LAST};

static bool on_reject(void *user, size_t line, const char *message) {
    embed_job *j = user;
    if (!j->bad[line])
        cli_fail("%s, line %zu: %s", j->in.name, j->in.first + line + 1, message);
    j->bad_count += !j->bad[line];
    j->bad[line] = true;
    return true;
}

/* ---- Chunks ---------------------------------------------------------------------------------------------------- */

/* Splits each line of the chunk at its first tab. A line without a tab is rejected. */
static int split_pairs(embed_job *j) {
    j->options.text_pairs = NULL;
    if (!j->pairs)
        return CLI_OK;
    if (!cli_grow(&j->seconds, &j->second_room, j->in.count, sizeof(*j->seconds)))
        return cli_fail("out of memory for %zu lines", j->in.count);
    for (size_t i = 0; i < j->in.count; i++) {
        char *text = (char *)(uintptr_t)j->in.text[i], *tab = memchr(text, '\t', j->in.bytes[i]);
        const size_t first = tab ? (size_t)(tab - text) : j->in.bytes[i], rest = j->in.bytes[i] - first;
        j->seconds[i] = tab ? tab + 1 : "";
        if (tab) {
            *tab = 0;
            j->in.bytes[i] = first;
        } else {
            on_reject(j, i, "there is no tab between two texts");
        }
        if (tab && memchr(tab + 1, 0, rest - 1)) /* would end the second text */
            on_reject(j, i, "the second text has a NUL in it");
    }
    j->options.text_pairs = j->seconds;
    return CLI_OK;
}

static int embed_vectors(embed_job *j) {
    const size_t width = (size_t)tfm_embedder_get_info(j->embedder)->width;
    if (tfm_embedder_get_info(j->embedder)->token_vectors)
        return embed_multi_vector(j);
    if (!cli_grow(&j->numbers, &j->room, j->in.count * width, sizeof(*j->numbers)))
        return cli_fail("out of memory for the vectors of %zu lines", j->in.count);
    if (tfm_embed(j->embedder, j->numbers, j->in.text, j->in.count, &j->options) != TFM_OK ||
        tfm_embeddings_truncate(j->numbers, j->in.count, (int)width, j->width) != TFM_OK)
        return cli_fail_library();
    cli_progress(NULL); /* both may go to one terminal */
    if (j->task == EMBED_SIMILAR)
        return embed_similar_write(j, j->in.count);
    return embed_write_vectors(j, j->in.count) ? CLI_OK : cli_output_flush(&j->out);
}

static int embed_chunk(embed_job *j) {
    if (!cli_grow(&j->bad, &j->bad_room, j->in.count, sizeof(*j->bad)))
        return cli_fail("out of memory for %zu lines", j->in.count);
    memset(j->bad, 0, j->in.count * sizeof(*j->bad));
    int code = split_pairs(j);
    j->options.line_bytes = j->in.bytes;
    if (code == CLI_OK)
        code = j->task == EMBED_CLASSIFY    ? embed_classify(j)
               : j->task == EMBED_FILL_MASK ? embed_fill_mask(j)
               : j->task == EMBED_SPARSE    ? embed_sparse(j)
                                            : embed_vectors(j);
    return code == CLI_OK ? cli_output_checkpoint(&j->out, j->in.first + j->in.count) : code;
}

static int embed_all(embed_job *j) {
    const int tokens = j->options.batch_tokens ? j->options.batch_tokens : DEFAULT_BATCH_TOKENS;
    for (;;) {
        int code = cli_lines_next(&j->in, (size_t)tokens * BATCHES_AHEAD * BYTES_PER_TOKEN * tfm_fleet_count(j->fleet));
        if (code != CLI_OK || j->in.count == 0)
            return code;
        code = embed_chunk(j);
        if (code != CLI_OK)
            return code;
        const size_t lines = j->in.first + j->in.count;
        cli_progress("%zu line%s", lines, lines == 1 ? "" : "s");
    }
}

/* ---- All of it ------------------------------------------------------------------------------------------------- */

static int find_prompt(embed_job *j) {
    if (!j->prompt)
        return CLI_OK;
    j->options.prompt = tfm_embedder_prompt(j->embedder, j->prompt);
    if (j->options.prompt)
        return CLI_OK;
    char names[256] = "";
    size_t used = 0;
    const char *name;
    for (size_t i = 0; (name = tfm_embedder_prompt_name(j->embedder, i)) && used < sizeof(names); i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "", name);
    return cli_fail("%s has no prompt '%s'%s%s", j->model_dir, j->prompt, *names ? "; it has " : ": it names none",
                    names);
}

/* Rejects options that a vector for each token, or one for each line, does not have. */
static int check_vectors(const embed_job *j, const tfm_embedder_info *info) {
    if (j->query && !info->token_vectors)
        return cli_fail("--query is for models of late interaction, and %s has the pooling %s: leave it out",
                        j->model_dir, info->pooling);
    if (info->token_vectors && (j->task == EMBED_SIMILAR || j->format == EMBED_NPY || j->width))
        return cli_fail("%s has a vector for each token, without pooling: leave out %s", j->model_dir,
                        j->task == EMBED_SIMILAR ? "--similar, and use tfm rerank"
                        : j->format == EMBED_NPY ? "--format npy"
                                                 : "--dimensions");
    return CLI_OK;
}

static int open_model(embed_job *j) {
    const bool no_pooling = j->pooling_given && j->pooling == (int)CLI_COUNT(POOLING_VALUES);
    tfm_embedder_options options = {
        .has_pooling = j->pooling_given && !no_pooling,
        .no_pooling = no_pooling,
        .pooling = no_pooling ? TFM_POOL_CLS : POOLING_VALUES[j->pooling],
        .normalize = j->normalize      ? TFM_NORMALIZE_ON
                     : j->no_normalize ? TFM_NORMALIZE_OFF
                                       : TFM_NORMALIZE_AS_SAVED,
    };
    tfm_model_options how = {0};
    how.adapters = j->adapters.items;
    how.adapter_count = j->adapters.count;
    cli_set_precision(&how, j->precision);
    options.adapters = how.adapters;
    options.adapter_count = how.adapter_count;
    options.precision = how.precision;
    options.activation_precision = how.activation_precision;
    const double start = cli_seconds();
    cli_progress("loading %s", j->model_dir);
    tfm_status status = cli_open_fleet(&j->fleet, j->device, j->workers);
    if (status == TFM_OK && j->task != EMBED_VECTORS && j->task != EMBED_SIMILAR)
        status = tfm_fleet_open_model(&j->model, j->fleet, j->model_dir, &how);
    else if (status == TFM_OK)
        status = tfm_fleet_open_embedder(&j->embedder, j->fleet, j->model_dir, &options);
    cli_progress(NULL);
    if (status != TFM_OK)
        return cli_fail_library();
    j->load_seconds = cli_seconds() - start;
    j->load_build = cli_build_seconds(j->fleet);
    j->ctx = tfm_model_context(j->embedder ? tfm_embedder_model(j->embedder) : j->model);
    const int width = j->embedder ? tfm_embedder_get_info(j->embedder)->width : 0,
              code = j->embedder ? check_vectors(j, tfm_embedder_get_info(j->embedder)) : CLI_OK;
    if (code != CLI_OK)
        return code;
    if (j->embedder && j->width > width)
        return cli_fail("--dimensions is %d, and the embeddings of %s have %d: give at most as many", j->width,
                        j->model_dir, width);
    j->width = j->width ? j->width : width;
    return find_prompt(j);
}

static void print_stats(const embed_job *j) {
    const tfm_embed_stats *s = &j->done;
    const double seconds = fmax(s->seconds - (j->build_seconds - j->load_build), 1e-9);
    cli_print_stats(json_pack("{s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "lines", (json_int_t)s->lines, "tokens",
                              (json_int_t)s->tokens, "truncated", (json_int_t)s->truncated, "load_seconds",
                              cli_rounded_json(j->load_seconds - j->load_build, 3), "build_seconds",
                              cli_rounded_json(j->build_seconds, 3), "seconds", cli_rounded_json(seconds, 3),
                              "lines_per_s", cli_rounded_json((double)s->lines / seconds, 1), "tokens_per_s",
                              cli_rounded_json((double)s->tokens / seconds, 1)));
}

static int work(embed_job *j) {
    int code = open_model(j);
    if (code == CLI_OK && j->task == EMBED_SIMILAR)
        code = embed_similar_read(j);
    if (code == CLI_OK && j->task == EMBED_VECTORS)
        code = embed_write_begin(j);
    return code == CLI_OK ? embed_all(j) : code;
}

static int run(embed_job *j) {
    j->options.reject = on_reject;
    j->options.reject_user = j;
    j->options.stats = &j->done;
    int code = cli_lines_open(&j->in, "-i", j->input);
    if (code == CLI_OK && j->similar_file)
        code = cli_lines_read_all(&j->others, "--similar", j->similar_file);
    if (code == CLI_OK)
        code = cli_output_open(&j->out, j->output);
    if (code == CLI_OK)
        code = work(j);
    const int closing = cli_output_close(&j->out, code == CLI_OK);
    code = code == CLI_OK ? closing : code;
    cli_progress(NULL);
    j->build_seconds = cli_build_seconds(j->fleet);
    if (j->ctx)
        tfm_tensor_free(j->ctx, &j->neighbors);
    tfm_model_free(&j->model);
    tfm_embedder_free(&j->embedder);
    tfm_fleet_free(&j->fleet);
    if (code == CLI_OK && j->stats)
        print_stats(j);
    cli_lines_close(&j->in);
    cli_lines_close(&j->others);
    free(j->numbers);
    free(j->seconds);
    free(j->bad);
    return code == CLI_OK && j->bad_count > 0 ? CLI_FAILED : code;
}

/* ---- The command ----------------------------------------------------------------------------------------------- */

/* Rejects conflicting options. */
static int check(embed_job *j, const cli_syntax *syntax) {
    if (!j->model_dir)
        return cli_usage_error(syntax, "no model is given: give -m MODEL");
    if (j->classify + j->fill_mask + j->sparse + (j->similar_file != NULL) > 1)
        return cli_usage_error(syntax, "--similar, --classify, --fill-mask and --sparse do not go together: give one");
    j->task = j->classify       ? EMBED_CLASSIFY
              : j->fill_mask    ? EMBED_FILL_MASK
              : j->sparse       ? EMBED_SPARSE
              : j->similar_file ? EMBED_SIMILAR
                                : EMBED_VECTORS;
    j->format = j->format_given ? (embed_format)j->format_choice : j->task == EMBED_VECTORS ? EMBED_JSON : EMBED_TEXT;
    if (j->format == EMBED_NPY && j->task != EMBED_VECTORS)
        return cli_usage_error(syntax, "--format npy is for vectors");
    if (j->format == EMBED_NPY && (!j->output || strcmp(j->output, "-") == 0))
        return cli_usage_error(syntax, "--format npy needs a file: give -o FILE");
    if ((j->normalize || j->no_normalize || j->pooling_given || j->prompt || j->width || j->query) &&
        (j->classify || j->fill_mask || j->sparse))
        return cli_usage_error(syntax, "--pooling, --normalize, --no-normalize, --dimensions, --prompt and --query are "
                                       "for dense vectors");
    if (j->normalize && j->no_normalize)
        return cli_usage_error(syntax, "--normalize and --no-normalize contradict each other");
    if (j->pairs && !j->classify)
        return cli_usage_error(syntax, "--pairs is for --classify");
    if (j->top > 64)
        return cli_usage_error(syntax, "--top-k is %d: give 1 to 64", j->top);
    if (j->similar_file && strcmp(j->similar_file, "-") == 0 && (!j->input || strcmp(j->input, "-") == 0))
        return cli_usage_error(syntax, "only one of the files can be standard input");
    j->top = j->top || j->sparse ? j->top : j->classify ? 1 : DEFAULT_TOP;
    return cli_check_workers(syntax, j->workers);
}

int cmd_embed(int argc, char **argv) {
    embed_job j = {0};
    const cli_option options[] = {
        {'m', "model", CLI_STRING, &j.model_dir, "MODEL",
         "the model: its directory, or its name on the Hugging Face hub", NULL},
        {'i', "input", CLI_STRING, &j.input, "FILE", "read lines from this file instead of standard input", NULL},
        {'o', "output", CLI_STRING, &j.output, "FILE", "write to this file, which appears when it is complete", NULL},
        {0, "format", CLI_CHOICE, &j.format_choice, "json|npy|text",
         "json: an array of numbers per line, or an object for the other tasks; npy: a NumPy file, with -o; text: "
         "numbers separated by blanks (default json for embeddings, else text)",
         &j.format_given},
        {0, "similar", CLI_STRING, &j.similar_file, "FILE",
         "write the nearest lines of this file for each line: cosine, line number, text, separated by tabs, then an "
         "empty "
         "line",
         NULL},
        {0, "classify", CLI_FLAG, &j.classify, NULL, "write the most likely class of each line and its probability",
         NULL},
        {0, "pairs", CLI_FLAG, &j.pairs, NULL, "with --classify, each line is two texts separated by a tab", NULL},
        {0, "fill-mask", CLI_FLAG, &j.fill_mask, NULL,
         "write the most likely tokens for each mask of each line and their probabilities, separated by tabs", NULL},
        {0, "sparse", CLI_FLAG, &j.sparse, NULL,
         "write the sparse embedding of each line (SPLADE): tokens and weights, the largest first, separated by tabs",
         NULL},
        {0, "top-k", CLI_POSITIVE, &j.top, "K",
         "number of lines of --similar, tokens of --fill-mask (default 5), classes (default 1) or tokens of --sparse "
         "(default all)",
         NULL},
        {0, "pooling", CLI_CHOICE, &j.pooling, POOLINGS,
         "pooling of token embeddings (default: the model's own, else mean); none: a vector for each token",
         &j.pooling_given},
        {0, "query", CLI_FLAG, &j.query, NULL,
         "lines are queries, not documents, of a model of late interaction (ColBERT)", NULL},
        {0, "normalize", CLI_FLAG, &j.normalize, NULL, "scale embeddings to unit length", NULL},
        {0, "no-normalize", CLI_FLAG, &j.no_normalize, NULL, "do not scale embeddings", NULL},
        {0, "dimensions", CLI_POSITIVE, &j.width, "N",
         "shorten embeddings to their first N numbers, scaled to unit length (Matryoshka models)", NULL},
        {0, "prompt", CLI_STRING, &j.prompt, "NAME",
         "prepend the prompt of this name to each line; config_sentence_transformers.json has the names and prompts",
         NULL},
        {0, "batch-tokens", CLI_POSITIVE, &j.options.batch_tokens, "N",
         "maximum tokens in a batch, with padding (default 2048 or 4096, by device)", NULL},
        {0, "stats", CLI_FLAG, &j.stats, NULL, "end with a line of counts and times on standard error", NULL},
        CLI_ADAPTERS(&j.adapters),
        CLI_PRECISION(j.precision),
        CLI_DEVICES(&j.device),
        CLI_WORKERS(&j.workers),
    };
    const cli_syntax syntax = {
        .name = "embed",
        .usage = "embed -m MODEL [option...] < lines",
        .about = "Computes an embedding for each line of UTF-8 text: the encoder's output, pooled\n"
                 "over the line's tokens. The model is a Hugging Face encoder (BERT, RoBERTa,\n"
                 "XLM-R, CamemBERT, DistilBERT, MPNet, ModernBERT, ELECTRA, ALBERT, the encoder\n"
                 "of T5), a decoder-only model, or a sentence-transformers directory. Pooling\n"
                 "follows modules.json; without it, the mean is taken. Models of late interaction\n"
                 "(ColBERT) and --pooling none give a vector for each token.\n"
                 "Lines longer than the model's maximum are truncated; --stats counts them.\n"
                 "A bad line (invalid UTF-8, a NUL) is reported on standard error and gives\n"
                 "null, an empty line, or a vector of NaN. The exit code is then 1.\n",
        .examples = "  tfm embed -m all-MiniLM-L6-v2 -i lines.txt --format npy -o lines.npy\n"
                    "  echo \"a cat\" | tfm embed -m all-MiniLM-L6-v2 --similar lines.txt --top-k 3\n"
                    "  tfm embed -m sentiment --classify < reviews.txt\n"
                    "  echo \"Paris is [MASK].\" | tfm embed -m bert-base --fill-mask\n"
                    "  tfm embed -m splade-v3 --sparse --format json < lines.txt\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code == CLI_CONTINUE)
        code = check(&j, &syntax);
    return code == CLI_CONTINUE ? run(&j) : code;
}
