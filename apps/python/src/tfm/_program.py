"""The program `tfm`, which lies beside the library: the command of that name, and what runs whole trainings."""
from __future__ import annotations

import os
import sys

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tfm")


def main() -> None:
    """The command `tfm`."""
    os.execv(PATH, ["tfm", *sys.argv[1:]])
