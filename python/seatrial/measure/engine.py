"""Runs one cell in the engine: starts it, watches it, stops it on request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NotRequired, Self, TypedDict, cast

import msgspec

from seatrial import _core
from seatrial.errors import SeatrialError, TargetError, native_errors
from seatrial.machine.file import TrialFolder
from seatrial.measure.background import Background
from seatrial.measure.progress import LiveReading, Watcher
from seatrial.results.model import Sample
from seatrial.study.cell import Cell

POLL_S: Final = 0.1


class OperationParts(TypedDict):
    """Counts of one kind of request, with its encoded histograms."""

    completed: int
    failed: int
    transferred_bytes: int
    response: bytes
    service: NotRequired[bytes | None]


class SampleParts(TypedDict):
    """A sample as ``_core`` returns it (docs/engine.md); ``files`` is there for sets of files.

    ``sent_bytes_per_s`` and ``received_bytes_per_s`` are there for a host of a cluster.
    """

    engine: str
    engine_reason: str
    started_unix_s: float
    duration_s: float
    status: str
    outcome: dict[str, int]
    operations: dict[str, OperationParts]
    timeline: object
    stalls: list[object]
    stalls_dropped: int
    oldest_in_flight_ns: int
    errors_count: int
    errors: list[Mapping[str, Any]]
    counters: dict[str, float]
    verification: object
    files: NotRequired[Mapping[str, Any]]
    sent_bytes_per_s: NotRequired[float]
    received_bytes_per_s: NotRequired[float]


class EngineResult(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's result.

    Attributes:
        parts: The mapping described in docs/engine.md.
        interrupted: Whether the user ended it.
    """

    parts: SampleParts
    interrupted: bool


def wait_for(running: _core.Running, watcher: Watcher) -> bool:
    """Wait until a sample has ended, and show it meanwhile; return whether it was interrupted.

    The first Ctrl-C stops it and keeps what was measured; the second one is raised.
    """
    interrupted = False
    while True:
        try:
            if running.wait(POLL_S):
                return interrupted
            watcher.live(msgspec.convert(running.live(), LiveReading, from_attributes=True))
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            running.stop()


def measure_spec(
    spec: Mapping[str, Any], watcher: Watcher, opened: Mapping[str, str] | None = None
) -> EngineResult:
    """Measure one cell from its whole specification.

    An interrupt (Ctrl-C, or SIGTERM treated as one) ends the cell cleanly; what was measured is
    returned and marked.

    Args:
        spec: As described in docs/engine.md.
        watcher: Receives the progress.
        opened: For each path in it that is open already, the path of its descriptor, so that the
            engine opens the checked file whatever has the name by now.

    Raises:
        TargetError: when the target cannot be opened.
        UsageError: when the specification is invalid, or its requests would not fit into memory.
        EngineError: when the engine fails.
    """
    running = _start(spec, opened or {})
    interrupted = wait_for(running, watcher)
    return EngineResult(parts=parts_of(running), interrupted=interrupted)


def parts_of(running: _core.Running) -> SampleParts:
    """Return what was measured, once.

    Raises:
        SeatrialError: when the sample failed.
    """
    with native_errors():
        return cast("SampleParts", running.result())


def _start(spec: Mapping[str, Any], opened: Mapping[str, str]) -> _core.Running:
    target = dict(spec["target"])
    for key in ("path", "copy_to"):
        if target.get(key) in opened:
            target[key] = opened[target[key]]
    try:
        with native_errors():
            return _core.start(msgspec.json.encode({**spec, "target": target}).decode())
    except TargetError as error:
        seen = error.seen
        for path, descriptor in opened.items():
            seen = seen.replace(f"{descriptor}:", f"{path}:")
        raise TargetError(seen=seen, cause=error.cause, next_step=error.next_step) from None


@dataclass(frozen=True)
class SampleContext:
    """Circumstances of a sample.

    Attributes:
        round_number: The round, from 0.
        position: The cell's position in the round's order, from 0.
        watcher: Receives the progress.
        background: Background activity; None for none.
        opened: Safe paths of files that the run may write, by their paths.
    """

    round_number: int
    position: int
    watcher: Watcher
    background: Background | None = None
    opened: Mapping[str, str] = field(default_factory=dict)


def sample_of(
    cell: Cell, sample_context: SampleContext, result: EngineResult, counters: Mapping[str, float]
) -> Sample:
    """Return the sample of an engine's result; ``counters`` come before the engine's own."""
    parts = result.parts
    fields = {
        **parts,
        "cell": cell,
        "round": sample_context.round_number,
        "position": sample_context.position,
        "started_at": parts["started_unix_s"],
        "status": "interrupted" if result.interrupted else parts["status"],
        "counters": {**counters, **parts["counters"]},
    }
    return msgspec.convert(fields, Sample, from_attributes=True)


class Driver(ABC):
    """Prepares what the cells of a topic need, such as servers, and measures them.

    Attributes:
        shrink_option: The command line option that reduces its space.
        folders: The open trial folder of each target that is a directory, by label.
    """

    shrink_option = "--size"

    def __init__(self) -> None:
        self.folders: dict[str, TrialFolder] = {}

    def open(self) -> Self:
        """Check everything that can be checked before a run is stored, and acquire resources."""
        self.check()
        return self

    def check(self) -> None:  # noqa: B027 - optional
        """Check everything that can be checked, without acquiring anything."""

    def close(self) -> None:  # noqa: B027 - likewise
        """Release everything."""

    @abstractmethod
    def needed_bytes(self, label: str) -> int:
        """Return the space needed in the directory of a target."""

    def use(self, label: str, folder: TrialFolder) -> None:
        """Use the open trial folder of a target."""
        self.folders[label] = folder

    def prepare(self, watcher: Watcher) -> dict[str, SeatrialError]:
        """Load the initial data of the samples; return non-fatal errors by target."""
        del watcher
        return {}

    @abstractmethod
    def measure(self, cell: Cell, sample_context: SampleContext) -> Sample:
        """Measure one cell once."""
