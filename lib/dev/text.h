/* Kernel texts by name. */
#ifndef TFM_LIB_DEV_TEXT_H
#define TFM_LIB_DEV_TEXT_H

typedef struct tfm__kernel_text {
    const char *name; /* "softmax" for cl/softmax.cl; NULL ends the table */
    const char *text;
} tfm__kernel_text;

/* Generated at build time from cl/ (see cl/embed.c). */
extern const tfm__kernel_text TFM__KERNEL_TEXTS[];

#endif
