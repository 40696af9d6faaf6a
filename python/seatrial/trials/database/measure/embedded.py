"""Our own servers on a directory: loaded once, then cloned and started for each sample.

The run's trial folder contains a template for every load, ``template-...``, which is never measured
itself, and the clone for a sample, which is removed after it.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from seatrial.errors import SeatrialError, StudyError, TargetError, UsageError
from seatrial.machine.file import TrialFolder, as_space_error
from seatrial.machine.undo_journal import UndoJournal
from seatrial.machine.undo_result import wait_until
from seatrial.measure.progress import Watcher
from seatrial.postgres.account import account_for
from seatrial.postgres.binaries import Binaries, find_binaries
from seatrial.postgres.clone import CloneMethod, clone_folder
from seatrial.postgres.cluster import Cluster, create_cluster
from seatrial.postgres.locale import create_with_locale
from seatrial.postgres.memory import memory_limit, remove_group
from seatrial.postgres.page_cache import drop_cached
from seatrial.postgres.server import Server
from seatrial.postgres.server_processes import end_server
from seatrial.postgres.settings import check_settings
from seatrial.results.model import StartRecord
from seatrial.study.model import PlannedTarget
from seatrial.study.units import format_size
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.load import (
    LoadResult,
    archived_locale,
    load_databases,
    migrate,
)
from seatrial.trials.database.measure.ready import ReadyServer, Template, with_bases
from seatrial.trials.database.measure.server_session import ServerSession, prewarm
from seatrial.trials.database.measure.start_state import read_start_state
from seatrial.trials.database.study.cost import (
    memory_limit_min_bytes,
    memory_limit_text,
    space_bytes,
)
from seatrial.trials.database.study.workloads import DatabaseSpec


def require_memory(session: ServerSession, spec: DatabaseSpec) -> None:
    """Check that a server fits into the memory limit of a cell.

    The page cache of its files counts, too, but is reclaimable; shared buffers are not.

    Args:
        session: The session with the server, started with the settings of the cell.
        spec: Specification of the cell.

    Raises:
        UsageError: when the limit is too small for the server alone.
    """
    limit_bytes = spec.memory_limit_bytes
    if limit_bytes is None:
        return
    row = session.connection.execute(
        "SELECT pg_size_bytes(current_setting('shared_buffers'))"
    ).fetchone()
    buffers_bytes = int(row[0]) if row else 0
    clients = spec.clients * spec.processes
    needed_bytes = memory_limit_min_bytes(buffers_bytes, clients)
    if needed_bytes <= limit_bytes:
        return
    raise UsageError(
        seen=f"A memory limit of {format_size(limit_bytes)} is less than the "
        f"{memory_limit_text(needed_bytes)} that a server with shared_buffers of "
        f"{format_size(buffers_bytes)} and {clients} clients may use",
        cause="The kernel would kill the server during the run, as soon as its buffers are in use",
        next_step=f"Use a limit of at least {memory_limit_text(needed_bytes)}, or a smaller "
        "setting, such as shared_buffers=32MB",
    )


CLONE: Final = "sample"
DATABASE: Final = "trial"
COPY: Final = "copy"
SERVER_EXIT_S: Final = 1.0
"""Clients may notice the end of a server earlier."""
LOG_LINES: Final = 5
_ERROR: Final = re.compile(r"\b(FATAL|PANIC): |terminated by signal")
COLD_SHARE_MAX: Final = 0.01
"""Share of the data that may remain in the page cache for a cold start."""
DEFAULT_CONNECTIONS: Final = 100
"""PostgreSQL's own max_connections."""
OWN_CONNECTIONS: Final = 10
"""Connections for the observer and other tools, with those reserved for superusers."""
WARM: Final = ("warm", "prewarmed", "as_is")
"""Start states that reading the data does not change."""
STOP_TIMEOUT_S: Final = 0.0
"""A server whose data is discarded need not be synced."""

_CLONE_METHODS: Final[dict[str, CloneMethod]] = {"reflink": "reflink", "copy": "copy"}


@dataclass(frozen=True, kw_only=True)
class _Data:
    """The loaded data for one sample.

    Attributes:
        cluster: The cluster, with no server running yet.
        database: Prefix of the names of the databases.
        how: How it was provided.
        elapsed_s: How long that took.
        is_kept: Whether it remains after the sample.
    """

    cluster: Cluster
    database: str = DATABASE
    how: str
    elapsed_s: float
    is_kept: bool = False


