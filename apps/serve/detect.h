/* Languages of texts (detect*.c), and which model translates a text (request_languages.c). */
#ifndef TFM_SERVE_DETECT_H
#define TFM_SERVE_DETECT_H

#include "serve/request.h"

typedef struct serve_detection {
    char code[SERVE_CODE];
    double confidence; /* 0 to 100 */
} serve_detection;

enum { SERVE_DETECTIONS = 3 };
/* The likeliest languages of a text, best first; one that is served has the code that its model has. Returns how many:
 * at least 1, of which the confidence is 0 where nothing is known. */
int serve_detect_text(serve_detection out[SERVE_DETECTIONS], const serve_models *models, const char *text,
                      size_t bytes);
/* Whether a language is written in the script of the text. */
bool serve_detect_writes(const char *code, const char *text, size_t bytes);
/* Whether two codes are of one language, as "de" and "deu_Latn". */
bool serve_language_same(const char *a, const char *b);
/* How a language is written with letters: all are its own, some are of loanwords and names, or some are neither. */
typedef enum serve_letters { SERVE_LETTERS_OWN, SERVE_LETTERS_LOANS, SERVE_LETTERS_FOREIGN } serve_letters;
/* LOANS where there are no letters, or the language is not known. */
serve_letters serve_letters_of(const char *code, const int32_t *letters, size_t count);
/* The languages that a word of small letters is frequent in: a bit for each, by its index. */
uint64_t serve_frequent_word(const char *word);
/* The i-th language of which frequent words are known; NULL after the last. */
const char *serve_frequent_language(size_t i);

/* What a request asks of its texts' languages, and the models that follow. */
typedef struct serve_model_choice {
    serve_request *request;
    const char *const *texts;
    size_t count;
    const char *source, *target;
    serve_model **models;     /* [count] */
    serve_detection *guesses; /* [count], where source is auto; else NULL */
    json_t *warnings;         /* sentences about texts that seem to be in another language than source says */
} serve_model_choice;
/* Finds the model for each text. False, with the answer, where a text's language is not served; freed in any case. */
bool serve_choose_models(serve_model_choice *a, serve_reply *reply);
void serve_model_choice_free(serve_model_choice *a);

/* What CLD2 says: a language, how well the text fits it, and how much of the text it is. */
typedef struct serve_cld2 {
    char code[SERVE_CODE];
    double score;
    int percent;
} serve_cld2;
/* Asks CLD2, with a language to prefer or NULL. Returns how many: 0 where it knows none, or is not built in. */
int serve_cld2_detect(serve_cld2 out[SERVE_DETECTIONS], const char *text, size_t bytes, const char *hint);
/* What a language is called in English. */
void serve_language_name(char *out, size_t bytes, const char *code);

#endif
