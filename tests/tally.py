"""Counts the cases in a Meson test log: python3 tests/tally.py LABEL testlog.json >> counts

Prints a line "passed failed skipped", and on standard error the cases that did not pass."""
import json
import re
import sys


def cmocka(text):
    run = re.findall(r'^\[ RUN      \] (\S+)', text, re.M)
    passed = set(re.findall(r'^\[       OK \] (\S+)', text, re.M))
    skipped = set(re.findall(r'^\[  SKIPPED \] (\S+)', text, re.M)) & set(run)
    return passed, [name for name in run if name not in passed and name not in skipped], skipped


def tap(text):
    lines = re.findall(r'^(ok|not ok) \d+ - (.*)$', text, re.M)
    skipped = [name for result, name in lines if result == 'ok' and '# SKIP' in name]
    return ([name for result, name in lines if result == 'ok' and name not in skipped],
            [name for result, name in lines if result == 'not ok'], skipped)


label, log = sys.argv[1:]
counts = [0, 0, 0]
for line in open(log, encoding='utf-8', errors='replace'):
    test = json.loads(line)
    text = test.get('stdout', '') + '\n' + test.get('stderr', '')
    passed, failed, skipped = (cmocka if '[ RUN      ]' in text else tap)(text)
    if test['result'] not in ('OK', 'SKIP') and not failed:
        failed = [test['result'].lower()]  # died between cases
    for kind, names in (('failed', failed), ('skipped', skipped)):
        for name in names:
            print(f'{label}: {test["name"]}: {kind}: {name}', file=sys.stderr)
    if failed:
        print(text[-4000:], file=sys.stderr)
    counts = [a + len(b) for a, b in zip(counts, (passed, failed, skipped))]
print(*counts)
