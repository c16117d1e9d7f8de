/* Sentence splitting by UAX #29 with ICU, plus abbreviations, which those rules cannot know. */
#include "text/sentences.h"
#include <string.h>
#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/uloc.h>
#include <unicode/utext.h>
#include <unicode/utf8.h>
#include "text/placeholders.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

/* Abbreviations that rarely end a sentence, in lower case, without the last stop. Excludes ones that often do, such as
 * "etc.", and ones that are also words or names, such as "Jan.": splitting too often does less harm than too rarely. */
static const struct {
    const char *language, *words; /* a space before and after each word */
} ABBREVIATIONS[] = {
    {"", " dr prof st mr mrs ms mme mlle vs "},
    {"cs", " např tzv tj ing mgr bc judr mudr phdr ul str č sv cca mj resp tř "},
    {"da", " f.eks bl.a dvs ca nr kl hr fr jf mht mfl "},
    {"de", " hr fr hrn dipl ing med jur nr str abs bd bzw ca evtl ggf inkl exkl mind mio mrd sog vgl tel zzgl bspw "
           "d.h z.b u.a i.d.r z.t geb gest jh jhd kap anm abb aufl hrsg vs feb apr jun jul aug sept okt nov dez "},
    {"en", " messrs rev hon gen col maj capt cmdr lt sgt sen rep gov pres mt fig eq vol ch pp approx dept univ "
           "e.g i.e cf viz jan feb apr jun jul aug sept sep oct nov dec "},
    {"es", " sr sra srta sres dra d dña ud uds lic ing gral cap núm pág págs vol avda aprox ee.uu p.ej ej "},
    {"fi", " esim klo nro tri ns mm "},
    {"fr", " m mm mme mmes mlles mgr pr ste chap fig pp éd cf av janv févr avr juil sept oct nov déc "},
    {"it", " sig sigg sig.ra dott dott.ssa prof.ssa ing avv arch on rev pag pagg cap vol fig "},
    {"nb", " f.eks bl.a dvs ca nr kl hr fr jf "},
    {"nl",
     " dhr mevr mw drs ir ing nr blz bijv ca evt incl m.a.w o.a d.w.z t.a.v feb apr jun jul aug sept okt nov dec "},
    {"pl", " np tzn tzw m.in mgr inż ul al nr str św godz tj "},
    {"pt", " sr sra srs srta dra profa eng exmo exma d av núm pág vol fig p.ex "},
    {"ru", " г гг т.е т.к ул стр см проф акад млн млрд тыс руб "},
    {"sv", " t.ex bl.a d.v.s s.k ca nr kl "},
};

/* Languages that write "3." for "third". */
static const char ORDINALS[] = " cs da de et fi hr hu lv nb pl sk sl sr tr ";

struct tfm__sentence_splitter {
    UBreakIterator *breaks;
    const char *common, *own; /* abbreviations; `own` may be NULL */
    bool ordinals, english;
    tfm_placeholders *placeholders; /* NULL until a line may have some */
    tfm_status status;              /* of the current line */
};

static const char *abbreviations_of(const char *language) {
    for (size_t i = 0; i < TFM__COUNT(ABBREVIATIONS); i++)
        if (strcmp(ABBREVIATIONS[i].language, language) == 0)
            return ABBREVIATIONS[i].words;
    return NULL;
}

/* Whether a list of words, each between spaces, contains this one. */
static bool has_word(const char *list, const char *word, size_t bytes) {
    for (const char *at = list; at && (at = strchr(at, ' ')); at++)
        if (strncmp(at + 1, word, bytes) == 0 && at[1 + bytes] == ' ')
            return bytes > 0;
    return false;
}

