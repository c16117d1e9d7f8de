/* Continuous batching for translation: sentences are admitted between steps, into the places of finished ones. */
#include <string.h>
#include "model/decode/search.h"
#include "ops/ops.h"

/* State of a search with admission. */
struct tfm__fed {
    tfm_model *model;
    const tfm__feed *feed;
    const tfm__search_params *rules;
    const tfm__generation_rules *forced;
    int64_t most;              /* batch places */
    tfm__fed_sentence *at;     /* [most]: sentence at each place; undefined for free places */
    bool *taken;               /* [most] */
    int32_t *present, *before; /* [most]: live sentences, and those live before the step */
    int64_t live;              /* their number */
    int32_t *lengths;          /* [most]: source lengths */
    tfm__fed_sentence *come;   /* [most]: new sentences */
    int32_t *places;           /* [most]: places of finished or new sentences */
    tfm_hypothesis *items;     /* [most * n_best]: hypotheses of finished sentences */
    int32_t *ids;              /* of the initial batch */
    size_t *counts, sentences;
    int64_t stayed;         /* slots in use after the last compaction */
    int64_t joined, tidied; /* sentences admitted, and compactions */
};

/* ---- Creation ---------------------------------------------------------------------------------------------------- */

static void clear_items(tfm__fed *f) {
    for (int64_t i = 0; f->items && i < f->most * f->rules->n_best; i++)
        tfm__hypothesis_clear(&f->items[i]);
}

void tfm__fed_free(tfm__fed *f) {
    if (!f)
        return;
    clear_items(f);
    void *all[] = {f->at,    f->taken,  f->present, f->before, f->lengths, f->come,
                   f->items, f->places, f->ids,     f->counts, f};
    for (size_t i = 0; i < TFM__COUNT(all); i++)
        free(all[i]);
}

static tfm_status take_first(tfm__fed *f) {
    size_t total = 0, at = 0;
    f->sentences = f->feed->take(f->feed->user, f->come, (size_t)f->most);
    for (size_t i = 0; i < f->sentences; i++)
        total += f->come[i].count;
    f->ids = tfm__alloc(total, sizeof(*f->ids));
    if (!f->ids)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < f->sentences; i++) {
        memcpy(f->ids + at, f->come[i].ids, f->come[i].count * sizeof(*f->ids));
        at += f->come[i].count;
        f->counts[i] = f->come[i].count;
        f->lengths[i] = (int32_t)f->come[i].count;
        f->at[i] = f->come[i];
        f->taken[i] = true;
        f->before[i] = (int32_t)i;
    }
    f->live = (int64_t)f->sentences;
    return TFM_OK;
}

tfm_status tfm__fed_begin(tfm__fed **out, tfm_model *model, const tfm__feed *feed, const tfm__search_params *rules,
                          const tfm__generation_rules *forced) {
    const size_t most = feed->most;
    tfm__fed *f = *out = tfm__alloc(1, sizeof(*f));
    if (!f)
        return TFM_ERROR_MEMORY;
    *f = (tfm__fed){.model = model,
                    .feed = feed,
                    .rules = rules,
                    .forced = forced,
                    .most = (int64_t)most,
                    .at = tfm__alloc(most, sizeof(*f->at)),
                    .taken = tfm__alloc(most, sizeof(*f->taken)),
                    .present = tfm__alloc(most, sizeof(*f->present)),
                    .before = tfm__alloc(most, sizeof(*f->before)),
                    .lengths = tfm__alloc(most, sizeof(*f->lengths)),
                    .come = tfm__alloc(most, sizeof(*f->come)),
                    .places = tfm__alloc(most, sizeof(*f->places)),
                    .items = tfm__alloc(most * (size_t)rules->n_best, sizeof(*f->items)),
                    .counts = tfm__alloc(most, sizeof(*f->counts))};
    if (!f->at || !f->taken || !f->present || !f->before || !f->lengths || !f->come || !f->places || !f->items ||
        !f->counts)
        return TFM_ERROR_MEMORY;
    return take_first(f);
}

const int32_t *tfm__fed_ids(const tfm__fed *f, const size_t **counts, size_t *sentences) {
    *counts = f->counts;
    *sentences = f->sentences;
    return f->ids;
}

int32_t *tfm__fed_present(tfm__fed *f, int64_t *most) {
    *most = f->most;
    return f->present;
}

tfm_status tfm__fed_all(tfm__fed *f, const tfm_hypotheses *found) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < f->sentences && status == TFM_OK; i++)
        status = f->feed->found(f->feed->user, f->at[i].owner, found->items + i * (size_t)found->n_best);
    return status;
}

/* ---- Finished sentences ------------------------------------------------------------------------------------------ */

