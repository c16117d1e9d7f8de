#!/usr/bin/env python3
"""tfm serve and CTranslate2 behind FastAPI and uvicorn, on loopback, in turns, on the same cores as their client.

    pip install ctranslate2 fastapi 'uvicorn[standard]' sentencepiece
    python3 tests/bench/serve_rival.py build/release/apps/tfm MODEL LINES --work FOLDER [--connections 1,8,64,256]
                                       [--rounds 5] [--limit 2000] [--beam 4] [--length-penalty paper|hf] [--keep FILE]

MODEL is a Marian model such as apps/demo, LINES has a sentence on each line. FOLDER has the peer's conversion of MODEL
and the logs of both servers. tests/serve/load.py is the client: each connection sends a line after the answer to its
last one. In each round the servers take turns at every number of connections, and `tfm translate` gets the same lines
once. Both servers compute in fp32 on all cores, with the same beam size, and are warmed up. Each uses its default
ranking and beam end: CTranslate2 divides scores by lengths and stops when beam-size hypotheses have ended; tfm uses the
paper's length penalty. With --length-penalty hf tfm ranks like CTranslate2, but continues until no beam can become the
best.

The peer batches all lines that wait while the model is busy, sorted and split by CTranslate2 into batches of up to 4096
tokens. It does not split lines into sentences, tfm serve does. Its idle threads spin for a while, which slows the
client: also try OMP_WAIT_POLICY=PASSIVE and KMP_BLOCKTIME=0 before the command, and use the better one for it. Prints
each run, with the share of the cores used by others, then a table of medians over runs in which that was less than a
tenth (--others). The CPU time per line compares the servers even under other load. If a machine is only free for short
times, run it repeatedly with few rounds and --keep FILE: medians are over all rounds in FILE."""

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

LOAD = Path(__file__).resolve().parent.parent / "serve" / "load.py"
TOKENS = 4096
MAX_NEW = 256


# ---- The peer -------------------------------------------------------------------------------------------------------


def tensors_of(path):
    """The tensors of a safetensors file, as fp32."""
    import numpy as np

    data = Path(path).read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    for name, of in json.loads(data[8:start]).items():
        if name != "__metadata__":
            first, end = of["data_offsets"]
            kind = {"F32": np.float32, "F16": np.float16}[of["dtype"]]
            yield name, np.frombuffer(data[start + first:start + end], kind).reshape(of["shape"]).astype(np.float32)


