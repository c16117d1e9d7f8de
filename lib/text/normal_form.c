#include <unicode/unorm2.h>
#include <unicode/ustring.h>
#include "text/char_class.h"
#include "text/normalize.h"

static const UNormalizer2 *normalizer_of(tfm__unicode_form form, UErrorCode *error) {
    switch (form) {
    case TFM__NFC:
        return unorm2_getNFCInstance(error);
    case TFM__NFD:
        return unorm2_getNFDInstance(error);
    case TFM__NFKC:
        return unorm2_getNFKCInstance(error);
    default:
        return unorm2_getNFKDInstance(error);
    }
}

static bool is_ascii(const char *text, size_t bytes) {
    unsigned char all = 0;
    for (size_t i = 0; i < bytes; i++)
        all |= (unsigned char)text[i];
    return all < 0x80;
}

/* Adds UTF-16 as UTF-8. */
static tfm_status add(tfm__bytes *out, const UChar *text, int32_t units) {
    UErrorCode error = U_ZERO_ERROR;
    int32_t written = 0;
    if (!tfm__bytes_reserve(out, 3 * (size_t)units + 1))
        return TFM_ERROR_MEMORY;
    const size_t room = out->capacity - out->count;
    u_strToUTF8(out->data + out->count, room < INT32_MAX ? (int32_t)room : INT32_MAX, &written, text, units, &error);
    if (U_FAILURE(error))
        return tfm__fail(TFM_ERROR_INPUT, "ICU cannot normalize a text: %s", u_errorName(error));
    out->count += (size_t)written;
    return TFM_OK;
}

/* Adds the normal form of characters in the tables of `tokenizers`. */
static tfm_status normalize_known(tfm__bytes *out, const UChar *wide, int32_t units, tfm__unicode_form form) {
    int64_t room = 2 * (int64_t)units + 64;
    UChar *normal = NULL;
    int32_t length = 0;
    UErrorCode error = U_BUFFER_OVERFLOW_ERROR;
    for (int again = 0; again < 2 && error == U_BUFFER_OVERFLOW_ERROR; again++) {
        free(normal);
        error = U_ZERO_ERROR;
        normal = room < INT32_MAX ? tfm__alloc((size_t)room, sizeof(*normal)) : NULL;
        if (!normal)
            return tfm__fail(TFM_ERROR_MEMORY, "out of host memory while a text is normalized");
        length = unorm2_normalize(normalizer_of(form, &error), wide, units, normal, (int32_t)room, &error);
        room = (int64_t)length + 1;
    }
    const tfm_status status = U_FAILURE(error)
                                  ? tfm__fail(TFM_ERROR_INPUT, "ICU cannot normalize a text: %s", u_errorName(error))
                                  : add(out, normal, length);
    free(normal);
    return status;
}

/* The tables of `tokenizers` are Unicode 9's: later characters are copied, and separate the text around them. */
static tfm_status normalize(tfm__bytes *out, const UChar *wide, int32_t units, tfm__unicode_form form) {
    UErrorCode error = U_ZERO_ERROR;
    const UBool done = unorm2_isNormalized(normalizer_of(form, &error), wide, units, &error);
    if (U_SUCCESS(error) && done)
        return add(out, wide, units);
    tfm_status status = TFM_OK;
    for (int32_t begin = 0; begin < units && status == TFM_OK;) {
        int32_t end = begin, next = begin, c = 0;
        while (next < units) {
            U16_NEXT(wide, next, units, c);
            if (!tfm__char_in_unicode(c, 9))
                break;
            end = next;
        }
        if (end > begin)
            status = normalize_known(out, wide + begin, end - begin, form);
        if (status == TFM_OK && next > end)
            status = add(out, wide + end, next - end);
        begin = next;
    }
    return status;
}

tfm_status tfm__unicode_normalize(tfm__bytes *out, const char *text, size_t bytes, tfm__unicode_form form) {
    if (bytes == 0 || is_ascii(text, bytes)) {
        tfm__bytes_add(out, text, bytes);
        return TFM_OK;
    }
    if (bytes >= INT32_MAX)
        return tfm__fail(TFM_ERROR_INPUT, "a text of %zu bytes is too long to be normalized", bytes);
    UErrorCode error = U_ZERO_ERROR;
    int32_t units = 0;
    UChar *wide = tfm__alloc(bytes, sizeof(*wide));
    if (!wide)
        return TFM_ERROR_MEMORY;
    u_strFromUTF8(wide, (int32_t)bytes, &units, text, (int32_t)bytes, &error);
    tfm_status status = U_FAILURE(error) && error != U_STRING_NOT_TERMINATED_WARNING
                            ? tfm__fail(TFM_ERROR_INPUT, "ICU cannot read a text: %s", u_errorName(error))
                            : normalize(out, wide, units, form);
    free(wide);
    return status;
}
