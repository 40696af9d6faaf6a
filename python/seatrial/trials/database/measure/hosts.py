"""A server that several hosts load together: pgbench on each, one start, and the sum.

Every host connects once -> clocks are read -> each is given an instant of its own monotonic clock
-> pgbench runs there, and nobody calls anybody -> results -> clocks are read again -> merged.

The server is prepared, and its own counters are read, by the machine that conducts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

import msgspec

from seatrial.errors import PartialResult, TargetError
from seatrial.fleet.group import (
    START_DELAY_S,
    Group,
    Host,
    HostLost,
    all_hosts_lost,
    group_of_hosts,
)
from seatrial.measure.progress import Watcher
from seatrial.measure.stage import Stage, StageRequest
from seatrial.postgres import connection
from seatrial.results.fleet import ClockOffset
from seatrial.study.cell import Cell
from seatrial.study.hosts import Hosts, hosts_of
from seatrial.trials.database.measure.driver_result import (
    DriverOptions,
    DriverResult,
    Endpoints,
)
from seatrial.trials.database.measure.host_load import HostLoad
from seatrial.trials.database.measure.host_sum import HostAnswer, Together, summed
from seatrial.trials.database.measure.stage import Databases
from seatrial.trials.database.study.workloads import BUILTIN_SCRIPTS, DatabaseSpec

CONNECT_S: Final = 30.0
"""pgbench may take so long to connect its clients: with TLS and authentication a few hundred take
seconds."""
GRACE_S: Final = 15.0
NAME_BYTES_MAX: Final = 63
"""PostgreSQL cuts longer application names off."""
_LOOK: Final = "Look with `seatrial fleet check --ray ADDRESS URL`, and go on with --resume"
_END: Final = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE application_name = %s AND datname = ANY(%s)
"""


def loaded_by_hosts(request: StageRequest, hosts: Hosts) -> HostsStage:
    """Return the stage of a study whose servers several hosts load.

    Args:
        request: What is measured, and where the head answers.
        hosts: The study's ``[hosts]``.
    """
    return HostsStage(request, max(hosts.counts), lambda group: HostCrowd(group, hosts, request))


class HostsStage(Stage):
    """Where databases are measured whose load comes from the hosts of a cluster.

    Args:
        request: What is measured, and where the head answers.
        count: How many hosts take part; None for all of the cluster.
        crowd_of: Makes what equips a driver with the load of a group.
    """

    def __init__(
        self, request: StageRequest, count: int | None, crowd_of: Callable[[Group], Crew]
    ) -> None:
        self._address = request.ray
        self._count = count
        self._crowd_of = crowd_of
        self._crew: Crew | None = None
        self._stack = ExitStack()
        super().__init__(
            request.plan,
            request.run_id,
            request.journal,
            destroy=request.destroy,
            target_state=request.target_state,
        )

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self._crew = self._crowd_of(
                undo.enter_context(group_of_hosts(self._address, self._count))
            )
            for driver in self._drivers.values():
                if isinstance(driver, Databases):
                    self._crew.equip(driver)
            undo.push(super().__exit__)
            super().__enter__()
            self._stack = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def is_available(self, cell: Cell) -> bool:
        """Return whether enough hosts are left for a cell."""
        return self._crew is None or hosts_of(cell) <= self._crew.left_count


class Crew(Protocol):
    """Hosts that load databases; equips the driver of a stage with them."""

    @property
    def left_count(self) -> int:
        """How many hosts are left."""

    def equip(self, driver: Databases) -> None:
        """Have a driver's load made by the hosts."""


