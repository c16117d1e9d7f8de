"""Soak test of tfm serve: translation of lines, lists and HTML, embeddings, completions and chats, streamed or not, in
random order by clients that connect, wait, disconnect and reconnect; first, bursts of 256 connections at a time.
    python3 tests/serve/soak.py PROGRAM ROOT MAKE_DECODER [--seconds S | --requests N] [--connections 24] [--rate 200]
                                [--log FILE]
Runs for S seconds, or until N requests are sent (20000 by default), at most --rate requests per second, on the loopback
interface only. Some clients close the connection before their answer or during a stream; one never finishes its
request. Each answer must equal what `tfm translate`, `tfm embed` or `tfm generate` prints for the same input, and the first
answer to the same request. Prints a JSON object: requests, seconds, statuses, kinds, wrong, unanswered, answered_twice,
cancelled, connections, and the server's resident memory in MiB, as medians of a minute: after ten minutes (in short runs: at
half) and at the end. Exits with 1 if an answer is wrong, missing or sent twice, if memory differs by more than 2 % (in
runs of a minute and more), or if the server does not exit with 0."""
import argparse
import asyncio
import base64
import json
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PATIENCE = 120  # seconds without an answer, after which a request counts as unanswered
NEW_TOKENS = 12
SETTLED = 60  # seconds; in a shorter run models are still being loaded and kernels built


async def body_of(reader, head, first_chunk_only=False):
    """A body with Content-Length, or in chunks, as for streams."""
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    if length:
        return await reader.readexactly(int(length[1]))
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
        if first_chunk_only:
            return body
    await reader.readexactly(2)
    return body


async def answer_of(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), await body_of(reader, head)


def request_of(path, asked):
    body = json.dumps(asked).encode()
    return (b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % (path.encode(), len(body)) + body)


def resident(pid):
    return int(re.search(r"VmRSS:\s*(\d+)", Path("/proc/%d/status" % pid).read_text(encoding="utf-8"))[1]) / 1024


# ---- The reproducible part of an answer


def translation_of(answer):
    return answer["translatedText"]