class EmbeddedServers:
    """Provides our own servers on one directory.

    Args:
        target: The directory.
        specs: Specifications of its cells.
        journal: Records every change before it is made.
    """

    def __init__(
        self, target: PlannedTarget, specs: Sequence[DatabaseSpec], journal: UndoJournal
    ) -> None:
        self._target = target
        self._specs = list(specs)
        self._untried = self._specs
        self._journal = journal
        self._folder: TrialFolder | None = None
        self.binaries: Binaries
        self._clusters: dict[Template, Cluster] = {}
        self._loaded: dict[Template, LoadResult] = {}

    def check(self) -> None:
        """Find the programs, and check settings and limits as far as possible without a server.

        Raises:
            StudyError: when a cell requests an impossible combination.
            TargetError: when there is no PostgreSQL, or memory cannot be limited here.
            UsageError: when a setting is invalid.
        """
        self.binaries = find_binaries(self._target.pg_bin)
        for spec in self._specs:
            check_settings(spec.settings)
            _require_possible(spec)
        limits_bytes = {spec.memory_limit_bytes for spec in self._specs} - {None}
        for limit_bytes in sorted(limit for limit in limits_bytes if limit is not None):
            remove_group(memory_limit(limit_bytes, self._journal), self._journal)

    def needed_bytes(self) -> int:
        """Return the space needed in the directory: all templates, and the largest clone."""
        return space_bytes(self._specs)

    def use(self, folder: TrialFolder) -> None:
        """Use an open trial folder; a server left there by a killed run is ended."""
        self._folder = folder
        for left in folder.files():
            if left.is_dir():
                end_server(left)

    def prepare(self, watcher: Watcher) -> None:
        """Create and load every missing template.

        Raises:
            SpaceError: when the file system is full.
            TargetError: when a server does not start, or loading fails.
            UsageError: when a server refuses a setting of a cell.
        """
        for template in self._templates():
            self._prepare(template, watcher)

    def close(self) -> None:
        """Do nothing: no server runs between samples, and the trial folder is removed."""

    @contextmanager
    def ready(self, spec: DatabaseSpec) -> Iterator[ReadyServer]:
        """Clone, bring into the start state and start a server; stop and remove it at the end.

        Raises:
            SpaceError: when the clone does not fit.
            TargetError: when the server does not start.
        """
        with self._data(spec) as data:
            is_cold = spec.start not in WARM
            start = self._start_state_when_cold(data, spec) if spec.replay and is_cold else None
            notes = _prepare_page_cache(data.cluster.folder, spec)
            limit_bytes = spec.memory_limit_bytes
            server = data.cluster.start(server_settings(spec), memory_limit_bytes=limit_bytes)
            try:
                endpoints = self._endpoints(server, data.database, spec.processes)
                if spec.replay and not is_cold:
                    start = _start_state(data, endpoints)
                if spec.start == "prewarmed":
                    prewarm(endpoints)
                yield ReadyServer(
                    endpoints=endpoints,
                    origin=endpoints.binaries.origin,
                    start_state=spec.start,
                    data_folder=data.cluster.folder,
                    server_pid=server.pid,
                    loaded=self._loaded[spec.load, spec.processes],
                    cloned=data.how,
                    cloned_s=data.elapsed_s,
                    explain=lambda error: explain_error(error, server),
                    notes=notes,
                    start=start,
                )
            finally:
                server.stop(*(() if data.is_kept else (STOP_TIMEOUT_S,)))

    def _templates(self) -> list[Template]:
        return with_bases((spec.load, spec.processes) for spec in self._specs)

    def _prepare(self, template: Template, watcher: Watcher) -> None:
        folder, binaries = self._required()
        name = _template_name(template, binaries)
        path, result_file = folder.file(name), folder.file(f"{name}.json")
        cluster = self._cluster_at(path, template, binaries)
        if not result_file.exists():
            cluster.remove()
            loaded = self._create(cluster, template, watcher)
            result_file.write_bytes(msgspec.json.encode(loaded))
        self._clusters[template] = cluster
        self._loaded[template] = msgspec.json.decode(result_file.read_bytes(), type=LoadResult)

    def _cluster_at(self, path: Path, template: Template, binaries: Binaries) -> Cluster:
        """Return a template's cluster; a clone has the owner of its source."""
        load, processes = template
        if load.migrate:
            return self._clusters[load.unmigrated, processes].at(path)
        account = account_for(path, binaries)
        return Cluster(folder=path, binaries=binaries, account=account, journal=self._journal)

    def _create(self, cluster: Cluster, template: Template, watcher: Watcher) -> LoadResult:
        """Create and load a template, or derive it from the one whose schema it changes."""
        load, processes = template
        if load.migrate:
            clone_folder(self._clusters[load.unmigrated, processes].folder, cluster.folder)
            return self._migrate(cluster, template, watcher)
        watcher.step(f"Creating a database cluster on {self._target.label}")
        create_cluster(cluster.folder, cluster.binaries, cluster.account, self._journal)
        self._try_settings(cluster)
        return self._load(cluster, template, watcher)

    def _try_settings(self, cluster: Cluster) -> None:
        """Start the first empty server with the settings of each cell, of later loads too.

        Invalid ones are reported before anything is loaded, which may take an hour.
        """
        by_settings: dict[str, list[DatabaseSpec]] = {}
        for spec in self._untried:
            by_settings.setdefault(repr(sorted(spec.settings.items())), []).append(spec)
        self._untried = []
        for specs in by_settings.values():
            with (
                cluster.start(specs[0].settings) as server,
                ServerSession(self._admin(server)) as session,
            ):
                for spec in specs:
                    require_memory(session, spec)

    def _load(self, cluster: Cluster, template: Template, watcher: Watcher) -> LoadResult:
        load, processes = template
        locale = archived_locale(load, self.binaries)
        with cluster.start({}) as server:
            try:
                endpoints = self._endpoints(server, DATABASE, processes)
                with ServerSession(self._admin(server)) as session:
                    for address in endpoints.addresses:
                        create_with_locale(session.connection, address.dbname, locale)
                loaded = load_databases(load, endpoints, self._target.label, watcher)
            except TargetError as error:
                raise explain_error(error, server) from None
        return loaded

    def _migrate(self, cluster: Cluster, template: Template, watcher: Watcher) -> LoadResult:
        load, processes = template
        base = self._loaded[load.unmigrated, processes]
        with cluster.start({}) as server:
            try:
                endpoints = self._endpoints(server, DATABASE, processes)
                migrated = migrate(load, endpoints, self._target.label, watcher)
            except TargetError as error:
                raise explain_error(error, server) from None
        return base.migrated(migrated)

    def _start_state_when_cold(self, data: _Data, spec: DatabaseSpec) -> StartRecord:
        """Read the initial state of a sample with a separate start, as reading fills caches."""
        with data.cluster.start({}) as server:
            return _start_state(data, self._endpoints(server, data.database, spec.processes))

    def _endpoints(self, server: Server, database: str, processes: int) -> Endpoints:
        names = _names(database, processes)
        addresses = [server.address.with_dbname(name) for name in names]
        return Endpoints(addresses=addresses, secret=None, binaries=self.binaries)

    @contextmanager
    def _data(self, spec: DatabaseSpec) -> Iterator[_Data]:
        """Provide the loaded data for one sample, by the requested method."""
        folder, _ = self._required()
        source = self._clusters[spec.load, spec.processes]
        if spec.clone == "template":
            elapsed_s = self._copy_databases(source, spec.processes)
            yield _Data(
                cluster=source, database=COPY, how="template", elapsed_s=elapsed_s, is_kept=True
            )
        elif spec.clone == "reuse":
            kept = source.at(folder.file(f"{source.folder.name}-reuse"))
            elapsed_s = 0.0 if kept.folder.exists() else _clone_atomically(source, kept)
            yield _Data(cluster=kept, how="reuse", elapsed_s=elapsed_s, is_kept=True)
        else:
            cluster = source.at(folder.file(CLONE))
            cluster.remove()
            cloned = clone_folder(
                source.folder, cluster.folder, _CLONE_METHODS.get(spec.clone, "auto")
            )
            try:
                yield _Data(cluster=cluster, how=cloned.how, elapsed_s=cloned.elapsed_s)
            finally:
                cluster.remove()

    def _copy_databases(self, cluster: Cluster, processes: int) -> float:
        """Copy the loaded databases on the server, replacing those of the previous sample.

        Returns the seconds that it took.
        """
        with cluster.start({}) as server, ServerSession(self._admin(server)) as session:
            began_s = time.monotonic()
            pairs = zip(_names(COPY, processes), _names(DATABASE, processes), strict=True)
            for copy, source in pairs:
                session.connection.execute(f"DROP DATABASE IF EXISTS {copy}".encode())
                session.connection.execute(f"CREATE DATABASE {copy} TEMPLATE {source}".encode())
            session.checkpoint()
            return time.monotonic() - began_s

    def _admin(self, server: Server) -> Endpoints:
        """Return the endpoints of the maintenance database."""
        return Endpoints(addresses=[server.address], secret=None, binaries=self.binaries)

    def _required(self) -> tuple[TrialFolder, Binaries]:
        if self._folder is None:
            raise RuntimeError("use must be called first")
        return self._folder, self.binaries


