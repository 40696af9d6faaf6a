"""What the server's clients wait for, seen again and again.

Source: PostgreSQL's documentation, "Wait Events of Type ...": a backend that is active and waits
for nothing that the server names is taken to be on a processor, or to queue for one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

ON_CPU: Final = "CPU"
_CLASSES: Final = {
    "LWLock": "lwlock",
    "Lock": "lock",
    "IO": "io",
    "IPC": "ipc",
    "Client": "client",
    "Timeout": "timeout",
    "BufferPin": "buffer_pin",
    "Buffer": "buffer_pin",
}
WAIT_CLASSES: Final = (
    *("cpu", "lwlock", "lock", "io", "ipc", "client", "timeout", "buffer_pin", "other"),
)
"""Into what active backends are divided; each is a column ``waits_<class>_share``."""

_CHECKPOINTER_IDLES: Final = ("Activity", "CheckpointerMain")
_COUNTED: Final = {
    "active": "backends_active",
    "idle": "backends_idle",
    "idle in transaction": "backends_idle_in_transaction",
    "idle in transaction (aborted)": "backends_idle_in_transaction",
    "autovacuum worker": "autovacuum_workers",
}

Row = tuple[str | None, str | None, str | None, int]
"""A client's state or a background process's kind, wait class, wait event, how many."""


class Waits:
    """Counts what is seen, by wait and by entry of the series.

    Args:
        period_s: Length of an entry.

    Attributes:
        by_event: How often active clients were seen in each wait, by ``class:event``; ``CPU`` for
            none.
    """

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._looks: Counter[int] = Counter()
        self._seen: dict[int, Counter[str]] = {}
        self._checkpointer_looks: Counter[int] = Counter()
        self.by_event: Counter[str] = Counter()

    @property
    def looks(self) -> int:
        """How often was looked."""
        return self._looks.total()

    def add(self, at_s: float, rows: Iterable[Row]) -> None:
        """Count one look at the server, taken at ``at_s`` after the start."""
        entry = int(at_s / self._period_s)
        self._looks[entry] += 1
        seen = self._seen.setdefault(entry, Counter())
        for who, wait_class, event, number in rows:
            if who == "checkpointer":
                self._checkpointer_looks[entry] += 1
                seen["checkpointing"] += (wait_class, event) != _CHECKPOINTER_IDLES
            elif who in _COUNTED:
                seen[_COUNTED[who]] += number
            if who == "active":
                seen[_CLASSES.get(wait_class, "other") if wait_class else "cpu"] += number
                self.by_event[f"{wait_class}:{event}" if wait_class else ON_CPU] += number

    def columns(self, entries: int) -> dict[str, list[float | None]]:
        """Return the columns of so many entries; empty when nothing was ever seen.

        ``waits_<class>_share``: of the active clients seen in the entry, None where none was.
        ``backends_active``, ``backends_idle``, ``backends_idle_in_transaction``,
        ``autovacuum_workers``: how many there were, in the mean of the looks.
        ``checkpoint_running_share``: of the looks, those in which the checkpointer did not rest;
        that it takes requests to sync from backends counts, too, and takes a moment only.
        """
        if not self._looks:
            return {}
        columns: dict[str, list[float | None]] = {
            f"waits_{name}_share": self._shares(name, entries) for name in WAIT_CLASSES
        }
        for name in dict.fromkeys(_COUNTED.values()):
            columns[name] = self._means(name, self._looks, entries)
        if self._checkpointer_looks:
            columns["checkpoint_running_share"] = self._means(
                "checkpointing", self._checkpointer_looks, entries
            )
        return columns

    def _shares(self, name: str, entries: int) -> list[float | None]:
        active = Counter({entry: seen["backends_active"] for entry, seen in self._seen.items()})
        return self._means(name, active, entries)

    def _means(self, name: str, among: Counter[int], entries: int) -> list[float | None]:
        return [
            self._seen[entry][name] / among[entry] if among[entry] else None
            for entry in range(entries)
        ]
