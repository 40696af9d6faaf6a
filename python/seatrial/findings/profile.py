"""Profiles: what storage must do for one kind of use, and whether a run shows that it does.

A profile is a TOML file with a title and ``[[require]]`` tables (docs/profiles.md). Each names a
figure, the limit up to which it is good, the limit up to which it is acceptable, and the source of
both. A grade uses the whole confidence interval: a figure is good only if its worse end is within
the good limit, and poor only if its better end is beyond the acceptable one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, Literal

import msgspec

from seatrial.errors import UsageError
from seatrial.findings.context import addresses_of
from seatrial.findings.profiles import BUILT_IN
from seatrial.findings.thresholds import STALLS, figure_of
from seatrial.stats.cell_estimates import PERCENTS
from seatrial.stats.fastest import Served, fastest
from seatrial.stats.model import CellSummary, Estimate, is_broken
from seatrial.stats.wording import (
    format_cell,
    format_interval,
    format_list,
    format_plural,
    format_size,
    format_value,
)
from seatrial.study.thresholds import LATENCIES, Threshold, parse_threshold
from seatrial.study.units import parse_size_bytes

Grade = Literal["good", "marginal", "poor", "unknown"]
"""``marginal``: between the limits, or the interval reaches across one; ``unknown``: no figure."""

_WORST_FIRST: Final[tuple[Grade, ...]] = ("poor", "unknown", "marginal", "good")
_WORST_OF_ALL: Final = (*STALLS, "errors")
_RATES: Final = ("iops", "bandwidth", "tps")


class Requirement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One figure that a use needs, with its limits.

    Attributes:
        label: What the figure is called.
        operation: Operation of the tests that count; or several ``operations``.
        operations: See ``operation``.
        pattern: ``random`` or ``sequential``; empty for any.
        block_sizes: The first of these that was measured counts; empty for any.
        block_size_min: The smallest block size that counts; empty for any.
        quantity: A quantity of thresholds, such as ``p99_ms`` or ``mb_per_s``.
        good: Comparison and limit, such as ``<= 10``.
        acceptable: The same; beyond it the figure is poor.
        capacity: Unit of the highest rate at which the acceptable limit still holds, where that
            is to be reported; else empty.
        source: Where the limits come from.
    """

    label: str
    operation: str = ""
    operations: list[str] = []
    pattern: Literal["", "random", "sequential"] = ""
    block_sizes: list[str] = []
    block_size_min: str = ""
    quantity: str
    good: str
    acceptable: str
    capacity: str = ""
    source: str

    @property
    def good_limit(self) -> Threshold:
        """The good limit; raises ValueError when it is not written as one."""
        return parse_threshold(f"profile.{self.quantity}", self.good)

    @property
    def acceptable_limit(self) -> Threshold:
        """The acceptable limit; raises ValueError when it is not written as one."""
        return parse_threshold(f"profile.{self.quantity}", self.acceptable)


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one kind of use needs of storage.

    Attributes:
        title: What a verdict calls it.
        description: The use, in one line.
        require: The figures that it needs.
    """

    title: str
    description: str = ""
    require: list[Requirement]


class GradedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one requirement.

    Attributes:
        requirement: The requirement.
        label: What the figure is called, with the block size where the requirement allows several.
        grade: Its grade.
        figure: The figure that was judged, in base units; None where nothing was measured.
        cell: Key of its test; empty where nothing was measured.
        test: The test in words; empty where nothing was measured.
        reason: Figure and limit in words, or why there is no figure.
    """

    requirement: Requirement
    label: str
    grade: Grade
    figure: Estimate | None
    cell: str
    test: str
    reason: str


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """What a profile says of one target.

    Attributes:
        profile: The profile.
        target: Label of the target.
        grade: The worst grade of its figures.
        figures: One for each requirement.
        capacity: Highest measured rate within the acceptable limit, such as
            ``27k commits/s at 40 threads (± 4 %)``;
            empty where none was measured or requested.
    """

    profile: Profile
    target: str
    grade: Grade
    figures: list[GradedFigure]
    capacity: str = ""

    @property
    def missing(self) -> str:
        """The figures without a grade, such as ``commit p99 is missing``; empty if none."""
        labels = [each.label for each in self.figures if each.grade == "unknown"]
        verb = "is" if len(labels) == 1 else "are"
        return f"{format_list(labels)} {verb} missing" if labels else ""


def load_profile(name: str) -> Profile:
    """Return a shipped profile by name, or that of a file.

    Raises:
        UsageError: when there is no such profile or file, or the file is not a profile.
    """
    if name in BUILT_IN:
        return _built_in(name)
    path = Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise UsageError(
            seen=f"There is no profile {name!r}, and no such file can be read: {reason}",
            cause=f"Shipped profiles are {', '.join(BUILT_IN)}",
            next_step="Name one of these, or a TOML file as docs/profiles.md describes it",
        ) from error
    return _parsed(text, name)


@cache
def _built_in(name: str) -> Profile:
    file = resources.files("seatrial.findings").joinpath(f"profiles/{name}.toml")
    return _parsed(file.read_text(encoding="utf-8"), name)


