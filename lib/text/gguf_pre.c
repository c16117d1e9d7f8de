/* The pre-tokenizers that llama.cpp knows by name. Expressions are those of the models' own tokenizer.json where these
 * have one form; each step isolates its matches. */
#include <string.h>
#include "text/gguf_pre.h"
#include "text/pretokenize.h"

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SYMBOLS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define BLANKS "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA3 CONTRACTION "|" LETTERS "|\\p{N}{1,3}|" SYMBOLS "|" BLANKS
#define QWEN2 CONTRACTION "|" LETTERS "|\\p{N}|" SYMBOLS "|" BLANKS

/* Words with capitals only at their beginnings. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(upper, lower, ending)                                                                                    \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" ending "|[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" ending
#define SYMBOLS_SLASH " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"

#define CJK "\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}"
#define DEEPSEEK_CJK "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
/* Cased letters, as far as JavaScript's Unicode had them. */
#define DEEPSEEK_CASED                                                                                                 \
    "(?![\\x{560}-\\x{588}\\x{10c7}-\\x{10ff}\\x{1c80}-\\x{1c8a}\\x{2d00}-\\x{2d2d}\\x{a790}-\\x{ab6f}\\x{10570}-"     \
    "\\x{105bc}\\x{16e40}-\\x{1e8ff}])[\\p{Lu}\\p{Ll}\\p{Lt}]"
#define ASCII_WORD "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
#define DEEPSEEK3 ASCII_WORD "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" BLANKS
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"
#define HAN_FREE(class) "(?:(?!\\p{Han})" class ")"
#define LINES "[^\\n]+|\\n+"

