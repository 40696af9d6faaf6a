"""Servers of our own for the cells of a directory: loaded once, cloned and started anew each time.

In the run's trial folder lie a template for every load, ``template-...``, never measured itself,
and the clone that a sample works on, which is removed after it.
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

from seatrial.errors import SeatrialError, StudyError, TargetError
from seatrial.machine.file import TrialFolder
from seatrial.machine.space import as_space_error
from seatrial.machine.undo import UndoJournal
from seatrial.machine.undoer import comes_true
from seatrial.measure.progress import Watcher
from seatrial.postgres.account import account_for
from seatrial.postgres.binaries import Binaries, find_binaries
from seatrial.postgres.clone import How, clone_folder
from seatrial.postgres.cluster import Cluster, create_cluster
from seatrial.postgres.memory import memory_limit, remove_group
from seatrial.postgres.page_cache import drop_cached
from seatrial.postgres.processes import end_server
from seatrial.postgres.server import Server
from seatrial.postgres.settings import check_settings
from seatrial.results.start import StartRecord
from seatrial.study.model import PlannedTarget
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.load import Loaded, fill, migrate
from seatrial.trials.database.measure.memory_need import require_memory
from seatrial.trials.database.measure.ready import Ready, Template, with_bases
from seatrial.trials.database.measure.server_session import ServerSession, prewarm
from seatrial.trials.database.measure.start_state import look_at_start
from seatrial.trials.database.study.cost import space_bytes
from seatrial.trials.database.study.workloads import DatabaseSpec, LoadSpec

CLONE: Final = "sample"
DATABASE: Final = "trial"
COPY: Final = "copy"
DEATH_S: Final = 1.0
"""Clients may see the end of a server before we do."""
LOG_LINES: Final = 5
_GRAVE: Final = re.compile(r"\b(FATAL|PANIC): |terminated by signal")
COLD_SHARE_MAX: Final = 0.01
"""Of the data, what the page cache may still hold of them for the start to be cold."""
USUAL_CONNECTIONS: Final = 100
"""PostgreSQL's own max_connections."""
OWN_CONNECTIONS: Final = 10
"""Of the observer and of whom else a trial has, with those that the server keeps for superusers."""
WARM: Final = ("warm", "prewarmed", "as_is")
"""Start states that looking at the data does not change."""
AT_ONCE_S: Final = 0.0
"""A server whose data are thrown away need not write them first."""

_HOW: Final[dict[str, How]] = {"reflink": "reflink", "copy": "copy"}


@dataclass(frozen=True, kw_only=True)
class _Data:
    """The loaded data, for one sample.

    Attributes:
        cluster: On which no server runs yet.
        database: What the names of the databases begin with.
        how: They came here.
        elapsed_s: That took.
        is_kept: Whether they are there after the sample.
    """

    cluster: Cluster
    database: str = DATABASE
    how: str
    elapsed_s: float
    is_kept: bool = False


