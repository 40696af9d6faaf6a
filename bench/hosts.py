"""The cost of many hosts against one: the rate of a server, and how far apart they start.

    bench/hosts.py                 ten rounds, each loading the server in every setup once
    bench/hosts.py --quick         one round: does it run?

A head and four hosts of the lab are on this machine, with its processors, as is the server: nothing
can be gained by more hosts, and what is measured is what they cost. In each round the same number
of clients loads one PostgreSQL by `seatrial db`: all in one process of this machine, all on one
host, half on each of two, a quarter on each of four, in a new random order; and four hosts read
one file together, for the start of block I/O. It needs root.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote

from command import parsed_options, run_bench
from own_cluster import own_cluster
from paired import median_estimate, paired_ratio, reported
from results_page import table

from seatrial.errors import SeatrialError
from seatrial.fleet.lab import FleetLab, LabRequest
from seatrial.machine.undo_journal import UndoJournal
from seatrial.postgres.server import Server
from seatrial.results.fleet import FleetRecord
from seatrial.results.model import Sample
from seatrial.results.store import ResultsFile
from seatrial.stats.wording import format_duration_ns, format_plural

SECTION: Final = "hosts"
HOSTS: Final = 4
CLIENTS: Final = 8
SECONDS: Final = 5
HERE, ONE, TWO, FOUR = "one process", "one host", "two hosts", "four hosts"
SETUPS: Final = {HERE: 0, ONE: 1, TWO: 2, FOUR: 4}
"""How many hosts of the cluster load; 0 without one."""
FILE: Final = "file"
STUDY: Final = """
name = "starts"
[rounds]
min = 1
max = 1
[hosts]
counts = [{hosts}]
[[target]]
path = "{path}"
size = "32MiB"
[[workload]]
kind = "io"
operations = "read"
block_sizes = "4KiB"
threads = 1
seconds = 1
"""
SHARES: Final = (0.5, 0.9, 1.0)


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """All that a run of the bench measured.

    Attributes:
        conditions: The machine and the versions, as Markdown items.
        per_s: Transactions per second by setup, one value per round.
        reads: The hosts that read a file together, one record per round.
        loaded: The hosts that loaded the server, one record per sample of several.
        seed: Of the order.
        loads: Load averages, one per round.
    """

    conditions: Sequence[str]
    per_s: dict[str, list[float]]
    reads: list[FleetRecord]
    loaded: list[FleetRecord]
    seed: int
    loads: list[float]


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    return parsed_options(arguments, __doc__, rounds=10, rounds_help="how often in each setup")


def measure(options: argparse.Namespace) -> BenchResult:
    """Run the rounds.

    Raises:
        CalledProcessError: When a command fails.
        SeatrialError: When there is no PostgreSQL, or no lab can be built here.
    """
    rng = random.Random(options.seed)
    per_s: dict[str, list[float]] = {setup: [] for setup in SETUPS}
    reads: list[FleetRecord] = []
    loaded: list[FleetRecord] = []
    loads = []
    with (
        own_cluster("hosts") as own,
        own.cluster.start({}) as server,
        UndoJournal(f"bench-hosts-lab-{os.getpid()}") as journal,
        FleetLab(LabRequest(hosts_count=HOSTS), journal) as lab,
        tempfile.TemporaryDirectory(dir="/var/tmp") as name,
    ):
        folder = Path(name)
        for number in range(1, options.rounds + 1):
            for setup in rng.sample([*SETUPS, FILE], len(SETUPS) + 1):
                if setup == FILE:
                    reads.append(fleet_of(read_file(folder, lab.address)))
                    continue
                sample = load_server(folder, server, lab.address, SETUPS[setup])
                per_s[setup].append(sample.completed_per_s)
                if SETUPS[setup] > 1:
                    loaded.append(fleet_of(sample))
            loads.append(os.getloadavg()[0])
            print(f"round {number} of {options.rounds}", file=sys.stderr)
        return BenchResult(
            conditions=own.conditions,
            per_s=per_s,
            reads=reads,
            loaded=loaded,
            seed=options.seed,
            loads=loads,
        )


def load_server(folder: Path, server: Server, ray: str, hosts: int) -> Sample:
    """Load a server once with all clients, on so many hosts.

    Raises:
        CalledProcessError: When the command fails.
    """
    address = server.address
    url = f"postgresql://{quote(address.user)}@/{address.dbname}"
    url += f"?host={quote(str(address.host), safe='')}&port={address.port}"
    words = ["db", "--url", url, "--clients", str(CLIENTS // (hosts or 1)), "--clone", "reuse"]
    words += ["--seconds", str(SECONDS), "--scale", "10"]
    return measured(folder, [*words, *(["--ray", ray, "--hosts", str(hosts)] if hosts else [])])


def read_file(folder: Path, ray: str) -> Sample:
    """Have all hosts read a file once.

    Raises:
        CalledProcessError: When the command fails.
    """
    study = folder / "study.toml"
    study.write_text(STUDY.format(hosts=HOSTS, path=folder))
    return measured(folder, ["study", str(study), "--ray", ray])


def measured(folder: Path, words: Sequence[str]) -> Sample:
    """Run a command of Seatrial that measures one sample; return that.

    Raises:
        CalledProcessError: When it fails.
    """
    results = folder / "results.seatrial"
    command = [sys.executable, "-m", "seatrial", *words, "--results", str(results)]
    command += ["--no-report", "--progress", "none"]
    if words[0] == "db":
        command += ["--rounds", "1"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)
    with ResultsFile.open(results, read_only=True) as store:
        (sample,) = store.samples(store.runs()[-1].id)
    for each in folder.glob(f"{results.name}*"):
        each.unlink()
    return sample


def fleet_of(sample: Sample) -> FleetRecord:
    """Return what a sample kept of its hosts.

    Raises:
        ValueError: When it was measured by no cluster.
    """
    if sample.fleet is None:
        raise ValueError(f"the sample of {sample.cell.key} has no hosts")
    return sample.fleet


def share_at(values: Sequence[int], share: float) -> str:
    """Return the value that such a share of them is at most, as a text."""
    return format_duration_ns(sorted(values)[math.ceil(share * len(values)) - 1])


def section(result: BenchResult) -> str:
    """Return the bench's section as Markdown."""
    per_s = result.per_s
    rows = [
        [f"{setup}, transactions per second", reported(median_estimate(own, "tps"), 0)]
        for setup, own in per_s.items()
    ]
    rows += [
        [f"{setup} / {against}, rate", reported(paired_ratio(per_s[setup], per_s[against]), 3)]
        for setup, against in ((ONE, HERE), (TWO, ONE), (FOUR, ONE))
    ]
    received = [host.received_bytes_per_s for each in result.reads for host in each.hosts]
    rows.append(
        ["received by a host that reads a file, B/s", reported(median_estimate(received, "B/s"), 0)]
    )
    starts = [
        [name, str(len(records)), *(share_at([r.skew_ns for r in records], s) for s in SHARES)]
        for name, records in (
            ("four hosts that read a file", result.reads),
            ("two and four hosts with pgbench", result.loaded),
        )
    ]
    first_ns = [host.lateness_ns for each in result.loaded for host in each.hosts]
    by_start = sum(each <= 0 for each in first_ns)
    return "\n\n".join(
        [
            "## Many hosts against one",
            f"Written by `bench/hosts.py` on {datetime.now(UTC):%Y-%m-%d} (UTC), "
            f"{format_plural(len(result.loads), 'round')}, order from seed {result.seed}. "
            f"{CLIENTS} clients in all load one server for {SECONDS} s: in one process of this "
            "machine, or on hosts of the lab, which share its processors. So the ratios are what "
            "hosts cost.",
            "\n".join(
                [
                    *result.conditions,
                    "- load average during the rounds: "
                    + reported(median_estimate(result.loads, "load"), 1),
                ]
            ),
            table(["figure", "measured"], rows),
            table(["starts apart", "samples", "median", "90th percentile", "largest"], starts),
            f"Of {len(first_ns)} hosts, pgbench of {by_start} loaded the server by the start: the "
            f"median one {format_duration_ns(max(0, -round(statistics.median(first_ns))))} before.",
        ]
    )


if __name__ == "__main__":
    run_bench(
        SECTION,
        options_of(sys.argv[1:]),
        lambda options: section(measure(options)),
        (subprocess.CalledProcessError, SeatrialError),
    )
