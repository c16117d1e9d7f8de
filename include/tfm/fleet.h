/* Fleets: several devices that share the lines of a call (data parallel).
 *
 *     tfm_fleet *fleet = NULL;
 *     tfm_model *model = NULL;
 *     if (tfm_fleet_open(&fleet, &(tfm_fleet_options){.devices = "gpu,cpu"}) == TFM_OK &&
 *         tfm_fleet_open_model(&model, fleet, "opus-mt-de-en", NULL) == TFM_OK)
 *         tfm_translate(model, lines, count, NULL, emit, user);
 *     tfm_model_free(&model);
 *     tfm_fleet_free(&fleet);
 *
 * A fleet has a context on each of its devices, and a model opened on a fleet has a replica on each. The model is used
 * like any other. tfm_translate, tfm_translate_lines, tfm_translate_stream, tfm_score, tfm_score_texts, tfm_generate,
 * tfm_classify, tfm_fill_mask and tfm_embed distribute their batches over the devices, with one thread for each. All
 * other calls run on the first device.
 *
 * Devices are a comma-separated list of device selectors (device.h): `gpu,cpu`, `0,1`, `nvidia,intel`. A selector with
 * several matches takes the best device that no earlier selector has taken, so `gpu,gpu` is the two best GPUs; without
 * one left it is an error. `all` is every device that passes the test kernel, the best first, except emulators and
 * devices without a compiler, which must be named. Part of a device's name that contains a comma still selects that
 * device.
 *
 * Scheduling: lines are distributed by the measured speed of each device. An idle device gets half of its share of the
 * remaining work, at most a full batch. A slow device gets few lines at a time, and none that another would finish
 * sooner. A device of unknown speed begins with a few lines, and the call waits for them. Results are in the order of
 * the lines. The model keeps the measured speeds for its next call.
 *
 * A device may have several contexts (`workers`), which keep a CPU busier with a small model. If all contexts are on
 * one device with the same kernels, each takes the next full batch. Batches and results are then bit-identical to those
 * of one context, except where a batch is split because memory runs out.
 *
 * Results: each line gets the result of one of the devices, independent of the other lines of its batch except for
 * rounding, which differs between devices, and between batch sizes on one device. So texts equal those of one device
 * unless rounding decides between two equally likely ones; scores and embeddings are equal except for rounding; and
 * texts sampled by tfm_generate, with random numbers of the prompt, are equal unless rounding moves the border between
 * two tokens.
 *
 * Failures: a device that fails is excluded from then on for all models of the fleet, with a warning in the log; its
 * work goes to the others, and the call continues. A device without memory for a single line, which may be temporary,
 * is excluded for the rest of the call and the next call, and then tried again; after further failures for the next
 * two, four and so on, at most 64. If the last device fails, the call fails as it would on that device alone.
 *
 * Training: a trainer of a model on several devices trains on all of them (train.h).
 *
 * Callbacks run on the calling thread, except on_build and the log callback: they run on the devices' threads, one at a
 * time. should_continue is called every hundredth of a second. While a call of tfm_generate has on_token or on_text,
 * one device works at a time. The seconds in tfm_generate_stats are sums over all devices. */
#ifndef TFM_FLEET_H
#define TFM_FLEET_H

#include "embed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A group of contexts. One thread at a time may use a fleet and the models on it. */
typedef struct tfm_fleet tfm_fleet;

typedef struct tfm_fleet_options {
    /* The list of devices, as above; one is enough. NULL means TFM_DEVICE or else the best device. */
    const char *devices;
    /* Called before each program is built from source, by one thread at a time. May be NULL. */
    tfm_build_fn on_build;
    void *on_build_user;
    /* Contexts on each device, which work on different batches at the same time, so that one uses the device while the
     * host works for another. 1 to 16; they share the parameters. 0 is automatic: 1, or 2 if there is one device, a
     * CPU, and a small model has enough work. */
    int workers;
    uint64_t reserved[7]; /* Must be 0. */
} tfm_fleet_options;

/* Opens `workers` contexts on each device. A device that fails to open is excluded with a warning, unless all fail.
 * `options` may be NULL. On failure *out is NULL: TFM_ERROR_DEVICE if a selector of the list matches no device, or only
 * devices that are taken. A device with a driver failure during listing does not count. */
TFM_API tfm_status tfm_fleet_open(tfm_fleet **out, const tfm_fleet_options *options);

/* Makes a fleet of existing contexts, such as several on one device or contexts of tfm_context_wrap, and takes a
 * reference to each. At least one; no duplicates. The on_build of a context is called on the fleet's threads too, and
 * those of several contexts at the same time. */
TFM_API tfm_status tfm_fleet_new(tfm_fleet **out, tfm_context *const *contexts, size_t count);

/* Releases the caller's reference and sets the pointer to NULL. Models on the fleet keep what they need. Does nothing
 * for NULL. Counts as a use of the contexts. */
TFM_API void tfm_fleet_free(tfm_fleet **fleet);

/* One context of a fleet, on one of its devices. */
typedef struct tfm_fleet_member {
    tfm_context *context; /* Owned by the fleet. NULL while it is not open. */
    bool dropped;         /* It has failed and is excluded, at least for now. */
    const char *reason;   /* The message of that failure, or "". */
    uint64_t lines;       /* Lines (or sentences, or windows of long texts) done so far. */
    double seconds;       /* The time for them, without building kernels. */
} tfm_fleet_member;

/* The number of contexts, including failed ones: the number of devices times the workers. 0 for NULL. */
TFM_API size_t tfm_fleet_count(const tfm_fleet *fleet);
/* A context of the fleet, counted from 0: one for each device in the order of the list, then again for each further
 * worker. The struct belongs to the fleet and is updated by its calls. NULL after the last, and for NULL. */
TFM_API const tfm_fleet_member *tfm_fleet_get_member(const tfm_fleet *fleet, size_t index);

/* The recommended number of workers for a model: 2 for up to 32 million parameters on a CPU of several cores that runs
 * the CPU kernels without profiling, else 1. 1 for NULL. */
TFM_API int tfm_model_workers(const tfm_model *model);

/* tfm_model_open on each device of the fleet. The model keeps what it needs of the fleet alive. On a fleet of one
 * device it is the result of tfm_model_open. A device that fails, for lack of memory or otherwise, is excluded with a
 * warning, unless it is the last. */
TFM_API tfm_status tfm_fleet_open_model(tfm_model **out, tfm_fleet *fleet, const char *dir,
                                        const tfm_model_options *options);
/* tfm_model_new on each device of the fleet, in the same way. */
TFM_API tfm_status tfm_fleet_new_model(tfm_model **out, tfm_fleet *fleet, const tfm_model_shape *shape);
/* tfm_embedder_open on each device of the fleet, in the same way. */
TFM_API tfm_status tfm_fleet_open_embedder(tfm_embedder **out, tfm_fleet *fleet, const char *dir,
                                           const tfm_embedder_options *options);

#ifdef __cplusplus
}
#endif
#endif
