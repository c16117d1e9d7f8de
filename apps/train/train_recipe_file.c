/* The recipe file, and the options that a resumed run may change. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "train/train.h"

char *train_path(const char *dir, const char *name) {
    char *path = malloc(strlen(dir) + strlen(name) + 2);
    if (path)
        sprintf(path, "%s/%s", dir, name);
    return path;
}

/* Writes a file atomically. */
static int write_json(const json_t *object, const char *path) {
    cli_output out;
    char *text = object ? json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(TRAIN_DIGITS)) : NULL;
    if (!text)
        return cli_fail("%s: out of memory", path);
    int code = cli_output_open(&out, path);
    if (code == CLI_OK)
        fprintf(out.file, "%s\n", text);
    free(text);
    const int closed = cli_output_close(&out, code == CLI_OK);
    return code == CLI_OK ? closed : code;
}

static json_t *word_json(const char *words, int index) {
    while (index-- > 0)
        words += strcspn(words, "|") + 1;
    return json_stringn(words, strcspn(words, "|"));
}

/* The path of a file relative to `dir`, for free(), so that the two may move together. Absolute paths elsewhere, and
 * paths of missing files, are unchanged. */
static char *relative(const char *dir, const char *path) {
    char *from = path[0] == '/' ? NULL : realpath(dir, NULL), *to = from ? realpath(path, NULL) : NULL, *way = NULL;
    if (from && to) {
        size_t same = 0, ups = 0, i = 0;
        for (; from[i] && from[i] == to[i]; i++)
            same = from[i] == '/' ? i : same;
        if (!from[i] && to[i] == '/')
            same = i;
        for (const char *rest = from + same; *rest; rest++)
            ups += *rest == '/' && rest[1];
        way = malloc(3 * ups + strlen(to + same) + 1);
        char *at = way;
        for (; way && ups > 0; ups--, at += 3)
            memcpy(at, "../", 3);
        if (way)
            strcpy(at, to + same + (to[same] == '/'));
    }
    const size_t length = strlen(dir);
    const bool joined = !to && strncmp(path, dir, length) == 0 && path[length] == '/'; /* by set_path */
    free(from);
    free(to);
    return way ? way : strdup(joined ? path + length + 1 : path);
}

static bool is_path(const cli_option *option) {
    return strcmp(option->argument, "FILE") == 0 || strcmp(option->argument, "DIR") == 0;
}

static json_t *path_json(const char *path, const char *dir) {
    char *way = path ? relative(dir, path) : NULL;
    json_t *value = way ? json_string(way) : json_null();
    free(way);
    return value;
}

static bool is_one_of(const char *const *names, size_t count, const char *name) {
    size_t k = 0;
    while (k < count && strcmp(name, names[k]) != 0)
        k++;
    return k < count;
}

/* A list; a single file is a string if older versions took only one. */
static json_t *list_json(const cli_option *option, const char *dir) {
    static const char *const SINGLE[] = {"src", "tgt", "tsv"};
    const cli_strings *list = option->value;
    if (list->count == 1 && is_one_of(SINGLE, CLI_COUNT(SINGLE), option->name))
        return path_json(list->items[0], dir);
    json_t *values = list->count > 0 ? json_array() : json_null();
    for (size_t i = 0; i < list->count; i++)
        if (json_array_append_new(values, path_json(list->items[i], dir)) != 0) {
            json_decref(values);
            return NULL;
        }
    return values;
}

static json_t *value_json(const cli_option *option, const char *dir) {
    switch (option->kind) {
    case CLI_LIST:
        return list_json(option, dir);
    case CLI_FLAG:
        return json_boolean(*(bool *)option->value);
    case CLI_STRING:
        if (!is_path(option))
            return *(const char **)option->value ? json_string(*(const char **)option->value) : json_null();
        return path_json(*(const char **)option->value, dir);
    case CLI_DOUBLE:
        return json_real(*(double *)option->value);
    case CLI_CHOICE:
        return word_json(option->argument, *(int *)option->value);
    default:
        return json_integer(*(int *)option->value);
    }
}

