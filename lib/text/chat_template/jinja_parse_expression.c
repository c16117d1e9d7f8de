#include "text/chat_template/jinja_parser.h"

static tfm__jinja_node *parse_expression(tfm__jinja_parser *p, bool conditional);
static tfm__jinja_node *parse_unary(tfm__jinja_parser *p, bool filters);

static tfm__jinja_node *new_node(tfm__jinja_parser *p, tfm__jinja_kind_of_node kind) {
    return tfm__jinja_node_new(p, kind, p->at->line);
}

static tfm__jinja_node *join(tfm__jinja_parser *p, tfm__jinja_kind_of_node kind, int line, tfm__jinja_node *a,
                             tfm__jinja_node *b) {
    tfm__jinja_node *node = tfm__jinja_node_new(p, kind, line);
    node->a = a;
    node->b = b;
    return node;
}

/* ---- Literals -------------------------------------------------------------------------------------------------- */

static tfm__jinja_node *constant(tfm__jinja_parser *p, tfm__jinja_value value) {
    tfm__jinja_node *node = new_node(p, TFM__JINJA_N_CONST);
    node->value = value;
    tfm__jinja_next(p);
    return node;
}

static tfm__jinja_node *parse_text(tfm__jinja_parser *p) {
    tfm__jinja_node *node = constant(p, p->at->value);
    if (p->at->kind != TFM__JINJA_TEXT || p->j->status != TFM_OK)
        return node;
    tfm__jinja_writer out = {.j = p->j};
    tfm__jinja_write_string(&out, node->value.string);
    while (p->at->kind == TFM__JINJA_TEXT && p->j->status == TFM_OK)
        tfm__jinja_write_string(&out, tfm__jinja_next(p)->value.string);
    node->value = tfm__jinja_written(&out);
    return node;
}

/* A list or a dict, from its opening bracket on. */
static tfm__jinja_node *parse_display(tfm__jinja_parser *p, bool dict) {
    tfm__jinja_node *node = new_node(p, dict ? TFM__JINJA_N_DICT : TFM__JINJA_N_LIST), **end = &node->list;
    const char *close = dict ? "}" : "]";
    tfm__jinja_next(p);
    while (p->j->status == TFM_OK && !tfm__jinja_at_operator(p, close)) {
        if (node->list)
            tfm__jinja_expect_operator(p, ",");
        if (tfm__jinja_at_operator(p, close))
            break;
        const int line = p->at->line;
        tfm__jinja_node *item = parse_expression(p, true);
        if (dict) {
            tfm__jinja_expect_operator(p, ":");
            item = join(p, TFM__JINJA_N_PAIR, line, item, parse_expression(p, true));
        }
        tfm__jinja_node_append(&end, item);
    }
    tfm__jinja_expect_operator(p, close);
    return node;
}

static tfm__jinja_node *parse_name(tfm__jinja_parser *p, bool namespace) {
    static const char *const words[] = {"true", "True", "false", "False", "none", "None"};
    for (size_t i = 0; i < TFM__COUNT(words); i++)
        if (tfm__jinja_at_name(p, words[i]))
            return constant(p, i < 4 ? tfm__jinja_bool(i < 2) : tfm__jinja_none());
    tfm__jinja_node *node = new_node(p, TFM__JINJA_N_NAME);
    node->name = tfm__jinja_next(p)->value.string;
    if (namespace && tfm__jinja_skip_operator(p, ".")) {
        node->kind = TFM__JINJA_N_NSREF;
        node->value = (tfm__jinja_value){.type = TFM__JINJA_STRING, .string = tfm__jinja_expect_name(p)};
    }
    return node;
}

/* ---- Tuples ---------------------------------------------------------------------------------------------------- */

static bool at_tuple_end(const tfm__jinja_parser *p) {
    return p->at->kind == TFM__JINJA_VARIABLE_END || p->at->kind == TFM__JINJA_BLOCK_END ||
           tfm__jinja_at_operator(p, ")");
}

