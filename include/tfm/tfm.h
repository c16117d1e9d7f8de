/* tfm runs and trains Transformers on any OpenCL device. This header includes all others but opencl.h, for programs
 * with their own cl_context.
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
 * Thread safety:
 *
 *     object or function                      | rule
 *     ----------------------------------------|----------------------------------------------------------------
 *     tfm_context, and all objects on it      | One thread at a time: programs with several use a lock. Several
 *     (tensors, models, embedders, trainers,  | contexts may run at the same time, also on one device.
 *     parameters)                             |
 *     tfm_fleet, and the models on it         | One thread at a time for all of its contexts. The fleet's own
 *                                             | threads use them during a call.
 *     tfm_tokenizer, tfm_chat, tfm_grammar    | Any number of threads at once, also while others are opened.
 *     tfm_data                                | One thread at a time. Its own thread reads ahead. Readers with
 *                                             | subword_alpha exclude each other, because SentencePiece has one
 *                                             | seed for the whole process.
 *     tfm_metrics                             | One thread at a time.
 *     tfm_devices_list, tfm_version,          | Any number of threads at once.
 *     tfm_status_name, tfm_variant_name,      |
 *     tfm_dtype_name, tfm_dtype_size,         |
 *     tfm_tensor_count, tfm_gemm_provider,    |
 *     tfm_trainer_learning_rate,              |
 *     tfm_trainer_paper, tfm_batches_split,   |
 *     tfm_model_read_info, tfm_text_check,    |
 *     tfm_text_sentences, tfm_tokenizer_train |
 *     (also _pairs, _texts),                  |
 *     tfm_embedder_read_info,                 |
 *     tfm_rerank_read_kind,                   |
 *     tfm_model_quantize, tfm_kernels_*,      |
 *     tfm_hub_*                               |
 *     tfm_error_message                       | Any thread; the message is per thread.
 *     tfm_log_set                             | Once, before other threads use the library. Any thread that uses
 *                                             | the library may call its callback.
 *     all other callbacks                     | Called on the calling thread, before the call returns. A fleet's
 *                                             | threads also call its on_build.
 *     tfm_context_retain                      | Any thread, at any time.
 *     _free of objects on a context           | Counts as a use of that context: one thread at a time, with every
 *     (tensors, models, embedders, trainers,  | other use of the context.
 *     parameters)                             |
 *     tfm_context_free                        | Any thread for every reference except the last. The last call frees
 *                                             | the context; no other thread may use it meanwhile.
 *     every other _free                       | Any thread, if no other uses the object. */
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
#include "chat.h"
#include "grammar.h"
#include "metrics.h"
#include "model.h"
#include "embed.h"
#include "rerank.h"
#include "engine.h"
#include "fleet.h"
#include "hub.h"
#include "train.h"
#include "data.h"
#include "selftest.h"
#include "tune.h"
#include "kernels.h"

#endif
