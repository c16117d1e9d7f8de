/* Loads stored tensors into a model's parameters; every tensor is matched or reported. */
#include <stdio.h>
#include <string.h>
#include "model/core/quantized_params.h"
#include "model/arch/multimodal.h"
#include "model/core/load.h"
#include "ops/ops.h"

/* ---- One tensor ---- */

static bool is_used(const tfm__loader *l, const tfm__stored_tensor *stored) {
    for (size_t i = 0; i < l->used_count; i++)
        if (l->used[i] == stored)
            return true;
    return false;
}

static void use(tfm__loader *l, const tfm__stored_tensor *stored) {
    if (!is_used(l, stored))
        l->used[l->used_count++] = stored;
}

static const tfm__stored_tensor *table_of(const tfm__loader *l, tfm__role role) {
    return role == TFM__TARGET_EMBEDDING ? l->tables[1] : role == TFM__OUTPUT_PROJECTION ? l->tables[2] : l->tables[0];
}

/* int8 is accepted for quantizable parameters, with a scale per output, or per output and group of columns. */
static tfm_status check_int8(const tfm__parameter *p, const tfm__stored_tensor *stored) {
    if (stored->dtype != TFM_I8)
        return TFM_OK;
    if (!tfm__param_is_quantizable(p))
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: tensor %s is int8, which is supported only for matrices of layers and embedding tables",
                         stored->file, stored->name);
    const int64_t groups = stored->scale_group ? 2 * tfm__ceil_div(p->dims[1], stored->scale_group) : 1;
    if (stored->scale_count != (size_t)(p->total * groups))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s has %zu scales, and %lld outputs, each with %lld",
                         stored->file, stored->name, stored->scale_count, (long long)p->total, (long long)groups);
    return TFM_OK;
}

/* Its name in the file. */
static const char *name_of(const tfm__loader *l, const tfm__parameter *p) {
    const bool is_words = p->kind == TFM__EMBEDDING && p->role <= TFM__OUTPUT_PROJECTION;
    return is_words ? table_of(l, p->role)->name : tfm__load_name(l, p->name);
}

static tfm_status load_tensor(tfm__loader *l, const tfm__parameter *parameter) {
    const tfm__stored_tensor *stored = tfm__weights_find(l->file, name_of(l, parameter));
    tfm__parameter own = *parameter;
    own.transposed &= !(stored && stored->packed); /* packed matrices are (outputs, inputs) in every family */
    const tfm__parameter *p = &own;
    const char *name = name_of(l, p);
    const int64_t rows = p->total, columns = p->dims[1];
    const int64_t dims[] = {p->transposed ? columns : rows, p->transposed ? rows : columns};
    const bool row = p->rank == 1 && l->family->row_vectors;
    tfm_status status = tfm__weights_get(l->file, &stored, name, row ? 2 : p->rank, row ? (int64_t[]){1, rows} : dims);
    if (status == TFM_OK)
        status = check_int8(p, stored);
    if (status == TFM_OK && l->model)
        status = tfm__load_upload(l, p, stored);
    if (status == TFM_OK && l->model)
        tfm__weights_evict(l->file, stored); /* it has been copied, or has a separate mapping */
    if (status == TFM_OK && l->on_match)
        status = l->on_match(l->user, p, stored);
    const bool again =
        status == TFM_OK && is_used(l, stored) && p->total == p->dims[0]; /* two parameters share the whole tensor */
    if (status == TFM_OK) {
        const uint64_t count = (uint64_t)((p->dims[0] - p->zero_rows) * (p->rank == 2 ? p->dims[1] : 1));
        l->parameters += again ? 0 : count;
        l->bytes += tfm__load_bytes(l, p, stored, count); /* separate memory */
        use(l, stored);
    }
    return status;
}

/* Loads a parameter whose rows are separate tensors. */
static tfm_status load_parameter(void *user, const tfm__parameter *p) {
    char name[256];
    tfm_status status = p->rows ? TFM_OK : load_tensor(user, p);
    for (int i = 0; i < p->rows && status == TFM_OK; i++) {
        tfm__parameter row = *p;
        tfm__row_name(name, sizeof(name), p->name, i);
        row.row = i;
        row.rank = 1;
        row.dims[0] = row.total = p->dims[1];
        row.dims[1] = 0;
        row.name = name;
        status = load_tensor(user, &row);
    }
    return status;
}

/* ---- Positions and biases ---- */

