"""Warnings on a comparison of before and after, as sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from seatrial.stats.wording import format_count, format_duration_s, format_plural, format_share
from seatrial.trials.replay.compare.model import MeasuredSide, Side, Table

COMMON_SHARE_MIN = 0.95
CALLS_RATIO_MAX = 1.5
ERRORS_SHARE_MAX = 0.01

Subject = Literal["query", "page"]

NOUNS: Final[dict[Subject, tuple[str, str]]] = {
    "query": ("query", "queries"),
    "page": ("page", "pages"),
}


def noun_of(side: Side) -> Subject:
    """Return the noun for the rows of a side: ``query`` or ``page``."""
    return "page" if side.kind == "web" else "query"


def nouns_of(side: Side) -> str:
    """Return the same of several: ``queries`` or ``pages``."""
    return NOUNS[noun_of(side)][1]


def warnings_of(
    table: Table, sides: tuple[MeasuredSide, MeasuredSide], left_out: Sequence[str]
) -> list[str]:
    """Return the warnings on a table, the most severe first.

    Args:
        table: The comparison.
        sides: Before and after.
        left_out: Rounds, or an A/A control, that were left out, as sentences.
    """
    before, after = sides
    return [
        *_nothing_in_common(table),
        *left_out,
        *_basis(table),
        *_offset(table),
        *_not_averaged(table),
        *_one_sided(table),
        *_traffic(table, sides),
        *_errors(table),
        *before.warnings,
        *after.warnings,
    ]


def _nothing_in_common(table: Table) -> Iterator[str]:
    if not table.changes:
        yield (
            f"{table.before.name} and {table.after.name} have no {noun_of(table.before)} in "
            "common that was timed on both sides."
        )


def _basis(table: Table) -> Iterator[str]:
    before, after = table.before, table.after
    if table.basis == "once":
        which = "Both sides were" if before.units == after.units == 1 else "One side was"
        inside = ""
        if table.overall and table.overall.speed_up.low is not None:
            inside = ", and the intervals cover only the variance within the captures"
        yield (
            f"{which} measured once: there is no significance test{inside}. Other traffic, data or "
            f"neighbours can look like a difference; {_floor_phrase(table)}.{_how_to_settle(table)}"
        )
    elif table.basis == "in_sequence":
        yield (
            f"{before.name} and {after.name} were measured one after the other: drift between them "
            f"can look like a difference; {_floor_phrase(table)}.{_how_to_settle(table)}"
        )


def _floor_phrase(table: Table) -> str:
    floor = table.floor
    factor = math.ceil(100 * (floor.query if floor else 1.0)) / 100
    return f"differences below {factor:g}x are not reported as such"


def _how_to_settle(table: Table) -> str:
    """Return what would settle it; empty for pages, which cannot be replayed."""
    if table.before.kind == "web":
        return ""
    return (
        " Interleaved replays would settle it: seatrial sql replay TRACE --to A --to B --rounds 10."
    )


def _offset(table: Table) -> Iterator[str]:
    if table.offset_s is not None:
        yield (
            f"{format_duration_s(table.offset_s)} was subtracted from each client time, as "
            "requested, to compare it with server times: differences of short queries may be the "
            "error of this offset."
        )


def _one_sided(table: Table) -> Iterator[str]:
    for side, rows, other in (
        (table.before, table.only_before, table.after),
        (table.after, table.only_after, table.before),
    ):
        time_s = math.fsum(each.measured.total_s for each in rows)
        if side.total_s > 0 and time_s > (1 - COMMON_SHARE_MIN) * side.total_s:
            yield (
                f"{format_share(time_s / side.total_s)} of the time of {side.name} was spent in "
                f"{format_plural(len(rows), noun_of(side), nouns_of(side))} that {other.name} "
                "does not have: they are not compared."
            )


def _not_averaged(table: Table) -> Iterator[str]:
    """Yield what is not in the average, with its share of the time of both sides together."""
    noun, nouns = noun_of(table.before), nouns_of(table.before)
    for why, changes in (
        ("did not run in every round", [c for c in table.changes if c.failing is None]),
        *(
            (
                f"had more failures among the timed calls on {side.name}",
                [c for c in table.changes if c.failing == when],
            )
            for when, side in (("before", table.before), ("after", table.after))
        ),
    ):
        without = [change for change in changes if not change.in_average]
        if without:
            time_s, whole_s = (
                math.fsum(each.before.total_s + each.after.total_s for each in of)
                for of in (without, table.changes)
            )
            yield (
                f"{format_plural(len(without), noun, nouns)} with {format_share(time_s / whole_s)} "
                f"of both sides' time {why} and are not in the average."
            )


def _traffic(table: Table, sides: tuple[MeasuredSide, MeasuredSide]) -> Iterator[str]:
    """Yield that one side had a much higher load, which by itself makes queries slower."""
    before, after = table.before, table.after
    if before.kind == "replay" and after.kind == "replay":
        return
    if not before.covered_s or not after.covered_s or min(before.calls, after.calls) <= 0:
        return
    # Only a capture, which is one unit, may have calls without a time.
    calls = [m.units[0].calls or side.calls for m, side in zip(sides, (before, after), strict=True)]
    first_per_s, second_per_s = calls[0] / before.covered_s, calls[1] / after.covered_s
    if 1 / CALLS_RATIO_MAX < second_per_s / first_per_s < CALLS_RATIO_MAX:
        return
    yield (
        f"{after.name} had {second_per_s:,.3g} {nouns_of(after)} per second, {before.name} had "
        f"{first_per_s:,.3g}: load alone changes response times."
    )


def _errors(table: Table) -> Iterator[str]:
    for side, errors in (
        (table.before, math.fsum(change.before.errors for change in table.changes)),
        (table.after, math.fsum(change.after.errors for change in table.changes)),
    ):
        if side.calls and errors > ERRORS_SHARE_MAX * side.calls:
            yield (
                f"{format_count(round(errors))} of {format_count(round(side.calls))} "
                f"{nouns_of(side)} on {side.name} failed: failing early is fast."
            )
