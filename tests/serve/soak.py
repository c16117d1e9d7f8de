"""A soak of tfm serve: many requests of many kinds by clients that come, wait, leave and return, bounded in count; and before
that, bursts of 256 connections at a time.
    python3 tests/serve/soak.py PROGRAM ROOT [--requests 20000] [--connections 24] [--log FILE]
It starts a server with two models and asks both at once for 500 lines, alone and in lists, with alternatives and as HTML;
some clients hang up, one says nothing. Every answer must be what the first answer to the same request was, and that of a
line what `tfm translate --split` gives, byte for byte. Prints an object: requests, seconds, answers by status, wrong ones, clients that left,
and the server's memory in MiB at each tenth of the way. Exits with 1 if an answer is wrong or missing, if the memory of the
last half has grown by more than a twentieth, or if the server does not end well."""
import argparse
import asyncio
import json
import random
import re
import subprocess
import tempfile
import time
from pathlib import Path


async def answer_of(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    return int(head.split(b" ", 2)[1]), await reader.readexactly(length)


def request_of(asked):
    body = json.dumps(asked).encode()
    return (b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % len(body) + body)


def resident(pid):
    return int(re.search(r"VmRSS:\s*(\d+)", Path("/proc/%d/status" % pid).read_text(encoding="utf-8"))[1]) / 1024


class Soak:
    def __init__(self, a, port, pid, lines, wants):
        self.port, self.pid, self.lines, self.wants = port, pid, lines, wants
        self.left, self.total, self.draw = a.requests, a.requests, random.Random(20)
        self.first, self.wrong, self.statuses, self.memory = {}, [], {}, []
        self.gone = self.connections = 0

    def ask(self):
        """A request, what its answer must hold or None, and whether it is a line's."""
        line, source = self.draw.randrange(len(self.lines)), self.draw.choice(("de", "fr"))
        asked = {"q": self.lines[line], "source": source, "target": "en"}
        kind = self.draw.random()
        if kind < 0.7:
            return asked, self.wants[source][line]
        if kind < 0.8:
            return {**asked, "q": [self.lines[line], "", self.lines[line - 1]]}, \
                [self.wants[source][line], "", self.wants[source][line - 1]]
        if kind < 0.9:
            return {**asked, "alternatives": 2}, None
        if kind < 0.95:
            return {**asked, "q": "<p>%s</p>" % self.lines[line], "format": "html"}, None
        return {**asked, "target": "xx"}, None

    def judge(self, asked, want, status, body):
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if want is not None and (status != 200 or json.loads(body)["translatedText"] != want):
            self.wrong.append((asked, status, body[:200]))
        if self.first.setdefault(json.dumps(asked), (status, body)) != (status, body):
            self.wrong.append((asked, status, body[:200]))

    async def client(self):
        """Comes and goes until all requests are made."""
        while self.left > 0:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
            self.connections += 1
            for _ in range(self.draw.randrange(1, 20)):
                if self.left <= 0:
                    break
                self.left -= 1
                if self.left % max(1, self.total // 10) == 0:
                    self.memory.append(round(resident(self.pid), 1))
                asked, want = self.ask()
                writer.write(request_of(asked))
                if self.draw.random() < 0.02:  # leaves without its answer
                    self.gone += 1
                    break
                self.judge(asked, want, *await answer_of(reader))
            writer.close()

    async def bursts(self, rounds=100, connections=256, seconds=20):
        """All come at once, ask for little, and go; none may be forgotten."""
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
                self.wrong.append(("burst", burst, b"not answered in time"))
                return

    async def silent(self):
        """Says half of something, and stays for as long as the others are busy."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request_of({"q": "a"})[:40])
        while self.left > 0:
            await asyncio.sleep(0.2)
        writer.close()


def started(program, root, log):
    demo, other = root / "apps" / "demo", root / "tests" / "golden" / "untied-gelu-bf16"
    with open(log, "w", encoding="utf-8") as err:
        server = subprocess.Popen([program, "serve", "--port", "0", "--quiet", "-m", "de-en=%s" % demo, "-m", "fr-en=%s" % other,
                                   "--timeout", "600"], stderr=err)
    for _ in range(600):
        found = re.search(r"listening on http://[^ ]*:(\d+)/", log.read_text(encoding="utf-8"))
        if found or server.poll() is not None:
            break
        time.sleep(0.1)
    assert found, log.read_text(encoding="utf-8")
    return server, int(found[1]), {"de": demo, "fr": other}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("root", type=Path)
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--connections", type=int, default=24)
    parser.add_argument("--log", type=Path)
    a = parser.parse_args()
    log = a.log or Path(tempfile.mkdtemp()) / "log"
    server, port, models = started(a.program, a.root, log)
    try:
        lines = (a.root / "apps" / "demo" / "test.de").read_text(encoding="utf-8").split("\n")[:-1]
        lines += ["%s %s" % (lines[k], lines[(7 * k + n) % 20]) for n in range(1, 25) for k in range(20)]
        wants = {source: subprocess.run([a.program, "translate", "-m", str(model), "--split"], input="\n".join(lines) + "\n",
                                        stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")[:-1]
                 for source, model in models.items()}
        soak = Soak(a, port, server.pid, lines, wants)

        async def all_of_them():
            await soak.bursts()
            await asyncio.gather(soak.silent(), *(soak.client() for _ in range(a.connections)))

        start = time.perf_counter()
        asyncio.run(all_of_them())
        seconds = time.perf_counter() - start
    finally:
        server.terminate()
        code = server.wait(120)
    half = soak.memory[len(soak.memory) // 2:]
    answered = sum(soak.statuses.values())
    good = not soak.wrong and code == 0 and answered + soak.gone == a.requests and half[-1] <= 1.05 * half[0]
    print(json.dumps({"requests": a.requests, "seconds": round(seconds, 1), "statuses": soak.statuses, "wrong": len(soak.wrong),
                      "left": soak.gone, "connections": soak.connections, "memory_mib": soak.memory, "ended": code}))
    for one in soak.wrong[:5]:
        print("#", one)
    return 0 if good else 1


raise SystemExit(main())
