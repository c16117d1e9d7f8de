"""Static figures of the hot kernels, from programs recorded by find.sh and engines.sh.
    python3 tests/gpu/figures.py write FOLDER GPU...      writes their tables in tests/bench/results/gpu-static.md
    python3 tests/gpu/figures.py check FOLDER GPU...      compares with them; prints differences; exit code 1 if any
FOLDER is BUILD/gpu, which contains `programs` and `engines`; GPU: a gfx target of targets.sh. GPU_MCA: llvm-mca."""
import fnmatch
import os
import pathlib
import re
import subprocess
import sys
import amdgcn

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE.parent / "bench/results/gpu-static.md"
COLUMNS = ["registers", "waves", "local bytes", "FMAs", "matrix", "loads", "local loads", "local words", "integer",
           "wide", "branches", "instructions", "cycles alone", "cycles at best", "% of peak"]
# Tolerance: small changes of a kernel or a compiler are not reported.
SHARE, LEAST = 0.1, 3
USUAL = re.compile(r"^-(?:cl-.*|DTFM_(?:CLASS_GPU|WIDTH=1|CHUNK=1|FMA|GROUP=128))$")

HEAD = """# Static figures of hot kernels

From the machine code of clang 15, not from a run; `tests/gpu/README.md` lists the limits of such figures.
`sh tests/run.sh` checks {ci}, `sh tests/nightly.sh gpu` all. A figure that differs by more than {share} % and by more
than {least} fails. After an intended change of a kernel, write the tables again:

    sh tests/gpu/find.sh build/check build/check/gpu/programs group=1024,local=65536
    sh tests/gpu/engines.sh build/check
    python3 tests/gpu/figures.py write build/check/gpu gfx1100 gfx90a gfx1030

- *registers*: vector registers of a work-item. *waves*: resident waves per SIMD, as limited by registers and local
  memory. *local bytes*: local memory of a work-group.
- All others: one iteration of the innermost loop with most FMAs. *matrix*: MMA and int8 dot-product instructions; dot
  products take a cycle like FMAs, and count as FMAs in the choice of the loop and in *% of peak*. *loads*: from global
  memory. *local loads*: instructions; *local words*: 4-byte words that they load per work-item. *integer*: vector and
  scalar integer instructions. *wide*: the part of them for 64-bit multiplications and divisions on vectors, which must
  be 0.
- *cycles alone*: an iteration of a single wave on the SIMD, with all stalls. *cycles at best*: with stalls hidden by
  other waves. Both are from llvm-mca, which assumes that no branch is taken. *% of peak*: FMAs per cycle at best; 100
  is one FMA per lane and cycle, without dual issue and packed FMAs. The model does not know the width of local memory,
  which may be the actual limit.
"""
CI = "gfx1100"
# engines.sh's folder of each GPU.
OWN = {"gfx1100": "wmma", "gfx90a": "mfma", "gfx1030": "rdna2"}


def hot_programs():
    for line in (HERE / "hot.txt").read_text().splitlines():
        words = line.split()
        if words and not line.startswith("#"):
            yield words[0], words[1:]


def find(programs, name, defines):
    """The program of that file with these defines, and with the fewest others: its name and its defines."""
    found = []
    for path in programs.glob(name + "-*.cl"):
        options = path.open().readline().split()[1:]
        if re.fullmatch(re.escape(name) + "-[0-9a-f]{16}", path.stem) and "-DTFM_GROUP=128" in options and \
                all(fnmatch.filter(options, define) for define in defines):
            found.append((len(options), options, path))
    if not found:
        return None
    _, options, path = min(found)
    return path.stem, " ".join(option for option in options if not USUAL.match(option))


