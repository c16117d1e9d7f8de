/* Text files and lines. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/hub/hub.h"
#include "base/hub/hub_headers.h"
#include "base/json.h"
#include "base/yaml.h"
#include "fuzz.h"
#include "text/line_file.h"
#include "text/tokenize_13a.h"
#include "text/unicode.h"
#include "tfm/chat.h"
#include "tfm/metrics.h"
#include "tfm/text.h"

/* A file of lines, each of them also read as TSV. */
static bool lines(const uint8_t *data, size_t size) {
    tfm__line_reader reader;
    bool more = true, good = tfm__line_reader_open(&reader, fuzz_file("lines", data, size), 0) == TFM_OK;
    if (good)
        while ((good = tfm__line_reader_next(&reader, &more) == TFM_OK) && more) {
            tfm__string_view sides[2];
            char *copy = (char *)fuzz_copy((const uint8_t *)reader.text, reader.bytes);
            if (tfm__tsv_split(sides, copy, reader.bytes)) {
                fuzz_touch(sides[0].text, sides[0].bytes);
                fuzz_touch(sides[1].text, sides[1].bytes);
            }
            free(copy);
        }
    tfm__line_reader_close(&reader);
    return good;
}

#ifdef TFM_YAML
/* A configuration in YAML. */
static bool yaml(const uint8_t *data, size_t size) {
    uint8_t *copy = fuzz_copy(data, size);
    json_t *root;
    const bool good = tfm__yaml_parse(&root, (const char *)copy, size, "config.yml") == TFM_OK;
    char *text = good ? json_dumps(root, JSON_COMPACT) : NULL;
    if (text)
        fuzz_touch(text, strlen(text));
    free(text);
    json_decref(root);
    free(copy);
    return good;
}

static void yaml_seed(const char *path) {
    FILE *out = fopen(path, "wb");
    if (!out ||
        fputs("models: [model.bin]\nvocabs:\n  - \"a.spm\"\n  - a.spm # both\nbeam-size: 1\nnormalize: 1.0\nquiet: "
              "true\n",
              out) < 0 ||
        fclose(out) != 0)
        abort();
}
#endif

/* Word splitting of BLEU, and the Unicode rules for it. */
static bool words(const uint8_t *data, size_t size) {
    char *copy = (char *)fuzz_copy(data, size), *apart = NULL, *small = NULL;
    size_t bytes, at = 0, word;
    const bool good = tfm_text_check(copy, size) == TFM_OK;
    if (good) {
        if (tfm__tokenize_13a(&apart, &bytes, copy, size) == TFM_OK)
            while (tfm__unicode_next_word(&word, &at, apart, bytes))
                fuzz_touch(apart + word, at - word);
        if (tfm__unicode_lower(&small, &bytes, copy, size) == TFM_OK)
            fuzz_touch(small, bytes);
        if (tfm__unicode_trim(copy, size) > size)
            abort();
        int32_t *characters = malloc((size + 1) * sizeof(*characters));
        if (tfm__unicode_non_space(characters, copy, size) > size)
            abort();
        free(characters);
    }
    free(small);
    free(apart);
    free(copy);
    return good;
}

/* Hypotheses and references, a NUL after each; the first byte chooses the options. */
static bool metrics(const uint8_t *data, size_t size) {
    const unsigned choice = size ? data[0] : 0;
    tfm_metrics *corpus = NULL;
    bool good = size > 0;
    if (size) {
        data++;
        size--;
    }
    if (tfm_metrics_new(&corpus, &(tfm_metrics_options){.tokenizer = (tfm_metrics_tokenizer)(choice % 3),
                                                        .lowercase = choice & 4}) != TFM_OK)
        abort();
    while (size > 0) {
        size_t hypothesis, reference;
        char *a = fuzz_part(&data, &size, &hypothesis), *b = fuzz_part(&data, &size, &reference);
        good &= tfm_metrics_add(corpus, a, hypothesis, b, reference) == TFM_OK;
        free(a);
        free(b);
    }
    const double scores[] = {tfm_metrics_bleu(corpus).score, tfm_metrics_chrf(corpus)};
    for (int i = 0; i < 2; i++)
        if (!(scores[i] >= 0 && scores[i] <= 100 + 1e-9))
            abort();
    tfm_metrics_free(&corpus);
    return good;
}

