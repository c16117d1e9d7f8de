"""Creates the golden cases of `tfm rerank`: tiny random cross-encoders, and the scores of sentence-transformers'
CrossEncoder for 200 queries and 8 documents.

    python make_reranker.py     reranker/, reranker_roberta/

reranker/ is as CrossEncoder saves it, with BERT's pairs and a sigmoid. reranker_roberta/ has RoBERTa's two separators, a
tokenizer that takes fewer tokens than the model, and the older key of an activation without effect. Seeded: the same
script gives the same bytes. Needs sentence-transformers 6.2; other versions: README.md."""

import random
import shutil
import tempfile
from pathlib import Path

import torch
from make_embedder import HERE, WORDS, config, fill, save, write_json
from sentence_transformers import CrossEncoder
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (BertForSequenceClassification, PreTrainedTokenizerFast, RobertaConfig,
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


def main():
    torch.set_num_threads(1)
    make_bert()
    make_roberta()


main()
