"""A cluster on one machine: a head, and hosts that are namespaces of the kernel.

Each host has its own network, process table, name, temporary folder and, optionally, monotonic
clock; a bridge joins them. Hosts can be killed, disconnected, paused or given another clock. Root
is needed. Everything is in the undo journal; changes by processes of a host are in that host's own
journals, below the folder of the lab.

Source: namespaces(7), time_namespaces(7), veth(4), unshare(1); the nodes of a Ray session share the
path of its temporary folder, so that each host mounts its own folder there.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from seatrial.errors import TargetError
from seatrial.fleet import clock_shift
from seatrial.fleet.cluster import SETTINGS, Node, connect, ray_module
from seatrial.fleet.relay import Impairment, RelayRequest, measure_cost, start_relay
from seatrial.fleet.undoing import STATE, processes_of_host
from seatrial.machine.undo_journal import UndoJournal
from seatrial.process_identity import start_ticks

START_TIMEOUT_S: Final = 240.0
OBJECT_STORE_BYTES: Final = 80_000_000
FOLDERS: Final = Path("/var/tmp")  # noqa: S108 - the folder's name is random
HEALTH: Final = {
    "health_check_initial_delay_ms": 5_000,
    "health_check_period_ms": 1_000,
    "health_check_timeout_ms": 5_000,
    "health_check_failure_threshold": 5,
}
"""A host is declared dead after about 5 x (1 + 5) s without an answer, as busy ones answer late, or
5 s after its kernel refuses connections."""


class LabRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of a lab.

    Attributes:
        hosts_count: Number of hosts, without the head.
        delay_ms: Added to each packet from or to a host; 0 for none.
        loss_percent: Share of lost packets in each direction; 0 for none.
        seed: Seed of the losses of a relay.
        clock_shifts_s: By how much a host's monotonic clock is ahead, by its number from 1.
        sets_clocks: Whether the time of day of hosts can be set while they run.
        own_paths: Paths at which each host has a folder of its own.
    """

    hosts_count: int
    delay_ms: float = 0.0
    loss_percent: float = 0.0
    seed: int = 0
    clock_shifts_s: dict[int, float] = {}
    sets_clocks: bool = False
    own_paths: list[str] = []