int train_recipe_write(const train_recipe *recipe, const char *dir) {
    cli_option options[TRAIN_OPTIONS];
    train_recipe own = *recipe;
    const size_t count = train_recipe_options(&own, options);
    char *path = train_path(dir, "recipe.json");
    json_t *root = json_object();
    int code = path && root ? CLI_OK : cli_fail("%s: out of memory", dir);
    for (size_t i = TRAIN_UNSAVED; code == CLI_OK && i < count; i++)
        if (json_object_set_new(root, options[i].name, value_json(&options[i], dir)) != 0)
            code = cli_fail("--%s cannot be written to %s: it is not UTF-8, or memory is short", options[i].name, path);
    if (code == CLI_OK)
        code = write_json(root, path);
    json_decref(root);
    free(path);
    return code;
}

static bool set_word(const cli_option *option, const char *word) {
    const char *words = option->argument;
    for (int index = 0; word; index++) {
        const size_t length = strcspn(words, "|");
        *(int *)option->value = index;
        if (strlen(word) == length && strncmp(word, words, length) == 0)
            return true;
        if (!words[length])
            return false;
        words += length + 1;
    }
    return false;
}

/* The path of a file relative to the working directory, a new reference. */
static json_t *joined(const char *dir, const char *text) {
    char *path = train_path(dir, text);
    json_t *value = path ? json_string_nocheck(path) : NULL; /* the folder's name may be any bytes */
    free(path);
    return value;
}

/* A string, or a path relative to the file's folder; it lives as long as `object`. */
static bool set_path(const cli_option *option, json_t *object, const char *dir) {
    const char *text = json_string_value(json_object_get(object, option->name));
    if (text && text[0] != '/' && is_path(option)) {
        json_t *path = joined(dir, text);
        if (!path || json_object_set_new(object, option->name, path) != 0)
            return false;
        text = json_string_value(path);
    }
    *(const char **)option->value = text;
    return true;
}

/* A list of strings, or a single string. */
static bool set_paths(const cli_option *option, json_t *object, const char *dir) {
    json_t *values = json_object_get(object, option->name);
    cli_strings *list = option->value;
    if (json_is_string(values)) {
        values = json_pack("[O]", values);
        if (json_object_set_new(object, option->name, values) != 0)
            return false;
    }
    for (size_t i = 0; i < json_array_size(values); i++) {
        const char *text = json_string_value(json_array_get(values, i));
        json_t *path = !text ? NULL : text[0] == '/' ? json_incref(json_array_get(values, i)) : joined(dir, text);
        if (!path || json_array_set_new(values, i, path) != 0 ||
            !cli_grow(&list->items, &list->room, list->count + 1, sizeof(*list->items)))
            return false;
        list->items[list->count++] = json_string_value(path);
    }
    return json_is_array(values) || json_is_null(values);
}

/* Whether the command line would accept the value. */
static bool set_value(const cli_option *option, json_t *object, const char *dir) {
    const json_t *value = json_object_get(object, option->name);
    const json_int_t number = json_integer_value(value);
    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)option->value = json_is_true(value);
        return json_is_boolean(value);
    case CLI_STRING:
        return (json_is_string(value) || json_is_null(value)) && set_path(option, object, dir);
    case CLI_LIST:
        return set_paths(option, object, dir);
    case CLI_DOUBLE:
        *(double *)option->value = json_number_value(value);
        return json_is_number(value);
    case CLI_CHOICE:
        return set_word(option, json_string_value(value));
    default:
        *(int *)option->value = (int)number;
        return json_is_integer(value) && number >= (option->kind == CLI_POSITIVE) && number <= 0x7fffffff;
    }
}

/* Options that a run cannot change: its model, and the order of its data. */
static const char *const FIXED[] = {
    "hold-out",       "max-length",    "buffer-size",
    "vocab",          "vocab-size",    "vocab-lines",
    "separate-vocab", "unigram",       "character-coverage",
    "normalization",  "preset",        "width",
    "heads",          "ffn-dim",       "encoder-layers",
    "decoder-layers", "max-positions", "activation",
    "init",           "pre-norm",      "batch-tokens",
    "seed",           "source-lang",   "target-lang",
    "init-from",      "freeze",        "seq-len",
    "family",         "kv-heads",      "separator",
    "jsonl",          "chat",
};

