#include "model/decode/prompt_lookup.h"
#include <string.h>

enum { LONGEST = 3, SHORTEST = 2 };

bool tfm__prompt_lookup(int32_t *ids, int64_t length, int64_t count) {
    for (int64_t n = LONGEST; n >= SHORTEST; n--)
        for (int64_t at = length - n - 1; at >= 0; at--) {
            if (memcmp(ids + at, ids + length - n, (size_t)n * sizeof(*ids)) != 0)
                continue;
            for (int64_t k = 0; k < count; k++) /* may read drafts: a repetition goes on */
                ids[length + k] = ids[at + n + k];
            return true;
        }
    return false;
}
