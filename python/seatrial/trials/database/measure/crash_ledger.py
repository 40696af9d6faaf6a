"""What a client of a crash trial knows, and what it then finds in the database: do the two agree?

Every transaction moves an amount from a row of one table to a row of another and writes both into
a ledger, under its worker's number and its own. The rows' sums and counts follow from the ledger
alone, so a transaction of which only a part is there is seen, whichever part it is.

The client's memory is the measure: what it was told is committed must be there (durability), all
of it or nothing of it (atomicity), and nothing else.
"""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

ROWS: Final = 1000
"""Of each of the two tables, unless they have a scale."""
SCALE_ROWS: Final = 4000
"""For each unit of scale; as each page holds four, these are 8 MB."""
FILLER_BYTES: Final = 1500
"""Of a row of a table with a scale: less than what PostgreSQL would compress or move elsewhere."""
AMOUNT_MAX = 1_000_000


def rows_of(scale: int) -> int:
    """Return how many rows each of the two tables has."""
    return scale * SCALE_ROWS or ROWS


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One transaction: what it moves, from where to where.

    Attributes:
        worker: Number of the worker that sent it, from 0.
        sequence: Its number among those of its worker, from 1.
        left: Row of the first table, which loses the amount.
        right: Row of the second table, which gains it.
        amount: What is moved.
    """

    worker: int
    sequence: int
    left: int
    right: int
    amount: int


class LedgerContent(msgspec.Struct, frozen=True, kw_only=True):
    """What the database holds after a crash.

    Attributes:
        entries: The rows of the ledger.
        left: Of each changed row of the first table: its value, and how often it was changed.
        right: The same of the second table.
    """

    entries: list[Entry]
    left: dict[int, tuple[int, int]]
    right: dict[int, tuple[int, int]]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """How what was found agrees with what the client knows.

    Attributes:
        checked: Transactions that were acknowledged to the client, by this check or before.
        lost: Of these, that are not there: the database broke its word.
        half: At least so many are there in part.
        unsent: That are there and cannot be: never sent, or never asked to be committed.
        altered: That are there with another content than was sent.
        in_flight: Whose commit was sent and not answered; either is right.
        in_flight_kept: Of these, that are there.
    """

    checked: int
    lost: int
    half: int
    unsent: int
    altered: int
    in_flight: int
    in_flight_kept: int

    @property
    def is_well(self) -> bool:
        """Whether nothing was lost, and nothing is there that should not be."""
        return not (self.lost or self.half or self.unsent or self.altered)


class Ledger:
    """The client's memory of a crash trial; its workers write to it at the same time.

    Args:
        seed: Decides what each transaction moves.
        rows: Of each table.
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
        """Return what a worker sends next."""
        with self._lock:
            self._sent[worker] += 1
            return self._entry(worker, self._sent[worker])

    def commits(self, entry: Entry) -> None:
        """Take in that its commit is about to be sent: from now on either is right."""
        with self._lock:
            self._in_flight.add((entry.worker, entry.sequence))

    def acknowledge(self, entry: Entry) -> None:
        """Take in that the server said it is committed: from now on it must be there."""
        with self._lock:
            self._in_flight.discard((entry.worker, entry.sequence))
            self._acknowledged.add((entry.worker, entry.sequence))

    def compare(self, found: LedgerContent) -> Verdict:
        """Compare with what is found after a crash, and go on from there.

        What was in flight is settled by it: what is there must stay, what is not must not come.
        What is wrong is counted once, by the first check that sees it.
        """
        there = {(entry.worker, entry.sequence) for entry in found.entries}
        checked, in_flight = len(self._acknowledged), len(self._in_flight)
        lost = self._acknowledged - there
        kept = self._in_flight & there
        unsent = there - self._acknowledged - self._in_flight - self._wrong
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
        """Return the verdict on a database that does not come back: all of it is lost."""
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
        """Return a transaction; the same number always means the same one."""
        draw = random.Random(f"{self._seed} {worker} {sequence}")
        return Entry(
            worker,
            sequence,
            draw.randint(1, self._rows),
            draw.randint(1, self._rows),
            draw.randint(1, AMOUNT_MAX),
        )


def _half(found: LedgerContent) -> int:
    """Return how many transactions are at least there in part.

    Each changes one row of either table once, so in each table it can be missed, or be too many,
    once.
    """
    moved_from = ((entry.left, -entry.amount) for entry in found.entries)
    moved_to = ((entry.right, entry.amount) for entry in found.entries)
    return max(_discords(found.left, moved_from), _discords(found.right, moved_to))


def _discords(rows: Mapping[int, tuple[int, int]], changes: Iterable[tuple[int, int]]) -> int:
    """Return how many changes of a table's rows the ledger does not tell, or tells in vain."""
    reported: dict[int, list[int]] = defaultdict(list)
    for row, amount in changes:
        reported[row].append(amount)
    discords = 0
    for row in rows.keys() | reported.keys():
        value, changed = rows.get(row, (0, 0))
        missing = abs(changed - len(reported[row]))
        discords += missing or int(value != sum(reported[row]))
    return discords
