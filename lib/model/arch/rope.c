/* RoPE configuration: `rope_parameters` of config.json, or the older `rope_theta` and `rope_scaling`. Formulas,
 * defaults and float rounding are those of Hugging Face's transformers. */
#include "model/arch/rope.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

static const struct {
    const char *name;
    tfm__rope_type type;
} TYPES[] = {
    {"default", TFM__ROPE_DEFAULT}, {"linear", TFM__ROPE_LINEAR},     {"dynamic", TFM__ROPE_DYNAMIC},
    {"yarn", TFM__ROPE_YARN},       {"longrope", TFM__ROPE_LONGROPE}, {"llama3", TFM__ROPE_LLAMA3},
};

enum { LARGEST = 1 << 30 };

/* ---- Frequencies ---------------------------------------------------------------------------------------------- */

/* theta^x of a pair: its wavelength is 2 pi theta^x. */
static float power_of(const tfm__rotary_arch *r, int i) {
    return (float)pow(r->config.theta, (double)((float)(2 * i) / (float)r->freq_dim));
}

/* The (fractional) pair with this many rotations within the original length. */
static double pair_of(const tfm__rotary_arch *r, double turns) {
    return r->width * log(r->config.original / (turns * 2 * acos(-1))) / (2 * log(r->config.theta));
}

/* High frequencies stay, low ones are divided by the factor, a ramp mixes those in between. */
static void make_yarn(tfm__rotary_arch *r) {
    const tfm__rope_config *f = &r->config;
    double low = pair_of(r, f->beta_fast ? f->beta_fast : 32), high = pair_of(r, f->beta_slow ? f->beta_slow : 1);
    if (!f->untruncated) {
        low = floor(low);
        high = ceil(high);
    }
    low = low < 0 ? 0 : low;
    high = high > r->width - 1 ? r->width - 1 : high;
    if (low == high)
        high += 0.001;
    for (int i = 0; i < r->width / 2; i++) {
        const float power = power_of(r, i), ramp = ((float)i - (float)low) / (float)(high - low);
        const float kept = 1 - (ramp < 0 ? 0 : ramp > 1 ? 1 : ramp);
        const float fast = 1 / power, slow = 1 / ((float)f->factor * power);
        r->inv_freq[i] = (double)(slow * (1 - kept) + fast * kept);
    }
}

static void make_llama3(tfm__rotary_arch *r) {
    const tfm__rope_config *f = &r->config;
    const float low = (float)(f->original / f->low_freq_factor), high = (float)(f->original / f->high_freq_factor);
    for (int i = 0; i < r->width / 2; i++) {
        const float rate = 1 / power_of(r, i), length = (float)(2 * acos(-1)) / rate, slow = rate / (float)f->factor;
        const float share = ((float)f->original / length - (float)f->low_freq_factor) /
                            (float)(f->high_freq_factor - f->low_freq_factor);
        r->inv_freq[i] = (double)(length > low ? slow : length < high ? rate : (1 - share) * slow + share * rate);
    }
}

static void make_rates(tfm__rotary_arch *r) {
    const tfm__rope_config *f = &r->config;
    if (f->type == TFM__ROPE_YARN)
        make_yarn(r);
    if (f->type == TFM__ROPE_LLAMA3)
        make_llama3(r);
    if (f->type == TFM__ROPE_YARN || f->type == TFM__ROPE_LLAMA3)
        return;
    const bool stretched = f->type == TFM__ROPE_LONGROPE;
    for (int i = 0; i < r->width / 2; i++) {
        const float power = power_of(r, i);
        r->inv_freq[i] = (double)(1 / ((stretched ? f->short_factor[i] : 1) * power));
        r->inv_freq_long[i] = stretched ? (double)(1 / (f->long_factor[i] * power)) : 0;
        if (f->type == TFM__ROPE_LINEAR)
            r->inv_freq[i] = (double)((float)r->inv_freq[i] / (float)f->factor);
    }
}

