"""The cost of observing a database: pgbench alone against pgbench with all sampling on.

    bench/observe.py               the figures of bench/RESULTS.md: 12 rounds, about three minutes
    bench/observe.py --quick       one short round, printed and not written: does it run?

In each round pgbench runs three times in a new random order: alone, alone once more, and with
its log of every transaction (-l) and the observer with it. Only the ratios are claims. `alone
again` is the same command a second time: how far its ratio strays from 1 is how far the other can
be trusted. On a machine with other work the transactions per second scatter widely; the processor
time that server, pgbench and observer together take for a transaction scatters far less. It is
that from the start of pgbench to its end: what the observer takes to connect before, and to read
the last figures behind, no transaction waits for, and it is a figure of its own.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from command import at_least, parsed_options, run_bench
from own_cluster import own_cluster
from paired import Bar, median_estimate, paired_ratio, reported
from results_page import table

from seatrial.errors import SeatrialError
from seatrial.machine.fingerprint import ProcessTree
from seatrial.postgres.cluster import Cluster
from seatrial.postgres.server import Server
from seatrial.stats.model import Estimate
from seatrial.stats.wording import format_plural
from seatrial.trials.database.measure.observe import Observations, Observer

SECTION: Final = "observe"
ALONE: Final = "alone"
AGAIN: Final = "alone again"
OBSERVED: Final = "observed"
CONTENDERS: Final = (ALONE, AGAIN, OBSERVED)
SLOWER_MOST: Final = 1.02
OWN_SHARE_MOST: Final = 0.02
SCALE: Final = 10
CLIENTS: Final = 4
IDLE_S: Final = 5
# Nothing that would fall into one sample and not into another; the rest is as the server has it.
SETTINGS: Final = {
    "autovacuum": "off",
    "checkpoint_timeout": "1d",
    "max_wal_size": "64GB",
    "full_page_writes": "off",
}


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """All that a run of the bench measured.

    Attributes:
        conditions: The machine and the versions, as Markdown items.
        tps: Transactions per second by contender, one value per round.
        cpu_ns: Processor time per transaction of all processes together, likewise.
        observer_shares: The observer's own processor time, as a share of one processor.
        own_shares: Seatrial's processor time, its session with the server included, over that of
            server and pgbench; one per round.
        around_ns: The observer's processor time before the load and behind it, its session's
            included; one per round.
        idle_share: What it takes of one processor with an idle server.
        seconds: Length of a sample.
        seed: Of the order.
        loads: Load averages, one per round.
    """

    conditions: Sequence[str]
    tps: dict[str, list[float]]
    cpu_ns: dict[str, list[float]]
    observer_shares: list[float]
    own_shares: list[float]
    around_ns: list[float]
    idle_share: float
    seconds: int
    seed: int
    loads: list[float]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One run of pgbench.

    Attributes:
        tps: Transactions per second, as pgbench prints them.
        cpu_ns: Processor time per transaction of server, pgbench and this process, while pgbench
            runs.
        around_ns: Processor time of all of them before that and behind it, for observing.
        seen: What the observer saw; None without it.
    """

    tps: float
    cpu_ns: float
    around_ns: float = 0.0
    seen: Observations | None = None


