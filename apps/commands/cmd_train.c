/* tfm train: trains a translation model on parallel text, or a decoder-only model on plain text. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "train/train.h"

static tfm_trainer_options trainer_options(const train_run *r) {
    static const tfm_dtype comm_dtypes[] = {TFM_F32, TFM_F16, TFM_BF16};
    const train_recipe *o = &r->recipe;
    return (tfm_trainer_options){.dropout = (float)o->dropout,
                                 .attention_dropout = (float)o->attention_dropout,
                                 .activation_dropout = (float)o->activation_dropout,
                                 .label_smoothing = (float)o->label_smoothing,
                                 .lr_scheduler_type = (tfm_lr_scheduler_type)o->lr_scheduler_type,
                                 .learning_rate = o->learning_rate,
                                 .warmup_steps = o->warmup_steps ? o->warmup_steps : 1,
                                 .max_steps = o->max_steps,
                                 .beta1 = o->beta1,
                                 .beta2 = o->beta2,
                                 .epsilon = o->epsilon,
                                 .weight_decay = o->weight_decay,
                                 .max_grad_norm = o->max_grad_norm,
                                 .seed = (uint64_t)o->seed,
                                 .freeze = o->freeze,
                                 .process_group = r->ranks,
                                 .shard_optimizer = o->shard_optimizer,
                                 .comm_dtype = comm_dtypes[o->comm_dtype],
                                 .precision = o->precision ? TFM_BF16 : TFM_F32,
                                 .gradient_checkpointing = o->gradient_checkpointing};
}

static int open_all(train_run *r) {
    const train_recipe *o = &r->recipe;
    const tfm_data_options order = {.batch_tokens = o->batch_tokens,
                                    .max_length = o->max_length,
                                    .buffer_size = o->buffer_size,
                                    .seed = (uint64_t)o->seed,
                                    .holdout_every = r->recipe.hold_every,
                                    .subword_alpha = (float)o->subword_alpha,
                                    .strict = o->strict,
                                    .process_group = r->ranks};
    tfm_data_options texts = order;
    if (train_ranks_device(r) != CLI_OK)
        return CLI_FAILED;
    const char *const device = r->device[0] ? r->device : o->device;
    if ((r->ranks ? tfm_context_open(&r->ctx, &(tfm_context_options){.device = device, .on_build = cli_on_build})
                  : cli_open_fleet(&r->fleet, device, o->workers)) != TFM_OK)
        return cli_fail_library();
    if (train_model_open(r) != CLI_OK)
        return CLI_FAILED;
    if (r->fleet)
        r->ctx = tfm_context_retain(tfm_model_context(r->model));
    texts.seq_len = o->seq_len;
    texts.documents = train_document_options(o);
    texts.has_eos_id = tfm_model_get_info(r->model)->eos_id >= 0;
    texts.eos_id = tfm_model_get_info(r->model)->eos_id;
    if (train_is_chat(o) && tfm_chat_open(&r->chat, r->dir) != TFM_OK)
        return cli_fail_library();
    texts.chat = r->valid.chat = r->chat;
    const char *const *targets;
    const cli_strings *sources = train_pair_files(o, &targets), *files = train_text_files(o);
    tfm_status status =
        train_is_lm(o) ? tfm_data_open_texts(&r->data, r->tokenizer, files->items, files->count, &texts)
                       : tfm_data_open_pairs(&r->data, r->tokenizer, sources->items, targets, sources->count, &order);
    r->changed |= r->recipe.steps_of_epochs;
    if (status == TFM_OK)
        status = train_steps_of_epochs(&r->recipe, r->data);
    const tfm_trainer_options options = trainer_options(r);
    if (status == TFM_OK)
        status = tfm_trainer_new(&r->trainer, r->model, &options);
    return status == TFM_OK ? CLI_OK : cli_fail_library();
}

/* Without a separate validation set, a run holds out some pairs of the training files. */
static int count_held_out(train_run *r) {
    enum { LEAST = 20 };
    train_recipe *o = &r->recipe;
    if (o->valid_source || o->valid_tsv || train_valid_texts(o) || o->hold_out == 0)
        return CLI_OK;
    const int code = train_count_all(o, &r->lines);
    o->hold_every = r->lines / o->hold_out > LEAST ? r->lines / o->hold_out : LEAST;
    return code;
}

/* The options of the validation set. */
static const char *valid_options(const train_recipe *o) {
    return train_is_chat(o) ? "--valid-chat" : train_is_lm(o) ? "--valid-text" : "--valid-src and --valid-tgt";
}