/* Options missing in recipes of older versions get their defaults. */
static const char *const ADDED_LATER[] = {"subword-alpha", "keep-average", "source-lang", "target-lang", "init-from",
                                          "freeze",        "text",         "valid-text",  "seq-len",     "family",
                                          "kv-heads",      "comm-dtype",   "balance",     "precision",   "separator",
                                          "jsonl",         "chat",         "valid-chat"};

static bool is_left_out(const json_t *stored, const char *name) {
    return !json_object_get(stored, name) && is_one_of(ADDED_LATER, CLI_COUNT(ADDED_LATER), name);
}

/* Recipes of older versions have former names of options. */
static void take_former_name(json_t *stored, const char *name) {
    const char *former = cli_former_name(name);
    json_t *value = former && !json_object_get(stored, name) ? json_object_get(stored, former) : NULL;
    if (value && json_object_set(stored, name, value) == 0)
        json_object_del(stored, former);
}

/* Recipes of older versions may balance by measured speed: they keep the ratio of their checkpoint. */
static void drop_measured_balance(train_recipe *recipe) {
    static const char *const WORDS[] = {"auto", "in-turn", "by-speed"};
    if (recipe->balance && is_one_of(WORDS, CLI_COUNT(WORDS), recipe->balance))
        recipe->balance = NULL;
}

static int read_file(train_recipe *recipe, const char *dir) {
    cli_option options[TRAIN_OPTIONS];
    const size_t count = train_recipe_options(recipe, options);
    char *path = train_path(dir, "recipe.json");
    char why[CLI_REASON];
    int code = path ? CLI_OK : cli_fail("%s: out of memory", dir);
    if (code == CLI_OK && access(path, R_OK) != 0)
        code = cli_fail("cannot read %s: %s: is %s the directory of a run?", path, strerror(errno), dir);
    else if (code == CLI_OK && !(recipe->stored = cli_json_load(path, why)))
        code = cli_fail("%s is not JSON: %s", path, why);
    for (size_t i = TRAIN_UNSAVED; code == CLI_OK && i < count; i++) {
        take_former_name(recipe->stored, options[i].name);
        if (!is_left_out(recipe->stored, options[i].name) && !set_value(&options[i], recipe->stored, dir))
            code = cli_fail("%s: \"%s\" is missing or not what --%s takes", path, options[i].name, options[i].name);
    }
    drop_measured_balance(recipe);
    free(path);
    return code;
}

/* The first differing option that must not change, or NULL; *changed: whether any differs. */
static const char *find_fixed(train_recipe *recipe, train_recipe *before, bool *changed) {
    cli_option options[TRAIN_OPTIONS], old[TRAIN_OPTIONS];
    const size_t count = train_recipe_options(recipe, options);
    train_recipe_options(before, old);
    *changed = false;
    for (size_t i = TRAIN_UNSAVED; i < count; i++) {
        json_t *a = value_json(&old[i], recipe->resume), *b = value_json(&options[i], recipe->resume);
        const bool same = json_equal(a, b);
        json_decref(a);
        json_decref(b);
        *changed |= !same;
        if (!same && is_one_of(FIXED, CLI_COUNT(FIXED), options[i].name))
            return options[i].name;
    }
    return NULL;
}

static bool validated_apart(const train_recipe *r) {
    return r->valid_source || r->valid_target || r->valid_tsv || r->valid_text || r->valid_chat;
}

/* Repeatable options. */
enum { LISTS = 5 };

/* Parses the command line; files of a repeatable option replace all files of the recipe for it, which are moved to
 * *stored, for free(). */
