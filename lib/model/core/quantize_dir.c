/* Converts a model directory to a smaller dtype, tensor by tensor; other files are copied. Needs no device. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/file.h"
#include "base/hub/hub.h"
#include "base/json.h"
#include "model/core/quantized_params.h"
#include "model/adapters/adapter.h"
#include "model/arch/family.h"
#include "model/weights/tensors_write.h"
#include "model/core/model.h"
#include "model/core/quantize_dir.h"
#include "model/tasks/embedder.h"

typedef tfm__quantize_item item;
typedef tfm__quantize_job job;

/* ---- Conversion --------------------------------------------------------------------------------------- */

static tfm_status record_tensor(void *user, const tfm__parameter *p, const tfm__stored_tensor *stored) {
    job *j = user;
    const bool shrinks = tfm__param_is_quantizable(p) && !j->int4 && !j->adapters, matrix = p->kind == TFM__MATRIX;
    for (size_t i = 0; i < tfm__weights_count(j->file); i++)
        if (j->items[i].stored == stored && tfm__param_is_quantizable(p)) {
            item *x = &j->items[i];
            x->shrinks = shrinks || stored->packed;
            x->transposed = p->transposed;
            x->linear |= matrix || p->role == TFM__OUTPUT_PROJECTION;
            x->in_block |= j->int4 && matrix && p->role >= TFM__SELF_QUERY;
        }
    if (stored->packed && (tfm__role_naming(j->family, false, p->role)->transposed ||
                           tfm__role_naming(j->family, true, p->role)->transposed))
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: %s is packed, and a file of the family %s has it transposed, which cannot be written: "
                         "quantize the original model",
                         stored->file, stored->name, j->family->name);
    return shrinks && j->dtype == TFM_F16 && stored->dtype != TFM_F16 ? tfm__param_check_fp16_range(p, stored) : TFM_OK;
}

/* Quantized models are not quantized again, and keep no dtype with an adapter. */
static tfm_status check_original(const job *j) {
    for (size_t i = 0; i < tfm__weights_count(j->file); i++) {
        const tfm__stored_tensor *stored = tfm__weights_at(j->file, i);
        const bool packed = stored->packed && (j->int4 || j->adapters || j->dtype == TFM_I8);
        if (packed || (stored->usable && stored->dtype == TFM_I8))
            return tfm__fail(TFM_ERROR_ARGUMENT, "%s is quantized already (%s is %s): %s the original model",
                             stored->file, stored->name, packed ? stored->encoding : "int8",
                             j->adapters ? "merge the adapter into" : "quantize");
    }
    return TFM_OK;
}

static tfm_status find_items(job *j, const tfm__family *family, tfm__arch *arch) {
    const size_t count = tfm__weights_count(j->file);
    j->items = tfm__alloc(count, sizeof(*j->items));
    if (!j->items)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        j->items[i].stored = tfm__weights_at(j->file, i);
    j->family = family;
    j->groups = j->dtype == TFM_I8 && !tfm__arch_has_int8_rows(arch);
    return tfm__model_map_tensors(family, arch, j->file, record_tensor, j);
}

/* ---- The file ----------------------------------------------------------------------------------------- */

static const char *dtype_of(const job *j, const item *x) {
    return x->shrinks ? tfm_dtype_name(j->dtype) : x->stored->dtype_name;
}

static size_t bytes_of(const job *j, const item *x) {
    if (x->in_block)
        return tfm__quantize_int4_bytes(x);
    return x->shrinks ? x->stored->count * tfm_dtype_size(j->dtype) : x->stored->bytes;
}

/* Scales written after the tensor: their dims, and bytes. */
static int64_t outputs_of(const item *x) {
    return x->stored->dims[x->transposed ? 1 : 0];
}
static int64_t groups_of(const job *j, const item *x) {
    return j->groups ? tfm__ceil_div(x->stored->dims[x->transposed ? 0 : 1], TFM__SCALE_GROUP) : 1;
}
static size_t scale_bytes(const job *j, const item *x) {
    return x->shrinks && j->dtype == TFM_I8 ? 4 * (size_t)(outputs_of(x) * groups_of(j, x)) : 0;
}

