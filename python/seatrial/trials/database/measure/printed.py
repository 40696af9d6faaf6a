"""What pgbench prints: its totals, the progress of each second, and its complaints.

Source: PostgreSQL's documentation of pgbench, and ``printResults`` and ``printProgressReport`` of
src/bin/pgbench/pgbench.c, versions 13 to 18.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

_NUMBER: Final = r"([\d.]+)"
_TOTALS: Final = {
    "transactions": r"^number of transactions actually processed: (\d+)",
    "failed": r"^number of failed transactions: (\d+)",
    "skipped": r"^number of transactions skipped: (\d+)",
    "late": r"^number of transactions above the .* latency limit: (\d+)",
    "latency_ms_mean": rf"^latency average = {_NUMBER} ms",
    "latency_ms_stddev": rf"^latency stddev = {_NUMBER} ms",
    "lag_ms_mean": rf"^rate limit schedule lag: avg {_NUMBER} ",
    "lag_ms_max": rf"^rate limit schedule lag: .*\(max {_NUMBER}\) ms",
    "connect_ms": rf"^initial connection time = {_NUMBER} ms",
    "tps": rf"^tps = {_NUMBER} \((?:without initial|excluding) connection",
}
_PROGRESS: Final = re.compile(
    rf"^progress: {_NUMBER} s, {_NUMBER} tps, lat (?:{_NUMBER}|NaN) ms stddev", re.ASCII
)
_CHATTER: Final = (
    *("pgbench: setting random seed", "starting vacuum", "end.", "LINE ", "pgbench: hint:"),
    "pgbench: error: Run was aborted",
)
_GRAVE: Final = re.compile(r"\b(ERROR|FATAL|PANIC|aborted|error):? ")
_CLIENT: Final = re.compile(r"\bclient \d+")
_LINES_KEPT: Final = 8


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What one process of pgbench did in its last second.

    Attributes:
        at_s: Since it began.
        per_s: Transactions per second.
        latency_ms: Their mean latency; 0 where there were none.
    """

    at_s: float
    per_s: float
    latency_ms: float


def totals(text: str) -> dict[str, float]:
    """Return what pgbench printed at its end, by our names; what it did not print is absent."""
    found = {name: re.search(rule, text, re.MULTILINE) for name, rule in _TOTALS.items()}
    return {name: float(match[1]) for name, match in found.items() if match}


def progress(line: str) -> Progress | None:
    """Return what a line of progress tells; None when it is another line."""
    match = _PROGRESS.match(line)
    if match is None:
        return None
    return Progress(at_s=float(match[1]), per_s=float(match[2]), latency_ms=float(match[3] or 0.0))


def complaint(lines: Sequence[str]) -> str:
    """Return in one sentence what pgbench complained of, from what it wrote to stderr."""
    telling = [
        line
        for line in lines
        if line.strip(" ^") and progress(line) is None and not line.startswith(_CHATTER)
    ]
    # Notices of what went well may go before, by the hundred.
    grave = [line for line in telling if _GRAVE.search(line)]
    # All clients say the same of a server that died, or of a wrong statement: the first is told.
    words = [
        line.removeprefix("pgbench: ").removeprefix("error: ").strip() for line in grave or telling
    ]
    distinct: dict[str, str] = {}
    for word in words:
        distinct.setdefault(_CLIENT.sub("", word), word)
    return "; ".join(list(distinct.values())[:_LINES_KEPT]) or "it gave no reason"
