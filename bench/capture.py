"""The cost of a capture: pgbench directly to a server, and with `seatrial sql capture`.

    bench/capture.py               the figures of bench/RESULTS.md: 12 rounds, about 30 minutes
    bench/capture.py --packets     without the proxy: 12 rounds, about 6 minutes; as root
    bench/capture.py --quick       one round of short runs, printed and not written: does it run?

The worst case: server, proxy and pgbench share the processors, 8 clients are always at work, and
nothing waits for a disk. In each round pgbench does each load once directly, once more directly
(its ratio to itself is the noise), once through the proxy, and once through
crates/capture/examples/forward.rs, which forwards without recording: the cost of the hop alone. The
order is random; connections are Unix sockets, and TCP over the loopback interface. A proxy is
started for each run and its trace is written to the disk; its processor time is what the kernel
counted at its end.

With --packets it is `seatrial sql capture --interface lo` in place of the proxy and the forwarder:
the load goes directly to the server by TCP while its packets are captured. A run in which the
kernel dropped a packet, or the trace lacks a statement, ends the bench. The senders spend the
kernel's time for it, so that it is in the throughput but not in the capture's processor time:
crates/capture/examples/ring.rs, which receives the same packets without reading them, shows it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import replay_server
from command import at_least, parsed_options, run_bench
from example import build_example
from own_cluster import own_cluster
from paired import Bar, median_estimate, paired_ratio, reported
from results_page import table

from seatrial.errors import SeatrialError
from seatrial.postgres.cluster import Cluster
from seatrial.postgres.server import Server
from seatrial.stats.model import Estimate
from seatrial.stats.wording import format_plural

SECTION: Final = "capture"
PACKETS_SECTION: Final = "capture-packets"
CLIENTS: Final = 8
SCALE: Final = 10
LOST_SHARE_MOST: Final = 0.20
PACKETS_LOST_SHARE_MOST: Final = 0.05
STRAIGHT, AGAIN, THROUGH = "straight", "straight again", "through the proxy"
BARE: Final = "through a bare forwarder"
PACKETS: Final = "with packets captured"
RING: Final = "with packets that nobody looks into"
FORWARDER: Final = "forward"
RING_EXAMPLE: Final = "ring"
RECORDER: Final = "recorder"
"""The thread that writes the trace; another one writes the rest at the end."""
REAPED_S_MAX: Final = 2.0
"""Time limit for the server's processes to end after their clients."""
TCP_ADDRESS: Final = "127.0.5.32"
"""Of the loopback interface, where no other server listens by default."""
TCP_ANY: Final = "127.0.0.1:0"
SETTINGS: Final = replay_server.SETTINGS | {"fsync": "off"}
CAPTURE: Final = """
import json, sys
from seatrial import _core
capture = _core.start_sql_capture(sys.argv[1])
print(*capture.places, flush=True)
sys.stdin.readline()
capture.stop()
capture.wait(1e6)
print(capture.result(), flush=True)
"""


@dataclass(frozen=True, kw_only=True)
class Load:
    """A load of pgbench.

    Attributes:
        name: Its name.
        arguments: Arguments of pgbench.
        statements: Statements of a transaction.
    """

    name: str
    arguments: tuple[str, ...]
    statements: int


LOADS: Final = (
    Load(name="-S, simple", arguments=("-S", "-M", "simple"), statements=1),
    Load(name="-S, prepared", arguments=("-S", "-M", "prepared"), statements=1),
    Load(name="TPC-B, simple", arguments=("-M", "simple"), statements=7),
    Load(name="TPC-B, prepared", arguments=("-M", "prepared"), statements=7),
)
TRANSPORTS: Final = ("socket", "TCP")


@dataclass
class Runs:
    """What the rounds of one load by one transport measured, one value per round.

    Attributes:
        per_s: Transactions per second, by contender.
        capture_us: The capture's processor time per statement.
        bare_us: That of the forwarder that records nothing.
        writing_us: The part of ``capture_us`` that writes the trace.
        wakes: Waits of its threads per 1,000 statements.
        trace_bytes: Size of the trace per statement.
        all_us: Processor time of pgbench, server and capture per transaction, by contender.
    """

    per_s: dict[str, list[float]] = field(
        default_factory=lambda: {STRAIGHT: [], AGAIN: [], THROUGH: [], BARE: []}
    )
    capture_us: list[float] = field(default_factory=list)
    bare_us: list[float] = field(default_factory=list)
    writing_us: list[float] = field(default_factory=list)
    wakes: list[float] = field(default_factory=list)
    trace_bytes: list[float] = field(default_factory=list)
    all_us: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


