/* Letters of languages, by CLDR. */
#include <string.h>
#include <unicode/ulocdata.h>
#include <unicode/uset.h>
#include "serve/detect.h"

typedef struct alphabet {
    char code[SERVE_CODE];
    USet *own, *loans; /* NULL: CLDR does not know the language */
} alphabet;

static USet *letters_of(ULocaleData *data, ULocaleDataExemplarSetType which) {
    UErrorCode status = U_ZERO_ERROR;
    USet *set = ulocdata_getExemplarSet(data, NULL, USET_CASE_INSENSITIVE, which, &status);
    if (U_SUCCESS(status))
        return set;
    uset_close(set);
    return NULL;
}

/* The letters of a language, cached since opening them is slow. Only the thread that reads requests calls it. NULL if
 * there are too many languages. */
static const alphabet *alphabet_of(const char *code) {
    static alphabet all[128];
    static size_t count;
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].code, code) == 0)
            return &all[i];
    if (count == CLI_COUNT(all))
        return NULL;
    alphabet *at = &all[count++];
    UErrorCode status = U_ZERO_ERROR;
    ULocaleData *data = ulocdata_open(code, &status);
    snprintf(at->code, sizeof(at->code), "%s", code);
    if (data && U_SUCCESS(status) && status != U_USING_DEFAULT_WARNING) {
        at->own = letters_of(data, ULOCDATA_ES_STANDARD);
        at->loans = letters_of(data, ULOCDATA_ES_AUXILIARY);
    }
    if (data)
        ulocdata_close(data);
    return at;
}

serve_letters serve_letters_of(const char *code, const int32_t *letters, size_t count) {
    const alphabet *known = count > 0 ? alphabet_of(code) : NULL;
    serve_letters how = SERVE_LETTERS_OWN;
    if (!known || !known->own)
        return SERVE_LETTERS_LOANS;
    for (size_t i = 0; i < count; i++)
        if (!uset_contains(known->own, letters[i])) {
            how = SERVE_LETTERS_LOANS;
            if (!known->loans || !uset_contains(known->loans, letters[i]))
                return SERVE_LETTERS_FOREIGN;
        }
    return how;
}
