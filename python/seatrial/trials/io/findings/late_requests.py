"""Finding ``late_requests``: under a schedule, requests started late or not at all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from seatrial._core import Histogram
from seatrial.findings.context import (
    AffectedCells,
    Context,
    identities,
    response_times,
    service_times,
)
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.wording import (
    format_cell,
    format_duration_ns,
    format_iops,
    format_plural,
    format_share,
)
from seatrial.study.cell import Cell
from seatrial.study.spec import SpecStream
from seatrial.topic import topic_of
from seatrial.units import NS_PER_S

RESPONSE_FACTOR = 2.0
RESPONSE_EXTRA_NS = 1_000_000
CRITICAL_SHARE = 0.01
BUSY_SHARE_MIN = 0.7
"""Share of the slots for requests in flight, by Little's law, from which they may be too few."""
EXPLAINED_SHARE_MIN = 0.5
"""Share of the late requests that a cause explains, from which it counts as the cause."""
BATCH_P99 = math.log(100)
"""The place of the p99 of requests in their batch, over the mean size of batches (geometric)."""


@dataclass(frozen=True)
class Lateness:
    """Lateness of the requests of one cell, over all its rounds."""

    cell: Cell
    rate_per_s: float | None
    offered: int
    skipped: int
    response: Histogram
    service_ns: int
    service_ns_mean: float
    """For each request that is due, with its sync."""
    busy_share: float
    """Share of all slots in use, by Little's law, and of the time in which the target stalled."""
    stopped_share: float
    """Share of the time in which the load generator did not run."""

    @property
    def skipped_share(self) -> float:
        """Share of the offered requests that were skipped as too late."""
        return self.skipped / self.offered if self.offered else 0.0

    @property
    def response_ns(self) -> int:
        """The response p99."""
        return self.response.percentile_ns(99)

    @property
    def far_ns(self) -> float:
        """A response time far above the service p99.

        Requests of a burst that is larger than the slots have to wait for each other.
        """
        in_turn_ns = max(_in_turn_ns(load, self.service_ns) for load in self._loads)
        return max(RESPONSE_FACTOR * self.service_ns, in_turn_ns + RESPONSE_EXTRA_NS)

    @property
    def queued(self) -> bool:
        """Whether the response p99 is far above the service p99: requests queued before start."""
        return self.response_ns > self.far_ns

    @property
    def late_share(self) -> float:
        """Share of the offered requests that were skipped or started far too late."""
        far_ns, (lows_ns, _, counts) = self.far_ns, self.response.buckets()
        late = sum(n for low_ns, n in zip(lows_ns, counts, strict=True) if low_ns > far_ns)
        return (self.skipped + late) / self.offered if self.offered else 0.0

    @property
    def of_generator(self) -> str:
        """Why the load generator was late, not the target; empty if it was not.

        A target delays the start of a request only while all slots of its thread are in use. If
        requests are due evenly, the share of the late ones is that of this time, at most.
        """
        explained_share = EXPLAINED_SHARE_MIN * self.late_share
        if self.stopped_share > explained_share:
            return f"it did not run for {format_share(self.stopped_share)} of the time"
        is_even = self.cell.parsed.arrival.kind in ("fixed", "poisson")
        if is_even and self.busy_share < explained_share:
            return (
                f"{format_share(self.late_share)} of the requests started late, and only "
                f"{format_share(self.busy_share)} of the queue depth was in use"
            )
        return ""

    @property
    def _loads(self) -> list[SpecStream]:
        """The streams; the whole cell where it has none."""
        spec = self.cell.parsed
        whole = SpecStream(threads=self.cell.threads, depth=self.cell.depth, arrival=spec.arrival)
        return spec.streams or [whole]

    @property
    def busiest(self) -> SpecStream:
        """The load with the highest rate for each slot."""
        return max(self._loads, key=lambda load: (load.arrival.rate_per_s or 0.0) / load.slots)

    @property
    def capacity_per_s(self) -> float:
        """The rate at which its slots complete requests at the measured service times."""
        slots = self.busiest.slots
        return slots * NS_PER_S / self.service_ns_mean if self.service_ns_mean else math.inf

    @property
    def lacks_slots(self) -> bool:
        """Whether the rate needs nearly all requests in flight that the load may have, or more."""
        rate_per_s = self.busiest.arrival.rate_per_s or 0.0
        return rate_per_s > BUSY_SHARE_MIN * self.capacity_per_s


