"""An array as groups of drives, and how many of each group may fail."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import msgspec

from seatrial.errors import UsageError
from seatrial.published import Amount, Count

Level = Literal["raid0", "raid1", "raid10", "raid5", "raid6"]
LEVELS: Final = ("raid0", "raid1", "raid10", "raid5", "raid6")
LEAST_DRIVES: Final = {"raid0": 1, "raid1": 2, "raid10": 4, "raid5": 3, "raid6": 4}


class Groups(NamedTuple):
    """Groups of drives that fail independently.

    Attributes:
        number: Number of groups; the array is lost with any of them.
        members: Drives of a group.
        tolerated: Failures that a group survives.
        read_members: Drives of a group that are read in full to rebuild one.
    """

    number: int
    members: int
    tolerated: int
    read_members: int


class Array(msgspec.Struct, frozen=True, kw_only=True):
    """Drives in an array.

    Attributes:
        level: RAID level of each leg.
        drives: Active drives of each leg.
        legs: Legs, striped.
        spares: Hot spares of each leg.
        drive_bytes: Size of a drive.
    """

    level: str
    drives: Count
    legs: Count = 1
    spares: Count = 0
    drive_bytes: Amount

    @property
    def groups(self) -> Groups:
        """Its groups; each leg has its own spares."""
        drives = self.drives
        match self.level:
            case "raid0":
                return Groups(self.legs, drives, 0, 0)
            case "raid1":
                return Groups(self.legs, drives, drives - 1, 1)
            case "raid10":
                return Groups(self.legs * drives // 2, 2, 1, 1)
            case "raid5":
                return Groups(self.legs, drives, 1, drives - 1)
        return Groups(self.legs, drives, 2, drives - 2)

    @property
    def usable_bytes(self) -> float:
        """Usable capacity."""
        of_leg = {
            "raid0": self.drives,
            "raid1": 1,
            "raid10": self.drives / 2,
            "raid5": self.drives - 1,
            "raid6": self.drives - 2,
        }
        return of_leg[self.level] * self.legs * self.drive_bytes

    @property
    def written_share(self) -> tuple[float, float]:
        """Bytes written to each drive for a byte written to the array, at least and at most.

        With parity, full stripes take the least and small writes the most: each of them writes
        data and all parities.
        """
        total = self.drives * self.legs
        match self.level:
            case "raid0":
                return 1 / total, 1 / total
            case "raid1":
                return 1 / self.legs, 1 / self.legs
            case "raid10":
                return 2 / total, 2 / total
            case "raid5":
                return self.drives / (self.drives - 1) / total, 2 / total
        return self.drives / (self.drives - 2) / total, 3 / total

    @property
    def name(self) -> str:
        """In words, such as ``RAID5 of 5 drives and a spare, twice``."""
        spares = {0: "", 1: " and a spare"}.get(self.spares, f" and {self.spares} spares")
        legs = f", {self.legs} legs" if self.legs > 1 else ""
        drives = "1 drive" if self.drives == 1 else f"{self.drives} drives"
        return f"{self.level.upper()} of {drives}{spares}{legs}"


def checked(array: Array) -> Array:
    """Return the array if it is possible; raises UsageError otherwise."""
    least = LEAST_DRIVES.get(array.level)
    if least is None:
        raise UsageError(
            seen=f"{array.level!r} is not a RAID level",
            cause=f"The levels are {', '.join(LEVELS)}",
            next_step="Choose one of them",
        )
    is_unpaired = array.level == "raid10" and array.drives % 2
    if array.drives < least or is_unpaired or array.legs < 1 or array.drive_bytes <= 0:
        raise UsageError(
            seen=f"{array.name} is not possible",
            cause=f"{array.level} has at least {least} drives"
            + (", and an even number" if array.level == "raid10" else ""),
            next_step=f"Give at least --drives {least}",
        )
    return array