class Bench:
    """A loaded server on the checkout's disk and the pgbench that comes with it."""

    def __init__(self, cluster: Cluster, server: Server, logs: Path) -> None:
        self._program = str(cluster.binaries.program("pgbench"))
        self._server = server
        self._logs = logs
        self._trees = (
            ProcessTree(server.pid),
            ProcessTree(os.getpid(), without=[server.pid]),
        )

    def load(self, warm_up_s: int) -> None:
        """Fill the tables, and warm up the server and what observes it."""
        self._pgbench("--initialize", f"--scale={SCALE}", "--quiet")
        self.alone(warm_up_s)
        self.observed(warm_up_s)

    def alone(self, seconds: int) -> Sample:
        """Run pgbench alone."""
        before_ns = self._cpu_ns()
        printed = self._tpc_b(seconds)
        return self._sample(printed, self._cpu_ns() - before_ns)

    def observed(self, seconds: int) -> Sample:
        """Run pgbench with its log of every transaction, and the observer with it."""
        before_ns = self._cpu_ns()
        observer = self._observer()
        observer.start()
        begun_ns = self._cpu_ns()
        printed = self._tpc_b(seconds, "--log", f"--log-prefix={self._logs / 'log'}")
        ended_ns = self._cpu_ns()
        seen = observer.stop()
        around_ns = begun_ns - before_ns + self._cpu_ns() - ended_ns
        for log in self._logs.glob("log.*"):
            log.unlink()
        return replace(self._sample(printed, ended_ns - begun_ns), around_ns=around_ns, seen=seen)

    def idle_share(self, seconds: int) -> float:
        """Return what Seatrial takes of one processor with an idle server, session included."""
        observer = self._observer()
        observer.start()
        time.sleep(seconds)
        counters = observer.stop().counters
        return counters["seatrial_cpu_ns"] / counters["counters_elapsed_ns"]

    def _observer(self) -> Observer:
        server = self._server
        return Observer(
            server.address,
            data_folder=server.data_folder,
            server_pid=server.pid,
            client_pids=[os.getpid()],
        )

    def _sample(self, printed: str, cpu_ns: float) -> Sample:
        found = {
            name: float(figure)
            for line in printed.splitlines()
            for name, figure in re.findall(r"^(tps|.*actually processed)\s*[=:]\s*([\d.]+)", line)
        }
        tps, transactions = found.pop("tps"), next(iter(found.values()))
        return Sample(tps=tps, cpu_ns=cpu_ns / transactions)

    def _cpu_ns(self) -> float:
        """Return the processor time of the server, this process and all that they started."""
        usages = [tree.usage() for tree in self._trees]
        return sum(usage.user_ns + usage.system_ns for usage in usages if usage is not None)

    def _tpc_b(self, seconds: int, *more: str) -> str:
        return self._pgbench("--no-vacuum", f"--time={seconds}", f"--client={CLIENTS}", *more)

    def _pgbench(self, *options: str) -> str:
        ended = subprocess.run(
            [self._program, *options],
            env=self._server.address.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
        return ended.stdout


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    return parsed_options(
        arguments,
        __doc__,
        rounds=12,
        rounds_help="how often each contender runs",
        quick_help="one round of short samples",
        quick={"seconds": 1},
        own={"--seconds": {"type": at_least(1), "default": 4, "help": "length of a sample"}},
    )


def measure(options: argparse.Namespace) -> BenchResult:
    """Create a server, load it, run the rounds, remove everything.

    Raises:
        SeatrialError: When there is no PostgreSQL, or it does not run here.
        CalledProcessError: When pgbench fails.
    """
    with own_cluster("observe") as own, own.cluster.start(SETTINGS) as server:
        bench = Bench(own.cluster, server, own.folder)
        bench.load(options.seconds)
        return run_rounds(bench, own.conditions, options)


def run_rounds(bench: Bench, conditions: list[str], options: argparse.Namespace) -> BenchResult:
    """Let every contender run once a round, in a new random order."""
    rng = random.Random(options.seed)
    samples: dict[str, list[Sample]] = {name: [] for name in CONTENDERS}
    loads: list[float] = []
    for number in range(1, options.rounds + 1):
        for name in rng.sample(CONTENDERS, len(CONTENDERS)):
            measure_one = bench.observed if name == OBSERVED else bench.alone
            samples[name].append(measure_one(options.seconds))
        loads.append(os.getloadavg()[0])
        print(f"round {number} of {options.rounds}", file=sys.stderr)
    counters = [sample.seen.counters for sample in samples[OBSERVED] if sample.seen]
    return BenchResult(
        conditions=conditions,
        tps={name: [sample.tps for sample in taken] for name, taken in samples.items()},
        cpu_ns={name: [sample.cpu_ns for sample in taken] for name, taken in samples.items()},
        observer_shares=[
            each["observer_cpu_ns"] / each["counters_elapsed_ns"] for each in counters
        ],
        own_shares=[
            each["seatrial_cpu_ns"] / (each["server_cpu_ns"] + each["client_cpu_ns"])
            for each in counters
        ],
        around_ns=[sample.around_ns for sample in samples[OBSERVED]],
        idle_share=bench.idle_share(IDLE_S),
        seconds=options.seconds,
        seed=options.seed,
        loads=loads,
    )


def section(measured: BenchResult) -> str:
    """Return the bench's section as Markdown."""
    tps, cpu_ns = measured.tps, measured.cpu_ns
    ratios = {
        # More transactions per second is less time for each, so this ratio is inverted.
        f"{what}, {contender} / {ALONE}": ratio
        for contender in (OBSERVED, AGAIN)
        for what, ratio in (
            ("time per transaction", paired_ratio(tps[ALONE], tps[contender])),
            ("processor time per transaction", paired_ratio(cpu_ns[contender], cpu_ns[ALONE])),
        )
    }
    loads = median_estimate(measured.loads, "load")
    shares = median_estimate([100 * share for share in measured.observer_shares], "percent")
    around = median_estimate([ns / 1e6 for ns in measured.around_ns], "ms")
    rows = [
        [
            name,
            reported(median_estimate(tps[name], "tps"), 0),
            reported(median_estimate([ns / 1e3 for ns in cpu_ns[name]], "us"), 0),
        ]
        for name in CONTENDERS
    ]
    return "\n\n".join(
        [
            "## Observing a database: pgbench with all sampling on",
            f"Written by `bench/observe.py` on {datetime.now(UTC):%Y-%m-%d} (UTC), "
            f"{format_plural(len(measured.loads), 'round')} of samples of {measured.seconds} s, "
            f"order from seed {measured.seed}. TPC-B at scale {SCALE}, {CLIENTS} clients; no "
            "checkpoint, vacuum or image of a full page falls into a sample. Observed: `pgbench "
            "--log`, and the observer reads the machine and the server's statistics every second "
            "and the waits ten times a second. Intervals are of at least 95 %, by order statistics "
            "over rounds.",
            "\n".join(
                [
                    *measured.conditions,
                    f"- load average during the rounds: {reported(loads, 1)}",
                    f"- the observer's threads: {reported(shares, 1)} % of one processor; with "
                    f"an idle server, with its session there: {100 * measured.idle_share:.1f} %, "
                    "measured once",
                    f"- processor time of its begin and end, before and behind the load: "
                    f"{reported(around, 0)} ms",
                ]
            ),
            table(
                ["figure", "bar", "measured", "verdict"],
                [own_row(measured), *(_ratio_row(what, ratio) for what, ratio in ratios.items())],
            ),
            table(["pgbench", "transactions per second", "processor time of each, µs"], rows),
        ]
    )


def own_row(measured: BenchResult) -> list[str]:
    """Return the row of what Seatrial itself used: counted by the kernel, so no noise of two runs.

    What it costs others otherwise (locks, caches, pgbench's log) is in the ratios alone.
    """
    bar = Bar(
        what="processor time, Seatrial / server and pgbench",
        most=OWN_SHARE_MOST,
        estimate=median_estimate(measured.own_shares, "ratio"),
        digits=4,
    )
    return [bar.what, f"{bar.most:g}", reported(bar.estimate, bar.digits), bar.verdict]


def _ratio_row(what: str, ratio: Estimate) -> list[str]:
    """Return a row of the ratios; that of two runs alike has no bar, for it is the noise."""
    if AGAIN in what:
        return [what, "", reported(ratio, 3), "the noise"]
    bar = Bar(what=what, most=SLOWER_MOST, estimate=ratio, digits=3)
    return [what, f"{bar.most:g}", reported(ratio, bar.digits), bar.verdict]


if __name__ == "__main__":
    run_bench(
        SECTION,
        options_of(sys.argv[1:]),
        lambda options: section(measure(options)),
        (subprocess.CalledProcessError, SeatrialError),
    )
