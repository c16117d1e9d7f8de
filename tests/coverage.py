"""Coverage of lib from gcov's counts: python3 tests/coverage.py ROOT BUILD [LINES BRANCHES]

Prints the percentages of lines and branches of lib that ran, and writes BUILD/uncovered.txt: for each file, worst
first, the lines that did not run, and lines with branches never taken. Exits with 1 if the percentages are below LINES
and BRANCHES. Needs gcovr. All branches that gcov reports count: C has neither throwing branches nor others that gcovr
would exclude."""
import json
import os
import subprocess
import sys


def ranges(numbers):
    """1, 2, 3, 7 as "1-3 7"."""
    found = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return " ".join(str(first) if first == last else "%d-%d" % (first, last) for first, last in found)


def per_cent(part, whole):
    return 100 * part / max(whole, 1)


root, build = sys.argv[1:3]
least = [float(number) for number in sys.argv[3:5]] or [0, 0]
report = os.path.join(build, "coverage.json")
# Threads count without a lock, so gcov sometimes reports less than 0: such a line is skipped with a warning.
subprocess.run(["gcovr", "--root", root, "--filter", os.path.join(root, "lib", ""), "--gcov-ignore-parse-errors", "--json", report,
                "--object-directory", build, build], check=True, stderr=subprocess.DEVNULL)
with open(report, encoding="utf-8") as file:
    files = json.load(file)["files"]
rows, sums = [], [0, 0, 0, 0]
for one in files:
    lines = [line for line in one["lines"] if not line.get("gcovr/noncode")]
    missed = [line["line_number"] for line in lines if line["count"] == 0]
    branches = [(line, branch) for line in lines for branch in line["branches"]]
    untaken = [line["line_number"] for line, branch in branches if branch["count"] == 0 and line["count"] > 0]
    counts = [len(lines), len(missed), len(branches), sum(branch["count"] == 0 for _, branch in branches)]
    sums = [a + b for a, b in zip(sums, counts)]
    rows.append((counts, one["file"], missed, sorted(set(untaken))))
rows.sort(key=lambda row: (-row[0][1], -row[0][3], row[1]))
with open(os.path.join(build, "uncovered.txt"), "w", encoding="utf-8") as file:
    for (lines, missed, branches, untaken), name, numbers, of_branches in rows:
        print("%s: %d of %d lines (%.1f %%), %d of %d branches (%.1f %%)" % (
            name, lines - missed, lines, per_cent(lines - missed, lines), branches - untaken, branches,
            per_cent(branches - untaken, branches)), file=file)
        print("    lines: %s\n    branches at: %s" % (ranges(numbers) or "all", ranges(of_branches) or "all"), file=file)
got = [per_cent(sums[0] - sums[1], sums[0]), per_cent(sums[2] - sums[3], sums[2])]
print("lib: %.2f %% of %d lines, %.2f %% of %d branches; uncovered: %s" % (
    got[0], sums[0], got[1], sums[2], os.path.join(build, "uncovered.txt")))
for (lines, missed, _, _), name, _, _ in rows[:15]:
    print("  %-40s %4d of %4d lines did not run" % (name, missed, lines))
raise SystemExit(got[0] < least[0] or got[1] < least[1])
