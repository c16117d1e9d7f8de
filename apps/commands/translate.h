/* What the files of tfm translate share. */
#ifndef TFM_TRANSLATE_COMMAND_H
#define TFM_TRANSLATE_COMMAND_H

#include "cli/adapters.h"
#include "documents/document.h"

typedef struct translate_job {
    const char *model_dir, *input, *output, *prefix_file, *device;
    int workers;
    cli_precisions precision;
    cli_adapters adapters;
    tfm_model_options how; /* to open the model */
    bool scores, stats, json;
    cli_keep_options keep;
    tfm_placeholders *placeholders;
    int split_checks; /* lines checked for the hint; MAX_SPLIT_CHECKS once it was given */
    tfm_search_options search;
    tfm_text_options text;
    int penalty;
    tfm_fleet *fleet;
    tfm_model *model;
    int format; /* of FORMATS */
    document document;
    const char *glossary_file;
    tfm_glossary_term *glossary; /* [text.glossary_count], in `terms` */
    cli_lines in, prefixes, terms;
    cli_output out;
    size_t bad;
    size_t finished;                                /* lines written */
    double load_seconds, load_build, build_seconds; /* building kernels during loading, and in total */
    double start;                                   /* end of the first batch, which may build kernels; 0 before */
    double start_part;                              /* fraction of the input done then, from 0 to 1, */
    uint64_t start_done;                            /* and number of sentences */
    uint64_t bytes_before;                          /* the current chunk */
    uint64_t bytes;                                 /* of the whole input; 0 if unknown */
    bool told;                                      /* the reason of the end was reported */
    tfm_search_stats done;
} translate_job;

/* Sets the library's callbacks for rejected lines, counts and progress. */
void translate_set_callbacks(translate_job *job);
/* Translates all lines of the input (translate_lines.c). */
int translate_lines(translate_job *job);

#endif
