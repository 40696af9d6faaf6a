"""The tables of a run's layouts: as built, device I/O, failures, fastest layout for each use.

The terminal, the Markdown export and the page show them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from seatrial.findings.model import Summary
from seatrial.grouping import grouped
from seatrial.report.table import NO_FIGURE, Table, without_empty
from seatrial.stats.model import Estimate
from seatrial.stats.wording import (
    capitalized,
    format_count,
    format_duration_s,
    format_first,
    format_identity,
    format_plural,
    format_share,
    format_size,
)
from seatrial.study.cell import Cell, FactorValue
from seatrial.trials.database.report.tables import narrowed
from seatrial.trials.database.study.workloads import is_of_database
from seatrial.trials.layouts.analysis.figures import BLOCK_BYTES, window_phrase
from seatrial.trials.layouts.analysis.model import (
    Accounting,
    BestLayout,
    LayoutAnalysis,
    LayoutRatio,
    LimitRow,
    LimitTable,
    MeasuredFigure,
    PhaseFigures,
    PhaseName,
    Recovery,
    layouts_of,
)
from seatrial.trials.layouts.report.figures import figure_name
from seatrial.trials.layouts.report.phrases import (
    PHASE_NAMES,
    BuiltVariant,
    chunk_text,
    drives_text,
    mean_of_builds,
    others_text,
    variants_of,
    with_interval,
    workload_text,
)
from seatrial.units import KIB

_KERNEL_LIMIT: Final = "kernel default"


def failure_tables(found: LayoutAnalysis) -> list[Table]:
    """Return one table with a row for each failure, and tables of rebuild limits."""
    tables = [failures_table(found.recoveries)] if found.recoveries else []
    return [*tables, *(limit_table(each, number) for number, each in enumerate(found.limits, 1))]


def failures_table(recoveries: Sequence[Recovery]) -> Table:
    """Return a row for each cell with injected faults."""
    table = Table(
        id="layout-failures",
        title="Effects of failures",
        labels=2,
        headers=[
            *("Layout", "Workload", "Before", "Meanwhile", "After", "Slowest second"),
            *("Rebuild time", "No redundancy", "Failed", "Data"),
        ],
        rows=[
            [
                recovery.variant.target,
                _limited_workload(recovery),
                *_timeline_texts(recovery),
                *(rebuild_text(recovery), unprotected_text(recovery)),
                *(format_count(recovery.failed_count), data_text(recovery)),
            ]
            for recovery in recoveries
        ],
    )
    return without_empty(table)


def _limited_workload(recovery: Recovery) -> str:
    """Return the workload with its rebuild limit, which several rows may differ in."""
    limit = recovery.rebuild_limit_kib_per_s
    return f"{recovery.cell.workload}{f', limit {limit_text(limit)}' if limit else ''}"


def _timeline_texts(recovery: Recovery) -> list[str]:
    """Return the rate before, and the shares until repaired, then and in the slowest second."""
    before, after = recovery.phase("before"), recovery.phase("after")
    names: tuple[PhaseName, ...] = ("rebuild", "degraded", "scrub")
    meanwhile = next(filter(None, map(recovery.phase, names)), None)
    return [
        with_interval(before.rate) if before else NO_FIGURE,
        NO_FIGURE if meanwhile is None else _meanwhile_text(meanwhile),
        NO_FIGURE if after is None else with_interval(after.share),
        NO_FIGURE if recovery.lowest_share is None else format_share(recovery.lowest_share),
    ]


def _meanwhile_text(phase: PhaseFigures) -> str:
    """Return the share of a phase, which is named unless it is the rebuild."""
    name = "" if phase.phase == "rebuild" else f" ({PHASE_NAMES[phase.phase]})"
    return f"{with_interval(phase.share)}{name}"


def rebuild_text(recovery: Recovery) -> str:
    """Return the rebuild time, or its progress: ``unfinished, 40 % done``."""
    if recovery.rebuild_time:
        rest = ", finished without load" if recovery.after_load_count else ""
        return f"{_rebuild_time_text(recovery)}{rest}"
    if not recovery.unfinished_count:
        return "none"
    share = recovery.unfinished_share
    return "unfinished" if share is None else f"unfinished, {format_share(share)} done"


def _rebuild_time_text(of: Recovery | LimitRow) -> str:
    """Return the time of the rebuilds that ended, and how many did not."""
    time, unfinished = of.rebuild_time, of.unfinished_count
    rest = f", {unfinished} of {time.rounds + unfinished} unfinished" if time and unfinished else ""
    return f"{with_interval(time)}{rest}"


def unprotected_text(recovery: Recovery) -> str:
    """Return how long one more failure could have lost data; ``never`` if it could not."""
    if not recovery.exposed:
        return "never"
    if recovery.window_open_s is None:
        return with_interval(recovery.window)
    return window_phrase(recovery)


def data_text(recovery: Recovery) -> str:
    """Return the state of the data: correct, corrupt, unreadable, or not verified."""
    texts = []
    if recovery.array_failed_count:
        texts.append(f"array failed in {format_plural(recovery.array_failed_count, 'round')}")
    checked = format_size(recovery.checked_bytes)
    if recovery.wrong_bytes:
        texts.append(f"{format_size(recovery.wrong_bytes)} of {checked} corrupt")
    if recovery.wrong_reads:
        texts.append(f"{format_plural(recovery.wrong_reads, 'read')} returned corrupt data")
    if recovery.unreadable_bytes:
        texts.append(f"{format_size(recovery.unreadable_bytes)} unreadable")
    if recovery.sums_differ_count:
        texts.append(f"sums differ in {format_plural(recovery.sums_differ_count, 'round')}")
    if not texts and recovery.corrupt_blocks is None:
        return "not verified" if recovery.sums_differ_count is None else "sums match"
    is_lost = recovery.corrupt_blocks or recovery.unreadable_bytes
    if not is_lost and recovery.checked_bytes:
        texts.append(f"all {checked} correct")
    return ", ".join(texts) or f"all {format_plural(recovery.checked_blocks, 'read')} correct"


def phases_table(recovery: Recovery, identifier: str) -> Table:
    """Return the service in each phase of one failure."""
    return Table(
        id=identifier,
        title="Service by phase",
        labels=1,
        headers=["Phase", "Duration", "Rate", "Relative to before", "p99"],
        rows=[
            [
                capitalized(PHASE_NAMES[phase.phase]),
                with_interval(phase.length),
                with_interval(phase.rate),
                with_interval(phase.share),
                with_interval(phase.p99),
            ]
            for phase in recovery.phases
        ],
    )


def consequences_table(recovery: Recovery, identifier: str) -> Table:
    """Return the other effects of one failure: dip, rebuild, errors, data."""
    return Table(
        id=identifier,
        title="Effects",
        labels=1,
        headers=["", ""],
        rows=[[name, text] for name, text in _consequences(recovery)],
    )


def _consequences(recovery: Recovery) -> Iterator[tuple[str, str]]:
    yield "Slowest second, relative to before", _lowest_text(recovery)
    stall_s = recovery.longest_stall_s
    yield "Longest stall", format_duration_s(stall_s) if stall_s else "none"
    yield "Rebuild time", rebuild_text(recovery)
    yield "Rebuild speed", _rate_text(recovery.rebuild_rate)
    yield "Rebuild speed limit", limit_text(recovery.rebuild_limit_kib_per_s)
    yield "Time without redundancy", unprotected_text(recovery)
    if recovery.exposed:
        yield "Data at risk", format_size(recovery.at_stake_bytes)
    failed, offered = recovery.failed_count, recovery.offered_count
    yield "Failed requests", f"{format_count(failed)} of {format_count(offered)}"
    yield "Data", data_text(recovery)
    if recovery.mismatch_blocks is not None:
        yield "Mismatches found by scrubs", format_size(recovery.mismatch_blocks * 512)


def _lowest_text(recovery: Recovery) -> str:
    """Return the slowest second after the failure, and the slowest before it."""
    if recovery.lowest_share is None:
        return NO_FIGURE
    usual = recovery.lowest_share_before
    alongside = "" if usual is None else f" (before the failure {format_share(usual)})"
    return f"{format_share(recovery.lowest_share)}{alongside}"


def _rate_text(rate: Estimate | None) -> str:
    return NO_FIGURE if rate is None else f"{with_interval(rate)} per drive"


def limit_text(limit_kib_per_s: int | None) -> str:
    """Return a rebuild speed limit, such as ``4 MiB/s``."""
    return f"{format_size(limit_kib_per_s * KIB)}/s" if limit_kib_per_s else _KERNEL_LIMIT


def limit_table(limits: LimitTable, number: int) -> Table:
    """Return the rebuild time and the remaining service for each limit.

    Args:
        limits: The limits.
        number: Its number, for the identifier of the table.
    """
    cell = {name: value for name, value in limits.cell.items() if name != "target"}
    return Table(
        id=f"layout-limits-{number}",
        title=f"Rebuild time against service, {limits.target}: {format_identity(cell)}",
        labels=1,
        headers=["Rebuild speed limit", "Rebuild time", "Rate relative to before", "p99"],
        rows=[
            [
                limit_text(row.limit_kib_per_s),
                _rebuild_time_text(row),
                with_interval(row.share),
                with_interval(row.p99),
            ]
            for row in limits.rows
        ],
    )


def failure_text(recovery: Recovery) -> str:
    """Return a failure in words: layout, workload and faults."""
    faults = "; ".join(recovery.faults)
    words = f"{recovery.variant.target}, {workload_text(recovery.cell)}"
    return f"{words}: {faults}" if faults else words


_LESS_INFORMATIVE: Final = (
    *("Bytes read", "Other drives", "Not significantly slower", "Runner-up", "Ratio", "Chunk"),
    *("Sync time", "Slowest second", "Build time", "Rule (bytes)", "No redundancy"),
    *("File system", "After", "Before"),
)
"""Columns that are dropped on a narrow terminal, least important first."""

_NAMES_MAX: Final = 4
_NEGLIGIBLE: Final = 0.005
"""Device requests per request of the array below which 0.00 is shown."""


def layout_tables(summary: Summary) -> list[Table]:
    """Return the tables of a run's layouts for a terminal; empty if it has none."""
    variants = variants_of(summary)
    if not variants:
        return []
    found = [built_table(variants)]
    if analysis := layouts_of(summary):
        found += analysed_tables(analysis)
    return [narrowed(table, _LESS_INFORMATIVE) for table in found]


