"""Growth of the cost of decoding, attention and training with length; growth.sh calls this.

A part is a table and one or two panels of the plot: series of points, each with a least-squares line, its r^2 and the
largest deviation of a point, in percent of the largest value.

Decoding: the demo translator and a language model with random weights, both with 4,224 positions and no EOS, generate
so many tokens after a short text. A step attends to all previous tokens, so its time should grow linearly; the time of
all steps has a quadratic part. Attention: 4 heads of width 64, one causal sequence. Training: the preset tiny with the
demo's vocabulary, on lines of equal length, and on lines of many lengths."""
import argparse
import array
import datetime
import itertools
import json
import math
import random
import statistics
import struct
import sys
from pathlib import Path

import run

MODELS = run.WORK / 'growth'
DEMO = run.ROOT / 'apps/demo'
POSITIONS, LENGTHS = 4224, (128, 256, 512, 1024, 2048, 4096)
LONGER = tuple(1024 << i for i in range(6))
BATCHES = (1024, 2048, 4096, 8192, 16384)
MIB = 1 << 20
COLORS = ('#06c', '#c40', '#083', '#93c')


# ---- Models that do not end ----


def save(path, tensors):
    """A safetensors file of `tensors`: name to (dtype, dims, bytes)."""
    head, end = {}, 0
    for name, (dtype, dims, data) in tensors.items():
        head[name] = {'dtype': dtype, 'shape': dims, 'data_offsets': [end, end + len(data)]}
        end += len(data)
    text = json.dumps(head).encode()
    text += b' ' * (-len(text) % 8)
    path.write_bytes(struct.pack('<Q', len(text)) + text + b''.join(data for _, _, data in tensors.values()))


def load(path):
    data = path.read_bytes()
    start = 8 + struct.unpack_from('<Q', data)[0]
    return {name: (one['dtype'], one['shape'], data[start + one['data_offsets'][0]:start + one['data_offsets'][1]])
            for name, one in json.loads(data[8:start]).items() if name != '__metadata__'}


def translator():
    """The demo, with EOS so unlikely that it never ends."""
    folder = MODELS / 'translator'
    folder.mkdir(parents=True, exist_ok=True)
    for name in ('source.spm', 'target.spm', 'vocab.json', 'tokenizer_config.json'):
        (folder / name).write_bytes((DEMO / name).read_bytes())
    for name, change in (('config.json', {'max_position_embeddings': POSITIONS}),
                         ('generation_config.json', {'max_length': POSITIONS, 'num_beams': 1})):
        (folder / name).write_text(json.dumps(json.loads((DEMO / name).read_text(encoding='utf-8')) | change))
    config = json.loads((folder / 'config.json').read_text())
    tensors = load(DEMO / 'model.safetensors')
    dtype, dims, data = tensors['final_logits_bias']
    bias = array.array('f', data)
    bias[config['eos_token_id']] = -1e4
    save(folder / 'model.safetensors', tensors | {'final_logits_bias': (dtype, dims, bias.tobytes())})
    return folder, '%d + %d layers of %d, %d heads, feed-forward %d, vocabulary of %d' % tuple(config[key] for key in (
        'encoder_layers', 'decoder_layers', 'd_model', 'decoder_attention_heads', 'decoder_ffn_dim', 'vocab_size'))


