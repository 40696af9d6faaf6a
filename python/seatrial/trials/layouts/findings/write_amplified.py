"""Finding ``write_amplified``: a write takes more device I/O than the RAID level requires."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_cell, format_estimate, format_interval, format_plural
from seatrial.trials.layouts.analysis.model import Accounting, Rule, layouts_of

ABOVE_SHARE_MIN: Final = 0.1
"""Bitmap, array metadata and file timestamps cost some percent; 10 % is more than that."""
ABOVE_ONCE_MIN: Final = 0.25
"""For a single round, whose variance is unknown."""
FLUSHED_MIN: Final = 0.1
"""Flushes per write above which a journal is the likely reason."""


@dataclass(frozen=True)
class ExcessIo:
    """A cell whose device I/O exceeds the rule.

    Attributes:
        accounting: The cell.
        ratio: Lower bound of device I/O over the rule; in requests if known, otherwise in bytes.
        reads_more: Whether the excess is mainly reads.
    """

    accounting: Accounting
    ratio: float
    reads_more: bool


class WriteAmplifiedFigures(Figures, frozen=True, kw_only=True, tag="write_amplified"):
    cells_count: int
    above_rule_ratio: float
    reads_for_each: float
    writes_for_each: float
    flushes_for_each: float
    read_bytes_ratio: float | None
    write_bytes_ratio: float | None
    rule: str
    worst: Annotated[ExcessIo, HIDDEN]

    def text(self) -> FindingText:
        others = (
            f" (worst of {format_plural(self.cells_count, 'test')})" if self.cells_count > 1 else ""
        )
        reported = self.worst.accounting
        return FindingText(
            sentence=(
                f"{format_cell(reported.cell)}{others}: a write takes "
                f"{_counted(reported)}; {reported.variant.factors['level']} requires "
                f"{_ruled(reported.rule)}."
            ),
            cause=_cause(self.worst),
            next=(
                'Compare with filesystem = "none" to see the share of the array itself. '
                if _has_filesystem(reported)
                else ""
            )
            + "Aligned full-stripe writes avoid the reads.",
        )


@from_samples(rank=370, section="Layouts")
def write_amplified(context: Context) -> list[Finding]:
    """Find writes whose device I/O significantly exceeds the rule by 10 %, all merged.

    Means:
        A write takes more device I/O than the RAID level requires.

    Decided:
        Only if the rule is known (method.md): the sum of the lower ends of device reads and writes
        exceeds the rule by more than 10 % (25 % for a single round). Requests are compared if one
        page or one chunk is written, otherwise bytes; on a file system, the rule is the maximum
        over all alignments of the file to the stripes. Warning. Tests with fewer than 100 writes
        per sample are not judged.

    Do:
        Measure with `filesystem = "none"` to see the share of the array itself. Full-stripe writes
        need no reads. Only volumes of LVM have a write-intent bitmap here; md arrays are built
        without one.
    """
    entries = analysis.accounting if (analysis := layouts_of(context)) else []
    found = [excess for each in entries if each.per == "write" and (excess := _excess(each))]
    if not found:
        return []
    worst = max(found, key=lambda each: each.ratio)
    accounting = worst.accounting
    return [
        Finding(
            severity="warning",
            cells=[each.accounting.cell.identity() for each in found],
            figures=WriteAmplifiedFigures(
                cells_count=len(found),
                above_rule_ratio=worst.ratio,
                reads_for_each=accounting.reads.value,
                writes_for_each=accounting.writes.value,
                flushes_for_each=accounting.flushes.value,
                read_bytes_ratio=accounting.read_bytes.value if accounting.read_bytes else None,
                write_bytes_ratio=accounting.write_bytes.value if accounting.write_bytes else None,
                rule=accounting.rule.words if accounting.rule else "",
                worst=worst,
            ),
        )
    ]


def _excess(each: Accounting) -> ExcessIo | None:
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
) -> ExcessIo | None:
    read_low, write_low = (
        figure.value if figure.low is None else figure.low for figure, _ in (reads, writes)
    )
    ratio = (read_low + write_low) / (reads[1] + writes[1])
    is_once = each.reads.rounds < 2
    if ratio <= 1 + (ABOVE_ONCE_MIN if is_once else ABOVE_SHARE_MIN):
        return None
    return ExcessIo(each, ratio, reads_more=read_low - reads[1] > write_low - writes[1])


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
        return "an unknown amount"
    if rule.reads is not None and rule.writes is not None:
        return f"{rule.reads:.2f} and {rule.writes:.2f} ({rule.words})"
    read, written = rule.read_bytes_max, rule.write_bytes_max
    return f"at most {read:.2f}x read and {written:.2f}x written ({rule.words})"


def _cause(excess: ExcessIo) -> str:
    if excess.reads_more:
        return (
            "There are too many reads: writes are not full stripes, because the file is not "
            "aligned to the stripes, or because a layer splits or delays requests."
        )
    journal = "the file system's journal, " if _has_filesystem(excess.accounting) else ""
    if excess.accounting.flushes.value >= FLUSHED_MIN:
        or_commits = "or commits" if journal else "commits"
        return (
            f"There are too many writes, some of them flushes: {journal}{or_commits} that also "
            "write metadata."
        )
    # md arrays are built without a bitmap.
    has_bitmap = excess.accounting.variant.factors["backend"] == "lvm"
    bitmap = "the write-intent bitmap, " if has_bitmap else ""
    return (
        f"There are too many writes: {bitmap}the array's metadata, {journal}or a layer that splits "
        "requests."
    )


def _has_filesystem(each: Accounting) -> bool:
    return each.variant.factors["filesystem"] != "none"