/* Default factor of cosines and sines: compensates for the larger sums of longer sequences. */
static double attention_factor(const tfm__rope_config *f, double factor) {
    if (f->attention_factor != 0)
        return f->attention_factor;
    if (f->type == TFM__ROPE_LONGROPE)
        return factor <= 1 ? 1 : sqrt(1 + log(factor) / log(f->original));
    if (f->type != TFM__ROPE_YARN || factor <= 1)
        return 1;
    if (f->mscale != 0 && f->mscale_all_dim != 0)
        return (0.1 * f->mscale * log(factor) + 1) / (0.1 * f->mscale_all_dim * log(factor) + 1);
    return 0.1 * log(factor) + 1;
}

/* ---- Reading -------------------------------------------------------------------------------------------------- */

/* The object for these layers, new; NULL: none. As in transformers: if the family has objects per layer type, a global
 * object is ignored and the keys of `rope_scaling` override theirs; else `rope_scaling` replaces `rope_parameters`, and
 * the type must be called `rope_type`. */
static tfm_status find_object(json_t **out, const tfm__config_files *from, const tfm__rope_spec *rope) {
    const json_t *now = tfm__network_key(from, "rope_parameters").value;
    const json_t *before = rope->scaled ? tfm__network_key(from, "rope_scaling").value : NULL;
    if (rope->fixed)
        return TFM_OK;
    const bool scaled = before && (!json_is_object(before) || json_object_size(before) > 0);
    if (rope->layers && json_is_object(now))
        now = json_object_get(now, rope->layers);
    now = json_is_null(now) ? NULL : now;
    if (!scaled || !rope->layers || !json_is_object(before)) {
        *out = json_incref((json_t *)(uintptr_t)(scaled ? before : now));
        return TFM_OK;
    }
    *out = json_is_object(now) ? json_copy((json_t *)(uintptr_t)now) : json_pack("{s:s}", "rope_type", "default");
    return *out && json_object_update(*out, (json_t *)(uintptr_t)before) == 0 ? TFM_OK : TFM_ERROR_MEMORY;
}

static tfm_status check_object(const json_t *object, const tfm__config_files *from) {
    const char *key;
    json_t *value;
    if (object && !json_is_object(object))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `rope_parameters` (`rope_scaling`) is %s; an object is needed",
                         from->config_path, TFM__VALUE_TEXT(object));
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        if (json_is_object(value))
            return tfm__fail(TFM_ERROR_UNSUPPORTED,
                             "%s: `rope_parameters` has an object `%s`; this family has the same RoPE in all layers",
                             from->config_path, key);
    }
    return TFM_OK;
}

/* A key of that object, or else of the enclosing one. */
static tfm__config_value key_of(const tfm__config_files *from, const json_t *object, const char *key,
                                const char *outer_key) {
    const json_t *value = json_object_get(object, key);
    if (value && !json_is_null(value))
        return (tfm__config_value){value, from->config_path};
    return outer_key ? tfm__network_key(from, outer_key) : (tfm__config_value){NULL, from->config_path};
}

static tfm_status read_type(tfm__rope_config *form, const tfm__config_files *from, const json_t *object,
                            const tfm__rope_spec *rope) {
    const json_t *value = json_object_get(object, "rope_type");
    const bool newer = value && !json_is_null(value);
    value = newer ? value : json_object_get(object, "type");
    const char *name = json_string_value(value);
    form->type = TFM__ROPE_DEFAULT;
    if (!value || json_is_null(value))
        return TFM_OK;
    if (rope->longrope_only && name && (strcmp(name, "su") == 0 || strcmp(name, "yarn") == 0))
        name = "longrope";
    for (size_t i = 0; name && i < TFM__COUNT(TYPES); i++)
        if (strcmp(name, TYPES[i].name) == 0) {
            form->type = TYPES[i].type;
            if (!rope->longrope_only || form->type == TFM__ROPE_DEFAULT || form->type == TFM__ROPE_LONGROPE)
                return TFM_OK;
        }
    return tfm__fail(name ? TFM_ERROR_UNSUPPORTED : TFM_ERROR_FORMAT,
                     "%s: RoPE `%s` is %s; %s\"longrope\" are supported for this family", from->config_path,
                     newer ? "rope_type" : "type", TFM__VALUE_TEXT(value),
                     rope->longrope_only ? "\"default\" and "
                                         : "\"default\", \"linear\", \"dynamic\", \"yarn\", \"llama3\" and ");
}

