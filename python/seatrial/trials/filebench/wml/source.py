"""Reads workload files: shipped personalities, or a path."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

from seatrial.trials.filebench.wml.words import file_error

FOLDER: Final = Path(__file__).parent.parent / "personalities"
SUFFIX: Final = ".f"


@functools.cache
def personalities() -> tuple[str, ...]:
    """Return the names of the shipped personalities, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}")))


def is_path(personality: str) -> bool:
    """Return whether a personality is a path rather than a name."""
    return personality.endswith(SUFFIX) or "/" in personality


def text_of(personality: str) -> str:
    """Return the text of a workload file.

    Args:
        personality: A shipped one, or a path.

    Raises:
        WorkloadFileError: when it cannot be read or is not text.
    """
    path = Path(personality) if is_path(personality) else FOLDER / f"{personality}{SUFFIX}"
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise file_error(personality, 0, "it is not text", "A workload file is UTF-8") from None
    except OSError as error:
        raise file_error(
            personality,
            0,
            f"it cannot be read: {error.strerror}",
            f"A personality is {', '.join(personalities())}, or the path of a workload file that "
            f"ends in {SUFFIX}",
            "Check the name or the path",
        ) from None
