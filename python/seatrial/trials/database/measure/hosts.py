"""A server loaded by several hosts: pgbench on each, with a common start and a merged result.

Every host connects once -> clocks are read -> each gets the start as an instant of its monotonic
clock -> pgbench runs there, without communication -> results -> clocks are read again -> merged.

The coordinating machine prepares the server and reads its counters.
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

from seatrial.errors import TargetError
from seatrial.fleet.group import (
    START_DELAY_S,
    Advice,
    Group,
    Host,
    HostLost,
    group_of_hosts,
    hosts_in_turn,
)
from seatrial.measure.progress import Watcher
from seatrial.measure.stage import Stage, StageRequest
from seatrial.postgres import connection
from seatrial.study.cell import Cell
from seatrial.study.hosts import Hosts, hosts_of
from seatrial.trials.database.measure.driver_result import (
    DriverOptions,
    DriverResult,
    Endpoints,
)
from seatrial.trials.database.measure.host_load import HostLoad
from seatrial.trials.database.measure.host_sum import CommonLoad, HostReport, merged_result
from seatrial.trials.database.measure.stage import Databases
from seatrial.trials.database.study.workloads import BUILTIN_SCRIPTS, DatabaseSpec
from seatrial.units import NS_PER_S

CONNECT_S: Final = 30.0
"""Maximum time for pgbench to connect its clients: with TLS and authentication a few hundred take
seconds."""
GRACE_S: Final = 15.0
NAME_BYTES_MAX: Final = 63
"""PostgreSQL truncates longer application names."""
_ADVICE: Final = Advice(
    used="server",
    cause="The host has no pgbench, cannot reach the server, or is down",
    next_step="Run `seatrial fleet check --ray ADDRESS URL`, and continue with --resume",
)
_TERMINATE: Final = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE application_name = %s AND datname = ANY(%s)
"""


def stage_of_host_load(request: StageRequest, hosts: Hosts) -> HostsStage:
    """Return the stage of a study whose servers are loaded by several hosts.

    Args:
        request: The plan, and the address of the cluster.
        hosts: The study's ``[hosts]``.
    """
    return HostsStage(
        request, max(hosts.counts), lambda group: HostLoadGenerator(group, hosts, request)
    )


class HostsStage(Stage):
    """Measures databases that are loaded by the hosts of a cluster.

    Args:
        request: The plan, and the address of the cluster.
        count: Number of hosts; None for all of the cluster.
        driver_of: Returns the load of a group of hosts.
    """

    def __init__(
        self, request: StageRequest, count: int | None, driver_of: Callable[[Group], HostDriver]
    ) -> None:
        self._address = request.ray
        self._count = count
        self._driver_of = driver_of
        self._driver: HostDriver | None = None
        self._stack = ExitStack()
        super().__init__(request)

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self._driver = self._driver_of(
                undo.enter_context(group_of_hosts(self._address, self._count))
            )
            for driver in self._drivers.values():
                if isinstance(driver, Databases):
                    self._driver.attach_to(driver)
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
        """Return whether enough hosts remain for a cell."""
        return self._driver is None or hosts_of(cell) <= self._driver.count_remaining()


class HostDriver(Protocol):
    """Hosts that load databases for the driver of a stage."""

    def count_remaining(self) -> int:
        """Return the number of remaining hosts."""

    def attach_to(self, driver: Databases) -> None:
        """Let the hosts generate the load of a driver."""


