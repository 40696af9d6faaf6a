"""What tells a file that Seatrial wrote from any other, by its content.

A page bears a ``generator``, a JSON document a key, a table a comment or its columns. A table as
bm-flash prints it has no place for a mark, so one of ours is not told from one of bm-flash.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

GENERATOR: Final = "Seatrial"
"""Content of the ``generator`` of a page, before the version."""
CSV_COLUMNS: Final = ("run_id", "cell_key", "kind")
"""The first columns of a run as CSV."""
BEGINNING_BYTES_MAX: Final = 16 << 10

_BEGINNINGS: Final = (
    re.compile(
        r'<!DOCTYPE html>\s*<html[^>]*>\s*<head>\s*<meta charset="utf-8">\s*'
        rf'<meta name="generator" content="{GENERATOR} '
    ),
    re.compile(r'\{\s*"seatrial":\s*"'),
    re.compile(r'\{\s*"fio version":\s*"seatrial-'),
    re.compile(re.escape(",".join(CSV_COLUMNS)) + ","),
    re.compile(
        r"# [^\n]*\n.*?\n- Run: \S+\n- Study: [^\n]*\n- Status: \w+\n- Started: [^\n]*\n"
        r"- Seatrial: ",
        re.DOTALL,
    ),
    re.compile(r"; The cells of [^\n]*, written by seatrial \S+\.\n"),
)


def is_own(path: Path) -> bool:
    """Tell whether a file is a page or an export of a run, which can be made again; or empty.

    Raises:
        OSError: when it cannot be read.
    """
    with path.open("rb") as file:
        beginning = file.read(BEGINNING_BYTES_MAX).decode("utf-8", "replace")
    # A run without cells is an empty line as CSV.
    return beginning in ("", "\n") or any(each.match(beginning) for each in _BEGINNINGS)
