"""Writes the module by which Python knows the library: the declarations of the public headers, as they stand there.

    python3 declare.py FOLDER_OF_HEADERS OUTPUT.py
    python3 declare.py FOLDER_OF_HEADERS         shows the declarations alone, and needs no cffi

Nothing is declared a second time by hand. cffi lays the structs out from the same text as a C compiler does, and
tests/test_declared.py compares the two. opencl.h is left out: it is for programs that own a cl_context."""
import os
import re
import sys

HEADERS = ['version.h', 'base.h', 'device.h', 'tensor.h', 'types.h', 'ops.h', 'tape.h', 'nn.h', 'text.h', 'metrics.h', 'tune.h',
           'model.h', 'embed.h', 'fleet.h', 'train.h', 'data.h', 'selftest.h',
           'kernels.h']


def without_conditions(text):
    """The lines outside of #if, apart from those of the guard around the header; of #define those of plain numbers."""
    kept, inside = [], []
    for line in text.split('\n'):
        directive = re.match(r'\s*#\s*(\w+)\s*(.*)', line)
        if not directive:
            if all(inside):
                kept.append(line)
        elif directive[1].startswith('if'):
            inside.append(directive[1] == 'ifndef' and directive[2].strip().endswith('_H'))
        elif directive[1] == 'endif':
            inside.pop()
        elif directive[1] == 'define' and all(inside) and re.fullmatch(r'\w+\s+\d+\s*', directive[2]):
            kept.append(line)
    return '\n'.join(kept)


def declarations(folder):
    """What cffi reads: the headers without comments, conditions and attributes, in the order in which they build on
    each other."""
    there = {name for name in os.listdir(folder) if name.endswith('.h')} - {'opencl.h', 'tfm.h'}
    missing = there - set(HEADERS)
    if missing:
        sys.exit(f'declare.py does not know where {", ".join(sorted(missing))} belongs: add it to HEADERS')
    parts = []
    for name in HEADERS:
        with open(os.path.join(folder, name), encoding='utf-8') as file:
            text = re.sub(r'/\*.*?\*/', '', file.read(), flags=re.S).replace('\\\n', ' ')
        text = re.sub(r'\bTFM_API\b|\bTFM_PRINTF\([^)]*\)', '', without_conditions(text))
        parts.append(re.sub(r'\n\s*\n+', '\n', text))
    return '\n'.join(parts)


def main():
    text = declarations(sys.argv[1])
    if len(sys.argv) == 2:
        print(text)
        return
    import cffi
    builder = cffi.FFI()
    builder.cdef(text)
    builder.set_source('tfm._declared', None)
    builder.emit_python_code(sys.argv[2])


if __name__ == '__main__':
    main()
