"""Writes regex.json: matches of regular expressions from Oniguruma, in Hugging Face's `tokenizers`.
    python3 make_regex.py > regex.json
An object: "texts", and "patterns": each has the expression and, for each text, its non-empty matches as bytes
[begin, end, begin, end, ...].
Needs the package tokenizers; its version is in "tokenizers"."""
import json

import tokenizers
from tokenizers import Regex, pre_tokenizers

TEXTS = [
    "Hello, world!  It's 3.14 times\tas\u00a0much\u2003here.\r\n\n end",
    "\u00c9t\u00e9 2024: na\u00efve_caf\u00e9 \u00b2\u00b3\u00b9\u00bc\u00bd\u00be a\u0301b "
    "\u0915\u094d\u0937 \u0661\u0662\u0663 \u2167",
    "\u6f22\u5b57\u3068\u304b\u306a\u3001\u30ab\u30bf\u30ab\u30ca\u30fc\uff01 \ud55c\uad6d\uc5b4 "
    "\u0440\u0443\u0441\u0441\u043a\u0438\u0439 \u03b5\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac "
    "\u05e2\u05d1\u05e8\u05d9\u05ea",
    "aAbBcC xyz-XYZ {a} {2} a{2} [x]]y\\z 0x1F dead BEEF $100 50% #tag @me ^_^ a|b ~`'\"<>+=",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \ufe0f\u20e3 \U00020000 aaa aaaa ab abab "
    "ababab \u0001\u007f\u0085\u2028\u2029x",
]
PATTERNS = [
    # blanks, words, hexadecimal digits and their complements, alone and in classes
    r"\s", r"\S+", r"\w", r"\w+", r"\W+", r"\h+", r"\H+", r"[\s]+", r"[\S]+", r"[\w]+", r"[^\w\s]+", r"[\h]{2,}",
    r"[^\h]", r"\d+", r"\D+",
    r"[\d_]+",
    # edges of words
    r"\b\w", r"\w\b", r"\B\w", r"\w\B.", r"\bab\b", r"[a\b]",
    # characters by number
    r"\u00e9", r"[\u00c0-\u00ff]+", r"\x{6f22}", r"[\x{3040}-\x{30ff}]+", r"\x41", r"[\x61-\x63]+", r"\t",
    r"[\r\n]+", r"\0", r"\x01",
    # properties and scripts
    r"\p{L}+", r"\P{L}+", r"\p{^L}+", r"\p{Lu}", r"\p{N}+", r"\p{Nd}+", r"\p{P}+", r"\p{S}+", r"\p{M}", r"\p{Z}+",
    r"\p{Han}+", r"\P{Han}+",
    r"\p{^Han}+", r"\p{Hiragana}+", r"[\p{Katakana}]+", r"[\p{Han}\p{Hangul}]+", r"[^\p{Cyrillic}\p{Greek}]+",
    r"\p{Hebrew}+", r"\p{Latin}+",
    r"\p{Punct}+", r"\p{punct}+", r"\p{Space}+", r"\p{space}", r"\p{Digit}+", r"\p{Alpha}+",
    r"[\p{Alpha}\p{Digit}]+", r"\p{Cc}",
    # POSIX classes
    r"[[:alpha:]]+", r"[[:digit:]]+", r"[[:alnum:]]+", r"[[:upper:]]", r"[[:lower:]]+", r"[[:space:]]+",
    r"[[:punct:]]+", r"[[:word:]]+",
    r"[[:xdigit:]]+", r"[^[:alpha:][:space:]]+",
    # classes
    r"[]x]+", r"[^]x]+", r"[a-c]+", r"[^a-z]+", r"[.*+?]+", r"[\]\\]", r"[\-x]+",
    r"[$%#@^]", "[\u4e00-\u9fff]+", "[\U0001f600]",
    # groups, alternatives, look-around
    r"(ab)+", r"(?:ab)+", r"(?i:ABAB)", r"(?i)xyz", r"(?-i:x)y", r"a(?=b)", r"a(?!b)", r"(?<=a)b", r"(?<!a)b",
    r"(?>a+)b", r"((a)|(b))+",
    r"a|b|c", r"(?i:'s|'t|'re)", r"(?m:a.*d)", r"(?x: a b )", r"(?:a|(?:b|(?:c)))+",
    # quantifiers
    r"a*b", r"a+?", r"a??b", r"a{2}", r"a{2,}", r"a{,2}b", r"a{2,3}", r"a{2,3}?", r"a{2}+", r"a{2,3}+", r"a{1,2}+b",
    r"(ab){2}+", r"[ab]{2}?x",
    r"(?:ab){2,3}+", r"\w{2}?", r"a{2}?b", r"a++b", r"a*+b", r"a{,}", r"a{x}", r"{a}", r"\{2\}", r"a{2",
    r"\p{L}{2}+", r".{3}", r"[a-z]{2}?",
    # anchors and any character
    r"^H", r"end$", r"^\s+", r"\AH", r"d\z", r"d\Z", r".", r"..$", r"\R",
    # patterns of well-known tokenizers
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+",
    r"\w+|[^\w\s]+",
]


def matches(pattern, text):
    pieces = pre_tokenizers.Split(Regex(pattern), "removed", invert=True).pre_tokenize_str(text)
    at = [len(text[:i].encode()) for i in range(len(text) + 1)]
    return [at[edge] for _, span in pieces for edge in span]


def main():
    found = []
    for pattern in PATTERNS:
        try:
            found.append([pattern, [matches(pattern, text) for text in TEXTS]])
        except Exception as error:  # invalid for Oniguruma too: null
            found.append([pattern, None, str(error).splitlines()[-1]])
    print('{"tokenizers": "%s",\n"texts": %s,\n"patterns": [\n%s]}' % (
        tokenizers.__version__, json.dumps(TEXTS), ",\n".join(json.dumps(one, separators=(",", ":")) for one in found)))


main()