class LostError(Exception):
    """The capture lost something, or pgbench failed."""


class Bench:
    """A server, pgbench, and captures of it."""

    def __init__(self, server: Server, cluster: Cluster, folder: Path, duration_s: int) -> None:
        self._examples: dict[str, Path] = {}
        self._server = server
        self._cluster = cluster
        self._folder = folder
        self._duration_s = duration_s
        self._load_us = 0.0

    @property
    def load_us(self) -> float:
        """Processor time of pgbench and the server for a transaction of the last run."""
        return self._load_us

    def straight(self, load: Load, transport: str) -> float:
        """Return transactions per second without a proxy."""
        return self._pgbench(load, *self._endpoint(transport))[0]

    def through(self, load: Load, transport: str, runs: Runs) -> float:
        """Return transactions per second through a proxy, whose cost goes into ``runs``.

        Raises:
            LostError: When the proxy's trace lacks a statement.
        """
        host, port = self._endpoint(transport)
        socket = transport == "socket"
        listen = {"host": str(self._folder), "port": 6432} if socket else {"port": 0}
        trace = self._folder / "t.trace"
        spec = {"listen": [listen], "server": {"host": host, "port": port}, "output": str(trace)}

        def at(endpoint: str) -> tuple[str, int]:
            return (
                (str(self._folder), 6432) if socket else ("127.0.0.1", int(endpoint.split(":")[1]))
            )

        return self._captured(load, spec, at, runs)

    def packets(self, load: Load, transport: str, runs: Runs) -> float:
        """Return transactions per second while packets are captured; the cost goes into ``runs``.

        Raises:
            LostError: When the trace lacks a statement, or the kernel dropped a packet.
        """
        host, port = self._endpoint(transport)
        spec = {
            "packets": {"interface": "lo"},
            "server": {"host": host, "port": port},
            "output": str(self._folder / "t.trace"),
        }
        return self._captured(load, spec, lambda _: (host, port), runs)

    def _captured(
        self,
        load: Load,
        spec: dict[str, Any],
        at: Callable[[str], tuple[str, int]],
        runs: Runs,
    ) -> float:
        """Return transactions per second of clients that connect where ``at`` says."""
        command = [sys.executable, "-c", CAPTURE, json.dumps(spec)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as capture:
            assert capture.stdout is not None
            assert capture.stdin is not None
            endpoint = capture.stdout.readline().strip()
            began_s = _processor_s(capture.pid)
            per_s, transactions = self._pgbench(load, *at(endpoint))
            threads = _threads(capture.pid)
            read_s = _processor_s(capture.pid) - began_s - threads[RECORDER].processor_s
            capture.stdin.write("end\n")
            capture.stdin.flush()
            captured = json.loads(capture.stdout.readline())
            spent_s = _processor_s(capture.pid) - began_s
        accounting, seen = captured["accounting"], captured["capture"].get("packets")
        statements = accounting["statements"]
        is_lost = seen is not None and seen["dropped"] + seen["gaps"] > 0
        if is_lost or accounting["unreadable"] or statements < transactions * load.statements:
            raise LostError(f"{load.name}: {statements} statements, {accounting}, {seen}")
        runs.capture_us.append(spent_s / statements * 1e6)
        runs.writing_us.append((spent_s - read_s) / statements * 1e6)
        runs.wakes.append(sum(thread.waits for thread in threads.values()) / statements * 1e3)
        self._load_us += spent_s / transactions * 1e6
        runs.trace_bytes.append(captured["trace_bytes"] / statements)
        return per_s

    def bare(self, load: Load, transport: str, runs: Runs) -> float:
        """Return transactions per second through the forwarder, whose cost goes into ``runs``.

        Raises:
            LostError: When pgbench failed.
        """
        host, port = self._endpoint(transport)
        socket = transport == "socket"
        listen = self._folder / ".s.PGSQL.6433"
        listen.unlink(missing_ok=True)
        ends = (str(listen), f"{host}/.s.PGSQL.{port}") if socket else (TCP_ANY, f"{host}:{port}")
        command = [self._example(FORWARDER), *ends]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forwarder:
            assert forwarder.stdout is not None
            endpoint = forwarder.stdout.readline().strip()
            at = (str(self._folder), 6433) if socket else ("127.0.0.1", int(endpoint.split(":")[1]))
            began_s = _processor_s(forwarder.pid)
            try:
                per_s, transactions = self._pgbench(load, *at)
                spent_s = _processor_s(forwarder.pid) - began_s
            finally:
                forwarder.kill()
        runs.bare_us.append(spent_s / (transactions * load.statements) * 1e6)
        return per_s

    def ring(self, load: Load, transport: str) -> float:
        """Return transactions per second while the kernel delivers packets that nothing reads.

        Raises:
            LostError: When pgbench failed, or the kernel dropped a packet.
        """
        host, port = self._endpoint(transport)
        command = [self._example(RING_EXAMPLE), "lo", str(port)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as ring:
            assert ring.stdout is not None
            assert ring.stdin is not None
            ring.stdout.readline()
            began_s = _processor_s(ring.pid)
            per_s, transactions = self._pgbench(load, host, port)
            spent_s = _processor_s(ring.pid) - began_s
            ring.stdin.close()
            packets, dropped = map(int, ring.stdout.readline().split())
        if dropped > 0 or packets < 2 * transactions * load.statements:
            raise LostError(f"{load.name}: {packets} packets, {dropped} of them dropped")
        self._load_us += spent_s / transactions * 1e6
        return per_s

    def _example(self, name: str) -> str:
        if name not in self._examples:
            self._examples[name] = build_example("capture", name)
        return str(self._examples[name])

    def fill(self) -> None:
        """Create pgbench's tables."""
        address = self._server.address
        self._run(
            "--initialize", "--quiet", f"--scale={SCALE}", host=address.host, port=address.port
        )

    def _endpoint(self, transport: str) -> tuple[str, int]:
        address = self._server.address
        return (address.host if transport == "socket" else TCP_ADDRESS, address.port)

    def _pgbench(self, load: Load, host: str, port: int) -> tuple[float, int]:
        arguments = ["-n", f"-c{CLIENTS}", "-j1", f"-T{self._duration_s}", *load.arguments]
        began_s, processes = self._load_s(), self._server_processes()
        printed = self._run(*arguments, host=host, port=port)
        until_s = time.monotonic() + REAPED_S_MAX
        while self._server_processes() > processes and time.monotonic() < until_s:
            time.sleep(0.01)
        spent_s = self._load_s() - began_s
        rate = re.search(r"tps = ([0-9.]+) \(without", printed)
        count = re.search(r"actually processed: ([0-9]+)", printed)
        if rate is None or count is None:
            raise LostError(f"pgbench printed no rate: {printed}")
        self._load_us = spent_s / int(count[1]) * 1e6
        return float(rate[1]), int(count[1])

    def _server_processes(self) -> int:
        """Return how many processes the server has; those that ended count to its time."""
        pid = self._server.pid
        return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())

    def _load_s(self) -> float:
        """Return what children of ours and the server's that have ended used of processors."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ended.ru_utime + ended.ru_stime + _processor_s(self._server.pid, with_ended=True)

    def _run(self, *arguments: str, host: str, port: int) -> str:
        address = self._server.address
        environment = {
            "PGHOST": host,
            "PGPORT": str(port),
            "PGUSER": address.user,
            "PGDATABASE": address.dbname,
            "PGSSLMODE": "disable",
        }
        done = subprocess.run(
            [self._cluster.binaries.program("pgbench"), *arguments],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise LostError(f"pgbench failed: {done.stderr}")
        return done.stdout


def _processor_s(pid: int, *, with_ended: bool = False) -> float:
    """Return what a process has used of processors so far (proc_pid_stat(5), fields 14 to 17).

    Args:
        pid: The process.
        with_ended: Whether its children that have ended count, too.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_ended else 13])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Thread:
    """What a thread has done so far.

    Attributes:
        processor_s: What it used of processors.
        waits: How often it waited.
    """

    processor_s: float
    waits: int


