#include "ledger.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A power of two, far above the number of live objects of one run. */
#define SLOTS 65536

static const char *const NAMES[LEDGER_KINDS] = {"cl_context", "cl_command_queue", "cl_program",
                                                "cl_kernel",  "cl_mem",           "cl_event"};

/* An object keeps its slot after its last release, because drivers reuse addresses. Devices have slots too, without a
 * reference count. */
static struct {
    const void *object;
    enum ledger_kind kind;
    bool meant; /* belongs to a device named by TFM_FAULT_DEVICE */
    long references;
} slots[SLOTS];

/* Calls of each function. Names are literals, compared by address. */
static struct {
    const char *name;
    unsigned long calls;
} functions[128];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long calls, failing, strays;
static bool dead;
static int code;
static const char *failed;
static char *lies, *only, *device, *report;

static char *copy_of(const char *name) {
    const char *text = getenv(name);
    return text && *text ? strdup(text) : NULL;
}

void ledger_open(void) {
    const char *number = getenv("TFM_FAULT_CALL"), *after = getenv("TFM_FAULT_DEAD");
    const char *as = getenv("TFM_FAULT_CODE");
    code = as ? atoi(as) : 0;
    failing = number ? strtoul(number, NULL, 10) : 0;
    dead = after && strcmp(after, "1") == 0;
    lies = copy_of("TFM_FAULT_LIE");
    only = copy_of("TFM_FAULT_NAME");
    device = copy_of("TFM_FAULT_DEVICE");
    report = copy_of("TFM_FAULT_REPORT");
}

int ledger_code(int usual) {
    return code ? code : usual;
}

/* The object's slot, or the empty one for it; SLOTS when the table is full. */
static size_t slot_of(const void *object) {
    size_t at = (size_t)(((uintptr_t)object >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48) % SLOTS;
    for (size_t probes = 0; probes < SLOTS; probes++, at = (at + 1) % SLOTS)
        if (!slots[at].object || slots[at].object == object)
            return at;
    return SLOTS;
}

/* Whether a call on this object counts. */
static bool is_meant(const void *on) {
    const size_t at = on ? slot_of(on) : SLOTS;
    return !device || (at < SLOTS && slots[at].object && slots[at].meant);
}

bool ledger_due(const char *call, const void *on) {
    pthread_mutex_lock(&lock);
    if (!is_meant(on)) {
        pthread_mutex_unlock(&lock);
        return false;
    }
    size_t i = 0;
    while (functions[i].name && functions[i].name != call)
        i++;
    functions[i].name = call;
    functions[i].calls++;
    calls++;
    unsigned long at = !only ? calls : strcmp(call, only) == 0 ? functions[i].calls : 0;
    bool due = failing && (at == failing || (dead && (at > failing || failed)));
    if (due && !failed)
        failed = call;
    pthread_mutex_unlock(&lock);
    return due;
}

bool ledger_lie(const char *name, uint64_t *value) {
    size_t length = strlen(name);
    for (const char *at = lies; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            *value = strtoull(at + length + 1, NULL, 10);
            return true;
        }
    }
    return false;
}

/* Assigns a slot to an object. */
static size_t take_slot(const void *object, bool meant) {
    const size_t at = slot_of(object);
    if (at == SLOTS)
        abort(); /* enlarge the table */
    slots[at].object = object;
    slots[at].meant = meant;
    return at;
}

void ledger_name(const void *id, const char *name) {
    pthread_mutex_lock(&lock);
    while (*name == ' ')
        name++;
    take_slot(id, device && (device[0] == '^' ? strncmp(name, device + 1, strlen(device + 1)) == 0
                                              : strstr(name, device) != NULL));
    pthread_mutex_unlock(&lock);
}

void ledger_add(const void *object, enum ledger_kind kind, const void *on) {
    pthread_mutex_lock(&lock);
    const size_t at = take_slot(object, is_meant(on));
    slots[at].kind = kind;
    slots[at].references++;
    pthread_mutex_unlock(&lock);
}

void ledger_drop(const void *object, enum ledger_kind kind) {
    pthread_mutex_lock(&lock);
    size_t at = slot_of(object);
    if (at < SLOTS && slots[at].object && slots[at].kind == kind && slots[at].references > 0)
        slots[at].references--;
    else
        strays++;
    pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) static void write_report(void) {
    FILE *file = report ? fopen(report, "w") : NULL;
    if (!file)
        return;
    long live[LEDGER_KINDS] = {0};
    for (size_t i = 0; i < SLOTS; i++)
        if (slots[i].object)
            live[slots[i].kind] += slots[i].references;
    fprintf(file, "calls %lu\nfailed %s\nstrays %lu\n", calls, failed ? failed : "none", strays);
    for (int i = 0; i < LEDGER_KINDS; i++)
        fprintf(file, "%s %ld\n", NAMES[i], live[i]);
    for (size_t i = 0; functions[i].name; i++)
        fprintf(file, "%s %lu\n", functions[i].name, functions[i].calls);
    fclose(file);
}
