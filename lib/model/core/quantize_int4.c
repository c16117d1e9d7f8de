/* Writes linear layers of blocks as 4-bit integers, in the layout pack-quantized of compressed-tensors, which
 * transformers opens. */
#include <inttypes.h>
#include <string.h>
#include "model/core/quantize_dir.h"
#include "model/core/quantized_params.h"
#include "model/weights/tensors_write.h"

enum { BITS = 4, PER_WORD = 8, MIN_GROUP = 32, DEFAULT_GROUP = 64 };

static int64_t columns_of(const tfm__quantize_item *x) {
    return x->stored->dims[x->transposed ? 0 : 1];
}

/* The largest group, at most the wanted one, that divides the columns of all matrices; a matrix whose columns 32
 * does not divide stays as it is. */
static void choose_group(tfm__quantize_job *j) {
    const int wanted = j->int4->group ? j->int4->group : DEFAULT_GROUP;
    const tfm__quantize_item *narrow = NULL;
    j->group = wanted;
    for (size_t i = 0; i < tfm__weights_count(j->file); i++) {
        tfm__quantize_item *x = &j->items[i];
        if (x->in_block && columns_of(x) % MIN_GROUP != 0) {
            tfm__log(TFM_LOG_WARNING, "%s has %" PRId64 " inputs, which are not a multiple of %d: it stays as it is",
                     x->stored->name, columns_of(x), MIN_GROUP);
            x->in_block = false;
        }
        while (x->in_block && columns_of(x) % j->group != 0) {
            j->group /= 2;
            narrow = x;
        }
    }
    if (narrow)
        tfm__log(TFM_LOG_WARNING, "groups of %d instead of %d, because %s has %" PRId64 " inputs", j->group, wanted,
                 narrow->stored->name, columns_of(narrow));
}

/* Rounds a matrix to nearest. */
static tfm_status round_to_nearest(tfm__quantize_item *x) {
    const tfm__parameter p = {
        .rank = 2, .dims = {x->int4.rows, x->int4.columns}, .transposed = x->transposed, .total = x->int4.rows};
    float *row = tfm__alloc((size_t)x->int4.columns, sizeof(*row));
    tfm_status status = row ? TFM_OK : TFM_ERROR_MEMORY;
    for (int64_t i = 0; i < x->int4.rows && status == TFM_OK; i++) {
        tfm__parameter_row(row, &p, x->stored, i);
        if (!tfm__int4_round(&x->int4, i, row))
            status = tfm__fail(TFM_ERROR_FORMAT,
                               "%s: tensor %s has a number in row %" PRId64
                               " that is not finite or too large, so it cannot be quantized to int4",
                               x->stored->file, x->stored->name, i);
    }
    free(row);
    return status;
}

tfm_status tfm__quantize_int4_fill(tfm__quantize_job *j, const char *dir) {
    bool any = false;
    choose_group(j);
    for (size_t i = 0; i < tfm__weights_count(j->file); i++) {
        tfm__quantize_item *x = &j->items[i];
        if (x->in_block && !tfm__int4_new(&x->int4, x->stored->dims[x->transposed ? 1 : 0], columns_of(x), j->group))
            return TFM_ERROR_MEMORY;
        any |= x->in_block;
    }
    if (!any)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: no linear layer has inputs in groups of %d: use int8", dir,
                         MIN_GROUP);
    tfm_status status = j->int4->text ? tfm__quantize_calibrate(j, dir) : TFM_OK;
    for (size_t i = 0; i < tfm__weights_count(j->file) && status == TFM_OK; i++)
        if (j->items[i].in_block && !j->items[i].calibrated)
            status = round_to_nearest(&j->items[i]);
    return status;
}

/* ---- The file ---- */

/* The tensors of a matrix. */
enum { PACKED, SCALE, ZERO_POINT, SHAPE, TENSORS };

typedef struct part {
    const char *suffix, *dtype;
    int rank;
    int64_t dims[2];
    size_t bytes;
} part;

