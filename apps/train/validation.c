/* The validation set of a run. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "train/train.h"

enum { CHUNK_BYTES = 1 << 20 };

/* ---- Lines --------------------------------------------------------------------------------------------- */

static int add(train_validation *v, const char *source, size_t source_bytes, const char *target, size_t target_bytes) {
    size_t rooms[] = {v->room, v->room, v->room, v->room}; /* equal, unless memory runs out */
    if (!cli_grow(&v->sources, &rooms[0], v->count + 1, sizeof(*v->sources)) ||
        !cli_grow(&v->targets, &rooms[1], v->count + 1, sizeof(*v->targets)) ||
        !cli_grow(&v->source_bytes, &rooms[2], v->count + 1, sizeof(*v->source_bytes)) ||
        !cli_grow(&v->target_bytes, &rooms[3], v->count + 1, sizeof(*v->target_bytes)))
        return cli_fail("out of memory for %zu lines of validation", v->count);
    v->room = rooms[0];
    char *s = strndup(source, source_bytes), *t = strndup(target, target_bytes);
    if (!s || !t) {
        free(s);
        free(t);
        return cli_fail("out of memory for %zu lines of validation", v->count);
    }
    v->sources[v->count] = s;
    v->targets[v->count] = t;
    v->source_bytes[v->count] = source_bytes;
    v->target_bytes[v->count++] = target_bytes;
    return CLI_OK;
}

/* Two files, or one TSV file. */
typedef struct reader {
    cli_lines source, target;
    size_t source_used, target_used;
    bool tsv, tabless; /* of the last line */
} reader;

static int refill(cli_lines *lines, size_t *used) {
    if (*used < lines->count)
        return CLI_OK;
    *used = 0;
    return cli_lines_next(lines, CHUNK_BYTES);
}

/* The next pair; *there is false at the end of either file. */
static int next(reader *r, bool *there, const char **source, size_t *source_bytes, const char **target,
                size_t *target_bytes) {
    int code = refill(&r->source, &r->source_used);
    if (code == CLI_OK && !r->tsv)
        code = refill(&r->target, &r->target_used);
    *there = code == CLI_OK && r->source.count > 0 && (r->tsv || r->target.count > 0);
    if (!*there)
        return code;
    *source = r->source.text[r->source_used];
    *source_bytes = r->source.bytes[r->source_used++];
    if (!r->tsv) {
        *target = r->target.text[r->target_used];
        *target_bytes = r->target.bytes[r->target_used++];
        return CLI_OK;
    }
    const char *tab = memchr(*source, '\t', *source_bytes);
    r->tabless = !tab;
    const size_t before = tab ? (size_t)(tab - *source) : *source_bytes;
    *target = tab ? tab + 1 : "";
    *target_bytes = tab ? *source_bytes - before - 1 : 0;
    const char *more = memchr(*target, '\t', *target_bytes); /* ignore further columns */
    if (more)
        *target_bytes = (size_t)(more - *target);
    *source_bytes = before;
    return CLI_OK;
}

static int open_files(reader *r, const char *source, const char *target) {
    *r = (reader){.tsv = target == NULL, .source = {.fd = -1}, .target = {.fd = -1}};
    int code = cli_lines_open(&r->source, NULL, source);
    if (code == CLI_OK && target)
        code = cli_lines_open(&r->target, NULL, target);
    return code;
}

static void close_files(reader *r) {
    cli_lines_close(&r->source);
    cli_lines_close(&r->target);
}

/* Why a side of a pair cannot be used; NULL if it can. The message is in `room`. */
static const char *why_bad(char *room, size_t room_bytes, const char *side, const char *text, size_t bytes) {
    size_t blanks = 0;
    while (blanks < bytes && (text[blanks] == ' ' || text[blanks] == '\t'))
        blanks++;
    if (blanks < bytes && tfm_text_check(text, bytes) == TFM_OK)
        return NULL;
    if (blanks == bytes)
        snprintf(room, room_bytes, "the %s is empty", side);
    else
        snprintf(room, room_bytes, "the %s: %s", side, tfm_error_message());
    return room;
}

