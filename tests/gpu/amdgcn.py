"""Performance figures of a kernel from the assembly that clang writes for AMD's GPUs."""
import re
import subprocess

LABEL = re.compile(r"^(\.?[A-Za-z_$][\w$.]*):")
BRANCH = re.compile(r"^s_(cbranch_\w+|branch)\b")
FMA = re.compile(r"\bv_(?:dual_)?(?:fma|fmac|mad|mac|fmaak|fmamk)(?:_legacy|_mix)?_f32")
PACKED_FMA = re.compile(r"\bv_pk_fma_f32")
MATRIX = re.compile(r"\bv_(?:mfma|wmma|smfmac|dot\w*)_")
DOT = re.compile(r"\bv_dot4c?_")
LOCAL_LOAD = re.compile(r"^ds_(?:read|load)")
LOAD = re.compile(r"^(?:global|buffer|flat)_load")
INTEGER = re.compile(r"^(?:v_(?!dual_mov|mov_)\w*_[uib](?:16|24|32|64|32_u24)\w*|"
                     r"s_(?!load|buffer_load|waitcnt|nop|delay|clause|barrier|cbranch|branch|mov|endpgm|sendmsg|sleep|set)\w+)")
# Instructions of 64-bit multiplications and divisions; a 32-bit division by an unknown number has the second one, too.
WIDE = re.compile(r"\bv_(?:mad_[iu]64_[iu]32|mul_hi_[iu]32)")
FIGURE = re.compile(r"^; (NumVgprs|NumAgprs|Occupancy|LDSByteSize|ScratchSize): (\d+)")


def kernels(path):
    """The lines of each function by its name, including the comments about it."""
    found, name = {}, None
    for line in open(path):
        line = line.rstrip()
        start = re.match(r"^([A-Za-z_]\w*):", line)
        if start and ".kd" not in line:
            name = start.group(1)
            found[name] = []
        if re.match(r"^\s*\.amdgpu_metadata", line):
            break
        if name:
            found[name].append(line)
    return found


def summary(lines):
    """Registers, waves and bytes, as clang counts them."""
    return {match.group(1): int(match.group(2)) for match in map(FIGURE.match, lines) if match}


def instructions(lines):
    """The instructions, and the positions of labels among them."""
    code, labels = [], {}
    for line in lines:
        text = line.split(";")[0].strip()
        label = LABEL.match(text)
        if label:
            labels[label.group(1)] = len(code)
        elif text and not text.startswith("."):
            code.append(text)
        if text.startswith("s_endpgm") and ".Lfunc_end" in line:
            break
    return code, labels


def loops(code, labels):
    """(first, last) of each loop: a backward branch makes one; those with the same head are merged."""
    found = {}
    for at, text in enumerate(code):
        if BRANCH.match(text):
            head = labels.get(text.split()[-1])
            if head is not None and head <= at:
                found[head] = max(at, found.get(head, 0))
    return sorted(found.items())


def fmas(text):
    return len(FMA.findall(text)) + 2 * len(PACKED_FMA.findall(text))


def dots(body):
    """Number of int8 dot-product instructions."""
    return sum(bool(DOT.search(text)) for text in body)


def dwords(text):
    """Number of 4-byte words that a local memory load reads per lane."""
    words = {"b64": 2, "b96": 3, "b128": 4}.get(next(iter(re.findall(r"_b(?:64|96|128)\b", text)), "")[1:], 1)
    return words * (2 if re.match(r"ds_(?:read|load)_?2", text) or "load_2addr" in text else 1)


def inner_loop(lines):
    """The instructions of the innermost loop with most FMAs and dot products; among equals, the longest. None without
    loops."""
    code, labels = instructions(lines)
    spans = loops(code, labels)
    bodies = []
    for first, last in spans:
        if not any(first <= a and b <= last for a, b in spans if (a, b) != (first, last)):
            body = code[first:last + 1]
            bodies.append((sum(map(fmas, body)) + dots(body), len(body), body))
    return max(bodies)[2] if bodies else None


def counts(body):
    return {
        "FMAs": sum(map(fmas, body)),
        "matrix": sum(bool(MATRIX.search(text)) for text in body),
        "loads": sum(bool(LOAD.match(text)) for text in body),
        "local loads": sum(bool(LOCAL_LOAD.match(text)) for text in body),
        "local words": sum(dwords(text) for text in body if LOCAL_LOAD.match(text)),
        "integer": sum(bool(INTEGER.match(text)) for text in body),
        "wide": sum(bool(WIDE.search(text)) for text in body),
        "branches": sum(bool(BRANCH.match(text)) for text in body),
        "instructions": len(body),
    }


def analyze(body, gpu, mca):
    """Cycles of a loop for a single wave, and at best, from llvm-mca: it models the compiler's vector units, but not
    the width of local memory. None if it cannot parse the code."""
    rounds = 100
    text = "\n".join(line for line in body if not BRANCH.match(line)) + "\n"
    run = subprocess.run([mca, "-mtriple=amdgcn-amd-amdhsa", "-mcpu=" + gpu, f"-iterations={rounds}"], input=text,
                         capture_output=True, text=True)
    alone = re.search(r"^Total Cycles:\s+(\d+)", run.stdout, re.M)
    best = re.search(r"^Block RThroughput:\s+([\d.]+)", run.stdout, re.M)
    if run.returncode or not alone or not best:
        return None
    return {"alone": round(int(alone.group(1)) / rounds), "best": float(best.group(1))}