static tfm__jinja_node *parse_primary(tfm__jinja_parser *p, bool namespace);

typedef enum tuple_item { CONDITIONAL, PLAIN, TARGET, TARGET_OR_NAMESPACE } tuple_item;

static tfm__jinja_node *parse_tuple(tfm__jinja_parser *p, tuple_item kind, bool parentheses) {
    tfm__jinja_node *tuple = new_node(p, TFM__JINJA_N_TUPLE), **last = &tuple->list;
    bool comma = false;
    while (p->j->status == TFM_OK && !at_tuple_end(p)) {
        tfm__jinja_node_append(&last, kind <= PLAIN ? parse_expression(p, kind == CONDITIONAL)
                                                    : parse_primary(p, kind == TARGET_OR_NAMESPACE));
        if (!tfm__jinja_skip_operator(p, ","))
            break;
        comma = true;
    }
    if (comma)
        return tuple;
    if (!tuple->list && !parentheses)
        tfm__jinja_unexpected(p, "an expression");
    return tuple->list ? tuple->list : tuple;
}

static tfm__jinja_node *parse_primary(tfm__jinja_parser *p, bool namespace) {
    tfm__jinja_node *node;
    if (p->at->kind == TFM__JINJA_NAME)
        return parse_name(p, namespace);
    if (p->at->kind == TFM__JINJA_TEXT)
        return parse_text(p);
    if (p->at->kind == TFM__JINJA_NUMBER || p->at->kind == TFM__JINJA_REAL)
        return constant(p, p->at->value);
    if (tfm__jinja_at_operator(p, "[") || tfm__jinja_at_operator(p, "{"))
        return parse_display(p, tfm__jinja_at_operator(p, "{"));
    if (tfm__jinja_skip_operator(p, "(")) {
        node = parse_tuple(p, CONDITIONAL, true);
        tfm__jinja_expect_operator(p, ")");
        return node;
    }
    node = new_node(p, TFM__JINJA_N_CONST);
    tfm__jinja_unexpected(p, "an expression");
    return node;
}

/* ---- Subscripts, calls, filters and tests ---------------------------------------------------------------------- */

/* One subscript between brackets: an expression or a slice. */
static tfm__jinja_node *parse_subscribed(tfm__jinja_parser *p) {
    tfm__jinja_node *slice = new_node(p, TFM__JINJA_N_SLICE);
    if (!tfm__jinja_at_operator(p, ":")) {
        slice->a = parse_expression(p, true);
        if (!tfm__jinja_at_operator(p, ":"))
            return slice->a;
    }
    tfm__jinja_next(p);
    if (!tfm__jinja_at_operator(p, ":") && !tfm__jinja_at_operator(p, "]") && !tfm__jinja_at_operator(p, ","))
        slice->b = parse_expression(p, true);
    if (tfm__jinja_skip_operator(p, ":") && !tfm__jinja_at_operator(p, "]") && !tfm__jinja_at_operator(p, ","))
        slice->c = parse_expression(p, true);
    return slice;
}

static tfm__jinja_node *parse_subscript(tfm__jinja_parser *p, tfm__jinja_node *value) {
    tfm__jinja_node *node = join(p, TFM__JINJA_N_GETITEM, p->at->line, value, NULL);
    if (tfm__jinja_skip_operator(p, ".")) {
        if (p->at->kind == TFM__JINJA_NUMBER) {
            node->b = constant(p, p->at->value);
        } else {
            node->kind = TFM__JINJA_N_GETATTR;
            node->name = tfm__jinja_expect_name(p);
        }
        return node;
    }
    tfm__jinja_node *tuple = new_node(p, TFM__JINJA_N_TUPLE), **end = &tuple->list;
    tfm__jinja_next(p);
    size_t count = 0;
    while (p->j->status == TFM_OK && !tfm__jinja_at_operator(p, "]")) {
        if (count++)
            tfm__jinja_expect_operator(p, ",");
        tfm__jinja_node_append(&end, parse_subscribed(p));
    }
    tfm__jinja_expect_operator(p, "]");
    node->b = count == 1 ? tuple->list : tuple;
    return node;
}

