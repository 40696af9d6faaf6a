"""Finding ``write_amplified``: drives do more for a write than the level of the array asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_cell, format_estimate, format_interval, format_plural
from seatrial.trials.layouts.analysis.model import Accounting, Rule, layouts_of

ABOVE_SHARE_MIN: Final = 0.1
"""Bitmap, metadata and a file system's own times are some percent; a tenth is more."""
ABOVE_ONCE_MIN: Final = 0.25
"""Of one round, whose scatter is not known."""
FLUSHED_MIN: Final = 0.1
"""Flushes for each write from which on a journal is the likely reason."""


@dataclass(frozen=True)
class Above:
    """A cell whose drives did more than its rule.

    Attributes:
        accounting: The cell.
        ratio: What was counted over the rule, at least; of bytes, or of requests where known.
        reads_more: Whether it is the reads that are too many.
    """

    accounting: Accounting
    ratio: float
    reads_more: bool


@from_samples(rank=370, section="Of layouts")
def write_amplified(context: Context) -> list[Finding]:
    """Find writes that surely cost a tenth more than the rule, all merged.

    Means:
        The drives do more for a write than the level asks for.

    Decided:
        Only where the rule is known (method.md): the lower ends of what was counted, reads and
        writes together, are more than a tenth above the rule (a quarter of a single round).
        Requests are compared where one page or one chunk is written, else bytes, and on a file
        system against the most that the place of a file in its stripes can make of it. Warning.
        Cells of fewer than 100 writes a sample are not judged.

    Do:
        Measure with `filesystem = "none"`: what is left is the array's own. Whole stripes need no
        reads; a larger or external bitmap spares writes.
    """
    entries = analysis.accounting if (analysis := layouts_of(context)) else []
    found = [above for each in entries if each.per == "write" and (above := _above(each))]
    if not found:
        return []
    worst = max(found, key=lambda each: each.ratio)
    reported = worst.accounting
    others = f" (the worst of {format_plural(len(found), 'cell')})" if len(found) > 1 else ""
    return [
        Finding(
            kind="write_amplified",
            severity="warning",
            cells=[each.accounting.cell.identity() for each in found],
            sentence=(
                f"{format_cell(reported.cell)}{others}: a write costs {_counted(reported)}, where "
                f"{reported.variant.factors['level']} asks for {_ruled(reported.rule)}."
            ),
            cause=_cause(worst),
            evidence={
                "cells_count": len(found),
                "above_rule_ratio": worst.ratio,
                "reads_for_each": reported.reads.value,
                "writes_for_each": reported.writes.value,
                "flushes_for_each": reported.flushes.value,
                "read_bytes_ratio": reported.read_bytes.value if reported.read_bytes else None,
                "write_bytes_ratio": reported.write_bytes.value if reported.write_bytes else None,
                "rule": reported.rule.words if reported.rule else "",
            },
            next=(
                'Compare with filesystem = "none": what then is left is the array\'s own. A larger '
                "bitmap chunk (mdadm --bitmap-chunk) or an external bitmap spares its writes, "
                "aligned writes of whole stripes spare the reads."
            ),
        )
    ]


def _above(each: Accounting) -> Above | None:
    rule = each.rule
    if rule is None:
        return None
    if rule.reads is not None and rule.writes is not None:
        return _judged(each, (each.reads, rule.reads), (each.writes, rule.writes))
    if each.read_bytes is None or each.write_bytes is None:
        return None
    return _judged(
        each, (each.read_bytes, rule.read_bytes_max), (each.write_bytes, rule.write_bytes_max)
    )


def _judged(
    each: Accounting, reads: tuple[Estimate, float], writes: tuple[Estimate, float]
) -> Above | None:
    least = [_least(figure) for figure, _ in (reads, writes)]
    allowed = reads[1] + writes[1]
    is_once = each.reads.rounds < 2
    ratio = sum(least) / allowed
    if ratio <= 1 + (ABOVE_ONCE_MIN if is_once else ABOVE_SHARE_MIN):
        return None
    return Above(each, ratio, reads_more=least[0] - reads[1] > least[1] - writes[1])


def _least(figure: Estimate) -> float:
    return figure.value if figure.low is None else figure.low


def _counted(each: Accounting) -> str:
    if each.rule and each.rule.reads is not None:
        return (
            f"{each.reads.value:.2f} device reads ({format_interval(each.reads)}) and "
            f"{each.writes.value:.2f} device writes ({format_interval(each.writes)})"
        )
    parts = [
        f"{format_estimate(figure)} of its bytes {done}"
        for figure, done in ((each.read_bytes, "read"), (each.write_bytes, "written"))
        if figure
    ]
    return " and ".join(parts)


def _ruled(rule: Rule | None) -> str:
    if rule is None:
        return "nothing that is known"
    if rule.reads is not None and rule.writes is not None:
        return f"{rule.reads:.2f} and {rule.writes:.2f} ({rule.words})"
    read, written = rule.read_bytes_max, rule.write_bytes_max
    return f"at most {read:.2f}x read and {written:.2f}x written ({rule.words})"


def _cause(above: Above) -> str:
    if above.reads_more:
        return (
            "Reads are too many: writes that should be whole stripes are none, for the file does "
            "not begin where a stripe does, or something splits or delays parts of them."
        )
    if above.accounting.flushes.value >= FLUSHED_MIN:
        return (
            "Writes are too many, and there are flushes among them: the file system's journal, or "
            "commits that write their metadata each time."
        )
    return (
        "Writes are too many: the write-intent bitmap, the array's metadata, the file system's "
        "journal, or requests that something splits."
    )
