"""Finding ``foreign_traffic``: other processes or runs used the device during the measurement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from seatrial.findings.context import AffectedCells, Context
from seatrial.findings.rule import from_samples
from seatrial.findings.traffic import (
    REQUESTED_BYTES_MIN,
    is_direct,
    requested_read_bytes,
    requested_write_bytes,
    writes_are_flushed,
)
from seatrial.fingerprint import OtherProcess, OtherRun
from seatrial.published import HIDDEN
from seatrial.results.model import Sample
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.wording import format_plural, format_share
from seatrial.study.units import format_size

FOREIGN_SHARE_MIN: Final = 0.10
"""Least share of the device's traffic that must come from others."""
NAMED_SHARE_MIN: Final = 0.5
"""Least share of the others' traffic that visible processes must account for."""
NAMED_MAX: Final = 3
COPY_ON_WRITE: Final = frozenset({"btrfs", "zfs", "bcachefs", "f2fs"})
"""These file systems transfer much more than was requested."""


@dataclass(frozen=True)
class Traffic:
    """Traffic of the device in a sample: total, beyond the sample's requests, and of others."""

    cell: CellSummary
    moved_bytes: float
    foreign_bytes: float
    seen_bytes: float


@from_samples(rank=650, section="Validity of the figures")
def foreign_traffic(context: Context) -> list[Finding]:
    """Find other runs on the same medium, and samples with much traffic of other processes.

    Means:
        Another run of Seatrial, or other processes, used the device during the measurement.

    Decided:
        Another run: checked after each sample, on the same physical disks; the finding names its
        command. Two runs on one directory, file or disk cannot overlap: the second is refused or
        waits (`--wait`). Other processes: in tests with direct I/O at least 16 MiB and 10 % of what
        the device transferred were not requested, and other processes transferred at least half of
        that at the same time, on any device, according to `/proc/PID/io` (without root, only
        processes of the same user are visible). The names are those with the most I/O during the
        whole run. If no visible process accounts for it, nothing is
        reported, since writeback of earlier tests looks the same. Tests that sync each write and
        file workloads are not examined, nor are btrfs, ZFS, bcachefs and F2FS, which transfer much
        more than was requested. Warning.

    Do:
        Stop these processes (`iotop -oPa`), or repeat the run when no other run is active.
    """
    return [*_of_runs(context), *_of_programs(context)]


class ForeignRunsFigures(Figures, frozen=True, kw_only=True, tag="foreign_traffic"):
    """Figures of ``foreign_traffic``: foreign runs."""

    other_runs: list[OtherRun]
    concerned: Annotated[AffectedCells, HIDDEN]

    def in_short(self, cells_count: int) -> str:
        return f"another run of Seatrial used the same disk{_during(cells_count)}"

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                "Another run of Seatrial used the same disk"
                f"{_while(self.concerned)}: {_run_texts(self.other_runs)}."
            ),
            cause="The runs shared one device, so their loads affected each other.",
            next="Repeat this run when no other run is active.",
        )


def _of_runs(context: Context) -> list[Finding]:
    runs = context.after.other_runs
    if not runs:
        return []
    disturbed = [
        cell for cell in context.cells if any(s.counters.get("other_runs") for s in cell.samples)
    ]
    figures = ForeignRunsFigures(other_runs=runs, concerned=context.affected_cells(disturbed))
    return [
        Finding(
            severity="warning", cells=[cell.cell.identity() for cell in disturbed], figures=figures
        )
    ]


def _while(disturbed: AffectedCells) -> str:
    were = "was" if disturbed.count == 1 else "were"
    return f" while {disturbed} {were} measured" if disturbed.count else ""


def _during(cells_count: int) -> str:
    return f" during {format_plural(cells_count, 'test')}" if cells_count else ""


def _run_texts(runs: list[OtherRun]) -> str:
    return "; ".join(_run_text(run) for run in runs[:NAMED_MAX])


