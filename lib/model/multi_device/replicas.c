/* Replicas of a model: the ones in use, and exclusion of failed devices, for good or for some calls. */
#include <stdio.h>
#include "model/multi_device/fleet.h"

/* Models up to this number of parameters get a second worker by default. */
#define SMALL_MODEL 32000000
/* Maximum backoff in calls. It starts at 1 and doubles. */
#define MAX_BACKOFF 64

bool tfm__replicas_has(const struct tfm__replicas *replicas, size_t member) {
    return replicas->models[member] && !replicas->fleet->members[member].dropped;
}

size_t tfm__replicas_count(const struct tfm__replicas *replicas) {
    size_t count = 0;
    for (size_t i = 0; i < replicas->fleet->count; i++)
        count += tfm__replicas_has(replicas, i);
    return count;
}

bool tfm__fleet_may_drop(tfm_status status) {
    return status == TFM_ERROR_DEVICE || status == TFM_ERROR_MEMORY || status == TFM_ERROR_BUILD ||
           status == TFM_ERROR_NUMERIC || status == TFM_ERROR_AGAIN;
}

void tfm__fleet_drop(tfm_fleet *fleet, size_t member, const char *sentence) {
    tfm_fleet_member *m = &fleet->members[member];
    char *reason = sentence[0] ? tfm__strdup(sentence) : NULL;
    m->dropped = true;
    m->reason = reason ? reason : "";
    tfm_context_clear_error(m->context); /* so that models can be freed, and host-only calls continue */
}

/* Others may hold the memory temporarily. */
void tfm__fleet_drop_from_call(tfm_fleet *fleet, size_t member, tfm_status status) {
    struct tfm__backoff *backoff = &fleet->backoffs[member];
    if (status == TFM_ERROR_MEMORY) {
        backoff->last = backoff->last == 0 ? 1 : backoff->last < MAX_BACKOFF ? 2 * backoff->last : MAX_BACKOFF;
        backoff->calls = backoff->last + 1; /* each call decrements it at its start; at 0 the device is used again */
    }
    tfm__fleet_drop(fleet, member, tfm_error_message());
}

void tfm__fleet_log_dropped(const tfm_fleet *fleet, size_t member) {
    const tfm_fleet_member *m = &fleet->members[member];
    char until[64] = "from now on";
    if (fleet->backoffs[member].calls > 0)
        snprintf(until, sizeof(until), "of this call and %u more", fleet->backoffs[member].last);
    tfm__log(TFM_LOG_WARNING, "device %zu of the fleet, %s, is excluded %s, and the others do its work: %s", member + 1,
             m->context ? tfm_context_device(m->context)->name : "which cannot be opened", until, m->reason);
}

void tfm__fleet_count_down_backoffs(tfm_fleet *fleet) {
    for (size_t i = 0; i < fleet->count; i++) {
        tfm_fleet_member *m = &fleet->members[i];
        if (fleet->backoffs[i].calls == 0 || --fleet->backoffs[i].calls > 0)
            continue;
        tfm__log(TFM_LOG_INFO, "device %zu of the fleet is tried again", i + 1);
        if (m->reason[0])
            free((char *)(uintptr_t)m->reason);
        m->reason = "";
        m->dropped = false;
    }
}

void tfm__fleet_reset_backoff(tfm_fleet *fleet, size_t member) {
    fleet->backoffs[member].last = 0;
}

/* Small models leave a CPU partly idle: launches are short, so host work between them weighs more. For a large model a
 * second worker only costs memory. */
int tfm_model_workers(const tfm_model *model) {
    const tfm_device_info *device = model ? tfm_context_device(model->ctx) : NULL;
    return device && device->type == TFM_DEVICE_CPU && device->compute_units > 1 && device->index >= 0 &&
                   tfm__context_tuning(model->ctx)->class == TFM__CLASS_CPU && !tfm__context_is_profiling(model->ctx) &&
                   model->info.parameters <= SMALL_MODEL
               ? 2
               : 1;
}