static tfm_status compute_positions(tfm__loader *l, tfm_tensor *out, const tfm__stack_arch *arch) {
    if (!l->model)
        return TFM_OK;
    tfm_tensor table = {0};
    tfm__tensor_new_persistent(l->model->ctx, &table, TFM_F32, 2,
                               (int64_t[]){arch->max_positions + arch->position_offset, arch->width});
    *out = table; /* also after a failure: the model frees it */
    tfm_sinusoid(l->model->ctx, &table, 0, 0, arch->sinusoids);
    tfm_tensor used = {0};
    if (tfm_tensor_rows(l->model->ctx, &used, table, arch->position_offset, arch->max_positions) == TFM_OK)
        *out = used;
    return tfm_context_status(l->model->ctx);
}

/* BART's learned tables begin with padding rows; files of newer versions have none, whatever the flag says. */
static int padding_rows(const tfm__stored_tensor *stored, const tfm__stack_arch *arch) {
    return stored && stored->rank == 2 && stored->dims[0] == arch->max_positions ? 0 : arch->position_offset;
}

/* Sinusoids are seldom stored; a stored table wins. Learned positions are parameters, with the file's number of
 * rows. */
static void load_positions(tfm__loader *l, bool decoder) {
    tfm__stack_arch *arch = decoder ? &l->arch->decoder : &l->arch->encoder;
    const char *name = tfm__role_naming(l->family, decoder, TFM__POSITIONS)->weight;
    tfm_param table = {0};
    tfm_tensor *out = !l->model ? NULL : decoder ? &l->model->decoder.positions : &l->model->encoder.positions;
    if (l->status != TFM_OK || arch->layers == 0 || arch->positions == TFM__NO_POSITIONS)
        return;
    const tfm__stored_tensor *stored = name ? tfm__load_find(l, name) : NULL;
    if (!stored && arch->positions == TFM__SINUSOIDS) {
        l->status = compute_positions(l, out, arch);
        return;
    }
    const int skipped = padding_rows(stored, arch);
    if (arch->positions == TFM__LEARNED_POSITIONS) {
        arch->position_offset = skipped;
        if (skipped == 0 && arch->skips == TFM__SKIPS_TO_ROW) /* the table has no such row */
            arch->skips = TFM__SKIPS_TO_NOTHING;
        if (l->model)
            l->model->arch = *l->arch;
        return;
    }
    const int64_t rows = arch->max_positions + skipped;
    l->status = load_parameter(l, &(tfm__parameter){.param = &table,
                                                    .role = TFM__POSITIONS,
                                                    .kind = TFM__MATRIX,
                                                    .rank = 2,
                                                    .dims = {rows, arch->width},
                                                    .name = name,
                                                    .total = rows});
    if (l->status == TFM_OK) {
        l->parameters -= stored->count; /* not learned */
        l->bytes -= 4 * stored->count;
    }
    if (l->model)
        *out = table.value; /* also after a failure: the model frees it */
    if (l->status != TFM_OK || !l->model)
        return;
    l->model->stored_positions = true;
    tfm_tensor used = {0};
    l->status = tfm_tensor_rows(l->model->ctx, &used, table.value, skipped, arch->max_positions);
    if (l->status == TFM_OK)
        *out = used;
}

static void load_output_bias(tfm__loader *l) {
    const int64_t rows = tfm__arch_output_stack(l->arch)->vocabulary,
                  some = tfm__arch_output_stack(l->arch)->stored_vocabulary;
    const int64_t size = some ? some : rows;
    const tfm__naming *naming = tfm__role_naming(l->family, true, TFM__OUTPUT_BIAS);
    const tfm__stored_tensor *stored = naming->weight && !l->arch->headless ? tfm__load_find(l, naming->weight) : NULL;
    if (!stored && naming->bias && !l->arch->headless)
        stored = tfm__load_find(l, naming->bias);
    const bool flat = stored && stored->rank == 1; /* else (1, V) */
    if (l->status == TFM_OK && stored)
        l->status = tfm__weights_get(l->file, &stored, stored->name, flat ? 1 : 2,
                                     flat ? (int64_t[]){size} : (int64_t[]){1, size});
    if (l->status == TFM_OK && stored)
        use(l, stored);
    if (l->status != TFM_OK || !l->model || l->arch->headless)
        return;
    float *bias = tfm__alloc((size_t)rows, sizeof(*bias));
    if (stored && bias)
        tfm__stored_to_floats(bias, stored, 0, (size_t)size, 1);
    l->status = bias ? tfm__model_set_biases(l->model, bias) : TFM_ERROR_MEMORY;
    free(bias);
}