def language_model(width=256, layers=4, heads=4, vocabulary=4000):
    """A GPT-2 with random weights and no EOS."""
    folder = MODELS / 'language-model'
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)

    def matrix(*dims):
        values = array.array('f', (draw.uniform(-0.05, 0.05) for _ in range(math.prod(dims))))
        return 'F32', dims, values.tobytes()

    def vector(size, value):
        return 'F32', (size,), array.array('f', [value] * size).tobytes()

    def norm(name):
        return {name + '.weight': vector(width, 1), name + '.bias': vector(width, 0)}

    tensors = {'wte.weight': matrix(vocabulary, width), 'wpe.weight': matrix(POSITIONS, width), **norm('ln_f')}
    for i in range(layers):
        block = 'h.%d.' % i
        tensors |= norm(block + 'ln_1') | norm(block + 'ln_2')
        for name, rows, columns in (('attn.c_attn', 1, 3), ('attn.c_proj', 1, 1), ('mlp.c_fc', 1, 4), ('mlp.c_proj', 4, 1)):
            tensors[block + name + '.weight'] = matrix(rows * width, columns * width)
            tensors[block + name + '.bias'] = vector(columns * width, 0)
    save(folder / 'model.safetensors', {'transformer.' + name: tensor for name, tensor in tensors.items()})
    (folder / 'config.json').write_text(json.dumps({
        'model_type': 'gpt2', 'architectures': ['GPT2LMHeadModel'], 'n_embd': width, 'n_layer': layers, 'n_head': heads,
        'n_positions': POSITIONS, 'vocab_size': vocabulary, 'activation_function': 'gelu_new', 'eos_token_id': None,
        'bos_token_id': None, 'tie_word_embeddings': True}))
    return folder, 'GPT-2 of %d layers of %d, %d heads, feed-forward %d, vocabulary of %d' % (
        layers, width, heads, 4 * width, vocabulary)


# ---- Lines ----


def line(points):
    """Least-squares line: its value at 0 and slope, r^2, and the largest deviation."""
    xs, ys = zip(*points, strict=True)
    x, y = statistics.fmean(xs), statistics.fmean(ys)
    slope = sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a in xs)
    start = y - slope * x
    left = sum((b - start - slope * a) ** 2 for a, b in points)
    return {'start': start, 'slope': slope, 'r2': 1 - left / sum((b - y) ** 2 for b in ys),
            'off': max(abs(b - start - slope * a) for a, b in points) / max(ys)}


def series(name, points):
    return {'name': name, 'points': points, 'line': line(points)}


def table(head, rows):
    return ['| %s |' % ' | '.join(head), '|' + '---|' * len(head), *('| %s |' % ' | '.join(row) for row in rows)]


def lines_of(panel):
    return table(('straight line through', 'at 0', 'by 1,024 more', 'r^2', 'largest deviation'), (
        (one['name'], '%.4g' % round(one['line']['start'], 6), '%.4g' % (1024 * one['line']['slope']), '%.4f' % one['line']['r2'],
         '%.1f %%' % (100 * one['line']['off'])) for one in panel['series']))


# ---- Measurements: each returns its description, panels and tables ----


def decoding(rounds):
    source, prompt = MODELS / 'source.txt', '5 6 7 8'
    models = {'translator': translator(), 'language model': language_model()}
    source.write_text('Guten Morgen.\n')

    def seconds(who, length):
        folder = models[who][0]
        if who == 'translator':
            stats = run.Done(run.TFM, 'translate', '-m', folder, '-i', source, '--beam-size', 1, '--max-length', length,
                             '--stats').stats()
            count, taken = stats['target_tokens'], stats['seconds']
        else:
            done = run.Done(run.TFM, 'generate', '-m', folder, '--token-ids', '--max-new-tokens', length, '--stats', prompt)
            count, taken = len(done.out.split()), done.stats()['decode_seconds']
        if abs(count - length) > 1:
            sys.exit('growth.py: the %s generated %d tokens instead of %d' % (who, count, length))
        return taken

    numbers = {}
    for turn in range(rounds + 1):  # the first turn builds kernels: warm-up
        for who, length in itertools.product(models, LENGTHS):
            numbers.setdefault((who, length), []).extend([seconds(who, length)] if turn else [])
            print('decoding, %s, %d: %s' % (who, length, numbers[who, length]), file=sys.stderr)
    return shown_decoding(numbers, models, rounds)


