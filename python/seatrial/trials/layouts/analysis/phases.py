"""The phases of a sample in which something was broken, from what happened in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from seatrial.results.model import ArrayEvent, Sample
from seatrial.trials.layouts.analysis.model import PhaseName

FAULTS: Final = (
    *("failed", "bad_sectors", "rotten", "faltering", "dropping_writes"),
    *("replaced", "scrub_started", "fault_failed"),
)
"""Events that somebody caused."""


@dataclass(frozen=True)
class Span:
    """A stretch of one phase.

    Attributes:
        phase: Which.
        from_s: From the sample's start.
        to_s: Its end; of the last one the sample's end, or that of the last reading after it.
        missing: Drives that the leg lacks which lacks most.
    """

    phase: PhaseName
    from_s: float
    to_s: float
    missing: int = 0

    @property
    def length_s(self) -> float:
        """Its length in seconds."""
        return self.to_s - self.from_s


@dataclass
class ArrayTimeline:
    """The state of an array as event follows event."""

    missing: Counter[int] = field(default_factory=Counter)
    rebuilding: set[int] = field(default_factory=set)
    scrubbing: set[int] = field(default_factory=set)

    def take(self, event: ArrayEvent, *, rebuilds_again: bool) -> None:
        """Take in what happened.

        Args:
            event: It.
            rebuilds_again: Whether the same leg starts another rebuild later: then the end of this
                one brought back one drive, else all; where the array was not asked how many.
        """
        leg = event.leg
        if event.what == "failed":
            self.missing[leg] += 1
        elif event.what == "rebuild_started":
            self.rebuilding.add(leg)
        elif event.what == "rebuild_ended":
            self.rebuilding.discard(leg)
            guessed = max(0, self.missing[leg] - 1) if rebuilds_again else 0
            self.missing[leg] = guessed if event.missing is None else event.missing
        elif event.what == "scrub_started":
            self.scrubbing.add(leg)
        elif event.what == "scrub_ended":
            self.scrubbing.discard(leg)

    @property
    def missing_max(self) -> int:
        """Drives that are missing in the leg that misses most."""
        return max(self.missing.values(), default=0)

    @property
    def phase(self) -> PhaseName:
        """What phase this is, once anything has happened."""
        if self.rebuilding:
            return "rebuild"
        if self.missing_max:
            return "degraded"
        return "scrub" if self.scrubbing else "after"


def spans_of(sample: Sample) -> list[Span]:
    """Return the phases of a sample in order of time; what happened after its end is one more."""
    spans: list[Span] = []
    phase: PhaseName = "before"
    from_s, missing = 0.0, 0
    for at_s, timeline in _timelines(sample):
        if at_s > from_s:
            spans.append(Span(phase, from_s, at_s, missing))
        phase, from_s, missing = timeline.phase, max(from_s, at_s), timeline.missing_max
    end_s = last_seen_s(sample)
    return [*spans, Span(phase, from_s, end_s, missing)] if end_s > from_s else spans


def spans_within(sample: Sample) -> list[Span]:
    """Return the phases of a sample as long as its load lasted."""
    end_s = sample.duration_s
    return [
        Span(span.phase, span.from_s, min(span.to_s, end_s), span.missing)
        for span in spans_of(sample)
        if span.from_s < end_s
    ]


def missing_max(sample: Sample) -> int:
    """Return how many drives one leg missed at most."""
    return max((timeline.missing_max for _, timeline in _timelines(sample)), default=0)


def missing_at_end(sample: Sample) -> int:
    """Return how many drives one leg missed still when the array was last looked at."""
    *_, (_, timeline) = [(0.0, ArrayTimeline()), *_timelines(sample)]
    return timeline.missing_max


def last_seen_s(sample: Sample) -> float:
    """Return until when the array was looked at, from the sample's start."""
    record, series = sample.layout, sample.series
    events = record.events if record else []
    read_s = series.period_s * _readings(sample) if series else 0.0
    return max(sample.duration_s, read_s, *(event.at_s for event in events), 0.0)


def _readings(sample: Sample) -> int:
    """Return how many readings tell of the array."""
    columns = sample.series.columns if sample.series else {}
    return len(columns.get("missing_members", []))


def _timelines(sample: Sample) -> Iterator[tuple[float, ArrayTimeline]]:
    """Yield the time of each event, and the state of the array from then on."""
    events = sample.layout.events if sample.layout else []
    timeline = ArrayTimeline()
    for place, event in enumerate(events):
        again = any(
            later.what == "rebuild_started" and later.leg == event.leg
            for later in events[place + 1 :]
        )
        timeline.take(event, rebuilds_again=again)
        yield event.at_s, timeline
