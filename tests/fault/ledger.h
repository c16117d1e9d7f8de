/* What the fault layer knows: which call is to fail, what the device is to lie about, and which objects are
 * alive. The environment says, each on a line of its own here:
 *
 * - TFM_FAULT_CALL=n: the n-th OpenCL call of the process fails, counted from 1; 0 only counts.
 *
 * - TFM_FAULT_NAME=clX: only calls of this function are counted for that.
 *
 * - TFM_FAULT_DEVICE=part: only calls on devices that have this in their name, or whose name begins with what follows a
 * ^, and on what is made for them, are counted for that and reported; those on a platform are on none of its devices.
 *
 * - TFM_FAULT_DEAD=1: every call after it fails too, as of a device that went away.
 *
 * - TFM_FAULT_CODE=c: with this code, not with the usual one of the function.
 *
 * - TFM_FAULT_LIE=a=1,b=2: what the device says of itself; see layer.c.
 *
 * - TFM_FAULT_REPORT=path: a text at the process's end, one "name value" per line: the number of calls, the function
 *   that failed ("none"), releases of what is not alive, the live references of each type, the calls of each function.
 */
#ifndef TFM_TESTS_LEDGER_H
#define TFM_TESTS_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

enum ledger_kind {
    LEDGER_CONTEXT,
    LEDGER_QUEUE,
    LEDGER_PROGRAM,
    LEDGER_KERNEL,
    LEDGER_MEM,
    LEDGER_EVENT,
    LEDGER_KINDS
};

/* Reads the environment. */
void ledger_open(void);

/* The code that a failing call is to give: TFM_FAULT_CODE, else `usual`. */
int ledger_code(int usual);

/* Counts a call on an object, or a device; whether it is to fail. `on` is NULL for what is on none. */
bool ledger_due(const char *call, const void *on);

/* A device's name, before the first call on it that counts. */
void ledger_name(const void *device, const char *name);

/* The value that the device is to give for `name`; false if it is to tell the truth. */
bool ledger_lie(const char *name, uint64_t *value);

/* One more, one fewer reference to an object, which is on the device that `on` is on. */
void ledger_add(const void *object, enum ledger_kind kind, const void *on);
void ledger_drop(const void *object, enum ledger_kind kind);

#endif
