"""JSON documents and texts of the commands that do not show a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from seatrial.cli.check.server import ServerCheck
from seatrial.machine.undo import Undone
from seatrial.published import FLATTENED, Amount, Count, one_of
from seatrial.report.json_documents import Document, Factors, as_text, factors_of
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_size
from seatrial.study.cell import Cell
from seatrial.study.estimate import cell_time_s, cell_write_bytes, estimate
from seatrial.study.layouts.drives import DriveInfo
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.study.model import Plan, PlanEstimate, PlannedTarget, TrialFile
from seatrial.trials.layouts.build.check import LayoutCheck


class PlanTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What is under trial.

    Attributes:
        label: What cells call it.
        kind: What it is.
        path: Directory, device or file; empty if it has none, or if it was not given or built yet.
        url: Address of an existing server, without a password; else empty.
        size_bytes: Length of the trial file, or of the part of the device or file that is used.
        layout: The array that is built for it, with one value for every key of a study's
            ``[[layout]]``; None where none is.
        leg: Which leg of the layout it is, from 1; 0 for the whole.
    """

    label: str
    kind: Annotated[str, one_of("directory", "device", "file", "null", "simulated", "database")]
    path: str
    url: str
    size_bytes: Count
    layout: LayoutSpec | None
    leg: Count


class PlanCell(msgspec.Struct, frozen=True, kw_only=True):
    """One workload with one value for every factor.

    Attributes:
        key: Unique within a plan and stable between runs.
        factors: What tells it from others.
        time_s: What one sample of it is expected to take.
        write_bytes_max: The most that one sample of it writes to storage; of a database, assumed.
    """

    key: str
    factors: Annotated[Factors, FLATTENED]
    time_s: Amount
    write_bytes_max: Count


class PlanDocument(Document, frozen=True, kw_only=True):
    """A plan.

    ``seatrial run``, ``study``, ``io`` and ``db`` with ``--plan``: what would be done. Nothing was
    touched.

    Attributes:
        study_name: Short name of the study.
        seed: Of the order and of the addresses.
        plan_hash: Identifies the cells; equal for a run and its resume.
        targets: In the order of the study.
        drives: What layouts are built of; named ``DRIVE1`` and so on where nobody has named them
            yet.
        commands: What builds each layout, by its label: commands as a shell would take them.
            ``RUN`` stands for the run.
        cells: In the order of the study; each round draws its own.
        files: What the cells need on the targets.
        notes: What is left out or worth knowing, as sentences.
        estimate: What it will take.
    """

    kind: Literal["plan"] = "plan"
    study_name: str
    seed: Count
    plan_hash: str
    targets: list[PlanTarget]
    drives: list[DriveInfo]
    commands: dict[str, list[str]]
    cells: list[PlanCell]
    files: list[TrialFile]
    notes: list[str]
    estimate: PlanEstimate


class CheckDocument(Document, frozen=True, kw_only=True):
    """A check.

    ``seatrial check``: what could distort a measurement here. Nothing was measured or written.

    Attributes:
        fingerprint: Machine and target, as a run keeps them.
        findings: The gravest first; ``cells`` is empty, as nothing was measured.
        server: Whether a PostgreSQL of our own could be run there; None where the target is no
            directory.
        layouts: Which layouts could be built on this machine.
    """

    kind: Literal["check"] = "check"
    fingerprint: dict[str, Any]
    findings: list[Finding]
    server: ServerCheck | None
    layouts: LayoutCheck


class CleanDocument(Document, frozen=True, kw_only=True):
    """What was undone.

    ``seatrial clean``, and ``layout destroy``.

    Attributes:
        undone: Every change that a run had left, in the order of undoing.
    """

    kind: Literal["clean"] = "clean"
    undone: list[Undone]


class ReportDocument(Document, frozen=True, kw_only=True):
    """A report was made.

    ``seatrial report``.

    Attributes:
        run_id: The run that it is of.
        path: The HTML file.
    """

    kind: Literal["report"] = "report"
    run_id: str
    path: str


def plan_document(plan: Plan, commands: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return what a run of the plan would do.

    Args:
        plan: The plan.
        commands: What builds each of its layouts, by label, as a shell would take it.
    """
    return as_text(
        PlanDocument(
            study_name=plan.study.name,
            seed=plan.study.seed,
            plan_hash=plan.plan_hash,
            targets=[_target(target) for target in plan.targets],
            drives=plan.drives,
            commands={label: list(each) for label, each in (commands or {}).items()},
            cells=[_cell(cell) for cell in plan.cells],
            files=plan.files,
            notes=plan.notes,
            estimate=estimate(plan),
        )
    )


def _target(target: PlannedTarget) -> PlanTarget:
    return PlanTarget(
        label=target.label,
        kind=target.kind,
        path=target.path,
        url=target.url,
        size_bytes=target.size_bytes,
        layout=target.layout,
        leg=target.leg,
    )


def _cell(cell: Cell) -> PlanCell:
    return PlanCell(
        key=cell.key,
        factors=factors_of(cell),
        time_s=cell_time_s(cell),
        write_bytes_max=cell_write_bytes(cell),
    )


def check_document(
    fingerprint: Mapping[str, Any],
    findings: Sequence[Finding],
    server: ServerCheck | None,
    layouts: LayoutCheck,
) -> str:
    """Return the fingerprint and what could distort a measurement.

    Args:
        fingerprint: Of machine and target.
        findings: What could distort a measurement there.
        server: Whether a PostgreSQL could be run there; None where the target is no directory.
        layouts: Which layouts could be built on this machine.
    """
    found = list(findings)
    return as_text(
        CheckDocument(fingerprint=dict(fingerprint), findings=found, server=server, layouts=layouts)
    )


def clean_document(undone: Sequence[Undone]) -> str:
    """Return what was undone, and what could not be."""
    return as_text(CleanDocument(undone=list(undone)))


def report_document(run_id: str, place: Path) -> str:
    """Return where the report of a run was written."""
    return as_text(ReportDocument(run_id=run_id, path=str(place)))


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
