/* Fleets: several devices that work on one call together.
 *
 *     tfm_fleet *fleet = NULL;
 *     tfm_model *model = NULL;
 *     if (tfm_fleet_open(&fleet, &(tfm_fleet_options){.devices = "gpu,cpu"}) == TFM_OK &&
 *         tfm_fleet_open_model(&model, fleet, "opus-mt-de-en", NULL) == TFM_OK)
 *         tfm_translate(model, lines, count, NULL, emit, user);
 *     tfm_model_free(&model);
 *     tfm_fleet_free(&fleet);
 *
 * A fleet is a context on each of its devices. A model that is opened on a fleet lies on all of them, and is a model as
 * any other: tfm_translate, tfm_translate_lines, tfm_translate_stream, tfm_score, tfm_score_texts, tfm_generate,
 * tfm_classify, tfm_fill_mask and tfm_embed put their lines into batches, and each device works on batches of its
 * own, in a thread of its own. All other calls run on the first of the devices.
 *
 * Devices are listed with commas between them, in the form of device.h: `gpu,cpu`, `0,1`, `nvidia,intel`. A word that
 * fits several devices stands for the best one that no word before it has taken, so `gpu,gpu` is the two best GPUs; a
 * word for which none is left is an error. `all` is every device that computes right, the best first, but for emulators
 * and devices without a compiler, which are taken by name alone. What is part of the name of a device, with its comma,
 * still stands for that device.
 *
 * Work is handed out by how fast each device has been: a device that is done gets half of its share of what is left, at
 * most a full batch. So a slow device gets few lines at a time, and none that another one would be done with sooner. A
 * device of unknown speed begins with a few lines, and the call waits for them. Results come in the order of the lines.
 * The model keeps the speed of each device for its next call.
 *
 * A fleet may have several contexts on one device, as `workers` asks: a small model keeps a CPU busier that way. Where
 * all contexts are on one device and run the same kernels, each takes the next full batch. The batches are those that
 * one context would make then, and so are all results, to the bit, but where memory gives out and a batch is halved.
 *
 * What the result is: each line gets what one of the devices gives for it, and that does not depend on the lines that
 * are in its batch but for rounding. Devices round differently, as batches of different sizes do on one device. So
 * texts are those of one device, except where two of them are equally likely but for rounding; scores and vectors are
 * the same but for rounding; and what is drawn by tfm_generate, whose random numbers are those of the prompt, is the
 * same but where rounding moves the border between two tokens.
 *
 * A device that fails is left out from then on, by all models of the fleet: the log has a warning, what it worked on
 * goes to the others, and the call goes on. One that had no room for a single line, which others may have taken and may
 * give back, is left out for the rest of the call and for the next one, and then tried again; where it has no room
 * again, for the next two, four and so on, at most 64. When the last one fails, the call does, as it would with that
 * device alone.
 *
 * Training: a trainer of a model on several devices trains on all of them (train.h).
 *
 * Callbacks come on the thread that made the call, as ever, but for on_build and the log's, which come on the devices'
 * threads, one at a time. should_continue is called every hundredth of a second, whatever steps are made meanwhile.
 * While a call of tfm_generate has on_token or on_text, one device works at a time. The seconds in tfm_generate_stats
 * are those of all devices together. */
#ifndef TFM_FLEET_H
#define TFM_FLEET_H

#include "embed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Contexts that work together. One thread at a time may use a fleet with the models on it. */
typedef struct tfm_fleet tfm_fleet;

typedef struct tfm_fleet_options {
    /* The devices, as above; one device alone is a fleet too. NULL means TFM_DEVICE or else the best device. */
    const char *devices;
    /* Is called before each program that is built from source, by one thread at a time. May be NULL. */
    tfm_build_fn on_build;
    /* The `user` pointer of on_build. */
    void *on_build_user;
    /* How many contexts there are on each device, which work on batches of their own at the same time: what one of them
     * leaves idle while the host has something to do serves another. 1 to 16; they share the parameters. 0 lets the
     * library choose: 1, or 2 where there is one device, a CPU, once a small model has much to do. */
    int workers;
    uint64_t reserved[7]; /* Must be 0: room for later fields. */
} tfm_fleet_options;

/* Opens `workers` contexts on each device. A device whose driver fails at that is left out with a warning, unless all
 * do. `options` may be NULL. On failure *out is NULL: TFM_ERROR_DEVICE if a word of the list fits no device, or none
 * that is not taken already. A device whose driver fails while devices are listed counts as none. */
TFM_API tfm_status tfm_fleet_open(tfm_fleet **out, const tfm_fleet_options *options);

/* Makes a fleet of contexts that are there, such as several on one device or those of tfm_context_wrap. It becomes one
 * more owner of each. There is at least one, and none may be given twice. The on_build that a context was opened with
 * is called on the threads of the fleet too, and those of several contexts at the same time. */
TFM_API tfm_status tfm_fleet_new(tfm_fleet **out, tfm_context *const *contexts, size_t count);

/* Gives up the caller's hold on the fleet and sets the pointer to NULL. Models on it keep what they need. Does nothing
 * for NULL. The call counts as a use of the contexts. */
TFM_API void tfm_fleet_free(tfm_fleet **fleet);

/* One context of a fleet, on one of its devices. */
typedef struct tfm_fleet_member {
    tfm_context *context; /* Belongs to the fleet and ends with it. NULL while it is not open. */
    bool dropped;         /* It has failed and is left out, for now at least. */
    const char *reason;   /* The sentence of that failure, or "". */
    uint64_t lines;       /* The lines (or sentences, or windows of long texts) that it is done with so far. */
    double seconds;       /* The time that these took, without the building of kernels. */
} tfm_fleet_member;

/* How many contexts a fleet has, with those that have failed: with several workers, so many times its devices. 0 for
 * NULL. */
TFM_API size_t tfm_fleet_count(const tfm_fleet *fleet);
/* A context of the fleet, counted from 0: one for each device in the order of the list, then with several workers one
 * for each device again, and so on. The struct belongs to the fleet and is brought up to date by its calls. NULL after
 * the last, and for NULL. */
TFM_API const tfm_fleet_member *tfm_fleet_get_member(const tfm_fleet *fleet, size_t index);

/* How many workers are worth having on the device of a model: 2 for a model of up to 32 million parameters on a CPU of
 * several cores which runs the kernels for CPUs and does not measure their times, else 1. Returns 1 for NULL. */
TFM_API int tfm_model_workers(const tfm_model *model);

/* Does what tfm_model_open does on each device of the fleet. The model keeps what it needs of the fleet alive. On a
 * fleet of one device it is what tfm_model_open gives. A device that has no room for it, or fails otherwise, is left
 * out with a warning, unless it is the last. */
TFM_API tfm_status tfm_fleet_open_model(tfm_model **out, tfm_fleet *fleet, const char *dir,
                                        const tfm_model_options *options);
/* Does what tfm_model_new does, on each device of the fleet, in the same way. */
TFM_API tfm_status tfm_fleet_new_model(tfm_model **out, tfm_fleet *fleet, const tfm_model_shape *shape);
/* Does the same with tfm_embedder_open. */
TFM_API tfm_status tfm_fleet_open_embedder(tfm_embedder **out, tfm_fleet *fleet, const char *dir,
                                           const tfm_embedder_options *options);

#ifdef __cplusplus
}
#endif
#endif