tfm_status tfm__sentence_splitter_open(tfm__sentence_splitter **out, const char *language) {
    char code[ULOC_LANG_CAPACITY] = "";
    UErrorCode error = U_ZERO_ERROR;
    if (language)
        uloc_getLanguage(language, code, sizeof(code), &error); /* "deu" becomes "de" */
    if (U_FAILURE(error) || error == U_STRING_NOT_TERMINATED_WARNING)
        code[0] = 0;
    if (strcmp(code, "no") == 0 || strcmp(code, "nn") == 0) /* one list for both forms of Norwegian */
        memcpy(code, "nb", 3);
    error = U_ZERO_ERROR;
    *out = tfm__alloc(1, sizeof(**out));
    if (!*out)
        return TFM_ERROR_MEMORY;
    **out = (tfm__sentence_splitter){.breaks = ubrk_open(UBRK_SENTENCE, code, NULL, 0, &error),
                                     .common = abbreviations_of(""),
                                     .own = *code ? abbreviations_of(code) : NULL,
                                     .ordinals = has_word(ORDINALS, code, strlen(code)),
                                     .english = !*code || strcmp(code, "en") == 0};
    if (U_SUCCESS(error))
        return TFM_OK;
    tfm__sentence_splitter_free(out);
    return tfm__fail(TFM_ERROR_UNSUPPORTED, "ICU has no rules for sentences: %s; its data may be missing",
                     u_errorName(error));
}

void tfm__sentence_splitter_free(tfm__sentence_splitter **splitter) {
    if (*splitter && (*splitter)->breaks)
        ubrk_close((*splitter)->breaks);
    if (*splitter)
        tfm_placeholders_free(&(*splitter)->placeholders);
    free(*splitter);
    *splitter = NULL;
}

/* The number of single letters separated by stops, "J" or "J.R", and the first of them; 0 otherwise. */
static int count_initials(UChar32 *first, const char *word, size_t bytes) {
    const uint8_t *at = (const uint8_t *)word;
    int count = 0;
    bool letter = false;
    for (int32_t i = 0, end = (int32_t)bytes; i < end; letter = !letter) {
        UChar32 c;
        U8_NEXT(at, i, end, c);
        if (letter ? c != '.' : !u_isalpha(c))
            return 0;
        if (count == 0)
            *first = c;
        count += !letter;
    }
    return letter ? count : 0;
}

/* Whether the text begins with a letter and a stop: "B" of "z. B.". */
static bool initial_after(const char *text, size_t bytes) {
    const char *stop = bytes ? memchr(text, '.', bytes < 5 ? bytes : 5) : NULL;
    UChar32 letter;
    return stop && count_initials(&letter, text, (size_t)(stop - text)) == 1;
}

/* Whether the text ends with a letter and a stop, ignoring blanks: "z." before "B". */
static bool initial_before(const char *text, size_t bytes) {
    const uint8_t *at = (const uint8_t *)text;
    int32_t end = (int32_t)tfm__unicode_trim(text, bytes);
    UChar32 c = 0;
    if (end < 2 || at[--end] != '.')
        return false;
    U8_PREV(at, 0, end, c);
    if (!u_isalpha(c) || end == 0)
        return u_isalpha(c);
    U8_PREV(at, 0, end, c);
    return !u_isalnum(c);
}

/* Whether the word at byte `first` follows an apostrophe or hyphen of a longer one: "t" of "can't", "y" of "Vas-y". */
static bool is_tail(const char *text, size_t first) {
    const uint8_t *at = (const uint8_t *)text;
    int32_t before = (int32_t)first;
    UChar32 mark = 0, letter = 0;
    if (before > 0)
        U8_PREV(at, 0, before, mark);
    if (before > 0)
        U8_PREV(at, 0, before, letter);
    return (mark == '\'' || mark == 0x2019 || mark == '-' || mark == 0x2010) && u_isalpha(letter);
}

/* Whether the word of `bytes` bytes at `first` is one or several initials. A lower-case letter counts only next to
 * another one, as in "z. B.": most are words, such as Russian "я". "I" ends English sentences. */
static bool is_initials(const tfm__sentence_splitter *s, const char *text, size_t first, size_t bytes,
                        bool another_follows) {
    const char *word = text + first;
    UChar32 letter = 0;
    const int count = count_initials(&letter, word, bytes);
    if (count != 1 || is_tail(text, first))
        return count > 1;
    if (u_islower(letter))
        return another_follows || initial_before(text, first);
    return !(s->english && letter == 'I');
}

