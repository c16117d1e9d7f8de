/* What the files of tfm translate share. */
#ifndef TFM_TRANSLATE_COMMAND_H
#define TFM_TRANSLATE_COMMAND_H

#include "documents/document.h"

typedef struct translate_job {
    const char *model_dir, *input, *output, *prefix_file, *device;
    int workers;
    int precision;
    tfm_model_options how; /* to open the model */
    bool scores, stats, json, no_keep;
    const cli_strings *keep; /* patterns */
    tfm_placeholders *placeholders;
    int split_checks; /* lines that were looked at for the hint; MAX_SPLIT_CHECKS once it was given */
    tfm_search_options search;
    tfm_text_options text;
    int penalty;
    tfm_fleet *fleet;
    tfm_model *model;
    int format; /* of FORMATS */
    document document;
    cli_lines in, prefixes;
    cli_output out;
    size_t bad;
    size_t finished;                                /* lines that are written */
    double load_seconds, load_build, build_seconds; /* building kernels while the model was loaded, and in all */
    double start;          /* when the first batch was done, in which kernels may be built; 0 before */
    double start_part;     /* how much of the input was done then, from 0 to 1, */
    uint64_t start_done;   /* and how many sentences */
    uint64_t bytes_before; /* the chunk at hand */
    uint64_t bytes;        /* of the whole input; 0 where nobody knows */
    bool told;             /* why it ended has been said */
    tfm_search_stats done;
} translate_job;

/* Has the library tell this job of rejected lines, counts and progress. */
void translate_set_callbacks(translate_job *job);
/* Translates all lines of the input (translate_lines.c). */
int translate_lines(translate_job *job);

#endif
