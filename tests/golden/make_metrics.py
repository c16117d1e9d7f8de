"""Writes metrics.json: sacreBLEU's results for small corpora, and its 13a tokenizer and Python's lower-casing on single
lines, for test_metrics.c.

    pip install sacrebleu==2.6.0
    python make_metrics.py
"""
import json
import pathlib
import random

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF

TOKENIZERS = ["13a", "none", "char"]

# name, hypotheses, references
CORPORA = [
    ("identical", ["The cat sat on the mat.", "It is raining again."], ["The cat sat on the mat.", "It is raining again."]),
    ("nothing in common", ["aaa bbb ccc ddd eee"], ["xyz wvu tsr qpo nml"]),
    ("empty hypothesis", [""], ["The cat sat on the mat."]),
    ("empty reference", ["The cat sat on the mat."], [""]),
    ("both empty", [""], [""]),
    ("blanks alone", [" \t \u00a0\u3000"], ["\u2003"]),
    ("an empty hypothesis among others", ["", "Es regnet schon wieder heute."], ["Guten Tag.", "Es regnet schon wieder."]),
    ("an empty reference among others", ["Guten Tag.", "Es regnet schon wieder heute."], ["", "Es regnet schon wieder."]),
    ("one word a line", ["cat", "dog", "house"], ["cat", "dog", "mouse"]),
    ("one word, the same", ["cat"], ["cat"]),
    ("one character", ["a"], ["a"]),
    ("three words, the same", ["a b c"], ["a b c"]),
    ("no two words in order", ["one four two six three"], ["one two three four five six"]),
    ("no three in order", ["one two nine four five eight"], ["one two three four five six"]),
    ("no four in order", ["one two three nine four five"], ["one two three four five six"]),
    ("words repeated", ["the the the the the the the"], ["The cat is on the mat and the dog"]),
    ("too long", ["the cat the cat sat down on the the mat mat there ."], ["the cat sat on the mat ."]),
    ("too short", ["the cat"], ["the cat sat on the mat ."]),
    ("letters' size", ["THE CAT SAT ON THE MAT"], ["the cat sat on the mat"]),
    ("entities", ['&quot;Tom &amp; Jerry&quot; &lt;b&gt; &amp;lt; &amp;amp; &amp;quot; &apos; &#39; &QUOT; &quot &;'],
     ['"Tom & Jerry" <b> < & &quot; \' \' " " &;']),
    ("skipped", ["a <skipped> b<skipped>c <SKIPPED> <skip<skipped>ped> d"], ["a b c d skipped"]),
    ("numbers", ["1,000.50 3.14 ,5 5, .5 5. 1-2 a-1 1-a -1 1--2 10:30 1/2 50% 1.2.3.4 1,,2 1.,2"],
     ["1,000.50 3.14 , 5 5 , . 5 5 . 1 - 2 a-1 1 - a -1 1 - -2 10 : 30 1 / 2 50 %"]),
    ("stops and dashes", ["Well... no, no,no . --- a.b.c U.S.A. e.g., (i.e.) it's don't 'quoted' a--b semi-final"],
     ["Well ... no , no , no . --- a . b . c U.S.A . e.g. , it's don't ' quoted ' a -- b semi - final"]),
    ("symbols of ASCII", ["!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ a!b\"c#d$e%f&g'h(i)j*k+l,m-n.o/p:q;r<s=t>u?v@w[x\\y]z^1_2`3{4|5}6~7"],
     ["! \" # $ % & ' ( ) * + , - . / : ; < = > ? @ [ \\ ] ^ _ ` { | } ~"]),
    ("line ends inside", ["inter-\nnational trade\nis -\n good", "trailing-\n", "a\r\nb \r c"],
     ["international trade is good", "trailing-", "a b c"]),
    ("German", ["Äpfel und Öl sind „größer“ als Übel – sagte er…"], ["äpfel und öl sind „GRÖSSER“ als übel — sagte Er ..."]),
    ("Unicode's spaces", ["eins\u00a0zwei\u2009drei\u3000vier\u1680fünf\u2028sechs\u0085sieben\u001cacht\u200bneun\u202fzehn\ufeff"],
     ["eins zwei drei vier fünf sechs sieben acht neun zehn"]),
    ("sigma", ["ΟΔΟΣ ΣΟΦΌΣ ΣΑΣ. Σ Α.Σ ΑΣ\u0301 ΑΣ'Α"], ["οδος σοφός σας. σ α.ς ας\u0301 ασ'α"]),
    ("dotted and other letters", ["İSTANBUL IĞDIR ǅ ŒUVRE ẞ Ω K Å 𝐀 𐐀 Ⓐ Ａ ᾼ Ǆ Ŀ"], ["i̇stanbul iğdir ǆ œuvre ß ω k å 𝐀 𐐨 ⓐ ａ ᾳ ǆ ŀ"]),
    ("Chinese", ["猫坐在垫子上。", "今天天气很好,我们去公园吧"], ["猫正坐在垫子上。", "今天天气真好，我们去公园吧！"]),
    ("Japanese and spaces", ["これは ペンです。", "東京　に行く"], ["これはペンです。", "東京に 行く"]),
    ("beyond the first plane", ["𠮷野家 😀😀 👨‍👩‍👧 é e\u0301"], ["𠮷野屋 😀 👨‍👩‍👦 e\u0301 é"]),
    ("Arabic, Hebrew, Hindi", ["السلام عليكم، يا صديقي.", "שלום, עולם!", "नमस्ते दुनिया।"],
     ["السلام عليكم يا صديقي", "שלום עולם!", "नमस्ते, दुनिया।"]),
    ("words without a space", ["Donaudampfschifffahrtsgesellschaft"], ["Donaudampfschiffahrtsgesellschaft"]),
    ("characters, fewer than six", ["abc", "abcdefg"], ["abcde", "ab"]),
    ("references shorter than an n-gram", ["abcdefgh", "xyz"], ["abc", "xyzw"]),
    ("a long line", ["so it goes on and on " * 40], ["so it goes on and on and " * 30]),
]

