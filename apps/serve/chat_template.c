/* Chat templates of models: finds them, and recognizes ChatML. The Jinja templates are not executed, but compared in a
 * canonical form without differences of blanks, quotes and concatenations. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "serve/models.h"

/* ---- The canonical form ---------------------------------------------------------------------------------------- */

/* A statement is between \1 and \2, an expression between \3 and \4; all else is literal text. */
typedef struct canon {
    FILE *out;
    const char *at;
    bool failed;
    bool strips, trims; /* the previous tag ended in '-', or was a statement: strip blanks, or one line end */
    bool line;          /* at the start of a line */
} canon;

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* A string literal, decoded; the text goes to `out`. */
static const char *take_string(canon *c, const char *at, FILE *out, bool quoted) {
    const char quote = *at++;
    if (quoted)
        putc('\'', out);
    for (; *at && *at != quote; at++) {
        char put = *at;
        if (*at == '\\' && at[1]) {
            static const char codes[] = "n\nt\tr\r\\\\''\"\"";
            const char *code = codes;
            at++;
            while (*code && *code != *at)
                code += 2;
            c->failed |= !*code; /* \x, \u and invalid escapes */
            put = *code ? code[1] : 0;
        }
        c->failed |= (put >= 1 && put <= 4) || (quoted && put == '\'');
        putc(put, out);
    }
    if (quoted)
        putc('\'', out);
    c->failed |= !*at;
    return *at ? at + 1 : at;
}

/* Writes an expression with blanks only between words, ['x'] as .x and strings between single quotes. */
static void put_expression(canon *c, const char *at, const char *end) {
    char last = 0;
    while (at < end) {
        if (isspace((unsigned char)*at)) {
            at++;
        } else if (*at == '"' || *at == '\'') {
            at = take_string(c, at, c->out, true);
            last = '\'';
        } else if (*at == '[' && (at[1] == '\'' || at[1] == '"') && (is_word(last) || last == ']')) {
            const char *name = at + 2, *stop = name;
            while (is_word(*stop))
                stop++;
            c->failed |= stop == name || *stop != at[1] || stop[1] != ']';
            fprintf(c->out, ".%.*s", (int)(stop - name), name);
            last = 'a';
            at = c->failed ? end : stop + 2;
        } else if (is_word(*at)) {
            if (is_word(last))
                putc(' ', c->out);
            for (; at < end && is_word(*at); at++)
                putc(*at, c->out);
            last = 'a';
        } else {
            putc(last = *at++, c->out);
        }
    }
}

/* The end of the operand: a + or ~ outside parentheses and strings. */
static const char *operand_end(const char *at, const char *end) {
    int depth = 0;
    for (char quote = 0; at < end; at++) {
        if (quote) {
            at += *at == '\\';
            quote = *at == quote && at[-1] != '\\' ? 0 : quote;
        } else if (*at == '"' || *at == '\'') {
            quote = *at;
        } else if (strchr("([{", *at)) {
            depth++;
        } else if (strchr(")]}", *at)) {
            depth--;
        } else if (depth == 0 && (*at == '+' || *at == '~')) {
            break;
        }
    }
    return at;
}

/* An expression: strings as text, all else between \3 and \4. */
static void put_output(canon *c, const char *at, const char *end) {
    while (at < end && !c->failed) {
        const char *stop = operand_end(at, end), *last = stop;
        while (at < stop && isspace((unsigned char)*at))
            at++;
        while (last > at && isspace((unsigned char)last[-1]))
            last--;
        const bool literal = last > at && (*at == '"' || *at == '\'');
        if (literal) {
            c->failed |= take_string(c, at, c->out, false) != last;
        } else {
            putc('\3', c->out);
            put_expression(c, at, last);
            putc('\4', c->out);
        }
        at = stop + 1;
    }
}

/* The text up to the next tag, as in Jinja with trim_blocks and lstrip_blocks. */
static void put_text(canon *c, const char *end, char kind, bool strips) {
    const char *from = c->at, *to = end;
    if (c->strips)
        while (from < to && isspace((unsigned char)*from))
            from++;
    else if (c->trims && from < to && *from == '\n')
        from++, c->line = true;
    const char *begin = to;
    while (begin > from && (begin[-1] == ' ' || begin[-1] == '\t'))
        begin--;
    if (strips)
        while (to > from && isspace((unsigned char)to[-1]))
            to--;
    else if ((kind == '%' || kind == '#') && (begin > from ? begin[-1] == '\n' : c->line))
        to = begin;
    for (; from < to; from++) {
        c->failed |= *from >= 1 && *from <= 4;
        putc(*from, c->out);
    }
}

