/* Writes a model directory as a GGUF file. The parameters are visited twice, in the same order: with the names of the
 * stored file, and with GGUF's; so a tensor of GGUF is put together from the rows of the stored ones, one at a time. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "model/adapters/adapter.h"
#include "model/arch/gguf_arch.h"
#include "model/core/model.h"
#include "model/core/quantize_dir.h"
#include "model/core/quantized_params.h"
#include "model/tasks/embedder.h"
#include "ops/quant/quant_format.h"
#include "text/gguf_tokenizer.h"

/* A parameter in the stored file, and in the GGUF file. */
typedef struct part {
    tfm__parameter from, to;
    const tfm__stored_tensor *stored;
    size_t tensor; /* index of its tensor */
} part;

/* A tensor of the GGUF file: some parts. */
typedef struct tensor {
    char name[128];
    const tfm__quant_format *format;
    int rank;
    int64_t dims[2];
} tensor;

typedef struct job {
    const tfm__gguf_arch *gguf;
    tfm__arch arch;
    const tfm__weights *file;
    const tfm__quant_format *format;
    const tfm_adapter *adapters; /* [adapter_count] */
    size_t adapter_count;
    part *parts;
    size_t part_count, part_room;
    size_t next; /* part of the second visit */
    tensor *tensors;
    size_t tensor_count, tensor_room;
    tfm__gguf_writer to;
} job;

/* ---- Parameters --------------------------------------------------------------------------------------- */

static tfm_status record_stored(void *user, const tfm__parameter *p, const tfm__stored_tensor *stored) {
    job *j = user;
    const tfm_status status = tfm__grow(&j->parts, &j->part_room, j->part_count + 1, sizeof(*j->parts));
    if (status == TFM_OK)
        j->parts[j->part_count++] = (part){.from = *p, .stored = stored};
    return status;
}

/* Matrices and tables of words take the file's type, others F32. llama.cpp reads F16 where blocks do not fill a row.
 * The output projection of 4-bit files has 8 bits, since it is the most sensitive matrix. */
static const tfm__quant_format *format_of(const job *j, const tfm__parameter *p) {
    const bool words = p->kind == TFM__EMBEDDING && p->role <= TFM__OUTPUT_PROJECTION;
    const bool output = words && (p->role == TFM__OUTPUT_PROJECTION || j->arch.tied_embeddings);
    const tfm__quant_format *wanted =
        output && j->format->type == TFM__QUANT_Q4_0 ? tfm__quant_format_of(TFM__QUANT_Q8_0) : j->format;
    if (p->rank != 2 || !(words || p->kind == TFM__MATRIX))
        return tfm__quant_format_of(TFM__QUANT_F32);
    return p->dims[1] % wanted->block == 0 ? wanted : tfm__quant_format_of(TFM__QUANT_F16);
}

/* The tensor of this name, added if it is new. NULL if out of memory. */
static tensor *tensor_of(job *j, const tfm__parameter *p) {
    for (size_t i = 0; i < j->tensor_count; i++)
        if (strcmp(j->tensors[i].name, p->name) == 0)
            return &j->tensors[i];
    if (tfm__grow(&j->tensors, &j->tensor_room, j->tensor_count + 1, sizeof(*j->tensors)) != TFM_OK)
        return NULL;
    tensor *t = &j->tensors[j->tensor_count++];
    *t = (tensor){.format = format_of(j, p), .rank = p->rank, .dims = {p->total, p->rank == 2 ? p->dims[1] : 1}};
    snprintf(t->name, sizeof(t->name), "%s", p->name);
    return t;
}

/* Rows stored as separate tensors are as many parts. */
static tfm_status record_gguf(void *user, const tfm__parameter *p) {
    job *j = user;
    const tensor *t = tensor_of(j, p);
    const int rows = j->next < j->part_count ? j->parts[j->next].from.rows : 0;
    if (!t)
        return TFM_ERROR_MEMORY;
    for (int i = 0; i < (rows ? rows : 1); i++) {
        if (j->next == j->part_count)
            return tfm__fail(TFM_ERROR_UNSUPPORTED, "a model of the architecture `%s` cannot be written as GGUF",
                             j->gguf->name);
        part *one = &j->parts[j->next++];
        one->to = *p;
        one->to.first += i;
        one->to.dims[0] = rows ? 1 : p->dims[0];
        one->tensor = (size_t)(t - j->tensors);
    }
    return TFM_OK;
}

