/* Language detection (detect*.c), and the choice of a model for a text (request_languages.c). */
#ifndef TFM_SERVE_DETECT_H
#define TFM_SERVE_DETECT_H

#include "serve/request.h"

typedef struct serve_detection {
    char code[SERVE_CODE];
    double confidence; /* 0 to 100 */
} serve_detection;

enum { SERVE_DETECTIONS = 3 };
/* The most likely languages of a text, best first, with the codes of served models. Returns their number, at least 1;
 * confidence 0 if nothing is known. */
int serve_detect_text(serve_detection out[SERVE_DETECTIONS], const serve_models *models, const char *text,
                      size_t bytes);
/* Whether a language is written in the script of the text. */
bool serve_detect_writes(const char *code, const char *text, size_t bytes);
/* Whether two codes are of one language, as "de" and "deu_Latn". */
bool serve_language_same(const char *a, const char *b);
/* Letters of a text in a language: all are regular, some occur only in loanwords and names, or some are foreign. */
typedef enum serve_letters { SERVE_LETTERS_OWN, SERVE_LETTERS_LOANS, SERVE_LETTERS_FOREIGN } serve_letters;
/* LOANS if there are no letters, or the language is unknown. */
serve_letters serve_letters_of(const char *code, const int32_t *letters, size_t count);
/* A bit mask of the languages in which a lower-case word is frequent. */
uint64_t serve_frequent_word(const char *word);
/* The i-th language with frequent words; NULL after the last. */
const char *serve_frequent_language(size_t i);

/* The languages and models of a request's texts. */
typedef struct serve_model_choice {
    serve_request *request;
    const char *const *texts;
    size_t count;
    const char *source, *target;
    bool same;                /* with source auto, texts in the target language are fine: the caller keeps them */
    serve_model **models;     /* [count] */
    serve_detection *guesses; /* [count] if source is auto, else NULL */
    json_t *warnings;         /* messages about texts that seem to be in another language than source */
} serve_model_choice;
/* Finds the model for each text. False, with the error reply, if a text's language is not served; freed in any case. */
bool serve_choose_models(serve_model_choice *a, serve_reply *reply);
void serve_model_choice_free(serve_model_choice *a);

/* A result of CLD2: language, score, and percentage of the text. */
typedef struct serve_cld2 {
    char code[SERVE_CODE];
    double score;
    int percent;
} serve_cld2;
/* Runs CLD2, with a hint or NULL. Returns the number of results: 0 if there are none, or CLD2 is not built in. */
int serve_cld2_detect(serve_cld2 out[SERVE_DETECTIONS], const char *text, size_t bytes, const char *hint);
/* The English name of a language. */
void serve_language_name(char *out, size_t bytes, const char *code);

#endif
