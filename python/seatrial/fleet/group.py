"""The participating hosts of a cluster: an actor on each, and concurrent calls to all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

import msgspec

from seatrial.errors import PartialResult, TargetError
from seatrial.fleet.cluster import Cluster, ClusterError, Node, connect
from seatrial.fleet.heartbeat import LIMIT_S, Heartbeats
from seatrial.fleet.host import HostActor
from seatrial.fleet.link import clock_offset
from seatrial.results.fleet import ClockOffset, LostHost

START_S: Final = 90.0
"""Timeout of starting our actor on every host, with a Python process."""
CALL_S: Final = 60.0
POLL_S: Final = 0.25
HEAD: Final = ""
"""Name of the head among the watched hosts."""
HEAD_LOSS_GRACE_S: Final = 40.0
"""Hosts continue without a head; after a minute Ray ends every process of the cluster."""
START_DELAY_S: Final = 1.0
"""From the call to the start: Ray delivers a call within milliseconds, and the engine opens its
files and starts its threads."""


class HostLost(msgspec.Struct, frozen=True, kw_only=True):
    """A host that did not answer.

    Attributes:
        host: Its name.
        how: ``died`` if its process or node ended, ``unreachable`` if Ray's connection broke,
            ``silent`` if its kernel did not answer for the heartbeat limit or no answer came in
            time, ``failed`` if our actor raised an error.
        noticed_s: Time of detection after the call, or after the START of a sample.
        detail: Message of Ray or of the error.
    """

    host: str
    how: str
    noticed_s: float
    detail: str = ""

    @property
    def words(self) -> str:
        """Name and cause, such as ``host2 died (out of memory)``."""
        return f"{self.host} {self.how} ({self.detail or 'no answer'})"

    def since_start(self) -> LostHost:
        """Return its record, with the time since the start of the sample."""
        noticed_s = max(0.0, self.noticed_s - START_DELAY_S)
        return LostHost(name=self.host, how=self.how, noticed_s=noticed_s, detail=self.detail)


def require_same_content(
    contents: Mapping[str, Mapping[str, Any]], what: str, cause: str, next_step: str
) -> None:
    """Check that all hosts see the same file.

    Args:
        contents: Answer of ``HostActor.content`` by host name.
        what: The file, in words.
        cause: The error's cause, and its next step.
        next_step: See above.

    Raises:
        TargetError: when one has another file, or none.
    """
    first = next(iter(contents.values()))
    for name, found in contents.items():
        same = all(found.get(key) == first.get(key) for key in ("size_bytes", "head", "tail"))
        if not same or "obstacle" in found:
            raise TargetError(
                seen=f"{name} does not see {what} as the other hosts do: "
                f"{found.get('obstacle', 'its content differs')}",
                cause=cause,
                next_step=next_step,
            )


def known_clocks(readings: Mapping[str, ClockOffset | HostLost]) -> dict[str, ClockOffset]:
    """Return the clocks of the hosts that answered."""
    return {name: each for name, each in readings.items() if isinstance(each, ClockOffset)}


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """One host with our actor.

    Attributes:
        name: Its host name, with its address if several have the same.
        node: Ray's node.
        actor: Ray's handle of the ``HostActor``.
        port: Port of its ``LinkServer``.
        cpus: Its processors, whatever number of them Ray may use.
        versions: Versions of Seatrial and Python.
    """

    name: str
    node: Node
    actor: Any
    port: int
    cpus: int
    versions: dict[str, str]


def hosts_in_turn(remaining: Sequence[Host], count: int, round_number: int) -> list[Host]:
    """Return the hosts of a round; they take turns where a cell needs fewer than all."""
    first = round_number % len(remaining)
    hosts = [remaining[(first + number) % len(remaining)] for number in range(count)]
    return sorted(hosts, key=remaining.index)


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What errors of a common run say.

    Attributes:
        used: What the hosts use, such as ``server``.
        cause: Why a host may be lost before the start.
        next_step: The errors' next step.
    """

    used: str
    cause: str
    next_step: str


@dataclass(frozen=True, kw_only=True)
class CommonRun:
    """Work that hosts began at one instant.

    Attributes:
        start_ns: That instant, of this machine's monotonic clock.
        finished: Hosts with a result.
        results: Their results, by name.
        lost: Hosts without one.
        before: Clocks of all hosts before the start, by name.
        after: Clocks at the end; without hosts that no longer answer.
    """

    start_ns: int
    finished: list[Host]
    results: Mapping[str, Any]
    lost: list[HostLost]
    before: dict[str, ClockOffset]
    after: dict[str, ClockOffset]


