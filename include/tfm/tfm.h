/* tfm runs and trains Transformers on any OpenCL device. This header includes all others but opencl.h, which is for
 * programs that have a cl_context of their own.
 *
 *     static bool print(void *user, size_t line, int rank, const char *text, double score) {
 *         return puts(text) >= 0;
 *     }
 *
 *     tfm_context *ctx = NULL;
 *     tfm_model *model = NULL;
 *     if (tfm_context_open(&ctx, NULL) != TFM_OK || tfm_model_open(&model, ctx, "opus-mt-de-en", NULL) != TFM_OK ||
 *         tfm_translate(model, (const char *[]){"Guten Tag."}, 1, NULL, print, NULL) != TFM_OK)
 *         fprintf(stderr, "%s\n", tfm_error_message());
 *     tfm_model_free(&model);
 *     tfm_context_free(&ctx);
 *
 * What threads may do:
 *
 *     what                                    | who may use it
 *     ----------------------------------------|----------------------------------------------------------------
 *     tfm_context, and all that is made on it | One thread at a time: a program with several takes a lock. Several
 *     (tensors, models, embedders, trainers,  | contexts run side by side, on one device too.
 *     parameters)                             |
 *     tfm_fleet, and the models on it         | One thread at a time: these are all of its contexts. The fleet's own
 *                                             | threads use them while a call runs.
 *     tfm_tokenizer                           | Any number of threads at once, which may also open others.
 *     tfm_data                                | One thread at a time. Its own thread reads ahead meanwhile; those
 *                                             | of readers with subword_alpha take turns, because SentencePiece
 *                                             | has one seed for the whole process.
 *     tfm_metrics                             | One thread at a time.
 *     tfm_devices_list, tfm_version,          | Any number of threads at once.
 *     tfm_status_name, tfm_variant_name,      |
 *     tfm_dtype_name, tfm_dtype_size,         |
 *     tfm_tensor_count, tfm_gemm_provider,    |
 *     tfm_trainer_learning_rate, tfm_trainer_paper,    |
 *     tfm_batches_split,                         |
 *     tfm_model_read_info, tfm_text_check,    |
 *     tfm_text_sentences, tfm_tokenizer_train |
 *     (also _pairs, _texts),                  |
 *     tfm_embedder_read_info,                 |
 *     tfm_model_quantize, tfm_kernels_*       |
 *     tfm_error_message                       | Any thread: each has a message of its own.
 *     tfm_log_set                             | Once, before other threads use the library. Any thread that uses
 *                                             | the library may then call the callback that it sets.
 *     all other callbacks                     | The library calls them on the thread that made the call, before
 *                                             | the call returns. A fleet's own threads call its on_build as well.
 *     tfm_context_retain                      | Any thread, at any time.
 *     _free of what is made on a context      | Counts as a use of that context, because it gives memory back to it:
 *     (tensors, models, embedders, trainers,  | one thread at a time, with every other use of the context.
 *     parameters)                             |
 *     tfm_context_free                        | Any thread for every owner but the last. The last owner's call frees
 *                                             | the context, and nobody may use it meanwhile.
 *     every other _free                       | Any thread, if no other uses what is freed. */
#ifndef TFM_H
#define TFM_H

#include "base.h"
#include "device.h"
#include "tensor.h"
#include "types.h"
#include "ops.h"
#include "tape.h"
#include "nn.h"
#include "text.h"
#include "metrics.h"
#include "model.h"
#include "embed.h"
#include "fleet.h"
#include "train.h"
#include "data.h"
#include "selftest.h"
#include "tune.h"
#include "kernels.h"

#endif
