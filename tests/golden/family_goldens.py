"""transformers' results for a case: golden.safetensors (tensors) and golden.json (token ids)."""

import copy
import json
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers import LogitsProcessor, LogitsProcessorList

from family_store import DTYPES
from marian_reference import beam_steps, hf_penalty

NEW_TOKENS, BEAM, PROMPTS = 20, 4, 50
NOISE, TRIALS = 1e-3, 3
LENGTHS = [1, 2, 3, 5, 6, 8, 11, 14, 17, 24]  # prompt lengths
SOURCE_LENGTHS = [2, 3, 4, 5, 7, 9, 11, 13, 16, 18]
AT_ONCE = 6  # prompts of one length


class Shake(LogitsProcessor):
    """Adds noise to the logits of all rows except the first of TRIALS + 1 equal prompts; results that it changes are no
    goldens."""

    def __init__(self, beams, seed):
        self.beams, self.generator = beams, torch.Generator().manual_seed(seed)

    def __call__(self, ids, scores):
        noise = torch.randn(scores.shape, generator=self.generator)
        largest = scores.abs().masked_fill(scores.isinf(), 0).amax(-1, keepdim=True)
        prompt = torch.arange(scores.shape[0]) // self.beams
        return scores + NOISE * largest * noise * (prompt % (TRIALS + 1) != 0)[:, None]


def ends_of(model):
    ends = model.generation_config.eos_token_id
    return ends if isinstance(ends, list) else [ends]


def written(model, row, prompt):
    """The new tokens of a row of generate(), with EOS, without padding."""
    ids = row[1 if model.config.is_encoder_decoder else len(prompt) :].tolist()
    end = next((i for i, token in enumerate(ids) if token in ends_of(model)), len(ids))
    return ids[: end + 1]


def by_length(model):
    """The length-dependent RoPE type: "dynamic", "longrope", or None."""
    rope = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    kinds = {r.get("rope_type") for r in [rope, *rope.values()] if isinstance(r, dict)}
    return next((kind for kind in ("dynamic", "longrope") if kind in kinds), None)


def forget(model):
    """Dynamic RoPE keeps the frequencies of the longest text so far, until it sees a short one."""
    if by_length(model) == "dynamic":
        with torch.no_grad():
            model(torch.tensor([[0]]), use_cache=False)


def generate(model, rows, beams, stopping=False, processors=None):
    """stopping None: as in the model's generation_config.json."""
    rows = torch.tensor(rows)
    forget(model)
    rules = {} if stopping is None else {"early_stopping": stopping, "length_penalty": 1.0}
    with torch.no_grad():
        return model.generate(
            rows, attention_mask=torch.ones_like(rows), max_new_tokens=NEW_TOKENS, max_length=None, do_sample=False,
            num_beams=beams, use_cache=model.cached, num_return_sequences=1, **rules,
            logits_processor=LogitsProcessorList(processors or []),
        )


def stable(model, prompts, beams, stopping, seed):
    """The results of prompts of equal length; None for one that noise changes."""
    rows = [p for p in prompts for _ in range(TRIALS + 1)]
    out = generate(model, rows, beams, stopping, [Shake(beams, seed)])
    found = [written(model, row, prompt) for row, prompt in zip(out, rows, strict=True)]
    groups = [found[i : i + TRIALS + 1] for i in range(0, len(found), TRIALS + 1)]
    return [g[0] if all(other == g[0] for other in g) else None for g in groups]


def forbid(model, log_probs, step, beginnings):
    """Forced tokens get log p 0, banned ones -inf; the others are not renormalized."""
    rules = model.generation_config
    for *before, last in getattr(rules, "bad_words_ids", None) or []:
        for row, ids in enumerate(beginnings):
            if ids[len(ids) - len(before) :] == before:
                log_probs[row, last] = -np.inf
    forced = getattr(rules, "forced_bos_token_id", None) if step == 0 else None
    if step == NEW_TOKENS - 1 and getattr(rules, "forced_eos_token_id", None) is not None:
        forced = rules.forced_eos_token_id
    if forced is not None:
        log_probs[:] = -np.inf
        log_probs[:, forced] = 0.0


def beginning(model, prompt):
    return [model.generation_config.decoder_start_token_id] if model.config.is_encoder_decoder else prompt


