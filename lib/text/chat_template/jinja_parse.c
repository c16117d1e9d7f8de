/* Statements of templates. */
#include "text/chat_template/jinja_parser.h"

static tfm__jinja_node *parse_body(tfm__jinja_parser *p, const char *const *ends);
static const char *const NONE[] = {NULL};

static tfm__jinja_node *statement(tfm__jinja_parser *p, tfm__jinja_kind_of_node kind) {
    return tfm__jinja_node_new(p, kind, p->at->line);
}

static void expect_block_end(tfm__jinja_parser *p) {
    if (p->at->kind == TFM__JINJA_BLOCK_END)
        tfm__jinja_next(p);
    else
        tfm__jinja_unexpected(p, "%}");
}

/* The statements after this tag, up to a tag that begins with one of the names; that name is next. */
static tfm__jinja_node *parse_block(tfm__jinja_parser *p, const char *const *ends) {
    tfm__jinja_skip_operator(p, ":");
    expect_block_end(p);
    tfm__jinja_node *body = parse_body(p, ends);
    if (p->at->kind == TFM__JINJA_END)
        tfm__jinja_unexpected(p, ends[0]);
    return body;
}

/* The same up to one name, which is skipped. */
static tfm__jinja_node *parse_whole_block(tfm__jinja_parser *p, const char *end) {
    tfm__jinja_node *body = parse_block(p, (const char *const[]){end, NULL});
    tfm__jinja_skip_name(p, end);
    return body;
}

/* Whether a variable is used in a list of nodes. */
static bool uses(const tfm__jinja_node *node, const char *name) {
    for (; node; node = node->next) {
        if (node->kind == TFM__JINJA_N_NAME && tfm__jinja_string_is(node->name, name))
            return true;
        if (uses(node->a, name) || uses(node->b, name) || uses(node->c, name) || uses(node->list, name) ||
            uses(node->body, name) || uses(node->other, name))
            return true;
    }
    return false;
}

/* Whether statements keep their scope: it is that of macros. */
static bool defines_function(const tfm__jinja_node *node) {
    for (; node; node = node->next)
        if (node->kind == TFM__JINJA_N_MACRO || node->kind == TFM__JINJA_N_CALL_BLOCK || defines_function(node->body) ||
            defines_function(node->other))
            return true;
    return false;
}

/* The body of a macro. It is a function: loops around it cannot be left from it. */
static void parse_function(tfm__jinja_parser *p, tfm__jinja_node *node, const char *end) {
    const int loops = p->loops;
    p->loops = 0;
    node->body = parse_whole_block(p, end);
    p->loops = loops;
    if (p->j->status != TFM_OK)
        return;
    node->caller = uses(node->body, "caller");
    node->kwargs = uses(node->body, "kwargs");
    node->varargs = uses(node->body, "varargs");
}

static tfm__jinja_node *parse_set(tfm__jinja_parser *p) {
    tfm__jinja_node *node = statement(p, TFM__JINJA_N_SET);
    tfm__jinja_next(p);
    node->a = tfm__jinja_parse_target(p, true);
    if (tfm__jinja_skip_operator(p, "=")) {
        node->b = tfm__jinja_parse_tuple(p, true);
        return node;
    }
    node->kind = TFM__JINJA_N_SET_BLOCK;
    node->b = tfm__jinja_parse_filters(p, NULL, false);
    node->body = parse_whole_block(p, "endset");
    return node;
}

static tfm__jinja_node *parse_for(tfm__jinja_parser *p) {
    static const char *const ends[] = {"endfor", "else", NULL};
    tfm__jinja_node *node = statement(p, TFM__JINJA_N_FOR);
    tfm__jinja_next(p);
    node->a = tfm__jinja_parse_target(p, false);
    if (p->j->status == TFM_OK && uses(node->a, "loop"))
        tfm__jinja_unexpected(p, "a target other than the variable `loop`");
    if (!tfm__jinja_skip_name(p, "in"))
        tfm__jinja_unexpected(p, "in");
    node->b = tfm__jinja_parse_tuple(p, false);
    if (tfm__jinja_skip_name(p, "if"))
        node->c = tfm__jinja_parse_expression(p);
    node->flag = tfm__jinja_skip_name(p, "recursive");
    p->loops++;
    node->body = parse_block(p, ends);
    p->loops--;
    node->keeps_scope = p->j->status == TFM_OK && defines_function(node->body);
    const int loops = p->loops;
    if (tfm__jinja_at_name(p, "else") && node->flag)
        p->loops = 0; /* a recursive loop is a function */
    if (tfm__jinja_skip_name(p, "else"))
        node->other = parse_whole_block(p, "endfor");
    else
        tfm__jinja_skip_name(p, "endfor");
    p->loops = loops;
    return node;
}

