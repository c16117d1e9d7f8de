/* Language detection by script, frequent words and, if built in, CLD2; served languages have priority. */
#include <string.h>
#include <unicode/uchar.h>
#include <unicode/uloc.h>
#include <unicode/uscript.h>
#include <unicode/utf8.h>
#include "serve/detect.h"

/* Bytes examined; maximum bytes of a short text; words looked up; candidate languages. */
enum { MOST = 4096, SHORT = 240, WORDS = 48, WORD_BYTES = 48, CANDIDATES = 64, LETTERS = 16 };
/* Points: CLD2's score of a clear text is more than CLEAR; frequent words give at most WORD_POINTS. */
static const double CLEAR = 900, MOST_POINTS = 3000, WORD_POINTS = 2200;
/* Points if all letters besides a to z belong to a language; the factor if one does not. */
static const double OWN_LETTERS = 120, FOREIGN_LETTERS = 0.3;
/* Fraction of frequent words above which a foreign letter counts as part of a name. */
static const double ENOUGH_WORDS = 0.3;

typedef struct sample {
    const char *text;
    size_t bytes, letters, words;
    UScriptCode script;       /* of most letters */
    UChar32 special[LETTERS]; /* letters besides a to z, each once */
    size_t specials;
    char lower[WORDS][WORD_BYTES];
} sample;

typedef struct candidate {
    char code[SERVE_CODE];
    double points, words; /* fraction of the text in its frequent words */
} candidate;

typedef struct choice {
    candidate items[CANDIDATES];
    int count;
} choice;

/* ---- Codes ----------------------------------------------------------------------------------------------------- */

/* Normalizes a language code: two letters if there are, as in CLD2 and most models. */
static void language_of(char out[SERVE_CODE], const char *code) {
    static const char *const SAME[][2] = {{"nb", "no"}, {"nn", "no"}, {"iw", "he"}, {"in", "id"}, {"jw", "jv"}};
    UErrorCode status = U_ZERO_ERROR;
    if (strlen(code) == 2 || uloc_getLanguage(code, out, SERVE_CODE, &status) <= 0 || U_FAILURE(status))
        snprintf(out, SERVE_CODE, "%s", code);
    for (size_t i = 0; i < CLI_COUNT(SAME); i++)
        if (strcmp(out, SAME[i][0]) == 0)
            snprintf(out, SERVE_CODE, "%s", SAME[i][1]);
}

bool serve_language_same(const char *a, const char *b) {
    char left[SERVE_CODE], right[SERVE_CODE];
    language_of(left, a);
    language_of(right, b);
    return strcmp(left, right) == 0;
}

/* The code of a served model for it, source codes first; else the usual one. */
static void name_code(char out[SERVE_CODE], const serve_models *models, const char *code) {
    if (strchr(code, '-')) /* zh-Hant */
        snprintf(out, SERVE_CODE, "%s", code);
    else
        language_of(out, code);
    for (int target = 0; target < 2; target++)
        for (size_t i = 0; i < models->count; i++) {
            const serve_model *m = models->items[i];
            const char *served = target ? m->target : m->source;
            if (m->task == SERVE_TRANSLATE && serve_language_same(served, code)) {
                snprintf(out, SERVE_CODE, "%s", served);
                return;
            }
        }
}

/* ---- Scripts --------------------------------------------------------------------------------------------------- */

/* Whether a language is written in a script; true if ICU does not know. */
static bool writes(const char *code, UScriptCode script) {
    UScriptCode scripts[8];
    UErrorCode status = U_ZERO_ERROR;
    const int32_t count = uscript_getCode(code, scripts, (int32_t)CLI_COUNT(scripts), &status);
    for (int32_t i = 0; U_SUCCESS(status) && i < count; i++)
        if (scripts[i] == script)
            return true;
    return U_FAILURE(status) || count <= 0 || (script == USCRIPT_CYRILLIC && serve_language_same(code, "sr"));
}

/* The most likely language of a script, by CLDR. */
static void likely_language(char out[SERVE_CODE], UScriptCode script) {
    char und[16], full[64];
    UErrorCode status = U_ZERO_ERROR;
    snprintf(und, sizeof(und), "und_%s", uscript_getShortName(script));
    uloc_addLikelySubtags(und, full, (int32_t)sizeof(full), &status);
    if (U_SUCCESS(status))
        uloc_getLanguage(full, out, SERVE_CODE, &status);
    if (U_FAILURE(status))
        snprintf(out, SERVE_CODE, "en");
}

