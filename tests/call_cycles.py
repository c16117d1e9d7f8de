"""Call cycles between files that need each other's functions or data, from `nm` of their objects.

    call_cycles.py OBJECT...    OBJECT: an object file or an archive
    call_cycles.py --self-test

Prints each cycle with its symbols; nothing if there is none.
"""
import os
import subprocess
import sys
from collections import defaultdict


def name_of(where):
    """The source of `archive:object` or `object`: "dev_pool" of "lib/libtfm-core.a:libtfm-core.a.p/dev_pool.c.o"."""
    return os.path.basename(where.split(":")[-1]).split(".")[0]


def calls(lines):
    """{file: {called file: {symbol}}} from the lines of `nm -A`."""
    home, uses = {}, []
    for line in lines:
        where, _, rest = line.rpartition(":")
        if not rest.split():
            continue
        kind, symbol = rest.split()[-2:]
        if kind in "ABCDGRST":
            home[symbol] = name_of(where)
        elif kind == "U":
            uses.append((name_of(where), symbol))
    graph = defaultdict(lambda: defaultdict(set))
    for user, symbol in uses:
        if home.get(symbol, user) != user:
            graph[user][home[symbol]].add(symbol)
    return graph


def reached(graph, start):
    seen, todo = set(), [start]
    while todo:
        for other in graph.get(todo.pop(), ()):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def cycles(graph):
    """The strongly connected components with more than one file."""
    reach = {file: reached(graph, file) for file in graph}
    in_cycle = {file for file in graph if file in reach[file]}
    return sorted({tuple(sorted(other for other in reach[file] if other in in_cycle and file in reach[other]))
                   for file in in_cycle})


def report(graph):
    for cycle in cycles(graph):
        yield "%d files call each other: %s" % (len(cycle), " ".join(cycle))
        for file in cycle:
            for other in sorted(set(graph[file]) & set(cycle)):
                yield "  %s -> %s: %s" % (file, other, ", ".join(sorted(graph[file][other])))


def self_test():
    planted = """x.a:p/dev_a.c.o:0000 T first\nx.a:p/dev_a.c.o: U second\nx.a:p/dev_b.c.o:0000 D second
x.a:p/dev_b.c.o: U third\nx.a:p/dev_c.c.o:0000 T third\nx.a:p/dev_c.c.o: U %s\nx.a:p/dev_d.c.o: U first"""
    loop, chain = [calls((planted % end).splitlines()) for end in ("first", "malloc")]
    assert list(report(chain)) == []
    assert list(report(loop))[0] == "3 files call each other: dev_a dev_b dev_c"


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    nm = subprocess.run(["nm", "-A"] + arguments, stdout=subprocess.PIPE, text=True, check=True)
    graph = calls(nm.stdout.splitlines())
    if not graph:
        print("no object calls another: is it built?")
    for line in report(graph):
        print(line)


main(sys.argv[1:])