/* ---- Data --------------------------------------------------------------------------------------------- */

/* Number of the parameter's row that is row `i` of the part in the GGUF file. */
static int64_t source_row(const tfm__parameter *to, int64_t i) {
    const int64_t half = to->interleaved / 2, in_head = half ? i % to->interleaved : 0;
    return half ? i - in_head + in_head % 2 * half + in_head / 2 : i;
}

/* Writes the rows of a part. */
static tfm_status write_part(job *j, const part *p, const tensor *t) {
    const size_t columns = (size_t)t->dims[1], whole = t->rank == 2 ? columns : (size_t)p->to.dims[0];
    const size_t steps = whole / columns, blocks = whole / (size_t)t->format->block;
    const float offset = p->from.offset - p->to.offset;
    float *row = tfm__alloc(whole, sizeof(*row));
    unsigned char *out = tfm__alloc(blocks, (size_t)t->format->bytes);
    tfm_status status = row && out ? TFM_OK : TFM_ERROR_MEMORY;
    for (int64_t i = 0; i < p->to.dims[0] && status == TFM_OK; i += (int64_t)steps) {
        for (size_t k = 0; k < steps; k++)
            if (p->from.rows) /* this row is a tensor */
                tfm__stored_to_floats(row, p->stored, 0, columns, 1);
            else
                tfm__parameter_row(row + k * columns, &p->from, p->stored, source_row(&p->to, i + (int64_t)k));
        for (size_t k = 0; k < whole && offset != 0; k++)
            row[k] += offset;
        status = tfm__quant_pack(t->format, out, row, blocks)
                     ? tfm__gguf_writer_data(&j->to, out, blocks * (size_t)t->format->bytes)
                     : tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s has a number that is not finite or too large for %s",
                                 p->stored->file, p->stored->name, t->format->name);
    }
    free(row);
    free(out);
    tfm__weights_evict(j->file, p->stored);
    return status;
}

static int by_first(const void *a, const void *b) {
    const part *x = a, *y = b;
    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? -1 : 1;
    return x->to.first < y->to.first ? -1 : x->to.first > y->to.first;
}

static tfm_status write_tensors(job *j) {
    tfm_status status = TFM_OK;
    qsort(j->parts, j->next, sizeof(*j->parts), by_first); /* copies of a table follow the parameters */
    for (size_t i = 0; i < j->next && status == TFM_OK; i++) {
        status = write_part(j, &j->parts[i], &j->tensors[j->parts[i].tensor]);
        if (status == TFM_OK && (i + 1 == j->next || j->parts[i + 1].tensor != j->parts[i].tensor))
            status = tfm__gguf_writer_pad(&j->to);
    }
    return status;
}

/* ---- The file ----------------------------------------------------------------------------------------- */

static void declare_tensors(job *j) {
    for (size_t i = 0; i < j->tensor_count; i++) {
        const tensor *t = &j->tensors[i];
        const uint64_t count = (uint64_t)(t->dims[0] * t->dims[1]);
        tfm__gguf_add_tensor(&j->to, t->name, t->format->type, t->rank, t->dims,
                             count / (uint64_t)t->format->block * (uint64_t)t->format->bytes);
    }
}

/* The bias of the output projection, which is not among the parameters. */
static const tfm__stored_tensor *output_bias(const job *j, const tfm__family *stored_family) {
    const tfm__naming *naming = tfm__role_naming(stored_family, true, TFM__OUTPUT_BIAS);
    return naming->bias && !j->arch.headless ? tfm__weights_find(j->file, naming->bias) : NULL;
}