class FleetLab:
    """A lab; a context manager that removes everything on exit.

    Attributes:
        address: Address of the head.
        notes: Peculiarities of this machine, as sentences.
    """

    def __init__(self, request: LabRequest, journal: UndoJournal) -> None:
        self._request = request
        self._journal = journal
        self._name = f"sf{secrets.token_hex(3)}"
        self._folder = FOLDERS / self._name
        self._subnet = f"10.{secrets.randbelow(100) + 100}.{secrets.randbelow(250) + 1}"
        self._hosts: dict[int, subprocess.Popen[bytes]] = {}
        self._clock_library: Path | None = None
        self._relay: subprocess.Popen[bytes] | None = None
        self.address = ""
        self.notes: list[str] = []

    def __enter__(self) -> Self:
        _require_tools()
        try:
            self._build()
        except BaseException:
            self._journal.undo_all()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self._journal.undo_all()

    def _build(self) -> None:
        entry = self._journal.record("fleet_folder", path=str(self._folder))
        self._journal.amend(entry, own_paths=self._request.own_paths)
        (self._folder / "ray").mkdir(parents=True)
        if self._request.sets_clocks:
            self._clock_library = clock_shift.build(self._folder)
        self._create_networks()
        port = _free_port()
        self.address = f"{self._subnet}.1:{port}"
        self._start(0, self._head_command(port))
        _wait_for_port(self._subnet + ".1", port, self._hosts[0], self._log(0))
        for number in self._numbers():
            self._start(number, self._host_command(number))
        self._wait_for_hosts()

    def _numbers(self) -> range:
        return range(1, self._request.hosts_count + 1)

    def name_of(self, number: int) -> str:
        """Return the host name of a host."""
        return f"host{number}"

    def _link(self, number: int) -> str:
        return f"{self._name}v{number}"

    def _create_networks(self) -> None:
        """Create the bridge and the hosts' networks."""
        bridge = f"{self._name}b"
        self._journal.record("fleet_bridge", name=bridge)
        _ip("link", "add", bridge, "type", "bridge")
        _ip("address", "add", f"{self._subnet}.1/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        is_impaired = self._request.delay_ms or self._request.loss_percent
        is_relayed = bool(is_impaired) and not _has_netem(bridge)
        if is_relayed:
            self._start_relay()
        for number in self._numbers():
            space, link = f"{self._name}-{number}", self._link(number)
            self._journal.record("fleet_namespace", name=space)
            _ip("netns", "add", space)
            if is_relayed:
                _ip("link", "set", f"{link}i", "netns", space, "name", "eth0")
            else:
                # A pair of links is gone with the namespace that holds one of them.
                _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", link, "master", bridge, "up")
            _ip("-n", space, "address", "add", f"{self._subnet}.{number + 1}/24", "dev", "eth0")
            for each in ("lo", "eth0"):
                _ip("-n", space, "link", "set", each, "up")
            _ip("-n", space, "route", "add", "default", "via", f"{self._subnet}.1")
            if is_impaired and not is_relayed:
                self._impair(link, space)
        if is_relayed:
            found = measure_cost(f"{self._subnet}.2", self._impairment, self._relay_statistics)
            self.notes.append(found.words)

    @property
    def _impairment(self) -> Impairment:
        request = self._request
        return Impairment(
            delay_ms=request.delay_ms, loss_percent=request.loss_percent, seed=request.seed
        )

    @property
    def _relay_statistics(self) -> Path:
        return self._folder / "relay"

    def _start_relay(self) -> None:
        """Create the links of all hosts and the process that relays their frames."""
        links = [self._link(number) for number in self._numbers()]
        request = RelayRequest(
            pairs=[(link, f"{link}i") for link in links],
            impairment=self._impairment,
            statistics=str(self._relay_statistics),
        )
        self._relay = start_relay(request, self._journal, _environment())

    def _impair(self, link: str, space: str) -> None:
        """Have the kernel delay and lose packets to and from a host."""
        request = self._request
        netem = ["root", "netem", "delay", f"{request.delay_ms:g}ms"]
        netem += ["loss", f"{request.loss_percent:g}%"]
        for command in (
            ["tc", "qdisc", "add", "dev", link, *netem],
            ["ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", "eth0", *netem],
        ):
            subprocess.run(command, check=True, capture_output=True)

    def _head_command(self, port: int) -> str:
        options = {
            "node-ip-address": f"{self._subnet}.1",
            "port": port,
            "num-cpus": 0,
            "include-dashboard": "false",
            "dashboard-agent-listen-port": _free_port(),
            "temp-dir": self._folder / "ray",
            "system-config": json.dumps(HEALTH),
        }
        return f"exec {_ray('start --head', options)}"

    def _host_command(self, number: int) -> str:
        own = self._host_folder(number)
        (own / "hosts").write_text(self._hosts_file(), encoding="utf-8")
        (own / "resolv.conf").write_text("", encoding="utf-8")
        lines = [f"hostname {self.name_of(number)}"]
        mounts = {
            str(self._folder / "ray"): own / "ray",
            "/etc/hosts": own / "hosts",
            "/etc/resolv.conf": own / "resolv.conf",
        }
        for index, path in enumerate(self._request.own_paths):
            mounts[path] = own / f"disk{index}"
        for mount_point, source in mounts.items():
            if not source.exists():
                source.mkdir()
            lines.append(f"mount --bind {shlex.quote(str(source))} {shlex.quote(mount_point)}")
        options = {
            "address": self.address,
            "node-ip-address": f"{self._subnet}.{number + 1}",
            "num-cpus": 1,
        }
        lines.append(f"exec {_ray('start', options)}")
        return " && ".join(lines)

    def _hosts_file(self) -> str:
        lines = ["127.0.0.1 localhost", f"{self._subnet}.1 head"]
        lines += [f"{self._subnet}.{n + 1} {self.name_of(n)}" for n in self._numbers()]
        return "\n".join(lines) + "\n"

    def _host_folder(self, number: int) -> Path:
        """Return the folder of a host; 0 is the head."""
        own = self._folder / f"host{number}"
        own.mkdir(exist_ok=True)
        return own

    def _log(self, number: int) -> Path:
        return self._folder / f"log{number}"

    def _start(self, number: int, script: str) -> None:
        """Start a host; 0 is the head, which keeps the network and name of this machine."""
        # A copy of a mount in here must not keep it busy when it is unmounted outside.
        spaces = ["--mount", "--propagation", "slave", "--pid", "--fork"]
        command = ["unshare", *spaces, "--kill-child", "--mount-proc"]
        if number:
            inside = ["ip", "netns", "exec", f"{self._name}-{number}"]
            command = [*inside, *command, "--uts"]
            if shift_s := self._request.clock_shifts_s.get(number):
                command += ["--time", "--monotonic", f"{shift_s:g}", "--boottime", f"{shift_s:g}"]
        # Whoever removes the lab undoes a killed host's journals, and sees that it has ended.
        environment = _environment() | {
            "SEATRIAL_STATE_DIR": str(self._host_folder(number) / STATE)
        }
        if number and self._clock_library:
            clock_shift.write_shift(self._clock(number), 0.0)
            environment |= clock_shift.environment(self._clock_library, self._clock(number))
        with self._log(number).open("wb") as log:
            process = subprocess.Popen(
                [*command, "sh", "-c", script],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._journal.record(
            "fleet_host", pid=process.pid, start_ticks=start_ticks(process.pid) or 0
        )
        self._hosts[number] = process

    def _wait_for_hosts(self, without: Collection[str] = ()) -> None:
        """Wait until all hosts are in the cluster, and none of the nodes ``without``."""
        give_up_at_s = time.monotonic() + START_TIMEOUT_S
        wanted = self._request.hosts_count
        with connect(self.address) as cluster:
            while not _is_complete(cluster.nodes(), wanted, without):
                for number, process in self._hosts.items():
                    if process.poll() is not None:
                        raise _start_error(number, self._log(number))
                if time.monotonic() > give_up_at_s:
                    raise _start_error(wanted, self._log(wanted))
                time.sleep(0.5)

    # Faults.

    def kill(self, number: int) -> None:
        """Kill all processes of a host at once, as a power cut would."""
        self._hosts[number].kill()

    def restart(self, number: int) -> None:
        """Restart a host with its network, and end its remaining processes.

        Raises:
            TargetError: when it does not come up.
        """
        self.restore_link(number)
        self.kill(number)
        self._hosts[number].wait()
        address = f"{self._subnet}.{number + 1}"
        with connect(self.address) as cluster:
            former = {node.id for node in cluster.nodes() if node.address == address}
        shutil.rmtree(self._host_folder(number) / "ray", ignore_errors=True)
        self._start(number, self._host_command(number))
        self._wait_for_hosts(without=former)

    def cut_link(self, number: int) -> None:
        """Take a host's link down."""
        _ip("link", "set", self._link(number), "down")

    def restore_link(self, number: int) -> None:
        """Bring a host's link up again."""
        _ip("link", "set", self._link(number), "up")

    def pause(self, number: int, pause_s: float) -> None:
        """Pause all processes of a host."""
        found = processes_of_host(self._hosts[number].pid)
        _signal(found, signal.SIGSTOP)
        try:
            time.sleep(pause_s)
        finally:
            _signal(found, signal.SIGCONT)

    def set_clock(self, number: int, ahead_s: float) -> None:
        """Set the offset of a host's time of day from the machine's.

        Raises:
            ValueError: when the lab was built without ``sets_clocks``.
        """
        if self._clock_library is None:
            raise ValueError("the lab was built without sets_clocks")
        clock_shift.write_shift(self._clock(number), ahead_s)

    def _clock(self, number: int) -> Path:
        return self._folder / f"clock{number}"


def _has_netem(device: str) -> bool:
    """Return whether the kernel has netem; the device is unchanged afterwards."""
    command = ["tc", "qdisc", "add", "dev", device, "root", "netem", "delay", "0ms"]
    if (
        shutil.which("tc") is None
        or subprocess.run(command, check=False, capture_output=True).returncode
    ):
        return False
    subprocess.run(["tc", "qdisc", "del", "dev", device, "root"], check=True, capture_output=True)
    return True


def _is_complete(nodes: Sequence[Node], hosts_count: int, without: Collection[str]) -> bool:
    return len(nodes) == hosts_count + 1 and not any(node.id in without for node in nodes)


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _ray(what: str, options: Mapping[str, Any]) -> str:
    words = [shlex.quote(sys.executable), "-m", "ray.scripts.scripts", what, "--block"]
    words += ["--disable-usage-stats", f"--object-store-memory={OBJECT_STORE_BYTES}"]
    words += ["--include-log-monitor=false"]
    return " ".join(
        [*words, *(f"--{name}={shlex.quote(str(value))}" for name, value in options.items())]
    )


def _environment() -> dict[str, str]:
    paths = [path for path in sys.path if path]
    return {**os.environ, **SETTINGS, "PYTHONPATH": os.pathsep.join(paths)}


def _require_tools() -> None:
    ray_module()
    missing = [name for name in ("ip", "unshare", "mount") if shutil.which(name) is None]
    if os.geteuid() == 0 and not missing:
        return
    raise TargetError(
        seen=f"The lab lacks {', '.join(missing)}" if missing else "The lab needs root",
        cause="Its hosts are kernel namespaces with separate networks",
        next_step="Install iproute2 and util-linux, or run it with sudo",
    )


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        raise TargetError(
            seen=f"`ip {' '.join(arguments)}` failed: {done.stderr.strip()}",
            cause="The kernel or a container forbids creating networks",
            next_step="Run it on a machine where `ip netns add test` works",
        )


def _free_port() -> int:
    with socket.create_server(("", 0)) as server:
        return int(server.getsockname()[1])


def _wait_for_port(host: str, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up_at_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < give_up_at_s and process.poll() is None:
        with suppress(OSError):
            socket.create_connection((host, port), timeout=1.0).close()
            return
        time.sleep(0.2)
    raise _start_error(0, log)


def _start_error(number: int, log: Path) -> TargetError:
    name = f"Host {number}" if number else "The head"
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return TargetError(
        seen=f"{name} of the lab did not start: {lines[-1] if lines else 'without output'}",
        cause="Ray could not start there: too little memory, or a machine that is too busy",
        next_step=f"Read {log}, and try it with fewer hosts",
    )