/* Whether several languages share a script. */
static bool is_shared(UScriptCode script) {
    return script == USCRIPT_LATIN || script == USCRIPT_CYRILLIC || script == USCRIPT_ARABIC ||
           script == USCRIPT_DEVANAGARI || script == USCRIPT_BENGALI || script == USCRIPT_ETHIOPIC ||
           script == USCRIPT_HEBREW;
}

/* ---- Scanning a text ------------------------------------------------------------------------------------------- */

/* Adds a letter to the current word; -1 ends the word. */
static void add_letter(sample *s, size_t *used, UChar32 c) {
    if (c < 0) {
        s->words += *used > 0;
        *used = 0;
    } else if (s->words < WORDS && *used + U8_MAX_LENGTH < WORD_BYTES) {
        U8_APPEND_UNSAFE(s->lower[s->words], *used, u_tolower(c));
        s->lower[s->words][*used] = 0;
    } else {
        ++*used; /* too long for a frequent word: it still counts */
    }
}

static void add_special(sample *s, UChar32 c) {
    for (size_t i = 0; i < s->specials; i++)
        if (s->special[i] == c)
            return;
    if (c >= 0x80 && s->specials < LETTERS)
        s->special[s->specials++] = c;
}

static void read_sample(sample *s, const char *text, size_t bytes) {
    size_t counts[USCRIPT_CODE_LIMIT] = {0}, used = 0, kana;
    *s = (sample){.text = text, .bytes = bytes < MOST ? bytes : MOST, .script = USCRIPT_COMMON};
    while (s->bytes > 0 && s->bytes < bytes && ((unsigned char)text[s->bytes] & 0xC0) == 0x80)
        s->bytes--; /* not in the middle of a character */
    for (int32_t i = 0; (size_t)i < s->bytes;) {
        UErrorCode status = U_ZERO_ERROR;
        UChar32 c;
        U8_NEXT(text, i, (int32_t)s->bytes, c);
        const UScriptCode script = c < 0 ? USCRIPT_COMMON : uscript_getScript(c, &status);
        const bool letter = c >= 0 && u_isalpha(c), mark = script == USCRIPT_INHERITED || c == '\'';
        add_letter(s, &used, letter ? c : mark && used > 0 ? c : c == 0x2019 && used > 0 ? '\'' : -1);
        if (letter && script > USCRIPT_INHERITED && script < USCRIPT_CODE_LIMIT)
            counts[script]++, s->letters++, add_special(s, c);
    }
    add_letter(s, &used, -1);
    kana = counts[USCRIPT_HIRAGANA] + counts[USCRIPT_KATAKANA];
    if (kana * 8 > counts[USCRIPT_HAN]) /* Japanese, with or without Han */
        counts[USCRIPT_HIRAGANA] = kana + (kana ? counts[USCRIPT_HAN] : 0), counts[USCRIPT_KATAKANA] = 0;
    for (int i = USCRIPT_INHERITED + 1; i < USCRIPT_CODE_LIMIT; i++)
        if (counts[i] > 0 && (s->script == USCRIPT_COMMON || counts[i] > counts[s->script]))
            s->script = (UScriptCode)i;
}

/* ---- Points ---------------------------------------------------------------------------------------------------- */

static candidate *add_candidate(choice *c, const char *code, UScriptCode script) {
    for (int i = 0; i < c->count; i++)
        if (serve_language_same(c->items[i].code, code))
            return &c->items[i];
    if (c->count == CANDIDATES || !writes(code, script))
        return NULL;
    snprintf(c->items[c->count].code, SERVE_CODE, "%s", code);
    c->items[c->count].points = c->items[c->count].words = 0;
    return &c->items[c->count++];
}

