"""Finding ``slow_device``: gaps without a completion that are normal for a slow device."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import (
    MEDIAN_FACTOR,
    AffectedCells,
    Context,
    gaps_of,
    identities,
)
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_duration_s, format_plural
from seatrial.topic import topic_of


class SlowDeviceFigures(Figures, frozen=True, kw_only=True, tag="slow_device"):
    median_latency_s_min: float
    median_latency_s_max: float
    gaps_count: int
    longest_gap_s: float
    stall_median_factor: float
    concerned: Annotated[AffectedCells, HIDDEN]

    def text(self) -> FindingText:
        low, high = (
            format_duration_s(self.median_latency_s_min),
            format_duration_s(self.median_latency_s_max),
        )
        median = low if low == high else f"{low} to {high}"
        return FindingText(
            sentence=(
                f"Median latency was {median} in {self.concerned}; intervals of up to "
                f"{format_duration_s(self.longest_gap_s)} without a completion are normal at this "
                "speed, not stalls."
            ),
            cause=(
                "The device is slow for this block size and number of threads: a hard disk, or a "
                "network or throttled volume with a long queue of large requests."
            ),
            next=(
                "Judge these tests by their latency, not by stalls. If the device should be "
                "faster, compare with fewer threads and look for a throttle with 'seatrial check'."
            ),
        )

    def in_short(self, cells_count: int) -> str:
        return f"the device was slow in {format_plural(cells_count, 'test')}"


@from_samples(rank=510, section="Time", holds_in_lab=False)
def slow_device(context: Context) -> list[Finding]:
    """Find cells whose longest gaps are at most four times their median latency.

    Means:
        There were gaps without a completion, but they are normal at the device's speed: forty
        threads with 4 MiB requests on a hard disk wait for each other.

    Decided:
        Gaps above the stall threshold and at most 4 times the median service time. Not in tests of
        a server: its statements may be long for other reasons, which `database_bound` names.
        Warning.

    Do:
        Judge these tests by their latency. If the device should be faster, compare with fewer
        threads and look for a throttle with `seatrial check`.
    """
    concerned, medians_s, longest_s, gaps_count = [], [], 0.0, 0
    for summary in context.cells:
        _, usual, median_s = gaps_of(summary)
        if usual and not topic_of(summary.cell).has_server:
            concerned.append(summary)
            medians_s.append(median_s)
            gaps_count += len(usual)
            longest_s = max(longest_s, *(one.stall.length_s for one in usual))
    if not concerned:
        return []
    figures = SlowDeviceFigures(
        median_latency_s_min=min(medians_s),
        median_latency_s_max=max(medians_s),
        gaps_count=gaps_count,
        longest_gap_s=longest_s,
        stall_median_factor=MEDIAN_FACTOR,
        concerned=context.affected_cells(concerned),
    )
    return [Finding(severity="warning", cells=identities(concerned), figures=figures)]
