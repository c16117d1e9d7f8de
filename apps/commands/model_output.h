/* What the commands that write a changed model share. */
#ifndef TFM_MODEL_OUTPUT_H
#define TFM_MODEL_OUTPUT_H

#include <stdbool.h>

bool model_output_is_gguf(const char *path);
/* Refuses to overwrite another model or a training run; the library refuses `from` itself. */
int model_output_check(const char *dir, const char *from);
/* Prints the size of the written model. `dtype`: of the weights; NULL: of the largest tensor. */
int model_output_report(const char *from, const char *to, const char *dtype);

#endif