def analysed_tables(found: LayoutAnalysis) -> list[Table]:
    """Return the analysed tables: device I/O, failures, the fastest layout for each use."""
    tables = [accounting_table(informative(found.accounting))] if found.accounting else []
    tables += failure_tables(found)
    return [*tables, *([best_table(found.best)] if found.best else [])]


def built_table(variants: Sequence[BuiltVariant]) -> Table:
    """Return a row for each variant as built."""
    table = Table(
        id="layout-built",
        title="Layouts as built",
        labels=1,
        headers=[
            *("Layout", "Backend", "Level", "Drives", "Other drives", "Chunk", "File system"),
            *("Usable", "Build time", "Sync time", "Aligned"),
        ],
        rows=[_built_row(variant) for variant in variants],
    )
    return without_empty(table)


def _built_row(variant: BuiltVariant) -> list[str]:
    spec, record = variant.spec, variant.record
    return [
        spec.label,
        spec.backend,
        spec.level,
        drives_text(spec),
        others_text(spec),
        chunk_text(variant),
        spec.filesystem,
        format_size(record.usable_bytes) if record.usable_bytes else NO_FIGURE,
        with_interval(mean_of_builds(variant, "built_s")),
        with_interval(mean_of_builds(variant, "synced_s")),
        "no" if record.misaligned else "yes",
    ]


