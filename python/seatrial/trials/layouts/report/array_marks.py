"""What happened to an array during a sample, as marks and readings of its timeline over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.report.figures.model import TimelineMark
from seatrial.results.model import ArrayEvent, Sample
from seatrial.stats.facts import format_number
from seatrial.stats.wording import format_duration_s
from seatrial.trials.layouts.analysis.phases import Span, spans_within

EVENT_WORDS: Final = {
    "failed": "drive failed",
    "bad_sectors": "sectors went bad",
    "rotten": "data rotted",
    "faltering": "drive falters",
    "dropping_writes": "drive drops writes",
    "replaced": "drive replaced",
    "rebuild_started": "rebuild began",
    "rebuild_ended": "rebuild ended",
    "scrub_started": "scrub began",
    "scrub_ended": "scrub ended",
    "array_failed": "array failed",
    "fault_failed": "could not be done",
}
"""What the kinds of events are called."""

PHASE_NAMES: Final = {
    "before": "before",
    "degraded": "without the drive",
    "rebuild": "while rebuilding",
    "scrub": "while checking",
    "after": "after",
}
"""What the phases of a failure are called."""

ARRAY_COLUMNS: Final = (
    ("Rebuilt", "share", "rebuild_share"),
    ("Drives missing", "drives", "missing_members"),
)
"""Title, unit and column of what is read of an array over a sample."""


def array_marks(sample: Sample) -> list[TimelineMark]:
    """Return what happened to the array, in order of time; nothing of what was no array."""
    events = sample.layout.events if sample.layout else []
    return [
        TimelineMark(round(event.at_s, 3), round(event.at_s, 3), "event", event_text(event))
        for event in events
    ]


def event_text(event: ArrayEvent) -> str:
    """Return an event as a phrase: ``drive failed at 20 s: /dev/loop3 of leg 2``."""
    what = EVENT_WORDS.get(event.what, event.what.replace("_", " "))
    leg = f" of leg {event.leg}" if event.leg and event.member else ""
    reported = ", ".join(filter(None, [f"{event.member}{leg}", event.detail]))
    at = f"{what} at {_at(event.at_s)}"
    return f"{at}: {reported}" if reported else at


def dips_of(sample: Sample) -> list[TimelineMark]:
    """Return the phases in which a drive was missing or was rebuilt, or all was checked."""
    return [
        TimelineMark(round(span.from_s, 3), round(span.to_s, 3), "dip", _span_text(span))
        for span in spans_within(sample)
        if span.phase not in ("before", "after")
    ]


def _span_text(span: Span) -> str:
    length = format_duration_s(span.length_s)
    return f"{PHASE_NAMES[span.phase]} for {length} from {_at(span.from_s)}"


def _at(at_s: float) -> str:
    return f"{format_number(round(at_s, 2))} s"


def happened_after(sample: Sample) -> Sequence[ArrayEvent]:
    """Return the events that came after the sample's end, which its chart does not reach."""
    events = sample.layout.events if sample.layout else []
    return [event for event in events if event.at_s > sample.duration_s]
