/* Replaces fixed strings in texts. */
#include <string.h>
#include "text/replace_text.h"

void tfm__replace_all(tfm__bytes *out, const char *text, size_t bytes, const char *from, size_t from_bytes,
                      const char *to, size_t to_bytes) {
    const char *end = text + bytes;
    for (const char *found; from_bytes && (found = memmem(text, (size_t)(end - text), from, from_bytes));
         text = found + from_bytes) {
        tfm__bytes_add(out, text, (size_t)(found - text));
        tfm__bytes_add(out, to, to_bytes);
    }
    tfm__bytes_add(out, text, (size_t)(end - text));
}

tfm_status tfm__replace_pairs(tfm__bytes *out, const char *text, size_t bytes, const char *const pairs[][2],
                              size_t count) {
    tfm__bytes a = {0}, b = {0};
    tfm__bytes_add(&a, text, bytes);
    for (size_t i = 0; i < count; i++) {
        b.count = 0;
        tfm__replace_all(&b, a.data ? a.data : "", a.count, pairs[i][0], strlen(pairs[i][0]), pairs[i][1],
                         strlen(pairs[i][1]));
        const tfm__bytes done = b;
        b = a;
        a = done;
    }
    tfm__bytes_add(out, a.data, a.count);
    const bool failed = a.failed || b.failed || out->failed;
    tfm__bytes_free(&a);
    tfm__bytes_free(&b);
    return failed ? TFM_ERROR_MEMORY : TFM_OK;
}

tfm_status tfm__clean_up_spaces(tfm__bytes *out, const char *text, size_t bytes) {
    static const char *const PAIRS[][2] = {{" .", "."},     {" ?", "?"},     {" !", "!"},   {" ,", ","},
                                           {" ' ", "'"},    {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"},
                                           {" 've", "'ve"}, {" 're", "'re"}};
    return tfm__replace_pairs(out, text, bytes, PAIRS, TFM__COUNT(PAIRS));
}