/* Whether the final stop belongs to an abbreviation, an initial or an ordinal; `another_follows`: an initial
 * follows. */
static bool ends_with_abbreviation(tfm__sentence_splitter *s, const char *text, size_t bytes, bool another_follows) {
    if (bytes < 2 || text[bytes - 1] != '.')
        return false;
    size_t first = --bytes, digits = 0;
    while (first > 0) {
        const uint8_t *at = (const uint8_t *)text;
        int32_t before = (int32_t)first;
        UChar32 c;
        U8_PREV(at, 0, before, c);
        if (u_isspace(c) || (!u_isalnum(c) && c != '.'))
            break;
        digits += c >= '0' && c <= '9';
        first = (size_t)before;
    }
    const char *word = text + first;
    const size_t length = bytes - first;
    if (length == 0 || length > 32)
        return false;
    if (digits == length)
        return s->ordinals && digits <= 2;
    if (is_initials(s, text, first, length, another_follows))
        return true;
    char *lower = NULL;
    size_t lower_bytes = 0;
    const tfm_status status = tfm__unicode_lower(&lower, &lower_bytes, word, length);
    if (status != TFM_OK) {
        s->status = status;
        return false;
    }
    const bool known = has_word(s->common, lower, lower_bytes) || has_word(s->own, lower, lower_bytes);
    free(lower);
    return known;
}

/* Whether the first letter or digit is lower case: then the text before was not a sentence ("Halt!" rief er.). */
static bool begins_lowercase(const char *text, size_t bytes) {
    const uint8_t *at = (const uint8_t *)text;
    for (int32_t i = 0, end = (int32_t)bytes; i < end;) {
        UChar32 c;
        U8_NEXT(at, i, end, c);
        if (u_isalnum(c))
            return u_islower(c);
    }
    return false;
}

static size_t skip_blanks(const char *text, size_t from, size_t to) {
    const uint8_t *at = (const uint8_t *)text;
    while (from < to) {
        int32_t next = (int32_t)from;
        UChar32 c;
        U8_NEXT(at, next, (int32_t)to, c);
        if (!u_isspace(c))
            break;
        from = (size_t)next;
    }
    return from;
}

/* Adds the segment from `from` to `to` without its blanks, as a new sentence or as part of the last one. */
static void add_segment(tfm__sentence_splitter *s, tfm_sentence *list, size_t *count, const char *line, size_t from,
                        size_t to) {
    from = skip_blanks(line, from, to);
    const size_t bytes = tfm__unicode_trim(line + from, to - from);
    tfm_sentence *last = *count > 0 ? &list[*count - 1] : NULL;
    if (bytes == 0)
        return;
    if (last && (!tfm__unicode_has_alnum(line + from, bytes) ||
                 !tfm__unicode_has_alnum(line + last->start, last->bytes) || begins_lowercase(line + from, bytes) ||
                 ends_with_abbreviation(s, line + last->start, last->bytes, initial_after(line + from, bytes))))
        last->bytes = from + bytes - last->start;
    else
        list[(*count)++] = (tfm_sentence){from, bytes};
}

/* The placeholders of a line that have one of the characters around those with blanks, as {{ a. B }} is. */
static tfm_status find_placeholders(tfm__sentence_splitter *s, tfm__placeholder **found, size_t *count,
                                    const char *line, size_t bytes) {
    bool look = false;
    for (size_t i = 0; i < bytes && !look; i++)
        look = line[i] && strchr("{[<`\\$*", line[i]);
    if (!look)
        return TFM_OK;
    const tfm_status status = s->placeholders ? TFM_OK : tfm_placeholders_new(&s->placeholders, NULL, 0);
    return status == TFM_OK ? tfm__placeholders_find(s->placeholders, found, count, line, bytes) : status;
}

