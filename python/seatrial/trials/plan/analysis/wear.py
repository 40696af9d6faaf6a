"""How long drives last: bytes written at the block layer, through array and drive, against TBW."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.lazy import np
from seatrial.published import Amount
from seatrial.trials.plan.analysis.array import Array
from seatrial.trials.plan.analysis.figure import Figure

if TYPE_CHECKING:
    from seatrial.catalogue.facts import Drive

TB: Final = 1e12
DAYS_PER_YEAR: Final = 365.25
WARRANTY_YEARS: Final = 5
"""Years that drive writes per day are rated for."""
DRAWS: Final = 20_000
WITHIN_DRIVE: Final = Figure(
    low=1.0,
    mid=2.0,
    high=4.0,
    origin="assumed, as no drive was read",
)
"""Bytes written to flash for each byte that a drive is written."""


class Wear(msgspec.Struct, frozen=True, kw_only=True):
    """How long a drive of an array lasts.

    Attributes:
        written_per_day: Bytes written to the array a day.
        per_drive_low: Bytes written to each drive for one of them, at least: full stripes.
        per_drive_high: At most: small writes.
        within_drive: Bytes written to flash for each byte that a drive is written.
        endurance: Bytes that the drive may be written.
        used_share: Share of its endurance that is used up.
        years: How long it lasts from now.
    """

    written_per_day: Figure
    per_drive_low: Amount
    per_drive_high: Amount
    within_drive: Figure
    endurance: Figure
    used_share: Amount
    years: Figure


def wear_of(
    array: Array,
    written_per_day: Figure,
    endurance: Figure,
    *,
    within_drive: Figure = WITHIN_DRIVE,
    used_share: float = 0.0,
    seed: int = 1,
) -> Wear:
    """Return how long a drive of an array lasts, with an interval over what is not known.

    Args:
        array: The array.
        written_per_day: Bytes a day, at the block layer above the array.
        endurance: Bytes that a drive may be written; TBW counts what the host writes with the
            amplification of the vendor's own test in it, so that more than that shortens it.
        within_drive: Bytes written to flash for each byte that a drive is written.
        used_share: Share of the endurance that is used already, by SMART.
        seed: Seed of the draws.

    Raises:
        ValueError: when nothing is written.
    """
    if written_per_day.mid <= 0:
        raise ValueError("a drive that is not written does not wear")
    random = np.random.default_rng(seed)
    normal = random.standard_normal((3, DRAWS))
    low, high = array.written_share
    share = low + (high - low) * random.random(DRAWS)
    per_year = written_per_day.at(normal[0]) * share * within_drive.at(normal[1]) * DAYS_PER_YEAR
    years = endurance.at(normal[2]) * max(0.0, 1 - used_share) / per_year
    ends = np.percentile(years, (5, 50, 95))
    return Wear(
        written_per_day=written_per_day,
        per_drive_low=low,
        per_drive_high=high,
        within_drive=within_drive,
        endurance=endurance,
        used_share=used_share,
        years=Figure(
            low=float(ends[0]), mid=float(ends[1]), high=float(ends[2]), origin="computed"
        ),
    )


def endurance_of(drive: Drive, drive_bytes: float, origin: str) -> Figure | None:
    """Return what a data sheet lets a drive be written (bytes); None where it does not say."""
    if drive.tbw_tb:
        value = drive.tbw_tb * TB
        return Figure(low=value, mid=value, high=value, origin=origin)
    if drive.dwpd_low and drive.dwpd_high and drive_bytes:
        days = DAYS_PER_YEAR * WARRANTY_YEARS
        low, high = drive.dwpd_low * drive_bytes * days, drive.dwpd_high * drive_bytes * days
        return Figure(low=low, mid=(low * high) ** 0.5, high=high, origin=origin)
    return None
