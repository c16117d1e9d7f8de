#include "text/protobuf.h"

static bool take_varint(tfm__proto_message *from, uint64_t *out) {
    *out = 0;
    for (unsigned shift = 0; shift < 64 && from->at < from->end; shift += 7) {
        unsigned char byte = *from->at++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool take_bytes(tfm__proto_message *from, tfm__proto_field *out, uint64_t size) {
    if (size > (uint64_t)(from->end - from->at))
        return false;
    out->bytes = (tfm__proto_message){from->at, from->at + size};
    from->at += size;
    return true;
}

bool tfm__proto_next_field(tfm__proto_message *from, tfm__proto_field *out) {
    uint64_t tag, size;
    *out = (tfm__proto_field){0};
    if (!take_varint(from, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
        return false;
    out->number = tag >> 3;
    out->wire_type = (unsigned)(tag & 7);
    switch (out->wire_type) {
    case 0:
        return take_varint(from, &out->value);
    case 1:
        return take_bytes(from, out, 8);
    case 2:
        return take_varint(from, &size) && take_bytes(from, out, size);
    case 5:
        return take_bytes(from, out, 4);
    default:
        return false;
    }
}
