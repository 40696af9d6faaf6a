"""How this program is called from here: what messages that hold a command line begin with.

In a virtual environment that is not active no shell finds it by its name, and ``sudo`` does not
even where it is: it looks in the folders of its own ``secure_path``.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

NAME: Final = "seatrial"


def called() -> str:
    """Return the program's name, or its path as it was called where the name would not find it."""
    word = sys.argv[0]
    if Path(word).name != NAME or os.sep not in word:
        return NAME
    found = shutil.which(NAME)
    is_found = found is not None and os.path.realpath(found) == os.path.realpath(word)
    return NAME if is_found else word


def with_root() -> str:
    """Return how the command is run by root, as the end of a sentence that begins "Run it"."""
    word = sys.argv[0]
    if Path(word).name != NAME:
        return "as root (`sudo`)"
    return f"as root: `sudo {path()} ...`"


def path() -> str:
    """Return the whole path of the program; its name where that is not known."""
    word = sys.argv[0]
    if Path(word).name != NAME:
        return NAME
    return str(Path(word).absolute()) if os.sep in word else shutil.which(NAME) or NAME