static tfm_status read_numbers(tfm__rope_config *f, const tfm__config_files *from, const json_t *object,
                               const tfm__rope_spec *rope) {
    const struct {
        const char *key, *outer_key;
        double *value, fallback, low, high;
    } numbers[] = {
        {"rope_theta", rope->fixed ? NULL : rope->theta_key, &f->theta, rope->theta, 1e-3, 1e30},
        {"partial_rotary_factor", rope->fixed ? NULL : tfm__key_or(rope->partial_key, "partial_rotary_factor"),
         &f->partial, rope->partial, 0, 1},
        {"factor", NULL, &f->factor, 0, 1e-3, 1e6},
        {"attention_factor", NULL, &f->attention_factor, 0, 0, 1e6},
        {"beta_fast", NULL, &f->beta_fast, 0, 0, 1e6},
        {"beta_slow", NULL, &f->beta_slow, 0, 0, 1e6},
        {"mscale", NULL, &f->mscale, 0, 0, 1e6},
        {"mscale_all_dim", NULL, &f->mscale_all_dim, 0, 0, 1e6},
        {"low_freq_factor", NULL, &f->low_freq_factor, 0, 1e-6, 1e6},
        {"high_freq_factor", NULL, &f->high_freq_factor, 0, 1e-6, 1e6},
    };
    bool truncated = true;
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < TFM__COUNT(numbers) && status == TFM_OK; i++) {
        *numbers[i].value = numbers[i].fallback;
        status = tfm__read_number(numbers[i].value, key_of(from, object, numbers[i].key, numbers[i].outer_key),
                                  numbers[i].key, numbers[i].low, numbers[i].high);
    }
    if (status == TFM_OK && !rope->layers) /* transformers ignores it in an object of a layer type */
        status = tfm__read_bool(&truncated, key_of(from, object, "truncate", NULL), "truncate");
    f->untruncated = !truncated;
    return status;
}

/* Models with full rotary width ignore another factor in transformers, except with scaled RoPE: there it fails. */
static tfm_status check_partial(tfm__rope_config *f, const tfm__config_files *from, const tfm__rope_spec *rope) {
    const double partial = f->partial;
    if (!rope->whole || partial == 1)
        return TFM_OK;
    f->partial = 1;
    if (f->type != TFM__ROPE_DEFAULT)
        return tfm__fail(
            TFM_ERROR_UNSUPPORTED,
            "%s: `partial_rotary_factor` is %g, and this family rotates whole heads: use a model without it",
            from->config_path, partial);
    tfm__log(TFM_LOG_WARNING, "%s: `partial_rotary_factor` is %g; this family rotates whole heads, as in transformers",
             from->config_path, partial);
    return TFM_OK;
}

/* One factor per pair. */
static tfm_status read_factors(float *out, int pairs, const tfm__config_files *from, const json_t *object,
                               const char *key) {
    const tfm__config_value found = key_of(from, object, key, NULL);
    if (!json_is_array(found.value) || json_array_size(found.value) != (size_t)pairs)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: `%s` is %s; a list of %d numbers, one for each pair of columns, is needed",
                         from->config_path, key, TFM__VALUE_TEXT(found.value), pairs);
    for (int i = 0; i < pairs; i++) {
        double value = 0;
        const tfm__config_value item = {json_array_get(found.value, (size_t)i), from->config_path};
        const tfm_status status = tfm__read_number(&value, item, key, 1e-6, 1e6);
        if (status != TFM_OK)
            return status;
        out[i] = (float)value;
    }
    return TFM_OK;
}

