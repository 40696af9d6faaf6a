"""Reads snapshots of pg_stat_statements as CSV."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

from seatrial.errors import UsageError
from seatrial.importers.document import unreadable
from seatrial.statement_counters import Snapshot, snapshot_of

NEEDED: Final = ("query", "calls")
FIELD_CHARACTERS_MAX: Final = 16 << 20


def is_snapshot(path: Path) -> bool:
    """Return whether a file is a CSV table with the columns of pg_stat_statements."""
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            heading = file.readline(1 << 16)
    except OSError:
        return False
    names = {name.strip().strip('"').lower() for name in heading.split(",")}
    return names.issuperset(NEEDED) and bool(names & {"total_exec_time", "total_time"})


def read_snapshot(path: Path) -> Snapshot:
    """Return the content of a CSV file, as ``psql --csv`` prints the view.

    Raises:
        UsageError: when the file cannot be read or a counter in it is invalid.
    """
    csv.field_size_limit(FIELD_CHARACTERS_MAX)
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            return snapshot_of(csv.DictReader(file))
    except (ValueError, KeyError, csv.Error) as error:
        raise UsageError(
            seen=f"{path} is not a snapshot of pg_stat_statements: {error}",
            cause="A column is missing, or a counter is not a number",
            next_step="Create one with `seatrial sql compare --snapshot URL -o FILE`",
        ) from None
    except OSError as error:
        raise unreadable(path, error) from None