def accounting_table(accounts: Sequence[Accounting], *, with_rule: bool = False) -> Table:
    """Return the device I/O per request to the array, with the rule of the level.

    Args:
        accounts: At least one.
        with_rule: Whether to add the rule in words.
    """
    table = Table(
        id="layout-accounting",
        title="Device I/O per request to the array",
        labels=2,
        headers=[
            *("Layout", "Request", "Reads", "Writes", "Rule"),
            *("Bytes read", "Bytes written", "Rule (bytes)"),
            *(["Rule in words"] if with_rule else []),
        ],
        rows=[_account_row(each, with_rule=with_rule) for each in accounts],
    )
    return without_empty(table)


def informative(accounts: Sequence[Accounting]) -> list[Accounting]:
    """Return one cell per layout and kind of request, with small random requests if possible.

    The device I/O per request depends on its size and hardly on concurrency.
    """
    kinds = grouped(
        [each for each in accounts if each.per != "copy"] or accounts,
        lambda each: (each.variant.target, each.per, _is_buffered(each), _state(each)),
    )
    chosen = [min(same, key=_distance) for same in kinds.values()]
    by_target = grouped(chosen, lambda each: each.variant.target)
    return [each for same in by_target.values() for each in same]


def by_size(accounts: Sequence[Accounting]) -> list[Accounting]:
    """Return one cell per layout, kind and size of request: that of the lowest concurrency."""
    sizes = grouped(accounts, lambda each: (each.variant.target, _request_text(each)))
    return [min(same, key=lambda each: _in_flight(each.cell)) for same in sizes.values()]