static tfm__jinja_node *parse_if(tfm__jinja_parser *p) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    tfm__jinja_node *first = statement(p, TFM__JINJA_N_IF), *node = first;
    tfm__jinja_next(p);
    while (p->j->status == TFM_OK) {
        node->a = tfm__jinja_parse_tuple(p, false);
        node->body = parse_block(p, ends);
        if (tfm__jinja_skip_name(p, "else"))
            node->other = parse_whole_block(p, "endif");
        else if (!tfm__jinja_skip_name(p, "endif") && tfm__jinja_skip_name(p, "elif")) {
            node->flag = true;
            node = node->other = statement(p, TFM__JINJA_N_IF);
            continue;
        }
        break;
    }
    return first;
}

/* The parameters of a macro, in parentheses. */
static tfm__jinja_node *parse_signature(tfm__jinja_parser *p) {
    tfm__jinja_node *list = NULL, **end = &list;
    bool defaults = false;
    tfm__jinja_expect_operator(p, "(");
    while (p->j->status == TFM_OK && !tfm__jinja_at_operator(p, ")")) {
        if (list)
            tfm__jinja_expect_operator(p, ",");
        tfm__jinja_node *parameter = statement(p, TFM__JINJA_N_NAME);
        parameter->name = tfm__jinja_expect_name(p);
        if (tfm__jinja_skip_operator(p, "="))
            parameter->a = tfm__jinja_parse_expression(p);
        else if (defaults)
            tfm__jinja_unexpected(p, "a default value, as of the parameter before it,");
        defaults = parameter->a != NULL;
        tfm__jinja_node_append(&end, parameter);
    }
    tfm__jinja_expect_operator(p, ")");
    return list;
}

static tfm__jinja_node *parse_macro(tfm__jinja_parser *p) {
    tfm__jinja_node *node = statement(p, TFM__JINJA_N_MACRO);
    tfm__jinja_next(p);
    node->name = tfm__jinja_expect_name(p);
    node->list = parse_signature(p);
    parse_function(p, node, "endmacro");
    return node;
}

static tfm__jinja_node *parse_call_block(tfm__jinja_parser *p) {
    tfm__jinja_node *node = statement(p, TFM__JINJA_N_CALL_BLOCK);
    tfm__jinja_next(p);
    if (tfm__jinja_at_operator(p, "("))
        node->list = parse_signature(p);
    node->a = tfm__jinja_parse_expression(p);
    if (node->a->kind != TFM__JINJA_N_CALL)
        tfm__jinja_unexpected(p, "a call");
    parse_function(p, node, "endcall");
    return node;
}

static tfm__jinja_node *parse_filter_block(tfm__jinja_parser *p) {
    tfm__jinja_node *node = statement(p, TFM__JINJA_N_FILTER_BLOCK);
    tfm__jinja_next(p);
    node->b = tfm__jinja_parse_filters(p, NULL, true);
    node->b = tfm__jinja_parse_filters(p, node->b, false);
    node->body = parse_whole_block(p, "endfilter");
    return node;
}

static tfm__jinja_node *parse_with(tfm__jinja_parser *p) {
    tfm__jinja_node *node = statement(p, TFM__JINJA_N_WITH), **end = &node->list;
    tfm__jinja_next(p);
    while (p->j->status == TFM_OK && p->at->kind != TFM__JINJA_BLOCK_END) {
        if (node->list)
            tfm__jinja_expect_operator(p, ",");
        tfm__jinja_node *set = statement(p, TFM__JINJA_N_SET);
        set->a = tfm__jinja_parse_target(p, false);
        tfm__jinja_expect_operator(p, "=");
        set->b = tfm__jinja_parse_expression(p);
        tfm__jinja_node_append(&end, set);
    }
    node->body = parse_whole_block(p, "endwith");
    return node;
}

static tfm__jinja_node *parse_generation(tfm__jinja_parser *p) {
    tfm__jinja_node *node = statement(p, TFM__JINJA_N_GENERATION);
    tfm__jinja_next(p);
    parse_function(p, node, "endgeneration");
    return node;
}

