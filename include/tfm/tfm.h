/* tfm: run Transformers on any OpenCL device. The umbrella header; opencl.h is apart, for those who own a cl_context.
 *
 *     tfm_context *ctx = NULL;
 *     tfm_model *model = NULL;
 *     if (tfm_context_open(&ctx, NULL) != TFM_OK || tfm_model_open(&model, ctx, "opus-mt-de-en", NULL) != TFM_OK ||
 *         tfm_translate(model, (const char *[]){"Guten Tag."}, 1, NULL, print, NULL) != TFM_OK)
 *         fprintf(stderr, "%s\n", tfm_error_message());
 *     tfm_model_free(&model);
 *     tfm_context_free(&ctx); */
#ifndef TFM_H
#define TFM_H

#include "base.h"
#include "device.h"
#include "tensor.h"
#include "ops.h"
#include "tape.h"
#include "nn.h"
#include "text.h"
#include "metrics.h"
#include "model.h"
#include "train.h"
#include "data.h"
#include "selftest.h"

#endif
