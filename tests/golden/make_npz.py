"""Creates the small NumPy files in tests/golden/npz, for tests/model/weights/test_npz.c.

    pip install numpy==2.4.6
    python make_npz.py

Every array holds 0, 1, 2, ... in C order, so that the test needs no second file.
"""

import io
import zipfile
from pathlib import Path

import numpy as np

OUT = Path(__file__).resolve().parent / "npz"
CONFIG = "type: transformer\ndim-emb: 4\n"


def numbers(*dims, dtype="<f4"):
    return np.arange(int(np.prod(dims)), dtype=dtype).reshape(dims)


def arrays():
    return {
        "f32": numbers(2, 3),
        "f16": numbers(5, dtype="<f2"),
        "f64": numbers(3, dtype="<f8"),
        "i8": numbers(4, dtype="|i1"),
        "i32": numbers(2, 2, dtype="<i4"),
        "bool": np.array([False, True]),
        "none": numbers(0, 7),
        "scalar": np.array(0, dtype="<f4"),
        "row": numbers(1, 6),
        "column": np.asfortranarray(numbers(5)),  # one dimension has only one order
        "deep": numbers(1, 1, 1, 1, 1, 1, 1, 1, 2),
        # A text that ends with NUL, like Marian's configuration.
        "special:model.yml": np.frombuffer(CONFIG.encode() + b"\0", dtype="|i1"),
    }


def save(name, parts, versions=((1, 0),), headers=None):
    """Like numpy.savez, with each version of the format in turn."""
    with zipfile.ZipFile(OUT / name, "w", zipfile.ZIP_STORED) as archive:
        for i, (key, value) in enumerate(parts.items()):
            data = io.BytesIO()
            np.lib.format.write_array(data, value, version=versions[i % len(versions)])
            archive.writestr(zipfile.ZipInfo(key + ".npy"), (headers or (lambda b: b))(data.getvalue()))


def old_python(data):
    """The header as written by NumPy with Python 2: 3L."""
    return data.replace(b"(2, 3)", b"(2L,3)").replace(b"'fortran_order'", b'"fortran_order"')


def main():
    OUT.mkdir(exist_ok=True)
    np.savez(OUT / "plain.npz", **arrays())
    save("versions.npz", arrays(), versions=((1, 0), (2, 0), (3, 0)))
    save("old.npz", {"x": numbers(2, 3)}, headers=old_python)
    save("small.npz", {"x": numbers(2, 3)})
    np.savez_compressed(OUT / "deflated.npz", x=numbers(2, 3))
    save("fortran.npz", {"x": np.asfortranarray(numbers(2, 3))})
    save("big.npz", {"x": numbers(2, 3, dtype=">f4")})
    save("records.npz", {"x": np.zeros(2, dtype=[("a", "<f4"), ("b", "<f4")])})
    save("complex.npz", {"x": np.zeros(2, dtype="<c8")})


if __name__ == "__main__":
    main()