static tfm__jinja_node *parse_argument(tfm__jinja_parser *p) {
    tfm__jinja_node *node;
    if (tfm__jinja_at_operator(p, "*") || tfm__jinja_at_operator(p, "**")) {
        node = new_node(p, tfm__jinja_at_operator(p, "*") ? TFM__JINJA_N_STAR : TFM__JINJA_N_STAR_STAR);
        tfm__jinja_next(p);
        node->a = parse_expression(p, true);
        return node;
    }
    if (p->at->kind == TFM__JINJA_NAME && tfm__jinja_token_is(p->at + 1, TFM__JINJA_OPERATOR, "=")) {
        node = new_node(p, TFM__JINJA_N_KEYWORD);
        node->name = p->at->value.string;
        p->at += 2;
        node->a = parse_expression(p, true);
        return node;
    }
    return parse_expression(p, true);
}

/* Arguments in parentheses: positional ones, keywords, then *args and **kwargs, each at most once. */
static void parse_arguments(tfm__jinja_parser *p, tfm__jinja_node *node) {
    tfm__jinja_node **end = &node->list;
    bool keyword = false, star = false, star_star = false, comma = true;
    tfm__jinja_expect_operator(p, "(");
    while (p->j->status == TFM_OK && !tfm__jinja_at_operator(p, ")")) {
        if (!comma)
            tfm__jinja_expect_operator(p, ",");
        comma = false;
        if (tfm__jinja_at_operator(p, ")"))
            break;
        const int line = p->at->line;
        tfm__jinja_node *item = parse_argument(p);
        const tfm__jinja_kind_of_node kind = item->kind;
        const bool wrong = kind == TFM__JINJA_N_STAR        ? star || star_star
                           : kind == TFM__JINJA_N_STAR_STAR ? star_star
                           : kind == TFM__JINJA_N_KEYWORD   ? star_star
                                                            : star || star_star || keyword;
        if (wrong && p->j->status == TFM_OK) {
            p->j->line = line;
            tfm__jinja_fail(p->j, TFM_ERROR_FORMAT, "invalid order of arguments in a call");
        }
        star |= kind == TFM__JINJA_N_STAR;
        star_star |= kind == TFM__JINJA_N_STAR_STAR;
        keyword |= kind == TFM__JINJA_N_KEYWORD;
        tfm__jinja_node_append(&end, item);
    }
    tfm__jinja_expect_operator(p, ")");
}

static tfm__jinja_node *parse_call(tfm__jinja_parser *p, tfm__jinja_node *value) {
    tfm__jinja_node *node = join(p, TFM__JINJA_N_CALL, p->at->line, value, NULL);
    parse_arguments(p, node);
    return node;
}

