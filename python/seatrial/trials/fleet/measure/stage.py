"""The stage of a study on several hosts: files, clocks, a common start, and the merge.

A sample: read clocks -> send the cell and a start time of its own monotonic clock to every host ->
all measure without any call -> collect results -> read clocks again -> merge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from seatrial.errors import PartialResult, TargetError
from seatrial.fleet.group import (
    START_DELAY_S,
    Advice,
    Group,
    Host,
    HostLost,
    group_of_hosts,
    hosts_in_turn,
    require_same_content,
)
from seatrial.measure.engine import SampleContext
from seatrial.measure.progress import Watcher
from seatrial.measure.recorder import SystemCounters
from seatrial.measure.stage import Stage, StageRequest
from seatrial.results.model import Sample
from seatrial.study.cell import Cell, SpecDocument
from seatrial.study.hosts import FACTOR, Hosts, hosts_of
from seatrial.study.model import Plan
from seatrial.study.seeds import seed_of
from seatrial.trials.fleet.measure.sample import Answer, SampleRequest, merged_sample

GRACE_S: Final = 15.0
"""After the planned end: the engine waits up to 10 s for requests in flight."""
PREPARE_S: Final = 3600.0
_ADVICE: Final = Advice(
    used="target",
    cause="The host or Seatrial's process on it ended, or its network failed",
    next_step="Run `seatrial fleet check --ray ADDRESS`, and continue with --resume",
)


class FleetStage(Stage):
    """Measures the cells of a plan on several hosts together.

    Shared files are created on this machine, where the target's path is mounted as on every host;
    each host creates its own files.

    Args:
        request: The plan, and the address of the head.
        hosts: The study's ``[hosts]``.
    """

    def __init__(self, request: StageRequest, hosts: Hosts) -> None:
        self._hosts = hosts
        self._full_plan = request.plan
        self._request = request
        self._shared = hosts.files == "shared"
        self._mounts: dict[str, str] = {}
        self._stack = ExitStack()
        self._group: Group | None = None
        plan = request.plan if self._shared else _without_files(request.plan)
        super().__init__(replace(request, plan=plan, destroy=None))

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            count = max(self._hosts.counts)
            self._group = undo.enter_context(group_of_hosts(self._request.ray, count))
            if self._shared:
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
        """Remove the files of all hosts; raises TargetError where some remain."""
        left: TargetError | None = None
        if not self._shared and self._group is not None:
            # Without a head, each host's own journal has the files.
            with suppress(PartialResult):
                hosts = self._remaining()
                left = _not_closed(self._group.ask("close_own", hosts=hosts, timeout_s=PREPARE_S))
        self._stack.__exit__(kind, error, trace)
        if left is not None and error is not None:
            error.add_note(str(left))
        elif left is not None:
            raise left

    def is_available(self, cell: Cell) -> bool:
        """Return whether enough hosts are left for a cell, after any that died between samples."""
        if self._hosts.on_loss == "continue":
            self._open_group().drop_silent()
        return hosts_of(cell) <= len(self._remaining())

    def _remaining(self) -> list[Host]:
        return self._group.remaining() if self._group else []

    def prepare(self, watcher: Watcher) -> None:
        """Write the files, and check that every host has the shared ones.

        Raises:
            TargetError: when a host cannot create its own, or has another file or none.
        """
        if self._shared:
            super().prepare(watcher)
            self._check_content()
            return
        watcher.step(f"Filling the files of {len(self._remaining())} hosts")
        plan = _single_host_plan(self._full_plan)
        names = {host.name: number for number, host in enumerate(self._remaining())}
        answers = self._open_group().call_each(
            lambda actor, host: actor.open_own.remote(
                plan, f"{self.run_id}-host{names[host.name]}", self._request.target_state
            ),
            timeout_s=PREPARE_S,
        )
        for lost in answers.values():
            if isinstance(lost, HostLost):
                raise _not_prepared(lost)
        path = next(iter(plan.targets)).path
        found = self._open_group().ask("reach", [path])
        self._mounts = {
            name: f"{paths[0].source} {paths[0].filesystem} {','.join(paths[0].mount_options)}"
            for name, paths in found.items()
            if not isinstance(paths, HostLost)
        }

    def _check_content(self) -> None:
        """Check that every host has the content of each shared file."""
        for file in self.plan.files:
            path = str(self.path(file.target, file.name))
            contents = self._open_group().ask("content", path)
            for found in contents.values():
                if isinstance(found, HostLost):
                    raise _not_prepared(found)
            require_same_content(
                contents,
                path,
                cause="The path is not on a file system that all hosts have mounted",
                next_step='Mount it there, or set files = "own" in [hosts]',
            )
            self._mounts |= {name: str(found["mount"]) for name, found in contents.items()}

    def spec(self, cell: Cell, round_number: int) -> SpecDocument:
        """Return the specification of a cell; with own files each host adds its path."""
        if self._shared:
            return super().spec(cell, round_number)
        return {"target": {}, "seed": self._seed(cell.key, round_number)}

    def measure(self, cell: Cell, spec: Mapping[str, Any], sample_context: SampleContext) -> Sample:
        """Measure one cell on its number of hosts.

        Returns:
            The sum over hosts. Where a host was lost, the sample is of a cell of its own, so that
            it is never averaged with samples of all hosts.

        Raises:
            PartialResult: when a host was lost before the start.
            TargetError: when no host finished its part.
        """
        round_number = sample_context.round_number
        hosts = hosts_in_turn(self._remaining(), hosts_of(cell), round_number)
        path = self.path(cell.target, self.plan.files[0].name) if self._shared else None
        grown: dict[str, float] = {}

        def run(start_times_ns: Mapping[str, int]) -> Mapping[str, Any]:
            system = SystemCounters(path)
            answers = self._run(cell, spec, hosts, start_times_ns, round_number)
            grown.update(system.grown())
            return answers

        common = self._open_group().run_together(hosts, run, _ADVICE)
        parts = [
            Answer(
                name=host.name,
                address=host.node.address,
                cpus=host.cpus,
                parts=common.results[host.name],
                before=common.before[host.name],
                after=common.after.get(host.name),
                mount=self._mounts.get(host.name, ""),
            )
            for host in common.finished
        ]
        request = SampleRequest(
            cell=cell,
            round_number=round_number,
            position=sample_context.position,
            start_ns=common.start_ns,
            hosts_count=len(hosts),
            on_loss=self._hosts.on_loss,
            lost=[each.since_start() for each in common.lost],
            grown=grown,
        )
        return merged_sample(request, parts)

    def _run(
        self,
        cell: Cell,
        spec: Mapping[str, Any],
        hosts: Sequence[Host],
        start_times_ns: Mapping[str, int],
        round_number: int,
    ) -> dict[str, Any]:
        """Measure on the hosts; return their results, or how they were lost.

        Args:
            cell: The cell.
            spec: Its specification.
            hosts: Participating hosts.
            start_times_ns: By each host's own clock, by name.
            round_number: The round, from 0.
        """
        stops = self._hosts.on_loss == "stop"

        def stop_others(lost: HostLost) -> bool:
            if stops:
                self._open_group().stop(host for host in hosts if host.name != lost.host)
            return stops

        return self._open_group().call_each(
            lambda actor, host: actor.measure.remote(
                cell,
                {**spec, "seed": seed_of(int(spec["seed"]), hosts.index(host))},
                round_number,
                start_times_ns[host.name],
            ),
            hosts,
            timeout_s=START_DELAY_S + cell.parsed.duration_s + GRACE_S,
            stop_on_loss=stop_others,
        )

    def _open_group(self) -> Group:
        if self._group is None:
            raise RuntimeError("the stage is not open")
        return self._group


def _without_files(plan: Plan) -> Plan:
    """Return a plan without files on this machine."""
    return msgspec.structs.replace(plan, files=[])


def _single_host_plan(plan: Plan) -> Plan:
    """Return the plan of one host: each cell once, without the number of hosts."""
    cells = {}
    for cell in plan.cells:
        key = cell.key.rpartition("/")[0]
        factors = {name: value for name, value in cell.factors.items() if name != FACTOR}
        cells[key] = msgspec.structs.replace(cell, key=key, factors=factors)
    study = msgspec.structs.replace(plan.study, hosts=None)
    return msgspec.structs.replace(plan, study=study, cells=list(cells.values()))


def _not_closed(answers: Mapping[str, HostLost | None]) -> TargetError | None:
    """Return the error of hosts that did not remove their own files; None if all did."""
    lost = [each for each in answers.values() if each is not None]
    if not lost:
        return None
    return TargetError(
        seen="Hosts still have trial files: "
        + "; ".join(f"{each.host} ({each.detail or each.how})" for each in lost),
        cause="They could not undo their changes, or did not answer",
        next_step=f"Run `seatrial clean` on {', '.join(each.host for each in lost)}",
    )


def _not_prepared(lost: HostLost) -> TargetError:
    return TargetError(
        seen=f"{lost.host} could not be prepared ({lost.how}): {lost.detail or 'no answer'}",
        cause="The target's path is missing there, or the host is down",
        next_step="Run `seatrial fleet check --ray ADDRESS PATH`",
    )