class Embedded:
    """Provides servers of our own on one directory.

    Args:
        target: The directory.
        specs: Of its cells.
        journal: Where everything is recorded before it is made.
    """

    def __init__(
        self, target: PlannedTarget, specs: Sequence[DatabaseSpec], journal: UndoJournal
    ) -> None:
        self._target = target
        self._specs = list(specs)
        self._journal = journal
        self._folder: TrialFolder | None = None
        self._binaries: Binaries | None = None
        self._clusters: dict[Template, Cluster] = {}
        self._loaded: dict[Template, Loaded] = {}

    def check(self) -> None:
        """Find the programs, and check settings and limits as far as that needs no server.

        Raises:
            StudyError: when a cell asks for what cannot be had together.
            TargetError: when there is no PostgreSQL, or memory cannot be limited here.
            UsageError: when a setting cannot be given.
        """
        pg_bin = self._target.pg_bin
        self._binaries = find_binaries(Path(pg_bin) if pg_bin else None)
        for spec in self._specs:
            check_settings(spec.settings)
            _require_possible(spec)
        limits_bytes = {spec.memory_limit_bytes for spec in self._specs} - {None}
        for limit_bytes in sorted(each for each in limits_bytes if each is not None):
            remove_group(memory_limit(limit_bytes, self._journal), self._journal)

    def needed_bytes(self) -> int:
        """Return what the directory must have room for: every template, and the largest clone."""
        return space_bytes(self._specs)

    def use(self, folder: TrialFolder) -> None:
        """Work in a trial folder, which is open; what a killed server left there is ended."""
        self._folder = folder
        for left in folder.files():
            if left.is_dir():
                end_server(left)

    def prepare(self, watcher: Watcher) -> None:
        """Make and load every template that is not there yet.

        Raises:
            SpaceError: when the file system is full.
            TargetError: when a server does not start, or loading fails.
            UsageError: when a server refuses a setting of a cell.
        """
        for template in self._templates():
            self._prepare(template, watcher)

    def close(self) -> None:
        """Nothing runs between samples, and the trial folder goes with all that is in it."""

    @contextmanager
    def ready(self, spec: DatabaseSpec) -> Iterator[Ready]:
        """Clone, bring into the start state, start; stop and remove in the end.

        Raises:
            SpaceError: when the clone does not fit.
            TargetError: when the server does not start.
        """
        with self._data(spec) as data:
            is_cold = spec.start not in WARM
            start = self._looked_at_cold(data, spec) if spec.replay and is_cold else None
            notes = _bring_into(data.cluster.folder, spec)
            limit_bytes = spec.memory_limit_bytes
            server = data.cluster.start(_settings(spec), memory_limit_bytes=limit_bytes)
            try:
                endpoints = self._endpoints(server, data.database, spec.processes)
                if spec.replay and not is_cold:
                    start = _looked_at(data, endpoints)
                if spec.start == "prewarmed":
                    prewarm(endpoints)
                yield Ready(
                    endpoints=endpoints,
                    origin=endpoints.binaries.origin,
                    start_state=spec.start,
                    place=data.cluster.folder,
                    server_pid=server.pid,
                    loaded=self._loaded[spec.load, spec.processes],
                    cloned=data.how,
                    cloned_s=data.elapsed_s,
                    explain=lambda error: explained(error, server),
                    notes=notes,
                    start=start,
                )
            finally:
                server.stop(*(() if data.is_kept else (AT_ONCE_S,)))

    def _templates(self) -> list[Template]:
        return with_bases((spec.load, spec.processes) for spec in self._specs)

    def _prepare(self, template: Template, watcher: Watcher) -> None:
        folder, binaries = self._required()
        name = _template_name(template, binaries)
        path, reported = folder.file(name), folder.file(f"{name}.json")
        cluster = self._cluster_at(path, template, binaries)
        if not reported.exists():
            cluster.remove()
            loaded = self._made(cluster, template, watcher)
            reported.write_bytes(msgspec.json.encode(loaded))
        self._clusters[template] = cluster
        self._loaded[template] = msgspec.json.decode(reported.read_bytes(), type=Loaded)

    def _cluster_at(self, path: Path, template: Template, binaries: Binaries) -> Cluster:
        """Return a template's cluster; one that is cloned of another keeps that one's owner."""
        load, processes = template
        if load.migrate:
            return self._clusters[load.unmigrated, processes].at(path)
        account = account_for(path, binaries)
        return Cluster(folder=path, binaries=binaries, account=account, journal=self._journal)

    def _made(self, cluster: Cluster, template: Template, watcher: Watcher) -> Loaded:
        """Make and load a template, or make it of the one whose schema it changes."""
        load, processes = template
        if load.migrate:
            clone_folder(self._clusters[load.unmigrated, processes].folder, cluster.folder)
            return self._migrate(cluster, template, watcher)
        watcher.stage(f"Making a database cluster on {self._target.label}")
        create_cluster(cluster.folder, cluster.binaries, cluster.account, self._journal)
        self._try_settings(cluster, load, processes)
        return self._load(cluster, template, watcher)

    def _try_settings(self, cluster: Cluster, load: LoadSpec, processes: int) -> None:
        """Start the empty server with the settings of each cell: wrong ones are told now."""
        tried: dict[str, list[DatabaseSpec]] = {}
        for spec in self._specs:
            if (spec.load.unmigrated, spec.processes) == (load, processes):
                tried.setdefault(repr(sorted(spec.settings.items())), []).append(spec)
        for alike in tried.values():
            with (
                cluster.start(alike[0].settings) as server,
                ServerSession(self._admin(server)) as session,
            ):
                for spec in alike:
                    require_memory(session, spec)

    def _load(self, cluster: Cluster, template: Template, watcher: Watcher) -> Loaded:
        load, processes = template
        with cluster.start({}) as server:
            try:
                endpoints = self._endpoints(server, DATABASE, processes)
                with ServerSession(self._admin(server)) as session:
                    for address in endpoints.addresses:
                        session.connection.execute(f"CREATE DATABASE {address.dbname}".encode())
                loaded = fill(load, endpoints, self._target.label, watcher)
            except TargetError as error:
                raise explained(error, server) from None
        return loaded

    def _migrate(self, cluster: Cluster, template: Template, watcher: Watcher) -> Loaded:
        load, processes = template
        base = self._loaded[load.unmigrated, processes]
        with cluster.start({}) as server:
            try:
                endpoints = self._endpoints(server, DATABASE, processes)
                migrated = migrate(load, endpoints, self._target.label, watcher)
            except TargetError as error:
                raise explained(error, server) from None
        return Loaded(loaded_s=base.loaded_s + migrated.loaded_s, rows=migrated.rows)

    def _looked_at_cold(self, data: _Data, spec: DatabaseSpec) -> StartRecord:
        """Look at what a sample will begin with, by a start of its own: looking fills caches."""
        with data.cluster.start({}) as server:
            return _looked_at(data, self._endpoints(server, data.database, spec.processes))

    def _endpoints(self, server: Server, database: str, processes: int) -> Endpoints:
        names = _names(database, processes)
        addresses = [server.address.with_dbname(name) for name in names]
        return Endpoints(addresses=addresses, secret=None, binaries=self.binaries)

    @contextmanager
    def _data(self, spec: DatabaseSpec) -> Iterator[_Data]:
        """Give the loaded data to one sample, in the way that it asks for."""
        folder, _ = self._required()
        source = self._clusters[spec.load, spec.processes]
        if spec.clone == "template":
            elapsed_s = self._copy_databases(source, spec.processes)
            yield _Data(
                cluster=source, database=COPY, how="template", elapsed_s=elapsed_s, is_kept=True
            )
        elif spec.clone == "reuse":
            kept = source.at(folder.file(f"{source.folder.name}-reuse"))
            elapsed_s = 0.0 if kept.folder.exists() else _clone_whole(source, kept)
            yield _Data(cluster=kept, how="reuse", elapsed_s=elapsed_s, is_kept=True)
        else:
            cluster = source.at(folder.file(CLONE))
            cluster.remove()
            cloned = clone_folder(source.folder, cluster.folder, _HOW.get(spec.clone, "auto"))
            try:
                yield _Data(cluster=cluster, how=cloned.how, elapsed_s=cloned.elapsed_s)
            finally:
                cluster.remove()

    def _copy_databases(self, cluster: Cluster, processes: int) -> float:
        """Have the server copy its loaded databases, over those of the sample before.

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
        """Return the way to the database that is there before any other."""
        return Endpoints(addresses=[server.address], secret=None, binaries=self.binaries)

    @property
    def binaries(self) -> Binaries:
        """The programs of the server.

        Raises:
            RuntimeError: when they were not looked for yet.
        """
        if self._binaries is None:
            raise RuntimeError("check comes before anything else")
        return self._binaries

    def _required(self) -> tuple[TrialFolder, Binaries]:
        if self._folder is None:
            raise RuntimeError("use comes before anything is made")
        return self._folder, self.binaries


def _looked_at(data: _Data, endpoints: Endpoints) -> StartRecord:
    are_copied = data.how in ("reflink", "copy")
    return look_at_start(endpoints, restored=data.how, of_copied_files=are_copied)


def _require_possible(spec: DatabaseSpec) -> None:
    """Raise StudyError for what cannot be had together."""
    if spec.memory_limit_bytes is not None and spec.start in ("warm", "as_is"):
        raise StudyError(
            seen=f'A workload asks for start = "{spec.start}" under a memory_limit',
            cause="What the page cache holds of the files was brought there by the cloning, which "
            "the limit does not cover",
            next_step='Write start = "cold" or "prewarmed"',
        )


def _settings(spec: DatabaseSpec) -> dict[str, str]:
    """Return the settings of a cell, with room for the connections of a replay."""
    needed = spec.clients + OWN_CONNECTIONS
    if spec.replay is None or needed <= USUAL_CONNECTIONS:
        return spec.settings
    return {"max_connections": str(needed), **spec.settings}


def _bring_into(folder: Path, spec: DatabaseSpec) -> list[str]:
    """Bring the files of a server that does not run into the start state; return notes."""
    if spec.start in ("warm", "as_is"):
        return []
    dropped = drop_cached(folder)
    size_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if dropped.bytes_cached_after <= COLD_SHARE_MAX * size_bytes:
        return []
    return [
        f"The start is not cold: the page cache keeps {dropped.bytes_cached_after / size_bytes:.0%}"
        " of the data, as on a file system that lives in memory."
    ]


def _clone_whole(source: Cluster, kept: Cluster) -> float:
    """Clone a cluster, in such a way that a kill leaves no half one; return the seconds."""
    part = kept.at(kept.folder.with_name(f"{kept.folder.name}-part"))
    part.remove()
    cloned = clone_folder(source.folder, part.folder)
    part.folder.rename(kept.folder)
    return cloned.elapsed_s


def _template_name(template: Template, binaries: Binaries) -> str:
    """Return a name that tells what is loaded: two targets may be one directory, for an A/A pair.

    Then what one has loaded serves both.
    """
    described = msgspec.json.encode([*template, str(binaries.folder)])
    return f"template-{hashlib.sha256(described).hexdigest()[:8]}"


def _names(database: str, processes: int) -> list[str]:
    return [f"{database}_{number}" for number in range(1, processes + 1)]


def explained(error: SeatrialError, server: Server) -> SeatrialError:
    """Return the error of a server that died in place of what its clients saw of it.

    Where it lives on, the end of its log is told with what the clients saw.
    """
    if not comes_true(lambda: not server.is_alive(), DEATH_S):
        full = as_space_error(error, server.data_folder)
        if full is not error:
            return full
        reported = [line for line in server.log_tail().splitlines() if _GRAVE.search(line)]
        if not reported:
            return error
        last = " / ".join(reported[-LOG_LINES:])
        return TargetError(
            seen=f"{error.seen.rstrip('.')}; the server's log says: {last}",
            cause=error.cause,
            next_step=error.next_step,
        )
    return server.death()
