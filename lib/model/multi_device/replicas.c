/* The replicas of a model on the devices of a fleet: which of them are in use, and which devices are left out after a
 * failure, for good or for some calls. */
#include <stdio.h>
#include "model/multi_device/fleet.h"

/* A model of no more parameters gets a second worker by itself. */
#define SMALL_MODEL 32000000
/* A device that had no room rests for one call, then for twice as many each time, and never for more. */
#define LONGEST_REST 64

bool tfm__mates_has(const struct tfm__mates *mates, size_t who) {
    return mates->models[who] && !mates->fleet->members[who].dropped;
}

size_t tfm__mates_count(const struct tfm__mates *mates) {
    size_t count = 0;
    for (size_t i = 0; i < mates->fleet->count; i++)
        count += tfm__mates_has(mates, i);
    return count;
}

bool tfm__fleet_may_drop(tfm_status status) {
    return status == TFM_ERROR_DEVICE || status == TFM_ERROR_MEMORY || status == TFM_ERROR_BUILD ||
           status == TFM_ERROR_NUMERIC || status == TFM_ERROR_AGAIN;
}

void tfm__fleet_drop(tfm_fleet *fleet, size_t who, const char *sentence) {
    tfm_fleet_member *m = &fleet->members[who];
    char *reason = sentence[0] ? tfm__strdup(sentence) : NULL;
    m->dropped = true;
    m->reason = reason ? reason : "";
    tfm_context_clear_error(m->context); /* so that models are freed, and calls for the host alone go on */
}

/* Others may have taken the room, and give it back. */
void tfm__fleet_drop_from_call(tfm_fleet *fleet, size_t who, tfm_status status) {
    struct tfm__rest *rest = &fleet->rests[who];
    if (status == TFM_ERROR_MEMORY) {
        rest->last = rest->last == 0 ? 1 : rest->last < LONGEST_REST ? 2 * rest->last : LONGEST_REST;
        rest->calls = rest->last + 1; /* calls count it down as they begin, and the one that comes to 0 has it again */
    }
    tfm__fleet_drop(fleet, who, tfm_error_message());
}

void tfm__fleet_say_dropped(const tfm_fleet *fleet, size_t who) {
    const tfm_fleet_member *m = &fleet->members[who];
    char until[64] = "from now on";
    if (fleet->rests[who].calls > 0)
        snprintf(until, sizeof(until), "of this call and %u more", fleet->rests[who].last);
    tfm__log(TFM_LOG_WARNING, "device %zu of the fleet, %s, is left out %s, and others do its work: %s", who + 1,
             m->context ? tfm_context_device(m->context)->name : "which cannot be opened", until, m->reason);
}

void tfm__fleet_wake(tfm_fleet *fleet) {
    for (size_t i = 0; i < fleet->count; i++) {
        tfm_fleet_member *m = &fleet->members[i];
        if (fleet->rests[i].calls == 0 || --fleet->rests[i].calls > 0)
            continue;
        tfm__log(TFM_LOG_INFO, "device %zu of the fleet is tried again", i + 1);
        if (m->reason[0])
            free((char *)(uintptr_t)m->reason);
        m->reason = "";
        m->dropped = false;
    }
}

void tfm__fleet_worked(tfm_fleet *fleet, size_t who) {
    fleet->rests[who].last = 0;
}

/* Small models leave a CPU idle for much of the time: each launch is short, and what the host does between two of them
 * weighs more. Of a large one a second worker would take memory for nothing. */
int tfm_model_workers(const tfm_model *model) {
    const tfm_device_info *device = model ? tfm_context_device(model->ctx) : NULL;
    return device && device->type == TFM_DEVICE_CPU && device->compute_units > 1 && device->index >= 0 &&
                   tfm__context_tuning(model->ctx)->class == TFM__CLASS_CPU && !tfm__context_is_profiling(model->ctx) &&
                   model->info.parameters <= SMALL_MODEL
               ? 2
               : 1;
}