static tfm_status write_bias(job *j, const tfm__stored_tensor *stored) {
    float *values = tfm__alloc(stored->count, sizeof(*values));
    if (!values)
        return TFM_ERROR_MEMORY;
    tfm__stored_to_floats(values, stored, 0, stored->count, 1);
    const tfm_status status = tfm__gguf_writer_data(&j->to, values, stored->count * sizeof(*values));
    free(values);
    return status == TFM_OK ? tfm__gguf_writer_pad(&j->to) : status;
}

static tfm_status write_file(job *j, const char *path, const tfm__stored_tensor *bias) {
    tfm__gguf_rope_tensor factors[2];
    const size_t count = tfm__gguf_rope_tensors(factors, &j->arch), pairs = (size_t)j->arch.decoder.rotary.width / 2;
    declare_tensors(j);
    if (bias)
        tfm__gguf_add_tensor(&j->to, "output.bias", TFM__QUANT_F32, 1, &(int64_t){(int64_t)bias->count},
                             bias->count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        tfm__gguf_add_tensor(&j->to, factors[i].name, TFM__QUANT_F32, 1, &(int64_t){(int64_t)pairs},
                             pairs * sizeof(float));
    tfm_status status = tfm__gguf_writer_begin(&j->to, path);
    if (status == TFM_OK)
        status = write_tensors(j);
    if (status == TFM_OK && bias)
        status = write_bias(j, bias);
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        status = tfm__gguf_writer_data(&j->to, factors[i].factors, pairs * sizeof(float));
        if (status == TFM_OK)
            status = tfm__gguf_writer_pad(&j->to);
    }
    return status;
}

/* Reads the file again: TFM_ERROR_UNSUPPORTED, and the file is removed, if it does not describe the same model. */
static tfm_status verify(const job *j, const char *path, const char *dir) {
    const tfm__family *family;
    tfm__family_files files = {0};
    tfm__arch *arch = tfm__alloc(1, sizeof(*arch));
    tfm__generation_rules *rules = tfm__alloc(1, sizeof(*rules));
    tfm_status status = arch && rules ? tfm__family_open(&family, arch, rules, &files, path) : TFM_ERROR_MEMORY;
    const char *other = status == TFM_OK ? tfm__gguf_difference(&j->arch, arch) : NULL;
    if (other)
        status = tfm__fail(TFM_ERROR_UNSUPPORTED,
                           "%s cannot be written as GGUF: the architecture `%s` has no metadata for its %s", dir,
                           j->gguf->name, other);
    if (status != TFM_OK)
        unlink(path);
    tfm__family_files_free(&files);
    free(rules);
    free(arch);
    return status;
}

/* How a sentence-transformers directory pools, in GGUF's numbers. */
static tfm_status write_pooling(job *j, const char *dir) {
    static const char *const KINDS[] = {[1] = "mean", [2] = "cls", [3] = "lasttoken"};
    tfm_embedder_info info;
    tfm_model_info encoder;
    char key[64];
    if (!tfm__file_exists_in(dir, "modules.json"))
        return TFM_OK;
    const tfm_status status =
        tfm_embedder_read_info(&info, &encoder, dir, &(tfm_embedder_options){.no_tokenizer = true});
    snprintf(key, sizeof(key), "%s.pooling_type", j->gguf->name);
    for (uint32_t i = 1; i < TFM__COUNT(KINDS) && status == TFM_OK; i++)
        if (strcmp(info.pooling, KINDS[i]) == 0 && info.dense_layers == 0) {
            tfm__gguf_add_u32(&j->to, key, i);
            return TFM_OK;
        }
    return status != TFM_OK
               ? status
               : tfm__fail(TFM_ERROR_UNSUPPORTED,
                           "%s cannot be written as GGUF: it has dense layers, or pools by \"%s\"", dir, info.pooling);
}