static tfm__jinja_node *parse_loop_control(tfm__jinja_parser *p) {
    tfm__jinja_node *node = statement(p, tfm__jinja_at_name(p, "break") ? TFM__JINJA_N_BREAK : TFM__JINJA_N_CONTINUE);
    if (!p->loops)
        tfm__jinja_unexpected(p, "a statement outside a loop");
    tfm__jinja_next(p);
    return node;
}

/* {% print a, b %}: outputs in a list. */
static tfm__jinja_node *parse_print(tfm__jinja_parser *p) {
    tfm__jinja_node *node = statement(p, TFM__JINJA_N_WITH), **end = &node->body;
    tfm__jinja_next(p);
    while (p->j->status == TFM_OK && p->at->kind != TFM__JINJA_BLOCK_END) {
        if (node->body)
            tfm__jinja_expect_operator(p, ",");
        tfm__jinja_node *output = statement(p, TFM__JINJA_N_OUTPUT);
        output->a = tfm__jinja_parse_expression(p);
        tfm__jinja_node_append(&end, output);
    }
    return node;
}

static tfm__jinja_node *parse_statement(tfm__jinja_parser *p) {
    static const struct {
        const char *name;
        tfm__jinja_node *(*parse)(tfm__jinja_parser *p);
    } statements[] = {
        {"set", parse_set},
        {"for", parse_for},
        {"if", parse_if},
        {"macro", parse_macro},
        {"call", parse_call_block},
        {"filter", parse_filter_block},
        {"with", parse_with},
        {"print", parse_print},
        {"generation", parse_generation},
        {"break", parse_loop_control},
        {"continue", parse_loop_control},
    };
    static const char *const unsupported[] = {"block", "extends", "include", "import", "from", "autoescape"};
    tfm__jinja_node *node = NULL;
    if (!tfm__jinja_enter(p->j))
        return NULL;
    for (size_t i = 0; i < TFM__COUNT(statements) && !node; i++)
        if (tfm__jinja_at_name(p, statements[i].name))
            node = statements[i].parse(p);
    p->j->line = p->at->line;
    for (size_t i = 0; i < TFM__COUNT(unsupported) && !node; i++)
        if (tfm__jinja_at_name(p, unsupported[i]))
            tfm__jinja_fail(p->j, TFM_ERROR_UNSUPPORTED, "the statement `%s` is not supported", unsupported[i]);
    if (!node)
        tfm__jinja_unexpected(p, "a statement");
    tfm__jinja_leave(p->j);
    return node;
}

static bool at_end(const tfm__jinja_parser *p, const char *const *ends) {
    for (; *ends; ends++)
        if (tfm__jinja_at_name(p, *ends))
            return true;
    return false;
}

static tfm__jinja_node *parse_body(tfm__jinja_parser *p, const char *const *ends) {
    tfm__jinja_node *list = NULL, **end = &list;
    while (p->j->status == TFM_OK && p->at->kind != TFM__JINJA_END) {
        tfm__jinja_node *node = statement(p, TFM__JINJA_N_DATA);
        if (p->at->kind == TFM__JINJA_DATA) {
            node->value = tfm__jinja_next(p)->value;
        } else if (p->at->kind == TFM__JINJA_VARIABLE_BEGIN) {
            tfm__jinja_next(p);
            node->kind = TFM__JINJA_N_OUTPUT;
            node->a = tfm__jinja_parse_tuple(p, true);
            if (p->at->kind != TFM__JINJA_VARIABLE_END)
                tfm__jinja_unexpected(p, "}}");
            tfm__jinja_next(p);
        } else {
            tfm__jinja_next(p);
            if (at_end(p, ends))
                return list;
            node = parse_statement(p);
            if (p->j->status == TFM_OK)
                expect_block_end(p);
        }
        if (node && p->j->status == TFM_OK)
            tfm__jinja_node_append(&end, node);
    }
    return p->j->status == TFM_OK ? list : NULL;
}

tfm__jinja_node *tfm__jinja_parse(tfm__jinja *j, const char *text, size_t bytes) {
    const tfm__jinja_tokens tokens = tfm__jinja_lex(j, text, bytes);
    tfm__jinja_parser p = {.j = j, .at = tokens.items};
    if (j->status != TFM_OK)
        return NULL;
    j->depth = TFM__JINJA_DEPTH - 200; /* expressions and statements nest at most 200 deep */
    tfm__jinja_node *body = parse_body(&p, NONE);
    j->depth = 0;
    return body;
}
