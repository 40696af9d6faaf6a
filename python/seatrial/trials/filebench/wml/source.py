"""Where workload files come from: the personalities that are shipped, or a path."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

from seatrial.trials.filebench.wml.words import WorkloadFileError, refused

FOLDER: Final = Path(__file__).parent.parent / "personalities"
SUFFIX: Final = ".f"


@functools.cache
def personalities() -> tuple[str, ...]:
    """Return the names of the shipped personalities, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}")))


def is_path(personality: str) -> bool:
    """Return whether a word is the path of a workload file rather than a name."""
    return personality.endswith(SUFFIX) or "/" in personality


def text_of(personality: str) -> str:
    """Return the text of a workload file.

    Args:
        personality: The name of a shipped one, or a path.

    Raises:
        WorkloadFileError: when there is none, or it is not text.
    """
    path = Path(personality) if is_path(personality) else FOLDER / f"{personality}{SUFFIX}"
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise refused(personality, 0, "it is not text", "A workload file is UTF-8") from None
    except OSError as error:
        raise _missing(personality, str(error.strerror)) from None


def _missing(personality: str, reason: str) -> WorkloadFileError:
    names = ", ".join(personalities())
    return refused(
        personality,
        0,
        f"it cannot be read: {reason}",
        f"A personality is {names}, or the path of a workload file that ends in {SUFFIX}",
        "Check the name or the path",
    )