/* One tag, from its opening brace on. */
static void put_tag(canon *c) {
    const char kind = c->at[1], *from = c->at + 2 + (c->at[2] == '-'), *end = from;
    const char *const close = kind == '{' ? "}}" : kind == '%' ? "%}" : "#}";
    for (char quote = 0; *end && (quote || strncmp(end, close, 2) != 0); end++)
        if (kind != '#' && (quote ? *end == quote : *end == '"' || *end == '\''))
            quote = quote ? 0 : *end;
        else if (quote && *end == '\\' && end[1])
            end++;
    c->failed |= !*end;
    if (c->failed)
        return;
    c->strips = end > from && end[-1] == '-';
    c->trims = kind != '{';
    c->line = false;
    const char *last = end - c->strips;
    if (kind == '{') {
        put_output(c, from, last);
    } else if (kind == '%') {
        putc('\1', c->out);
        put_expression(c, from, last);
        putc('\2', c->out);
    }
    c->at = end + 2;
}

/* A template in canonical form; NULL if it has none, or without memory. The caller frees it. */
static char *canonical(const char *text) {
    char *form = NULL;
    size_t bytes = 0, length = strlen(text);
    canon c = {.out = open_memstream(&form, &bytes), .at = text, .line = true};
    const char *const end = text + length - (length > 0 && text[length - 1] == '\n');
    while (c.out && !c.failed && c.at < end) {
        const char *tag = c.at;
        while (tag < end && !(*tag == '{' && tag[1] && strchr("{%#", tag[1])))
            tag++;
        put_text(&c, tag, tag < end ? tag[1] : 0, tag < end && tag[2] == '-');
        c.at = tag;
        if (tag < end)
            put_tag(&c);
    }
    if (c.out)
        fclose(c.out);
    if (!c.out || c.failed) {
        free(form);
        form = NULL;
    }
    return form;
}

/* ---- ChatML ---------------------------------------------------------------------------------------------------- */

/* Skips a segment of the template if it is next. */
static bool take(const char **at, const char *part) {
    char *form = canonical(part);
    const size_t length = form ? strlen(form) : 0;
    const bool is = form && strncmp(*at, form, length) == 0;
    *at += is ? length : 0;
    free(form);
    return is;
}

static bool take_any(const char **at, const char *const *parts, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (take(at, parts[i]))
            return true;
    return false;
}

/* Skips to the statement that ends this branch: else, elif, endif or endfor. */
static void skip_branch(const char **at) {
    int depth = 0;
    for (; **at; ++*at) {
        const char *word = *at + 1;
        if (**at != '\1')
            continue;
        if (strncmp(word, "end", 3) == 0 && depth-- == 0)
            return;
        if (depth == 0 && strncmp(word, "el", 2) == 0)
            return;
        depth += (strncmp(word, "if", 2) == 0 && !is_word(word[2])) || strncmp(word, "for ", 4) == 0;
    }
}

/* Reads the default system message, up to `after`. */
static bool take_system(serve_chat *chat, const char **at, const char *after) {
    static const char begin[] = "<|im_start|>system\n";
    const char *from = *at + strlen(begin),
               *end = strncmp(*at, begin, strlen(begin)) == 0 ? strstr(*at, "<|im_end|>\n") : NULL;
    if (!end || memchr(from, '\1', (size_t)(end - from)) || memchr(from, '\3', (size_t)(end - from)))
        return false;
    chat->system = strndup(from, (size_t)(end - from));
    *at = end + strlen("<|im_end|>\n");
    return chat->system && take(at, after);
}

static const char LOOP
[] = "{% for message in messages %}";

/* The part before the messages: nothing, or a default system message, as in SmolLM2 and Qwen 2. */
static bool take_head(serve_chat *chat, const char **at) {
    static const char *const first[] = {
        "{% if loop.first and messages[0]['role'] != 'system' %}",
        "{% if loop.first and message['role'] != 'system' %}",
        "{% if loop.index0 == 0 and message['role'] != 'system' %}",
    };
    take(at, "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}");
    chat->bos = take(at, "{{ bos_token }}");
    if (take(at, "{% if messages[0]['role'] != 'system' %}"))
        return take_system(chat, at, "{% endif %}") && take(at, LOOP);
    return take(at, LOOP) && (!take_any(at, first, CLI_COUNT(first)) || take_system(chat, at, "{% endif %}"));
}

/* The same for Qwen 2.5; its branches for tools are skipped, requests have no tools here. */
static bool take_head_tools(serve_chat *chat, const char **at) {
    static const char own[] =
        "{% if messages[0]['role'] == 'system' %}{{ '<|im_start|>system\n' + messages[0]['content'] + "
        "'<|im_end|>\n' }}{% else %}";
    static const char roles[] =
        "{% if (message.role == 'user') or (message.role == 'system' and not loop.first) or (message.role == "
        "'assistant' and not message.tool_calls) %}";
    if (!take(at, "{% if tools %}"))
        return false;
    skip_branch(at);
    chat->tools = true;
    return take(at, "{% else %}") && take(at, own) && take_system(chat, at, "{% endif %}{% endif %}") &&
           take(at, LOOP) && take(at, roles);
}