/* The fraction of frequent words of each language, 0 to 1. A word of several languages counts less for each. */
static void add_words(choice *c, const sample *s) {
    const size_t count = s->words < WORDS ? s->words : WORDS;
    for (size_t i = 0; i < count; i++) {
        const uint64_t of = serve_frequent_word(s->lower[i]);
        const char *code;
        for (size_t k = 0; of && (code = serve_frequent_language(k)); k++) {
            candidate *at = of >> k & 1 ? add_candidate(c, code, s->script) : NULL;
            if (at)
                at->words += 1.0 / (double)count / (double)__builtin_popcountll(of);
        }
    }
}

/* Runs CLD2 on a short text with each language as a hint: its result shows whether the language is possible. */
static void add_points(choice *c, const sample *s) {
    serve_cld2 found[SERVE_DETECTIONS];
    const int plain = serve_cld2_detect(found, s->text, s->bytes, NULL);
    for (int i = 0; i < plain; i++) {
        candidate *at = s->bytes > SHORT || found[i].score > CLEAR ? add_candidate(c, found[i].code, s->script) : NULL;
        if (at)
            at->points = found[i].score * found[i].percent / 100;
    }
    for (int i = 0; i < c->count; i++) {
        candidate *at = &c->items[i];
        char two[SERVE_CODE];
        language_of(two, at->code);
        if (s->bytes <= SHORT && plain > 0 && serve_cld2_detect(found, s->text, s->bytes, two) > 0 &&
            serve_language_same(found[0].code, at->code))
            at->points = found[0].score;
        at->points = at->points < MOST_POINTS ? at->points : MOST_POINTS;
        at->points += WORD_POINTS * at->words;
    }
}

/* Scores a short text's letters: special letters tell more than n-grams. Of languages that share a script, the most
 * common one comes first. */
static void add_letters(choice *c, const sample *s) {
    char usual[SERVE_CODE] = "";
    if (s->script != USCRIPT_LATIN)
        likely_language(usual, s->script);
    for (int i = 0; i < c->count && s->bytes <= SHORT; i++) {
        candidate *at = &c->items[i];
        const serve_letters how = serve_letters_of(at->code, s->special, s->specials);
        at->points += how == SERVE_LETTERS_OWN ? OWN_LETTERS : 0;
        at->points *= how == SERVE_LETTERS_FOREIGN && at->words < ENOUGH_WORDS ? FOREIGN_LETTERS : 1;
        at->points *= serve_language_same(at->code, usual) ? 1.15 : 1;
    }
}

static double preference_of(const serve_models *models, const char *code) {
    double more = 1;
    for (size_t i = 0; i < models->count; i++) {
        const serve_model *m = models->items[i];
        if (m->task == SERVE_TRANSLATE && serve_language_same(m->source, code))
            return 1.35;
        if (m->task == SERVE_TRANSLATE && serve_language_same(m->target, code))
            more = 1.2;
    }
    return more;
}

/* For one to three words, served languages come first, unless the words are frequent words of another language only. */
static void prefer_served(choice *c, const serve_models *models, const sample *s) {
    double words = 0;
    for (int i = 0; i < c->count; i++)
        words = c->items[i].words > words ? c->items[i].words : words;
    for (int i = 0; i < c->count && s->words <= 3; i++)
        if (words <= 0 || c->items[i].words > 0)
            c->items[i].points *= preference_of(models, c->items[i].code);
}

static void sort(choice *c) {
    for (int i = 1; i < c->count; i++) {
        const candidate now = c->items[i];
        int k = i;
        for (; k > 0 && c->items[k - 1].points < now.points; k--)
            c->items[k] = c->items[k - 1];
        c->items[k] = now;
    }
}

/* ---- The answer ------------------------------------------------------------------------------------------------ */

/* The confidence: by the score of the best, and by its distance to the next one. */
static double confidence_of(const choice *c, const sample *s) {
    const double best = c->items[0].points, next = c->count > 1 ? c->items[1].points : 0;
    const double clear = best < CLEAR ? best / CLEAR : 1, far = (best - next) / best;
    const double enough = (double)s->letters / (double)(s->letters + 3);
    return 98 * clear * enough * (far > 0.5 ? 1 : 0.15 + 1.7 * far);
}

