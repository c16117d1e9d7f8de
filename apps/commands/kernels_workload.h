/* The workload of `tfm kernels`, which builds programs. Each function returns CLI_OK; or CLI_FAILED, after a message.
 */
#ifndef TFM_KERNELS_WORKLOAD_H
#define TFM_KERNELS_WORKLOAD_H

#include "cli/cli.h"

/* Translates or generates text from random ids: greedy, beam search, and for decoder-only models sampling. */
int workload_generate(tfm_model *model);
/* The same with the lines of a file, once greedy and once with a beam. */
int workload_lines(tfm_model *model, const char *path);
/* Some updates, with dropout and without, weight decay and clipping, and the validation of their batches. */
int workload_train(tfm_model *model);

#endif
