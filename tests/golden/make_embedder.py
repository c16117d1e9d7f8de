"""Creates the golden cases of `tfm embed`: tiny random encoders with a tokenizer, and transformers' results for texts.

    python make_embedder.py               embedder/, sentence_t5/, colbert/, classifier/, masked/
    python make_embedder.py --minilm DIR  minilm.json: a few vectors of all-MiniLM-L6-v2, for nightly

embedder/ is a directory in sentence-transformers' format. Pooling, dense layer and normalization are computed here with
the formulas of that library's modules. Seeded: the same script gives the same bytes. Versions: README.md.
"""

import argparse
import json
import shutil
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from transformers import BertConfig, BertTokenizer

HERE = Path(__file__).resolve().parent
WORDS = """the a cat dog house garden river city red old small new sits plays runs sleeps in on of to is was and not
bread water night day good bad light dark man woman child over under from with capital berlin paris""".split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = SPECIAL + WORDS + ["##s", "##ed", "##ing", "un", "##er"] + list(".,!?-0123456789") + list("abcdeghikno") + \
    ["##" + c for c in "abcdeghikno"]
TEXTS = ["The cat sits in the garden.", "a DOG plays!", "", "  The city of Berlin is old and dark, not new.  ", "bread",
         "one good day in the city and a bad night on the river, and not a good day in the house under the dark city",
         "un##known words: qqq zebra", "Paris is the capital - is not Berlin?"]
PROMPT = "query: a "
LONGEST = 16


def fill(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            mean, std = (1.0, 0.2) if "LayerNorm.weight" in name else (0.0, 0.3)
            p.copy_(torch.randn(p.shape, generator=generator) * std + mean)
    return model.eval()


def config(size=len(VOCABULARY), **more):
    return BertConfig(vocab_size=size, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                      intermediate_size=24, max_position_embeddings=40, type_vocab_size=2, pad_token_id=0, **more)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def save(folder, model, vocabulary=VOCABULARY, added=()):
    """The model and its tokenizer, as transformers saves them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    tokenizer = BertTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(list(added))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "vocab.txt").unlink()
    return tokenizer


def encode(tokenizer, *texts, most):
    return tokenizer(*texts, truncation=True, max_length=most, return_tensors="pt")


# ---- Embeddings -------------------------------------------------------------------------------------------


def pool(hidden, skipped):
    """In the order of sentence-transformers: cls, max, mean, mean_sqrt_len, weighted mean, last token."""
    seen, places = hidden[skipped:], torch.arange(skipped + 1, len(hidden) + 1).float()[:, None]
    return torch.cat([seen[0], seen.max(0).values, seen.mean(0), seen.sum(0) / len(seen) ** 0.5,
                      (seen * places).sum(0) / places.sum(), hidden[-1]])


def vector(model, tokenizer, dense, text, prompt):
    skipped = 0
    if prompt:
        skipped = encode(tokenizer, prompt.lower(), most=LONGEST)["input_ids"].shape[1] - 1
    with torch.no_grad():
        hidden = model(**encode(tokenizer, (prompt + text).lower(), most=LONGEST)).last_hidden_state[0]
        made = torch.tanh(dense(pool(hidden, skipped)))
    return torch.nn.functional.normalize(made, dim=0)


def make_embedder():
    folder = HERE / "embedder"
    shutil.rmtree(folder, ignore_errors=True)
    model = fill(transformers.BertModel(config()), 1)
    tokenizer = save(folder / "0_Transformer", model)
    write_json(folder / "0_Transformer" / "sentence_bert_config.json", {"max_seq_length": LONGEST, "do_lower_case": True})
    kinds = ["Transformer", "Pooling", "Dense", "Normalize"]
    write_json(folder / "modules.json", [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}", "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)])
    write_json(folder / "config_sentence_transformers.json", {"prompts": {"query": PROMPT}, "default_prompt_name": None})
    (folder / "1_Pooling").mkdir()
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 16, "include_prompt": False} | {
        f"pooling_mode_{mode}": True
        for mode in ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")})
    dense = fill(torch.nn.Linear(96, 10), 2)
    (folder / "2_Dense").mkdir()
    save_file({"linear." + n: p.detach().clone() for n, p in dense.named_parameters()},
              folder / "2_Dense" / "model.safetensors")
    write_json(folder / "2_Dense" / "config.json", {
        "in_features": 96, "out_features": 10, "bias": True, "activation_function": "torch.nn.modules.activation.Tanh"})
    golden = {"texts": TEXTS, "prompt": "query"}
    for key, prompt in (("vectors", ""), ("prompted", PROMPT)):
        golden[key] = [[round(v, 7) for v in vector(model, tokenizer, dense, t, prompt).tolist()] for t in TEXTS]
    golden["truncated"] = sum(len(tokenizer(t.lower())["input_ids"]) > LONGEST for t in TEXTS)
    write_json(folder / "golden.json", golden)


def make_sentence_t5():
    """T5's encoder, as in gtr-t5 and sentence-t5: mean pooling, a dense layer without bias, normalization."""
    folder = HERE / "sentence_t5"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in ("spiece.model", "tokenizer_config.json"):
        shutil.copy(HERE / "tokenizers" / "older_t5" / name, folder / name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    made = transformers.T5EncoderModel(transformers.T5Config(
        vocab_size=len(tokenizer), d_model=8, d_kv=3, num_heads=3, num_layers=2, d_ff=11, pad_token_id=0, eos_token_id=1))
    fill(made, 5).half().save_pretrained(folder)
    model = transformers.T5EncoderModel.from_pretrained(folder, dtype=torch.float32).eval()
    kinds = ["Transformer", "Pooling", "Dense", "Normalize"]
    write_json(folder / "modules.json", [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)])
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 24, "do_lower_case": False})
    (folder / "1_Pooling").mkdir()
    write_json(folder / "1_Pooling" / "config.json", {
        "word_embedding_dimension": 8, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True})
    dense = fill(torch.nn.Linear(8, 6, bias=False), 6)
    (folder / "2_Dense").mkdir()
    torch.save({"linear.weight": dense.weight.detach().clone()}, folder / "2_Dense" / "pytorch_model.bin")
    write_json(folder / "2_Dense" / "config.json", {
        "in_features": 8, "out_features": 6, "bias": False, "activation_function": "torch.nn.modules.linear.Identity"})
    golden = {"texts": TEXTS, "vectors": []}
    for text in TEXTS:
        with torch.no_grad():
            hidden = model(**encode(tokenizer, text, most=24)).last_hidden_state[0]
            made = torch.nn.functional.normalize(dense(hidden.mean(0)), dim=0)
        golden["vectors"].append([round(v, 7) for v in made.tolist()])
    golden["truncated"] = sum(len(tokenizer(t)["input_ids"]) > 24 for t in TEXTS)
    write_json(folder / "golden.json", golden)


