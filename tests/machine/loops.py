"""Loop devices whose files lie in a folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def loops_over(folder: Path) -> list[str]:
    """Such as ``/dev/loop0``; those of others may come and go while this looks."""
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            if Path(backing.read_text().strip()).is_relative_to(folder):
                found.append(f"/dev/{backing.parts[3]}")
    return sorted(found)