/* Warns of files with different numbers of lines. */
static int warn_line_counts(const train_run *r) {
    const train_recipe *o = &r->recipe;
    for (size_t i = 0; i < o->targets.count; i++) {
        const char *const source = o->sources.items[i], *const target = o->targets.items[i];
        int64_t sources = o->targets.count == 1 ? r->lines : -1, targets = 0;
        if ((sources < 0 && train_count_lines(source, &sources) != CLI_OK) ||
            train_count_lines(target, &targets) != CLI_OK)
            return CLI_FAILED;
        if (sources != targets)
            train_print("warning: %s has %" PRId64 " lines and %s %" PRId64
                        ": if a line is missing in the middle, all later lines are paired with wrong translations; "
                        "stop and fix the files unless only the end is missing",
                        source, sources, target, targets);
    }
    return CLI_OK;
}

/* Warns of probable mistakes. Not repeated when the run is resumed. */
static int warn(train_run *r) {
    enum { FEW = 100 };
    const train_recipe *o = &r->recipe;
    if (r->valid.count > 0 && r->valid.count < FEW)
        train_print("warning: with only %zu %s for validation the choice of the best model is unreliable: give some "
                    "hundred by %s",
                    r->valid.count, train_unit(o, r->valid.count), valid_options(o));
    return train_warn_corpus_size(r) == CLI_OK ? warn_line_counts(r) : CLI_FAILED;
}

static void print_memory(const train_run *r, const char *device, uint64_t bytes) {
    const int workers = r->recipe.workers;
    char replicas[64] = "";
    if (workers > 1)
        snprintf(replicas, sizeof(replicas), " for each of %d replicas", workers);
    train_print("about %.0f MB of memory on %s%s%s", 1e-6 * (double)bytes, device, replicas,
                r->devices > workers ? ", and as much on each of the other devices" : "");
}

static int print_run(train_run *r) {
    const tfm_model_info info = *tfm_model_get_info(r->model);
    const tfm_device_info *device = tfm_context_device(r->ctx);
    const tfm_trainer_options options = trainer_options(r);
    const uint64_t bytes = tfm_trainer_estimate_memory(r->model, &options, r->recipe.batch_tokens);
    if (tfm_context_status(r->ctx) != TFM_OK)
        return cli_fail_library();
    train_print("%s: %" PRIu64 " parameters, vocabulary of %d, %zu %s for validation", r->dir, info.parameters,
                info.target_vocab_size, r->valid.count, train_unit(&r->recipe, r->valid.count));
    if (train_replicas(r) > 1)
        train_print("%d %ss share each update of %d micro-batches%s", train_replicas(r), train_replica_name(r),
                    r->recipe.gradient_accumulation_steps,
                    r->recipe.shard_optimizer ? "; each keeps the optimizer state of its part of the parameters" : "");
    if (r->valid.count == 0 && r->recipe.hold_every > 0)
        train_print("the text has too few %s to keep one in %" PRId64
                    " of them for validation, so no best model is chosen: give %s to a new run",
                    train_unit(&r->recipe, 0), r->recipe.hold_every, valid_options(&r->recipe));
    print_memory(r, device->name, bytes);
    if (bytes * (uint64_t)r->recipe.workers > device->memory_bytes)
        train_print("that is more than the device's %.0f MB: batches will be split, or give %sa smaller --batch-tokens",
                    1e-6 * (double)device->memory_bytes,
                    options.gradient_checkpointing ? "" : "--gradient-checkpointing or ");
    return train_log_put(&r->log,
                         json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "type", "start", "version",
                                   tfm_version(), "device", device->name, "driver", device->driver, "parameters",
                                   (json_int_t)info.parameters, "memory_bytes", (json_int_t)bytes, "validation_pairs",
                                   (json_int_t)r->valid.count, "update", (json_int_t)tfm_trainer_updates(r->trainer)));
}

/* Everything before the first update. */
static int prepare(train_run *r) {
    int code =
        (r->checkpoint = train_path(r->dir, "checkpoint.safetensors")) ? CLI_OK : cli_fail("%s: out of memory", r->dir);
    r->corpus = train_corpus_read(&r->recipe);
    if (code == CLI_OK)
        code = count_held_out(r);
    if (code == CLI_OK)
        code = train_validation_open(&r->valid, &r->recipe);
    if (code == CLI_OK)
        code = open_all(r);
    if (code == CLI_OK)
        code = train_validation_warn(&r->valid, r->tokenizer, tfm_model_get_info(r->model)->max_positions);
    if (code == CLI_OK)
        code = train_checkpoint_read(r);
    if (code == CLI_OK)
        code = train_log_cut(&r->log, r->at.log_bytes);
    if (code == CLI_OK)
        code = print_run(r);
    return code == CLI_OK && !r->recipe.resume ? warn(r) : code;
}