static bool take_message(serve_chat *chat, const char **at) {
    static const char *const last[] = {"{% if (loop.last and add_generation_prompt) or not loop.last %}"};
    if (!take(at, "<|im_start|>{{ message.role }}{{ '\n' }}"))
        return false;
    chat->trims = take(at, "{{ message.content | trim }}");
    if (!chat->trims && !take(at, "{{ message.content }}"))
        return false;
    const bool within = take_any(at, last, CLI_COUNT(last)); /* Qwen 1.5: the result with a generation prompt */
    if (!take(at, "<|im_end|>"))
        return false;
    chat->line = take(at, "{{ '\n' }}");
    return !within || take(at, "{% endif %}");
}

static bool take_tail(serve_chat *chat, const char **at) {
    if (chat->tools) { /* turns with tools */
        while (**at == '\1' && strncmp(*at + 1, "elif", 4) == 0) {
            ++*at;
            skip_branch(at);
        }
        if (!take(at, "{% endif %}"))
            return false;
    }
    if (!take(at, "{% endfor %}"))
        return false;
    chat->after_assistant = take(at, "{% if add_generation_prompt %}");
    return (chat->after_assistant ||
            take(at, "{% if add_generation_prompt and messages[-1]['role'] != 'assistant' %}")) &&
           take(at, "<|im_start|>assistant{{ '\n' }}{% endif %}") && **at == 0;
}

static bool recognize(serve_chat *chat) {
    char *form = canonical(chat->text);
    const char *at = form;
    const bool known = form && (take_head_tools(chat, &at) || (at = form, !chat->tools && take_head(chat, &at))) &&
                       take_message(chat, &at) && take_tail(chat, &at);
    free(form);
    return known;
}

/* ---- Files ----------------------------------------------------------------------------------------------------- */

/* A file of the directory as text, or NULL. Line ends become LF, as in Jinja. */
static char *read_text(const char *dir, const char *name) {
    char path[4096], *text = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "rb"), *out = file ? open_memstream(&text, &bytes) : NULL;
    for (int c, last = 0; out && (c = getc(file)) != EOF; last = c)
        if (c != '\n' || last != '\r')
            putc(c == '\r' ? '\n' : c, out);
    if (file)
        fclose(file);
    if (out)
        fclose(out);
    return text;
}

/* A JSON file of the directory; NULL if it is missing, or after a message if it is damaged. */
static json_t *read_json(const char *dir, const char *name, int *code) {
    char path[4096], why[CLI_REASON];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    json_t *value = access(path, F_OK) == 0 ? cli_json_load(path, why) : NULL;
    if (!value && access(path, F_OK) == 0)
        *code = cli_fail("%s is not JSON: %s", path, why);
    return value;
}

/* The template of a value: a string, or the entry named default in a list of {"name", "template"}. */
static char *template_of(const json_t *value) {
    const char *text = json_string_value(value);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && strcmp(name, "default") == 0)
            text = json_string_value(json_object_get(item, "template"));
    }
    if (json_is_object(value))
        text = json_string_value(json_object_get(value, "default"));
    return text ? strdup(text) : NULL;
}

/* A special token of tokenizer_config.json, else special_tokens_map.json: a string, or an object with its content. */
static char *token_of(const json_t *config, const json_t *map, const char *name) {
    const json_t *value = json_object_get(config, name);
    if (!value || json_is_null(value))
        value = json_object_get(map, name);
    const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
    return text ? strdup(text) : NULL;
}

/* A template without byte order mark, or NULL for a blank one. Takes ownership of `text`. */
static char *not_blank(char *text) {
    static const char bom[] = "\xEF\xBB\xBF";
    const size_t skipped = text && strncmp(text, bom, strlen(bom)) == 0 ? strlen(bom) : 0;
    if (!text || !text[skipped + strspn(text + skipped, " \t\r\n")]) {
        free(text);
        return NULL;
    }
    memmove(text, text + skipped, strlen(text + skipped) + 1);
    return text;
}

int serve_chat_read(serve_chat *chat, const char *dir) {
    int code = CLI_OK;
    json_t *config = read_json(dir, "tokenizer_config.json", &code);
    json_t *other = code == CLI_OK ? read_json(dir, "chat_template.json", &code) : NULL;
    json_t *map = code == CLI_OK ? read_json(dir, "special_tokens_map.json", &code) : NULL;
    chat->text = not_blank(read_text(dir, "chat_template.jinja"));
    if (!chat->text)
        chat->text = not_blank(template_of(json_object_get(other, "chat_template")));
    if (!chat->text)
        chat->text = not_blank(template_of(json_object_get(config, "chat_template")));
    chat->eos_token = token_of(config, map, "eos_token");
    chat->bos_token = token_of(config, map, "bos_token");
    json_decref(config);
    json_decref(other);
    json_decref(map);
    chat->known = code == CLI_OK && chat->text && recognize(chat);
    return code;
}

void serve_chat_free(serve_chat *chat) {
    free(chat->text);
    free(chat->system);
    free(chat->eos_token);
    free(chat->bos_token);
    *chat = (serve_chat){0};
}