/* Reads every `every`-th pair of the files, after *before pairs of other files; 1: all. Bad pairs are skipped and
 * counted, or refused if `strict`. */
static int read_pairs(train_validation *v, const char *source, const char *target, int64_t every, int64_t *before,
                      bool strict) {
    reader r;
    bool there = true;
    size_t bad = 0;
    int64_t line = 0;
    int code = open_files(&r, source, target);
    while (code == CLI_OK && there) {
        const char *s, *t;
        size_t s_bytes, t_bytes;
        code = next(&r, &there, &s, &s_bytes, &t, &t_bytes);
        line += there;
        if (code != CLI_OK || !there || (*before + line) % every != 0)
            continue;
        char room[512];
        const char *why = r.tabless ? "there is no tab in it" : why_bad(room, sizeof(room), "source", s, s_bytes);
        why = why ? why : why_bad(room, sizeof(room), "target", t, t_bytes);
        if (!why)
            code = add(v, s, s_bytes, t, t_bytes);
        else if (strict)
            code = cli_fail("%s%s%s, line %lld: %s", source, target ? " and " : "", target ? target : "",
                            (long long)line, why);
        bad += why != NULL;
    }
    if (code == CLI_OK && every == 1 && target && r.source.count + r.target.count > 0 &&
        (r.source_used < r.source.count || r.target_used < r.target.count))
        code = cli_fail("%s and %s have different numbers of lines: give a translation for each line", source, target);
    if (code == CLI_OK && bad > 0)
        train_print("validation: %zu bad pairs of %s are skipped", bad, source);
    close_files(&r);
    *before += line;
    return code;
}

/* Reads the pairs held out of the training files. */
static int read_held_out(train_validation *v, const train_recipe *recipe) {
    int64_t line = 0;
    int code = CLI_OK;
    const char *const *targets;
    const cli_strings *sources = train_pair_files(recipe, &targets);
    for (size_t i = 0; i < sources->count && code == CLI_OK; i++)
        code = read_pairs(v, sources->items[i], targets ? targets[i] : NULL, recipe->hold_every, &line, recipe->strict);
    return code;
}

/* ---- Texts --------------------------------------------------------------------------------------------- */

static int add_text(train_validation *v, const char *text, size_t bytes) {
    size_t rooms[] = {v->room, v->room}; /* equal, unless memory runs out */
    if (!cli_grow(&v->targets, &rooms[0], v->count + 1, sizeof(*v->targets)) ||
        !cli_grow(&v->target_bytes, &rooms[1], v->count + 1, sizeof(*v->target_bytes)) ||
        !(v->targets[v->count] = strndup(text, bytes)))
        return cli_fail("out of memory for %zu lines of validation", v->count);
    v->room = rooms[0];
    v->target_bytes[v->count++] = bytes;
    return CLI_OK;
}

static bool is_blank(const char *text, size_t bytes) {
    size_t blanks = 0;
    while (blanks < bytes && (text[blanks] == ' ' || text[blanks] == '\t' || text[blanks] == '\r'))
        blanks++;
    return blanks == bytes;
}

/* Reads every `every`-th line of a file, after *before lines of other files; skips empty ones. */
static int read_texts(train_validation *v, const char *path, int64_t every, int64_t *before, bool strict) {
    cli_lines lines = {.fd = -1};
    size_t used = 0, bad = 0;
    int64_t line = 0;
    int code = cli_lines_open(&lines, NULL, path);
    for (;;) {
        if (code == CLI_OK)
            code = refill(&lines, &used);
        if (code != CLI_OK || lines.count == 0)
            break;
        const char *text = lines.text[used];
        const size_t bytes = lines.bytes[used++];
        if ((*before + ++line) % every != 0 || is_blank(text, bytes))
            continue;
        if (tfm_text_check(text, bytes) == TFM_OK)
            code = add_text(v, text, bytes);
        else if (strict)
            code = cli_fail("%s, line %lld: %s", path, (long long)line, tfm_error_message());
        else
            bad++;
    }
    if (code == CLI_OK && bad > 0)
        train_print("validation: %zu bad lines of %s are skipped", bad, path);
    cli_lines_close(&lines);
    *before += line;
    return code;
}

