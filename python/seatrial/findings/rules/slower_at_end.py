"""Finding ``slower_at_end``: the rate decreases over the address range."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import Annotated

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.fingerprint import Fingerprint
from seatrial.published import HIDDEN
from seatrial.stats.cell_estimates import counted, estimate_of_rounds, paired_ratio
from seatrial.stats.model import CellSummary, Estimate, Figures, Finding, FindingText
from seatrial.stats.running import running_per_s
from seatrial.stats.wording import format_estimate, format_interval, format_share

ZONES_MIN = 4
RATIO_MAX = 0.9
RATIO_MAX_ONCE = 0.8
DISK_RATIOS = (0.35, 0.8)
"""Usual end-to-start ratio of a hard disk: outer tracks are about twice as long as inner ones."""


@from_samples(rank=490, section="Time")
def slower_at_end(context: Context) -> list[Finding]:
    """Find address maps whose rate decreases significantly, by more than 10 % over the zones.

    Means:
        The rate decreases from the start to the end of the address range.

    Decided:
        A straight line through the logarithms of all zones' rates (at least 4 zones) gives the
        ratio of end to start for each round, so one slow zone does not count as a slow end; the
        interval is over the rounds. Found if the interval ends below 0.9; with a single round, if
        the ratio is below 0.8. On a hard disk (not a virtual disk, which may report itself as
        rotational) a ratio of 0.35 to 0.8 is normal: note. Otherwise warning.

    Do:
        On a hard disk, place the log and hot tables at the start. Otherwise fill the whole range
        and map it again: zones are measured in random order, so a slope that persists depends on
        the address, not on time.
    """
    maps: dict[tuple[object, ...], list[CellSummary]] = defaultdict(list)
    for summary in context.cells:
        if summary.cell.kind == "map" and "zone" in summary.cell.factors:
            rest = {k: v for k, v in summary.cell.identity().items() if k != "zone"}
            maps[tuple(sorted(rest.items()))].append(summary)
    found = [_of_map(context, zones) for zones in maps.values() if len(zones) >= ZONES_MIN]
    return [finding for finding in found if finding]


class SlowerAtEndFigures(Figures, frozen=True, kw_only=True, tag="slower_at_end"):
    trend_ratio: float
    trend_ratio_low: float | None
    trend_ratio_high: float | None
    last_over_first_zone_ratio: float | None
    start_bytes_per_s: float
    end_bytes_per_s: float
    zones_count: int
    hard_disk_shape: bool
    start_cell_operation: Annotated[str, HIDDEN]
    trend: Annotated[Estimate, HIDDEN]
    end_bandwidth: Annotated[Estimate, HIDDEN]
    start_bandwidth: Annotated[Estimate, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{self.start_cell_operation.capitalize()}s at the end of the address range reach "
                f"{format_share(self.trend_ratio)} of the rate at its start "
                f"({_interval_phrase(self.trend)}, trend over {self.zones_count} zones): "
                f"{format_estimate(self.end_bandwidth)}, compared with "
                f"{format_estimate(self.start_bandwidth)}."
            ),
            cause=_DISK_CAUSE if self.hard_disk_shape else _OTHER_CAUSE,
            next=_DISK_NEXT if self.hard_disk_shape else _OTHER_NEXT,
        )


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
    figures = SlowerAtEndFigures(
        trend_ratio=trend.value,
        trend_ratio_low=trend.low,
        trend_ratio_high=trend.high,
        last_over_first_zone_ratio=edges.value if edges else None,
        start_bytes_per_s=start.bandwidth.value,
        end_bytes_per_s=end.bandwidth.value,
        zones_count=len(zones),
        hard_disk_shape=disk_like,
        start_cell_operation=start.cell.operation,
        trend=trend,
        end_bandwidth=end.bandwidth,
        start_bandwidth=start.bandwidth,
    )
    return Finding(
        severity="note" if disk_like else "warning", cells=identities([start, end]), figures=figures
    )


def trend_over_zones(zones: list[CellSummary]) -> Estimate | None:
    """Return the ratio of end rate to start rate by a straight line through all zones.

    The line is fitted by least squares to the logarithms of each round's rates, so that one
    slow zone is not mistaken for a slow end; the interval is over the rounds. None if no round
    measured every zone.
    """
    by_zone = [{s.round: running_per_s(s) for s in counted(zone.samples)} for zone in zones]
    rounds = set.intersection(*(set(rates) for rates in by_zone))
    positions = [index / (len(zones) - 1) for index in range(len(zones))]
    ratios = []
    for one in sorted(rounds):
        rates = [zone[one] for zone in by_zone]
        if min(rates) > 0:
            line = statistics.linear_regression(positions, [math.log(rate) for rate in rates])
            ratios.append(math.exp(line.slope))
    return estimate_of_rounds(ratios, "ratio") if ratios else None


def _falls(trend: Estimate) -> bool:
    if trend.high is None:
        return trend.value < RATIO_MAX_ONCE
    return trend.high < RATIO_MAX


def _has_disk(fingerprint: Fingerprint) -> bool:
    """Return whether the target is on a hard disk; virtual disks may claim to be rotational."""
    return any(device.rotational and device.kind == "disk" for device in fingerprint.stack)


def _interval_phrase(trend: Estimate) -> str:
    if trend.low is None or trend.high is None:
        return format_interval(trend)
    return f"{format_share(trend.low)} to {format_share(trend.high)}"


_DISK_CAUSE = (
    "Normal for a hard disk: outer tracks, where the addresses begin, hold about twice as much "
    "data as inner ones and pass the head in the same time."
)
_OTHER_CAUSE = (
    "Not typical of a single hard disk. On flash: part of the range was never written or was "
    "trimmed, an SLC cache was exhausted, or temperature and garbage collection increased during "
    "the map. On an array: members of different speed, or a concatenation."
)
_DISK_NEXT = "Place the log and hot tables in a partition at the start of the disk."
_OTHER_NEXT = (
    "Fill the whole range first and repeat the map. Zones are measured in random order, so a slope "
    "that persists depends on the address, not on time."
)
