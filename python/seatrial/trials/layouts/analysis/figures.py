"""The figures of the article "One DVD per second" (2009) as data, and phrases of the verdict.

The article measured RAID0 of 1 to 12 drives and RAID5 of 3 to 12 on one controller, and RAID0 and
RAID5 of 2 x 4 to 2 x 8 drives striped over two controllers by lvm2 (RAID00, RAID05 there).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from seatrial.stats.wording import (
    format_count,
    format_duration_s,
    format_estimate,
    format_plural,
    format_size,
    format_value,
)
from seatrial.trials.layouts.analysis.model import (
    BestLayout,
    LayoutAnalysis,
    PhaseFigures,
    Recovery,
)

BLOCK_BYTES: Final = 8192
"""Page size of the article's database."""

Quantity = Literal["bandwidth", "iops", "copy_time"]
Against = Literal["drives", "block_size_bytes"]


class ArticleFigure(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one figure, and which cells belong to it.

    Attributes:
        number: Its number in the article.
        title: Its title.
        against: The horizontal axis; one line for each operation, and for each number of threads
            or each layout, whichever is not fixed.
        quantity: The vertical axis.
        pattern: ``random``, ``sequential`` or ``copy``.
        operations: Operations that have lines.
        block_size_bytes: The block size; None where it is the axis, or for a copy.
        threads: Numbers of threads; empty for all.
        level: The level; empty for all.
        legs: Number of legs; 0 for any.
        drives: Drives of all legs; 0 where it is the axis, or for any.
    """

    number: int
    title: str
    against: Against
    quantity: Quantity
    pattern: Literal["random", "sequential", "copy"]
    operations: tuple[str, ...] = ("read", "write")
    block_size_bytes: int | None = None
    threads: tuple[int, ...] = ()
    level: str = ""
    legs: int = 0
    drives: int = 0


def _random_against_drives(number: int, threads: int) -> ArticleFigure:
    noun = "thread" if threads == 1 else "threads"
    return ArticleFigure(
        number=number,
        title=f"Random 8 KiB, {threads} {noun}, against number of drives",
        against="drives",
        quantity="bandwidth",
        pattern="random",
        block_size_bytes=BLOCK_BYTES,
        threads=(threads,),
    )


def _against_block_size(number: int, level: str, legs: int, drives: int) -> list[ArticleFigure]:
    """Return the article's pair of figures for one layout: bandwidth, then IOPS."""
    name = level.upper() if legs == 1 else f"RAID0{level.removeprefix('raid')}"
    of_legs = f"{legs} x {drives // legs}, " if legs > 1 else ""
    layout = f"{name}, {of_legs}{drives} drives"
    common = {
        "against": "block_size_bytes",
        "pattern": "random",
        "threads": (1, 10),
        "level": level,
        "legs": legs,
        "drives": drives,
    }
    titles = {
        "bandwidth": f"Random bandwidth against block size and threads: {layout}",
        "iops": f"Random requests per second against block size and threads: {layout}",
    }
    return [
        msgspec.convert(
            {"number": each, "title": title, "quantity": quantity, **common}, ArticleFigure
        )
        for each, (quantity, title) in enumerate(titles.items(), start=number)
    ]


FIGURES: Final[tuple[ArticleFigure, ...]] = (
    ArticleFigure(
        number=1,
        title="Sequential 8 KiB, 1 thread, against number of drives",
        against="drives",
        quantity="bandwidth",
        pattern="sequential",
        block_size_bytes=BLOCK_BYTES,
        threads=(1,),
    ),
    ArticleFigure(
        number=2,
        title="Time to copy 1 GiB against number of drives (less is better)",
        against="drives",
        quantity="copy_time",
        pattern="copy",
        operations=("copy",),
    ),
    _random_against_drives(3, 1),
    _random_against_drives(4, 10),
    _random_against_drives(5, 40),
    *_against_block_size(6, "raid0", 1, 4),
    *_against_block_size(8, "raid0", 1, 8),
    *_against_block_size(10, "raid0", 1, 12),
    *_against_block_size(12, "raid5", 1, 4),
    *_against_block_size(14, "raid5", 1, 8),
    *_against_block_size(16, "raid5", 1, 12),
    *_against_block_size(18, "raid0", 2, 8),
    *_against_block_size(20, "raid0", 2, 12),
    *_against_block_size(22, "raid0", 2, 16),
    *_against_block_size(24, "raid5", 2, 8),
    *_against_block_size(26, "raid5", 2, 12),
    *_against_block_size(28, "raid5", 2, 16),
    ArticleFigure(
        number=30,
        title="RAID5, random writes of 10 threads against block size and number of drives",
        against="block_size_bytes",
        quantity="bandwidth",
        pattern="random",
        operations=("write",),
        threads=(10,),
        level="raid5",
    ),
    ArticleFigure(
        number=31,
        title="Sequential bandwidth against block size, big file and small file: RAID05, 2 x 5",
        against="block_size_bytes",
        quantity="bandwidth",
        pattern="sequential",
        level="raid5",
        legs=2,
        drives=10,
    ),
)
"""In the article's order. Figures of other layouts, like 6 to 29, are in measured_figures.py."""

EQUALS_NAMED_MAX: Final = 2
RECOVERIES_SHOWN_MAX: Final = 2


def best_phrase(found: LayoutAnalysis) -> list[str]:
    """Return a phrase for each use with its fastest layout; empty if there is only one layout.

    Uses without a significantly fastest layout share one phrase; the table has their order.
    """
    open_uses = [each for each in found.best if _is_open(each) and each.among == "all"]
    names = {each.use for each in open_uses}
    texts = [
        f"{_opening(each)}{_against(each)}"
        for each in found.best
        if each.use not in names and not (_is_open(each) and each.among == "redundant")
    ]
    return [*texts, *([_undecided(open_uses)] if open_uses else [])]


def _is_open(best: BestLayout) -> bool:
    """Return whether the first of many is not significantly faster than any other."""
    return best.ratio is None and len(best.equals) > EQUALS_NAMED_MAX


def _undecided(open_uses: Sequence[BestLayout]) -> str:
    layouts = max(len(each.equals) for each in open_uses) + 1
    uses = [_in_brackets(each.use) for each in open_uses]
    listed = " or ".join([", ".join(uses[:-1]), uses[-1]] if len(uses) > 1 else uses)
    once = all(each.figure.rounds == 1 for each in open_uses)
    why = ": each was measured once" if once else ""
    return f"none of {layouts} layouts is significantly the fastest in {listed}{why}"


def _in_brackets(use: str) -> str:
    what, _, detail = use.partition(", ")
    return f"{what} ({detail})" if detail else what


def _opening(best: BestLayout) -> str:
    figure = format_estimate(best.figure)
    if best.among == "redundant":
        return f"with redundancy, {best.target} at {figure}"
    return f"{best.use}: {best.target} at {figure}"


def _against(best: BestLayout) -> str:
    text = ""
    if best.ratio and best.runner_up:
        text = f", {format_estimate(best.ratio)} of {best.runner_up}"
    if not best.equals:
        return text
    if len(best.equals) > EQUALS_NAMED_MAX:
        others = f"{format_plural(len(best.equals), 'other')}"
    else:
        others = " and ".join(best.equals)
    return f"{text}{' and' if text else ','} not significantly more than {others}"


def recovery_phrases(recoveries: Sequence[Recovery]) -> list[str]:
    """Return the effects of failures, a phrase for each of the worst cells."""
    worst = sorted(recoveries, key=gravity)[:RECOVERIES_SHOWN_MAX]
    return [f"{_when(each)}, {each.cell.target} {recovery_phrase(each)}" for each in worst]


def worst_recovery(recoveries: Sequence[Recovery]) -> str:
    """Return the worst effects of a failure in few words; empty without a failure."""
    if not recoveries:
        return ""
    worst = min(recoveries, key=gravity)
    state = lost_phrase(worst) or _kept_phrase(worst)
    count = format_count(worst.failed_count) if worst.failed_count else "no"
    phrase = f"{_when(worst)}, {worst.cell.target} {state}: {count} failed requests"
    if (phase := _phase_after(worst)) and phase.share:
        phrase += f", {format_value(phase.share)} of its rate"
    return phrase


def _phase_after(recovery: Recovery) -> PhaseFigures | None:
    """Return the phase that shows the effect of a failure best."""
    return recovery.phase("rebuild") or recovery.phase("degraded") or recovery.phase("scrub")


def gravity(recovery: Recovery) -> tuple[bool, int, int, int, float]:
    """Return a key that sorts the worst first: data loss, failed requests, lowest rate."""
    phase = _phase_after(recovery)
    return (
        not lost_phrase(recovery),
        -recovery.array_failed_count,
        -(recovery.unreadable_bytes or 0) - (recovery.wrong_bytes or 0),
        -recovery.failed_count,
        phase.share.value if phase and phase.share else 1.0,
    )


def _when(recovery: Recovery) -> str:
    """Return the fault as the beginning of a sentence."""
    failed = sum("failed after" in fault for fault in recovery.faults)
    if failed == len(recovery.faults) > 0:
        return "after a drive failure" if failed == 1 else f"after {failed} drive failures"
    return "after the injected faults"


def recovery_phrase(recovery: Recovery) -> str:
    """Return the effects of a failure: ``failed 0 of 1,240 requests, reached 0.4x ...``."""
    parts = [
        f"failed {format_count(recovery.failed_count)} of "
        f"{format_plural(recovery.offered_count, 'request')}"
    ]
    phase = _phase_after(recovery)
    if phase and phase.share:
        during = {"rebuild": "during the rebuild", "scrub": "during the scrub"}
        when = during.get(phase.phase, "while degraded")
        parts.append(f"reached {format_estimate(phase.share)} of its rate {when}")
    unfinished = recovery.unfinished_count
    if recovery.rebuild_time:
        parts.append(f"was rebuilt in {format_estimate(recovery.rebuild_time)}")
        if unfinished:
            rebuilds = recovery.rebuild_time.rounds + unfinished
            parts.append(f"did not finish {unfinished} of {rebuilds} rebuilds")
    elif unfinished:
        parts.append("did not finish its rebuild")
    lost = lost_phrase(recovery)
    parts.append(lost or _kept_phrase(recovery))
    return ", ".join(parts)


def lost_phrase(recovery: Recovery) -> str:
    """Return the data loss: ``lost 12 KiB (unreadable)``; empty if there is none.

    Corrupt data returned to the load are reported only if all data were correct at the end.
    """
    texts = []
    if recovery.unreadable_bytes:
        texts.append(f"{format_size(recovery.unreadable_bytes)} (unreadable)")
    if recovery.wrong_bytes:
        texts.append(f"{format_size(recovery.wrong_bytes)} (corrupt)")
    if texts:
        return f"lost {' and '.join(texts)}"
    if recovery.sums_differ_count:
        rounds = format_plural(recovery.sums_differ_count, "round")
        return f"lost parts of transactions in {rounds}"
    wrong = recovery.wrong_reads
    return f"returned corrupt data to {format_plural(wrong, 'read')}" if wrong else ""


def _kept_phrase(recovery: Recovery) -> str:
    """Return the state of data without a known loss."""
    if recovery.checked_blocks:
        return "lost no data"
    known = recovery.sums_differ_count is not None
    return "preserved the sums of its database" if known else "was not checked for data loss"


def checked_phrase(recovery: Recovery) -> str:
    """Return how much was verified: ``24 MiB``, or reads if there was no final verification."""
    if not recovery.checked_blocks and recovery.sums_differ_count is not None:
        return "those in pgbench's tables, whose sums every transaction preserves"
    if recovery.wrong_bytes is not None:
        return f"{format_size(recovery.checked_bytes)} verified"
    return f"{format_plural(recovery.checked_blocks, 'read')} verified"


def window_phrase(recovery: Recovery) -> str:
    """Return the time without redundancy: ``4.1 s (± 3 %)``, ``more than 60 s``; may be empty."""
    if recovery.window_open_s is None:
        return format_estimate(recovery.window) if recovery.window else ""
    bound = "more than" if recovery.window_open_s == recovery.window_s else "at least"
    return f"{bound} {format_duration_s(recovery.window_s)}"
