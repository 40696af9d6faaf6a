"""The tables of a run, for terminal and Markdown.

The matrix has the layout of bm-flash: a row for each block size, a group of columns for each number
of threads. The third column of a group is the uncertainty of the other two: within a cell,
bandwidth is IOPS times the block size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from seatrial.findings.answer import clipped
from seatrial.findings.model import Summary
from seatrial.grouping import grouped
from seatrial.report.figures.naming import varying
from seatrial.report.lab import notices_of
from seatrial.report.table import (
    ABSENT,
    NO_FIGURE,
    NOT_MEASURED,
    Group,
    Table,
    doubt_text,
    latency_text,
    rate_text,
)
from seatrial.results.model import Run, origin_of
from seatrial.stats.model import CellSummary
from seatrial.stats.steady.phases import SteadyState
from seatrial.stats.wording import capitalized, format_cell, format_duration_s, format_size, moment
from seatrial.study.cell import FactorValue
from seatrial.study.plan import usual_factors
from seatrial.topic import topics

RULE_NAMES: Final = {
    "snia": "SNIA",
    "fio_deviation": "fio, deviation",
    "fio_slope": "fio, slope",
}
_START: Final = "0 s"


def informative(states: Sequence[SteadyState]) -> list[SteadyState]:
    """Return the states other than a cell that is steady throughout."""
    return [
        state
        for state in states
        if len(state.phases) > 1 or any(phase.state != "steady" for phase in state.phases)
    ]


def steady_table(states: Sequence[SteadyState], cells: Sequence[CellSummary]) -> Table:
    """Return a row for each phase, in order of time.

    Args:
        states: At least one.
        cells: The cells of the states, and others.
    """
    names = {summary.cell.key: format_cell(summary.cell) for summary in cells}
    return Table(
        id="steady",
        title="Phases: fresh, in transition, steady, or away from it again",
        labels=3,
        headers=["Test", "Requests", "Phase", "From", "To", _rate_unit(states), "±"],
        rows=[
            [
                names.get(state.cell, state.cell) + _round_text(state),
                state.operation,
                phase.state,
                format_duration_s(phase.start_s) if phase.start_s else _START,
                format_duration_s(phase.end_s),
                rate_text(phase.rate),
                doubt_text(phase.rate),
            ]
            for state in states
            for phase in state.phases
        ],
    )


def rules_table(states: Sequence[SteadyState], cells: Sequence[CellSummary]) -> Table:
    """Return the result of each rule for each state."""
    names = {summary.cell.key: format_cell(summary.cell) for summary in cells}
    return Table(
        id="steady-rules",
        title="Rules of steady state",
        labels=3,
        headers=["Test", "Requests", "Rule", "Met", "Sentence"],
        rows=[
            [
                names.get(state.cell, state.cell) + _round_text(state),
                state.operation,
                RULE_NAMES.get(rule.rule, rule.rule),
                "yes" if rule.met else "no",
                rule.sentence,
            ]
            for state in states
            for rule in state.rules
        ],
    )


def _rate_unit(states: Sequence[SteadyState]) -> str:
    """Return the unit of all rates; a neutral word if they differ."""
    units = {phase.rate.unit for state in states for phase in state.phases}
    return units.pop() if len(units) == 1 else "Per second"


def _round_text(state: SteadyState) -> str:
    """Return the number of the round as text; empty if time runs over rounds."""
    return "" if state.round is None else f", round {state.round + 1}"


PERCENTILES = ("p50", "p99", "p99.9")
PERCENTILES_FEW = ("p50", "p99")
LAYOUTS = "layouts"
"""Target of a table that several layouts share."""


class _Figures(msgspec.Struct, frozen=True):
    """Headers of a table's figures, and the function that returns a cell's texts for them."""

    headers: list[str]
    texts: Callable[[CellSummary], list[str]]


def tables(summary: Summary) -> list[Table]:
    """Return the tables of a run: one or more per kind of workload and target."""
    found: list[Table] = []
    for topic in topics():
        for kind, heading in topic.titles.items():
            members = [part for part in summary.cells if part.cell.kind == kind]
            for (target, workload), cells in sorted(_tabled(members).items()):
                if own := topic.own_table(summary, target, workload):
                    found.append(own)
                    continue
                name = heading if workload == kind else f"{heading} ({workload})"
                build = _BUILDERS.get(kind, _single)
                found += build(f"{kind}-{target}-{workload}", f"{name}, {target}", cells)
    if origin_of(summary.run) is not None:
        found = [_as_imported(table) for table in found]
    found += [table for topic in topics() for table in topic.tables(summary)]
    if lasting := informative(summary.steady):
        found.append(steady_table(lasting, summary.cells))
    return found


def _tabled(cells: Sequence[CellSummary]) -> dict[tuple[str, str], list[CellSummary]]:
    """Return the cells of one kind by target and workload; several layouts share their tables."""
    of_layouts = [part for part in cells if _target_noun(part)]
    layouts = grouped(of_layouts, lambda part: part.cell.workload)
    shared = {
        part.cell.key
        for same in layouts.values()
        if len({part.cell.target for part in same}) > 1
        for part in same
    }

    def target_and_workload(part: CellSummary) -> tuple[str, str]:
        target = LAYOUTS if part.cell.key in shared else part.cell.target
        return (target, part.cell.workload)

    return grouped(cells, target_and_workload)


def _as_imported(table: Table) -> Table:
    """Return a table of an imported result, whose missing cells are absent, not unmeasured."""
    rows = [[ABSENT if text == NOT_MEASURED else text for text in row] for row in table.rows]
    return msgspec.structs.replace(table, rows=rows)


def runs_table(runs: Sequence[Run]) -> Table:
    """Return the runs of a results file in the given order; those of the lab are marked."""
    from_lab = notices_of(runs)
    has_notes = any(run.note for run in runs)
    return Table(
        id="runs",
        title="Runs",
        labels=5 + bool(from_lab) + has_notes,
        headers=[
            *("Run", "Label", "Study", "Status", "Started"),
            *(["Where"] if from_lab else []),
            *(["Note"] if has_notes else []),
        ],
        rows=[
            [
                *(run.id, run.label or NO_FIGURE, run.study_name, run.status),
                moment(run.started_at),
                *(["lab" if run.id in from_lab else NO_FIGURE] if from_lab else []),
                *([_note_text(run.note)] if has_notes else []),
            ]
            for run in runs
        ],
    )


_NOTE_LETTERS_MAX: Final = 40


def _note_text(note: str) -> str:
    """Return the beginning of a note in one line."""
    return clipped(" ".join(note.split()), _NOTE_LETTERS_MAX) or NO_FIGURE


def _rates(summary: CellSummary) -> list[str]:
    if summary.blank:
        return ["0", "0", summary.blank]
    # If all requests have one size, the two intervals differ by rounding only; use that of IOPS.
    wider = max(
        summary.iops, summary.bandwidth, key=lambda part: round(part.half_width_share or 0.0, 3)
    )
    return [rate_text(summary.iops), rate_text(summary.bandwidth), doubt_text(wider)]


def _bandwidth(summary: CellSummary) -> list[str]:
    if summary.blank:
        return ["0", summary.blank]
    return [rate_text(summary.bandwidth), doubt_text(summary.bandwidth)]


def _commit_rate(summary: CellSummary) -> list[str]:
    if summary.blank:
        return ["0", summary.blank]
    return [rate_text(summary.iops), doubt_text(summary.iops)]


_RATES = _Figures(["IOPS", "MB/s", "±"], _rates)
_BANDWIDTH = _Figures(["MB/s", "±"], _bandwidth)
_COMMIT_RATE = _Figures(["Commits/s", "±"], _commit_rate)


def _with_latency(rates: _Figures, cells: Sequence[CellSummary]) -> _Figures:
    """Return ``rates`` with percentiles and maximum of the cells' response times.

    If a cell has requests of several kinds, each kind has fewer columns of its own.
    """
    if all(len(part.latency) <= 1 for part in cells):
        names = (*PERCENTILES, "max")
        return _Figures(
            [*rates.headers, *names],
            lambda part: [*rates.texts(part), *_latency_texts(part, [*part.latency], names)],
        )
    kinds = list(dict.fromkeys(kind for part in cells for kind in part.latency))
    return _Figures(
        [*rates.headers, *(f"{kind} {name}" for kind in kinds for name in PERCENTILES_FEW)],
        lambda part: [*rates.texts(part), *_latency_texts(part, kinds, PERCENTILES_FEW)],
    )


def _latency_texts(summary: CellSummary, kinds: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return each percentile of each kind; a dash for a kind that the cell lacks."""
    if not kinds:
        return [NO_FIGURE] * len(names)
    return [
        latency_text(summary.latency[kind], name, summary.latency_at_least.get(kind))
        if kind in summary.latency
        else NO_FIGURE
        for kind in kinds
        for name in names
    ]