def shown_decoding(numbers, models, rounds):
    taken = {key: min(times) for key, times in numbers.items()}
    total = [series(who, [(n, taken[who, n]) for n in LENGTHS]) for who in models]
    steps = [series(who, [((a + b) / 2, 1e6 * (taken[who, b] - taken[who, a]) / (b - a))
                          for a, b in itertools.pairwise(LENGTHS)]) for who in models]
    panels = [{'title': 'Decoding: all steps', 'x': 'tokens generated', 'y': 'seconds', 'series': total},
              {'title': 'Decoding: a step', 'x': 'tokens before it', 'y': 'microseconds', 'series': steps}]
    rows = [('{:,}'.format(n), *('%.3f' % taken[who, n] for who in models),
             *('%.0f' % one['points'][i - 1][1] if i else '' for one in steps)) for i, n in enumerate(LENGTHS)]
    words = ['Greedy, one text at a time, fp32; each time is the minimum of %d turns, decoding only, without loading. '
             'The translator: the demo (%s). The language model: %s, with random weights. The time of a step is the '
             'difference between two consecutive lengths, per step.' % (
                 rounds, models['translator'][1], models['language model'][1]), '']
    for one in steps:
        square = 0.5e-6 * one['line']['slope'] * LENGTHS[-1] ** 2 / taken[one['name'], LENGTHS[-1]]
        words.append("The %s's step takes %.0f us, and %.0f ns more for each previous token, so the quadratic part of "
                     "all steps' time is about %.0f %% at %s tokens." % (
                         one['name'], one['line']['start'], 1e3 * one['line']['slope'], 100 * square,
                         '{:,}'.format(LENGTHS[-1])))
    words += ['', 'The time of a step is linear in the length, because it attends to all previous tokens. The time of '
              'all steps is only linear as long as its quadratic part is small.']
    head = ['tokens', *(who + ', s' for who in models), *(who + ', us a step' for who in models)]
    return {'title': 'Decoding', 'panels': panels, 'text': [
        *words, '', *table(head, rows), '', 'All steps, in seconds:', '', *lines_of(panels[0]), '',
        'A step, in microseconds, by the tokens before it:', '', *lines_of(panels[1])],
            'turns': ['%s, %d: %s' % (*key, times) for key, times in numbers.items()]}


def attention(rounds):
    program, limit, kinds = run.BUILD / 'tests/bench_memory', 120, {'forward': (), 'forward and backward': ('backward',)}
    got, late = {}, []
    for kind, words in kinds.items():
        last = 0
        for n in LONGER:
            if last * 4 > limit:  # doubling the length takes four times as long
                late.append('%s of %s' % (kind, '{:,}'.format(n)))
                continue
            run.Done(program, LONGER[0], 'causal', *words)  # keeps the compiler out of the measurement
            got[kind, n] = json.loads(run.Done(program, n, 'causal', *words).out)
            last = got[kind, n]['seconds']
            print('attention, %s, %d: %s' % (kind, n, got[kind, n]), file=sys.stderr)
    pool = [series(kind + ', pool', [(n, one['pool_bytes'] / MIB) for (k, n), one in got.items() if k == kind])
            for kind in kinds]
    whole = [series(kind + ', process', [(n, one['process_bytes'] / MIB) for (k, n), one in got.items() if k == kind])
             for kind in kinds if all(one['process_bytes'] for one in got.values())]
    panel = {'title': 'Attention: peak memory', 'x': 'tokens of the sequence', 'y': 'MiB', 'series': pool + whole[1:]}
    rows = []
    for n in LONGER:
        cells = [got.get((kind, n)) for kind in kinds]
        rows.append(('{:,}'.format(n), *itertools.chain(*(
            ('%.1f' % (one['pool_bytes'] / MIB), '%.0f' % (one['process_bytes'] / MIB), '%.2f' % one['seconds'])
            if one else ('', '', '') for one in cells)), '{:,.0f}'.format(4 * 4 * n * n / MIB)))
    text = ['One sequence, 4 heads of width 64, causal, fp32: the peak of the context\'s pool, including inputs, result '
            'and gradients, and the peak of the process, with the driver. The last column is the size of one matrix of '
            'all scores, which is never in memory. The seconds are of one run, including filling the inputs, possibly with '
            'other load: they grow quadratically, as expected.']
    text += ['Omitted, because they would take more than two minutes: %s.' % ', '.join(late)] * bool(late)
    head = ['tokens', *itertools.chain(*((kind + ': pool, MiB', 'process, MiB', 's') for kind in kinds)), 'scores, MiB']
    return {'title': 'Attention', 'panels': [panel], 'text': [
        *text, '', *table(head, rows), '', 'In MiB:', '', *lines_of({'series': pool + whole})]}


