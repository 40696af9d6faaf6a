"""What `zpool status` tells of a pool, as the older programs and those of OpenZFS print it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from seatrial.trials.layouts.build.running import run_checked

_PERCENT: Final = re.compile(r"([0-9.]+)% done")
_STATES: Final = ("ONLINE", "DEGRADED", "FAULTED", "OFFLINE", "UNAVAIL", "REMOVED", "SUSPENDED")
_LOST: Final = frozenset({"FAULTED", "UNAVAIL", "SUSPENDED"})
_SECTIONS: Final = frozenset({"logs", "cache", "spares", "special", "dedup"})
_GROUPS: Final = re.compile(r"(mirror|raidz[123]?|draid[123]?)-\d+")
_STAND_INS: Final = re.compile(r"(spare|replacing)-\d+")


@dataclass(kw_only=True)
class Vdev:
    """A line of the table, with those that are indented below it."""

    name: str
    state: str
    checksum_errors: int = 0
    below: list[Vdev] = field(default_factory=list)

    def serves(self, *, is_resilvering: bool) -> bool:
        """Tell whether the place that it is in the array has all its data.

        While a stand-in is being filled, the place has not.
        """
        if not _STAND_INS.fullmatch(self.name):
            return self.state == "ONLINE"
        return not is_resilvering and any(each.state == "ONLINE" for each in self.below)

    def walk(self) -> Iterator[Vdev]:
        """Yield it and all below it."""
        yield self
        for each in self.below:
            yield from each.walk()


@dataclass(frozen=True, kw_only=True)
class PoolStatus:
    """How a pool is.

    Attributes:
        state: Of the whole, such as ``ONLINE`` or ``DEGRADED``.
        scan: What it says of its last scrub or resilvering.
        places: What stands in the array itself: drives, or stand-ins of drives.
    """

    state: str
    scan: str
    places: list[Vdev]

    @property
    def operation(self) -> str:
        """``rebuild``, ``scrub`` or empty."""
        if "resilver in progress" in self.scan:
            return "rebuild"
        return "scrub" if "scrub in progress" in self.scan else ""

    @property
    def share(self) -> float | None:
        """How much of that is done, 0 to 1; None where it is not told."""
        found = _PERCENT.search(self.scan) if self.operation else None
        return min(float(found[1]) / 100, 1.0) if found else None

    @property
    def has_failed(self) -> bool:
        """Whether it serves no more."""
        return self.state in _LOST

    @property
    def checksum_errors(self) -> list[int]:
        """What each drive has answered wrongly."""
        return [each.checksum_errors for place in self.places for each in place.walk()]

    def missing(self, members: int) -> int:
        """Count the places of ``members`` that do not serve."""
        resilvering = self.operation == "rebuild"
        serving = sum(place.serves(is_resilvering=resilvering) for place in self.places)
        return max(members - serving, 0)


def read_status(pool: str) -> PoolStatus:
    """Ask for the status of a pool.

    Raises:
        TargetError: when ZFS does not answer, or knows no such pool.
    """
    return parse_status(run_checked(["zpool", "status", pool]))


def parse_status(text: str) -> PoolStatus:
    """Return what the text of `zpool status POOL` tells."""
    reported: dict[str, str] = {}
    key = ""
    table: list[str] = []
    for line in text.splitlines():
        head = re.match(r" *([a-z]+):(.*)", line)
        if head:
            key = head[1]
            reported[key] = head[2].strip()
        elif key == "config":
            table.append(line.removeprefix("\t"))
        else:
            reported[key] = f"{reported.get(key, '')} {line.strip()}".strip()
    scan = reported.get("scan", reported.get("scrub", ""))
    return PoolStatus(state=reported.get("state", ""), scan=scan, places=_places(table))


def _places(table: list[str]) -> list[Vdev]:
    """Return the places of the array: what stands in a group, or in the pool itself."""
    stack: list[tuple[int, Vdev]] = []
    pool: Vdev | None = None
    for line in table:
        words = line.split()
        if words and words[0] in _SECTIONS and len(words) == 1:
            break
        if len(words) < 2 or words[1] not in _STATES:
            continue
        vdev = Vdev(name=words[0], state=words[1], checksum_errors=_count(words))
        indent = len(line) - len(line.lstrip())
        while stack and stack[-1][0] >= indent:
            stack.pop()
        if stack:
            stack[-1][1].below.append(vdev)
        else:
            pool = vdev
        stack.append((indent, vdev))
    tops = pool.below if pool else []
    return [
        place for top in tops for place in (top.below if _GROUPS.fullmatch(top.name) else [top])
    ]


def _count(words: list[str]) -> int:
    """Return the last of the three counts: READ, WRITE, CKSUM; large ones are rounded there."""
    if len(words) < 5:
        return 0
    found = re.fullmatch(r"([0-9.]+)([KMG]?)", words[4])
    scale = {"": 1, "K": 1000, "M": 1_000_000, "G": 1_000_000_000}
    return int(float(found[1]) * scale[found[2]]) if found else 0