def vectors_of(answer):
    vectors = [one["embedding"] for one in sorted(answer["data"], key=lambda one: one["index"])]
    return [list(struct.unpack("<%df" % (len(raw) // 4), raw)) for raw in map(base64.b64decode, vectors)] \
        if isinstance(vectors[0], str) else vectors


def text_of(answer):
    choice = answer["choices"][0]
    return choice["text"] if "text" in choice else choice["message"]["content"], choice["finish_reason"]


def streamed_text_of(body):
    """The text of a stream's events, with exactly one end."""
    events = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    if events.count("[DONE]") != 1 or events[-1] != "[DONE]":
        raise ValueError("the stream does not end with [DONE]")
    text, ends = "", []
    for choice in (choice for event in events[:-1] for choice in json.loads(event)["choices"]):
        text += choice["text"] if "text" in choice else choice["delta"].get("content") or ""
        ends += [choice["finish_reason"]] if choice["finish_reason"] else []
    if len(ends) != 1:
        raise ValueError("the stream has %d ends" % len(ends))
    return text, ends[0]


def same(got, want):
    if isinstance(want, list) and want and isinstance(want[0], list):  # embeddings: batching changes rounding
        return len(got) == len(want) and all(len(a) == len(b) and all(abs(x - y) < 1e-5 for x, y in zip(a, b))
                                             for a, b in zip(got, want))
    return got == want


# ---- Expected answers


class Wants:
    """The output of the program for all requests."""

    def __init__(self, program, root, models):
        def lines_from(command, model, *flags, lines):
            return subprocess.run([program, command, "-m", str(models[model]), *flags], input="\n".join(lines) + "\n",
                                  stdout=subprocess.PIPE, text=True, encoding="utf-8", check=True).stdout.split("\n")[:-1]

        lines = (root / "apps" / "demo" / "test.de").read_text(encoding="utf-8").split("\n")[:-1]
        self.lines = lines + ["%s %s" % (lines[k], lines[(7 * k + n) % 20]) for n in range(1, 25) for k in range(20)]
        self.translations = {source: lines_from("translate", source, "--split", lines=self.lines) for source in ("de", "fr")}
        self.pages = ['<p>%s</p>' % line if n % 2 else '<p class="x">%s <b>Danke.</b></p>' % line
                      for n, line in enumerate(self.lines[:60])]
        self.page_wants = [page + "\n" for page in lines_from("translate", "de", "--format", "html", lines=self.pages)]
        assert len(self.page_wants) == len(self.pages)
        words = "the cat sits in the garden and a dog runs after it".split()
        self.texts = [" ".join(words[n % 7:n % 7 + 1 + n // 7]) for n in range(40)]
        self.vectors = [json.loads(line) for line in lines_from("embed", "embedder", lines=self.texts)]
        self.prompts = [" ".join("w%d" % (3 + (n * k + n) % 47) for k in range(1, 2 + n % 8)) for n in range(60)]
        generated = lines_from("generate", "decoder", "-i", "-", "--json", "--max-new-tokens", str(NEW_TOKENS), lines=self.prompts)
        ends = {"end": "stop", "stop": "stop", "length": "length"}
        self.generations = [(one["text"], ends[one["end"]]) for one in map(json.loads, generated)]


class Asker:
    """Generates random requests: (kind, path, body, answer parser or None, expected answer or None, status)."""

    def __init__(self, wants):
        self.draw, self.wants = random.Random(20), wants

    def translate(self):
        w, line, source = self.wants, self.draw.randrange(len(self.wants.lines)), self.draw.choice(("de", "fr"))
        asked = {"q": w.lines[line], "source": source, "target": "en"}
        kind, want = self.draw.choices(("line", "list", "alternatives", "html", "refused"), (62, 12, 11, 11, 4))[0], None
        status = 200
        if kind == "line":
            want = w.translations[source][line]
        elif kind == "list":
            asked["q"] = [w.lines[line], "", w.lines[line - 1]]
            want = [w.translations[source][line], "", w.translations[source][line - 1]]
        elif kind == "alternatives":
            asked["alternatives"] = 2
        elif kind == "html":
            page = self.draw.randrange(len(w.pages))
            asked, want = {"q": w.pages[page] + "\n", "source": "de", "target": "en", "format": "html"}, w.page_wants[page]
        else:
            asked["target"], status = "xx", 400
        return kind, "/translate", asked, translation_of if status == 200 else None, want, status

    def embed(self):
        some = [self.draw.randrange(len(self.wants.texts)) for _ in range(self.draw.choice((1, 1, 2, 5)))]
        texts = [self.wants.texts[n] for n in some]
        asked = {"model": "embedder", "input": texts if len(texts) > 1 else texts[0],
                 "encoding_format": self.draw.choice(("float", "base64"))}
        return "embeddings", "/v1/embeddings", asked, vectors_of, [self.wants.vectors[n] for n in some], 200

    def generate(self):
        prompt = self.draw.randrange(len(self.wants.prompts))
        text, want = self.wants.prompts[prompt], None
        asked = {"model": "decoder", "max_tokens": NEW_TOKENS, "temperature": 0}
        kind = self.draw.choice(("completion", "completion", "chat", "sampled"))
        if kind == "chat":
            path, asked["messages"] = "/v1/chat/completions", [{"role": "user", "content": text}]
        else:
            path, asked["prompt"] = "/v1/completions", text
        if kind == "sampled":
            asked |= {"temperature": 0.8, "seed": prompt}
        elif kind == "completion":
            want = self.wants.generations[prompt]
        if streamed := self.draw.random() < 0.5:
            asked["stream"] = True
        return kind + " streamed" * streamed, path, asked, streamed_text_of if streamed else text_of, want, 200

    def __call__(self):
        return self.draw.choices((self.translate, self.embed, self.generate), (50, 20, 30))[0]()


# ---- The clients


class Soak:
    def __init__(self, a, port, pid, wants):
        self.port, self.pid, self.ask, self.draw = port, pid, Asker(wants), random.Random(21)
        self.left, self.end, self.rate, self.turn = a.requests, None, a.rate, 0.0
        self.start = time.perf_counter()
        self.duration = a.seconds
        self.first, self.wrong, self.unanswered, self.statuses, self.kinds, self.memory = {}, [], [], {}, {}, []
        self.sent = self.answered = self.twice = self.cancelled = self.connections = 0

    def goes_on(self):
        return time.perf_counter() < self.end if self.duration else self.sent < self.left

    def judge(self, asked, status, body):
        _, path, request, read, want, wanted_status = asked
        self.answered += 1
        self.statuses[status] = self.statuses.get(status, 0) + 1
        try:
            got = read(body if read is streamed_text_of else json.loads(body)) if status == 200 else body.decode()
            key = json.dumps([path, {name: value for name, value in request.items()
                                     if name not in ("stream", "encoding_format")}])
            good = status == wanted_status and (want is None or same(got, want)) and same(self.first.setdefault(key, got), got)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            good, body = False, b"%s: %s" % (repr(error).encode(), body)
        if not good:
            self.wrong.append((path, request, status, body[:400]))

    async def pace(self):
        """Limits requests per second to --rate."""
        now = time.perf_counter()
        self.turn = max(now, self.turn + 1 / self.rate)
        await asyncio.sleep(self.turn - now)

    async def leave(self, asked, reader):
        """Closes the connection before the answer: at once, after a moment, or during a stream."""
        self.cancelled += 1
        when = self.draw.random()
        if asked[2].get("stream") and when < 0.7:
            await body_of(reader, await reader.readuntil(b"\r\n\r\n"), True)
        elif when < 0.85:
            await asyncio.sleep(0.01)

    async def client(self):
        """Reconnects until the soak test is over."""
        while self.goes_on():
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
            self.connections += 1
            left = False
            for _ in range(self.draw.randrange(1, 20)):
                await self.pace()
                if not self.goes_on():
                    break
                asked = self.ask()
                self.sent += 1
                self.kinds[asked[0]] = self.kinds.get(asked[0], 0) + 1
                writer.write(request_of(asked[1], asked[2]))
                try:
                    if left := self.draw.random() < (0.1 if asked[2].get("stream") else 0.02):
                        await asyncio.wait_for(self.leave(asked, reader), PATIENCE)
                        break
                    self.judge(asked, *await asyncio.wait_for(answer_of(reader), PATIENCE))
                except (asyncio.TimeoutError, asyncio.IncompleteReadError, ConnectionError) as error:
                    self.unanswered.append(("%.0f s" % (time.perf_counter() - self.start), asked[:3], repr(error)))
                    left = True
                    break
            if not left:
                await self.nothing_more(reader)
            writer.close()

    async def nothing_more(self, reader):
        """After the last answer the server must send nothing."""
        try:
            self.twice += await asyncio.wait_for(reader.read(1), 0.02) != b""
        except asyncio.TimeoutError:
            pass

    async def bursts(self, rounds=100, connections=256, seconds=20):
        """All connect at once with small requests; each must be answered."""
        async def one():
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            for _ in range(2):
                writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert (await answer_of(reader))[0] == 200
            writer.close()

        for burst in range(rounds):
            try:
                await asyncio.wait_for(asyncio.gather(*(one() for _ in range(connections))), seconds)
            except asyncio.TimeoutError:
                self.unanswered.append(("burst", burst, "not answered in time"))
                return

    async def silent(self):
        """Sends half of a request, and stays connected while the others are busy."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request_of("/translate", {"q": "a"})[:40])
        while self.goes_on():
            await asyncio.sleep(0.2)
        writer.close()

    async def watch(self):
        while self.goes_on():
            self.memory.append(resident(self.pid))
            await asyncio.sleep(1)

    async def answers_counted(self):
        """The number of answers in the server's metrics."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        text = (await answer_of(reader))[1]
        writer.close()
        return sum(int(each) for each in re.findall(rb'tfm_answers_total\{[^}]*\} (\d+)', text))

    async def run(self, connections):
        await self.bursts()
        before = await self.answers_counted()
        self.end = time.perf_counter() + (self.duration or 0)
        await asyncio.gather(self.silent(), self.watch(), *(self.client() for _ in range(connections)))
        counted = await self.answers_counted() - before - 1  # the first count is an answer as well
        if counted > self.sent + 1:  # one for the unfinished request
            self.twice += counted - self.sent

    def memories(self):
        """Memory after ten minutes, or at half of a short run, and at the end: medians of a minute or of a twelfth."""
        count = len(self.memory)
        span, at = min(60, max(1, count // 12)), 600 if count >= 1200 else count // 2
        return [round(statistics.median(part), 1) for part in (self.memory[at:at + span], self.memory[-span:])]


def started(program, models, log):
    names = {"de": "de-en", "fr": "fr-en", "embedder": "embedder", "decoder": "decoder"}
    given = [word for key, path in models.items() for word in ("-m", "%s=%s" % (names[key], path))]
    with open(log, "w", encoding="utf-8") as err:
        server = subprocess.Popen([program, "serve", "--port", "0", "--quiet", *given, "--timeout", "600"], stderr=err)
    for _ in range(600):
        found = re.search(r"listening on http://[^ ]*:(\d+)/", log.read_text(encoding="utf-8"))
        if found or server.poll() is not None:
            break
        time.sleep(0.1)
    assert found, log.read_text(encoding="utf-8")
    return server, int(found[1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("root", type=Path)
    parser.add_argument("make_decoder")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--connections", type=int, default=24)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--log", type=Path)
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log, decoder = a.log or Path(folder) / "log", Path(folder) / "decoder"
        decoder.mkdir()
        subprocess.run([a.make_decoder, decoder], check=True)
        subprocess.run([sys.executable, a.root / "tests" / "serve" / "make_words.py", decoder], check=True)
        models = {"de": a.root / "apps" / "demo", "fr": a.root / "tests" / "golden" / "untied-gelu-bf16",
                  "embedder": a.root / "tests" / "golden" / "embedder", "decoder": decoder}
        wants = Wants(a.program, a.root, models)
        server, port = started(a.program, models, log)
        start = time.perf_counter()
        try:
            soak = Soak(a, port, server.pid, wants)
            asyncio.run(soak.run(a.connections))
        finally:
            server.terminate()
            code = server.wait(120)
        seconds = time.perf_counter() - start
        if code != 0:
            print("#", log.read_text(encoding="utf-8")[-2000:])
    middle, last = soak.memories()
    print(json.dumps({"requests": soak.sent, "seconds": round(seconds, 1), "statuses": soak.statuses, "kinds": soak.kinds,
                      "wrong": len(soak.wrong), "unanswered": len(soak.unanswered), "answered_twice": soak.twice,
                      "cancelled": soak.cancelled, "connections": soak.connections, "memory_mib": [middle, last],
                      "memory_change_percent": round(100 * (last / middle - 1), 2), "exit": code}))
    for one in soak.wrong[:5] + soak.unanswered[:5]:
        print("#", one)
    good = not soak.wrong and not soak.unanswered and not soak.twice and code == 0
    good = good and soak.answered + soak.cancelled == soak.sent
    good = good and (len(soak.memory) < SETTLED or abs(last / middle - 1) <= 0.02)
    return 0 if good else 1


raise SystemExit(main())
