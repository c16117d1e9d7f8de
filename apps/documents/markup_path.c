/* Elements that a word is in. */
#include "documents/markup_internal.h"

run_path run_path_to(const markup_run *run, int element) {
    run_path p = {.count = element < 0 ? 0 : run->elements[element].depth + 1};
    for (int i = p.count; i-- > 0; element = run->elements[element].parent)
        p.elements[i] = element;
    return p;
}

int run_path_common(const run_path *a, const run_path *b) {
    int same = 0;
    while (same < a->count && same < b->count && a->elements[same] == b->elements[same])
        same++;
    return same;
}

static bool ends_name(char c) {
    return html_is_blank(c) || c == '/' || c == '>';
}

static bool same_name(const markup *m, const run_element *a, const run_element *b) {
    size_t i = 1;
    if (m->markdown)
        return m->text[a->open] == m->text[b->open];
    while (m->text[a->open + i] == m->text[b->open + i] && !ends_name(m->text[a->open + i]))
        i++;
    return ends_name(m->text[a->open + i]) && ends_name(m->text[b->open + i]);
}

void run_path_join(run_path *p, const markup *m, const markup_run *run, int element) {
    int at = p->count;
    for (int i = 0; i < p->count; i++)
        if (p->elements[i] == element || same_name(m, &run->elements[p->elements[i]], &run->elements[element]))
            return;
    if (p->count == MARKUP_DEEPEST)
        return;
    for (; at > 0 && p->elements[at - 1] > element; at--)
        p->elements[at] = p->elements[at - 1];
    p->elements[at] = element;
    p->count++;
}

void run_words_add(run_words *words, const markup_run *run, int element, size_t word) {
    for (; element >= 0 && words[element].end != word + 1; element = run->elements[element].parent) {
        run_words *w = &words[element];
        if (w->end != word)
            w->begin = word;
        w->end = word + 1;
        if (w->end - w->begin > w->most_end - w->most) {
            w->most = w->begin;
            w->most_end = w->end;
        }
    }
}

bool run_path_has(const run_path *p, int element) {
    for (int i = 0; i < p->count; i++)
        if (p->elements[i] == element)
            return true;
    return false;
}

int run_element_at(const markup_run *run, size_t at) {
    size_t low = 0, high = run->span_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (run->spans[middle].at <= at)
            low = middle;
        else
            high = middle;
    }
    return high > 0 ? run->spans[low].element : -1;
}

int run_element_of(const markup_run *run, size_t begin, size_t end) {
    int element = run_element_at(run, begin);
    for (size_t at = begin + 1; at < end; at++)
        element = run_around(run, element, run_element_at(run, at));
    return element;
}
