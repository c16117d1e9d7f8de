/* Stored tensor to device parameter: mapped from the file if possible, else copied, transposed, gathered, cast or
 * quantized; shared between models on the same device. */
#include <string.h>
#include "model/core/quantized_params.h"
#include "model/core/load.h"
#include "model/weights/packed_tensors.h"
#include "ops/ops.h"
#include "ops/quant/quant.h"

/* Key of a shared buffer: file, tensor, part, layout and offset. `form`: 0 F32, 1 int8, 2 its scales, 3 F16, 4 BF16,
 * BLOCKS x (1 + type of blocks) + rows of a tile. */
enum { BLOCKS = 64 };
static tfm__shared_buffer_key key_of(const tfm__stored_tensor *stored, const tfm__parameter *p, int form) {
    const int64_t part[] = {p->first,       p->transposed, (int64_t)(1024 * p->offset), p->zero_rows, p->run,
                            p->interleaved, form};
    const size_t bytes = strlen(stored->name);
    const uint64_t file = tfm__hash64(part, sizeof(part), stored->identity);
    return (tfm__shared_buffer_key){tfm__hash64(stored->name, bytes, file), tfm__hash64(stored->name, bytes, ~file)};
}

/* Uploads data of a stored dtype and casts it on the device. */
static tfm_status upload(tfm_context *ctx, tfm_tensor out, tfm_dtype dtype, const void *data) {
    if (dtype == out.dtype)
        return tfm_tensor_write(ctx, out, data);
    const int depth = tfm__scope_depth(ctx);
    do {
        tfm_tensor raw = {0};
        tfm_scope_open(ctx);
        tfm_tensor_new(ctx, &raw, dtype, out.rank, out.dims);
        tfm_tensor_write(ctx, raw, data);
        tfm_cast(ctx, &out, raw, out.dtype);
        tfm_scope_close(ctx, 0, NULL);
    } while (tfm__context_retry(ctx, depth, tfm_context_status(ctx)));
    return tfm_context_status(ctx);
}

/* Columns from `first` on of a matrix stored (inputs, outputs), as rows. */
static unsigned char *transposed_copy(const tfm__stored_tensor *stored, const tfm__parameter *p) {
    const size_t size = tfm_dtype_size(stored->dtype), rows = (size_t)p->dims[0], columns = (size_t)p->dims[1];
    unsigned char *out = tfm__alloc(rows * columns, size);
    for (size_t i = 0; out && i < rows; i++)
        for (size_t k = 0; k < columns; k++)
            memcpy(out + (i * columns + k) * size, stored->data + (k * (size_t)p->total + (size_t)p->first + i) * size,
                   size);
    return out;
}

/* Rows of a parameter that are interleaved by head. */
static unsigned char *gathered_copy(const tfm__stored_tensor *stored, const tfm__parameter *p) {
    const size_t row = tfm_dtype_size(stored->dtype) * (p->rank == 2 ? (size_t)p->dims[1] : 1);
    const size_t run = (size_t)p->run, runs = (size_t)p->dims[0] / run;
    unsigned char *out = tfm__alloc((size_t)p->dims[0], row);
    for (size_t i = 0; out && i < runs; i++)
        memcpy(out + i * run * row, stored->data + (i * (size_t)p->step + (size_t)p->first) * row, run * row);
    return out;
}

/* Adds a constant missing in the file, such as the 1 of gammas stored minus 1. */
static tfm_status add_constant(tfm_context *ctx, tfm_tensor x, float constant) {
    tfm_tensor addend = {0};
    if (constant == 0)
        return tfm_context_status(ctx);
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &addend, TFM_F32, 1, &(int64_t){1});
    tfm__tensor_fill(ctx, addend, &constant);
    tfm_add(ctx, &x, x, addend);
    return tfm_scope_close(ctx, 0, NULL);
}

static void publish_later(tfm__loader *l, tfm_tensor x, tfm__shared_buffer_key key) {
    /* without host memory for the entry it is not shared */
    if (tfm__grow(&l->offers, &l->offer_room, l->offer_count + 1, sizeof(*l->offers)) == TFM_OK)
        l->offers[l->offer_count++] = (struct offer){x, key};
}

/* The blocks that a parameter becomes, or NULL. Encoder-decoders have int8 with a scale per row instead, and round
 * activations to int8. */
static const tfm__quant_format *blocks_of(const tfm__loader *l, const tfm__parameter *p,
                                          const tfm__stored_tensor *stored) {
    const bool int8 = l->precision == TFM_PRECISION_INT8,
               by_row = !stored->scale_group && !l->exact_input && tfm__arch_has_int8_rows(l->arch);
    if ((!int8 && l->precision != TFM_PRECISION_AUTO) || (by_row && (int8 || stored->dtype == TFM_I8)))
        return NULL;
    return tfm__param_blocks(p, stored, int8);
}

