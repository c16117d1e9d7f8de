/* Protobuf messages, field by field. */
#ifndef TFM_LIB_PROTOBUF_H
#define TFM_LIB_PROTOBUF_H

#include "base/base.h"

typedef struct tfm__proto_message {
    const unsigned char *at, *end;
} tfm__proto_message;

typedef struct tfm__proto_field {
    uint64_t number;
    unsigned wire_type; /* 0 varint, 1 eight bytes, 2 length-delimited, 5 four bytes */
    uint64_t value;
    tfm__proto_message bytes;
} tfm__proto_field;

/* Reads the next field; the message is not at its end. False if it is invalid or a group (obsolete). */
bool tfm__proto_next_field(tfm__proto_message *from, tfm__proto_field *out);

#endif