def logits_of(model, prompts, counts, rows):
    """Without a KV cache. rows: equal lengths, counts[i] of them for prompts[i]."""
    inputs = {"input_ids": torch.tensor(rows)}
    if model.config.is_encoder_decoder:
        sources = [p for p, n in zip(prompts, counts, strict=True) for _ in range(n)]
        inputs = {"input_ids": torch.tensor(sources), "decoder_input_ids": torch.tensor(rows)}
    forget(model)
    with torch.no_grad():
        return model(**inputs, use_cache=False).logits


def own_searches(model, prompts):
    """The results of marian_reference's search for prompts of equal length, in lockstep."""
    searches = {i: beam_steps(BEAM, NEW_TOKENS, hf_penalty(1.0), ends_of(model)) for i in range(len(prompts))}
    waiting = {i: next(search) for i, search in searches.items()}
    found = [None] * len(prompts)
    while waiting:
        rows = [beginning(model, prompts[i]) + p for i, prefixes in waiting.items() for p in prefixes]
        counts = [len(prefixes) for prefixes in waiting.values()]
        logits = logits_of(model, [prompts[i] for i in waiting], counts, rows)[:, -1]
        log_probs = torch.log_softmax(logits.double(), -1)
        forbid(model, log_probs, len(next(iter(waiting.values()))[0]), rows)
        parts = log_probs.numpy()
        for i, count in zip(list(waiting), counts, strict=True):
            try:
                waiting[i] = searches[i].send(parts[:count])
            except StopIteration as end:
                found[i] = end.value[0][1]
                del waiting[i]
            parts = parts[count:]
    return found


def greedy_without_cache(model, prompt, ids):
    """Whether each token id is the most probable one after its prefix. Not always true with dynamic RoPE, because
    cached keys keep their old rotation; nor with "longrope", except for Phi-3, which recomputes the cache."""
    start = beginning(model, prompt)
    if by_length(model) and model.config.model_type != "phi3":
        return True
    if by_length(model):
        rows = [logits_of(model, [prompt], [1], [start + ids[:n]])[0, -1:] for n in range(len(ids))]
        logits = torch.cat(rows).double()
    else:
        logits = logits_of(model, [prompt], [1], [start + ids[:-1]])[0, len(start) - 1 :].double()
    for step, token in enumerate(ids):
        forbid(model, logits[step : step + 1], step, [start + ids[:step]])
    return logits.argmax(-1).tolist() == ids


class WithoutPad:
    """Within it, PAD has probability 0."""

    def __init__(self, model):
        self.model = model

    def __enter__(self):
        pad = self.model.generation_config.pad_token_id

        def leave_out(module, args, output):
            output.logits[..., pad] = -torch.inf
            return output

        self.hook = self.model.register_forward_hook(leave_out)

    def __exit__(self, *_):
        self.hook.remove()


def draw_ids(model, rng, length, pad):
    choice = [i for i in range(model.config.get_text_config().vocab_size) if i != pad]
    ids = [rng.choice(choice) for _ in range(length)]
    if kind_of(model) == "encoder-decoder" and rng.random() < 0.8:
        ids[-1] = ends_of(model)[0]
    return ids


def entries_of(model, prompts, seed):
    """golden.json's entries of prompts of equal length, except the ones that noise changes or that differ without the
    cache; and the number of the latter."""
    results = [stable(model, prompts, *how, seed=seed) for how in ((1, False), (BEAM, False), (BEAM, "never"))]
    kept = [(p, *found) for p, *found in zip(prompts, *results, strict=True) if None not in found]
    prompts = [p for p, *_ in kept]
    if not kept:
        return [], 0
    own, padless = own_searches(model, prompts), [found[1:] for found in kept]
    if model.config.is_encoder_decoder:
        with WithoutPad(model):
            both = [generate(model, prompts, beams, "never") for beams in (1, BEAM)]
        padless = [[written(model, out[i], prompt) for out in both] for i, prompt in enumerate(prompts)]
    entries, uncached = [], 0
    for (prompt, greedy, beam, never), ended, without in zip(kept, own, padless, strict=True):
        entry = {"ids": prompt, "greedy": greedy, "beam4": beam}
        if never != beam:
            entry["never"] = never
        if ended != never:
            entry["ended"] = ended
        if model.config.is_encoder_decoder and without != [greedy, never]:
            entry["pad"] = True
        same = greedy_without_cache(model, prompt, greedy)
        uncached += not same
        entries += [entry] if same else []
    return entries, uncached


