/* Kernel packs: precompiled programs for devices without a compiler, such as FPGAs. The vendor's offline compiler
 * builds the programs, and a pack is one file with all of them.
 *
 *     tfm_kernels_begin("folder", NULL);
 *     if (tfm_context_open(&ctx, NULL) == TFM_OK)
 *         printf("run the workload here\n");
 *     tfm_context_free(&ctx);                               // collects the programs that the context requested
 *     tfm_kernels_end(NULL);                                // writes folder/NAME.cl for each, and a manifest
 *     printf("compile each NAME.cl to NAME.bin or NAME.aocx\n");
 *     tfm_kernels_pack(NULL, "file.pack", "folder", NULL);
 *
 * If the environment variable TFM_KERNELS names a pack, contexts load all programs from it and compile nothing, even on
 * devices with a compiler. A pack is for one device, driver and version of tfm; a context on another one does not open
 * (TFM_ERROR_FORMAT). A call that needs a program missing from the pack fails (TFM_ERROR_UNSUPPORTED) and names it.
 *
 * The set of programs depends on the model, options and batch shapes, so it is recorded by running: programs that never
 * ran are missing. The command `tfm kernels` uses this header. */
#ifndef TFM_KERNELS_H
#define TFM_KERNELS_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The result of tfm_kernels_end and tfm_kernels_pack. */
typedef struct tfm_kernels_report {
    int programs;   /* Programs in the folder's manifest, or in the pack. */
    int added;      /* tfm_kernels_end: programs new in the folder. */
    int built;      /* tfm_kernels_pack: programs without a binary in the folder, built by the device. */
    uint64_t bytes; /* tfm_kernels_pack: the size of the pack. */
} tfm_kernels_report;

/* Starts recording: contexts opened in this process from now on hand in their programs when their last owner frees
 * them, and tfm_kernels_end writes them into the folder `dir`. These contexts use only the library's GEMM kernels, not
 * CLBlast, which builds its own programs.
 *
 * `device` names the target device, in the form of device.h: contexts then run the kernels suited to it, on whichever
 * device they are opened, which must have a compiler. NULL means the device of the contexts, which must all be on the
 * same one: a context on another does not open (TFM_ERROR_INPUT).
 *
 * TFM_ERROR_ARGUMENT if recording is already active; TFM_ERROR_IO if the folder cannot be
 * created or written to, which is checked now, although the folder is created later. While recording, a context on a
 * device without a compiler does not open (TFM_ERROR_UNSUPPORTED), nor does any if TFM_KERNELS names a pack
 * (TFM_ERROR_ARGUMENT). */
TFM_API tfm_status tfm_kernels_begin(const char *dir, const char *device);
/* Ends recording, even if it fails, and writes NAME.cl for each program and manifest.json into the folder, which is
 * created if needed. The .cl files have no includes and need no -D. Programs of earlier recordings for the same device,
 * driver and version of tfm stay; a folder of another is TFM_ERROR_FORMAT. TFM_ERROR_ARGUMENT without
 * tfm_kernels_begin; TFM_ERROR_INPUT if no context has handed in a program. `report` may be NULL. */
TFM_API tfm_status tfm_kernels_end(tfm_kernels_report *report);

/* Writes a pack to the file `out`: for each program of the manifest in the folder `dir`, the binary next to NAME.cl
 * with one of the manifest's `binary_suffixes`. Missing binaries are built by the device, named as in device.h, if it
 * is the manifest's and has a compiler; otherwise TFM_ERROR_INPUT, and the message names the first and counts them. No
 * device is looked up if all binaries exist. TFM_ERROR_DEVICE if no device matches, TFM_ERROR_BUILD if a program does
 * not build, TFM_ERROR_FORMAT if the folder was written by another version of tfm or its manifest is damaged. `device`
 * and `report` may be NULL. */
TFM_API tfm_status tfm_kernels_pack(tfm_kernels_report *report, const char *out, const char *dir, const char *device);

#ifdef __cplusplus
}
#endif
#endif
