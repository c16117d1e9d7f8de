#include <math.h>
#include <string.h>
#include "text/protobuf.h"
#include "text/spm.h"
#include "text/utf8.h"

/* A SentencePiece model is a protobuf message: pieces = 1, trainer_spec = 2, normalizer_spec = 3, self_test_data = 4,
 * denormalizer_spec = 5. Field 2 of a normalizer specification is its normalization table: four bytes of size, a double
 * array of that size, then the replacements, each with a terminating NUL. */

/* SentencePiece's buffer limit for rules that are prefixes of one another, and for user-defined pieces. */
#define MAX_RULES 32
#define MAX_USER_DEFINED 64
/* Rules are a few characters long on both sides; the longest of Unicode's expands one character to 33 bytes. */
#define MAX_RULE_BYTES 256
#define MAX_REPLACEMENT 64

static uint32_t little32(const unsigned char *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* ---- The table of normalizations ---------------------------------------------------------------------- */

/* A double array ("An Efficient Implementation of Trie Structures", Aoe et al. 1992) as packed by darts-clone. The
 * children of node n are in the block at n ^ offset(n): the child of byte c is at that ^ c, if its label is c. */
typedef struct table {
    uint32_t *units;
    uint32_t count;
    uint32_t *first, *next; /* children by block: first[block], next[child]; `count` ends a list */
    unsigned char *state;   /* NEW, OPEN, or the most rules on a path from here, plus DONE */
    const unsigned char *replacements;
    size_t replacement_bytes;
} table;

enum { NEW, OPEN, DONE };

static uint32_t block_of(const table *t, uint32_t node) {
    uint32_t unit = t->units[node];
    return node ^ ((unit >> 10) << ((unit & 1u << 9) >> 6));
}

static const char *enter(const table *t, uint32_t node) {
    uint32_t block = block_of(t, node);
    if ((block | 0xff) >= t->count)
        return "its normalization table has an offset out of range";
    if (node && t->units[node] >> 8 & 1) {
        size_t value = t->units[block] & 0x7fffffffu;
        size_t left = value < t->replacement_bytes ? t->replacement_bytes - value : 0;
        if (!left || !memchr(t->replacements + value, '\0', left < MAX_REPLACEMENT ? left : MAX_REPLACEMENT))
            return "its normalization table has a replacement offset out of range";
    }
    return NULL;
}

static const char *leave(table *t, uint32_t node, unsigned rules_below) {
    unsigned rules = rules_below + (t->units[node] >> 8 & 1);
    if (rules > MAX_RULES)
        return "its normalization table has too many rules with a common prefix";
    t->state[node] = (unsigned char)(DONE + rules);
    return NULL;
}

/* Visits all nodes reachable from the root: NULL, or the error. */
static const char *walk(table *t) {
    struct {
        uint32_t node, child;
        unsigned rules;
    } stack[MAX_RULE_BYTES];
    size_t depth = 0;
    uint32_t node = 0;
    for (;;) {
        if (depth == MAX_RULE_BYTES)
            return "its normalization table has a rule without an end";
        const char *wrong = enter(t, node);
        if (wrong)
            return wrong;
        t->state[node] = OPEN;
        stack[depth].node = node;
        stack[depth].child = t->first[block_of(t, node)];
        stack[depth++].rules = 0;
        /* Finds the next node: the first new child, or one of an ancestor. */
        for (;;) {
            uint32_t child = stack[depth - 1].child;
            if (child != t->count && t->state[child] == NEW) {
                stack[depth - 1].child = t->next[child];
                node = child;
                break;
            }
            unsigned rules = 0;
            if (child != t->count) {
                if (t->state[child] == OPEN)
                    return "its normalization table has a cycle";
                rules = t->state[child] - DONE;
                stack[depth - 1].child = t->next[child];
            } else {
                wrong = leave(t, stack[depth - 1].node, stack[depth - 1].rules);
                if (wrong || --depth == 0)
                    return wrong;
                rules = t->state[stack[depth].node] - DONE;
            }
            if (rules > stack[depth - 1].rules)
                stack[depth - 1].rules = rules;
        }
    }
}

static tfm_status check_table(const char **wrong, tfm__proto_message bytes) {
    size_t size = (size_t)(bytes.end - bytes.at);
    if (size == 0)
        return TFM_OK;
    uint32_t trie = size > 4 ? little32(bytes.at) : 0;
    if (trie == 0 || trie % 4 != 0 || trie >= size - 4 || bytes.end[-1] != '\0') {
        *wrong = "its normalization table does not fit its size";
        return TFM_OK;
    }
    table t = {.count = trie / 4, .replacements = bytes.at + 4 + trie, .replacement_bytes = size - 4 - trie};
    t.units = tfm__alloc(t.count, 3 * sizeof(*t.units));
    t.state = tfm__alloc(t.count, 1);
    if (!t.units || !t.state) {
        free(t.units);
        free(t.state);
        return TFM_ERROR_MEMORY;
    }
    t.first = t.units + t.count;
    t.next = t.first + t.count;
    for (uint32_t i = 0; i < t.count; i++) {
        t.units[i] = little32(bytes.at + 4 + 4 * (size_t)i);
        t.first[i] = t.count;
    }
    for (uint32_t i = 0; i < t.count; i++) {
        uint32_t block = i ^ (t.units[i] & 0xff);
        /* The top bit marks a value, not a child. */
        if (t.units[i] >> 31 || block >= t.count)
            continue;
        t.next[i] = t.first[block];
        t.first[block] = i;
    }
    *wrong = walk(&t);
    free(t.units);
    free(t.state);
    return TFM_OK;
}

static tfm_status check_normalizer(const char **wrong, tfm__proto_message message) {
    tfm__proto_field f;
    while (message.at < message.end) {
        if (!tfm__proto_next_field(&message, &f)) {
            *wrong = "its normalization is unreadable";
            return TFM_OK;
        }
        if (f.number == 2 && f.wire_type == 2) {
            tfm_status status = check_table(wrong, f.bytes);
            if (status != TFM_OK || *wrong)
                return status;
        }
    }
    return TFM_OK;
}

/* ---- Pieces ------------------------------------------------------------------------------------------- */

static const char *check_piece(tfm__proto_message message) {
    size_t length = 0;
    bool user_defined = false; /* as protobuf reads an enum: 32 bits, unknown values ignored */
    tfm__proto_field f;
    while (message.at < message.end) {
        if (!tfm__proto_next_field(&message, &f))
            return "a piece is unreadable";
        if (f.number == 1 && f.wire_type == 2) {
            length = (size_t)(f.bytes.end - f.bytes.at);
            if (tfm__utf8_valid((const char *)f.bytes.at, length) != length || memchr(f.bytes.at, '\0', length))
                return "a piece is not text";
        } else if (f.number == 2 && f.wire_type == 5) {
            uint32_t bits = little32(f.bytes.at);
            float score;
            memcpy(&score, &bits, sizeof(score));
            if (!isfinite(score))
                return "a piece's score is not a number";
        } else if (f.number == 3 && f.wire_type == 0) {
            user_defined |= (uint32_t)f.value == 4;
        }
    }
    if (length == 0)
        return "a piece is empty";
    return user_defined && length > MAX_USER_DEFINED ? "a user-defined piece is too long" : NULL;
}

tfm_status tfm__spm_check(const void *bytes, size_t size, const char *path) {
    tfm__proto_message message = {bytes, (const unsigned char *)bytes + size};
    const char *wrong = size ? NULL : "it is empty";
    unsigned seen = 0;
    tfm__proto_field f;
    while (message.at < message.end && !wrong) {
        if (!tfm__proto_next_field(&message, &f)) {
            wrong = "it ends within a field, or has another format";
            break;
        }
        if (f.number <= 5 && f.wire_type != 2)
            wrong = "it has another format";
        else if (f.number == 1)
            wrong = check_piece(f.bytes);
        else if (f.number == 3 || f.number == 5) {
            tfm_status status = check_normalizer(&wrong, f.bytes);
            if (status != TFM_OK)
                return status;
        }
        if (f.number <= 5)
            seen |= 1u << f.number;
    }
    /* Pieces come first in the file, so a truncated file may lack only the rest. */
    if (!wrong && (seen & 0xe) != 0xe)
        wrong = "pieces, trainer or normalization are missing";
    return wrong ? tfm__fail(TFM_ERROR_FORMAT, "%s is not a SentencePiece model, or is damaged: %s; copy it again",
                             path, wrong)
                 : TFM_OK;
}

/* ---- The table itself --------------------------------------------------------------------------------- */

/* The bytes of the last occurrence of a field; empty if there is none. */
static tfm__proto_message find_bytes(tfm__proto_message message, uint64_t number) {
    tfm__proto_message found = {NULL, NULL};
    tfm__proto_field f;
    while (message.at < message.end && tfm__proto_next_field(&message, &f))
        if (f.number == number && f.wire_type == 2)
            found = f.bytes;
    return found;
}

const void *tfm__spm_charsmap(size_t *table_bytes, const void *bytes, size_t size) {
    const tfm__proto_message normalizer =
        find_bytes((tfm__proto_message){bytes, (const unsigned char *)bytes + size}, 3);
    const tfm__proto_message found = find_bytes(normalizer, 2);
    *table_bytes = (size_t)(found.end - found.at);
    return *table_bytes > 0 ? found.at : NULL;
}