uint64_t tfm__load_bytes(const tfm__loader *l, const tfm__parameter *p, const tfm__stored_tensor *stored,
                         uint64_t count) {
    const tfm_dtype dtype = tfm__load_dtype(l, p, stored);
    const tfm__quant_format *blocks = blocks_of(l, p, stored);
    const int64_t columns = p->dims[1];
    if (blocks) { /* without the columns that complete the last block */
        const int64_t missing = tfm__ceil_div(columns, blocks->block) * blocks->block - columns;
        return count / (uint64_t)columns *
               (uint64_t)(tfm__quant_row_bytes(blocks, columns) - missing * blocks->bits / 8);
    }
    return tfm_dtype_size(dtype) * count + (dtype == TFM_I8 ? 4 * (uint64_t)p->dims[0] : 0);
}

/* The dtype on the device. */
tfm_dtype tfm__load_dtype(const tfm__loader *l, const tfm__parameter *p, const tfm__stored_tensor *stored) {
    static const tfm_dtype small[] = {
        [TFM_PRECISION_INT8] = TFM_I8, [TFM_PRECISION_FP16] = TFM_F16, [TFM_PRECISION_BF16] = TFM_BF16};
    if (!tfm__param_is_quantizable(p) || l->precision == TFM_PRECISION_FP32)
        return TFM_F32;
    if (l->precision == TFM_PRECISION_AUTO)
        return stored->dtype == TFM_I8 ? TFM_I8 : TFM_F32;
    return small[l->precision];
}

static tfm_status upload_int8(tfm__loader *l, const tfm__parameter *p, const tfm__stored_tensor *stored) {
    tfm_context *ctx = l->model->ctx;
    const tfm__shared_buffer_key key = key_of(stored, p, 1), scales_key = key_of(stored, p, 2);
    l->model->low_precision = "int8";
    if (tfm__tensor_open_shared(ctx, &p->param->value, key, TFM_I8, 2, p->dims) &&
        tfm__tensor_open_shared(ctx, &p->param->scales, scales_key, TFM_F32, 1, p->dims))
        return TFM_OK;
    tfm_param_free(ctx, p->param);
    if (tfm__tensor_new_persistent(ctx, &p->param->value, TFM_I8, 2, p->dims) != TFM_OK ||
        tfm__tensor_new_persistent(ctx, &p->param->scales, TFM_F32, 1, p->dims) != TFM_OK)
        return tfm_context_status(ctx);
    const tfm_status status = tfm__param_load_int8(ctx, p, stored);
    if (status == TFM_OK) {
        publish_later(l, p->param->value, key);
        publish_later(l, p->param->scales, scales_key);
    }
    return status;
}

static tfm_status upload_blocks(tfm__loader *l, const tfm__parameter *p, const tfm__stored_tensor *stored,
                                const tfm__quant_format *format) {
    tfm_context *ctx = l->model->ctx;
    const bool own = format == stored->blocks, ordered = own && stored->packed && stored->packed->order;
    const int64_t words = tfm__quant_words(ctx, format, p->dims[0], p->dims[1]) + (ordered ? p->dims[1] : 0);
    const tfm__shared_buffer_key key = key_of(stored, p, BLOCKS * (1 + (int)format->type) + tfm__quant_tile_rows(ctx));
    l->model->low_precision = own ? "block-quantized" : "int8";
    if (tfm__tensor_open_shared(ctx, &p->param->value, key, TFM_I32, 1, &words)) {
        tfm__quant_set(p->param, format, p->dims[0], p->dims[1]);
        return TFM_OK;
    }
    const tfm_status status = tfm__param_load_blocks(ctx, l->file, p, stored, format);
    if (status == TFM_OK)
        publish_later(l, p->param->value, key);
    return status;
}

/* If the stored dtype and layout fit and the device shares the host's memory, it reads from the file mapping. */
static bool map_from_file(tfm__loader *l, const tfm__parameter *p, const tfm__stored_tensor *stored, tfm_dtype dtype) {
    const size_t columns = p->rank == 2 ? (size_t)p->dims[1] : 1;
    uint64_t first;
    if (stored->dtype != dtype || stored->blocks || stored->packed || p->interleaved || p->transposed || p->run ||
        p->zero_rows > 0 || p->offset != 0 || p->rank > 2 || !tfm__weights_file_offset(&first, l->file, stored))
        return false;
    return tfm__tensor_mmap(l->model->ctx, &p->param->value, stored->file, stored->identity,
                            first + (uint64_t)p->first * columns * tfm_dtype_size(dtype), dtype, p->rank, p->dims);
}

