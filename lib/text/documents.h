/* Documents in text files: lines, texts between separators, or JSON lines. */
#ifndef TFM_LIB_DOCUMENTS_H
#define TFM_LIB_DOCUMENTS_H

#include "text/line_file.h"
#include "tfm/text.h"

/* TFM_ERROR_ARGUMENT if both are set, or the separator contains a line end. `call` is used in the error message. */
tfm_status tfm__document_check(const char *call, const tfm_document_options *options);

/* The next document, as the text of *lines; *more is false after the last. Between calls the file position is the
 * beginning of the next document. TFM_ERROR_INPUT, with *more, for a JSON line without a text. */
tfm_status tfm__document_next(tfm__line_reader *lines, const tfm_document_options *options, bool *more);

/* The unit in error messages: "line" or "document". */
const char *tfm__document_name(const tfm_document_options *options);

#endif