def _factor_text(name: str, value: FactorValue | None) -> str:
    if value is None:
        return NO_FIGURE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "sync_every" and not value:
        return "never"
    if name.endswith("_bytes"):
        return format_size(int(value)) if value else "mixed"
    return str(value)


def _factor_texts(names: Sequence[str], values: Sequence[FactorValue | None]) -> list[str]:
    return [_factor_text(name, value) for name, value in zip(names, values, strict=True)]


def _factor_header(name: str, like: CellSummary) -> str:
    """Return the heading of a factor's column, in a table of cells such as this one."""
    if name == "threads" and like.cell.kind == "commit":
        return "Committers"
    if name == "target" and (noun := _target_noun(like)):
        return capitalized(noun)
    return capitalized(name.removesuffix("_bytes").removesuffix("_s").replace("_", " "))


def _target_noun(summary: CellSummary) -> str:
    """Return the noun for the target of a cell if it is not a plain target."""
    return next(filter(None, (topic.target_noun(summary) for topic in topics())), "")


def _values(summary: CellSummary, names: Sequence[str]) -> tuple[FactorValue | None, ...]:
    known = usual_factors(summary.cell) | summary.cell.identity()
    return tuple(known.get(name) for name in names)


def _sorting(values: Sequence[FactorValue | None]) -> tuple[tuple[bool, float, str], ...]:
    """Return a key that sorts numbers as numbers, before texts as texts."""
    return tuple(
        (True, 0.0, value) if isinstance(value, str) else (False, float(value or 0), "")
        for value in values
    )