/* A head named in config.json may be missing if the encoder was trained for another task. */
static void find_head(tfm__loader *l) {
    tfm__head_arch *head = &l->arch->head;
    const tfm__role role = head->kind == TFM__MLM_HEAD ? TFM__MLM_DENSE : TFM__CLASSIFIER_OUT;
    const char *name = tfm__role_naming(l->family, false, role)->weight;
    if (head->kind == TFM__NO_HEAD || (name && tfm__load_find(l, name)))
        return;
    tfm__log(TFM_LOG_INFO, "%s: there is no %s, so the model is an encoder without the head that config.json names",
             tfm__weights_at(l->file, 0)->file, name ? name : "head");
    head->kind = TFM__NO_HEAD;
    l->arch->headless = true;
}

/* ---- Unused tensors ---- */

/* Whether the name is of a block of this family: it has the prefix of such names before the layer's number. */
static bool is_of_block(const tfm__loader *l, const char *name) {
    static const char *const NONE[] = {NULL};
    for (int k = 0; k < 2 * TFM__ROLES; k++) {
        const tfm__naming *naming = tfm__role_naming(l->family, k % 2, (tfm__role)(k / 2));
        const char *mark = naming->weight ? strchr(naming->weight, '#') : NULL;
        if (!mark)
            continue;
        if (strncmp(name, naming->weight, (size_t)(mark - naming->weight)) == 0)
            return true;
        for (const char *const *prefix = l->family->prefixes ? l->family->prefixes : NONE; *prefix; prefix++) {
            const char *rest = naming->weight + strlen(*prefix);
            if (strncmp(naming->weight, *prefix, strlen(*prefix)) == 0 && rest < mark &&
                strncmp(name, rest, (size_t)(mark - rest)) == 0)
                return true;
        }
    }
    return false;
}

/* Whether these are the scales of an int8 tensor. */
static bool are_scales(const tfm__loader *l, const tfm__stored_tensor *stored) {
    char name[1024];
    if (!tfm__ends_with(stored->name, TFM__SCALES))
        return false;
    snprintf(name, sizeof(name), "%.*s", (int)(strlen(stored->name) - strlen(TFM__SCALES)), stored->name);
    const tfm__stored_tensor *bytes = tfm__weights_find(l->file, name);
    return bytes && bytes->scales == stored->data;
}

/* An unused block or norm means that config.json describes another model, and the output would be wrong: an error.
 * Other unused tensors are warnings. */
static tfm_status check_unused(const tfm__loader *l) {
    const tfm__multimodal *wrapper = l->arch->multimodal;
    size_t aside = 0;
    char text[1024];
    for (size_t i = 0; i < tfm__weights_count(l->file); i++) {
        const tfm__stored_tensor *stored = tfm__weights_at(l->file, i);
        if (is_used(l, stored) || tfm__load_is_alias(l, stored) || tfm__load_ignores(l->family, stored->name) ||
            are_scales(l, stored))
            continue;
        if (wrapper && tfm__multimodal_ignores(wrapper, stored->name)) {
            aside++;
            continue;
        }
        if (is_of_block(l, tfm__load_family_name(l, text, sizeof(text), stored->name)) ||
            strstr(stored->name, "layer_norm") || strstr(stored->name, "layernorm"))
            return tfm__fail(
                TFM_ERROR_FORMAT,
                "%s: %s is not part of the model in config.json: check its numbers of layers and its norms",
                stored->file, stored->name);
        tfm__log(TFM_LOG_WARNING, "%s: unused tensor %s is ignored", stored->file, stored->name);
    }
    if (wrapper && !l->on_match) /* callers with on_match see every match */
        tfm__log(TFM_LOG_WARNING,
                 "%s: only the text model of %s is supported: %zu tensors of the vision tower are ignored",
                 tfm__weights_at(l->file, 0)->file, wrapper->class_name, aside);
    return TFM_OK;
}

/* Records the file's name of a parameter, for callers that look it up by that name. */
static tfm_status record_alias(void *user, const tfm__parameter *p) {
    const tfm__loader *l = user;
    tfm_model *model = l->model;
    const char *name = name_of(l, p);
    if (strcmp(name, tfm__model_name_in_file(model, p->name)) == 0)
        return TFM_OK;
    tfm__tensor_alias *more = tfm__realloc(model->tensor_aliases, model->tensor_alias_count + 1, sizeof(*more));
    if (!more)
        return TFM_ERROR_MEMORY;
    model->tensor_aliases = more;
    const tfm__tensor_alias one = more[model->tensor_alias_count++] =
        (tfm__tensor_alias){tfm__strdup(p->name), tfm__strdup(name)};
    return one.name && one.in_file ? TFM_OK : TFM_ERROR_MEMORY;
}