static tfm_tokenizer *opened(void) {
    static tfm_tokenizer *tokenizer; /* until the program exits */
    char *dir = tokenizer ? NULL : fuzz_source("tests/golden/untied-gelu-bf16");
    if (!tokenizer && tfm_tokenizer_open(&tokenizer, dir) != TFM_OK)
        abort();
    free(dir);
    return tokenizer;
}

/* Text to token ids and back. */
static bool tokens(const uint8_t *data, size_t size) {
    char *copy = (char *)fuzz_copy(data, size), *text = NULL;
    int32_t *ids = NULL;
    size_t count;
    const bool good = tfm_tokenizer_encode(opened(), &ids, &count, TFM_SOURCE, copy, size) == TFM_OK;
    if (good) {
        fuzz_touch(ids, count * sizeof(*ids));
        if (tfm_tokenizer_decode(opened(), &text, ids, count) == TFM_OK)
            fuzz_touch(text, strlen(text));
    }
    tfm_text_free(&text);
    tfm_ids_free(&ids);
    free(copy);
    return good;
}

/* A chat template, and after a NUL the messages; without them, messages with most fields. */
static bool chat(const uint8_t *data, size_t size) {
    static const char usual[] =
        "[{\"role\": \"system\", \"content\": \"Be kind.\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", "
        "\"text\": \"H\u00e4 \\\"1\\\"\\n 2.5\"}]}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": "
        "[{\"id\": 1, "
        "\"function\": {\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5, true, null, \"x\"]}}}]}]";
    size_t bytes;
    char *template = fuzz_part(&data, &size, &bytes), *messages = size ? strndup((const char *)data, size) : NULL;
    char *exact = (char *)fuzz_copy((const uint8_t *)template, bytes), *text = NULL;
    tfm_chat *opened_chat = NULL;
    const tfm_chat_options options = {
        .add_generation_prompt = bytes & 1,
        .continue_final_message = bytes % 7 == 2,
        .tools = "[{\"function\": {\"name\": \"f\", \"parameters\": {}}}]",
        .variables = "{\"x\": 3, \"s\": \"a b\", \"l\": [3, 1, \"b\"], \"d\": {\"k\": {\"n\": 1}}}",
        .now = 1};
    bool good = tfm_chat_new(&opened_chat, exact, bytes, "{\"bos_token\": \"<s>\"}") == TFM_OK;
    good = good && tfm_chat_render(opened_chat, &text, messages ? messages : usual, &options) == TFM_OK;
    if (good)
        fuzz_touch(text, strlen(text));
    tfm_text_free(&text);
    tfm_chat_free(&opened_chat);
    free(messages);
    free(exact);
    free(template);
    return good;
}

/* A conversation as a training example. */
static bool conversation(const uint8_t *data, size_t size) {
    static const char template[] = "{% for m in messages %}{{ m.role }} {{ m.content }}</s>{% endfor %}"
                                   "{% if add_generation_prompt %}assistant {% endif %}";
    static tfm_chat *opened_chat; /* until the program exits */
    char *copy = (char *)fuzz_copy(data, size);
    int32_t *ids = NULL;
    size_t count = 0;
    if (!opened_chat &&
        tfm_chat_new(&opened_chat, template, sizeof(template) - 1, "{\"eos_token\": \"</s>\"}") != TFM_OK)
        abort();
    const bool good = tfm_chat_encode_example(opened_chat, &ids, &count, opened(), copy, size) == TFM_OK;
    if (good)
        fuzz_touch(ids, count * sizeof(*ids));
    tfm_ids_free(&ids);
    free(copy);
    return good;
}