def ruled_entries_of(model, prompts, seed):
    """The same for a case with its own rules in generation_config.json."""
    results = [stable(model, prompts, beams, None, seed) for beams in (1, BEAM)]
    kept = [(p, *found) for p, *found in zip(prompts, *results, strict=True) if None not in found]
    return [{"ids": p, "greedy": greedy, "beam4": beam} for p, greedy, beam in kept], 0


def choose_prompts(model, case, rng):
    pad = None if case.get("pads") else model.config.get_text_config().pad_token_id
    lengths = case.get("lengths") or (SOURCE_LENGTHS if model.config.is_encoder_decoder else LENGTHS)
    kept, seen, tried, uncached = [], set(), 0, 0
    for turn in range(40):
        for length in lengths:
            prompts = {tuple(draw_ids(model, rng, length, pad)) for _ in range(AT_ONCE)}
            prompts = [list(p) for p in sorted(prompts - seen)]
            if not prompts:
                continue
            seen |= {tuple(p) for p in prompts}
            tried += len(prompts)
            find = ruled_entries_of if case.get("rules") else entries_of
            entries, differ = find(model, prompts, turn * 1000 + length)
            kept += entries
            uncached += differ
            if len(kept) >= PROMPTS:
                return kept[:PROMPTS], tried, uncached
    raise SystemExit(f"of {tried} prompts, only {len(kept)} are stable")


# ---- Tensors ----------------------------------------------------------------------------------------------


def f32(x):
    return x.detach().to(torch.float32).contiguous().clone()


def i32(ids):
    return torch.tensor(ids, dtype=torch.int32)


def may_be_compared(logits):
    """Whether no row is a single number close to 0: tolerances are relative to the largest of a row."""
    return logits is None or logits.dim() > 2 or logits.shape[-1] > 1 or bool(logits.abs().min() > 0.05 * logits.abs().max())


def encoder_tensors(model, case, rng):
    """A batch of six with right padding."""
    pad = model.config.pad_token_id
    most = min(17, getattr(model.config, "max_position_embeddings", 25) - 8)
    lengths = case.get("lengths") or [most, 1, 5, 9, 2, 12]
    width = max(lengths)
    mask = torch.tensor([[1] * n + [0] * (width - n) for n in lengths])
    for _ in range(100):
        rows = [draw_ids(model, rng, n, None if case.get("pads") else pad) for n in lengths]
        ids = torch.tensor([r + [pad] * (width - len(r)) for r in rows])
        with torch.no_grad():
            base = model.base_model(input_ids=ids, attention_mask=mask)
            whole = model(input_ids=ids, attention_mask=mask)
        if may_be_compared(getattr(whole, "logits", None)):
            break
    else:
        raise SystemExit("each of 100 random sets of rows has a logit close to 0")
    tensors = {}
    for i, n in enumerate(lengths):
        tensors[f"{i}.source_ids"] = i32(rows[i])
        tensors[f"{i}.encoder_output"] = f32(base.last_hidden_state[i, :n])
        if getattr(base, "pooler_output", None) is not None:
            tensors[f"{i}.pooled"] = f32(base.pooler_output[i])
        if getattr(whole, "logits", None) is not None:
            tensors[f"{i}.logits"] = f32(whole.logits[i] if whole.logits.dim() == 2 else whole.logits[i, :n])
    return tensors


def seq2seq_tensors(model, case, prompts, rng):
    tensors, pad = {}, None if case.get("pads") else model.config.pad_token_id
    for i, source in enumerate(chosen(prompts)):
        target = [model.generation_config.decoder_start_token_id]
        target += draw_ids(model, rng, 3 + 2 * i, pad)
        with torch.no_grad():
            out = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target]), use_cache=False)
        tensors[f"{i}.source_ids"] = i32(source)
        tensors[f"{i}.decoder_input_ids"] = i32(target)
        tensors[f"{i}.encoder_output"] = f32(out.encoder_last_hidden_state[0])
        tensors[f"{i}.logits"] = f32(out.logits[0])
    return tensors


def decoder_tensors(model, prompts):
    tensors = {}
    for i, ids in enumerate(chosen(prompts)):
        tensors[f"{i}.decoder_input_ids"] = i32(ids)
        tensors[f"{i}.logits"] = f32(logits_of(model, [ids], [1], [ids])[0])
    return tensors


