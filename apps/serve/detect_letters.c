/* Letters as a sign of languages: which of them a language is written with, as CLDR says. */
#include <unicode/ulocdata.h>
#include <unicode/uset.h>
#include "serve.h"

/* Whether a language is written with all letters, beside those of loanwords and names where `loans`. */
static bool has_all(ULocaleData *data, const UChar32 *letters, size_t count, bool loans) {
    UErrorCode status = U_ZERO_ERROR;
    USet *set = ulocdata_getExemplarSet(data, NULL, USET_CASE_INSENSITIVE, ULOCDATA_ES_STANDARD, &status);
    USet *more =
        loans ? ulocdata_getExemplarSet(data, NULL, USET_CASE_INSENSITIVE, ULOCDATA_ES_AUXILIARY, &status) : NULL;
    bool all = U_SUCCESS(status);
    for (size_t i = 0; all && i < count; i++)
        all = uset_contains(set, letters[i]) || (more && uset_contains(more, letters[i]));
    uset_close(set);
    uset_close(more);
    return all || U_FAILURE(status);
}

serve_letters serve_letters_of(const char *code, const int32_t *letters, size_t count) {
    UErrorCode status = U_ZERO_ERROR;
    serve_letters how = SERVE_LETTERS_LOANS;
    ULocaleData *data = count > 0 ? ulocdata_open(code, &status) : NULL;
    if (data && status != U_USING_DEFAULT_WARNING)
        how = has_all(data, letters, count, false)  ? SERVE_LETTERS_OWN
              : has_all(data, letters, count, true) ? SERVE_LETTERS_LOANS
                                                    : SERVE_LETTERS_FOREIGN;
    if (data)
        ulocdata_close(data);
    return how;
}
