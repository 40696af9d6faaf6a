"""The answer of a comparison, which its page shows first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.findings.answer import (
    TILES_MAX,
    VERDICT_LETTERS_MAX,
    WORST_MAX,
    RunAnswer,
    clipped,
    first_clauses,
    in_one_line,
)
from seatrial.findings.tile import Tile
from seatrial.results.model import origin_of
from seatrial.stats.compare.figures import COMPLETED, is_rate
from seatrial.stats.compare.model import Comparison, FigureComparison, Overall
from seatrial.stats.compare.noise import whole_percent
from seatrial.stats.compare.verdict import (
    figure_phrase,
    losses,
    noise_phrase,
    outside_ratios,
    without_ratio,
)
from seatrial.stats.wording import (
    format_half_width,
    format_interval,
    format_plural,
    format_value,
    is_vague,
)

_NAME_MAX: Final = 28
_UNDECIDED: Final = "Undecided: "


def comparison_answer(comparisons: Sequence[Comparison]) -> RunAnswer:
    """Return the answer of one or more comparisons with the same A."""
    findings = [finding for each in comparisons for finding in each.findings]
    worst = [each for each in findings if each.severity != "note"][:WORST_MAX]
    return RunAnswer(
        verdict=_verdict(comparisons),
        grade="unknown",
        tiles=_tiles(comparisons),
        worst=worst,
        worst_lines=[in_one_line(each) for each in worst],
        notes_count=len(findings) - len(worst),
        confidence=_confidence(comparisons),
        next_step=worst[0].next if worst else _next_step(comparisons),
        assessments=[],
    )


def _verdict(comparisons: Sequence[Comparison]) -> str:
    line = _joined([_words(each) for each in comparisons], comparisons[0].a.name)
    if len(comparisons) == 1 and (counts := _counts(comparisons[0])):
        longer = f"{line}; {counts}"
        line = longer if len(longer) < VERDICT_LETTERS_MAX else line
    return f"{first_clauses(line, VERDICT_LETTERS_MAX - 1)}."


def _joined(parts: Sequence[str], a: str) -> str:
    """Return what is decided, then the rest; what they have in common is said once."""
    first, *others = sorted(parts, key=lambda each: each.startswith(_UNDECIDED))
    ending = f" as fast as {clipped(a, _NAME_MAX)}"
    if first.endswith(ending):
        others = [each.removesuffix(ending) for each in others]
    before, mark, after = "; ".join([first, *others]).partition(_UNDECIDED)
    return f"{before}{mark.lower() if before else mark}{after.replace(_UNDECIDED, '')}"


def _lead_figure(comparison: Comparison) -> str:
    """Return the main figure of a comparison: a rate if there is one."""
    rates = [figure for figure in COMPLETED if figure in comparison.overall]
    return next(iter([*rates, *comparison.overall]), "")


def _words(comparison: Comparison) -> str:
    a, b = (clipped(side.name, _NAME_MAX) for side in (comparison.a, comparison.b))
    figure = _lead_figure(comparison)
    lost = outside_ratios(comparison, a, b)
    if not figure:
        return lost or without_ratio(comparison, a, b)
    words = _ratio_words(comparison, figure, a, b)
    if not lost:
        return words
    return f"{lost}; {words if words.startswith(b) else f'{words[0].lower()}{words[1:]}'}"


def _ratio_words(comparison: Comparison, figure: str, a: str, b: str) -> str:
    ratio, total = comparison.overall[figure], comparison.overall_answers.get(figure)
    if total is not None and total.answer == "same":
        share = whole_percent(total.within_share or 0)
        return f"No difference between {a} and {b} (within {share} %)"
    known = total is not None and total.answer in ("higher", "lower")
    if not known and is_vague(ratio.shown):
        more = (
            "faster or slower" if is_rate(figure) else f"higher or lower in {figure_phrase(figure)}"
        )
        return f"{_UNDECIDED}these rounds do not show whether {b} is {more} than {a}"
    times = f"{format_value(ratio)} ({format_interval(ratio)})"
    measure = "as fast as" if is_rate(figure) else f"the {figure_phrase(figure)} of"
    return f"{'' if known else _UNDECIDED}{b} is {times} {measure} {a}"


def _counts(comparison: Comparison) -> str:
    """Return in how many tests the lead figure is higher or lower; empty if in none."""
    figure = _lead_figure(comparison)
    cells = [each for each in comparison.comparands if each.figure == figure]
    words = ("faster", "slower") if is_rate(figure) else ("longer", "shorter")
    counts = [
        f"{word} in {count} of {len(cells)} tests"
        for word, answer in zip(words, ("higher", "lower"), strict=True)
        if (count := sum(each.answer == answer for each in cells)) and len(cells) > 1
    ]
    return ", ".join(counts)


def _tiles(comparisons: Sequence[Comparison]) -> list[Tile]:
    """Return the overall ratios; of several comparisons the first figure of each."""
    if len(comparisons) > 1:
        found = [
            _tile(each, figure, label=f"{each.b.name}: {figure_phrase(figure)}")
            for each in comparisons
            if (figure := _lead_figure(each))
        ]
        return found[:TILES_MAX]
    (only,) = comparisons
    return [_tile(only, each, label=figure_phrase(each)) for each in only.overall][:TILES_MAX]


def _tile(comparison: Comparison, figure: str, *, label: str) -> Tile:
    total = comparison.overall_answers.get(figure)
    every = sum(each.figure == figure for each in comparison.comparands) + len(comparison.blank_a)
    count = total.cells if total else every
    which = f"all {format_plural(count, 'test')}" if count > 1 else "1 test"
    if count < every:
        which = f"{count} of {format_plural(every, 'test')}"
    elif comparison.only_a or comparison.only_b:
        which = format_plural(count, "common test")
    names = f"{comparison.b.name} / {comparison.a.name}"
    return Tile(
        # Longer names, such as identifiers of runs, are in the verdict, in the same order.
        label=f"{label}, {names if len(names) <= _NAME_MAX else 'B / A'}",
        estimate=comparison.overall[figure],
        detail=total.answer if total else "",
        test=which,
        cell="",
        better="higher" if is_rate(figure) else "lower",
    )


def _confidence(comparisons: Sequence[Comparison]) -> str:
    first = comparisons[0]
    phrases = ["compared round by round" if first.paired else "not paired by round"]
    widths = [w for each in comparisons for r in each.overall.values() if (w := r.half_width_share)]
    if widths:
        more = "more than" if max(widths) > 1 else "up to"
        most = format_half_width(min(max(widths), 1.0))
        phrases.append(f"95 % intervals of the ratios {more} ± {most}")
    elif any(each.overall for each in comparisons):
        phrases.append("measured once, so no interval is known")
    if noise := noise_phrase(first):
        phrases.append(noise)
    if alone := sum(len(each.only_a) + len(each.only_b) for each in comparisons):
        phrases.append(f"{format_plural(alone, 'test')} on one side only")
    every = [each for comparison in comparisons for each in comparison.comparands]
    undecided = sum(each.answer == "undecided" for each in every)
    if undecided:
        phrases.append(f"{undecided} of {format_plural(len(every), 'figure')} undecided")
    warnings = sum(len(each.warnings) for each in comparisons)
    if warnings:
        phrases.append(format_plural(warnings, "limitation"))
    sentence = "; ".join(phrases)
    return f"{sentence[0].upper()}{sentence[1:]}."


def _next_step(comparisons: Sequence[Comparison]) -> str:
    if rounds := _more_rounds(comparisons):
        return f"Measure {rounds}."
    failed = [
        f"{each.b.name} left requests without an answer" for each in comparisons if losses(each)
    ]
    failed += [f"nothing completed on {each.a.name}" for each in comparisons if each.blank_a]
    leads = [each.overall_answers.get(_lead_figure(each)) for each in comparisons]
    if any(total and total.below_noise for total in leads):
        failed.append("the A/A control differs from A: B differs from A by no more than that")
    if failed:
        return f"Find out why {failed[0]}."
    if any(found.weight == "likely" for each in comparisons for found in each.differences):
        return "Check the differences between the two: they are usually the reason."
    if any(_is_undecided(each) for each in comparisons):
        is_imported = any(origin_of(side.run) for c in comparisons for side in (c.a, c.b))
        return f"{'Import' if is_imported else 'Measure'} more rounds of both."
    if not any(each.overall for each in comparisons):
        return "Measure both for longer, with the same tests: there is no figure to compare."
    return "Nothing: the comparison has its answer."


def _more_rounds(comparisons: Sequence[Comparison]) -> str:
    """Return how many more rounds settle the verdict, or else any figure; empty if unknown."""
    leads = [each.overall_answers.get(_lead_figure(each)) for each in comparisons]
    undecided = [each.rounds_more or 0 for each in leads if each and each.answer == "undecided"]
    if undecided:
        more = format_plural(max(undecided), "more round")
        return f"{more} of both to settle it" if all(undecided) else ""
    others = [
        total.rounds_more
        for each in comparisons
        for total in each.overall_answers.values()
        if total.answer == "undecided" and total.rounds_more
    ]
    more = format_plural(min(others, default=0), "more round")
    return f"{more} of both to settle the first open figure" if others else ""


def _is_undecided(comparison: Comparison) -> bool:
    """Return whether a figure is undecided that more rounds may decide."""
    answers: list[Overall | FigureComparison] = [
        *comparison.overall_answers.values(),
        *comparison.comparands,
    ]
    return any(each.answer == "undecided" and not each.below_noise for each in answers)
