"""The verdict as one sentence: which side is faster, by how much, in how many cells.

Verdict, findings and exit code share these functions, so that they never contradict each other.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence

import msgspec

from seatrial.stats.compare.figures import COMPLETED, RATE, is_rate
from seatrial.stats.compare.model import Answer, Comparison, FigureComparison, Overall
from seatrial.stats.compare.noise import whole_percent
from seatrial.stats.estimate import Estimate
from seatrial.stats.wording import (
    ABSURD_FACTOR,
    capitalized,
    format_count,
    format_interval,
    format_iops,
    format_plural,
    format_share,
)


def figure_phrase(figure: str) -> str:
    """Return a figure for headings: ``IOPS``; any other by its name, such as ``tps``.

    Args:
        figure: Its name, as in a FigureComparison.
    """
    return "IOPS" if figure == RATE else figure


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """The significant changes in one direction, for the worse or for the better.

    Attributes:
        is_worse: Which direction.
        cells: Figures of single cells, rates first.
        overall: Ratios over several cells, by figure.
    """

    is_worse: bool
    cells: list[FigureComparison]
    overall: dict[str, Estimate]

    def __bool__(self) -> bool:
        return bool(self.cells or self.overall)

    @property
    def word(self) -> str:
        """How B compares with A: ``slower``, or of latencies only ``higher in latency``."""
        figures = {*self.overall, *(each.figure for each in self.cells)}
        words = ("slower", "higher in latency") if self.is_worse else ("faster", "lower in latency")
        return words[0] if any(is_rate(figure) for figure in figures) else words[1]

    def beyond(self, share: float) -> Changes:
        """Return the changes that are significantly larger than a share.

        Based on the near end of the ratio's interval. A rate is worse by 0.05 if the ratio is 0.95,
        a latency if it is 1.05.
        """

        def is_beyond(ratio: Estimate) -> bool:
            low = ratio.value if ratio.low is None else ratio.low
            high = ratio.value if ratio.high is None else ratio.high
            return low > 1 + share if ratio.value > 1 else high < 1 - share

        return Changes(
            is_worse=self.is_worse,
            cells=[each for each in self.cells if is_beyond(each.ratio)],
            overall={name: ratio for name, ratio in self.overall.items() if is_beyond(ratio)},
        )


def judged(comparison: Comparison, *, is_worse: bool) -> Changes:
    """Return the figures that are significantly worse on B than on A, or significantly better."""

    def fits(figure: str, answer: Answer) -> bool:
        if answer not in ("higher", "lower"):
            return False
        return (is_rate(figure) == (answer == "lower")) == is_worse

    return Changes(
        is_worse=is_worse,
        cells=[each for each in comparison.comparands if fits(each.figure, each.answer)],
        overall={
            figure: comparison.overall[figure]
            for figure, total in comparison.overall_answers.items()
            if total.cells > 1 and fits(figure, total.answer)
        },
    )


def is_dead(comparand: FigureComparison) -> bool:
    """Return whether B completed nothing in any round of a test, and A something in each."""
    return comparand.answer == "lower" and comparand.ratio.value == 0


def tests_text(comparison: Comparison, keys: Collection[str]) -> str:
    """Return how many of the common tests these are, such as ``2 of 30 tests``."""
    if comparison.cells_count == 1:
        return "the only test"
    return f"{format_count(len(keys))} of {format_plural(comparison.cells_count, 'test')}"


def outside_ratios(comparison: Comparison, a: str = "", b: str = "") -> str:
    """Return what no ratio contains: tests without completions on A, and what B did not answer.

    Args:
        comparison: The comparison.
        a: What to call A; by default its name.
        b: What to call B; by default its name.
    """
    blank = comparison.blank_a
    on_a = f"nothing completed on {a or comparison.a.name} in {tests_text(comparison, blank)}"
    return capitalized("; ".join([*([on_a] if blank else []), *losses(comparison, b)]))


def without_ratio(comparison: Comparison, a: str, b: str) -> str:
    """Return why there is no overall ratio: no common figure, or none that is judged."""
    if comparison.comparands:
        return f"Undecided: no ratio of {b} to {a} can be judged (see the warnings)"
    return f"{b} and {a} have no figure in common"


def losses(comparison: Comparison, b: str = "") -> list[str]:
    """Return what B did not answer and A did, in words that stand before every ratio.

    Args:
        comparison: The comparison.
        b: What to call B; by default its name.
    """
    b = b or comparison.b.name
    dead = {each.key for each in comparison.comparands if is_dead(each)}
    lost: dict[str, set[str]] = defaultdict(set)
    for each in comparison.one_sided:
        if each.is_lost and each.key not in dead:
            lost[each.figure].add(each.key)
    return [
        *([f"nothing completed on {b} in {tests_text(comparison, dead)}"] if dead else []),
        *(
            f"{figure_phrase(figure)} is unknown on {b} in {tests_text(comparison, keys)}: "
            "requests were left unanswered or failed"
            for figure, keys in lost.items()
        ),
    ]


def distance_share(ratio: Estimate) -> float:
    """Return how far a ratio is from 1; half and twice as much are equally far."""
    return max(ratio.value, 1 / ratio.value) - 1 if ratio.value > 0 else math.inf


DECIMALS_MAX = 3
WIDE = 0.1


def ratio_phrase(ratio: Estimate) -> str:
    """Return a ratio with its interval, such as ``1.25x (1.21 to 1.29)``.

    The number of decimals depends on the interval, so that its ends and the ratio can be compared:
    two digits for a wide interval or a small ratio, and its half width if both ends would be
    printed alike. An interval wider than ten times the ratio is only reported as such.
    """
    if ratio.value == 0:
        return "0x (nothing completed)"
    if ratio.low is None or ratio.high is None:
        return f"{format_iops(ratio.value)}x ({format_interval(ratio)})"
    if ratio.high > ABSURD_FACTOR * ratio.value > 0:
        return f"{format_iops(ratio.value)}x ({format_interval(ratio)})"
    half = (ratio.high - ratio.low) / 2
    if half >= WIDE or ratio.value < WIDE:
        texts = [format_iops(number) for number in (ratio.value, ratio.low, ratio.high)]
    else:
        decimals = DECIMALS_MAX if half < 10.0 ** (1 - DECIMALS_MAX) else DECIMALS_MAX - 1
        texts = [f"{number:.{decimals}f}" for number in (ratio.value, ratio.low, ratio.high)]
    value, low, high = texts
    return f"{value}x ({format_interval(ratio) if low == high else f'{low} to {high}'})"


def verdict(comparison: Comparison) -> str:
    """Return the sentence of a comparison: rates first, then latencies that differ from them.

    Before both, what no ratio contains.
    """
    lost = outside_ratios(comparison)
    figures = [figure for figure in COMPLETED if figure in comparison.overall]
    figures = figures or list(comparison.overall)[:1]
    if not figures:
        return f"{lost or without_ratio(comparison, comparison.a.name, comparison.b.name)}."
    changes = [_among_measured(judged(comparison, is_worse=is_worse)) for is_worse in (True, False)]
    lead = _lead(comparison, [each for each in changes if each], figures)
    first = "; ".join(filter(None, [lost, lead]))
    parts = [
        _overall(comparison, figure, of=_in(figure, figures), lead=first) for figure in figures
    ]
    parts = [first, *parts, *_latencies(comparison)]
    if not lead:
        parts += [_elsewhere(comparison, each, figures) for each in changes]
    return "; ".join(filter(None, [*parts, _open(comparison.comparands)])) + "."


def _among_measured(changes: Changes) -> Changes:
    """Return the changes without tests of which nothing completed, which are named before."""
    return msgspec.structs.replace(
        changes, cells=[each for each in changes.cells if not is_dead(each)]
    )


def _lead(comparison: Comparison, changes: Sequence[Changes], figures: Sequence[str]) -> str:
    """Return the significant changes if the overall figures show none; else nothing."""
    answers = comparison.overall_answers
    if not changes or any(answers[each].answer in ("higher", "lower") for each in figures):
        return ""
    a, b = comparison.a.name, comparison.b.name
    every = {each.key for each in comparison.comparands}
    parts = []
    for each in changes:
        changed = {cell.key for cell in each.cells}
        where = f"in {format_count(len(changed))} of {format_plural(len(every), 'test')}"
        if not changed:
            where = f"over {format_plural(len(every), 'test')} together"
        parts.append(f"{each.word} than {a} {where}")
    return f"{b} is {' and '.join(parts)}"


def _elsewhere(comparison: Comparison, change: Changes, figures: Sequence[str]) -> str:
    """Return in how many cells figures changed that the verdict omits; empty for none."""
    of_shown = {each.key for each in change.cells if each.figure in figures}
    others = [each for each in change.cells if each.figure not in figures]
    changed = {each.key for each in others} - of_shown
    if not changed:
        return ""
    every = {each.key for each in comparison.comparands}
    of_others = Changes(is_worse=change.is_worse, cells=others, overall={})
    return (
        f"{of_others.word} in {format_count(len(changed))} of {format_plural(len(every), 'test')}"
    )


def _in(figure: str, figures: Sequence[str]) -> str:
    """Return the name of a figure, unless it is the only rate."""
    is_clear = figure in COMPLETED and len(figures) == 1
    return "" if is_clear else _of(figure)


def _overall(comparison: Comparison, figure: str, *, of: str, lead: str) -> str:
    """Return the conclusion for the rates (or for latencies if only they are compared).

    After a lead, which reports changes, the overall result is not called undecided or the same.
    """
    a, b = comparison.a.name, comparison.b.name
    cells = [each for each in comparison.comparands if each.figure == figure]
    ratio, total = comparison.overall[figure], comparison.overall_answers[figure]
    over = format_plural(total.cells, "test")
    known = f"over {over}" if total.cells > 1 else "in the only test"
    every = len(cells) + len(comparison.blank_a) if is_rate(figure) else comparison.cells_count
    if total.cells == 1 < every:
        known = f"in 1 of {format_plural(every, 'test')}"
    if total.p_value is None:
        return (
            f"{b} is {ratio_phrase(ratio)} {_as(figure)} {a}{of} {known}: too few rounds to "
            "determine significance"
        )
    if total.answer == "same":
        share = whole_percent(total.within_share or 0)
        start = f"No difference seen between {a} and {b}{of} (within {share} %) {known}"
        if lead:
            start = f"no difference seen{of or _of(figure)} (within {share} %) {known}"
    elif total.answer == "undecided":
        floor = ", within the noise floor of the A/A control" if total.below_noise else ""
        start = f"Undecided: {b} is {ratio_phrase(ratio)} {_as(figure)} {a}{of} {known}{floor}"
        if lead:
            start = f"undecided{of or _of(figure)}: {ratio_phrase(ratio)} {known}{floor}"
        if total.rounds_more:
            start += f", and {format_plural(total.rounds_more, 'more round')} would decide it"
    else:
        start = f"{b} is {ratio_phrase(ratio)} {_as(figure)} {a}{of} {known}"
    return start + _counted(figure, total, cells, _of(figure) if lead else "")


def _as(figure: str) -> str:
    return "as fast as" if is_rate(figure) else "as high as"


def _of(figure: str) -> str:
    return f" in {figure_phrase(figure)}"


def noise_phrase(comparison: Comparison) -> str:
    """Return by how much two measurements of the same thing differ; empty where unknown."""
    noise = comparison.noise
    if noise is None or noise.share is None:
        return ""
    which = "odd and even rounds of the same side differ"
    if noise.source == "pair":
        which = f"{comparison.a.name} and {noise.name}, which are the same thing, differ"
    return f"{which} by up to {format_share(noise.share)} (95 % of tests)"


def _counted(figure: str, total: Overall, cells: Sequence[FigureComparison], of: str) -> str:
    """Return in how many cells a side is significantly ahead: ``28 of 30 tests faster``."""
    if total.cells < 2:
        return ""
    higher = sum(each.answer == "higher" for each in cells)
    lower = sum(each.answer == "lower" for each in cells)
    more, less = ("faster", "slower") if is_rate(figure) else ("higher", "lower")
    if not higher and not lower:
        return f"; no test significantly {more} or {less}{of}"
    counts = sorted([(higher, more), (lower, less)], reverse=True)
    (most, most_word), (rest, rest_word) = counts
    rest_phrase = "none" if not rest else format_count(rest)
    whole = format_plural(len(cells), "test")
    return f"; {format_count(most)} of {whole} {most_word}, {rest_phrase} {rest_word}{of}"


def _latencies(comparison: Comparison) -> list[str]:
    """Return the latencies with significant changes, unless the rates imply them."""
    answers = comparison.overall_answers
    rates = [answers[figure].answer for figure in COMPLETED if figure in answers]
    if not rates:
        return []
    follows = [{"higher": "lower", "lower": "higher"}.get(answer) for answer in rates]
    return [
        f"{figure} is {ratio_phrase(comparison.overall[figure])} as high"
        for figure, total in comparison.overall_answers.items()
        if not is_rate(figure)
        and total.answer in ("higher", "lower")
        and total.answer not in follows
    ]


def _open(comparands: Sequence[FigureComparison]) -> str:
    """Return how many rounds would decide how many undecided figures; empty if there are none.

    The number of rounds is the one that decides half of the decidable figures.
    """
    undecided = [each for each in comparands if each.answer == "undecided" and not each.below_noise]
    known = sorted(each.rounds_more for each in undecided if each.rounds_more is not None)
    if not known:
        return ""
    rounds = known[(len(known) - 1) // 2]
    if len(undecided) == 1:
        return f"1 figure is undecided, {format_plural(rounds, 'more round')} would decide it"
    settled = sum(each <= rounds for each in known)
    figures = f"{format_count(len(undecided))} figures are"
    would = f"{format_plural(rounds, 'more round')} would decide {format_count(settled)}"
    return f"{figures} undecided, {would} of them"
