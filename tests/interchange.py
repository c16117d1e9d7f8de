"""Opens model directories in Hugging Face's transformers, and compares its results with tfm's.

    python interchange.py MODEL_DIR... --helper build/tests/interchange [--tfm build/apps/tfm] [--lines FILE] [--new]

A directory is opened with MarianMTModel.from_pretrained and MarianTokenizer.from_pretrained, in fp32. All parameters
must be used, and none missing; lines must have the same tokens; logits of every token must agree for a given
translation; with --tfm also sum log p of `tfm score`, and translations. Lines come from --lines, else from the
directory's test.*, else from LINES. A directory without a tokenizer gets random token ids. --new also tests two new
directories made by tfm; and with --tfm, two small language models trained by it and opened with AutoModelForCausalLM
and AutoTokenizer: tokens, log p and greedy text are compared.

Prints TAP. Exit code 0 if all checks pass, 1 if not, 77 without transformers.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import transformers
    import torch
    import numpy as np
    from transformers import AutoModelForCausalLM, AutoTokenizer, MarianMTModel, MarianTokenizer
except ImportError as missing:
    print(f"ok 1 - interchange with transformers # SKIP {missing}")
    sys.exit(77)

LINES = ["Guten Morgen.", "Ich liebe dich.", "Wo ist das Haus?", "Das ist, was ich gestern gesehen habe.", "Danke!"]
# Only for tokenizers: characters of no vocabulary, alternative Unicode forms, unusual blanks.
ODD_LINES = ["", "  zwei  Leerzeichen ", "Größe, ﬁn, ①, ½", "日本語 und 🙂", "a-b_c/d\\e", "1.234,56 €", "«ja» „nein“ ’s", "ÄÖÜß" * 30]
# Tolerances: relative to the largest logit, and of a sum of log p. Both sides compute in fp32, in different orders.
MOST_OFF, MOST_OFF_LOG_P = 1e-5, 1e-3

checks = []


def check(name, good, text):
    checks.append(bool(good))
    print(f"{'ok' if good else 'not ok'} {len(checks)} - {name}: {text}", flush=True)


def run(command, lines=()):
    """A program's output for these lines, as bytes."""
    return subprocess.run(
        [str(c) for c in command], input="".join(f"{line}\n" for line in lines).encode(), stdout=subprocess.PIPE, check=True
    ).stdout


def numbers(ids):
    return " ".join(map(str, ids))


def count_equal(mine, other):
    return sum(a == b for a, b in zip(mine, other, strict=True))


def open_model(folder, kind=MarianMTModel):
    """The model in fp32, after checking its parameters."""
    model, info = kind.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    wrong = {kind: sorted(map(str, names)) for kind, names in info.items() if names}
    check("parameters", not wrong, wrong or "none missing, none left over")
    return model.eval()


def compare_tokens(options, folder, tokenizer, sources, targets):
    """The token ids of both sides, from transformers."""
    both = [(tokenizer(s).input_ids, tokenizer(text_target=t).input_ids) for s, t in zip(sources, targets)]
    mine = run([options.helper, "tokens", folder], [f"{s}\t{t}" for s, t in zip(sources, targets)]).decode()
    mine = [tuple([int(i) for i in side.split()] for side in line.split("\t")) for line in mine.splitlines()]
    for side, name in enumerate(["source", "target"]):
        equal = count_equal([b[side] for b in both], [m[side] for m in mine])
        check(f"{name} tokens", equal == len(both), f"{equal} of {len(both)} lines equal")
    return both


