/* The files of a directory as Marian and Bergamot keep models: which is which. */
#ifndef TFM_LIB_MARIAN_FOLDER_H
#define TFM_LIB_MARIAN_FOLDER_H

#include <jansson.h>
#include "base/base.h"

/* Paths, or NULL for what there is not. It starts as {0}. */
typedef struct tfm__marian_folder {
    char *model;           /* .npz, or .bin in Marian's binary format; NULL: the directory is none of these */
    char *source, *target; /* the vocabularies; mostly one file for both */
    char *shortlist;
    char *options_path; /* the YAML file that says how to translate: decoder.yml, config.yml, ... */
    json_t *options;    /* what it says; NULL without such a file */
} tfm__marian_folder;

/* Looks at a directory that has no config.json. What a YAML file with `models` names is taken, always out of this very
 * folder; without one, files are known by their names, as these models are published: model*.npz or model*.bin,
 * vocab*.spm or srcvocab*.spm and trgvocab*.spm, lex*.bin. A directory that is none of Marian's is TFM_OK with nothing;
 * one of which it is not clear which model is meant is TFM_ERROR_FORMAT. */
tfm_status tfm__marian_folder_find(tfm__marian_folder *out, const char *dir);
void tfm__marian_folder_free(tfm__marian_folder *files);

#endif
