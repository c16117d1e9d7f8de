# Checks the words of documentation, comments, messages and identifiers, and the size of Markdown files.
#     sh tests/prose.sh [PATH...]      PATH: tracked files or folders; the whole tree if none is given
# PHRASES lists wording that hides a term of the field, with the term to write instead; EXCEPTIONS lists the files in
# which a phrase is the right one. Markdown lines have at most 120 columns (tables and links are exempt), README.md at
# most 9 KB and 180 lines, and a page of user documentation at most 6 KB. In README.md and the documentation, relative
# pronouns and adverbs make up at most 1.2 % of the words.
# Prints FILE:LINE: for each finding; the exit code is 1 if there is one.
set -eu
cd "$(dirname "$0")/.."
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || {
    echo "skipped: not a Git checkout, so there is no list of files"
    exit 77
}
exec python3 - "$@" <<'END'
import fnmatch
import re
import subprocess
import sys

# A regular expression, in lower case; what to write instead.
PHRASES = [
    (r'(goes|go|going|went) on with', 'generates, continues from, resumes'),
    (r'continues? a text', 'generates text, completion'),
    (r'makes? vectors', 'computes embeddings'),
    (r'rotation rates?|(queries|keys) that turn|turned (queries|keys)', 'RoPE, rotary embedding'),
    (r'keys and values that [a-z ]{0,20}\bke(pt|eps?)\b|kept keys and values', 'KV cache'),
    (r'reading the prompt|read the prompt', 'prefill'),
    (r'sentences? that joins?|fed search', 'continuous batching, admitted sequence'),
    (r'words of four bytes|bytes in (the place|their place)|\bas bytes in\b', 'int8, packed int8'),
    (r'\bin halves\b|\bas halves\b|matrices of halves|numbers of 16 bits', 'fp16, bf16'),
    (r'\bwidened\b', 'converted to fp32, dequantized'),
    (r'matrix engines?', 'matrix cores, tensor cores, MMA'),
    (r'\bproven\b|tried before use', 'validated'),
    (r'\bwide devices?|simt devices?', 'CPU-style device, GPU-style device'),
    (r'in the inner dimension', 'split-K, along K'),
    (r'way out of (a|the) tile', 'epilogue'),
    (r'\bthe way back\b', 'backward pass'),
    (r'\bdealt\b|\bdeals? out\b|\bdealing\b', 'distributed, scheduled, balanced'),
    (r'batches of an update', 'gradient accumulation, micro-batches'),
    (r'\bwires?\b(?! type)', 'communication, all-reduce, comm_dtype'),
    (r'\bsends as (16|half|halves)', 'all-reduce in fp16 or bf16'),
    (r'ranks that are threads', 'process group of threads'),
    (r'moments for its', 'sharded optimizer state'),
    (r'keeps of each', 'activation checkpointing'),
    (r'(goes|go|going|went) on from|\bbegins? from the (weights|model)', 'resumes, initializes from'),
    (r'linears of one input', 'fused QKV projection, fused linear layers'),
    (r'\bbackward of it\b', 'its backward pass'),
    (r'\band the like\b', 'such as'),
    (r'\bcrews?\b', 'worker pool'),
    (r'\bmates?\b', 'replicas'),
    (r'\bwish(es)?\b', 'device selector'),
    (r'facts of (a|the) device', 'device info'),
    (r'\bmend(s|ed|ing)?\b', 'fix'),
    (r'in the making', 'unreleased'),
    (r'\btheir kin\b|\bits kin\b|and kin\b', 'variants, similar models'),
    (r'\bbut for\b', 'except'),
    (r'\bbeside\b', 'next to, compared with'),
    (r'\banew\b', 'again'),
    (r'in the place of', 'instead of'),
    (r'\bby (itself|themselves)\b', 'alone, (nothing)'),
    (r'\bof (its|their) own\b', 'its own, separate, (nothing)'),
    (r'\basked for\b', 'requested'),
    (r'\b(is|are|was|were) told\b', 'receives, is notified'),
    (r'\b(comes?|came) to (no|the|a|as|[0-9])', 'totals, is'),
    (r'\bthose that\b|\bsuch as have\b|\bwhat is there\b|\bthat which\b', '(rephrase with the noun)'),
    (r'\bof these\b', '(name the noun)'),
    (r'\bwhoever\b', '(name the subject)'),
    (r'\bthe house\b|\ba room\b|\bthe door\b', '(no metaphors)'),
    (r'parts that see', 'vision tower'),
    (r'have a decoder alone', 'decoder-only models'),
    (r'encoders by themselves', 'encoder-only models'),
    (r'masked word may be', 'masked-token prediction, fill-mask'),
    (r'\bdrawn\b|\bdraws\b|\ba draw\b|\bthe draws?\b', 'samples, sampling; renders'),
    (r'heads that have keys and values', 'KV heads, grouped-query attention'),
    (r'what a sentence may write', 'shortlist, vocabulary subset'),
    (r'(?<!dot )(?<!matrix )(?<!inner )(?<!outer )(?<!cross )(?<!tensor )\bproducts? (of|in|with) '
     r'(one row|few rows|more|matri|bytes|halves|bf16|fp16|fp32|int8|16 bits)', 'GEMM, matrix multiplication'),
    (r'(optim|initial|normal|quant|token|vector|serial|recogn|organ|general|minim|maxim|special|synchron|parallel|summar|'
     r'util|regular|penal|amort|factor|stabil|random)is(ed?|es|ers?|ing|ations?)\b|(behavi|col|fav|hon|neighb|lab)our|'
     r'\blicence|\bgrey|\banalyse|\bmodelling|\bcentred\b', 'American spelling: optimize, behavior, license'),
]
# File pattern, the part of PHRASES' expression whose findings are right there.
EXCEPTIONS = [
    ('apps/commands/cmd_bench_translate.c', 'the house'),  # a sentence to translate
    ('apps/cli/renamed_options.c', 'wire'),  # former names of options
    ('apps/python/src/tfm/_options.py', 'wire'),
    ('lib/train/checkpoint.c', 'dealt'),  # a key of the checkpoint format
    ('tests/apps/usage.sh', 'wire'),  # a former name of an option
    ('tests/golden/make_embedder.py', 'the house'),  # a sentence to embed
    ('tests/golden/tokenizer_texts.py', 'of these'),  # a text to tokenize
]

