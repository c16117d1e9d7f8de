/* State of the fault layer: which call fails, which limits the device reports, live objects. Environment variables:
 *
 * - TFM_FAULT_CALL=n: the n-th counted OpenCL call of the process fails, from 1; 0 only counts.
 *
 * - TFM_FAULT_NAME=clX: count only calls of this function.
 *
 * - TFM_FAULT_DEVICE=part: count and report only calls on devices with this in their name (^prefix: at its begin) and
 * on their objects. Calls on a platform belong to no device.
 *
 * - TFM_FAULT_DEAD=1: every later call fails too, like after the loss of a device.
 *
 * - TFM_FAULT_CODE=c: error code, instead of the function's usual one.
 *
 * - TFM_FAULT_LIE=a=1,b=2: reported device properties; see layer.c.
 *
 * - TFM_FAULT_REPORT=path: file written at exit, one "name value" per line: the number of calls, the function that
 *   failed ("none"), releases of dead objects, live references of each type, calls of each function.
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

/* The error code of the failing call: TFM_FAULT_CODE, else `usual`. */
int ledger_code(int usual);

/* Counts a call on an object or a device; returns whether it must fail. `on` is NULL for calls without a device. */
bool ledger_due(const char *call, const void *on);

/* Records a device's name, before the first counted call on it. */
void ledger_name(const void *device, const char *name);

/* The value that the device reports for `name`; false: the real one. */
bool ledger_lie(const char *name, uint64_t *value);

/* One more, one fewer reference to an object; it belongs to the same device as `on`. */
void ledger_add(const void *object, enum ledger_kind kind, const void *on);
void ledger_drop(const void *object, enum ledger_kind kind);

#endif