static tfm_status hand_out(tfm__fed *f, tfm__beam *beam, const float *penalty) {
    const int n_best = f->rules->n_best;
    int64_t over = 0;
    for (int64_t i = 0; i < beam->live; i++)
        f->taken[f->present[i]] = false; /* temporarily: sentences still marked are finished */
    for (int64_t i = 0; i < f->live; i++)
        if (f->taken[f->before[i]])
            f->places[over++] = f->before[i];
    for (int64_t i = 0; i < over; i++)
        f->taken[f->places[i]] = false;
    for (int64_t i = 0; i < beam->live; i++)
        f->taken[f->present[i]] = true;
    if (over == 0)
        return TFM_OK;
    tfm_status status = tfm__beam_found(beam, f->items, f->places, over, n_best, penalty);
    for (int64_t i = 0; i < over && status == TFM_OK; i++)
        status = f->feed->found(f->feed->user, f->at[f->places[i]].owner, f->items + i * n_best);
    clear_items(f);
    return status;
}

/* ---- New sentences ----------------------------------------------------------------------------------------------- */

/* Copies x (m, s, e) into to (N, S, e) at `places` (m), or at the first m if that is empty. */
static void place(tfm_context *ctx, tfm_tensor to, tfm_tensor x, tfm_tensor places) {
    tfm__launch(ctx, tfm__kernel_get(ctx, "fed", "fed_place", ""), tfm__row_grid(ctx, x.dims[0] * x.dims[1]),
                TFM__ARGS(TFM__T(to), TFM__T(x), TFM__T(places), TFM__I_AS("rows", x.dims[0] * x.dims[1]),
                          TFM__I_AS("length", x.dims[1]), TFM__I_AS("room", to.dims[1]),
                          TFM__I_AS("width", x.dims[2])));
}

/* Grows keys or values to `count` sequences of `length`. */
static void make_room(tfm_context *ctx, tfm_tensor *x, int64_t count, int64_t length) {
    tfm_tensor larger = {0};
    const int64_t dims[] = {count > x->dims[0] ? count : x->dims[0], length > x->dims[1] ? length : x->dims[1],
                            x->dims[2]};
    if (dims[0] == x->dims[0] && dims[1] == x->dims[1])
        return;
    tfm_tensor_new(ctx, &larger, x->dtype, 3, dims);
    place(ctx, larger, *x, (tfm_tensor){0});
    tfm_tensor_free(ctx, x);
    *x = larger;
}

/* Sentences of different lengths are encoded separately if padding would exceed this part of them. */
enum { PADDING_PART = 4 };

static int longer_first(const void *a, const void *b) {
    const tfm__fed_sentence *x = a, *y = b;
    return x->count < y->count ? 1 : x->count > y->count ? -1 : 0;
}

/* Number of sentences from `first` on, longest first, to encode together. */
static int64_t group_of(const tfm__fed *f, int64_t first, int64_t count) {
    const size_t longest = f->come[first].count;
    size_t tokens = 0;
    for (int64_t n = 0; first + n < count; n++) {
        tokens += f->come[first + n].count;
        const size_t padding = longest * (size_t)(n + 1) - tokens;
        if (padding * PADDING_PART > tokens)
            return n;
    }
    return count - first;
}

/* Encodes `count` new sentences from `first` on, and stores their cross-attention inputs at their places. */
static tfm_status encode_group(tfm__fed *f, tfm__search_source *from, int64_t first, int64_t count) {
    tfm_model *model = f->model;
    tfm_context *ctx = model->ctx;
    const int layers = model->arch.decoder.layers;
    const int64_t longest = (int64_t)f->come[first].count;
    int32_t *ids = tfm__alloc((size_t)(count * longest), sizeof(*ids)),
            *lengths = tfm__alloc((size_t)count, sizeof(*lengths));
    tfm_kv *cross = tfm__alloc((size_t)layers, sizeof(*cross));
    tfm_tensor host = {0}, encoded = {0};
    tfm_scope_open(ctx);
    for (int64_t i = 0; ids && lengths && i < count; i++) {
        const tfm__fed_sentence *one = &f->come[first + i];
        tfm__ids_pad(ids + i * longest, longest, one->ids, one->count, 0, 0, model->rules.pad_id);
        lengths[i] = (int32_t)one->count;
    }
    if (ids && lengths && cross) {
        tfm_tensor_new(ctx, &host, TFM_I32, 2, (int64_t[]){count, longest});
        tfm_tensor_write(ctx, host, ids);
        tfm_model_encode(model, &encoded, host, tfm__beam_ints_of(ctx, lengths, count));
        tfm__model_project_cross_kv(model, cross, encoded);
        const tfm_tensor places = tfm__beam_ints_of(ctx, f->places + first, count);
        for (int i = 0; i < layers && tfm_context_status(ctx) == TFM_OK; i++) {
            place(ctx, from->cross[i].keys, cross[i].keys, places);
            place(ctx, from->cross[i].values, cross[i].values, places);
        }
    } else {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "search: out of host memory for %lld sentences", (long long)count);
    }
    free(ids);
    free(lengths);
    free(cross);
    return tfm_scope_close(ctx, 0, NULL);
}

