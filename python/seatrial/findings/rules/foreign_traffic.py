"""Finding ``foreign_traffic``: other programs or runs used the device while it was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from seatrial.findings.context import Context, lookup
from seatrial.findings.rule import from_samples
from seatrial.findings.traffic import (
    ASKED_BYTES_MIN,
    asked_read_bytes,
    asked_write_bytes,
    is_direct,
    writes_are_flushed,
)
from seatrial.results.model import Sample
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.wording import format_share
from seatrial.study.units import format_size

FOREIGN_SHARE_MIN: Final = 0.10
"""Of all that the device moved, the least that others must have asked for."""
NAMED_SHARE_MIN: Final = 0.5
"""Of what others asked for, the least that the processes seen must have moved."""
NAMED_MAX: Final = 3
COPY_ON_WRITE: Final = frozenset({"btrfs", "zfs", "bcachefs", "f2fs"})
"""These read and write much of their own beside what is asked for."""


@dataclass(frozen=True)
class Traffic:
    """What the device moved in a sample beyond what the sample asked for, and who may have."""

    cell: CellSummary
    moved_bytes: float
    foreign_bytes: float
    seen_bytes: float


@from_samples(rank=650, section="Whose number is it?")
def foreign_traffic(context: Context) -> list[Finding]:
    """Find other runs on the same medium, and samples with much traffic of other programs.

    Means:
        Another run of Seatrial, or other programs, used the device while it was measured.

    Decided:
        Another run: looked for after each sample, on the same physical disks; it is named with its
        command. Two runs on one directory, file or disk do not get so far: the second is refused or
        waits (`--wait`). Other programs: in cells past the page cache the device moved 16 MiB and a
        tenth more than was asked for, and other processes moved at least half of that meanwhile, as
        `/proc/PID/io` counts (without root only one's own processes are seen). Where no process
        that is seen accounts for it, nothing is said: what the page cache held of earlier cells
        looks the same. Cells that sync each write, and btrfs, ZFS, bcachefs and F2FS, which move
        much of their own, are left out. Warning.

    Do:
        Stop these programs (`iotop -oPa`), or measure one run after the other with `--wait`.
    """
    return [*_of_runs(context), *_of_programs(context)]


def _of_runs(context: Context) -> list[Finding]:
    runs = lookup(context.after, "other_runs")
    if not isinstance(runs, list) or not runs:
        return []
    reported = "; ".join(_run_text(run) for run in runs[:NAMED_MAX])
    concerned = [
        cell for cell in context.cells if any(s.counters.get("other_runs") for s in cell.samples)
    ]
    where = f" while {context.of_cells(concerned)} were measured" if concerned else ""
    return [
        Finding(
            kind="foreign_traffic",
            severity="warning",
            cells=[cell.cell.identity() for cell in concerned],
            sentence=f"Another run of Seatrial used the same medium{where}: {reported}.",
            cause="Both runs share the rate of one device, so each measured the other's load.",
            evidence={"other_runs": runs},
            next="Measure again with `--wait` on both, one after the other.",
        )
    ]


def _run_text(run: dict[str, Any]) -> str:
    command = f" (`{run['command']}`)" if run.get("command") else ""
    return f"process {run.get('pid')}{command}"


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
    # What the page cache held of our own earlier cells reaches the device later, too. So only
    # what the processes seen account for is told.
    if not found or seen_bytes < NAMED_SHARE_MIN * foreign_bytes:
        return []
    cells = list({each.cell.cell.key: each.cell for each in found}.values())
    share = foreign_bytes / sum(each.moved_bytes for each in found)
    return [
        Finding(
            kind="foreign_traffic",
            severity="warning",
            cells=[cell.cell.identity() for cell in cells],
            sentence=(
                f"The device moved {format_size(int(foreign_bytes))} ({format_share(share)}) more "
                f"than was asked for in {context.of_cells(cells)}; meanwhile other programs moved "
                f"{format_size(int(seen_bytes))} on this machine{_names(context)}."
            ),
            cause="Other programs used the device at the same time; its rate was shared.",
            evidence={
                "foreign_bytes": foreign_bytes,
                "other_process_bytes": seen_bytes,
                "other_processes": lookup(context.after, "other_processes"),
            },
            next="Stop these programs, or measure at another time: `iotop -oPa` shows who moves.",
        )
    ]


def _is_distinguished(context: Context, cell: CellSummary) -> bool:
    kind = lookup(context.before_of(cell), "target", "filesystem", "type")
    return is_direct(cell) and not writes_are_flushed(cell) and kind not in COPY_ON_WRITE


def _traffic(cell: CellSummary, sample: Sample) -> Traffic | None:
    counters = sample.counters
    names = ("device_read_bytes", "device_write_bytes", "other_process_write_bytes")
    if any(name not in counters for name in names):
        return None
    moved_bytes = counters["device_read_bytes"] + counters["device_write_bytes"]
    reads_bytes = counters["device_read_bytes"] - asked_read_bytes(sample)
    writes_bytes = counters["device_write_bytes"] - asked_write_bytes(sample)
    foreign_bytes = max(0.0, reads_bytes) + max(0.0, writes_bytes)
    if foreign_bytes < max(ASKED_BYTES_MIN, FOREIGN_SHARE_MIN * moved_bytes):
        return None
    others = counters.get("other_process_read_bytes", 0.0) if reads_bytes > 0 else 0.0
    others += counters["other_process_write_bytes"] if writes_bytes > 0 else 0.0
    return Traffic(cell, moved_bytes, foreign_bytes, others)


def _names(context: Context) -> str:
    listed = lookup(context.after, "other_processes")
    if not isinstance(listed, list) or not listed:
        return ""
    named = ", ".join(
        f"{each['name']} {format_size(each['read_bytes'] + each['write_bytes'])}"
        for each in listed[:NAMED_MAX]
    )
    return f", most of all {named}"