def convert(model, folder):
    """Converts MODEL to CTranslate2. Its own Marian converter needs PyTorch, and zeroes the decoder's start embedding,
    as in OPUS-MT's models, where the row of <pad> is zero. Models trained elsewhere have learned that row, so it is
    kept here."""
    import numpy as np
    from ctranslate2.specs import common_spec, transformer_spec

    config = json.loads((Path(model) / "config.json").read_text(encoding="utf-8"))
    known = dict(tensors_of(Path(model) / "model.safetensors"))
    activations = {"relu": common_spec.Activation.RELU, "swish": common_spec.Activation.SWISH, "silu": common_spec.Activation.SWISH,
                   "gelu": common_spec.Activation.GELU}
    spec = transformer_spec.TransformerSpec.from_config(
        (config["encoder_layers"], config["decoder_layers"]), config["encoder_attention_heads"],
        pre_norm=config.get("normalize_before", False), activation=activations[config["activation_function"]])

    def linear(to, *names):  # one fused matrix
        to.weight = np.concatenate([known[name + ".weight"] for name in names])
        to.bias = np.concatenate([known[name + ".bias"] for name in names])

    def norm(to, name):
        to.gamma, to.beta = known[name + ".weight"], known[name + ".bias"]

    def attention(to, name, own):
        parts = [name + "." + part for part in ("q_proj", "k_proj", "v_proj")]
        for at, group in enumerate([parts] if own else [parts[:1], parts[1:]]):
            linear(to.linear[at], *group)
        linear(to.linear[-1], name + ".out_proj")
        norm(to.layer_norm, name + "_layer_norm")

    def stack(to, name):
        width = config["d_model"]
        to.scale_embeddings = width ** 0.5 if config.get("scale_embedding") else 1.0
        turns = np.arange(config["max_position_embeddings"])[:, None] / 10000 ** (np.arange(0, width, 2) / width)
        to.position_encodings.encodings = np.concatenate([np.sin(turns), np.cos(turns)], 1).astype(np.float32)
        table = to.embeddings[0] if isinstance(to.embeddings, list) else to.embeddings
        table.weight = known.get("model.%s.embed_tokens.weight" % name, known.get("model.shared.weight"))
        for at, layer in enumerate(to.layer):
            here = "model.%s.layers.%d." % (name, at)
            attention(layer.self_attention, here + "self_attn", True)
            if name == "decoder":
                attention(layer.attention, here + "encoder_attn", False)
            linear(layer.ffn.linear_0, here + "fc1")
            linear(layer.ffn.linear_1, here + "fc2")
            norm(layer.ffn.layer_norm, here + "final_layer_norm")
        if config.get("add_final_layer_norm"):
            norm(to.layer_norm, "model.%s.layer_norm" % name)

    stack(spec.encoder, "encoder")
    stack(spec.decoder, "decoder")
    spec.decoder.start_from_zero_embedding = False
    spec.decoder.projection.weight = known.get("lm_head.weight", spec.decoder.embeddings.weight)
    if known["final_logits_bias"].any():
        spec.decoder.projection.bias = known["final_logits_bias"].reshape(-1)
    ids = json.loads((Path(model) / "vocab.json").read_text(encoding="utf-8"))
    tokens = sorted(ids, key=ids.get)[:config["vocab_size"]]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.eos_token, spec.config.unk_token = tokens[config["eos_token_id"]], "<unk>"
    spec.config.decoder_start_token = tokens[config["decoder_start_token_id"]]
    spec.validate()
    spec.optimize(quantization=None)
    os.makedirs(folder, exist_ok=True)
    spec.save(str(folder))


class Rival:
    """Translates the lines that arrived while it was busy, in one batch."""

    def __init__(self, folder, model, cores, beam):
        import ctranslate2
        import sentencepiece

        self.source = sentencepiece.SentencePieceProcessor(model_file=str(Path(model) / "source.spm"))
        self.target = sentencepiece.SentencePieceProcessor(model_file=str(Path(model) / "target.spm"))
        self.model = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", inter_threads=1,
                                            intra_threads=cores)
        self.beam, self.waiting, self.come = beam, [], asyncio.Event()

    def translate(self, lines):
        tokens = [pieces + ["</s>"] for pieces in self.source.encode(lines, out_type=str)]
        found = self.model.translate_batch(tokens, beam_size=self.beam, max_batch_size=TOKENS, batch_type="tokens",
                                           max_decoding_length=MAX_NEW)
        return [self.target.decode(one.hypotheses[0]) for one in found]

    async def ask(self, line):
        answer = asyncio.get_running_loop().create_future()
        self.waiting.append((line, answer))
        self.come.set()
        return await answer

    async def work(self):
        while True:
            await self.come.wait()
            self.come.clear()
            batch, self.waiting = self.waiting, []
            try:
                texts = await asyncio.to_thread(self.translate, [line for line, _ in batch])
            except Exception as error:  # each of them fails, the next batch is not affected
                for _, answer in batch:
                    answer.cancelled() or answer.set_exception(error)
                continue
            for (_, answer), text in zip(batch, texts, strict=True):
                answer.cancelled() or answer.set_result(text)