class Group:
    """Hosts with an actor on each; a context manager that ends the actors.

    Attributes:
        hosts: In the order of their addresses.
        missing: Hosts on which no actor could be started.
        lost: Names of the hosts that were lost since.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.hosts: list[Host] = []
        self.missing: list[HostLost] = []
        self.lost: set[str] = set()
        self._heartbeats = Heartbeats()
        self._head_lost_at_s: float | None = None
        address, _, port = cluster.address.rpartition(":")
        self._heartbeats.watch(HEAD, address.strip("[]"), int(port), is_ours=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._heartbeats.close()
        # Without a head the call fails; the hosts' daemons end the actors within a minute.
        for host in () if self.cluster.is_lost else self.hosts:
            self.cluster.ray.kill(host.actor, no_restart=True)

    def start_on_nodes(self, nodes: Sequence[Node]) -> None:
        """Start our actor on these nodes, without reserving processors.

        Raises:
            ClusterError: when it starts on none of them.
        """
        from ray.util.scheduling_strategies import (  # noqa: PLC0415 - optional
            NodeAffinitySchedulingStrategy,
        )

        strategies = [NodeAffinitySchedulingStrategy(node_id=n.id, soft=False) for n in nodes]
        self._start(nodes, [{"num_cpus": 0, "scheduling_strategy": s} for s in strategies])

    def start_spread(self, count: int) -> None:
        """Start our actor on ``count`` hosts, with a processor reserved on each.

        Raises:
            ClusterError: when the cluster has too few hosts with a free processor.
        """
        from ray.util.placement_group import placement_group  # noqa: PLC0415 - optional
        from ray.util.scheduling_strategies import (  # noqa: PLC0415 - likewise
            PlacementGroupSchedulingStrategy,
        )

        usable = [node for node in self.cluster.nodes() if node.cpus >= 1]
        if len(usable) < count:
            raise ClusterError(
                seen=f"The study needs {count} hosts, and the cluster has {len(usable)} with a "
                f"free processor: {', '.join(_names(usable)) or 'none'}",
                cause="Hosts are missing, or were started with --num-cpus=0, as a head is",
                next_step="Add hosts with `ray start --address=HEAD:6379`, or use fewer in "
                "[hosts] counts",
            )
        ray = self.cluster.ray
        group = placement_group([{"CPU": 1}] * count, strategy="STRICT_SPREAD")
        if not group.wait(START_S):
            raise ClusterError(
                seen=f"Ray did not find {count} hosts with a free processor within {START_S:g} s",
                cause="Other work on the cluster occupies their processors",
                next_step="See `ray status`, and wait for the other work to end",
            )
        node_ids = ray.util.placement_group_table(group)["bundles_to_node_id"]
        # Hosts may have joined or left since they were counted.
        nodes = self.cluster.nodes()
        ranks = {node.id: rank for rank, node in enumerate(nodes)}
        if any(node_id not in ranks for node_id in node_ids.values()):
            raise ClusterError(
                seen="A host left the cluster while Seatrial was starting on it",
                cause="It was just stopped, or its network was cut",
                next_step="See `ray status`, and try again",
            )
        order = sorted(range(count), key=lambda bundle: ranks[node_ids[bundle]])
        strategies = [
            PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)
            for bundle in order
        ]
        self._start(
            [nodes[ranks[node_ids[bundle]]] for bundle in order],
            [{"num_cpus": 1, "scheduling_strategy": each} for each in strategies],
        )

    def _start(self, nodes: Sequence[Node], options: Sequence[Mapping[str, Any]]) -> None:
        actor_class = self.cluster.ray.remote(HostActor)
        actors = [
            actor_class.options(
                max_restarts=0, max_task_retries=0, max_concurrency=2, **each
            ).remote(node.address)
            for node, each in zip(nodes, options, strict=True)
        ]
        names = _names(nodes)
        answers = self._answers(
            names, [actor.versions.remote() for actor in actors], START_S, time.monotonic()
        )
        for name, node, actor in zip(names, nodes, actors, strict=True):
            found = answers[name]
            if isinstance(found, HostLost):
                self.missing.append(found)
                continue
            port, cpus = int(found.pop("port")), int(found.pop("cpus"))
            self.hosts.append(
                Host(name=name, node=node, actor=actor, port=port, cpus=cpus, versions=found)
            )
            self._heartbeats.watch(name, node.address, port)
        if not self.hosts:
            raise ClusterError(
                seen="Seatrial did not start on any host"
                + "".join(f"; {each.host}: {each.detail}" for each in self.missing[:1]),
                cause="Seatrial is not installed there in the Python that runs Ray, or Ray is too "
                "busy to start it",
                next_step="Run `pip install 'seatrial[ray]'` on every host, before `ray start`",
            )

    def ask(
        self,
        method: str,
        *arguments: object,
        hosts: Sequence[Host] | None = None,
        timeout_s: float = CALL_S,
    ) -> dict[str, Any]:
        """Call a method of every host's actor concurrently; return the answers by host name.

        The answer of a lost host is a ``HostLost``.
        """
        return self.call_each(
            lambda actor, _: getattr(actor, method).remote(*arguments), hosts, timeout_s
        )

    def call_each(
        self,
        call: Callable[[Any, Host], Any],
        hosts: Sequence[Host] | None = None,
        timeout_s: float = CALL_S,
        stop_on_loss: Callable[[HostLost], bool] | None = None,
    ) -> dict[str, Any]:
        """Call every host's actor by a function that returns Ray's reference.

        Args:
            call: Makes the call.
            hosts: All by default.
            timeout_s: Time until a host counts as silent.
            stop_on_loss: Called for each loss until it returns true.

        Raises:
            PartialResult: when the head died before, or dies and the hosts are not done
                ``HEAD_LOSS_GRACE_S`` later.
        """
        called = self.hosts if hosts is None else hosts
        if self._is_head_lost():
            raise self._head_error()
        began_s = time.monotonic()
        references = [call(host.actor, host) for host in called]
        names = [host.name for host in called]
        return self._answers(names, references, timeout_s, began_s, stop_on_loss)

    def _answers(
        self,
        names: Sequence[str],
        references: Sequence[Any],
        timeout_s: float,
        began_s: float,
        stop_on_loss: Callable[[HostLost], bool] | None = None,
    ) -> dict[str, Any]:
        ray = self.cluster.ray
        answers: dict[str, Any] = {}
        waiting = dict(zip(references, names, strict=True))
        while waiting and time.monotonic() - began_s < timeout_s:
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=POLL_S)
            for reference in ready:
                name = waiting.pop(reference)
                answers[name] = self._answer(name, reference, began_s)
                lost = answers[name]
                if isinstance(lost, HostLost) and stop_on_loss and stop_on_loss(lost):
                    stop_on_loss = None
            if self._is_head_lost(HEAD_LOSS_GRACE_S):
                raise self._head_error()
            for lost in self._unresponsive(waiting.values(), began_s):
                waiting = {each: name for each, name in waiting.items() if name != lost.host}
                answers[lost.host] = lost
                if stop_on_loss and stop_on_loss(lost):
                    stop_on_loss = None
        silent_s = time.monotonic() - began_s
        for name in waiting.values():
            answers[name] = HostLost(host=name, how="silent", noticed_s=silent_s)
        return {name: answers[name] for name in names}

    def _is_head_lost(self, since_s: float = 0.0) -> bool:
        """Return whether the head was lost at least ``since_s`` ago."""
        if HEAD not in self._heartbeats.lost():
            return False
        if self._head_lost_at_s is None:
            self._head_lost_at_s = time.monotonic()
            self.cluster.is_lost = True
        return time.monotonic() - self._head_lost_at_s >= since_s

    def _head_error(self) -> PartialResult:
        return PartialResult(
            seen=f"The head of the cluster at {self.cluster.address} is gone; all earlier "
            "samples are stored",
            cause="Its machine, its network or its Ray daemons failed",
            next_step="Start the cluster again, and continue with --resume",
        )

    def _unresponsive(self, names: Iterable[str], began_s: float) -> list[HostLost]:
        """Return the hosts whose kernels have closed their connection or do not answer."""
        found = self._heartbeats.lost()
        details = {
            "died": "its process or its node ended",
            "silent": f"no heartbeat for {LIMIT_S:g} s",
        }
        return [
            HostLost(
                host=name,
                how=found[name],
                noticed_s=time.monotonic() - began_s,
                detail=details[found[name]],
            )
            for name in names
            if name in found
        ]

    def _answer(self, name: str, reference: Any, began_s: float) -> Any:  # noqa: ANN401 - any
        ray = self.cluster.ray
        try:
            return ray.get(reference)
        except ray.exceptions.RayError as error:
            return HostLost(
                host=name,
                how=_classify_loss(ray, error),
                noticed_s=time.monotonic() - began_s,
                detail=_detail(ray, error),
            )

    def clocks(self, hosts: Sequence[Host] | None = None) -> dict[str, ClockOffset | HostLost]:
        """Return the clock offset of each host against this machine."""
        found: dict[str, ClockOffset | HostLost] = {}
        for host in self.hosts if hosts is None else hosts:
            began_s = time.monotonic()
            try:
                found[host.name] = clock_offset(host.node.address, host.port)
            except OSError as error:
                found[host.name] = HostLost(
                    host=host.name,
                    how="silent",
                    noticed_s=time.monotonic() - began_s,
                    detail=error.strerror or str(error),
                )
        return found

    def remaining(self) -> list[Host]:
        """Return the hosts that were not lost."""
        return [host for host in self.hosts if host.name not in self.lost]

    def drop_silent(self) -> None:
        """Count as lost the hosts that no longer answer."""
        readings = self.clocks(self.remaining())
        self.lost |= {name for name, each in readings.items() if isinstance(each, HostLost)}

    def stop(self, hosts: Iterable[Host]) -> None:
        """End the work of hosts, without waiting."""
        for host in hosts:
            host.actor.stop.remote()

    def require_all(self, answers: Mapping[str, Any], advice: Advice) -> None:
        """Check that every host answered before the start of common work.

        Raises:
            PartialResult: when one did not.
        """
        lost = [answer for answer in answers.values() if isinstance(answer, HostLost)]
        if lost:
            self.lost |= {each.host for each in lost}
            raise PartialResult(
                seen=f"{'; '.join(each.words for each in lost)}, before the next test began; all "
                "earlier samples are stored",
                cause=advice.cause,
                next_step=advice.next_step,
            )

    def run_together(
        self,
        hosts: Sequence[Host],
        call: Callable[[Mapping[str, int]], Mapping[str, Any]],
        advice: Advice,
    ) -> CommonRun:
        """Let hosts work from one instant on; read their clocks before and after.

        Args:
            hosts: The hosts.
            call: Gets the start by each host's own monotonic clock, by name (ns), and returns the
                answers as ``call_each``.
            advice: For the errors.

        Raises:
            PartialResult: when a host was lost before the start.
            TargetError: when no host finished.
        """
        readings = self.clocks(hosts)
        self.require_all(readings, advice)
        before = known_clocks(readings)
        start_ns = time.monotonic_ns() + int(START_DELAY_S * 1e9)
        answers = call({name: start_ns + each.offset_ns for name, each in before.items()})
        lost = [answer for answer in answers.values() if isinstance(answer, HostLost)]
        self.lost |= {each.host for each in lost}
        results = {n: answer for n, answer in answers.items() if not isinstance(answer, HostLost)}
        finished = [host for host in hosts if host.name in results]
        if not finished:
            raise TargetError(
                seen=f"No host is left: {'; '.join(each.words for each in lost)}",
                cause=f"All hosts died, stopped responding, or could not use the {advice.used}",
                next_step=advice.next_step,
            )
        return CommonRun(
            start_ns=start_ns,
            finished=finished,
            results=results,
            lost=lost,
            before=before,
            after=known_clocks(self.clocks(finished)),
        )


@contextmanager
def group_of_hosts(address: str, count: int | None = None) -> Iterator[Group]:
    """Connect to a cluster, and start our actor on ``count`` of its hosts.

    Args:
        address: Address of the head, as for ``connect``.
        count: Number of hosts; None for all with a free processor.

    Raises:
        ClusterError: when it cannot be used, or has too few hosts with a free processor.
    """
    with connect(address) as cluster, Group(cluster) as group:
        usable = sum(node.cpus >= 1 for node in cluster.nodes())
        group.start_spread(max(1, usable) if count is None else count)
        yield group


def _classify_loss(ray: Any, error: Exception) -> str:  # noqa: ANN401 - an optional module
    """Classify the loss of a host by Ray's error; an error of our actor is a failure."""
    errors = ray.exceptions
    if isinstance(error, errors.RayTaskError) or not isinstance(error, errors.RayActorError):
        return "failed"
    return "unreachable" if isinstance(error, errors.ActorUnavailableError) else "died"


def _detail(ray: Any, error: Exception) -> str:  # noqa: ANN401 - an optional module
    """Return the message of an error in one sentence, without Ray's identifiers."""
    text = str(getattr(error, "cause", None) or error).strip() or type(error).__name__
    if isinstance(error, ray.exceptions.RayTaskError):
        return text.splitlines()[-1]
    if isinstance(error, ray.exceptions.ActorUnavailableError):
        return "its connection broke"
    return "its process or its node ended"


def _names(nodes: Sequence[Node]) -> list[str]:
    names = [node.host for node in nodes]
    return [
        node.host if names.count(node.host) == 1 else f"{node.host} ({node.address})"
        for node in nodes
    ]
