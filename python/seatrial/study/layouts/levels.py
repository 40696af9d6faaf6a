"""RAID levels as facts: how many drives they need, what they hold and how many they may lose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Level:
    """One level of redundancy over ``n`` drives.

    Attributes:
        members_min: Fewest drives.
        even: Whether their number must be even.
        data_members: Drives' worth of data that ``n`` drives hold.
        losses_survived: Drives of ``n`` that may fail, whichever they are.
        parity_members: Drives' worth of parity in each stripe; 0 for copies and plain stripes.
    """

    members_min: int
    even: bool = False
    data_members: Callable[[int], float]
    losses_survived: Callable[[int], int]
    parity_members: int = 0


def _parity(count: int, members_min: int) -> Level:
    return Level(
        members_min=members_min,
        data_members=lambda members: members - count,
        losses_survived=lambda _members: count,
        parity_members=count,
    )


_PLAIN: Final = Level(
    members_min=1,
    data_members=lambda members: members,
    losses_survived=lambda _members: 0,
)
_COPIES: Final = Level(
    members_min=2,
    data_members=lambda _members: 1,
    losses_survived=lambda members: members - 1,
)
_TWO_COPIES: Final = Level(
    members_min=2,
    data_members=lambda members: members / 2,
    losses_survived=lambda _members: 1,
)
_STRIPED_COPIES: Final = Level(
    members_min=4,
    even=True,
    data_members=lambda members: members / 2,
    losses_survived=lambda _members: 1,
)

LEVELS: Final[dict[str, Level]] = {
    "single": _PLAIN,
    "raid0": _PLAIN,
    "raid1": _COPIES,
    "raid10": _STRIPED_COPIES,
    "raid5": _parity(1, members_min=3),
    "raid6": _parity(2, members_min=4),
    "stripe": _PLAIN,
    "mirror": _COPIES,
    "raidz1": _parity(1, members_min=2),
    "raidz2": _parity(2, members_min=3),
    "raidz3": _parity(3, members_min=4),
}
"""By name. ``stripe``, ``mirror`` and ``raidz1`` to ``raidz3`` are ZFS's."""

_OF_BACKEND: Final = {("btrfs", "raid1"): _TWO_COPIES}
"""Levels that mean something else to one backend. Source: mkfs.btrfs(8), PROFILES: ``raid1`` holds
two copies, whatever the number of drives."""


def level_facts(backend: str, level: str) -> Level:
    """Return what a level means to a backend.

    Raises:
        KeyError: when there is no such level.
    """
    return _OF_BACKEND.get((backend, level)) or LEVELS[level]
