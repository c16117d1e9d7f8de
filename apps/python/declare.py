"""Generates the cffi module with the declarations of the public headers.

    python3 declare.py FOLDER_OF_HEADERS OUTPUT.py
    python3 declare.py FOLDER_OF_HEADERS         prints the declarations, without cffi

Nothing is declared by hand. tests/test_declared.py compares cffi's struct layout with the C compiler's. opencl.h is
excluded: it is for programs with their own cl_context."""
import os
import re
import sys

HEADERS = ['version.h', 'base.h', 'hub.h', 'device.h', 'tensor.h', 'types.h', 'ops.h', 'tape.h', 'nn.h', 'text.h', 'chat.h', 'grammar.h', 'metrics.h', 'tune.h',
           'model.h', 'embed.h', 'rerank.h', 'engine.h', 'fleet.h', 'train.h', 'data.h', 'selftest.h',
           'kernels.h']


def without_conditions(text):
    """The lines outside of #if (include guards excepted), and of #define those of plain numbers."""
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
    """The input of cffi: the headers in order of dependency, without comments, conditions and attributes."""
    there = {name for name in os.listdir(folder) if name.endswith('.h')} - {'opencl.h', 'tfm.h'}
    missing = there - set(HEADERS)
    if missing:
        sys.exit(f'declare.py: unknown header {", ".join(sorted(missing))}: add it to HEADERS in order of dependency')
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