def _listed(
    table_id: str, title: str, cells: Sequence[CellSummary], figures: _Figures
) -> list[Table]:
    """Return a table with a row for each cell, named by the factors that differ."""
    names = varying(cells) or ["operation"]
    targets = list(dict.fromkeys(part.cell.target for part in cells))
    others = [name for name in names if name != "target"]

    def order(part: CellSummary) -> tuple[int, tuple[tuple[bool, float, str], ...]]:
        return targets.index(part.cell.target), _sorting(_values(part, others))

    ordered = sorted(cells, key=order)
    table = Table(
        id=table_id,
        title=title,
        labels=len(names),
        headers=[_factor_header(name, cells[0]) for name in names] + figures.headers,
        rows=[
            [*_factor_texts(names, _values(part, names)), *figures.texts(part)] for part in ordered
        ],
    )
    return [table]


def _by_block_size(
    table_id: str,
    title: str,
    cells: Sequence[CellSummary],
    across: Sequence[str],
    figures: _Figures,
) -> Table:
    """Return a row for each block size and a group of columns for each value of ``across``.

    Several targets have rows of their own, in their order.
    """
    targets = list(dict.fromkeys(part.cell.target for part in cells))
    labels = ["target"] if len(targets) > 1 else []
    found = {
        (part.cell.target, part.cell.block_size_bytes, _values(part, across)): part
        for part in cells
    }
    columns = sorted({values for _, _, values in found}, key=_sorting)
    missing = [NO_FIGURE] * (len(figures.headers) - 1) + [NOT_MEASURED]

    def row(target: str, size_bytes: int) -> list[str]:
        parts = [found.get((target, size_bytes, values)) for values in columns]
        texts = [missing if part is None else figures.texts(part) for part in parts]
        size = _factor_text("block_size_bytes", size_bytes)
        return [*([target] if labels else []), size, *(text for part in texts for text in part)]

    pairs = {(targets.index(target), size_bytes) for target, size_bytes, _ in found}
    return Table(
        id=table_id,
        title=title,
        labels=len(labels) + 1,
        headers=[
            *(_factor_header(name, cells[0]) for name in labels),
            *("Block size", *figures.headers * len(columns)),
        ],
        groups=[
            Group("", len(labels) + 1),
            *(Group(_across_title(across, values), len(figures.headers)) for values in columns),
        ],
        rows=[row(targets[index], size_bytes) for index, size_bytes in sorted(pairs)],
    )


