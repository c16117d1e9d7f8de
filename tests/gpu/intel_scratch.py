"""Lists the kernels of an Intel ocloc binary that use scratch or private memory, or too much local memory: patch tokens
18 (MEDIA_VFE_STATE), 38 (ALLOCATE_STATELESS_PRIVATE_MEMORY) and 15 (ALLOCATE_LOCAL_SURFACE) of each kernel.
    python3 intel_scratch.py BINARY"""
import struct
import sys

MAGIC, LOCAL, SCRATCH, PRIVATE, MOST_LOCAL = 1229870147, 15, 18, 38, 32768


def main(path):
    data = open(path, "rb").read()

    def number(at):
        return struct.unpack_from("<I", data, at)[0]

    start = data.index(struct.pack("<I", MAGIC))
    kernels, at = number(start + 16), start + 28 + number(start + 24)
    for _ in range(kernels):
        name_size, patches, heap, general, dynamic, surface, _ = struct.unpack_from("<7I", data, at + 12)
        patch = at + 40
        name = data[patch:patch + name_size].split(b"\0")[0].decode()
        patch += name_size + heap + general + dynamic + surface
        at = patch + patches
        while patch < at:
            token, size = number(patch), number(patch + 4)
            if token == SCRATCH and number(patch + 12):
                print(f"{name}: {number(patch + 12)} bytes of scratch a thread")
            if token == PRIVATE and number(patch + 20):
                print(f"{name}: a private array of {number(patch + 20)} bytes in memory")
            if token == LOCAL and number(patch + 12) > MOST_LOCAL:
                print(f"{name}: {number(patch + 12)} bytes of local memory, more than {MOST_LOCAL}")
            patch += size


main(sys.argv[1])
