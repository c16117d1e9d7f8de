/* Attention maps drawn as one picture, and the curves of a training run, PNG or SVG.
 *
 * picture*.c draw with cairo; where tfm is built without it, picture_absent.c is in their place and says so. */
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
    const char *const *row_labels, *const *column_labels; /* tokens: the word mark of SentencePiece is drawn as "_" */
    const float *weights;                                 /* [rows][columns], 0 to 1 */
} picture_panel;

typedef struct picture {
    const char *source, *target; /* texts, for the title */
    const char *const *notes;    /* sentences below it */
    size_t note_count;
    const picture_panel *panels;
    size_t panel_count;
} picture;

/* Whether pictures can be made at all. */
bool picture_available(void);
/* The same: CLI_OK, or CLI_FAILED after the sentence that names the package to
 * install. */
int picture_require(void);

/* Draws it into `out`. CLI_FAILED after its sentence, else CLI_OK; failed writes are left for the output's
 * close. */
int picture_write(const picture *p, picture_format format, cli_output *out);

/* Draws what a train.jsonl reports into `path`, a .svg or .png, which appears when it is complete: likelihoods, scores
 * with the best one marked, learning rate and gradient norm by updates. The title names `title`, unless it is NULL.
 * CLI_OK, or CLI_FAILED after its sentence: also where nothing is reported yet. */
int picture_curves(const char *log, const char *title, const char *path);

#endif
