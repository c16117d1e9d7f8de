#include "text/bytes.h"
#include "text/detokenize.h"

void tfm__bytes_free(tfm__bytes *bytes) {
    free(bytes->data);
    *bytes = (tfm__bytes){0};
}

bool tfm__bytes_reserve(tfm__bytes *bytes, size_t more) {
    if (bytes->failed || (bytes->capacity - bytes->count < more &&
                          tfm__grow(&bytes->data, &bytes->capacity, bytes->count + more, 1) != TFM_OK))
        bytes->failed = true;
    return !bytes->failed;
}

char *tfm__bytes_take(tfm__bytes *bytes) {
    tfm__bytes_add(bytes, "", 1);
    char *text = bytes->failed ? NULL : bytes->data;
    if (bytes->failed)
        free(bytes->data);
    *bytes = (tfm__bytes){0};
    return text;
}

void tfm__string_list_free(tfm__string_list *texts) {
    tfm__bytes_free(&texts->bytes);
    free(texts->ends);
    *texts = (tfm__string_list){0};
}

void tfm__string_list_end(tfm__string_list *texts) {
    if (tfm__grow(&texts->ends, &texts->capacity, texts->count + 1, sizeof(*texts->ends)) != TFM_OK)
        texts->bytes.failed = true;
    else
        texts->ends[texts->count++] = texts->bytes.count;
}