/* Required keys of a RoPE type besides theta. */
static tfm_status check_type(tfm__rotary_arch *r, const tfm__config_files *from, const json_t *object) {
    tfm__rope_config *f = &r->config;
    const bool ratio = f->type == TFM__ROPE_YARN || f->type == TFM__ROPE_LONGROPE; /* else the factor */
    const char *missing = f->type == TFM__ROPE_LLAMA3 && f->low_freq_factor == 0     ? "low_freq_factor"
                          : f->type == TFM__ROPE_LLAMA3 && f->high_freq_factor == 0  ? "high_freq_factor"
                          : f->type != TFM__ROPE_DEFAULT && f->factor == 0 && !ratio ? "factor"
                                                                                     : NULL;
    if (missing)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: RoPE has no `%s`, required by its type", from->config_path, missing);
    if (f->type == TFM__ROPE_LLAMA3 && f->high_freq_factor == f->low_freq_factor)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `high_freq_factor` is %g, as `low_freq_factor`: it must be larger",
                         from->config_path, f->high_freq_factor);
    if (f->type == TFM__ROPE_DYNAMIC && r->width < 4)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: dynamic RoPE needs heads of four columns or more", from->config_path);
    if (f->type == TFM__ROPE_DYNAMIC || f->type == TFM__ROPE_LONGROPE)
        r->switch_length = f->type == TFM__ROPE_DYNAMIC ? f->positions : f->original;
    tfm_status status = TFM_OK;
    if (f->type == TFM__ROPE_LONGROPE)
        status = read_factors(f->short_factor, r->width / 2, from, object, "short_factor");
    if (f->type == TFM__ROPE_LONGROPE && status == TFM_OK)
        status = read_factors(f->long_factor, r->width / 2, from, object, "long_factor");
    return status;
}

/* Maximum length that the scaling supports. */
static int reach(const tfm__rope_config *f, double factor) {
    const bool within = f->type == TFM__ROPE_DEFAULT || f->type == TFM__ROPE_LLAMA3 || f->type == TFM__ROPE_LONGROPE;
    const double most = factor * (f->type == TFM__ROPE_YARN ? f->original : f->positions);
    if (f->type == TFM__ROPE_DYNAMIC) /* any length */
        return TFM__MAX_WIDTH;
    if (within || most <= f->positions)
        return f->positions;
    return most < TFM__MAX_WIDTH ? (int)most : TFM__MAX_WIDTH;
}