def compare_logits(options, folder, model, pairs):
    """Teacher forcing: the decoder input is its start token and the target without its last token."""
    start, width = model.config.decoder_start_token_id, model.config.decoder_vocab_size or model.config.vocab_size
    inputs = [(source, [start] + target[:-1]) for source, target in pairs]
    mine = np.frombuffer(
        run([options.helper, "logits", folder], [f"{numbers(s)}\t{numbers(t)}" for s, t in inputs]), np.float32
    ).reshape(-1, width)
    largest = worst = at = agreed = 0
    log_ps = []
    for (source, given), (_, target) in zip(inputs, pairs):
        logits = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([given])).logits[0].numpy()
        own = mine[at : at + len(given)]
        at += len(given)
        largest, worst = max(largest, np.abs(logits).max()), max(worst, np.abs(logits - own).max())
        agreed += int((logits.argmax(-1) == own.argmax(-1)).sum())
        masked = torch.tensor(logits).double()
        masked[:, model.config.pad_token_id] = -torch.inf  # PAD is never generated
        log_ps.append(masked.log_softmax(-1)[range(len(target)), target].sum().item())
    check("logits", worst <= MOST_OFF * largest and at == len(mine),
          f"{len(pairs)} lines, {at} tokens: largest {largest:.3f}, largest difference {worst:.1e}; "
          f"the same best token for {agreed}")
    return log_ps


def compare_scores(options, folder, sources, targets, log_ps):
    with tempfile.TemporaryDirectory() as temporary:
        files = [Path(temporary) / name for name in ("source", "target")]
        for file, lines in zip(files, (sources, targets)):
            file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        scored = run([options.tfm, "score", "-m", folder, "--src", files[0], "--tgt", files[1]]).decode().splitlines()
    worst = max(abs(float(line.split("\t")[0]) - log_p) for line, log_p in zip(scored, log_ps, strict=True))
    check("tfm score", worst <= MOST_OFF_LOG_P, f"sum log p, largest difference {worst:.1e}")


def generate(model, tokenizer, source, beam):
    ids = tokenizer(source, return_tensors="pt")
    out = model.generate(**ids, num_beams=beam, max_length=None, max_new_tokens=ids.input_ids.shape[1] + 50,
                         do_sample=False, length_penalty=1.0, early_stopping="never")
    return tokenizer.decode(out[0], skip_special_tokens=True)


def compare_translations(options, folder, sources, translated):
    """Greedy has one answer; beam searches may stop at different times, so their results are only printed."""
    for beam, good in ((1, 1), (4, 0.9)):
        mine = run([options.tfm, "translate", "-m", folder, "--beam-size", beam, "--length-norm", "hf", "--length-penalty", 1], sources)
        equal = count_equal(mine.decode().splitlines(), translated[beam])
        check(f"tfm translate, beam {beam}", equal >= good * len(sources), f"{equal} of {len(sources)} lines equal")


def lines_for(options, folder):
    path = options.lines or next(iter(sorted(folder.glob("test.*"))), None)
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path else LINES
    return [line.split("\t")[0] for line in lines if line.strip()][: options.most]


def compare_text(options, folder, model):
    tokenizer = MarianTokenizer.from_pretrained(folder)
    sources = lines_for(options, folder)
    translated = {beam: [generate(model, tokenizer, s, beam) for s in sources] for beam in (1, 4)}
    compare_tokens(options, folder, tokenizer, ODD_LINES, ODD_LINES)
    pairs = compare_tokens(options, folder, tokenizer, sources, translated[1])
    log_ps = compare_logits(options, folder, model, pairs)
    if options.tfm:
        compare_scores(options, folder, sources, translated[1], log_ps)
        compare_translations(options, folder, sources, translated)


def compare(options, folder):
    config = transformers.MarianConfig.from_pretrained(folder)
    flags = [f for f in ("normalize_before", "normalize_embedding", "add_final_layer_norm") if getattr(config, f, False)]
    if flags:  # transformers ignores them, so its results would be meaningless
        check("order of norms", False, f"MarianMTModel does not know {', '.join(flags)}")
        return
    model = open_model(folder)
    if (folder / "source.spm").exists():
        compare_text(options, folder, model)
        return
    rng, eos = random.Random(1), config.eos_token_id
    ids = lambda size, most: [rng.randrange(size) for _ in range(rng.randrange(most))] + [eos]
    compare_logits(options, folder, model,
                   [(ids(config.vocab_size, 40), ids(config.decoder_vocab_size, 40)) for _ in range(10)])


# ---- Language models trained by tfm

FAMILIES = {"gpt": ["GPT2LMHeadModel"], "llama": ["LlamaForCausalLM", "--kv-heads", 2]}


