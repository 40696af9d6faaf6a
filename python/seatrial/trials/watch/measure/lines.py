"""The load lines of a results file that were measured of disks of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from seatrial.errors import SeatrialError
from seatrial.fingerprint import Device, Machine, Target
from seatrial.machine.fingerprint.machine import machine
from seatrial.machine.fingerprint.stack import stack
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.results.model import Run
from seatrial.results.store import ResultsFile
from seatrial.study.load import study_from_mapping
from seatrial.study.values import many
from seatrial.trials.loadline.analysis.lines import load_lines
from seatrial.trials.loadline.study import LOADLINE, Loadline
from seatrial.trials.watch.analysis.headroom import DiskLoadLine

RUNS_READ_MAX: Final = 16
"""Runs with load lines that are read, the newest first."""
_MADE_OF_OTHERS: Final = ("md", "dm")
_READ_SHARES: Final = {"read": 1.0, "write": 0.0}


def lines_of(disks: Sequence[str], results: Path) -> list[DiskLoadLine]:
    """Return the load lines of disks, the newest first; none where the file cannot be read.

    Lines through the page cache, and those of arrays and volumes, are left out: their requests are
    not those of a disk.
    """
    if not results.exists():
        return []
    devices = [each for name in disks for each in stack(LIVE, _numbers(name))[:1]]
    with suppress(SeatrialError), ResultsFile.open(results, read_only=True) as store:
        runs = [each for each in store.runs() if _has_line(each)][:RUNS_READ_MAX]
        return [line for run in runs for line in _lines(store, run, devices)]
    return []


def _numbers(name: str) -> list[str]:
    try:
        return [Path("/sys/block", name, "dev").read_text(encoding="ascii").strip()]
    except OSError:  # removed meanwhile
        return []


def _has_line(run: Run) -> bool:
    workloads = run.study.get("workload")
    if not isinstance(workloads, list):
        return False
    return any(isinstance(each, dict) and each.get("kind") == LOADLINE for each in workloads)


def _lines(store: ResultsFile, run: Run, devices: Sequence[Device]) -> Iterator[DiskLoadLine]:
    """Yield the lines of a run; its samples are read only where one is of the devices."""
    try:
        study = study_from_mapping(run.study, run.study_name)
    except SeatrialError:  # of another version
        return
    disk_of = {
        each.label: disk
        for each in study.targets
        if (disk := _disk(run.fingerprint_before.target_of(each.label), run, devices))
    }
    if not disk_of:
        return
    workloads = {each.label: each for each in study.workloads if isinstance(each, Loadline)}
    for line in load_lines(study, store.samples(run.id)):
        workload = workloads[line.workload]
        if line.target not in disk_of or False in many(workload.direct):
            continue
        yield DiskLoadLine(
            disk=disk_of[line.target],
            run=run.id,
            measured_at=run.started_at,
            percentile=line.percentile,
            limit_ns=line.limit_ns,
            sustained=line.sustained,
            is_undecided=not line.sustained and [e.holds for e in line.steps[:1]] != [False],
            read_share=_read_share(workload),
            block_bytes=workload.block_sizes[0],
            pattern=only(workload.pattern),
        )


def _read_share(workload: Loadline) -> float:
    share: float = many(workload.read_share)[0]
    return _READ_SHARES.get(only(workload.operations), share)


def only(value: str | Sequence[str]) -> str:
    """Return the value of a key of a load line, which has one."""
    return many(value)[0]


def _disk(target: Target | None, run: Run, devices: Sequence[Device]) -> str:
    """Return the name of the disk that saw the requests of a target; empty for any other."""
    measured = _device_with_requests(target.stack) if target else None
    if measured is None:
        return ""
    own = run.fingerprint_before.machine
    return next((each.name for each in devices if _is_same(measured, each, own)), "")


def _device_with_requests(layers: Sequence[Device]) -> Device | None:
    """Return the first device of a stack that has requests; None for one made of others."""
    by_name = {each.name: each for each in layers}
    device = next(iter(layers), None)
    if device is not None and device.kind == "partition":
        device = by_name.get(device.children[0]) if len(device.children) == 1 else None
    return None if device is None or device.kind in _MADE_OF_OTHERS else device


def _is_same(measured: Device, present: Device, then: Machine) -> bool:
    """Return whether a device is the one that was measured.

    One without a serial number or another lasting name is identified by its name, size and model,
    on a machine with the same processor and memory.
    """
    if measured.medium_hash or present.medium_hash:
        return measured.medium_hash == present.medium_hash
    now = machine(LIVE)
    is_here = (then.cpu_model, then.memory_bytes) == (now.cpu_model, now.memory_bytes)
    return is_here and _identity(measured) == _identity(present)


def _identity(device: Device) -> tuple[object, ...]:
    return device.name, device.kind, device.size_bytes, device.model
