"""Creates tests/golden/tokenizers: small tokenizers of every kind, and the results of `tokenizers` and transformers for
difficult lines. older_tokenizers.py adds those with files from before tokenizer.json. Python 3.11, tokenizers 0.23.3,
transformers 5.23.0, sentencepiece 0.2.3.

    python make_tokenizers.py
    python make_tokenizers.py --texts FILE [--times N] -o DIR   trained on a file and compared on all of its lines,
                                                                with vocabularies N times as large (default 16)
"""

import argparse
import io
import json
import shutil
from pathlib import Path

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders as D
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P
from tokenizers import processors as R
from tokenizers import trainers as T
from tokenizers.models import BPE, Unigram, WordLevel, WordPiece

import older_tokenizers
from tokenizer_texts import SENTENCES, hard_lines

OUT = Path(__file__).parent / "tokenizers"
LINES = hard_lines()
TEXTS = SENTENCES * 3  # training texts
TIMES = 1  # factor of the sizes below
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def learn(tokenizer, trainer, size, specials, **options):
    tokenizer.train_from_iterator(
        TEXTS, trainer(vocab_size=size * TIMES, special_tokens=specials, show_progress=False, **options)
    )


def byte_level(size, specials=(), **options):
    tokenizer = Tokenizer(BPE(**options))
    tokenizer.pre_tokenizer = P.ByteLevel(add_prefix_space=False)
    learn(tokenizer, T.BpeTrainer, size, list(specials), initial_alphabet=P.ByteLevel.alphabet())
    tokenizer.decoder = D.ByteLevel()
    return tokenizer


def gpt2():
    t = byte_level(420)
    t.post_processor = R.ByteLevel(trim_offsets=False)
    t.add_special_tokens(["<|end|>", AddedToken("<mask>", lstrip=True, special=True)])
    t.add_tokens([AddedToken("river", single_word=True), AddedToken("harbour", rstrip=True), AddedToken("  ", normalized=False)])
    return t


def llama3():
    t = byte_level(400, ["<s>", "</s>"], ignore_merges=True)
    t.pre_tokenizer = P.Sequence(
        [P.Split(Regex(LLAMA3), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    around = R.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 0)])
    t.post_processor = R.Sequence([R.ByteLevel(trim_offsets=True), around])
    return t


def roberta():
    t = byte_level(380, ["<s>", "<pad>", "</s>", "<unk>"])
    t.normalizer = N.NFC()
    t.pre_tokenizer = P.Sequence([P.Digits(individual_digits=True), P.Punctuation("contiguous"), P.ByteLevel()])
    t.post_processor = R.RobertaProcessing(("</s>", 2), ("<s>", 0))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    return t


def bert(cleanup=True, **options):
    t = Tokenizer(WordPiece(unk_token="[UNK]", max_input_chars_per_word=60))
    t.normalizer = N.BertNormalizer(**options)
    t.pre_tokenizer = P.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    learn(t, T.WordPieceTrainer, 600, specials, limit_alphabet=240 * TIMES)
    t.post_processor = R.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    t.decoder = D.WordPiece(cleanup=cleanup)
    t.add_tokens(["HARBOUR"])
    return t


def wordpiece():
    t = bert(cleanup=False)
    t.normalizer = N.Sequence([N.NFD(), N.Lowercase(), N.StripAccents()])
    t.pre_tokenizer = P.Whitespace()
    t.post_processor = None
    return t


def sentencepiece_model(kind, size=420, **options):
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=file, model_type=kind, vocab_size=size * TIMES, minloglevel=3,
        character_coverage=0.98, hard_vocab_limit=False, **options,
    )
    return file.getvalue()


def pieces(model):
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    return [(p.piece, p.score) for p in proto.pieces], proto.normalizer_spec.precompiled_charsmap


def small_rules():
    """A small normalization table: a few of NFKC's rules, with one that removes a character."""
    path = OUT / "rules.tsv"
    rules = {"ﬁ": "fi", "①": "1", "½": "1⁄2", "Ａ": "A", "e\u0301": "é", "\u00a0": " ", "\u3000": " ", "\t": " ", "\n": " ",
             "\u200b": "", "㌔": "キロ", "ｶﾞ": "ガ", "ﷺ": "صلى الله", "…": "..."}
    path.write_text("".join(
        f"{' '.join(f'{ord(c):X}' for c in key)}\t{' '.join(f'{ord(c):X}' for c in value)}\n" for key, value in rules.items()
    ))
    return {"normalization_rule_tsv": str(path)}


