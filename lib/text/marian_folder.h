/* Identifies the files of a Marian or Bergamot model directory. */
#ifndef TFM_LIB_MARIAN_FOLDER_H
#define TFM_LIB_MARIAN_FOLDER_H

#include <jansson.h>
#include "base/base.h"

/* Paths, NULL if absent. Initially {0}. */
typedef struct tfm__marian_folder {
    char *model;           /* .npz, or .bin in Marian's binary format; NULL: not a Marian directory */
    char *source, *target; /* the vocabularies; usually one file for both */
    char *shortlist;
    char *options_path; /* the YAML file with translation options: decoder.yml, config.yml, ... */
    json_t *options;    /* its content; NULL without such a file */
} tfm__marian_folder;

/* Inspects a directory without config.json. Uses the files that a YAML file with `models` names, always in this folder;
 * else the names of published models: model*.npz or model*.bin, vocab*.spm or srcvocab*.spm and trgvocab*.spm,
 * lex*.bin. Other directories are TFM_OK with nothing; several candidate models are TFM_ERROR_FORMAT. */
tfm_status tfm__marian_folder_find(tfm__marian_folder *out, const char *dir);
void tfm__marian_folder_free(tfm__marian_folder *files);

#endif