def _start_state(data: _Data, endpoints: Endpoints) -> StartRecord:
    are_copied = data.how in ("reflink", "copy")
    return read_start_state(endpoints, restored=data.how, of_copied_files=are_copied)


def _require_possible(spec: DatabaseSpec) -> None:
    """Raise StudyError for impossible combinations."""
    if spec.memory_limit_bytes is not None and spec.start in ("warm", "as_is"):
        raise StudyError(
            seen=f'A workload has start = "{spec.start}" under a memory_limit',
            cause="The cloned files are already in the page cache, which the limit does not cover",
            next_step='Use start = "cold" or "prewarmed"',
        )


def server_settings(spec: DatabaseSpec) -> dict[str, str]:
    """Return the settings of a cell, with enough connections for its clients."""
    needed = spec.clients * spec.processes + OWN_CONNECTIONS
    if needed <= DEFAULT_CONNECTIONS:
        return spec.settings
    return {"max_connections": str(needed), **spec.settings}


def _prepare_page_cache(folder: Path, spec: DatabaseSpec) -> list[str]:
    """Bring the files of a stopped server into the start state; return notes."""
    if spec.start in ("warm", "as_is"):
        return []
    dropped = drop_cached(folder)
    size_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if dropped.bytes_cached_after <= COLD_SHARE_MAX * size_bytes:
        return []
    return [
        f"The start is not cold: the page cache keeps {dropped.bytes_cached_after / size_bytes:.0%}"
        " of the data, as on a file system in memory."
    ]