/* Matches all parameters. */
static tfm_status find_parameters(tfm__loader *l) {
    l->used = tfm__alloc(tfm__weights_count(l->file), sizeof(*l->used));
    if (!l->used)
        return TFM_ERROR_MEMORY;
    find_head(l);
    tfm__load_tables(l);
    load_positions(l, false);
    load_positions(l, true);
    load_output_bias(l);
    if (l->status == TFM_OK)
        l->status = tfm__params_visit(l->family, l->arch, l->model, load_parameter, l);
    return l->status;
}

static tfm_status find_all(tfm__loader *l) {
    l->status = find_parameters(l);
    if (l->status == TFM_OK)
        l->status = check_unused(l);
    if (l->status == TFM_OK && l->model)
        l->status = tfm__params_visit(l->family, l->arch, l->model, record_alias, l);
    return l->status;
}

/* Loading ended for lack of device memory: says what all weights need, not what the last one needed. */
static tfm_status fail_too_large(const tfm__loader *l, uint64_t available) {
    const double mib = 1 << 20;
    tfm__loader all = {.family = l->family,
                       .arch = l->arch,
                       .file = l->file,
                       .precision = l->precision,
                       .exact_input = l->exact_input};
    const tfm_status status = find_all(&all); /* without a model: only counts */
    free(all.used);
    if (status != TFM_OK || all.bytes <= available) /* the largest allocation is the limit, not the sum */
        return tfm__context_sticky(l->model->ctx);
    return tfm__fail(TFM_ERROR_MEMORY,
                     "%s does not fit %s: its weights need %.1f MiB, and %.1f MiB are free: use a smaller or a "
                     "quantized model, a lower precision, or another device",
                     tfm__weights_at(l->file, 0)->file, tfm_context_device(l->model->ctx)->name,
                     (double)all.bytes / mib, (double)available / mib);
}

tfm_status tfm__model_load(uint64_t *parameters, uint64_t *bytes, const tfm__family *family, tfm__arch *arch,
                           const tfm__weights *file, tfm_model *model, const tfm_model_options *options) {
    tfm__loader l = {.family = family, .arch = arch, .file = file, .model = model};
    if (options) {
        l.precision = options->precision;
        l.exact_input = options->activation_precision == TFM_PRECISION_FP32;
    }
    const uint64_t available = model ? tfm__pool_available(model->ctx) : 0;
    tfm_status status = find_all(&l);
    if (status == TFM_OK)
        status = tfm__load_publish(&l);
    if (model && tfm_context_status(model->ctx) == TFM_ERROR_MEMORY)
        status = fail_too_large(&l, available);
    *parameters = l.parameters;
    *bytes = l.bytes;
    free(l.used);
    free(l.offers);
    return status;
}

tfm_status tfm__model_map_tensors(const tfm__family *family, tfm__arch *arch, const tfm__weights *file,
                                  tfm__tensor_map_fn on_match, void *user) {
    tfm__loader l = {.family = family, .arch = arch, .file = file, .on_match = on_match, .user = user};
    tfm_status status = find_all(&l);
    for (size_t i = 0; i < tfm__weights_count(file) && status == TFM_OK; i++) {
        const tfm__stored_tensor *stored = tfm__weights_at(file, i);
        const tfm__parameter copy = {.role = TFM__OUTPUT_PROJECTION,
                                     .kind = TFM__EMBEDDING,
                                     .rank = 2,
                                     .dims = {stored->dims[0], stored->dims[1]},
                                     .name = stored->name,
                                     .total = stored->dims[0]};
        if (!is_used(&l, stored) && tfm__load_is_alias(&l, stored))
            status = on_match(user, &copy, stored);
    }
    free(l.used);
    return status;
}

tfm_status tfm__model_map_parameters(const tfm__family *family, tfm__arch *arch, const tfm__weights *file,
                                     tfm__tensor_map_fn on_match, void *user) {
    tfm__loader l = {.family = family, .arch = arch, .file = file, .on_match = on_match, .user = user};
    const tfm_status status = find_parameters(&l);
    free(l.used);
    return status;
}