/* Multiples of TFM__TENSOR_ALIGNMENT first, as in tfm__tensors_write. */
static tfm_status assign_offsets(job *j) {
    const size_t count = tfm__weights_count(j->file);
    item *sorted = tfm__alloc(count, sizeof(*sorted));
    size_t place = 0;
    for (int odd = 0; sorted && odd < 2; odd++)
        for (size_t i = 0; i < count; i++)
            if (((bytes_of(j, &j->items[i]) + scale_bytes(j, &j->items[i])) % TFM__TENSOR_ALIGNMENT != 0) == odd)
                sorted[place++] = j->items[i];
    if (!sorted)
        return TFM_ERROR_MEMORY;
    free(j->items);
    j->items = sorted;
    return TFM_OK;
}

/* The header's text, for free(); NULL if out of memory. */
static char *header_text(const job *j) {
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    bool good = header != NULL;
    size_t at = 0;
    for (size_t i = 0; i < tfm__weights_count(j->file) && good; i++) {
        const item *x = &j->items[i];
        const size_t scales = scale_bytes(j, x);
        good = x->in_block ? tfm__quantize_int4_name(header, x, &at)
                           : tfm__tensors_name(header, x->stored->name, dtype_of(j, x), x->stored->rank,
                                               x->stored->dims, &at, bytes_of(j, x));
        if (good && scales) {
            char *name = tfm__format("%s%s", x->stored->name, TFM__SCALES);
            good = name &&
                   tfm__tensors_name(header, name, tfm_dtype_name(j->groups ? TFM_F16 : TFM_F32), j->groups ? 3 : 1,
                                     (int64_t[]){outputs_of(x), groups_of(j, x), 2}, &at, scales);
            free(name);
        }
    }
    char *text = good ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    return text;
}

static tfm_status write_int8(job *j, const item *x) {
    const tfm__stored_tensor *stored = x->stored;
    const size_t rows = (size_t)outputs_of(x), columns = stored->count / rows;
    const tfm__parameter p = {
        .rank = 2, .dims = {(int64_t)rows, (int64_t)columns}, .transposed = x->transposed, .total = (int64_t)rows};
    int8_t *bytes = tfm__alloc(stored->count, 1), *turned = x->transposed ? tfm__alloc(stored->count, 1) : NULL;
    void *scales = tfm__alloc(scale_bytes(j, x), 1);
    tfm_status status = bytes && scales && (turned || !x->transposed) ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = j->groups ? tfm__param_quantize_groups(bytes, scales, &p, stored)
                           : tfm__param_quantize(bytes, scales, &p, stored);
    for (size_t i = 0; turned && status == TFM_OK && i < rows; i++)
        for (size_t k = 0; k < columns; k++)
            turned[k * rows + i] = bytes[i * columns + k];
    if (status == TFM_OK)
        status = tfm__writer_add(&j->to, turned ? turned : bytes, stored->count);
    if (status == TFM_OK)
        status = tfm__writer_add(&j->to, scales, scale_bytes(j, x));
    free(bytes);
    free(turned);
    free(scales);
    return status;
}

/* Writes fp16 or bf16, converted from another dtype. */
static tfm_status write_half(job *j, const item *x) {
    enum { CHUNK = 1 << 16 };
    float *floats = tfm__alloc(CHUNK, sizeof(*floats));
    uint16_t *half = tfm__alloc(CHUNK, sizeof(*half));
    tfm_status status = floats && half ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t at = 0; at < x->stored->count && status == TFM_OK; at += CHUNK) {
        const size_t n = x->stored->count - at < CHUNK ? x->stored->count - at : CHUNK;
        tfm__stored_to_floats(floats, x->stored, at, n, 1);
        for (size_t i = 0; i < n; i++)
            half[i] = tfm__float_to_half(floats[i], j->dtype);
        status = tfm__writer_add(&j->to, half, n * sizeof(*half));
    }
    free(floats);
    free(half);
    return status;
}

static tfm_status write_item(job *j, const item *x) {
    if (x->in_block)
        return tfm__quantize_int4_write(j, x);
    if (!x->shrinks || x->stored->dtype == j->dtype)
        return tfm__writer_add(&j->to, x->stored->data, x->stored->bytes);
    return j->dtype == TFM_I8 ? write_int8(j, x) : write_half(j, x);
}

static tfm_status write_file(job *j, const char *path) {
    char *text = header_text(j);
    if (!text)
        return tfm__fail(TFM_ERROR_MEMORY, "%s: no host memory to write it", path);
    unsigned char size[8];
    const size_t length = strlen(text), padded = tfm__tensors_header_size(length);
    char spaces[TFM__DATA_ALIGNMENT];
    memset(spaces, ' ', sizeof(spaces));
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)(padded >> 8 * i);
    tfm_status status = tfm__writer_open(&j->to, path);
    if (status == TFM_OK)
        status = tfm__writer_add(&j->to, size, sizeof(size));
    if (status == TFM_OK)
        status = tfm__writer_add(&j->to, text, length);
    if (status == TFM_OK)
        status = tfm__writer_add(&j->to, spaces, padded - length);
    for (size_t i = 0; i < tfm__weights_count(j->file) && status == TFM_OK; i++)
        status = write_item(j, &j->items[i]);
    free(text);
    return tfm__writer_close(&j->to, status);
}

