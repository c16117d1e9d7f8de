/* The tokens that a parser reads. */
#include "text/chat_template/jinja_parser.h"

tfm__jinja_node *tfm__jinja_node_new(tfm__jinja_parser *p, tfm__jinja_kind_of_node kind, int line) {
    tfm__jinja_node *node = tfm__jinja_alloc(p->j, 1, sizeof(*node));
    if (!node)
        node = &p->failed;
    node->kind = kind;
    node->line = line;
    return node;
}

void tfm__jinja_node_append(tfm__jinja_node ***end, tfm__jinja_node *node) {
    **end = node;
    *end = &node->next;
}

bool tfm__jinja_token_is(const tfm__jinja_token *token, tfm__jinja_token_kind kind, const char *text) {
    return token->kind == kind && tfm__jinja_string_is(token->value.string, text);
}

bool tfm__jinja_at_operator(const tfm__jinja_parser *p, const char *text) {
    return tfm__jinja_token_is(p->at, TFM__JINJA_OPERATOR, text);
}

bool tfm__jinja_at_name(const tfm__jinja_parser *p, const char *text) {
    return tfm__jinja_token_is(p->at, TFM__JINJA_NAME, text);
}

bool tfm__jinja_skip_operator(tfm__jinja_parser *p, const char *text) {
    const bool is = tfm__jinja_at_operator(p, text);
    if (is)
        tfm__jinja_next(p);
    return is;
}

bool tfm__jinja_skip_name(tfm__jinja_parser *p, const char *text) {
    const bool is = tfm__jinja_at_name(p, text);
    if (is)
        tfm__jinja_next(p);
    return is;
}

void tfm__jinja_unexpected(tfm__jinja_parser *p, const char *wanted) {
    static const char *const KINDS[] = {[TFM__JINJA_END] = "the end of the template",
                                        [TFM__JINJA_DATA] = "text",
                                        [TFM__JINJA_VARIABLE_BEGIN] = "{{",
                                        [TFM__JINJA_VARIABLE_END] = "}}",
                                        [TFM__JINJA_BLOCK_BEGIN] = "{%",
                                        [TFM__JINJA_BLOCK_END] = "%}",
                                        [TFM__JINJA_TEXT] = "a string",
                                        [TFM__JINJA_NUMBER] = "an integer",
                                        [TFM__JINJA_REAL] = "a number"};
    p->j->line = p->at->line;
    if (p->at->kind == TFM__JINJA_NAME || p->at->kind == TFM__JINJA_OPERATOR)
        tfm__jinja_fail(p->j, TFM_ERROR_FORMAT, "`%.*s` where %s is expected", (int)p->at->value.string->bytes,
                        p->at->value.string->data, wanted);
    else
        tfm__jinja_fail(p->j, TFM_ERROR_FORMAT, "%s where %s is expected", KINDS[p->at->kind], wanted);
}

void tfm__jinja_expect_operator(tfm__jinja_parser *p, const char *text) {
    if (!tfm__jinja_skip_operator(p, text))
        tfm__jinja_unexpected(p, text);
}

const tfm__jinja_string *tfm__jinja_expect_name(tfm__jinja_parser *p) {
    static const tfm__jinja_string none = {"", 0, 0};
    if (p->at->kind != TFM__JINJA_NAME) {
        tfm__jinja_unexpected(p, "a name");
        return &none;
    }
    return tfm__jinja_next(p)->value.string;
}
