"""The tables of a run's layouts: as built, what their drives did, which is best for what.

The terminal, the Markdown export and the page all show these; failures are in
layout_failure_tables.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from seatrial.findings.model import Summary
from seatrial.report.figures.naming import capitalized, grouped
from seatrial.report.table import NO_FIGURE, Table, without_empty
from seatrial.stats.model import Estimate
from seatrial.stats.wording import format_identity, format_plural, format_share, format_size
from seatrial.study.cell import Cell, FactorValue
from seatrial.trials.database.report.tables import narrowed
from seatrial.trials.database.study.workloads import is_of_database
from seatrial.trials.layouts.analysis.figures import BLOCK_BYTES
from seatrial.trials.layouts.analysis.model import (
    Accounting,
    Best,
    DrawnFigure,
    LayoutAnalysis,
    LayoutRatio,
    layouts_of,
)
from seatrial.trials.layouts.report.failure_tables import failure_tables
from seatrial.trials.layouts.report.figures import figure_name
from seatrial.trials.layouts.report.words import (
    Variant,
    chunk_text,
    drives_text,
    mean_of_builds,
    others_text,
    variants_of,
    with_doubt,
)

_LESS_TELLING: Final = (
    *(
        "Bytes read",
        "Others",
        "As fast, perhaps",
        "that of",
        "Times",
        "Chunk",
        "Synchronised",
        "Lowest",
    ),
    *("Built", "Rule, bytes", "Unprotected", "File system", "After"),
)
"""Columns that a narrow place does without, the least telling first."""

_NAMES_MAX: Final = 4
_HARDLY_ANY: Final = 0.005
"""Requests of a drive for each of the array that round to 0.00."""


def layout_tables(summary: Summary) -> list[Table]:
    """Return the tables of a run's layouts that fit a terminal; none where it has none."""
    variants = variants_of(summary)
    if not variants:
        return []
    found = [built_table(variants)]
    if analysis := layouts_of(summary):
        found += analysed_tables(analysis)
    return [narrowed(table, _LESS_TELLING) for table in found]


def analysed_tables(found: LayoutAnalysis) -> list[Table]:
    """Return what the analysis says of layouts: accounting, failures, the best for each use."""
    tables = [accounting_table(informative(found.accounting))] if found.accounting else []
    tables += failure_tables(found)
    return [*tables, *([best_table(found.best)] if found.best else [])]


def built_table(variants: Sequence[Variant]) -> Table:
    """Return the variants as they were built, a row each."""
    table = Table(
        id="layout-built",
        title="Layouts as built",
        labels=1,
        headers=[
            *("Layout", "Backend", "Level", "Drives", "Others", "Chunk", "File system"),
            *("Usable", "Built", "Synchronised", "Aligned"),
        ],
        rows=[_built_row(variant) for variant in variants],
    )
    return without_empty(table)


def _built_row(variant: Variant) -> list[str]:
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
        with_doubt(mean_of_builds(variant, "built_s")),
        with_doubt(mean_of_builds(variant, "synced_s")),
        "no" if record.misaligned else "yes",
    ]


def accounting_table(accounts: Sequence[Accounting], *, with_words: bool = False) -> Table:
    """Return what the drives did for each request to the array, beside the level's rule.

    Args:
        accounts: At least one.
        with_words: Whether the rule is told in words, too, where there is room for it.
    """
    table = Table(
        id="layout-accounting",
        title="What the drives did for each request to the array",
        labels=2,
        headers=[
            *("Layout", "Request", "Reads", "Writes", "Rule"),
            *("Bytes read", "Bytes written", "Rule, bytes"),
            *(["The rule in words"] if with_words else []),
        ],
        rows=[_account_row(each, with_words=with_words) for each in accounts],
    )
    return without_empty(table)


def informative(accounts: Sequence[Accounting]) -> list[Accounting]:
    """Return one of each layout and kind of request, that of small random requests where it can.

    What drives do for a request hangs on its size and hardly on how many there are at a time.
    """
    kinds = grouped(
        [each for each in accounts if each.per != "copy"] or accounts,
        lambda each: (each.variant.target, each.per, _is_buffered(each), _state(each)),
    )
    chosen = [min(same, key=_distance) for same in kinds.values()]
    by_target = grouped(chosen, lambda each: each.variant.target)
    return [each for same in by_target.values() for each in same]


def by_size(accounts: Sequence[Accounting]) -> list[Accounting]:
    """Return one of each layout, kind and size of request: that of the fewest at a time."""
    sizes = grouped(accounts, lambda each: (each.variant.target, _request_text(each)))
    return [min(same, key=lambda each: _at_a_time(each.cell)) for same in sizes.values()]


def _distance(account: Accounting) -> tuple[bool, float, int]:
    """Return a key that sorts random requests of about 8 KiB first, then few at a time."""
    cell = account.cell
    is_random = cell.factors.get("pattern") == "random"
    size_bytes = cell.block_size_bytes or BLOCK_BYTES
    return not is_random, abs(math.log2(size_bytes / BLOCK_BYTES)), _at_a_time(cell)


def _at_a_time(cell: Cell) -> int:
    return cell.threads * cell.depth


