"""JSON documents and texts of the commands that do not show a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from seatrial.cli.check.backend import LayoutCheck
from seatrial.cli.check.server import ServerCheck
from seatrial.cli.precondition.cost import Cost
from seatrial.machine.undo import Undone
from seatrial.report.exports.json_document import as_text, document
from seatrial.stats.compare.model import Comparison, Side
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_size
from seatrial.study.cell import Cell
from seatrial.study.estimate import cell_time_s, cell_write_bytes, estimate
from seatrial.study.model import Plan, PlannedTarget


def plan_document(plan: Plan, commands: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return what a run of the plan would do: docs/schema/plan.schema.json.

    Args:
        plan: The plan.
        commands: What builds each of its layouts, by label, as a shell would take it.
    """
    return as_text(
        document(
            "plan",
            study_name=plan.study.name,
            seed=plan.study.seed,
            plan_hash=plan.plan_hash,
            targets=[_target(target) for target in plan.targets],
            drives=plan.drives,
            commands=dict(commands or {}),
            cells=[_cell(cell) for cell in plan.cells],
            files=plan.files,
            notes=plan.notes,
            estimate=estimate(plan),
        )
    )


def _target(target: PlannedTarget) -> dict[str, Any]:
    return {
        "label": target.label,
        "kind": target.kind,
        "path": target.path,
        "url": target.url,
        "size_bytes": target.size_bytes,
        "layout": None if target.layout is None else msgspec.to_builtins(target.layout),
        "leg": target.leg,
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "key": cell.key,
        **cell.identity(),
        "time_s": cell_time_s(cell),
        "write_bytes_max": cell_write_bytes(cell),
    }


def check_document(
    fingerprint: Mapping[str, Any],
    findings: Sequence[Finding],
    server: ServerCheck | None,
    layouts: LayoutCheck,
) -> str:
    """Return the fingerprint and what could spoil a measurement: docs/schema/check.schema.json.

    Args:
        fingerprint: Of machine and target.
        findings: What could spoil a measurement there.
        server: Whether a PostgreSQL could be run there; None where the target is no directory.
        layouts: Which layouts could be built on this machine.
    """
    return as_text(
        document(
            "check",
            fingerprint=dict(fingerprint),
            findings=list(findings),
            server=None if server is None else msgspec.to_builtins(server),
            layouts=layouts,
        )
    )


def clean_document(undone: Sequence[Undone]) -> str:
    """Return what was undone, and what could not be: docs/schema/clean.schema.json."""
    rows = [
        {
            "run_id": each.run_id,
            "kind": each.kind,
            "subject": each.subject,
            "outcome": str(each.outcome),
            "detail": each.detail,
        }
        for each in undone
    ]
    return as_text(document("clean", undone=rows))


def report_document(run_id: str, place: Path) -> str:
    """Return where the report of a run was written: docs/schema/report.schema.json."""
    return as_text(document("report", run_id=run_id, path=str(place)))


def comparison_document(comparisons: Sequence[Comparison]) -> str:
    """Return comparisons with one and the same A: docs/schema/comparison.schema.json."""
    return as_text(
        document(
            "comparison",
            a=_side(comparisons[0].a),
            comparisons=[_comparison(each) for each in comparisons],
        )
    )


def _side(side: Side) -> dict[str, Any]:
    return {
        "name": side.name,
        "target": side.target,
        "run_id": side.run.id,
        "label": side.run.label,
        "started_at": side.run.started_at,
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(comparison)
    del told["a"]
    return told | {"b": _side(comparison.b)}


def precondition_document(cost: Cost) -> str:
    """Return what conditioning would cost: docs/schema/precondition.schema.json."""
    return as_text(document("precondition", **msgspec.to_builtins(cost)))


def stack_text(fingerprint: Mapping[str, Any]) -> str:
    """Return machine, file system and devices, one line each, from the top down."""
    machine, target = fingerprint.get("machine", {}), fingerprint.get("target", {})
    lines = [
        f"machine      {machine.get('cpu_model')}, {machine.get('cpus_online')} processors, "
        f"{format_size(int(machine.get('memory_bytes') or 0))} of memory",
        f"kernel       {machine.get('kernel')}, clock {machine.get('clock_source')}, "
        f"{machine.get('virtualisation') or 'not virtualised'}",
    ]
    filesystem = target.get("filesystem") or {}
    if filesystem:
        free = format_size(int(filesystem.get("free_bytes") or 0))
        lines.append(
            f"file system  {filesystem.get('type')} at {filesystem.get('mount_point')}, {free} free"
        )
    lines += [_layer_line(layer) for layer in target.get("stack") or []]
    return "\n".join(lines)


def _layer_line(layer: Mapping[str, Any]) -> str:
    facts = [str(layer.get("kind"))]
    if layer.get("model"):
        facts.append(str(layer["model"]))
    if layer.get("size_bytes"):
        facts.append(format_size(int(layer["size_bytes"])))
    if layer.get("scheduler"):
        facts.append(f"scheduler {layer['scheduler']}")
    if layer.get("write_cache"):
        facts.append(str(layer["write_cache"]))
    return f"{layer.get('name', '?'):<12} {', '.join(facts)}"