static part part_of(const tfm__quantize_item *x, int which) {
    const int64_t n = x->int4.rows, k = x->int4.columns, groups = k / x->int4.group,
                  words = (n + PER_WORD - 1) / PER_WORD;
    switch (which) {
    case PACKED:
        return (part){"_packed", "I32", 2, {n, k / PER_WORD}, (size_t)(n * k / 2)};
    case SCALE:
        return (part){"_scale", "F16", 2, {n, groups}, (size_t)(n * groups) * 2};
    case ZERO_POINT:
        return (part){"_zero_point", "I32", 2, {words, groups}, (size_t)(words * groups) * 4};
    default:
        return (part){"_shape", "I64", 1, {2, 0}, 16};
    }
}

size_t tfm__quantize_int4_bytes(const tfm__quantize_item *x) {
    size_t bytes = 0;
    for (int i = 0; i < TENSORS; i++)
        bytes += part_of(x, i).bytes;
    return bytes;
}

bool tfm__quantize_int4_name(json_t *header, const tfm__quantize_item *x, size_t *at) {
    bool good = true;
    for (int i = 0; i < TENSORS && good; i++) {
        const part p = part_of(x, i);
        char *name = tfm__format("%s%s", x->stored->name, p.suffix);
        good = name && tfm__tensors_name(header, name, p.dtype, p.rank, p.dims, at, p.bytes);
        free(name);
    }
    return good;
}

/* Zero points of eight rows in a word. */
static tfm_status write_zeros(tfm__quantize_job *j, const tfm__int4 *m) {
    const int64_t groups = m->columns / m->group;
    uint32_t *words = tfm__alloc((size_t)groups, sizeof(*words));
    tfm_status status = words ? TFM_OK : TFM_ERROR_MEMORY;
    for (int64_t row = 0; row < m->rows && status == TFM_OK; row += PER_WORD) {
        memset(words, 0, (size_t)groups * sizeof(*words));
        for (int64_t i = 0; i < PER_WORD && row + i < m->rows; i++)
            for (int64_t g = 0; g < groups; g++)
                words[g] |= (uint32_t)m->zeros[(row + i) * groups + g] << BITS * i;
        status = tfm__writer_add(&j->to, words, (size_t)groups * sizeof(*words));
    }
    free(words);
    return status;
}

tfm_status tfm__quantize_int4_write(tfm__quantize_job *j, const tfm__quantize_item *x) {
    const int64_t shape[] = {x->int4.rows, x->int4.columns};
    tfm_status status = tfm__writer_add(&j->to, x->int4.codes, part_of(x, PACKED).bytes);
    if (status == TFM_OK)
        status = tfm__writer_add(&j->to, x->int4.scales, part_of(x, SCALE).bytes);
    if (status == TFM_OK)
        status = write_zeros(j, &x->int4);
    return status == TFM_OK ? tfm__writer_add(&j->to, shape, sizeof(shape)) : status;
}

/* ---- config.json ---- */

/* Linear layers that are not int4, as module names. Transformers makes the output projection of tied tables, too. */
static json_t *ignored(const tfm__quantize_job *j) {
    static const char weight[] = ".weight";
    json_t *list = json_pack("[s]", "lm_head");
    bool good = list != NULL;
    for (size_t i = 0; i < tfm__weights_count(j->file) && good; i++) {
        const tfm__quantize_item *x = &j->items[i];
        const char *name = x->stored->name;
        const size_t length = strlen(name), end = strlen(weight);
        if (x->linear && !x->in_block && length > end && strcmp(name + length - end, weight) == 0 &&
            strcmp(name, "lm_head.weight") != 0)
            good = json_array_append_new(list, json_stringn(name, length - end)) == 0;
    }
    if (good)
        return list;
    json_decref(list);
    return NULL;
}

json_t *tfm__quantize_int4_config(const tfm__quantize_job *j) {
    return json_pack("{s:s, s:s, s:s, s:o, s:n, s:{s:{s:[s], s:n, s:n, s:{s:i, s:s, s:b, s:s, s:i, s:b}}}}",
                     "quant_method", "compressed-tensors", "format", "pack-quantized", "quantization_status",
                     "compressed", "ignore", ignored(j), "kv_cache_scheme", "config_groups", "group_0", "targets",
                     "Linear", "input_activations", "output_activations", "weights", "num_bits", BITS, "type", "int",
                     "symmetric", 0, "strategy", "group", "group_size", j->group, "dynamic", 0);
}