# ---- Late interaction -------------------------------------------------------------------------------------

PREFIXES, LENGTHS, SKIPPED = {"query": "[Q] ", "document": "[D] "}, {"query": 12, "document": 16}, list(".,-?!")


def token_vectors(model, tokenizer, dense, text, role, expand=True, attend=False):
    """One vector a token, as PyLate's ColBERT.encode: its prefix is the second token, queries end in masks, and
    punctuation of documents has no vector."""
    ids = encode(tokenizer, text, most=LENGTHS[role] - 1)["input_ids"][0].tolist()
    ids.insert(1, tokenizer.convert_tokens_to_ids(PREFIXES[role]))
    seen = [1] * len(ids)
    if role == "query" and expand:
        more = LENGTHS[role] - len(ids)
        ids, seen = ids + more * [tokenizer.mask_token_id], seen + more * [int(attend)]
    with torch.no_grad():
        hidden = model(input_ids=torch.tensor([ids]), attention_mask=torch.tensor([seen])).last_hidden_state[0]
        made = torch.nn.functional.normalize(dense(hidden), dim=1)
    skipped = set(tokenizer.convert_tokens_to_ids(SKIPPED)) if role == "document" else set()
    return made[[i not in skipped for i in ids]]


def make_colbert():
    folder = HERE / "colbert"
    shutil.rmtree(folder, ignore_errors=True)
    vocabulary = list(dict.fromkeys(VOCABULARY))  # added tokens follow its last id
    model = fill(transformers.BertModel(config(size=len(vocabulary) + 2)), 7)
    tokenizer = save(folder, model, vocabulary, PREFIXES.values())
    write_json(folder / "modules.json", [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"}])
    write_json(folder / "config_sentence_transformers.json", {
        "model_type": "ColBERT", "prompts": {"query": "", "document": ""}, "default_prompt_name": None,
        "similarity_fn_name": "MaxSim", "query_prefix": PREFIXES["query"], "document_prefix": PREFIXES["document"],
        "query_length": LENGTHS["query"], "document_length": LENGTHS["document"], "attend_to_expansion_tokens": False,
        "skiplist_words": SKIPPED, "do_query_expansion": True})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 40, "do_lower_case": False})
    dense = fill(torch.nn.Linear(16, 6, bias=False), 8)
    (folder / "1_Dense").mkdir()
    save_file({"linear.weight": dense.weight.detach().clone()}, folder / "1_Dense" / "model.safetensors")
    write_json(folder / "1_Dense" / "config.json", {
        "in_features": 16, "out_features": 6, "bias": False, "activation_function": "torch.nn.modules.linear.Identity",
        "use_residual": False})
    golden, found = {"texts": TEXTS, "query": TEXTS[-1]}, {}
    for name, role, how in (("documents", "document", {}), ("queries", "query", {}), ("attended", "query", {"attend": True}),
                            ("unexpanded", "query", {"expand": False})):
        found[name] = [token_vectors(model, tokenizer, dense, text, role, **how) for text in TEXTS]
        golden[name] = [[[round(x, 7) for x in row] for row in rows.tolist()] for rows in found[name]]
    golden["scores"] = [round((found["queries"][-1] @ rows.T).max(1).values.sum().item(), 6) for rows in found["documents"]]
    text = json.dumps(golden, ensure_ascii=False, separators=(",", ":")).replace("]],", "]],\n")
    (folder / "golden.json").write_text(text + "\n", encoding="utf-8")