/* Adds the segments between ICU's breaks, except breaks in placeholders. */
static tfm_status add_segments(tfm__sentence_splitter *s, tfm_sentence *list, size_t *count, const char *line,
                               size_t bytes, size_t segments) {
    tfm__placeholder *found = NULL;
    size_t from = 0, next = 0, placeholders = 0;
    const tfm_status status = segments > 1 ? find_placeholders(s, &found, &placeholders, line, bytes) : TFM_OK;
    ubrk_first(s->breaks);
    for (int32_t at; status == TFM_OK && (at = ubrk_next(s->breaks)) != UBRK_DONE;) {
        const size_t stop = (size_t)at;
        while (next < placeholders && found[next].end <= stop)
            next++;
        if (next < placeholders && found[next].begin < stop)
            continue;
        add_segment(s, list, count, line, from, stop);
        from = stop;
    }
    free(found);
    return status == TFM_OK ? s->status : status;
}

tfm_status tfm__sentence_splitter_run(tfm__sentence_splitter *splitter, tfm_sentence **sentences, size_t *count,
                                      const char *line, size_t bytes) {
    UErrorCode error = U_ZERO_ERROR;
    *sentences = NULL;
    *count = 0;
    if (bytes > TFM__MAX_LINE) /* ICU counts bytes as int32_t */
        return tfm__fail(TFM_ERROR_INPUT, "the line has %zu bytes; up to %d are allowed", bytes, TFM__MAX_LINE);
    tfm_status status = tfm_text_check(line, bytes);
    if (status != TFM_OK)
        return status;
    UText text = UTEXT_INITIALIZER;
    utext_openUTF8(&text, line, (int64_t)bytes, &error);
    ubrk_setUText(splitter->breaks, &text, &error);
    size_t pieces = 0;
    for (int32_t at = ubrk_first(splitter->breaks); U_SUCCESS(error) && at != UBRK_DONE; pieces++)
        at = ubrk_next(splitter->breaks);
    *sentences = U_SUCCESS(error) ? tfm__alloc(pieces, sizeof(**sentences)) : NULL;
    splitter->status = TFM_OK;
    if (*sentences)
        status = add_segments(splitter, *sentences, count, line, bytes, pieces - 1);
    utext_close(&text);
    if (U_FAILURE(error))
        return tfm__fail(TFM_ERROR_MEMORY, "ICU cannot find the sentences of a line of %zu bytes: %s", bytes,
                         u_errorName(error));
    if (!*sentences)
        return TFM_ERROR_MEMORY;
    if (status != TFM_OK)
        *count = 0;
    if (*count == 0)
        tfm_sentences_free(sentences);
    return status;
}

tfm_status tfm_text_sentences(tfm_sentence **sentences, size_t *count, const char *line, size_t bytes,
                              const char *language) {
    TFM__CLEAR_OUT(sentences);
    if (TFM__NEEDS("text_sentences", sentences, count, line) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm__sentence_splitter *splitter;
    *count = 0;
    tfm_status status = tfm__sentence_splitter_open(&splitter, language);
    if (status == TFM_OK)
        status = tfm__sentence_splitter_run(splitter, sentences, count, line, bytes);
    tfm__sentence_splitter_free(&splitter);
    return status;
}

void tfm_sentences_free(tfm_sentence **sentences) {
    if (!sentences)
        return;
    free(*sentences);
    *sentences = NULL;
}

static bool is_wide(UChar32 c) {
    const int width = u_getIntPropertyValue(c, UCHAR_EAST_ASIAN_WIDTH);
    return width == U_EA_WIDE || width == U_EA_FULLWIDTH;
}

bool tfm__sentences_need_space(const char *before, const char *after) {
    const uint8_t *at = (const uint8_t *)before, *next = (const uint8_t *)after;
    int32_t end = (int32_t)strlen(before), first = 0;
    UChar32 last_letter, first_letter;
    if (end == 0 || !*after)
        return false;
    U8_PREV(at, 0, end, last_letter);
    U8_NEXT(next, first, (int32_t)strlen(after), first_letter);
    return !is_wide(last_letter) && !is_wide(first_letter);
}
