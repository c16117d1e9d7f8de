#include "text/normalize.h"

/* GPT-2's table: printable bytes of Latin-1 map to themselves, the 68 others to U+0100 and up, in order. */

static bool is_itself(int32_t c) {
    return (c >= '!' && c <= '~') || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff);
}

int32_t tfm__byte_to_char(unsigned char byte) {
    if (is_itself(byte))
        return byte;
    return byte <= 0x20 ? 0x100 + byte : byte <= 0xa0 ? 0x121 + byte - 0x7f : 0x143;
}

int tfm__char_to_byte(int32_t c) {
    if (c < 0x100)
        return is_itself(c) ? (int)c : -1;
    return c <= 0x120 ? (int)c - 0x100 : c <= 0x142 ? (int)c - 0x121 + 0x7f : c == 0x143 ? 0xad : -1;
}