class HostLoadGenerator:
    """Runs pgbench on hosts of a group.

    Args:
        group: The hosts.
        hosts: The study's ``[hosts]``.
        request: The plan.
    """

    def __init__(self, group: Group, hosts: Hosts, request: StageRequest) -> None:
        self._group = group
        self._hosts = hosts
        self._run_id = request.run_id
        self._pg_bins = {target.url: target.pg_bin for target in request.plan.targets}

    def count_remaining(self) -> int:
        """Return the number of remaining hosts, without any that died between samples."""
        if self._hosts.on_loss == "continue":
            self._group.drop_silent()
        return len(self._group.remaining())

    def attach_to(self, driver: Databases) -> None:
        """Run a driver's pgbench on the hosts."""
        driver.load = lambda cell, round_number: partial(
            self._load, hosts=hosts_in_turn(self._group.remaining(), hosts_of(cell), round_number)
        )

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
        """Load the databases from these hosts; return the merged result.

        Raises:
            KeyboardInterrupt: when the user ended it; no result is stored.
            PartialResult: when a host was lost before the start.
            TargetError: when no host finished, or their programs differ.
        """
        watcher.step(f"Loading from {len(hosts)} hosts")
        endpoints_of_host = {
            host.name: _own_endpoints(endpoints, host.name, self._run_id) for host in hosts
        }
        prepared = self._group.call_each(
            lambda actor, host: actor.prepare_work.remote(
                self._part(hosts.index(host), kind, spec, endpoints_of_host[host.name], options)
            ),
            hosts,
        )
        self._group.require_all(prepared, _ADVICE)
        _require_same_version(prepared)
        common = self._group.run_together(
            hosts,
            lambda start_times_ns: self._results(
                hosts, endpoints_of_host, start_times_ns, options.duration_s
            ),
            _ADVICE,
        )
        since_start_s = (time.monotonic_ns() - common.start_ns) / NS_PER_S
        load = CommonLoad(
            start_ns=common.start_ns,
            start_unix_s=time.time() - since_start_s,
            duration_s=options.duration_s,
            slice_ms=options.slice_ms,
            hosts_count=len(hosts),
            on_loss=self._hosts.on_loss,
            lost=[each.since_start() for each in common.lost],
        )
        return merged_result(
            load,
            [
                HostReport(
                    name=host.name,
                    address=host.node.address,
                    cpus=host.cpus,
                    part=common.results[host.name]["done"],
                    before=common.before[host.name],
                    after=common.after.get(host.name),
                    received_bytes_per_s=float(common.results[host.name]["received_bytes_per_s"]),
                    sent_bytes_per_s=float(common.results[host.name]["sent_bytes_per_s"]),
                )
                for host in common.finished
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
        """Return the load of one host, with its own seed."""
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
                # Each process of a host has its own seed.
                seed=options.seed + number * spec.processes,
                load=None,
                play=None,
            ),
            run_id=f"{self._run_id}-host{number}",
            script=Path(spec.script).read_text(encoding="utf-8") if is_own else None,
        )

    def _results(
        self,
        hosts: Sequence[Host],
        endpoints: Mapping[str, Endpoints],
        start_times_ns: Mapping[str, int],
        duration_s: float,
    ) -> dict[str, Mapping[str, Any] | HostLost]:
        """Let the hosts load from one instant on; return their results, or how they were lost.

        Raises:
            KeyboardInterrupt: when the user ended it.
        """
        stops = self._hosts.on_loss == "stop"

        def after_loss(lost: HostLost) -> bool:
            # The others would wait for locks of its open transactions.
            _end_sessions(endpoints[lost.host])
            if stops:
                self._group.stop(host for host in hosts if host.name != lost.host)
            return False

        try:
            return self._group.call_each(
                lambda actor, host: actor.work.remote(start_times_ns[host.name]),
                hosts,
                timeout_s=START_DELAY_S + CONNECT_S + duration_s + GRACE_S,
                stop_on_loss=after_loss,
            )
        except KeyboardInterrupt:
            self._group.stop(hosts)
            for host in hosts:
                _end_sessions(endpoints[host.name])
            raise


def _own_endpoints(endpoints: Endpoints, host: str, run_id: str) -> Endpoints:
    """Return the databases with an application name that identifies the sessions of a host."""
    name = f"seatrial {run_id} {host}".encode()[:NAME_BYTES_MAX].decode(errors="ignore")
    return msgspec.structs.replace(
        endpoints,
        addresses=[
            msgspec.structs.replace(
                address, parameters={**address.parameters, "application_name": name}
            )
            for address in endpoints.addresses
        ],
    )


def _end_sessions(endpoints: Endpoints) -> None:
    """End the sessions of a host that was lost, if the server permits it."""
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
        session.execute(_TERMINATE, (name, databases))


def _require_same_version(versions: Mapping[str, str]) -> None:
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
