/* What `tfm kernels` runs, so that programs are asked for. Each returns CLI_OK; or CLI_FAILED, after saying why. */
#ifndef TFM_KERNELS_WORKLOAD_H
#define TFM_KERNELS_WORKLOAD_H

#include "cli/cli.h"

/* Translates, or goes on with prompts, of random ids: greedy, by beams, and in language models drawn. */
int workload_generate(tfm_model *model);
/* The same with the lines of a file, once greedy and once with a beam. */
int workload_lines(tfm_model *model, const char *path);
/* Some updates, with dropout and without, weight decay and clipping, and the validation of their batches. */
int workload_train(tfm_model *model);

#endif