def _parsed(text: str, name: str) -> Profile:
    try:
        profile = msgspec.convert(tomllib.loads(text), Profile)
        _check(profile)
    except ValueError as error:  # msgspec's and tomllib's errors are ValueErrors, too
        raise UsageError(
            seen=f"{name} is not a profile: {error}",
            cause="A key is misspelt or missing, or a limit is not a comparison and a number",
            next_step="Compare it with docs/profiles.md",
        ) from error
    return profile


def _check(profile: Profile) -> None:
    if not profile.require:
        raise ValueError("it requires nothing")
    for each in profile.require:
        _check_requirement(each)


def _check_requirement(requirement: Requirement) -> None:
    good, acceptable = requirement.good_limit, requirement.acceptable_limit
    if good.comparison[0] != acceptable.comparison[0]:
        raise ValueError(f"{requirement.label}: good and acceptable must point the same way")
    if not acceptable.holds(good.base_value):
        raise ValueError(f"{requirement.label}: the good limit is beyond the acceptable one")
    if not (requirement.operation or requirement.operations):
        raise ValueError(f"{requirement.label}: operation is missing")
    for size in (*requirement.block_sizes, *filter(None, [requirement.block_size_min])):
        parse_size_bytes(size)


def assess(
    profile: Profile, target: str, cells: Sequence[CellSummary], served: Served = ()
) -> Assessment:
    """Return what a profile says of the tests of one target.

    Args:
        profile: The profile.
        target: Label of the target.
        cells: Its tests.
        served: Identities of tests that a cache served in place of the device; these show nothing.
    """
    sound = [
        each
        for each in cells
        if each.cell.identity() not in served and not any(map(is_broken, each.samples))
    ]
    figures = [_graded(each, sound) for each in profile.require]
    grades: list[Grade] = [each.grade for each in figures]
    capacities = [_capacity(each, sound) for each in profile.require if each.capacity]
    return Assessment(
        profile=profile,
        target=target,
        grade=worst_grade(grades),
        figures=figures,
        capacity=next(filter(None, capacities), ""),
    )


def worst_grade(grades: Sequence[Grade]) -> Grade:
    """Return the worst of some grades; what is unknown is worse than marginal."""
    return min(grades, key=_WORST_FIRST.index, default="unknown")


def _selected(requirement: Requirement, cells: Sequence[CellSummary]) -> list[CellSummary]:
    wanted = {requirement.operation, *requirement.operations} - {""}
    # A zone of an address map is a part of the target: its rate is not that of the whole.
    counts_zones = requirement.good_limit.quantity in _WORST_OF_ALL
    found = [
        each
        for each in cells
        if each.cell.operation in wanted
        and (counts_zones or each.cell.kind != "map")
        and (not requirement.pattern or addresses_of(each) == {requirement.pattern})
    ]
    if requirement.block_size_min:
        least_bytes = parse_size_bytes(requirement.block_size_min)
        found = [each for each in found if each.cell.block_size_bytes >= least_bytes]
    for size in requirement.block_sizes:
        of_size = [each for each in found if each.cell.block_size_bytes == parse_size_bytes(size)]
        if of_size:
            return of_size
    return [] if requirement.block_sizes else found


def _graded(requirement: Requirement, cells: Sequence[CellSummary]) -> GradedFigure:
    quantity = requirement.good_limit.quantity
    selected = _selected(requirement, cells)
    if quantity in LATENCIES:
        selected = _least_loaded(selected)
    known = [
        (each, figure)
        for each in selected
        if isinstance(figure := figure_of(each, quantity), Estimate)
    ]
    if not known:
        return _without_figure(requirement, selected)
    cell, figure = _representative(requirement, known)
    grade = _grade(requirement, figure)
    if quantity in STALLS and grade != "good":
        own = [(each, figure_of(each, quantity, of_target=True)) for each, _ in known]
        known = [(each, figure) for each, figure in own if isinstance(figure, Estimate)]
        cell, figure = _representative(requirement, known)
        grade = _grade(requirement, figure)
        if figure.value == 0:
            return _unknown(
                requirement, "only the load generator stalled: the target was not observed then"
            )
    if grade != "good" and quantity in _RATES:
        free = [each for each in known if not each[0].cell.parsed.limits_rate]
        if not free:
            return _unknown(requirement, "its test limits the rate itself")
        cell, figure = _representative(requirement, free)
        grade = _grade(requirement, figure)
    if grade != "good" and _is_of_generator(cell, quantity):
        return _unknown(
            requirement, "the load generator did not run when requests were due: see its stalls"
        )
    limits = [requirement.good_limit, requirement.acceptable_limit]
    reason = (
        f"{format_value(figure, limits)}; good {requirement.good}, "
        f"acceptable {requirement.acceptable} {requirement.good_limit.unit}"
    )
    return _known(requirement, grade, figure, cell, reason)


