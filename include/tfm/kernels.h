/* Kernels for devices without a compiler, such as FPGAs: their programs are compiled elsewhere, by the vendor's offline
 * compiler, and lie in a pack, which is one file.
 *
 *     tfm_kernels_begin("folder", NULL);
 *     if (tfm_context_open(&ctx, NULL) == TFM_OK)
 *         printf("run on it what is to run on the device\n");
 *     tfm_context_free(&ctx);                               // hands in the programs that it has asked for
 *     tfm_kernels_end(NULL);                                // writes folder/NAME.cl for each, and a manifest
 *     printf("compile each NAME.cl to NAME.bin or NAME.aocx\n");
 *     tfm_kernels_pack(NULL, "file.pack", "folder", NULL);
 *
 * If the environment variable TFM_KERNELS names a pack, contexts take all their programs from it, and nothing is
 * compiled, whether the device has a compiler or not. A pack is for one device, driver and version of tfm; a context on
 * another one does not open (TFM_ERROR_FORMAT). A program that the pack lacks fails the call that needs it
 * (TFM_ERROR_UNSUPPORTED), and the message names it.
 *
 * Which programs are needed depends on the model, on options and on the shapes of batches, so they are found by
 * running: what was not run is not there. `tfm kernels` is a program around this header. */
#ifndef TFM_KERNELS_H
#define TFM_KERNELS_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What was written. */
typedef struct tfm_kernels_report {
    int programs;   /* The number of programs in the folder's manifest, or in the pack. */
    int added;      /* tfm_kernels_end: how many of them the folder did not have before. */
    int built;      /* tfm_kernels_pack: how many of them had no binary in the folder and were built by the device. */
    uint64_t bytes; /* tfm_kernels_pack: the size of the pack. */
} tfm_kernels_report;

/* From now on, contexts that are opened in this process hand in the programs that they ask for, each when its last
 * owner frees it, and tfm_kernels_end writes them into the folder `dir`. These contexts multiply matrices with the
 * library's own kernels alone, as CLBlast builds programs of its own. `device` names the device that the programs are
 * for, as at the top of device.h: contexts then run the kernels that suit that device, whatever device they are on,
 * which must have a compiler. NULL means that the contexts' own device is meant, which then must be one: a context on
 * another one than the first does not open (TFM_ERROR_INPUT). TFM_ERROR_ARGUMENT if the process collects already.
 * TFM_ERROR_IO if the folder could not be made or written into, before anything has run; nothing is made of it yet.
 * Meanwhile a context on a device without a compiler does not open (TFM_ERROR_UNSUPPORTED), nor does any while
 * TFM_KERNELS names a pack (TFM_ERROR_ARGUMENT). */
TFM_API tfm_status tfm_kernels_begin(const char *dir, const char *device);
/* Ends that, also if it fails, and writes into the folder `dir`, which is made if it does not exist: NAME.cl for each
 * program, which includes nothing and needs no -D, and manifest.json. A folder that has programs of the same device,
 * driver and version of tfm keeps them; one of another is refused with TFM_ERROR_FORMAT. Without tfm_kernels_begin it
 * is TFM_ERROR_ARGUMENT. TFM_ERROR_INPUT if no context has handed in a program. `report` may be NULL. */
TFM_API tfm_status tfm_kernels_end(tfm_kernels_report *report);

/* Writes a pack to the file `out`: the binary of each program of the manifest in the folder `dir`, which is NAME.cl's
 * neighbour with one of the manifest's `binary_suffixes` in the place of .cl. Those that are not there are built by the
 * device, named as at the top of device.h, if it is the manifest's and has a compiler; else it is TFM_ERROR_INPUT, and
 * the message names the first and counts them. Where all are there, no device is looked for. TFM_ERROR_DEVICE if one is
 * looked for and there is none of that name, TFM_ERROR_BUILD if a program does not build, TFM_ERROR_FORMAT if the
 * folder was written by another version of tfm or its manifest is damaged. `device` and `report` may be NULL. */
TFM_API tfm_status tfm_kernels_pack(tfm_kernels_report *report, const char *out, const char *dir, const char *device);

#ifdef __cplusplus
}
#endif
#endif