/* Names and metadata: everything before the data. */
static tfm_status declare(job *j, const tfm__family *family, const tfm__generation_rules *rules,
                          const tfm__family *stored_family, const char *encoder) {
    static const struct {
        tfm__quant_type type;
        uint32_t number;
    } FILE_TYPES[] = {
        {TFM__QUANT_F32, 0}, {TFM__QUANT_F16, 1}, {TFM__QUANT_Q4_0, 2}, {TFM__QUANT_Q8_0, 7}, {TFM__QUANT_BF16, 32}};
    const tfm__stack_arch *s = tfm__arch_output_stack(&j->arch);
    tfm__family *named = tfm__gguf_family_new(j->gguf, family, NULL);
    tfm_status status =
        named ? tfm__model_map_tensors(stored_family, &j->arch, j->file, record_stored, j) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__params_visit(named, &j->arch, NULL, record_gguf, j);
    free(named);
    if (status != TFM_OK)
        return status;
    tfm__gguf_metadata_write(&j->to, j->gguf, family, &j->arch, rules);
    tfm__gguf_add_string(&j->to, "general.type", "model");
    for (size_t i = 0; i < TFM__COUNT(FILE_TYPES); i++)
        if (FILE_TYPES[i].type == j->format->type)
            tfm__gguf_add_u32(&j->to, "general.file_type", FILE_TYPES[i].number);
    tfm__gguf_add_u32(&j->to, "general.quantization_version", 2);
    return tfm__gguf_tokenizer_write(&j->to, encoder, s->vocabulary);
}

static tfm_status write_model(job *j, const char *path, const char *dir, const char *encoder) {
    const tfm__family *family = NULL, *stored_family = NULL;
    tfm__family_files files = {0};
    tfm__generation_rules *rules = tfm__alloc(1, sizeof(*rules));
    tfm_status status = rules ? tfm__family_open(&family, &j->arch, rules, &files, encoder) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__gguf_arch_of(&j->gguf, family, &j->arch, dir);
    if (status == TFM_OK)
        status = tfm__family_open_weights(&files, encoder);
    if (status == TFM_OK)
        status = tfm__adapters_apply(&files, family, &j->arch, j->adapters, j->adapter_count, false);
    j->file = files.weights;
    stored_family = files.stored ? files.stored : family;
    if (status == TFM_OK && !j->arch.decoder.layers) { /* GGUF has the encoder alone */
        j->arch.head = (tfm__head_arch){0};
        j->arch.headless = true;
    }
    if (status == TFM_OK)
        status = declare(j, family, rules, stored_family, encoder);
    if (status == TFM_OK)
        status = write_pooling(j, dir);
    if (status == TFM_OK)
        status = write_file(j, path, output_bias(j, stored_family));
    status = tfm__gguf_writer_close(&j->to, status);
    if (status == TFM_OK)
        status = verify(j, path, dir);
    tfm__family_files_free(&files);
    free(rules);
    free(j->parts);
    free(j->tensors);
    return status;
}

tfm_status tfm__gguf_export(const char *path, const char *dir, const char *type, const tfm_adapter *adapters,
                            size_t adapter_count) {
    static const char *const TYPES[] = {"F32", "F16", "BF16", "Q8_0", "Q4_0"};
    const tfm__quant_format *format = tfm__quant_format_named(type);
    char *encoder = NULL;
    bool known = false;
    for (size_t i = 0; format && i < TFM__COUNT(TYPES); i++)
        known |= strcmp(format->name, TYPES[i]) == 0;
    if (!known)
        return tfm__fail(TFM_ERROR_ARGUMENT, "model_write_gguf: types are F32, F16, BF16, Q8_0 and Q4_0, not %.40s",
                         type);
    job *j = tfm__alloc(1, sizeof(*j));
    tfm_status status = j ? tfm__modules_encoder_dir(&encoder, dir) : TFM_ERROR_MEMORY;
    if (status == TFM_OK) {
        j->format = format;
        j->adapters = adapters;
        j->adapter_count = adapter_count;
        status = write_model(j, path, dir, encoder);
    }
    free(encoder);
    free(j);
    return status;
}

tfm_status tfm_model_write_gguf(const char *path, const char *dir, const char *type) {
    if (TFM__NEEDS("model_write_gguf", path, dir, type) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    return tfm__gguf_export(path, dir, type, NULL, 0);
}