def _run_text(run: OtherRun) -> str:
    command = f" (`{run.command}`)" if run.command else ""
    return f"process {run.pid}{command}"


class ForeignProgramsFigures(Figures, frozen=True, kw_only=True, tag="foreign_traffic"):
    """Figures of ``foreign_traffic``: foreign programs."""

    foreign_bytes: float
    other_process_bytes: float
    other_processes: list[OtherProcess]
    moved_bytes: Annotated[float, HIDDEN]
    concerned: Annotated[AffectedCells, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"In {self.concerned}, the device transferred "
                f"{format_size(int(self.moved_bytes))}, of which this run did not request "
                f"{format_size(int(self.foreign_bytes))} "
                f"({format_share(self.foreign_bytes / self.moved_bytes)}); "
                "other processes transferred "
                f"{format_size(int(self.other_process_bytes))} at the same "
                f"time{_names(self.other_processes)}."
            ),
            cause=(
                "Other processes transferred data at the same time, possibly partly on other "
                "devices; they probably shared this one's bandwidth."
            ),
            next=("Stop these processes (`iotop -oPa` shows them), or measure at another time."),
        )


def _of_programs(context: Context) -> list[Finding]:
    found = [
        traffic
        for cell in context.cells
        if _is_distinguished(context, cell)
        for sample in cell.samples
        if (traffic := _traffic(cell, sample)) is not None
    ]
    foreign_bytes = sum(each.foreign_bytes for each in found)
    seen_bytes = sum(each.seen_bytes for each in found)
    # Writeback of our own earlier cells also reaches the device later, so only traffic that
    # visible processes account for is reported.
    if not found or seen_bytes < NAMED_SHARE_MIN * foreign_bytes:
        return []
    cells = list({each.cell.cell.key: each.cell for each in found}.values())
    listed = context.after.other_processes
    figures = ForeignProgramsFigures(
        foreign_bytes=foreign_bytes,
        other_process_bytes=seen_bytes,
        other_processes=listed,
        moved_bytes=sum(each.moved_bytes for each in found),
        concerned=context.affected_cells(cells),
    )
    return [
        Finding(severity="warning", cells=[cell.cell.identity() for cell in cells], figures=figures)
    ]


def _is_distinguished(context: Context, cell: CellSummary) -> bool:
    kind = system.type if (system := context.before_of(cell).filesystem) else None
    # What a workload of files requests in all, its metadata too, is not known.
    is_of_files = cell.cell.parsed.target.kind == "directory"
    is_plain = is_direct(cell) and not writes_are_flushed(cell) and not is_of_files
    return is_plain and kind not in COPY_ON_WRITE


def _traffic(cell: CellSummary, sample: Sample) -> Traffic | None:
    counters = sample.counters
    names = ("device_read_bytes", "device_write_bytes", "other_process_write_bytes")
    if any(name not in counters for name in names):
        return None
    moved_bytes = counters["device_read_bytes"] + counters["device_write_bytes"]
    reads_bytes = counters["device_read_bytes"] - requested_read_bytes(sample)
    writes_bytes = counters["device_write_bytes"] - requested_write_bytes(sample)
    foreign_bytes = max(0.0, reads_bytes) + max(0.0, writes_bytes)
    if foreign_bytes < max(REQUESTED_BYTES_MIN, FOREIGN_SHARE_MIN * moved_bytes):
        return None
    others = counters.get("other_process_read_bytes", 0.0) if reads_bytes > 0 else 0.0
    others += counters["other_process_write_bytes"] if writes_bytes > 0 else 0.0
    return Traffic(cell, moved_bytes, foreign_bytes, others)


def _names(listed: list[OtherProcess]) -> str:
    if not listed:
        return ""
    # Without bytes: theirs are those of the whole run, in both directions.
    return f", possibly {', '.join(each.name for each in listed[:NAMED_MAX])}"