def _state(account: Accounting) -> str:
    """Return ``degraded`` where a drive was missing, with the share of requests if not of all."""
    share = account.degraded_share
    if not share:
        return ""
    return "degraded" if share > 1 - _HARDLY_ANY else f"{format_share(share)} degraded"


def _request_text(account: Accounting) -> str:
    """Return what is asked of the array: ``random write 8 KiB``, ``transaction, degraded``."""
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
    """Tell whether a cell, other than a database's, leaves it to the page cache what is written."""
    target = account.cell.spec.get("target", {})
    return not is_of_database(account.cell) and not target.get("direct", True)


def _account_row(account: Accounting, *, with_words: bool) -> list[str]:
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
        *([rule.words if rule and rule.words else NO_FIGURE] if with_words else []),
    ]


def per_text(estimate: Estimate) -> str:
    """Return requests for each operation: ``2.02 ± 1 %``; ``0.00`` where there were hardly any."""
    top = estimate.value if estimate.high is None else estimate.high
    return "0.00" if top < _HARDLY_ANY else with_doubt(estimate)


def _rule_text(account: Accounting) -> str:
    """Return what the level asks for, as ``2 + 2``: reads and writes."""
    rule = account.rule
    if rule is None or rule.reads is None or rule.writes is None:
        return NO_FIGURE
    return f"{_short(rule.reads)} + {_short(rule.writes)}"


def _ratio_text(estimate: Estimate | None) -> str:
    return NO_FIGURE if estimate is None else per_text(estimate)


def _bytes_rule_text(account: Accounting) -> str:
    """Return bytes written for each byte, a range where the file system has a say in it."""
    rule = account.rule
    if rule is None or (account.write_bytes is None and account.read_bytes is None):
        return NO_FIGURE
    read = _range_text(rule.read_bytes, rule.read_bytes_max)
    written = _range_text(rule.write_bytes, rule.write_bytes_max)
    return f"{read} + {written}"


def _range_text(low: float, high: float) -> str:
    return _short(low) if high - low < _HARDLY_ANY else f"{_short(low)} to {_short(high)}"


def _short(value: float) -> str:
    """Return an exact figure with two decimals at most: ``2``, ``1.33``."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def members_table(accounts: Sequence[Accounting]) -> Table:
    """Return what each drive did in each cell, with its share of the mean of its role."""
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
        title="What each drive did",
        labels=4,
        headers=[
            *("Layout", "Request", "Drive", "Role", "Reads", "Writes"),
            *("Bytes / mean", "Busy", "Busy / mean"),
        ],
        rows=rows,
    )


def best_table(best: Sequence[Best]) -> Table:
    """Return which layout is best for what."""
    table = Table(
        id="layout-best",
        title="The fastest layout",
        labels=2,
        headers=["For", "Among", "Layout", "Figure", "Times", "that of", "As fast, perhaps"],
        rows=[
            [
                each.use,
                "redundant" if each.among == "redundant" else "all",
                _with_equals(each),
                with_doubt(each.figure),
                with_doubt(each.ratio),
                each.runner_up or NO_FIGURE,
                _some(each.equals),
            ]
            for each in best
        ],
    )
    return without_empty(table)


def _some(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    more = len(names) - _NAMES_MAX
    reported = ", ".join(names[:_NAMES_MAX]) or NO_FIGURE
    return f"{reported} and {more} more" if more > 0 else reported


def _with_equals(best: Best) -> str:
    """Return the fastest layout, and how many others may be as fast."""
    if not best.equals:
        return best.target
    return f"{best.target} or {format_plural(len(best.equals), 'other')}"


def ratios_table(ratios: Sequence[LayoutRatio]) -> Table:
    """Return every pair of layouts that differ in one factor, compared round by round."""
    return Table(
        id="layout-ratios",
        title="Layouts that differ in one thing",
        labels=4,
        headers=["What", "Layout", "against", "Requests", "Ratio", "Answer", "Cells"],
        rows=[
            [
                capitalized(each.factor.removesuffix("_kib").replace("_", " ")),
                f"{each.b} ({each.value_b})",
                f"{each.a} ({each.value_a})",
                each.operation,
                with_doubt(each.ratio),
                each.answer,
                str(each.cells),
            ]
            for each in ratios
        ],
    )


def figure_table(figure: DrawnFigure, place: int) -> Table:
    """Return a figure of the article that stands against the number of drives.

    Args:
        figure: The figure.
        place: Its place among all, which tells its table from the others.
    """
    places = sorted({point.x for line in figure.lines for point in line.points})
    rows = []
    for line in figure.lines:
        known = {point.x: with_doubt(point.y) for point in line.points}
        until = f"from {line.saturation.drives} on" if line.saturation else NO_FIGURE
        figures = [known.get(count, NO_FIGURE) for count in places]
        rows.append([line.operation, line.name, *figures, until])
    return Table(
        id=f"layout-figure-{place}",
        title=figure_name(figure),
        labels=2,
        headers=[
            *("Requests", "Layouts", *(format_plural(count, "drive") for count in places)),
            "No more",
        ],
        rows=rows,
    )
