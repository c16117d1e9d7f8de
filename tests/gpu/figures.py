"""Figures of the hot kernels, out of programs that find.sh and engines.sh have found.
    python3 tests/gpu/figures.py write FOLDER GPU...      writes their part of tests/bench/results/gpu-static.md
    python3 tests/gpu/figures.py check FOLDER GPU...      compares with it; prints what is off, and ends with 1 then
FOLDER is BUILD/gpu, with `programs` and `engines` in it, and GPU one of the gfx targets of targets.sh. GPU_MCA names llvm-mca."""
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
# What a figure may differ by: a small change of a kernel or of a compiler is no news.
SHARE, LEAST = 0.1, 3
USUAL = re.compile(r"^-(?:cl-.*|DTFM_(?:CLASS_GPU|WIDTH=1|CHUNK=1|FMA|GROUP=128))$")

HEAD = """# What the machine code of hot kernels says

Of clang 15; nothing here was run, and `tests/gpu/README.md` says what such figures can and cannot tell. `sh tests/run.sh`
compares those of {ci}, `sh tests/nightly.sh gpu` all: a figure that is off by more than {share} % and by more than {least} fails, and
whoever changed a kernel on purpose writes the table anew:

    sh tests/gpu/find.sh build/check build/check/gpu/programs group=1024,local=65536
    sh tests/gpu/engines.sh build/check
    python3 tests/gpu/figures.py write build/check/gpu gfx1100 gfx90a gfx1030

- *registers*: vector registers of an item. *waves*: how many a SIMD holds at once, as far as registers and local memory
  allow. *local bytes*: local memory of a work-group.
- The rest is of one round of the innermost loop with most FMAs. *matrix*: instructions of matrix engines, and
  dot products of bytes, which take a cycle as FMAs do, and count as those in the choice of the loop and in *% of peak*.
  *loads*: from global memory. *local loads*: instructions; *local words*: the 4-byte words that they bring to an item. *integer*: on
  vectors and scalars. *wide*: of these, the parts of multiplications and divisions by 64 bits on vectors: none may be there.
- *cycles alone*: of a round where one wave has the SIMD for itself and waits for everything. *cycles at best*: where other
  waves fill the gaps. Both are llvm-mca's, which has every branch fall through. *% of peak*: FMAs for each cycle at best;
  100 is an FMA a lane in each cycle, without dual issue and packed FMAs. Local memory may be the narrower
  gate, of which the model knows nothing.
"""
CI = "gfx1100"
# What the folder of a GPU's own programs is called in engines.sh.
OWN = {"gfx1100": "wmma", "gfx90a": "mfma", "gfx1030": "rdna2"}


def hot_programs():
    for line in (HERE / "hot.txt").read_text().splitlines():
        words = line.split()
        if words and not line.startswith("#"):
            yield words[0], words[1:]


def find(programs, name, defines):
    """The program of that file with these defines, the one with fewest others: its name and its defines."""
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
        cycles = amdgcn.analyse(body, gpu, mca)
        if cycles:
            figures["cycles alone"], figures["cycles at best"] = cycles["alone"], round(cycles["best"])
            figures["% of peak"] = round(100 * (figures["FMAs"] + amdgcn.dots(body)) / cycles["best"])
    return figures


def wide(gpu, table):
    for key, figures in table.items():
        if figures.get("wide"):
            yield f"{gpu}, {' '.join(key)}: multiplies or divides 64 bits in its hot loop, by {figures['wide']} instructions"


def measure(folder, gpu, mca):
    """{(kernel, defines): figures}, and what could not be found."""
    table, missing = {}, []
    for name, defines in hot_programs():
        places = [folder / "programs", folder / "engines" / OWN.get(gpu, "none")]
        place, found = next(((place, found) for place in places if (found := find(place, name, defines))), (None, None))
        if not found:
            missing.append(f"no program {name} {' '.join(defines)} is asked for: mend tests/gpu/hot.txt")
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
        print("figures of tests/bench/results/gpu-static.md are off: if that is meant, write it anew (its head says how)")
    return len(wrong) > 0


sys.exit(main(*sys.argv[1:]))
