"""Generates the calls of tests/ops/core/test_nulls.c from the public headers. Each function is called:
    with each pointer NULL in turn, and with all NULL; it must reject NULL unless the pointer is OPTIONAL;
    with an array that has a NULL element;
    with a reserved field of its options set.
Tensors are (2, 4) unless BETTER names others.
    python3 make_nulls.py OUT HEADER..."""
import re
import sys

HANDLES = ('context', 'fleet', 'model', 'embedder', 'trainer', 'data', 'documents', 'placeholders', 'tokenizer',
           'metrics', 'chat', 'grammar', 'engine')
FIRST = {'tfm_scope_close': 'tfm_scope_open(context)'}  # required earlier calls
SKIPPED = ('tfm_log_set',)  # NULL restores the default


# Pointers other than options that may be NULL by their header comment: by parameter, or by function and parameter.
OPTIONAL = ('sum', 'mean', 'inv_std', 'lse', 'nll', 'mask', 'probabilities', 'prefixes', 'prefix_counts', 'report',
            'tfm_block_forward inputs', 'tfm_block_forward_with_attention inputs',
            'tfm_block_forward_with_attention self_weights', 'tfm_block_forward_with_attention cross_weights', 'tfm_gemm_with provider',
            'tfm_linear_with provider', 'tfm_score_general weight', 'tfm_data_open target', 'tfm_data_open_pairs targets',
            'tfm_tokenizer_train target', 'tfm_tokenizer_train_pairs targets',
            'tfm_trainer_save data', 'tfm_trainer_load data', 'tfm_trainer_set_note note', 'tfm_trainer_set_process_group group', 'tfm_trainer_set_balance ratio',
            'tfm_text_sentences language', 'tfm_chat_new variables', 'tfm_grammar_from_json_schema schema', 'tfm_selftest op', 'tfm_embedder_prompt name',
            'tfm_kernels_begin device', 'tfm_kernels_pack device', 'tfm_hub_pull path',
            'tfm_engine_submit request', 'tfm_model_merge type')
# Valid tensors for parameters that are not (2, 4) F32, so that NULL is the only error of the call: by parameter, or by
# function and parameter.
BETTER = {'gamma': 'row', 'beta': 'row', 'bias': 'row', 'slope': 'row', 'tfm_gemm b': 'transposed', 'tfm_gemm_with b': 'transposed',
          'tfm_and a': 'bytes', 'tfm_and b': 'bytes', 'tfm_or a': 'bytes', 'tfm_or b': 'bytes', 'tfm_xor a': 'bytes',
          'tfm_xor b': 'bytes', 'tfm_where condition': 'bytes', 'tfm_embedding positions': '(tfm_tensor){0}',
          'tfm_attention q': 'heads', 'tfm_attention k': 'heads', 'tfm_attention v': 'heads', 'tfm_rotary x': 'heads',
          'tfm_rotary cosines': 'angles', 'tfm_rotary sines': 'angles', 'tfm_pool x': 'cube', 'tfm_pool lengths': '(tfm_tensor){0}', 'tfm_score_additive q': 'cube',
          'tfm_score_additive k': 'cube', 'tfm_score_additive v': 'row', 'tfm_score_general q': 'cube',
          'tfm_score_general k': 'cube', 'tfm_align scores': 'cube', 'tfm_gather_elements indices': 'indices',
          'tfm_concat inputs': '&x', 'weight': '&(tfm_param){.value = square}'}
SILENT = ('tfm_context_status',)  # reports through its status only
LEAST = 180  # minimum number of functions in the headers


def needed(function, kind, parameter):
    """Whether a call must reject NULL here. All options may be NULL."""
    options = 'const' in kind and re.search(r'tfm_\w+_options \*', kind) and function != 'tfm_adam'
    return not options and parameter not in OPTIONAL and function + ' ' + parameter not in OPTIONAL


def better(function, kind, parameter):
    return BETTER.get(function + ' ' + parameter) or \
        (re.match('tfm_(tensor$|param)', kind) and BETTER.get(parameter))


def functions(path):
    text = re.sub(r'/\*.*?\*/', '', open(path, encoding='utf-8').read(), flags=re.S)
    text = re.sub(r'^\s*#.*$', '', text, flags=re.M)
    found = re.findall(r'TFM_API\s+([^;()]*?)(tfm_\w+)\(([^;]*?)\);', text)
    if len(found) != len(re.findall(r'\bTFM_API\b', text)):
        sys.exit('%s: only %d of its functions are understood' % (path, len(found)))
    for result, name, parameters in found:
        parameters = [] if parameters.strip() == 'void' else re.sub(r'\s+', ' ', parameters).split(', ')
        yield result.strip(), name, parameters


def in_order(parts):
    """Whether outputs come before inputs (base.h). A `tfm_param *` is an input."""
    after = False
    for kind, parameter in parts[1:]:
        output = kind == 'const char **' or \
            kind.endswith('*') and 'const' not in kind and kind not in ('tfm_param *', 'void *')
        if output and after:
            return False
        after = after or not output and parameter != 'provider'
    return True