static const tfm__gguf_pre PRES[] = {
    {.names = "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert mpt olmo jais "
              "trillion granite-docling exaone4",
     .steps = {GPT2}},
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     .steps = {LLAMA3},
     .ignore_merges = true,
     .add_bos = true},
    {.names = "smaug-bpe dbrx chatglm-bpe", .steps = {LLAMA3}},
    {.names = "glm4 glm5", .steps = {LLAMA3}, .ignore_merges = true},
    {.names = "qwen2 stablelm2 deepseek-r1-qwen kormo f2llmv2 megrez hunyuan solar-open grok-2", .steps = {QWEN2}},
    {.names = "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", .steps = {"\\p{N}", GPT2}},
    {.names = "qwen35",
     .steps = {CONTRACTION
               "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" BLANKS}},
    {.names = "tekken",
     .steps = {CASED(UPPER, LOWER, "") "|\\p{N}|" SYMBOLS_SLASH "|" BLANKS},
     .ignore_merges = true,
     .add_bos = true},
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2",
     .steps = {CASED(UPPER, LOWER, CONTRACTION "?") "|\\p{N}{1,3}|" SYMBOLS_SLASH "|" BLANKS}},
    {.names = "granite-embed-multi-97m",
     .steps = {CASED(UPPER, LOWER, CONTRACTION "?") "|\\p{N}{1,3}|" SYMBOLS_SLASH "|" BLANKS},
     .ignore_merges = true},
    {.names = "tiny_aya cohere2moe",
     .steps = {"\\d{1,3}(?=(?:\\d{3})*\\b)",
               CASED(UPPER, LOWER, CONTRACTION "?") "|\\p{N}{1,3}|" SYMBOLS_SLASH "|" BLANKS}},
    {.names = "deepseek-llm",
     .steps = {"[\\r\\n]", "\\s?(?:" DEEPSEEK_CASED ")+",
               "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+", "\\s+$",
               DEEPSEEK_CJK, "\\p{N}+"}},
    {.names = "deepseek-coder", .steps = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, "\\p{N}"}},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm hy_v4", .steps = {"\\p{N}{1,3}", "[" CJK "]+", DEEPSEEK3}},
    {.names = "spark2_5",
     .steps = {"\\p{N}{1,3}", "[" CJK "]+",
               ASCII_WORD "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+",
               "\\p{N}"}},
    {.names = "falcon", .steps = {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {.names = "default", .steps = {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.names = "jina-v1-en jina-v2-code roberta-bpe", .steps = {GPT2}, .add_sep = true},
    {.names = "poro-chat bloom gpt3-finnish", .steps = {BLOOM}},
    {.names = "viking", .steps = {BLOOM, "\\p{N}"}},
    {.names = "jais-2",
     .steps = {CONTRACTION
               "|" LETTERS "|\\p{N}{1,3}|" SYMBOLS
               "|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|"
               "\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s"}},
    {.names = "chameleon",
     .steps = {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]", GPT2},
     .add_bos = true},
    {.names = "superbpe", .steps = {"\\p{N}+", "(?=(?:\\d{3})+(?!\\d))"}},
    {.names = "bailingmoe bailingmoe2 llada-moe",
     .steps = {"'(?i:[sdmt]|ll|ve|re)|" LETTERS "|\\p{N}|" SYMBOLS "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {.names = "seed-coder", .steps = {CONTRACTION "|" LETTERS "|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" BLANKS}},
    {.names = "exaone-moe",
     .steps = {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|"
                           " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {.names = "minicpm5",
     .steps = {"\\p{N}{1,3}", CONTRACTION "|" LETTERS "|\\p{N}+|" SYMBOLS "|" BLANKS},
     .ignore_merges = true},
    {.names = "ufakzeka", .steps = {LETTERS "|\\p{N}|" SYMBOLS "|" BLANKS}},
    {.names = "laguna", .steps = {LINES, QWEN2}},
    {.names = "youtu",
     .steps = {"[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}"
               "\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|[\\x{3105}-\\x{312f}]+|"
               "[" CJK "]+",
               CASED(UPPER, LOWER, CONTRACTION "?") "|\\p{N}|" SYMBOLS_SLASH "|" BLANKS},
     .ignore_merges = true},
    {.names = "afmoe",
     .steps = {"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))",
               "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{f900}-\\x{faff}\\x{3040}-\\x{30ff}\\x{ff65}-\\x{ff9f}"
               "\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}"
               "\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+",
               DEEPSEEK3}},
    {.names = "kimi-k2",
     .steps = {"\\p{Han}+|" CASED(HAN_FREE(UPPER), HAN_FREE(LOWER), CONTRACTION "?") "|\\p{N}{1,3}|" SYMBOLS
                                                                                     "|" BLANKS}},
    {.names = "gemma4 granite-embed-multi-311m sarvam-moe", .steps = {LINES}, .raw = true},
};

const tfm__gguf_pre *tfm__gguf_pre_find(const char *name, size_t bytes) {
    for (size_t i = 0; bytes && i < TFM__COUNT(PRES); i++)
        for (const char *at = PRES[i].names; *at; at += strcspn(at, " "), at += *at == ' ')
            if (strcspn(at, " ") == bytes && memcmp(at, name, bytes) == 0)
                return &PRES[i];
    return NULL;
}

json_t *tfm__gguf_pre_section(const tfm__gguf_pre *pre) {
    json_t *steps = json_array();
    bool good = steps != NULL;
    for (int i = 0; i < TFM__GGUF_PRE_STEPS && pre->steps[i]; i++)
        good &= json_array_append_new(steps, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                                                       pre->steps[i], "behavior", "Isolated", "invert", 0)) == 0;
    if (!pre->raw)
        good &= json_array_append_new(steps, json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space",
                                                       0, "trim_offsets", 1, "use_regex", 0)) == 0;
    if (good)
        return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", steps);
    json_decref(steps);
    return NULL;
}

/* ---- Recognition -------------------------------------------------------------------------------------- */

/* Contractions, case, digits of several lengths and scripts, blanks of all kinds, CJK, marks, punctuation, emoji. */
static const char SAMPLE[] =
    "Hello World, it's 'S we'LL I'm don't YOU'RE camelCase HTTPServer fooBAR'sB e\xcc\x81te\xcc\x81 1 12 123 1234567 "
    "x123y "
    "3.14 a1b22c333 \xd9\xa1\xd9\xa2\xd9\xa3\xd9\xa4 \xc2\xbd\xc2\xb2 ()[]{}!?.,;:-_/\\ ...!!! a/b //\n/x ==> $5+3=8 "
    "^~|`"
    "  two   three\ttab\n\n \n\t\n  line\r\nend \xc2\xa0nbsp "
    "\xe4\xbd\xa0\xe5\xa5\xbd\xef\xbc\x8c\xe4\xb8\x96\xe7\x95\x8c"
    "abc\xe4\xb8\x96 \xe3\x81\xb2\xe3\x82\x89\xe3\x82\xab\xe3\x82\xbf \xed\x95\x9c\xea\xb5\xad\xec\x96\xb4 "
    "\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 \xd5\xa1\xd5\xa2 \xe0\xa4\x95\xe0\xa4\xbf\xe0\xa4\xa4\xe0\xa4\xbe"
    "\xe0\xa4\xac\xe0\xa5\xa4 \xe0\xb8\xa0\xe0\xb8\xb2\xe0\xb8\xa9\xe0\xb8\xb2 \xf0\x9f\x98\x80\xf0\x9f\x9a\x80x "
    "\xe2\x80\x9cquoted\xe2\x80\x9d\xe2\x80\xa6 #tag @at .dot IMGIMGABZ <sentinel:0>\n        eight spaces";

/* The words of the sample. */
static tfm_status split_sample(tfm__spans *spans, const json_t *section, const char *path) {
    tfm__pretokenizer *steps;
    tfm__spans spare = {0};
    tfm__regex_memory memory = {0};
    spans->count = spans->text.count = 0;
    tfm_status status = tfm__pretokenizer_read(&steps, section, path);
    tfm__bytes_add(&spans->text, SAMPLE, sizeof(SAMPLE) - 1);
    tfm__spans_add(spans, 0, sizeof(SAMPLE) - 1, -1, true);
    if (status == TFM_OK && spans->text.failed)
        status = TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__pretokenizer_run(steps, spans, &spare, &memory);
    if (steps)
        tfm__pretokenizer_free(&steps);
    tfm__regex_memory_free(&memory);
    tfm__spans_free(&spare);
    return status;
}

static bool same(const tfm__spans *a, const tfm__spans *b) {
    bool equal = a->count == b->count && a->text.count == b->text.count &&
                 memcmp(a->text.data, b->text.data, a->text.count) == 0;
    for (size_t i = 0; equal && i < a->count; i++)
        equal = a->items[i].begin == b->items[i].begin && a->items[i].end == b->items[i].end;
    return equal;
}

tfm_status tfm__gguf_pre_match(const tfm__gguf_pre **out, const json_t *root, const char *path) {
    const bool ignore = json_is_true(json_object_get(json_object_get(root, "model"), "ignore_merges"));
    tfm__spans wanted = {0}, found = {0};
    tfm_status status = split_sample(&wanted, json_object_get(root, "pre_tokenizer"), path);
    *out = NULL;
    for (size_t i = 0; i < TFM__COUNT(PRES) && status == TFM_OK && !*out; i++) {
        if (PRES[i].raw || PRES[i].ignore_merges != ignore)
            continue;
        json_t *section = tfm__gguf_pre_section(&PRES[i]);
        status = section ? split_sample(&found, section, path) : TFM_ERROR_MEMORY;
        json_decref(section);
        if (status == TFM_OK && same(&wanted, &found))
            *out = &PRES[i];
    }
    tfm__spans_free(&wanted);
    tfm__spans_free(&found);
    return status;
}
