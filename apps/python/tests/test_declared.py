"""The Python declarations are complete and equal to the headers."""
from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import tfm
from conftest import ROOT
from tfm._library import ffi, lib
from tfm.errors import BY_NAME

HEADERS = ROOT / "include" / "tfm"
PACKAGE = ROOT / "apps" / "python" / "src" / "tfm"


def _declarations() -> str:
    return subprocess.run([sys.executable, ROOT / "apps" / "python" / "declare.py", HEADERS], check=True,
                          capture_output=True, text=True).stdout


def _functions(text: str) -> set[str]:
    return set(re.findall(r"\b(tfm_\w+)\(", text)) - set(re.findall(r"typedef\s[^;{]*\(\*(tfm_\w+)\)", text))


def _header_functions() -> set[str]:
    """Every name after TFM_API, found independently of declare.py."""
    found: set[str] = set()
    for path in HEADERS.glob("*.h"):
        if path.name != "opencl.h":
            text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
            found |= set(re.findall(r"TFM_API[^;]*?\b(tfm_\w+)\(", text))
    return found


def _whole(struct: str) -> bool:
    """Whether the headers define its fields."""
    try:
        return bool(ffi.sizeof(struct))
    except ffi.error:
        return False


def test_every_function_is_declared() -> None:
    names = _header_functions()
    assert len(names) > 150
    assert names == _functions(_declarations())
    for name in names:
        assert getattr(lib, name) is not None


def test_every_exported_symbol_is_in_a_header() -> None:
    if shutil.which("nm") is None:
        pytest.skip("there is no nm")
    library = pathlib.Path(tfm.__file__).parent / "libtfm.so"
    shown = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in shown.splitlines()}
    opencl = {"tfm_context_wrap", "tfm_tensor_wrap", "tfm_context_cl", "tfm_context_cl_device", "tfm_context_cl_queue",
              "tfm_tensor_cl"}
    assert {name for name in exported if name.startswith("tfm_")} - opencl == _header_functions()


def test_struct_layout_matches_the_compiler(tmp_path: pathlib.Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    structs = [name for name in ffi.list_types()[0] if ffi.typeof(name).kind == "struct" and _whole(name)]
    assert len(structs) > 40
    rows = []
    for name in structs:
        rows.append(f'printf("{name} %zu\\n", sizeof({name}));')
        rows += [f'printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));'
                 for field, _ in ffi.typeof(name).fields]
    constants = sorted(set(re.findall(r"\bTFM_[A-Z0-9_]+\b", _declarations())))
    rows += [f'printf("{name} %lld\\n", (long long){name});' for name in constants]
    source = tmp_path / "sizes.c"
    source.write_text("#include <stdio.h>\n#include <tfm/tfm.h>\nint main(void) {\n" + "\n".join(rows) + "\n}\n")
    subprocess.run([compiler, "-std=c11", "-I", ROOT / "include", source, "-o", tmp_path / "sizes"], check=True)
    want = subprocess.run([tmp_path / "sizes"], check=True, capture_output=True, text=True).stdout.splitlines()
    got = []
    for name in structs:
        got.append(f"{name} {ffi.sizeof(name)}")
        got += [f"{name}.{field} {ffi.offsetof(name, field)} {ffi.sizeof(what.type)}"
                for field, what in ffi.typeof(name).fields]
    got += [f"{name} {getattr(lib, name)}" for name in constants]
    assert got == want


def test_every_code_has_an_exception() -> None:
    codes = {name for name in ffi.typeof("tfm_status").relements if name != "TFM_OK"}
    assert codes == set(BY_NAME)
    for kind in BY_NAME.values():
        assert issubclass(kind, tfm.Error)
        assert getattr(tfm, kind.__name__) is kind


def test_every_op_is_in_python() -> None:
    """Every function of ops.h and tape.h is called, except those to compare providers, measure the device or
    quantize, and special cases of other functions."""
    apart = {"tfm_gemm_provider", "tfm_gemm_select", "tfm_gemm_with", "tfm_linear_with", "tfm_param_quantize",
             "tfm_softmax", "tfm_log_softmax", "tfm_gather", "tfm_measure_peak_flops"}
    wanted: set[str] = set()
    for name in ("ops.h", "tape.h"):
        text = re.sub(r"/\*.*?\*/", "", (HEADERS / name).read_text(encoding="utf-8"), flags=re.S)
        wanted |= set(re.findall(r"TFM_API[^;]*?\b(tfm_\w+)\(", text))
    used = "\n".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "ops").glob("*.py"))
    assert {name for name in wanted - apart if not re.search(rf"\b{name}\b", used)} == set()


def test_version() -> None:
    text = (HEADERS / "version.h").read_text(encoding="utf-8")
    assert f'"{tfm.__version__}"' in text