def _threads(pid: int) -> dict[str, Thread]:
    """Return the threads of a process by their names."""
    threads = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        waits = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.M)
        assert waits is not None
        processor_ns = int((task / "schedstat").read_text().split()[0])
        name = (task / "comm").read_text().strip()
        threads[name] = Thread(processor_s=processor_ns / 1e9, waits=int(waits[1]))
    return threads


@contextmanager
def server_on(cluster: Cluster) -> Iterator[Server]:
    """Start a server that takes connections by TCP as well."""
    with cluster.start(SETTINGS) as server:
        address = server.address
        listen = f"ALTER SYSTEM SET listen_addresses TO '{TCP_ADDRESS}'"
        subprocess.run(
            [cluster.binaries.program("psql"), "-X", "-q", "-c", listen],
            env=address.environment(base=os.environ),
            check=True,
        )
    rules = cluster.folder / "pg_hba.conf"
    rules.write_text("local all all trust\nhost all all 127.0.0.0/8 trust\n")
    with cluster.start(SETTINGS) as server:
        yield server


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    return parsed_options(
        arguments,
        __doc__,
        rounds=12,
        rounds_help="how often every load runs over each transport",
        quick_help="one round of short runs",
        quick={"duration_s": 1},
        own={
            "--duration": {
                "dest": "duration_s",
                **{"type": at_least(1), "default": 4, "help": "of a run, in s"},
            },
            "--packets": {"action": "store_true", "help": "from packets, without the proxy"},
        },
    )


