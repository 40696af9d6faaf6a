"""A plan as text: what ``--plan`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from seatrial.study.cell import Cell, FactorValue
from seatrial.study.cost import cell_time_s, cell_write_bytes, estimate, target_write_bytes
from seatrial.study.layouts.text import (
    COLUMNS,
    building_lines,
    command_lines,
    hanging_lines,
    layout_lines,
)
from seatrial.study.model import Plan, PlanEstimate, PlannedTarget
from seatrial.study.plan import usual_factors
from seatrial.study.sampled import REBUILD_LIMIT
from seatrial.study.units import format_factor, format_seconds, format_size
from seatrial.study.wrapping import wrap
from seatrial.topic import topic_of, topics

_HEADINGS: tuple[str, ...] = ("workload", "tests", "a sample", "a round", "writes at most", "what")


def render_plan(plan: Plan, commands: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return the plan as plain text: targets, workloads, rounds, time, bytes, skipped tests.

    Args:
        plan: The plan.
        commands: Shell commands that build each of its layouts, by label.
    """
    took = estimate(plan)
    parts = [
        "\n".join(wrap(_title(plan), COLUMNS)),
        "\n".join([*_target_lines(plan), *layout_lines(plan)]),
        "\n".join(_table(plan)),
        "\n".join(_totals(plan, took)),
    ]
    if plan.notes:
        notes = (_hanging("  ", f"{note}.") for note in plan.notes)
        parts.append("\n".join(["Notes and skipped tests:", *notes]))
    if commands:
        parts.append("\n".join(command_lines(commands)))
    parts.append(f"Plan {plan.plan_hash}, seed {plan.study.seed}. Nothing was changed.")
    return "\n\n".join(parts) + "\n"


def _hanging(label: str, text: str) -> str:
    return "\n".join(hanging_lines(label, text))


def _title(plan: Plan) -> str:
    """Return the study's name and description."""
    title = f"Study {plan.study.name}"
    return f"{title}: {plan.study.description}" if plan.study.description else title


def _target_lines(plan: Plan) -> Iterator[str]:
    with_files = {file.target for file in plan.files}
    for target in plan.of_group("", {}).targets:
        yield _target_line(target, has_files=target.label in with_files)


def _target_line(target: PlannedTarget, *, has_files: bool) -> str:
    """Return one target and the part of it that is used."""
    open_still = target.is_storage or target.kind == "database"
    location = target.path or target.url or ("given at run time" if open_still else "")
    used = "trial file" if target.holds_files else "uses"
    words = " ".join(filter(None, [f"Target {target.label}:", target.kind, location]))
    if target.kind == "database" or (target.holds_files and not has_files):
        return words
    return f"{words}, {used} {format_size(target.size_bytes)}"