/* The next document of a file; *text is NULL after the last one, or for a bad one (*bad). */
static int next_document(tfm_documents *documents, const char **text, size_t *bytes, bool *bad) {
    const tfm_status status = tfm_documents_next(documents, text, bytes);
    *bad = status == TFM_ERROR_INPUT;
    return status == TFM_OK || *bad ? CLI_OK : cli_fail_library();
}

/* The same for documents of several lines; v NULL: only counts them, into *before. */
static int read_documents(train_validation *v, const char *path, const train_recipe *recipe, int64_t every,
                          int64_t *before) {
    const tfm_document_options form = train_document_options(recipe);
    tfm_documents *documents;
    size_t bad_count = 0;
    int code = tfm_documents_open(&documents, path, &form) == TFM_OK ? CLI_OK : cli_fail_library();
    while (code == CLI_OK) {
        const char *text;
        size_t bytes;
        bool bad;
        code = next_document(documents, &text, &bytes, &bad);
        if (code != CLI_OK || (!text && !bad))
            break;
        ++*before;
        if (!v || *before % every != 0 || (!bad && is_blank(text, bytes)))
            continue;
        if (!bad && (bad = tfm_text_check(text, bytes) != TFM_OK) == false)
            code = add_text(v, text, bytes);
        else if (recipe->strict)
            code = cli_fail("%s, text %lld: %s", path, (long long)*before, tfm_error_message());
        bad_count += bad;
    }
    tfm_documents_free(&documents);
    if (code == CLI_OK && bad_count > 0)
        train_print("validation: %zu bad texts of %s are skipped", bad_count, path);
    return code;
}

static int read_any(train_validation *v, const char *path, const train_recipe *recipe, int64_t every, int64_t *before) {
    return train_has_documents(recipe) ? read_documents(v, path, recipe, every, before)
                                       : read_texts(v, path, every, before, recipe->strict);
}

static int open_texts(train_validation *v, const train_recipe *recipe) {
    int64_t before = 0;
    int code = CLI_OK;
    const cli_strings *files = train_text_files(recipe);
    const char *valid = train_valid_texts(recipe);
    if (valid) {
        code = read_any(v, valid, recipe, 1, &before);
        return code == CLI_OK && v->count == 0 ? cli_fail("%s has no %s for validation", valid, train_unit(recipe, 1))
                                               : code;
    }
    for (size_t i = 0; i < files->count && recipe->hold_every > 0 && code == CLI_OK; i++)
        code = read_any(v, files->items[i], recipe, recipe->hold_every, &before);
    return code;
}

/* ---- The set ------------------------------------------------------------------------------------------- */

int train_validation_open(train_validation *v, const train_recipe *recipe) {
    *v = (train_validation){
        .texts = train_is_lm(recipe),
        .metrics = {.tokenizer = (tfm_metrics_tokenizer)recipe->valid_tokenize, .lowercase = recipe->valid_lowercase},
        .search = {.beam_size = recipe->valid_beam_size},
        .source_language = recipe->init_from ? recipe->source_language : NULL,
        .target_language = recipe->init_from ? recipe->target_language : NULL};
    int code = CLI_OK;
    int64_t line = 0;
    if (v->texts)
        return open_texts(v, recipe);
    if (recipe->valid_source || recipe->valid_tsv) {
        code = recipe->valid_tsv ? read_pairs(v, recipe->valid_tsv, NULL, 1, &line, recipe->strict)
                                 : read_pairs(v, recipe->valid_source, recipe->valid_target, 1, &line, recipe->strict);
        if (code == CLI_OK && v->count == 0)
            code =
                cli_fail("%s has no pair for validation", recipe->valid_tsv ? recipe->valid_tsv : recipe->valid_source);
    } else if (recipe->hold_every > 0) {
        code = read_held_out(v, recipe);
    }
    return code;
}