def _in_turn_ns(load: SpecStream, service_ns: int) -> float:
    """Return for how long the requests of a burst follow each other in their slots."""
    arrival, burst = load.arrival, load.arrival.burst or 1
    if arrival.kind == "bursts":
        return math.ceil(burst / load.slots) * service_ns
    if arrival.kind == "batches":  # of one thread
        return math.ceil(BATCH_P99 * burst / load.depth) * service_ns
    longest_ns = float(service_ns)
    for drawn in arrival.bursts:  # of one thread, too
        queued_ns = 0.0
        for group in drawn.groups:
            work_ns = math.ceil(group.requests / load.depth) * service_ns
            arriving_ns = (group.requests - 1) * group.spacing_s * NS_PER_S
            queued_ns = max(0.0, queued_ns + work_ns - arriving_ns)
            longest_ns = max(longest_ns, queued_ns)
            queued_ns = max(0.0, queued_ns - group.pause_s * NS_PER_S)
    return longest_ns


class LateRequestsFigures(Figures, frozen=True, kw_only=True, tag="late_requests"):
    cells_count: int
    offered_count: int
    late_skipped_count: int
    late_skipped_share_max: float
    response_p99_ns: int
    service_p99_ns: int
    rate_per_s: float | None
    concerned: Annotated[AffectedCells, HIDDEN]
    worst: Annotated[Lateness, HIDDEN]

    def text(self) -> FindingText:
        worst = self.worst
        sentence = f"{_opening(self.concerned, worst)}: {_reported(worst)}."
        if worst.of_generator:
            return FindingText(
                sentence=sentence,
                cause="The load generator or its CPU time was the bottleneck, not the target: "
                f"{worst.of_generator}",
                next="Remove what stopped it (see its stalls), stop other processes or use more "
                "CPUs, and repeat; the target may sustain this rate",
            )
        if worst.lacks_slots:
            busiest = worst.busiest
            threads = format_plural(busiest.threads, "thread")
            which, depth = threads, "--depth"
            if worst.cell.parsed.streams:
                which, depth = f"A stream's {threads}", "the depth of the stream"
            return FindingText(
                sentence=sentence,
                cause=f"{which} at depth {busiest.depth} complete "
                f"{format_iops(worst.capacity_per_s)} requests/s at the measured service time, "
                f"for {format_iops(busiest.arrival.rate_per_s or 0.0)} requests/s that were due: "
                "either these are too few requests in flight, or the target is at its limit",
                next=f"Raise {depth}: if the rate is then kept, the target was not the limit. If "
                "not, lower the rate until both percentiles agree: that is the rate the target "
                "sustains",
            )
        return FindingText(
            sentence=sentence,
            cause=(
                "The target could not keep up with the schedule, throughout or after a stall. A "
                "user of the database would wait for the time from the intended start."
            ),
            next=(
                "Check the timeline for a stall. If there is none, lower the rate until both "
                "percentiles agree: that is the rate the target sustains."
            ),
        )

    def in_short(self, cells_count: int) -> str:
        tests = format_plural(cells_count, "test")
        return f"{_subject(self.worst)} in {tests}"


