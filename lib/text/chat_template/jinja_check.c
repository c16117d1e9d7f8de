#include "text/chat_template/jinja_evaluate.h"
#include "text/chat_template/jinja_filters.h"

/* `soft`: within an if statement or an inline if, where jinja2 looks names up only when the branch runs. */
static void check(tfm__jinja *j, const tfm__jinja_node *node, bool soft) {
    for (; node && tfm__jinja_enter(j); node = node->next, tfm__jinja_leave(j)) {
        bool operands = soft, body = false;
        j->line = node->line;
        if (node->kind == TFM__JINJA_N_FILTER && !soft && !tfm__jinja_has_filter(node->name))
            tfm__jinja_fail(j, TFM_ERROR_FORMAT, "there is no filter named `%.*s`", (int)node->name->bytes,
                            node->name->data);
        if (node->kind == TFM__JINJA_N_TEST && !soft && !tfm__jinja_has_test(node->name))
            tfm__jinja_fail(j, TFM_ERROR_FORMAT, "there is no test named `%.*s`", (int)node->name->bytes,
                            node->name->data);
        if (node->kind == TFM__JINJA_N_IF)
            operands = body = true;
        else if (node->kind == TFM__JINJA_N_COND)
            operands = true;
        else if (node->kind == TFM__JINJA_N_SET_BLOCK || node->kind == TFM__JINJA_N_FILTER_BLOCK)
            operands = false;
        check(j, node->a, operands);
        check(j, node->b, operands);
        check(j, node->c, node->kind == TFM__JINJA_N_FOR ? false : operands);
        check(j, node->list,
              node->kind == TFM__JINJA_N_MACRO || node->kind == TFM__JINJA_N_CALL_BLOCK ? false : operands);
        check(j, node->body, body);
        check(j, node->other, body);
    }
}

void tfm__jinja_check(tfm__jinja *j, const tfm__jinja_node *body) {
    check(j, body, false);
}