class HostCrowd:
    """Runs pgbench on hosts of a group.

    Args:
        group: The hosts.
        hosts: The study's ``[hosts]``.
        request: What is measured.
    """

    def __init__(self, group: Group, hosts: Hosts, request: StageRequest) -> None:
        self._group = group
        self._hosts = hosts
        self._run_id = request.run_id
        self._pg_bins = {target.url: target.pg_bin for target in request.plan.targets}
        self._gone: set[str] = set()

    @property
    def left_count(self) -> int:
        """How many hosts are left."""
        return len(self._left())

    def equip(self, driver: Databases) -> None:
        """Have a driver's pgbench run on the hosts."""
        driver.load = lambda cell, round_number: partial(
            self._load, hosts=self._turn(hosts_of(cell), round_number)
        )

    def _left(self) -> list[Host]:
        return [each for each in self._group.hosts if each.name not in self._gone]

    def _turn(self, count: int, round_number: int) -> list[Host]:
        """Return the hosts of a round: each has its turn where a cell needs fewer."""
        left = self._left()
        first = round_number % len(left)
        hosts = [left[(first + number) % len(left)] for number in range(count)]
        return sorted(hosts, key=left.index)

    def _load(
        self,
        kind: str,
        spec: DatabaseSpec,
        endpoints: Endpoints,
        options: DriverOptions,
        watcher: Watcher,
        *,
        hosts: Sequence[Host],
    ) -> DriverResult:
        """Load the databases from these hosts; return the sum.

        Raises:
            KeyboardInterrupt: when the user ended it; nothing is kept.
            PartialResult: when a host was lost before the start.
            TargetError: when no host finished, or their programs differ.
        """
        watcher.stage(f"Loading from {len(hosts)} hosts")
        named = {host.name: _own_endpoints(endpoints, host.name, self._run_id) for host in hosts}
        prepared = self._group.call_each(
            lambda actor, host: actor.prepare_work.remote(
                self._part(hosts.index(host), kind, spec, named[host.name], options)
            ),
            hosts,
        )
        self._require_all(prepared)
        _require_alike(prepared)
        read = self._group.clocks(hosts)
        self._require_all(read)
        before = {name: each for name, each in read.items() if isinstance(each, ClockOffset)}
        start_ns = time.monotonic_ns() + int(START_DELAY_S * 1e9)
        answers = self._answers(hosts, named, start_ns, before, options.duration_s)
        found = {n: a for n, a in answers.items() if not isinstance(a, HostLost)}
        lost = [each for each in answers.values() if isinstance(each, HostLost)]
        self._gone |= {each.host for each in lost}
        kept = [host for host in hosts if host.name in found]
        if not kept:
            raise all_hosts_lost(lost, "server", _LOOK)
        after = self._group.clocks(kept)
        together = Together(
            start_ns=start_ns,
            duration_s=options.duration_s,
            slice_ms=options.slice_ms,
            hosts_count=len(hosts),
            on_loss=self._hosts.on_loss,
            lost=[each.since_start() for each in lost],
        )
        return summed(
            together,
            [
                HostAnswer(
                    name=host.name,
                    address=host.node.address,
                    cpus=max(1.0, host.node.cpus),
                    part=found[host.name]["done"],
                    before=before[host.name],
                    after=_clock(after[host.name]),
                    received_bytes_per_s=float(found[host.name]["received_bytes_per_s"]),
                    sent_bytes_per_s=float(found[host.name]["sent_bytes_per_s"]),
                )
                for host in kept
            ],
        )

    def _part(
        self,
        number: int,
        kind: str,
        spec: DatabaseSpec,
        endpoints: Endpoints,
        options: DriverOptions,
    ) -> HostLoad:
        """Return the load of one host: the same but for its seed."""
        is_own = kind == "pgbench" and spec.script not in BUILTIN_SCRIPTS
        pg_bin = next(iter(self._pg_bins.values()), "") if len(self._pg_bins) == 1 else ""
        return HostLoad(
            kind=kind,
            spec=spec,
            addresses=endpoints.addresses,
            secret=endpoints.secret,
            pg_bin=pg_bin or "",
            options=msgspec.structs.replace(
                options,
                # Each process of a host has a seed of its own, too.
                seed=options.seed + number * spec.processes,
                load=None,
                play=None,
            ),
            run_id=f"{self._run_id}-host{number}",
            script=Path(spec.script).read_text(encoding="utf-8") if is_own else None,
        )

    def _answers(
        self,
        hosts: Sequence[Host],
        endpoints: Mapping[str, Endpoints],
        start_ns: int,
        clocks: Mapping[str, ClockOffset],
        duration_s: float,
    ) -> dict[str, Mapping[str, Any] | HostLost]:
        """Have the hosts load from one instant on; return their parts, or how they were lost.

        Raises:
            KeyboardInterrupt: when the user ended it.
        """
        stops = self._hosts.on_loss == "stop"

        def after_loss(lost: HostLost) -> bool:
            # Its open transactions hold locks, for which the others would wait.
            _end_sessions(endpoints[lost.host])
            for host in hosts if stops else ():
                if host.name != lost.host:
                    host.actor.stop.remote()
            return False

        try:
            return self._group.call_each(
                lambda actor, host: actor.work.remote(start_ns + clocks[host.name].offset_ns),
                hosts,
                timeout_s=START_DELAY_S + CONNECT_S + duration_s + GRACE_S,
                stop_on_loss=after_loss,
            )
        except KeyboardInterrupt:
            for host in hosts:
                host.actor.stop.remote()
                _end_sessions(endpoints[host.name])
            raise

    def _require_all(self, answers: Mapping[str, Any]) -> None:
        """Check that every host answered before the start.

        Raises:
            PartialResult: when one did not.
        """
        lost = [each for each in answers.values() if isinstance(each, HostLost)]
        if lost:
            self._gone |= {each.host for each in lost}
            raise PartialResult(
                seen=f"{'; '.join(each.words for each in lost)}, before the next test began; the "
                "samples until then are stored",
                cause="The host has no pgbench, cannot reach the server, or is gone",
                next_step=_LOOK,
            )


def _own_endpoints(endpoints: Endpoints, host: str, run_id: str) -> Endpoints:
    """Return the databases with the name by which the server knows the sessions of a host."""
    name = f"seatrial {run_id} {host}".encode()[:NAME_BYTES_MAX].decode(errors="ignore")
    return msgspec.structs.replace(
        endpoints,
        addresses=[
            msgspec.structs.replace(each, parameters={**each.parameters, "application_name": name})
            for each in endpoints.addresses
        ],
    )


def _end_sessions(endpoints: Endpoints) -> None:
    """End the sessions of a host that was lost; a server that refuses keeps them."""
    address = endpoints.addresses[0]
    name = address.parameters["application_name"]
    plain = msgspec.structs.replace(
        address,
        parameters={n: v for n, v in address.parameters.items() if n != "application_name"},
    )
    databases = [each.dbname for each in endpoints.addresses]
    with (
        suppress(TargetError),
        closing(connection.connect(plain, secret=endpoints.secret)) as session,
    ):
        session.execute(_END, (name, databases))


def _require_alike(versions: Mapping[str, str]) -> None:
    """Check that all hosts have the same version of pgbench.

    Raises:
        TargetError: when they differ.
    """
    if len(set(versions.values())) > 1:
        raise TargetError(
            seen="The hosts have different versions of pgbench: "
            + ", ".join(f"{name} {version}" for name, version in versions.items()),
            cause="They would send different statements",
            next_step="Install the same version on all hosts, or name its folder with --pg-bin",
        )


def _clock(found: ClockOffset | HostLost) -> ClockOffset | None:
    return found if isinstance(found, ClockOffset) else None