static void close_all(train_run *r) {
    tfm_data_free(&r->data);
    tfm_chat_free(&r->chat);
    tfm_trainer_free(&r->trainer);
    tfm_model_free(&r->model);
    tfm_tokenizer_free(&r->tokenizer);
    tfm_context_free(&r->ctx);
    tfm_fleet_free(&r->fleet);
    train_validation_close(&r->valid);
    train_log_close(&r->log);
    train_recipe_free(&r->recipe);
    json_decref(r->at.snapshots);
    json_decref(r->corpus);
    free(r->checkpoint);
}

/* Text is read more than once, and from its middle. `count`: number of files of the option. */
static int check_file(const train_recipe *o, const char *file, const char *option, size_t count) {
    struct stat info;
    if (stat(file, &info) != 0 || access(file, R_OK) != 0) {
        const char *why = strerror(errno);
        if (!o->resume)
            return cli_fail("cannot read --%s %s: %s; give a readable file", option, file, why);
        if (count == 1)
            return cli_fail("cannot read %s: %s; if it was moved, give its new name by --%s FILE", file, why, option);
        return cli_fail("cannot read %s: %s; if it was moved, give all %zu files of --%s again, in their order", file,
                        why, count, option);
    }
    if (!S_ISREG(info.st_mode))
        return cli_fail("cannot train on %s: it is no regular file, and text is read more than once", file);
    return CLI_OK;
}

static int check_files(const train_recipe *o) {
    const char *const files[] = {o->valid_source, o->valid_target, o->valid_tsv, o->valid_text, o->valid_chat};
    const char *const options[] = {"valid-src", "valid-tgt", "valid-tsv", "valid-text", "valid-chat"};
    const cli_strings *const lists[] = {&o->sources, &o->targets, &o->tsvs, &o->texts, &o->chats};
    const char *const list_options[] = {"src", "tgt", "tsv", "text", "chat"};
    int code = CLI_OK;
    for (size_t i = 0; i < CLI_COUNT(lists); i++)
        for (size_t k = 0; k < lists[i]->count && code == CLI_OK; k++)
            code = check_file(o, lists[i]->items[k], list_options[i], lists[i]->count);
    for (size_t i = 0; i < CLI_COUNT(files) && code == CLI_OK; i++)
        code = files[i] ? check_file(o, files[i], options[i], 1) : CLI_OK;
    return code;
}

static int resume(train_run *r, const cli_syntax *syntax, int argc, char **argv) {
    r->dir = r->recipe.resume;
    if (r->recipe.out)
        return cli_usage_error(syntax, "-o is for a new run: --resume %s continues in its directory, leave -o out",
                               r->dir);
    int code = train_recipe_resume(&r->recipe, &r->changed, syntax, argc, argv);
    if (code == CLI_CONTINUE)
        code = train_lm_check(&r->recipe, syntax);
    if (code == CLI_CONTINUE)
        code = train_ranks_check(r, syntax);
    if (code == CLI_CONTINUE)
        code = train_balance_check(r, syntax);
    if (code == CLI_CONTINUE)
        code = check_files(&r->recipe);
    return code == CLI_OK ? train_log_open(&r->log, r->dir) : code;
}

static int begin(train_run *r, const cli_syntax *syntax) {
    train_recipe *o = &r->recipe;
    const bool named = o->out && *o->out; /* "" is an unset shell variable, not the root */
    int code = named ? train_lm_check(o, syntax) : cli_usage_error(syntax, "-o DIR is needed, or --resume DIR");
    if (code == CLI_CONTINUE)
        code = train_model_check(o, syntax);
    if (o->gradient_accumulation_steps < 0)
        o->gradient_accumulation_steps = train_replicas(r);
    if (code == CLI_CONTINUE)
        code = train_recipe_settle(o, syntax);
    if (code == CLI_CONTINUE)
        code = train_ranks_check(r, syntax);
    if (code == CLI_CONTINUE)
        code = train_balance_check(r, syntax);
    if (code == CLI_CONTINUE)
        code = check_files(o);
    if (code != CLI_OK)
        return code;
    r->dir = o->out;
    const char *file = train_is_lm(o) ? "tokenizer.json" : "vocab.json";
    if (o->vocabulary && !train_exists(o->vocabulary, file))
        return cli_fail("%s has no %s: give --vocab the directory of a tokenizer", o->vocabulary, file);
    return train_run_dir_claim(r);
}

