"""A server that a sample may begin on, and who provides it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from seatrial.errors import SeatrialError
from seatrial.measure.progress import Watcher
from seatrial.postgres.binaries import Binaries
from seatrial.results.start import StartRecord
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.load import Loaded
from seatrial.trials.database.study.workloads import DatabaseSpec, LoadSpec

Template = tuple[LoadSpec, int]
"""What is loaded, and into how many databases."""


def with_bases(templates: Iterable[Template]) -> list[Template]:
    """Return templates, each once, behind those that they are made of by a change of the schema."""
    return list(
        dict.fromkeys(
            each
            for load, processes in templates
            for each in ((load.unmigrated, processes), (load, processes))
        )
    )


@dataclass(kw_only=True)
class Ready:
    """A server in the start state that a cell asks for.

    Attributes:
        endpoints: To its databases.
        origin: Where its programs are from: ``installed``, ``wheel``, ``given`` or ``remote``.
        start_state: What it was brought into.
        place: Where its data lie; None when that is not on this machine.
        server_pid: Its first process; None when that is not on this machine.
        loaded: What loading did, once for all samples; None where nothing was loaded.
        cloned: How the loaded data came here.
        cloned_s: How long that took.
        start: What the database held before anything was done; None where nobody looked.
        explain: Turns an error of the driver into that of the server, where it died.
        notes: What could not be done, as sentences.
    """

    endpoints: Endpoints
    origin: str
    start_state: str
    place: Path | None
    server_pid: int | None
    loaded: Loaded | None
    cloned: str
    cloned_s: float
    explain: Callable[[SeatrialError], SeatrialError]
    notes: list[str] = field(default_factory=list)
    start: StartRecord | None = None


class Host(Protocol):
    """Provides servers for the cells of one target."""

    @property
    def binaries(self) -> Binaries:
        """The programs that are used, known once they were checked."""

    def check(self) -> None:
        """Check all that can be checked before anything is made.

        Raises:
            SeatrialError: with what is missing.
        """

    def needed_bytes(self) -> int:
        """Return what its folder must have room for; 0 where it has none."""

    def prepare(self, watcher: Watcher) -> None:
        """Load what the samples begin with.

        Raises:
            SeatrialError: when it cannot be loaded.
        """

    def ready(self, spec: DatabaseSpec) -> AbstractContextManager[Ready]:
        """Return a server for one sample, which is put away after it."""

    def close(self) -> None:
        """Put everything away."""