def reserved_words(paths):
    """The number of `reserved` words, by struct name."""
    structs = {}
    for path in paths:
        for body, name in re.findall(r'typedef struct \w+ \{(.*?)\n\} (\w+);', open(path, encoding='utf-8').read(), re.S):
            words = re.search(r'\breserved\[(\d+)\]', body)
            if words:
                structs[name] = int(words.group(1))
    return structs


def split(parameter):
    match = re.fullmatch(r'(.*?[ *])(\w+)', parameter.strip())
    return match.group(1).strip(), match.group(2)


def good(kind, name):
    """A valid argument for this parameter, as C."""
    bare = kind.replace('const', '').replace(' ', '')
    if kind.endswith('_fn') or bare.startswith('cl_') or '(' in kind:
        return '0'
    if bare == 'void*' or bare == 'constvoid*':
        return 'room'
    if name == 'provider':
        return '"reference"'
    if bare == 'char*':
        return 'path' if name == 'path' else 'folder' if name == 'dir' else 'file' if name in ('source', 'target') else '"x"'
    if bare == 'char**':
        return 'strings' if kind.count('const') > 1 else '&said' if 'const' in kind else '&text'
    if bare == 'tfm_tensor':
        return 'numbers' if re.search('ids|indices|targets|lengths|positions', name) else 'x'
    if bare == 'tfm_tensor**':
        return 'tensors'
    if bare.endswith('**'):
        return '&(%s){0}' % re.sub(r'^const ', '', kind)[:-1].strip()
    if bare.endswith('*'):
        base = bare[:-1]
        if base.startswith('tfm_') and base[4:] in HANDLES:
            return base[4:]
        if base.startswith('int') or base in ('size_t', 'double', 'uint64_t', 'float'):
            # Large enough for the outputs of a small model, such as an embedding per line.
            return '(%s[64]){%s}' % (base, '0, 1' if name == 'axes' else '1, 1, 1, 1, 1, 1, 1, 1')
        return ('(%s[8]){0}' if name in ('ranges', 'batches', 'inputs') else '&(%s){0}') % base
    if bare.startswith('tfm_') and not re.search('dtype|activation|side|drop$|layout|level|status', bare):
        return '(%s){0}' % bare
    return '1' if re.match('u?int|size_t', bare) else '0'


# Arguments with a NULL pointer inside.
HOLLOW = {'const char *const *': '(const char *[8]){0}',
          'const tfm_batch *': '&(tfm_batch){.count = 1, .source_width = 1, .target_width = 1}'}


def made(kind, value):
    """`value`, or a valid one for kinds that calls check before their options."""
    if kind.endswith('_fn'):
        return '(%s)(void (*)(void))never' % kind
    return '&(tfm_param){.value = x}' if kind == 'tfm_param *' else value


def main():
    out, headers = sys.argv[1], sys.argv[2:]
    lines, count = [], 0
    structs = reserved_words(headers)
    for header in headers:
        for result, name, parameters in functions(header):
            count += 1
            if name in SKIPPED:
                continue
            parts = [split(p) for p in parameters]
            if not in_order(parts):
                sys.exit('%s: an output of %s comes after an input' % (header, name))
            pointers = [i for i, (kind, _) in enumerate(parts) if kind.endswith('*')]
            values = [better(name, *p) or good(*p) for p in parts]
            status = result == 'tfm_status' and name not in SILENT
            for one in pointers:
                args = ', '.join('NULL' if i == one else v for i, v in enumerate(values))
                call = '%s(%s)' % (name, args)
                call = '(%s, %s)' % (FIRST[name], call) if name in FIRST else call
                refused = status and needed(name, *parts[one])
                form = '    REFUSED("%s: %s is NULL", %s);' if refused else '    ONE("%s: %s is NULL", (void)%s);'
                lines.append(form % (name, parts[one][1], call))
            if pointers:
                refused = status and any(needed(name, *parts[i]) for i in pointers)
                args = ', '.join('NULL' if i in pointers else v for i, v in enumerate(values))
                form = '    REFUSED("%s: all are NULL", %s(%s));' if refused else '    ONE("%s: all are NULL", (void)%s(%s));'
                lines.append(form % (name, name, args))
            for one, (kind, parameter) in enumerate(parts):
                if kind in HOLLOW:
                    args = [made(k, value) for (k, _), value in zip(parts, values)]
                    args[one] = HOLLOW[kind]
                    lines.append('    HOLLOW("%s: NULL within %s", %s(%s));' % (name, parameter, name, ', '.join(args)))
                struct = re.sub(r'const|[ *]', '', kind)
                if not kind.startswith('const') or struct not in structs:
                    continue
                args = [made(kind, value) for (kind, _), value in zip(parts, values)]
                args[one] = '&(%s){.reserved = {[%d] = 1}}' % (struct, structs[struct] - 1)
                form = '    UNKNOWN("%s: a reserved word of %s is set", %s%s(%s));'
                lines.append(form % (name, parameter, '' if status else 'refused = !', name, ', '.join(args)))
    if count < LEAST:
        sys.exit('%d functions in the headers, and there were %d once' % (count, LEAST))
    with open(out, 'w', encoding='utf-8') as file:
        file.write('\n'.join(lines) + '\n')


main()
