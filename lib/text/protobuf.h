/* Protobuf messages, a field at a time. */
#ifndef TFM_LIB_PROTOBUF_H
#define TFM_LIB_PROTOBUF_H

#include "base/base.h"

typedef struct tfm__message {
    const unsigned char *at, *end;
} tfm__message;

typedef struct tfm__field {
    uint64_t number;
    unsigned wire; /* 0 varint, 1 eight bytes, 2 counted bytes, 5 four bytes */
    uint64_t value;
    tfm__message bytes;
} tfm__field;

/* Takes the next field of a message that is not at its end; false if what stands there is none. Groups, which nobody
 * writes any more, are none. */
bool tfm__message_next(tfm__message *from, tfm__field *out);

#endif