def _is_of_generator(summary: CellSummary, quantity: str) -> bool:
    """Return whether requests that were due while we did not run decide a percentile."""
    if not summary.cell.parsed.arrival.is_scheduled or quantity not in PERCENTS:
        return False
    stalls = [stall for sample in summary.samples for stall in sample.stalls]
    stopped_s = sum(stall.length_s for stall in stalls if stall.is_of_generator)
    above_share = 1 - PERCENTS[quantity] / 100
    return stopped_s > above_share * sum(sample.duration_s for sample in summary.samples)


def _without_figure(requirement: Requirement, selected: Sequence[CellSummary]) -> GradedFigure:
    """Return the grade where too few requests ended to know a percentile.

    A lower percentile beyond the acceptable limit proves that the wanted one is beyond it, too.
    """
    limit = requirement.acceptable_limit
    for name in _lower_percentiles(limit.quantity):
        bounds = [
            (each, figure)
            for each in selected
            if isinstance(figure := figure_of(each, name), Estimate)
        ]
        if not bounds:
            continue
        cell, figure = _representative(requirement, bounds)
        if _grade(requirement, figure) == "poor":
            reason = (
                f"{name} is {format_value(figure, [limit])} already; acceptable "
                f"{requirement.acceptable} {limit.unit} of {limit.quantity}"
            )
            return _known(requirement, "poor", figure, cell, reason)
    if limit.quantity in STALLS and selected:
        return _unknown(requirement, str(figure_of(selected[0], limit.quantity)))
    has_latencies = any(each.latency for each in selected)
    why = f"too few requests for {limit.quantity}" if has_latencies else "not measured"
    return _unknown(requirement, why)


def _known(
    requirement: Requirement, grade: Grade, figure: Estimate, summary: CellSummary, reason: str
) -> GradedFigure:
    cell = summary.cell
    several = len(requirement.block_sizes) > 1
    size_phrase = f"{format_size(cell.block_size_bytes)} " if several else ""
    return GradedFigure(
        requirement=requirement,
        label=f"{size_phrase}{requirement.label}",
        grade=grade,
        figure=figure,
        cell=cell.key,
        test=format_cell(cell),
        reason=reason,
    )


def _unknown(requirement: Requirement, why: str) -> GradedFigure:
    return GradedFigure(
        requirement=requirement,
        label=requirement.label,
        grade="unknown",
        figure=None,
        cell="",
        test="",
        reason=why,
    )


def _least_loaded(cells: Sequence[CellSummary]) -> list[CellSummary]:
    """Return the cells with the fewest requests in flight, of those that completed any."""
    answered = [each for each in cells if not each.blank]
    least = min(map(_in_flight, answered), default=0)
    return [each for each in answered if _in_flight(each) == least]


def _lower_percentiles(quantity: str) -> Sequence[str]:
    """Return the percentiles below one, the highest first."""
    names = [name for name in PERCENTS if name in LATENCIES]
    lower = [name for name in names if PERCENTS[name] < PERCENTS.get(quantity, 0)]
    return sorted(lower, key=PERCENTS.__getitem__, reverse=True)


def _representative(
    requirement: Requirement, known: Sequence[tuple[CellSummary, Estimate]]
) -> tuple[CellSummary, Estimate]:
    """Return the test that stands for a figure.

    Stalls and errors: the most. Rates: the highest. Latencies: with the fewest requests in
    flight, since more of them only show where the target saturates; of several such tests the
    fastest.
    """
    if requirement.good_limit.quantity in (*_WORST_OF_ALL, *_RATES):
        return max(known, key=lambda each: each[1].value)
    figures = {cell.cell.key: figure for cell, figure in known}
    best = fastest([cell for cell, _ in known], lambda each: each.iops)
    assert best is not None  # noqa: S101 - there is at least one
    return best, figures[best.cell.key]


def _in_flight(summary: CellSummary) -> int:
    return summary.cell.threads * summary.cell.depth


def _grade(requirement: Requirement, figure: Estimate) -> Grade:
    good, acceptable = requirement.good_limit, requirement.acceptable_limit
    shown = figure.shown
    ends = [figure.value, *(end for end in (shown.low, shown.high) if end is not None)]
    is_upper_limit = good.comparison.startswith("<")
    worse, better = (max(ends), min(ends)) if is_upper_limit else (min(ends), max(ends))
    if good.holds(worse):
        return "good"
    return "marginal" if acceptable.holds(better) else "poor"


def _capacity(requirement: Requirement, cells: Sequence[CellSummary]) -> str:
    limit = requirement.acceptable_limit
    within = [
        each
        for each in _selected(requirement, cells)
        if isinstance(figure := figure_of(each, limit.quantity), Estimate)
        and limit.holds(figure.high if figure.high is not None else figure.value)
    ]
    best = fastest(within, lambda each: each.iops)
    if best is None:
        return ""
    # The ends alone: a verdict has no room for what they were computed from.
    ends = format_interval(best.iops).rpartition(": ")[2]
    threads = format_plural(best.cell.threads, "thread")
    return f"{format_value(best.iops)} at {threads} ({ends})"
