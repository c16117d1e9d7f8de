#!/usr/bin/env python3
"""Latency of single lines during a long request, for one or several builds of tfm serve in turns.

    python3 tests/bench/serve_latency.py MODEL LINES NAME=PROGRAM... [--source de] [--target en] [--rounds 3] [--text 600]

LINES has a sentence on each line; the first --text of them are one request. During it, single lines are requested one
after another, 50 ms apart. Prints, for one and for two workers, the time of the text, and the median and worst time of
the lines, over all rounds."""
import argparse
import json
import re
import signal
import statistics
import subprocess
import threading
import time
import urllib.request


def post(args, port, q):
    body = json.dumps({"q": q, "source": args.source, "target": args.target}).encode()
    start = time.monotonic()
    urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:%s/translate" % port, body,
                                                  {"Content-Type": "application/json"})).read()
    return time.monotonic() - start


def turn(args, lines, program, workers):
    pair = "%s-%s=%s" % (args.source, args.target, args.model)
    server = subprocess.Popen([program, "serve", "-m", pair, "--port", "0", "--workers", workers],
                              stderr=subprocess.PIPE, text=True)
    port = None
    while port is None:
        found = re.search(r"http\S*:(\d+)", server.stderr.readline())
        port = found and found.group(1)
    threading.Thread(target=server.stderr.read, daemon=True).start()
    post(args, port, lines[:64])
    whole, single = [], []
    text = threading.Thread(target=lambda: whole.append(post(args, port, lines[:args.text])))
    text.start()
    time.sleep(0.3)
    while text.is_alive():
        single.append(post(args, port, lines[len(single) % 50]))
        time.sleep(0.05)
    text.join()
    server.send_signal(signal.SIGTERM)
    server.wait()
    return whole[0], single[:-1]  # the last one may have run alone


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("lines")
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--source", default="de")
    parser.add_argument("--target", default="en")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--text", type=int, default=600)
    args = parser.parse_args()
    lines = open(args.lines, encoding="utf-8").read().split("\n")[:-1]
    programs = [one.split("=", 1) for one in args.programs]
    results = {}
    for _ in range(args.rounds):
        for workers in "12":
            for name, program in programs:
                whole, single = turn(args, lines, program, workers)
                had = results.setdefault((workers, name), ([], []))
                had[0].append(whole)
                had[1].extend(single)
    for (workers, name), (wholes, singles) in sorted(results.items()):
        print("%s, %s worker%s: the text %.2f s; %d lines: median %.0f ms, worst %.0f ms" % (
            name, workers, "s" if workers > "1" else "", statistics.median(wholes), len(singles),
            1e3 * statistics.median(singles), 1e3 * max(singles)))


if __name__ == "__main__":
    main()
