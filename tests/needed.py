"""The files of a build folder that the selected tests need, for ninja: programs that they start, and files those open.
    python3 tests/needed.py FOLDER ARGUMENT...      arguments of meson test, such as --suite host
"""

import json
import os
import subprocess
import sys


def said(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


folder = sys.argv[1]
names = {line.split(" / ")[-1] for line in said("meson", "test", "-C", folder, "--list", *sys.argv[2:]).splitlines()}
files = {target["id"]: target["filename"] for target in json.loads(said("meson", "introspect", folder, "--targets"))}
tests = json.loads(said("meson", "introspect", folder, "--tests"))
needed = {name for test in tests if test["name"] in names for target in test["depends"] for name in files[target]}
print("\n".join(os.path.relpath(name, folder) for name in sorted(needed)))