static tfm__jinja_node *parse_postfix(tfm__jinja_parser *p, tfm__jinja_node *node) {
    while (p->j->status == TFM_OK) {
        if (tfm__jinja_at_operator(p, ".") || tfm__jinja_at_operator(p, "["))
            node = parse_subscript(p, node);
        else if (tfm__jinja_at_operator(p, "("))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

tfm__jinja_node *tfm__jinja_parse_filters(tfm__jinja_parser *p, tfm__jinja_node *value, bool from_name) {
    while (p->j->status == TFM_OK && (from_name || tfm__jinja_skip_operator(p, "|"))) {
        tfm__jinja_node *node = join(p, TFM__JINJA_N_FILTER, p->at->line, value, NULL);
        node->name = tfm__jinja_expect_name(p);
        if (tfm__jinja_at_operator(p, "."))
            tfm__jinja_fail(p->j, TFM_ERROR_UNSUPPORTED, "a filter with a dot in its name is not supported");
        if (tfm__jinja_at_operator(p, "("))
            parse_arguments(p, node);
        value = node;
        from_name = false;
    }
    return value;
}

static bool at_test_argument(const tfm__jinja_parser *p) {
    if (p->at->kind == TFM__JINJA_NAME)
        return !tfm__jinja_at_name(p, "else") && !tfm__jinja_at_name(p, "or") && !tfm__jinja_at_name(p, "and");
    return p->at->kind == TFM__JINJA_TEXT || p->at->kind == TFM__JINJA_NUMBER || p->at->kind == TFM__JINJA_REAL ||
           tfm__jinja_at_operator(p, "[") || tfm__jinja_at_operator(p, "{");
}

static tfm__jinja_node *parse_test(tfm__jinja_parser *p, tfm__jinja_node *value) {
    tfm__jinja_node *node = join(p, TFM__JINJA_N_TEST, p->at->line, value, NULL);
    tfm__jinja_next(p);
    const bool negated = tfm__jinja_skip_name(p, "not");
    node->name = tfm__jinja_expect_name(p);
    if (tfm__jinja_at_operator(p, "(")) {
        parse_arguments(p, node);
    } else if (at_test_argument(p)) {
        if (tfm__jinja_at_name(p, "is"))
            tfm__jinja_unexpected(p, "one test");
        node->list = parse_postfix(p, parse_primary(p, false));
    }
    return negated ? join(p, TFM__JINJA_N_NOT, node->line, node, NULL) : node;
}

/* ---- Operators ------------------------------------------------------------------------------------------------- */

static tfm__jinja_node *parse_unary(tfm__jinja_parser *p, bool filters) {
    const int line = p->at->line;
    tfm__jinja_node *node;
    if (!tfm__jinja_enter(p->j))
        return new_node(p, TFM__JINJA_N_CONST);
    if (tfm__jinja_at_operator(p, "-") || tfm__jinja_at_operator(p, "+")) {
        const bool negative = tfm__jinja_at_operator(p, "-");
        tfm__jinja_next(p);
        node = join(p, negative ? TFM__JINJA_N_NEG : TFM__JINJA_N_POS, line, parse_unary(p, false), NULL);
    } else {
        node = parse_primary(p, false);
    }
    node = parse_postfix(p, node);
    while (filters && p->j->status == TFM_OK) {
        if (tfm__jinja_at_operator(p, "|"))
            node = tfm__jinja_parse_filters(p, node, false);
        else if (tfm__jinja_at_name(p, "is"))
            node = parse_test(p, node);
        else if (tfm__jinja_at_operator(p, "("))
            node = parse_call(p, node);
        else
            break;
    }
    tfm__jinja_leave(p->j);
    return node;
}

enum { POWER, PRODUCT, CONCATENATION, SUM, LEVELS };

/* Binary operators that associate to the left, by precedence. */
static tfm__jinja_node *parse_binary(tfm__jinja_parser *p, int level) {
    static const char *const operators[LEVELS][5] = {{"**"}, {"*", "/", "//", "%"}, {"~"}, {"+", "-"}};
    const int line = p->at->line;
    tfm__jinja_node *left = level == POWER ? parse_unary(p, true) : parse_binary(p, level - 1);
    for (size_t i = 0; p->j->status == TFM_OK && operators[level][i];) {
        if (!tfm__jinja_at_operator(p, operators[level][i])) {
            i++;
            continue;
        }
        const tfm__jinja_string *name = tfm__jinja_next(p)->value.string;
        tfm__jinja_node *right = level == POWER ? parse_unary(p, true) : parse_binary(p, level - 1);
        left = join(p, level == CONCATENATION ? TFM__JINJA_N_CONCAT : TFM__JINJA_N_BINARY, line, left, right);
        left->name = name;
        i = 0;
    }
    return left;
}

static tfm__jinja_node *parse_compare(tfm__jinja_parser *p) {
    static const char *const operators[] = {"==", "!=", ">", ">=", "<", "<="};
    tfm__jinja_node *first = parse_binary(p, SUM);
    tfm__jinja_node *node = join(p, TFM__JINJA_N_COMPARE, first->line, first, NULL), **end = &node->list;
    while (p->j->status == TFM_OK) {
        tfm__jinja_node *operand = new_node(p, TFM__JINJA_N_OPERAND);
        for (size_t i = 0; i < TFM__COUNT(operators) && !operand->name; i++)
            if (tfm__jinja_at_operator(p, operators[i]))
                operand->name = p->at->value.string;
        if (!operand->name && tfm__jinja_at_name(p, "in"))
            operand->name = p->at->value.string;
        if (!operand->name && tfm__jinja_at_name(p, "not") && tfm__jinja_token_is(p->at + 1, TFM__JINJA_NAME, "in")) {
            operand->name = tfm__jinja_next(p)->value.string;
        }
        if (!operand->name)
            break;
        tfm__jinja_next(p);
        operand->a = parse_binary(p, SUM);
        tfm__jinja_node_append(&end, operand);
    }
    return node->list ? node : first;
}

static tfm__jinja_node *parse_not(tfm__jinja_parser *p) {
    const int line = p->at->line;
    if (!tfm__jinja_skip_name(p, "not"))
        return parse_compare(p);
    if (!tfm__jinja_enter(p->j))
        return new_node(p, TFM__JINJA_N_CONST);
    tfm__jinja_node *node = join(p, TFM__JINJA_N_NOT, line, parse_not(p), NULL);
    tfm__jinja_leave(p->j);
    return node;
}

static tfm__jinja_node *parse_logic(tfm__jinja_parser *p, bool is_or) {
    const int line = p->at->line;
    tfm__jinja_node *left = is_or ? parse_logic(p, false) : parse_not(p);
    while (p->j->status == TFM_OK && tfm__jinja_skip_name(p, is_or ? "or" : "and"))
        left = join(p, is_or ? TFM__JINJA_N_OR : TFM__JINJA_N_AND, line, left,
                    is_or ? parse_logic(p, false) : parse_not(p));
    return left;
}

static tfm__jinja_node *parse_expression(tfm__jinja_parser *p, bool conditional) {
    const int line = p->at->line;
    if (!tfm__jinja_enter(p->j))
        return new_node(p, TFM__JINJA_N_CONST);
    tfm__jinja_node *node = parse_logic(p, true);
    while (conditional && p->j->status == TFM_OK && tfm__jinja_skip_name(p, "if")) {
        tfm__jinja_node *condition = join(p, TFM__JINJA_N_COND, line, parse_logic(p, true), node);
        if (tfm__jinja_skip_name(p, "else"))
            condition->c = parse_expression(p, true);
        node = condition;
    }
    tfm__jinja_leave(p->j);
    return node;
}

tfm__jinja_node *tfm__jinja_parse_expression(tfm__jinja_parser *p) {
    return parse_expression(p, true);
}

tfm__jinja_node *tfm__jinja_parse_tuple(tfm__jinja_parser *p, bool conditional) {
    return parse_tuple(p, conditional ? CONDITIONAL : PLAIN, false);
}

/* Fails if a node cannot be assigned to. */
static void check_target(tfm__jinja_parser *p, const tfm__jinja_node *node) {
    if (p->j->status != TFM_OK)
        return;
    if (node->kind == TFM__JINJA_N_TUPLE) {
        for (const tfm__jinja_node *item = node->list; item; item = item->next)
            check_target(p, item);
    } else if (node->kind != TFM__JINJA_N_NAME && node->kind != TFM__JINJA_N_NSREF) {
        p->j->line = node->line;
        tfm__jinja_fail(p->j, TFM_ERROR_FORMAT, "the target of an assignment is not a name");
    }
}

tfm__jinja_node *tfm__jinja_parse_target(tfm__jinja_parser *p, bool namespace) {
    tfm__jinja_node *target = parse_tuple(p, namespace ? TARGET_OR_NAMESPACE : TARGET, false);
    check_target(p, target);
    return target;
}
