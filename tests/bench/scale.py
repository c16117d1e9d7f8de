"""Communication time of data-parallel updates: measurements and a model.

As root, with Open MPI and a build with MPI:
    python3 tests/bench/scale.py measure PROGRAM OUT.jsonl [RATE:DELAY...]
                                                               runs between network namespaces (scale_net.sh), over
                                                               links such as 1gbit:50us; 0 is none. SCALE_WORLDS: other
                                                               world sizes than 1,2,4, such as 1,2,4,8
    python3 tests/bench/scale.py fit OUT.jsonl                 fits the constants; errors on held-back points
    python3 tests/bench/scale.py plan OUT.jsonl                extrapolation to the paper's models, as Markdown

The model: an update sends each gradient bucket twice, as blocks to each rank (reduce-scatter) and as a sum to each
(all-gather). A call waits for the slowest rank, and costs a message per rank and, per byte, the link and host work:

    seconds = calls (ranks - 1) (ALPHA + TRIPS delay) + link (OVERHEAD + JAM (1 - 2 / ranks)) + bytes crowd HOST
    link    = 8 (bytes - calls BURST) / rate, BURST is 0 for links with a delay
    crowd   = ranks / cores, at least 1, of the one machine of all ranks

bytes is the amount that a rank sends, delay the one-way delay of a link; HOST has one value for 32-bit and one for
16-bit gradients, which are converted. A token bucket passes BURST bytes of each call at once, unlike real links; JAM
accounts for idle partners with more than two ranks. `measure` takes the median of a run's updates. Constants are fitted
to models of two widths; the width between them is held back.

A whole update on this machine, whose cores all ranks share, is the work of all ranks plus communication:

    update = ranks work + seconds

work is the update time of a world of one, which does not communicate and is measured next to the others."""
import json
import math
import os
import subprocess
import sys
import tempfile

LINKS = ('1gbit:50us', '1gbit:1ms', '10gbit:50us', '10gbit:1ms')
UNITS = {'gbit': 1e9, 'mbit': 1e6, 'us': 1e-6, 'ms': 1e-3}
WORLDS = tuple(int(n) for n in os.environ.get('SCALE_WORLDS', '1,2,4').split(','))
WIDTHS = (256, 384, 512)
COMM_DTYPES = ('f32', 'bf16')
BUCKET = 1 << 20  # gradient elements of a bucket
BURST = 1 << 18  # bytes, as in scale_net.sh
NET = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'scale_net.sh')


def net(*arguments, **options):
    return subprocess.run(('sh', NET) + arguments, check=True, **options)


def measure_run(program, folder, world, width, dtype):
    out = os.path.join(folder, 'run')
    subprocess.run(('rm', '-rf', out), check=True)
    net('mpirun', str(world), program, 'train', '-o', out, '--src', 'a', '--tgt', 'b', '--hold-out', '0', '--width',
        str(width), '--ffn-dim', str(4 * width), '--heads', '4', '--encoder-layers', '1', '--decoder-layers', '1',
        '--batch-tokens', '16', '--max-steps', '22', '--logging-steps', '1', '--comm-dtype', dtype, cwd=folder,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=180)
    with open(os.path.join(out, 'train.jsonl'), encoding='utf-8') as log:
        lines = [json.loads(line) for line in log]
    updates = [line for line in lines if line['type'] == 'train'][1:]
    whole = [after['seconds'] - before['seconds'] for before, after in zip(updates, updates[1:])]
    seconds = [line.get('comm_seconds', 0) for line in updates[1:]]
    return {'parameters': lines[0]['parameters'], 'bytes': updates[-1].get('comm_bytes', 0), 'seconds': median(seconds),
            'update': median(whole)}