def _distance(account: Accounting) -> tuple[bool, float, int]:
    """Return a key that sorts random requests of about 8 KiB first, then by concurrency."""
    cell = account.cell
    is_random = cell.factors.get("pattern") == "random"
    size_bytes = cell.block_size_bytes or BLOCK_BYTES
    return not is_random, abs(math.log2(size_bytes / BLOCK_BYTES)), _in_flight(cell)


def _in_flight(cell: Cell) -> int:
    return cell.threads * cell.depth


def _state(account: Accounting) -> str:
    """Return ``degraded`` if a drive was missing, with the share of requests if not all."""
    share = account.degraded_share
    if not share:
        return ""
    return "degraded" if share > 1 - _NEGLIGIBLE else f"{format_share(share)} degraded"


def _request_text(account: Accounting) -> str:
    """Return the request to the array: ``random write 8 KiB``, ``transaction, degraded``."""
    identity = account.cell.identity()
    named: dict[str, FactorValue] = {
        name: identity[name]
        for name in ("pattern", "operation", "block_size_bytes")
        if name in identity
    }
    words = account.per if is_of_database(account.cell) else format_identity(named)
    through = "buffered" if _is_buffered(account) else ""
    return ", ".join(filter(None, [words, through, _state(account)]))


def _is_buffered(account: Accounting) -> bool:
    """Return whether a cell, other than a database's, uses the page cache."""
    return not is_of_database(account.cell) and not account.cell.parsed.target.direct


def _account_row(account: Accounting, *, with_rule: bool) -> list[str]:
    rule = account.rule
    return [
        account.variant.target,
        _request_text(account),
        per_text(account.reads),
        per_text(account.writes),
        _rule_text(account),
        _ratio_text(account.read_bytes),
        _ratio_text(account.write_bytes),
        _bytes_rule_text(account),
        *([rule.words if rule and rule.words else NO_FIGURE] if with_rule else []),
    ]


def per_text(estimate: Estimate) -> str:
    """Return requests per operation: ``2.02 ± 1 %``; ``0.00`` if there were hardly any."""
    top = estimate.value if estimate.high is None else estimate.high
    return "0.00" if top < _NEGLIGIBLE else with_interval(estimate)


def _rule_text(account: Accounting) -> str:
    """Return what the level requires, as ``2 + 2``: reads and writes."""
    rule = account.rule
    if rule is None or rule.reads is None or rule.writes is None:
        return NO_FIGURE
    return f"{_short(rule.reads)} + {_short(rule.writes)}"