def score_by_transformers(model, ids):
    logits = model(input_ids=torch.tensor([ids[:-1]])).logits[0].double().log_softmax(-1)
    return logits[range(len(ids) - 1), ids[1:]].sum().item()


def compare_language_model(options, folder, family):
    class_name, *more = FAMILIES[family]
    lines = [f"{a} {b} {c}." for a in LINES for b in ("Und", "Oder", "Nein,") for c in LINES]
    text, odd = folder.parent / "text", [line for line in ODD_LINES if line]
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    run([options.tfm, "train", "-o", folder, "--text", text, "--family", family, "--width", 32, "--heads", 4, "--ffn-dim", 64,
         "--decoder-layers", 2, "--seq-len", 48, "--batch-tokens", 384, "--max-steps", 30, "--learning-rate", 0.01, "--hold-out", 0,
         "--average", 0, *more])
    model, tokenizer = open_model(folder, AutoModelForCausalLM), AutoTokenizer.from_pretrained(folder)
    check("class", type(model).__name__ == class_name, type(model).__name__)
    ids = [tokenizer(line).input_ids for line in lines + odd]
    mine = run([options.helper, "tokens", folder], [f"\t{line}" for line in lines + odd]).decode().splitlines()
    mine = [[int(i) for i in line.split("\t")[1].split()] for line in mine]
    equal = count_equal(ids, mine)
    check("tokens", equal == len(ids), f"{equal} of {len(ids)} lines equal")
    scored = run([options.tfm, "score", "-m", folder, "--text", text]).decode().splitlines()
    worst = max(abs(float(line.split("\t")[0]) - score_by_transformers(model, one)) for line, one in zip(scored, ids))
    check("tfm score --text", worst <= MOST_OFF_LOG_P, f"sum log p of {len(scored)} lines, largest difference {worst:.1e}")
    prompts = [line[: len(line) // 2] for line in lines[::5]]
    file = folder.parent / "prompts"
    file.write_text("".join(f"{line}\n" for line in prompts), encoding="utf-8")
    mine = run([options.tfm, "generate", "-m", folder, "-i", file, "--max-new-tokens", 12]).decode().splitlines()
    equal = 0
    for prompt, own in zip(prompts, mine, strict=True):
        given = tokenizer(prompt, return_tensors="pt")
        out = model.generate(input_ids=given.input_ids, max_new_tokens=12, do_sample=False)
        equal += tokenizer.decode(out[0][given.input_ids.shape[1] :], skip_special_tokens=True).strip() == own.strip()
    check("tfm generate", equal == len(prompts), f"{equal} of {len(prompts)} prompts equal")


def compare_or_say(options, folder, kind=None):
    try:
        if kind in FAMILIES:
            compare_language_model(options, folder, kind)
            return
        if kind:
            run([options.helper, "create", folder, kind])
        compare(options, folder)
    except (subprocess.CalledProcessError, OSError, ValueError, RuntimeError) as error:
        check("the comparison", False, str(error).replace("\n", " "))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*", metavar="MODEL_DIR")
    parser.add_argument("--helper", type=Path, required=True, help="the program of tests/interchange.c")
    parser.add_argument("--tfm", type=Path, help="the program tfm")
    parser.add_argument("--lines", type=Path, help="source lines, what follows a tab left out")
    parser.add_argument("--most", type=int, default=500, help="at most so many lines (default 500)")
    parser.add_argument("--new", action="store_true", help="new models that tfm has written, as well")
    options = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)  # waiting threads are slow on a busy machine
    torch.set_grad_enabled(False)
    versions = f"transformers {transformers.__version__}, torch {torch.__version__}"
    for folder in options.folders:
        print(f"# {folder.resolve().name}: {versions}")
        compare_or_say(options, folder)
    with tempfile.TemporaryDirectory() as temporary:
        for kind in ("shared", "separate", *(FAMILIES if options.tfm else ())) if options.new else ():
            folder = Path(temporary) / kind
            print(f"# a new model, {kind}{'' if kind in FAMILIES else ' vocabularies'}: {versions}")
            compare_or_say(options, folder, kind)
    print(f"1..{len(checks)}")
    sys.exit(0 if all(checks) and checks else 1)


if __name__ == "__main__":
    main()