static int answer(serve_detection out[SERVE_DETECTIONS], const serve_models *models, choice *c, const sample *s) {
    const double sure = confidence_of(c, s);
    double others = 0;
    int count = 0;
    for (int i = 1; i < c->count && i < SERVE_DETECTIONS; i++)
        others += c->items[i].points;
    for (int i = 0; i < c->count && count < SERVE_DETECTIONS; i++) {
        const double part = i == 0 ? sure : (100 - sure) * c->items[i].points / (others + c->items[0].points);
        if (i > 0 && (part < 5 || c->items[i].points <= 0))
            break;
        name_code(out[count].code, models, c->items[i].code);
        out[count++].confidence = (int)(part < sure ? part : sure);
    }
    return count;
}

/* The first served language of the script, else CLDR's. */
static void first_served(char out[SERVE_CODE], const serve_models *models, UScriptCode script) {
    for (size_t i = 0; i < models->count; i++)
        if (models->items[i]->task == SERVE_TRANSLATE &&
            (script == USCRIPT_COMMON || writes(models->items[i]->source, script))) {
            snprintf(out, SERVE_CODE, "%s", models->items[i]->source);
            return;
        }
    likely_language(out, script == USCRIPT_COMMON ? USCRIPT_LATIN : script);
}

/* Languages without frequent words here that are distinguished by letters. */
static void add_by_letters(choice *c, const sample *s) {
    static const char *const CODES[] = {"fa", "ur", "mr", "be", "kk", "lv", "lt"};
    for (size_t i = 0; s->specials > 0 && i < CLI_COUNT(CODES); i++)
        if (serve_letters_of(CODES[i], s->special, s->specials) == SERVE_LETTERS_OWN)
            add_candidate(c, CODES[i], s->script);
}

/* Replaces URLs and e-mail addresses by blanks. */
static void blank_addresses(char *text) {
    for (char *word = text + strspn(text, " \t\r\n"), *end; *word; word = end + strspn(end, " \t\r\n")) {
        end = word + strcspn(word, " \t\r\n");
        const char last = *end, *at;
        *end = 0;
        at = strchr(word, '@');
        const bool address = strstr(word, "://") || strncmp(word, "www.", 4) == 0 || (at && strchr(at, '.'));
        *end = last;
        if (address)
            memset(word, ' ', (size_t)(end - word));
    }
}

int serve_detect_text(serve_detection out[SERVE_DETECTIONS], const serve_models *models, const char *text,
                      size_t bytes) {
    sample s;
    choice c = {0};
    char code[SERVE_CODE], copy[MOST + 1];
    const char *frequent;
    int32_t looked = bytes < MOST ? (int32_t)bytes : MOST;
    if (bytes > MOST)
        U8_SET_CP_START((const uint8_t *)text, 0, looked); /* not in the middle of a character */
    memcpy(copy, text, (size_t)looked);
    copy[looked] = 0;
    blank_addresses(copy);
    read_sample(&s, copy, (size_t)looked);
    if (s.script != USCRIPT_COMMON && !is_shared(s.script)) { /* the script determines it */
        likely_language(code, s.script);
        name_code(out[0].code, models, code);
        out[0].confidence = s.letters > 1 ? 98 : 90;
        return 1;
    }
    for (int target = 0; target < 2 && s.letters > 0; target++)
        for (size_t i = 0; i < models->count; i++)
            if (models->items[i]->task == SERVE_TRANSLATE)
                add_candidate(&c, target ? models->items[i]->target : models->items[i]->source, s.script);
    for (size_t i = 0; s.letters > 0 && (frequent = serve_frequent_language(i)); i++)
        add_candidate(&c, frequent, s.script);
    if (s.letters > 0 && s.script != USCRIPT_LATIN) {
        likely_language(code, s.script);
        add_candidate(&c, code, s.script);
    }
    add_words(&c, &s);
    add_by_letters(&c, &s);
    if (s.letters > 0)
        add_points(&c, &s), add_letters(&c, &s);
    prefer_served(&c, models, &s);
    sort(&c);
    if (c.count > 0 && c.items[0].points > 0)
        return answer(out, models, &c, &s);
    first_served(out[0].code, models, s.script); /* only the script is known */
    out[0].confidence = 0;
    return 1;
}

bool serve_detect_writes(const char *code, const char *text, size_t bytes) {
    sample s;
    read_sample(&s, text, bytes);
    return s.script == USCRIPT_COMMON || writes(code, s.script);
}
