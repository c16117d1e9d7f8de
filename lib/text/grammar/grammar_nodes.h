/* The form of a grammar: a recursive transition network over bytes. */
#ifndef TFM_LIB_GRAMMAR_NODES_H
#define TFM_LIB_GRAMMAR_NODES_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/base.h"
#include "tfm/grammar.h"

/* Limits of a grammar: an untrusted one must not exhaust time or memory. */
enum {
    TFM__GRAMMAR_MAX_TEXT = 1 << 20,
    TFM__GRAMMAR_MAX_NODES = 1 << 18,
    TFM__GRAMMAR_MAX_RULES = 1 << 16,
    TFM__GRAMMAR_MAX_STEPS = 1 << 22, /* of building */
    TFM__GRAMMAR_MAX_DEPTH = 128      /* of nested groups, and of nested schemas */
};

typedef enum tfm__grammar_node_kind {
    TFM__NODE_KIND_FAIL,
    TFM__NODE_KIND_END,    /* of a rule */
    TFM__NODE_KIND_BYTES,  /* a byte of set a, then node b */
    TFM__NODE_KIND_EITHER, /* node a or node b */
    TFM__NODE_KIND_CALL,   /* rule a, then node b */
    TFM__NODE_KIND_CHAR    /* a character of set a, then node b; only while a schema is compiled */
} tfm__grammar_node_kind;

typedef struct tfm__grammar_node {
    tfm__grammar_node_kind kind;
    uint32_t a, b;
} tfm__grammar_node;

/* The first two nodes. */
enum { TFM__NODE_FAIL, TFM__NODE_END };

typedef struct tfm__byte_set {
    uint64_t words[4];
} tfm__byte_set;

static inline bool tfm__byte_set_has(const tfm__byte_set *set, unsigned char byte) {
    return set->words[byte >> 6] >> (byte & 63) & 1;
}

typedef struct tfm__grammar_rule {
    char *name;
    uint32_t start;
} tfm__grammar_rule;

/* Another node with the same texts of up to `bytes` bytes, so that long repetitions have few different masks. */
typedef struct tfm__grammar_alike {
    uint32_t node, bytes;
} tfm__grammar_alike;

struct tfm_grammar {
    atomic_int owners;
    tfm__grammar_node *nodes; /* all lead to an end, except FAIL */
    size_t node_count;
    tfm__byte_set *sets;
    tfm__grammar_rule *rules; /* the first is the root */
    size_t rule_count;
    unsigned char class_of[256]; /* bytes that no set tells apart have the same class */
    unsigned char member[256];   /* a byte of each class */
    int class_count;
    tfm__grammar_alike *alike; /* by node */
    pthread_mutex_t lock;      /* of: */
    struct tfm__mask_cache *caches;
};

tfm_grammar *tfm__grammar_retain(const tfm_grammar *grammar);

#endif
