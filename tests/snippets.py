"""Compiles the C in comments of the public headers and in Markdown, so that the examples stay correct.
    python3 snippets.py ROOT COMPILER...
In a header, a snippet is a block of a comment with four blanks of indentation and a line ending in a semicolon; in
Markdown, it is a block ```c. A Markdown block with an #include is a translation unit. In other blocks, functions
beginning with `static` are kept, and other lines become the body of a function after NAMES. A declaration in Markdown
is visible in later blocks of the file. OpenCL C is tested by tests that build kernels."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import textwrap

FLAGS = ['-fsyntax-only', '-Wall', '-Werror', '-Wno-unused', '-Wno-format-zero-length', '-D_GNU_SOURCE']
# Minimum number of snippets of a file, because a snippet that is not recognized would never fail.
LEAST = {'tfm.h': 1, 'base.h': 1, 'device.h': 1, 'tensor.h': 1, 'ops.h': 3, 'tape.h': 1, 'nn.h': 1, 'text.h': 1, 'chat.h': 1, 'grammar.h': 1, 'metrics.h': 1,
         'model.h': 1, 'rerank.h': 1, 'fleet.h': 1, 'hub.h': 1, 'engine.h': 1, 'train.h': 1, 'data.h': 1, 'selftest.h': 1, 'kernels.h': 1, 'opencl.h': 1, 'version.h': 1,
         'README.md': 1, 'lib/docs/errors.md': 1}
# Names that snippets use without declaring them.
NAMES = '''#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tfm/tfm.h"
#include "tfm/opencl.h"
static const char *dir, **lines, **translations, **references;
static void *user;
static size_t count;
static bool more;
static tfm_context *ctx;
static tfm_model *model;
static tfm_model_shape shape;
static tfm_trainer *trainer;
static tfm_batch batch, *batches;
static tfm_data *data;
static tfm_tokenizer *tokenizer;
static tfm_emit_fn emit;
static tfm_tensor a, b, c, x, y, p, dp, bias, fc1_bias, fc2_bias, weight_gradient, wq, uk, v, lengths, values;
static tfm_param weight, fc1, fc2;
static float *host;
static cl_context context;
static cl_device_id device;
static cl_command_queue queue;
static cl_mem memory;
'''


def blocks_of_header(text):
    for comment in re.findall(r'/\*.*?\*/', text, flags=re.S):
        rows = re.sub(r'\s*\*/$', '', comment).split('\n')
        rows = [row[7:] if row.startswith(' *     ')
                else '' if row.strip() == '*' else None for row in rows]
        block = []
        for row in rows + [None]:
            if row is not None:
                block.append(row)
                continue
            if any(line.rstrip().endswith(';') for line in block):
                yield '\n'.join(block)
            block = []


def blocks_of_markdown(text):
    for block in re.findall(r'^ *```c\n(.*?)^ *```$', text, flags=re.S | re.M):
        yield textwrap.dedent(block)


def wrap(snippet):
    """A translation unit with the snippet's functions separated from its statements."""
    apart, inside, within = [], [], False
    for line in textwrap.dedent(snippet).split('\n'):
        within = within or line.startswith('static ')
        (apart if within else inside).append(line)
        within = within and line != '}'
    return NAMES + '\n'.join(apart) + '\nvoid snippet(void);\nvoid snippet(void) {\n' + '\n'.join(inside) + '\n}\n'


def compile_one(root, compiler, source):
    folders = [os.path.join(root, folder) for folder in ('include', 'lib', 'tests')]
    with tempfile.NamedTemporaryFile('w', suffix='.c', encoding='utf-8') as file:
        file.write(source)
        file.flush()
        command = compiler + FLAGS + ['-I' + folder for folder in folders] + [file.name]
        return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False).stderr


def main():
    root, compiler = sys.argv[1], sys.argv[2:]
    headers = sorted(glob.glob(os.path.join(root, 'include/tfm/*.h')))
    pages = [path for pattern in ('README.md', 'lib/README.md', 'lib/docs/*.md', 'cl/README.md', 'apps/docs/*.md',
                                  'apps/**/README.md')
             for path in sorted(glob.glob(os.path.join(root, pattern), recursive=True))]
    wrong = total = 0
    for path in headers + pages:
        with open(path, encoding='utf-8') as file:
            text = file.read()
        name = os.path.basename(path) if path in headers else os.path.relpath(path, root)
        found = [b for b in (blocks_of_header if path in headers else blocks_of_markdown)(text) if 'TFM_KERNEL' not in b]
        declared = ''
        for number, block in enumerate(found, 1):
            if re.fullmatch(r'(\s*/\*.*?\*/)?\s*TFM_API [^{}]*;\s*', block, flags=re.S):
                declared += '#include "tfm/tfm.h"\n' + block
                source = declared
            elif path in pages and re.search(r'^#include', block, flags=re.M):
                source = declared + block
            else:
                source = wrap(block)
            said = compile_one(root, compiler, source)
            if said:
                print('%s, snippet %d does not compile:\n%s\n%s' % (name, number, block, said))
                wrong += 1
        total += len(found)
        if len(found) < LEAST.get(name, 0):
            print('%s: %d snippets, fewer than %d' % (name, len(found), LEAST[name]))
            wrong += 1
    print('%d snippets, %d wrong' % (total, wrong))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