def median(values):
    return sorted(values)[len(values) // 2]


def number(text):
    digits = text.rstrip('abcdefghijklmnopqrstuvwxyz')
    return float(digits) * UNITS.get(text[len(digits):], 1)


def measure(program, out, links):
    program = os.path.abspath(program)
    with tempfile.TemporaryDirectory() as folder, open(out, 'w', encoding='utf-8') as log:
        for name, words in (('a', 'eins zwei drei vier'), ('b', 'one two three four')):
            with open(os.path.join(folder, name), 'w', encoding='utf-8') as text:
                text.writelines('%s %d\n' % (words, i % 97) for i in range(400))
        try:
            for link in links:
                rate, delay = link.split(':')
                net('up', str(max(WORLDS)), rate, delay)
                for world, width, dtype in [(n, w, k) for n in WORLDS for w in WIDTHS for k in COMM_DTYPES[:1 if n == 1 else 2]]:
                    point = {'rate': rate, 'delay': delay, 'world': world, 'width': width, 'dtype': dtype,
                             'cores': os.cpu_count()}
                    try:
                        point.update(measure_run(program, folder, world, width, dtype))
                    except subprocess.TimeoutExpired:
                        print('timeout:', point, file=sys.stderr)
                        continue
                    log.write(json.dumps(point) + '\n')
                    log.flush()
        finally:
            net('down')


def terms(p):
    """The factors of the constants ALPHA, TRIPS, OVERHEAD, JAM, and HOST of 32 bits and of 16."""
    calls = 2 * math.ceil(p['parameters'] / BUCKET)
    steps = calls * (p['world'] - 1)
    burst = 0 if number(p.get('delay', '0')) else BURST  # links with a delay use scale_link, which has no token bucket
    link = max(0, p['bytes'] - calls * burst) * 8 / (number(p['rate']) or math.inf)
    host = p['bytes'] * max(1, p['world'] / p['cores'])
    wide = p['dtype'] == 'f32'
    return (steps, steps * number(p.get('delay', '0')), link, link * (1 - 2 / p['world']), host if wide else 0,
            0 if wide else host)


def solve(rows, values):
    """Least squares of relative errors with constants >= 0: Gauss elimination, dropping negative ones."""
    n = len(rows[0])
    kept = [i for i in range(n) if any(r[i] for r in rows)]
    while True:
        a = [[sum(r[i] * r[j] / v ** 2 for r, v in zip(rows, values)) for j in kept] +
             [sum(r[i] / v for r, v in zip(rows, values))] for i in kept]
        for i in range(len(kept)):
            pivot = a[i][i]
            a[i] = [x / pivot for x in a[i]]
            for k in range(len(kept)):
                if k != i:
                    a[k] = [x - a[k][i] * y for x, y in zip(a[k], a[i])]
        found = dict(zip(kept, (row[-1] for row in a)))
        if all(x >= 0 for x in found.values()):
            return [found.get(i, 0.0) for i in range(n)]
        kept.remove(min(found, key=found.get))


def read(path):
    with open(path, encoding='utf-8') as log:
        return [json.loads(line) for line in log]


def wired(points):
    return [p for p in points if p['world'] > 1]


def fits(points):
    """The points used for fitting; the others are held back."""
    return [p for p in wired(points) if p['width'] != WIDTHS[1]]


def constants(points):
    return solve([terms(p) for p in fits(points)], [p['seconds'] for p in fits(points)])


def predicted(constant, p):
    return sum(c * t for c, t in zip(constant, terms(p)))


def fit(points):
    constant = constants(points)
    print('ALPHA %.3g s, TRIPS %.2f, OVERHEAD %.3f, JAM %.3f, HOST %.3g and %.3g s/byte' % tuple(constant))
    print('| rate | delay | ranks | width | dtype | MB sent | measured, s | model, s | error |  |\n'
          '|---|---|---|---|---|---|---|---|---|---|')
    for p in wired(points):
        says = predicted(constant, p)
        print('| %s | %s | %d | %d | %s | %.1f | %.3f | %.3f | %+.0f %% | %s |' %
              (p['rate'], p.get('delay', '0'), p['world'], p['width'], p['dtype'], 1e-6 * p['bytes'], p['seconds'], says,
               100 * (says / p['seconds'] - 1), 'fitted' if p in fits(points) else 'held back'))
    held = [p for p in wired(points) if p not in fits(points)]
    say_errors('held back', [predicted(constant, p) / p['seconds'] - 1 for p in held])
    alone = {(p['rate'], p.get('delay', '0'), p['width']): p['update'] for p in points if p['world'] == 1}
    pairs = [(alone.get((p['rate'], p.get('delay', '0'), p['width'])), p) for p in held]
    say_errors('whole updates', [(p['world'] * work + predicted(constant, p)) / p['update'] - 1
                                          for work, p in pairs if work])


def say_errors(what, errors):
    errors = sorted(abs(e) for e in errors)
    if errors:
        print('%s: %d points, median error %.0f %%, largest %.0f %%, %d within 15 %%' %
              (what, len(errors), 100 * median(errors), 100 * errors[-1], sum(e <= 0.15 for e in errors)))


# ---- The paper's models

# Parameters per encoder token, decoder token and target output, and in total, with the paper's vocabulary of 37,000
# tokens shared by both languages; tokens per side of an update, and the number of updates.
MODELS = {
    'base': {'width': 512, 'inner': 2048, 'layers': 6, 'updates': 100000},
    'big': {'width': 1024, 'inner': 4096, 'layers': 6, 'updates': 300000},
}
VOCABULARY, TOKENS = 37000, 25000
# Vendors' FP32 peaks in FLOP/s, and the assumed share of the peak: only the H100 was measured (h100.md): base, with
# 5,001 vocabulary entries, at 177,000 tokens of both sides per second, 37 % of its peak.
GPUS = {'Tesla T4': 8.1e12, 'Arc A770': 19.7e12, 'A100': 19.5e12, 'RTX 4090': 82.6e12}
SHARE = 0.3
H100_TOKENS, H100_VOCABULARY = 177000.0, 5001
# Launches of an update, counted while PoCL posed as a GPU (TFM_PROFILE=1 tfm train): 46 per layer for 12 layers, and 23
# others; host time of a launch on that H100.
LAYER_LAUNCHES, OTHER_LAUNCHES, LAUNCH = 46, 23, 5.7e-6
# Trained tokens of both sides per second on two cores with AVX-512: base measured (train-cpu.md), big from its FLOPs.
CPU_TOKENS, CPU_CORES = 957.0, 32


def model_flops(m, vocabulary=VOCABULARY):
    """FLOPs of an update: two per multiply-add, three times for forward and backward; with attention scores."""
    attention, feed = 4 * m['width'] ** 2, 2 * m['width'] * m['inner']
    encoder, decoder = m['layers'] * (attention + feed), m['layers'] * (2 * attention + feed)
    sentence = 30  # typical number of tokens that a token attends to
    scores = m['layers'] * 3 * 2 * sentence * m['width']
    return 6 * TOKENS * (encoder + decoder + m['width'] * vocabulary + scores)


def model_parameters(m):
    attention, feed = 4 * m['width'] * (m['width'] + 1), 2 * m['width'] * m['inner'] + m['width'] + m['inner']
    norms = m['layers'] * 5 * 2 * m['width']
    return m['layers'] * (3 * attention + 2 * feed) + norms + VOCABULARY * m['width']


# Seconds per byte of an otherwise idle host: assumed, while HOST is the measured value.
IDLE = 1e-9


def comm_seconds(constant, parameters, ranks, rate, delay):
    calls = 2 * math.ceil(parameters / BUCKET)
    count = 2 * (ranks - 1) / ranks * parameters * 4
    jam = constant[2] + constant[3] * (1 - 2 / ranks)
    return (constant[0] + constant[1] * delay) * calls * (ranks - 1) + count * (8 * jam / rate + constant[4])


def update_seconds(compute, communication, buckets):
    """The backward pass is two thirds of the work; all buckets except the last can be sent during it."""
    return compute + max(communication - 2 / 3 * compute, communication / buckets)


def devices_of(m):
    """Device names, number of ranks, and seconds of each rank's share of an update, including launches."""
    flops = model_flops(m)
    launches = (2 * m['layers'] * LAYER_LAUNCHES + OTHER_LAUNCHES) * LAUNCH
    speeds = {gpu: SHARE * peak for gpu, peak in GPUS.items()}
    speeds['H100'] = H100_TOKENS * model_flops(MODELS['base'], H100_VOCABULARY) / (2 * TOKENS)
    found = [('8 x ' + gpu, 8, flops / 8 / speed + launches) for gpu, speed in speeds.items()]
    speed = CPU_TOKENS * model_flops(MODELS['base']) / flops * CPU_CORES / 2
    return found + [('100 machines of %d cores' % CPU_CORES, 100, 2 * TOKENS / 100 / speed)]


def plan(points):
    measured = constants(points)
    assumed = [0, measured[1], measured[2] or 1.05, measured[3], IDLE]
    print('| model | devices | work, s | link | communication, s | update, s | all updates, days | communication, s, as measured |\n'
          '|---|---|---|---|---|---|---|---|')
    for name, m in MODELS.items():
        parameters = model_parameters(m)
        for device, ranks, work in devices_of(m):
            for link, rate, delay in (('1 Gbit/s', 1e9, 50e-6), ('10 Gbit/s', 10e9, 50e-6), ('one host', math.inf, 0)):
                if rate == math.inf and ranks > 8:
                    continue
                communication = comm_seconds(assumed, parameters, ranks, rate, delay)
                update = update_seconds(work, communication, math.ceil(parameters / BUCKET))
                print('| %s | %s | %.2f | %s | %.2f | %.2f | %.1f | %.2f |' %
                      (name, device, work, link, communication, update, m['updates'] * update / 86400,
                       comm_seconds(measured, parameters, ranks, rate, delay)))


def main(arguments):
    if len(arguments) >= 3 and arguments[0] == 'measure':
        measure(arguments[1], arguments[2], arguments[3:] or LINKS)
    elif len(arguments) == 2 and arguments[0] in ('fit', 'plan'):
        {'fit': fit, 'plan': plan}[arguments[0]](read(arguments[1]))
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    main(sys.argv[1:])