@from_samples(rank=230, section="Time", doubt="the schedule was not kept")
def late_requests(context: Context) -> list[Finding]:
    """Find scheduled cells whose requests were skipped or started late.

    Means:
        Under a schedule (`fixed`, `poisson`, `bursts`) requests started late or were skipped as
        too late. The user of a database waits for the response time, from the intended start.

    Decided:
        Load lines are exempt, since they search for a rate that is too high, and so is the null
        target, which is the load generator alone. Any skipped request, or a response p99 above
        twice the service p99 and at least 1 ms above it; of bursts that are larger than threads
        times depth, 1 ms above the time in which they follow each other. Critical if more than 1 %
        were skipped, otherwise warning. The load generator is to blame, not the target, if it did
        not run for more than half of the share of late requests, or, with `fixed` and `poisson`, if
        the share of slots in use is below half of that.

    Do:
        If the rate (also that of one of several streams) times the mean service time is above 70 %
        of its threads times depth, raise the depth. If the load generator was the bottleneck (it
        did not run, or few requests were in flight), stop other processes and repeat. Otherwise
        check for a stall. If there is none, lower the rate until both percentiles agree.
    """
    scheduled = [
        _lateness(summary)
        for summary in context.cells
        # A load line searches for a rate that is too high and has its own finding.
        if topic_of(summary.cell).in_rounds and summary.cell.parsed.is_scheduled
        if not any(sample.engine == "null" for sample in summary.samples)  # no target to blame
    ]
    late = [one for one in scheduled if one.skipped or one.queued]
    if not late:
        return []
    worst = max(late, key=lambda one: (one.skipped_share, one.response_ns))
    keys = {one.cell.key for one in late}
    concerned = [summary for summary in context.cells if summary.cell.key in keys]
    return [
        Finding(
            severity="critical" if worst.skipped_share > CRITICAL_SHARE else "warning",
            cells=identities(concerned),
            figures=LateRequestsFigures(
                cells_count=len(late),
                offered_count=sum(one.offered for one in late),
                late_skipped_count=sum(one.skipped for one in late),
                late_skipped_share_max=worst.skipped_share,
                response_p99_ns=worst.response_ns,
                service_p99_ns=worst.service_ns,
                rate_per_s=worst.rate_per_s,
                concerned=context.affected_cells(concerned),
                worst=worst,
            ),
        )
    ]


def _lateness(summary: CellSummary) -> Lateness:
    service = service_times(summary.samples)
    # Syncs are not due by the schedule, but use the slots.
    own = [sample.outcome.completed - sample.completed_syncs for sample in summary.samples]
    stalls = [stall for sample in summary.samples for stall in sample.stalls]
    stopped_s = sum(stall.length_s for stall in stalls if stall.is_of_generator)
    others_s = sum(stall.length_s for stall in stalls) - stopped_s
    duration_s = sum(sample.duration_s for sample in summary.samples) or math.inf
    in_flight_s = service.mean_ns * service.count / NS_PER_S
    slots = summary.cell.threads * summary.cell.depth
    return Lateness(
        cell=summary.cell,
        rate_per_s=summary.cell.parsed.arrival.rate_per_s,
        offered=sum(sample.offered_requests for sample in summary.samples),
        skipped=sum(sample.outcome.late_skipped for sample in summary.samples),
        response=response_times(summary.samples),
        service_ns=service.percentile_ns(99),
        service_ns_mean=service.mean_ns * service.count / max(1, sum(own)),
        busy_share=(in_flight_s / slots + others_s) / duration_s,
        stopped_share=stopped_s / duration_s,
    )


def _opening(concerned: AffectedCells, worst: Lateness) -> str:
    subject = _subject(worst)
    opening = f"{subject[0].upper()}{subject[1:]} in {concerned}"
    if concerned.count == 1:
        return opening
    return f"{opening}; worst ({format_cell(worst.cell)})"


def _subject(worst: Lateness) -> str:
    if worst.of_generator:
        return "the load generator did not keep the schedule"
    if worst.lacks_slots:
        return "the schedule was not kept"
    return "the target could not keep up with the schedule"


def _reported(one: Lateness) -> str:
    texts = []
    if one.skipped:
        texts.append(f"{format_share(one.skipped_share)} of the requests were skipped as too late")
    if one.queued:
        texts.append(
            f"p99 was {format_duration_ns(one.response_ns)} from the intended start and "
            f"{format_duration_ns(one.service_ns)} from the actual start"
        )
    return ", ".join(texts)
