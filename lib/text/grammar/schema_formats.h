/* Formats of JSON schemas. */
#ifndef TFM_LIB_SCHEMA_FORMATS_H
#define TFM_LIB_SCHEMA_FORMATS_H

/* The regular expression of a `format`, or NULL. Its texts are valid; it has all valid ones except unusual forms: leap
 * seconds, mail addresses with quotes or letters outside ASCII, IP literals and user names in a URI. */
const char *tfm__schema_format(const char *name);

#endif