static tfm_status read_object(tfm__rotary_arch *out, tfm__stack_arch *stack, int positions,
                              const tfm__config_files *from, const tfm__rope_spec *rope, const json_t *object) {
    static const char original[] = "original_max_position_embeddings";
    tfm__rope_config *f = &out->config;
    tfm_status status = check_object(object, from);
    if (status == TFM_OK)
        status = read_type(f, from, object, rope);
    if (status == TFM_OK)
        status = read_numbers(f, from, object, rope);
    if (status == TFM_OK)
        status = check_partial(f, from, rope);
    f->positions = positions;
    f->original = rope->original ? rope->original : positions;
    if (status == TFM_OK && !rope->original)
        status = tfm__read_int(&f->original, key_of(from, object, original, NULL), original, 1, LARGEST);
    if (status == TFM_OK && !rope->layers) /* the key of the enclosing object wins, unless there are several objects */
        status = tfm__read_int(&f->original, tfm__network_key(from, original), original, 1, LARGEST);
    if (status != TFM_OK)
        return status;
    out->freq_dim = rope->size_key ? rope->size : (int)(stack->head_width * f->partial);
    if (rope->size_key)
        status = tfm__read_int(&out->freq_dim, tfm__network_key(from, rope->size_key), rope->size_key, 1, LARGEST);
    if (status != TFM_OK)
        return status;
    out->width = out->freq_dim + out->freq_dim % 2; /* an odd column is paired with the next one */
    if (out->width < 2 || out->width > stack->head_width || out->width / 2 > TFM__MAX_ROTARY_PAIRS)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: %d of %d columns of a head are rotated; an even number from 2 to %d is needed",
                         from->config_path, out->freq_dim, stack->head_width, 2 * TFM__MAX_ROTARY_PAIRS);
    if (out->width != out->freq_dim && (!rope->rounded || f->type == TFM__ROPE_YARN || f->type == TFM__ROPE_LONGROPE))
        return tfm__fail(
            TFM_ERROR_UNSUPPORTED,
            "%s: %d of %d columns of a head are rotated; an even number is needed for this family and RoPE type",
            from->config_path, out->freq_dim, stack->head_width);
    status = check_type(out, from, object);
    if (status != TFM_OK)
        return status;
    const double factor = f->factor != 0 ? f->factor : (double)positions / f->original;
    out->scale = (float)attention_factor(f, factor);
    out->recompute_keys = rope->longrope_only && out->switch_length > 0;
    f->factor = f->type == TFM__ROPE_YARN ? factor : f->factor;
    make_rates(out);
    const int most = rope->scaled ? reach(f, factor) : positions;
    stack->max_positions = most > stack->max_positions ? most : stack->max_positions;
    return TFM_OK;
}

tfm_status tfm__read_rope(tfm__rotary_arch *out, tfm__stack_arch *stack, int positions, const tfm__config_files *from,
                          const tfm__rope_spec *rope) {
    json_t *object = NULL;
    tfm_status status = find_object(&object, from, rope);
    if (status == TFM_OK)
        status = read_object(out, stack, positions, from, rope, object);
    json_decref(object);
    return status;
}

/* ---- Writing -------------------------------------------------------------------------------------------------- */

static json_t *list_of(const float *values, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, json_real((double)values[i]));
    return list;
}

json_t *tfm__write_rope(const tfm__rotary_arch *rotary) {
    const tfm__rope_config *f = &rotary->config;
    json_t *out = json_pack("{s:f}", "rope_theta", f->theta);
    const struct {
        const char *key;
        double value;
    } numbers[] = {
        {"partial_rotary_factor", f->partial == 1 ? 0 : f->partial},
        {"factor", f->factor},
        {"attention_factor", f->attention_factor},
        {"beta_fast", f->beta_fast},
        {"beta_slow", f->beta_slow},
        {"mscale", f->mscale},
        {"mscale_all_dim", f->mscale_all_dim},
        {"low_freq_factor", f->low_freq_factor},
        {"high_freq_factor", f->high_freq_factor},
    };
    for (size_t i = 0; out && i < TFM__COUNT(TYPES); i++)
        if (TYPES[i].type == f->type && !json_object_get(out, "rope_type"))
            json_object_set_new(out, "rope_type", json_string(TYPES[i].name));
    for (size_t i = 0; out && i < TFM__COUNT(numbers); i++)
        if (numbers[i].value != 0)
            json_object_set_new(out, numbers[i].key, json_real(numbers[i].value));
    if (out && f->untruncated)
        json_object_set_new(out, "truncate", json_false());
    if (out && f->type >= TFM__ROPE_YARN)
        json_object_set_new(out, "original_max_position_embeddings", json_integer(f->original));
    if (out && f->type == TFM__ROPE_LONGROPE) {
        json_object_set_new(out, "short_factor", list_of(f->short_factor, rotary->width / 2));
        json_object_set_new(out, "long_factor", list_of(f->long_factor, rotary->width / 2));
    }
    return out;
}
