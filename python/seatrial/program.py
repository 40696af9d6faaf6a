"""How this program is called, for messages that contain a command line.

No shell finds it by its name in a virtual environment that is not active, and ``sudo`` never does:
it searches its own ``secure_path``.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

NAME: Final = "seatrial"


def called() -> str:
    """Return the program's name, or its path if a shell would not find it by name."""
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
    """Return the absolute path of the program; its name if that is unknown."""
    word = sys.argv[0]
    if Path(word).name != NAME:
        return NAME
    return str(Path(word).absolute()) if os.sep in word else shutil.which(NAME) or NAME
