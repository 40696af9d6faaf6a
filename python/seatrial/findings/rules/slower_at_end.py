"""Finding ``slower_at_end``: the rate falls over the address range."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import Any

from seatrial.findings.context import Context, entries, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.estimates import counted, estimate_of_rounds, paired_ratio
from seatrial.stats.model import CellSummary, Estimate, Finding
from seatrial.stats.running import running_per_s
from seatrial.stats.wording import format_estimate, format_interval, format_share

ZONES_MIN = 4
RATIO_MAX = 0.9
RATIO_MAX_ONCE = 0.8
DISK_RATIOS = (0.35, 0.8)
"""End over start of a hard disk's rate: outer tracks are about twice as long as inner ones."""


@from_samples(rank=490, section="Time")
def slower_at_end(context: Context) -> list[Finding]:
    """Find address maps whose trend over the zones falls by surely more than a tenth.

    Means:
        The address map falls from start to end.

    Decided:
        A straight line through the logarithms of all zones' rates (at least 4 zones) gives the end
        over the start for each round, so one slow zone is no slow end; the interval is over the
        rounds. Found when the interval ends below 0.9; measured once, when the ratio is below 0.8.
        On a rotating disk (not a virtual one, which may call itself so) a ratio of 0.35 to 0.8 is
        its usual shape: note. Else warning.

    Do:
        On a disk, keep the log and hot tables at its start. Elsewhere, fill the whole range and map
        again: zones are measured in random order, so a slope that stays belongs to the addresses.
    """
    maps: dict[tuple[object, ...], list[CellSummary]] = defaultdict(list)
    for summary in context.cells:
        if summary.cell.kind == "map" and "zone" in summary.cell.factors:
            rest = {k: v for k, v in summary.cell.identity().items() if k != "zone"}
            maps[tuple(sorted(rest.items()))].append(summary)
    found = [_of_map(context, zones) for zones in maps.values() if len(zones) >= ZONES_MIN]
    return [finding for finding in found if finding]


def _of_map(context: Context, zones: list[CellSummary]) -> Finding | None:
    zones = sorted(zones, key=lambda summary: float(summary.cell.factors["zone"]))
    trend = trend_over_zones(zones)
    if trend is None or not _falls(trend):
        return None
    start, end = zones[0], zones[-1]
    edges = paired_ratio(end.samples, start.samples, running_per_s)
    disk_like = (
        _has_disk(context.before_of(start)) and DISK_RATIOS[0] <= trend.value <= DISK_RATIOS[1]
    )
    return Finding(
        kind="slower_at_end",
        severity="note" if disk_like else "warning",
        cells=identities([start, end]),
        sentence=(
            f"The end of the address range does {format_share(trend.value)} of the "
            f"{start.cell.operation}s that its start does ({_doubt(trend)}, trend over "
            f"{len(zones)} zones): {format_estimate(end.bandwidth)} after "
            f"{format_estimate(start.bandwidth)}."
        ),
        cause=_DISK_CAUSE if disk_like else _OTHER_CAUSE,
        evidence={
            "trend_ratio": trend.value,
            "trend_ratio_low": trend.low,
            "trend_ratio_high": trend.high,
            "last_over_first_zone_ratio": edges.value if edges else None,
            "start_bytes_per_s": start.bandwidth.value,
            "end_bytes_per_s": end.bandwidth.value,
            "zones_count": len(zones),
            "hard_disk_shape": disk_like,
        },
        next=_DISK_NEXT if disk_like else _OTHER_NEXT,
    )


def trend_over_zones(zones: list[CellSummary]) -> Estimate | None:
    """Return the rate at the end over that at the start by a straight line through all zones.

    The line is fitted by least squares to the logarithms of each round's rates, so that one
    slow zone is not mistaken for a slow end; the interval is over the rounds. None when no round
    measured every zone.
    """
    by_zone = [{s.round: running_per_s(s) for s in counted(zone.samples)} for zone in zones]
    rounds = set.intersection(*(set(rates) for rates in by_zone))
    places = [index / (len(zones) - 1) for index in range(len(zones))]
    ratios = []
    for one in sorted(rounds):
        rates = [zone[one] for zone in by_zone]
        if min(rates) > 0:
            line = statistics.linear_regression(places, [math.log(rate) for rate in rates])
            ratios.append(math.exp(line.slope))
    return estimate_of_rounds(ratios, "ratio") if ratios else None


def _falls(trend: Estimate) -> bool:
    if trend.high is None:
        return trend.value < RATIO_MAX_ONCE
    return trend.high < RATIO_MAX


def _has_disk(fingerprint: dict[str, Any]) -> bool:
    """Tell whether a hard disk lies below; virtual disks call themselves rotational at will."""
    stack = entries(fingerprint, "target", "stack")
    return any(device.get("rotational") and device.get("kind") == "disk" for device in stack)


def _doubt(trend: Estimate) -> str:
    if trend.low is None or trend.high is None:
        return format_interval(trend)
    return f"{format_share(trend.low)} to {format_share(trend.high)}"


_DISK_CAUSE = (
    "A hard disk of the usual shape: outer tracks, where the addresses begin, hold about twice as "
    "much as inner ones and pass the head in the same time."
)
_OTHER_CAUSE = (
    "Not the shape of a single hard disk. On flash: part of the range was never written or was "
    "trimmed, a fast region (SLC cache) ended, or heat and garbage collection grew during the map. "
    "On an array: members of different speed or a concatenation."
)
_DISK_NEXT = "Keep what must be fast (log, hot tables) in a partition at the start of the disk."
_OTHER_NEXT = (
    "Fill the whole range first and repeat the map; the zones are measured in random order, so a "
    "slope that stays belongs to the addresses, not to the time."
)