/* Prepares a rank other than the first, once rank 0 has written recipe, tokenizer and checkpoint to the directory. */
static int follow(train_run *r, const cli_syntax *syntax, int argc, char **argv) {
    r->dir = r->recipe.resume ? r->recipe.resume : r->recipe.out;
    r->recipe.resume = r->dir;
    int code = train_recipe_resume(&r->recipe, &r->changed, syntax, argc, argv);
    if (code == CLI_CONTINUE)
        code = check_files(&r->recipe);
    if (code != CLI_OK)
        return code;
    r->checkpoint = train_path(r->dir, "checkpoint.safetensors");
    r->corpus = train_corpus_read(&r->recipe);
    code = r->checkpoint ? count_held_out(r) : cli_fail("%s: out of memory", r->dir);
    if (code == CLI_OK)
        code = open_all(r);
    if (code == CLI_OK && access(r->checkpoint, F_OK) == 0 &&
        tfm_trainer_load(r->trainer, r->data, r->checkpoint) != TFM_OK)
        code = cli_fail_library();
    return code;
}

/* The run: rank 0 prepares everything, then the other ranks follow. */
static int run(train_run *r, const cli_syntax *syntax, int argc, char **argv) {
    const bool new = !r->recipe.resume, first = train_first(r);
    int code = train_devices_count(r, syntax);
    if (code == CLI_CONTINUE)
        code = !first ? CLI_OK : new ? begin(r, syntax) : resume(r, syntax, argc, argv);
    const bool claimed = first && code == CLI_OK;
    if (claimed) {
        train_catch_signals_early(r);
        code = prepare(r);
    }
    code = train_ranks_agree(r, code);
    if (code == CLI_OK && r->ranks)
        code = train_ranks_agree(r, first ? CLI_OK : follow(r, syntax, argc, argv));
    if (code == CLI_OK)
        code = train_ranks_compare(r, code);
    if (code == CLI_OK)
        code = train_ranks_agree(r, train_balance_begin(r)); /* if one fails, the others must not wait for it */
    if (code == CLI_OK)
        code = train_loop(r);
    if (code != CLI_OK && claimed && new && (!r->trainer || tfm_trainer_updates(r->trainer) == 0))
        train_run_dir_release(r);
    return code;
}

int cmd_train(int argc, char **argv) {
    train_run r = {.recipe = train_recipe_unset(), .saved = -1, .lines = -1, .at = {.snapshots = json_array()}};
    cli_option options[TRAIN_OPTIONS];
    const cli_syntax syntax = {
        .name = "train",
        .usage = "train -o DIR --src FILE --tgt FILE [--src FILE --tgt FILE...]\n"
                 "                 [option...]\n"
                 "       tfm train -o DIR --text FILE [--text FILE...] [option...]\n"
                 "       tfm train -o DIR --init-from DIR (--src FILE --tgt FILE | --text FILE)\n"
                 "                 [option...]\n"
                 "       tfm train --resume DIR [option...]",
        .about = "Trains an encoder-decoder Transformer (\"Attention Is All You Need\") on parallel\n"
                 "text and keeps the best model so far in DIR, for tfm translate. With --text it\n"
                 "trains a decoder-only model like GPT-2 or Llama on plain text, for tfm\n"
                 "generate. --init-from fine-tunes a model of any family with a decoder. Ctrl-C\n"
                 "saves the run and ends it; --resume continues it with bit-identical results,\n"
                 "even after a power cut. Training is data parallel over several devices, or over\n"
                 "ranks started by mpirun with a device each.\n",
        .examples = "  tfm train -o de-en --src train.de --tgt train.en\n"
                    "  tfm train -o de-en --src train.de --tgt train.en \\\n"
                    "      --valid-src dev.de --valid-tgt dev.en --preset tiny --max-steps 8000\n"
                    "  tfm train -o wmt --src europarl.de --tgt europarl.en \\\n"
                    "      --src news.de --tgt news.en\n"
                    "  tfm train -o law --init-from opus-mt-de-en --src law.de --tgt law.en \\\n"
                    "      --freeze 'model.encoder.*'\n"
                    "  tfm train -o tales --text tales.txt --family llama --preset tiny\n"
                    "  tfm train -o mine --init-from gpt2 --text mine.txt --max-steps 2000\n"
                    "  tfm train --resume de-en --max-steps 16000\n"
                    "  tfm train --resume de-en --device gpu,gpu --gradient-accumulation-steps 2\n"
                    "  TFM_DEVICE=all mpirun -n 2 tfm train --resume de-en\n",
        .options = options,
        .option_count = train_recipe_options(&r.recipe, options),
    };
    int code = train_ranks_open(&r);
    if (code == CLI_OK) {
        code = train_ranks_compare(&r, cli_parse(&syntax, argc, argv));
        code = train_ranks_close(&r, code == CLI_CONTINUE ? run(&r, &syntax, argc, argv) : code);
    }
    close_all(&r);
    return code;
}
