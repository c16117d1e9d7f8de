/* What stands between the words of a text and is no text to translate, such as a picture, a comment or a placeholder,
 * and where it goes in the translation (marks.c); by the words that correspond (word_alignment.c). Words are what
 * blanks part: in a text without blanks there is one. */
#ifndef TFM_MARKS_H
#define TFM_MARKS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A word of a text from `begin` to `end`, of which the body is without punctuation at both ends (or empty). `other` is
 * the word of the other text that corresponds to it, and `sentence` counts the sentences as they were translated. */
typedef struct marks_word {
    size_t begin, body, body_end, end;
    size_t sentence, other;
    size_t whole; /* where the source's word of the two is in the target's, in the target; SIZE_MAX: it is not there */
} marks_word;

typedef struct marks_text {
    const char *text;
    size_t bytes;
    marks_word *words; /* [count] */
    size_t count;
} marks_text;

/* A text and its translation. */
typedef struct marks_pair {
    marks_text source, target;
} marks_pair;

/* Finds words, and which correspond. `alignment` is a list with the cli_alignment_json of each sentence, in order;
 * NULL, or where there are too many words: they go by place. False without memory; freed in any case. */
bool marks_align(marks_pair *p, const char *source, const char *target, const json_t *alignment);
void marks_free(marks_pair *p);

/* Before which byte of the text a mark stands, and how it is parted from what is around it: "a X b" is the text "a b"
 * with a mark at 1 that has a blank before it; "a X." is "a." with the same mark; "a Xb" is "a b" with a mark at 2;
 * "aX b" is "a b" with one at 1. In "aXb" the text may be "ab", or, with `parts`, "a b" and the mark at 1. */
typedef struct marks_mark {
    size_t at;
    size_t index;                   /* which of the source's marks it is, in order; the caller's */
    bool blank_before, blank_after; /* blanks that are not in the text */
    bool parts;                     /* it stands in place of the blank at `at` */
} marks_mark;

/* Puts each of the marks where it goes in the target, and sorts them by place; those of one place stay in their order.
 * `at` is then of the target, the blanks are to be added, and with `parts` the blank at `at` is to be left out. */
void marks_place(marks_mark *marks, size_t count, const marks_pair *p);

/* Whether the character that text begins with is punctuation; whether it may end a word or a sentence, as in "a.", or
 * begin one, as in "(a"; and whether it is a letter or a digit. */
bool marks_is_punctuation(const char *text, size_t bytes);
bool marks_is_closing(const char *text, size_t bytes);
bool marks_is_opening(const char *text, size_t bytes);
bool marks_is_letter(const char *text, size_t bytes);
bool marks_is_joint(const char *text, size_t bytes); /* such as commas, dashes and "+", between words or behind one */
bool marks_is_sign(const char *text, size_t bytes);  /* such as brackets, dashes and arrows, but no currency */
bool marks_is_superscript(const char *text, size_t bytes); /* a digit above the line */
bool marks_is_upper(const char *text, size_t bytes);
bool marks_is_digit(const char *text, size_t bytes);

#endif