def measured(options: argparse.Namespace) -> str:
    """Run the rounds; return the section.

    Raises:
        LostError: When the capture lost something, or pgbench failed.
        SeatrialError: When there is no server to be had.
    """
    compared = (STRAIGHT, AGAIN, PACKETS, RING)
    transports = ("TCP",) if options.packets else TRANSPORTS
    rng = random.Random(options.seed)
    loads: list[float] = []
    all_runs = {
        (load, transport): Runs(per_s={who: [] for who in compared}) if options.packets else Runs()
        for load in LOADS
        for transport in transports
    }
    with (
        own_cluster("capture") as own,
        tempfile.TemporaryDirectory(prefix="seatrial-capture-") as short,
        server_on(own.cluster) as server,
    ):
        bench = Bench(server, own.cluster, Path(short), options.duration_s)
        bench.fill()
        for number in range(1, options.rounds + 1):
            one_round(bench, all_runs, rng)
            loads.append(os.getloadavg()[0])
            print(f"round {number} of {options.rounds}", file=sys.stderr)
    conditions = [
        *own.conditions,
        f"- scale {SCALE}, fsync off; {CLIENTS} clients in one thread of pgbench; runs of "
        f"{options.duration_s} s",
        f"- load average at the end of rounds: {reported(median_estimate(loads, 'load'), 1)}; "
        f"niceness {os.nice(0)}",
    ]
    write = packets_section if options.packets else section
    return write(all_runs, conditions, options)


def one_round(bench: Bench, all_runs: dict[tuple[Load, str], Runs], rng: random.Random) -> None:
    """Run every load over each transport once, in an order drawn from ``rng``."""
    for (load, transport), runs in rng.sample(list(all_runs.items()), len(all_runs)):
        for who in rng.sample(list(runs.per_s), len(runs.per_s)):
            if who == THROUGH:
                per_s = bench.through(load, transport, runs)
            elif who == PACKETS:
                per_s = bench.packets(load, transport, runs)
            elif who == RING:
                per_s = bench.ring(load, transport)
            elif who == BARE:
                per_s = bench.bare(load, transport, runs)
            else:
                per_s = bench.straight(load, transport)
            runs.per_s[who].append(per_s)
            runs.all_us[who].append(bench.load_us)


def _lost(before: list[float], after: list[float]) -> Estimate:
    """Return what share of the rate was lost, inside each round."""
    shares = [1 - less / more for more, less in zip(before, after, strict=True)]
    return median_estimate(shares, "share")


