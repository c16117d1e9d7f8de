/* The tensors of an open GGUF file as weights. Types stored as blocks are converted when they are read
 * (lib/ops/quant). */
#include <string.h>
#include "base/gguf.h"
#include "model/weights/weight_reader.h"
#include "ops/quant/quant_format.h"

/* A type that is not supported is an error only when the tensor is used. */
static void set_type(tfm__stored_tensor *out, uint32_t type) {
    const tfm__quant_format *format = tfm__quant_format_of(type);
    out->dtype_name = tfm__gguf_type_get(type)->name;
    out->usable = format != NULL;
    out->dtype = !format                           ? TFM_U8
                 : format->type == TFM__QUANT_F16  ? TFM_F16
                 : format->type == TFM__QUANT_BF16 ? TFM_BF16
                                                   : TFM_F32;
    if (format && format->group > 0) {
        out->blocks = format;
        out->encoding = format->name;
    }
}

static void set_tensor(tfm__stored_tensor *out, const tfm__gguf *gguf, const tfm__gguf_tensor *t) {
    *out = (tfm__stored_tensor){.name = t->name,
                                .file = tfm__gguf_path(gguf, t->part),
                                .rank = t->rank,
                                .data = t->data,
                                .count = t->count,
                                .bytes = t->bytes};
    memcpy(out->dims, t->dims, sizeof(t->dims));
    set_type(out, t->type);
}

/* Fills one file per part; the first one owns the GGUF file. */
static tfm_status fill(tfm__weights_file *files, const tfm__gguf *gguf) {
    for (size_t i = 0; i < tfm__gguf_parts(gguf); i++) {
        tfm__weights_file *file = &files[i];
        file->map = *tfm__gguf_map(gguf, i);
        file->path = tfm__strdup(tfm__gguf_path(gguf, i));
        file->tensors = tfm__alloc(tfm__gguf_tensors(gguf) + 1, sizeof(*file->tensors));
        if (!file->path || !file->tensors)
            return TFM_ERROR_MEMORY;
        for (size_t k = 0; k < tfm__gguf_tensors(gguf); k++)
            if (tfm__gguf_tensor_at(gguf, k)->part == i)
                set_tensor(&file->tensors[file->count++], gguf, tfm__gguf_tensor_at(gguf, k));
    }
    return TFM_OK;
}

static void release(tfm__weights_file *file) {
    tfm__gguf *gguf = file->own;
    file->map = (tfm__file){0}; /* belongs to the GGUF file */
    tfm__gguf_close(&gguf);
}

const tfm__weights_reader tfm__gguf_reader = {
    .kind = "GGUF",
    .suffix = ".gguf",
    .drops_ones = true,
    .dtypes = "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL and IQ4_XS",
    .release = release,
};

tfm_status tfm__weights_open_gguf(tfm__weights **out, tfm__gguf **gguf) {
    const size_t count = tfm__gguf_parts(*gguf);
    tfm__weights_file *files = tfm__alloc(count, sizeof(*files));
    *out = NULL;
    tfm_status status = files ? fill(files, *gguf) : TFM_ERROR_MEMORY;
    if (files) {
        files[0].own = *gguf;
        *gguf = NULL;
    }
    if (files)
        return tfm__weights_adopt(out, &tfm__gguf_reader, files, count, status);
    tfm__gguf_close(gguf);
    return status;
}
