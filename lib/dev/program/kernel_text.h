/* Kernel texts by name. */
#ifndef TFM_LIB_DEV_KERNEL_TEXT_H
#define TFM_LIB_DEV_KERNEL_TEXT_H

typedef struct tfm__kernel_source {
    const char *name;   /* "softmax" for cl/reduce/softmax.cl; NULL ends the table */
    const char *folder; /* "reduce" */
    const char *text;
} tfm__kernel_source;

/* Generated at build time from cl/ (see cl/bin2c.c). */
extern const tfm__kernel_source TFM__KERNEL_SOURCES[];

#endif