def _clone_atomically(source: Cluster, kept: Cluster) -> float:
    """Clone a cluster atomically, so that a kill leaves no partial one; return the seconds."""
    part = kept.at(kept.folder.with_name(f"{kept.folder.name}-part"))
    part.remove()
    cloned = clone_folder(source.folder, part.folder)
    part.folder.rename(kept.folder)
    return cloned.elapsed_s


def _template_name(template: Template, binaries: Binaries) -> str:
    """Return a name that identifies the load, so that targets in one directory share it.

    An A/A control shares it.
    """
    described = msgspec.json.encode([*template, str(binaries.folder)])
    return f"template-{hashlib.sha256(described).hexdigest()[:8]}"


def _names(database: str, processes: int) -> list[str]:
    return [f"{database}_{number}" for number in range(1, processes + 1)]


def explain_error(error: SeatrialError, server: Server) -> SeatrialError:
    """Return the error of a server that died, instead of the clients' errors.

    So it is if the kernel killed one of its processes at the memory limit: the server ends all
    others then, and goes on. Otherwise the end of a living server's log is added to the clients'
    error.
    """
    was_killed = server.memory is not None and server.memory.kills() > 0
    if not was_killed and not wait_until(lambda: not server.is_alive(), SERVER_EXIT_S):
        full = as_space_error(error, server.data_folder)
        if full is not error:
            return full
        lines = [line for line in server.log_tail().splitlines() if _ERROR.search(line)]
        if not lines:
            return error
        last = " / ".join(lines[-LOG_LINES:])
        return TargetError(
            seen=f"{error.seen.rstrip('.')}; the server's log: {last}",
            cause=error.cause,
            next_step=error.next_step,
        )
    return server.death_error()