def _across_title(names: Sequence[str], values: Sequence[FactorValue | None]) -> str:
    """Return the heading of a group of columns, such as ``10 threads`` or ``read, big``."""
    words = []
    for name, value in zip(names, values, strict=True):
        if name == "threads":
            words.append("1 thread" if value == 1 else f"{value} threads")
        elif isinstance(value, str):
            words.append(value)
        else:
            words.append(f"{name.replace('_', ' ')} {_factor_text(name, value)}")
    return ", ".join(words)


def _matrix(table_id: str, title: str, cells: Sequence[CellSummary]) -> list[Table]:
    """Return tables in the layout of bm-flash: for reads, for writes, for each further factor."""
    apart = ["operation", *varying(cells, ("operation", "block_size_bytes", "threads", "target"))]
    parts = grouped(cells, lambda part: _values(part, apart))
    return [
        _by_block_size(
            f"{table_id}-{'-'.join(str(value) for value in values)}",
            f"{title}: {_across_title(apart, values)}",
            parts[values],
            ["threads"],
            _RATES,
        )
        for values in sorted(parts, key=_sorting)
    ]


def _sequential(table_id: str, title: str, cells: Sequence[CellSummary]) -> list[Table]:
    across = varying(cells, ("block_size_bytes", "target")) or ["operation"]
    return [_by_block_size(table_id, title, cells, across, _BANDWIDTH)]


def _whole_file(table_id: str, title: str, cells: Sequence[CellSummary]) -> list[Table]:
    return _listed(table_id, title, cells, _BANDWIDTH)


def _commit(table_id: str, title: str, cells: Sequence[CellSummary]) -> list[Table]:
    return _listed(table_id, title, cells, _with_latency(_COMMIT_RATE, cells))


def _single(table_id: str, title: str, cells: Sequence[CellSummary]) -> list[Table]:
    rates = _Figures([cells[0].iops.unit, "MB/s", "±"], _rates)
    return _listed(table_id, title, cells, _with_latency(rates, cells))


def start_bytes(summary: CellSummary) -> int | None:
    """Return the start of a cell's address range in its target; None if the range is unknown."""
    part = summary.cell.parsed.range
    return None if part.length_bytes is None else part.start_bytes


def _by_address(summary: CellSummary) -> tuple[int, float]:
    zone = summary.cell.factors.get("zone")
    return start_bytes(summary) or 0, float(zone) if isinstance(zone, int | float) else 0.0


def _offset_text(summary: CellSummary) -> str:
    begin_bytes = start_bytes(summary)
    return NO_FIGURE if begin_bytes is None else format_size(begin_bytes)


def _map(table_id: str, title: str, cells: Sequence[CellSummary]) -> list[Table]:
    """Return the ends, the middle and the extremes of each curve over the address range."""
    apart = varying(cells, ("zone",)) or ["operation"]
    rows = []
    for values, timeline in grouped(cells, lambda part: _values(part, apart)).items():
        labels = _factor_texts(apart, values)
        rows += [[*labels, position, *figures] for position, figures in _timeline(timeline)]
    table = Table(
        id=table_id,
        title=title,
        labels=len(apart) + 2,
        headers=[
            *(_factor_header(name, cells[0]) for name in apart),
            "Position", "Offset", *_RATES.headers, "p50",
        ],
        rows=rows,
    )  # fmt: skip
    return [table]


def _timeline(cells: Sequence[CellSummary]) -> list[tuple[str, list[str]]]:
    """Return notable positions of one curve over the address range, with their figures."""
    ordered = sorted(cells, key=_by_address)
    slowest = min(ordered, key=lambda part: part.iops.value)
    fastest = max(ordered, key=lambda part: part.iops.value)
    positions = {
        "start": ordered[0],
        "middle": ordered[len(ordered) // 2],
        "end": ordered[-1],
        "slowest": slowest,
        "fastest": fastest,
    }
    return [
        (position, [_offset_text(part), *_rates(part), _median_text(part)])
        for position, part in positions.items()
    ]


def _median_text(summary: CellSummary) -> str:
    kind = next(iter(summary.latency), None)
    if kind is None:
        return NO_FIGURE
    return latency_text(summary.latency[kind], "p50", summary.latency_at_least.get(kind))


_BUILDERS: dict[str, Callable[[str, str, Sequence[CellSummary]], list[Table]]] = {
    "matrix": _matrix,
    "fill": _whole_file,
    "sequential": _sequential,
    "copy": _whole_file,
    "map": _map,
    "commit": _commit,
    "four": _single,
    "mix": _single,
}