def training(rounds):
    texts = {}
    sides = [(DEMO / name).read_text(encoding='utf-8').splitlines() for name in ('test.de', 'beam4.en')]
    pairs = list(zip(*sides, strict=True))
    longest = max(pairs, key=lambda pair: len(pair[0]) + len(pair[1]))
    for kind, chosen in (('one length', [longest]), ('many lengths', pairs)):
        texts[kind] = [MODELS / ('%s.%d' % (kind.replace(' ', '-'), side)) for side in (0, 1)]
        for side, path in enumerate(texts[kind]):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text('\n'.join(pair[side] for pair in chosen * (20000 // len(chosen))) + '\n', encoding='utf-8')
    got = {}
    texts['again'] = texts['one length']
    for kind, tokens in itertools.product(texts, BATCHES):
        done = run.Done(run.BUILD / 'tests/bench_train', DEMO, *texts[kind], 'tiny', 6, tokens, 'fp32',
                        'recompute' if kind == 'again' else '')
        got[kind, tokens] = json.loads(done.out) | {'process_bytes': round(done.peak * MIB)}
        print('training, %s, %d: %s' % (kind, tokens, got[kind, tokens]), file=sys.stderr)

    def points(kind, key):
        return [(n, got[kind, n][key] / MIB) for n in BATCHES]

    plotted = [series('pool, lines of one length', points('one length', 'pool_bytes')),
             series('pool, lines of many lengths', points('many lengths', 'pool_bytes')),
             series('estimate', points('one length', 'estimated_bytes')),
             series('pool, recomputed', points('again', 'pool_bytes'))]
    panel = {'title': 'Training: peak memory', 'x': 'tokens of a batch, on its longer side', 'y': 'MiB',
             'series': plotted}
    rows = [('{:,}'.format(n), *('%.0f' % (number / MIB) for number in (
        got['one length', n]['estimated_bytes'], got['one length', n]['pool_bytes'], got['one length', n]['process_bytes'],
        got['many lengths', n]['pool_bytes'], got['many lengths', n]['process_bytes'], got['again', n]['estimated_bytes'],
        got['again', n]['pool_bytes'], got['again', n]['process_bytes']))) for n in BATCHES]
    text = ['The preset tiny (4 + 4 layers of 128) with the demo\'s vocabulary, 6 updates, fp32; the estimate is that of '
            '`tfm_trainer_estimate_memory`, which `tfm train` prints at the start. Pairs are those of the demo: its '
            'longest one repeatedly, or all. With lines of many lengths, batches have many shapes, and the pool '
            'includes cached buffers of earlier batches. The last three columns are of lines of one length with '
            '`--gradient-checkpointing`, which recomputes each block in the backward pass.']
    above = ['%s (by %.0f %%)' % ('{:,}'.format(n), 100 * (one['pool_bytes'] / one['estimated_bytes'] - 1))
             for (kind, n), one in got.items() if kind == 'many lengths' and one['pool_bytes'] > one['estimated_bytes']]
    text += ['With many lengths the peak was above the estimate at %s tokens.' % ', '.join(above)] * bool(above)
    head = ('tokens', 'estimate, MiB', 'one length: pool, MiB', 'process, MiB', 'many lengths: pool, MiB', 'process, MiB', 'recomputed: estimate, MiB',
            'pool, MiB', 'process, MiB')
    whole = [series('process, lines of one length', points('one length', 'process_bytes'))]
    return {'title': 'Training', 'panels': [panel], 'text': [
        *text, '', *table(head, rows), '', 'In MiB:', '', *lines_of({'series': plotted + whole})]}


PARTS = {'decoding': decoding, 'attention': attention, 'training': training}


# ---- The plot ----


def ticks(most, count=4):
    """Round numbers from 0 to `most`."""
    step = 10 ** math.floor(math.log10(most / count))
    step *= next(n for n in (1, 2, 5, 10) if step * n * count >= most * 0.8)
    return [i * step for i in range(int(most / step) + 1)]


def draw(panel, left, top, width, height):
    """A panel with the origin at `left` and `top + height`."""
    bottom = top + height
    most_x = max(x for one in panel['series'] for x, _ in one['points'])
    most_y = 1.05 * max(y for one in panel['series'] for _, y in one['points'])

    def at(x, y):
        return left + width * x / most_x, bottom - height * y / most_y

    binary = most_x % 1024 == 0
    out = ['<text x="%d" y="%d" font-weight="bold">%s</text>' % (left - 45, top - 22, panel['title']),
           '<text x="%d" y="%d" fill="#555">%s</text>' % (left - 45, top - 7, panel['y']),
           '<text x="%d" y="%d" text-anchor="middle" fill="#555">%s</text>' % (left + width / 2, bottom + 34, panel['x'])]
    for y in ticks(most_y):
        out.append('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="%s"/><text x="%d" y="%.1f" text-anchor="end">%s</text>' % (
            left, left + width, at(0, y)[1], at(0, y)[1], '#ddd' if y else '#555', left - 6, at(0, y)[1] + 4,
            '{:,g}'.format(y)))
    for x in [most_x * i // 4 for i in range(5)] if binary else ticks(most_x):
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%s</text>' % (at(x, 0)[0], bottom + 17, '{:,g}'.format(x)))
    for i, (one, color) in enumerate(zip(panel['series'], COLORS, strict=False)):
        fit = one['line']
        first = max(0, -fit['start'] / fit['slope'])
        last = max(x for x, _ in one['points'])
        ends = *at(first, fit['start'] + fit['slope'] * first), *at(last, fit['start'] + fit['slope'] * last)
        out.append('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="1.2"/>' % (*ends, color))
        for x, y in one['points']:
            out.append('<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s" fill-opacity="0.7"><title>%s, %s: %.4g</title>'
                       '</circle>' % (*at(x, y), color, one['name'], '{:,}'.format(x), y))
        out.append('<text x="%d" y="%d" fill="%s">%s: r² %.4f</text>' % (left, bottom + 54 + 15 * i, color, one['name'],
                                                                          fit['r2']))
    return out


def svg(parts):
    panels = [panel for part in parts.values() for panel in part['panels']]
    rows, legend = (len(panels) + 1) // 2, 15 * max(len(panel['series']) for panel in panels)
    each = 285 + legend
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="760" height="%d" font-family="sans-serif" font-size="12">' % (
        30 + each * rows), '<rect width="100%" height="100%" fill="white"/>',
           '<text x="15" y="20">Points: measured; lines: least squares</text>']
    for i, panel in enumerate(panels):
        out += draw(panel, 60 + 375 * (i % 2), 75 + each * (i // 2), 300, 190)
    return '\n'.join([*out, '</svg>', ''])


def markdown(found, picture):
    of = found['machine']
    out = ['# Growth with length', '',
           '%s, %d cores, %d GB (%s). %s. tfm %s.' % (of['processor'], of['cores'], of['memory_gb'], ', '.join(of['flags']),
                                                     of['device'], found['versions']['tfm']), '',
           'Made by `sh tests/bench/growth.sh`. Lines are least-squares fits of the points; the largest deviation of '
           'a point is in percent of the largest value.', '',
           '![Points and lines](%s)' % picture]
    for part in found['parts'].values():
        out += ['', '## ' + part['title'], '', part['date'] + '. ' + part['text'][0], *part['text'][1:]]
        if 'turns' in part:
            out += ['', 'All turns, in seconds: %s.' % '; '.join(part['turns'])]
    return '\n'.join(run.wrapped([*out, '']))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('parts', nargs='*', metavar='PART')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--out', default=str(run.WORK / 'growth'))
    args = parser.parse_args()
    for word in args.parts:
        if word not in PARTS:
            sys.exit("growth.py: unknown part '%s': use %s" % (word, ', '.join(PARTS)))
    kept = Path(args.out + '.json')
    found = json.loads(kept.read_text(encoding='utf-8')) if kept.exists() else {'parts': {}}
    found |= {'machine': run.machine(), 'versions': {'tfm': run.versions()['tfm']}}
    for name in args.parts or PARTS:
        found['parts'][name] = PARTS[name](args.rounds) | {
            'date': datetime.datetime.now(datetime.timezone.utc).date().isoformat()}
        found['parts'] = {key: found['parts'][key] for key in PARTS if key in found['parts']}
        for end, text in (('.json', json.dumps(found, indent=1) + '\n'),
                          ('.md', markdown(found, Path(args.out).name + '.svg')), ('.svg', svg(found['parts']))):
            Path(args.out + end).write_text(text, encoding='utf-8')


if __name__ == '__main__':
    main()