/* ---- The rest of the directory ------------------------------------------------------------------------ */

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), size = strlen(end);
    return length >= size && strcmp(text + length - size, end) == 0;
}

/* Weights in any format, and index files. */
static bool is_weights(const char *name) {
    static const char *const ends[] = {".safetensors", ".bin",  ".index.json", ".h5",  ".msgpack", ".ot",
                                       ".onnx",        ".gguf", ".pt",         ".pth", ".ckpt",    ".unfinished"};
    for (size_t i = 0; i < TFM__COUNT(ends); i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

static bool same_folder(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Whether a file or folder is an output of the training run and not part of the model. */
static bool is_training_output(const char *name) {
    static const char *const NAMES[] = {"recipe.json", "train.jsonl", "curves.svg", "checkpoint.safetensors",
                                        "snapshots"};
    for (size_t i = 0; i < TFM__COUNT(NAMES); i++)
        if (strcmp(name, NAMES[i]) == 0)
            return true;
    return false;
}

/* Copies a folder recursively, except `out` and training outputs. In the encoder's folder `weights` is false: weights
 * and config.json are skipped. */
static tfm_status copy_folder(const char *to, const char *from, const char *encoder, const char *out, int depth) {
    char **names = NULL;
    size_t count = 0;
    tfm_status status = tfm__dir_list(&names, &count, from);
    const bool own = same_folder(from, encoder);
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        char *source = tfm__path_join(from, names[i]), *target = tfm__path_join(to, names[i]);
        struct stat about = {0};
        tfm__file map = {0};
        if (!source || !target)
            status = TFM_ERROR_MEMORY;
        else if (is_training_output(names[i]))
            ; /* the copy cannot continue */
        else if (stat(source, &about) != 0)
            status = tfm__fail(TFM_ERROR_IO, "%s cannot be read: restore or remove it", source);
        else if (S_ISDIR(about.st_mode) && depth > 0 && strcmp(names[i], "onnx") != 0 &&
                 strcmp(names[i], "openvino") != 0 && !same_folder(source, out))
            status = copy_folder(target, source, encoder, out, depth - 1);
        else if (S_ISREG(about.st_mode) && !(own && (is_weights(names[i]) || strcmp(names[i], "config.json") == 0))) {
            status = tfm__dir_make(to, 0777);
            if (status == TFM_OK)
                status = tfm__file_map(&map, source);
            if (status == TFM_OK)
                status = tfm__file_write(target, map.data, map.size);
            tfm__file_unmap(&map);
        }
        free(source);
        free(target);
    }
    tfm__names_free(names, count);
    return status;
}

static tfm_status write_config(const char *to, const char *from, const job *j) {
    char *path = tfm__path_join(from, "config.json");
    json_t *root = NULL;
    const tfm_status status = path ? tfm__json_load(&root, path) : TFM_ERROR_MEMORY;
    free(path);
    if (status != TFM_OK)
        return status;
    json_object_del(root, "quantization_config"); /* of packed integers, which are floats now */
    if (j->adapters)
        return tfm__json_write(to, "config.json", root, "model_merge");
    if (j->int4)
        json_object_set_new(root, "quantization_config", tfm__quantize_int4_config(j));
    else if (j->dtype == TFM_I8)
        json_object_set_new(root, "quantization_config",
                            json_pack("{s:s, s:i, s:s}", "quant_method", TFM__QUANT_METHOD, "bits", 8, "scales",
                                      j->groups ? "scale and minimum for each 32 inputs of an output: a weight is "
                                                  "scale x (integer + 128) + minimum"
                                                : "one for each output of a matrix, and for each word of a table"));
    else
        json_object_set_new(root, "torch_dtype", json_string(j->dtype == TFM_F16 ? "float16" : "bfloat16"));
    return tfm__json_write(to, "config.json", root, "model_quantize");
}

/* ---- The call ----------------------------------------------------------------------------------------- */

/* The path in `out` of the encoder's folder, which is `dir` or inside it. */
static char *folder_in(const char *out, const char *dir, const char *encoder) {
    const size_t length = strlen(dir);
    const char *rest = strncmp(encoder, dir, length) == 0 ? encoder + length : "";
    rest += strspn(rest, "/");
    return *rest ? tfm__path_join(out, rest) : tfm__strdup(out);
}

static tfm_status quantize(job *j, const char *out, const char *dir, const char *encoder,
                           tfm__generation_rules *rules) {
    const tfm__family *family = NULL;
    tfm__arch arch;
    tfm__family_files files = {0};
    char *folder = folder_in(out, dir, encoder), *path = folder ? tfm__path_join(folder, "model.safetensors") : NULL;
    tfm_status status = path ? tfm__family_open(&family, &arch, rules, &files, encoder) : TFM_ERROR_MEMORY;
    if (status == TFM_OK && files.stored && j->adapters)
        status = tfm__fail(TFM_ERROR_UNSUPPORTED,
                           "%s is a GGUF file: write a GGUF file, with a name that ends in .gguf", encoder);
    if (status == TFM_OK && files.weights)
        status = tfm__fail(TFM_ERROR_UNSUPPORTED,
                           "%s is in Marian's own format, which cannot be written: open it with the precision int8, "
                           "which keeps its int8 weights",
                           encoder);
    if (status == TFM_OK)
        status = tfm__family_open_weights(&files, encoder);
    j->file = files.weights;
    if (status == TFM_OK)
        status = check_original(j);
    if (status == TFM_OK)
        status = tfm__adapters_apply(&files, family, &arch, j->adapters, j->adapter_count, true);
    if (status == TFM_OK)
        status = find_items(j, family, &arch);
    if (status == TFM_OK && j->int4)
        status = tfm__quantize_int4_fill(j, encoder);
    if (status == TFM_OK)
        status = assign_offsets(j);
    if (status == TFM_OK)
        status = tfm__dir_make(folder, 0777);
    if (status == TFM_OK)
        status = write_file(j, path);
    if (status == TFM_OK)
        status = copy_folder(out, dir, encoder, out, 3);
    if (status == TFM_OK)
        status = write_config(folder, encoder, j);
    for (size_t i = 0; j->items && i < tfm__weights_count(j->file); i++)
        tfm__int4_free(&j->items[i].int4);
    tfm__family_files_free(&files);
    free(j->items);
    free(folder);
    free(path);
    return status;
}

tfm_status tfm__quantize_dir(job *j, const char *out, const char *dir) {
    if (same_folder(out, dir))
        return tfm__fail(TFM_ERROR_ARGUMENT, "%s is the model's own directory: give another one to write to", out);
    char *encoder = NULL, *path = NULL;
    tfm__generation_rules *rules = tfm__alloc(1, sizeof(*rules));
    tfm_status status = rules ? tfm__hub_resolve(&path, dir) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__modules_encoder_dir(&encoder, path);
    if (status == TFM_OK)
        status = quantize(j, out, path, encoder, rules);
    free(path);
    free(encoder);
    free(rules);
    return status;
}

tfm_status tfm_model_quantize(const char *out, const char *dir, tfm_dtype dtype) {
    if (TFM__NEEDS("model_quantize", out, dir) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (dtype != TFM_I8 && dtype != TFM_F16 && dtype != TFM_BF16)
        return tfm__fail(TFM_ERROR_ARGUMENT, "model_quantize: weights become I8, F16 or BF16, not %s",
                         tfm_dtype_name(dtype));
    return tfm__quantize_dir(&(job){.dtype = dtype}, out, dir);
}

tfm_status tfm_model_quantize_int4(const char *out, const char *dir, const tfm_int4_options *options) {
    const tfm_int4_options none = {0}, *o = options ? options : &none;
    if (TFM__NEEDS("model_quantize_int4", out, dir) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "model_quantize_int4: %s", TFM__RESERVED_SET_MESSAGE);
    if (o->group && o->group != 32 && o->group != 64 && o->group != 128)
        return tfm__fail(TFM_ERROR_ARGUMENT, "model_quantize_int4: groups of %d inputs: 32, 64 and 128 are supported",
                         o->group);
    if (o->text && !o->ctx)
        return tfm__fail(TFM_ERROR_ARGUMENT, "model_quantize_int4: a calibration text needs a context");
    if (o->text && tfm__context_ready(o->ctx, "model_quantize_int4") != TFM_OK)
        return tfm_context_status(o->ctx);
    return tfm__quantize_dir(&(job){.int4 = o}, out, dir);
}
