"""JSON documents and texts of the commands that do not show a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from seatrial.cli.check_command import ServerCheck
from seatrial.fingerprint import Device, Fingerprint
from seatrial.machine.undo_journal import Undone
from seatrial.published import AS_KEPT, FLATTENED, Amount, Count, filled, one_of
from seatrial.report.exports.json_document import Document, Factors, factors_of
from seatrial.report.terminal import wrapped
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_size
from seatrial.study.cell import Cell
from seatrial.study.cost import cell_time_s, cell_write_bytes, estimate
from seatrial.study.layouts.layout import DriveInfo, LayoutSpec
from seatrial.study.model import Plan, PlanEstimate, TrialFile
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
            ``[[layout]]``; None if none is.
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
        factors: What distinguishes it from others.
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
    changed.

    Attributes:
        study_name: Short name of the study.
        seed: Seed of the order and of the addresses.
        plan_hash: Identifies the cells; equal for a run and its resume.
        targets: In the order of the study.
        drives: What layouts are built of; ``DRIVE1`` and so on if no drives are named yet.
        commands: What builds each layout, by its label: commands as a shell would take them.
            ``RUN`` stands for the run.
        cells: In the order of the study; each round has a random order of its own.
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
        findings: The most severe first; ``cells`` is empty, as nothing was measured.
        server: Whether a PostgreSQL of our own could be run there; None where the target is no
            directory.
        layouts: Which layouts could be built on this machine.
        obstacle: Why no file can be made in the target, as a sentence; empty if one can, and where
            the target is no directory.
    """

    kind: Literal["check"] = "check"
    fingerprint: Annotated[Fingerprint, AS_KEPT]
    findings: list[Finding]
    server: ServerCheck | None
    layouts: LayoutCheck
    obstacle: str


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
        run_id: The run.
        path: The HTML file.
    """

    kind: Literal["report"] = "report"
    run_id: str
    path: str


class ReportsDocument(Document, frozen=True, kw_only=True):
    """The index of a results file was written.

    ``seatrial report --all``.

    Attributes:
        path: The index.
        pages: The HTML file of each run, by identifier.
        comparisons: The HTML files that compare neighbouring runs.
    """

    kind: Literal["reports"] = "reports"
    path: str
    pages: dict[str, str]
    comparisons: list[str]


class TablesDocument(Document, frozen=True, kw_only=True):
    """Tables of runs were written.

    ``seatrial export --format parquet``.

    Attributes:
        path: The directory.
        run_ids: The runs, the oldest first unless they were named.
        files: The Parquet file of each table, by the name of the table.
        rows: How many rows each has.
    """

    kind: Literal["tables"] = "tables"
    path: str
    run_ids: list[str]
    files: dict[str, str]
    rows: dict[str, Count]


class EditDocument(Document, frozen=True, kw_only=True):
    """Runs of a results file were changed.

    ``seatrial runs``, and ``import`` of a results file, which is a ``merge``.

    Attributes:
        action: What was done.
        run_ids: The runs that were changed.
        left_out_ids: Runs that a ``merge`` left out because they were there already.
    """

    kind: Literal["edit"] = "edit"
    action: Annotated[str, one_of("rename", "annotate", "delete", "merge")]
    run_ids: list[str]
    left_out_ids: list[str] = msgspec.field(default_factory=list)


def plan_document(plan: Plan, commands: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return what a run of the plan would do.

    Args:
        plan: The plan.
        commands: What builds each of its layouts, by label, as a shell would take it.
    """
    return PlanDocument(
        study_name=plan.study.name,
        seed=plan.study.seed,
        plan_hash=plan.plan_hash,
        targets=[filled(PlanTarget, target) for target in plan.targets],
        drives=plan.drives,
        commands={label: list(each) for label, each in (commands or {}).items()},
        cells=[_cell(cell) for cell in plan.cells],
        files=plan.files,
        notes=plan.notes,
        estimate=estimate(plan),
    ).as_text()


def _cell(cell: Cell) -> PlanCell:
    return PlanCell(
        key=cell.key,
        factors=factors_of(cell),
        time_s=cell_time_s(cell),
        write_bytes_max=cell_write_bytes(cell),
    )


def check_document(
    fingerprint: Fingerprint,
    findings: Sequence[Finding],
    server: ServerCheck | None,
    layouts: LayoutCheck,
    obstacle: str = "",
) -> str:
    """Return the fingerprint and what could distort a measurement.

    Args:
        fingerprint: Fingerprint of machine and target.
        findings: What could distort a measurement there.
        server: Whether a PostgreSQL could be run there; None where the target is not a directory.
        layouts: Which layouts could be built on this machine.
        obstacle: Why no file can be made in the target, as a sentence; empty if one can.
    """
    found = list(findings)
    document = CheckDocument(
        fingerprint=fingerprint,
        findings=found,
        server=server,
        layouts=layouts,
        obstacle=obstacle,
    )
    return document.as_text()


def reports_document(index: Path, pages: Mapping[str, Path], comparisons: Sequence[Path]) -> str:
    """Return where the index of a results file and its pages were written."""
    return ReportsDocument(
        path=str(index),
        pages={run_id: str(path) for run_id, path in pages.items()},
        comparisons=[str(path) for path in comparisons],
    ).as_text()


def tables_document(
    folder: Path, run_ids: Sequence[str], paths: Mapping[str, Path], rows: Mapping[str, int]
) -> str:
    """Return where the tables of runs were written.

    Args:
        folder: The directory.
        run_ids: The runs.
        paths: The file of each table.
        rows: Its number of rows.
    """
    files = {name: str(path) for name, path in paths.items()}
    document = TablesDocument(path=str(folder), run_ids=list(run_ids), files=files, rows=dict(rows))
    return document.as_text()


def stack_text(fingerprint: Fingerprint) -> str:
    """Return machine, file system and devices, one line each, from the top down."""
    machine, filesystem = fingerprint.machine, fingerprint.filesystem
    facts = {
        "machine": f"{machine.cpu_model}, {machine.cpus_online} processors, "
        f"{format_size(machine.memory_bytes or 0)} of memory",
        "kernel": f"{machine.kernel}, clock {machine.clock_source}, "
        f"{machine.virtualisation or 'not virtualised'}",
    }
    if filesystem:
        free = format_size(filesystem.free_bytes or 0)
        facts["file system"] = f"{filesystem.type} at {filesystem.mount_point}, {free} free"
    lines = [*facts.items(), *((each.name, _layer_facts(each)) for each in fingerprint.stack)]
    return "\n".join(wrapped(text, f"{name:<12} ") for name, text in lines)


def _layer_facts(device: Device) -> str:
    facts = [str(device.kind)]
    if device.model:
        facts.append(device.model)
    if device.size_bytes:
        facts.append(format_size(device.size_bytes))
    if device.scheduler:
        facts.append(f"scheduler {device.scheduler}")
    if device.write_cache:
        facts.append(device.write_cache)
    return ", ".join(facts)
