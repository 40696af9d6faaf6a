"""The tables of what was broken: before, meanwhile and after, rebuilding, what became of data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from seatrial.report.figures.naming import capitalized
from seatrial.report.table import NO_FIGURE, Table, without_empty
from seatrial.stats.model import Estimate
from seatrial.stats.wording import (
    format_count,
    format_duration_s,
    format_identity,
    format_plural,
    format_share,
    format_size,
)
from seatrial.trials.layouts.analysis.model import (
    LayoutAnalysis,
    LimitTable,
    PhaseFigures,
    PhaseName,
    Recovery,
)
from seatrial.trials.layouts.report.array_marks import PHASE_NAMES
from seatrial.trials.layouts.report.words import KIB, with_doubt, workload_text

_KERNEL_LIMIT: Final = "the kernel's own"


def failure_tables(found: LayoutAnalysis) -> list[Table]:
    """Return one table with a line for each failure, and rebuild limits against service."""
    tables = [failures_table(found.recoveries)] if found.recoveries else []
    return [*tables, *(limit_table(each, place) for place, each in enumerate(found.limits, 1))]


def failures_table(recoveries: Sequence[Recovery]) -> Table:
    """Return a row for each cell in which something was broken."""
    table = Table(
        id="layout-failures",
        title="What failures cost",
        labels=2,
        headers=[
            *("Layout", "Workload", "Before", "Meanwhile", "After", "Lowest"),
            *("Rebuild", "Unprotected", "Failed", "Data"),
        ],
        rows=[
            [
                recovery.variant.target,
                recovery.cell.workload,
                *_timeline_texts(recovery),
                *(rebuild_text(recovery), unprotected_text(recovery)),
                *(format_count(recovery.failed_count), data_text(recovery)),
            ]
            for recovery in recoveries
        ],
    )
    return without_empty(table)


def _timeline_texts(recovery: Recovery) -> list[str]:
    """Return the rate before, its shares meanwhile and after, and the slowest second's."""
    before = recovery.phase("before")
    names: tuple[PhaseName, ...] = ("rebuild", "degraded", "scrub")
    meanwhile = next(filter(None, map(recovery.phase, names)), None)
    return [
        with_doubt(before.rate) if before else NO_FIGURE,
        _share_text(meanwhile),
        _share_text(recovery.phase("after")),
        NO_FIGURE if recovery.lowest_share is None else format_share(recovery.lowest_share),
    ]


def _share_text(phase: PhaseFigures | None) -> str:
    return NO_FIGURE if phase is None else with_doubt(phase.share)


def rebuild_text(recovery: Recovery) -> str:
    """Return how long the rebuild took, or how far it came: ``not ended, 40 % done``."""
    if recovery.rebuild_time:
        rest = ", its end without load" if recovery.after_load_count else ""
        return f"{with_doubt(recovery.rebuild_time)}{rest}"
    if not recovery.unfinished_count:
        return "none"
    share = recovery.unfinished_share
    return "not ended" if share is None else f"not ended, {format_share(share)} done"


def unprotected_text(recovery: Recovery) -> str:
    """Return how long one more failure could have lost data; ``never`` where it could not."""
    if not recovery.exposed:
        return "never"
    if recovery.window:
        return with_doubt(recovery.window)
    open_s = recovery.window_open_s
    return NO_FIGURE if open_s is None else f"over {format_duration_s(open_s)}"


def data_text(recovery: Recovery) -> str:
    """Return what became of the data: all right, wrong, unreadable, or that nobody looked."""
    reported = []
    if recovery.array_failed_count:
        reported.append(f"array failed in {format_plural(recovery.array_failed_count, 'round')}")
    checked = format_size(recovery.checked_bytes)
    if recovery.wrong_bytes:
        reported.append(f"{format_size(recovery.wrong_bytes)} of {checked} wrong")
    if recovery.wrong_reads:
        reported.append(f"{format_plural(recovery.wrong_reads, 'read')} got wrong data")
    if recovery.unreadable_bytes:
        reported.append(f"{format_size(recovery.unreadable_bytes)} unreadable")
    if recovery.sums_differ_count:
        reported.append(f"sums differ in {format_plural(recovery.sums_differ_count, 'round')}")
    if not reported and recovery.corrupt_blocks is None:
        return "not checked" if recovery.sums_differ_count is None else "sums agree"
    is_lost = recovery.corrupt_blocks or recovery.unreadable_bytes
    if not is_lost and recovery.checked_bytes:
        reported.append(f"all {checked} right")
    return ", ".join(reported) or f"all {format_plural(recovery.checked_blocks, 'read')} right"


