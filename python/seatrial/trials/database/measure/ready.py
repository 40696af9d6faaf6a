"""A server that is ready for a sample, and its provider."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from seatrial.errors import SeatrialError
from seatrial.measure.progress import Watcher
from seatrial.postgres.binaries import Binaries
from seatrial.results.model import StartRecord
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.load import LoadResult
from seatrial.trials.database.study.workloads import DatabaseSpec, LoadSpec

Template = tuple[LoadSpec, int]
"""A load, and the number of databases."""


def with_bases(templates: Iterable[Template]) -> list[Template]:
    """Return distinct templates, each after the one that it is derived from by a schema change."""
    return list(
        dict.fromkeys(
            each
            for load, processes in templates
            for each in ((load.unmigrated, processes), (load, processes))
        )
    )


@dataclass(kw_only=True)
class ReadyServer:
    """A server in the requested start state.

    Attributes:
        endpoints: Its databases.
        origin: Source of its programs: ``installed``, ``wheel``, ``given`` or ``remote``.
        start_state: Its start state.
        data_folder: Path of its data; None if it is not on this machine.
        server_pid: Its first process; None when it is not on this machine.
        loaded: Result of loading, once for all samples; None where nothing was loaded.
        cloned: How the loaded data was provided.
        cloned_s: How long that took.
        start: The initial content of the database; None where it was not read.
        explain: Turns an error of the driver into that of the server, if it died.
        notes: What could not be done, as sentences.
    """

    endpoints: Endpoints
    origin: str
    start_state: str
    data_folder: Path | None
    server_pid: int | None
    loaded: LoadResult | None
    cloned: str
    cloned_s: float
    explain: Callable[[SeatrialError], SeatrialError]
    notes: list[str] = field(default_factory=list)
    start: StartRecord | None = None


class ServerProvider(Protocol):
    """Provides servers for the cells of one target."""

    @property
    def binaries(self) -> Binaries:
        """The programs, known after ``check``."""

    def check(self) -> None:
        """Check everything that can be checked in advance.

        Raises:
            SeatrialError: with what is missing.
        """

    def needed_bytes(self) -> int:
        """Return the space needed in its folder; 0 without one."""

    def prepare(self, watcher: Watcher) -> None:
        """Load the initial data of the samples.

        Raises:
            SeatrialError: when it cannot be loaded.
        """

    def ready(self, spec: DatabaseSpec) -> AbstractContextManager[ReadyServer]:
        """Return a server for one sample, which is removed after it."""

    def close(self) -> None:
        """Clean up."""