/* ---- Answers of the Hugging Face hub -------------------------------------------------------------------- */

/* The same JSON for every downloaded file. */
static tfm_status read_known(void *user, json_t **out, const tfm__hub_file *file) {
    (void)file;
    *out = json_incref(user);
    return TFM_OK;
}

/* All paths and names of blobs stay in the cache folder. */
static void check_plan(const tfm__hub_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        const tfm__hub_file *file = &list->files[i];
        if (!tfm__hub_path_is_safe(file->path) || (file->etag && !tfm__hub_word_is_safe(file->etag)))
            abort();
    }
}

/* A name, header lines, an answer of the API (a list of files, or one with `siblings`), and a JSON file. */
static bool hub(const uint8_t *data, size_t size) {
    size_t bytes[4] = {0};
    char *parts[4];
    json_t *answer = NULL, *known = NULL;
    tfm__hub_name name;
    tfm__hub_headers headers = {0};
    tfm__hub_list list = {0};
    for (int i = 0; i < 4; i++)
        parts[i] = fuzz_part(&data, &size, &bytes[i]);
    if (!tfm__hub_name_parse(&name, parts[0]))
        name = (tfm__hub_name){.repo = "acme/tiny"};
    for (char *line = parts[1]; *line; line += strcspn(line, "\n"), line += *line != '\0')
        tfm__hub_header(&headers, line, strcspn(line, "\n"));
    bool good = tfm__json_read(&answer, parts[2], bytes[2], "the answer") == TFM_OK;
    if (tfm__json_read(&known, parts[3], bytes[3], "the file") != TFM_OK)
        known = NULL;
    if (good && json_is_array(answer))
        good = tfm__hub_list_add_tree(&list, answer, name.repo) == TFM_OK;
    else if (good)
        good =
            tfm__hub_info_commit(answer, name.repo) && tfm__hub_list_add_siblings(&list, answer, name.repo) == TFM_OK;
    good = good && tfm__hub_plan(&list, &name, read_known, known) == TFM_OK;
    check_plan(&list);
    tfm__hub_list_free(&list);
    json_decref(answer);
    json_decref(known);
    for (int i = 0; i < 4; i++)
        free(parts[i]);
    return good;
}

static void hub_seed(const char *path) {
    static const char SEED[] =
        "acme/tiny@v2:Q4_K_M\0HTTP/1.1 302 Found\nX-Linked-Etag: \"ab\"\nX-Linked-Size: 12\nContent-Range: bytes "
        "1-2/3\n"
        "Link: <http://h/x>; rel=\"next\"\nX-Repo-Commit: "
        "ab\n\0[{\"type\":\"file\",\"path\":\"m-Q4_K_M.gguf\",\"oid\":\"a\","
        "\"size\":3},{\"path\":\"model.safetensors.index.json\",\"lfs\":{\"oid\":"
        "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\"size\":3}},{\"path\":\"modules.json\"},"
        "{\"path\":\"1_Pooling/"
        "config.json\"},{\"path\":\"a.safetensors\"}]\0{\"weight_map\":{\"t\":\"a.safetensors\"}}";
    FILE *out = fopen(path, "wb");
    if (!out || fwrite(SEED, 1, sizeof(SEED), out) != sizeof(SEED) || fclose(out) != 0)
        abort();
}

const fuzz_target fuzz_text[] = {
    {"lines", lines, NULL},    {"words", words, NULL}, {"metrics", metrics, NULL},

    {"tokens", tokens, NULL},  {"chat", chat, NULL},   {"conversation", conversation, NULL}, {"hub", hub, hub_seed},
#ifdef TFM_YAML
    {"yaml", yaml, yaml_seed},
#endif
    {NULL, NULL, NULL}};
