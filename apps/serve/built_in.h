/* The files that are compiled into the program. */
#ifndef TFM_SERVE_TEXTS_H
#define TFM_SERVE_TEXTS_H

extern const char serve_text_page[], serve_text_openapi[];

#endif