def row(lines, gpu, mca):
    whole, body = amdgcn.summary(lines), amdgcn.inner_loop(lines)
    figures = {"registers": whole.get("NumVgprs"), "waves": whole.get("Occupancy"),
               "local bytes": whole.get("LDSByteSize")}
    if body:
        figures.update(amdgcn.counts(body))
        cycles = amdgcn.analyze(body, gpu, mca)
        if cycles:
            figures["cycles alone"], figures["cycles at best"] = cycles["alone"], round(cycles["best"])
            figures["% of peak"] = round(100 * (figures["FMAs"] + amdgcn.dots(body)) / cycles["best"])
    return figures


def wide(gpu, table):
    for key, figures in table.items():
        if figures.get("wide"):
            yield (f"{gpu}, {' '.join(key)}: {figures['wide']} instructions of 64-bit multiplications or divisions in its "
                   "hot loop")


def measure(folder, gpu, mca):
    """{(kernel, defines): figures}, and the missing programs."""
    table, missing = {}, []
    for name, defines in hot_programs():
        places = [folder / "programs", folder / "engines" / OWN.get(gpu, "none")]
        place, found = next(((place, found) for place in places if (found := find(place, name, defines))), (None, None))
        if not found:
            missing.append(f"no program {name} {' '.join(defines)} is requested: fix tests/gpu/hot.txt")
            continue
        program, path = place / (found[0] + ".cl"), folder / gpu / (found[0] + ".s")
        path.unlink(missing_ok=True)
        said = subprocess.run(["sh", HERE / "judge.sh", gpu, program, folder], capture_output=True, text=True)
        if not path.exists():
            missing.append((said.stdout + said.stderr).strip())
            continue
        for kernel, lines in amdgcn.kernels(path).items():
            if "Occupancy" in amdgcn.summary(lines):  # else it is a table of constants
                table[kernel, found[1]] = row(lines, gpu, mca)
    return table, missing


def write(tables):
    text = HEAD.format(ci=CI, share=round(100 * SHARE), least=LEAST)
    for gpu, table in tables.items():
        text += f"\n## {gpu}\n\n| kernel | defines | {' | '.join(COLUMNS)} |\n|---|---|{'--:|' * len(COLUMNS)}\n"
        for (kernel, defines), figures in table.items():
            cells = [str(figures[column]) if column in figures else "" for column in COLUMNS]
            text += f"| `{kernel}` | {f'`{defines}`' if defines else ''} | {' | '.join(cells)} |\n"
    TABLE.write_text(text)


def kept():
    tables, table = {}, None
    for line in TABLE.read_text().splitlines():
        if line.startswith("## "):
            table = tables[line[3:]] = {}
        elif line.startswith("| `"):
            cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
            table[cells[0], cells[1]] = {c: int(cell) for c, cell in zip(COLUMNS, cells[2:]) if cell}
    return tables


def differences(gpu, was, now):
    for key in sorted(set(was) | set(now)):
        who = f"{gpu}, {' '.join(key)}"
        if key not in was or key not in now:
            yield f"{who}: {'is not in the table' if key in now else 'is in the table, and not among the programs'}"
            continue
        for column in COLUMNS:
            a, b = was[key].get(column, 0), now[key].get(column, 0)
            if abs(a - b) > max(SHARE * abs(a), LEAST):
                yield f"{who}: {column} were {a} and are {b}"


def main(action, folder, *gpus):
    mca = os.environ.get("GPU_MCA", "llvm-mca-15")
    tables, wrong = {}, []
    for gpu in gpus:
        tables[gpu], missing = measure(pathlib.Path(folder), gpu, mca)
        wrong += missing
        wrong += wide(gpu, tables[gpu])
    if action == "write" and not wrong:
        write({**(kept() if TABLE.exists() else {}), **tables})
    elif action == "check":
        for gpu in gpus:
            wrong += differences(gpu, kept().get(gpu, {}), tables[gpu])
    for line in wrong:
        print(line)
    if action == "check" and wrong:
        print("tests/bench/results/gpu-static.md differs: if the change is intended, write it again (see its head)")
    return len(wrong) > 0


sys.exit(main(*sys.argv[1:]))
