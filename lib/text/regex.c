#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include "text/regex.h"

/* Limits of an expression: code size, steps per position, and backtracking memory. */
enum { MAX_PATTERN = 1 << 16, MAX_CODE = 16 << 20, MAX_MATCH_DEPTH = 1 << 20, HEAP_KIB = 64 << 10 };
enum { STEPS = 1000000, STACK = 32 << 10, MAX_JIT_STACK = 8 << 20 };

struct tfm__regex {
    pcre2_code *code;
    bool jit;
};

static tfm_status compile(tfm__regex *regex, const char *pattern, size_t bytes, uint32_t options, const char *where) {
    int error = 0;
    PCRE2_SIZE place = 0;
    PCRE2_UCHAR reason[256];
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return tfm__fail(TFM_ERROR_MEMORY, "%s: out of host memory for a regular expression", where);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context, 100);
    regex->code =
        pcre2_compile((PCRE2_SPTR)pattern, bytes, PCRE2_UTF | PCRE2_NO_UTF_CHECK | options, &error, &place, context);
    pcre2_compile_context_free(context);
    size_t size = 0;
    if (regex->code && pcre2_pattern_info(regex->code, PCRE2_INFO_SIZE, &size) == 0 && size > MAX_CODE)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: the regular expression is too large", where);
    if (regex->code) {
        regex->jit = pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE) == 0;
        return TFM_OK;
    }
    pcre2_get_error_message(error, reason, sizeof(reason));
    return tfm__fail(TFM_ERROR_FORMAT, "%s: the regular expression \"%.200s\" is invalid at byte %zu: %s", where,
                     pattern, (size_t)place + 1, (const char *)reason);
}

static tfm_status make(tfm__regex **out, const char *pattern, size_t bytes, uint32_t options, const char *where) {
    *out = NULL;
    if (bytes > MAX_PATTERN)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: the regular expression has %zu bytes; up to %d are allowed", where,
                         bytes, MAX_PATTERN);
    tfm__regex *regex = tfm__alloc(1, sizeof(*regex));
    if (!regex)
        return TFM_ERROR_MEMORY;
    const tfm_status status = compile(regex, pattern, bytes, options, where);
    if (status != TFM_OK)
        tfm__regex_free(&regex);
    *out = regex;
    return status;
}

tfm_status tfm__regex_new(tfm__regex **out, const char *pattern, size_t bytes, const char *where) {
    tfm__bytes translated = {0};
    *out = NULL;
    if (bytes > MAX_PATTERN)
        return make(out, pattern, bytes, 0, where);
    tfm_status status = tfm__regex_translate(&translated, pattern, bytes, where);
    tfm__bytes_add(&translated, "", 1);
    if (status == TFM_OK)
        status = translated.failed ? TFM_ERROR_MEMORY
                                   : make(out, translated.data, translated.count - 1,
                                          PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, where);
    tfm__bytes_free(&translated);
    return status;
}

tfm_status tfm__regex_new_literal(tfm__regex **out, const char *text, size_t bytes, const char *where) {
    return make(out, text, bytes, PCRE2_LITERAL, where);
}

tfm_status tfm__regex_new_pcre2(tfm__regex **out, const char *pattern, size_t bytes, const char *where) {
    return make(out, pattern, bytes, PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, where);
}

void tfm__regex_free(tfm__regex **regex) {
    if (*regex) {
        pcre2_code_free((*regex)->code);
        free(*regex);
        *regex = NULL;
    }
}

void tfm__regex_memory_free(tfm__regex_memory *memory) {
    pcre2_match_data_free(memory->data);
    pcre2_match_context_free(memory->context);
    pcre2_jit_stack_free(memory->stack);
    *memory = (tfm__regex_memory){0};
}

static tfm_status prepare(tfm__regex_memory *memory) {
    if (memory->data)
        return TFM_OK;
    memory->context = pcre2_match_context_create(NULL);
    memory->stack = pcre2_jit_stack_create(STACK, MAX_JIT_STACK, NULL); /* NULL where there is no JIT */
    memory->data = memory->context ? pcre2_match_data_create(1, NULL) : NULL;
    if (!memory->data)
        return tfm__fail(TFM_ERROR_MEMORY, "out of host memory for a regular expression");
    pcre2_set_match_limit(memory->context, STEPS);
    pcre2_set_depth_limit(memory->context, MAX_MATCH_DEPTH);
    pcre2_set_heap_limit(memory->context, HEAP_KIB);
    if (memory->stack)
        pcre2_jit_stack_assign(memory->context, NULL, memory->stack);
    return TFM_OK;
}

/* The first match from `at` on; only its start may be inconsistent. */
static tfm_status search(const tfm__regex *regex, tfm__regex_memory *memory, bool *found, tfm__regex_iter *iter,
                         const char *text, size_t bytes) {
    const PCRE2_SPTR subject = (PCRE2_SPTR)text;
    int count = regex->jit && memory->stack
                    ? pcre2_jit_match(regex->code, subject, bytes, iter->at, 0, memory->data, memory->context)
                    : PCRE2_ERROR_JIT_STACKLIMIT;
    if (count == PCRE2_ERROR_JIT_STACKLIMIT)
        count = pcre2_match(regex->code, subject, bytes, iter->at, PCRE2_NO_JIT | PCRE2_NO_UTF_CHECK, memory->data,
                            memory->context);
    *found = count >= 0;
    if (count < 0 && count != PCRE2_ERROR_NOMATCH) {
        PCRE2_UCHAR reason[256];
        pcre2_get_error_message(count, reason, sizeof(reason));
        return tfm__fail(TFM_ERROR_INPUT,
                         "the tokenizer's regular expression cannot be matched with a text of %zu bytes: %s", bytes,
                         (const char *)reason);
    }
    if (*found) {
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(memory->data);
        iter->begin = ends[0];
        iter->end = ends[1];
        if (iter->end < iter->begin || iter->begin < iter->at) /* \K and lookbehind can cause it */
            iter->begin = iter->end = iter->at;
    }
    return TFM_OK;
}

tfm_status tfm__regex_next(const tfm__regex *regex, tfm__regex_memory *memory, bool *found, tfm__regex_iter *iter,
                           const char *text, size_t bytes) {
    *found = false;
    tfm_status status = prepare(memory);
    while (status == TFM_OK && iter->at <= bytes) {
        const bool behind = iter->any;
        const size_t last = iter->end;
        status = search(regex, memory, found, iter, text, bytes);
        if (status != TFM_OK || !*found)
            break;
        if (iter->begin != iter->end || !behind || iter->end != last) {
            iter->any = true;
            iter->at = iter->end;
            return TFM_OK;
        }
        *found = false; /* empty, right after the last match */
        iter->at += iter->at < bytes ? tfm__char_bytes(text + iter->at) : 1;
    }
    *found = false;
    return status;
}