def phases_table(recovery: Recovery, identifier: str) -> Table:
    """Return what one failure did to the service, phase by phase.

    Args:
        recovery: The failure.
        identifier: Of the table.
    """
    return Table(
        id=identifier,
        title="Before, meanwhile and after",
        labels=1,
        headers=["", "Lasted", "Rate", "Of the rate before", "p99"],
        rows=[
            [
                capitalized(PHASE_NAMES[phase.phase]),
                with_doubt(phase.length),
                with_doubt(phase.rate),
                with_doubt(phase.share),
                with_doubt(phase.p99),
            ]
            for phase in recovery.phases
        ],
    )


def consequences_table(recovery: Recovery, identifier: str) -> Table:
    """Return what else became of one failure: dip, rebuild, errors, data.

    Args:
        recovery: The failure.
        identifier: Of the table.
    """
    return Table(
        id=identifier,
        title="What came of it",
        labels=1,
        headers=["", ""],
        rows=[[name, text] for name, text in _consequences(recovery)],
    )


def _consequences(recovery: Recovery) -> Iterator[tuple[str, str]]:
    yield "Slowest second, of the rate before", _lowest_text(recovery)
    stall_s = recovery.longest_stall_s
    yield "Longest stall", format_duration_s(stall_s) if stall_s else "none"
    yield "Rebuild took", rebuild_text(recovery)
    yield "Rebuilt", _rate_text(recovery.rebuild_rate)
    yield "Limit of rebuilding", limit_text(recovery.rebuild_limit_kib_per_s)
    yield "Without redundancy", unprotected_text(recovery)
    if recovery.exposed:
        yield "At stake meanwhile", format_size(recovery.at_stake_bytes)
    failed, offered = recovery.failed_count, recovery.offered_count
    yield "Failed requests", f"{format_count(failed)} of {format_count(offered)}"
    yield "Data", data_text(recovery)
    if recovery.mismatch_blocks is not None:
        yield "Scrubs found not to agree", format_size(recovery.mismatch_blocks * 512)


def _lowest_text(recovery: Recovery) -> str:
    """Return the slowest second after the failure, beside the slowest before it."""
    if recovery.lowest_share is None:
        return NO_FIGURE
    usual = recovery.lowest_share_before
    beside = "" if usual is None else f" (before the failure {format_share(usual)})"
    return f"{format_share(recovery.lowest_share)}{beside}"


def _rate_text(rate: Estimate | None) -> str:
    return NO_FIGURE if rate is None else f"{with_doubt(rate)} of each drive"


def limit_text(limit_kib_per_s: int | None) -> str:
    """Return a limit of rebuilding, such as ``4 MiB/s``."""
    return f"{format_size(limit_kib_per_s * KIB)}/s" if limit_kib_per_s else _KERNEL_LIMIT


def limit_table(limits: LimitTable, place: int) -> Table:
    """Return how long a rebuild takes under each limit, and what is left of the service.

    Args:
        limits: The limits.
        place: Its place among all, which tells its table from the others.
    """
    cell = {name: value for name, value in limits.cell.items() if name != "target"}
    return Table(
        id=f"layout-limits-{place}",
        title=f"Rebuild time against service, {limits.target}: {format_identity(cell)}",
        labels=1,
        headers=["Limit of rebuilding", "Rebuild took", "Rate meanwhile, of before", "p99"],
        rows=[
            [
                limit_text(row.limit_kib_per_s),
                with_doubt(row.rebuild_time),
                with_doubt(row.share),
                with_doubt(row.p99),
            ]
            for row in limits.rows
        ],
    )


def failure_words(recovery: Recovery) -> str:
    """Return which failure it is: layout, workload and what was done."""
    faults = "; ".join(recovery.faults)
    words = f"{recovery.variant.target}, {workload_text(recovery.cell)}"
    return f"{words}: {faults}" if faults else words