def unigram():
    vocabulary, rules = pieces(sentencepiece_model("unigram", **small_rules()))
    t = Tokenizer(Unigram(vocabulary, 0, False))
    t.normalizer = N.Sequence([N.Precompiled(rules), N.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = P.Metaspace()
    t.decoder = D.Metaspace()
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    t.post_processor = R.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return t


def unigram_bytes():
    vocabulary, _ = pieces(sentencepiece_model("unigram", 620, byte_fallback=True, normalization_rule_name="identity"))
    t = Tokenizer(Unigram(vocabulary, 0, True))
    t.normalizer = N.Sequence([N.Nmt(), N.NFC(), N.Strip()])
    t.pre_tokenizer = P.Sequence([P.WhitespaceSplit(), P.Metaspace(prepend_scheme="first")])
    t.decoder = D.Sequence([D.ByteFallback(), D.Metaspace(prepend_scheme="first")])
    t.post_processor = R.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)])
    return t


def byte_pairs():
    from transformers.tokenization_utils_base import generate_merges

    model = sentencepiece_model("bpe", 640, byte_fallback=True, normalization_rule_name="identity")
    vocabulary = {piece: i for i, (piece, _) in enumerate(pieces(model)[0])}
    return Tokenizer(BPE(vocabulary, generate_merges(vocabulary), unk_token="<unk>", fuse_unk=True, byte_fallback=True))


def llama2():
    t = byte_pairs()
    t.normalizer = N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")])
    t.decoder = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    t.post_processor = R.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return t


def gemma():
    t = byte_pairs()
    t.normalizer = N.Replace(" ", "▁")
    t.pre_tokenizer = P.Split(" ", "merged_with_previous")
    t.decoder = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()])
    t.add_special_tokens(["<s>", "</s>"])
    t.add_tokens([AddedToken("\n" * i, normalized=False) for i in range(1, 4)])
    return t


def suffix():
    t = Tokenizer(BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    t.normalizer = N.BertNormalizer(strip_accents=False)
    t.pre_tokenizer = P.BertPreTokenizer()
    t.decoder = D.BPEDecoder("</w>")
    learn(t, T.BpeTrainer, 420, ["<unk>"], end_of_word_suffix="</w>", limit_alphabet=120 * TIMES)
    return t


def prefix():
    t = Tokenizer(BPE(unk_token="<unk>", continuing_subword_prefix="##", fuse_unk=True))
    t.normalizer = N.NFKD()
    t.pre_tokenizer = P.Sequence([P.WhitespaceSplit(), P.Punctuation("merged_with_next")])
    learn(t, T.BpeTrainer, 420, ["<unk>"], continuing_subword_prefix="##", limit_alphabet=120 * TIMES)
    return t


def words():
    t = Tokenizer(WordLevel(unk_token="<unk>"))
    t.normalizer = N.Sequence([N.NFKC(), N.Replace(Regex(r"\d"), "0")])
    t.pre_tokenizer = P.Sequence([P.CharDelimiterSplit(" "), P.UnicodeScripts(), P.Split(Regex(r"[^\w\s]+"), "removed", invert=False)])
    learn(t, T.WordLevelTrainer, 200, ["<unk>"])
    return t


def classes():
    """Character classes inside and outside of brackets, and added tokens that normalization changes."""
    t = byte_level(380, ["<s>", "</s>"])
    t.normalizer = N.Lowercase()
    t.pre_tokenizer = P.Sequence([
        P.Split(Regex(r"[^\w\s]"), "contiguous"), P.Split(Regex(r"\x{e9}|[[:punct:]]"), "isolated"),
        P.Split(Regex(r"\w+"), "removed", invert=True), P.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.add_tokens([AddedToken("日", single_word=True), AddedToken("ß", rstrip=True)])
    t.add_special_tokens([AddedToken("The", normalized=True, special=True), AddedToken("don't", normalized=True, special=True)])
    return t


def expected(tokenizer):
    """`pairs`: each line with the next one."""
    ids = [tokenizer.encode(line).ids for line in LINES]
    return {
        "ids": ids,
        "plain": [tokenizer.encode(line, add_special_tokens=False).ids for line in LINES[30:40]],
        "pairs": [tokenizer.encode(a, b).ids for a, b in zip(LINES[30:40], LINES[31:41])],
        "texts": [tokenizer.decode(line) for line in ids],
    }


def write(folder, name, value):
    (folder / name).write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def main():
    global OUT, LINES, TEXTS, TIMES
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--times", type=int, default=16)
    parser.add_argument("-o", "--output", type=Path, default=OUT)
    options = parser.parse_args()
    OUT = options.output
    if options.texts:
        TIMES = options.times
        LINES = TEXTS = options.texts.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    write(OUT, "lines.json", {"lines": LINES})
    kinds = (gpt2, llama3, roberta, bert, wordpiece, unigram, unigram_bytes, llama2, gemma, suffix, prefix, words, classes)
    for make in kinds:
        folder = OUT / make.__name__
        folder.mkdir()
        tokenizer = make()
        tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
        write(folder, "expected.json", expected(tokenizer))
    every = 1 if options.texts else 4  # compares every n-th line
    older_tokenizers.write_all(OUT, LINES, every, TIMES, sentencepiece_model, small_rules(), byte_level(420))
    (OUT / "rules.tsv").unlink()


if __name__ == "__main__":
    main()
