"""What goes into a comparison: each side as units, each unit as sums by query. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from seatrial.trials.replay.compare.model import CallFigures, Clock, Kind, ServerWork


class Named(msgspec.Struct, frozen=True):
    """What a query or page is called.

    Attributes:
        text: The query without its values, or the page's pattern.
        kind: Class of statement, such as ``select``, or ``page``.
    """

    text: str
    kind: str


class CallTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """How a capture went: sums of each query by equal slices of its time.

    Attributes:
        slice_s: Length of a slice.
        slices: How many there are.
        calls: By key, then by slice, of those slices that have any.
        total_s: Time of these calls, likewise.
    """

    slice_s: float
    slices: int
    calls: Mapping[str, Mapping[int, float]]
    total_s: Mapping[str, Mapping[int, float]]


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """One round, or one capture.

    Attributes:
        number: The round's number; 0 of a capture.
        measured: Of each query or page, by key.
        begin_s: When it began, in Unix time; None where that is not known.
        covered_s: The time that it covers; None where that is not known.
        timeline: What is known within it; None for nothing.
    """

    number: int
    measured: Mapping[str, CallFigures]
    begin_s: float | None = None
    covered_s: float | None = None
    timeline: CallTimeline | None = None


class Entrant(msgspec.Struct, frozen=True, kw_only=True):
    """One side with what was measured of it.

    Attributes:
        name: What the user calls it.
        kind: What it is made of.
        clock: Who took its times.
        units: Rounds or captures, at least one.
        named: Of each key in any unit, what it is called.
        detail: What else a reader should know, as a phrase.
        server: What the server did for each query, where that is known.
        plans: Shapes of each query's plans by their hashes, where they are known: several where
            rounds differ.
        warnings: What weakens it, as sentences.
    """

    name: str
    kind: Kind
    clock: Clock
    units: Sequence[Unit]
    named: Mapping[str, Named]
    detail: str = ""
    server: Mapping[str, ServerWork] = {}
    plans: Mapping[str, Mapping[str, str]] = {}
    warnings: Sequence[str] = ()
