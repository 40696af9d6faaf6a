"""A recording as a run of a results file, for comparisons, thresholds, pages and exports."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial import _core
from seatrial.errors import UsageError
from seatrial.lazy import np
from seatrial.results.model import (
    IMPORTED,
    OperationResult,
    Origin,
    Outcome,
    Run,
    Sample,
    Slice,
    Timeline,
)
from seatrial.study.cell import Cell
from seatrial.trials.watch.recording import SOURCE, RecordingMetadata, read_about, read_parts
from seatrial.trials.watch.report.load_phrases import left_out_lines
from seatrial.trials.watch.report.terminal import loss_sentences
from seatrial.trials.watch.topic import WATCHED
from seatrial.units import NS_PER_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT: Final = "recording"
SLICE_NS: Final = 100_000_000
SLICES_MAX: Final = 4096
"""Slices of the longest recording; they become longer instead."""


def run_of(path: Path, *, label: str = "") -> tuple[Run, list[Sample]]:
    """Return a recording as a run: a sample for each operation of each device.

    The response time is that from arrival to completion, the service time that at the device.
    Memory does not depend on the number of requests.

    Args:
        path: Its first file.
        label: The user's name for the run.

    Raises:
        SeatrialError: as ``recording.read``.
        UsageError: if its latencies are unknown.
    """
    about, is_dated = _dated(path)
    if not about.knows_device:
        raise UsageError(
            seen=f"{path} has no latencies, so it is not a run",
            cause=f"Its source ({about.source}) does not record how long requests took",
            next_step=f"See what kind of load it is with `seatrial trace show {path}`",
        )
    sums: dict[tuple[int, int], _Sum] = {}
    for columns in read_parts(path):
        _add(sums, columns, _slice_ns(about))
    samples = [
        _sample(about, number, operation, sums[number, operation], position)
        for position, (number, operation) in enumerate(sorted(sums))
    ]
    digest = _digest(about)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(about.began_at_s))
    origin = Origin(
        format=FORMAT,
        file=path.name,
        tool=about.source,
        notes=list(_notes(about, is_dated=is_dated)),
        is_dated=is_dated,
    )
    command = "watch --record" if about.source == SOURCE else "trace import"
    run = Run(
        id=f"{stamp}-{digest[:4]}",
        command=f"seatrial {command} {path.name}",
        label=label,
        study_name=path.stem,
        study={"name": path.stem, "imported": msgspec.to_builtins(origin)},
        plan_hash=digest,
        seed=0,
        status="complete",
        started_at=about.began_at_s,
        ended_at=about.began_at_s + about.seconds,
        seatrial_version=_core.__version__,
    )
    return run, samples


def is_recording_of(path: Path, run: Run) -> bool:
    """Return whether a run is the recording of a path.

    Raises:
        SeatrialError: as ``recording.read``.
    """
    return _digest(_dated(path)[0]) == run.plan_hash


def _dated(path: Path) -> tuple[RecordingMetadata, bool]:
    """Return the metadata of a recording, with a date, and whether the date is its own."""
    about = read_about(path)
    if about.began_at_s > 0:
        return about, True
    return msgspec.structs.replace(about, began_at_s=path.stat().st_mtime), False


def _digest(about: RecordingMetadata) -> str:
    return hashlib.sha256(msgspec.json.encode(about)).hexdigest()[:16]


class _Sum:
    """The sums of the requests of one operation to one device."""

    def __init__(self) -> None:
        self.failed = 0
        self.open = 0
        self.transferred_bytes = 0
        self.response = _core.Histogram.of([])
        self.service = _core.Histogram.of([])
        self.slices: dict[int, tuple[int, int, _core.Histogram]] = {}

    def add(
        self,
        ended_ns: NDArray[np.int64],
        response_ns: NDArray[np.int64],
        lengths_bytes: NDArray[np.int64],
        slice_ns: int,
    ) -> None:
        """Add completed requests."""
        self.transferred_bytes += int(lengths_bytes.sum())
        self.response = self.response.merged(_core.Histogram.of(response_ns.tolist()))
        indices = ended_ns // slice_ns
        for index in np.unique(indices).tolist():
            own = indices == index
            requests, size_bytes, times = self.slices.get(index, (0, 0, _core.Histogram.of([])))
            self.slices[index] = (
                requests + int(own.sum()),
                size_bytes + int(lengths_bytes[own].sum()),
                times.merged(_core.Histogram.of(response_ns[own].tolist())),
            )


def _add(
    sums: dict[tuple[int, int], _Sum], columns: Mapping[str, NDArray[np.generic]], slice_ns: int
) -> None:
    device, operation = columns["device"], columns["operation"]
    service_ns = columns["device_ns"].astype(np.int64)
    has_ended = ~columns["failed"].astype(np.bool_) & (service_ns >= 0)
    response_ns = service_ns + np.maximum(columns["queue_ns"].astype(np.int64), 0)
    ended_ns = columns["arrived_ns"].astype(np.int64) + response_ns
    lengths_bytes = columns["length_bytes"].astype(np.int64)
    kinds = np.unique(np.stack([device.astype(np.int64), operation.astype(np.int64)]), axis=1)
    for number, code in kinds.T.tolist():
        own = (device == number) & (operation == code)
        good = own & has_ended
        sum_ = sums.setdefault((number, code), _Sum())
        sum_.failed += int((own & columns["failed"].astype(np.bool_)).sum())
        sum_.open += int((own & ~columns["failed"].astype(np.bool_) & ~has_ended).sum())
        sum_.service = sum_.service.merged(_core.Histogram.of(service_ns[good].tolist()))
        sum_.add(ended_ns[good], response_ns[good], lengths_bytes[good], slice_ns)


def _slice_ns(about: RecordingMetadata) -> int:
    slice_ns = SLICE_NS
    while about.seconds * NS_PER_S / slice_ns > SLICES_MAX:
        slice_ns *= 2
    return slice_ns


def _sample(about: RecordingMetadata, number: int, code: int, sum_: _Sum, position: int) -> Sample:
    device, operation = about.devices[number].name, _core.WATCHED_OPERATIONS[code]
    completed = sum_.response.count
    slices = [
        Slice(
            index=index,
            operation=operation,
            completed=requests,
            transferred_bytes=size_bytes,
            response=times.encode(),
        )
        for index, (requests, size_bytes, times) in sorted(sum_.slices.items())
    ]
    return Sample(
        cell=Cell(
            key=f"watch/{device}/{operation}",
            target=device,
            workload="watch",
            kind=WATCHED,
            operation=operation,
            block_size_bytes=0,
            threads=0,
        ),
        round=0,
        position=position,
        started_at=about.began_at_s,
        duration_s=about.seconds,
        engine=IMPORTED,
        engine_reason=f"recorded by {about.source}",
        outcome=Outcome(
            offered=completed + sum_.failed + sum_.open,
            completed=completed,
            failed=sum_.failed,
            late_skipped=0,
            in_flight_at_end=sum_.open,
        ),
        operations={
            operation: OperationResult(
                completed=completed,
                failed=sum_.failed,
                transferred_bytes=sum_.transferred_bytes,
                response=sum_.response.encode(),
                service=sum_.service.encode(),
            )
        },
        timeline=Timeline(slice_ns=_slice_ns(about), slices=slices),
        errors_count=sum_.failed,
    )


def _notes(about: RecordingMetadata, *, is_dated: bool) -> Iterator[str]:
    yield (
        "Rates are those of the load that was watched, not the most that the storage can do; there "
        "is one test for each operation of each device."
    )
    if not is_dated:
        yield "The trace contains no date; the modification time of the recording is used."
    yield from left_out_lines(about)
    if about.is_cut_off:
        yield f"The recording was cut off after {about.seconds:.1f} s."
    yield from loss_sentences(about.lost)
    if not about.knows_queue:
        yield "The time in the queue is unknown, so response times are those that are known."
