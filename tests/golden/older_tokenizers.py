"""Small tokenizers with files from before tokenizer.json, and transformers' results for some of its lines.
make_tokenizers.py calls this.

From a SentencePiece model alone, transformers 5 reads the normalization table as `tokenizers` does, which loses accents
of decomposed letters (compared line 5: an "e" with three accents), and not at all for MBart. Models are trained with
SentencePiece's longest match, so the library sentencepiece normalizes the lines here before transformers converts them
to ids. If that changes the ids, sentencepiece's own pieces must agree."""

import json
import re

import sentencepiece
import transformers as H
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES as M2M
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NLLB

T5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
BYTES = {"byte_fallback": True, "remove_extra_whitespaces": False, "split_digits": True, "normalization_rule_name": "identity"}


def added(text, special=True, **flags):
    return {"content": text, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": special} | flags


def normalized(tokenizer, path, line):
    """The line normalized by SentencePiece. If that changes the ids, they must be sentencepiece's own, for each text
    between added tokens, except blanks and unknown characters: transformers treats more characters as blanks."""
    rules = sentencepiece.SentencePieceNormalizer(
        model_file=str(path), add_dummy_prefix=False, escape_whitespaces=False, remove_extra_whitespaces=False)
    text = rules.normalize(line)
    ids = tokenizer(text, add_special_tokens=False).input_ids
    if ids != tokenizer(line, add_special_tokens=False).input_ids:
        model = sentencepiece.SentencePieceProcessor(model_file=str(path))
        names = sorted(tokenizer.get_added_vocab(), key=len, reverse=True)
        pieces = []
        for part in re.split("(" + "|".join(map(re.escape, names)) + ")", line):
            pieces += [part] if part in names else model.encode(part, out_type=str)
        other = tokenizer.convert_tokens_to_ids(["▁", tokenizer.unk_token])
        want = [i for i in tokenizer.convert_tokens_to_ids(pieces) if i not in other]
        if want != [i for i in ids if i not in other]:
            raise SystemExit(f"{path}: {line!r}: {ids} for {pieces}")
    return text


class Maker:
    def __init__(self, out, lines, every, times, learn, rules, byte_level):
        self.out, self.lines, self.every, self.times, self.rules = out, lines, every, times, rules
        self.learn = learn
        model = json.loads(byte_level.to_str())["model"]
        self.vocab, self.merges = model["vocab"], model["merges"]

    def folder(self, name, **files):
        folder = self.out / f"older_{name}"
        folder.mkdir()
        for file, value in files.items():
            file = {"config": "tokenizer_config.json", "map": "special_tokens_map.json"}[file]
            (folder / file).write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
        return folder

    def expect(self, folder, kind, rules=None, **languages):
        t = kind.from_pretrained(str(folder), **languages)
        every_line = [normalized(t, folder / rules, line) for line in self.lines] if rules else self.lines
        lines = every_line[:: self.every]
        ids = [t(line).input_ids for line in lines]
        value = {"every": self.every, "ids": ids, "texts": [t.decode(i, skip_special_tokens=True) for i in ids],
                 "plain": [t(line, add_special_tokens=False).input_ids for line in every_line[30:40]]}
        if hasattr(t, "tgt_lang"):
            written = [t(text_target=line).input_ids for line in lines]
            value |= {"source": t.src_lang, "target": t.tgt_lang or t.src_lang, "target_ids": written}
        else:
            value["pairs"] = [t(a, b).input_ids for a, b in zip(every_line[30:40], every_line[31:41])]
        (folder / "expected.json").write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")

    def words(self, folder):
        words = sorted({c for line in self.lines for c in line if c.isprintable() and c != " "})[: 300 * self.times]
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>", "<pad>", "<mask>"] + words
        pieces += ["##" + w for w in words] + ["the", "Harbour", "har", "##bour", "##ing", "nai", "##ve", "naïve"]
        (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
        return len(pieces)

    def byte_pairs(self, folder, *specials):
        vocab = self.vocab | {text: len(self.vocab) + i for i, text in enumerate(specials)}
        (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
        merges = "".join(" ".join(merge) + "\n" for merge in self.merges)
        (folder / "merges.txt").write_text("#version: 0.2\n" + merges, encoding="utf-8")

    def pieces(self, folder, name, kind, size=420, **options):
        options = options if "normalization_rule_name" in options else options | self.rules
        (folder / name).write_bytes(self.learn(kind, size, **options))

    def bert(self):
        folder = self.folder("bert", config={"tokenizer_class": "BertTokenizer", "do_lower_case": False, "strip_accents": True},
                             map={"additional_special_tokens": ["<new>"]})
        count = self.words(folder)
        (folder / "added_tokens.json").write_text(json.dumps({"harbour": count, "<new>": count + 1}))
        self.expect(folder, H.BertTokenizer)

    def mpnet(self):
        folder = self.folder("mpnet", config={"tokenizer_class": "MPNetTokenizer", "tokenize_chinese_chars": False})
        self.words(folder)
        self.expect(folder, H.MPNetTokenizer)

    def gpt2(self):
        ends = {"bos_token": "<|end|>", "eos_token": "<|end|>", "unk_token": "<|end|>", "add_bos_token": True}
        folder = self.folder("gpt2", config={"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True} | ends)
        self.byte_pairs(folder, "<|end|>")
        self.expect(folder, H.GPT2Tokenizer)

    def roberta(self):
        mask = added("<mask>", lstrip=True) | {"__type": "AddedToken"}
        folder = self.folder("roberta", config={"tokenizer_class": "RobertaTokenizer", "mask_token": mask})
        self.byte_pairs(folder, "<s>", "<pad>", "</s>", "<unk>", "<mask>")
        self.expect(folder, H.RobertaTokenizer)

    def qwen2(self):
        tokens = {"additional_special_tokens": ["<|im|>"], "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
        folder = self.folder("qwen2", config={"tokenizer_class": "Qwen2Tokenizer"} | tokens)
        self.byte_pairs(folder, "<|endoftext|>")
        self.expect(folder, H.Qwen2Tokenizer)

    def t5(self):
        folder = self.folder("t5", config={"tokenizer_class": "T5Tokenizer", "extra_ids": 3})
        self.pieces(folder, "spiece.model", "unigram", user_defined_symbols="harbour", **T5)
        self.expect(folder, H.T5Tokenizer, "spiece.model")

    def pegasus(self):
        folder = self.folder("pegasus", config={"tokenizer_class": "PegasusTokenizer", "offset": 7})
        self.pieces(folder, "spiece.model", "unigram", **T5)
        self.expect(folder, H.PegasusTokenizer, "spiece.model")

    def xlmr(self):
        folder = self.folder("xlmr", config={"tokenizer_class": "XLMRobertaTokenizer"})
        self.pieces(folder, "sentencepiece.bpe.model", "unigram")
        self.expect(folder, H.XLMRobertaTokenizer, "sentencepiece.bpe.model")

    def camembert(self):
        folder = self.folder("camembert", config={"tokenizer_class": "CamembertTokenizer"})
        self.pieces(folder, "sentencepiece.bpe.model", "unigram")
        self.expect(folder, H.CamembertTokenizer, "sentencepiece.bpe.model")

    def mbart(self):
        folder = self.folder("mbart", config={"tokenizer_class": "MBartTokenizer", "src_lang": "de_DE"})
        self.pieces(folder, "sentencepiece.bpe.model", "unigram")
        self.expect(folder, H.MBartTokenizer, "sentencepiece.bpe.model", tgt_lang="ro_RO")

    def mbart50(self):
        folder = self.folder("mbart50", config={"tokenizer_class": "MBart50Tokenizer"})
        self.pieces(folder, "sentencepiece.bpe.model", "unigram")
        self.expect(folder, H.MBart50Tokenizer, "sentencepiece.bpe.model", src_lang="gl_ES", tgt_lang="sl_SI")

    def nllb(self):
        folder = self.folder("nllb", config={"tokenizer_class": "NllbTokenizer", "additional_special_tokens": NLLB,
                                             "src_lang": "fra_Latn", "tgt_lang": "deu_Latn"})
        self.pieces(folder, "sentencepiece.bpe.model", "bpe")
        self.expect(folder, H.NllbTokenizer, "sentencepiece.bpe.model")

    def llama(self):
        folder = self.folder("llama", config={"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": True})
        self.pieces(folder, "tokenizer.model", "bpe", 640, **BYTES)
        self.expect(folder, H.LlamaTokenizer)

    def gemma(self):
        folder = self.folder("gemma", config={"tokenizer_class": "GemmaTokenizer", "add_bos_token": True})
        ends = {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "eos_piece": "<eos>", "bos_piece": "<bos>"}
        self.pieces(folder, "tokenizer.model", "bpe", 640, add_dummy_prefix=False, control_symbols="<turn>", **BYTES, **ends)
        self.expect(folder, H.GemmaTokenizer)

    def m2m100(self):
        folder = self.folder("m2m100", config={"tokenizer_class": "M2M100Tokenizer",
                                               "additional_special_tokens": [f"__{code}__" for code in M2M["m2m100"]]})
        self.pieces(folder, "sentencepiece.bpe.model", "bpe")
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
        pieces = [model.id_to_piece(i) for i in range(3, model.get_piece_size()) if i % 11]
        vocab = {piece: i for i, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>"] + pieces)}
        (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
        self.expect(folder, H.M2M100Tokenizer, src_lang="fr", tgt_lang="de")


def write_all(*arguments):
    maker = Maker(*arguments)
    for make in (maker.bert, maker.mpnet, maker.gpt2, maker.roberta, maker.qwen2, maker.t5, maker.pegasus, maker.xlmr,
                 maker.camembert, maker.mbart, maker.mbart50, maker.nllb, maker.llama, maker.gemma, maker.m2m100):
        make()
