/* Renders attention maps, and the curves of a training run, as PNG or SVG.
 *
 * picture*.c use cairo; picture_absent.c replaces them in a build without it. */
#ifndef TFM_PICTURE_H
#define TFM_PICTURE_H

#include "cli/cli.h"

typedef enum picture_format { PICTURE_SVG, PICTURE_PNG } picture_format;

/* One square of the picture. All is borrowed. */
typedef struct picture_panel {
    const char *heading; /* of the group of panels that begins here; NULL: the group goes on */
    int block;           /* groups of one block stand one below the other; blocks may stand side by side */
    char title[32];
    size_t rows, columns;
    const char *const *row_labels, *const *column_labels; /* tokens; "_" replaces SentencePiece's word mark */
    const float *weights;                                 /* [rows][columns], 0 to 1 */
} picture_panel;

typedef struct picture {
    const char *source, *target; /* texts, for the title */
    const char *const *notes;    /* sentences below it */
    size_t note_count;
    const picture_panel *panels;
    size_t panel_count;
} picture;

/* Whether this build can render pictures. */
bool picture_available(void);
/* The same: CLI_OK, or CLI_FAILED after a message with the package to install. */
int picture_require(void);

/* Renders it to `out`. CLI_OK, or CLI_FAILED after a message; closing the output reports failed writes. */
int picture_write(const picture *p, picture_format format, cli_output *out);

/* Renders a train.jsonl to `path`, a .svg or .png, which appears when it is complete: likelihoods, scores with the best
 * one marked, learning rate and gradient norm by updates. `title` may be NULL. CLI_OK, or CLI_FAILED after a message,
 * also for a file without reports. */
int picture_curves(const char *log, const char *title, const char *path);

#endif
