"""How long drives last: bytes written at the block layer, through array and drive, against TBW."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.catalogue.facts import DAYS_PER_YEAR, rated_bytes
from seatrial.lazy import np
from seatrial.published import Amount
from seatrial.trials.plan.analysis.array import Array
from seatrial.trials.plan.analysis.figure import Figure
from seatrial.units import TB

if TYPE_CHECKING:
    from seatrial.catalogue.facts import Drive

DRAWS: Final = 20_000
WAF: Final = Figure(low=1.0, mid=2.0, high=4.0, origin="assumed")
"""Bytes written to flash for each byte that a drive is written, by a load or in its rating's test.

The tests of ratings are those of JESD218 and JESD219; data sheets do not state their amplification.
"""
OVER_RATED: Final = Figure(
    low=0.5, mid=1.0, high=2.0, origin="assumed, as the drive's write amplification is not known"
)
"""Write amplification over that of the rating's test: both are of one drive, so they differ less
than either may be."""


class Wear(msgspec.Struct, frozen=True, kw_only=True):
    """How long a drive of an array lasts.

    Attributes:
        written_per_day: Bytes written to the array a day.
        per_drive_low: Bytes written to each drive for one of them, at least: full stripes.
        per_drive_high: At most: small writes.
        over_rated: Write amplification within the drive over that of its rating's test.
        endurance: Bytes that the drive may be written, as its rating's test writes them.
        used_share: Share of its endurance that is used up.
        years: How long it lasts from now.
    """

    written_per_day: Figure
    per_drive_low: Amount
    per_drive_high: Amount
    over_rated: Figure
    endurance: Figure
    used_share: Amount
    years: Figure


def wear_of(
    array: Array,
    written_per_day: Figure,
    endurance: Figure,
    *,
    over_rated: Figure = OVER_RATED,
    used_share: float = 0.0,
    seed: int = 1,
) -> Wear:
    """Return how long a drive of an array lasts, with an interval over what is not known.

    Args:
        array: The array.
        written_per_day: Bytes a day, at the block layer above the array.
        endurance: Bytes that a drive may be written: TBW counts what the host writes.
        over_rated: Write amplification over that of the rating's test, which TBW contains.
        used_share: Share of the endurance that is used already, by SMART.
        seed: Seed of the draws.

    Raises:
        ValueError: when nothing is written.
    """
    if written_per_day.mid <= 0:
        raise ValueError("a drive that is not written to does not wear")
    random = np.random.default_rng(seed)
    normal = random.standard_normal((3, DRAWS))
    low, high = array.written_share
    share = low + (high - low) * random.random(DRAWS)
    per_year = written_per_day.at(normal[0]) * share * over_rated.at(normal[1]) * DAYS_PER_YEAR
    years = endurance.at(normal[2]) * max(0.0, 1 - used_share) / per_year
    ends = np.percentile(years, (5, 50, 95))
    return Wear(
        written_per_day=written_per_day,
        per_drive_low=low,
        per_drive_high=high,
        over_rated=over_rated,
        endurance=endurance,
        used_share=used_share,
        years=Figure(
            low=float(ends[0]), mid=float(ends[1]), high=float(ends[2]), origin="computed"
        ),
    )


def amplification_over(waf: Figure, rated: Figure) -> Figure:
    """Return a write amplification over that of a rating; their unknown parts are independent.

    Raises:
        ValueError: when one of them may be 0.
    """
    if waf.low <= 0 or rated.low <= 0:
        raise ValueError("a write amplification is above 0")
    mid = waf.mid / rated.mid
    up = math.hypot(math.log(waf.high / waf.mid), math.log(rated.mid / rated.low))
    down = math.hypot(math.log(waf.mid / waf.low), math.log(rated.high / rated.mid))
    origin = (
        waf.origin
        if waf.origin == rated.origin
        else f"amplification {waf.origin}, that of the rating {rated.origin}"
    )
    return Figure(low=mid / math.exp(down), mid=mid, high=mid * math.exp(up), origin=origin)


def endurance_of(drive: Drive, drive_bytes: float, origin: str) -> Figure | None:
    """Return what a data sheet lets a drive be written (bytes); None where it does not say."""
    if drive.tbw_tb:
        value = drive.tbw_tb * TB
        return Figure(low=value, mid=value, high=value, origin=origin)
    if drive.dwpd_low and drive.dwpd_high and drive_bytes:
        low, high = (rated_bytes(e, drive_bytes) for e in (drive.dwpd_low, drive.dwpd_high))
        return Figure(low=low, mid=(low * high) ** 0.5, high=high, origin=origin)
    return None
