/* Fast reading of the tokenizer.json of a byte-pair model. */
#ifndef TFM_LIB_HF_SCAN_H
#define TFM_LIB_HF_SCAN_H

#include "text/subword_model.h"

/* Reads a file whose `model` has a vocabulary before its merges: *model, and the other sections as *root, for
 * json_decref. False, without a message, for any other file and after any failure: read it with tfm__json_load then. */
bool tfm__hf_scan(json_t **root, tfm__subword_model *model, const char *path);

#endif