/* Removes what is no conversation. */
static int remove_bad_chats(train_validation *v, const tfm_tokenizer *tokenizer) {
    size_t good = 0;
    for (size_t i = 0; i < v->count; i++) {
        int32_t *ids;
        size_t count;
        const tfm_status status =
            tfm_chat_encode_example(v->chat, &ids, &count, tokenizer, v->targets[i], v->target_bytes[i]);
        tfm_ids_free(&ids);
        if (status != TFM_OK && status != TFM_ERROR_INPUT)
            return cli_fail_library();
        char *text = v->targets[i];
        v->targets[i] = NULL;
        if (status == TFM_OK) {
            v->targets[good] = text;
            v->target_bytes[good++] = v->target_bytes[i];
        } else {
            free(text);
        }
    }
    if (good < v->count)
        train_print("validation: %zu bad conversations are skipped: %s", v->count - good, tfm_error_message());
    v->count = good;
    return CLI_OK;
}

int train_validation_warn(train_validation *v, const tfm_tokenizer *tokenizer, int positions) {
    size_t cut = 0;
    cli_word_spacing spaces = {0};
    if (v->chat)
        return remove_bad_chats(v, tokenizer);
    if (v->texts) /* long texts are scored in windows */
        return CLI_OK;
    for (size_t i = 0; i < v->count; i++) {
        size_t counts[2] = {0, 0};
        cli_word_spacing_add(&spaces, v->targets[i], v->target_bytes[i]);
        for (int side = 0; side < 2; side++) {
            int32_t *ids;
            if (tfm_tokenizer_encode(tokenizer, &ids, &counts[side], side ? TFM_TARGET : TFM_SOURCE,
                                     side ? v->targets[i] : v->sources[i],
                                     side ? v->target_bytes[i] : v->source_bytes[i]) != TFM_OK)
                return cli_fail_library();
            tfm_ids_free(&ids);
        }
        cut += counts[0] > (size_t)positions || counts[1] > (size_t)positions;
    }
    if (cut > 0)
        train_print("validation: %zu pairs have a side of more than %d tokens, which is truncated: give a new run "
                    "larger --max-positions",
                    cut, positions);
    if (v->metrics.tokenizer == TFM_TOKENIZE_13A && cli_word_spacing_none(&spaces))
        train_print("validation: the translations are written without spaces, so BLEU counts whole clauses as words: "
                    "give --valid-tokenize char to count characters");
    return CLI_OK;
}

uint64_t train_validation_hash(const train_validation *v) {
    const int how[] = {(int)v->metrics.tokenizer, v->metrics.lowercase, v->search.beam_size};
    uint64_t hash = train_hash(TRAIN_HASH, how, sizeof(how));
    for (size_t i = 0; i < v->count; i++) {
        if (!v->texts)
            hash = train_hash(hash, v->sources[i], v->source_bytes[i] + 1); /* with the terminating NUL */
        hash = train_hash(hash, v->targets[i], v->target_bytes[i] + 1);
    }
    return hash;
}

int train_count_lines(const char *path, int64_t *count) {
    cli_lines lines;
    int code = cli_lines_open(&lines, NULL, path);
    do {
        if (code == CLI_OK)
            code = cli_lines_next(&lines, CHUNK_BYTES);
    } while (code == CLI_OK && lines.count > 0);
    *count = (int64_t)lines.first;
    cli_lines_close(&lines);
    return code;
}

int train_count_all(const train_recipe *recipe, int64_t *count) {
    const char *const *targets;
    const cli_strings *files = train_is_lm(recipe) ? train_text_files(recipe) : train_pair_files(recipe, &targets);
    int code = CLI_OK;
    *count = 0;
    for (size_t i = 0; i < files->count && code == CLI_OK; i++) {
        int64_t more = 0;
        code = train_has_documents(recipe) ? read_documents(NULL, files->items[i], recipe, 1, &more)
                                           : train_count_lines(files->items[i], &more);
        *count += more;
    }
    return code;
}

void train_validation_close(train_validation *v) {
    for (size_t i = 0; i < v->count; i++) {
        if (v->sources)
            free(v->sources[i]);
        free(v->targets[i]);
    }
    free(v->sources);
    free(v->targets);
    free(v->source_bytes);
    free(v->target_bytes);
    *v = (train_validation){0};
}
