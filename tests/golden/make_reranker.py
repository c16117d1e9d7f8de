"""Creates the golden cases of `tfm rerank`: tiny random cross-encoders, and the scores of sentence-transformers'
CrossEncoder for 200 queries and 8 documents.

    python make_reranker.py     reranker/, reranker_roberta/, reranker_qwen3/

reranker/ is as CrossEncoder saves it, with BERT's pairs and a sigmoid. reranker_roberta/ has RoBERTa's two separators, a
tokenizer that takes fewer tokens than the model, and the older key of an activation without effect. reranker_qwen3/ is
a language model with a chat template of the roles query and document. Seeded: the same
script gives the same bytes. Needs sentence-transformers 6.2; other versions: README.md."""

import json
import random
import shutil
import tempfile
from pathlib import Path

import torch
from make_embedder import HERE, WORDS, config, fill, save, write_json
from sentence_transformers import CrossEncoder
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (BertForSequenceClassification, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, RobertaConfig,
                          RobertaForSequenceClassification)


def texts(count, most, seed):
    chosen = random.Random(seed)
    return [" ".join(chosen.choices(WORDS, k=chosen.randint(1, most))) for _ in range(count)]


QUERIES = texts(200, 12, 1)
DOCUMENTS = texts(6, 30, 2) + ["", "one unsaid word: zebra"]


def write_golden(folder, model, queries):
    scores = []
    for query in queries:
        scores.append([round(float(v), 6) for v in model.predict([(query, each) for each in DOCUMENTS])])
    write_json(folder / "golden.json", {"documents": DOCUMENTS, "queries": queries, "scores": scores})


def make_bert():
    folder = HERE / "reranker"
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as plain:
        save(Path(plain), fill(BertForSequenceClassification(config(num_labels=1)), 21))
        model = CrossEncoder(plain)
        model.save(str(folder), create_model_card=False)
    write_golden(folder, model, QUERIES)


def make_roberta():
    folder = HERE / "reranker_roberta"
    shutil.rmtree(folder, ignore_errors=True)
    names = ["<s>", "<pad>", "</s>", "<unk>", *WORDS]
    library = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.post_processor = processors.RobertaProcessing(sep=("</s>", 2), cls_token=("<s>", 0))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=library, bos_token="<s>", eos_token="</s>", cls_token="<s>",
                                        sep_token="</s>", unk_token="<unk>", pad_token="<pad>", model_max_length=24)
    shape = RobertaConfig(vocab_size=len(names), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                          intermediate_size=24, max_position_embeddings=42, type_vocab_size=1, num_labels=1,
                          sbert_ce_default_activation_function="torch.nn.modules.linear.Identity")
    fill(RobertaForSequenceClassification(shape), 22).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_golden(folder, CrossEncoder(str(folder)), QUERIES[:20])


TEMPLATE = """{% set task = messages | selectattr("role", "eq", "system") | map(attribute="content") | first | \
default("good") %}<|im_start|> {{ task }} is
{{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }} in \
{{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first }}<|im_end|> was"""


def make_qwen3():
    folder = HERE / "reranker_qwen3"
    shutil.rmtree(folder, ignore_errors=True)
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<unk>", "yes", "no", *WORDS]
    library = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.add_special_tokens(names[:4])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=library, eos_token="<|im_end|>", pad_token="<|endoftext|>",
                                        unk_token="<unk>", model_max_length=64, chat_template=TEMPLATE)
    shape = Qwen3Config(vocab_size=len(names), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, head_dim=8,
                        num_key_value_heads=1, intermediate_size=24, max_position_embeddings=64, pad_token_id=0,
                        eos_token_id=2, tie_word_embeddings=True)
    with tempfile.TemporaryDirectory() as plain:
        fill(Qwen3ForCausalLM(shape), 23).save_pretrained(plain)
        tokenizer.save_pretrained(plain)
        model = CrossEncoder(plain)
        model.save(str(folder), create_model_card=False)
    write_golden(folder, model, QUERIES[:20])
    golden = json.loads((folder / "golden.json").read_text())
    golden["instructed"] = [round(float(v), 6) for v in model.predict([(QUERIES[0], each) for each in DOCUMENTS],
                                                                      prompt="bad light")]
    write_json(folder / "golden.json", golden)


def main():
    torch.set_num_threads(1)
    make_bert()
    make_roberta()
    make_qwen3()


if __name__ == "__main__":
    main()