def _table(plan: Plan) -> Iterator[str]:
    """Yield the lines of the table of workloads."""
    rows = [_HEADINGS]
    for workload in plan.study.workloads:
        cells = [cell for cell in plan.cells if cell.workload == workload.label]
        if cells:
            rows.append(_row(workload.label, cells, _factors(cells)))
    rows.append(_row("all", plan.cells, ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    indent = sum(widths[:5]) + 12
    for number, row in enumerate(rows):
        left = row[0].ljust(widths[0])
        figures = [text.rjust(width) for text, width in zip(row[1:5], widths[1:5], strict=True)]
        first, *more = wrap(row[5], COLUMNS - indent) or [""]
        yield "  ".join(["", left, *figures, first]).rstrip()
        yield from (" " * indent + line for line in more)
        if number in (0, len(rows) - 2):
            yield "  " + "-" * (indent - 4)


def _row(label: str, cells: list[Cell], what: str) -> tuple[str, ...]:
    """Return one row of the table."""
    samples_s = sorted({cell.parsed.duration_s for cell in cells})
    sample = format_seconds(samples_s[0]) if len(samples_s) == 1 else ""
    sample = topic_of(cells[0]).sample_phrase(cells) or sample
    written_bytes = sum(cell_write_bytes(cell) for cell in cells)
    return (
        label,
        str(len(cells)),
        sample,
        format_seconds(round(sum(cell_time_s(cell) for cell in cells), 1)),
        format_size(written_bytes) if written_bytes else "nothing",
        what,
    )


def _factors(cells: list[Cell]) -> str:
    """Return the factors of a workload, such as ``read, write; 8 KiB; 1, 10 threads``."""
    topic = topic_of(cells[0])
    parts = [_listed(cell.operation for cell in cells)] if topic.has_named_operation else []
    sizes = sorted({cell.block_size_bytes for cell in cells if cell.block_size_bytes})
    if len(sizes) > 4:
        parts.append(f"{len(sizes)} sizes, {format_size(sizes[0])} to {format_size(sizes[-1])}")
    elif sizes:
        parts.append(", ".join(format_size(size) for size in sizes))
    threads = _listed(str(cell.threads) for cell in cells)
    worker = topic.worker_of(cells[0])
    parts.append(f"1 {worker}" if threads == "1" else f"{threads} {worker}s")
    depths = _listed(str(cell.depth) for cell in cells)
    if depths != "1":
        parts.append(f"depth {depths}")
    names = dict.fromkeys(name for cell in cells for name in cell.factors)
    for name in names:
        known = (usual_factors(cell) | cell.factors for cell in cells)
        used = list(dict.fromkeys(factors[name] for factors in known if name in factors))
        is_plain = topic.prints_factor_name(cells[0], name)
        parts.append(f"{name} {_listed(map(str, used))}" if is_plain else _factor(name, used))
    return "; ".join([*parts, *topic.plan_phrase(cells[0])])


def _factor(name: str, used: list[FactorValue]) -> str:
    """Return one factor and its values; a range if they are many numbers, such as zones."""
    if name == REBUILD_LIMIT:
        name, values = "rebuild limit", [f"{value} KiB/s" if value else "none" for value in used]
    elif name.endswith("_bytes"):
        name, values = name.removesuffix("_bytes"), [format_size(int(value)) for value in used]
    else:
        values = [_value(name, value) for value in used]
    is_span = len(values) > 4 and not any(isinstance(value, str) for value in used)
    shown = f"{values[0]} to {values[-1]}" if is_span else ", ".join(values)
    return f"{name.replace('_', ' ')} {shown}"


def _value(name: str, value: FactorValue) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "never" if name == "sync_every" and not value else format_factor(value)


def _listed(values: Iterable[str]) -> str:
    """Return the different values in order of first occurrence."""
    return ", ".join(dict.fromkeys(values))


def _totals(plan: Plan, took: PlanEstimate) -> Iterator[str]:
    """Yield the lines on rounds, time, bytes written and space."""
    rounds, budget = plan.study.rounds, plan.study.budget
    if rounds.min == rounds.max:
        yield f"Rounds  {rounds.max}"
    else:
        precision = f"{rounds.precision * 100:g} %"
        yield (
            f"Rounds  {rounds.min} to {rounds.max}, until each confidence interval is within ± "
            f"{precision}"
        )
    time = _span(format_seconds(took.time_s_min), format_seconds(took.time_s_max))
    bound = f", limited to {format_seconds(budget.time_s)}" if budget.time_s is not None else ""
    yield f"Time    {time}{bound}"
    if took.write_bytes_max:
        least, most = format_size(took.write_bytes_min), format_size(took.write_bytes_max)
        there = plan.of_group("", {}).targets
        wears = "".join(_drive_writes(plan, target) for target in there)
        bound = f", limited to {format_size(budget.write_bytes)}" if budget.write_bytes else ""
        assumed = "".join(
            f"; {words}" for topic in topics() if (words := topic.assumed_phrase(plan.cells))
        )
        yield _hanging("Writes  ", f"at most {_span(least, most)}{bound}{wears}{assumed}")
    else:
        yield "Writes  nothing"
    yield from building_lines(plan, took)
    used = list(_file_names(plan.of_group("", {})))
    if took.database_bytes:
        held = dict.fromkeys(topic_of(cell).space_phrase for cell in plan.cells)
        what = " and ".join(filter(None, held)) or "databases"
        used.append(f"about {format_size(took.database_bytes)} of {what}")
    if took.loop_bytes:
        used.append(f"at most {format_size(took.loop_bytes)} of files for loop devices")
    if used:
        space = format_size(took.file_bytes + took.database_bytes + took.loop_bytes)
        yield _hanging("Space   ", f"{space}: {', '.join(used)}")


def _drive_writes(plan: Plan, target: PlannedTarget) -> str:
    """Return the maximum number of drive writes for a target; empty if unknown."""
    if not target.drive_bytes:
        return ""
    bound_bytes = target_write_bytes(plan, target.label, plan.study.rounds.max)
    if not bound_bytes:
        return ""
    times = bound_bytes / target.drive_bytes
    shown = f"{times:,.0f}" if times >= 10 else f"{times:.2g}"
    return f"; {shown} drive writes on {target.label} ({format_size(target.drive_bytes)})"


def _file_names(plan: Plan) -> Iterator[str]:
    """Yield each file with its size and target."""
    several = len(plan.targets) > 1
    for file in plan.files:
        if not plan.target(file.target).holds_files:
            continue
        where = f" on {file.target}" if several else ""
        first = " (filled before the first round)" if file.prefill else ""
        yield f"{file.name} {format_size(file.size_bytes)}{where}{first}"


def _span(least: str, most: str) -> str:
    """Return two figures as a range, or one if they are equal."""
    return least if least == most else f"{least} to {most}"
