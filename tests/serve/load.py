"""Load test: sends lines to a tfm serve, or another server with LibreTranslate's API, over several connections. Each
connection sends its next line after the answer to the last.
    python3 tests/serve/load.py PORT LINES [--want FILE] [--connections N] [--source de] [--target en] [--repeat K]
LINES is a file; with --want, each answer must equal the line of that file. Prints a JSON object: lines, seconds, lines
per second, the median and 99th percentile of the latency in milliseconds, wrong answers. Exits with 1 if any is
wrong."""
import argparse
import asyncio
import json
import time


async def post(reader, writer, path, body):
    data = json.dumps(body).encode()
    writer.write(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                 % (path.encode(), len(data)) + data)
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    return status, await reader.readexactly(length)


async def connection(args, jobs, times, wrong):
    reader, writer = await asyncio.open_connection("127.0.0.1", args.port, limit=1 << 20)
    for number, line, want in jobs:
        start = time.perf_counter()
        status, body = await post(reader, writer, "/translate", {"q": line, "source": args.source, "target": args.target})
        times.append(time.perf_counter() - start)
        text = json.loads(body).get("translatedText") if status == 200 else body.decode()
        if status != 200 or (want is not None and text != want):
            wrong.append((number, status, line, text, want))
    writer.close()


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("lines")
    parser.add_argument("--want")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--source", default="de")
    parser.add_argument("--target", default="en")
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_args()
    lines = open(args.lines, encoding="utf-8").read().split("\n")[:-1]
    want = open(args.want, encoding="utf-8").read().split("\n")[:-1] if args.want else [None] * len(lines)
    assert len(want) == len(lines), "as many lines are wanted as are sent"
    pairs = [(i, line, w) for i, (line, w) in enumerate(zip(lines, want)) if line.strip()] * args.repeat
    jobs, times, wrong = iter(pairs), [], []
    start = time.perf_counter()
    await asyncio.gather(*(connection(args, jobs, times, wrong) for _ in range(args.connections)))
    seconds = time.perf_counter() - start
    times.sort()
    print(json.dumps({"connections": args.connections, "lines": len(times), "seconds": round(seconds, 3),
                      "lines_per_s": round(len(times) / seconds, 1), "median_ms": round(1e3 * times[len(times) // 2], 1),
                      "p99_ms": round(1e3 * times[min(len(times) - 1, int(0.99 * len(times)))], 1), "wrong": len(wrong)}))
    for one in wrong[:5]:
        print("# line %d: status %d: %r gave %r, not %r" % one)
    return 1 if wrong or len(times) != len(pairs) else 0


raise SystemExit(asyncio.run(main()))