static int parse_over(train_recipe *recipe, cli_strings stored[LISTS], const cli_syntax *syntax, int argc,
                      char **argv) {
    static const char *const NAMES[LISTS] = {"src", "tgt", "tsv", "text", "chat"};
    cli_strings *const lists[LISTS] = {&recipe->sources, &recipe->targets, &recipe->tsvs, &recipe->texts,
                                       &recipe->chats};
    for (size_t i = 0; i < LISTS; i++) {
        stored[i] = *lists[i];
        *lists[i] = (cli_strings){0};
    }
    int code = cli_parse(syntax, argc, argv);
    for (size_t i = 0; i < LISTS; i++)
        if (lists[i]->count == 0) {
            free(lists[i]->items);
            *lists[i] = stored[i];
            stored[i].items = NULL;
        }
    for (size_t i = 0; i < LISTS && code == CLI_CONTINUE; i++)
        if (stored[i].items && stored[i].count > 0 && stored[i].count != lists[i]->count)
            code = cli_usage_error(syntax,
                                   "the run has %zu file%s of --%s, and %zu %s given: give all of them, in their order",
                                   stored[i].count, stored[i].count == 1 ? "" : "s", NAMES[i], lists[i]->count,
                                   lists[i]->count == 1 ? "is" : "are");
    return code;
}

int train_recipe_resume(train_recipe *recipe, bool *changed, const cli_syntax *syntax, int argc, char **argv) {
    const char *dir = recipe->resume, *device = recipe->device;
    const bool shard_optimizer = recipe->shard_optimizer, gradient_checkpointing = recipe->gradient_checkpointing;
    cli_strings stored[LISTS] = {{0}};
    train_recipe_free(recipe);
    *recipe = train_recipe_unset();
    recipe->resume = dir;
    int code = read_file(recipe, dir);
    train_recipe kept = *recipe;
    if (code == CLI_OK)
        code = parse_over(recipe, stored, syntax, argc, argv);
    recipe->device = device;
    recipe->shard_optimizer = shard_optimizer;
    recipe->gradient_checkpointing = gradient_checkpointing;
    const char *fixed = code == CLI_CONTINUE ? find_fixed(recipe, &kept, changed) : NULL;
    for (size_t i = 0; i < LISTS; i++)
        free(stored[i].items);
    if (code != CLI_CONTINUE)
        return code;
    if (fixed)
        return cli_usage_error(syntax, "--%s cannot change in a resumed run: start a new one", fixed);
    if (validated_apart(recipe) && !validated_apart(&kept) &&
        kept.hold_out > 0) /* the run would train on held-out pairs */
        return cli_usage_error(syntax, "the run holds pairs out for validation: give validation files to a new run");
    return train_recipe_settle(recipe, syntax);
}

/* ---- Comparison of ranks ------------------------------------------------------------------------------- */

/* An option's value as text, comparable between ranks; may point to `room`. */
static const char *words_of(char *room, size_t size, const cli_option *option) {
    const char *text = "";
    switch (option->kind) {
    case CLI_FLAG:
        return *(bool *)option->value ? "yes" : "no";
    case CLI_STRING:
        text = *(const char **)option->value;
        return !text ? "" : strcmp(option->argument, "FILE") == 0 ? "given" : text;
    case CLI_LIST:
        snprintf(room, size, "%zu", ((cli_strings *)option->value)->count);
        return room;
    case CLI_DOUBLE:
        snprintf(room, size, "%.*g", TRAIN_DIGITS, *(double *)option->value);
        return isnan(*(double *)option->value) ? "" : room;
    default:
        snprintf(room, size, "%d", *(int *)option->value);
        return room;
    }
}

void train_recipe_hash(const train_recipe *recipe, uint64_t hashes[TRAIN_OPTIONS]) {
    static const char *const PER_RANK[] = {"device", "gradient-checkpointing"};
    cli_option options[TRAIN_OPTIONS];
    train_recipe own = *recipe;
    const size_t count = train_recipe_options(&own, options);
    char room[64];
    memset(hashes, 0, TRAIN_OPTIONS * sizeof(*hashes));
    for (size_t i = 0; i < count; i++) {
        const char *text = words_of(room, sizeof(room), &options[i]);
        if (!is_one_of(PER_RANK, CLI_COUNT(PER_RANK), options[i].name))
            hashes[i] = train_hash(TRAIN_HASH, text, strlen(text));
    }
}

const char *train_recipe_name(size_t option) {
    cli_option options[TRAIN_OPTIONS];
    train_recipe any = train_recipe_unset();
    return option < train_recipe_options(&any, options) ? options[option].name : "";
}