# ---- Heads ------------------------------------------------------------------------------------------------

PAIRS = [("the cat sits", "a dog plays"), ("", "the river"), ("an old house in the city of Berlin " * 2, "bread"),
         ("Is the city old?", "the city of Paris is an old city with a river and a garden over the dark river " * 2)]


def make_classifier():
    folder = HERE / "classifier"
    shutil.rmtree(folder, ignore_errors=True)
    labels = {0: "contradiction", 1: "entailment", 2: "neutral"}
    model = fill(transformers.BertForSequenceClassification(config(id2label=labels)), 3)
    tokenizer = save(folder, model)
    golden = {"texts": TEXTS, "scores": [], "pairs": PAIRS, "pair_scores": []}
    with torch.no_grad():
        for text in TEXTS:
            scores = torch.softmax(model(**encode(tokenizer, text, most=40)).logits[0], 0)
            golden["scores"].append([round(v, 7) for v in scores.tolist()])
        for pair in PAIRS:
            scores = torch.softmax(model(**encode(tokenizer, *pair, most=40)).logits[0], 0)
            golden["pair_scores"].append([round(v, 7) for v in scores.tolist()])
    write_json(folder / "golden.json", golden)


def make_masked():
    folder = HERE / "masked"
    shutil.rmtree(folder, ignore_errors=True)
    model = fill(transformers.BertForMaskedLM(config()), 4)
    tokenizer = save(folder, model)
    texts = ["The capital is [MASK].", "[MASK] cat sits in [MASK] house", "a dog [MASK]"]
    golden = {"texts": texts, "words": [], "sparse": []}
    for text in texts:
        x = encode(tokenizer, text, most=40)
        with torch.no_grad():
            logits = model(**x).logits[0]
        chances = torch.softmax(logits, -1)
        sparse = torch.log1p(torch.relu(logits)).max(0).values  # SPLADE's pooling
        golden["sparse"].append([round(v, 6) for v in sparse.tolist()])
        for place in (x["input_ids"][0] == tokenizer.mask_token_id).nonzero()[:, 0]:
            best = chances[place].topk(3)
            golden["words"].append([[tokenizer.decode([i]), round(p, 7)]
                                    for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)])
    write_json(folder / "golden.json", golden)


# ---- MiniLM -----------------------------------------------------------------------------------------------

SENTENCES = ["The cat sits outside.", "A dog plays in the garden.", "", "Das Haus ist alt.", "3.14159 is not 22/7!",
             "Il pleut à verse depuis ce matin. " * 3, "word " * 400]


def make_minilm(source):
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    model = transformers.AutoModel.from_pretrained(source, attn_implementation="eager").eval()
    vectors = []
    for text in SENTENCES:
        with torch.no_grad():
            hidden = model(**encode(tokenizer, text, most=256)).last_hidden_state[0]
        vectors.append([round(v, 6) for v in torch.nn.functional.normalize(hidden.mean(0), dim=0).tolist()])
    lines = ",\n  ".join(json.dumps(v, separators=(",", ":")) for v in vectors)
    text = json.dumps({"texts": SENTENCES}, indent=1, ensure_ascii=False)[:-2]
    (HERE / "minilm.json").write_text(text + f',\n "vectors": [\n  {lines}\n ]\n}}\n', encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minilm")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.minilm:
        make_minilm(arguments.minilm)
        return
    make_embedder()
    make_sentence_t5()
    make_colbert()
    make_classifier()
    make_masked()


if __name__ == "__main__":
    main()