def section(
    all_runs: dict[tuple[Load, str], Runs], conditions: list[str], options: argparse.Namespace
) -> str:
    """Return the bench's section as Markdown."""
    rows = []
    for (load, transport), runs in all_runs.items():
        straight, through = runs.per_s[STRAIGHT], runs.per_s[THROUGH]
        lost = _lost(straight, through)
        bar = Bar(what=f"{load.name}, by {transport}", most=LOST_SHARE_MOST, estimate=lost)
        rows.append(
            [
                bar.what,
                reported(median_estimate(straight, "tps"), 0),
                reported(median_estimate(through, "tps"), 0),
                f"{LOST_SHARE_MOST:.2f}",
                reported(lost, 2),
                bar.verdict,
                reported(_lost(straight, runs.per_s[BARE]), 2),
                reported(paired_ratio(through, runs.per_s[BARE]), 2),
                reported(paired_ratio(straight, runs.per_s[AGAIN]), 2),
                reported(median_estimate(runs.capture_us, "us"), 1),
                reported(median_estimate(runs.bare_us, "us"), 1),
                reported(median_estimate(runs.trace_bytes, "bytes"), 1),
            ]
        )
    head = ["load", "straight, tps", "through the proxy, tps", "bar", "lost", "verdict"]
    head += ["lost through a bare forwarder", "proxy / bare", "straight / again (the noise)"]
    head += ["proxy, µs a statement", "bare, µs a statement", "trace, bytes a statement"]
    return "\n\n".join(
        [
            "## The capture proxy",
            f"Written by `bench/capture.py` on {datetime.now(UTC):%Y-%m-%d} (UTC), "
            f"{format_plural(options.rounds, 'round')}, order from seed {options.seed}. Server, "
            "proxy and pgbench share the processors, and nothing waits for a disk: a worst case. "
            "Lost is 1 - through / straight inside each round. The bare forwarder passes on and "
            "records nothing: what it loses is the path through two more sockets. Intervals are of "
            "at least 95 %, by order statistics over rounds.",
            "\n".join(conditions),
            table(head, rows),
        ]
    )


def packets_section(
    all_runs: dict[tuple[Load, str], Runs], conditions: list[str], options: argparse.Namespace
) -> str:
    """Return the section on packets as Markdown."""
    rows = []
    for (load, transport), runs in all_runs.items():
        straight, with_packets = runs.per_s[STRAIGHT], runs.per_s[PACKETS]
        lost = _lost(straight, with_packets)
        bar = Bar(what=f"{load.name}, by {transport}", most=PACKETS_LOST_SHARE_MOST, estimate=lost)
        rows.append(
            [
                bar.what,
                reported(median_estimate(straight, "tps"), 0),
                reported(median_estimate(with_packets, "tps"), 0),
                f"{PACKETS_LOST_SHARE_MOST:.2f}",
                reported(lost, 3),
                bar.verdict,
                reported(_lost(straight, runs.per_s[AGAIN]), 3),
                reported(paired_ratio(runs.all_us[PACKETS], runs.all_us[STRAIGHT]), 3),
                reported(paired_ratio(runs.all_us[RING], runs.all_us[STRAIGHT]), 3),
                reported(paired_ratio(runs.all_us[AGAIN], runs.all_us[STRAIGHT]), 3),
                reported(median_estimate(runs.capture_us, "us"), 2),
                reported(median_estimate(runs.writing_us, "us"), 2),
                reported(median_estimate(runs.wakes, "waits"), 1),
                reported(median_estimate(runs.trace_bytes, "bytes"), 1),
            ]
        )
    head = ["load", "straight, tps", "with packets captured, tps", "bar", "lost", "verdict"]
    head += ["straight again: lost (the noise)", "processor time of all: with / straight"]
    head += ["nobody looks into them / straight", "straight again / straight"]
    head += ["capture, µs a statement", "of this, to write the trace"]
    head += ["waits for 1,000 statements", "trace, bytes a statement"]
    return "\n\n".join(
        [
            "## The capture from packets",
            f"Written by `bench/capture.py --packets` on {datetime.now(UTC):%Y-%m-%d} (UTC), "
            f"{format_plural(options.rounds, 'round')}, order from seed {options.seed}. Server, "
            "capture and pgbench share the processors, and nothing waits for a disk: a worst case. "
            "Lost is 1 - with / straight inside each round; every statement is in the trace, and "
            "the kernel dropped no packet. The capture's own time leaves out what the kernel "
            "spends for it in the senders' time; "
            "the processor time of all has it: that of pgbench, server and capture for a "
            "transaction. With packets that nobody looks into, it is the kernel's work alone. "
            "Intervals are of at least 95 %, by order "
            "statistics over rounds.",
            "\n".join(conditions),
            table(head, rows),
        ]
    )


if __name__ == "__main__":
    parsed = options_of(sys.argv[1:])
    run_bench(
        PACKETS_SECTION if parsed.packets else SECTION,
        parsed,
        measured,
        (LostError, SeatrialError, subprocess.CalledProcessError),
    )
