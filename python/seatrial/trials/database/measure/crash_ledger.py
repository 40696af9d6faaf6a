"""Compares what a client of a crash trial knows with the content of the database afterwards.

Every transaction moves an amount from a row of one table to a row of another and writes both into a
ledger, with the numbers of its worker and itself. The rows' sums and counts follow from the ledger
alone, so a partial transaction is detected, whichever part is missing.

The reference is the client's memory: acknowledged transactions must be present (durability),
completely or not at all (atomicity), and nothing else.
"""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

ROWS: Final = 1000
"""Rows of each of the two tables without a scale."""
SCALE_ROWS: Final = 4000
"""Rows for each unit of scale; with four in a page, 8 MB."""
FILLER_BYTES: Final = 1500
"""Size of a row of a table with a scale: below PostgreSQL's threshold for compression and TOAST."""
AMOUNT_MAX = 1_000_000


def rows_of(scale: int) -> int:
    """Return the number of rows of each of the two tables."""
    return scale * SCALE_ROWS or ROWS


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One transaction: amount, source and destination.

    Attributes:
        worker: Number of the worker that sent it, from 0.
        sequence: Its number among those of its worker, from 1.
        left: Row of the first table, which loses the amount.
        right: Row of the second table, which gains it.
        amount: The amount that is moved.
    """

    worker: int
    sequence: int
    left: int
    right: int
    amount: int


class LedgerContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the database after a crash.

    Attributes:
        entries: The rows of the ledger.
        left: Changed rows of the first table: value, and number of changes.
        right: The same of the second table.
    """

    entries: list[Entry]
    left: dict[int, tuple[int, int]]
    right: dict[int, tuple[int, int]]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of the database with the client's memory.

    Attributes:
        checked: Transactions acknowledged to the client, including those of earlier checks.
        lost: Those of them that are missing: durability was violated.
        half: Lower bound of partial transactions.
        unsent: Transactions that exist but were never sent, or never committed.
        altered: Transactions whose content differs from what was sent.
        in_flight: Those with a commit sent but not answered; they may exist or not.
        in_flight_kept: Those of them that exist.
    """

    checked: int
    lost: int
    half: int
    unsent: int
    altered: int
    in_flight: int
    in_flight_kept: int

    @property
    def is_ok(self) -> bool:
        """Whether nothing was lost and nothing unexpected exists."""
        return not (self.lost or self.half or self.unsent or self.altered)


class Ledger:
    """The client's memory of a crash trial, written by its workers concurrently.

    Args:
        seed: Determines the amount, source and destination of each transaction.
        rows: Rows of each table.
    """

    def __init__(self, seed: int, rows: int = ROWS) -> None:
        self._seed = seed
        self._rows = rows
        self._lock = threading.Lock()
        self._sent: Counter[int] = Counter()
        self._acknowledged: set[tuple[int, int]] = set()
        self._in_flight: set[tuple[int, int]] = set()
        self._wrong: set[tuple[int, int]] = set()
        self._half = 0

    def next_entry(self, worker: int) -> Entry:
        """Return the next transaction of a worker."""
        with self._lock:
            self._sent[worker] += 1
            return self._entry(worker, self._sent[worker])

    def commits(self, entry: Entry) -> None:
        """Record that its commit is about to be sent: from now on it may exist or not."""
        with self._lock:
            self._in_flight.add((entry.worker, entry.sequence))

    def acknowledge(self, entry: Entry) -> None:
        """Record that it was acknowledged as committed: from now on it must exist."""
        with self._lock:
            self._in_flight.discard((entry.worker, entry.sequence))
            self._acknowledged.add((entry.worker, entry.sequence))

    def compare(self, found: LedgerContent) -> Verdict:
        """Compare with the content after a crash, and continue from there.

        It settles transactions in flight: existing ones must remain, missing ones must not appear
        later. Each fault is counted once, by the first check that finds it.
        """
        present = {(entry.worker, entry.sequence) for entry in found.entries}
        checked, in_flight = len(self._acknowledged), len(self._in_flight)
        lost = self._acknowledged - present
        kept = self._in_flight & present
        unsent = present - self._acknowledged - self._in_flight - self._wrong
        altered = {
            (entry.worker, entry.sequence)
            for entry in found.entries
            if entry != self._entry(entry.worker, entry.sequence)
        } - self._wrong
        half_before, self._half = self._half, _half(found)
        self._acknowledged = (self._acknowledged | kept) - lost
        self._in_flight = set()
        self._wrong |= unsent | altered
        return Verdict(
            checked=checked,
            lost=len(lost),
            half=max(self._half - half_before, 0),
            unsent=len(unsent),
            altered=len(altered),
            in_flight=in_flight,
            in_flight_kept=len(kept),
        )

    def lose_all(self) -> Verdict:
        """Return the verdict on a database that does not recover: everything is lost."""
        return Verdict(
            checked=len(self._acknowledged),
            lost=len(self._acknowledged),
            half=0,
            unsent=0,
            altered=0,
            in_flight=len(self._in_flight),
            in_flight_kept=0,
        )

    def _entry(self, worker: int, sequence: int) -> Entry:
        """Return a transaction, which is determined by its numbers."""
        draw = random.Random(f"{self._seed} {worker} {sequence}")
        return Entry(
            worker,
            sequence,
            draw.randint(1, self._rows),
            draw.randint(1, self._rows),
            draw.randint(1, AMOUNT_MAX),
        )


def _half(found: LedgerContent) -> int:
    """Return a lower bound of the number of partial transactions.

    Each changes one row of either table once, so in each table it can be missing, or in excess,
    once.
    """
    moved_from = ((entry.left, -entry.amount) for entry in found.entries)
    moved_to = ((entry.right, entry.amount) for entry in found.entries)
    return max(_deviations(found.left, moved_from), _deviations(found.right, moved_to))


def _deviations(rows: Mapping[int, tuple[int, int]], changes: Iterable[tuple[int, int]]) -> int:
    """Return how many changes of a table's rows differ from the ledger, either way."""
    expected: dict[int, list[int]] = defaultdict(list)
    for row, amount in changes:
        expected[row].append(amount)
    deviations = 0
    for row in rows.keys() | expected.keys():
        value, changed = rows.get(row, (0, 0))
        missing = abs(changed - len(expected[row]))
        deviations += missing or int(value != sum(expected[row]))
    return deviations