/* Converts rows to floats on the host, a part of the matrix at a time, and uploads these. */
static tfm_status upload_floats(tfm_context *ctx, const tfm__parameter *p, const tfm__stored_tensor *stored) {
    const int64_t columns = p->rank == 2 ? p->dims[1] : 1, rows = p->dims[0];
    const int64_t most = p->rank == 2 ? tfm__ceil_div(1 << 20, columns) : rows;
    float *part = tfm__alloc((size_t)((most < rows ? most : rows) * columns), sizeof(*part));
    tfm_status status = part ? TFM_OK : TFM_ERROR_MEMORY;
    for (int64_t at = 0; at < rows && status == TFM_OK; at += most) {
        const int64_t count = rows - at < most ? rows - at : most;
        tfm_tensor to = p->param->value;
        for (int64_t i = 0; i < count; i++)
            tfm__parameter_row(part + i * columns, p, stored, at + i);
        if (count < rows)
            tfm_tensor_rows(ctx, &to, p->param->value, at, count);
        status = upload(ctx, to, TFM_F32, part);
    }
    free(part);
    return status;
}

/* Uploads a row; each model has its own copy. */
static tfm_status upload_row(tfm__loader *l, const tfm__parameter *p, const tfm__stored_tensor *stored) {
    tfm_context *ctx = l->model->ctx;
    tfm_tensor row = {0};
    if (!p->param->value.buffer)
        tfm__tensor_new_persistent(ctx, &p->param->value, TFM_F32, 2, (int64_t[]){p->rows, p->dims[0]});
    tfm_tensor_rows(ctx, &row, p->param->value, p->row, 1);
    return upload(ctx, row, stored->dtype, stored->data);
}

/* Shares the parameter of a model on the same device if there is one: parameters are read-only, and a trainer makes its
 * own copies. */
static tfm_status upload_parameter(tfm__loader *l, const tfm__parameter *p, const tfm__stored_tensor *stored) {
    tfm_context *ctx = l->model->ctx;
    const size_t columns = p->rank == 2 ? (size_t)p->dims[1] : 1;
    const tfm_dtype dtype = tfm__load_dtype(l, p, stored);
    if (p->rows)
        return upload_row(l, p, stored);
    const tfm__quant_format *blocks = blocks_of(l, p, stored);
    if (blocks)
        return upload_blocks(l, p, stored, blocks);
    if (dtype == TFM_I8)
        return upload_int8(l, p, stored);
    const bool half = dtype != TFM_F32;
    const tfm__shared_buffer_key key = key_of(stored, p, !half ? 0 : dtype == TFM_F16 ? 3 : 4);
    if (half)
        l->model->low_precision = dtype == TFM_F16 ? "fp16" : "bf16";
    if (tfm__tensor_open_shared(ctx, &p->param->value, key, dtype, p->rank, p->dims))
        return TFM_OK;
    if (map_from_file(l, p, stored, dtype) || tfm_context_status(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    const tfm_status fits =
        dtype == TFM_F16 && stored->dtype != TFM_F16 ? tfm__param_check_fp16_range(p, stored) : TFM_OK;
    if (fits != TFM_OK)
        return fits;
    if (tfm__tensor_new_persistent(ctx, &p->param->value, dtype, p->rank, p->dims) != TFM_OK)
        return tfm_context_status(ctx);
    if (stored->dtype == TFM_I8 || stored->blocks || stored->packed || p->interleaved) {
        const tfm_status status = upload_floats(ctx, p, stored);
        if (status != TFM_OK)
            return status;
        add_constant(ctx, p->param->value, p->offset);
        publish_later(l, p->param->value, key);
        return tfm_context_status(ctx);
    }
    unsigned char *copy = p->transposed ? transposed_copy(stored, p) : p->run ? gathered_copy(stored, p) : NULL;
    if ((p->transposed || p->run) && !copy)
        return TFM_ERROR_MEMORY;
    tfm_tensor from_file = p->param->value;
    if (p->zero_rows > 0) {
        const float zero = 0;
        tfm__tensor_fill(ctx, p->param->value, &zero);
        tfm_tensor_rows(ctx, &from_file, p->param->value, 0, p->dims[0] - p->zero_rows);
    }
    upload(ctx, from_file, stored->dtype,
           copy ? copy : stored->data + (size_t)p->first * columns * tfm_dtype_size(stored->dtype));
    free(copy);
    add_constant(ctx, p->param->value, p->offset);
    publish_later(l, p->param->value, key);
    return tfm_context_status(ctx);
}

tfm_status tfm__load_upload(tfm__loader *l, const tfm__parameter *p, const tfm__stored_tensor *stored) {
    const tfm_status status = upload_parameter(l, p, stored);
    p->param->exact_input = l->exact_input && tfm__param_is_quantizable(p);
    return status;
}

tfm_status tfm__load_publish(const tfm__loader *l) {
    if (l->offer_count == 0)
        return TFM_OK;
    const tfm_status status = tfm_context_finish(l->model->ctx);
    for (size_t i = 0; i < l->offer_count && status == TFM_OK; i++)
        tfm__tensor_publish(l->model->ctx, l->offers[i].x, l->offers[i].key);
    return status;
}