def chosen(prompts):
    """Four of different lengths, including the longest."""
    by_length = {len(p["ids"]): p["ids"] for p in reversed(prompts)}
    lengths = sorted(by_length)
    return [by_length[n] for n in dict.fromkeys([lengths[-1], lengths[0], lengths[len(lengths) // 2], lengths[-3]])]


# ---- Both -------------------------------------------------------------------------------------------------


def kind_of(model):
    if model.config.is_encoder_decoder and model.can_generate():  # T5's encoder-only model has T5's configuration
        return "encoder-decoder"
    return "decoder" if model.can_generate() else "encoder"


def same_as_made(model, case, made, tensors):
    """The stored model equals the created one, within the rounding of its dtype."""
    ids = torch.tensor([tensors.get("0.source_ids", tensors.get("0.decoder_input_ids")).tolist()])
    more = {"decoder_input_ids": ids} if kind_of(model) == "encoder-decoder" else {}
    rounded = copy.deepcopy(made)
    with torch.no_grad():
        for name, p in rounded.named_parameters():
            computed = "Sinusoidal" in type(rounded.get_submodule(name.rpartition(".")[0])).__name__
            if computed:  # Pegasus stores them anyway
                p.copy_(model.get_parameter(name))
            elif p.dim() > 1 or case["dtype"] != "mixed":
                p.copy_(p.to(DTYPES[case["dtype"]]).float())
        for name, b in rounded.named_buffers():
            if name == "final_logits_bias":
                b.copy_(b.to(DTYPES[case["dtype"]]).float())
        one, two = (m(input_ids=ids, **more, return_dict=True) for m in (model, rounded))
    one, two = (o.logits if "logits" in o else o.last_hidden_state for o in (one, two))
    off = ((one - two).abs().max() / two.abs().max()).item()
    if not off < 1e-5:
        raise SystemExit(f"the stored model differs: {off}")


def write(folder, family, case, model, tensors, prompts):
    save_file(dict(sorted(tensors.items())), folder / "golden.safetensors")
    head = {"family": family, "kind": kind_of(model), "class": case["cls"], "stored": case["dtype"],
            "computed": "float32, eager attention, one thread", "transformers": transformers.__version__,
            "torch": torch.__version__.split("+")[0], "tensors": len({n.split(".")[0] for n in tensors})}
    if by_length(model):
        head["alone"] = True  # in a batch, the longest text sets the RoPE frequencies
    if case.get("rules"):
        head["rules"] = True
    if prompts:
        head |= {"new_tokens": NEW_TOKENS, "eos": ends_of(model)}
    text = json.dumps(head, indent=1)[:-2]
    if prompts:
        lines = ",\n  ".join(json.dumps(p, separators=(",", ":")) for p in prompts)
        text += f',\n "prompts": [\n  {lines}\n ]'
    (folder / "golden.json").write_text(text + "\n}\n", encoding="utf-8")


def make_goldens(folder, family, case, model, rng, made):
    kind, prompts, note = kind_of(model), [], ""
    model.cached = case.get("cached", True)
    if kind == "encoder":
        tensors = encoder_tensors(model, case, rng)
    else:
        prompts, tried, uncached = choose_prompts(model, case, rng)
        tensors = seq2seq_tensors(model, case, prompts, rng) if kind == "encoder-decoder" else decoder_tensors(model, prompts)
        marks = {m: sum(m in p for p in prompts) for m in ("never", "ended", "pad")}
        ends = sum(p["greedy"][-1] in ends_of(model) for p in prompts)
        differ = sum(p["greedy"] != p["beam4"] for p in prompts)
        words = sum(len(set(p["greedy"])) for p in prompts) / sum(len(p["greedy"]) for p in prompts)
        note = (f"{made.lesson}; {tried} prompts tried, {uncached} differ without cache; greedy ends on {ends}, beam differs "
                f"on {differ}, "
                f"{words:.2f} of tokens distinct; {marks}")
    if not case.get("unlike"):
        same_as_made(model, case, made, tensors)
    write(folder, family, case, model, tensors, prompts)
    spread = max(t.abs().max().item() for n, t in tensors.items() if n.endswith(("logits", "output")))
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{folder.name}: {size // 1024} KB, largest {spread:.1f}; {note}", file=sys.stderr, flush=True)