/* Encodes all new sentences. */
static tfm_status encode(tfm__fed *f, tfm__search_source *from, int64_t count) {
    tfm_context *ctx = f->model->ctx;
    const int layers = f->model->arch.decoder.layers;
    int64_t last = 0;
    for (int64_t i = 0; i < count; i++)
        last = f->places[i] > last ? f->places[i] : last;
    const int64_t had = layers > 0 ? from->cross[0].keys.dims[0] : 0, grown = had + had / 2;
    const int64_t room = last < had ? had : grown <= last ? last + 1 : grown < f->most ? grown : f->most;
    for (int i = 0; i < layers; i++) {
        make_room(ctx, &from->cross[i].keys, room, (int64_t)f->come[0].count);
        make_room(ctx, &from->cross[i].values, room, (int64_t)f->come[0].count);
    }
    tfm_tensor_free(ctx, &from->lengths);
    from->lengths = tfm__beam_ints_of(ctx, f->lengths, room);
    tfm_status status = tfm_context_status(ctx);
    for (int64_t first = 0, n; first < count && status == TFM_OK; first += n) {
        n = group_of(f, first, count);
        status = encode_group(f, from, first, n);
    }
    return status;
}

/* Makes their rows; limits may exceed all earlier ones. */
static tfm_status begin_rows(tfm__fed *f, tfm__beam *beam, tfm__search_batch *batch, int64_t count) {
    const int64_t width = beam->prefix_width;
    const int32_t first = f->forced->forced_bos_id;
    int32_t *limits = tfm__alloc((size_t)(2 * count), sizeof(*limits)), *prefix_counts = limits ? limits + count : NULL,
            *prefixes = tfm__alloc((size_t)(count * width), sizeof(*prefixes));
    const int64_t had = batch->longest;
    tfm_status status = limits && prefixes ? TFM_OK : TFM_ERROR_MEMORY;
    for (int64_t i = 0; i < count && status == TFM_OK; i++) {
        const int64_t limit = tfm__search_limit(f->rules, f->model, f->come[i].count);
        limits[i] = (int32_t)limit;
        prefix_counts[i] = first >= 0;
        prefixes[i * width] = first >= 0 ? first : 0;
        batch->longest = limit > batch->longest ? limit : batch->longest;
    }
    if (status == TFM_OK && batch->longest > had) {
        float *longer = tfm__search_penalty(f->rules, batch->longest);
        status = longer ? TFM_OK : TFM_ERROR_MEMORY;
        if (longer) {
            free(batch->penalty);
            batch->penalty = longer;
        } else {
            batch->longest = had;
        }
    }
    if (status == TFM_OK)
        status = tfm__beam_join(beam, &(tfm__beam_arrivals){.count = count,
                                                            .places = f->places,
                                                            .limits = limits,
                                                            .prefix_counts = prefix_counts,
                                                            .prefixes = prefixes,
                                                            .penalty = batch->penalty,
                                                            .longest = batch->longest});
    free(limits);
    free(prefixes);
    return status;
}

static tfm_status let_in(tfm__fed *f, tfm__beam *beam, tfm__search_source *from, tfm__search_batch *batch) {
    const int64_t room = f->most - beam->live;
    const int64_t count = room > 0 ? (int64_t)f->feed->take(f->feed->user, f->come, (size_t)room) : 0;
    qsort(f->come, (size_t)count, sizeof(*f->come), longer_first);
    for (int64_t i = 0, at = 0; i < count; at++) {
        if (f->taken[at])
            continue;
        f->taken[at] = true;
        f->at[at] = f->come[i];
        f->lengths[at] = (int32_t)f->come[i].count;
        f->places[i++] = (int32_t)at;
    }
    if (count == 0)
        return TFM_OK;
    f->joined += count;
    const tfm_status status = encode(f, from, count);
    return status == TFM_OK ? begin_rows(f, beam, batch, count) : status;
}

/* ---- Between steps ----------------------------------------------------------------------------------------------- */

/* Steps whose rows are always kept: most are still in use. */
enum { STEPS_KEPT = 16 };

/* Compacts the KV cache before it grows, unless the last compaction freed little. */
static tfm_status tidy(tfm__fed *f, tfm__beam *beam, tfm_kv_cache *cache) {
    const bool full = beam->slot + beam->rows * (1 + (int64_t)beam->width) > cache->capacity;
    if (!full || beam->slot < 2 * f->stayed || beam->slot < STEPS_KEPT * beam->rows)
        return tfm_context_status(beam->ctx);
    const tfm_status status = tfm__beam_tidy(beam, cache);
    f->stayed = beam->slot;
    f->tidied++;
    return status;
}

tfm_status tfm__fed_turn(tfm__fed *f, tfm__beam *beam, tfm_kv_cache *cache, tfm__search_source *from,
                         tfm__search_batch *batch) {
    tfm_status status = tfm_context_status(beam->ctx);
    if (status == TFM_OK)
        status = hand_out(f, beam, batch->penalty);
    if (status == TFM_OK && beam->live > 0)
        status = tidy(f, beam, cache);
    if (status == TFM_OK && beam->live > 0)
        status = let_in(f, beam, from, batch);
    if (beam->live == 0)
        tfm__log(TFM_LOG_DEBUG, "search: %lld sentences admitted; its %lld cache slots were compacted %lld times",
                 (long long)f->joined, (long long)cache->capacity, (long long)f->tidied);
    f->live = beam->live;
    memcpy(f->before, f->present, (size_t)f->live * sizeof(*f->before));
    return status;
}