def serve(arguments):
    """The peer's server, a separate process."""
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("model")
    parser.add_argument("--beam", type=int, required=True)
    a = parser.parse_args(arguments)
    rival = Rival(a.folder, a.model, len(os.sched_getaffinity(0)), a.beam)

    class Asked(BaseModel):
        q: str
        source: str
        target: str

    @contextlib.asynccontextmanager
    async def life(_):
        worker = asyncio.create_task(rival.work())
        yield
        worker.cancel()

    app = FastAPI(lifespan=life)

    @app.post("/translate")
    async def translate(asked: Asked):
        return {"translatedText": await rival.ask(asked.q)}

    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print("listening on http://127.0.0.1:%d/" % listener.getsockname()[1], file=sys.stderr, flush=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


# ---- The comparison -------------------------------------------------------------------------------------------------


class Server:
    """A process that prints its listening address."""

    def __init__(self, name, command, log):
        self.name, self.log = name, log
        with open(log, "w", encoding="utf-8") as err:
            self.process = subprocess.Popen(command, stderr=err)
        for _ in range(1200):
            found = re.search(r"listening on https?://[^ ]*:(\d+)/", log.read_text(encoding="utf-8"))
            if found or self.process.poll() is not None:
                break
            time.sleep(0.1)
        if not found:
            self.end()
            raise SystemExit("%s does not listen: see %s" % (name, log))
        self.port = found[1]

    def load(self, lines, connections, codes):
        done = subprocess.run([sys.executable, LOAD, self.port, lines, "--connections", str(connections), "--source",
                               codes[0], "--target", codes[1]], stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise SystemExit("%s answers wrongly:\n%s" % (self.name, done.stdout))
        return json.loads(done.stdout.split("\n")[0])

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()


def by_command(program, model, lines, out, beam, penalty):
    """Seconds of `tfm translate`, without loading and building kernels."""
    done = subprocess.run([program, "translate", "-m", model, "-i", lines, "-o", out, "--split", "--beam-size", str(beam),
                           "--length-norm", penalty, "--stats"], stderr=subprocess.PIPE, check=True, text=True)
    return {"seconds": json.loads(re.search(r"^stats (.*)$", done.stderr, re.MULTILINE)[1])["seconds"]}


TICK = os.sysconf("SC_CLK_TCK")


def worked(pid):
    """CPU seconds of a process."""
    return sum(int(x) for x in Path("/proc/%d/stat" % pid).read_text(encoding="utf-8").rsplit(")", 1)[1].split()[11:13]) / TICK


def busy(pids):
    """Busy seconds of all cores, and the part of the given processes and this one's ended children."""
    fields = [int(x) for x in Path("/proc/stat").read_text(encoding="utf-8").split("\n")[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / TICK, sum(os.times()[:4]) + sum(worked(pid) for pid in pids)


def watched(run, pids, which=None):
    """run's result, with the share of the cores that others used meanwhile, and the CPU seconds of process `which`, or
    of children of this one."""
    def seconds():
        return worked(which) if which else sum(os.times()[2:4])

    time.sleep(0.3)  # lets spinning threads go to sleep
    start, before, own = time.perf_counter(), busy(pids), seconds()
    record = run()
    after, passed, own = busy(pids), time.perf_counter() - start, seconds() - own
    others = (after[0] - before[0]) - (after[1] - before[1])
    return {**record, "others": max(0.0, others / passed / os.cpu_count()), "core_seconds": round(own, 2)}


def race(a, servers, lines, codes):
    pids = [server.process.pid for server in servers]
    count = lines.read_text(encoding="utf-8").count("\n")
    for _ in range(a.rounds):
        made = watched(lambda: by_command(a.program, a.model, str(lines), str(Path(a.work) / "tfm.txt"), a.beam, a.length_penalty),
                       pids)
        yield {"who": "tfm translate", "connections": 0, "lines": count, "lines_per_s": count / made["seconds"],
               "others": made["others"], "core_seconds": made["core_seconds"]}
        for connections in a.connections:
            for server in servers:
                yield {"who": server.name, **watched(lambda s=server, c=connections: s.load(lines, c, codes), pids,
                                                         server.process.pid)}


def table(kept, connections, most):
    """Prints the medians as Markdown."""
    kept = [{**k, "core_ms": 1e3 * k["core_seconds"] / k["lines"]} for k in kept]

    def median(who, number, key):
        found = [k[key] for k in kept if k["who"] == who and k["connections"] == number and k["others"] < most]
        return (statistics.median(found), len(found)) if found else (float("nan"), 0)

    print("\n`tfm translate`: %.1f lines/s (%d rounds), %.1f ms of a core for a line, with loading\n"
          % (*median("tfm translate", 0, "lines_per_s"), median("tfm translate", 0, "core_ms")[0]))
    print("| connections | tfm serve: lines/s | median ms | p99 ms | core ms a line | CTranslate2: lines/s | median ms | p99 ms "
          "| core ms a line | tfm serve / CTranslate2 | tfm serve / tfm translate | rounds |")
    print("|" + "---|" * 12)
    for number in connections:
        cells, rounds = [], []
        for who in ("tfm serve", "CTranslate2"):
            for key, form in (("lines_per_s", "%.1f"), ("median_ms", "%.0f"), ("p99_ms", "%.0f"), ("core_ms", "%.1f")):
                value, count = median(who, number, key)
                cells.append(form % value)
                rounds.append(count)
        rate, other, whole = median("tfm serve", number, "lines_per_s")[0], median("CTranslate2", number, "lines_per_s")[0], \
            median("tfm translate", 0, "lines_per_s")[0]
        print("| %d | %s | %.2f | %.2f | %d |" % (number, " | ".join(cells), rate / other, rate / whole, min(rounds)))


def agree(a, servers, lines, codes):
    """Counts equal answers of both servers for the first lines; warms them up."""
    import urllib.request

    def ask(server, line):
        body = json.dumps({"q": line, "source": codes[0], "target": codes[1]}).encode()
        request = urllib.request.Request("http://127.0.0.1:%s/translate" % server.port, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)["translatedText"]

    first = lines[:50]
    alike = sum(len({ask(server, line) for server in servers}) == 1 for line in first)
    print("%d lines, %d equal answers" % (len(first), alike))
    if alike < (0.8 if a.length_penalty == "hf" else 0.5) * len(first):
        raise SystemExit("that is too few for the same model: something is wrong with the conversion in " + a.work)
    for server in servers:
        server.load(Path(a.work) / "lines.txt", max(a.connections), codes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("lines")
    parser.add_argument("--work", required=True)
    parser.add_argument("--connections", type=lambda text: [int(n) for n in text.split(",")], default=[1, 8, 64, 256])
    parser.add_argument("--languages", default="de-en")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=2000)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--length-penalty", choices=("paper", "hf"), default="paper")
    parser.add_argument("--others", type=float, default=0.1)
    parser.add_argument("--keep")
    a = parser.parse_args()
    work, codes = Path(a.work), a.languages.split("-")
    work.mkdir(parents=True, exist_ok=True)
    lines = [line for line in Path(a.lines).read_text(encoding="utf-8").split("\n") if line.strip()][: a.limit]
    (work / "lines.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    converted = work / "ctranslate2"
    if not (converted / "model.bin").exists():
        convert(a.model, converted)
    kept = [json.loads(line) for line in Path(a.keep).read_text(encoding="utf-8").split("\n")[:-1]] if a.keep and Path(a.keep).exists() else []
    commands = {"tfm serve": [a.program, "serve", "-m", "%s=%s" % (a.languages, a.model), "--port", "0", "--quiet",
                              "--length-norm", a.length_penalty, "--beam-size", str(a.beam)],
                "CTranslate2": [sys.executable, __file__, "--serve", str(converted), a.model, "--beam", str(a.beam)]}
    servers = []
    try:
        for name, command in commands.items():
            servers.append(Server(name, command, work / (name.replace(" ", "-") + ".log")))
        agree(a, servers, lines, codes)
        for record in race(a, servers, work / "lines.txt", codes):
            kept.append(record)
            print(json.dumps(record), flush=True)
            if a.keep:
                with open(a.keep, "a", encoding="utf-8") as file:
                    print(json.dumps(record), file=file)
    finally:
        for server in servers:
            server.end()
    table(kept, a.connections, a.others)


if sys.argv[1:2] == ["--serve"]:
    serve(sys.argv[2:])
else:
    main()
