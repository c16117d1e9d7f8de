/* Suggests a name for a mistyped word. */
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"

enum { LONGEST = 40 };

static size_t min_of(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Damerau-Levenshtein distance, optimal string alignment: letters to change, add, remove, or swap with the next. */
static size_t edit_distance(const char *a, const char *b) {
    size_t d[LONGEST + 1][LONGEST + 1] = {{0}};
    const size_t m = strlen(a), n = strlen(b);
    if (m > LONGEST || n > LONGEST)
        return LONGEST;
    for (size_t i = 0; i <= m; i++)
        for (size_t k = 0; k <= n; k++) {
            if (i == 0 || k == 0) {
                d[i][k] = i + k;
                continue;
            }
            d[i][k] = min_of(min_of(d[i - 1][k], d[i][k - 1]) + 1, d[i - 1][k - 1] + (a[i - 1] != b[k - 1]));
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                d[i][k] = min_of(d[i][k], d[i - 2][k - 2] + 1);
        }
    return d[m][n];
}

/* Maximum distance: one for up to three letters, two for four to eight, a third for more. A name with the word as a
 * prefix of at least three letters has distance one. */
void cli_suggest(cli_suggestion *near, const char *name) {
    const size_t length = strlen(near->word), most = length < 6 ? 1 + (length > 3) : length / 3;
    size_t distance = edit_distance(near->word, name);
    if (length >= 3 && strncmp(near->word, name, length) == 0)
        distance = 1;
    if (distance > most || distance >= strlen(name) || (near->name && distance >= near->distance))
        return;
    near->name = name;
    near->distance = distance;
}
