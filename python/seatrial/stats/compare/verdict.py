"""One sentence: which is faster, by how much, in how many cells, and what is open."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.stats.compare.figures import COMPLETED, is_rate
from seatrial.stats.compare.judgement import Judgement, judged
from seatrial.stats.compare.model import Comparand, Comparison, Overall
from seatrial.stats.compare.settle import whole_percent
from seatrial.stats.compare.words import figure_words
from seatrial.stats.estimate import Estimate
from seatrial.stats.wording import (
    ABSURD_FACTOR,
    format_count,
    format_interval,
    format_iops,
    format_plural,
)

DECIMALS_MAX = 3
WIDE = 0.1


def ratio_words(ratio: Estimate) -> str:
    """Return a ratio with its interval, such as ``1.25x (1.21 to 1.29)``.

    As many decimals as the interval allows, so that its ends and the ratio can be compared; two
    digits of each where it is wide, its half width where the ends would read alike. Of one that
    goes beyond ten times the ratio only that is said: its ends are absurd.
    """
    if ratio.low is None or ratio.high is None:
        return f"{format_iops(ratio.value)}x (measured once)"
    if ratio.high > ABSURD_FACTOR * ratio.value > 0:
        return f"{format_iops(ratio.value)}x ({format_interval(ratio)})"
    half = (ratio.high - ratio.low) / 2
    if half >= WIDE:
        reported = [format_iops(number) for number in (ratio.value, ratio.low, ratio.high)]
    else:
        decimals = DECIMALS_MAX if half < 10.0 ** (1 - DECIMALS_MAX) else DECIMALS_MAX - 1
        reported = [f"{number:.{decimals}f}" for number in (ratio.value, ratio.low, ratio.high)]
    value, low, high = reported
    return f"{value}x ({format_interval(ratio) if low == high else f'{low} to {high}'})"


def verdict(comparison: Comparison) -> str:
    """Return the sentence of a comparison: rates first, then what latencies say otherwise."""
    figures = [figure for figure in COMPLETED if figure in comparison.overall]
    figures = figures or list(comparison.overall)[:1]
    if not figures:
        return (
            f"Nothing of {comparison.b.name} can be compared with {comparison.a.name}: no figure "
            "is known on both sides."
        )
    changes = [judged(comparison, is_worse=is_worse) for is_worse in (True, False)]
    lead = _lead(comparison, [each for each in changes if each], figures)
    parts = [_overall(comparison, figure, of=_in(figure, figures), lead=lead) for figure in figures]
    parts = [lead, *parts, *_latencies(comparison)]
    if not lead:
        parts += [_elsewhere(comparison, each, figures) for each in changes]
    return "; ".join(filter(None, [*parts, _open(comparison.comparands)])) + "."


def _lead(comparison: Comparison, changes: Sequence[Judgement], figures: Sequence[str]) -> str:
    """Return what surely changed where the overall figures tell nothing of it; else nothing."""
    answers = comparison.overall_answers
    if not changes or any(answers[each].answer in ("higher", "lower") for each in figures):
        return ""
    a, b = comparison.a.name, comparison.b.name
    every = {each.key for each in comparison.comparands}
    parts = []
    for each in changes:
        changed = {cell.key for cell in each.cells}
        where = f"in {format_count(len(changed))} of {format_plural(len(every), 'cell')}"
        if not changed:
            where = f"over {format_plural(len(every), 'cell')} together"
        parts.append(f"{each.word} than {a} {where}")
    return f"{b} is {' and '.join(parts)}"


def _elsewhere(comparison: Comparison, change: Judgement, figures: Sequence[str]) -> str:
    """Return in how many cells figures changed that the verdict does not tell; empty for none."""
    of_told = {each.key for each in change.cells if each.figure in figures}
    others = [each for each in change.cells if each.figure not in figures]
    changed = {each.key for each in others} - of_told
    if not changed:
        return ""
    every = {each.key for each in comparison.comparands}
    of_others = Judgement(is_worse=change.is_worse, cells=others, overall={})
    return (
        f"{of_others.word} in {format_count(len(changed))} of {format_plural(len(every), 'cell')}"
    )


def _in(figure: str, figures: Sequence[str]) -> str:
    """Return which figure is told, unless it is the only rate."""
    is_clear = figure in COMPLETED and len(figures) == 1
    return "" if is_clear else _of(figure)


def _overall(comparison: Comparison, figure: str, *, of: str, lead: str) -> str:
    """Return what is certain of the rates (of latencies, where only they are compared).

    Behind a lead, which tells of changes, nothing as a whole is called undecided or the same.
    """
    a, b = comparison.a.name, comparison.b.name
    cells = [each for each in comparison.comparands if each.figure == figure]
    ratio, total = comparison.overall[figure], comparison.overall_answers[figure]
    over = format_plural(total.cells, "cell")
    known = f"over {over}" if total.cells > 1 else "in its one cell"
    if total.p_value is None:
        return (
            f"{b} is {ratio_words(ratio)} {_as(figure)} {a}{of} {known}: whether that is real "
            "cannot be told"
        )
    if total.answer == "same":
        share = whole_percent(total.within_share or 0)
        start = f"No difference seen between {a} and {b}{of} (within {share} %) {known}"
        if lead:
            start = f"no difference seen{of or _of(figure)} (within {share} %) {known}"
    elif total.answer == "undecided":
        floor = ", no more than two measurements of the same differ" if total.below_noise else ""
        start = f"Undecided: {b} is {ratio_words(ratio)} {_as(figure)} {a}{of} {known}{floor}"
        if lead:
            reported = f"{ratio_words(ratio)} {_as(figure)}{of or _of(figure)} {known}"
            start = f"undecided whether {reported} is real{floor}"
        if total.rounds_more:
            start += f", and {format_plural(total.rounds_more, 'more round')} would settle that"
    else:
        start = f"{b} is {ratio_words(ratio)} {_as(figure)} {a}{of} {known}"
    return start + _counted(figure, total, cells, _of(figure) if lead else "")


def _as(figure: str) -> str:
    return "as fast as" if is_rate(figure) else "as long as"


def _of(figure: str) -> str:
    return f" in {figure_words(figure)}"


def _counted(figure: str, total: Overall, cells: Sequence[Comparand], of: str) -> str:
    """Return in how many cells which side is surely ahead, such as ``28 of 30 cells faster``."""
    if total.cells < 2:
        return ""
    higher = sum(each.answer == "higher" for each in cells)
    lower = sum(each.answer == "lower" for each in cells)
    more, less = ("faster", "slower") if is_rate(figure) else ("longer", "shorter")
    if not higher and not lower:
        return f"; no cell significantly {more} or {less}{of}"
    counts = sorted([(higher, more), (lower, less)], reverse=True)
    (most, most_word), (rest, rest_word) = counts
    rest_told = "none" if not rest else format_count(rest)
    whole = format_plural(len(cells), "cell")
    return f"; {format_count(most)} of {whole} {most_word}, {rest_told} {rest_word}{of}"


def _latencies(comparison: Comparison) -> list[str]:
    """Return the latencies that are surely other, unless the rates say the same already."""
    answers = comparison.overall_answers
    rates = [answers[figure].answer for figure in COMPLETED if figure in answers]
    if not rates:
        return []
    follows = [{"higher": "lower", "lower": "higher"}.get(answer) for answer in rates]
    return [
        f"{figure} is {ratio_words(comparison.overall[figure])} as long"
        for figure, total in comparison.overall_answers.items()
        if not is_rate(figure)
        and total.answer in ("higher", "lower")
        and total.answer not in follows
    ]


def _open(comparands: Sequence[Comparand]) -> str:
    """Return how many rounds would settle how much of what is undecided; empty if nothing is.

    Of all the counts that is the one that settles half of what can be settled.
    """
    undecided = [each for each in comparands if each.answer == "undecided" and not each.below_noise]
    known = sorted(each.rounds_more for each in undecided if each.rounds_more is not None)
    if not known:
        return ""
    rounds = known[(len(known) - 1) // 2]
    if len(undecided) == 1:
        return f"1 figure is undecided, which {format_plural(rounds, 'more round')} would settle"
    settled = sum(each <= rounds for each in known)
    figures = f"{format_count(len(undecided))} figures are"
    would = f"{format_plural(rounds, 'more round')} would settle {format_count(settled)}"
    return f"{figures} undecided, {would} of them"