def _ratio_text(estimate: Estimate | None) -> str:
    return NO_FIGURE if estimate is None else per_text(estimate)


def _bytes_rule_text(account: Accounting) -> str:
    """Return device bytes per byte; a range if it depends on the file system."""
    rule = account.rule
    if rule is None or (account.write_bytes is None and account.read_bytes is None):
        return NO_FIGURE
    read = _range_text(rule.read_bytes, rule.read_bytes_max)
    written = _range_text(rule.write_bytes, rule.write_bytes_max)
    return f"{read} + {written}"


def _range_text(low: float, high: float) -> str:
    return _short(low) if high - low < _NEGLIGIBLE else f"{_short(low)} to {_short(high)}"


def _short(value: float) -> str:
    """Return an exact figure with at most two decimals: ``2``, ``1.33``."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def members_table(accounts: Sequence[Accounting]) -> Table:
    """Return the I/O of each drive in each cell, relative to the others of its role."""
    rows = [
        [
            account.variant.target,
            _request_text(account),
            member.drive,
            member.role,
            per_text(member.reads),
            per_text(member.writes),
            _ratio_text(member.bytes_ratio),
            NO_FIGURE if member.busy_share is None else format_share(member.busy_share.value),
            _ratio_text(member.busy_ratio),
        ]
        for account in accounts
        for member in account.members
    ]
    return Table(
        id="layout-members",
        title="Device I/O by drive",
        labels=4,
        headers=[
            *("Layout", "Request", "Drive", "Role", "Reads", "Writes"),
            *("Bytes / others", "Busy", "Busy / others"),
        ],
        rows=rows,
    )


def best_table(best: Sequence[BestLayout]) -> Table:
    """Return the fastest layout for each use."""
    table = Table(
        id="layout-best",
        title="Fastest layouts",
        labels=2,
        headers=[
            *("Use", "Among", "Layout", "Figure", "Ratio", "Runner-up"),
            "Not significantly slower",
        ],
        rows=[
            [
                each.use,
                "redundant" if each.among == "redundant" else "all",
                _with_equals(each),
                with_interval(each.figure),
                with_interval(each.ratio),
                each.runner_up or NO_FIGURE,
                format_first(each.equals, _NAMES_MAX) or NO_FIGURE,
            ]
            for each in best
        ],
    )
    return without_empty(table)


def _with_equals(best: BestLayout) -> str:
    """Return the fastest layout, and how many others are not significantly slower."""
    if not best.equals:
        return best.target
    return f"{best.target} or {format_plural(len(best.equals), 'other')}"


def ratios_table(ratios: Sequence[LayoutRatio]) -> Table:
    """Return every pair of layouts that differ in one factor, compared round by round."""
    return Table(
        id="layout-ratios",
        title="Layouts that differ in one factor",
        labels=4,
        headers=["Factor", "Layout", "Compared with", "Requests", "Ratio", "Result", "Tests"],
        rows=[
            [
                capitalized(each.factor.removesuffix("_kib").replace("_", " ")),
                f"{each.b} ({each.value_b})",
                f"{each.a} ({each.value_a})",
                each.operation,
                with_interval(each.ratio),
                each.answer,
                str(each.cells),
            ]
            for each in ratios
        ],
    )


def figure_table(figure: MeasuredFigure, number: int) -> Table:
    """Return the table of a figure against the number of drives.

    Args:
        figure: The figure.
        number: Its number, for the identifier of the table.
    """
    counts = sorted({point.x for line in figure.lines for point in line.points})
    rows = []
    for line in figure.lines:
        known = {point.x: with_interval(point.y) for point in line.points}
        saturation = f"at {line.saturation.drives}" if line.saturation else NO_FIGURE
        figures = [known.get(count, NO_FIGURE) for count in counts]
        rows.append([line.operation, line.name, *figures, saturation])
    return Table(
        id=f"layout-figure-{number}",
        title=figure_name(figure),
        labels=2,
        headers=[
            *("Requests", "Layouts", *(format_plural(count, "drive") for count in counts)),
            "Saturates",
        ],
        rows=rows,
    )
