/* tfm quantize --check: what quantization changes. */
#ifndef TFM_QUANTIZE_CHECK_H
#define TFM_QUANTIZE_CHECK_H

#include "tfm/model.h"

/* Compares the model `quantized`, opened with `precision` and `activations`, with the weights of `original` in fp32 on
 * the lines of a text file, and prints: for a decoder-only model the perplexity of both, the mean KL divergence and how
 * often the most likely token is equal; for an encoder-decoder BLEU of its translations against the original's; for an
 * encoder the cosine similarity of embeddings. Returns CLI_OK, or CLI_FAILED after a message. */
int quantize_check(const char *original, const char *quantized, const tfm_model_options *how, const char *text_file,
                   const char *device);

#endif