INDIRECT = re.compile(r'\b(which|that|what|who|whose|where)\b', re.I)
TEXT = ('.c', '.h', '.cc', '.cl', '.py', '.pyi', '.sh', '.md', '.build', '.1', '.js', '.html', '.css', '.in', '.toml')


def tracked(paths):
    out = subprocess.run(['git', 'ls-files', '-z', '--', *paths], stdout=subprocess.PIPE, check=True).stdout.decode()
    return [name for name in out.split('\0') if name.endswith(TEXT) and name != 'tests/prose.sh']


findings = []


def find(name, number, text):
    findings.append('%s:%d: %s' % (name, number, text))


def words_of(name, text):
    """Phrases may run over a line's end, also through the marks of a comment, and over underscores of identifiers."""
    starts = [0]
    for match in re.finditer('\n', text):
        starts.append(match.end())
    plain = re.sub(r'\n[ \t]*(?:\*(?!/)|//|#|"|\\")?[ \t]*', lambda m: ' ' * len(m.group()), text.lower()).replace('_', ' ')
    for phrase, quick, expression, instead in COMPILED:
        if not quick.search(plain) or any(
                fnmatch.fnmatch(name, files) and part in phrase for files, part in EXCEPTIONS):
            continue
        for match in expression.finditer(plain):
            number = sum(1 for start in starts if start <= match.start())
            find(name, number, '"%s": write %s' % (' '.join(match.group().split()), instead))


def markdown(name, text):
    fenced = False
    prose = []
    for number, line in enumerate(text.split('\n'), 1):
        if line.lstrip().startswith('```'):
            fenced = not fenced
        elif not fenced:
            prose.append(line)
        if len(line) > 120 and (fenced or not line.startswith('|')) and not re.search(r'\]\([^)]{40,}\)', line):
            find(name, number, '%d columns, more than 120' % len(line))
    size = len(text.encode())
    documentation = name == 'README.md' or '/docs/' in name
    if name == 'README.md' and (size > 9 * 1024 or text.count('\n') > 180):
        find(name, 1, '%d bytes and %d lines, more than 9 KB and 180 lines' % (size, text.count('\n')))
    if name.startswith('apps/docs/') and size > 6 * 1024:
        find(name, 1, '%d bytes, more than 6 KB' % size)
    if documentation:
        words = re.findall(r"[A-Za-z][A-Za-z'-]*", '\n'.join(prose))
        indirect = [word for word in words if INDIRECT.fullmatch(word)]
        if len(words) > 100 and len(indirect) > 0.012 * len(words):
            find(name, 1, '%d of %d words are which, that, what, who, whose or where: more than 1.2 %%' %
                 (len(indirect), len(words)))



def compiled(phrase):
    """Blanks match any number of them, except in look-behinds and character classes."""
    parts = re.split(r'(\(\?<![^)]*\)|\[[^\]]*\])', phrase)
    return re.compile(''.join(part if i % 2 else part.replace(' ', ' +') for i, part in enumerate(parts)))


# The expression without word boundaries, four times as fast, comes first: few files match it.
COMPILED = [(phrase, compiled(phrase.replace(r'\b', '')), compiled(phrase), instead) for phrase, instead in PHRASES]
for name in tracked(sys.argv[1:]):
    with open(name, encoding='utf-8', errors='replace') as file:
        text = file.read()
    words_of(name, text)
    if name.endswith('.md'):
        markdown(name, text)
print('\n'.join(findings) if findings else 'no findings')
sys.exit(1 if findings else 0)
END