# Additional lines for 13a and lower-casing only.
PARTS = ["a", "B", "ä", "Σ", "σ", "İ", "猫", "😀", "0", "9", "12", ".", ",", "-", "'", "/", "&", "&quot;", "&amp;", "&lt;",
         "&gt;", "amp;", "lt;", "quot;", "<skipped>", "<", "skipped>", " ", "  ", "\t", "\n", "\u00a0", "\u0301", "(", ")",
         "%", "_", "{", "~", "\u001f", "\u007f", "…", "the", "cat", "the cat", "sat."]


def lines_of(rng, longest):
    return "".join(rng.choice(PARTS) for _ in range(rng.randint(0, longest)))


def changed(rng, line):
    """A line that partly matches this one."""
    parts = list(line)
    for _ in range(rng.randint(0, 3)):
        at = rng.randint(0, len(parts))
        parts[at:at + rng.randint(0, 3)] = rng.choice(PARTS)
    return "".join(parts)


def scores(hypotheses, references, tokenizer, lowercase):
    bleu = BLEU(tokenize=tokenizer, lowercase=lowercase, force=True).corpus_score(hypotheses, [references])
    chrf = CHRF(lowercase=lowercase).corpus_score(hypotheses, [references])
    return {"tokenizer": tokenizer, "lowercase": lowercase, "bleu": round(bleu.score, 9),
            "precisions": [round(p, 9) for p in bleu.precisions], "bp": round(bleu.bp, 12),
            "ratio": round(float(bleu.ratio), 12), "hyp_len": bleu.sys_len, "ref_len": bleu.ref_len,
            "matches": [int(n) for n in bleu.counts], "totals": [int(n) for n in bleu.totals], "chrf2": round(chrf.score, 9)}


def main():
    rng = random.Random(20)
    corpora = [{"name": name, "hypotheses": h, "references": r,
                "scores": [scores(h, r, t, lower) for t in TOKENIZERS for lower in (False, True)]}
               for name, h, r in CORPORA]
    for number in range(60):
        references = [lines_of(rng, 12) for _ in range(rng.randint(1, 4))]
        hypotheses = [changed(rng, line) for line in references]
        corpora.append({"name": f"random {number}", "hypotheses": hypotheses, "references": references,
                        "scores": [scores(hypotheses, references, rng.choice(TOKENIZERS), rng.random() < 0.5)]})
    lines = [line for _, h, r in CORPORA for line in h + r if len(line) < 200]
    lines += [lines_of(rng, 10) for _ in range(200)]
    tokenize = BLEU(force=True)._preprocess_segment
    golden = {"made with": f"sacrebleu {sacrebleu.__version__}", "corpora": corpora,
              "lines": [[line, tokenize(line), line.lower()] for line in lines]}
    text = json.dumps(golden, ensure_ascii=True, indent=None, separators=(",", ":"))
    # A line for each corpus and each line, for readable diffs.
    text = text.replace(',{"name"', ',\n{"name"').replace('],["', '],\n["').replace('"lines":[', '\n"lines":[\n')
    pathlib.Path(__file__).with_name("metrics.json").write_text(text + "\n")


main()
