"""The program `tfm` in the package: the console command, also used for training runs."""
from __future__ import annotations

import os
import sys

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tfm")


def main() -> None:
    """The command `tfm`."""
    os.execv(PATH, ["tfm", *sys.argv[1:]])
